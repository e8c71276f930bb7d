//! The intent log of a head that is open for writing.
//!
//! # Theory
//!
//! **A change** of a file or volume tells the log what it did while its locks are held
//! ([`IntentLog::add`]). That costs a little memory and no write. What wants a promise
//! ([`IntentLog::commit`]) has the changes written as records into the log, and waits until the
//! devices have them. When the txg of a change is durable, the change is dropped, written or not.
//!
//! ```text
//!            add                make_ready             take             flush
//!   change ------> by object ----------> ready ----------> a batch ------> promised
//!       \--------------------------------^  names                |
//!        \---- its txg is durable: dropped wherever it is        |
//!                                    cannot be written: wait for its txg
//! ```
//!
//! Changes of names go to *ready* at once, changes of content and attributes wait by object until
//! a thread syncs that object. So a sync writes the changes of one file and all names, in an order
//! in which a replay can repeat them: what a rename moves is made ready before the rename, and what
//! waits for a file that loses its last name is forgotten together with the name.
//!
//! **Data are not copied** when they are written. The log fetches them when it writes the record,
//! from the file as it is then ([`FetchData`]): they are those of the change, or newer ones. What
//! was cut off since is not there to be fetched. Then a later record of the same batch says that it
//! was, and what is left before is written; or the promise waits for the txg.
//!
//! **Each thread writes its own large blocks** where it would only wait for the batches of others
//! ([`Gather::ahead`]); for a thread alone they are under way while it writes its record. A block
//! has its pointer before it is written, so its record does not wait for it: the batch does, before
//! it is flushed.
//!
//! **One thread leads.** It takes all that is ready, packs it into blocks, has them written at the
//! same time, and waits for a flush of its own; what came meanwhile is in the next batch, whose
//! leader writes while the flush goes on ([`BATCHES`]). A batch is kept when those before it are.
//! A promise is a number: that of the last change that was ready when it was asked for. It is kept
//! when no change with a lower number is ready or under way.
//!
//! **The chain.**
//!
//! ```text
//!          first commit             its txg is durable         a write failed, or suspended
//!   none ---------------> starting --------------------> open ---------------------> closing
//!     ^                                                                                 |
//!     '-------- a sync after which no record of it is of use: all blocks freed ---------'
//! ```
//!
//! The header of the object set can be changed by a sync only, so the first commit waits for one.
//! After that a block is written with the pointer to the next, which was allocated before, in the
//! open txg: that txg's space maps know it, or, when the power fails before, the import claims it
//! by its birth. A block that was never written ends the chain.
//! The sync of a txg waits until written blocks lead to all that was allocated in it
//! (`live/unreached.rs`).
//!
//! A sync ([`IntentLog::sync`]) frees blocks from the front: those written, allocated in its txg or
//! before, whose records are all of its txg or before. Then the header points to the first block
//! that is left. Freed means freed by that txg, also when the block was allocated in it: until it
//! is durable the chain of the txg before leads through that block.
//!
//! **Crashes.** The header that a crash leaves is that of the last durable txg S. From there the
//! chain leads through all blocks written later, because blocks are only freed by a sync, from the
//! front, and not handed out again before two more txgs are durable. A promise is given after a
//! flush that came after the write of its block and of all blocks before, so it is in that chain;
//! or it is of a txg up to S.
//!
//! **Encryption.** A block is encrypted when it is written, all but what a claim needs: the chain,
//! the heads of records and the pointers in them (`zio::crypt`).
//!
//! **What cannot be logged** (a change that no record says, no space, a device that fails, more
//! than [`LARGE`] to be copied, a log that is closing) waits for its txg. After a write that failed
//! nothing is appended: a reader could not get past that block.
//!
//! **Locks.** `state` is held for moments, and nothing is taken below it. No caller is in a
//! transaction of the pool: a promise may wait for its txg.

mod backend;
mod gather;
mod pack;
mod put;
mod queue;
mod stats;
mod unreached;
mod waiters;
mod xattrs;

