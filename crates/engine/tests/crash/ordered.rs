//! Disks that keep the order of writes, as those in stores do: a txg of a pool on such a disk alone
//! has no flush before its uberblock. Whatever is left of such a disk, it is what was done until
//! some moment; the disks beside it lose and reorder what was not flushed, as all others do.

use super::*;
use device::backend::{deliver, deliver_write};
use device::{
    AlignedBuf, Device, DeviceRef, Error, ErrorKind, MemoryDevice, Read, Shared, Write,
    WriteDevice, WriteDeviceRef,
};
use engine::inside::pool::live::{Devices, ImportOptions, OfflineMode, OwnChanges, SpaceClass};
use engine::inside::pool::live::{NewTop, StoredPropertyValue, import};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const NOW: Time = Time { seconds: 1, nanos: 0 };
/// How long a flush takes: much happens meanwhile.
const FLUSH: Duration = Duration::from_millis(30);

/// What happened to such a disk.
enum OrderedEvent {
    Written(u64, Vec<Shared>),
    /// It was trimmed.
    Zeroed(u64, u64),
    /// A flush ended, which covers this many events.
    Flushed(usize),
}

/// See the head of the file.
struct OrderedDisk {
    rt: rt::Rt,
    /// The other disks, whose events are counted.
    site: SimDisks,
    now: MemoryDevice,
    record: Mutex<Record>,
    /// It fails when it has this number of events.
    fails_at: AtomicUsize,
    /// It fails with the next flush.
    fails_flush: AtomicBool,
}

struct Record {
    start: MemoryDevice,
    /// With the number of events of the other disks before each.
    events: Vec<(usize, OrderedEvent)>,
}

/// What a crash leaves of what was not flushed.
#[derive(Clone, Copy, Debug)]
enum Left {
    Nothing,
    Everything,
    /// What was done first, up to a place that this number decides.
    First(u64),
    /// Of each write this number decides, as on a disk that does not keep the order.
    Some(u64),
}

impl OrderedDisk {
    fn new(rt: &rt::Rt, site: &SimDisks, start: MemoryDevice) -> Arc<Self> {
        Arc::new(Self {
            rt: rt.clone(),
            site: site.clone(),
            now: start.fork(),
            record: Mutex::new(Record { start, events: Vec::new() }),
            fails_at: AtomicUsize::new(usize::MAX),
            fails_flush: AtomicBool::new(false),
        })
    }

    /// Forgets what happened until now.
    fn record(&self) {
        *self.record.lock().unwrap() = Record { start: self.now.fork(), events: Vec::new() };
    }

    fn events(&self) -> usize {
        self.record.lock().unwrap().events.len()
    }

    fn was_trimmed(&self) -> bool {
        let record = self.record.lock().unwrap();
        record.events.iter().any(|(_, event)| matches!(event, OrderedEvent::Zeroed(..)))
    }

    fn note(&self, event: OrderedEvent) {
        self.record.lock().unwrap().events.push((self.site.events(), event));
    }

    fn may_fail_after(&self, events: usize) {
        self.fails_at.store(self.events().saturating_add(events), Ordering::Relaxed);
    }

    fn failure(&self) -> Option<ErrorKind> {
        let has_failed = self.events() >= self.fails_at.load(Ordering::Relaxed);
        has_failed.then_some(ErrorKind::NoAnswer)
    }

    /// What is left of it after this many events.
    fn left(&self, cut: usize, left: Left) -> MemoryDevice {
        let record = self.record.lock().unwrap();
        let flushed = |event: &(usize, OrderedEvent)| match event.1 {
            OrderedEvent::Flushed(events) => Some(events),
            _ => None,
        };
        let certain = record.events[..cut].iter().filter_map(flushed).max().unwrap_or(0);
        let (end, seed) = match left {
            Left::Nothing => (certain, 0),
            Left::Everything => (cut, 0),
            Left::First(n) => (certain + n as usize % (cut - certain + 1), 0),
            Left::Some(seed) => (cut, seed),
        };
        let (image, mut rng) = (record.start.fork(), testkit::Rng::new(seed));
        for (n, (_, event)) in record.events[..end].iter().enumerate() {
            let is_lost = n >= certain && matches!(left, Left::Some(_)) && rng.below(2) == 0;
            match event {
                OrderedEvent::Written(offset, parts) if !is_lost => put(&image, *offset, parts),
                OrderedEvent::Zeroed(offset, len) if !is_lost => {
                    image.trim(*offset, *len).unwrap();
                }
                _ => {}
            }
        }
        image
    }

