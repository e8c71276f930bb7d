//! Making directories, datasets and clones, and the first of them in a new pool.

use super::crypt::{self, Encryption};
use super::deadlists;
use super::limits::Counted;
use super::meta::DslCx;
use super::props::{PropertyChange, check_features, check_new, set_on_new};
use super::snapshot::snapshot_one;
use crate::error::{Error, Refusal, Result};
use crate::kind::DatasetKind;
use crate::names::{NameKind, check_name};
use crate::tree::{Dir, Dsl};
use ondisk::dsl::{
    DslDataset, DslDir, FREE_DIR_NAME, MOS_DIR_NAME, ORIGIN_DIR_NAME, ORIGIN_SNAPSHOT_NAME,
};
use ondisk::{DmuType, Endian, mos};
use std::sync::Arc;

/// First txg of a pool: what is made in it has creation txg 1.
const TXG_INITIAL: u64 = 4;
/// Bits of an `fsid_guid`.
const FSID_MASK: u64 = (1 << 56) - 1;

/// Objects of a new pool's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolTree {
    /// The root directory.
    pub root_dir: u64,
    /// `$MOS`.
    pub mos_dir: u64,
    /// `$FREE`.
    pub free_dir: u64,
    /// The list of blocks that are freed in the background.
    pub free_bpobj: u64,
    /// `$ORIGIN@$ORIGIN`, which every other dataset is a clone of.
    pub origin_snap: u64,
    /// Head of the root dataset. Its object set is still to be made.
    pub root_head: u64,
}

/// Makes what a new pool has of the DSL: the root directory, `$MOS`, `$FREE` with its list,
/// `$ORIGIN` with its snapshot, and the root dataset without an object set. Each is entered in the
/// object directory (object 1), which must be there already.
pub fn create_pool_tree(cx: &DslCx<'_>) -> Result<PoolTree> {
    let root_dir = create_dir(cx, None)?;
    cx.put(mos::DIRECTORY_OBJECT, mos::ROOT_DATASET, root_dir)?;
    let mos_dir = create_dir(cx, Some((root_dir, MOS_DIR_NAME)))?;
    let free_dir = create_dir(cx, Some((root_dir, FREE_DIR_NAME)))?;
    let free_bpobj = deadlists::new_list(cx)?;
    cx.put(mos::DIRECTORY_OBJECT, mos::FREE_BPOBJ, free_bpobj)?;
    let origin_dir = create_dir(cx, Some((root_dir, ORIGIN_DIR_NAME)))?;
    let origin_head = create_head(cx, origin_dir, None)?;
    let origin_snap = snapshot_one(cx, origin_head, ORIGIN_SNAPSHOT_NAME)?;
    let root_head = create_head(cx, root_dir, Some(origin_snap))?;
    Ok(PoolTree { root_dir, mos_dir, free_dir, free_bpobj, origin_snap, root_head })
}

/// A new directory, entered in the table of `parent`.
pub(super) fn create_dir(cx: &DslCx<'_>, parent: Option<(u64, &str)>) -> Result<u64> {
    let mut dir = DslDir::default();
    dir.creation_time = cx.now.secs;
    dir.parent = parent.map_or(0, |(n, _)| n);
    dir.props_zap = cx.new_table(DmuType::DSL_PROPS, 0)?;
    dir.child_zap = cx.new_table(DmuType::DSL_DIR_CHILD_MAP, 0)?;
    dir.flags = DslDir::FLAG_USED_BREAKDOWN;
    let bonus = dir.encode(Endian::Little);
    let object = cx.alloc(DmuType::DSL_DIR, DmuType::DSL_DIR, &bonus)?;
    if let Some((parent, name)) = parent {
        cx.put(cx.dir(parent)?.child_zap, name, object)?;
        if !name.starts_with(['$', '%']) {
            if cx.counts(parent)?.is_some() {
                cx.start_counts(object)?;
            }
            cx.count(parent, Counted::Filesystems, 1)?;
        }
    }
    Ok(object)
}

/// The head of a directory: empty, or a clone of `origin`. Only `$ORIGIN` itself has none.
pub(super) fn create_head(cx: &DslCx<'_>, dir: u64, origin: Option<u64>) -> Result<u64> {
    let txg = cx.txg();
    let mut ds = DslDataset::default();
    ds.dir = dir;
    ds.fsid_guid = (cx.new_guid() & FSID_MASK).max(1);
    ds.guid = cx.new_guid();
    ds.snapnames_zap = cx.new_name_table(DmuType::DSL_DS_SNAP_MAP)?;
    ds.creation_time = cx.now.secs;
    ds.creation_txg = if txg == TXG_INITIAL { 1 } else { txg };
    ds.flags = DslDataset::FLAG_UNIQUE_ACCURATE;
    let Some(origin) = origin else {
        ds.deadlist = deadlists::create(cx)?;
        let bonus = ds.encode(Endian::Little);
        let object = cx.alloc(DmuType::DSL_DATASET, DmuType::DSL_DATASET, &bonus)?;
        cx.update_dir(dir, |d| d.head_dataset = object)?;
        return Ok(object);
    };
    let mut snap = cx.dataset(origin)?;
    let home = cx.dir(snap.dir)?;
    ds.prev_snap = origin;
    ds.prev_snap_txg = snap.creation_txg;
    ds.referenced = snap.referenced;
    ds.compressed = snap.compressed;
    ds.uncompressed = snap.uncompressed;
    ds.bp = snap.bp;
    ds.flags |= snap.flags & (DslDataset::FLAG_INCONSISTENT | DslDataset::FLAG_CASE_INSENSITIVE);
    cx.share_key(snap.dir, dir)?;
    let older = cx.dataset(home.head_dataset)?.deadlist;
    ds.deadlist = deadlists::create_like(cx, older, snap.creation_txg)?;
    let bonus = ds.encode(Endian::Little);
    let object = cx.alloc(DmuType::DSL_DATASET, DmuType::DSL_DATASET, &bonus)?;
    cx.copy_features(origin, object)?;
    snap.num_children += 1;
    if snap.next_clones == 0 {
        snap.next_clones = cx.new_table(DmuType::NEXT_CLONES, 0)?;
    }
    cx.put_dataset(origin, &snap)?;
    cx.put_number(snap.next_clones, object)?;
    cx.add_clone(snap.dir, object)?;
    cx.update_dir(dir, |d| {
        d.origin = origin;
        d.head_dataset = object;
    })?;
    Ok(object)
}

