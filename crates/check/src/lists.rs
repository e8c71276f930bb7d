//! Lists of blocks: iterating over block pointer objects with all the lists below them.

use dmu::{Object, Objset};
use ondisk::bpobj::{self, BpobjHeader, Entry};

/// Nesting of lists that is followed; OpenZFS nests them once.
const DEPTH_MAX: usize = 8;
/// Blocks of an object read at once.
const READ_BLOCKS: u64 = 16;

/// Calls `each` with every entry of the list `object` and of those below it. Returns the header.
pub(crate) fn for_each(
    mos: &Objset,
    object: u64,
    each: &mut dyn FnMut(&Entry),
) -> dmu::Result<BpobjHeader> {
    walk(mos, object, DEPTH_MAX, each)
}

fn walk(
    mos: &Objset,
    number: u64,
    depth: usize,
    each: &mut dyn FnMut(&Entry),
) -> dmu::Result<BpobjHeader> {
    let object = mos.object(number)?;
    let dnode = object.dnode();
    let bad = |e| object.format_error(0, e);
    let header = BpobjHeader::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
    let len = header.data_len().map_err(bad)?;
    let endian = dnode.endian;
    for_bytes(&object, len, &mut |at, bytes| {
        for e in bpobj::entries(bytes, endian) {
            each(&e.map_err(|e| object.format_error(at, e))?);
        }
        Ok(())
    })?;
    if let Some(sub) = header.subobjs.filter(|s| s.object != 0 && s.count > 0) {
        let Some(below) = depth.checked_sub(1) else {
            return Err(object.error(dmu::ErrorKind::Tree("lists of lists nest too deep")));
        };
        let table = mos.object(sub.object)?;
        let mut numbers = Vec::new();
        for_bytes(&table, sub.count.saturating_mul(8), &mut |_, bytes| {
            numbers.extend(bpobj::subobj_numbers(bytes, endian));
            Ok(())
        })?;
        for n in numbers {
            walk(mos, n, below, each)?;
        }
    }
    Ok(header)
}

/// Reads the first `len` bytes of an object in runs of whole blocks.
pub(crate) fn for_bytes(
    object: &Object,
    len: u64,
    each: &mut dyn FnMut(u64, &[u8]) -> dmu::Result<()>,
) -> dmu::Result<()> {
    if len > object.size_of_blocks() {
        return Err(object.error(dmu::ErrorKind::Tree("a list is longer than its object")));
    }
    let bs = object.dnode().block_size().max(512);
    let mut at = 0;
    while at < len {
        let n = (bs * READ_BLOCKS).min(len - at);
        let mut bytes = vec![0; n as usize];
        object.read_at(at, &mut bytes)?;
        each(at / bs, &bytes)?;
        at += n;
    }
    Ok(())
}
