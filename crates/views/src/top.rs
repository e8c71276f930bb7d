//! One frame of `zinc top`, as a pure function of what was seen and of the size of the screen.
//!
//! A frame is made of sections. Where they have more lines than the screen, the long ones give way
//! first, and print how many lines they have left out.

mod series;

pub use series::Series;

use crate::stores;
use engine::devices::price::Prices;
use engine::live::TxgRecord;
use engine::stats::KindProfile;
use engine::stats::{Direction, Histogram, Snapshot, VdevStats};
use std::fmt::Write as _;
use std::time::Duration;
use term::human::nicenum;

/// Heights of a sparkline's columns.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a sparkline; this many points are kept.
const POINTS: usize = 60;
/// Columns of a bar.
const BAR: usize = 24;
/// Txgs shown by name.
const TXGS: usize = 5;
/// Lines a section keeps when there is room for few.
const LINES_MIN: usize = 2;

/// The sort key of datasets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Bytes written.
    Written,
    /// Bytes read.
    Read,
    /// Reads and writes.
    Operations,
    /// Names.
    Name,
}

impl Sort {
    /// The one that follows.
    pub fn next(self) -> Self {
        match self {
            Self::Written => Self::Read,
            Self::Read => Self::Operations,
            Self::Operations => Self::Name,
            Self::Name => Self::Written,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Written => "bytes written",
            Self::Read => "bytes read",
            Self::Operations => "operations",
            Self::Name => "name",
        }
    }
}

/// The totals of one interval, for the sparklines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Bytes written in a second.
    pub written: f64,
    /// Bytes read in a second.
    pub read: f64,
}

impl Point {
    /// Of an interval.
    pub fn of(interval: &Snapshot) -> Self {
        let rate = |d| per_second(interval.traffic(d).1, interval);
        Self { written: rate(Direction::Write), read: rate(Direction::Read) }
    }
}

/// The inputs of a frame.
pub struct FrameData<'a> {
    /// The statistics of the interval.
    pub interval: &'a Snapshot,
    /// The last txgs, oldest first, also those before the interval.
    pub txgs: &'a [TxgRecord],
    /// The intervals before it and itself, oldest first.
    pub points: &'a [Point],
    /// Order of the datasets.
    pub sort: Sort,
    /// `live`, `replay`, `paused` …
    pub state: &'a str,
    /// Show the keys instead.
    pub help: bool,
    /// The prices of requests to buckets.
    pub prices: &'a Prices,
}

/// A line and whether it is a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its text.
    pub text: String,
    /// It is a heading of others.
    pub heading: bool,
}

/// Draws. No line is longer than `columns`, and there are at most `rows`.
pub fn frame(data: &FrameData<'_>, columns: usize, rows: usize) -> Vec<Line> {
    let mut sections = vec![title(data)];
    if data.help {
        sections.push(help());
    } else {
        sections.extend([
            pool(data),
            txgs(data),
            vdevs(data),
            requests(data),
            classes(data),
            stages(data),
            threads(data),
            datasets(data),
        ]);
        sections.retain(|s| !s.is_empty());
    }
    fit(&mut sections, rows);
    let mut lines: Vec<Line> = sections.into_iter().flatten().collect();
    lines.truncate(rows);
    for line in &mut lines {
        let cut = line.text.char_indices().nth(columns).map(|(at, _)| at);
        line.text.truncate(cut.unwrap_or(line.text.len()));
        line.text.truncate(line.text.trim_end().len());
    }
    lines
}

/// The same as text, for output that is not a terminal.
pub fn text(data: &FrameData<'_>) -> String {
    let lines = frame(data, usize::MAX, usize::MAX);
    lines.into_iter().map(|l| l.text + "\n").collect()
}

/// Takes lines from the longest sections until all fit, or none can be taken.
fn fit(sections: &mut [Vec<Line>], rows: usize) {
    let mut sizes: Vec<usize> = sections.iter().map(Vec::len).collect();
    while sizes.iter().sum::<usize>() > rows {
        // Of equally long ones the last: the upper ones matter more.
        let longest = (0..sizes.len()).max_by_key(|i| sizes[*i]);
        let Some(longest) = longest.filter(|i| sizes[*i] > LINES_MIN) else { break };
        sizes[longest] -= 1;
    }
    for (section, size) in sections.iter_mut().zip(sizes) {
        let left = section.len() - size;
        if left > 0 {
            section.truncate(size.saturating_sub(1));
            section.push(plain(format!("  … {} more", left + 1)));
        }
    }
}

