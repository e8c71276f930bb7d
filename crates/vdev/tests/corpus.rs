//! Every block of pools that OpenZFS wrote, on every device, through every loss they must survive.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::walk::Pool;
use std::collections::BTreeSet;
use vdev::{FaultKind, Scope, VdevState};

/// Scrubs the pool: nothing may be wrong, on no device, parity included.
fn scrub(case: &str) {
    let case = testkit::corpus(case);
    let pool = Pool::open(&case);
    let tree = pool.tree(&[]);
    let tally = pool.walk(&tree, Scope::All);
    assert_eq!((tally.unreadable, tally.faults.first()), (0, None), "{}", case.case);
    assert!(tally.blocks > 200, "{} blocks are not pool", tally.blocks);
    assert_eq!(tree.root().state(), VdevState::Online);
    // What the cheap way reads must be the same blocks.
    let cheap = pool.walk(&tree, Scope::Data);
    assert_eq!((cheap.blocks, cheap.bytes), (tally.blocks, tally.bytes));
    // Allocated sizes follow from the physical ones.
    let sizes = pool.sizes(&tree);
    assert!(!sizes.is_empty());
    for (bp, dva) in sizes {
        let asize = tree.psize_to_asize(dva.vdev(), bp.psize(), bp.physical_birth());
        assert_eq!(asize, Some(dva.asize()), "{bp:?}");
    }
}

fn pointers(case: &str) -> (Pool, Vec<ondisk::BlkPtr>) {
    let pool = Pool::open(&testkit::corpus(case));
    let found = pool.pointers(&pool.tree(&[]));
    (pool, found)
}

#[test]
fn an_expanded_raidz_has_old_blocks_of_several_rows() {
    let (pool, found) = pointers("expanded");
    let txg = pool.root.children[0].raidz_expand_txgs[0];
    let old = found.iter().filter(|bp| bp.physical_birth() < txg).count();
    let large = |bp: &&ondisk::BlkPtr| bp.physical_birth() < txg && bp.psize() > 32768;
    assert!(old > 50 && old < found.len(), "{old} of {} are older", found.len());
    assert!(found.iter().filter(large).count() > 5, "blocks of several rows");
}

#[test]
fn blocks_have_addresses_on_a_removed_vdev_and_swapped_columns() {
    let (_, found) = pointers("removed");
    let moved = found.iter().filter(|bp| bp.dvas().any(|(_, d)| d.vdev() == 1)).count();
    assert!(moved > 50, "{moved} blocks have an address on the removed vdev");
    let (_, found) = pointers("raidz1");
    let swapped = found.iter().filter(|bp| bp.dva(0).offset() & (1 << 20) != 0).count();
    assert!(swapped > 50, "{swapped} blocks have swapped columns");
}

/// Reads the pool without the devices of these numbers (in the order of the tree).
fn without(case: &str, lost: &[usize]) {
    let case = testkit::corpus(case);
    let pool = Pool::open(&case);
    let guids: Vec<u64> = pool.tree(&[]).leaves().map(|l| l.guid()).collect();
    let guids: Vec<u64> = lost.iter().map(|i| guids[*i]).collect();
    let tree = pool.tree(&guids);
    assert_eq!(tree.root().state(), VdevState::Degraded);
    let tally = pool.walk(&tree, Scope::Data);
    assert_eq!((tally.unreadable, tally.faults.first()), (0, None), "{} -{lost:?}", case.case);
    assert!(tally.blocks > 200);
}

#[test]
fn mirror_is_clean() {
    scrub("mirror");
}

#[test]
fn raidz1_is_clean() {
    scrub("raidz1");
}

#[test]
fn raidz2_is_clean() {
    scrub("raidz2");
}

#[test]
fn raidz3_is_clean() {
    scrub("raidz3");
}

#[test]
fn draid_is_clean() {
    scrub("draid");
}

#[test]
fn expanded_raidz_is_clean() {
    scrub("expanded");
}

#[test]
fn stripe_of_mirrors_is_clean() {
    scrub("stripe");
}

#[test]
fn pool_with_a_removed_vdev_is_clean() {
    scrub("removed");
}

#[test]
fn mirrors_live_on_one_side() {
    without("stripe", &[1, 4]);
}

#[test]
fn mirrors_of_three_live_on_one_side() {
    without("mirror", &[0, 2]);
}

#[test]
fn raidz1_lives_without_a_disk() {
    without("raidz1", &[1]);
}

#[test]
fn raidz_lives_without_as_many_disks_as_it_has_parity() {
    without("raidz2", &[0, 3]);
    without("raidz3", &[1, 2, 5]);
}

#[test]
fn expanded_raidz_lives_without_old_and_new_disks() {
    without("expanded", &[0]);
    without("expanded", &[3]);
}

#[test]
fn draid_lives_without_two_disks() {
    without("draid", &[2, 7]);
}

/// Devices that a walk blames, and the kinds of their faults.
fn blame(faults: &[vdev::Fault]) -> BTreeSet<(u64, &'static str)> {
    let kind = |k: &FaultKind| match k {
        FaultKind::Checksum => "checksum",
        FaultKind::ParityMismatch => "parity",
        FaultKind::Io(_) => "io",
        FaultKind::Missing => "missing",
        FaultKind::Stale => "stale",
        _ => "block",
    };
    faults.iter().map(|f| (f.guid, kind(&f.kind))).collect()
}

#[test]
fn a_rotten_side_of_a_mirror_is_healed_and_blamed() {
    let case = testkit::corpus("degraded-mirror");
    let pool = Pool::open(&case);
    let tree = pool.tree(&[]);
    let guids: Vec<u64> = tree.leaves().map(|l| l.guid()).collect();
    for scope in [Scope::Data, Scope::All] {
        let tally = pool.walk(&tree, scope);
        assert_eq!(tally.unreadable, 0);
        assert_eq!(blame(&tally.faults), [(guids[1], "checksum")].into());
        assert!(tally.faults.iter().all(|f| f.repaired));
    }
    let counts: Vec<bool> = tree.leaves().map(|l| l.checksum_errors() > 0).collect();
    assert_eq!(counts, [false, true]);
    // The rotten side alone is not the pool, and what is lost is said.
    let alone = pool.tree_or_none(&guids[..1]);
    assert!(alone.is_none_or(|t| pool.walk(&t, Scope::Data).unreadable > 0));
}

#[test]
fn a_disk_that_was_offline_is_not_needed_and_not_believed() {
    let case = testkit::corpus("degraded-raidz");
    let pool = Pool::open(&case);
    let tree = pool.tree(&[]);
    let states: Vec<VdevState> = tree.leaves().map(|l| l.state()).collect();
    assert_eq!(states, [VdevState::Online, VdevState::Online, VdevState::Offline]);
    assert_eq!(tree.root().state(), VdevState::Degraded);
    let tally = pool.walk(&tree, Scope::Data);
    assert_eq!((tally.unreadable, tally.faults.first()), (0, None));
    // Taken into use as it is, it is found out block by block.
    let guid = tree.leaves().nth(2).unwrap().guid();
    let tree = pool.tree_with_all();
    let tally = pool.walk(&tree, Scope::All);
    assert_eq!(tally.unreadable, 0);
    assert_eq!(blame(&tally.faults), [(guid, "checksum"), (guid, "parity")].into());
}
