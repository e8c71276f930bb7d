//! File systems and volumes.

use ondisk::props::applies;

/// The kind of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetKind {
    /// A file system, or a snapshot of one.
    Filesystem,
    /// A volume, or a snapshot of one.
    Volume,
}

impl DatasetKind {
    /// The value of `type` of a head.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Volume => "volume",
        }
    }

    /// Its bit among those of the types that a property applies to.
    pub(crate) fn bit(self) -> u8 {
        match self {
            Self::Filesystem => applies::FILESYSTEM,
            Self::Volume => applies::VOLUME,
        }
    }
}
