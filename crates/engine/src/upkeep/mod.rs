//! What is done by itself with the devices of a pool that stays open: a hot spare stands in for a
//! device that failed, and a device is used again when it is back, as another file or disk too, or
//! a new one in its place where `autoreplace` says so. A file that is only given another name is
//! followed, and what went away is waited for a moment before a spare is taken.
//!
//! OpenZFS leaves this to a daemon of its own, zed. Here it is for the process that holds the pool:
//! one that opens a pool for a moment takes no spares, as it cannot tell a device that failed from
//! one that comes a second later.
//!
//! The decisions are here. The program that holds the pool decides how it is reached
//! ([`PoolAccess`]), has [`Upkeep::step`] called every second or so, and words what came of it
//! ([`UpkeepEvent`]).

mod replacing;

use crate::devices::DeviceSource;
use pool::live::{DeviceSearch, LivePool, Missing, MovedDevices, NotUsed, Returned};
use rt::Rt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long what did not help is left alone at first, when nothing has changed, and at most.
const SOON: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_mins(1);

/// Looking for files that were given other names takes at most one part in this number of the time.
const SHARE: u32 = 50;

/// Work on a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpkeepWork {
    /// Devices that are back are used again.
    UseReturned,
    /// Other names of devices are noted.
    NoteMoved,
    /// Spares are taken.
    TakeSpares,
    /// Devices are brought what they missed.
    Resilver,
    /// What devices have grown by is used.
    Expand,
}

/// How a pool is reached. It is held for as long as a call takes: looking for devices takes longer,
/// and is done in between.
pub trait PoolAccess {
    /// Lets `look` see the pool; `None` when it is gone.
    fn look<T>(&self, look: impl FnOnce(&LivePool) -> T) -> Option<T>;

    /// Lets `work` change it; `None` when it is gone, or about to be.
    fn work<T>(&self, what: UpkeepWork, work: impl FnOnce(&LivePool) -> T) -> Option<T>;
}

/// What was done, or not done. Devices have their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpkeepEvent {
    /// A device is back, and used again.
    UsedAgain {
        /// The device.
        leaf: String,
    },
    /// A device is a file that was given another name.
    Moved {
        /// The device.
        leaf: String,
        /// Its name now.
        place: PathBuf,
    },
    /// A new device was found in the place of one that is missing, and replaces it.
    Replaced {
        /// The device that is missing.
        leaf: String,
    },
    /// A device was found, and is not used.
    NotUsed {
        /// The device that it is, or is in the place of.
        leaf: String,
        /// Where it was found.
        path: PathBuf,
        /// Why.
        why: NotUsed,
    },
    /// A spare stands in for a device.
    SpareTaken {
        /// The device.
        leaf: String,
        /// The spare.
        spare: String,
    },
    /// What devices have grown by is used.
    Expanded,
}

/// The devices of a pool, looked after.
///
/// ```
/// use engine::LivePool;
/// use engine::devices::AnyDevices;
/// use engine::upkeep::{PoolAccess, Upkeep, UpkeepWork};
/// use std::sync::Arc;
///
/// struct Own(LivePool);
///
/// impl PoolAccess for Own {
///     fn look<T>(&self, look: impl FnOnce(&LivePool) -> T) -> Option<T> {
///         Some(look(&self.0))
///     }
///
///     fn work<T>(&self, _: UpkeepWork, work: impl FnOnce(&LivePool) -> T) -> Option<T> {
///         Some(work(&self.0))
///     }
/// }
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let mut upkeep = Upkeep::new(pool.rt(), Arc::new(AnyDevices::default()));
/// // All devices are there: there is nothing to do.
/// assert!(upkeep.step(&Own(pool), &mut |event| panic!("{event:?}")).is_some());
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Upkeep {
    rt: Rt,
    source: Arc<dyn DeviceSource>,
    used: Tried,
    grown: Tried,
    spared: Tried,
    resilvered: Tried,
    expanded: Tried,
    lookout: DeviceSearch,
    /// When files with other names are looked for again.
    follow_at: Duration,
    /// They were looked for, and not all were found.
    is_any_lost: bool,
}

type Tell<'a> = &'a mut dyn FnMut(UpkeepEvent);

