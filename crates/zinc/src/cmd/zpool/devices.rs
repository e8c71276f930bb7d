//! `zinc zpool online`, `offline`, `clear` and `reopen`: devices that go and come.
//!
//! What a device missed is brought to it by the program that holds the pool: a server does it
//! beside its other work, and a command that opened the pool itself ends when it is done.

use super::each;
use super::rewind::RewindArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use crate::ui;
use engine::devices::{AnyDevices, DeviceSource as _};
use engine::live::{OfflineMode, OwnChanges};
use engine::pools::{DeviceRole, Member};
use engine::{LivePool, Pool};
use std::process::ExitCode;
use std::time::Duration;

/// How often it is looked whether a scrub or resilver has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `zinc zpool online`.
#[derive(clap::Args)]
pub struct Online {
    #[command(flatten)]
    live: LiveArgs,
    /// Use also what the devices have grown by
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
    /// Only as long as the pool is open
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
    /// Accepted: a scrub goes on in any case
    #[arg(short = 'n')]
    scrub_goes_on: bool,
    /// Pools; all that are active when none is named
    pools: Vec<String>,
}

pub(super) fn find(
    session: &Session,
    pool: &LivePool,
    name: &str,
) -> Result<Option<Member>, Failure> {
    Ok(find_in(session, &pool.look()?, name))
}

/// The same in a pool that is only looked at.
pub(super) fn find_in(session: &Session, seen: &Pool, name: &str) -> Option<Member> {
    Member::find(seen, name, &session.path(name.as_ref()))
}

/// The device of that name.
pub(super) fn device(
    session: &Session,
    pool: &LivePool,
    doing: &str,
    name: &str,
) -> Result<u64, Failure> {
    let found = find(session, pool, name)?;
    let no = |why: &str| Failure::new(format!("cannot {doing} {name}: {why}"));
    match found {
        Some(found) if found.is_spare && !found.is_in_tree => {
            Err(no("device is reserved as a hot spare"))
        }
        Some(found) if !found.is_in_tree => Err(no("device is in use as a cache")),
        Some(found) if found.is_device => Ok(found.guid),
        Some(_) => Err(no("it is a vdev of several devices")),
        None => Err(no("no such device in pool")),
    }
}

/// What the file or disk of this path is for the pool, by its label.
pub(super) fn own(
    session: &Session,
    pool: &LivePool,
    name: &str,
) -> Result<Option<DeviceRole>, Failure> {
    let (path, seen) = (session.path(name.as_ref()), pool.look()?);
    let Ok(device) = AnyDevices::default().open(&path) else {
        return Ok(DeviceRole::distributed(&seen, name));
    };
    Ok(DeviceRole::of(&seen, &device, &path))
}

/// Uses a device again that is in another place than before.
pub(super) fn bring_from(
    session: &Session,
    pool: &LivePool,
    guid: u64,
    name: &str,
) -> Result<(), Failure> {
    let path = session.path(name.as_ref());
    pool.online_leaf(guid, OwnChanges::GiveUp, Some(&path), &AnyDevices::default())
        .map_err(|e| Failure::from(e).about(&format!("cannot online {name}")))
}

/// Uses a device again, from where it was found, or where its label says that it is.
fn online_leaf(pool: &LivePool, guid: u64, own: OwnChanges) -> engine::Result<()> {
    let seen = pool.view().candidate().leaves.get(&guid).map(|sight| sight.path.clone());
    Ok(pool.online_leaf(guid, own, seen.as_deref(), &AnyDevices::default())?)
}

/// A command that holds the pool itself sees to the end of what it began.
pub(super) fn finish_unless_served(session: &Session, pool: &LivePool) -> Result<(), Failure> {
    if session.client().is_some() { Ok(()) } else { wait(session, pool) }
}

