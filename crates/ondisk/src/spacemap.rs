//! Space maps: logs of allocations and frees from which the set of free space is rebuilt.
//!
//! Specified in `docs/format/spacemap.md`. The object's data is an array of 64-bit words that
//! grows at the end; replaying it in order gives the set. Its uses differ in unit and origin:
//!
//! | use | start | shift | a range is |
//! | --- | --- | --- | --- |
//! | metaslab | index << metaslab_shift | ashift of the vdev | allocated or freed space |
//! | log space map | 0 | 9 | the same, of the vdev that the entry names |
//! | obsolete, checkpoint | 0 | ashift | space no more in use, or freed since the checkpoint |
//! | dirty time log (DTL) | 0 | 0 | txgs a device missed |
//!
//! Three kinds of entry, told apart by the top bits of the first word:
//!
//! ```text
//! one word    0 | offset 47 | type 1 | run-1 15
//! debug       10 | action 2 | syncpass 10 | txg 50
//! two words   11 | unused 2 | run-1 36 | vdev 24      type 1 | offset 63
//! ```
//!
//! Offsets and runs count in units of `1 << shift` from `start`. Type 0 is an allocation. An
//! entry of two words never lies across the object's blocks: a debug word of zeros (action,
//! syncpass, txg) fills the gap. Debug words have no effect.

use crate::cursor::{Endian, Reader, Writer};
use crate::error::{Error, ErrorKind, Result};

/// Buckets of the histogram.
pub const HISTOGRAM_BUCKETS: usize = 32;
/// Header size with histogram in bytes (feature `spacemap_histogram`).
pub const HEADER_SIZE: usize = 320;
/// Header size before in bytes.
pub const HEADER_SIZE_V0: usize = 24;
/// Longest run of a one-word entry in units.
pub const RUN_MAX_ONE_WORD: u64 = 1 << 15;
/// Longest run of a two-word entry in units.
pub const RUN_MAX_TWO_WORDS: u64 = 1 << 36;
/// Largest vdev number a two-word entry can name.
pub const VDEV_MAX: u32 = (1 << 24) - 1;
/// Shift of log space maps.
pub const LOG_SHIFT: u8 = 9;
/// Shift of dirty time logs.
pub const DTL_SHIFT: u8 = 0;

/// Header of a space map object (bonus type "SPA space map header").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceMapHeader {
    /// The object itself, in old pools; not used.
    pub object: u64,
    /// Bytes of the object's data that are in use.
    pub length: u64,
    /// Allocated minus freed in bytes; negative in a log of frees.
    pub allocated: i64,
    pad: [u64; 5],
    /// Bucket `i`: free segments of at least `2^(i+shift)` and less than `2^(i+1+shift)` bytes;
    /// the last also counts larger ones, as many times as they hold its size.
    pub histogram: Option<[u64; HISTOGRAM_BUCKETS]>,
}

impl SpaceMapHeader {
    /// An empty map.
    #[must_use]
    pub fn new(with_histogram: bool) -> Self {
        Self {
            object: 0,
            length: 0,
            allocated: 0,
            pad: [0; 5],
            histogram: with_histogram.then_some([0; HISTOGRAM_BUCKETS]),
        }
    }

    /// Decodes a bonus; its length determines the form.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("space map", data, endian);
        let mut h = Self::new(false);
        h.object = r.u64("object")?;
        h.length = r.u64("length")?;
        h.allocated = r.u64("alloc")?.cast_signed();
        if !h.length.is_multiple_of(8) {
            let kind = ErrorKind::Inconsistent("length is a multiple of 8");
            return Err(Error { structure: "space map", field: "length", offset: 8, kind });
        }
        if data.len() >= HEADER_SIZE {
            h.pad = r.words("pad")?;
            h.histogram = Some(r.words("histogram")?);
        }
        Ok(h)
    }

    /// Encodes in the form it has.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.u64(self.object).u64(self.length).u64(self.allocated.cast_unsigned());
        if let Some(h) = &self.histogram {
            w.words(&self.pad).words(h);
        }
        w.into_bytes()
    }
}

