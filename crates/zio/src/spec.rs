//! How blocks are written.

use codec::compress::Algorithm;
use codec::crypto::MasterKey;
use ondisk::{BlkPtr, Checksum, DmuType};

use crate::allocate::SpaceClass;

/// How the blocks of a dataset are protected from anyone who has the devices.
#[derive(Clone, Copy, Debug, Default)]
pub enum Protection<'k> {
    /// The dataset is not encrypted.
    #[default]
    None,
    /// By this key. Blocks have two copies at most where they are encrypted.
    Key(&'k MasterKey),
    /// By a key that is not there: nothing can be written but a header of the object set of which
    /// only the header of the intent log has changed.
    Locked,
    /// By a key that is not there, and blocks come as they were encrypted elsewhere
    /// ([`crate::Block::sealed`]).
    Sealed,
}

/// How one block is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteSpec<'k> {
    /// Type of the object it belongs to.
    pub kind: DmuType,
    /// Level above the data.
    pub level: u8,
    /// Compression to try, with its level. Anything but off also turns blocks of zeros into holes.
    pub compression: Algorithm,
    /// Checksum. `ON` and `INHERIT` mean fletcher4, and so does `OFF` for metadata.
    pub checksum: Checksum,
    /// Copies, 1 to 3.
    pub copies: u8,
    /// Where the space is taken from.
    pub class: SpaceClass,
    /// Blocks that compress to 112 bytes go into the pointer (feature `embedded_data`). Dnodes,
    /// object sets and indirect blocks never do.
    pub embed: bool,
    /// Blocks (or dnodes) below, for the pointer; 1 for a block of data.
    pub fill: u64,
    /// The txg that writes it.
    pub birth: u64,
    /// Keep it in memory until [`crate::Writer::release`].
    pub hold: bool,
    /// It is kept until the txg is durable, as metadata are ([`crate::Writer::take_recent`]).
    pub keep: bool,
    /// A thread waits for it: devices take it before what a txg writes.
    pub urgent: bool,
    /// A pointer written earlier in the same txg, which the new one replaces: its space is used
    /// again when the stored size is equal. The caller sees that from the first address; otherwise
    /// the old pointer is still the caller's to free.
    pub reuse: Option<BlkPtr>,
    /// How the dataset is protected. A block that is encrypted is not embedded.
    pub protection: Protection<'k>,
}

impl WriteSpec<'_> {
    /// One copy of normal class, no compression, fletcher4, fill 1, written at once.
    #[must_use]
    pub fn new(kind: DmuType, level: u8, birth: u64) -> Self {
        Self {
            kind,
            level,
            compression: Algorithm::Off,
            checksum: Checksum::FLETCHER_4,
            copies: 1,
            class: SpaceClass::Normal,
            embed: false,
            fill: 1,
            birth,
            hold: false,
            keep: false,
            urgent: false,
            reuse: None,
            protection: Protection::None,
        }
    }
}

/// The settings of all blocks of a pool.
#[derive(Clone, Copy, Debug)]
pub struct WriterSettings {
    /// Bytes handed to the devices and not answered yet, over which a write waits for room.
    ///
    /// A device needs its throughput times its latency: 10 GB/s at 2 ms are 20 MB, forty disks with
    /// a megabyte each are 40 MB. The default leaves room above that and is small beside the dirty
    /// data that waits anyway.
    pub in_flight_max: u64,
    /// Bytes that allocations are multiples of: compressed blocks are filled up to whole ones.
    pub alloc_unit: usize,
    /// Holes remember when they were made (feature `hole_birth` is active).
    pub hole_birth: bool,
}

/// Default of [`WriterSettings::in_flight_max`].
pub const IN_FLIGHT_MAX: u64 = 64 << 20;
