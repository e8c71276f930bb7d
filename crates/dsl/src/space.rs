//! Space accounting: what a dataset may still use, and what was written since a snapshot.
//!
//! # Theory
//!
//! `available` walks from the pool down. At each directory the space its parent has left, plus
//! what the directory has reserved and not used, is capped by its quota:
//!
//! ```text
//! left(root)  = min(quota, pool) - used
//! left(dir)   = min(left(parent) + max(reserved - used, 0), quota - used)
//! ```
//!
//! The pool's share is what its normal class can hold without the slop space, which the pool floor
//! knows ([`slop_space`] has the rule). A head adds its own refreservation that is not used yet,
//! and is capped by its refquota.
//!
//! *Written since a snapshot* is what is referenced now, less what was then, plus what was there
//! then and has been freed since: the dead lists of everything younger hold exactly that.

use crate::error::{Error, Result};
use crate::tree::{Dataset, Dsl, VisitedLinks};
use dmu::Zap;
use ondisk::bookmark::{Bookmark, BookmarkExtra};
use ondisk::bpobj::{BpobjHeader, Space};
use ondisk::deadlist::{DeadlistHeader, Form};
use ondisk::dsl::DslDataset;
use ondisk::zap::parse_int_key;

/// The rule that a chain of snapshots breaks when it comes back to where it was.
const CIRCLE: &str = "snapshots form a loop";

/// Share of the pool that is held back: 1/32.
const SLOP_SHIFT: u32 = 5;
/// Never less than this is held back, but at most half of the pool.
const SLOP_MIN: u64 = 128 << 20;
/// Never more than this is held back.
const SLOP_MAX: u64 = 128 << 30;

/// Bytes OpenZFS holds back of a pool whose normal class holds `space` bytes and whose embedded
/// log class holds `embedded_log` bytes: 1/32, which the embedded log counts towards up to the
/// half, within limits.
#[must_use]
pub fn slop_space(space: u64, embedded_log: u64) -> u64 {
    let slop = (space >> SLOP_SHIFT).min(SLOP_MAX);
    let slop = slop - embedded_log.min(slop >> 1);
    slop.max((space >> 1).min(SLOP_MIN))
}

fn add(to: &mut Space, more: Space) {
    to.used = to.used.saturating_add(more.used);
    to.compressed = to.compressed.saturating_add(more.compressed);
    to.uncompressed = to.uncompressed.saturating_add(more.uncompressed);
}

/// The space of a dataset plus what was freed since, minus what it had.
fn grown(is: &DslDataset, freed: Space, was: Space) -> Space {
    let grown = |is: u64, freed: u64, was: u64| is.saturating_add(freed).saturating_sub(was);
    Space {
        used: grown(is.referenced, freed.used, was.used),
        compressed: grown(is.compressed, freed.compressed, was.compressed),
        uncompressed: grown(is.uncompressed, freed.uncompressed, was.uncompressed),
    }
}

impl Dsl {
    /// Bytes `dataset` could still use, of a pool that can hold `pool_size` bytes.
    pub fn available(&self, dataset: &Dataset, pool_size: u64) -> Result<u64> {
        let mut left = None;
        for dir in self.ancestry(&dataset.dir)?.iter().rev() {
            let d = &dir.phys;
            let quota = if d.quota == 0 { u64::MAX } else { d.quota };
            let (quota, parent) = match left {
                None => (quota.min(pool_size), u64::MAX),
                Some(l) => (quota, d.reserved.saturating_sub(d.used).saturating_add(l)),
            };
            left = Some(quota.saturating_sub(d.used).min(parent));
        }
        let ds = &dataset.phys;
        let limits = self.stored(dataset)?;
        let number = |name| limits.number(name).unwrap_or(0);
        let (reserved, quota) = (number("refreservation"), number("refquota"));
        let mut left = left.unwrap_or(0).saturating_add(reserved.saturating_sub(ds.unique));
        if quota != 0 {
            left = left.min(quota.saturating_sub(ds.referenced));
        }
        Ok(left)
    }

    /// Bytes written to `dataset` since the snapshot before it; `None` when it has none.
    pub fn written(&self, dataset: &Dataset) -> Result<Option<u64>> {
        match dataset.phys.prev_snap {
            0 => Ok(None),
            _ => {
                let before = self.dataset(dataset.phys.prev_snap, String::new(), &dataset.dir)?;
                self.written_since(dataset, &before)
            }
        }
    }

    /// Bytes written to `dataset` since the older snapshot `since` of its line (its origin's
    /// included); `None` when `since` is not in its line.
    pub fn written_since(&self, dataset: &Dataset, since: &Dataset) -> Result<Option<u64>> {
        Ok(self.space_since(dataset, since)?.map(|space| space.used))
    }

