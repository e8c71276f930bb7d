//! Copies within a file system that copy nothing: the new file has the blocks of the old one. And
//! those that a log has, repeated.
//!
//! ```text
//! durable_pointers   blocks of the source that no txg has changed which is not durable: what the
//!                    last durable tree has is what every later one has, or gives up
//! expect_shared      the pool keeps them from being free when the source gives them up in this txg
//! write_stored       they are blocks of the target: the sync counts the references
//! ```
//!
//! Both files are locked from the first step to the last, and all of it is in one transaction.
//! What cannot be shared is refused, for the caller to copy: parts of blocks, blocks of another
//! size, and what was written too short a time ago.
//!
//! The record of the log has the pointers themselves. A replay finds the blocks: the source had
//! them in the last durable txg. Both files are of one dataset: when that is destroyed or rolled
//! back meanwhile, neither of them is written any more.
//!
//! **A file of a snapshot** is never changed, but the snapshot may be destroyed. When that happens
//! in the txg of the copy or later, its blocks are expected in the copy, or counted for it. The txg
//! before must have ended, and the snapshot be there after it: its sync may free what it had.

use super::attrs::Attrs;
use super::check_flags;
use super::data::UNCHANGEABLE;
use super::stored::{BLOCK_MAX, OFFSET_MAX, put_cloned};
use super::{HOLD_NAMES, HOLD_TREE};
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{Cloned, Op};
use crate::refusal::{Excess, InvalidRequest, Unsupported};
use crate::state::locks::Mode;
use dmu::{Hold, Object, Place, Tx};
use ondisk::BlkPtr;
use ondisk::sa::zpl;
use ondisk::znode::{Time, flags};
use zil::SyncMode;

/// Bytes that one transaction shares, unless a block is larger.
const PIECE: u64 = 4 << 20;
/// Blocks that one transaction shares: their pointers fit a record of a log, which has 128 KiB.
const PIECE_BLOCKS: u64 = 512;

/// A range of a file whose blocks become those of another.
#[derive(Clone, Copy, Debug)]
pub struct CloneRange {
    /// The file that has them, and where they are in it, in bytes.
    pub from: (u64, u64),
    /// The file that gets them, and where.
    pub to: (u64, u64),
    /// How many bytes.
    pub length: u64,
}

/// A snapshot of the file system that a file is copied from.
#[derive(Clone, Copy)]
pub struct CopiedSnapshot<'a> {
    /// Its files.
    pub files: &'a Filesystem,
    /// The last txg that is durable, if the snapshot is there after it.
    pub durable: &'a dyn Fn() -> Option<u64>,
}

/// Txgs that are waited for, at most, for the sake of one piece from a snapshot.
const TXGS_WAITED: usize = 8;

/// What became of a piece of a range.
enum Shared {
    /// These bytes were.
    Bytes(u64),
    /// Nothing: it is not known whether the snapshot outlives the txg before this one.
    Unsure(u64),
}

/// What of a range can be shared in one transaction.
struct Piece {
    length: u64,
    block_size: u64,
    /// The target's block has another size.
    resizes: bool,
}

fn not_shared() -> Error {
    Error::refused(Unsupported::SharedBlocks)
}

/// The first piece of a range between two files, with their attributes; `record`: bytes of a block
/// of new files.
fn piece_of(range: &CloneRange, source: &Attrs, target: &Attrs, record: u64) -> Result<Piece> {
    let ((_, offset), (_, at)) = (range.from, range.to);
    let (from, to) = (source.object().dnode(), target.object().dnode());
    let block_size = from.block_size();
    let left = range.length.min(source.size().saturating_sub(offset));
    if block_size == 0 || !offset.is_multiple_of(block_size) || !at.is_multiple_of(block_size) {
        return Err(not_shared());
    }
    let whole = (PIECE / block_size).clamp(1, PIECE_BLOCKS).saturating_mul(block_size);
    let mut length = left.min(whole);
    let end = at.checked_add(left).filter(|end| *end <= OFFSET_MAX);
    let end = end.ok_or(Error::refused(Excess::CloneEnd))?;
    // Of the last block all is taken over: what both files end within.
    let ends_both = length == left && offset + left == source.size() && end >= target.size();
    if !ends_both {
        length -= length % block_size;
    }
    if length == 0 {
        return Err(not_shared());
    }
    let resizes = to.block_size() != block_size;
    let is_only = to.max_block == 0 && target.size() <= to.block_size();
    if resizes && (!is_only || to.block_size() > block_size) {
        return Err(not_shared());
    }
    // A file of several blocks has blocks of a power of two, and not of the size that a small file
    // happened to have.
    let is_odd = !block_size.is_power_of_two() || (from.max_block == 0 && block_size < record);
    if is_only && is_odd && end > block_size {
        return Err(not_shared());
    }
    Ok(Piece { length, block_size, resizes })
}

