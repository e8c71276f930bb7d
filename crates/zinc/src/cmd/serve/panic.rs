//! The end of a server whose pool has the property `failmode=panic`, when its devices fail.

use super::End;
use crate::held::Held;
use engine::live::FailMode;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often the pool is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Starts the thread. It ends when the pool is gone, or has stopped.
pub fn watch(held: &Arc<Held>, ends: Sender<End>) -> std::io::Result<()> {
    let held = Arc::downgrade(held);
    let watch = move || {
        loop {
            std::thread::sleep(LOOK);
            let Some(pool) = held.upgrade().and_then(|held| held.pool()) else { return };
            if let Some(why) = pool.suspended().filter(|_| !pool.is_waiting()) {
                if pool.fail_mode() == FailMode::Panic {
                    let _ = ends.send(End::Panicked(why.to_string()));
                }
                return;
            }
        }
    };
    std::thread::Builder::new().name("failmode".to_owned()).spawn(watch).map(drop)
}
