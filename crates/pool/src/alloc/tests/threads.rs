//! Many threads at once, and a pool that is filled again and again.

use super::harness::{Store, plain, pointer, raidz, want};
use ondisk::Dva;
use parking_lot::RwLock;
use rt::{Rng, Xoshiro256};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use zio::Allocate;

/// Which sectors are taken.
struct Owned(Vec<Vec<AtomicBool>>);

impl Owned {
    fn new(vdevs: usize, sectors: usize) -> Self {
        let vdev = || (0..sectors).map(|_| AtomicBool::new(false)).collect();
        Self((0..vdevs).map(|_| vdev()).collect())
    }

    fn set(&self, dva: Dva, to: bool) {
        let from = (dva.offset() >> 9) as usize;
        let to_sector = from + (dva.asize() >> 9) as usize;
        for s in &self.0[dva.vdev() as usize][from..to_sector] {
            assert_ne!(s.swap(to, SeqCst), to, "{dva:?}");
        }
    }
}

#[test]
fn eight_threads_never_get_the_same() {
    let specs: Vec<_> = (0..3).map(|i| plain(i, 9, 21, 4)).collect();
    let store = Store::default();
    let alloc = store.open(&specs, 8);
    let owned = Owned::new(3, 8 << 20 >> 9);
    // Held for reading while a thread works in the open txg.
    let txg = RwLock::new(1u64);
    let running = AtomicU64::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (alloc, owned, txg, running) = (&alloc, &owned, &txg, &running);
            scope.spawn(move || {
                let mut rng = Xoshiro256::seeded(thread);
                let mut mine = Vec::new();
                for _ in 0..150 {
                    let open = txg.read();
                    for _ in 0..20 {
                        let psize = 512 << rng.below(8);
                        let copies = 1 + rng.below(3) as u8;
                        if rng.below(3) > 0
                            && let Ok(d) = alloc.allocate(&want(psize, copies, *open, thread % 3))
                        {
                            let bp = pointer(d);
                            bp.dvas().for_each(|(_, d)| owned.set(d, true));
                            mine.push((bp, *open));
                        } else if !mine.is_empty() {
                            let i = rng.below(mine.len() as u64) as usize;
                            let (bp, born): (ondisk::BlkPtr, u64) = mine.swap_remove(i);
                            bp.dvas().for_each(|(_, d)| owned.set(d, false));
                            match born == *open {
                                true => alloc.discard(&bp, *open),
                                false => alloc.free(&bp, *open),
                            }
                        }
                    }
                }
                running.fetch_sub(1, SeqCst);
            });
        }
        while running.load(SeqCst) > 0 {
            let mut txg = txg.write();
            store.sync(&alloc, *txg, |_| {});
            *txg += 1;
        }
    });
    let last = *txg.read();
    store.sync(&alloc, last, |_| {});
    assert_eq!(alloc.problems(), Vec::<String>::new());
    for (spec, owned) in specs.iter().zip(&owned.0) {
        let map = store.allocated(spec);
        assert!(map.iter().zip(owned).all(|(m, o)| *m == o.load(SeqCst)));
    }
}

#[test]
fn full_and_empty_a_hundred_times() {
    let spec = raidz(&plain(0, 9, 20, 4), 1, 3);
    let store = Store::default();
    let alloc = store.open(std::slice::from_ref(&spec), 2);
    let mut rng = Xoshiro256::seeded(1);
    let mut txg = 1;
    let mut blocks = Vec::new();
    for round in 0..100u64 {
        let mut size = 128 << 10;
        let mut bytes = 0;
        // What is too small for one size is filled with smaller ones.
        while size >= 512 {
            while let Ok(d) = alloc.allocate(&want(size, 1, txg, rng.below(4))) {
                bytes += d[0].asize();
                blocks.push(d);
            }
            size /= 2;
        }
        assert_eq!(bytes, 4 << 20, "all of it, in round {round}");
        store.sync(&alloc, txg, |_| {});
        txg += 1;
        for d in blocks.drain(..) {
            alloc.free(&pointer(d), txg);
        }
        for _ in 0..3 {
            store.sync(&alloc, txg, |_| {});
            txg += 1;
        }
        assert!(store.allocated(&spec).iter().all(|b| !b));
        assert!(!alloc.has_deferred());
    }
    assert_eq!(alloc.problems(), Vec::<String>::new());
}
