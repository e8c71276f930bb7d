//! The power fails at any moment, and nothing that was promised is lost.
//!
//! One run of a mixed workload on simulated disks is recorded, event by event. Then the disks are
//! looked at as a crash at any event would have left them: with all that was not flushed lost, or
//! with any part of it there, torn or reordered. Each time the pool opens, checks clean, holds
//! exactly the state of the txg its uberblock names, and has all that a finished sync or snapshot
//! had promised.
//!
//! A run that fails is made shorter: each change takes all its choices from a number of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "crash/ordered.rs"]
mod ordered;

use engine::inside::device;
use engine::inside::device::{CrashLog, CrashMode, MemoryDevice, SimDevice, SimDisks, SimOptions};
use engine::inside::dmu::Hold;
use engine::inside::ondisk::znode::Time;
use engine::inside::ondisk::{BlkPtr, Dva};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::{LivePool, NewFilesystem};
use engine::inside::zio::{AllocError, AllocRequest, Allocate};
use engine::inside::zpl::write::{NewFile, NewKind, RenameMode};
use engine::inside::{check, pool, rt};
use engine::{Candidate, Filesystem, OpenOptions, Pool};
use poolkit::Shape;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Name of a file to what is in it.
type State = BTreeMap<String, Vec<u8>>;

/// What a run did, and what it was promised.
struct Run {
    log: CrashLog,
    /// State after the last change of each txg.
    by_txg: BTreeMap<u64, State>,
    /// After this many events this txg was durable.
    synced: Vec<(usize, u64)>,
    /// After this many events there was this snapshot, of this state.
    snapshots: Vec<(usize, String, State)>,
}

impl Run {
    /// A snapshot after step `n`; `events` counts those of the disks.
    fn snapshot(&mut self, pool: &LivePool, n: usize, state: &State, events: impl Fn() -> usize) {
        let name = format!("tank/fs@s{n}");
        pool.snapshot(std::slice::from_ref(&name), Vec::new()).unwrap();
        self.snapshots.push((events(), name, state.clone()));
        self.synced.push((events(), pool.last_synced()));
    }

    fn sync(&mut self, pool: &LivePool, events: impl Fn() -> usize) {
        pool.sync().unwrap();
        self.synced.push((events(), pool.last_synced()));
    }
}

const DISK_BYTES: u64 = 64 << 20;
/// Changes of a run.
const STEPS: usize = 60;

fn disk(site: &SimDisks, seed: u64, n: usize, is_lying: bool) -> Arc<SimDevice> {
    site.add(&SimOptions {
        name: format!("sim{n}"),
        size: DISK_BYTES,
        seed: seed + n as u64,
        ignore_flush: is_lying,
        ..SimOptions::default()
    })
}

/// What is broken on purpose, or happens besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Nothing, and the disks grow.
    Grown,
    /// Flushes do nothing.
    Flush,
    /// What a txg frees is handed out in the same txg.
    Reuse,
}

/// Hands out what was freed just now.
struct Hasty {
    right: Arc<engine::inside::pool::Allocator>,
    freed: Mutex<Vec<(u64, [Dva; 3])>>,
}

impl Allocate for Hasty {
    fn allocate(&self, want: &AllocRequest) -> Result<[Dva; 3], AllocError> {
        let mut freed = self.freed.lock().unwrap();
        let fits = |(size, dvas): &(u64, [Dva; 3])| {
            *size == want.psize
                && dvas.iter().filter(|d| !d.is_empty()).count() == usize::from(want.copies)
        };
        match freed.iter().position(fits) {
            Some(i) => Ok(freed.swap_remove(i).1),
            None => self.right.allocate(want),
        }
    }

    fn discard(&self, bp: &BlkPtr, txg: u64) {
        self.right.discard(bp, txg);
    }

    fn free(&self, bp: &BlkPtr, txg: u64) {
        self.right.free(bp, txg);
        let dvas = [0, 1, 2].map(|i| bp.dva(i));
        self.freed.lock().unwrap().push((bp.psize(), dvas));
    }
}

fn hasty(right: Arc<engine::inside::pool::Allocator>) -> Arc<dyn Allocate> {
    Arc::new(Hasty { right, freed: Mutex::default() })
}

