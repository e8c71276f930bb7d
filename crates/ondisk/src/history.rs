//! The pool's history: every command and every internal event, in a ring in one MOS object.
//!
//! Specified in `docs/format/history.md`. The object's bonus buffer ([`HistoryPhys`]) has the
//! beginning and the end of the ring. Offsets in it are logical: they only grow. The record of the
//! pool's creation is in front and is never overwritten:
//!
//! ```text
//! physical  0 .. create_len            record of `zpool create`
//!           create_len .. max_off      ring; logical x is at
//!                                      create_len + (x - create_len) mod (max_off - create_len)
//! ```
//!
//! A record is its length (64 bits, little-endian on every machine) and a packed nvlist. Length
//! and list may each wrap around the end of the ring.

use crate::cursor::{Endian, Reader, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::nvlist::NvList;

/// Size of the bonus buffer's structure in bytes.
pub const HISTORY_PHYS_SIZE: usize = 40;
/// Largest packed record accepted, in bytes. OpenZFS limits commands to about 8 KiB and the
/// lists of an ioctl it logs to 1 MiB.
pub const RECORD_MAX: u64 = 4 << 20;

/// Where the history begins and ends: bonus buffer of the history object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryPhys {
    /// End of the record of the pool's creation.
    pub create_len: u64,
    /// Physical end of the ring.
    pub max_off: u64,
    /// Logical offset of the oldest record in the ring.
    pub bof: u64,
    /// Logical offset behind the newest record.
    pub eof: u64,
    /// Records overwritten so far.
    pub records_lost: u64,
}

impl HistoryPhys {
    /// Decodes the bonus buffer and checks that the offsets make a ring.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("history", data, endian);
        let phys = Self {
            create_len: r.u64("create_len")?,
            max_off: r.u64("max_off")?,
            bof: r.u64("bof")?,
            eof: r.u64("eof")?,
            records_lost: r.u64("records_lost")?,
        };
        let fail = |field, rule| Err(error(field, 0, ErrorKind::Inconsistent(rule)));
        match () {
            () if phys.create_len > phys.max_off => {
                fail("create_len", "creation record ends behind the ring")
            }
            () if phys.bof < phys.create_len => fail("bof", "ring begins in the creation record"),
            () if phys.eof < phys.bof => fail("eof", "ring ends before it begins"),
            () if phys.eof - phys.bof > phys.max_off - phys.create_len => {
                fail("eof", "the ring has more bytes than it can hold")
            }
            () => Ok(phys),
        }
    }

    /// Encodes the bonus buffer.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        w.words(&[self.create_len, self.max_off, self.bof, self.eof, self.records_lost]);
        w.into_bytes()
    }

    /// The pieces of the object that hold `len` logical bytes from `at`: (offset, length) in
    /// order. Two when the range wraps, more only for a range longer than the ring.
    #[must_use]
    pub fn extents(&self, at: u64, len: u64) -> Vec<(u64, u64)> {
        let ring = self.max_off.saturating_sub(self.create_len);
        let (mut at, mut left, mut out) = (at, len, Vec::new());
        while left > 0 {
            let (start, room) = match at.checked_sub(self.create_len) {
                None => (at, self.create_len - at),
                Some(_) if ring == 0 => break,
                Some(x) => (self.create_len + x % ring, ring - x % ring),
            };
            let n = room.min(left);
            out.push((start, n));
            at = at.saturating_add(n);
            left -= n;
        }
        out
    }

    /// Reads every record, oldest first. `read(offset, length)` yields bytes of the history
    /// object; it is never asked for more than [`RECORD_MAX`] at once.
    pub fn records<E: From<Error>>(
        &self,
        read: impl FnMut(u64, u64) -> core::result::Result<Vec<u8>, E>,
    ) -> Records<impl FnMut(u64, u64) -> core::result::Result<Vec<u8>, E>> {
        Records { phys: *self, at: 0, done: self.eof == 0, read }
    }
}

/// Iterator over the records; see [`HistoryPhys::records`]. Ends at the first error.
#[derive(Debug)]
pub struct Records<R> {
    phys: HistoryPhys,
    /// Logical offset of the next record.
    at: u64,
    done: bool,
    read: R,
}

