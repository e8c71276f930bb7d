//! Leaves get into trouble, up to what the pool can do without, in simulated time: nothing is lost,
//! what was damaged is found, and no leaf is blamed that did nothing wrong.
//!
//! Each seed is a run of its own: a layout, random operations, and rounds of trouble. The short
//! form runs a half of [`SEEDS`]; `scripts/campaign faults` runs as many as it is told. A failure
//! names its seed: `ZINC_SEED=N cargo test -p engine --test faults`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "faults/at_rest.rs"]
mod at_rest;
#[path = "faults/changes.rs"]
mod changes;
#[path = "faults/hanging.rs"]
mod hanging;
#[path = "faults/leaf.rs"]
mod leaf;
mod random;
#[path = "faults/repairs.rs"]
mod repairs;

use engine::inside::ondisk::scan::State;
use engine::inside::rt::Rt;
use engine::live::OwnChanges;
use engine::{LivePool, Pool};
use leaf::{Leaf, LeafFault};
use parking_lot::Mutex;
use poolkit::Shape;
use random::{Bench, Model, Run};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use testkit::{RandomSteps, Rng, scenario, scenarios};

const DEVICE_BYTES: u64 = 64 << 20;

/// Seeds of the short form, half of them a day: each layout and each trouble comes several times.
const SEEDS: std::ops::Range<u64> = 1..29;

/// Seeds that found something. 1026 and 1038: a bit was wrong behind the end of a block, in the
/// rest of its last sector, which has no checksum, and raidz blamed the leaf with the parity. 1013:
/// a leaf that lost all its labels is replaced by itself. 42105: a leaf that did not take one block
/// and is used all the same was never brought it. When they did, one stream of random numbers
/// decided a run, so they are run in that way, and are not made shorter.
const FOUND: [u64; 4] = [1013, 1026, 1038, 42_105];

/// Rounds of trouble in a run.
const ROUNDS: usize = 4;

const SHAPES: [Shape; 7] = [
    Shape::Mirror,
    Shape::Mirror3,
    Shape::Raidz1,
    Shape::Raidz2,
    Shape::Raidz3,
    Shape::MirrorAndLogs,
    Shape::Raidz1AndLogs,
];

type Leaves = Arc<Mutex<Vec<Arc<Leaf>>>>;

/// A bench whose devices can get into trouble; the leaves that stand in front of them now.
fn bench(rt: &Rt, seed: u64, shape: Shape) -> (Bench, Leaves) {
    let leaves = Leaves::default();
    let (all, rt) = (Arc::clone(&leaves), rt.clone());
    let wrap = move |n: usize, device: &Arc<_>| {
        let leaf = Leaf::new(&rt, device, seed ^ n as u64);
        let mut all = all.lock();
        all.truncate(n);
        all.push(Arc::clone(&leaf));
        leaf as _
    };
    (Bench::new(shape, DEVICE_BYTES, 12).behind(Box::new(wrap)), leaves)
}

/// Leaves that the pool can do without at the same time.
fn victims(bench: &Bench, rng: &mut Rng) -> Vec<usize> {
    let data = bench.data_leaves();
    let mut out: Vec<usize> = Vec::new();
    while out.len() < bench.redundancy() {
        let n = rng.below(data as u64) as usize;
        if !out.contains(&n) {
            out.push(n);
        }
    }
    // Not always as many as can be.
    out.truncate(1 + rng.below(out.len() as u64) as usize);
    let logs = bench.devices.len() - data;
    if logs > 0 && rng.below(2) == 0 {
        out.push(data + rng.below(logs as u64) as usize);
    }
    out
}

/// Errors of each leaf.
fn errors(pool: &LivePool) -> Vec<u64> {
    let tree = pool.view().vdevs();
    let of = |l: engine::inside::vdev::NodeRef<'_>| {
        l.read_errors() + l.write_errors() + l.checksum_errors()
    };
    tree.leaves().map(of).collect()
}

