//! Simulations: real threads, one at a time, in virtual time, replayed from a seed.
//!
//! Each thread is carried by one of the operating system's, which waits at a *gate* of its own
//! (`carrier.rs`). One gate is open: what is through it runs, all others stand. A thread that has
//! to wait (a condition variable, a sleep, a join, a yield) decides, before it stands, which is
//! next:
//!
//! - among the threads that could run and, if one is due, the next timer, the seed chooses;
//! - when none could run, time jumps to the next timer or deadline;
//! - when there is none of those either, the program is deadlocked, and every thread panics with a
//!   list of which thread waits where.
//!
//! Computing takes no time, unless a model gives it one (`cpu.rs`). A notice, a spawn, and the
//! taking of a lock are not points of choice: the thread continues until it waits. So a
//! `parking_lot` lock is never contended, provided that no thread keeps one across a wait, but for
//! the one that a condition variable unlocks. Code that breaks this rule stops the simulation; the
//! condition variable notices where it can, and a watchdog elsewhere.
//! What waiting for such a lock would cost is work of the model that one thread does at a time.
//!
//! Nothing here looks at the machine: not its clock, its number of processors, an address or a hash
//! with a random key. So the same program and the same seed give the same run, on any machine.
//!
//! The end: when the first thread leaves ([`crate::Rt::simulate`] returns, or the thread exits), or
//! any thread panics, the simulation is over. Threads that still wait unwind from where they are,
//! silently; a wait inside a destructor that runs then returns at once.

use crate::affinity::OneProcessor;
use crate::cpu::{CpuModel, Processors};
use crate::rng::{Rng, Xoshiro256};
use crate::thread::Panicked;
use crate::timer::Callback;
use carrier::Carrier;
use core::panic::Location;
use core::time::Duration;
use crew::Carriers;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

mod carrier;
mod crew;

/// Wall time at the beginning: 2026-01-01T00:00:00Z. A date that structures on disk accept.
const WALL_ORIGIN: Duration = Duration::from_secs(1_767_225_600);

/// The meaning of `workers == 0` here: a number that does not depend on the machine.
const WORKERS: usize = 4;

/// Real time without any choice made after which, or after twice that, a simulation is given up.
const WATCHDOG: Duration = Duration::from_secs(60);

/// How long the end waits, in real time, for threads to unwind.
const UNWINDING_MAX: Duration = Duration::from_secs(10);

/// How often a wait returns at once to a destructor in a simulation that is over.
const PATIENCE: u32 = 10_000;

/// Payload of the panic that unwinds a thread when the simulation is over.
struct SimulationOver;

/// A thread of a simulation, by its place in the list.
pub(crate) type ThreadId = usize;

/// The thread that began the simulation.
const ROOT: ThreadId = 0;

/// The first threads watch, while they wait, whether another one comes back: the rest need not.
const WATCHERS: ThreadId = 4;

/// Threads that are carried by the same carriers, by number.
type CrewId = u64;

/// All that were spawned.
const SPAWNED: CrewId = 0;

/// A simulation.
pub(crate) struct World {
    /// For messages.
    seed: u64,
    state: Mutex<State>,
    /// [`State::now`] in nanoseconds, for callers that only read it, which are nearly all.
    now: AtomicU64,
    /// Some work takes time ([`State::processors`]).
    charges: AtomicBool,
    /// Notified when a thread has left.
    left: Condvar,
}

struct State {
    now: Duration,
    threads: Vec<Thread>,
    /// Places of threads that have ended.
    vacant: Vec<ThreadId>,
    /// Threads that could run.
    runnable: Vec<ThreadId>,
    /// Later events: by time, and then in the order in which they were set.
    events: BTreeMap<(Duration, u64), Event>,
    /// Events so far.
    count: u64,
    /// Choices so far, for the watchdog.
    switches: u64,
    /// Chooses which thread runs next; apart from the numbers the program draws.
    chooser: Xoshiro256,
    random: Xoshiro256,
    /// The costs of computing, if it has any.
    processors: Option<Processors>,
    /// A timer's callback is running.
    calling: bool,
    /// The crews that there are, and how many there were.
    crews: BTreeMap<CrewId, Carriers>,
    crew_count: u64,
    /// Carriers of spawned threads that have not left.
    live: usize,
    /// Why it is over.
    over: Option<Arc<str>>,
}

