//! One object: its tree of blocks, read by block, by byte, and by what is allocated.

use crate::ahead::{Access, Lead, Piece, ReadAhead, Shape};
use crate::error::{Error, ErrorKind, Result};
use crate::objset::Objset;
use crate::refusal::InvalidChange;
use crate::traverse::Visitor;
use crate::versions::state::{BlockSource, Content, LiveObject};
use ondisk::{BlkPtr, Checksum, DmuType, Dnode};
use std::ops::ControlFlow;
use std::sync::Arc;
use zio::{Block, Place};

/// Blocks read in one submission by [`Object::read_at`], at most.
pub const BLOCK_BATCH: u64 = 32;

/// Bytes in flight of one [`Object::read_at`], at most (but always one block).
const BATCH_BYTES: u64 = 8 << 20;

/// A range of an object's bytes that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Where a block is.
enum Located {
    Memory(Arc<Block>),
    Disk(BlkPtr),
    Hole,
}

/// The result of reading a live object whose tree may have been replaced.
enum Read<T> {
    /// It is what was there when reading began, or later.
    Settled(T),
    /// Nothing tells whether it is that.
    Unverified(T),
}
use Read::{Settled, Unverified};

/// The block is known to be the one that the pointer means.
fn is_verified(bp: &BlkPtr) -> bool {
    bp.is_embedded() || bp.checksum_kind() != Checksum::OFF
}

/// An object: as it is on disk, or of a live set, where it is changed through this handle too.
/// Cheap to clone.
#[derive(Clone)]
pub struct Object {
    objset: Objset,
    number: u64,
    dnode: Arc<Dnode>,
    /// Of a live set: what is newer than `dnode`.
    live: Option<Arc<LiveObject>>,
}

/// Neither of them, or both and the same.
fn is_same_tree(a: Option<&Arc<Dnode>>, b: Option<&Arc<Dnode>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => a.is_none() && b.is_none(),
    }
}

impl Object {
    pub(crate) fn new(objset: Objset, number: u64, dnode: Arc<Dnode>) -> Self {
        Self { objset, number, dnode, live: None }
    }

    pub(crate) fn new_live(
        objset: Objset,
        number: u64,
        dnode: Arc<Dnode>,
        live: Arc<LiveObject>,
    ) -> Self {
        Self { objset, number, dnode, live: Some(live) }
    }

    pub(crate) fn live(&self) -> Option<&Arc<LiveObject>> {
        self.live.as_ref()
    }

    /// The tree of `dnode` alone, without what memory knows.
    pub(crate) fn tree_of(&self, dnode: Arc<Dnode>) -> Self {
        Self::new(self.objset.clone(), self.number, dnode)
    }

    /// The attributes as they are now, of a live object whatever this value was opened with.
    pub(crate) fn attrs(&self) -> Arc<Dnode> {
        let live = self.live.as_ref().and_then(|l| l.current());
        live.unwrap_or_else(|| Arc::clone(&self.dnode))
    }

    /// Its set.
    #[must_use]
    pub fn objset(&self) -> &Objset {
        &self.objset
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its dnode, of a live object as it was when this value was opened.
    #[must_use]
    pub fn dnode(&self) -> &Dnode {
        &self.dnode
    }

    /// Memory knows more of it than its dnode leads to: what was changed and is not durable yet.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.lock().is_changed())
    }

    /// An error about this object.
    #[must_use]
    pub fn error(&self, kind: ErrorKind) -> Error {
        self.objset.error(self.number, kind)
    }

    /// A decoding error about block `blkid` of this object.
    #[must_use]
    pub fn format_error(&self, blkid: u64, error: ondisk::Error) -> Error {
        self.error(ErrorKind::Format { place: self.place(0, blkid), error })
    }

    /// Name of one of its blocks.
    #[must_use]
    pub fn place(&self, level: u8, blkid: u64) -> Place {
        let objset = self.objset.id();
        Place { objset, object: self.number, level: level.cast_signed(), blkid }
    }

    /// log2 of the block pointers in an indirect block.
    fn fanout_shift(&self) -> u32 {
        u32::from(self.dnode.indirect_shift) - 7
    }