    /// How many events of the other disks there were then, at least and at most.
    fn others(&self, cut: usize) -> (usize, usize) {
        let record = self.record.lock().unwrap();
        let before = cut.checked_sub(1).map_or(0, |last| record.events[last].0);
        let after = record.events.get(cut).map_or(self.site.events(), |(events, _)| *events);
        (before, after)
    }
}

fn put(device: &MemoryDevice, mut offset: u64, parts: &[Shared]) {
    for part in parts {
        device.put(offset, part);
        offset += part.len() as u64;
    }
}

impl Device for OrderedDisk {
    fn name(&self) -> &str {
        self.now.name()
    }

    fn size(&self) -> u64 {
        self.now.size()
    }

    fn sector_size(&self) -> u32 {
        self.now.sector_size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        buf.copy_from_slice(&self.read_new(offset, buf.len())?);
        Ok(())
    }

    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        match self.failure() {
            Some(kind) => Err(Error::read(kind, &Arc::from(self.name()), offset, len)),
            None => self.now.read_new(offset, len),
        }
    }

    fn submit(&self, batch: Vec<Read>) {
        for Read { offset, len, done } in batch {
            deliver(done, self.read_new(offset, len));
        }
    }
}

impl WriteDevice for OrderedDisk {
    fn submit_writes(&self, batch: Vec<Write>) {
        for Write { offset, parts, done } in batch {
            let len = parts.iter().map(|part| part.len()).sum();
            let failed = self.failure();
            if failed.is_none() {
                put(&self.now, offset, &parts);
                self.note(OrderedEvent::Written(offset, parts));
            }
            let error = |kind| Error::write(kind, &Arc::from(self.name()), offset, len);
            deliver_write(done, failed.map(error).map_or(Ok(()), Err));
        }
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn flush(&self) -> Result<(), Error> {
        let covered = self.events();
        self.rt.sleep(FLUSH);
        if self.fails_flush.load(Ordering::Relaxed) {
            self.may_fail_after(0);
        }
        if let Some(kind) = self.failure() {
            return Err(Error::flush(kind, &Arc::from(self.name())));
        }
        self.note(OrderedEvent::Flushed(covered));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut done = device::write_batch(self, vec![(offset, vec![Shared::copy_of(data)])]);
        done.pop().unwrap()
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        if let Some(kind) = self.failure() {
            return Err(Error::trim(kind, &Arc::from(self.name()), offset, len));
        }
        self.now.trim(offset, len)?;
        self.note(OrderedEvent::Zeroed(offset, len));
        Ok(())
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

/// A pool on such a disk, which is recorded from now on.
fn pool_on(rt: &rt::Rt, site: &SimDisks) -> (Arc<OrderedDisk>, LivePool, Filesystem) {
    let disk = OrderedDisk::new(rt, site, MemoryDevice::zeros("sim0", DISK_BYTES));
    let named = vec![("sim0".to_owned(), Arc::clone(&disk) as WriteDeviceRef)];
    let pool = Shape::Disk.create(rt, "tank", named, false, |options| options.ashift = Some(12));
    pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
    let fs = pool.filesystem("tank/fs").unwrap();
    site.record();
    disk.record();
    (disk, pool, fs)
}

/// In a simulation of its own, which has a thread of its own.
fn alone<T: Send + 'static>(seed: u64, run: impl FnOnce(&rt::Rt) -> T + Send + 'static) -> T {
    let run = std::thread::spawn(move || run(&rt::Rt::simulated(seed))).join();
    run.unwrap_or_else(|panic| resume_unwind(panic))
}

/// What the devices of the pool are while it is worked with; `sim0` keeps the order.
#[derive(Clone, Copy)]
enum Members {
    Attach,
    Offline,
    Online,
    Detach,
    AddLog,
    RemoveLog,
    AddTop,
    RemoveTop,
}

const ALL_MEMBERS: [Members; 8] = [
    Members::Attach,
    Members::Offline,
    Members::Online,
    Members::Detach,
    Members::AddLog,
    Members::RemoveLog,
    Members::AddTop,
    Members::RemoveTop,
];

impl Members {
    fn change(self, pool: &LivePool, others: &Devices) {
        let tree = pool.look().unwrap().config().vdev_tree.clone();
        let leaf = |name: &str| tree.walk().find(|v| v.path.as_deref() == Some(name)).unwrap().guid;
        let top = |name: &str| {
            let is_it = |v: &engine::config::VdevConfig| v.path.as_deref() == Some(name);
            tree.children.iter().find(|top| top.walk().any(is_it)).unwrap().guid
        };
        let add = |name: &str, class| {
            let spec = poolkit::leaf(name, true);
            pool.add_tops(&[NewTop { spec, class }], Some(12), others).unwrap();
        };
        match self {
            Self::Attach => {
                let device = Arc::clone(&others["sim1"]);
                pool.attach(leaf("sim0"), &poolkit::leaf("sim1", true), device).unwrap();
                pool.wait_for_scan().unwrap();
            }
            Self::Offline => pool.offline_leaf(leaf("sim1"), OfflineMode::OfflineForNow).unwrap(),
            Self::Online => {
                pool.online_leaf(leaf("sim1"), OwnChanges::Keep, None, others).unwrap();
                pool.wait_for_scan().unwrap();
            }
            Self::Detach => pool.detach(leaf("sim1")).unwrap(),
            Self::AddLog => add("sim2", SpaceClass::Log),
            Self::RemoveLog => pool.remove_log(top("sim2")).unwrap(),
            Self::AddTop => add("sim3", SpaceClass::Normal),
            Self::RemoveTop => {
                pool.remove_top(top("sim3")).unwrap();
                assert!(pool.wait_for_removal(Duration::from_mins(10)).unwrap());
            }
        }
    }
}

/// Works with a pool whose disk keeps the order; the devices change meanwhile, in this order, the
/// others of which may lie about their flushes.
fn run_ordered(
    rt: &rt::Rt,
    steps: &[u64],
    members: &[Members],
    is_lying: bool,
) -> (Run, Arc<OrderedDisk>) {
    let site = SimDisks::new(rt);
    let count = if members.is_empty() { 0 } else { 3 };
    let other = |n: usize| (format!("sim{n}"), disk(&site, 100, n, is_lying) as WriteDeviceRef);
    let others: Devices = (1..=count).map(other).collect();
    let (disk, pool, fs) = pool_on(rt, &site);
    // A log that is trimmed just then would not be empty when it is to be removed.
    if members.is_empty() {
        pool.set_pool_property("autotrim", StoredPropertyValue::Number(1)).unwrap();
        disk.record();
    }
    let mut state = State::new();
    let mut out = Run {
        log: site.log(),
        by_txg: BTreeMap::from([(pool.last_synced(), State::new())]),
        synced: vec![(0, pool.last_synced())],
        snapshots: Vec::new(),
    };
    let every = steps.len() / (members.len() + 1);
    for (n, step) in steps.iter().enumerate() {
        if n > 0
            && every > 0
            && n % every == 0
            && let Some(member) = members.get(n / every - 1)
        {
            member.change(&pool, &others);
        }
        let mut rng = testkit::Rng::new(*step);
        let txg = change(&fs, &mut rng, &mut state);
        out.by_txg.insert(txg, state.clone());
        match rng.below(12) {
            0 => out.snapshot(&pool, n, &state, || disk.events()),
            1 | 2 => out.sync(&pool, || disk.events()),
            // The log's blocks are flushed, and with them what is under way of a txg.
            3 | 4 => fs.sync_all().unwrap(),
            5 => rt.sleep(Duration::from_secs(2)),
            6 => pool.trim_freed_now(),
            _ => {}
        }
    }
    pool.sync().unwrap();
    out.synced.push((disk.events(), pool.last_synced()));
    drop(fs);
    pool.close().unwrap();
    out.log = site.log();
    (out, disk)
}

/// Those of the disks that have a label.
fn leaves(images: Vec<MemoryDevice>) -> Vec<pool::FoundLeaf> {
    look(images).filter_map(|(leaf, _)| leaf).collect()
}

/// Judges what is left of all disks, at places and in ways that are drawn by chance.
fn sweep_ordered(
    (run, disk): &(Run, Arc<OrderedDisk>),
    samples: u64,
    rng: &mut testkit::Rng,
) -> Result<(), String> {
    for n in 0..samples {
        let cut = rng.below(disk.events() as u64 + 1) as usize;
        let left = match rng.below(4) {
            0 => Left::Nothing,
            1 => Left::Everything,
            _ => Left::First(rng.next_u64()),
        };
        let (least, most) = disk.others(cut);
        let others = least + rng.below((most - least) as u64 + 1) as usize;
        let modes = [CrashMode::LoseUnflushed, CrashMode::KeepAll, CrashMode::Random];
        let mode = modes[rng.below(3) as usize];
        let mut images = vec![disk.left(cut, left)];
        images.extend(run.log.images(others, mode, rng.next_u64()));
        let found = leaves(images);
        judge_leaves(run, cut, &found, (n % 4 == 0).then_some(false)).map_err(|e| {
            let other = run.log.describe(others);
            format!("cut at {cut}, {left:?}; the others at {others} ({other}), {mode:?}: {e}")
        })?;
    }
    Ok(())
}

/// Every moment that may be all that is left, without a flush between a txg and its uberblock.
#[test]
fn whatever_is_left_of_a_disk_that_keeps_the_order() {
    testkit::shrinking_seed(41, STEPS, |steps| {
        let steps = steps.to_vec();
        let is_whole = steps.len() == STEPS;
        let (run, disk) = alone(41, move |rt| run_ordered(rt, &steps, &[], false));
        assert!(disk.was_trimmed() || !is_whole, "nothing was trimmed");
        for cut in 0..=disk.events() {
            let lefts = [Left::Everything, Left::Nothing];
            for left in &lefts[..1 + usize::from(cut % 4 == 0)] {
                let found = leaves(vec![disk.left(cut, *left)]);
                judge_leaves(&run, cut, &found, (cut % 8 == 0).then_some(true))
                    .unwrap_or_else(|e| panic!("cut at {cut}, {left:?}: {e}"));
            }
        }
    });
}

#[test]
fn a_disk_that_does_not_keep_the_order_is_found_out() {
    let steps = testkit::steps(42, STEPS);
    let (run, disk) = alone(42, move |rt| run_ordered(rt, &steps, &[], false));
    let mut rng = testkit::Rng::new(42);
    let is_wrong = (0..400).any(|_| {
        let cut = rng.below(disk.events() as u64 + 1) as usize;
        let found = leaves(vec![disk.left(cut, Left::Some(rng.next_u64()))]);
        judge_leaves(&run, cut, &found, Some(true)).is_err()
    });
    assert!(is_wrong, "there was a flush before each uberblock, or it was not noticed");
}

/// Beside another disk it is flushed as all are, from the txg on in which that comes, until it has
/// gone.
#[test]
fn other_devices_come_to_a_disk_that_keeps_the_order_and_go() {
    testkit::shrinking_seed(43, 90, |steps| {
        let steps = steps.to_vec();
        let run = alone(43, move |rt| run_ordered(rt, &steps, &ALL_MEMBERS, false));
        sweep_ordered(&run, 500, &mut testkit::Rng::new(43)).unwrap_or_else(|e| panic!("{e}"));
    });
}

#[test]
fn other_devices_that_ignore_flushes_are_found_out() {
    let steps = testkit::steps(44, 90);
    let run = alone(44, move |rt| run_ordered(rt, &steps, &ALL_MEMBERS, true));
    sweep_ordered(&run, 500, &mut testkit::Rng::new(44)).expect_err("nothing was flushed there");
}

/// The time from one failure of a disk to the next: what was durable at which event, and how many
/// there were.
struct Era {
    disk: Arc<OrderedDisk>,
    synced: Vec<(usize, u64)>,
}

/// A disk fails somewhere in a txg, also between its blocks and its uberblock, and is as it was at
/// some moment before when it is opened anew: all of the txg is written again, and a crash at any
/// time after that leaves a whole pool.
#[test]
fn a_disk_that_fails_and_goes_back_to_an_earlier_moment() {
    testkit::shrinking_seed(45, 60, |steps| {
        let own = steps.to_vec();
        let (mut run, eras) = alone(45, move |rt| fail_again_and_again(rt, &own));
        let failures = eras.len() - 1;
        assert!(failures > 5 || steps.len() < 60, "{failures} failures");
        for (n, Era { disk, synced }) in eras.into_iter().enumerate() {
            run.synced = synced;
            for cut in 0..=disk.events() {
                if cut % 2 == 1 && cut != disk.events() {
                    continue;
                }
                let found = leaves(vec![disk.left(cut, Left::Everything)]);
                judge_leaves(&run, cut, &found, (cut % 16 == 0).then_some(true))
                    .unwrap_or_else(|e| panic!("after {n} failures, cut at {cut}: {e}"));
            }
        }
    });
}

fn fail_again_and_again(rt: &rt::Rt, steps: &[u64]) -> (Run, Vec<Era>) {
    let site = SimDisks::new(rt);
    let (mut disk, pool, fs) = pool_on(rt, &site);
    pool.outlast_failures().unwrap();
    let (mut state, mut eras) = (State::new(), Vec::new());
    let mut by_txg = BTreeMap::from([(pool.last_synced(), State::new())]);
    let mut last = pool.last_synced();
    let mut synced = vec![(0, last)];
    for few in steps.chunks(3) {
        let mut rng = testkit::Rng::new(few[0]);
        // A txg in which nothing happens has a number as well, and no uberblock; in the first of
        // them something does, since what was freed becomes free.
        (0..4 * rng.below(3)).for_each(|_| pool.sync().unwrap());
        for step in few {
            let txg = change(&fs, &mut testkit::Rng::new(*step), &mut state);
            by_txg.insert(txg, state.clone());
        }
        match rng.below(3) {
            0 => disk.fails_flush.store(true, Ordering::Relaxed),
            _ => disk.may_fail_after(rng.below(50) as usize),
        }
        if pool.sync().is_ok() {
            disk.may_fail_after(usize::MAX);
            last = pool.last_synced();
            synced.push((disk.events(), last));
            continue;
        }
        assert!(pool.is_waiting(), "{:?}", pool.suspended());
        // The uberblock may be there, though its writer was told otherwise.
        let left = if rng.below(3) == 0 { Left::Everything } else { Left::First(rng.next_u64()) };
        let next = OrderedDisk::new(rt, &site, disk.left(disk.events(), left));
        let failed = std::mem::replace(&mut disk, Arc::clone(&next));
        eras.push(Era { disk: failed, synced: std::mem::replace(&mut synced, vec![(0, last)]) });
        let source = Devices::from([("sim0".to_owned(), next as WriteDeviceRef)]);
        assert!(pool.resume(&source).unwrap());
        last = pool.last_synced();
        synced.push((disk.events(), last));
    }
    drop(fs);
    pool.close().unwrap();
    eras.push(Era { disk, synced });
    (Run { log: site.log(), by_txg, synced: Vec::new(), snapshots: Vec::new() }, eras)
}

/// What a log of changes promised on such a disk is there, and what it did not is so in order.
#[test]
fn promises_of_a_log_on_a_disk_that_keeps_the_order() {
    const BLOCK: usize = 4096;
    let (disk, promises) = alone(46, |rt| {
        let (disk, pool, fs) = pool_on(rt, &SimDisks::new(rt));
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let file = fs.create(fs.root_object(), b"file", &new).unwrap().number();
        fs.sync(file).unwrap();
        let (mut rng, mut promises) = (testkit::Rng::new(46), vec![(disk.events(), 0)]);
        for n in 1..=60u64 {
            fs.write_at(file, (n - 1) * BLOCK as u64, &[n as u8; BLOCK], NOW).unwrap();
            match rng.below(6) {
                0..3 => fs.sync(file).unwrap(),
                3 => pool.sync().unwrap(),
                4 => {
                    rt.sleep(Duration::from_secs(2));
                    continue;
                }
                _ => continue,
            }
            promises.push((disk.events(), n));
        }
        drop(fs);
        pool.close().unwrap();
        (disk, promises)
    });
    for cut in promises[0].0..=disk.events() {
        let promised = promises.iter().filter(|(at, _)| *at <= cut).map(|(_, n)| *n).max().unwrap();
        for left in [Left::Everything, Left::First(cut as u64 * 7919)] {
            let image: WriteDeviceRef = Arc::new(disk.left(cut, left));
            let leaf = pool::look_at_device(&Arc::clone(&image).as_device(), "sim0".into());
            let candidate = Candidate::group(&[leaf.unwrap()]).remove(0);
            let options = ImportOptions::new(OpenOptions::default());
            let source = Devices::from([("sim0".to_owned(), image)]);
            let pool = import(&rt::Rt::real(), &candidate, &options, &source).unwrap();
            let got = contents(&pool.filesystem("tank/fs").unwrap()).unwrap();
            let blocks = got["file"].chunks(BLOCK);
            let case = format!("cut at {cut}, {left:?}: {} of {promised}", blocks.len());
            assert!(blocks.len() as u64 >= promised, "{case}");
            assert!(blocks.zip(1u8..).all(|(b, n)| b.iter().all(|byte| *byte == n)), "{case}");
            pool.close().unwrap();
        }
    }
}
