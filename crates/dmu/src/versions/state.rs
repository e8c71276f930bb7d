//! One live object: its versions, and what a reader sees through them.

use crate::ranges::BlockRanges;
use ondisk::{BlkPtr, Dnode};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zio::Block;

/// An object that is open, or has changes that are not durable.
pub(crate) struct LiveObject {
    number: u64,
    state: Mutex<State>,
}

impl LiveObject {
    pub(crate) fn new(number: u64, synced: Option<Arc<Dnode>>) -> Self {
        let slots = synced.as_ref().map_or(0, |d| d.extra_slots + 1);
        let state = State { synced, pass: None, versions: Vec::new(), slots };
        Self { number, state: Mutex::new(state) }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The dnode of the last durable txg.
    pub(crate) fn synced(&self) -> Option<Arc<Dnode>> {
        self.lock().synced.clone()
    }

    /// The dnode with the newest attributes; `None`: the object is gone.
    pub(crate) fn current(&self) -> Option<Arc<Dnode>> {
        self.lock().attrs().cloned()
    }
}

/// A block of level 0 in a version.
#[derive(Clone)]
pub(crate) enum Content {
    /// Its bytes, which the sync will write.
    Block(Arc<Block>),
    /// It is on disk already: the sync puts this pointer into the tree as it is.
    Stored(Arc<BlkPtr>),
}

impl Content {
    /// Bytes of memory it takes.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Self::Block(b) => b.size(),
            Self::Stored(_) => 0,
        }
    }
}

/// Where a reader finds a block.
pub(crate) enum BlockSource {
    Version(Content),
    Hole,
    /// In the tree of this dnode, if anywhere.
    Tree(Arc<Dnode>),
}

pub(crate) struct State {
    /// The tree that readers see behind the versions.
    pub(crate) synced: Option<Arc<Dnode>>,
    /// The tree that the last pass of the txg being synced has made.
    pub(crate) pass: Option<Option<Arc<Dnode>>>,
    /// By txg, ascending; three at most.
    pub(crate) versions: Vec<Version>,
    /// Slots it takes, or took before it was freed.
    pub(crate) slots: u8,
}

impl State {
    pub(crate) fn attrs(&self) -> Option<&Arc<Dnode>> {
        match self.versions.last() {
            Some(v) => v.attrs.as_ref(),
            None => self.synced.as_ref(),
        }
    }

    pub(crate) fn synced_tree(&self) -> Option<Arc<Dnode>> {
        self.synced.clone()
    }

    /// The bytes of the block in the version of `txg`, when it has them and they are not synced.
    pub(crate) fn own(&self, txg: u64, blkid: u64) -> Option<&Arc<Block>> {
        let version = self.versions.iter().find(|v| v.txg == txg)?;
        match version.blocks.get(&blkid)? {
            Content::Block(block) => Some(block),
            Content::Stored(_) => None,
        }
    }

    /// The pointer that the version of `txg` has in place of the block's bytes.
    pub(crate) fn own_pointer(&self, txg: u64, blkid: u64) -> Option<BlkPtr> {
        let version = self.versions.iter().find(|v| v.txg == txg)?;
        match version.blocks.get(&blkid)? {
            Content::Block(_) => None,
            Content::Stored(bp) => Some(**bp),
        }
    }

    pub(crate) fn is_dirty(&self, txg: u64) -> bool {
        self.versions.iter().any(|v| v.txg == txg && v.dirty)
    }

    pub(crate) fn is_changed(&self) -> bool {
        !self.versions.is_empty()
    }

    /// The version of `txg`, made from the one before it when it does not exist.
    pub(crate) fn version(&mut self, txg: u64) -> &mut Version {
        let at = self.versions.partition_point(|v| v.txg < txg);
        if self.versions.get(at).is_none_or(|v| v.txg != txg) {
            let attrs = match at.checked_sub(1).and_then(|i| self.versions.get(i)) {
                Some(before) => before.attrs.clone(),
                None => self.synced.clone(),
            };
            self.versions.insert(at, Version::new(txg, attrs));
        }
        &mut self.versions[at]
    }

