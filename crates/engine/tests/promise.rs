//! What a sync promised is there after the power failed at any moment, also when it fails again
//! while the log is replayed.
//!
//! One run of a mixed workload with many syncs on simulated disks is recorded, event by event. For
//! each event the disks are as a crash there would have left them. The pool is imported, which
//! replays its logs. Then each byte of each file must be one that it had at some time since it was
//! last promised, and the pool must check clean, before the import too: no block of a log is
//! allocated that nothing leads to. Some imports are recorded themselves, and cut. No device is
//! blamed for what the power left of it: neither where a log is claimed, nor where it was.
//!
//! In some runs txgs end all the time, while a slow log device is written; in some each change is
//! promised (`sync=always`); and some lose their log devices together with the power: then what was
//! in no txg is lost, that is said, and nothing else is.
//!
//! A run that fails is made shorter: each change takes all its choices from a number of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

#[path = "promise/devices.rs"]
mod devices;
#[path = "promise/many.rs"]
mod many;

use engine::files::{CloneRange, NewFile, NewKind, RenameMode, SetAttrs, Time, XattrMode};
use engine::inside::device;
use engine::inside::device::{CrashLog, CrashMode, MemoryDevice, SimDisks, SimOptions};
use engine::inside::dsl::write::{Encryption, RootKey};
use engine::inside::dsl::{KeyFormat, WrappingKey};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::NewFilesystem;
use engine::inside::pool::live::{self, Devices, GivenUpLog, ImportOptions, LogDevices};
use engine::inside::{check, pool, rt, zil};
use engine::{Candidate, Filesystem, LivePool, OpenOptions, Pool, Volume};
use engine::{PropertyChange, StoredValue};
use poolkit::Shape;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Name of a file to what is in it. The volume is a file of no name, an extended attribute of the
/// root directory one that is named [`ATTRIBUTE`].
type State = BTreeMap<String, Vec<u8>>;

const NOW: Time = Time { seconds: 1, nanos: 0 };
const DISK_BYTES: u64 = 64 << 20;
const VOLUME_BYTES: u64 = 1 << 20;
const FILES: u64 = 8;
/// Changes of a run.
const STEPS: usize = 50;
const ATTRIBUTE: &str = "user.what";
/// Bytes of a record: large enough that whole ones go to where they belong at once.
const WHOLE: usize = 64 << 10;
const EIO: device::ErrorKind = device::ErrorKind::Io { errno: 5 };

const SHAPES: [Shape; 5] =
    [Shape::Disk, Shape::Mirror, Shape::Raidz1, Shape::DiskAndLog, Shape::DiskAndLogs];

struct Run {
    log: CrashLog,
    /// After each change.
    states: Vec<State>,
    /// Events when each change had been made.
    made: Vec<usize>,
    /// After this many events this was promised: all changes up to a number, or those of names and
    /// of one file.
    promises: Vec<(usize, usize, Option<String>)>,
    shape: Shape,
    /// The key of the datasets, where they are encrypted.
    key: Option<&'static [u8]>,
}

/// What is special about a run.
#[derive(Clone, Copy, Default)]
struct RunOptions {
    /// Datasets are encrypted with this key.
    key: Option<&'static [u8]>,
    /// A second thread ends one txg after the other. Log devices are so slow that a txg could be
    /// durable before a block of a log is.
    is_restless: bool,
    /// `sync=always`.
    is_always: bool,
    /// What is written to a file is promised at once, as with `O_SYNC`.
    is_o_sync: bool,
}

/// Of datasets whose logs are claimed without it.
const KEY: &[u8; 32] = b"thirty-two bytes of a raw key ..";

/// An encryption root with this key, or no encryption.
fn encryption(key: Option<&[u8]>) -> Encryption {
    let root = |key| RootKey {
        format: KeyFormat::Raw,
        wrapping: Arc::new(WrappingKey::new(KeyFormat::Raw, (0, 0), key).unwrap()),
        pbkdf2_salt: 0,
        pbkdf2_iters: 0,
        location: "prompt".to_owned(),
    };
    let on = |key| Encryption::On { suite: None, root: Some(root(key)) };
    key.map_or(Encryption::Inherit, on)
}

/// Loads the key of the datasets in which a run works.
fn unlock(run: &Run, load: impl Fn(&str, &[u8]) -> Result<(), String>) -> Result<(), String> {
    let Some(key) = run.key else { return Ok(()) };
    ["tank/fs", "tank/vol"].iter().try_for_each(|name| load(name, key))
}

fn options(n: usize, seed: u64) -> SimOptions {
    let name = format!("sim{n}");
    SimOptions { name, size: DISK_BYTES, seed: seed + n as u64, ..SimOptions::default() }
}

/// What a write makes of content.
fn put(content: &mut Vec<u8>, at: usize, data: &[u8]) {
    content.resize(content.len().max(at + data.len()), 0);
    content[at..][..data.len()].copy_from_slice(data);
}

