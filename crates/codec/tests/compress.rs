//! The codecs against blocks OpenZFS wrote, against themselves, and against hostile bytes.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use codec::compress::{Algorithm, budget, compress, decompress, from_number, is_zero};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

/// Stored blocks: name, algorithm, bytes. All decompress to the same block.
const STORED: [(&str, Algorithm, &[u8]); 10] = [
    ("lzjb", Algorithm::Lzjb, include_bytes!("data/compress/lzjb.bin")),
    ("zle", Algorithm::Zle, include_bytes!("data/compress/zle.bin")),
    ("lz4", Algorithm::Lz4, include_bytes!("data/compress/lz4.bin")),
    ("gzip-1", Algorithm::Gzip(1), include_bytes!("data/compress/gzip-1.bin")),
    ("gzip-6", Algorithm::Gzip(6), include_bytes!("data/compress/gzip-6.bin")),
    ("gzip-9", Algorithm::Gzip(9), include_bytes!("data/compress/gzip-9.bin")),
    ("zstd-1", Algorithm::Zstd(1), include_bytes!("data/compress/zstd-level1.bin")),
    ("zstd-3", Algorithm::Zstd(3), include_bytes!("data/compress/zstd-level3.bin")),
    ("zstd-19", Algorithm::Zstd(19), include_bytes!("data/compress/zstd-level19.bin")),
    ("zstd-fast-10", Algorithm::Zstd(-10), include_bytes!("data/compress/zstd-level112.bin")),
];
const PLAIN_SIZE: usize = 33_792;
const PLAIN_SHA256: &str = "2b18bb00bb4cbc928606b27b31452945a9338161ff177a9f6020971991b3c16d";

const CODERS: [Algorithm; 9] = [
    Algorithm::Lzjb,
    Algorithm::Zle,
    Algorithm::Lz4,
    Algorithm::Gzip(1),
    Algorithm::Gzip(6),
    Algorithm::Gzip(9),
    Algorithm::Zstd(3),
    Algorithm::Zstd(19),
    Algorithm::Zstd(-10),
];

fn plain() -> Vec<u8> {
    let mut out = vec![0; PLAIN_SIZE];
    decompress(STORED[0].1, STORED[0].2, &mut out).unwrap();
    out
}

#[test]
fn reads_what_openzfs_wrote() {
    for (name, algorithm, stored) in STORED {
        let mut out = vec![0xa5; PLAIN_SIZE];
        decompress(algorithm, stored, &mut out).unwrap_or_else(|e| panic!("{name}: {e}"));
        let digest: String = Sha256::digest(&out).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digest, PLAIN_SHA256, "{name}");
    }
}

#[test]
fn zstd_header_is_the_one_openzfs_writes() {
    let block = plain();
    for (name, algorithm, stored) in STORED {
        if let Algorithm::Zstd(_) = algorithm {
            let ours = compress(algorithm, &block).unwrap();
            assert_eq!(ours[4], stored[4], "{name}: code of the level");
            let length = u32::from_be_bytes(ours[..4].try_into().unwrap()) as usize;
            assert_eq!(length + 8, ours.len(), "{name}: length of the frame");
        }
    }
}

/// A format's compressor is expected to do about as well as OpenZFS's own.
#[test]
fn compresses_about_as_well_as_openzfs() {
    let block = plain();
    for (name, algorithm, stored) in STORED {
        let ours = compress(algorithm, &block).unwrap().len();
        assert!(ours <= stored.len() + stored.len() / 8, "{name}: {ours} of {}", stored.len());
    }
}

#[test]
fn wrong_logical_sizes_are_refused() {
    for (name, algorithm, stored) in STORED {
        // LZJB and ZLE have no end of their own: a shorter block is a prefix, except that ZLE
        // must end with a run, and longer ones run out of input or into the padding.
        let mut longer = vec![0; PLAIN_SIZE * 4];
        assert!(decompress(algorithm, stored, &mut longer).is_err(), "{name}: longer");
        if !matches!(algorithm, Algorithm::Lzjb | Algorithm::Zle) {
            let mut shorter = vec![0; PLAIN_SIZE - 1];
            assert!(decompress(algorithm, stored, &mut shorter).is_err(), "{name}: shorter");
        }
    }
}

#[test]
fn every_truncation_ends_in_an_error_or_the_same_block() {
    let block = plain();
    for (name, algorithm, stored) in STORED {
        let mut out = vec![0; PLAIN_SIZE];
        for end in (0..stored.len()).step_by(7) {
            if decompress(algorithm, &stored[..end], &mut out).is_ok() {
                assert_eq!(out, block, "{name}: cut to {end}");
            }
        }
    }
}

