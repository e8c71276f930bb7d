//! `zinc zpool`: verbs about pools.

mod add;
mod attach;
mod checkpoint;
mod claim;
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
    /// Make a pool on files and disks
    Create(create::Args),
    /// Destroy a pool
    Destroy(export::Destroy),
    /// Say goodbye to pools, so that any system takes them
    Export(export::Export),
    /// Show which pools can be opened, and why others cannot; or take pools over
    Import(Box<import::Args>),
    /// Add vdevs to a pool
    Add(add::Args),
    /// Use devices again, and bring them what they missed
    Online(devices::Online),
    /// Take devices out of use
    Offline(devices::Offline),
    /// Forget errors, and try devices again that are out of use for them
    Clear(devices::Clear),
    /// Try devices again that are not there
    Reopen(devices::Reopen),
    /// Give a mirror another side, make a disk one side of a mirror, or make a raidz wider
    Attach(attach::Attach),
    /// Take a side off a mirror
    Detach(attach::Detach),
    /// Put a new device in the place of another
    Replace(attach::Replace),
    /// Make a pool of one side of each mirror
    Split(split::Split),
    /// Take devices out of a pool; what is on them is copied to the others
    Remove(remove::Remove),
    /// Keep the state of a pool as it is now, to go back to, or give that up
    Checkpoint(checkpoint::Checkpoint),
    /// Overwrite the free space of devices
    Initialize(initialize::Initialize),
    /// Give the free space of devices back to them
    Trim(initialize::Trim),
    /// Verify everything, and repair what can be
    Scrub(scrub::Scrub),
    /// Bring devices what they missed
    Resilver(scrub::Resilver),
    /// Set a property of a pool, or enable a feature
    Set(set::Set),
    /// Enable the features zinc can write, or show which pools lack them
    Upgrade(set::Upgrade),
    /// Give a pool a new guid
    Reguid(set::Reguid),
    /// Write what a served pool holds in memory to its devices, now
    Sync(set::SyncPools),
    /// Read the tables of deduplication into the cache
    Prefetch(prefetch::Prefetch),
    /// Take the labels off a device
    Labelclear(labelclear::Args),
    /// List pools, their size and health
    List(list::Args),
    /// Show what pools and their devices read and write
    Iostat(iostat::Args),
    /// Show the health of pools, device by device
    Status(status::Args),
    /// Show properties of pools and vdevs
    Get(get::Args),
    /// Show the commands that made the pool what it is
    History(history::Args),
    /// Show what happened to pools that are served
    Events(events::Args),
    /// Wait until what is done to a pool in the background has ended
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
    let is_known = || crate::known::pools(session).by_guid(pool.config().pool_guid).is_some();
    pool.label_state() == CandidateState::Exported && !is_known()
}
