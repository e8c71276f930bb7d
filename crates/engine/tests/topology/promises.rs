//! Files that are promised while a pool is split: by intent logs, in no txg.

use super::random::Bench;
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::{ErrorKind, Fault, RwFaultDevice, Write};
use engine::inside::ondisk::label::{LABEL_SIZE, Part};
use engine::inside::vdev::VdevState;
use engine::{Filesystem, LivePool};
use poolkit::HookedDevice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Files that are promised in the txg of the cut, before its sync begins.
pub(super) const EARLY: u64 = 5;

/// Holds a txg up that is being made durable, until files are promised in the next one. Then the
/// power fails after some more writes of each device.
pub(super) struct Window {
    writes: u64,
    is_wanted: AtomicBool,
    is_open: AtomicBool,
    is_used: AtomicBool,
}

impl Window {
    pub(super) fn new(writes: u64) -> Arc<Self> {
        let (is_wanted, is_open, is_used) = Default::default();
        Arc::new(Self { writes, is_wanted, is_open, is_used })
    }

    /// The first uberblock that is written when it is wanted waits until it was used.
    fn hold(&self, batch: &[Write], devices: &[Arc<RwFaultDevice>]) {
        let is_ring = |write: &Write| (Part::Ring.start()..LABEL_SIZE).contains(&write.offset);
        if batch.iter().any(is_ring) && self.is_wanted.swap(false, Ordering::Relaxed) {
            self.is_open.store(true, Ordering::Release);
            wait_until(|| self.is_used.load(Ordering::Acquire));
            for device in devices {
                let off = ErrorKind::PowerLoss;
                device.add(Fault::fail_writes(0..u64::MAX, off).after(self.writes));
                device.add(Fault::fail_flushes(off).after(self.writes));
            }
        }
    }

    /// The same of the first device of the bench, from now on.
    pub(super) fn before(self: &Arc<Self>, bench: Bench) -> Bench {
        let (window, devices) = (Arc::clone(self), bench.faults.clone());
        bench.behind(Box::new(move |n, _| {
            let (window, devices) = (Arc::clone(&window), devices.clone());
            let device = Arc::clone(&devices[n]);
            let on_write = move |batch: Vec<Write>| {
                if n == 0 {
                    window.hold(&batch, &devices);
                }
                batch
            };
            Arc::new(HookedDevice::new(device, Box::new(on_write))) as _
        }))
    }
}

/// A side is not written to any more.
fn is_cut(pool: &LivePool) -> bool {
    pool.view().vdevs().leaves().any(|leaf| leaf.state() == VdevState::Offline)
}

fn wait_until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is still not so");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many files were promised, in the order of their numbers.
pub(super) struct Promised {
    /// Those that the new pool must have.
    pub(super) before_cut: u64,
    pub(super) all: u64,
    pub(super) result: Result<(), String>,
}

/// Splits another pool of this name off a pool, while files are promised: some when the txg that
/// the split waits for first is almost durable, and when the sides have left, as many as there is
/// time for.
pub(super) fn split_while_promising(
    (pool, name): (&LivePool, &str),
    files: &Filesystem,
    window: &Window,
) -> Promised {
    let sides = pool.sides_to_split(&[]).unwrap();
    // Until one is in a log, which exists from then on: it is to be written in that txg.
    let (mut first, batches) = (0, pool.log_stats().batches);
    while pool.log_stats().batches == batches {
        promise(files, first).unwrap();
        first += 1;
    }
    let is_over = AtomicBool::new(false);
    window.is_wanted.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let is_over = || is_over.load(Ordering::Acquire);
            let mut promised = first;
            let mut go_on = |is_enough: &dyn Fn(u64) -> bool| {
                while !is_enough(promised) && promise(files, promised).is_ok() {
                    promised += 1;
                }
                promised
            };
            wait_until(|| is_over() || window.is_open.load(Ordering::Acquire));
            let before_cut = go_on(&|promised| is_over() || promised == first + EARLY);
            window.is_used.store(true, Ordering::Release);
            wait_until(|| is_over() || is_cut(pool));
            // Slowly, or these are all that devices write before the power fails.
            let is_enough = |_: u64| {
                std::thread::sleep(Duration::from_millis(5));
                is_over()
            };
            (before_cut, go_on(&is_enough))
        });
        let new = pool.split(name, &sides);
        let result = new.and_then(LivePool::export).map_err(|e| e.to_string());
        is_over.store(true, Ordering::Release);
        let (before_cut, all) = writer.join().unwrap();
        Promised { before_cut, all, result }
    })
}

const NOW: Time = Time { seconds: 1, nanos: 0 };

/// Makes a file of this number, which is promised.
pub(super) fn promise(fs: &Filesystem, n: u64) -> Result<(), String> {
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let name = format!("f{n}");
    let file = fs.create(fs.root_object(), name.as_bytes(), &new).map_err(|e| e.to_string())?;
    let file = file.number();
    fs.write_at(file, 0, &n.to_le_bytes(), NOW).map_err(|e| e.to_string())?;
    fs.sync(file).map_err(|e| e.to_string())
}

/// How many of these files are there, in their order, and whole.
pub(super) fn count(fs: &Filesystem) -> u64 {
    let root = fs.root().unwrap();
    let is_there = |n: &u64| {
        let Some(entry) = root.lookup(format!("f{n}").as_bytes()).unwrap() else { return false };
        let mut bytes = [0; 8];
        let file = fs.node(entry.object).unwrap();
        file.read_at(0, &mut bytes).unwrap() == 8 && bytes == n.to_le_bytes()
    };
    (0..).take_while(is_there).count() as u64
}
