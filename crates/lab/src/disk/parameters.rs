//! The numbers of a preset one by one: from where to where each can be, and where it comes from.

use super::{Lanes, Lun, Order, Preset, Rotating, Spec, Ssd, preset};
use crate::error::LabError;
use crate::parameter::{Origin, Parameter};

/// A number of a preset: its name in JSON, its value, its unit, and from where to where it can be.
type Number = (&'static str, f64, &'static str, [f64; 2]);

/// A number of a disk: its name, value, unit, and where it comes from.
pub(crate) type Origins = (&'static str, f64, &'static str, Origin);

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
/// More than any disk holds.
const PIB: f64 = MIB * MIB * KIB;
/// What carries bytes: from slower than a floppy disk to faster than memory.
const RATE: [f64; 2] = [1e5, 1e13];
/// Something that a request takes, in microseconds: up to ten seconds.
const SOME_US: [f64; 2] = [1e-3, 1e7];
/// The same where it may take none.
const ANY_US: [f64; 2] = [0.0, 1e7];
/// A seek, in milliseconds.
const SEEK_MS: [f64; 2] = [0.0, 1e4];
/// Parts of a disk, or requests that it takes at once.
const COUNT: [f64; 2] = [1.0, 65_536.0];
/// A cache, and what is read ahead.
const CACHE: [f64; 2] = [0.0, MIB * MIB];

fn rotating(spec: &Rotating) -> Vec<Number> {
    let count = |n: u64| n as f64;
    let mut all = vec![
        ("rpm", spec.rpm, "/min", [60.0, 1e6]),
        ("heads", count(spec.heads), "", [1.0, 1024.0]),
        ("zones", count(spec.zones), "", [1.0, 1024.0]),
        ("track_sectors_multiple", count(spec.track_sectors_multiple), "sectors", COUNT),
        ("outer_bytes_per_second", spec.outer_bytes_per_second, "bytes/s", RATE),
        ("inner_bytes_per_second", spec.inner_bytes_per_second, "bytes/s", RATE),
        ("head_switch_us", spec.head_switch_us, "us", ANY_US),
        ("seek.one_track_ms", spec.seek.one_track_ms, "ms", SEEK_MS),
        ("seek.average_ms", spec.seek.average_ms, "ms", SEEK_MS),
        ("seek.full_ms", spec.seek.full_ms, "ms", SEEK_MS),
        ("write_settle_us", spec.write_settle_us, "us", ANY_US),
        ("command_us", spec.command_us, "us", ANY_US),
        ("bus_bytes_per_second", spec.bus_bytes_per_second, "bytes/s", RATE),
        ("depth", count(spec.depth as u64), "requests", COUNT),
        ("read_ahead_bytes", count(spec.read_ahead_bytes), "bytes", CACHE),
        ("segments", count(spec.segments as u64), "", COUNT),
        ("write_cache_bytes", count(spec.write_cache_bytes), "bytes", CACHE),
    ];
    if let Some(shingled) = &spec.shingled {
        let band = [4.0 * KIB, MIB * MIB];
        all.extend([
            ("shingled.band_bytes", count(shingled.band_bytes), "bytes", band),
            ("shingled.cache_bytes", count(shingled.cache_bytes), "bytes", [4.0 * KIB, PIB]),
            ("shingled.idle_ms", shingled.idle_ms, "ms", [1e-3, 1e9]),
        ]);
    }
    all
}

fn ssd(spec: &Ssd) -> Vec<Number> {
    let mut all = vec![
        ("units", spec.units as f64, "", COUNT),
        ("page_bytes", spec.page_bytes as f64, "bytes", [512.0, MIB]),
        ("read_us", spec.read_us, "us", SOME_US),
        ("program_us", spec.program_us, "us", SOME_US),
        ("command_us", spec.command_us, "us", ANY_US),
        ("latency_us", spec.latency_us, "us", ANY_US),
        ("bus_bytes_per_second", spec.bus_bytes_per_second, "bytes/s", RATE),
        ("depth", spec.depth as f64, "requests", COUNT),
        ("write_cache_bytes", spec.write_cache_bytes as f64, "bytes", CACHE),
    ];
    // One that there is no more of than of reads is not listed.
    if spec.write_latency_us != 0.0 {
        all.push(("write_latency_us", spec.write_latency_us, "us", ANY_US));
    }
    if let Some(garbage) = &spec.garbage {
        let block = [512.0, 64.0 * KIB * MIB];
        all.extend([
            ("garbage.block_bytes", garbage.block_bytes as f64, "bytes", block),
            ("garbage.spare_percent", garbage.spare_percent, "%", [0.1, 1000.0]),
            ("garbage.erase_us", garbage.erase_us, "us", ANY_US),
        ]);
    }
    all
}

