//! Transaction groups: which one is open, what is in it, and when it is synced.
//!
//! # Theory
//!
//! ```text
//!            enter/leave            last leaves       its turn         durable
//!   open  ------------------> quiescing ------> waiting ------> syncing ------> synced
//!                              (closed)    (the next is open)
//! ```
//!
//! One txg is entered at a time (`docs/decisions/0007-write-path.md`). Entering takes no lock: it
//! counts itself in and looks whether the txg is still open; if not, it counts itself out and
//! waits. Quiescing closes the txg, waits until the count is zero, and opens the next one. So a
//! thread that counted itself in and saw the txg open is seen by the quiescer.
//!
//! A txg is pushed when a thread waits for it, when it holds enough dirty data that the devices
//! should begin to work, when it has changed [`OBJECTS_MAX`] objects, when it was open for
//! `timeout` and is dirty, and at the end. That is the
//! sync thread's to see, so it happens when nothing is being synced. The exception is a writer at
//! the throttle's wall: it quiesces the open txg itself, which waits for its turn. At most one
//! txg waits so; a writer at the next wall waits until its sync has begun.
//!
//! *Dirty* is what was made dirty and is not on the devices: it falls as writes complete
//! ([`zio::WriteObserver`]), and what never becomes a write of its own falls at the end of the txg.
//! Writers wait at [`TxgLimits::dirty_max`], and at [`OBJECTS_LIMIT`] for the next txg, whatever
//! the [`Throttle`] says; freeing and housekeeping pass. The memory of what landed is kept until
//! its txg is durable, for readers, so what txgs hold in memory is less than twice the limit.
//!
//! Waiting for room: each write that lands below the limit wakes one writer, each end of a txg all
//! of them. A writer counts itself as waiting before it looks at the dirty bytes for the last time,
//! and a write that lands changes these before it looks at the count, so no writer waits for a
//! wake-up that came before.
//!
//! A writer at which a policy in turn looks keeps its turn ([`Turns`]) while it waits: for a delay,
//! for room. It is in no txg then, and nothing that it waits for asks for a turn. Turns that were
//! waited in are first come, first served, so no writer waits longer than all others one after the
//! other.
//!
//! *Suspended* (`suspend.rs`): the sync thread waits for devices. What wants to enter, or waits for
//! room or for a txg, goes on waiting or is told so, as [`FailMode`] says.
//!
//! Lock order: `state` and `measured` are held while `policy` is taken; `policy` and `limits` are
//! held only for a moment, `memory` never while another is.

