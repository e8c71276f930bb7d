//! `zinc zpool wait`: until what is done to a pool in the background has ended.
//!
//! A pool that is served is looked at where it is held. In one that is not served no work goes on
//! by itself: a command that opens it continues unfinished work, so if there is something to wait
//! for, this one does.

use super::each::require_pool_name;
use super::list::{repetition, stamp};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use crate::ui;
use engine::LivePool;
use engine::activity::Activity;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use views::waiting::Style;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `zinc zpool wait`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// No heading, and tabs between columns
    #[arg(short = 'H')]
    script: bool,
    /// Exact numbers
    #[arg(short = 'p')]
    parsable: bool,
    /// Print a timestamp before each line: d as `date` prints it, u as seconds since 1970
    #[arg(short = 'T', value_name = "d|u", value_parser = ["d", "u"])]
    stamp: Option<String>,
    /// What to wait for, separated by commas: discard, free, initialize, replace, remove, resilver,
    /// scrub, trim, raidz_expand [default: all]
    #[arg(short = 't', value_name = "ACTIVITY,…", value_delimiter = ',')]
    activities: Vec<String>,
    /// The pool; then INTERVAL in seconds to print how many bytes are left
    #[arg(value_name = "POOL [INTERVAL]", required = true)]
    pool: Vec<String>,
}

impl Args {
    fn wanted(&self) -> Result<Vec<Activity>, Failure> {
        let named = |name: &String| {
            let found = Activity::ALL.into_iter().find(|a| a.name() == name);
            found.ok_or_else(|| Failure::usage(format!("invalid activity '{name}'")))
        };
        let mut wanted: Vec<Activity> =
            self.activities.iter().map(named).collect::<Result<_, _>>()?;
        if wanted.is_empty() {
            wanted = Activity::ALL.to_vec();
        }
        wanted.sort_by_key(|activity| *activity as usize);
        wanted.dedup();
        Ok(wanted)
    }

    fn wait(
        &self,
        session: &Session,
        pool: &LivePool,
        wanted: &[Activity],
        interval: Option<Duration>,
    ) -> Result<(), Failure> {
        let mut shown: Option<Instant> = None;
        let mut reason = None;
        let style = Style { script: self.script, parsable: self.parsable };
        loop {
            let (seen, is_scanning) = (pool.look()?, pool.is_scanning());
            let left = wanted.iter().map(|a| a.left(&seen, is_scanning));
            let left: Vec<Option<u64>> = left.collect::<engine::Result<_>>()?;
            drop(seen);
            let is_over = left.iter().all(Option::is_none);
            if let Some(interval) = interval
                && (is_over || shown.is_none_or(|at| at.elapsed() >= interval))
            {
                if shown.is_none() && !self.script {
                    ui::out(session, &style.heading(wanted));
                }
                stamp(session, self.stamp.as_deref());
                ui::out(session, &style.row(wanted, &left));
                shown = Some(Instant::now());
            }
            if is_over {
                return Ok(());
            }
            say_why(session, pool, wanted, &mut reason);
            session.sleep(LOOK)?;
        }
    }
}

/// Says once why an expansion that is waited for does not go on.
fn say_why(session: &Session, pool: &LivePool, wanted: &[Activity], reason: &mut Option<String>) {
    let is_wanted = wanted.contains(&Activity::Expand);
    let why = is_wanted.then(|| pool.why_expansion_waits()).flatten();
    if let Some(why) = why.as_ref().filter(|why| reason.as_ref() != Some(why)) {
        ui::note(session, &format!("the expansion waits: {why}"));
    }
    *reason = why;
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        let pool = self.pool.get(..1).unwrap_or_default();
        Served::everyone_if(self.live.is_for_everyone(session, pool))
    }

    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let wanted = self.wanted()?;
        let interval = repetition(&mut self.pool)?.map(|(interval, _)| interval);
        let [name] = self.pool.as_slice() else {
            return Err(Failure::usage("only one pool can be waited for at a time"));
        };
        require_pool_name(name)?;
        if let Some(pool) = session.held(name) {
            self.wait(session, &pool, &wanted, interval)?;
            return Ok(ExitCode::SUCCESS);
        }
        let seen = self.live.look(session, name)?;
        let left = wanted.iter().map(|a| a.left(&seen, false));
        let left: Vec<Option<u64>> = left.collect::<engine::Result<_>>()?;
        drop(seen);
        if left.iter().all(Option::is_none) {
            return Ok(ExitCode::SUCCESS);
        }
        let wait = |pool: &LivePool| self.wait(session, pool, &wanted, interval);
        self.live.change(session, name, wait)?;
        Ok(ExitCode::SUCCESS)
    }
}
