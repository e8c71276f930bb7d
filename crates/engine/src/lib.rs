//! ZFS in a program: pools in files and on disks, made, changed and read without a kernel module.
//!
//! # What there is
//!
//! ```text
//! Pool      open for reading: the state of one txg, which does not change
//! LivePool  open for writing; LivePool::view is the same pool for reading
//!   Dataset        pool/a, pool/a@x; found by name through Pool::datasets
//!     Filesystem   its files: Node by path or object
//!     Volume       its bytes
//! ```
//!
//! [`LivePool::filesystem`] and [`LivePool::volume`] are for what can be changed. A snapshot is
//! read through a [`Pool`], which may be the view ([`Pool::filesystem`]).
//!
//! A pool from nothing, and what is in it read back:
//!
//! ```
//! use engine::files::{NewFile, NewKind, Time};
//! use engine::{Create, NewPool, datasets};
//!
//! let pool = NewPool::new("tank").memory(128 << 20).create()?;
//! Create::filesystem("tank/home")?.set("compression", "zstd")?.run(&pool)?;
//!
//! let home = pool.filesystem("tank/home")?;
//! let now = Time { seconds: 1_700_000_000, nanos: 0 };
//! let new = NewFile::new(NewKind::File, 0o644, now);
//! let letter = home.create(home.root_object(), b"letter", &new)?;
//! home.write_at(letter.number(), 0, b"as it was", now)?;
//! datasets::snapshot(&pool, &["tank/home@monday"], false, Vec::new())?;
//! home.write_at(letter.number(), 0, b"as it is!", now)?;
//!
//! let mut bytes = [0; 9];
//! let before = pool.view().filesystem("tank/home@monday")?;
//! before.by_path(b"/letter", true)?.read_at(0, &mut bytes)?;
//! assert_eq!(&bytes, b"as it was");
//! # Ok::<(), engine::Error>(())
//! ```
//!
//! `examples/first_pool.rs` does the same in a file; `examples/pool_in_a_file.rs` goes below files,
//! to objects and transactions; `examples/backup_store.rs` is a store with a snapshot for each
//! backup, a journal on a volume, and work that can be told to stop; `examples/rotate.rs` takes and
//! destroys snapshots of a whole pool, sends what came between two, receives it, and compares.
//!
//! # Where to look
//!
//! | module | what it has |
//! | --- | --- |
//! | [`activity`] | what runs in a pool in the background, how much is left of it, and waiting |
//! | [`datasets`] | making, destroying and renaming of datasets, snapshots, clones |
//! | [`select`] | which datasets a request means, each with its properties |
//! | [`properties`] | judging and setting of properties |
//! | [`keys`] | keys of encrypted datasets |
//! | [`permissions`] | what users other than the owner may do |
//! | [`replay`] | a dataset with its intent log replayed, to look at |
//! | [`files`] | what files are made of |
//! | [`places`] | places in a pool as people give them: `POOL/DATASET[@SNAPSHOT]:PATH` |
//! | [`objects`] | what files are kept in: a transactional store of objects |
//! | [`ingest`] | copying files into a file system |
//! | [`extract`], [`rescue`] | copying files out of a pool; copying out all that can be read |
//! | [`mod@diff`] | what changed between two states of a file system |
//! | [`send`], [`receive`] | snapshots as streams, and out of streams |
//! | [`streams`] | the records of streams, and streams made from others |
//! | [`mod@check`], [`inventory`] | everything verified, and everything listed |
//! | [`mod@repair`] | repairs of damage for which there is no redundancy |
//! | [`pools`] | how pools are made and get more devices, are found, judged, described and shared |
//! | [`upkeep`] | what a pool does by itself when devices fail, return, or spares are free |
//! | [`devices`] | files and disks by their paths: opening them, what is on them and uses them |
//! | [`live`] | making and importing pools that can be changed, tunables, records of txgs |
//! | [`programs`] | several changes of datasets in one txg, in an order that a program decides |
//! | [`layout`] | the layout of a new pool, from words, and likely mistakes in it |
//! | [`stats`], [`recording`] | what a pool did, and how long it took; the same kept in a file |
//! | [`props`], [`features`] | tables of all properties and features |
//! | [`hex`] | bytes as hexadecimal digits |
//! | [`spelling`] | names that the format does not allow |
//! | [`config`] | configurations as labels hold them |
//! | [`errors`] | the errors that an [`Error`] is made from |
//! | [`file_refusals`], [`object_refusals`] | why a file or an object is not changed, as values |
//! | [`pool_refusals`] | why a pool is not changed, as values |
//! | [`process`] | the memory and the standard output of a process that uses this crate |
//!
//! The floors below are [`inside`]: tools that look into the structures of a pool name them there,
//! and a front end does not.
//!
//! # Reading while the pool changes
//!
//! The operations of this crate may run beside each other and beside changes. The methods of
//! [`Dsl`] are plain reads: each reads several objects of the pool, and a txg that becomes durable
//! between two of them could make the second one fail with "no such object". So they are reached
//! through the guard [`Datasets`] ([`Pool::datasets`]), which is held briefly: no txg becomes
//! durable meanwhile, so it is not held over a change, a wait, or another operation of this crate.
//!
//! # When something is durable
//!
//! A change of a dataset, snapshot or property is durable when the call returns. Changes of files
//! and volumes are seen at once and durable with their txg, a few seconds later;
//! [`LivePool::sync`] waits for it.
//!
//! A program that cannot wait that long has the changes of one file ([`Filesystem::sync`]), of a
//! whole file system ([`Filesystem::sync_all`]) or of a volume ([`Volume::flush`]) written to the
//! intent log: one write and one flush, which all threads that wait share. `sync_then` and
//! `flush_then` call back instead. With the property `sync=always` each change does that. What is
//! changed below files, in [`objects`], has no log.
//!
//! Whatever ends the program, the pool is as it was at the end of a txg, all of it or none; and
//! when it is imported, what was promised since is there too.
//!
//! # Threads, and async
//!
//! Everything that is shared (pools, file systems, volumes, nodes) is `Send` and `Sync`, and calls
//! from many threads run at the same time. Calls block: for a device, for the end of a txg, or
//! because writers are slowed down to what the devices take. This crate has no async runtime and
//! needs none; a program that has one makes its calls on threads for blocking work
//! (`spawn_blocking`). Long work takes a [`Progress`], through which any other thread sees how far
//! it is and tells it to stop. A transaction keeps its txg from ending: it is never held
//! across an `await`.
//!
//! # Errors
//!
//! Operations fail with an [`Error`]: kind, place, source, and a hint that is data. Calls on pools
//! (open, export), on single files and objects, and receives fail with types of their own, which
//! become one with `?`. What the state of a dataset forbids is [`ErrorKind::Refused`], with a
//! [`Refusal`] that says what is in the way.
//!
//! Nothing here prints or ends the process, and no bytes from a disk make it panic. The environment
//! is read for devices in stores alone: their credentials, and the cache on a local disk.
#![forbid(unsafe_code)]

