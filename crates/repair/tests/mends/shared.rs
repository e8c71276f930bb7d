//! Counts of shared blocks: those of clones, and dedup tables. The pool has both, and so zinc
//! writes to it only to repair it.

use super::kit::*;
use dmu::ddt::DedupTable;
use dmu::{Objset, Tx, Zap, ZapValue, zap};
use ondisk::Endian;
use ondisk::brt::{self, BrtVdev};
use ondisk::ddt::{DdtKey, Value};
use std::collections::BTreeMap;

const CASE: &str = "dedup-clone";

/// Changes the meta object set.
fn damage(s: &Surgeon, change: impl FnOnce(&Objset, &Tx) -> dmu::Result<()> + Send + 'static) {
    let open = OpenOptions::in_places(vec![s.dir().to_owned()]);
    let options = ImportOptions { force: true, to_repair: true, ..ImportOptions::new(open) };
    let live = LivePool::open(s.open().name(), &options).unwrap();
    live.run(move |cx| Ok(change(cx.dsl().mos, cx.tx)?)).unwrap();
    live.export().unwrap();
}

/// The table of clones of the first vdev: its object, the ZAP of its entries, and these.
fn clone_table(s: &Surgeon) -> (u64, u64, Vec<(u64, u64)>) {
    let pool = s.open();
    let number = pool.directory().unwrap().need_u64(&brt::object_name(0)).unwrap();
    let object = pool.mos().object(number).unwrap();
    let table = BrtVdev::decode(&object.dnode().bonus, object.dnode().endian).unwrap();
    let all = Zap::open(&pool.mos().object(table.entries).unwrap()).unwrap().to_vec().unwrap();
    let entry = |e: &dmu::ZapEntry| {
        let ondisk::zap::ZapName::U64s(key) = &e.name else { panic!("a name") };
        (key[0], brt::refcount(&e.values, Endian::Little).unwrap())
    };
    (number, table.entries, all.iter().map(entry).collect())
}

fn sums(s: &Surgeon) -> (BrtVdev, Vec<(u64, u64)>) {
    let (number, _, mut entries) = clone_table(s);
    let object = objset(&s.open(), 0).object(number).unwrap();
    entries.sort_unstable();
    (BrtVdev::decode(&object.dnode().bonus, object.dnode().endian).unwrap(), entries)
}

/// Gives the entry of a clone another count; 0: removes it.
fn recount(s: &Surgeon, offset: u64, count: u64) {
    let (_, entries, _) = clone_table(s);
    damage(s, move |mos, tx| {
        let table = mos.object(entries)?;
        match count {
            0 => zap::remove(&table, tx, &[offset][..]).map(drop),
            n => zap::set(&table, tx, &[offset][..], &ZapValue::from_bytes(&n.to_le_bytes())),
        }
    });
}

#[test]
fn clones_that_are_counted_too_low_and_too_high() {
    let s = surgeon(CASE);
    let right = sums(&s);
    let (_, _, entries) = clone_table(&s);
    let often = entries.iter().find(|(_, n)| *n > 1).expect("a block with three references");
    let other = entries.iter().find(|e| *e != often).unwrap();
    recount(&s, often.0, 1);
    recount(&s, other.0, other.1 + 5);
    let steps = mends(&s, &["clone-count"], Zdb::Errs);
    assert!(matches!(&steps[..], [Step::CloneTable { vdev: 0, .. }]), "{steps:?}");
    assert_eq!(sums(&s), right);
}

/// Without its entry a block that two files have looks as if it were allocated twice.
#[test]
fn a_clone_that_is_not_counted_at_all() {
    let s = surgeon(CASE);
    let right = sums(&s);
    let (_, _, entries) = clone_table(&s);
    recount(&s, entries[0].0, 0);
    assert!(!s.check().contains(&"double-allocation"), "{:?}", s.check());
    mends(&s, &["clone-count", "clone-table"], Zdb::Errs);
    assert_eq!(sums(&s), right);
}

#[test]
fn an_entry_of_a_block_that_is_not_cloned() {
    let s = surgeon(CASE);
    let right = sums(&s);
    recount(&s, 1 << 26, 3);
    mends(&s, &["clone-count"], Zdb::Overlooks);
    assert_eq!(sums(&s), right);
}

/// Where a range counts no entry, a free does not look for one.
#[test]
fn a_range_that_says_it_has_no_clones() {
    let s = surgeon(CASE);
    let right = sums(&s);
    let (number, _, entries) = clone_table(&s);
    let range = entries[0].0 / brt::RANGE_SIZE;
    damage(&s, move |mos, tx| mos.object(number)?.write_at(tx, range * 2, &[0, 0]));
    mends(&s, &["clone-table"], Zdb::Errs);
    assert_eq!(sums(&s), right);
}

