//! Pools that are full: what needs space is refused by the typed error, what frees space works, the
//! engine never stops, and afterwards all is as it was.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod random;

use engine::Filesystem;
use engine::inside::dmu::ErrorKind;
use engine::inside::ondisk::DmuType;
use engine::inside::ondisk::znode::Time;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::{LivePool, NewFilesystem};
use engine::inside::rt;
use engine::inside::zpl::Error;
use engine::inside::zpl::write::{NewFile, NewKind};
use poolkit::{SHAPES, Shape};
use random::Bench;
use testkit::Rng;

const DEVICE_BYTES: u64 = 64 << 20;
/// Ways to empty a pool.
const WAYS: u64 = 4;
const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };

fn is_full(e: &Error) -> bool {
    matches!(e, Error::Dmu(e) if matches!(e.kind, ErrorKind::NoSpace))
}

/// Writes files until there is no space, of sizes by chance; their names. At least `least` bytes
/// must have gone in.
fn fill(fs: &Filesystem, rng: &mut Rng, round: u64, least: u64) -> Vec<String> {
    let mut names = Vec::new();
    let (mut written, mut refused) = (0, 0);
    for n in 0.. {
        let name = format!("r{round}-{n}");
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let file = match fs.create(fs.root_object(), name.as_bytes(), &new) {
            Ok(file) => file,
            Err(e) if is_full(&e) => break,
            Err(e) => panic!("{e}"),
        };
        names.push(name);
        let len = match rng.below(3) {
            0 => rng.below(4000) + 1,
            1 => rng.below(100_000) + 1,
            _ => rng.below(3 << 20) + 1,
        };
        let mut data = vec![0; len as usize];
        rng.fill(&mut data);
        match fs.write_at(file.number(), 0, &data, NOW) {
            Ok(()) => written += len,
            Err(e) if is_full(&e) => {
                refused += 1;
                // Smaller files may still fit; but not for ever.
                if refused == 8 {
                    break;
                }
            }
            Err(e) => panic!("{e}"),
        }
    }
    assert!(written >= least, "only {written} bytes went in, {least} should");
    names
}

fn used(pool: &LivePool) -> u64 {
    pool.view().dsl().root().unwrap().phys.used
}

/// Bytes of all space maps. They grow to four blocks each before they are condensed.
fn in_space_maps(pool: &LivePool) -> u64 {
    let view = pool.view();
    let objects = view.mos().objects().map(|o| o.unwrap());
    let maps = objects.filter(|o| o.dnode().kind == DmuType::SPACE_MAP);
    maps.map(|o| o.dnode().used_bytes()).sum()
}

/// Waits until everything destroyed is free.
fn settle(pool: &LivePool) {
    for _ in 0..100 {
        pool.sync().unwrap();
        let free = pool.view().dsl().internal_dirs().unwrap();
        let free = free.iter().find(|(n, _)| n == "$FREE").map(|(n, o)| (n.clone(), *o));
        let Some((name, object)) = free else { break };
        if pool.view().dsl().dir(object, name).unwrap().phys.used == 0 {
            break;
        }
    }
    for _ in 0..4 {
        pool.sync().unwrap();
    }
}

/// Each step is a round for each way to empty the pool again.
fn rounds(shape: Shape, steps: &[u64]) {
    let bench = Bench::new(shape, DEVICE_BYTES, 12);
    let pool = bench.create();
    // Devices in memory are fast, and a txg must not hold all there is.
    pool.set_limits(engine::inside::pool::live::TxgLimits {
        dirty_max: 16 << 20,
        ..Default::default()
    });
    let begin = used(&pool);
    let mut least = 0;
    for round in 0..WAYS * steps.len() as u64 {
        let (step, way) = (steps[(round / WAYS) as usize], round % WAYS);
        let mut rng = Rng::new(step.wrapping_add(way));
        let at = |what: &str| format!("{shape:?}, round {round}: {what}");
        pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
        let fs = pool.filesystem("tank/fs").unwrap();
        let names = fill(&fs, &mut rng, round, least);
        pool.sync().unwrap_or_else(|e| panic!("{}: {e}", at("full")));
        // What went in the first time must go in again.
        least = used(&pool).saturating_sub(begin) / 3;
        let root = fs.root_object();
        let number =
            |name: &str| fs.root().unwrap().lookup(name.as_bytes()).unwrap().unwrap().object;
        match way {
            0 => {
                for name in &names {
                    fs.unlink(root, name.as_bytes(), NOW)
                        .unwrap_or_else(|e| panic!("{}: {e}", at("unlink")));
                }
                drop(fs);
            }
            1 => {
                for name in &names {
                    fs.truncate(number(name), 0, NOW)
                        .unwrap_or_else(|e| panic!("{}: {e}", at("truncate")));
                }
                drop(fs);
            }
            2 => {
                // Nothing that is removed becomes free before the snapshot goes. On a full pool a
                // snapshot may be refused.
                let snapshot = "tank/fs@full".to_owned();
                let made = pool.snapshot(std::slice::from_ref(&snapshot), Vec::new()).is_ok();
                for name in &names {
                    fs.unlink(root, name.as_bytes(), NOW)
                        .unwrap_or_else(|e| panic!("{}: {e}", at("unlink under a snapshot")));
                }
                drop(fs);
                pool.sync().unwrap();
                if made {
                    pool.destroy_snapshots(&[snapshot], false).unwrap();
                }
            }
            _ => {
                for name in names.iter().step_by(2) {
                    fs.punch(number(name), 0, u64::MAX, NOW)
                        .unwrap_or_else(|e| panic!("{}: {e}", at("punch")));
                }
                drop(fs);
            }
        }
        pool.destroy_dataset("tank/fs").unwrap_or_else(|e| panic!("{}: {e}", at("destroy")));
        settle(&pool);
        let now = used(&pool) - in_space_maps(&pool);
        assert!(now < begin + (1 << 20), "{}: {begin} bytes were used, now {now}", at("emptied"));
    }
    pool.export().unwrap();
    let view = bench.open();
    bench.check(&view).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
    drop(view);
    bench.zdb();
}

