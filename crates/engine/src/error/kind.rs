//! Sorts of failures, for programs to tell apart.

use super::Hint;
use super::streams::{ResumeFault, StreamFault, Unreceivable, Unsendable};
use crate::faults::{DeviceRefusal, ImportRefusal, LayoutFault, MemberFault, Mismatch};
use dsl::Refusal;
use pool::PoolRefusal;
use repair::RepairRefusal;
use std::fmt;
use std::path::PathBuf;
use zpl::FileRefusal;

/// What sort of failure it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name that nothing can have.
    InvalidName,
    /// A value that a property cannot have.
    BadValue {
        /// The property.
        property: String,
        /// The value.
        value: String,
    },
    /// The request breaks a rule, whatever the state of the pool.
    Against(Rule),
    /// The state of the dataset does not allow it.
    Refused(Refusal),
    /// The request for a file, its flags, or its file system do not allow it.
    FileRefused(FileRefusal),
    /// The state of the pool, or of its devices, does not allow it.
    PoolRefused(PoolRefusal),
    /// Another program writes to the pool: its state changed each time while it was read.
    WrittenMeanwhile {
        /// How often.
        times: u32,
    },
    /// There is no such dataset, file or object.
    NotFound,
    /// There is one of that name.
    Exists,
    /// It is another kind of dataset, or of file, than is needed.
    WrongKind,
    /// It is not a directory.
    NotDirectory,
    /// It is a directory.
    IsDirectory,
    /// A path leads through too many symbolic links.
    TooManyLinks,
    /// The file has too many links.
    TooManyNames,
    /// Source and target are of different datasets.
    OtherDataset,
    /// Source and target are of different projects.
    OtherProject,
    /// The name is too long.
    NameTooLong,
    /// The file has no such extended attribute.
    NoXattr,
    /// The directory has entries.
    NotEmpty,
    /// It can only be read.
    ReadOnly,
    /// No space is left in the pool.
    NoSpace,
    /// A quota is used up.
    Quota,
    /// Something of that name is there, and stays.
    Conflict(Conflict),
    /// Something outside of pools (a file of this machine, an archive) cannot be read or written,
    /// or is not what it should be; the source says which.
    External,
    /// It is larger than it can be.
    TooLarge,
    /// It has more holes than are hashed.
    TooManyHoles,
    /// It is encrypted, and its key is not loaded.
    NoKey,
    /// It cannot be decrypted with the key that was given.
    BadKey,
    /// It is not the key.
    WrongKey,
    /// The dataset is not encrypted.
    NotEncrypted,
    /// What is stored cannot be read, or contradicts itself.
    Damaged,
    /// It can be read and not be changed by this program yet.
    Unsupported,
    /// It can be read and not be sent by this program yet, for this reason.
    NotSent(Unsendable),
    /// What is read as a send stream cannot be received: it is damaged, or is not a stream.
    BadStream(StreamFault),
    /// The rest of a stream cannot be sent.
    NotResumed(ResumeFault),
    /// It is a send stream, and cannot be received by this program yet: these streams are not.
    NotReceived(Unreceivable),
    /// The request makes no sense; the source says why.
    Invalid,
    /// It was told to stop.
    Cancelled,
    /// No such pool is in the places searched.
    NoSuchPool {
        /// The places.
        searched: Vec<PathBuf>,
    },
    /// Several pools have that name.
    AmbiguousPool,
    /// A place to search cannot be read.
    Search,
    /// Too few devices of the pool are there.
    MissingDevices,
    /// The pool uses features that this program does not know.
    UnknownFeatures,
    /// The version of the pool is newer than this program.
    NewerVersion,
    /// No uberblock of the pool holds, or none of the txg asked for.
    NoUberblock,
    /// The pool has the device already.
    OwnDevice,
    /// The words of a layout say nothing that can be made.
    BadLayout(LayoutFault),
    /// A device that was named is not one that this is done with.
    Unfit(MemberFault),
    /// It is neither a file nor a block device.
    NoDevice,
    /// What is on a device, or what uses it, keeps it out of a pool.
    DeviceRefused(DeviceRefusal),
    /// Vdevs of one pool survive unequal losses, or devices of one vdev are unequal.
    Mismatched(Mismatch),
    /// Rows of a raidz vdev were moved since the txg asked for, as it was expanded.
    RowsMoved,
    /// The pool has no checkpoint.
    NoCheckpoint,
    /// The pool has a checkpoint.
    CheckpointExists,
    /// What the pool's checkpoint kept is still being freed.
    CheckpointDiscarding,
    /// The pool's own structures cannot be read.
    DamagedPool,
    /// The configuration of the pool contradicts itself.
    BadConfig,
    /// The pool can be read and not be written.
    NotWritable,
    /// It could be opened, and is not imported all the same.
    NotImported(ImportRefusal),
    /// No earlier state of the pool can be read completely.
    NoEarlierState {
        /// All were tried, and not only those whose space cannot have been used again.
        of_all: bool,
    },
    /// The pool was destroyed.
    Destroyed,
    /// Another host used the pool last.
    ForeignHost,
    /// Another program has the pool open.
    InUse,
    /// A device fails.
    Device,
    /// The pool has stopped: nothing can be changed before it is opened again.
    Stopped,
    /// Devices failed, and the pool waits for them: what was not done may be done later.
    Suspended,
    /// Devices that are open will not be found again.
    Displaced,
    /// The pool is in a state in which it is not repaired.
    NotRepaired(RepairRefusal),
    /// A step of the work failed; the source says which.
    Failed,
}