pub mod activity;
mod checking;
mod contention;
pub mod datasets;
pub mod devices;
pub mod diff;
mod directories;
mod enabling;
mod end_pool;
mod error;
pub mod extract;
mod faults;
mod file_facts;
mod file_names;
mod import;
mod import_list;
pub mod ingest;
pub mod inventory;
pub mod keys;
pub mod layout;
mod making;
mod members;
mod new_pool;
mod open_pool;
mod orphans;
mod owners;
pub mod places;
mod pool_facts;
mod projects;
pub mod properties;
mod reading;
pub mod receive;
mod record;
pub mod recording;
mod remove;
pub mod replay;
pub mod rescue;
pub mod select;
pub mod send;
pub mod upkeep;
mod values;
mod vdev_properties;
mod waiting;

pub use datasets::Create;
/// ```
/// use engine::objects::{DmuType, Hold, NewObject};
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let fs = pool.filesystem("tank")?;
/// let tx = fs.begin(Hold::write(4096))?;
/// let new = NewObject::new(DmuType::UINT64_OTHER).block_size(4096);
/// let number = fs.objset().create(&tx, &new)?.number();
/// drop(tx);
/// assert_eq!(fs.objset().object(number)?.number(), number);
/// # Ok::<(), engine::Error>(())
/// ```
pub use dmu::Objset;
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let root = pool.view().datasets().by_name("tank")?;
/// assert!(!root.is_snapshot());
/// assert_eq!(pool.view().datasets().kind(&root), engine::DatasetKind::Filesystem);
/// # Ok::<(), engine::Error>(())
/// ```
pub use dsl::Dataset;
/// ```
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::Create::filesystem("tank/home")?.run(&pool)?;
/// let dsl = pool.view().datasets();
/// let children = dsl.children(&dsl.by_name("tank")?.dir)?;
/// assert!(children.iter().any(|child| child.name == "tank/home"));
/// # Ok::<(), engine::Error>(())
/// ```
pub use dsl::Dsl;
pub use dsl::write::{NameFault, NameKind, check_name, name_fault};
pub use dsl::write::{PropertyChange, check_create, parse_size, parse_value};
pub use dsl::{DatasetKind, Dir, NamedBookmark, Refusal, ResumeToken, TokenFault};
pub use dsl::{Property, PropertyContext, Source, StoredValue};
pub use error::{Conflict, Error, ErrorKind, Hint, Place, Result, ResumeFault, Rule};
pub use error::{StreamFault, Unreceivable, Unsendable};
pub use faults::ImportRefusal;
pub use new_pool::NewPool;
/// ```
/// use engine::{NewPool, OpenOptions, OpenPool, Pool};
/// use std::sync::Arc;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let pool = Pool::open("tank", &OpenOptions::in_places([&image]))?;
/// let pool = OpenPool::from(&Arc::new(pool));
/// assert!(pool.is_read_only() && !pool.is_behind("tank")?);
/// assert_eq!(pool.filesystem("tank")?.root()?.links, 2);
/// # Ok::<(), engine::Error>(())
/// ```
pub use open_pool::{OpenPool, WeakPool};
/// ```
/// use engine::{NewPool, OpenOptions, Pool};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let pool = Pool::open("tank", &OpenOptions::in_places([&image]))?;
/// assert_eq!((pool.name(), pool.health().as_str()), ("tank", "ONLINE"));
/// # Ok::<(), engine::Error>(())
/// ```
pub use pool::Pool;
/// ```
/// use engine::{Create, NewPool};
///
/// let pool = NewPool::new("tank").memory(128 << 20).create()?;
/// Create::filesystem("tank/a")?.run(&pool)?;
/// pool.sync()?;
/// assert!(pool.last_synced() > 0 && pool.dirty() == 0);
/// pool.export()?;
/// # Ok::<(), engine::Error>(())
/// ```
///
/// One that is there is opened by its name:
///
/// ```
/// use engine::live::ImportOptions;
/// use engine::{LivePool, NewPool, OpenOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let options = ImportOptions::new(OpenOptions::in_places([&image]));
/// let pool = LivePool::open("tank", &options)?;
/// assert_eq!(pool.name(), "tank");
/// # pool.export()?;
/// # Ok::<(), engine::Error>(())
/// ```
pub use pool::live::LivePool;
pub use pool::{Candidate, Datasets, OpenOptions, SearchOptions};
/// ```
/// use engine::Progress;
///
/// let progress = Progress::new();
/// std::thread::scope(|scope| {
///     let work = scope.spawn(|| {
///         progress.begin("stars counted", 0);
///         while progress.check().is_ok() {
///             progress.add(1, 0);
///         }
///     });
///     while progress.snapshot().done == 0 {}
///     progress.cancel();
///     work.join().unwrap();
/// });
/// assert_eq!(progress.snapshot().phase, "stars counted");
/// ```
pub use rt::Progress;
pub use rt::{Cancelled, ProgressSnapshot, Rt};
/// ```
/// # use engine::files::{DirCursor, NewFile, NewKind, Time};
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let fs = pool.filesystem("tank")?;
/// let new = NewFile::new(NewKind::Dir, 0o755, Time { seconds: 1, nanos: 0 });
/// for name in ["letters", "pictures", "sounds"] {
///     fs.create(fs.root_object(), name.as_bytes(), &new)?;
/// }
/// // A directory may be larger than memory: it is read in pages, each from where the last ended.
/// let (root, mut names) = (fs.root()?, Vec::new());
/// let mut at = Some(DirCursor::default());
/// while let Some(from) = at {
///     let page = root.read_dir(from, 2)?;
///     for entry in page.entries {
///         names.push(entry?.name);
///     }
///     at = page.next;
/// }
/// names.sort();
/// assert_eq!(names, [&b"letters"[..], b"pictures", b"sounds"]);
/// # Ok::<(), engine::Error>(())
/// ```
pub use zpl::Filesystem;
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// # let now = engine::files::Time { seconds: 1, nanos: 0 };
/// # let fs = pool.filesystem("tank")?;
/// # let new = engine::files::NewFile::new(engine::files::NewKind::File, 0o644, now);
/// let file = fs.create(fs.root_object(), b"letter", &new)?;
/// fs.write_at(file.number(), 4, b"text", now)?;
/// // A node is what the file was when it was looked up.
/// let (was, is) = (file.size, fs.by_path(b"/letter", true)?.size);
/// assert_eq!((was, is), (0, 8));
/// # Ok::<(), engine::Error>(())
/// ```
pub use zpl::Node;
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::Create::volume("tank/disk", 8 << 20)?.run(&pool)?;
/// let volume = pool.volume("tank/disk")?;
/// volume.write_at(4096, b"sector")?;
/// let mut bytes = [0; 8];
/// volume.read_at(4095, &mut bytes)?;
/// assert_eq!(&bytes, b"\0sector\0");
/// # Ok::<(), engine::Error>(())
/// ```
pub use zpl::Volume;

