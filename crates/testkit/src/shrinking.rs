//! Random runs that are made shorter when they fail.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::strategy::{NewTree, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs that are tried to make a failing one shorter.
const SHRINKS_MAX: u32 = 500;
/// Milliseconds for that.
const SHRINK_MS: u32 = 600_000;
/// Steps that are printed; a longer run is known by its seed.
const PRINTED_MAX: usize = 100;

/// Makes `cases` runs, always the same ones, each of up to `steps_max` numbers: one for each step.
///
/// A step that takes all its choices from its number ([`Rng::new`](crate::Rng::new)) is the same
/// when others before it are left out. So a run that fails is shrunk: steps are left out as long
/// as it still fails, and the shortest run is printed.
pub fn shrinking(cases: u32, steps_max: usize, run: impl Fn(&[u64])) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    runs(cases, rng, 1..=steps_max, run);
}

/// Makes one run of this many steps, as [`shrinking`] does: `seed` decides which. What only a run
/// of all steps comes to is no matter of the shorter ones: compare their number with `steps`.
pub fn shrinking_seed(seed: u64, steps: usize, run: impl Fn(&[u64])) {
    runs(1, of_seed(seed), steps..=steps, run);
}

/// Makes one run of events that come from elsewhere than their number. It is given the places of
/// those it is to make, `0..events`; when it fails, places are left out as long as it still fails.
pub fn shrinking_events(events: usize, run: impl Fn(&[u64])) {
    runs_of(1, of_seed(0), &Events { events: events as u64 }, run);
}

/// The shortest part of these bytes, pieces of it left out, that `fails` is still true of.
pub fn shrunk(bytes: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut shorter = Shorter::of(bytes.to_vec());
    let mut more = shorter.next();
    for _ in 0..SHRINKS_MAX {
        if !more {
            break;
        }
        more = if fails(&shorter.current()) { shorter.simplify() } else { shorter.complicate() };
    }
    shorter.kept
}

/// As many steps, which `seed` decides, for a test that wants a run to fail, or to be the ground of
/// something else.
pub fn steps(seed: u64, steps: usize) -> Vec<u64> {
    let mut runner = TestRunner::new_with_rng(Config::default(), of_seed(seed));
    let run = Steps { length: steps..=steps }.new_tree(&mut runner);
    run.expect("numbers").current()
}

fn of_seed(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn runs(cases: u32, rng: TestRng, length: RangeInclusive<usize>, run: impl Fn(&[u64])) {
    runs_of(cases, rng, &Steps { length }, run);
}

fn runs_of(
    cases: u32,
    rng: TestRng,
    steps: &impl Strategy<Value = Vec<u64>>,
    run: impl Fn(&[u64]),
) {
    let config = Config {
        cases,
        max_shrink_iters: SHRINKS_MAX,
        max_shrink_time: SHRINK_MS,
        failure_persistence: None,
        ..Config::default()
    };
    let test = |steps: Vec<u64>| {
        run(&steps);
        Ok(())
    };
    match TestRunner::new_with_rng(config, rng).run(steps, test) {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => {
            // Once more: what a run prints when it fails is to stand last.
            let _ = catch_unwind(AssertUnwindSafe(|| run(&steps)));
            let (all, shown) = (steps.len(), &steps[..steps.len().min(PRINTED_MAX)]);
            panic!("{why}\nthe shortest run that fails has {all} steps; the first: {shown:?}");
        }
        Err(e) => panic!("{e}"),
    }
}

/// Numbers, one for each step.
#[derive(Debug)]
struct Steps {
    length: RangeInclusive<usize>,
}

impl Strategy for Steps {
    type Tree = Shorter<u64>;
    type Value = Vec<u64>;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        Ok(Shorter::of(vec(any::<u64>(), self.length.clone()).new_tree(runner)?.current()))
    }
}

/// The places of as many events.
#[derive(Debug)]
struct Events {
    events: u64,
}

impl Strategy for Events {
    type Tree = Shorter<u64>;
    type Value = Vec<u64>;