struct Thread {
    name: Arc<str>,
    /// What it waits or runs on; `None` at the top of its crew's loop.
    carrier: Option<Arc<Carrier>>,
    /// The crew whose loop it is at the top of.
    crew: CrewId,
    /// Its mark, while it has no carrier.
    mark: u8,
    at: Standing,
    /// The event that ends its wait.
    timer: Option<(Duration, u64)>,
    /// Its last wait ended by that event.
    timed_out: bool,
    /// The check to make before its wait ends.
    look: Option<Arc<Look>>,
}

/// The check that a thread makes when its wait ends, before it continues or waits again: another
/// may make it in its place, and the seed chooses as if it had run.
pub(crate) struct Look {
    /// It would go on.
    pub(crate) is_over: Box<dyn Fn() -> bool + Send + Sync>,
    /// Where it would wait again.
    pub(crate) waiting: Arc<Mutex<Vec<ThreadId>>>,
    /// The same, for messages.
    pub(crate) place: &'static Location<'static>,
}

/// Where a thread is.
#[derive(Clone, Copy)]
enum Standing {
    /// Running, or waiting for its turn.
    Ready,
    Waits(&'static Location<'static>),
    Sleeps(&'static Location<'static>),
    Ended,
}

enum Event {
    Wake(ThreadId),
    Call(Callback),
}

thread_local! {
    /// Which carrier of which simulation this is, and of which thread.
    static SELF: RefCell<Option<Membership>> = const { RefCell::new(None) };
}

struct Membership {
    world: Arc<World>,
    carrier: Arc<Carrier>,
    /// The thread that it carries, or did last.
    id: ThreadId,
    /// It is the one that began the simulation.
    is_root: bool,
    /// The root's: all threads come from it.
    _processor: Option<OneProcessor>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.is_root {
            self.world.shut_down();
        }
    }
}

/// The simulation the calling thread belongs to.
pub(crate) fn current() -> Option<Arc<World>> {
    // A destructor of a thread-local value may ask when this one is gone already.
    let world = |member: &RefCell<Option<Membership>>| {
        member.borrow().as_ref().map(|member| Arc::clone(&member.world))
    };
    SELF.try_with(world).ok().flatten()
}

/// [`current`], if computing takes time there.
pub(crate) fn charging_world() -> Option<Arc<World>> {
    let world = |member: &RefCell<Option<Membership>>| {
        let member = member.borrow();
        let world = &member.as_ref()?.world;
        world.charges.load(Ordering::Relaxed).then(|| Arc::clone(world))
    };
    SELF.try_with(world).ok().flatten()
}

/// The carrier that the calling thread is.
fn this_carrier() -> Arc<Carrier> {
    SELF.with_borrow(|member| member.as_ref().map(|member| Arc::clone(&member.carrier)))
        .unwrap_or_default()
}

/// The calling thread is no carrier any more.
fn forget_this_carrier() {
    let member = SELF.take();
    drop(member);
}

/// Begins a simulation with the calling thread; one that it began earlier is over.
pub(crate) fn begin(seed: u64) -> Arc<World> {
    leave();
    let mut seeds = Xoshiro256::seeded(seed);
    let mut stream = || Xoshiro256::seeded(seeds.next_u64());
    let carrier = Arc::<Carrier>::default();
    let root = Thread { carrier: Some(Arc::clone(&carrier)), ..Thread::new("main") };
    let state = State {
        now: Duration::ZERO,
        threads: vec![root],
        vacant: Vec::new(),
        runnable: Vec::new(),
        events: BTreeMap::new(),
        count: 0,
        switches: 0,
        chooser: stream(),
        random: stream(),
        processors: None,
        calling: false,
        crews: BTreeMap::from([(SPAWNED, Carriers::default())]),
        crew_count: SPAWNED,
        live: 0,
        over: None,
    };
    let world = Arc::new(World {
        seed,
        state: Mutex::new(state),
        now: AtomicU64::new(0),
        charges: AtomicBool::new(false),
        left: Condvar::new(),
    });
    let world2 = Arc::clone(&world);
    let (is_root, _processor) = (true, OneProcessor::keep());
    SELF.set(Some(Membership { world: world2, carrier, id: ROOT, is_root, _processor }));
    world
}

/// Ends the simulation that the calling thread began, if it did.
pub(crate) fn leave() {
    let root = SELF.with_borrow(|member| member.as_ref().map(|member| member.is_root));
    assert!(root != Some(false), "a thread of a simulation cannot begin or end one");
    // Its destructor waits for threads, and must not hold the cell.
    forget_this_carrier();
}