/// Whether blocks of files are of another size than the object's.
fn is_of_other_size(object: &Object, cloned: &Cloned<'_>) -> bool {
    let Cloned { offset, length, block_size, blocks } = *cloned;
    let is_data = |bp: &BlkPtr| bp.is_hole() || (bp.level() == 0 && bp.lsize() == block_size);
    object.dnode().block_size() != block_size
        && (1..=BLOCK_MAX).contains(&block_size)
        && offset.checked_add(length).is_some_and(|end| end <= OFFSET_MAX)
        && length.div_ceil(block_size) == blocks.len() as u64
        && blocks.iter().all(is_data)
}

/// Gives an object what is in blocks that are on disk, where its own have another size.
fn put_copied(object: &Object, tx: &Tx, cloned: &Cloned<'_>) -> Result<()> {
    let Cloned { offset, length, block_size, blocks } = *cloned;
    let objset = object.objset();
    for (n, bp) in (0..length.div_ceil(block_size)).zip(blocks) {
        let start = n.saturating_mul(block_size);
        let (at, length) = (offset.saturating_add(start), block_size.min(length - start));
        if bp.is_hole() {
            object.free_range(tx, at, length)?;
            continue;
        }
        let place = Place { objset: objset.id(), object: object.number(), level: 0, blkid: n };
        let block = objset.store().read(bp, place, objset.key()).map_err(dmu::Error::from)?;
        let bytes = block.bytes().get(..usize::try_from(length).unwrap_or(usize::MAX));
        let bytes = bytes.ok_or(Error::refused(InvalidRequest::CloneOfNoFile))?;
        object.write_at(tx, at, bytes)?;
    }
    Ok(())
}

impl Filesystem {
    /// Takes over blocks that a record of a log names, whose size this file then has.
    pub(super) fn clone_now(
        &self,
        tx: &Tx,
        file: u64,
        cloned: &Cloned<'_>,
        now: Time,
    ) -> Result<()> {
        let _content = self.inner.state.content.exclusive(file);
        let _attrs = self.inner.state.attrs.exclusive(file);
        let before = Attrs::load_regular(self, file)?;
        let size = before.size();
        let object = self.objset().object(file)?;
        let dnode = object.dnode();
        let only = dnode.max_block == 0 && size <= dnode.block_size();
        if only && dnode.block_size() < cloned.block_size && cloned.block_size <= BLOCK_MAX {
            object.set_block_size(tx, cloned.block_size as u32)?;
        }
        let end = cloned.offset.saturating_add(cloned.length);
        let object = object.reopen()?;
        if self.replays() && is_of_other_size(&object, cloned) {
            // The size of records was changed in the txg of this one, and that is lost.
            if let Some(size) = self.block_of(&before, end) {
                object.set_block_size(tx, size)?;
            }
            put_copied(&object.reopen()?, tx, cloned)?;
        } else {
            put_cloned(&object, tx, cloned, self.replays())?;
        }
        let mut attrs = Attrs::load(self, file)?;
        if end > attrs.size() {
            attrs.set(zpl::SIZE, end);
        }
        attrs.content_changed(now);
        attrs.save(self, tx)
    }

    /// Lets a regular file have what is in a range of another, or of the same, by having the same
    /// blocks. Returns how many bytes it has now, from the beginning of the range: fewer than
    /// requested where the source ends, and where the blocks that follow cannot be shared, which
    /// the caller may copy.
    ///
    /// # Errors
    /// `SharedBlocks` when this begins with such blocks: they were changed and are not durable, or
    /// are deduplicated; the range does not begin with a block of both files, or their blocks have
    /// other sizes; the pool shares none. The rest as [`Self::write_at`].
    pub fn clone_range(&self, range: &CloneRange, now: Time) -> Result<u64> {
        self.clone_pieces(None, range, now)
    }

