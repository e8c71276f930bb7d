//! `zinc zpool split`: one side of each mirror becomes a pool of its own.

use super::create::check_pool_name;
use super::devices::{refused, with_names};
use super::each;
use super::listed;
use super::naming::Naming;
use super::settings::{self, PoolSetting};
use crate::cmd::serve::background;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::refusals::cannot;
use crate::session::Session;
use crate::{served, ui};
use engine::{Error, ErrorKind, LivePool, pools};
use std::process::ExitCode;

/// Arguments of `zinc zpool split`.
#[derive(clap::Args)]
pub struct Split {
    #[command(flatten)]
    live: LiveArgs,
    /// Print the layout of the new pool, and change nothing
    #[arg(short = 'n')]
    dry: bool,
    #[command(flatten)]
    naming: Naming,
    /// A property of the new pool (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Import the new pool, with mount points below this directory (altroot)
    #[arg(short = 'R', value_name = "ROOT")]
    root: Option<String>,
    /// With -R: load the keys of its encrypted datasets: it is served from then on, and mounted
    #[arg(short = 'l', requires = "root")]
    load_keys: bool,
    /// The pool
    pool: String,
    /// The new pool
    new: String,
    /// The devices that it gets, one of each mirror; of others the last one
    devices: Vec<String>,
}

impl Split {
    fn split(
        &self,
        session: &Session,
        pool: &LivePool,
        settings: Vec<PoolSetting>,
    ) -> Result<(), Failure> {
        let fail = |e: Error| cannot("split", &self.pool, e);
        let doing = format!("cannot split '{}'", self.pool);
        let remembered = settings::remembered(&doing, &settings, self.root.as_deref(), false)?;
        let sides = with_names(session, |names| names.sides_to_split(pool, &self.devices));
        let sides = sides.map_err(|e| match e.operand().map(str::to_owned) {
            Some(name) => refused("split", &name, e),
            None => fail(e),
        })?;
        if self.dry {
            let root = pool.look()?.config().vdev_tree.clone();
            let leaves = sides.iter().filter_map(|side| root.find(*side));
            let names: Vec<String> = leaves.map(|leaf| self.naming.names().of_leaf(leaf)).collect();
            ui::out(session, &views::layout::split(&self.new, &names));
            return Ok(());
        }
        let split = pools::Split::new(&self.new, sides).map_err(fail)?;
        let split = settings.into_iter().fold(split, pools::Split::set);
        let split = if self.root.is_some() { split.imported() } else { split };
        let new = split.run(pool, &listed::list(session, remembered)).map_err(|e| {
            match matches!(e.kind(), ErrorKind::Exists) {
                true => cannot("split into", &self.new, e),
                false => fail(e),
            }
        })?;
        let done = if self.root.is_some() { new.close() } else { new.export() };
        done.map_err(|e| fail(e.into()))
    }
}

impl Verb for Split {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        check_pool_name(&self.new, "split into")?;
        let doing = format!("cannot split '{}'", self.pool);
        let settings = settings::parse_all(&doing, &self.properties)?;
        let there = match self.load_keys && session.client().is_none() {
            // The server of the old pool does not serve the new one.
            true => served::run_there(session, &self.live.search, &self.pool)?,
            false => None,
        };
        match there {
            None => {
                self.live
                    .change(session, &self.pool, |pool| self.split(session, pool, settings))?;
            }
            Some(0) => {}
            Some(code) => return Ok(ExitCode::from(code)),
        }
        match self.load_keys && !self.dry && session.client().is_none() {
            true => background::with_keys(session, &[], &self.new, true),
            false => Ok(ExitCode::SUCCESS),
        }
    }
}