fn lun(spec: &Lun) -> Vec<Number> {
    vec![
        ("lun_bytes_per_second", spec.lun_bytes_per_second, "bytes/s", RATE),
        ("controller_bytes_per_second", spec.controller_bytes_per_second, "bytes/s", RATE),
        ("command_us", spec.command_us, "us", ANY_US),
        ("latency_us", spec.latency_us, "us", ANY_US),
        ("latency_us_per_mib", spec.latency_us_per_mib, "us", ANY_US),
        ("crowding_us_per_mib", spec.crowding_us_per_mib, "us", ANY_US),
        ("depth", spec.depth as f64, "requests", COUNT),
        ("flush_us", spec.flush_us, "us", ANY_US),
    ]
}

fn lanes(spec: &Lanes) -> Vec<Number> {
    vec![("lanes", spec.lanes as f64, "", COUNT), ("latency_us", spec.latency_us, "us", SOME_US)]
}

impl Preset {
    fn numbers(&self) -> Vec<Number> {
        let mut all = vec![
            ("capacity_bytes", self.capacity_bytes as f64, "bytes", [MIB, PIB]),
            ("host.command_cpu_us", self.host.command_cpu_us, "us", ANY_US),
            ("host.max_transfer_bytes", self.host.max_transfer_bytes as f64, "bytes", CACHE),
        ];
        all.extend(match &self.disk {
            Spec::Rotating(spec) => rotating(spec),
            Spec::Ssd(spec) => ssd(spec),
            Spec::Lun(spec) => lun(spec),
            Spec::Lanes(spec) => lanes(spec),
        });
        all
    }

    /// Its numbers, and where those of a preset of ours come from.
    pub(crate) fn origins(&self) -> Vec<Origins> {
        let ours = preset(&self.name).is_some_and(|ours| ours == *self);
        let of = |field: &str| if ours { origin(&self.name, field) } else { Origin::Given };
        self.numbers()
            .into_iter()
            .map(|(name, value, unit, _)| (name, value, unit, of(name)))
            .collect()
    }

    /// The same with one number changed, of whole numbers by one at least; `None` where no disk is
    /// like that, or where it would be no other one.
    pub(crate) fn with(&self, name: &str, value: f64) -> Option<Self> {
        let (_, now, ..) = self.numbers().into_iter().find(|number| number.0 == name)?;
        if now == 0.0 {
            // There is none of it, and a part of that is none.
            return None;
        }
        let mut all = serde_json::to_value(self).ok()?;
        let outside = name == "capacity_bytes" || name.starts_with("host.");
        let path = format!("{}/{}", if outside { "" } else { "/disk" }, name.replace('.', "/"));
        let place = all.pointer_mut(&path)?;
        *place = if place.is_u64() {
            let rounded = value.round();
            let step = if value < now { -1.0 } else { 1.0 };
            let other = if rounded == now { now + step } else { rounded };
            serde_json::Value::from(other.max(0.0) as u64)
        } else {
            serde_json::Value::from(value)
        };
        let other: Self = serde_json::from_value(all).ok()?;
        (other.check().is_ok() && other != *self).then_some(other)
    }

    /// Refuses numbers that no disk has.
    ///
    /// # Errors
    /// Names each of them.
    pub fn check(&self) -> Result<(), LabError> {
        let mut wrong = Vec::new();
        for (name, value, unit, [least, most]) in self.numbers() {
            if !(least..=most).contains(&value) {
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                // No row of three hundred zeros.
                let value = if value < 1e15 { format!("{value}") } else { format!("{value:e}") };
                wrong.push(format!("{name} is {value}: it is from {least} to {most}{unit}"));
            }
        }
        let transfer = self.host.max_transfer_bytes;
        if (1..512).contains(&transfer) {
            wrong.push(format!("host.max_transfer_bytes is {transfer}: it is 0, or from 512 on"));
        }
        match &self.disk {
            Spec::Rotating(spec) => wrong.extend(contradictions(spec)),
            Spec::Ssd(Ssd { page_bytes, garbage: Some(garbage), .. })
                if garbage.block_bytes < *page_bytes =>
            {
                wrong.push(format!(
                    "garbage.block_bytes is {}: it holds a page, of {page_bytes} bytes",
                    garbage.block_bytes,
                ));
            }
            Spec::Ssd(_) | Spec::Lun(_) | Spec::Lanes(_) => {}
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let what = format!("no disk is like the preset {:?}", self.name);
        Err(LabError::new(what, wrong.join("; ")))
    }

    /// Its numbers as parameters of a model. Those of a preset of ours say where they come from.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let ours = preset(&self.name).is_some_and(|ours| ours == *self);
        let of = |field: &str| if ours { origin(&self.name, field) } else { Origin::Given };
        let one = |(name, value, unit, _): Number| {
            Parameter::new(format!("disk: {name}"), value, unit, of(name))
        };
        let mut all: Vec<Parameter> = self.numbers().into_iter().map(one).collect();
        if let Spec::Rotating(spec) = &self.disk {
            let order = match spec.order {
                Order::Fifo => "fifo",
                Order::Elevator => "elevator",
                Order::Shortest => "shortest",
            };
            all.push(Parameter::choice("disk: order", order, of("order")));
            let cache = if spec.write_cache { "on" } else { "off" };
            all.push(Parameter::choice("disk: write_cache", cache, of("write_cache")));
        }
        all
    }
}

