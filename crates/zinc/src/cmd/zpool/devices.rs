//! `zinc zpool online`, `offline`, `clear` and `reopen`: devices that go and come.
//!
//! A device that missed writes is resilvered by the program that holds the pool: a server does it
//! beside its other work, and a command that opened the pool itself ends when it is done.

use super::each;
use super::rewind::RewindArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::progress::while_wanted;
use crate::session::Session;
use crate::ui;
use engine::activity::wait_for_scans;
use engine::live::OfflineMode;
use engine::pools::{DeviceNames, Onlined};
use engine::{Error, ErrorKind, LivePool};
use std::process::ExitCode;
use term::escape::line;
use views::members;

/// Arguments of `zinc zpool online`.
#[derive(clap::Args)]
pub struct Online {
    #[command(flatten)]
    live: LiveArgs,
    /// Also use the space by which the devices have grown
    #[arg(short = 'e')]
    expand: bool,
    /// The pool
    pool: String,
    /// Devices, by path, last part of the path, or guid
    #[arg(required = true)]
    devices: Vec<String>,
}

/// Arguments of `zinc zpool offline`.
#[derive(clap::Args)]
pub struct Offline {
    #[command(flatten)]
    live: LiveArgs,
    /// Only until the pool is closed
    #[arg(short = 't')]
    temporary: bool,
    /// Mark the devices FAULTED
    #[arg(short = 'f')]
    fault: bool,
    /// The pool
    pool: String,
    /// Devices, by path, last part of the path, or guid
    #[arg(required = true)]
    devices: Vec<String>,
}

/// Arguments of `zinc zpool clear`.
#[derive(clap::Args)]
pub struct Clear {
    #[command(flatten)]
    live: LiveArgs,
    #[command(flatten)]
    back: RewindArgs,
    /// The pool
    pool: String,
    /// A device or vdev; all when there is none
    vdev: Option<String>,
}

/// Arguments of `zinc zpool reopen`.
#[derive(clap::Args)]
pub struct Reopen {
    #[command(flatten)]
    live: LiveArgs,
    /// Accepted: a scrub always continues
    #[arg(short = 'n')]
    scrub_goes_on: bool,
    /// Pools; all that are active when none is named
    pools: Vec<String>,
}

/// Calls `act` with the devices of a pool, by the names they have here.
pub(super) fn with_names<T>(session: &Session, act: impl FnOnce(DeviceNames<'_>) -> T) -> T {
    let path_of = |name: &str| session.path(name.as_ref());
    act(DeviceNames { path_of: &path_of, source: &*session.devices() })
}

/// Why that cannot be done to a device; one that is not what is needed is named first.
pub(super) fn refused(doing: &str, name: &str, error: impl Into<Error>) -> Failure {
    let (error, start) = (error.into(), format!("cannot {doing} {name}"));
    match (error.kind(), error.hint()) {
        (ErrorKind::Unfit(why), Some(hint)) => {
            Failure::refused(&start, members::fault(*why)).hint(views::hints::text(hint))
        }
        (ErrorKind::Unfit(why), None) => Failure::refused(&start, members::fault(*why)),
        _ => Failure::from(error).about(&start),
    }
}

/// Does something to each of these devices, one after the other. What fails is said, and the next
/// one has its turn all the same, as with OpenZFS; the exit code tells. When nothing was done that
/// is a failure as a whole.
pub(super) fn each_device(
    session: &Session,
    names: &[String],
    mut act: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let (mut is_any_done, mut failed) = (false, None::<Failure>);
    for name in names {
        session.check()?;
        match act(name) {
            Ok(()) => is_any_done = true,
            Err(failure) => {
                // The last one is said at the end, or is why the command fails.
                failed.replace(failure).iter().for_each(|before| _ = before.report(session));
            }
        }
    }
    match failed {
        None => Ok(ExitCode::SUCCESS),
        Some(failure) if is_any_done => Ok(failure.report(session)),
        Some(failure) => Err(failure),
    }
}

/// A command that holds the pool itself sees to the end of what it began.
pub(super) fn finish_unless_served(session: &Session, pool: &LivePool) -> Result<(), Failure> {
    if session.client().is_some() { Ok(()) } else { wait(session, pool) }
}

/// Until no raidz vdev gets wider, and no scrub or resilver runs.
pub(super) fn wait(session: &Session, pool: &LivePool) -> Result<(), Failure> {
    Ok(while_wanted(session, |progress| wait_for_scans(pool, progress))?)
}

impl Verb for Online {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        self.live.options.give_up.clone_from(&self.devices);
        self.live.change(session, &self.pool, |pool| {
            let code = each_device(session, &self.devices, |name| {
                let done = with_names(session, |names| names.online(pool, name, self.expand));
                match done.map_err(|e| refused("online", name, e))? {
                    Onlined::Used => {}
                    Onlined::Waits(why) => self.warn(session, name, &why),
                }
                Ok(())
            })?;
            finish_unless_served(session, pool)?;
            Ok(code)
        })
    }
}

