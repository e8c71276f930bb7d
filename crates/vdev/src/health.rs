//! Health of a leaf while the pool is open: what it missed, what it did wrong, and what follows.
//!
//! # Theory
//!
//! Two things are distinguished. *What a leaf missed* is a set of txgs, its dirty time log: a block
//! of such a txg may not be on it, or may be an older block. It grows with every block that does
//! not reach the leaf, for whatever reason, and shrinks only when a resilver has brought the
//! blocks. *Whether a leaf is used* is a mark. Any thread notes facts here, from completions too;
//! nothing here waits. Marks for repeated errors are set in one place (`judge.rs`), which the sync
//! of a txg calls when all its writes are answered.
//!
//! ```text
//! what happened                                     mark
//! a flush, a label or an uberblock failed           FAULTED, at once
//! a write failed, and the probe of the leaf too     FAULTED
//! a request was given up (`guard`): it hangs        FAULTED
//! io_n requests failed within io_t seconds          FAULTED
//! checksum_n blocks were wrong within checksum_t    DEGRADED, still used
//! slow_io_n requests were slow within slow_io_t     DEGRADED, still used; no other leaf was slow
//! the device is gone (ENXIO, ENODEV)                REMOVED
//! its file was deleted, moved, replaced, cut short  REMOVED; cut short: it missed everything
//! the same, and the rest needs it                   DEGRADED, still used, until it is in its place
//! FAULTED or REMOVED, and the rest needs it         DEGRADED, still used
//! a flush, a label, an uberblock or the second try  none by that alone: the txg fails, and the
//! of a write failed, and the rest needs it          pool is suspended, or has stopped
//! ```
//!
//! Writes that a leaf acknowledged before a flush failed may be lost, so it cannot take part in a
//! commit. A failed write is followed by a probe: its first label's unused part is read and written
//! back. A leaf that answers has a bad sector and is not a bad disk; the numbers are those of
//! OpenZFS's event daemon, or a user's (`thresholds.rs`). A leaf that the rest cannot do without is
//! used further: half a disk is more than none. But no txg is committed that it does not take, also
//! because it hangs or is gone.
//!
//! FAULTED and REMOVED mean: nothing is written any more, and it is the last choice for reads.
//! Beyond the redundancy a block that is written fails, and the pool stops.

use crate::state::{Reason, VdevState};
use crate::thresholds::{Thresholds, Times};
use crate::txgs::Txgs;
use device::{Error, ErrorKind, WriteDeviceRef};
use ondisk::label::{Part, part_offset};
use parking_lot::{Mutex, RwLock};
use rt::Rt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Stands for the txg of a block that is not known. No txg of a pool has this number.
pub(crate) const UNKNOWN_TXG: u64 = 0;

/// Errors of a vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Failed reads.
    pub read: u64,
    /// Failed writes.
    pub write: u64,
    /// Blocks that were wrong.
    pub checksum: u64,
}

/// The decision about a leaf since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    Degraded,
    /// Degraded for its place only.
    Astray,
    Faulted,
    Removed,
}

/// Shared with the completions of the leaf's requests, which may outlive the tree, and by the trees
/// that follow each other.
pub(crate) struct Health {
    rt: Rt,
    write_errors: AtomicU64,
    read_errors: AtomicU64,
    checksum_errors: AtomicU64,
    missed: RwLock<Txgs>,
    /// What was missed is not to be brought by the resilver that runs.
    waits: AtomicBool,
    /// The set is not empty: most readers need no lock.
    has_missed: AtomicBool,
    /// The txg that was missed last: most writers that miss something find it here.
    last_missed: AtomicU64,
    /// The txg in which its file was seen to have been cut short; 0: it was not.
    cut: AtomicU64,
    mark: AtomicU8,
    /// A write failed since the leaf was last probed.
    is_suspect: AtomicBool,
    recent: Mutex<Recent>,
}

/// Recent errors, newest last.
#[derive(Default)]
struct Recent {
    /// The first failure.
    error: Option<Error>,
    is_gone: bool,
    /// A request did not come back.
    hangs: bool,
    io: Times,
    checksum: Times,
}

