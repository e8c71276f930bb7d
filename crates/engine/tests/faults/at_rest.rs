//! Bytes that rot on the devices: each damaged copy is found by the next scrub, counted once, and
//! made whole; beyond the redundancy exactly the files are named whose blocks are lost.
//!
//! Where a block lies on the leaves is computed here, from the address alone, as OpenZFS lays it
//! out: on a mirror at the same place of each side, in raidz sector by sector from leaf to leaf.
//! Where dRAID has it is not computed here (`changes.rs` has its damage while it is in use).

use super::*;
use engine::inside::device::{Device as _, WriteDevice as _};
use engine::inside::dmu::{self, Place, Step, Visitor};
use engine::inside::ondisk::BlkPtr;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::{FailMode, StoredPropertyValue};
use std::collections::{BTreeMap, BTreeSet};

/// Where the part of a leaf begins that blocks lie in.
pub(super) const BLOCKS_AT: u64 = 4 << 20;
pub(super) const SECTOR: u64 = 4096;

/// Layouts whose blocks can be lost: also those that can do without no leaf.
const LOSING: [Shape; 9] = [
    Shape::Mirror,
    Shape::Mirror3,
    Shape::Raidz1,
    Shape::Raidz2,
    Shape::Raidz3,
    Shape::MirrorAndLogs,
    Shape::Raidz1AndLogs,
    Shape::Disks3,
    Shape::Special,
];

/// A block of a dataset that is on disk.
#[derive(Clone, Debug)]
pub(super) struct Block {
    object: u64,
    level: i8,
    vdev: usize,
    /// In sectors of the vdev.
    pub(super) at: u64,
    /// Sectors of its data.
    pub(super) sectors: u64,
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
            self.0.push(Block { object, level, vdev: dva.vdev() as usize, at, sectors });
        }
        Step::Descend
    }

    fn lost(&mut self, place: Place, error: dmu::Error) {
        panic!("{place:?}: {error}");
    }
}

/// Blocks of the pool's heads with one copy: their data. Those that another dataset shares come
/// once.
pub(super) fn data_blocks(view: &Pool) -> Vec<Block> {
    let dsl = view.dsl();
    let mut all = Blocks::default();
    for (name, _) in dsl.walk() {
        let Ok(dataset) = dsl.by_name(&name) else { continue };
        let Ok(objset) = dsl.objset(&dataset) else { continue };
        assert!(objset.traverse(0, &mut all).is_continue());
    }
    let mut seen = BTreeSet::new();
    let is_data = |b: &Block| b.level == 0 && b.object != 0;
    all.0.into_iter().filter(is_data).filter(|b| seen.insert((b.vdev, b.at))).collect()
}

/// The leaf and the place of each sector of a block that something depends on: data and parity.
pub(super) fn sectors(bench: &Bench, block: &Block) -> Vec<(usize, u64)> {
    let leaves = bench.data_leaves() as u64;
    let parity = match bench.shape {
        Shape::Raidz1 | Shape::Raidz1AndLogs => 1,
        Shape::Raidz2 => 2,
        Shape::Raidz3 => 3,
        shape => {
            let sides = match shape {
                Shape::Disks3 => block.vdev..block.vdev + 1,
                // Two disks, and behind them a mirror.
                Shape::Special if block.vdev < 2 => block.vdev..block.vdev + 1,
                Shape::Special => 2..4,
                _ => 0..leaves as usize,
            };
            let each = |n: u64| sides.clone().map(move |leaf| (leaf, n));
            return (block.at..block.at + block.sectors).flat_map(each).collect();
        }
    };
    let rows = block.sectors.div_ceil(leaves - parity);
    let all = block.at..block.at + block.sectors + rows * parity;
    all.map(|n| ((n % leaves) as usize, n / leaves)).collect()
}

pub(super) fn rot(bench: &Bench, leaf: usize, sector: u64) {
    let at = BLOCKS_AT + sector * SECTOR;
    let mut bytes = [0; 64];
    bench.devices[leaf].read(at, &mut bytes).unwrap();
    bytes.iter_mut().for_each(|b| *b ^= 0x5a);
    bench.devices[leaf].write(at, &bytes).unwrap();
}

/// A pool with data, which is imported again so that nothing is in memory.
fn filled(steps: &RandomSteps, shape: Shape) -> Run {
    filled_on(steps, Bench::new(shape, DEVICE_BYTES, 12))
}