    /// Blocks of level 0 that one pointer at `level` covers, as a shift; 64 or more: all.
    fn cover_shift(&self, level: u8) -> u32 {
        self.fanout_shift() * u32::from(level)
    }

    /// The pointer to block `blkid` of `level`; `None` when it lies behind the end of the tree or
    /// below a hole. A hole itself is returned, for its birth.
    pub fn block_pointer(&self, level: u8, blkid: u64) -> Result<Option<BlkPtr>> {
        if let Some(live) = &self.live {
            return self.again(|| match live.synced() {
                Some(tree) => self.tree_of(tree).block_pointer(level, blkid).map(Settled),
                None => Ok(Settled(None)),
            });
        }
        let top = self.dnode.levels - 1;
        if level > top {
            return Ok(None);
        }
        let shift = |l: u8| self.fanout_shift() * u32::from(l - level);
        let index = blkid.checked_shr(shift(top)).unwrap_or(0);
        let Some(mut bp) = usize::try_from(index).ok().and_then(|i| self.dnode.blkptrs.get(i))
        else {
            return Ok(None);
        };
        let mut held;
        for l in (level..top).rev() {
            if bp.is_hole() {
                return Ok(None);
            }
            let id = blkid.checked_shr(shift(l + 1)).unwrap_or(0);
            let block = self.indirect(bp, l + 1, id)?;
            let slot = blkid.checked_shr(shift(l)).unwrap_or(0);
            let slot = slot & ((1 << self.fanout_shift()) - 1);
            held = self.pointer_at(&block, l + 1, id, slot)?;
            bp = &held;
        }
        Ok(Some(*bp))
    }

    fn pointer_at(&self, block: &Block, level: u8, blkid: u64, slot: u64) -> Result<BlkPtr> {
        let at = slot as usize * ondisk::blkptr::BLKPTR_SIZE;
        let bytes = block.get(at..).unwrap_or_default();
        BlkPtr::decode(bytes, block.endian()).map_err(|error| {
            self.error(ErrorKind::Format { place: self.place(level, blkid), error })
        })
    }

    /// Reads an indirect block, if it may be at its place.
    fn indirect(&self, bp: &BlkPtr, level: u8, blkid: u64) -> Result<Arc<Block>> {
        let judged = self.objset.places().judge((self.number, &self.dnode), bp, level, blkid);
        judged.map_err(|rule| self.error(ErrorKind::Tree(rule)))?;
        Ok(self.objset.store().read(bp, self.place(level, blkid), self.objset.key())?)
    }

    /// Reads the indirect block `blkid` of `level`; `None` for a hole.
    pub fn read_indirect(&self, level: u8, blkid: u64) -> Result<Option<Arc<Block>>> {
        if let Some(live) = &self.live {
            return self.again(|| match live.synced() {
                Some(tree) => self.tree_of(tree).read_indirect(level, blkid).map(Settled),
                None => Ok(Settled(None)),
            });
        }
        match self.block_pointer(level, blkid)? {
            Some(bp) if !bp.is_hole() => self.indirect(&bp, level, blkid).map(Some),
            _ => Ok(None),
        }
    }

    /// Walks over its blocks born after txg `since`, in logical order; of a live object as it was
    /// synced last. Of the meta dnode, the blocks of dnodes are data, and not gone into.
    pub fn traverse(&self, since: u64, visitor: &mut dyn Visitor) -> ControlFlow<()> {
        let dnode = match &self.live {
            Some(live) => live.synced(),
            None => Some(Arc::clone(&self.dnode)),
        };
        match dnode {
            Some(dnode) => self.objset.traversal(since).object(self.number, &dnode, visitor),
            None => ControlFlow::Continue(()),
        }
    }

    /// The pointers to the data blocks from `first` on, `n` at most, with holes: as far as they are
    /// the same as in the durable tree. What an open txg made of a block is not known here, nor
    /// what became of it when the object was freed.
    pub fn durable_pointers(&self, first: u64, n: u64) -> Result<Vec<BlkPtr>> {
        let mut out = Vec::new();
        for blkid in first..first.saturating_add(n) {
            let Some(bp) = self.again(|| self.durable_pointer(blkid).map(Settled))? else { break };
            out.push(bp);
        }
        Ok(out)
    }

