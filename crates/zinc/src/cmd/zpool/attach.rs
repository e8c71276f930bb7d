//! `zinc zpool attach`, `detach` and `replace`: devices that come beside others, and go.

use super::claim::claim;
use super::devices::{bring_from, device, find, finish_unless_served, own, wait};
use super::each;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use engine::devices::{AnyDevices, DeviceSource as _};
use engine::layout;
use engine::live::ResilverKind;
use engine::pools::DeviceRole;
use std::path::Path;
use std::process::ExitCode;

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
    /// Use a device that holds something
    #[arg(short = 'f')]
    force: bool,
    /// Copy what is allocated in its order, and verify it behind that: mirrors and dRAID
    #[arg(short = 's')]
    sequential: bool,
    /// Wait until it has everything; a pool that is not served is always waited for
    #[arg(short = 'w')]
    until_done: bool,
}

/// What is done with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
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
        (doing, old): (Doing, &str),
        new: Option<&str>,
    ) -> Result<ExitCode, Failure> {
        each::require_pool_name(pool)?;
        self.live.change(session, pool, |pool| {
            let verb = if doing == Doing::Attach { "attach" } else { "replace" };
            let guid = match find(session, pool, old)? {
                Some(found) if found.is_raidz && doing == Doing::Attach => found.guid,
                _ => device(session, pool, verb, old)?,
            };
            let path_of_old = || pool.look().ok()?.config().vdev_tree.find(guid)?.path.clone();
            let same = || path_of_old().unwrap_or_else(|| old.to_owned());
            let new = new.map_or_else(same, |name| in_full(session, name));
            let start = match doing {
                Doing::Attach => format!("cannot attach {new} to {old}"),
                Doing::Replace => format!("cannot replace {old} with {new}"),
            };
            match own(session, pool, &new)? {
                Some(DeviceRole::Leaf(there))
                    if there == guid && !is_in_use(session, pool, old)? =>
                {
                    // It is the device itself, which is in another place by now.
                    bring_from(session, pool, guid, &new)?;
                    return finish_unless_served(session, pool);
                }
                Some(DeviceRole::Distributed(spare)) if doing == Doing::Replace => {
                    let done = pool.take_spare_by(guid, spare, None, self.resilver_kind());
                    done.map_err(|e| Failure::from(e).about(&start))?;
                    return self.end(session, pool);
                }
                Some(DeviceRole::Spare(spare)) if doing == Doing::Replace => {
                    let device = AnyDevices::default().claim(&session.path(new.as_ref()));
                    let device = device.map_err(|e| Failure::new(&start).because(e.to_string()))?;
                    let done = pool.take_spare_by(guid, spare, Some(device), self.resilver_kind());
                    done.map_err(|e| Failure::from(e).about(&start))?;
                    return self.end(session, pool);
                }
                Some(DeviceRole::Spare(_) | DeviceRole::Distributed(_)) => {
                    return Err(Failure::new(start)
                        .because(format!("{new} is a spare of this pool"))
                        .hint("`zinc zpool replace POOL DEVICE SPARE` lets it stand in"));
                }
                Some(DeviceRole::Cache) => {
                    let why = format!("{new} is a cache device of this pool");
                    return Err(Failure::new(start).because(why));
                }
                Some(DeviceRole::Leaf(_)) if find(session, pool, &new)?.is_none() => {
                    let why = format!("{new} is another device of this pool, which was moved");
                    return Err(Failure::new(start)
                        .because(why)
                        .hint("`zinc zpool online POOL PATH` uses it where it is now"));
                }
                Some(DeviceRole::Leaf(_)) | None => {}
            }
            self.take(session, pool, (doing, guid), (&new, &start))
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Uses a device that is no member of the pool.
    fn take(
        &self,
        session: &Session,
        pool: &engine::LivePool,
        (doing, guid): (Doing, u64),
        (new, start): (&str, &str),
    ) -> Result<(), Failure> {
        if is_in_use(session, pool, new)? {
            let why = format!("{new} is part of active pool '{}'", pool.name());
            return Err(Failure::new(start).because(why));
        }
        let here = session.path(Path::new(new));
        let path = here.to_str().filter(|_| here.exists()).unwrap_or(new).to_owned();
        let layout = layout::parse(&[path])?;
        let seen = pool.look()?;
        let claimed = claim(session, &layout, Some(&seen), self.force, self.live.how.wait);
        let devices = claimed.map_err(|e| e.about(start))?;
        let ([top], Some(device)) = (layout.tops.as_slice(), devices.values().next()) else {
            return Err(Failure::new(start).because(format!("'{new}' is not one device")));
        };
        let done = match doing {
            Doing::Attach => pool.attach_by(guid, &top.spec, device.clone(), self.resilver_kind()),
            Doing::Replace => {
                pool.replace_by(guid, &top.spec, device.clone(), self.resilver_kind())
            }
        };
        done.map_err(|e| Failure::from(e).about(start))?;
        self.end(session, pool)
    }

    fn resilver_kind(&self) -> ResilverKind {
        if self.sequential { ResilverKind::Sequential } else { ResilverKind::Healing }
    }

    /// The device is there; what it lacks is waited for where no server does.
    fn end(&self, session: &Session, pool: &engine::LivePool) -> Result<(), Failure> {
        if self.until_done { wait(session, pool) } else { finish_unless_served(session, pool) }
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
        let what = (Doing::Attach, self.device.as_str());
        self.new.change(session, &self.pool, what, Some(&self.new_device))
    }
}

impl Verb for Replace {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let what = (Doing::Replace, self.device.as_str());
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
            let name = &self.device;
            let guid = device(session, pool, "detach", name)?;
            let start = format!("cannot detach {name}");
            pool.detach(guid).map_err(|e| Failure::from(e).about(&start))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