/// How many times as long as the average the longest seek is at most.
pub(crate) const LONGEST_SEEK: f64 = 4.0;

/// Numbers that are each a disk's, but not together.
fn contradictions(spec: &Rotating) -> Vec<String> {
    let mut wrong = Vec::new();
    let seek = &spec.seek;
    if seek.one_track_ms > seek.average_ms || seek.average_ms > seek.full_ms {
        wrong.push(format!(
            "seek.one_track_ms, seek.average_ms and seek.full_ms are {}, {} and {}: none of them \
             can be shorter than the one before",
            seek.one_track_ms, seek.average_ms, seek.full_ms,
        ));
    }
    // Beyond that the curve through the three points would bend down below the first one.
    let (average, full) = (seek.average_ms - seek.one_track_ms, seek.full_ms - seek.one_track_ms);
    if full > LONGEST_SEEK * average {
        wrong.push(format!(
            "seek.full_ms is {} and seek.average_ms {}: without the time of one track it is \
             {LONGEST_SEEK} times as long at most",
            seek.full_ms, seek.average_ms,
        ));
    }
    let track = spec.outer_bytes_per_second.min(spec.inner_bytes_per_second) * 60.0 / spec.rpm;
    let least = 512.0 * spec.track_sectors_multiple as f64;
    if track.is_finite() && track < least {
        wrong.push(format!(
            "rpm is {} and inner_bytes_per_second {}: a track has {track:.0} bytes, and its \
             sectors at least {least}",
            spec.rpm, spec.inner_bytes_per_second,
        ));
    }
    wrong
}

/// Where a number of a preset of ours comes from.
fn origin(preset: &str, field: &str) -> Origin {
    match preset {
        "hitachi-dk32ej36n" | "hitachi-dk32ej36n-cached" => hitachi(field),
        "seek-study" => seek_study(field),
        "indirect-study" => indirect_study(field),
        "x4500-sata" => x4500(field),
        "ddn-s2a9550-lun" => ddn(field),
        "lanes-10ms" => lanes_study(field),
        _ => data_sheet(field),
    }
}

fn data_sheet(field: &str) -> Origin {
    match field {
        "capacity_bytes"
        | "rpm"
        | "seek.average_ms"
        | "seek.full_ms"
        | "seek.one_track_ms"
        | "outer_bytes_per_second"
        | "bus_bytes_per_second"
        | "write_cache_bytes"
        | "read_us"
        | "depth" => Origin::DataSheet,
        _ => Origin::Assumed,
    }
}

fn hitachi(field: &str) -> Origin {
    match field {
        "outer_bytes_per_second" => {
            Origin::Fitted("raw-sweep, 8192 KiB and 16 KiB with the write cache on")
        }
        "host.max_transfer_bytes" | "write_cache" => Origin::Study,
        "write_cache_bytes" | "depth" => Origin::Assumed,
        _ => data_sheet(field),
    }
}

fn seek_study(field: &str) -> Origin {
    match field {
        "outer_bytes_per_second" => Origin::Fitted("linear reads of 8192 bytes and more"),
        "command_us" | "bus_bytes_per_second" => {
            Origin::Fitted("linear reads of 512 to 4096 bytes")
        }
        "host.command_cpu_us" => Origin::Fitted("idle of the linear reads"),
        "rpm"
        | "seek.one_track_ms"
        | "seek.average_ms"
        | "seek.full_ms"
        | "inner_bytes_per_second"
        | "head_switch_us"
        | "track_sectors_multiple" => Origin::Fitted("random reads of all sizes"),
        _ => Origin::Assumed,
    }
}

fn indirect_study(field: &str) -> Origin {
    match field {
        "rpm" | "capacity_bytes" => Origin::Study,
        "seek.one_track_ms" | "seek.average_ms" | "seek.full_ms" => Origin::Fitted(
            "128 KiB, every 1024th block: rate (one factor for all three seek times)",
        ),
        _ => data_sheet(field),
    }
}

fn x4500(field: &str) -> Origin {
    match field {
        "outer_bytes_per_second" | "inner_bytes_per_second" => {
            Origin::Fitted("synctime 5 s and synctime 1 s: written")
        }
        "capacity_bytes" => Origin::Fitted("zpool list: size, among the sizes that were sold"),
        _ => data_sheet(field),
    }
}

