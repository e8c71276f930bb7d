//! Transaction groups: which one is open, who is in it, and when it is synced.
//!
//! # Theory
//!
//! ```text
//!            enter/leave            last leaves            durable
//!   open  ------------------> quiescing ------> syncing ------------> synced
//!                             (door shut)  (the next is open)
//! ```
//!
//! One txg is entered at a time (`docs/decisions/0007-write-path.md`). Entering takes no lock: it
//! counts itself in and looks whether the door is open; if not, it counts itself out and waits.
//! Quiescing shuts the door, waits until the count is zero, opens the next txg and the door. So
//! whoever counted himself in and saw the door open is seen by the quiescer.
//!
//! A txg is pushed when somebody waits for it, when it holds enough dirty data that the devices
//! should begin to work, when it was open for `timeout` and is dirty, and at the end.
//!
//! Dirty data is what was made dirty in txgs that are not synced. Writers wait at
//! [`TxgLimits::dirty_max`], whatever the [`Throttle`] says; freeing and housekeeping pass.
//!
//! Lock order: `state` is the only lock, held over nothing but waits on its own condition.

use device::IdleMemory;
use parking_lot::{Mutex, MutexGuard};
use rt::{Condvar, Rt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Txgs alive at once: open, quiescing, syncing; a power of two so that slots are found by a mask.
const SLOTS: usize = 4;

/// Txgs of which a record is kept.
const RECORDS_KEPT: usize = 100;

fn slot(txg: u64) -> usize {
    (txg % SLOTS as u64) as usize
}

/// When txgs are pushed and writers wait.
#[derive(Clone, Copy, Debug)]
pub struct TxgLimits {
    /// Bytes of dirty data at which writers wait for a sync to end (`zfs_dirty_data_max`).
    pub dirty_max: u64,
    /// Percentage of it at which a txg is pushed (`zfs_dirty_data_sync_percent`).
    pub sync_percent: u64,
    /// A dirty txg is pushed when it was open for so long (`zfs_txg_timeout`).
    pub timeout: Duration,
}

impl Default for TxgLimits {
    fn default() -> Self {
        // OpenZFS's defaults, but for the cap: a tenth of memory there, a fixed and modest number
        // here, because the process is a guest on its machine.
        Self { dirty_max: 256 << 20, sync_percent: 20, timeout: Duration::from_secs(5) }
    }
}

/// What a throttle says to a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// Go on.
    Go,
    /// Go on after this time.
    Delay(Duration),
    /// Wait until a txg is synced.
    Wait,
}

/// Decides how writers are slowed down before the hard limit stops them.
pub trait Throttle: Send + Sync {
    /// `dirty` bytes of at most `max` are dirty, and a writer wants to enter.
    fn admit(&self, dirty: u64, max: u64) -> Admit;
}

/// No throttle but the limit itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct HardLimit;

impl Throttle for HardLimit {
    fn admit(&self, dirty: u64, max: u64) -> Admit {
        if dirty < max { Admit::Go } else { Admit::Wait }
    }
}

/// What one txg did. Times are on the clock of [`Rt::now`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxgRecord {
    /// Its number.
    pub txg: u64,
    /// When it was opened.
    pub opened: Duration,
    /// How long it was open.
    pub open: Duration,
    /// How long its last transactions took to end.
    pub quiesce: Duration,
    /// How long it took to sync, without the wait for its turn.
    pub sync: Duration,
    /// Bytes that were dirty in it.
    pub dirty: u64,
    /// Bytes written to devices' top-level vdevs (allocated sizes).
    pub written: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Passes over the meta object set until it converged.
    pub passes: u32,
    /// Delays of writers and their sum.
    pub delays: u64,
    /// Sum of the delays.
    pub delayed: Duration,
}

/// The machine was stopped: why, for all who waited.
pub(crate) type Stopped = Arc<str>;

struct State {
    synced: u64,
    /// Somebody wants all txgs up to this one synced.
    wanted: u64,
    opened: [Duration; SLOTS],
    stop: Option<Stopped>,
    records: VecDeque<TxgRecord>,
}

