//! How full a pool is: by top-level vdev, by allocation class, in all.
//!
//! # Theory
//!
//! A top-level vdev is divided into metaslabs of `1 << metaslab_shift` bytes; what does not fill
//! one at the end is not used. Each metaslab's space map tells in its header how much is
//! allocated; changes since it was last flushed are in the pool's log space maps, by vdev and
//! offset, and count from the txg on that the vdev notes for the metaslab.
//!
//! Sizes are *raw*: parity counts. Where datasets are concerned space is *deflated*: raw times
//! what is left of a block of 128 KiB after parity and padding, so that a mirror and a RAID-Z
//! vdev speak the same language. See [`TopSpace::deflated`].
//!
//! *Fragmentation* is an index: every free segment counts with its size and a weight that falls
//! from 100 (512 bytes) to 0 (512 MiB) by powers of two ([`FRAGMENTATION`]); a vdev's is the mean
//! over its metaslabs weighted with their free space, where those never used count with 0; the
//! pool's is that of its normal vdevs weighted with their size. It moves when a pool is imported
//! for writing, because metaslabs get their first blocks then. Facts as of OpenZFS 2.3.2.
//!
//! On a vdev of more than [`EMBEDDED_LOG_METASLABS`] metaslabs OpenZFS sets one apart for the
//! intent log when it opens the pool: the emptiest. It is a class of its own.
//!
//! Nothing here is needed to read data, so damage costs only the numbers it is about: it is
//! listed in [`PoolSpace::problems`].

use crate::open::Pool;
use dmu::{Object, Zap};
use ondisk::Checksum;
use ondisk::brt::{self, BrtVdev};
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::ddt::{self, Class as DdtClass, Stat};
use ondisk::mos::{self, vdev_zap};
use ondisk::spacemap::{self, Action, Entry, HEADER_SIZE, LOG_SHIFT, SpaceMapHeader};
use ondisk::zap::parse_int_key;
use vdev::DeflateRatio;
use zio::SpaceClass;

/// A vdev of more metaslabs than this gives one to the intent log.
pub const EMBEDDED_LOG_METASLABS: u64 = 64;

/// Weight of free segments by log2 of their size less 9; larger ones have the last.
#[rustfmt::skip]
pub const FRAGMENTATION: [u64; 21] = [
    100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 23, 17, 12, 7, 3, 1, 0,
];

/// Most metaslabs of a vdev that are looked at: OpenZFS makes at most 131,072.
const METASLABS_MAX: u64 = 1 << 20;
/// Largest space map that is read whole, in bytes.
const LOG_MAX: u64 = 1 << 30;

/// Space of a class, in raw bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSpace {
    /// In all.
    pub size: u64,
    /// Allocated.
    pub allocated: u64,
    /// `size`, deflated.
    pub deflated: u64,
}

impl ClassSpace {
    fn add(&mut self, size: u64, allocated: u64, deflated: u64) {
        self.size = self.size.saturating_add(size);
        self.allocated = self.allocated.saturating_add(allocated);
        self.deflated = self.deflated.saturating_add(deflated);
    }
}

/// Space of one top-level vdev.
#[derive(Clone, Debug, Default)]
pub struct TopSpace {
    /// Its number.
    pub id: u64,
    /// Its allocation class.
    pub class: Option<SpaceClass>,
    /// Its metaslabs; none on removed vdevs.
    pub metaslabs: Vec<MetaslabSpace>,
    /// log2 of their size in bytes.
    pub metaslab_shift: u32,
    /// The ratio of raw bytes that datasets count.
    pub deflate_ratio: DeflateRatio,
    /// The metaslab that is set apart for the intent log.
    pub embedded_log: Option<usize>,
    /// Freed since the checkpoint, and kept for it.
    pub checkpoint: u64,
    /// Not used for new blocks.
    pub non_allocating: bool,
}

