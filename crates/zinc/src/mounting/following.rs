//! What becomes of mounts when verbs change datasets.
//!
//! ```text
//! taken down -> the verb works -> mounted again: where it was, or where its property says now
//!     |
//!     programs use one: those before it are mounted again, and nothing is changed
//! ```

use super::{Wanted, all_wanted, mount, not_unmounted, said, shown};
use crate::cannot::cannot;
use crate::failure::{FAILED, Failure};
use crate::session::{Client, Session};
use ::mount::{How, Mounted, Options};
use engine::props;
use engine::{Pool, Source};
use std::process::ExitCode;

/// Which mounts are taken away while a verb works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of the datasets. What was where its property says is then where it says now.
    All,
    /// The same, and all come back to where they were.
    InPlace,
    /// Those alone that are where their property says.
    Following,
}

/// What a verb takes away while it works, and what comes back.
pub struct Down<'a> {
    /// The datasets.
    pub affects: &'a dyn Fn(&str) -> bool,
    /// Their names then; what has none is not mounted again.
    pub again: &'a dyn Fn(&str) -> Option<String>,
    /// Which of their mounts.
    pub which: Which,
    /// Also when programs use them.
    pub force: bool,
}

/// A mount that was taken away.
struct Taken {
    mounted: Mounted,
    /// It was where its property says.
    is_by_property: bool,
    /// Its directory was made for it, and is of no use without it.
    is_dir_ours: bool,
    /// Options that it has against its properties.
    given: Vec<String>,
}

impl Taken {
    fn of(client: &Client, mounted: Mounted) -> Result<Self, Failure> {
        let pool = client.pool.view();
        let _guard = pool.lock_datasets();
        let dataset = pool.dsl().by_name(&mounted.name);
        let dataset = dataset.map_err(|e| cannot("open", &mounted.name, e))?;
        let said = said(pool, &dataset)?;
        let is_by_property = !dataset.is_snapshot() && said.is_at(&mounted.dir);
        let usual = shown(&said.options);
        let given = shown(&mounted.options).into_iter().filter(|o| !usual.contains(o)).collect();
        let is_dir_ours = is_by_property && said.source != Source::Local;
        Ok(Self { mounted, is_by_property, is_dir_ours, given })
    }

    /// Mounts it again under this name.
    fn bring_back(&self, client: &Client, name: String, is_moved: bool) -> Result<(), Failure> {
        let pool = &client.pool;
        let moves = is_moved && self.is_by_property;
        if moves && !has_place(pool.view(), &name)? {
            return Ok(());
        }
        let dir = (!moves).then(|| self.mounted.dir.clone());
        let overlay = self.mounted.options.overlay;
        let wanted = Wanted { name, dir, overlay, options: self.given.clone() };
        mount(pool, &client.mounts, &wanted).map(drop)
    }
}

/// Whether a file system can be mounted by its properties.
fn has_place(pool: &Pool, name: &str) -> Result<bool, Failure> {
    let _guard = pool.lock_datasets();
    let dataset = pool.dsl().by_name(name).map_err(|e| cannot("mount", name, e))?;
    Ok(said(pool, &dataset)?.has_place())
}

/// Does something to datasets that must not be mounted meanwhile. What cannot be mounted again is
/// told, and the exit code says so.
pub fn taken_down(
    session: &Session,
    down: &Down<'_>,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let Some(client) = session.client() else { return work().map(|()| ExitCode::SUCCESS) };
    let mut taken: Vec<Taken> = Vec::new();
    let back = |taken: &[Taken], name: &dyn Fn(&str) -> Option<String>, is_moved: bool| {
        let mut code = ExitCode::SUCCESS;
        for one in taken.iter().rev() {
            if let Some(name) = name(&one.mounted.name)
                && let Err(failure) = one.bring_back(client, name, is_moved)
            {
                code = failure.report(session);
            }
        }
        code
    };
    let as_before = |name: &str| Some(name.to_owned());
    let how = if down.force { How::Forcibly } else { How::Politely };
    // Those mounted last lie over the others.
    for one in client.mounts.all().into_iter().rev().filter(|one| (down.affects)(&one.name)) {
        let one = Taken::of(client, one)?;
        if down.which == Which::Following && !one.is_by_property {
            continue;
        }
        let dir = &one.mounted.dir;
        if let Err(e) = client.mounts.unmount(dir, how) {
            back(&taken, &as_before, false);
            return Err(not_unmounted(dir, &e));
        }
        taken.push(one);
    }
    if let Err(failure) = work() {
        back(&taken, &as_before, false);
        return Err(failure);
    }
    let code = back(&taken, down.again, down.which != Which::InPlace);
    let there = client.mounts.all();
    for one in taken.iter().filter(|one| one.is_dir_ours) {
        if !there.iter().any(|mounted| mounted.dir == one.mounted.dir) {
            // Unless there is something in it.
            let _ = std::fs::remove_dir(&one.mounted.dir);
        }
    }
    Ok(code)
}

