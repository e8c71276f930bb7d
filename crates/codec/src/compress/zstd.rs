//! Zstandard: a header of eight bytes and one frame without magic number, content size and
//! checksum.
//!
//! ```text
//! 0  u32 BE  length of the frame
//! 4  u8      code of the level
//! 5  u24 BE  version of the library that compressed (10405 is 1.4.5)
//! 8          frame
//! ```
//!
//! Length, block checksum and logical size are in the block pointer already, so the frame leaves
//! them out. Version and level do not matter to read the block. They are there so that a block
//! whose uncompressed copy was cached can be compressed to the very same bytes again.
//!
//! The level is coded in one byte: 1 to 19 as they are, the fast (negative) levels from 103 up in
//! the order of [`FAST_LEVELS`].

use super::{Fault, length_prefixed};
use std::cell::RefCell;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat, ResetDirective};

const HEADER: usize = 8;
/// Code of level -1. The codes from 20 to 102 are left for higher levels.
const FAST_CODE: usize = 103;
/// Negative levels that have a code, as positive numbers, in the order of their codes.
#[rustfmt::skip]
const FAST_LEVELS: [i32; 21] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 500, 1000,
];

thread_local! {
    /// Contexts are a few hundred KiB to some MiB and costly to make; they hold no state between
    /// blocks.
    static DECODER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    static ENCODER: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
}

/// The header before the frame of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZstdHeader {
    /// Length of the frame in bytes.
    pub length: u32,
    /// Version of the library that compressed.
    pub version: u32,
    /// Code of the level.
    pub level: u8,
}

impl ZstdHeader {
    /// The header of a compressed block; `None` when it is shorter.
    #[must_use]
    pub fn decode(block: &[u8]) -> Option<Self> {
        let [a, b, c, d, level, x, y, z] = *block.first_chunk::<HEADER>()?;
        let length = u32::from_be_bytes([a, b, c, d]);
        Some(Self { length, version: u32::from_be_bytes([0, x, y, z]), level })
    }
}

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Fault> {
    let frame = length_prefixed(src, HEADER)?;
    DECODER.with_borrow_mut(|slot| {
        let mut decoder = slot.take().or_else(new_decoder).ok_or(Fault::Malformed { at: 0 })?;
        let result = decoder.decompress(dst, frame);
        match result {
            Ok(found) => {
                *slot = Some(decoder);
                match found == dst.len() {
                    true => Ok(()),
                    false => Err(Fault::WrongSize { expected: dst.len(), found }),
                }
            }
            // A context that failed is dropped rather than trusted to be clean.
            Err(_) => Err(Fault::Malformed { at: 0 }),
        }
    })
}

fn new_decoder() -> Option<DCtx<'static>> {
    let mut decoder = DCtx::try_create()?;
    decoder.set_parameter(DParameter::Format(FrameFormat::Magicless)).ok()?;
    Some(decoder)
}

pub(super) fn compress(src: &[u8], limit: usize, level: i32) -> Option<Vec<u8>> {
    let code = level_code(level)?;
    let mut out = vec![0; limit];
    let (header, frame) = out.split_first_chunk_mut::<HEADER>()?;
    let length = ENCODER.with_borrow_mut(|slot| {
        let mut encoder = slot.take().or_else(new_encoder)?;
        encoder.set_parameter(CParameter::CompressionLevel(level)).ok()?;
        let length = encoder.compress2(frame, src).ok();
        // The usual failure is a full output, which leaves the frame open.
        if length.is_some() || encoder.reset(ResetDirective::SessionOnly).is_ok() {
            *slot = Some(encoder);
        }
        length
    })?;
    let word = u32::from(code) << 24 | (zstd_safe::version_number() & 0xff_ffff);
    header[..4].copy_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
    header[4..].copy_from_slice(&word.to_be_bytes());
    out.truncate(HEADER + length);
    Some(out)
}

fn new_encoder() -> Option<CCtx<'static>> {
    let mut encoder = CCtx::try_create()?;
    encoder.set_parameter(CParameter::Format(FrameFormat::Magicless)).ok()?;
    encoder.set_parameter(CParameter::ChecksumFlag(false)).ok()?;
    encoder.set_parameter(CParameter::ContentSizeFlag(false)).ok()?;
    Some(encoder)
}

/// The byte of a level; `None` for a level ZFS has no code for.
fn level_code(level: i32) -> Option<u8> {
    match level {
        1..=19 => Some(level as u8),
        _ => {
            let i = FAST_LEVELS.iter().position(|l| level.checked_neg() == Some(*l))?;
            u8::try_from(FAST_CODE + i).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_codes_are_those_of_the_property_values() {
        assert_eq!(level_code(1), Some(1));
        assert_eq!(level_code(19), Some(19));
        assert_eq!(level_code(-1), Some(103));
        assert_eq!(level_code(-10), Some(112));
        assert_eq!(level_code(-20), Some(113));
        assert_eq!(level_code(-1000), Some(123));
        for none in [0, 20, -11, -1001, i32::MAX, i32::MIN] {
            assert_eq!(level_code(none), None, "{none}");
        }
    }
}
