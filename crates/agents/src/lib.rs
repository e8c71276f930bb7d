//! Automatic actions of a server for the pool that it holds: OpenZFS leaves these to a daemon of
//! its own, zed, and its agents.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`events`] | writes changes of state to the log, and runs the administrator's command |
//! | [`spares`] | runs [`engine::upkeep`]: hot spares, devices that are back; misses idle ones |
//! | [`panic`] | ends the server of a pool that has `failmode=panic` |
//!
//! Each is a thread or two of the process that holds the pool. None of them keeps the pool open:
//! they hold it for moments, and end when it was let go.
//!
//! **Invariant:** reaches the pool through the engine, and tells only the log.
#![forbid(unsafe_code)]

pub mod events;
pub mod panic;
pub mod spares;

/// The pool that a server holds, until it is let go.
pub type Held = control::held::Held<engine::LivePool>;
