//! The walk of a scan: which blocks it comes to, in which order, in which pieces.
//!
//! # Theory
//!
//! The MOS is first, then the datasets, a snapshot before what comes after it. What a dataset
//! shares with the snapshot before was visited there, so a walk is limited to what was born since.
//!
//! Datasets come and go between two pieces, and none of that may hide a block:
//!
//! - a snapshot that was taken meanwhile is a dataset that was not visited; it is found when the
//!   list of those that are left is empty and all are looked at again;
//! - what a destroyed snapshot shared with the next one is visited there, because each dataset is
//!   visited from the snapshot on that *was visited* before it: when one that is left is gone, what
//!   comes after it takes over from where it would have begun ([`take_over`]);
//! - within a dataset blocks stay at their place in the order of the walk.
//!
//! A dataset is known by its guid: its number may be another one's by now.
//!
//! **Two phases.** What the walk comes to is collected (`collected.rs`), and read when it takes
//! as much memory as it may, when it is time to write a place, or when the walk is at its end: all
//! of it, in the order of the disks, before the walk goes on. So a disk's arm crosses it once for
//! some hundred thousand blocks, and not with each file. Several batches are under way at a time,
//! on each top-level vdev, so that no disk waits while blocks are verified, or while others write.
//! Each holds the gate for itself, so a txg waits for those that are under way and for no others.
//!
//! Everything before the walk is visited when nothing is collected. So the place that is written is
//! that of the last such moment ([`Walk::settled`]): a crash, or an export in between, repeats what
//! came behind it. With `zfs_scan_legacy` blocks are read as the walk comes to them, 16 MiB at a
//! time.
//!
//! **Intent logs.** That of an encrypted dataset is replayed when its key is loaded, and until then
//! nothing but the header of the object set leads to its blocks. A walk visits them first of all of
//! a dataset, and does not collect them.
//!
//! Where a walk is can be said in OpenZFS's terms ([`Walk::place`]), and a walk can begin there
//! ([`Walk::go_on`]); `kept.rs` has what these terms are. What is left is then what the queue
//! leads to, and everything else counts as visited.

use super::PLACE_EACH;
use super::kept::{NO_OBJSET, Queue, SavedScan, restarted};
use super::rest::ScanPacing;
use crate::error::Result;
use crate::faults::{LOST_KEPT, bookmark};
use crate::live::collected::{BatchLimits, Collected, allocated};
use crate::live::log::claimed_blocks;
use crate::live::scans::{Outcome, ScanRemainder, Set, Visited, WalkedSets};
use crate::live::shared::Shared;
use crate::live::tunables::Tunable;
use crate::open::is_in_store;
use dmu::{ClearStore, Objset, Place, Step, Traversal, Visitor};
use ondisk::errlog::Zbookmark;
use ondisk::scan::{Function, ScanState};
use ondisk::{BlkPtr, DmuType, DslDataset};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vdev::{Heal, NodeRef, Txgs, VdevTree};
use zio::Mended;

/// Bytes of blocks, and their number, that are healed at once where blocks are not collected.
const BATCH_BYTES: u64 = 16 << 20;
const BATCH_BLOCKS: usize = 1024;
/// Batches of a top-level vdev that are under way beside each other, and blocks of each: some are
/// read, one is verified, some are written. A txg waits for those that are under way.
const BATCHES: usize = 4;
const COLLECTED_BATCH_BLOCKS: usize = 512;
/// Of a pool with a device in an object store they are this many times as large: what is asked for
/// together is joined there, and each request has a price.
const STORE_TIMES: usize = 8;
/// Batches under way, and bytes of all of them, at most.
const BATCHES_MAX: usize = 16;
const UNDER_WAY_MAX: u64 = 128 << 20;
/// Memory that collected blocks may take on any machine.
const COLLECTED_LEAST: u64 = 16 << 20;
/// Blocks that are collected between two looks at the clock.
const LOOKS_AFTER: usize = 1024;

