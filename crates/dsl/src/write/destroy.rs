//! Destroying snapshots, and heads with their directories.

use super::deadlists;
use super::features::{ASYNC_DESTROY, BOOKMARK_V2, BOOKMARK_WRITTEN, BOOKMARKS};
use super::limits::Counted;
use super::meta::DslCx;
use super::remapped;
use super::spacing::{Delta, add};
use crate::error::{Error, Refusal, Result};
use crate::tree::{Dataset, Dsl, VisitedLinks};
use ondisk::bpobj::Space;
use ondisk::dsl::{DslDataset, DslDir, dataset_field};
use ondisk::mos;

/// The result of destroying a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroyed {
    /// It is gone.
    Now,
    /// It goes with its last hold or clone.
    Deferred,
}

/// Whether a snapshot can be destroyed: no clone was made of it and it has no holds, or `defer` is
/// set, which waits for that.
pub fn check_destroy_snapshot(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    name: &str,
    defer: bool,
) -> Result<Dataset> {
    let snap = dsl.by_name(name)?;
    if !snap.phys.is_snapshot() {
        return Err(Error::refused(name, Refusal::NotASnapshot));
    }
    if !defer && snap.phys.num_children > 1 {
        return Err(Error::refused(name, Refusal::HasClones(dsl.clones(&snap)?)));
    }
    check_destroyable(cx, dsl, &snap, defer)?;
    Ok(snap)
}

/// Checks for obstacles that are permanent: those that remain when the children, snapshots and
/// clones of the dataset are gone. With `defer` a snapshot may be held.
pub fn check_destroyable(cx: &DslCx<'_>, dsl: &Dsl, dataset: &Dataset, defer: bool) -> Result<()> {
    let refused = |why| Err(Error::refused(&dataset.name, why));
    if dataset.phys.is_snapshot() {
        if let (false, Some(hold)) = (defer, dsl.holds(dataset)?.into_iter().next()) {
            return refused(Refusal::Held(hold.tag));
        }
        return cx.free_list().map(drop);
    }
    if dataset.dir.object == dsl.root_object() {
        return refused(Refusal::PoolRoot);
    }
    if !cx.has(ASYNC_DESTROY)? {
        return refused(Refusal::NoFeature(ASYNC_DESTROY));
    }
    cx.free_list().map(drop)
}

/// Destroys a snapshot, or with `defer` marks it to go with its last hold or clone.
///
/// Changes on disk: its blocks that nothing else has go to the pool's list of blocks to be freed,
/// their space to `$FREE`; the dataset after it takes its dead list over and links to the one
/// before, `unique` of both neighbours grows, the keys of its txg leave the dead lists of heads;
/// the head's table, the directory's space, counts and time of the change; bookmarks.
pub fn destroy_snapshot(cx: &DslCx<'_>, dsl: &Dsl, name: &str, defer: bool) -> Result<Destroyed> {
    let snap = check_destroy_snapshot(cx, dsl, name, defer)?;
    let held = !dsl.holds(&snap)?.is_empty();
    if defer && (held || snap.phys.num_children > 1) {
        cx.update_dataset(snap.object, |ds| ds.flags |= DslDataset::FLAG_DEFER_DESTROY)?;
        return Ok(Destroyed::Deferred);
    }
    destroy_snapshot_object(cx, snap.object)?;
    Ok(Destroyed::Now)
}

