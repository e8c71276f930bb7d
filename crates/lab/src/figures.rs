//! Every figure of the five documents and of the studies that were held out, and where it is
//! repeated.
//!
//! The list is written by hand: what a document says, and which rows repeat it, or why none does.
//! The results are a run's: [`markdown`] puts both together.

#[cfg(test)]
mod both_ways;
mod numbers;

use crate::outcome::Outcome;
use crate::row::{Kind, Row, Verdict};
use numbers::NOT_ROWS;
use std::fmt::Write as _;

/// Something that a document publishes.
struct Item {
    /// What.
    what: &'static str,
    /// Where it is repeated.
    rows: Rows,
}

/// Where an item is repeated.
enum Rows {
    /// In rows of this experiment whose names begin and end like this, and have this unit, if any.
    In(&'static str, &'static str, &'static str, &'static str),
    /// In a text or chart of this experiment, which is not judged.
    Shown(&'static str, &'static str),
    /// Nowhere, and why.
    Not(&'static str),
}

use Rows::{In, Not, Shown};

const fn item(what: &'static str, rows: Rows) -> Item {
    Item { what, rows }
}

const RAW: &str = "raw-sweep";
const SYNC: &str = "sync-stream";
const SEEK: &str = "seek";
const THROTTLE: &str = "throttle";
const PIOS: &str = "pios";
const INDIRECT: &str = "indirect";

/// A document, and what it publishes.
type Document = (&'static str, &'static [Item]);

const DOCUMENTS: [Document; 14] = [
    ("000: single writes to a raw disk, and the same disk under a pool (2006)", DOCUMENT_0),
    ("001: the write throttle observed (2008)", DOCUMENT_1),
    ("002: benchmarks with pios over the object layer (2007)", DOCUMENT_2),
    ("003: linear and random reads of a disk (2009)", DOCUMENT_3),
    ("004: larger indirect blocks (2016)", DOCUMENT_4),
    ("Held out, H7: allocation between unequal vdevs (2015)", HELD_OUT_7),
    ("Held out, H3: artificial latency (2015)", HELD_OUT_3),
    ("Held out, H5: ten writes under way, and one (2016)", HELD_OUT_5),
    ("Held out, H4: reads of striped mirrors (2013)", HELD_OUT_4),
    ("Held out, H2: 26 layouts of the same disks (2019)", HELD_OUT_2),
    ("Held out, H6: delays by what is dirty (2017, 2024)", HELD_OUT_6),
    ("Held out, H1: synchronous writes (2017)", HELD_OUT_1),
    ("Held out, H8: the order of scrubs (2016 to 2023)", HELD_OUT_8),
    ("Held out, H9: log space maps (2018, 2019)", HELD_OUT_9),
];

const DOCUMENT_0: &[Item] = &[
    item("table: throughput, 16 KB to 32768 KB", In(RAW, "", " KiB", "MB/s")),
    item("table: was 46, was 46, was 47", In(RAW, "", "before the correction", "")),
    item("table: MB", In(RAW, "", "written in that time", "")),
    item("table: ms of phys", In(RAW, "", "time of writing", "")),
    item("table: MB over ms, where that is another rate", In(RAW, "", "by its MB and ms", "")),
    item("text: the lines of the script", Shown(RAW, "a text: as the study's script prints it")),
    item(
        "text: about 0.13 s of transfer in a write of 8 MB",
        In(RAW, "8192 KiB: transfer", "", ""),
    ),
    item("text: 1 seek in a write of 8 MB", In(RAW, "8192 KiB: seek", "", "")),
    item("text: 4 MB is very close to 8 MB", In(RAW, "8192 KiB over", "", "")),
    item("text: 16 and 32 MB are no faster than 8 MB", In(RAW, "32768 KiB", "KiB", "MB/s")),
    item("text: 66 MB/s with the write cache from 16 KB on", In(RAW, "", "write cache on", "")),
    item("text: a single 2 MB I/O gets 46 MB/s", In(RAW, "2048 KiB, before", "", "")),
    item("output of spa_sync.d: MB", In(SYNC, "txg ", ": written", "")),
    item("output of spa_sync.d: ms", In(SYNC, "txg ", ": sync time", "")),
    item("output of spa_sync.d: average size", In(SYNC, "txg ", ": average I/O", "")),
    item("output of spa_sync.d: throughput", In(SYNC, "txg ", ": throughput", "")),
    item("text: the same with the write cache off", In(SYNC, "write cache off", "", "")),
    item("tables: as fast as single writes of 4 to 8 MB", In(SYNC, "single raw writes", "", "")),
    item("text: 256K may give more, nothing proves it", In(SYNC, "txg 1 with records", "", "")),
    item("text: 35 concurrent I/Os", Shown(SYNC, "a parameter")),
    item(
        "text: differences may come from the cylinders",
        Not("the study does not say where its files lay"),
    ),
];

const DOCUMENT_1: &[Item] = &[
    item("zpool list: 19.0T, 620K used, 19.0T available, 0%", In(THROTTLE, "zpool list", "", "")),
    item("report 1: sync rate, delays", In(THROTTLE, "synctime 5 s: ", "", "/s")),
    item("report 1: MB/s", In(THROTTLE, "synctime 5 s: written", "", "MB/s")),
    item("report 1: range of the sync time", In(THROTTLE, "synctime 5 s: ", "est sync", "ms")),
    item("report 1: mean of the histogram", In(THROTTLE, "synctime 5 s: mean sync", "sync", "")),
    item("report 1: well over a second", In(THROTTLE, "synctime 5 s: mean sync, by", "", "")),
    item("report 1: histograms", In(THROTTLE, "synctime 5 s: histogram", "", "")),
    item("report 1: limit", In(THROTTLE, "synctime 5 s: ", "limit", "MB")),
    item("report 2: sync rate, delays", In(THROTTLE, "synctime 1 s: ", "", "/s")),
    item("report 2: MB/s", In(THROTTLE, "synctime 1 s: written", "", "MB/s")),
    item("report 2: range of the sync time", In(THROTTLE, "synctime 1 s: ", "est sync", "ms")),
    item("report 2: mean of the histogram", In(THROTTLE, "synctime 1 s: mean sync", "", "")),
    item("report 2: histograms", In(THROTTLE, "synctime 1 s: histogram", "", "")),
    item("report 2: the limit moves", In(THROTTLE, "synctime 1 s: ", "limit", "MB")),
    item("report 3: sync rate, delays", In(THROTTLE, "override 800 MB: ", "", "/s")),
    item("report 3: MB/s", In(THROTTLE, "override 800 MB: written", "", "MB/s")),
    item("report 3: range of the sync time", In(THROTTLE, "override 800 MB: ", "est sync", "ms")),
    item("report 3: mean of the histogram", In(THROTTLE, "override 800 MB: mean sync", "", "")),
    item("report 3: histograms", In(THROTTLE, "override 800 MB: histogram", "", "")),
    item("report 3: limit of 800 MB", In(THROTTLE, "override 800 MB: limit, by", "", "")),
    item("report 3: limit of 1500 to 1750 MB", In(THROTTLE, "override 800 MB: ", "limit", "MB")),
    item("the same, with that limit", In(THROTTLE, "a limit of 1600 MB", "", "")),
    item("text: 1 s shortens the longest sync", In(THROTTLE, "longest sync: 1 s over", "", "")),
    item("text: 1 s shortens syncs on average", In(THROTTLE, "mean sync: 1 s over", "text", "")),
    item(
        "the same by the histograms: longer by a twentieth",
        In(THROTTLE, "mean sync: 1 s over", "histograms", ""),
    ),
    item("delays rise from report 1 to report 2", In(THROTTLE, "delays: more with", "", "")),
];

const DOCUMENT_2: &[Item] = &[
    item("hardware: 4 Xeons of 3.16 GHz, 4 GB, 12 LUNs", Shown(PIOS, "parameters")),
    item("hardware: Red Hat 4, LPFC", Not("neither the system nor the links are in the model")),
    item("dd: 350 MB/s to one LUN", In(PIOS, "dd: ", "", "")),
    item("text: 210 MB/s with one LUN", In(PIOS, "settings of 2007: 1 unit", "", "")),
    item("text: that is quite good beside dd", In(PIOS, "settings of 2007: 1 unit", "", "")),
    item("text: 30 more with a second LUN", In(PIOS, "settings of 2007: 2 units", "", "")),
    item("text: 10 more with two more", In(PIOS, "settings of 2007: 4 units", "", "")),
    item("text: 350 with 12 LUNs", In(PIOS, "settings of 2007: 12 units", "", "")),
    item("text: 350 is the maximum", In(PIOS, "2007, units", "", "")),
    item("text: no speed-up by threads", In(PIOS, "settings of 2007: 64 threads", "over 1", "")),
    item("text: threads decrease throughput", In(PIOS, "settings of 2007: 64 ", "over 1", "")),
    item(
        "ext3 as a reference",
        Not("another file system, of which there is no model; its figures are in no text"),
    ),
    item("text: 1, 2 and 4 threads exceed ext3", Not("the same: there is nothing to exceed")),
    item(
        "charts: by threads, LUNs, sizes of blocks, zio threads, leaf-sync threads",
        In(PIOS, "2007, ", "", ""),
    ),
    item("their values", Not("pictures that the document no longer has")),
    item("text: 10 MB/s without checksums", In(PIOS, "settings of 2007: gain", "checksums", "")),
    item("the same, over SHA-256", In(PIOS, "settings of 2007: gain", "SHA-256", "")),
    item("text: about the same with other threads", In(PIOS, "2007, no checksums", "", "")),
    item("text: no huge impact", In(PIOS, "settings of 2007: gain without checksums", "", "")),
    item("text: no block above 128 kB natively", Shown(PIOS, "the size in the names of rows")),
    item(
        "text: huge blocks are more efficient on such units",
        Not("their rates by size are in no text, so that there is nothing to compare with"),
    ),
    item(
        "text: 20 to 50 MB/s by larger blocks",
        In(PIOS, "settings of 2007: gain with", "50)", ""),
    ),
    item(
        "text: written from scratch",
        Shown(PIOS, "a part of the load, which is made: every block is written once"),
    ),
    item(
        "text: only if small pieces are not modified",
        Not("advice without a figure; the study measured no such load"),
    ),
    item(
        "text: larger blocks do not help threads to scale",
        In(PIOS, "settings of 2007: 64 threads", "128 KiB", ""),
    ),
    item("text: nor stripes", In(PIOS, "settings of 2007: 12 units over", "128 KiB", "")),
    item("text: 8 zio threads by default", Shown(PIOS, "a setting of all surveys but theirs")),
    item("text: a strong impact of zio threads", In(PIOS, "2007, zio threads", "", "")),
    item("text: 8 are not optimal", In(PIOS, "settings of 2007: zio threads", "", "")),
    item("text: at least 12 zio threads", In(PIOS, "settings of 2007: zio threads", "", "")),
    item(
        "text: strace, gstack, gprof and clocks of its own",
        Not("how the profiles were made; zinc counts the times of its threads itself"),
    ),
    item("the command of the profiles, 6 LUNs, 1 MB", Shown(PIOS, "the load, which is made")),
    item("profiles: runtime", In(PIOS, "", "threads: runtime", "")),
    item("profiles: bandwidth", In(PIOS, "", "threads: bandwidth", "")),
    item("profiles: spa_sync, checksums", In(PIOS, "", "spa_sync, checksums", "")),
    item("profiles: spa_sync, I/O", In(PIOS, "", "spa_sync, I/O", "")),
    item("profiles: writers, I/O", In(PIOS, "", "writers, I/O", "")),
    item("profiles: simultaneous I/Os", In(PIOS, "", "writers, I/Os at once", "")),
    item("text: most is the writers' I/O", In(PIOS, "8 zio threads: writers, I/O", "I/O", "")),
    item("text: I/O is well parallelized", In(PIOS, "", "writers, I/Os at once", "")),
    item("text: 12 s of I/O instead of 19", In(PIOS, "", "writers, I/O", "")),
    item("profiles: readers and interrupts, 0", Not("the engine has no such threads")),
    item("profiles: dbuf_sync_leaf", In(PIOS, "", "leaf_sync, checksums", "")),
    item("profiles: simultaneous checksums", In(PIOS, "", "checksums at once", "")),
    item("text: 48 % of the runtime", In(PIOS, "", "of the runtime", "")),
    item(
        "text: checksums mostly by one thread",
        In(PIOS, "8 zio threads: spa_sync, checksums", "", ""),
    ),
    item("text: 40 MB/s by 16 zio threads", In(PIOS, "16 zio threads: more", "", "")),
    item("text: checksums take as long", In(PIOS, "16 zio threads: spa_sync, check", "", "")),
    item(
        "text: leaves of one parent at once, then the parents in order",
        Shown(PIOS, "a setting, which is made: level 0 of a sync by several threads"),
    ),
    item("text: 417 MB/s instead of 375", In(PIOS, "16 zio threads", "bandwidth", "")),
    item("text: any leaf-sync threads are better", In(PIOS, "settings of 2007: 2, 8", "", "")),
    item("text: more and more decrease it", In(PIOS, "settings of 2007: 32 leaf", "", "")),
    item("text: best with 2", In(PIOS, "settings of 2007: best number", "", "")),
    item(
        "conclusion: threads, block size and zio threads",
        Shown(PIOS, "what the text says of each, above"),
    ),
    item(
        "conclusion: dbuf_sync_list is a bottleneck, parallel it gains",
        In(PIOS, "16 zio threads, 4 leaf-sync threads: bandwidth", "", ""),
    ),
    item("three things left open", In(PIOS, "zinc", "", "")),
];

const DOCUMENT_3: &[Item] = &[
    item("linear: tps", In(SEEK, "linear", "bytes", "reads/s")),
    item("linear: MB/s", In(SEEK, "linear", "bandwidth", "")),
    item("linear: us", In(SEEK, "linear", "user", "")),
    item("linear: sy", In(SEEK, "linear", "system", "")),
    item("linear: id", In(SEEK, "linear", "idle", "")),
    item("random: tps", In(SEEK, "random", "bytes", "reads/s")),
    item("random: MB/s", In(SEEK, "random", ": bandwidth", "")),
    item("random: us", In(SEEK, "random", "user", "")),
    item("random: sy", In(SEEK, "random", "system", "")),
    item("random: id", In(SEEK, "random", "idle", "")),
    item("tin, tout, ni, in", Not("terminals, nice processes and interrupts are not modelled")),
    item("MB/s breakpoint", In(SEEK, "full bandwidth from", "", "")),
    item("idle breakpoint", In(SEEK, "idle from", "", "")),
    item("text: 5, 11, 18 % of re-seeks", In(SEEK, "break-even", "by the text", "")),
    item("the same from the table: 4.2, 10.7, 17.6 %", In(SEEK, "break-even", "by the table", "")),
    item("text: a re-seek is something like 7 ms", In(SEEK, "a seek more", "", "")),
    item("text: the rate doubles with the buffer", In(SEEK, "random: bandwidth of the", "", "")),
];

const DOCUMENT_4: &[Item] = &[
    item("best case 80 %, worst case 14 %", In(INDIRECT, "128 KiB over 16 KiB, every", "gain", "")),
    item("no workload got slower", In(INDIRECT, "workloads that", "", "")),
    item("cases 1 and 2: IOPS", In(INDIRECT, "", "block: rate", "reads/s")),
    item("cases 1 and 2: I/Os of L0", In(INDIRECT, "", "L0", "I/Os")),
    item("cases 1 and 2: I/Os of L1", In(INDIRECT, "", "L1", "I/Os")),
    item("cases 1 and 2: I/Os of L2", In(INDIRECT, "", "L2", "I/Os")),
    item("cases 1 and 2: KB of L0", In(INDIRECT, "", "L0", "KiB")),
    item("cases 1 and 2: KB of L1", In(INDIRECT, "", "L1", "KiB")),
    item("cases 1 and 2: KB of L2", In(INDIRECT, "", "L2", "KiB")),
    item("32 and 64 KiB are between", In(INDIRECT, "steps from 16 to 32", "", "")),
    item("write cases: file", In(INDIRECT, "", "file, 200 times", "")),
    item("write cases: allocated", In(INDIRECT, "", "allocated", "")),
    item("write cases: IOPS", In(INDIRECT, "", "rate", "writes/s")),
    item("write cases: gains", In(INDIRECT, "128 KiB over 16 KiB, writes", "gain", "")),
    item("write case 2: 95 and 85 % fragmented", In(INDIRECT, "", "lz4: fragmentation", "%")),
    item("write case 2: 10 points less", In(INDIRECT, "writes at", "with 128 KiB", "")),
    item("scrub, deletion, send are helped", In(INDIRECT, "128 KiB over 16 KiB, ", "speed", "")),
];

const H7: &str = "h7-unequal-vdevs";
const H3: &str = "h3-latency-lanes";
const H5: &str = "h5-one-mirror";
const H4: &str = "h4-mirror-reads";
const H2: &str = "h2-layouts";
const H6: &str = "h6-throttle-curve";
const H1: &str = "h1-synchronous-writes";
const H8: &str = "h8-scan-order";

const HELD_OUT_7: &[Item] = &[
    item("after: alloc and free of the pool", In(H7, "pool", "", "")),
    item("after: alloc and free of the small vdev", In(H7, "small vdev", "", "")),
    item("after: alloc and free of the large vdev", In(H7, "large vdev", "", "")),
    item("before: the same", Not("the rule before that change, which no engine has any more")),
];

const HELD_OUT_3: &[Item] = &[
    item("A0, B0: without lanes", Not("the disks are not described")),
    item("A1, A3: mean and deviation", In(H3, "10 ms x 1:", "of a minute", "ms")),
    item("A1: writes", In(H3, "10 ms x 1: writes", "writes", "")),
    item("A1: KB/s", In(H3, "10 ms x 1: written", "written", "")),
    item("A2, B1: mean", In(H3, "", ": mean latency", "")),
    item("A2, B1: deviation", In(H3, "", ": standard deviation", "")),
    item("A2: writes", In(H3, "10 ms x 16: writes", "writes", "")),
    item("A2: KB/s", In(H3, "10 ms x 16: written", "written", "")),
    item("B1: writes", In(H3, "", "of two: writes", "")),
    item("B1: KB/s", In(H3, "", "of two: written", "")),
    item("histograms of A1, A3, A2", Not("their shape is the phase of the minute")),
];

const HELD_OUT_5: &[Item] = &[
    item("under pressure: what iostat shows", In(H5, "under pressure", "", "")),
    item("service time, busy", Not("both follow from a queue that is never empty")),
    item("the rest of the txg: about 13 MB/s", In(H5, "drains at", "", "")),
];

const HELD_OUT_4: &[Item] = &[
    item("old, 2 x single: in order, 1 MB", In(H4, "single, in order, 1 MiB", "", "")),
    item("old, 2 x single: in order, 4 KB", In(H4, "single, in order, 4 KiB", "", "")),
    item("old, 2 x single: at random, 1 MB", In(H4, "single, at random, 1 MiB", "", "")),
    item("old, 2 x single: at random, 4 KB", In(H4, "single, at random, 4 KiB", "", "")),
    item("old, mirrors: in order, 1 MB", In(H4, "", "over single, in order, 1 MiB", "")),
    item("old, mirrors: in order, 4 KB", In(H4, "", "over single, in order, 4 KiB", "")),
    item("old, mirrors: at random, 1 MB", In(H4, "", "over single, at random, 1 MiB", "")),
    item("old, mirrors: at random, 4 KB", In(H4, "", "over single, at random, 4 KiB", "")),
    item("new: all", Not("the engine reads the side that the block's place says")),
    item(
        "two hard disks and a solid state disk",
        Not("the disks and the engine's rule are others"),
    ),
];

const HELD_OUT_2: &[Item] = &[
    item("single", In(H2, "single", "", "")),
    item("write, over single", In(H2, "", ": write over single", "")),
    item("rewrite, over single", In(H2, "", ": rewrite over single", "")),
    item("read, over single", In(H2, "", ": read over single", "")),
    item("seeks, over single", In(H2, "", ": seeks over single", "")),
    item("max write", Not("the program's writes are of 8 KiB, those of the repetition of records")),
];

const HELD_OUT_6: &[Item] = &[
    item("trace: delay of each txg", In(H6, "txg ", "mean delay", "us")),
    item("trace: over the formula", In(H6, "delays over the formula", "", "")),
    item("trace: dirty data, rate", Not("given: the machine is not described")),
    item("trace: MB, ms, share of the first pass", Not("of a fragmented pool of unknown disks")),
    item("limit of 1 GiB", In(H6, "limit 1 GiB", "", "")),
    item("the default limit", In(H6, "limit default", "", "")),
];

const HELD_OUT_1: &[Item] = &[
    item("old: writes a second", In(H1, "", "threads: writes", "/s")),
    item("old: busy", In(H1, "", "threads: busy", "%")),
    item(
        "new: all",
        Not("two batches are under way at most, the new version issues each block at once"),
    ),
    item("solid state disks", Not("bound by processors")),
];

const HELD_OUT_8: &[Item] = &[
    item("4 x 4 TB in raidz1, 3.5 TB: 4 h and 2 h", In(H8, "4 disks:", "", "")),
    item("80 disks: 559 MB/s and 1.6 GB/s", In(H8, "80 disks:", "", "")),
    item("limit of 4 and 16 MB: 80 and 160 MB/s a disk", In(H8, "1 disk, aged", "", "")),
    item("fragmented on purpose: 62 and 33.5 minutes", In(H8, "4 disks, aged: disk order", "", "")),
    item("a mirror in the order of the disk: 106 s", In(H8, "mirror:", "", "")),
];

const HELD_OUT_9: &[Item] = &[item(
    "writes a second, sync times, passes",
    Not("disks, sizes and load are not described; both engines would be needed"),
)];

impl Rows {
    /// The rows among those of a run.
    fn among<'a>(&self, outcomes: &'a [Outcome]) -> Vec<&'a Row> {
        let In(experiment, begin, end, unit) = self else { return Vec::new() };
        let outcomes = outcomes.iter().filter(|outcome| outcome.experiment == *experiment);
        let fits = |row: &&Row| {
            let name = row.row.as_str();
            name.starts_with(begin) && name.ends_with(end) && (unit.is_empty() || row.unit == *unit)
        };
        outcomes.flat_map(|outcome| &outcome.rows).filter(fits).collect()
    }
}

