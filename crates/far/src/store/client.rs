//! Patience with a store: deadlines, retries, and how much is under way.
//!
//! A request is tried until it has an answer that time does not change (done, exists, absent), or
//! until the patience of the client is at its end. Each attempt has a deadline; the answer of an
//! earlier attempt that comes late counts all the same, because objects do not change. Between
//! attempts is a random pause, up to twice as long each time. A store that is busy gets half as
//! many requests at a time, and one more whenever a whole round of them succeeded. What a flush
//! waits for goes first, then reads, then what cleans up.
//!
//! A read that takes much longer than others of its size is asked for once more, beside the attempt
//! that is under way (`hedge`): the first answer counts.
//!
//! *A create that was refused before its bytes were read.* A server that has seen from the head
//! that there is such an object may answer and end the connection while the bytes are still sent:
//! then the answer may be lost, and again the next time. So after a large create without an answer
//! it is asked whether the object exists, beside the pause: one trip, and not the patience.
//!
//! *Time in which this process stood still is no silence of the store.* A writer that was stopped,
//! or whose machine was, finds on waking that its attempt took an hour; that attempt does not
//! count, and the store is asked once more, whatever the patience. So it learns that it was fenced.
//!
//! A store that denies something, or answers with another error, is asked again, as credentials may
//! be renewed; but not before it has done anything that it was asked: then the name or the
//! credentials are wrong, and that is told at once.
//!
//! *A store that was given up is not waited for by each request anew.* When the patience for one is
//! at its end, and the store has done nothing since that was asked, every other one has a single
//! attempt, until the store does something. When one of those failed too, what no flush waits for
//! is not even sent for a moment ([`ASK_AGAIN`]): so what reads many blocks one after the other has
//! its errors soon.
//!
//! One lock, [`Flow`]; of a request its own lock. Neither is held over a call of the store or of a
//! callback.

use super::hedge::Hedge;
use super::{Answered, Request, Response, Store, StoreError};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use device::StoreUsage;
use device::backend::collect;
use parking_lot::Mutex;
use rt::Rt;
use std::collections::VecDeque;
use std::sync::Arc;

/// An attempt may take this long, and the time that its bytes take at [`BYTES_PER_SECOND`].
const DEADLINE: Duration = Duration::from_secs(10);
/// A store that is slower than this is not distinguished from one that is silent.
const BYTES_PER_SECOND: u64 = 1_000_000;
/// The first pause before another attempt, and the longest, on average half of it.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A store that was given up, and has failed since, is asked again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// An attempt that ends this much after its deadline was not under way all the time: this process
/// stood still. Timers of a busy machine are earlier.
const STOOD_STILL: Duration = Duration::from_secs(10);
/// A server that refuses a create need not have read more than this of its bytes when it ends the
/// connection. What is smaller has been sent by then, and the answer arrives.
const READ_WITH_HEAD: u64 = 64 << 10;
/// Requests that are under way at most. A store answers after tens of milliseconds: fewer would
/// not fill the line.
const UNDER_WAY_MAX: u32 = 256;

/// How long an attempt that moves `weight` bytes may take.
pub(super) fn deadline(weight: u64) -> Duration {
    DEADLINE + Duration::from_millis(weight.saturating_mul(1000) / BYTES_PER_SECOND)
}

/// The number of an attempt beside another one: its answer counts only if it settles the request.
const BESIDE: u32 = 0;

/// What a request is for: the first goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A flush may wait for it.
    Commit,
    /// A reader waits for it.
    Read,
    /// No caller waits.
    Later,
}