fn heading(text: impl Into<String>) -> Line {
    Line { text: text.into(), heading: true }
}

fn plain(text: impl Into<String>) -> Line {
    Line { text: text.into(), heading: false }
}

fn seconds(interval: &Snapshot) -> f64 {
    (interval.span_ns as f64 / 1e9).max(1e-9)
}

fn per_second(count: u64, interval: &Snapshot) -> f64 {
    count as f64 / seconds(interval)
}

fn rate(count: u64, interval: &Snapshot) -> String {
    // A float that is too large becomes the largest number.
    nicenum(per_second(count, interval).round() as u64)
}

/// A time of `ns` nanoseconds, short.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}us", ns / 1_000),
        1_000_000..10_000_000 => format!("{:.1}ms", ns as f64 / 1e6),
        10_000_000..1_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{:.1}s", ns as f64 / 1e9),
    }
}

fn span(time_taken: Duration) -> String {
    time(u64::try_from(time_taken.as_nanos()).unwrap_or(u64::MAX))
}

fn percentile(histogram: &Histogram, percent: f64) -> String {
    histogram.percentile(percent).map_or_else(|| "-".to_owned(), time)
}

fn bar(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { (part as f64 / whole as f64).clamp(0.0, 1.0) };
    let full = (share * BAR as f64).round() as usize;
    format!("[{}{}] {:3.0}%", "#".repeat(full), ".".repeat(BAR - full), share * 100.0)
}

fn sparkline(values: impl Iterator<Item = f64> + Clone) -> (String, f64) {
    let max = values.clone().fold(0.0, f64::max);
    let level = |v: f64| {
        let share = if max > 0.0 { v / max } else { 0.0 };
        LEVELS[((share * 7.0).round() as usize).min(7)]
    };
    (values.map(level).collect(), max)
}

fn title(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    let state = now.root().map_or("", |r| r.state.as_str());
    let text = format!(
        "zinc top  {}  {state}  txg {}  interval {:.1} s  {}  (h: help)",
        now.pool,
        now.txg,
        seconds(now),
        data.state,
    );
    let stopped = now.suspended.iter().map(|why| plain(format!("suspended: {why}")));
    std::iter::once(heading(text)).chain(stopped).collect()
}

fn help() -> Vec<Line> {
    let text = "\
q        quit
s        sort the datasets by something else
p space  stop and go on showing; recording goes on
+ -      shorter and longer intervals
h ?      this page

Times are upper bounds: half of the requests (50%) took no longer, and so on.
PEND wait in the queue, ACT are with the device, now; all else is of the interval.";
    text.lines().map(plain).collect()
}

fn pool(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    let Some(root) = now.root() else { return Vec::new() };
    let mut out = Vec::new();
    let (reads, read) = now.traffic(Direction::Read);
    let (writes, written) = now.traffic(Direction::Write);
    out.push(plain(format!(
        "read  {:>6}/s {:>6} ops/s   write {:>6}/s {:>6} ops/s   cache {:>5} hits {:>5} misses/s",
        rate(read, now),
        rate(reads, now),
        rate(written, now),
        rate(writes, now),
        rate(now.cache.hits, now),
        rate(now.cache.misses, now),
    )));
    if root.size_bytes > 0 {
        out.push(plain(format!(
            "used  {} {} of {}",
            bar(root.allocated_bytes, root.size_bytes),
            nicenum(root.allocated_bytes),
            nicenum(root.size_bytes),
        )));
    }
    for (name, of) in [("write", (|p| p.written) as fn(&Point) -> f64), ("read ", |p| p.read)] {
        let (line, max) = sparkline(data.points.iter().map(of));
        out.push(plain(format!("{name} {line:<POINTS$} max {}/s", nicenum(max as u64))));
    }
    out
}