/// See the head of the file.
pub(super) struct Walk<'a> {
    shared: &'a Shared,
    heal: Heal,
    /// What the leaves of a resilver missed; blocks of other births are passed over.
    missed: Option<Txgs>,
    min: u64,
    max: u64,
    left: VecDeque<Set>,
    /// Guids of datasets that were visited or are in the list.
    seen: BTreeSet<u64>,
    walked: WalkedSets,
    pub(super) outcome: Outcome,
    /// When it began, or was said on disk last.
    kept: Duration,
    /// What it came to and has not read.
    collected: Arc<Collected>,
    /// Blocks are collected, and not read as it comes to them.
    is_collecting: bool,
    /// What is collected is being read.
    is_reading: bool,
    /// Where it was when nothing was collected, if something is.
    settled: Option<Visited>,
    /// What it leaves to others.
    rests: ScanPacing,
    /// When its place was written last, if it is one: others may have it given up at any time.
    written: Option<Duration>,
}

impl<'a> Walk<'a> {
    /// How long it has gone on since its place was written.
    pub(super) fn time_since_place(&self) -> Duration {
        self.shared.rt.now().saturating_sub(self.kept)
    }

    /// Where it was was written. That `is_place`, unless it is the beginning; and everything before
    /// it is visited if it `is_settled`.
    pub(super) fn note_place_saved(&mut self, is_place: bool, is_settled: bool) {
        let now = self.shared.rt.now();
        self.written = is_place.then_some(now);
        if is_settled {
            self.kept = now;
        }
    }

    /// Its place was given up because datasets changed, some time after it was written, and is to
    /// be written again.
    pub(super) fn has_lost_place(&self) -> bool {
        let is_old = |at: Duration| self.shared.rt.now().saturating_sub(at) >= PLACE_EACH;
        self.written.is_some_and(is_old) && !self.shared.scans.has_place.load(Ordering::Acquire)
    }

    pub(super) fn new(
        shared: &'a Shared,
        state: &ScanState,
        targets: &BTreeMap<u64, Txgs>,
    ) -> Self {
        let (min, max) = (state.min_txg, state.max_txg);
        let is_resilver = state.function() == Function::Resilver;
        let heal = if is_resilver { Heal::Missed } else { Heal::All };
        let missed = is_resilver.then(|| {
            let mut all = Txgs::default();
            targets.values().for_each(|missed| all.merge(missed));
            all
        });
        let mos = Set { object: 0, guid: 0, since: min, before: 0, resume: None };
        let left = VecDeque::from([mos]);
        let (seen, mut outcome) = (BTreeSet::new(), Outcome::default());
        outcome.begin_at(state);
        let walked = WalkedSets::default();
        let kept = shared.rt.now();
        let collected = Arc::<Collected>::default();
        let is_collecting = shared.tunables.get(Tunable::ScanLegacy) == 0;
        if is_collecting {
            collected.open();
            shared.alloc.observe_frees(&collected);
        }
        Self {
            shared,
            heal,
            missed,
            min,
            max,
            left,
            seen,
            walked,
            outcome,
            kept,
            collected,
            is_collecting,
            is_reading: false,
            settled: None,
            rests: ScanPacing::default(),
            written: None,
        }
    }

    /// What is left of it, for one that goes on with it later.
    pub(super) fn into_rest(self) -> ScanRemainder {
        let Self { left, seen, walked, outcome, collected, settled, .. } = self;
        ScanRemainder { visited: Visited { left, seen, outcome }, walked, collected, settled }
    }

    /// A walk over what is left of an earlier one; of a resilver with what its leaves missed.
    pub(super) fn of_rest(
        shared: &'a Shared,
        state: &ScanState,
        targets: &BTreeMap<u64, Txgs>,
        rest: ScanRemainder,
    ) -> Self {
        let walk = Self::new(shared, state, targets);
        let ScanRemainder { visited, walked, collected, settled } = rest;
        let Visited { left, seen, outcome } = visited;
        let written = Some(walk.kept);
        let walk = Self { left, seen, walked, outcome, written, ..walk };
        match collected.is_empty() {
            true => walk,
            false => Self { collected, settled, is_reading: true, ..walk },
        }
    }

