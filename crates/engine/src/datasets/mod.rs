//! Changes of datasets, with all rules of names, properties and order.
//!
//! # Theory
//!
//! A method of [`crate::LivePool`] is a single sync task without rules of its own. This module has
//! the rules above it: which names a request means, what a new dataset inherits from its parent,
//! how much a volume reserves, in which order a tree can be destroyed. An operation with options is
//! a value: it is made, perhaps shown to the user first (`check`, `plan`), and then run. A request
//! that breaks a rule by itself is an error before anything is changed; so is one that the state of
//! the pool forbids, as far as one sync task goes. Operations of several tasks (creating parents,
//! destroying a tree) stop at the first that fails, and name it ([`crate::Error::operand`]).

mod create;
mod destroy;
mod lineage;
mod names;
mod permissions;
mod reserve;
mod snapshots;
mod space;
mod upgrade;

pub use create::Create;
pub(crate) use create::make_missing_above as make_above;
pub use destroy::{Destroy, DestroyPlan};
pub use lineage::{MakeClone, NewerSnapshots, Rename, may_roll_back, promote, rollback};
pub use names::{heads, pool_of, split};
pub(crate) use names::{heads_of, snapshot_by_guid};
pub use permissions::{Holder, Permissions, permissions};
pub(crate) use reserve::{reserved, whole_volume};
pub use snapshots::{bookmark, check_tag, hold, release, snapshot};
pub use space::{DatasetSpace, spaces};
pub use upgrade::{Upgraded, upgrade};
