//! ZAP blocks that OpenZFS 2.3.2 wrote, and hostile ones.
//!
//! The samples were cut, decompressed, from the pools of the corpus: the directory with names in
//! many scripts from three file systems of `casefold`, the block reference table and the attribute
//! registry of a file system from `dedup-clone` and `basic`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ondisk::zap::{
    BlockKind, Chunk, FirstBlock, KeyHash, Leaf, LeafEntry, Match, MicroChunk, MicroZap, ZapHeader,
    ZapKey, ZapName, block_kind,
};
use ondisk::{Endian, Error};
use proptest::prelude::*;

const LITTLE: Endian = Endian::Little;
const MICRO: &[u8] = include_bytes!("data/sa/registry.bin");
const HEADER: &[u8] = include_bytes!("data/zap/header-formc-insensitive.bin");
const LEAF: &[u8] = include_bytes!("data/zap/leaf-formc-insensitive.bin");
const LEAF_NFD: &[u8] = include_bytes!("data/zap/leaf-formd.bin");
const LEAF_NFKD: &[u8] = include_bytes!("data/zap/leaf-formkd.bin");
const LEAF_BRT: &[u8] = include_bytes!("data/zap/leaf-brt.bin");

/// Salts of the ZAPs whose headers are not among the samples, as zdb prints them.
const SALT_NFD: u64 = 0x2f_3af5;
const SALT_NFKD: u64 = 0x36_8be5;
const SALT_BRT: u64 = 0x3f_7e25;

fn fetch_none(_: u64) -> Result<Vec<u8>, Error> {
    panic!("an embedded table needs no other block")
}

#[test]
fn micro_zap_reads_and_reproduces() {
    assert_eq!(block_kind(MICRO, LITTLE), Some(BlockKind::Micro));
    let zap = MicroZap::decode(MICRO, LITTLE).unwrap();
    assert_eq!(zap.encode(LITTLE), MICRO);
    assert_eq!(MicroZap::decode(&zap.encode(Endian::Big), Endian::Big).unwrap(), zap);
    assert_eq!(zap.iter().count(), 22);
    assert_eq!(zap.chunks.len(), 23);
    let key = ZapKey::name(&zap.key_hash(), b"ZPL_MODE", Match::Exact);
    let mode = zap.lookup(&key).unwrap();
    // Length 8, byte swap class 0 (64-bit words), number 5.
    assert_eq!((mode.value, mode.cd), (0x0800_0005, 0));
    let none = ZapKey::name(&zap.key_hash(), b"zpl_mode", Match::Normalize);
    assert_eq!(zap.lookup(&none), None);
    let in_order = zap.entries();
    assert!(in_order.is_sorted_by_key(|e| (e.hash, e.cd)));
    assert!(
        in_order.iter().any(|e| e.name.bytes() == Some(b"ZPL_MODE") && e.u64() == Some(mode.value))
    );
}

#[test]
fn fat_zap_is_found_from_the_header_to_the_value() {
    let FirstBlock::Fat(header) = FirstBlock::decode(HEADER, LITTLE).unwrap() else {
        panic!("the header of a fat ZAP")
    };
    assert_eq!(header.encode(LITTLE), HEADER);
    assert_eq!(ZapHeader::decode(&header.encode(Endian::Big), Endian::Big).unwrap(), header);
    assert_eq!((header.norm_flags, header.table.shift, header.entry_count), (0x52, 10, 16));
    assert_eq!(header.leaf_blocks(LITTLE, fetch_none).unwrap(), [1]);
    let leaf = Leaf::decode(LEAF, LITTLE).unwrap();
    let of = header.key_hash();

    // Any spelling finds the name that is stored; keeping case, only its own does.
    let find = |name: &str, how| {
        let key = ZapKey::name(&of, name.as_bytes(), how);
        assert_eq!(header.leaf_of(key.hash, LITTLE, fetch_none).unwrap(), 1);
        leaf.lookup(&key)
            .unwrap()
            .map(|e| String::from_utf8(e.name.bytes().unwrap().into()).unwrap())
    };
    assert_eq!(find("\u{c9}CLAIR", Match::Normalize).as_deref(), Some("e\u{301}clair"));
    assert_eq!(find("\u{e9}clair", Match::NormalizeKeepCase).as_deref(), Some("e\u{301}clair"));
    assert_eq!(find("\u{c9}CLAIR", Match::NormalizeKeepCase), None);
    assert_eq!(find("\u{e9}clair", Match::Exact), None);
    // U+2126 is the ohm sign, which both forms replace by the letter.
    assert_eq!(find("\u{2126}MEGA", Match::Normalize).as_deref(), Some("\u{3a9}mega"));
    assert_eq!(find("STRASSE", Match::Normalize), None);
}

