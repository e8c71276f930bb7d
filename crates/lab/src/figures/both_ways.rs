//! Every number of the data file is published by a row or listed as none, and every published value
//! of a row is a number of the file. What follows from numbers of it is not called published.
//!
//! The rows are made of nothing that was measured, by the same code as those of a run; the two
//! experiments that take no time are run.

use super::numbers::NOT_ROWS;
use super::tests::run;
use super::{INDIRECT, PIOS, RAW, SEEK, SYNC, THROTTLE};
use crate::row::{Published, Row};
use std::collections::{BTreeMap, BTreeSet};

/// Part of the txgs that `sync-stream` is run with, and with it of some of its published values.
const PART: f64 = 0.01;

/// The numbers of each line of a member, by `SECTION KEY`; those of repeated sections in turn. Of a
/// line that begins with a name, the name is a part of the member.
#[derive(Default)]
struct Data(BTreeMap<String, Vec<Vec<f64>>>);

impl Data {
    fn read() -> Self {
        let mut out = Self::default();
        let mut section = "";
        for line in crate::DOCUMENTS.lines() {
            let line = line.split('#').next().unwrap_or(line).trim();
            if line.starts_with('[') {
                section = line.trim_matches(|c| "[]".contains(c));
            } else if let Some((key, value)) = line.split_once(" = ") {
                out.add(&format!("{section} {key}"), value);
            }
        }
        out
    }

    fn add(&mut self, member: &str, value: &str) {
        // A table, of which the values are wanted.
        let values = value.trim_matches(|c| "{}".contains(c)).split(", ");
        let table: Vec<f64> =
            values.filter_map(|v| v.split_once(" = ")?.1.trim().parse().ok()).collect();
        if value.starts_with('{') {
            return self.0.entry(member.to_owned()).or_default().push(table);
        }
        let value: serde_json::Value =
            serde_json::from_str(value).unwrap_or_else(|e| panic!("{member}: {e}"));
        let lines: Vec<&serde_json::Value> = match value.as_array() {
            Some(lines) if lines.iter().all(serde_json::Value::is_array) => lines.iter().collect(),
            _ => vec![&value],
        };
        for line in lines {
            let parts = line.as_array().map_or_else(|| vec![line], |parts| parts.iter().collect());
            let numbers: Vec<f64> = parts.iter().filter_map(|part| part.as_f64()).collect();
            let name = parts.first().and_then(|part| part.as_str());
            let member = match name.filter(|_| !numbers.is_empty()) {
                Some(name) => format!("{member}: {name}"),
                None => member.to_owned(),
            };
            if !numbers.is_empty() {
                self.0.entry(member).or_default().push(numbers);
            }
        }
    }

    fn lines(&self, member: &str) -> &[Vec<f64>] {
        self.0.get(member).unwrap_or_else(|| panic!("no {member}"))
    }

    fn one(&self, member: &str) -> f64 {
        self.lines(member)[0][0]
    }
}

/// What is said of a row's published value.
struct Claim {
    experiment: &'static str,
    row: String,
    unit: &'static str,
    /// The value; none of a histogram or a range, which is the member's.
    published: Option<f64>,
    /// It follows from numbers, and is none that is published.
    follows: bool,
    /// Where its number stands, if it is one.
    number: Option<(String, usize, usize)>,
}

/// All claims, as they are put together.
struct Claims<'a> {
    data: &'a Data,
    all: Vec<Claim>,
    experiment: &'static str,
}

