//! A change of the pool itself is cut off anywhere: more devices, another guid, its export or end.
//!
//! Labels are written in two rounds around the uberblock. Whatever is on the devices after a crash,
//! there is one pool, which opens as it was or as it was to become; the change can be made again,
//! and no device is in its way.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use engine::config::{LabelConfig, NvList, NvValue, Packing};
use engine::inside::device::{CrashLog, CrashMode, Device, MemoryDevice, WriteDeviceRef};
use engine::inside::device::{SimDisks, SimOptions};
use engine::inside::pool::live::{self, Devices, ImportOptions, VdevSpec};
use engine::inside::{device, pool, rt};
use engine::{Candidate, LivePool, OpenOptions, Pool};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DISK_BYTES: u64 = 64 << 20;
const NEW_GUID: u64 = 4711;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The last disk becomes a vdev of its own.
    Add,
    /// It becomes another side of the first.
    Attach,
    Reguid,
    Export,
    Destroy,
}

fn disk(n: usize) -> VdevSpec {
    poolkit::leaf(format!("sim{n}"), true)
}

fn make(pool: LivePool, change: Change, new: &WriteDeviceRef, n: usize) {
    match change {
        Change::Add => {
            let devices = Devices::from([(format!("sim{n}"), Arc::clone(new))]);
            pool.add_tops(&[poolkit::top(disk(n))], Some(12), &devices).unwrap();
        }
        Change::Attach => {
            let first = pool.look().unwrap().config().vdev_tree.children[0].guid;
            pool.attach(first, &disk(n), Arc::clone(new)).unwrap();
        }
        Change::Reguid => {
            // Another one where the change that was cut off was made.
            let guid = NEW_GUID + u64::from(pool.guid() == NEW_GUID);
            assert_eq!(pool.reguid(Some(guid)).unwrap(), guid);
        }
        Change::Export => return pool.export().unwrap(),
        Change::Destroy => return pool.destroy().unwrap(),
    }
    pool.close().unwrap();
}

fn sim(site: &SimDisks, n: usize, contents: MemoryDevice) -> WriteDeviceRef {
    let options = SimOptions { name: format!("sim{n}"), size: DISK_BYTES, ..SimOptions::default() };
    site.add_with(&options, contents)
}

/// In a simulation of its own, which has a thread of its own.
fn alone<T: Send + 'static>(run: impl FnOnce(&rt::Rt) -> T + Send + 'static) -> T {
    std::thread::spawn(|| run(&rt::Rt::simulated(7))).join().unwrap()
}

/// A pool of `disks` vdevs, and what a change of it does to these and one more.
fn record(change: Change, disks: usize) -> CrashLog {
    alone(move |rt| {
        let site = SimDisks::new(rt);
        let blank = |n| sim(&site, n, MemoryDevice::zeros(&format!("sim{n}"), DISK_BYTES));
        let devices: Devices = (0..disks).map(|n| (format!("sim{n}"), blank(n))).collect();
        let new = blank(disks);
        let tops = (0..disks).map(|n| poolkit::top(disk(n))).collect();
        let pool = poolkit::create(rt, "tank", tops, &devices, |options| options.ashift = Some(12));
        pool.sync().unwrap();
        site.record();
        make(pool, change, &new, disks);
        site.log()
    })
}

/// What it does when it is made again on these disks.
fn record_again(images: &[MemoryDevice], change: Change, disks: usize) -> CrashLog {
    let images: Vec<_> = images.iter().map(MemoryDevice::fork).collect();
    alone(move |rt| {
        let site = SimDisks::new(rt);
        let candidate = group(&images).pop().unwrap();
        let all = images.into_iter().enumerate();
        let devices: BTreeMap<String, WriteDeviceRef> =
            all.map(|(n, image)| (format!("sim{n}"), sim(&site, n, image))).collect();
        site.record();
        let options = ImportOptions::new(OpenOptions::default());
        let pool = live::import(rt, &candidate, &options, &devices).unwrap();
        make(pool, change, &devices[&format!("sim{disks}")], disks);
        site.log()
    })
}

fn group(images: &[MemoryDevice]) -> Vec<Candidate> {
    let look = |(n, image): (usize, &MemoryDevice)| {
        let device: device::DeviceRef = Arc::new(image.fork());
        pool::look_at_device(&device, PathBuf::from(format!("sim{n}")))
    };
    Candidate::group(&images.iter().enumerate().filter_map(look).collect::<Vec<_>>())
}

