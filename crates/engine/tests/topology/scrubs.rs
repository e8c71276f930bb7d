//! Scrubs that are interrupted: paused, exported, cut off, while datasets come and go.

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

/// A whole scrub finds nothing to repair.
fn finds_nothing(pool: &LivePool, case: &str) {
    pool.scrub().unwrap();
    pool.wait_for_scan().unwrap();
    let done = pool.view().scan_state().unwrap().unwrap();
    assert_eq!((done.state(), done.processed, done.errors), (State::Finished, 0, 0), "{case}");
}

/// Paused again and again, exported and imported in between, with datasets that come and go: when
/// it has come to its end, nothing is left to be repaired.
#[test]
fn a_scrub_that_is_paused_goes_on_and_misses_nothing() {
    for (seed, shape) in (1600..).zip([Shape::Mirror, Shape::Raidz1]) {
        let mut run = run(seed, shape, 150);
        run.pool().sync().unwrap();
        damage(&mut run);
        in_small_pieces(run.pool());
        run.pool().scrub().unwrap();
        let (mut places, mut rounds) = (0, 0);
        loop {
            rounds += 1;
            // It may have come to its end meanwhile.
            let paused = run.pool().pause_scrub();
            let state = run.pool().view().scan_state().unwrap().unwrap().state();
            if paused.is_err() || state == State::Finished {
                break;
            }
            assert!(run.pool().pause_scrub().unwrap_err().to_string().contains("already paused"));
            (0..rounds % 4).for_each(|_| run.step());
            run.without(Vec::new());
            assert!(!run.pool().is_scanning(), "{shape:?}: it is paused");
            in_small_pieces(run.pool());
            let here = state_on(&run.bench);
            assert_eq!((here.state(), here.flags), (State::Active, 2), "{shape:?}");
            places += u64::from(here.bookmark.objset != 0);
            run.pool().scrub().unwrap();
            // It comes a bit further each time.
            std::thread::sleep(std::time::Duration::from_millis(2 * rounds));
        }
        run.pool().wait_for_scan().unwrap();
        let done = run.pool().view().scan_state().unwrap().unwrap();
        assert_eq!((done.state(), done.errors, done.queue_obj), (State::Finished, 0, 0));
        assert!(rounds > 2 && done.processed > 0, "{shape:?}: {rounds} rounds, {done:?}");
        assert!(places > 0, "{shape:?}: no place in a dataset in {rounds} rounds");
        finds_nothing(run.pool(), "after the last");
        run.pool().forget_errors(None).unwrap();
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
    run.pool().scrub().unwrap();
    let mut copies = Vec::new();
    for _ in 0..6 {
        std::thread::sleep(std::time::Duration::from_millis(3));
        let mut copy = Bench::new(Shape::Mirror, DEVICE_BYTES, 12);
        set(run.pool(), "zfs_scan_suspend_progress=1");
        run.pool().sync().unwrap();
        copy.devices = run.bench.devices.iter().map(|d| Arc::new(d.fork())).collect();
        set(run.pool(), "zfs_scan_suspend_progress=0");
        copies.push(copy);
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
