//! The table of tunables. A line is
//! `Key "name" Unit, default, min..=max, push, "Meaning.";` in the order in which they are listed.

use super::super::shared::Shared;
use super::{Row, Unit};
use std::time::Duration;
use vdev::queue::{IoClass, QueueLimit};

/// For values that are asked for where they are used.
fn asked(_: &Shared, _: u64) {}

/// Brings every value down to what uses it.
pub(crate) fn push_all(shared: &Shared) {
    for (tunable, row) in Tunable::ALL.iter().zip(ROWS) {
        (row.push)(shared, shared.tunables.get(*tunable));
    }
}

impl Shared {
    /// Sets a value and brings it down to what uses it.
    pub(crate) fn set_tunable(&self, tunable: Tunable, value: u64) {
        self.tunables.store(tunable, value);
        (tunable.row().push)(self, value);
    }
}

macro_rules! table {
    ($($key:ident $name:literal $unit:expr, $default:expr, $min:literal..=$max:expr, $push:expr,
       $meaning:literal;)*) => {
        /// A tunable, by its key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Tunable {
            $(#[doc = concat!("`", $name, "`: ", $meaning)] $key,)*
        }

        impl Tunable {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$key,)*];
        }

        pub(super) static ROWS: &[Row] = &[$(Row {
            name: $name,
            unit: $unit,
            default: $default,
            min: $min,
            max: $max,
            meaning: $meaning,
            push: $push,
        },)*];
    };
}

