//! The engine's computations, as the model of a simulated machine's processors counts them
//! ([`rt::CpuModel`]): the kinds of work, and the table of their costs.
//!
//! Code that computes reports it where it may wait ([`Work::charge`]). Outside a simulation with a
//! model that does nothing.

use ondisk::{Checksum, Compression};
use rt::{CpuCost, CpuModel};

/// Kinds of compression and of checksums that have a cost of their own.
const NUMBERS: usize = 32;
/// Kinds of work beside these.
const OTHERS: usize = 5;

/// Something that takes a processor's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Bytes of an application copied into blocks.
    Copy,
    /// All that is done for a block besides the rest: space, pointer, memory, queues.
    Prepare,
    /// Summing.
    Checksum(Checksum),
    /// Compressing, counted in bytes before.
    Compress(Compression),
    /// Work of an application of its own.
    Application,
    /// What is done for a block that is written under locks that all writers of a pool pass: the
    /// txg's, the object's, that of what is dirty.
    Enter,
    /// What is done for a block under locks that all threads of a sync pass: those of space, of
    /// what is in flight, and of blocks that are written.
    Place,
}

impl Work {
    fn index(self) -> usize {
        match self {
            Self::Copy => 0,
            Self::Prepare => 1,
            Self::Application => 2,
            Self::Enter => 3,
            Self::Place => 4,
            Self::Checksum(kind) => OTHERS + usize::from(kind.0) % NUMBERS,
            Self::Compress(kind) => OTHERS + NUMBERS + usize::from(kind.0) % NUMBERS,
        }
    }

    /// Says that the calling thread does this with this many bytes: a wait, in a simulation whose
    /// processors are modelled.
    #[track_caller]
    pub fn charge(self, bytes: u64) {
        rt::charge(self.index(), bytes);
    }
}

/// A model of processors, by kind of work.
#[derive(Clone, Debug)]
pub struct Processors {
    /// How many there are.
    pub count: usize,
    /// Percent of time more for each other processor that is busy.
    pub contention_percent: u32,
    /// Percent of time more for each thread that waits for a processor.
    pub crowding_percent: u32,
    /// The costs of work; work that is not listed costs nothing.
    pub costs: Vec<(Work, CpuCost)>,
}

impl Processors {
    /// The model as the runtime takes it ([`rt::Rt::set_cpu`]).
    #[must_use]
    pub fn model(&self) -> CpuModel {
        let mut costs = vec![CpuCost::default(); OTHERS + 2 * NUMBERS];
        for (work, cost) in &self.costs {
            if let Some(slot) = costs.get_mut(work.index()) {
                *slot = *cost;
            }
        }
        CpuModel {
            processors: self.count,
            costs,
            contention_percent: self.contention_percent,
            crowding_percent: self.crowding_percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_work_has_a_cost_of_its_own() {
        let checksums = (0..15).map(|n| Work::Checksum(Checksum(n)));
        let compressions = (0..17).map(|n| Work::Compress(Compression(n)));
        let all = [Work::Copy, Work::Prepare, Work::Application, Work::Enter, Work::Place];
        let all = all.into_iter();
        let mut seen: Vec<_> = all.chain(checksums).chain(compressions).map(Work::index).collect();
        let n = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), n);
        assert!(seen.last().is_some_and(|last| *last < OTHERS + 2 * NUMBERS));
    }
}