impl Online {
    /// Says of a device that is not taken out any more that it cannot be used. Scripts look for
    /// OpenZFS's words, and where OpenZFS has them.
    fn warn(&self, session: &Session, name: &str, why: &str) {
        let (name, why) = (line(name), line(why));
        let mut text = format!(
            "warning: device '{name}' onlined, but remains in faulted state\n{why}: it is used \
             when that is over\nuse 'zpool replace' to put another device in its place\n"
        );
        if self.expand {
            text +=
                &format!("warning: failed to expand usable space on unhealthy device '{name}'\n");
        }
        ui::out(session, &text);
    }
}

impl Verb for Offline {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        let how = match (self.temporary, self.fault) {
            (true, true) => OfflineMode::FaultedForNow,
            (false, true) => OfflineMode::Faulted,
            (true, _) => OfflineMode::OfflineForNow,
            _ => OfflineMode::Offline,
        };
        let code = self.live.change(session, &self.pool, |pool| {
            each_device(session, &self.devices, |name| {
                let done = with_names(session, |names| names.offline(pool, name, how));
                done.map_err(|e| refused("offline", name, e))
            })
        })?;
        if self.temporary && session.client().is_none() {
            ui::note(
                session,
                "warning: no process has the pool open, so the next command that changes it \
                 uses the devices again; `zinc serve` keeps it open",
            );
        }
        Ok(code)
    }
}

impl Verb for Clear {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        let back =
            self.back.txg_of_known(session, &self.live, &self.pool, "cannot clear errors for")?;
        self.live.options.txg = back.as_ref().map(|(txg, _)| *txg);
        if self.back.is_plan {
            return Ok(ExitCode::SUCCESS);
        }
        self.live.change(session, &self.pool, |pool| {
            back.iter().for_each(|(_, text)| ui::out(session, text));
            let name = self.vdev.as_deref();
            let done = with_names(session, |names| names.clear(pool, name));
            let about = |e: &Error| match e.kind() {
                ErrorKind::Unfit(_) => name.unwrap_or_default().to_owned(),
                _ => self.pool.clone(),
            };
            done.map_err(|e| refused("clear errors for", &about(&e), e))?;
            finish_unless_served(session, pool)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Reopen {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.pools.iter().try_for_each(|name| each::require_pool_name(name))?;
        let (names, served) = each::or_all_active(session, &self.live.search, &self.pools)?;
        let here = each::in_turn(session, &self.live.search, &names, |name| {
            let change = |pool: &LivePool| {
                with_names(session, |names| names.reopen(pool))?;
                finish_unless_served(session, pool)
            };
            self.live.change(session, name, change).map(drop)
        })?;
        Ok(if here == ExitCode::SUCCESS { ExitCode::from(served) } else { here })
    }
}
