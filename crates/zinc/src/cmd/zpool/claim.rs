//! Taking devices for a pool: they are opened for this process alone, and what is on them is looked
//! at first, so that nothing of value is overwritten by a slip.

use crate::args::{PAUSE, Wait};
use crate::failure::Failure;
use crate::known;
use crate::queue::holder;
use crate::served::Server;
use crate::session::Session;
use engine::Pool;
use engine::config::{LabelConfig, PoolState, VdevConfig};
use engine::devices::{self, AnyDevices, DeviceRef, DeviceSource as _, ErrorKind};
use engine::devices::{SystemUse, WriteDeviceRef};
use engine::layout::{self, Layout};
use engine::live::{DEVICE_MIN, Devices, VdevSpec};
use engine::pools;
use engine::pools::{CandidateState, FoundLeaf};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// For which pool devices are taken.
#[derive(Clone, Copy)]
pub enum For<'a> {
    /// A new one.
    New,
    /// One that is there. What an earlier command was about to give it when it was cut off has
    /// nothing on it, and is taken again.
    Pool(&'a Pool),
}

/// Why no device is used twice.
const ONCE: &str = "a pool has each of its devices once";
/// What to do with a device that was a pool's, and is not any more.
const LEFT_OVER: &str = "`zpool status` names its devices; one that was left over, as by a split \
                         that was cut off, is taken with -f";

impl For<'_> {
    fn is_called(self, name: &str) -> bool {
        matches!(self, Self::Pool(pool) if pool.name() == name)
    }

    fn was_begun(self, label: &FoundLeaf) -> bool {
        matches!(self, Self::Pool(pool) if pool.never_got(label))
    }
}

/// Opens every device of a layout. Refuses those of active pools, and unless `force` all that hold
/// something.
pub fn claim(
    session: &Session,
    layout: &Layout,
    pool: For<'_>,
    force: bool,
    wait: Wait,
) -> Result<Devices, Failure> {
    let (began, patience) = (Instant::now(), wait.patience()?);
    let disks = AnyDevices::default();
    let mut out = Devices::new();
    let spares: Vec<&str> = layout.spares.iter().flat_map(VdevSpec::leaves).collect();
    for path in layout.paths() {
        if !force && let Some(device) = devices::loop_above(Path::new(path)) {
            return Err(Failure::new("invalid vdev specification")
                .because(format!("{path} is in use: {device} is a loop device on it"))
                .hint("use '-f' to override, or name the loop device"));
        }
        // Not even `-f` takes from the system what it works with.
        if let Some(holder) = use_by_system(Path::new(path)) {
            let what = format!("cannot use '{path}': Device or resource busy");
            return Err(Failure::new(what).because(holder));
        }
        let device = loop {
            match open(&disks, path) {
                // A command that is about to end may have it.
                Err(_) if is_locked(path) && began.elapsed() < patience => {
                    std::thread::sleep(PAUSE);
                }
                other => break other?,
            }
        };
        if device.size() < DEVICE_MIN {
            return Err(Failure::new(format!("'{path}' is too small"))
                .because(format!("it has {} bytes; a pool needs {DEVICE_MIN}", device.size()))
                .hint("`truncate -s 64M FILE` makes a file of the smallest size"));
        }
        let is_spare = spares.contains(&path);
        let reader = Arc::clone(&device).as_device();
        let label = pools::look_at_device(&reader, PathBuf::from(path));
        if label.as_ref().is_some_and(|label| pool.was_begun(label)) {
            out.insert(path.to_owned(), device);
            continue;
        }
        if let Some(name) = label.as_ref().and_then(|l| user(session, &l.config, is_spare)) {
            let failure = Failure::new("invalid vdev specification")
                .because(format!("{path} is part of active pool '{name}'"));
            return Err(match pool.is_called(&name) {
                true => failure.because(ONCE).hint(LEFT_OVER),
                false => failure.hint(give_up(&name)),
            });
        }
        if !force && let Some(what) = held(&reader, label, Path::new(path), is_spare) {
            return Err(Failure::new("invalid vdev specification")
                .because(format!("{path} {what}"))
                .hint("use '-f' to override, which destroys what is on it"));
        }
        out.insert(path.to_owned(), device);
    }
    Ok(out)
}

/// Refuses devices that the pool has already, whatever it has them for. Not even `-f` uses one
/// twice.
pub fn refuse_own(pool: &Pool, devices: &Devices) -> Result<(), Failure> {
    let aux = || pool.spares().iter().chain(pool.l2cache());
    for (path, device) in devices {
        let reader = Arc::clone(device).as_device();
        let guid =
            pools::look_at_device(&reader, PathBuf::from(path)).and_then(|found| {
                match found.config {
                    LabelConfig::Member(c) if c.pool_guid != pool.guid() => None,
                    LabelConfig::Member(c) => c.guid,
                    LabelConfig::Aux(c) => Some(c.guid),
                }
            });
        let is_there = |there: &VdevConfig| {
            let is_it = |there: &str| there == path || is_same(there, path);
            guid == Some(there.guid) || there.path.as_deref().is_some_and(is_it)
        };
        let tree = &pool.config().vdev_tree;
        if tree.walk().any(|v| v.children.is_empty() && is_there(v)) || aux().any(is_there) {
            return Err(Failure::new("invalid vdev specification")
                .because(format!("{path} is part of active pool '{}'", pool.name()))
                .because(ONCE));
        }
    }
    Ok(())
}

