//! `zdb -M`: how fragmented the free space of each top-level vdev is, and that of the pool.
//!
//! From the second `-M` on with the histograms of free segments. They are those of the space maps
//! on disk: what is in logs only does not count yet.

use super::dump::Dump;
use super::metaslab::percent;
use super::roles::words;
use super::{show, spacemap};
use engine::Pool;
use engine::inside::ondisk::config::VdevConfig;
use engine::inside::ondisk::spacemap::HISTOGRAM_BUCKETS;

/// Free segments by the exponent of their size.
type Segments = [u64; HISTOGRAM_BUCKETS + 64];

/// Prints the sums over the metaslabs of each vdev, and over all.
pub(crate) fn dump(d: &mut Dump, pool: &Pool, level: u8) {
    let mut all: Segments = [0; HISTOGRAM_BUCKETS + 64];
    for top in &pool.config().vdev_tree.children {
        let Some((count, sum)) = sum(d, pool, top) else { continue };
        all.iter_mut().zip(sum).for_each(|(all, n)| *all = all.saturating_add(n));
        d.open_flat("metaslab_groups");
        d.hold("vdev", top.id);
        d.hold("metaslabs", count);
        let name = format!("vdev {:>10}\t\tmetaslabs{count:>5}", top.id);
        shown(d, &name, &sum, level);
        d.close_flat();
    }
    d.open_flat("metaslab_class");
    shown(d, "pool", &all, level);
    d.close_flat();
}

fn shown(d: &mut Dump, name: &str, sum: &Segments, level: u8) {
    let fragmentation = percent(sum);
    d.field(
        "fragmentation",
        fragmentation,
        format_args!("\t{name}\t\tfragmentation {fragmentation}%"),
    );
    if level >= 2 {
        show::histogram(d, "histogram", sum, 0);
    }
}

/// How many metaslabs a vdev has, and their free segments.
fn sum(d: &mut Dump, pool: &Pool, top: &VdevConfig) -> Option<(u64, Segments)> {
    let array = top.metaslab_array.filter(|n| *n != 0)?;
    let array = d.keep("metaslab array", pool.mos().object(array))?;
    let shift = top.metaslab_shift.and_then(|n| u32::try_from(n).ok())?;
    let count = top.asize.unwrap_or(0).checked_shr(shift).unwrap_or(0);
    let ashift = usize::try_from(top.ashift.unwrap_or(9)).ok()?;
    let mut out: Segments = [0; HISTOGRAM_BUCKETS + 64];
    for (_, number) in (0..count).zip(words(&array)).filter(|(_, number)| *number != 0) {
        let Some(object) = d.keep("space map", pool.mos().object(number)) else { continue };
        let header = d.keep("space map", spacemap::header(&object));
        let histogram = header.and_then(|header| header.histogram);
        let slots = out.iter_mut().skip(ashift);
        slots.zip(histogram.iter().flatten()).for_each(|(slot, n)| *slot = slot.saturating_add(*n));
    }
    Some((count, out))
}