impl Health {
    pub(crate) fn new(rt: &Rt) -> Self {
        Self {
            rt: rt.clone(),
            write_errors: AtomicU64::new(0),
            read_errors: AtomicU64::new(0),
            checksum_errors: AtomicU64::new(0),
            missed: RwLock::default(),
            waits: AtomicBool::new(false),
            has_missed: AtomicBool::new(false),
            last_missed: AtomicU64::new(u64::MAX),
            cut: AtomicU64::new(0),
            mark: AtomicU8::new(Mark::None as u8),
            is_suspect: AtomicBool::new(false),
            recent: Mutex::default(),
        }
    }

    /// A block of that txg is not on the device.
    pub(crate) fn miss(&self, txg: u64) {
        if self.last_missed.load(Ordering::Acquire) == txg {
            return;
        }
        let mut missed = self.missed.write();
        missed.add(txg, txg.saturating_add(1));
        self.has_missed.store(true, Ordering::Release);
        self.last_missed.store(txg, Ordering::Release);
    }

    /// Changes what it missed.
    pub(crate) fn change_missed(&self, change: impl FnOnce(&mut Txgs)) {
        let mut missed = self.missed.write();
        change(&mut missed);
        self.has_missed.store(!missed.is_empty(), Ordering::Release);
        self.last_missed.store(u64::MAX, Ordering::Release);
    }

    pub(crate) fn missed(&self) -> Txgs {
        self.missed.read().clone()
    }

    pub(crate) fn set_waiting(&self, waits: bool) {
        self.waits.store(waits, Ordering::Release);
    }

    /// What it missed is left to a later resilver.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// Its file was cut short before `txg`: what was cut may be of any txg, also when the file has
    /// its size again.
    pub(crate) fn was_cut(&self, txg: u64) {
        if self.cut.compare_exchange(0, txg, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.change_missed(|missed| missed.add(1, txg));
        }
    }

    /// It has all again; it may be cut again.
    pub(crate) fn forget_cut(&self) {
        self.cut.store(0, Ordering::Release);
    }

    /// The txgs it missed while it was not written to, without those that were cut off.
    pub(crate) fn missed_while_away(&self) -> Txgs {
        let mut missed = self.missed();
        missed.remove(0, self.cut.load(Ordering::Acquire));
        missed
    }

    pub(crate) fn has_missed_any(&self) -> bool {
        self.has_missed.load(Ordering::Acquire)
    }

    /// It missed this txg; one that is not known may be any.
    pub(crate) fn has_missed(&self, txg: u64) -> bool {
        self.has_missed_any() && (txg == UNKNOWN_TXG || self.missed.read().contains(txg))
    }

    fn io_failed(&self, error: &Error) {
        let now = self.rt.now();
        let mut recent = self.recent.lock();
        recent.io.note(now);
        recent.is_gone |= error.kind == ErrorKind::Gone;
        recent.hangs |= error.kind == ErrorKind::NoAnswer;
        recent.error.get_or_insert_with(|| error.clone());
    }

    /// A write failed.
    pub(crate) fn write_failed(&self, error: &Error) {
        self.write_errors.fetch_add(1, Ordering::Relaxed);
        self.io_failed(error);
        self.is_suspect.store(true, Ordering::Release);
    }

    /// Counts errors of before, which call for nothing.
    pub(crate) fn count(&self, errors: ErrorCounts) {
        let add = |to: &AtomicU64, n| {
            let sum = to.load(Ordering::Relaxed).saturating_add(n);
            to.store(sum, Ordering::Relaxed);
        };
        add(&self.read_errors, errors.read);
        add(&self.write_errors, errors.write);
        add(&self.checksum_errors, errors.checksum);
    }

    /// A read failed. For want of memory or threads here, it says nothing of the leaf.
    pub(crate) fn read_failed(&self, error: &Error) {
        if error.kind.is_of_process() {
            return;
        }
        self.read_errors.fetch_add(1, Ordering::Relaxed);
        self.io_failed(error);
    }

    /// Data that was read is wrong.
    pub(crate) fn read_wrong(&self) {
        self.checksum_errors.fetch_add(1, Ordering::Relaxed);
        self.recent.lock().checksum.note(self.rt.now());
    }

