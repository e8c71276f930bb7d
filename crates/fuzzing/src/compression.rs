//! Targets for the decompressors.
//!
//! The input is two bytes that say how large the block shall be (in units of 16 bytes, so up to
//! 1 MiB), then the block as stored. The same bytes, taken as content, must also survive being
//! compressed and decompressed.

use crate::Target;
use codec::compress::{Algorithm, compress, decompress};

pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("gzip", |data| block(Algorithm::Gzip(6), data)),
    ("lz4", |data| block(Algorithm::Lz4, data)),
    ("lzjb", |data| block(Algorithm::Lzjb, data)),
    ("zle", |data| block(Algorithm::Zle, data)),
    ("zstd", |data| block(Algorithm::Zstd(3), data)),
];

fn block(algorithm: Algorithm, data: &[u8]) {
    let Some((size, stored)) = data.split_first_chunk::<2>() else { return };
    let mut out = vec![0; usize::from(u16::from_le_bytes(*size)) * 16];
    let _ = decompress(algorithm, stored, &mut out);
    if let Some(packed) = compress(algorithm, stored) {
        let mut back = vec![0xa5; stored.len()];
        match decompress(algorithm, &packed, &mut back) {
            Ok(()) => assert!(back == stored, "{} loses content", algorithm.name()),
            Err(error) => panic!("{error} in what it compressed itself"),
        }
    }
}