/// One change of a file; the txg that it is in, and what the state is after it.
fn change(fs: &Filesystem, rng: &mut testkit::Rng, state: &mut State) -> u64 {
    let root = fs.root_object();
    let now = Time { seconds: 1, nanos: 0 };
    let name = format!("f{}", rng.below(12));
    let tx = fs.begin(Hold::write(1 << 20)).unwrap();
    let object = fs.root().unwrap().lookup(name.as_bytes()).unwrap().map(|e| e.object);
    match (rng.below(10), object) {
        (_, None) => {
            let new = NewFile::new(NewKind::File, 0o644, now);
            fs.create_tx(&tx, root, name.as_bytes(), &new).unwrap();
            state.insert(name, Vec::new());
        }
        (0, Some(_)) => {
            fs.unlink_tx(&tx, root, name.as_bytes(), now).unwrap();
            state.remove(&name);
        }
        (1, Some(_)) => {
            let target = format!("f{}", rng.below(12));
            if target != name {
                let mode = RenameMode::Replace;
                let (from, to) = ((root, name.as_bytes()), (root, target.as_bytes()));
                fs.rename_tx(&tx, from, to, mode, now).unwrap();
                let data = state.remove(&name).unwrap();
                state.insert(target, data);
            }
        }
        (2, Some(object)) => {
            let size = rng.below(200_000);
            fs.truncate_tx(&tx, object, size, now).unwrap();
            state.get_mut(&name).unwrap().resize(size as usize, 0);
        }
        (_, Some(object)) => {
            let at = rng.below(150_000) as usize;
            let mut data = vec![0; rng.below(60_000) as usize + 1];
            data.iter_mut().for_each(|b| *b = rng.next_u64() as u8);
            fs.write_at_tx(&tx, object, at as u64, &data, now).unwrap();
            let file = state.get_mut(&name).unwrap();
            file.resize(file.len().max(at + data.len()), 0);
            file[at..at + data.len()].copy_from_slice(&data);
        }
    }
    tx.txg()
}

/// Makes a change for each of these numbers in a simulation, and records them.
fn run(seed: u64, shape: Shape, steps: &[u64], broken: Broken) -> Run {
    let steps = steps.to_vec();
    // A simulation of its own has a thread of its own.
    let run = std::thread::spawn(move || run_here(seed, shape, &steps, broken)).join();
    run.unwrap_or_else(|panic| resume_unwind(panic))
}

fn run_here(seed: u64, shape: Shape, steps: &[u64], broken: Broken) -> Run {
    let rt = rt::Rt::simulated(seed);
    let site = SimDisks::new(&rt);
    let is_lying = broken == Broken::Flush;
    let all: Vec<_> = (0..shape.devices()).map(|n| disk(&site, seed, n, is_lying)).collect();
    let named = all.iter().enumerate().map(|(n, d)| (format!("sim{n}"), Arc::clone(d) as _));
    let pool = shape.create(&rt, "tank", named.collect(), false, |options| {
        options.ashift = Some(12);
        options.wrap_allocator = (broken == Broken::Reuse).then_some(hasty as fn(_) -> _);
    });
    pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
    if broken == Broken::Grown {
        all.iter().for_each(|disk| disk.lengthen(3 * DISK_BYTES));
    }
    site.record();
    let fs = pool.filesystem("tank/fs").unwrap();
    let mut state = State::new();
    let mut out = Run {
        log: site.log(),
        by_txg: BTreeMap::from([(pool.last_synced(), State::new())]),
        synced: vec![(0, pool.last_synced())],
        snapshots: Vec::new(),
    };
    for (n, step) in steps.iter().enumerate() {
        if broken == Broken::Grown && n == steps.len() / 4 {
            grow(&pool);
        }
        let mut rng = testkit::Rng::new(*step);
        let txg = change(&fs, &mut rng, &mut state);
        out.by_txg.insert(txg, state.clone());
        match rng.below(20) {
            0 => out.snapshot(&pool, n, &state, || site.events()),
            1 | 2 => out.sync(&pool, || site.events()),
            3 => rt.sleep(std::time::Duration::from_secs(2)),
            _ => {}
        }
    }
    pool.sync().unwrap();
    out.synced.push((site.events(), pool.last_synced()));
    drop(fs);
    pool.close().unwrap();
    out.log = site.log();
    out
}

