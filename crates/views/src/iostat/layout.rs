//! The printed form of `zpool iostat`: a function of one snapshot, which is that of an interval or
//! covers everything since the pool was opened.
//!
//! Columns are grouped: capacity, operations and bandwidth always; waiting times (`-l`) and queue
//! lengths (`-q`) on demand. Histograms (`-w`, `-r`) are tables of their own, one per vdev.

use crate::{scripts, stores};
use engine::devices::price::Prices;
use engine::stats::ClassCounts;
use engine::stats::{Direction, Histogram, Snapshot, VdevStats};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use term::human::nicenum;

/// Which table of histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Histograms {
    /// Waiting times.
    Latency,
    /// Sizes of requests.
    Sizes,
}

/// The columns that are printed.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Every vdev, not only the pool.
    pub verbose: bool,
    /// Exact numbers.
    pub parsable: bool,
    /// Tabs, no headings.
    pub scripted: bool,
    /// Waiting times.
    pub latency: bool,
    /// Queue lengths.
    pub queues: bool,
    /// Histograms in place of all columns.
    pub histograms: Option<Histograms>,
    /// Only the vdevs of these names.
    pub only: Vec<String>,
    /// The prices of requests to buckets, whose cost is printed beside waiting times.
    pub prices: Prices,
    /// Paths of devices by guid, whose lines are marked for [`crate::scripts`].
    pub scripts: Option<BTreeMap<u64, String>>,
}

/// A heading over one or more columns.
type Label = (&'static str, usize);

/// Columns that belong together.
struct Group {
    top: &'static [Label],
    bottom: &'static [&'static str],
    /// Width with `-p`.
    wide: usize,
}

const DEFAULT: Group = Group {
    top: &[("capacity", 2), ("operations", 2), ("bandwidth", 2)],
    bottom: &["alloc", "free", "read", "write", "read", "write"],
    wide: 15,
};

const LATENCY: Group = Group {
    top: &[
        ("total_wait", 2),
        ("disk_wait", 2),
        ("syncq_wait", 2),
        ("asyncq_wait", 2),
        ("scrub", 1),
        ("trim", 1),
        ("rebuild", 1),
    ],
    bottom: &[
        "read", "write", "read", "write", "read", "write", "read", "write", "wait", "wait", "wait",
    ],
    wide: 10,
};

const QUEUES: Group = Group {
    top: &[
        ("syncq_read", 2),
        ("syncq_write", 2),
        ("asyncq_read", 2),
        ("asyncq_write", 2),
        ("scrubq_read", 2),
        ("trimq_write", 2),
        ("rebuildq_write", 2),
    ],
    bottom: &[
        "pend", "activ", "pend", "activ", "pend", "activ", "pend", "activ", "pend", "activ",
        "pend", "activ", "pend", "activ",
    ],
    wide: 6,
};

const LATENCY_HISTOGRAMS: Group = Group {
    top: &[("total_wait", 2), ("disk_wait", 2), ("syncq_wait", 2), ("asyncq_wait", 2)],
    bottom: &[
        "read", "write", "read", "write", "read", "write", "read", "write", "scrub", "trim",
        "rebuild",
    ],
    wide: 10,
};

const SIZE_HISTOGRAMS: Group = Group {
    top: &[
        ("sync_read", 2),
        ("sync_write", 2),
        ("async_read", 2),
        ("async_write", 2),
        ("scrub", 2),
        ("trim", 2),
        ("rebuild", 2),
    ],
    bottom: &[
        "ind", "agg", "ind", "agg", "ind", "agg", "ind", "agg", "ind", "agg", "ind", "agg", "ind",
        "agg",
    ],
    wide: 6,
};

/// Width of a column of rounded numbers.
const NARROW: usize = 5;
/// Classes of a latency histogram: up to 137 seconds.
const LATENCY_CLASSES: usize = 37;
/// Classes of sizes: from 512 bytes to 16 MiB.
const SIZE_CLASSES: std::ops::Range<usize> = 9..25;
/// Classes with queue lengths and sizes of requests, in the order of the columns.
const QUEUE_CLASSES: [&str; 7] =
    ["sync_read", "sync_write", "async_read", "async_write", "scrub", "trim", "rebuild"];

