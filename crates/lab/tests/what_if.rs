//! What a pool would do, where it can be said beforehand.

use engine::recording::Recorder;
use engine::stats::{DatasetStats, Snapshot};
use lab::disk::preset;
use lab::what_if::{Answer, Layout, Limit, Question, Recorded, State, Work, what_if};

fn question(layout: Layout, disks: usize, work: Work) -> Question {
    Question {
        disk: preset("hdd-16t").unwrap_or_else(|| panic!("no preset")),
        disks,
        layout,
        fast: preset("nvme").unwrap_or_else(|| panic!("no preset")),
        logs: 0,
        specials: 0,
        state: State::New,
        record: 128 << 10,
        compression: 1.0,
        bytes: 1 << 30,
        threads: 8,
        chunk: 128 << 10,
        work,
        recorded: Recorded::default(),
        seconds: 5.0,
        seed: 1,
    }
}

fn answer(question: &Question) -> Answer {
    what_if(question).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn mirrors_read_from_all_their_disks_and_raidz_from_groups() {
    let random = |layout| answer(&question(layout, 4, Work::RandomRead));
    let (mirror, raidz) = (random(Layout::Mirror(2)), random(Layout::Raidz(1, 4)));
    // Each read of a RAID-Z group needs all of its data disks, of a mirror one.
    let more = mirror.per_second / raidz.per_second;
    assert!(more > 1.4, "{mirror:?} {raidz:?}");
    assert!(mirror.latency.p50 > 1.0 && mirror.latency.p50 <= mirror.latency.p99);
    assert!(raidz.busy_percent <= 100.0 && raidz.limit == Limit::Disks, "{raidz:?}");
    // One thread leaves disks idle.
    let alone = Question { threads: 1, ..question(Layout::Stripe, 4, Work::RandomRead) };
    let alone = answer(&alone);
    assert_eq!(alone.limit, Limit::Threads, "{alone:?}");
    assert!(alone.per_second < random(Layout::Stripe).per_second / 2.0);
    // The same question has the same answer.
    assert_eq!(random(Layout::Mirror(2)), mirror);
}

#[test]
fn writes_of_a_mirror_are_half_of_a_stripe_s() {
    let write = |layout| answer(&question(layout, 2, Work::Write));
    let (stripe, mirror) = (write(Layout::Stripe), write(Layout::Mirror(2)));
    let part = mirror.mib_per_second / stripe.mib_per_second;
    assert!((0.4..0.65).contains(&part), "{stripe:?} {mirror:?}");
}

#[test]
fn what_is_no_pool_is_refused() {
    let odd = question(Layout::Mirror(2), 5, Work::Write);
    assert!(what_if(&odd).is_err_and(|e| e.what.contains("no whole groups")));
    let none = Question { record: 1000, ..question(Layout::Stripe, 1, Work::Write) };
    assert!(what_if(&none).is_err());
    let lost = Question { state: State::Degraded, ..question(Layout::Stripe, 2, Work::Read) };
    assert!(what_if(&lost).is_err_and(|e| e.why.contains("lost its data")));
}

#[test]
fn a_log_device_makes_promises_short() {
    let promised = |logs| {
        let question = question(Layout::Mirror(2), 2, Work::SyncWrite);
        let (chunk, record, bytes) = (8 << 10, 8 << 10, 64 << 20);
        answer(&Question { logs, chunk, record, bytes, seconds: 1.0, ..question })
    };
    let (without, with) = (promised(0), promised(2));
    assert!(with.latency.p50 * 10.0 < without.latency.p50, "{with:?} {without:?}");
    assert!(with.reads.is_none() && with.writes.is_some());
}

#[test]
fn full_and_degraded_pools_are_slower_and_compression_saves() {
    let of = |change: &dyn Fn(&mut Question)| {
        let mut question = question(Layout::Raidz(1, 3), 3, Work::Mixed(70));
        (question.seconds, question.bytes) = (0.5, 256 << 20);
        change(&mut question);
        answer(&question)
    };
    let new = of(&|_| ());
    assert!(new.reads.is_some() && new.writes.is_some(), "{new:?}");
    for (state, most) in [(State::Full, 0.8), (State::Degraded, 1.1), (State::Resilvering, 1.1)] {
        let found = of(&|q| q.state = state);
        assert!(found.per_second < most * new.per_second, "{state}: {found:?} {new:?}");
    }
    // Half a second would be a matter of where in a txg it ends.
    let write = |compression| {
        of(&|q| (q.work, q.compression, q.seconds) = (Work::Write, compression, 2.0)).mib_per_second
    };
    assert!(write(4.0) > 1.5 * write(1.0));
}

/// A recording of ten seconds of random reads of 8 KiB, with this number in each second.
fn recorded(reads_per_second: u64) -> Recorded {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let path = dir.path().join("load");
    let file = std::fs::File::create(&path).unwrap_or_else(|e| panic!("{e}"));
    let mut recorder = Recorder::begin(file, &path).unwrap_or_else(|e| panic!("{e:?}"));
    for second in 0..=10 {
        let reads = reads_per_second * second;
        let dataset =
            DatasetStats { objset: 9, reads, read_bytes: reads << 13, ..DatasetStats::default() };
        let at_ns = (second + 3) * 1_000_000_000;
        let snapshot = Snapshot { at_ns, datasets: vec![dataset], ..Snapshot::default() };
        recorder.add(&snapshot).unwrap_or_else(|e| panic!("{e:?}"));
    }
    Recorded::open(&path).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_recorded_load_is_kept_up_with_or_falls_behind() {
    let of = |reads: u64| {
        let recorded = recorded(reads);
        let question = question(Layout::Mirror(2), 4, Work::Recorded);
        answer(&Question { record: 8 << 10, threads: 16, recorded, ..question })
    };
    let (few, many) = (of(50), of(5000));
    // It takes five of the ten seconds.
    assert!((few.per_second - 50.0).abs() < 2.0 && few.limit == Limit::Load, "{few:?}");
    assert!(few.latency.p50 < 20.0 && few.writes.is_none(), "{few:?}");
    assert!(many.per_second < 2500.0 && many.limit == Limit::Disks, "{many:?}");
    assert!(many.latency.p50 > 1000.0, "{many:?}");
}

#[test]
fn a_draid_has_its_spares_and_its_groups() {
    let layout: Layout = "draid1:3d:9c:1s".parse().unwrap_or_else(|e| panic!("{e}"));
    let question = question(layout, 9, Work::RandomRead);
    let found = answer(&question);
    // Each read needs three data disks, as of a RAID-Z of four.
    let raidz = answer(&Question { layout: Layout::Raidz(1, 4), disks: 8, ..question.clone() });
    let more = found.per_second / raidz.per_second;
    assert!((0.7..1.5).contains(&more), "{found:?} {raidz:?}");
    let degraded = answer(&Question { state: State::Degraded, ..question });
    assert!(degraded.per_second < found.per_second, "{degraded:?} {found:?}");
}
