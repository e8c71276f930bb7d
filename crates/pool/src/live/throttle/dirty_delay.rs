//! `dirty-delay`: the more is dirty, the longer each transaction waits.
//!
//! # Theory
//!
//! With `M` the most that may be dirty, `m` the part of it where delays begin, and `d` what is
//! dirty in the whole pool now, a transaction is to take
//!
//! ```text
//! delay │                 :        scale × (d − m) / (M − d), at most 100 ms
//!       │                 :
//!       │               .·
//! scale │- - - - - - .··
//!       │_______..···  |
//!       └──────┴───────┴───────┴── d
//!              m    middle     M
//! ```
//!
//! since it is its turn. Transactions have it one after the other, whichever writer has them. So
//! the delay is the inverse of the *pool's* rate of transactions, however many threads there are,
//! and the curve finds the point where that rate is the devices': there `d` stays, because it falls
//! with every write that completes. At `M` every writer waits for room.
//!
//! This is OpenZFS's formula, with its names and defaults (zfs(4)), but for two things. OpenZFS
//! gives out all delays at once, by what is dirty when it is asked, each behind the one before: 64
//! threads that ask near `M` wait for seconds, however soon the devices have made room, and begin
//! together when the pool has run dry. Here a delay is reckoned when its turn comes. And `d` counts
//! what transactions under way may still make dirty, as 64 threads can pass `m` at the same time.
//! What OpenZFS has and zinc does not: the same curve over the un-synced log bytes of the ZIL,
//! and the reserve for the overhead of the sync itself.

use super::{Admission, Load, Request, Synced, Throttle, percent_of};
use parking_lot::Mutex;
use std::time::Duration;

/// The longest delay: a pool that does not do ten transactions in a second has another problem.
pub const DELAY_MAX: Duration = Duration::from_millis(100);

/// The policy's tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayKnobs {
    /// `zfs_dirty_data_max`: bytes.
    pub dirty_max: u64,
    /// `zfs_dirty_data_sync_percent`: part of it at which a txg is pushed.
    pub sync_percent: u64,
    /// `zfs_delay_min_dirty_percent`: part of it at which delays begin.
    pub min_dirty_percent: u64,
    /// `zfs_delay_scale`: nanoseconds of delay in the middle of the curve.
    pub scale_ns: u64,
}

/// The policy. See the head of the file.
pub struct DirtyDelay {
    knobs: DelayKnobs,
    last_wakeup: Mutex<Duration>,
}

impl DirtyDelay {
    /// With these knobs; no writer was delayed before.
    #[must_use]
    pub fn new(knobs: DelayKnobs) -> Self {
        Self { knobs, last_wakeup: Mutex::new(Duration::ZERO) }
    }

    fn min_dirty(&self) -> u64 {
        percent_of(self.knobs.dirty_max, self.knobs.min_dirty_percent)
    }

    /// What a transaction is to take while `dirty` bytes are dirty.
    #[must_use]
    pub fn tx_time(&self, dirty: u64) -> Duration {
        let (min, max) = (self.min_dirty(), self.knobs.dirty_max);
        if dirty <= min {
            return Duration::ZERO;
        }
        if dirty >= max {
            return DELAY_MAX;
        }
        let nanos =
            u128::from(self.knobs.scale_ns) * u128::from(dirty - min) / u128::from(max - dirty);
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos).min(DELAY_MAX)
    }
}

