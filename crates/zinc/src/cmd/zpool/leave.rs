//! `zinc zpool export` and `zinc zpool destroy`: the two ways to end with a pool.

use crate::failure::Failure;
use crate::live::{self, LiveArgs, candidates, pick};
use crate::served::Server;
use engine::pool::CandidateState;
use engine::{Candidate, LivePool};
use serde_json::json;
use std::path::PathBuf;
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

/// Has the server of a pool export it, which ends the server.
fn end_served(mut server: Server) -> Result<(), Failure> {
    let invocation = live::invocation();
    server.call("export", json!({ "command": invocation.command })).map(drop)
}

/// The same for all pools that are served and found in these places.
fn end_all_served(search: &[PathBuf]) -> Result<(), Failure> {
    let found = candidates(search)?;
    let is_there = |s: &Server| found.iter().any(|c| c.config.pool_guid == s.guid);
    Server::all().into_iter().filter(is_there).try_for_each(end_served)
}

impl Export {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let active = |c: &Candidate| c.state() == CandidateState::Active;
        let mut code = ExitCode::SUCCESS;
        let mut names = Vec::new();
        for name in &self.pools {
            match Server::find(&self.live.search, name)? {
                Some(server) => end_served(server)?,
                None => names.push(name),
            }
        }
        if self.all {
            end_all_served(&self.live.search)?;
        } else if names.is_empty() {
            return Ok(code);
        }
        let found = candidates(&self.live.search)?;
        let chosen: Vec<_> = match self.all {
            true => found.into_iter().filter(active).map(Ok).collect(),
            false => {
                let one = |name: &str| pick(found.clone(), &self.live.search, name, active);
                names.into_iter().map(|name| one(name)).collect()
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
