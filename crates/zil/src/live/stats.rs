//! What a log counts.

/// What a log has done since its object set was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Batches of changes that were written to it.
    pub batches: u64,
    /// Its blocks that were written.
    pub blocks: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Blocks of data that were written to where they belong.
    pub early: u64,
    /// Bytes of these, as stored.
    pub early_bytes: u64,
}

impl std::ops::AddAssign for LogStats {
    fn add_assign(&mut self, more: Self) {
        self.batches += more.batches;
        self.blocks += more.blocks;
        self.bytes += more.bytes;
        self.early += more.early;
        self.early_bytes += more.early_bytes;
    }
}
