//! `zinc zpool`: verbs about pools.

mod add;
mod attach;
mod checkpoint;
pub(super) mod claim;
pub mod create;
mod devices;
pub mod each;
mod events;
mod export;
mod get;
mod history;
mod import;
mod initialize;
pub mod iostat;
mod labelclear;
mod list;
mod listed;
mod naming;
mod prefetch;
mod remove;
mod rewind;
mod scripts;
mod scrub;
mod set;
pub mod settings;
mod split;
mod status;
mod wait;

use crate::cmd::verb::Verb;
use crate::cmd::{unsupported, version};
use crate::session::Session;
use engine::Pool;
use engine::pools::CandidateState;
use std::ffi::OsString;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Create a pool on files and disks
    Create(create::Args),
    /// Destroy a pool
    Destroy(export::Destroy),
    /// Export pools, so that any system can import them
    Export(export::Export),
    /// List pools that can be imported, and why others cannot; or import pools
    Import(Box<import::Args>),
    /// Add vdevs to a pool
    Add(add::Args),
    /// Bring devices online and resilver them
    Online(devices::Online),
    /// Take devices offline
    Offline(devices::Offline),
    /// Clear errors, and retry the devices that failed
    Clear(devices::Clear),
    /// Retry missing devices
    Reopen(devices::Reopen),
    /// Add a side to a mirror, turn a disk into a mirror, or widen a raidz
    Attach(attach::Attach),
    /// Remove a side from a mirror
    Detach(attach::Detach),
    /// Replace a device by another
    Replace(attach::Replace),
    /// Create a pool from one side of each mirror
    Split(split::Split),
    /// Remove devices from a pool; their data is copied to the others
    Remove(remove::Remove),
    /// Keep the present state of a pool as a checkpoint, or discard it
    Checkpoint(checkpoint::Checkpoint),
    /// Overwrite the free space of devices
    Initialize(initialize::Initialize),
    /// Trim the free space of devices
    Trim(initialize::Trim),
    /// Verify all data, and repair what can be repaired
    Scrub(scrub::Scrub),
    /// Resilver devices
    Resilver(scrub::Resilver),
    /// Set a property of a pool, or enable a feature
    Set(set::Set),
    /// Enable all features that zinc makes use of, or show which pools lack them
    Upgrade(set::Upgrade),
    /// Give a pool a new guid
    Reguid(set::Reguid),
    /// Write the changes that a served pool holds in memory to its devices
    Sync(set::SyncPools),
    /// Read the deduplication tables into the cache
    Prefetch(prefetch::Prefetch),
    /// Clear the labels of a device
    Labelclear(labelclear::Args),
    /// List pools, their size and health
    List(list::Args),
    /// Show the I/O of pools and their devices
    Iostat(iostat::Args),
    /// Show the health of pools, device by device
    Status(status::Args),
    /// Show properties of pools and vdevs
    Get(get::Args),
    /// Show the history of commands on pools
    History(history::Args),
    /// Show the events of served pools
    Events(events::Args),
    /// Wait until background work on a pool has ended
    Wait(wait::Args),
    /// Print the version of zinc
    #[command(disable_version_flag = true)]
    Version(version::Args),
    /// Any other word.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Command {
    /// The verb.
    pub fn verb(self) -> Box<dyn Verb> {
        match self {
            Self::Create(a) => Box::new(a),
            Self::Destroy(a) => Box::new(a),
            Self::Export(a) => Box::new(a),
            Self::Import(a) => a,
            Self::Add(a) => Box::new(a),
            Self::Online(a) => Box::new(a),
            Self::Offline(a) => Box::new(a),
            Self::Clear(a) => Box::new(a),
            Self::Reopen(a) => Box::new(a),
            Self::Attach(a) => Box::new(a),
            Self::Split(a) => Box::new(a),
            Self::Detach(a) => Box::new(a),
            Self::Replace(a) => Box::new(a),
            Self::Remove(a) => Box::new(a),
            Self::Checkpoint(a) => Box::new(a),
            Self::Initialize(a) => Box::new(a),
            Self::Trim(a) => Box::new(a),
            Self::Scrub(a) => Box::new(a),
            Self::Resilver(a) => Box::new(a),
            Self::Set(a) => Box::new(a),
            Self::Upgrade(a) => Box::new(a),
            Self::Reguid(a) => Box::new(a),
            Self::Sync(a) => Box::new(a),
            Self::Prefetch(a) => Box::new(a),
            Self::Labelclear(a) => Box::new(a),
            Self::List(a) => Box::new(a),
            Self::Iostat(a) => Box::new(a),
            Self::Status(a) => Box::new(a),
            Self::Get(a) => Box::new(a),
            Self::History(a) => Box::new(a),
            Self::Events(a) => Box::new(a),
            Self::Wait(a) => Box::new(a),
            Self::Version(a) => Box::new(version::VersionVerb("zpool", a)),
            Self::Other(words) => Box::new(unsupported::Word("zpool", words, &unsupported::ZPOOL)),
        }
    }
}

/// It was exported, and is not imported here to be read only, which its labels do not tell.
fn is_exported(session: &Session, pool: &Pool) -> bool {
    let is_known = || crate::known::pools(session).by_guid(pool.guid()).is_some();
    pool.label_state() == CandidateState::Exported && !is_known()
}