/// The crates below the façade, for tools that look into the structures themselves.
pub mod inside {
    pub use {check, codec, device, dmu, dsl, ondisk, pool, rt, vdev, zil, zio, zpl};
}

/// Making and importing pools that can be changed, their tunables, what is recorded and told of
/// them.
pub mod live {
    pub use pool::live::{
        AbandonedHead, CreateOptions, DEVICE_MIN, DeviceSearch, Devices, ENABLED_BY_DEFAULT, Event,
        EventValue, Events, FailMode, FoundDevice, GivenUpLog, Head, IdleDevices, ImportOptions,
        InUse, Invocation, LabelMismatch, LivePool, LogDevices, Missing, MovedDevices, NewTop,
        NotUsed, OfflineMode, OwnChanges, PushReason, Refused, ResilverKind, Returned, Setting,
        SpaceClass, SpareTaken, StopWaiter, StoredPropertyValue, Tunable, TunableError, TxgLimits,
        TxgRecord, TxgState, VdevSpec, cache_config, check_import, identity, import, is_same,
        is_writable, mark_destroyed, multihost_wait,
    };

    /// What can be tuned, in a table with units and ranges.
    pub mod tunables {
        pub use pool::live::tunables::{Row, Setting, Tunable, TunableError, Tunables, Unit};
    }
}