/// The table of every figure, with what a run gave; `how` is the run.
#[must_use]
pub fn markdown(outcomes: &[Outcome], how: &str) -> String {
    // It begins with the version.
    let how = how.split_once(": ").map_or(how, |(_, command)| command);
    let mut out = format!(
        "# Every figure of the five documents, and of the studies held out\n\n\
         Made by `{how} --figures docs/lab/figures.md`: the list is in crates/lab/src/figures.rs, \
         the results are\nthat run's. Kinds of rows are explained in \
         [the guide](../guide/lab.md); what each row gave is in the report.\n\n{}\n\nA \
         ratio is that of the median to the published value. In a range that was published it is \
         1, and outside it to its nearest end.\n",
        crate::report::headline(outcomes),
    );
    for (title, items) in &DOCUMENTS {
        let _ = write!(out, "\n## {title}\n\n| published | repeated by | kind | result |\n");
        out.push_str("| --- | --- | --- | --- |\n");
        for item in *items {
            let (by, kind, result) = line(item, outcomes);
            let _ = writeln!(out, "| {} | {by} | {kind} | {result} |", item.what);
        }
    }
    out.push_str(
        "\n## Numbers of the five documents that are no rows\n\nEach number of the data file \
         crates/lab/tests/published.toml is the published value of a row or a part of a row's \
         name, or it\nstands here. A test compares both, in both directions.\n\n\
         | number | what it is | why it is no row |\n| --- | --- | --- |\n",
    );
    NOT_ROWS.iter().for_each(|not| out.push_str(&not.line()));
    out
}

