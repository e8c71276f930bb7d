//! The internals of a pool, as tables: stages and threads, blocks by type and level, datasets.
//!
//! All numbers are of the interval, or of everything since the pool was opened: counts and not
//! rates, so that they can be compared with the requests.

use super::layout::nicetime;
use engine::stats::KindProfile;
use engine::stats::{Histogram, Snapshot, StageStats};
use std::time::Duration;
use term::Table;
use term::human::nicenum;

/// Which tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalTables {
    /// The stages of the pipeline, and the threads that go through them.
    Stages,
    /// Blocks by type and level.
    Blocks,
    /// Datasets.
    Datasets,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Exact: bytes and nanoseconds.
    pub parsable: bool,
    /// Tabs, no headings.
    pub scripted: bool,
}

impl Style {
    fn number(self, n: u64) -> String {
        if self.parsable { n.to_string() } else { nicenum(n) }
    }

    fn time(self, ns: u64) -> String {
        match ns {
            0 => "-".to_owned(),
            _ if self.parsable => ns.to_string(),
            _ => nicetime(ns),
        }
    }

    /// The mean, and what 99 of 100 did not exceed.
    fn times(self, h: &Histogram) -> [String; 2] {
        [self.time(h.mean()), self.time(h.percentile(99.0).unwrap_or(0))]
    }
}