    /// The same, and also what it is compressed and uncompressed.
    pub fn space_since(&self, dataset: &Dataset, since: &Dataset) -> Result<Option<Space>> {
        let old = since.phys.creation_txg;
        let mut freed = Space::default();
        let mut at = dataset.clone();
        let mut seen = VisitedLinks::default();
        loop {
            seen.step(at.object, CIRCLE)?;
            if at.object == since.object {
                let was = &since.phys;
                let was = Space {
                    used: was.referenced,
                    compressed: was.compressed,
                    uncompressed: was.uncompressed,
                };
                return Ok(Some(grown(&dataset.phys, freed, was)));
            }
            // Nothing in this dead list is younger than the snapshot before.
            let whole = at.phys.prev_snap_txg == old;
            let limit = if whole { u64::MAX } else { old };
            let space = self.deadlist_space(at.phys.deadlist, limit)?;
            add(&mut freed, space);
            match at.phys.prev_snap {
                0 => return Ok(None),
                n => at = self.dataset(n, String::new(), &dataset.dir)?,
            }
        }
    }

    /// Bytes written to `dataset` since a bookmark of its line, whose snapshot may be gone; `None`
    /// when the bookmark is younger or does not know enough (feature `bookmark_written`).
    pub fn written_since_bookmark(
        &self,
        dataset: &Dataset,
        since: &Bookmark,
    ) -> Result<Option<u64>> {
        Ok(self.space_since_bookmark(dataset, since)?.map(|space| space.used))
    }

    /// The same, and also what it is compressed and uncompressed.
    pub fn space_since_bookmark(
        &self,
        dataset: &Dataset,
        since: &Bookmark,
    ) -> Result<Option<Space>> {
        let has_freed = |x: &&BookmarkExtra| x.flags & BookmarkExtra::FLAG_HAS_FREED != 0;
        let Some(extra) = since.extra.as_ref().filter(has_freed) else { return Ok(None) };
        let old = since.creation_txg;
        if dataset.phys.is_snapshot() && dataset.phys.creation_txg < old {
            return Ok(None);
        }
        let mut freed = Space::default();
        let mut at = dataset.clone();
        let mut seen = VisitedLinks::default();
        loop {
            seen.step(at.object, CIRCLE)?;
            let before = at.phys.prev_snap_txg;
            // The bookmark itself remembers what was freed until the next snapshot was made.
            if before < old {
                add(&mut freed, extra.freed_before_next_snap());
            } else {
                let limit = if before == old { u64::MAX } else { old };
                add(&mut freed, self.deadlist_space(at.phys.deadlist, limit)?);
            }
            if before <= old {
                return Ok(Some(grown(&dataset.phys, freed, extra.referenced())));
            }
            at = self.dataset(at.phys.prev_snap, String::new(), &dataset.dir)?;
        }
    }

    /// Space of the blocks in a dead list born before `limit` (a txg with a list of its own, or
    /// `u64::MAX` for all).
    pub fn deadlist_space(&self, object: u64, limit: u64) -> Result<Space> {
        let mut sum = Space::default();
        if object == 0 {
            return Ok(sum);
        }
        let list = self.mos().object(object)?;
        let (bonus, endian) = (&list.dnode().bonus, list.dnode().endian);
        let format = |error| Error::Format { object, error };
        match Form::of(list.dnode().bonus_kind) {
            Some(Form::Old) => {
                return Ok(BpobjHeader::decode(bonus, endian).map_err(format)?.space());
            }
            Some(Form::Zap) if limit == u64::MAX => {
                return Ok(DeadlistHeader::decode(bonus, endian).map_err(format)?.space());
            }
            Some(Form::Zap) => {}
            None => return Err(Error::Tree { object, rule: "an object is not a dead list" }),
        }
        for entry in Zap::open(&list)?.entries() {
            let entry = entry?;
            let key = entry.name.bytes().and_then(|n| std::str::from_utf8(n).ok());
            let bad = || Error::Tree { object, rule: "a dead list has an entry that is not a txg" };
            let txg = key.and_then(parse_int_key).ok_or_else(bad)?;
            if txg < limit {
                let part = self.mos().object(entry.u64().ok_or_else(bad)?)?;
                let header = BpobjHeader::decode(&part.dnode().bonus, part.dnode().endian);
                let space = header.map_err(format)?.space();
                sum.used = sum.used.saturating_add(space.used);
                sum.compressed = sum.compressed.saturating_add(space.compressed);
                sum.uncompressed = sum.uncompressed.saturating_add(space.uncompressed);
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::slop_space;

    #[test]
    fn slop_has_a_floor_and_a_ceiling() {
        assert_eq!(slop_space(112 << 20, 0), 56 << 20, "half of a small pool");
        assert_eq!(slop_space(1 << 30, 0), 128 << 20, "the floor");
        assert_eq!(slop_space(1 << 40, 0), 32 << 30, "the share");
        assert_eq!(slop_space(1 << 40, 1 << 30), 31 << 30, "the embedded log counts");
        assert_eq!(slop_space(1 << 50, 0), 128 << 30, "the ceiling");
    }
}
