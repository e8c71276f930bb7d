//! `zinc check`.

use crate::failure::Failure;
use std::process::ExitCode;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        Err(Failure::new("being written"))
    }
}
