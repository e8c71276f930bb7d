//! Scrubs that are interrupted: paused, exported, cut off, while datasets come and go.

use std::time::{Duration, Instant};

use super::gate::Gate;
use super::*;
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::Device;
use engine::inside::ondisk::errlog::Zbookmark;
use engine::inside::vdev::Txgs;

/// Much of the devices is overwritten, each time of the one that is `chosen`.
fn overwrite(run: &Run, mut chosen: impl FnMut() -> usize) {
    let noise: Vec<u8> = (0..64 << 10).map(|n| (n % 251) as u8).collect();
    let mut at = 4 << 20;
    while at < run.bench.devices[0].size() - (1 << 20) {
        run.bench.devices[chosen()].write(at, &noise).unwrap();
        at += 192 << 10;
    }
}

/// Much of each side is overwritten, never the same on all.
fn damage(run: &Run) {
    let mut rng = Rng::new(1);
    overwrite(run, || rng.below(run.bench.devices.len() as u64) as usize);
}

/// A run whose data all have checksums: what is damaged is found.
fn checked_run(steps: &RandomSteps, shape: Shape) -> Run {
    run_with(steps, shape, 150, |run| run.has_checksums = true)
}

pub(super) fn set(pool: &LivePool, setting: &str) {
    pool.set_tunable(engine::live::Setting::parse(setting).unwrap());
}

