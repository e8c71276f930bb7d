//! Pools: found by their labels, judged, opened, and changed.
//!
//! # Theory
//!
//! ```text
//! scan      paths -> devices -> labels                       (nothing is believed yet)
//! assemble  labels of one pool guid -> tree of vdevs, newest label of each top-level vdev wins
//! choose    uberblocks of all labels -> the newest, or the txg asked for
//! open      uberblock -> MOS -> configuration in the MOS -> tree again, now authoritative
//!           -> features, salt, indirect mappings -> datasets
//! ```
//!
//! The labels are needed to find the MOS, and the MOS knows more than the labels (offline
//! devices, removed vdevs, spares), so the tree is built twice. A [`Pool`] only reads, and stays at
//! its uberblock. A pool that is open for writing ([`live`]) has the machine of txgs, the space
//! maps (`alloc`) and the times that devices missed (`dtl`); readers get a [`Pool`] of it.
//!
//! Damage found while opening is an error about a place. Opening a [`Pool`] reads only what is
//! needed to read data, without space maps, history and error logs, so damage there cannot cost the
//! pool; they are read on demand.
#![forbid(unsafe_code)]

mod alloc;
mod assemble;
mod choice;
mod content;
mod dtl;
mod errlog;
mod error;
mod faults;
mod gate;
mod history;
mod leaf_work;
pub mod live;
mod mapping;
mod not_used;
mod obstacle;
mod open;
mod props;
mod refusal;
mod removal;
mod scan;
mod scans_here;
mod space;
mod stale;
pub mod stats;
mod status;
mod stored_props;
mod taken_over;
mod uberblocks;
mod verdict;

pub use alloc::{
    AllocOptions, Allocator, AsizeFn, ClassFigures, Figures, MetaslabArray, SpaceMapRebuild,
    SpaceSync, TopSpec, init_top, metaslab_shift,
};
pub use assemble::{Candidate, CandidateLeaf, CandidateState};
pub use choice::{Choice, Destroyed};
pub use errlog::{DamagedObject, ErrorLog};
pub use error::{Absence, Error, MissingDevice, Result, UnknownFeature};
pub use faults::{FAULTS_KEPT, FaultLog, ReadRepairs, Repaired};
pub use leaf_work::{LeafProgress, LeafWork, WorkState};
pub use mapping::indirect_mapping;
pub use obstacle::Obstacle;
pub use open::{Datasets, Features, OpenOptions, Pool, SUSPENDED, Salvage, UnguardedDatasets};
pub use props::{PoolProperty, PoolPropertySource};
pub use refusal::{DeviceFault, NotRunning, Ongoing, PoolRefusal, VdevFault};
pub use removal::{CheckpointState, Removal, VdevExpansion};
pub use scan::{
    FoundLeaf, LabelView, SearchOptions, default_search_paths, denied, look_at_device, read_labels,
    scan,
};
pub use scans_here::ScanPass;
pub use space::{
    ClassSpace, EMBEDDED_LOG_METASLABS, FRAGMENTATION, MetaslabSpace, PoolSpace, TopSpace, class_of,
};
pub use status::{
    CheckpointNote, Condition, ErrorScrubNote, ExpansionNote, ExpansionWait, Remark, Section,
    Status, VdevTreeView, VdevView, ViewState, WorkProgress,
};
pub use uberblocks::{FoundUberblock, TxgCandidate, Verdict, by_txg, read_ring};
pub use verdict::{can_go_back_to, judge_txgs, verdict};
