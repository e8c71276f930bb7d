//! Queues in front of devices that answer when they are told to, and of memory.

use super::*;
use device::{
    AlignedBuf, Device, DeviceRef, Error, ErrorKind, MemoryDevice, Read, Shared, SimDevice,
    SimOptions, Write, WriteDevice, WriteDeviceRef,
};
use parking_lot::Mutex;
use rt::Rt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Keeps what it gets until it is told to answer.
struct Slow {
    disk: MemoryDevice,
    reads: Mutex<Vec<Read>>,
    writes: Mutex<Vec<Write>>,
    /// Offset whose writes fail.
    bad: AtomicU64,
    /// Offsets and lengths in the order they came.
    seen: Mutex<Vec<(u64, usize)>>,
}

impl Slow {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            disk: MemoryDevice::zeros("slow", 64 << 20),
            reads: Mutex::default(),
            writes: Mutex::default(),
            bad: AtomicU64::new(u64::MAX),
            seen: Mutex::default(),
        })
    }

    fn seen(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.seen.lock())
    }

    fn active(&self) -> (usize, usize) {
        (self.reads.lock().len(), self.writes.lock().len())
    }

    fn answer_read(&self) {
        let read = self.reads.lock().remove(0);
        let result = self.disk.read_new(read.offset, read.len);
        (read.done)(result);
    }

    fn answer_write(&self) {
        let write = self.writes.lock().remove(0);
        let bad = self.bad.load(Ordering::SeqCst);
        let len = write.len();
        let result = match (write.offset..write.offset + len as u64).contains(&bad) {
            true => Err(Error::write(ErrorKind::Io { errno: 5 }, &"slow".into(), bad, len)),
            false => Ok(()),
        };
        (write.done)(result);
    }

    fn answer_all(&self) {
        while self.active() != (0, 0) {
            if self.active().0 > 0 {
                self.answer_read();
            } else {
                self.answer_write();
            }
        }
    }
}

impl Device for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn sector_size(&self) -> u32 {
        512
    }
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.disk.read(offset, buf)
    }
    fn submit(&self, batch: Vec<Read>) {
        self.seen.lock().extend(batch.iter().map(|r| (r.offset, r.len)));
        self.reads.lock().extend(batch);
    }
}

impl WriteDevice for Slow {
    fn submit_writes(&self, batch: Vec<Write>) {
        self.seen.lock().extend(batch.iter().map(|w| (w.offset, w.len())));
        self.writes.lock().extend(batch);
    }
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.disk.write(offset, data)
    }
    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

fn queue_of(device: WriteDeviceRef, limits: QueueLimits) -> (Arc<LeafQueue>, Arc<QueueLimits>) {
    let limits = Arc::new(limits);
    let reader = Arc::clone(&device).as_device();
    (LeafQueue::new(&Rt::current(), reader, Some(device), Arc::clone(&limits)), limits)
}

fn slow() -> (Arc<Slow>, Arc<LeafQueue>, Arc<QueueLimits>) {
    let device = Slow::new();
    let (queue, limits) = queue_of(Arc::clone(&device) as _, QueueLimits::default());
    (device, queue, limits)
}

fn read(offset: u64, done: &Arc<AtomicUsize>) -> Read {
    let done = Arc::clone(done);
    let done = Box::new(move |result: Result<AlignedBuf, Error>| {
        assert!(result.is_ok());
        done.fetch_add(1, Ordering::SeqCst);
    });
    Read { offset, len: 512, done }
}

fn write(offset: u64, len: usize, ok: &Arc<AtomicUsize>) -> Write {
    let ok = Arc::clone(ok);
    let done = Box::new(move |result: Result<(), Error>| {
        ok.fetch_add(if result.is_ok() { 1 } else { 1000 }, Ordering::SeqCst);
    });
    Write { offset, parts: vec![Shared::copy_of(&vec![7; len])], done }
}

/// Every other 4 KiB, so that nothing is a neighbour.
fn scattered(count: u64, ok: &Arc<AtomicUsize>) -> Vec<Write> {
    (0..count).map(|i| write(i * 8192, 4096, ok)).collect()
}