/// A scan that was told to stand still ends its piece first: waits until it has.
pub(super) fn stands_still(pool: &LivePool) {
    let place = || pool.scan().map(|now| (now.examined, now.processed, now.bookmark));
    loop {
        let before = place();
        std::thread::sleep(Duration::from_millis(50));
        // Waits for what reads with the pool as it was.
        pool.sync().unwrap();
        if place() == before {
            return;
        }
    }
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
pub(super) fn wait_until_it_is_on_disk(pool: &LivePool) {
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
    scenarios((1600..).zip([Shape::Mirror, Shape::Raidz1]), |steps, shape| {
        let mut run = checked_run(steps, shape);
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
    });
}

/// The power fails while a scrub runs, and datasets come and go: it goes on at the next import by
/// itself, and misses nothing. What is on disk at such a moment is fine for zdb.
#[test]
fn a_scrub_that_is_cut_off_goes_on() {
    scenario(1700, |steps| {
        let mut run = checked_run(steps, Shape::Mirror);
        run.pool().sync().unwrap();
        damage(&run);
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
    });
}

/// A scrub that is paused is canceled, here or after an export.
#[test]
fn a_paused_scrub_is_canceled() {
    scenario(1800, |steps| {
        let mut run = run(steps, Shape::Mirror, 100);
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
    });
}

/// A resilver or a rebuild that begins ends a scrub that is paused, and no later one goes on with
/// it: what was brought since it was paused would not be verified.
#[test]
fn a_paused_scrub_is_ended_by_what_brings_leaves_what_they_missed() {
    scenarios((1820..).zip([false, true]), |steps, is_closed| {
        let mut run = run(steps, Shape::Mirror, 60);
        run.pool().sync().unwrap();
        set(run.pool(), "zfs_scan_suspend_progress=1");
        run.pool().scrub().unwrap();
        wait_until_it_is_on_disk(run.pool());
        run.pool().pause_scrub().unwrap();
        run.pool().offline_leaf(guid(run.pool(), 1), OfflineMode::Offline).unwrap();
        (0..4).for_each(|_| run.step());
        run.pool().sync().unwrap();
        online_leaf(run.pool(), &run.bench, 1);
        while run.pool().scan().is_none_or(|now| now.function() != Function::Resilver) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(run.pool().stop_scrub().unwrap_err().to_string().contains("no active scrub"));
        if is_closed {
            run.without(Vec::new());
        }
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()));
        let done = run.pool().look().unwrap().scan_state().unwrap().unwrap();
        assert_eq!((done.function(), done.state()), (Function::Resilver, State::Finished));
        let before = setups(&run.pool().look().unwrap());
        finds_nothing(run.pool(), "behind it");
        assert_eq!(setups(&run.pool().look().unwrap()), before + 1, "it begins anew");
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// Holds a scrub up when it has repaired this many bytes; how many it has, unless it has ended.
fn hold_up_behind(pool: &LivePool, bytes: u64) -> Option<u64> {
    while pool.scan().is_none_or(|now| now.processed < bytes) {
        if !pool.is_scanning() {
            return None;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    set(pool, "zfs_scan_suspend_progress=1");
    stands_still(pool);
    let held_up = pool.scan().filter(|now| now.function() == Function::Scrub);
    held_up.map(|now| now.processed)
}

/// A resilver ends a scrub. That begins anew, does not find again what it repaired, and says all
/// the same what it repaired in all.
#[test]
fn a_scrub_that_a_resilver_ends_says_what_it_repaired_in_all() {
    scenario(1870, |steps| {
        let mut run = checked_run(steps, Shape::Mirror);
        run.pool().sync().unwrap();
        overwrite(&run, || 1);
        run.pool().scrub().unwrap();
        run.pool().wait_for_scan().unwrap();
        let all = run.pool().view().scan_state().unwrap().unwrap().processed;
        in_small_pieces(run.pool());
        let repaired = loop {
            overwrite(&run, || 1);
            run.pool().scrub().unwrap();
            match hold_up_behind(run.pool(), all / 2) {
                Some(repaired) => break repaired,
                None => set(run.pool(), "zfs_scan_suspend_progress=0"),
            }
            run.pool().wait_for_scan().unwrap();
        };
        run.pool().offline_leaf(guid(run.pool(), 1), OfflineMode::Offline).unwrap();
        (0..4).for_each(|_| run.step());
        run.pool().sync().unwrap();
        online_leaf(run.pool(), &run.bench, 1);
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        let done = run.pool().view().scan_state().unwrap().unwrap();
        assert_eq!((done.function(), done.state()), (Function::Scrub, State::Finished));
        assert!(repaired * 2 >= all && done.processed >= repaired, "{repaired} of {all}: {done:?}");
        finds_nothing(run.pool(), "behind it");
        run.pool().forget_errors(None).unwrap();
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// When the call returns that ends a scrub, also one that has only just been asked for, it has
/// ended, and another can begin.
#[test]
fn a_scrub_that_is_canceled_has_ended() {
    scenario(1850, |steps| {
        let mut run = run(steps, Shape::Mirror, 60);
        run.pool().sync().unwrap();
        set(run.pool(), "zfs_scan_suspend_progress=1");
        for n in 0..8 {
            run.pool().scrub().unwrap();
            if n % 2 == 0 {
                wait_until_it_is_on_disk(run.pool());
            }
            run.pool().stop_scrub().unwrap();
            assert!(run.pool().scan().is_none(), "{n}");
            let state = run.pool().look().unwrap().scan_state().unwrap();
            assert!(state.is_none_or(|s| s.state() == State::Canceled), "{n}: {state:?}");
            (0..2).for_each(|_| run.step());
        }
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// A scrub that waits for a resilver is paused, and the resilver goes on.
#[test]
fn a_scrub_that_is_paused_leaves_the_resilver_before_it_alone() {
    scenario(1860, |steps| {
        let mut run = run(steps, Shape::Mirror, 60);
        // It is used all the same, and nothing brings it what it lacks.
        run.bench.faults[1].add(Fault::fail_writes(0..u64::MAX, EIO).times(1));
        (0..4).for_each(|_| run.step());
        run.pool().sync().unwrap();
        assert!(!is_whole(run.pool()));
        set(run.pool(), "zfs_scan_suspend_progress=1");
        run.pool().scrub().unwrap();
        while run.pool().scan().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        run.pool().pause_scrub().unwrap();
        assert_eq!(run.pool().scan().unwrap().function(), Function::Resilver);
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()));
        let state = run.pool().look().unwrap().scan_state().unwrap().unwrap();
        assert_eq!((state.function(), state.state()), (Function::Scrub, State::Active));
        run.pool().stop_scrub().unwrap();
        run.pool().forget_errors(None).unwrap();
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// Times that a scan was begun, and not gone on with.
pub(super) fn setups(pool: &Pool) -> usize {
    let names = pool.history().unwrap().into_iter().map(|r| r.unwrap().internal_name());
    names.filter(|name| name.as_deref() == Some("scan setup")).count()
}

/// Bytes of the file that the leaf misses.
const LARGE_BYTES: u64 = 96 << 20;
/// Bytes of a device that holds it.
const ROOMY_BYTES: u64 = 256 << 20;

/// Bytes that a resilver wrote to a leaf in this process. It does not read that leaf.
fn written(pool: &LivePool, leaf: u64) -> u64 {
    let all = pool.stats().vdevs;
    let io = all.iter().find(|v| v.guid == leaf).unwrap().io.iter();
    io.filter(|c| c.class == "scrub").map(|c| c.counts.bytes).sum()
}

/// Copies of the devices as a power failure would leave them, while a resilver of the second leaf
/// runs, some of them in the middle. Before the last one the third leaf comes back as well.
fn cut_off(run: &mut Run, gate: &Gate) -> Vec<Bench> {
    let second = guid(run.pool(), 2);
    let mut copies = Vec::new();
    let mut reached = 0;
    for n in 0..COPIES {
        let go_on = || set(run.pool(), "zfs_scan_suspend_progress=0");
        // Most of the 16 MiB that are read at once, which are a sixth of the file.
        let more = if n == 0 { 1 << 20 } else { 14 << 20 };
        gate.hold_up(run.pool(), gate.passed() + more, go_on);
        // What was read is written, and the place of it is durable: what is copied one after the
        // other must not change meanwhile.
        let on_disk = || run.pool().look().unwrap().scan_state().unwrap().unwrap().processed;
        while on_disk() <= reached {
            run.pool().sync().unwrap();
        }
        reached = on_disk();
        if n == COPIES - 1 {
            // What it is for is another leaf from now on.
            run.pool().offline_leaf(second, OfflineMode::Offline).unwrap();
            run.pool().sync().unwrap();
            online_leaf(run.pool(), &run.bench, 2);
            run.pool().sync().unwrap();
        }
        let mut copy = Bench::new(Shape::Mirror3, ROOMY_BYTES, 12);
        copy.devices = run.bench.devices.iter().map(|d| Arc::new(d.fork())).collect();
        copies.push(copy);
    }
    set(run.pool(), "zfs_scan_suspend_progress=0");
    copies
}

/// What the leaves missed that a resilver under way is for, and not those that wait for its end.
fn marked_leaves(pool: &Pool) -> Vec<Txgs> {
    let is_marked = |v: &&VdevConfig| v.resilver_txg.is_some() && !v.resilver_deferred;
    let marked = pool.config().vdev_tree.walk().filter(is_marked);
    let tree = pool.vdevs();
    let missed = |guid: u64| tree.leaves().find(|l| l.guid() == guid).unwrap().missed();
    marked.map(|v| missed(v.guid)).collect()
}

/// Number of those copies.
const COPIES: usize = 4;

/// The power fails while a resilver runs: the next import goes on where it was, and does not bring
/// again what was brought; the leaf has everything in the end, also alone. When another leaf comes
/// back in between, it begins anew.
#[test]
fn a_resilver_that_is_cut_off_goes_on() {
    scenario(1900, |steps| {
        let (bench, gate) = Gate::before(Bench::new(Shape::Mirror3, ROOMY_BYTES, 12));
        let mut run = Run::new(steps.seed(), bench).following(steps);
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        (0..60).for_each(|_| run.step());
        run.pool().sync().unwrap();
        let first = guid(run.pool(), 1);
        run.pool().offline_leaf(first, OfflineMode::Offline).unwrap();
        (0..40).for_each(|_| run.step());
        super::random::add_large(run.pool(), LARGE_BYTES);
        run.pool().sync().unwrap();
        in_small_pieces(run.pool());
        // What is collected is on disk when all of it was read.
        set(run.pool(), "zfs_scan_legacy=1");
        set(run.pool(), "zfs_scan_suspend_progress=1");
        online_leaf(run.pool(), &run.bench, 1);
        wait_until_it_is_on_disk(run.pool());
        let mut copies = cut_off(&mut run, &gate);
        run.pool().destroy_dataset("tank/large").unwrap();
        let (_, model) = run.finish();
        let mut gone_on = 0;
        for (n, copy) in copies.iter_mut().enumerate() {
            let before = state_on(copy);
            let seen = copy.open();
            let marked = marked_leaves(&seen);
            let begun = setups(&seen);
            drop(seen);
            assert!(!marked.is_empty() || before.state() == State::Finished, "copy {n}");
            for missed in marked {
                let (first, last) = missed.bounds().unwrap();
                // As OpenZFS has them: both are just outside of what is visited.
                assert!(before.min_txg < first && last < before.max_txg, "copy {n}: {before:?}");
                assert!(
                    n == COPIES - 1 || last + 1 == before.max_txg,
                    "copy {n}: {before:?}, {last}"
                );
            }
            copy.zdb();
            let pool = copy.import();
            pool.wait_for_scan().unwrap();
            let done = pool.view().scan_state().unwrap().unwrap();
            assert_eq!((done.state(), done.errors, done.queue_obj), (State::Finished, 0, 0));
            assert!(is_whole(&pool), "copy {n}");
            let is_in_file = before.state() == State::Active && before.processed > LARGE_BYTES / 3;
            if is_in_file && n < COPIES - 1 {
                assert_eq!(setups(pool.view()), begun, "copy {n}: it went on");
                let again = written(&pool, first);
                // What was read for the piece that was cut off, and what is not of the file.
                let most = LARGE_BYTES - before.processed + (10 << 20);
                assert!(again < most, "copy {n}: {again} bytes written, {before:?}");
                gone_on += 1;
            }
            if is_in_file && n == COPIES - 1 {
                let second = setups(pool.view());
                assert_eq!(second, begun + 1, "it went on, and one for the other leaf came behind");
            }
            pool.export().unwrap();
            assert!(marked_leaves(&copy.open()).is_empty(), "copy {n}");
            copy.zdb();
            copy.away = vec![0, 2];
            whole(copy, &format!("copy {n}: the leaf alone"));
            copy.away.clear();
            let pool = copy.import();
            pool.destroy_dataset("tank/large").unwrap();
            pool.export().unwrap();
            copy.away = vec![0, 2];
            Run::compare(copy, &model).unwrap();
        }
        assert!(gone_on > 0, "no copy was of a resilver that had gone on for a while");
    });
}

/// What was born since the last scrub, and nothing else, is looked at; all where there was none.
#[test]
fn a_scrub_of_what_is_new_since_the_last_one() {
    scenario(1950, |steps| {
        let bench = Bench::new(Shape::Mirror, ROOMY_BYTES, 12);
        let mut run = Run::new(steps.seed(), bench).following(steps);
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        run.has_checksums = true;
        super::random::add_large(run.pool(), LARGE_BYTES);
        let scrub = |pool: &LivePool| {
            pool.sync().unwrap();
            pool.scrub_since_last().unwrap();
            pool.wait_for_scan().unwrap();
            let done = pool.view().scan_state().unwrap().unwrap();
            assert_eq!((done.state(), done.errors), (State::Finished, 0));
            let seen = pool.look().unwrap();
            let properties = seen.properties(&seen.space());
            let last = properties.iter().find(|p| p.name == "last_scrubbed_txg").unwrap();
            assert_eq!(last.value, (done.max_txg - 1).to_string(), "the last txg that was visited");
            done
        };
        let whole = scrub(run.pool());
        assert_eq!(whole.min_txg, 0);
        assert!(whole.examined > LARGE_BYTES);
        (0..40).for_each(|_| run.step());
        run.pool().sync().unwrap();
        damage(&run);
        let new = scrub(run.pool());
        assert_eq!(new.min_txg, whole.max_txg - 1);
        assert!(new.processed > 0 && new.examined < whole.examined / 2, "{new:?}");
        // What is older was damaged as well.
        run.pool().scrub().unwrap();
        run.pool().wait_for_scan().unwrap();
        let all = run.pool().view().scan_state().unwrap().unwrap();
        assert!((all.min_txg, all.errors) == (0, 0) && all.processed > new.processed, "{all:?}");
        run.pool().destroy_dataset("tank/large").unwrap();
        run.pool().forget_errors(None).unwrap();
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// Between what two leaves missed lies what neither did: it is counted as examined and as skipped,
/// as OpenZFS does, and is not written.
#[test]
fn a_resilver_counts_what_it_passes_over() {
    scenario(1960, |steps| {
        let bench = Bench::new(Shape::Mirror3, ROOMY_BYTES, 12);
        let mut run = Run::new(steps.seed(), bench).following(steps);
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        (0..20).for_each(|_| run.step());
        set(run.pool(), "zfs_scan_suspend_progress=1");
        for n in [1, 2] {
            let away = guid(run.pool(), n);
            run.pool().offline_leaf(away, OfflineMode::Offline).unwrap();
            (0..10).for_each(|_| run.step());
            run.pool().sync().unwrap();
            online_leaf(run.pool(), &run.bench, n);
            if n == 1 {
                super::random::add_large(run.pool(), LARGE_BYTES);
                run.pool().sync().unwrap();
            }
        }
        // One for both.
        run.pool().restart_resilver().unwrap();
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        let done = run.pool().view().scan_state().unwrap().unwrap();
        assert_eq!((done.function(), done.state()), (Function::Resilver, State::Finished));
        assert!(is_whole(run.pool()) && done.errors == 0);
        assert!(done.skipped >= LARGE_BYTES && done.processed > 0, "{done:?}");
        assert!(done.examined > done.skipped && done.processed < LARGE_BYTES, "{done:?}");
        run.pool().destroy_dataset("tank/large").unwrap();
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// What a scrub has collected is freed and written over before it is read: it is not taken for
/// damage, and nothing of another is repaired with it.
#[test]
fn what_is_freed_before_a_scrub_reads_it_is_not_read() {
    scenario(2000, |steps| {
        let (bench, gate) = Gate::before(Bench::new(Shape::Disk, ROOMY_BYTES, 12));
        let mut run = Run::new(steps.seed(), bench).following(steps);
        run.has_checksums = true;
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        (0..40).for_each(|_| run.step());
        super::random::add_large(run.pool(), LARGE_BYTES);
        run.pool().sync().unwrap();
        set(run.pool(), "zfs_scrub_min_time_ms=1");
        set(run.pool(), "zfs_scan_vdev_limit=1M");
        gate.hold_up(run.pool(), gate.passed() + (8 << 20), || run.pool().scrub().unwrap());
        let before = run.pool().scan().expect("far from its end");
        assert!(before.examined < LARGE_BYTES / 2, "{before:?}");
        // More is written than was free.
        for _ in 0..3 {
            run.pool().destroy_dataset("tank/large").unwrap();
            (0..4).for_each(|_| run.pool().sync().unwrap());
            super::random::add_large(run.pool(), LARGE_BYTES);
            run.pool().sync().unwrap();
        }
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        let done = run.pool().view().scan_state().unwrap().unwrap();
        assert_eq!((done.state(), done.errors, done.processed), (State::Finished, 0, 0));
        assert!(done.examined >= before.examined, "{before:?}, {done:?}");
        run.pool().destroy_dataset("tank/large").unwrap();
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// A snapshot takes the place of a scrub off the disks. It is there again after the next piece,
/// some seconds after it was written, although not all that was collected since has been read.
#[test]
fn a_place_that_a_snapshot_has_taken_is_written_again() {
    scenario(1970, |steps| {
        let (bench, gate) = Gate::before(Bench::new(Shape::Mirror, ROOMY_BYTES, 12));
        let run = Run::new(steps.seed(), bench).following(steps);
        let pool = run.pool();
        super::random::add_large(pool, LARGE_BYTES);
        pool.sync().unwrap();
        let on_disk = || pool.view().scan_state().unwrap().unwrap();
        let has_place = || {
            assert_eq!(on_disk().state(), State::Active, "far from its end");
            on_disk().bookmark != Zbookmark::default()
        };
        in_small_pieces(pool);
        set(pool, "zfs_scan_legacy=1");
        // Of both sides as much.
        gate.hold_up(pool, gate.passed() + 2 * (32 << 20), || pool.scrub().unwrap());
        pool.pause_scrub().unwrap();
        // From here on all that is left is collected before any of it is read.
        set(pool, "zfs_scan_legacy=0");
        set(pool, "zfs_scan_vdev_limit=1M");
        set(pool, "zfs_scan_checkpoint_intval=10000");
        pool.scrub().unwrap();
        while on_disk().flags != 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(has_place());
        pool.snapshot(&["tank@s".to_owned()], Vec::new()).unwrap();
        assert!(!has_place());
        std::thread::sleep(Duration::from_secs(5));
        let go_on = || set(pool, "zfs_scan_suspend_progress=0");
        gate.hold_up(pool, gate.passed() + (1 << 20), go_on);
        let began = Instant::now();
        while !has_place() {
            assert!(began.elapsed() < Duration::from_secs(60), "its place is not written");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(run.abandon());
    });
}

/// What was collected of a snapshot is lost when it is read, and the snapshot is destroyed by then:
/// the file that has the blocks still is named.
#[test]
fn damage_of_a_destroyed_snapshot_is_that_of_what_is_left() {
    scenario(2100, |steps| {
        let (bench, gate) = Gate::before(Bench::new(Shape::Disk, ROOMY_BYTES, 12));
        let run = Run::new(steps.seed(), bench).following(steps);
        let pool = run.pool();
        super::random::add_large(pool, LARGE_BYTES);
        pool.snapshot(&["tank/large@s".to_owned()], Vec::new()).unwrap();
        pool.sync().unwrap();
        set(pool, "zfs_scrub_min_time_ms=1");
        set(pool, "zfs_scan_vdev_limit=1M");
        gate.hold_up(pool, gate.passed() + (8 << 20), || pool.scrub().unwrap());
        assert!(pool.scan().expect("far from its end").examined < LARGE_BYTES / 2);
        pool.destroy_snapshots(&["tank/large@s".to_owned()], false).unwrap();
        pool.sync().unwrap();
        // Wherever the file is, also what the scrub has read of it.
        let disk = &run.bench.devices[0];
        let starts = super::random::large_starts(LARGE_BYTES);
        let is_start = |at: &u64| {
            let mut bytes = [0; 16];
            disk.read(*at, &mut bytes).unwrap();
            starts.contains(&bytes)
        };
        let damaged: Vec<u64> = (0..ROOMY_BYTES).step_by(4096).filter(is_start).collect();
        assert_eq!(damaged.len(), starts.len());
        for at in damaged {
            disk.write(at, &[0x5a; 4096]).unwrap();
        }
        set(pool, "zfs_scan_suspend_progress=0");
        pool.wait_for_scan().unwrap();
        pool.sync().unwrap();
        let view = pool.look().unwrap();
        let log = view.error_log().unwrap();
        let names: Vec<String> = log.objects().iter().map(|o| view.damaged_name(o)).collect();
        assert!(names.contains(&"tank/large:/file".to_owned()), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with('<')), "{names:?}");
        drop(view);
        drop(run.abandon());
    });
}

/// A snapshot is destroyed before a resilver comes to it, or while it is there: what it shared with
/// the next one is visited there.
#[test]
fn what_a_snapshot_shared_that_is_destroyed_too_early_is_resilvered() {
    let (late, now) = (16 << 20, Time { seconds: 1, nanos: 0 });
    scenarios((2150..).zip(["first", "second"]), |steps, destroyed| {
        let (bench, gate) = Gate::before(Bench::new(Shape::Mirror, ROOMY_BYTES, 12));
        let run = Run::new(steps.seed(), bench).following(steps);
        let pool = run.pool();
        pool.offline_leaf(guid(pool, 1), OfflineMode::Offline).unwrap();
        super::random::add_large(pool, LARGE_BYTES);
        pool.snapshot(&["tank/large@first".to_owned()], Vec::new()).unwrap();
        let fs = pool.filesystem("tank/large").unwrap();
        let new = NewFile::new(NewKind::File, 0o644, now);
        let file = fs.create(fs.root_object(), b"late", &new).unwrap().number();
        let mut data = vec![0; late];
        testkit::Rng::new(1).fill(&mut data);
        fs.write_at(file, 0, &data, now).unwrap();
        drop(fs);
        pool.snapshot(&["tank/large@second".to_owned()], Vec::new()).unwrap();
        pool.sync().unwrap();
        set(pool, "zfs_scan_legacy=1");
        set(pool, "zfs_scrub_min_time_ms=1");
        let most = gate.passed() + LARGE_BYTES / 4;
        gate.hold_up(pool, most, || online_leaf(pool, &run.bench, 1));
        let processed = pool.scan().expect("far from its end").processed;
        assert!(processed < LARGE_BYTES, "it is in the first snapshot: {processed}");
        pool.destroy_snapshots(&[format!("tank/large@{destroyed}")], false).unwrap();
        pool.sync().unwrap();
        set(pool, "zfs_scan_suspend_progress=0");
        pool.wait_for_scan().unwrap();
        assert!(is_whole(pool), "{destroyed}");
        super::deferred::has_all_on_each(pool, destroyed);
        drop(run.abandon());
    });
}