impl Claims<'_> {
    /// The number of a member is published by a row.
    fn is(
        &mut self,
        (member, line, column): (&str, usize, usize),
        row: String,
        unit: &'static str,
    ) {
        let published = self.data.lines(member)[line][column];
        self.scaled((member, line, column), row, unit, published);
    }

    /// The number of a member is published by a row, in a way of its own.
    fn scaled(
        &mut self,
        (member, line, column): (&str, usize, usize),
        row: String,
        unit: &'static str,
        published: f64,
    ) {
        let number = Some((member.to_owned(), line, column));
        let (experiment, published) = (self.experiment, Some(published));
        self.all.push(Claim { experiment, row, unit, published, follows: false, number });
    }

    /// A row publishes an end of a histogram.
    fn end(&mut self, row: &str, unit: &'static str, published: f64) {
        let (experiment, published, row) = (self.experiment, Some(published), row.to_owned());
        let claim = Claim { experiment, row, unit, published, follows: false, number: None };
        self.all.push(claim);
    }

    /// What a row is compared with follows from numbers, and is not published.
    fn follows(&mut self, row: &str, unit: &'static str, value: f64) {
        self.end(row, unit, value);
        self.is_not_published();
    }

    /// What was claimed last is not called published, although it is a number of the file.
    fn is_not_published(&mut self) {
        self.all.iter_mut().next_back().into_iter().for_each(|claim| claim.follows = true);
    }

    /// All numbers of a member are published by a row.
    fn whole(&mut self, member: &str, row: String, unit: &'static str) {
        let (experiment, number) = (self.experiment, Some((member.to_owned(), 0, 0)));
        let claim = Claim { experiment, row, unit, published: None, follows: false, number };
        self.all.push(claim);
    }

    fn one(&mut self, member: &str, row: &str, unit: &'static str) {
        self.is((member, 0, 0), row.to_owned(), unit);
    }

    /// A column of a table whose first one is in the rows' names.
    fn column(
        &mut self,
        (member, column): (&str, usize),
        unit: &'static str,
        row: impl Fn(f64) -> String,
    ) {
        for (n, line) in self.data.lines(member).iter().enumerate() {
            self.is((member, n, column), row(line[0]), unit);
        }
    }
}

fn raw_sweep(c: &mut Claims<'_>) {
    let data = c.data;
    c.experiment = RAW;
    c.column(("raw_sweep rows", 1), "MB/s", |kib| format!("{kib} KiB"));
    let corrected = |kib| data.lines("raw_sweep was_mb_per_s").iter().any(|line| line[0] == kib);
    let named = |kib: f64, what: &str| match corrected(kib) {
        true => format!("{kib} KiB, before the correction: {what}"),
        false => format!("{kib} KiB: {what}"),
    };
    c.column(("raw_sweep written_mb", 1), "MB", |kib| named(kib, "written in that time"));
    c.column(("raw_sweep elapsed_ms", 1), "ms", |kib| named(kib, "time of writing"));
    let all =
        ["rows", "written_mb", "elapsed_ms"].map(|key| data.lines(&format!("raw_sweep {key}")));
    for ((rate, mb), ms) in all[0].iter().zip(all[1]).zip(all[2]) {
        let by_bytes = 1e3 * mb[1] / ms[1];
        if (by_bytes - rate[1]).abs() > 2.0 {
            c.follows(&named(rate[0], "rate, by its MB and ms"), "MB/s", by_bytes);
        }
    }
    let was = |kib| format!("{kib} KiB, before the correction");
    c.column(("raw_sweep was_mb_per_s", 1), "MB/s", was);
    c.column(("raw_sweep text_mb_per_s", 1), "MB/s", was);
    let transfer = |kib| format!("{kib} KiB: transfer within one write");
    c.column(("raw_sweep transfer_s", 1), "s", transfer);
    for line in data.lines("raw_sweep rows") {
        let row = format!("{} KiB, write cache on", line[0]);
        c.one("raw_sweep write_cache_on_mb_per_s", &row, "MB/s");
    }
    let rate = |kib| data.lines("raw_sweep rows").iter().find(|l| l[0] == kib).map(|l| l[1]);
    let (Some(four), Some(eight)) = (rate(4096.0), rate(8192.0)) else { panic!("no 4 and 8 MiB") };
    c.follows("8192 KiB over 4096 KiB", "times", eight / four);
}

fn sync_stream(c: &mut Claims<'_>) {
    let data = c.data;
    c.experiment = SYNC;
    let member = "sync_stream rows";
    let lines = data.lines(member);
    for (n, line) in lines.iter().enumerate() {
        let name = |what: &str| format!("txg {}: {what}", n + 1);
        c.scaled((member, n, 0), name("written"), "MB", line[0] * PART);
        c.is_not_published();
        c.scaled((member, n, 1), name("sync time"), "ms", line[1] * PART);
        c.is_not_published();
        c.is((member, n, 2), name("average I/O"), "KiB");
        c.is((member, n, 3), name("throughput"), "MB/s");
    }
    let cache_off = "write cache off, txg 1: throughput";
    c.one("sync_stream write_cache_off_mb_per_s", cache_off, "MB/s");
    let least = lines.iter().map(|line| line[3]).fold(f64::INFINITY, f64::min);
    c.follows("least throughput of a sync", "MB/s", least);
    let raw = data.lines("raw_sweep rows").iter().find(|line| line[1] >= least);
    let name = "single raw writes that reach the least throughput";
    c.follows(name, "KiB", raw.map_or(0.0, |line| line[0]));
}