    fn durable_pointer(&self, blkid: u64) -> Result<Option<BlkPtr>> {
        let Some(live) = &self.live else {
            return Ok(Some(self.data_pointer(blkid)?.unwrap_or(BlkPtr::HOLE)));
        };
        // The lock is not held while blocks are read.
        let found = live.lock().find(blkid);
        match found {
            BlockSource::Tree(dnode) => self.tree_of(dnode).durable_pointer(blkid),
            BlockSource::Version(_) | BlockSource::Hole => Ok(None),
        }
    }

    /// A pointer of level 0 that may be read: right level, no larger than the object's blocks.
    fn data_pointer(&self, blkid: u64) -> Result<Option<BlkPtr>> {
        let Some(bp) = self.block_pointer(0, blkid)?.filter(|bp| !bp.is_hole()) else {
            return Ok(None);
        };
        if bp.level() != 0 {
            return Err(self.error(ErrorKind::Tree("a data pointer has a level")));
        }
        // A reader of many blocks at once counts on the size the dnode says.
        if bp.lsize() > self.dnode.block_size() {
            return Err(self.error(ErrorKind::Tree("a block is larger than the object's blocks")));
        }
        Ok(Some(bp))
    }

    /// Where the data block is, the versions asked first.
    fn locate(&self, blkid: u64) -> Result<Located> {
        if let Some(live) = &self.live {
            let found = live.lock().find(blkid);
            return match found {
                BlockSource::Version(Content::Block(b)) if b.seal().is_some() => {
                    Err(self.error(ErrorKind::Invalid(InvalidChange::NoKey)))
                }
                BlockSource::Version(Content::Block(b)) => Ok(Located::Memory(b)),
                BlockSource::Version(Content::Stored(bp)) => Ok(Located::Disk(*bp)),
                BlockSource::Hole => Ok(Located::Hole),
                BlockSource::Tree(dnode) => self.tree_of(dnode).locate(blkid),
            };
        }
        Ok(self.data_pointer(blkid)?.map_or(Located::Hole, Located::Disk))
    }

    /// Reads the data block `blkid`; `None` for a hole.
    pub fn read_block(&self, blkid: u64) -> Result<Option<Arc<Block>>> {
        if let Some(set) = &self.objset.inner.live {
            set.access(self.number)?;
        }
        self.read_one(blkid)
    }

    fn read_one(&self, blkid: u64) -> Result<Option<Arc<Block>>> {
        self.again(|| match self.locate(blkid)? {
            Located::Memory(b) => Ok(Settled(Some(b))),
            Located::Disk(bp) => {
                let place = self.place(0, blkid);
                let block = Some(self.objset.store().read(&bp, place, self.objset.key())?);
                Ok(if is_verified(&bp) { Settled(block) } else { Unverified(block) })
            }
            Located::Hole => Ok(Settled(None)),
        })
    }

    /// The tree that readers see behind the versions of a live object.
    fn tree(&self) -> Option<Arc<Dnode>> {
        self.live.as_ref().and_then(|live| live.synced())
    }

    /// Repeats `read` until the tree that it began with was not replaced meanwhile, or its result
    /// is known to be right: a slow reader may come to a block that was freed and rewritten, which
    /// its checksum detects; a block without one could be any.
    fn again<T>(&self, read: impl Fn() -> Result<Read<T>>) -> Result<T> {
        loop {
            let before = self.tree();
            let done = read();
            let is_same = || is_same_tree(before.as_ref(), self.tree().as_ref());
            match done {
                Ok(Settled(value)) => return Ok(value),
                Ok(Unverified(value)) if is_same() => return Ok(value),
                Err(e) if is_same() => return Err(e),
                Ok(Unverified(_)) | Err(_) => {}
            }
        }
    }

