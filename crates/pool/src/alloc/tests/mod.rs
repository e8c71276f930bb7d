//! The allocator against plain models.

mod harness;
mod model;
mod threads;

use self::harness::{BLOCK, Store, plain, pointer, raidz, want};
use super::Allocator;
use super::spec::TopSpec;
use zio::{AllocError, AllocRequest, Allocate, SpaceClass};

fn vdevs(dvas: &[ondisk::Dva; 3]) -> Vec<u32> {
    dvas.iter().filter(|d| !d.is_empty()).map(|d| d.vdev()).collect()
}

#[test]
fn copies_are_on_different_vdevs_while_there_are_some() {
    let specs: Vec<_> = (0..2).map(|i| plain(i, 12, 24, 4)).collect();
    let alloc = Store::default().open(&specs, 1);
    for _ in 0..200 {
        let dvas = alloc.allocate(&want(4096, 3, 1, 0)).unwrap();
        assert_eq!(vdevs(&dvas).len(), 3);
        assert_ne!(dvas[0].vdev(), dvas[1].vdev());
        let same = dvas.iter().find(|d| d.vdev() == dvas[2].vdev()).unwrap();
        assert!(same.offset().abs_diff(dvas[2].offset()) >= (64 << 20) / 8, "{dvas:?}");
    }
    // One vdev alone: the copies keep their distance.
    let alloc = Store::default().open(&[plain(0, 12, 24, 4)], 1);
    for _ in 0..3000 {
        let d = alloc.allocate(&want(4096, 3, 1, 0)).unwrap();
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            assert!(d[a].offset().abs_diff(d[b].offset()) >= (64 << 20) / 8, "{d:?}");
        }
    }
}

#[test]
fn copies_come_together_when_nothing_else_is_left() {
    let specs = [plain(0, 9, 20, 2), plain(1, 9, 20, 2)];
    let alloc = Store::default().open(&specs, 1);
    let mut got = 0;
    while let Ok(dvas) = alloc.allocate(&want(512, 2, 1, got)) {
        assert_eq!(vdevs(&dvas).len(), 2);
        got += 1;
    }
    assert_eq!(got, 4096, "all of it was used");
}

#[test]
fn one_after_the_other_lies_so() {
    let alloc = Store::default().open(&[plain(0, 12, 29, 16)], 1);
    let mut last = alloc.allocate(&want(128 << 10, 1, 1, 7)).unwrap()[0];
    let mut breaks = 0;
    for _ in 0..1000 {
        let next = alloc.allocate(&want(128 << 10, 1, 1, 7)).unwrap()[0];
        breaks += u32::from(next.offset() != last.offset() + last.asize());
        last = next;
    }
    assert_eq!(breaks, 0, "one writer writes one stretch");
}

#[test]
fn fuller_vdevs_get_less() {
    let specs = [plain(0, 12, 24, 8), plain(1, 12, 24, 24)];
    let alloc = Store::default().open(&specs, 1);
    let mut bytes = [0u64; 2];
    for i in 0..8000 {
        let d = alloc.allocate(&want(32 << 10, 1, 1, i)).unwrap()[0];
        bytes[d.vdev() as usize] += d.asize();
    }
    let ratio = bytes[1] as f64 / bytes[0] as f64;
    assert!((2.5..3.5).contains(&ratio), "{ratio}");
}

#[test]
fn classes_fall_back_when_they_are_full_or_absent() {
    let special = TopSpec { class: SpaceClass::Special, ..plain(1, 9, 20, 1) };
    let specs = [plain(0, 9, 20, 8), special];
    let alloc = Store::default().open(&specs, 1);
    let get = |class| {
        let want = AllocRequest { class, ..want(64 << 10, 1, 1, 0) };
        alloc.allocate(&want).map(|d| d[0].vdev())
    };
    assert_eq!(get(SpaceClass::Normal), Ok(0));
    assert_eq!(get(SpaceClass::Log), Ok(0));
    assert_eq!(get(SpaceClass::Dedup), Ok(1));
    let mut special = 1;
    while get(SpaceClass::Special) == Ok(1) {
        special += 1;
    }
    assert_eq!(special, 16);
    assert_eq!(get(SpaceClass::Dedup), Ok(0));
    while get(SpaceClass::Special).is_ok() {}
    assert_eq!(get(SpaceClass::Normal), Err(AllocError::NoSpace));
}

