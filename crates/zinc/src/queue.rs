//! How this command waits for other processes that have a pool ([`engine::pools::Waiter`]): for
//! [`Wait::patience`], and then it reports which process has the pool.

use crate::args::{PAUSE, Wait};
use crate::failure::Failure;
use crate::served::{self, Server};
use crate::session::Session;
use crate::ui;
use engine::live::ImportOptions;
use engine::pools::{self, Busy, Waiter};
use engine::{Candidate, Rt};
use std::cell::Cell;
use std::time::{Duration, Instant};
use views::devices::process;

/// Between two looks for a server by a command that waits.
const BETWEEN_SERVERS: Duration = Duration::from_millis(100);

/// Waits for other processes that have the pool that a command wants.
pub struct Others<'a> {
    session: &'a Session,
    patience: Duration,
    is_for_reading: bool,
    /// When servers were looked for last.
    looked: Cell<Option<Instant>>,
    /// A server had the pool then.
    was_served: Cell<bool>,
}

impl<'a> Others<'a> {
    /// For a command that wants to write.
    pub fn new(session: &'a Session, wait: Wait) -> Result<Self, Failure> {
        let (looked, was_served) = (Cell::default(), Cell::default());
        let patience = wait.patience(session)?;
        Ok(Self { session, patience, is_for_reading: false, looked, was_served })
    }

    /// For one that reads.
    fn to_read(session: &'a Session, wait: Wait) -> Result<Self, Failure> {
        Ok(Self { is_for_reading: true, ..Self::new(session, wait)? })
    }

    /// Whether a server has the pool, which does not end by itself: one that was killed may have it
    /// for a moment more. It is seen twice before this command gives up: in between, a search that
    /// tries servers first goes on there.
    fn is_served_still(&self, busy: &Busy<'_>) -> bool {
        let is_due = self.looked.get().is_none_or(|at| at.elapsed() >= BETWEEN_SERVERS);
        if !is_due && !self.was_served.get() {
            return false;
        }
        let is_ending = || busy.holder().is_some_and(|process| process.is_ending());
        let guid = busy.candidate().config.pool_guid;
        let is_served = Server::holds(self.session, guid) && !is_ending();
        self.looked.set(Some(Instant::now()));
        self.was_served.replace(is_served) && is_served
    }

    fn explain(&self, busy: Busy<'_>) -> Failure {
        let guid = busy.candidate().config.pool_guid;
        let holder = busy.holder().map(|by| process(&by));
        let failure = match self.is_for_reading {
            true => {
                let holder = holder.unwrap_or_else(|| "another process".to_owned());
                Failure::opening(busy.candidate().name(), "pool is busy")
                    .because(format!("{holder} writes to it"))
            }
            false => {
                let holder = holder.filter(|_| !Server::holds(self.session, guid));
                let failure = Failure::from(busy.into_error());
                match holder {
                    Some(process) => failure.because(format!("{process} has it")),
                    None => failure,
                }
            }
        };
        served::held_by(self.session, guid, failure)
    }
}

impl Waiter<Failure> for Others<'_> {
    fn wait(&self, busy: Busy<'_>) -> Result<(), Failure> {
        if busy.waited() >= self.patience || self.is_served_still(&busy) {
            return Err(self.explain(busy));
        }
        self.session.sleep(PAUSE)
    }

    fn begins_to_watch(&self, pool: &Candidate, time: Duration) {
        say_watched(self.session, pool, time);
    }
}

/// Says what is waited for before a pool is written to that another host may have.
pub fn say_watched(session: &Session, pool: &Candidate, time: Duration) {
    let (name, seconds) = (pool.name(), time.as_secs_f64().ceil());
    let what = "to see whether another host writes to it (multihost)";
    ui::note(session, &format!("pool '{name}': waiting {seconds} seconds {what}"));
}

/// Whether this pool would be opened so for writing, when others that have it are done.
pub fn check(
    session: &Session,
    wait: Wait,
    candidate: &Candidate,
    options: &ImportOptions,
) -> Result<(), Failure> {
    let others = Others::new(session, wait)?;
    pools::check_when_free(candidate, options, &*session.devices(), &others)
}

/// Waits until no process writes to the pool; whether one did. With `keep` none does until this one
/// ends.
pub fn wait_for_writers(
    session: &Session,
    wait: Wait,
    candidate: &Candidate,
    keep: bool,
) -> Result<bool, Failure> {
    let others = Others::to_read(session, wait)?;
    let none = pools::wait_for_writers(&Rt::real(), candidate, &others)?;
    let had_to_wait = none.had_to_wait;
    if keep {
        session.process().kept.keep(none);
    }
    Ok(had_to_wait)
}
