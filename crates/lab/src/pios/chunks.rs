//! Which thread writes which chunk, without a lock: a cursor that goes round the regions, and for
//! each region the place up to which it is handed out. Both only grow, by compare and swap.

use super::plan::Plan;
use engine::inside::rt::{Rng, Xoshiro256};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A piece of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) region: u64,
    /// First byte, in the region.
    pub(crate) at: u64,
    pub(crate) len: usize,
}

/// The regions of a run, while they are handed out.
pub(crate) struct ChunkCursor<'a> {
    plan: &'a Plan,
    cursor: AtomicU64,
    /// Bytes handed out of each region.
    taken: Vec<AtomicU64>,
    /// Bytes that are not handed out.
    left: AtomicU64,
}

impl<'a> ChunkCursor<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let taken = (0..plan.regions).map(|_| AtomicU64::new(0)).collect();
        Self { plan, cursor: AtomicU64::new(0), taken, left: AtomicU64::new(plan.total()) }
    }

    /// The next chunk; `None` when all are handed out.
    pub(crate) fn next(&self, rng: &mut Xoshiro256) -> Option<Chunk> {
        if self.left.load(Relaxed) == 0 {
            return None;
        }
        let mut first = self.cursor.fetch_add(1, Relaxed);
        if self.plan.region_noise > 0 {
            first = first.wrapping_add(rng.below(self.plan.region_noise + 1));
        }
        let wanted = match self.plan.chunk_noise {
            0 => self.plan.chunk_size,
            n => self.plan.chunk_size - n + rng.below(2 * n + 1),
        };
        // Regions that are done are passed over.
        for step in 0..self.plan.regions {
            let region = first.wrapping_add(step) % self.plan.regions;
            let Some(taken) = self.taken.get(region as usize) else { break };
            let more = |at: u64| (at < self.plan.region_size).then(|| self.end(at, wanted));
            if let Ok(at) = taken.fetch_update(Relaxed, Relaxed, more) {
                let len = self.end(at, wanted) - at;
                self.left.fetch_sub(len, Relaxed);
                return Some(Chunk { region, at, len: len as usize });
            }
        }
        None
    }

    fn end(&self, at: u64, wanted: u64) -> u64 {
        at.saturating_add(wanted.max(1)).min(self.plan.region_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// Every byte of every region is handed out once.
    fn covers(plan: &Plan, threads: usize) -> Vec<Chunk> {
        let chunks = ChunkCursor::new(plan);
        let all = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for n in 0..threads as u64 {
                let (chunks, all) = (&chunks, &all);
                scope.spawn(move || {
                    let mut rng = Xoshiro256::seeded(n);
                    while let Some(chunk) = chunks.next(&mut rng) {
                        all.lock().expect("lock").push(chunk);
                    }
                });
            }
        });
        let all = all.into_inner().expect("lock");
        let mut regions: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for c in &all {
            regions.entry(c.region).or_default().push((c.at, c.at + c.len as u64));
        }
        assert_eq!(regions.len() as u64, plan.regions);
        for ranges in regions.values_mut() {
            ranges.sort_unstable();
            let mut end = 0;
            for (from, to) in ranges {
                assert_eq!(*from, end);
                end = *to;
            }
            assert_eq!(end, plan.region_size);
        }
        all
    }

    #[test]
    fn regions_are_dealt_in_turn_and_to_their_last_byte() {
        let plan = Plan::new(1, 3, 25, 10);
        let order: Vec<_> = covers(&plan, 1).iter().map(|c| (c.region, c.at, c.len)).collect();
        assert_eq!(order[..4], [(0, 0, 10), (1, 0, 10), (2, 0, 10), (0, 10, 10)]);
        // The rest of a region, which is not a whole chunk, is written too.
        assert_eq!(order[6..], [(0, 20, 5), (1, 20, 5), (2, 20, 5)]);
    }

    #[test]
    fn noise_and_many_threads_leave_nothing_out() {
        let plan = Plan { chunk_noise: 9, region_noise: 4, ..Plan::new(4, 7, 12_345, 10) };
        let chunks = covers(&plan, 4);
        assert!(chunks.iter().any(|c| c.len > 10) && chunks.iter().any(|c| c.len < 10));
    }
}