/// The process itself.
pub mod process {
    pub use device::{Allocator, limit_arenas, map_large_blocks, memory_bytes, was_stdout_closed};
}

/// Every block of a pool read, verified, and compared with what is allocated.
///
/// ```
/// use engine::check::{self, CheckOptions};
///
/// # use engine::{NewPool, OpenOptions, Pool, Progress};
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// # NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let pool = Pool::open("tank", &OpenOptions::in_places([&image]))?;
/// let report = check::run(&pool, &CheckOptions::default(), &Progress::new());
/// assert!(report.issues.is_empty() && report.blocks_lost == 0);
/// assert!(report.blocks_read > 0 && report.allocated > 0);
/// # Ok::<(), engine::Error>(())
/// ```
pub mod check {
    pub use crate::checking::{TxgVerdict, bytes_max, settled, txg_verdicts};
    pub use ::check::{
        BlockKind, CheckOptions, DeviceDamage, Issue, Location, LostPart, Report, Severity, Sum,
        Totals, Verify, labels, run,
    };
}

/// Pools that OpenZFS would not write to, made right again.
///
/// A repair is made in memory and checked there; then it says what it would do, and does it:
///
/// ```
/// use engine::devices::AnyDevices;
/// use engine::live::ImportOptions;
/// use engine::repair::{self, RepairOptions};
/// # use engine::{Candidate, NewPool, OpenOptions, pools};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// # NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let import = ImportOptions::new(OpenOptions::in_places([&image]));
/// let found = Candidate::group(&pools::scan(&import.open.search)?);
/// let options = RepairOptions {
///     import,
///     bytes_max: 64 << 20,
///     txg: None,
///     reads_files: false,
///     gives_up_absent: false,
///     claims: true,
/// };
/// let source = std::sync::Arc::new(AnyDevices::default());
/// let repair = repair::repair(&found[0], source, &options, &engine::Progress::new())?;
/// // Nothing is wrong with this one; else `repair.apply` writes what it undoes, and repairs.
/// assert!(!repair.plan().is_of_use() && repair.plan().is_clean_after(false));
/// # Ok::<(), engine::Error>(())
/// ```
pub mod repair {
    pub use ::repair::{
        Error, Failure, Plan, Repair, RepairOptions, RepairRefusal, Result, Step, repair, undo,
    };
}

