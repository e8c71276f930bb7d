//! Exports that other programs use as disks (NBD): volumes of a pool, snapshots of them, and files
//! of this machine.
//!
//! | source | written | what it says of its blocks |
//! | --- | --- | --- |
//! | [`VolumeSource`] of a pool that is held | yes | data or hole; changed since a snapshot |
//! | of a snapshot, or of a pool on its devices | no | the same |
//! | [`FileSource`] | no | data or hole |
//!
//! A volume that is exported is in use: it is not destroyed, rolled back or made smaller meanwhile.
//!
//! **Invariant:** knows what is exported, and nothing of the protocol but the traits of `nbd`.
#![forbid(unsafe_code)]

mod extents;
mod file;
mod volume;

pub use file::FileSource;
pub use volume::VolumeSource;