#[test]
fn a_class_has_its_maximum_and_no_more() {
    let (device, queue, limits) = slow();
    limits.set(QueueLimit::ReadersAlone, 0);
    let done = Arc::new(AtomicUsize::new(0));
    queue.read_batch(IoClass::SyncRead, (0..25).map(|i| read(i * 4096, &done)).collect());
    assert_eq!(device.active(), (10, 0));
    queue.read_batch(IoClass::Scrub, (0..9).map(|i| read(i * 512, &done)).collect());
    assert_eq!(device.active(), (11, 0), "scrub has its least beside what is waited for");
    let stats = queue.stats();
    let gauges = |class| (stats.class(class).active, stats.class(class).pending);
    assert_eq!((gauges(IoClass::SyncRead), gauges(IoClass::Scrub)), ((10, 15), (1, 8)));
    device.answer_read();
    assert_eq!((device.active().0, done.load(Ordering::SeqCst)), (11, 1));
    limits.set(QueueLimit::Max(IoClass::SyncRead), 20);
    device.answer_read();
    assert_eq!(device.active().0, 21, "a new limit counts from the next answer on");
    device.answer_all();
    assert_eq!(done.load(Ordering::SeqCst), 34);
    let stats = queue.stats();
    assert_eq!((stats.class(IoClass::SyncRead).ops, stats.class(IoClass::Scrub).ops), (25, 9));
    assert_eq!(stats.class(IoClass::SyncRead).bytes, 25 * 512);
    let timed = stats.class(IoClass::SyncRead).total_ns.count();
    assert_eq!(timed, 32, "of small ones the first of sixteen is timed, for all");
}

#[test]
fn thirty_five_in_flight_when_asked_for() {
    let (device, queue, limits) = slow();
    limits.set(QueueLimit::Max(IoClass::AsyncWrite), 35);
    limits.set(QueueLimit::Min(IoClass::AsyncWrite), 35);
    let ok = Arc::new(AtomicUsize::new(0));
    queue.write_batch(IoClass::AsyncWrite, scattered(100, &ok));
    for ended in 0..100 {
        assert_eq!(device.active().1, 35.min(100 - ended));
        device.answer_write();
    }
    assert_eq!(ok.load(Ordering::SeqCst), 100);
}

#[test]
fn the_limit_of_all_is_shared_in_turn() {
    let (device, queue, limits) = slow();
    limits.set(QueueLimit::AllMax, 2);
    let done = Arc::new(AtomicUsize::new(0));
    queue.read_batch(IoClass::SyncRead, (0..20).map(|i| read(i << 20, &done)).collect());
    queue.write_batch(IoClass::AsyncWrite, scattered(20, &done));
    let mut writes_among_first_ten = 0;
    for _ in 0..10 {
        assert_eq!(device.active().0 + device.active().1, 2);
        match device.active().1 {
            0 => device.answer_read(),
            _ => {
                writes_among_first_ten += 1;
                device.answer_write();
            }
        }
    }
    assert!(writes_among_first_ten >= 2, "{writes_among_first_ten}");
    device.answer_all();
    assert_eq!(done.load(Ordering::SeqCst), 40);
}

#[test]
fn waiting_neighbours_become_one_write() {
    let (device, queue, limits) = slow();
    let ok = Arc::new(AtomicUsize::new(0));
    // Two to keep the device busy, the least that asynchronous writes have.
    struct Calm;
    impl Pressure for Calm {
        fn dirty(&self) -> (u64, u64) {
            (0, 1000)
        }
        fn is_awaited(&self) -> bool {
            false
        }
    }
    limits.set_pressure(Some(Arc::new(Calm)));
    limits.set(QueueLimit::AggregationNonRotating, 128 << 10);
    queue.write_batch(IoClass::AsyncWrite, vec![write(0, 512, &ok), write(4096, 512, &ok)]);
    assert_eq!(device.seen(), [(0, 512), (4096, 512)]);
    // In any order, from several callers; 40 times 4 KiB from 1 MiB on, one with a gap behind it.
    for i in (0..40).rev() {
        queue.write_batch(IoClass::AsyncWrite, vec![write((1 << 20) + i * 4096, 4096, &ok)]);
    }
    queue.write_batch(IoClass::AsyncWrite, vec![write((1 << 20) + 41 * 4096, 4096, &ok)]);
    device.answer_write();
    device.answer_write();
    assert_eq!(device.seen(), [(1 << 20, 128 << 10), ((1 << 20) + (128 << 10), 32 << 10)]);
    device.answer_all();
    assert_eq!(device.seen(), [((1 << 20) + 41 * 4096, 4096)]);
    assert_eq!(ok.load(Ordering::SeqCst), 43);
    let stats = queue.stats();
    let class = stats.class(IoClass::AsyncWrite);
    assert_eq!((class.ops, class.bytes), (5, 1024 + 41 * 4096));
    assert_eq!((class.individual_bytes.count(), class.aggregated_bytes.count()), (3, 2));
    limits.set(QueueLimit::AggregationNonRotating, 0);
    queue.write_batch(IoClass::AsyncWrite, (0..8).map(|i| write(i * 512, 512, &ok)).collect());
    device.answer_all();
    assert!(device.seen().iter().all(|(_, len)| *len == 512), "no limit, no aggregation");
}

