//! Targets for the decompressors.
//!
//! The input is two bytes that say how large the block shall be (in units of 16 bytes, so up to
//! 1 MiB), then the block as stored. The same bytes, taken as content, must also survive being
//! compressed and decompressed.
//!
//! The decoder of LZ4 is our own (decision 0055): of each input it must say what another decoder
//! says, and find the same bytes.

use crate::Target;
use codec::compress::{Algorithm, compress, decompress};

pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("gzip", |data| block(Algorithm::Gzip(6), data)),
    ("lz4", lz4),
    ("lzjb", |data| block(Algorithm::Lzjb, data)),
    ("zle", |data| block(Algorithm::Zle, data)),
    ("zstd", |data| block(Algorithm::Zstd(3), data)),
];

/// The size that a block shall have, and how it is stored.
fn parts(data: &[u8]) -> Option<(usize, &[u8])> {
    let (size, stored) = data.split_first_chunk::<2>()?;
    Some((usize::from(u16::from_le_bytes(*size)) * 16, stored))
}

fn block(algorithm: Algorithm, data: &[u8]) {
    let Some((size, stored)) = parts(data) else { return };
    let _ = decompress(algorithm, stored, &mut vec![0; size]);
    returns(algorithm, stored);
}

fn lz4(data: &[u8]) {
    let Some((size, stored)) = parts(data) else { return };
    let mut ours = vec![0x5a; size];
    let accepted = decompress(Algorithm::Lz4, stored, &mut ours).is_ok();
    returns(Algorithm::Lz4, stored);
    let Some((length, rest)) = stored.split_first_chunk::<4>() else { return };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    // Behind the block is what fills its last sector.
    let Some(packed) = rest.get(..length) else { return };
    let mut theirs = vec![0xa5; size];
    // A block of another size than the pointer says is refused in `codec`, not by a decoder.
    let found = lz4_flex::block::decompress_into(packed, &mut theirs);
    assert_eq!(accepted, found.as_ref().is_ok_and(|n| *n == size), "the other says {found:?}");
    assert!(!accepted || ours == theirs, "the other finds other bytes");
}

/// What is compressed comes back.
fn returns(algorithm: Algorithm, content: &[u8]) {
    if let Some(packed) = compress(algorithm, content) {
        let mut back = vec![0xa5; content.len()];
        match decompress(algorithm, &packed, &mut back) {
            Ok(()) => assert!(back == content, "{} loses content", algorithm.name()),
            Err(error) => panic!("{error} in what it compressed itself"),
        }
    }
}
