//! The study's reports, the rows that are made of them and of what was measured, and what the rows
//! say.
//!
//! Of a histogram the shape is judged: the largest difference of the cumulated parts (the distance
//! of Kolmogorov and Smirnov) has to be no more than the 5 % point of that test for two samples of
//! as many values as the study's.

use super::OVERRIDE_MB;
use super::run::Observed;
use super::shape::{self, Buckets};
use crate::outcome::{Chart, Outcome, Series};
use crate::row::{Bound, Kind, Range, Row};
use engine::live::TxgRecord;

/// A report of the study.
pub(super) struct Published {
    pub(super) what: &'static str,
    syncs_per_s: f64,
    mb_per_s: f64,
    delays_per_s: f64,
    /// How many syncs took this many milliseconds or up to [`BUCKET_MS`] more.
    syncs: &'static [(f64, u32)],
    /// How many txgs had this many MB or up to 200 more; 0 is "< 200", 4000 is ">= 4000".
    written: &'static [(f64, u32)],
    /// How often the limit was this many MB or up to 250 more; 8000 is ">= 8000".
    limits: &'static [(f64, u32)],
}

/// Widths of buckets, and where the last one begins that has no end.
const SYNC_MS: Buckets = Buckets { width: 20.0, last: 100_000.0 };
const WRITTEN_MB: Buckets = Buckets { width: 200.0, last: 4000.0 };
const LIMIT_MB: Buckets = Buckets { width: 250.0, last: 8000.0 };
/// Width of a bucket of the sync times.
const BUCKET_MS: f64 = SYNC_MS.width;
/// An average of "well over a second" in report 1.
const WELL_OVER_A_SECOND_MS: f64 = 1000.0;

/// seeds/001.
pub(super) const TABLE: [Published; 3] = [
    Published {
        what: "synctime 5 s",
        syncs_per_s: 1.0,
        mb_per_s: 1540.0,
        delays_per_s: 47.0,
        syncs: &[
            (100.0, 3),
            (120.0, 1),
            (260.0, 1),
            (580.0, 1),
            (780.0, 1),
            (1320.0, 2),
            (1360.0, 1),
            (1520.0, 1),
        ],
        written: &[(0.0, 9), (3000.0, 1), (4000.0, 1)],
        limits: &[(8000.0, 11)],
    },
    Published {
        what: "synctime 1 s",
        syncs_per_s: 1.0,
        mb_per_s: 1681.0,
        delays_per_s: 56.0,
        syncs: &[
            (360.0, 1),
            (460.0, 1),
            (500.0, 1),
            (600.0, 1),
            (660.0, 1),
            (740.0, 1),
            (760.0, 1),
            (780.0, 1),
            (820.0, 1),
            (840.0, 2),
            (860.0, 2),
            (1040.0, 1),
        ],
        written: &[(0.0, 10), (2400.0, 1), (2800.0, 1), (4000.0, 2)],
        limits: &[
            (2750.0, 2),
            (4750.0, 1),
            (5000.0, 2),
            (5500.0, 4),
            (6500.0, 1),
            (7000.0, 3),
            (8000.0, 1),
        ],
    },
    Published {
        what: "override 800 MB",
        syncs_per_s: 4.0,
        mb_per_s: 677.0,
        delays_per_s: 1.0,
        syncs: &[(140.0, 6), (160.0, 15), (180.0, 15), (200.0, 5)],
        written: &[(0.0, 31), (400.0, 5), (800.0, 5)],
        limits: &[(1500.0, 41)],
    },
];

impl Published {
    fn shortest_ms(&self) -> f64 {
        self.syncs.first().map_or(0.0, |s| s.0)
    }

    /// The end of the last bucket.
    fn longest_ms(&self) -> f64 {
        self.syncs.last().map_or(0.0, |s| s.0 + BUCKET_MS)
    }

    /// With each sync in the middle of its bucket.
    fn mean_ms(&self) -> f64 {
        let count: f64 = self.syncs.iter().map(|s| f64::from(s.1)).sum();
        let sum: f64 = self.syncs.iter().map(|s| (s.0 + BUCKET_MS / 2.0) * f64::from(s.1)).sum();
        sum / count.max(1.0)
    }
}

/// Rates, of writes and of delays: a tenth, as everywhere. They were printed cut off to integers.
const RATE: Bound = Bound::WithinOrRounding(0.1);
/// What follows from the model: a fifth.
const PART: f64 = 0.2;
const MODELLED: Bound = Bound::Within(PART);
const COUNTED: Bound = Bound::WithinOrRounding(PART);