/// One change of a file, or of the volume; what the state is after it. Returns the file whose
/// content it changed.
fn change(
    fs: &Filesystem,
    volume: &Volume,
    rng: &mut testkit::Rng,
    state: &mut State,
) -> Option<(String, u64)> {
    let root = fs.root_object();
    let mut bytes = |most: u64| -> Vec<u8> {
        let n = rng.below(most) + 1;
        (0..n).map(|_| rng.next_u64() as u8).collect()
    };
    let data = bytes(40_000);
    let (what, at) = (rng.below(16), rng.below(60_000));
    let name = format!("f{}", rng.below(FILES));
    if what == 0 {
        let at = at * 10;
        volume.write_at(at, &data).unwrap();
        put(state.get_mut("").unwrap(), at as usize, &data);
        return None;
    }
    let Some(entry) = fs.root().unwrap().lookup(name.as_bytes()).unwrap() else {
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        fs.create(root, name.as_bytes(), &new).unwrap();
        state.insert(name, Vec::new());
        return None;
    };
    let file = entry.object;
    match what {
        15 => {
            let value = &data[..data.len().min(5000)];
            fs.set_xattr(root, ATTRIBUTE.as_bytes(), value, XattrMode::Replace, NOW).unwrap();
            state.insert(ATTRIBUTE.to_owned(), value.to_vec());
        }
        1 => {
            fs.unlink(root, name.as_bytes(), NOW).unwrap();
            state.remove(&name);
        }
        2 => {
            let target = format!("f{}", rng.below(FILES));
            if target != name {
                let (from, to) = ((root, name.as_bytes()), (root, target.as_bytes()));
                fs.rename(from, to, RenameMode::Replace, NOW).unwrap();
                let data = state.remove(&name).unwrap();
                state.insert(target, data);
            }
        }
        9 | 10 => {
            take_over(fs, (&name, file), rng, state);
            return Some((name, file));
        }
        _ => {
            let content = state.get_mut(&name).unwrap();
            change_content(fs, file, content, (what, at), &data, rng);
            return Some((name, file));
        }
    }
    None
}

/// Times that a file took over blocks, in all runs.
static TAKEN_OVER: AtomicUsize = AtomicUsize::new(0);

/// A file takes over the blocks of another, of the first that has some to be shared: often they are
/// not durable, or of another size.
fn take_over(
    fs: &Filesystem,
    (name, file): (&str, u64),
    rng: &mut testkit::Rng,
    state: &mut State,
) {
    let (first, at) = (rng.below(FILES), rng.below(2) as usize * WHOLE);
    for n in 0..FILES {
        let source = format!("f{}", (first + n) % FILES);
        let entry = fs.root().unwrap().lookup(source.as_bytes()).unwrap();
        let Some(entry) = entry.filter(|entry| entry.object != file) else { continue };
        let bytes = state[&source].clone();
        let (from, to, length) = ((entry.object, 0), (file, at as u64), bytes.len() as u64);
        match fs.clone_range(&CloneRange { from, to, length }, NOW) {
            Ok(0) => {}
            Ok(length) => {
                TAKEN_OVER.fetch_add(1, Ordering::Relaxed);
                return put(state.get_mut(name).unwrap(), at, &bytes[..length as usize]);
            }
            Err(e) => assert!(e.to_string().contains("belong to another file"), "{e}"),
        }
    }
}

/// [`change`], where it is the content of one file.
fn change_content(
    fs: &Filesystem,
    file: u64,
    content: &mut Vec<u8>,
    (what, at): (u64, u64),
    data: &[u8],
    rng: &mut testkit::Rng,
) {
    match what {
        3 => {
            fs.truncate(file, at, NOW).unwrap();
            content.resize(at as usize, 0);
        }
        4 => {
            fs.punch(file, at, data.len() as u64, NOW).unwrap();
            let end = content.len().min(at as usize + data.len());
            if (at as usize) < end {
                content[at as usize..end].fill(0);
            }
        }
        5 => {
            let set = SetAttrs { size: Some(at), mode: Some(0o600), ..SetAttrs::default() };
            fs.set_attrs(file, &set, NOW).unwrap();
            content.resize(at as usize, 0);
        }
        6 => {
            fs.append(file, data, NOW).unwrap();
            content.extend(data);
        }
        7 | 8 => {
            let block = rng.next_u64() as u8;
            let data = vec![block; WHOLE * (1 + rng.below(2) as usize)];
            let at = rng.below(3) as usize * WHOLE;
            fs.write_at(file, at as u64, &data, NOW).unwrap();
            put(content, at, &data);
        }
        _ => {
            fs.write_at(file, at, data, NOW).unwrap();
            put(content, at as usize, data);
        }
    }
}

/// Makes a change for each of these numbers in a simulation, and records them.
fn run(seed: u64, shape: Shape, steps: &[u64]) -> Run {
    run_with(seed, shape, steps, RunOptions::default())
}

