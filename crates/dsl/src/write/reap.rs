//! Freeing in the background: what destroyed snapshots and heads leave behind.
//!
//! Two queues, and a list that frees nothing (remapped.rs). The list `free_bpobj` has single
//! blocks, of snapshots. The queue `bptree_obj` (feature `async_destroy`) has trees: the root of an
//! object set, the txg after which its blocks are its own, and how far freeing has come. A tree is
//! freed from the leaves up, so that whatever is still there can be reached after a crash; the
//! place to go on from is the first block of level 0 that is not freed, in the order of the walk,
//! as OpenZFS has it, which can take over in the middle.

use super::deadlists;
use super::features::ASYNC_DESTROY;
use super::meta::DslCx;
use super::remapped;
use super::spacing::{Delta, add};
use crate::error::{Error, Result};
use dmu::{ClearStore, Place, Step, Traversal, Visitor};
use ondisk::bpobj::Space;
use ondisk::bpobj::bptree::{BptreeEntry, BptreeHeader};
use ondisk::dsl::{DslDir, FREE_DIR_NAME, LEAK_DIR_NAME};
use ondisk::{BlkPtr, DmuType, Endian, Zbookmark, mos};
use std::ops::ControlFlow;

/// Type of the queue: an array of words that is metadata.
const BPTREE_KIND: DmuType = DmuType(195);
/// Bytes of a block of the queue.
const BPTREE_BLOCK: u32 = 128 << 10;
/// Dataset in the bookmarks of trees that belong to none any more.
const DESTROYED: u64 = u64::MAX;

/// The result of a call of [`drain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Blocks freed.
    pub blocks: u64,
    /// Their space in bytes.
    pub bytes: u64,
    /// Blocks that could not be read: they, and what they lead to, stay allocated.
    pub lost: u64,
    /// Nothing is left to be freed.
    pub done: bool,
}

impl DslCx<'_> {
    /// Appends a tree to the queue.
    pub(super) fn queue_tree(&self, bp: &BlkPtr, birth_txg: u64, space: Space) -> Result<()> {
        // A root that is shared has nothing of its own below it.
        if bp.is_hole() || bp.logical_birth() <= birth_txg {
            return Ok(());
        }
        let object = match self.directory(mos::BPTREE_OBJ)? {
            Some(object) => object,
            None => {
                let bonus = BptreeHeader::default().encode(Endian::Little);
                let spec = dmu::NewObject::new(BPTREE_KIND)
                    .block_size(BPTREE_BLOCK)
                    .bonus(BPTREE_KIND, &bonus);
                let object = self.mos.create(self.tx, &spec)?.number();
                self.put(mos::DIRECTORY_OBJECT, mos::BPTREE_OBJ, object)?;
                self.features.incr(self, ASYNC_DESTROY)?;
                object
            }
        };
        let mut header = self.queue(object)?;
        let entry = BptreeEntry { bp: *bp, birth_txg, bookmark: Zbookmark::default() };
        self.put_entry(object, header.end, &entry)?;
        header.end += 1;
        header.bytes = header.bytes.saturating_add(space.used);
        header.compressed = header.compressed.saturating_add(space.compressed);
        header.uncompressed = header.uncompressed.saturating_add(space.uncompressed);
        self.put_queue(object, &header)
    }

    fn queue(&self, object: u64) -> Result<BptreeHeader> {
        let o = self.mos.object(object)?;
        let header = BptreeHeader::decode(&o.dnode().bonus, o.dnode().endian);
        header.map_err(|error| Error::Format { object, error })
    }

    fn put_queue(&self, object: u64, header: &BptreeHeader) -> Result<()> {
        let o = self.mos.object(object)?;
        let kind = o.dnode().bonus_kind;
        Ok(o.set_bonus(self.tx, kind, &header.encode(o.dnode().endian))?)
    }

    fn put_entry(&self, object: u64, index: u64, entry: &BptreeEntry) -> Result<()> {
        let o = self.mos.object(object)?;
        let at = index.saturating_mul(BptreeEntry::SIZE as u64);
        Ok(o.write_at(self.tx, at, &entry.encode(o.dnode().endian))?)
    }

    fn entry(&self, object: u64, index: u64) -> Result<BptreeEntry> {
        let o = self.mos.object(object)?;
        let mut bytes = [0; BptreeEntry::SIZE];
        o.read_at(index.saturating_mul(BptreeEntry::SIZE as u64), &mut bytes)?;
        let entry = BptreeEntry::decode(&bytes, o.dnode().endian);
        entry.map_err(|error| Error::Format { object, error })
    }
}

/// Whether nothing waits to be freed, nor to be marked as obsolete.
pub fn is_drained(cx: &DslCx<'_>) -> Result<bool> {
    Ok(is_freed(cx)? && remapped::is_drained(cx)?)
}

/// Whether nothing waits to be freed.
fn is_freed(cx: &DslCx<'_>) -> Result<bool> {
    let list = cx.directory(mos::FREE_BPOBJ)?.unwrap_or(0);
    Ok(cx.directory(mos::BPTREE_OBJ)?.is_none() && (list == 0 || deadlists::is_empty(cx, list)?))
}

