//! What a repair does, for who decides about it.

use check::Issue;

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Space maps are written anew, after what blocks take.
    SpaceMaps {
        /// How many.
        maps: u64,
        /// Of how many.
        of: u64,
        /// Bytes that were allocated and nothing points to: they are free.
        freed: u64,
        /// Bytes that were in use and marked free: they are allocated.
        taken: u64,
    },
    /// Log space maps are dropped: what they say is in the maps that are written anew.
    LogSpaceMaps,
    /// Labels are written anew, on all devices.
    Labels {
        /// Those that were wrong: device and label.
        wrong: Vec<(String, usize)>,
    },
}

/// What a repair found, does, and leaves. It was done in memory, and checked there: what it leaves is
/// not a guess.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pool.
    pub pool: String,
    /// Its txg as it is.
    pub before: u64,
    /// Its txg when it is repaired.
    pub after: u64,
    /// What is wrong now.
    pub found: Vec<Issue>,
    /// Issues that were too many to keep.
    pub found_more: u64,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// What is wrong after it.
    pub left: Vec<Issue>,
    /// Issues of these that were too many to keep.
    pub left_more: u64,
    /// Bytes that are written.
    pub written: u64,
    /// Bytes of the undo file.
    pub undo: u64,
}

impl Plan {
    /// There is something to do.
    #[must_use]
    pub fn is_of_use(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Nothing is wrong when it is done.
    #[must_use]
    pub fn makes_clean(&self) -> bool {
        let is_note = |i: &Issue| i.severity() == check::Severity::Note;
        self.left_more == 0 && self.left.iter().all(is_note)
    }
}
