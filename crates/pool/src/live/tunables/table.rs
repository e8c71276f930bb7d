//! The table of tunables. A line is
//! `Key "name" Unit, default, min..=max, push, "Meaning.";` in the order in which they are listed.

use super::{Push, Row, Unit};
use crate::live::txg::TxgLimits;
use vdev::queue::{IoClass, QueueLimit};

/// `zfs_dirty_data_max` of this machine: OpenZFS's is a tenth of memory, at most 4 GiB. Half of
/// that part here, because the memory of what landed is kept until its txg is durable; and no more
/// than a disk of 2 GB/s needs, because the process is a guest on its machine. At least 64 MiB, for
/// a txg that is smaller is slow, unless that is more than a sixteenth of memory: a control group
/// with a smaller limit would end the process.
fn dirty_max_of_machine() -> u64 {
    match device::memory_bytes() {
        0 => TxgLimits::default().dirty_max,
        memory => {
            let least = (memory / 16).clamp(4 << 20, 64 << 20);
            (memory / 20).clamp(least, 1 << 30) >> 20 << 20
        }
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
            default: || $default,
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
        Push::Timeout,
        "A txg with changes is synced after it was open for this long.";
    DirtyDataMax "zfs_dirty_data_max" Unit::Bytes, dirty_max_of_machine(), 0x10_0000..=1 << 50,
        Push::DirtyMax,
        "Dirty data at which writers wait, whatever the throttle says. Memory held by txgs that \
         are not durable stays below twice as much. The default is a twentieth of the machine's \
         memory, at least 64 MiB and at most 1 GiB.";
    DirtyDataSyncPercent "zfs_dirty_data_sync_percent" Unit::Percent, 20, 1..=100,
        Push::SyncPercent,
        "A txg is pushed when it holds this part of zfs_dirty_data_max, or under write-limit of \
         the limit. With write-limit, 100 leaves it to the wall and the timeout, as in 2008.";
    DirtyUntilDurable "zinc_dirty_until_durable" Unit::Switch, 0, 0..=1,
        Push::DirtyUntilDurable,
        "1: data is dirty until its txg is durable, as in the engine before 2013, and not until it \
         is on the devices.";
    AwaitedIsUrgent "zinc_awaited_is_urgent" Unit::Switch, 1, 0..=1,
        Push::AwaitedIsUrgent,
        "1: while a thread waits until a txg is durable, asynchronous writes have their most \
         active requests. 0: the dirty data alone decides how many, as in OpenZFS.";
    TxgHistory "zfs_txg_history" Unit::Count, 100, 1..=10_000,
        Push::History,
        "Number of txgs whose records are kept.";

    // The throttle.
    Throttle "zinc_throttle" Unit::Word(&["dirty-delay", "write-limit", "none"]), 0, 0..=2,
        Push::Throttle,
        "The policy that slows writers down. dirty-delay is OpenZFS's of today, write-limit that \
         of 2008; none leaves them to zfs_dirty_data_max, which holds under each of them.";
    DelayMinDirtyPercent "zfs_delay_min_dirty_percent" Unit::Percent, 60, 0..=100, Push::Throttle,
        "dirty-delay: above this part of zfs_dirty_data_max each transaction is delayed.";
    DelayScale "zfs_delay_scale" Unit::Nanoseconds, 500_000, 1..=1_000_000_000, Push::Throttle,
        "dirty-delay: the delay in the middle between where delays begin and the maximum. \
         1000000000 divided by the operations that the pool does in a second is smoothest.";
    TxgSynctime "zfs_txg_synctime" Unit::Seconds, 5, 1..=3600, Push::Throttle,
        "write-limit: the target duration of a txg sync.";
    WriteLimitMin "zfs_write_limit_min" Unit::Bytes, 32 << 20, 0x1_0000..=1 << 50, Push::Throttle,
        "write-limit: the smallest limit, and the first one.";
    WriteLimitMax "zfs_write_limit_max" Unit::Bytes, 0, 0..=1 << 50, Push::Throttle,
        "write-limit: the largest limit before it is inflated. 0 takes the machine's memory, \
         shifted right by zfs_write_limit_shift.";
    WriteLimitShift "zfs_write_limit_shift" Unit::Count, 3, 0..=32, Push::Throttle,
        "write-limit: zfs_write_limit_max, as a power of two of the machine's memory.";
    WriteLimitInflated "zfs_write_limit_inflated" Unit::Bytes, 0, 0..=1 << 50, Push::Throttle,
        "write-limit: the largest limit. 0 takes zfs_write_limit_max, with each byte counted as \
         zinc_write_limit_inflation says.";
    WriteLimitOverride "zfs_write_limit_override" Unit::Bytes, 0, 0..=1 << 50, Push::Throttle,
        "write-limit: bytes of a txg instead of the measured limit, before inflation; 0 for none.";
    NoWriteThrottle "zfs_no_write_throttle" Unit::Switch, 0, 0..=1, Push::Throttle,
        "write-limit: 1 lets every writer go on at once.";
    WriteLimitInflation "zinc_write_limit_inflation" Unit::Count, 0, 0..=24, Push::Throttle,
        "write-limit: how many times its bytes a block counts. 0 counts what the vdevs make of it: \
         sides of mirrors, parity, copies, headers of gangs.";
    WriteLimitDelayEighths "zinc_write_limit_delay_eighths" Unit::Count, 7, 0..=8, Push::Throttle,
        "write-limit: eighths of the limit above which each write takes a tick of 10 ms. 0 is what \
         the code of March to autumn 2008 did by mistake.";
    WriteLimitRule "zinc_write_limit_rule" Unit::Word(&["throughput", "target"]), 0, 0..=1,
        Push::Throttle,
        "write-limit: how the limit adapts. By the throughput that was measured (late 2008 on), or \
         by how far a sync was from the target (March 2008).";

    // Blocks.
    DefaultIbs "zfs_default_ibs" Unit::Bits, 17, 12..=17, Push::IndirectShift,
        "Size of the indirect blocks of objects made from now on; those that exist keep theirs. \
         OpenZFS refuses an object with more than 17 (128 KiB).";

    MaxRecordsize "zfs_max_recordsize" Unit::Bytes, 16 << 20, 512..=16 << 20,
        Push::RecordMax,
        "Blocks of files that are made from now on are no larger, whatever recordsize says; those \
         that exist keep theirs. A number that is not a power of two is the next smaller one.";
    Checksum "zinc_checksum"
        Unit::Word(&["property", "off", "fletcher2", "fletcher4", "sha256"]), 0, 0..=4,
        Push::Checksum,
        "The checksum of data that is written from now on, in all datasets; property leaves it to \
         their property checksum. Metadata always has one.";

    BcloneEnabled "zfs_bclone_enabled" Unit::Switch, 1, 0..=1, Push::OnUse,
        "0: a program that asks for a copy within a file system (copy_file_range) gets blocks of \
         its own, as if the pool had no feature block_cloning.";

    // Mounts.
    AdminSnapshot "zfs_admin_snapshot" Unit::Switch, 0, 0..=1, Push::OnUse,
        "1: mkdir, mv and rmdir in .zfs/snapshot of a mount take, rename and destroy snapshots.";

    // Queues of the devices.
    SyncReadMinActive "zfs_vdev_sync_read_min_active" Unit::Count,
        QueueLimit::Min(IoClass::SyncRead).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::SyncRead)),
        "Of synchronous reads, this many are active on a device while other classes wait.";
    SyncReadMaxActive "zfs_vdev_sync_read_max_active" Unit::Count,
        QueueLimit::Max(IoClass::SyncRead).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::SyncRead)),
        "Of synchronous reads, at most this many are active on a device.";
    ReadersAlone "zinc_vdev_readers_alone_max" Unit::Count,
        QueueLimit::ReadersAlone.default_value(), 0..=1 << 20,
        Push::Queue(QueueLimit::ReadersAlone),
        "Synchronous reads, and those ahead of a reader, may be this many at a device without \
         moving parts while it has nothing else to do. 0: zfs_vdev_sync_read_max_active holds then \
         too.";
    SyncWriteMinActive "zfs_vdev_sync_write_min_active" Unit::Count,
        QueueLimit::Min(IoClass::SyncWrite).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::SyncWrite)),
        "Of synchronous writes, this many are active on a device while other classes wait.";
    SyncWriteMaxActive "zfs_vdev_sync_write_max_active" Unit::Count,
        QueueLimit::Max(IoClass::SyncWrite).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::SyncWrite)),
        "Of synchronous writes, at most this many are active on a device.";
    WritersAlone "zinc_vdev_writers_alone_max" Unit::Count,
        QueueLimit::WritersAlone.default_value(), 0..=1 << 20,
        Push::Queue(QueueLimit::WritersAlone),
        "Synchronous writes may be this many at a device without moving parts while it has nothing \
         else to do. 0: zfs_vdev_sync_write_max_active holds then too.";
    AsyncReadMinActive "zfs_vdev_async_read_min_active" Unit::Count,
        QueueLimit::Min(IoClass::AsyncRead).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::AsyncRead)),
        "Of reads ahead, this many are active on a device while other classes wait.";
    AsyncReadMaxActive "zfs_vdev_async_read_max_active" Unit::Count,
        QueueLimit::Max(IoClass::AsyncRead).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::AsyncRead)),
        "Of reads ahead, at most this many are active on a device.";
    AsyncWriteMinActive "zfs_vdev_async_write_min_active" Unit::Count,
        QueueLimit::Min(IoClass::AsyncWrite).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::AsyncWrite)),
        "Of asynchronous writes, which are those of txgs, this many are active on a device \
         while other classes wait.";
    AsyncWriteMaxActive "zfs_vdev_async_write_max_active" Unit::Count,
        QueueLimit::Max(IoClass::AsyncWrite).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::AsyncWrite)),
        "Of asynchronous writes, which are those of txgs, at most this many are active on a \
         device. Between the two limits their number follows the dirty data.";
    ScrubMinActive "zfs_vdev_scrub_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Scrub).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::Scrub)),
        "Of scrub reads, this many are active on a device while other classes wait.";
    ScrubMaxActive "zfs_vdev_scrub_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Scrub).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::Scrub)),
        "Of scrub reads, at most this many are active on a device.";
    RemovalMinActive "zfs_vdev_removal_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Removal).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::Removal)),
        "Of reads and writes of device removal, this many are active on a device while \
         other classes wait.";
    RemovalMaxActive "zfs_vdev_removal_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Removal).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::Removal)),
        "Of reads and writes of device removal, at most this many are active on a device.";
    InitializingMinActive "zfs_vdev_initializing_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Initializing).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::Initializing)),
        "Of writes that initialize, this many are active on a device while other classes \
         wait.";
    InitializingMaxActive "zfs_vdev_initializing_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Initializing).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::Initializing)),
        "Of writes that initialize, at most this many are active on a device.";
    TrimMinActive "zfs_vdev_trim_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Trim).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::Trim)),
        "Of trims, this many are active on a device while other classes wait.";
    TrimMaxActive "zfs_vdev_trim_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Trim).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::Trim)),
        "Of trims, at most this many are active on a device.";
    RebuildMinActive "zfs_vdev_rebuild_min_active" Unit::Count,
        QueueLimit::Min(IoClass::Rebuild).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Min(IoClass::Rebuild)),
        "Of reads and writes of sequential rebuilding, this many are active on a device \
         while other classes wait.";
    RebuildMaxActive "zfs_vdev_rebuild_max_active" Unit::Count,
        QueueLimit::Max(IoClass::Rebuild).default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::Max(IoClass::Rebuild)),
        "Of reads and writes of sequential rebuilding, at most this many are active on a \
         device.";
    MaxActive "zfs_vdev_max_active" Unit::Count,
        QueueLimit::AllMax.default_value(), 1..=1 << 20,
        Push::Queue(QueueLimit::AllMax),
        "Requests of all classes that are active on a device at most.";
    AsyncWriteActiveMinDirtyPercent "zfs_vdev_async_write_active_min_dirty_percent" Unit::Percent,
        QueueLimit::DirtyLowPercent.default_value(), 0..=100,
        Push::Queue(QueueLimit::DirtyLowPercent),
        "Up to this part of zfs_dirty_data_max asynchronous writes keep to their least.";
    AsyncWriteActiveMaxDirtyPercent "zfs_vdev_async_write_active_max_dirty_percent" Unit::Percent,
        QueueLimit::DirtyHighPercent.default_value(), 0..=100,
        Push::Queue(QueueLimit::DirtyHighPercent),
        "From this part of zfs_dirty_data_max on asynchronous writes have their most.";
    AggregationLimit "zfs_vdev_aggregation_limit" Unit::Bytes,
        QueueLimit::Aggregation.default_value(), 0..=16 << 20,
        Push::Queue(QueueLimit::Aggregation),
        "Neighbouring requests are joined up to this size, on rotating disks. 0 joins \
         none.";
    AggregationLimitNonRotating "zfs_vdev_aggregation_limit_non_rotating" Unit::Bytes,
        QueueLimit::AggregationNonRotating.default_value(), 0..=16 << 20,
        Push::Queue(QueueLimit::AggregationNonRotating),
        "The same on devices without moving parts.";
    ReadGapLimit "zfs_vdev_read_gap_limit" Unit::Bytes,
        QueueLimit::ReadGap.default_value(), 0..=16 << 20,
        Push::Queue(QueueLimit::ReadGap),
        "Reads are joined across gaps of this many bytes.";
    NiaDelay "zfs_vdev_nia_delay" Unit::Count,
        QueueLimit::NiaDelay.default_value(), 0..=1 << 20,
        Push::Queue(QueueLimit::NiaDelay),
        "This many requests of scrubs and the like must have ended with nothing else going \
         on before there may be more than their least.";
    NiaCredit "zfs_vdev_nia_credit" Unit::Count,
        QueueLimit::NiaCredit.default_value(), 0..=1 << 20,
        Push::Queue(QueueLimit::NiaCredit),
        "This many requests of scrubs and the like may begin after each that a thread waits \
         for.";

    // Devices that are slow, or hang.
    Silence "zinc_vdev_silence_ms" Unit::Milliseconds,
        QueueLimit::Silence.default_value(), 100..=86_400_000,
        Push::Queue(QueueLimit::Silence),
        "A device that has requests and has answered none for this long hangs: they are given up, \
         and it is FAULTED as far as the others do without it.";
    DeadmanZiotime "zfs_deadman_ziotime_ms" Unit::Milliseconds,
        QueueLimit::Lost.default_value(), 100..=86_400_000,
        Push::Queue(QueueLimit::Lost),
        "A request that has not come back for this long is given up, also when the device answers \
         others.";
    SlowIo "zio_slow_io_ms" Unit::Milliseconds,
        QueueLimit::Slow.default_value(), 1..=86_400_000,
        Push::Queue(QueueLimit::Slow),
        "A request that takes this long is counted as slow.";
    ReadLatePercentile "zinc_read_late_percentile" Unit::Percent,
        QueueLimit::LatePercentile.default_value(), 1..=100,
        Push::Queue(QueueLimit::LatePercentile),
        "In a pool that is held, a read that takes twice as long as this part of the last reads \
         of its device did is made elsewhere as well.";
    ReadElsewhere "zinc_read_elsewhere_percent" Unit::Percent,
        QueueLimit::ElsewherePercent.default_value(), 0..=100,
        Push::Queue(QueueLimit::ElsewherePercent),
        "Reads that may be made elsewhere because their device is late, in percent of all.";
    ReadSitOut "zfs_vdev_read_sit_out_secs" Unit::Seconds,
        QueueLimit::SitOutMax.default_value(), 0..=86_400,
        Push::Queue(QueueLimit::SitOutMax),
        "A device whose reads are late again and again is not read from for this long at most, \
         where others have the same; it begins with ten seconds. 0: it is read from all the same.";

    // The write pipeline.
    ZioTaskqThreads "zio_taskq_threads" Unit::Count, 0, 0..=1024,
        Push::IssueThreads,
        "Threads that issue device writes, one at a time each, for the whole pool. 0: none, the \
         devices are written asynchronously.";
    LeafSyncThreads "zinc_leaf_sync_threads" Unit::Count, 0, 0..=1024, Push::OnUse,
        "Workers of a sync's level 0, which compress, checksum and allocate. 0: as many as there \
         are processors, and never more; 1: the sync thread alone.";
    LeafSyncCrowd "zinc_leaf_sync_crowd" Unit::Switch, 0, 0..=1, Push::OnUse,
        "1: as many workers as zinc_leaf_sync_threads says are started, also when there are not so \
         many processors.";
    InFlightMax "zinc_in_flight_max" Unit::Bytes, zio::IN_FLIGHT_MAX, 0x10_0000..=1 << 50,
        Push::InFlightMax,
        "Bytes handed to the devices and not answered yet, over which a sync waits for room.";

    // The instruments.
    Stats "zinc_stats" Unit::Switch, 1, 0..=1, Push::Counting,
        "0: nothing is counted, to measure what counting costs. What a txg did is still recorded, \
         for the throttle needs it.";

    // Scrub and resilver.
    ScanPiece "zfs_scrub_min_time_ms" Unit::Milliseconds, 200, 1..=60_000,
        Push::OnUse,
        "A scrub or resilver walks on for this long at a time; no txg ends meanwhile. A scrub \
         reads what it has collected for this long at a time.";
    ResilverPiece "zfs_resilver_min_time_ms" Unit::Milliseconds, 3000, 1..=60_000,
        Push::OnUse,
        "A resilver reads what it has collected for this long at a time. Txgs end meanwhile.";
    ScanPlaceEach "zfs_scan_checkpoint_intval" Unit::Seconds, 300, 0..=86_400,
        Push::OnUse,
        "How often a scrub or resilver reads all that it has collected, at least, and writes where \
         it is. A crash or an export in between repeats as much of it. Where nothing is collected, \
         it writes that every 5 seconds at least.";
    ScanLegacy "zfs_scan_legacy" Unit::Switch, 0, 0..=1,
        Push::OnUse,
        "1: a scrub or resilver reads blocks as it comes to them, 16 MiB at a time, and does not \
         collect many of them to be read in the order of the disks. Asked when it begins.";
    ScanMemoryPart "zfs_scan_mem_lim_fact" Unit::Count, 100, 1..=1 << 20,
        Push::OnUse,
        "A scrub or resilver collects blocks until they take this part of the machine's memory: \
         100 is a hundredth. 16 MiB it takes at least; that is 65,000 blocks.";
    ScanVdevLimit "zfs_scan_vdev_limit" Unit::Bytes, 16 << 20, 0x10_0000..=1 << 30,
        Push::OnUse,
        "Bytes that a scrub or resilver reads at once, for each leaf of a top-level vdev; eight \
         times as many where a device is in an object store. 128 MiB are read at once at most.";
    ScrubShare "zinc_scrub_share_percent" Unit::Percent, 20, 1..=100,
        Push::OnUse,
        "While the pool is read and written, a scrub reads for this part of the time and rests for \
         the other. 100: it does not rest. A resilver never does.";
    ScanSuspend "zfs_scan_suspend_progress" Unit::Switch, 0, 0..=1,
        Push::OnUse,
        "Scrub, scrub of errors and resilver wait.";
    RebuildSegment "zfs_rebuild_max_segment" Unit::Bytes, 1 << 20, 0x1000..=16 << 20,
        Push::OnUse,
        "Bytes of each data disk that a sequential rebuild reads at once.";
    RebuildScrub "zfs_rebuild_scrub_enabled" Unit::Switch, 1, 0..=1,
        Push::OnUse,
        "A scrub follows a sequential rebuild.";

    // Accounting.
    RecountPiece "zinc_recount_piece" Unit::Count, 256, 0..=1 << 20,
        Push::OnUse,
        "A transaction group counts the files in this many blocks of 32, where what belongs to \
         whom is counted anew. 0: that waits.";

    // Removal of devices.
    RemovalPiece "zinc_removal_piece" Unit::Bytes, 64 << 20, 0x1000..=1 << 30,
        Push::OnUse,
        "A transaction group copies this much of a device that is being removed before it ends.";
    RemovalSuspend "zfs_removal_suspend_progress" Unit::Switch, 0, 0..=1,
        Push::Txg,
        "A removal of a device waits.";

    // Expansion of raidz.
    ReflowPiece "raidz_expand_max_copy_bytes" Unit::Bytes, 160 << 20, 0x1_0000..=16 << 30,
        Push::OnUse,
        "A transaction group moves this much of a raidz that is being expanded before it ends.";
    ReflowMax "raidz_expand_max_reflow_bytes" Unit::Bytes, 0, 0..=1 << 60,
        Push::Txg,
        "An expansion of a raidz pauses when this much was moved; 0: it does not.";
    ReflowSuspend "zinc_raidz_expand_suspend_progress" Unit::Switch, 0, 0..=1,
        Push::Txg,
        "An expansion of a raidz waits.";
}
