//! A simulated store, in virtual time.
//!
//! All machines of a simulation share one [`SimWorld`]; each has a [`SimStore`] of its own, which
//! may lose power. What it sent before is carried out nevertheless, now or much later. A seed
//! decides what is lost, late, doubled or refused. Creating is exclusive always, and
//! what was created is there: without that there would be nothing to explore.

use super::{Answered, LISTED_MAX, Request, Response, Store, StoreError};
use core::time::Duration;
use parking_lot::Mutex;
use rt::Rt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// How often what goes wrong, each of 1000 requests, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// The request is refused for now, and not carried out.
    pub busy: u16,
    /// It is carried out, and its answer never comes.
    pub lost: u16,
    /// It is carried out up to `late_for` later.
    pub late: u16,
    /// It is carried out again, up to `late_for` later.
    pub doubled: u16,
    /// It is never carried out, and never answered.
    pub dropped: u16,
    /// See `late` and `doubled`.
    pub late_for: Duration,
}

impl FaultRates {
    /// Rough, as no store is for long.
    #[must_use]
    pub fn rough() -> Self {
        let late_for = Duration::from_secs(120);
        Self { busy: 60, lost: 50, late: 60, doubled: 60, dropped: 30, late_for }
    }
}

/// The objects of a simulated store.
pub struct SimWorld {
    rt: Rt,
    state: Mutex<Objects>,
}

#[derive(Default)]
struct Objects {
    now: BTreeMap<String, Arc<[u8]>>,
    /// The first that each name ever stood for.
    ever: BTreeMap<String, Arc<[u8]>>,
    fault_rates: FaultRates,
    requests: u64,
    deleted: u64,
}

impl SimWorld {
    /// An empty store in a simulation.
    #[must_use]
    pub fn new(rt: &Rt) -> Arc<Self> {
        Arc::new(Self { rt: rt.clone(), state: Mutex::default() })
    }

    /// What goes wrong from now on.
    pub fn set_fault_rates(&self, rates: FaultRates) {
        self.state.lock().fault_rates = rates;
    }

    /// The first object that a name ever stood for, deleted or not.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<Arc<[u8]>> {
        self.state.lock().ever.get(name).cloned()
    }

    /// Names of the objects that are there, with their sizes in bytes.
    #[must_use]
    pub fn names(&self) -> Vec<(String, u64)> {
        let state = self.state.lock();
        state.now.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect()
    }

    /// Changes the bytes of an object, without any request; nothing if there is none.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(bytes) = self.state.lock().now.get_mut(name) {
            let mut changed = bytes.to_vec();
            change(&mut changed);
            *bytes = changed.into();
        }
    }

    /// Requests so far, and objects that were deleted.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.requests, state.deleted)
    }

    fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.rt.random_u64() % bound }
    }

    fn up_to(&self, most: Duration) -> Duration {
        Duration::from_micros(self.below(most.as_micros() as u64 + 1))
    }
}

impl Objects {
    fn carry_out(&mut self, request: &Request) -> Result<Response, StoreError> {
        match request {
            Request::Create { name, body } => {
                if self.now.contains_key(name) {
                    return Err(StoreError::Exists);
                }
                let mut bytes = Vec::with_capacity(body.iter().map(|part| part.len()).sum());
                body.iter().for_each(|part| bytes.extend_from_slice(part));
                let bytes: Arc<[u8]> = bytes.into();
                self.ever.entry(name.clone()).or_insert_with(|| Arc::clone(&bytes));
                self.now.insert(name.clone(), bytes);
                Ok(Response::Done)
            }
            Request::Get { name, from, len } => {
                let bytes = self.now.get(name).ok_or(StoreError::Absent)?;
                let from = usize::try_from(*from).unwrap_or(usize::MAX).min(bytes.len());
                let len = usize::try_from(*len).unwrap_or(usize::MAX).min(bytes.len() - from);
                Ok(Response::Bytes(bytes[from..from + len].to_vec()))
            }
            Request::Head { name } => {
                let bytes = self.now.get(name).ok_or(StoreError::Absent)?;
                Ok(Response::Size(bytes.len() as u64))
            }
            Request::List { prefix, after } => {
                let all = self.now.range(prefix.clone()..);
                let within = all.take_while(|(name, _)| name.starts_with(prefix));
                let rest = within.filter(|(name, _)| *name > after).take(LISTED_MAX);
                let names: Vec<_> = rest.map(|(n, b)| (n.clone(), b.len() as u64)).collect();
                let is_last = names.len() < LISTED_MAX;
                Ok(Response::Names { names, is_last })
            }
            Request::Delete { name } => {
                self.deleted += u64::from(self.now.remove(name).is_some());
                Ok(Response::Done)
            }
        }
    }
}