/// The reports, and the widths of the buckets of their sync times.
const REPORTS: [(&str, &str); 3] = [
    ("throttle.default", "synctime 5 s"),
    ("throttle.synctime_1s", "synctime 1 s"),
    ("throttle.override_800mb", "override 800 MB"),
];
const SYNC_BUCKET_MS: f64 = 20.0;

/// The mean of a histogram, with each value in the middle of its bucket.
fn mean(histogram: &[Vec<f64>]) -> f64 {
    let sum: f64 = histogram.iter().map(|b| (b[0] + SYNC_BUCKET_MS / 2.0) * b[1]).sum();
    sum / histogram.iter().map(|b| b[1]).sum::<f64>()
}

fn throttle(c: &mut Claims<'_>) {
    let data = c.data;
    c.experiment = THROTTLE;
    for (key, unit, what) in [
        ("size_tib", "TiB", "size"),
        ("available_tib", "TiB", "available"),
        ("used_kib", "KiB", "used"),
        ("capacity_percent", "%", "capacity"),
    ] {
        c.one(&format!("throttle listed_{key}"), &format!("zpool list: {what}"), unit);
    }
    let mut means = Vec::new();
    for (section, what) in REPORTS {
        let member = |key: &str| format!("{section} {key}");
        let name = |row: &str| format!("{what}: {row}");
        c.one(&member("syncs_per_s"), &name("syncs"), "/s");
        c.one(&member("mb_per_s"), &name("written"), "MB/s");
        c.one(&member("delays_per_s"), &name("delays"), "/s");
        c.is((&member("sync_ms_range"), 0, 0), name("shortest sync"), "ms");
        c.is((&member("sync_ms_range"), 0, 1), name("longest sync"), "ms");
        if section == REPORTS[2].0 {
            c.is_not_published();
        }
        let histograms = [
            ("sync_ms", "sync times"),
            ("written_mb", "written"),
            ("written_mb", "written, in one slot"),
            ("write_limit_mb", "limits"),
        ];
        for (key, of) in histograms {
            c.whole(&member(key), name(&format!("histogram of {of}")), "distance");
        }
        let syncs = data.lines(&member("sync_ms"));
        means.push(mean(syncs));
        c.follows(&name("mean sync"), "ms", mean(syncs));
        let count = syncs.iter().map(|bucket| bucket[1]).sum();
        c.follows(&name("histogram of sync times, count"), "", count);
        let limits = data.lines(&member("write_limit_mb"));
        c.end(&name("lowest limit"), "MB", limits[0][0]);
        c.end(&name("highest limit"), "MB", limits[limits.len() - 1][0]);
    }
    let text = "synctime 5 s: mean sync, by the text";
    c.one("throttle.default mean_sync_ms_above", text, "ms");
    c.is_not_published();
    let text = "override 800 MB: limit, by the text";
    c.one("throttle.override_800mb write_limit_override_mb", text, "MB");
    let of = |key: &str| REPORTS.map(|(section, _)| data.lines(&format!("{section} {key}")));
    let [five, one, _] = of("delays_per_s").map(|lines| lines[0][0]);
    let [long, short, _] = of("sync_ms_range").map(|lines| lines[0][1]);
    c.follows("delays: more with 1 s than with 5 s", "/s", one - five);
    c.follows("longest sync: 1 s over 5 s", "times", short / long);
    c.follows("mean sync: 1 s over 5 s, by the histograms", "times", means[1] / means[0]);
    // It "has gone down".
    c.follows("mean sync: 1 s over 5 s, by the text", "times", 1.0);
}

