//! The end of a server whose pool has the property `failmode=panic`, when its devices fail.

use super::End;
use crate::held::Held;
use engine::live::FailMode;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Starts the thread. It ends when the pool has stopped, or was let go.
pub fn watch(held: &Arc<Held>, ends: Sender<End>) -> std::io::Result<()> {
    let Some(stop) = held.pool().map(|pool| pool.stop_waiter()) else { return Ok(()) };
    let held = Arc::downgrade(held);
    let watch = move || {
        let why = stop.wait();
        // A pool that was let go has stopped too.
        let Some(pool) = held.upgrade().and_then(|held| held.pool()) else { return };
        if pool.fail_mode() == FailMode::Panic {
            let _ = ends.send(End::Panicked(why.to_string()));
        }
    };
    std::thread::Builder::new().name("failmode".to_owned()).spawn(watch).map(drop)
}
