//! How much space there is, and how much of it counts.

use super::Allocator;
use super::top::Top;
use crate::EMBEDDED_LOG_METASLABS;
use ondisk::BlkPtr;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use vdev::DeflateRatio;
use zio::SpaceClass;

/// Space of one class of vdevs, as of the last txg that was synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassFigures {
    /// Raw bytes in all.
    pub size: u64,
    /// Raw bytes allocated.
    pub allocated: u64,
    /// Raw bytes that are freed and wait for the next txgs.
    pub deferred: u64,
    /// `size` as datasets count it.
    pub deflated: u64,
    /// `allocated` as datasets count it.
    pub deflated_allocated: u64,
}

/// Space of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Everything without a class of its own.
    pub normal: ClassFigures,
    /// Log devices.
    pub log: ClassFigures,
    /// Metadata and small blocks.
    pub special: ClassFigures,
    /// Tables of deduplicated blocks.
    pub dedup: ClassFigures,
    /// Deflated bytes that datasets can use, with what is held back: the normal class without the
    /// metaslabs OpenZFS sets apart for the intent log and without vdevs that take no new blocks.
    pub dspace: u64,
    /// Deflated bytes of the metaslabs set apart; for [`dsl::slop_space`].
    pub embedded_log: u64,
    /// Deflated bytes that are kept for a checkpoint: no dataset uses them, and they are allocated.
    pub kept: u64,
    /// Deflated bytes allocated on vdevs of the normal class that are being removed: these are no
    /// part of `dspace`.
    pub leaving: u64,
    /// Deflated bytes of vdevs that are being removed that are still to be copied.
    pub to_copy: u64,
    /// Fragmentation of the normal class in percent.
    pub fragmentation: u64,
}

impl Figures {
    /// Deflated bytes held back.
    #[must_use]
    pub fn slop(&self) -> u64 {
        dsl::slop_space(self.dspace, self.embedded_log)
    }

    /// Raw size and allocation as `zpool list` has them: all but log devices.
    #[must_use]
    pub fn total(&self) -> (u64, u64) {
        let all = [&self.normal, &self.special, &self.dedup];
        (all.iter().map(|c| c.size).sum(), all.iter().map(|c| c.allocated).sum())
    }
}

impl Top {
    fn deflated(&self, raw: u64) -> u64 {
        self.deflate_ratio.deflate(raw)
    }

    /// Bytes of the metaslab that is set apart for the intent log; 0 for what takes no blocks.
    fn apart(&self) -> u64 {
        let many = self.metaslabs.len() as u64 > EMBEDDED_LOG_METASLABS;
        let first = self.metaslabs.iter().next().filter(|_| many && self.allocating.load(Relaxed));
        first.map_or(0, super::metaslab::Metaslab::size)
    }

    /// Its contribution to the space that datasets can use.
    pub(super) fn dspace(&self) -> u64 {
        let counts = self.class == SpaceClass::Normal && self.allocating.load(Relaxed);
        if counts { self.deflated(self.size() - self.apart()) } else { 0 }
    }

    fn deferred(&self) -> u64 {
        let waiting = self.metaslabs.iter().filter(|m| m.is_active());
        waiting.map(super::metaslab::Metaslab::deferred).sum()
    }

    /// The mean over the metaslabs, weighted with their free space.
    fn fragmentation(&self) -> u64 {
        let (mut all, mut weighted) = (0u128, 0u128);
        for m in &self.metaslabs {
            let free = u128::from(m.size().saturating_sub(m.allocated()));
            all += free;
            weighted += free * u128::from(m.fragmentation());
        }
        weighted.checked_div(all).unwrap_or(0) as u64
    }
}

impl Allocator {
    /// Bytes that can be allocated and that are, by number of the top-level vdev.
    pub(crate) fn space_of_tops(&self) -> HashMap<u64, (u64, u64)> {
        let tops = self.tops();
        tops.values().map(|t| (u64::from(t.id), (t.size(), t.allocated()))).collect()
    }

    /// How much space there is.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut out = Figures::default();
        let mut fragmentation = 0u128;
        for top in self.tops().values() {
            let class = match top.class {
                SpaceClass::Normal => &mut out.normal,
                SpaceClass::Log => &mut out.log,
                SpaceClass::Special => &mut out.special,
                SpaceClass::Dedup => &mut out.dedup,
            };
            let (size, allocated) = (top.size(), top.allocated());
            class.size += size;
            class.allocated += allocated;
            class.deferred += top.deferred();
            class.deflated += top.deflated(size);
            class.deflated_allocated += top.deflated(allocated);
            if let Some(moved) = self.moved(top.id).filter(|moved| moved.is_leaving) {
                out.to_copy += top.deflated(moved.left.load(Relaxed));
                if top.class == SpaceClass::Normal {
                    out.leaving += top.deflated(allocated);
                }
            }
            if top.class == SpaceClass::Normal {
                fragmentation += u128::from(size) * u128::from(top.fragmentation());
                out.embedded_log += top.deflated(top.apart());
                out.dspace += top.dspace();
            }
        }
        out.kept = self.kept();
        let size = u128::from(out.normal.size);
        out.fragmentation = fragmentation.checked_div(size).unwrap_or(0) as u64;
        out
    }

    /// Bytes that one copy of a block of `psize` bytes takes as datasets count them, on the vdev
    /// where that is most.
    #[must_use]
    pub fn worst_dsize(&self, psize: u64) -> u64 {
        let tops = self.tops();
        let of = |t: &std::sync::Arc<Top>| t.deflated(t.asize(psize, u64::MAX));
        tops.values().filter(|t| t.class != SpaceClass::Log).map(of).max().unwrap_or(psize)
    }

    /// Bytes that all copies of a block take as datasets count them.
    #[must_use]
    pub fn dsize(&self, bp: &BlkPtr) -> u64 {
        let tops = self.tops();
        DeflateRatio::dsize(bp, |vdev| {
            tops.get(&vdev).map_or(DeflateRatio::WHOLE, |t| t.deflate_ratio)
        })
    }
}
