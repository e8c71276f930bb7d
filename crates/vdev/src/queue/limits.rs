//! What all queues of a pool share: the limits, which can be changed at any time, and how much the
//! pool has to write.

use super::class::{CLASSES, IoClass};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Says how urgent a pool's asynchronous writes are. Asked under a queue's lock: it must be quick,
/// wait for nothing, and submit nothing.
pub trait Pressure: Send + Sync {
    /// Bytes of dirty data, and at most.
    fn dirty(&self) -> (u64, u64);

    /// A thread waits for a txg to be durable.
    fn is_awaited(&self) -> bool;
}

/// One of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Requests of a class that are active while other classes wait too.
    Min(IoClass),
    /// Requests of a class at most.
    Max(IoClass),
    /// Requests of all classes at most.
    AllMax,
    /// Synchronous reads at a device without moving parts that has nothing else to do.
    ReadersAlone,
    /// The same of synchronous writes.
    WritersAlone,
    /// Bytes that neighbours are joined to, on rotating disks.
    Aggregation,
    /// The same on devices without moving parts.
    AggregationNonRotating,
    /// Bytes between two reads that are joined.
    ReadGap,
    /// Share of dirty data, in percent, up to which asynchronous writes have their minimum.
    DirtyLowPercent,
    /// Share from which on they have their maximum.
    DirtyHighPercent,
    /// Housekeeping requests that end alone before there may be more than the minimum.
    NiaDelay,
    /// Housekeeping requests that may begin after each that a thread waits for.
    NiaCredit,
    /// Milliseconds after which a device that has requests and answers none hangs.
    Silence,
    /// Milliseconds after which a device that answers others has lost a request.
    Lost,
    /// Milliseconds from which on a request counts as slow.
    Slow,
    /// The percentile of a leaf's own reads; twice as much is late.
    LatePercentile,
    /// Late reads that are made elsewhere as well, in percent of all.
    ElsewherePercent,
    /// Seconds that a slow leaf is left alone at most.
    SitOutMax,
}

impl QueueLimit {
    /// OpenZFS's value.
    #[must_use]
    pub const fn default_value(self) -> u64 {
        match self {
            Self::Min(class) => class.active().0,
            Self::Max(class) => class.active().1,
            Self::AllMax => 1000,
            Self::ReadersAlone | Self::WritersAlone => 64,
            // One limit for both: OpenZFS copies what it joins, and so joins less, 128 KiB, where a
            // seek is not what is saved. Nothing is copied here, and ten requests of 128 KiB are
            // too few for a fast device.
            Self::Aggregation | Self::AggregationNonRotating => 1 << 20,
            Self::ReadGap => 32 << 10,
            Self::DirtyLowPercent => 30,
            Self::DirtyHighPercent => 60,
            Self::NiaDelay | Self::NiaCredit => 5,
            Self::Silence => 60_000,
            Self::Lost => 300_000,
            Self::Slow => 30_000,
            Self::LatePercentile => 99,
            Self::ElsewherePercent => 5,
            Self::SitOutMax => 600,
        }
    }
}

/// Limits of the queues of a pool. Every number is read where it is used, so a change counts from
/// the next request on.
pub struct QueueLimits {
    min: [AtomicU64; CLASSES],
    max: [AtomicU64; CLASSES],
    all_max: AtomicU64,
    readers_alone: AtomicU64,
    writers_alone: AtomicU64,
    aggregation: AtomicU64,
    aggregation_non_rotating: AtomicU64,
    read_gap: AtomicU64,
    dirty_low_percent: AtomicU64,
    dirty_high_percent: AtomicU64,
    nia_delay: AtomicU64,
    nia_credit: AtomicU64,
    silence_ms: AtomicU64,
    lost_ms: AtomicU64,
    slow_ms: AtomicU64,
    late_percentile: AtomicU64,
    elsewhere_percent: AtomicU64,
    sit_out_max: AtomicU64,
    unbounded: bool,
    held: AtomicBool,
    counting: AtomicBool,
    pressure: RwLock<Option<Arc<dyn Pressure>>>,
}

