//! `zinc zfs`: verbs about datasets.

mod diff;
mod get;
mod holds;
mod list;
mod select;
mod value;

use crate::failure::Failure;
use std::process::ExitCode;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List datasets with their properties
    List(list::Args),
    /// Show properties of datasets, and where they come from
    Get(get::Args),
    /// Show what changed between a snapshot and a later one, or the file system
    Diff(diff::Args),
    /// List the holds of snapshots
    Holds(holds::Args),
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::List(a) => a.run(),
            Self::Get(a) => a.run(),
            Self::Diff(a) => a.run(),
            Self::Holds(a) => a.run(),
        }
    }
}