impl Thread {
    fn new(name: &str) -> Self {
        Self {
            name: Arc::from(name),
            carrier: None,
            crew: SPAWNED,
            mark: 0,
            at: Standing::Ready,
            timer: None,
            timed_out: false,
            look: None,
        }
    }
}

impl State {
    /// Asks for an event.
    fn add(&mut self, time: Duration, event: Event) -> (Duration, u64) {
        let key = (time.max(self.now), self.count);
        self.count += 1;
        self.events.insert(key, event);
        key
    }

    /// Ends a thread's wait: it could run.
    fn wake(&mut self, id: ThreadId, timed_out: bool) {
        let thread = &mut self.threads[id];
        let timer = thread.timer.take();
        (thread.at, thread.timed_out) = (Standing::Ready, timed_out);
        if let Some(timer) = timer {
            self.events.remove(&timer);
        }
        self.runnable.push(id);
    }

    /// It is over: every carrier goes through its gate, and finds out.
    fn end(&mut self, why: &str) {
        if self.over.is_none() {
            self.over = Some(Arc::from(why));
            self.threads.iter().flat_map(|thread| &thread.carrier).for_each(|c| c.open());
            self.crews.values_mut().flat_map(|crew| crew.free.drain(..)).for_each(|c| c.open());
        }
    }

    /// Adds a thread, which could run from now on.
    fn register(&mut self, name: &str) -> ThreadId {
        let thread = Thread::new(name);
        let id = match self.vacant.pop() {
            Some(id) => {
                self.threads[id] = thread;
                id
            }
            None => {
                self.threads.push(thread);
                self.threads.len() - 1
            }
        };
        self.runnable.push(id);
        id
    }

    fn vacate(&mut self, id: ThreadId) {
        let thread = &mut self.threads[id];
        (thread.at, thread.carrier) = (Standing::Ended, None);
        self.vacant.push(id);
    }

    /// A thread that has no carrier gets this one.
    fn pick_up(&mut self, id: ThreadId, carrier: &Arc<Carrier>) {
        let thread = &mut self.threads[id];
        thread.carrier = Some(Arc::clone(carrier));
        carrier.carry(id);
        if let Some(crew) = self.crews.get_mut(&thread.crew) {
            crew.standing -= 1;
        }
    }

    /// The carrier of a thread that is to run; `None`: there is none, and the simulation is over.
    fn carrier_of(&mut self, id: ThreadId) -> Option<Arc<Carrier>> {
        let Thread { carrier, crew, .. } = &self.threads[id];
        if let Some(carrier) = carrier {
            return Some(Arc::clone(carrier));
        }
        let free = self.crews.get_mut(crew).and_then(|crew| crew.free.pop());
        match &free {
            Some(carrier) => self.pick_up(id, carrier),
            None => self.end("the system gave no thread for one that has to run"),
        }
        free
    }

    /// Which thread waits where, a line each.
    fn places(&self) -> String {
        let mut text = String::new();
        for (id, thread) in self.threads.iter().enumerate() {
            let what = match thread.at {
                Standing::Ready => "is ready".to_owned(),
                Standing::Waits(place) => format!("waits at {place}"),
                Standing::Sleeps(place) => format!("sleeps at {place}"),
                Standing::Ended => continue,
            };
            text.push_str(&format!("\n  {id} `{}` {what}", thread.name));
        }
        text
    }
}

impl World {
    pub(crate) fn now(&self) -> Duration {
        match self.now.load(Ordering::Relaxed) {
            // In five hundred years.
            u64::MAX => self.state.lock().now,
            nanos => Duration::from_nanos(nanos),
        }
    }

    pub(crate) fn wall(&self) -> Duration {
        WALL_ORIGIN + self.now()
    }

    pub(crate) fn fill_random(&self, buf: &mut [u8]) {
        self.state.lock().random.fill(buf);
    }

    /// Calls `callback` at a later time, on whatever thread comes to it.
    pub(crate) fn after(&self, delay: Duration, callback: Callback) {
        let mut state = self.state.lock();
        let time = state.now.saturating_add(delay);
        if state.over.is_none() {
            state.add(time, Event::Call(callback));
        }
    }