/// One metaslab.
#[derive(Clone, Debug, Default)]
pub struct MetaslabSpace {
    /// Object of its space map in the MOS; 0: never used.
    pub space_map: u64,
    /// Bytes.
    pub size: u64,
    /// Allocated bytes.
    pub allocated: u64,
    /// Fragmentation in percent; `None` when its space map has no histogram.
    pub fragmentation: Option<u64>,
    /// First txg whose changes are in log space maps only.
    pub unflushed_txg: u64,
}

impl TopSpace {
    /// Raw bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.metaslabs.iter().map(|m| m.size).fold(0, u64::saturating_add)
    }

    /// Allocated raw bytes.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.metaslabs.iter().map(|m| m.allocated).fold(0, u64::saturating_add)
    }

    /// Raw bytes as datasets count them.
    #[must_use]
    pub fn deflated(&self, raw: u64) -> u64 {
        self.deflate_ratio.deflate(raw)
    }

    /// Fragmentation in percent; `None` when it is not known of enough metaslabs.
    #[must_use]
    pub fn fragmentation(&self) -> Option<u64> {
        let own = self.metaslabs.iter().enumerate();
        let own = own.filter(|(i, _)| Some(*i) != self.embedded_log);
        let (mut known, mut free, mut weighted) = (0, 0u128, 0u128);
        for (m, index) in own.filter_map(|(_, m)| Some((m, m.fragmentation?))) {
            let room = u128::from(m.size.saturating_sub(m.allocated));
            known += 1;
            free += room;
            weighted += room * u128::from(index);
        }
        let enough = known > self.metaslabs.len() / 2;
        enough.then(|| (weighted / free.max(1)) as u64)
    }

    fn embedded(&self) -> Option<&MetaslabSpace> {
        self.metaslabs.get(self.embedded_log?)
    }
}

/// How full a pool is.
#[derive(Clone, Debug, Default)]
pub struct PoolSpace {
    /// By top-level vdev; holes left out.
    pub tops: Vec<TopSpace>,
    /// Sums over all deduplicated blocks.
    pub dedup: Stat,
    /// Bytes the deduplication tables take.
    pub dedup_table_size: u64,
    /// Bytes allocated by cloned blocks.
    pub clones_used: u64,
    /// Bytes that cloning saves.
    pub clones_saved: u64,
    /// Structures that could not be read, and why.
    pub problems: Vec<(String, dmu::Error)>,
}

impl PoolSpace {
    /// Space of one class; the metaslabs set apart for the log are in none of them.
    #[must_use]
    pub fn class(&self, class: SpaceClass) -> ClassSpace {
        let mut out = ClassSpace::default();
        for top in self.tops.iter().filter(|t| t.class == Some(class)) {
            let mut size = top.size();
            let mut allocated = top.allocated();
            if let Some(log) = top.embedded() {
                size -= log.size;
                allocated = allocated.saturating_sub(log.allocated);
            }
            out.add(size, allocated, top.deflated(size));
        }
        out
    }

    /// The metaslabs set apart for the intent log.
    #[must_use]
    pub fn embedded_log(&self) -> ClassSpace {
        let mut out = ClassSpace::default();
        for top in &self.tops {
            if let Some(log) = top.embedded() {
                out.add(log.size, log.allocated, top.deflated(log.size));
            }
        }
        out
    }

    /// Size and allocation of the pool as `zpool list` has them: everything but log devices.
    #[must_use]
    pub fn total(&self) -> ClassSpace {
        let classes = [SpaceClass::Normal, SpaceClass::Special, SpaceClass::Dedup];
        let mut out = self.embedded_log();
        for c in classes.map(|c| self.class(c)) {
            out.add(c.size, c.allocated, c.deflated);
        }
        out
    }

    /// Fragmentation of the normal class in percent; `None` when it is not known.
    #[must_use]
    pub fn fragmentation(&self) -> Option<u64> {
        let mut sum = 0u128;
        for top in self.tops.iter().filter(|t| t.class == Some(SpaceClass::Normal)) {
            if top.metaslabs.is_empty() {
                continue;
            }
            let embedded = top.embedded().map_or(0, |m| m.size);
            let size = top.size() - embedded;
            sum += u128::from(top.fragmentation()?) * u128::from(size);
        }
        let all = self.class(SpaceClass::Normal).size;
        u64::try_from(sum.checked_div(u128::from(all))?).ok()
    }