    /// Reads the spill block, if there is one.
    pub fn read_spill(&self) -> Result<Option<Arc<Block>>> {
        self.again(|| {
            let Some(live) = &self.live else { return self.spill_of(&self.dnode) };
            let (decided, tree) = {
                let state = live.lock();
                (state.spill(), state.synced_tree())
            };
            match (decided, tree) {
                (Some(Some(spill)), _) if spill.seal().is_some() => {
                    Err(self.error(ErrorKind::Invalid(InvalidChange::NoKey)))
                }
                (Some(spill), _) => Ok(Settled(spill)),
                (None, Some(tree)) => self.spill_of(&tree),
                (None, None) => Ok(Settled(None)),
            }
        })
    }

    /// Reads the spill block of a dnode, if there is one; it always has a checksum.
    fn spill_of(&self, dnode: &Dnode) -> Result<Read<Option<Arc<Block>>>> {
        let Some(bp) = dnode.spill.as_ref().filter(|bp| !bp.is_hole()) else {
            return Ok(Settled(None));
        };
        let place = Place { blkid: Place::BLKID_SPILL, ..self.place(0, Place::BLKID_SPILL) };
        Ok(Settled(Some(self.objset.store().read(bp, place, self.objset.key())?)))
    }

    /// Bytes that the tree covers: all blocks up to the largest ever written.
    #[must_use]
    pub fn size_of_blocks(&self) -> u64 {
        let dnode = self.attrs();
        dnode.max_block.saturating_add(1).saturating_mul(dnode.block_size())
    }

