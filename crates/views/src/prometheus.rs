//! Snapshots in the text formats that Prometheus and other systems collect.
//!
//! The two forms differ little: in OpenMetrics a family of counters is named without `_total`, and
//! the text says where it ends.
//!
//! Names begin with `zinc_` and end with the unit; counters end with `_total`. Seconds and bytes
//! only. Buckets of a histogram are cumulative; their bounds are powers of two of nanoseconds, or
//! of bytes, whatever was counted, so that a series never appears or disappears.

use crate::stores;
use engine::live::TxgRecord;
use engine::pools::SUSPENDED;
use engine::stats::{ClassStats, Histogram, Snapshot, StageProfile, StoreUsage, VdevStats};
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// Bounds of the buckets of times: 2^10 ns (a microsecond) to 2^35 ns (half a minute).
const TIME_CLASSES: std::ops::Range<usize> = 9..35;
/// Bounds of the buckets of sizes: 512 bytes to 16 MiB.
const SIZE_CLASSES: std::ops::Range<usize> = 8..24;

/// The one figure of stores that is not a counter.
const CACHES_FAILED: &str = "zinc_store_caches_failed";
/// States of a pool.
const STATES: [&str; 6] = ["ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", SUSPENDED];

/// A form of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Prometheus' own, 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Form {
    /// The one for a client that takes these media types (`Accept` of HTTP): OpenMetrics where it
    /// is named and not refused, as by Prometheus itself.
    #[must_use]
    pub fn accepted(types: &str) -> Self {
        let is_open = types.split(',').any(|one| {
            let mut parts = one.split(';').map(str::trim);
            let is_it = parts.next() == Some("application/openmetrics-text");
            is_it && !parts.any(|p| p.strip_prefix("q=").and_then(|q| q.parse().ok()) == Some(0.0))
        });
        if is_open { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Its `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The text for one or more pools. Every family is contiguous, as the formats require.
#[must_use]
pub fn text(pools: &[Snapshot], form: Form) -> String {
    let mut w = Writer { out: String::new(), form };
    pool_families(&mut w, pools);
    vdev_families(&mut w, pools);
    store_families(&mut w, pools);
    class_families(&mut w, pools);
    other_families(&mut w, pools);
    if form == Form::OpenMetrics {
        w.out.push_str("# EOF\n");
    }
    w.out
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

struct Writer {
    out: String,
    form: Form,
}

/// Names and values of labels.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Writer {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let name = match (self.form, kind) {
            (Form::OpenMetrics, "counter") => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.out.push_str(name);
        for (i, (key, text)) in labels.iter().enumerate() {
            self.out.push(if i == 0 { '{' } else { ',' });
            let _ = write!(self.out, "{key}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.out.push_str("\\\\"),
                    '"' => self.out.push_str("\\\""),
                    '\n' => self.out.push_str("\\n"),
                    c => self.out.push(c),
                }
            }
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// Buckets, sum and count.
    fn histogram(&mut self, name: &str, labels: Labels<'_>, h: &Histogram, scale: &Scale) {
        let bucket = format!("{name}_bucket");
        let mut below = 0u64;
        let mut counts = h.counts.iter().copied().chain(std::iter::repeat(0));
        for class in 0..scale.classes.end {
            below = below.saturating_add(counts.next().unwrap_or(0));
            if class >= scale.classes.start {
                let bound = scale.value(1u64 << (class + 1));
                let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
                self.sample(&bucket, &labels, below);
            }
        }
        let all: Vec<_> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        self.sample(&bucket, &all, h.count());
        self.sample(&format!("{name}_sum"), labels, scale.value(h.sum));
        self.sample(&format!("{name}_count"), labels, h.count());
    }
}

/// How what was counted is written.
struct Scale {
    classes: std::ops::Range<usize>,
    is_time: bool,
}

impl Scale {
    const TIME: Self = Self { classes: TIME_CLASSES, is_time: true };
    const SIZE: Self = Self { classes: SIZE_CLASSES, is_time: false };

    fn value(&self, n: u64) -> String {
        match self.is_time {
            // Exact: nine digits behind the point are nanoseconds.
            true => format!("{}.{:09}", n / 1_000_000_000, n % 1_000_000_000),
            false => n.to_string(),
        }
    }
}

fn seconds(ns: u64) -> String {
    Scale::TIME.value(ns)
}

/// A family with one sample for each pool: name, help, kind, value.
type OfPool = (&'static str, &'static str, &'static str, fn(&Snapshot) -> String);

fn pool_families(w: &mut Writer, pools: &[Snapshot]) {
    let families: [OfPool; 14] = [
        (
            "zinc_pool_suspended",
            "1 for a pool that was stopped and takes no changes.",
            "gauge",
            |s| u64::from(s.suspended.is_some()).to_string(),
        ),
        ("zinc_pool_open_seconds", "Time since the pool was opened.", "gauge", |s| {
            seconds(s.span_ns)
        }),
        ("zinc_pool_synced_txg", "The last txg that is durable.", "gauge", |s| s.txg.to_string()),
        ("zinc_pool_size_bytes", "Bytes that can be allocated.", "gauge", |s| {
            s.root().map_or(0, |v| v.size_bytes).to_string()
        }),
        ("zinc_pool_allocated_bytes", "Bytes that are allocated.", "gauge", |s| {
            s.root().map_or(0, |v| v.allocated_bytes).to_string()
        }),
        ("zinc_pool_dirty_bytes", "Dirty data in memory.", "gauge", |s| s.dirty_bytes.to_string()),
        ("zinc_pool_dirty_max_bytes", "Dirty data at which writers wait.", "gauge", |s| {
            s.dirty_max_bytes.to_string()
        }),
        ("zinc_cache_hits_total", "Lookups that found a block in the cache.", "counter", |s| {
            s.cache.hits.to_string()
        }),
        ("zinc_cache_misses_total", "Lookups that did not.", "counter", |s| {
            s.cache.misses.to_string()
        }),
        ("zinc_cache_bytes", "Bytes in the cache.", "gauge", |s| s.cache.bytes.to_string()),
        ("zinc_cache_max_bytes", "Bytes that it holds at most.", "gauge", |s| {
            s.cache.max_bytes.to_string()
        }),
        (
            "zinc_read_ahead_bytes_total",
            "Bytes read into the cache before a reader asked for them.",
            "counter",
            |s| s.cache.ahead_bytes.to_string(),
        ),
        (
            "zinc_read_ahead_used_bytes_total",
            "Of these, bytes that a reader came for.",
            "counter",
            |s| s.cache.ahead_used_bytes.to_string(),
        ),
        (
            "zinc_read_ahead_wasted_bytes_total",
            "Of these, bytes that no reader came for in time.",
            "counter",
            |s| s.cache.ahead_wasted_bytes.to_string(),
        ),
    ];
    write_families(w, pools, &families);
    read_repairs(w, pools);
    pool_states(w, pools);
}

fn write_families(w: &mut Writer, pools: &[Snapshot], families: &[OfPool]) {
    for (name, help, kind, value) in families {
        w.family(name, kind, help);
        for s in pools {
            w.sample(name, &[("pool", &s.pool)], value(s));
        }
    }
}

/// What became of bad copies that readers met.
fn read_repairs(w: &mut Writer, pools: &[Snapshot]) {
    let families: [OfPool; 3] = [
        (
            "zinc_read_repair_blocks_total",
            "Blocks of which readers met bad copies, and that are whole again.",
            "counter",
            |s| s.read_repairs.blocks.to_string(),
        ),
        ("zinc_read_repair_bytes_total", "Bytes written for that.", "counter", |s| {
            s.read_repairs.bytes.to_string()
        }),
        (
            "zinc_read_repair_refused_total",
            "Blocks of which readers met bad copies, and that could not be repaired.",
            "counter",
            |s| s.read_repairs.refused.to_string(),
        ),
    ];
    write_families(w, pools, &families);
}

fn pool_states(w: &mut Writer, pools: &[Snapshot]) {
    let name = "zinc_pool_state";
    w.family(name, "gauge", "1 for the state that the pool is in, 0 for all others.");
    for s in pools {
        let now = s.root().map_or("", |root| &root.state);
        for state in STATES {
            w.sample(name, &[("pool", &s.pool), ("state", state)], u8::from(now == state));
        }
    }
    let name = "zinc_pool_suspended_info";
    w.family(name, "gauge", "Why a pool was stopped; only of pools that were.");
    for s in pools {
        if let Some(why) = &s.suspended {
            w.sample(name, &[("pool", &s.pool), ("reason", why)], 1);
        }
    }
}

/// Calls `each` for every vdev below a pool, with labels of its own.
fn each_vdev(pools: &[Snapshot], mut each: impl FnMut(&VdevStats, Labels<'_>)) {
    for s in pools {
        for v in s.vdevs.iter().filter(|v| v.depth > 0) {
            let guid = v.guid.to_string();
            each(v, &[("pool", &s.pool), ("vdev", &v.name), ("guid", &guid)]);
        }
    }
}

fn vdev_families(w: &mut Writer, pools: &[Snapshot]) {
    w.family("zinc_vdev_errors_total", "counter", "Errors of a vdev, by what failed.");
    each_vdev(pools, |v, labels| {
        let kinds =
            [("read", v.read_errors), ("write", v.write_errors), ("checksum", v.checksum_errors)];
        for (kind, n) in kinds {
            let labels: Vec<_> = labels.iter().copied().chain([("kind", kind)]).collect();
            w.sample("zinc_vdev_errors_total", &labels, n);
        }
    });
    type OfVdev = (&'static str, &'static str, fn(&VdevStats) -> u64);
    let families: [OfVdev; 2] = [
        ("zinc_vdev_size_bytes", "Bytes that can be allocated on a top-level vdev.", |v| {
            v.size_bytes
        }),
        ("zinc_vdev_allocated_bytes", "Bytes that are allocated on a top-level vdev.", |v| {
            v.allocated_bytes
        }),
    ];
    for (name, help, value) in families {
        w.family(name, "gauge", help);
        each_vdev(pools, |v, labels| {
            if v.has_space {
                w.sample(name, labels, value(v));
            }
        });
    }
    let families: [OfVdev; 2] = [
        ("zinc_vdev_reflowed_bytes", "Bytes of a raidz that its expansion has moved.", |v| {
            v.reflowed_bytes
        }),
        (
            "zinc_vdev_to_reflow_bytes",
            "Bytes of a raidz that its expansion moves; 0 without one.",
            |v| v.to_reflow_bytes,
        ),
    ];
    for (name, help, value) in families {
        w.family(name, "gauge", help);
        each_vdev(pools, |v, labels| {
            if v.kind == "raidz" {
                w.sample(name, labels, value(v));
            }
        });
    }
}

/// The requests to the object stores that devices are kept in.
fn store_families(w: &mut Writer, pools: &[Snapshot]) {
    type OfStore = (&'static str, &'static str, fn(&StoreUsage) -> Vec<(&'static str, u64)>);
    let families: [OfStore; 4] = [
        ("zinc_store_requests_total", "Attempts of requests to a store of objects.", |u| {
            vec![("create", u.creates), ("get", u.gets), ("list", u.lists), ("delete", u.deletes)]
        }),
        (
            "zinc_store_retries_total",
            "Attempts after the first one of a request to a store of objects.",
            |u| vec![("all", u.retries)],
        ),
        (
            "zinc_store_bytes_total",
            "Bytes of objects that were sent to a store and came from it.",
            |u| vec![("sent", u.sent_bytes), ("received", u.received_bytes)],
        ),
        (CACHES_FAILED, "Caches on local disks that could not be opened or written to.", |u| {
            vec![("all", u.cache_failures)]
        }),
    ];
    for (name, help, values) in families {
        let kind = if name == CACHES_FAILED { "gauge" } else { "counter" };
        let stores = || pools.iter().flat_map(|s| stores::of(s).map(move |of| (&s.pool, of)));
        if stores().next().is_some() {
            w.family(name, kind, help);
        }
        for (pool, (vdev, requests)) in stores() {
            for (kind, n) in values(&requests) {
                w.sample(name, &[("pool", pool), ("vdev", vdev), ("kind", kind)], n);
            }
        }
    }
}

/// Calls `each` for every class of every device; inner vdevs are the sums of those.
fn each_class(pools: &[Snapshot], mut each: impl FnMut(&ClassStats, Labels<'_>)) {
    for s in pools {
        let leaves = s.vdevs.iter().enumerate().filter(|(i, v)| {
            v.depth > 0 && s.vdevs.get(i + 1).is_none_or(|next| next.depth <= v.depth)
        });
        for (_, v) in leaves {
            let guid = v.guid.to_string();
            for c in &v.io {
                let labels =
                    [("pool", &*s.pool), ("vdev", &v.name), ("guid", &guid), ("class", &c.class)];
                each(c, &labels);
            }
        }
    }
}

fn class_families(w: &mut Writer, pools: &[Snapshot]) {
    type OfClass = (&'static str, &'static str, &'static str, fn(&ClassStats) -> u64);
    let families: [OfClass; 5] = [
        ("zinc_io_operations_total", "counter", "Requests that ended at a device.", |c| {
            c.counts.ops
        }),
        ("zinc_io_bytes_total", "counter", "Bytes of requests that ended well.", |c| {
            c.counts.bytes
        }),
        ("zinc_io_errors_total", "counter", "Requests that failed.", |c| c.counts.errors),
        ("zinc_io_pending", "gauge", "Requests that wait in the queue.", |c| c.counts.pending),
        ("zinc_io_active", "gauge", "Requests that are at the device.", |c| c.counts.active),
    ];
    for (name, kind, help, value) in families {
        w.family(name, kind, help);
        each_class(pools, |c, labels| w.sample(name, labels, value(c)));
    }
    type Times = (&'static str, &'static str, fn(&ClassStats) -> &Histogram, Scale);
    let histograms: [Times; 5] = [
        (
            "zinc_io_queue_seconds",
            "Time from arrival to the device.",
            |c| &c.counts.queue_ns,
            Scale::TIME,
        ),
        ("zinc_io_disk_seconds", "Time at the device.", |c| &c.counts.disk_ns, Scale::TIME),
        ("zinc_io_wait_seconds", "Both times together.", |c| &c.counts.total_ns, Scale::TIME),
        (
            "zinc_io_individual_size_bytes",
            "Sizes of requests that went to the device alone.",
            |c| &c.counts.individual_bytes,
            Scale::SIZE,
        ),
        (
            "zinc_io_aggregated_size_bytes",
            "Sizes of requests that were made of several.",
            |c| &c.counts.aggregated_bytes,
            Scale::SIZE,
        ),
    ];
    for (name, help, value, scale) in histograms {
        w.family(name, "histogram", help);
        each_class(pools, |c, labels| {
            w.histogram(name, labels, value(c), &scale);
        });
    }
}

fn other_families(w: &mut Writer, pools: &[Snapshot]) {
    w.family("zinc_stage_bytes_total", "counter", "Bytes that went into a stage.");
    for s in pools {
        for stage in &s.stages {
            let labels = [("pool", &*s.pool), ("stage", &*stage.stage)];
            w.sample("zinc_stage_bytes_total", &labels, stage.bytes);
        }
    }
    w.family("zinc_stage_seconds", "histogram", "Time that a block spent in a stage.");
    for s in pools {
        for stage in &s.stages {
            let labels = [("pool", &*s.pool), ("stage", &*stage.stage)];
            w.histogram("zinc_stage_seconds", &labels, &stage.time_ns, &Scale::TIME);
        }
    }
    let names = [
        ("zinc_block_operations_total", "Blocks read and written at devices, by type and level."),
        ("zinc_block_bytes_total", "Their bytes."),
    ];
    for (i, (name, help)) in names.into_iter().enumerate() {
        w.family(name, "counter", help);
        for s in pools {
            for b in &s.blocks {
                let level = b.level.to_string();
                let values = [[b.reads, b.read_bytes], [b.writes, b.written_bytes]];
                for (direction, values) in ["read", "write"].into_iter().zip(values) {
                    let labels = [
                        ("pool", &*s.pool),
                        ("type", &*b.kind),
                        ("level", &*level),
                        ("direction", direction),
                    ];
                    w.sample(name, &labels, values[i]);
                }
            }
        }
    }
    let names = [
        ("zinc_dataset_operations_total", "Reads and writes that users made."),
        ("zinc_dataset_bytes_total", "Their bytes."),
    ];
    for (i, (name, help)) in names.into_iter().enumerate() {
        w.family(name, "counter", help);
        for s in pools {
            for d in &s.datasets {
                let values = [[d.reads, d.read_bytes], [d.writes, d.written_bytes]];
                for (direction, values) in ["read", "write"].into_iter().zip(values) {
                    let labels =
                        [("pool", &*s.pool), ("dataset", &*d.name), ("direction", direction)];
                    w.sample(name, &labels, values[i]);
                }
            }
        }
    }
    w.family("zinc_dataset_seconds", "histogram", "Time that reads and writes of users took.");
    for s in pools {
        for d in &s.datasets {
            for (direction, times) in [("read", &d.read_ns), ("write", &d.write_ns)] {
                let labels = [("pool", &*s.pool), ("dataset", &*d.name), ("direction", direction)];
                w.histogram("zinc_dataset_seconds", &labels, times, &Scale::TIME);
            }
        }
    }
    thread_families(w, pools);
    txg_families(w, pools);
}

/// The profile: which threads did what in the write pipeline.
fn thread_families(w: &mut Writer, pools: &[Snapshot]) {
    type OfStage = (&'static str, &'static str, &'static str, fn(&StageProfile) -> String);
    let families: [OfStage; 3] = [
        (
            "zinc_thread_stage_operations_total",
            "counter",
            "Blocks and I/Os in a stage of writing, by kind of thread.",
            |s| s.count.to_string(),
        ),
        ("zinc_thread_stage_seconds_total", "counter", "Their time, of all threads.", |s| {
            seconds(ns(s.time))
        }),
        (
            "zinc_thread_stage_busy_seconds_total",
            "counter",
            "Time in which at least one was in the stage.",
            |s| seconds(ns(s.busy)),
        ),
    ];
    for (name, kind, help, value) in families {
        w.family(name, kind, help);
        for s in pools {
            for k in &s.profile.kinds {
                let thread = k.kind.to_string();
                for (stage, profile) in k.stages().into_iter().filter(|(_, p)| p.count > 0) {
                    let labels = [("pool", &*s.pool), ("thread", &*thread), ("stage", stage)];
                    w.sample(name, &labels, value(profile));
                }
            }
        }
    }
}

/// Of the last txg: a collector that comes every few seconds sees the most of them.
fn txg_families(w: &mut Writer, pools: &[Snapshot]) {
    type OfTxg = (&'static str, &'static str, fn(&TxgRecord) -> String);
    let families: [OfTxg; 4] = [
        ("zinc_txg_sync_seconds", "Time that the last txg took to sync.", |t| seconds(ns(t.sync))),
        ("zinc_txg_written_bytes", "Bytes that the last txg wrote.", |t| t.written.to_string()),
        ("zinc_txg_delays", "Delays of writers in the last txg.", |t| t.delays.to_string()),
        ("zinc_txg_delayed_seconds", "Their sum.", |t| seconds(ns(t.delayed))),
    ];
    for (name, help, value) in families {
        w.family(name, "gauge", help);
        for s in pools {
            if let Some(txg) = s.txgs.last() {
                w.sample(name, &[("pool", &s.pool)], value(txg));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stats::{BlockStats, ClassCounts, DatasetStats, KindProfile, Profile, StageStats};
    use std::collections::{BTreeMap, BTreeSet};

    /// One sample: name, labels, value.
    type Sample = (String, BTreeMap<String, String>, f64);

    /// Reads the text format, strictly.
    fn parse(text: &str) -> (BTreeMap<String, String>, Vec<Sample>) {
        let (mut types, mut samples) = (BTreeMap::new(), Vec::new());
        let mut helped = BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help has a text");
                assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type has a name");
                assert!(helped.contains(name), "{line}");
                assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
                continue;
            }
            samples.push(sample(line));
        }
        (types, samples)
    }

    fn sample(line: &str) -> Sample {
        let end = line.find(['{', ' ']).expect("a name ends");
        let name = line[..end].to_owned();
        let legal = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(name.starts_with("zinc_") && name.chars().all(legal), "{line}");
        let mut labels = BTreeMap::new();
        let mut rest = &line[end..];
        if rest.starts_with('{') {
            loop {
                let equals = rest.find('=').expect("a label has a value");
                let key = rest[1..equals].to_owned();
                assert_eq!(&rest[equals + 1..equals + 2], "\"");
                let mut value = String::new();
                let mut chars = rest[equals + 2..].char_indices();
                let close = loop {
                    match chars.next().expect("a value is closed") {
                        (at, '"') => break at,
                        (_, '\\') => value.push(match chars.next().expect("escaped").1 {
                            'n' => '\n',
                            c @ ('\\' | '"') => c,
                            c => panic!("\\{c}"),
                        }),
                        (_, c) => value.push(c),
                    }
                };
                assert!(labels.insert(key, value).is_none(), "{line}");
                rest = &rest[equals + 2 + close + 1..];
                if let Some(end) = rest.strip_prefix('}') {
                    rest = end;
                    break;
                }
                assert!(rest.starts_with(','), "{line}");
            }
        }
        let value = rest.strip_prefix(' ').expect("a value").parse().expect("a number");
        (name, labels, value)
    }

    fn snapshot() -> Snapshot {
        let mut time = Histogram { sum: 3_000_000_000, ..Histogram::default() };
        (time.counts[0], time.counts[10]) = (1, 2);
        let (ops, bytes, queue_ns) = (3, 12_288, time.clone());
        let counts = ClassCounts { ops, bytes, queue_ns, ..ClassCounts::default() };
        let class = ClassStats { class: "async_write".to_owned(), counts };
        let vdev = |depth, name: &str, io: Vec<ClassStats>| VdevStats {
            depth,
            name: name.to_owned(),
            guid: u64::from(depth) + 7,
            has_space: depth < 2,
            size_bytes: 100,
            io,
            ..VdevStats::default()
        };
        Snapshot {
            pool: "tank".to_owned(),
            span_ns: 1_500_000_000,
            vdevs: vec![
                vdev(0, "tank", vec![class.clone()]),
                vdev(1, "mirror-0", vec![class.clone()]),
                vdev(2, "/img/a \"odd\\name\"\n", vec![class]),
            ],
            stages: vec![StageStats {
                stage: "checksum".to_owned(),
                bytes: 9,
                time_ns: time,
                ..StageStats::default()
            }],
            blocks: vec![BlockStats {
                kind: "ZFS plain file".to_owned(),
                writes: 4,
                ..BlockStats::default()
            }],
            datasets: vec![DatasetStats {
                name: "tank/home".to_owned(),
                read_bytes: 5,
                ..DatasetStats::default()
            }],
            txgs: vec![TxgRecord {
                txg: 4,
                sync: Duration::from_millis(250),
                ..TxgRecord::default()
            }],
            profile: Profile {
                kinds: vec![KindProfile {
                    checksum: StageProfile {
                        count: 6,
                        time: Duration::from_millis(1500),
                        ..StageProfile::default()
                    },
                    ..KindProfile::default()
                }],
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (types, samples) = parse(&text(&[snapshot(), Snapshot::default()], Form::Prometheus));
        let of = |name: &str| samples.iter().filter(|s| s.0 == name).collect::<Vec<_>>();
        let value = |name: &str| of(name)[0].2;
        assert_eq!(value("zinc_pool_open_seconds"), 1.5);
        assert_eq!(value("zinc_pool_size_bytes"), 100.0);
        let operations = of("zinc_io_operations_total");
        // Of the leaf only, with its name as it is.
        assert_eq!(operations.len(), 1);
        assert_eq!(operations[0].1["vdev"], "/img/a \"odd\\name\"\n");
        assert_eq!((operations[0].1["class"].as_str(), operations[0].2), ("async_write", 3.0));
        assert_eq!(value("zinc_txg_sync_seconds"), 0.25);
        assert_eq!(of("zinc_block_operations_total")[1].2, 4.0);
        assert_eq!(of("zinc_dataset_bytes_total")[0].2, 5.0);
        assert_eq!(types["zinc_io_bytes_total"], "counter");
        let stages = of("zinc_thread_stage_seconds_total");
        assert_eq!((stages.len(), stages[0].2), (1, 1.5));
        assert_eq!(stages[0].1["thread"], "application");
        assert_eq!(stages[0].1["stage"], "checksum");
    }

    #[test]
    fn histograms_are_cumulative_and_end_with_all() {
        let (types, samples) = parse(&text(&[snapshot()], Form::Prometheus));
        assert_eq!(types["zinc_io_queue_seconds"], "histogram");
        let buckets: Vec<_> =
            samples.iter().filter(|s| s.0 == "zinc_io_queue_seconds_bucket").collect();
        let counts: Vec<f64> = buckets.iter().map(|b| b.2).collect();
        assert_eq!((counts[0], counts[1]), (1.0, 3.0), "2^10 ns, 2^11 ns");
        assert!(counts.is_sorted() && counts.last() == Some(&3.0));
        assert_eq!(buckets[0].1["le"], "0.000001024");
        assert_eq!(buckets.last().map(|b| b.1["le"].as_str()), Some("+Inf"));
        let of = |name: &str| samples.iter().find(|s| s.0 == name).map(|s| s.2);
        assert_eq!(of("zinc_io_queue_seconds_sum"), Some(3.0));
        assert_eq!(of("zinc_io_queue_seconds_count"), Some(3.0));
        // Every sample belongs to a family that was declared.
        for (name, ..) in &samples {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|s| name.strip_suffix(s));
            let known = types.contains_key(name) || base.is_some_and(|b| types.contains_key(b));
            assert!(known, "{name}");
        }
    }

    #[test]
    fn openmetrics_is_for_those_that_take_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5,*/*;q=0.1";
        assert_eq!(Form::accepted(prometheus), Form::OpenMetrics);
        for other in ["", "*/*", "text/plain", "application/openmetrics-text;q=0"] {
            assert_eq!(Form::accepted(other), Form::Prometheus, "{other}");
        }
        let open = text(&[snapshot()], Form::OpenMetrics);
        let (body, end) = open.split_at(open.len() - 6);
        assert_eq!(end, "# EOF\n");
        let (types, samples) = parse(body);
        assert_eq!(types["zinc_io_bytes"], "counter");
        assert!(types.iter().all(|(name, kind)| kind != "counter" || !name.ends_with("_total")));
        let counted = |name: &str| samples.iter().any(|s| s.0 == name);
        assert!(counted("zinc_io_bytes_total") && !counted("zinc_io_bytes"));
        // But for these names and the end both forms are the same.
        let old = text(&[snapshot()], Form::Prometheus);
        let samples = |text: &str| text.lines().filter(|l| !l.starts_with('#')).count();
        assert_eq!(samples(&old), samples(&open));
    }
}
