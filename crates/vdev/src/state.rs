//! Health of vdevs, by the rules of `zpool status`.
//!
//! A device has the state it was opened with. An inner vdev looks at its children: one that cannot
//! be read counts as lost, one that is degraded as degraded. A mirror (also replacing and spare)
//! survives as long as one child is left, RAID-Z and dRAID as long as no more are lost than there
//! is parity, the root only when none is lost; a lost log device degrades the root instead of
//! failing it, because only unplayed intent log records are lost with it.

use std::fmt;

/// Health of one vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VdevState {
    /// Works.
    Online,
    /// Works without its full redundancy.
    Degraded,
    /// Taken out of use after errors, or its contents are not of this pool.
    Faulted,
    /// Cannot be opened, or too few of its children can be.
    Unavail,
    /// Taken out of use by the administrator.
    Offline,
    /// The device was pulled out.
    Removed,
}

impl VdevState {
    /// Blocks can be read from it.
    #[must_use]
    pub fn is_readable(self) -> bool {
        matches!(self, Self::Online | Self::Degraded)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Degraded => "DEGRADED",
            Self::Faulted => "FAULTED",
            Self::Unavail => "UNAVAIL",
            Self::Offline => "OFFLINE",
            Self::Removed => "REMOVED",
        }
    }
}

impl fmt::Display for VdevState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a vdev is not online, if the state alone does not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing to add.
    None,
    /// The device cannot be opened.
    CannotOpen,
    /// The device is there, and cannot be opened to be written to.
    Refused(device::ErrorKind),
    /// The device's label is of another vdev or damaged, or says more bytes than there are.
    BadLabel,
    /// Too few children are left.
    NoReplicas,
    /// Too many errors.
    TooManyErrors,
    /// Its requests did not come back.
    NoAnswer,
    /// The administrator said that it failed.
    External,
    /// The device was away while the others were written, and is this many txgs behind.
    Behind(u64),
}

impl fmt::Display for Reason {
    /// The text behind the error counts in `zpool status`; empty for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "",
            Self::CannotOpen => "cannot open",
            Self::Refused(why) => return f.pad(&format!("cannot open: {why}")),
            Self::BadLabel => "corrupted data",
            Self::NoReplicas => "insufficient replicas",
            Self::TooManyErrors => "too many errors",
            Self::NoAnswer => "does not answer",
            Self::External => "external device fault",
            Self::Behind(1) => "was away, 1 txg behind",
            Self::Behind(n) => return f.pad(&format!("was away, {n} txgs behind")),
        })
    }
}

/// State of an inner vdev that survives the loss of `spare` of its children.
pub(crate) fn of_children(
    children: impl Iterator<Item = (VdevState, bool)>,
    spare: usize,
) -> (VdevState, Reason) {
    let (mut lost, mut hurt) = (0usize, false);
    for (state, dispensable) in children {
        hurt |= state != VdevState::Online;
        lost += usize::from(!state.is_readable() && !dispensable);
    }
    match () {
        () if lost > spare => (VdevState::Unavail, Reason::NoReplicas),
        () if hurt => (VdevState::Degraded, Reason::None),
        () => (VdevState::Online, Reason::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use VdevState::{Degraded, Faulted, Offline, Online, Removed, Unavail};

    fn of(states: &[VdevState], spare: usize) -> VdevState {
        of_children(states.iter().map(|s| (*s, false)), spare).0
    }

    #[test]
    fn losses_up_to_the_redundancy_degrade() {
        assert_eq!(of(&[Online, Online], 1), Online);
        assert_eq!(of(&[Online, Offline], 1), Degraded);
        assert_eq!(of(&[Online, Degraded], 1), Degraded);
        assert_eq!(of(&[Removed, Faulted], 1), Unavail);
        assert_eq!(of(&[Online, Degraded, Unavail], 0), Unavail);
        assert_eq!(of_children([(Unavail, true)].into_iter(), 0), (Degraded, Reason::None));
    }
}
