//! Where the blocks of a removed vdev are by now, as the MOS says.

use dmu::Objset;
use ondisk::config::VdevConfig;
use ondisk::indirect::{self, BirthEntry, BirthsHeader, MappingEntry, MappingHeader};
use vdev::IndirectSegment;

/// The mapping of a removed vdev: its header, and its entries in order, from `object` of the MOS.
pub fn indirect_mapping(
    mos: &Objset,
    object: u64,
) -> dmu::Result<(MappingHeader, Vec<MappingEntry>)> {
    let object = mos.object(object)?;
    let dnode = object.dnode();
    let bad = |e| object.format_error(0, e);
    let header = MappingHeader::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
    let size = header.num_entries.checked_mul(MappingEntry::SIZE as u64);
    let size = size.filter(|s| *s <= object.size_of_blocks()).ok_or_else(|| {
        object.error(dmu::ErrorKind::Tree("a mapping has more entries than bytes"))
    })?;
    let mut bytes = vec![0; size as usize];
    object.read_at(0, &mut bytes)?;
    let entries = indirect::mapping(&header, &bytes, dnode.endian).map_err(bad)?;
    Ok((header, entries))
}

/// Which parts of a removed vdev were copied in which txg, from `object` of the MOS.
fn births(mos: &Objset, object: u64) -> dmu::Result<Vec<BirthEntry>> {
    let object = mos.object(object)?;
    let dnode = object.dnode();
    let bad = |e| object.format_error(0, e);
    let header = BirthsHeader::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
    let size = header.count.checked_mul(BirthEntry::SIZE as u64);
    let size = size.filter(|s| *s <= object.size_of_blocks()).ok_or_else(|| {
        object.error(dmu::ErrorKind::Tree("births of a mapping have more entries than bytes"))
    })?;
    let mut bytes = vec![0; size as usize];
    object.read_at(0, &mut bytes)?;
    indirect::births(&bytes, dnode.endian).collect::<ondisk::Result<_>>().map_err(bad)
}

/// The mapping of a vdev that is removed, or being removed, with the txgs of the copies as far as
/// they are known; `None` when it has none.
pub(crate) fn segments(
    mos: &Objset,
    top: &VdevConfig,
) -> dmu::Result<Option<Vec<IndirectSegment>>> {
    let Some(object) = top.indirect_object.filter(|n| *n != 0) else { return Ok(None) };
    let (_, entries) = indirect_mapping(mos, object)?;
    // Without them a device is at worst not brought up to date by a resilver, but by a scrub.
    let births = top.indirect_births.filter(|n| *n != 0).and_then(|n| births(mos, n).ok());
    let births = births.unwrap_or_default();
    let mut rest = births.iter().peekable();
    let segment = |e: MappingEntry| {
        while rest.next_if(|b| b.offset <= e.src).is_some() {}
        let txg = rest.peek().map_or(0, |b| b.txg);
        IndirectSegment { src_offset: e.src, size: e.size(), dst: e.dst, txg }
    };
    Ok(Some(entries.into_iter().map(segment).collect()))
}