fn run_with(seed: u64, shape: Shape, steps: &[u64], how: RunOptions) -> Run {
    let steps = steps.to_vec();
    let run = std::thread::spawn(move || run_here(seed, shape, &steps, how)).join();
    run.unwrap_or_else(|panic| resume_unwind(panic))
}

/// A thread that ends one txg after the other, until it is told to stop.
fn end_txgs(rt: &rt::Rt, pool: &Arc<LivePool>, stop: &Arc<AtomicBool>) -> rt::Task<()> {
    let (pool, stop, clock) = (Arc::clone(pool), Arc::clone(stop), rt.clone());
    let ends = move || {
        while !stop.load(Ordering::Relaxed) {
            pool.sync().unwrap();
            clock.sleep(Duration::from_millis(7));
        }
    };
    rt.spawn("txgs", ends).unwrap()
}

/// A pool on simulated disks, with a file system and a volume that are open. Nothing is dirty.
struct Site {
    disks: SimDisks,
    pool: Arc<LivePool>,
    fs: Filesystem,
    volume: Volume,
}

fn site(rt: &rt::Rt, seed: u64, shape: Shape, how: RunOptions) -> Site {
    let RunOptions { key, is_restless, is_always, .. } = how;
    let disks = SimDisks::new(rt);
    let first_log = shape.devices() - shape.log_devices();
    let disk = |n| {
        let mut options = options(n, seed);
        if is_restless && n >= first_log {
            options.model.write.overhead = Duration::from_millis(20);
        }
        (format!("sim{n}"), disks.add(&options) as _)
    };
    let devices = (0..shape.devices()).map(disk).collect();
    let pool = shape.create(rt, "tank", devices, false, |options| options.ashift = Some(12));
    let pool = Arc::new(pool);
    pool.enable_feature("block_cloning").unwrap();
    // In half of the runs nothing but pointers goes into the log.
    let set = |name: &str, n| PropertyChange {
        name: name.to_owned(),
        value: Some(StoredValue::Number(n)),
    };
    let (bias, record) = (set("logbias", seed % 2), set("recordsize", WHOLE as u64));
    let properties = vec![bias.clone(), record];
    let new = NewFilesystem::default();
    pool.create_filesystem_as("tank/fs", new, properties, encryption(key)).unwrap();
    let size = (VOLUME_BYTES, 8192);
    pool.create_volume_as("tank/vol", size, vec![bias], encryption(key)).unwrap();
    let fs = pool.filesystem("tank/fs").unwrap();
    let volume = pool.volume("tank/vol").unwrap();
    let set = |value| {
        let how = XattrMode::Any;
        fs.set_xattr(fs.root_object(), ATTRIBUTE.as_bytes(), value, how, NOW).unwrap();
    };
    set(b"first");
    if is_always {
        let always =
            PropertyChange { name: "sync".to_owned(), value: Some(StoredValue::Number(1)) };
        pool.set_property("tank", always).unwrap();
    }
    pool.sync().unwrap();
    Site { disks, pool, fs, volume }
}

fn run_here(seed: u64, shape: Shape, steps: &[u64], how: RunOptions) -> Run {
    let RunOptions { key, is_restless, is_always, is_o_sync } = how;
    let rt = rt::Rt::simulated(seed);
    let Site { disks: site, pool, fs, volume } = self::site(&rt, seed, shape, how);
    site.record();
    let stop = Arc::new(AtomicBool::new(false));
    let txgs = is_restless.then(|| end_txgs(&rt, &pool, &stop));
    let mut state = State::from([
        (String::new(), vec![0; VOLUME_BYTES as usize]),
        (ATTRIBUTE.to_owned(), b"first".to_vec()),
    ]);
    let mut states = vec![state.clone()];
    let (mut made, mut promises) = (vec![0], vec![(0, 0, None)]);
    for step in steps {
        let mut rng = testkit::Rng::new(*step);
        let written = change(&fs, &volume, &mut rng, &mut state);
        if let Some((_, file)) = written.as_ref().filter(|_| is_o_sync) {
            fs.sync(*file).unwrap();
        }
        states.push(state.clone());
        made.push(site.events());
        let last = states.len() - 1;
        if is_always {
            promises.push((site.events(), last, None));
            continue;
        }
        if let Some((name, _)) = written.filter(|_| is_o_sync) {
            promises.push((site.events(), last, Some(name)));
        }
        match rng.below(12) {
            0..3 => {
                fs.sync_all().unwrap();
                volume.flush().unwrap();
                promises.push((site.events(), last, None));
            }
            3..6 => {
                let name = format!("f{}", rng.below(FILES));
                if let Some(entry) = fs.root().unwrap().lookup(name.as_bytes()).unwrap() {
                    fs.sync(entry.object).unwrap();
                    promises.push((site.events(), last, Some(name)));
                }
            }
            6 => rt.sleep(Duration::from_secs(2)),
            7 => {
                pool.sync().unwrap();
                promises.push((site.events(), last, None));
            }
            _ => {}
        }
    }
    fs.sync_all().unwrap();
    volume.flush().unwrap();
    promises.push((site.events(), states.len() - 1, None));
    let log = site.log();
    stop.store(true, Ordering::Relaxed);
    txgs.into_iter().for_each(|task| task.join().unwrap());
    let is_all_logged = shape.log_devices() > 0 && seed.is_multiple_of(2);
    let early = pool.log_stats().early;
    // A run that was made shorter may have nothing that is written early.
    let is_right = if is_all_logged { early == 0 } else { early > 0 || steps.len() < STEPS };
    assert!(is_right, "{shape:?}: {early} blocks");
    drop((fs, volume));
    Arc::into_inner(pool).unwrap().close().unwrap();
    Run { log, states, made, promises, shape, key }
}

