//! Scenarios: a test does things in an order of its own, and random steps between them. A scenario
//! that fails is tried with fewer of those steps.

use crate::{Rng, shrinking_events};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

/// The random steps of a scenario, each a number that decides all that the step chooses
/// ([`Rng::new`]), whatever came before it. A clone goes on where the other is.
#[derive(Clone, Debug)]
pub struct RandomSteps {
    seed: u64,
    /// The places of the steps that are made; `None`: all are.
    kept: Option<Arc<[u64]>>,
    /// The place of the next step.
    next: Arc<AtomicU64>,
}

impl RandomSteps {
    /// All that this seed decides.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, kept: None, next: Arc::default() }
    }

    fn some(seed: u64, kept: &[u64]) -> Self {
        Self { kept: Some(kept.into()), ..Self::new(seed) }
    }

    /// The seed, for what else is random.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of the next step; `None` when it is left out.
    #[must_use]
    pub fn draw(&self) -> Option<u64> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let is_kept = self.kept.as_ref().is_none_or(|kept| kept.binary_search(&place).is_ok());
        let seeds = Rng::new(self.seed).next_u64();
        is_kept.then(|| Rng::new(seeds.wrapping_add(place)).next_u64())
    }
}

std::thread_local! {
    /// Where this thread panicked last.
    static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on each thread notes where it panics.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            PANICKED_AT.set(panic.location().map(ToString::to_string).unwrap_or_default());
            before(panic);
        }));
    });
}

/// Runs a scenario whose random steps `seed` decides. When it fails, steps are left out as long as
/// it still fails in the same line, and the shortest run is printed. What only a run of all steps
/// comes to fails elsewhere then, and does not count.
pub fn scenario(seed: u64, run: impl Fn(&RandomSteps)) {
    note_panics();
    let all = RandomSteps::new(seed);
    let Err(failed) = catch_unwind(AssertUnwindSafe(|| run(&all))) else { return };
    let line = PANICKED_AT.take();
    shrinking_events(all.next.load(Ordering::Relaxed) as usize, |kept| {
        let steps = RandomSteps::some(seed, kept);
        let again = catch_unwind(AssertUnwindSafe(|| run(&steps)));
        if let Err(again) = again
            && PANICKED_AT.take() == line
        {
            resume_unwind(again);
        }
    });
    // It did not fail a second time: threads, or the machine, decide as well.
    resume_unwind(failed);
}

/// A scenario for each of these seeds, and what comes with it.
pub fn scenarios<T: Clone>(all: impl IntoIterator<Item = (u64, T)>, run: impl Fn(&RandomSteps, T)) {
    for (seed, of) in all {
        scenario(seed, |steps| run(steps, of.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(run: impl FnOnce()) -> String {
        let failed = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        failed.downcast_ref::<String>().unwrap().clone()
    }

    /// Fails with two even numbers among its steps, and elsewhere with fewer than ten steps.
    fn two_even(steps: &RandomSteps) {
        let numbers: Vec<u64> = (0..100).filter_map(|_| steps.draw()).collect();
        let even = numbers.iter().filter(|n| n.is_multiple_of(2)).count();
        assert!(even < 2, "{even} are even");
        assert!(numbers.len() >= 10, "too few steps");
    }

    #[test]
    fn a_scenario_is_shrunk_as_long_as_it_fails_in_the_same_line() {
        let text = message(|| scenario(1, two_even));
        assert!(text.starts_with("2 are even") && text.contains("has 2 steps"), "{text}");
    }

    /// A step is the same with fewer before it, and with another clone.
    #[test]
    fn a_step_is_known_by_its_place() {
        let all = RandomSteps::new(5);
        let other = all.clone();
        let numbers = [all.draw(), all.draw(), other.draw(), all.draw()];
        let some = RandomSteps::some(5, &[1, 3]);
        let kept: Vec<_> = (0..4).map(|_| some.draw()).collect();
        assert_eq!(kept, [None, numbers[1], None, numbers[3]]);
        assert_ne!(numbers[0], numbers[1]);
        assert_ne!(RandomSteps::new(6).draw(), numbers[0]);
    }

    /// What fails once is a failure, though it cannot be shrunk.
    #[test]
    fn a_scenario_that_fails_once_fails() {
        let runs = std::cell::Cell::new(0);
        let text = message(|| {
            scenario(1, |_| {
                runs.set(runs.get() + 1);
                assert!(runs.get() > 1, "run {}", runs.get());
            });
        });
        assert_eq!(text, "run 1");
    }
}
