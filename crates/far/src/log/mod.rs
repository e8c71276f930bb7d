//! A disk in a store of objects: a log of segments that are created once and never changed.
//!
//! # Theory
//!
//! The store (`crate::store`) promises one thing: of all creates of a name one succeeds, ever as
//! long as the object is not deleted. A *segment* is an object that has changes of the disk: a
//! table of ranges and their bytes. Segments have dense numbers, which are their places in the log;
//! the state of the disk is that of all segments up to the first place that is absent. So any
//! prefix of the log is a disk as it was, and a reader needs no permission.
//!
//! ```text
//!   log   1 2 3 4 5 6 | S S S S . . . . | 15 16 17 18 .
//!                       |                  ^        ^
//!                       sealed by the      |        first absent place: the end
//!                       next writer        where the log goes on
//! ```
//!
//! - *A write* is done when its bytes are in the open segment, in memory. *A segment counts* when
//!   its create succeeded, or met itself (`put`). At most W (`Super::window`) places from the
//!   lowest that does not count yet are under way. *A flush* ends the open segment and returns
//!   when everything up to it counts.
//! - *A new writer* (`takeover`) takes a higher number, finds the first absent place n, and seals
//!   n … n+W−1, each seal saying that the log goes on at n+2W. The first seal that stands cuts the
//!   log: a segment of the writer before cannot count behind it, because its place is taken; and
//!   that writer sends nothing beyond n+2W−2, because it waits for the cut. So what was flushed
//!   stands before the cut, in every later replay. A writer that meets another's object at a place
//!   that it asked for is *fenced*, for good. No clock is compared.
//! - *Seals arrive in any order*, and some may never arrive. One may stand at n+1 while n is
//!   absent: then the log ends at n, and its writer there is the old one still; but with two
//!   segments under way that one meets the seal, and is fenced before the log says so. No flush of
//!   it returned for n+1. Its segment at n may arrive afterwards, and counts, like that of a writer
//!   that died; then the log is cut at n+1. If the takeover died the log has no writer until the
//!   next one, which seals n itself. So a fence says that another one began later, and not that it
//!   is the writer.
//! - *A writer that ends* says so (`Kind::Close`) when nothing of it is under way; the next one
//!   then seals one place, without a gap. A third one, which had found the log at a place m before
//!   it was closed, may have seals under way that arrive behind that, at most at m+W−1. Such a seal
//!   comes too late to make its writer the present one, but it cuts: the present writer meets it at
//!   its next place, is fenced although it has no successor, and has nothing at m+2W or beyond,
//!   where the log goes on.
//! - *An object that a store lost* would look like the end of the log. What stands behind that end
//!   says whether it can be one (`witness`); an opening that finds a hole fails before it writes.
//! - *Seals that are not clean are never deleted*: a writer that stood still for a year finds its
//!   place taken. Everything else that is deleted lies before a checkpoint, where only its own
//!   writer can create it again, which is a leak and does no harm.
//! - *A checkpoint* is the map as pages and a root that says where they are. It says what the log
//!   up to a place says, so that of a writer that was fenced without knowing is as good. It is
//!   never changed; a replay takes the newest, and looks at the end whether there is a newer one
//!   that made what it read incomplete (`replay`). A new writer refers to no page of another's:
//!   those may be deleted by a writer that does not know of it.
//! - *Garbage* (`gc`): a segment may be deleted when the oldest of three checkpoints refers to it
//!   no more, no pin needs it, and a time has passed by this writer's own clock, for readers
//!   without a pin. Dead is dead: nothing refers again to what no map has, so also a fenced writer
//!   deletes nothing that is still needed; and one that sees a checkpoint beyond its own place
//!   knows that it is the writer no more. Segments with little life are moved together: their
//!   living bytes go to the end of the log, as changes that hold only where the map still has what
//!   was moved.
//!
//! # Threads and locks
//!
//! One lock, [`core::Core::state`], never held over a request. Answers of the store come on its
//! threads and never wait. Callbacks of the device's users are called by a thread of its own
//! (`answers`), as they may read from the device. A cache on a local disk, if there is one, has a
//! thread as well (`cache`). What is being read, and was lately, is in memory (`recent`), under a
//! lock that is held over no call. A writer has a *keeper*, which makes checkpoints
//! and collects garbage while there is work; an idle disk asks nothing of its store.

