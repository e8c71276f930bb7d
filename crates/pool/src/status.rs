//! The state of a pool: the facts that `zpool status` and `zpool list -v` report.
//!
//! # Theory
//!
//! [`VdevView`] is the one model of the tree both reports are made of: every vdev with its printed
//! name, state, errors and space, sorted into *sections*: the normal vdevs, then `dedup`,
//! `special`, `logs`, then cache devices and spares. [`Status`] adds what is wrong with the pool
//! (the first of a list of conditions that holds, worst first) and what it is doing.
//!
//! The words are the front ends' business. Error counts begin with those that the program which
//! opens the pool has from before ([`crate::OpenOptions::errors`]).

mod condition;
mod summary;
mod view;
mod works;

pub use condition::Condition;
pub use summary::{CheckpointNote, ErrorScrubNote, ExpansionNote, ExpansionWait, Status};
pub(crate) use view::Members;
pub use view::{Remark, Section, VdevTreeView, VdevView, ViewState, WorkProgress};
