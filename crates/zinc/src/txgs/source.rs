//! Where the records of txgs come from, for the verbs that show them: a pool that is served, or a
//! file.

use super::history::{self, Line};
use crate::failure::Failure;
use crate::served::{Repeat, Server};
use crate::session::Session;
use std::path::{Path, PathBuf};

/// Where the records come from, as options.
#[derive(clap::Args)]
pub struct Records {
    /// Records that --txgs-log wrote, instead of those of a pool that is served
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Search this directory, file or disk for the pool's devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// Ask the server that listens here
    #[arg(long, value_name = "PATH", conflicts_with = "history")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(short = 'j', long)]
    pub json: bool,
    /// The pool, which is served; or of a history, only of this pool
    #[arg(required_unless_present_any = ["history", "socket"])]
    pool: Option<String>,
    /// How often a pool that is served is looked at
    #[command(flatten)]
    pub repeat: Repeat,
}

impl Records {
    /// The lines of the file, when there is one to be read.
    pub fn history(&self) -> Option<Result<Vec<Line>, Failure>> {
        let read = |path: &Path| history::read(path, self.pool.as_deref());
        self.history.as_deref().map(read)
    }

    /// The server of the pool.
    pub fn server(&self, session: &Session) -> Result<Server, Failure> {
        let name = self.pool.as_deref().unwrap_or_default();
        Server::must(session, self.socket.as_deref(), &self.search, name)
    }
}

/// Leaves the last this many; all without a number.
pub fn keep_last<T>(list: &mut Vec<T>, last: Option<usize>) {
    let skipped = list.len().saturating_sub(last.unwrap_or(usize::MAX));
    list.drain(..skipped);
}
