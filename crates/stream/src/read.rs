//! Reading.

use crate::byte_order;
use codec::checksum::Fletcher4;
use ondisk::Endian;
use ondisk::stream::{Body, CHECKSUM_AT, KIND_COMPOUND, RECORD_SIZE, Record};
use std::io::{self, Read};

/// Bytes that are made room for at once.
const PIECE: u64 = 1 << 20;

/// Result of reading a stream.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a stream cannot be read further, and where.
#[derive(Debug, thiserror::Error)]
#[error("send stream: byte {offset}: {kind}")]
pub struct Error {
    /// Where the record begins.
    pub offset: u64,
    /// The kind of error.
    pub kind: ErrorKind,
}

/// A kind of error of a stream.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It ends within a record or its payload, or without END.
    #[error("the stream ends here, before its end")]
    Truncated,
    /// The bytes are not a record.
    #[error("{0}")]
    Format(#[from] ondisk::Error),
    /// Something before the checksum of this record is not what was sent.
    #[error("the checksum is {found:x?}, and that of what stands before it {computed:x?}")]
    Checksum {
        /// The sum in the record.
        found: [u64; 4],
        /// The sum of the bytes that were read.
        computed: [u64; 4],
    },
}

/// Reads a stream, record by record, and nothing behind its end: that belongs to another reader.
pub struct Reader<R> {
    input: R,
    endian: Option<Endian>,
    sum: Fletcher4,
    verifies: bool,
    /// Bytes of the last record's payload that were not read yet.
    left: u64,
    payload: Vec<u8>,
    /// The part of the next record that was read together with the payload before it.
    next: Vec<u8>,
    /// Bytes of records and payloads that were read whole.
    length: u64,
    /// Where the last record began.
    at: u64,
    /// The stream of a snapshot began, and did not end.
    is_in_snapshot: bool,
    /// That of several did.
    is_in_compound: bool,
}

impl<R: Read> Reader<R> {
    /// Reads a stream from its beginning.
    pub fn new(input: R) -> Self {
        Self {
            input,
            endian: None,
            sum: Fletcher4::new(),
            verifies: true,
            left: 0,
            payload: Vec::new(),
            next: Vec::new(),
            length: 0,
            at: 0,
            is_in_snapshot: false,
            is_in_compound: false,
        }
    }

    /// Takes the stream as it is, whatever its checksums say.
    #[must_use]
    pub fn trusting(mut self) -> Self {
        self.verifies = false;
        self
    }

    /// Whether the stream is of a machine of the other byte order than this program's formats are.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.endian == Some(Endian::Big)
    }

    /// The byte order of what was read.
    pub(crate) fn endian(&self) -> Endian {
        self.endian.unwrap_or(Endian::Little)
    }

    /// Bytes of all records and payloads that were read whole.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next record; `None` at the end. The payload of the last one is read, if it was not.
    pub fn record(&mut self) -> Result<Option<Record>> {
        self.payload()?;
        self.at = self.length;
        let mut bytes = [0; RECORD_SIZE];
        let read = std::mem::take(&mut self.next);
        let (had, missing) = bytes.split_at_mut(read.len().min(RECORD_SIZE));
        had.copy_from_slice(&read);
        let got = had.len() + self.fill(missing)?;
        if (1..RECORD_SIZE).contains(&got) {
            return Err(self.error(ErrorKind::Truncated));
        }
        if got == 0 {
            let is_cut = self.is_in_snapshot || self.is_in_compound;
            return if is_cut { Err(self.error(ErrorKind::Truncated)) } else { Ok(None) };
        }
        let endian = match self.endian {
            Some(endian) => endian,
            None => Record::endian_of(&bytes).map_err(|e| self.error(e))?,
        };
        self.endian = Some(endian);
        let record = Record::decode(&bytes, endian).map_err(|e| self.error(e))?;
        self.verify(&record, &bytes, endian)?;
        self.length += RECORD_SIZE as u64;
        self.left = record.payload_size();
        self.follow(&record.body);
        Ok(Some(record))
    }

    /// Follows beginnings and ends. The list of a stream of several has an end of its own.
    fn follow(&mut self, body: &Body) {
        match body {
            Body::Begin(begin) => {
                self.is_in_snapshot = true;
                self.is_in_compound |= begin.kind() == KIND_COMPOUND;
            }
            Body::End(_) if self.is_in_snapshot => self.is_in_snapshot = false,
            Body::End(_) => self.is_in_compound = false,
            _ => {}
        }
    }

    /// Compares the sum of the bytes that were read with that of the record, and adds the record.
    fn verify(&mut self, record: &Record, bytes: &[u8], endian: Endian) -> Result<()> {
        if !self.verifies {
            return Ok(());
        }
        let order = byte_order(endian);
        let before = self.sum.digest().0;
        let (body, checksum) = bytes.split_at(CHECKSUM_AT.min(bytes.len()));
        self.sum.update(order, body);
        let computed = self.sum.digest().0;
        self.sum.update(order, checksum);
        let mut expected = vec![(record.checksum, computed)];
        expected.retain(|(found, _)| *found != [0; 4]);
        if let Body::End(end) = &record.body {
            expected.push((end.checksum, before));
            self.sum = Fletcher4::new();
        }
        match expected.into_iter().find(|(found, computed)| found != computed) {
            Some((found, computed)) => Err(self.error(ErrorKind::Checksum { found, computed })),
            None => Ok(()),
        }
    }

    /// The payload of the last record, once.
    pub fn payload(&mut self) -> Result<&[u8]> {
        let wanted = std::mem::take(&mut self.left);
        self.payload.clear();
        if wanted == 0 {
            return Ok(&[]);
        }
        // Another record follows one with a payload, always: nothing behind the stream is read. The
        // size in the record reserves no memory.
        let mut payload = std::mem::take(&mut self.payload);
        let end = wanted.saturating_add(RECORD_SIZE as u64);
        while (payload.len() as u64) < end {
            let done = payload.len();
            let piece = (end - done as u64).min(PIECE) as usize;
            payload.resize(done + piece, 0);
            let read = self.fill(payload.get_mut(done..).unwrap_or_default())?;
            payload.truncate(done + read);
            if read < piece {
                break;
            }
        }
        let at = usize::try_from(wanted).ok().filter(|at| *at <= payload.len());
        let at = at.ok_or_else(|| self.error(ErrorKind::Truncated))?;
        self.next = payload.split_off(at);
        self.payload = payload;
        if let Some(endian) = self.endian.filter(|_| self.verifies) {
            self.sum.update(byte_order(endian), &self.payload);
        }
        self.length += wanted;
        Ok(&self.payload)
    }

    /// The payload that was read last, until the next record is.
    #[must_use]
    pub fn last_payload(&self) -> &[u8] {
        &self.payload
    }

    /// Reads all of `out`, or what there is up to the end.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error(e)),
            }
        }
        Ok(done)
    }

    fn error(&self, kind: impl Into<ErrorKind>) -> Error {
        Error { offset: self.at, kind: kind.into() }
    }
}
