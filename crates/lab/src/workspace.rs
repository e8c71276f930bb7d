//! The workspace of an experiment in a pool: one dataset with others below, destroyed in the end,
//! also when something failed.
//!
//! The pool is opened and left several times ([`Workspace::open`]), so that its cache is empty each
//! time, but for a pool that a server holds. Tunables that are set while it is open are set back
//! when it is left.
//!
//! On a device a pool is made for the experiment, and destroyed after it.

use crate::error::LabError;
use crate::experiment::Setting;
use crate::stream::StreamError;
use crate::target::{PoolTarget, Target};
use engine::devices::AnyDevices;
use engine::inside::device::{DeviceSource as _, WriteDeviceRef};
use engine::inside::dsl::DatasetKind;
use engine::inside::dsl::write::{PropertyChange, parse_value};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live;
use engine::inside::pool::live::{
    CreateOptions, Devices, ImportOptions, LivePool, NewFilesystem, NewTop, SpaceClass, Tunable,
    VdevSpec,
};
use engine::inside::pool::look_at_device;
use engine::inside::rt::Rt;
use engine::inside::zpl::Volume;
use engine::{Candidate, OpenOptions};
use std::path::Path;
use std::sync::Arc;

/// A cap of the block cache that holds all that an experiment wants to find there again.
pub const CACHE_BYTES: usize = 1 << 30;

/// Part of the free space that a workspace takes at most.
const PART_OF_FREE: u64 = 4;

/// The pool that is made on a device.
pub const POOL_ON_DEVICE: &str = "zinc-lab";

/// The feature without which a pool destroys no datasets.
const DESTROYS: &str = "com.delphix:async_destroy";

/// What an experiment has in a pool.
pub(crate) struct Workspace<'a> {
    target: &'a PoolTarget,
    setting: &'a Setting,
    home: String,
}

/// The pool, while it is open.
pub(crate) struct OpenWorkspace<'a> {
    /// The pool.
    pub(crate) pool: &'a LivePool,
    home: &'a str,
}

/// Gives an experiment a workspace in the pool of a target, or in one that is made on its device.
///
/// # Errors
/// When there is no such pool, what is made there cannot be made or destroyed, or as `act`.
pub(crate) fn with_workspace<T>(
    target: &Target,
    setting: &Setting,
    act: impl FnOnce(&Workspace<'_>) -> Result<T, LabError>,
) -> Result<T, LabError> {
    match target {
        Target::Pool(pool) => in_pool(pool, setting, act),
        Target::Device { path, .. } => {
            let device = open_device(path)?;
            let pool = pool_on(path, &device)?;
            let result = in_pool(&pool, setting, act);
            let gone = import(path, &device)
                .and_then(LivePool::destroy)
                .map_err(|e| LabError::new(format!("cannot destroy {POOL_ON_DEVICE}"), e));
            result.and_then(|result| gone.map(|()| result))
        }
        Target::Sim(_) => Err(LabError::new("no pool to work in", "the target is simulated disks")),
    }
}

fn in_pool<T>(
    target: &PoolTarget,
    setting: &Setting,
    act: impl FnOnce(&Workspace<'_>) -> Result<T, LabError>,
) -> Result<T, LabError> {
    let home = format!("{}/zinc-lab-{}", target.dataset, setting.seed);
    let workspace = Workspace { target, setting, home };
    workspace.open(|open| {
        // Asked first, or what is made here is never destroyed.
        let look = open.pool.look().map_err(StreamError::from)?;
        if look.feature_state(DESTROYS) == "disabled" {
            let why = "the pool lacks the feature async_destroy: nothing could be destroyed again";
            return Err(LabError::new(format!("cannot make {}", workspace.home), why)
                .hint("`zinc zpool set feature@async_destroy=enabled POOL` gives it"));
        }
        // Blocks of zeros shall be written, and nothing be told from them.
        let plain =
            properties(DatasetKind::Filesystem, &[("compression", "off"), ("dedup", "off")])?;
        let made = open.pool.create_filesystem(&workspace.home, NewFilesystem::default(), plain);
        made.map_err(|e| {
            let home = &workspace.home;
            LabError::new(format!("cannot make {home}"), e).hint(format!(
                "a run that was killed leaves it: `zinc zfs destroy -r {home}`, or another --seed"
            ))
        })
    })?;
    let result = act(&workspace);
    // Also when it was called off.
    let gone = workspace.open_anyway(|open| Ok(open.destroy_all()?));
    result.and_then(|result| gone.map(|()| result))
}

impl Workspace<'_> {
    /// Opens the pool and leaves it.
    ///
    /// # Errors
    /// When it cannot be opened or left, or as `act`; or it was called off.
    pub(crate) fn open<T>(
        &self,
        act: impl FnOnce(&OpenWorkspace<'_>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        self.setting.check()?;
        self.open_anyway(act)
    }

    fn open_anyway<T>(
        &self,
        act: impl FnOnce(&OpenWorkspace<'_>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let (mut act, mut result) = (Some(act), None);
        self.target.with(&mut |pool| {
            let Some(act) = act.take() else { return Ok(()) };
            let before: Vec<_> = Tunable::ALL.iter().map(|t| pool.tunables().get(*t)).collect();
            let acted = act(&OpenWorkspace { pool, home: &self.home });
            for (tunable, value) in Tunable::ALL.iter().zip(before) {
                if pool.tunables().get(*tunable) != value {
                    pool.set_tunable(live::Setting { tunable: *tunable, value });
                }
            }
            result = Some(acted?);
            Ok(())
        })?;
        result.ok_or_else(|| LabError::new("the pool was not opened", "without a reason"))
    }
}

impl OpenWorkspace<'_> {
    /// The name of something below the dataset of the workspace.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{}/{what}", self.home)
    }

    /// Bytes that the workspace may take.
    ///
    /// # Errors
    /// When the pool cannot be read.
    pub(crate) fn budget(&self) -> Result<u64, LabError> {
        let pool = self.pool.look().map_err(StreamError::from)?;
        let free = || {
            let home = pool.dsl().by_name(self.home)?;
            pool.dsl().available(&home, pool.space().usable())
        };
        let free = free().map_err(|e| LabError::new("cannot tell what is free", e))?;
        Ok(free / PART_OF_FREE)
    }

    /// Makes a volume of this size, rounded down to whole blocks, and at least one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn volume(&self, what: &str, bytes: u64, block: u32) -> Result<Volume, StreamError> {
        let (name, block_bytes) = (self.name(what), u64::from(block));
        let bytes = (bytes / block_bytes).max(1) * block_bytes;
        self.pool.create_volume(&name, bytes, block, Vec::new())?;
        Ok(self.pool.volume(&name)?)
    }

    /// Makes a file system.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn filesystem(&self, what: &str, with: &[(&str, &str)]) -> Result<(), LabError> {
        let with = properties(DatasetKind::Filesystem, with)?;
        let made = self.pool.create_filesystem(&self.name(what), NewFilesystem::default(), with);
        Ok(made.map_err(StreamError::from)?)
    }

    /// Sets tunables, until it is left.
    ///
    /// # Errors
    /// When there is no such tunable or value.
    pub(crate) fn set(&self, settings: &[String]) -> Result<(), StreamError> {
        for text in settings {
            self.pool.set_tunable(live::Setting::parse(text)?);
        }
        Ok(())
    }

    fn destroy_all(&self) -> Result<(), StreamError> {
        let dsl =
            |e: engine::inside::dsl::Error| StreamError::from(engine::inside::pool::Error::from(e));
        let view = self.pool.view().dsl();
        let below = view.dir_by_name(self.home).and_then(|home| view.child_names(&home));
        for (name, _) in below.map_err(dsl)? {
            self.pool.destroy_dataset(&self.name(&name))?;
        }
        Ok(self.pool.destroy_dataset(self.home)?)
    }
}

