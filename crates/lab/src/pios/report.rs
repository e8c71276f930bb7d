//! What runs found, as tables and JSON.

use super::bytes::human;
use super::plan::{Layout, Plan};
use super::run::{Measured, RunResult};
use crate::outcome::{Chart, Outcome, Series};
use engine::inside::zio::profile::{KindProfile, Profile, StageProfile, ThreadKind};
use serde_json::{Value, json as value};
use std::fmt::Write as _;
use std::path::Path;
use term::Table;

/// The runs for a terminal: a line for each, their time stamps, whether they were verified, and
/// where the threads of the engine spent their time. With `plain` sizes are bytes, otherwise they
/// have suffixes.
#[must_use]
pub fn text(runs: &[RunResult], plain: bool, is_verified: bool) -> String {
    let (headings, rows) = table(runs, plain);
    let mut out = laid_out(&headings, &vec![true; headings.len()], rows);
    let stamps: Vec<String> = runs.iter().map(|run| run.plan.seed.to_string()).collect();
    let _ = writeln!(out, "timestamp {}", stamps.join(","));
    if is_verified {
        out += "verified: every byte is what was written\n";
    }
    for run in runs {
        let Some(profile) = &run.profile else { continue };
        if runs.len() > 1 {
            let _ = writeln!(out, "\n{}", run.plan.seed);
        }
        let (headings, rows) = profile_table(profile);
        let right: Vec<bool> = (0..headings.len()).map(|n| n > 0).collect();
        out += &laid_out(&headings, &right, rows);
    }
    out
}

fn laid_out(headings: &[&str], right: &[bool], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new(headings, right, false);
    rows.into_iter().for_each(|row| table.row(row));
    table.text()
}

/// A table with a line for each run: its headings, and its cells as text. With `plain` sizes are
/// bytes, otherwise they have suffixes.
fn table(runs: &[RunResult], plain: bool) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let headings = vec![
        "THREADS",
        "REGIONS",
        "REGION",
        "CHUNK",
        "BLOCK",
        "OFFSET",
        "DATA",
        "WRITE s",
        "WRITE MiB/s",
        "READ s",
        "READ MiB/s",
    ];
    let size = |n: u64| if plain { n.to_string() } else { human(n) };
    let time =
        |m: Option<&Measured>| m.map_or("-".to_owned(), |m| format!("{:.3}", m.time.as_secs_f64()));
    let rate =
        |m: Option<&Measured>| m.map_or("-".to_owned(), |m| format!("{:.1}", m.mib_per_second()));
    let row = |r: &RunResult| {
        let (p, w, d) = (&r.plan, r.write.as_ref(), r.read.as_ref());
        vec![
            p.threads.to_string(),
            p.regions.to_string(),
            size(p.region_size),
            size(p.chunk_size),
            size(p.block_size),
            size(p.offset),
            size(p.total()),
            time(w),
            rate(w),
            time(d),
            rate(d),
        ]
    };
    (headings, runs.iter().map(row).collect())
}

/// The runs as charts over their threads, and as a table. `path` is what was loaded.
#[must_use]
pub fn outcome(path: &Path, runs: &[RunResult]) -> Outcome {
    let points = |of: fn(&RunResult) -> Option<&Measured>| {
        let point = |r: &RunResult| Some((r.plan.threads as f64, of(r)?.mib_per_second()));
        runs.iter().filter_map(point).collect::<Vec<_>>()
    };
    let lines = [("write", points(|r| r.write.as_ref())), ("read", points(|r| r.read.as_ref()))];
    let lines = lines.into_iter().filter(|(_, p)| !p.is_empty());
    let chart = Chart {
        title: "Bandwidth".to_owned(),
        x: "threads".to_owned(),
        y: "MiB/s".to_owned(),
        x_log: true,
        bars: false,
        series: lines.map(|(name, points)| Series { name: name.to_owned(), points }).collect(),
    };
    let (headings, rows) = table(runs, false);
    let lines = rows.iter().map(|row| row.join("  "));
    let text = core::iter::once(headings.join("  ")).chain(lines).collect::<Vec<_>>();
    Outcome {
        charts: vec![chart],
        texts: vec![("Runs".to_owned(), text.join("\n"))],
        ..Outcome::new("pios", path.display().to_string())
    }
}

