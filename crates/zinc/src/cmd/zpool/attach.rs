//! `zinc zpool attach`, `detach` and `replace`: devices that come beside others, and go.

use super::claim::{not_taken, with_claim};
use super::devices::{finish_unless_served, refused, wait, with_names};
use super::{each, settings};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use engine::layout;
use engine::live::ResilverKind;
use engine::pools::{Exchange, Known};
use engine::{Error, ErrorKind, LivePool};
use std::path::Path;
use std::process::ExitCode;
use views::members;

/// Arguments of `zinc zpool attach`.
#[derive(clap::Args)]
pub struct Attach {
    #[command(flatten)]
    new: NewDevice,
    /// The pool
    pool: String,
    /// A side of the mirror, a disk that becomes one, or a raidz vdev, which gets wider
    device: String,
    /// The device that comes
    new_device: String,
}

/// Arguments of `zinc zpool replace`.
#[derive(clap::Args)]
pub struct Replace {
    #[command(flatten)]
    new: NewDevice,
    /// The pool
    pool: String,
    /// The device that goes
    device: String,
    /// The one that comes; without it a new one at the same path
    new_device: Option<String>,
}

/// Arguments of `zinc zpool detach`.
#[derive(clap::Args)]
pub struct Detach {
    #[command(flatten)]
    live: LiveArgs,
    /// The pool
    pool: String,
    /// The side that goes
    device: String,
}

/// How a device comes.
#[derive(clap::Args)]
struct NewDevice {
    #[command(flatten)]
    live: LiveArgs,
    /// Use a device that holds data
    #[arg(short = 'f')]
    force: bool,
    /// Copy allocated space in order and verify it afterwards (mirrors and dRAID)
    #[arg(short = 's')]
    sequential: bool,
    /// ashift=N: accepted; a device uses the sector size of its vdev
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Wait until the device has all data (always, when the pool is not served)
    #[arg(short = 'w')]
    until_done: bool,
}

/// The operation on the device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttachKind {
    Attach,
    Replace,
}

/// A device by the name that it was given: `sda` is `/dev/sda` unless a file here has that name.
fn in_full(session: &Session, name: &str) -> String {
    let known = Path::new("/dev").join(name);
    let is_short = !name.contains('/') && !session.path(name.as_ref()).exists() && known.exists();
    known.to_str().filter(|_| is_short).unwrap_or(name).to_owned()
}

impl NewDevice {
    /// Uses it beside, or in the place of, one of the pool's.
    fn change(
        &self,
        session: &Session,
        pool: &str,
        (doing, old): (AttachKind, &str),
        new: Option<&str>,
    ) -> Result<ExitCode, Failure> {
        each::require_pool_name(pool)?;
        let resilver = match self.sequential {
            true => ResilverKind::Sequential,
            false => ResilverKind::Healing,
        };
        let verb = if doing == AttachKind::Attach { "attach" } else { "replace" };
        settings::ashift(&format!("cannot {verb} {old}"), &self.properties)?;
        self.live.change(session, pool, |pool| {
            with_names(session, |names| {
                let exchange = match doing {
                    AttachKind::Attach => {
                        Exchange::attach(pool, names, old, resilver).map_err(|e| {
                            refused("attach", &format!("{} to {old}", new.unwrap_or(old)), e)
                        })
                    }
                    AttachKind::Replace => Exchange::replace(pool, names, old, resilver)
                        .map_err(|e| refused("replace", old, e)),
                }?;
                let same = || exchange.path_of_old().unwrap_or_else(|| old.to_owned());
                let new = new.map_or_else(same, |name| in_full(session, name));
                let start = match doing {
                    AttachKind::Attach => format!("cannot attach {new} to {old}"),
                    AttachKind::Replace => format!("cannot replace {old} with {new}"),
                };
                match exchange.with_known(&new).map_err(|e| unfit(&start, &new, pool.name(), e))? {
                    Known::Itself => return finish_unless_served(session, pool),
                    Known::StandsIn => {}
                    Known::No => self.take(session, pool, &exchange, (&new, &start))?,
                }
                // Waits for the resilver if no server does it.
                match self.until_done {
                    true => wait(session, pool),
                    false => finish_unless_served(session, pool),
                }
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Uses a device that is not a member of the pool.
    fn take(
        &self,
        session: &Session,
        pool: &LivePool,
        exchange: &Exchange<'_>,
        (new, start): (&str, &str),
    ) -> Result<(), Failure> {
        let here = session.path(Path::new(new));
        let path = here.to_str().filter(|_| here.exists()).unwrap_or(new).to_owned();
        let layout = layout::parse(&[path])?;
        let seen = pool.look()?;
        let untaken = |e| not_taken(Some(seen.name()), &e).unwrap_or_else(|| e.into());
        let devices = with_claim(session, self.force, self.live.options.wait, |claim| {
            claim.take(&layout, Some(&seen)).map_err(|e| untaken(e).about(start))
        })?;
        let ([top], Some(device)) = (layout.tops.as_slice(), devices.values().next()) else {
            return Err(Failure::new(start).because(format!("'{new}' is not one device")));
        };
        let done = exchange.with(&top.spec, device.clone());
        done.map_err(|e| Failure::from(e).about(start))
    }
}

/// Why the pool does not use a device that it knows, or that is there.
fn unfit(start: &str, new: &str, pool: &str, error: Error) -> Failure {
    let words = match error.kind() {
        ErrorKind::Unfit(why) => members::new_fault(new, pool, *why),
        ErrorKind::Device => Some((error.to_string(), None)),
        _ => None,
    };
    match words {
        Some((why, Some(hint))) => Failure::new(start).because(why).hint(hint),
        Some((why, None)) => Failure::new(start).because(why),
        None => Failure::from(error).about(start),
    }
}

impl Verb for Attach {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let what = (AttachKind::Attach, self.device.as_str());
        self.new.change(session, &self.pool, what, Some(&self.new_device))
    }
}

impl Verb for Replace {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let what = (AttachKind::Replace, self.device.as_str());
        self.new.change(session, &self.pool, what, self.new_device.as_deref())
    }
}

impl Verb for Detach {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        self.live.change(session, &self.pool, |pool| {
            let done = with_names(session, |names| names.detach(pool, &self.device));
            done.map_err(|e| refused("detach", &self.device, e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
