//! The printed layout, byte for byte.

use super::layout::{Histograms, Layout, nicetime};
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

#[test]
fn capacity_operations_and_bandwidth() {
    let expected = "\
\x20             capacity     operations     bandwidth 
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
rpool       14.6G  55.4G      4     55   250K  2.69M
";
    assert_eq!(report(&Layout::default()), expected);
}

#[test]
fn every_vdev_with_its_section() {
    let expected = "\
\x20             capacity     operations     bandwidth 
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
rpool       14.6G  55.4G      4     55   250K  2.69M
  mirror-0  14.6G  55.4G      4     55   250K  2.69M
    sda1        -      -      4     55   250K  2.69M
    sdb1        -      -      0      0      0      0
logs            -      -      -      -      -      -
  sdc1      14.6G  55.4G      0      0      0      0
----------  -----  -----  -----  -----  -----  -----
";
    assert_eq!(report(&Layout { verbose: true, ..Layout::default() }), expected);
}

#[test]
fn waiting_times_and_queues_stand_beside() {
    let layout = Layout { latency: true, queues: true, ..Layout::default() };
    let expected = "\
\x20             capacity     operations     bandwidth    total_wait     disk_wait    syncq_wait  \
\x20 asyncq_wait  scrub   trim  rebuild   syncq_read    syncq_write   asyncq_read  asyncq_write   \
scrubq_read   trimq_write  rebuildq_write
pool        alloc   free   read  write   read  write   read  write   read  write   read  write   \
read  write   wait   wait   wait   pend  activ   pend  activ   pend  activ   pend  activ   pend  \
activ   pend  activ   pend  activ
----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  \
-----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  \
-----  -----  -----  -----  -----
rpool       14.6G  55.4G      4     55   250K  2.69M   16us    3ms   16us    3ms   16us      - \
     \x20    -    3ms      -      -      -      3      2      0      0      0      0      3      2 \
     \x20    0      0      0      0      0      0
";
    assert_eq!(report(&layout), expected);
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
    let lines: Vec<&str> = text.lines().collect();
    let head = [
        "",
        "rpool        total_wait     disk_wait    syncq_wait    asyncq_wait",
        "latency      read  write   read  write   read  write   read  write  scrub   trim  rebuild",
        "----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----",
        "1ns             0      0      0      0      0      0      0      0      0      0      0",
    ];
    assert_eq!(lines[..5], head);
    let row = |label: &str| *lines.iter().find(|l| l.starts_with(label)).unwrap();
    assert_eq!(
        row("32us"),
        "32us           40      0     40      0     40      0      0      0      0      0      0"
    );
    assert_eq!(
        row("4ms"),
        "4ms             0    550      0    550      0      0      0    550      0      0      0"
    );
    assert_eq!((lines.len(), lines[40].split(' ').next()), (42, Some("137s")));
    assert_eq!(lines[41], "-".repeat(10 + 7 * 11));
    // In an interval they are rates.
    let rates = layout.pool(&snapshot(), 10, false);
    assert!(rates.contains("\n4ms             0     55      0     55"), "{rates}");
}

#[test]
fn histograms_of_sizes() {
    let layout = Layout { histograms: Some(Histograms::Sizes), ..Layout::default() };
    let text = layout.pool(&snapshot(), 10, true);
    let lines: Vec<&str> = text.lines().collect();
    let head = [
        "rpool         sync_read    sync_write    async_read    async_write      scrub         trim\
         \x20        rebuild  ",
        "req_size      ind    agg    ind    agg    ind    agg    ind    agg    ind    agg \
         \x20  ind    agg    ind    agg",
    ];
    assert_eq!(lines[1..3], head);
    assert_eq!(
        (lines[4].split(' ').next(), lines[19].split(' ').next()),
        (Some("512"), Some("16M"))
    );
    let row = lines.iter().find(|l| l.starts_with("128K")).unwrap();
    assert!(row.starts_with("128K           40      0      0      0      0      0    550      0"));
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
