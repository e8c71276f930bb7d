//! The allocator: which byte of which top-level vdev is free, and what gets it.
//!
//! # Theory
//!
//! ```text
//! Allocate::allocate          lane -> piece: move a cursor
//!   piece used up             top-level vdev by rotation -> metaslab by score -> next piece
//! Allocate::free, discard     metaslab: a set of ranges, by txg
//! sync, in passes             lanes settle -> each changed metaslab appends to its space map
//! synced                      what was freed two txgs ago is free; pieces are given back
//! ```
//!
//! **Speed.** A writer takes the lane of its block's hint, or the next one that is not in use, and
//! cuts the block off a piece of 1 MiB: a handful of instructions under a lock that is free by
//! choice. Metaslab and trees are touched once per piece, by one thread in hundreds of blocks, so
//! one metaslab that all lanes share is enough to keep them busy, the blocks of a txg lie together
//! on the device, and a small txg changes few space maps. The blocks of one writer are consecutive,
//! and the device layer merges them into long writes.
//!
//! **No wait.** No lock is held over I/O. The map of a metaslab is read before it is needed
//! (after each txg for the next), or by the one writer that finds nothing else; freeing needs no
//! map at all. Opening a pool reads headers only.
//!
//! **Never twice.** Free space leaves the set of the free before it is handed out, and comes back
//! only in three ways: what was not cut; what no tree ever had ([`Allocate::discard`]); and what a
//! txg freed, when two later ones are durable, so that the last uberblocks find all they
//! point to; later still while frees are held (`held_frees.rs`).
//!
//! **Checkpoint.** What a checkpoint reaches is not freed but kept, in maps of its own, and stays
//! allocated until the checkpoint is discarded (`checkpoint.rs`).
//!
//! **Removed vdevs** have no metaslabs. A block that is freed on one is freed where it is now, and
//! recorded as obsolete in the vdev's own map (`indirect.rs`). On a vdev that is being removed both
//! happens (`evacuating.rs`).
//!
//! **No space** means: all pieces of all lanes were given back, and still no metaslab has a range
//! that is long enough, in the class asked for or in those it may fall back to.
//!
//! **Log space maps** are read when the pool is opened for writing, and their changes become
//! changes of the first txg, which writes them into the metaslabs' own maps and removes the logs.

mod checkpoint;
mod checkpointed;
mod create;
mod evacuating;
mod figures;
mod freed;
mod held_frees;
mod hold;
mod indirect;
mod lanes;
mod maps;
mod metaslab;
mod mos_writer;
mod open;
mod ranges;
mod removed;
mod rewrite;
mod separation;
mod slabs;
mod spec;
mod stored;
mod sync;
mod top;

#[cfg(test)]
mod tests;

pub use create::{MetaslabArray, init_top, metaslab_shift};
pub use figures::{ClassFigures, Figures};
pub(crate) use freed::FreeObserver;
pub(crate) use held_frees::HeldFrees;
pub(crate) use hold::Slab;
pub(crate) use indirect::MovedSpec;
pub use rewrite::SpaceMapRebuild;
pub use spec::{AsizeFn, TopSpec};
pub use sync::SpaceSync;

use self::indirect::MovedVdev;
use self::lanes::{AllocAttempt, Lane, PIECE};
use self::maps::{BUCKETS, ReadMaps};
use self::spec::Summaries;
use self::top::{AllocFailure, Top};
use ondisk::gang::GANG_HEADER_SIZE;
use ondisk::{BlkPtr, Dva};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use zio::{AllocError, AllocRequest, Allocate, SpaceClass};

type Tops = BTreeMap<u32, Arc<Top>>;

/// On a cache line of its own, so that neighbours do not slow each other down.
#[repr(align(128))]
#[derive(Default)]
struct Padded(Mutex<Lane>);

/// The allocator's settings, from the pool.
#[derive(Clone, Copy, Debug)]
pub struct AllocOptions {
    /// Threads that allocate at the same time; 0: as many as can run.
    pub threads: usize,
    /// Two-word entries may be written (feature `spacemap_v2`).
    pub two_words: bool,
    /// Space maps have histograms (feature `spacemap_histogram`).
    pub histograms: bool,
    /// Obsolete ranges of removed vdevs are recorded (feature `obsolete_counts`).
    pub obsolete: bool,
}

