//! LZJB: the dictionary coder ZFS began with.
//!
//! # Theory
//!
//! The data is a row of groups. A group is one copy map and up to eight items; bit `i` of the map,
//! least significant first, is the kind of item `i`:
//!
//! ```text
//! 0: a literal byte
//! 1: a match, two bytes:   LLLLLLOO OOOOOOOO   copy L + 3 bytes from O bytes back
//! ```
//!
//! So a match is 3 to 66 bytes long and reaches back 1 to 1023 bytes; source and target may
//! overlap (that is how runs are coded). There is no end mark: the decoder stops when the block is
//! full, in the middle of a group or even of a match.
//!
//! The encoder remembers for each hash of three bytes where it last saw them. It finds other
//! matches than OpenZFS may find; the format does not care.

use super::Fault;

const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = MATCH_MIN + 63;
const OFFSET_MAX: usize = 1023;
/// One slot for each offset in the window: more could not be reached anyway.
const HASH_SIZE: usize = 1024;

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Fault> {
    let mut input = src.iter().copied();
    let mut next = || {
        let (needed, available) = (src.len() + 1, src.len());
        input.next().ok_or(Fault::Truncated { needed, available })
    };
    let mut at = 0;
    while at < dst.len() {
        let mut map = next()?;
        for _ in 0..8 {
            if at == dst.len() {
                break;
            }
            if map & 1 == 0 {
                dst[at] = next()?;
                at += 1;
            } else {
                let (hi, lo) = (next()?, next()?);
                let length = usize::from(hi >> 2) + MATCH_MIN;
                let offset = usize::from(hi & 3) << 8 | usize::from(lo);
                if offset == 0 || offset > at {
                    return Err(Fault::Malformed { at });
                }
                at = copy_match(dst, at, offset, length);
            }
            map >>= 1;
        }
    }
    Ok(())
}

/// Copies at most `length` bytes from `offset` back to `at`; returns where the output now ends.
/// The caller has checked `1 <= offset <= at`.
fn copy_match(dst: &mut [u8], at: usize, offset: usize, length: usize) -> usize {
    let end = (at + length).min(dst.len());
    if offset >= length {
        dst.copy_within(at - offset..end - offset, at);
    } else {
        // Overlap: each byte may be one this very match has written.
        for i in at..end {
            dst[i] = dst[i - offset];
        }
    }
    end
}

pub(super) fn compress(src: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(limit);
    let mut seen = [0usize; HASH_SIZE];
    let mut at = 0;
    while at < src.len() {
        let map_at = out.len();
        out.push(0);
        for bit in 0..8 {
            let rest = src.get(at..).unwrap_or_default();
            let Some(&literal) = rest.first() else { break };
            match find_match(src, at, &mut seen) {
                Some((offset, length)) => {
                    out[map_at] |= 1 << bit;
                    out.push(((length - MATCH_MIN) << 2 | offset >> 8) as u8);
                    out.push(offset as u8);
                    at += length;
                }
                None => {
                    out.push(literal);
                    at += 1;
                }
            }
        }
        if out.len() > limit {
            return None;
        }
    }
    Some(out)
}

/// Finds an earlier copy of the bytes at `at`, as distance and length, and remembers `at`.
fn find_match(src: &[u8], at: usize, seen: &mut [usize; HASH_SIZE]) -> Option<(usize, usize)> {
    let rest = src.get(at..)?;
    let key = rest.first_chunk::<MATCH_MIN>()?;
    let packed = u32::from_le_bytes([key[0], key[1], key[2], 0]);
    let slot = (packed.wrapping_mul(0x9e37_79b1) >> 22) as usize % HASH_SIZE;
    let candidate = std::mem::replace(&mut seen[slot], at);
    let offset = at.checked_sub(candidate).filter(|o| (1..=OFFSET_MAX).contains(o))?;
    let earlier = src.get(candidate..)?;
    let length = rest.iter().zip(earlier).take(MATCH_MAX).take_while(|(a, b)| a == b).count();
    (length >= MATCH_MIN).then_some((offset, length))
}