    /// Bytes kept for the checkpoint.
    #[must_use]
    pub fn checkpoint(&self) -> u64 {
        self.tops.iter().map(|t| t.checkpoint).fold(0, u64::saturating_add)
    }

    /// Bytes the datasets of the pool may use together: for `dsl::PropertyContext::pool_size`.
    #[must_use]
    pub fn usable(&self) -> u64 {
        let normal = self.class(SpaceClass::Normal).deflated;
        let closed = self.tops.iter().filter(|t| t.non_allocating);
        let closed = closed.map(|t| t.deflated(t.size())).fold(0, u64::saturating_add);
        let real = normal.saturating_sub(closed);
        let shared = self.dedup.ref_dsize.saturating_sub(self.dedup.dsize);
        let space = real.saturating_add(shared).saturating_add(self.clones_saved);
        let slop = dsl::slop_space(real, self.embedded_log().deflated);
        space.saturating_sub(self.checkpoint()).saturating_sub(slop)
    }

    /// Times deduplicated blocks are referenced, in percent.
    #[must_use]
    pub fn dedup_percent(&self) -> u64 {
        percent(self.dedup.ref_dsize, self.dedup.dsize)
    }

    /// Times cloned blocks are referenced, in percent.
    #[must_use]
    pub fn clones_percent(&self) -> u64 {
        percent(self.clones_used.saturating_add(self.clones_saved), self.clones_used)
    }

    fn note<T>(&mut self, what: impl Into<String>, result: dmu::Result<T>) -> Option<T> {
        match result {
            Ok(v) => Some(v),
            Err(e) => {
                self.problems.push((what.into(), e));
                None
            }
        }
    }
}

fn percent(all: u64, once: u64) -> u64 {
    let p = (u128::from(all) * 100).checked_div(u128::from(once)).unwrap_or(100);
    u64::try_from(p).unwrap_or(u64::MAX)
}

/// The allocation class of a top-level vdev.
#[must_use]
pub fn class_of(top: &VdevConfig) -> SpaceClass {
    match &top.alloc_bias {
        _ if top.is_log => SpaceClass::Log,
        Some(word) => SpaceClass::from_name(word).unwrap_or(SpaceClass::Normal),
        None => SpaceClass::Normal,
    }
}

impl Pool {
    /// Reads how full the pool is.
    #[must_use]
    pub fn space(&self) -> PoolSpace {
        let mut out = PoolSpace::default();
        for config in &self.config().vdev_tree.children {
            if matches!(config.kind, VdevKind::Hole | VdevKind::Missing) {
                continue;
            }
            let top = self.top_space(config, &mut out);
            out.tops.push(top);
        }
        let logs = self.apply_logs(&mut out.tops);
        out.note("log space maps", logs);
        for top in &mut out.tops {
            set_log_apart(top);
        }
        let dedup = self.dedup_space(&mut out);
        out.note("deduplication tables", dedup);
        let clones = self.clone_space(&mut out);
        out.note("block clones", clones);
        out
    }