/// The tables, and an entry that `choose` takes and no log has.
fn dedup_entry(s: &Surgeon, choose: impl Fn(u64) -> bool) -> (DedupTable, u64, DdtKey, Value) {
    let pool = s.open();
    for table in dmu::ddt::tables(pool.mos()).unwrap() {
        let mut newest = BTreeMap::new();
        let put = &mut |key, value| _ = newest.insert(key, value);
        table.entries(pool.mos(), put).unwrap();
        for (_, number) in &table.classes {
            let mut found = None;
            dmu::ddt::stored(pool.mos(), *number, table.is_flat, &mut |key, value| {
                let is_it = newest.get(&key) == Some(&Some(value));
                found = found.or((is_it && choose(value.total_refcount())).then_some((key, value)));
            })
            .unwrap();
            if let Some((key, value)) = found {
                return (table.clone(), *number, key, value);
            }
        }
    }
    panic!("no such entry")
}

/// All entries of all tables, whether in a log or not.
fn all_entries(s: &Surgeon) -> Vec<(u8, DdtKey, u64)> {
    let pool = s.open();
    let mut out = Vec::new();
    for table in dmu::ddt::tables(pool.mos()).unwrap() {
        let mut all = BTreeMap::new();
        let put = &mut |key, value| _ = all.insert(key, value);
        table.entries(pool.mos(), put).unwrap();
        let there = all.into_iter().filter_map(|(key, value)| Some((key, value?)));
        out.extend(there.map(|(key, v)| (table.checksum.0, key, v.total_refcount())));
    }
    out
}

fn put(s: &Surgeon, zap: u64, key: DdtKey, value: Option<Value>) {
    damage(s, move |mos, tx| {
        let (table, key) = (mos.object(zap)?, key.to_words());
        match value {
            None => zap::remove(&table, tx, &key[..]).map(drop),
            Some(v) => {
                zap::set(&table, tx, &key[..], &ZapValue::from_bytes(&v.pack(Endian::Little)))
            }
        }
    });
}

/// The variant of an entry that is in use.
fn used(value: &Value) -> usize {
    (0..value.variants()).find(|n| value.variant(*n).refcount > 0).unwrap()
}

#[test]
fn deduplicated_blocks_that_are_counted_too_low_and_too_high() {
    let s = surgeon(CASE);
    let right = all_entries(&s);
    for (references, change) in [(2u64, -1i64), (1, 4)] {
        let (_, zap, key, value) = dedup_entry(&s, |n| n == references);
        let wrong = references.checked_add_signed(change).unwrap();
        put(&s, zap, key, Some(value.with_references(used(&value), wrong)));
    }
    let steps = mends(&s, &["dedup-count"], Zdb::Errs);
    assert!(steps.iter().any(|step| matches!(step, Step::DedupTable { .. })), "{steps:?}");
    assert_eq!(all_entries(&s), right);
    let pool = s.open();
    for table in dmu::ddt::tables(pool.mos()).unwrap() {
        for (class, number) in &table.classes {
            let is_of_class = |value: Value| assert_eq!(value.class(), *class);
            let each = &mut |_, value| is_of_class(value);
            dmu::ddt::stored(pool.mos(), *number, table.is_flat, each).unwrap();
        }
    }
}

#[test]
fn a_deduplicated_block_that_no_table_has() {
    let s = surgeon(CASE);
    let right = all_entries(&s);
    let (_, zap, key, _) = dedup_entry(&s, |n| n > 1);
    put(&s, zap, key, None);
    assert!(!s.check().contains(&"double-allocation"), "{:?}", s.check());
    mends(&s, &["dedup-count"], Zdb::Errs);
    assert_eq!(all_entries(&s), right);
}

/// OpenZFS would give the block out again to the next file with its content.
#[test]
fn an_entry_that_nothing_refers_to() {
    let s = surgeon(CASE);
    let right = all_entries(&s);
    let (_, zap, key, value) = dedup_entry(&s, |n| n > 1);
    let mut words = key.to_words();
    words[3] ^= 1;
    let stray = DdtKey::from_words(&words).unwrap();
    put(&s, zap, stray, Some(value));
    mends(&s, &["dedup-count"], Zdb::Overlooks);
    assert_eq!(all_entries(&s), right);
}

/// Two files whose blocks are not the same and are at one place: which is right is not known.
#[test]
fn space_that_was_handed_out_twice_is_no_clone() {
    let s = surgeon("basic");
    let (set, file) = plain_file(&s);
    let pool = s.open();
    let mut others = objset(&pool, set).objects().filter_map(Result::ok).filter(|o| {
        o.number() != file
            && o.dnode().kind == DmuType::PLAIN_FILE_CONTENTS
            && o.dnode().levels == 2
    });
    let first = |o: &dmu::Object| o.block_pointer(0, 0).unwrap().filter(|bp| !bp.is_hole());
    let other = others.find_map(|o| first(&o)).expect("another file");
    s.edit_block((set, file), (1, 0), |b| {
        b[..16].copy_from_slice(&other.encode(Endian::Little)[..16]);
    });
    assert!(s.check().contains(&"double-allocation"), "{:?}", s.check());
    let repaired = in_memory(&s, false).unwrap();
    let left = &repaired.plan().left;
    assert!(left.iter().any(|i| i.name() == "double-allocation"), "{left:?}");
    assert!(!repaired.plan().steps.iter().any(|s| matches!(s, Step::CloneTable { .. })));
}
