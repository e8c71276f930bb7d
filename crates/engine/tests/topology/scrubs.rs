//! Scrubs that are interrupted: paused, exported, cut off, while datasets come and go.

use std::time::Duration;

use super::*;

/// Much of each side is overwritten, never the same on all.
fn damage(run: &mut Run) {
    let noise: Vec<u8> = (0..64 << 10).map(|n| (n % 251) as u8).collect();
    let mut at = 4 << 20;
    while at < DEVICE_BYTES - (1 << 20) {
        let n = run.rng.below(run.bench.devices.len() as u64) as usize;
        run.bench.devices[n].write(at, &noise).unwrap();
        at += 192 << 10;
    }
}

fn set(pool: &LivePool, setting: &str) {
    pool.set_tunable(engine::live::Setting::parse(setting).unwrap());
}

/// A scrub says where it is after each millisecond.
fn in_small_pieces(pool: &LivePool) {
    set(pool, "zfs_scrub_min_time_ms=1");
    set(pool, "zfs_scan_checkpoint_intval=0");
}

fn state_on(bench: &Bench) -> engine::pools::ScanState {
    bench.open().scan_state().unwrap().unwrap()
}

/// Waits until the pool says on disk that a scrub is under way. The thread that scrubs says so in a
/// txg of its own, some time after it was asked.
fn wait_until_it_is_on_disk(pool: &LivePool) {
    loop {
        pool.sync().unwrap();
        if pool.view().scan_state().unwrap().is_some_and(|s| s.state() == State::Active) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A whole scrub finds nothing to repair.
fn finds_nothing(pool: &LivePool, case: &str) {
    pool.scrub().unwrap();
    pool.wait_for_scan().unwrap();
    let done = pool.view().scan_state().unwrap().unwrap();
    assert_eq!((done.state(), done.processed, done.errors), (State::Finished, 0, 0), "{case}");
}

/// What was met while scrubs were paused.
#[derive(Default)]
struct Pauses {
    rounds: u64,
    /// Pauses with a place inside a dataset.
    in_datasets: u64,
}

/// A scrub of a damaged pool, paused again and again, exported and imported in between, with
/// datasets that come and go. It runs `growth` longer after each pause.
fn scrub_with_pauses(run: &mut Run, shape: Shape, growth: Duration, met: &mut Pauses) {
    run.pool().sync().unwrap();
    damage(run);
    in_small_pieces(run.pool());
    run.pool().scrub().unwrap();
    for round in 1.. {
        met.rounds += 1;
        // It may have come to its end meanwhile.
        let paused = run.pool().pause_scrub();
        let state = run.pool().view().scan_state().unwrap().unwrap().state();
        if paused.is_err() || state == State::Finished {
            break;
        }
        assert!(run.pool().pause_scrub().unwrap_err().to_string().contains("already paused"));
        (0..round % 4).for_each(|_| run.step());
        run.without(Vec::new());
        assert!(!run.pool().is_scanning(), "{shape:?}: it is paused");
        in_small_pieces(run.pool());
        let here = state_on(&run.bench);
        assert_eq!((here.state(), here.flags), (State::Active, 2), "{shape:?}");
        met.in_datasets += u64::from(here.bookmark.objset != 0);
        run.pool().scrub().unwrap();
        std::thread::sleep(growth * round);
    }
    run.pool().wait_for_scan().unwrap();
    let done = run.pool().view().scan_state().unwrap().unwrap();
    assert_eq!((done.state(), done.errors, done.queue_obj), (State::Finished, 0, 0));
    assert!(done.processed > 0, "{shape:?}: {done:?}");
}

/// When scrubs that were paused have come to their ends, nothing is left to be repaired. How far
/// one comes between two pauses is up to the machine: scrubs are repeated, with other pauses,
/// until one was paused within a dataset.
#[test]
fn a_scrub_that_is_paused_goes_on_and_misses_nothing() {
    for (seed, shape) in (1600..).zip([Shape::Mirror, Shape::Raidz1]) {
        let mut run = run(seed, shape, 150);
        let mut met = Pauses::default();
        for attempt in 0..20 {
            let growth = Duration::from_micros(500 << (attempt % 4));
            scrub_with_pauses(&mut run, shape, growth, &mut met);
            finds_nothing(run.pool(), "after the last");
            run.pool().forget_errors(None).unwrap();
            if met.in_datasets > 0 && met.rounds > 2 {
                break;
            }
        }
        let Pauses { rounds, in_datasets } = met;
        assert!(
            in_datasets > 0 && rounds > 2,
            "{shape:?}: {in_datasets} places in {rounds} rounds"
        );
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    }
}

/// The power fails while a scrub runs, and datasets come and go: it goes on at the next import by
/// itself, and misses nothing. What is on disk at such a moment is fine for zdb.
#[test]
fn a_scrub_that_is_cut_off_goes_on() {
    let mut run = run(1700, Shape::Mirror, 150);
    run.pool().sync().unwrap();
    damage(&mut run);
    in_small_pieces(run.pool());
    // However slow the machine, the first copy is of a scrub that runs.
    set(run.pool(), "zfs_scan_suspend_progress=1");
    run.pool().scrub().unwrap();
    wait_until_it_is_on_disk(run.pool());
    let mut copies = Vec::new();
    for _ in 0..6 {
        let mut copy = Bench::new(Shape::Mirror, DEVICE_BYTES, 12);
        set(run.pool(), "zfs_scan_suspend_progress=1");
        run.pool().sync().unwrap();
        copy.devices = run.bench.devices.iter().map(|d| Arc::new(d.fork())).collect();
        set(run.pool(), "zfs_scan_suspend_progress=0");
        copies.push(copy);
        std::thread::sleep(Duration::from_millis(3));
        (0..3).for_each(|_| run.step());
    }
    drop(run.abandon());
    let mut gone_on = 0;
    for (n, copy) in copies.iter().enumerate() {
        let before = state_on(copy);
        let pool = copy.import();
        pool.wait_for_scan().unwrap();
        let done = pool.view().scan_state().unwrap().unwrap();
        assert_eq!((done.state(), done.errors), (State::Finished, 0), "copy {n}");
        assert_eq!(done.start_time, before.start_time, "copy {n}");
        gone_on += u64::from(before.state() == State::Active);
        finds_nothing(&pool, &format!("copy {n}"));
        pool.export().unwrap();
        copy.zdb();
    }
    assert!(gone_on > 0, "no copy was of a scrub that ran");
}

/// A scrub that is paused is canceled, here or after an export.
#[test]
fn a_paused_scrub_is_canceled() {
    let mut run = run(1800, Shape::Mirror, 100);
    run.pool().sync().unwrap();
    set(run.pool(), "zfs_scan_suspend_progress=1");
    run.pool().scrub().unwrap();
    run.pool().pause_scrub().unwrap();
    run.without(Vec::new());
    run.pool().stop_scrub().unwrap();
    let done = run.pool().view().scan_state().unwrap().unwrap();
    assert_eq!((done.state(), done.queue_obj, done.flags), (State::Canceled, 0, 0));
    assert!(run.pool().stop_scrub().unwrap_err().to_string().contains("no active scrub"));
    let (bench, model) = run.finish();
    holds(&bench, &model);
}
