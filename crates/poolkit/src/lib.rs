//! How tests come by pools: those of the collection, opened, and new ones: layouts, and a pool of
//! each over memory, files or simulated disks.
//!
//! Only tests use this crate (a dev-dependency everywhere; `tidy` enforces it), so it may panic. It
//! stands on `pool`, so that tests of `pool` and of all that is above it have the same layouts.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod hooked;

pub use hooked::{HookedDevice, ReadHook, WriteHook};

use device::WriteDeviceRef;
use pool::UnguardedDatasets as _;
use pool::live::{self, CreateOptions, Devices, LivePool, NewTop, SpaceClass, VdevSpec};
use pool::{OpenOptions, Pool};
use rt::Rt;
use testkit::CorpusPool;

/// A pool of the collection, opened for reading where it lies.
pub fn open(case: &CorpusPool) -> Pool {
    Pool::open(case.name(), &OpenOptions::in_places([&case.dir])).expect("the pool opens")
}

/// The same with the keys that its manifest has.
pub fn open_unlocked(case: &CorpusPool) -> Pool {
    let pool = open(case);
    for (name, key) in case.keys() {
        pool.dsl().load_key(&name, &key).expect("the key fits");
    }
    pool
}

/// A leaf that its labels know by this path, as a file or as a disk.
pub fn leaf(path: impl Into<String>, is_file: bool) -> VdevSpec {
    VdevSpec::Leaf { path: path.into(), is_file }
}

/// A top-level vdev for data of all kinds.
pub fn top(spec: VdevSpec) -> NewTop {
    NewTop { spec, class: SpaceClass::Normal }
}

/// Makes a pool of these vdevs.
pub fn create(
    rt: &Rt,
    pool: &str,
    tops: Vec<NewTop>,
    devices: &Devices,
    change: impl FnOnce(&mut CreateOptions),
) -> LivePool {
    let mut options = CreateOptions::new(pool, tops);
    change(&mut options);
    live::create(rt, &options, devices).unwrap()
}

/// A pool's vdevs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One disk.
    Disk,
    /// Three disks, side by side.
    Disks3,
    /// Two disks with the same.
    Mirror,
    /// Three disks with the same.
    Mirror3,
    /// One parity over three disks.
    Raidz1,
    /// Two parities over five disks.
    Raidz2,
    /// Three parities over seven disks.
    Raidz3,
    /// One parity, two data, one distributed spare over five disks.
    Draid1,
    /// Two parity, three data, two spares over nine disks: groups that no row is filled by.
    Draid2,
    /// Three parity and one data over five disks, and no spare.
    Draid3,
    /// Two disks, and a mirror for metadata.
    Special,
    /// A disk, and another for the intent logs.
    DiskAndLog,
    /// A disk, and a mirror for the intent logs.
    DiskAndLogs,
    /// A mirror, and another for the intent logs.
    MirrorAndLogs,
    /// The same beside raidz1.
    Raidz1AndLogs,
    /// One parity over three disks, twice, and a mirror for tables of deduplication.
    Raidz1sAndDedup,
}

/// The usual ones.
pub const SHAPES: [Shape; 7] = [
    Shape::Disk,
    Shape::Disks3,
    Shape::Mirror,
    Shape::Raidz1,
    Shape::Raidz2,
    Shape::Raidz3,
    Shape::Special,
];

impl Shape {
    /// How many devices it takes.
    pub fn devices(self) -> usize {
        self.data_devices() + self.log_devices()
    }

    /// Those that hold data, the first ones.
    fn data_devices(self) -> usize {
        match self {
            Self::Disk | Self::DiskAndLog | Self::DiskAndLogs => 1,
            Self::Mirror | Self::MirrorAndLogs => 2,
            Self::Disks3 | Self::Raidz1 | Self::Raidz1AndLogs | Self::Mirror3 => 3,
            Self::Special => 4,
            Self::Raidz2 | Self::Draid1 | Self::Draid3 => 5,
            Self::Raidz3 => 7,
            Self::Raidz1sAndDedup => 8,
            Self::Draid2 => 9,
        }
    }