/// Destroys a snapshot without clones and holds.
pub(super) fn destroy_snapshot_object(cx: &DslCx<'_>, object: u64) -> Result<()> {
    let ds = cx.dataset(object)?;
    let head = cx.dir(ds.dir)?.head_dataset;
    let name = cx.snapshot_name(&cx.dataset(head)?, object)?;
    cx.drop_features(object)?;
    let key_needed = cx.bookmarks_outlive(head, &ds)?;

    // The list of datasets closes over the gap.
    let mut next = cx.dataset(ds.next_snap)?;
    if ds.prev_snap != 0 {
        let mut prev = cx.dataset(ds.prev_snap)?;
        if prev.next_snap == object {
            prev.next_snap = ds.next_snap;
            // Blocks that the next dataset gave up and both had are now the previous one's alone.
            let since = prev.prev_snap_txg;
            let freed = deadlists::space_range(cx, next.deadlist, since, ds.prev_snap_txg)?;
            add(&mut prev.unique, freed.used.cast_signed());
            cx.put_dataset(ds.prev_snap, &prev)?;
        } else if prev.next_clones != 0 {
            cx.remove_number(prev.next_clones, object)?;
            cx.put_number(prev.next_clones, ds.next_snap)?;
        }
    }
    next.prev_snap = ds.prev_snap;
    next.prev_snap_txg = ds.prev_snap_txg;
    cx.put_dataset(ds.next_snap, &next)?;

    // Younger than what comes before, given up by what comes next: no dataset has these now.
    let freed = deadlists::move_from(cx, next.deadlist, ds.prev_snap_txg, cx.free_list()?)?;
    cx.charge(ds.dir, DslDir::USED_SNAP, Delta::from(freed).negated())?;
    cx.charge_free(freed)?;
    deadlists::merge(cx, next.deadlist, ds.deadlist)?;
    remapped::close_gap(cx, (object, &ds), ds.next_snap)?;

    if !key_needed {
        remove_clones_key(cx, ds.dir, ds.creation_txg)?;
    }
    if next.is_snapshot() {
        // Born after what comes before, given up after the next: the next one's alone now.
        let after = cx.dataset(next.next_snap)?;
        let own = deadlists::space_range(cx, after.deadlist, ds.prev_snap_txg, ds.creation_txg)?;
        cx.update_dataset(ds.next_snap, |n| add(&mut n.unique, own.used.cast_signed()))?;
        if !key_needed {
            deadlists::remove_key(cx, cx.dataset(head)?.deadlist, ds.creation_txg)?;
            remapped::remove_key(cx, head, ds.creation_txg)?;
        }
    } else {
        let before = next.unique;
        let unique = head_unique(cx, &next)?;
        cx.update_dataset(ds.next_snap, |n| {
            n.unique = unique;
            n.flags |= DslDataset::FLAG_UNIQUE_ACCURATE;
        })?;
        // Space that is the head's own again needs no reservation any more.
        let reserved = cx.own_number(ds.dir, "refreservation")?;
        let covered = unique.min(reserved).saturating_sub(before.min(reserved));
        if covered != 0 {
            let less = covered.cast_signed().wrapping_neg();
            cx.charge(ds.dir, DslDir::USED_REF_RESERVED, Delta::used(less))?;
        }
    }

    cx.remove(cx.dataset(head)?.snapnames_zap, &name)?;
    cx.count(ds.dir, Counted::Snapshots, -1)?;
    cx.note_snapshots_changed(ds.dir)?;
    for table in [ds.next_clones, ds.props, ds.userrefs] {
        cx.free_table(table)?;
    }
    cx.free_record(object)
}

/// The space of a head that is younger than its last snapshot: all it has but what it shares.
pub(super) fn head_unique(cx: &DslCx<'_>, head: &DslDataset) -> Result<u64> {
    let before = match head.prev_snap {
        0 => 0,
        n => cx.dataset(n)?.referenced,
    };
    let gone = deadlists::space(cx, head.deadlist)?.used;
    Ok(head.referenced.saturating_sub(before.saturating_sub(gone)))
}

/// Takes the key of a destroyed snapshot out of the dead lists of all heads that descend from it.
/// Clones of clones may nest as deep as there are datasets, so this does not recurse.
fn remove_clones_key(cx: &DslCx<'_>, dir: u64, txg: u64) -> Result<()> {
    let (mut dirs, mut seen) = (vec![dir], VisitedLinks::default());
    while let Some(dir) = dirs.pop() {
        for head in cx.numbers(cx.dir(dir)?.clones)? {
            let clone = cx.dataset(head)?;
            if cx.origin_txg(&cx.dir(clone.dir)?)? > txg {
                seen.step(clone.dir, "clones form a loop")?;
                deadlists::remove_key(cx, clone.deadlist, txg)?;
                remapped::remove_key(cx, head, txg)?;
                dirs.push(clone.dir);
            }
        }
    }
    Ok(())
}

/// Whether a file system or volume can be destroyed: it has no snapshots and nothing below it.
pub fn check_destroy_head(cx: &DslCx<'_>, dsl: &Dsl, name: &str) -> Result<Dataset> {
    let head = dsl.by_name(name)?;
    if head.phys.is_snapshot() {
        return Err(Error::refused(name, Refusal::NotAHead));
    }
    check_destroyable(cx, dsl, &head, false)?;
    if let Some((below, _)) = dsl.names_in(head.dir.phys.child_zap)?.into_iter().next() {
        return Err(Error::refused(name, Refusal::HasChildren(below)));
    }
    if let Some((snap, _)) = dsl.names_in(head.phys.snapnames_zap)?.into_iter().next() {
        return Err(Error::refused(name, Refusal::HasSnapshots(dsl.kind(&head), snap)));
    }
    Ok(head)
}

