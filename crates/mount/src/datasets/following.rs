//! Unmounts and remounts when datasets change.
//!
//! ```text
//! taken down -> the change -> mounted again: where it was, or where its property says now
//!     |           |
//!     |           it fails: all are mounted again where they were
//!     programs use one: those before it are mounted again, and nothing is changed
//! ```

use super::{DatasetError, MountRequest, Result, mount, properties, shown, wanted_among};
use crate::system::MountTree;
use crate::{Error, Mounted, Mounts, Options, UnmountMode, system};
use engine::props;
use engine::{DatasetKind, LivePool, Pool, Source};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which mounts are taken away during a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountScope {
    /// Those of the datasets. A dataset that was mounted where its property says is mounted
    /// afterwards where it says then.
    All,
    /// The same, and all come back to where they were, with what is mounted in them.
    InPlace,
    /// Those alone that are where their property says.
    Following,
    /// The same, with what is mounted in them, which comes back to where it was.
    FollowingWithInner,
}

impl MountScope {
    fn is_following(self) -> bool {
        matches!(self, Self::Following | Self::FollowingWithInner)
    }

    fn has_inner(self) -> bool {
        matches!(self, Self::InPlace | Self::FollowingWithInner)
    }
}

/// The mounts to remove during a change, and those to restore.
pub struct Unmounting<'a> {
    /// The datasets.
    pub affects: &'a dyn Fn(&str) -> bool,
    /// Their names then; what has none is not mounted again.
    pub again: &'a dyn Fn(&str) -> Option<String>,
    /// Which of their mounts.
    pub which: MountScope,
    /// Also when programs use them.
    pub force: bool,
}

/// A mount that is taken away.
pub struct Unmounted {
    mounted: Mounted,
    /// It goes only because it lies in one that does, and comes back to where it was.
    is_inner: bool,
    /// It was where its property says.
    is_by_property: bool,
    /// Its directory was made for it, and is of no use without it.
    is_dir_ours: bool,
    /// Options that it has against its properties.
    given: Vec<String>,
}

/// The mounts of a pool that is held: they follow its datasets.
#[derive(Clone, Copy)]
pub struct Follower<'a> {
    /// The pool.
    pub pool: &'a Arc<LivePool>,
    /// The mounts of this process.
    pub mounts: &'a Mounts,
    /// Datasets made later are mounted where their properties say.
    pub mounts_all: bool,
}

/// The result of a change, and of mounts that should have been restored after it.
pub type Changed<E> = (std::result::Result<(), E>, Vec<DatasetError>);

