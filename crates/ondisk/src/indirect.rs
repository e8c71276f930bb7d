//! Indirect vdevs: where the blocks of a removed vdev are now.
//!
//! Specified in `docs/format/indirect.md`. Removing a vdev copies what is allocated on it and
//! keeps a mapping from the old addresses to the new ones. The mapping is an object of the MOS
//! named by the vdev's configuration (`com.delphix:indirect_object`): its bonus is
//! [`MappingHeader`], its data [`MappingEntry`]s of 24 bytes sorted by old offset, without overlap.
//! A second object (`com.delphix:indirect_births`, [`BirthEntry`]s) tells in which txg each part
//! was copied; the copies' physical birth is that txg. The vdev's number stays taken, type
//! `indirect`, for ever.
//!
//! Blocks that are freed make parts of the mapping obsolete: per entry a count of obsolete bytes,
//! and a space map. *Condensing* writes a shorter mapping.

use crate::blkptr::{Dva, SECTOR_SIZE};
use crate::cursor::{Endian, Reader, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::scan::State;
use crate::wordstruct::word_struct;

/// Header of a mapping (bonus).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MappingHeader {
    /// Everything below this offset (bytes) is mapped.
    pub max_offset: u64,
    /// Bytes mapped.
    pub bytes_mapped: u64,
    /// Entries in the object's data.
    pub num_entries: u64,
    /// Object with the [obsolete counts](obsolete_counts); `None` in the first form (24 bytes),
    /// which pools without the feature `obsolete_counts` have.
    pub counts_object: Option<u64>,
}

impl MappingHeader {
    /// Decodes a bonus; its length determines the form.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("indirect mapping", data, endian);
        let mut h = Self {
            max_offset: r.u64("max_offset")?,
            bytes_mapped: r.u64("bytes_mapped")?,
            num_entries: r.u64("num_entries")?,
            counts_object: None,
        };
        if r.remaining() >= 8 {
            h.counts_object = Some(r.u64("counts_object")?);
        }
        Ok(h)
    }

    /// Encodes in the form it has.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64(self.max_offset).u64(self.bytes_mapped).u64(self.num_entries);
        if let Some(o) = self.counts_object {
            w.u64(o);
        }
        w.into_bytes()
    }
}

/// One entry of a mapping (24 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingEntry {
    /// Top bit of the first word, a mark of zdb's; never set on disk.
    mark: bool,
    /// Old offset in bytes.
    pub src: u64,
    /// New place; its allocated size is the size of the range, at both places.
    pub dst: Dva,
}

impl MappingEntry {
    /// Bytes on disk.
    pub const SIZE: usize = 24;

    /// A range that was copied. `src` is a multiple of 512.
    #[must_use]
    pub fn new(src: u64, dst: Dva) -> Self {
        Self { mark: false, src, dst }
    }

    /// Decodes the entry at the start of `data`.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("indirect mapping entry", data, endian);
        let word = r.u64("src")?;
        let sectors = word & (u64::MAX >> 1);
        let Some(src) = sectors.checked_mul(SECTOR_SIZE) else {
            let (min, max) = (0, u64::MAX / SECTOR_SIZE);
            return Err(r.error("src", ErrorKind::OutOfRange { value: sectors, min, max }));
        };
        let [d0, d1] = r.words("dst")?;
        Ok(Self { mark: word >> 63 != 0, src, dst: Dva::from_words(d0, d1) })
    }

    /// Encodes into 24 bytes.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64((u64::from(self.mark) << 63) | (self.src / SECTOR_SIZE)).words(&self.dst.words());
        w.into_bytes()
    }

    /// Size of the range in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.dst.asize()
    }

    /// End of the range at the old place.
    #[must_use]
    pub fn src_end(&self) -> u64 {
        self.src.saturating_add(self.size())
    }
}

