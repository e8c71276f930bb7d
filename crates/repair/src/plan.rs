//! The plan of a repair, for the user who decides about it.

use check::Issue;
use pool::Verdict;
use pool::live::AbandonedHead;

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The pool goes back to an earlier txg: what was written since is given up.
    Rewind {
        /// The txg.
        txg: u64,
    },
    /// Space maps are rebuilt from the blocks in use.
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
    /// Log space maps are dropped: their contents are in the maps that are rebuilt.
    LogSpaceMaps,
    /// A number that does not add up is set right.
    Sum {
        /// Which.
        of: String,
        /// Its value now.
        from: u64,
        /// Its new value.
        to: u64,
    },
    /// The sums of a list of blocks are set right.
    List {
        /// Which.
        of: String,
        /// Bytes that its blocks take.
        used: u64,
    },
    /// A snapshot whose object set cannot be read is destroyed.
    SnapshotLost {
        /// Its name.
        snapshot: String,
    },
    /// A dataset whose object set cannot be read is given up.
    DatasetLost {
        /// Its name.
        dataset: String,
        /// What the head was reset to.
        became: AbandonedHead,
    },
    /// Of an intent log what comes before the damage is replayed, and the rest dropped.
    LogLost {
        /// Its dataset.
        dataset: String,
        /// Records that are replayed.
        replayed: u64,
    },
    /// A name that leads to nothing is taken away: the file is lost.
    NameRemoved {
        /// The directory.
        dir: String,
        /// The name, spelled.
        name: String,
        /// The object that it named.
        object: u64,
    },
    /// Objects that cannot be read any more are dropped: they are lost.
    Dropped {
        /// Which.
        what: String,
    },
    /// The dead list of a dataset is rebuilt.
    DeadList {
        /// The dataset.
        dataset: String,
        /// Blocks in it.
        blocks: u64,
    },
    /// The history of the pool, which cannot be read, is emptied.
    History,
    /// A table is rebuilt from the entries that can be read or that other objects imply.
    Table {
        /// Which.
        table: String,
        /// Entries that are still known.
        kept: u64,
    },
    /// The table that counts the clones of blocks is rebuilt from what refers to them.
    CloneTable {
        /// The top-level vdev whose table it is.
        vdev: u32,
        /// Entries in it.
        entries: u64,
    },
    /// Entries of a dedup table count what refers to their blocks.
    DedupTable {
        /// The checksum whose table it is.
        checksum: String,
        /// Entries that are corrected, added or removed.
        corrected: u64,
    },
    /// What is recorded as obsolete of a removed vdev is what no block refers to.
    Obsolete {
        /// The removed vdev.
        vdev: u32,
        /// Bytes of its mapping that no block refers to.
        bytes: u64,
    },
    /// A file that no directory names gets a name.
    Adopted {
        /// The file.
        file: String,
        /// Where it is then.
        path: String,
    },
    /// Directories say rightly what kind of file it is.
    Kind {
        /// The file.
        file: String,
    },
    /// Labels are rewritten, on all devices.
    Labels {
        /// Those that were wrong: device and label.
        wrong: Vec<(String, usize)>,
    },
}

/// One thing that was tried and failed, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The description of the repair.
    pub what: String,
    /// Why it is not.
    pub why: String,
}

/// The findings of a repair, its steps, and the issues that it leaves. It was done in memory, and
/// checked there: the result is not a guess.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pool.
    pub pool: String,
    /// Its txg that is repaired: the newest that can be opened, or that to which it goes back.
    pub before: u64,
    /// Its newest txg.
    pub newest: u64,
    /// Its txg when it is repaired.
    pub after: u64,
    /// Devices that are away or out of use, each with its state: what they have is not known.
    pub absent: Vec<String>,
    /// States of earlier txgs, when something of the newest is lost: the txg, when it was (seconds
    /// since 1970), and what a look at its metadata says.
    pub earlier: Vec<(u64, u64, Verdict)>,
    /// The issues now, or in the txg to which it goes back.
    pub found: Vec<Issue>,
    /// Issues that were too many to keep.
    pub found_more: u64,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The steps that failed: their structures stay as they are.
    pub failed: Vec<Failure>,
    /// The issues after it.
    pub left: Vec<Issue>,
    /// Issues of these that were too many to keep.
    pub left_more: u64,
    /// The content of files was read, too.
    pub reads_all: bool,
    /// Files of which something is lost after it, as `zpool status -v` names them. When their
    /// content was not read these are not all.
    pub damaged: Vec<String>,
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

    /// Something is given up that a device which is away may still have.
    #[must_use]
    pub fn gives_up(&self) -> bool {
        let gives_up = |step: &Step| match step {
            Step::SpaceMaps { .. } | Step::LogSpaceMaps | Step::Sum { .. } | Step::List { .. } => {
                false
            }
            Step::DeadList { .. }
            | Step::CloneTable { .. }
            | Step::DedupTable { .. }
            | Step::Obsolete { .. }
            | Step::Adopted { .. }
            | Step::Kind { .. }
            | Step::Labels { .. } => false,
            Step::Rewind { .. } | Step::SnapshotLost { .. } | Step::DatasetLost { .. } => true,
            Step::LogLost { .. } | Step::NameRemoved { .. } | Step::Dropped { .. } => true,
            Step::Table { .. } | Step::History => true,
        };
        self.steps.iter().any(gives_up)
    }

    /// The default name of the undo file.
    #[must_use]
    pub fn undo_name(&self) -> String {
        format!("{}-{}.undo", self.pool, self.newest)
    }

    /// Nothing is wrong now, or when it is `done`.
    #[must_use]
    pub fn is_clean_after(&self, done: bool) -> bool {
        (self.found.is_empty() && self.found_more == 0) || (done && self.makes_clean())
    }

    /// Nothing is wrong when it is done.
    #[must_use]
    pub fn makes_clean(&self) -> bool {
        let is_note = |i: &Issue| i.severity() == check::Severity::Note;
        self.left_more == 0 && self.left.iter().all(is_note)
    }
}
