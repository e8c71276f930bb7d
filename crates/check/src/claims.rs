//! From the copies of blocks to taken space.
//!
//! A copy on a removed vdev is followed through the vdev's mapping to where its bytes are now, and
//! what of the mapping is in use is noted. While a vdev is being removed, what was copied already
//! is taken at both places. A gang block takes a header at each of its addresses; its parts are
//! blocks of their own.

use crate::issue::{Issue, Location};
use crate::sink::Sink;
use crate::space::Bitmap;
use ondisk::config::VdevKind;
use ondisk::gang::GANG_HEADER_SIZE;
use ondisk::indirect::{MappingEntry, MappingHeader};
use ondisk::{BlkPtr, Dva};
use pool::{Pool, indirect_mapping};
use std::collections::BTreeMap;

/// Space taken by blocks, by vdev.
pub(crate) struct Claims<'p> {
    pool: &'p Pool,
    vdevs: BTreeMap<u32, Bitmap>,
    removed: BTreeMap<u32, Mapping>,
    removing: BTreeMap<u32, Mapping>,
}

/// The mapping of a removed vdev, or of one that is being removed.
pub(crate) struct Mapping {
    pub(crate) header: MappingHeader,
    pub(crate) entries: Vec<MappingEntry>,
    /// The space of the vdev that blocks refer to.
    pub(crate) used: Bitmap,
}

impl Mapping {
    /// Sectors of 512 bytes, whatever the vdev had: so are the mapping's.
    const SHIFT: u32 = 9;

    fn new(header: MappingHeader, entries: Vec<MappingEntry>) -> Self {
        let end = entries.last().map_or(0, MappingEntry::src_end);
        Self { header, entries, used: Bitmap::new(Self::SHIFT, end) }
    }
}

impl<'p> Claims<'p> {
    pub(crate) fn new(pool: &'p Pool, sink: &Sink) -> Self {
        let mut vdevs = BTreeMap::new();
        let (mut removed, mut removing) = (BTreeMap::new(), BTreeMap::new());
        for top in &pool.config().vdev_tree.children {
            let Ok(id) = u32::try_from(top.id) else { continue };
            let object = top.indirect_object.filter(|o| *o != 0);
            let is_removed = top.kind == VdevKind::Indirect;
            match object.map(|o| indirect_mapping(pool.mos(), o)) {
                Some(Ok((header, entries))) => {
                    let all = if is_removed { &mut removed } else { &mut removing };
                    all.insert(id, Mapping::new(header, entries));
                }
                Some(Err(e)) => sink.put(Issue::Unopened {
                    what: "the mapping of a removed vdev",
                    cause: e.to_string(),
                }),
                None => {}
            }
            match top.kind {
                VdevKind::Indirect | VdevKind::Hole | VdevKind::Missing => {}
                _ => {
                    let ashift = top.ashift.unwrap_or(9) as u32;
                    vdevs.insert(id, Bitmap::new(ashift, size_of(pool, id, top.asize)));
                }
            }
        }
        Self { pool, vdevs, removed, removing }
    }

