//! `zinc zpool export` and `zinc zpool destroy`: the two ways to end with a pool.

use crate::failure::Failure;
use crate::live::{self, LiveArgs, candidates, pick};
use engine::pool::CandidateState;
use engine::{Candidate, LivePool};
use std::process::ExitCode;

/// Arguments of `zinc zpool export`.
#[derive(clap::Args)]
pub struct Export {
    #[command(flatten)]
    live: LiveArgs,
    /// Export all pools found
    #[arg(short = 'a')]
    all: bool,
    /// Also when another system used it last
    #[arg(short = 'f')]
    force: bool,
    /// Pools
    #[arg(required_unless_present = "all")]
    pools: Vec<String>,
}

/// Arguments of `zinc zpool destroy`.
#[derive(clap::Args)]
pub struct Destroy {
    #[command(flatten)]
    live: LiveArgs,
    /// Also when another system used it last
    #[arg(short = 'f')]
    force: bool,
    /// The pool
    pool: String,
}

/// Opens a candidate that is in use, and lets `act` end that.
fn end(
    args: &LiveArgs,
    force: bool,
    candidate: &Candidate,
    act: impl FnOnce(LivePool) -> engine::pool::Result<()>,
) -> Result<(), Failure> {
    let mut options = live::import_options(&args.search, args.how.cache_mib, &args.how.tuning)?;
    options.force = force;
    let pool = live::import(candidate, &options)?;
    pool.log(&live::invocation())?;
    live::tell_txgs(&pool, &args.how)?;
    Ok(act(pool)?)
}

impl Export {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let active = |c: &Candidate| c.state() == CandidateState::Active;
        let mut code = ExitCode::SUCCESS;
        let found = candidates(&self.live.search)?;
        let chosen: Vec<_> = match self.all {
            true => found.into_iter().filter(active).map(Ok).collect(),
            false => {
                let one = |name| pick(found.clone(), &self.live.search, name, active);
                self.pools.iter().map(|name| one(name)).collect()
            }
        };
        for candidate in chosen {
            let done = candidate.and_then(|c| match active(&c) {
                true => end(&self.live, self.force, &c, LivePool::export),
                false => {
                    let why = "no such pool imported: its labels say exported or destroyed";
                    Err(Failure::new(format!("cannot export '{}': {why}", c.name())))
                }
            });
            if let Err(failure) = done {
                code = failure.report();
            }
        }
        Ok(code)
    }
}

impl Destroy {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let usable = |c: &Candidate| c.state() != CandidateState::Destroyed;
        let found = candidates(&self.live.search)?;
        let candidate = pick(found, &self.live.search, &self.pool, usable)?;
        end(&self.live, self.force, &candidate, LivePool::destroy)?;
        Ok(ExitCode::SUCCESS)
    }
}