    pub(crate) fn find(&self, blkid: u64) -> BlockSource {
        for v in self.versions.iter().rev() {
            match v.find(blkid) {
                Some(Some(c)) => return BlockSource::Version(c.clone()),
                Some(None) => return BlockSource::Hole,
                None => {}
            }
        }
        self.synced.as_ref().map_or(BlockSource::Hole, |d| BlockSource::Tree(Arc::clone(d)))
    }

    /// The spill block: `Some` when a version decides it.
    pub(crate) fn spill(&self) -> Option<Option<Arc<Block>>> {
        for v in self.versions.iter().rev() {
            if let Some(s) = &v.spill {
                return Some(s.clone());
            }
            if v.cleared {
                return Some(None);
            }
        }
        None
    }

    pub(crate) fn has_spill(&self) -> bool {
        match self.spill() {
            Some(s) => s.is_some(),
            None => self.synced.as_ref().is_some_and(|d| d.spill.is_some()),
        }
    }

    /// The first block at or behind `from` that a version holds.
    pub(crate) fn next_in_memory(&self, from: u64) -> Option<u64> {
        let visible = |b: &u64| matches!(self.find(*b), BlockSource::Version(_));
        let of = |m: &BTreeMap<u64, Content>| m.range(from..).map(|(b, _)| *b).find(visible);
        self.versions.iter().flat_map(|v| [of(&v.blocks), of(&v.done_blocks)]).flatten().min()
    }

    /// When a version makes block `blkid` a hole: the end of that hole, at least `blkid + 1`.
    pub(crate) fn hole_end(&self, blkid: u64) -> Option<u64> {
        for v in self.versions.iter().rev() {
            match v.find(blkid) {
                Some(Some(_)) => return None,
                Some(None) => {
                    let ranges = [&v.holes, &v.done_holes];
                    let end = ranges.iter().filter_map(|r| r.covering(blkid)).max();
                    return Some(if v.cleared { u64::MAX } else { end.unwrap_or(u64::MAX) });
                }
                None => {}
            }
        }
        None
    }

    /// The txg will never be durable: what it changed is not seen any more.
    pub(crate) fn forget(&mut self, txg: u64) {
        self.pass = None;
        self.versions.retain(|v| v.txg != txg);
    }

    /// The txg is durable: its tree is what readers see behind the versions that are left.
    pub(crate) fn publish(&mut self, txg: u64) {
        if let Some(tree) = self.pass.take() {
            self.synced = tree;
        }
        self.versions.retain(|v| v.txg > txg);
        let Some(tree) = self.synced.clone() else { return };
        for v in &mut self.versions {
            if v.cleared {
                break;
            }
            // A reader is shown addresses and space used of the tree that is on disk.
            if let Some(attrs) = &mut v.attrs {
                let attrs = Arc::make_mut(attrs);
                attrs.levels = tree.levels;
                attrs.used = tree.used;
                attrs.flags = tree.flags;
                attrs.blkptrs.clone_from(&tree.blkptrs);
                attrs.spill = tree.spill;
            }
        }
    }
}

/// The changes of one txg.
pub(crate) struct Version {
    pub(crate) txg: u64,
    /// Stands in the set's list of what must be synced.
    pub(crate) dirty: bool,
    /// The attributes after the changes; `None`: the object is gone. The tree in it is no truth.
    pub(crate) attrs: Option<Arc<Dnode>>,
    /// Nothing of an older version or tree belongs to the object any more.
    pub(crate) cleared: bool,
    /// The next sync must kill the older tree.
    pub(crate) clear: bool,
    /// Levels that the tree is to have at least.
    pub(crate) levels: Option<u8>,
    /// Changed blocks.
    pub(crate) blocks: BTreeMap<u64, Content>,
    /// Freed ranges: of what is in `blocks`, nothing.
    pub(crate) holes: BlockRanges,
    /// Blocks and ranges that an earlier pass has synced. Only readers need them.
    pub(crate) done_blocks: BTreeMap<u64, Content>,
    pub(crate) done_holes: BlockRanges,
    /// Changed spill block; `Some(None)`: removed.
    pub(crate) spill: Option<Option<Arc<Block>>>,
    pub(crate) spill_dirty: bool,
    /// What is mended of the tree itself.
    pub(crate) mend: Option<Box<TreeMend>>,
}