fn txgs(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    if now.dirty_max_bytes == 0 && data.txgs.is_empty() {
        return Vec::new();
    }
    let mut out = vec![heading(
        "TXG           OPEN  QUIESCE     WAIT     SYNC   DIRTY WRITTEN  BLOCKS  DELAYS  DELAYED   \
         LIMIT",
    )];
    out.push(plain(format!(
        "dirty {} {} of {}",
        bar(now.dirty_bytes, now.dirty_max_bytes),
        nicenum(now.dirty_bytes),
        nicenum(now.dirty_max_bytes),
    )));
    let recent = data.txgs.get(data.txgs.len().saturating_sub(POINTS)..).unwrap_or_default();
    let (line, max) = sparkline(recent.iter().map(|t| t.sync.as_nanos() as f64));
    out.push(plain(format!("sync  {line:<POINTS$} max {}", time(max as u64))));
    out.extend(data.txgs.iter().rev().take(TXGS).map(|t| plain(txg(t))));
    out
}

fn txg(t: &TxgRecord) -> String {
    let limit = if t.limit == 0 { "-".to_owned() } else { nicenum(t.limit) };
    format!(
        "{:<9} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>8} {limit:>7}",
        t.txg,
        span(t.open),
        span(t.quiesce),
        span(t.wait),
        span(t.sync),
        nicenum(t.dirty),
        nicenum(t.written),
        nicenum(t.blocks),
        nicenum(t.delays),
        span(t.delayed),
    )
}

fn vdevs(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    let names = |v: &VdevStats| v.name.chars().count() + 2 * v.depth as usize;
    let width = now.vdevs.iter().map(names).max().unwrap_or(0).clamp(16, 40);
    let mut out = vec![heading(format!(
        "{:<width$}  READ/s WRITE/s  RBYTES  WBYTES  PEND   ACT  DISK 50%     99%  ERRORS",
        "VDEV"
    ))];
    for vdev in &now.vdevs {
        let (read, write) = (vdev.total(Direction::Read), vdev.total(Direction::Write));
        let mut both = read.clone();
        both.merge(&write);
        let indent = " ".repeat(2 * vdev.depth as usize);
        let errors = vdev.read_errors + vdev.write_errors + vdev.checksum_errors;
        let name = format!("{indent}{}", tail(&vdev.name, width.saturating_sub(indent.len())));
        let mut line = format!("{name:<width$}");
        // Writing to a String cannot fail.
        let _ = write!(
            line,
            "  {:>6} {:>7} {:>7} {:>7} {:>5} {:>5} {:>9} {:>7} {:>7}",
            rate(read.ops, now),
            rate(write.ops, now),
            rate(read.bytes, now),
            rate(write.bytes, now),
            both.pending,
            both.active,
            percentile(&both.disk_ns, 50.0),
            percentile(&both.disk_ns, 99.0),
            errors,
        );
        out.push(plain(line));
        out.extend(expansion(vdev).map(|words| plain(format!("{indent}  {words}"))));
    }
    out
}

/// How far the expansion of a RAID-Z vdev is.
#[must_use]
pub fn expansion(vdev: &VdevStats) -> Option<String> {
    let all = vdev.to_reflow_bytes;
    let moved = vdev.reflowed_bytes.min(all);
    let percent = 100.0 * moved as f64 / all.max(1) as f64;
    (all > 0)
        .then(|| format!("expanding: {} of {} moved, {percent:.1} %", nicenum(moved), nicenum(all)))
}

/// The requests to object stores; dollars are those of an hour like this interval.
fn requests(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    let hour = (3600.0 / seconds(now)).min(1e6);
    let mut out = Vec::new();
    for (name, requests) in stores::of(now) {
        if out.is_empty() {
            out.push(heading(format!(
                "{:<40}  CREATE/s  GET/s  OTHER/s  AGAIN/s   SENT/s  RECEIVED/s  DOLLARS/h",
                "STORE"
            )));
        }
        let dollars = stores::price(name, &requests.times(hour), data.prices);
        out.push(plain(format!(
            "{:<40}  {:>8} {:>6} {:>8} {:>8} {:>8} {:>11} {:>10}",
            tail(name, 40),
            rate(requests.creates, now),
            rate(requests.gets, now),
            rate(requests.lists + requests.deletes, now),
            rate(requests.retries, now),
            rate(requests.sent_bytes, now),
            rate(requests.received_bytes, now),
            dollars.unwrap_or_else(|| "-".to_owned()),
        )));
    }
    out
}