    fn top_space(&self, config: &VdevConfig, out: &mut PoolSpace) -> TopSpace {
        let shift = config.metaslab_shift.unwrap_or(0).min(63) as u32;
        let id = u32::try_from(config.id).unwrap_or(u32::MAX);
        let mut top = TopSpace {
            id: config.id,
            class: Some(class_of(config)),
            metaslab_shift: shift,
            deflate_ratio: self.deflate_ratio(id),
            non_allocating: config.non_allocating,
            ..TopSpace::default()
        };
        if config.kind == VdevKind::Indirect || shift == 0 {
            top.metaslab_shift = 0;
            return top;
        }
        let name = |what: &str| format!("{what} of vdev {}", config.id);
        let count = (config.asize.unwrap_or(0) >> shift).min(METASLABS_MAX);
        let size = |i| metaslab_size(config, shift, i);
        top.metaslabs = (0..count)
            .map(|i| MetaslabSpace { size: size(i), ..MetaslabSpace::default() })
            .collect();
        let array = config.metaslab_array.unwrap_or(0);
        let maps = if array == 0 { Ok(Vec::new()) } else { self.words(array, count) };
        let maps = out.note(name("the metaslab array"), maps).unwrap_or_default();
        let histograms = self.features().count("com.delphix:spacemap_histogram").is_some();
        let ashift = config.ashift.unwrap_or(9) as u8;
        for (m, object) in top.metaslabs.iter_mut().zip(maps) {
            m.space_map = object;
        }
        for m in &mut top.metaslabs {
            m.fragmentation = histograms.then_some(0);
            if m.space_map != 0 {
                let header = self.space_map(m.space_map);
                if let Some(h) = out.note(name("a space map"), header) {
                    m.allocated = h.allocated.max(0).cast_unsigned();
                    let index = h.histogram.map(|h| fragmentation(&h, ashift));
                    m.fragmentation = index.filter(|_| histograms);
                }
            }
        }
        let extra = self.top_extra(config, &mut top);
        out.note(name("the ZAP"), extra);
        top
    }

    /// Adds the space that the vdev's ZAP records.
    fn top_extra(&self, config: &VdevConfig, top: &mut TopSpace) -> dmu::Result<()> {
        let Some(object) = config.vdev_zap_top.filter(|n| *n != 0) else { return Ok(()) };
        let zap = Zap::open(&self.mos().object(object)?)?;
        if let Some(map) = zap.get_u64(vdev_zap::CHECKPOINT_SPACE_MAP)?.filter(|n| *n != 0) {
            top.checkpoint = self.space_map(map)?.allocated.unsigned_abs();
        }
        if let Some(txgs) = zap.get_u64(vdev_zap::METASLAB_UNFLUSHED_TXGS)?.filter(|n| *n != 0) {
            let txgs = self.words(txgs, top.metaslabs.len() as u64)?;
            for (m, txg) in top.metaslabs.iter_mut().zip(txgs) {
                m.unflushed_txg = txg;
            }
        }
        Ok(())
    }

    /// The first `count` words of an object, as far as it goes.
    fn words(&self, object: u64, count: u64) -> dmu::Result<Vec<u64>> {
        let object = self.mos().object(object)?;
        let count = count.min(object.size_of_blocks() / 8);
        let mut bytes = vec![0; count as usize * 8];
        object.read_at(0, &mut bytes)?;
        let endian = object.dnode().endian;
        Ok(bytes.as_chunks::<8>().0.iter().map(|b| endian.u64(*b)).collect())
    }

    /// Header of a space map.
    fn space_map(&self, object: u64) -> dmu::Result<SpaceMapHeader> {
        header_of(&self.mos().object(object)?)
    }

    /// Applies what the log space maps hold and the metaslabs' own maps do not yet.
    fn apply_logs(&self, tops: &mut [TopSpace]) -> dmu::Result<()> {
        let Some(table) = self.directory()?.get_u64(mos::LOG_SPACEMAP_ZAP)? else { return Ok(()) };
        let table = Zap::open(&self.mos().object(table)?)?;
        for entry in table.entries() {
            let entry = entry?;
            let txg = entry.name.bytes().and_then(|n| std::str::from_utf8(n).ok());
            let txg = txg.and_then(parse_int_key);
            if let (Some(txg), Some(object)) = (txg, entry.u64()) {
                self.apply_log(txg, &self.mos().object(object)?, tops)?;
            }
        }
        Ok(())
    }

