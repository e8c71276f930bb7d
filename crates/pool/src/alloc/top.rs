//! One top-level vdev: its metaslabs, and which of them is allocated from.

use super::checkpointed::Checkpointed;
use super::maps::{ReadMaps, free_of};
use super::metaslab::Metaslab;
use super::separation::Separation;
use super::slabs::Metaslabs;
use super::spec::{Summaries, TopSpec};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use vdev::DeflateRatio;
use zio::SpaceClass;

/// Copies of a block.
pub(super) const COPIES: usize = 3;

/// Space that was taken from a metaslab.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenRange {
    pub(super) metaslab: usize,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllocFailure {
    /// There is no free range that is long enough.
    Full,
    /// The best metaslab of this vdev has not been read: that must be done without any lock.
    Unread(u32, usize),
}

/// A top-level vdev.
pub(super) struct Top {
    pub(super) id: u32,
    pub(super) class: SpaceClass,
    pub(super) ashift: u8,
    pub(super) ms_shift: u32,
    /// Object with the numbers of the space maps.
    pub(super) ms_array: u64,
    /// Its table; 0: none.
    pub(super) zap: u64,
    /// New blocks may be put here.
    pub(super) allocating: AtomicBool,
    /// All that was on it was freed at once.
    pub(super) given_up: AtomicBool,
    /// Bytes of the smallest block with its parity; every allocation is a multiple.
    pub(super) unit: u64,
    pub(super) deflate_ratio: DeflateRatio,
    pub(super) metaslabs: Metaslabs,
    /// The space kept for a checkpoint.
    pub(super) kept: Checkpointed,
    /// Bytes that can be allocated.
    pub(super) room: AtomicI64,
    /// How far it has come in the rotation: space taken, in proportion to what there was.
    pub(super) pace: AtomicU64,
    /// Room at the last sync, which the pace counts in.
    weight: AtomicU64,
    /// The metaslab of each copy.
    active: [AtomicUsize; COPIES],
    asize: super::spec::AsizeFn,
}

/// The metaslabs of a vdev from this one on, and the bytes that can be allocated in them.
fn metaslabs(spec: &TopSpec, first: u64, summaries: &Summaries) -> (Vec<Metaslab>, u64) {
    let metaslab = |i| {
        let (start, end) = spec.bounds(i);
        Metaslab::new(start, end, &summaries.of(i, end - start))
    };
    let all: Vec<Metaslab> = (first..spec.ms_count).map(metaslab).collect();
    let room = all.iter().map(Metaslab::room).sum();
    (all, room)
}

impl Top {
    pub(super) fn new(spec: &TopSpec, summaries: &Summaries) -> Self {
        let unit = (spec.asize)(1, u64::MAX).max(1 << spec.ashift);
        let (metaslabs, room) = metaslabs(spec, 0, summaries);
        Self {
            id: spec.id,
            class: spec.class,
            ashift: spec.ashift,
            ms_shift: spec.ms_shift,
            ms_array: spec.ms_array,
            zap: spec.zap,
            allocating: AtomicBool::new(spec.allocating),
            given_up: AtomicBool::new(false),
            unit,
            deflate_ratio: DeflateRatio::of(|size, birth| (spec.asize)(size, birth)),
            metaslabs: Metaslabs::new(metaslabs),
            kept: Checkpointed::default(),
            room: AtomicI64::new(room.cast_signed()),
            pace: AtomicU64::new(0),
            weight: AtomicU64::new(room.max(1)),
            active: Default::default(),
            asize: spec.asize.clone(),
        }
    }

    /// The metaslabs behind those that there are, as far as `spec` has them.
    pub(super) fn grow(&self, spec: &TopSpec) {
        let first = self.metaslabs.len() as u64;
        let (new, room) = metaslabs(spec, first, &Summaries::default());
        if !new.is_empty() && self.metaslabs.extend(new) {
            self.room.fetch_add(room.cast_signed(), Relaxed);
        }
    }

    /// Bytes on this vdev of a block of `psize` that is written in `txg`.
    pub(super) fn asize(&self, psize: u64, txg: u64) -> u64 {
        let asize = (self.asize)(psize, txg).max(self.unit);
        asize.checked_next_multiple_of(1 << self.ashift).unwrap_or(u64::MAX)
    }

    pub(super) fn room(&self) -> u64 {
        self.room.load(Relaxed).max(0).cast_unsigned()
    }

    pub(super) fn size(&self) -> u64 {
        self.metaslabs.iter().map(Metaslab::size).sum()
    }

    pub(super) fn allocated(&self) -> u64 {
        self.metaslabs.iter().map(Metaslab::allocated).sum()
    }