    /// What it has come to and not read.
    pub(super) fn collected(&self) -> &Arc<Collected> {
        &self.collected
    }

    /// Nothing is collected: everything before it is visited.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.is_none()
    }

    /// Notes what was found up to the place that [`Self::place`] says. What a scrub has repaired
    /// behind it is repaired, and not found again.
    pub(super) fn note_settled(&self, state: &mut ScanState) {
        self.settled.as_ref().map_or(&self.outcome, |settled| &settled.outcome).note(state);
        if self.heal == Heal::All {
            state.processed = self.outcome.processed;
        }
    }

    /// One that goes on where it was; from the beginning when that place is not there any more. The
    /// caller holds the gate.
    pub(super) fn go_on(
        shared: &'a Shared,
        kept: &SavedScan,
        targets: &BTreeMap<u64, Txgs>,
    ) -> Result<Self> {
        let ScanState { min_txg: min, bookmark, .. } = kept.state;
        let mut walk = Self::new(shared, &kept.state, targets);
        let is_again = kept.state.flags & ScanState::FLAG_VISIT_DS_AGAIN != 0;
        let resume = Some(behind(&bookmark)).filter(|_| !is_again).flatten();
        if bookmark.objset == 0 {
            walk.left.iter_mut().for_each(|mos| mos.resume = resume);
            return Ok(walk);
        }
        let root = shared.uberblock.lock().rootbp;
        let mos = Objset::open(Arc::clone(&shared.store) as _, 0, &root, None)?;
        let all = datasets(&mos);
        let current = (bookmark.objset != NO_OBJSET).then_some((
            bookmark.objset,
            kept.state.cur_min_txg,
            resume,
        ));
        let queue = kept.queue.iter().map(|(object, since)| (*object, *since, None));
        let mut left = VecDeque::new();
        for (object, since, resume) in current.into_iter().chain(queue) {
            let Some(d) = all.get(&object) else {
                walk.outcome = Outcome::default();
                walk.outcome.begin_at(&restarted(kept.state));
                return Ok(walk);
            };
            let before = all.get(&d.prev_snap).map_or(0, |before| before.guid);
            left.push_back(Set { object, guid: d.guid, since: min.max(since), before, resume });
        }
        // What they lead to is found when they are done.
        let mut after: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (object, d) in &all {
            after.entry(d.prev_snap).or_default().push(*object);
        }
        walk.seen = all.values().map(|d| d.guid).collect();
        let mut behind: Vec<u64> = left.iter().map(|set| set.object).collect();
        while let Some(object) = behind.pop() {
            for next in after.remove(&object).into_iter().flatten() {
                all.get(&next).map(|d| walk.seen.remove(&d.guid));
                behind.push(next);
            }
        }
        (walk.left, walk.written) = (left, Some(walk.kept));
        Ok(walk)
    }

    /// Where it is, as of the last durable txg, or was when everything before was visited; between
    /// two pieces.
    pub(super) fn place(&self) -> Result<(ScanState, Queue)> {
        let shared = self.shared;
        let (sets, seen) = match &self.settled {
            Some(settled) => (&settled.left, &settled.seen),
            None => (&self.left, &self.seen),
        };
        let root = shared.uberblock.lock().rootbp;
        let mos = Objset::open(Arc::clone(&shared.store) as _, 0, &root, None)?;
        let mut state = ScanState::default();
        (state.cur_min_txg, state.cur_max_txg) = (self.min, self.max);
        if let Some(mos) = sets.iter().find(|set| set.object == 0) {
            state.bookmark = mos.resume.map_or(Zbookmark::default(), |(object, blkid)| {
                Zbookmark::new(0, object, 0, blkid)
            });
            return Ok((state, Queue::new()));
        }
        let all = datasets(&mos);
        let sets = still_there(sets, &all);
        let current = sets.front().filter(|set| set.resume.is_some());
        state.bookmark = Zbookmark::new(NO_OBJSET, 0, 0, 0);
        if let Some((set, (object, blkid))) = current.and_then(|set| Some((set, set.resume?))) {
            state.bookmark = Zbookmark::new(set.object, object, 0, blkid);
            state.cur_min_txg = set.since;
            let snapshot = all.get(&set.object).filter(|d| d.is_snapshot());
            state.cur_max_txg = snapshot.map_or(self.max, |d| self.max.min(d.creation_txg));
        }
        let left: BTreeMap<u64, u64> = sets.iter().map(|set| (set.guid, set.since)).collect();
        let is_done = |d: &DslDataset| seen.contains(&d.guid) && !left.contains_key(&d.guid);
        let mut queue = Queue::new();
        for (object, d) in &all {
            let is_current = current.is_some_and(|set| set.guid == d.guid);
            let before = all.get(&d.prev_snap);
            if !is_done(d) && !is_current && before.is_none_or(is_done) {
                let birth = before.map_or(self.min, |p| self.min.max(p.creation_txg));
                queue.insert(*object, left.get(&d.guid).copied().unwrap_or(birth));
            }
        }
        Ok((state, queue))
    }

    /// Goes on for a while; whether everything was visited.
    pub(super) fn piece(&mut self) -> Result<bool> {
        if self.is_reading {
            self.read_collected();
            return Ok(false);
        }
        if self.is_collecting && self.settled.is_none() {
            let (left, seen) = (self.left.clone(), self.seen.clone());
            self.settled = Some(Visited { left, seen, outcome: self.outcome.clone() });
        }
        let is_over = self.walk_on()?;
        if self.collected.is_empty() {
            self.settled = None;
            return Ok(is_over);
        }
        let each = self.shared.tunables.get(Tunable::ScanPlaceEach);
        let is_time = self.time_since_place() >= Duration::from_secs(each);
        self.is_reading = is_over || is_time || self.has_collected_enough();
        Ok(false)
    }

    fn has_collected_enough(&self) -> bool {
        let part = self.shared.tunables.get(Tunable::ScanMemoryPart).max(1);
        let memory = (device::memory_bytes() / part).max(COLLECTED_LEAST);
        self.collected.memory_bytes() >= memory
    }

    /// Reads what is collected for a while, in the order of the disks.
    fn read_collected(&mut self) {
        match self.heal {
            Heal::All => {
                let piece = self.rests.begin(self.shared);
                self.read_for(piece);
                self.rests.rest(self.shared);
            }
            _ => self.read_for(self.shared.resilver_piece()),
        }
    }

    fn read_for(&mut self, piece: Duration) {
        let Self { shared, heal, walked, outcome, collected, .. } = self;
        let (shared, collected): (&Shared, &Collected) = (shared, collected);
        let until = shared.rt.now() + piece;
        let tops = shared.reader.vdevs().tops().count();
        let readers = tops.saturating_mul(BATCHES).clamp(BATCHES, BATCHES_MAX);
        let times = if is_in_store(&shared.reader.vdevs()) { STORE_TIMES } else { 1 };
        let leaf_bytes = shared.tunables.get(Tunable::ScanVdevLimit) / BATCHES as u64;
        let limits = BatchLimits {
            leaf_bytes: leaf_bytes * times as u64,
            bytes: UNDER_WAY_MAX / readers as u64,
            blocks: COLLECTED_BATCH_BLOCKS * times,
            batches: BATCHES,
        };
        let outcome = Mutex::new(outcome);
        // Whether there may be another batch.
        let read_one = || {
            let _gate = shared.gate.read();
            let tree = shared.reader.vdevs();
            let leaves = |vdev: u32| tree.top(vdev).map_or(1, |top| width(top.node()));
            let Some(batch) = collected.take(&limits, &leaves) else { return false };
            let mended = shared.reader.heal_many(&batch.blocks, *heal);
            let mut outcome = outcome.lock();
            note_mended(shared, walked, &mut outcome, &batch.blocks, mended);
            if let Some(now) = &mut shared.scans.state.lock().now {
                outcome.note(now);
            }
            shared.rt.now() < until
        };
        let Ok(()) = shared.rt.for_each_parallel(readers, 0..readers, |_| {
            while !shared.is_scan_interrupted() && read_one() {}
            Ok::<(), Infallible>(())
        });
        if collected.is_empty() {
            (self.is_reading, self.settled) = (false, None);
        }
    }

    /// Walks on for a while; whether the walk is at its end.
    fn walk_on(&mut self) -> Result<bool> {
        let shared = self.shared;
        let _gate = shared.gate.read();
        let uberblock = *shared.uberblock.lock();
        let store = Arc::clone(&shared.store) as _;
        let mos = Objset::open(store, 0, &uberblock.rootbp, None)?;
        let until = shared.rt.now() + shared.scan_piece();
        loop {
            let Some(mut set) = self.left.pop_front() else {
                if !self.look_for_sets(&mos) {
                    return Ok(true);
                }
                continue;
            };
            let found = dataset(&mos, set.object).filter(|d| d.guid == set.guid);
            let root = match (set.object, &found) {
                (0, _) => uberblock.rootbp,
                (_, Some(d)) => d.bp,
                (_, None) => {
                    take_over(&mut self.left, &set);
                    continue;
                }
            };
            if let Some(d) = &found {
                self.walked.note(set.object, d.guid, d.prev_snap);
                if set.resume.is_none() && !d.is_snapshot() {
                    self.heal_log(set.object, d);
                }
            }
            let batch = Batch::default();
            let mut visit = PieceVisitor { walk: self, until, batch, collected: 0, stop: None };
            let traversal = Traversal {
                store: &ClearStore(&*shared.store),
                key: None,
                objset: set.object,
                since: set.since,
                resume: set.resume,
            };
            // Where it ended is in `stop`.
            let _ = traversal.objset(&root, &mut visit);
            visit.heal();
            if let Some(stop) = visit.stop {
                set.resume = Some(stop);
                self.left.push_front(set);
                return Ok(false);
            }
        }
    }

    /// Heals the intent log of a head that waits for its key. All copies are verified, also in a
    /// resilver: such a log is of txgs that never became durable, of which no leaf says what it
    /// missed. The logs of other heads are not needed as soon as the next txg is durable.
    fn heal_log(&mut self, object: u64, dataset: &DslDataset) {
        let store = Arc::clone(&self.shared.store) as _;
        let Ok(objset) = Objset::open(store, object, &dataset.bp, None) else { return };
        for blocks in claimed_blocks(&objset).chunks(COLLECTED_BATCH_BLOCKS) {
            let mended = self.shared.reader.heal_many(blocks, Heal::All);
            note_mended(self.shared, &self.walked, &mut self.outcome, blocks, mended);
        }
    }

    /// Lists the datasets that were not visited, older ones first; whether there are any.
    fn look_for_sets(&mut self, mos: &Objset) -> bool {
        let mut found: Vec<(u64, DslDataset)> = datasets(mos).into_iter().collect();
        found.retain(|(_, d)| !self.seen.contains(&d.guid));
        found.sort_by_key(|(_, d)| (!d.is_snapshot(), d.creation_txg));
        for (object, d) in &found {
            let before = dataset(mos, d.prev_snap).filter(|p| self.seen.contains(&p.guid));
            let since = before.as_ref().map_or(self.min, |p| self.min.max(p.creation_txg));
            let before = before.map_or(0, |p| p.guid);
            self.seen.insert(d.guid);
            self.left.push_back(Set { object: *object, guid: d.guid, since, before, resume: None });
        }
        !found.is_empty()
    }
}