/// The machine. See the head of the file.
pub(crate) struct Txgs {
    rt: Rt,
    limits: Mutex<TxgLimits>,
    throttle: Mutex<Arc<dyn Throttle>>,
    open: AtomicU64,
    /// Transactions that are in the open txg.
    inside: AtomicU64,
    /// Threads that wait until a txg is durable.
    awaited: AtomicU64,
    /// The open txg is quiescing: nobody may enter.
    shut: AtomicBool,
    dirty: [AtomicU64; SLOTS],
    delays: [AtomicU64; SLOTS],
    delayed_ns: [AtomicU64; SLOTS],
    state: Mutex<State>,
    /// What was dirty waits to be dirty again, until nothing happens.
    memory: Mutex<IdleMemory>,
    /// A txg may have to be pushed.
    work: Condvar,
    /// The last transaction of a quiescing txg ended.
    quiet: Condvar,
    /// The door opened again.
    opened: Condvar,
    /// A txg was synced, or the machine stopped.
    synced: Condvar,
}

impl Txgs {
    /// The txg behind `last` is open.
    pub(crate) fn new(rt: &Rt, last: u64, limits: TxgLimits) -> Self {
        let mut opened = [Duration::ZERO; SLOTS];
        opened[slot(last + 1)] = rt.now();
        Self {
            rt: rt.clone(),
            limits: Mutex::new(limits),
            throttle: Mutex::new(Arc::new(HardLimit)),
            open: AtomicU64::new(last + 1),
            inside: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
            shut: AtomicBool::new(false),
            dirty: Default::default(),
            delays: Default::default(),
            delayed_ns: Default::default(),
            state: Mutex::new(State {
                synced: last,
                wanted: 0,
                opened,
                stop: None,
                records: VecDeque::new(),
            }),
            memory: Mutex::new(IdleMemory::new(limits.dirty_max as usize)),
            work: rt.condvar(),
            quiet: rt.condvar(),
            opened: rt.condvar(),
            synced: rt.condvar(),
        }
    }

    pub(crate) fn limits(&self) -> TxgLimits {
        *self.limits.lock()
    }

    pub(crate) fn change_limits(&self, change: impl FnOnce(&mut TxgLimits)) {
        let limits = {
            let mut limits = self.limits.lock();
            change(&mut limits);
            *limits
        };
        self.memory.lock().resize(limits.dirty_max as usize);
        let _state = self.state.lock();
        self.work.notify_all();
        self.synced.notify_all();
    }

    pub(crate) fn set_throttle(&self, throttle: Arc<dyn Throttle>) {
        *self.throttle.lock() = throttle;
    }

    /// The open txg.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }

    /// The last txg that is durable.
    pub(crate) fn last_synced(&self) -> u64 {
        self.state.lock().synced
    }

    /// What the last txgs did, oldest first.
    pub(crate) fn records(&self) -> Vec<TxgRecord> {
        self.state.lock().records.iter().cloned().collect()
    }

