//! `write-limit`: each txg may hold what the devices write in a target time.
//!
//! # Theory
//!
//! The policy of 2008. A txg has a limit in bytes, and what is admitted into it is counted as it
//! would be on the devices ([`Inflation`]): with the sides of mirrors, parity and padding, with as
//! many copies as the datasets have that the last txg wrote, and with headers when that wrote
//! gangs. Of what live transactions reserve, half counts, because that is a worst case already:
//!
//! ```text
//! reserved = dirtied in the open txg + reservations / 2         (inflated)
//! reserved > limit            wait for the next txg to open: the wall
//! reserved > limit × 7/8      one tick of 10 ms for each transaction,
//!                             unless nothing waits before the devices
//! ```
//!
//! The tick is only worth something while a txg that has quiesced waits for the one before it; when
//! the devices could take the open txg at once, no writer is delayed.
//!
//! The limit begins at the minimum, and adapts after each txg. By *throughput* (late 2008 to
//! 2013), for a txg that wrote more than an eighth of the minimum in a time that can be measured:
//!
//! ```text
//! throughput = written / time                        the first time
//!            = this one / 4 + throughput × 3/4       afterwards
//! limit      = throughput × synctime, at least min, at most inflated
//! ```
//!
//! where `time` is that of writing, without flushes and labels, and without the time in which the
//! sync waited for what it had to read. By *target* (March 2008), with the time of the whole sync:
//!
//! ```text
//! time > synctime                          limit = min(limit, written) × synctime / time, ≥ min
//! written ≥ limit and time/8 < synctime/8  limit = written × min(synctime / time, 2), ≤ inflated
//! ```
//!
//! When memory is short, the limit becomes a quarter of what is dirty and reserved, if it is
//! larger, but no less than the minimum. Memory is short when a writer has to wait at
//! `zfs_dirty_data_max`: the limit is then too large for the memory that the pool may take.
//!
//! `zfs_write_limit_override` replaces the limit, `zfs_no_write_throttle` ends it all. Where zinc
//! departs: the maximum is not part of the machine's memory but a tunable, since the process is a
//! guest there; txgs are also pushed at a part of the limit (`zfs_dirty_data_sync_percent`), where
//! 2008 waited for the wall or the timeout; at 100 it does too; and `zfs_dirty_data_max` holds.

use super::{Admission, Inflation, Load, Request, Synced, Throttle, percent_of};
use parking_lot::Mutex;
use std::time::Duration;

/// A delay: one tick of a clock of 100 Hz.
pub const TICK: Duration = Duration::from_millis(10);

/// A sync that took less says nothing about the devices.
const TIME_MIN: Duration = Duration::from_millis(1);

/// How the limit adapts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// By the throughput measured.
    #[default]
    Throughput,
    /// By how far a sync was from the target.
    Target,
}

/// The policy's tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitKnobs {
    /// `zfs_txg_synctime`: the time that a sync should take.
    pub synctime: Duration,
    /// `zfs_write_limit_min`: bytes, the least and the first limit.
    pub min: u64,
    /// `zfs_write_limit_max`: bytes, not inflated, the largest limit.
    pub max: u64,
    /// `zfs_write_limit_inflated`: bytes, the largest limit; 0: the one before, inflated.
    pub inflated: u64,
    /// `zfs_write_limit_override`: bytes, not inflated; 0: the limit is measured.
    pub fixed: u64,
    /// `zinc_write_limit_inflation`: how many times its bytes a block counts; 0: as many as it has
    /// on the devices.
    pub inflation: u64,
    /// `zinc_write_limit_delay_eighths`: eighths of the limit above which a write takes a tick.
    pub delay_eighths: u64,
    /// `zfs_no_write_throttle`: writers are never held.
    pub off: bool,
    /// `zinc_write_limit_rule`.
    pub rule: Rule,
    /// `zfs_dirty_data_sync_percent`: part of the limit at which a txg is pushed.
    pub sync_percent: u64,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    limit: u64,
    /// Inflated bytes in a second; 0: not known.
    throughput: u64,
    /// What the devices make of a byte.
    laid_out: Inflation,
}

/// The policy. See the head of the file.
pub struct WriteLimit {
    knobs: LimitKnobs,
    measured: Mutex<Measured>,
}

impl WriteLimit {
    /// With these knobs and nothing measured: the limit is the minimum.
    #[must_use]
    pub fn new(knobs: LimitKnobs) -> Self {
        let measured = Measured { limit: knobs.min, throughput: 0, laid_out: Inflation::NONE };
        Self { knobs, measured: Mutex::new(measured) }
    }

    /// The same measurements with other knobs.
    #[must_use]
    pub fn with_knobs(&self, knobs: LimitKnobs) -> Self {
        let measured = *self.measured.lock();
        let out = Self { knobs, measured: Mutex::new(measured) };
        let limit = out.cap(measured.limit, out.inflation());
        out.measured.lock().limit = limit;
        out
    }

