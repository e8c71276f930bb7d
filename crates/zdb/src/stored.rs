//! The stored blocks of an object, one after the other.

use super::dump::Dump;
use engine::inside::dmu::Object;
use engine::inside::zio::Block;
use std::sync::Arc;

/// Shows one block: its number, its content, and how many bytes of it count.
type ShowBlock<'a> = dyn FnMut(&mut Dump, u64, &Arc<Block>, usize) + 'a;

/// Calls `each` with every stored block and its number, up to `length` bytes of data, the last
/// block cut there. Blocks that cannot be read are reported and skipped.
pub(crate) fn blocks(d: &mut Dump, object: &Object, length: u64, each: &mut ShowBlock<'_>) {
    let size = object.dnode().block_size();
    let mut at = 0;
    loop {
        match object.next_block(at) {
            Ok(Some(b)) if b.saturating_mul(size) < length => {
                let left = length - b * size;
                match object.read_block(b) {
                    Ok(Some(block)) => {
                        let n = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                        each(d, b, &block, n);
                    }
                    Ok(None) => {}
                    Err(e) => d.fail(e),
                }
                at = b + 1;
            }
            Ok(_) => return,
            Err((e, resume)) => {
                d.fail(e);
                match resume {
                    Some(b) => at = b,
                    None => return,
                }
            }
        }
    }
}
