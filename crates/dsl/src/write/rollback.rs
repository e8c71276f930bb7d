//! Rolling a head back to a snapshot.

use super::bookmarks::check_destroy_bookmark;
use super::deadlists;
use super::destroy::{check_destroy_snapshot, destroy_snapshot_object};
use super::meta::DslCx;
use super::room::check_snapshot_room;
use super::spacing::Delta;
use crate::error::{Error, Refusal, Result};
use crate::tree::{Dataset, Dsl};
use ondisk::BlkPtr;
use ondisk::bpobj::Space;
use ondisk::dsl::DslDir;

/// Whether the head of the snapshot `name` can be rolled back to it. Younger snapshots are in the
/// way, and so are younger bookmarks, unless `destroy_younger` is set; then none of the former may
/// have a clone or be held. Returns the head and the younger snapshots, youngest first.
pub fn check_rollback(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    name: &str,
    destroy_younger: bool,
) -> Result<(Dataset, Vec<Dataset>)> {
    let snap = dsl.by_name(name)?;
    if !snap.phys.is_snapshot() {
        return Err(Error::refused(name, Refusal::NotASnapshot));
    }
    let tree = |rule| Error::Tree { object: snap.dir.object, rule };
    let head = dsl.head(&snap.dir)?.ok_or_else(|| tree("a snapshot's directory has no head"))?;
    let mut younger = dsl.snapshots(&head)?;
    let at = younger.iter().position(|s| s.object == snap.object);
    let at = at.ok_or_else(|| tree("a snapshot is not in its head's table"))?;
    younger.drain(..=at);
    younger.reverse();
    if let (false, Some(s)) = (destroy_younger, younger.first()) {
        return Err(Error::refused(name, Refusal::HasYounger(s.name.clone())));
    }
    for s in &younger {
        check_destroy_snapshot(cx, dsl, &s.name, false)?;
    }
    let marks = dsl.bookmarks(&head)?;
    for mark in marks.iter().filter(|b| b.phys.creation_txg > snap.phys.creation_txg) {
        if !destroy_younger {
            return Err(Error::refused(name, Refusal::HasYounger(mark.name.clone())));
        }
        check_destroy_bookmark(mark)?;
    }
    check_rollback_room(cx, dsl, &head, &snap)?;
    Ok((head, younger))
}

/// Rolls a head back to the snapshot `name` of it. Nothing of the head's object set may be dirty;
/// an object set opened before is not that of the head any more.
///
/// Changes on disk: younger snapshots and bookmarks are destroyed; the tree the head had goes to
/// the queue of trees to be freed, with its space to `$FREE`; the head has the snapshot's root,
/// sizes and an empty dead list, nothing of its own and nothing that the snapshot has alone.
pub fn rollback(cx: &DslCx<'_>, dsl: &Dsl, name: &str, destroy_younger: bool) -> Result<()> {
    let (head, younger) = check_rollback(cx, dsl, name, destroy_younger)?;
    let snap = dsl.by_name(name)?;
    for s in &younger {
        destroy_snapshot_object(cx, s.object)?;
    }
    for mark in dsl.bookmarks(&head)? {
        if mark.phys.creation_txg > snap.phys.creation_txg {
            super::destroy_bookmark(cx, dsl, &mark.name)?;
        }
    }
    rollback_head(cx, head.object)
}

/// Whether there is room for the head as it was: a refreservation covers again what the head had
/// of its own, and a refquota may be younger than the snapshot.
fn check_rollback_room(cx: &DslCx<'_>, dsl: &Dsl, head: &Dataset, snap: &Dataset) -> Result<()> {
    let refquota = cx.own_number(head.dir.object, "refquota")?;
    if refquota != 0 && snap.phys.referenced > refquota {
        return Err(Error::refused(&head.name, Refusal::Quota("refquota")));
    }
    check_snapshot_room(dsl, std::slice::from_ref(head), cx.pool_size)
}