fn properties(kind: DatasetKind, with: &[(&str, &str)]) -> Result<Vec<PropertyChange>, LabError> {
    let change = |(name, text): &(&str, &str)| {
        let value = parse_value(name, text, kind, true)
            .map_err(|e| LabError::new(format!("cannot set {name}={text}"), e))?;
        Ok(PropertyChange { name: (*name).to_owned(), value: Some(value) })
    };
    with.iter().map(change).collect()
}

/// Opens a device for a pool.
///
/// # Errors
/// When it cannot be opened, or another program has it.
pub(crate) fn open_device(path: &Path) -> Result<WriteDeviceRef, StreamError> {
    Ok(AnyDevices::default().claim(path)?)
}

/// Makes the pool. The device stays open until the last copy of its reference is gone, so no
/// other program takes it while the pool is not open.
fn pool_on(path: &Path, device: &WriteDeviceRef) -> Result<PoolTarget, LabError> {
    let leaf = path.display().to_string();
    let spec = VdevSpec::Leaf { path: leaf.clone(), is_file: path.is_file() };
    let options = CreateOptions {
        cache_bytes: CACHE_BYTES,
        read_ahead_bytes: 0,
        ..CreateOptions::new(POOL_ON_DEVICE, vec![NewTop { spec, class: SpaceClass::Normal }])
    };
    let made = live::create(&Rt::real(), &options, &Devices::from([(leaf, Arc::clone(device))]))
        .and_then(LivePool::close);
    made.map_err(|e| LabError::new(format!("cannot make a pool on {}", path.display()), e))?;
    let (path, device) = (path.to_owned(), Arc::clone(device));
    let open = move |act: &mut dyn FnMut(&LivePool) -> Result<(), LabError>| {
        let pool = import(&path, &device).map_err(StreamError::from)?;
        let result = act(&pool);
        let left = pool.close().map_err(|e| StreamError::from(e).into());
        result.and(left)
    };
    Ok(PoolTarget { dataset: POOL_ON_DEVICE.to_owned(), open: Arc::new(open) })
}