#[test]
fn gang_headers_are_freed_by_their_own_size() {
    let store = Store::default();
    let spec = raidz(&plain(0, 12, 24, 4), 2, 6);
    let alloc = store.open(std::slice::from_ref(&spec), 1);
    let dvas = alloc.allocate(&AllocRequest { gang: true, ..want(512, 1, 1, 0) }).unwrap();
    assert!(dvas[0].is_gang() && dvas[0].asize() == 3 << 12);
    // A gang's address counts all its members.
    let whole = ondisk::Dva::new(0, dvas[0].offset(), 30 << 12, true);
    store.sync(&alloc, 1, |_| {});
    assert_eq!(store.allocated(&spec).iter().filter(|b| **b).count(), 3);
    alloc.free(&pointer([whole, Default::default(), Default::default()]), 2);
    store.sync(&alloc, 2, |_| {});
    assert!(store.allocated(&spec).iter().all(|b| !b));
    assert_eq!(alloc.problems(), Vec::<String>::new());
}

#[test]
fn deflation_counts_what_parity_leaves() {
    let specs = [raidz(&plain(0, 12, 24, 4), 1, 3), plain(1, 12, 24, 4)];
    let alloc = Store::default().open(&specs, 1);
    let figures = alloc.figures();
    // 128 KiB take 192 KiB: 341 512ths.
    let deflated = (64u64 << 20) / 512 * 341 + (64 << 20);
    assert_eq!((figures.normal.size, figures.normal.deflated), (128 << 20, deflated));
    assert_eq!((figures.dspace, figures.total()), (deflated, (128 << 20, 0)));
    let dva = |vdev, asize| ondisk::Dva::new(vdev, 0, asize, false);
    let bp = pointer([dva(0, 192 << 10), dva(1, 128 << 10), dva(9, 512)]);
    assert_eq!(alloc.dsize(&bp), 384 * 341 + (128 << 10) + 512);
}

#[test]
fn without_the_flag_parity_counts() {
    let mut alloc = Store::default().open(&[], 1);
    alloc.deflate = false;
    alloc.add_top(&raidz(&plain(0, 12, 24, 4), 1, 3));
    let figures = alloc.figures();
    assert_eq!((figures.normal.size, figures.normal.deflated), (64 << 20, 64 << 20));
    let none = ondisk::Dva::new(0, 0, 0, false);
    let bp = pointer([ondisk::Dva::new(0, 0, 192 << 10, false), none, none]);
    assert_eq!(alloc.dsize(&bp), 192 << 10);
}

#[test]
fn freeing_twice_is_noted_and_harmless() {
    let store = Store::default();
    let spec = plain(0, 9, 20, 2);
    let alloc = store.open(std::slice::from_ref(&spec), 1);
    let bp = pointer(alloc.allocate(&want(4096, 1, 1, 0)).unwrap());
    store.sync(&alloc, 1, |_| {});
    alloc.free(&bp, 2);
    alloc.free(&bp, 2);
    store.sync(&alloc, 2, |_| {});
    alloc.free(&bp, 3);
    let outside = ondisk::Dva::new(0, 5 << 20, 512, false);
    alloc.free(&pointer([outside, Default::default(), Default::default()]), 3);
    store.sync(&alloc, 3, |_| {});
    assert_eq!(alloc.problems().len(), 3);
    assert!(store.allocated(&spec).iter().all(|b| !b));
    assert_eq!(alloc.figures().normal.allocated, 0);
}

#[test]
fn a_map_that_cannot_be_read_costs_its_metaslab_only() {
    let store = Store::default();
    let spec = plain(0, 9, 20, 2);
    let specs = std::slice::from_ref(&spec);
    let alloc = store.open(specs, 1);
    let bp = pointer(alloc.allocate(&want(4096, 1, 1, 0)).unwrap());
    store.sync(&alloc, 1, |_| {});
    store.damage(1);
    let alloc = store.open(specs, 1);
    let mut got = 0;
    while let Ok(dvas) = alloc.allocate(&want(4096, 1, 2, got)) {
        assert!(dvas[0].offset() >= 1 << 20);
        got += 1;
    }
    assert_eq!(got, 256);
    assert_eq!(alloc.problems().len(), 1, "{:?}", alloc.problems());
    alloc.free(&bp, 2);
}