use super::mode::{FailMode, Patience};
use super::record::{PushReason, TxgRecord, TxgState};
use super::throttle::{
    Admission, HardLimit, Inflation, LimitKnobs, Load, Request, Synced, Throttle, WriteLimit,
};
use super::turn::{Turn, Turns};
use device::IdleMemory;
use parking_lot::{Mutex, MutexGuard};
use rt::{Condvar, Rt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use zio::Place;

/// Txgs alive at once: open, waiting, syncing; a power of two so that slots are found by a mask.
const SLOTS: usize = 4;

/// Records that are kept before `zfs_txg_history` says something else.
const RECORDS_KEPT: usize = 100;

/// A delay that is shorter is not slept: a processor would be busier with sleeping and waking than
/// with the write. The policy's queue has grown by it, so later writes pay: many short
/// delays become a few of this length, and the rate stays what the policy says.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// Changed objects at which a txg is pushed. Each takes some kilobytes of memory that are not dirty
/// data, and a small file whole pages: 4 Ki small files are 50 MB, and no limit of dirty data
/// would come before twenty times as many.
const OBJECTS_MAX: u64 = 4 << 10;

/// Changed objects of the open txg at which writers wait until the next one is open, which is when
/// the devices have done with the one before: so two txgs hold at most twice that.
const OBJECTS_LIMIT: u64 = OBJECTS_MAX + OBJECTS_MAX / 2;

fn slot(txg: u64) -> usize {
    (txg % SLOTS as u64) as usize
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// When txgs are pushed and writers wait.
#[derive(Clone, Copy, Debug)]
pub struct TxgLimits {
    /// Bytes of dirty data at which writers wait for a sync to end (`zfs_dirty_data_max`).
    pub dirty_max: u64,
    /// Percentage of it at which a txg is pushed (`zfs_dirty_data_sync_percent`).
    pub sync_percent: u64,
    /// A dirty txg is pushed when it was open for this long (`zfs_txg_timeout`).
    pub timeout: Duration,
}

impl Default for TxgLimits {
    fn default() -> Self {
        // OpenZFS's defaults, but for the dirty data: a part of the machine's memory there, and in
        // a pool that is really open; the same everywhere here, for simulations.
        Self { dirty_max: 256 << 20, sync_percent: 20, timeout: Duration::from_secs(5) }
    }
}

/// Bytes that txgs hold at most: what is dirty, and as much that landed.
fn memory_held(limits: &TxgLimits) -> usize {
    usize::try_from(limits.dirty_max.saturating_mul(2)).unwrap_or(usize::MAX)
}

/// The machine was stopped: why, for all that waited.
pub(crate) type StopReason = Arc<str>;

/// What is counted of one txg.
#[derive(Default)]
struct Slot {
    /// Bytes that became dirty in it.
    dirtied: AtomicU64,
    /// Bytes of them that are not on the devices.
    dirty: AtomicU64,
    /// Objects that were changed in it.
    objects: AtomicU64,
    /// Bytes that its live transactions may still make dirty.
    reserved: AtomicU64,
    delays: AtomicU64,
    delayed_ns: AtomicU64,
    waits: AtomicU64,
    waited_ns: AtomicU64,
}

struct State {
    synced: u64,
    /// All txgs up to this one are to be synced.
    wanted: u64,
    /// Why, as the first request said.
    wanted_why: PushReason,
    opened: [Duration; SLOTS],
    /// The open txg is being quiesced.
    quiescing: bool,
    /// Since when.
    quiescing_since: Duration,
    /// The txg that waits for its turn, and since when.
    waiting: Option<(TxgRecord, Duration)>,
    /// The txg that is being synced, and since when.
    syncing: Option<(TxgRecord, Duration)>,
    stop: Option<StopReason>,
    /// Why the sync thread waits for devices.
    suspended: Option<StopReason>,
    records: VecDeque<TxgRecord>,
}

impl State {
    fn check(&self) -> Result<(), StopReason> {
        self.stop.as_ref().map_or(Ok(()), |why| Err(Arc::clone(why)))
    }

    /// The same for a thread that gives up waiting when the machine is suspended.
    fn check_not_suspended(&self, mode: FailMode) -> Result<(), StopReason> {
        self.check()?;
        match &self.suspended {
            Some(why) if mode != FailMode::Wait => Err(suspended(why)),
            _ => Ok(()),
        }
    }

    fn want(&mut self, txg: u64, why: PushReason) {
        if self.wanted < txg {
            (self.wanted, self.wanted_why) = (txg, why);
        }
    }
}

/// The machine. See the head of the file.
pub(crate) struct Txgs {
    rt: Rt,
    limits: Mutex<TxgLimits>,
    policy: Mutex<Arc<dyn Throttle>>,
    /// The write limit's measurements, while that is the policy.
    measured: Mutex<Option<Arc<WriteLimit>>>,
    /// What the policy and the limits say, for a look without locks: bytes below which nothing is
    /// asked, bytes at which the open txg is pushed, bytes at which writers wait.
    calm_below: AtomicU64,
    push_at: AtomicU64,
    dirty_max: AtomicU64,
    records_max: AtomicUsize,
    open: AtomicU64,
    /// Transactions that are in the open txg.
    inside: AtomicU64,
    /// Threads that wait until a txg is durable.
    awaited: AtomicU64,
    /// While one does, writes are urgent (`zinc_awaited_is_urgent`).
    awaited_is_urgent: AtomicBool,
    /// The open txg is quiescing: it cannot be entered.
    shut: AtomicBool,
    /// The machine was stopped, or is suspended: no txg can be entered.
    stands: AtomicBool,
    /// A [`FailMode`]; and whether the machine is ever suspended: otherwise it is stopped.
    fail_mode: AtomicU8,
    outlasts: AtomicBool,
    /// A txg waits for its turn.
    has_waiting: AtomicBool,
    /// What landed stays dirty until its txg is durable (`zinc_dirty_until_durable`).
    until_durable: AtomicBool,
    slots: [Slot; SLOTS],
    /// Writers that wait for room.
    at_the_limit: AtomicUsize,
    /// The turns of writers, under a policy that judges in turn; kept while one waits.
    turns: Turns,
    state: Mutex<State>,
    /// What was dirty waits to be dirty again, until nothing happens.
    memory: Mutex<IdleMemory>,
    /// A txg may have to be pushed, or waits for its turn.
    work: Condvar,
    /// The last transaction of a quiescing txg ended.
    quiet: Condvar,
    /// A txg was opened, or the txg that waited has its turn.
    opened: Condvar,
    /// A txg was synced, or the machine stopped.
    synced: Condvar,
    /// Less is dirty, or the machine stopped.
    room: Condvar,
    /// Only the stop, and suspension, notify it: for delays.
    stopping: Condvar,
    /// The machine is not suspended any more, or stopped.
    resumed: Condvar,
}

impl Txgs {
    /// The txg behind `last` is open.
    pub(crate) fn new(rt: &Rt, last: u64, limits: TxgLimits) -> Self {
        let mut opened = [Duration::ZERO; SLOTS];
        opened[slot(last + 1)] = rt.now();
        let TxgLimits { dirty_max, sync_percent, .. } = limits;
        let out = Self {
            rt: rt.clone(),
            limits: Mutex::new(limits),
            policy: Mutex::new(Arc::new(HardLimit { dirty_max, sync_percent })),
            measured: Mutex::new(None),
            calm_below: AtomicU64::new(0),
            push_at: AtomicU64::new(0),
            dirty_max: AtomicU64::new(dirty_max),
            records_max: AtomicUsize::new(RECORDS_KEPT),
            open: AtomicU64::new(last + 1),
            inside: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
            awaited_is_urgent: AtomicBool::new(true),
            shut: AtomicBool::new(false),
            stands: AtomicBool::new(false),
            fail_mode: AtomicU8::new(FailMode::Wait as u8),
            outlasts: AtomicBool::new(false),
            has_waiting: AtomicBool::new(false),
            until_durable: AtomicBool::new(false),
            slots: Default::default(),
            at_the_limit: AtomicUsize::new(0),
            turns: Turns::new(rt),
            state: Mutex::new(State {
                synced: last,
                wanted: 0,
                wanted_why: PushReason::default(),
                opened,
                quiescing: false,
                quiescing_since: Duration::ZERO,
                waiting: None,
                syncing: None,
                stop: None,
                suspended: None,
                records: VecDeque::new(),
            }),
            memory: Mutex::new(IdleMemory::new(memory_held(&limits))),
            work: rt.condvar(),
            quiet: rt.condvar(),
            opened: rt.condvar(),
            synced: rt.condvar(),
            room: rt.condvar(),
            stopping: rt.condvar(),
            resumed: rt.condvar(),
        };
        out.look_at_policy();
        out
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
        self.memory.lock().resize(memory_held(&limits));
        self.look_at_policy();
    }

    /// Whether data stays dirty until its txg is durable.
    pub(crate) fn keep_dirty(&self, until_durable: bool) {
        self.until_durable.store(until_durable, Ordering::Relaxed);
    }

    /// Whether writes are urgent while a thread waits for a txg.
    pub(crate) fn set_awaited_urgent(&self, urgent: bool) {
        self.awaited_is_urgent.store(urgent, Ordering::Relaxed);
    }

    pub(crate) fn keep_records(&self, most: usize) {
        self.records_max.store(most.max(1), Ordering::Relaxed);
    }

    /// From now on this policy decides.
    pub(crate) fn set_policy(&self, policy: Arc<dyn Throttle>) {
        *self.policy.lock() = policy;
        *self.measured.lock() = None;
        self.look_at_policy();
    }

    /// The policy of 2008, with what it measured when it is the policy already.
    pub(crate) fn set_write_limit(&self, knobs: LimitKnobs) {
        let mut measured = self.measured.lock();
        let policy =
            measured.as_ref().map_or_else(|| WriteLimit::new(knobs), |p| p.with_knobs(knobs));
        let policy = Arc::new(policy);
        *self.policy.lock() = Arc::clone(&policy) as _;
        *measured = Some(policy);
        drop(measured);
        self.look_at_policy();
    }

    /// Tells the policy what becomes of a byte on the devices.
    pub(crate) fn laid_out(&self, inflation: Inflation) {
        self.policy().laid_out(inflation);
        self.look_at_policy();
    }

    /// What decides now.
    pub(crate) fn policy(&self) -> Arc<dyn Throttle> {
        Arc::clone(&self.policy.lock())
    }

    /// Takes over what the policy and the limits say now.
    fn look_at_policy(&self) {
        let dirty_max = self.limits().dirty_max;
        let policy = self.policy();
        self.dirty_max.store(dirty_max, Ordering::SeqCst);
        self.calm_below.store(policy.calm_below().min(dirty_max), Ordering::Relaxed);
        self.push_at.store(policy.push_at().max(1), Ordering::Relaxed);
        let _state = self.state.lock();
        self.work.notify_all();
        self.room.notify_all();
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

    /// What is known of the txgs that are not durable, oldest first.
    pub(crate) fn alive(&self) -> Vec<TxgRecord> {
        let now = self.rt.now();
        let state = self.state.lock();
        let mut out = Vec::new();
        if let Some((record, since)) = &state.syncing {
            let sync = now.saturating_sub(*since);
            out.push(TxgRecord { state: TxgState::Syncing, sync, ..record.clone() });
        }
        if let Some((record, since)) = &state.waiting {
            let wait = now.saturating_sub(*since);
            out.push(TxgRecord { state: TxgState::Waiting, wait, ..record.clone() });
        }
        let txg = self.open();
        let opened = state.opened[slot(txg)];
        // While it quiesces it is not open any more.
        let closed = state.quiescing.then_some(state.quiescing_since);
        let slot = &self.slots[slot(txg)];
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        out.push(TxgRecord {
            txg,
            state: if closed.is_some() { TxgState::Quiescing } else { TxgState::Open },
            opened,
            open: closed.unwrap_or(now).saturating_sub(opened),
            quiesce: now.saturating_sub(closed.unwrap_or(now)),
            dirty: get(&slot.dirtied),
            limit: self.policy().limit(),
            delays: get(&slot.delays),
            delayed: Duration::from_nanos(get(&slot.delayed_ns)),
            waits: get(&slot.waits),
            waited: Duration::from_nanos(get(&slot.waited_ns)),
            ..TxgRecord::default()
        });
        out
    }

    /// Whether something was changed that is not durable.
    pub(crate) fn has_changes(&self) -> bool {
        self.slots.iter().any(|slot| slot.dirtied.load(Ordering::SeqCst) > 0)
    }

    /// Bytes dirty in all txgs.
    pub(crate) fn dirty(&self) -> u64 {
        self.slots.iter().map(|s| s.dirty.load(Ordering::SeqCst)).sum()
    }

    fn reserved(&self) -> u64 {
        self.slots.iter().map(|s| s.reserved.load(Ordering::Relaxed)).sum()
    }

    /// Enters the open txg. A transaction that is `throttled` waits as the policy says, and
    /// reserves its bytes until it leaves.
    pub(crate) fn enter(&self, throttled: Option<u64>) -> Result<u64, StopReason> {
        self.enter_with(throttled, Patience::OfPool)
    }

    /// The same for one that has only this patience with devices.
    pub(crate) fn enter_with(
        &self,
        throttled: Option<u64>,
        patience: Patience,
    ) -> Result<u64, StopReason> {
        if throttled.is_some() {
            self.wait_for_fewer_objects(patience)?;
            self.throttle_writer(patience)?;
        }
        self.enter_in(throttled, &|| self.mode(patience))
    }

    /// The same for a transaction that is not worth waiting for: neither for others that are
    /// throttled nor for devices.
    pub(crate) fn enter_unless_suspended(&self) -> Result<u64, StopReason> {
        self.enter_in(None, &|| FailMode::Continue)
    }

    fn enter_in(
        &self,
        throttled: Option<u64>,
        mode: &dyn Fn() -> FailMode,
    ) -> Result<u64, StopReason> {
        loop {
            // What is changed from then on would never be durable, or not soon.
            if self.stands.load(Ordering::Relaxed) {
                self.wait_while_suspended(mode)?;
            }
            self.inside.fetch_add(1, Ordering::SeqCst);
            if !self.shut.load(Ordering::SeqCst) {
                let txg = self.open();
                let reserved = &self.slots[slot(txg)].reserved;
                reserved.fetch_add(throttled.unwrap_or(0), Ordering::Relaxed);
                return Ok(txg);
            }
            self.count_out();
            let mut state = self.state.lock();
            while self.shut.load(Ordering::SeqCst) {
                self.opened.wait(&mut state);
            }
            state.check_not_suspended(mode())?;
        }
    }

    /// Asks the policy, and does what it says until it lets the transaction go.
    fn throttle_writer(&self, patience: Patience) -> Result<(), StopReason> {
        let calm = self.calm_below.load(Ordering::Relaxed);
        if self.dirty() + self.reserved() < calm {
            return Ok(());
        }
        let mut turn = self.policy().in_turn().then(|| self.turns.take());
        let mut request = Request { began: self.rt.now(), delayed: false };
        loop {
            let txg = self.open();
            let slot = &self.slots[slot(txg)];
            let load = Load {
                now: self.rt.now(),
                dirty: self.dirty(),
                open: slot.dirtied.load(Ordering::Relaxed),
                reserved: slot.reserved.load(Ordering::Relaxed),
                waiting: self.has_waiting.load(Ordering::Relaxed),
            };
            let mut keep = || turn.iter_mut().for_each(Turn::keep);
            if load.dirty >= self.dirty_max.load(Ordering::SeqCst) {
                let reserved = self.reserved();
                if self.policy().memory_is_short(&Load { reserved, ..load }) {
                    self.look_at_policy();
                }
                keep();
                self.wait_for_room(load.dirty, patience)?;
                continue;
            }
            match self.policy().admit(&load, &request) {
                Admission::Go => return Ok(()),
                Admission::Delay { until } if until < load.now + SHORTEST_SLEEP => return Ok(()),
                Admission::Delay { .. } if request.delayed => return Ok(()),
                Admission::Delay { until } => {
                    keep();
                    request.delayed = true;
                    self.delay(slot, (load.now, until), patience)?;
                }
                Admission::NextTxg => {
                    keep();
                    self.wait_for_next(txg, patience)?;
                }
                // Nothing can become less than nothing.
                Admission::Room if load.dirty == 0 => return Ok(()),
                Admission::Room => {
                    keep();
                    self.wait_for_room(load.dirty, patience)?;
                }
            }
        }
    }

    fn delay(
        &self,
        slot: &Slot,
        (now, until): (Duration, Duration),
        patience: Patience,
    ) -> Result<(), StopReason> {
        slot.delays.fetch_add(1, Ordering::Relaxed);
        slot.delayed_ns.fetch_add(nanos(until.saturating_sub(now)), Ordering::Relaxed);
        probes::fire!(throttle__delay, nanos(until.saturating_sub(now)));
        let mut state = self.state.lock();
        while self.rt.now() < until {
            state.check_not_suspended(self.mode(patience))?;
            self.stopping.wait_until(&mut state, until);
        }
        state.check()
    }

    /// Notes that a writer stood still since `began`.
    fn stood(&self, txg: u64, began: Duration) {
        let slot = &self.slots[slot(txg)];
        slot.waits.fetch_add(1, Ordering::Relaxed);
        let time = self.rt.now().saturating_sub(began);
        slot.waited_ns.fetch_add(nanos(time), Ordering::Relaxed);
    }

    /// Waits until less than `seen`, or than the limit, is dirty.
    fn wait_for_room(&self, seen: u64, patience: Patience) -> Result<(), StopReason> {
        let began = self.rt.now();
        self.at_the_limit.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        let outcome = loop {
            if let Err(why) = state.check_not_suspended(self.mode(patience)) {
                break Err(why);
            }
            let dirty = self.dirty();
            if dirty < seen.min(self.dirty_max.load(Ordering::SeqCst)) {
                break Ok(());
            }
            let txg = self.open();
            if dirty == self.slots[slot(txg)].dirty.load(Ordering::SeqCst) {
                // Nothing else can land, so the open txg must go.
                state.want(txg, PushReason::Limit);
                self.work.notify_all();
            }
            self.room.wait(&mut state);
        };
        drop(state);
        self.at_the_limit.fetch_sub(1, Ordering::SeqCst);
        self.stood(self.open(), began);
        outcome
    }

    /// Waits while the open txg has as many objects as there is memory for.
    fn wait_for_fewer_objects(&self, patience: Patience) -> Result<(), StopReason> {
        let txg = self.open();
        if self.slots[slot(txg)].objects.load(Ordering::Relaxed) < OBJECTS_LIMIT {
            return Ok(());
        }
        let began = self.rt.now();
        let mut state = self.state.lock();
        while self.open() == txg {
            state.check_not_suspended(self.mode(patience))?;
            // It is full, so the next sync is its.
            self.opened.wait(&mut state);
        }
        drop(state);
        self.stood(self.open(), began);
        Ok(())
    }

    /// Waits until another txg than `txg` is open, and sees to that.
    fn wait_for_next(&self, txg: u64, patience: Patience) -> Result<(), StopReason> {
        let began = self.rt.now();
        let mut state = self.state.lock();
        while self.open() == txg {
            state.check_not_suspended(self.mode(patience))?;
            if state.quiescing || state.waiting.is_some() {
                self.opened.wait(&mut state);
                continue;
            }
            self.quiesce(&mut state, txg, PushReason::Limit);
            self.work.notify_all();
        }
        drop(state);
        // What `txg` counted was taken when it quiesced.
        self.stood(self.open(), began);
        Ok(())
    }

    /// The thread that was inside is not any more.
    fn count_out(&self) {
        if self.inside.fetch_sub(1, Ordering::SeqCst) == 1 && self.shut.load(Ordering::SeqCst) {
            let _state = self.state.lock();
            self.quiet.notify_all();
        }
    }

    /// A transaction of `txg` ended that had entered with `throttled`.
    pub(crate) fn leave(&self, txg: u64, throttled: Option<u64>) {
        let reserved = &self.slots[slot(txg)].reserved;
        reserved.fetch_sub(throttled.unwrap_or(0), Ordering::Relaxed);
        self.count_out();
    }

    /// `bytes` more are dirty in `txg`.
    pub(crate) fn dirtied(&self, txg: u64, bytes: u64) {
        let slot = &self.slots[slot(txg)];
        slot.dirty.fetch_add(bytes, Ordering::SeqCst);
        let before = slot.dirtied.fetch_add(bytes, Ordering::Relaxed);
        let push_at = self.push_at.load(Ordering::Relaxed);
        // The first byte starts the clock of the timeout.
        if before == 0 || (before < push_at && before + bytes >= push_at) {
            self.wake_for_work();
        }
    }

    /// One more object was changed in `txg`.
    pub(crate) fn joined(&self, txg: u64) {
        let before = self.slots[slot(txg)].objects.fetch_add(1, Ordering::Relaxed);
        if before + 1 == OBJECTS_MAX {
            self.wake_for_work();
        }
    }

    /// Has the threads that wait for work look at the counts of the txgs.
    fn wake_for_work(&self) {
        // A thread that has looked and does not wait yet holds the lock.
        let _state = self.state.lock();
        self.work.notify_all();
    }

    /// The devices should begin with `txg`, by what it holds.
    fn is_full(&self, txg: u64) -> bool {
        let Slot { dirtied, objects, .. } = &self.slots[slot(txg)];
        dirtied.load(Ordering::Relaxed) >= self.push_at.load(Ordering::Relaxed)
            || objects.load(Ordering::Relaxed) >= OBJECTS_MAX
    }

    /// `bytes` that were dirty in `txg` are on the devices.
    fn cleaned(&self, txg: u64, bytes: u64) {
        let less = |dirty: u64| Some(dirty.saturating_sub(bytes));
        let dirty = &self.slots[slot(txg)].dirty;
        // It cannot fail: the closure always says something.
        let _ = dirty.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        if self.at_the_limit.load(Ordering::SeqCst) > 0
            && self.dirty() < self.dirty_max.load(Ordering::SeqCst)
        {
            let _state = self.state.lock();
            self.room.notify_one();
        }
    }

    /// A thread waits until a txg is durable, and that makes writes urgent.
    pub(crate) fn is_urgent(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0 && self.awaited_is_urgent.load(Ordering::Relaxed)
    }

    /// Pushes `txg` and waits until it is durable; while the machine is suspended as [`FailMode`]
    /// says.
    pub(crate) fn wait_synced(&self, txg: u64, why: PushReason) -> Result<(), StopReason> {
        self.wait_synced_with(txg, why, Patience::OfPool)
    }

    /// The same for one that has only this patience with devices.
    pub(crate) fn wait_synced_with(
        &self,
        txg: u64,
        why: PushReason,
        patience: Patience,
    ) -> Result<(), StopReason> {
        self.wait_synced_in(txg, why, &|| self.mode(patience))
    }

    /// The same for what never waits for devices.
    pub(crate) fn wait_synced_unless_suspended(
        &self,
        txg: u64,
        why: PushReason,
    ) -> Result<(), StopReason> {
        self.wait_synced_in(txg, why, &|| FailMode::Continue)
    }

    fn wait_synced_in(
        &self,
        txg: u64,
        why: PushReason,
        mode: &dyn Fn() -> FailMode,
    ) -> Result<(), StopReason> {
        let mut state = self.state.lock();
        if state.synced < txg {
            state.want(txg, why);
            self.work.notify_all();
        }
        self.awaited.fetch_add(1, Ordering::Relaxed);
        while state.synced < txg && state.check_not_suspended(mode()).is_ok() {
            self.synced.wait(&mut state);
        }
        self.awaited.fetch_sub(1, Ordering::Relaxed);
        if state.synced < txg { state.check_not_suspended(mode()) } else { Ok(()) }
    }

    /// The open txg is to be synced as soon as that can be.
    pub(crate) fn want_next(&self) {
        let mut state = self.state.lock();
        let open = self.open();
        state.want(open, PushReason::Freeing);
        self.work.notify_all();
    }

    /// Waits until a txg has to be synced and has no transactions any more. `None`: stopped.
    pub(crate) fn next(&self) -> Option<TxgRecord> {
        let mut state = self.state.lock();
        loop {
            if state.stop.is_some() {
                return None;
            }
            if let Some((mut record, since)) = state.waiting.take() {
                let now = self.rt.now();
                record.wait = now.saturating_sub(since);
                state.syncing = Some((record.clone(), now));
                self.has_waiting.store(false, Ordering::Relaxed);
                self.opened.notify_all();
                return Some(record);
            }
            if state.quiescing {
                self.opened.wait(&mut state);
                continue;
            }
            let txg = self.open();
            let timeout = self.limits().timeout;
            let dirty = self.slots[slot(txg)].dirtied.load(Ordering::Relaxed);
            let due = state.opened[slot(txg)] + timeout;
            if state.wanted >= txg {
                let why = state.wanted_why;
                self.quiesce(&mut state, txg, why);
            } else if self.is_full(txg) {
                self.quiesce(&mut state, txg, PushReason::Dirty);
            } else if dirty > 0 && self.rt.now() >= due {
                self.quiesce(&mut state, txg, PushReason::Timeout);
            } else if dirty > 0 {
                self.work.wait_until(&mut state, due);
            } else if self.rt.is_simulated() {
                // A timer that never ends anything would keep a simulation from being idle.
                self.work.wait(&mut state);
            } else {
                let later = self.rt.now() + timeout;
                self.work.wait_until(&mut state, later);
                if self.rt.now() >= later && self.dirty() == 0 {
                    MutexGuard::unlocked(&mut state, || self.memory.lock().release());
                }
            }
        }
    }

    /// Lets the last transactions of the open txg end, opens the next, and leaves the txg waiting
    /// for its turn. No other thread quiesces, and no txg waits.
    fn quiesce(&self, state: &mut MutexGuard<'_, State>, txg: u64, why: PushReason) {
        let began = self.rt.now();
        state.quiescing = true;
        state.quiescing_since = began;
        let was_open = began.saturating_sub(state.opened[slot(txg)]);
        probes::fire!(txg__quiesce, txg, nanos(was_open), self.dirty());
        self.shut.store(true, Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) != 0 {
            self.quiet.wait(state);
        }
        let now = self.rt.now();
        state.opened[slot(txg + 1)] = now;
        self.open.store(txg + 1, Ordering::SeqCst);
        self.shut.store(false, Ordering::SeqCst);
        self.opened.notify_all();
        probes::fire!(txg__open, txg + 1);
        let took = self.rt.now().saturating_sub(began);
        probes::fire!(txg__sync, txg, nanos(took), self.dirty());
        let opened = state.opened[slot(txg)];
        let slot = &self.slots[slot(txg)];
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let record = TxgRecord {
            txg,
            state: TxgState::Waiting,
            opened,
            open: began.saturating_sub(opened),
            quiesce: now.saturating_sub(began),
            dirty: slot.dirtied.load(Ordering::Relaxed),
            limit: self.policy().limit(),
            delays: take(&slot.delays),
            delayed: Duration::from_nanos(take(&slot.delayed_ns)),
            waits: take(&slot.waits),
            waited: Duration::from_nanos(take(&slot.waited_ns)),
            pushed: why,
            ..TxgRecord::default()
        };
        state.quiescing = false;
        state.waiting = Some((record, now));
        self.has_waiting.store(true, Ordering::Relaxed);
    }

    /// The txg of `record` is durable.
    pub(crate) fn done(&self, mut record: TxgRecord) {
        let took = nanos(record.sync);
        probes::fire!(txg__synced, record.txg, took, record.written, record.blocks);
        let TxgRecord { dirty: dirtied, write_time, sync: sync_time, read_time, .. } = record;
        let synced = Synced { dirtied, write_time, sync_time, read_time };
        self.policy().synced(&synced);
        let mut state = self.state.lock();
        let slot = &self.slots[slot(record.txg)];
        slot.dirty.store(0, Ordering::SeqCst);
        slot.dirtied.store(0, Ordering::Relaxed);
        slot.objects.store(0, Ordering::Relaxed);
        record.state = TxgState::Committed;
        record.dirty_at_end = self.dirty();
        state.synced = record.txg;
        state.syncing = None;
        state.records.push_back(record);
        while state.records.len() > self.records_max.load(Ordering::Relaxed) {
            state.records.pop_front();
        }
        self.synced.notify_all();
        drop(state);
        self.look_at_policy();
    }

    /// Why the machine stands, once it does.
    pub(crate) fn why_stopped(&self) -> Option<Arc<str>> {
        let state = self.state.lock();
        state.stop.as_ref().or(state.suspended.as_ref()).cloned()
    }

    /// Why the machine is suspended, while it is.
    pub(crate) fn why_suspended(&self) -> Option<Arc<str>> {
        let state = self.state.lock();
        state.suspended.clone().filter(|_| state.stop.is_none())
    }

    /// Stops the machine; every thread that waits now or later is told why.
    pub(crate) fn stop(&self, why: &str) {
        let mut state = self.state.lock();
        state.stop.get_or_insert_with(|| Arc::from(why));
        self.stands.store(true, Ordering::Relaxed);
        self.notify_all_waiters();
    }

    /// What waits looks again at what it waits for.
    fn notify_all_waiters(&self) {
        for condition in [
            &self.work,
            &self.synced,
            &self.quiet,
            &self.opened,
            &self.room,
            &self.stopping,
            &self.resumed,
        ] {
            condition.notify_all();
        }
    }
}

impl zio::WriteObserver for Txgs {
    fn written(&self, place: Place, txg: u64, level: u8, bytes: u64) {
        // Dirty are data of datasets: not the MOS, not tables of dnodes, not what is above data.
        let is_data = level == 0 && place.objset != 0 && place.object != 0;
        if is_data && !self.until_durable.load(Ordering::Relaxed) {
            self.cleaned(txg, bytes);
        }
    }
}

mod suspend;

pub use suspend::StopWaiter;
pub(crate) use suspend::suspended;

#[cfg(test)]
mod tests;