/// Leaves that did nothing wrong are not blamed.
fn blame(pool: &LivePool, guilty: &[usize], case: &str) {
    for (n, errors) in errors(pool).into_iter().enumerate() {
        assert!(errors == 0 || guilty.contains(&n), "{case}: leaf {n} has {errors} errors");
    }
}

/// A scrub that comes to its end; what it repaired, in bytes.
fn scrub(pool: &LivePool, case: &str) -> u64 {
    pool.scrub().unwrap();
    pool.wait_for_scan().unwrap();
    let done = pool.view().scan_state().unwrap().unwrap();
    assert_eq!((done.state(), done.errors), (State::Finished, 0), "{case}");
    done.processed
}

/// Everything works again: leaves are brought back, have what they missed, and a scrub makes whole
/// what else is wrong.
fn heal(run: &Run, guilty: &[usize], case: &str) {
    let pool = run.pool();
    for guid in pool.leaves_away() {
        let n = pool.view().vdevs().leaves().position(|l| l.guid() == guid).unwrap();
        let back = pool.online_leaf(guid, OwnChanges::GiveUp, None, &run.bench.source());
        let back = match back {
            // All four were torn: it takes its own place as any other device would.
            Err(e) if e.to_string().contains("has no label") => {
                pool.replace(guid, &run.bench.leaf(n), run.bench.write_ref(n))
            }
            back => back,
        };
        back.unwrap_or_else(|e| panic!("{case}: leaf {n}: {e}"));
        pool.wait_for_scan().unwrap_or_else(|e| panic!("{case}: leaf {n}: {e}"));
    }
    pool.wait_for_scan().unwrap_or_else(|e| panic!("{case}: {e}"));
    blame(pool, guilty, case);
    scrub(pool, case);
    blame(pool, guilty, case);
    let missed: Vec<_> = pool.view().vdevs().leaves().map(|l| l.missed()).collect();
    assert!(missed.iter().all(|m| m.is_empty()), "{case}: {missed:?}");
    pool.forget_errors(None).unwrap();
    let left = scrub(pool, case);
    assert_eq!(left, 0, "{case}: the first scrub left something");
    assert!(errors(pool).iter().all(|n| *n == 0), "{case}: {:?}", errors(pool));
}

/// Damage is expected while nothing has been healed.
fn any(_: &Bench, view: &Pool) -> Result<(), String> {
    match view.salvage().first() {
        Some(lost) => Err(format!("{}: {}", lost.what, lost.cause)),
        None => Ok(()),
    }
}

/// What troubles were met by how many requests, and how often the process was killed.
#[derive(Default)]
struct Tally {
    hits: u64,
    crashes: u64,
}

fn round(run: &mut Run, leaves: &Leaves, rng: &mut Rng, case: &str, tally: &mut Tally) {
    let rt = Rt::current();
    let victims = victims(&run.bench, rng);
    let mut troubles = Vec::new();
    for n in &victims {
        let trouble = *rng.pick(&LeafFault::ALL);
        let odds = [1, 2, 10, 50][rng.below(4) as usize];
        troubles.push((*n, trouble, odds));
    }
    let case = format!("{case} {troubles:?}");
    let now = leaves.lock().clone();
    for (n, trouble, odds) in &troubles {
        now[*n].get_into(*trouble, *odds);
        if *trouble == LeafFault::Hangs {
            let leaf = Arc::clone(&now[*n]);
            // Before its deadline, or long after it.
            let most = [10_000, 600_000][rng.below(2) as usize];
            let held = Duration::from_millis(100 + rng.below(most));
            rt.after(held, move || {
                leaf.mend();
            });
        }
    }
    for _ in 0..20 + rng.below(30) {
        run.step();
        if rng.below(10) == 0 {
            rt.sleep(Duration::from_millis(rng.below(3000)));
        }
    }
    let crashes = rng.below(3) == 0;
    if !crashes {
        run.pool().sync().unwrap_or_else(|e| panic!("{case}: {e}"));
    }
    tally.hits += now.iter().map(|leaf| leaf.mend()).sum::<u64>();
    // What was given up comes back.
    rt.sleep(Duration::from_secs(1));
    if crashes {
        tally.crashes += 1;
        run.crash(any);
    }
    // One that hangs is blamed when it hangs for too long.
    let guilty: Vec<_> =
        troubles.iter().filter(|t| t.1 != LeafFault::IsSlow).map(|t| t.0).collect();
    heal(run, &guilty, &case);
}

