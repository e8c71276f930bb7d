//! Blocks to write that compress as it is wanted.

use engine::inside::codec::compress::{Algorithm, compress};
use engine::inside::device::AlignedBuf;
use engine::inside::ondisk::{Compression, Endian};
use engine::inside::rt::{Rng, Xoshiro256};
use engine::inside::zio::Block;
use std::sync::Arc;

/// More than compression adds to noise and to the zeros after it.
const FRAMING: usize = 60;
/// Different contents: as many as make neighbours differ.
pub(crate) const CONTENTS: u64 = 64;
/// Sectors of the disks.
const SECTOR: usize = 512;

/// `count` blocks that compress this many times: a begin of noise, and zeros. Those that are not to
/// compress are zeros, to be stored without compression.
pub(crate) fn contents(
    record: u64,
    ratio: f64,
    count: u64,
    rng: &mut Xoshiro256,
) -> Vec<Arc<Block>> {
    let sectors = record as f64 / ratio / SECTOR as f64;
    let block = |n: u64| {
        let mut bytes = AlignedBuf::zeroed(record as usize);
        // As many of the next smaller and larger number of sectors as give the ratio.
        let more = (n as f64 + 0.5) / (count as f64) < sectors.fract();
        let sectors = sectors as usize + usize::from(more);
        let noise = if ratio > 1.0 { (sectors * SECTOR).saturating_sub(FRAMING) } else { 0 };
        for part in bytes[..noise].chunks_mut(8) {
            part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]);
        }
        Arc::new(Block::new(bytes, Endian::Little))
    };
    (0..count).map(block).collect()
}

/// The same blocks as they are stored with LZ4, which is done once and not whenever one of them is
/// written: where compressing takes no time of a simulation, nothing else differs.
pub(crate) fn packed(blocks: Vec<Arc<Block>>) -> Vec<Arc<Block>> {
    let pack = |block: Arc<Block>| match compress(Algorithm::Lz4, &block) {
        None => block,
        Some(packed) => {
            let copy = Block::new(AlignedBuf::copy_of(&block), block.endian());
            Arc::new(copy.packed_as(Compression::LZ4, &packed))
        }
    };
    blocks.into_iter().map(pack).collect()
}
