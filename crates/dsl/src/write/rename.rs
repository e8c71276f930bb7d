//! Renaming.

use super::crypt::check_move as check_key_move;
use super::limits::Counted;
use super::meta::DslCx;
use super::room::check_move;
use super::spacing::Delta;
use crate::error::{Error, Refusal, Result};
use crate::names::{NAME_MAX, NameKind, check_component, check_name, is_within};
use crate::tree::{Dataset, Dir, Dsl};
use ondisk::dsl::DslDir;
use std::sync::Arc;

/// Whether the file system or volume `from` can become `to`: the place above is there and not below
/// itself, the name is free, no name below becomes too long, limits allow it. Returns both
/// directories: the one to be moved, the one above.
pub fn check_rename(dsl: &Dsl, from: &str, to: &str) -> Result<(Arc<Dir>, Arc<Dir>)> {
    let dir = check_names(dsl, from, to)?;
    let (above, last) = to.rsplit_once('/').ok_or_else(|| Error::BadName(to.to_owned()))?;
    let parent = dsl.dir_by_name(above)?;
    if dsl.names_in(parent.phys.child_zap)?.iter().any(|(n, _)| n == last) {
        return Err(Error::refused(to, Refusal::Exists));
    }
    check_place(dsl, &dir, to, &parent)?;
    Ok((dir, parent))
}

/// The same before what is missing above `to` is made: where nothing is, whether `from` can go
/// below the nearest place that is there.
pub fn check_rename_with_parents(dsl: &Dsl, from: &str, to: &str) -> Result<()> {
    let dir = check_names(dsl, from, to)?;
    let above = to.match_indices('/').rev().filter_map(|(at, _)| to.get(..at));
    for (missing, above) in above.enumerate() {
        match dsl.dir_by_name(above) {
            Ok(_) if missing == 0 => return check_rename(dsl, from, to).map(|_| ()),
            Ok(parent) => return check_place(dsl, &dir, to, &parent),
            Err(Error::NoSuchDataset(_)) => {}
            Err(e) => return Err(e),
        }
    }
    Err(Error::BadName(to.to_owned()))
}

/// Whether `from` is there and has a name to lose, and `to` is a name; the directory of `from`.
fn check_names(dsl: &Dsl, from: &str, to: &str) -> Result<Arc<Dir>> {
    if check_name(to)? != NameKind::Dataset {
        return Err(Error::BadName(to.to_owned()));
    }
    // A dataset into which a stream is being received has a name that no user gives or takes.
    check_name(from)?;
    let dir = dsl.dir_by_name(from)?;
    match dir.object == dsl.root_object() {
        true => Err(Error::refused(from, Refusal::PoolRoot)),
        false => Ok(dir),
    }
}

/// Whether a dataset can become `to`, somewhere below `parent`.
fn check_place(dsl: &Dsl, dir: &Dir, to: &str, parent: &Arc<Dir>) -> Result<()> {
    let from = dir.name.as_str();
    if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
        return Err(Error::refused(to, Refusal::BelowItself));
    }
    for (name, _) in dsl.datasets() {
        let rest = match name.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '@']) => rest,
            _ => continue,
        };
        if to.len() + rest.len() > NAME_MAX {
            return Err(Error::BadName(format!("{to}{rest}")));
        }
        if let Some(path) = rest.split('@').next() {
            check_name(&format!("{to}{path}"))?;
        }
    }
    if parent.object != dir.phys.parent {
        dsl.check_parent(to, parent)?;
        check_key_move(dsl, dir, parent)?;
        check_moved_limits(dsl, dir, parent)?;
    }
    Ok(())
}

/// Limits above the new place that are not above the old one have to take the whole subtree.
fn check_moved_limits(dsl: &Dsl, dir: &Dir, parent: &Dir) -> Result<()> {
    let prefix = format!("{}/", dir.name);
    let (mut filesystems, mut snapshots) = (0, 0);
    for (name, _) in dsl.datasets() {
        let inside = name.strip_prefix(dir.name.as_str());
        let inside = inside.is_some_and(|r| r.is_empty() || r.starts_with(['/', '@']));
        match name.contains('@') {
            true if inside => snapshots += 1,
            false if inside && (name == dir.name || name.starts_with(&prefix)) => filesystems += 1,
            _ => {}
        }
    }
    let old: Vec<u64> = dsl.ancestry(dir)?.iter().map(|d| d.object).collect();
    for above in dsl.ancestry(parent)? {
        if old.contains(&above.object) {
            break;
        }
        dsl.check_limits_at(&above, Counted::Filesystems, filesystems)?;
        dsl.check_limits_at(&above, Counted::Snapshots, snapshots)?;
    }
    Ok(())
}