/// Configurations of pools and vdevs as labels hold them, and the lists they are made of.
pub mod config {
    pub use ondisk::config::{LabelConfig, PoolConfig, PoolState, VdevConfig, VdevKind};
    pub use ondisk::nvlist::{NvList, NvPair, NvValue, Packing};
}

/// What [`Error`] is made from, for the `From` of a front end whose verbs fail with a type of its
/// own. [`Error::kind`] says what failed: nothing else needs these.
pub mod errors {
    pub use dmu::Error as DmuError;
    pub use dsl::Error as DslError;
    pub use pool::Error as PoolError;
    pub use zpl::Error as ZplError;
}

/// Why a file is not changed ([`ErrorKind::FileRefused`]).
pub mod file_refusals {
    pub use zpl::{Excess, FileRefusal, InvalidRequest, Protection, Unsupported};
}

/// Why an object is not changed ([`Error::object_refusal`]).
pub mod object_refusals {
    pub use crate::faults::ObjectRefusal;
    pub use dmu::{InvalidChange, Unsupported};
}

/// Why a pool does not do what it is asked to ([`ErrorKind::PoolRefused`]).
pub mod pool_refusals {
    pub use pool::{DeviceFault, NotRunning, Ongoing, PoolRefusal, VdevFault};
}

/// Delegated permissions: who has them, and what each operation needs. They are given and taken by
/// [`datasets::Permissions`]; what is done through a handle of [`LivePool::on_behalf_of`] needs
/// them.
pub mod permissions {
    pub use dsl::access::{Action, Caller, PermissionOn, RULES, of_property};
    pub use dsl::{Delegation, write::RevokedPermissions};
    pub use ondisk::dsl::deleg::{PERMISSIONS, Scope, Who, WhoKey, is_permission, is_set_name};
}

/// What files are made of: kinds, attributes, flags, lists of access rights, names.
pub mod files {
    pub use crate::directories::make_directories;
    pub use crate::file_facts::{FileFacts, FileSummary, PosixLists};
    pub use crate::file_names::FileName;
    pub use crate::orphans::orphans;
    pub use crate::projects::{ProjectChange, ProjectDepth, ProjectOf, ProjectTask, each_project};
    pub use crate::remove::{NotRemoved, NotRemovedCause, remove_tree};
    pub use dmu::{Hold, Segment, Tx};
    pub use ondisk::znode::{ZPL_VERSION_MAX as VERSION_MAX, flags};
    pub use zpl::write::{CloneRange, CopiedSnapshot, OpenFile, ProjectRoom, QuotaKind, XattrMode};
    pub use zpl::{CaseSensitivity, DirCursor, DirEntry, DirPage, Entries, FileKind, Time, names};
    pub use zpl::{
        FlagChange, NewFile, NewKind, RenameMode, SetAttrs, SpaceKind, SpaceRow, Stored,
    };

    /// Lists of access rights: those of NFSv4 that files have, and those of POSIX that are kept
    /// in extended attributes.
    pub mod acl {
        pub use ondisk::acl::{Ace, AceWho, TYPE_ALLOW, TYPE_DENY};
        pub use ondisk::acl::{
            FLAG_EVERYONE, FLAG_GROUP, FLAG_IDENTIFIER_GROUP, FLAG_OWNER, POSIX_ACCESS_XATTR,
            POSIX_DEFAULT_XATTR, PosixEntry, PosixWho, decode_posix, encode_posix, posix_text,
        };
    }
}

