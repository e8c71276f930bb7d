//! The queue in front of each leaf: which request goes to the device next, and how many at once.
//!
//! # Theory
//!
//! A device that has everything at once decides by itself what waits, and it does not know that a
//! reader is waiting while a txg is not. So requests wait here, by class, and the device gets only
//! this many of each class as its limits say:
//!
//! ```text
//! submit --> waiting, one line per class --admit--> active, at the device --> done
//!                     \-- neighbours join --/            |
//!                ^--------------- refill ----------------/
//! ```
//!
//! *Admission* (`schedule`). Every class has a minimum and a maximum of active requests. First the
//! classes below their minimum are served, in turn; then, in the order of [`IoClass`], those below
//! their maximum; and never more at once than `zfs_vdev_max_active`. The maximum of asynchronous
//! writes grows with the pool's dirty data, so that a pool with little to do leaves its devices to
//! readers, and has them at full speed before it has to slow writers down. Synchronous reads may be
//! more than their class's maximum at a device without moving parts while nothing else is there or
//! waits (`zinc_vdev_readers_alone_max`), and so may synchronous writes
//! (`zinc_vdev_writers_alone_max`).
//!
//! *Order* (`line`). Requests that a thread waits for go first come, first served. The others go by
//! offset, upwards from the last one, within classes of half a second of age, so that none waits
//! for ever.
//!
//! *Aggregation*. A write that is admitted takes with it the waiting writes of its class that lie
//! next to it, up to the aggregation limit, and counts as one. (Not what goes in turn: there each
//! is waited for.) Should the device refuse the whole, each is tried again alone. Reads are merged
//! before they come here (`gather`), where their buffers are.
//!
//! *Which thread does the work*. There is no thread here. The submitter sends what is admitted; the
//! thread that brings a result, a thread of the device, sends what the freed place admits before it
//! tells the owner. No lock is held over a submission, and a submission within a submission only
//! leaves a note for the outer one (`drive`), so nothing recurses, however the device answers.
//!
//! *Never stuck*: a limit is at least 1, so something waits only while something is active, and
//! whatever ends looks for what to send next.
//!
//! A queue with [`QueueLimits::unbounded`] passes everything on as it comes, in the batches it
//! comes in, and only counts. That is for pools that are read as a whole.

mod class;
mod drive;
mod leaf;
mod limits;
mod line;
mod pace;
mod schedule;
mod stats;
#[cfg(test)]
mod tests;

pub use class::{CLASSES, IoClass};
pub(crate) use leaf::{LeafQueue, WriteCall};
pub use limits::{Pressure, QueueLimit, QueueLimits};
pub(crate) use pace::{LATE_STEPS, Pace};
pub use stats::{ClassCounts, LeafStats};