fn pios(c: &mut Claims<'_>) {
    let data = c.data;
    c.experiment = PIOS;
    c.one("pios raw_lun_mb_per_s", "dd: one unit without a pool", "MB/s");
    let name = |what: &str| format!("settings of 2007: {what}");
    let units = |n: u64| name(&format!("{n} units, blocks of 128 KiB"));
    c.one("pios one_lun_mb_per_s", &name("1 unit, blocks of 128 KiB"), "MiB/s");
    c.one("pios second_lun_adds_mb_per_s", &name("2 units: more than 1"), "MiB/s");
    c.one("pios two_more_luns_add_mb_per_s", &name("4 units: more than 2"), "MiB/s");
    c.one("pios twelve_luns_mb_per_s", &units(12), "MiB/s");
    let two = data.one("pios one_lun_mb_per_s") + data.one("pios second_lun_adds_mb_per_s");
    c.follows(&units(2), "MiB/s", two);
    c.follows(&units(4), "MiB/s", two + data.one("pios two_more_luns_add_mb_per_s"));
    for by in ["gain without checksums", "gain without checksums, over SHA-256"] {
        c.one("pios sha256_cost_mb_per_s", &name(by), "MiB/s");
    }
    for kib in [512, 1024] {
        let member = "pios max_block_512k_or_1m_gain_mb_per_s";
        let row = name(&format!("gain with blocks of {kib} KiB (20 to 50)"));
        c.whole(member, row, "MiB/s");
    }
    c.one("pios zio_threads_best_at_least", &name("zio threads that are enough"), "");
    c.one("pios best_leaf_sync_threads", &name("best number of leaf-sync threads"), "");
    // There is "no speed-up" by threads, and any threads for leaves are "better" than none.
    c.follows(&name("64 threads over 1"), "times", 1.0);
    c.follows(&name("2, 8 and 32 leaf-sync threads over none"), "times", 1.0);
    // Larger blocks help neither threads nor units, and the most leaf-sync threads lose again; what
    // is within 3 % is the same.
    for what in ["64 threads over 1", "12 units over 1"] {
        let what = format!("{what}, with blocks of 1 MiB, over that with 128 KiB");
        c.follows(&name(&what), "times", 1.03);
    }
    c.follows(&name("32 leaf-sync threads over 2"), "times", 0.97);
    let more = "pios more_with_16_zio_threads_mb_per_s";
    c.one(more, "16 zio threads: more than with 8", "MiB/s");
    let percent = "8 zio threads: spa_sync, checksums, of the runtime";
    c.one("pios checksums_percent_of_runtime", percent, "%");
    let of = ["8 zio threads", "16 zio threads", "16 zio threads, 4 leaf-sync threads"];
    for (n, profile) in of.iter().enumerate() {
        let name = |what: &str| format!("{profile}: {what}");
        c.is(("pios.profile runtime_s", n, 0), name("runtime"), "s");
        c.is(("pios.profile mb_per_s", n, 0), name("bandwidth"), "MiB/s");
        let sync = "pios.profile threads: spa_sync";
        c.is((sync, n, 1), name("spa_sync, checksums"), "s");
        c.is((sync, n, 2), name("spa_sync, I/O"), "s");
    }
    for (n, profile) in of.iter().take(2).enumerate() {
        let writers = "pios.profile threads: zio_issue_writers";
        c.is((writers, n, 2), format!("{profile}: writers, I/O"), "s/thread");
        c.is((writers, n, 3), format!("{profile}: writers, I/Os at once"), "");
    }
    let leaf = "pios.profile threads: leaf_sync";
    c.is((leaf, 0, 1), format!("{}: leaf_sync, checksums", of[2]), "s/thread");
    c.is((leaf, 0, 3), format!("{}: leaf_sync, checksums at once", of[2]), "");
}

