//! LZ4: big-endian length of the compressed data, then one LZ4 block (not a frame).
//!
//! The block follows the LZ4 block format without a dictionary, so any LZ4 library reads it; only
//! the length prefix is ZFS's own.
//!
//! # Theory
//!
//! A block is a row of sequences. A sequence is a token, literals, and a match: as many bytes again
//! as are so far back in what was decoded. The last one ends behind its literals.
//!
//! ```text
//! token: high four bits: literals, low four bits: bytes of the match less 4
//!        15: bytes follow that are added, up to the first that is not 255
//! literals, then a little-endian u16: how far back the match begins
//! ```
//!
//! A match may be longer than it is far back: then it repeats itself. Blocks of pointers are mostly
//! zeros or holes, and so mostly such matches, of many thousand bytes: a decoder that copies these
//! byte by byte takes thirty times as long for them, and much of the time that it takes to open a
//! pool. Here each copy takes all that there is by then, twice as much as the one before.

use super::{Fault, length_prefixed};
use std::cell::RefCell;

const HEADER: usize = 4;

/// Bytes that are copied at once where there is room for as many: most literals and matches are
/// shorter, and a copy of a fixed length is a move or two.
const STEP: usize = 16;

thread_local! {
    /// Room for the worst case, which the encoder wants to have: kept, because it is larger than
    /// the block and would be zeroed afresh for every one.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Scratch space above this many bytes is given back after use.
const SCRATCH_KEPT: usize = 2 << 20;

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Fault> {
    match decode(length_prefixed(src, HEADER)?, dst) {
        Ok(found) if found == dst.len() => Ok(()),
        Ok(found) => Err(Fault::WrongSize { expected: dst.len(), found }),
        Err(at) => Err(Fault::Malformed { at }),
    }
}

/// Decodes a block; how many bytes it has, or how many were decoded when it was found to be none.
fn decode(src: &[u8], dst: &mut [u8]) -> Result<usize, usize> {
    let (mut from, mut to) = (0, 0);
    loop {
        let token = *src.get(from).ok_or(to)?;
        from += 1;
        let literals = length(usize::from(token >> 4), src, &mut from).ok_or(to)?;
        match (src.get(from..from + STEP), dst.get_mut(to..to + STEP)) {
            // What is copied behind the literals is overwritten by what follows.
            (Some(step), Some(room)) if literals <= STEP => room.copy_from_slice(step),
            _ => {
                let from = src.get(from..).and_then(|rest| rest.get(..literals)).ok_or(to)?;
                let room = dst.get_mut(to..).and_then(|rest| rest.get_mut(..literals));
                room.ok_or(to)?.copy_from_slice(from);
            }
        }
        from += literals;
        to += literals;
        let Some(&[low, high]) = src.get(from..from + 2) else {
            return if from == src.len() { Ok(to) } else { Err(to) };
        };
        from += 2;
        let offset = usize::from(u16::from_le_bytes([low, high]));
        let count = length(usize::from(token & 15), src, &mut from).ok_or(to)?;
        let count = count.saturating_add(4);
        if offset == 0 || offset > to || count > dst.len() - to {
            return Err(to);
        }
        to = copy_match(dst, to, offset, count);
    }
}

/// A length that begins with these four bits of a token; `None`: the block ends within it.
#[inline]
fn length(nibble: usize, src: &[u8], from: &mut usize) -> Option<usize> {
    let mut sum = nibble;
    if nibble < 15 {
        return Some(sum);
    }
    loop {
        let byte = *src.get(*from)?;
        *from += 1;
        // No more than 255 for each byte of the block.
        sum += usize::from(byte);
        if byte != 255 {
            return Some(sum);
        }
    }
}

/// Copies `count` bytes from `offset` back to `to`; returns where they end. The caller has checked
/// that both are within, and that `offset` is not 0.
#[inline]
fn copy_match(dst: &mut [u8], to: usize, offset: usize, count: usize) -> usize {
    let (start, end) = (to - offset, to + count);
    if offset >= count && count <= 2 * STEP && dst.len() - to >= 2 * STEP {
        // What is copied behind its end is overwritten by what follows.
        dst.copy_within(start..start + STEP, to);
        if count > STEP {
            dst.copy_within(start + STEP..start + 2 * STEP, to + STEP);
        }
    } else if offset == 1 {
        let byte = dst[start];
        dst[to..end].fill(byte);
    } else {
        // Once if it does not overlap; else what was copied is copied with it the next time.
        let mut at = to;
        while at < end {
            let n = (at - start).min(end - at);
            dst.copy_within(start..start + n, at);
            at += n;
        }
    }
    end
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    /// Noise, text, what repeats after a while, and zeros with some noise.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let repeated = (vec(any::<u8>(), 1..200), 1..5000_usize)
            .prop_map(|(period, size)| period.iter().copied().cycle().take(size).collect());
        let sparse =
            (1..5000_usize, vec((any::<Index>(), any::<u8>()), 0..20)).prop_map(|(size, noise)| {
                let mut out = vec![0; size];
                noise.iter().for_each(|(at, byte)| out[at.index(size)] = *byte);
                out
            });
        prop_oneof![vec(any::<u8>(), 1..3000), vec(b'a'..b'g', 1..3000), repeated, sparse]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Another decoder finds the same in each block, also in one that was damaged.
        #[test]
        fn a_block_is_what_another_decoder_finds_in_it(
            content in content(),
            damage in vec((any::<Index>(), any::<u8>()), 0..4),
            cut in proptest::option::of(any::<Index>()),
        ) {
            let mut block = lz4_flex::block::compress(&content);
            for (at, byte) in &damage {
                let at = at.index(block.len());
                block[at] = *byte;
            }
            if let Some(at) = cut {
                block.truncate(at.index(block.len()));
            }
            let (mut ours, mut theirs) = (vec![0; content.len()], vec![0; content.len()]);
            let found = decode(&block, &mut ours).ok();
            let want = lz4_flex::block::decompress_into(&block, &mut theirs).ok();
            prop_assert_eq!(found, want);
            prop_assert!(found.is_none_or(|n| ours[..n] == theirs[..n]));
            if damage.is_empty() && cut.is_none() {
                prop_assert!(ours == content);
            }
        }
    }

    #[test]
    fn a_length_may_not_be_longer_than_the_block() {
        let mut dst = [0; 64];
        for block in [&[][..], &[0xf0], &[0xf0, 255], &[0x10], &[0x0f, 1, 0], &[0, 1], &[0, 0, 0]] {
            assert!(decode(block, &mut dst).is_err(), "{block:?}");
        }
        // One byte, and then that byte up to the end, and one too many.
        assert_eq!(decode(&[0x1f, 7, 1, 0, 44, 0], &mut dst), Ok(64));
        assert_eq!(dst, [7; 64]);
        assert_eq!(decode(&[0x1f, 7, 1, 0, 45, 0], &mut dst), Err(1));
    }
}
