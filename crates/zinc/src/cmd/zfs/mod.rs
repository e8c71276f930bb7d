//! `zinc zfs`: verbs about datasets.

mod diff;
mod holds;

use crate::failure::Failure;
use std::process::ExitCode;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show what changed between a snapshot and a later one, or the file system
    Diff(diff::Args),
    /// List the holds of snapshots
    Holds(holds::Args),
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Diff(a) => a.run(),
            Self::Holds(a) => a.run(),
        }
    }
}