/// The disks are used to their new ends from now on, and mostly there.
fn grow(pool: &LivePool) {
    let size = || pool.look().unwrap().space().tops[0].size();
    let before = size();
    let leaves: Vec<u64> = pool.view().vdevs().leaves().map(|l| l.guid()).collect();
    pool.expand(&leaves).unwrap();
    assert!(size() > 2 * before);
}

fn contents(fs: &Filesystem) -> Result<State, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut out = State::new();
    let root = fs.root().map_err(|e| text(&e))?;
    for entry in root.sorted_entries().map_err(|e| text(&e))? {
        let node = fs.node(entry.object).map_err(|e| text(&e))?;
        let mut data = vec![0; node.size as usize];
        node.read_at(0, &mut data).map_err(|e| text(&e))?;
        out.insert(String::from_utf8_lossy(&entry.name).into_owned(), data);
    }
    Ok(out)
}

fn filesystem(pool: &Pool, name: &str) -> Result<Filesystem, String> {
    let dataset = pool.dsl().by_name(name).map_err(|e| e.to_string())?;
    let objset = pool.dsl().objset(&dataset).map_err(|e| e.to_string())?;
    Filesystem::open(objset).map_err(|e| e.to_string())
}

/// What the disks say they are, and whether they have grown.
fn look(images: Vec<MemoryDevice>) -> impl Iterator<Item = (Option<pool::FoundLeaf>, bool)> {
    images.into_iter().enumerate().map(|(i, image)| {
        let has_grown = device::Device::size_now(&image) > device::Device::size(&image);
        device::WriteDevice::grow(&image);
        let device: device::DeviceRef = Arc::new(image);
        (pool::look_at_device(&device, PathBuf::from(format!("sim{i}"))), has_grown)
    })
}

/// What is wrong with the disks as a crash left them; nothing, if all is well.
fn judge(run: &Run, cut: usize, mode: CrashMode, seed: u64, thorough: bool) -> Result<(), String> {
    let (mut found, mut has_grown) = (Vec::new(), false);
    for (leaf, grown) in look(run.log.images(cut, mode, seed)) {
        has_grown |= grown;
        found.push(leaf.ok_or("a device has no label")?);
    }
    // Those at the new end of a disk are not there before the first txg that knows it.
    judge_leaves(run, cut, &found, thorough.then_some(!has_grown))
}

/// The same of their leaves; thoroughly, if it is said whether labels count.
fn judge_leaves(
    run: &Run,
    cut: usize,
    found: &[pool::FoundLeaf],
    thorough: Option<bool>,
) -> Result<(), String> {
    let candidates = Candidate::group(found);
    let candidate = candidates.first().ok_or("there is no pool")?;
    let options = OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::default() };
    let pool = Pool::open_candidate(candidate, &options).map_err(|e| e.to_string())?;
    if let Some(lost) = pool.salvage().first() {
        return Err(format!("{}: {}", lost.what, lost.cause));
    }
    let txg = pool.uberblock().txg;
    let promised = run.synced.iter().filter(|(at, _)| *at <= cut).map(|(_, txg)| *txg).max();
    if promised.is_some_and(|p| txg < p) {
        return Err(format!("txg {txg} is there, {promised:?} was promised"));
    }
    let (_, want) = run.by_txg.range(..=txg).next_back().ok_or("no such txg")?;
    let got = contents(&filesystem(&pool, "tank/fs")?)?;
    if got != *want {
        return Err(format!("txg {txg} does not hold its state"));
    }
    for (at, name, want) in &run.snapshots {
        match filesystem(&pool, name) {
            Ok(fs) if contents(&fs)? == *want => {}
            Ok(_) => return Err(format!("snapshot {name} is another")),
            Err(e) if *at <= cut => return Err(format!("snapshot {name} is lost: {e}")),
            Err(_) => {}
        }
    }
    if let Some(labels_count) = thorough {
        let options = check::CheckOptions { workers: 1, ..check::CheckOptions::default() };
        let report = check::run(&pool, &options, &rt::Progress::new());
        let is_label = |i: &check::Issue| !labels_count && matches!(i, check::Issue::Label { .. });
        let is_wrong = |i: &&check::Issue| i.severity() > check::Severity::Note && !is_label(i);
        if let Some(issue) = report.issues.iter().find(is_wrong) {
            return Err(format!("check: {issue}"));
        }
    }
    Ok(())
}

