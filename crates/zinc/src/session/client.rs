//! A client of the server.

use control::Caller;
use engine::LivePool;
use imported::Listed;
use std::sync::Arc;

/// A client that has a verb run; its environment are those variables of [`super::ENVIRONMENT`] that
/// it has.
pub type Client = Caller<Held>;

/// The server's objects for it.
pub struct Held {
    /// The pool that is held.
    pub pool: Arc<LivePool>,
    /// The mounts of it.
    pub mounts: Arc<mount::Mounts>,
    /// All is mounted that the properties say, also what is made from now on.
    pub mounts_all: bool,
    /// The entry of the held pool in the list of known pools.
    pub listed: Arc<Listed>,
}
