//! Metadata that a txg wrote, until it is durable: the next one changes most of them, and should
//! not have to read them from the devices first. Data are kept where the caller wants that: of
//! records that are changed again and again in small parts the same is true.
//!
//! As long as the txg is being synced, an address that it wrote can be given up and written again
//! with the same birth, so these blocks may not be cached yet, and wait here. A txg may write more
//! metadata than there is memory for; so there is a bound, and the newest are kept: what is written
//! last, the blocks near the roots, is what every later change passes through.

use crate::block::Block;
use ondisk::BlkPtr;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most bytes kept, unless the caller says otherwise: a quarter of the usual cache.
const BYTES_MAX: u64 = 64 << 20;

/// A block with its pointer.
pub(crate) type Written = (BlkPtr, Arc<Block>);

/// The blocks written last that are kept.
pub(crate) struct Recent(Mutex<State>);

struct State {
    /// By the number of the writing.
    blocks: BTreeMap<u64, Written>,
    /// Number of the last writing to each first address.
    numbers: HashMap<[u64; 2], u64>,
    next: u64,
    bytes: u64,
    bytes_max: u64,
}

impl State {
    fn remove(&mut self, address: [u64; 2]) {
        let block = self.numbers.remove(&address).and_then(|n| self.blocks.remove(&n));
        self.bytes -= block.map_or(0, |(_, block)| block.len() as u64);
    }

    /// Gives up the oldest until the rest is within the bound.
    fn shrink(&mut self) {
        while self.bytes > self.bytes_max {
            let Some((_, (bp, block))) = self.blocks.pop_first() else { break };
            self.numbers.remove(&bp.dva(0).words());
            self.bytes -= block.len() as u64;
        }
    }
}

impl Recent {
    pub(crate) fn new() -> Self {
        let (blocks, numbers) = (BTreeMap::new(), HashMap::new());
        Self(Mutex::new(State { blocks, numbers, next: 0, bytes: 0, bytes_max: BYTES_MAX }))
    }

    /// Changes the bound, from now on.
    pub(crate) fn set_bytes_max(&self, bytes: u64) {
        let mut state = self.0.lock();
        state.bytes_max = bytes;
        state.shrink();
    }

    /// Keeps a block, in place of what was at its address before.
    pub(crate) fn keep(&self, bp: &BlkPtr, block: &Arc<Block>) {
        let address = bp.dva(0).words();
        let mut state = self.0.lock();
        state.remove(address);
        let number = state.next;
        state.next += 1;
        state.numbers.insert(address, number);
        state.blocks.insert(number, (*bp, Arc::clone(block)));
        state.bytes += block.len() as u64;
        state.shrink();
    }

    /// The address is given up: its space may be another block's before the txg ends.
    pub(crate) fn forget(&self, bp: &BlkPtr) {
        self.0.lock().remove(bp.dva(0).words());
    }

    /// All of them, oldest first; none is kept any more.
    pub(crate) fn take(&self) -> Vec<Written> {
        let mut state = self.0.lock();
        state.numbers.clear();
        state.bytes = 0;
        std::mem::take(&mut state.blocks).into_values().collect()
    }
}
