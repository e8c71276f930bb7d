//! Raidz vdevs that get wider, while the pool is worked with.

use super::evacuate::{by_itself, set, until_idle};
use super::random::add_large;
use super::replace::{holds_without, is_settled, replace};
use super::*;
use engine::inside::pool::Error;
use engine::live::ResilverKind;
use engine::live::tunables::Tunable;
use engine::pools::ExpansionWait;
use poolkit::Shape;
use std::time::Duration;

const LONG: Duration = Duration::from_mins(10);

const SHAPES: [Shape; 3] = [Shape::Raidz1, Shape::Raidz2, Shape::Raidz3];

/// A txg ends, with a step of the expansion in it.
fn one_txg(pool: &LivePool) {
    set(pool, Tunable::ReflowSuspend, 0);
    pool.sync().unwrap();
    stand(pool);
}

/// No txg goes on with the expansion, or is about to.
fn stand(pool: &LivePool) {
    set(pool, Tunable::ReflowSuspend, 1);
    pool.sync().unwrap();
}

fn top(pool: &LivePool) -> VdevConfig {
    pool.look().unwrap().config().vdev_tree.children[0].clone()
}

/// A device more begins to be spread onto.
fn attach_to(pool: &LivePool, bench: &Bench, n: usize) -> engine::inside::pool::Result<()> {
    pool.attach(top(pool).guid, &bench.leaf(n), bench.write_ref(n))
}

fn attach(run: &mut Run) {
    let n = run.bench.extra();
    attach_to(run.pool(), &run.bench, n).unwrap();
}

fn goes_to_its_end(pool: &LivePool) {
    assert!(pool.wait_for_expansion(LONG).unwrap(), "{:?}", pool.why_expansion_waits());
    pool.wait_for_scan().unwrap();
}

fn size(pool: &LivePool) -> u64 {
    pool.look().unwrap().space().tops[0].size()
}

/// The pool as it is now is whole for zinc and for zdb, whatever is under way.
fn is_whole_now(run: &Run, case: &str) {
    run.pool().sync().unwrap();
    let mut bench = Bench::new(run.bench.shape, DEVICE_BYTES, run.bench.ashift);
    bench.devices = run.bench.devices.iter().map(|d| Arc::new(d.fork())).collect();
    whole(&bench, case);
    bench.zdb();
}

/// A scrub finds nothing to do, and each device has everything.
fn ends_well(run: Run) {
    let pool = run.pool();
    pool.wait_for_scan().unwrap();
    pool.scrub().unwrap();
    pool.wait_for_scan().unwrap();
    let state = pool.look().unwrap().scan_state().unwrap().unwrap();
    assert_eq!((state.function(), state.state()), (Function::Scrub, State::Finished));
    assert_eq!((state.errors, state.processed), (0, 0), "{state:?}");
    no_problems(pool);
    let (bench, model) = run.finish();
    holds_on_each(bench, &model);
}

/// What a tunable held up goes on when it is set back, in a pool that nothing is done with.
#[test]
fn an_expansion_that_was_held_up_goes_on_in_an_idle_pool() {
    scenario(2298, |steps| {
        let mut run = run(steps, Shape::Raidz1, 40);
        set(run.pool(), Tunable::ReflowSuspend, 1);
        attach(&mut run);
        until_idle(run.pool());
        assert!(run.pool().expanding().is_some());
        set(run.pool(), Tunable::ReflowSuspend, 0);
        by_itself("it is expanded", || run.pool().expanding().is_none());
        ends_well(run);
    });
}

#[test]
fn a_raidz_gets_wider_while_it_is_worked_with() {
    scenarios((2300..).zip(SHAPES), |steps, shape| {
        let case = format!("{shape:?}");
        let mut run = run(steps, shape, 80);
        set(run.pool(), Tunable::ReflowSuspend, 1);
        set(run.pool(), Tunable::ReflowPiece, 1 << 20);
        let before = size(run.pool());
        attach(&mut run);
        is_whole_now(&run, &case);
        let mut txgs = 0;
        while run.pool().expanding().is_some() {
            (0..4).for_each(|_| run.step());
            if txgs % 3 == 0 {
                run.promise();
            }
            one_txg(run.pool());
            no_problems(run.pool());
            txgs += 1;
            if txgs <= 4 || txgs == 8 {
                is_whole_now(&run, &format!("{case} after {txgs}"));
            }
            assert!(txgs < 2000, "{case}");
        }
        assert!(txgs > 8, "{case}: {txgs}");
        is_whole_now(&run, &case);
        let vdev = top(run.pool());
        assert!(!vdev.raidz_expanding && vdev.raidz_expand_txgs.len() == 1, "{case}");
        assert!(size(run.pool()) > before, "{case}");
        (0..60).for_each(|_| run.step());
        ends_well(run);
    });
}