impl Upkeep {
    /// Nothing was tried yet. Devices that are back, and spares, are opened by `source`.
    #[must_use]
    pub fn new(rt: &Rt, source: Arc<dyn DeviceSource>) -> Self {
        let lookout = DeviceSearch::new(rt, Arc::clone(&source));
        Self {
            rt: rt.clone(),
            source,
            used: Tried::default(),
            grown: Tried::default(),
            spared: Tried::default(),
            resilvered: Tried::default(),
            expanded: Tried::default(),
            lookout,
            follow_at: Duration::ZERO,
            is_any_lost: false,
        }
    }

    /// Looks at the devices, and does what is to be done. `None` when the pool is gone.
    pub fn step(&mut self, pool: &impl PoolAccess, tell: Tell<'_>) -> Option<()> {
        let moved = pool.look(|pool| {
            pool.go_without_displaced(self.is_any_lost);
            pool.log_new_errors();
            pool.moved_devices()
        })?;
        self.follow(pool, &moved, tell);
        let (back, missing, failed, spares) = pool.look(|pool| {
            let failed = pool.leaves_without_spare();
            let spares = spares(pool, &failed);
            (pool.leaves_there_again(), pool.missing(), failed, spares)
        })?;
        self.use_full_sizes(pool, tell)?;
        let now = self.rt.now();
        // One that is back needs no spare.
        if self.used.is_due(now, back, Vec::new()) {
            if self.use_again(pool, tell) {
                // The same may happen to it again.
                self.used = Tried::default();
            }
        } else if !self.use_returned(pool, &missing, tell)
            && !self.lookout.is_expecting()
            && self.spared.is_due(now, failed, spares)
        {
            self.take_spares(pool, tell);
        }
        self.expand(pool, tell)?;
        self.resilver(pool)
    }

    /// Uses what devices have grown by, where the pool is to do that.
    fn expand(&mut self, pool: &impl PoolAccess, tell: Tell<'_>) -> Option<()> {
        let grown = pool.look(LivePool::vdevs_to_expand)?;
        if self.expanded.is_due(self.rt.now(), grown, Vec::new()) {
            // A pool that stops meanwhile, or a device that fails, is reported as that.
            let used = pool.work(UpkeepWork::Expand, |pool| pool.expand_if_wanted().is_ok());
            if used.unwrap_or_default() {
                tell(UpkeepEvent::Expanded);
            }
        }
        Some(())
    }

    /// Begins a resilver of devices that are in use, and of which a write failed. One that goes on
    /// refusing writes is given another try less and less often.
    fn resilver(&mut self, pool: &impl PoolAccess) -> Option<()> {
        if let Some(stale) = pool.look(LivePool::leaves_to_resilver)?
            && self.resilvered.is_due(self.rt.now(), stale, Vec::new())
        {
            // What stands in its way is reported by what it is.
            pool.work(UpkeepWork::Resilver, |pool| pool.resilver().unwrap_or_default());
        }
        Some(())
    }

    /// Files that were cut short, and that the pool cannot do without, have their sizes again.
    fn use_full_sizes(&mut self, pool: &impl PoolAccess, tell: Tell<'_>) -> Option<()> {
        let back = pool.look(LivePool::leaves_of_full_size)?;
        if self.grown.is_due(self.rt.now(), back, Vec::new()) {
            let used = pool.work(UpkeepWork::UseReturned, |pool| {
                let used = pool.use_full_sizes().into_iter();
                used.map(|leaf| name_of(pool, leaf)).collect::<Vec<_>>()
            });
            let used = used.unwrap_or_default();
            used.into_iter().for_each(|leaf| tell(UpkeepEvent::UsedAgain { leaf }));
        }
        Some(())
    }

    /// Whether any could be used.
    fn use_again(&self, pool: &impl PoolAccess, tell: Tell<'_>) -> bool {
        let used = pool.work(UpkeepWork::UseReturned, |pool| {
            let used = pool.use_what_is_there_again(&*self.source);
            used.into_iter().map(|leaf| name_of(pool, leaf)).collect::<Vec<_>>()
        });
        let used = used.unwrap_or_default();
        let is_used = !used.is_empty();
        used.into_iter().for_each(|leaf| tell(UpkeepEvent::UsedAgain { leaf }));
        is_used
    }

