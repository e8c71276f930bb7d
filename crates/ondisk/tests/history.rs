//! The pool's history against records that OpenZFS 2.3.2 wrote: the first 65 of a pool of version
//! 5000 and the first 9 of a pool of version 28, cut from the decompressed history objects.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use ondisk::history::{HISTORY_PHYS_SIZE, HistoryPhys, HistoryRecord};
use ondisk::nvlist::{NvList, NvValue, Packing};
use ondisk::{Endian, Error, ErrorKind};
use proptest::prelude::*;

const FEATURES: &[u8] = include_bytes!("data/history/features.bin");
const VERSION28: &[u8] = include_bytes!("data/history/version28.bin");

fn ring(create_len: u64, eof: u64) -> HistoryPhys {
    HistoryPhys { create_len, max_off: 128 << 10, bof: create_len, eof, records_lost: 0 }
}

fn read_from(object: &[u8]) -> impl FnMut(u64, u64) -> Result<Vec<u8>, Error> {
    |at, len| Ok(object[at as usize..(at + len) as usize].to_vec())
}

fn records(phys: &HistoryPhys, object: &[u8]) -> Result<Vec<HistoryRecord>, Error> {
    phys.records(read_from(object)).collect()
}

#[test]
fn records_of_a_pool_with_features() {
    let phys = ring(12304, FEATURES.len() as u64);
    let found = records(&phys, FEATURES).unwrap();
    assert_eq!(found.len(), 65);

    let create = &found[0];
    assert_eq!(create.internal_name().unwrap(), "create");
    assert!(create.internal_str().unwrap().starts_with("pool version 5000; software version"));
    assert_eq!((create.txg(), create.time()), (Some(4), Some(1_795_289_354)));

    let commands: Vec<String> = found.iter().filter_map(HistoryRecord::command).collect();
    assert!(commands[0].starts_with("zpool create"), "{}", commands[0]);
    let command = found.iter().find(|r| r.command().is_some()).unwrap();
    assert_eq!(command.who(), Some(0));
    assert_eq!(command.zone().as_deref(), Some("linux"));
    assert_eq!(command.host().as_deref(), Some("(none)"));

    let snapshot = found.iter().find(|r| r.internal_name().as_deref() == Some("snapshot")).unwrap();
    assert_eq!(snapshot.dsname().as_deref(), Some("past/work@s00"));
    assert_eq!((snapshot.dsid(), snapshot.txg()), (Some(87), Some(11)));

    let ioctl = found.iter().find(|r| r.ioctl().as_deref() == Some("snapshot")).unwrap();
    let snaps = ioctl.input().unwrap().list("snaps").unwrap();
    assert_eq!(snaps.get("past/work@s00"), Some(&NvValue::Boolean));
    assert!(ioctl.elapsed_ns().unwrap() > 0);
    assert_eq!(ioctl.errno(), None);
}

#[test]
fn records_pack_into_the_same_bytes() {
    for (object, create_len) in [(FEATURES, 12304), (VERSION28, 656)] {
        for r in records(&ring(create_len, object.len() as u64), object).unwrap() {
            let at = r.offset as usize + 8;
            let (_, packing, used) = NvList::decode_packed(&object[at..]).unwrap();
            assert_eq!(packing, Packing::NATIVE);
            assert_eq!(r.list.encode(packing).unwrap(), &object[at..at + used]);
        }
    }
}

#[test]
fn records_of_version_28() {
    let found = records(&ring(656, VERSION28.len() as u64), VERSION28).unwrap();
    assert_eq!(found.len(), 9);
    assert_eq!(
        found[1].command().as_deref(),
        Some("zpool create -f -R /pool -o version=28 v28 /dev/img0")
    );
}

/// The same records written into a ring that is too small for all: the oldest are gone, one lies
/// across the end.
#[test]
fn a_ring_that_has_wrapped() {
    let phys = ring(12304, FEATURES.len() as u64);
    let all = records(&phys, FEATURES).unwrap();
    let create_len = phys.create_len as usize;
    let in_ring: Vec<_> = all.iter().filter(|r| r.offset >= phys.create_len).collect();
    for size in [3000usize, 3001, 3007, 5000] {
        let mut object = FEATURES[..create_len].to_vec();
        object.resize(create_len + size, 0xee);
        for (i, b) in FEATURES[create_len..].iter().enumerate() {
            object[create_len + i % size] = *b;
        }
        let oldest = phys.eof - size as u64;
        let kept: Vec<_> = in_ring.iter().filter(|r| r.offset >= oldest).collect();
        assert!(kept.len() >= 5 && kept.len() < in_ring.len());
        let wrapped = HistoryPhys {
            max_off: (create_len + size) as u64,
            bof: kept[0].offset,
            records_lost: (in_ring.len() - kept.len()) as u64,
            ..phys
        };
        for endian in [Endian::Little, Endian::Big] {
            let bonus = wrapped.encode(endian);
            assert_eq!(bonus.len(), HISTORY_PHYS_SIZE);
            assert_eq!(HistoryPhys::decode(&bonus, endian).unwrap(), wrapped);
        }
        let found = records(&wrapped, &object).unwrap();
        let creation = all.len() - in_ring.len();
        assert_eq!(found[..creation], all[..creation]);
        assert!(found[creation..].iter().eq(kept.into_iter().copied()));
    }
}

#[test]
fn an_empty_history_has_no_records() {
    let phys = HistoryPhys { create_len: 0, max_off: 128 << 10, bof: 0, eof: 0, records_lost: 0 };
    assert_eq!(records(&phys, &[]).unwrap(), []);
}

#[test]
fn offsets_that_make_no_ring_are_refused() {
    let good = [100, 1000, 150, 900, 0];
    let bonus = |words: [u64; 5]| words.map(u64::to_le_bytes).concat();
    assert!(HistoryPhys::decode(&bonus(good), Endian::Little).is_ok());
    for (i, value) in [(0, 1001), (0, 151), (1, 99), (2, 901), (3, 149), (3, 1051)] {
        let mut bad = good;
        bad[i] = value;
        let e = HistoryPhys::decode(&bonus(bad), Endian::Little).unwrap_err();
        assert!(matches!(e.kind, ErrorKind::Inconsistent(_)), "{bad:?}: {e}");
    }
}

#[test]
fn a_lying_length_ends_the_walk() {
    let mut object = FEATURES.to_vec();
    object[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let phys = ring(12304, object.len() as u64);
    let mut walk = phys.records(read_from(&object));
    let e: Error = walk.next().unwrap().unwrap_err();
    assert_eq!((e.structure, e.field), ("history", "length"));
    assert!(walk.next().is_none());
}

proptest! {
    /// Whatever the bonus buffer and the object hold, the walk ends and stays inside the object.
    #[test]
    fn noise_does_no_harm(
        words in proptest::array::uniform5(0u64..400),
        object in proptest::collection::vec(0u8..40, 400),
    ) {
        let [create_len, max_off, bof, eof, records_lost] = words;
        let phys = HistoryPhys { create_len, max_off, bof, eof, records_lost };
        if let Ok(phys) = HistoryPhys::decode(&phys.encode(Endian::Big), Endian::Big) {
            prop_assert!(phys.records(read_from(&object)).count() <= 50);
        }
    }
}