fn seek(c: &mut Claims<'_>) {
    let data = c.data;
    c.experiment = SEEK;
    for pattern in ["linear", "random"] {
        let member = format!("seek {pattern}");
        let name = |bytes: f64, what: &str| format!("{pattern}, {bytes} bytes{what}");
        c.column((&member, 1), "reads/s", |bytes| name(bytes, ""));
        c.column((&member, 2), "MB/s", |bytes| name(bytes, ": bandwidth"));
        c.column((&member, 3), "%", |bytes| name(bytes, ": user"));
        c.column((&member, 4), "%", |bytes| name(bytes, ": system"));
        c.column((&member, 5), "%", |bytes| name(bytes, ": idle"));
    }
    let pair = |kib: f64| format!("break-even of {} KiB instead of {kib}", kib * 2.0);
    let text = |bytes: f64| format!("{}, by the text", pair(bytes / 1024.0));
    c.column(("seek break_even_percent", 1), "% of seeks", text);
    let lines = data.lines("seek random");
    let rate = |bytes| lines.iter().find(|l| l[0] == bytes).map_or(f64::NAN, |l| l[1]);
    for line in data.lines("seek break_even_percent") {
        let saved = 100.0 * (1.0 - rate(line[0] * 2.0) / rate(line[0]));
        c.follows(&format!("{}, by the table", pair(line[0] / 1024.0)), "% of seeks", saved);
    }
    c.one("seek bandwidth_break_bytes", "full bandwidth from", "bytes");
    c.one("seek idle_break_bytes", "idle from", "bytes");
    c.one("seek reseek_ms", "a seek more, with 64 KiB", "ms");
    let doubled = "random: bandwidth of the doubled block, on average";
    c.one("seek bandwidth_of_the_double", doubled, "times");
}

fn indirect(c: &mut Claims<'_>) {
    let data = c.data;
    c.experiment = INDIRECT;
    for n in 0..data.lines("indirect.read reads").len() {
        let of = |key: &str| data.lines(&format!("indirect.read {key}"))[n][0];
        let case = format!("{} KiB, every {}th block", of("indirect_kib"), of("alignment_blocks"));
        c.is(("indirect.read iops", n, 0), format!("{case}: rate"), "reads/s");
        for level in 0..3 {
            let name = format!("{case}: L{level}");
            c.is(("indirect.read ios", n, 2 - level), name.clone(), "I/Os");
            c.is(("indirect.read kib", n, 2 - level), name, "KiB");
        }
    }
    for (key, every) in [("worst", 1024), ("best", 128)] {
        let member = format!("indirect {key}_gain_percent");
        c.one(&member, &format!("128 KiB over 16 KiB, every {every}th block: gain"), "%");
    }
    c.one("indirect workloads_slower", "workloads that 128 KiB make slower", "");
    // Their results were "between".
    c.follows("steps from 16 to 32, 64 and 128 KiB that read more slowly", "", 0.0);
    for (n, case) in ["off", "lz4"].iter().enumerate() {
        let at = format!("writes at 1/200, {case}");
        for (i, kib) in [16, 128].iter().enumerate() {
            let name = |what: &str| format!("{kib} KiB, {at}: {what}");
            c.is(("indirect.write iops", n, i), name("rate"), "writes/s");
            c.is(("indirect.write file_gb", n, 0), name("file, 200 times"), "GB");
            c.is(("indirect.write allocated_percent", n, 0), name("allocated"), "%");
            if *case == "lz4" {
                let member = "indirect.write fragmentation_percent";
                c.is((member, 0, i), name("fragmentation"), "%");
            }
        }
        let rates = &data.lines("indirect.write iops")[n];
        let gain = 100.0 * (rates[1] / rates[0] - 1.0);
        c.follows(&format!("128 KiB over 16 KiB, {at}: gain"), "%", gain);
    }
    let points = &data.lines("indirect.write fragmentation_percent")[0];
    let less = "writes at 1/200, lz4: fragmentation less with 128 KiB";
    c.follows(less, "points", points[0] - points[1]);
}

/// All rows of the five documents.
fn rows() -> BTreeMap<&'static str, Vec<Row>> {
    let of = |name| run(&[name]).into_iter().flat_map(|outcome| outcome.rows).collect();
    BTreeMap::from([
        (RAW, crate::raw_sweep::sample()),
        (SYNC, of(SYNC)),
        (THROTTLE, crate::throttle::sample()),
        (PIOS, crate::pios_study::sample()),
        (SEEK, of(SEEK)),
        (INDIRECT, crate::indirect::sample()),
    ])
}