/// The change of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Taken (DTL: missed).
    Alloc,
    /// Given back (DTL: repaired).
    Free,
}

impl Action {
    fn bit(self) -> u64 {
        u64::from(self == Self::Free)
    }

    fn from_bit(bit: u64) -> Self {
        if bit & 1 == 0 { Self::Alloc } else { Self::Free }
    }
}

/// A change to a range of space. Offset and size in bytes (DTL: txgs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The change.
    pub action: Action,
    /// Vdev in the entry; only two-word entries have one, and outside of log space maps it is 0
    /// and means nothing.
    pub vdev: Option<u32>,
    /// Begin.
    pub offset: u64,
    /// Size, at least one unit.
    pub size: u64,
}

/// One entry of a space map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A change.
    Range(Range),
    /// A note of which txg and pass wrote what follows; padding when all is zero.
    Debug {
        /// 0 allocations follow, 1 frees.
        action: u8,
        /// Pass within the txg.
        syncpass: u16,
        /// Low 50 bits of the txg.
        txg: u64,
    },
}

/// Walks over the entries of a map.
///
/// After an error the walk ends: what follows cannot be trusted to be aligned with entries.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    data: &'a [u8],
    endian: Endian,
    start: u64,
    shift: u8,
    at: usize,
}

/// Begins a walk over `data`, the first `length` bytes of the object's data or one block of it.
#[must_use]
pub fn entries(data: &[u8], endian: Endian, start: u64, shift: u8) -> Entries<'_> {
    Entries { data, endian, start, shift, at: 0 }
}

impl Entries<'_> {
    /// Bytes walked so far.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    fn error(&self, field: &'static str, kind: ErrorKind) -> Error {
        Error { structure: "space map entry", field, offset: self.at as u64, kind }
    }

    fn word(&mut self, field: &'static str) -> Result<u64> {
        let rest = self.data.get(self.at..).unwrap_or(&[]);
        let Some(bytes) = rest.first_chunk::<8>() else {
            let available = rest.len() as u64;
            return Err(self.error(field, ErrorKind::Truncated { needed: 8, available }));
        };
        self.at += 8;
        Ok(self.endian.u64(*bytes))
    }

    fn scale(&self, units: u64, field: &'static str) -> Result<u64> {
        let limit = u64::MAX.checked_shr(self.shift.into()).unwrap_or(0);
        if units > limit {
            let kind = ErrorKind::OutOfRange { value: units, min: 0, max: limit };
            return Err(self.error(field, kind));
        }
        Ok(units << self.shift)
    }

    fn range(&self, action: u64, vdev: Option<u32>, offset: u64, run: u64) -> Result<Entry> {
        let size = self.scale(run, "run")?;
        let offset = self.scale(offset, "offset")?.checked_add(self.start);
        match offset.and_then(|o| o.checked_add(size).map(|_| o)) {
            Some(offset) => {
                let action = Action::from_bit(action);
                Ok(Entry::Range(Range { action, vdev, offset, size }))
            }
            None => Err(self.error("offset", ErrorKind::Inconsistent("a range ends below 2^64"))),
        }
    }

    fn entry(&mut self) -> Result<Entry> {
        let w = self.word("word")?;
        match w >> 62 {
            0 | 1 => {
                let run = (w & (RUN_MAX_ONE_WORD - 1)) + 1;
                self.range(w >> 15, None, (w >> 16) & ((1 << 47) - 1), run)
            }
            2 => Ok(Entry::Debug {
                action: (w >> 60) as u8 & 3,
                syncpass: (w >> 50) as u16 & 0x3ff,
                txg: w & ((1 << 50) - 1),
            }),
            _ => {
                let run = ((w >> 24) & (RUN_MAX_TWO_WORDS - 1)) + 1;
                let vdev = (w & u64::from(VDEV_MAX)) as u32;
                let second = self.word("second word")?;
                self.range(second >> 63, Some(vdev), second & (u64::MAX >> 1), run)
            }
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.data.len() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.at = self.data.len();
        }
        Some(entry)
    }
}

