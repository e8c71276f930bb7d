//! Known answers, twins and hostile bytes, over the public functions.

use super::*;
use proptest::prelude::*;

/// Bytes from hexadecimal digits; blanks are passed over.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[h, l]| h << 4 | l).collect()
}

fn digest(algorithm: Algorithm, order: ByteOrder, data: &[u8]) -> [u64; 4] {
    compute(algorithm, order, &Salted::default(), data).0
}

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

/// FIPS 180-4, "abc": the words are the digest as it is written down, on all machines.
#[test]
fn sha256_words_are_big_endian() {
    let want = [0xba7816bf8f01cfea, 0x414140de5dae2223, 0xb00361a396177a9c, 0xb410ff61f20015ad];
    for order in ORDERS {
        assert_eq!(digest(Algorithm::Sha256, order, b"abc"), want);
    }
}

/// FIPS 180-4, "abc".
#[test]
fn sha512_256_words_are_the_writers() {
    let want = [0x53048e2681941ef9, 0x9b2e29b76b4c7dab, 0xe4c2d0c634fc6d46, 0xe0e2f13107e7af23u64];
    assert_eq!(digest(Algorithm::Sha512_256, ByteOrder::Big, b"abc"), want);
    let swapped = want.map(u64::swap_bytes);
    assert_eq!(digest(Algorithm::Sha512_256, ByteOrder::Little, b"abc"), swapped);
}

/// By hand: words 1, 2, 3, 4 (Fletcher-2 takes them in pairs).
#[test]
fn fletcher_by_hand() {
    let words2: Vec<u8> = [1u64, 2, 3, 4].iter().flat_map(|w| w.to_be_bytes()).collect();
    assert_eq!(digest(Algorithm::Fletcher2, ByteOrder::Big, &words2), [4, 6, 5, 8]);
    let words4: Vec<u8> = [1u32, 2, 3, 4].iter().flat_map(|w| w.to_be_bytes()).collect();
    assert_eq!(digest(Algorithm::Fletcher4, ByteOrder::Big, &words4), [10, 20, 35, 56]);
}

#[test]
fn nothing_is_zero() {
    for algorithm in [Algorithm::Off, Algorithm::NoParity] {
        assert_eq!(digest(algorithm, ByteOrder::Little, b"anything"), [0; 4]);
    }
}

/// A salt changes the salted algorithms and no other.
#[test]
fn salt_matters_where_it_should() {
    let data = [3u8; 1000];
    for algorithm in Algorithm::ALL {
        let a = compute(algorithm, ByteOrder::Little, &Salted::new(&[1; 32]), &data);
        let b = compute(algorithm, ByteOrder::Little, &Salted::new(&[2; 32]), &data);
        assert_eq!(a != b, algorithm.is_salted(), "{algorithm:?}");
    }
}

/// A pointer with a MAC keeps two words: folded for weak sums, cut for strong ones.
#[test]
fn truncation() {
    let d = Digest([1, 2, 4, 8]);
    assert_eq!(d.truncated(Algorithm::Fletcher4), [5, 10]);
    assert_eq!(d.truncated(Algorithm::Edonr), [5, 10]);
    assert_eq!(d.truncated(Algorithm::Sha256), [1, 2]);
    assert!(d.matches(Algorithm::Sha256, [1, 2, 99, 99], true));
    assert!(!d.matches(Algorithm::Sha256, [1, 2, 99, 99], false));
}

/// A slim intent-log block of `len` bytes that says `used` of it are used.
fn slim(order: ByteOrder, len: usize, used: u64) -> Vec<u8> {
    let mut block: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    block[136..144].copy_from_slice(&order.put_u64(used));
    block
}

#[test]
fn slim_block_is_summed_as_far_as_used() {
    for order in ORDERS {
        let mut block = slim(order, 3 * 4096, 5000);
        seal_zilog2(&mut block, order, [1, 2, 3, 4], None).unwrap();
        assert_eq!(verify_zilog2(&block, [1, 2, 3, 4], false), Ok((order, 5000)));
        // A change behind the used part, or a block cut there, is still good.
        block[8192] ^= 1;
        assert!(verify_zilog2(&block, [1, 2, 3, 4], false).is_ok());
        assert!(verify_zilog2(&block[..8192], [1, 2, 3, 4], false).is_ok());
        // Another seed, a change before it, or a shorter block is not.
        assert!(verify_zilog2(&block, [1, 2, 3, 5], false).is_err());
        assert_eq!(
            verify_zilog2(&block[..8191], [1, 2, 3, 4], false),
            Err(EmbeddedError::Overrun { used: 5000, len: 8191 })
        );
        block[8191] ^= 1;
        assert!(matches!(
            verify_zilog2(&block, [1, 2, 3, 4], false),
            Err(EmbeddedError::Mismatch { .. })
        ));
    }
}

