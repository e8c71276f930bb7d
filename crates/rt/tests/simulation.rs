//! Whole programs in simulated time.

#![allow(clippy::expect_used, reason = "fails as tests do")]

use parking_lot::Mutex;
use rt::{Clock, Condvar, Rt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Several threads that sleep, wait for each other, draw numbers and use timers; returns what
/// happened when.
fn program(seed: u64) -> Vec<String> {
    Rt::simulate(seed, |rt| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let say = {
            let (rt, log) = (rt.clone(), Arc::clone(&log));
            move |who: &str| log.lock().push(format!("{:?} {who}", rt.now()))
        };
        let shared = Arc::new((Mutex::new(0u32), rt.condvar()));
        let mut tasks = Vec::new();
        for number in 0..4 {
            let (rt2, say, shared) = (rt.clone(), say.clone(), Arc::clone(&shared));
            let body = move || {
                for step in 0..6 {
                    rt2.sleep(MS * (rt2.random_u64() % 3) as u32);
                    say(&format!("thread {number} step {step}"));
                    *shared.0.lock() += 1;
                    shared.1.notify_one();
                }
            };
            tasks.push(rt.spawn("sleeper", body).expect("thread"));
        }
        let late = say.clone();
        rt.after(MS * 5, move || late("timer"));
        let mut count = shared.0.lock();
        while *count < 20 {
            let timed_out = shared.1.wait_until(&mut count, rt.now() + MS);
            say(if timed_out { "main timed out" } else { "main notified" });
        }
        drop(count);
        tasks.into_iter().for_each(|task| task.join().expect("ends"));
        rt.for_each_parallel(3, 0..10, |n| {
            rt.sleep(MS * (n % 2));
            say(&format!("item {n}"));
            Ok::<(), ()>(())
        })
        .expect("work");
        let log = log.lock();
        log.clone()
    })
}

#[test]
fn a_seed_decides_the_whole_run() {
    for seed in 0..20 {
        assert_eq!(program(seed), program(seed));
    }
    let traces: std::collections::HashSet<_> = (0..20).map(program).collect();
    assert_eq!(traces.len(), 20);
}

