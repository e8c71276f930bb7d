//! Byte order, and the reader and writer that every decoder and encoder uses.
//!
//! The byte order is a value, never the host's: a pool written on a big-endian machine is read
//! with `Endian::Big` by the same code. No method panics; a read past the end is an error that
//! names the structure, the field and the offset.

use crate::error::{Error, ErrorKind, Result};

/// Byte order of a structure on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first (x86, ARM).
    Little,
    /// Most significant byte first (SPARC, and everything XDR).
    Big,
}

impl Endian {
    /// The other order.
    #[must_use]
    pub fn swapped(self) -> Self {
        match self {
            Self::Little => Self::Big,
            Self::Big => Self::Little,
        }
    }

    /// Decodes two bytes.
    #[must_use]
    pub fn u16(self, b: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        }
    }

    /// Decodes four bytes.
    #[must_use]
    pub fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        }
    }

    /// Decodes eight bytes.
    #[must_use]
    pub fn u64(self, b: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(b),
            Self::Big => u64::from_be_bytes(b),
        }
    }

    /// Encodes two bytes.
    #[must_use]
    pub fn put_u16(self, v: u16) -> [u8; 2] {
        match self {
            Self::Little => v.to_le_bytes(),
            Self::Big => v.to_be_bytes(),
        }
    }

    /// Encodes four bytes.
    #[must_use]
    pub fn put_u32(self, v: u32) -> [u8; 4] {
        match self {
            Self::Little => v.to_le_bytes(),
            Self::Big => v.to_be_bytes(),
        }
    }

    /// Encodes eight bytes.
    #[must_use]
    pub fn put_u64(self, v: u64) -> [u8; 8] {
        match self {
            Self::Little => v.to_le_bytes(),
            Self::Big => v.to_be_bytes(),
        }
    }
}

/// A checked walk over the bytes of one structure.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    structure: &'static str,
    data: &'a [u8],
    at: usize,
    endian: Endian,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `data`; `structure` is the name used in errors.
    #[must_use]
    pub fn new(structure: &'static str, data: &'a [u8], endian: Endian) -> Self {
        Self { structure, data, at: 0, endian }
    }

    /// Byte order this reader decodes with.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Bytes read so far.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.data.len() - self.at
    }

    /// An error of this structure at the current offset.
    #[must_use]
    pub fn error(&self, field: &'static str, kind: ErrorKind) -> Error {
        Error { structure: self.structure, field, offset: self.at as u64, kind }
    }

    /// Moves to an absolute offset inside the structure.
    pub fn seek(&mut self, field: &'static str, at: usize) -> Result<()> {
        if at > self.data.len() {
            return Err(self.error(
                field,
                ErrorKind::Truncated { needed: at as u64, available: self.data.len() as u64 },
            ));
        }
        self.at = at;
        Ok(())
    }

    /// The next `n` bytes, borrowed.
    #[inline]
    pub fn bytes(&mut self, field: &'static str, n: usize) -> Result<&'a [u8]> {
        match self.at.checked_add(n).and_then(|end| self.data.get(self.at..end)) {
            Some(s) => {
                self.at += n;
                Ok(s)
            }
            None => Err(self.error(
                field,
                ErrorKind::Truncated { needed: n as u64, available: self.remaining() as u64 },
            )),
        }
    }

    /// The next `N` bytes, copied.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let mut out = [0u8; N];
        out.copy_from_slice(self.bytes(field, N)?);
        Ok(out)
    }

    /// Passes over `n` bytes.
    pub fn skip(&mut self, field: &'static str, n: usize) -> Result<()> {
        self.bytes(field, n).map(|_| ())
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8> {
        Ok(self.array::<1>(field)?[0])
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16> {
        Ok(self.endian.u16(self.array(field)?))
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32> {
        Ok(self.endian.u32(self.array(field)?))
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64> {
        Ok(self.endian.u64(self.array(field)?))
    }

    /// `N` words of eight bytes.
    pub fn words<const N: usize>(&mut self, field: &'static str) -> Result<[u64; N]> {
        let mut out = [0u64; N];
        if let Some(bytes) = self.data.get(self.at..).and_then(|d| d.get(..8 * N)) {
            for (w, b) in out.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *w = self.endian.u64(*b);
            }
            self.at += 8 * N;
            return Ok(out);
        }
        // The error names the first word that is not there.
        for w in &mut out {
            *w = self.u64(field)?;
        }
        Ok(out)
    }
}

/// Appends fields in one byte order.
#[derive(Clone, Debug)]
pub struct Writer {
    out: Vec<u8>,
    endian: Endian,
}

impl Writer {
    /// An empty structure.
    #[must_use]
    pub fn new(endian: Endian) -> Self {
        Self { out: Vec::new(), endian }
    }

    /// The same with memory for `bytes`.
    #[must_use]
    pub fn with_capacity(endian: Endian, bytes: usize) -> Self {
        Self { out: Vec::with_capacity(bytes), endian }
    }

    /// Byte order this writer encodes with.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Bytes written so far.
    #[must_use]
    pub fn at(&self) -> usize {
        self.out.len()
    }

    /// Raw bytes.
    pub fn bytes(&mut self, b: &[u8]) -> &mut Self {
        self.out.extend_from_slice(b);
        self
    }

    /// `n` zero bytes.
    pub fn zeros(&mut self, n: usize) -> &mut Self {
        self.out.resize(self.out.len() + n, 0);
        self
    }

    /// Zeros up to the absolute offset `at`; nothing when already there or past it.
    pub fn pad_to(&mut self, at: usize) -> &mut Self {
        if at > self.out.len() {
            self.out.resize(at, 0);
        }
        self
    }

    /// One byte.
    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.out.push(v);
        self
    }

    /// Two bytes.
    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.out.extend_from_slice(&self.endian.put_u16(v));
        self
    }

    /// Four bytes.
    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.out.extend_from_slice(&self.endian.put_u32(v));
        self
    }

    /// Eight bytes.
    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.out.extend_from_slice(&self.endian.put_u64(v));
        self
    }

    /// Words of eight bytes.
    pub fn words(&mut self, v: &[u64]) -> &mut Self {
        for w in v {
            self.u64(*w);
        }
        self
    }

    /// The finished bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}
