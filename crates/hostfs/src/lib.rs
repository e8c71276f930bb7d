//! Files of this machine: trees that are made from a pool, trees that are copied into one, and
//! files of output ([`output`]).
//!
//! A pool may be hostile, and the copy may run as root. So nothing of a pool goes by a path, but
//! for the one that the user typed:
//!
//! - Directories are held open, and everything is made in one of them by a single name
//!   ([`Dir`]). A name with a slash, `.` and `..` are refused, and a symbolic link is never
//!   followed. One component at a time without links is what `openat2` with `RESOLVE_BENEATH`
//!   and `RESOLVE_NO_SYMLINKS` promises, and it needs no new kernel.
//! - Attributes are set by descriptor, on what was made here and nothing else:
//!   a pipe, socket or device is opened again without following links, and is left alone when
//!   it is not what was made.
//! - A file has no name until it is whole ([`NewFile`]). Temporary names never share a folder
//!   with names that come from a pool.
//! - A directory is closed to others until all that is in it is there ([`Tree`]).
//!
//! With all that, a [`Dir`] is where the engine copies trees of a pool to ([`engine::extract`]),
//! and all that can still be read of a damaged one ([`engine::rescue`]; [`rescue`] has the log).
//! [`ingest`] copies trees and archives of this machine into a pool. [`users`] and [`zone`] read
//! what the machine knows of its users and of its time.
//!
//! **Invariant:** nothing is made, changed or removed but below a directory that is held open, and
//! through no symbolic link.
#![forbid(unsafe_code)]

mod attributes;
pub mod compatibility;
mod dir;
pub mod host;
pub mod ingest;
pub mod keys;
pub mod names;
mod new_file;
pub mod notify;
pub mod options;
pub mod output;
pub mod prompt;
pub mod rescue;
pub mod scripts;
mod sink;
mod staging;
mod tree;
pub mod users;
pub mod zone;

pub use dir::{Dir, FileInfo, Identity, link_open, path_of};
pub use new_file::NewFile;
pub use staging::{named, nameless, random_name};
pub use tree::Tree;

/// Whether this process may do what only root may.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
