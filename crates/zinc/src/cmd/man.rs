//! `zinc man`: the manual pages, one for each verb, made from the command line's own definition.
//! For packagers of zinc; hidden from the help.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `zinc man`.
#[derive(clap::Args)]
pub struct Args {
    /// The folder
    dir: PathBuf,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        std::fs::create_dir_all(&self.dir)?;
        clap_mangen::generate_to((session.process().grammar.verbs)(), &self.dir)?;
        Ok(ExitCode::SUCCESS)
    }
}
