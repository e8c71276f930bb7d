//! `zinc zpool add`: more vdevs for a pool.

use super::claim::{claim, refused};
use super::each;
use super::naming::Naming;
use super::settings::{self, Setting};
use crate::args::SearchScope;
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::found;
use crate::known;
use crate::live::{self, LiveArgs, invocation, tell_txgs};
use crate::refusals::cannot;
use crate::served::Server;
use crate::session::Session;
use crate::ui;
use engine::config::{VdevConfig, VdevKind};
use engine::layout::{self, Layout, Level};
use engine::live::{SpaceClass, is_same};
use engine::pools::{Add, class_of};
use std::path::{Path, PathBuf};
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

/// A vdev that is there, as the layout shows new ones.
fn shown(top: &VdevConfig, naming: Naming) -> String {
    let path = |v: &VdevConfig| naming.names().of_leaf(v);
    if matches!(top.kind, VdevKind::Disk | VdevKind::File) {
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
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
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
        let found = found::find(session, &self.live.search, &self.pool, SearchScope::Known)?;
        let mut options = live::options(session, &self.live.search, self.live.how.cache_mib);
        found.complete(&mut options);
        let pool = engine::Pool::open_candidate(&found.candidate, &options)?;
        let tops = &pool.config().vdev_tree.children;
        let adding = Add::new(layout)
            .with_ashift(self.ashift()?)
            .despite_mismatch(self.force || self.allow_replication_mismatch)
            .despite_ashift(self.force || self.allow_ashift_mismatch);
        let refused = |e| refused("add to", &self.pool, e);
        adding.check(&pool).map_err(refused)?;
        let layout = adding.layout();
        let force = self.force || self.allow_in_use;
        let devices = claim(session, layout, Some(&pool), force, self.live.how.wait)?;
        pool.refuse_own(&devices).map_err(|e| refused(e.into()))?;
        if self.dry {
            let used = tops.iter().filter(|t| !t.is_hole && Level::of_config(t).is_some());
            let used: Vec<_> = used.map(|t| (class_of(t), shown(t, self.naming))).collect();
            let paths = |all: &[VdevConfig]| -> Vec<String> {
                all.iter().map(|c| self.naming.names().of_leaf(c)).collect()
            };
            let aux = [paths(pool.l2cache()), paths(pool.spares())];
            let text = views::layout::text(layout, &self.pool, &used, &aux);
            let name = &self.pool;
            ui::out(
                session,
                &format!("would update '{name}' to the following configuration:\n\n{text}"),
            );
            return Ok(ExitCode::SUCCESS);
        }
        drop(pool);
        let was_exported = self.add(session, &adding, &devices)?;
        // They are taken anew, by the pool they belong to now.
        drop(devices);
        self.reopen(session, layout, was_exported)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
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
        adding: &Add,
        devices: &engine::live::Devices,
    ) -> Result<bool, Failure> {
        let fail = |e| cannot("add to", &self.pool, e);
        let how = &self.live.how;
        let find = || {
            let mut found =
                found::find(session, &self.live.search, &self.pool, SearchScope::Known)?;
            // They may name the pool since an earlier command was cut off, and are taken already.
            let is_new = |seen: &Path| {
                devices.keys().any(|new| {
                    let new = Path::new(new);
                    new == seen || is_same(new, seen)
                })
            };
            let leaves = &mut found.candidate.leaves;
            leaves.retain(|_, seen| !is_new(&seen.path));
            Ok(found)
        };
        let (found, pool) = live::take(session, find, how, &how.tuning.all(session)?, |_| {})?;
        let was_exported = found.is_exported();
        if let Err(e) = pool.look()?.refuse_own(devices) {
            // Another command was faster.
            if was_exported { pool.export() } else { pool.close() }.map_err(fail)?;
            return Err(refused("add to", &self.pool, e));
        }
        let paths: Vec<PathBuf> = adding.layout().paths().into_iter().map(PathBuf::from).collect();
        found.announce(&known::pools(session), &paths);
        let added = adding.run(&pool, devices).map_err(|e| refused("add to", &self.pool, e));
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
        let find = || found::find(session, &search, &self.pool, SearchScope::Known);
        let (found, pool) = live::take(session, find, how, &how.tuning.all(session)?, |_| {})?;
        let logged = pool.log(&invocation(session)).map_err(fail);
        live::bring_what_is_missed(session, &pool);
        found.refresh(&known::pools(session), &pool);
        let told = tell_txgs(session, &pool, &self.live.how);
        let left = if was_exported { pool.export() } else { pool.close() }.map_err(fail);
        logged.and(told).and(left)
    }
}