/// Where an item is repeated, as which kind, with what result.
fn line(item: &Item, outcomes: &[Outcome]) -> (String, String, String) {
    match &item.rows {
        Not(why) => ("-".to_owned(), "-".to_owned(), format!("not repeated: {why}")),
        Shown(experiment, where_) => {
            ((*experiment).to_owned(), "-".to_owned(), format!("{where_}; not judged"))
        }
        In(experiment, ..) => {
            let rows = item.rows.among(outcomes);
            let kinds = Kind::ALL.into_iter().filter(|k| rows.iter().any(|row| row.kind() == *k));
            let kinds: Vec<&str> = kinds.map(Kind::name).collect();
            let count = match rows.len() {
                1 => "1 row".to_owned(),
                n => format!("{n} rows"),
            };
            (format!("{experiment}, {count}"), kinds.join(", "), result(&rows))
        }
    }
}

fn result(rows: &[&Row]) -> String {
    let count = |of: fn(&Verdict) -> bool| rows.iter().filter(|row| of(&row.verdict())).count();
    let within = count(|v| *v == Verdict::Within);
    let outside = count(|v| *v == Verdict::Outside);
    let ratios = rows.iter().filter_map(|row| row.ratio());
    let (low, high) = ratios.fold((f64::INFINITY, 0.0), |(l, h), r| (r.min(l), f64::max(h, r)));
    let mut text = match (within, outside) {
        (0, 0) if rows.is_empty() => return "not in this run".to_owned(),
        (0, 0) => "shown".to_owned(),
        (_, 0) => "within".to_owned(),
        (0, _) => "**outside**".to_owned(),
        _ => format!("{within} within, **{outside} outside**"),
    };
    let of = match rows.iter().any(|row| row.published().is_some()) {
        true => "of the published",
        false => "of what follows from the study",
    };
    if low.is_finite() {
        let _ = match (high - low) < 0.005 {
            true => write!(text, "; {low:.2} {of}"),
            false => write!(text, "; {low:.2} to {high:.2} {of}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Setting;
    use crate::target::Target;

    pub(super) fn run(names: &[&str]) -> Vec<Outcome> {
        let setting = Setting { scale: 0.01, ..Setting::default() };
        let one = |name: &&str| {
            let experiment = crate::experiment(name).expect("an experiment");
            experiment.repeat(&Target::Sim(None), &setting, 1).expect("runs")
        };
        names.iter().map(one).collect()
    }

    /// The document is of this list.
    #[test]
    fn the_document_has_every_item() {
        let text = include_str!("../../../docs/lab/figures.md");
        let items = DOCUMENTS.iter().flat_map(|document| document.1);
        let items = items.map(|item| format!("\n| {} | ", item.what));
        let lines = NOT_ROWS.iter().map(super::numbers::NotARow::line);
        let missing: Vec<String> = items.chain(lines).filter(|line| !text.contains(line)).collect();
        assert_eq!(missing, [""; 0], "zinc lab run all --sim --seeds 5 --figures writes it anew");
    }

    /// What is said to be repeated is; of the long experiments, what a small run has.
    #[test]
    fn every_item_has_rows() {
        let names = [RAW, SYNC, SEEK, H7, H5, H4, H2];
        let outcomes = run(&names);
        let items = || DOCUMENTS.iter().flat_map(|document| document.1);
        for item in items() {
            let In(experiment, ..) = item.rows else { continue };
            let here = names.contains(&experiment);
            assert!(!here || !item.rows.among(&outcomes).is_empty(), "{}", item.what);
        }
        // And every row that has a published value is listed.
        let listed: Vec<&Row> = items().flat_map(|item| item.rows.among(&outcomes)).collect();
        let missing: Vec<&str> = outcomes
            .iter()
            .flat_map(|outcome| &outcome.rows)
            .filter(|row| row.compared().is_some())
            .filter(|row| !listed.iter().any(|one| std::ptr::eq(*one, *row)))
            .map(|row| row.row.as_str())
            .collect();
        assert_eq!(missing, ["least throughput of a sync"]);
        let text = markdown(&outcomes, "zinc lab run");
        assert!(text.contains("| linear: tps | seek, 9 rows | fitted | "), "{text}");
        assert!(text.contains("not in this run"), "{text}");
    }
}
