//! Every block pointer of a pool, each block once.
//!
//! A dataset shares with the snapshot before it all blocks born until then, so of each dataset only
//! what was born later is visited: the pool as a whole, without repetition. What is only in dead
//! lists and livelists is visited by nobody, since it belongs to a snapshot that is.

use super::datasets;
use super::dump::Dump;
use engine::Pool;
use engine::dmu::{Object, Objset, Place};
use engine::ondisk::BlkPtr;
use engine::ondisk::blkptr::BLKPTR_SIZE;

/// Receives a pointer and the name of what it points to.
pub type Visit<'a> = dyn FnMut(&BlkPtr, Place) + 'a;

/// Visits the pool.
pub fn pool(d: &mut Dump, pool: &Pool, visit: &mut Visit<'_>) {
    objset(d, pool.mos(), 0, visit);
    for (name, dir) in pool.dsl().walk() {
        let head = dir.and_then(|dir| pool.dsl().head(&dir));
        let Some(Some(head)) = d.keep(&name, head) else { continue };
        let snapshots = pool.dsl().snapshots(&head);
        let snapshots = d.keep(&name, snapshots).unwrap_or_default();
        for ds in snapshots.iter().chain([&head]) {
            let os = datasets::objset(pool, ds);
            if let Some(os) = d.keep(&ds.name, os) {
                objset(d, &os, ds.phys.prev_snap_txg, visit);
            }
        }
    }
}

/// Visits what an object set has that was born after `since`.
pub fn objset(d: &mut Dump, os: &Objset, since: u64, visit: &mut Visit<'_>) {
    let root = &os.root();
    if root.is_hole() || root.logical_birth() <= since {
        return;
    }
    visit(root, Place::objset(os.id()));
    for o in os.accounting_objects().into_iter().flatten() {
        object(d, &o, since, visit);
    }
    let Some(meta) = os.meta_object() else { return };
    object(d, &meta, since, visit);
    for o in os.objects() {
        if let Some(o) = d.keep("", o) {
            object(d, &o, since, visit);
        }
    }
}

/// Visits the tree of an object.
pub fn object(d: &mut Dump, o: &Object, since: u64, visit: &mut Visit<'_>) {
    let top = o.dnode().levels - 1;
    for (i, bp) in o.dnode().blkptrs.iter().enumerate() {
        tree(d, o, bp, top, i as u64, since, visit);
    }
    if let Some(bp) = o.dnode().spill.as_ref().filter(|bp| bp.logical_birth() > since) {
        let mut place = o.place(0, Place::BLKID_SPILL);
        place.blkid = Place::BLKID_SPILL;
        visit(bp, place);
    }
}

/// Depth is bounded by the level, which counts down.
fn tree(
    d: &mut Dump,
    o: &Object,
    bp: &BlkPtr,
    level: u8,
    blkid: u64,
    since: u64,
    visit: &mut Visit<'_>,
) {
    if bp.logical_birth() <= since {
        return;
    }
    visit(bp, o.place(level, blkid));
    if level == 0 || bp.is_hole() {
        return;
    }
    let Some(Some(block)) = d.keep("", o.read_indirect(level, blkid)) else { return };
    let first = blkid.saturating_mul(o.dnode().pointers_per_indirect());
    for (i, c) in block.chunks_exact(BLKPTR_SIZE).enumerate() {
        if let Some(child) = d.keep("", BlkPtr::decode(c, block.endian())) {
            tree(d, o, &child, level - 1, first.saturating_add(i as u64), since, visit);
        }
    }
}

/// Space a block takes as OpenZFS accounts it: RAID-Z with the overhead of a block of 128 KiB.
pub fn deflated(pool: &Pool, bp: &BlkPtr) -> u64 {
    const TYPICAL: u64 = 128 << 10;
    bp.dvas().fold(0u64, |sum, (_, dva)| {
        let asize = pool.vdevs().psize_to_asize(dva.vdev(), TYPICAL, u64::MAX);
        let ratio = asize.map_or(512, |a| TYPICAL.checked_div(a >> 9).unwrap_or(512));
        sum.saturating_add((dva.asize() >> 9).saturating_mul(ratio))
    })
}
