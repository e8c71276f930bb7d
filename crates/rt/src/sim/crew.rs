//! Work on many threads of a simulation ([`Rt::for_each_parallel`](crate::Rt::for_each_parallel)).
//!
//! Its threads, the *crew*, go through one loop: draw an item, work on it, let others run. At the
//! top of the loop there is nothing by which one differs from the next but its place in the
//! simulation. So a carrier that comes to the top puts its thread down there and, when the seed
//! chooses one of the same crew that stands there too, goes on with that one: as many threads take
//! turns, and no carrier waits for another. Work that never waits is done by the caller's carrier
//! alone; another one of the crew waits for the case that it does, and is started when it is the
//! last to begin some work.
//!
//! The caller's thread ends its loop on any carrier, and goes home then: to the one it came with,
//! on which everything below the call is.

use super::carrier::Carrier;
use super::{CrewId, State, ThreadId, World};
use parking_lot::Mutex;
use std::any::Any;
use std::iter::Fuse;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::thread::Scope;

/// Carriers of a crew.
#[derive(Default)]
pub(super) struct Carriers {
    /// Those that carry none.
    pub(super) free: Vec<Arc<Carrier>>,
    /// Threads that stand at the top of the loop, with no carrier.
    pub(super) standing: usize,
}

/// What the threads of a crew share.
struct Crew<'a, I, F, E> {
    world: &'a Arc<World>,
    number: CrewId,
    caller: ThreadId,
    /// The carrier that the caller came with.
    home: Arc<Carrier>,
    items: Mutex<Fuse<I>>,
    /// Threads that wait for the iterator: its `next` may wait itself, with the lock held.
    waiting: Mutex<Vec<ThreadId>>,
    turn: Mutex<()>,
    work: F,
    failure: Mutex<Option<E>>,
    stop: Mutex<bool>,
    /// Threads beside the caller's that have not ended.
    others: Mutex<usize>,
    /// The caller's, when it waits for them.
    parent: Mutex<Vec<ThreadId>>,
    /// What the caller's own share panicked with.
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
}

impl World {
    /// See the head of the file.
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
        let caller = self.this_thread();
        let crew = Crew {
            world: self,
            number: self.new_crew(workers - 1),
            caller,
            home: super::this_carrier(),
            items: Mutex::new(items.into_iter().fuse()),
            waiting: Mutex::default(),
            turn: Mutex::default(),
            work,
            failure: Mutex::new(None),
            stop: Mutex::new(false),
            others: Mutex::new(workers - 1),
            parent: Mutex::default(),
            panicked: Mutex::new(None),
        };
        thread::scope(|scope| {
            crew.carry(scope, &crew.home);
            self.end_crew(crew.number);
        });
        if let Some(payload) = crew.panicked.into_inner() {
            resume_unwind(payload);
        }
        crew.failure.into_inner().map_or(Ok(()), Err)
    }

    /// Adds a crew with this many threads beside the caller's, which could run from now on.
    fn new_crew(&self, others: usize) -> CrewId {
        let mut state = self.state.lock();
        state.crew_count += 1;
        let crew = state.crew_count;
        for _ in 0..others {
            let id = state.register("worker");
            state.threads[id].crew = crew;
        }
        state.crews.insert(crew, Carriers { free: Vec::new(), standing: others });
        crew
    }

    /// Lets its carriers go.
    fn end_crew(&self, crew: CrewId) {
        let ended = self.state.lock().crews.remove(&crew);
        ended.into_iter().flat_map(|crew| crew.free).for_each(Carrier::dismiss);
    }

    /// The calling thread is at the top of its crew's loop, and lets others run. Returns when its
    /// carrier has a thread of the crew to go on with, which may be another one; `false`: it is not
    /// needed any more.
    fn take_turns(&self, crew: CrewId) -> bool {
        let me = self.this_thread();
        let mut state = self.state.lock();
        state.wake(me, false);
        state.put_down(me, crew);
        let next = self.carry_next(state, crew);
        if next.is_none() && self.is_over() {
            self.unwind();
        }
        next.is_some()
    }

    /// The caller's thread, at the end of its loop, goes on where it came from.
    fn go_home(&self, caller: ThreadId, home: &Arc<Carrier>, crew: CrewId) {
        let mut state = self.state.lock();
        if let Some(crew) = state.crews.get_mut(&crew) {
            crew.free.retain(|carrier| !Arc::ptr_eq(carrier, home));
        }
        state.threads[caller].mark = crate::mark();
        state.threads[caller].carrier = Some(Arc::clone(home));
        drop(state);
        home.carry(caller);
        home.open();
    }
}

