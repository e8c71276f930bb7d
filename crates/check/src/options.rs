//! How to check.

/// The blocks that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Every block.
    All,
    /// Metadata only: files' and volumes' data are accounted for but not read.
    Metadata,
}

/// How to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The blocks that are read.
    pub verify: Verify,
    /// Threads that read and verify; 0: as many as the machine can use.
    pub workers: usize,
    /// Bytes of one batch of reads; each thread has one in flight.
    pub batch_bytes: u64,
    /// Issues kept in full; later ones are counted by kind.
    pub issues_max: usize,
    /// Check names, links and owners of files in snapshots too, not only in heads.
    pub snapshots: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            verify: Verify::All,
            workers: 0,
            batch_bytes: 4 << 20,
            issues_max: 100_000,
            snapshots: false,
        }
    }
}