    /// Bytes dirty in txgs that are not durable.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty.iter().map(|d| d.load(Ordering::Relaxed)).sum()
    }

    /// Enters the open txg; `throttled` writers wait while too much is dirty.
    pub(crate) fn enter(&self, throttled: bool) -> Result<u64, Stopped> {
        if throttled {
            self.wait_for_room()?;
        }
        loop {
            self.inside.fetch_add(1, Ordering::SeqCst);
            if !self.shut.load(Ordering::SeqCst) {
                return Ok(self.open());
            }
            self.leave();
            let mut state = self.state.lock();
            while self.shut.load(Ordering::SeqCst) {
                self.opened.wait(&mut state);
            }
            if let Some(why) = &state.stop {
                return Err(Arc::clone(why));
            }
        }
    }

    fn wait_for_room(&self) -> Result<(), Stopped> {
        let limits = self.limits();
        let dirty = self.dirty();
        if dirty < limits.dirty_max / 4 {
            // Far from any limit: no lock but the one above.
            return Ok(());
        }
        let throttle = Arc::clone(&self.throttle.lock());
        match throttle.admit(dirty, limits.dirty_max) {
            Admit::Go if dirty < limits.dirty_max => return Ok(()),
            Admit::Delay(time) if dirty < limits.dirty_max => {
                let at = slot(self.open());
                self.delays[at].fetch_add(1, Ordering::Relaxed);
                self.delayed_ns[at].fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
                self.rt.sleep(time);
                return Ok(());
            }
            _ => {}
        }
        let mut state = self.state.lock();
        while self.dirty() >= self.limits.lock().dirty_max {
            if let Some(why) = &state.stop {
                return Err(Arc::clone(why));
            }
            // Everything that is dirty is in the way, so the open txg must go too.
            state.wanted = state.wanted.max(self.open());
            self.work.notify_all();
            self.synced.wait(&mut state);
        }
        Ok(())
    }

    /// A transaction ended.
    pub(crate) fn leave(&self) {
        if self.inside.fetch_sub(1, Ordering::SeqCst) == 1 && self.shut.load(Ordering::SeqCst) {
            let _state = self.state.lock();
            self.quiet.notify_all();
        }
    }

    /// `bytes` more are dirty in `txg`.
    pub(crate) fn dirtied(&self, txg: u64, bytes: u64) {
        self.dirty[slot(txg)].fetch_add(bytes, Ordering::Relaxed);
        let limits = self.limits();
        let push_at = limits.dirty_max / 100 * limits.sync_percent.min(100);
        let now = self.dirty[slot(txg)].load(Ordering::Relaxed);
        if now >= push_at && now - bytes < push_at {
            let _state = self.state.lock();
            self.work.notify_all();
        }
    }

    /// Somebody waits until a txg is durable.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    /// Pushes `txg` and waits until it is durable.
    pub(crate) fn wait_synced(&self, txg: u64) -> Result<(), Stopped> {
        let mut state = self.state.lock();
        if state.synced < txg {
            state.wanted = state.wanted.max(txg);
            self.work.notify_all();
        }
        self.awaited.fetch_add(1, Ordering::Relaxed);
        while state.synced < txg && state.stop.is_none() {
            self.synced.wait(&mut state);
        }
        self.awaited.fetch_sub(1, Ordering::Relaxed);
        match &state.stop {
            Some(why) if state.synced < txg => Err(Arc::clone(why)),
            _ => Ok(()),
        }
    }

    /// The open txg is to be synced as soon as that can be.
    pub(crate) fn want_next(&self) {
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(self.open());
    }

    /// Waits until a txg has to be synced and nobody is in it any more. `None`: stopped.
    pub(crate) fn next(&self) -> Option<TxgRecord> {
        let mut state = self.state.lock();
        let txg = loop {
            if state.stop.is_some() {
                return None;
            }
            let txg = self.open();
            let limits = self.limits();
            let dirty = self.dirty[slot(txg)].load(Ordering::Relaxed);
            let due = state.opened[slot(txg)] + limits.timeout;
            let full = limits.dirty_max / 100 * limits.sync_percent.min(100);
            if state.wanted >= txg || dirty >= full || (dirty > 0 && self.rt.now() >= due) {
                break txg;
            }
            if dirty > 0 {
                self.work.wait_until(&mut state, due);
            } else if self.rt.is_simulated() {
                // A timer that never ends anything would keep a simulation from being idle.
                self.work.wait(&mut state);
            } else {
                let later = self.rt.now() + limits.timeout;
                self.work.wait_until(&mut state, later);
                if self.rt.now() >= later && self.dirty() == 0 {
                    MutexGuard::unlocked(&mut state, || self.memory.lock().release());
                }
            }
        };
        let began = self.rt.now();
        self.shut.store(true, Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) != 0 {
            self.quiet.wait(&mut state);
        }
        state.opened[slot(txg + 1)] = self.rt.now();
        self.open.store(txg + 1, Ordering::SeqCst);
        self.shut.store(false, Ordering::SeqCst);
        self.opened.notify_all();
        let opened = state.opened[slot(txg)];
        let nanos = self.delayed_ns[slot(txg)].swap(0, Ordering::Relaxed);
        Some(TxgRecord {
            txg,
            opened,
            open: began.saturating_sub(opened),
            quiesce: self.rt.now().saturating_sub(began),
            dirty: self.dirty[slot(txg)].load(Ordering::Relaxed),
            delays: self.delays[slot(txg)].swap(0, Ordering::Relaxed),
            delayed: Duration::from_nanos(nanos),
            ..TxgRecord::default()
        })
    }

    /// The txg of `record` is durable.
    pub(crate) fn done(&self, record: TxgRecord) {
        let mut state = self.state.lock();
        self.dirty[slot(record.txg)].store(0, Ordering::Relaxed);
        state.synced = record.txg;
        if state.records.len() == RECORDS_KEPT {
            state.records.pop_front();
        }
        state.records.push_back(record);
        self.synced.notify_all();
    }

    /// Stops the machine; everybody who waits now or later is told why.
    pub(crate) fn stop(&self, why: &str) {
        let mut state = self.state.lock();
        state.stop.get_or_insert_with(|| Arc::from(why));
        self.work.notify_all();
        self.synced.notify_all();
        self.quiet.notify_all();
        self.opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn machine(limits: TxgLimits) -> Arc<Txgs> {
        Arc::new(Txgs::new(&Rt::real(), 10, limits))
    }

    #[test]
    fn a_txg_waits_for_its_transactions_and_nobody_enters_meanwhile() {
        let txgs = machine(TxgLimits::default());
        let inside = txgs.enter(true).unwrap();
        assert_eq!(inside, 11);
        let syncer = Arc::clone(&txgs);
        let thread = std::thread::spawn(move || {
            let record = syncer.next().unwrap();
            syncer.done(record.clone());
            record.txg
        });
        let waiter = Arc::clone(&txgs);
        let waiting = std::thread::spawn(move || waiter.wait_synced(11));
        while !txgs.shut.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let late = Arc::clone(&txgs);
        let late = std::thread::spawn(move || late.enter(true).unwrap());
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!((txgs.open(), txgs.last_synced()), (11, 10));
        txgs.leave();
        assert_eq!(late.join().unwrap(), 12);
        assert_eq!(thread.join().unwrap(), 11);
        waiting.join().unwrap().unwrap();
        assert_eq!(txgs.last_synced(), 11);
    }

    #[test]
    fn dirty_data_is_bounded_and_pushes() {
        let limits = TxgLimits { dirty_max: 1000, sync_percent: 50, ..TxgLimits::default() };
        let txgs = machine(limits);
        let txg = txgs.enter(true).unwrap();
        txgs.dirtied(txg, 1000);
        txgs.leave();
        let entered = Arc::new(AtomicBool::new(false));
        let (writer, flag) = (Arc::clone(&txgs), Arc::clone(&entered));
        let thread = std::thread::spawn(move || {
            let txg = writer.enter(true).unwrap();
            flag.store(true, Ordering::SeqCst);
            writer.leave();
            txg
        });
        // Freeing is not held up.
        assert_eq!(txgs.enter(false).unwrap(), txg);
        txgs.leave();
        let record = txgs.next().unwrap();
        assert_eq!((record.txg, record.dirty), (11, 1000));
        assert!(!entered.load(Ordering::SeqCst));
        txgs.done(record);
        assert!(thread.join().unwrap() > 11);
    }

    #[test]
    fn stopping_frees_everybody() {
        let txgs = machine(TxgLimits::default());
        let waiter = Arc::clone(&txgs);
        let waiting = std::thread::spawn(move || waiter.wait_synced(11));
        txgs.stop("the test ends");
        assert_eq!(&*waiting.join().unwrap().unwrap_err(), "the test ends");
        assert!(txgs.next().is_none());
    }

    #[test]
    fn nothing_is_lost_between_entering_and_quiescing() {
        let txgs = machine(TxgLimits::default());
        let stop = Arc::new(AtomicBool::new(false));
        let inside: Arc<[AtomicU64; SLOTS]> = Arc::default();
        let mut threads = Vec::new();
        for _ in 0..3 {
            let (txgs, stop, inside) = (Arc::clone(&txgs), Arc::clone(&stop), Arc::clone(&inside));
            threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let txg = txgs.enter(false).unwrap();
                    inside[slot(txg)].fetch_add(1, Ordering::SeqCst);
                    inside[slot(txg)].fetch_sub(1, Ordering::SeqCst);
                    txgs.leave();
                }
            }));
        }
        for n in 11..300 {
            let waiter = Arc::clone(&txgs);
            let waiting = std::thread::spawn(move || waiter.wait_synced(n));
            let record = txgs.next().unwrap();
            assert_eq!(record.txg, n);
            assert_eq!(inside[slot(n)].load(Ordering::SeqCst), 0);
            txgs.done(record);
            waiting.join().unwrap().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
