//! Hot spares that a server takes by itself when a device of its pool fails.
//!
//! OpenZFS leaves this to a daemon of its own, zed. Here it is a thread of the process that holds
//! the pool: commands that open a pool for a moment take no spares, as they cannot tell a device
//! that failed from one that comes a second later.

use crate::held::Held;
use control::Presence;
use engine::devices::AnyDevices;
use engine::live::SpareTaken;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the devices are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long spares that did not fit are left alone, when nothing has changed.
const AGAIN: Duration = Duration::from_mins(1);

/// Starts the thread. It ends when the pool is gone.
pub fn watch(held: &Arc<Held>) -> std::io::Result<()> {
    let held = Arc::downgrade(held);
    let watch = move || run(&held);
    std::thread::Builder::new().name("spares".to_owned()).spawn(watch).map(drop)
}

fn run(held: &Weak<Held>) {
    let mut tried: Option<(Vec<u64>, Instant)> = None;
    loop {
        std::thread::sleep(LOOK);
        let Some(held) = held.upgrade() else { return };
        let Some(pool) = held.pool() else { return };
        let failed = pool.leaves_without_spare();
        drop(pool);
        let is_same =
            |(before, at): &(Vec<u64>, Instant)| *before == failed && at.elapsed() < AGAIN;
        if failed.is_empty() || tried.as_ref().is_some_and(is_same) {
            continue;
        }
        tried = Some((failed, Instant::now()));
        take(&held);
    }
}

fn take(held: &Held) {
    let presence = Arc::new(Presence::default());
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    let shown = "taking hot spares";
    let done = held.work(shown, pid, &presence, |pool| {
        let name_of = |guid: u64| {
            let seen = pool.look().ok()?;
            let root = &seen.config().vdev_tree;
            root.find(guid).and_then(|v| v.path.clone())
        };
        let name = |guid| name_of(guid).unwrap_or_else(|| guid.to_string());
        // A pool that is being closed takes none; what fails is tried again.
        let taken = pool.take_spares(&AnyDevices::default()).unwrap_or_default();
        Ok(taken.iter().map(|SpareTaken { leaf, spare }| (name(*leaf), name(*spare))).collect())
    });
    let taken: Vec<(String, String)> = done.unwrap_or_default();
    for (leaf, spare) in taken {
        let pool = held.name();
        tracing::warn!(target: "zinc::pool", "{pool}: spare {spare} stands in for {leaf}");
    }
}