impl Throttle for DirtyDelay {
    fn name(&self) -> &'static str {
        "dirty-delay"
    }

    fn in_turn(&self) -> bool {
        true
    }

    fn admit(&self, load: &Load, request: &Request) -> Admission {
        if load.dirty >= self.knobs.dirty_max {
            return Admission::Room;
        }
        let tx_time = self.tx_time(load.dirty.saturating_add(load.reserved));
        if request.delayed || tx_time.is_zero() || load.now > request.began + tx_time {
            return Admission::Go;
        }
        let mut last = self.last_wakeup.lock();
        *last = (request.began + tx_time).max(*last + tx_time);
        Admission::Delay { until: *last }
    }

    fn calm_below(&self) -> u64 {
        self.min_dirty()
    }

    fn push_at(&self) -> u64 {
        percent_of(self.knobs.dirty_max, self.knobs.sync_percent)
    }

    fn limit(&self) -> u64 {
        self.knobs.dirty_max
    }

    fn synced(&self, _: &Synced) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1_000_000_000;

    fn policy() -> DirtyDelay {
        DirtyDelay::new(DelayKnobs {
            dirty_max: M,
            sync_percent: 20,
            min_dirty_percent: 60,
            scale_ns: 500_000,
        })
    }

    /// Parts of M in hundredths of a percent, and the delay in microseconds.
    #[test]
    fn the_curve_has_the_published_values() {
        let values = [
            (6500, 71),
            (7000, 167),
            (7500, 300),
            (8000, 500),
            (9000, 1500),
            (9500, 3500),
            (9900, 19_500),
        ];
        for (part, micros) in values {
            let time = policy().tx_time(M / 10_000 * part);
            let rounded = (time.as_nanos() + 500) / 1000;
            assert_eq!(rounded, micros, "at {part}");
        }
        assert_eq!(policy().tx_time(M / 10 * 6), Duration::ZERO);
        assert_eq!(policy().tx_time(0), Duration::ZERO);
        // The cap is reached at 99.80 %.
        assert!(policy().tx_time(M / 10_000 * 9979) < DELAY_MAX);
        assert_eq!(policy().tx_time(M / 1000 * 999), DELAY_MAX);
        assert_eq!(policy().tx_time(M), DELAY_MAX);
        assert_eq!(policy().tx_time(u64::MAX), DELAY_MAX);
    }

    #[test]
    fn all_writers_queue_behind_each_other() {
        let policy = policy();
        let now = Duration::from_secs(9);
        let load = Load { now, dirty: M / 10 * 8, ..Load::default() };
        let request = Request { began: now, delayed: false };
        let step = Duration::from_micros(500);
        for n in 1..=5 {
            assert_eq!(policy.admit(&load, &request), Admission::Delay { until: now + step * n });
        }
        // Once is enough.
        let again = Request { delayed: true, ..request };
        assert_eq!(policy.admit(&load, &again), Admission::Go);
    }

    #[test]
    fn what_transactions_under_way_may_make_dirty_counts() {
        let policy = policy();
        let now = Duration::from_secs(9);
        let request = Request { began: now, delayed: false };
        let load = Load { now, dirty: M / 2, reserved: M / 10 * 3, ..Load::default() };
        let until = now + Duration::from_micros(500);
        assert_eq!(policy.admit(&load, &request), Admission::Delay { until });
        assert_eq!(policy.admit(&Load { reserved: 0, ..load }, &request), Admission::Go);
    }

    #[test]
    fn time_that_was_served_counts() {
        let policy = policy();
        let began = Duration::from_secs(9);
        let request = Request { began, delayed: false };
        let at = |micros| Load {
            now: began + Duration::from_micros(micros),
            dirty: M / 10 * 8,
            ..Load::default()
        };
        assert_eq!(policy.admit(&at(501), &request), Admission::Go);
        let until = began + Duration::from_micros(500);
        assert_eq!(policy.admit(&at(400), &request), Admission::Delay { until });
    }

    #[test]
    fn it_waits_for_room_at_the_end_and_is_calm_at_the_beginning() {
        let policy = policy();
        let full = Load { dirty: M, ..Load::default() };
        assert_eq!(policy.admit(&full, &Request::default()), Admission::Room);
        assert_eq!((policy.calm_below(), policy.push_at(), policy.limit()), (M / 10 * 6, M / 5, M));
    }
}
