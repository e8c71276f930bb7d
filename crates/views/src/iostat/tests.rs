//! The printed layout, byte for byte: whole tables are in `snapshots/`.

use super::layout::{Histograms, Layout, nicetime};
use super::series::{Series, json};
use engine::stats::ClassCounts;
use engine::stats::{ClassStats, Histogram, Snapshot, VdevStats};

fn histogram(class: usize, count: u64, sum: u64) -> Histogram {
    let mut out = Histogram { sum, ..Histogram::default() };
    out.counts[class] = count;
    out
}

fn class(name: &str, ops: u64, bytes: u64, ns: u64) -> ClassStats {
    let time = histogram(ns.ilog2() as usize, ops, ops * ns);
    let counts = ClassCounts {
        ops,
        bytes,
        pending: 3,
        active: 2,
        queue_ns: time.clone(),
        disk_ns: time.clone(),
        total_ns: time,
        individual_bytes: histogram(17, ops, bytes),
        ..ClassCounts::default()
    };
    ClassStats { class: name.to_owned(), counts }
}

fn vdev(depth: u32, name: &str, section: &str, io: Vec<ClassStats>) -> VdevStats {
    let has_space = depth < 2;
    VdevStats {
        depth,
        name: name.to_owned(),
        section: section.to_owned(),
        has_space,
        size_bytes: if has_space { 70 << 30 } else { 0 },
        allocated_bytes: if has_space { 15_676_630_630 } else { 0 },
        io,
        ..VdevStats::default()
    }
}

/// Ten seconds of a pool with a mirror and a log.
fn snapshot() -> Snapshot {
    let io = || {
        vec![
            class("sync_read", 40, 2_560_000, 16_384),
            class("async_write", 550, 28_206_694, 3_000_000),
        ]
    };
    Snapshot {
        pool: "rpool".to_owned(),
        span_ns: 10_000_000_000,
        vdevs: vec![
            vdev(0, "rpool", "", io()),
            vdev(1, "mirror-0", "", io()),
            vdev(2, "sda1", "", io()),
            vdev(2, "sdb1", "", Vec::new()),
            vdev(1, "sdc1", "logs", Vec::new()),
        ],
        ..Snapshot::default()
    }
}

fn report(layout: &Layout) -> String {
    let s = snapshot();
    let width = layout.name_width(std::iter::once(&s));
    layout.header(width) + &layout.pool(&s, width, false)
}

/// Compares a table with its snapshot; `INSTA_UPDATE=always` rewrites it.
fn hold(name: &str, table: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    // A line that ends in spaces is not a line that does not.
    settings.bind(|| insta::assert_snapshot!(name, table.replace(" \n", " $\n")));
}

#[test]
fn capacity_operations_and_bandwidth() {
    hold("iostat", &report(&Layout::default()));
}

#[test]
fn every_vdev_with_its_section() {
    hold("iostat_v", &report(&Layout { verbose: true, ..Layout::default() }));
}

#[test]
fn waiting_times_and_queues_stand_beside() {
    hold("iostat_lq", &report(&Layout { latency: true, queues: true, ..Layout::default() }));
}

#[test]
fn exact_numbers_between_tabs() {
    let layout = Layout {
        parsable: true,
        scripted: true,
        latency: true,
        verbose: true,
        ..Layout::default()
    };
    let s = snapshot();
    let text = layout.pool(&s, 10, false);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "rpool\t15676630630\t59485297050\t4\t55\t256000\t2820669\t16384\t3000000\t16384\t3000000\t\
         16384\t-\t-\t3000000\t-\t-\t-"
    );
    assert_eq!(lines[2].split('\t').take(4).collect::<Vec<_>>(), ["sda1", "0", "0", "4"]);
    assert_eq!(lines.len(), 5, "no headings of sections");
}

#[test]
fn histograms_of_waiting_times() {
    let layout = Layout { histograms: Some(Histograms::Latency), ..Layout::default() };
    let text = layout.pool(&snapshot(), 10, true);
    hold("iostat_w", &text);
    // In an interval they are rates.
    let rates = layout.pool(&snapshot(), 10, false);
    assert!(rates.contains("\n4ms             0     55      0     55"), "{rates}");
}

#[test]
fn histograms_of_sizes() {
    let layout = Layout { histograms: Some(Histograms::Sizes), ..Layout::default() };
    let text = layout.pool(&snapshot(), 10, true);
    hold("iostat_r", &text);
}

#[test]
fn one_vdev_alone_is_not_moved_in() {
    let only = vec!["sda1".to_owned()];
    let layout = Layout { verbose: true, only, ..Layout::default() };
    let text = report(&layout);
    assert!(text.contains("\nvdev        alloc"), "{text}");
    assert!(text.ends_with("\nsda1            -      -      4     55   250K  2.69M\n"), "{text}");
}

#[test]
fn times_are_whole() {
    let shown = [1, 999, 1000, 1023, 65_535, 1_048_575, 999_999_999, 137_438_953_471].map(nicetime);
    assert_eq!(shown, ["1ns", "999ns", "1us", "1us", "65us", "1ms", "999ms", "137s"]);
}

#[test]
fn a_series_shows_the_last_interval_and_says_once_that_the_pool_is_suspended() {
    let at = |ops: u64, suspended: Option<&str>| Snapshot {
        pool: "tank".to_owned(),
        suspended: suspended.map(str::to_owned),
        vdevs: vec![vdev(1, "/dev/sda", "", vec![class("async_write", ops, 512, 1)])],
        ..Snapshot::default()
    };
    let mut series = Series::default();
    assert!(series.shown().is_none());
    let rename = |now: &mut Snapshot| now.vdevs.iter_mut().for_each(|v| v.name = "sda".to_owned());
    assert_eq!(series.add(at(1, None), rename), None);
    let (all, is_since_open) = series.shown().expect("a snapshot");
    assert!(is_since_open && all.vdevs[0].name == "sda");
    assert!(series.devices().values().all(|path| path == "/dev/sda"));
    let warning = series.add(at(4, Some("I/O failures")), rename);
    assert_eq!(warning.as_deref(), Some("warning: 'tank' is SUSPENDED: I/O failures"));
    assert_eq!(series.add(at(9, Some("I/O failures")), rename), None);
    let (last, is_since_open) = series.shown().expect("snapshots");
    assert_eq!((is_since_open, last.vdevs[0].io[0].counts.ops), (false, 5));
    assert_eq!(json(&[(last, false)]).keys().collect::<Vec<_>>(), ["tank"]);
}