#[test]
fn logs_are_folded_in() {
    let store = Store::default();
    let spec = plain(0, 9, 20, 4);
    let specs = std::slice::from_ref(&spec);
    let alloc = store.open(specs, 1);
    let old = alloc.allocate(&want(64 << 10, 1, 1, 0)).unwrap()[0];
    store.sync(&alloc, 1, |_| {});
    // A log that frees half of the block, allocates something, frees it again, and so on.
    let alloc = store.open(specs, 1);
    let top = alloc.top(0).unwrap();
    let log = |start: u64, len: u64, is_alloc| {
        top.metaslab(start, start + len).unwrap().log(&top.room, start, start + len, is_alloc);
    };
    let at = old.offset();
    log(at, 32 << 10, false);
    log(at, 4096, true);
    log(2 << 20, 8192, true);
    log((2 << 20) + 4096, 4096, false);
    log(3 << 20, 512, true);
    log(3 << 20, 512, false);
    let live = (32 << 10) + 4096 + 4096;
    assert_eq!(alloc.figures().normal.allocated, live);
    let new = alloc.allocate(&want(1 << 20, 1, 2, 0)).unwrap()[0];
    assert!(new.offset() == 1 << 20 || new.offset() == 3 << 20, "{new:?}");
    store.sync(&alloc, 2, |_| {});
    let bits = store.allocated(&spec);
    let taken = |s: u64, e: u64| bits[(s >> 9) as usize..(e >> 9) as usize].iter().all(|b| *b);
    assert!(taken(at, at + 4096) && taken(at + (32 << 10), at + (64 << 10)));
    assert!(taken(2 << 20, (2 << 20) + 4096));
    let all = bits.iter().filter(|b| **b).count() as u64;
    assert_eq!(all << 9, live + (1 << 20));
    assert_eq!(alloc.figures().normal.allocated, live + (1 << 20));
}

#[test]
fn a_claimed_block_is_not_given_away() {
    let store = Store::default();
    let spec = plain(0, 9, 20, 1);
    let specs = std::slice::from_ref(&spec);
    let alloc = store.open(specs, 1);
    let dva = ondisk::Dva::new(0, 128 << 10, 128 << 10, false);
    let bp = pointer([dva, Default::default(), Default::default()]);
    alloc.claim(&bp, 1).unwrap();
    alloc.claim(&bp, 1).unwrap_err();
    let mut got = 0;
    while let Ok(d) = alloc.allocate(&want(64 << 10, 1, 1, got)) {
        assert!(d[0].offset() + d[0].asize() <= 128 << 10 || d[0].offset() >= 256 << 10);
        got += 1;
    }
    assert_eq!(got, 14);
    store.sync(&alloc, 1, |_| {});
    assert!(store.allocated(&spec).iter().all(|b| *b));
}

/// What a free in `txg` waits for.
#[test]
fn freed_space_comes_back_after_two_more_txgs() {
    let store = Store::default();
    let alloc: Allocator = store.open(&[plain(0, 9, 20, 1)], 1);
    let all = |txg| alloc.allocate(&want(1 << 20, 1, txg, 0));
    let bp = pointer(all(1).unwrap());
    store.sync(&alloc, 1, |_| {});
    alloc.free(&bp, 2);
    for txg in 2..5 {
        assert_eq!(all(txg), Err(AllocError::NoSpace), "in txg {txg}");
        store.sync(&alloc, txg, |_| {});
        assert_eq!(alloc.has_deferred(), txg < 4);
    }
    assert_eq!(pointer(all(5).unwrap()), bp);
    alloc.discard(&bp, 5);
    assert_eq!(pointer(all(5).unwrap()), bp, "what no tree has is free at once");
}

/// What is freed after frees are held waits until they are not, and what was freed before does not.
#[test]
fn what_is_held_is_not_allocated() {
    let store = Store::default();
    let alloc: Allocator = store.open(&[plain(0, 9, 21, 1)], 1);
    let half = |txg| alloc.allocate(&want(1 << 20, 1, txg, 0));
    let [first, second] = [half(1), half(1)].map(|dvas| pointer(dvas.unwrap()));
    store.sync(&alloc, 1, |_| {});
    alloc.free(&first, 2);
    store.sync(&alloc, 2, |_| {});
    let held = alloc.hold_frees();
    alloc.free(&second, 3);
    for txg in 3..5 {
        assert_eq!(half(txg), Err(AllocError::NoSpace), "in txg {txg}");
        store.sync(&alloc, txg, |_| {});
    }
    assert_eq!(pointer(half(5).unwrap()), first, "it was freed before");
    for txg in 5..20 {
        assert_eq!(half(txg), Err(AllocError::NoSpace), "in txg {txg}");
        store.sync(&alloc, txg, |_| {});
        assert!(alloc.has_deferred());
    }
    // Another one that is held from now on has seen none of these syncs.
    let later = alloc.hold_frees();
    drop(held);
    store.sync(&alloc, 20, |_| {});
    assert_eq!(pointer(half(21).unwrap()), second);
    drop(later);
    store.sync(&alloc, 21, |_| {});
    assert!(!alloc.has_deferred());
}