/// Renames a file system or volume with all below it, within its pool.
///
/// Changes on disk: the tables of children of the old and the new place; when they differ, its
/// directory's parent, and space and counts of all directories above both.
pub fn rename_dir(cx: &DslCx<'_>, dsl: &Dsl, from: &str, to: &str) -> Result<()> {
    let (dir, parent) = check_rename(dsl, from, to)?;
    if parent.object != dir.phys.parent {
        let old = from.rsplit_once('/').map_or("", |(above, _)| above);
        let taken = dir.phys.used.max(dir.phys.reserved);
        check_move(dsl, &*dsl.dir_by_name(old)?, &parent, taken, cx.pool_size)?;
    }
    let last = |name: &str| name.rsplit_once('/').map(|(_, l)| l.to_owned());
    let bad = || Error::BadName(to.to_owned());
    let (old_name, new_name) = (last(from).ok_or_else(bad)?, last(to).ok_or_else(bad)?);
    let old_parent = dir.phys.parent;
    cx.remove(cx.dir(old_parent)?.child_zap, &old_name)?;
    if old_parent != parent.object {
        let d = cx.dir(dir.object)?;
        let space = Delta {
            used: d.used.cast_signed(),
            compressed: d.compressed.cast_signed(),
            uncompressed: d.uncompressed.cast_signed(),
        };
        let unused = Delta::used(d.reserved.saturating_sub(d.used).cast_signed());
        cx.charge(old_parent, DslDir::USED_CHILD, space.negated())?;
        cx.charge(old_parent, DslDir::USED_CHILD_RESERVED, unused.negated())?;
        cx.charge(parent.object, DslDir::USED_CHILD, space)?;
        cx.charge(parent.object, DslDir::USED_CHILD_RESERVED, unused)?;
        cx.move_counts(dir.object, old_parent, parent.object)?;
        cx.update_dir(dir.object, |d| d.parent = parent.object)?;
    }
    cx.put(cx.dir(parent.object)?.child_zap, &new_name, dir.object)
}

impl DslCx<'_> {
    /// A subtree moved: the counts above both places.
    fn move_counts(&self, dir: u64, from: u64, to: u64) -> Result<()> {
        let counted = self.counts(from)?.is_some() || self.counts(to)?.is_some();
        if !counted {
            return Ok(());
        }
        let own = self.subtree_counts(dir)?;
        for (what, n) in
            [(Counted::Filesystems, own.filesystems + 1), (Counted::Snapshots, own.snapshots)]
        {
            self.count(from, what, n.cast_signed().wrapping_neg())?;
            self.count(to, what, n.cast_signed())?;
        }
        Ok(())
    }
}

/// Whether [`rename_snapshot`] would rename it. Returns the heads whose snapshots would have
/// another name.
pub fn check_rename_snapshot(
    dsl: &Dsl,
    name: &str,
    to: &str,
    recursive: bool,
) -> Result<Vec<Dataset>> {
    if !check_component(to) {
        return Err(Error::BadName(to.to_owned()));
    }
    let (path, short) = name.split_once('@').ok_or_else(|| Error::BadName(name.to_owned()))?;
    let mut heads = vec![dsl.by_name(path)?];
    dsl.by_name(name)?;
    if recursive {
        let below = format!("{path}/");
        for (n, dir) in dsl.walk() {
            // A dataset at or above the place that cannot be read hides those below: it is no
            // reason to rename the rest.
            let hides = |n: &str| is_within(path, n.strip_suffix("/?").unwrap_or(n));
            if !(n.starts_with(&below) || dir.is_err() && hides(&n)) {
                continue;
            }
            let Some(head) = dsl.head(&dir?)? else { continue };
            if dsl.snapshot_named(&head, short)?.is_some() {
                heads.push(head);
            }
        }
    }
    for head in &heads {
        let full = format!("{}@{to}", head.name);
        check_name(&full)?;
        if dsl.snapshot_named(head, to)?.is_some() {
            return Err(Error::refused(&full, Refusal::Exists));
        }
    }
    Ok(heads)
}

/// Renames a snapshot; with `recursive` also all of the same name below. `to` is the short name.
/// Gives what those were called that have another name now, with their objects.
///
/// Changes on disk: the heads' tables of snapshots, the directories' times of change.
pub fn rename_snapshot(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    name: &str,
    to: &str,
    recursive: bool,
) -> Result<Vec<(String, u64)>> {
    let heads = check_rename_snapshot(dsl, name, to, recursive)?;
    let (_, short) = name.split_once('@').ok_or_else(|| Error::BadName(name.to_owned()))?;
    let mut renamed = Vec::with_capacity(heads.len());
    for head in &heads {
        let table = head.phys.snapnames_zap;
        let Some(object) = dsl.snapshot_named(head, short)? else { continue };
        let stored = cx.snapshot_name(&head.phys, object)?;
        cx.remove(table, &stored)?;
        cx.put(table, to, object)?;
        cx.note_snapshots_changed(head.dir.object)?;
        renamed.push((format!("{}@{short}", head.name), object));
    }
    Ok(renamed)
}
