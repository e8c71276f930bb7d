//! `zinc zfs`: verbs about datasets.

mod changes;
mod create;
mod destroy;
mod diff;
mod get;
mod holds;
mod keep;
mod line;
mod list;
mod owners;
mod select;
mod set;
mod snapshot;
mod space;
mod value;

pub use changes::Target;

use crate::failure::Failure;
use crate::missing;
use engine::files::SpaceKind;
use std::ffi::OsString;
use std::process::ExitCode;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a file system or volume
    Create(create::Args),
    /// Destroy file systems, volumes, snapshots and bookmarks
    Destroy(destroy::Args),
    /// Take snapshots
    #[command(alias = "snap")]
    Snapshot(snapshot::Args),
    /// Take a file system or volume back to a snapshot
    Rollback(line::Rollback),
    /// Make a file system or volume of a snapshot
    Clone(line::MakeClone),
    /// Make a clone independent of where it comes from
    Promote(line::Promote),
    /// Rename file systems, volumes and snapshots
    Rename(line::Rename),
    /// Set properties of datasets
    Set(set::Set),
    /// Let properties have the value of the dataset above
    Inherit(set::Inherit),
    /// Keep snapshots from being destroyed
    Hold(keep::Hold),
    /// Let go what was held
    Release(keep::Hold),
    /// Make a bookmark of a snapshot
    Bookmark(keep::Bookmark),
    /// List datasets with their properties
    List(list::Args),
    /// Show properties of datasets, and where they come from
    Get(get::Args),
    /// Show the space and quotas of each user
    Userspace(space::Args),
    /// Show the space and quotas of each group
    Groupspace(space::Args),
    /// Show the space and quotas of each project
    Projectspace(space::Args),
    /// Show what changed between a snapshot and a later one, or the file system
    Diff(diff::Args),
    /// List the holds of snapshots
    Holds(holds::Args),
    /// Print the version of zinc
    #[command(disable_version_flag = true)]
    Version(crate::version::Args),
    /// Any other word.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Command {
    /// Whether a server of root runs it for other users.
    pub fn is_for_everyone(&self) -> bool {
        match self {
            Self::List(a) => a.is_for_everyone(),
            Self::Get(a) => a.is_for_everyone(),
            _ => false,
        }
    }

    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Create(a) => a.run(),
            Self::Destroy(a) => a.run(),
            Self::Snapshot(a) => a.run(),
            Self::Rollback(a) => a.run(),
            Self::Clone(a) => a.run(),
            Self::Promote(a) => a.run(),
            Self::Rename(a) => a.run(),
            Self::Set(a) => a.run(),
            Self::Inherit(a) => a.run(),
            Self::Hold(a) => a.hold(),
            Self::Release(a) => a.release(),
            Self::Bookmark(a) => a.run(),
            Self::List(a) => a.run(),
            Self::Get(a) => a.run(),
            Self::Userspace(a) => a.run(SpaceKind::User),
            Self::Groupspace(a) => a.run(SpaceKind::Group),
            Self::Projectspace(a) => a.run(SpaceKind::Project),
            Self::Diff(a) => a.run(),
            Self::Holds(a) => a.run(),
            Self::Version(a) => a.run("zfs"),
            Self::Other(words) => Err(missing::failure("zfs", &words, &missing::ZFS)),
        }
    }
}