    fn new_tree(&self, _: &mut TestRunner) -> NewTree<Self> {
        Ok(Shorter::of((0..self.events).collect()))
    }
}

/// Pieces of a run are left out, from its end to its beginning: halves, then quarters, down to
/// single steps. One step at a time would never get through a run of thousands.
struct Shorter<T> {
    /// The shortest steps that failed.
    kept: Vec<T>,
    /// Those of them that are left out just now.
    without: Range<usize>,
    /// How many are left out at once.
    piece: usize,
}

impl<T> Shorter<T> {
    fn of(kept: Vec<T>) -> Self {
        let (all, piece) = (kept.len(), kept.len().div_ceil(2));
        Self { kept, without: all..all, piece }
    }

    /// Leaves out what is before the last piece; `false` when there is nothing more to try.
    fn next(&mut self) -> bool {
        if self.without.start == 0 {
            self.piece /= 2;
            self.without.start = self.kept.len();
        }
        let end = self.without.start;
        self.without = end.saturating_sub(self.piece)..end;
        !self.without.is_empty()
    }
}

impl<T: Clone + std::fmt::Debug> ValueTree for Shorter<T> {
    type Value = Vec<T>;

    fn current(&self) -> Vec<T> {
        [&self.kept[..self.without.start], &self.kept[self.without.end..]].concat()
    }

    /// It fails without them too.
    fn simplify(&mut self) -> bool {
        self.kept.drain(self.without.clone());
        self.next()
    }

    /// They are needed.
    fn complicate(&mut self) -> bool {
        self.next()
    }
}

/// Runs a random test with the seed that `ZINC_SEED` says, otherwise with the first `count` seeds.
pub fn each_seed(count: u64, run: impl FnMut(u64)) {
    let seed = std::env::var("ZINC_SEED").ok().and_then(|seed| seed.parse().ok());
    match seed {
        Some(seed) => std::iter::once(seed).for_each(run),
        None => (0..count).for_each(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn message(run: impl FnOnce()) -> String {
        let failed = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        failed.downcast_ref::<String>().unwrap().clone()
    }

    fn two_even(steps: &[u64]) {
        let even = steps.iter().filter(|n| n.is_multiple_of(2)).count();
        assert!(even < 2, "{} steps", steps.len());
    }

    /// A run that fails whenever it has two even numbers is shrunk to two.
    #[test]
    fn a_failing_run_is_shrunk() {
        let text = message(|| shrinking(20, 100, two_even));
        assert!(text.starts_with("2 steps"), "{text}");
    }

    /// So is a long one, in a few runs.
    #[test]
    fn a_long_run_is_shrunk() {
        let runs = Cell::new(0);
        let text = message(|| {
            shrinking_seed(1, 10_000, |steps| {
                runs.set(runs.get() + 1);
                two_even(steps);
            });
        });
        assert!(text.contains("has 2 steps"), "{text}");
        assert!(runs.get() < 60, "{} runs", runs.get());
    }

    /// Events keep their places.
    #[test]
    fn events_are_left_out() {
        let text = message(|| {
            shrinking_events(100, |events| {
                assert!(!(events.contains(&7) && events.contains(&50)), "both");
            });
        });
        assert!(text.ends_with("has 2 steps; the first: [7, 50]"), "{text}");
    }

    #[test]
    fn bytes_are_left_out() {
        let all: Vec<u8> = (0..=255).collect();
        let fails = |bytes: &[u8]| bytes.contains(&3) && bytes.contains(&200);
        assert_eq!(shrunk(&all, fails), [3, 200]);
        assert_eq!(shrunk(&all, |_| false), all);
    }

    /// A run that fails whatever it does needs no steps; one that never fails is made once.
    #[test]
    fn the_shortest_and_the_longest() {
        let text = message(|| shrinking_seed(1, 9, |_| panic!("always")));
        assert!(text.contains("has 0 steps"), "{text}");
        let runs = Cell::new(0);
        shrinking_seed(1, 9, |steps| runs.set(runs.get() + steps.len()));
        assert_eq!(runs.get(), 9);
    }
}
