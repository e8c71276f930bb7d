//! Taking snapshots.

use super::deadlists;
use super::limits::Counted;
use super::meta::DslCx;
use super::room::check_snapshot_room;
use super::spacing::Delta;
use crate::error::{Error, Refusal, Result};
use crate::names::{NameKind, check_name};
use crate::tree::{Dataset, Dsl};
use ondisk::dsl::{DslDataset, DslDir, ORIGIN_SNAPSHOT_NAME, dataset_field, dir_field};
use ondisk::{DmuType, Endian};
use std::collections::{HashMap, HashSet};

/// Bits of an `fsid_guid`.
const FSID_MASK: u64 = (1 << 56) - 1;

/// Whether all these snapshots can be taken together, each `pool/a@name`. Returns their heads.
///
/// # Errors
/// Two of one head ([`Refusal::SeveralOfOne`]): they would be of one txg, and nothing that compares
/// txgs could tell which is older. Whatever speaks against one of them.
pub fn check_snapshots(dsl: &Dsl, names: &[String]) -> Result<Vec<Dataset>> {
    let mut heads: Vec<Dataset> = Vec::with_capacity(names.len());
    let mut wanted: HashMap<u64, u64> = HashMap::new();
    let mut seen = HashSet::new();
    for name in names {
        let bad = || Error::BadName(name.clone());
        if check_name(name)? != NameKind::Snapshot {
            return Err(bad());
        }
        let (path, short) = name.split_once('@').ok_or_else(bad)?;
        let head = dsl.by_name(path)?;
        if !seen.insert(head.object) {
            return Err(Error::refused(name, Refusal::SeveralOfOne));
        }
        if dsl.snapshot_named(&head, short)?.is_some() {
            return Err(Error::refused(name, Refusal::Exists));
        }
        if head.phys.is_inconsistent() {
            return Err(Error::refused(path, Refusal::Inconsistent));
        }
        // A limit counts all that is below it.
        for above in dsl.ancestry(&head.dir)? {
            *wanted.entry(above.object).or_default() += 1;
        }
        heads.push(head);
    }
    for head in &heads {
        for above in dsl.ancestry(&head.dir)? {
            let n = wanted.get(&above.object).copied().unwrap_or(1);
            dsl.check_limits_at(&above, Counted::Snapshots, n)?;
        }
    }
    Ok(heads)
}

/// Whether [`snapshot`] would take these now. Returns their heads.
///
/// # Errors
/// Those of [`snapshot`].
pub fn check_new_snapshots(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    names: &[String],
    properties: &[super::PropertyChange],
) -> Result<Vec<Dataset>> {
    let heads = check_snapshots(dsl, names)?;
    if let Some(head) = heads.iter().find(|h| h.phys.prev_snap_txg >= cx.txg()) {
        return Err(Error::refused(&head.name, Refusal::JustTaken));
    }
    check_snapshot_room(dsl, &heads, cx.pool_size)?;
    properties.iter().try_for_each(super::props::check_on_snapshot)?;
    Ok(heads)
}

/// Takes snapshots, all or none: each `pool/a@name`. The heads must have been synced in this txg,
/// so that their roots are those of the moment. Returns the snapshots' objects; `properties` are
/// theirs (users' properties only).
///
/// # Errors
/// As for [`check_snapshots`], and [`Refusal::JustTaken`] for heads that this very txg took a
/// snapshot of.
///
/// Changes on disk, for each: a new dataset before the head, which takes the head's dead list over;
/// the head with a new one; what comes before; the head's table of snapshots; the directory (time
/// of the change, counts, and what a refreservation now has to cover a second time).
pub fn snapshot(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    names: &[String],
    properties: &[super::PropertyChange],
) -> Result<Vec<u64>> {
    let heads = check_new_snapshots(cx, dsl, names, properties)?;
    let mut out = Vec::with_capacity(heads.len());
    for (head, name) in heads.iter().zip(names) {
        let (_, short) = name.split_once('@').ok_or_else(|| Error::BadName(name.clone()))?;
        let snap = snapshot_one(cx, head.object, short)?;
        for change in properties {
            super::props::set_on_snapshot(cx, snap, change)?;
        }
        out.push(snap);
    }
    Ok(out)
}

