//! Lists of blocks, and the bytes of tables.

use dmu::{Object, Objset, bpobj};
use ondisk::bpobj::{BpobjHeader, Entry};

/// Blocks of an object read at once.
const READ_BLOCKS: u64 = 16;

/// Calls `each` with every entry of the list `object` and of those below it. Returns the header.
pub(crate) fn for_each(
    mos: &Objset,
    object: u64,
    each: &mut dyn FnMut(&Entry),
) -> dmu::Result<BpobjHeader> {
    let header = bpobj::header(mos, object)?;
    bpobj::entries(mos, object, each)?;
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