/// A value that was printed as a bucket: a fifth less than its begin, or more than its end.
fn in_bucket(begin: f64, width: f64) -> Bound {
    Bound::Between(begin * (1.0 - PART), (begin + width) * (1.0 + PART))
}

/// Part of the machine from which on the longest waits are compared: six of 42 disks.
const SMALLEST_PART: f64 = 0.14;

/// What was measured: in the three reports, and with today's throttle.
pub(super) struct Measured<'a> {
    pub(super) reports: &'a [&'a Observed],
    /// The third test with the limit that its report shows instead of the one that was set.
    pub(super) as_shown: Option<&'a Observed>,
    pub(super) today: &'a Observed,
    /// Part of the study's machine that it was measured on.
    pub(super) part: f64,
    /// How often a byte counts there.
    pub(super) inflation: f64,
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0), |(l, h), v| (v.min(l), f64::max(h, v)));
    (if low.is_finite() { low } else { 0.0 }, high)
}

fn sync_ms(o: &Observed) -> impl Iterator<Item = f64> {
    o.records.iter().filter(|r| r.dirty > 0).map(|r| r.sync.as_secs_f64() * 1e3)
}

fn mean_ms(o: &Observed) -> f64 {
    // The sum of nothing is -0.
    (0.0 + sync_ms(o).sum::<f64>()) / (sync_ms(o).count() as f64).max(1.0)
}

fn held_ms(o: &Observed) -> f64 {
    o.longest.as_secs_f64() * 1e3
}

/// What `zpool list` printed: the size and what is free of it in TiB with one decimal, what is used
/// in KiB, and in percent of the size.
const LISTED: Listed = Listed { size: 19.0, available: 19.0, used: 620.0, capacity: 0.0 };

struct Listed {
    size: f64,
    available: f64,
    used: f64,
    capacity: f64,
}

/// The pool as `zpool list` shows it before any test.
pub(super) fn listed((size, used): (u64, u64), part: f64) -> [Row; 4] {
    const TIB: f64 = (1_u64 << 40) as f64;
    let (size, used) = (size as f64 / part, used as f64);
    let rounded = |tib: f64| Bound::Between(tib - 0.05, tib + 0.05);
    let name = |what: &str| format!("zpool list: {what}");
    let (free, percent) = ((size - used) / TIB, 100.0 * used / size.max(1.0));
    let whole = Bound::Between(0.0, 1.0);
    let row = Row::predicted(name("used"), "KiB", LISTED.used, MODELLED, used / 1024.0);
    [
        // Which of the sizes that were sold these disks have was chosen by it.
        Row::fitted(name("size"), "TiB", LISTED.size, rounded(LISTED.size), size / TIB),
        row.judged_if(part >= 1.0, "a part of the disks"),
        Row::derived(name("available"), "TiB", LISTED.available, rounded(LISTED.available), free),
        Row::derived(name("capacity"), "%", LISTED.capacity, whole, percent),
    ]
}

/// The rows of all reports, then those of the comparison.
fn rows(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (n, (p, o)) in TABLE.iter().zip(m.reports.iter().copied()).enumerate() {
        rows.extend(rates(n, p, o, m.part));
        rows.extend(times(n, p, o));
        rows.extend(limits(n, p, o, m.part));
        rows.extend(shapes(n, p, o, m));
    }
    rows.extend(comparison(m));
    rows
}

/// What happened in a second of report `n`.
fn rates(n: usize, p: &Published, o: &Observed, part: f64) -> Vec<Row> {
    let name = |what: &str| format!("{}: {what}", p.what);
    let (syncs, delays) = (o.report.syncs_per_s, o.report.delays_per_s);
    // The time of a report was chosen by the three of them, the push by the third.
    let syncs = Row::fitted(name("syncs"), "/s", p.syncs_per_s, COUNTED, syncs);
    // The rate of the disks was chosen by the first two, that of a writer by the third, when that
    // was thought to have one.
    let written = o.report.mb_per_s / part;
    let written = Row::fitted(name("written"), "MB/s", p.mb_per_s, RATE, written);
    let delays = match n {
        2 => Row::predicted(name("delays"), "/s", p.delays_per_s, COUNTED, delays),
        // Number and speed of the writers were chosen by it.
        _ => Row::fitted(name("delays"), "/s", p.delays_per_s, RATE, delays),
    };
    vec![syncs, written, delays]
}

