//! Sync tasks are all or nothing.
//!
//! Every task is run on a pool that has a bit of everything, again and again, and each time another
//! access to an object fails: the first, the second, and so on until the task succeeds. Each time
//! either the task was refused with nothing changed, and then it succeeds when it is tried again,
//! or the pool stopped, and then its devices hold exactly what they held before. Whatever it is, it
//! checks clean, and zdb says so too.
//!
//! The short form takes a sample of the accesses of each task. The long form takes all:
//! `cargo test -p engine --test atomic -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

#[path = "atomic/bench.rs"]
mod bench;
#[path = "atomic/cases.rs"]
mod cases;

use bench::{Bench, check, exact, same, state};
use cases::{CASES, Case};
use engine::Dsl;
use engine::inside::dsl::{Error as DslError, Refusal, write};
use engine::inside::pool::Error;
use engine::inside::pool::UnguardedDatasets as _;

/// Accesses of a task that the short form lets fail.
const SAMPLE: u64 = 4;

/// What became of the accesses that failed.
#[derive(Default)]
struct Tally {
    accesses: u64,
    refused: u64,
    stopped: u64,
    /// Failures that the task could do without.
    harmless: u64,
}

/// The names of the datasets of a state.
fn names_in(state: &str) -> String {
    let names = state.lines().filter(|line| line.starts_with("tank"));
    names.filter_map(|line| line.split(' ').next()).collect::<Vec<_>>().join("\n")
}

/// Lets accesses of one task fail: all, or with `sample` about that many of them.
fn torment(bench: &Bench, case: &Case, sample: Option<u64>) -> Tally {
    let name = case.name;
    let before = bench.look(exact);
    // A new vdev is used, and gets its uberblocks, when the pool is opened the next time.
    let settle = |devices: &Bench| {
        if name == "add a vdev" {
            devices.import().close().unwrap();
        }
    };
    let (after, accesses) = {
        let devices = bench.fork();
        let pool = devices.import();
        pool.task_faults().fail_next(u64::MAX);
        (case.act)(&pool, &devices).unwrap_or_else(|e| panic!("{name}: {e}"));
        let accesses = pool.task_faults().seen();
        pool.close().unwrap();
        settle(&devices);
        check(&devices, name);
        (devices.look(state), accesses)
    };
    assert!(accesses > 3, "{name}: {accesses} accesses");
    let stride = sample.map_or(1, |n| (accesses / n).max(1));
    let mut out = Tally { accesses, ..Tally::default() };
    let mut nth = 1;
    while nth <= accesses {
        let context = format!("{name}, access {nth} of {accesses}");
        let devices = bench.fork();
        let pool = devices.import();
        pool.task_faults().fail_next(nth);
        let done = (case.act)(&pool, &devices);
        assert!(pool.task_faults().has_fired(), "{context}: it came to less");
        match done {
            // Such as a block of dnodes that cannot be read: what is new goes into the next, and
            // takes more space.
            Ok(()) => {
                out.harmless += 1;
                pool.close().unwrap();
                settle(&devices);
                same(&names_in(&devices.look(state)), &names_in(&after), &context);
                check(&devices, &context);
                nth += stride;
                continue;
            }
            Err(Error::Stopped { cause, .. }) => {
                assert!(cause.contains("half way"), "{context}: {cause}");
                out.stopped += 1;
                same(
                    &exact(&pool.look().unwrap()),
                    &before,
                    &format!("{context}: stopped, in memory"),
                );
                pool.close().expect_err("a pool that stopped cannot be closed well");
                same(&devices.look(exact), &before, &format!("{context}: stopped"));
                check(&devices, &context);
                nth += stride;
                continue;
            }
            Err(_) => {
                out.refused += 1;
                same(&exact(&pool.look().unwrap()), &before, &format!("{context}: refused"));
                (case.act)(&pool, &devices).unwrap_or_else(|e| panic!("{context}: again: {e}"));
                pool.close().unwrap();
            }
        }
        settle(&devices);
        same(&devices.look(state), &after, &context);
        check(&devices, &context);
        nth += stride;
    }
    out
}

/// With `ZINC_TASK` one task only, to find out why it fails.
fn is_wanted(case: &Case) -> bool {
    std::env::var("ZINC_TASK").map_or(true, |name| name == case.name)
}

#[test]
fn each_task_fails_at_some_accesses() {
    let bench = Bench::new();
    for (n, case) in CASES.iter().enumerate().filter(|(_, case)| is_wanted(case)) {
        let tally = torment(&bench, case, Some(SAMPLE));
        assert!(tally.refused > 0, "{}: the first access is a check", case.name);
        if n % 5 == 0 {
            let devices = bench.fork();
            let pool = devices.import();
            pool.task_faults().fail_next(tally.accesses);
            let _ = (case.act)(&pool, &devices);
            drop(pool);
            devices.zdb(case.name);
        }
    }
}