fn import(path: &Path, device: &WriteDeviceRef) -> Result<LivePool, engine::inside::pool::Error> {
    let sight = look_at_device(&Arc::clone(device).as_device(), path.to_owned());
    let candidate = Candidate::group(&sight.into_iter().collect::<Vec<_>>()).into_iter().next();
    let candidate = candidate.ok_or_else(|| engine::inside::pool::Error::NoSuchPool {
        wanted: POOL_ON_DEVICE.to_owned(),
        found: Vec::new(),
        searched: vec![path.to_owned()],
    })?;
    let open =
        OpenOptions { cache_bytes: CACHE_BYTES, read_ahead_bytes: 0, ..OpenOptions::default() };
    let source = Devices::from([(path.display().to_string(), Arc::clone(device))]);
    live::import(&Rt::real(), &candidate, &ImportOptions::new(open), &source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::inside::device::MemoryDevice;
    use engine::inside::pool::CandidateState;

    fn datasets(pool: &LivePool) -> usize {
        pool.view().dsl().walk().len()
    }

    #[test]
    fn nothing_stays_behind_when_an_experiment_fails() {
        let device: WriteDeviceRef = Arc::new(MemoryDevice::zeros("disk", 128 << 20));
        let spec = VdevSpec::Leaf { path: "disk".to_owned(), is_file: false };
        let top = NewTop { spec, class: SpaceClass::Normal };
        let devices = Devices::from([("disk".to_owned(), device)]);
        let pool = live::create(&Rt::real(), &CreateOptions::new("tank", vec![top]), &devices);
        let pool = Arc::new(pool.expect("a pool"));
        let held = Arc::clone(&pool);
        let open = move |act: &mut dyn FnMut(&LivePool) -> Result<(), LabError>| act(&held);
        let target = PoolTarget { dataset: "tank".to_owned(), open: Arc::new(open) };
        let (before, timeout) = (datasets(&pool), pool.tunables().get(Tunable::TxgTimeout));
        let failed = with_workspace(&Target::Pool(target), &Setting::default(), |workspace| {
            workspace.open(|open| {
                open.set(&["zfs_txg_timeout=77".to_owned()])?;
                let budget = open.budget()?;
                assert!((10 << 20..32 << 20).contains(&budget), "{budget}");
                open.volume("volume", budget, 8 << 10)?;
                open.filesystem("files", &[("recordsize", "8K")])?;
                assert_eq!(datasets(&pool), before + 3);
                Ok(())
            })?;
            assert_eq!(pool.tunables().get(Tunable::TxgTimeout), timeout);
            workspace.open(|open| Ok(open.set(&["zfs_txg_timeout=never".to_owned()])?))
        });
        let why = failed.expect_err("there is no such value").to_string();
        assert!(why.contains("zfs_txg_timeout"), "{why}");
        assert_eq!(datasets(&pool), before);
    }

    /// Called off between two visits, it leaves nothing in a pool and no pool on a device.
    #[test]
    fn what_is_called_off_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("disk");
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(128 << 20).expect("its size");
        let target = Target::Device { path: path.clone(), destroy: true };
        let off = Arc::new(core::sync::atomic::AtomicBool::new(false));
        let flag = Arc::clone(&off);
        let setting = Setting {
            is_called_off: Arc::new(move || flag.load(core::sync::atomic::Ordering::Relaxed)),
            ..Setting::default()
        };
        let ended = with_workspace(&target, &setting, |workspace| {
            workspace.open(|open| open.filesystem("files", &[]))?;
            off.store(true, core::sync::atomic::Ordering::Relaxed);
            workspace.open(|_| -> Result<(), LabError> { panic!("it is opened again") })
        });
        let why = ended.expect_err("called off").to_string();
        assert!(why.contains("called off"), "{why}");
        let device = open_device(&path).expect("it is not held");
        let sight = look_at_device(&device.as_device(), path).expect("a label");
        let candidate = Candidate::group(&[sight]).into_iter().next().expect("a pool");
        assert_eq!(candidate.state(), CandidateState::Destroyed);
    }

    #[test]
    fn what_others_made_is_not_touched() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("disk");
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(128 << 20).expect("its size");
        let target = Target::Device { path: path.clone(), destroy: true };
        let nested = with_workspace(&target, &Setting::default(), |outer| {
            let again = in_pool(outer.target, &Setting::default(), |_| Ok(()));
            let why = again.expect_err("the name is taken").to_string();
            assert!(why.contains("zinc-lab-1"), "{why}");
            outer.open(|open| open.volume("volume", 1 << 20, 8 << 10).map(drop).map_err(Into::into))
        });
        nested.expect("the first one goes on");
        let device = open_device(&path).expect("it is not held");
        let sight = look_at_device(&device.as_device(), path).expect("a label");
        let candidate = Candidate::group(&[sight]).into_iter().next().expect("a pool");
        assert_eq!(candidate.state(), CandidateState::Destroyed);
    }
}
