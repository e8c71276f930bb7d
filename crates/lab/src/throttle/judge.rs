//! The study's reports, the rows that are made of them and of what was measured, and what the rows
//! say.

use super::run::Observed;
use crate::experiment::{Bound, Chart, Outcome, Row, Series};

/// A report of the study.
pub(super) struct Published {
    pub(super) what: &'static str,
    syncs_per_s: f64,
    mb_per_s: f64,
    delays_per_s: f64,
    /// How many syncs took so many milliseconds or up to [`BUCKET_MS`] more.
    syncs: &'static [(f64, u32)],
    /// Lowest bucket of the limit that holds something, and the end of the highest.
    limit_mb: (f64, f64),
}

/// Width of a bucket of the sync times.
const BUCKET_MS: f64 = 20.0;

/// seeds/001. What is `>= 8000` may be anything from there on.
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
        limit_mb: (8000.0, f64::INFINITY),
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
        limit_mb: (2750.0, f64::INFINITY),
    },
    Published {
        what: "override 800 MB",
        syncs_per_s: 4.0,
        mb_per_s: 677.0,
        delays_per_s: 1.0,
        syncs: &[(140.0, 6), (160.0, 15), (180.0, 15), (200.0, 5)],
        limit_mb: (1500.0, 1750.0),
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

/// Rates, of writes and of delays: a tenth, as everywhere.
const RATE: Bound = Bound::Within { part: 0.1 };
/// Syncs in a second were printed cut off to an integer.
const SYNCS: Bound = Bound::WithinOrRounding { part: 0.1 };
/// Mean sync times follow from a model of the writers, whom the study does not describe, and are of
/// a dozen txgs: two short ones more or less move a mean by a sixth. A third.
const MODELLED: Bound = Bound::Within { part: 1.0 / 3.0 };
/// From the first to the second report delays become more, and by no more than twice as much.
const RISING: Bound = Bound::Within { part: 0.99 };

/// Part of the machine from which on the longest waits are compared: six of 42 disks.
const SMALLEST_PART: f64 = 0.14;

/// What was measured: in the three reports, and with today's throttle.
pub(super) struct Measured<'a> {
    pub(super) reports: &'a [&'a Observed],
    pub(super) today: &'a Observed,
    /// Part of the study's machine that it was measured on.
    pub(super) part: f64,
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

/// The rows of all reports, then those of the comparison.
fn rows(m: &Measured<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |row: String, unit, published, measured: f64, bound| {
        rows.push(Row { row, unit, published, measured, bound });
    };
    for (n, (p, o)) in TABLE.iter().zip(m.reports.iter().copied()).enumerate() {
        let name = |what: &str| format!("{}: {what}", p.what);
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0 / m.part;
        row(name("syncs"), "/s", Some(p.syncs_per_s), o.report.syncs_per_s, SYNCS);
        row(name("written"), "MB/s", Some(p.mb_per_s), o.report.mb_per_s / m.part, RATE);
        // The third report has next to none.
        let delays = if n < 2 { RATE } else { Bound::AtMost };
        row(name("delays"), "/s", Some(p.delays_per_s), o.report.delays_per_s, delays);
        let (shortest, longest) = extremes(sync_ms(o));
        let within = Bound::UpTo { high: p.longest_ms() };
        row(name("shortest sync, from"), "ms", Some(p.shortest_ms()), shortest, within);
        row(name("longest sync, from"), "ms", Some(p.shortest_ms()), longest, within);
        row(name("mean sync"), "ms", Some(p.mean_ms()), mean_ms(o), MODELLED);
        let (low, high) = extremes(o.records.iter().map(|r| mib(r.limit)));
        let within = Bound::UpTo { high: p.limit_mb.1 };
        row(name("lowest limit, from"), "MB", Some(p.limit_mb.0), low, within);
        row(name("highest limit, from"), "MB", Some(p.limit_mb.0), high, within);
    }
    if let ([first, second, ..], [a, b, ..]) = (&TABLE, m.reports) {
        let published = second.delays_per_s - first.delays_per_s;
        let measured = b.report.delays_per_s - a.report.delays_per_s;
        let what = "delays: more with 1 s than with 5 s".to_owned();
        row(what, "/s", Some(published), measured, RISING);
        let (old, new) = (b, m.today);
        row("dirty-delay: delays".to_owned(), "/s", None, new.report.delays_per_s, Bound::Shown);
        let rate = new.sustained_mb_per_s / m.part;
        row("dirty-delay: sustained".to_owned(), "MB/s", None, rate, Bound::Shown);
        let rate = old.sustained_mb_per_s / m.part;
        row("synctime 1 s: sustained".to_owned(), "MB/s", None, rate, Bound::Shown);
        let held = "a write held longest, synctime 1 s".to_owned();
        row(held, "ms", None, held_ms(old), Bound::Shown);
        let held = "a write held longest, dirty-delay".to_owned();
        row(held, "ms", None, held_ms(new), Bound::Shown);
        let part = held_ms(new) / held_ms(old).max(1e-9);
        let what = "held longest: dirty-delay / synctime 1 s".to_owned();
        // A tick is a tick on any machine, but the time of a transaction, of which delays are made,
        // is fourteen times as long on a fourteenth of the disks.
        let bound = if m.part >= SMALLEST_PART { Bound::AtMost } else { Bound::Shown };
        row(what, "", Some(1.0), part, bound);
        let part = new.sustained_mb_per_s / old.sustained_mb_per_s.max(1e-9);
        let what = "throughput: dirty-delay / synctime 1 s".to_owned();
        row(what, "", Some(1.0), part, RATE);
    }
    rows
}

