//! Walking over the blocks of an object set.
//!
//! # Theory
//!
//! An object set is a tree: its header block leads to the meta dnode, whose data are blocks of
//! dnodes, each of which leads to the tree of an object. Beside the meta dnode the header has the
//! dnodes of the tables of space by project, group and user.
//!
//! ```text
//! header -> meta dnode -> [indirect ...] -> blocks of dnodes -> [indirect ...] -> data
//!       \-> accounting dnodes (-3, -2, -1) -> [indirect ...] -> data
//! ```
//!
//! The *logical order* is that of the bookmarks of OpenZFS: objects by number, blocks of an object
//! by offset, the spill block last. A block of dnodes comes where its first object does. A
//! [`Visitor`] sees each block twice: when the walk comes to it, and when everything below is done.
//! A visitor that frees blocks frees them on the second occasion, so that those that are left can
//! be reached after a crash.
//!
//! A walk can be limited to blocks born after a txg, because no block is older than what it leads
//! to; a whole subtree is left out by the birth of its root. It can be resumed at a block of level
//! 0: everything before is left out without being read, and the block itself is visited without
//! what is below it, because the walk that stopped there was done with that.
//!
//! Where the order does not matter, and many threads are to be kept busy, blocks are visited in the
//! order of the disk instead ([`DiskOrder`]): the visitor is handed batches, reads them as it
//! likes, and hands back what it found in them ([`pointers`], [`dnodes`]). It is also the visitor
//! that checks which pointer may be at which place.
//!
//! # Bounds
//!
//! Bytes from disk may form anything. Levels count down from those of the dnode and a pointer must
//! have the level of its place; the objects in blocks of dnodes are never blocks of dnodes
//! themselves; a block with pointers is in one place of the walk ([`crate::places`]). So a walk is
//! at most two trees deep, and its work is bounded by the blocks that really exist. Blocks that
//! lead further are read in batches of [`BATCH`]; on each level one batch is held.

pub(crate) mod content;
mod spread;

use crate::error::{Error, ErrorKind, Result};
use crate::places::Places;
use crate::store::{BlockStore, Key};
pub use content::{accounting, dnodes, pointers, tops};
use ondisk::dnode::DNODE_SLOT_SIZE;
use ondisk::{BlkPtr, Dnode, ObjsetPhys};
pub use spread::{BatchVisitor, DiskOrder, Item};
use std::ops::ControlFlow;
use std::sync::Arc;
use zio::{Block, Place};

/// Blocks with pointers that are read at once.
const BATCH: usize = 16;
/// The place of a spill block in the order: behind all data.
const SPILL_RANK: u64 = u64::MAX - 1;

/// How a walk continues at a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// On to what is below it.
    Descend,
    /// Nothing below it is visited, and the visitor is not called when it is done.
    Skip,
    /// The walk ends here.
    Stop,
}

/// Sees the blocks of a walk.
pub trait Visitor {
    /// A pointer, before what is below it. It can be a hole, which has a birth of its own.
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step;

    /// The same pointer when everything below was visited. Not called for holes, nor for what is
    /// lost itself.
    fn leave(&mut self, bp: &BlkPtr, place: Place) -> ControlFlow<()> {
        let _ = (bp, place);
        ControlFlow::Continue(())
    }

    /// An object, before its blocks, whether they changed or not: its dnode is in a block that was
    /// entered. In a walk over an object set only.
    fn object(&mut self, number: u64, dnode: &Dnode) -> Step {
        let _ = (number, dnode);
        Step::Descend
    }

    /// A hole without a birth txg: nothing was ever written there, or the pool does not record the
    /// births of holes. Called for holes next to visited blocks.
    fn unborn(&mut self, place: Place) {
        let _ = place;
    }

    /// Something on the way cannot be read; what is below it is left out.
    fn lost(&mut self, place: Place, error: Error);
}

/// A walk over an object set or object.
#[derive(Clone, Copy)]
pub struct Traversal<'a> {
    /// Where the blocks come from.
    pub store: &'a dyn BlockStore,
    /// Key of the dataset.
    pub key: Option<&'a Key>,
    /// Object set, as places name it.
    pub objset: u64,
    /// Blocks are visited that were born after this txg.
    pub since: u64,
    /// Object and number of the block of level 0 where an earlier walk stopped.
    pub resume: Option<(u64, u64)>,
}

/// A tree of blocks: that of one dnode.
struct Tree<'d> {
    number: u64,
    dnode: &'d Dnode,
    /// Its data are dnodes.
    is_meta: bool,
    /// The places of the walk's blocks with pointers.
    places: &'d Places,
}

impl Tree<'_> {
    /// The place of block `blkid` of level 0 in the order.
    fn position(&self, blkid: u64, slots: u64) -> (u64, u64) {
        if self.is_meta { (blkid.saturating_mul(slots), 0) } else { (self.number, blkid) }
    }
}

