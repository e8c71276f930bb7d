//! The state of a pool: what `zpool status` and `zpool list -v` report.
//!
//! # Theory
//!
//! [`VdevView`] is the one model of the tree both reports are made of: every vdev with its printed
//! name, state, errors and space, sorted into *sections*: the normal vdevs, then `dedup`,
//! `special`, `logs`, then cache devices and spares. [`Status`] adds what is wrong with the pool
//! (the first of a list of conditions that holds, worst first) and what it is doing.
//!
//! Both reports turn into text with `to_text`, to the letter what OpenZFS prints, because scripts
//! parse it. Error counts are those of this process: blocks read since the pool was opened.

mod list;
mod reason;
mod report;
mod view;
mod works;

pub use list::{ListRow, VdevList};
pub use reason::Condition;
pub use report::{CheckpointNote, Status};
pub(crate) use view::Members;
pub use view::{Section, VdevTreeView, VdevView};
pub use works::WorkNotes;