/// Space of a pool: implements [`Allocate`] over metaslabs and their space maps.
pub struct Allocator {
    options: AllocOptions,
    maps: Box<dyn ReadMaps>,
    /// Datasets count space deflated; pools made with version 1 or 2 do not.
    deflate: bool,
    /// Block size of new space maps in bytes.
    map_block: usize,
    tops: RwLock<Arc<Tops>>,
    /// Where the space of removed vdevs is, and of one that leaves.
    moved: RwLock<Arc<BTreeMap<u32, Arc<MovedVdev>>>>,
    /// Blocks born up to this txg are kept for a checkpoint when they are freed; 0: there is none.
    checkpoint: AtomicU64,
    /// Metaslabs remember what became free.
    notes_freed: AtomicBool,
    /// Observers of frees.
    freed: freed::FreeObservers,
    frees_held: held_frees::FreesHeld,
    /// By class.
    lanes: [Box<[Padded]>; CLASSES.len()],
    /// Objects of log space maps and of unflushed txgs, to be removed by the first sync.
    logs: Mutex<Option<stored::SpaceMapLogs>>,
    problems: Mutex<Vec<String>>,
}

/// In the order of the lanes.
const CLASSES: [SpaceClass; 4] = SpaceClass::ALL;
/// Lanes of a class, at most.
const LANES_MAX: usize = 64;
/// Problems that are remembered.
const PROBLEMS_MAX: usize = 64;

/// Where space for a class is looked for, in this order.
fn chain(class: SpaceClass) -> &'static [SpaceClass] {
    match class {
        SpaceClass::Normal => &[SpaceClass::Normal],
        SpaceClass::Log => &[SpaceClass::Log, SpaceClass::Normal],
        SpaceClass::Special => &[SpaceClass::Special, SpaceClass::Normal],
        SpaceClass::Dedup => &[SpaceClass::Dedup, SpaceClass::Special, SpaceClass::Normal],
    }
}

impl Allocator {
    fn empty(maps: Box<dyn ReadMaps>, options: AllocOptions) -> Self {
        let threads = match options.threads {
            0 => rt::threads_available(),
            n => n,
        };
        let lanes = threads.saturating_mul(2).next_power_of_two().clamp(4, LANES_MAX);
        let lanes = CLASSES.map(|_| (0..lanes).map(|_| Padded::default()).collect());
        Self {
            options,
            maps,
            deflate: true,
            map_block: mos_writer::BLOCK,
            tops: RwLock::default(),
            moved: RwLock::default(),
            checkpoint: AtomicU64::new(0),
            notes_freed: AtomicBool::new(false),
            freed: freed::FreeObservers::default(),
            frees_held: held_frees::FreesHeld::default(),
            lanes,
            logs: Mutex::new(None),
            problems: Mutex::default(),
        }
    }

    /// Adds a new top-level vdev, all of which is free.
    pub fn add_top(&self, spec: &TopSpec) {
        self.add(Top::new(spec, &Summaries::default()));
    }

    /// A vdev has become larger: the metaslabs behind those that it had are free.
    pub fn grow(&self, spec: &TopSpec) {
        if let Some(top) = self.top(spec.id) {
            top.grow(spec);
        }
    }

    fn add(&self, mut top: Top) {
        if !self.deflate {
            top.deflate_ratio = vdev::DeflateRatio::WHOLE;
        }
        let top = Arc::new(top);
        {
            let mut tops = self.tops.write();
            // In the rotation it begins where the others are.
            let pace = tops.values().map(|t| t.pace.load(std::sync::atomic::Ordering::Relaxed));
            top.pace.store(pace.min().unwrap_or(0), std::sync::atomic::Ordering::Relaxed);
            Arc::make_mut(&mut *tops).insert(top.id, Arc::clone(&top));
        }
        for lane in self.lanes_of(top.class) {
            let mut lane = lane.0.lock();
            lane.tops.retain(|t| t.id != top.id);
            lane.tops.push(Arc::clone(&top));
        }
    }

    fn tops(&self) -> Arc<Tops> {
        Arc::clone(&self.tops.read())
    }