/// Nothing is held up: txgs, intent logs and readers go on as they come.
#[test]
fn no_request_waits_for_a_raidz_that_gets_wider() {
    scenarios((2310..).zip(SHAPES), |steps, shape| {
        let mut run = run(steps, shape, 60);
        attach(&mut run);
        while run.pool().expanding().is_some() {
            (0..3).for_each(|_| run.step());
            run.promise();
        }
        goes_to_its_end(run.pool());
        (0..20).for_each(|_| run.step());
        ends_well(run);
    });
}

/// Rows of three widths lie beside one another, and the oldest are where the last has them.
#[test]
fn a_raidz_gets_wider_again() {
    scenarios((2320..).zip(SHAPES), |steps, shape| {
        let mut run = run(steps, shape, 60);
        let mut sizes = vec![size(run.pool())];
        for _ in 0..2 {
            attach(&mut run);
            goes_to_its_end(run.pool());
            sizes.push(size(run.pool()));
            (0..40).for_each(|_| run.step());
            run.reopen(0);
        }
        assert!(sizes[0] < sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
        assert_eq!(top(run.pool()).raidz_expand_txgs.len(), 2);
        ends_well(run);
    });
}

/// What there is by then is as much as the devices have.
#[test]
fn the_space_of_the_device_is_used() {
    scenario(2330, |steps| {
        let mut run = run(steps, Shape::Raidz1, 30);
        let before = size(run.pool());
        attach(&mut run);
        goes_to_its_end(run.pool());
        // More than there was room for.
        add_large(run.pool(), before / 5 * 2);
        run.pool().sync().unwrap();
        no_problems(run.pool());
        run.bench.zdb();
        run.pool().destroy_dataset("tank/large").unwrap();
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// A pool is closed, exported or left behind at any step, and the expansion goes on.
#[test]
fn an_expansion_goes_on_when_the_pool_is_opened() {
    scenarios((2340..).zip(SHAPES), |steps, shape| {
        // What stands in front of devices that can be broken outlives a crash.
        let mut run = Run::new(steps.seed(), Bench::new(shape, DEVICE_BYTES, 12)).following(steps);
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        (0..60).for_each(|_| run.step());
        set(run.pool(), Tunable::ReflowSuspend, 1);
        attach(&mut run);
        let mut times = 0;
        while run.pool().expanding().is_some() {
            one_txg(run.pool());
            (0..3).for_each(|_| run.step());
            run.reopen(times);
            stand(run.pool());
            times += 1;
            assert!(times < 500, "{shape:?}");
        }
        assert!(times > 1, "{shape:?}: {times}");
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// A device that is away, fails or lacks something holds it up, and nothing is lost.
#[test]
fn an_expansion_waits_for_its_devices() {
    let txgs = |(seed, shape)| testkit::today(2, [0, 1, 2, 5]).map(move |n| (seed, (shape, n)));
    scenarios((2350..).zip(SHAPES).flat_map(txgs), |steps, (shape, txgs)| {
        let mut run = run(steps, shape, 60);
        set(run.pool(), Tunable::ReflowSuspend, 1);
        set(run.pool(), Tunable::ReflowPiece, 1 << 20);
        attach(&mut run);
        (0..txgs).for_each(|_| one_txg(run.pool()));
        run.bench.faults[1].add(Fault::fail_writes(0..u64::MAX, EIO));
        (0..40).for_each(|_| run.step());
        set(run.pool(), Tunable::ReflowSuspend, 0);
        run.pool().sync().unwrap();
        assert_eq!(state(run.pool(), 1), VdevState::Faulted, "{shape:?}");
        assert!(!run.pool().wait_for_expansion(Duration::ZERO).unwrap());
        is_whole_now(&run, &format!("{shape:?} after {txgs}"));
        run.bench.faults[1].clear();
        online_leaf(run.pool(), &run.bench, 1);
        run.pool().wait_for_scan().unwrap();
        goes_to_its_end(run.pool());
        (0..20).for_each(|_| run.step());
        assert!(is_whole(run.pool()));
        ends_well(run);
    });
}

/// A spare stands in and has all: the expansion waits until it is given back, and says so.
#[test]
fn an_expansion_says_that_it_waits_for_a_spare() {
    scenario(2440, |steps| {
        let mut run = run(steps, Shape::Raidz1, 40);
        set(run.pool(), Tunable::ReflowSuspend, 1);
        attach(&mut run);
        let why = run.pool().why_expansion_waits().unwrap();
        assert!(why.starts_with("zinc_raidz_expand_suspend_progress"), "{why}");
        let n = run.bench.extra();
        let (spec, devices) = (run.bench.leaf(n), run.bench.source());
        run.pool().add_aux(&[spec], &[], &devices).unwrap();
        let spare = run.pool().spares_left().unwrap()[0].guid;
        let (old, device) = (guid(run.pool(), 1), run.bench.write_ref(n));
        run.pool().take_spare(old, spare, Some(device)).unwrap();
        run.pool().wait_for_scan().unwrap();
        set(run.pool(), Tunable::ReflowSuspend, 0);
        run.pool().sync().unwrap();
        assert!(!run.pool().wait_for_expansion(Duration::ZERO).unwrap());
        let waits = |pool: &LivePool| {
            let seen = pool.look().unwrap();
            let note = seen.status(&seen.space()).expansion.unwrap();
            (pool.why_expansion_waits(), note.waits)
        };
        let why = "spare-1 is to be one device first".to_owned();
        let note = ExpansionWait::Spare("spare-1".to_owned());
        assert_eq!(waits(run.pool()), (Some(why), Some(note)));
        run.pool().detach(spare).unwrap();
        goes_to_its_end(run.pool());
        assert_eq!(waits(run.pool()), (None, None));
        let (bench, model) = run.finish();
        holds_without(bench, &model, &[n]);
    });
}

/// A device fails when a step was done, and the step is given up: it counts in no txg that there
/// is, so not after a crash either.
#[test]
fn a_step_that_was_given_up_is_not_counted() {
    scenarios((2420..).zip(SHAPES), |steps, shape| {
        let mut run = run(steps, shape, 60);
        set(run.pool(), Tunable::ReflowSuspend, 1);
        set(run.pool(), Tunable::ReflowPiece, 1 << 20);
        attach(&mut run);
        (0..4).for_each(|_| one_txg(run.pool()));
        let copied = |pool: &Pool| pool.expansion().unwrap().unwrap().state.bytes_copied;
        let (before, last) = (copied(&run.pool().look().unwrap()), run.pool().last_synced());
        run.bench.faults[1].add(Fault::fail_flushes(EIO).times(1));
        set(run.pool(), Tunable::ReflowSuspend, 0);
        run.pool().sync().unwrap();
        assert_eq!(state(run.pool(), 1), VdevState::Faulted, "{shape:?}");
        let mut bench = Bench::new(shape, DEVICE_BYTES, 12);
        bench.devices = run.bench.devices.iter().map(|d| Arc::new(d.fork())).collect();
        let later: Vec<_> = bench.each_txg().into_iter().filter(|(txg, _)| *txg > last).collect();
        assert!(!later.is_empty());
        for (txg, pool) in later {
            assert_eq!(copied(&pool.unwrap()), before, "{shape:?}: txg {txg} behind {last}");
        }
        online_leaf(run.pool(), &run.bench, 1);
        run.pool().wait_for_scan().unwrap();
        goes_to_its_end(run.pool());
        ends_well(run);
    });
}

/// A device is replaced in the midst of it, and the process may be killed then: the expansion waits
/// until the new device has all, and each device has everything at the end.
#[test]
fn a_device_is_replaced_while_a_raidz_gets_wider() {
    let cases = |(seed, shape)| testkit::today(3, 0..12).map(move |n| (seed, (shape, n)));
    scenarios((2390..).zip(SHAPES).flat_map(cases), |steps, (shape, n)| {
        let mut run = Run::new(steps.seed(), Bench::new(shape, DEVICE_BYTES, 12)).following(steps);
        (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
        (0..80).for_each(|_| run.step());
        set(run.pool(), Tunable::ReflowSuspend, 1);
        set(run.pool(), Tunable::ReflowPiece, 1 << 20);
        attach(&mut run);
        for _ in 0..n / 2 {
            one_txg(run.pool());
            (0..2).for_each(|_| run.step());
        }
        set(run.pool(), Tunable::ReflowSuspend, 0);
        let old = guid(run.pool(), 1);
        replace(&mut run, old, ResilverKind::Healing);
        if n % 2 == 1 {
            run.crash(|_, _| Ok(()));
        }
        (0..10).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()) && is_settled(run.pool(), &[old]), "{shape:?} after {n}");
        goes_to_its_end(run.pool());
        let (bench, model) = run.finish();
        holds_without(bench, &model, &[1]);
    });
}

/// A device is replaced, or scrubbed after its content was lost, while an expansion stands: what it
/// gets is also where the next step does not copy any more.
#[test]
fn what_is_made_whole_while_an_expansion_stands_stays_so() {
    let cases = |(seed, shape)| testkit::today(4, 0..24).map(move |n| (seed, (shape, n)));
    scenarios((2500..).zip(SHAPES).flat_map(cases), |steps, (shape, n)| {
        let mut run = run(steps, shape, 20);
        // Blocks lie at all places where a step may end.
        add_large(run.pool(), 24 << 20);
        run.pool().sync().unwrap();
        set(run.pool(), Tunable::ReflowSuspend, 1);
        set(run.pool(), Tunable::ReflowPiece, 1 << 20);
        let new = run.bench.devices.len();
        attach(&mut run);
        (0..1 + n / 6).for_each(|_| one_txg(run.pool()));
        let leaf = [0, 1, new][n / 2 % 3];
        if n % 2 == 0 {
            let old = guid(run.pool(), leaf);
            replace(&mut run, old, ResilverKind::Healing);
            run.pool().wait_for_scan().unwrap();
            assert!(is_settled(run.pool(), &[old]), "{shape:?} {n}");
        } else {
            lose_content(&run.bench.devices[leaf]);
            run.pool().scrub().unwrap();
            run.pool().wait_for_scan().unwrap();
            run.pool().forget_errors(None).unwrap();
        }
        set(run.pool(), Tunable::ReflowSuspend, 0);
        run.pool().sync().unwrap();
        goes_to_its_end(run.pool());
        let state = run.pool().look().unwrap().scan_state().unwrap().unwrap();
        assert_eq!((state.function(), state.state()), (Function::Scrub, State::Finished));
        assert_eq!((state.errors, state.processed), (0, 0), "{shape:?} {n}: {state:?}");
        run.pool().destroy_dataset("tank/large").unwrap();
        let (bench, model) = run.finish();
        let gone = if n % 2 == 0 { vec![leaf] } else { Vec::new() };
        holds_without(bench, &model, &gone);
    });
}

/// All between the labels of a device is zeros from now on, with the scratch area.
fn lose_content(device: &MemoryDevice) {
    let zeros = vec![0; 1 << 20];
    let content = 512 << 10..DEVICE_BYTES - (512 << 10);
    for at in content.clone().step_by(zeros.len()) {
        device.put(at, &zeros[..zeros.len().min((content.end - at) as usize)]);
    }
}

/// The power fails after any number of writes: the pool is whole, and gets as wide as it should.
#[test]
fn getting_wider_may_end_at_any_write() {
    for (seed, shape) in (2360..).zip(SHAPES) {
        let (mut bench, model) = prepared(seed, shape, 40).finish();
        bench.faults.clear();
        let new = bench.extra();
        let before = bench.devices.clone();
        let mut cuts = [0, 0, 0];
        for (number, writes) in super::cuts(59).enumerate() {
            bench = bench.again_from(&before);
            let pool = bench.import();
            set(&pool, Tunable::ReflowPiece, 1 << 20);
            bench.cut_power_after(writes);
            let begun = attach_to(&pool, &bench, new);
            // A device that fails before the others is waited for.
            while begun.is_ok() && pool.is_expanding() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let is_done = begun.is_ok() && pool.expanding().is_none() && pool.sync().is_ok();
            drop(pool);
            bench.mend();
            let case = format!("{shape:?} after {writes}");
            let seen = bench.open();
            let left = seen.config().vdev_tree.children[0].clone();
            let has_begun = left.children.len() > new;
            let is_ended = !left.raidz_expand_txgs.is_empty();
            assert!(has_begun || begun.is_err(), "{case}");
            cuts[usize::from(has_begun) + usize::from(is_ended)] += 1;
            drop(seen);
            whole(&bench, &case);
            if number % 4 == 0 && has_begun {
                bench.zdb();
            }
            let pool = bench.try_import().unwrap_or_else(|e| panic!("{case}: {e}"));
            if !has_begun {
                attach_to(&pool, &bench, new).unwrap_or_else(|e| panic!("{case}: {e}"));
            }
            goes_to_its_end(&pool);
            assert_eq!(top(&pool).raidz_expand_txgs.len(), 1, "{case}");
            pool.export().unwrap();
            holds_model(&bench, &model, &case);
            if is_done {
                break;
            }
        }
        assert!(cuts.iter().all(|n| *n > 0), "{shape:?}: {cuts:?}");
        bench.zdb();
    }
}

/// The txg that is durable, and which txgs can be gone back to: all from a first one on.
fn txgs(run: &Run) -> (u64, u64) {
    let mut bench = Bench::new(run.bench.shape, DEVICE_BYTES, run.bench.ashift);
    bench.devices = run.bench.devices.iter().map(|d| Arc::new(d.fork())).collect();
    let newest = bench.open().uberblock().txg;
    let (mut first, mut has_moved) = (newest, false);
    for (txg, opened) in bench.each_txg() {
        if matches!(opened, Err(Error::RowsMoved { .. })) {
            has_moved = true;
            assert!(matches!(bench.back_to(txg), Err(Error::RowsMoved { .. })));
        } else {
            // What later txgs have overwritten, as they may, is none of this.
            assert!(!has_moved, "{txg} is before one that cannot be gone back to");
            first = txg;
        }
    }
    (newest, first)
}

/// Where rows were before a step, others may lie: no txg before it is gone back to.
#[test]
fn no_txg_is_gone_back_to_from_before_rows_were_moved() {
    scenario(2380, |steps| {
        let mut run = run(steps, Shape::Raidz1, 60);
        run.pool().sync().unwrap();
        let (before, _) = txgs(&run);
        set(run.pool(), Tunable::ReflowSuspend, 1);
        attach(&mut run);
        run.pool().sync().unwrap();
        let (_, first) = txgs(&run);
        assert!(first < before, "nothing has been moved: {first}, {before}");
        for _ in 0..3 {
            let last = txgs(&run).0;
            one_txg(run.pool());
            let (newest, first) = txgs(&run);
            assert!((last + 1..newest).contains(&first), "a step after {last}: {first}, {newest}");
        }
        set(run.pool(), Tunable::ReflowSuspend, 0);
        run.pool().sync().unwrap();
        assert!(run.pool().wait_for_expansion(LONG).unwrap());
        let (last, first) = txgs(&run);
        let wider = top(run.pool()).raidz_expand_txgs[0];
        assert!(first == wider - 3 && first <= last, "{first}, {wider}, {last}");
        goes_to_its_end(run.pool());
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// What cannot be is refused, and nothing has changed then.
#[test]
fn what_cannot_be_expanded_is_left_alone() {
    scenario(2370, |steps| {
        let mut run = run(steps, Shape::Raidz2, 30);
        let n = run.bench.extra();
        let refused = |run: &Run, why: &str| {
            let message = attach_to(run.pool(), &run.bench, n).unwrap_err().to_string();
            assert!(message.contains(why), "{message}");
        };
        run.pool().checkpoint().unwrap();
        assert!(attach_to(run.pool(), &run.bench, n).is_err());
        run.pool().discard_checkpoint().unwrap();
        super::wait_for_discard(run.pool()).unwrap();
        run.pool().offline_leaf(guid(run.pool(), 1), OfflineMode::Offline).unwrap();
        refused(&run, "must be in use and have all data");
        online_leaf(run.pool(), &run.bench, 1);
        run.pool().wait_for_scan().unwrap();
        let small = Arc::new(MemoryDevice::zeros("small", 32 << 20));
        let spec = run.bench.leaf(n);
        let message =
            run.pool().attach(top(run.pool()).guid, &spec, small).unwrap_err().to_string();
        assert!(message.contains("too small"), "{message}");
        let large = MemoryDevice::zeros("large", DEVICE_BYTES).with_sector_size(16 << 10);
        let message = run.pool().attach(top(run.pool()).guid, &spec, Arc::new(large)).unwrap_err();
        assert!(message.to_string().contains("alignment requirement"), "{message}");
        let (of, device) = (top(run.pool()).guid, run.bench.write_ref(n));
        let message =
            run.pool().attach_by(of, &spec, device, ResilverKind::Sequential).unwrap_err();
        assert!(message.to_string().contains("support sequential reconstruction"), "{message}");
        run.bench.devices[0].put(512 << 10, b"\xeb\x0eBTX");
        refused(&run, "boot code");
        run.bench.devices[0].put(512 << 10, &[0; 5]);
        assert_eq!(top(run.pool()).children.len(), 5);
        set(run.pool(), Tunable::ReflowSuspend, 1);
        attach_to(run.pool(), &run.bench, n).unwrap();
        refused(&run, "expansion in progress");
        let message = run.pool().checkpoint().unwrap_err().to_string();
        assert!(message.contains("expansion in progress"), "{message}");
        assert!(run.pool().detach(guid(run.pool(), 5)).is_err());
        set(run.pool(), Tunable::ReflowSuspend, 0);
        run.pool().sync().unwrap();
        goes_to_its_end(run.pool());
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}
