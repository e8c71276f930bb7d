//! How often an opening waits for the store, one answer after the other.

use super::*;
use crate::store::{Answered, Request};

/// An answer takes this long: less than the deadline of an attempt, and far more than the simulated
/// store takes of its own.
const TRIP: Duration = Duration::from_secs(5);

/// A way to a store far away.
struct DistantStore(Arc<SimStore>, Rt);

impl Store for DistantStore {
    fn submit(&self, request: Request, answered: Answered) {
        let rt = self.1.clone();
        let later = move |answer| rt.after(TRIP, move || answered(answer));
        self.0.submit(request, Box::new(later));
    }
}

/// What `run` returns, and the answers that it waited for, one after the other.
fn trips<T>(rt: &Rt, run: impl FnOnce() -> T) -> (T, u64) {
    let began = rt.now();
    let out = run();
    (out, (rt.now() - began).as_secs() / TRIP.as_secs())
}

/// A flush is one trip. An opening is some of them, whatever the disk has; one that takes a disk
/// over from a writer that did not end takes one more.
#[test]
fn an_opening_waits_for_few_answers() {
    Rt::simulate(1, |rt| {
        let world = SimWorld::new(rt);
        let is = Superblock { window: 64, ..small_disk(64) };
        let client = Client::new(SimStore::new(&world), rt, PATIENCE);
        takeover::make_disk(&client, &is).expect("a disk");
        let distant = Arc::new(DistantStore(SimStore::new(&world), rt.clone()));
        let claim = || LogDevice::claim(distant.clone(), "sim", rt, options(), None).unwrap();
        let write = |device: &LogDevice| {
            for lba in 0..SECTORS {
                device.write((lba * SECTOR) as u64, &[1; SECTOR]).unwrap();
                trips(rt, || device.flush()).0.unwrap();
            }
            device.age().unwrap();
        };
        let (device, new) = trips(rt, claim);
        write(&device);
        device.write(0, &[2; SECTOR]).unwrap();
        assert_eq!(trips(rt, || device.flush()).1, 1);
        drop(device);
        let (device, closed) = trips(rt, claim);
        device.write(0, &[3; SECTOR]).unwrap();
        device.flush().unwrap();
        device.stop();
        drop(device);
        let open = || LogDevice::open(distant.clone(), "sim", rt, options()).unwrap();
        let read = trips(rt, open).1;
        let taken_over = trips(rt, claim).1;
        let all = [new, closed, read, taken_over];
        assert_eq!(all, [9, 10, 5, 11]);
    });
}
