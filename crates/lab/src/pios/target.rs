//! Where a run writes to.

use super::{PiosError, Result};

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

/// A target for a run that ends when it is not wanted any more.
pub struct WhileWanted<'a> {
    /// What is loaded.
    pub target: &'a dyn Target,
    /// Whether a caller waits for the run.
    pub is_wanted: &'a (dyn Fn() -> bool + Sync),
}

impl WhileWanted<'_> {
    fn check(&self) -> Result<()> {
        match (self.is_wanted)() {
            true => Ok(()),
            false => Err(PiosError::new("the command was cancelled")),
        }
    }
}

impl Target for WhileWanted<'_> {
    fn write(&self, file: u64, at: u64, data: &[u8]) -> Result<()> {
        self.check()?;
        self.target.write(file, at, data)
    }

    fn read(&self, file: u64, at: u64, buf: &mut [u8]) -> Result<()> {
        self.check()?;
        self.target.read(file, at, buf)
    }

    fn sync(&self) -> Result<()> {
        self.target.sync()
    }

    fn remove(&self) -> Result<()> {
        self.target.remove()
    }
}
