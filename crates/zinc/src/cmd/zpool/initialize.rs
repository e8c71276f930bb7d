//! `zinc zpool initialize` and `zpool trim`: the free space of devices is overwritten, or given
//! back.

use super::devices::{refused, with_names};
use super::each;
use crate::args::bytes;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::{self, LiveOptions};
use crate::progress::while_wanted;
use crate::session::Session;
use engine::activity::wait_for_work;
use engine::pools::{LeafWork, WorkChange};
use engine::{LivePool, Place};
use std::path::PathBuf;
use std::process::ExitCode;

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
    /// Refused: zinc's trim does not guarantee secure erasure
    #[arg(short = 'd', long)]
    secure: bool,
    /// Limit of bytes a second on each device, such as 100M
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
    /// Cancel it
    #[arg(short = 'c', long)]
    cancel: bool,
    /// Suspend it; the same command without -s continues
    #[arg(short = 's', long, conflicts_with = "cancel")]
    suspend: bool,
    /// Wait until it is done (always, when the pool is not served)
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

impl Common {
    fn run(
        &self,
        session: &Session,
        work: LeafWork,
        change: WorkChange,
    ) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        let act = |pool: &LivePool| self.act(session, pool, (work, change));
        live::change(session, &self.search, &self.how, &self.pool, act)?;
        Ok(ExitCode::SUCCESS)
    }

    fn act(
        &self,
        session: &Session,
        pool: &LivePool,
        (work, change): (LeafWork, WorkChange),
    ) -> Result<(), Failure> {
        let verb = match work {
            LeafWork::Initialize => "initialize",
            LeafWork::Trim => "trim",
        };
        let done = with_names(session, |names| names.work(pool, &self.devices, (work, change)));
        let leaves = done.map_err(|e| match e.operand().map(str::to_owned) {
            Some(name) => refused(verb, &name, e),
            None => e.into(),
        })?;
        let is_alone = session.client().is_none();
        if !matches!(change, WorkChange::Start(_)) || !(is_alone || self.until_done) {
            return Ok(());
        }
        let ended = while_wanted(session, |progress| wait_for_work(pool, work, &leaves, progress));
        ended.map_err(|e| match e.place() {
            Some(Place::Device(name)) => {
                Failure::new(format!("cannot {verb} {name}")).because(e.to_string())
            }
            _ => e.into(),
        })
    }
}

impl Verb for Initialize {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let change = match (self.common.cancel, self.common.suspend, self.uninit) {
            (true, ..) => WorkChange::Cancel,
            (_, true, _) => WorkChange::Suspend,
            (_, _, true) => WorkChange::Forget,
            _ => WorkChange::Start(0),
        };
        self.common.run(session, LeafWork::Initialize, change)
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
                .hint("without -d the space is trimmed, but old data may still be readable"));
        }
        let change = match (self.common.cancel, self.common.suspend) {
            (true, _) => WorkChange::Cancel,
            (_, true) => WorkChange::Suspend,
            _ => WorkChange::Start(self.rate.unwrap_or(0)),
        };
        self.common.run(session, LeafWork::Trim, change)
    }
}