    fn apply_log(&self, txg: u64, object: &Object, tops: &mut [TopSpace]) -> dmu::Result<()> {
        let length = header_of(object)?.length;
        if length > LOG_MAX.min(object.size_of_blocks()) {
            return Err(object.error(dmu::ErrorKind::Tree("a log space map is too long")));
        }
        let mut bytes = vec![0; length as usize];
        object.read_at(0, &mut bytes)?;
        for entry in spacemap::entries(&bytes, object.dnode().endian, 0, LOG_SHIFT) {
            let Entry::Range(r) = entry.map_err(|e| object.format_error(0, e))? else { continue };
            let top = tops.iter_mut().find(|t| Some(t.id) == r.vdev.map(u64::from));
            let Some(top) = top.filter(|t| t.metaslab_shift > 0) else { continue };
            let index = usize::try_from(r.offset >> top.metaslab_shift).unwrap_or(usize::MAX);
            let Some(m) = top.metaslabs.get_mut(index) else { continue };
            if txg >= m.unflushed_txg {
                m.allocated = match r.action {
                    Action::Alloc => m.allocated.saturating_add(r.size),
                    Action::Free => m.allocated.saturating_sub(r.size),
                };
            }
        }
        Ok(())
    }

    fn dedup_space(&self, out: &mut PoolSpace) -> dmu::Result<()> {
        let directory = self.directory()?;
        if let Some(object) = directory.get_u64(ddt::STATISTICS)? {
            for entry in Zap::open(&self.mos().object(object)?)?.entries() {
                let words: Vec<u64> = entry?.ints().collect();
                for stat in words.chunks_exact(Stat::WORDS) {
                    if let Ok(stat) = Stat::from_words(stat) {
                        add_stat(&mut out.dedup, &stat);
                    }
                }
            }
        }
        let tables = |checksum| DdtClass::ALL.map(|class| ddt::object_name(checksum, class));
        let logs = |checksum| [0, 1].map(|n| ddt::log_name(checksum, n));
        for object in self.dedup_objects(tables)?.iter().chain(&self.dedup_objects(logs)?) {
            let used = object.dnode().used_bytes();
            out.dedup_table_size = out.dedup_table_size.saturating_add(used);
        }
        Ok(())
    }

    /// The objects of deduplication that have these names, where there are such names.
    fn dedup_objects<const N: usize>(
        &self,
        names: impl Fn(Checksum) -> [Option<String>; N],
    ) -> dmu::Result<Vec<Object>> {
        let (directory, mut out) = (self.directory()?, Vec::new());
        for checksum in (0..=u8::MAX).map(Checksum) {
            let Some(name) = ddt::directory_name(checksum) else { continue };
            let below = match directory.get_u64(&name)? {
                Some(o) => Some(Zap::open(&self.mos().object(o)?)?),
                None => None,
            };
            let zap = below.as_ref().unwrap_or(&directory);
            for name in names(checksum).into_iter().flatten() {
                if let Some(object) = zap.get_u64(&name)? {
                    out.push(self.mos().object(object)?);
                }
            }
        }
        Ok(out)
    }