fn candidate(images: &[MemoryDevice]) -> Result<Candidate, String> {
    let mut found = Vec::new();
    for (i, image) in images.iter().enumerate() {
        let device: device::DeviceRef = Arc::new(image.fork());
        let leaf = pool::look_at_device(&device, PathBuf::from(format!("sim{i}")));
        found.push(leaf.ok_or("a device has no label")?);
    }
    Candidate::group(&found).into_iter().next().ok_or_else(|| "there is no pool".to_owned())
}

fn cache() -> OpenOptions {
    OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::default() }
}

/// Imports the pool of these devices, which replays its logs.
fn import(rt: &rt::Rt, devices: &[device::WriteDeviceRef]) -> Result<LivePool, String> {
    import_with(rt, devices, LogDevices::default())
}

fn import_with(
    rt: &rt::Rt,
    devices: &[device::WriteDeviceRef],
    logs: LogDevices,
) -> Result<LivePool, String> {
    let mut found = Vec::new();
    for (i, device) in devices.iter().enumerate() {
        let device = Arc::clone(device).as_device();
        let leaf = pool::look_at_device(&device, PathBuf::from(format!("sim{i}")));
        found.push(leaf.ok_or("a device has no label")?);
    }
    let candidates = Candidate::group(&found);
    let candidate = candidates.first().ok_or("there is no pool")?;
    let options = ImportOptions { force: true, logs, ..ImportOptions::new(cache()) };
    let named = devices.iter().enumerate().map(|(n, d)| (format!("sim{n}"), Arc::clone(d)));
    let source = named.collect::<Devices>();
    live::import(rt, candidate, &options, &source).map_err(|e| format!("import: {e}"))
}

fn contents(pool: &Pool) -> Result<State, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let open = |name: &str| {
        let dataset = pool.dsl().by_name(name).map_err(|e| text(&e))?;
        pool.dsl().objset(&dataset).map_err(|e| text(&e))
    };
    let fs = Filesystem::open(open("tank/fs")?).map_err(|e| text(&e))?;
    let mut out = State::new();
    for entry in fs.root().and_then(|r| r.sorted_entries()).map_err(|e| text(&e))? {
        let node = fs.node(entry.object).map_err(|e| text(&e))?;
        let mut data = vec![0; node.size as usize];
        node.read_at(0, &mut data).map_err(|e| text(&e))?;
        out.insert(String::from_utf8_lossy(&entry.name).into_owned(), data);
    }
    let xattrs = fs.root().and_then(|root| root.xattrs()).map_err(|e| text(&e))?;
    let value = xattrs.get(ATTRIBUTE.as_bytes()).ok_or("the attribute is gone")?;
    out.insert(ATTRIBUTE.to_owned(), value.clone());
    let volume = Volume::open(&open("tank/vol")?).map_err(|e| text(&e))?;
    let mut data = vec![0; VOLUME_BYTES as usize];
    volume.read_at(0, &mut data).map_err(|e| text(&e))?;
    out.insert(String::new(), data);
    Ok(out)
}

/// Whether what is there at `cut` is what was promised, or newer.
fn allowed(run: &Run, cut: usize, got: &State) -> Result<(), String> {
    // The change that was under way may be there too, and that after it, which made no event.
    let to = run.made.iter().filter(|at| **at <= cut).count().min(run.states.len() - 1);
    let kept = run.promises.iter().filter(|(at, ..)| *at <= cut);
    let names = kept.clone().map(|(_, n, _)| *n).max().unwrap_or(0);
    let mut all: BTreeSet<String> = got.keys().cloned().collect();
    all.extend(run.states[names..=to].iter().flat_map(|s| s.keys().cloned()));
    for name in all {
        let there = got.get(&name);
        let existed = |s: &State| s.contains_key(&name) == there.is_some();
        if !run.states[names..=to].iter().any(existed) {
            let what = if there.is_some() { "is there again" } else { "is lost" };
            return Err(format!("{name} {what}; names were promised up to change {names}"));
        }
        let Some(there) = there else { continue };
        let of_it = |p: &Option<String>| p.as_ref().is_none_or(|p| *p == name);
        let own = kept.clone().filter(|(.., p)| of_it(p) || (name.is_empty() && p.is_none()));
        let own = own.filter(|(.., p)| !name.is_empty() || p.is_none());
        let from = own.map(|(_, n, _)| *n).max().unwrap_or(0);
        let versions: Vec<_> = run.states[from..=to].iter().filter_map(|s| s.get(&name)).collect();
        // A write may be several records, for it has several blocks or is split where a block of
        // the log ends: the first ones may be there without the others until it is promised.
        let is_cut = |pair: &[&Vec<u8>]| (pair[0].len()..pair[1].len()).contains(&there.len());
        let is_known = versions.iter().any(|v| v.len() == there.len());
        if !is_known && !versions.windows(2).any(is_cut) {
            let len = there.len();
            return Err(format!("{name} has {len} bytes; promised was change {from} of {to}"));
        }
        let wrong = (0..there.len())
            .find(|i| !versions.iter().any(|v| v.get(*i).copied().unwrap_or(0) == there[*i]));
        if let Some(at) = wrong {
            return Err(format!("byte {at} of {name} is wrong; promised was {from} of {to}"));
        }
    }
    Ok(())
}

