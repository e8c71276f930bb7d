//! Bytes that rot on the devices: each damaged copy is found by the next scrub, counted once, and
//! made whole; beyond the redundancy exactly the files are named whose blocks are lost.
//!
//! Where a block lies on the leaves is computed here, from the address alone, as OpenZFS lays it
//! out: on a mirror at the same place of each side, in raidz sector by sector from leaf to leaf.

use super::*;
use engine::inside::device::{Device as _, WriteDevice as _};
use engine::inside::dmu::{self, Place, Step, Visitor};
use engine::inside::ondisk::BlkPtr;
use std::collections::{BTreeMap, BTreeSet};

/// Where the part of a leaf begins that blocks lie in.
const BLOCKS_AT: u64 = 4 << 20;
const SECTOR: u64 = 4096;

/// A block of a dataset that is on disk.
#[derive(Clone, Debug)]
struct Block {
    object: u64,
    level: i8,
    /// In sectors of the vdev.
    at: u64,
    /// Sectors of its data.
    sectors: u64,
}

#[derive(Default)]
struct Blocks(Vec<Block>);

impl Visitor for Blocks {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        let is_single = !bp.is_hole() && !bp.is_embedded() && bp.dva(1).is_empty();
        if is_single && !bp.is_gang() {
            let dva = bp.dva(0);
            let (object, level) = (place.object, place.level);
            let (at, sectors) = (dva.offset() / SECTOR, bp.psize().div_ceil(SECTOR));
            self.0.push(Block { object, level, at, sectors });
        }
        Step::Descend
    }

    fn lost(&mut self, place: Place, error: dmu::Error) {
        panic!("{place:?}: {error}");
    }
}

/// Blocks of the pool's heads with one copy: their data. Those that another dataset shares come
/// once.
fn data_blocks(view: &Pool) -> Vec<Block> {
    let dsl = view.dsl();
    let mut all = Blocks::default();
    for (name, _) in dsl.walk() {
        let Ok(dataset) = dsl.by_name(&name) else { continue };
        let Ok(objset) = dsl.objset(&dataset) else { continue };
        assert!(objset.traverse(0, &mut all).is_continue());
    }
    let mut seen = BTreeSet::new();
    let is_data = |b: &Block| b.level == 0 && b.object != 0;
    all.0.into_iter().filter(is_data).filter(|b| seen.insert(b.at)).collect()
}

/// The leaf and the place of each sector of a block that something depends on: data and parity.
fn sectors(bench: &Bench, block: &Block) -> Vec<(usize, u64)> {
    let leaves = bench.data_leaves() as u64;
    let parity = match bench.shape {
        Shape::Raidz1 | Shape::Raidz1AndLogs => 1,
        Shape::Raidz2 => 2,
        Shape::Raidz3 => 3,
        _ => {
            let each = |n: u64| (0..leaves).map(move |leaf| (leaf as usize, n));
            return (block.at..block.at + block.sectors).flat_map(each).collect();
        }
    };
    let rows = block.sectors.div_ceil(leaves - parity);
    let all = block.at..block.at + block.sectors + rows * parity;
    all.map(|n| ((n % leaves) as usize, n / leaves)).collect()
}

fn rot(bench: &Bench, leaf: usize, sector: u64) {
    let at = BLOCKS_AT + sector * SECTOR;
    let mut bytes = [0; 64];
    bench.devices[leaf].read(at, &mut bytes).unwrap();
    bytes.iter_mut().for_each(|b| *b ^= 0x5a);
    bench.devices[leaf].write(at, &bytes).unwrap();
}

/// A pool with data, which is imported again so that nothing is in memory.
fn filled(steps: &RandomSteps, shape: Shape) -> Run {
    let mut run = Run::new(steps.seed(), Bench::new(shape, DEVICE_BYTES, 12)).following(steps);
    run.weight_max = 2 << 20;
    run.offset_max = 8 << 20;
    for _ in 0..30 {
        (0..100).for_each(|_| run.step());
        run.without(Vec::new());
        if data_blocks(run.pool().view()).len() > 80 {
            return run;
        }
    }
    panic!("{shape:?}: hardly anything was written")
}

fn checksum_errors(pool: &LivePool) -> Vec<u64> {
    pool.view().vdevs().leaves().map(|l| l.checksum_errors()).collect()
}

