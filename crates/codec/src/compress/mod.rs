//! Compression of blocks.
//!
//! Specified in `docs/format/compression.md`.
//!
//! # Theory
//!
//! A block is compressed as a whole and on its own: no state crosses blocks, so any block can be
//! read alone and a bad sector costs one block. The block pointer has the algorithm and both sizes:
//! `lsize` before, `psize` as stored. `psize` is rounded up to sectors, so the stored bytes have
//! padding behind the compressed data, and every decoder here accepts such a tail:
//!
//! ```text
//! |<------------------------ psize ------------------------>|
//! [ compressed data, its own length prefix or end mark ][ 0 ]
//! ```
//!
//! | number  | name     | form                                                    | ends by       |
//! | ------- | -------- | ------------------------------------------------------- | ------------- |
//! | 2       | off      | the data                                                | lsize         |
//! | 3       | lzjb     | groups of a copy map and eight items                    | lsize reached |
//! | 4       | empty    | nothing: the block is all zero                          |               |
//! | 5 to 13 | gzip-1.. | zlib stream (RFC 1950)                                  | end of stream |
//! | 14      | zle      | runs: up to 64 literals, or up to 192 zeros             | lsize reached |
//! | 15      | lz4      | big-endian u32 length, LZ4 block                        | length        |
//! | 16      | zstd     | big-endian u32 length, u32 level and version, one frame | length        |
//!
//! Compressing is worth a block only when it saves something after rounding to sectors. The rule
//! of the format's authors is kept: a result is used when it saves at least an eighth
//! ([`budget`]). The encoders stop as soon as they pass the budget.
//!
//! Decoders trust nothing: they write exactly `dst.len()` bytes or fail, never read outside `src`,
//! and take memory that does not depend on the input. A block that decompresses to fewer bytes
//! than its pointer promises is corrupt.
#![forbid(unsafe_code)]

mod gzip;
mod lz4;
mod lzjb;
mod zle;
mod zstd;

pub use zstd::ZstdHeader;

/// How a block is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Not at all.
    Off,
    /// LZJB, the first algorithm of ZFS.
    Lzjb,
    /// The block is all zero and nothing is stored.
    Empty,
    /// zlib at this level, 1 to 9.
    Gzip(u8),
    /// Zero-length encoding: only runs of zeros are shortened.
    Zle,
    /// LZ4.
    Lz4,
    /// Zstandard at this level: 1 to 19, or a negative number (zstd-fast) of those that
    /// `docs/format/compression.md` lists. Decompressing takes any level.
    Zstd(i32),
}

impl Algorithm {
    /// The algorithm of a number in a block pointer or dnode.
    ///
    /// `None` for unknown numbers and for 0 and 1 (inherit, on), which are property values that
    /// never describe a stored block. For zstd the level is the default: it matters only to
    /// compress, and the stored block carries its own.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            2 => Some(Self::Off),
            3 => Some(Self::Lzjb),
            4 => Some(Self::Empty),
            5..=13 => Some(Self::Gzip(number - 4)),
            14 => Some(Self::Zle),
            15 => Some(Self::Lz4),
            16 => Some(Self::Zstd(ZSTD_DEFAULT_LEVEL)),
            _ => None,
        }
    }

    /// The number in a block pointer.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Off => 2,
            Self::Lzjb => 3,
            Self::Empty => 4,
            Self::Gzip(level) => 4 + level.clamp(1, 9),
            Self::Zle => 14,
            Self::Lz4 => 15,
            Self::Zstd(_) => 16,
        }
    }

    /// Name without the level.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Lzjb => "lzjb",
            Self::Empty => "empty",
            Self::Gzip(_) => "gzip",
            Self::Zle => "zle",
            Self::Lz4 => "lz4",
            Self::Zstd(_) => "zstd",
        }
    }
}

/// zstd's level when the property says only `zstd`.
pub const ZSTD_DEFAULT_LEVEL: i32 = 3;

/// Compressed bytes that are not what their block pointer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{algorithm}: {fault}")]
pub struct Error {
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// The fault.
    pub fault: Fault,
}

