//! `zinc zfs`: verbs about datasets.

mod allow;
mod changes;
mod create;
mod destroy;
mod diff;
mod get;
mod hold;
mod holds;
mod keys;
mod lineage;
mod list;
mod mounts;
pub mod owners;
mod program;
mod project;
mod receive;
mod select;
mod send;
mod set;
mod snapshot;
mod space;
mod upgrade;
mod value;
mod wait;

pub use changes::Target;
pub use select::name_seen;

use crate::cmd::verb::Verb;
use crate::cmd::{unsupported, version};
use engine::files::SpaceKind;
use std::ffi::OsString;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Create a file system or volume
    Create(create::Args),
    /// Destroy file systems, volumes, snapshots and bookmarks
    Destroy(destroy::Args),
    /// Take snapshots
    #[command(alias = "snap")]
    Snapshot(snapshot::Args),
    /// Roll a file system or volume back to a snapshot
    Rollback(lineage::Rollback),
    /// Create a file system or volume from a snapshot
    Clone(lineage::MakeClone),
    /// Make a clone independent of its origin
    Promote(lineage::Promote),
    /// Rename file systems, volumes and snapshots
    Rename(lineage::Rename),
    /// Set properties of datasets
    Set(set::Set),
    /// Clear properties, so that they are inherited
    Inherit(set::Inherit),
    /// Keep snapshots from being destroyed
    Hold(hold::Hold),
    /// Release held snapshots
    Release(hold::Hold),
    /// Create a bookmark of a snapshot
    Bookmark(hold::Bookmark),
    /// Delegate permissions to other users, or list them
    Allow(allow::Allow),
    /// Revoke delegated permissions
    Unallow(allow::Unallow),
    /// List datasets with their properties
    List(list::Args),
    /// Show properties of datasets and their sources
    Get(get::Args),
    /// Show the space and quotas of each user
    Userspace(space::Args),
    /// Show the space and quotas of each group
    Groupspace(space::Args),
    /// Show the space and quotas of each project
    Projectspace(space::Args),
    /// Show, check and set the projects of files
    Project(project::Args),
    /// Show what changed between a snapshot and a later one, or the file system
    Diff(diff::Args),
    /// Write a snapshot to standard output, for `zfs receive`
    Send(send::Args),
    /// Create a snapshot from a stream of `zfs send` on standard input
    #[command(alias = "recv")]
    Receive(receive::Args),
    /// List the holds of snapshots
    Holds(holds::Args),
    /// Mount file systems, or list mounted ones
    Mount(mounts::Mount),
    /// Unmount file systems
    #[command(alias = "umount")]
    Unmount(mounts::Unmount),
    /// Show the versions of file systems
    Upgrade(upgrade::Args),
    /// Load the keys of encrypted datasets into the process that serves their pool
    LoadKey(keys::Load),
    /// Unload keys from that process
    UnloadKey(keys::Unload),
    /// Change the key of an encrypted dataset
    ChangeKey(keys::Change),
    /// Run a Lua script that looks at datasets and changes them
    Program(program::Args),
    /// Wait until files that were removed while open are freed
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
            Self::Snapshot(a) => Box::new(a),
            Self::Rollback(a) => Box::new(a),
            Self::Clone(a) => Box::new(a),
            Self::Promote(a) => Box::new(a),
            Self::Rename(a) => Box::new(a),
            Self::Set(a) => Box::new(a),
            Self::Inherit(a) => Box::new(a),
            Self::Hold(a) => Box::new(a),
            Self::Release(a) => Box::new(hold::Release(a)),
            Self::Bookmark(a) => Box::new(a),
            Self::Allow(a) => Box::new(a),
            Self::Unallow(a) => Box::new(a),
            Self::List(a) => Box::new(a),
            Self::Get(a) => Box::new(a),
            Self::Userspace(a) => Box::new(space::SpaceVerb(SpaceKind::User, a)),
            Self::Groupspace(a) => Box::new(space::SpaceVerb(SpaceKind::Group, a)),
            Self::Projectspace(a) => Box::new(space::SpaceVerb(SpaceKind::Project, a)),
            Self::Project(a) => Box::new(a),
            Self::Diff(a) => Box::new(a),
            Self::Send(a) => Box::new(a),
            Self::Receive(a) => Box::new(a),
            Self::Holds(a) => Box::new(a),
            Self::Mount(a) => Box::new(a),
            Self::Unmount(a) => Box::new(a),
            Self::Upgrade(a) => Box::new(a),
            Self::LoadKey(a) => Box::new(a),
            Self::UnloadKey(a) => Box::new(a),
            Self::ChangeKey(a) => Box::new(a),
            Self::Program(a) => Box::new(a),
            Self::Wait(a) => Box::new(a),
            Self::Version(a) => Box::new(version::VersionVerb("zfs", a)),
            Self::Other(words) => Box::new(unsupported::Word("zfs", words, &unsupported::ZFS)),
        }
    }
}