impl Histograms {
    fn group(self) -> &'static Group {
        match self {
            Self::Latency => &LATENCY_HISTOGRAMS,
            Self::Sizes => &SIZE_HISTOGRAMS,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Sizes => "req_size",
        }
    }

    /// A histogram for each column.
    fn columns(self, v: &VdevStats) -> Vec<Histogram> {
        match self {
            Self::Latency => waits(v),
            Self::Sizes => {
                let of = |class: &str| {
                    let stats = v.class(class).cloned().unwrap_or_default();
                    [stats.individual_bytes, stats.aggregated_bytes]
                };
                QUEUE_CLASSES.iter().flat_map(|class| of(class)).collect()
            }
        }
    }
}

/// Waiting times in the order of the columns.
fn waits(v: &VdevStats) -> Vec<Histogram> {
    let [read, write] = [Direction::Read, Direction::Write].map(|d| v.total(d));
    let queue = |class: &str| v.class(class).map(|c| c.queue_ns.clone()).unwrap_or_default();
    let mut out = vec![read.total_ns, write.total_ns, read.disk_ns, write.disk_ns];
    out.extend(QUEUE_CLASSES.map(queue));
    out
}

impl Layout {
    /// The table of a report: pools, each with whether its figures are those since it was opened.
    #[must_use]
    pub fn text(&self, pools: &[(Snapshot, bool)], has_heading: bool) -> String {
        let width = self.name_width(pools.iter().map(|(s, _)| s));
        let is_table = self.histograms.is_none() && !self.scripted;
        let mut text = String::new();
        if has_heading && is_table {
            text.push_str(&self.header(width));
        }
        for (snapshot, since_open) in pools {
            text.push_str(&self.pool(snapshot, width, *since_open));
        }
        if let Some(paths) = &self.scripts {
            text = scripts::with_paths(&text, paths);
        }
        let several = pools.len() > 1 && !self.verbose;
        if is_table && (several || !self.only.is_empty()) {
            text.push_str(&self.separator(width));
        }
        if is_table && self.latency {
            let rows: Vec<_> = pools.iter().flat_map(|(s, _)| stores::of(s)).collect();
            text.push_str(&stores::table(&rows, &self.prices, self.parsable));
        }
        text
    }