/// Frees about `max_blocks` of the blocks that destroyed snapshots and heads left; called once in
/// every txg until it is done.
///
/// Changes on disk: the two queues, the space of `$FREE`; the queue of trees goes when it is empty,
/// and the feature `async_destroy` is not active any more. Blocks that could not be reached because
/// a block on the way is lost stay allocated and count for `$LEAK` then.
pub fn drain(cx: &DslCx<'_>, max_blocks: u64) -> Result<Drained> {
    let mut out = Drained::default();
    let mut freed = Delta::default();
    if let Some(list) = cx.directory(mos::FREE_BPOBJ)? {
        deadlists::consume(cx, list, max_blocks, &mut |bp| {
            cx.blocks.free(bp);
            out.blocks += 1;
            freed = freed.plus(cx.space_of(bp));
        })?;
    }
    let list_freed = freed;
    if let Some(object) = cx.directory(mos::BPTREE_OBJ)? {
        let mut header = cx.queue(object)?;
        while header.begin < header.end && out.blocks < max_blocks {
            let mut entry = cx.entry(object, header.begin)?;
            let resume = Some(entry.bookmark).filter(|b| *b != Zbookmark::default());
            let left = max_blocks - out.blocks;
            // No key is needed to know what the blocks of an encrypted dataset are.
            let traversal = Traversal {
                store: &ClearStore(&**cx.mos.store()),
                key: None,
                objset: DESTROYED,
                since: entry.birth_txg,
                resume: resume.map(|b| (b.object, b.blkid)),
            };
            let mut freeing = Freeing::new(cx, left);
            // Where it ended is in `stop`.
            let _ = traversal.objset(&entry.bp, &mut freeing);
            out.blocks += freeing.blocks;
            out.lost += freeing.lost;
            freed = freed.plus(freeing.freed);
            match freeing.stop {
                Some(bookmark) => {
                    entry.bookmark = bookmark;
                    cx.put_entry(object, header.begin, &entry)?;
                }
                None => header.begin += 1,
            }
        }
        let of_trees = freed.minus(list_freed).negated();
        add(&mut header.bytes, of_trees.used);
        add(&mut header.compressed, of_trees.compressed);
        add(&mut header.uncompressed, of_trees.uncompressed);
        if header.begin < header.end {
            cx.put_queue(object, &header)?;
        } else {
            cx.mos.free(cx.tx, object)?;
            cx.remove(mos::DIRECTORY_OBJECT, mos::BPTREE_OBJ)?;
            cx.features.decr(cx, ASYNC_DESTROY)?;
        }
    }
    cx.charge_free_by(freed.negated())?;
    out.bytes = freed.used.cast_unsigned();
    if is_freed(cx)? {
        cx.account_leak()?;
        remapped::drain(cx, max_blocks.saturating_sub(out.blocks))?;
    }
    out.done = is_drained(cx)?;
    Ok(out)
}

impl DslCx<'_> {
    /// The space that `$FREE` still counts when nothing is left to be freed could not be reached.
    fn account_leak(&self) -> Result<()> {
        let Some(free) = self.internal_dir(FREE_DIR_NAME)? else { return Ok(()) };
        let d = self.dir(free)?;
        let rest = Space { used: d.used, compressed: d.compressed, uncompressed: d.uncompressed };
        if rest == Space::default() {
            return Ok(());
        }
        let leak = match self.internal_dir(LEAK_DIR_NAME)? {
            Some(dir) => dir,
            None => super::create::create_dir(self, Some((self.root_dir()?, LEAK_DIR_NAME)))?,
        };
        self.charge(leak, DslDir::USED_HEAD, rest.into())?;
        self.charge(free, DslDir::USED_HEAD, Delta::from(rest).negated())
    }

    /// Space of a block.
    pub(super) fn space_of(&self, bp: &BlkPtr) -> Delta {
        let [compressed, uncompressed] = bp.accounted_sizes();
        Space { used: self.blocks.dsize(bp), compressed, uncompressed }.into()
    }
}

/// Frees what a walk has done with, as far as `left` goes.
struct Freeing<'a> {
    cx: &'a DslCx<'a>,
    left: u64,
    stop: Option<Zbookmark>,
    freed: Delta,
    blocks: u64,
    lost: u64,
}

impl<'a> Freeing<'a> {
    fn new(cx: &'a DslCx<'a>, left: u64) -> Self {
        Self { cx, left, stop: None, freed: Delta::default(), blocks: 0, lost: 0 }
    }
}

impl Visitor for Freeing<'_> {
    fn enter(&mut self, bp: &BlkPtr, _: Place) -> Step {
        if bp.is_hole() { Step::Skip } else { Step::Descend }
    }

    fn leave(&mut self, bp: &BlkPtr, place: Place) -> ControlFlow<()> {
        // Stopping at an indirect block would mean that nothing below it is freed yet.
        if self.left == 0 && place.level == 0 {
            let blkid = place.blkid.min(Zbookmark::SPILL_BLKID);
            self.stop = Some(Zbookmark::new(DESTROYED, place.object, 0, blkid));
            return ControlFlow::Break(());
        }
        self.left = self.left.saturating_sub(1);
        self.blocks += 1;
        self.cx.blocks.free(bp);
        self.freed = self.freed.plus(self.cx.space_of(bp));
        ControlFlow::Continue(())
    }

    fn lost(&mut self, _: Place, _: dmu::Error) {
        self.lost += 1;
    }
}
