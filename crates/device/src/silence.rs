//! Devices that do not answer, seen from outside: a thread that waits in a device cannot say so.
//!
//! A command that opened a pool by itself reads on its own threads, which may then hang as long as
//! a device does. Its counters show that without any cost of a request: it has some, and none ends.

use crate::{Device, DeviceRef};
use core::time::Duration;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The devices of a process that are looked at, as long as others use them.
#[derive(Default)]
pub struct SilenceWatch {
    devices: Mutex<Vec<Watched>>,
}

struct Watched {
    device: Weak<dyn Device>,
    /// Requests that have ended.
    ended: u64,
    /// When that was seen first, or the device had no request last.
    since: Duration,
    is_reported: bool,
}

impl SilenceWatch {
    /// Looks at a device from now on.
    pub fn add(&self, device: &DeviceRef) {
        let mut devices = self.devices.lock();
        let is_it = |w: &Watched| std::ptr::addr_eq(w.device.as_ptr(), Arc::as_ptr(device));
        devices.retain(|w| w.device.strong_count() > 0);
        if !devices.iter().any(is_it) {
            let device = Arc::downgrade(device);
            // Other than any count, so the time runs from the first look on.
            let ended = u64::MAX;
            devices.push(Watched { device, ended, since: Duration::ZERO, is_reported: false });
        }
    }

    /// Takes a look at all of them: those that have had requests for at least `limit`, and ended
    /// none since, and how long that is. Each is reported once, until it answers.
    pub fn look(&self, now: Duration, limit: Duration) -> Vec<(String, Duration)> {
        let mut silent = Vec::new();
        self.devices.lock().retain_mut(|watched| {
            let Some(device) = watched.device.upgrade() else { return false };
            let stats = device.stats();
            let ended = stats.reads.wrapping_add(stats.writes).wrapping_add(stats.flushes);
            let still = now.saturating_sub(watched.since);
            if stats.in_flight == 0 || ended != watched.ended {
                (watched.ended, watched.since, watched.is_reported) = (ended, now, false);
            } else if still >= limit && !watched.is_reported {
                watched.is_reported = true;
                silent.push((device.name().to_owned(), still));
            }
            true
        });
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Read, Stats};
    use core::sync::atomic::{AtomicU64, Ordering};

    /// Has this many requests, and has ended that many.
    #[derive(Default)]
    struct Counted([AtomicU64; 2]);

    impl Counted {
        fn set(&self, in_flight: u64, ended: u64) {
            self.0[0].store(in_flight, Ordering::Relaxed);
            self.0[1].store(ended, Ordering::Relaxed);
        }
    }

    impl Device for Counted {
        fn name(&self) -> &str {
            "counted"
        }
        fn size(&self) -> u64 {
            0
        }
        fn sector_size(&self) -> u32 {
            512
        }
        fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Error> {
            Ok(())
        }
        fn submit(&self, _: Vec<Read>) {}
        fn stats(&self) -> Stats {
            let [in_flight, reads] = [0, 1].map(|n| self.0[n].load(Ordering::Relaxed));
            Stats { in_flight, reads, ..Stats::default() }
        }
    }

    #[test]
    fn a_device_that_has_requests_and_ends_none_is_reported_once() {
        let (watch, device) = (SilenceWatch::default(), Arc::new(Counted::default()));
        let own: DeviceRef = device.clone();
        let look = |second| {
            let found = watch.look(Duration::from_secs(second), Duration::from_secs(10));
            found.into_iter().map(|(_, time)| time.as_secs()).collect::<Vec<_>>()
        };
        watch.add(&own);
        watch.add(&own);
        assert_eq!(look(100), [0; 0], "it has no request");
        device.set(2, 7);
        assert_eq!(look(105), [0; 0]);
        device.set(2, 8);
        assert_eq!(look(116), [0; 0], "it answers");
        assert_eq!(look(125), [0; 0]);
        assert_eq!(look(126), [10]);
        assert_eq!(look(150), [0; 0], "it was reported");
        device.set(1, 9);
        assert_eq!(look(155), [0; 0]);
        assert_eq!(look(170), [15], "it answered meanwhile");
        device.set(0, 10);
        assert_eq!(look(200), [0; 0]);
        drop((device, own));
        assert!(look(300).is_empty() && watch.devices.lock().is_empty(), "it is closed");
    }
}
