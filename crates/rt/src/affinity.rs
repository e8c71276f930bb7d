//! One processor for all threads of a simulation.
//!
//! Only one of them runs at a time, and most run for microseconds. To wake a thread on another
//! processor, which may be asleep, takes several times as long as to go on with it on the same: a
//! simulation whose threads the system spreads over the machine takes twice to five times as long.

use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::collections::BTreeMap;

/// How many simulations of this process there are on each processor.
static TAKEN: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// The calling thread, and those it starts, stay on one processor until this is dropped, by the
/// same thread.
pub(crate) struct OneProcessor {
    before: CpuSet,
    cpu: usize,
}

impl OneProcessor {
    /// The processor with the fewest simulations, of those the thread may use; `None` where the
    /// system does not want that, and then nothing has changed.
    pub(crate) fn keep() -> Option<Self> {
        // Called now, because the answer is kept, and it would be 1 later.
        let _ = crate::threads_available();
        let before = sched_getaffinity(None).ok()?;
        let here = sched_getcpu();
        let mut taken = TAKEN.lock();
        let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| before.is_set(*cpu));
        let load = |cpu: &usize| (taken.get(cpu).copied().unwrap_or(0), *cpu != here);
        let cpu = allowed.min_by_key(load)?;
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).ok()?;
        *taken.entry(cpu).or_default() += 1;
        Some(Self { before, cpu })
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        if let Some(count) = TAKEN.lock().get_mut(&self.cpu) {
            *count = count.saturating_sub(1);
        }
        // Should it fail, the thread only stays where it is.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> u32 {
        sched_getaffinity(None).expect("a set").count()
    }

    #[test]
    fn a_simulation_stays_on_one_processor_and_gives_it_back() {
        let before = allowed();
        let inside = crate::Rt::simulate(1, |rt| {
            let task = rt.spawn("inside", allowed).expect("thread");
            (allowed(), task.join().expect("ends"))
        });
        assert_eq!((inside, allowed()), ((1, 1), before));
        // One that was not left in order, too.
        let panicked =
            std::panic::catch_unwind(|| crate::Rt::simulate(1, |_| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(allowed(), before);
    }
}
