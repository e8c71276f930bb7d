//! `zinc zpool remove`: devices that a pool can do without.

use super::devices::{each_device, refused, with_names};
use super::each;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::progress::while_wanted;
use crate::session::Session;
use crate::ui;
use engine::activity::wait_for_removal;
use engine::{Error, ErrorKind, LivePool};
use std::process::ExitCode;
use term::human::nicenum;
use views::members;

/// Arguments of `zinc zpool remove`.
#[derive(clap::Args)]
pub struct Remove {
    #[command(flatten)]
    live: LiveArgs,
    /// Print how much memory the removal would take, and change nothing
    #[arg(short = 'n', conflicts_with = "cancel")]
    dry: bool,
    /// Print exact numbers
    #[arg(short = 'p', conflicts_with = "cancel")]
    exact: bool,
    /// Cancel a running removal
    #[arg(short = 's', conflicts_with = "until_done")]
    cancel: bool,
    /// Wait until all data of the devices is copied (always, when the pool is not served)
    #[arg(short = 'w')]
    until_done: bool,
    /// The pool
    pool: String,
    /// Devices, or mirrors by name, such as mirror-1
    #[arg(required_unless_present = "cancel", conflicts_with = "cancel")]
    devices: Vec<String>,
}

impl Remove {
    fn foresee(&self, session: &Session) -> Result<ExitCode, Failure> {
        let seen = self.live.look(session, &self.pool)?;
        each_device(session, &self.devices, |name| {
            let bytes = with_names(session, |names| names.memory_of_removal(&seen, name));
            let bytes = bytes.map_err(|e| unfit(name, e))?;
            let bytes = if self.exact { bytes.to_string() } else { nicenum(bytes) };
            ui::out(session, &format!("Memory that will be used after removing {name}: {bytes}\n"));
            Ok(())
        })
    }

    fn act(&self, session: &Session, pool: &LivePool) -> Result<ExitCode, Failure> {
        each_device(session, &self.devices, |name| {
            let is_alone = session.client().is_none();
            // A command that opened the pool itself continued it at once.
            let done = with_names(session, |names| names.remove(pool, name, is_alone));
            done.map_err(|e| unfit(name, e))?;
            if is_alone || self.until_done {
                while_wanted(session, |progress| wait_for_removal(pool, progress))
                    .map_err(|e| refused("remove", name, e))?;
            }
            Ok(())
        })
    }

    fn cancel(&self, pool: &LivePool) -> Result<(), Failure> {
        let start = "cannot cancel removal";
        pool.cancel_removal().map_err(|e| Failure::from(e).about(start))
    }
}

/// Why a device is not removed.
fn unfit(name: &str, error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Unfit(why) => {
            Failure::new(format!("cannot remove {name}")).because(members::fault(*why))
        }
        _ => refused("remove", name, error),
    }
}

impl Verb for Remove {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        match self.dry {
            true => self.foresee(session),
            false if self.cancel => {
                self.live.change(session, &self.pool, |pool| self.cancel(pool))?;
                Ok(ExitCode::SUCCESS)
            }
            false => self.live.change(session, &self.pool, |pool| self.act(session, pool)),
        }
    }
}
