//! Writing.

use crate::byte_order;
use codec::checksum::Fletcher4;
use ondisk::Endian;
use ondisk::stream::{Begin, Body, CHECKSUM_AT, End, Free, FreeObjects, RECORD_SIZE, Record};
use std::io::{self, Write};

/// Writes a stream, record by record.
pub struct Writer<W> {
    out: W,
    sum: Fletcher4,
    /// Freed objects or ranges, as long as the next free may continue them.
    pending: Option<Body>,
    length: u64,
    /// Byte order of what is written.
    endian: Endian,
}

impl<W: Write> Writer<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        let (sum, endian) = (Fletcher4::new(), Endian::Little);
        Self { out, sum, pending: None, length: 0, endian }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Begins the stream of a snapshot, or of several; the list is a packed one, or nothing.
    ///
    /// # Errors
    /// `out` fails, as for all that is written, or the list is too long for the format.
    pub fn begin(&mut self, begin: Begin, list: &[u8]) -> io::Result<()> {
        let list_len = u32::try_from(list.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.put(&Record::new(begin, list_len), list)
    }

    /// Writes a record and its payload.
    pub fn record(&mut self, body: impl Into<Body>, payload: &[u8]) -> io::Result<()> {
        self.settle()?;
        self.put(&Record::new(body, 0), payload)
    }

    /// Writes a record of another stream, whose byte order this one has then, and its payload. An
    /// END that has a sum gets that of this stream.
    pub(crate) fn copy(
        &mut self,
        mut record: Record,
        payload: &[u8],
        endian: Endian,
    ) -> io::Result<()> {
        self.endian = endian;
        let Body::End(end) = &mut record.body else { return self.put(&record, payload) };
        if end.checksum != [0; 4] {
            end.checksum = self.sum.digest().0;
        }
        self.put(&record, payload)?;
        self.sum = Fletcher4::new();
        Ok(())
    }

    /// Hands on what was written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Objects are not there.
    pub fn free_objects(&mut self, next: FreeObjects) -> io::Result<()> {
        if let Some(Body::FreeObjects(last)) = &mut self.pending
            && last.first.checked_add(last.count) == Some(next.first)
        {
            last.count = last.count.saturating_add(next.count);
            return Ok(());
        }
        self.settle()?;
        self.pending = Some(next.into());
        Ok(())
    }

    /// A hole. One that reaches to the end of all objects is written at once: no other follows.
    pub fn free(&mut self, next: Free) -> io::Result<()> {
        if let Some(Body::Free(last)) = &mut self.pending
            && last.object == next.object
            && last.offset.checked_add(last.length) == Some(next.offset)
        {
            let end = next.offset.checked_add(next.length);
            let is_endless = end.is_none() || next.length == u64::MAX;
            let length = if is_endless { None } else { last.length.checked_add(next.length) };
            last.length = length.unwrap_or(u64::MAX);
            return Ok(());
        }
        self.settle()?;
        let is_last = next.length == u64::MAX;
        self.pending = Some(next.into());
        if is_last { self.settle() } else { Ok(()) }
    }

    /// Ends what was begun.
    pub fn end(&mut self, to_guid: u64) -> io::Result<()> {
        self.settle()?;
        let checksum = self.sum.digest().0;
        self.put(&Record::new(End { checksum, to_guid }, 0), &[])?;
        self.sum = Fletcher4::new();
        self.out.flush()
    }

    /// Writes what a stream of several snapshots begins with: a list, and its end.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn package(&mut self, begin: Begin, list: &[u8]) -> io::Result<()> {
        self.begin(begin, list)?;
        let checksum = self.sum.digest().0;
        self.unsigned(End { checksum, to_guid: 0 })
    }

    /// Ends a stream of several snapshots.
    ///
    /// # Errors
    /// `out` fails.
    pub fn end_package(&mut self) -> io::Result<()> {
        self.settle()?;
        self.unsigned(End::default())?;
        self.out.flush()
    }

    /// Writes an END without a checksum of its own, as OpenZFS's command does.
    fn unsigned(&mut self, end: End) -> io::Result<()> {
        let bytes = Record::new(end, 0).encode(self.endian);
        self.out.write_all(&bytes)?;
        self.length += bytes.len() as u64;
        self.sum = Fletcher4::new();
        Ok(())
    }

    /// Writes what is waiting for more of its kind.
    fn settle(&mut self) -> io::Result<()> {
        match self.pending.take() {
            Some(body) => self.put(&Record::new(body, 0), &[]),
            None => Ok(()),
        }
    }

    fn put(&mut self, record: &Record, payload: &[u8]) -> io::Result<()> {
        let endian = self.endian;
        let order = byte_order(endian);
        let mut bytes = record.encode(endian);
        let (body, checksum) = bytes.split_at_mut(CHECKSUM_AT);
        self.sum.update(order, body);
        if !matches!(record.body, Body::Begin(_)) {
            for (to, word) in checksum.chunks_exact_mut(8).zip(self.sum.digest().0) {
                to.copy_from_slice(&endian.put_u64(word));
            }
        }
        self.sum.update(order, checksum);
        self.sum.update(order, payload);
        self.out.write_all(&bytes)?;
        self.out.write_all(payload)?;
        self.length += (RECORD_SIZE + payload.len()) as u64;
        Ok(())
    }
}
