//! Leaves on other machines.
//!
//! A name that begins with `nbd://` or `nbd+unix://` is an export of an NBD server, and a leaf as a
//! disk of this machine is one. [`AnyDevices`] makes devices of all names, near and far; nothing
//! above asks where a leaf is but through [`is_far`].
//!
//! `name` reads names; `nbd` is the client, whose theory stands at its head; `lock` lets one
//! program of this machine have a leaf for writing, as files and disks do it by locks of the
//! system. Between machines there is no such lock: the host's number in the pool's labels is what
//! keeps them apart, as with disks that two machines reach.
//!
//! **Invariant:** no secret is part of a name, and a name is all that labels and messages have of a
//! server.
#![forbid(unsafe_code)]

mod lock;
mod name;
mod nbd;
mod source;

pub use lock::file as lock_file;
pub use name::{Name, NameError, is_far};

pub use source::AnyDevices;

/// The decoders alone, for hostile bytes.
pub mod decoders {
    /// A whole conversation: what a server that sends these bytes makes of a client that wants to
    /// read and to write; the bytes that the client sent.
    #[must_use]
    pub fn conversation(bytes: &[u8]) -> usize {
        crate::nbd::conversation(bytes)
    }
}
