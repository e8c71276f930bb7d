//! Random work against a plain table of sectors, with the maps' bytes read back after each txg.

use super::harness::{Store, plain, pointer, raidz, want};
use crate::alloc::Allocator;
use crate::alloc::spec::TopSpec;
use ondisk::{BlkPtr, Dva};
use std::cell::Cell;
use testkit::Rng;
use zio::Allocate;

struct Model {
    store: Store,
    specs: Vec<TopSpec>,
    alloc: Allocator,
    rng: Rng,
    txg: u64,
    /// By vdev and sector: in use, and in which txg it was freed last.
    used: Vec<Vec<bool>>,
    freed: Vec<Vec<u64>>,
    /// Blocks with the txg that wrote them.
    blocks: Vec<(BlkPtr, u64)>,
    refused: u64,
}

impl Model {
    fn new(specs: Vec<TopSpec>) -> Self {
        let store = Store::default();
        let alloc = store.open(&specs, 2);
        let sectors = |s: &TopSpec| (s.ms_count << s.ms_shift >> s.ashift) as usize;
        Self {
            store,
            alloc,
            rng: Rng::new(0),
            txg: 1,
            used: specs.iter().map(|s| vec![false; sectors(s)]).collect(),
            freed: specs.iter().map(|s| vec![0; sectors(s)]).collect(),
            blocks: Vec::new(),
            refused: 0,
            specs,
        }
    }

    fn sectors(&self, dva: Dva) -> (usize, std::ops::Range<usize>) {
        let v = dva.vdev() as usize;
        let shift = self.specs[v].ashift;
        let end = dva.offset() + dva.asize();
        (v, (dva.offset() >> shift) as usize..(end >> shift) as usize)
    }

    fn allocate(&mut self, txg: u64) {
        let psize = match self.rng.below(10) {
            0 => 1 + self.rng.below(200 << 10),
            1..4 => 1 + self.rng.below(20 << 10),
            _ => 512 * (1 + self.rng.below(8)),
        };
        let copies = 1 + self.rng.below(3) as u8;
        let hint = self.rng.below(5);
        let Ok(dvas) = self.alloc.allocate(&want(psize, copies, txg, hint)) else {
            self.refused += 1;
            return;
        };
        assert_eq!(dvas.iter().filter(|d| !d.is_empty()).count(), usize::from(copies));
        for d in dvas.into_iter().filter(|d| !d.is_empty()) {
            let spec = &self.specs[d.vdev() as usize];
            assert_eq!(d.asize(), (spec.asize)(psize, txg));
            let first = d.offset() >> spec.ms_shift;
            assert_eq!(first, (d.offset() + d.asize() - 1) >> spec.ms_shift, "two metaslabs");
            let (v, sectors) = self.sectors(d);
            for s in sectors {
                assert!(!std::mem::replace(&mut self.used[v][s], true), "given twice: {d:?}");
                let freed = self.freed[v][s];
                assert!(freed == 0 || freed + 2 < self.txg, "too soon: {d:?}");
            }
        }
        self.blocks.push((pointer(dvas), txg));
    }

    fn release(&mut self, txg: u64) {
        if self.blocks.is_empty() {
            return;
        }
        let i = self.rng.below(self.blocks.len() as u64) as usize;
        let (bp, born) = self.blocks[i];
        // Blocks of the intent log are of a later txg than the one that is synced.
        if born > txg {
            return;
        }
        // Also what the txg itself wrote may be freed as if it were old: an intent log's block.
        let discard = born == txg && self.rng.below(2) > 0;
        self.blocks.swap_remove(i);
        match discard {
            true => self.alloc.discard(&bp, txg),
            false => self.alloc.free(&bp, txg),
        }
        for (_, d) in bp.dvas() {
            let (v, sectors) = self.sectors(d);
            for s in sectors {
                self.used[v][s] = false;
                self.freed[v][s] = if discard { 0 } else { txg };
            }
        }
    }

    fn work(&mut self, rounds: u64, txg: u64, grow: u64) {
        for _ in 0..rounds {
            match self.rng.below(100) < grow {
                true => self.allocate(txg),
                false => self.release(txg),
            }
        }
    }

