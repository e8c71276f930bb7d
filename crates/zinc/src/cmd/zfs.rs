//! `zinc zfs`.

use crate::failure::Failure;
use std::process::ExitCode;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Being written
    List,
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        Err(Failure::new("being written"))
    }
}
