//! Damage to what only pools in rare states have: mappings of removed vdevs, checkpoints.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use check::Issue;
use common::surgeon::Surgeon;
use dmu::Zap;
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::mos::{self, vdev_zap};
use ondisk::{BlkPtr, Dva};
use pool::UnguardedDatasets as _;
use pool::{OpenOptions, Pool};
use std::collections::BTreeSet;

/// Number of the object that a top-level vdev's table has under `key`.
fn of_vdev(pool: &Pool, top: &VdevConfig, key: &str) -> u64 {
    let zap = pool.mos().object(top.vdev_zap_top.expect("a table")).unwrap();
    Zap::open(&zap).unwrap().get_u64(key).unwrap().expect(key)
}

fn removed(pool: &Pool) -> VdevConfig {
    let mut tops = pool.config().vdev_tree.children.iter();
    tops.find(|t| t.kind == VdevKind::Indirect).expect("a removed vdev").clone()
}

#[test]
fn a_forgotten_list_of_what_is_obsolete() {
    let s = Surgeon::new(&testkit::sample("obsolete"));
    assert_eq!(s.check(), [""; 0]);
    let pool = s.open();
    let map = of_vdev(&pool, &removed(&pool), vdev_zap::INDIRECT_OBSOLETE_SPACE_MAP);
    // The header's second word is the length of the entries.
    s.edit_bonus((0, map), 8, |length| {
        assert!(length > 0);
        0
    });
    let report = s.report();
    let few = |i: &Issue| matches!(i, Issue::Obsolete { stored, counted, .. } if stored < counted);
    assert!(!report.issues.is_empty() && report.issues.iter().all(few), "{:?}", report.issues);
}

#[test]
fn a_mapping_with_a_wrong_sum() {
    let s = Surgeon::new(&testkit::sample("obsolete"));
    let mapping = removed(&s.open()).indirect_object.expect("a mapping");
    s.edit_bonus((0, mapping), 8, |bytes| bytes + 512);
    assert_eq!(s.check(), ["removal"]);
}

/// What a removal has copied is taken twice; that is not a leak, and not forgotten either.
#[test]
fn a_removal_under_way_is_clean() {
    let sample = testkit::sample("removing");
    let pool = common::open(&sample.dir, sample.name());
    assert!(pool.config().vdev_tree.children.iter().any(|t| t.removing));
    let copied = pool.removal().unwrap().expect("a removal").state.copied;
    assert!(copied > 0);
    let report = check::run(&pool, &check::CheckOptions::default(), &rt::Progress::new());
    assert!(report.issues.is_empty(), "{:#?}", report.issues);
}

/// First copies of all blocks of data in all datasets.
fn data(pool: &Pool) -> Vec<BlkPtr> {
    let mut out = Vec::new();
    for object in pool.mos().objects().filter_map(Result::ok) {
        if object.dnode().bonus_kind != ondisk::DmuType::DSL_DATASET {
            continue;
        }
        let root = pool.dsl().root().unwrap();
        let dataset = pool.dsl().dataset(object.number(), String::new(), &root).unwrap();
        // Those of the pool itself have no content.
        let Ok(set) = pool.dsl().objset(&dataset) else { continue };
        for file in set.objects().filter_map(Result::ok) {
            let mut at = Some(0);
            while let Some(blkid) = at.and_then(|b| file.next_block(b).ok().flatten()) {
                let bp = file.block_pointer(0, blkid).unwrap().filter(|b| !b.is_embedded());
                out.extend(bp);
                at = blkid.checked_add(1);
            }
        }
    }
    out
}

#[test]
fn damage_of_the_checkpoint_alone() {
    let corpus = testkit::corpus("checkpoint");
    let s = Surgeon::new(&corpus);
    assert_eq!(s.check(), [""; 0]);
    let now: BTreeSet<Dva> = data(&s.open()).iter().map(|b| b.dva(0)).collect();
    let mut options = OpenOptions { checkpoint: true, ..OpenOptions::default() };
    options.search.paths = vec![s.dir().to_owned()];
    let then = Pool::open(corpus.name(), &options).unwrap();
    let gone = data(&then).into_iter().find(|b| !now.contains(&b.dva(0)));
    let gone = gone.expect("a block that only the checkpoint has");
    for copy in 0..gone.dvas().count() {
        s.destroy(&gone, copy);
    }
    let report = s.report();
    let kept = |i: &Issue| matches!(i, Issue::InCheckpoint(i) if i.name() == "block-lost");
    assert!(report.issues.iter().any(kept), "{:?}", report.issues);
    let others = report.issues.iter().filter(|i| !kept(i));
    assert!(others.clone().all(|i| i.name() == "device-damaged"), "{:?}", report.issues);
}

#[test]
fn a_forgotten_list_of_what_the_checkpoint_keeps() {
    let corpus = testkit::corpus("checkpoint");
    let s = Surgeon::new(&corpus);
    let pool = s.open();
    let map = of_vdev(&pool, &pool.config().vdev_tree.children[0], vdev_zap::CHECKPOINT_SPACE_MAP);
    s.edit_bonus((0, map), 8, |_| 0);
    let names = s.check();
    assert_eq!(names, ["checkpoint-space", "leaked"]);
}

/// Space that is kept although the pool has no checkpoint.
#[test]
fn what_is_kept_for_no_checkpoint() {
    let s = Surgeon::new(&testkit::corpus("checkpoint"));
    let pool = s.open();
    let directory = Zap::open(&pool.mos().object(mos::DIRECTORY_OBJECT).unwrap()).unwrap();
    let counts = directory.get_u64(mos::FEATURES_FOR_WRITE).unwrap().expect("the features");
    drop((directory, pool));
    s.edit_block((0, counts), (0, 0), |block| {
        let name = b"com.delphix:zpool_checkpoint\0";
        let at = block.windows(name.len()).position(|bytes| bytes == name).expect("the feature");
        // An entry of a micro ZAP: the value, two numbers, the name.
        let value = &mut block[at - 14..at - 6];
        assert_eq!(value, 1_u64.to_le_bytes());
        value.fill(0);
    });
    let report = s.report();
    let is_named = |i: &Issue| matches!(i, Issue::CheckpointSpace { listed: true, .. });
    assert!(report.issues.iter().any(is_named), "{:?}", report.issues);
}
