//! Running and finished background work of the pool: scans, removals of vdevs, RAID-Z expansions,
//! the checkpoint. Read from the MOS on demand, for reports only.

use crate::open::Pool;
use crate::scans_here::ScanPass;
use dmu::Zap;
use ondisk::config::VdevKind;
use ondisk::expand::Expansion;
use ondisk::indirect::{MappingEntry, MappingHeader, RemovalState};
use ondisk::mos::{self, vdev_zap};
use ondisk::scan::{ErrorScrubState, RebuildState, ScanState};
use ondisk::spacemap::SpaceMapHeader;
use ondisk::uberblock::Uberblock;
use ondisk::{Endian, checkpoint};

/// log2 of the length of free ranges, in bytes, that mappings pass over, and the longest range that
/// one entry of a mapping moves: OpenZFS's values for the memory that a removal costs.
const SPAN_SHIFT: u64 = 14;
const SEGMENT_MAX: u64 = 16 << 20;

/// A RAID-Z expansion and the vdev it is about.
#[derive(Clone, Debug)]
pub struct VdevExpansion {
    /// The top-level vdev.
    pub vdev: u64,
    /// How far it is.
    pub state: Expansion,
}

/// The last sequential rebuild, by the table of the vdev that it is about.
pub(crate) fn rebuild_state(table: &Zap) -> dmu::Result<Option<RebuildState>> {
    let entry = table.get(vdev_zap::REBUILD.as_bytes())?;
    let words: Option<Vec<u64>> = entry.map(|e| e.ints().collect());
    Ok(words.and_then(|w| RebuildState::from_words(&w).ok()))
}

/// Which checkpoint there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointState {
    /// None.
    None,
    /// One that can be returned to.
    Exists,
    /// One that was discarded, and is still being freed.
    Discarding,
}

impl CheckpointState {
    /// By the count of the feature, and whether an uberblock is kept.
    pub(crate) fn of(count: Option<u64>, is_kept: bool) -> Self {
        match (count.unwrap_or(0), is_kept) {
            (0, _) => Self::None,
            (_, true) => Self::Exists,
            (_, false) => Self::Discarding,
        }
    }
}

/// A removal of a vdev.
#[derive(Clone, Debug)]
pub struct Removal {
    /// How far it is.
    pub state: RemovalState,
    /// Bytes of memory the mappings of all removed vdevs take.
    pub mapping_memory: u64,
}

impl Pool {
    fn state_words(&self, name: &str) -> dmu::Result<Option<Vec<u64>>> {
        Ok(self.directory()?.get(name.as_bytes())?.map(|e| e.ints().collect()))
    }

    /// The scrub or resilver that runs, or the last one; `None` when there never was one.
    pub fn scan_state(&self) -> dmu::Result<Option<ScanState>> {
        if self.scans.now.is_some() {
            return Ok(self.scans.now);
        }
        let words = self.state_words(mos::SCAN)?;
        let state = words.and_then(|w| ScanState::from_words(&w).ok());
        Ok(match self.paused_here(state) {
            Some((paused, _)) => Some(paused),
            None => state,
        })
    }

    /// What this process has of the scrub that is paused, whose state on disk that is.
    fn paused_here(&self, state: Option<ScanState>) -> Option<(ScanState, ScanPass)> {
        let is_paused = |s: ScanState| s.flags & ScanState::FLAG_PAUSED != 0;
        self.scans.paused.filter(|_| state.is_some_and(is_paused))
    }

    /// How fast the scrub or resilver goes that this process runs, or when it was paused here.
    #[must_use]
    pub fn scan_pass(&self) -> Option<ScanPass> {
        let paused = || Some(self.paused_here(self.scan_state().ok()?)?.1);
        self.scans.pass.or_else(paused)
    }

    /// The scrub of what is in the error log that runs, or the last one; `None` when there never
    /// was one.
    pub fn error_scrub_state(&self) -> dmu::Result<Option<ErrorScrubState>> {
        if self.scans.error_scrub.now.is_some() {
            return Ok(self.scans.error_scrub.now);
        }
        let words = self.state_words(mos::ERROR_SCRUB)?;
        Ok(words.and_then(|w| ErrorScrubState::from_words(&w).ok()))
    }

