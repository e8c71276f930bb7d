//! Space maps as objects of the MOS, and the logs of changes that are not in them yet.

use super::maps::{BlockVisitor, ReadMaps};
use dmu::{Object, Objset};
use ondisk::spacemap::{HEADER_SIZE, SpaceMapHeader};

/// Bytes of a map that are read at once; whole blocks.
const READ_AT_ONCE: u64 = 1 << 20;
/// Longest map that is read, in bytes.
const LENGTH_MAX: u64 = 1 << 32;

/// The logs that the first sync removes.
#[derive(Default)]
pub(super) struct SpaceMapLogs {
    /// Table of the logs.
    pub(super) table: u64,
    /// Key in the table, and object.
    pub(super) logs: Vec<(Vec<u8>, u64)>,
    /// Logs with a histogram in their headers.
    pub(super) histograms: i64,
    /// Maps in whose place new ones come.
    pub(super) replaced: Vec<u64>,
    /// Objects with the txgs from which on logs count, and how many words they have.
    pub(super) unflushed: Vec<(u64, u64)>,
}

impl SpaceMapLogs {
    pub(super) fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.unflushed.is_empty() && self.replaced.is_empty()
    }
}

/// Space maps of the MOS.
pub(super) struct MosMaps {
    pub(super) mos: Objset,
}

impl ReadMaps for MosMaps {
    fn read(&self, object: u64, each: &mut BlockVisitor<'_>) -> Result<(), String> {
        let object = self.mos.object(object).map_err(|e| e.to_string())?;
        read_map(&object, each).map_err(|e| match e {
            Ok(text) => text,
            Err(e) => e.to_string(),
        })
    }
}

/// `Err(Ok(text))`: what `each` said.
pub(super) fn read_map(
    object: &Object,
    each: &mut BlockVisitor<'_>,
) -> Result<(), Result<String, dmu::Error>> {
    let length = header_of(object).map_err(Err)?.length;
    if length > LENGTH_MAX.min(object.size_of_blocks()) {
        return Err(Err(object.error(dmu::ErrorKind::Tree("a space map is too long"))));
    }
    let piece = READ_AT_ONCE.max(object.dnode().block_size());
    let mut at = 0;
    while at < length {
        let mut bytes = vec![0; piece.min(length - at) as usize];
        object.read_at(at, &mut bytes).map_err(Err)?;
        each(&bytes, object.dnode().endian).map_err(Ok)?;
        at += bytes.len() as u64;
    }
    Ok(())
}

/// The header of a space map, from the bonus of its object.
pub(super) fn header_of(object: &Object) -> dmu::Result<SpaceMapHeader> {
    let dnode = object.dnode();
    let bonus = dnode.bonus.get(..HEADER_SIZE).unwrap_or(&dnode.bonus);
    SpaceMapHeader::decode(bonus, dnode.endian).map_err(|e| object.format_error(0, e))
}

/// Whether a map has a histogram, as far as its header can be read.
pub(super) fn may_have_histogram(mos: &Objset, map: u64) -> bool {
    let header = mos.object(map).and_then(|object| header_of(&object));
    header.is_ok_and(|header| header.histogram.is_some())
}