    /// Reads `out.len()` bytes from `offset`; holes and bytes behind the last block are zeros.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_at_with(offset, out, &mut |_, _, e| Err(e))
    }

    /// Like [`Self::read_at`]; a block that cannot be read goes to `lost` with its byte range in
    /// the object. When `lost` returns `Ok`, the bytes are zeros and reading continues.
    pub fn read_at_with(
        &self,
        offset: u64,
        out: &mut [u8],
        lost: &mut dyn FnMut(u64, u64, Error) -> Result<()>,
    ) -> Result<()> {
        let bytes = out.len() as u64;
        self.counted(bytes, || self.read_bytes(offset, out, lost))
    }

    /// It holds what users read and write.
    fn is_of_users(&self) -> bool {
        matches!(self.dnode.kind, DmuType::PLAIN_FILE_CONTENTS | DmuType::ZVOL)
    }

    /// Counts `read` as one of a user, when this is what users read.
    fn counted<T>(&self, bytes: u64, read: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.is_of_users() {
            true => self.objset.usage().reading(bytes, read),
            false => read(),
        }
    }

    /// The same for a write.
    pub(crate) fn counted_write<T>(
        &self,
        bytes: u64,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.is_of_users() {
            true => self.objset.usage().writing(bytes, write),
            false => write(),
        }
    }

    fn read_bytes(
        &self,
        offset: u64,
        out: &mut [u8],
        lost: &mut dyn FnMut(u64, u64, Error) -> Result<()>,
    ) -> Result<()> {
        let bytes = out.len() as u64;
        self.each_block(offset, bytes, &mut |(start, bs), block, copying| {
            let part = overlap(out, start, bs, offset);
            match block {
                Ok(Some(b)) => copy_part(&b, start, offset, part, copying),
                Ok(None) => part.fill(0),
                Err(e) => {
                    part.fill(0);
                    lost(start, bs, e)?;
                }
            }
            Ok(())
        })
    }

    /// Reads as [`Self::read_at`] does, and copies nothing: for loads that have no use for the
    /// bytes.
    pub fn touch(&self, offset: u64, bytes: u64) -> Result<()> {
        let read = || self.each_block(offset, bytes, &mut |_, block, _| block.map(drop));
        self.counted(bytes, read)
    }

    /// Reads the blocks of a range; `each` is given where one begins and its size, what was read,
    /// and how it is best copied.
    fn each_block(&self, offset: u64, bytes: u64, each: &mut EachBlock<'_>) -> Result<()> {
        let dnode = self.attrs();
        let bs = dnode.block_size();
        if bs == 0 {
            return Err(self.error(ErrorKind::Tree("block size 0")));
        }
        let end = offset
            .checked_add(bytes)
            .ok_or_else(|| self.error(ErrorKind::Tree("offset beyond 2^64")))?;
        let per_batch = (BATCH_BYTES / bs).clamp(1, BLOCK_BATCH);
        let last = end.div_ceil(bs);
        let mut first = offset / bs;
        let watch = self.read_ahead(&dnode, first, last - first);
        // Where nothing is read ahead, this thread reads all that is not in the cache.
        let copying = if watch.is_some() { Copying::Whole } else { Copying::Pieces };
        if last - first == 1 {
            // Without the lists of a batch: of small reads they are much of the work.
            let block = watched(watch.as_ref(), (1, bs), || self.read_one(first));
            return each((first * bs, bs), block, copying);
        }
        while first < last {
            let n = per_batch.min(last - first);
            let batch = (n, bs.saturating_mul(n));
            for (blkid, block) in watched(watch.as_ref(), batch, || self.read_batch(first, n)) {
                each((blkid * bs, bs), block, copying)?;
            }
            first += n;
        }
        Ok(())
    }

    /// Says that a user reads these blocks, and has read what is likely to be read next. Returns
    /// what is to watch the read, where nothing is read ahead because that gains nothing.
    fn read_ahead(&self, dnode: &Dnode, first: u64, blocks: u64) -> Option<Watch<'_>> {
        let ahead = self.objset.store().ahead().filter(|_| self.is_of_users())?;
        let shape =
            Shape { block_bytes: dnode.block_size(), blocks: dnode.max_block.saturating_add(1) };
        let id = (self.objset.id(), self.number);
        let (pieces, barren) = ahead.note(id, Access { first, blocks }, shape);
        for piece in pieces {
            let object = self.clone();
            ahead.send(Box::new(move || object.fetch(piece)));
        }
        Some((ahead, barren?))
    }

    /// Reads a piece ahead. The read that wants a block that cannot be found reports it.
    fn fetch(&self, mut piece: Piece) {
        let blocks = piece.ranges.iter().flat_map(|(first, blocks)| *first..first + blocks);
        let on_disk = |blkid| match self.locate(blkid) {
            Ok(Located::Disk(bp)) => Some((bp, self.place(0, blkid))),
            _ => None,
        };
        let wanted: Vec<_> = blocks.filter_map(on_disk).collect();
        self.objset.store().fetch(&wanted, self.objset.key(), &mut piece.room);
    }

    /// Reads `n` data blocks from `first` in one submission.
    pub fn read_blocks(&self, first: u64, n: u64) -> Vec<(u64, Result<Option<Arc<Block>>>)> {
        let bytes = self.dnode.block_size().saturating_mul(n);
        let watch = self.read_ahead(&self.attrs(), first, n);
        // A batch that was read in part was read.
        let read = || Ok(watched(watch.as_ref(), (n, bytes), || self.read_batch(first, n)));
        self.counted(bytes, read).unwrap_or_default()
    }

    fn read_batch(&self, first: u64, n: u64) -> Vec<(u64, Result<Option<Arc<Block>>>)> {
        let mut out = Vec::with_capacity(n as usize);
        let mut wanted = Vec::new();
        let before = self.tree();
        for blkid in first..first.saturating_add(n) {
            let known = match self.locate(blkid) {
                Ok(Located::Memory(b)) => Some(Ok(Some(b))),
                Ok(Located::Hole) => Some(Ok(None)),
                Ok(Located::Disk(bp)) => {
                    wanted.push((bp, self.place(0, blkid)));
                    None
                }
                Err(_) if self.live.is_some() => Some(self.read_block(blkid)),
                Err(e) => Some(Err(e)),
            };
            out.push((blkid, known));
        }
        let mut got = self.objset.store().read_many(&wanted, self.objset.key()).into_iter();
        let is_safe = wanted.iter().all(|(bp, _)| is_verified(bp))
            || is_same_tree(before.as_ref(), self.tree().as_ref());
        out.into_iter()
            .map(|(blkid, known)| {
                let block = known.unwrap_or_else(|| match got.next() {
                    Some(Ok(b)) if is_safe => Ok(Some(b)),
                    Some(_) if self.live.is_some() => self.read_block(blkid),
                    Some(Ok(b)) => Ok(Some(b)),
                    Some(Err(e)) => Err(e.into()),
                    None => Err(self.error(ErrorKind::Tree("batch came back short"))),
                });
                (blkid, block)
            })
            .collect()
    }

    /// The first block at or after `from` that is stored. On an unreadable indirect block: the
    /// error, and the block behind what it covers (`None` when that is the end).
    pub fn next_block(&self, from: u64) -> std::result::Result<Option<u64>, (Error, Option<u64>)> {
        if let Some(live) = &self.live {
            return self.next_block_live(live, from).or_else(|_| self.next_block_live(live, from));
        }
        self.next_block_on_disk(from)
    }

    fn next_block_live(
        &self,
        live: &LiveObject,
        from: u64,
    ) -> std::result::Result<Option<u64>, (Error, Option<u64>)> {
        let (memory, tree) = {
            let state = live.lock();
            (state.next_in_memory(from), state.synced_tree())
        };
        let Some(tree) = tree.map(|d| self.tree_of(d)) else { return Ok(memory) };
        let mut at = from;
        let disk = loop {
            let Some(b) = tree.next_block_on_disk(at)? else { break None };
            match live.lock().hole_end(b) {
                Some(u64::MAX) => break None,
                Some(end) => at = end,
                None => break Some(b),
            }
        };
        Ok([disk, memory].into_iter().flatten().min())
    }

    fn next_block_on_disk(
        &self,
        from: u64,
    ) -> std::result::Result<Option<u64>, (Error, Option<u64>)> {
        let top = self.dnode.levels - 1;
        let mut blkid = from;
        'restart: loop {
            let cover = self.cover_shift(top);
            let first = if cover >= 64 { 0 } else { blkid >> cover };
            let Some(skip) = usize::try_from(first).ok() else { return Ok(None) };
            let found = self.dnode.blkptrs.iter().enumerate().skip(skip);
            let Some((i, bp)) = found.into_iter().find(|(_, bp)| !bp.is_hole()) else {
                return Ok(None);
            };
            let start = if cover >= 64 { 0 } else { (i as u64) << cover };
            blkid = blkid.max(start);
            let mut bp = *bp;
            for level in (1..=top).rev() {
                let cover = self.cover_shift(level);
                let id = if cover >= 64 { 0 } else { blkid >> cover };
                let behind = id.checked_add(1).and_then(|n| n.checked_shl(cover));
                let behind = behind.filter(|b| cover < 64 && *b > blkid);
                let block = self.indirect(&bp, level, id).map_err(|e| (e, behind))?;
                match self.first_pointer(&block, level, id, blkid).map_err(|e| (e, behind))? {
                    Some((next, child)) => {
                        blkid = next;
                        bp = child;
                    }
                    None => match behind {
                        Some(b) => {
                            blkid = b;
                            continue 'restart;
                        }
                        None => return Ok(None),
                    },
                }
            }
            return Ok(Some(blkid));
        }
    }

    /// The first pointer of an indirect block that is not a hole and covers `blkid` or later, with
    /// the first level-0 block it covers.
    fn first_pointer(
        &self,
        block: &Block,
        level: u8,
        id: u64,
        blkid: u64,
    ) -> Result<Option<(u64, BlkPtr)>> {
        let below = self.cover_shift(level - 1);
        let fanout = 1u64 << self.fanout_shift();
        let start = blkid.checked_shr(below).unwrap_or(0) & (fanout - 1);
        for slot in start..fanout {
            let bp = self.pointer_at(block, level, id, slot)?;
            if !bp.is_hole() {
                let first = id
                    .checked_mul(fanout)
                    .and_then(|b| b.checked_add(slot))
                    .filter(|b| below == 0 || b.leading_zeros() >= below)
                    .map(|b| if below == 0 { b } else { b << below })
                    .ok_or_else(|| self.error(ErrorKind::Tree("block number beyond 2^64")))?;
                return Ok(Some((first.max(blkid), bp)));
            }
        }
        Ok(None)
    }

    /// The stored ranges of the first `size` bytes, merged, in order.
    pub fn segments(&self, size: u64) -> Result<Vec<Segment>> {
        let bs = self.attrs().block_size();
        let mut out: Vec<Segment> = Vec::new();
        if bs == 0 {
            return Ok(out);
        }
        let mut at = 0;
        while let Some(b) = self.next_block(at).map_err(|(e, _)| e)? {
            let Some(offset) = b.checked_mul(bs).filter(|o| *o < size) else { break };
            let length = bs.min(size - offset);
            match out.last_mut() {
                Some(s) if s.offset + s.length == offset => s.length += length,
                _ => out.push(Segment { offset, length }),
            }
            at = b + 1;
        }
        Ok(out)
    }
}

