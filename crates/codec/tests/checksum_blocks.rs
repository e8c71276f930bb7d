//! Checksums against blocks that OpenZFS 2.3.2 wrote: one of each algorithm, and one of each kind
//! that carries its checksum in itself. `data/checksum/blocks.bin` is the blocks one after the
//! other, read from the pools `codecs`, `basic`, `gang`, `ziluncle` and `zil-slog`.

use codec::checksum::Algorithm::{Blake3, Edonr, Fletcher2, Fletcher4, Sha256, Sha512_256, Skein};
use codec::checksum::{
    Algorithm, ByteOrder, EmbeddedError, Salted, compute, seal_gang_header, seal_label,
    seal_zilog2, verify_gang_header, verify_label, verify_zilog2,
};

static BLOCKS: &[u8] = include_bytes!("data/checksum/blocks.bin");

/// The salt of the pool the first blocks are from.
const SALT: [u8; 32] = [
    0x4f, 0x63, 0x16, 0x51, 0x58, 0x62, 0xe6, 0xb0, 0x1b, 0xc8, 0xbe, 0x77, 0x75, 0x6b, 0xb5, 0x66,
    0x2b, 0xc4, 0x71, 0xa3, 0x51, 0xc7, 0x88, 0x1c, 0xd1, 0x8d, 0x1e, 0x57, 0x87, 0xc0, 0xe8, 0xe6,
];

/// Algorithm, place and length in the file, and the words of the block pointer.
type Stored = (Algorithm, usize, usize, [u64; 4]);
const STORED: [Stored; 7] = [
    (
        Fletcher2,
        0,
        2048,
        [0x6e1c36b92a5dc5e0, 0x6fc7caf43f35e387, 0xbe9c34033bcfeb9f, 0xbeaa90d3b5d6681d],
    ),
    (Fletcher4, 2048, 1024, [0x45c62310fe, 0x1e558d5d2c1e, 0x9f1019bb01213, 0x2833fb2e5ca58a1]),
    (
        Sha256,
        3072,
        1024,
        [0x78f9b055cad56027, 0x1caf1cb79a466574, 0xcbaa618338f7aff5, 0xd787ef643cef4d47],
    ),
    (
        Sha512_256,
        4096,
        1024,
        [0x9b52dc85577c0bfe, 0x91bcf1e70753462c, 0xfcd82f14e06bd5fc, 0x5ad843fc460303f0],
    ),
    (
        Skein,
        5120,
        1024,
        [0xf350c167feffd8ab, 0x291e4658b5ec3f35, 0x2f2c376d28b30c24, 0xfb0df1d69e8c1bfa],
    ),
    (
        Edonr,
        6144,
        1024,
        [0xf7094f6325542975, 0xa8f5c474ba748fcf, 0x72c343f0e0ac5dda, 0x53c81bbb53d241bc],
    ),
    (
        Blake3,
        7168,
        1024,
        [0xd339fc5a8511506c, 0xde3c15a949aeaf8f, 0xfc456d0a008a0cc1, 0x17718e947c1d94c4],
    ),
];

/// An uberblock slot and its offset on the vdev.
const UBERBLOCK: (&[u8], u64) = (BLOCKS.split_at(8192).1.split_at(1024).0, 0x61400);
/// A gang header; it stood on vdev 0 at offset 0x3c00, born in txg 4.
const GANG: &[u8] = BLOCKS.split_at(9216).1.split_at(512).0;
/// A gang header over dnodes of an encrypted dataset, which `ztest -g 8192` of OpenZFS 2.3 wrote.
static SECRET_GANG: &[u8] = include_bytes!("data/checksum/gang-mac.bin");
/// An intent-log block, the bytes used, and the checksum words of the pointer to it.
const LOG: (&[u8], usize, [u64; 4]) = (
    BLOCKS.split_at(9728).1.split_at(4096).0,
    3872,
    [0xb507fab9f90cb21a, 0xf9bd91d69fc3e301, 0x69, 5],
);
/// The same of an encrypted dataset.
const SECRET_LOG: (&[u8], usize, [u64; 4]) =
    (BLOCKS.split_at(13824).1, 3248, [0x7575ff90693d16e5, 0x58e2624cb79c2c68, 0x85, 0xbb]);