    #[track_caller]
    pub(crate) fn sleep(&self, duration: Duration) {
        let me = self.this_thread();
        let mut state = self.state.lock();
        let time = state.now.saturating_add(duration);
        let timer = state.add(time, Event::Wake(me));
        let thread = &mut state.threads[me];
        (thread.at, thread.timer) = (Standing::Sleeps(Location::caller()), Some(timer));
        self.stand(state, me);
    }

    pub(crate) fn set_cpu(&self, model: Option<CpuModel>) {
        let charges = model.as_ref().is_some_and(CpuModel::charges);
        self.state.lock().processors = model.map(Processors::new);
        self.charges.store(charges, Ordering::Relaxed);
    }

    pub(crate) fn cpu_busy(&self) -> Duration {
        self.state.lock().processors.as_ref().map_or(Duration::ZERO, Processors::busy)
    }

    pub(crate) fn processors(&self) -> usize {
        self.state.lock().processors.as_ref().map_or(WORKERS, Processors::count)
    }

    /// Waits while a processor does this work. A callback of a timer works for nothing: it must not
    /// wait.
    #[track_caller]
    pub(crate) fn charge(&self, kind: usize, bytes: u64) {
        let mut state = self.state.lock();
        let (now, calling) = (state.now, state.calling);
        let Some(processors) = state.processors.as_mut().filter(|_| !calling) else { return };
        let time = processors.occupy(now, kind, bytes);
        drop(state);
        if !time.is_zero() {
            self.sleep(time);
        }
    }

    #[track_caller]
    pub(crate) fn yield_now(&self) {
        let me = self.this_thread();
        let mut state = self.state.lock();
        state.wake(me, false);
        self.stand(state, me);
    }

    /// Waits on a condition variable whose waiting threads these are; returns whether the deadline
    /// ended it.
    #[track_caller]
    pub(crate) fn wait<T>(
        &self,
        waiting: &Mutex<Vec<ThreadId>>,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Duration>,
        look: Option<Arc<Look>>,
    ) -> bool {
        let (me, place) = (self.this_thread(), Location::caller());
        waiting.lock().push(me);
        let mutex = MutexGuard::mutex(guard);
        // No other thread runs, so none can notify between the line above and the wait.
        let timed_out = MutexGuard::unlocked(guard, || {
            let mut state = self.state.lock();
            // The last moment of all is never: else time would jump there instead of a deadlock.
            let deadline = deadline.filter(|deadline| *deadline < Duration::MAX);
            let timer = deadline.map(|deadline| state.add(deadline, Event::Wake(me)));
            let thread = &mut state.threads[me];
            (thread.at, thread.timer) = (Standing::Waits(place), timer);
            thread.look = look;
            let timed_out = self.stand(state, me);
            if mutex.is_locked() {
                // Then the thread that keeps it unwinds too, and we can have it.
                let why = format!("the lock at {place} was kept across a wait by another thread");
                self.state.lock().end(&why);
                return self.unwind();
            }
            timed_out
        });
        // The thread that notified has taken this one from the list; a deadline has not.
        if timed_out {
            waiting.lock().retain(|id| *id != me);
        }
        timed_out
    }

    /// Ends the wait of one of these threads, which the seed chooses, or of all.
    pub(crate) fn notify(&self, waiting: &Mutex<Vec<ThreadId>>, all: bool) {
        let mut waiting = waiting.lock();
        if waiting.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if all {
            waiting.drain(..).for_each(|id| state.wake(id, false));
        } else {
            let chosen = state.chooser.below(waiting.len() as u64) as usize;
            state.wake(waiting.swap_remove(chosen), false);
        }
    }

    /// The calling thread's place.
    #[track_caller]
    fn this_thread(&self) -> ThreadId {
        let id = SELF.with_borrow(|member| {
            member.as_ref().filter(|m| core::ptr::eq(&raw const *m.world, self)).map(|m| m.id)
        });
        assert!(!self.state.lock().calling, "a timer's callback must not wait");
        id.unwrap_or_else(|| panic!("a thread that is not of this simulation waits in it"))
    }