pub use self::backend::{Backend, EarlyBlock, FetchData, Finish, Place};
pub use self::stats::LogStats;

use self::gather::Gather;
use self::pack::{Sizes, pointer};
use self::queue::Queue;
use self::unreached::Unreached;
use self::waiters::{Waiters, Wakeups};
use self::xattrs::Xattrs;
use dmu::Key;
use ondisk::zil::{Body, Record};
use ondisk::{BlkPtr, ZilHeader};
use parking_lot::{Mutex, MutexGuard};
use rt::{Condvar, Rt};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;
use zio::UnsentBlock;

/// Of a batch of more bytes all whole blocks are written to where they belong, and when more than
/// this is left to be copied its promise waits for the txg: copied bytes are written twice, and the
/// txg is due by then anyway. But see [`PARTS_MAX`].
const LARGE: u64 = 32 << 20;

/// As many bytes are copied if they are small parts of blocks, of which the txg writes all.
const PARTS_MAX: u64 = 4 * LARGE;

/// Batches that are written or flushed at the same time: while one is flushed the next is written.
const BATCHES: usize = 2;
/// How long a chain that begins is waited for before its pool is looked at.
const START_LOOK: Duration = Duration::from_millis(50);

/// What a change is about, which decides what has to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncScope {
    /// Names: every sync of the object set.
    Names,
    /// Content or attributes of one object: syncs of that object, and of all.
    Object(u64),
}

/// What was changed.
#[derive(Clone, Debug)]
pub enum LoggedChange {
    /// What this record says; its sequence number is given later.
    Record(Box<Record>),
    /// What these records say in this order. They stand in one block, so that no log ends between
    /// them.
    Together(Vec<Record>),
    /// Data were written, which are fetched when they are needed.
    Data {
        /// The object.
        object: u64,
        /// Where, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Something that no record can say.
    Unloggable,
}

/// A change.
#[derive(Debug)]
pub struct Change<'a> {
    /// Its txg.
    pub txg: u64,
    /// What it is about.
    pub about: SyncScope,
    /// What it is.
    pub logged: LoggedChange,
    /// Objects whose changes so far have to be repeated before it.
    pub after: &'a [u64],
    /// Objects that are no more: what waits for them is forgotten.
    pub gone: &'a [u64],
}

/// When changes are promised (property `sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// When a caller asks.
    Standard,
    /// Each, before the call that made it returns.
    Always,
    /// Never: a caller is told yes, and gets what the next txg brings.
    Disabled,
}

/// Where data of large writes go (property `logbias`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBias {
    /// To log devices where there are some; otherwise large blocks to where they belong.
    Latency,
    /// To where they belong.
    Throughput,
}

/// A change in the queue.
#[derive(Debug)]
struct Itx {
    txg: u64,
    what: LoggedChange,
    /// Whether a thread writes its large blocks ahead.
    is_taken: bool,
}

/// A block of the chain.
#[derive(Clone, Copy, Debug)]
struct Link {
    place: Place,
    seq: u64,
    /// The last txg that a record in it is of.
    max_txg: u64,
    is_written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    None,
    Starting,
    Open,
    Closing,
}

/// The header of a log that this engine did not write, while it is replayed.
struct Replaying {
    header: ZilHeader,
    /// The last record that each txg has.
    done: Vec<(u64, u64)>,
}