    /// Those for the intent logs, the last ones.
    pub fn log_devices(self) -> usize {
        match self {
            Self::DiskAndLog => 1,
            Self::DiskAndLogs | Self::MirrorAndLogs | Self::Raidz1AndLogs => 2,
            _ => 0,
        }
    }

    /// Whether rows are spread over all disks.
    pub fn is_draid(self) -> bool {
        matches!(self, Self::Draid1 | Self::Draid2 | Self::Draid3)
    }

    /// How many devices the pool survives the loss of.
    pub fn redundancy(self) -> usize {
        match self {
            Self::Disk | Self::DiskAndLog | Self::DiskAndLogs | Self::Disks3 | Self::Special => 0,
            Self::Mirror | Self::Raidz1 | Self::MirrorAndLogs | Self::Raidz1AndLogs => 1,
            Self::Draid1 | Self::Raidz1sAndDedup => 1,
            Self::Raidz2 | Self::Mirror3 | Self::Draid2 => 2,
            Self::Raidz3 | Self::Draid3 => 3,
        }
    }

    /// The vdevs over these leaves.
    pub fn tops(self, mut leaves: Vec<VdevSpec>) -> Vec<NewTop> {
        assert_eq!(leaves.len(), self.devices(), "{self:?}");
        let of = |class| move |spec| NewTop { spec, class };
        let logs = leaves.split_off(self.data_devices());
        let logs = if logs.len() > 1 { vec![VdevSpec::Mirror(logs)] } else { logs };
        let special = match self {
            Self::Special => Some((SpaceClass::Special, leaves.split_off(2))),
            Self::Raidz1sAndDedup => Some((SpaceClass::Dedup, leaves.split_off(6))),
            _ => None,
        };
        let data = if self == Self::Raidz1sAndDedup {
            let second = leaves.split_off(3);
            [leaves, second].map(|children| VdevSpec::Raidz { nparity: 1, children }).into()
        } else {
            self.group(leaves).map_or_else(|leaves| leaves, |one| vec![one])
        };
        let data = data.into_iter().map(top);
        let special = special.map(|(class, sides)| of(class)(VdevSpec::Mirror(sides)));
        data.chain(special).chain(logs.into_iter().map(of(SpaceClass::Log))).collect()
    }

    /// The vdev that all data is in; the leaves when each is one of its own.
    fn group(self, children: Vec<VdevSpec>) -> Result<VdevSpec, Vec<VdevSpec>> {
        let (nparity, ndata, nspares) = match self {
            Self::Draid1 => (1, 2, 1),
            Self::Draid2 => (2, 3, 2),
            Self::Draid3 => (3, 1, 0),
            Self::Mirror | Self::Mirror3 | Self::MirrorAndLogs => {
                return Ok(VdevSpec::Mirror(children));
            }
            Self::Raidz1 | Self::Raidz1AndLogs => {
                return Ok(VdevSpec::Raidz { nparity: 1, children });
            }
            Self::Raidz2 => return Ok(VdevSpec::Raidz { nparity: 2, children }),
            Self::Raidz3 => return Ok(VdevSpec::Raidz { nparity: 3, children }),
            _ => return Err(children),
        };
        Ok(VdevSpec::Draid { nparity, ndata, nspares, children })
    }

    /// Makes a pool of these devices, whose names are in its labels as files or as disks.
    pub fn create(
        self,
        rt: &Rt,
        pool: &str,
        devices: Vec<(String, WriteDeviceRef)>,
        is_file: bool,
        change: impl FnOnce(&mut CreateOptions),
    ) -> LivePool {
        let tops = self.tops(devices.iter().map(|(path, _)| leaf(path, is_file)).collect());
        create(rt, pool, tops, &devices.into_iter().collect(), change)
    }
}