    /// Lets the next one run, and returns when it is this thread's turn again. Returns whether a
    /// timer made it its turn.
    fn stand<'a>(&'a self, state: MutexGuard<'a, State>, me: ThreadId) -> bool {
        let (mut state, next) = self.choose(state);
        if let Some(next) = next.filter(|next| *next != me)
            && let Some(carrier) = state.carrier_of(next)
        {
            drop(state);
            carrier.open();
            self.stand_at(&this_carrier(), me < WATCHERS);
            state = self.state.lock();
        }
        if state.over.is_some() {
            drop(state);
            return self.unwind();
        }
        state.threads[me].timed_out
    }

    /// Lets the next one run, by a carrier of this crew that has put its thread down. Returns the
    /// thread that it is to go on with; `None`: it is not needed any more.
    fn carry_next(&self, state: MutexGuard<'_, State>, crew: CrewId) -> Option<ThreadId> {
        let (mut state, next) = self.choose(state);
        let mut next = next?;
        let mine = this_carrier();
        let thread = &state.threads[next];
        if thread.carrier.is_none() && thread.crew == crew {
            state.pick_up(next, &mine);
        } else {
            mine.put_down();
            if let Some(crew) = state.crews.get_mut(&crew) {
                crew.free.push(Arc::clone(&mine));
            }
            let carrier = state.carrier_of(next);
            drop(state);
            carrier.iter().for_each(|carrier| carrier.open());
            self.stand_at(&mine, false);
            next = mine.carries()?;
            state = self.state.lock();
        }
        if state.over.is_some() {
            return None;
        }
        let mark = state.threads[next].mark;
        drop(state);
        self.go_on_with(next, mark);
        Some(next)
    }

    /// The calling carrier has another thread from now on.
    fn go_on_with(&self, id: ThreadId, mark: u8) {
        SELF.with_borrow_mut(|member| member.iter_mut().for_each(|member| member.id = id));
        crate::replace_mark(mark);
    }

    /// Time goes on to here, unless it is there already.
    fn set_now(&self, state: &mut State, time: Duration) {
        state.now = state.now.max(time);
        let nanos = u64::try_from(state.now.as_nanos()).unwrap_or(u64::MAX);
        self.now.store(nanos, Ordering::Relaxed);
    }

    /// Time goes on, and nothing happens meanwhile.
    pub(crate) fn stand_still(&self, duration: Duration) {
        let mut state = self.state.lock();
        let until = state.now.saturating_add(duration);
        self.set_now(&mut state, until);
    }

    /// Decides which thread is next; `None` when the simulation is over.
    fn choose<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, Option<ThreadId>) {
        loop {
            if state.over.is_some() {
                return (state, None);
            }
            let mut due = state.events.first_key_value().map(|(key, _)| key.0);
            if state.runnable.is_empty() {
                match due {
                    // What is late is due now.
                    Some(time) => self.set_now(&mut state, time),
                    None => {
                        let (now, places) = (state.now, state.places());
                        state.end(&format!("deadlock after {now:?}: all threads wait{places}"));
                        continue;
                    }
                }
            }
            due = due.filter(|time| *time <= state.now);
            let (ready, timers) = (state.runnable.len(), usize::from(due.is_some()));
            let chosen = state.chooser.below((ready + timers) as u64) as usize;
            if chosen < ready {
                let next = state.runnable.swap_remove(chosen);
                if let Some(look) = state.threads[next].look.clone() {
                    drop(state);
                    let waits_on = !(look.is_over)();
                    if waits_on {
                        look.waiting.lock().push(next);
                    }
                    state = self.state.lock();
                    if waits_on {
                        state.threads[next].at = Standing::Waits(look.place);
                        continue;
                    }
                    state.threads[next].look = None;
                }
                state.switches += 1;
                return (state, Some(next));
            }
            match state.events.pop_first().map(|(_, event)| event) {
                Some(Event::Wake(id)) => state.wake(id, true),
                Some(Event::Call(callback)) => state = self.call(state, callback),
                None => {}
            }
        }
    }

    /// Calls what a timer calls.
    fn call<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        callback: Callback,
    ) -> MutexGuard<'a, State> {
        state.calling = true;
        drop(state);
        let result = catch_unwind(AssertUnwindSafe(callback));
        state = self.state.lock();
        state.calling = false;
        if let Err(payload) = result {
            let words = Panicked::of(&*payload).message;
            state.end(&format!("a timer's callback panicked: {words}"));
        }
        state
    }

    /// Waits until the gate is open, and closes it again.
    fn stand_at(&self, carrier: &Carrier, watches: bool) {
        let mut seen = None;
        while !carrier.pass(watches.then_some(WATCHDOG)) {
            let mut state = self.state.lock();
            if seen == Some(state.switches) {
                let text = "a thread has not come back for a minute: it computes for long, or \
                            waits outside the simulation, perhaps for a lock that another keeps \
                            across one of these waits";
                let places = state.places();
                state.end(&format!("{text}{places}"));
            }
            seen = Some(state.switches);
        }
    }

    /// Whether the simulation is over.
    fn is_over(&self) -> bool {
        self.state.lock().over.is_some()
    }

    /// A wait in a simulation that is over.
    fn unwind(&self) -> bool {
        let is_root = SELF.with_borrow(|member| member.as_ref().is_some_and(|m| m.is_root));
        if thread::panicking() {
            // A destructor waits: another panic would abort the process. Its wait returns at once,
            // a bounded number of times, lest it waits forever.
            thread_local!(static LEFT: RefCell<u32> = const { RefCell::new(PATIENCE) });
            let left = LEFT.with_borrow_mut(|left| {
                *left = left.saturating_sub(1);
                *left
            });
            assert!(left > 0 || !is_root, "a destructor waits for a simulation that is over");
            if left > 0 {
                return true;
            }
            loop {
                thread::park();
            }
        }
        let why = self.state.lock().over.clone();
        match why {
            Some(why) if is_root => {
                panic!("the simulation of seed {} is over: {why}", self.seed)
            }
            _ => resume_unwind(Box::new(SimulationOver)),
        }
    }

    /// The thread that the calling carrier has ended with a panic.
    fn panicked(&self, payload: &(dyn Any + Send)) {
        let me = self.this_thread();
        let mut state = self.state.lock();
        let (name, words) = (&state.threads[me].name, Panicked::of(payload).message);
        let why = format!("thread `{name}` panicked: {words}");
        state.end(&why);
    }

    /// The begin of a carrier: it waits until it is needed. Returns whether it is, and not only
    /// because the simulation is over.
    fn arrive(self: &Arc<Self>, carrier: &Arc<Carrier>) -> bool {
        let (world, own) = (Arc::clone(self), Arc::clone(carrier));
        let (is_root, _processor) = (false, None);
        SELF.set(Some(Membership { world, carrier: own, id: ROOT, is_root, _processor }));
        self.stand_at(carrier, false);
        let Some(id) = carrier.carries() else { return false };
        let (is_over, mark) = {
            let state = self.state.lock();
            (state.over.is_some(), state.threads[id].mark)
        };
        self.go_on_with(id, mark);
        !is_over
    }

    /// The life of a carrier of spawned threads, one after the other. A panic of one ends the
    /// simulation.
    fn serve(self: &Arc<Self>, carrier: &Arc<Carrier>) {
        let mut goes_on = self.arrive(carrier);
        while let Some(body) = carrier.take_body() {
            // Not called, its captures are dropped, which is how others learn that it never ran.
            let result =
                catch_unwind(AssertUnwindSafe(|| if goes_on { body() } else { drop(body) }));
            if let Err(payload) = result
                && !payload.is::<SimulationOver>()
            {
                self.panicked(&*payload);
            }
            let me = self.this_thread();
            let mut state = self.state.lock();
            state.vacate(me);
            goes_on = self.carry_next(state, SPAWNED).is_some();
        }
        self.state.lock().live -= 1;
        self.left.notify_all();
        forget_this_carrier();
    }

    /// Starts a thread.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        let id = state.register(name);
        let free = state.crews.get_mut(&SPAWNED).and_then(|crew| crew.free.pop());
        let is_new = free.is_none();
        let carrier = free.unwrap_or_default();
        carrier.begin(id, Box::new(body));
        state.threads[id].carrier = Some(Arc::clone(&carrier));
        if !is_new {
            return Ok(());
        }
        state.live += 1;
        if state.over.is_some() {
            carrier.open();
        }
        drop(state);
        let world = Arc::clone(self);
        let started = crate::thread::spawn(name, move || world.serve(&carrier));
        if started.is_err() {
            let mut state = self.state.lock();
            state.runnable.retain(|other| *other != id);
            state.vacate(id);
            state.live -= 1;
        }
        started.map(drop)
    }

    /// Ends the simulation, by the root.
    fn shut_down(&self) {
        let mut state = self.state.lock();
        state.end("the thread that began it has left it");
        while state.live > 0 {
            if self.left.wait_for(&mut state, UNWINDING_MAX).timed_out() {
                break;
            }
        }
        // They may hold what holds this simulation.
        let events = core::mem::take(&mut state.events);
        let looks: Vec<_> = state.threads.iter_mut().map(|thread| thread.look.take()).collect();
        drop(state);
        drop((events, looks));
    }
}
