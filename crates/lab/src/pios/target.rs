//! Where a run writes to.

use super::Result;

/// Files (or objects, or a device) of one run. Used by all its threads at once.
pub trait Target: Send + Sync {
    /// Writes `data` at byte `at` of a file.
    ///
    /// # Errors
    /// When the system or the pool refuses it.
    fn write(&self, file: u64, at: u64, data: &[u8]) -> Result<()>;

    /// Reads at byte `at` of a file; what is not there is an error.
    ///
    /// # Errors
    /// When it cannot be read in full.
    fn read(&self, file: u64, at: u64, buf: &mut [u8]) -> Result<()>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// When it is not.
    fn sync(&self) -> Result<()>;

    /// Removes the files.
    ///
    /// # Errors
    /// When one could not be removed.
    fn remove(&self) -> Result<()>;
}