/// What watches the reads of a stream that nothing is read ahead of.
type Watch<'a> = (&'a ReadAhead, Arc<Lead>);

/// Does a read of (blocks, bytes), watched by what [`Object::read_ahead`] returned.
fn watched<T>(watch: Option<&Watch<'_>>, size: (u64, u64), read: impl FnOnce() -> T) -> T {
    match watch {
        Some((ahead, barren)) => ahead.watch(barren, size, read),
        None => read(),
    }
}

/// The bytes of `out`, which begins at `offset`, that lie in the block of `bs` bytes at `start`.
fn overlap(out: &mut [u8], start: u64, bs: u64, offset: u64) -> &mut [u8] {
    let at = |position: u64| usize::try_from(position.saturating_sub(offset)).unwrap_or(usize::MAX);
    let to = at(start.saturating_add(bs)).min(out.len());
    let from = at(start).min(to);
    out.get_mut(from..to).unwrap_or_default()
}

/// Is given a block of a range that is read: where it begins and its size, what was read, and how
/// it is best copied.
type EachBlock<'a> = dyn FnMut((u64, u64), Result<Option<Arc<Block>>>, Copying) -> Result<()> + 'a;

/// How bytes are copied out of a block.
///
/// From 4 KiB on, the C library copies with one instruction (`rep movsb`), which takes half as long
/// as copying in pieces when this thread has just filled the block, and up to four times as long on
/// some AMD processors when another thread has, as read-ahead does (`bench/write`).
#[derive(Clone, Copy)]
enum Copying {
    Whole,
    Pieces,
}

