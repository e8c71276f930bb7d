//! Promoting a clone: it takes over the snapshots that it shares with what it is a clone of.

use super::deadlists;
use super::limits::Counted;
use super::meta::DslCx;
use super::room::check_move;
use super::spacing::Delta;
use crate::error::{Error, Refusal, Result};
use crate::tree::{Dataset, Dsl, VisitedLinks};
use ondisk::bpobj::Space;
use ondisk::dsl::{DslDataset, DslDir};

/// Whether the clone `name` can be promoted: it has an origin, and none of the snapshots it takes
/// over has the name of one of its own. Returns its head and the names of those snapshots.
pub fn check_promote(dsl: &Dsl, name: &str) -> Result<(Dataset, Vec<String>)> {
    let clone = dsl.by_name(name)?;
    if clone.phys.is_snapshot() {
        return Err(Error::refused(name, Refusal::NotAHead));
    }
    let Some(origin) = dsl.origin(&clone.dir)? else {
        return Err(Error::refused(name, Refusal::NotAClone));
    };
    if clone.phys.flags & DslDataset::FLAG_NO_PROMOTE != 0 {
        return Err(Error::refused(name, Refusal::NotAClone));
    }
    let snap = dsl.by_name(&origin)?;
    let tree = |rule| Error::Tree { object: snap.dir.object, rule };
    let head = dsl.head(&snap.dir)?.ok_or_else(|| tree("a snapshot's directory has no head"))?;
    let mut moved = Vec::new();
    let all = dsl.snapshots(&head)?;
    let up_to = all.iter().position(|s| s.object == snap.object).map_or(0, |at| at + 1);
    for s in all.iter().take(up_to) {
        let Some((_, short)) = s.name.split_once('@') else { continue };
        if dsl.snapshot_named(&clone, short)?.is_some() {
            let taken = format!("{name}@{short}");
            return Err(Error::refused(&taken, Refusal::Exists));
        }
        let full = format!("{name}@{short}");
        super::check_name(&full)?;
        moved.push(short.to_owned());
    }
    for bookmark in dsl.bookmarks(&head)? {
        let Some((_, short)) = bookmark.name.split_once('#') else { continue };
        let taken = format!("{name}#{short}");
        let moves = bookmark.phys.creation_txg <= snap.phys.creation_txg;
        if moves && dsl.bookmarks(&clone)?.iter().any(|b| b.name == taken) {
            return Err(Error::refused(&taken, Refusal::Exists));
        }
    }
    dsl.check_limits(&clone.dir, Counted::Snapshots, moved.len() as u64)?;
    Ok((clone, moved))
}

/// A dataset of a line, with its object.
type Link = (u64, DslDataset);

impl DslCx<'_> {
    /// The line of datasets from `first` back to `last`, which is the end and not in it (0: to the
    /// very first).
    fn line(&self, first: u64, last: u64) -> Result<Vec<Link>> {
        let mut out = Vec::new();
        let (mut at, mut seen) = (first, VisitedLinks::default());
        while at != last && at != 0 {
            seen.step(at, "snapshots form a loop")?;
            let ds = self.dataset(at)?;
            out.push((at, ds));
            at = ds.prev_snap;
        }
        Ok(out)
    }

    /// Space in the dead lists of a line of blocks born after `txg`.
    fn line_space(&self, line: &[Link], txg: u64) -> Result<u64> {
        line.iter().try_fold(0u64, |sum, (_, ds)| {
            Ok(sum.saturating_add(deadlists::space_range(self, ds.deadlist, txg, u64::MAX)?.used))
        })
    }
}

