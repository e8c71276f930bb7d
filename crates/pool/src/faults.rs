//! Faults met while reading: those that redundancy repaired, and blocks that it could not, kept for
//! callers.

use core::fmt;
use dmu::FaultSink;
use ondisk::BlkPtr;
use ondisk::errlog::Zbookmark;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use vdev::{Fault, FaultKind};
use zio::Place;

/// Faults kept in full; later ones are only counted, so that a rotten disk cannot fill memory.
pub const FAULTS_KEPT: usize = 10_000;

/// Blocks that are lost, each with the txg of its logical birth.
pub(crate) type LostBlocks = BTreeMap<Zbookmark, u64>;

/// Lost blocks that are kept: more of them say nothing new of a pool.
pub(crate) const LOST_KEPT: usize = 100_000;

/// Lost blocks that are kept until events report them: if there are more at once, the error log has
/// them.
const UNTOLD_KEPT: usize = 64;

/// The name of a block in an error log.
pub(crate) fn bookmark(place: Place) -> Zbookmark {
    let blkid = match place.blkid {
        Place::BLKID_SPILL => Zbookmark::SPILL_BLKID,
        n => n,
    };
    Zbookmark::new(place.objset, place.object, i64::from(place.level), blkid)
}

/// Blocks with bad copies that are kept until they are repaired. Only where everything is rotten
/// do readers meet more than are repaired meanwhile.
const BAD_KEPT: usize = 1024;

/// A block of which a reader met bad copies, and had the contents from others.
#[derive(Clone, Debug)]
pub(crate) struct BadBlock {
    pub(crate) bp: BlkPtr,
    pub(crate) place: Place,
    /// What was met and counted: guid of the device, and offset there.
    pub(crate) met: Vec<(u64, u64)>,
}

/// Blocks with bad copies, by vdev and offset of their first addresses.
type BadBlocks = BTreeMap<(u32, u64), BadBlock>;

/// What became of blocks with bad copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadRepairs {
    /// Blocks that were looked at again and are as they should be on all devices that can be
    /// written to.
    pub blocks: u64,
    /// Bytes that were written to devices for that.
    pub bytes: u64,
    /// Blocks that a device did not take, or that could not be had again.
    pub refused: u64,
    /// Blocks that were left as they are: they were freed meanwhile, are part of no durable tree,
    /// or there were too many at once.
    pub passed_over: u64,
}

/// Bad copies that readers met. Nothing is done about them in a pool that is open for reading.
struct BadCopies {
    /// `None`: they are not kept, and nothing is repaired.
    blocks: Mutex<Option<BadBlocks>>,
    done: Mutex<ReadRepairs>,
    /// Called when there is one.
    notify: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Default for BadCopies {
    fn default() -> Self {
        let blocks = Mutex::new(Some(BadBlocks::new()));
        Self { blocks, done: Mutex::default(), notify: OnceLock::new() }
    }
}

impl fmt::Debug for BadCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BadCopies").field("done", &self.done).finish_non_exhaustive()
    }
}

/// The right bytes can be written to where this is: the device is there, and was wrong. One that
/// became shorter is another matter.
fn is_mendable(fault: &Fault) -> bool {
    match &fault.kind {
        FaultKind::Checksum | FaultKind::ParityMismatch => true,
        FaultKind::Io(e) => {
            matches!(e.kind, device::ErrorKind::Io { .. }) && !e.kind.is_of_process()
        }
        _ => false,
    }
}

/// One block that was read in spite of faults.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The block.
    pub place: Place,
    /// The faults, each with device and offset.
    pub faults: Vec<Fault>,
}

/// Collects the faults of an open pool.
#[derive(Debug, Default)]
pub struct FaultLog {
    kept: Mutex<ReadInSpite>,
    lost: Mutex<Lost>,
    bad: BadCopies,
}

/// Blocks that were read in spite of faults.
#[derive(Debug, Default)]
struct ReadInSpite {
    /// How often that was.
    count: u64,
    /// How often each of those was that are kept, and its faults.
    blocks: BTreeMap<Place, (u64, Vec<Fault>)>,
}