    fn top(&self, id: u32) -> Option<Arc<Top>> {
        self.tops.read().get(&id).cloned()
    }

    fn lanes_of(&self, class: SpaceClass) -> &[Padded] {
        &self.lanes[CLASSES.iter().position(|c| *c == class).unwrap_or(0)]
    }

    fn problem(&self, text: String) {
        let mut problems = self.problems.lock();
        if problems.len() < PROBLEMS_MAX {
            problems.push(text);
        }
    }

    /// Problems with space maps and with frees: metaslabs that cannot be read are not allocated
    /// from, and space that seemed free already was left alone.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.problems.lock().clone()
    }

    /// Space in one class.
    fn try_class(&self, class: SpaceClass, want: &AllocRequest) -> Option<[Dva; 3]> {
        let problems = |text| self.problem(text);
        let mut skip = Vec::new();
        loop {
            match self.try_lanes(class, want, &skip) {
                Ok(dvas) => return Some(dvas),
                Err(AllocFailure::Full) => return None,
                // Read here, where no lock is held; what is just being written is not waited for.
                Err(AllocFailure::Unread(id, index)) => {
                    let top = self.top(id)?;
                    if !top.load(index, &*self.maps, &problems) {
                        skip.push((id, index));
                    }
                }
            }
        }
    }

    /// From the lane of the hint, or the next that is not in use.
    fn try_lanes(
        &self,
        class: SpaceClass,
        want: &AllocRequest,
        skip: &[(u32, usize)],
    ) -> Result<[Dva; 3], AllocFailure> {
        let lanes = self.lanes_of(class);
        let attempt = AllocAttempt { want, lanes: lanes.len() as u64, skip };
        // Neighbouring numbers go to different lanes.
        let first = want.hint.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = first as usize % lanes.len();
        let order = (first..lanes.len()).chain(0..first);
        for lane in order.map(|i| &lanes[i]) {
            if let Some(mut lane) = lane.0.try_lock() {
                return lane.allocate(&attempt);
            }
        }
        lanes[first].0.lock().allocate(&attempt)
    }

    /// All pieces of a class are given back, and every map is read that could have the space.
    fn reclaim(&self, class: SpaceClass, want: &AllocRequest) {
        for lane in self.lanes_of(class) {
            lane.0.lock().clear();
        }
        let problems = |text| self.problem(text);
        for top in self.tops().values().filter(|t| t.class == class) {
            let asize = top.asize(want.psize, want.txg);
            for (i, m) in top.metaslabs.iter().enumerate() {
                // The longest range in its header is a guess after frees.
                if !m.is_loaded() && m.room() >= asize {
                    top.load(i, &*self.maps, &problems);
                }
            }
        }
    }

    fn has(&self, class: SpaceClass) -> bool {
        self.tops.read().values().any(|t| t.class == class)
    }

    /// The range of a copy; `None`, and noted, when there is no such place.
    fn range(&self, dva: Dva, txg: u64) -> Option<(Arc<Top>, u64, u64)> {
        let top = self.top(dva.vdev());
        let found = top.and_then(|top| {
            // The address of a gang header counts all its members.
            let size = match dva.is_gang() {
                true => top.asize(GANG_HEADER_SIZE as u64, txg),
                false => dva.asize(),
            };
            let end = dva.offset().checked_add(size)?;
            top.metaslab(dva.offset(), end)?;
            Some((top, dva.offset(), end))
        });
        if found.is_none() {
            self.problem(format!("{dva} is in no metaslab"));
        }
        found
    }

    /// Frees a range of a vdev that exists, or keeps it for the checkpoint. False: it is free.
    fn free_range(&self, top: &Top, start: u64, end: u64, txg: u64, kept: bool) -> bool {
        if top.given_up.load(std::sync::atomic::Ordering::Relaxed) {
            return true;
        }
        match (top.metaslab(start, end), kept) {
            (None, _) => false,
            (Some(_), true) => Self::keep(top, start, end),
            (Some(m), false) => m.free(&top.room, start, end, txg),
        }
    }

    /// Marks a block as allocated in `txg` that no space map knows: one of an intent log that is
    /// kept over an import. Must come before anything is allocated.
    ///
    /// # Errors
    /// Some of the block's space is not free.
    pub fn claim(&self, bp: &BlkPtr, txg: u64) -> Result<(), String> {
        for (_, dva) in bp.dvas() {
            let problems = |text| self.problem(text);
            let done = self.range(dva, txg).is_some_and(|(top, start, end)| {
                let index = (start >> top.ms_shift) as usize;
                let loaded = top.load(index, &*self.maps, &problems);
                let m = top.metaslab(start, end);
                loaded && m.is_some_and(|m| m.claim(&top.room, start, end, txg))
            });
            if !done {
                return Err(format!("{dva} of an intent log is not free"));
            }
        }
        Ok(())
    }

    /// There is a log device that takes blocks.
    pub fn has_log_class(&self) -> bool {
        let takes = |top: &Arc<Top>| top.allocating.load(std::sync::atomic::Ordering::Relaxed);
        self.tops().values().any(|top| top.class == SpaceClass::Log && takes(top))
    }

    /// A log device failed: blocks of logs go elsewhere from now on, when it is one.
    pub fn avoid_log(&self, top: u32) {
        if let Some(top) = self.top(top).filter(|top| top.class == SpaceClass::Log) {
            top.allocating.store(false, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// A log device is missing, and no log leads to it any more: frees in `txg` everything that is
    /// allocated there, which is blocks of logs and nothing else. Frees there from now on do
    /// nothing.
    ///
    /// # Errors
    /// It is not a log device, or one of its space maps cannot be read; nothing was changed then.
    pub fn give_up_log(&self, id: u32, txg: u64) -> Result<(), String> {
        let top = self.top(id).filter(|top| top.class == SpaceClass::Log);
        let top = top.ok_or_else(|| format!("vdev {id} is not a log device"))?;
        let problems = |text| self.problem(text);
        let used = |m: &metaslab::Metaslab| m.allocated() > 0 || m.is_active();
        let used: Vec<usize> =
            top.metaslabs.iter().enumerate().filter(|(_, m)| used(m)).map(|(i, _)| i).collect();
        if !used.iter().all(|i| top.load(*i, &*self.maps, &problems)) {
            return Err(format!("a space map of log device {id} cannot be read"));
        }
        top.given_up.store(true, std::sync::atomic::Ordering::Relaxed);
        for m in used.iter().filter_map(|i| top.metaslabs.get(*i)) {
            m.free_all(&top.room, txg);
        }
        Ok(())
    }

    /// Reads ahead what the next txg will allocate from.
    fn prepare(&self) {
        let problems = |text| self.problem(text);
        for top in self.tops().values() {
            if top.allocating.load(std::sync::atomic::Ordering::Relaxed) {
                top.prepare(&*self.maps, &problems, PIECE);
            }
        }
    }
}

impl Allocate for Allocator {
    fn allocate(&self, want: &AllocRequest) -> Result<[Dva; 3], AllocError> {
        for class in chain(want.class) {
            if let Some(dvas) = self.try_class(*class, want) {
                return Ok(dvas);
            }
            if !self.has(*class) {
                continue;
            }
            // Missing space may be in the pieces of other lanes.
            self.reclaim(*class, want);
            if let Some(dvas) = self.try_class(*class, want) {
                return Ok(dvas);
            }
        }
        Err(AllocError::NoSpace)
    }

    fn discard(&self, bp: &BlkPtr, txg: u64) {
        for (_, dva) in bp.dvas() {
            if let Some((top, start, end)) = self.range(dva, txg)
                && let Some(m) = top.metaslab(start, end)
            {
                m.discard(&top.room, start, end, txg);
            }
        }
    }

    fn free(&self, bp: &BlkPtr, txg: u64) {
        self.freed.each(|observer| observer.freed(bp, txg));
        let kept = self.is_kept(bp, txg);
        for (_, dva) in bp.dvas() {
            if self.is_removed(dva.vdev()) {
                self.free_removed(dva, txg, kept);
            } else if let Some((top, start, end)) = self.range(dva, txg)
                && !self.free_range(&top, start, end, txg, kept)
            {
                self.problem(format!("{dva} was freed twice"));
            }
        }
    }
}
