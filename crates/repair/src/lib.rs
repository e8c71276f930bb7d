//! Pools that OpenZFS would not write to, made right again.
//!
//! # Theory
//!
//! ```text
//! overlays   stand before the devices: what is written stays in memory
//! rounds     check  ->  what is wrong and can be mended  ->  the pool is opened for writing, over
//!            the overlays, mended and closed  ->  check again, until nothing more can be mended
//! plan       what was done, and what the last check still finds
//! undo       what stands on the devices where something is to be written, in a file, durable
//! apply      the writes and flushes of the overlays, in their order, to the devices
//! ```
//!
//! So a plan is not a forecast: it is the repair, and its result was checked. The writes are those
//! of the pool's own engine, txg by txg, each with its uberblock last: killed anywhere, the pool is
//! as it was, or as one of these txgs made it.
//!
//! The truth is what the check's walk met. Space maps are made of the blocks that it met, so that
//! nothing in use is taken for the repair's own writes, whatever the maps had. More than one round
//! is needed because damage hides other damage: as long as a block cannot be read, the blocks below
//! it were not met, and space cannot be called leaked. And some of it decides other: what a sum is
//! made of comes before the sum.
//!
//! **Invariant: nothing is written to a device before the whole repair is in memory and its undo
//! file is durable.** Only [`Repair::apply`] and [`undo::put_back`] write.
#![forbid(unsafe_code)]

mod attempts;
mod clones;
mod deadlists;
mod dedup;
mod error;
mod fields;
mod files;
mod links;
mod obsolete;
mod overlay;
mod own_dirs;
mod plan;
mod rounds;
mod sets;
mod space;
mod sums;
mod tables;
mod trees;
pub mod undo;

pub use error::{Error, RepairRefusal, Result};
pub use plan::{Failure, Plan, Step};
pub use rounds::{Repair, RepairOptions, repair};