/// The features that pools have, the rules by which they are enabled, and the versions before
/// these.
pub mod features {
    pub use crate::enabling::{by_default, enable, missing, upgrade};
    pub use ondisk::features::{
        FEATURES, Feature, Support, VERSION_FEATURES, VERSIONS, by_guid, by_name,
    };
}

/// Bytes as hexadecimal digits.
pub mod hex {
    pub use ondisk::hex::{decode, encode};
}

/// Names that the format does not allow, spelled so that they can be shown and typed.
pub mod spelling {
    pub use ondisk::spelling::{in_line, name, stored};
}

/// What files and volumes are kept in: objects as trees of blocks, changed in transactions. A
/// program that wants no files keeps its data in objects of its own, in a file system's or a
/// volume's [`Objset`].
///
/// ```
/// use engine::objects::{DmuType, Hold, NewObject};
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let fs = pool.filesystem("tank")?;
/// // What one transaction changes is there after a crash, or nothing of it.
/// let tx = fs.begin(Hold::write(1 << 20))?;
/// let kind = NewObject::new(DmuType::UINT64_OTHER).block_size(4096);
/// let object = fs.objset().create(&tx, &kind)?;
/// object.write_at(&tx, 4096, &42u64.to_le_bytes())?;
/// drop(tx);
/// pool.sync()?;
///
/// let mut bytes = [0; 8];
/// fs.objset().object(object.number())?.read_at(4096, &mut bytes)?;
/// assert_eq!(u64::from_le_bytes(bytes), 42);
/// # Ok::<(), engine::Error>(())
/// ```
pub mod objects {
    pub use dmu::{Hold, NewObject, Object, Segment, Tx};
    pub use ondisk::DmuType;
}

/// How pools are found, judged and described, and opened when other processes have them.
pub mod pools {
    pub use crate::contention::{
        Busy, ByName, NoWriters, PoolSearch, WaitUpTo, Waiter, check_when_free,
        mark_destroyed_when_free, open_when_free, wait_for_writers,
    };
    pub use crate::end_pool::{Closed, EndObserver, EndPool, Ended, ListedAs, PoolEnd, let_go};
    pub use crate::import::{
        DeviceNote, Import, ImportIssue, ImportPlan, ImportReason, ImportTop, ImportTree,
        ImportVdev, ImportVerdict, ImportedPool, Rewind, RewindReach, denied_devices,
    };
    pub use crate::import_list::{
        EarlierState, ImportConflict, ImportEntry, ImportList, NoList, check_name_is_free,
    };
    pub use crate::making::{
        Add, BusyDevice, ClearLabels, Content, CreatePool, CreatedPool, DeviceCheck, DeviceClaim,
        DeviceRefusal, PoolNameFault, PoolRegistry, Split, check_new_name, pool_of_label,
    };
    pub use crate::members::named_leaves;
    pub use crate::members::{
        DeviceNames, DeviceRole, Exchange, Known, Member, MemberFault, Onlined, WorkChange,
    };
    pub use crate::pool_facts::{PoolFacts, ShortDevice, error_counts, has_rotating_disks};
    pub use crate::pool_facts::{newer_txg, read_only_devices};
    pub use crate::record::record_change;
    pub use crate::vdev_properties::{NamedVdev, named_vdevs, vdev_properties};
    pub use ondisk::history::HistoryRecord;
    pub use ondisk::scan::{
        ErrorScrubState, Function, RebuildState, ScanState, State as ScanProgress,
    };
    pub use pool::{
        Absence, CandidateLeaf, CandidateState, CheckpointState, DamagedObject, MissingDevice,
        ReadRepairs, Salvage, ScanPass, UnknownFeature,
    };
    pub use pool::{
        CheckpointNote, Condition, ErrorScrubNote, ExpansionNote, ExpansionWait, PoolSpace, Remark,
        Removal, SUSPENDED, Section, Status, VdevTreeView, VdevView, ViewState, WorkProgress,
    };
    /// ```
    /// use engine::live::ImportOptions;
    /// use engine::pools::{self, Choice, Destroyed};
    /// use engine::{Candidate, LivePool, NewPool, OpenOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let [old, new] = ["old.img", "new.img"].map(|name| folder.path().join(name));
    /// NewPool::new("tank").file(&old, 64 << 20)?.create()?.destroy()?;
    /// NewPool::new("tank").file(&new, 64 << 20)?.create()?.export()?;
    /// let options = OpenOptions::in_places([folder.path()]);
    /// let found = || Ok::<_, engine::Error>(Candidate::group(&pools::scan(&options.search)?));
    /// // A destroyed pool has no name any more, unless one of these is wanted.
    /// let one = Choice::of("tank").among(found()?, &[])?;
    /// let other = Choice::of("tank").destroyed(Destroyed::Only).among(found()?, &[])?;
    /// assert!(!one.is_destroyed() && other.is_destroyed());
    /// // Its guid means it all the same.
    /// let guid = other.config.pool_guid.to_string();
    /// let import = ImportOptions { destroyed: true, ..ImportOptions::new(options.clone()) };
    /// assert_eq!(LivePool::open(&guid, &import)?.guid(), other.config.pool_guid);
    /// # Ok::<(), engine::Error>(())
    /// ```
    pub use pool::{Choice, Destroyed};
    pub use pool::{FoundLeaf, LabelView, TxgCandidate, Verdict, by_txg, judge_txgs};
    pub use pool::{LeafProgress, LeafWork, WorkState};
    pub use pool::{PoolProperty, PoolPropertySource};
    pub use pool::{class_of, default_search_paths, denied, look_at_device, scan};
    pub use vdev::{ErrorCounts, Reason, VdevState};
}

