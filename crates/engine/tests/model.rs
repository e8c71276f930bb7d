//! Random histories of a pool beside a plain model in memory.
//!
//! Files, snapshots, clones, rollbacks, promotion, renames, properties and volumes are changed at
//! random; what the pool holds is compared with the model while it is open and after it was closed,
//! exported, or left as a crash leaves it. A history that fails is made shorter, and the shortest
//! is printed. In one of four all datasets are encrypted.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod random;

use poolkit::{SHAPES, Shape};
use random::{Bench, Run};

const DEVICE_BYTES: u64 = 256 << 20;

fn history(seed: u64, ops: usize) {
    let shapes: Vec<Shape> = SHAPES.into_iter().chain([Shape::Draid1]).collect();
    let (round, number) = (seed as usize / shapes.len(), seed as usize % shapes.len());
    let (shape, ashift) = (shapes[number], if round.is_multiple_of(2) { 12 } else { 9 });
    // Not always the same layouts.
    let is_encrypted = (number + round) % 4 == 1;
    testkit::shrinking_seed(seed, ops, |steps| {
        let bench = Bench::new(shape, DEVICE_BYTES, ashift);
        let mut run = Run::new(seed, bench.encrypted(is_encrypted));
        for number in steps {
            run.step_of(*number);
        }
        let (bench, _) = run.finish();
        bench.zdb();
    });
}

/// Runs the histories of these seeds, as many at once as there are processors.
fn histories(seeds: std::ops::Range<u64>, ops: usize) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    std::thread::scope(|scope| {
        for first in 0..threads.min(seeds.end - seeds.start) {
            let mine = seeds.clone().skip(first as usize).step_by(threads as usize);
            scope.spawn(move || mine.for_each(|seed| history(seed, ops)));
        }
    });
}

/// Each layout twice, once with sectors of either size, and others on each of three days. The
/// longer a history is, the more an operation costs, because all that is there is compared again
/// and again; the long form has longer ones, and more.
#[test]
fn thousands_of_operations() {
    histories(testkit::range_of_today(3, 0..48), 2200);
}

/// The long form: `cargo test -p engine --test model -- --ignored`. `SEEDS=7..8` chooses.
#[test]
#[ignore = "long form: minutes"]
fn more_seeds() {
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "100..140".to_owned());
    let (first, end) = seeds.split_once("..").unwrap();
    let ops = std::env::var("OPS").map_or(20_000, |n| n.parse().unwrap());
    histories(first.parse().unwrap()..end.parse().unwrap(), ops);
}