    /// [`Self::clone_range`] from a file of a snapshot of this file system.
    ///
    /// # Errors
    /// As there; `SharedBlocks` also when the snapshot is gone.
    pub fn clone_snapshot_range(
        &self,
        snapshot: CopiedSnapshot<'_>,
        range: &CloneRange,
        now: Time,
    ) -> Result<u64> {
        self.clone_pieces(Some(snapshot), range, now)
    }

    fn clone_pieces(
        &self,
        snapshot: Option<CopiedSnapshot<'_>>,
        range: &CloneRange,
        now: Time,
    ) -> Result<u64> {
        let mut done = 0;
        while done < range.length {
            let (from, to) = (range.from, range.to);
            let on = |at: u64| at.checked_add(done).ok_or(Error::refused(Excess::CloneEnd));
            let rest = CloneRange {
                from: (from.0, on(from.1)?),
                to: (to.0, on(to.1)?),
                length: range.length - done,
            };
            match self.clone_piece(snapshot, &rest, now) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        if done > 0 && self.log().is_some_and(|log| log.mode() == SyncMode::Always) {
            self.sync(range.to.0)?;
        }
        Ok(done)
    }

    /// The beginning of a range, in a transaction of its own.
    fn clone_piece(
        &self,
        snapshot: Option<CopiedSnapshot<'_>>,
        range: &CloneRange,
        now: Time,
    ) -> Result<u64> {
        let files = snapshot.map_or(self, |snapshot| snapshot.files);
        let block_size = files.objset().object(range.from.0)?.dnode().block_size();
        let bytes = range.length.min(PIECE.max(block_size));
        for _ in 0..TXGS_WAITED {
            let done = self.with_tx(Hold::write(bytes + HOLD_TREE + HOLD_NAMES), |tx| {
                if let Some(snapshot) = snapshot {
                    let durable = (snapshot.durable)().ok_or_else(not_shared)?;
                    if durable + 1 < tx.txg() {
                        return Ok(Shared::Unsure(tx.txg() - 1));
                    }
                }
                self.clone_piece_now(tx, files, range, now).map(Shared::Bytes)
            })?;
            match done {
                Shared::Bytes(bytes) => return Ok(bytes),
                Shared::Unsure(txg) => self.objset().wait_synced(txg)?,
            }
        }
        Err(not_shared())
    }

    fn clone_piece_now(&self, tx: &Tx, files: &Self, range: &CloneRange, now: Time) -> Result<u64> {
        let ((from, offset), (to, at)) = (range.from, range.to);
        let both = [from, to];
        // Nothing changes in a snapshot.
        let changing = if std::ptr::eq(files, self) { &both[..] } else { &both[1..] };
        let _content = self.inner.state.content.lock(changing, Mode::Exclusive);
        let (source, target) = {
            let _look = self.inner.state.attrs.lock(changing, Mode::Shared);
            let source = Attrs::load_regular(files, from)?;
            let target = Attrs::load_regular(self, to)?;
            check_flags(&target, UNCHANGEABLE)?;
            self.check_space_of(&target)?;
            if at < target.size() {
                check_flags(&target, flags::APPENDONLY)?;
            }
            (source, target)
        };
        if offset >= source.size() {
            return Ok(0);
        }
        let record = u64::from(self.settings().record_size);
        let Piece { mut length, block_size, resizes } = piece_of(range, &source, &target, record)?;
        let count = length.div_ceil(block_size);
        let mut blocks = source.object().durable_pointers(offset / block_size, count)?;
        let fits = |bp: &BlkPtr| bp.is_hole() || bp.lsize() == block_size;
        blocks.truncate(blocks.iter().take_while(|bp| fits(bp)).count());
        length = length.min(block_size.saturating_mul(blocks.len() as u64));
        if length == 0 || !target.object().expect_shared(tx, &blocks)? {
            return Err(not_shared());
        }
        let object = target.object();
        if let Some(size) = u32::try_from(block_size).ok().filter(|_| resizes) {
            object.set_block_size(tx, size)?;
        }
        let cloned = Cloned { offset: at, length, block_size, blocks: &blocks };
        put_cloned(&object.reopen()?, tx, &cloned, true)?;
        let _attrs = self.inner.state.attrs.exclusive(to);
        let mut target = Attrs::load(self, to)?;
        if at + length > target.size() {
            target.set(zpl::SIZE, at + length);
        }
        target.content_changed(now);
        target.save(self, tx)?;
        self.note(tx, &Op::Clone { file: to, cloned }, &[], &[]);
        Ok(length)
    }
}