fn lanes_study(field: &str) -> Origin {
    match field {
        "lanes" | "latency_us" => Origin::Study,
        _ => Origin::Assumed,
    }
}

fn ddn(field: &str) -> Origin {
    match field {
        // They have blocks of 1 MiB only, so what of their latency is any block's no row says:
        // `latency_us` is assumed.
        "latency_us_per_mib" | "crowding_us_per_mib" => {
            Origin::Fitted("8 and 16 zio threads: writers' I/O and I/Os at once")
        }
        "lun_bytes_per_second" => Origin::Study,
        "command_us" => Origin::Fitted("one unit: 210 MB/s in blocks of 128 KiB"),
        "flush_us" => Origin::Fitted("the runtimes of the three profiles"),
        _ => Origin::Assumed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::presets;

    #[test]
    fn the_presets_are_disks_and_say_where_each_number_is_from() {
        for preset in presets() {
            preset.check().expect("a disk");
            let parameters = preset.parameters();
            assert!(parameters.len() >= 5, "{}", preset.name);
            assert!(parameters.iter().all(|p| p.origin != Origin::Given), "{}", preset.name);
            let mut other = preset;
            other.capacity_bytes += 512;
            assert!(other.parameters().iter().all(|p| p.origin == Origin::Given));
        }
    }

    #[test]
    fn numbers_that_no_disk_has_are_named() {
        let refused = |change: fn(&mut Rotating)| {
            let mut wrong = preset("hdd-16t").expect("a preset");
            let Spec::Rotating(spec) = &mut wrong.disk else { panic!("no platter") };
            change(spec);
            wrong.check().expect_err("refused").why
        };
        assert!(refused(|s| s.rpm = 0.0).contains("rpm is 0"));
        assert!(refused(|s| s.rpm = -7200.0).contains("rpm is -7200"));
        assert!(refused(|s| s.rpm = f64::NAN).contains("rpm is NaN"));
        assert!(refused(|s| s.rpm = 0.9).contains("rpm is 0.9: it is from 60 to 1000000 /min"));
        assert!(refused(|s| s.rpm = 1e12).contains("rpm is 1000000000000: it is from"));
        assert!(refused(|s| s.track_sectors_multiple = 60_000).contains("its sectors at least"));
        assert!(refused(|s| s.zones = 1_000_000_000).contains("zones is 1000000000"));
        assert!(refused(|s| s.seek.full_ms = 1e300).contains("seek.full_ms is 1"));
        assert!(refused(|s| s.seek.full_ms = 9999.0).contains("4 times as long at most"));
        assert!(refused(|s| s.command_us = 1e300).contains("command_us is 1"));
        assert!(refused(|s| s.bus_bytes_per_second = 1e-300).contains("bus_bytes_per_second"));
        assert!(refused(|s| s.heads = 0).contains("heads is 0"));
        assert!(refused(|s| s.track_sectors_multiple = 0).contains("track_sectors_multiple is 0"));
        assert!(refused(|s| s.bus_bytes_per_second = f64::INFINITY).contains("bus_bytes"));
        assert!(refused(|s| s.seek.average_ms = 99.0).contains("seek.average_ms"));
        assert!(refused(|s| s.command_us = -1.0).contains("command_us is -1"));
        let two = refused(|s| (s.zones, s.depth) = (0, 0));
        assert!(two.contains("zones is 0") && two.contains("depth is 0"), "{two}");
        let mut small = preset("nvme").expect("a preset");
        small.capacity_bytes = 512;
        assert!(small.check().expect_err("refused").why.contains("capacity_bytes is 512"));
        small.capacity_bytes = 0;
        assert!(small.check().is_err());
        small.capacity_bytes = 1 << 30;
        small.host.max_transfer_bytes = 511;
        assert!(small.check().expect_err("refused").why.contains("from 512 on"));
    }

    #[test]
    fn numbers_of_flash_and_lanes_have_an_upper_end_too() {
        let mut flash = preset("nvme-full").expect("a preset");
        let Spec::Ssd(spec) = &mut flash.disk else { panic!("no flash") };
        (spec.units, spec.latency_us) = (1 << 62, 1e300);
        let Some(garbage) = &mut spec.garbage else { panic!("not full") };
        garbage.spare_percent = 1e9;
        let why = flash.check().expect_err("refused").why;
        for name in [
            "units is 4.611686018427388e18",
            "latency_us is 1e300:",
            "garbage.spare_percent is 1000000000:",
        ] {
            assert!(why.contains(name), "{name}: {why}");
        }
        let mut lanes = preset("lanes-10ms").expect("a preset");
        let Spec::Lanes(spec) = &mut lanes.disk else { panic!("no lanes") };
        spec.lanes = 1 << 62;
        assert!(lanes.check().expect_err("refused").why.contains("it is from 1 to 65536"));
    }
}