/// What stands where a file was to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// A directory.
    Directory,
    /// A file, where a directory was to be made.
    File,
    /// A file that is different.
    Different,
    /// A file of the same size and time, of which the end is missing.
    EndMissing,
}

/// A rule for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// All names are of one pool.
    OnePool,
    /// A snapshot stays with its dataset when it is renamed; a bookmark is of the same dataset as
    /// its snapshot.
    SameDataset,
    /// The name of a snapshot is needed: `DATASET@NAME`.
    SnapshotName,
    /// The name of a bookmark is needed: `DATASET#NAME`.
    BookmarkName,
    /// The name of a file system or volume is needed.
    HeadName,
    /// What a stream is put below is there.
    Target,
    /// Bookmarks keep their names.
    BookmarkRename,
    /// Only snapshots are renamed in all datasets below.
    RecursiveRename,
    /// None of the snapshots named is there.
    NoSnapshots,
    /// Blocks of volumes have 512 B to 128 KiB, a power of two.
    BlockSize,
    /// No quota is said as "none".
    ZeroQuota,
    /// Names are normalized only where all are UTF-8 (`utf8only`).
    NamesOfBytes,
    /// Properties of key properties require encryption.
    KeyWithoutEncryption,
    /// A clone has the key of its origin, and something else is said of it.
    KeyOfClone,
    /// What has a key of its own says its format.
    NoKeyFormat,
    /// The rounds of a passphrase are at least 100,000.
    FewRounds,
    /// Rounds are of use with passphrases only.
    RoundsOfKey,
    /// The key of another dataset, its encryption root, is meant.
    NotAnEncryptionRoot,
    /// The key is loaded already.
    KeyLoaded,
    /// The key is not loaded.
    KeyNotLoaded,
    /// A dataset without encryption has its key nowhere.
    KeylocationOfPlain,
    /// A dataset with encryption has its key somewhere.
    KeylocationOfEncrypted,
    /// Where a key is can be said of an encryption root only.
    KeylocationBelowRoot,
    /// Snapshots have properties of users only.
    OnSnapshot,
    /// The property is not inherited.
    NotInherited,
    /// A tag has 1 to 255 bytes and does not begin with a dot.
    Tag,
    /// Two states are compared of which the first is an earlier snapshot of the second.
    NotEarlier,
    /// A pool has at least one top-level vdev that is for everything.
    NoTopLevel,
    /// Special and dedup vdevs need the feature `allocation_classes`.
    NoClasses,
    /// Vdevs that hold data have one sector size.
    SectorSize,
    /// A pool's comment has at most 32 bytes.
    Comment,
    /// The heartbeat of `multihost` is not written.
    Multihost,
    /// That a pool is only to be read (`readonly`) is said when it is imported.
    ReadOnlySet,
    /// The folder above its mount points (`altroot`) is said when a pool is made or imported.
    AltrootSet,
    /// A feature that is enabled stays enabled.
    FeatureOff,
    /// Features are enabled in a pool that is imported already.
    FeatureAtImport,
    /// There is a feature of that name.
    NoSuchFeature,
    /// What is in use as soon as it is enabled is enabled only where it is written.
    UnwrittenFeature,
    /// A pool has the features of its set (`compatibility`).
    OutsideSet,
}

impl ErrorKind {
    /// It is the pool itself that cannot be opened, or not for writing, however it is tried.
    #[must_use]
    pub fn is_of_pool(&self) -> bool {
        matches!(
            self,
            Self::NotWritable
                | Self::MissingDevices
                | Self::DamagedPool
                | Self::NoUberblock
                | Self::UnknownFeatures
                | Self::NewerVersion
                | Self::BadConfig
        )
    }

