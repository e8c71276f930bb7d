//! Random runs that are made shorter when they fail.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Runs that are tried to make a failing one shorter.
const SHRINKS_MAX: u32 = 500;
/// Milliseconds for that.
const SHRINK_MS: u32 = 120_000;

/// Makes `cases` runs, always the same ones, each of up to `steps_max` numbers: one for each step.
///
/// A step that takes all its choices from its number ([`Rng::new`](crate::Rng::new)) is the same
/// when others before it are left out. So a run that fails is shrunk: steps are left out as long
/// as it still fails, and the shortest run is printed.
pub fn shrinking(cases: u32, steps_max: usize, run: impl Fn(&[u64])) {
    let config = Config {
        cases,
        max_shrink_iters: SHRINKS_MAX,
        max_shrink_time: SHRINK_MS,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let steps = vec(any::<u64>().no_shrink(), 1..=steps_max);
    let test = |steps: Vec<u64>| {
        run(&steps);
        Ok(())
    };
    if let Err(e) = TestRunner::new_with_rng(config, rng).run(&steps, test) {
        panic!("{e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that fails whenever it has two even numbers is shrunk to two.
    #[test]
    fn a_failing_run_is_shrunk() {
        let run = |steps: &[u64]| {
            let even = steps.iter().filter(|n| n.is_multiple_of(2)).count();
            assert!(even < 2, "{} steps", steps.len());
        };
        let failed = std::panic::catch_unwind(|| shrinking(20, 100, run)).unwrap_err();
        let text = failed.downcast_ref::<String>().unwrap();
        assert!(text.contains("2 steps"), "{text}");
    }
}
