//! Promises that several threads want at the same time.
//!
//! Batches are under way while others are flushed, threads write their large blocks before they
//! join one, and some callers do not wait. Each writer has a file of its own, or the volume, and
//! writes one block after the other round a few places, each full of the number of its write. So
//! each byte that a crash left says which write it is of: the one that was promised last there, or
//! a later one that had begun.

use super::{
    CrashMode, NOW, NewFile, NewKind, RunOptions, SHAPES, Shape, Site, State, WHOLE, checked,
    contents, end_txgs, held, import, judge_unreplayed, site,
};
use engine::inside::device::{CrashLog, SimDisks, WriteDeviceRef};
use engine::inside::rt;
use engine::{Filesystem, Volume};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Places that a writer goes round.
const PLACES: usize = 5;
/// Writes of each writer.
const WRITES: usize = 40;
/// Bytes of a block of the volume.
const VOLUME_BLOCK: usize = 8192;

/// What a writer writes to.
#[derive(Clone)]
enum Target {
    File(Filesystem, u64),
    Volume(Arc<Volume>),
}

/// What one writer did.
#[derive(Default)]
struct History {
    /// Events when each write began.
    begun: Vec<usize>,
    /// After this many events, how many writes were promised.
    kept: Vec<(usize, usize)>,
}

/// A writer: its name in a [`State`], bytes of a write, whether it waits for its promises.
struct Writer {
    name: String,
    bytes: usize,
    waits: bool,
    history: Arc<Mutex<History>>,
}

struct ManyRun {
    log: CrashLog,
    writers: Vec<Writer>,
    /// Promises that were given, and batches that they took.
    promises: usize,
    batches: u64,
}

impl Target {
    fn write(&self, at: usize, data: &[u8]) {
        match self {
            Self::File(fs, file) => fs.write_at(*file, at as u64, data, NOW).map(drop).unwrap(),
            Self::Volume(volume) => volume.write_at(at as u64, data).map(drop).unwrap(),
        }
    }

    fn promise(&self) {
        match self {
            Self::File(fs, file) => fs.sync(*file).unwrap(),
            Self::Volume(volume) => volume.flush().unwrap(),
        }
    }

    fn promise_then(&self, then: impl FnOnce() + Send + 'static) {
        match self {
            Self::File(fs, file) => {
                fs.sync_then(Some(*file), |done| done.map(|()| then()).unwrap());
            }
            Self::Volume(volume) => volume.flush_then(|done| done.map(|()| then()).unwrap()),
        }
    }
}

/// Writes for each of these numbers, and wants each write promised.
fn write(rt: &rt::Rt, disks: &Arc<SimDisks>, target: &Target, writer: &Writer, steps: &[u64]) {
    for (n, step) in steps.iter().enumerate() {
        writer.history.lock().begun.push(disks.events());
        target.write(n % PLACES * writer.bytes, &vec![n as u8 + 1; writer.bytes]);
        let (history, events) = (Arc::clone(&writer.history), Arc::clone(disks));
        let keep = move || history.lock().kept.push((events.events(), n + 1));
        if writer.waits {
            target.promise();
            keep();
        } else {
            target.promise_then(keep);
        }
        let mut rng = testkit::Rng::new(step.wrapping_add(writer.bytes as u64));
        if rng.below(3) == 0 {
            rt.sleep(Duration::from_micros(rng.below(3000)));
        }
    }
    while writer.history.lock().kept.len() < steps.len() {
        rt.sleep(Duration::from_millis(1));
    }
}

