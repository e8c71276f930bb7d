//! A leaf that an NBD server has.
//!
//! # Theory
//!
//! NBD knows no session: a client connects, agrees on an export, sends requests and gets replies in
//! any order; a connection that breaks has answered some of them. What the device promises above
//! this is made here:
//!
//! ```text
//!                 all is sent again                    a connection breaks
//!   connected <---------------------- again <--------+   (requests that were not
//!       |                               |            |    answered wait again)
//!       |          breaks               | breaks     | connects, is the same
//!       +-----------------------------> down --------+
//!                                        |
//!                                        | no answer for the name's timeout, or what
//!                                        v answers is something else
//!                                       dead: every request fails; opened anew it is another
//! ```
//!
//! - *Requests* are answered once, however often they were sent: a read and a write may be done
//!   twice. Until a write is answered nothing that overlaps it is under way (the rule of
//!   [`device::WriteDevice`]), so their order does not matter.
//! - *What was acknowledged and not flushed* is kept (`kept`), and sent again before anything else
//!   when a server comes back, because it may have lost it. At most [`KEPT_MAX`] bytes: from half
//!   of that on the client flushes by itself.
//! - *A flush* waits for what was acknowledged before it. The replies to it and to writes may come
//!   by different connections; several are used only where a flush is said to be for all.
//!   One that fails is never followed by one that succeeds, as on a file.
//! - *The same*: size, flags and block sizes are what they were, and what was flushed last is there
//!   (`kept`). Anything else is refused for good.
//! - *Silence*: a server that has requests and says nothing for the name's timeout is dead,
//!   whatever the connection thinks; so is one that cannot be reached for that long while a caller
//!   waits, and one that breaks connection after connection and leaves a request unanswered for
//!   that long. Between connections that bring no answer there is a pause, which grows.
//!
//! # Threads
//!
//! Of each connection one thread sends (`link::send_jobs`) and one receives (`link::receive`). One
//! calls callbacks, which may wait for this device: a read inside one is answered by the receiving
//! thread. The *keeper* (`keeper`) waits for trouble, and connects again.
//!
//! One lock, [`core::State`], never held over a wait for the network. A buffer's own lock is held
//! while its bytes come in; only threads that receive take it, and nothing while they hold it.

mod core;
mod dev;
mod link;
mod memory;
mod negotiate;
mod reconnect;
mod reply;
mod request;
mod unflushed;

pub(crate) use dev::{claim, open};

/// Bytes that are kept for the case that a server dies, at most.
const KEPT_MAX: u64 = 256 << 20;
/// Connections to a server that allows several.
const LINKS: usize = 4;
/// The same of a device that is only read.
const LINKS_TO_READ: usize = 2;

/// What a client that wants to read and to write makes of a server with these bytes; the bytes that
/// it sent.
pub(crate) fn conversation(bytes: &[u8]) -> usize {
    link::conversation(bytes)
}