/// A snapshot was destroyed that was left to be visited: what comes after it begins where it would
/// have begun.
fn take_over(left: &mut VecDeque<Set>, gone: &Set) {
    for set in left.iter_mut().filter(|set| gone.guid != 0 && set.before == gone.guid) {
        (set.since, set.before, set.resume) = (gone.since, gone.before, None);
    }
}

/// Those that are left without what was destroyed.
fn still_there(left: &VecDeque<Set>, all: &BTreeMap<u64, DslDataset>) -> VecDeque<Set> {
    let mut left = left.clone();
    let mut out = VecDeque::new();
    while let Some(set) = left.pop_front() {
        match all.get(&set.object).is_some_and(|d| d.guid == set.guid) {
            true => out.push_back(set),
            false => take_over(&mut left, &set),
        }
    }
    out
}

/// All datasets and snapshots, by number. What cannot be read of the MOS was counted when it was
/// walked over.
fn datasets(mos: &Objset) -> BTreeMap<u64, DslDataset> {
    let objects = mos.objects().flatten();
    let datasets = objects.filter(|o| o.dnode().bonus_kind == DmuType::DSL_DATASET);
    let decode = |o: dmu::Object| {
        let dnode = o.dnode();
        Some((o.number(), DslDataset::decode(&dnode.bonus, dnode.endian).ok()?))
    };
    datasets.filter_map(decode).collect()
}

