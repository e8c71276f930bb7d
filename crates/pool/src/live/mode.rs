//! What becomes of threads that wait for a pool whose devices fail.

/// The pool's property `failmode`, by its numbers on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// They wait until the devices are back.
    #[default]
    Wait = 0,
    /// They are told at once.
    Continue = 1,
    /// The pool stops for good, and so does what holds it.
    Panic = 2,
}

/// What a thread does that would have to wait for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// What the pool's [`FailMode`] says.
    OfPool,
    /// It gives up.
    None,
}

impl FailMode {
    /// That of the property's number; what is not known waits.
    #[must_use]
    pub fn of(number: u64) -> Self {
        match number {
            1 => Self::Continue,
            2 => Self::Panic,
            _ => Self::Wait,
        }
    }
}

/// Why a device is taken out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfflineMode {
    /// The administrator said so; it is not used by the next import either.
    Offline,
    /// The administrator said so, as long as the pool is open.
    OfflineForNow,
    /// The administrator said that it failed; it has for the next import too.
    Faulted,
    /// The administrator said that it failed, as long as the pool is open.
    FaultedForNow,
}
