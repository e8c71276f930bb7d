//! How often an opening waits for the store, one answer after the other.

use super::*;
use crate::store::{Answered, Request};
use device::backend::{Ticket, collect};
use std::collections::VecDeque;

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

/// What was written together lies together: of small reads, one after the other, the first waits.
#[test]
fn neighbours_are_waited_for_once() {
    Rt::simulate(1, |rt| {
        let world = SimWorld::new(rt);
        let client = Client::new(SimStore::new(&world), rt, PATIENCE);
        let is = Superblock { target: 1 << 20, ..small_disk(64) };
        takeover::make_disk(&client, &is).expect("a disk");
        let store = SimStore::new(&world);
        let own = Options { uncounted_max: 1 << 20, ..options() };
        let device = LogDevice::claim(store, "sim", rt, own, None).unwrap();
        for lba in 0..SECTORS {
            device.write((lba * SECTOR) as u64, &[lba as u8; SECTOR]).unwrap();
        }
        drop(device);
        let distant = Arc::new(DistantStore(SimStore::new(&world), rt.clone()));
        let device = LogDevice::open(distant, "sim", rt, options()).unwrap();
        let read = || {
            for lba in 0..SECTORS {
                let found = device.read_new((lba * SECTOR) as u64, SECTOR).unwrap();
                assert_eq!(&found[..], &[lba as u8; SECTOR]);
            }
        };
        assert_eq!(trips(rt, read).1, 1);
    });
}

/// A disk of 32 MiB, of objects of a quarter as much as a pool has, that is read in order as a pool
/// does: two batches of reads under way, which begin and end in the middle of objects, and some
/// blocks were written out of order. Each object is asked for once.
#[test]
fn what_is_read_in_order_is_asked_for_once() {
    const BLOCK: usize = 128 << 10;
    const BLOCKS: usize = 256;
    Rt::simulate(1, |rt| {
        let world = SimWorld::new(rt);
        let client = Client::new(SimStore::new(&world), rt, PATIENCE);
        let size = (BLOCK * BLOCKS) as u64;
        let is = Superblock { target: 4 << 20, size, ..small_disk(64) };
        takeover::make_disk(&client, &is).expect("a disk");
        let store = SimStore::new(&world);
        let own = Options { uncounted_max: size, ..options() };
        let device = LogDevice::claim(store, "sim", rt, own, None).unwrap();
        // Every ninth block later than its neighbours, as threads of a txg overtake one another.
        let late = |n: &usize| n % 9 == 4;
        let order = (0..BLOCKS).filter(|n| !late(n)).flat_map(|n| {
            let later = n.checked_sub(6).filter(late);
            core::iter::once(n).chain(later)
        });
        for block in order {
            device.write((block * BLOCK) as u64, &[block as u8; BLOCK]).unwrap();
        }
        // The first place is that of the seal.
        let objects = device.place() - 2;
        drop(device);
        let distant = Arc::new(DistantStore(SimStore::new(&world), rt.clone()));
        let device = LogDevice::open(distant, "sim", rt, options()).unwrap();
        let before = device.usage().gets;
        let batch = |blocks: core::ops::Range<usize>| {
            let (collector, tickets) = collect(rt, blocks.len());
            let read = |(block, ticket): (usize, Ticket<_>)| {
                let done: device::Done = Box::new(move |read| ticket.give(read));
                device::Read { offset: (block * BLOCK) as u64, len: BLOCK, done }
            };
            device.submit(blocks.clone().zip(tickets).map(read).collect());
            (blocks, collector)
        };
        let mut under_way = VecDeque::new();
        for first in (0..BLOCKS).step_by(30) {
            under_way.push_back(batch(first..(first + 30).min(BLOCKS)));
            if under_way.len() < 2 {
                continue;
            }
            let (blocks, collector) = under_way.pop_front().unwrap();
            for (block, read) in blocks.zip(collector.wait()) {
                assert_eq!(&read.unwrap().unwrap()[..], &[block as u8; BLOCK]);
            }
        }
        under_way.into_iter().for_each(|(_, collector)| drop(collector.wait()));
        assert_eq!(device.usage().gets - before, objects, "requests, of so many objects");
    });
}