    /// What a byte counts.
    fn inflation(&self) -> Inflation {
        match self.knobs.inflation {
            0 => self.measured.lock().laid_out,
            n => Inflation::times(n),
        }
    }

    /// A limit that is none too small or too large.
    fn cap(&self, limit: u64, inflation: Inflation) -> u64 {
        let most = match self.knobs.inflated {
            0 => inflation.inflate(self.knobs.max),
            inflated => inflated,
        };
        limit.min(most).max(self.knobs.min)
    }

    fn adapt(&self, now: Measured, written: u64, txg: &Synced) -> Measured {
        let (time, whole) = (txg.write_time.saturating_sub(txg.read_time), txg.sync_time);
        let k = &self.knobs;
        let inflation = match k.inflation {
            0 => now.laid_out,
            n => Inflation::times(n),
        };
        let cap = |limit: u64| self.cap(limit, inflation);
        let scaled = |bytes: u64, by: Duration, per: Duration| {
            let out = u128::from(bytes) * by.as_micros() / per.as_micros().max(1);
            u64::try_from(out).unwrap_or(u64::MAX)
        };
        match k.rule {
            Rule::Throughput if written <= k.min / 8 || time <= TIME_MIN => now,
            Rule::Throughput => {
                let new = scaled(written, Duration::from_secs(1), time);
                let throughput = match now.throughput {
                    0 => new,
                    old => new / 4 + old / 4 * 3,
                };
                let limit = cap(scaled(throughput, k.synctime, Duration::from_secs(1)));
                Measured { limit, throughput, ..now }
            }
            Rule::Target if whole > k.synctime => {
                let limit = scaled(now.limit.min(written), k.synctime, whole);
                Measured { limit: limit.max(k.min), ..now }
            }
            Rule::Target if written >= now.limit && whole / 8 < k.synctime / 8 => {
                let hundredths = scaled(100, k.synctime, whole).min(200);
                let limit = written.saturating_mul(hundredths) / 100;
                Measured { limit: cap(limit), ..now }
            }
            Rule::Target => now,
        }
    }
}

