//! `zinc zpool remove`: devices that a pool can do without.

use super::devices::find_in;
use super::each;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use crate::ui;
use engine::devices::{AnyDevices, DeviceSource as _};
use engine::{LivePool, Pool};
use std::process::ExitCode;
use std::time::Duration;
use term::human::nicenum;

/// How long is waited before it is looked whether the user still waits.
const PATIENCE: Duration = Duration::from_millis(100);

/// Arguments of `zinc zpool remove`.
#[derive(clap::Args)]
pub struct Remove {
    #[command(flatten)]
    live: LiveArgs,
    /// Say how much memory the removal would take, and change nothing
    #[arg(short = 'n', conflicts_with = "cancel")]
    dry: bool,
    /// Say exact numbers
    #[arg(short = 'p', conflicts_with = "cancel")]
    exact: bool,
    /// Stop a removal that runs
    #[arg(short = 's', conflicts_with = "until_done")]
    cancel: bool,
    /// Wait until what is on the devices was copied; a pool that is not served is always waited for
    #[arg(short = 'w')]
    until_done: bool,
    /// The pool
    pool: String,
    /// Devices; a vdev that is a mirror by its name, such as mirror-1
    #[arg(required_unless_present = "cancel", conflicts_with = "cancel")]
    devices: Vec<String>,
}

/// What a device is to its pool.
enum Kind {
    /// The number of a top-level vdev with data.
    Data(u64),
    Log,
    Aux(Option<String>),
}

fn kind(session: &Session, seen: &Pool, name: &str) -> Result<(u64, Kind), &'static str> {
    let found = find_in(session, seen, name).ok_or("no such device in pool")?;
    let guid = found.guid;
    if let Some(aux) = seen.spares().iter().chain(seen.l2cache()).find(|v| v.guid == guid) {
        return Ok((guid, Kind::Aux(aux.path.clone())));
    }
    match seen.config().vdev_tree.children.iter().find(|top| top.guid == guid) {
        Some(top) if top.is_log => Ok((guid, Kind::Log)),
        Some(top) => Ok((guid, Kind::Data(top.id))),
        None => Err("it is part of another vdev: `zinc zpool detach` takes a side off a mirror"),
    }
}

impl Remove {
    fn foresee(&self, session: &Session) -> Result<(), Failure> {
        let seen = self.live.look(session, &self.pool)?;
        for name in &self.devices {
            let fail = |why| Failure::new(format!("cannot remove {name}")).because(why);
            let bytes = match kind(session, &seen, name).map_err(fail)? {
                (_, Kind::Data(top)) => {
                    let bytes = seen.mapping_memory_of(top)?;
                    bytes.ok_or_else(|| fail("its space maps do not say how much"))?
                }
                // What holds no data needs no map of where that is now.
                _ => 0,
            };
            let bytes = if self.exact { bytes.to_string() } else { nicenum(bytes) };
            ui::out(session, &format!("Memory that will be used after removing {name}: {bytes}\n"));
        }
        Ok(())
    }

    fn act(&self, session: &Session, pool: &LivePool) -> Result<(), Failure> {
        for name in &self.devices {
            let is_alone = session.client().is_none();
            let start = format!("cannot remove {name}");
            let found = kind(session, &pool.look()?, name);
            let (guid, kind) = found.map_err(|why| Failure::new(&start).because(why))?;
            let done = match kind {
                // A command that opened the pool itself went on with it at once.
                Kind::Data(top) if is_alone && leaves(pool, top) => Ok(()),
                Kind::Data(_) => pool.remove_top(guid),
                Kind::Log => pool.remove_log(guid),
                Kind::Aux(path) => {
                    let path = path.map(|path| session.path(path.as_ref()));
                    let device = path.and_then(|p| AnyDevices::default().claim(&p).ok());
                    pool.remove_aux(guid, device)
                }
            };
            done.map_err(|e| Failure::from(e).about(&start))?;
            if is_alone || self.until_done {
                wait(session, pool, &start)?;
            }
        }
        Ok(())
    }

    fn cancel(&self, pool: &LivePool) -> Result<(), Failure> {
        let start = "cannot cancel removal";
        pool.cancel_removal().map_err(|e| Failure::from(e).about(start))
    }
}

/// The removal of this vdev runs.
fn leaves(pool: &LivePool, top: u64) -> bool {
    pool.removing().is_some_and(|now| now.vdev == top)
}

/// Waits until a removal has ended.
fn wait(session: &Session, pool: &LivePool, start: &str) -> Result<(), Failure> {
    loop {
        session.check()?;
        let done = pool.wait_for_removal(PATIENCE);
        if done.map_err(|e| Failure::from(e).about(start))? {
            return Ok(());
        }
    }
}

impl Verb for Remove {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        match self.dry {
            true => self.foresee(session)?,
            false if self.cancel => {
                self.live.change(session, &self.pool, |pool| self.cancel(pool))?;
            }
            false => self.live.change(session, &self.pool, |pool| self.act(session, pool))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
