//! What the machines of these studies have in common: a disk of 7200 rpm whose model is not named,
//! and the engine of the time before 2017.

use crate::disk::{Host, Order, Preset, Rotating, Seek, Spec};
use crate::parameter::{Number, Origin, Parameter};

/// Bytes that a program and the engine copy in a second.
pub(super) const COPY_MIB_PER_S: f64 = 1024.0;

/// What is read ahead of all readers: nothing, because zinc could not when this was predicted. What
/// it changes can be tried.
pub(super) const READ_AHEAD: Number =
    Number::whole("read ahead of readers, at most", 0.0, "MiB", Origin::Engine);

/// A disk of 7200 rpm as data sheets of 2012 have them, with such a sustained rate outside, seeks
/// that are this many times as long, and no write cache.
pub(super) fn disk_7200(capacity_bytes: u64, bytes_per_second: f64, seeks: f64) -> Preset {
    Preset {
        name: "held-out-7200".to_owned(),
        description: "a disk of 7200 rpm".to_owned(),
        source: "data sheets of such disks".to_owned(),
        capacity_bytes,
        host: Host { command_cpu_us: 0.0, max_transfer_bytes: 1 << 20 },
        disk: Spec::Rotating(Rotating {
            rpm: 7200.0,
            heads: 8,
            zones: 16,
            track_sectors_multiple: 1,
            outer_bytes_per_second: bytes_per_second,
            inner_bytes_per_second: bytes_per_second / 2.0,
            head_switch_us: 900.0,
            seek: Seek { one_track_ms: 0.8, average_ms: 8.2, full_ms: 16.0 }.times(seeks),
            write_settle_us: 500.0,
            command_us: 50.0,
            bus_bytes_per_second: 600e6,
            depth: 32,
            order: Order::Shortest,
            read_ahead_bytes: 2 << 20,
            segments: 16,
            write_cache_bytes: 0,
            write_cache: false,
            shingled: None,
        }),
    }
}

/// What of that disk no study says; a row may have chosen that it caches no writes.
pub(super) fn parameters_of_disk(no_write_cache: Origin) -> Vec<Parameter> {
    let assumed = |name: &str, value: f64, unit| Parameter::new(name, value, unit, Origin::Assumed);
    vec![
        Parameter::choice("disk: seeks", "0.8, 8.2 and 16 ms", Origin::Assumed),
        Parameter::choice("disk: write cache", "off", no_write_cache),
        assumed("disk: time of a command", 50.0, "us"),
        assumed("disk: reads on", 2.0, "MiB"),
    ]
}

/// The engine of 2013 to 2016 on a machine whose dirty data are at most this many bytes.
pub(super) fn tunables_of_2013(dirty_max: u64) -> Vec<String> {
    // It pushed a txg at 64 MiB.
    let push = ((64 << 20) as f64 * 100.0 / dirty_max as f64).round().clamp(1.0, 100.0);
    vec![
        format!("zfs_dirty_data_max={dirty_max}"),
        format!("zfs_dirty_data_sync_percent={push}"),
        "zfs_vdev_async_write_min_active=1".to_owned(),
        "zfs_vdev_async_write_max_active=10".to_owned(),
        "zfs_vdev_aggregation_limit=131072".to_owned(),
        "zinc_awaited_is_urgent=0".to_owned(),
    ]
}

/// What of that engine is not a default of today.
pub(super) fn parameters_of_2013() -> Vec<Parameter> {
    let of = |name: &str, value: f64, unit, origin| Parameter::new(name, value, unit, origin);
    vec![
        of("dirty data that push a txg", 64.0, "MiB", Origin::Engine),
        of("asynchronous writes, least", 1.0, "", Origin::Engine),
        of("asynchronous writes, most", 10.0, "", Origin::Engine),
        of("neighbours are joined up to", 128.0, "KiB", Origin::Engine),
        Parameter::choice("awaited txgs are urgent", "no", Origin::Engine),
    ]
}