/// Send streams as sequences of records.
///
/// ```
/// use engine::send::{Forms, SendStream};
/// use engine::streams::{Body, Reader};
/// use engine::{NewPool, Progress, datasets};
///
/// let pool = NewPool::new("tank").memory(128 << 20).create()?;
/// datasets::snapshot(&pool, &["tank@monday"], false, Vec::new())?;
/// let (view, mut stream) = (pool.look()?, Vec::new());
/// let send = SendStream::new(&view, "tank@monday", None, Forms::default())?;
/// send.run(&mut stream, &Progress::new())?;
///
/// let mut records = Reader::new(&stream[..]);
/// let first = records.record().unwrap().unwrap();
/// assert!(matches!(first.body, Body::Begin(begin) if begin.to_name.starts_with(b"tank@monday")));
/// while records.record().unwrap().is_some() {}
/// assert_eq!(records.length(), stream.len() as u64);
/// # Ok::<(), engine::Error>(())
/// ```
pub mod streams {
    pub use ondisk::stream::{Body, RECORD_SIZE, Record};
    pub use stream::{Converted, Decompressed, RewriteError, decompress, recompress, redup};
    pub use stream::{Error, ErrorKind, Reader, Result, Writer};

    pub use codec::compress::Algorithm;
}

/// The tables of all properties: of datasets, pools and vdevs.
pub mod props {
    pub use dsl::has_property;
    pub use ondisk::pool_props::{POOL, VDEV, find_pool};
    pub use ondisk::props::{
        Access, DATASET, ListAlignment, PropertyDesc, ValueKind, applies, find, find_dataset,
        is_user_property,
    };
}

/// Several changes of datasets in one txg, in an order that a program decides while it runs.
///
/// ```
/// use engine::programs::ProgramChange;
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let taken = pool.run_program(true, |cx| {
///     let snapshot = ProgramChange::Snapshot("tank@monday".to_owned());
///     cx.check(&snapshot)?;
///     cx.make(&snapshot)?;
///     // What it did is there, though not durable yet.
///     Ok::<_, engine::errors::PoolError>(cx.datasets().by_name("tank@monday")?.create_txg())
/// })??;
/// assert!(pool.last_synced() >= taken);
/// # Ok::<(), engine::Error>(())
/// ```
pub mod programs {
    pub use pool::live::{ProgramChange, ProgramCx};
}

/// What a pool did, and how long it took.
pub mod stats {
    pub use pool::stats::{
        BlockStats, ClassStats, DatasetStats, Direction, Histogram, Snapshot, StageStats,
        StoreUsage, VdevStats,
    };
    pub use vdev::queue::ClassCounts;
    pub use zio::profile::{KindProfile, Profile, StageProfile, ThreadKind};
}