/// A run of a seed: of these steps, or of one stream of random numbers.
fn campaign(seed: u64, steps: Option<&RandomSteps>) -> (Bench, Model, Tally) {
    let shape = SHAPES[(seed % SHAPES.len() as u64) as usize];
    Rt::simulate(seed, |rt| {
        let (bench, leaves) = bench(rt, seed, shape);
        let mut rng = Rng::new(seed);
        let mut run = Run::new(seed, bench);
        if let Some(steps) = steps {
            run = run.following(steps);
        }
        run.weight_max = 1 << 20;
        run.offset_max = 8 << 20;
        (0..30).for_each(|_| run.step());
        // Every other pool is held, as a server's is; crashes take that away.
        if seed.is_multiple_of(2) {
            run.pool().outlast_failures().unwrap();
        }
        let mut tally = Tally::default();
        for n in 0..ROUNDS {
            let case = format!("seed {seed}, {shape:?}, round {n}:");
            round(&mut run, &leaves, &mut rng, &case, &mut tally);
        }
        let (bench, model) = run.finish();
        (bench, model, tally)
    })
}

/// Runs a seed, and judges what it left; with OpenZFS too where that is wanted.
fn judge(seed: u64, steps: Option<&RandomSteps>, zdb: bool) -> Tally {
    let (bench, model, tally) = campaign(seed, steps);
    bench.check(&bench.open()).unwrap_or_else(|e| panic!("ZINC_SEED={seed}: {e}"));
    Run::compare(&bench, &model).unwrap_or_else(|e| panic!("ZINC_SEED={seed}: {e}"));
    if zdb {
        bench.zdb();
    }
    tally
}

/// The same for a scenario, which is made shorter when it fails.
fn judge_steps(seed: u64, zdb: bool) -> Tally {
    let total = Cell::new(Tally::default());
    scenario(seed, |steps| total.set(judge(seed, Some(steps), zdb)));
    total.into_inner()
}

#[test]
fn nothing_is_lost_within_the_redundancy() {
    let only = std::env::var("ZINC_SEED").ok().map(|n| n.parse().unwrap());
    let seeds = only.map_or_else(|| testkit::range_of_today(2, SEEDS).collect(), |n: u64| vec![n]);
    let mut all = Tally::default();
    for seed in seeds {
        let tally = judge_steps(seed, seed % 8 == 0 || only.is_some());
        all.hits += tally.hits;
        all.crashes += tally.crashes;
    }
    assert!(all.hits > 0 || only.is_some());
    assert!(all.crashes > 0 || only.is_some());
}

#[test]
fn what_was_found_once_is_not_there_again() {
    for seed in FOUND {
        judge(seed, None, false);
    }
}

/// As many seeds as `ZINC_SEEDS` says, from `ZINC_SEED` on; all that fail are named at the end.
#[test]
#[ignore = "long form: scripts/campaign faults"]
fn nothing_is_lost_in_many_seeds() {
    let number = |name, default| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let (first, count) = (number("ZINC_SEED", 1000), number("ZINC_SEEDS", 100));
    let fails = |seed: &u64| {
        std::panic::catch_unwind(|| judge_steps(*seed, seed.is_multiple_of(8))).is_err()
    };
    let failed: Vec<u64> = (first..first + count).filter(fails).collect();
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
}