/// Blocks that readers did not get.
#[derive(Debug, Default)]
struct Lost {
    /// Not in the error log of the pool yet.
    new: LostBlocks,
    /// There since the last scrub began.
    logged: LostBlocks,
    /// No event has told of them yet.
    untold: Vec<Zbookmark>,
}

impl FaultLog {
    /// Blocks that were read in spite of faults, so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.kept.lock().count
    }

    /// Starts again: the administrator has seen them.
    pub(crate) fn forget(&self) {
        *self.kept.lock() = ReadInSpite::default();
        *self.bad.done.lock() = ReadRepairs::default();
    }

    /// Forgets what devices did wrong that are not among these, by guid: they have left the pool.
    pub(crate) fn forget_all_but(&self, devices: &BTreeSet<u64>) {
        let mut kept = self.kept.lock();
        let mut gone = 0;
        kept.blocks.retain(|_, (times, faults)| {
            faults.retain(|fault| devices.contains(&fault.guid));
            gone += if faults.is_empty() { *times } else { 0 };
            !faults.is_empty()
        });
        // Those that are not kept are of the same devices, as far as is known.
        kept.count = if kept.blocks.is_empty() { 0 } else { kept.count.saturating_sub(gone) };
    }

    /// The kept ones, in order of place.
    #[must_use]
    pub fn repaired(&self) -> Vec<Repaired> {
        let kept = self.kept.lock();
        let repaired = kept.blocks.iter();
        repaired.map(|(p, (_, f))| Repaired { place: *p, faults: f.clone() }).collect()
    }

    /// Blocks with bad copies are not kept any more.
    pub(crate) fn forget_bad(&self) {
        *self.bad.blocks.lock() = None;
    }

    /// Calls this when there is a block with bad copies; the first that is set stays. It must be
    /// short: a reader makes the call.
    pub(crate) fn on_bad(&self, notify: Box<dyn Fn() + Send + Sync>) {
        let _ = self.bad.notify.set(notify);
    }

    /// There are blocks with bad copies.
    pub(crate) fn has_bad(&self) -> bool {
        self.bad.blocks.lock().as_ref().is_some_and(|blocks| !blocks.is_empty())
    }

    /// Takes some blocks with bad copies, no more than `count`, of about `bytes`.
    pub(crate) fn take_bad(&self, count: usize, bytes: u64) -> Vec<BadBlock> {
        let mut blocks = self.bad.blocks.lock();
        let (mut out, mut sum) = (Vec::new(), 0_u64);
        while out.len() < count
            && sum < bytes
            && let Some((_, block)) = blocks.as_mut().and_then(BTreeMap::pop_first)
        {
            let copies = block.bp.dvas().count() as u64;
            sum = sum.saturating_add(block.bp.psize().saturating_mul(copies));
            out.push(block);
        }
        out
    }

    /// Notes what became of blocks with bad copies.
    pub(crate) fn note_repairs(&self, new: ReadRepairs) {
        let mut done = self.bad.done.lock();
        done.blocks += new.blocks;
        done.bytes += new.bytes;
        done.refused += new.refused;
        done.passed_over += new.passed_over;
    }

    /// What became of blocks of which readers met bad copies, since the administrator has seen
    /// them.
    #[must_use]
    pub fn read_repairs(&self) -> ReadRepairs {
        *self.bad.done.lock()
    }

    fn keep_if_bad(&self, place: Place, bp: &BlkPtr, faults: &[Fault]) {
        // The blocks of intent logs are in no tree, and gone after some txgs.
        if place.level == Place::LEVEL_ZIL || !faults.iter().any(is_mendable) {
            return;
        }
        let met = faults.iter().map(|fault| (fault.guid, fault.offset)).collect();
        let block = BadBlock { bp: *bp, place, met };
        let first = bp.dva(0);
        let is_full = {
            let mut blocks = self.bad.blocks.lock();
            let Some(blocks) = &mut *blocks else { return };
            let is_full = blocks.len() >= BAD_KEPT;
            if !is_full {
                blocks.entry((first.vdev(), first.offset())).or_insert(block);
            }
            is_full
        };
        if is_full {
            self.note_repairs(ReadRepairs { passed_over: 1, ..Default::default() });
        }
        if let Some(notify) = self.bad.notify.get() {
            notify();
        }
    }

    /// There are blocks that [`Self::take_lost`] would return.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.lock().new.is_empty()
    }

    /// Blocks that were not had since this was called last, once each. The caller logs them.
    pub(crate) fn take_lost(&self) -> LostBlocks {
        let mut lost = self.lost.lock();
        let new = std::mem::take(&mut lost.new);
        let room = LOST_KEPT.saturating_sub(lost.logged.len());
        lost.logged.extend(new.iter().take(room).map(|(block, birth)| (*block, *birth)));
        new
    }

    /// Records a lost block, for an event.
    pub(crate) fn report_lost_block(&self, block: Zbookmark) {
        let untold = &mut self.lost.lock().untold;
        if untold.len() < UNTOLD_KEPT && !untold.contains(&block) {
            untold.push(block);
        }
    }

    /// Lost blocks that were not reported by events since the last call.
    pub(crate) fn take_untold(&self) -> Vec<Zbookmark> {
        std::mem::take(&mut self.lost.lock().untold)
    }

    /// A scrub begins, which looks at everything again.
    pub(crate) fn begin_scrub(&self) {
        self.lost.lock().logged.clear();
    }

    /// These can be had again: when they cannot once more, that is new.
    pub(crate) fn are_found(&self, blocks: &BTreeSet<Zbookmark>) {
        let mut lost = self.lost.lock();
        lost.logged.retain(|block, _| !blocks.contains(block));
    }

    /// A block cannot be had.
    pub(crate) fn note_lost(&self, place: Place, bp: &BlkPtr) {
        let mut lost = self.lost.lock();
        let block = bookmark(place);
        let is_new = !lost.logged.contains_key(&block) && lost.new.len() < LOST_KEPT;
        if is_new && lost.new.insert(block, bp.logical_birth()).is_none() {
            drop(lost);
            self.report_lost_block(block);
        }
    }

    /// Blocks that were not had since the last scrub began.
    pub(crate) fn lost_since_scrub(&self) -> LostBlocks {
        let lost = self.lost.lock();
        lost.logged.iter().chain(&lost.new).map(|(block, birth)| (*block, *birth)).collect()
    }
}