#[test]
fn a_failed_block_does_not_spoil_the_next() {
    for (name, algorithm, stored) in STORED {
        let mut out = vec![0; PLAIN_SIZE];
        let mut broken = stored.to_vec();
        broken[20..40].fill(0xff);
        let _ = decompress(algorithm, &broken, &mut out);
        assert_eq!(compress(algorithm, &[0x5a, 0x3c]), None, "{name}: tiny");
        assert!(decompress(algorithm, stored, &mut out).is_ok(), "{name}");
        assert!(compress(algorithm, &out).is_some(), "{name}");
    }
}

#[test]
fn noise_is_not_worth_compressing() {
    // A plain xorshift: no coder finds an eighth in it.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(16_384)
    .collect();
    for algorithm in CODERS {
        assert_eq!(compress(algorithm, &noise), None, "{algorithm:?}");
    }
}

#[test]
fn numbers_name_the_algorithms() {
    for (number, name) in [(2, "off"), (3, "lzjb"), (4, "empty"), (14, "zle"), (15, "lz4")] {
        let algorithm = from_number(number).unwrap();
        assert_eq!((algorithm.number(), algorithm.name()), (number, name));
    }
    for number in 5..=13 {
        assert_eq!(from_number(number), Some(Algorithm::Gzip(number - 4)));
    }
    assert_eq!(from_number(16), Some(Algorithm::Zstd(3)));
    for number in [0, 1, 17, 127, 255] {
        assert_eq!(from_number(number), None, "{number}");
    }
}

#[test]
fn empty_and_off() {
    let mut out = vec![7; 1024];
    decompress(Algorithm::Empty, &[], &mut out).unwrap();
    assert!(is_zero(&out));
    assert_eq!(compress(Algorithm::Empty, &out), Some(Vec::new()));
    out[1023] = 1;
    assert!(!is_zero(&out));
    assert_eq!(compress(Algorithm::Empty, &out), None);
    assert_eq!(compress(Algorithm::Off, &out), None);
    let mut copy = vec![0; 1000];
    decompress(Algorithm::Off, &out, &mut copy).unwrap();
    assert_eq!(copy, out[..1000]);
    assert!(decompress(Algorithm::Off, &out[..999], &mut copy).is_err());
}

#[test]
fn lzjb_offsets_outside_the_output_are_refused() {
    let mut out = [0; 16];
    // First item a match: nothing to copy from yet.
    assert!(decompress(Algorithm::Lzjb, &[0x01, 0x00, 0x01], &mut out).is_err());
    // A literal, then a match of offset 0, and one of offset 2.
    assert!(decompress(Algorithm::Lzjb, &[0x02, b'a', 0x00, 0x00], &mut out).is_err());
    assert!(decompress(Algorithm::Lzjb, &[0x02, b'a', 0x00, 0x02], &mut out).is_err());
    // A literal, then a match of 15 bytes one back: a run.
    decompress(Algorithm::Lzjb, &[0x02, b'a', 12 << 2, 0x01], &mut out).unwrap();
    assert_eq!(out, [b'a'; 16]);
}

/// Data as blocks have it: runs, repeats from near and far, and bytes of their own.
fn blockish() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (any::<u8>(), 1_usize..300).prop_map(|(b, n)| vec![b; n]),
        (1_usize..300).prop_map(|n| vec![0; n]),
        prop::collection::vec(any::<u8>(), 1..80),
        prop::collection::vec(b'a'..b'e', 1..200),
    ];
    prop::collection::vec(piece, 1..24).prop_map(|p| p.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn round_trip_with_padding(block in blockish(), padding in 0_usize..600) {
        for algorithm in CODERS {
            if let Some(mut stored) = compress(algorithm, &block) {
                prop_assert!(stored.len() <= budget(block.len()));
                stored.resize(stored.len() + padding, 0);
                let mut out = vec![0xa5; block.len()];
                prop_assert_eq!(decompress(algorithm, &stored, &mut out), Ok(()));
                prop_assert_eq!(&out, &block, "{:?}", algorithm);
            }
        }
    }

    #[test]
    fn hostile_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..512),
        size in 0_usize..4096,
    ) {
        let mut out = vec![0; size];
        for algorithm in CODERS {
            let _ = decompress(algorithm, &bytes, &mut out);
            // The same with a length prefix that fits, so that the coder itself is reached.
            let mut prefixed = (bytes.len() as u32).to_be_bytes().to_vec();
            if matches!(algorithm, Algorithm::Zstd(_)) {
                prefixed.extend_from_slice(&[3, 0, 0x28, 0xa5]);
            }
            prefixed.extend_from_slice(&bytes);
            let _ = decompress(algorithm, &prefixed, &mut out);
        }
    }

    #[test]
    fn damaged_blocks_never_panic(
        which in 0..STORED.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (_, algorithm, stored) = STORED[which];
        let mut stored = stored.to_vec();
        for (at, value) in damage {
            let at = at.index(stored.len());
            stored[at] = value;
        }
        let mut out = vec![0; PLAIN_SIZE];
        let _ = decompress(algorithm, &stored, &mut out);
    }
}