/// On which side of the place where a walk is resumed a block is.
enum Side {
    /// All of it comes before.
    Behind,
    /// It is the place.
    Here,
    /// All of it, or a part, comes after.
    Ahead,
}

/// Whether the walk goes into a block, or ends.
fn step(step: Step) -> ControlFlow<(), bool> {
    match step {
        Step::Descend => ControlFlow::Continue(true),
        Step::Skip => ControlFlow::Continue(false),
        Step::Stop => ControlFlow::Break(()),
    }
}

impl Traversal<'_> {
    /// Walks over an object set, from the pointer to its header.
    pub fn objset(&self, root: &BlkPtr, visitor: &mut dyn Visitor) -> ControlFlow<()> {
        if root.logical_birth() <= self.since {
            return ControlFlow::Continue(());
        }
        let place = Place::objset(self.objset);
        if !step(visitor.enter(root, place))? || root.is_hole() {
            return ControlFlow::Continue(());
        }
        match self.header(root, place) {
            Ok(phys) => self.below_header(&phys, visitor)?,
            Err(e) => {
                visitor.lost(place, e);
                return ControlFlow::Continue(());
            }
        }
        visitor.leave(root, place)
    }

    /// Walks over one object.
    pub fn object(&self, number: u64, dnode: &Dnode, visitor: &mut dyn Visitor) -> ControlFlow<()> {
        let places = &Places::default();
        self.tree(&Tree { number, dnode, is_meta: false, places }, visitor)
    }

    fn header(&self, root: &BlkPtr, place: Place) -> Result<ObjsetPhys> {
        let block = self.store.read(root, place, self.key)?;
        let phys = ObjsetPhys::decode(&block, block.endian());
        phys.map_err(|error| self.format(place, error))
    }

    fn below_header(&self, phys: &ObjsetPhys, visitor: &mut dyn Visitor) -> ControlFlow<()> {
        let places = &Places::default();
        if let Some(dnode) = &phys.meta_dnode {
            self.tree(&Tree { number: 0, dnode, is_meta: true, places }, visitor)?;
        }
        for (number, dnode) in accounting(phys) {
            self.tree(&Tree { number, dnode, is_meta: false, places }, visitor)?;
        }
        ControlFlow::Continue(())
    }

    fn tree(&self, tree: &Tree<'_>, visitor: &mut dyn Visitor) -> ControlFlow<()> {
        let top = tree.dnode.levels.saturating_sub(1);
        self.blocks(tree, top, 0, &tree.dnode.blkptrs, visitor)?;
        match &tree.dnode.spill {
            Some(bp) => {
                self.block(tree, self.place(tree, 0, Place::BLKID_SPILL), bp, None, visitor)
            }
            None => ControlFlow::Continue(()),
        }
    }

    /// Visits adjacent pointers, from block `first` of their level on.
    fn blocks(
        &self,
        tree: &Tree<'_>,
        level: u8,
        first: u64,
        pointers: &[BlkPtr],
        visitor: &mut dyn Visitor,
    ) -> ControlFlow<()> {
        let place = |at: usize| self.place(tree, level, first.saturating_add(at as u64));
        let has_pointers = level > 0 || tree.is_meta;
        for (at, batch) in (0..).step_by(BATCH).zip(pointers.chunks(BATCH)) {
            let mut read = if has_pointers {
                self.read_batch(tree, batch.iter().zip(at..).map(|(bp, at)| (*bp, place(at))))
            } else {
                Vec::new()
            };
            for (n, bp) in batch.iter().enumerate() {
                let content = read.get_mut(n).and_then(Option::take);
                self.block(tree, place(at + n), bp, content, visitor)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Reads what leads further of pointers beside each other; `None` for the others.
    fn read_batch(
        &self,
        tree: &Tree<'_>,
        batch: impl Iterator<Item = (BlkPtr, Place)>,
    ) -> Vec<Option<Result<Arc<Block>>>> {
        let wanted: Vec<Option<(BlkPtr, Place)>> = batch
            .map(|(bp, place)| Some((bp, place)).filter(|_| self.is_read(tree, &bp, place)))
            .collect();
        let requests: Vec<(BlkPtr, Place)> = wanted.iter().flatten().copied().collect();
        let mut read = self.store.read_many(&requests, self.key).into_iter();
        let read = wanted.iter().map(|w| w.as_ref().and_then(|_| read.next()));
        read.map(|one| one.map(|result| result.map_err(Error::from))).collect()
    }

    /// Whether what is below a pointer is part of the walk.
    fn is_read(&self, tree: &Tree<'_>, bp: &BlkPtr, place: Place) -> bool {
        !bp.is_hole()
            && !bp.is_redacted()
            && bp.logical_birth() > self.since
            && self.judge(tree, bp, place).is_ok()
            && matches!(self.side(tree, place), Side::Ahead)
    }

    fn block(
        &self,
        tree: &Tree<'_>,
        place: Place,
        bp: &BlkPtr,
        content: Option<Result<Arc<Block>>>,
        visitor: &mut dyn Visitor,
    ) -> ControlFlow<()> {
        let is_behind = matches!(self.side(tree, place), Side::Behind);
        if bp.is_hole() && bp.logical_birth() == 0 && !is_behind {
            visitor.unborn(place);
        }
        if bp.logical_birth() <= self.since || is_behind {
            return ControlFlow::Continue(());
        }
        if !step(visitor.enter(bp, place))? || bp.is_hole() {
            return ControlFlow::Continue(());
        }
        if let Err(e) = self.judge(tree, bp, place) {
            visitor.lost(place, e);
            return ControlFlow::Continue(());
        }
        match content {
            Some(Ok(block)) if place.level > 0 => self.indirect(tree, place, &block, visitor)?,
            Some(Ok(block)) => self.dnodes(tree.places, place, &block, visitor)?,
            Some(Err(e)) => {
                visitor.lost(place, e);
                return ControlFlow::Continue(());
            }
            None => {}
        }
        visitor.leave(bp, place)
    }

    /// Checks whether a pointer may be at its place.
    fn judge(&self, tree: &Tree<'_>, bp: &BlkPtr, place: Place) -> Result<()> {
        let level = place.level.cast_unsigned();
        let judged = match level {
            0 if bp.level() != 0 => Err("a pointer has another level than its place"),
            0 if tree.is_meta && bp.is_embedded() => Err("a block of dnodes is embedded"),
            0 if tree.is_meta && !tree.places.is_only(bp, (tree.number, level, place.blkid)) => {
                Err("a block of dnodes stands in several places")
            }
            0 => Ok(()),
            level => tree.places.judge((tree.number, tree.dnode), bp, level, place.blkid),
        };
        judged.map_err(|rule| Error {
            objset: self.objset,
            object: tree.number,
            kind: ErrorKind::Tree(rule),
        })
    }

    fn indirect(
        &self,
        tree: &Tree<'_>,
        place: Place,
        block: &Block,
        visitor: &mut dyn Visitor,
    ) -> ControlFlow<()> {
        let mut below = Vec::new();
        for (_, bp) in pointers(block, place) {
            // A hole was never born, and is passed over.
            below.push(bp.unwrap_or_else(|error| {
                visitor.lost(place, self.format(place, error));
                BlkPtr::HOLE
            }));
        }
        let first = place.blkid.saturating_mul(below.len() as u64);
        let level = place.level.cast_unsigned().saturating_sub(1);
        self.blocks(tree, level, first, &below, visitor)
    }

    fn dnodes(
        &self,
        places: &Places,
        place: Place,
        block: &Block,
        visitor: &mut dyn Visitor,
    ) -> ControlFlow<()> {
        for (number, dnode) in dnodes(block, place).filter(|(number, _)| *number != 0) {
            match dnode {
                Ok(dnode) => {
                    if !step(visitor.object(number, &dnode))? {
                        continue;
                    }
                    let tree = Tree { number, dnode: &dnode, is_meta: false, places };
                    self.tree(&tree, visitor)?;
                }
                Err(error) => {
                    let place = Place { object: number, level: 0, blkid: 0, ..place };
                    visitor.lost(place, self.format(place, error));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn side(&self, tree: &Tree<'_>, place: Place) -> Side {
        let Some((object, blkid)) = self.resume else { return Side::Ahead };
        let shift = u32::from(tree.dnode.indirect_shift).saturating_sub(7);
        let shift = shift * u32::from(place.level.cast_unsigned());
        let rank = place.blkid.min(SPILL_RANK);
        let end = rank.saturating_add(1).checked_mul(1u64.checked_shl(shift).unwrap_or(u64::MAX));
        let slots = tree.dnode.block_size() / DNODE_SLOT_SIZE as u64;
        let end = tree.position(end.unwrap_or(u64::MAX), slots);
        let at = match object {
            0 => (blkid.saturating_mul(slots), 0),
            n => (n, blkid.min(SPILL_RANK)),
        };
        match () {
            () if end <= at => Side::Behind,
            () if place.level == 0 && (tree.number, rank) == (object, blkid.min(SPILL_RANK)) => {
                Side::Here
            }
            () => Side::Ahead,
        }
    }

    fn place(&self, tree: &Tree<'_>, level: u8, blkid: u64) -> Place {
        let (objset, object) = (self.objset, tree.number);
        Place { objset, object, level: level.cast_signed(), blkid }
    }

    fn format(&self, place: Place, error: ondisk::Error) -> Error {
        let kind = ErrorKind::Format { place, error };
        Error { objset: self.objset, object: place.object, kind }
    }
}