/// Takes one snapshot of a head.
pub(super) fn snapshot_one(cx: &DslCx<'_>, head: u64, name: &str) -> Result<u64> {
    let mut h = cx.dataset(head)?;
    let creation_txg = if name == ORIGIN_SNAPSHOT_NAME { 1 } else { cx.txg() };
    let mut snap = DslDataset::default();
    snap.dir = h.dir;
    snap.prev_snap = h.prev_snap;
    snap.prev_snap_txg = h.prev_snap_txg;
    snap.next_snap = head;
    snap.num_children = 1;
    snap.creation_time = cx.now.secs;
    snap.creation_txg = creation_txg;
    snap.deadlist = h.deadlist;
    snap.referenced = h.referenced;
    snap.compressed = h.compressed;
    snap.uncompressed = h.uncompressed;
    snap.fsid_guid = (cx.new_guid() & FSID_MASK).max(1);
    snap.guid = cx.new_guid();
    snap.flags = h.flags;
    snap.bp = h.bp;
    let bonus = snap.encode(Endian::Little);
    let object = cx.alloc(DmuType::DSL_DATASET, DmuType::DSL_DATASET, &bonus)?;
    cx.copy_features(head, object)?;
    if cx.is_encrypted(h.dir)? {
        // Raw streams that go on from one set of IVs go nowhere else.
        cx.zapify(object)?;
        cx.put(object, dataset_field::IVSET_GUID, cx.new_guid())?;
    }
    if h.prev_snap != 0 {
        let mut prev = cx.dataset(h.prev_snap)?;
        if prev.next_snap == head {
            prev.next_snap = object;
            cx.put_dataset(h.prev_snap, &prev)?;
        } else if prev.next_clones != 0 {
            // The entry names the oldest dataset of the clone, and that is now the snapshot.
            cx.remove_number(prev.next_clones, head)?;
            cx.put_number(prev.next_clones, object)?;
        }
    }
    // Nothing is the head's alone any more: its refreservation covers new space from now on.
    let reserved = cx.own_number(h.dir, "refreservation")?;
    let covered = h.unique.min(reserved);
    if covered != 0 {
        cx.charge(h.dir, DslDir::USED_REF_RESERVED, Delta::used(covered.cast_signed()))?;
    }
    let list = deadlists::create_like(cx, h.deadlist, u64::MAX)?;
    deadlists::add_key(cx, list, h.prev_snap_txg)?;
    for txg in cx.marks_after(head, h.prev_snap_txg)? {
        deadlists::add_key(cx, list, txg)?;
    }
    super::remapped::pass_on(cx, head, object)?;
    h.deadlist = list;
    h.prev_snap = object;
    h.prev_snap_txg = creation_txg;
    h.unique = 0;
    h.flags |= DslDataset::FLAG_UNIQUE_ACCURATE;
    cx.put_dataset(head, &h)?;
    cx.put(h.snapnames_zap, name, object)?;
    if name != ORIGIN_SNAPSHOT_NAME {
        cx.count(h.dir, Counted::Snapshots, 1)?;
    }
    cx.note_snapshots_changed(h.dir)?;
    Ok(object)
}

impl DslCx<'_> {
    /// Notes in a directory when its list of snapshots changed.
    pub(super) fn note_snapshots_changed(&self, dir: u64) -> Result<()> {
        if !self.has(super::meta::EXTENSIBLE_DATASET)? {
            return Ok(());
        }
        self.zapify(dir)?;
        let now = [self.now.secs, self.now.nanos];
        self.put_words(dir, dir_field::SNAPSHOTS_CHANGED, &now)
    }

    /// Name of a snapshot in its head's table.
    pub(super) fn snapshot_name(&self, head: &DslDataset, snap: u64) -> Result<String> {
        let names = self.entries(head.snapnames_zap)?;
        let found = names.into_iter().find(|(_, v)| v.first() == Some(&snap));
        let rule = "a snapshot is not in its head's table";
        found.map(|(n, _)| n).ok_or(Error::Tree { object: snap, rule })
    }
}

impl Dsl {
    /// The snapshot of a head with that short name.
    pub(super) fn snapshot_named(&self, head: &Dataset, short: &str) -> Result<Option<u64>> {
        let names = self.names_in(head.phys.snapnames_zap)?;
        let any_case = head.phys.flags & DslDataset::FLAG_CASE_INSENSITIVE != 0;
        let same = |n: &str| n == short || (any_case && n.eq_ignore_ascii_case(short));
        Ok(names.into_iter().find(|(n, _)| same(n)).map(|(_, o)| o))
    }
}
