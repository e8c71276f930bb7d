//! Simulations: real threads, one at a time, in virtual time, replayed from a seed.
//!
//! The threads are the operating system's, each waiting at a *gate* of its own. One gate is open:
//! the thread that is through it runs, all others stand. A thread that has to wait (a condition
//! variable, a sleep, a join, a yield) decides, before it stands, which is next:
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
use core::panic::Location;
use core::time::Duration;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

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
    /// Threads besides the root that have not left.
    live: usize,
    /// Why it is over.
    over: Option<Arc<str>>,
}

struct Thread {
    name: Arc<str>,
    gate: Arc<Gate>,
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

/// The gate at which one thread waits while others run.
///
/// There are two passages for each microsecond or two that a simulation computes, so a passage is
/// a flag and the cheapest way there is to wake a thread.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    /// The thread that waits here, since it first did.
    thread: OnceLock<thread::Thread>,
}

impl Gate {
    fn open(&self) {
        self.is_open.store(true, Ordering::Release);
        // A thread that comes here for the first time: either it is seen, or it sees the flag.
        fence(Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Waits until it is open, and closes it; or `patience` long. Returns whether it was open.
    fn pass(&self, patience: Duration) -> bool {
        if self.thread.get().is_none() {
            // No other thread waits at this gate.
            let _ = self.thread.set(thread::current());
            fence(Ordering::SeqCst);
        }
        if self.is_open.swap(false, Ordering::Acquire) {
            return true;
        }
        let begin = Instant::now();
        let mut waited = Duration::ZERO;
        while waited < patience {
            thread::park_timeout(patience - waited);
            if self.is_open.swap(false, Ordering::Acquire) {
                return true;
            }
            // Unparked for something else.
            waited = begin.elapsed();
        }
        false
    }
}

thread_local! {
    /// Which thread of which simulation this is.
    static SELF: RefCell<Option<Membership>> = const { RefCell::new(None) };
}

struct Membership {
    world: Arc<World>,
    id: ThreadId,
    /// The root's: all threads come from it.
    _processor: Option<OneProcessor>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.id == ROOT {
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

/// Begins a simulation with the calling thread; one that it began earlier is over.
pub(crate) fn begin(seed: u64) -> Arc<World> {
    leave();
    let mut seeds = Xoshiro256::seeded(seed);
    let mut stream = || Xoshiro256::seeded(seeds.next_u64());
    let state = State {
        now: Duration::ZERO,
        threads: vec![Thread::new("main")],
        vacant: Vec::new(),
        runnable: Vec::new(),
        events: BTreeMap::new(),
        count: 0,
        switches: 0,
        chooser: stream(),
        random: stream(),
        processors: None,
        calling: false,
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
    let member = Membership { world: world2, id: ROOT, _processor: OneProcessor::keep() };
    SELF.set(Some(member));
    world
}

/// Ends the simulation that the calling thread began, if it did.
pub(crate) fn leave() {
    let root = SELF.with_borrow(|member| member.as_ref().map(|member| member.id == ROOT));
    assert!(root != Some(false), "a thread of a simulation cannot begin or end one");
    // Taken out first: its destructor waits for threads, and must not hold the cell.
    let member = SELF.take();
    drop(member);
}

impl Thread {
    fn new(name: &str) -> Self {
        let gate = Arc::default();
        let (timer, timed_out, look) = (None, false, None);
        Self { name: Arc::from(name), gate, at: Standing::Ready, timer, timed_out, look }
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

    /// It is over: every thread goes through its gate, and finds out.
    fn end(&mut self, why: &str) {
        if self.over.is_none() {
            self.over = Some(Arc::from(why));
            self.threads.iter().for_each(|thread| thread.gate.open());
        }
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
        self.stand(state, Some(me));
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
        self.stand(state, Some(me));
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
            let timed_out = self.stand(state, Some(me));
            if mutex.is_locked() {
                // Then the thread that keeps it unwinds too, and we can have it.
                let why = format!("the lock at {place} was kept across a wait by another thread");
                self.state.lock().end(&why);
                return self.unwind(me);
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

    /// Lets the next one run, and returns when it is this thread's turn again; at once for a thread
    /// that leaves (`None`). Returns whether a timer made it its turn.
    fn stand<'a>(&'a self, mut state: MutexGuard<'a, State>, me: Option<ThreadId>) -> bool {
        loop {
            if state.over.is_some() {
                drop(state);
                // A thread that leaves is let go.
                return me.is_some_and(|me| self.unwind(me));
            }
            let mut due = state.events.first_key_value().map(|(key, _)| key.0);
            if state.runnable.is_empty() {
                match due {
                    Some(time) => {
                        state.now = time;
                        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                        self.now.store(nanos, Ordering::Relaxed);
                    }
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
                return self.pass(state, next, me);
            }
            match state.events.pop_first().map(|(_, event)| event) {
                Some(Event::Wake(id)) => state.wake(id, true),
                Some(Event::Call(callback)) => {
                    state.calling = true;
                    drop(state);
                    let result = catch_unwind(AssertUnwindSafe(callback));
                    state = self.state.lock();
                    state.calling = false;
                    if let Err(payload) = result {
                        let words = Panicked::of(&*payload).message;
                        state.end(&format!("a timer's callback panicked: {words}"));
                    }
                }
                None => {}
            }
        }
    }

    /// Opens `next`'s gate and, if that is not `me`, waits at mine.
    fn pass<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        next: ThreadId,
        me: Option<ThreadId>,
    ) -> bool {
        state.switches += 1;
        if Some(next) != me {
            let gate = Arc::clone(&state.threads[next].gate);
            let mine = me.map(|me| Arc::clone(&state.threads[me].gate));
            drop(state);
            gate.open();
            match mine {
                Some(mine) => self.stand_at(&mine),
                None => return false,
            }
            state = self.state.lock();
        }
        let Some(me) = me else { return false };
        if state.over.is_some() {
            drop(state);
            return self.unwind(me);
        }
        state.threads[me].timed_out
    }

    /// Waits until the gate is open, and closes it again.
    fn stand_at(&self, gate: &Gate) {
        let mut seen = None;
        while !gate.pass(WATCHDOG) {
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

    /// A wait in a simulation that is over.
    fn unwind(&self, me: ThreadId) -> bool {
        if thread::panicking() {
            // A destructor waits: another panic would abort the process. Its wait returns at once,
            // a bounded number of times, lest it waits forever.
            thread_local!(static LEFT: RefCell<u32> = const { RefCell::new(PATIENCE) });
            let left = LEFT.with_borrow_mut(|left| {
                *left = left.saturating_sub(1);
                *left
            });
            assert!(left > 0 || me != ROOT, "a destructor waits for a simulation that is over");
            if left > 0 {
                return true;
            }
            loop {
                thread::park();
            }
        }
        let why = self.state.lock().over.clone();
        match why {
            Some(why) if me == ROOT => {
                panic!("the simulation of seed {} is over: {why}", self.seed)
            }
            _ => resume_unwind(Box::new(SimulationOver)),
        }
    }

    /// Adds a thread, which could run from now on.
    pub(crate) fn register(&self, name: &str) -> ThreadId {
        let mut state = self.state.lock();
        let thread = Thread::new(name);
        if state.over.is_some() {
            thread.gate.open();
        }
        let id = match state.vacant.pop() {
            Some(id) => {
                state.threads[id] = thread;
                id
            }
            None => {
                state.threads.push(thread);
                state.threads.len() - 1
            }
        };
        state.live += 1;
        state.runnable.push(id);
        id
    }

    /// Takes back a registration that came to nothing.
    pub(crate) fn unregister(&self, id: ThreadId) {
        let mut state = self.state.lock();
        state.runnable.retain(|other| *other != id);
        self.vacate(&mut state, id);
    }

    fn vacate(&self, state: &mut State, id: ThreadId) {
        state.threads[id].at = Standing::Ended;
        state.vacant.push(id);
        state.live -= 1;
        self.left.notify_all();
    }

    /// The life of a registered thread, on the thread itself. A panic of `body` ends the
    /// simulation.
    pub(crate) fn run(self: &Arc<Self>, id: ThreadId, body: impl FnOnce()) {
        SELF.set(Some(Membership { world: Arc::clone(self), id, _processor: None }));
        let (gate, name) = {
            let state = self.state.lock();
            (Arc::clone(&state.threads[id].gate), Arc::clone(&state.threads[id].name))
        };
        self.stand_at(&gate);
        let over = self.state.lock().over.is_some();
        // Not called, its captures are dropped, which is how others learn that it never ran.
        let result = catch_unwind(AssertUnwindSafe(|| if over { drop(body) } else { body() }));
        let mut state = self.state.lock();
        if let Err(payload) = result
            && !payload.is::<SimulationOver>()
        {
            let words = Panicked::of(&*payload).message;
            state.end(&format!("thread `{name}` panicked: {words}"));
        }
        self.vacate(&mut state, id);
        self.stand(state, None);
        SELF.set(None);
    }

    /// Starts a thread.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let id = self.register(name);
        let world = Arc::clone(self);
        match crate::thread::spawn(name, move || world.run(id, body)) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.unregister(id);
                Err(error)
            }
        }
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

    /// [`Rt::for_each_parallel`](crate::Rt::for_each_parallel) on threads of this simulation.
    pub(crate) fn for_each_parallel<I, F, E>(
        self: &Arc<Self>,
        workers: usize,
        items: I,
        work: F,
    ) -> Result<(), E>
    where
        I: IntoIterator,
        I::IntoIter: Send,
        F: Fn(I::Item) -> Result<(), E> + Sync,
        E: Send,
    {
        let workers = if workers == 0 { self.processors() } else { workers };
        let items = Mutex::new(items.into_iter().fuse());
        // Threads that wait for the iterator: its `next` may wait itself, with the lock held.
        let waiting = Mutex::new(Vec::new());
        let turn = Mutex::new(());
        let next = || {
            loop {
                if let Some(mut items) = items.try_lock() {
                    let item = items.next();
                    drop(items);
                    self.notify(&waiting, true);
                    return item;
                }
                self.wait(&waiting, &mut turn.lock(), None, None);
            }
        };
        let (failure, stop) = (Mutex::new(None), Mutex::new(false));
        let run = || {
            while !*stop.lock() {
                let Some(item) = next() else { break };
                if let Err(error) = work(item) {
                    failure.lock().get_or_insert(error);
                    *stop.lock() = true;
                }
                self.yield_now();
            }
        };
        let (others, parent) = (Mutex::new(0usize), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 1..workers {
                let id = self.register("worker");
                let world = Arc::clone(self);
                let (run, others, parent) = (&run, &others, &parent);
                let body = move || {
                    run();
                    *others.lock() -= 1;
                    world.notify(parent, true);
                };
                let world = Arc::clone(self);
                let thread = thread::Builder::new().name("worker".to_owned());
                // Fewer threads are as good here.
                if thread.spawn_scoped(scope, move || world.run(id, body)).is_err() {
                    self.unregister(id);
                    break;
                }
                *others.lock() += 1;
            }
            let mine = catch_unwind(AssertUnwindSafe(run));
            *stop.lock() |= mine.is_err();
            // In virtual time first: the scope's own waiting would stop it.
            let mut others = others.lock();
            while *others > 0 {
                self.wait(&parent, &mut others, None, None);
            }
            mine.unwrap_or_else(|payload| resume_unwind(payload));
        });
        failure.into_inner().map_or(Ok(()), Err)
    }
}