impl DslCx<'_> {
    /// Enters a head among the clones of a directory's snapshots.
    pub(super) fn add_clone(&self, dir: u64, head: u64) -> Result<()> {
        let mut d = self.dir(dir)?;
        if d.clones == 0 {
            d.clones = self.new_table(DmuType::DSL_CLONES, 0)?;
            self.put_dir(dir, &d)?;
        }
        self.put_number(d.clones, head)
    }

    /// The snapshot that every head is a clone of that is no other's.
    pub(super) fn origin_snap(&self) -> Result<Option<u64>> {
        let Some(dir) = self.internal_dir(ORIGIN_DIR_NAME)? else { return Ok(None) };
        Ok(Some(self.dataset(self.dir(dir)?.head_dataset)?.prev_snap).filter(|n| *n != 0))
    }
}

/// The objects made by [`create_dataset`] and [`clone_dataset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewDataset {
    /// The directory.
    pub dir: u64,
    /// The head: also the id of its object set.
    pub head: u64,
}

impl Dsl {
    /// Only file systems have others below them.
    pub(super) fn check_parent(&self, name: &str, parent: &Arc<Dir>) -> Result<()> {
        let Some(head) = self.head(parent)? else { return Ok(()) };
        // It may be destroyed, and what is below would keep it from that.
        if head.phys.is_inconsistent() {
            return Err(Error::refused(&parent.name, Refusal::Inconsistent));
        }
        match self.kind(&head) {
            DatasetKind::Volume => Err(Error::refused(name, Refusal::BelowVolume)),
            _ => Ok(()),
        }
    }
}

/// Whether a dataset of that name can be made: the name is good, the directory above is there, is a
/// file system's, and its limits allow one more. Returns the directory above.
pub fn check_create(dsl: &Dsl, name: &str) -> Result<Arc<Dir>> {
    let bad = || Error::BadName(name.to_owned());
    if check_name(name)? != NameKind::Dataset {
        return Err(bad());
    }
    let (above, last) = name.rsplit_once('/').ok_or_else(bad)?;
    let parent = dsl.dir_by_name(above)?;
    if dsl.names_in(parent.phys.child_zap)?.iter().any(|(n, _)| n == last) {
        return Err(Error::refused(name, Refusal::Exists));
    }
    dsl.check_parent(name, &parent)?;
    dsl.check_limits(&parent, Counted::Filesystems, 1)?;
    Ok(parent)
}

/// Makes a file system or volume: directory, head without an object set (its root is a hole until
/// the first sync of one), and its own properties.
///
/// Changes on disk: a directory and a dataset with their tables and dead list, the parent's table
/// of children and counts, the clones of `$ORIGIN@$ORIGIN`, space above for reservations; of an
/// encrypted one a key object.
pub fn create_dataset(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    name: &str,
    properties: &[PropertyChange],
    encryption: &Encryption,
) -> Result<NewDataset> {
    let parent = check_create(dsl, name)?;
    let (_, last) = name.rsplit_once('/').ok_or_else(|| Error::BadName(name.to_owned()))?;
    check_new(dsl, &parent, name, 0, properties, cx.pool_size)?;
    check_features(cx, name, properties)?;
    let key = crypt::plan(cx, dsl, (Some(&*parent), name), encryption)?;
    let dir = create_dir(cx, Some((parent.object, last)))?;
    let origin = cx.origin_snap()?;
    let head = create_head(cx, dir, origin)?;
    crypt::give(cx, dsl, (dir, head), key)?;
    cx.give_to_creator(dir)?;
    for change in properties {
        set_on_new(cx, dir, head, change)?;
    }
    Ok(NewDataset { dir, head })
}

/// Makes a clone of the snapshot `origin`: its head has the snapshot's tree from the start.
///
/// Changes on disk: as [`create_dataset`], with the origin's children and clones instead of
/// `$ORIGIN`'s. No livelist is made: it only makes destroying quicker.
pub fn clone_dataset(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    name: &str,
    origin: &str,
    properties: &[PropertyChange],
) -> Result<NewDataset> {
    let parent = check_create(dsl, name)?;
    let snap = dsl.by_name(origin)?;
    if !snap.phys.is_snapshot() {
        return Err(Error::refused(origin, Refusal::NotASnapshot));
    }
    if snap.phys.is_inconsistent() {
        return Err(Error::refused(origin, Refusal::Inconsistent));
    }
    let (_, last) = name.rsplit_once('/').ok_or_else(|| Error::BadName(name.to_owned()))?;
    check_new(dsl, &parent, name, snap.phys.referenced, properties, cx.pool_size)?;
    check_features(cx, name, properties)?;
    let dir = create_dir(cx, Some((parent.object, last)))?;
    let head = create_head(cx, dir, Some(snap.object))?;
    cx.give_to_creator(dir)?;
    for change in properties {
        set_on_new(cx, dir, head, change)?;
    }
    Ok(NewDataset { dir, head })
}