impl Throttle for WriteLimit {
    fn name(&self) -> &'static str {
        "write-limit"
    }

    fn admit(&self, load: &Load, request: &Request) -> Admission {
        if self.knobs.off {
            return Admission::Go;
        }
        let (limit, inflation) = (self.limit(), self.inflation());
        let reserved = inflation.inflate(load.reserved) / 2;
        let reserved = reserved.saturating_add(inflation.inflate(load.open));
        if reserved > limit {
            return Admission::NextTxg;
        }
        let soft = (u128::from(limit) * u128::from(self.knobs.delay_eighths.min(8)) / 8) as u64;
        match reserved > soft && load.waiting && !request.delayed {
            true => Admission::Delay { until: load.now + TICK },
            false => Admission::Go,
        }
    }

    fn calm_below(&self) -> u64 {
        let calm = u128::from(self.limit()) * u128::from(self.knobs.delay_eighths.min(8)) / 8;
        if self.knobs.off { u64::MAX } else { self.inflation().deflate(calm as u64) }
    }

    fn push_at(&self) -> u64 {
        match self.knobs.sync_percent {
            // At the wall, as in 2008.
            100.. => u64::MAX,
            percent => self.inflation().deflate(percent_of(self.limit(), percent)),
        }
    }

    fn limit(&self) -> u64 {
        match self.knobs.fixed {
            0 => self.measured.lock().limit,
            fixed => self.inflation().inflate(fixed),
        }
    }

    fn synced(&self, txg: &Synced) {
        let written = self.inflation().inflate(txg.dirtied);
        let mut measured = self.measured.lock();
        *measured = self.adapt(*measured, written, txg);
    }

    fn memory_is_short(&self, load: &Load) -> bool {
        let held = self.inflation().inflate(load.dirty.saturating_add(load.reserved));
        let mut measured = self.measured.lock();
        let limit = measured.limit.min(held / 4).max(self.knobs.min);
        let is_other = limit != measured.limit;
        measured.limit = limit;
        is_other
    }

    fn laid_out(&self, inflation: Inflation) {
        let mut measured = self.measured.lock();
        let before = std::mem::replace(&mut measured.laid_out, inflation);
        if self.knobs.inflation == 0 && before != inflation {
            // What was measured in bytes that counted otherwise.
            let anew = |bytes| inflation.inflate(before.deflate(bytes));
            measured.throughput = anew(measured.throughput);
            measured.limit = self.cap(anew(measured.limit), inflation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn knobs() -> LimitKnobs {
        LimitKnobs {
            synctime: Duration::from_secs(5),
            min: 32 * MIB,
            max: 0,
            inflated: 8192 * MIB,
            fixed: 0,
            inflation: 1,
            delay_eighths: 7,
            off: false,
            rule: Rule::Throughput,
            sync_percent: 20,
        }
    }

    fn wrote(policy: &WriteLimit, mib: u64, millis: u64) -> u64 {
        let write_time = Duration::from_millis(millis);
        let (dirtied, sync_time) = (mib * MIB, write_time);
        policy.synced(&Synced { dirtied, write_time, sync_time, ..Synced::default() });
        policy.limit() / MIB
    }

    #[test]
    fn flushes_count_for_the_target_and_not_for_the_throughput() {
        for (rule, limit) in [(Rule::Throughput, 640), (Rule::Target, 50)] {
            let policy = WriteLimit::new(LimitKnobs { min: MIB, rule, ..knobs() });
            policy.synced(&Synced {
                dirtied: 100 * MIB,
                write_time: Duration::from_millis(781),
                sync_time: Duration::from_secs(1),
                ..Synced::default()
            });
            if rule == Rule::Target {
                // Twice what was written, and then half of that.
                assert_eq!(policy.limit() / MIB, 200);
                policy.synced(&Synced {
                    dirtied: 100 * MIB,
                    write_time: Duration::from_secs(4),
                    sync_time: Duration::from_secs(10),
                    ..Synced::default()
                });
            }
            assert_eq!(policy.limit() / MIB, limit);
        }
    }

    #[test]
    fn the_limit_is_throughput_times_synctime() {
        let policy = WriteLimit::new(knobs());
        assert_eq!(policy.limit(), 32 * MIB);
        // The first time the throughput is taken as it is, later as a quarter.
        assert_eq!(wrote(&policy, 100, 1000), 500);
        assert_eq!(wrote(&policy, 200, 1000), 625);
        // An eighth of the minimum, or a millisecond, says nothing.
        assert_eq!(wrote(&policy, 4, 1000), 625);
        assert_eq!(wrote(&policy, 900, 1), 625);
        assert_eq!(wrote(&policy, 5, 1_000_000), 468);
        // Never above the maximum, never below the minimum.
        assert_eq!(wrote(&policy, 900_000, 1000), 8192);
        let slow = WriteLimit::new(knobs());
        assert_eq!(wrote(&slow, 5, 10_000), 32);
    }

    #[test]
    fn by_target_it_shrinks_in_proportion_and_doubles_at_most() {
        let policy = WriteLimit::new(LimitKnobs { rule: Rule::Target, ..knobs() });
        // A full txg that was quick: at most double.
        assert_eq!(wrote(&policy, 32, 1000), 64);
        assert_eq!(wrote(&policy, 64, 4000), 80);
        // Not full: nothing is known.
        assert_eq!(wrote(&policy, 10, 100), 80);
        // Too slow: in proportion, of what was written.
        assert_eq!(wrote(&policy, 80, 10_000), 40);
        assert_eq!(wrote(&policy, 36, 5_100), 35);
        assert_eq!(wrote(&policy, 40, 20_000), 32);
        // An eighth of the time is compared: within it nothing changes.
        assert_eq!(wrote(&policy, 32, 5_000), 32);
    }

    #[test]
    fn half_of_what_is_reserved_counts_and_the_wall_is_behind_the_ticks() {
        let policy = WriteLimit::new(LimitKnobs { min: 800, ..knobs() });
        let now = Duration::from_secs(1);
        let ask = |open, reserved, waiting| {
            let load = Load { now, open, reserved, waiting, dirty: open };
            policy.admit(&load, &Request::default())
        };
        assert_eq!(ask(800, 0, false), Admission::Go);
        assert_eq!(ask(801, 0, false), Admission::NextTxg);
        assert_eq!(ask(700, 200, false), Admission::Go);
        assert_eq!(ask(700, 202, false), Admission::NextTxg);
        // Over 7/8, and a txg waits: one tick.
        assert_eq!(ask(700, 0, true), Admission::Go);
        assert_eq!(ask(701, 0, true), Admission::Delay { until: now + TICK });
        let load = Load { now, open: 701, waiting: true, ..Load::default() };
        assert_eq!(policy.admit(&load, &Request { delayed: true, began: now }), Admission::Go);
        assert_eq!(policy.calm_below(), 700);
    }

    #[test]
    fn an_override_is_inflated_and_no_throttle_is_none() {
        let fixed = LimitKnobs { fixed: 800 * MIB, inflation: 2, ..knobs() };
        let policy = WriteLimit::new(fixed);
        assert_eq!(policy.limit(), 1600 * MIB);
        wrote(&policy, 100, 10_000);
        assert_eq!(policy.limit(), 1600 * MIB);
        let full = Load { open: 801 * MIB, ..Load::default() };
        assert_eq!(policy.admit(&full, &Request::default()), Admission::NextTxg);
        assert_eq!(policy.push_at(), 160 * MIB);
        let off = policy.with_knobs(LimitKnobs { off: true, ..fixed });
        assert_eq!(off.admit(&full, &Request::default()), Admission::Go);
        assert_eq!(off.calm_below(), u64::MAX);
    }

    #[test]
    fn what_a_sync_reads_is_no_time_of_writing() {
        let read = |rule, read_ms| {
            let policy = WriteLimit::new(LimitKnobs { rule, ..knobs() });
            let (write_time, sync_time) = (Duration::from_secs(2), Duration::from_secs(10));
            let read_time = Duration::from_millis(read_ms);
            policy.synced(&Synced { dirtied: 100 * MIB, write_time, sync_time, read_time });
            policy.limit() / MIB
        };
        assert_eq!(read(Rule::Throughput, 0), 250);
        assert_eq!(read(Rule::Throughput, 1000), 500);
        // Nothing is left that could be measured.
        assert_eq!(read(Rule::Throughput, 2000), 32);
        // The target is one of the whole sync.
        assert_eq!((read(Rule::Target, 0), read(Rule::Target, 1000)), (32, 32));
    }

    #[test]
    fn the_limit_is_a_quarter_of_what_memory_holds_when_that_is_short() {
        let policy = WriteLimit::new(LimitKnobs { inflation: 2, ..knobs() });
        assert_eq!(wrote(&policy, 100, 1000), 1000);
        let load = |dirty, reserved| Load {
            dirty: dirty * MIB,
            reserved: reserved * MIB,
            ..Load::default()
        };
        // Twice as many bytes as are dirty, and a quarter of them.
        assert!(policy.memory_is_short(&load(300, 100)));
        assert_eq!(policy.limit() / MIB, 200);
        // It only falls, to the minimum at most.
        assert!(!policy.memory_is_short(&load(900, 0)));
        assert_eq!(policy.limit() / MIB, 200);
        assert!(policy.memory_is_short(&load(10, 0)) && !policy.memory_is_short(&load(1, 0)));
        assert_eq!(policy.limit() / MIB, 32);
        // The next sync measures again; an override stays what it is.
        assert_eq!(wrote(&policy, 100, 1000), 1000);
        let fixed = policy.with_knobs(LimitKnobs { fixed: 800 * MIB, inflation: 2, ..knobs() });
        fixed.memory_is_short(&load(10, 0));
        assert_eq!(fixed.limit() / MIB, 1600);
    }

    #[test]
    fn bytes_count_as_the_devices_have_them() {
        let real = LimitKnobs { inflation: 0, inflated: 0, max: 1000 * MIB, ..knobs() };
        let policy = WriteLimit::new(real);
        assert_eq!(wrote(&policy, 100, 1000), 500);
        // A mirror of two: the same measurements in twice as many bytes.
        policy.laid_out(Inflation::times(2));
        assert_eq!(policy.limit() / MIB, 1000);
        assert_eq!(wrote(&policy, 100, 1000), 1000);
        let ask = |open, dirty| {
            let load = Load { open: open * MIB, dirty, ..Load::default() };
            policy.admit(&load, &Request::default())
        };
        assert_eq!((ask(500, 0), ask(501, 0)), (Admission::Go, Admission::NextTxg));
        assert_eq!((policy.calm_below() / MIB, policy.push_at() / MIB), (437, 100));
        // So is the largest limit, and an override.
        assert_eq!(wrote(&policy, 100_000, 1000), 2000);
        let fixed = policy.with_knobs(LimitKnobs { fixed: 800 * MIB, ..real });
        assert_eq!(fixed.limit() / MIB, 1600);
        fixed.laid_out(Inflation::of(2, 3));
        assert_eq!(fixed.limit() / MIB, 1200);
        // A factor that was set stays.
        let factor = policy.with_knobs(LimitKnobs { inflation: 4, fixed: 800 * MIB, ..real });
        factor.laid_out(Inflation::times(3));
        assert_eq!(factor.limit() / MIB, 3200);
    }

    #[test]
    fn what_was_measured_survives_a_change_of_knobs() {
        let policy = WriteLimit::new(knobs());
        wrote(&policy, 1000, 1000);
        let other = policy.with_knobs(LimitKnobs { inflated: 1024 * MIB, ..knobs() });
        assert_eq!(other.limit(), 1024 * MIB);
        let short = LimitKnobs { synctime: Duration::from_secs(1), ..knobs() };
        let other = policy.with_knobs(short);
        assert_eq!(wrote(&other, 1000, 1000), 1000);
        let wall = LimitKnobs { sync_percent: 100, ..knobs() };
        assert_eq!(policy.with_knobs(wall).push_at(), u64::MAX);
    }
}
