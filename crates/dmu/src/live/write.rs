//! Changing an object: every change goes into the version of its transaction's txg.

use crate::error::{ErrorKind, Result};
use crate::object::Object;
use crate::refusal::InvalidChange;
use crate::shape::levels_for;
use crate::tx::Tx;
use crate::versions::set::LiveSet;
use crate::versions::spec::DnodeAttrs;
use crate::versions::state::{BlockSource, Content, LiveObject, State, Version};
use device::AlignedBuf;
use ondisk::dnode::{DNODE_SLOT_SIZE, MAX_LEVELS};
use ondisk::{BlkPtr, DmuType, Dnode, Endian};
use std::ops::Range;
use std::sync::Arc;
use zio::Block;
use zio::cpu::Work;

/// Longest spill block in bytes.
const SPILL_MAX: usize = 128 << 10;

/// The base of a block that is about to be changed in part.
enum BaseBlock {
    Block(Arc<Block>),
    Stored(Arc<BlkPtr>),
    Hole,
    Tree(Arc<Dnode>),
}

impl BaseBlock {
    fn of(state: &State, blkid: u64) -> Self {
        match state.find(blkid) {
            BlockSource::Version(Content::Block(b)) => Self::Block(b),
            BlockSource::Version(Content::Stored(bp)) => Self::Stored(bp),
            BlockSource::Hole => Self::Hole,
            BlockSource::Tree(d) => Self::Tree(d),
        }
    }

    fn is_still(&self, state: &State, blkid: u64) -> bool {
        match (self, Self::of(state, blkid)) {
            (Self::Block(a), Self::Block(b)) => Arc::ptr_eq(a, &b),
            (Self::Stored(a), Self::Stored(b)) => Arc::ptr_eq(a, &b),
            (Self::Tree(a), Self::Tree(b)) => Arc::ptr_eq(a, &b),
            (Self::Hole, Self::Hole) => true,
            _ => false,
        }
    }
}

impl Object {
    /// The live halves of the object and its set, when `tx` may change them.
    pub(super) fn changing(&self, tx: &Tx) -> Result<(&Arc<LiveObject>, &LiveSet)> {
        let live = self.objset().inner.live.as_deref();
        let (Some(object), Some(set)) = (self.live(), live) else {
            return Err(self.error(ErrorKind::ReadOnly));
        };
        if !set.is_open(tx) {
            return Err(self.error(ErrorKind::Invalid(InvalidChange::ClosedTxg)));
        }
        set.access(self.number())?;
        Ok((object, set))
    }

    /// Changes the version of `tx`, whose object exists, and puts it on the list for the sync.
    pub(super) fn change<T>(
        &self,
        tx: &Tx,
        change: impl FnOnce(&mut Version, &mut Arc<Dnode>) -> Result<T>,
    ) -> Result<T> {
        let (object, set) = self.changing(tx)?;
        self.change_locked(tx, object, set, &mut object.lock(), change)
    }

    fn change_locked<T>(
        &self,
        tx: &Tx,
        object: &Arc<LiveObject>,
        set: &LiveSet,
        state: &mut State,
        change: impl FnOnce(&mut Version, &mut Arc<Dnode>) -> Result<T>,
    ) -> Result<T> {
        let absent = || self.error(ErrorKind::NoObject);
        // Before a version is made: one that is not on the list for the sync would stay.
        state.attrs().ok_or_else(absent)?;
        let version = state.version(tx.txg());
        let mut attrs = version.attrs.take().ok_or_else(absent)?;
        let done = change(version, &mut attrs);
        version.attrs = Some(attrs);
        set.count_change(tx);
        if !std::mem::replace(&mut version.dirty, true) {
            set.touch(object, tx.txg());
        }
        done
    }

    /// The block size now, once it is sure that `offset + len` can be in an object.
    fn block_size_for(&self, offset: u64, len: u64) -> Result<u64> {
        let attrs = self.attrs();
        let bs = attrs.block_size();
        if bs == 0 {
            return Err(self.error(ErrorKind::Tree("block size 0")));
        }
        let end = offset.checked_add(len).filter(|e| *e <= i64::MAX as u64);
        let reach = end.map(|e| e.div_ceil(bs).saturating_sub(1));
        match reach.and_then(|last| levels_for(&attrs, last)) {
            Some(levels) if levels <= MAX_LEVELS => Ok(bs),
            _ => Err(self.error(ErrorKind::Invalid(InvalidChange::BlockNumber))),
        }
    }