    /// Reads the tables of deduplication, so that their blocks are kept for later reads; returns
    /// their number of entries. `goes_on` is called before each.
    ///
    /// # Errors
    /// A table cannot be read.
    pub fn prefetch_dedup(&self, goes_on: &dyn Fn() -> bool) -> dmu::Result<u64> {
        let tables = |checksum| DdtClass::ALL.map(|class| ddt::object_name(checksum, class));
        let mut count = 0;
        for table in self.dedup_objects(tables)? {
            for entry in Zap::open(&table)?.entries() {
                if !goes_on() {
                    return Ok(count);
                }
                entry?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn clone_space(&self, out: &mut PoolSpace) -> dmu::Result<()> {
        let directory = self.directory()?;
        for top in self.config().vdev_tree.children.iter().map(|t| t.id) {
            let Some(object) = directory.get_u64(&brt::object_name(top))? else { continue };
            let object = self.mos().object(object)?;
            let brt = BrtVdev::decode(&object.dnode().bonus, object.dnode().endian);
            let brt = brt.map_err(|e| object.format_error(0, e))?;
            out.clones_used = out.clones_used.saturating_add(brt.used_space);
            out.clones_saved = out.clones_saved.saturating_add(brt.saved_space);
        }
        Ok(())
    }
}

/// Bytes of metaslab `index`. On dRAID it begins and ends with a row of a group, so that no block
/// lies across two.
fn metaslab_size(config: &VdevConfig, shift: u32, index: u64) -> u64 {
    let whole = 1u64 << shift;
    let VdevKind::Draid { nparity, ndata, .. } = config.kind else { return whole };
    let row = (u64::from(nparity) + u64::from(ndata)) << config.ashift.unwrap_or(9).min(16);
    let start = index << shift;
    let first = start.checked_next_multiple_of(row.max(1)).unwrap_or(u64::MAX);
    whole.saturating_sub(first - start) / row.max(1) * row
}

fn header_of(object: &Object) -> dmu::Result<SpaceMapHeader> {
    let dnode = object.dnode();
    let bonus = dnode.bonus.get(..HEADER_SIZE).unwrap_or(&dnode.bonus);
    SpaceMapHeader::decode(bonus, dnode.endian).map_err(|e| object.format_error(0, e))
}

fn add_stat(sum: &mut Stat, s: &Stat) {
    let pairs = [
        (&mut sum.blocks, s.blocks),
        (&mut sum.lsize, s.lsize),
        (&mut sum.psize, s.psize),
        (&mut sum.dsize, s.dsize),
        (&mut sum.ref_blocks, s.ref_blocks),
        (&mut sum.ref_lsize, s.ref_lsize),
        (&mut sum.ref_psize, s.ref_psize),
        (&mut sum.ref_dsize, s.ref_dsize),
    ];
    for (to, n) in pairs {
        *to = to.saturating_add(n);
    }
}

/// Index of one metaslab from the histogram of its free segments.
fn fragmentation(histogram: &[u64; spacemap::HISTOGRAM_BUCKETS], shift: u8) -> u64 {
    let (mut all, mut weighted) = (0u128, 0u128);
    for (i, segments) in histogram.iter().enumerate() {
        let log2 = usize::from(shift) + i;
        let bytes = u128::from(*segments) << log2.min(63);
        let weight = FRAGMENTATION[log2.saturating_sub(9).min(FRAGMENTATION.len() - 1)];
        all = all.saturating_add(bytes);
        weighted = weighted.saturating_add(bytes.saturating_mul(u128::from(weight)));
    }
    u64::try_from(weighted.checked_div(all).unwrap_or(0)).unwrap_or(0)
}

/// Chooses the metaslab OpenZFS sets apart for the intent log: the emptiest, the first of those.
fn set_log_apart(top: &mut TopSpace) {
    let many = top.metaslabs.len() as u64 > EMBEDDED_LOG_METASLABS;
    if many && top.class == Some(SpaceClass::Normal) && !top.non_allocating {
        let ms = top.metaslabs.iter().enumerate();
        top.embedded_log = ms.min_by_key(|(i, m)| (m.allocated, *i)).map(|(i, _)| i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragmentation_weighs_segments_by_size() {
        let mut h = [0; spacemap::HISTOGRAM_BUCKETS];
        assert_eq!(fragmentation(&h, 9), 0);
        h[0] = 1;
        assert_eq!(fragmentation(&h, 9), 100);
        assert_eq!(fragmentation(&h, 12), 93);
        h[20] = 1;
        assert_eq!(fragmentation(&h, 9), 0, "a large segment outweighs a small one");
    }

    #[test]
    fn sizes_are_whole_metaslabs() {
        let top = TopSpace {
            metaslabs: vec![
                MetaslabSpace {
                    size: 1 << 20,
                    allocated: 10,
                    ..MetaslabSpace::default()
                };
                3
            ],
            metaslab_shift: 20,
            deflate_ratio: DeflateRatio::of(|size, _| size / 2 * 3),
            ..TopSpace::default()
        };
        assert_eq!((top.size(), top.allocated()), (3 << 20, 30));
        assert_eq!(top.deflated(3 << 20), 6144 * 341);
        assert_eq!(percent(3, 2), 150);
        assert_eq!(percent(0, 0), 100);
    }
}