/// All accesses of all tasks.
#[test]
#[ignore = "long form: an hour"]
fn each_task_fails_at_every_access() {
    let bench = Bench::new();
    for case in CASES.iter().filter(|case| is_wanted(case)) {
        let Tally { accesses, refused, stopped, harmless } = torment(&bench, case, None);
        println!(
            "{}: {accesses} accesses: {refused} refused, {stopped} stopped, {harmless} harmless",
            case.name
        );
        let devices = bench.fork();
        let pool = devices.import();
        pool.task_faults().fail_next(accesses);
        let _ = (case.act)(&pool, &devices);
        drop(pool);
        devices.zdb(case.name);
    }
}

/// A pool that stopped says so to every later caller, and why.
#[test]
fn a_stopped_pool_says_so() {
    let bench = Bench::new();
    // A failure of the first accesses is one before anything is changed.
    let stopped = (10..1000).step_by(10).find_map(|access| {
        let devices = bench.fork();
        let pool = devices.import();
        let fs = pool.filesystem("tank/a").unwrap();
        pool.task_faults().fail_next(access);
        let error = pool.destroy_snapshots(&["tank/a@3".into()], false).err()?;
        matches!(error, Error::Stopped { .. }).then_some((devices, pool, fs, error))
    });
    let (_devices, pool, fs, error) = stopped.expect("a failure half way stops the pool");
    let message = error.to_string();
    assert!(message.contains("'tank' has stopped") && message.contains("half way"), "{message}");
    assert_eq!(engine::Error::from(error).hint(), Some(&engine::Hint::OpenAgain));
    let look = pool.look().unwrap();
    assert!(look.dsl().by_name("tank/a@3").is_ok(), "what was not written is not seen");
    drop(look);
    for later in [pool.snapshot(&["tank/a@later".into()], Vec::new()), pool.sync()] {
        assert!(matches!(later, Err(Error::Stopped { .. })), "{later:?}");
    }
    let hold = engine::inside::dmu::Hold::write(1);
    assert!(fs.begin(hold).is_err(), "a transaction was let in");
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result {
        Err(Error::Dsl(DslError::Refused { why, .. })) => why,
        other => panic!("not refused: {other:?}"),
    }
}

/// What is refused for a reason leaves the pool as it was and running, at whatever place of a list
/// the reason stands.
#[test]
fn what_is_refused_stops_nothing() {
    let bench = Bench::new();
    let devices = bench.fork();
    let pool = devices.import();
    let before = exact(&pool.look().unwrap());
    for (name, refused) in cases::REFUSED {
        let error = refused(&pool).expect_err(name);
        assert!(!matches!(error, Error::Stopped { .. }), "{name}: {error}");
        same(&exact(&pool.look().unwrap()), &before, name);
    }
    pool.sync().unwrap();
    pool.close().unwrap();
    check(&devices, "refused");
}

#[test]
fn one_snapshot_of_each_in_one_command() {
    let bench = Bench::new();
    let devices = bench.fork();
    let pool = devices.import();
    let names = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let before = exact(&pool.look().unwrap());
    for several in
        [names(&["tank/a@x", "tank/a@y"]), names(&["tank@x", "tank/a@x", "tank/a/b@x", "tank/a@y"])]
    {
        assert_eq!(refusal(pool.snapshot(&several, Vec::new())), Refusal::SeveralOfOne);
    }
    same(&exact(&pool.look().unwrap()), &before, "refused");
    // The same name again is the same snapshot.
    pool.snapshot(&names(&["tank/a@x", "tank/a/b@x", "tank/a@x"]), Vec::new()).unwrap();
    pool.destroy_snapshots(&names(&["tank/a@x", "tank/a/b@x", "tank/a@x"]), false).unwrap();
    pool.close().unwrap();
    check(&devices, "snapshots");
}

/// Snapshots that are asked for at once, by many: each has a txg of its own.
#[test]
fn snapshots_of_one_dataset_by_many_threads_are_of_different_txgs() {
    let bench = Bench::new();
    let devices = bench.fork();
    let pool = devices.import();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let pool = &pool;
            scope.spawn(move || {
                pool.snapshot(&[format!("tank/a@t{n}")], Vec::new()).unwrap();
            });
        }
    });
    let look = pool.look().unwrap();
    let all = look.dsl().snapshots(&look.dsl().by_name("tank/a").unwrap()).unwrap();
    let txgs: std::collections::BTreeSet<u64> = all.iter().map(|s| s.phys.creation_txg).collect();
    assert_eq!(txgs.len(), all.len());
}