/// Whether a row publishes what is claimed.
fn holds(claim: &Claim, rows: &[Row], data: &Data) -> bool {
    let row = rows.iter().find(|row| row.row == claim.row && row.unit == claim.unit);
    if row.is_some_and(|row| row.published().is_none() != claim.follows) {
        return false;
    }
    match (row.and_then(Row::compared), claim.published) {
        (Some(Published::Figure(is)), Some(wanted)) => {
            (is - wanted).abs() <= 1e-9 * wanted.abs().max(1.0)
        }
        (Some(Published::Histogram(is)), None) => {
            let buckets = is.iter().map(|(at, count)| vec![*at, f64::from(*count)]);
            let member = claim.number.as_ref().map(|number| number.0.as_str());
            member.is_some_and(|member| buckets.collect::<Vec<_>>() == data.lines(member))
        }
        (Some(Published::Range(low, high)), None) => {
            let member = claim.number.as_ref().map(|number| number.0.as_str());
            member.is_some_and(|member| data.lines(member)[0] == [*low, *high])
        }
        _ => false,
    }
}

fn claims(data: &Data) -> Vec<Claim> {
    let mut all = Claims { data, all: Vec::new(), experiment: "" };
    for of in [raw_sweep, sync_stream, throttle, pios, seek, indirect] {
        of(&mut all);
    }
    all.all
}

#[test]
fn every_published_value_stands_in_the_data_file() {
    let data = Data::read();
    let (claims, rows) = (claims(&data), rows());
    let wrong = claims.iter().filter(|claim| !holds(claim, &rows[claim.experiment], &data));
    let named = |claim: &Claim| format!("{}, {} [{}]", claim.experiment, claim.row, claim.unit);
    let wrong: Vec<String> = wrong.map(named).collect();
    assert_eq!(wrong, [""; 0], "no such rows, or they publish something else");
    let claimed: BTreeSet<_> =
        claims.iter().map(|c| (c.experiment, c.row.as_str(), c.unit)).collect();
    for (experiment, rows) in &rows {
        let of_nothing = rows.iter().filter(|row| row.compared().is_some());
        let of_nothing =
            of_nothing.filter(|r| !claimed.contains(&(experiment, r.row.as_str(), r.unit)));
        let of_nothing: Vec<&str> = of_nothing.map(|row| row.row.as_str()).collect();
        assert_eq!(of_nothing, [""; 0], "{experiment}: values that are in no document");
    }
}

#[test]
fn every_number_of_the_data_file_is_a_row_or_said_to_be_none() {
    let data = Data::read();
    let claims = claims(&data);
    let rows: BTreeSet<&str> = claims.iter().map(|claim| claim.row.as_str()).collect();
    let listed = |member: &str, column: usize| {
        let of = NOT_ROWS
            .iter()
            .filter(|not| member == not.member || member.starts_with(&format!("{}: ", not.member)));
        of.clone().any(|not| not.columns.is_empty() || not.columns.contains(&column))
    };
    let mut nowhere = Vec::new();
    for (member, lines) in &data.0 {
        for (n, line) in lines.iter().enumerate() {
            for (column, number) in line.iter().enumerate() {
                let of = claims.iter().filter(|claim| {
                    let at = claim.number.as_ref();
                    at.is_some_and(|(m, l, c)| {
                        m == member && (claim.published.is_none() || (*l, *c) == (n, column))
                    })
                });
                // The first number of a line is what its rows are called by.
                let named = rows.iter().any(|row| names(row, *number));
                let is_a_name = named && (column == 0 && line.len() > 1 || is_key(member));
                if of.count() == 0 && !is_a_name && !listed(member, column) {
                    nowhere.push(format!("{member}: {number} in line {n}"));
                }
            }
        }
    }
    assert_eq!(nowhere, [""; 0]);
    // And what is said to be none is there.
    let gone = NOT_ROWS.iter().filter(|not| {
        !data.0.keys().any(|m| m == not.member || m.starts_with(&format!("{}: ", not.member)))
    });
    assert_eq!(gone.map(|not| not.member).collect::<Vec<_>>(), [""; 0]);
}

/// Members that say what rows are of.
fn is_key(member: &str) -> bool {
    let keys = ["zio_threads", "leaf_sync_threads", "alignment_blocks", "indirect_kib"];
    keys.iter().any(|key| member.ends_with(&format!(" {key}")))
}

/// Whether a number is in the name of a row, in bytes or in KiB.
fn names(row: &str, number: f64) -> bool {
    let mut words = row.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    words.any(|word| word.parse().is_ok_and(|n: f64| n == number || n * 1024.0 == number))
}