/// No device has errors.
fn blames_none(pool: &LivePool) -> Result<(), String> {
    match pool.view().vdevs().error_counts().first_key_value() {
        Some((vdev, errors)) => Err(format!("vdev {vdev} has {errors:?}")),
        None => Ok(()),
    }
}

/// Imports what a crash left and looks at it.
fn judge(run: &Run, cut: usize, images: &[MemoryDevice], thorough: bool) -> Result<(), String> {
    let devices: Vec<device::WriteDeviceRef> =
        images.iter().map(|image| Arc::new(image.fork()) as _).collect();
    let pool = import(&rt::Rt::real(), &devices)?;
    unlock(run, |name, key| pool.load_key(name, key).map(drop).map_err(|e| e.to_string()))?;
    let got = contents(pool.view())?;
    allowed(run, cut, &got)?;
    blames_none(&pool)?;
    pool.close().map_err(|e| e.to_string())?;
    if !thorough {
        return Ok(());
    }
    let again = Pool::open_candidate(&candidate(&held(&devices))?, &cache());
    let again = again.map_err(|e| e.to_string())?;
    unlock(run, |name, key| again.dsl().load_key(name, key).map(drop).map_err(|e| e.to_string()))?;
    if contents(&again)? != got {
        return Err("it is another after it was closed".to_owned());
    }
    checked(&again)
}

/// What devices hold.
fn held(devices: &[device::WriteDeviceRef]) -> Vec<MemoryDevice> {
    let image = |d: &device::WriteDeviceRef| {
        let mut bytes = vec![0; DISK_BYTES as usize];
        Arc::clone(d).as_device().read(0, &mut bytes).unwrap();
        MemoryDevice::from_bytes("again", &bytes)
    };
    devices.iter().map(image).collect()
}

/// The pool is sound, and no block is allocated that nothing leads to.
fn checked(pool: &Pool) -> Result<(), String> {
    let options = check::CheckOptions { workers: 1, ..check::CheckOptions::default() };
    let report = check::run(pool, &options, &rt::Progress::new());
    match report.issues.iter().find(|i| i.severity() > check::Severity::Note) {
        Some(issue) => Err(format!("check: {issue}")),
        None => Ok(()),
    }
}

/// What the disks hold is sound before anything is replayed.
fn judge_unreplayed(images: &[MemoryDevice]) -> Result<(), String> {
    let pool = Pool::open_candidate(&candidate(images)?, &cache()).map_err(|e| e.to_string())?;
    checked(&pool).map_err(|e| format!("without a replay: {e}"))
}

/// Logs of the datasets that have records which no txg has.
fn pending_logs(pool: &Pool) -> Result<BTreeSet<String>, String> {
    let mut out = BTreeSet::new();
    for name in ["tank/fs", "tank/vol"] {
        let dataset = pool.dsl().by_name(name).map_err(|e| e.to_string())?;
        let objset = pool.dsl().objset(&dataset).map_err(|e| e.to_string())?;
        if zil::Log::read(&objset).pending(pool.uberblock().txg).next().is_some() {
            out.insert(name.to_owned());
        }
    }
    Ok(out)
}

