//! The effect of written and freed blocks on space, features and dead lists.

use super::deadlists;
use super::features::{BY_BLOCKS, of_checksum};
use super::meta::{Blocks, DslCx};
use super::spacing::{Delta, add, beyond};
use crate::error::Result;
use dmu::BlockOwner;
use ondisk::bookmark::Bookmark;
use ondisk::bpobj::Space;
use ondisk::dsl::{DslDir, MOS_DIR_NAME};
use ondisk::{BlkPtr, Compression};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts of the tallies that threads use side by side.
const SHARDS: usize = 16;
/// Blocks above this need the feature `large_blocks`.
const LARGE_BLOCK: u64 = 128 << 10;

/// Adds up what happens to the blocks of one head while it is synced. Called by many threads; the
/// order of the calls does not matter.
pub struct HeadAccount {
    blocks: Arc<dyn Blocks>,
    dataset: u64,
    prev_snap_txg: u64,
    origin_txg: u64,
    /// Blocks younger than this that the head gives up are then the last snapshot's alone;
    /// `u64::MAX` when something else hangs on that snapshot's place.
    prev_alone_after: u64,
    /// Creation txgs of bookmarks that count what is given up after them.
    marks: Vec<u64>,
    shards: [Mutex<Tally>; SHARDS],
}

#[derive(Default)]
struct Tally {
    born: Delta,
    /// Given up and freed at once.
    freed: Delta,
    /// Given up, still in the last snapshot.
    dead: Delta,
    dead_blocks: Vec<BlkPtr>,
    /// Of the dead: what now only the last snapshot has.
    prev_unique: i64,
    /// Of the dead: what counts for the directory's snapshots now.
    to_snapshots: i64,
    /// Per bookmark: what was given up after it.
    marks: Vec<Delta>,
    /// Features that blocks need, as bits of [`BY_BLOCKS`].
    features: u8,
}

impl HeadAccount {
    /// For one sync of the head `dataset`.
    pub fn new(cx: &DslCx<'_>, blocks: Arc<dyn Blocks>, dataset: u64) -> Result<Self> {
        let ds = cx.dataset(dataset)?;
        let dir = cx.dir(ds.dir)?;
        let mut prev_alone_after = u64::MAX;
        if ds.prev_snap != 0 {
            let prev = cx.dataset(ds.prev_snap)?;
            if prev.next_snap == dataset {
                prev_alone_after = prev.prev_snap_txg;
            }
        }
        let marks = counting_marks(cx, dataset, ds.prev_snap_txg)?;
        let marks = marks.iter().map(|(_, b)| b.creation_txg).collect();
        Ok(Self {
            blocks,
            dataset,
            prev_snap_txg: ds.prev_snap_txg,
            origin_txg: cx.origin_txg(&dir)?,
            prev_alone_after,
            marks,
            shards: Default::default(),
        })
    }

    fn shard(&self, bp: &BlkPtr) -> MutexGuard<'_, Tally> {
        let [_, offset] = bp.dva(0).words();
        let hash = (offset ^ bp.logical_birth()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = &self.shards[(hash >> 60) as usize % SHARDS];
        // A tally is whole between any two statements: one thread's panic spoils nothing.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn total(&self) -> Tally {
        let mut sum = Tally { marks: vec![Delta::default(); self.marks.len()], ..Tally::default() };
        for shard in &self.shards {
            let mut t = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            sum.born = sum.born.plus(t.born);
            sum.freed = sum.freed.plus(t.freed);
            sum.dead = sum.dead.plus(t.dead);
            sum.dead_blocks.append(&mut t.dead_blocks);
            sum.prev_unique += t.prev_unique;
            sum.to_snapshots += t.to_snapshots;
            sum.features |= t.features;
            for (s, t) in sum.marks.iter_mut().zip(t.marks) {
                *s = s.plus(t);
            }
        }
        sum
    }
}

/// A block's space.
fn delta_of(blocks: &dyn Blocks, bp: &BlkPtr) -> Delta {
    let [compressed, uncompressed] = bp.accounted_sizes();
    Space { used: blocks.dsize(bp), compressed, uncompressed }.into()
}

fn counts(bp: &BlkPtr) -> bool {
    !bp.is_hole() && !bp.is_redacted()
}

fn features_of(bp: &BlkPtr) -> u8 {
    let mut bits = u8::from(bp.lsize() > LARGE_BLOCK);
    let checksum = if bp.is_embedded() { None } else { of_checksum(bp.checksum_kind()) };
    let zstd = (bp.compression() == Compression::ZSTD).then_some("org.freebsd:zstd_compress");
    for guid in checksum.into_iter().chain(zstd) {
        bits |= BY_BLOCKS.iter().position(|f| *f == guid).map_or(0, |i| 1 << i);
    }
    bits
}

impl BlockOwner for HeadAccount {
    fn born(&self, bp: &BlkPtr) {
        if !counts(bp) {
            return;
        }
        let delta = delta_of(&*self.blocks, bp);
        let mut t = self.shard(bp);
        t.born = t.born.plus(delta);
        t.features |= features_of(bp);
    }