    /// The last sequential rebuilds, by top-level vdev.
    pub fn rebuild_states(&self) -> dmu::Result<Vec<(u64, RebuildState)>> {
        let mut out = Vec::new();
        for (vdev, zap) in self.top_zaps()? {
            out.extend(rebuild_state(&zap)?.map(|state| (vdev, state)));
        }
        Ok(out)
    }

    /// The RAID-Z expansion that runs, or the one that ended last.
    pub fn expansion(&self) -> dmu::Result<Option<VdevExpansion>> {
        let mut best: Option<VdevExpansion> = None;
        for (vdev, zap) in self.top_zaps()? {
            let lookup = |key: &str| zap.get_u64(key).ok().flatten();
            let Some(state) = Expansion::gather(lookup) else { continue };
            if best.as_ref().is_none_or(|b| state.start_time > b.state.start_time) {
                best = Some(VdevExpansion { vdev, state });
            }
        }
        Ok(best)
    }

    fn top_zaps(&self) -> dmu::Result<Vec<(u64, Zap)>> {
        let mut out = Vec::new();
        for top in &self.config().vdev_tree.children {
            if let Some(object) = top.vdev_zap_top.filter(|n| *n != 0) {
                out.push((top.id, Zap::open(&self.mos().object(object)?)?));
            }
        }
        Ok(out)
    }

    /// The last removal of a vdev; `None` when there never was one.
    pub fn removal(&self) -> dmu::Result<Option<Removal>> {
        let words = self.state_words(mos::REMOVING)?;
        let Some(state) = words.and_then(|w| RemovalState::from_words(&w).ok()) else {
            return Ok(None);
        };
        let mut mapping_memory = 0u64;
        for top in &self.config().vdev_tree.children {
            let Some(object) = top.indirect_object.filter(|n| *n != 0) else { continue };
            if top.kind != VdevKind::Indirect {
                continue;
            }
            let object = self.mos().object(object)?;
            let header = MappingHeader::decode(&object.dnode().bonus, object.dnode().endian);
            let entries = header.map_err(|e| object.format_error(0, e))?.num_entries;
            let bytes = entries.saturating_mul(MappingEntry::SIZE as u64);
            mapping_memory = mapping_memory.saturating_add(bytes);
        }
        Ok(Some(Removal { state, mapping_memory }))
    }

    /// About how many bytes of memory the mapping of a vdev would take if it were removed now:
    /// as many entries as there are gaps between what is allocated that are too long to be passed
    /// over, and as the longest entry asks for. `None`: its space maps do not say.
    pub fn mapping_memory_of(&self, top: u64) -> dmu::Result<Option<u64>> {
        let space = self.space();
        let Some(top) = space.tops.iter().find(|t| t.id == top) else { return Ok(None) };
        let ashift = self.config().vdev_tree.children.iter().find(|t| t.id == top.id);
        let ashift = ashift.and_then(|t| t.ashift).unwrap_or(9);
        let (mut entries, mut bytes) = (0u64, top.allocated());
        for metaslab in top.metaslabs.iter().filter(|m| m.space_map != 0) {
            let object = self.mos().object(metaslab.space_map)?;
            let dnode = object.dnode();
            let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian);
            let header = header.map_err(|e| object.format_error(0, e))?;
            let Some(histogram) = header.histogram else { return Ok(None) };
            for (bucket, ranges) in (ashift..).zip(histogram) {
                if bucket < SPAN_SHIFT {
                    bytes = bytes.saturating_add(ranges << (bucket + 1));
                } else {
                    entries = entries.saturating_add(ranges);
                }
            }
        }
        entries = entries.saturating_add(bytes / SEGMENT_MAX);
        Ok(Some(entries.saturating_mul(MappingEntry::SIZE as u64)))
    }

    /// Which checkpoint the pool has.
    #[must_use]
    pub fn checkpoint_state(&self) -> CheckpointState {
        let is_kept = self.checkpoint().is_ok_and(|kept| kept.is_some());
        CheckpointState::of(self.features().count(checkpoint::FEATURE), is_kept)
    }

    /// The uberblock of the pool's checkpoint; `None` when there is none.
    pub fn checkpoint(&self) -> dmu::Result<Option<Uberblock>> {
        let Some(words) = self.state_words(mos::ZPOOL_CHECKPOINT)? else { return Ok(None) };
        let bytes = checkpoint::uberblock_bytes(&words, Endian::Little);
        Ok(bytes.ok().and_then(|b| Uberblock::decode(&b).ok()).map(|(u, _)| u))
    }
}
