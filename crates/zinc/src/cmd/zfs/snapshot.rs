//! `zinc zfs snapshot`: snapshots, all of one moment.

use super::changes::Target;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::refusals::cannot;
use crate::session::Session;
use engine::datasets::{self, pool_of};
use engine::{DatasetKind, Error, ErrorKind, Refusal};
use std::process::ExitCode;

/// Arguments of `zinc zfs snapshot`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Also of all datasets below
    #[arg(short = 'r')]
    recursive: bool,
    /// Set a property of the snapshots (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// The new snapshots, as DATASET@NAME, of one pool
    #[arg(required = true, value_name = "SNAPSHOT")]
    names: Vec<String>,
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live.is_for_everyone(session, &self.names))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let first = self.names.first().map_or("", String::as_str);
        let kind = DatasetKind::Filesystem;
        let target = Target { doing: "create snapshot", name: first, kind, is_new: false };
        let changes = target.all(&self.properties)?;
        one_pool(&self.names)?;
        self.live.change(session, first, |pool| {
            let taken = datasets::snapshot(pool, &self.names, self.recursive, changes);
            taken.map_err(|e| refused(first, e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Why no snapshot was taken.
fn refused(first: &str, error: Error) -> Failure {
    match (error.kind(), error.hint()) {
        (ErrorKind::Refused(Refusal::SeveralOfOne), Some(hint)) => {
            Failure::new("cannot create snapshots : multiple snapshots of same fs not allowed")
                .hint(views::hints::text(hint))
        }
        _ => cannot("create snapshot", first, error),
    }
}

/// Checks that the changes of one command are in one pool.
pub fn one_pool(names: &[String]) -> Result<(), Failure> {
    let mut pools = names.iter().map(|n| pool_of(n));
    let first = pools.next();
    match pools.all(|p| Some(p) == first) {
        true => Ok(()),
        false => Err(Failure::usage("all names must be of one pool")),
    }
}