/// Decodes a whole mapping and checks that it is sorted and without overlap, as looking up in it
/// requires. `data` are the entries, `header.num_entries` of them.
pub fn mapping(header: &MappingHeader, data: &[u8], endian: Endian) -> Result<Vec<MappingEntry>> {
    let fits = (data.len() / MappingEntry::SIZE) as u64;
    if header.num_entries > fits {
        let kind = ErrorKind::OutOfRange { value: header.num_entries, min: 0, max: fits };
        return Err(Error {
            structure: "indirect mapping",
            field: "num_entries",
            offset: 16,
            kind,
        });
    }
    let mut out = Vec::with_capacity(header.num_entries as usize);
    let mut end = 0;
    for c in data.chunks_exact(MappingEntry::SIZE).take(header.num_entries as usize) {
        let entry = MappingEntry::decode(c, endian)?;
        if entry.src < end || entry.size() == 0 {
            let rule = "entries are sorted, not empty and do not overlap";
            return Err(Error {
                structure: "indirect mapping",
                field: "src",
                offset: (out.len() * MappingEntry::SIZE) as u64,
                kind: ErrorKind::Inconsistent(rule),
            });
        }
        end = entry.src_end();
        out.push(entry);
    }
    Ok(out)
}

/// The entry of a sorted mapping that holds `offset`.
#[must_use]
pub fn find(mapping: &[MappingEntry], offset: u64) -> Option<&MappingEntry> {
    let after = mapping.partition_point(|e| e.src <= offset);
    let entry = mapping.get(after.checked_sub(1)?)?;
    (offset < entry.src_end()).then_some(entry)
}

/// Decodes obsolete counts: per entry of the mapping, bytes no more in use.
pub fn obsolete_counts(data: &[u8], endian: Endian) -> Result<Vec<u32>> {
    let mut r = Reader::new("obsolete counts", data, endian);
    let mut out = Vec::with_capacity(data.len() / 4);
    while r.remaining() > 0 {
        out.push(r.u32("count")?);
    }
    Ok(out)
}

word_struct! {
    /// Header of the births object (bonus).
    pub struct BirthsHeader("indirect births") {
        /// Entries in the object's data.
        pub count: u64,
    }
}

word_struct! {
    /// The range below `offset` and not below the entry before was copied in this txg.
    pub struct BirthEntry("indirect birth entry") {
        /// End of the part in bytes.
        pub offset: u64,
        /// Txg of the copy.
        pub txg: u64,
    }
}

/// The entries in `data`, a run of whole entries of the births object.
pub fn births(data: &[u8], endian: Endian) -> impl Iterator<Item = Result<BirthEntry>> + '_ {
    data.chunks(BirthEntry::SIZE).map(move |c| BirthEntry::decode(c, endian))
}

word_struct! {
    /// The last removal (7 words under [`crate::mos::REMOVING`]). Times are seconds since 1970.
    pub struct RemovalState("removing") {
        state_word: u64,
        /// Vdev that is or was removed; all ones: none.
        pub vdev: u64,
        /// Vdev removed before that; all ones: none. Those form a list through the vdevs'
        /// configuration (`com.delphix:prev_indirect_vdev`).
        pub prev_indirect_vdev: u64,
        /// Begin.
        pub start_time: u64,
        /// End; 0 while it runs.
        pub end_time: u64,
        /// Bytes to be copied.
        pub to_copy: u64,
        /// Bytes copied, or freed before they were.
        pub copied: u64,
    }
}

impl RemovalState {
    /// How far it is.
    #[must_use]
    pub fn state(&self) -> State {
        State::from_number(self.state_word)
    }

    /// With another state.
    #[must_use]
    pub fn with_state(self, state: State) -> Self {
        Self { state_word: state.number(), ..self }
    }
}

word_struct! {
    /// A condensing that runs (3 words under [`crate::mos::CONDENSING_INDIRECT`]).
    pub struct CondensingState("condensing") {
        /// Indirect vdev.
        pub vdev: u64,
        /// Space map of what was obsolete when it began.
        pub prev_obsolete_sm: u64,
        /// The new mapping.
        pub next_mapping: u64,
    }
}