mod answers;
mod cache;
mod check;
mod checkpoint;
mod core;
mod dev;
pub mod format;
mod gc;
mod listed;
mod map;
mod options;
mod probe;
mod purse;
mod put;
mod read;
mod recent;
mod replay;
mod run;
mod seen;
mod takeover;
mod tool;
mod witness;
mod write;
mod writer;

#[cfg(test)]
mod tests;

use crate::store::StoreError;
use ::core::fmt;
use format::Damage;
use rt::Rt;
use std::path::PathBuf;

pub use cache::CachePlace;
pub use check::{Finding, Report, check};
pub(crate) use dev::open_error;
pub use dev::{LogDevice, any_object, has_disk, superblock};
pub use gc::Collected;
pub use options::Options;
pub use probe::{Fence, probe};
pub use purse::Budget;
pub use seen::Mark;
pub use tool::{LogState, Overview, PinInfo, WriterInfo, pin, unpin};

/// Why a disk in a store cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// There is no disk in it.
    NoDisk,
    /// There is a disk already.
    DiskExists,
    /// There are objects already; the name of one.
    NotEmpty(String),
    /// The store of this name has a disk, and this one is a part of it.
    Within(String),
    /// The store does not do what it is asked.
    Store(StoreError),
    /// An object is not what it should be.
    Damaged(String, Damage),
    /// An object is missing from the middle of the log, and another one that proves it.
    Missing(String, String),
    /// A writer with this number has taken over.
    Fenced(u64),
    /// What was read was deleted: there are newer states of the disk.
    Gone,
    /// This machine has seen a later state of the disk.
    Older {
        /// How far the disk is.
        now: Mark,
        /// How far it was.
        seen: Mark,
        /// Where that is remembered.
        file: PathBuf,
    },
    /// The map is larger than it may be, in bytes.
    MapTooLarge {
        /// What it would take.
        needed: u64,
        /// What it may.
        limit: u64,
    },
    /// Creates of the store do not exclude one another; what was seen.
    NoFence(String),
    /// A rule of the bucket removes objects of the disk.
    Rule(String),
    /// What the name of the store and the environment say does not lead to one.
    Settings(String),
    /// A thread or file of this machine cannot be had.
    Machine(String),
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDisk => f.write_str("there is no disk in this store"),
            Self::DiskExists => f.write_str("there is a disk in this store already"),
            Self::NotEmpty(object) => write!(f, "the store is not empty: it has {object}"),
            Self::Within(name) => {
                write!(f, "it would be among the objects of the disk in {name}")
            }
            Self::Store(error) => error.fmt(f),
            Self::Damaged(name, damage) => write!(f, "{name}: {damage}"),
            Self::Missing(name, proof) => {
                write!(f, "{name} is missing, though {proof} was created after it")
            }
            Self::Fenced(0) => f.write_str("another writer has taken over"),
            Self::Fenced(epoch) => write!(f, "another writer (number {epoch}) has taken over"),
            Self::Gone => f.write_str("the state that was read is too old: it was deleted"),
            Self::Older { now, seen, .. } => write!(
                f,
                "the store was set back to an older state: this machine has seen {} objects of its \
                 log and writer {}, and there are {} and writer {}",
                seen.place.saturating_sub(1),
                seen.epoch,
                now.place.saturating_sub(1),
                now.epoch
            ),
            Self::MapTooLarge { needed, limit } => {
                write!(f, "its map needs {needed} bytes of memory; the limit is {limit}")
            }
            Self::NoFence(what) => write!(f, "the store does not keep two writers apart: {what}"),
            Self::Rule(what) | Self::Settings(what) | Self::Machine(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for DiskError {}

impl From<StoreError> for DiskError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Seconds since 1970, for people.
fn seconds(rt: &Rt) -> u64 {
    rt.wall().as_secs()
}
