//! Gang headers: a block that is split into up to three parts (more with larger headers).
//!
//! Specified in `docs/format/blkptr.md`. The header is one 512-byte sector: block pointers to the
//! parts, and a trailer with magic and checksum in the last 40 bytes. Feature
//! `dynamic_gang_header` (after OpenZFS 2.3) allows headers as large as the vdev's sector.

use crate::blkptr::{BLKPTR_SIZE, BlkPtr};
use crate::cursor::{Endian, Reader, Writer};
use crate::error::Result;

/// Size of the classic gang header in bytes.
pub const GANG_HEADER_SIZE: usize = 512;
/// Bytes of the embedded-checksum trailer (magic and four words).
pub const EMBEDDED_CHECKSUM_SIZE: usize = 40;
/// Magic number of that trailer.
pub const EMBEDDED_CHECKSUM_MAGIC: u64 = 0x0210_da7a_b10c_7a11;

/// A gang header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangHeader {
    /// The parts in order; unused places are holes.
    pub parts: Vec<BlkPtr>,
    /// Filler between the last pointer and the trailer, and the trailer, as found.
    rest: Vec<u8>,
}

impl GangHeader {
    /// A classic header of 512 bytes over up to three parts; `None` for more. The trailer is for
    /// the I/O layer to seal.
    #[must_use]
    pub fn new(mut parts: Vec<BlkPtr>) -> Option<Self> {
        let n = (GANG_HEADER_SIZE - EMBEDDED_CHECKSUM_SIZE) / BLKPTR_SIZE;
        if parts.len() > n {
            return None;
        }
        parts.resize(n, BlkPtr::HOLE);
        Some(Self { parts, rest: vec![0; GANG_HEADER_SIZE - n * BLKPTR_SIZE] })
    }

    /// Decodes a header of any size; `data` is the whole header. The trailer's checksum is
    /// verified by the I/O layer, which knows the address it is seeded with.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("gang header", data, endian);
        let n = data.len().saturating_sub(EMBEDDED_CHECKSUM_SIZE) / BLKPTR_SIZE;
        let mut parts = Vec::with_capacity(n);
        for _ in 0..n.max(1) {
            parts.push(r.blkptr("blkptr")?);
        }
        let rest = r.bytes("trailer", r.remaining())?.to_vec();
        Ok(Self { parts, rest })
    }

    /// Encodes the header; the trailer is as it was decoded.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        for bp in &self.parts {
            w.blkptr(bp);
        }
        w.bytes(&self.rest);
        w.into_bytes()
    }
}
