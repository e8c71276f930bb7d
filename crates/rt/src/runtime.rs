//! The runtime that is passed in: one handle for time, waiting, threads and randomness.
//!
//! Engine code takes an [`Rt`] and does not know which kind it is. In *real* mode everything is the
//! operating system's. In a *simulation* ([`Rt::simulate`]) the same code runs in virtual time, one
//! thread at a time, and a seed decides every choice: which thread runs next at each wait, and
//! every random number. The same program and seed give the same run. For that, code on the engine's
//! side has to keep three rules:
//!
//! - wait only through this handle: [`Condvar`], [`Rt::sleep`], [`Task::join`],
//!   [`Rt::for_each_parallel`]; never through channels, barriers, the standard library, or a loop
//!   that spins (computing takes no time there, so the clock would stand still for ever);
//!   [`charge`] is such a wait when the simulation has a model of its processors;
//! - hold no lock across such a wait, but the one the condition variable is given, and where it has
//!   to be, a [`crate::Lock`]; reading from a device is such a wait;
//! - do nothing that differs from run to run: iterate over no map with random keys, look at no
//!   address.
//!
//! Ordinary `parking_lot` locks are used as they are: with these rules a lock is never contended
//! in a simulation.

use crate::clock::{Clock, RealClock};
use crate::cpu::CpuModel;
use crate::sim::{self, Look, ThreadId, World};
use crate::thread::Panicked;
use crate::{os_random, parallel, timer};
use core::fmt;
use core::panic::Location;
use core::time::Duration;
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The handle; cheap to clone.
#[derive(Clone)]
pub struct Rt(Inner);

#[derive(Clone)]
enum Inner {
    Real(&'static timer::Timers),
    Sim(Arc<World>),
}

impl Rt {
    /// The operating system's time, threads and randomness.
    #[must_use]
    pub fn real() -> Self {
        // Of the process, so that asking for it and handing it on cost nothing, also where many
        // threads do that for each block; the only state is the timers not yet due.
        static TIMERS: timer::Timers = timer::Timers::new();
        Self(Inner::Real(&TIMERS))
    }

    /// A simulation that this seed decides, with the calling thread as its first thread. It is over
    /// when that thread begins another one, exits, or calls [`Rt::leave`]; [`Rt::simulate`] is the
    /// safer way.
    ///
    /// # Panics
    /// When the calling thread was started by another simulation.
    #[must_use]
    pub fn simulated(seed: u64) -> Self {
        Self(Inner::Sim(sim::begin(seed)))
    }

