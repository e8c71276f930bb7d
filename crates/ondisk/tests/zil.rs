//! Log blocks that OpenZFS 2.3.2 wrote, records of every type, and hostile bytes.
//!
//! The samples are blocks of the logs in `ziluncle`, cut off after the bytes they use (`many.bin`
//! is a whole block). What they say was compared with `zdb -iiii`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ondisk::zil::{
    AclPart, AttrBit, Body, Chain, ChainPlace, Create, ExtraAttrs, Record, TxType, encode_records,
    records,
};
use ondisk::{BlkPtr, Checksum, Endian};
use proptest::prelude::*;

const LITTLE: Endian = Endian::Little;
const FRONT: ChainPlace = ChainPlace::Front;
const MANY: &[u8] = include_bytes!("data/zil/many.bin");
const WHITEOUT: &[u8] = include_bytes!("data/zil/whiteout.bin");
const CLONE: &[u8] = include_bytes!("data/zil/clone.bin");
const SAXATTR: &[u8] = include_bytes!("data/zil/saxattr.bin");
const SETATTR: &[u8] = include_bytes!("data/zil/setattr-extra.bin");
const WRITE_DATA: &[u8] = include_bytes!("data/zil/write-data.bin");
const WRITE_BLOCK: &[u8] = include_bytes!("data/zil/write-block.bin");
const SAMPLES: [&[u8]; 7] = [MANY, WHITEOUT, CLONE, SAXATTR, SETATTR, WRITE_DATA, WRITE_BLOCK];

fn read(block: &[u8]) -> Vec<Record> {
    let chain = Chain::decode(block, FRONT, LITTLE).unwrap();
    records(chain.records_in(block, FRONT), LITTLE).map(Result::unwrap).collect()
}

#[test]
fn blocks_reproduce_in_both_orders() {
    for block in SAMPLES {
        let chain = Chain::decode(block, FRONT, LITTLE).unwrap();
        assert_eq!(chain.encode(LITTLE), block[..ondisk::zil::CHAIN_SIZE]);
        let bytes = chain.records_in(block, FRONT);
        let list = read(block);
        assert_eq!(encode_records(&list, LITTLE), bytes);
        let big = encode_records(&list, Endian::Big);
        let back: Result<Vec<Record>, _> = records(&big, Endian::Big).collect();
        assert_eq!(back.unwrap(), list);
    }
}

#[test]
fn a_block_with_many_records() {
    let list = read(MANY);
    let kinds: Vec<u64> = list.iter().map(|r| r.kind.0).collect();
    assert_eq!(
        kinds,
        [5, 8, 8, 8, 22, 7, 4, 4, 1, 1, 1, 5, 2, 6, 1, 5, 1, 1, 1, 5, 1, 1, 1, 5, 1, 1]
    );
    assert!(list.iter().all(|r| r.txg == 41 && !r.case_insensitive));
    assert!(list.windows(2).all(|w| w[1].seq == w[0].seq + 1));
    assert_eq!(list[0].body, Body::Remove { directory: 34, name: b"gone".to_vec() });
    let Body::Rename { source, target, whiteout: None, .. } = &list[4].body else {
        panic!("an exchange")
    };
    assert_eq!((source.as_slice(), target.as_slice()), (&b"xchg1"[..], &b"xchg2"[..]));
    assert_eq!(
        list[5].body,
        Body::Link { directory: 63, object: 44, name: b"second-name".to_vec() }
    );
    let Body::Create(link) = &list[6].body else { panic!("a symbolic link") };
    assert_eq!(link.link.as_deref(), Some(&b"a/short/target"[..]));
    assert_eq!((link.name.as_slice(), link.object, link.slots), (&b"newlink"[..], 67, 1));
    assert_eq!((link.mode, link.generation), (0o120_777, 41));
}

