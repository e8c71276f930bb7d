//! `zinc zpool initialize` and `zpool trim`: the free space of devices is overwritten, or given
//! back.

use super::devices::{device, find};
use super::each;
use crate::args::bytes;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::{self, LiveOptions};
use crate::session::Session;
use engine::LivePool;
use engine::pools::LeafWork;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long is waited before it is looked whether the user still waits.
const PATIENCE: Duration = Duration::from_millis(100);

/// Arguments of `zinc zpool initialize`.
#[derive(clap::Args)]
pub struct Initialize {
    #[command(flatten)]
    common: Common,
    /// Forget that devices were initialized
    #[arg(short = 'u', long, conflicts_with_all = ["cancel", "suspend", "until_done"])]
    uninit: bool,
}

/// Arguments of `zinc zpool trim`.
#[derive(clap::Args)]
pub struct Trim {
    #[command(flatten)]
    common: Common,
    /// Refused: no device that zinc trims promises that nothing can be read again
    #[arg(short = 'd', long)]
    secure: bool,
    /// Bytes a second on each device, at most, such as 100M
    #[arg(short = 'r', long, value_name = "RATE", value_parser = rate)]
    rate: Option<u64>,
}

/// What both have.
#[derive(clap::Args)]
struct Common {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    how: LiveOptions,
    /// Call it off
    #[arg(short = 'c', long)]
    cancel: bool,
    /// Stop it where it is; the same command without -s goes on
    #[arg(short = 's', long, conflicts_with = "cancel")]
    suspend: bool,
    /// Wait until it is done; a pool that is not served is always waited for
    #[arg(short = 'w', conflicts_with_all = ["cancel", "suspend"])]
    until_done: bool,
    /// The pool
    pool: String,
    /// Devices, by path, last part of the path, or guid; all when none is named
    devices: Vec<String>,
}

/// Bytes each second.
fn rate(text: &str) -> Result<u64, String> {
    bytes(text).and_then(|n| if n > 0 { Ok(n) } else { Err("it would never end".to_owned()) })
}

/// What is to be done.
#[derive(Clone, Copy)]
enum Doing {
    Start(u64),
    Suspend,
    Cancel,
    Forget,
}

impl Common {
    fn run(&self, session: &Session, work: LeafWork, doing: Doing) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        let act = |pool: &LivePool| self.act(session, pool, work, doing);
        live::change(session, &self.search, &self.how, &self.pool, act)?;
        Ok(ExitCode::SUCCESS)
    }

    fn act(
        &self,
        session: &Session,
        pool: &LivePool,
        work: LeafWork,
        doing: Doing,
    ) -> Result<(), Failure> {
        let verb = match work {
            LeafWork::Initialize => "initialize",
            LeafWork::Trim => "trim",
        };
        let leaves = self.leaves(session, pool, verb)?;
        let (mut done, mut refused) = (Vec::new(), None);
        for (leaf, name) in leaves {
            let change = match doing {
                Doing::Start(rate) => pool.start_work(leaf, work, rate),
                Doing::Suspend => pool.suspend_work(leaf, work),
                Doing::Cancel => pool.cancel_work(leaf, work),
                Doing::Forget => pool.forget_work(leaf, work),
            };
            match change {
                Ok(()) => done.push((leaf, name)),
                Err(e) => {
                    let failure = Failure::from(e).about(&format!("cannot {verb} {name}"));
                    if !self.devices.is_empty() {
                        return Err(failure);
                    }
                    refused.get_or_insert(failure);
                }
            }
        }
        // Of all devices, those count for which it was possible.
        if let (true, Some(failure)) = (done.is_empty(), refused) {
            return Err(failure);
        }
        let is_alone = session.client().is_none();
        match matches!(doing, Doing::Start(_)) && (is_alone || self.until_done) {
            true => wait(session, pool, work, &done, verb),
            false => Ok(()),
        }
    }

    /// The devices that are meant, and how they are called.
    fn leaves(
        &self,
        session: &Session,
        pool: &LivePool,
        verb: &str,
    ) -> Result<Vec<(u64, String)>, Failure> {
        if self.devices.is_empty() {
            let seen = pool.look()?;
            let leaves = seen.config().vdev_tree.walk().filter(|v| v.kind.is_leaf());
            let name = |v: &engine::config::VdevConfig| v.path.clone().unwrap_or_default();
            return Ok(leaves.map(|v| (v.guid, name(v))).collect());
        }
        let mut out = Vec::new();
        for name in &self.devices {
            let found = find(session, pool, name)?;
            match found.filter(|found| found.is_in_tree && !found.devices.is_empty()) {
                Some(found) => out.extend(found.devices.iter().map(|leaf| (*leaf, name.clone()))),
                None => out.push((device(session, pool, verb, name)?, name.clone())),
            }
        }
        Ok(out)
    }
}

fn wait(
    session: &Session,
    pool: &LivePool,
    work: LeafWork,
    leaves: &[(u64, String)],
    verb: &str,
) -> Result<(), Failure> {
    let guids: Vec<u64> = leaves.iter().map(|(leaf, _)| *leaf).collect();
    loop {
        session.check()?;
        match pool.wait_for_work(work, &guids, PATIENCE) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err((leaf, why)) => {
                let name = leaves.iter().find(|(guid, _)| *guid == leaf);
                let name = name.map(|(_, name)| name.as_str()).unwrap_or_default();
                return Err(Failure::new(format!("cannot {verb} {name}")).because(why));
            }
        }
    }
}

impl Verb for Initialize {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let doing = match (self.common.cancel, self.common.suspend, self.uninit) {
            (true, ..) => Doing::Cancel,
            (_, true, _) => Doing::Suspend,
            (_, _, true) => Doing::Forget,
            _ => Doing::Start(0),
        };
        self.common.run(session, LeafWork::Initialize, doing)
    }
}

impl Verb for Trim {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.secure {
            let what = format!("cannot trim {}", self.common.pool);
            return Err(Failure::new(what)
                .because("secure trim is not supported")
                .hint("without -d the space is given back, and what was there may be read again"));
        }
        let doing = match (self.common.cancel, self.common.suspend) {
            (true, _) => Doing::Cancel,
            (_, true) => Doing::Suspend,
            _ => Doing::Start(self.rate.unwrap_or(0)),
        };
        self.common.run(session, LeafWork::Trim, doing)
    }
}
