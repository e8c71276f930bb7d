//! `zinc zpool remove`: devices that a pool does not need for its data.

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

/// Arguments of `zinc zpool remove`.
#[derive(clap::Args)]
pub struct Remove {
    #[command(flatten)]
    live: LiveArgs,
    /// Say how much memory the removal would take, and change nothing
    #[arg(short = 'n', conflicts_with = "cancel")]
    dry: bool,
    /// Accepted: the numbers of -n are exact
    #[arg(short = 'p', conflicts_with = "cancel")]
    exact: bool,
    /// Stop a removal that runs
    #[arg(short = 's', conflicts_with = "until_done")]
    cancel: bool,
    /// Accepted: log, cache and spare devices are gone when the command ends
    #[arg(short = 'w')]
    until_done: bool,
    /// The pool
    pool: String,
    /// Log, cache and spare devices; a log that is a mirror by its name, such as mirror-1
    #[arg(required_unless_present = "cancel", conflicts_with = "cancel")]
    devices: Vec<String>,
}

/// What a device is to its pool.
enum Kind {
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
        Some(_) => Err("zinc removes log, cache and spare devices, and none that hold data"),
        None => Err("it is part of another vdev: `zinc zpool detach` takes a side off a mirror"),
    }
}

impl Remove {
    fn foresee(&self, session: &Session) -> Result<(), Failure> {
        let seen = self.live.look(session, &self.pool)?;
        for name in &self.devices {
            let fail = |why| Failure::new(format!("cannot remove {name}")).because(why);
            kind(session, &seen, name).map_err(fail)?;
            // What holds no data needs no map of where that is now.
            ui::out(session, &format!("Memory that will be used after removing {name}: 0\n"));
        }
        Ok(())
    }

    fn act(&self, session: &Session, pool: &LivePool) -> Result<(), Failure> {
        for name in &self.devices {
            let start = format!("cannot remove {name}");
            let found = kind(session, &pool.look()?, name);
            let (guid, kind) = found.map_err(|why| Failure::new(&start).because(why))?;
            let done = match kind {
                Kind::Log => pool.remove_log(guid),
                Kind::Aux(path) => {
                    let path = path.map(|path| session.path(path.as_ref()));
                    let device = path.and_then(|p| AnyDevices::default().claim(&p).ok());
                    pool.remove_aux(guid, device)
                }
            };
            done.map_err(|e| Failure::from(e).about(&start))?;
        }
        Ok(())
    }
}

impl Verb for Remove {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::must_be_a_pool(&self.pool)?;
        if self.cancel {
            self.live.look(session, &self.pool)?;
            let why = "no removal is in progress";
            return Err(Failure::new("cannot cancel removal").because(why));
        }
        match self.dry {
            true => self.foresee(session)?,
            false => self.live.change(session, &self.pool, |pool| self.act(session, pool))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
