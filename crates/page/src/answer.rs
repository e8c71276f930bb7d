//! The answers to a browser, as JSON.

use crate::recorder::{Recorded, Recorder, Remembered};
use crate::report::{Report, Scan, Space};
use crate::series::{Columns, POINTS_MAX, SeenTxg, percentile};
use engine::stats::{DatasetStats, Direction, Snapshot, VdevStats};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use term::escape;

#[derive(Serialize)]
struct Answer {
    /// Which run of the server this is, in seconds since 1970.
    began: f64,
    /// Seconds of history that are kept.
    keeps: usize,
    pools: Vec<PoolSample>,
}

/// A pool, now and since what the browser knows. Guids are text: they do not fit into the numbers
/// of JavaScript.
#[derive(Serialize)]
struct PoolSample {
    guid: String,
    name: String,
    state: String,
    suspended: Option<String>,
    txg: u64,
    /// Seconds since it was sampled.
    age: f64,
    open_seconds: f64,
    size_bytes: u64,
    allocated_bytes: u64,
    dirty_bytes: u64,
    dirty_max_bytes: u64,
    cache: [u64; 2],
    vdevs: Vec<VdevSample>,
    points: Columns,
    txgs: Vec<SeenTxg>,
    alive: Vec<SeenTxg>,
    report: Option<ReportSample>,
}

#[derive(Serialize)]
struct VdevSample {
    guid: String,
    depth: u32,
    name: String,
    section: String,
    state: String,
    remark: String,
    /// Reads, writes, blocks that failed verification.
    errors: [u64; 3],
    size_bytes: u64,
    allocated_bytes: u64,
    /// Reads, writes, bytes read and written in a second.
    rates: [f64; 4],
    /// Requests that wait, and that are at the device.
    queue: [u64; 2],
    /// Seconds: half of all requests, and 99 of a hundred, took no longer.
    wait: [Option<f32>; 2],
}

#[derive(Serialize)]
struct ReportSample {
    advice: Option<[String; 2]>,
    damaged: usize,
    scan: Option<Scan>,
    usable_bytes: u64,
    datasets: Vec<SpaceSample>,
    left_out: usize,
}

#[derive(Serialize)]
struct SpaceSample {
    #[serde(flatten)]
    space: Space,
    /// Bytes that programs read and wrote in a second.
    rates: [f64; 2],
}

impl Recorder {
    /// The answer to a browser that knows all until `after`, in seconds since 1970.
    #[must_use]
    pub fn data(&self, after: u64) -> String {
        json(self.began, &self.look(), after)
    }
}

fn json(began: f64, pools: &[Arc<Recorded>], after: u64) -> String {
    let now = |pool: &Arc<Recorded>| pool_now(&pool.state.lock(), after);
    let mut pools: Vec<PoolSample> = pools.iter().filter_map(now).collect();
    pools.sort_by(|a, b| (&a.name, &a.guid).cmp(&(&b.name, &b.guid)));
    let answer = Answer { began, keeps: POINTS_MAX, pools };
    serde_json::to_string(&answer).unwrap_or_else(|_| "{\"pools\":[]}".to_owned())
}

fn line(text: &str) -> String {
    escape::line(text).into_owned()
}

fn pool_now(of: &Remembered, after: u64) -> Option<PoolSample> {
    let now = &of.last.as_ref()?.snapshot;
    let root = now.root();
    let nothing = Snapshot::default();
    let interval = of.interval.as_ref().unwrap_or(&nothing);
    let state = root.map_or_else(String::new, |r| r.state.clone());
    let report = of.report.as_ref();
    Some(PoolSample {
        guid: now.guid.to_string(),
        name: line(&now.pool),
        state,
        suspended: now.suspended.as_deref().map(line),
        txg: now.txg,
        age: of.sampled.map_or(0.0, |at| at.elapsed().as_secs_f64()),
        open_seconds: now.span_ns as f64 / 1e9,
        size_bytes: root.map_or(0, |r| r.size_bytes),
        allocated_bytes: root.map_or(0, |r| r.allocated_bytes),
        dirty_bytes: now.dirty_bytes,
        dirty_max_bytes: now.dirty_max_bytes,
        cache: [interval.cache.hits, interval.cache.misses],
        vdevs: vdevs(now, interval, report),
        points: of.series.points_after(after),
        txgs: of.series.txgs_after(after),
        alive: of.alive(),
        report: report.map(|r| report_now(r, interval)),
    })
}

fn seconds(interval: &Snapshot) -> f64 {
    (interval.span_ns as f64 / 1e9).max(1e-9)
}

fn vdevs(now: &Snapshot, interval: &Snapshot, report: Option<&Report>) -> Vec<VdevSample> {
    let did: HashMap<(u64, &str), &VdevStats> =
        interval.vdevs.iter().map(|v| ((v.guid, v.name.as_str()), v)).collect();
    let per_second = |count: u64| count as f64 / seconds(interval);
    let one = |v: &VdevStats| {
        let did = did.get(&(v.guid, v.name.as_str()));
        let total = |d| did.map(|v| v.total(d)).unwrap_or_default();
        let (read, write) = (total(Direction::Read), total(Direction::Write));
        let mut both = read.clone();
        both.merge(&write);
        let guid = v.guid.to_string();
        VdevSample {
            depth: v.depth,
            name: line(&v.name),
            section: v.section.clone(),
            state: v.state.clone(),
            remark: report
                .and_then(|r| r.remarks.get(&guid))
                .map(|r| line(r))
                .or_else(|| views::top::expansion(v))
                .unwrap_or_default(),
            errors: [v.read_errors, v.write_errors, v.checksum_errors],
            size_bytes: v.size_bytes,
            allocated_bytes: v.allocated_bytes,
            rates: [read.ops, write.ops, read.bytes, write.bytes].map(per_second),
            queue: [both.pending, both.active],
            wait: [percentile(&both.total_ns, 50.0), percentile(&both.total_ns, 99.0)],
            guid,
        }
    };
    now.vdevs.iter().filter(|v| v.depth > 0).map(one).collect()
}

fn report_now(report: &Report, interval: &Snapshot) -> ReportSample {
    let did: HashMap<&str, &DatasetStats> =
        interval.datasets.iter().map(|d| (d.name.as_str(), d)).collect();
    let one = |space: &Space| {
        let did = did.get(space.name.as_str());
        let rate = |count: u64| count as f64 / seconds(interval);
        let rates = did.map_or([0.0; 2], |d| [d.read_bytes, d.written_bytes].map(rate));
        SpaceSample { space: Space { name: line(&space.name), ..space.clone() }, rates }
    };
    ReportSample {
        advice: report.advice.clone(),
        damaged: report.damaged,
        scan: report.scan.clone(),
        usable_bytes: report.usable_bytes,
        datasets: report.datasets.iter().map(one).collect(),
        left_out: report.left_out,
    }
}
