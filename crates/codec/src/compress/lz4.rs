//! LZ4: big-endian length of the compressed data, then one LZ4 block (not a frame).
//!
//! The block follows the LZ4 block format without a dictionary, so any LZ4 library reads it; only
//! the length prefix is ZFS's own.

use super::{Fault, length_prefixed};
use std::cell::RefCell;

const HEADER: usize = 4;

thread_local! {
    /// Room for the worst case, which the encoder wants to have: kept, because it is larger than
    /// the block and would be zeroed afresh for every one.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Scratch space above this many bytes is given back after use.
const SCRATCH_KEPT: usize = 2 << 20;

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Fault> {
    let block = length_prefixed(src, HEADER)?;
    match lz4_flex::block::decompress_into(block, dst) {
        Ok(found) if found == dst.len() => Ok(()),
        Ok(found) => Err(Fault::WrongSize { expected: dst.len(), found }),
        Err(_) => Err(Fault::Malformed { at: 0 }),
    }
}

pub(super) fn compress(src: &[u8], limit: usize) -> Option<Vec<u8>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let room = lz4_flex::block::get_maximum_output_size(src.len());
        if scratch.len() < room {
            scratch.resize(room, 0);
        }
        let length = lz4_flex::block::compress_into(src, scratch).ok();
        let block = length.filter(|n| n + HEADER <= limit).and_then(|n| scratch.get(..n));
        let out = block.and_then(|block| {
            let mut out = Vec::with_capacity(HEADER + block.len());
            out.extend_from_slice(&u32::try_from(block.len()).ok()?.to_be_bytes());
            out.extend_from_slice(block);
            Some(out)
        });
        if scratch.len() > SCRATCH_KEPT {
            *scratch = Vec::new();
        }
        out
    })
}
