//! `zinc zpool add`: more vdevs for a pool.

use super::claim::claim;
use super::layout::{self, Layout, Level};
use super::settings::{self, Setting};
use crate::cannot::cannot;
use crate::failure::Failure;
use crate::live::{self, LiveArgs, invocation, tell_txgs};
use crate::ui;
use engine::live::TopUse;
use engine::ondisk::config::{AllocBias, VdevConfig, VdevKind};
use engine::pool::CandidateState;
use std::path::PathBuf;
use std::process::ExitCode;

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
    /// ashift=N: log2 of the sector size of the new vdevs
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// The pool
    pool: String,
    /// What it gets
    #[arg(required = true, value_name = "VDEV")]
    vdevs: Vec<String>,
}

/// What a vdev that is there is for.
fn class_of(top: &VdevConfig) -> TopUse {
    match &top.alloc_bias {
        _ if top.is_log => TopUse::Log,
        Some(AllocBias::Log) => TopUse::Log,
        Some(AllocBias::Special) => TopUse::Special,
        Some(AllocBias::Dedup) => TopUse::Dedup,
        _ => TopUse::Normal,
    }
}

fn level_of(top: &VdevConfig) -> Option<Level> {
    Some(match top.kind {
        VdevKind::Disk | VdevKind::File => Level::Single,
        VdevKind::Mirror => Level::Mirror(top.children.len()),
        VdevKind::Raidz { nparity } => Level::Raidz(u64::from(nparity), top.children.len()),
        _ => return None,
    })
}

/// A vdev that is there, as the layout shows new ones.
fn shown(top: &VdevConfig) -> String {
    let path = |v: &VdevConfig| v.path.clone().unwrap_or_else(|| v.guid.to_string());
    let Some(level) = level_of(top).filter(|l| *l != Level::Single) else {
        return layout::line(2, &path(top));
    };
    let leaves = top.children.iter().map(|c| layout::line(4, &path(c)));
    layout::line(2, &level.name()) + &leaves.collect::<String>()
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let layout = layout::parse(&self.vdevs)?;
        let candidate = live::find(&self.live.search, &self.pool)?;
        let pool = engine::Pool::open_candidate(
            &candidate,
            &live::options(&self.live.search, self.live.how.cache_mib),
        )?;
        let tops = &pool.config().vdev_tree.children;
        let normal = tops.iter().filter(|t| class_of(t) == TopUse::Normal);
        let present: Vec<Level> = normal.filter_map(level_of).collect();
        if !self.force
            && let Some(why) = layout.objection(&present)
        {
            return Err(Failure::new("invalid vdev specification")
                .because(why)
                .hint("use '-f' to override"));
        }
        let ashift = self.ashift()?;
        let devices = claim(&layout, self.force)?;
        if self.dry {
            let used = tops.iter().filter(|t| !t.is_hole && level_of(t).is_some());
            let used: Vec<_> = used.map(|t| (class_of(t), shown(t))).collect();
            let text = layout.to_text(&self.pool, &used);
            let name = &self.pool;
            ui::out(&format!("would update '{name}' to the following configuration:\n\n{text}"));
            return Ok(ExitCode::SUCCESS);
        }
        drop(pool);
        self.add(&candidate, &layout, ashift, &devices)?;
        // They are taken anew, by the pool they belong to now.
        drop(devices);
        self.reopen(&layout, candidate.state() == CandidateState::Exported)?;
        Ok(ExitCode::SUCCESS)
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
        candidate: &engine::Candidate,
        layout: &Layout,
        ashift: Option<u32>,
        devices: &engine::live::Devices,
    ) -> Result<(), Failure> {
        let fail = |e| cannot("add to", &self.pool, e);
        let how = &self.live.how;
        let options = live::import_options(&self.live.search, how.cache_mib, &how.tuning)?;
        let pool = live::import(candidate, &options)?;
        let added = match layout.tops.is_empty() {
            true => Ok(()),
            false => pool.add_tops(&layout.tops, ashift, devices),
        };
        let added = added.and_then(|()| pool.add_aux(&layout.spares, &layout.cache, devices));
        let added = added.map_err(fail);
        if added.is_err() && candidate.state() == CandidateState::Exported {
            pool.export().map_err(fail)?;
            return added;
        }
        pool.close().map_err(fail)?;
        added
    }

    /// Opens the pool with its new devices, which makes their labels those of an open pool.
    fn reopen(&self, layout: &Layout, was_exported: bool) -> Result<(), Failure> {
        let fail = |e| cannot("add to", &self.pool, e);
        let mut search = self.live.search.clone();
        if search.is_empty() {
            search = engine::pool::default_search_paths();
        }
        search.extend(layout.paths().into_iter().map(PathBuf::from));
        let candidate = live::find(&search, &self.pool)?;
        let how = &self.live.how;
        let options = live::import_options(&search, how.cache_mib, &how.tuning)?;
        let pool = live::import(&candidate, &options)?;
        pool.log(&invocation()).map_err(fail)?;
        tell_txgs(&pool, &self.live.how)?;
        if was_exported { pool.export() } else { pool.close() }.map_err(fail)
    }
}