    /// Writes `data` at byte `offset`, growing the object where it ends.
    ///
    /// # Errors
    /// The rest of a block that is written in part cannot be read; the set is not live.
    pub fn write_at(&self, tx: &Tx, offset: u64, data: &[u8]) -> Result<()> {
        self.counted_write(data.len() as u64, || self.write_bytes(tx, offset, data))
    }

    fn write_bytes(&self, tx: &Tx, offset: u64, data: &[u8]) -> Result<()> {
        let bs = self.block_size_for(offset, data.len() as u64)?;
        Work::Copy.charge(data.len() as u64);
        let (mut offset, mut data) = (offset, data);
        while !data.is_empty() {
            let (blkid, start) = (offset / bs, (offset % bs) as usize);
            let n = data.len().min(bs as usize - start);
            let (now, rest) = data.split_at(n);
            if n as u64 == bs {
                self.write_whole(tx, blkid, AlignedBuf::copy_of(now))?;
            } else {
                self.patch(tx, blkid, bs, start..start + n, Some(now))?;
            }
            Work::Enter.charge(n as u64);
            offset += n as u64;
            data = rest;
        }
        Ok(())
    }

    /// Writes the whole block `blkid` without copying it. Shorter data are filled up with zeros.
    ///
    /// # Errors
    /// The data are longer than a block; the set is not live.
    pub fn write_block(&self, tx: &Tx, blkid: u64, data: AlignedBuf) -> Result<()> {
        self.counted_write(data.len() as u64, || self.write_whole(tx, blkid, data))
    }

    fn write_whole(&self, tx: &Tx, blkid: u64, data: AlignedBuf) -> Result<()> {
        let bs = self.block_size_for(blkid.saturating_mul(self.attrs().block_size()), 1)?;
        let data = match (data.len() as u64).cmp(&bs) {
            std::cmp::Ordering::Equal => data,
            std::cmp::Ordering::Less => {
                let mut whole = AlignedBuf::zeroed(bs as usize);
                whole[..data.len()].copy_from_slice(&data);
                whole
            }
            std::cmp::Ordering::Greater => {
                return Err(self.error(ErrorKind::Invalid(InvalidChange::LongData)));
            }
        };
        let block = Arc::new(Block::new(data, Endian::Little));
        self.put(tx, blkid, Content::Block(block), bs)
    }

    /// Writes the whole block `blkid` with content that others hold too, without copying it: a
    /// pattern that is written in many places takes memory once.
    ///
    /// # Errors
    /// The content is not of the size of a block; the set is not live.
    pub fn write_shared(&self, tx: &Tx, blkid: u64, block: &Arc<Block>) -> Result<()> {
        let bs = self.block_size_for(blkid.saturating_mul(self.attrs().block_size()), 1)?;
        if block.size() != bs {
            return Err(self.error(ErrorKind::Invalid(InvalidChange::PartOfBlock)));
        }
        self.counted_write(bs, || {
            Work::Copy.charge(bs);
            self.put(tx, blkid, Content::Block(Arc::clone(block)), bs)?;
            Work::Enter.charge(bs);
            Ok(())
        })
    }

    /// Makes block `blkid` the one that `bp` points to: it is neither read nor written. The sync
    /// puts the pointer into the tree as it is and notifies the owner that it was born, so its
    /// space must be the caller's to give: allocated in this txg, claimed, or with a reference
    /// counted.
    ///
    /// # Errors
    /// It cannot be a data block of this object; the set is not live.
    pub fn write_stored(&self, tx: &Tx, blkid: u64, bp: &BlkPtr) -> Result<()> {
        let bs = self.block_size_for(blkid.saturating_mul(self.attrs().block_size()), 1)?;
        if bp.is_hole() || bp.level() != 0 || bp.lsize() != bs {
            return Err(self.error(ErrorKind::Invalid(InvalidChange::ForeignPointer)));
        }
        self.counted_write(bs, || self.put(tx, blkid, Content::Stored(Arc::new(*bp)), bs))
    }