/// The block before the one that a place names, where a walk can be resumed; `None`: at the
/// beginning. OpenZFS has not visited the one that it names.
fn behind(place: &Zbookmark) -> Option<(u64, u64)> {
    match (place.object, place.blkid) {
        _ if place.level() != 0 => None,
        (0, _) | (1, 0) => None,
        (object, 0) => Some((object - 1, u64::MAX)),
        (object, blkid) => Some((object, blkid - 1)),
    }
}

/// What the MOS says of a dataset; `None` when there is none with this number.
pub(in crate::live) fn dataset(mos: &Objset, number: u64) -> Option<DslDataset> {
    let object = Some(number).filter(|n| *n != 0).and_then(|n| mos.object(n).ok())?;
    let dnode = object.dnode();
    let is_dataset = dnode.bonus_kind == DmuType::DSL_DATASET;
    is_dataset.then(|| DslDataset::decode(&dnode.bonus, dnode.endian).ok()).flatten()
}

/// The txgs that wrote what is read of a block: its own, and those that copied it off removed
/// vdevs.
/// The parts of a gang may have been copied in any.
fn births(tree: &VdevTree, bp: &BlkPtr) -> Txgs {
    let mut out = Txgs::default();
    let mut add = |txg: u64| out.add(txg, txg.saturating_add(1));
    add(bp.physical_birth());
    bp.dvas().flat_map(|(_, dva)| tree.written_in(dva, bp.physical_birth())).for_each(&mut add);
    if bp.is_gang() && tree.has_moved_since(0) {
        out.add(0, u64::MAX);
    }
    out
}

