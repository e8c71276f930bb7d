//! An NBD server: byte ranges that other programs use as disks.
//!
//! # Theory
//!
//! A client connects, both agree on what is exported and how replies look (*negotiation*), and from
//! then on the client sends requests with a cookie of its own, which are answered in any order
//! (*transmission*):
//!
//! ```text
//! server  ->  magic, flags                                       |
//! client  ->  flags                                              | negotiation:
//! client  ->  option (list, info, structured replies, ...)       | one thread, in order,
//! server  ->  replies to it, the last an acknowledgement         | within a deadline
//!             ...                                                |
//! client  ->  go NAME                                            |
//! client  ->  read 4096 at 0, cookie 7                           | transmission:
//! client  ->  write 512 at 8192, cookie 8, data                  | up to 16 requests
//! server  ->  done, cookie 8                                     | of a connection
//! server  ->  data, cookie 7                                     | at a time
//! ```
//!
//! `nbdwire` has the numbers, the decoding of requests and the carrying of bytes, `options` the
//! decoding of options; `reply` lays out replies; `negotiation` and `transmission` are the two
//! phases; `server` listens and stops. `export` defines an export. `docs/format/nbd.md` lists the
//! parts of the protocol that are served.
//!
//! # Threads
//!
//! A connection has one thread to begin with. Of the threads of a connection one at a time reads
//! requests (the *leader*). When it has one, another becomes the leader, and is started first if
//! there is none; so a request is carried out and answered by the thread that read it, and none
//! waits for one that is slow. Why: `docs/decisions/0024-nbd.md`.
//!
//! # Bounds
//!
//! At most [`limits::CONNECTIONS`] connections, each with a deadline for its negotiation;
//! [`limits::THREADS`] threads for each and [`limits::EXTRA_THREADS`] beyond the first for all
//! together; a buffer of [`limits::PIECE`] bytes for each thread. Longer reads and writes go in
//! pieces, so that the length a client claims costs nothing. A client that does not take its
//! answers for [`limits::PATIENCE`] is hung up.
//!
//! **Invariant:** whatever bytes come in, they cost bounded memory and one connection; it knows
//! nothing of storage but [`Export`].
#![forbid(unsafe_code)]

mod export;
mod memory;
mod negotiation;
mod options;
mod reply;
mod server;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;
mod transmission;
mod turns;
mod uri;

pub use export::{Errno, Export, Extent, Facts, RequestError, Source, Status};
pub use nbdwire::{ServerTls, TlsError};
pub use server::{Listener, Server};
pub use uri::uri;

/// Bounds of what clients can make a server use.
pub mod limits {
    use std::time::Duration;

    /// Connections open at once.
    pub const CONNECTIONS: usize = 256;
    /// Threads of a connection, which is as many requests as it has carried out at a time.
    pub const THREADS: usize = 16;
    /// Threads beyond the first of each connection, of all connections together.
    pub const EXTRA_THREADS: usize = 256;
    /// Bytes of a buffer: larger reads and writes are done in pieces of this size.
    pub const PIECE: usize = 1 << 20;
    /// Bytes of one request's data, at most.
    pub const PAYLOAD: u32 = 32 << 20;
    /// How long a connection that has just come in keeps its place, whatever comes next.
    pub const SPARED: Duration = Duration::from_millis(20);
    /// How long a negotiation may take.
    pub const NEGOTIATION: Duration = Duration::from_secs(30);
    /// How long a client may take to take something of an answer.
    pub const PATIENCE: Duration = Duration::from_secs(30);
    /// How long requests that are being carried out may take when the server is shutting down.
    pub const GRACE: Duration = Duration::from_secs(5);
    /// How long a thread that is not needed waits to be.
    pub const IDLE: Duration = Duration::from_secs(10);
}

/// The decoders alone, for hostile bytes.
pub mod decoders {
    pub use crate::options::{Choice, Contexts, choice, contexts};
    pub use nbdwire::{Command, Request};

    /// A whole conversation: what a client with these bytes makes a server do, with an export in
    /// memory; what it is answered.
    #[must_use]
    pub fn conversation(bytes: &[u8]) -> Vec<u8> {
        crate::server::conversation(bytes)
    }
}