struct State {
    queue: Queue,
    stage: Stage,
    /// The chain: what is written, and behind it one block that is not.
    links: VecDeque<Link>,
    /// Blocks that were allocated for a batch that was not written. A sync frees those that it
    /// finds.
    unused: Vec<Place>,
    unreached: Unreached,
    /// The random words of the chain.
    words: [u64; 2],
    /// The number of the next record.
    record_seq: u64,
    sizes: Sizes,
    /// A thread leads.
    leading: bool,
    /// A block of the chain is being chosen, or written.
    writing: u64,
    /// Batches that are under way, and the number of the first change of each.
    under_way: VecDeque<(u64, u64)>,
    /// The number of the next batch.
    next_batch: u64,
    /// Batches that are being written, in the order of their blocks.
    flights: VecDeque<u64>,
    /// One of them was not: what is behind it cannot be found.
    broken: bool,
    /// The last durable txg.
    synced: u64,
    /// As long as it is not zero there is no chain.
    suspended: u32,
    xattrs: Xattrs,
    /// The header belongs to a log that was there before.
    foreign: bool,
    replaying: Option<Replaying>,
    stopped: Option<String>,
    stats: LogStats,
    /// What is told without waiting, and for which number.
    callers: Vec<(u64, PromiseDone)>,
    /// A thread works for them.
    has_driver: bool,
    waiters: Waiters,
}

type PromiseDone = Box<dyn FnOnce(Result<(), String>) + Send>;

impl State {
    /// No change with a lower number is ready or under way.
    fn kept_below(&self) -> u64 {
        let under_way = self.under_way.iter().map(|(_, first)| *first);
        under_way.fold(self.queue.first(), u64::min)
    }

    /// The waiters that the present state concerns.
    fn due(&mut self) -> Wakeups {
        if self.stopped.is_some() {
            return self.waiters.due(u64::MAX, None);
        }
        let (kept, first) = (self.kept_below(), self.queue.first());
        let may_lead = !self.leading && self.under_way.len() < BATCHES;
        self.waiters.due(kept, may_lead.then_some(first))
    }
}

/// What a sync has to do for a log.
#[derive(Debug)]
pub struct Synced {
    /// The header that the txg writes.
    pub header: ZilHeader,
    /// Blocks that it frees.
    pub free: Vec<BlkPtr>,
}

/// Bytes of data in a record.
fn data_of(record: &Record) -> u64 {
    match &record.body {
        Body::Write { data, .. } => data.len() as u64,
        _ => 0,
    }
}

/// A batch whose blocks are on their way.
struct Flight<'a> {
    number: u64,
    /// The last txg that a change of it is of.
    txg: u64,
    /// The blocks of the chain.
    seqs: Range<u64>,
    finish: Finish<'a>,
}

/// See the head of the file.
pub struct IntentLog {
    rt: Rt,
    objset: u64,
    key: Option<Key>,
    backend: Box<dyn Backend>,
    data: Mutex<Option<Arc<dyn FetchData>>>,
    mode: AtomicU8,
    throughput: AtomicBool,
    state: Mutex<State>,
    /// For those that wait for anything else than a promise.
    changed: Condvar,
}

impl IntentLog {
    /// The log of object set `objset`, which is encrypted with `key`, if with any. `foreign`: its
    /// header has one already.
    #[must_use]
    pub fn new(
        rt: &Rt,
        (objset, key): (u64, Option<Key>),
        foreign: bool,
        backend: Box<dyn Backend>,
    ) -> Self {
        let state = State {
            queue: Queue::default(),
            stage: Stage::None,
            links: VecDeque::new(),
            unused: Vec::new(),
            unreached: Unreached::default(),
            words: [0; 2],
            record_seq: 0,
            sizes: Sizes::default(),
            leading: false,
            writing: 0,
            under_way: VecDeque::new(),
            next_batch: 0,
            flights: VecDeque::new(),
            broken: false,
            synced: 0,
            suspended: 0,
            xattrs: Xattrs::Unused,
            foreign,
            replaying: None,
            stopped: None,
            stats: LogStats::default(),
            callers: Vec::new(),
            has_driver: false,
            waiters: Waiters::default(),
        };
        Self {
            rt: rt.clone(),
            objset,
            key,
            backend,
            data: Mutex::default(),
            mode: AtomicU8::new(SyncMode::Standard as u8),
            throughput: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: rt.condvar(),
        }
    }

    /// From now on data are fetched from here.
    pub fn set_data(&self, data: Arc<dyn FetchData>) {
        *self.data.lock() = Some(data);
    }