/// The log devices are gone with the power: the pool is what the last durable txg has, no less and
/// no more, and which promises may be lost is said. How many logs were given up.
fn judge_without_logs(run: &Run, cut: usize, images: &[MemoryDevice]) -> Result<usize, String> {
    let open = |images: &[MemoryDevice]| {
        Pool::open_candidate(&candidate(images)?, &cache()).map_err(|e| e.to_string())
    };
    let left = &images[..images.len() - run.shape.log_devices()];
    let before = open(left)?;
    let (durable, last) = (contents(&before)?, *before.uberblock());
    drop(before);
    // A txg may be on the log devices alone.
    let whole = open(images)?;
    let is_same = whole.uberblock().txg == last.txg;
    let promised = if is_same { pending_logs(&whole)? } else { BTreeSet::new() };
    drop(whole);
    let is_less = allowed(run, cut, &durable).is_err();
    if is_same && is_less && promised.is_empty() {
        return Err("something is lost that was in no log".to_owned());
    }
    let fork = |image: &MemoryDevice| -> device::WriteDeviceRef { Arc::new(image.fork()) };
    let devices: Vec<_> = left.iter().map(fork).collect();
    // It is not done unasked.
    if (is_less || !promised.is_empty()) && import(&rt::Rt::real(), &devices).is_ok() {
        return Err(format!("the logs of {promised:?} were given up without a word"));
    }
    let devices: Vec<_> = left.iter().map(fork).collect();
    let pool = import_with(&rt::Rt::real(), &devices, LogDevices::GiveUp)?;
    let given_up: Vec<GivenUpLog> = pool.given_up_logs().to_vec();
    if contents(pool.view())? != durable {
        return Err("it is not what the last durable txg had".to_owned());
    }
    pool.close().map_err(|e| e.to_string())?;
    let names: BTreeSet<String> = given_up.iter().map(|log| log.dataset.clone()).collect();
    if !names.is_superset(&promised) || (is_less && names.is_empty()) {
        return Err(format!("{promised:?} lost something, and {names:?} are named"));
    }
    let is_right = |log: &GivenUpLog| (log.txg, log.time) == (last.txg, last.timestamp);
    if let Some(wrong) = given_up.iter().find(|log| !is_right(log) || log.replayed > 0) {
        return Err(format!("{wrong:?} of txg {}, at {}", last.txg, last.timestamp));
    }
    let again = Pool::open_candidate(&candidate(&held(&devices))?, &cache());
    checked(&again.map_err(|e| e.to_string())?)?;
    Ok(given_up.len())
}

/// Records the import of what a crash left.
fn record_import(images: Vec<MemoryDevice>, seed: u64) -> CrashLog {
    let body = move || {
        let rt = rt::Rt::simulated(seed);
        let site = SimDisks::new(&rt);
        let devices: Vec<device::WriteDeviceRef> = images
            .into_iter()
            .enumerate()
            .map(|(n, image)| site.add_with(&options(n, seed), image) as _)
            .collect();
        site.record();
        let pool = import(&rt, &devices).unwrap();
        let log = site.log();
        pool.close().unwrap();
        log
    };
    std::thread::spawn(body).join().unwrap()
}

/// Judges a crash at every event, `samples` with what is uncertain decided by chance, and some
/// crashes while the first is recovered from.
fn sweep(run: &Run, step: usize, samples: u64, seed: u64) -> Result<u64, String> {
    let mut judged = 0;
    let describe = |cut, e| format!("cut at {cut} ({}): {e}", run.log.describe(cut));
    for (n, cut) in cuts(&run.log, step).into_iter().enumerate() {
        let images = run.log.images(cut, CrashMode::LoseUnflushed, 0);
        judge(run, cut, &images, n % 8 == 0).map_err(|e| describe(cut, e))?;
        judge_unreplayed(&images).map_err(|e| describe(cut, e))?;
        judged += 1;
    }
    let mut rng = testkit::Rng::new(seed);
    for n in 0..samples {
        let cut = rng.below(run.log.len() as u64 + 1) as usize;
        let images = run.log.images(cut, CrashMode::Random, rng.next_u64());
        judge(run, cut, &images, n % 8 == 0).map_err(|e| describe(cut, e))?;
        judge_unreplayed(&images).map_err(|e| describe(cut, e))?;
        judged += 1;
        if n % 10 == 0 {
            let second = record_import(images, seed + n);
            let lost = cuts(&second, step).into_iter().map(|at| (at, CrashMode::LoseUnflushed));
            let random = (step..=second.len()).step_by(2 * step).map(|at| (at, CrashMode::Random));
            for (at, mode) in lost.chain(random) {
                let images = second.images(at, mode, rng.next_u64());
                let describe = |e| format!("cut at {cut}, and at {at} of its import: {e}");
                judge(run, cut, &images, at % 16 == 0).map_err(describe)?;
                judged += 1;
            }
        }
    }
    Ok(judged)
}

#[test]
fn what_was_promised_is_there() {
    for (seed, shape) in (1..).zip(SHAPES) {
        testkit::shrinking_seed(seed, STEPS, |steps| {
            let run = run(seed, shape, steps);
            let judged = sweep(&run, 9, 11, seed).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
            assert!(judged > 40 || steps.len() < STEPS, "{judged}");
        });
    }
    let taken_over = TAKEN_OVER.load(Ordering::Relaxed);
    println!("{taken_over} files took over blocks of others");
    assert!(taken_over > 3, "{taken_over}");
}