/// A fault of compressed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The data extends beyond the stored bytes.
    #[error("needs {needed} bytes, {available} are stored")]
    Truncated {
        /// Bytes that would have to be there.
        needed: usize,
        /// Bytes that are there.
        available: usize,
    },
    /// The data points before the start or past the end of the block, or breaks the algorithm's
    /// own rules.
    #[error("malformed near output byte {at}")]
    Malformed {
        /// Bytes of output written before; 0 where the algorithm does not tell.
        at: usize,
    },
    /// The data ends before the block is full.
    #[error("yields {found} bytes instead of {expected}")]
    WrongSize {
        /// Logical size of the block.
        expected: usize,
        /// The decompressed size.
        found: usize,
    },
}

/// Shorthand of [`Algorithm::from_number`].
#[must_use]
pub fn from_number(number: u8) -> Option<Algorithm> {
    Algorithm::from_number(number)
}

/// Decompresses `src` into all of `dst`, whose length is the block's logical size.
///
/// `src` is the block as stored and may have padding behind the compressed data. On an error the
/// content of `dst` is unspecified.
pub fn decompress(algorithm: Algorithm, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    let result = match algorithm {
        Algorithm::Off => copy(src, dst),
        Algorithm::Lzjb => lzjb::decompress(src, dst),
        Algorithm::Empty => {
            dst.fill(0);
            Ok(())
        }
        Algorithm::Gzip(_) => gzip::decompress(src, dst),
        Algorithm::Zle => zle::decompress(src, dst),
        Algorithm::Lz4 => lz4::decompress(src, dst),
        Algorithm::Zstd(_) => zstd::decompress(src, dst),
    };
    result.map_err(|fault| Error { algorithm: algorithm.name(), fault })
}

/// Compresses a block; `None` when that does not save an eighth of it.
///
/// [`Algorithm::Off`] never saves anything; [`Algorithm::Empty`] saves everything for an all-zero
/// block and nothing for another. The caller rounds the result up to sectors.
#[must_use]
pub fn compress(algorithm: Algorithm, src: &[u8]) -> Option<Vec<u8>> {
    let limit = budget(src.len());
    let out = match algorithm {
        Algorithm::Off => None,
        Algorithm::Lzjb => lzjb::compress(src, limit),
        Algorithm::Empty => is_zero(src).then(Vec::new),
        Algorithm::Gzip(level) => gzip::compress(src, limit, level),
        Algorithm::Zle => zle::compress(src, limit),
        Algorithm::Lz4 => lz4::compress(src, limit),
        Algorithm::Zstd(level) => zstd::compress(src, limit, level),
    };
    out.filter(|o| o.len() <= limit)
}

/// Largest compressed size of a block of `len` bytes that is worth storing.
#[must_use]
pub fn budget(len: usize) -> usize {
    len - len / 8
}

/// Every byte is zero. Such a block becomes a hole when the dataset compresses at all.
#[must_use]
pub fn is_zero(data: &[u8]) -> bool {
    // Chunks of a cache line let the compiler use vectors; each chunk is still an early way out.
    let chunks = data.chunks_exact(64);
    chunks.remainder().iter().all(|b| *b == 0)
        && chunks.into_iter().all(|c| c.iter().fold(0, |acc, b| acc | b) == 0)
}

fn copy(src: &[u8], dst: &mut [u8]) -> Result<(), Fault> {
    match src.get(..dst.len()) {
        Some(s) => {
            dst.copy_from_slice(s);
            Ok(())
        }
        None => Err(Fault::Truncated { needed: dst.len(), available: src.len() }),
    }
}

/// Splits off the big-endian length that LZ4 and zstd blocks begin with, and returns the `length`
/// bytes that follow a header of `header` bytes (which includes the length itself).
fn length_prefixed(src: &[u8], header: usize) -> Result<&[u8], Fault> {
    let truncated = |needed| Fault::Truncated { needed, available: src.len() };
    let (prefix, _) = src.split_first_chunk::<4>().ok_or(truncated(header))?;
    let length = u32::from_be_bytes(*prefix) as usize;
    let end = header.checked_add(length).ok_or(truncated(usize::MAX))?;
    src.get(header..end).ok_or(truncated(end))
}
