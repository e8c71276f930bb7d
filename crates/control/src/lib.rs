//! The control socket: how other processes reach the one that holds a pool.
//!
//! # Theory
//!
//! A pool has one writer. The process that serves it listens on a Unix socket; a process
//! that wants something of the pool connects, and both speak lines of JSON:
//!
//! ```text
//! client  ->  {"id": 1, "do": "txgs", "count": 10}
//! server  ->  {"id": 1, "ok": [...]}           or  {"id": 1, "error": {"what": "...", ...}}
//! ```
//!
//! `protocol` has the lines, as pure functions; `wire` carries them, and open files beside them, so
//! that a command which is run by the server reads and writes the files of its caller's terminal;
//! `place` makes the socket and takes over the name of one that was left behind; `server` answers,
//! one thread for each connection, up to a limit; `client` sends requests. `silent` remembers which
//! servers did not answer. [`held`] lets go what is held for clients while their commands run.
//! `presence` tracks whether a client whose command runs is still there, [`stream`] and [`sink`]
//! write to its files and wait no longer for their readers than for it, and [`input`] reads its
//! input, [`feed`] the input requested of another user's client, and what that one is shown is
//! [`Captured`]. A [`CommandLine`] is what a client has run, and `run` how. `http` has pages for
//! monitoring systems and browsers. [`log`] writes the log of a server, and [`hook`] runs a command
//! of the administrator's for events. [`again`] starts this program once more, and [`keeper`]
//! supervises processes. Why it is like this: `docs/decisions/0012-control-socket.md`.
//!
//! **Invariant:** whatever bytes come in, they cost bounded memory and one connection; what a
//! request means is the handler's business.
#![forbid(unsafe_code)]

pub mod again;
mod caller;
mod captured;
mod client;
mod command_line;
pub mod feed;
pub mod held;
pub mod hook;
pub mod http;
pub mod input;
pub mod keeper;
pub mod log;
mod others;
mod place;
mod presence;
pub mod protocol;
mod run;
mod server;
mod silent;
pub mod sink;
mod socket_file;
pub mod stream;
mod wire;

pub use caller::Caller;
pub use captured::Captured;
pub use client::{CallError, Client};
pub use command_line::CommandLine;
pub use others::{ForeignServer, foreign_servers};
pub use place::{Endpoint, PlaceError, sockets};
pub use presence::{ClientWatch, Presence};
pub use protocol::{Refusal, Request};
pub use run::RunOutcome;
pub use server::{Handler, Peer, Server};
pub use silent::{SilentServer, SilentServers};
pub use socket_file::SocketFile;