    /// The mappings of removed vdevs.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (u32, &Mapping)> {
        self.removed.iter().map(|(id, m)| (*id, m))
    }

    /// The mappings of vdevs whose removal has begun.
    pub(crate) fn removing(&self) -> impl Iterator<Item = (u32, &Mapping)> {
        self.removing.iter().map(|(id, m)| (*id, m))
    }

    /// The space taken by vdev, when the walk is over.
    pub(crate) fn into_taken(self) -> BTreeMap<u32, Bitmap> {
        self.vdevs
    }

    /// Whether the first copy of a block is taken.
    pub(crate) fn holds(&self, bp: &BlkPtr) -> bool {
        let Some((_, dva)) = bp.dvas().next().filter(|(_, d)| !d.is_gang()) else { return false };
        match self.removed.get(&dva.vdev()) {
            Some(mapping) => mapping.used.has(dva.offset(), dva.asize()),
            None => self.taken(dva.vdev()).is_some_and(|m| m.has(dva.offset(), dva.asize())),
        }
    }

    /// The space taken on a vdev that exists.
    pub(crate) fn taken(&self, vdev: u32) -> Option<&Bitmap> {
        self.vdevs.get(&vdev)
    }

    /// Takes the space of all copies of a block; whether they were all free at their beginning. One
    /// that is not may be a block that was visited before.
    pub(crate) fn claim(&self, bp: &BlkPtr, at: &dyn Fn() -> Location, sink: &Sink) -> bool {
        let mut is_new = true;
        for (_, dva) in bp.dvas() {
            is_new &= self.claim_dva(dva, bp.physical_birth(), at, sink);
        }
        if bp.is_gang() {
            let place = at().place;
            for part in self.pool.reader().gang_members(bp, place) {
                for (_, dva) in part.dvas() {
                    self.claim_dva(dva, part.physical_birth(), at, sink);
                }
            }
        }
        is_new
    }

    fn claim_dva(&self, dva: Dva, birth: u64, at: &dyn Fn() -> Location, sink: &Sink) -> bool {
        let header = GANG_HEADER_SIZE as u64;
        let size = match dva.is_gang() {
            true => self.pool.vdevs().psize_to_asize(dva.vdev(), header, birth).unwrap_or(header),
            false => dva.asize(),
        };
        let bad = |cause| sink.put(Issue::BadAddress { at: at(), dva, cause });
        let pieces = match self.places(dva.vdev(), dva.offset(), size) {
            Ok(p) => p,
            Err(cause) => {
                bad(cause);
                return true;
            }
        };
        let mut is_new = true;
        let mut take = |vdev, offset, size| match self.vdevs.get(&vdev).map(|m| m.set(offset, size))
        {
            None => bad("names a vdev that does not exist"),
            Some(Ok(None)) => {}
            Some(Ok(Some(taken))) => {
                is_new &= taken != offset;
                sink.put(Issue::DoubleAllocation { at: at(), dva, offset: taken });
            }
            Some(Err(misfit)) => bad(misfit.text()),
        };
        for (vdev, offset, size) in pieces {
            take(vdev, offset, size);
            for (vdev, offset, size) in self.copied(vdev, offset, size) {
                take(vdev, offset, size);
            }
        }
        is_new
    }

    /// Where a removal that is under way has copied parts of a range already.
    fn copied(&self, vdev: u32, offset: u64, size: u64) -> Vec<(u32, u64, u64)> {
        let Some(mapping) = self.removing.get(&vdev) else { return Vec::new() };
        let end = offset.saturating_add(size);
        let first = mapping.entries.partition_point(|e| e.src_end() <= offset);
        let within = mapping.entries.iter().skip(first).take_while(|e| e.src < end);
        let part = |e: &MappingEntry| {
            let (from, to) = (e.src.max(offset), e.src_end().min(end));
            let start = e.dst.offset().saturating_add(from - e.src);
            (e.dst.vdev(), start, to.saturating_sub(from))
        };
        within.map(part).collect()
    }

    /// Where a range is, with removed vdevs followed; notes what of their mappings is in use.
    fn places(
        &self,
        vdev: u32,
        offset: u64,
        size: u64,
    ) -> Result<Vec<(u32, u64, u64)>, &'static str> {
        let mut done = Vec::new();
        let mut todo = vec![(vdev, offset, size)];
        // Every round leads to a vdev that was removed later, or in a circle.
        for _ in 0..=self.removed.len() {
            let mut next = Vec::new();
            for (vdev, offset, size) in todo {
                match self.removed.get(&vdev) {
                    None => done.push((vdev, offset, size)),
                    Some(m) => {
                        // A block that does not fit is not mapped either, and that is an error
                        // below.
                        let _ = m.used.set(offset, size);
                        next.extend(follow(&m.entries, offset, size)?);
                    }
                }
            }
            if next.is_empty() {
                return Ok(done);
            }
            todo = next;
        }
        Err("mappings of removed vdevs form a cycle")
    }
}

/// The new places of a range by one mapping.
fn follow(
    map: &[MappingEntry],
    offset: u64,
    size: u64,
) -> Result<Vec<(u32, u64, u64)>, &'static str> {
    const GAP: &str = "the mapping of its removed vdev does not cover it";
    let end = offset.checked_add(size).ok_or(GAP)?;
    let mut out = Vec::new();
    let mut at = offset;
    let first = map.partition_point(|e| e.src_end() <= offset);
    for e in map.iter().skip(first).take_while(|e| e.src < end) {
        let skip = at.checked_sub(e.src).ok_or(GAP)?;
        let len = e.src_end().min(end).checked_sub(at).ok_or(GAP)?;
        let start = e.dst.offset().checked_add(skip).ok_or(GAP)?;
        out.push((e.dst.vdev(), start, len));
        at += len;
    }
    if at == end { Ok(out) } else { Err(GAP) }
}

/// Bytes of a vdev that can be allocated: what the configuration says, but no more than the
/// devices have, so that a lying configuration cannot make bitmaps grow.
fn size_of(pool: &Pool, vdev: u32, asize: Option<u64>) -> u64 {
    let devices: u64 = pool
        .vdevs()
        .leaves()
        .filter_map(|l| l.device())
        .fold(0, |sum, d| sum.saturating_add(d.size()));
    let known = pool.vdevs().top(vdev).map_or(0, |t| t.asize());
    // Devices that are absent were about as large as the others.
    let limit = devices.saturating_mul(256);
    asize.unwrap_or(known).min(limit)
}
