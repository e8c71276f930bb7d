//! The machine under threads, real and simulated.

use super::super::throttle::{DelayKnobs, DirtyDelay, Rule};
use super::*;
use std::sync::atomic::AtomicBool;

fn machine(limits: TxgLimits) -> Arc<Txgs> {
    Arc::new(Txgs::new(&Rt::real(), 10, limits))
}

#[test]
fn a_txg_waits_for_its_transactions_and_none_enters_meanwhile() {
    let txgs = machine(TxgLimits::default());
    let inside = txgs.enter(Some(0)).unwrap();
    assert_eq!(inside, 11);
    let syncer = Arc::clone(&txgs);
    let thread = std::thread::spawn(move || {
        let record = syncer.next().unwrap();
        syncer.done(record.clone());
        record.txg
    });
    let waiter = Arc::clone(&txgs);
    let waiting = std::thread::spawn(move || waiter.wait_synced(11, PushReason::Waited));
    while !txgs.shut.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let late = Arc::clone(&txgs);
    let late = std::thread::spawn(move || late.enter(Some(0)).unwrap());
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!((txgs.open(), txgs.last_synced()), (11, 10));
    txgs.leave(11, None);
    assert_eq!(late.join().unwrap(), 12);
    assert_eq!(thread.join().unwrap(), 11);
    waiting.join().unwrap().unwrap();
    assert_eq!(txgs.last_synced(), 11);
}

#[test]
fn txgs_that_are_alive_are_shown_where_they_stand() {
    const MS: Duration = Duration::from_millis(1);
    Rt::simulate(1, |rt| {
        let txgs = Arc::new(Txgs::new(rt, 10, TxgLimits::default()));
        let states = || -> Vec<(u64, char)> {
            txgs.alive().iter().map(|r| (r.txg, r.state.letter())).collect()
        };
        assert_eq!(states(), [(11, 'O')]);
        assert_eq!(txgs.enter(None).unwrap(), 11);
        txgs.dirtied(11, 500);
        let (waiter, syncer, sleeper) = (Arc::clone(&txgs), Arc::clone(&txgs), rt.clone());
        rt.sleep(MS * 3);
        let waiter = rt.spawn("waiter", move || waiter.wait_synced(11, PushReason::Waited));
        let syncer = rt.spawn("syncer", move || {
            let record = syncer.next().unwrap();
            sleeper.sleep(MS * 5);
            syncer.done(record);
        });
        rt.sleep(MS * 2);
        assert_eq!(states(), [(11, 'Q')]);
        let record = &txgs.alive()[0];
        assert_eq!((record.open, record.quiesce, record.dirty), (MS * 3, MS * 2, 500));
        txgs.leave(11, None);
        rt.sleep(MS);
        assert_eq!(states(), [(11, 'S'), (12, 'O')]);
        assert_eq!(txgs.alive()[0].sync, MS);
        rt.sleep(MS * 10);
        assert_eq!(states(), [(12, 'O')]);
        assert_eq!(txgs.records().len(), 1);
        waiter.unwrap().join().unwrap().unwrap();
        syncer.unwrap().join().unwrap();
    });
}

#[test]
fn dirty_data_is_bounded_and_pushes() {
    let limits = TxgLimits { dirty_max: 1000, sync_percent: 50, ..TxgLimits::default() };
    let txgs = machine(limits);
    let txg = txgs.enter(Some(0)).unwrap();
    txgs.dirtied(txg, 1000);
    txgs.leave(11, None);
    let entered = Arc::new(AtomicBool::new(false));
    let (writer, flag) = (Arc::clone(&txgs), Arc::clone(&entered));
    let thread = std::thread::spawn(move || {
        let txg = writer.enter(Some(0)).unwrap();
        flag.store(true, Ordering::SeqCst);
        writer.leave(txg, Some(0));
        txg
    });
    // Freeing is not held up.
    assert_eq!(txgs.enter(None).unwrap(), txg);
    txgs.leave(11, None);
    let record = txgs.next().unwrap();
    assert_eq!((record.txg, record.dirty), (11, 1000));
    assert!(!entered.load(Ordering::SeqCst));
    txgs.done(record);
    assert!(thread.join().unwrap() > 11);
}

