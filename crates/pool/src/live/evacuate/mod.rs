//! Removing a top-level vdev with data on it: what is there is copied to the others.
//!
//! # Theory
//!
//! ```text
//!         start                    a piece in each txg              nothing is left
//!  in use -----> takes no blocks ---------------------> ... ------------------------> removed
//!    ^                |                 |                                          (indirect)
//!    '---- cancel ----+-----------------'   also by itself, when something cannot be read
//! ```
//!
//! Nothing knows which blocks point to a vdev, so no pointer is changed: the number of the vdev
//! stays for ever, and a *mapping* says where each range of it is now. It is written as it grows,
//! in an object of the MOS, sorted by the old place. So a removal that was cut off goes on
//! behind the last entry, here or in OpenZFS.
//!
//! In the sync of each txg, while one runs:
//!
//! ```text
//! copy     what is allocated behind the last entry, a piece of it, is read and written elsewhere.
//!          Not under the gate: blocks are read and written meanwhile as ever  (copy.rs)
//! extend   the entries go into the mapping, under the gate                    (mapping.rs)
//! ...      tasks; frees are resolved when the maps are written             (alloc/evacuating.rs)
//! commit   copies and mapping are durable together
//! ```
//!
//! Blocks are read where they were until the last piece is copied: in that txg the vdev becomes an
//! *indirect* one (end.rs), its space maps are freed, and when the txg is durable its devices lose
//! their labels. Until that moment the removal can be called off, and all copies are freed.
//!
//! Before the first piece (start.rs) the vdev takes no new blocks, and all intent logs have ended:
//! a block of a log may be written at any moment, so also after it was copied.
//!
//! What is copied is not verified, as the blocks in it are not known: all sides of a mirror are
//! read,
//! and must agree (`vdev::VdevTree::read_raw`). If not, the removal is called off: a scrub can tell
//! which side is right, and then the removal can be asked for again.
//!
//! Locks: `Removals` (`removals.rs`) has one lock, under which nothing else is taken. Only the sync
//! thread changes the removal that runs.

mod copy;
mod end;
mod mapping;
mod start;

pub(super) use mapping::OBSOLETE;
pub(super) use start::check_layout;

use super::LivePool;
use super::labels;
use super::shared::Shared;
use crate::error::Result;
use crate::refusal::NotRunning;
use ondisk::indirect::RemovalState;
use std::time::Duration;

/// How long is waited before it is looked whether the pool has stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Shared {
    /// A txg is durable: devices that left in it lose their labels.
    pub(super) fn clear_gone(&self) {
        let gone = self.removals.synced();
        let pool = self.config.lock().root.guid;
        for (guid, device) in gone {
            labels::clear_leaf(&device, pool, guid);
        }
    }
}

impl LivePool {
    /// The removal of a vdev with data that runs.
    #[must_use]
    pub fn removing(&self) -> Option<RemovalState> {
        self.shared.removals.running().map(|running| running.record)
    }

    /// Calls the removal off that runs: the vdev is used as before.
    ///
    /// # Errors
    /// When none runs.
    pub fn cancel_removal(&self) -> Result<()> {
        if self.shared.removals.running().is_none() {
            return Err(self.shared.refused(NotRunning::Removal));
        }
        self.shared.run_keeping_datasets(|cx| cx.undo_removal())?;
        self.shared.resume_works()
    }

    /// Waits until no removal runs, and no longer than this; whether none does.
    ///
    /// # Errors
    /// Why the last one was called off by itself; the pool has stopped.
    pub fn wait_for_removal(&self, patience: Duration) -> Result<bool> {
        let removals = &self.shared.removals;
        let deadline = self.rt().now() + patience;
        let mut state = removals.state.lock();
        while state.is_waited_for && self.rt().now() < deadline {
            if let Some(why) = self.suspended() {
                drop(state);
                return Err(self.shared.stopped(&why));
            }
            let next = (self.rt().now() + POLL_INTERVAL).min(deadline);
            removals.changed.wait_until(&mut state, next);
        }
        match (&state.failure, state.is_waited_for) {
            (_, true) => Ok(false),
            (Some(why), false) => Err(self.shared.failed("removing a device", why.as_str())),
            (None, false) => Ok(true),
        }
    }
}