/// Leaves that a block of a top-level vdev is spread over; each side of a mirror has all of it.
fn width(top: NodeRef<'_>) -> usize {
    if matches!(top.kind(), "raidz" | "draid") { top.children().count() } else { 1 }
}

/// Where a block stands whose dataset was destroyed after the walk came to it: at the same place of
/// what comes after that one, for it was not freed.
fn place_now(shared: &Shared, walked: &WalkedSets, place: Place) -> Place {
    let root = shared.uberblock.lock().rootbp;
    let Ok(mos) = Objset::open(Arc::clone(&shared.store) as _, 0, &root, None) else {
        return place;
    };
    let guid = |object| dataset(&mos, object).map(|d| d.guid);
    Place { objset: walked.heir(place.objset, &guid), ..place }
}

/// Notes what became of blocks.
fn note_mended(
    shared: &Shared,
    walked: &WalkedSets,
    outcome: &mut Outcome,
    blocks: &[(BlkPtr, Place)],
    mended: Vec<Mended>,
) {
    let tree = shared.reader.vdevs();
    for ((bp, place), mended) in blocks.iter().zip(mended) {
        let birth = bp.physical_birth();
        outcome.examined += allocated(bp);
        outcome.processed += mended.repaired;
        for guid in mended.refused {
            outcome.refused.entry(guid).or_default().merge(&births(&tree, bp));
        }
        if mended.lost.is_some() {
            let place = &place_now(shared, walked, *place);
            outcome.errors += 1;
            if outcome.lost_blocks.len() < LOST_KEPT {
                outcome.lost_blocks.insert(bookmark(*place), bp.logical_birth());
            }
            shared.block_faults.report_lost_block(bookmark(*place));
            // What is below was not visited, and is not younger.
            let has_pointers = place.level != 0 || bp.dmu_type() == DmuType::DNODE;
            let first = if has_pointers { 0 } else { birth };
            outcome.lost.add(first, birth.max(bp.logical_birth()).saturating_add(1));
            outcome.lost.merge(&births(&tree, bp));
        }
    }
}

