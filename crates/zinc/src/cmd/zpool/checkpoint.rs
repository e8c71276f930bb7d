//! `zinc zpool checkpoint`: a state of the pool that is kept as a whole.

use super::each;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::{self, LiveOptions};
use crate::progress::while_showing;
use crate::refusals::cannot;
use crate::session::Session;
use engine::activity::wait_for_discard;
use engine::{LivePool, Progress};
use std::path::PathBuf;
use std::process::ExitCode;

/// The progress line while a checkpoint is being discarded.
const DISCARD: &str = "discarding (Ctrl-C leaves it to the next command): txg";

/// Arguments of `zinc zpool checkpoint`.
#[derive(clap::Args)]
pub struct Checkpoint {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    how: LiveOptions,
    /// Discard the checkpoint, and free the space kept for it
    #[arg(short = 'd', long)]
    discard: bool,
    /// Wait until all space is freed (always, when the pool is not served)
    #[arg(short = 'w', requires = "discard")]
    until_done: bool,
    /// The pool
    pool: String,
}

impl Checkpoint {
    fn act(&self, session: &Session, pool: &LivePool) -> Result<(), Failure> {
        if !self.discard {
            return pool.checkpoint().map_err(|e| cannot("checkpoint", pool.name(), e));
        }
        let doing = "discard checkpoint in";
        pool.discard_checkpoint().map_err(|e| cannot(doing, pool.name(), e))?;
        match self.until_done || session.client().is_none() {
            true => wait(session, pool),
            false => Ok(()),
        }
    }
}

/// Until nothing of a discarded checkpoint is left.
fn wait(session: &Session, pool: &LivePool) -> Result<(), Failure> {
    let progress = Progress::new();
    progress.begin(DISCARD, 0);
    Ok(while_showing(session, &progress, || wait_for_discard(pool, &progress))?)
}

impl Verb for Checkpoint {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        let act = |pool: &LivePool| self.act(session, pool);
        live::change(session, &self.search, &self.how, &self.pool, act)?;
        Ok(ExitCode::SUCCESS)
    }
}