/// The import claims the logs without the key; they are replayed when it is loaded.
#[test]
fn what_was_promised_of_encrypted_datasets_is_there() {
    for (seed, shape) in (31..).zip([Shape::Mirror, Shape::DiskAndLog]) {
        testkit::shrinking_seed(seed, STEPS, |steps| {
            let how = RunOptions { key: Some(KEY), ..RunOptions::default() };
            let run = run_with(seed, shape, steps, how);
            let judged = sweep(&run, 6, 9, seed).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
            assert!(judged > 30 || steps.len() < STEPS, "{judged}");
        });
    }
}

/// Cuts after which no other leaves the same images, when all that is uncertain is lost: the most
/// is promised there. At most one of each `step` events.
fn cuts(log: &CrashLog, step: usize) -> Vec<usize> {
    let is_last = |cut: &usize| !log.is_same_after_next(*cut, CrashMode::LoseUnflushed);
    let mut cuts: Vec<usize> = (0..=log.len()).filter(is_last).collect();
    cuts.dedup_by_key(|cut| *cut / step);
    cuts
}

/// A txg that allocated a block of a log could be durable before the block that leads to it.
#[test]
fn no_txg_has_a_block_of_a_log_that_nothing_leads_to() {
    for (seed, shape, step) in [(40, Shape::DiskAndLog, 1), (42, Shape::DiskAndLogs, 4)] {
        testkit::shrinking_seed(seed, STEPS, |steps| {
            let how = RunOptions { is_restless: true, ..RunOptions::default() };
            let run = run_with(seed, shape, steps, how);
            let describe =
                |cut, e| panic!("{shape:?}, cut at {cut} ({}): {e}", run.log.describe(cut));
            for (n, cut) in cuts(&run.log, 1).into_iter().step_by(step).enumerate() {
                let images = run.log.images(cut, CrashMode::LoseUnflushed, 0);
                judge_unreplayed(&images).unwrap_or_else(|e| describe(cut, e));
                if n % 8 == 0 {
                    judge(&run, cut, &images, true).unwrap_or_else(|e| describe(cut, e));
                }
            }
            let mut rng = testkit::Rng::new(seed);
            for _ in 0..30 / step {
                let cut = rng.below(run.log.len() as u64 + 1) as usize;
                let images = run.log.images(cut, CrashMode::Random, rng.next_u64());
                judge_unreplayed(&images).unwrap_or_else(|e| describe(cut, e));
            }
        });
    }
}

/// What programs do that open files with `O_SYNC`: names, and other files, are promised now and
/// then only.
#[test]
fn what_is_written_with_o_sync_is_promised() {
    for (seed, shape) in (54..).zip([Shape::Disk, Shape::DiskAndLog]) {
        testkit::shrinking_seed(seed, STEPS, |steps| {
            let how = RunOptions { is_o_sync: true, ..RunOptions::default() };
            let run = run_with(seed, shape, steps, how);
            sweep(&run, 13, 5, seed).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        });
    }
}

#[test]
fn with_sync_always_each_change_is_promised() {
    for (seed, shape) in (50..).zip([Shape::Disk, Shape::DiskAndLog]) {
        testkit::shrinking_seed(seed, STEPS, |steps| {
            let how = RunOptions { is_always: true, ..RunOptions::default() };
            let run = run_with(seed, shape, steps, how);
            sweep(&run, 13, 5, seed).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        });
    }
}

/// Loses the log devices with the power, at each `step`th cut that differs, and at `samples` where
/// chance decides what the others have of what was not flushed. How many logs were given up.
fn lose_logs(run: &Run, step: usize, samples: u64, seed: u64) -> Result<usize, String> {
    let mut given_up = 0;
    let describe = |cut, e| format!("cut at {cut} ({}): {e}", run.log.describe(cut));
    for cut in cuts(&run.log, 1).into_iter().step_by(step) {
        let images = run.log.images(cut, CrashMode::LoseUnflushed, 0);
        given_up += judge_without_logs(run, cut, &images).map_err(|e| describe(cut, e))?;
    }
    let mut rng = testkit::Rng::new(seed);
    for _ in 0..samples {
        let cut = rng.below(run.log.len() as u64 + 1) as usize;
        let images = run.log.images(cut, CrashMode::Random, rng.next_u64());
        given_up += judge_without_logs(run, cut, &images).map_err(|e| describe(cut, e))?;
    }
    Ok(given_up)
}

#[test]
fn log_devices_that_go_with_the_power_take_what_no_txg_has_and_that_is_said() {
    let shapes = [(Shape::DiskAndLog, 5), (Shape::DiskAndLogs, 9), (Shape::MirrorAndLogs, 13)];
    for (seed, (shape, step)) in (60..).zip(shapes) {
        testkit::shrinking_seed(seed, STEPS, |steps| {
            let run = run(seed, shape, steps);
            let given_up = lose_logs(&run, step, 12, seed);
            let given_up = given_up.unwrap_or_else(|e| panic!("{shape:?}, {e}"));
            assert!(given_up > 5 || steps.len() < STEPS, "{given_up}");
        });
    }
}

