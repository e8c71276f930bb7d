//! `zinc zpool add`: more vdevs for a pool.

use super::claim::{not_taken, refused, with_claim};
use super::each;
use super::naming::Naming;
use super::settings;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::{self, LiveArgs};
use crate::session::Session;
use crate::ui;
use engine::Pool;
use engine::config::VdevConfig;
use engine::layout::{self, Layout, Level};
use engine::live::{Devices, SpaceClass};
use engine::pools::{Add, class_of};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use views::layout::line;

/// Arguments of `zinc zpool add`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Use devices that hold data, and vdevs that do not match
    #[arg(short = 'f')]
    force: bool,
    /// Print the layout, and change nothing
    #[arg(short = 'n')]
    dry: bool,
    #[command(flatten)]
    naming: Naming,
    /// Use devices that hold data
    #[arg(long)]
    allow_in_use: bool,
    /// Add vdevs with less redundancy than those of the pool
    #[arg(long)]
    allow_replication_mismatch: bool,
    /// Add vdevs of a different sector size
    #[arg(long)]
    allow_ashift_mismatch: bool,
    /// ashift=N: log2 of the sector size of the new vdevs
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// The pool
    pub(super) pool: String,
    /// The new vdevs
    #[arg(required = true, value_name = "VDEV")]
    vdevs: Vec<String>,
}

/// A vdev that is there, as the layout shows new ones.
fn shown(top: &VdevConfig, naming: Naming) -> String {
    let path = |v: &VdevConfig| naming.names().of_leaf(v);
    if top.kind.has_device() {
        return line(2, &path(top));
    }
    let leaves = top.children.iter().map(|c| line(4, &path(c)));
    let name = match class_of(top) {
        SpaceClass::Normal => format!("{}-{}", top.kind_name(), top.id),
        _ => top.kind_name(),
    };
    line(2, &name) + &leaves.collect::<String>()
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        let layout = layout::parse_in(&session.path(Path::new("")), &self.vdevs)?;
        let doing = format!("cannot add to '{}'", self.pool);
        let adding = Add::new(layout)
            .with_ashift(settings::ashift(&doing, &self.properties)?)
            .despite_mismatch(self.force || self.allow_replication_mismatch)
            .despite_ashift(self.force || self.allow_ashift_mismatch);
        if self.dry {
            let pool = self.live.look(session, &self.pool)?;
            self.claim(session, &pool, &adding)?;
            self.show(session, &pool, adding.layout());
            return Ok(ExitCode::SUCCESS);
        }
        let (search, how) = (&self.live.search, &self.live.options);
        live::change_announced(session, search, how, &self.pool, |pool, announce| {
            let devices = self.claim(session, &pool.look()?, &adding)?;
            let paths = adding.layout().paths();
            announce(&paths.into_iter().map(PathBuf::from).collect::<Vec<_>>());
            adding.run(pool, &devices).map_err(|e| refused("add to", &self.pool, e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// Opens the devices for the pool, when it can have them.
    fn claim(&self, session: &Session, pool: &Pool, adding: &Add) -> Result<Devices, Failure> {
        let force = self.force || self.allow_in_use;
        let refused = |e| {
            let untaken = not_taken(Some(pool.name()), &e);
            untaken.unwrap_or_else(|| refused("add to", &self.pool, e))
        };
        with_claim(session, force, self.live.options.wait, |claim| {
            adding.claim(pool, claim).map_err(refused)
        })
    }

    /// Prints what the pool would be.
    fn show(&self, session: &Session, pool: &Pool, layout: &Layout) {
        let tops = &pool.config().vdev_tree.children;
        let used = tops.iter().filter(|t| !t.is_hole && Level::of_config(t).is_some());
        let used: Vec<_> = used.map(|t| (class_of(t), shown(t, self.naming))).collect();
        let paths = |all: &[VdevConfig]| -> Vec<String> {
            all.iter().map(|c| self.naming.names().of_leaf(c)).collect()
        };
        let aux = [paths(pool.l2cache()), paths(pool.spares())];
        let text = views::layout::text(layout, &self.pool, &used, &aux);
        let name = &self.pool;
        let start = format!("would update '{name}' to the following configuration:\n\n");
        ui::out(session, &(start + &text));
    }
}
