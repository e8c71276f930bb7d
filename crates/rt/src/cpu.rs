//! The cost of computing in a simulation, where it would otherwise take no time.
//!
//! A [`CpuModel`] is a number of processors and a table of costs. Code that works for long reports
//! it ([`crate::charge`]): one of the processors is then taken for the time of the table, and when
//! all are taken, the work waits for the first that is free, in the order it came. Kinds of work
//! are indexes into the table; their meaning is known above this floor.
//!
//! Two things make work slower than the table says, because they do on real machines: processors
//! that are busy at the same time share the memory (`contention`), and threads that wait for a
//! processor cost the thread that runs its cache (`crowding`).
//!
//! Some work is done under a lock that all threads share ([`CpuCost::alone`]). The locks of a
//! simulated program are never contended, because no thread is interrupted where it holds one
//! (`sim.rs`); so the time under such a lock is charged behind it, as work that one thread does at
//! a time. The others wait for it in the order they came, and each keeps its processor meanwhile.

use core::time::Duration;

/// The cost of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// Each time.
    pub each: Duration,
    /// Bytes that are done in a second; 0 for bytes that cost nothing.
    pub bytes_per_second: u64,
    /// One thread at a time does work of this kind, under a lock: the others wait.
    pub alone: bool,
}

impl CpuCost {
    /// Work that costs by its bytes alone.
    #[must_use]
    pub const fn rate(bytes_per_second: u64) -> Self {
        Self { each: Duration::ZERO, bytes_per_second, alone: false }
    }

    /// Work under a lock that takes this long each time.
    #[must_use]
    pub const fn under_lock(each: Duration) -> Self {
        Self { each, bytes_per_second: 0, alone: true }
    }

    /// The time for `bytes` on a quiet machine.
    #[must_use]
    pub fn time(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000;
        let nanos = nanos.checked_div(u128::from(self.bytes_per_second)).unwrap_or(0);
        self.each.saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

/// The processors of a simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuModel {
    /// How many there are; at least 1.
    pub processors: usize,
    /// Costs by kind of work; what is not in the table costs nothing.
    pub costs: Vec<CpuCost>,
    /// Percent of time more for each other processor that is busy when work begins.
    pub contention_percent: u32,
    /// Percent of time more for each thread that waits for a processor when work begins.
    pub crowding_percent: u32,
}

impl CpuModel {
    /// Whether any work takes time.
    pub(crate) fn charges(&self) -> bool {
        self.costs.iter().any(|cost| *cost != CpuCost::default())
    }
}

/// The processors while they run.
#[derive(Debug)]
pub(crate) struct Processors {
    model: CpuModel,
    /// When each is free.
    free: Vec<Duration>,
    /// When the lock of each kind of work is free, of kinds that have one.
    unlocked: Vec<Duration>,
    /// When works begin that wait.
    begins: Vec<Duration>,
    busy: Duration,
}

impl Processors {
    pub(crate) fn new(model: CpuModel) -> Self {
        let free = vec![Duration::ZERO; model.processors.max(1)];
        let unlocked = vec![Duration::ZERO; model.costs.len()];
        Self { model, free, unlocked, begins: Vec::new(), busy: Duration::ZERO }
    }

    pub(crate) fn count(&self) -> usize {
        self.free.len()
    }

    /// Time that all processors together were busy, or are going to be.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// Takes a processor for some work, and says for how long the work is not done.
    pub(crate) fn occupy(&mut self, now: Duration, kind: usize, bytes: u64) -> Duration {
        let Some(work) = self.model.costs.get(kind) else { return Duration::ZERO };
        let (cost, alone) = (work.time(bytes), work.alone);
        if cost.is_zero() {
            return Duration::ZERO;
        }
        self.begins.retain(|begin| *begin > now);
        let others = self.free.iter().filter(|free| **free > now).count();
        let others = others.min(self.free.len() - 1) as u32;
        let waiting = u32::try_from(self.begins.len()).unwrap_or(u32::MAX);
        let percent = self.model.contention_percent.saturating_mul(others);
        let percent = percent.saturating_add(self.model.crowding_percent.saturating_mul(waiting));
        let cost = cost.saturating_mul(percent.saturating_add(100)) / 100;
        let Some(first) = self.free.iter_mut().min() else { return cost };
        let taken = now.max(*first);
        let mut begin = taken;
        if let Some(unlocked) = self.unlocked.get_mut(kind).filter(|_| alone) {
            begin = begin.max(*unlocked);
            *unlocked = begin + cost;
        }
        *first = begin + cost;
        self.busy += *first - taken;
        if begin > now {
            self.begins.push(begin);
        }
        begin + cost - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn two(contention_percent: u32, crowding_percent: u32) -> Processors {
        let each = CpuCost { each: MS, ..CpuCost::rate(1_000_000) };
        let costs = vec![CpuCost::default(), each, CpuCost::under_lock(MS)];
        let model = CpuModel { processors: 2, costs, contention_percent, crowding_percent };
        Processors::new(model)
    }

    #[test]
    fn work_waits_for_a_free_processor() {
        let mut p = two(0, 0);
        assert_eq!(p.occupy(MS, 0, 5), Duration::ZERO);
        assert_eq!(p.occupy(MS, 9, 5), Duration::ZERO);
        // One millisecond, and one for a thousand bytes.
        assert_eq!(p.occupy(MS, 1, 1000), MS * 2);
        assert_eq!(p.occupy(MS, 1, 1000), MS * 2);
        assert_eq!(p.occupy(MS, 1, 0), MS * 3);
        assert_eq!(p.busy(), MS * 5);
    }

    #[test]
    fn work_under_a_lock_is_done_by_one_at_a_time() {
        let mut p = two(0, 0);
        assert_eq!(p.occupy(MS, 2, 0), MS);
        // The other processor is free, the lock is not.
        assert_eq!(p.occupy(MS, 2, 0), MS * 2);
        // It is kept by the thread that waits.
        assert_eq!(p.occupy(MS, 1, 0), MS * 2);
        assert_eq!(p.busy(), MS * 4);
        // Without a lock both would have done it at once.
        let mut p = two(0, 0);
        assert_eq!((p.occupy(MS, 1, 0), p.occupy(MS, 1, 0)), (MS, MS));
        assert_eq!(p.busy(), MS * 2);
    }

    #[test]
    fn company_and_crowds_cost_time() {
        let mut p = two(50, 10);
        assert_eq!(p.occupy(MS, 1, 0), MS);
        assert_eq!(p.occupy(MS, 1, 0), MS * 3 / 2);
        // Waits a millisecond, and takes half as long again.
        assert_eq!(p.occupy(MS, 1, 0), MS * 5 / 2);
        // Waits behind the second, and one more waits.
        assert_eq!(p.occupy(MS, 1, 0), MS * 3 / 2 + MS * 16 / 10);
        assert_eq!(p.occupy(MS * 100, 1, 0), MS);
    }
}
