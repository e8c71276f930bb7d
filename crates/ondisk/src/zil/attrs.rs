//! The optional attributes at the end of a create or setattr record.
//!
//! ```text
//! 0 number of map words u32   4 map u32[]: which attributes were asked for
//! then values u64 (same bits)  creation time (2 words)  scan stamp (32 bytes) or project u64
//! ```

use crate::cursor::{Reader, Writer};
use crate::error::{ErrorKind, Result};

/// Words in the map; every OpenZFS writes 3, of which the first is used.
const MAP_WORDS: usize = 3;
/// Bytes of the whole part.
pub(super) const EXTRA_ATTRS_SIZE: usize = 4 + 4 * MAP_WORDS + 8 + 16 + 32;

/// Bits of the map and of the values word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are those of crate::znode::flags")]
pub enum AttrBit {
    /// The creation time is given.
    CreateTime = 0x1,
    Archive = 0x2,
    System = 0x4,
    ReadOnly = 0x8,
    Hidden = 0x10,
    NoUnlink = 0x20,
    Immutable = 0x40,
    AppendOnly = 0x80,
    NoDump = 0x100,
    Opaque = 0x200,
    AvQuarantined = 0x400,
    AvModified = 0x800,
    /// The scan stamp is given.
    AvScanStamp = 0x1000,
    Reparse = 0x2000,
    Generation = 0x4000,
    Offline = 0x8000,
    Sparse = 0x1_0000,
    ProjInherit = 0x2_0000,
    /// The project is given, in the place of the scan stamp.
    ProjectId = 0x4_0000,
}

/// The attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraAttrs {
    /// Which are to be set.
    pub map: [u32; MAP_WORDS],
    /// The new values of those that are single bits.
    pub values: u64,
    /// Creation time: seconds and nanoseconds.
    pub create_time: [u64; 2],
    /// Scan stamp; or the project in its first eight bytes.
    pub stamp: [u8; 32],
}

impl ExtraAttrs {
    /// Whether the attribute is to be set.
    #[must_use]
    pub fn asks(&self, bit: AttrBit) -> bool {
        self.map[0] & bit as u32 != 0
    }

    /// The value of a single-bit attribute, if it is to be set.
    #[must_use]
    pub fn value(&self, bit: AttrBit) -> Option<bool> {
        self.asks(bit).then_some(self.values & u64::from(bit as u32) != 0)
    }

    /// The project, if it is to be set. OpenZFS copies it in the order of the writing machine.
    #[must_use]
    pub fn project(&self, endian: crate::Endian) -> Option<u64> {
        let word = self.stamp.first_chunk::<8>()?;
        self.asks(AttrBit::ProjectId).then(|| endian.u64(*word))
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self> {
        let words = r.u32("attr_masksize")?;
        if words as usize != MAP_WORDS {
            let (value, n) = (words.into(), MAP_WORDS as u64);
            let kind = ErrorKind::OutOfRange { value, min: n, max: n };
            return Err(r.error("attr_masksize", kind));
        }
        let mut map = [0; MAP_WORDS];
        for w in &mut map {
            *w = r.u32("attr_bitmap")?;
        }
        Ok(Self {
            map,
            values: r.u64("attr_attrs")?,
            create_time: r.words("attr_crtime")?,
            stamp: r.array("attr_scanstamp")?,
        })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u32(MAP_WORDS as u32);
        for word in self.map {
            w.u32(word);
        }
        w.u64(self.values).words(&self.create_time).bytes(&self.stamp);
    }
}