#[test]
fn every_stored_hash_is_the_one_we_compute() {
    let of_header = ZapHeader::decode(HEADER, LITTLE).unwrap().key_hash();
    let of = |salt, norm_flags| KeyHash { salt, flags: 0, norm_flags };
    let samples = [
        (LEAF, of_header, 16),
        (LEAF_NFD, of(SALT_NFD, 0x10), 18),
        (LEAF_NFKD, of(SALT_NFKD, 0x20), 18),
    ];
    for (block, of, count) in samples {
        let leaf = Leaf::decode(block, LITTLE).unwrap();
        assert_eq!(leaf.encode(LITTLE), block);
        assert_eq!(Leaf::decode(&leaf.encode(Endian::Big), Endian::Big).unwrap(), leaf);
        let entries = leaf.entries(false).unwrap();
        assert_eq!(entries.len(), count);
        assert_eq!(leaf.salvage(false).count(), count);
        for e in entries {
            let name = e.name.bytes().unwrap();
            assert_eq!(of.name(name), e.hash, "{}", String::from_utf8_lossy(name));
            assert!(leaf.covers(e.hash));
            let found = leaf.lookup(&ZapKey::name(&of, name, Match::Exact)).unwrap();
            assert_eq!(found, Some(e));
        }
    }
}

#[test]
fn integer_keys_and_byte_values() {
    let of = KeyHash { salt: SALT_BRT, flags: 3, norm_flags: 0 };
    let leaf = Leaf::decode(LEAF_BRT, LITTLE).unwrap();
    assert_eq!(leaf.encode(LITTLE), LEAF_BRT);
    let entries = leaf.entries(true).unwrap();
    assert_eq!(entries.len(), 17);
    for e in &entries {
        let ZapName::U64s(key) = &e.name else { panic!("an integer key") };
        assert_eq!(of.words(key), e.hash);
        assert_eq!((e.int_len, e.int_count(), key.len()), (1, 8, 1));
        assert_eq!(leaf.lookup(&ZapKey::words(&of, key)).unwrap().as_ref(), Some(e));
    }
}

#[test]
fn loops_and_wild_chunk_numbers_are_errors() {
    let good = Leaf::decode(LEAF, LITTLE).unwrap();
    let at = good.chunks().position(|c| matches!(c, Chunk::Entry(_))).unwrap() as u16;
    let Some(Chunk::Entry(entry)) = good.chunk(at) else { unreachable!() };
    let with = |chunk| {
        let mut leaf = good.clone();
        leaf.set_chunk(at, &Chunk::Entry(chunk)).unwrap();
        leaf.entries(false)
    };
    let bad = [
        LeafEntry { next: at, ..entry },
        LeafEntry { next: 0xfff0, ..entry },
        LeafEntry { name_chunk: at, ..entry },
        LeafEntry { value_chunk: 0xffff, ..entry },
        LeafEntry { int_len: 3, ..entry },
        LeafEntry { name_len: 0xffff, ..entry },
    ];
    for chunk in bad {
        assert!(with(chunk).is_err(), "{chunk:?}");
    }
    let mut looped = good.clone();
    let next = entry.name_chunk;
    let Some(Chunk::Array { bytes, .. }) = looped.chunk(next) else { unreachable!() };
    looped.set_chunk(next, &Chunk::Array { bytes, next }).unwrap();
    let long = LeafEntry { name_len: 10_000, ..entry };
    assert!(looped.entry(&long, false).is_err());
}

/// A leaf in which every entry claims the same long value would make much of little.
#[test]
fn entries_that_share_their_arrays_are_no_bomb() {
    let mut leaf = Leaf::decode(LEAF, LITTLE).unwrap();
    let count = leaf.chunk_count();
    let entry = leaf.chunks().find_map(|c| match c {
        Chunk::Entry(e) => Some(e),
        _ => None,
    });
    let half = count / 2;
    for i in 0..count {
        let chunk = match i.checked_sub(half) {
            None => Chunk::Array { bytes: [0; 21], next: i as u16 + 1 },
            Some(n) => Chunk::Entry(LeafEntry {
                next: if i + 1 < count { i as u16 + 1 } else { 0xffff },
                name_chunk: 0,
                name_len: 1,
                value_chunk: 0,
                value_len: 21 * half as u16 - 21,
                int_len: 1,
                cd: n as u32,
                ..entry.unwrap()
            }),
        };
        leaf.set_chunk(i as u16, &chunk).unwrap();
    }
    leaf.set_head(0, half as u16);
    leaf.entry_count = (count - half) as u16;
    assert!(leaf.entries(false).is_err());
    let saved: usize = leaf.salvage(false).map(|e| e.values.len()).sum();
    assert!(saved > 0 && saved <= 21 * count, "{saved} bytes of {count} chunks");
}

