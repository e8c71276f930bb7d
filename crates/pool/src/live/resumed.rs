//! What the suspensions of a pool leave to those that come after them. See `suspend.rs`.

use ondisk::BlkPtr;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Resumed {
    /// What the txg that is synced has written so far is written once more before it is committed.
    pub(super) writes_again: AtomicBool,
    /// How often the pool was resumed, or was tried to be.
    pub(super) times: AtomicU64,
    /// The txg that was open then.
    pub(super) open_txg: AtomicU64,
    /// What the last uberblock points to that was begun to be written: it may be on devices,
    /// whatever they answered.
    pub(super) begun: Mutex<Option<BlkPtr>>,
}