/// The end of a name that is too long: where paths differ.
fn tail(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let skip = length + 1 - width.max(1);
    format!("…{}", name.chars().skip(skip).collect::<String>())
}

fn classes(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    let Some(root) = now.root().filter(|r| !r.io.is_empty()) else { return Vec::new() };
    let mut out = vec![heading(
        "CLASS             OPS/s  BYTES/s  PEND   ACT  QUEUE 50%     99%  DISK 50%     99%",
    )];
    for class in &root.io {
        out.push(plain(format!(
            "{:<14} {:>8} {:>8} {:>5} {:>5} {:>10} {:>7} {:>9} {:>7}",
            class.class,
            rate(class.counts.ops, now),
            rate(class.counts.bytes, now),
            class.counts.pending,
            class.counts.active,
            percentile(&class.counts.queue_ns, 50.0),
            percentile(&class.counts.queue_ns, 99.0),
            percentile(&class.counts.disk_ns, 50.0),
            percentile(&class.counts.disk_ns, 99.0),
        )));
    }
    out
}

fn stages(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    if now.stages.is_empty() {
        return Vec::new();
    }
    let mut out =
        vec![heading("STAGE           COUNT/s  BYTES/s    BUSY      50%      90%      99%")];
    for stage in &now.stages {
        // How many did it at once, on average.
        let busy = stage.time_ns.sum as f64 / now.span_ns.max(1) as f64;
        out.push(plain(format!(
            "{:<14} {:>8} {:>8} {busy:>7.2} {:>8} {:>8} {:>8}",
            stage.stage,
            rate(stage.count, now),
            rate(stage.bytes, now),
            percentile(&stage.time_ns, 50.0),
            percentile(&stage.time_ns, 90.0),
            percentile(&stage.time_ns, 99.0),
        )));
    }
    out
}

/// The threads of the write pipeline: how many of a kind are in a stage at a time.
fn threads(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    let did = |k: &&KindProfile| k.stages().iter().any(|(_, stage)| stage.count > 0);
    let mut kinds = now.profile.kinds.iter().filter(did).peekable();
    if kinds.peek().is_none() {
        return Vec::new();
    }
    let mut out =
        vec![heading("THREADS       MOST  COMPRESS  CHECKSUM  ALLOCATE     WRITE   WRITES/s")];
    for kind in kinds {
        let mut line = format!("{:<12} {:>5}", kind.kind, kind.threads);
        for (_, stage) in kind.stages() {
            let _ = write!(line, " {:>9.2}", stage.time.as_secs_f64() / seconds(now));
        }
        out.push(plain(format!("{line} {:>10}", rate(kind.io.count, now))));
    }
    out
}

fn datasets(data: &FrameData<'_>) -> Vec<Line> {
    let now = data.interval;
    if now.datasets.is_empty() {
        return Vec::new();
    }
    let mut sorted: Vec<_> = now.datasets.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    match data.sort {
        Sort::Written => sorted.sort_by_key(|d| std::cmp::Reverse(d.written_bytes)),
        Sort::Read => sorted.sort_by_key(|d| std::cmp::Reverse(d.read_bytes)),
        Sort::Operations => sorted.sort_by_key(|d| std::cmp::Reverse(d.reads + d.writes)),
        Sort::Name => {}
    }
    let by = data.sort.name();
    let mut out = vec![heading(format!("READ/s WRITE/s  RBYTES  WBYTES  DATASET (by {by})"))];
    for d in sorted {
        out.push(plain(format!(
            "{:>6} {:>7} {:>7} {:>7}  {}",
            rate(d.reads, now),
            rate(d.writes, now),
            rate(d.read_bytes, now),
            rate(d.written_bytes, now),
            d.name,
        )));
    }
    out
}

#[cfg(test)]
mod tests;