/// What is wrong with the disks, if anything.
fn judge(images: &[MemoryDevice], change: Change, disks: usize) -> Result<(), String> {
    let found = group(images);
    let [candidate] = &found[..] else { return Err(format!("{} pools", found.len())) };
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let pool = Pool::open_candidate(candidate, &OpenOptions::default()).map_err(|e| text(&e))?;
    if let Some(lost) = pool.salvage().first() {
        return Err(format!("{}: {}", lost.what, lost.cause));
    }
    // The listing of what can be imported shows what the pool has.
    let leaves = |tree: &engine::config::VdevConfig| -> Vec<u64> {
        tree.walk().filter(|v| v.kind.is_leaf()).map(|v| v.guid).collect()
    };
    if leaves(&candidate.tree) != leaves(&pool.config().vdev_tree) {
        return Err("its labels describe another pool than it is".to_owned());
    }
    if candidate.config.pool_guid != pool.config().vdev_tree.guid {
        return Err("its labels have another guid than the pool".to_owned());
    }
    drop(pool);
    again(images, candidate, change, disks)
}

/// Makes the change again where it was not made.
fn again(
    images: &[MemoryDevice],
    candidate: &Candidate,
    change: Change,
    disks: usize,
) -> Result<(), String> {
    let devices: Vec<WriteDeviceRef> =
        images.iter().map(|image| Arc::new(image.fork()) as WriteDeviceRef).collect();
    let named = devices.iter().enumerate().map(|(n, d)| (format!("sim{n}"), Arc::clone(d)));
    let source: BTreeMap<String, WriteDeviceRef> = named.collect();
    let mut options = ImportOptions::new(OpenOptions::default());
    options.destroyed = true;
    let imported = live::import(&rt::Rt::real(), candidate, &options, &source);
    let pool = imported.map_err(|e| format!("for writing: {e}"))?;
    let seen = pool.look().map_err(|e| e.to_string())?;
    let is_made = match change {
        Change::Add | Change::Attach => {
            seen.config().vdev_tree.walk().filter(|v| v.kind.is_leaf()).count() > disks
        }
        _ => false,
    };
    let label = pool::look_at_device(&Arc::clone(&devices[disks]).as_device(), PathBuf::new());
    if !is_made && label.as_ref().is_some_and(|label| !seen.is_half_added(label)) {
        return Err("the new device seems to be the pool's".to_owned());
    }
    if is_made && label.as_ref().is_some_and(|label| seen.is_half_added(label)) {
        return Err("a device of the pool seems not to be its own".to_owned());
    }
    match is_made {
        true => pool.close().map_err(|e| e.to_string())?,
        false => make(pool, change, &devices[disks], disks),
    }
    Ok(())
}