/// Every damaged copy is found and counted once, at its leaf, and nothing else.
#[test]
fn each_copy_that_rots_is_found_and_counted_once() {
    scenarios((50..).zip(SHAPES), |steps, shape| {
        let run = filled(steps, shape);
        let mut rng = Rng::new(steps.seed());
        let blocks = data_blocks(run.pool().view());
        let mut want: BTreeMap<usize, u64> = BTreeMap::new();
        for block in &blocks {
            // Where a block lies is up to the threads that write, and so is how many are hit.
            if rng.below(3) == 0 {
                continue;
            }
            let guilty: Vec<_> = victims(&run.bench, &mut rng);
            let mut hit = BTreeSet::new();
            for (leaf, sector) in sectors(&run.bench, block) {
                if guilty.contains(&leaf) && hit.insert(leaf) {
                    rot(&run.bench, leaf, sector);
                }
            }
            hit.into_iter().for_each(|leaf| *want.entry(leaf).or_default() += 1);
        }
        let all = run.bench.devices.len();
        let want: Vec<u64> = (0..all).map(|n| want.get(&n).copied().unwrap_or(0)).collect();
        assert!(want.iter().sum::<u64>() > 20, "{shape:?}: {want:?}");
        assert!(scrub(run.pool(), "the first") > 0);
        assert_eq!(checksum_errors(run.pool()), want, "{shape:?}");
        run.pool().forget_errors(None).unwrap();
        assert_eq!(scrub(run.pool(), "the second"), 0, "{shape:?}");
        assert!(run.pool().view().error_log().unwrap().blocks.is_empty());
        let (bench, model) = run.finish();
        bench.check(&bench.open()).unwrap();
        Run::compare(&bench, &model).unwrap();
    });
}

/// More copies of some blocks rot than there may: the error log names their files and no other.
#[test]
fn beyond_the_redundancy_exactly_what_is_lost_is_named() {
    scenarios((70..).zip(SHAPES), |steps, shape| {
        let run = filled(steps, shape);
        let mut rng = Rng::new(steps.seed());
        let blocks = data_blocks(run.pool().view());
        let mut want = BTreeSet::new();
        for block in blocks.iter().filter(|_| rng.below(6) == 0) {
            let all = sectors(&run.bench, block);
            let leaves: BTreeSet<_> = all.iter().map(|(leaf, _)| *leaf).collect();
            assert!(leaves.len() > run.bench.redundancy(), "{shape:?}: {block:?} on {leaves:?}");
            all.into_iter().for_each(|(leaf, sector)| rot(&run.bench, leaf, sector));
            want.insert(block.object);
        }
        assert!(!want.is_empty(), "{shape:?}");
        run.pool().scrub().unwrap();
        run.pool().wait_for_scan().unwrap();
        let done = run.pool().view().scan_state().unwrap().unwrap();
        assert!(done.state() == State::Finished && done.errors > 0);
        // Datasets that share a lost block have lost it too, and a clone has the numbers of its
        // origin: files are told by their numbers.
        let log = run.pool().view().error_log().unwrap();
        let named: BTreeSet<u64> = log.objects().into_iter().map(|o| o.object).collect();
        assert_eq!(named, want, "{shape:?}");
        drop(run.abandon());
    });
}

/// An error scrub looks at what is in the error log alone: what is lost stays, and what can be had
/// again is made whole and leaves the log.
#[test]
fn what_is_in_the_error_log_is_looked_at_again() {
    scenarios((90..).zip([Shape::Mirror, Shape::Raidz1, Shape::Raidz2]), |steps, shape| {
        let run = filled(steps, shape);
        let (pool, bench) = (run.pool(), &run.bench);
        let blocks: Vec<_> = data_blocks(pool.view()).into_iter().step_by(7).take(5).collect();
        let places = |block: &Block| sectors(bench, block);
        blocks.iter().flat_map(places).for_each(|(leaf, sector)| rot(bench, leaf, sector));
        pool.scrub().unwrap();
        pool.wait_for_scan().unwrap();
        let logged = |pool: &LivePool| pool.look().unwrap().error_log().unwrap().blocks.len();
        let before = logged(pool);
        assert!(before >= blocks.len(), "{shape:?}: {before}");
        assert_eq!(pool.error_scrub(&|| true).unwrap(), before as u64, "{shape:?}");
        assert_eq!(logged(pool), before, "{shape:?}");
        assert!(pool.error_scrub(&|| false).unwrap_err().to_string().contains("cancelled"));
        // All but one leaf have the blocks of the first ones again.
        for block in blocks.iter().take(3) {
            let places = sectors(bench, block);
            let first = places[0].0;
            let others = places.iter().filter(|(leaf, _)| *leaf != first);
            others.for_each(|(leaf, sector)| rot(bench, *leaf, *sector));
        }
        let left = pool.error_scrub(&|| true).unwrap();
        assert!(left > 0 && left < before as u64, "{shape:?}: {left} of {before}");
        assert_eq!(logged(pool) as u64, left, "{shape:?}");
        let done = pool.look().unwrap().error_scrub_state().unwrap().unwrap();
        assert_eq!(
            (done.state(), done.errors, done.to_examine),
            (State::Finished, left, before as u64)
        );
        for block in blocks.iter().skip(3) {
            sectors(bench, block).iter().for_each(|(leaf, sector)| rot(bench, *leaf, *sector));
        }
        assert_eq!(pool.error_scrub(&|| true).unwrap(), 0, "{shape:?}");
        assert_eq!(logged(pool), 0, "{shape:?}");
        pool.forget_errors(None).unwrap();
        assert_eq!(scrub(pool, "after it"), 0, "{shape:?}: what could be had was made whole");
        let (bench, model) = run.finish();
        bench.check(&bench.open()).unwrap();
        Run::compare(&bench, &model).unwrap();
        bench.zdb();
    });
}
