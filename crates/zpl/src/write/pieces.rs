//! Large files are freed in pieces.
//!
//! A txg frees blocks while it is synced: every indirect block is read, and every block it names is
//! given up. For a file of millions of blocks that takes minutes, in which every thread waits for
//! this one txg. So a range of more than some [`PIECE_BLOCKS`] goes in several transactions, each
//! of which makes a hole and is durable before the next begins: a txg has one piece of a file.
//! Looking for the blocks of a piece reads their indirect blocks into the cache, so that is not
//! left to the sync either.
//!
//! A file without a name is in the delete queue (`queue.rs`) until the last piece is gone, so a
//! crash leaves nothing behind. One that is truncated, or gets a hole, is changed from the front to
//! the back, and its size last: a crash in between, or a reader, finds zeros where something went
//! already.
//!
//! So are the extended attributes of a file without a name that has many in a directory: each is a
//! file of its own.

use super::HOLD_TREE;
use super::attrs::Attrs;
use super::names::Count;
use super::undo::Undo;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use dmu::{Hold, Object, SpaceUse, Tx, Zap, zap};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, flags};

/// Blocks that one transaction frees, about: as many as a txg frees of destroyed datasets. Indirect
/// blocks count as full.
const PIECE_BLOCKS: u64 = 20_000;

/// Extended attributes that one transaction frees.
const PIECE_XATTRS: u64 = 1000;

/// Whether an object may have more blocks than one transaction should free.
pub(super) fn is_large(object: &Object) -> bool {
    // A set that is never synced waits for nothing.
    object.dnode().max_block >= PIECE_BLOCKS && !object.objset().is_scratch()
}

/// The blocks from `from` on that are worth a transaction of their own, as a half-open range;
/// `None` when what is left before `end` is not, or cannot be read.
fn next_piece(object: &Object, from: u64, end: u64) -> Option<(u64, u64)> {
    let next = |from| object.next_block(from).ok().flatten().filter(|b| *b < end);
    let fanout = 1 << object.dnode().indirect_shift.saturating_sub(7).min(32);
    let first = next(from)?;
    let mut behind = first;
    for _ in 0..(PIECE_BLOCKS / fanout).max(1) {
        behind = (next(behind)? / fanout + 1).saturating_mul(fanout);
    }
    next(behind).map(|_| (first, behind))
}

/// Frees what is stored from byte `from` to `end`, but for what one transaction can free: that is
/// left to the caller. `free` makes a hole of this many bytes from a place on; when it says false,
/// that was all.
pub(super) fn free_most(
    object: &Object,
    from: u64,
    end: u64,
    free: impl Fn(&Tx, u64, u64) -> Result<bool>,
) -> Result<()> {
    let block_size = object.dnode().block_size();
    if !is_large(object) || block_size == 0 {
        return Ok(());
    }
    let (mut first, end) = (from.div_ceil(block_size), end / block_size);
    while let Some((start, behind)) = next_piece(object, first, end) {
        let tx = object.objset().begin(Hold { bytes: HOLD_TREE, space: SpaceUse::Free })?;
        let bytes = (behind - start).saturating_mul(block_size);
        if !free(&tx, start.saturating_mul(block_size), bytes)? {
            break;
        }
        let txg = tx.txg();
        // A thread that holds a transaction cannot wait for its txg.
        drop(tx);
        object.objset().wait_synced(txg)?;
        first = behind;
    }
    Ok(())
}

impl Filesystem {
    /// [`free_most`] of a file, as long as `goes_on` returns true; its content and attributes are
    /// locked during that call and while a piece is made a hole.
    pub(super) fn free_most_of(
        &self,
        file: u64,
        from: u64,
        end: u64,
        goes_on: impl Fn(&Attrs) -> Result<bool>,
    ) -> Result<()> {
        self.check_writable()?;
        // If there is no such file, the caller's own transaction reports it best.
        let Ok(object) = self.objset().object(file) else { return Ok(()) };
        free_most(&object, from, end, |tx, at, len| {
            let _content = self.inner.state.content.exclusive(file);
            let _attrs = self.inner.state.attrs.exclusive(file);
            let attrs = Attrs::load(self, file)?;
            if !goes_on(&attrs)? {
                return Ok(false);
            }
            attrs.object().free_range(tx, at, len)?;
            Ok(true)
        })
    }

    /// Frees the extended attributes of a file without a name, but for what goes with the file in
    /// one transaction.
    pub(super) fn free_most_xattrs(&self, file: u64) -> Result<()> {
        while self.many_xattrs(file)?.is_some() {
            let tx = self.begin(Hold::free())?;
            let freed = {
                let _lock = self.inner.state.attrs.exclusive(file);
                let Some(mut dir) = self.many_xattrs(file)? else { break };
                let freed = self.empty_xattr_dir(&tx, dir.number(), PIECE_XATTRS)?.unwrap_or(0);
                let count = Count { entries: -freed.cast_signed(), dirs: 0 };
                let now = dir.time(zpl::CTIME);
                self.count_entries(&mut dir, count, now);
                dir.save(self, &tx)?;
                freed
            };
            if freed == 0 {
                break;
            }
            let txg = tx.txg();
            drop(tx);
            self.objset().wait_synced(txg)?;
        }
        Ok(())
    }

    /// Frees what is in a directory of extended attributes, up to a number, and returns how many
    /// there were; `None` when it is not one.
    pub(super) fn empty_xattr_dir(&self, tx: &Tx, number: u64, most: u64) -> Result<Option<u64>> {
        let dir = match Attrs::load(self, number) {
            Ok(dir) if dir.has_flag(flags::XATTR) => dir,
            // An object that an attribute names wrongly is not ours to free.
            Ok(_) | Err(Error::NotFound(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut freed = 0;
        if !dir.is_dir() {
            return Ok(Some(freed));
        }
        for entry in Zap::open(dir.object())?.to_vec()? {
            if freed == most {
                break;
            }
            let target = entry.ints().next().map(Dirent::decode);
            let (Some(target), Some(name)) = (target, entry.name.bytes()) else { continue };
            match Attrs::load(self, target.object) {
                Ok(file) if file.has_flag(flags::XATTR) => {
                    let mut undo = Undo::new(self, tx);
                    undo.name(number, name, Some(target));
                    let done = zap::remove(dir.object(), tx, name)
                        .and_then(|_| self.objset().free(tx, target.object));
                    undo.end(done.map_err(Error::from))?;
                    freed += 1;
                }
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Some(freed))
    }

    /// The directory of extended attributes of a file without a name, where it has more than one
    /// transaction should free.
    fn many_xattrs(&self, file: u64) -> Result<Option<Attrs>> {
        let found = |loaded: Result<Attrs>| match loaded {
            Err(Error::NotFound(_)) => Ok(None),
            other => other.map(Some),
        };
        let file = found(Attrs::load(self, file))?.filter(|file| file.links() == 0);
        let number = file.map_or(0, |file| file.get(zpl::XATTR));
        if number == 0 || self.objset().is_scratch() {
            return Ok(None);
        }
        let dir = found(Attrs::load(self, number))?;
        Ok(dir.filter(|d| d.has_flag(flags::XATTR) && d.is_dir() && d.size() > PIECE_XATTRS + 2))
    }
}