#[test]
fn lying_lengths_are_named() {
    for used in [0, 183, 4097, u64::MAX] {
        let mut block = slim(ByteOrder::Little, 4096, used);
        let overrun = EmbeddedError::Overrun { used, len: 4096 };
        assert_eq!(seal_zilog2(&mut block, ByteOrder::Little, [0; 4], None), Err(overrun));
        block[144..152].copy_from_slice(&TRAILER_MAGIC.to_le_bytes());
        assert_eq!(verify_zilog2(&block, [0; 4], false), Err(overrun));
    }
    assert!(matches!(verify_label(&[0; 512], 0), Err(EmbeddedError::NoMagic { found: 0 })));
    assert!(matches!(verify_label(&[0; 39], 0), Err(EmbeddedError::TooShort { len: 39 })));
}

/// Words 2 and 3 of a sealed block may be a MAC; the checksum then stands folded in the others.
#[test]
fn log_blocks_with_a_mac() {
    let seed = [9, 8, 7, 6];
    let mut block = slim(ByteOrder::Little, 4096, 4000);
    seal_zilog2(&mut block, ByteOrder::Little, seed, Some([11, 12])).unwrap();
    assert_eq!(block[168..176], 11u64.to_le_bytes());
    assert!(verify_zilog2(&block, seed, true).is_ok());
    assert!(verify_zilog2(&block, seed, false).is_err());
    block[200] ^= 1;
    assert!(verify_zilog2(&block, seed, true).is_err());
}

proptest! {
    /// What is sealed verifies in its place, and neither elsewhere nor with a bit changed.
    #[test]
    fn seals_hold(
        mut block in proptest::collection::vec(any::<u8>(), 184..700),
        seed in any::<[u64; 4]>(),
        flip in any::<prop::sample::Index>(),
        big: bool,
    ) {
        let order = ORDERS[usize::from(big)];
        let bit = flip.index(block.len() * 8);
        seal_label(&mut block, order, seed[0]).unwrap();
        prop_assert_eq!(verify_label(&block, seed[0]), Ok(order));
        prop_assert!(verify_label(&block, seed[0] ^ 1).is_err());
        block[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(verify_label(&block, seed[0]).is_err());

        let [vdev, offset, birth, _] = seed;
        seal_gang_header(&mut block, order, vdev, offset, birth, big).unwrap();
        prop_assert_eq!(verify_gang_header(&block, vdev, offset, birth, big), Ok(order));
        prop_assert!(verify_gang_header(&block, vdev, offset, birth ^ 1, big).is_err());

        block.truncate(block.len() / 16 * 16);
        if let Some(room) = block.len().checked_sub(ZIL_CHAIN_SIZE) {
            block[room + 136..room + 144].copy_from_slice(&order.put_u64(room as u64));
            seal_zilog(&mut block, order, seed, None).unwrap();
            prop_assert_eq!(verify_zilog(&block, seed, false), Ok((order, room)));
            let bit = bit % (block.len() * 8);
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(verify_zilog(&block, seed, false).is_err());
        }
    }

    /// No bytes of any length panic.
    #[test]
    fn anything_goes(mut data in proptest::collection::vec(any::<u8>(), 0..5000), magic: bool) {
        for at in [144, data.len().saturating_sub(TRAILER_SIZE)] {
            if let (true, Some(place)) = (magic, data.get_mut(at..at + 8)) {
                place.copy_from_slice(&TRAILER_MAGIC.to_le_bytes());
            }
        }
        for order in ORDERS {
            for algorithm in Algorithm::ALL {
                let _ = digest(algorithm, order, &data);
            }
            let mut copy = data.clone();
            let _ = seal_label(&mut copy, order, 1);
            let _ = seal_zilog(&mut copy, order, [0; 4], None);
            let _ = seal_zilog2(&mut copy, order, [0; 4], Some([1, 2]));
        }
        let _ = verify_label(&data, 0);
        let _ = verify_gang_header(&data, 0, 0, 0, false);
        let _ = verify_zilog(&data, [0; 4], false);
        let _ = verify_zilog2(&data, [0; 4], true);
    }
}