    /// When changes are promised, from now on.
    pub fn set_mode(&self, mode: SyncMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Where data go, from now on.
    pub fn set_bias(&self, bias: LogBias) {
        self.throughput.store(bias == LogBias::Throughput, Ordering::Relaxed);
    }

    /// What it has done.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.state.lock().stats
    }

    fn bias(&self) -> LogBias {
        match self.throughput.load(Ordering::Relaxed) {
            true => LogBias::Throughput,
            false => LogBias::Latency,
        }
    }

    /// When changes are promised.
    #[must_use]
    pub fn mode(&self) -> SyncMode {
        match self.mode.load(Ordering::Relaxed) {
            n if n == SyncMode::Always as u8 => SyncMode::Always,
            n if n == SyncMode::Disabled as u8 => SyncMode::Disabled,
            _ => SyncMode::Standard,
        }
    }

    /// Notes a change that was made just now, while its locks and its transaction are held.
    pub fn add(&self, change: Change<'_>) {
        let mut state = self.state.lock();
        change.after.iter().for_each(|object| state.queue.make_ready(*object));
        let itx = Itx { txg: change.txg, what: change.logged, is_taken: false };
        state.queue.add(change.about, itx);
        change.gone.iter().for_each(|object| state.queue.forget(*object));
    }

    /// What waits for this object is of no use any more: it is about to be freed.
    pub fn forget(&self, object: u64) {
        self.state.lock().queue.forget(object);
    }

    /// Waits until all names, and the changes of `object` (or of all objects), that were noted
    /// before the call survive whatever happens.
    ///
    /// # Errors
    /// The pool has stopped; says why.
    pub fn commit(&self, object: Option<u64>) -> Result<(), String> {
        if self.mode() == SyncMode::Disabled {
            return Ok(());
        }
        let block = self.begin_ahead(object);
        // Its record is ready first: a batch that is made meanwhile takes it along, and is written
        // beside the block, for which it waits before its flush.
        let ticket = self.ticket(object);
        block.write_here();
        self.wait(ticket)
    }

    /// Begins to write large blocks of what a caller is going to wait for, while others write their
    /// batch. A single one is the caller's to write.
    fn begin_ahead(&self, object: Option<u64>) -> UnsentBlock {
        let ranges = {
            let mut state = self.state.lock();
            // What has no chain waits for its txg, which writes the blocks.
            if state.stage != Stage::Open || state.under_way.is_empty() {
                return UnsentBlock::default();
            }
            state.queue.take_ranges(object)
        };
        if ranges.is_empty() {
            return UnsentBlock::default();
        }
        let data = self.data.lock().clone();
        Gather::new(&*self.backend, data.as_deref(), self.bias()).ahead(&ranges)
    }

    /// The same without waiting: `then` is called when it is done, by a thread that must not wait.
    pub fn commit_then(
        self: &Arc<Self>,
        object: Option<u64>,
        then: impl FnOnce(Result<(), String>) + Send + 'static,
    ) {
        let ticket = self.ticket(object);
        let mut state = self.state.lock();
        if self.mode() == SyncMode::Disabled || state.kept_below() >= ticket {
            drop(state);
            return then(Ok(()));
        }
        state.callers.push((ticket, Box::new(then)));
        if std::mem::replace(&mut state.has_driver, true) {
            return;
        }
        drop(state);
        let me = Arc::clone(self);
        if self.rt.spawn("zil_commit", move || me.drive()).is_err() {
            // No thread is to be had: then this one does it.
            self.drive();
        }
    }

    /// Works for callers that do not wait, until there are none.
    fn drive(&self) {
        loop {
            let ticket = {
                let mut state = self.state.lock();
                match state.callers.iter().map(|(ticket, _)| *ticket).min() {
                    Some(ticket) => ticket,
                    None => {
                        state.has_driver = false;
                        return;
                    }
                }
            };
            let done = self.wait(ticket);
            let mut state = self.state.lock();
            let kept = if done.is_ok() { state.kept_below().max(ticket) } else { u64::MAX };
            let all = std::mem::take(&mut state.callers);
            let (now, later) = all.into_iter().partition(|(ticket, _)| *ticket <= kept);
            state.callers = later;
            drop(state);
            let now: Vec<(u64, PromiseDone)> = now;
            now.into_iter().for_each(|(_, call)| call(done.clone()));
        }
    }

