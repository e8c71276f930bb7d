//! `zinc zfs rollback`, `clone`, `promote` and `rename`: what happens to a dataset and its line of
//! snapshots.

use super::below::split;
use super::changes::Target;
use super::create::make_above;
use super::destroy;
use crate::cannot::cannot;
use crate::failure::Failure;
use crate::kept;
use crate::live::LiveArgs;
use std::process::ExitCode;

/// Arguments of `zinc zfs rollback`.
#[derive(clap::Args)]
pub struct Rollback {
    #[command(flatten)]
    live: LiveArgs,
    /// Destroy the snapshots and bookmarks that are younger
    #[arg(short = 'r')]
    recursive: bool,
    /// Destroy clones of them too
    #[arg(short = 'R')]
    clones: bool,
    /// Accepted; zinc has nothing mounted here
    #[arg(short = 'f')]
    force: bool,
    /// The snapshot to go back to
    snapshot: String,
}

/// Arguments of `zinc zfs clone`.
#[derive(clap::Args)]
pub struct MakeClone {
    #[command(flatten)]
    live: LiveArgs,
    /// Make what is missing above it too
    #[arg(short = 'p')]
    parents: bool,
    /// Accepted; zinc mounts nothing here
    #[arg(short = 'u')]
    unmounted: bool,
    /// Set a property (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// What it is made of
    snapshot: String,
    /// The new file system or volume
    name: String,
}

/// Arguments of `zinc zfs promote`.
#[derive(clap::Args)]
pub struct Promote {
    #[command(flatten)]
    live: LiveArgs,
    /// The clone
    name: String,
}

/// Arguments of `zinc zfs rename`.
#[derive(clap::Args)]
pub struct Rename {
    #[command(flatten)]
    live: LiveArgs,
    /// Snapshots of the same name of all datasets below too
    #[arg(short = 'r')]
    recursive: bool,
    /// Make what is missing above the new name
    #[arg(short = 'p')]
    parents: bool,
    /// Accepted; zinc has nothing mounted here
    #[arg(short = 'f')]
    force: bool,
    /// Accepted; zinc mounts nothing here
    #[arg(short = 'u')]
    unmounted: bool,
    /// What there is
    from: String,
    /// Its new name
    to: String,
}

impl Rollback {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let name = &self.snapshot;
        if !name.contains('@') {
            let what = format!("cannot rollback to '{name}': not a snapshot");
            return Err(Failure::usage(what).hint("snapshots are named DATASET@SNAPSHOT"));
        }
        self.live.change(name, |pool| {
            if self.clones {
                let still = pool.view().hold_still();
                let younger = destroy::clones_after(pool.view().dsl(), name)?;
                destroy::refuse_held(pool.view().dsl(), name, &younger)?;
                drop(still);
                younger.iter().try_for_each(|step| destroy::run(pool, name, step, false))?;
            }
            let done = pool.rollback(name, self.recursive || self.clones);
            done.map_err(|e| cannot("rollback to", name, e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl MakeClone {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (from, name) = (&self.snapshot, &self.name);
        if crate::common::pool_of(from) != crate::common::pool_of(name) {
            let what = format!("cannot create '{name}': source and target pools differ");
            return Err(Failure::new(what));
        }
        self.live.change(from, |pool| {
            let dsl = pool.view().dsl();
            let origin = dsl.by_name(from).map_err(|e| cannot("create", from, e))?;
            let kind = dsl.kind(&origin);
            let changes = Target { doing: "create", name, kind, is_new: false };
            let is_auto = |p: &&String| p.as_str() == "refreservation=auto";
            let is_volume = kind == engine::DatasetKind::Volume;
            let (auto, given): (Vec<_>, Vec<_>) =
                self.properties.iter().partition(|p| is_volume && is_auto(p));
            let given: Vec<String> = given.into_iter().cloned().collect();
            let mut changes = changes.all(&given)?;
            if !auto.is_empty() {
                changes.push(super::set::whole_volume(pool, &origin)?);
            }
            if self.parents {
                if dsl.dir_by_name(name).is_ok() {
                    return Ok(());
                }
                make_above(pool, name, "create")?;
            }
            pool.clone_snapshot(from, name, changes).map_err(|e| cannot("create", name, e))
        })?;
        kept::note(&self.properties);
        Ok(ExitCode::SUCCESS)
    }
}

impl Promote {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let name = &self.name;
        self.live
            .change(name, |pool| pool.promote(name).map_err(|e| cannot("promote", name, e)))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Rename {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (from, to) = (&self.from, &self.to);
        let fail = |e| cannot("rename", from, e);
        let wrong = |why: &str| Err(Failure::new(format!("cannot rename '{from}': {why}")));
        if from.contains('#') {
            return wrong("bookmarks cannot be renamed");
        }
        let Some((head, _)) = split(from) else {
            if self.recursive {
                return Err(Failure::usage("-r renames snapshots"));
            }
            if to.contains(['@', '#']) {
                return wrong("the new name is one of a snapshot or bookmark");
            }
            if crate::common::pool_of(from) != crate::common::pool_of(to) {
                return wrong("datasets must be within same pool");
            }
            self.live.change(from, |pool| {
                if self.parents {
                    make_above(pool, to, "rename")?;
                }
                pool.rename(from, to).map_err(fail)
            })?;
            return Ok(ExitCode::SUCCESS);
        };
        let short = match to.split_once('@') {
            Some((base, short)) if base.is_empty() || base == head => short,
            Some(_) => return wrong("snapshots must be part of same dataset"),
            None if to.contains('/') => return wrong("snapshots must be part of same dataset"),
            None => to,
        };
        self.live
            .change(from, |pool| pool.rename_snapshot(from, short, self.recursive).map_err(fail))?;
        Ok(ExitCode::SUCCESS)
    }
}