    /// The leaf cannot be trusted to keep anything: it is not written to any more.
    pub(crate) fn give_up(&self, error: &Error) {
        self.write_failed(error);
        let is_gone = error.kind == ErrorKind::Gone;
        self.set_mark(if is_gone { Mark::Removed } else { Mark::Faulted });
    }

    /// Forgets errors and mark, and not what was missed.
    pub(crate) fn clear(&self) {
        self.forget_errors();
        self.set_mark(Mark::None);
    }

    /// The same, and one that is out of use stays so.
    pub(crate) fn forget_errors(&self) {
        *self.recent.lock() = Recent::default();
        self.is_suspect.store(false, Ordering::Release);
        for count in [&self.write_errors, &self.read_errors, &self.checksum_errors] {
            count.store(0, Ordering::Relaxed);
        }
        if matches!(self.mark(), Mark::Degraded | Mark::Astray) {
            self.set_mark(Mark::None);
        }
    }

    pub(crate) fn set_mark(&self, mark: Mark) {
        self.mark.store(mark as u8, Ordering::Release);
    }

    pub(crate) fn mark(&self) -> Mark {
        match self.mark.load(Ordering::Acquire) {
            n if n == Mark::Degraded as u8 => Mark::Degraded,
            n if n == Mark::Astray as u8 => Mark::Astray,
            n if n == Mark::Faulted as u8 => Mark::Faulted,
            n if n == Mark::Removed as u8 => Mark::Removed,
            _ => Mark::None,
        }
    }

    /// Nothing is written any more.
    pub(crate) fn is_out(&self) -> bool {
        matches!(self.mark(), Mark::Faulted | Mark::Removed)
    }

    /// It is gone without for its place, and not for what became of requests.
    pub(crate) fn went_astray(&self) -> bool {
        self.mark() == Mark::Removed && !self.recent.lock().is_gone
    }

    /// The state that results from the mark and from opening.
    pub(crate) fn standing(&self) -> Option<(VdevState, Reason)> {
        match self.mark() {
            Mark::None => None,
            Mark::Degraded => Some((VdevState::Degraded, Reason::TooManyErrors)),
            Mark::Astray => Some((VdevState::Degraded, Reason::None)),
            Mark::Faulted if self.recent.lock().hangs => {
                Some((VdevState::Faulted, Reason::NoAnswer))
            }
            Mark::Faulted => Some((VdevState::Faulted, Reason::TooManyErrors)),
            Mark::Removed => Some((VdevState::Removed, Reason::None)),
        }
    }

    pub(crate) fn write_errors(&self) -> u64 {
        self.write_errors.load(Ordering::Relaxed)
    }

    pub(crate) fn read_errors(&self) -> u64 {
        self.read_errors.load(Ordering::Relaxed)
    }

    pub(crate) fn checksum_errors(&self) -> u64 {
        self.checksum_errors.load(Ordering::Relaxed)
    }

    pub(crate) fn error(&self) -> Option<Error> {
        self.recent.lock().error.clone()
    }

    /// The mark that the errors so far require.
    pub(crate) fn verdict(&self, device: &WriteDeviceRef, limits: &Thresholds) -> Mark {
        let suspect = self.is_suspect.swap(false, Ordering::AcqRel);
        let now = self.rt.now();
        let (is_gone, hangs, io, checksum) = {
            let recent = self.recent.lock();
            let io = recent.io.are_too_many(now, limits.io);
            let checksum = recent.checksum.are_too_many(now, limits.checksum);
            (recent.is_gone, recent.hangs, io, checksum)
        };
        match () {
            () if is_gone => Mark::Removed,
            () if hangs || io || (suspect && answers(device).is_err()) => Mark::Faulted,
            () if checksum => Mark::Degraded,
            () => Mark::None,
        }
    }
}

/// The device still reads and writes: the part of its first label that nothing uses is written back
/// as it was read.
pub(crate) fn answers(device: &WriteDeviceRef) -> Result<(), Error> {
    let at = part_offset(device.size(), 0, Part::Blank);
    // Without a size there is no device.
    let at = at.ok_or_else(|| Error::open(ErrorKind::Gone, &Arc::from(device.name())))?;
    let bytes = device.read_new(at, Part::Blank.size() as usize)?;
    device.write(at, &bytes)
}