    fn ticket(&self, object: Option<u64>) -> u64 {
        let mut state = self.state.lock();
        match object {
            Some(object) => state.queue.make_ready(object),
            None => state.queue.make_all_ready(),
        }
        state.queue.next()
    }

    fn wait(&self, ticket: u64) -> Result<(), String> {
        let mut state = self.state.lock();
        loop {
            if let Some(why) = &state.stopped {
                return Err(why.clone());
            }
            if state.kept_below() >= ticket {
                return Ok(());
            }
            let may_lead = !state.leading && state.under_way.len() < BATCHES;
            if !may_lead || state.queue.first() >= ticket {
                let signal = state.waiters.add(&self.rt, ticket);
                MutexGuard::unlocked(&mut state, || signal.wait());
                continue;
            }
            let has_others = !state.under_way.is_empty() || !state.waiters.is_empty();
            state.leading = true;
            if has_others && !self.rt.is_simulated() {
                // Threads that are about to want a promise as well, and wait for this processor,
                // come into this batch. With none that can run, this takes no time.
                MutexGuard::unlocked(&mut state, std::thread::yield_now);
            }
            let (number, first) = (state.next_batch, state.queue.first());
            state.next_batch += 1;
            state.under_way.push_back((number, first));
            let batch = state.queue.take();
            let begun = MutexGuard::unlocked(&mut state, || self.promise(number, batch));
            state.leading = false;
            let due = state.due();
            let done = MutexGuard::unlocked(&mut state, || {
                due.wake();
                self.changed.notify_all();
                begun.and_then(|flight| flight.map_or(Ok(()), |flight| self.land(flight)))
            });
            state.under_way.retain(|(n, _)| *n != number);
            if let Err(why) = done {
                state.stopped.get_or_insert(why);
            }
            let due = state.due();
            MutexGuard::unlocked(&mut state, || due.wake());
        }
    }

