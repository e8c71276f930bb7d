//! Whether a store keeps writers apart: it is tried.
//!
//! Stores whose conditional creates are a check and then an act have two winners of a race now and
//! then, and older ones ignore the condition. Racing creates find both, not with certainty, but
//! those that were found so far within a few names.

use super::DiskError;
use super::takeover::uuid;
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, Store, StoreError};
use core::time::Duration;
use device::Shared;
use ondisk::hex;
use rt::Rt;
use std::sync::Arc;

/// What the names of objects begin with that a trial makes.
pub(super) const TRIALS: &str = "probe/";
/// Names that are raced for, and how many race for each.
const NAMES: usize = 8;
const RACERS: usize = 16;
/// Bytes of each object: more than one packet, so that bodies overtake one another.
const BYTES: usize = 8192;

/// What was found of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fence {
    /// One create of a name succeeded each time.
    Holds,
    /// What was seen instead.
    Broken(String),
}

/// Tries a store, and cleans up.
///
/// # Errors
/// The store does not do what it is asked.
pub fn probe(store: Arc<dyn Store>, rt: &Rt, patience: Duration) -> Result<Fence, DiskError> {
    probe_with(&Client::new(store, rt, patience))
}

pub(super) fn probe_with(client: &Client) -> Result<Fence, DiskError> {
    let own = hex::encode(&uuid(client));
    let names: Vec<String> = (0..NAMES).map(|n| format!("{TRIALS}{own}-{n}")).collect();
    let raced = names.iter().find_map(|name| race(client, name).transpose());
    // Also of a trial that failed.
    let all = names.into_iter().map(|name| Request::Delete { name }).collect();
    let deleted = client.call_all(Urgency::Later, all);
    let found = raced.transpose()?.map_or(Fence::Holds, Fence::Broken);
    for answer in deleted {
        answer?;
    }
    Ok(found)
}

/// What is wrong with the race for a name.
fn race(client: &Client, name: &str) -> Result<Option<String>, DiskError> {
    let create = |racer: usize| {
        let body = vec![Shared::copy_of(&[racer as u8; BYTES])];
        Request::Create { name: name.to_owned(), body }
    };
    let answers = client.call_all(Urgency::Commit, (0..RACERS).map(create).collect());
    let mut winners = Vec::new();
    for (racer, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(_) => winners.push(racer as u8),
            Err(StoreError::Exists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let get = Request::Get { name: name.to_owned(), from: 0, len: 2 * BYTES as u64 };
    let Response::Bytes(there) = client.call(Urgency::Read, get)? else {
        return Err(StoreError::Other("the answer has no data".to_owned()).into());
    };
    let again = client.call(Urgency::Commit, create(RACERS));
    Ok(match winners[..] {
        [winner] if there != [winner; BYTES] => {
            Some("the object does not have the data of the create that succeeded".to_owned())
        }
        // An answer was lost and the create met its own object: it cannot know that it won.
        [] | [_] if again == Err(StoreError::Exists) => None,
        [] | [_] => Some("an object was overwritten although it exists".to_owned()),
        _ => Some(format!("{} of {RACERS} racing creates of a name succeeded", winners.len())),
    })
}

#[cfg(test)]
mod tests {
    use super::super::format::Superblock;
    use super::super::{LogDevice, Options};
    use super::*;
    use crate::store::{Answered, DirStore, FaultRates, SimStore, SimWorld};
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use parking_lot::Mutex;
    use std::collections::HashMap;

    const PATIENCE: Duration = Duration::from_secs(600);

    #[test]
    fn stores_that_keep_the_rules_pass() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(DirStore::new(folder.path()).unwrap());
        assert_eq!(probe(store, &Rt::real(), PATIENCE), Ok(Fence::Holds));
        for seed in 0..20 {
            Rt::simulate(seed, |rt| {
                let world = SimWorld::new(rt);
                world.set_fault_rates(FaultRates::rough());
                assert_eq!(probe(SimStore::new(&world), rt, PATIENCE), Ok(Fence::Holds));
            });
        }
    }

    /// A store that looks, and acts later.
    struct Racy(Arc<Mutex<HashMap<String, Vec<u8>>>>, Rt);

    impl Store for Racy {
        fn submit(&self, request: Request, answered: Answered) {
            let (objects, rt) = (Arc::clone(&self.0), self.1.clone());
            let delay = Duration::from_micros(rt.random_u64() % 1000);
            self.1.after(delay, move || match request {
                Request::Create { name, body } => {
                    if objects.lock().contains_key(&name) {
                        return answered(Err(StoreError::Exists));
                    }
                    rt.after(Duration::from_micros(100), move || {
                        let bytes = body.iter().flat_map(|part| part.to_vec()).collect();
                        objects.lock().insert(name, bytes);
                        answered(Ok(Response::Done));
                    });
                }
                Request::Get { name, .. } => {
                    let found = objects.lock().get(&name).cloned();
                    answered(found.map(Response::Bytes).ok_or(StoreError::Absent));
                }
                _ => answered(Ok(Response::Done)),
            });
        }
    }

    /// A store that keeps the rules until its server is exchanged for another.
    struct Exchanged(Arc<SimStore>, AtomicBool);

    impl Store for Exchanged {
        fn submit(&self, request: Request, answered: Answered) {
            match &request {
                Request::Create { name, .. } if self.1.load(Relaxed) => {
                    let (own, delete) = (self.0.clone(), Request::Delete { name: name.clone() });
                    self.0.submit(delete, Box::new(move |_| own.submit(request, answered)));
                }
                _ => self.0.submit(request, answered),
            }
        }
    }

    #[test]
    fn a_store_that_stops_to_keep_writers_apart_is_refused_when_it_is_opened_for_writing() {
        Rt::simulate(1, |rt| {
            let store = Exchanged(SimStore::new(&SimWorld::new(rt)), AtomicBool::new(false));
            let store = Arc::new(store);
            let is = Superblock {
                size: 1 << 20,
                sector: 512,
                target: 1 << 20,
                window: 4,
                is_fenced: true,
                limit: None,
                made_by: String::new(),
            };
            LogDevice::create(store.clone(), rt, &is, PATIENCE).unwrap();
            let open = || LogDevice::claim(store.clone(), "x", rt, Options::default(), None);
            drop(open().unwrap());
            store.1.store(true, Relaxed);
            assert!(matches!(open().err(), Some(DiskError::NoFence(_))));
            assert!(LogDevice::open(store.clone(), "x", rt, Options::default()).is_ok());
            store.1.store(false, Relaxed);
            assert!(open().is_ok());
        });
    }

    #[test]
    fn a_store_that_looks_and_then_acts_is_found_out() {
        Rt::simulate(1, |rt| {
            let store = Arc::new(Racy(Arc::default(), rt.clone()));
            let found = probe(store, rt, PATIENCE).unwrap();
            assert!(matches!(found, Fence::Broken(_)), "{found:?}");
        });
    }
}