/// Blocks that are healed together.
#[derive(Default)]
struct Batch {
    blocks: Vec<(BlkPtr, Place)>,
    bytes: u64,
}

/// One piece of the walk over one dataset.
struct PieceVisitor<'w, 'a> {
    walk: &'w mut Walk<'a>,
    until: Duration,
    batch: Batch,
    /// Blocks that were collected since the clock was looked at.
    collected: usize,
    stop: Option<(u64, u64)>,
}

impl PieceVisitor<'_, '_> {
    fn is_wanted(&self, bp: &BlkPtr) -> bool {
        let tree = self.walk.shared.reader.vdevs();
        let is_missed = |missed: &Txgs| births(&tree, bp).meets(missed);
        bp.physical_birth() < self.walk.max && self.walk.missed.as_ref().is_none_or(is_missed)
    }

    /// Counts a block that is passed over; as OpenZFS does, also as examined when it is only no
    /// leaf that lacks it, and not at all when it is younger than the scan.
    fn pass_over(&mut self, bp: &BlkPtr) {
        let (walk, bytes) = (&mut *self.walk, allocated(bp));
        if bp.logical_birth() > walk.max {
            return;
        }
        let is_in_range = walk.min < bp.physical_birth() && bp.physical_birth() < walk.max;
        walk.outcome.skipped += bytes;
        walk.outcome.examined += if is_in_range { bytes } else { 0 };
    }

    fn heal(&mut self) {
        let Batch { mut blocks, .. } = std::mem::take(&mut self.batch);
        // Devices are read in their order as far as a batch reaches.
        blocks.sort_by_key(|(bp, _)| (bp.dva(0).vdev(), bp.dva(0).offset()));
        let mended = self.walk.shared.reader.heal_many(&blocks, self.walk.heal);
        let Walk { shared, walked, outcome, .. } = &mut *self.walk;
        note_mended(shared, walked, outcome, &blocks, mended);
    }

    /// Reads a block, with others, or puts it where it will be read.
    fn take(&mut self, bp: &BlkPtr, place: Place) {
        if self.walk.is_collecting {
            self.walk.collected.put(bp, place);
            self.collected += 1;
        } else {
            self.batch.blocks.push((*bp, place));
            self.batch.bytes += bp.psize() * bp.dvas().count() as u64;
        }
    }

    /// Whether this may be the end of the piece, because enough was done since that was asked last.
    fn is_due(&mut self) -> bool {
        let Batch { bytes, blocks } = &self.batch;
        if *bytes >= BATCH_BYTES || blocks.len() >= BATCH_BLOCKS {
            self.heal();
            return true;
        }
        self.collected >= LOOKS_AFTER
    }

    /// Whether the piece is over.
    fn is_over(&mut self) -> bool {
        self.collected = 0;
        self.walk.shared.rt.now() >= self.until || self.walk.has_collected_enough()
    }
}

impl Visitor for PieceVisitor<'_, '_> {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        match bp.is_hole() || bp.is_embedded() || bp.is_redacted() {
            true => {}
            false if self.is_wanted(bp) => self.take(bp, place),
            false => self.pass_over(bp),
        }
        let is_due = self.is_due();
        // A walk goes on at a block with nothing below it.
        let is_end = place.level == 0 && place.object != 0;
        if is_end && (self.walk.shared.is_scan_interrupted() || is_due && self.is_over()) {
            self.stop = Some((place.object, place.blkid));
            return Step::Stop;
        }
        Step::Descend
    }

    fn leave(&mut self, _: &BlkPtr, _: Place) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn lost(&mut self, _: Place, _: dmu::Error) {
        // The block itself was visited and is counted.
    }
}
