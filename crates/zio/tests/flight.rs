//! Blocks on their way: held, read from memory, bounded, failed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it likes")]

mod common;

use common::{Bench, PLACE, Shape, TXG, assert_whole, prose, random, spec};
use device::{
    Device, DeviceRef, Error, ErrorKind as DeviceErrorKind, Fault, Read, RwFaultDevice, Write,
    WriteDevice, WriteDeviceRef,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vdev::WriteErrorKind;
use zio::{CompressionAlgorithm as Algorithm, ErrorKind, WriteSpec, Writer};

/// A device that keeps writes to itself until it is opened.
struct Gate {
    inner: WriteDeviceRef,
    waiting: Mutex<Option<Vec<Write>>>,
}

impl Gate {
    fn open(&self) {
        if let Some(writes) = self.waiting.lock().unwrap().take() {
            self.inner.submit_writes(writes);
        }
    }

    fn waiting(&self) -> usize {
        self.waiting.lock().unwrap().as_ref().map_or(0, Vec::len)
    }
}

impl Device for Gate {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn size(&self) -> u64 {
        self.inner.size()
    }
    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.inner.read(offset, buf)
    }
    fn submit(&self, batch: Vec<Read>) {
        self.inner.submit(batch);
    }
}

impl WriteDevice for Gate {
    fn submit_writes(&self, batch: Vec<Write>) {
        match &mut *self.waiting.lock().unwrap() {
            Some(waiting) => waiting.extend(batch),
            None => self.inner.submit_writes(batch),
        }
    }
    fn flush(&self) -> Result<(), Error> {
        self.inner.flush()
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.inner.write(offset, data)
    }
    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

/// One disk behind a gate.
fn gated() -> (Bench, Arc<Gate>) {
    let mut bench = Bench::new(&[Shape("file", 1, 0)], 9);
    let inner = Arc::clone(&bench.devices[&1]);
    let gate = Arc::new(Gate { inner, waiting: Mutex::new(Some(Vec::new())) });
    bench.devices.insert(1, Arc::clone(&gate) as WriteDeviceRef);
    (bench, gate)
}

/// Runs `work` on another thread; says whether it has ended.
fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> (Arc<AtomicBool>, std::thread::JoinHandle<T>) {
    let ended = Arc::new(AtomicBool::new(false));
    let mine = Arc::clone(&ended);
    let handle = std::thread::spawn(move || {
        let out = work();
        mine.store(true, Ordering::SeqCst);
        out
    });
    (ended, handle)
}

/// Whether it is still running after a while.
fn hangs(ended: &AtomicBool) -> bool {
    std::thread::sleep(Duration::from_millis(50));
    !ended.load(Ordering::SeqCst)
}

#[test]
fn what_is_in_flight_is_read_from_memory() {
    let (bench, gate) = gated();
    let (writer, _) = bench.writer(u64::MAX);
    let data = prose(1, 128 << 10);
    let spec = WriteSpec { compression: Algorithm::Lz4, copies: 2, ..spec() };
    let bp = writer.write(&data, &spec, PLACE).unwrap();
    assert_eq!((gate.waiting(), writer.stats().in_flight), (2, 2 * bp.psize()));
    assert!(Arc::ptr_eq(&writer.read_pending(&bp).unwrap(), &data));
    let mut other = *bp.words();
    other[12] ^= 1;
    assert!(writer.read_pending(&ondisk::BlkPtr::from_words(other)).is_none());
    let writer = Arc::new(writer);
    let mine = Arc::clone(&writer);
    let (ended, handle) = beside(move || mine.wait());
    assert!(hangs(&ended));
    gate.open();
    handle.join().unwrap().unwrap();
    assert!(writer.read_pending(&bp).is_none());
    assert_whole(writer.reader(), &bp, &data);
}

#[test]
fn a_write_waits_for_room_and_a_large_one_goes_alone() {
    let (bench, gate) = gated();
    let (writer, _) = bench.writer_with(u64::MAX, |s| s.in_flight_max = 100 << 10);
    let writer = Arc::new(writer);
    // Larger than all the room.
    writer.write(&random(1, 128 << 10), &spec(), PLACE).unwrap();
    let mine = Arc::clone(&writer);
    let (ended, handle) = beside(move || mine.write(&random(2, 512), &spec(), PLACE).unwrap());
    assert!(hangs(&ended));
    // What is held takes no room.
    let held = WriteSpec { hold: true, ..spec() };
    writer.write(&random(3, 128 << 10), &held, PLACE).unwrap();
    gate.open();
    let bp = handle.join().unwrap();
    writer.release();
    writer.wait().unwrap();
    assert_whole(writer.reader(), &bp, &random(2, 512));
}

#[test]
fn held_blocks_stay_in_memory_until_they_are_released() {
    let bench = Bench::new(&[Shape("mirror", 2, 0)], 9);
    let (writer, books) = bench.writer(16 << 10);
    let held = WriteSpec { hold: true, ..spec() };
    let datas = [random(1, 4096), random(2, 4096), random(3, 64 << 10), random(4, 8192)];
    let bps: Vec<_> = datas.iter().map(|d| writer.write(d, &held, PLACE).unwrap()).collect();
    assert!(bps[2].is_gang());
    let written = |w: &Writer| {
        let tree = w.reader().vdevs();
        let leaf = tree.leaves().next().unwrap();
        leaf.device().unwrap().stats().written
    };
    let before = written(&writer);
    writer.wait().unwrap();
    for (bp, data) in bps.iter().zip(&datas) {
        assert!(Arc::ptr_eq(&writer.read_pending(bp).unwrap(), data));
    }
    // Given back before it was ever written: the gang's parts are known without reading them.
    let live = books.live();
    writer.free(&bps[2], TXG);
    assert!(books.live() < live - 4);
    assert!(writer.read_pending(&bps[2]).is_none());
    writer.free(&bps[3], TXG);
    assert_eq!((books.live(), written(&writer)), (2, before));
    writer.release();
    writer.wait().unwrap();
    for (bp, data) in bps.iter().zip(&datas).take(2) {
        assert!(writer.read_pending(bp).is_none());
        assert_whole(writer.reader(), bp, data);
    }
    writer.release();
}

#[test]
fn a_new_version_of_a_gang_takes_its_parts() {
    for (ashift, segment, copies) in [(9, 16 << 10, 1), (9, 2048, 3), (12, 4096, 2)] {
        let bench = Bench::new(&[Shape("mirror", 2, 0)], ashift);
        let (writer, books) = bench.writer(segment);
        let held = WriteSpec { hold: true, copies, ..spec() };
        let mut bp = writer.write(&random(0, 60 << 10), &held, PLACE).unwrap();
        assert!(bp.is_gang());
        let (first, live) = (bp.dva(0), books.live());
        for i in 1..5 {
            let spec = WriteSpec { reuse: Some(bp), ..held };
            bp = writer.write(&random(i, 60 << 10), &spec, PLACE).unwrap();
            assert_eq!((bp.dva(0), books.live()), (first, live));
            assert!(writer.read_pending(&bp).unwrap().bytes() == random(i, 60 << 10).bytes());
        }
        assert_eq!(writer.stats().reused, 4);
        // Another size, or another number of copies, is another place.
        let spec = WriteSpec { reuse: Some(bp), ..held };
        let other = writer.write(&random(9, 52 << 10), &spec, PLACE).unwrap();
        assert_ne!(other.dva(0), first);
        writer.free(&other, TXG);
        let spec = WriteSpec { copies: copies % 3 + 1, ..spec };
        let other = writer.write(&random(9, 60 << 10), &spec, PLACE).unwrap();
        assert_ne!(other.dva(0), first);
        writer.free(&other, TXG);
        writer.release();
        writer.wait().unwrap();
        assert_whole(writer.reader(), &bp, &random(4, 60 << 10));
        writer.free(&bp, TXG + 1);
        assert_eq!(books.live(), 0);
    }
}

#[test]
fn a_new_version_takes_the_space_of_the_old_one_where_it_fits() {
    let bench = Bench::new(&[Shape("raidz", 3, 1)], 9);
    let (writer, books) = bench.writer(u64::MAX);
    let held = WriteSpec { hold: true, ..spec() };
    let mut bp = writer.write(&random(0, 4096), &held, PLACE).unwrap();
    let first = bp.dva(0);
    for i in 1..5 {
        bp = writer.write(&random(i, 4096), &WriteSpec { reuse: Some(bp), ..held }, PLACE).unwrap();
        assert_eq!((bp.dva(0), books.live()), (first, 1));
    }
    let not = [
        (8192, held),
        (4096, WriteSpec { copies: 2, ..held }),
        (4096, WriteSpec { birth: TXG + 1, ..held }),
    ];
    for (len, spec) in not {
        let spec = WriteSpec { reuse: Some(bp), ..spec };
        let new = writer.write(&random(9, len), &spec, PLACE).unwrap();
        assert_ne!(new.dva(0), first);
        writer.free(&new, spec.birth);
        assert_eq!(books.live(), 1);
    }
    writer.release();
    writer.wait().unwrap();
    assert_whole(writer.reader(), &bp, &random(4, 4096));
    // On its device already: a new version may still take its place.
    bp = writer.write(&random(5, 4096), &WriteSpec { reuse: Some(bp), ..spec() }, PLACE).unwrap();
    assert_eq!(bp.dva(0), first);
    writer.wait().unwrap();
    assert_whole(writer.reader(), &bp, &random(5, 4096));
    assert_eq!(writer.stats().reused, 5);
}

#[test]
fn space_in_flight_is_neither_reused_nor_given_back() {
    let (bench, gate) = gated();
    let (writer, books) = bench.writer(u64::MAX);
    let old = writer.write(&random(1, 4096), &spec(), PLACE).unwrap();
    let new = WriteSpec { reuse: Some(old), ..spec() };
    let new = writer.write(&random(2, 4096), &new, PLACE).unwrap();
    assert_ne!(new.dva(0), old.dva(0));
    let writer = Arc::new(writer);
    let mine = Arc::clone(&writer);
    let (ended, handle) = beside(move || mine.free(&old, TXG));
    assert!(hangs(&ended));
    assert_eq!(books.live(), 2);
    gate.open();
    handle.join().unwrap();
    assert_eq!(books.live(), 1);
}

/// Disks that fail where they are told to.
fn faulty(shape: Shape) -> (Bench, Vec<Arc<RwFaultDevice>>) {
    let mut bench = Bench::new(&[shape], 9);
    let mut faults = Vec::new();
    for device in bench.devices.values_mut() {
        let faulty = Arc::new(RwFaultDevice::new(Arc::clone(device)));
        *device = Arc::clone(&faulty) as WriteDeviceRef;
        faults.push(faulty);
    }
    (bench, faults)
}

const EIO: DeviceErrorKind = DeviceErrorKind::Io { errno: 5 };

#[test]
fn failures_within_redundancy_are_remembered_and_beyond_it_reported() {
    for shape in [Shape("file", 1, 0), Shape("mirror", 3, 0), Shape("raidz", 5, 2)] {
        for broken in 0..=shape.spare() + 1 {
            let broken = broken.min(shape.1 as usize);
            let (bench, faults) = faulty(shape);
            let (writer, _) = bench.writer(u64::MAX);
            for f in &faults[..broken] {
                f.add(Fault::fail_writes(0..u64::MAX, EIO));
            }
            let data = random(1, 64 << 10);
            let bp = writer.write(&data, &spec(), PLACE).unwrap();
            let txg = || [TXG..=TXG].into_iter().collect::<vdev::Txgs>();
            let missed: Vec<_> = (1..=broken as u64).map(|guid| (guid, txg())).collect();
            if broken <= shape.spare() {
                writer.wait().unwrap();
                let out = common::read(writer.reader(), &bp, vdev::Scope::Data);
                assert!(out.block.unwrap().bytes() == data.bytes());
                assert!(out.faults.is_empty(), "a device that missed it is not asked");
            } else {
                for _ in 0..2 {
                    let e = writer.wait().unwrap_err();
                    assert_eq!(e.place, PLACE);
                    let ErrorKind::Write(e) = e.kind else { panic!("{e}") };
                    assert_eq!((e.vdev, e.size), (0, 64 << 10));
                    match e.kind {
                        WriteErrorKind::Device(e) => assert_eq!((e.kind, broken), (EIO, 1)),
                        WriteErrorKind::TooFewDevices(e) => assert_eq!(e.unwrap().kind, EIO),
                        other => panic!("{other}"),
                    }
                }
            }
            assert_eq!(writer.reader().vdevs().missed(), missed);
            assert!(writer.read_pending(&bp).is_none());
        }
    }
}

#[test]
fn missing_devices_are_gone_without_and_too_many_refuse() {
    for shape in [Shape("mirror", 2, 0), Shape("raidz", 4, 1)] {
        let bench = Bench::new(&[shape], 9);
        for (missing, good) in [(vec![2], true), (vec![1, 2], false)] {
            let tree = bench.tree(&missing);
            assert_eq!(tree.top(0).unwrap().is_writable(), good);
            let answer = Arc::new(Mutex::new(None));
            let mine = Arc::clone(&answer);
            let dva = ondisk::Dva::new(0, 0, 8192, false);
            let done = Box::new(move |r| *mine.lock().unwrap() = Some(r));
            let data = random(1, 4096).shared();
            tree.write_batch(vec![vdev::BlockWrite {
                dva,
                data,
                birth: 3,
                class: vdev::queue::IoClass::SyncWrite,
                done,
            }]);
            let answer = answer.lock().unwrap().take().unwrap();
            assert_eq!(answer.is_ok(), good, "{answer:?}");
            let guids: Vec<u64> = tree.missed().into_iter().map(|(g, _)| g).collect();
            assert_eq!(guids, missing);
        }
    }
}

#[test]
fn a_device_that_cannot_flush_is_written_to_no_more() {
    let (bench, faults) = faulty(Shape("mirror", 2, 0));
    let (writer, _) = bench.writer(u64::MAX);
    let tree = writer.reader().vdevs();
    faults[0].add(Fault::fail_flushes(EIO));
    tree.flush().unwrap();
    assert!(tree.leaves().next().unwrap().writer().is_none());
    let bp = writer.write(&random(1, 512), &spec(), PLACE).unwrap();
    writer.wait().unwrap();
    assert_eq!(tree.missed(), [(1, [TXG..=TXG].into_iter().collect())]);
    let out = common::read(writer.reader(), &bp, vdev::Scope::All);
    assert!(out.block.is_ok() && out.faults.iter().all(|f| f.guid == 1));
    faults[1].add(Fault::fail_flushes(EIO));
    let e = tree.flush().unwrap_err();
    assert_eq!((e.vdev, e.size), (0, 0));
    assert!(matches!(e.kind, WriteErrorKind::TooFewDevices(Some(e)) if e.kind == EIO));
    assert!(tree.top(0).unwrap().is_writable(), "the only one left is not given up");
}

#[test]
fn metadata_are_kept_until_taken_but_not_what_was_given_up() {
    let bench = Bench::new(&[Shape("file", 1, 0)], 9);
    let (writer, _) = bench.writer(u64::MAX);
    let data = prose(1, 16 << 10);
    let above = WriteSpec { level: 1, ..spec() };
    let kept = writer.write(&data, &above, PLACE).unwrap();
    let given_up = writer.write(&data, &above, PLACE).unwrap();
    writer.write(&data, &spec(), PLACE).unwrap();
    writer.wait().unwrap();
    writer.free(&given_up, TXG);
    let recent = writer.take_recent();
    assert_eq!(recent.iter().map(|(bp, _)| *bp).collect::<Vec<_>>(), [kept]);
    assert!(Arc::ptr_eq(&recent[0].1, &data));
    assert!(writer.take_recent().is_empty(), "they are taken once");
}

#[test]
fn the_newest_metadata_are_kept_within_the_bound() {
    let bench = Bench::new(&[Shape("file", 1, 0)], 9);
    let (writer, _) = bench.writer(u64::MAX);
    let above = WriteSpec { level: 1, ..spec() };
    let write = |n| writer.write(&prose(n, 16 << 10), &above, PLACE).unwrap();
    let taken = || writer.take_recent().into_iter().map(|(bp, _)| bp).collect::<Vec<_>>();
    writer.set_recent_max(3 * (16 << 10));
    let all: Vec<_> = (1..=5).map(write).collect();
    assert_eq!(taken(), all[2..], "oldest first");
    // What is given up makes room, and so does what is taken.
    let all: Vec<_> = (6..=8).map(write).collect();
    writer.wait().unwrap();
    writer.free(&all[1], TXG);
    let more = write(9);
    assert_eq!(taken(), [all[0], all[2], more]);
    let last = [write(10), write(11)];
    writer.set_recent_max(16 << 10);
    assert_eq!(taken(), last[1..], "a new bound holds at once");
    writer.set_recent_max((16 << 10) - 1);
    write(12);
    assert_eq!(taken(), [], "one that is larger than all the room is not kept");
    writer.wait().unwrap();
}
