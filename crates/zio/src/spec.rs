//! How one block is written.

use crate::allocate::Class;
use codec::compress::Algorithm;
use ondisk::{BlkPtr, Checksum, DmuType};

/// How one block is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteSpec {
    /// Type that the pointer will name.
    pub kind: DmuType,
    /// Level above the data.
    pub level: u8,
    /// Compression that is tried, with its level.
    pub compression: Algorithm,
    /// Checksum.
    pub checksum: Checksum,
    /// Copies, 1 to 3.
    pub copies: u8,
    /// Where the space is taken from.
    pub class: Class,
    /// What compresses to 112 bytes may go into the pointer itself.
    pub embed: bool,
    /// Fill count that the pointer will have, when it is no hole.
    pub fill: u64,
    /// The txg that writes it.
    pub birth: u64,
    /// Keep the block in memory until the writer's `release`.
    pub hold: bool,
    /// A pointer written earlier in the same txg, which the new one replaces: its space is used
    /// again when the stored size is equal. The caller sees that from the first address; otherwise
    /// the old pointer is still the caller's to free.
    pub reuse: Option<BlkPtr>,
}
