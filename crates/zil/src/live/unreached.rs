//! Blocks that were allocated, and to which no written block leads yet.
//!
//! # Theory
//!
//! ```text
//!   allocated in the open txg T        the block before it is written, with the pointer to it
//!   ---------------------------> unreached -----------------------------------------> in the chain
//!                                  ^  the sync of T waits here
//! ```
//!
//! If T were durable earlier, and the power failed then, the space maps would know a block to which
//! nothing leads, and it would stay allocated for ever. OpenZFS keeps T open meanwhile. Here only
//! the sync of T waits, at its beginning, so that no change of a file waits for a device of logs;
//! its flush makes the written blocks durable before T is.
//!
//! **It cannot wait for itself.** A batch that has allocated waits for its writes, and, when it
//! allocates more, for the txg that is open: it is in none, and no sync has to end for that. That
//! its blocks are written is said before it waits for blocks of data, which the sync may have to
//! write again.
//!
//! **It does not wait for ever.** Nothing but some space depends on it, so it waits for
//! [`WAITED_FOR`] at most, and for each batch once. A write takes longer where a device hangs.
//!
//! **A write that failed** may be there or not. Then the chain is closed, and its blocks are freed
//! by the sync that finds nothing of it of use; a crash before that may leave blocks allocated.

use std::time::Duration;

/// A sync waits no longer.
pub(super) const WAITED_FOR: Duration = Duration::from_secs(2);

/// Batches that have such blocks, and the txg of the first block of each.
#[derive(Default)]
pub(super) struct Unreached(Vec<(u64, u64)>);

impl Unreached {
    /// A batch has allocated a block in this txg.
    pub(super) fn add(&mut self, batch: u64, txg: u64) {
        if self.0.iter().all(|(other, _)| *other != batch) {
            self.0.push((batch, txg));
        }
    }

    /// Written blocks lead to all that a batch has allocated, or none ever will.
    pub(super) fn remove(&mut self, batch: u64) {
        self.0.retain(|(other, _)| *other != batch);
    }

    /// There are blocks of this txg, or of one before.
    pub(super) fn has(&self, txg: u64) -> bool {
        self.0.iter().any(|(_, birth)| *birth <= txg)
    }

    /// Those of this txg, and of those before, are not waited for.
    pub(super) fn forget(&mut self, txg: u64) {
        self.0.retain(|(_, birth)| *birth > txg);
    }
}