impl Default for QueueLimits {
    fn default() -> Self {
        let of = |limit: QueueLimit| AtomicU64::new(limit.default_value());
        Self {
            min: IoClass::ALL.map(|class| of(QueueLimit::Min(class))),
            max: IoClass::ALL.map(|class| of(QueueLimit::Max(class))),
            all_max: of(QueueLimit::AllMax),
            readers_alone: of(QueueLimit::ReadersAlone),
            writers_alone: of(QueueLimit::WritersAlone),
            aggregation: of(QueueLimit::Aggregation),
            aggregation_non_rotating: of(QueueLimit::AggregationNonRotating),
            read_gap: of(QueueLimit::ReadGap),
            dirty_low_percent: of(QueueLimit::DirtyLowPercent),
            dirty_high_percent: of(QueueLimit::DirtyHighPercent),
            nia_delay: of(QueueLimit::NiaDelay),
            nia_credit: of(QueueLimit::NiaCredit),
            silence_ms: of(QueueLimit::Silence),
            lost_ms: of(QueueLimit::Lost),
            slow_ms: of(QueueLimit::Slow),
            late_percentile: of(QueueLimit::LatePercentile),
            elsewhere_percent: of(QueueLimit::ElsewherePercent),
            sit_out_max: of(QueueLimit::SitOutMax),
            unbounded: false,
            held: AtomicBool::new(false),
            counting: AtomicBool::new(true),
            pressure: RwLock::new(None),
        }
    }
}

impl QueueLimits {
    /// No limits: everything goes to the device as it comes.
    #[must_use]
    pub fn unbounded() -> Self {
        Self { unbounded: true, ..Self::default() }
    }

    fn cell(&self, limit: QueueLimit) -> &AtomicU64 {
        match limit {
            QueueLimit::Min(class) => &self.min[class as usize],
            QueueLimit::Max(class) => &self.max[class as usize],
            QueueLimit::AllMax => &self.all_max,
            QueueLimit::ReadersAlone => &self.readers_alone,
            QueueLimit::WritersAlone => &self.writers_alone,
            QueueLimit::Aggregation => &self.aggregation,
            QueueLimit::AggregationNonRotating => &self.aggregation_non_rotating,
            QueueLimit::ReadGap => &self.read_gap,
            QueueLimit::DirtyLowPercent => &self.dirty_low_percent,
            QueueLimit::DirtyHighPercent => &self.dirty_high_percent,
            QueueLimit::NiaDelay => &self.nia_delay,
            QueueLimit::NiaCredit => &self.nia_credit,
            QueueLimit::Silence => &self.silence_ms,
            QueueLimit::Lost => &self.lost_ms,
            QueueLimit::Slow => &self.slow_ms,
            QueueLimit::LatePercentile => &self.late_percentile,
            QueueLimit::ElsewherePercent => &self.elsewhere_percent,
            QueueLimit::SitOutMax => &self.sit_out_max,
        }
    }

    /// A limit as it is now.
    #[must_use]
    pub fn get(&self, limit: QueueLimit) -> u64 {
        self.cell(limit).load(Relaxed)
    }

    /// Sets a limit. Where none at all would let nothing through, 0 counts as 1.
    pub fn set(&self, limit: QueueLimit, value: u64) {
        self.cell(limit).store(value, Relaxed);
    }

    /// What says how urgent asynchronous writes are; `None`: they have their most.
    pub fn set_pressure(&self, pressure: Option<Arc<dyn Pressure>>) {
        *self.pressure.write() = pressure;
    }

    /// Switches the counting off, to measure what it costs. Nothing else should.
    pub fn set_counting(&self, counting: bool) {
        self.counting.store(counting, Relaxed);
    }

