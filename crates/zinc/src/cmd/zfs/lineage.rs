//! `zinc zfs rollback`, `clone`, `promote` and `rename`: what happens to a dataset and its line of
//! snapshots.

use super::owners::divided;
use crate::args::divide;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::mounting::{while_unmounted, with_created, with_new};
use crate::refusals::cannot;
use crate::session::Session;
use crate::stored_only;
use ::mount::datasets::{MountScope, Unmounting, is_below};
use engine::datasets::{self, NewerSnapshots};
use std::process::ExitCode;
use std::slice::from_ref;

/// Arguments of `zinc zfs rollback`.
#[derive(clap::Args)]
pub struct Rollback {
    #[command(flatten)]
    live: LiveArgs,
    /// Destroy later snapshots and bookmarks
    #[arg(short = 'r')]
    recursive: bool,
    /// Also destroy their clones
    #[arg(short = 'R')]
    clones: bool,
    /// Also when programs use the file system: they lose access to the files they have open
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
    /// Also create missing parents
    #[arg(short = 'p')]
    parents: bool,
    /// Do not mount it
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
    /// Also the snapshots of this name of all datasets below
    #[arg(short = 'r')]
    recursive: bool,
    /// Create missing parents of the new name
    #[arg(short = 'p', conflicts_with_all = ["recursive", "unmounted"])]
    parents: bool,
    /// Also when programs use the renamed datasets: they lose access to the files they have open
    #[arg(short = 'f')]
    force: bool,
    /// Leave mounts where they are
    #[arg(short = 'u', conflicts_with = "recursive")]
    unmounted: bool,
    /// What there is
    from: String,
    /// Its new name
    to: String,
}

impl Verb for Rollback {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live.is_for_everyone(session, from_ref(&self.snapshot)))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let name = &self.snapshot;
        if !name.contains('@') {
            let what = format!("cannot rollback to '{name}': not a snapshot");
            return Err(Failure::usage(what).hint("snapshots are named DATASET@SNAPSHOT"));
        }
        let younger = match (self.clones, self.recursive) {
            (true, _) => NewerSnapshots::DestroyWithClones,
            (false, true) => NewerSnapshots::Destroy,
            (false, false) => NewerSnapshots::Keep,
        };
        let head = name.split('@').next().unwrap_or_default();
        let clones = self.clones;
        let goes = |mounted: &str| mounted == head || (clones && mounted.contains('@'));
        let again = |mounted: &str| (mounted == head).then(|| mounted.to_owned());
        let which = MountScope::InPlace;
        let down = Unmounting { affects: &goes, again: &again, which, force: self.force };
        self.live.change(session, name, |pool| {
            let possible = datasets::may_roll_back(pool.view(), name, younger);
            possible.map_err(|e| cannot("rollback to", name, e))?;
            // Nothing is unmounted for what cannot be done.
            pool.check_takes_changes().map_err(|e| cannot("rollback to", name, e))?;
            while_unmounted(session, &down, || {
                let done = datasets::rollback(pool, name, younger);
                done.map_err(|e| cannot("rollback to", name, e))
            })
        })
    }
}

impl Verb for MakeClone {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live.is_for_everyone(session, from_ref(&self.snapshot)))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let (from, name) = (&self.snapshot, &self.name);
        let fail = |e| cannot("create", name, e);
        let mut clone = datasets::MakeClone::new(from, name).map_err(fail)?;
        if self.parents {
            clone = clone.with_parents();
        }
        let (limits, properties) = divided(session, &self.properties)?;
        for text in &properties {
            let (property, value) = divide(text)?;
            clone = clone.set(property, value);
        }
        clone = limits.into_iter().fold(clone, datasets::MakeClone::limit);
        let code = self.live.change(session, from, |pool| {
            let make = || clone.run(pool).map_err(fail);
            match self.unmounted {
                true => make().map(|()| ExitCode::SUCCESS),
                false => with_created(session, name, make),
            }
        })?;
        stored_only::note(session, &self.properties);
        Ok(code)
    }
}

impl Verb for Promote {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live.is_for_everyone(session, from_ref(&self.name)))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let name = &self.name;
        let promote = |e| cannot("promote", name, e);
        self.live.change(session, name, |pool| datasets::promote(pool, name).map_err(promote))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Rename {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live.is_for_everyone(session, from_ref(&self.from)))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let (from, to) = (&self.from, &self.to);
        if from == to && !self.recursive {
            // As OpenZFS: it has that name.
            return Ok(ExitCode::SUCCESS);
        }
        let fail = |e| cannot("rename", from, e);
        let mut rename = datasets::Rename::new(from, to).map_err(fail)?;
        if self.recursive {
            rename = rename.recursive().map_err(fail)?;
        }
        if self.parents {
            rename = rename.with_parents();
        }
        let is_of = |mounted: &str| is_below(mounted, from);
        let again = |mounted: &str| Some(format!("{to}{}", mounted.strip_prefix(&**from)?));
        let which = if self.unmounted { MountScope::InPlace } else { MountScope::All };
        let down = Unmounting { affects: &is_of, again: &again, which, force: self.force };
        let new_parent = to.rsplit_once('/').filter(|_| self.parents).map(|(parent, _)| parent);
        self.live.change(session, from, |pool| {
            pool.check_takes_changes().map_err(|e| fail(e.into()))?;
            let run = || rename.run(pool).map_err(fail);
            // New parents are mounted before what moves below them, so that they do not cover it.
            let mut parents = ExitCode::SUCCESS;
            let moved = while_unmounted(session, &down, || match new_parent {
                Some(name) => with_new(session, name, run).map(|code| parents = code),
                None => run(),
            })?;
            Ok(if moved == ExitCode::SUCCESS { parents } else { moved })
        })
    }
}