/// How long the syncs of report `n` took.
fn times(n: usize, p: &Published, o: &Observed) -> Vec<Row> {
    let name = |what: &str| format!("{}: {what}", p.what);
    let (shortest, longest) = extremes(sync_ms(o));
    let bound = in_bucket(p.shortest_ms(), BUCKET_MS);
    let shortest = match n {
        // All groups of report 3 are as large as its limit says: one time, that of the mean.
        2 => Row::derived(name("shortest sync"), "ms", p.shortest_ms(), bound, shortest),
        // When the reports begin was chosen by them.
        _ => Row::fitted(name("shortest sync"), "ms", p.shortest_ms(), bound, shortest),
    };
    let bound = in_bucket(p.longest_ms() - BUCKET_MS, BUCKET_MS);
    let make = if n == 2 { Row::derived } else { Row::predicted };
    let longest = make(name("longest sync"), "ms", p.longest_ms(), bound, longest);
    let mut rows = vec![
        shortest,
        // The text has a range of the first two reports, and none of the third.
        if n == 2 { longest.follows("its histogram") } else { longest },
        Row::predicted(name("mean sync"), "ms", p.mean_ms(), MODELLED, mean_ms(o))
            .follows("its histogram"),
    ];
    if n == 0 {
        let name = name("mean sync, by the text");
        let text = WELL_OVER_A_SECOND_MS;
        let row = Row::predicted(name, "ms", text, Bound::AtLeast, mean_ms(o));
        rows.push(row.follows("its words"));
    }
    rows
}

fn limits(n: usize, p: &Published, o: &Observed, part: f64) -> Vec<Row> {
    let name = |what: &str| format!("{}: {what}", p.what);
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0 / part;
    let (low, high) = extremes(o.records.iter().map(|r| mib(r.limit)));
    let ends = [("lowest limit", p.limits.first(), low), ("highest limit", p.limits.last(), high)];
    let row = |(what, bucket, measured): (&str, Option<&(f64, u32)>, f64)| {
        let begin = bucket?.0;
        let open = begin >= LIMIT_MB.last;
        let bound = if open { Bound::AtLeast } else { in_bucket(begin, LIMIT_MB.width) };
        Some(match n {
            // The largest limit and how often a byte counts were chosen by these.
            0 | 1 => Row::fitted(name(what), "MB", begin, bound, measured),
            // It follows from the one that was set.
            _ => Row::derived(name(what), "MB", begin, bound, measured),
        })
    };
    let mut rows: Vec<Row> = ends.into_iter().filter_map(row).collect();
    if n == 2 {
        let name = name("limit, by the text");
        rows.push(Row::input(name, "MB", OVERRIDE_MB, Bound::Within(0.001), high));
    }
    rows
}

/// Slots in which txgs count, in turn, what they write (`TXG_SIZE`).
const SLOTS: usize = 4;
/// The second reading of the histogram of what is written. See the head of [`super`].
const IN_ONE_SLOT: &str = "written, in one slot";

/// The histograms of report `n`.
fn shapes(n: usize, p: &Published, o: &Observed, m: &Measured<'_>) -> Vec<Row> {
    let name = |what: &str| format!("{}: histogram of {what}", p.what);
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0 / m.part;
    let synced = || o.records.iter().filter(|r| r.dirty > 0);
    let far = |buckets: Buckets, study: &[(f64, u32)], values: &mut dyn Iterator<Item = f64>| {
        (shape::most(study), shape::distance(buckets, study, values))
    };
    let (most, times) = far(SYNC_MS, p.syncs, &mut sync_ms(o));
    let count = f64::from(p.syncs.iter().map(|bucket| bucket.1).sum::<u32>());
    // The time of a report was chosen by it, and the push by that of the third.
    let found = synced().count() as f64;
    let counted = Row::fitted(name("sync times, count"), "", count, MODELLED, found);
    let counted = counted.follows("its histogram");
    // Its begin chose when the reports begin.
    let kind = if n == 2 { Kind::Predicted } else { Kind::Fitted };
    let mut rows = vec![counted, Row::shape(kind, name("sync times"), p.syncs, most, times)];
    let mut dirty = synced().map(|r: &TxgRecord| mib(r.dirty));
    let (most, written) = far(WRITTEN_MB, p.written, &mut dirty);
    rows.push(Row::shape(Kind::Predicted, name("written"), p.written, most, written));
    // Each of ours beside three of which nothing was seen.
    let mut seen = synced()
        .map(|r| mib(r.dirty) * m.inflation)
        .flat_map(|counted| std::iter::once(counted).chain(std::iter::repeat_n(0.0, SLOTS - 1)));
    let (most, in_slot) = far(WRITTEN_MB, p.written, &mut seen);
    // How the histograms are read was chosen by them.
    rows.push(Row::shape(Kind::Fitted, name(IN_ONE_SLOT), p.written, most, in_slot));
    let (most, limits) = far(LIMIT_MB, p.limits, &mut synced().map(|r| mib(r.limit)));
    // The largest limit and how often a byte counts were chosen by the first two.
    let kind = [Kind::Fitted, Kind::Fitted, Kind::Derived][n.min(2)];
    rows.push(Row::shape(kind, name("limits"), p.limits, most, limits));
    rows
}

