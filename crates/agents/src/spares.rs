//! What a server does by itself when a device of its pool fails: it takes a hot spare, and uses the
//! device again when it is back, as another file or disk too, or a new one in its place where
//! `autoreplace` says so. A file that is only given another name is followed, and what went away is
//! waited for a moment before a spare is taken. A thread beside it looks whether the spares that
//! wait and the cache devices are there.
//!
//! OpenZFS leaves this to a daemon of its own, zed. Here it is a thread of the process that holds
//! the pool: commands that open a pool for a moment take no spares, as they cannot tell a device
//! that failed from one that comes a second later.

use crate::{Held, replacing};
use control::Presence;
use engine::devices::AnyDevices;
use engine::live::{DeviceSearch, Missing, MovedDevices, NotUsed, Returned, SpareTaken};
use engine::{LivePool, Rt};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the devices are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long what did not help is left alone at first, when nothing has changed, and at most.
const SOON: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_mins(1);

/// Looking for files that were given other names takes at most one part in this number of the time.
const SHARE: u32 = 50;

/// How often spares that wait and cache devices are looked at.
const PROBE: Duration = Duration::from_secs(5);

/// Starts the threads. They end when the pool is gone.
///
/// # Errors
/// A thread cannot be started.
pub fn watch(held: &Arc<Held>) -> std::io::Result<()> {
    let Some(rt) = held.pool().map(|pool| pool.rt().clone()) else { return Ok(()) };
    let held = Arc::downgrade(held);
    let begin = |name: &str, run: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
    };
    let idle = Weak::clone(&held);
    begin("idle", Box::new(move || probe(&idle)))?;
    begin("spares", Box::new(move || run(&held, &rt)))
}

/// Looks whether what nothing reads is there. A device that hangs holds up this thread alone.
fn probe(held: &Weak<Held>) {
    let look = || held.upgrade().and_then(|held| held.pool());
    let mut since = PROBE;
    loop {
        std::thread::sleep(LOOK);
        // Not kept over the time that the probe takes.
        let Some(pool) = look() else { return };
        since += LOOK;
        if since < PROBE {
            continue;
        }
        since = Duration::ZERO;
        let mut idle = pool.idle_devices();
        drop(pool);
        idle.probe(&AnyDevices::default());
        let Some(pool) = look() else { return };
        pool.note_idle(&idle);
    }
}

/// The last attempt.
struct Attempt {
    leaves: Vec<u64>,
    with: Vec<u64>,
    at: Instant,
    /// The time until the next, when nothing changes.
    pause: Duration,
}

/// Leaves for which something was tried, with what, and when.
#[derive(Default)]
struct Tried(Option<Attempt>);

impl Tried {
    /// Whether to try again for these leaves with these devices; the attempt is recorded then. An
    /// attempt that did not help is repeated soon, and then less and less often. When no leaf is
    /// left, all is forgotten: the same may happen to the same leaf again.
    fn is_due(&mut self, leaves: Vec<u64>, with: Vec<u64>) -> bool {
        if leaves.is_empty() {
            self.0 = None;
            return false;
        }
        let before = self.0.as_ref().filter(|last| (&last.leaves, &last.with) == (&leaves, &with));
        if before.is_some_and(|last| last.at.elapsed() < last.pause) {
            return false;
        }
        let pause = before.map_or(SOON, |last| (last.pause * 2).min(AGAIN));
        self.0 = Some(Attempt { leaves, with, at: Instant::now(), pause });
        true
    }
}

fn run(held: &Weak<Held>, rt: &Rt) {
    let (mut used, mut spared) = (Tried::default(), Tried::default());
    let mut lookout = DeviceSearch::new(rt, Arc::new(AnyDevices::default()));
    let mut follower = Follower::default();
    loop {
        std::thread::sleep(LOOK);
        let Some(held) = held.upgrade() else { return };
        let Some(pool) = held.pool() else { return };
        pool.go_without_cut();
        let moved = pool.moved_devices();
        drop(pool);
        follower.follow(&held, &moved);
        let Some(pool) = held.pool() else { return };
        let (back, missing) = (pool.leaves_there_again(), pool.missing());
        let failed = pool.leaves_without_spare();
        let spares = spares(&pool, &failed);
        drop(pool);
        // One that is back needs no spare.
        if used.is_due(back, Vec::new()) {
            if use_again(&held) {
                // The same may happen to it again.
                used = Tried::default();
            }
        } else if !use_returned(&held, &mut lookout, &missing)
            && !lookout.is_expecting()
            && spared.is_due(failed, spares)
        {
            take(&held);
        }
    }
}

/// The spares that could replace the failed leaves.
fn spares(pool: &LivePool, failed: &[u64]) -> Vec<u64> {
    match failed.is_empty() {
        true => Vec::new(),
        false => pool.spares_left().unwrap_or_default().iter().map(|spare| spare.guid).collect(),
    }
}

