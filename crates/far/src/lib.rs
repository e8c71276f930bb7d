//! Leaves on other machines.
//!
//! A name that begins with `nbd://` or `nbd+unix://` is an export of an NBD server, one with
//! `dir://`, `s3://`, `gs://` or `az://` a disk in a store of objects, and each is a leaf as a disk
//! of this machine is one.
//! [`AnyDevices`] makes devices of all names, near and far; nothing above asks where a leaf is but
//! through [`is_far`].
//!
//! `name` reads names; `nbd` is the client, whose theory stands at its head; [`mod@log`] is the
//! disk in a store, with its theory, over the stores of [`store`], and [`disk`] has it by its name;
//! `lock` lets one program of this machine have a leaf for writing, as files and disks do it by
//! locks of the system. Between machines NBD has no such lock: the host's number in the pool's
//! labels is what keeps them apart, as with disks that two machines reach. A disk in a store has
//! one writer anywhere.
//!
//! **Invariant:** no secret is part of a name, and a name is all that labels and messages have of a
//! server.
#![forbid(unsafe_code)]

pub mod disk;
mod lock;
pub mod log;
mod money;
mod name;
mod nbd;
pub mod price;
mod source;
pub mod store;

pub use lock::file as lock_file;
pub use name::{Name, NameError, is_bucket, is_far};

pub use source::{AnyDevices, why_missing};

/// The decoders alone, for hostile bytes.
pub mod decoders {
    /// The hash that headers of objects have, for bytes that are to have a right one.
    #[must_use]
    pub fn hash(bytes: &[u8]) -> [u8; 32] {
        *blake3::hash(bytes).as_bytes()
    }

    /// A whole conversation: what a server that sends these bytes makes of a client that wants to
    /// read and to write; the bytes that the client sent.
    #[must_use]
    pub fn conversation(bytes: &[u8]) -> usize {
        crate::nbd::conversation(bytes)
    }
}