table! {
    // Transaction groups.
    TxgTimeout "zfs_txg_timeout" Unit::Seconds, 5, 1..=86_400,
        |s, v| s.txgs.change_limits(|l| l.timeout = Duration::from_secs(v)),
        "A txg with changes is pushed when it was open for so long.";
    DirtyDataMax "zfs_dirty_data_max" Unit::Bytes, 256 << 20, 0x10_0000..=1 << 50,
        |s, v| s.txgs.change_limits(|l| l.dirty_max = v),
        "Dirty data at which writers wait, whatever the throttle says. Memory held by txgs that \
         are not durable stays below twice as much.";
    DirtyDataSyncPercent "zfs_dirty_data_sync_percent" Unit::Percent, 20, 1..=100,
        |s, v| s.txgs.change_limits(|l| l.sync_percent = v),
        "A txg is pushed when it holds this part of zfs_dirty_data_max.";
    TxgHistory "zfs_txg_history" Unit::Count, 100, 1..=10_000, asked,
        "Txgs of which a record is kept.";
    // Blocks.
    DefaultIbs "zfs_default_ibs" Unit::Bits, 17, 12..=17, Shared::set_indirect_shift,
        "Size of the indirect blocks of objects made from now on; those that exist keep theirs. \
         OpenZFS refuses an object with more than 17 (128 KiB).";

    // Queues of the devices.
    SyncReadMinActive "zfs_vdev_sync_read_min_active" Unit::Count,
        QueueLimit::Min(IoClass::SyncRead).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::SyncRead), v),
        "Of synchronous reads, so many are active on a device while other classes wait.";
    SyncReadMaxActive "zfs_vdev_sync_read_max_active" Unit::Count,
        QueueLimit::Max(IoClass::SyncRead).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::SyncRead), v),
        "Of synchronous reads, at most so many are active on a device.";
    SyncWriteMinActive "zfs_vdev_sync_write_min_active" Unit::Count,
        QueueLimit::Min(IoClass::SyncWrite).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::SyncWrite), v),
        "Of synchronous writes, so many are active on a device while other classes wait.";
    SyncWriteMaxActive "zfs_vdev_sync_write_max_active" Unit::Count,
        QueueLimit::Max(IoClass::SyncWrite).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::SyncWrite), v),
        "Of synchronous writes, at most so many are active on a device.";
    AsyncReadMinActive "zfs_vdev_async_read_min_active" Unit::Count,
        QueueLimit::Min(IoClass::AsyncRead).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::AsyncRead), v),
        "Of reads ahead, so many are active on a device while other classes wait.";
    AsyncReadMaxActive "zfs_vdev_async_read_max_active" Unit::Count,
        QueueLimit::Max(IoClass::AsyncRead).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::AsyncRead), v),
        "Of reads ahead, at most so many are active on a device.";
    AsyncWriteMinActive "zfs_vdev_async_write_min_active" Unit::Count,
        QueueLimit::Min(IoClass::AsyncWrite).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::AsyncWrite), v),
        "Of asynchronous writes, which are those of txgs, so many are active on a device \
         while other classes wait.";
    AsyncWriteMaxActive "zfs_vdev_async_write_max_active" Unit::Count,
        QueueLimit::Max(IoClass::AsyncWrite).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::AsyncWrite), v),
        "Of asynchronous writes, which are those of txgs, at most so many are active on a \
         device. Between the two limits their number follows the dirty data.";
    ScrubMinActive "zfs_vdev_scrub_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Scrub).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::Scrub), v),
        "Of scrub reads, so many are active on a device while other classes wait.";
    ScrubMaxActive "zfs_vdev_scrub_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Scrub).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::Scrub), v),
        "Of scrub reads, at most so many are active on a device.";
    RemovalMinActive "zfs_vdev_removal_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Removal).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::Removal), v),
        "Of reads and writes of device removal, so many are active on a device while \
         other classes wait.";
    RemovalMaxActive "zfs_vdev_removal_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Removal).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::Removal), v),
        "Of reads and writes of device removal, at most so many are active on a device.";
    InitializingMinActive "zfs_vdev_initializing_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Initializing).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::Initializing), v),
        "Of writes that initialize, so many are active on a device while other classes \
         wait.";
    InitializingMaxActive "zfs_vdev_initializing_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Initializing).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::Initializing), v),
        "Of writes that initialize, at most so many are active on a device.";
    TrimMinActive "zfs_vdev_trim_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Trim).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::Trim), v),
        "Of trims, so many are active on a device while other classes wait.";
    TrimMaxActive "zfs_vdev_trim_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Trim).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::Trim), v),
        "Of trims, at most so many are active on a device.";
    RebuildMinActive "zfs_vdev_rebuild_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Rebuild).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Min(IoClass::Rebuild), v),
        "Of reads and writes of sequential rebuilding, so many are active on a device \
         while other classes wait.";
    RebuildMaxActive "zfs_vdev_rebuild_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Rebuild).default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::Max(IoClass::Rebuild), v),
        "Of reads and writes of sequential rebuilding, at most so many are active on a \
         device.";
    MaxActive "zfs_vdev_max_active" Unit::Count,
        QueueLimit::AllMax.default_value(), 1..=1 << 20,
        |s, v| s.queues.set(QueueLimit::AllMax, v),
        "Requests of all classes that are active on a device at most.";
    AsyncWriteActiveMinDirtyPercent "zfs_vdev_async_write_active_min_dirty_percent" Unit::Percent,
        QueueLimit::DirtyLowPercent.default_value(), 0..=100,
        |s, v| s.queues.set(QueueLimit::DirtyLowPercent, v),
        "Up to this part of zfs_dirty_data_max asynchronous writes keep to their least.";
    AsyncWriteActiveMaxDirtyPercent "zfs_vdev_async_write_active_max_dirty_percent" Unit::Percent,
        QueueLimit::DirtyHighPercent.default_value(), 0..=100,
        |s, v| s.queues.set(QueueLimit::DirtyHighPercent, v),
        "From this part of zfs_dirty_data_max on asynchronous writes have their most.";
    AggregationLimit "zfs_vdev_aggregation_limit" Unit::Bytes,
        QueueLimit::Aggregation.default_value(), 0..=16 << 20,
        |s, v| s.queues.set(QueueLimit::Aggregation, v),
        "Neighbouring requests are joined up to this size, on rotating disks. 0 joins \
         none.";
    AggregationLimitNonRotating "zfs_vdev_aggregation_limit_non_rotating" Unit::Bytes,
        QueueLimit::AggregationNonRotating.default_value(), 0..=16 << 20,
        |s, v| s.queues.set(QueueLimit::AggregationNonRotating, v),
        "The same on devices without moving parts.";
    ReadGapLimit "zfs_vdev_read_gap_limit" Unit::Bytes,
        QueueLimit::ReadGap.default_value(), 0..=16 << 20,
        |s, v| s.queues.set(QueueLimit::ReadGap, v),
        "Reads are joined across gaps of so many bytes.";
    NiaDelay "zfs_vdev_nia_delay" Unit::Count,
        QueueLimit::NiaDelay.default_value(), 0..=1 << 20,
        |s, v| s.queues.set(QueueLimit::NiaDelay, v),
        "So many requests of scrubs and the like must have ended with nothing else going \
         on before there may be more than their least.";
    NiaCredit "zfs_vdev_nia_credit" Unit::Count,
        QueueLimit::NiaCredit.default_value(), 0..=1 << 20,
        |s, v| s.queues.set(QueueLimit::NiaCredit, v),
        "So many requests of scrubs and the like may begin after each that somebody waits \
         for.";
}
