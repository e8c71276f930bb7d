//! `zinc zpool prefetch`: tables of a pool are read before they are needed.

use super::each;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use std::process::ExitCode;

/// Arguments of `zinc zpool prefetch`.
#[derive(clap::Args)]
#[command(after_help = "The process that serves the pool keeps what was read, in its cache.")]
pub struct Prefetch {
    #[command(flatten)]
    live: LiveArgs,
    /// What is read: ddt, the tables of deduplication
    #[arg(short = 't', value_name = "TYPE", value_parser = ["ddt"], required = true)]
    what: String,
    /// The pool
    pub(super) pool: String,
}

impl Verb for Prefetch {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        self.live.change(session, &self.pool, |pool| {
            pool.look()?.prefetch_dedup(&|| session.check().is_ok())?;
            session.check()?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