impl<R> Records<R> {
    fn next_record<E: From<Error>>(&mut self) -> core::result::Result<Option<HistoryRecord>, E>
    where
        R: FnMut(u64, u64) -> core::result::Result<Vec<u8>, E>,
    {
        if self.at == self.phys.create_len {
            self.at = self.phys.bof;
        }
        let end = if self.at < self.phys.create_len { self.phys.create_len } else { self.phys.eof };
        if self.at >= end {
            return Ok(None);
        }
        let offset = self.at;
        let left = end - offset;
        let length = self.bytes(offset, 8.min(left))?;
        let length = Reader::new("history", &length, Endian::Little).u64("length")?;
        let max = (left - 8).min(RECORD_MAX);
        if length == 0 || length > max {
            let kind = ErrorKind::OutOfRange { value: length, min: 1, max };
            return Err(error("length", offset, kind).into());
        }
        let packed = self.bytes(offset + 8, length)?;
        self.at = offset + 8 + length;
        Ok(Some(HistoryRecord { offset, list: NvList::decode(&packed)? }))
    }

    fn bytes<E: From<Error>>(&mut self, at: u64, len: u64) -> core::result::Result<Vec<u8>, E>
    where
        R: FnMut(u64, u64) -> core::result::Result<Vec<u8>, E>,
    {
        let mut out = Vec::new();
        for (start, n) in self.phys.extents(at, len) {
            let piece = (self.read)(start, n)?;
            if piece.len() as u64 != n {
                let kind = ErrorKind::Truncated { needed: n, available: piece.len() as u64 };
                return Err(error("record", at, kind).into());
            }
            out.extend_from_slice(&piece);
        }
        Ok(out)
    }
}

impl<R, E: From<Error>> Iterator for Records<R>
where
    R: FnMut(u64, u64) -> core::result::Result<Vec<u8>, E>,
{
    type Item = core::result::Result<HistoryRecord, E>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_record().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

fn error(field: &'static str, offset: u64, kind: ErrorKind) -> Error {
    Error { structure: "history", field, offset, kind }
}

/// One record of the history. Which members it has depends on its kind:
///
/// * a command: `command`, with time, user, host, zone;
/// * an ioctl: `ioctl` with its arguments and result, and user, host, zone;
/// * an internal event: `internal_name` and `internal_str` with txg and dataset, or, by old
///   software, an event number and a text.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRecord {
    /// Logical offset of the record.
    pub offset: u64,
    /// All of it.
    pub list: NvList,
}

impl HistoryRecord {
    fn number(&self, name: &'static str) -> Option<u64> {
        self.list.opt_u64(name).ok().flatten()
    }

    fn text(&self, name: &'static str) -> Option<String> {
        self.list.opt_lossy(name).ok().flatten()
    }

    /// When, in seconds since 1970.
    #[must_use]
    pub fn time(&self) -> Option<u64> {
        self.number("history time")
    }

    /// The command line, as typed.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        self.text("history command")
    }

    /// User id of the caller.
    #[must_use]
    pub fn who(&self) -> Option<u64> {
        self.number("history who")
    }

    /// Zone it ran in; `linux` there.
    #[must_use]
    pub fn zone(&self) -> Option<String> {
        self.text("history zone")
    }

    /// Name of the host it ran on.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        self.text("history hostname")
    }

    /// Txg of an internal event.
    #[must_use]
    pub fn txg(&self) -> Option<u64> {
        self.number("history txg")
    }

    /// Name of an internal event.
    #[must_use]
    pub fn internal_name(&self) -> Option<String> {
        self.text("internal_name")
    }

    /// Text of an internal event.
    #[must_use]
    pub fn internal_str(&self) -> Option<String> {
        self.text("history internal str")
    }

    /// Number of an internal event, as old software wrote it.
    #[must_use]
    pub fn internal_event(&self) -> Option<u64> {
        self.number("history internal event")
    }

    /// Dataset of an internal event.
    #[must_use]
    pub fn dsname(&self) -> Option<String> {
        self.text("dsname")
    }

    /// Object of that dataset.
    #[must_use]
    pub fn dsid(&self) -> Option<u64> {
        self.number("dsid")
    }

    /// Name of an ioctl.
    #[must_use]
    pub fn ioctl(&self) -> Option<String> {
        self.text("ioctl")
    }

    /// Arguments of an ioctl.
    #[must_use]
    pub fn input(&self) -> Option<&NvList> {
        self.list.opt_list("in_nvl").ok().flatten()
    }

    /// Result of an ioctl.
    #[must_use]
    pub fn output(&self) -> Option<&NvList> {
        self.list.opt_list("out_nvl").ok().flatten()
    }

    /// Error number of an ioctl that failed.
    #[must_use]
    pub fn errno(&self) -> Option<i64> {
        self.list.opt_i64("errno").ok().flatten()
    }

    /// How long an ioctl took, in nanoseconds.
    #[must_use]
    pub fn elapsed_ns(&self) -> Option<i64> {
        self.list.opt_i64("elapsed_ns").ok().flatten()
    }
}