/// Without any sleep or random number, the order alone differs.
#[test]
fn a_seed_decides_who_is_first() {
    let order = |seed| {
        Rt::simulate(seed, |rt| {
            let log = Arc::new(Mutex::new(String::new()));
            let tasks: Vec<_> = "abcd"
                .chars()
                .map(|name| {
                    let (log, rt2) = (Arc::clone(&log), rt.clone());
                    let body = move || {
                        log.lock().push(name);
                        rt2.yield_now();
                        log.lock().push(name);
                    };
                    rt.spawn("letter", body).expect("thread")
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().expect("ends"));
            let log = log.lock();
            log.clone()
        })
    };
    let orders: std::collections::HashSet<_> = (0..100).map(order).collect();
    assert!(orders.len() > 50, "{}", orders.len());
    assert_eq!(order(3), order(3));
}

#[test]
fn years_pass_in_no_time() {
    let begin = Instant::now();
    Rt::simulate(1, |rt| {
        assert!(rt.is_simulated() && Rt::current().is_simulated());
        let (year, wall) = (Duration::from_secs(365 * 86_400), rt.wall());
        let task = {
            let rt = rt.clone();
            rt.clone().spawn("sleeper", move || rt.sleep(year * 2)).expect("thread")
        };
        rt.sleep(year);
        assert_eq!((rt.now(), rt.wall()), (year, wall + year));
        assert!(!task.is_finished());
        task.join().expect("ends");
        assert_eq!(Clock::now(rt), year * 2);
    });
    assert!(!Rt::current().is_simulated());
    assert!(begin.elapsed() < Duration::from_secs(60));
}

/// What the panic of `body` says.
fn panic_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("it should panic");
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn deadlocks_are_found_and_told() {
    let text = panic_of(|| {
        Rt::simulate(5, |rt| {
            let never = Arc::new((Mutex::new(()), rt.condvar()));
            let inner = Arc::clone(&never);
            let wait = move || {
                inner.1.wait_until(&mut inner.0.lock(), Duration::MAX);
            };
            let task = rt.spawn("txg sync", wait).expect("thread");
            rt.sleep(MS);
            let _ = task.join();
        });
    });
    let says = |part: &str| assert!(text.contains(part), "{text}");
    says("seed 5");
    says("deadlock after 1ms");
    says("`main` waits at crates/rt/tests/simulation.rs");
    says("`txg sync` waits at crates/rt/tests/simulation.rs");
}

#[test]
fn a_panic_anywhere_ends_the_run() {
    let text = panic_of(|| {
        Rt::simulate(5, |rt| {
            let rt2 = rt.clone();
            let body = move || {
                rt2.sleep(MS);
                panic!("broken {}", 7);
            };
            drop(rt.spawn("worker", body));
            rt.sleep(MS * 1000);
        });
    });
    assert!(text.contains("thread `worker` panicked: broken 7"), "{text}");
    let text = panic_of(|| {
        Rt::simulate(5, |rt| {
            rt.after(MS, || panic!("broken"));
            rt.sleep(MS * 1000);
        });
    });
    assert!(text.contains("callback panicked: broken"), "{text}");
    // In one of many, and in the caller's own share.
    for bad in 0..8 {
        let text = panic_of(|| {
            Rt::simulate(bad, |rt| {
                let _ = rt.for_each_parallel(4, 0..8u64, |n| {
                    rt.sleep(MS);
                    assert!(n != bad, "item {n}");
                    Ok::<(), ()>(())
                });
            });
        });
        assert!(text.contains(&format!("item {bad}")), "{text}");
    }
}

#[test]
fn callbacks_and_strangers_may_not_wait() {
    let text = panic_of(|| {
        Rt::simulate(5, |rt| {
            let rt2 = rt.clone();
            rt.after(MS, move || rt2.sleep(MS));
            rt.sleep(MS * 2);
        });
    });
    assert!(text.contains("callback must not wait"), "{text}");
    Rt::simulate(5, |rt| {
        let rt = rt.clone();
        let stranger = std::thread::spawn(move || rt.sleep(MS));
        assert!(stranger.join().is_err());
    });
}

/// The rule that no lock is kept across a wait, broken.
#[test]
fn a_lock_kept_across_a_wait_is_noticed() {
    let text = panic_of(|| {
        Rt::simulate(5, |rt| {
            let shared = Arc::new((Mutex::new(()), rt.condvar()));
            let (inner, rt2) = (Arc::clone(&shared), rt.clone());
            let keeper = move || {
                let _kept = inner.0.lock();
                rt2.sleep(MS * 100);
            };
            drop(rt.spawn("keeper", keeper));
            let mut guard = shared.0.lock();
            shared.1.wait_until(&mut guard, rt.now() + MS);
        });
    });
    assert!(text.contains("was kept across a wait"), "{text}");
}

/// Threads that were not joined are ended with the simulation, and their destructors run, even if
/// those wait.
#[test]
fn nothing_is_left_behind() {
    struct Waits(Arc<(Mutex<bool>, Condvar)>, Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let mut guard = self.0.0.lock();
            for _ in 0..3 {
                self.0.1.wait(&mut guard);
            }
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    for seed in 0..50 {
        Rt::simulate(seed, |rt| {
            for _ in 0..3 {
                let never = Arc::new((Mutex::new(false), rt.condvar()));
                let waits = Waits(Arc::clone(&never), Arc::clone(&dropped));
                let body = move || {
                    let _waits = waits;
                    never.1.wait_while(&mut never.0.lock(), |done| !*done);
                };
                drop(rt.spawn("waiter", body));
            }
            rt.sleep(MS);
        });
        assert_eq!(dropped.load(Ordering::SeqCst), 3 * (seed as usize + 1));
    }
    // Timers that never came are dropped too.
    let alive = Arc::new(());
    Rt::simulate(1, |rt| {
        let (alive, rt2) = (Arc::clone(&alive), rt.clone());
        rt.after(MS, move || drop((alive, rt2)));
    });
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn work_on_many_threads_stays_in_the_simulation() {
    Rt::simulate(9, |rt| {
        let most = AtomicUsize::new(0);
        let inside = AtomicUsize::new(0);
        let result = rt.for_each_parallel(3, 0..9, |_| {
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            Rt::current().sleep(MS);
            inside.fetch_sub(1, Ordering::SeqCst);
            Ok::<(), ()>(())
        });
        assert_eq!(result, Ok(()));
        assert_eq!((most.into_inner(), rt.now()), (3, MS * 3));
        // An iterator that waits.
        let slow = (0..5).inspect(|_| Rt::current().sleep(MS));
        let seen = Mutex::new(Vec::new());
        let result = rt.for_each_parallel(2, slow, |n| {
            seen.lock().push(n);
            if n == 3 { Err(n) } else { Ok(()) }
        });
        assert_eq!(result, Err(3));
        assert!(seen.lock().starts_with(&[0, 1, 2]));
    });
}

/// How many of the system's threads are in a list, and how many of them are different; empties it.
fn counted(ids: &Mutex<Vec<std::thread::ThreadId>>) -> (usize, usize) {
    let ids = std::mem::take(&mut *ids.lock());
    (ids.len(), ids.into_iter().collect::<std::collections::HashSet<_>>().len())
}

/// Threads that take turns, and threads that follow each other, are carried by one of the system's.
#[test]
fn a_thread_of_the_system_goes_on_with_the_next_one() {
    for seed in 0..10 {
        Rt::simulate(seed, |rt| {
            let ids = Arc::new(Mutex::new(Vec::new()));
            let here = std::thread::current().id();
            let note = |_| {
                ids.lock().push(std::thread::current().id());
                Ok::<(), ()>(())
            };
            rt.for_each_parallel(5, 0..50, note).expect("work");
            assert_eq!(counted(&ids), (50, 1));
            for _ in 0..20 {
                let ids = Arc::clone(&ids);
                let body = move || ids.lock().push(std::thread::current().id());
                rt.spawn("short", body).expect("thread").join().expect("ends");
            }
            assert_eq!(counted(&ids), (20, 1));
            // All of them wait: then each needs its own.
            let wait = |n| {
                rt.sleep(MS);
                note(n)
            };
            rt.for_each_parallel(5, 0..5, wait).expect("work");
            assert_eq!((counted(&ids), std::thread::current().id()), ((5, 5), here));
        });
    }
}

/// The caller's mark stays with its share of the work, whatever carries that, and what follows.
#[test]
fn marks_go_with_their_threads() {
    for seed in 0..50 {
        Rt::simulate(seed, |rt| {
            let here = std::thread::current().id();
            let before = rt::replace_mark(7);
            let own = Mutex::new(std::collections::BTreeMap::<u8, u32>::new());
            let work = |n: u64| {
                let mark = rt::mark();
                *own.lock().entry(mark).or_default() += 1;
                if n.is_multiple_of(3) {
                    rt.sleep(MS);
                }
                assert_eq!(rt::replace_mark(mark), mark, "it changed meanwhile");
                Ok::<(), ()>(())
            };
            rt.for_each_parallel(3, 0..30, work).expect("work");
            let own = own.into_inner();
            let share = own.get(&7).copied().unwrap_or(0);
            assert!((1..30).contains(&share) && own.len() == 2, "seed {seed}: {own:?}");
            assert_eq!((rt::mark(), std::thread::current().id()), (7, here));
            let other = rt.spawn("other", rt::mark).expect("thread").join();
            assert_eq!((other, before), (Ok(0), 0));
            rt::replace_mark(0);
        });
    }
}

/// Many threads that are woken all at once: whether each waits in a loop of its own or says what it
/// waits for, the run is the same. Those that say it are not run in vain.
#[test]
fn threads_that_say_what_they_wait_for_have_the_same_run() {
    let run = |seed: u64, says: bool| {
        Rt::simulate(seed, |rt| {
            let state = Arc::new(Mutex::new((0u32, Vec::new())));
            let changed = Arc::new(rt.condvar());
            let in_vain = Arc::new(AtomicUsize::new(0));
            let mut tasks = Vec::new();
            for n in 0..20u32 {
                let (state, changed) = (Arc::clone(&state), Arc::clone(&changed));
                let in_vain = Arc::clone(&in_vain);
                let body = move || {
                    let mut guard = state.lock();
                    while guard.0 < n {
                        match says {
                            true => changed.wait_among(&state, &mut guard, move |s| s.0 >= n),
                            false => changed.wait(&mut guard),
                        }
                        in_vain.fetch_add(usize::from(guard.0 < n), Ordering::Relaxed);
                    }
                    guard.1.push(n);
                };
                tasks.push(rt.spawn("waiter", body).expect("thread"));
            }
            for _ in 0..20 {
                rt.sleep(MS);
                state.lock().0 += 1 + (rt.random_u64() % 2) as u32;
                changed.notify_all();
            }
            tasks.into_iter().for_each(|task| task.join().expect("ends"));
            let order = std::mem::take(&mut state.lock().1);
            (order, in_vain.load(Ordering::Relaxed))
        })
    };
    for seed in 0..30 {
        let (looped, notified) = (run(seed, false), run(seed, true));
        assert_eq!(looped.0, notified.0, "seed {seed}");
        assert!(looped.1 > 20 && notified.1 == 0, "seed {seed}: {looped:?} {notified:?}");
    }
}

/// Notices that come at the same time as deadlines, many times over: no wait is lost.
#[test]
fn ping_pong() {
    for seed in 0..30 {
        Rt::simulate(seed, |rt| {
            let state = Arc::new((Mutex::new(0u32), rt.condvar()));
            let done = Arc::new(AtomicBool::new(false));
            let (other, rt2) = (Arc::clone(&state), rt.clone());
            let task = rt.spawn("pong", move || {
                let mut ball = other.0.lock();
                while *ball < 200 {
                    if *ball % 2 == 1 {
                        *ball += 1;
                        other.1.notify_all();
                    } else {
                        other.1.wait_until(&mut ball, rt2.now() + MS);
                    }
                }
            });
            let mut ball = state.0.lock();
            while *ball < 200 {
                if ball.is_multiple_of(2) {
                    *ball += 1;
                    state.1.notify_all();
                }
                state.1.wait_until(&mut ball, rt.now() + MS);
            }
            drop(ball);
            task.expect("thread").join().expect("ends");
            done.store(true, Ordering::SeqCst);
        });
    }
}

/// Not a measurement, but far from a second each.
#[test]
fn simulations_are_cheap() {
    let begin = Instant::now();
    for seed in 0..100 {
        program(seed);
    }
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

/// The same rule broken where only the watchdog can notice it.
#[test]
#[ignore = "long form: waits two minutes of real time for the watchdog"]
fn the_watchdog_ends_what_hangs() {
    let text = panic_of(|| {
        Rt::simulate(5, |rt| {
            let shared = Arc::new(Mutex::new(()));
            let (inner, rt2) = (Arc::clone(&shared), rt.clone());
            let keeper = move || {
                let _kept = inner.lock();
                rt2.sleep(MS * 100);
            };
            drop(rt.spawn("keeper", keeper));
            rt.sleep(MS);
            drop(shared.lock());
            rt.sleep(MS);
        });
    });
    assert!(text.contains("has not come back"), "{text}");
    assert!(text.contains("`keeper` sleeps at crates/rt/tests/simulation.rs"), "{text}");
}

/// What was due while everything stood still comes at once, in its order, and late.
#[test]
fn what_stands_still_is_late() {
    Rt::simulate(1, |rt| {
        let log = Arc::new(Mutex::new(Vec::new()));
        for ms in [20, 5, 200] {
            let (own, log) = (rt.clone(), Arc::clone(&log));
            rt.after(MS * ms, move || log.lock().push((ms, own.now())));
        }
        rt.stand_still(MS * 100);
        assert_eq!(rt.now(), MS * 100);
        assert!(log.lock().is_empty());
        rt.sleep(MS);
        assert_eq!(*log.lock(), [(5, MS * 100), (20, MS * 100)]);
        rt.sleep(MS * 200);
        assert_eq!(log.lock().last(), Some(&(200, MS * 200)));
    });
}