    /// Whether [`Self::write_stored`] may be given blocks of another object in `tx`, holes and
    /// embedded ones among them: they are what [`Self::durable_pointers`] of that object says, and
    /// it is kept from being changed. If so, the owner of the txgs counts the references.
    ///
    /// # Errors
    /// The set is not live.
    pub fn expect_shared(&self, tx: &Tx, blocks: &[BlkPtr]) -> Result<bool> {
        let (_, set) = self.changing(tx)?;
        let owner = set.transactions().filter(|_| !set.is_sealed());
        Ok(owner.is_some_and(|owner| owner.expect_shared(tx.txg(), blocks)))
    }

    fn put(&self, tx: &Tx, blkid: u64, content: Content, bs: u64) -> Result<()> {
        if let Content::Block(block) = &content {
            self.check_seal(block)?;
        }
        let held = content.held();
        // The block that is replaced is given back outside the lock.
        let before = self.change(tx, |version, attrs| {
            reach(attrs, blkid);
            Ok(version.blocks.insert(blkid, content))
        })?;
        match (before.map_or(0, |c| c.held()), held) {
            (0, 1..) => self.dirtied(tx, bs),
            (before @ 1.., 0) => self.dropped(tx, before),
            _ => {}
        }
        Ok(())
    }

    /// Refuses a block that a set cannot take: of one that is received as it was encrypted
    /// elsewhere all are sealed, of another none.
    fn check_seal(&self, block: &Block) -> Result<()> {
        match self.objset().is_sealed() == block.seal().is_some() {
            true => Ok(()),
            false => Err(self.error(ErrorKind::Invalid(InvalidChange::SealedWhole))),
        }
    }

    fn dirtied(&self, tx: &Tx, bytes: u64) {
        if let Some(set) = &self.objset().inner.live {
            set.dirtied(tx.txg(), bytes);
        }
    }

    fn dropped(&self, tx: &Tx, bytes: u64) {
        if let Some(set) = &self.objset().inner.live {
            set.dropped(tx.txg(), bytes);
        }
    }

    /// Overwrites `range` of block `blkid`; `None`: with zeros, and only when it is not a hole.
    fn patch(
        &self,
        tx: &Tx,
        blkid: u64,
        bs: u64,
        range: Range<usize>,
        data: Option<&[u8]>,
    ) -> Result<()> {
        let (object, set) = self.changing(tx)?;
        if set.is_sealed() {
            return Err(self.error(ErrorKind::Invalid(InvalidChange::SealedWhole)));
        }
        let put = |bytes: &mut [u8]| match (bytes.get_mut(range.clone()), data) {
            (Some(to), Some(from)) => to.copy_from_slice(from),
            (Some(to), None) => to.fill(0),
            (None, _) => {}
        };
        loop {
            let before = {
                let mut state = object.lock();
                let state = &mut *state;
                if state.own(tx.txg(), blkid).is_some() {
                    return self.change_locked(tx, object, set, state, |version, attrs| {
                        reach(attrs, blkid);
                        if let Some(Content::Block(block)) = version.blocks.get_mut(&blkid) {
                            put(own_bytes(block, bs));
                        }
                        Ok(())
                    });
                }
                BaseBlock::of(state, blkid)
            };
            let (mut bytes, endian) = match &before {
                BaseBlock::Block(b) => (sized_copy(b, bs), b.endian()),
                BaseBlock::Hole if data.is_none() => return Ok(()),
                BaseBlock::Hole => (AlignedBuf::zeroed(bs as usize), Endian::Little),
                BaseBlock::Stored(_) | BaseBlock::Tree(_) => match self.read_block(blkid)? {
                    Some(b) => (sized_copy(&b, bs), b.endian()),
                    None if data.is_none() => return Ok(()),
                    None => (AlignedBuf::zeroed(bs as usize), Endian::Little),
                },
            };
            put(&mut bytes);
            let content = Content::Block(Arc::new(Block::new(bytes, endian)));
            let mut state = object.lock();
            // Another thread may have changed the block meanwhile, or the tree was replaced.
            if !before.is_still(&state, blkid) {
                continue;
            }
            self.change_locked(tx, object, set, &mut state, |version, attrs| {
                reach(attrs, blkid);
                version.blocks.insert(blkid, content);
                Ok(())
            })?;
            drop(state);
            set.dirtied(tx.txg(), bs);
            return Ok(());
        }
    }