/// Bytes of a piece.
const COPY_BYTES: usize = 2048;

/// Copies what the block at `start` has from `offset` on; behind its end are zeros.
fn copy_part(block: &[u8], start: u64, offset: u64, part: &mut [u8], copying: Copying) {
    let from = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
    let bytes = block.get(from..).unwrap_or_default();
    let (filled, rest) = part.split_at_mut(bytes.len().min(part.len()));
    let bytes = &bytes[..filled.len()];
    match copying {
        Copying::Whole => filled.copy_from_slice(bytes),
        Copying::Pieces => {
            let pieces = filled.chunks_mut(COPY_BYTES).zip(bytes.chunks(COPY_BYTES));
            pieces.for_each(|(to, from)| to.copy_from_slice(from));
        }
    }
    rest.fill(0);
}

#[cfg(test)]
mod tests {
    use super::{Copying, copy_part, overlap};

    #[test]
    fn every_byte_of_a_read_is_of_one_block() {
        // Blocks of 8; the second is stored short.
        let blocks: [&[u8]; 3] = [b"01234567", b"89ab", b"ghijklmn"];
        for offset in 0..20u64 {
            for len in 0..=(24 - offset as usize) {
                for copying in [Copying::Whole, Copying::Pieces] {
                    let mut out = vec![b'?'; len];
                    for (n, block) in (0..).zip(blocks) {
                        let part = overlap(&mut out, n * 8, 8, offset);
                        copy_part(block, n * 8, offset, part, copying);
                    }
                    let whole = b"0123456789ab\0\0\0\0ghijklmn";
                    assert_eq!(out, whole[offset as usize..offset as usize + len]);
                }
            }
        }
    }
}
