//! Why a pool does not do what it is asked to: values, which front ends can tell apart and word.

use crate::not_used::{LabelMismatch, WROTE_ALONE};
use thiserror::Error;

/// Why a change is refused: by the state of the pool or of its devices, or because no pool can be
/// like that. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PoolRefusal {
    /// Something that runs stands in the way.
    #[error(transparent)]
    Ongoing(#[from] Ongoing),
    /// What is to be paused, ended or gone on with does not run.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// The devices named are not those that this is done with.
    #[error(transparent)]
    Devices(#[from] DeviceFault),
    /// No vdev can be like that, or not in this pool.
    #[error(transparent)]
    Layout(#[from] VdevFault),
    /// The feature has to be enabled first.
    #[error("feature@{0} is not enabled")]
    FeatureNotEnabled(&'static str),
    /// The same, as OpenZFS words it for some of them.
    #[error("this action requires the {0} feature")]
    FeatureNeeded(&'static str),
    /// The pool is of before vdevs had tables of their own.
    #[error("the pool has no vdev tables, which {0} needs")]
    NoVdevTables(&'static str),
    /// The vdev has no table for its properties.
    #[error("this vdev has no table of properties")]
    NoPropertyTable,
    /// The blocks of the vdev do not fit on the others.
    #[error("out of space")]
    NoSpace,
    /// The pool has that guid.
    #[error("it has this guid already")]
    SameGuid,
    /// OpenZFS could not read a property as long as this one.
    #[error("the property '{0}' or its value is too long")]
    PropertyTooLong(String),
    /// A snapshot is never changed.
    #[error("{0} is a snapshot: it cannot be changed")]
    Snapshot(String),
    /// The dataset is of another kind.
    #[error("{0} is not a file system")]
    NotFilesystem(String),
    /// The dataset is of another kind.
    #[error("{0} is not a volume")]
    NotVolume(String),
    /// The snapshot was destroyed in the meantime.
    #[error("the snapshot is gone")]
    SnapshotGone,
    /// A change of the same txg has to be durable first.
    #[error("{0} changed at the same time: try again")]
    ChangedInTxg(String),
    /// The intent log of a locked dataset would be lost.
    #[error("the intent log of {0} waits for its replay, for which the key has to be loaded")]
    LogNotReplayed(String),
    /// Only what cannot be read is given up.
    #[error("{0} can be read")]
    Readable(String),
    /// A dataset that cannot be read has snapshots, none of which can be read.
    #[error("{0} has snapshots that cannot be read either")]
    UnreadableSnapshots(String),
    /// A dataset that cannot be read is a clone of a snapshot that cannot be read.
    #[error("{0} is a clone of a snapshot that cannot be read either")]
    UnreadableOrigin(String),
    /// A dataset that cannot be read is encrypted, so that nothing can be put in its place.
    #[error("{0} is encrypted and has no snapshot: its key is needed to re-create it")]
    KeyNeeded(String),
}

/// What runs and has to end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Ongoing {
    /// A scrub.
    #[error("currently scrubbing; cancel that scrub first")]
    Scrub,
    /// A resilver that follows block pointers.
    #[error("currently resilvering")]
    Resilver,
    /// A scrub or a resilver.
    #[error("currently scrubbing or resilvering")]
    Scan,
    /// A sequential resilver.
    #[error("currently sequentially resilvering")]
    Rebuild,
    /// A scrub is paused, and paused once more.
    #[error("scrub is already paused")]
    PausedScrub,
    /// A device is being initialized.
    #[error("currently initializing")]
    Initialize,
    /// A device is being trimmed.
    #[error("currently trimming")]
    Trim,
    /// Another vdev is being removed.
    #[error("Pool busy; removal may already be in progress")]
    OtherRemoval,
    /// A vdev is being removed.
    #[error("a device is being removed")]
    Removal,
    /// The vdev itself is being removed.
    #[error("the device is being removed")]
    OwnRemoval,
    /// A raidz vdev is being expanded.
    #[error("raidz expansion in progress")]
    Expansion,
}

/// What does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotRunning {
    /// No scrub.
    #[error("there is no active scrub")]
    Scrub,
    /// No initialization of this device.
    #[error("there is no active initialization")]
    Initialize,
    /// No trim of this device.
    #[error("there is no active trim")]
    Trim,
    /// No removal.
    #[error("there is no removal in progress")]
    Removal,
}

/// Why something is not done with a device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceFault {
    /// The pool has no such device or vdev.
    #[error("no such device in pool")]
    NotInPool,
    /// The pool has no such vdev that is raidz.
    #[error("no such raidz vdev in pool")]
    NotRaidz,
    /// It is not known under any path.
    #[error("device {0} has no path")]
    NoPath(u64),
    /// It was not handed over.
    #[error("{0} was not opened")]
    NotOpened(String),
    /// It is smaller than a device of a pool can be.
    #[error("{path} is too small: {size_bytes} bytes, at least {least_bytes} needed")]
    BelowMinimum {
        /// Its name.
        path: String,
        /// Its size.
        size_bytes: u64,
        /// The least size.
        least_bytes: u64,
    },
    /// It is smaller than those beside it.
    #[error("device is too small")]
    TooSmall,
    /// Its sectors are larger than those of the vdev.
    #[error("the new device cannot have a higher alignment requirement than the top-level vdev")]
    LargerSectors,
    /// Its label says that it is another one.
    #[error("{name} {why}")]
    Unfit {
        /// Its name.
        name: String,
        /// What it is.
        why: LabelMismatch,
    },
    /// A spare is not needed any more: the leaf is back.
    #[error("device is in use again")]
    BackInUse,
    /// It has a history of its own, which would be lost.
    #[error("{WROTE_ALONE}")]
    WroteAlone,
    /// It did not answer in time, and may still carry out what it was asked for.
    #[error("requests that it did not answer in time are still outstanding")]
    Outstanding,
    /// These are not used, and all would have to be.
    #[error("all devices have to be ONLINE: {}", .0.join(", "))]
    NotOnline(Vec<String>),
    /// It is not used.
    #[error("the device is not in use")]
    NotInUse,
    /// Only it has some of the data.
    #[error("no valid replicas: the other devices do not have all of its data")]
    OnlyCopy,
    /// Only it has some of the data.
    #[error("no valid replicas")]
    NoReplicas,
    /// The sides that stay do not have all data.
    #[error("no valid replicas: the other sides do not have all data")]
    OtherSidesLack,
    /// It is not used, or has not all data, and is to be a pool of its own.
    #[error("{0} is not in use, or lacks data")]
    NotWhole(String),
    /// No device of a vdev that leaves has all data.
    #[error("Pool busy; no device of the vdev has all its data")]
    NoWholeSide,
    /// A vdev that is expanded needs all its devices.
    #[error("all devices of the vdev must be in use and have all data")]
    NotAllThere,
    /// Where an expansion keeps what it moves, it has something else.
    #[error("the boot area of a device holds boot code")]
    BootCode,
    /// It is space on the devices of a dRAID vdev.
    #[error("a distributed spare is not a device")]
    DistributedSpare,
    /// It leaves with its vdev only.
    #[error("a distributed spare is part of its dRAID")]
    PartOfDraid,
    /// It stands in for a device.
    #[error("Pool busy; the spare stands in for a device")]
    SpareInUse,
    /// It is of another pool, or none of its spares.
    #[error("it is not a spare of this pool, or in use")]
    NotSpare,
    /// Its label is not that of a spare of this pool.
    #[error("its label says that it is not a spare, or belongs to another pool")]
    NotSpareByLabel,
    /// It is neither.
    #[error("it is neither a spare nor a cache device")]
    NotAux,
    /// It is not a log device.
    #[error("it is not a log device")]
    NotLog,
    /// A log on it has blocks that no txg has.
    #[error("it is still in use by a log that could not be ended")]
    LogInUse,
    /// Its vdev gains or loses devices.
    #[error("it is part of a vdev that is changing")]
    VdevChanging,
    /// The pool keeps nothing of the device's own.
    #[error("the pool has no table of this device")]
    NoTable,
}

/// Why there is no such vdev, or not in this pool.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VdevFault {
    /// Sectors of 2^9 to 2^16 bytes can be had.
    #[error("ashift {0} is not between 9 and 16")]
    AshiftRange(u32),
    /// The devices have larger sectors.
    #[error("ashift {wanted} is below the sector size of the devices (2^{devices})")]
    AshiftBelowDevices {
        /// What was asked for.
        wanted: u32,
        /// The exponent of the devices' sectors.
        devices: u32,
    },
    /// More parity than devices.
    #[error("raidz{nparity} needs more than {devices} devices")]
    RaidzTooNarrow {
        /// Devices' worth of parity.
        nparity: u64,
        /// Devices.
        devices: u64,
    },
    /// Not one group fits.
    #[error("the devices are too small for a dRAID group")]
    DraidTooSmall,
    /// A pool has space for everything.
    #[error("a pool needs a vdev that is not log, special or dedup")]
    NoNormal,
    /// Spares and cache devices are single ones.
    #[error("a {0} device is not a group of devices")]
    AuxGroup(&'static str),
    /// What is removed is mapped to devices and mirrors of one sector size.
    #[error("invalid config; all top-level vdevs must have the same sector size and not be raidz")]
    NotEvacuable,
    /// A raidz vdev has as many devices as one can have.
    #[error("the vdev already has the largest number of devices")]
    Widest,
    /// Expansion is a feature.
    #[error("raidz_expansion feature must be enabled in order to attach a device to raidz")]
    ExpansionOff,
    /// There is no order of its space in which it could be read.
    #[error("only mirror and dRAID vdevs support sequential reconstruction")]
    NotSequential,
    /// A pool is split along its mirrors.
    #[error("source pool must be composed only of mirrors")]
    NotMirrors,
    /// Each mirror gives one side.
    #[error("device list must include at most one disk from each mirror")]
    TwoOfMirror,
    /// The side of a mirror is not one device.
    #[error("a device of the mirror is being replaced, by a new device or a spare")]
    SideReplaced,
    /// It has to be a side of a mirror.
    #[error("a named device is not a side of a mirror with data")]
    NotSide,
    /// A log is mirrored, or lost.
    #[error("log devices have no spares")]
    SpareOfLog,
    /// Each dRAID vdev has its own spares.
    #[error("dRAID spares can only replace child devices in their parent's dRAID vdev")]
    SpareOfOtherDraid,
    /// It is more than one device.
    #[error("only a single device can be attached to a device")]
    AttachGroup,
    /// It is more than one device.
    #[error("only a single device can get another side")]
    AttachToGroup,
    /// It is neither a mirror nor a disk by itself.
    #[error("can only attach to mirrors and top-level disks")]
    AttachBelow,
    /// Its place goes to another spare, or back.
    #[error("device is a spare in use, and only another spare can take its place")]
    AttachToSpare,
    /// It has no sides.
    #[error("only applicable to mirror and replacing vdevs")]
    NoSides,
}
