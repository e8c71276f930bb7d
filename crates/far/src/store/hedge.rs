//! When a read is asked for a second time beside the first attempt: after twice what all but one of
//! twenty of about its size took lately, and for at most one of twenty reads.
//!
//! A store that is slow as a whole is so for all, and gets few more requests for it.

use core::time::Duration;

/// Reads of a size that are remembered.
const REMEMBERED: usize = 64;
/// Of them this many take longer than what is taken for slow.
const SLOWEST: usize = REMEMBERED / 20;
/// A machine that is busy may take this long by itself.
const SHORTEST: Duration = Duration::from_millis(20);
/// One more of this many reads may be asked for again.
const ONE_OF: u32 = 20;
/// Second attempts that may be saved up.
const SAVED_MAX: u32 = 10;
/// Reads of up to this many bytes take about the same time.
const SMALL: u64 = 128 << 10;

/// How long reads took, by their size, and how many second attempts there may be.
#[derive(Default)]
pub(super) struct Hedge {
    /// Of reads of up to 128 KiB, 256 KiB and so on.
    sizes: Vec<Recent>,
    /// Reads since the last one that allowed a second attempt.
    reads: u32,
    allowed: u32,
}

/// The last reads of a size.
#[derive(Clone, Default)]
struct Recent {
    times: Vec<Duration>,
    /// The oldest of them.
    next: usize,
    /// What a slow one takes, once enough is known.
    slow: Option<Duration>,
}

impl Recent {
    fn add(&mut self, took: Duration) {
        match self.times.get_mut(self.next) {
            Some(oldest) => *oldest = took,
            None => self.times.push(took),
        }
        self.next = (self.next + 1) % REMEMBERED;
        if self.next.is_multiple_of(16) && self.times.len() == REMEMBERED {
            let mut sorted = self.times.clone();
            sorted.sort_unstable();
            self.slow = sorted.get(REMEMBERED - 1 - SLOWEST).copied();
        }
    }
}

impl Hedge {
    fn recent(&mut self, bytes: u64) -> Option<&mut Recent> {
        let size = bytes.div_ceil(SMALL).max(1).next_power_of_two().ilog2() as usize;
        if size >= self.sizes.len() {
            self.sizes.resize(size + 1, Recent::default());
        }
        self.sizes.get_mut(size)
    }

    /// A read begins; after which time it is asked for again, if that is known.
    pub(super) fn begin(&mut self, bytes: u64) -> Option<Duration> {
        self.reads += 1;
        if self.reads == ONE_OF {
            self.reads = 0;
            self.allowed = (self.allowed + 1).min(SAVED_MAX);
        }
        Some((self.recent(bytes)?.slow? * 2).max(SHORTEST))
    }

    /// A read has taken this long.
    pub(super) fn ended(&mut self, bytes: u64, took: Duration) {
        if let Some(recent) = self.recent(bytes) {
            recent.add(took);
        }
    }

    /// Whether there may be a second attempt now.
    pub(super) fn may_ask_again(&mut self) -> bool {
        let may = self.allowed > 0;
        self.allowed = self.allowed.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_slow_is_learned_by_size() {
        let mut hedge = Hedge::default();
        assert_eq!(hedge.begin(4096), None);
        for n in 0..64 {
            // Three of them are outliers, which say nothing of the others.
            hedge.ended(4096, if n < 3 { 900 * MS } else { 30 * MS });
            hedge.ended(8 << 20, 200 * MS);
        }
        assert_eq!(hedge.begin(100), Some(60 * MS));
        assert_eq!(hedge.begin(8 << 20), Some(400 * MS));
        assert_eq!(hedge.begin(1 << 20), None);
        (0..64).for_each(|_| hedge.ended(4096, MS));
        assert_eq!(hedge.begin(4096), Some(SHORTEST));
    }

    #[test]
    fn one_of_twenty_reads_is_asked_for_again_at_most() {
        let mut hedge = Hedge::default();
        assert!((0..40).all(|_| hedge.begin(1).is_none()));
        assert!(hedge.may_ask_again() && hedge.may_ask_again() && !hedge.may_ask_again());
        assert!((0..10_000).all(|_| hedge.begin(1).is_none()));
        assert_eq!((0..100).filter(|_| hedge.may_ask_again()).count(), SAVED_MAX as usize);
    }
}