/// Where the longest waits of a part of the machine are not waits of the whole.
const TOO_SMALL: &str = "a part of the machine on which a transaction takes too long";

/// Names of rows that others refer to.
const OLD_RATE: &str = "synctime 1 s: sustained";
const NEW_RATE: &str = "dirty-delay: sustained";
const OLD_HELD: &str = "a write held longest, synctime 1 s";
const NEW_HELD: &str = "a write held longest, dirty-delay";

/// What the first two reports are to each other, and today's throttle beside the second.
fn comparison(m: &Measured<'_>) -> Vec<Row> {
    let ([first, second, ..], [a, b, ..]) = (&TABLE, m.reports) else { return Vec::new() };
    let (old, new) = (b, m.today);
    let published = second.delays_per_s - first.delays_per_s;
    let measured = b.report.delays_per_s - a.report.delays_per_s;
    let name = "delays: more with 1 s than with 5 s";
    let row = Row::derived(name, "/s", published, COUNTED, measured);
    let mut rows = vec![row.follows("both delays")];
    let published = second.longest_ms() / first.longest_ms();
    let measured = extremes(sync_ms(b)).1 / extremes(sync_ms(a)).1.max(1e-9);
    let name = "longest sync: 1 s over 5 s";
    let row = Row::derived(name, "times", published, MODELLED, measured);
    rows.push(row.follows("both histograms"));
    let measured = mean_ms(b) / mean_ms(a).max(1e-9);
    let name = |by: &str| format!("mean sync: 1 s over 5 s, by the {by}");
    let row = Row::derived(name("text"), "times", 1.0, Bound::AtMost, measured);
    rows.push(row.follows("its words"));
    let published = second.mean_ms() / first.mean_ms();
    let row = Row::derived(name("histograms"), "times", published, MODELLED, measured);
    rows.push(row.follows("both histograms"));
    if let Some(o) = m.as_shown {
        let name = |what: &str| format!("a limit of 1600 MB, as report 3 shows it: {what}");
        rows.push(Row::own(name("syncs"), "/s", o.report.syncs_per_s));
        rows.push(Row::own(name("written"), "MB/s", o.report.mb_per_s / m.part));
        rows.push(Row::own(name("mean sync"), "ms", mean_ms(o)));
    }
    let rate = |o: &Observed| o.sustained_mb_per_s / m.part;
    rows.push(Row::own("dirty-delay: delays", "/s", new.report.delays_per_s));
    rows.push(Row::own(NEW_RATE, "MB/s", rate(new)));
    rows.push(Row::own(OLD_RATE, "MB/s", rate(old)));
    rows.push(Row::own(OLD_HELD, "ms", held_ms(old)));
    rows.push(Row::own(NEW_HELD, "ms", held_ms(new)));
    let part = held_ms(new) / held_ms(old).max(1e-9);
    let held = Row::goal("held longest: dirty-delay / synctime 1 s", "", Range::at_most(1.0), part);
    // A tick is a tick on any machine, but the time of a transaction, of which delays are made,
    // is fourteen times as long on a fourteenth of the disks.
    rows.push(held.judged_if(m.part >= SMALLEST_PART, TOO_SMALL));
    let part = rate(new) / rate(old).max(1e-9);
    let goal = Range { low: Some(0.9), high: Some(1.1) };
    rows.push(Row::goal("throughput: dirty-delay / synctime 1 s", "", goal, part));
    rows
}

pub(super) fn outcome(place: String, m: &Measured<'_>) -> Outcome {
    let named = TABLE.iter().zip(m.reports.iter().copied());
    let syncs = named.clone().map(|(p, o)| {
        let point = |r: &engine::live::TxgRecord| {
            ((r.ended().saturating_sub(o.began)).as_secs_f64(), r.sync.as_secs_f64())
        };
        Series { name: p.what.to_owned(), points: o.records.iter().map(point).collect() }
    });
    let syncs = syncs.collect();
    let mut parts = Vec::new();
    for (p, o) in named.clone().take(2) {
        let study = p.syncs.iter().map(|s| (s.0 + BUCKET_MS / 2.0, s.1)).collect();
        let study = Series { name: format!("{}, published", p.what), points: cumulated(study) };
        let ours = cumulated(sync_ms(o).map(|ms| (ms, 1)).collect());
        parts.extend([study, Series { name: format!("{}, measured", p.what), points: ours }]);
    }
    let chart = |title: &str, x: &str, y: &str, series| Chart {
        title: title.to_owned(),
        x: x.to_owned(),
        y: y.to_owned(),
        x_log: false,
        bars: false,
        series,
    };
    Outcome {
        rows: rows(m),
        charts: vec![
            chart("Time of each txg's sync", "time, s", "sync, s", syncs),
            chart("Syncs that take no longer", "sync, ms", "% of all", parts),
        ],
        texts: named.map(|(p, o)| (p.what.to_owned(), o.report.to_text())).collect(),
        meaning,
        ..Outcome::new("throttle", place)
    }
}

