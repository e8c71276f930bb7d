//! Reading what is allocated when a pool is opened for writing.
//!
//! Only the headers of the metaslabs' maps are read here: they say how much is allocated and how
//! long the free ranges are. Log space maps are read whole; a pool that was exported has none to
//! speak of.

use super::metaslab::{Summary, fragmentation};
use super::rewrite::SpaceMapRebuild;
use super::spec::{Summaries, TopSpec};
use super::stored::{MosMaps, SpaceMapLogs, header_of, may_have_histogram, read_map};
use super::top::Top;
use super::{AllocOptions, Allocator, BUCKETS};
use dmu::{Objset, Zap};
use ondisk::mos::{self, vdev_zap};
use ondisk::spacemap::{self, Action, Entry, HISTOGRAM_BUCKETS, LOG_SHIFT, SpaceMapHeader};
use ondisk::zap::parse_int_key;
use std::collections::BTreeMap;

/// The first `count` words of an object, as far as it goes.
fn words(mos: &Objset, object: u64, count: u64) -> dmu::Result<Vec<u64>> {
    if object == 0 {
        return Ok(Vec::new());
    }
    let object = mos.object(object)?;
    let count = count.min(object.size_of_blocks() / 8);
    let mut bytes = vec![0; count as usize * 8];
    object.read_at(0, &mut bytes)?;
    let endian = object.dnode().endian;
    Ok(bytes.as_chunks::<8>().0.iter().map(|b| endian.u64(*b)).collect())
}

/// Summarizes a metaslab of `size` bytes from its header.
pub(super) fn summary(object: u64, header: &SpaceMapHeader, size: u64, shift: u8) -> Summary {
    let allocated = header.allocated.max(0).cast_unsigned().min(size);
    let free = size - allocated;
    let mut counts = [0; BUCKETS];
    let mut longest = free;
    if let Some(h) = &header.histogram {
        for (i, n) in h.iter().enumerate() {
            counts[(i + usize::from(shift)).min(BUCKETS - 1)] += n;
        }
        let last = h.iter().rposition(|n| *n > 0).filter(|i| *i < HISTOGRAM_BUCKETS - 1);
        let above = last.and_then(|i| 1u64.checked_shl(i as u32 + 1 + u32::from(shift)));
        longest = above.map_or(free, |a| free.min(a - 1));
    }
    Summary { object, allocated, longest, fragmentation: fragmentation(&counts) }
}

impl Allocator {
    /// The allocator of a pool whose meta object set is `mos`, a live one: it stays in use for
    /// reading space maps. Those of `anew` are not read, and rewritten by the first sync.
    ///
    /// # Errors
    /// When the space maps' headers or the logs cannot be read.
    pub fn open(
        mos: &Objset,
        tops: &[TopSpec],
        options: AllocOptions,
        anew: &SpaceMapRebuild,
    ) -> dmu::Result<Self> {
        let mut out = Self::empty(Box::new(MosMaps { mos: mos.clone() }), options);
        let directory = Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
        out.deflate = directory.get_u64(mos::DEFLATE)?.is_some_and(|n| n != 0);
        let mut unflushed = BTreeMap::new();
        let mut logs = SpaceMapLogs::default();
        for spec in tops {
            let mut summaries = Vec::new();
            for (i, object) in (0..).zip(words(mos, spec.ms_array, spec.ms_count)?) {
                let (start, end) = spec.bounds(i);
                summaries.push(match object {
                    0 => Summary::default(),
                    _ if anew.has(spec.id, i) => {
                        logs.replaced.push(object);
                        Summary::default()
                    }
                    _ => {
                        let header = header_of(&mos.object(object)?)?;
                        summary(object, &header, end - start, spec.ashift)
                    }
                });
            }
            let mut top = Top::new(spec, &Summaries(summaries));
            anew.apply(spec, &top);
            if spec.zap != 0 {
                let zap = Zap::open(&mos.object(spec.zap)?)?;
                top.kept = super::checkpoint::open(mos, &zap)?;
                let object = zap.get_u64(vdev_zap::METASLAB_UNFLUSHED_TXGS)?.unwrap_or(0);
                let txgs = words(mos, object, spec.ms_count)?;
                if txgs.iter().any(|t| *t != 0) {
                    logs.unflushed.push((object, txgs.len() as u64));
                }
                unflushed.insert(spec.id, txgs);
            }
            out.add(top);
        }
        out.read_logs(mos, &unflushed, anew, &mut logs)?;
        *out.logs.lock() = (!logs.is_empty()).then_some(logs);
        out.prepare();
        for top in out.tops().values() {
            top.weigh();
        }
        Ok(out)
    }

    /// Applies what log space maps have and the metaslabs' own maps do not.
    fn read_logs(
        &self,
        mos: &Objset,
        unflushed: &BTreeMap<u32, Vec<u64>>,
        anew: &SpaceMapRebuild,
        logs: &mut SpaceMapLogs,
    ) -> dmu::Result<()> {
        let directory = Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
        let Some(table) = directory.get_u64(mos::LOG_SPACEMAP_ZAP)?.filter(|n| *n != 0) else {
            return Ok(());
        };
        logs.table = table;
        let mut by_txg = BTreeMap::new();
        for entry in Zap::open(&mos.object(table)?)?.entries() {
            let entry = entry?;
            let name = entry.name.bytes().map(<[u8]>::to_vec).unwrap_or_default();
            let txg = std::str::from_utf8(&name).ok().and_then(parse_int_key);
            if let (Some(txg), Some(object)) = (txg, entry.u64()) {
                by_txg.insert(txg, object);
                logs.logs.push((name, object));
            }
        }
        let tops = self.tops();
        for (txg, number) in by_txg {
            if anew.drop_logs {
                logs.histograms += i64::from(may_have_histogram(mos, number));
                continue;
            }
            let object = mos.object(number)?;
            logs.histograms += i64::from(header_of(&object)?.histogram.is_some());
            let apply = &mut |bytes: &[u8], endian| {
                for entry in spacemap::entries(bytes, endian, 0, LOG_SHIFT) {
                    let Entry::Range(r) = entry.map_err(|e| e.to_string())? else { continue };
                    let end = r.offset.saturating_add(r.size);
                    // Entries of vdevs that were removed since mean nothing any more.
                    let Some((id, top)) = r.vdev.and_then(|id| Some((id, tops.get(&id)?))) else {
                        continue;
                    };
                    let index = (r.offset >> top.ms_shift) as usize;
                    let since = unflushed.get(&id).and_then(|t| t.get(index)).copied();
                    if txg >= since.unwrap_or(0)
                        && !anew.has(id, index as u64)
                        && let Some(m) = top.metaslab(r.offset, end)
                    {
                        m.log(&top.room, r.offset, end, r.action == Action::Alloc);
                    }
                }
                Ok(())
            };
            read_map(&object, apply).map_err(|e| match e {
                Ok(_) => object.error(dmu::ErrorKind::Tree("a log space map has a bad entry")),
                Err(e) => e,
            })?;
        }
        Ok(())
    }
}