/// Until no raidz vdev gets wider, and no scrub or resilver runs.
pub(super) fn wait(session: &Session, pool: &LivePool) -> Result<(), Failure> {
    while pool.is_expanding() {
        session.sleep(LOOK)?;
    }
    while pool.is_scanning() {
        session.sleep(LOOK)?;
    }
    Ok(pool.wait_for_scan()?)
}

impl Verb for Online {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        self.live.how.give_up.clone_from(&self.devices);
        self.live.change(session, &self.pool, |pool| {
            for name in &self.devices {
                let start = format!("cannot online {name}");
                let fail = |e| Failure::from(e).about(&start);
                let guid = match (find(session, pool, name)?, own(session, pool, name)?) {
                    (None, Some(DeviceRole::Leaf(guid))) => {
                        bring_from(session, pool, guid, name)?;
                        guid
                    }
                    _ => {
                        let guid = device(session, pool, "online", name)?;
                        online_leaf(pool, guid, OwnChanges::GiveUp)
                            .map_err(|e| Failure::from(e).about(&start))?;
                        guid
                    }
                };
                match self.expand {
                    true => pool.expand(&[guid]),
                    false => pool.expand_if_wanted(),
                }
                .map_err(fail)?;
            }
            finish_unless_served(session, pool)
        })?;
        Ok(ExitCode::SUCCESS)
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
        self.live.change(session, &self.pool, |pool| {
            for name in &self.devices {
                let guid = device(session, pool, "offline", name)?;
                let start = format!("cannot offline {name}");
                pool.offline_leaf(guid, how).map_err(|e| Failure::from(e).about(&start))?;
            }
            Ok(())
        })?;
        if self.temporary && session.client().is_none() {
            ui::note(
                session,
                "warning: nothing holds the pool, so that the devices are in use again at \
                 the next command; `zinc serve` holds it",
            );
        }
        Ok(ExitCode::SUCCESS)
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
        self.live.how.txg = back.as_ref().map(|(txg, _)| *txg);
        if self.back.is_plan {
            return Ok(ExitCode::SUCCESS);
        }
        self.live.change(session, &self.pool, |pool| {
            back.iter().for_each(|(_, text)| ui::out(session, text));
            let name = self.vdev.as_deref();
            let chosen = name.map(|name| {
                let none = || {
                    let what = format!("cannot clear errors for {name}: no such device in pool");
                    Failure::new(what)
                };
                find(session, pool, name)?.ok_or_else(none)
            });
            let chosen = chosen.transpose()?;
            if let (true, Some(name)) = (chosen.as_ref().is_some_and(|c| c.is_spare), name) {
                let what =
                    format!("cannot clear errors for {name}: device is reserved as a hot spare");
                return Err(Failure::new(what));
            }
            // With whatever device it is told: it is the pool that stands.
            if let Err(e) = pool.resume(&AnyDevices::default()) {
                let what = format!("cannot clear errors for {}", self.pool);
                return Err(Failure::from(e).about(&what));
            }
            pool.forget_errors(chosen.as_ref().map(|c| c.guid))?;
            let is_meant = |guid: &u64| chosen.as_ref().is_none_or(|c| c.devices.contains(guid));
            try_again(pool, is_meant);
            finish_unless_served(session, pool)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Tries devices that are not used; those that are still not there stay away, and those that hold
/// changes of their own.
fn try_again(pool: &LivePool, is_meant: impl Fn(&u64) -> bool) {
    for guid in pool.leaves_away().into_iter().filter(is_meant) {
        // What `status` says of it is all that there is to be said.
        let _ = online_leaf(pool, guid, OwnChanges::Keep);
    }
}

impl Verb for Reopen {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.pools.iter().try_for_each(|name| each::require_pool_name(name))?;
        let (names, code) = each::or_all_active(session, &self.live.search, &self.pools)?;
        for name in &names {
            self.live.change(session, name, |pool| {
                try_again(pool, |_| true);
                pool.expand_if_wanted()?;
                finish_unless_served(session, pool)
            })?;
        }
        Ok(ExitCode::from(code))
    }
}