    /// Runs `body` as the first thread of a simulation that this seed decides. When it returns or
    /// panics, the simulation is over, and threads that it left behind are ended.
    ///
    /// # Panics
    /// When a thread of the simulation panics, or all of them wait and nothing is going to happen.
    pub fn simulate<T>(seed: u64, body: impl FnOnce(&Self) -> T) -> T {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                Rt::leave();
            }
        }
        let rt = Self::simulated(seed);
        let _leave = Leave;
        body(&rt)
    }

    /// Ends the simulation that the calling thread began; nothing if it began none.
    pub fn leave() {
        sim::leave();
    }

    /// The runtime the calling thread belongs to: its simulation, or the real one. For waits deep
    /// inside a helper that is passed no runtime.
    #[must_use]
    pub fn current() -> Self {
        sim::current().map_or_else(Self::real, |world| Self(Inner::Sim(world)))
    }

    /// Whether time is virtual here.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        match &self.0 {
            Inner::Real(_) => false,
            Inner::Sim(_) => true,
        }
    }

    /// Monotonic time since an origin that all users of this runtime share.
    #[must_use]
    pub fn now(&self) -> Duration {
        match &self.0 {
            Inner::Real(_) => RealClock.now(),
            Inner::Sim(world) => world.now(),
        }
    }

    /// Wall time since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn wall(&self) -> Duration {
        match &self.0 {
            Inner::Real(_) => RealClock.wall(),
            Inner::Sim(world) => world.wall(),
        }
    }

    /// Processor time that the calling thread took; `None` in a simulation, where only [`charge`]d
    /// computing takes time.
    #[must_use]
    pub fn thread_cpu(&self) -> Option<Duration> {
        if self.is_simulated() {
            return None;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()
    }

    /// Waits for at least this long.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) {
        match &self.0 {
            Inner::Real(_) => std::thread::sleep(duration),
            Inner::Sim(world) => world.sleep(duration),
        }
    }

    /// Lets this time pass in a simulation, and nothing happen meanwhile, as when a process is
    /// stopped: what was due by then is late. Nothing in real mode.
    pub fn stand_still(&self, duration: Duration) {
        if let Inner::Sim(world) = &self.0 {
            world.stand_still(duration);
        }
    }

    /// From now on computing takes the time that `model` says ([`charge`]); `None`: none. Nothing
    /// in real mode.
    pub fn set_cpu(&self, model: Option<CpuModel>) {
        if let Inner::Sim(world) = &self.0 {
            world.set_cpu(model);
        }
    }

    /// Time that all processors of the simulation's model were busy together.
    #[must_use]
    pub fn cpu_busy(&self) -> Duration {
        match &self.0 {
            Inner::Real(_) => Duration::ZERO,
            Inner::Sim(world) => world.cpu_busy(),
        }
    }

    /// How many threads can run at the same time: the machine's processors, or in a simulation its
    /// model's, and a fixed number without one.
    #[must_use]
    pub fn processors(&self) -> usize {
        match &self.0 {
            Inner::Real(_) => crate::thread::threads_available(),
            Inner::Sim(world) => world.processors(),
        }
    }

    /// Lets other threads run. Nothing in real mode; in a simulation a point where the seed may
    /// choose another thread.
    #[track_caller]
    pub fn yield_now(&self) {
        match &self.0 {
            Inner::Real(_) => {}
            Inner::Sim(world) => world.yield_now(),
        }
    }

    /// Starts a thread. Tools show the first 15 bytes of `name`.
    ///
    /// # Errors
    /// When the system refuses another thread.
    pub fn spawn<F, T>(&self, name: &str, body: F) -> io::Result<Task<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let outcome = Arc::new(Outcome { state: Mutex::new(None), ended: self.condvar() });
        let inside = Arc::clone(&outcome);
        let end = move |result| {
            *inside.state.lock() = Some(result);
            inside.ended.notify_all();
        };
        match &self.0 {
            Inner::Real(_) => {
                drop(crate::thread::spawn(name, move || {
                    let result = catch_unwind(AssertUnwindSafe(body));
                    end(result.map_err(|payload| Panicked::of(&*payload)));
                })?);
            }
            // A panic ends the whole simulation there.
            Inner::Sim(world) => world.spawn(name, move || end(Ok(body())))?,
        }
        Ok(Task(outcome))
    }

    /// A condition variable of this runtime.
    #[must_use]
    pub fn condvar(&self) -> Condvar {
        match &self.0 {
            Inner::Real(_) => Condvar(Waiters::Real(parking_lot::Condvar::new())),
            Inner::Sim(world) => Condvar(Waiters::Sim(Arc::clone(world), Arc::default())),
        }
    }

    /// Calls `callback` once, `delay` from now, on a thread of the runtime's. It must not wait, and
    /// hold locks only shortly: other timers wait behind it. Calls due at the same time are made in
    /// the order in which they were set.
    pub fn after<F: FnOnce() + Send + 'static>(&self, delay: Duration, callback: F) {
        match &self.0 {
            Inner::Real(timers) => timers.add(delay, Box::new(callback)),
            Inner::Sim(world) => world.after(delay, Box::new(callback)),
        }
    }

    /// 64 random bits: the operating system's, or in a simulation the seed's.
    #[must_use]
    pub fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_random(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Fills a buffer with random bytes. In real mode they are fit for keys.
    pub fn fill_random(&self, buf: &mut [u8]) {
        match &self.0 {
            Inner::Real(_) => os_random::fill(buf),
            Inner::Sim(world) => world.fill_random(buf),
        }
    }

    /// Calls `work` on every item, on up to `workers` threads of this runtime (0: as many as can
    /// run here) of which the caller is one, and returns when all are done. The first error stops
    /// the handing out of further items and is returned; items already handed out are finished.
    ///
    /// Items are drawn from the iterator one at a time and never collected, so it may be endless.
    ///
    /// # Errors
    /// The first one of `work`.
    pub fn for_each_parallel<I, F, E>(&self, workers: usize, items: I, work: F) -> Result<(), E>
    where
        I: IntoIterator,
        I::IntoIter: Send,
        F: Fn(I::Item) -> Result<(), E> + Sync,
        E: Send,
    {
        match &self.0 {
            Inner::Real(_) => parallel::on_real_threads(workers, items, work),
            Inner::Sim(world) => world.for_each_parallel(workers, items, work),
        }
    }
}

impl Clock for Rt {
    fn now(&self) -> Duration {
        Self::now(self)
    }

    fn wall(&self) -> Duration {
        Self::wall(self)
    }
}

impl fmt::Debug for Rt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_simulated() { "Rt(simulated)" } else { "Rt(real)" })
    }
}

/// Says that the calling thread does, or has just done, work of this kind on this many bytes. In a
/// simulation with a model of its processors ([`Rt::set_cpu`]) this takes the time the model says,
/// so it is a wait, with a wait's rules. Otherwise it is nothing.
#[track_caller]
pub fn charge(kind: usize, bytes: u64) {
    if let Some(world) = sim::charging_world() {
        world.charge(kind, bytes);
    }
}

/// A thread that was started with [`Rt::spawn`]. Dropping it lets the thread run on.
pub struct Task<T>(Arc<Outcome<T>>);

/// The result of a thread.
struct Outcome<T> {
    state: Mutex<Option<Result<T, Panicked>>>,
    ended: Condvar,
}