    /// The pool is held for others, so a reader that waits for a device that hangs holds them up:
    /// from now on reads have a deadline too, and late ones are made elsewhere as well.
    pub fn hold(&self) {
        self.held.store(true, Relaxed);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Relaxed)
    }

    fn millis(value: &AtomicU64) -> Duration {
        Duration::from_millis(value.load(Relaxed).max(1))
    }

    /// A device that answers nothing for this time hangs.
    pub(crate) fn silence(&self) -> Duration {
        Self::millis(&self.silence_ms)
    }

    /// A device has lost a request that does not come back within this time.
    pub(crate) fn lost(&self) -> Duration {
        Self::millis(&self.lost_ms)
    }

    /// A request that takes this time is slow.
    pub(crate) fn slow(&self) -> Duration {
        Self::millis(&self.slow_ms)
    }

    pub(super) fn late_percentile(&self) -> u64 {
        self.late_percentile.load(Relaxed)
    }

    pub(super) fn elsewhere_percent(&self) -> u64 {
        self.elsewhere_percent.load(Relaxed)
    }

    pub(super) fn sit_out_max(&self) -> Duration {
        Duration::from_secs(self.sit_out_max.load(Relaxed))
    }

    pub(super) fn is_counting(&self) -> bool {
        self.counting.load(Relaxed)
    }

    pub(super) fn is_unbounded(&self) -> bool {
        self.unbounded
    }

    pub(super) fn min_active(&self, class: IoClass) -> u64 {
        self.min[class as usize].load(Relaxed).max(1)
    }

    /// The maximum of a class, of asynchronous writes as much of it as they may have now.
    pub(super) fn max_active(&self, class: IoClass) -> u64 {
        let most = self.max[class as usize].load(Relaxed).max(1);
        if class != IoClass::AsyncWrite {
            return most;
        }
        match &*self.pressure.read() {
            Some(p) if !p.is_awaited() => {
                let (dirty, dirty_max) = p.dirty();
                let share = |percent: &AtomicU64| dirty_max / 100 * percent.load(Relaxed);
                let least = self.min_active(class);
                ramp(
                    dirty,
                    (share(&self.dirty_low_percent), share(&self.dirty_high_percent)),
                    (least, most),
                )
            }
            _ => most,
        }
    }

    pub(super) fn all_max(&self) -> u64 {
        self.all_max.load(Relaxed).max(1)
    }

    /// Most requests of a class that threads wait for at a device without moving parts while there
    /// are no others; 0: as many as there may be beside others.
    pub(super) fn alone(&self, class: IoClass) -> u64 {
        match class {
            IoClass::SyncRead => self.readers_alone.load(Relaxed),
            IoClass::SyncWrite => self.writers_alone.load(Relaxed),
            _ => 0,
        }
    }

    pub(super) fn nia_delay(&self) -> u64 {
        self.nia_delay.load(Relaxed)
    }

    pub(super) fn nia_credit(&self) -> u64 {
        self.nia_credit.load(Relaxed)
    }

    /// Most bytes of an aggregated request.
    pub(super) fn aggregation(&self, rotating: bool) -> u64 {
        match rotating {
            true => self.aggregation.load(Relaxed),
            false => self.aggregation_non_rotating.load(Relaxed),
        }
    }

    /// Most bytes between two reads that become one, and most bytes of that one.
    pub(crate) fn read_merging(&self) -> (u64, u64) {
        (self.read_gap.load(Relaxed), self.aggregation.load(Relaxed))
    }
}

/// A straight line from `least` at `low` to `most` at `high`, in whole numbers.
fn ramp(dirty: u64, (low, high): (u64, u64), (least, most): (u64, u64)) -> u64 {
    let most = most.max(least);
    if dirty < low {
        return least;
    }
    if dirty >= high {
        return most;
    }
    let way = u128::from(dirty - low) * u128::from(most - least);
    least + u64::try_from(way / u128::from(high - low)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_openzfs_but_for_what_is_joined() {
        let limits = QueueLimits::default();
        let active = |class| (limits.min_active(class), limits.max_active(class));
        let got = IoClass::ALL.map(active);
        let sync = (10, 10);
        let [a, b, c, d, e, f, g, h, i] = got;
        assert_eq!([a, b], [sync, sync]);
        assert_eq!([c, d, e], [(1, 3), (2, 10), (1, 3)]);
        assert_eq!([f, g, h, i], [(1, 2), (1, 1), (1, 2), (1, 3)]);
        assert_eq!((limits.aggregation(true), limits.aggregation(false)), (1 << 20, 1 << 20));
        assert_eq!(limits.read_merging(), (32 << 10, 1 << 20));
        assert_eq!((limits.all_max(), limits.nia_delay(), limits.nia_credit()), (1000, 5, 5));
    }

    #[test]
    fn limits_are_set_one_by_one_and_zero_stops_nothing() {
        let limits = QueueLimits::default();
        limits.set(QueueLimit::Max(IoClass::Scrub), 7);
        limits.set(QueueLimit::Min(IoClass::SyncRead), 0);
        limits.set(QueueLimit::AllMax, 0);
        assert_eq!(limits.max_active(IoClass::Scrub), 7);
        assert_eq!((limits.min_active(IoClass::SyncRead), limits.all_max()), (1, 1));
        assert_eq!(limits.get(QueueLimit::ReadGap), 32 << 10);
    }

    #[test]
    fn asynchronous_writes_ramp_with_dirty_data() {
        struct Fixed(u64, bool);
        impl Pressure for Fixed {
            fn dirty(&self) -> (u64, u64) {
                (self.0, 1000)
            }
            fn is_awaited(&self) -> bool {
                self.1
            }
        }
        let limits = QueueLimits::default();
        let at = |dirty, awaited| {
            limits.set_pressure(Some(Arc::new(Fixed(dirty, awaited))));
            limits.max_active(IoClass::AsyncWrite)
        };
        // 2 + (d - 300) * (10 - 2) / (600 - 300).
        let wanted =
            [(0, 2), (299, 2), (300, 2), (337, 2), (338, 3), (450, 6), (599, 9), (600, 10)];
        for (dirty, active) in wanted {
            assert_eq!(at(dirty, false), active, "{dirty}");
        }
        assert_eq!(at(0, true), 10);
        assert_eq!(limits.max_active(IoClass::SyncWrite), 10);
    }
}