    fn kill(&self, bp: &BlkPtr) {
        if !counts(bp) {
            return;
        }
        let delta = delta_of(&*self.blocks, bp);
        let birth = bp.logical_birth();
        let mut t = self.shard(bp);
        t.marks.resize(self.marks.len(), Delta::default());
        for (sum, mark) in t.marks.iter_mut().zip(&self.marks) {
            if birth <= *mark {
                *sum = sum.plus(delta);
            }
        }
        if birth > self.prev_snap_txg {
            t.freed = t.freed.plus(delta);
            drop(t);
            self.blocks.free(bp);
            return;
        }
        t.dead = t.dead.plus(delta);
        t.dead_blocks.push(*bp);
        if birth > self.prev_alone_after {
            t.prev_unique += delta.used;
        }
        if birth > self.origin_txg {
            t.to_snapshots += delta.used;
        }
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        self.blocks.dsize(bp)
    }
}

/// Bookmarks of a head that count what is given up: those made since its last snapshot, of it and
/// of younger ones that are destroyed by now.
fn counting_marks(
    cx: &DslCx<'_>,
    dataset: u64,
    prev_snap_txg: u64,
) -> Result<Vec<(String, Bookmark)>> {
    let mut marks = cx.bookmarks_of(dataset)?;
    marks.retain(|(_, b)| b.creation_txg >= prev_snap_txg && super::bookmarks::counts_freed(b));
    Ok(marks)
}

/// Ends the sync of a head: writes its new root `bp` (`None`: unchanged), the sums of `account`,
/// and the features its blocks use; `features` are guids of others that it uses from now on. Moves
/// what was given up into the dead list, and adds the space up along the directories.
///
/// Changes on disk: the dataset, its dead list, the snapshot before it (`unique`), its bookmarks
/// (what was freed after them), its directory and all above.
pub fn finish_head(
    cx: &DslCx<'_>,
    account: &HeadAccount,
    bp: Option<&BlkPtr>,
    features: &[&str],
) -> Result<()> {
    let t = account.total();
    let mut ds = cx.dataset(account.dataset)?;
    let reserved = cx.own_number(ds.dir, "refreservation")?;
    let own = t.born.minus(t.freed);
    let shown = Delta { used: beyond(ds.unique, reserved, own.used), ..own };
    let grown = own.minus(t.dead);
    add(&mut ds.referenced, grown.used);
    add(&mut ds.compressed, grown.compressed);
    add(&mut ds.uncompressed, grown.uncompressed);
    add(&mut ds.unique, own.used);
    if let Some(bp) = bp {
        ds.bp = *bp;
    }
    cx.put_dataset(account.dataset, &ds)?;
    let to_reserved = shown.used.wrapping_sub(own.used);
    let parts = [
        (DslDir::USED_HEAD, own.used.wrapping_sub(t.to_snapshots)),
        (DslDir::USED_SNAP, t.to_snapshots),
        (DslDir::USED_REF_RESERVED, to_reserved),
    ];
    if shown != Delta::default() || parts.iter().any(|(_, n)| *n != 0) {
        cx.charge_parts(ds.dir, shown, &parts)?;
    }
    if t.prev_unique != 0 {
        cx.update_dataset(ds.prev_snap, |prev| add(&mut prev.unique, t.prev_unique))?;
    }
    deadlists::insert(cx, ds.deadlist, &t.dead_blocks)?;
    let by_blocks = BY_BLOCKS.iter().enumerate().filter(|(i, _)| t.features & 1 << i != 0);
    for guid in by_blocks.map(|(_, guid)| guid).chain(features) {
        cx.activate(account.dataset, guid)?;
    }
    if t.marks.iter().any(|d| *d != Delta::default()) {
        let marks = counting_marks(cx, account.dataset, ds.prev_snap_txg)?;
        for ((name, mark), delta) in marks.into_iter().zip(&t.marks) {
            cx.add_freed(account.dataset, &name, mark, *delta)?;
        }
    }
    Ok(())
}

/// Adds up the blocks of the MOS itself, which the directory `$MOS` accounts for.
pub struct MosAccount {
    blocks: Arc<dyn Blocks>,
    sum: Mutex<Delta>,
}

impl MosAccount {
    /// One for the life of the pool.
    #[must_use]
    pub fn new(blocks: Arc<dyn Blocks>) -> Self {
        Self { blocks, sum: Mutex::default() }
    }

    fn note(&self, delta: Delta) {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = sum.plus(delta);
    }

    /// Writes what was summed up since the last call into `$MOS` and the root; true when something
    /// was. Doing so makes the MOS dirty: what its last pass writes is written with the next txg,
    /// as OpenZFS has it.
    pub fn apply(&self, cx: &DslCx<'_>) -> Result<bool> {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        let delta = std::mem::take(&mut *sum);
        drop(sum);
        if delta == Delta::default() {
            return Ok(false);
        }
        if let Some(dir) = cx.internal_dir(MOS_DIR_NAME)? {
            cx.charge(dir, DslDir::USED_HEAD, delta)?;
        }
        Ok(true)
    }
}

impl BlockOwner for MosAccount {
    fn born(&self, bp: &BlkPtr) {
        if counts(bp) {
            self.note(delta_of(&*self.blocks, bp));
        }
    }

    fn kill(&self, bp: &BlkPtr) {
        if counts(bp) {
            self.note(delta_of(&*self.blocks, bp).negated());
            self.blocks.free(bp);
        }
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        self.blocks.dsize(bp)
    }
}

impl DslCx<'_> {
    /// Creation txg of the snapshot a directory's head is a clone of; 0 without one.
    pub(super) fn origin_txg(&self, dir: &DslDir) -> Result<u64> {
        match dir.origin {
            0 => Ok(0),
            n => Ok(self.dataset(n)?.creation_txg),
        }
    }
}
