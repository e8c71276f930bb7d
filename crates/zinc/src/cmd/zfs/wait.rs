//! `zinc zfs wait`: until files that were unlinked while open are freed.

use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use std::process::ExitCode;
use std::time::Duration;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `zinc zfs wait`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// What to wait for: deleteq, the files that were removed but not yet freed
    #[arg(short = 't', value_name = "ACTIVITY", value_parser = ["deleteq"], value_delimiter = ',')]
    activities: Vec<String>,
    /// The file system
    filesystem: String,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let name = &self.filesystem;
        let Some(pool) = session.held(name) else {
            // In a pool that no process holds nothing is open, and no work is going on.
            let seen = self.live.look(session, name)?;
            seen.datasets().by_name(name).map_err(engine::Error::from)?;
            return Ok(ExitCode::SUCCESS);
        };
        let fs = pool.filesystem(name)?;
        while !fs.unlinked().map_err(engine::Error::from)?.is_empty() {
            session.sleep(LOOK)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