/// One thread holds frees after the other, each for as long as a txg takes: space comes back.
#[test]
fn frees_that_are_always_held_by_somebody_do_not_wait_for_ever() {
    let store = Store::default();
    let alloc: Allocator = store.open(&[plain(0, 9, 20, 1)], 1);
    let mut held = alloc.hold_frees();
    for n in 0..10 {
        let txg = 1 + n * 4;
        let bp = pointer(alloc.allocate(&want(1 << 20, 1, txg, 0)).unwrap());
        store.sync(&alloc, txg, |_| {});
        alloc.free(&bp, txg + 1);
        for txg in txg + 1..txg + 4 {
            let next = alloc.hold_frees();
            drop(std::mem::replace(&mut held, next));
            store.sync(&alloc, txg, |_| {});
        }
    }
}

/// A metaslab that only the MOS writes to has nothing new in a txg's first pass.
#[test]
fn a_map_that_only_late_passes_change_does_not_grow_for_ever() {
    let store = Store::default();
    let alloc: Allocator = store.open(&[plain(0, 9, 20, 1)], 1);
    let mut last = None;
    for txg in 1..2000 {
        let pass = |n| alloc.sync_maps(&mut store.clone(), txg, n).unwrap();
        assert!(!pass(1));
        let block = pointer(alloc.allocate(&want(4096, 1, txg, 0)).unwrap());
        if let Some(old) = last.replace(block) {
            alloc.free(&old, txg);
        }
        assert!(pass(2) && !pass(3));
        alloc.sync_done(txg);
    }
    assert!(store.longest() < 8 * BLOCK as u64, "{} bytes", store.longest());
}

#[test]
fn fragmented_space_is_used_up() {
    let store = Store::default();
    let spec = plain(0, 9, 20, 4);
    let alloc = store.open(std::slice::from_ref(&spec), 2);
    let mut blocks = Vec::new();
    while let Ok(d) = alloc.allocate(&want(8192, 1, 1, blocks.len() as u64)) {
        blocks.push(d);
    }
    assert_eq!(blocks.len(), 512);
    store.sync(&alloc, 1, |_| {});
    blocks.sort_by_key(|d| d[0].offset());
    for d in blocks.iter().step_by(2) {
        alloc.free(&pointer(*d), 2);
    }
    (2..5).for_each(|txg| store.sync(&alloc, txg, |_| {}));
    assert_eq!(alloc.allocate(&want(16384, 1, 5, 0)), Err(AllocError::NoSpace));
    let mut got = 0;
    while alloc.allocate(&want(4096, 1, 5, got)).is_ok() {
        got += 1;
    }
    assert_eq!(got, 512);
    let figures = alloc.figures();
    assert_eq!(figures.normal.allocated, 2 << 20, "as of the last sync");
    assert_eq!(figures.fragmentation, 88, "pieces of 8 KiB");
}

/// A block that needs a long range would become a gang of many parts.
#[test]
fn where_space_is_dust_small_blocks_leave_long_ranges_alone() {
    let store = Store::default();
    let alloc = store.open(&[plain(0, 9, 22, 1)], 1);
    let mut blocks = Vec::new();
    while let Ok(d) = alloc.allocate(&want(4096, 1, 1, 0)) {
        blocks.push(d);
    }
    store.sync(&alloc, 1, |_| {});
    blocks.sort_by_key(|d| d[0].offset());
    // 320 holes of 4 KiB in the first five eighths, eight of 32 KiB behind.
    let holes = blocks.iter().take(640).step_by(2);
    let long = (0..8).flat_map(|n| blocks.iter().skip(656 + 16 * n).take(8));
    holes.chain(long).for_each(|d| alloc.free(&pointer(*d), 2));
    (2..5).for_each(|txg| store.sync(&alloc, txg, |_| {}));
    for n in 0..240 {
        assert!(alloc.allocate(&want(4096, 1, 5, 0)).is_ok(), "small block {n}");
    }
    for n in 0..8 {
        assert!(alloc.allocate(&want(32 << 10, 1, 5, 0)).is_ok(), "large block {n}");
    }
    assert_eq!(alloc.allocate(&want(8192, 1, 5, 0)), Err(AllocError::NoSpace));
}