    /// Nothing more can be written, or shall be: there is no going on with the next of many.
    #[must_use]
    pub fn ends_all(&self) -> bool {
        matches!(
            self,
            Self::NoSpace | Self::Quota | Self::Stopped | Self::Suspended | Self::Cancelled
        )
    }

    /// What can be done, when the kind alone says it.
    pub(super) fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Mismatched(_) | Self::Against(Rule::SectorSize) => Hint::Insist,
            Self::DeviceRefused(why) if why.yields_to_force() => Hint::Insist,
            Self::Against(Rule::NoClasses) => Hint::EnableFeature("allocation_classes"),
            Self::Unfit(MemberFault::Unknown) => Hint::ListDevices,
            Self::NoKey => Hint::LoadKey,
            Self::AmbiguousPool => Hint::UseGuid,
            Self::Search => Hint::CheckPlace,
            Self::MissingDevices => Hint::FindDevices,
            Self::UnknownFeatures | Self::NewerVersion => Hint::NewerProgram,
            Self::DamagedPool => Hint::OlderState,
            Self::NotWritable => Hint::OpenReadonly,
            Self::NoEarlierState { of_all: false } => Hint::OlderStates,
            Self::NoEarlierState { of_all: true } => Hint::RepairOrRescue,
            Self::NotImported(why) => return Hint::of_import(why),
            Self::Destroyed => Hint::Undestroy,
            Self::ForeignHost => Hint::TakeOver,
            Self::InUse => Hint::ExportThere,
            Self::Stopped => Hint::OpenAgain,
            Self::Suspended => Hint::Clear,
            Self::Displaced => Hint::SaveData,
            Self::Refused(why) => return Hint::of_refusal(why),
            Self::FileRefused(why) => return Hint::of_file_refusal(*why),
            Self::PoolRefused(why) => return Hint::of_pool_refusal(why),
            Self::NotRepaired(why) => return Hint::of_repair(why),
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Against(rule) => return write!(f, "{rule}"),
            Self::Refused(why) => return write!(f, "{why}"),
            Self::FileRefused(why) => return write!(f, "{why}"),
            Self::PoolRefused(why) => return write!(f, "{why}"),
            Self::BadValue { property: p, value } => return write!(f, "'{p}' cannot be '{value}'"),
            Self::InvalidName => "the name breaks the rules for names",
            Self::NotFound => "does not exist",
            Self::Exists => "exists already",
            Self::WrongKind => "is of another kind",
            Self::NotDirectory => "is not a directory",
            Self::IsDirectory => "is a directory",
            Self::TooManyLinks => "too many symbolic links",
            Self::TooManyNames => "has too many links",
            Self::OtherDataset => "source and target are of different datasets",
            Self::OtherProject => "source and target are of different projects",
            Self::NameTooLong => "the name is too long",
            Self::NoXattr => "has no such extended attribute",
            Self::NotEmpty => "is not empty",
            Self::ReadOnly => "is open for reading only",
            Self::NoSpace => "no space is left",
            Self::Quota => "a quota is exceeded",
            Self::Conflict(what) => return write!(f, "{what}"),
            Self::External => "an error outside the pool",
            Self::TooLarge => "is too large",
            Self::TooManyHoles => "has more holes than are hashed",
            Self::NoKey => "is encrypted, and its key is not loaded",
            Self::BadKey => "the key does not fit",
            Self::WrongKey => "the key is wrong",
            Self::NotEncrypted => "is not encrypted",
            Self::Damaged => "is damaged",
            Self::Unsupported => "cannot be changed yet",
            Self::Invalid => "is not possible",
            Self::Cancelled => "cancelled",
            Self::NoSuchPool { .. } => "no such pool",
            Self::AmbiguousPool => "several pools have that name",
            Self::Search => "cannot be searched",
            Self::MissingDevices => "too few devices",
            Self::UnknownFeatures => "features are not known",
            Self::NewerVersion => "the version is not known",
            Self::NoUberblock => "no valid uberblock",
            Self::OwnDevice => "the pool has it already",
            Self::BadLayout(fault) => return write!(f, "invalid layout: {fault}"),
            Self::Unfit(fault) => return write!(f, "{fault}"),
            Self::NoDevice => "is neither a file nor a block device",
            Self::DeviceRefused(why) => return write!(f, "{why}"),
            Self::Mismatched(what) => return write!(f, "{what}"),
            Self::RowsMoved => "a raidz vdev was expanded since that txg",
            Self::NoCheckpoint => "has no checkpoint",
            Self::CheckpointExists => "has a checkpoint",
            Self::CheckpointDiscarding => "is discarding its checkpoint",
            Self::DamagedPool | Self::NoEarlierState { .. } => "the pool is damaged",
            Self::BadConfig => "the configuration contradicts itself",
            Self::NotWritable => "cannot be opened for writing",
            Self::NotImported(why) => return write!(f, "{why}"),
            Self::Destroyed => "was destroyed",
            Self::ForeignHost => "was last used by another host",
            Self::InUse | Self::WrittenMeanwhile { .. } => "is in use",
            Self::Device => "a device fails",
            Self::Stopped => "the pool has stopped",
            Self::Suspended => "the pool waits for its devices",
            Self::Displaced => "its devices will not be found again",
            Self::NotRepaired(why) => return write!(f, "{why}"),
            Self::NotSent(_) | Self::NotReceived(_) => return self.of_stream(f),
            Self::NotResumed(_) | Self::BadStream(_) => return self.of_stream(f),
            Self::Failed => "failed",
        })
    }
}

