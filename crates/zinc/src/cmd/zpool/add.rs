//! `zinc zpool add`: more vdevs for a pool.

use super::claim::{For, claim, is_same, refuse_own};
use super::each;
use super::naming::Naming;
use super::settings::{self, Setting};
use crate::args::Reach;
use crate::cannot::cannot;
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::found;
use crate::known;
use crate::live::{self, LiveArgs, invocation, tell_txgs};
use crate::served::Server;
use crate::session::Session;
use crate::ui;
use engine::config::{AllocBias, VdevConfig, VdevKind};
use engine::layout::{self, Layout, Level};
use engine::live::SpaceClass;
use std::path::PathBuf;
use std::process::ExitCode;
use views::layout::line;

/// Arguments of `zinc zpool add`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Use devices that hold something, and vdevs that do not match
    #[arg(short = 'f')]
    force: bool,
    /// Print the layout, and change nothing
    #[arg(short = 'n')]
    dry: bool,
    #[command(flatten)]
    naming: Naming,
    /// Use devices that hold something
    #[arg(long)]
    allow_in_use: bool,
    /// Add vdevs that survive less than those that are there
    #[arg(long)]
    allow_replication_mismatch: bool,
    /// Add vdevs of another sector size
    #[arg(long)]
    allow_ashift_mismatch: bool,
    /// ashift=N: log2 of the sector size of the new vdevs
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// The pool
    pub(super) pool: String,
    /// What it gets
    #[arg(required = true, value_name = "VDEV")]
    vdevs: Vec<String>,
}

/// What a vdev that is there is for.
fn class_of(top: &VdevConfig) -> SpaceClass {
    match &top.alloc_bias {
        _ if top.is_log => SpaceClass::Log,
        Some(AllocBias::Log) => SpaceClass::Log,
        Some(AllocBias::Special) => SpaceClass::Special,
        Some(AllocBias::Dedup) => SpaceClass::Dedup,
        _ => SpaceClass::Normal,
    }
}

fn level_of(top: &VdevConfig) -> Option<Level> {
    Some(match top.kind {
        VdevKind::Disk | VdevKind::File => Level::Single,
        VdevKind::Mirror => Level::Mirror(top.children.len()),
        VdevKind::Raidz { nparity } => Level::Raidz(u64::from(nparity), top.children.len()),
        VdevKind::Draid { nparity, .. } => Level::Draid(u64::from(nparity), top.children.len()),
        _ => return None,
    })
}

/// A vdev that is there, as the layout shows new ones.
fn shown(top: &VdevConfig, naming: Naming) -> String {
    let path = |v: &VdevConfig| naming.of_leaf(v);
    let Some(level) = level_of(top).filter(|l| *l != Level::Single) else {
        return line(2, &path(top));
    };
    let leaves = top.children.iter().map(|c| line(4, &path(c)));
    let name = match class_of(top) {
        SpaceClass::Normal => format!("{}-{}", level.name(), top.id),
        _ => level.name(),
    };
    line(2, &name) + &leaves.collect::<String>()
}