    /// The metaslab that has all of a range.
    pub(super) fn metaslab(&self, start: u64, end: u64) -> Option<&Metaslab> {
        let index = usize::try_from(start.checked_shr(self.ms_shift)?).ok()?;
        self.metaslabs.get(index).filter(|m| m.start <= start && start < end && end <= m.end)
    }

    /// Goes on in the rotation. A vdev twice as empty gets twice as much: all are full at once.
    pub(super) fn advance(&self, bytes: u64) {
        let step = (u128::from(bytes) << 32) / u128::from(self.weight.load(Relaxed).max(1));
        self.pace.fetch_add(u64::try_from(step).unwrap_or(u64::MAX >> 8), Relaxed);
    }

    /// After a txg: the rotation counts in what there is now.
    pub(super) fn weigh(&self) {
        self.weight.store(self.room().max(1), Relaxed);
    }

    /// Takes between `min` and `want` bytes for copy `copy`. `skip`: metaslabs that could not be
    /// read when needed.
    pub(super) fn take(
        &self,
        (min, want): (u64, u64),
        copy: usize,
        avoid: Separation<'_>,
        skip: &[(u32, usize)],
    ) -> Result<TakenRange, AllocFailure> {
        let take = |index: usize| {
            let m = self.metaslabs.get(index)?;
            let (start, end) = m.take(&self.room, (min, want), self.unit, avoid)?;
            Some(TakenRange { metaslab: index, start, end })
        };
        let active = &self.active[copy.min(COPIES - 1)];
        let current = active.load(Relaxed);
        let goes_on = |m: &Metaslab| {
            m.is_loaded() && m.longest() >= want && avoid.leaves(m.start, m.end, want)
        };
        if self.metaslabs.get(current).is_some_and(goes_on)
            && let Some(taken) = take(current)
        {
            return Ok(taken);
        }
        let skip = skip.iter().filter(|(id, _)| *id == self.id).map(|(_, i)| *i);
        let skip: Vec<usize> = skip.collect();
        for need in [want, min] {
            let mut skip = skip.clone();
            while let Some(index) = self.best(need, avoid, &skip) {
                if !self.metaslabs.get(index).is_some_and(Metaslab::is_loaded) {
                    return Err(AllocFailure::Unread(self.id, index));
                }
                if let Some(taken) = take(index) {
                    active.store(index, Relaxed);
                    return Ok(taken);
                }
                // Another thread was as fast with its last space, or it is too near.
                skip.push(index);
            }
            if min == want {
                break;
            }
        }
        Err(AllocFailure::Full)
    }

    /// The best metaslab with a free range of `need` bytes, the first of equals.
    fn best(&self, need: u64, avoid: Separation<'_>, skip: &[usize]) -> Option<usize> {
        let mut best = None;
        let mut best_score = 0;
        for (i, m) in self.metaslabs.iter().enumerate() {
            if m.longest() < need || m.score() <= best_score {
                continue;
            }
            if !skip.contains(&i) && avoid.leaves(m.start, m.end, need) {
                (best, best_score) = (Some(i), m.score());
            }
        }
        best
    }

    /// Reads the map of a metaslab. False: that is not possible, now or ever.
    pub(super) fn load(
        &self,
        index: usize,
        maps: &dyn ReadMaps,
        problems: &dyn Fn(String),
    ) -> bool {
        let Some(m) = self.metaslabs.get(index) else { return false };
        // Only a sync writes the map, and not twice at once: the second try is the last.
        for _ in 0..3 {
            if m.is_loaded() {
                return true;
            }
            let Some((object, epoch)) = m.begin_load() else { return m.is_loaded() };
            match free_of(maps, object, m.start, m.end, self.ashift) {
                Ok(free) => {
                    if m.install(&self.room, free, epoch) {
                        return true;
                    }
                }
                Err(cause) => {
                    m.set_broken(&self.room);
                    let id = self.id;
                    problems(format!("space map {object} of metaslab {index}, vdev {id}: {cause}"));
                    return false;
                }
            }
        }
        false
    }

    /// Reads the map of the metaslab that will be taken next, so that no writer waits for it.
    pub(super) fn prepare(&self, maps: &dyn ReadMaps, problems: &dyn Fn(String), want: u64) {
        let current = self.metaslabs.get(self.active[0].load(Relaxed));
        if current.is_some_and(|m| m.is_loaded() && m.longest() >= want) {
            return;
        }
        if let Some(index) = self.best(want, Separation::NONE, &[])
            && self.load(index, maps, problems)
        {
            self.active[0].store(index, Relaxed);
        }
    }
}