#[derive(Default)]
struct Counts {
    creates: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    retries: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// A way to a store; cheap to clone.
#[derive(Clone)]
pub(crate) struct Client(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    rt: Rt,
    patience: Duration,
    counts: Counts,
    /// The store has answered something.
    is_known: AtomicBool,
    flow: Mutex<Flow>,
    hedge: Mutex<Hedge>,
}

struct Flow {
    limit: u32,
    /// Successes since the limit changed.
    credit: u32,
    under_way: u32,
    /// Requests without an answer that settles them.
    unsettled: u32,
    /// When the store last answered anything, or the first of those was sent.
    heard: Duration,
    /// When it last did what it was asked.
    served: Duration,
    /// When it was given up, unless it has done something since; and, if it has failed since, when
    /// it may be asked again.
    given_up: Option<(Duration, Duration)>,
    waiting: [VecDeque<Arc<PendingRequest>>; 3],
    is_closed: bool,
}

struct PendingRequest {
    request: Request,
    urgency: Urgency,
    state: Mutex<Attempts>,
}

struct Attempts {
    /// The attempt that is under way, or the last one.
    number: u32,
    is_under_way: bool,
    /// When it was sent.
    sent: Duration,
    /// When the request was made, and the time in which this process stood still since.
    began: Duration,
    answered: Option<Answered>,
}

impl Client {
    /// A way to a store that gives a request up after `patience`.
    pub(crate) fn new(store: Arc<dyn Store>, rt: &Rt, patience: Duration) -> Self {
        let waiting = Default::default();
        let limit = UNDER_WAY_MAX;
        let now = rt.now();
        let flow = Flow {
            limit,
            credit: 0,
            under_way: 0,
            unsettled: 0,
            heard: now,
            served: now,
            given_up: None,
            waiting,
            is_closed: false,
        };
        Self(Arc::new(Inner {
            store,
            rt: rt.clone(),
            patience,
            counts: Counts::default(),
            is_known: AtomicBool::new(false),
            flow: Mutex::new(flow),
            hedge: Mutex::default(),
        }))
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.0.rt
    }

    pub(crate) fn usage(&self) -> StoreUsage {
        let Counts { creates, gets, lists, deletes, retries, sent, received } = &self.0.counts;
        StoreUsage {
            creates: creates.load(Relaxed),
            gets: gets.load(Relaxed),
            lists: lists.load(Relaxed),
            deletes: deletes.load(Relaxed),
            retries: retries.load(Relaxed),
            sent_bytes: sent.load(Relaxed),
            received_bytes: received.load(Relaxed),
            cache_failures: 0,
            takeovers: 0,
            silent_secs: self.silent_for().as_secs(),
            unpaid_bytes: 0,
        }
    }

    /// How long the store has answered nothing although it is, or was, asked.
    fn silent_for(&self) -> Duration {
        let flow = self.0.flow.lock();
        if flow.unsettled == 0 && flow.given_up.is_none() {
            Duration::ZERO
        } else {
            self.0.rt.now().saturating_sub(flow.heard)
        }
    }

    /// A request that moves at most `weight` bytes has an answer within this time.
    pub(crate) fn answers_within(&self, weight: u64) -> Duration {
        self.0.patience.saturating_add(PAUSE_MAX).saturating_add(deadline(weight))
    }

    /// Nothing is asked any more. What was asked and has no answer is forgotten, and its callbacks
    /// are dropped, some of them when their deadline comes.
    pub(crate) fn close(&self) {
        let mut flow = self.0.flow.lock();
        flow.is_closed = true;
        let waiting = core::mem::take(&mut flow.waiting);
        drop(flow);
        drop(waiting);
    }

