//! The thread that repairs what readers met (`read_repair.rs`), as the pool's shared state has it.

use parking_lot::Mutex;
use rt::{Condvar, Rt, Task};
use std::sync::atomic::AtomicBool;

/// The thread, and how far it is.
pub(super) struct Repairs {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    /// A txg of this import is durable.
    pub(super) may_begin: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    /// The thread, when one ever ran.
    pub(super) task: Option<Task<()>>,
    pub(super) is_running: bool,
    /// Batches that were begun, and those that are over.
    pub(super) begun: u64,
    pub(super) over: u64,
    /// No thread is started any more.
    pub(super) is_closed: bool,
}

impl Repairs {
    pub(super) fn new(rt: &Rt) -> Self {
        Self { state: Mutex::default(), changed: rt.condvar(), may_begin: AtomicBool::new(false) }
    }
}
