//! The rows of the reads, and what all rows say.

use super::published::{GAIN_PERCENT, Read};
use super::{All, rate};
use crate::outcome::Outcome;
use crate::row::{Bound, Row};

/// Their number is within 2 % of what is expected, whatever places chance chooses.
const COUNTABLE: f64 = 5000.0;
/// The case and size by whose rate the seeks of the disks were chosen.
const FITTED: (u64, u64) = (1024, 128);

/// Why rows of a smaller file are not judged.
pub(super) const PART: &str = "a part of the study's file";
const FEW: &str = "so few that chance decides";

const NEAR: Bound = Bound::Within(0.1);
const COUNT: Bound = Bound::Within(0.02);
const BYTES: Bound = Bound::Within(0.15);

/// Begin of the names of rows that compare both sizes: how many times as fast the larger is, and by
/// how much it is faster.
pub(super) const OVER: &str = "128 KiB over 16 KiB";
/// Unit of the first of these.
const TIMES: &str = "times";

/// By how many percent the larger blocks are faster, by the study and by two rates that were
/// measured: the gain itself has to be within a tenth of the study's. A quotient of two rates does
/// not show that: 1.02 is a tenth below 1.14, and 2 % are a seventh of 14.
pub(super) fn of_gain(what: &str, published: f64, over: f64) -> [Row; 2] {
    let name = |of: &str| format!("{OVER}, {what}: {of}");
    let gain = Row::derived(name("gain"), "%", published, NEAR, 100.0 * (over - 1.0));
    [Row::own(name("rate"), TIMES, over), gain]
}

/// The rows of all cases, then the gains.
pub(super) fn of_reads(measured: &All<'_>, part: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (p, case, m) in measured {
        let name =
            |what: &str| format!("{} KiB, every {}th block: {what}", p.indirect_kib, p.alignment);
        for level in 0..3u8 {
            let count = m.level(level);
            let found = (count.ios as f64, count.bytes as f64 / 1024.0);
            rows.extend(of_level(&name(&format!("L{level}")), level, (p, part), found));
        }
        rows.push(of_rate(name("rate"), p, rate(case, m), part));
    }
    for ((alignment, gain), percent) in gains(measured).into_iter().zip(GAIN_PERCENT) {
        let both = of_gain(&format!("every {alignment}th block"), percent, gain);
        rows.extend(both.map(|row| row.judged_if(part >= 1.0, PART)));
    }
    rows
}

/// I/Os and KiB of a level.
fn of_level(name: &str, level: u8, (p, part): (&Read, f64), found: (f64, f64)) -> [Row; 2] {
    let at = usize::from(level);
    let (ios, kib) = (p.ios[at] * part, p.kib[at] * part);
    let judged = part >= 1.0 || ios >= COUNTABLE;
    let ios = match level {
        // That the cache holds all that was read was chosen by it.
        0 => Row::fitted(name, "I/Os", ios, COUNT, found.0),
        // As many as there are places, or as the whole file has: the reads go all over it.
        _ => Row::derived(name, "I/Os", ios, COUNT, found.0),
    };
    let kib = match level {
        // Data are not compressed.
        0 => Row::derived(name, "KiB", kib, BYTES, found.1),
        // What the file holds, how it was written and what compresses it were chosen by these.
        _ => Row::fitted(name, "KiB", kib, BYTES, found.1),
    };
    // Of a part of the file nothing was printed.
    let of_part = |row: Row| if part < 1.0 { row.follows("that part of the study's") } else { row };
    [ios, kib].map(|row| of_part(row).judged_if(judged, FEW))
}

fn of_rate(name: String, p: &Read, found: f64, part: f64) -> Row {
    let row = match (p.alignment, p.indirect_kib) {
        FITTED => Row::fitted(name, "reads/s", p.iops, NEAR, found),
        _ => Row::predicted(name, "reads/s", p.iops, NEAR, found),
    };
    row.judged_if(part >= 1.0, PART)
}

/// By how much the larger blocks read faster, per case: as a ratio.
fn gains(measured: &All<'_>) -> Vec<(u64, f64)> {
    let pairs = measured.chunks_exact(2);
    let gain = |pair: &All<'_>| {
        let rates: Vec<f64> = pair.iter().map(|(_, case, m)| rate(case, m)).collect();
        (pair[0].0.alignment, rates[1] / rates[0])
    };
    pairs.map(gain).collect()
}

/// Whether a row says how many times as fast the larger blocks are.
fn is_over(row: &Row) -> bool {
    row.row.starts_with(OVER) && row.unit == TIMES
}

/// How many of the workloads that were measured are slower with the larger blocks. The study could
/// not find one.
pub(super) fn slower(rows: &[Row], part: f64) -> Row {
    let slower = rows.iter().filter(|row| is_over(row) && row.measured() < 1.0);
    let name = "workloads that 128 KiB make slower";
    let row = Row::derived(name, "", 0.0, Bound::AtMost, slower.count() as f64);
    row.judged_if(part >= 1.0, PART)
}

/// What the size of indirect blocks did to each workload, and whether that is the same in all runs.
pub(super) fn meaning(outcome: &Outcome) -> String {
    let over = || outcome.rows.iter().filter(|row| is_over(row));
    let named = |row: &Row| {
        let what = row.row.trim_start_matches(OVER).trim_start_matches(", ");
        let what = what.split(": ").next().unwrap_or(what).to_owned();
        match (row.min(), row.max()) {
            (low, high) if (high - low).abs() < 0.005 => format!("{what} {low:.2}"),
            (low, high) => format!("{what} {low:.2} to {high:.2}"),
        }
    };
    let list = |rows: &mut dyn Iterator<Item = &Row>| rows.map(named).collect::<Vec<_>>();
    let faster = list(&mut over().filter(|row| row.min() > 1.0));
    let slower = list(&mut over().filter(|row| row.max() < 1.0));
    let either = list(&mut over().filter(|row| row.min() <= 1.0 && row.max() >= 1.0));
    if over().next().is_none() {
        return String::new();
    }
    let mut text = format!(
        "On {}, with cold metadata: how many times as fast indirect blocks of 128 KiB are as those \
         of 16 KiB.",
        outcome.place,
    );
    for (what, found) in
        [("Faster", faster), ("Slower", slower), ("Not the same in all runs", either)]
    {
        if !found.is_empty() {
            text += &format!(" {what}: {}.", found.join(", "));
        }
    }
    let is_write = |row: &&Row| row.row.contains("writes at 1/") && row.row.ends_with(": rate");
    if over().any(|row| is_write(&row)) {
        let mut rates = outcome.rows.iter().filter(is_write);
        text += match rates.any(Row::misses) {
            true => {
                " The writes are on a small model of the study's pool, whose rates it does not \
                 meet."
            }
            false => " The writes are on a small model of the study's pool.",
        };
    }
    text
}