    /// Asks, and returns; the callback must not wait. It is dropped when the client is closed.
    pub(crate) fn submit(&self, urgency: Urgency, request: Request, answered: Answered) {
        let began = self.0.rt.now();
        let mut flow = self.0.flow.lock();
        let is_too_early = flow.given_up.is_some_and(|(_, again)| began < again);
        if is_too_early && urgency != Urgency::Commit {
            drop(flow);
            return answered(Err(StoreError::Lost));
        }
        if flow.unsettled == 0 && flow.given_up.is_none() {
            flow.heard = began;
        }
        flow.unsettled += 1;
        drop(flow);
        let answered = Some(answered);
        let attempts = Attempts { number: 0, is_under_way: false, sent: began, began, answered };
        self.queue(Arc::new(PendingRequest { request, urgency, state: Mutex::new(attempts) }));
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// As the store says, or [`StoreError::Lost`] when the client was closed.
    pub(crate) fn call(&self, urgency: Urgency, request: Request) -> Result<Response, StoreError> {
        self.call_all(urgency, vec![request]).pop().unwrap_or(Err(StoreError::Lost))
    }

    /// Asks all at once, and waits for the answers; they stand in the order of the requests.
    pub(crate) fn call_all(
        &self,
        urgency: Urgency,
        requests: Vec<Request>,
    ) -> Vec<Result<Response, StoreError>> {
        let (collector, tickets) = collect(&self.0.rt, requests.len());
        for (request, ticket) in requests.into_iter().zip(tickets) {
            self.submit(urgency, request, Box::new(move |answer| ticket.give(answer)));
        }
        let answers = collector.wait().into_iter();
        answers.map(|answer| answer.unwrap_or(Err(StoreError::Lost))).collect()
    }

    fn queue(&self, ask: Arc<PendingRequest>) {
        let mut flow = self.0.flow.lock();
        if flow.is_closed {
            drop(flow);
            return;
        }
        if let Some(queue) = flow.waiting.get_mut(ask.urgency as usize) {
            queue.push_back(ask);
        }
        drop(flow);
        self.pump();
    }

    /// Begins attempts as long as there may be more.
    fn pump(&self) {
        loop {
            let mut flow = self.0.flow.lock();
            if flow.under_way >= flow.limit {
                return;
            }
            let Some(ask) = flow.waiting.iter_mut().find_map(VecDeque::pop_front) else { return };
            flow.under_way += 1;
            drop(flow);
            self.attempt(&ask);
        }
    }

    fn attempt(&self, ask: &Arc<PendingRequest>) {
        let mut state = ask.state.lock();
        if state.answered.is_none() {
            // An earlier attempt was answered while this one waited for its turn.
            drop(state);
            self.0.flow.lock().under_way -= 1;
            return;
        }
        state.number += 1;
        (state.is_under_way, state.sent) = (true, self.0.rt.now());
        let number = state.number;
        drop(state);
        let weight = ask.request.weight();
        self.0.counts.count(&ask.request, number, weight);
        let deadline = self.deadline(weight);
        let (client, own) = (self.clone(), Arc::clone(ask));
        self.0.rt.after(deadline, move || client.ended(&own, number, Err(StoreError::Lost)));
        if number == 1 && ask.is_for_a_reader() {
            self.begin_to_hedge(ask, weight);
        }
        let (client, own) = (self.clone(), Arc::clone(ask));
        let answered = Box::new(move |answer| client.ended(&own, number, answer));
        self.0.store.submit(ask.request.clone(), answered);
    }

    /// No attempt takes longer than the patience, but for the time of its bytes.
    fn deadline(&self, weight: u64) -> Duration {
        deadline(weight).saturating_sub(DEADLINE.saturating_sub(self.0.patience))
    }

    /// Asks, after a create without an answer, whether the object exists.
    fn look_for(&self, ask: &Arc<PendingRequest>) {
        let Request::Create { name, .. } = &ask.request else { return };
        if ask.request.weight() <= READ_WITH_HEAD {
            return;
        }
        let head = Request::Head { name: name.clone() };
        self.0.counts.count(&head, 1, 0);
        let (client, own) = (self.clone(), Arc::clone(ask));
        let answered = move |found: Result<Response, StoreError>| match found {
            Ok(_) => client.ended(&own, BESIDE, Err(StoreError::Exists)),
            Err(error) => client.heard(&Err(error)),
        };
        self.0.store.submit(head, Box::new(answered));
    }

    /// Another attempt begins beside the first one if that is much slower than others.
    fn begin_to_hedge(&self, ask: &Arc<PendingRequest>, weight: u64) {
        let Some(slow) = self.0.hedge.lock().begin(weight) else { return };
        let (client, own) = (self.clone(), Arc::clone(ask));
        self.0.rt.after(slow, move || client.hedge(&own, weight));
    }

    fn hedge(&self, ask: &Arc<PendingRequest>, weight: u64) {
        let state = ask.state.lock();
        let is_slow = state.answered.is_some() && state.number == 1 && state.is_under_way;
        drop(state);
        if !is_slow || self.0.flow.lock().is_closed || !self.0.hedge.lock().may_ask_again() {
            return;
        }
        self.0.counts.count(&ask.request, 2, weight);
        let (client, own) = (self.clone(), Arc::clone(ask));
        let answered = Box::new(move |answer| client.ended(&own, BESIDE, answer));
        self.0.store.submit(ask.request.clone(), answered);
    }

    /// An attempt has an answer, or its time is over.
    fn ended(&self, ask: &Arc<PendingRequest>, number: u32, answer: Result<Response, StoreError>) {
        self.heard(&answer);
        let mut state = ask.state.lock();
        if state.answered.is_none() {
            return;
        }
        let is_current = state.number == number && state.is_under_way;
        if !is_done(&answer) && !is_current {
            return;
        }
        let stood_still = !is_done(&answer) && self.notice_standstill(&mut state, ask);
        let is_settled = !stood_still && self.is_settled(state.began, &answer);
        // A settled answer of an earlier attempt ends the one that is under way as well.
        let has_slot = core::mem::replace(&mut state.is_under_way, false);
        let answered = if is_settled { state.answered.take() } else { None };
        let began = state.began;
        drop(state);
        if has_slot {
            self.made_room(&answer);
        }
        match answered {
            Some(answered) => {
                self.0.flow.lock().unsettled -= 1;
                if let Ok(Response::Bytes(bytes)) = &answer {
                    self.0.counts.received.fetch_add(bytes.len() as u64, Relaxed);
                    if ask.is_for_a_reader() {
                        let took = self.0.rt.now().saturating_sub(began);
                        self.0.hedge.lock().ended(ask.request.weight(), took);
                    }
                }
                answered(answer);
            }
            None => {
                let longest = PAUSE.saturating_mul(1 << number.min(16)).min(PAUSE_MAX);
                let share = self.0.rt.random_u64() % (longest.as_micros() as u64 + 1);
                let left = (began + self.0.patience).saturating_sub(self.0.rt.now());
                let pause = Duration::from_micros(share).min(left);
                let (client, own) = (self.clone(), Arc::clone(ask));
                self.0.rt.after(pause, move || client.queue(own));
                if answer == Err(StoreError::Lost) {
                    self.look_for(ask);
                }
            }
        }
        self.pump();
    }

    /// Notes what an answer says of the store, also one that comes too late for its request.
    fn heard(&self, answer: &Result<Response, StoreError>) {
        if *answer == Err(StoreError::Lost) {
            return;
        }
        let now = self.0.rt.now();
        let mut flow = self.0.flow.lock();
        flow.heard = now;
        if is_done(answer) {
            (flow.served, flow.given_up) = (now, None);
            drop(flow);
            self.0.is_known.store(true, Relaxed);
        }
    }

    /// Whether the attempt that ends now was not under way all the time; the request is then as
    /// much younger.
    fn notice_standstill(&self, state: &mut Attempts, ask: &PendingRequest) -> bool {
        let due = state.sent + self.deadline(ask.request.weight());
        let late = self.0.rt.now().saturating_sub(due);
        if late < STOOD_STILL {
            return false;
        }
        state.began += late;
        true
    }

    /// Whether an answer to a request of that time is the last word.
    fn is_settled(&self, began: Duration, answer: &Result<Response, StoreError>) -> bool {
        use StoreError::{Denied, Other};
        if is_done(answer) {
            return true;
        }
        if matches!(answer, Err(Denied(_) | Other(_))) && !self.0.is_known.load(Relaxed) {
            return true;
        }
        let now = self.0.rt.now();
        let mut flow = self.0.flow.lock();
        if let Some((since, again)) = &mut flow.given_up {
            if began >= *since {
                *again = now + ASK_AGAIN;
            }
            return true;
        }
        let is_over = now.saturating_sub(began) >= self.0.patience;
        // Another error may be that of one object.
        if is_over && flow.served <= began && !matches!(answer, Err(Other(_))) {
            flow.given_up = Some((now, now));
        }
        is_over || flow.is_closed
    }

    /// An attempt is over: another may begin, and fewer when the store is busy.
    fn made_room(&self, answer: &Result<Response, StoreError>) {
        let mut flow = self.0.flow.lock();
        flow.under_way -= 1;
        match answer {
            Err(StoreError::Busy) => {
                // Of a round that is refused whole, the first counts.
                if flow.credit > 0 || flow.limit == UNDER_WAY_MAX {
                    flow.limit = (flow.limit / 2).max(1);
                }
                flow.credit = 0;
            }
            Err(StoreError::Lost | StoreError::Denied(_) | StoreError::Other(_)) => {}
            Ok(_) | Err(StoreError::Exists | StoreError::Absent) => {
                flow.credit += 1;
                if flow.credit >= flow.limit && flow.limit < UNDER_WAY_MAX {
                    (flow.limit, flow.credit) = (flow.limit + 1, 1);
                }
            }
        }
    }
}

/// It is an answer that time does not change.
fn is_done(answer: &Result<Response, StoreError>) -> bool {
    matches!(answer, Ok(_) | Err(StoreError::Exists | StoreError::Absent))
}

impl PendingRequest {
    fn is_for_a_reader(&self) -> bool {
        self.urgency == Urgency::Read && matches!(self.request, Request::Get { .. })
    }
}

impl Counts {
    fn count(&self, request: &Request, number: u32, weight: u64) {
        let counter = match request {
            Request::Create { .. } => &self.creates,
            Request::Get { .. } | Request::Head { .. } => &self.gets,
            Request::List { .. } => &self.lists,
            Request::Delete { .. } => &self.deletes,
        };
        counter.fetch_add(1, Relaxed);
        if matches!(request, Request::Create { .. }) {
            self.sent.fetch_add(weight, Relaxed);
        }
        if number > 1 {
            self.retries.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{create, get};
    use super::super::{FaultRates, SimStore, SimWorld};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(600);

    #[test]
    fn with_faults_everything_is_answered() {
        for seed in 0..20 {
            Rt::simulate(seed, |rt| {
                let world = SimWorld::new(rt);
                world.set_fault_rates(FaultRates::rough());
                let client = Client::new(SimStore::new(&world), rt, PATIENCE);
                let creates = (0..50).map(|n| create(&format!("x/{n:02}"), b"12345")).collect();
                for answer in client.call_all(Urgency::Commit, creates) {
                    // One whose answer was lost finds itself.
                    assert!(matches!(answer, Ok(Response::Done) | Err(StoreError::Exists)));
                }
                assert_eq!(client.names("x/", String::new()).unwrap().len(), 50);
                let read = client.call(Urgency::Read, get("x/07", 2, 2));
                assert_eq!(read, Ok(Response::Bytes(b"34".to_vec())));
                assert!(client.usage().retries > 0);
            });
        }
    }

    /// An answer that comes after the deadline leaves an attempt in the queue, which must not take
    /// a place for ever.
    #[test]
    fn no_place_is_lost() {
        Rt::simulate(5, |rt| {
            let world = SimWorld::new(rt);
            let late_for = Duration::from_secs(30);
            world.set_fault_rates(FaultRates {
                late: 500,
                busy: 300,
                late_for,
                ..FaultRates::default()
            });
            let client = Client::new(SimStore::new(&world), rt, PATIENCE);
            for _ in 0..20 {
                client.call_all(Urgency::Read, (0..100).map(|_| get("x", 0, 1)).collect());
            }
            rt.sleep(PATIENCE);
            assert_eq!(client.0.flow.lock().under_way, 0);
        });
    }

    /// One read of a hundred is late by half a minute; a second attempt makes up for nearly all.
    #[test]
    fn reads_that_are_late_are_asked_for_again() {
        Rt::simulate(6, |rt| {
            let world = SimWorld::new(rt);
            let client = Client::new(SimStore::new(&world), rt, PATIENCE);
            assert_eq!(client.call(Urgency::Commit, create("x", b"1")), Ok(Response::Done));
            let read = || {
                let began = rt.now();
                let answer = client.call(Urgency::Read, get("x", 0, 1));
                assert_eq!(answer, Ok(Response::Bytes(b"1".to_vec())));
                rt.now().saturating_sub(began)
            };
            let usual: Vec<Duration> = (0..1000).map(|_| read()).collect();
            assert!(usual.iter().all(|took| *took < Duration::from_secs(1)));
            assert_eq!(client.usage().gets, 1000, "a store that is not late is asked once");
            let late_for = Duration::from_secs(30);
            world.set_fault_rates(FaultRates { late: 10, late_for, ..FaultRates::default() });
            let times: Vec<Duration> = (0..4000).map(|_| read()).collect();
            let late = times.iter().filter(|took| **took > Duration::from_secs(1)).count();
            let usage = client.usage();
            assert!(late < 8, "{late} of 4000 reads were late");
            assert!(usage.retries > 20, "{usage:?}");
            assert!(usage.gets < 5000 * 21 / 20 + 10, "{usage:?}");
            assert_eq!(client.0.flow.lock().under_way, 0);
        });
    }

    #[test]
    fn a_store_that_is_silent_is_given_up_in_time() {
        Rt::simulate(1, |rt| {
            let world = SimWorld::new(rt);
            let silent = FaultRates { dropped: 1000, ..FaultRates::default() };
            world.set_fault_rates(silent);
            let client = Client::new(SimStore::new(&world), rt, PATIENCE);
            let read = |client: &Client| client.call(Urgency::Read, get("x", 0, 1));
            let own = client.clone();
            let first = rt.spawn("first", move || read(&own));
            rt.sleep(Duration::from_secs(100));
            let silent_for = client.usage().silent_secs;
            assert!((99..=100).contains(&silent_for), "{silent_for}");
            assert_eq!(first.unwrap().join().unwrap(), Err(StoreError::Lost));
            let took = rt.now();
            assert!(took >= PATIENCE && took < PATIENCE + Duration::from_secs(30), "{took:?}");
            // What is asked then has one attempt, or none.
            for _ in 0..100 {
                assert_eq!(read(&client), Err(StoreError::Lost));
            }
            assert_eq!(client.call(Urgency::Commit, create("y", b"1")), Err(StoreError::Lost));
            assert!(rt.now() - took < Duration::from_secs(30), "{:?}", rt.now() - took);
            assert!(client.usage().silent_secs >= 600);
            world.set_fault_rates(FaultRates::default());
            rt.sleep(ASK_AGAIN);
            assert_eq!(read(&client), Err(StoreError::Absent));
            assert_eq!(client.usage().silent_secs, 0);
            // It is waited for as before.
            world.set_fault_rates(silent);
            let began = rt.now();
            assert_eq!(read(&client), Err(StoreError::Lost));
            assert!(rt.now() - began >= PATIENCE);
        });
    }

    #[test]
    fn a_short_patience_is_kept() {
        Rt::simulate(1, |rt| {
            let world = SimWorld::new(rt);
            world.set_fault_rates(FaultRates { dropped: 1000, ..FaultRates::default() });
            let client = Client::new(SimStore::new(&world), rt, Duration::from_secs(2));
            assert_eq!(client.call(Urgency::Read, get("x", 0, 1)), Err(StoreError::Lost));
            assert!(rt.now() < Duration::from_secs(5), "{:?}", rt.now());
        });
    }

    /// The bound of a server that refuses large creates before it has read them.
    const FOUND_OUT: Duration = Duration::from_secs(1);

    /// A server that ends the connection when it refuses a create that is still being sent: no
    /// answer arrives.
    struct EndsEarly(Arc<SimStore>);

    impl Store for EndsEarly {
        fn submit(&self, request: Request, answered: Answered) {
            let is_large = request.weight() > READ_WITH_HEAD;
            self.0.submit(
                request,
                Box::new(move |answer| match answer {
                    Err(StoreError::Exists) if is_large => answered(Err(StoreError::Lost)),
                    answer => answered(answer),
                }),
            );
        }
    }

    #[test]
    fn a_large_create_that_is_refused_before_it_was_read_is_found_out_soon() {
        for seed in 0..20 {
            Rt::simulate(seed, |rt| {
                let world = SimWorld::new(rt);
                let client = Client::new(Arc::new(EndsEarly(SimStore::new(&world))), rt, PATIENCE);
                let large = || create("x", &[1; 1 << 20]);
                assert_eq!(client.call(Urgency::Commit, large()), Ok(Response::Done));
                let began = rt.now();
                let again = client.call(Urgency::Commit, large());
                assert_eq!(again, Err(StoreError::Exists));
                assert!(rt.now() - began < FOUND_OUT, "{:?}", rt.now() - began);
                rt.sleep(PATIENCE);
                assert_eq!(client.0.flow.lock().under_way, 0);
                assert_eq!(client.0.flow.lock().unsettled, 0);
            });
        }
    }

    #[test]
    fn a_process_that_stood_still_asks_once_more() {
        for seed in 0..20 {
            Rt::simulate(seed, |rt| {
                let world = SimWorld::new(rt);
                let other = Client::new(SimStore::new(&world), rt, PATIENCE);
                let client = Client::new(SimStore::new(&world), rt, PATIENCE);
                let silent = FaultRates { dropped: 1000, ..FaultRates::default() };
                world.set_fault_rates(silent);
                let own = client.clone();
                let ask = move || own.call(Urgency::Commit, create("x", b"1"));
                let task = rt.spawn("asks", ask.clone()).unwrap();
                rt.sleep(Duration::from_secs(5));
                // Another one takes its place while it stands still.
                world.set_fault_rates(FaultRates::default());
                assert_eq!(other.call(Urgency::Commit, create("x", b"2")), Ok(Response::Done));
                rt.stand_still(2 * PATIENCE);
                assert_eq!(task.join().unwrap(), Err(StoreError::Exists));
                // And the time that it stood still is no reason to wait longer for a silent store.
                world.set_fault_rates(silent);
                let task = rt.spawn("asks", ask).unwrap();
                rt.sleep(Duration::from_secs(5));
                let began = rt.now();
                rt.stand_still(2 * PATIENCE);
                assert_eq!(task.join().unwrap(), Err(StoreError::Lost));
                let took = rt.now() - began;
                assert!(took > 3 * PATIENCE - Duration::from_secs(60), "{took:?}");
                assert!(took < 3 * PATIENCE + Duration::from_secs(60), "{took:?}");
            });
        }
    }

    /// A store with one object that cannot be read.
    struct OneIsBad(Arc<dyn Store>);

    impl Store for OneIsBad {
        fn submit(&self, request: Request, answered: Answered) {
            match &request {
                Request::Get { name, .. } if name == "bad" => {
                    answered(Err(StoreError::Other("it is damaged".to_owned())));
                }
                _ => self.0.submit(request, answered),
            }
        }
    }

    #[test]
    fn an_error_of_one_object_is_not_that_of_the_store() {
        Rt::simulate(1, |rt| {
            let store = OneIsBad(SimStore::new(&SimWorld::new(rt)));
            let client = Client::new(Arc::new(store), rt, PATIENCE);
            assert_eq!(client.call(Urgency::Commit, create("x", b"1")), Ok(Response::Done));
            let bad = client.call(Urgency::Read, get("bad", 0, 1));
            assert!(matches!(bad, Err(StoreError::Other(_))), "{bad:?}");
            assert_eq!(client.0.flow.lock().given_up, None);
        });
    }

    #[test]
    fn a_busy_store_is_asked_less_and_then_more_again() {
        Rt::simulate(2, |rt| {
            let world = SimWorld::new(rt);
            world.set_fault_rates(FaultRates { busy: 500, ..FaultRates::default() });
            let client = Client::new(SimStore::new(&world), rt, PATIENCE);
            let gets = |n: u32| (0..n).map(|_| get("x", 0, 1)).collect();
            client.call_all(Urgency::Read, gets(1000));
            let fewest = client.0.flow.lock().limit;
            assert!(fewest < 32, "{fewest}");
            world.set_fault_rates(FaultRates::default());
            assert_eq!(client.call(Urgency::Commit, create("x", b"1")), Ok(Response::Done));
            client.call_all(Urgency::Read, gets(5000));
            assert!(client.0.flow.lock().limit > fewest + 20);
            assert_eq!(client.0.flow.lock().under_way, 0);
        });
    }
}
