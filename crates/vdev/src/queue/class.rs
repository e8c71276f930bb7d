//! Classes of I/O.

/// What a request is for. In the order in which they are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IoClass {
    /// A thread waits for the bytes.
    SyncRead,
    /// A thread waits until they are written: the intent log, labels.
    SyncWrite,
    /// Reading ahead.
    AsyncRead,
    /// What a txg writes.
    AsyncWrite,
    /// Reading everything, to verify it or to rebuild a device.
    Scrub,
    /// Copying from a vdev that is being removed.
    Removal,
    /// Writing to free space.
    Initializing,
    /// Telling the device what is free.
    Trim,
    /// Sequential reconstruction.
    Rebuild,
}

/// Number of classes.
pub const CLASSES: usize = 9;

impl IoClass {
    /// All, in order.
    pub const ALL: [Self; CLASSES] = [
        Self::SyncRead,
        Self::SyncWrite,
        Self::AsyncRead,
        Self::AsyncWrite,
        Self::Scrub,
        Self::Removal,
        Self::Initializing,
        Self::Trim,
        Self::Rebuild,
    ];

    /// Its name, as in the tunables' names: `sync_read`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SyncRead => "sync_read",
            Self::SyncWrite => "sync_write",
            Self::AsyncRead => "async_read",
            Self::AsyncWrite => "async_write",
            Self::Scrub => "scrub",
            Self::Removal => "removal",
            Self::Initializing => "initializing",
            Self::Trim => "trim",
            Self::Rebuild => "rebuild",
        }
    }

    /// OpenZFS's limits: requests active at least while others wait, and at most.
    pub(super) const fn active(self) -> (u64, u64) {
        match self {
            Self::SyncRead | Self::SyncWrite => (10, 10),
            Self::AsyncRead | Self::Scrub | Self::Rebuild => (1, 3),
            Self::AsyncWrite => (2, 10),
            Self::Removal | Self::Trim => (1, 2),
            Self::Initializing => (1, 1),
        }
    }

    /// Work that is waited for, now or soon; not housekeeping that may take its time.
    pub(super) fn is_interactive(self) -> bool {
        !matches!(self, Self::Scrub | Self::Removal | Self::Initializing | Self::Rebuild)
    }

    /// Its requests read, if not all of them: what is read is also corrected, or copied.
    pub(super) fn reads(self) -> bool {
        matches!(
            self,
            Self::SyncRead | Self::AsyncRead | Self::Scrub | Self::Removal | Self::Rebuild
        )
    }

    /// Served first come, first served; the others by offset.
    pub(super) fn is_in_turn(self) -> bool {
        matches!(self, Self::SyncRead | Self::SyncWrite | Self::Trim)
    }
}