    fn groups(&self) -> Vec<&'static Group> {
        if let Some(histograms) = self.histograms {
            return vec![histograms.group()];
        }
        let mut out = vec![&DEFAULT];
        out.extend(self.latency.then_some(&LATENCY));
        out.extend(self.queues.then_some(&QUEUES));
        out
    }

    fn width(&self, group: &Group) -> usize {
        if self.parsable { group.wide } else { NARROW }
    }

    fn title(&self) -> &'static str {
        match self.histograms {
            Some(histograms) => histograms.title(),
            None if self.only.is_empty() => "pool",
            None => "vdev",
        }
    }

    /// Width of the column of names that these snapshots need.
    pub fn name_width<'s>(&self, all: impl Iterator<Item = &'s Snapshot>) -> usize {
        let shown =
            |s: &'s Snapshot| s.vdevs.iter().take(if self.verbose { usize::MAX } else { 1 });
        let width = |v: &VdevStats| v.name.chars().count() + 2 * v.depth as usize;
        all.flat_map(shown).map(width).max().unwrap_or(0).max(10)
    }

    /// The three lines over the columns.
    pub fn header(&self, name_width: usize) -> String {
        let name_width = name_width.max(self.title().len());
        let mut out = format!("{:name_width$}", "");
        self.labels(&mut out, None);
        let _ = write!(out, "\n{:name_width$}", self.title());
        self.bottom_labels(&mut out, None);
        self.mark(&mut out, scripts::TITLES);
        out.push('\n');
        out.push_str(&self.separator(name_width));
        out
    }

    fn labels(&self, out: &mut String, width: Option<usize>) {
        for group in self.groups() {
            let width = width.unwrap_or_else(|| self.width(group));
            for (name, columns) in group.top {
                label(out, name, width, *columns);
            }
        }
    }

    fn bottom_labels(&self, out: &mut String, width: Option<usize>) {
        for group in self.groups() {
            let width = width.unwrap_or_else(|| self.width(group));
            group.bottom.iter().for_each(|name| label(out, name, width, 1));
        }
    }

    /// A line of dashes under or between the columns.
    pub fn separator(&self, name_width: usize) -> String {
        self.dashes(name_width, None)
    }

    fn dashes(&self, name_width: usize, width: Option<usize>) -> String {
        let mut out = "-".repeat(name_width.max(self.title().len()));
        for group in self.groups() {
            let width = width.unwrap_or_else(|| self.width(group));
            for _ in group.bottom {
                let _ = write!(out, "  {:-<width$}", "");
            }
        }
        self.mark(&mut out, scripts::DASHES);
        out.push('\n');
        out
    }

    fn mark(&self, out: &mut String, mark: &str) {
        out.push_str(if self.scripts.is_some() { mark } else { "" });
    }

    /// The heading of a section: its name, and dashes where numbers would be.
    fn section(&self, name: &str, name_width: usize) -> String {
        let mut out = format!("{name:name_width$}");
        for group in self.groups() {
            let width = self.width(group);
            for _ in group.bottom {
                let _ = write!(out, "  {:>width$}", "-");
            }
        }
        out.push('\n');
        out
    }

    /// The lines of a pool. `since_open`: the snapshot is not that of an interval.
    pub fn pool(&self, s: &Snapshot, name_width: usize, since_open: bool) -> String {
        let mut out = String::new();
        let mut section = "";
        for v in s.vdevs.iter().take(if self.verbose { usize::MAX } else { 1 }) {
            if v.kind == "indirect" || v.section == "spares" {
                continue;
            }
            let chosen = self.only.contains(&v.name);
            if !self.only.is_empty() && !chosen {
                continue;
            }
            if v.section != section {
                section = &v.section;
                let is_table = self.histograms.is_none() && !self.scripted;
                if is_table && self.only.is_empty() {
                    out.push_str(&self.section(section, name_width));
                }
            }
            let indent = if chosen { 0 } else { 2 * v.depth as usize };
            match self.histograms {
                Some(which) => {
                    out.push_str(&self.histogram_table(which, v, name_width, scale(s, since_open)));
                }
                None => self.line(&mut out, v, indent, name_width, scale(s, false)),
            }
        }
        let is_table = self.histograms.is_none() && !self.scripted;
        if is_table && self.verbose && self.only.is_empty() {
            out.push_str(&self.separator(name_width));
        }
        out
    }

    fn line(&self, out: &mut String, v: &VdevStats, indent: usize, name_width: usize, scale: f64) {
        let mut cells = self.default_cells(v, scale);
        let mut add = |group: &Group, values: Vec<String>| {
            cells.extend(values.into_iter().map(|value| (value, self.width(group))));
        };
        if self.latency {
            add(&LATENCY, waits(v).iter().map(|h| self.time(h.mean())).collect());
        }
        if self.queues {
            let of = |class: &&str| {
                let stats = v.class(class).cloned().unwrap_or_default();
                [stats.pending, stats.active].map(|n| self.number(n))
            };
            add(&QUEUES, QUEUE_CLASSES.iter().flat_map(of).collect());
        }
        if self.scripted {
            out.push_str(&v.name);
            cells.iter().for_each(|(cell, _)| {
                let _ = write!(out, "\t{cell}");
            });
        } else {
            let name = format!("{:indent$}{}", "", v.name);
            let _ = write!(out, "{name:name_width$}");
            cells.iter().for_each(|(cell, width)| {
                let _ = write!(out, "  {cell:>width$}");
            });
        }
        if self.scripts.as_ref().is_some_and(|paths| paths.contains_key(&v.guid)) {
            out.push_str(&scripts::device(v.guid));
        }
        out.push('\n');
    }

    fn default_cells(&self, v: &VdevStats, scale: f64) -> Vec<(String, usize)> {
        let width = self.width(&DEFAULT);
        let nothing = || if self.parsable { "0" } else { "-" }.to_owned();
        let mut cells = match v.has_space && v.size_bytes > 0 {
            true => {
                let free = v.size_bytes.saturating_sub(v.allocated_bytes);
                vec![self.number(v.allocated_bytes), self.number(free)]
            }
            false => vec![nothing(), nothing()],
        };
        let [read, write] = [Direction::Read, Direction::Write].map(|d| v.total(d));
        let rate = |n: u64| self.number((n as f64 * scale) as u64);
        let of = |c: &ClassCounts| (rate(c.ops), rate(c.bytes));
        let ((reads, read), (writes, write)) = (of(&read), of(&write));
        cells.extend([reads, writes, read, write]);
        cells.into_iter().map(|cell| (cell, width)).collect()
    }

    fn histogram_table(
        &self,
        which: Histograms,
        v: &VdevStats,
        name_width: usize,
        scale: f64,
    ) -> String {
        let columns = which.columns(v);
        let (classes, last) = match which {
            Histograms::Latency => (0..LATENCY_CLASSES, LATENCY_CLASSES - 1),
            Histograms::Sizes => (SIZE_CLASSES, SIZE_CLASSES.end - 1),
        };
        // Values outside the printed classes count with the nearest.
        let cell = |h: &Histogram, class: usize| -> u64 {
            let all = h.counts.iter().enumerate();
            let here = all.filter(|(i, _)| (*i).clamp(classes.start, last) == class);
            (here.map(|(_, n)| *n).sum::<u64>() as f64 * scale) as u64
        };
        let most = columns.iter().flat_map(|h| &h.counts).max().copied().unwrap_or(0);
        let width = if self.parsable { most.to_string().len().max(NARROW) } else { NARROW };
        let name_width = name_width.max(which.title().len());
        let mut out = String::from("\n");
        if self.scripted {
            let _ = writeln!(out, "{}", v.name);
        } else {
            let wide = name_width.max(v.name.chars().count());
            let _ = write!(out, "{:wide$}", v.name);
            self.labels(&mut out, Some(width));
            let _ = write!(out, "\n{:wide$}", which.title());
            self.bottom_labels(&mut out, Some(width));
            out.push('\n');
            out.push_str(&self.dashes(wide, Some(width)));
        }
        for class in classes.clone() {
            let value = match which {
                Histograms::Latency => (1u64 << (class + 1)) - 1,
                Histograms::Sizes => 1u64 << class,
            };
            let label = match which {
                Histograms::Latency => nicetime(value),
                Histograms::Sizes => nicenum(value),
            };
            if self.scripted {
                let _ = write!(out, "{value}");
            } else {
                let _ = write!(out, "{label:name_width$}");
            }
            for column in &columns {
                let text = self.number(cell(column, class));
                let _ = match self.scripted {
                    true => write!(out, "\t{text}"),
                    false => write!(out, "  {text:>width$}"),
                };
            }
            out.push('\n');
        }
        if !self.scripted {
            let all = name_width + (width + 2) * which.group().bottom.len();
            out.push_str(&"-".repeat(all));
            out.push('\n');
        }
        out
    }

    fn number(&self, n: u64) -> String {
        if self.parsable { n.to_string() } else { nicenum(n) }
    }

    fn time(&self, ns: u64) -> String {
        match ns {
            0 => "-".to_owned(),
            _ if self.parsable => ns.to_string(),
            _ => nicetime(ns),
        }
    }
}

/// A heading, about in the middle of the columns it belongs to.
fn label(out: &mut String, name: &str, width: usize, columns: usize) {
    let whole = width * columns + 2 * (columns - 1);
    let before = (whole / columns).saturating_sub(name.len() / columns);
    let after = whole.saturating_sub(before + name.len());
    let _ = write!(out, "  {:before$}{name}{:after$}", "", "");
}

/// Counts of a snapshot to rates by the second. Histograms of everything since the pool was opened
/// stay counts.
fn scale(s: &Snapshot, as_counts: bool) -> f64 {
    if as_counts || s.span_ns == 0 { 1.0 } else { 1e9 / s.span_ns as f64 }
}

/// A time in whole units, such as `16us`.
pub(super) fn nicetime(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let unit = units.iter().find(|(_, size)| ns >= *size);
    unit.map_or_else(|| format!("{ns}ns"), |(name, size)| format!("{}{name}", ns / size))
}
