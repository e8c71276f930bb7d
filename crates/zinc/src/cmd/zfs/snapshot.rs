//! `zinc zfs snapshot`: snapshots, all of one moment.

use super::below::snapshots;
use super::changes::Target;
use crate::cannot::cannot;
use crate::failure::Failure;
use crate::live::LiveArgs;
use engine::errors::{DslError as Error, PoolError};
use engine::{DatasetKind, Refusal};
use std::process::ExitCode;

/// Arguments of `zinc zfs snapshot`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Of all datasets below too
    #[arg(short = 'r')]
    recursive: bool,
    /// Set a property of the snapshots (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// The new snapshots, as DATASET@NAME, of one pool
    #[arg(required = true, value_name = "SNAPSHOT")]
    names: Vec<String>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let first = self.names.first().map_or("", String::as_str);
        let kind = DatasetKind::Filesystem;
        let target = Target { doing: "create snapshot", name: first, kind, is_new: false };
        let changes = target.all(&self.properties)?;
        one_pool(&self.names)?;
        self.live.change(first, |live| {
            let mut all = Vec::new();
            let still = live.view().hold_still();
            for name in &self.names {
                all.extend(snapshots(live.view().dsl(), name, self.recursive, false)?);
            }
            drop(still);
            live.snapshot(&all, changes).map_err(|e| refused(&all, e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The snapshot that an error is about: of several, the one that it names, or whose dataset.
fn named<'a>(all: &'a [String], error: &PoolError) -> &'a str {
    let about = match error {
        PoolError::Dsl(Error::Refused { name, .. } | Error::BadName(name)) => Some(name),
        PoolError::Dsl(Error::NoSuchDataset(name)) => Some(name),
        _ => None,
    };
    let is_it = |one: &&String| {
        let dataset = one.split('@').next();
        about.is_some_and(|about| *one == about || dataset == Some(about))
    };
    all.iter().find(is_it).or(all.first()).map_or("", String::as_str)
}

/// Why no snapshot was taken.
fn refused(all: &[String], error: PoolError) -> Failure {
    let name = named(all, &error);
    match error {
        PoolError::Dsl(Error::Refused { why: Refusal::SeveralOfOne, .. }) => {
            Failure::new("cannot create snapshots : multiple snapshots of same fs not allowed")
                .hint("take them one after the other, or use one name for all")
        }
        other => cannot("create snapshot", name, other),
    }
}

/// What one command changes is in one pool.
pub fn one_pool(names: &[String]) -> Result<(), Failure> {
    let mut pools = names.iter().map(|n| crate::common::pool_of(n));
    let first = pools.next();
    match pools.all(|p| Some(p) == first) {
        true => Ok(()),
        false => Err(Failure::usage("all names must be of one pool")),
    }
}