#[test]
fn many_changed_objects_push() {
    const MS: Duration = Duration::from_millis(1);
    Rt::simulate(1, |rt| {
        let txgs = Arc::new(Txgs::new(rt, 10, TxgLimits::default()));
        let syncer = Arc::clone(&txgs);
        let syncer = rt.spawn("syncer", move || {
            while let Some(record) = syncer.next() {
                syncer.done(record);
            }
        });
        // The same in the next txg: what was counted goes with its txg.
        for txg in [11, 12] {
            txgs.dirtied(txg, 1);
            (1..OBJECTS_MAX).for_each(|_| txgs.joined(txg));
            rt.sleep(MS);
            assert_eq!(txgs.open(), txg);
            txgs.joined(txg);
            rt.sleep(MS);
            assert_eq!((txgs.open(), txgs.last_synced()), (txg + 1, txg));
        }
        assert!(txgs.records().iter().all(|record| record.pushed == PushReason::Dirty));
        txgs.stop("the test ends");
        syncer.unwrap().join().unwrap();
    });
}

#[test]
fn writers_wait_for_the_next_txg_when_one_has_too_many_objects() {
    let txgs = machine(TxgLimits::default());
    txgs.dirtied(11, 1);
    (1..OBJECTS_LIMIT).for_each(|_| txgs.joined(11));
    assert_eq!(txgs.enter(Some(0)).unwrap(), 11);
    txgs.leave(11, Some(0));
    txgs.joined(11);
    let writer = Arc::clone(&txgs);
    let thread = std::thread::spawn(move || {
        let txg = writer.enter(Some(0)).unwrap();
        writer.leave(txg, Some(0));
        txg
    });
    // Freeing is not held up.
    assert_eq!(txgs.enter(None).unwrap(), 11);
    assert!(!thread.is_finished());
    txgs.leave(11, None);
    // What is full is next.
    let record = txgs.next().unwrap();
    assert_eq!(record.txg, 11);
    assert_eq!(thread.join().unwrap(), 12);
    txgs.done(record);
}

#[test]
fn stopping_frees_all_waiting_threads() {
    let txgs = machine(TxgLimits::default());
    let waiter = Arc::clone(&txgs);
    let waiting = std::thread::spawn(move || waiter.wait_synced(11, PushReason::Waited));
    txgs.stop("the test ends");
    assert_eq!(&*waiting.join().unwrap().unwrap_err(), "the test ends");
    assert!(txgs.next().is_none());
}