/// The seeds of a long form: `count` from `first` on, or `ZINC_SEEDS` from `ZINC_SEED` on, so that
/// it can be run in parts. Each is named when its turn comes.
fn long_seeds(first: u64, count: u64) -> impl Iterator<Item = u64> {
    let number = |name, default| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let (first, count): (u64, u64) = (number("ZINC_SEED", first), number("ZINC_SEEDS", count));
    (first..first + count).inspect(|seed| println!("seed {seed}"))
}

/// `cargo test --workspace --test promise -- --ignored --nocapture`.
#[test]
#[ignore = "long form: minutes"]
fn log_devices_that_go_with_the_power_at_every_event() {
    for seed in long_seeds(64, 12) {
        let shapes = [Shape::DiskAndLog, Shape::DiskAndLogs, Shape::MirrorAndLogs];
        let shape = shapes[seed as usize % shapes.len()];
        testkit::shrinking_seed(seed, 2 * STEPS, |steps| {
            let run = run(seed, shape, steps);
            lose_logs(&run, 1, 200, seed).unwrap_or_else(|e| panic!("{shape:?}, {seed}: {e}"));
        });
    }
}

/// `cargo test --workspace --test promise -- --ignored --nocapture`.
#[test]
#[ignore = "long form: an hour"]
fn what_was_promised_is_there_at_every_event() {
    for seed in long_seeds(10, 20) {
        let shape = SHAPES[seed as usize % SHAPES.len()];
        testkit::shrinking_seed(seed, 200, |steps| {
            let run = run(seed, shape, steps);
            sweep(&run, 1, 500, seed).unwrap_or_else(|e| panic!("{shape:?}, seed {seed}: {e}"));
        });
    }
}

/// A log device that fails costs a txg, and no promise.
#[test]
fn a_log_device_that_fails_is_gone_without() {
    let image = |n: usize| Arc::new(MemoryDevice::zeros(&format!("sim{n}"), DISK_BYTES));
    let (disk, log) = (image(0), image(1));
    let faulty = Arc::new(device::RwFaultDevice::new(Arc::clone(&log) as _));
    let devices: [device::WriteDeviceRef; 2] = [Arc::clone(&disk) as _, faulty.clone() as _];
    let names = ["sim0", "sim1"].map(str::to_owned);
    let devices = names.into_iter().zip(devices).collect();
    let pool = Shape::DiskAndLog.create(&rt::Rt::real(), "tank", devices, false, |_| {});
    let fs = pool.filesystem("tank").unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), b"file", &new).unwrap().number();
    let mut promise = |n: u64| {
        fs.write_at(file, n * 4096, &[n as u8 + 1; 4096], NOW).unwrap();
        fs.sync(file).unwrap();
    };
    (0..10).for_each(&mut promise);
    faulty.add(device::Fault::fail_writes(0..u64::MAX, EIO));
    faulty.add(device::Fault::fail_flushes(EIO));
    (10..20).for_each(&mut promise);
    assert!(pool.suspended().is_none());
    let before = pool.last_synced();
    (20..40).for_each(&mut promise);
    assert_eq!(pool.last_synced(), before, "the log is on the other disk by now");
    drop(fs);
    pool.close().unwrap();
    let pool = Pool::open_candidate(&candidate(&[disk.fork(), log.fork()]).unwrap(), &cache());
    let fs = pool.unwrap().filesystem("tank").unwrap();
    let mut bytes = vec![0; 40 * 4096];
    fs.node(file).unwrap().read_at(0, &mut bytes).unwrap();
    assert!(bytes.chunks(4096).zip(1..).all(|(b, n)| b.iter().all(|b| *b == n)));
}

/// Nothing waits for a txg once a log has begun.
#[test]
fn a_promise_does_not_wait_for_a_txg() {
    std::thread::spawn(|| {
        let rt = rt::Rt::simulated(7);
        let site = SimDisks::new(&rt);
        let devices = vec![("sim0".to_owned(), site.add(&options(0, 7)) as _)];
        let pool = Shape::Disk.create(&rt, "tank", devices, false, |_| {});
        let fs = pool.filesystem("tank").unwrap();
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let file = fs.create(fs.root_object(), b"file", &new).unwrap().number();
        fs.sync(file).unwrap();
        let before = pool.last_synced();
        for n in 0..50 {
            fs.write_at(file, n * 4096, &[n as u8; 4096], NOW).unwrap();
            fs.sync(file).unwrap();
        }
        assert_eq!(pool.last_synced(), before);
        // The first attribute says that the log may have such records; nothing waits then.
        let set = |n: u8| {
            fs.set_xattr(file, b"user.n", &[n; 9], XattrMode::Any, NOW).unwrap();
            fs.sync(file).unwrap();
        };
        set(0);
        let before = pool.last_synced();
        (1..9).for_each(set);
        assert_eq!(pool.last_synced(), before);
        pool.close().unwrap();
    })
    .join()
    .unwrap();
}
