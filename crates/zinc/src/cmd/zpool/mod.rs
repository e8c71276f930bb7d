//! `zinc zpool`: verbs about pools.

mod history;
mod import;

use crate::common::PoolArgs;
use crate::failure::Failure;
use crate::ui;
use engine::Pool;
use std::process::ExitCode;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show which pools can be opened, and why others cannot
    Import(import::Args),
    /// Show the commands that made the pool what it is
    History(history::Args),
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Import(a) => a.run(),
            Self::History(a) => a.run(),
        }
    }
}

/// Does something with each named pool, or with all found ones. What fails is said, costs nothing
/// else, and makes the command fail in the end.
fn for_each_pool(
    args: &PoolArgs,
    names: &[String],
    mut act: impl FnMut(&Pool) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    let mut one = |pool: Result<Pool, Failure>| {
        if let Err(failure) = pool.and_then(|p| act(&p)) {
            code = failure.report();
        }
    };
    if names.is_empty() {
        let all = args.open_all()?;
        if all.is_empty() {
            ui::error("no pools available\n");
        }
        all.into_iter().for_each(&mut one);
    }
    for name in names {
        one(args.open(name));
    }
    Ok(code)
}