#[test]
fn every_algorithm() {
    let salted = Salted::new(&SALT);
    for (algorithm, at, len, words) in STORED {
        let mut block = BLOCKS[at..at + len].to_vec();
        let digest = compute(algorithm, ByteOrder::Little, &salted, &block);
        assert_eq!(digest.0, words, "{algorithm:?}");
        assert!(digest.matches(algorithm, words, false));
        block[len / 2] ^= 0x40;
        let digest = compute(algorithm, ByteOrder::Little, &salted, &block);
        assert_ne!(digest.0, words, "{algorithm:?}");
    }
}

#[test]
fn uberblock_slot() {
    let (slot, offset) = UBERBLOCK;
    assert_eq!(verify_label(slot, offset), Ok(ByteOrder::Little));
    // The same bytes in the next slot are not an uberblock.
    assert!(matches!(verify_label(slot, offset + 1024), Err(EmbeddedError::Mismatch { .. })));
    let mut again = cleared(slot, slot.len() - 40);
    seal_label(&mut again, ByteOrder::Little, offset).unwrap();
    assert_eq!(again, slot);
}

#[test]
fn gang_header() {
    assert_eq!(verify_gang_header(GANG, 0, 0x3c00, 4, false), Ok(ByteOrder::Little));
    for (vdev, offset, birth) in [(1, 0x3c00, 4), (0, 0x3e00, 4), (0, 0x3c00, 5)] {
        assert!(verify_gang_header(GANG, vdev, offset, birth, false).is_err());
    }
    let mut again = cleared(GANG, GANG.len() - 40);
    seal_gang_header(&mut again, ByteOrder::Little, 0, 0x3c00, 4, false).unwrap();
    assert_eq!(again, GANG);
}

#[test]
fn gang_header_of_an_encrypted_block() {
    let (offset, birth) = (0x2e_a200, 318);
    let little = ByteOrder::Little;
    assert_eq!(verify_gang_header(SECRET_GANG, 0, offset, birth, true), Ok(little));
    assert!(verify_gang_header(SECRET_GANG, 0, offset, birth, false).is_err());
    assert!(verify_gang_header(SECRET_GANG, 0, offset, birth + 1, true).is_err());
    let mut again = cleared(SECRET_GANG, SECRET_GANG.len() - 40);
    seal_gang_header(&mut again, little, 0, offset, birth, true).unwrap();
    assert_eq!(again, SECRET_GANG);
}

#[test]
fn log_block() {
    let (block, used, seed) = LOG;
    assert_eq!(verify_zilog2(block, seed, false), Ok((ByteOrder::Little, used)));
    let next = [seed[0], seed[1], seed[2], seed[3] + 1];
    assert!(verify_zilog2(block, next, false).is_err());
    let mut again = cleared(block, 144);
    seal_zilog2(&mut again, ByteOrder::Little, seed, None).unwrap();
    assert_eq!(again, block);
}

#[test]
fn encrypted_log_block() {
    let (block, used, seed) = SECRET_LOG;
    assert_eq!(verify_zilog2(block, seed, true), Ok((ByteOrder::Little, used)));
    assert!(verify_zilog2(block, seed, false).is_err());
    let word = |at: usize| u64::from_le_bytes(*block[at..].first_chunk().unwrap());
    let mut again = cleared(block, 144);
    seal_zilog2(&mut again, ByteOrder::Little, seed, Some([word(168), word(176)])).unwrap();
    assert_eq!(again, block);
}

/// The block without the trailer at that place.
fn cleared(block: &[u8], trailer: usize) -> Vec<u8> {
    let mut out = block.to_vec();
    out[trailer..trailer + 40].fill(0);
    out
}
