//! The end of a server whose pool has the property `failmode=panic`, when its devices fail.

use crate::Held;
use engine::live::FailMode;
use std::sync::Arc;

/// Starts the thread, which calls `failed` with the reason. It ends when the pool has stopped, or
/// was let go.
///
/// # Errors
/// The thread cannot be started.
pub fn watch(
    held: &Arc<Held>,
    failed: impl FnOnce(String) + Send + 'static,
) -> std::io::Result<()> {
    let Some(stop) = held.pool().map(|pool| pool.stop_waiter()) else { return Ok(()) };
    let held = Arc::downgrade(held);
    let watch = move || {
        let why = stop.wait();
        // A pool that was let go has stopped too.
        let Some(pool) = held.upgrade().and_then(|held| held.pool()) else { return };
        if pool.fail_mode() == FailMode::Panic {
            failed(why.to_string());
        }
    };
    std::thread::Builder::new().name("failmode".to_owned()).spawn(watch).map(drop)
}