/// Both paths lead to one file or disk.
pub fn is_same(one: &str, other: &str) -> bool {
    let seen = [one, other].map(|path| layout::identity(path).ok());
    seen[0].is_some() && seen[0] == seen[1]
}

/// Another process of ours has it, and no server: that one does not end by itself.
fn is_locked(path: &str) -> bool {
    let process = devices::locked_by(&[PathBuf::from(path)]);
    process.is_some_and(|process| !process.command.iter().any(|word| word == b"serve"))
}

/// What the system does with a device, as a sentence.
fn use_by_system(path: &Path) -> Option<String> {
    Some(match devices::use_by_system(path)? {
        SystemUse::Swap => "it is in use as swap".to_owned(),
        SystemUse::Mount(target) => format!("it is mounted on {target}"),
        SystemUse::PartOf(name) => format!("{name} is made of it"),
    })
}

/// Opens one device for this process alone.
pub fn open(disks: &AnyDevices, path: &str) -> Result<WriteDeviceRef, Failure> {
    disks.claim(Path::new(path)).map_err(|e| match e.kind {
        ErrorKind::InUse => {
            let locked = || Some(format!("{} has it", holder(&[PathBuf::from(path)])?));
            let holder = use_by_system(Path::new(path)).or_else(locked);
            Failure::new(format!("cannot open '{path}': Device or resource busy"))
                .because(holder.unwrap_or_else(|| "another program writes to it".to_owned()))
        }
        _ => Failure::new(format!("cannot open '{path}'")).because(e.to_string()),
    })
}

/// The pool of such a state that has a spare or cache device of this guid, among those whose
/// devices are where this one is. Its label does not name the pool, and stays when the pool is
/// destroyed.
pub fn owner(guid: u64, path: &Path, counts: impl Fn(CandidateState) -> bool) -> Option<String> {
    let mut options = engine::OpenOptions::default();
    if !path.starts_with("/dev") {
        options.search.paths = path.parent().map(Path::to_owned).into_iter().collect();
    }
    let found = pools::scan(&options.search).ok()?;
    let candidates = engine::Candidate::group(&found).into_iter();
    let chosen = candidates.filter(|c| counts(c.state()));
    let pools = chosen.filter_map(|c| engine::Pool::open_candidate(&c, &options).ok());
    let has = |p: &engine::Pool| p.spares().iter().chain(p.l2cache()).any(|c| c.guid == guid);
    pools.filter(has).map(|p| p.name().to_owned()).next()
}

/// The pool that uses the device with this label here: it is known, or served. Not even `-f` takes
/// a device from it. A pool that another host uses, or that was left behind by a crash, cannot be
/// told from one that is not used any more, and leaves the choice to `-f`.
pub fn user(session: &Session, label: &LabelConfig, is_spare: bool) -> Option<String> {
    let known = |guid| known::with_device(session, guid).map(|known| known.name().to_owned());
    match label {
        LabelConfig::Member(c) if c.state == PoolState::Destroyed || c.txg == 0 => None,
        // A spare that stands in is one of other pools too: its label says which has it.
        LabelConfig::Member(c) => known::pools(session)
            .by_guid(c.pool_guid)
            .filter(|known| c.guid.is_some_and(|guid| known.has_device(guid)))
            .map(|known| known.name().to_owned())
            .or_else(|| c.guid.and_then(known))
            .or_else(|| {
                let served = Server::all(session).into_iter().find(|s| s.guid == c.pool_guid);
                served.map(|server| server.name)
            }),
        // A spare of one pool may be a spare of others too.
        LabelConfig::Aux(c) if is_spare && c.state == PoolState::Spare => None,
        LabelConfig::Aux(c) => known(c.guid),
    }
}

/// What to do about a device that an active pool uses.
pub fn give_up(pool: &str) -> String {
    format!("`zinc zpool destroy {pool}` or `zinc zpool export {pool}` gives up its devices")
}

/// What a device holds that would be lost, as the end of a sentence. A spare of one pool may be a
/// spare of others too.
fn held(
    reader: &DeviceRef,
    label: Option<FoundLeaf>,
    path: &Path,
    is_spare: bool,
) -> Option<String> {
    if let Some(found) = label {
        let text = match found.config {
            LabelConfig::Member(c) => match c.state {
                PoolState::Destroyed => None,
                PoolState::Exported => Some(format!("is part of exported pool '{}'", c.name)),
                _ if c.txg == 0 => None,
                _ => Some(format!("is part of potentially active pool '{}'", c.name)),
            },
            LabelConfig::Aux(c) if is_spare && c.state == PoolState::Spare => return None,
            LabelConfig::Aux(c) => owner(c.guid, path, |s| s != CandidateState::Destroyed)
                .map(|pool| format!("is a spare or cache device of pool '{pool}'")),
        };
        if text.is_some() {
            return text;
        }
    }
    // Something else may have been put on what is left of a pool.
    devices::foreign(reader.as_ref()).map(|what| format!("contains {what}"))
}