impl FaultSink for FaultLog {
    fn repaired(&self, place: Place, bp: &BlkPtr, faults: &[Fault]) {
        // The power may have failed while a block of a log was on some of the devices only.
        let is_fault =
            |f: &&Fault| place.level != Place::LEVEL_ZIL || matches!(f.kind, FaultKind::Io(_));
        let faults: Vec<Fault> = faults.iter().filter(is_fault).cloned().collect();
        if faults.is_empty() {
            return;
        }
        self.keep_if_bad(place, bp, &faults);
        let mut kept = self.kept.lock();
        kept.count += 1;
        let is_full = kept.blocks.len() >= FAULTS_KEPT;
        match kept.blocks.get_mut(&place) {
            Some((times, before)) => (*times, *before) = (*times + 1, faults),
            None if is_full => {}
            None => _ = kept.blocks.insert(place, (1, faults)),
        }
    }

    fn lost(&self, place: Place, bp: &BlkPtr) {
        // Every chain of log blocks ends with one that cannot be read. Those of a log that was
        // claimed before are looked at before it is replayed (`live/log/claimed.rs`).
        if place.level != Place::LEVEL_ZIL {
            self.note_lost(place, bp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::Dva;
    use std::sync::Arc;

    fn block(n: u64) -> (Place, BlkPtr) {
        let place = Place { objset: 5, object: 7, level: 0, blkid: n };
        (place, BlkPtr::HOLE.with_dva(0, Dva::new(0, n << 12, 4096, false)))
    }

    fn fault(kind: FaultKind) -> Fault {
        let (vdev, guid, path) = (0, 11, Arc::from("disk"));
        Fault { vdev, guid, path, offset: 512, len: 4096, kind, repaired: true }
    }

    fn error(kind: device::ErrorKind) -> FaultKind {
        FaultKind::Io(device::Error::read(kind, &Arc::from("disk"), 512, 4096))
    }

    fn meet(log: &FaultLog, place: Place, bp: &BlkPtr, faults: &[Fault]) {
        FaultSink::repaired(log, place, bp, faults);
    }

    #[test]
    fn only_what_can_be_written_anew_is_kept() {
        let log = FaultLog::default();
        let kept = |kind, n| {
            let (place, bp) = block(n);
            meet(&log, place, &bp, &[fault(FaultKind::Missing), fault(kind)]);
            log.take_bad(8, u64::MAX).len()
        };
        let is_kept = [FaultKind::Checksum, FaultKind::ParityMismatch];
        for kind in is_kept.into_iter().chain([error(device::ErrorKind::Io { errno: 5 })]) {
            assert_eq!(kept(kind.clone(), 2), 1, "{kind:?}");
        }
        let is_left = [FaultKind::Missing, FaultKind::Stale, error(device::ErrorKind::Gone)];
        for kind in is_left.into_iter().chain([error(device::ErrorKind::NoAnswer)]) {
            assert_eq!(kept(kind.clone(), 3), 0, "{kind:?}");
        }
        let (place, bp) = block(4);
        let of_log = Place { level: Place::LEVEL_ZIL, ..place };
        meet(&log, of_log, &bp, &[fault(FaultKind::Checksum)]);
        assert!(!log.has_bad());
        meet(&log, place, &bp, &[fault(FaultKind::Checksum)]);
        assert!(log.has_bad());
        log.forget_bad();
        meet(&log, place, &bp, &[fault(FaultKind::Checksum)]);
        assert!(!log.has_bad());
    }

    #[test]
    fn what_of_a_log_is_on_some_devices_only_is_no_fault() {
        let log = FaultLog::default();
        let (place, bp) = block(1);
        let of_log = Place { level: Place::LEVEL_ZIL, ..place };
        meet(&log, of_log, &bp, &[fault(FaultKind::Missing), fault(FaultKind::Checksum)]);
        assert_eq!((log.count(), log.repaired().len()), (0, 0));
        let failed = fault(error(device::ErrorKind::Io { errno: 5 }));
        meet(&log, of_log, &bp, &[failed, fault(FaultKind::Checksum)]);
        assert_eq!((log.count(), log.repaired()[0].faults.len()), (1, 1));
    }

    #[test]
    fn what_devices_did_is_forgotten_when_they_leave() {
        let log = FaultLog::default();
        let of = |guid| Fault { guid, ..fault(FaultKind::Checksum) };
        let (one, two, both) = (block(1), block(2), block(3));
        for _ in 0..3 {
            meet(&log, one.0, &one.1, &[of(1)]);
        }
        meet(&log, two.0, &two.1, &[of(2)]);
        meet(&log, both.0, &both.1, &[of(1), of(2)]);
        assert_eq!(log.count(), 5);
        log.forget_all_but(&BTreeSet::from([2, 3]));
        let left: Vec<_> = log.repaired().into_iter().map(|r| (r.place, r.faults.len())).collect();
        assert_eq!((log.count(), left), (2, vec![(two.0, 1), (both.0, 1)]));
        log.forget_all_but(&BTreeSet::from([3]));
        assert_eq!((log.count(), log.repaired().len()), (0, 0));
    }

    #[test]
    fn so_many_are_kept_once_each_and_the_others_are_counted() {
        let log = FaultLog::default();
        for n in 0..BAD_KEPT as u64 + 10 {
            let (place, bp) = block(n);
            meet(&log, place, &bp, &[fault(FaultKind::Checksum)]);
            if n < 10 {
                meet(&log, place, &bp, &[fault(FaultKind::Checksum)]);
            }
        }
        assert_eq!(log.read_repairs(), ReadRepairs { passed_over: 10, ..Default::default() });
        let first = log.take_bad(3, u64::MAX);
        assert_eq!(first.iter().map(|bad| bad.place.blkid).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(first[0].met, [(11, 512)]);
        assert_eq!(log.take_bad(usize::MAX, u64::MAX).len(), BAD_KEPT - 3);
    }
}