    /// Looks for files that were given other names while they are used, and notes where they are.
    fn follow(&mut self, pool: &impl PoolAccess, moved: &MovedDevices, tell: Tell<'_>) {
        let began = self.rt.now();
        if moved.is_empty() {
            self.is_any_lost = false;
            return;
        }
        if began < self.follow_at {
            return;
        }
        let moved = moved.follow(&*self.source);
        self.is_any_lost = moved.is_empty();
        let now = self.rt.now();
        self.follow_at = now + now.saturating_sub(began) * SHARE;
        if moved.is_empty() {
            return;
        }
        pool.work(UpkeepWork::NoteMoved, |pool| {
            for (leaf, place) in &moved {
                let leaf = name_of(pool, *leaf);
                tell(UpkeepEvent::Moved { leaf, place: place.clone() });
            }
            // A pool that stops meanwhile reports that itself.
            let _ = pool.note_moved(moved);
        });
    }

    /// Looks for the devices of leaves that are missing; whether one of them is used.
    fn use_returned(&mut self, pool: &impl PoolAccess, missing: &Missing, tell: Tell<'_>) -> bool {
        let found = self.lookout.search(missing);
        if found.is_empty() {
            return false;
        }
        let became = pool.work(UpkeepWork::UseReturned, |pool| {
            let became = pool.use_returned(found, &*self.source);
            let named = |mut r: Returned| {
                let leaf = name_of(pool, r.leaf);
                let is_new = replacing::put_in_place(pool, &r, &*self.source);
                let is_new = is_new.unwrap_or_else(|why| {
                    r.refusal = Some(why);
                    false
                });
                (leaf, r, is_new)
            };
            became.into_iter().map(named).collect::<Vec<_>>()
        });
        let mut is_any_used = false;
        for (leaf, Returned { path, refusal, .. }, is_new) in became.unwrap_or_default() {
            is_any_used |= is_new || refusal.is_none();
            if matches!(refusal, Some(NotUsed::Failed(_))) {
                self.lookout.try_again(&path);
            }
            tell(match refusal {
                _ if is_new => UpkeepEvent::Replaced { leaf },
                None => UpkeepEvent::UsedAgain { leaf },
                Some(why) => UpkeepEvent::NotUsed { leaf, path, why },
            });
        }
        is_any_used
    }

    fn take_spares(&self, pool: &impl PoolAccess, tell: Tell<'_>) {
        let taken = pool.work(UpkeepWork::TakeSpares, |pool| {
            // A failed attempt is repeated.
            let taken = pool.take_spares(&*self.source).unwrap_or_default();
            let names = taken.iter().map(|t| (name_of(pool, t.leaf), name_of(pool, t.spare)));
            names.collect::<Vec<_>>()
        });
        for (leaf, spare) in taken.unwrap_or_default() {
            tell(UpkeepEvent::SpareTaken { leaf, spare });
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

/// The last attempt.
struct Attempt {
    leaves: Vec<u64>,
    with: Vec<u64>,
    at: Duration,
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
    fn is_due(&mut self, now: Duration, leaves: Vec<u64>, with: Vec<u64>) -> bool {
        if leaves.is_empty() {
            self.0 = None;
            return false;
        }
        let before = self.0.as_ref().filter(|last| (&last.leaves, &last.with) == (&leaves, &with));
        if before.is_some_and(|last| now.saturating_sub(last.at) < last.pause) {
            return false;
        }
        let pause = before.map_or(SOON, |last| (last.pause * 2).min(AGAIN));
        self.0 = Some(Attempt { leaves, with, at: now, pause });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_help_is_left_alone_until_something_changes() {
        let mut tried = Tried::default();
        let at = Duration::from_secs(100);
        assert!(!tried.is_due(at, vec![], vec![9]));
        assert!(tried.is_due(at, vec![1], vec![9]));
        assert!(!tried.is_due(at, vec![1], vec![9]));
        // Another leaf, another spare.
        assert!(tried.is_due(at, vec![1, 2], vec![9]));
        assert!(tried.is_due(at, vec![1, 2], vec![8, 9]));
        assert!(!tried.is_due(at, vec![1, 2], vec![8, 9]));
        // All was well in between.
        assert!(!tried.is_due(at, vec![], vec![8, 9]));
        assert!(tried.is_due(at, vec![1, 2], vec![8, 9]));
    }

    #[test]
    fn what_did_not_help_is_repeated_less_and_less_often() {
        let (mut tried, mut times) = (Tried::default(), Vec::new());
        for second in 0..200 {
            if tried.is_due(Duration::from_secs(second), vec![1], vec![9]) {
                times.push(second);
            }
        }
        assert_eq!(times, [0, 2, 6, 14, 30, 62, 122, 182]);
    }
}