pub(super) fn outcome(place: String, m: &Measured<'_>, judged: bool) -> Outcome {
    let mut rows = rows(m);
    if !judged {
        rows.iter_mut().for_each(|row| row.bound = Bound::Shown);
    }
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
        experiment: "throttle",
        place,
        rows,
        charts: vec![
            chart("Time of each txg's sync", "time, s", "sync, s", syncs),
            chart("Syncs that take no longer", "sync, ms", "% of all", parts),
        ],
        texts: named.map(|(p, o)| (p.what.to_owned(), o.report.to_text())).collect(),
        meaning: meaning(m),
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

/// What was measured, in words; no more than that.
fn meaning(m: &Measured<'_>) -> String {
    let [five, one, fixed] = m.reports else { return String::new() };
    let longest = |o: &Observed| extremes(sync_ms(o)).1;
    let (long, short) = (longest(five), longest(one));
    let change = |from: f64, to: f64| 100.0 * (to / from.max(1e-9) - 1.0);
    let syncs = match change(long, short) {
        c if c < -10.0 => "shortens the longest sync",
        c if c > 10.0 => "lengthens the longest sync",
        _ => "leaves the longest sync as it is",
    };
    let rate = change(five.report.mb_per_s, one.report.mb_per_s);
    let (old, new) = (held_ms(one), held_ms(m.today));
    let held = if new < old { "no longer than" } else { "up to" };
    let kept = m.today.sustained_mb_per_s >= 0.9 * one.sustained_mb_per_s;
    let advice = if new < old && kept { ": leave zinc_throttle at dirty-delay." } else { "." };
    format!(
        "A target time of 1 s instead of 5 {syncs} (from {long:.0} to {short:.0} ms), at \
         {rate:+.0} % of throughput; a limit of 800 MB with one writer gives syncs of {:.0} ms \
         on average and {:.0} delays a second. Under the limit per txg a write stood still for up \
         to {old:.0} ms, with delays that grow with the dirty data {held} {new:.0} ms, at {:.0} % \
         of the throughput{advice}",
        mean_ms(fixed),
        fixed.report.delays_per_s,
        100.0 * m.today.sustained_mb_per_s / one.sustained_mb_per_s.max(1e-9),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is the study's, as far as the study is at hand.
    #[test]
    fn the_table_is_the_published_one() {
        let Some(text) = testkit::figures() else { return };
        let names = ["default", "synctime_1s", "override_800mb"];
        for (name, p) in names.iter().zip(&TABLE) {
            let section = text.split(&format!("[throttle.{name}]")).nth(1).expect("the section");
            let section = section.split("\n[").next().expect("its end");
            let has = |line: String| assert!(section.contains(&line), "{name}: {line}");
            has(format!("syncs_per_s = {}\n", p.syncs_per_s));
            has(format!("mb_per_s = {}\n", p.mb_per_s));
            has(format!("delays_per_s = {}\n", p.delays_per_s));
            has(format!("sync_ms_range = [{}, ", p.shortest_ms()));
            has(format!("write_limit_mb = [[{},", p.limit_mb.0));
            // The study's second report has one bucket more than the data file.
            for (ms, count) in p.syncs.iter().filter(|s| s.0 != 860.0) {
                has(format!("[{ms},{count}]"));
            }
        }
    }
}