fn every_shape(steps: usize) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..rt::threads_available().min(SHAPES.len()) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(shape) = SHAPES.get(i) else { break };
                    testkit::shrinking_seed(*shape as u64, steps, |steps| rounds(*shape, steps));
                }
            });
        }
    });
}

#[test]
fn filled_and_emptied_again() {
    every_shape(2);
}

/// The long form: `cargo test -p engine --test full -- --ignored`.
#[test]
#[ignore = "long form: minutes"]
fn filled_and_emptied_a_hundred_times() {
    every_shape(25);
}

/// Many writers change what they have in a pool with little left over: room comes back with every
/// txg, and none is refused because others were faster.
#[test]
fn writers_on_a_nearly_full_pool_wait_for_each_other() {
    const WRITERS: u64 = 24;
    let bench = Bench::new(Shape::Disk, 256 << 20, 12);
    let pool = bench.create();
    pool.set_limits(engine::inside::pool::live::TxgLimits {
        dirty_max: 8 << 20,
        ..Default::default()
    });
    pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
    let fs = pool.filesystem("tank/fs").unwrap();
    let create = |name: &str| {
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        fs.create(fs.root_object(), name.as_bytes(), &new).unwrap().number()
    };
    // What goes in at all.
    let (file, mut data) = (create("all"), vec![0; 1 << 20]);
    Rng::new(1).fill(&mut data);
    let all = (0..).find(|n| fs.write_at(file, n << 20, &data, NOW).is_err()).unwrap();
    fs.unlink(fs.root_object(), b"all", NOW).unwrap();
    settle(&pool);
    // An eighth is left for what is in flight and for what waits to be free.
    let size = (all - all / 8) / WRITERS;
    let files: Vec<u64> = (0..WRITERS).map(|n| create(&format!("f{n}"))).collect();
    std::thread::scope(|scope| {
        for file in files {
            let fs = &fs;
            scope.spawn(move || {
                let mut data = vec![0; 1 << 20];
                let mut rng = Rng::new(file);
                for n in 0..size * 4 {
                    rng.fill(&mut data);
                    fs.write_at(file, (n % size) << 20, &data, NOW).unwrap();
                }
            });
        }
    });
    drop(fs);
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap();
    bench.zdb();
}

/// Many writers at once, each in a dataset of its own: what each sees as free is the same space.
#[test]
fn writers_of_many_datasets_share_what_is_left() {
    let bench = Bench::new(Shape::Disk, DEVICE_BYTES, 12);
    let pool = bench.create();
    pool.set_limits(engine::inside::pool::live::TxgLimits::default());
    for n in 0..8 {
        let name = format!("tank/fs{n}");
        pool.create_filesystem(&name, NewFilesystem::default(), Vec::new()).unwrap();
    }
    std::thread::scope(|scope| {
        for n in 0..8 {
            let pool = &pool;
            scope.spawn(move || {
                let fs = pool.filesystem(&format!("tank/fs{n}")).unwrap();
                fill(&fs, &mut Rng::new(n), n, 0);
            });
        }
    });
    pool.sync().unwrap();
    for n in 0..8 {
        pool.destroy_dataset(&format!("tank/fs{n}")).unwrap();
    }
    settle(&pool);
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap();
    bench.zdb();
}
