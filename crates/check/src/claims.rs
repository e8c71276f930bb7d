//! From the copies of blocks to taken space.
//!
//! A copy on a removed vdev is followed through the vdev's mapping to where its bytes are now. A
//! gang block takes a header at each of its addresses; its parts are blocks of their own.

use crate::issue::{At, Issue};
use crate::sink::Sink;
use crate::space::Bitmap;
use ondisk::config::VdevKind;
use ondisk::gang::GANG_HEADER_SIZE;
use ondisk::indirect::MappingEntry;
use ondisk::{BlkPtr, Dva};
use pool::{Pool, indirect_mapping};
use std::collections::BTreeMap;

/// Space taken by blocks, by vdev.
pub(crate) struct Claims<'p> {
    pool: &'p Pool,
    vdevs: BTreeMap<u32, Bitmap>,
    removed: BTreeMap<u32, Vec<MappingEntry>>,
}

impl<'p> Claims<'p> {
    pub(crate) fn new(pool: &'p Pool, sink: &Sink) -> Self {
        let mut vdevs = BTreeMap::new();
        let mut removed = BTreeMap::new();
        for top in &pool.config().vdev_tree.children {
            let Ok(id) = u32::try_from(top.id) else { continue };
            match top.kind {
                VdevKind::Indirect => {
                    let found = top.indirect_object.map(|o| indirect_mapping(pool.mos(), o));
                    match found {
                        Some(Ok((_, entries))) => {
                            removed.insert(id, entries);
                        }
                        Some(Err(e)) => sink.put(Issue::Unopened {
                            what: "the mapping of a removed vdev",
                            cause: e.to_string(),
                        }),
                        None => {}
                    }
                }
                VdevKind::Hole | VdevKind::Missing => {}
                _ => {
                    let ashift = top.ashift.unwrap_or(9) as u32;
                    vdevs.insert(id, Bitmap::new(ashift, size_of(pool, id, top.asize)));
                }
            }
        }
        Self { pool, vdevs, removed }
    }

    /// The space taken on a vdev that exists.
    pub(crate) fn taken(&self, vdev: u32) -> Option<&Bitmap> {
        self.vdevs.get(&vdev)
    }

    /// Takes the space of all copies of a block.
    pub(crate) fn claim(&self, bp: &BlkPtr, at: &dyn Fn() -> At, sink: &Sink) {
        for (_, dva) in bp.dvas() {
            self.claim_dva(dva, bp.physical_birth(), at, sink);
        }
        if bp.is_gang() {
            let place = at().place;
            for part in self.pool.reader().gang_members(bp, place) {
                for (_, dva) in part.dvas() {
                    self.claim_dva(dva, part.physical_birth(), at, sink);
                }
            }
        }
    }

    fn claim_dva(&self, dva: Dva, birth: u64, at: &dyn Fn() -> At, sink: &Sink) {
        let header = GANG_HEADER_SIZE as u64;
        let size = match dva.is_gang() {
            true => self.pool.vdevs().psize_to_asize(dva.vdev(), header, birth).unwrap_or(header),
            false => dva.asize(),
        };
        let bad = |cause| sink.put(Issue::BadAddress { at: at(), dva, cause });
        let pieces = match self.places(dva.vdev(), dva.offset(), size) {
            Ok(p) => p,
            Err(cause) => return bad(cause),
        };
        for (vdev, offset, size) in pieces {
            let Some(map) = self.vdevs.get(&vdev) else {
                bad("names a vdev that does not exist");
                continue;
            };
            match map.set(offset, size) {
                Ok(None) => {}
                Ok(Some(offset)) => {
                    sink.put(Issue::DoubleAllocation { at: at(), dva, offset });
                }
                Err(misfit) => bad(misfit.text()),
            }
        }
    }

    /// Where a range is, with removed vdevs followed.
    pub(crate) fn places(
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
                    Some(m) => next.extend(follow(m, offset, size)?),
                }
            }
            if next.is_empty() {
                return Ok(done);
            }
            todo = next;
        }
        Err("mappings of removed vdevs lead in a circle")
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