/// Appends entries in the form a pool can read.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// Origin of offsets.
    pub start: u64,
    /// log2 of the unit.
    pub shift: u8,
    /// Two-word entries may be written (feature `spacemap_v2`).
    pub two_words: bool,
    /// Block size of the object in bytes.
    pub block_size: usize,
    /// Byte of the object's data where the output begins.
    pub at: u64,
    words: Vec<u64>,
}

impl Encoder {
    /// Starts at byte `at` of an object with blocks of `block_size` bytes.
    #[must_use]
    pub fn new(start: u64, shift: u8, two_words: bool, block_size: usize, at: u64) -> Self {
        Self { start, shift, two_words, block_size, at, words: Vec::new() }
    }

    /// Appends a debug word.
    pub fn debug(&mut self, action: Action, syncpass: u16, txg: u64) {
        let w = (2 << 62)
            | (action.bit() << 60)
            | (u64::from(syncpass & 0x3ff) << 50)
            | (txg & ((1 << 50) - 1));
        self.words.push(w);
    }

    /// Appends a change. `range.vdev` is only for log space maps, which need two-word entries.
    /// A long range is split into as many entries as it takes.
    pub fn range(&mut self, range: Range) -> Result<()> {
        let wrong = |field, kind| Error { structure: "space map entry", field, offset: 0, kind };
        let unit = 1u64.checked_shl(self.shift.into()).unwrap_or(0);
        let offset = range.offset.checked_sub(self.start);
        let (Some(offset), true) = (offset, unit != 0) else {
            return Err(wrong("offset", ErrorKind::Inconsistent("a range is inside the map")));
        };
        let whole = offset.is_multiple_of(unit) && range.size.is_multiple_of(unit);
        if !whole || range.size == 0 {
            return Err(wrong("offset", ErrorKind::Inconsistent("a range is made of whole units")));
        }
        let (mut offset, mut run) = (offset >> self.shift, range.size >> self.shift);
        let one_word = range.vdev.is_none() && run <= RUN_MAX_ONE_WORD && offset < 1 << 47;
        let vdev = range.vdev.unwrap_or(0);
        if !self.two_words && (range.vdev.is_some() || offset.saturating_add(run) >= 1 << 47) {
            let kind = ErrorKind::Inconsistent("this needs two-word entries");
            return Err(wrong("offset", kind));
        }
        if vdev > VDEV_MAX {
            let (min, max) = (0, VDEV_MAX.into());
            return Err(wrong("vdev", ErrorKind::OutOfRange { value: vdev.into(), min, max }));
        }
        while run > 0 {
            let step = if one_word || !self.two_words {
                let step = run.min(RUN_MAX_ONE_WORD);
                self.words.push((offset << 16) | (range.action.bit() << 15) | (step - 1));
                step
            } else {
                let step = run.min(RUN_MAX_TWO_WORDS);
                self.pad_for_two();
                self.words.push((3 << 62) | ((step - 1) << 24) | u64::from(vdev));
                self.words.push((range.action.bit() << 63) | offset);
                step
            };
            offset += step;
            run -= step;
        }
        Ok(())
    }

    fn pad_for_two(&mut self) {
        let position = self.at.wrapping_add(8 * self.words.len() as u64);
        let block = self.block_size.max(16) as u64;
        if position % block == block - 8 {
            self.words.push(2 << 62);
        }
    }

    /// The words so far, as bytes.
    #[must_use]
    pub fn finish(self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.words(&self.words);
        w.into_bytes()
    }
}