/// A column: its heading, and whether it is flush right.
type Column = (&'static str, bool);

impl InternalTables {
    /// The tables of these pools.
    pub fn text(self, pools: &[&Snapshot], style: Style) -> String {
        match self {
            Self::Stages => {
                let stages = table(&STAGES, pools, style, stages);
                let threads = table(&THREADS, pools, style, threads);
                format!("{stages}{}{threads}", if style.scripted { "" } else { "\n" })
            }
            Self::Blocks => table(&BLOCKS, pools, style, blocks),
            Self::Datasets => table(&DATASETS, pools, style, datasets),
        }
    }
}

fn table(
    columns: &[Column],
    pools: &[&Snapshot],
    style: Style,
    rows: impl Fn(&Snapshot, Style) -> Vec<Vec<String>>,
) -> String {
    let (headings, right): (Vec<_>, Vec<_>) = columns.iter().copied().unzip();
    let mut table = Table::new(&headings, &right, style.scripted);
    pools.iter().flat_map(|s| rows(s, style)).for_each(|row| table.row(row));
    table.text()
}

const STAGES: [Column; 7] = [
    ("pool", false),
    ("stage", false),
    ("count", true),
    ("bytes", true),
    ("at once", true),
    ("mean", true),
    ("99%", true),
];

/// How many did it at the same time, on average over all the time.
fn at_once(time_ns: u64, s: &Snapshot) -> String {
    format!("{:.2}", time_ns as f64 / s.span_ns.max(1) as f64)
}

fn stages(s: &Snapshot, style: Style) -> Vec<Vec<String>> {
    let used = s.stages.iter().filter(|stage| stage.count > 0);
    let row = |stage: &StageStats| {
        let [mean, most] = style.times(&stage.time_ns);
        vec![
            s.pool.clone(),
            stage.stage.clone(),
            style.number(stage.count),
            style.number(stage.bytes),
            at_once(stage.time_ns.sum, s),
            mean,
            most,
        ]
    };
    used.map(row).collect()
}

const THREADS: [Column; 10] = [
    ("pool", false),
    ("threads", false),
    ("count", true),
    ("compress", true),
    ("checksum", true),
    ("at once", true),
    ("allocate", true),
    ("i/o", true),
    ("i/os", true),
    ("at once", true),
];

fn threads(s: &Snapshot, style: Style) -> Vec<Vec<String>> {
    let did = |k: &&KindProfile| k.stages().iter().any(|(_, stage)| stage.count > 0);
    let row = |k: &KindProfile| {
        let time = |t: Duration| style.time(u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
        vec![
            s.pool.clone(),
            k.kind.to_string(),
            k.threads.to_string(),
            time(k.compress.time),
            time(k.checksum.time),
            format!("{:.2}", k.checksum.at_once()),
            time(k.allocate.time),
            time(k.io.time),
            style.number(k.io.count),
            format!("{:.2}", k.io.at_once()),
        ]
    };
    s.profile.kinds.iter().filter(did).map(row).collect()
}

const BLOCKS: [Column; 10] = [
    ("pool", false),
    ("level", false),
    ("type", false),
    ("reads", true),
    ("read", true),
    ("mean", true),
    ("99%", true),
    ("writes", true),
    ("written", true),
    ("mean", true),
];

fn blocks(s: &Snapshot, style: Style) -> Vec<Vec<String>> {
    let used = s.blocks.iter().filter(|b| b.reads + b.writes > 0);
    let row = |b: &engine::stats::BlockStats| {
        let [mean, most] = style.times(&b.read_ns);
        vec![
            s.pool.clone(),
            format!("L{}", b.level),
            b.kind.clone(),
            style.number(b.reads),
            style.number(b.read_bytes),
            mean,
            most,
            style.number(b.writes),
            style.number(b.written_bytes),
            style.time(b.write_ns.mean()),
        ]
    };
    used.map(row).collect()
}

const DATASETS: [Column; 10] = [
    ("pool", false),
    ("dataset", false),
    ("reads", true),
    ("nread", true),
    ("mean", true),
    ("99%", true),
    ("writes", true),
    ("nwritten", true),
    ("mean", true),
    ("99%", true),
];

fn datasets(s: &Snapshot, style: Style) -> Vec<Vec<String>> {
    let used = s.datasets.iter().filter(|d| d.reads + d.writes > 0);
    let row = |d: &engine::stats::DatasetStats| {
        let mut row = vec![s.pool.clone(), d.name.clone()];
        let ways = [(d.reads, d.read_bytes, &d.read_ns), (d.writes, d.written_bytes, &d.write_ns)];
        for (operations, bytes, times) in ways {
            row.extend([style.number(operations), style.number(bytes)]);
            row.extend(style.times(times));
        }
        row
    };
    used.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stats::{BlockStats, DatasetStats};
    use engine::stats::{Profile, StageProfile, ThreadKind};

    fn times(ns: u64, count: u64) -> Histogram {
        let mut out = Histogram::default();
        (0..count).for_each(|_| out.add(ns));
        out
    }

    fn snapshot() -> Snapshot {
        let stage = |name: &str, count, bytes, ns| StageStats {
            stage: name.to_owned(),
            count,
            bytes,
            time_ns: times(ns, count),
        };
        let ms = Duration::from_millis;
        let checksum = StageProfile { count: 4, time: ms(8), watched: ms(8), busy: ms(4) };
        let leaf =
            KindProfile { kind: ThreadKind::LeafSync, threads: 2, checksum, ..Default::default() };
        Snapshot {
            pool: "tank".to_owned(),
            span_ns: 10_000_000,
            stages: vec![stage("checksum", 4, 512 << 10, 2_000_000), stage("verify", 0, 0, 0)],
            profile: Profile { kinds: vec![KindProfile::default(), leaf] },
            blocks: vec![BlockStats {
                kind: "ZFS plain file".to_owned(),
                level: 1,
                reads: 3,
                read_bytes: 12 << 10,
                read_ns: times(50_000, 3),
                ..BlockStats::default()
            }],
            datasets: vec![DatasetStats {
                name: "tank/home".to_owned(),
                writes: 2,
                written_bytes: 2048,
                write_ns: times(9_000, 2),
                ..DatasetStats::default()
            }],
            ..Snapshot::default()
        }
    }

    fn shown(which: InternalTables, style: Style) -> String {
        which.text(&[&snapshot()], style)
    }

    #[test]
    fn stages_and_threads() {
        let expected = "\
pool  stage     count  bytes  at once  mean  99%
tank  checksum      4   512K     0.80   2ms  2ms

pool  threads    count  compress  checksum  at once  allocate  i/o  i/os  at once
tank  leaf_sync      2         -       8ms     2.00         -    -     0     0.00
";
        assert_eq!(shown(InternalTables::Stages, Style::default()), expected);
    }

    #[test]
    fn blocks_and_datasets() {
        let expected = "\
pool  level  type            reads  read  mean   99%  writes  written  mean
tank  L1     ZFS plain file      3   12K  50us  65us       0        0     -
";
        assert_eq!(shown(InternalTables::Blocks, Style::default()), expected);
        let style = Style { parsable: true, scripted: true };
        assert_eq!(
            shown(InternalTables::Datasets, style),
            "tank\ttank/home\t0\t0\t-\t-\t2\t2048\t9000\t16384\n"
        );
    }
}