impl Follower<'_> {
    /// Describes a mount before it is removed.
    fn taken(&self, mounted: Mounted) -> Result<Unmounted> {
        let pool = self.pool.view();
        let dsl = pool.datasets();
        let fail = |e: engine::Error| DatasetError::engine("open", &mounted.name, e);
        let dataset = dsl.by_name(&mounted.name).map_err(|e| fail(e.into()))?;
        let values = properties(&dsl, &dataset).map_err(fail)?;
        let is_by_property = !dataset.is_snapshot() && values.is_at(&mounted.dir);
        let usual = shown(&values.options);
        let given = shown(&mounted.options).into_iter().filter(|o| !usual.contains(o)).collect();
        let is_dir_ours = is_by_property && values.source != Source::Local;
        Ok(Unmounted { mounted, is_inner: false, is_by_property, is_dir_ours, given })
    }

    /// Mounts something again under this name.
    fn mount_again(&self, taken: &Unmounted, name: String, is_moved: bool) -> Result<()> {
        let moves = is_moved && taken.is_by_property;
        if is_volume(self.pool.view(), &name) {
            return Ok(());
        }
        if moves && !has_place(self.pool.view(), &name)? {
            return Ok(());
        }
        let dir = (!moves).then(|| taken.mounted.dir.clone());
        if taken.is_inner {
            // Its parent may be as it was before there was this directory. Whether there is one
            // shows when it is mounted.
            let _ = std::fs::create_dir_all(&taken.mounted.dir);
        }
        let overlay = taken.mounted.options.overlay;
        let wanted = MountRequest { name, dir, overlay, options: taken.given.clone() };
        mount(&self.pool.into(), self.mounts, &wanted).map(drop)
    }

    /// The mounts that go for a change. Nothing else is mounted in them: it would go with them.
    fn meant(&self, down: &Unmounting<'_>) -> Result<Vec<Unmounted>> {
        let mut meant: Vec<Unmounted> = Vec::new();
        let tree = MountTree::read();
        for one in self.mounts.all() {
            let is_in =
                |outer: &Unmounted| tree.within(&outer.mounted.dir).any(|inner| inner == one.dir);
            let is_affected = (down.affects)(&one.name);
            let is_inner = !is_affected && down.which.has_inner() && meant.iter().any(is_in);
            if !is_affected && !is_inner {
                continue;
            }
            let taken = Unmounted { is_inner, ..self.taken(one)? };
            if is_inner || !down.which.is_following() || taken.is_by_property {
                meant.push(taken);
            }
        }
        for outer in &meant {
            let dir = &outer.mounted.dir;
            let goes = |inner: &&Path| meant.iter().any(|one| one.mounted.dir == *inner);
            if let Some(inner) = tree.within(dir).find(|inner| !goes(inner)) {
                let inner = Error::Inner(dir.clone(), inner.to_owned());
                return Err(DatasetError::unmount(dir, inner));
            }
        }
        Ok(meant)
    }

    /// Removes mounts, those made last first: they are above the others. When one stays, or lingers
    /// that `must_end`, those removed before are restored; failures of that are in the second
    /// value.
    fn take_away(
        &self,
        meant: Vec<Unmounted>,
        must_end: impl Fn(&str) -> bool,
        how: UnmountMode,
    ) -> std::result::Result<Vec<Unmounted>, (DatasetError, Vec<DatasetError>)> {
        let mut taken: Vec<Unmounted> = Vec::new();
        for one in meant.into_iter().rev() {
            let dir = &one.mounted.dir;
            if let Err(e) = self.mounts.unmount(dir, how) {
                return Err((DatasetError::unmount(dir, e), self.put_back(&taken)));
            }
            taken.push(one);
        }
        match self.mounts.end_lingering(must_end, how) {
            Ok(()) => Ok(taken),
            Err((dir, e)) => Err((DatasetError::unmount(&dir, e), self.put_back(&taken))),
        }
    }

    /// Unmounts everything, unless programs use something of it. Returns what is needed to mount it
    /// again.
    ///
    /// # Errors
    /// A mount is in use, or stays in the kernel's table. The second value lists mounts that could
    /// not be restored.
    pub fn take_all(
        &self,
    ) -> std::result::Result<Vec<Unmounted>, (DatasetError, Vec<DatasetError>)> {
        let meant = self.mounts.all().into_iter().map(|one| self.taken(one)).collect::<Result<_>>();
        self.take_away(meant.map_err(|e| (e, Vec::new()))?, |_| true, UnmountMode::Politely)
    }

    /// Unmounts what is seen at these directories, those made last first. When one stays, those
    /// unmounted before are mounted again, as with OpenZFS.
    ///
    /// # Errors
    /// None of this process is there, programs use one, the system refuses. The second value lists
    /// mounts that could not be restored.
    pub fn unmount(
        &self,
        dirs: &[PathBuf],
        how: UnmountMode,
    ) -> std::result::Result<(), (DatasetError, Vec<DatasetError>)> {
        let meant = self.mounts.seen_at(dirs).into_iter();
        let meant = meant.map(|one| self.taken(one)).collect::<Result<Vec<_>>>();
        let meant = meant.map_err(|e| (e, Vec::new()))?;
        match dirs.first().filter(|_| meant.is_empty()) {
            Some(dir) => {
                let none = Error::NotMounted(dir.clone());
                Err((DatasetError::unmount(dir, none), Vec::new()))
            }
            None => self.take_away(meant, |_| false, how).map(drop),
        }
    }

    /// Mounts again, where it was, what was taken away; what does not come back.
    pub fn put_back(&self, taken: &[Unmounted]) -> Vec<DatasetError> {
        self.put(taken, |one| Some(one.mounted.name.clone()), false, |_| Vec::new())
    }

    /// Mounts again what was taken away, each under its `name`; `above` first mounts what is new
    /// above it.
    fn put(
        &self,
        taken: &[Unmounted],
        name: impl Fn(&Unmounted) -> Option<String>,
        is_moved: bool,
        above: impl Fn(&str) -> Vec<DatasetError>,
    ) -> Vec<DatasetError> {
        let mut failed = Vec::new();
        for one in taken.iter().rev() {
            let Some(name) = name(one) else { continue };
            failed.extend(above(&name));
            failed.extend(self.mount_again(one, name, is_moved).err());
        }
        failed
    }

    /// Refuses when one of these datasets is mounted: for users without the right to unmount.
    ///
    /// # Errors
    /// It is.
    pub fn check_unmounted(&self, affects: &dyn Fn(&str) -> bool) -> Result<()> {
        match self.mounts.all().into_iter().find(|mounted| affects(&mounted.name)) {
            None => Ok(()),
            Some(mounted) => Err(DatasetError::NotPermitted(mounted.dir)),
        }
    }

    /// Refuses when programs use a mount that would be taken away, or something is mounted in one:
    /// before long work at whose end that is done. Only root can find out what programs use.
    ///
    /// # Errors
    /// They do, or it is.
    pub fn check_unused(&self, down: &Unmounting<'_>) -> Result<()> {
        let meant = self.meant(down)?;
        for dir in meant.iter().map(|one| &one.mounted.dir) {
            // A mount in it uses it, and goes before it: no more is known then.
            if system::mounted_in(dir).is_empty() && system::is_used(dir) {
                return Err(DatasetError::unmount(dir, Error::Busy(dir.clone())));
            }
        }
        Ok(())
    }

    /// Changes datasets that must not be mounted meanwhile.
    pub fn while_unmounted<E: From<DatasetError>>(
        &self,
        down: &Unmounting<'_>,
        change: impl FnOnce() -> std::result::Result<(), E>,
    ) -> Changed<E> {
        self.change_unmounted(down, change, |_| Vec::new())
    }

    /// The same; see [`Self::put`] for `above`.
    fn change_unmounted<E: From<DatasetError>>(
        &self,
        down: &Unmounting<'_>,
        change: impl FnOnce() -> std::result::Result<(), E>,
        above: impl Fn(&str) -> Vec<DatasetError>,
    ) -> Changed<E> {
        let how = if down.force { UnmountMode::Forcibly } else { UnmountMode::Politely };
        // A mount that only moves may linger where it was.
        let must_end = |name: &str| !down.which.is_following() && (down.affects)(name);
        let meant = self.meant(down).map_err(|e| (e, Vec::new()));
        let taken = match meant.and_then(|meant| self.take_away(meant, must_end, how)) {
            Ok(taken) => taken,
            Err((e, left)) => return (Err(e.into()), left),
        };
        if let Err(failure) = change() {
            return (Err(failure), self.put_back(&taken));
        }
        let name = |one: &Unmounted| match one.is_inner {
            true => Some(one.mounted.name.clone()),
            false => (down.again)(&one.mounted.name),
        };
        let left = self.put(&taken, name, down.which != MountScope::InPlace, above);
        let there = self.mounts.all();
        for one in taken.iter().filter(|one| one.is_dir_ours) {
            if !there.iter().any(|mounted| mounted.dir == one.mounted.dir) {
                // Unless there is something in it.
                let _ = std::fs::remove_dir(&one.mounted.dir);
            }
        }
        (Ok(()), left)
    }

    /// Changes properties; what is mounted follows them.
    pub fn with_properties<E: From<DatasetError>>(
        &self,
        changes: &Changes<'_>,
        change: impl FnOnce() -> std::result::Result<(), E>,
    ) -> Changed<E> {
        let moves = !changes.stays && changes.has("mountpoint");
        let affects = |name: &str| changes.moves(name);
        let again = |name: &str| Some(name.to_owned());
        let which = match changes.has("mountpoint") {
            true => MountScope::Following,
            false => MountScope::FollowingWithInner,
        };
        let down = Unmounting { affects: &affects, again: &again, which, force: false };
        // A file system that is mounted now and was not before would cover those below it that came
        // back earlier.
        let above = |name: &str| match moves && self.mounts_all {
            true => self.mount_new_above(name, |above| changes.is_below(above)),
            false => Vec::new(),
        };
        let (done, mut left) = self.change_unmounted(&down, change, above);
        if done.is_err() {
            return (done, left);
        }
        left.extend(self.remount(changes));
        if moves && self.mounts_all {
            left.extend(self.mount_new(|name| changes.is_below(name)));
        }
        (done, left)
    }

    /// Makes a file system; where all are mounted by their properties, so is this, with those above
    /// it that are new.
    pub fn with_new<E: From<DatasetError>>(
        &self,
        name: &str,
        change: impl FnOnce() -> std::result::Result<(), E>,
    ) -> Changed<E> {
        if !self.mounts_all {
            return (change(), Vec::new());
        }
        let pool = self.pool.view();
        // A dataset that is being received exists before it is complete.
        let is_new = |name: &str| {
            let dsl = pool.datasets();
            dsl.by_name(name).map_or(true, |there| there.is_partly_received())
        };
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        let new: Vec<&str> = ends.map(|at| &name[..at]).filter(|name| is_new(name)).collect();
        match change() {
            Ok(()) => (Ok(()), self.mount_new(|name| new.contains(&name))),
            failed => (failed, Vec::new()),
        }
    }

    /// Mounts file systems of the pool, as far as their properties want it and they are not
    /// mounted; what fails.
    pub fn mount_new(&self, is_meant: impl Fn(&str) -> bool) -> Vec<DatasetError> {
        let there: BTreeSet<String> = self.mounts.all().into_iter().map(|one| one.name).collect();
        let is_new = |name: &str| is_meant(name) && !there.contains(name);
        let new = match wanted_among(self.pool.view(), is_new) {
            Ok(new) => new,
            Err(e) => return vec![e],
        };
        let pool = self.pool.into();
        new.iter().filter_map(|wanted| mount(&pool, self.mounts, wanted).err()).collect()
    }

    /// Mounts the file systems above `name` that are meant, as [`Self::mount_new`] does.
    fn mount_new_above(&self, name: &str, is_meant: impl Fn(&str) -> bool) -> Vec<DatasetError> {
        let there = self.mounts.all();
        let ends = name.match_indices('/').map(|(at, _)| at);
        let above = ends.map(|at| &name[..at]).filter(|above| is_meant(above));
        let new: Vec<&str> =
            above.filter(|above| !there.iter().any(|one| one.name == *above)).collect();
        match new.is_empty() {
            true => Vec::new(),
            false => self.mount_new(|name| new.contains(&name)),
        }
    }

    /// Changes the options of what is mounted; what fails.
    fn remount(&self, changes: &Changes<'_>) -> Vec<DatasetError> {
        if !OPTIONS.iter().any(|property| changes.has(property)) {
            return Vec::new();
        }
        let remount = |one: Mounted| {
            let Mounted { name, dir, mut options } = one;
            let wanted = options_of(self.pool.view(), &name)?;
            match changes.options(&mut options, &wanted) {
                false => Ok(()),
                true => self
                    .mounts
                    .remount(&dir, &options)
                    .map_err(|error| DatasetError::Remount { name, error }),
            }
        };
        let meant = self.mounts.all().into_iter().filter(|one| changes.is_below(&one.name));
        meant.filter_map(|one| remount(one).err()).collect()
    }
}

