//! Vdev labels: where they are on a device and what is in which part.
//!
//! Specified in `docs/format/label.md`. Every device has four identical labels of 256 KiB, two at
//! its start and two at its end, so that neither an overwritten start nor end loses the pool. A
//! pool updates the odd and the even ones in turn, so that a crash leaves one pair whole.
//!
//! ```text
//! device   L0 | L1 | boot area 3.5 MiB | allocatable space ... | L2 | L3 | rest below 256 KiB
//! label    0    blank            8 KiB   (left to disk labels of other systems)
//!          8K   boot environment 8 KiB   (embedded checksum)
//!          16K  configuration  112 KiB   (packed nvlist, embedded checksum)
//!          128K uberblock ring 128 KiB   (an embedded checksum in each slot)
//! ```
//!
//! An embedded checksum is the last 40 bytes of its part: a magic number and a SHA-256 seeded
//! with the part's offset on the device ([`part_offset`]). The I/O layer verifies it; this module
//! only cuts and decodes.

use crate::config::LabelConfig;
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::gang::EMBEDDED_CHECKSUM_SIZE;
use crate::nvlist::NvList;
use crate::uberblock::{RING_SIZE, slot_size};

/// Labels of a device.
pub const LABELS: usize = 4;
/// Size of a label in bytes.
pub const LABEL_SIZE: u64 = 256 << 10;
/// Where allocatable space starts on a device in bytes; offsets in DVAs count from here.
pub const DATA_START: u64 = 4 << 20;
/// Where the boot area starts on a device in bytes. raidz expansion keeps its scratch data here.
pub const BOOT_AREA_START: u64 = 2 * LABEL_SIZE;
/// Size of the boot area in bytes.
pub const BOOT_AREA_SIZE: u64 = DATA_START - BOOT_AREA_START;
/// Bytes behind the allocatable space: two labels.
pub const END_SIZE: u64 = 2 * LABEL_SIZE;

/// A part of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Never written by ZFS.
    Blank,
    /// Boot environment.
    BootEnv,
    /// Packed configuration.
    Config,
    /// Uberblocks.
    Ring,
}

impl Part {
    /// Offset from the start of the label in bytes.
    #[must_use]
    pub const fn start(self) -> u64 {
        match self {
            Self::Blank => 0,
            Self::BootEnv => 8 << 10,
            Self::Config => 16 << 10,
            Self::Ring => 128 << 10,
        }
    }

    /// Size in bytes, embedded checksum included.
    #[must_use]
    pub const fn size(self) -> u64 {
        match self {
            Self::Blank | Self::BootEnv => 8 << 10,
            Self::Config => 112 << 10,
            Self::Ring => RING_SIZE as u64,
        }
    }
}

/// Size of a device as ZFS counts it: whole labels.
#[must_use]
pub fn usable_size(device_size: u64) -> u64 {
    device_size - device_size % LABEL_SIZE
}

/// Bytes between [`DATA_START`] and the labels at the end, 0 when there is no room.
#[must_use]
pub fn data_size(device_size: u64) -> u64 {
    usable_size(device_size).saturating_sub(DATA_START + END_SIZE)
}

/// Offsets of the four labels on a device of that many bytes; `None` when it is too small to
/// have any data space.
#[must_use]
pub fn label_offsets(device_size: u64) -> Option<[u64; LABELS]> {
    if data_size(device_size) == 0 {
        return None;
    }
    let end = usable_size(device_size);
    Some([0, LABEL_SIZE, end - 2 * LABEL_SIZE, end - LABEL_SIZE])
}

/// Offset of a part of label `label` (0 to 3) on a device of that many bytes.
#[must_use]
pub fn part_offset(device_size: u64, label: usize, part: Part) -> Option<u64> {
    Some(label_offsets(device_size)?.get(label)? + part.start())
}

/// A label in memory, cut into its parts.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    data: &'a [u8],
}

