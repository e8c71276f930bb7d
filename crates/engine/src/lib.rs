//! The façade: everything a front end may use.
//!
//! A [`Pool`] is opened by name or guid from files and devices; its [`Dataset`]s are found by
//! name, and opened as a [`Filesystem`] or a [`Volume`]. The floors below are re-exported for
//! tools that look inside a pool; a front end names no other crate of this project.
#![forbid(unsafe_code)]

pub mod inventory;
pub mod replay;

pub use {check, codec, device, dmu, dsl, ondisk, pool, rt, vdev, zil, zio, zpl};

pub use dsl::{Dataset, Dir, Dsl};
pub use pool::live::{self, LivePool};
pub use pool::{Candidate, OpenOptions, Pool, SearchOptions};
pub use zpl::{Filesystem, Node, Volume};
