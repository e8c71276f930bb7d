//! A client of the server.

use control::Caller;
use engine::LivePool;
use imported::Listed;
use std::sync::Arc;

/// A client that has a verb run; its environment are those variables of [`super::ENVIRONMENT`] that
/// it has.
pub type Client = Caller<Held>;

/// What the server has for it.
pub struct Held {
    /// The pool that is held.
    pub pool: Arc<LivePool>,
    /// What is mounted of it.
    pub mounts: Arc<mount::Mounts>,
    /// All is mounted that the properties say, also what is made from now on.
    pub mounts_all: bool,
    /// How the pool that is held stands in the list of known pools.
    pub listed: Arc<Listed>,
}