impl<'a> Label<'a> {
    /// Takes the 256 KiB of a label.
    pub fn new(data: &'a [u8]) -> Result<Self> {
        if data.len() as u64 == LABEL_SIZE {
            return Ok(Self { data });
        }
        let kind = ErrorKind::Truncated { needed: LABEL_SIZE, available: data.len() as u64 };
        Err(Error { structure: "label", field: "label", offset: 0, kind })
    }

    /// The bytes of a part, embedded checksum included.
    #[must_use]
    pub fn part(&self, part: Part) -> &'a [u8] {
        let start = part.start() as usize;
        self.data.get(start..start + part.size() as usize).unwrap_or_default()
    }

    /// The configuration as a list. An error also where a label was never written or is cleared.
    pub fn nvlist(&self) -> Result<NvList> {
        decode_nvlist(self.part(Part::Config))
    }

    /// The configuration.
    pub fn config(&self) -> Result<LabelConfig> {
        LabelConfig::decode(&self.nvlist()?)
    }

    /// The boot environment.
    pub fn boot_env(&self) -> Result<BootEnv> {
        BootEnv::decode(self.part(Part::BootEnv))
    }

    /// The slots of the uberblock ring of a vdev with sector size exponent `ashift`, each with
    /// its offset inside the label. Empty slots are included.
    pub fn slots(&self, ashift: u64) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let size = slot_size(ashift);
        let starts = (Part::Ring.start()..).step_by(size);
        starts.zip(self.part(Part::Ring).chunks_exact(size))
    }
}

/// Decodes the configuration part of a label (112 KiB, the last 40 bytes are the checksum).
pub fn decode_nvlist(part: &[u8]) -> Result<NvList> {
    NvList::decode(part.get(..part.len().saturating_sub(EMBEDDED_CHECKSUM_SIZE)).unwrap_or(part))
}

/// The area of boot loaders and systems in the label. Not needed to open a pool.
#[derive(Clone, Debug, PartialEq)]
pub enum BootEnv {
    /// All zeros: never written.
    Empty,
    /// Text, as the GRUB boot loader uses it, without the zeros behind it.
    Raw(Vec<u8>),
    /// A list.
    NvList(NvList),
}

impl BootEnv {
    const RAW: u64 = 0;
    const NVLIST: u64 = 1;

    /// Decodes the boot environment part (8 KiB). Its version is big-endian on every machine.
    pub fn decode(part: &[u8]) -> Result<Self> {
        let body = part.get(..part.len().saturating_sub(EMBEDDED_CHECKSUM_SIZE)).unwrap_or(part);
        let mut r = Reader::new("boot environment", body, Endian::Big);
        let version = r.u64("version")?;
        let text = r.bytes("text", r.remaining())?;
        match version {
            Self::RAW => {
                let text = text.split(|b| *b == 0).next().unwrap_or_default();
                Ok(if text.is_empty() { Self::Empty } else { Self::Raw(text.to_vec()) })
            }
            Self::NVLIST => Ok(Self::NvList(NvList::decode(text)?)),
            value => Err(Error {
                structure: "boot environment",
                field: "version",
                offset: 0,
                kind: ErrorKind::Unknown { value },
            }),
        }
    }

    /// Encodes the part without its embedded checksum: 8152 bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let size = Part::BootEnv.size() as usize - EMBEDDED_CHECKSUM_SIZE;
        let mut w = Writer::new(Endian::Big);
        match self {
            Self::Empty => w.u64(Self::RAW),
            Self::Raw(text) => w.u64(Self::RAW).bytes(text),
            Self::NvList(list) => {
                w.u64(Self::NVLIST).bytes(&list.encode(crate::nvlist::Packing::XDR)?)
            }
        };
        let (value, max) = (w.at() as u64, size as u64);
        if value > max {
            let kind = ErrorKind::OutOfRange { value, min: 0, max };
            return Err(Error { structure: "boot environment", field: "text", offset: 8, kind });
        }
        w.pad_to(size);
        Ok(w.into_bytes())
    }
}