#[test]
fn the_other_types_openzfs_writes_on_linux() {
    let [record] = &read(WHITEOUT)[..] else { panic!("one record") };
    let Body::Rename { whiteout: Some(w), source, target, .. } = &record.body else {
        panic!("a whiteout")
    };
    assert_eq!((w.object, w.mode, w.rdev), (70, 0o020_000, 0));
    assert_eq!((source.as_slice(), target.as_slice()), (&b"white"[..], &b"white-moved"[..]));

    let [record] = &read(CLONE)[..] else { panic!("one record") };
    let Body::CloneRange { length, block_size, blocks, .. } = &record.body else {
        panic!("a clone")
    };
    assert_eq!((*length, *block_size, blocks.len()), (0x2_0000, 0x2_0000, 1));
    assert_eq!(record.object(), Some(97));

    let [record] = &read(SAXATTR)[..] else { panic!("one record") };
    let Body::SetSaXattr { name, value, .. } = &record.body else { panic!("an xattr") };
    assert_eq!(name, ondisk::acl::POSIX_ACCESS_XATTR.as_bytes());
    assert_eq!(ondisk::acl::decode_posix(value).unwrap().len(), 5);

    let [record] = &read(SETATTR)[..] else { panic!("one record") };
    let Body::SetAttr { mask, attrs: Some(attrs), .. } = &record.body else {
        panic!("further attributes")
    };
    assert_eq!(*mask, 1 << 31);
    assert_eq!(attrs.value(AttrBit::NoDump), Some(true));
    assert_eq!(attrs.value(AttrBit::Immutable), None);

    let writes = read(WRITE_DATA);
    let Some(Body::Write { length, data, block, .. }) = writes.last().map(|r| &r.body) else {
        panic!("a write with data")
    };
    assert_eq!(*length, data.len() as u64);
    assert!(block.words().iter().all(|w| *w == 0));
    let writes = read(WRITE_BLOCK);
    let Some(Body::Write { data, block, .. }) = writes.last().map(|r| &r.body) else {
        panic!("a write with a block")
    };
    assert!(data.is_empty() && block.words().iter().any(|w| *w != 0));
}

fn create() -> Create {
    Create {
        directory: 34,
        object: 0xffff_ffff_ffff,
        slots: 32,
        mode: 0o100_644,
        uid: 1000,
        gid: 1000,
        generation: 9,
        create_time: [1, 2],
        rdev: 0,
        attrs: None,
        acl: None,
        domains: Vec::new(),
        name: b"name".to_vec(),
        link: None,
    }
}

/// Records of the types no Linux pool has: those of illumos and the CIFS server.
fn foreign() -> Vec<Record> {
    let mut attrs =
        ExtraAttrs { map: [0x4_0001, 0, 0], values: 1, create_time: [5, 6], stamp: [0; 32] };
    attrs.stamp[..8].copy_from_slice(&77u64.to_le_bytes());
    let mut acl = AclPart::new(1, 4, vec![7; 12]);
    acl.fuids = vec![0x1_0000_0007];
    acl.domains = vec![b"S-1-5-21".to_vec()];
    let with = |kind, create| Record::new(kind, 5, 1, Body::Create(Box::new(create)));
    let extra = Some(attrs);
    let list = Some(acl.clone());
    let mut record = with(TxType::MKDIR, Create { name: b"Case".to_vec(), ..create() });
    record.case_insensitive = true;
    // Owner and group of one domain need one name, of two domains two.
    let foreign_owner = Create {
        uid: 0x1_0000_01f4,
        gid: 0x2_0000_0200,
        domains: vec![b"S-1-5-21".to_vec(), b"S-1-5-32".to_vec()],
        ..create()
    };
    vec![
        record,
        with(TxType::CREATE, foreign_owner),
        with(TxType::CREATE_ATTR, Create { attrs: extra, ..create() }),
        with(TxType::CREATE_ACL, Create { acl: list.clone(), ..create() }),
        with(TxType::CREATE_ACL_ATTR, Create { acl: list.clone(), attrs: extra, ..create() }),
        with(TxType::MKDIR_ACL_ATTR, Create { acl: list, attrs: extra, ..create() }),
        Record::new(TxType::ACL, 5, 2, Body::Acl { object: 8, acl }),
        Record::new(
            TxType::ACL_V0,
            5,
            3,
            Body::AclV0 { object: 8, count: 2, entries: vec![3; 24] },
        ),
        Record::new(TxType(25), 5, 4, Body::Unknown(vec![1; 16])),
    ]
}

#[test]
fn types_of_other_systems_round_trip() {
    for endian in [LITTLE, Endian::Big] {
        for record in foreign() {
            let bytes = record.encode(endian);
            assert_eq!(bytes.len() % 8, 0);
            let back = Record::decode(&bytes, endian).unwrap();
            assert_eq!((&back.body, back.kind), (&record.body, record.kind));
            assert_eq!(back.case_insensitive, record.case_insensitive);
            assert_eq!(back.encode(endian), bytes);
        }
    }
    let Body::Create(create) = &foreign()[2].body else { unreachable!() };
    assert_eq!(create.attrs.unwrap().project(LITTLE), Some(77));
    assert_eq!(TxType::MKDIR_ACL_ATTR.name(), Some("TX_MKDIR_ACL_ATTR"));
    assert_eq!(TxType(25).name(), None);
}

