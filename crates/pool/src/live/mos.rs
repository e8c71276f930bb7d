//! Small things that are done to the MOS again and again.

use dmu::zap::{self, ZapSpec};
use dmu::{NewObject, Objset, Tx};
use ondisk::DmuType;
use ondisk::nvlist::{NvList, Packing};

/// Self-describing type "ZAP, metadata": tables that have no type of their own.
pub(super) const TABLE: DmuType = DmuType(0xc4);

/// Makes an empty table; its number.
pub(super) fn new_zap(mos: &Objset, tx: &Tx, kind: DmuType) -> dmu::Result<u64> {
    Ok(zap::create(mos, tx, &ZapSpec::new(kind))?.number())
}

/// Sets an entry of a table of numbers.
pub(super) fn set_u64(
    mos: &Objset,
    tx: &Tx,
    table: u64,
    name: &str,
    value: u64,
) -> dmu::Result<()> {
    zap::set_u64(&mos.object(table)?, tx, name, value)
}

/// Block size of packed lists: those of all but very large pools fit one.
const PACKED_BLOCK: u32 = 16 << 10;

/// Makes an object for a packed list.
pub(super) fn new_packed(mos: &Objset, tx: &Tx) -> dmu::Result<u64> {
    let spec = NewObject {
        block_size: PACKED_BLOCK,
        bonus_kind: DmuType::PACKED_NVLIST_SIZE,
        bonus: vec![0; 8],
        ..NewObject::new(DmuType::PACKED_NVLIST)
    };
    Ok(mos.create(tx, &spec)?.number())
}

/// Writes a packed list; the bonus says its length.
pub(super) fn write_packed(mos: &Objset, tx: &Tx, number: u64, list: &NvList) -> dmu::Result<()> {
    let object = mos.object(number)?;
    let bytes = list.encode(Packing::XDR).map_err(|e| object.format_error(0, e))?;
    object.write_at(tx, 0, &bytes)?;
    object.set_bonus(tx, DmuType::PACKED_NVLIST_SIZE, &(bytes.len() as u64).to_le_bytes())
}

/// Packed lists are a few KiB; a pool of thousands of disks stays below this.
const PACKED_MAX: u64 = 64 << 20;

/// Reads a packed list.
pub(super) fn read_packed(mos: &Objset, number: u64) -> dmu::Result<NvList> {
    let object = mos.object(number)?;
    let bonus = &object.dnode().bonus;
    let len = bonus.first_chunk::<8>().map_or(0, |b| object.dnode().endian.u64(*b));
    let mut bytes =
        vec![0; usize::try_from(len.min(object.size_of_blocks()).min(PACKED_MAX)).unwrap_or(0)];
    object.read_at(0, &mut bytes)?;
    NvList::decode(&bytes).map_err(|e| object.format_error(0, e))
}