/// Judges crashes at every event, once for those that leave the same, and `samples` with what is
/// uncertain decided by chance.
fn sweep(run: &Run, samples: u64, seed: u64) -> Result<u64, String> {
    let describe =
        |cut, mode, e| format!("cut at {cut} ({}), {mode:?}: {e}", run.log.describe(cut));
    let mode = CrashMode::LoseUnflushed;
    let is_last = |cut: &usize| !run.log.is_same_after_next(*cut, mode);
    let mut judged = 0;
    for cut in (0..=run.log.len()).filter(is_last) {
        judge(run, cut, mode, 0, judged % 2 == 0).map_err(|e| describe(cut, mode, e))?;
        judged += 1;
    }
    let mut rng = testkit::Rng::new(seed);
    for n in 0..samples {
        let cut = rng.below(run.log.len() as u64 + 1) as usize;
        let mode = CrashMode::Random;
        judge(run, cut, mode, rng.next_u64(), n % 4 == 0).map_err(|e| describe(cut, mode, e))?;
        judged += 1;
    }
    Ok(judged)
}

#[test]
fn every_cut_of_a_mixed_workload() {
    let all = [Shape::Disk, Shape::Mirror, Shape::Raidz1, Shape::Draid1];
    for (seed, shape) in (1..).zip(all) {
        testkit::shrinking_seed(seed, STEPS, |steps| {
            let run = run(seed, shape, steps, Broken::Nothing);
            let judged = sweep(&run, 300, seed).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
            assert!(judged > 310 || steps.len() < STEPS, "{judged} crashes");
        });
    }
}

/// Disks that grow while the pool is worked with: the labels at their ends move, and the new space
/// is written to.
#[test]
fn every_cut_of_a_workload_on_disks_that_grow() {
    for (seed, shape) in [(31, Shape::Disk), (32, Shape::Mirror), (33, Shape::Raidz1)] {
        testkit::shrinking_seed(seed, STEPS, |steps| {
            let run = run(seed, shape, steps, Broken::Grown);
            sweep(&run, 300, seed).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        });
    }
}

/// Ten workloads, each cut at every event and with 1000 losses drawn by chance. The long form:
/// `cargo test -p engine --test crash -- --ignored`.
#[test]
#[ignore = "long form: half an hour"]
fn ten_thousand_losses_tears_and_reorderings() {
    for seed in 10..20 {
        let shape = [Shape::Disk, Shape::Mirror, Shape::Raidz1][seed as usize % 3];
        testkit::shrinking_seed(seed, 200, |steps| {
            let run = run(seed, shape, steps, Broken::Nothing);
            sweep(&run, 1000, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        });
    }
}

#[test]
fn a_disk_that_ignores_flushes_is_found_out() {
    let run = run(4, Shape::Disk, &testkit::steps(4, STEPS), Broken::Flush);
    let error = sweep(&run, 300, 4).expect_err("nothing was flushed, and that was not noticed");
    assert!(error.contains("cut at"), "{error}");
}

#[test]
fn a_block_reused_too_soon_is_found_out() {
    let steps = testkit::steps(6, 40);
    match std::thread::spawn(move || run_here(6, Shape::Disk, &steps, Broken::Reuse)).join() {
        Ok(run) => {
            let error = sweep(&run, 300, 6).expect_err("blocks were overwritten, unnoticed");
            assert!(error.contains("cut at"), "{error}");
        }
        // When nothing hides it, the run itself stumbles over its own blocks: by an error of a
        // call, not by any panic.
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(message.contains("`Err` value"), "the run ended otherwise: {message}");
        }
    }
}

#[test]
fn a_run_is_its_seed() {
    let steps = testkit::steps(5, 30);
    let [a, b] = [(); 2].map(|()| run(5, Shape::Mirror, &steps, Broken::Nothing));
    let events = a.log.len().max(b.log.len());
    let differs = (0..events).find(|i| a.log.describe(*i) != b.log.describe(*i));
    if let Some(i) = differs {
        panic!("event {i}: {} and {}", a.log.describe(i), b.log.describe(i));
    }
}