/// Clones of clones, 300 deep: any snapshot of the chain goes, at once or when its clone goes.
#[test]
fn a_chain_of_clones_has_no_longest() {
    const DEEP: usize = 300;
    let bench = Bench::new();
    let devices = bench.fork();
    let pool = devices.import();
    let snap = |n: usize, name: &str| {
        pool.snapshot(&[format!("tank/{n}@{name}{n}")], Vec::new()).unwrap();
    };
    pool.create_filesystem(
        "tank/0",
        engine::inside::pool::live::NewFilesystem::default(),
        Vec::new(),
    )
    .unwrap();
    for n in 0..DEEP {
        if [0, 1, DEEP / 2].contains(&n) {
            snap(n, "gone");
        }
        // A snapshot, and in the same txg the clone of it.
        pool.run(move |cx| {
            let (cx, dsl) = (&cx.dsl(), Dsl::open(cx.dsl().mos.clone(), "tank")?);
            let origin = format!("tank/{n}@foo{n}");
            write::snapshot(cx, &dsl, std::slice::from_ref(&origin), &[])?;
            write::clone_dataset(cx, &dsl, &format!("tank/{}", n + 1), &origin, &[])?;
            Ok(())
        })
        .unwrap();
    }
    let destroy = |name: &str, defer| pool.destroy_snapshots(&[name.to_owned()], defer).unwrap();
    // The dead lists of all that is deeper know it.
    for n in [0, 1, DEEP / 2] {
        destroy(&format!("tank/{n}@gone{n}"), false);
    }
    let last = format!("tank/{}@foo{}", DEEP - 1, DEEP - 1);
    destroy(&last, true);
    pool.destroy_dataset(&format!("tank/{DEEP}")).unwrap();
    let look = pool.look().unwrap();
    assert!(look.dsl().by_name(&last).is_err(), "it was deferred");
    assert_eq!(look.dsl().datasets().iter().filter(|(_, d)| d.is_err()).count(), 0);
    drop(look);
    for n in [DEEP / 3, 1] {
        pool.promote(&format!("tank/{n}")).unwrap();
    }
    pool.close().unwrap();
    check(&devices, "chain");
    devices.zdb("chain");
}

/// Two snapshots of one txg, as older versions of zinc made them: the chain says which is younger.
#[test]
fn of_two_snapshots_of_one_txg_the_chain_says_which_is_younger() {
    let bench = Bench::new();
    // Names and objects in both orders, so that neither decides by chance.
    for (older, younger) in [("x", "y"), ("y", "x")] {
        let devices = bench.fork();
        let pool = devices.import();
        bench::twins(&pool, "tank/a", older, younger);
        let look = pool.look().unwrap();
        let all = look.dsl().snapshots(&look.dsl().by_name("tank/a").unwrap()).unwrap();
        let found: Vec<_> = all.iter().rev().take(2).map(|s| s.name.as_str()).collect();
        assert_eq!(found, [format!("tank/a@{younger}"), format!("tank/a@{older}")]);
        drop(look);
        let refused = pool.rollback(&format!("tank/a@{older}"), false);
        assert_eq!(refusal(refused), Refusal::HasYounger(format!("tank/a@{younger}")));
        pool.rollback(&format!("tank/a@{younger}"), false).unwrap();
        pool.rollback(&format!("tank/a@{older}"), true).unwrap();
        let look = pool.look().unwrap();
        assert!(look.dsl().by_name(&format!("tank/a@{younger}")).is_err(), "it was kept");
        drop(look);
        pool.close().unwrap();
        check(&devices, "twins");
        devices.zdb("twins");
    }
}

/// A clone of the older of two such snapshots takes that one over when it is promoted, and not the
/// younger.
#[test]
fn promoting_takes_what_is_older_in_the_chain() {
    let bench = Bench::new();
    let devices = bench.fork();
    let pool = devices.import();
    bench::twins(&pool, "tank/a", "x", "y");
    pool.clone_snapshot("tank/a@x", "tank/of-x", Vec::new()).unwrap();
    pool.promote("tank/of-x").unwrap();
    let look = pool.look().unwrap();
    for (name, there) in [("tank/of-x@x", true), ("tank/a@y", true), ("tank/of-x@y", false)] {
        assert_eq!(look.dsl().by_name(name).is_ok(), there, "{name}");
    }
    drop(look);
    pool.close().unwrap();
    check(&devices, "promoted");
    devices.zdb("promoted");
}