impl Version {
    fn new(txg: u64, attrs: Option<Arc<Dnode>>) -> Self {
        Self {
            txg,
            dirty: false,
            attrs,
            cleared: false,
            clear: false,
            levels: None,
            blocks: BTreeMap::new(),
            holes: BlockRanges::default(),
            done_blocks: BTreeMap::new(),
            done_holes: BlockRanges::default(),
            spill: None,
            spill_dirty: false,
            mend: None,
        }
    }

    /// `None`: this version does not say.
    fn find(&self, blkid: u64) -> Option<Option<&Content>> {
        if let Some(b) = self.blocks.get(&blkid) {
            return Some(Some(b));
        }
        if self.holes.covering(blkid).is_some() {
            return Some(None);
        }
        if let Some(b) = self.done_blocks.get(&blkid) {
            return Some(Some(b));
        }
        (self.cleared || self.done_holes.covering(blkid).is_some()).then_some(None)
    }

    /// Makes the blocks from `start` up to, not including, `end` holes. Returns the bytes of
    /// memory that are held no more.
    pub(crate) fn free_blocks(&mut self, start: u64, end: u64) -> u64 {
        self.holes.add(start, end);
        remove_range(&mut self.blocks, start, end)
    }

    /// The object is gone, with everything it had. Returns the bytes of memory that are held no
    /// more.
    pub(crate) fn clear(&mut self) -> u64 {
        let dirty = self.dirty;
        let before = self.blocks.values().map(Content::held).sum();
        *self = Self { dirty, cleared: true, clear: true, ..Self::new(self.txg, None) };
        before
    }

    /// Hands out what must be synced, and keeps it for readers.
    pub(crate) fn take(&mut self) -> ObjectChanges {
        self.dirty = false;
        let holes = std::mem::take(&mut self.holes);
        for (start, end) in holes.iter() {
            remove_range(&mut self.done_blocks, start, end);
            self.done_holes.add(start, end);
        }
        let blocks = std::mem::take(&mut self.blocks);
        let taken: Vec<_> = blocks.iter().map(|(id, c)| (*id, c.clone())).collect();
        if self.done_blocks.is_empty() {
            self.done_blocks = blocks;
        } else {
            self.done_blocks.extend(blocks);
        }
        let spill = std::mem::take(&mut self.spill_dirty).then(|| self.spill.clone()).flatten();
        let clear = std::mem::take(&mut self.clear);
        let (attrs, levels) = (self.attrs.clone(), self.levels);
        let mend = self.mend.take().map(|mend| *mend).unwrap_or_default();
        ObjectChanges { attrs, clear, levels, blocks: taken, holes, spill, mend }
    }
}

/// Removes the blocks from `start` up to `end`; returns the bytes of memory they held.
fn remove_range(blocks: &mut BTreeMap<u64, Content>, start: u64, end: u64) -> u64 {
    if start >= end || blocks.is_empty() {
        return 0;
    }
    let mut gone = blocks.split_off(&start);
    blocks.append(&mut gone.split_off(&end));
    gone.values().map(Content::held).sum()
}

/// What is wrong of an object's tree, and not of what is in it. For repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeMend {
    /// Blocks of level 0, which stay as they are: the blocks above them are written anew, with
    /// pointers that count rightly what is below.
    pub above: BTreeSet<u64>,
    /// Added to the space used that the dnode says.
    pub used: i64,
}

/// The changes of one object that a sync must write.
pub(crate) struct ObjectChanges {
    pub(crate) attrs: Option<Arc<Dnode>>,
    pub(crate) clear: bool,
    pub(crate) levels: Option<u8>,
    pub(crate) blocks: Vec<(u64, Content)>,
    pub(crate) holes: BlockRanges,
    pub(crate) spill: Option<Option<Arc<Block>>>,
    pub(crate) mend: TreeMend,
}