fn run_here(seed: u64, (shape, how): (Shape, RunOptions), steps: &Arc<[u64]>) -> ManyRun {
    let rt = rt::Rt::simulated(seed);
    let Site { disks, pool, fs, volume } = site(&rt, seed, shape, how);
    let (disks, volume) = (Arc::new(disks), Arc::new(volume));
    let mut writers = Vec::new();
    for (n, (bytes, waits)) in
        [(4096, true), (4096, false), (WHOLE, true), (WHOLE, false)].into_iter().enumerate()
    {
        let name = format!("w{n}");
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let file = fs.create(fs.root_object(), name.as_bytes(), &new).unwrap().number();
        let writer = Writer { name, bytes, waits, history: Arc::default() };
        writers.push((Target::File(fs.clone(), file), Arc::new(writer)));
    }
    let bytes = VOLUME_BLOCK;
    let writer = Writer { name: String::new(), bytes, waits: false, history: Arc::default() };
    writers.push((Target::Volume(Arc::clone(&volume)), Arc::new(writer)));
    pool.sync().unwrap();
    disks.record();
    let stop = Arc::new(AtomicBool::new(false));
    let txgs = how.is_restless.then(|| end_txgs(&rt, &pool, &stop));
    let tasks: Vec<_> = writers
        .iter()
        .map(|(target, writer)| {
            let (clock, disks, steps) = (rt.clone(), Arc::clone(&disks), Arc::clone(steps));
            let (target, writer) = (target.clone(), Arc::clone(writer));
            let body = move || write(&clock, &disks, &target, &writer, &steps);
            rt.spawn("writer", body).unwrap()
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    let log = disks.log();
    stop.store(true, Ordering::Relaxed);
    txgs.into_iter().for_each(|task| task.join().unwrap());
    let batches = pool.log_stats().batches;
    let writers: Vec<_> = writers.into_iter().map(|(_, writer)| writer).collect();
    let promises = writers.iter().map(|w| w.history.lock().kept.len()).sum();
    drop((fs, volume));
    Arc::into_inner(pool).unwrap().close().unwrap();
    let writers = writers.into_iter().map(|w| Arc::into_inner(w).unwrap()).collect();
    ManyRun { log, writers, promises, batches }
}

/// Whether each place has a write that is allowed there when the power failed after `cut` events.
fn allowed(writer: &Writer, cut: usize, got: &State) -> Result<(), String> {
    let history = writer.history.lock();
    let begun = history.begun.iter().filter(|at| **at <= cut).count();
    let kept = history.kept.iter().filter(|(at, _)| *at <= cut).map(|(_, n)| *n).max();
    let kept = kept.unwrap_or(0);
    let name = &writer.name;
    let mut bytes = got.get(name).ok_or_else(|| format!("{name} is lost"))?.clone();
    bytes.resize(bytes.len().max(PLACES * writer.bytes), 0);
    for (place, bytes) in bytes.chunks(writer.bytes).take(PLACES).enumerate() {
        let is_here = |n: &usize| n % PLACES == place;
        let least = (0..kept).rev().find(is_here).map_or(0, |n| n + 1);
        // A record may be in two blocks of the log, and the first of them be all that is left of a
        // write that was not promised.
        let is_allowed = |byte: &u8| match usize::from(*byte) {
            0 => least == 0,
            n => is_here(&(n - 1)) && (least..=begun).contains(&n),
        };
        if let Some(at) = bytes.iter().position(|byte| !is_allowed(byte)) {
            let is = bytes[at];
            return Err(format!(
                "byte {at} of place {place} of {name:?} is {is}, not {least} to {begun}"
            ));
        }
    }
    Ok(())
}

fn judge(run: &ManyRun, cut: usize, mode: CrashMode, seed: u64) -> Result<(), String> {
    let images = run.log.images(cut, mode, seed);
    judge_unreplayed(&images)?;
    let devices: Vec<WriteDeviceRef> =
        images.iter().map(|image| Arc::new(image.fork()) as _).collect();
    let pool = import(&rt::Rt::real(), &devices)?;
    let got = contents(pool.view())?;
    run.writers.iter().try_for_each(|writer| allowed(writer, cut, &got))?;
    pool.close().map_err(|e| e.to_string())?;
    if cut.is_multiple_of(8) {
        let held = held(&devices);
        let again = engine::Pool::open_candidate(&super::candidate(&held)?, &super::cache());
        return checked(&again.map_err(|e| e.to_string())?);
    }
    Ok(())
}

/// Cuts the power at every `step`th event, and at `samples` of them with what is uncertain decided
/// by chance.
fn sweep(seed: u64, kind: (Shape, RunOptions), step: usize, samples: u64) {
    testkit::shrinking_seed(seed, WRITES, |steps| {
        let numbers: Arc<[u64]> = steps.into();
        let run = std::thread::spawn(move || run_here(seed, kind, &numbers)).join();
        let run = run.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert_eq!(run.promises, steps.len() * run.writers.len());
        let is_shared = run.batches * 5 < run.promises as u64 * 4;
        assert!(is_shared || steps.len() < WRITES, "{} batches", run.batches);
        let shape = kind.0;
        let describe = |cut, e| panic!("{shape:?}, cut at {cut} ({}): {e}", run.log.describe(cut));
        for cut in super::cuts(&run.log, step) {
            judge(&run, cut, CrashMode::LoseUnflushed, 0).unwrap_or_else(|e| describe(cut, e));
        }
        let mut rng = testkit::Rng::new(seed);
        for _ in 0..samples {
            let (cut, seed) = (rng.below(run.log.len() as u64 + 1) as usize, rng.next_u64());
            judge(&run, cut, CrashMode::Random, seed).unwrap_or_else(|e| describe(cut, e));
        }
    });
}

#[test]
fn what_was_promised_to_one_of_many_is_there() {
    for (seed, shape) in (70..).zip(SHAPES) {
        sweep(seed, (shape, RunOptions::default()), 23, 12);
    }
    let restless = RunOptions { is_restless: true, ..RunOptions::default() };
    sweep(80, (Shape::DiskAndLog, restless), 31, 8);
}

/// `cargo test --workspace --test promise -- --ignored --nocapture`.
#[test]
#[ignore = "long form: minutes"]
fn what_was_promised_to_one_of_many_is_there_at_every_event() {
    for seed in super::long_seeds(100, 20) {
        let shape = SHAPES[seed as usize % SHAPES.len()];
        let how = RunOptions { is_restless: seed % 4 == 3, ..RunOptions::default() };
        sweep(seed, (shape, how), 1, 500);
    }
}
