//! Time.
//!
//! Two kinds, never mixed: *monotonic* time measures how long something took and has no date;
//! *wall* time is a date, goes into structures on disk, and may jump.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Monotonic time since an origin that all users of this clock share.
    fn now(&self) -> Duration;

    /// Wall time since 1970-01-01T00:00:00Z; zero when the system's date is before that.
    fn wall(&self) -> Duration;
}

/// The operating system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Duration {
        // One origin for the process, so that times from any two values can be compared.
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed()
    }

    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_is_shared_and_does_not_go_back() {
        let (a, b) = (RealClock, RealClock);
        let mut last = a.now();
        for _ in 0..1000 {
            let now = b.now();
            assert!(now >= last);
            last = now;
        }
        std::thread::sleep(Duration::from_millis(2));
        assert!(a.now() - last >= Duration::from_millis(2));
    }

    #[test]
    fn wall_time_is_of_this_century() {
        let years = RealClock.wall().as_secs() / (365 * 86_400);
        assert!((50..200).contains(&years), "{years} years since 1970");
    }
}
