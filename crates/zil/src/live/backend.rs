//! What a log needs of those around it: of its pool, and of the files whose data it writes.

use device::Shared;
use dmu::EarlyWrite;
use ondisk::blkptr::CryptParams;
use ondisk::{BlkPtr, Dva};
use zio::UnsentBlock;

/// Where a block of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its addresses.
    pub dvas: [Dva; 3],
    /// Its size.
    pub size: u64,
    /// The txg in which it was allocated.
    pub birth: u64,
    /// How it will be encrypted, in an encrypted dataset: the pointer to it says so before it is
    /// written. It is written once.
    pub crypt: Option<CryptParams>,
}

/// What a log needs of its pool. None of this is called with a lock held.
pub trait Backend: Send + Sync {
    /// Allocates a block in the open txg, and has the object set written by that txg. `keep` is
    /// called before the txg can end. False: there is no space that could be spared now.
    fn allocate(&self, size: u64, keep: &mut dyn FnMut(Place)) -> bool;

    /// Has the object set written by the open txg, whose number it returns.
    fn touch(&self) -> Result<u64, String>;

    /// The same, and fails while the pool is suspended.
    fn touch_unless_suspended(&self) -> Result<u64, String>;

    /// There is a device that takes blocks of logs alone.
    fn has_log_device(&self) -> bool;

    /// What is returned writes blocks, all at the same time, waits for them and for the blocks of
    /// data `early`, which are under way, and flushes the devices of all.
    fn write(&self, blocks: Vec<(Place, Shared)>, early: Vec<BlkPtr>) -> Finish<'_>;

    /// Waits until `txg` is durable.
    fn wait_synced(&self, txg: u64) -> Result<(), String>;

    /// The same, and gives up when the pool is suspended.
    fn wait_synced_unless_suspended(&self, txg: u64) -> Result<(), String>;
}

/// Waits for what was begun. It may call what it is given when the blocks are written, to say so
/// before its end.
pub type Finish<'a> = Box<dyn FnOnce(&dyn Fn()) -> Result<(), String> + 'a>;

/// The pointer of a block that is written before the sync of its txg, and what hands it to its
/// devices.
pub type EarlyBlock = Option<(BlkPtr, UnsentBlock)>;

/// Data of objects as they are now.
pub trait FetchData: Send + Sync {
    /// Puts the bytes from an offset on into memory, as far as the object reaches and can be read.
    /// How many there are; what is behind them may be anything.
    fn fetch(&self, object: u64, offset: u64, into: &mut [u8]) -> usize;

    /// Bytes of a block of the object, a power of two; 0: no block of it can be written early.
    fn block_size(&self, object: u64) -> u64;

    /// Writes block `blkid` of the object to where it will stay; for a record, also the pointer of
    /// a block that was written ahead of it. `None`: the block is not one that only the open txg
    /// has, or a record names it, or there is no space that could be spared.
    fn write_early(&self, object: u64, blkid: u64, what_for: EarlyWrite) -> EarlyBlock;
}
