//! Tables in live objects.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use dmu::zap::{self, EntryKey, Zap, ZapSpec, ZapValue};
use dmu::{ErrorKind, Tx};
use ondisk::DmuType;
use ondisk::zap::{FLAG_HASH64, FLAG_UINT64_KEY};
use std::collections::BTreeMap;
use support::memory_mos;

#[test]
fn a_table_grows_from_a_sector_to_many_blocks() {
    const STEPS: usize = 6000;
    testkit::shrinking_seed(5, STEPS, |steps| {
        let mos = memory_mos();
        let tx = Tx::syncing(7);
        let table = zap::create(&mos, &tx, &ZapSpec::new(DmuType::ZAP_OTHER)).unwrap();
        assert_eq!(table.dnode().block_size(), 512);
        let mut model = BTreeMap::new();
        // The value that was opened first serves for all changes.
        for step in steps {
            let name = format!("entry {}", step % 5000);
            if step / 5000 % 3 > 0 {
                zap::set_u64(&table, &tx, &name, *step).unwrap();
                model.insert(name, *step);
            } else {
                let removed = zap::remove(&table, &tx, &name).unwrap();
                assert_eq!(removed, model.remove(&name).is_some());
            }
        }
        let zap = Zap::open(&table.reopen().unwrap()).unwrap();
        assert!(zap.fat_header().is_some() || steps.len() < STEPS);
        let found: BTreeMap<String, u64> = zap
            .to_vec()
            .unwrap()
            .iter()
            .map(|e| (String::from_utf8(e.name.bytes().unwrap().into()).unwrap(), e.u64().unwrap()))
            .collect();
        assert_eq!(found, model);
    });
}

#[test]
fn counters_vanish_at_zero() {
    let mos = memory_mos();
    let tx = Tx::syncing(7);
    let table = zap::create(&mos, &tx, &ZapSpec::new(DmuType::USERGROUP_USED)).unwrap();
    let get = || Zap::open(&table.reopen().unwrap()).unwrap().get_u64("3e8").unwrap();
    assert_eq!(zap::add(&table, &tx, "3e8", 0).unwrap(), 0);
    assert_eq!(get(), None);
    assert_eq!(zap::add(&table, &tx, "3e8", 4096).unwrap(), 4096);
    assert_eq!(zap::add(&table, &tx, "3e8", -512).unwrap(), 3584);
    assert_eq!(get(), Some(3584));
    assert_eq!(zap::add(&table, &tx, "3e8", -3584).unwrap(), 0);
    assert_eq!(get(), None);
    zap::insert(&table, &tx, "text", &ZapValue::from_text("x")).unwrap();
    let e = zap::add(&table, &tx, "text", 1).unwrap_err();
    assert!(matches!(e.kind, ErrorKind::EntryForm(_)));
}

#[test]
fn what_cannot_be_a_table_is_refused() {
    let mos = memory_mos();
    let tx = Tx::syncing(7);
    let e = zap::create(&mos, &tx, &ZapSpec::new(DmuType::PLAIN_OTHER)).err().unwrap();
    assert!(matches!(e.kind, ErrorKind::WrongType { .. }));
    let e = zap::create(&mos, &tx, &ZapSpec::new(DmuType::ZAP_OTHER).fat(8)).err().unwrap();
    assert!(matches!(e.kind, ErrorKind::Invalid(_)));
    let table = zap::create(&mos, &tx, &ZapSpec::new(DmuType::ZAP_OTHER)).unwrap();
    zap::insert_u64(&table, &tx, "one", 1).unwrap();
    let e = zap::insert_u64(&table, &tx, "one", 2).unwrap_err();
    assert!(matches!(e.kind, ErrorKind::EntryExists(n) if n == "one"));
    assert_eq!(Zap::open(&table.reopen().unwrap()).unwrap().get_u64("one").unwrap(), Some(1));
}

#[test]
fn tables_of_each_kind_and_a_salt_of_their_own() {
    let mos = memory_mos();
    let tx = Tx::syncing(7);
    let wanted = FLAG_UINT64_KEY | FLAG_HASH64;
    let spec = ZapSpec { flags: wanted, ..ZapSpec::new(DmuType::DDT_ZAP) };
    let ddt = zap::create(&mos, &tx, &spec).unwrap();
    let mut editor = zap::Editor::open(&ddt, &tx).unwrap();
    for n in 0..3000u64 {
        editor.insert(EntryKey::Words(&[n, !n]), &ZapValue::from_bytes(&n.to_be_bytes())).unwrap();
    }
    editor.finish().unwrap();
    let zap = Zap::open(&ddt.reopen().unwrap()).unwrap();
    assert_eq!(zap.key_hash().flags, wanted);
    assert_eq!(zap.to_vec().unwrap().len(), 3000);

    let spec = ZapSpec::new(DmuType::ZAP_OTHER).fat(12).bonus(DmuType::UINT64_OTHER, &[1; 16]);
    let small = zap::create(&mos, &tx, &spec).unwrap();
    assert_eq!(small.dnode().block_size(), 4096);
    assert_eq!(small.dnode().bonus, [1; 16]);
    let salts: Vec<u64> =
        [&ddt, &small].iter().map(|o| Zap::open(o).unwrap().key_hash().salt).collect();
    assert!(salts.iter().all(|s| *s != 0));
    assert_ne!(salts[0], salts[1]);
}

#[test]
fn two_threads_change_one_table() {
    let mos = memory_mos();
    let tx = Tx::syncing(7);
    let table = zap::create(&mos, &tx, &ZapSpec::new(DmuType::DIRECTORY_CONTENTS)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (table, tx) = (&table, &tx);
            scope.spawn(move || {
                for n in 0..1500 {
                    zap::insert_u64(table, tx, &format!("{thread} {n}"), n).unwrap();
                    zap::add(table, tx, "all", 1).unwrap();
                }
            });
        }
    });
    let zap = Zap::open(&table.reopen().unwrap()).unwrap();
    assert_eq!(zap.to_vec().unwrap().len(), 6001);
    assert_eq!(zap.get_u64("all").unwrap(), Some(6000));
}