/// Forgets the tree of a head, which cannot be read any more: it cannot be freed, and its space
/// stays allocated. The accounting of the head stays as it is until it is reset or destroyed.
pub fn forget_tree(cx: &DslCx<'_>, head: u64) -> Result<()> {
    cx.update_dataset(head, |ds| ds.bp = BlkPtr::default())
}

/// Resets a head to its origin: its last snapshot, the origin of its clone, or nothing. It has no
/// root block of its own if the origin has none.
///
/// # Errors
/// It is of the time before everything had an origin.
pub fn reset_head(cx: &DslCx<'_>, head: u64) -> Result<()> {
    if cx.dataset(head)?.prev_snap == 0 {
        let rule = "a head has no origin";
        return Err(Error::Tree { object: head, rule });
    }
    rollback_head(cx, head)
}

/// Rolls a head back to its last snapshot.
pub(super) fn rollback_head(cx: &DslCx<'_>, object: u64) -> Result<()> {
    let mut head = cx.dataset(object)?;
    let prev_object = head.prev_snap;
    let mut prev = cx.dataset(prev_object)?;
    let dir = cx.dir(head.dir)?;
    let given_up = deadlists::space(cx, head.deadlist)?;

    // The space of the head alone: all it references, less what it shares with the snapshot, which
    // is all the snapshot references but what the head gave up.
    let own = |head: u64, snap: u64, gone: u64| head.saturating_add(gone).saturating_sub(snap);
    let own = Space {
        used: own(head.referenced, prev.referenced, given_up.used),
        compressed: own(head.compressed, prev.compressed, given_up.compressed),
        uncompressed: own(head.uncompressed, prev.uncompressed, given_up.uncompressed),
    };
    let reserved = cx.own_number(head.dir, "refreservation")?;
    let covered = head.unique.min(reserved).cast_signed();
    let counted_as_snapshots =
        deadlists::space_range(cx, head.deadlist, cx.origin_txg(&dir)?, u64::MAX)?
            .used
            .cast_signed();
    let released = Delta::from(own).negated();
    // A reservation covers again what the head had of its own.
    let delta = Delta { used: released.used.wrapping_add(covered), ..released };
    let parts = [
        (DslDir::USED_HEAD, released.used.wrapping_add(counted_as_snapshots)),
        (DslDir::USED_SNAP, counted_as_snapshots.wrapping_neg()),
        (DslDir::USED_REF_RESERVED, covered),
    ];
    cx.charge_parts(head.dir, delta, &parts)?;
    // A tree that was forgotten is not freed.
    if !head.bp.is_hole() {
        cx.queue_tree(&head.bp, head.prev_snap_txg, own)?;
        cx.charge_free(own)?;
    }

    let list = deadlists::create_like(cx, head.deadlist, head.prev_snap_txg)?;
    deadlists::free(cx, head.deadlist)?;
    super::remapped::drop_list(cx, object)?;
    head.deadlist = list;
    head.bp = prev.bp;
    head.referenced = prev.referenced;
    head.compressed = prev.compressed;
    head.uncompressed = prev.uncompressed;
    head.unique = 0;
    if prev.next_snap == object {
        prev.unique = 0;
        cx.put_dataset(prev_object, &prev)?;
    }
    cx.put_dataset(object, &head)?;
    cx.swap_features(object, prev_object)?;
    cx.bookmarks_recount(object, prev_object)
}

impl DslCx<'_> {
    /// A head has the features of another dataset from now on.
    pub(super) fn swap_features(&self, head: u64, snap: u64) -> Result<()> {
        let wanted = self.dataset_features(snap)?;
        for (guid, _) in self.dataset_features(head)? {
            if !wanted.iter().any(|(g, _)| *g == guid) {
                self.deactivate(head, &guid)?;
            }
        }
        for (guid, _) in wanted {
            self.activate(head, &guid)?;
        }
        Ok(())
    }
}