#[test]
fn data_of_a_write_may_follow_its_record() {
    let write = |data: Vec<u8>| {
        let (length, block) = (13, Box::new(BlkPtr::HOLE));
        let body = Body::Write { object: 7, offset: 512, length, block_offset: 0, block, data };
        Record::new(TxType::WRITE, 5, 1, body)
    };
    let mut bytes = write(Vec::new()).encode_before(13, LITTLE);
    bytes.extend([3; 13]);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    assert_eq!(bytes, write(vec![3; 13]).encode(LITTLE));
}

#[test]
fn fields_stand_where_the_format_says() {
    let mut name = create();
    name.attrs =
        Some(ExtraAttrs { map: [1, 0, 0], values: 1, create_time: [5, 6], stamp: [9; 32] });
    let body = Body::Create(Box::new(name));
    let bytes = Record::new(TxType::CREATE_ATTR, 5, 1, body).encode(LITTLE);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((word(0), word(8), word(16), word(24)), (15, bytes.len() as u64, 5, 1));
    assert_eq!(word(40), 0x1f00_ffff_ffff_ffff, "31 further slots in the top byte");
    assert_eq!(word(104), 0x1_0000_0003, "three map words, the first of them 1");
    assert_eq!(word(120), 1, "values");
    assert_eq!(bytes[144..176], [9; 32], "stamp");
    assert_eq!(&bytes[176..181], b"name\0");
}

#[test]
fn chain_at_the_end_of_the_block() {
    assert_eq!(ChainPlace::of(Checksum::ZILOG), Some(ChainPlace::Back));
    assert_eq!(ChainPlace::of(Checksum::ZILOG2), Some(FRONT));
    assert_eq!(ChainPlace::of(Checksum::FLETCHER_4), None);
    let record =
        Record::new(TxType::TRUNCATE, 1, 1, Body::Truncate { object: 1, offset: 2, length: 3 });
    let mut block = record.encode(LITTLE);
    let chain = Chain::new(BlkPtr::from_words([0; 16]), block.len() as u64, [1, 2, 3, 4]);
    block.resize(4096 - ondisk::zil::CHAIN_SIZE, 0);
    block.extend(chain.encode(LITTLE));
    let back = Chain::decode(&block, ChainPlace::Back, LITTLE).unwrap();
    assert_eq!(back, chain);
    let list: Vec<_> = records(back.records_in(&block, ChainPlace::Back), LITTLE).collect();
    assert_eq!(list, [Ok(record)]);
    let too_much = Chain::new(chain.next, 4096, chain.checksum);
    block.truncate(4096 - ondisk::zil::CHAIN_SIZE);
    block.extend(too_much.encode(LITTLE));
    assert!(Chain::decode(&block, ChainPlace::Back, LITTLE).is_err());
    assert!(Chain::decode(&[0; 100], ChainPlace::Back, LITTLE).is_err());
}

#[test]
fn record_lengths_are_checked() {
    let bytes = &MANY[ondisk::zil::CHAIN_SIZE..4032];
    for length in [0u64, 31, 33, 1 << 40, u64::MAX] {
        let mut bytes = bytes.to_vec();
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        let list: Vec<_> = records(&bytes, LITTLE).collect();
        assert_eq!(list.len(), 1);
        assert!(list[0].is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_logs_never_panic(
        which in 0..SAMPLES.len() + 1,
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        kind in prop::option::of(0u64..26),
        big in any::<bool>(),
    ) {
        let endian = if big { Endian::Big } else { LITTLE };
        let mut bytes = match SAMPLES.get(which) {
            Some(block) => encode_records(&read(block), endian),
            None => encode_records(&foreign(), endian),
        };
        if let Some(kind) = kind {
            bytes[..8].copy_from_slice(&endian.put_u64(kind));
        }
        for (at, value) in hits {
            let i = at.index(bytes.len());
            bytes[i] = value;
        }
        for record in records(&bytes, endian).flatten() {
            // Bits 48 to 55 of an object word are not kept; all else is.
            let again = record.encode(endian);
            prop_assert_eq!(Record::decode(&again, endian).unwrap(), record);
        }
        for place in [FRONT, ChainPlace::Back] {
            if let Ok(chain) = Chain::decode(&bytes, place, endian) {
                let list = records(chain.records_in(&bytes, place), endian);
                prop_assert!(list.count() <= bytes.len() / 32 + 1);
            }
        }
    }
}