/// Properties of datasets that a verb changes.
pub struct Changes<'a> {
    /// The datasets.
    pub names: &'a [String],
    /// The properties, with their values when they are set to one.
    pub values: &'a [(&'a str, Option<&'a str>)],
    /// Mounts stay where they are, and nothing new is mounted.
    pub stays: bool,
}

impl Changes<'_> {
    /// Whether a property of this name gets a value for which that holds.
    fn any(&self, wanted: &str, holds: impl Fn(Option<&str>) -> bool) -> bool {
        let name = |given| props::find(&props::DATASET, given).map_or(given, |p| p.name);
        self.values.iter().any(|(given, value)| name(given) == wanted && holds(*value))
    }

    fn has(&self, wanted: &str) -> bool {
        self.any(wanted, |_| true)
    }

    /// Whether it is one of the datasets, or below one.
    fn is_below(&self, name: &str) -> bool {
        self.names.iter().any(|top| is_below(name, top))
    }

    /// Takes what follows from the new values over to the options of a mount; whether that changes
    /// any.
    fn options(&self, options: &mut Options, said: &Options) -> bool {
        let before = options.clone();
        for (property, option, value) in [
            ("readonly", &mut options.read_only, said.read_only),
            ("setuid", &mut options.set_id, said.set_id),
            ("devices", &mut options.devices, said.devices),
            ("exec", &mut options.exec, said.exec),
            ("atime", &mut options.atime, said.atime),
        ] {
            if self.has(property) {
                *option = value;
            }
        }
        *options != before
    }

    /// Changes the options of what is mounted.
    fn remount(&self, client: &Client) -> Result<(), Failure> {
        for one in client.mounts.all().into_iter().filter(|one| self.is_below(&one.name)) {
            let mut options = one.options.clone();
            let pool = client.pool.view();
            let said = {
                let _guard = pool.lock_datasets();
                let dataset = pool.dsl().by_name(&one.name);
                said(pool, &dataset.map_err(|e| cannot("mount", &one.name, e))?)?
            };
            if self.options(&mut options, &said.options) {
                client.mounts.remount(&one.dir, &options).map_err(|e| {
                    let what = "property may be set but unable to remount filesystem";
                    Failure::new(what).because(e.to_string())
                })?;
            }
        }
        Ok(())
    }
}

/// Changes properties; what is mounted follows them.
pub fn with_properties(
    session: &Session,
    changes: &Changes<'_>,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let Some(client) = session.client() else { return work().map(|()| ExitCode::SUCCESS) };
    let moves = !changes.stays && changes.has("mountpoint");
    let goes = !changes.stays && changes.any("canmount", |value| value == Some("off"));
    let affects = |name: &str| {
        (moves && changes.is_below(name)) || (goes && changes.names.iter().any(|n| n == name))
    };
    let again = |name: &str| Some(name.to_owned());
    let down = Down { affects: &affects, again: &again, which: Which::Following, force: false };
    let mut code = taken_down(session, &down, work)?;
    if let Err(failure) = changes.remount(client) {
        code = failure.report(session);
    }
    if moves && client.mounts_all && mount_new(session, |name| changes.is_below(name)).is_err() {
        code = ExitCode::from(FAILED);
    }
    Ok(code)
}

/// Mounts file systems of the pool that is held, as far as their properties want it and they are
/// not mounted. What fails is told.
fn mount_new(session: &Session, is_meant: impl Fn(&str) -> bool) -> Result<(), ExitCode> {
    let Some(client) = session.client() else { return Ok(()) };
    let there = client.mounts.all();
    let mut done = Ok(());
    for wanted in all_wanted(client.pool.view()).map_err(|failure| failure.report(session))? {
        let is_there = there.iter().any(|mounted| mounted.name == wanted.name);
        if is_there || !is_meant(&wanted.name) {
            continue;
        }
        if let Err(failure) = mount(&client.pool, &client.mounts, &wanted) {
            done = Err(failure.report(session));
        }
    }
    done
}

/// Makes a file system; where all are mounted by their properties, so is this, with those above it
/// that are new.
pub fn with_new(
    session: &Session,
    name: &str,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let Some(client) = session.client().filter(|client| client.mounts_all) else {
        return work().map(|()| ExitCode::SUCCESS);
    };
    let pool = client.pool.view();
    let is_new = |name: &str| {
        let _guard = pool.lock_datasets();
        pool.dsl().by_name(name).is_err()
    };
    let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
    let new: Vec<&str> = ends.map(|at| &name[..at]).filter(|name| is_new(name)).collect();
    work()?;
    let done = mount_new(session, |name| new.contains(&name));
    Ok(done.err().unwrap_or(ExitCode::SUCCESS))
}

/// Whether a dataset or snapshot is this one, or below it.
pub fn is_below(name: &str, top: &str) -> bool {
    let rest = name.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@']))
}
