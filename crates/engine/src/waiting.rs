//! Waits for the background activities of a pool: until they end, or the caller cancels the wait
//! ([`Progress::cancel`]). The work itself continues then.

use crate::Progress;
use crate::error::{Error, ErrorKind, Place, Result};
use pool::LeafWork;
use pool::live::LivePool;
use std::time::Duration;

/// How long is waited before it is looked whether that is still wanted.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often it is looked at what cannot be waited for.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until nothing of a discarded checkpoint is left. A txg that frees some of it is an item of
/// the progress, and what it frees are its bytes.
///
/// # Errors
/// The pool stops, or it was cancelled.
pub fn wait_for_discard(pool: &LivePool, progress: &Progress) -> Result<()> {
    let mut left = pool.bytes_to_discard();
    while pool.is_discarding() {
        progress.check()?;
        pool.sync()?;
        let now = pool.bytes_to_discard();
        progress.add(1, left.saturating_sub(now));
        left = now;
    }
    Ok(())
}

/// Waits until the removal of a device has ended.
///
/// # Errors
/// It failed, the pool stops, or it was cancelled.
pub fn wait_for_removal(pool: &LivePool, progress: &Progress) -> Result<()> {
    loop {
        progress.check()?;
        if pool.wait_for_removal(PATIENCE)? {
            return Ok(());
        }
    }
}

/// Waits until this work has ended on these devices, which are pairs of guid and name.
///
/// # Errors
/// It failed on the device that is the place of the error, or it was cancelled.
pub fn wait_for_work(
    pool: &LivePool,
    work: LeafWork,
    leaves: &[(u64, String)],
    progress: &Progress,
) -> Result<()> {
    let guids: Vec<u64> = leaves.iter().map(|(leaf, _)| *leaf).collect();
    loop {
        progress.check()?;
        match pool.wait_for_work(work, &guids, PATIENCE) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err((failed, why)) => {
                let name = leaves.iter().find(|(leaf, _)| *leaf == failed).map(|(_, name)| name);
                let name = name.cloned().unwrap_or_default();
                return Err(Error::new(ErrorKind::Device).at(Place::Device(name)).because(why));
            }
        }
    }
}

/// Waits until no expansion of a raidz vdev, scrub or resilver runs.
///
/// # Errors
/// The last scrub or resilver failed, or it was cancelled.
pub fn wait_for_scans(pool: &LivePool, progress: &Progress) -> Result<()> {
    while pool.is_expanding() || pool.is_scanning() {
        progress.check()?;
        pool.rt().sleep(LOOK);
    }
    Ok(pool.wait_for_scan()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewPool;

    #[test]
    fn what_is_over_is_not_waited_for_and_what_is_not_wanted_neither() {
        let pool = NewPool::new("tank").memory(128 << 20).create().expect("pool");
        let progress = Progress::new();
        pool.checkpoint().expect("checkpoint");
        pool.discard_checkpoint().expect("discard");
        wait_for_discard(&pool, &progress).expect("discarded");
        assert!(!pool.is_discarding());
        wait_for_removal(&pool, &progress).expect("no removal");
        pool.scrub().expect("scrub");
        wait_for_scans(&pool, &progress).expect("scrubbed");
        assert!(!pool.is_scanning());
        let leaf = pool.look().expect("look").config().vdev_tree.children[0].guid;
        let leaves = [(leaf, "memory".to_owned())];
        pool.start_work(leaf, LeafWork::Initialize, 0).expect("start");
        wait_for_work(&pool, LeafWork::Initialize, &leaves, &progress).expect("initialized");

        progress.cancel();
        let is_cancelled =
            |done: Result<()>| done.is_err_and(|e| *e.kind() == ErrorKind::Cancelled);
        assert!(is_cancelled(wait_for_removal(&pool, &progress)));
        assert!(is_cancelled(wait_for_work(&pool, LeafWork::Trim, &leaves, &progress)));
    }
}