fn measured(m: Option<&Measured>) -> Value {
    m.map_or(Value::Null, |m| {
        value!({
            "bytes": m.bytes,
            "ios": m.ios,
            "seconds": m.time.as_secs_f64(),
            "bytes_per_second": m.bytes_per_second(),
            "longest_io_seconds": m.longest.as_secs_f64(),
        })
    })
}

fn plan(p: &Plan) -> Value {
    value!({
        "threads": p.threads,
        "regions": p.regions,
        "region_bytes": p.region_size,
        "chunk_bytes": p.chunk_size,
        "block_bytes": p.block_size,
        "offset_bytes": p.offset,
        "layout": if p.layout == Layout::Shared { "ssf" } else { "fpp" },
        "chunk_noise_bytes": p.chunk_noise,
        "region_noise": p.region_noise,
        "thread_delay_ms": p.thread_delay.as_millis() as u64,
        "timestamp": p.seed,
    })
}

fn profile(profile: &Profile) -> Value {
    let stage = |s: &StageProfile| {
        let seconds = s.time.as_secs_f64();
        value!({ "count": s.count, "seconds": seconds, "at_once": s.at_once() })
    };
    let kind = |k: &KindProfile| {
        value!({
            "kind": k.kind.to_string(),
            "threads": k.threads,
            "checksum": stage(&k.checksum),
            "compress": stage(&k.compress),
            "allocate": stage(&k.allocate),
            "io": stage(&k.io),
        })
    };
    profile.kinds.iter().map(kind).collect()
}

/// The runs as JSON.
#[must_use]
pub fn json(runs: &[RunResult]) -> Value {
    let run = |r: &RunResult| {
        value!({
            "plan": plan(&r.plan),
            "write": measured(r.write.as_ref()),
            "read": measured(r.read.as_ref()),
            "profile": r.profile.as_ref().map_or(Value::Null, profile),
        })
    };
    Value::Array(runs.iter().map(run).collect())
}

/// The profile in the columns of the study: headings, and a line for each kind of thread that did
/// anything.
pub(crate) fn profile_table(profile: &Profile) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let headings = vec![
        "THREADS",
        "COUNT",
        "CHECKSUM s/thread",
        "AT ONCE",
        "COMPRESS s/thread",
        "ALLOCATE s/thread",
        "I/O s/thread",
        "I/Os",
        "AT ONCE",
    ];
    let row = |k: &KindProfile| {
        let seconds = |s| format!("{:.2}", k.per_thread(s));
        // Without threads of their own, I/Os are the devices', and counted together.
        let count = match (k.kind, k.threads) {
            (ThreadKind::ZioIssue, 0) => "async".to_owned(),
            (_, n) => n.to_string(),
        };
        vec![
            k.kind.to_string(),
            count,
            seconds(&k.checksum),
            format!("{:.2}", k.checksum.at_once()),
            seconds(&k.compress),
            seconds(&k.allocate),
            seconds(&k.io),
            k.io.count.to_string(),
            format!("{:.2}", k.io.at_once()),
        ]
    };
    let busy = |k: &&KindProfile| k.threads > 0 || k.io.count > 0 || k.checksum.count > 0;
    (headings, profile.kinds.iter().filter(busy).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn sizes_are_short_and_the_table_says_what_was_not_done() {
        let sizes = [0, 512, 1 << 10, 1536, 128 << 20, (8 << 30) + 1, 5 << 40];
        let texts = sizes.map(human);
        assert_eq!(texts, ["0", "512", "1K", "1.5K", "128M", "8.0G", "5T"]);
        let m = Measured {
            bytes: 8 << 30,
            ios: 4096,
            time: Duration::from_millis(24_576),
            longest: Duration::ZERO,
        };
        let plan = Plan::new(4, 64, 128 << 20, 2 << 20);
        let run = RunResult { plan, write: Some(m), read: None, profile: None };
        let (headings, rows) = table(std::slice::from_ref(&run), false);
        assert_eq!(headings.len(), rows[0].len());
        let expected = ["4", "64", "128M", "2M", "128K", "128M", "8G", "24.576", "333.3", "-", "-"];
        assert_eq!(rows[0], expected);
        assert_eq!(json(std::slice::from_ref(&run))[0]["write"]["ios"], 4096);
        let text = text(&[run.clone(), run], true, true);
        assert!(text.starts_with("THREADS") && text.contains(" 134217728 "), "{text}");
        assert!(text.ends_with("timestamp 1,1\nverified: every byte is what was written\n"));
    }
}