#[test]
fn nothing_is_lost_between_entering_and_quiescing() {
    let txgs = machine(TxgLimits::default());
    let stop = Arc::new(AtomicBool::new(false));
    let inside: Arc<[AtomicU64; SLOTS]> = Arc::default();
    let mut threads = Vec::new();
    for _ in 0..3 {
        let (txgs, stop, inside) = (Arc::clone(&txgs), Arc::clone(&stop), Arc::clone(&inside));
        threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let txg = txgs.enter(None).unwrap();
                inside[slot(txg)].fetch_add(1, Ordering::SeqCst);
                inside[slot(txg)].fetch_sub(1, Ordering::SeqCst);
                txgs.leave(11, None);
            }
        }));
    }
    for n in 11..300 {
        let waiter = Arc::clone(&txgs);
        let waiting = std::thread::spawn(move || waiter.wait_synced(n, PushReason::Waited));
        let record = txgs.next().unwrap();
        assert_eq!(record.txg, n);
        assert_eq!(inside[slot(n)].load(Ordering::SeqCst), 0);
        txgs.done(record);
        waiting.join().unwrap().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// What writers saw of a machine over one simulated device.
struct Observed {
    /// Most that was dirty at once.
    dirty: u64,
    /// Longest wait of a writer.
    latency: Duration,
    /// When the last writer was done.
    took: Duration,
    records: Vec<TxgRecord>,
}

const WRITE: u64 = 1 << 20;

/// How many bytes a device writes in a second, and what time it needs for the end of a sync.
#[derive(Clone, Copy)]
struct Speed {
    bytes_per_s: u64,
    overhead: Duration,
}

const DISKS: Speed = Speed { bytes_per_s: 200 << 20, overhead: Duration::from_millis(20) };

fn sync_thread(rt: &Rt, txgs: &Arc<Txgs>, speed: Speed) -> rt::Task<()> {
    let (rt, txgs) = (rt.clone(), Arc::clone(txgs));
    let body = {
        let rt = rt.clone();
        move || {
            while let Some(mut record) = txgs.next() {
                let began = rt.now();
                let mut left = record.dirty;
                while left > 0 {
                    let part = left.min(128 << 10);
                    rt.sleep(Duration::from_nanos(part * 1_000_000_000 / speed.bytes_per_s));
                    txgs.cleaned(record.txg, part);
                    left -= part;
                }
                record.write_time = rt.now() - began;
                rt.sleep(speed.overhead);
                record.sync = rt.now() - began;
                txgs.done(record);
            }
        }
    };
    rt.spawn("txg_sync", body).unwrap()
}

/// `writers` threads do `each` transactions of [`WRITE`] as fast as they are let.
fn load(seed: u64, writers: usize, each: u64, set: fn(&Txgs)) -> Observed {
    std::thread::spawn(move || Rt::simulate(seed, |rt| load_here(rt, writers, each, set)))
        .join()
        .unwrap()
}

fn load_here(rt: &Rt, writers: usize, each: u64, set: fn(&Txgs)) -> Observed {
    let limits = TxgLimits { dirty_max: 256 << 20, ..TxgLimits::default() };
    let txgs = Arc::new(Txgs::new(rt, 10, limits));
    txgs.keep_records(10_000);
    set(&txgs);
    let syncer = sync_thread(rt, &txgs, DISKS);
    let most = Arc::new(AtomicU64::new(0));
    let began = rt.now();
    let write = |_| {
        let (rt, txgs, most) = (rt.clone(), Arc::clone(&txgs), Arc::clone(&most));
        let body = {
            let rt = rt.clone();
            move || {
                let mut longest = Duration::ZERO;
                for _ in 0..each {
                    let began = rt.now();
                    let txg = txgs.enter(Some(WRITE)).unwrap();
                    longest = longest.max(rt.now() - began);
                    txgs.dirtied(txg, WRITE);
                    most.fetch_max(txgs.dirty(), Ordering::Relaxed);
                    txgs.leave(txg, Some(WRITE));
                    // Copying it in.
                    rt.sleep(Duration::from_micros(500));
                }
                longest
            }
        };
        rt.spawn("writer", body).unwrap()
    };
    let threads: Vec<_> = (0..writers).map(write).collect();
    let latency = threads.into_iter().map(|t| t.join().unwrap()).max().unwrap();
    let took = rt.now() - began;
    txgs.wait_synced(txgs.open(), PushReason::Waited).unwrap();
    assert_eq!((txgs.dirty(), txgs.reserved()), (0, 0));
    txgs.stop("the test ends");
    syncer.join().unwrap();
    let records = txgs.records();
    let total: u64 = records.iter().map(|r| r.dirty).sum();
    assert_eq!(total, writers as u64 * each * WRITE, "every writer came through");
    Observed { dirty: most.load(Ordering::Relaxed), latency, took, records }
}

fn dirty_delay(txgs: &Txgs) {
    txgs.set_policy(Arc::new(DirtyDelay::new(DelayKnobs {
        dirty_max: 256 << 20,
        sync_percent: 20,
        min_dirty_percent: 60,
        scale_ns: 500_000,
    })));
}

fn knobs() -> LimitKnobs {
    LimitKnobs {
        synctime: Duration::from_secs(1),
        min: 32 << 20,
        max: 0,
        inflated: 8 << 30,
        fixed: 0,
        inflation: 2,
        delay_eighths: 7,
        off: false,
        rule: Rule::Throughput,
        sync_percent: 100,
    }
}

fn write_limit(txgs: &Txgs) {
    txgs.change_limits(|l| l.dirty_max = 8 << 30);
    txgs.set_write_limit(knobs());
}

fn hard_limit(_: &Txgs) {}

#[test]
fn dirty_delay_bounds_dirty_data_with_many_short_delays() {
    let seen = load(1, 8, 250, dirty_delay);
    // Each writer may come in once more after the last look.
    assert!(seen.dirty <= (256 << 20) + 8 * WRITE, "{}", seen.dirty);
    let delays: u64 = seen.records.iter().map(|r| r.delays).sum();
    let waits: u64 = seen.records.iter().map(|r| r.waits).sum();
    assert!(delays > 500 && waits < 20, "{delays} delays, {waits} waits");
    // A delay of a tenth of a second at most, the turns of others, which are not handed on in the
    // order of asking, and the time in which a txg is made durable and nothing lands.
    assert!(seen.latency < Duration::from_millis(300), "{:?}", seen.latency);
    assert!(seen.records.iter().any(|r| r.pushed == PushReason::Dirty));
    // The devices set the pace: 2000 MiB at 200 MiB/s, less what is dirty at the end.
    let secs = seen.took.as_secs_f64();
    assert!((8.0..11.5).contains(&secs), "{secs}");
}

#[test]
fn short_delays_are_owed_and_served_together() {
    let run = |rt: &Rt| {
        let txgs = Txgs::new(rt, 10, TxgLimits { dirty_max: 256 << 20, ..TxgLimits::default() });
        dirty_delay(&txgs);
        // The part of 256 MiB at which the curve says 25 microseconds.
        txgs.dirtied(11, (256 << 20) * 6191 / 10_000);
        let began = rt.now();
        for _ in 0..4000 {
            txgs.leave(txgs.enter(Some(0)).unwrap(), Some(0));
        }
        let delays = txgs.slots[slot(11)].delays.load(Ordering::Relaxed);
        (rt.now() - began, delays)
    };
    let (took, delays) = Rt::simulate(1, run);
    // 4000 times 25 microseconds, and no more than one sleep in each millisecond of them.
    assert!((0.095..0.105).contains(&took.as_secs_f64()), "{took:?}");
    assert!((50..=105).contains(&delays), "{delays}");
}

#[test]
fn without_a_policy_writers_stand_at_the_limit() {
    let seen = load(2, 8, 250, hard_limit);
    assert!(seen.dirty <= (256 << 20) + 8 * WRITE, "{}", seen.dirty);
    let delays: u64 = seen.records.iter().map(|r| r.delays).sum();
    assert_eq!(delays, 0);
    assert!(seen.records.iter().any(|r| r.waits > 0));
}

#[test]
fn a_write_limit_makes_txgs_of_the_target_time_and_a_wall() {
    let seen = load(3, 8, 400, write_limit);
    let last: Vec<_> = seen.records.iter().filter(|r| r.pushed == PushReason::Limit).collect();
    assert!(last.len() > 5, "{}", last.len());
    // The limit is 200 MiB/s × 1 s, counted twice, and syncs take as long.
    let settled = &last[last.len() - 3..];
    for r in settled {
        assert!((370 << 20..=410 << 20).contains(&r.limit), "{}", r.limit >> 20);
        assert!((0.9..1.2).contains(&r.sync.as_secs_f64()), "{:?}", r.sync);
    }
    let delays: u64 = seen.records.iter().map(|r| r.delays).sum();
    let waits: u64 = seen.records.iter().map(|r| r.waits).sum();
    assert!(delays > 0 && waits > 0, "{delays} delays, {waits} waits");
    // A stop is one of the txg that is entered after it: the one after that which met the wall.
    let wall = seen.records.iter().position(|r| r.pushed == PushReason::Limit).unwrap();
    assert_eq!(seen.records.iter().position(|r| r.waits > 0), Some(wall + 1));
    // The wall is what dirty-delay was made against.
    assert!(seen.latency > Duration::from_millis(300), "{:?}", seen.latency);
}

#[test]
fn the_hard_limit_holds_under_a_write_limit() {
    let set = |txgs: &Txgs| txgs.set_write_limit(LimitKnobs { fixed: 4 << 30, ..knobs() });
    let seen = load(4, 8, 250, set);
    assert!(seen.dirty <= (256 << 20) + 8 * WRITE, "{}", seen.dirty);
}

#[test]
fn no_writer_is_lost_whatever_the_seed_and_the_policy() {
    let policies: [fn(&Txgs); 4] = [dirty_delay, write_limit, hard_limit, |txgs| {
        // Tiny: every transaction is at a limit.
        txgs.change_limits(|l| l.dirty_max = 2 << 20);
        txgs.set_write_limit(LimitKnobs { fixed: 1 << 20, delay_eighths: 0, ..knobs() });
    }];
    for seed in 0..12 {
        for set in policies {
            load(100 + seed, 1 + (seed as usize % 5) * 3, 30, set);
        }
    }
}

#[test]
fn stopping_frees_writers_wherever_they_wait() {
    let policies: [fn(&Txgs); 3] = [dirty_delay, write_limit, hard_limit];
    for set in policies {
        std::thread::spawn(move || {
            Rt::simulate(7, |rt| {
                let limits = TxgLimits { dirty_max: 64 << 20, ..TxgLimits::default() };
                let txgs = Arc::new(Txgs::new(rt, 10, limits));
                set(&txgs);
                // Nothing is synced: sooner or later every writer waits.
                let write = |_| {
                    let txgs = Arc::clone(&txgs);
                    let body = move || {
                        while let Ok(txg) = txgs.enter(Some(WRITE)) {
                            txgs.dirtied(txg, WRITE);
                            txgs.leave(txg, Some(WRITE));
                        }
                    };
                    rt.spawn("writer", body).unwrap()
                };
                let threads: Vec<_> = (0..6).map(write).collect();
                rt.sleep(Duration::from_secs(5));
                txgs.stop("the test ends");
                for thread in threads {
                    thread.join().unwrap();
                }
            });
        })
        .join()
        .unwrap();
    }
}
