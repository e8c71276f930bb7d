//! `zinc zpool attach`, `detach` and `replace`: sides of mirrors.

use super::claim::claim;
use super::devices::{device, find, see_to_the_end, wait};
use super::{each, layout};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use engine::inside::device::WriteDeviceRef;
use engine::live::VdevSpec;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of `zinc zpool attach`.
#[derive(clap::Args)]
pub struct Attach {
    #[command(flatten)]
    new: New,
    /// The pool
    pool: String,
    /// A side of the mirror, or a disk that becomes one
    device: String,
    /// The new side
    new_device: String,
}

/// Arguments of `zinc zpool replace`.
#[derive(clap::Args)]
pub struct Replace {
    #[command(flatten)]
    new: New,
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
struct New {
    #[command(flatten)]
    live: LiveArgs,
    /// Use a device that holds something
    #[arg(short = 'f')]
    force: bool,
    /// Wait until it has everything; a pool that is not served is always waited for
    #[arg(short = 'w')]
    until_done: bool,
}

impl New {
    /// Takes the device of that name for this process.
    fn claim(&self, session: &Session, name: &str) -> Result<(VdevSpec, WriteDeviceRef), Failure> {
        let here = session.path(Path::new(name));
        let path = here.to_str().filter(|_| here.exists()).unwrap_or(name).to_owned();
        let layout = layout::parse(&[path])?;
        let devices = claim(session, &layout, self.force, self.live.how.wait)?;
        let one = match (layout.tops.as_slice(), layout.paths().as_slice()) {
            ([top], [path]) => {
                devices.get(*path).map(|d| (top.spec.clone(), WriteDeviceRef::clone(d)))
            }
            _ => None,
        };
        one.ok_or_else(|| Failure::new(format!("'{name}' is not one device")))
    }

    /// Lets `act` use it beside, or in the place of, one of the pool's.
    fn change(
        &self,
        session: &Session,
        pool: &str,
        (doing, old): (&str, &str),
        new: Option<&str>,
        act: impl FnOnce(
            &engine::LivePool,
            u64,
            &VdevSpec,
            WriteDeviceRef,
        ) -> engine::errors::PoolResult<()>,
    ) -> Result<ExitCode, Failure> {
        each::must_be_a_pool(pool)?;
        self.live.change(session, pool, |pool| {
            let guid = device(session, pool, doing, old)?;
            let new = match new {
                Some(new) => new.to_owned(),
                None => pool
                    .look()?
                    .config()
                    .vdev_tree
                    .find(guid)
                    .and_then(|v| v.path.clone())
                    .unwrap_or_else(|| old.to_owned()),
            };
            let start = match doing {
                "attach" => format!("cannot attach {new} to {old}"),
                _ => format!("cannot {doing} {old} with {new}"),
            };
            if is_in_use(session, pool, &new)? {
                let why = format!("{new} is part of active pool '{}'", pool.name());
                return Err(Failure::new(start).because(why));
            }
            let (spec, device) = self.claim(session, &new).map_err(|e| e.about(&start))?;
            act(pool, guid, &spec, device).map_err(|e| Failure::from(e).about(&start))?;
            if self.until_done { wait(session, pool) } else { see_to_the_end(session, pool) }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The pool writes to a device of that name.
fn is_in_use(session: &Session, pool: &engine::LivePool, name: &str) -> Result<bool, Failure> {
    let Some(found) = find(session, pool, name)? else { return Ok(false) };
    let tree = pool.view().vdevs();
    Ok(tree.leaves().any(|l| l.guid() == found.guid && l.writer().is_some()))
}

impl Verb for Attach {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let what = ("attach", self.device.as_str());
        let new = Some(self.new_device.as_str());
        self.new.change(session, &self.pool, what, new, |pool, guid, spec, device| {
            pool.attach(guid, spec, device)
        })
    }
}

impl Verb for Replace {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let what = ("replace", self.device.as_str());
        let new = self.new_device.as_deref();
        self.new.change(session, &self.pool, what, new, |pool, guid, spec, device| {
            pool.replace(guid, spec, device)
        })
    }
}

impl Verb for Detach {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::must_be_a_pool(&self.pool)?;
        self.live.change(session, &self.pool, |pool| {
            let name = &self.device;
            let guid = device(session, pool, "detach", name)?;
            let start = format!("cannot detach {name}");
            pool.detach(guid).map_err(|e| Failure::from(e).about(&start))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
