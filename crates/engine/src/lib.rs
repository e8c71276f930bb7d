//! The façade: everything a front end may use.
//!
//! A [`Pool`] is opened by name or guid from files and devices; its [`Dataset`]s are found by
//! name, and opened as a [`Filesystem`] or a [`Volume`]. A [`LivePool`] is one that can be changed.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`datasets`] | making, destroying and renaming of datasets, snapshots, clones |
//! | [`properties`] | judging and setting of properties |
//! | [`mod@diff`] | what changed between two states of a file system |
//! | [`ingest`] | files of somewhere else into a file system |
//! | [`pools`] | how pools are found, judged and described |
//! | [`live`] | making and importing pools that can be changed, tunables, records of txgs |
//! | [`props`], [`features`] | tables of all properties and features |
//! | [`spelling`] | names that the format does not allow |
//! | [`config`] | configurations as labels hold them |
//! | [`files`] | what files are made of |
//! | [`mod@check`], [`inventory`] | everything verified, and everything listed |
//! | [`stats`] | what a pool did, and how long it took |
//!
//! The floors below are [`inside`]: tools that look into the structures of a pool name them there,
//! and a front end does not.
#![forbid(unsafe_code)]

pub mod datasets;
pub mod diff;
mod error;
pub mod ingest;
pub mod inventory;
pub mod properties;
pub mod replay;

pub use dmu::Objset;
pub use dsl::write::{NameKind, PropertyChange, check_create, check_name, parse_value};
pub use dsl::{Dataset, DatasetKind, Dir, Dsl, NamedBookmark, Refusal, nicenum};
pub use dsl::{Property, PropertyContext, Source, StoredValue};
pub use error::{Error, ErrorKind, Hint, InTheWay, Place, Result, Rule};
pub use ondisk::{features, spelling};
pub use pool::live::{self, LivePool};
pub use pool::{Candidate, OpenOptions, Pool, SearchOptions};
pub use rt::{Cancelled, Progress, ProgressSnapshot, Rt, for_each_parallel};
pub use zpl::{Filesystem, Node, Volume};

/// The crates below the façade, for tools that look into the structures themselves.
pub mod inside {
    pub use {check, codec, device, dmu, dsl, ondisk, pool, rt, vdev, zil, zio, zpl};
}

/// Every block of a pool read, verified, and compared with what is allocated.
pub mod check {
    pub use ::check::{
        CheckOptions, Issue, Kind, Report, Severity, Sum, Totals, Verify, labels, run, verdict,
    };
}

/// Configurations of pools and vdevs as labels hold them, and the lists they are made of.
pub mod config {
    pub use ondisk::config::{AllocBias, LabelConfig, PoolConfig, PoolState, VdevConfig, VdevKind};
    pub use ondisk::nvlist::{NvList, NvPair, NvValue, Packing};
}

/// Errors of the floors, by the floor.
pub mod errors {
    pub use device::Error as DeviceError;
    pub use dmu::Error as DmuError;
    pub use dsl::{Error as DslError, Result as DslResult};
    pub use pool::{Error as PoolError, Result as PoolResult};
    pub use zpl::{Error as ZplError, Result as ZplResult};
}

/// What files are made of: kinds, attributes, flags, lists of access rights, names.
pub mod files {
    pub use ondisk::acl;
    pub use ondisk::znode::{ZPL_VERSION_MAX as VERSION_MAX, flags};
    pub use zpl::write::{OpenFile, XattrMode};
    pub use zpl::{CaseSensitivity, DirEntry, FileKind, Time, names};
    pub use zpl::{NewFile, NewKind, RenameMode, SetAttrs, SpaceKind, SpaceRow};
}

/// How pools are found, judged and described.
pub mod pools {
    pub use ondisk::scan::ScanState;
    pub use pool::{Absence, CandidateState, LeafSight, MissingDevice, UnknownFeature};
    pub use pool::{FoundLeaf, LabelView, TxgCandidate, Verdict, by_txg, judge_txgs};
    pub use pool::{HistoryFormat, PoolProperty, PoolPropertySource, history_text};
    pub use pool::{PoolSpace, Section, Status, VdevTreeView, VdevView};
    pub use pool::{default_search_paths, denied, look_at_device, scan};
}

/// The tables of all properties: of datasets, pools and vdevs.
pub mod props {
    pub use ondisk::pool_props::{POOL, VDEV};
    pub use ondisk::props::{
        Access, DATASET, Kind, Property, Shown, applies, find, find_dataset, is_user_property,
    };
}

/// What a pool did, and how long it took.
pub mod stats {
    pub use pool::stats::{
        BlockStats, ClassStats, DatasetStats, Direction, Histogram, Snapshot, StageStats,
        VdevStats, prometheus,
    };
    pub use vdev::queue::ClassCounts;
    pub use zio::profile::{Kind, KindProfile, Profile, StageProfile};
}
