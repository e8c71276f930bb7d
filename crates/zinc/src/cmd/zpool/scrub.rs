//! `zinc zpool scrub` and `zpool resilver`.

use super::devices::{finish_unless_served, wait};
use super::each;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use engine::pools::Function;
use engine::{Error, LivePool};
use std::process::ExitCode;

/// Arguments of `zinc zpool scrub`.
#[derive(clap::Args)]
pub struct Scrub {
    #[command(flatten)]
    live: LiveArgs,
    /// Stop a scrub
    #[arg(short = 's', conflicts_with = "until_done")]
    stop: bool,
    /// Pause a scrub, even across an export; the same command without -p continues it
    #[arg(short = 'p', conflicts_with_all = ["until_done", "stop"])]
    pause: bool,
    /// Scrub only the blocks in the error log; the command waits until that is done
    #[arg(short = 'e')]
    errors: bool,
    /// Scrub only what was written since the last completed scrub
    #[arg(short = 'C', conflicts_with_all = ["stop", "pause", "errors"])]
    since_last: bool,
    /// Wait until it is done (always, when the pool is not served)
    #[arg(short = 'w')]
    until_done: bool,
    /// Pools
    #[arg(required = true)]
    pools: Vec<String>,
}

/// Arguments of `zinc zpool resilver`.
#[derive(clap::Args)]
pub struct Resilver {
    #[command(flatten)]
    live: LiveArgs,
    /// Pools
    #[arg(required = true)]
    pools: Vec<String>,
}

impl Scrub {
    fn act(&self, session: &Session, pool: &LivePool) -> Result<(), Failure> {
        let about = |doing: &str| format!("{doing} {}", pool.name());
        if (self.stop || self.pause) && (self.errors || is_scrubbing_errors(pool)?) {
            let (doing, done) = match self.stop {
                true => ("cannot cancel scrubbing", pool.stop_error_scrub()),
                false => ("cannot pause scrubbing", pool.pause_error_scrub()),
            };
            return done.map_err(|e| refused(&about(doing), e));
        }
        if self.errors {
            let lost = pool.error_scrub(&|| session.check().is_ok());
            return lost.map(drop).map_err(|e| refused(&about("cannot scrub"), e));
        }
        let (doing, done) = match (self.stop, self.pause) {
            (true, _) => ("cannot cancel scrubbing", pool.stop_scrub()),
            (_, true) => ("cannot pause scrubbing", pool.pause_scrub()),
            // A command that opened the pool itself continued it at once.
            _ if session.client().is_none() && is_scrubbing(pool) => ("", Ok(())),
            _ if self.since_last => ("cannot scrub", pool.scrub_since_last()),
            _ => ("cannot scrub", pool.scrub()),
        };
        done.map_err(|e| refused(&about(doing), e))?;
        match (self.stop || self.pause, self.until_done) {
            (true, _) => Ok(()),
            (false, true) => wait(session, pool),
            (false, false) => finish_unless_served(session, pool),
        }
    }
}

/// Why a scrub is not begun, paused or ended, in OpenZFS's words.
fn refused(start: &str, e: impl Into<Error>) -> Failure {
    let e = e.into();
    match views::refusals::of_scrub(e.kind()) {
        Some(why) => Failure::refused(start, why),
        None => Failure::from(e).about(start),
    }
}

/// It is the error scrub that is to be paused or stopped, also where that is not said.
fn is_scrubbing_errors(pool: &LivePool) -> Result<bool, Failure> {
    Ok(!pool.is_scanning() && pool.has_error_scrub()?)
}

fn is_scrubbing(pool: &LivePool) -> bool {
    pool.scan().is_some_and(|now| now.function() == Function::Scrub)
}

impl Verb for Scrub {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::in_turn(session, &self.live.search, &self.pools, |name| {
            self.live.change(session, name, |pool| self.act(session, pool)).map(drop)
        })
    }
}

impl Verb for Resilver {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::in_turn(session, &self.live.search, &self.pools, |name| {
            let change = |pool: &LivePool| {
                // A command that opened the pool itself has begun one, or gone on with it.
                let is_begun = session.client().is_none() && pool.is_resilvering();
                if !is_begun || pool.is_resilver_deferred() {
                    let begun = pool.restart_resilver().map_err(Failure::from);
                    let about = format!("cannot restart resilver {}", pool.name());
                    begun.map_err(|e| e.about(&about))?;
                }
                finish_unless_served(session, pool)
            };
            self.live.change(session, name, change).map(drop)
        })
    }
}
