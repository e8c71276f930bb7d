//! Expanding a raidz vdev: a device more, and everything is spread over all of them.
//!
//! # Theory
//!
//! ```text
//!         attach             a step in each txg               nothing is left
//!  in use ------> expanding -------------------> ... ---------------------------> as wide as it is
//!                     |                 ^                                          and as large
//!                     '---- waits ------'   while a device is away or lacks something
//! ```
//!
//! How sectors move is the vdev's matter (`vdev::VdevTree::reflow_step`, theory in its
//! `flow.rs`). Here is what makes a step a part of a txg:
//!
//! ```text
//! attach   the configuration has the device and says that the vdev expands, one task  (start.rs)
//! copy     a step, not under the gate: blocks are read and written meanwhile          (step.rs)
//! settle   bytes that were copied go into the vdev's table, under the gate
//! prepare  after all writes of the txg are answered: the uberblock says how far it is, if no
//!          device of the vdev lacks anything; otherwise the step is given up
//! commit   the uberblock is durable: readers look at the new places
//! end      a txg later than the last step: the configuration says from which txg on blocks are
//!          wider, and how large the vdev is                                           (end.rs)
//! ```
//!
//! A crash leaves the last uberblock, and with it all that was copied before; a step of which no
//! uberblock tells is done again. So an expansion goes on where it was when the pool is opened,
//! here or in OpenZFS. It cannot be called off.
//!
//! Blocks are born with the old width until the end, and two txgs longer, for these may be under
//! way by then. Space that was not there before is used from the txg on that comes after the last,
//! as when devices have grown (`expand.rs`). Then all is scrubbed, because nothing has verified
//! what was copied.
//!
//! The offset of the uberblock is that of one vdev, so one is expanded at a time. A checkpoint
//! would have another offset, so there is none meanwhile. Work on free space (`work`) rests on the
//! vdev, where it is not known what is free on a device.
//!
//! Locks: `Reflows` (`reflows.rs`) has one lock, under which nothing else is taken. Only the sync
//! thread changes the expansion that runs.

mod end;
mod start;
mod step;

use super::LivePool;
use super::shared::Shared;
use super::tunables::Tunable;
use crate::error::Result;
use ondisk::expand::Expansion;
use std::time::Duration;

/// What is said of one that waits because a tunable says so.
const HELD: &str =
    "zinc_raidz_expand_suspend_progress or raidz_expand_max_reflow_bytes holds it up";

/// How long is waited before it is looked whether the pool has stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Shared {
    /// Something of an expansion is copied in the next txg.
    pub(super) fn is_reflow_running(&self) -> bool {
        self.reflows.runnable().is_some_and(|now| {
            self.reader.vdevs().can_reflow(now.id) && !self.is_reflow_held(&now.record)
        })
    }

    /// It waits because a tunable says so.
    fn is_reflow_held(&self, record: &Expansion) -> bool {
        let most = self.tunables.get(Tunable::ReflowMax);
        let is_suspended = self.tunables.get(Tunable::ReflowSuspend) != 0;
        is_suspended || most != 0 && record.bytes_copied >= most
    }
}

impl LivePool {
    /// The number of the vdev that is being expanded, and how far that is.
    #[must_use]
    pub fn expanding(&self) -> Option<(u64, Expansion)> {
        self.shared.reflows.running().map(|now| (u64::from(now.id), now.record))
    }

    /// An expansion goes on by itself, or has just ended.
    #[must_use]
    pub fn is_expanding(&self) -> bool {
        let (is_waited_for, runs) = {
            let state = self.shared.reflows.state.lock();
            (state.is_waited_for, state.running.is_some())
        };
        let is_resumed = || !runs || self.shared.is_reflow_running();
        is_waited_for && self.suspended().is_none() && is_resumed()
    }

    /// Why an expansion that runs does not go on.
    #[must_use]
    pub fn why_expansion_waits(&self) -> Option<String> {
        let (now, stands) = {
            let state = self.shared.reflows.state.lock();
            (state.running?, state.stands.clone())
        };
        let obstacle = || {
            let obstacle = self.shared.reader.vdevs().reflow_obstacle(now.id);
            obstacle.map(|obstacle| obstacle.to_string())
        };
        let held = || self.shared.is_reflow_held(&now.record).then(|| HELD.to_owned());
        stands.or_else(obstacle).or_else(held)
    }

    /// Waits until no expansion runs, and no longer than this; whether none does.
    ///
    /// # Errors
    /// The pool has stopped.
    pub fn wait_for_expansion(&self, patience: Duration) -> Result<bool> {
        let reflows = &self.shared.reflows;
        let deadline = self.rt().now() + patience;
        let mut state = reflows.state.lock();
        while state.is_waited_for && self.rt().now() < deadline {
            if let Some(why) = self.suspended() {
                drop(state);
                return Err(self.shared.stopped(&why));
            }
            let next = (self.rt().now() + POLL_INTERVAL).min(deadline);
            reflows.changed.wait_until(&mut state, next);
        }
        Ok(!state.is_waited_for)
    }
}