fn filled_on(steps: &RandomSteps, bench: Bench) -> Run {
    let shape = bench.shape;
    let mut run = Run::new(steps.seed(), bench).following(steps);
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
    scenarios((110..).zip(LOSING), |steps, shape| {
        let run = filled(steps, shape);
        let want = lose_some(&run, steps.seed());
        names_exactly(run.pool(), &want, &format!("{shape:?}"));
        drop(run.abandon());
    });
}

/// Every copy of some blocks rots; the objects that they are of.
fn lose_some(run: &Run, seed: u64) -> BTreeSet<u64> {
    let mut rng = Rng::new(seed);
    let blocks = data_blocks(run.pool().view());
    let mut want = BTreeSet::new();
    for block in blocks.iter().filter(|_| rng.below(6) == 0) {
        let all = sectors(&run.bench, block);
        let leaves: BTreeSet<_> = all.iter().map(|(leaf, _)| *leaf).collect();
        assert!(leaves.len() > run.bench.redundancy(), "{block:?} on {leaves:?}");
        all.into_iter().for_each(|(leaf, sector)| rot(&run.bench, leaf, sector));
        want.insert(block.object);
    }
    assert!(!want.is_empty());
    want
}

/// A scrub finds that something is lost of these objects and of no others.
fn names_exactly(pool: &LivePool, want: &BTreeSet<u64>, case: &str) {
    pool.scrub().unwrap();
    pool.wait_for_scan().unwrap();
    let done = pool.view().scan_state().unwrap().unwrap();
    assert!(done.state() == State::Finished && done.errors > 0, "{case}");
    // Datasets that share a lost block have lost it too, and a clone has the numbers of its
    // origin: files are told by their numbers.
    let log = pool.look().unwrap().error_log().unwrap();
    let named: BTreeSet<u64> = log.objects().into_iter().map(|o| o.object).collect();
    assert_eq!(named, *want, "{case}");
}

/// One leaf more goes than the pool can do without, and what is there rots meanwhile: the pool is
/// suspended, goes on when they are back, and names exactly the files that lost something.
#[test]
fn a_pool_that_was_suspended_names_exactly_what_is_lost() {
    scenarios((110..).zip(LOSING), |steps, shape| {
        Rt::simulate(steps.seed(), |rt| {
            let case = format!("{shape:?}");
            let (bench, leaves) = bench(rt, steps.seed(), shape);
            let run = filled_on(steps, bench);
            let pool = run.pool();
            pool.sync().unwrap();
            pool.outlast_failures().unwrap();
            pool.set_fail_mode(FailMode::Continue);
            let now = leaves.lock().clone();
            let gone = run.bench.redundancy() + 1;
            now[..gone].iter().for_each(|leaf| leaf.get_into(LeafFault::IsGone, 1));
            let comment = StoredPropertyValue::Text("written".to_owned());
            pool.set_pool_property("comment", comment).unwrap_err();
            assert!(pool.is_waiting(), "{case}");
            let refused = pool.sync().unwrap_err().to_string();
            assert!(refused.contains("is suspended"), "{case}: {refused}");
            let want = lose_some(&run, steps.seed());
            assert!(now.iter().map(|leaf| leaf.mend()).sum::<u64>() > 0, "{case}");
            rt.sleep(Duration::from_secs(1));
            assert!(pool.resume(&run.bench.source()).unwrap(), "{case}");
            pool.forget_errors(None).unwrap();
            for guid in pool.leaves_away() {
                pool.online_leaf(guid, OwnChanges::Keep, None, &run.bench.source()).unwrap();
            }
            pool.wait_for_scan().unwrap();
            names_exactly(pool, &want, &case);
            drop(run.abandon());
        });
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
        let state = |pool: &LivePool| pool.look().unwrap().error_scrub_state().unwrap().unwrap();
        assert_eq!((state(pool).state(), state(pool).paused), (State::ErrorScrubbing, 0));
        // One that was interrupted is paused like one that runs, and stays so.
        pool.pause_error_scrub().unwrap();
        assert!(pool.pause_error_scrub().unwrap_err().to_string().contains("already paused"));
        assert_eq!((state(pool).state(), state(pool).paused), (State::ErrorScrubbing, 1));
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
        // It counts down what is to be examined, as OpenZFS does.
        assert_eq!((done.state(), done.errors, done.to_examine), (State::Finished, left, 0));
        assert_eq!(done.examined, before as u64, "{shape:?}");
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
