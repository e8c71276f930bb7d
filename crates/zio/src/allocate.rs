//! The seam between writing a block and knowing where space is free.

use ondisk::{BlkPtr, Dva};
use std::fmt;

/// The use of a block's space, and the class of a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpaceClass {
    /// Everything without a class of its own.
    Normal,
    /// Intent log blocks.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Tables of deduplicated blocks.
    Dedup,
}

impl SpaceClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Log, Self::Special, Self::Dedup];

    /// Its word: in the table of a vdev, where the normal class has none, and in layouts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Log => "log",
            Self::Special => "special",
            Self::Dedup => "dedup",
        }
    }

    /// The class with this word.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == word)
    }
}

/// A request for space.
#[derive(Clone, Copy, Debug)]
pub struct AllocRequest {
    /// Bytes of one copy as stored: the physical size, or that of a gang header.
    pub psize: u64,
    /// Copies, 1 to 3.
    pub copies: u8,
    /// Class to take it from; another may be taken when it is full or does not exist.
    pub class: SpaceClass,
    /// The txg that writes it.
    pub txg: u64,
    /// It is a gang header: the addresses carry the gang bit.
    pub gang: bool,
    /// Blocks with equal hints are best near each other (an object's number, say).
    pub hint: u64,
}

/// Why there is no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// No free segment is long enough; smaller ones may exist.
    NoSpace,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no free segment is long enough")
    }
}

impl std::error::Error for AllocError {}

/// Hands out and takes back space. Called by many threads at once; never waits for I/O.
pub trait Allocate: Send + Sync {
    /// Space for `want.copies` copies, on different top-level vdevs where there are several.
    /// Addresses behind the last copy are empty.
    ///
    /// # Errors
    /// When no segment is long enough; nothing is taken then.
    fn allocate(&self, want: &AllocRequest) -> Result<[Dva; 3], AllocError>;

    /// Gives back the addresses of `bp`, which were allocated in `txg` and which no uberblock
    /// reaches: they may be handed out again at once. Of a gang each header and part comes by
    /// itself, and a header's addresses have the space of the header alone.
    fn discard(&self, bp: &BlkPtr, txg: u64);

    /// Frees the addresses of `bp`, which an older txg allocated, as a change of `txg`: they are
    /// handed out again only when no importable uberblock reaches them. Gangs come as above.
    fn free(&self, bp: &BlkPtr, txg: u64);
}