    /// Makes `len` bytes from `offset` a hole; `u64::MAX`: all behind. Whole blocks are freed, the
    /// rest is overwritten with zeros.
    ///
    /// # Errors
    /// A block at an edge cannot be read; the set is not live.
    pub fn free_range(&self, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        self.changing(tx)?;
        let attrs = self.attrs();
        let (bs, max_block) = (attrs.block_size(), attrs.max_block);
        let size = max_block.saturating_add(1).saturating_mul(bs);
        if bs == 0 || len == 0 || offset >= size {
            return Ok(());
        }
        let end = offset.saturating_add(len).min(size);
        let (first, last) = (offset.div_ceil(bs), end / bs);
        let (head, tail) = (offset % bs, end % bs);
        if offset / bs == end / bs {
            // Within one block.
            return self.patch(tx, offset / bs, bs, head as usize..tail as usize, None);
        }
        if head != 0 {
            self.patch(tx, offset / bs, bs, head as usize..bs as usize, None)?;
        }
        if tail != 0 {
            self.patch(tx, last, bs, 0..tail as usize, None)?;
        }
        if first >= last {
            return Ok(());
        }
        // The last block of a set that is received sealed is what its sender says.
        let is_sealed = self.objset().is_sealed();
        let dropped = self.change(tx, |version, attrs| {
            let dropped = version.free_blocks(first, last);
            if !is_sealed && last > attrs.max_block && first <= attrs.max_block {
                Arc::make_mut(attrs).max_block = first.saturating_sub(1);
            }
            Ok(dropped)
        })?;
        self.dropped(tx, dropped);
        Ok(())
    }

    /// Replaces type and bytes of the bonus.
    ///
    /// # Errors
    /// It does not fit; the set is not live.
    pub fn set_bonus(&self, tx: &Tx, kind: DmuType, bytes: &[u8]) -> Result<()> {
        let (object, set) = self.changing(tx)?;
        let mut state = object.lock();
        let spill = state.has_spill();
        let known = state.is_dirty(tx.txg());
        self.change_locked(tx, object, set, &mut state, |_, attrs| {
            if bytes.len() > attrs.bonus_room(spill) {
                return Err(self.error(ErrorKind::Invalid(InvalidChange::BonusSize)));
            }
            let attrs = Arc::make_mut(attrs);
            attrs.bonus_kind = kind;
            attrs.bonus.clear();
            attrs.bonus.extend_from_slice(bytes);
            Ok(())
        })?;
        drop(state);
        if !known {
            set.dirtied(tx.txg(), DNODE_SLOT_SIZE as u64);
        }
        Ok(())
    }

    /// Replaces the spill block, or removes it. It is filled up with zeros to whole sectors.
    ///
    /// # Errors
    /// It is empty or longer than 128 KiB, or there is no room for its pointer beside the bonus;
    /// the set is not live.
    pub fn set_spill(&self, tx: &Tx, bytes: Option<&[u8]>) -> Result<()> {
        let block = match bytes {
            None => None,
            Some(b) if b.is_empty() || b.len() > SPILL_MAX => {
                return Err(self.error(ErrorKind::Invalid(InvalidChange::SpillSize)));
            }
            Some(b) => {
                let mut whole = AlignedBuf::zeroed(b.len().next_multiple_of(512));
                whole[..b.len()].copy_from_slice(b);
                Some(Arc::new(Block::new(whole, Endian::Little)))
            }
        };
        self.put_spill(tx, block)
    }