/// Cuts a change off at every event: once where what is left is the same, and at every other pair
/// of events, the others the next day, in one of two random ways where some of it is uncertain.
/// `ZINC_STEP=1` tries both at each.
fn sweep(change: Change, disks: usize) {
    let log = record(change, disks);
    let (mut wrong, mut all) = (Vec::new(), 0);
    let parts = testkit::parts(2);
    let is_of_today = |cut: usize| (cut / 2 + testkit::day()).is_multiple_of(parts);
    for cut in 0..=log.len() {
        let certain = [CrashMode::LoseUnflushed, CrashMode::KeepAll].map(|mode| (mode, 0));
        let is_last = |(mode, _): &(CrashMode, u64)| !log.is_same_after_next(cut, *mode);
        let is_open = log.uncertain(cut) > 0;
        let random = [1, 2].into_iter();
        let random = random.filter(|seed| {
            is_open && (parts == 1 || (cut as u64 % 2 + 1 == *seed && is_of_today(cut)))
        });
        let random = random.map(|seed| (CrashMode::Random, seed));
        for (mode, seed) in certain.into_iter().filter(is_last).chain(random) {
            all += 1;
            if let Err(e) = judge(&log.images(cut, mode, seed), change, disks) {
                let at = log.describe(cut);
                wrong.push(format!("{change:?} of {disks} cut at {cut} ({at}), {mode:?}: {e}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {all}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
}

#[test]
fn a_growing_that_is_cut_off_leaves_the_pool_whole() {
    sweep(Change::Add, 1);
    sweep(Change::Add, 2);
    sweep(Change::Attach, 1);
}

#[test]
fn a_new_guid_that_is_cut_off_leaves_one_pool() {
    sweep(Change::Reguid, 1);
    sweep(Change::Reguid, 2);
}

#[test]
fn a_new_guid_that_is_cut_off_twice_leaves_one_pool() {
    let mut wrong = Vec::new();
    for (disks, then) in [(1, Change::Reguid), (2, Change::Destroy)] {
        let log = record(Change::Reguid, disks);
        for first in (0..=log.len()).filter(|cut| log.describe(*cut).contains("flush begins")) {
            let again = record_again(&log.images(first, CrashMode::KeepAll, 0), then, disks);
            let mode = CrashMode::KeepAll;
            for cut in (0..=again.len()).filter(|cut| !again.is_same_after_next(*cut, mode)) {
                let images = again.images(cut, mode, 0);
                if let Err(e) = judge(&images, then, disks) {
                    let at = again.describe(cut);
                    wrong.push(format!("{disks} disks, {first}, then {cut} ({at}): {e}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_end_that_is_cut_off_leaves_one_pool() {
    sweep(Change::Export, 2);
    sweep(Change::Destroy, 2);
}

/// Puts the disks into files.
fn lay(images: &[MemoryDevice], folder: &Path) {
    for (n, image) in images.iter().enumerate() {
        let file = std::fs::File::create(folder.join(format!("sim{n}"))).unwrap();
        file.set_len(DISK_BYTES).unwrap();
        for at in (0..DISK_BYTES).step_by(1 << 20) {
            let mut bytes = vec![0; 1 << 20];
            image.read(at, &mut bytes).unwrap();
            if bytes.iter().any(|b| *b != 0) {
                file.write_all_at(&bytes, at).unwrap();
            }
        }
    }
}

/// Whether OpenZFS opens the pool on these disks, found by its name and by where they are.
fn zdb(images: &[MemoryDevice]) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    lay(images, folder);
    let candidate = group(images).pop().ok_or("there is no pool")?;
    let pool = Pool::open_candidate(&candidate, &OpenOptions::default());
    let mut config = live::cache_config(&pool.map_err(|e| e.to_string())?);
    place(&mut config, folder);
    let mut list = NvList::new();
    list.set("tank", NvValue::NvList(config));
    let cache = folder.join("cache");
    std::fs::write(&cache, list.encode(Packing::XDR).unwrap()).unwrap();
    let mut command = testkit::oracle::zdb();
    let output = command.arg("-U").arg(&cache).args(["-d", "tank"]).output().unwrap();
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("-U: {}", message.lines().next().unwrap_or_default()));
    }
    let verdict = testkit::oracle::zdb_on(folder, &["-d", "tank"]);
    match verdict.success {
        true => Ok(()),
        false => Err(format!("-e: {}", verdict.text.lines().next().unwrap_or_default())),
    }
}

/// Gives the devices of a configuration the paths of files in a folder.
fn place(list: &mut NvList, folder: &Path) {
    for pair in &mut list.pairs {
        match &mut pair.value {
            NvValue::String(path) if pair.name == b"path" => {
                let name = String::from_utf8_lossy(path).into_owned();
                *path = folder.join(name).into_os_string().into_encoded_bytes();
            }
            NvValue::NvList(inner) => place(inner, folder),
            NvValue::NvListArray(all) => all.iter_mut().for_each(|inner| place(inner, folder)),
            _ => {}
        }
    }
}

/// OpenZFS takes the newest label of each device, whatever the uberblocks are, and wants the guid
/// of the configuration in it. So between the first label with another guid and the uberblock there
/// has to be a time in which it opens nothing; it ends with the next txg, and there is no other.
#[testkit::needs("zdb")]
#[test]
fn zdb_opens_a_pool_whose_new_guid_was_cut_off_once_it_is_finished() {
    let mut wrong = Vec::new();
    for disks in [1, 2] {
        let log = record(Change::Reguid, disks);
        for cut in 0..=log.len() {
            let at = log.describe(cut);
            if !at.contains("flush begins") {
                continue;
            }
            let images = log.images(cut, CrashMode::KeepAll, 0);
            let settled = group(&images).pop().unwrap();
            let is_between = newest_label(&images[0]) > settled.config.txg;
            let mut verdict = zdb(&images[..disks]);
            if is_between {
                assert!(verdict.is_err(), "the comment above is wrong");
                let again = record_again(&images, Change::Reguid, disks);
                verdict = zdb(&again.images(again.len(), CrashMode::LoseUnflushed, 0)[..disks]);
            }
            if let Err(e) = verdict {
                wrong.push(format!("{disks} disks, cut at {cut} ({at}): {e}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn newest_label(image: &MemoryDevice) -> u64 {
    let device: device::DeviceRef = Arc::new(image.fork());
    match pool::look_at_device(&device, PathBuf::new()).unwrap().config {
        LabelConfig::Member(config) => config.txg,
        LabelConfig::Aux(_) => 0,
    }
}