/// The pool's own property `ashift`, when it says something.
fn ashift_of(pool: &engine::Pool) -> Option<u32> {
    let properties = pool.properties(&pool.space());
    let value = properties.iter().find(|p| p.name == "ashift")?.value.parse().ok()?;
    (value != 0).then_some(value)
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::must_be_a_pool(&self.pool)?;
        let layout = layout::parse(&self.vdevs)?;
        if !self.dry
            && let Some(server) = Server::find(session, &self.live.search, &self.pool)?
        {
            let what = format!("cannot add to '{}': process {} serves it", server.name, server.pid);
            return Err(Failure::new(what)
                .because("devices are added to pools that are not served")
                .hint(format!(
                    "`kill {}` ends the server, and the pool stays imported",
                    server.pid
                )));
        }
        let found = found::find(session, &self.live.search, &self.pool, Reach::Known)?;
        let mut options = live::options(session, &self.live.search, self.live.how.cache_mib);
        found.complete(&mut options);
        let pool = engine::Pool::open_candidate(&found.candidate, &options)?;
        let tops = &pool.config().vdev_tree.children;
        let counts = tops.iter().filter(|t| !t.is_hole && class_of(t) != SpaceClass::Log);
        let present: Vec<Level> = counts.filter_map(level_of).collect();
        if !(self.force || self.allow_replication_mismatch)
            && let Some(why) = layout.objection(&present)
        {
            return Err(Failure::new("invalid vdev specification")
                .because(why)
                .hint("use '-f' to override"));
        }
        let ashift = self.ashift()?.or_else(|| ashift_of(&pool));
        self.refuse_other_ashift(&pool, ashift)?;
        let force = self.force || self.allow_in_use;
        let devices = claim(session, &layout, For::Pool(&pool), force, self.live.how.wait)?;
        refuse_own(&pool, &devices)?;
        if self.dry {
            let used = tops.iter().filter(|t| !t.is_hole && level_of(t).is_some());
            let used: Vec<_> = used.map(|t| (class_of(t), shown(t, self.naming))).collect();
            let paths = |all: &[VdevConfig]| -> Vec<String> {
                all.iter().map(|c| self.naming.of_leaf(c)).collect()
            };
            let aux = [paths(pool.l2cache()), paths(pool.spares())];
            let text = views::layout::text(&layout, &self.pool, &used, &aux);
            let name = &self.pool;
            ui::out(
                session,
                &format!("would update '{name}' to the following configuration:\n\n{text}"),
            );
            return Ok(ExitCode::SUCCESS);
        }
        drop(pool);
        let was_exported = self.add(session, &layout, ashift, &devices)?;
        // They are taken anew, by the pool they belong to now.
        drop(devices);
        self.reopen(session, &layout, was_exported)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// Data that was made for one sector size wastes space on, or is slow on, another.
    fn refuse_other_ashift(&self, pool: &engine::Pool, wanted: Option<u32>) -> Result<(), Failure> {
        let tops = pool.config().vdev_tree.children.iter();
        let mut normal =
            tops.filter(|t| class_of(t) == SpaceClass::Normal).filter_map(|t| t.ashift);
        let differs = wanted.is_some_and(|w| normal.any(|there| there != u64::from(w)));
        match differs && !(self.force || self.allow_ashift_mismatch) {
            true => Err(Failure::new(format!("cannot add to '{}'", self.pool))
                .because("adding devices with different physical sector sizes is not allowed")
                .hint("use '--allow-ashift-mismatch' to override")),
            false => Ok(()),
        }
    }

    fn ashift(&self) -> Result<Option<u32>, Failure> {
        let doing = format!("cannot add to '{}'", self.pool);
        let mut out = None;
        for text in &self.properties {
            match settings::parse(&doing, text)? {
                Setting::Ashift(n) => out = (n != 0).then_some(n),
                _ => return Err(Failure::new(format!("{doing}: only 'ashift' can be given"))),
            }
        }
        Ok(out)
    }

    fn add(
        &self,
        session: &Session,
        layout: &Layout,
        ashift: Option<u32>,
        devices: &engine::live::Devices,
    ) -> Result<bool, Failure> {
        let fail = |e| cannot("add to", &self.pool, e);
        let how = &self.live.how;
        let find = || {
            let mut found = found::find(session, &self.live.search, &self.pool, Reach::Known)?;
            // They may name the pool since an earlier command was cut off, and are taken already.
            let is_new = |path: &str| devices.keys().any(|new| new == path || is_same(new, path));
            let leaves = &mut found.candidate.leaves;
            leaves.retain(|_, seen| !seen.path.to_str().is_some_and(is_new));
            Ok(found)
        };
        let (found, pool) = live::take(session, find, how, &how.tuning.all(session)?, |_| {})?;
        let was_exported = found.is_exported();
        if let Err(refused) = refuse_own(&pool.look()?, devices) {
            // Another command was faster.
            if was_exported { pool.export() } else { pool.close() }.map_err(fail)?;
            return Err(refused);
        }
        let paths: Vec<PathBuf> = layout.paths().into_iter().map(PathBuf::from).collect();
        found.announce(&known::pools(session), &paths);
        let added = match layout.tops.is_empty() {
            true => Ok(()),
            false => pool.add_tops(&layout.tops, ashift, devices),
        };
        let added = added.and_then(|()| pool.add_aux(&layout.spares, &layout.cache, devices));
        let added = added.map_err(fail);
        if added.is_err() && was_exported {
            pool.export().map_err(fail)?;
        } else {
            found.refresh(&known::pools(session), &pool);
            pool.close().map_err(fail)?;
        }
        added.map(|()| was_exported)
    }

    /// Opens the pool with its new devices, which makes their labels those of an open pool.
    fn reopen(
        &self,
        session: &Session,
        layout: &Layout,
        was_exported: bool,
    ) -> Result<(), Failure> {
        let fail = |e| cannot("add to", &self.pool, e);
        let mut search = self.live.search.clone();
        if !search.is_empty() {
            search.extend(layout.paths().into_iter().map(PathBuf::from));
        }
        let how = &self.live.how;
        let find = || found::find(session, &search, &self.pool, Reach::Known);
        let (found, pool) = live::take(session, find, how, &how.tuning.all(session)?, |_| {})?;
        let logged = pool.log(&invocation(session)).map_err(fail);
        live::bring_what_is_missed(session, &pool);
        found.refresh(&known::pools(session), &pool);
        let told = tell_txgs(session, &pool, &self.live.how);
        let left = if was_exported { pool.export() } else { pool.close() }.map_err(fail);
        logged.and(told).and(left)
    }
}