/// Which percentage of the values is not above each.
fn cumulated(mut values: Vec<(f64, u32)>) -> Vec<(f64, f64)> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: u32 = values.iter().map(|v| v.1).sum();
    let mut sum = 0;
    let mut point = |(value, count): (f64, u32)| {
        sum += count;
        (value, 100.0 * f64::from(sum) / f64::from(all.max(1)))
    };
    values.into_iter().map(&mut point).collect()
}

/// What the rows say, where all seeds agree; no more than that.
fn meaning(outcome: &Outcome) -> String {
    let range = |name: &str| {
        let row = outcome.row(name).filter(|row| row.values().iter().all(|v| v.is_finite()))?;
        Some((row.min(), row.max()))
    };
    let between = |(low, high): (f64, f64)| match (low.round(), high.round()) {
        (low, high) if low == high => format!("{low:.0}"),
        (low, high) => format!("{low:.0} to {high:.0}"),
    };
    let mut text = format!("On {}, with these writers:", outcome.place);
    let empty = text.len();
    if let Some((low, high)) = range("longest sync: 1 s over 5 s") {
        let what = match (low, high) {
            (_, high) if high < 0.9 => "shortens the longest sync",
            (low, _) if low > 1.1 => "lengthens the longest sync",
            _ => "does not change the longest sync by more than a tenth in all runs",
        };
        text += &format!(
            " a target time of 1 s instead of 5 s {what} (to {low:.2} to {high:.2} of its time)."
        );
    }
    if let (Some(old), Some(new)) = (range(OLD_HELD), range(NEW_HELD)) {
        text += &format!(
            " Under the limit per txg a write stood still for up to {} ms, with delays that grow \
             with the dirty data for up to {} ms",
            between(old),
            between(new),
        );
        if let (Some(old), Some(new)) = (range(OLD_RATE), range(NEW_RATE)) {
            text += &format!(", at {} instead of {} MB/s", between(new), between(old));
        }
        text.push('.');
    }
    if text.len() == empty { String::new() } else { text }
}

/// Every row, of nothing that was measured.
#[cfg(test)]
pub(crate) fn sample() -> Vec<Row> {
    let span = std::time::Duration::from_secs(10);
    let nothing = Observed {
        began: span,
        report: super::report::Report::new("h", &[], span),
        records: Vec::new(),
        longest: span,
        sustained_mb_per_s: 1.0,
    };
    let reports = [&nothing; 3];
    let as_shown = Some(&nothing);
    let of = Measured { reports: &reports, as_shown, today: &nothing, part: 1.0, inflation: 4.0 };
    [listed((1, 1), 1.0).to_vec(), rows(&of)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_published_one() {
        let names = ["default", "synctime_1s", "override_800mb"];
        for (name, p) in names.iter().zip(&TABLE) {
            let head = format!("[throttle.{name}]");
            let section = crate::DOCUMENTS.split(&head).nth(1).expect("the section");
            let section = section.split("\n[").next().expect("its end");
            let has = |line: String| assert!(section.contains(&line), "{name}: {line}");
            let buckets = |key: &str, buckets: &[(f64, u32)]| {
                let all: Vec<_> = buckets.iter().map(|(at, n)| format!("[{at},{n}]")).collect();
                let line = format!("{key} = [{}]", all.join(","));
                assert!(section.lines().any(|l| l == line), "{name}: {line}");
            };
            has(format!("syncs_per_s = {}\n", p.syncs_per_s));
            has(format!("mb_per_s = {}\n", p.mb_per_s));
            has(format!("delays_per_s = {}\n", p.delays_per_s));
            has(format!("sync_ms_range = [{}, ", p.shortest_ms()));
            buckets("sync_ms", p.syncs);
            buckets("written_mb", p.written);
            buckets("write_limit_mb", p.limits);
        }
    }
}