/// A machine's way to the store.
pub struct SimStore {
    world: Arc<SimWorld>,
    /// Its power has failed: nothing is answered any more.
    has_failed: Arc<AtomicBool>,
}

impl SimStore {
    /// Another machine.
    #[must_use]
    pub fn new(world: &Arc<SimWorld>) -> Arc<Self> {
        Arc::new(Self { world: Arc::clone(world), has_failed: Arc::default() })
    }

    /// The power of this machine fails. What is under way goes on without it.
    pub fn fail(&self) {
        self.has_failed.store(true, SeqCst);
    }
}

impl Store for SimStore {
    fn submit(&self, request: Request, answered: Answered) {
        if self.has_failed.load(SeqCst) {
            return;
        }
        let world = &self.world;
        let rates = world.state.lock().fault_rates;
        let happens = |of_1000: u16| world.below(1000) < u64::from(of_1000);
        let there = world.up_to(Duration::from_millis(40));
        let back = world.up_to(Duration::from_millis(10));
        let has_failed = Arc::clone(&self.has_failed);
        let give = move |answer| {
            if !has_failed.load(SeqCst) {
                answered(answer);
            }
        };
        if happens(rates.busy) {
            return world.rt.after(there, move || give(Err(StoreError::Busy)));
        }
        if happens(rates.dropped) {
            return;
        }
        let is_late = happens(rates.late);
        let late = if is_late { world.up_to(rates.late_for) } else { Duration::ZERO };
        if happens(rates.doubled) {
            let (own, again) = (Arc::clone(world), request.clone());
            let when = there + world.up_to(rates.late_for);
            world.rt.after(when, move || drop(own.state.lock().carry_out(&again)));
        }
        let is_lost = happens(rates.lost);
        let own = Arc::clone(world);
        world.rt.after(there + late, move || {
            let mut state = own.state.lock();
            state.requests += 1;
            let answer = state.carry_out(&request);
            drop(state);
            if !is_lost {
                own.rt.after(back, move || give(answer));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{create, get};
    use super::*;
    use device::backend::collect;

    fn ask(rt: &Rt, store: &SimStore, request: &Request) -> Option<Result<Response, StoreError>> {
        let (collector, tickets) = collect(rt, 1);
        for ticket in tickets {
            store.submit(request.clone(), Box::new(move |answer| ticket.give(answer)));
        }
        collector.wait().pop().flatten()
    }

    #[test]
    fn what_was_under_way_lands_after_the_power_failed() {
        let landed = Rt::simulate(3, |rt| {
            let world = SimWorld::new(rt);
            let (one, two) = (SimStore::new(&world), SimStore::new(&world));
            one.submit(create("x", b"late"), Box::new(|_| panic!("its machine is gone")));
            one.fail();
            assert_eq!(ask(rt, &two, &get("x", 0, 9)), Some(Err(StoreError::Absent)));
            rt.sleep(Duration::from_secs(1));
            ask(rt, &two, &create("x", b"mine")).zip(ask(rt, &two, &get("x", 0, 9)))
        });
        let late = Ok(Response::Bytes(b"late".to_vec()));
        assert_eq!(landed, Some((Err(StoreError::Exists), late)));
    }

    #[test]
    fn faults_come_as_often_as_they_were_told_to() {
        Rt::simulate(4, |rt| {
            let world = SimWorld::new(rt);
            let store = SimStore::new(&world);
            world.set_fault_rates(FaultRates { busy: 1000, ..FaultRates::default() });
            assert_eq!(ask(rt, &store, &create("x", b"1")), Some(Err(StoreError::Busy)));
            let late_for = Duration::from_secs(1);
            world.set_fault_rates(FaultRates { doubled: 1000, late_for, ..FaultRates::default() });
            assert_eq!(ask(rt, &store, &create("x", b"1")), Some(Ok(Response::Done)));
            world.set_fault_rates(FaultRates::default());
            let delete = Request::Delete { name: "x".to_owned() };
            assert_eq!(ask(rt, &store, &delete), Some(Ok(Response::Done)));
            rt.sleep(Duration::from_secs(3));
            // The create that came twice has made it again.
            assert_eq!(world.names(), [("x".to_owned(), 1)]);
        });
    }
}