/// Whether there is a volume of this name, which is not mounted.
fn is_volume(pool: &Pool, name: &str) -> bool {
    let dsl = pool.datasets();
    dsl.by_name(name).is_ok_and(|dataset| dsl.kind(&dataset) == DatasetKind::Volume)
}

/// The options that the properties of a dataset say.
fn options_of(pool: &Pool, name: &str) -> Result<Options> {
    let dsl = pool.datasets();
    let fail = |e: engine::Error| DatasetError::engine("mount", name, e);
    let dataset = dsl.by_name(name).map_err(|e| fail(e.into()))?;
    Ok(properties(&dsl, &dataset).map_err(fail)?.options)
}

/// Whether a file system can be mounted by its properties.
fn has_place(pool: &Pool, name: &str) -> Result<bool> {
    let dsl = pool.datasets();
    let fail = |e: engine::Error| DatasetError::engine("mount", name, e);
    let dataset = dsl.by_name(name).map_err(|e| fail(e.into()))?;
    Ok(properties(&dsl, &dataset).map_err(fail)?.has_place())
}

/// The properties that are options of mounts.
const OPTIONS: [&str; 7] = ["readonly", "setuid", "devices", "exec", "atime", "xattr", "acltype"];

/// Properties of datasets that change.
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

    /// Whether a mount of this dataset moves or goes.
    #[must_use]
    pub fn moves(&self, name: &str) -> bool {
        let goes = || self.any("canmount", |value| value == Some("off"));
        let is_named = || self.names.iter().any(|n| n == name);
        !self.stays && ((self.has("mountpoint") && self.is_below(name)) || (goes() && is_named()))
    }

    /// Whether it is one of the datasets, or below one.
    fn is_below(&self, name: &str) -> bool {
        self.names.iter().any(|top| is_below(name, top))
    }

    /// Takes what follows from the new values over to the options of a mount; whether that changes
    /// any.
    fn options(&self, options: &mut Options, wanted: &Options) -> bool {
        let before = options.clone();
        let values = [
            (&mut options.read_only, wanted.read_only),
            (&mut options.set_id, wanted.set_id),
            (&mut options.devices, wanted.devices),
            (&mut options.exec, wanted.exec),
            (&mut options.atime, wanted.atime),
            (&mut options.xattrs, wanted.xattrs),
            (&mut options.posix_acls, wanted.posix_acls),
        ];
        for (property, (option, value)) in OPTIONS.iter().zip(values) {
            if self.has(property) {
                *option = value;
            }
        }
        // A property that is set counts for what had another option, too.
        options.overrides_readonly &= !self.has("readonly");
        *options != before
    }
}

/// Whether a dataset or snapshot is this one, or below it.
#[must_use]
pub fn is_below(name: &str, top: &str) -> bool {
    let rest = name.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@']))
}
