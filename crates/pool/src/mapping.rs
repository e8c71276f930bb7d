//! Where the blocks of a removed vdev are by now, as the MOS says.

use dmu::Objset;
use ondisk::indirect::{self, MappingEntry, MappingHeader};

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