#[test]
fn header_with_an_external_table() {
    // A table of 2^11 pointers in two blocks from 5 on, in a ZAP of 8 KiB blocks.
    let mut header = ZapHeader::decode(&HEADER[..8192], LITTLE);
    assert!(header.is_err(), "the shift of the sample is that of a 16 KiB block");
    let mut block = HEADER[..8192].to_vec();
    for (at, word) in [(16, 5u64), (24, 2), (32, 11)] {
        block[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    header = ZapHeader::decode(&block, LITTLE);
    let header = header.unwrap();
    let mut fetched = Vec::new();
    let leaf = header.leaf_of::<Error, _>(0xc000_0000_0000_0000, LITTLE, |n| {
        fetched.push(n);
        Ok((0..1024u64).flat_map(|i| (100 + i).to_le_bytes()).collect::<Vec<u8>>())
    });
    // The top 11 bits are 1536: entry 512 of the second block.
    assert_eq!((leaf.unwrap(), fetched), (612, vec![6]));
    let table = header.leaf_blocks::<Error, _>(LITTLE, |n| {
        Ok((0..1024u64).flat_map(|i| (n * 10 + i / 512).to_le_bytes()).collect::<Vec<u8>>())
    });
    assert_eq!(table.unwrap(), [50, 51, 60, 61]);
    let hole = header.leaf_blocks::<Error, _>(LITTLE, |_| Ok(vec![0; 8192]));
    assert!(hole.is_err());
    // The count of blocks must be what the shift needs.
    block[24] = 3;
    assert!(ZapHeader::decode(&block, LITTLE).is_err());
}

#[test]
fn micro_chunk_names_have_49_bytes() {
    assert!(MicroChunk::new(&[b'x'; 49], 1, 0).is_some());
    assert!(MicroChunk::new(&[b'x'; 50], 1, 0).is_none());
    assert!(MicroChunk::new(b"", 1, 0).is_none());
    let mut zap = MicroZap::new(5, 0, 512);
    assert_eq!(zap.chunks.len(), 7);
    zap.chunks[3] = MicroChunk::new(b"name", 7, 0).unwrap();
    let mut block = zap.encode(LITTLE);
    assert_eq!(block.len(), 512);
    assert_eq!(MicroZap::decode(&block, LITTLE).unwrap(), zap);
    block[64 + 14..128].fill(b'x');
    assert!(MicroZap::decode(&block, LITTLE).is_err(), "a name without NUL");
}

/// Reads all there is in a block, whatever it is.
fn read_everything(block: &[u8], endian: Endian) {
    if let Ok(zap) = MicroZap::decode(block, endian) {
        assert_eq!(zap.encode(endian), block);
        let _ = zap.entries();
    }
    if let Ok(header) = ZapHeader::decode(block, endian) {
        assert_eq!(header.encode(endian), block);
        let fetch = |n: u64| if n < 8 { Ok(block.to_vec()) } else { Err(missing()) };
        let _ = header.leaf_blocks(endian, fetch);
        let _ = header.leaf_of(u64::MAX, endian, fetch);
    }
    if let Ok(leaf) = Leaf::decode(block, endian) {
        assert_eq!(leaf.encode(endian), block);
        for integer_keys in [false, true] {
            let _ = leaf.entries(integer_keys);
            leaf.salvage(integer_keys).count();
        }
        let of = KeyHash { salt: 1, flags: 0, norm_flags: 0x52 };
        let _ = leaf.lookup(&ZapKey::name(&of, b"name", Match::Normalize));
    }
}

fn missing() -> Error {
    Error { structure: "object", field: "block", offset: 0, kind: ondisk::ErrorKind::Missing }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_blocks_never_panic(
        which in 0..4usize,
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in prop::option::of(any::<prop::sample::Index>()),
        big in any::<bool>(),
    ) {
        let mut block = [MICRO, HEADER, LEAF, LEAF_BRT][which].to_vec();
        let endian = if big { Endian::Big } else { LITTLE };
        if big {
            block = match which {
                0 => MicroZap::decode(&block, LITTLE).unwrap().encode(Endian::Big),
                1 => ZapHeader::decode(&block, LITTLE).unwrap().encode(Endian::Big),
                _ => Leaf::decode(&block, LITTLE).unwrap().encode(Endian::Big),
            };
        }
        for (at, value) in hits {
            // Half of the hits go where the structure is, not into filler.
            let i = if value & 1 == 0 { at.index(block.len()) } else { at.index(200) };
            block[i] = value;
        }
        if let Some(cut) = cut {
            block.truncate(cut.index(block.len()));
        }
        read_everything(&block, endian);
    }

    #[test]
    fn names_of_any_bytes_normalise(
        name in prop::collection::vec(any::<u8>(), 0..80),
        flags in 0u64..0x80,
    ) {
        let once = ondisk::zap::normalize(&name, flags, false);
        let of = KeyHash { salt: 3, flags: 0, norm_flags: flags };
        let how = Match::Normalize;
        prop_assert!(ZapKey::name(&of, &name, how).matches_name(&name));
        prop_assert!(once.len() <= name.len() * 20);
    }

    #[test]
    fn normal_forms_are_stable(
        name in "\\PC{0,20}",
        form in prop::sample::select(vec![0x10u64, 0x50, 0x20, 0x60]),
    ) {
        let once = ondisk::zap::normalize(name.as_bytes(), form, false);
        prop_assert_eq!(ondisk::zap::normalize(&once, form, false), once);
    }
}