    pub(super) fn put_spill(&self, tx: &Tx, block: Option<Arc<Block>>) -> Result<()> {
        let size = block.as_ref().map_or(0, |b| b.size());
        if let Some(block) = &block {
            self.check_seal(block)?;
        }
        let is_sealed = self.objset().is_sealed();
        let fresh = self.change(tx, |version, attrs| {
            let has_room = match is_sealed {
                true => attrs.has_spill_room_behind_area(),
                false => attrs.has_spill_room(),
            };
            if block.is_some() && !has_room {
                let rule = InvalidChange::SpillPointer;
                return Err(self.error(ErrorKind::Invalid(rule)));
            }
            version.spill = Some(block);
            Ok(!std::mem::replace(&mut version.spill_dirty, true))
        })?;
        if fresh {
            self.dirtied(tx, size);
        }
        Ok(())
    }

    /// Changes the size of the blocks, while the object has none but block 0.
    ///
    /// # Errors
    /// There are more blocks, or no block can have that size; the set is not live.
    pub fn set_block_size(&self, tx: &Tx, bytes: u32) -> Result<()> {
        self.changing(tx)?;
        let invalid = |rule| self.error(ErrorKind::Invalid(rule));
        let sectors = crate::versions::spec::sectors(bytes).map_err(invalid)?;
        let attrs = self.attrs();
        if attrs.data_sectors == sectors {
            return Ok(());
        }
        if attrs.max_block > 0 {
            return Err(invalid(InvalidChange::BlockSizeFixed));
        }
        let bs = u64::from(bytes);
        let block = self.read_block(0)?;
        let block = block.map(|b| Arc::new(Block::new(sized_copy(&b, bs), b.endian())));
        let more = self.change(tx, |version, attrs| {
            Arc::make_mut(attrs).data_sectors = sectors;
            let Some(block) = block else { return Ok(0) };
            let before = version.blocks.insert(0, Content::Block(block));
            Ok(bs.saturating_sub(before.map_or(0, |c| c.held())))
        })?;
        self.dirtied(tx, more);
        Ok(())
    }

    /// Changes attributes of the dnode.
    ///
    /// # Errors
    /// The indirect shift changes after indirect blocks exist; the set is not live.
    pub fn set_dnode(&self, tx: &Tx, change: impl FnOnce(&mut DnodeAttrs)) -> Result<()> {
        self.change(tx, |_, attrs| {
            let mut new = DnodeAttrs {
                kind: attrs.kind,
                checksum: attrs.checksum,
                compression: attrs.compression,
                indirect_shift: attrs.indirect_shift,
            };
            change(&mut new);
            let single = attrs.max_block == 0 && attrs.levels == 1;
            let known = ondisk::dnode::INDIRECT_SHIFT_RANGE.contains(&new.indirect_shift);
            if new.indirect_shift != attrs.indirect_shift && !(single && known) {
                let rule = InvalidChange::IndirectSizeFixed;
                return Err(self.error(ErrorKind::Invalid(rule)));
            }
            let attrs = Arc::make_mut(attrs);
            attrs.kind = new.kind;
            attrs.checksum = new.checksum;
            attrs.compression = new.compression;
            attrs.indirect_shift = new.indirect_shift;
            Ok(())
        })
    }

    /// The same object as it is now, with what was changed since this value was opened.
    ///
    /// # Errors
    /// It was freed.
    pub fn reopen(&self) -> Result<Self> {
        self.objset().object(self.number())
    }
}

/// The object has block `blkid`.
fn reach(attrs: &mut Arc<Dnode>, blkid: u64) {
    if attrs.max_block < blkid {
        Arc::make_mut(attrs).max_block = blkid;
    }
}

fn sized_copy(block: &Block, bs: u64) -> AlignedBuf {
    if block.len() as u64 == bs {
        return AlignedBuf::copy_of(block);
    }
    let mut out = AlignedBuf::zeroed(bs as usize);
    let n = block.len().min(out.len());
    out[..n].copy_from_slice(&block[..n]);
    out
}

/// The bytes of a block to change: its own when nothing else holds it, otherwise a copy's.
fn own_bytes(block: &mut Arc<Block>, bs: u64) -> &mut [u8] {
    if Arc::get_mut(block).is_none() || block.len() as u64 != bs {
        *block = Arc::new(Block::new(sized_copy(block, bs), block.endian()));
    }
    Arc::get_mut(block).map_or(&mut [], |b| b.bytes_mut())
}
