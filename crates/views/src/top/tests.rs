//! Frames of a pool that never was.
#![allow(clippy::unwrap_used)]

use super::*;
use engine::stats::ClassCounts;
use engine::stats::{ClassStats, DatasetStats, StageStats};
use engine::stats::{Profile, StageProfile, ThreadKind};
use std::sync::LazyLock;

fn histogram(class: usize, count: u64) -> Histogram {
    let mut out = Histogram { sum: count << class, ..Histogram::default() };
    out.counts[class] = count;
    out
}

fn snapshot(n: u64) -> Snapshot {
    let counts = ClassCounts {
        ops: 100 * n,
        bytes: n * (100 << 17),
        pending: 7,
        active: 3,
        queue_ns: histogram(20, 100 * n),
        disk_ns: histogram(22, 100 * n),
        ..ClassCounts::default()
    };
    let write = ClassStats { class: "async_write".to_owned(), counts };
    let vdev = |depth, name: &str, io: Vec<ClassStats>| VdevStats {
        depth,
        name: name.to_owned(),
        state: "ONLINE".to_owned(),
        io,
        ..VdevStats::default()
    };
    let mut root = vdev(0, "tank", vec![write.clone()]);
    (root.size_bytes, root.allocated_bytes) = (8 << 30, 2 << 30);
    let dataset = |name: &str, written: u64, read: u64| DatasetStats {
        name: name.to_owned(),
        objset: name.bytes().last().map_or(0, u64::from),
        reads: read >> 17,
        read_bytes: read,
        writes: written >> 17,
        written_bytes: written,
        ..DatasetStats::default()
    };
    let txg = |txg| TxgRecord {
        txg,
        open: Duration::from_secs(5),
        quiesce: Duration::from_micros(40),
        sync: Duration::from_millis(250 * txg),
        dirty: 64 << 20,
        written: 60 << 20,
        blocks: 512,
        delays: 12,
        delayed: Duration::from_micros(1500),
        ..TxgRecord::default()
    };
    let checksum =
        StageProfile { count: n, time: Duration::from_millis(500 * n), ..StageProfile::default() };
    let leaf =
        KindProfile { kind: ThreadKind::LeafSync, threads: 2, checksum, ..Default::default() };
    Snapshot {
        pool: "tank".to_owned(),
        at_ns: n * 2_000_000_000,
        span_ns: n * 2_000_000_000,
        txg: 8,
        dirty_bytes: 64 << 20,
        dirty_max_bytes: 256 << 20,
        vdevs: vec![
            root,
            vdev(1, "mirror-0", vec![write.clone()]),
            vdev(2, "/dev/disk/by-id/ata-a-name-that-is-much-too-long-for-a-column", vec![write]),
        ],
        stages: vec![StageStats {
            stage: "compress".to_owned(),
            count: 100 * n,
            bytes: n * (100 << 17),
            time_ns: histogram(19, 100 * n),
        }],
        profile: Profile { kinds: vec![KindProfile::default(), leaf] },
        datasets: vec![dataset("tank/a", n << 20, n << 24), dataset("tank/b", n << 24, 0)],
        txgs: (1..=8).map(txg).collect(),
        ..Snapshot::default()
    }
}

static PRICES: LazyLock<Prices> = LazyLock::new(Prices::default);
static TXGS_SEEN: LazyLock<Vec<TxgRecord>> = LazyLock::new(|| snapshot(2).txgs);

fn interval() -> Snapshot {
    snapshot(2).since(&snapshot(1))
}

fn data<'a>(interval: &'a Snapshot, points: &'a [Point]) -> FrameData<'a> {
    let txgs = &*TXGS_SEEN;
    let (sort, prices) = (Sort::Written, &*PRICES);
    FrameData { interval, txgs, points, sort, state: "live", help: false, prices }
}

#[test]
fn a_frame_shows_the_interval() {
    let now = interval();
    let points = [0.0, 3.0, 6.0].map(|m| Point { written: m * 1048576.0, read: 0.0 });
    let points = [points[0], points[1], Point::of(&now)];
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("top", text(&data(&now, &points))));
}

#[test]
fn a_frame_fits_the_screen() {
    let now = interval();
    let data = data(&now, &[]);
    for (columns, rows) in [(80, 24), (40, 12), (20, 5), (1, 1), (0, 0), (500, 200)] {
        let lines = frame(&data, columns, rows);
        assert!(lines.len() <= rows, "{columns}x{rows}: {} lines", lines.len());
        assert!(lines.iter().all(|l| l.text.chars().count() <= columns));
    }
    let small = frame(&data, 80, 18);
    assert_eq!(small.len(), 18);
    assert!(small.iter().any(|l| l.text.ends_with(" more")), "{small:?}");
}

#[test]
fn datasets_are_sorted() {
    let now = interval();
    let first = |sort| {
        let lines = datasets(&FrameData { sort, ..data(&now, &[]) });
        lines[1].text.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(first(Sort::Written), "tank/b");
    assert_eq!(first(Sort::Read), "tank/a");
    assert_eq!(first(Sort::Operations), "tank/a");
    assert_eq!(first(Sort::Name), "tank/a");
    let mut all = vec![Sort::Written];
    while all.last().unwrap().next() != Sort::Written {
        all.push(all.last().unwrap().next());
    }
    assert_eq!(all.len(), 4);
}

#[test]
fn an_empty_pool_and_help_are_shown_too() {
    let empty = Snapshot::default();
    let shown = text(&data(&empty, &[]));
    assert!(shown.starts_with("zinc top"), "{shown}");
    let now = interval();
    let help = text(&FrameData { help: true, ..data(&now, &[]) });
    assert!(help.contains("quit") && !help.contains("VDEV"));
}

#[test]
fn times_are_short() {
    let shown = [0, 999, 1_000, 999_999, 1_500_000, 12_000_000, 1_000_000_000].map(time);
    assert_eq!(shown, ["0ns", "999ns", "1us", "999us", "1.5ms", "12ms", "1.0s"]);
}

#[test]
fn an_expansion_stands_below_its_vdev() {
    let mut vdev = VdevStats { reflowed_bytes: 3 << 20, ..VdevStats::default() };
    assert_eq!(expansion(&vdev), None);
    vdev.to_reflow_bytes = 12 << 20;
    assert_eq!(expansion(&vdev).as_deref(), Some("expanding: 3M of 12M moved, 25.0 %"));
    // Space that is freed meanwhile was moved before.
    vdev.to_reflow_bytes = 2 << 20;
    assert_eq!(expansion(&vdev).as_deref(), Some("expanding: 2M of 2M moved, 100.0 %"));
}

#[test]
fn what_is_shown_stays_while_it_is_paused() {
    let mut series = Series::default();
    let ops = |series: &Series| series.shown().vdevs[0].io[0].counts.ops;
    series.add(snapshot(1), false);
    series.add(snapshot(3), false);
    assert_eq!(ops(&series), 200);
    assert_eq!(series.frame(Sort::Name, "live", false, &PRICES).points.len(), 1);
    series.add(snapshot(8), true);
    assert_eq!(ops(&series), 200, "paused");
    series.add(snapshot(9), false);
    assert_eq!(ops(&series), 100, "the interval after the pause");
    series.show_totals();
    assert_eq!(ops(&series), 900);
}