    fn sync(&mut self) {
        let txg = self.txg;
        // The intent log is ahead.
        self.work(5, txg + 1, 100);
        let store = self.store.clone();
        let mut pass = 1;
        while self.alloc.sync_maps(&mut store.clone(), txg, pass).unwrap() {
            if pass < 6 {
                self.work(8 / u64::from(pass), txg, 50);
                self.work(1, txg + 1, 100);
            }
            pass += 1;
            assert!(pass < 20);
        }
        self.alloc.sync_done(txg);
        let mut younger: Vec<Vec<bool>> = self.used.iter().map(|v| vec![false; v.len()]).collect();
        for (bp, _) in self.blocks.iter().filter(|(_, born)| *born > txg) {
            for (_, d) in bp.dvas() {
                let (v, sectors) = self.sectors(d);
                younger[v][sectors].fill(true);
            }
        }
        for (v, spec) in self.specs.iter().enumerate() {
            let map = self.store.allocated(spec);
            for (s, in_map) in map.iter().enumerate() {
                let expected = self.used[v][s] && !younger[v][s];
                assert_eq!(*in_map, expected, "vdev {v} sector {s:#x} after txg {txg}");
            }
        }
        let used: u64 =
            self.specs.iter().zip(&self.used).zip(&younger).fold(0, |n, ((s, u), y)| {
                n + ((u.iter().zip(y).filter(|(u, y)| **u && !**y).count() as u64) << s.ashift)
            });
        assert_eq!(self.alloc.figures().normal.allocated, used);
        assert_eq!(self.alloc.problems(), Vec::<String>::new());
        self.txg += 1;
    }

    /// What was not synced is lost, and nothing waits any more.
    fn reopen(&mut self) {
        let txg = self.txg;
        let gone: Vec<_> = self.blocks.extract_if(.., |(_, born)| *born >= txg).collect();
        for (bp, _) in gone {
            for (_, d) in bp.dvas() {
                let (v, sectors) = self.sectors(d);
                self.used[v][sectors].fill(false);
            }
        }
        self.freed.iter_mut().for_each(|v| v.fill(0));
        self.alloc = self.store.open(&self.specs, 2);
    }
}

/// Txgs of a run.
const TXGS: usize = 150;

/// Makes the run of `seed`: a number for each txg.
fn run(specs: &[TopSpec], seed: u64) {
    let (refused, rewritten) = (Cell::new(0), Cell::new(0));
    testkit::shrinking_seed(seed, TXGS, |txgs| {
        let mut m = Model::new(specs.to_vec());
        for (txg, number) in txgs.iter().enumerate() {
            m.rng = Rng::new(*number);
            let grow = [70, 55, 40, 90, 10][txg / 15 % 5];
            let rounds = m.rng.below(120);
            let now = m.txg;
            m.work(rounds, now, grow);
            m.sync();
            if m.rng.below(12) == 0 {
                m.reopen();
            }
        }
        refused.set(m.refused);
        rewritten.set(m.store.rewritten());
        m.empty();
    });
    assert!(refused.get() > 0, "it was never full");
    assert!(rewritten.get() > specs.len() as u64 * 8, "no map was condensed");
}

impl Model {
    /// All can be freed, full or not, and then all can be had.
    fn empty(mut self) {
        while !self.blocks.is_empty() {
            let now = self.txg;
            self.work(200, now, 0);
            self.sync();
            let now = self.txg;
            self.work(20, now, 0);
        }
        (0..3).for_each(|_| self.sync_quietly());
        for (v, spec) in self.specs.iter().enumerate() {
            assert!(self.store.allocated(spec).iter().all(|b| !b), "vdev {v} is empty");
        }
    }

    fn sync_quietly(&mut self) {
        let now = self.txg;
        let blocks = std::mem::take(&mut self.blocks);
        for (bp, born) in blocks {
            match born == now {
                true => self.alloc.discard(&bp, now),
                false => self.alloc.free(&bp, now),
            }
        }
        self.store.sync(&self.alloc, now, |_| {});
        self.txg += 1;
    }
}

#[test]
fn one_vdev() {
    for seed in 0..4 {
        run(&[plain(0, 9, 18, 8)], seed);
    }
}

#[test]
fn several_vdevs() {
    for seed in 0..3 {
        run(&[0, 1, 2].map(|i| plain(i, 9 + 3 * (i as u8 % 2), 19, 3)), 100 + seed);
    }
}

#[test]
fn raidz_vdevs() {
    for seed in 0..3 {
        let specs = [raidz(&plain(0, 9, 19, 4), 1, 4), raidz(&plain(1, 12, 20, 4), 2, 5)];
        run(&specs, 200 + seed);
    }
}

#[test]
fn draid_rows() {
    // Rows of 7 sectors: no allocation and no metaslab but by whole rows.
    let asize = |psize: u64, _| psize.div_ceil(5 << 9) * 7 * 512;
    let spec = plain(0, 9, 19, 6);
    let spec = TopSpec { row: 7 * 512, asize: std::sync::Arc::new(asize), ..spec };
    run(&[spec], 300);
}