/// The name of a leaf.
fn name_of(pool: &LivePool, guid: u64) -> String {
    let path = || {
        let seen = pool.look().ok()?;
        seen.config().vdev_tree.find(guid).and_then(|v| v.path.clone())
    };
    path().unwrap_or_else(|| guid.to_string())
}

fn work<T: Default>(held: &Held, shown: &str, work: impl FnOnce(&LivePool) -> T) -> T {
    let presence = Arc::new(Presence::default());
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    // A pool that is being closed does nothing more.
    held.work(shown, pid, &presence, |pool| Ok(work(pool))).unwrap_or_default()
}

/// Whether any could be used.
fn use_again(held: &Held) -> bool {
    let used = work(held, "using returned devices", |pool| {
        let used = pool.use_what_is_there_again(&AnyDevices::default());
        used.into_iter().map(|leaf| name_of(pool, leaf)).collect::<Vec<_>>()
    });
    for leaf in &used {
        tracing::warn!(target: "zinc::pool", "{}: {leaf} is back and used again", held.name());
    }
    !used.is_empty()
}

/// Follows files that are given other names while they are used.
#[derive(Default)]
struct Follower {
    not_before: Option<Instant>,
}

impl Follower {
    /// Looks for them, and notes where they are.
    fn follow(&mut self, held: &Held, moved: &MovedDevices) {
        let began = Instant::now();
        if moved.is_empty() || self.not_before.is_some_and(|at| began < at) {
            return;
        }
        let moved = moved.follow(&AnyDevices::default());
        self.not_before = Some(Instant::now() + began.elapsed() * SHARE);
        if moved.is_empty() {
            return;
        }
        work(held, "noting where devices are", |pool| {
            for (leaf, place) in &moved {
                let (leaf, place) = (name_of(pool, *leaf), place.display());
                tracing::warn!(target: "zinc::pool", "{}: {leaf} is now {place}", held.name());
            }
            // A pool that stops meanwhile reports that itself.
            let _ = pool.note_moved(moved);
        });
    }
}

/// Looks for the devices of leaves that are missing; whether one of them is used.
fn use_returned(held: &Held, lookout: &mut DeviceSearch, missing: &Missing) -> bool {
    let found = lookout.search(missing);
    if found.is_empty() {
        return false;
    }
    let became = work(held, "using returned devices", |pool| {
        let became = pool.use_returned(found, &AnyDevices::default());
        let named = |mut r: Returned| {
            let name = name_of(pool, r.leaf);
            let is_new = replacing::put_in_place(pool, &r).unwrap_or_else(|why| {
                r.refusal = Some(NotUsed::Failed(why));
                false
            });
            (name, r, is_new)
        };
        became.into_iter().map(named).collect::<Vec<_>>()
    });
    for (leaf, Returned { path, refusal, .. }, is_new) in &became {
        let (pool, path) = (held.name(), path.display());
        if *is_new {
            tracing::warn!(target: "zinc::pool", "{pool}: {leaf} is replaced by a new device");
            continue;
        }
        let Some(why) = refusal else {
            tracing::warn!(target: "zinc::pool", "{pool}: {leaf} is back and used again");
            continue;
        };
        let hint = match why {
            NotUsed::Unfit(_) => {
                format!("`zinc zpool replace {pool} DEVICE` uses it as a new device")
            }
            NotUsed::Failed(_) => "it is tried again".to_owned(),
            _ => format!("`zinc zpool online {pool} {path}` discards the changes that only it has"),
        };
        tracing::warn!(target: "zinc::pool", "{pool}: {path} is not used as {leaf}: {why}; {hint}");
    }
    let is_failure = |r: &&Returned| matches!(r.refusal, Some(NotUsed::Failed(_)));
    let all = || became.iter().map(|(_, r, _)| r);
    all().filter(is_failure).for_each(|r| lookout.try_again(&r.path));
    became.iter().any(|(_, r, is_new)| *is_new || r.refusal.is_none())
}

fn take(held: &Held) {
    let taken = work(held, "taking hot spares", |pool| {
        // A failed attempt is repeated.
        let taken = pool.take_spares(&AnyDevices::default()).unwrap_or_default();
        let names = |t: &SpareTaken| (name_of(pool, t.leaf), name_of(pool, t.spare));
        taken.iter().map(names).collect::<Vec<_>>()
    });
    for (leaf, spare) in taken {
        let pool = held.name();
        tracing::warn!(target: "zinc::pool", "{pool}: spare {spare} stands in for {leaf}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_help_is_left_alone_until_something_changes() {
        let mut tried = Tried::default();
        assert!(!tried.is_due(vec![], vec![9]));
        assert!(tried.is_due(vec![1], vec![9]));
        assert!(!tried.is_due(vec![1], vec![9]));
        // Another leaf, another spare.
        assert!(tried.is_due(vec![1, 2], vec![9]));
        assert!(tried.is_due(vec![1, 2], vec![8, 9]));
        assert!(!tried.is_due(vec![1, 2], vec![8, 9]));
        // All was well in between.
        assert!(!tried.is_due(vec![], vec![8, 9]));
        assert!(tried.is_due(vec![1, 2], vec![8, 9]));
    }
}