impl State {
    /// A thread stands at the top of its crew's loop from now on.
    fn put_down(&mut self, id: ThreadId, crew: CrewId) {
        let thread = &mut self.threads[id];
        (thread.carrier, thread.crew, thread.mark) = (None, crew, crate::mark());
        if let Some(crew) = self.crews.get_mut(&crew) {
            crew.standing += 1;
        }
    }
}

impl<I, F, E> Crew<'_, I, F, E>
where
    I: Iterator + Send,
    F: Fn(I::Item) -> Result<(), E> + Sync,
    E: Send,
{
    /// The next item.
    fn next(&self) -> Option<I::Item> {
        loop {
            if let Some(mut items) = self.items.try_lock() {
                let item = items.next();
                drop(items);
                self.world.notify(&self.waiting, true);
                return item;
            }
            self.world.wait(&self.waiting, &mut self.turn.lock(), None, None);
        }
    }

    /// Goes through the loop with the thread that this carrier has, and with those for which it is
    /// exchanged, until one of them is at the end of its own; `false`: the carrier is not needed
    /// any more. To go through it once more with a thread that was at the end changes nothing.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> bool {
        while !*self.stop.lock() {
            self.reserve(scope);
            let Some(item) = self.next() else { break };
            if let Err(error) = (self.work)(item) {
                self.failure.lock().get_or_insert(error);
                *self.stop.lock() = true;
            }
            if !self.world.take_turns(self.number) {
                return false;
            }
        }
        true
    }

    /// Sees to it that there is a carrier for the others, should this one's thread wait.
    fn reserve<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let carrier = {
            let state = &mut *self.world.state.lock();
            let Some(crew) = state.crews.get_mut(&self.number) else { return };
            if crew.standing == 0 || !crew.free.is_empty() || state.over.is_some() {
                return;
            }
            let carrier = Arc::<Carrier>::default();
            crew.free.push(Arc::clone(&carrier));
            carrier
        };
        let world = Arc::clone(self.world);
        let carrier2 = Arc::clone(&carrier);
        let body = move || {
            if world.arrive(&carrier2) {
                // It ends with a panic only when the simulation is over.
                let _ = catch_unwind(AssertUnwindSafe(|| self.carry(scope, &carrier2)));
            }
            super::forget_this_carrier();
        };
        let thread = thread::Builder::new().name("worker".to_owned());
        if thread.spawn_scoped(scope, body).is_err() {
            let mut state = self.world.state.lock();
            if let Some(crew) = state.crews.get_mut(&self.number) {
                crew.free.retain(|free| !Arc::ptr_eq(free, &carrier));
            }
        }
    }

    /// The life of a carrier in the crew, which has a thread of it.
    fn carry<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, carrier: &Arc<Carrier>) {
        let is_home = Arc::ptr_eq(carrier, &self.home);
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.work(scope))) {
                Ok(true) => {}
                Ok(false) => return,
                Err(payload) if self.world.is_over() => resume_unwind(payload),
                Err(payload) if self.world.this_thread() == self.caller => {
                    *self.panicked.lock() = Some(payload);
                    *self.stop.lock() = true;
                }
                Err(payload) => {
                    self.world.panicked(&*payload);
                    self.world.unwind();
                }
            }
            let me = self.world.this_thread();
            if me == self.caller {
                // In virtual time first: the scope's own waiting would stop it.
                let mut others = self.others.lock();
                while *others > 0 {
                    self.world.wait(&self.parent, &mut others, None, None);
                }
                if !is_home {
                    self.world.go_home(me, &self.home, self.number);
                }
                return;
            }
            *self.others.lock() -= 1;
            self.world.notify(&self.parent, true);
            let mut state = self.world.state.lock();
            state.vacate(me);
            if self.world.carry_next(state, self.number).is_none() {
                if self.world.is_over() {
                    self.world.unwind();
                }
                return;
            }
        }
    }
}
