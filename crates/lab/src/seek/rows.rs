//! The rows of both tables, what follows from them, and what they say.
//!
//! The disk is not named, and all its numbers were chosen by the rates of these tables: so the
//! rates are fitted, and everything else follows from them. Nothing here is predicted.

use super::{
    BANDWIDTH_BREAK_BYTES, BREAK_EVEN, DOUBLING, IDLE_BREAK_BYTES, PUBLISHED, Published, RESEEK_MS,
    Sizes, bandwidth_break, break_even_percent, idle_break,
};
use crate::outcome::Outcome;
use crate::raw_disk::Pace;
use crate::row::{Bound, Row};
use std::fmt::Write as _;

const NEAR: Bound = Bound::Within(0.1);
/// Percentages were printed as integers.
const PERCENT: Bound = Bound::WithinOrRounding(0.1);
/// What the rules find is a size, which has to be the study's.
const EXACT: Bound = Bound::Within(0.0);
/// The size whose reads take what the text says of a seek.
const RESEEK_BYTES: u64 = 65536;

/// A direction of the tables: its name, and how both sides have it.
struct Pattern {
    name: &'static str,
    of: fn(&Sizes) -> Option<Pace>,
    per_s: fn(&Published) -> f64,
    mb_per_s: fn(&Published) -> f64,
    sys: fn(&Published) -> f64,
    idle: fn(&Published) -> f64,
}

const LINEAR: Pattern = Pattern {
    name: "linear",
    of: |s| s.linear,
    per_s: |p| p.linear_per_s,
    mb_per_s: |p| p.linear_mb_per_s,
    sys: |p| p.linear_sys_percent,
    idle: |p| p.linear_idle_percent,
};
const RANDOM: Pattern = Pattern {
    name: "random",
    of: |s| s.random,
    per_s: |p| p.random_per_s,
    mb_per_s: |p| p.random_mb_per_s,
    sys: |p| p.random_sys_percent,
    idle: |p| p.random_idle_percent,
};

pub(super) fn rows(sizes: &[Sizes]) -> Vec<Row> {
    let mut rows = Vec::new();
    for pattern in [&LINEAR, &RANDOM] {
        let paces = PUBLISHED.iter().zip(sizes).filter_map(|(p, s)| Some((p, (pattern.of)(s)?)));
        for (p, pace) in paces {
            let name = format!("{}, {} bytes", pattern.name, p.bytes);
            let rate = pace.per_second();
            rows.push(Row::fitted(name, "reads/s", (pattern.per_s)(p), NEAR, rate));
        }
    }
    rows.extend(breaks(sizes));
    for pattern in [&LINEAR, &RANDOM] {
        let paces = PUBLISHED.iter().zip(sizes).filter_map(|(p, s)| Some((p, (pattern.of)(s)?)));
        for (p, pace) in paces {
            rows.extend(columns(pattern, p, &pace));
        }
    }
    rows
}

/// The other columns of a line.
fn columns(pattern: &Pattern, p: &Published, pace: &Pace) -> Vec<Row> {
    let name = |what: &str| format!("{}, {} bytes: {what}", pattern.name, p.bytes);
    let rate = pace.mib_per_second();
    let mut rows = vec![Row::derived(name("bandwidth"), "MB/s", (pattern.mb_per_s)(p), NEAR, rate)];
    let Some(idle) = pace.idle_percent() else { return rows };
    let (published, system) = ((pattern.idle)(p), (pattern.sys)(p));
    // What is not idle has to be as near as in its own column: a tenth of what is idle would be any
    // time that a read can take.
    let busy = PERCENT.range(system);
    let idle_of = |busy: Option<f64>| 100.0 - busy.unwrap_or(0.0);
    let bound = Bound::Between(idle_of(busy.high), idle_of(busy.low));
    rows.push(match pattern.name {
        // The time of a processor for a command was chosen by these.
        "linear" => Row::fitted(name("idle"), "%", published, bound, idle),
        _ => Row::derived(name("idle"), "%", published, bound, idle),
    });
    // The machine is given no time in user space, as in the study: nothing measures it.
    let user = Row::input(name("user"), "%", 0.0, EXACT, f64::NAN);
    rows.push(user.not_judged("given, and not measured"));
    rows.push(Row::derived(name("system"), "%", (pattern.sys)(p), PERCENT, 100.0 - idle));
    rows
}

/// What follows from the rates: where doubling breaks even, from where on the disk is used in full,
/// what a seek costs, and what doubling gains.
fn breaks(sizes: &[Sizes]) -> Vec<Row> {
    let mut rows = Vec::new();
    let published = |bytes| PUBLISHED.iter().find(|p| p.bytes == bytes).map(|p| p.random_per_s);
    for (bytes, text) in BREAK_EVEN {
        let Some(found) = break_even_percent(sizes, bytes) else { continue };
        let name = format!("break-even of {} KiB instead of {}", bytes >> 9, bytes >> 10);
        let unit = "% of seeks";
        rows.push(Row::derived(format!("{name}, by the text"), unit, text, NEAR, found));
        if let (Some(one), Some(two)) = (published(bytes), published(bytes * 2)) {
            let table = 100.0 * (1.0 - two / one);
            let row = Row::derived(format!("{name}, by the table"), unit, table, NEAR, found);
            rows.push(row.follows("its table"));
        }
    }
    if let Some(found) = bandwidth_break(sizes) {
        rows.push(Row::derived(
            "full bandwidth from",
            "bytes",
            BANDWIDTH_BREAK_BYTES,
            EXACT,
            found,
        ));
    }
    if let Some(found) = idle_break(sizes) {
        rows.push(Row::derived("idle from", "bytes", IDLE_BREAK_BYTES, EXACT, found));
    }
    let random = |bytes| sizes.iter().find(|s| s.bytes == bytes).and_then(|s| s.random);
    if let Some(pace) = random(RESEEK_BYTES) {
        let ms = 1e3 / pace.per_second();
        rows.push(Row::derived("a seek more, with 64 KiB", "ms", RESEEK_MS, NEAR, ms));
    }
    if let (Some(first), Some(last)) = (sizes.first(), sizes.last())
        && let (Some(least), Some(most)) = (first.random, last.random)
    {
        let doublings = (last.bytes as f64 / first.bytes as f64).log2();
        let all = most.mib_per_second() / least.mib_per_second().max(1e-9);
        let each = all.powf(1.0 / doublings.max(1.0));
        let name = "random: bandwidth of the doubled block, on average";
        rows.push(Row::derived(name, "times", DOUBLING, NEAR, each));
    }
    rows
}

/// What block to choose on this disk.
pub(super) fn meaning(outcome: &Outcome) -> String {
    let size = |name: &str| {
        outcome.measured(name).map(|bytes| match bytes {
            bytes if bytes < 1024.0 => format!("{bytes} bytes"),
            bytes => format!("{} KiB", bytes / 1024.0),
        })
    };
    let mut text = String::new();
    if let Some(full) = size("full bandwidth from") {
        let place = &outcome.place;
        let _ = write!(text, "On {place}: reads in a row have the full bandwidth from {full} on");
        if let Some(idle) = size("idle from") {
            let _ = write!(text, ", and take 2 % of a processor at most from {idle} on");
        }
        text.push('.');
    }
    let name = "break-even of 128 KiB instead of 64, by the text";
    if let Some(percent) = outcome.measured(name) {
        let _ = write!(
            text,
            " At random and one at a time, 128 KiB instead of 64 KiB pay when they save more than \
             {percent:.0} % of later seeks.",
        );
    }
    text
}