/// Promotes a clone: the snapshots up to its origin become its own, and what it was a clone of
/// becomes a clone of it.
///
/// Changes on disk: the origin (what comes next, its clones, `unique`), both directories (origin,
/// clones, space), the moved snapshots (directory) with both tables of names, both directories'
/// times and counts, bookmarks up to the origin, the clones of the moved snapshots.
pub fn promote(cx: &DslCx<'_>, dsl: &Dsl, name: &str) -> Result<()> {
    let (clone, _) = check_promote(dsl, name)?;
    let (dd, head) = (clone.dir.object, clone.object);
    let origin = cx.dir(dd)?.origin;
    let mut snap = cx.dataset(origin)?;
    let odd = snap.dir;
    let other = cx.dir(odd)?;
    let other_head = other.head_dataset;

    // The three lines that meet in the origin.
    let shared = cx.line(origin, other.origin)?;
    let others = cx.line(other_head, origin)?;
    let clones = cx.line(head, origin)?;
    let loose = |object| Error::Tree { object, rule: "a clone's line does not reach its origin" };
    let (oldest, oldest_ds) = *clones.last().ok_or_else(|| loose(head))?;
    let (others_oldest, _) = *others.last().ok_or_else(|| loose(other_head))?;
    if oldest_ds.prev_snap != origin || snap.next_snap != others_oldest {
        return Err(loose(head));
    }

    let moved = moved_space(cx, &snap, &shared, other.origin)?;
    let from = dsl.by_name(&dsl.origin(&clone.dir)?.unwrap_or_default())?.dir;
    let bytes = u64::try_from(moved.used).unwrap_or(0);
    check_move(dsl, &from, &clone.dir, bytes, cx.pool_size)?;
    let unique = deadlists::space_range(cx, oldest_ds.deadlist, snap.prev_snap_txg, u64::MAX)?.used;
    let before = cx.origin_txg(&other)?;
    let clone_snaps =
        cx.line_space(&shared, before)?.saturating_add(cx.line_space(&clones, before)?);
    let other_snaps = cx.line_space(&others, snap.creation_txg)?;

    // Links.
    snap.next_snap = oldest;
    snap.unique = unique;
    cx.put_dataset(origin, &snap)?;
    if snap.next_clones != 0 {
        cx.remove_number(snap.next_clones, oldest)?;
        cx.put_number(snap.next_clones, others_oldest)?;
    }
    cx.remove_number(other.clones, head)?;
    if other.origin != 0 {
        let above = cx.dataset(other.origin)?.dir;
        cx.remove_number(cx.dir(above)?.clones, other_head)?;
        cx.add_clone(above, head)?;
    }
    cx.update_dir(dd, |d| d.origin = other.origin)?;
    cx.update_dir(odd, |d| d.origin = origin)?;
    cx.add_clone(dd, other_head)?;

    move_bookmarks(cx, other_head, head, snap.creation_txg)?;
    cx.bookmarks_recount(head, origin)?;

    for (object, ds) in &shared {
        move_snapshot(cx, (*object, *ds), (odd, other_head), (dd, head), others_oldest)?;
    }
    cx.note_snapshots_changed(odd)?;
    cx.note_snapshots_changed(dd)?;

    let part = |dir: &DslDir| dir.used_breakdown[DslDir::USED_SNAP].cast_signed();
    let more = clone_snaps.cast_signed().wrapping_sub(part(&cx.dir(dd)?));
    let parts = [(DslDir::USED_SNAP, more), (DslDir::USED_HEAD, moved.used.wrapping_sub(more))];
    cx.charge_parts(dd, moved, &parts)?;
    let more = other_snaps.cast_signed().wrapping_sub(part(&cx.dir(odd)?));
    let less = moved.negated();
    let parts = [(DslDir::USED_SNAP, more), (DslDir::USED_HEAD, less.used.wrapping_sub(more))];
    cx.charge_parts(odd, less, &parts)?;
    super::crypt::pass_root(cx, dsl, &from, &clone.dir)
}

/// The space that the snapshots up to `snap` ever had since `before`: what is left of it in the
/// last, and the dead of each.
fn moved_space(
    cx: &DslCx<'_>,
    snap: &DslDataset,
    snapshots: &[Link],
    before: u64,
) -> Result<Delta> {
    let mut moved = Delta {
        used: snap.referenced.cast_signed(),
        compressed: snap.compressed.cast_signed(),
        uncompressed: snap.uncompressed.cast_signed(),
    };
    for (_, ds) in snapshots.iter().filter(|(_, ds)| ds.prev_snap != 0) {
        moved = moved.plus(deadlists::space(cx, ds.deadlist)?.into());
    }
    if before == 0 {
        return Ok(moved);
    }
    let before = cx.dataset(before)?;
    let space = Space {
        used: before.referenced,
        compressed: before.compressed,
        uncompressed: before.uncompressed,
    };
    Ok(moved.minus(space.into()))
}

/// Gives the bookmarks of a head up to txg `last` to another one.
fn move_bookmarks(cx: &DslCx<'_>, from: u64, to: u64, last: u64) -> Result<()> {
    for (name, b) in cx.bookmarks_of(from)? {
        if b.creation_txg <= last {
            cx.remove_bookmark(from, &name, &b)?;
            cx.add_bookmark(to, &name, &b)?;
        }
    }
    Ok(())
}

/// Moves a snapshot from one directory and head to another. `new_clone` is what the origin now has
/// as a clone: its place is known already.
fn move_snapshot(
    cx: &DslCx<'_>,
    (object, ds): Link,
    (from_dir, from_head): (u64, u64),
    (to_dir, to_head): (u64, u64),
    new_clone: u64,
) -> Result<()> {
    let from = cx.dataset(from_head)?;
    let name = cx.snapshot_name(&from, object)?;
    cx.remove(from.snapnames_zap, &name)?;
    cx.count(from_dir, Counted::Snapshots, -1)?;
    cx.put(cx.dataset(to_head)?.snapnames_zap, &name, object)?;
    cx.count(to_dir, Counted::Snapshots, 1)?;
    cx.update_dataset(object, |d| d.dir = to_dir)?;
    for clone in cx.numbers(ds.next_clones)? {
        if clone == new_clone {
            continue;
        }
        let head = cx.dir(cx.dataset(clone)?.dir)?.head_dataset;
        cx.remove_number(cx.dir(from_dir)?.clones, head)?;
        cx.add_clone(to_dir, head)?;
    }
    Ok(())
}