impl ErrorKind {
    /// The words for what is wrong with a stream.
    fn of_stream(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) => write!(f, "cannot be sent yet: {why}"),
            Self::NotReceived(what) => write!(f, "{what} cannot be received yet"),
            Self::NotResumed(fault) => write!(f, "{fault}"),
            Self::BadStream(fault) => write!(f, "{fault}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory is in the way",
            Self::File => "a file is in the way of a directory",
            Self::Different => "exists and is different",
            Self::EndMissing => {
                "exists with its size and time, but its end is missing, as after a copy that was \
                 interrupted"
            }
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnePool => "all names must be of one pool",
            Self::SameDataset => "both must be of the same dataset",
            Self::SnapshotName => "is not the name of a snapshot",
            Self::BookmarkName => "is not the name of a bookmark",
            Self::HeadName => "is not the name of a file system or volume",
            Self::Target => "does not exist; the parent of a received dataset must exist",
            Self::BookmarkRename => "bookmarks cannot be renamed",
            Self::RecursiveRename => "only snapshots can be renamed recursively",
            Self::NoSnapshots => "none of these snapshots exists",
            Self::BlockSize => "the block size of a volume is a power of two from 512 B to 128 KiB",
            Self::ZeroQuota => "a quota cannot be 0; use 'none' to remove it",
            Self::NamesOfBytes => "names that are normalized must be UTF-8: utf8only=on",
            Self::KeyOfClone => "a clone uses the key of its origin",
            Self::KeyWithoutEncryption => "key properties require encryption",
            Self::NoKeyFormat => "an encryption root needs 'keyformat'",
            Self::FewRounds => "pbkdf2iters must be at least 100000",
            Self::RoundsOfKey => "pbkdf2iters requires keyformat=passphrase",
            Self::NotAnEncryptionRoot => "the dataset uses the key of its encryption root",
            Self::KeyLoaded => "the key is loaded already",
            Self::KeyNotLoaded => "the key is not loaded",
            Self::KeylocationOfPlain => "the dataset is not encrypted: it has no key",
            Self::KeylocationOfEncrypted => {
                "the keylocation of an encrypted dataset cannot be 'none'"
            }
            Self::KeylocationBelowRoot => "the dataset has no key of its own",
            Self::OnSnapshot => "only user properties can be set on a snapshot",
            Self::NotInherited => "the property is not inherited",
            Self::Tag => "a tag has 1 to 255 bytes and does not begin with a dot",
            Self::NotEarlier => "the first is not an earlier snapshot of the second",
            Self::NoTopLevel => "a pool needs at least one normal top-level vdev",
            Self::NoClasses => "special and dedup vdevs need the feature 'allocation_classes'",
            Self::SectorSize => "vdevs that hold data must have the same sector size",
            Self::Comment => "the comment of a pool has at most 32 bytes",
            Self::Multihost => "the heartbeat of multihost is not written",
            Self::ReadOnlySet => "property 'readonly' can only be set at import time",
            Self::AltrootSet => "property 'altroot' can only be set during pool creation or import",
            Self::FeatureOff => "a feature can only be set to 'enabled'",
            Self::FeatureAtImport => "a feature cannot be set at import time",
            Self::NoSuchFeature => "there is no such feature",
            Self::UnwrittenFeature => {
                "the feature becomes active when it is enabled, and zinc does not write it"
            }
            Self::OutsideSet => "the feature is not in the pool's compatibility set",
        })
    }
}