#[test]
fn a_joint_write_that_fails_costs_only_who_is_at_fault() {
    let (device, queue, _) = slow();
    let ok = Arc::new(AtomicUsize::new(0));
    queue.write_batch(IoClass::AsyncWrite, (0..8).map(|i| write(i * 512, 512, &ok)).collect());
    assert_eq!(device.seen(), [(0, 4096)]);
    device.bad.store(1024, Ordering::SeqCst);
    device.answer_all();
    assert_eq!(ok.load(Ordering::SeqCst), 1007, "seven are written, one is not");
    let stats = queue.stats();
    let class = stats.class(IoClass::AsyncWrite);
    assert_eq!((class.ops, class.errors, class.active, class.pending), (9, 2, 0, 0));
}

#[test]
fn order_is_by_offset_upwards_or_by_turn() {
    let (device, queue, limits) = slow();
    let done = Arc::new(AtomicUsize::new(0));
    limits.set(QueueLimit::Max(IoClass::AsyncRead), 1);
    limits.set(QueueLimit::Max(IoClass::SyncRead), 1);
    limits.set(QueueLimit::Min(IoClass::SyncRead), 1);
    let reads = |at: [u64; 5]| at.map(|o| read(o << 12, &done)).into();
    queue.read_batch(IoClass::AsyncRead, reads([5, 9, 2, 7, 1]));
    device.answer_read();
    queue.read_batch(IoClass::AsyncRead, reads([3, 8, 4, 6, 0]));
    device.answer_all();
    let order: Vec<u64> = device.seen().iter().map(|(o, _)| o >> 12).collect();
    // Up from where the last one ended, then from the bottom.
    assert_eq!(order, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
    queue.read_batch(IoClass::SyncRead, reads([5, 9, 2, 7, 1]));
    device.answer_all();
    let order: Vec<u64> = device.seen().iter().map(|(o, _)| o >> 12).collect();
    assert_eq!(order, [5, 9, 2, 7, 1]);
}

#[test]
fn memory_answers_at_once_and_nothing_recurses() {
    let device = Arc::new(MemoryDevice::zeros("m", 64 << 20));
    let (queue, limits) = queue_of(Arc::clone(&device) as _, QueueLimits::default());
    limits.set(QueueLimit::AggregationNonRotating, 0);
    let ok = Arc::new(AtomicUsize::new(0));
    let writes = (0..100_000).map(|i| write(i * 512, 512, &ok)).collect();
    queue.write_batch(IoClass::AsyncWrite, writes);
    assert_eq!(ok.load(Ordering::SeqCst), 100_000);
    assert_eq!(device.read_new(99_999 * 512, 512).map(|b| b[511]), Ok(7));
}

#[test]
fn a_forgetful_device_neither_blocks_nor_overflows() {
    struct Forgetful;
    impl Device for Forgetful {
        fn name(&self) -> &str {
            "forgetful"
        }
        fn size(&self) -> u64 {
            1 << 40
        }
        fn sector_size(&self) -> u32 {
            512
        }
        fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Error> {
            Ok(())
        }
        fn submit(&self, batch: Vec<Read>) {
            drop(batch);
        }
    }
    let limits = Arc::new(QueueLimits::default());
    let queue = LeafQueue::new(&Rt::real(), Arc::new(Forgetful), None, limits);
    let done = Arc::new(AtomicUsize::new(0));
    queue.read_batch(IoClass::SyncRead, (0..50_000).map(|i| read(i * 512, &done)).collect());
    assert_eq!(Arc::strong_count(&done), 1, "every callback was dropped");
    let stats = queue.stats();
    let class = stats.class(IoClass::SyncRead);
    assert_eq!((class.errors, class.active, class.pending), (50_000, 0, 0));
}

#[test]
fn without_limits_a_batch_stays_one() {
    let device = Slow::new();
    let (queue, _) = queue_of(Arc::clone(&device) as _, QueueLimits::unbounded());
    let done = Arc::new(AtomicUsize::new(0));
    queue.read_batch(IoClass::SyncRead, (0..3000).map(|i| read(i * 512, &done)).collect());
    assert_eq!(device.active(), (3000, 0));
    assert_eq!(queue.stats().class(IoClass::SyncRead).active, 3000);
    device.answer_all();
    assert_eq!(
        (done.load(Ordering::SeqCst), queue.stats().class(IoClass::SyncRead).ops),
        (3000, 3000)
    );
}

#[test]
fn threads_read_by_themselves_where_nothing_else_is_to_be_done() {
    let (device, queue, limits) = slow();
    let done = Arc::new(AtomicUsize::new(0));
    let here = |queue: &Arc<LeafQueue>| queue.read_here(IoClass::SyncRead, 0, 512).is_some();
    // As many as the class may have are at the device, and it has room.
    queue.read_batch(IoClass::SyncRead, (0..10).map(|n| read(n * 4096, &done)).collect());
    assert!(here(&queue));
    limits.set(QueueLimit::ReadersAlone, 10);
    assert!(!here(&queue), "they are as many as they may be");
    limits.set(QueueLimit::ReadersAlone, 64);
    queue.write_batch(IoClass::AsyncWrite, vec![write(1 << 20, 4096, &done)]);
    assert!(!here(&queue), "a write is there too");
    device.answer_write();
    assert!(here(&queue));
    queue.read_batch(IoClass::SyncRead, vec![read(1 << 21, &done)]);
    assert!(here(&queue), "a read that was handed over is one of them");
    while device.active() != (0, 0) {
        device.answer_read();
    }
    assert_eq!(done.load(Ordering::SeqCst), 12);
}

#[test]
fn readers_alone_are_more_than_their_class_may_be() {
    let (device, queue, limits) = slow();
    let done = Arc::new(AtomicUsize::new(0));
    let reads = |count: u64| (0..count).map(|n| read(n * 4096, &done)).collect();
    queue.read_batch(IoClass::SyncRead, reads(80));
    assert_eq!(device.active().0, 64);
    device.answer_read();
    assert_eq!(device.active().0, 64, "the freed place is taken");
    queue.read_batch(IoClass::Scrub, reads(1));
    assert_eq!(device.active().0, 65, "another class has its least at once");
    for left in (11..65).rev() {
        device.answer_read();
        assert_eq!(device.active().0, left, "no place is filled again while it is there");
    }
    device.answer_read();
    assert_eq!(device.active().0, 11, "readers are as many as their class may be");
    device.answer_all();
    assert_eq!(done.load(Ordering::SeqCst), 81);
    limits.set(QueueLimit::ReadersAlone, 0);
    queue.read_batch(IoClass::SyncRead, reads(80));
    assert_eq!(device.active().0, 10);
    device.answer_all();
    assert_eq!(done.load(Ordering::SeqCst), 161);
}

#[test]
fn writers_alone_are_more_than_their_class_may_be() {
    let (device, queue, limits) = slow();
    let done = Arc::new(AtomicUsize::new(0));
    queue.write_batch(IoClass::SyncWrite, scattered(80, &done));
    assert_eq!(device.active().1, 64);
    device.answer_write();
    assert_eq!(device.active().1, 64, "the freed place is taken");
    queue.write_batch(IoClass::AsyncWrite, vec![write(1 << 20, 4096, &done)]);
    assert_eq!(device.active().1, 65, "another class has its least at once");
    for left in (11..65).rev() {
        device.answer_write();
        assert_eq!(device.active().1, left, "no place is filled again while it is there");
    }
    device.answer_write();
    assert_eq!(device.active().1, 11, "writers are as many as their class may be");
    device.answer_all();
    assert_eq!(done.load(Ordering::SeqCst), 81);
    limits.set(QueueLimit::WritersAlone, 0);
    queue.write_batch(IoClass::SyncWrite, scattered(80, &done));
    assert_eq!(device.active().1, 10);
    device.answer_all();
    assert_eq!(done.load(Ordering::SeqCst), 161);
}

#[test]
fn durable_writes_need_not_stand_in_line_where_there_is_none() {
    let disk = Arc::new(MemoryDevice::zeros("m", 1 << 20));
    let (queue, _) = queue_of(Arc::clone(&disk) as _, QueueLimits::default());
    let writes = || vec![(4096, vec![Shared::copy_of(&[7; 512]), Shared::copy_of(&[8; 512])])];
    assert_eq!(queue.write_durably(IoClass::SyncWrite, writes()), Some(Ok(())));
    assert_eq!(disk.read_new(4608, 1).map(|b| b.to_vec()), Ok(vec![8]));
    assert_eq!(disk.stats().flushes, 1);
    let counts = queue.stats().class(IoClass::SyncWrite).clone();
    assert_eq!((counts.active, counts.bytes), (0, 1024));
    let beyond = vec![(1 << 20, vec![Shared::copy_of(&[7; 512])])];
    assert!(queue.write_durably(IoClass::SyncWrite, beyond).is_some_and(|r| r.is_err()));
    assert_eq!(disk.stats().flushes, 1, "what was not written is not flushed");
    let (_device, queue, limits) = slow();
    limits.set(QueueLimit::WritersAlone, 10);
    let ok = Arc::new(AtomicUsize::new(0));
    queue.write_batch(IoClass::SyncWrite, (0..10).map(|n| write(n * 8192, 512, &ok)).collect());
    assert_eq!(queue.write_durably(IoClass::SyncWrite, writes()), None);
}

#[test]
fn a_queue_lets_go_of_its_device_before_it_tells() {
    let (device, queue, _) = slow();
    let weak = Arc::downgrade(&queue);
    let last = Arc::new(AtomicUsize::new(9));
    let seen = Arc::clone(&last);
    let done = Box::new(move |_: Result<AlignedBuf, Error>| {
        seen.store(weak.strong_count(), Ordering::SeqCst);
    });
    queue.read_batch(IoClass::SyncRead, vec![Read { offset: 0, len: 512, done }]);
    drop(queue);
    device.answer_read();
    assert_eq!(last.load(Ordering::SeqCst), 0);
}

#[test]
fn threads_on_a_simulated_disk_lose_nothing() {
    for seed in 0..20 {
        let ended = Rt::simulate(seed, |rt| {
            let disk =
                SimDevice::new(rt, &SimOptions { size: 64 << 20, seed, ..Default::default() });
            let (queue, limits) = queue_of(disk, QueueLimits::default());
            limits.set(QueueLimit::AllMax, 3 + seed);
            let ok = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..4u64)
                .map(|n| {
                    let (queue, ok, rt2) = (Arc::clone(&queue), Arc::clone(&ok), rt.clone());
                    let body = move || {
                        for i in 0..50 {
                            let at = (n * 50 + i) * 4096;
                            queue.write_batch(IoClass::AsyncWrite, vec![write(at, 4096, &ok)]);
                            queue.read_batch(IoClass::Scrub, vec![read(at, &ok)]);
                            if let Some(r) = queue.read_here(IoClass::SyncRead, at, 512) {
                                assert!(r.is_ok());
                            }
                            if i % 7 == 0 {
                                rt2.sleep(std::time::Duration::from_micros(50));
                            }
                        }
                    };
                    rt.spawn("user", body).expect("thread")
                })
                .collect();
            for task in tasks {
                let _ = task.join();
            }
            rt.sleep(std::time::Duration::from_secs(5));
            let stats = queue.stats();
            let idle = stats.classes.iter().all(|c| (c.active, c.pending) == (0, 0));
            assert!(idle, "{stats:?}");
            assert_eq!(stats.class(IoClass::AsyncWrite).bytes, 200 * 4096);
            ok.load(Ordering::SeqCst)
        });
        assert_eq!(ended, 400);
    }
}