impl<T> Task<T> {
    /// Waits for the end of the thread and returns what it returned.
    ///
    /// # Errors
    /// When it panicked. (In a simulation that ends the whole run instead.)
    #[track_caller]
    pub fn join(self) -> Result<T, Panicked> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(result) = state.take() {
                return result;
            }
            self.0.ended.wait(&mut state);
        }
    }

    /// Whether the thread has returned or panicked.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.state.lock().is_some()
    }
}

/// Where threads wait until another one changed something. Used with `parking_lot` mutexes, and as
/// those of the standard library: the condition is looked at in a loop.
pub struct Condvar(Waiters);

enum Waiters {
    Real(parking_lot::Condvar),
    Sim(Arc<World>, Arc<Mutex<Vec<ThreadId>>>),
}

impl Condvar {
    /// Unlocks the mutex, waits to be notified, locks it again. May return for no reason.
    #[track_caller]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match &self.0 {
            Waiters::Real(condvar) => condvar.wait(guard),
            Waiters::Sim(world, waiting) => {
                world.wait(waiting, guard, None, None);
            }
        }
    }

    /// The same for one of many threads that wait for different things, and are woken all at once:
    /// `is_over` says whether this one has something to do. May return for no reason too.
    ///
    /// In a simulation a thread that would only wait again is not run for that. The check is all
    /// that it may look at before it waits again.
    #[track_caller]
    pub fn wait_among<T: Send + 'static>(
        &self,
        mutex: &Arc<Mutex<T>>,
        guard: &mut MutexGuard<'_, T>,
        is_over: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) {
        match &self.0 {
            Waiters::Real(condvar) => condvar.wait(guard),
            Waiters::Sim(world, waiting) => {
                let mutex = Arc::clone(mutex);
                // A thread that keeps the lock across a wait is noticed by one that wants it.
                let is_over = move || mutex.try_lock().is_none_or(|value| is_over(&value));
                let (is_over, waiting2) = (Box::new(is_over), Arc::clone(waiting));
                let look = Look { is_over, waiting: waiting2, place: Location::caller() };
                world.wait(waiting, guard, None, Some(Arc::new(look)));
            }
        }
    }

    /// The same until `deadline`, in the runtime's monotonic time ([`Rt::now`]). Returns whether
    /// it returned because the deadline has passed.
    #[track_caller]
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, deadline: Duration) -> bool {
        match &self.0 {
            Waiters::Real(condvar) => {
                let left = deadline.saturating_sub(RealClock.now());
                condvar.wait_for(guard, left).timed_out()
            }
            Waiters::Sim(world, waiting) => world.wait(waiting, guard, Some(deadline), None),
        }
    }

    /// Waits while `condition` holds.
    #[track_caller]
    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Ends one thread's wait.
    pub fn notify_one(&self) {
        match &self.0 {
            Waiters::Real(condvar) => drop(condvar.notify_one()),
            Waiters::Sim(world, waiting) => world.notify(waiting, false),
        }
    }

    /// Ends every thread's wait.
    pub fn notify_all(&self) {
        match &self.0 {
            Waiters::Real(condvar) => drop(condvar.notify_all()),
            Waiters::Sim(world, waiting) => world.notify(waiting, true),
        }
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn threads_give_back_what_they_made_or_say_why_not() {
        let rt = Rt::real();
        let task = rt.spawn("worker", || 6 * 7).expect("thread");
        assert_eq!(task.join(), Ok(42));
        let task = rt.spawn("worker", || panic!("on purpose")).expect("thread");
        let message = task.join().map(|(): ()| ()).expect_err("panic").message;
        assert_eq!(message, "on purpose");
    }

    #[test]
    fn deadlines_pass_and_notices_arrive() {
        let rt = Rt::real();
        let shared = Arc::new((Mutex::new(0), rt.condvar()));
        let mut guard = shared.0.lock();
        let deadline = rt.now() + Duration::from_millis(5);
        assert!(shared.1.wait_until(&mut guard, deadline));
        assert!(rt.now() >= deadline);
        drop(guard);
        let other = Arc::clone(&shared);
        let task = rt.spawn("setter", move || {
            *other.0.lock() = 1;
            other.1.notify_one();
        });
        let mut guard = shared.0.lock();
        shared.1.wait_while(&mut guard, |n| *n == 0);
        drop(guard);
        assert_eq!(task.expect("thread").join(), Ok(()));
    }

    #[test]
    fn random_bytes_differ_and_work_is_shared() {
        let rt = Rt::real();
        assert_ne!(rt.random_u64(), rt.random_u64());
        let sum = AtomicU64::new(0);
        let result = rt.for_each_parallel(3, 1..=100u64, |n| {
            sum.fetch_add(n, Ordering::Relaxed);
            Ok::<(), ()>(())
        });
        assert_eq!((result, sum.into_inner()), (Ok(()), 5050));
    }
}
