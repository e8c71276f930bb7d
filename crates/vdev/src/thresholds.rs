//! How many errors of a leaf are too many: numbers within a time, which users may set for single
//! vdevs. What a leaf has none of is that of the vdev around it.

use core::time::Duration;
use parking_lot::RwLock;
use std::collections::{BTreeMap, VecDeque};

/// Events that are remembered at most: a threshold that is higher is never reached.
const REMEMBERED: usize = 1 << 16;

/// A number that a user may set for a vdev, and for the leaves below with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorLimit {
    /// Failed requests that make a leaf FAULTED.
    Io,
    /// The seconds in which they do.
    IoSeconds,
    /// Wrong blocks that make a leaf DEGRADED.
    Checksum,
    /// The seconds in which they do.
    ChecksumSeconds,
    /// Slow requests that make a leaf DEGRADED.
    Slow,
    /// The seconds in which they do.
    SlowSeconds,
}

impl ErrorLimit {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Io,
        Self::IoSeconds,
        Self::Checksum,
        Self::ChecksumSeconds,
        Self::Slow,
        Self::SlowSeconds,
    ];

    /// The property of vdevs that it is.
    #[must_use]
    pub const fn property(self) -> &'static str {
        match self {
            Self::Io => "io_n",
            Self::IoSeconds => "io_t",
            Self::Checksum => "checksum_n",
            Self::ChecksumSeconds => "checksum_t",
            Self::Slow => "slow_io_n",
            Self::SlowSeconds => "slow_io_t",
        }
    }
}

/// Events within a time that are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threshold {
    pub(crate) events: u64,
    pub(crate) within: Duration,
}

/// Those of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    pub(crate) io: Threshold,
    pub(crate) checksum: Threshold,
    /// `None`: slow requests are counted only.
    pub(crate) slow: Option<Threshold>,
}

/// The numbers are those of OpenZFS's event daemon.
const USUAL: Threshold = Threshold { events: 10, within: Duration::from_mins(10) };

/// The times of events, newest last.
#[derive(Default)]
pub(crate) struct Times(VecDeque<Duration>);

impl Times {
    /// Adds one; as many are kept as matter.
    pub(crate) fn note(&mut self, now: Duration) {
        self.0.push_back(now);
        while self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
    }

    /// Events within the time before `now`.
    pub(crate) fn within(&self, time: Duration, now: Duration) -> u64 {
        self.0.iter().rev().take_while(|at| now.saturating_sub(**at) <= time).count() as u64
    }

    pub(crate) fn are_too_many(&self, now: Duration, limit: Threshold) -> bool {
        self.within(limit.within, now) >= limit.events.max(1)
    }
}

/// What was set, by vdev. Trees that follow each other share it.
#[derive(Default)]
pub(crate) struct ErrorLimits {
    set: RwLock<BTreeMap<(u64, ErrorLimit), u64>>,
}

impl ErrorLimits {
    /// Sets a number for the vdev with this guid; `None`: it has none of its own.
    pub(crate) fn set(&self, guid: u64, limit: ErrorLimit, value: Option<u64>) {
        let mut set = self.set.write();
        match value {
            Some(value) => set.insert((guid, limit), value),
            None => set.remove(&(guid, limit)),
        };
    }

    /// What counts for a leaf; `line` gives its guid, and those of the vdevs around it outwards.
    pub(crate) fn of(&self, line: impl FnOnce() -> Vec<u64>) -> Thresholds {
        let set = self.set.read();
        let line = if set.is_empty() { Vec::new() } else { line() };
        let find = |limit| line.iter().find_map(|guid| set.get(&(*guid, limit)).copied());
        let threshold = |events, seconds, usual: Threshold| Threshold {
            events: find(events).unwrap_or(usual.events),
            within: find(seconds).map_or(usual.within, Duration::from_secs),
        };
        let slow = find(ErrorLimit::Slow).zip(find(ErrorLimit::SlowSeconds));
        Thresholds {
            io: threshold(ErrorLimit::Io, ErrorLimit::IoSeconds, USUAL),
            checksum: threshold(ErrorLimit::Checksum, ErrorLimit::ChecksumSeconds, USUAL),
            slow: slow.map(|(events, t)| Threshold { events, within: Duration::from_secs(t) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_for_a_while() {
        let mut errors = Times::default();
        for second in 0..9 {
            errors.note(Duration::from_secs(second));
        }
        let at = Duration::from_secs;
        let limit = |events, seconds| Threshold { events, within: at(seconds) };
        assert!(!errors.are_too_many(at(9), limit(10, 600)));
        errors.note(at(600));
        assert!(errors.are_too_many(at(600), limit(10, 600)));
        assert!(!errors.are_too_many(at(601), limit(10, 600)), "the first one is too old");
        assert!(errors.are_too_many(at(601), limit(10, 601)));
        assert!(errors.are_too_many(at(601), limit(1, 1)));
        assert!(!errors.are_too_many(at(602), limit(1, 1)));
        assert!(!errors.are_too_many(at(602), limit(0, 1)), "without an error none is too many");
        (0..=REMEMBERED).for_each(|_| errors.note(at(700)));
        assert_eq!(errors.0.len(), REMEMBERED);
    }

    #[test]
    fn the_nearest_vdev_decides_each_number_by_itself() {
        let limits = ErrorLimits::default();
        let of = |line: &[u64]| limits.of(|| line.to_vec());
        assert_eq!(of(&[3, 2, 1]).io, USUAL);
        limits.set(2, ErrorLimit::Io, Some(4));
        limits.set(3, ErrorLimit::IoSeconds, Some(7));
        limits.set(1, ErrorLimit::Slow, Some(5));
        let found = of(&[3, 2, 1]);
        assert_eq!(found.io, Threshold { events: 4, within: Duration::from_secs(7) });
        assert_eq!((found.checksum, found.slow), (USUAL, None), "slow requests need both numbers");
        limits.set(3, ErrorLimit::Io, Some(9));
        limits.set(2, ErrorLimit::SlowSeconds, Some(60));
        let found = of(&[3, 2, 1]);
        assert_eq!(found.io.events, 9);
        assert_eq!(found.slow, Some(Threshold { events: 5, within: Duration::from_secs(60) }));
        limits.set(3, ErrorLimit::Io, None);
        assert_eq!((of(&[3, 2, 1]).io.events, of(&[8, 1]).io.events), (4, 10));
    }
}
