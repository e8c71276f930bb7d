//! Logs of deduplication tables: changes on their way into the ZAPs.
//!
//! Specified in `docs/format/ddt.md`. A log is an object whose bonus is [`LogHeader`] and whose
//! data are records, packed into blocks of 128 KiB; a record never lies across blocks, and a word
//! of zeros or the end of the block ends a block. Of two logs, one takes new records while the
//! other is being written into the ZAPs in the order of keys; its header's checkpoint is the last
//! key that is done, and entries up to it no longer count.

use crate::cursor::{Endian, Reader, Writer};
use crate::ddt::{Class, DdtKey, FlatValue, LegacyValue, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::wordstruct::{Field, word_struct};

/// Size of the log's blocks in bytes.
pub const BLOCK_SIZE: usize = 128 << 10;

word_struct! {
    /// Header of a log (bonus, 64 bytes).
    pub struct LogHeader("ddt log") {
        info: u64,
        /// Bytes of the object's data in use.
        pub length: u64,
        /// Txg in which it began to take records.
        pub first_txg: u64,
        /// Last key that is in the ZAPs; valid with [`LogHeader::FLAG_CHECKPOINT`].
        pub checkpoint: DdtKey,
    }
}

impl LogHeader {
    /// This log is being written into the ZAPs.
    pub const FLAG_FLUSHING: u8 = 1 << 0;
    /// `checkpoint` is valid.
    pub const FLAG_CHECKPOINT: u8 = 1 << 1;
    /// The only version so far: that of the table.
    pub const VERSION: u8 = 1;

    /// Version.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.info as u8
    }

    /// `FLAG_*`.
    #[must_use]
    pub fn flags(&self) -> u8 {
        (self.info >> 8) as u8
    }

    /// With this version and these flags.
    #[must_use]
    pub fn with(self, version: u8, flags: u8) -> Self {
        Self { info: u64::from(version) | (u64::from(flags) << 8), ..self }
    }

    /// That of a log without records.
    #[must_use]
    pub fn emptied(self) -> Self {
        let flags = self.flags() & !Self::FLAG_CHECKPOINT;
        let checkpoint = DdtKey::default();
        Self { length: 0, checkpoint, ..self }.with(self.version(), flags)
    }

    /// The last key that no longer counts.
    #[must_use]
    pub fn valid_checkpoint(&self) -> Option<&DdtKey> {
        (self.flags() & Self::FLAG_CHECKPOINT != 0).then_some(&self.checkpoint)
    }
}

/// A record: an entry to add or to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Number of the type of table it belongs to; 0 is `zap`.
    pub kind: u8,
    /// Number of the class it belongs to; [`LogRecord::class`].
    pub class_number: u8,
    /// The block.
    pub key: DdtKey,
    /// Where it is.
    pub value: Value,
}

const RECORD_END: u64 = 0;
const RECORD_ENTRY: u64 = 1;

impl LogRecord {
    /// The class, when the number is known.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        Class::from_number(self.class_number.into())
    }

    /// Bytes of a record of either generation.
    #[must_use]
    pub fn size(flat: bool) -> usize {
        8 + DdtKey::SIZE + if flat { FlatValue::SIZE } else { LegacyValue::SIZE }
    }

    fn read(r: &mut Reader<'_>, info: u64, flat: bool) -> Result<Self> {
        let size = (info >> 8) & 0xffff;
        let (min, max) = (Self::size(flat) as u64, Self::size(flat) as u64);
        if size != min {
            return Err(r.error("reclen", ErrorKind::OutOfRange { value: size, min, max }));
        }
        let key = <DdtKey as Field>::read(r, "key")?;
        let value = match flat {
            true => Value::Flat(<FlatValue as Field>::read(r, "phys")?),
            false => Value::Legacy(<LegacyValue as Field>::read(r, "phys")?),
        };
        Ok(Self { kind: (info >> 48) as u8, class_number: (info >> 56) as u8, key, value })
    }

    /// Appends the record.
    pub fn write(&self, w: &mut Writer) {
        let flat = matches!(self.value, Value::Flat(_));
        let info = RECORD_ENTRY
            | ((Self::size(flat) as u64) << 8)
            | (u64::from(self.kind) << 48)
            | (u64::from(self.class_number) << 56);
        let value = self.value.encode(w.endian());
        w.u64(info);
        Field::write(&self.key, w);
        w.bytes(&value);
    }
}

/// Walks over the records of one block; after an error it ends.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    r: Reader<'a>,
    flat: bool,
    done: bool,
}

/// Begins a walk over one block of a log, cut to the log's length.
#[must_use]
pub fn records(block: &[u8], endian: Endian, flat: bool) -> Records<'_> {
    Records { r: Reader::new("ddt log record", block, endian), flat, done: false }
}

impl Iterator for Records<'_> {
    type Item = Result<LogRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.r.remaining() < 8 {
            return None;
        }
        let record = self.record().transpose();
        self.done = !matches!(record, Some(Ok(_)));
        record
    }
}

impl Records<'_> {
    fn record(&mut self) -> Result<Option<LogRecord>> {
        let info = self.r.u64("info")?;
        match info & 0xff {
            RECORD_END => Ok(None),
            RECORD_ENTRY => LogRecord::read(&mut self.r, info, self.flat).map(Some),
            value => Err(Error { offset: self.r.at() as u64 - 8, ..self.unknown(value) }),
        }
    }

    fn unknown(&self, value: u64) -> Error {
        self.r.error("type", ErrorKind::Unknown { value })
    }
}