    /// Makes a batch survive, by its txg, or in the log, where what is returned has to land.
    fn promise(&self, number: u64, mut batch: Vec<Itx>) -> Result<Option<Flight<'_>>, String> {
        let unloggable = batch.iter().filter(|itx| matches!(itx.what, LoggedChange::Unloggable));
        if let Some(txg) = unloggable.map(|itx| itx.txg).max() {
            self.backend.wait_synced(txg)?;
            batch.retain(|itx| itx.txg > txg);
        }
        let synced = self.state.lock().synced;
        batch.retain(|itx| itx.txg > synced);
        let Some(last) = batch.iter().map(|itx| itx.txg).max() else { return Ok(None) };
        if let Some(begun) = self.begin_chain() {
            return self.wait_until_started(begun.max(last)).map(|()| None);
        }
        let bytes = batch.iter().map(|itx| match &itx.what {
            LoggedChange::Data { length, .. } => *length,
            LoggedChange::Together(records) => records.iter().map(data_of).sum(),
            _ => 0,
        });
        let bytes = bytes.fold(0, u64::saturating_add);
        let Some((first, mut packed)) = self.begin_batch(bytes, batch.len()) else {
            return self.backend.wait_synced(last).map(|()| None);
        };
        let data = self.data.lock().clone();
        // What is written once costs no more here than in the txg.
        let bias = if bytes > LARGE { LogBias::Throughput } else { self.bias() };
        let gather = Gather::new(&*self.backend, data.as_deref(), bias);
        let most = if bytes > LARGE { gather.most_copied(&batch) } else { LARGE };
        let flight = match gather.all(batch, most, &mut packed)? {
            Some(_) if packed.is_empty() => return Ok(None),
            Some(early) => self.put((number, last), first, packed, early),
            None => None,
        };
        match flight {
            Some(flight) => Ok(Some(flight)),
            None => self.backend.wait_synced(last).map(|()| None),
        }
    }

    /// Waits until a batch survives.
    fn land(&self, Flight { number, txg, seqs, finish }: Flight<'_>) -> Result<(), String> {
        let reached = || {
            self.state.lock().unreached.remove(number);
            self.changed.notify_all();
        };
        let written = finish(&reached).is_ok();
        if written {
            reached();
        }
        let mut state = self.state.lock();
        // Those before it decide whether the chain leads here.
        while state.flights.front() != Some(&number) {
            self.changed.wait(&mut state);
        }
        state.flights.pop_front();
        state.writing -= 1;
        state.broken |= !written;
        if state.broken && state.stage == Stage::Open {
            state.stage = Stage::Closing;
        }
        for link in state.links.iter_mut().filter(|link| seqs.contains(&link.seq)) {
            link.is_written = true;
        }
        let kept = !state.broken;
        state.unreached.remove(number);
        self.changed.notify_all();
        drop(state);
        if kept {
            return Ok(());
        }
        self.backend.wait_synced(txg)?;
        if self.state.lock().stage == Stage::Closing {
            // That sync came before it was known that the chain ends. Nothing leads to the blocks
            // behind its end, and only another sync frees them.
            self.backend.wait_synced(self.backend.touch()?)?;
        }
        Ok(())
    }

    /// Allocates the first block when there is no chain. The txg that will write the header.
    fn begin_chain(&self) -> Option<u64> {
        let size = {
            let mut state = self.state.lock();
            if state.stage != Stage::None || state.suspended > 0 || state.foreign {
                return None;
            }
            state.words = [self.rt.random_u64() | 1, self.rt.random_u64() | 1];
            state.broken = false;
            state.stage = Stage::Starting;
            state.sizes.usual()
        };
        let mut birth = None;
        let allocated = self.backend.allocate(size, &mut |place| {
            birth = Some(place.birth);
            let link = Link { place, seq: 1, max_txg: 0, is_written: false };
            self.state.lock().links.push_back(link);
        });
        if !allocated {
            self.state.lock().stage = Stage::None;
        }
        birth
    }

    /// Waits until the header of a new chain is on disk; with that all is, up to `txg`.
    fn wait_until_started(&self, txg: u64) -> Result<(), String> {
        let done = self.backend.wait_synced(txg);
        let mut state = self.state.lock();
        if state.stage == Stage::Starting {
            state.stage = if done.is_ok() { Stage::Open } else { Stage::Closing };
        }
        done
    }

    /// In the sync of `txg`, before the object set is written: the header, and what is freed.
    /// `None`: the header is not this log's to change.
    pub fn sync(&self, txg: u64) -> Option<Synced> {
        let mut state = self.state.lock();
        if let Some(replaying) = &state.replaying {
            let done = replaying.done.iter().filter(|(t, _)| *t <= txg).map(|(_, seq)| *seq);
            let mut header = replaying.header;
            header.replay_seq = done.max().unwrap_or(0).max(header.replay_seq);
            return Some(Synced { header, free: Vec::new() });
        }
        if state.foreign {
            return None;
        }
        self.wait_reached(&mut state, txg);
        let mut free = Vec::new();
        while let Some(link) = state.links.front()
            && link.is_written
            && link.place.birth <= txg
            && link.max_txg <= txg
        {
            free.push(link.place);
            state.links.pop_front();
        }
        let over = |place: &Place| place.birth <= txg;
        // In no chain, so that a crash would leave it allocated for ever.
        free.extend(state.unused.extract_if(.., |place| over(place)));
        if state.stage == Stage::Closing
            && state.writing == 0
            && state.unused.is_empty()
            && state.links.iter().all(|link| over(&link.place) && link.max_txg <= txg)
        {
            free.extend(state.links.drain(..).map(|link| link.place));
            state.stage = Stage::None;
            state.record_seq = 0;
        }
        let mut header = ZilHeader::default();
        if let Some(link) = state.links.front() {
            header.log = pointer(&link.place, self.objset, state.words, link.seq);
        }
        let free = free.iter().map(|place| pointer(place, self.objset, state.words, 0)).collect();
        self.changed.notify_all();
        Some(Synced { header, free })
    }

    /// Waits until written blocks lead to all that were allocated up to `txg`, or it is known that
    /// they will not be.
    fn wait_reached(&self, state: &mut MutexGuard<'_, State>, txg: u64) {
        let until = self.rt.now() + unreached::WAITED_FOR;
        while state.unreached.has(txg) && self.rt.now() < until {
            self.changed.wait_until(state, until);
        }
        // What hangs is not waited for again.
        state.unreached.forget(txg);
    }

    /// `txg` is durable: its changes need no promise any more.
    pub fn synced(&self, txg: u64) {
        let mut state = self.state.lock();
        state.synced = state.synced.max(txg);
        if matches!(state.xattrs, Xattrs::Declared(declared_in) if declared_in <= txg) {
            state.xattrs = Xattrs::Used;
        }
        state.queue.synced(txg);
        let due = state.due();
        drop(state);
        due.wake();
    }

    /// Lets the chain end with the next sync, and none begin until [`Self::resume`]. Promises wait
    /// for their txgs meanwhile.
    pub fn begin_suspend(&self) {
        let mut state = self.state.lock();
        state.suspended += 1;
        if state.stage == Stage::Open {
            state.stage = Stage::Closing;
        }
        let closes = state.stage == Stage::Closing;
        drop(state);
        if closes {
            // When the pool has stopped, there is no next sync; and it may be far away.
            let _ = self.backend.touch_unless_suspended();
        }
    }

    /// [`Self::begin_suspend`], and waits until the header on disk is empty.
    ///
    /// # Errors
    /// The pool has stopped, or waits for its devices. The log stays suspended.
    pub fn suspend(&self) -> Result<(), String> {
        self.begin_suspend();
        loop {
            {
                let state = self.state.lock();
                if state.foreign || (state.stage == Stage::None && !state.leading) {
                    return Ok(());
                }
            }
            {
                let mut state = self.state.lock();
                if state.leading && state.stage == Stage::Starting {
                    self.changed.wait_until(&mut state, self.rt.now() + START_LOOK);
                    drop(state);
                    // The thread that begins it may wait for the devices of a suspended pool.
                    self.backend.touch_unless_suspended()?;
                    continue;
                }
                if state.stage == Stage::Open {
                    state.stage = Stage::Closing;
                }
            }
            let txg = self.backend.touch_unless_suspended()?;
            self.backend.wait_synced_unless_suspended(txg)?;
            if self.state.lock().stage == Stage::None {
                return Ok(());
            }
        }
    }

    /// Chains may begin again.
    pub fn resume(&self) {
        let mut state = self.state.lock();
        state.suspended = state.suspended.saturating_sub(1);
    }

    /// The header belongs to a log that was there before this engine came.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.state.lock().foreign
    }

    /// That log is gone.
    pub fn taken_over(&self) {
        let mut state = self.state.lock();
        state.foreign = false;
        state.replaying = None;
    }

    /// That log, whose header this is, is replayed from now on.
    pub fn begin_replay(&self, header: ZilHeader) {
        self.state.lock().replaying = Some(Replaying { header, done: Vec::new() });
    }

    /// Record `seq` of it was repeated in `txg`, whose transaction the caller is in.
    pub fn replayed(&self, txg: u64, seq: u64) {
        let mut state = self.state.lock();
        let Some(replaying) = &mut state.replaying else { return };
        match replaying.done.last_mut() {
            Some(last) if last.0 == txg => last.1 = seq,
            _ => replaying.done.push((txg, seq)),
        }
    }
}

#[cfg(test)]
mod tests;
