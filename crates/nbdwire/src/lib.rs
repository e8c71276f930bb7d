//! The NBD protocol as both ends speak it: its numbers, requests, headers of replies, and the
//! carrying of bytes.
//!
//! The server (`nbd`) and the client (`far`) are made of it. How each end acts on what it receives
//! is its own; `docs/format/nbd.md` has the protocol.
//!
//! **Invariant:** a decoder is a pure function of bytes, and allocates nothing.
#![forbid(unsafe_code)]

mod protocol;
mod tls;
mod wire;

pub use protocol::{
    CHUNK_MAGIC, Chunk, Command, EXTENDED_CHUNK_MAGIC, FIXED_NEWSTYLE, Fields, HANDSHAKE, MAGIC,
    NO_ZEROES, OLDSTYLE_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionReply, Reply, Request,
    SIMPLE_REPLY_MAGIC, answer, chunk, flag, info, option, transmission,
};
pub use tls::{ClientTls, ServerTls, TlsError, TlsLine};
pub use wire::{Connection, Input, prepare_tcp, prepare_unix, send, send_parts};
