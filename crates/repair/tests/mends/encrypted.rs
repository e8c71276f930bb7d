//! Pools with encrypted datasets are repaired without a key. What cannot be decoded for want of one
//! is not taken for damage, and nothing of it is lost: with the keys everything can be read.

use super::judge;
use super::kit::*;
use check::{CheckOptions, Issue};
use pool::UnguardedDatasets as _;
use pool::live::AbandonedHead;

const CASE: &str = "crypt";

/// Loads the keys of all datasets.
fn unlock(pool: &pool::Pool) {
    for (dataset, given) in testkit::corpus(CASE).keys() {
        pool.dsl().load_key(&dataset, &given).unwrap();
    }
}

fn contents(s: &Surgeon) -> Inventory {
    let pool = s.open();
    unlock(&pool);
    inventory_of(&pool, false)
}

/// What is wrong with the pool to those who have the keys.
fn issues(s: &Surgeon) -> Vec<Issue> {
    let pool = s.open();
    unlock(&pool);
    let how = CheckOptions { snapshots: true, ..CheckOptions::default() };
    let mut found = check::run(&pool, &how, &rt::Progress::new()).issues;
    found.retain(|issue| !matches!(issue, Issue::KnownError { .. }));
    found
}

fn apply(s: &Surgeon) -> Plan {
    let repaired = in_memory(s, true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    repaired.apply(&folder.path().join("undo")).unwrap();
    repaired.plan().clone()
}

/// The damage is mended without keys, and with them all is there that was.
fn mends_locked(s: &Surgeon, expected: &str) {
    assert!(s.check().contains(&expected), "{:?}", s.check());
    assert_ne!(zdb_is_content(s), Some(true), "zdb, before the repair");
    let before = contents(s);
    assert!(before.len() > 20, "{}", before.len());
    let plan = apply(s);
    assert!(plan.makes_clean() && !plan.steps.is_empty(), "{plan:?}");
    assert_ne!(zdb_is_content(s), Some(false), "zdb, after the repair");
    assert!(contents(s) == before);
    assert!(issues(s).is_empty(), "{:?}", issues(s));
    judge::keep(s);
}

#[test]
fn a_locked_pool_has_nothing_to_be_repaired() {
    let s = surgeon(CASE);
    let planned = in_memory(&s, false).unwrap();
    assert_eq!((planned.plan().steps.len(), planned.plan().written), (0, 0));
    assert!(planned.plan().makes_clean(), "{:?}", planned.plan());
}

#[test]
fn space_maps_and_leaks_need_no_key() {
    let s = surgeon(CASE);
    assert!(shorten_an_entry(&s, 0, false));
    mends_locked(&s, "space-map");
    let s = surgeon(CASE);
    let (map, _) = a_map(&s);
    s.edit_block((0, map), (0, 0), |b| b[..64].fill(0xff));
    mends_locked(&s, "space-map");
}

#[test]
fn labels_need_no_key() {
    let s = surgeon(CASE);
    let before = contents(&s);
    s.scribble(0, &vec![0; 512 << 10]);
    let plan = apply(&s);
    assert!(matches!(plan.steps.as_slice(), [Step::Labels { .. }]), "{plan:?}");
    assert!(contents(&s) == before && issues(&s).is_empty());
}

/// Files in a lost block of a locked dataset are lost; the dataset stays, and so do its others.
#[test]
fn what_is_lost_in_a_locked_dataset_is_left_as_it_is() {
    let s = surgeon(CASE);
    let before = contents(&s);
    let pool = s.open();
    let set = pool.dsl().by_name("sealed/hex").unwrap();
    let meta = pool.dsl().objset(&set).unwrap().meta_object().unwrap();
    // The block of the dnode of its last file, which no snapshot has.
    let files = before.keys().filter(|(n, _)| *n == set.object).map(|(_, file)| *file);
    let newer = |file: &u64| {
        let bp = meta.block_pointer(0, file / 32).unwrap().unwrap();
        bp.logical_birth() > set.phys.prev_snap_txg
    };
    let last = files.filter(newer).max().expect("a file that no snapshot has");
    s.destroy_all(&meta.block_pointer(0, last / 32).unwrap().unwrap());
    assert!(s.check().contains(&"block-lost"), "{:?}", s.check());
    let whole = contents(&s);
    assert!(whole.len() < before.len());
    let plan = apply(&s);
    let is_lost = |issue: &Issue| matches!(issue, Issue::BlockLost { .. });
    assert!(plan.steps.is_empty() && plan.left.iter().any(is_lost), "{plan:?}");
    assert!(contents(&s) == whole);
}

/// A locked dataset whose object set is lost becomes what can be made of it without its key.
#[test]
fn an_object_set_that_is_lost_is_no_reason_to_lose_more() {
    let one = || "sealed/hex@one".to_owned();
    let cases = [
        ("sealed/hex", Some(AbandonedHead::RolledBack(one()))),
        ("sealed/hex/clone", Some(AbandonedHead::AsCloned(one()))),
        ("sealed/hex/deep/deeper", Some(AbandonedHead::Destroyed)),
        // What is below it needs it.
        ("sealed/hex/deep", None),
    ];
    for (dataset, expected) in cases {
        let s = surgeon(CASE);
        let set = s.open().dsl().by_name(dataset).unwrap();
        s.destroy_all(&set.phys.bp);
        let whole = contents(&s);
        assert!(whole.keys().all(|(n, _)| *n != set.object), "{dataset} is lost");
        let plan = apply(&s);
        let became = plan.steps.iter().find_map(|step| match step {
            Step::DatasetLost { became, .. } => Some(became.clone()),
            _ => None,
        });
        assert_eq!(became, expected, "{plan:?}");
        let now = contents(&s);
        let is_there = whole.iter().all(|(file, sum)| now.get(file) == Some(sum));
        assert!(is_there, "others lost something: {plan:?}");
        match expected {
            None => {
                let why = &plan.failed[0].why;
                assert!(why.contains("its key is needed") && plan.steps.is_empty(), "{plan:?}");
            }
            Some(how) => {
                assert!(plan.makes_clean() && issues(&s).is_empty(), "{plan:?}");
                assert_ne!(zdb_is_content(&s), Some(false), "{dataset}: zdb");
                let is_back = now.keys().any(|(n, _)| *n == set.object);
                assert_eq!(is_back, how != AbandonedHead::Destroyed, "{dataset}");
                judge::keep(&s);
            }
        }
    }
}