/// Destroys a file system or volume. Its blocks are freed later, by [`super::drain`]. Nothing of
/// its object set may be dirty, and its intent log must have no blocks.
///
/// Changes on disk: its root goes to the queue of trees to be freed (made with the first, feature
/// `async_destroy`), its space to `$FREE`; directory, head, tables, dead list and bookmarks go; the
/// origin has one clone less, and goes too when it waited for that.
pub fn destroy_head(cx: &DslCx<'_>, dsl: &Dsl, name: &str) -> Result<()> {
    let head = check_destroy_head(cx, dsl, name)?;
    destroy_head_object(cx, head.object)
}

/// Destroys a head without snapshots and its directory, which has nothing below.
pub(super) fn destroy_head_object(cx: &DslCx<'_>, object: u64) -> Result<()> {
    let ds = cx.dataset(object)?;
    cx.set_refreservation(ds.dir, object, 0)?;
    cx.drop_features(object)?;
    if ds.prev_snap != 0 {
        let mut prev = cx.dataset(ds.prev_snap)?;
        if prev.next_clones != 0 {
            cx.remove_number(prev.next_clones, object)?;
        }
        prev.num_children = prev.num_children.saturating_sub(1).max(1);
        cx.put_dataset(ds.prev_snap, &prev)?;
        cx.remove_number(cx.dir(prev.dir)?.clones, object)?;
    }
    deadlists::free(cx, ds.deadlist)?;
    remapped::drop_list(cx, object)?;

    // All that its directory accounts for is the head's, which has no snapshots.
    let dir = cx.dir(ds.dir)?;
    let own = Space { used: dir.used, compressed: dir.compressed, uncompressed: dir.uncompressed };
    cx.charge(ds.dir, DslDir::USED_HEAD, Delta::from(own).negated())?;
    // A tree that was forgotten is not freed.
    if !ds.bp.is_hole() {
        cx.queue_tree(&ds.bp, ds.prev_snap_txg, own)?;
        cx.charge_free(own)?;
    }

    drop_bookmarks(cx, object)?;
    cx.free_table(ds.snapnames_zap)?;
    cx.free_record(object)?;
    destroy_dir(cx, ds.dir)?;
    match ds.prev_snap {
        0 => Ok(()),
        n => cx.destroy_if_deferred(n),
    }
}

fn drop_bookmarks(cx: &DslCx<'_>, head: u64) -> Result<()> {
    let marks = cx.bookmarks_of(head)?;
    for (_, b) in &marks {
        if b.extra.is_some() {
            cx.features.decr(cx, BOOKMARK_V2)?;
        }
        if super::bookmarks::counts_freed(b) {
            cx.features.decr(cx, BOOKMARK_WRITTEN)?;
        }
    }
    let table = cx.field(head, dataset_field::BOOKMARKS)?.unwrap_or(0);
    if table != 0 {
        cx.free_table(table)?;
        cx.features.decr(cx, BOOKMARKS)?;
    }
    Ok(())
}

/// Destroys a directory whose head is gone and that nothing is below.
fn destroy_dir(cx: &DslCx<'_>, object: u64) -> Result<()> {
    cx.set_reservation_phys(object, 0)?;
    let dir = cx.dir(object)?;
    let parent = cx.dir(dir.parent)?;
    let names = cx.entries(parent.child_zap)?;
    let found = names.into_iter().find(|(_, v)| v.first() == Some(&object));
    let rule = "a directory is not in its parent's table";
    let (name, _) = found.ok_or(Error::Tree { object, rule })?;
    if !name.starts_with('%') {
        cx.count(dir.parent, Counted::Filesystems, -1)?;
    }
    cx.remove(parent.child_zap, &name)?;
    cx.release_key(object)?;
    cx.free_delegations(dir.deleg_zap)?;
    for table in [dir.child_zap, dir.props_zap, dir.clones] {
        cx.free_table(table)?;
    }
    cx.free_record(object)
}

impl DslCx<'_> {
    /// Destroys a snapshot that waits for its last hold or clone, when it has neither.
    pub(super) fn destroy_if_deferred(&self, snap: u64) -> Result<()> {
        let ds = self.dataset(snap)?;
        let deferred = ds.flags & DslDataset::FLAG_DEFER_DESTROY != 0;
        if deferred && ds.num_children <= 1 && self.entries(ds.userrefs)?.is_empty() {
            destroy_snapshot_object(self, snap)?;
        }
        Ok(())
    }

    /// The pool's list of blocks to be freed. Nothing is destroyed in a pool without one.
    pub(super) fn free_list(&self) -> Result<u64> {
        let rule = "the pool has no list of blocks to be freed";
        let absent = Error::Tree { object: mos::DIRECTORY_OBJECT, rule };
        self.directory(mos::FREE_BPOBJ)?.ok_or(absent)
    }
}
