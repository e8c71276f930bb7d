//! Blocks that several files have, while vdevs leave, sides miss them, snapshots and checkpoints
//! come and go: the table of such blocks knows them by where they were first.

use super::evacuate::{LONG, is_whole_now, one_txg, set, top, without};
use super::random::clones::clone_file;
use super::random::{Bench, Run};
use super::{DEVICE_BYTES, EIO, holds, holds_model, holds_on_each, is_whole, no_problems};
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::Fault;
use engine::live::tunables::Tunable;
use engine::{Filesystem, LivePool};
use poolkit::Shape;
use testkit::{RandomSteps, Rng, scenarios};

const NOW: Time = Time { seconds: 1, nanos: 0 };
const BLOCK_CLONING: &str = "com.fudosecurity:block_cloning";

fn begun(steps: &RandomSteps, bench: Bench) -> Run {
    let mut run = Run::new(steps.seed(), bench.breakable()).following(steps);
    (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
    run.pool().enable_feature("block_cloning").unwrap();
    some(&mut run, 40);
    run
}

/// Some operations, and files that are cloned between them, or take over blocks of others.
fn some(run: &mut Run, operations: u64) {
    for n in 0..operations {
        run.step();
        match n % 3 {
            0 => run.clone_some(),
            1 => (0..3).for_each(|_| run.share_some()),
            _ => {}
        }
    }
}

/// Bytes of blocks that several files have.
fn shared_bytes(pool: &LivePool) -> u64 {
    pool.look().unwrap().space().clones_used
}

/// A vdev is removed piece by piece, and the pool is worked with meanwhile.
fn remove_slowly(run: &mut Run, id: u64) {
    run.pool().sync().unwrap();
    let begin = |run: &Run| {
        set(run.pool(), Tunable::RemovalPiece, 64 << 10);
        set(run.pool(), Tunable::RemovalSuspend, 1);
    };
    begin(run);
    run.pool().remove_top(top(run.pool(), id)).unwrap();
    let mut txgs = 0;
    while run.pool().removing().is_some() {
        some(run, 2);
        one_txg(run.pool());
        no_problems(run.pool());
        txgs += 1;
        match txgs {
            3 => is_whole_now(run, &format!("{id} leaves")),
            // It goes on, and to its end, in another process.
            12 => run.reopen(id),
            _ => {}
        }
        begin(run);
        assert!(txgs < 2000);
    }
    set(run.pool(), Tunable::RemovalSuspend, 0);
}

/// One leaves after the other; blocks are shared that are on neither any more.
#[test]
fn cloned_blocks_go_where_their_vdev_goes() {
    scenarios([(2600, false), (2601, true)], |steps, is_encrypted| {
        let bench = Bench::new(Shape::Disks3, DEVICE_BYTES, 12).encrypted(is_encrypted);
        let mut run = begun(steps, bench);
        run.bench.faults.clear();
        for id in [1, 0] {
            remove_slowly(&mut run, id);
            some(&mut run, 40);
            no_problems(run.pool());
            is_whole_now(&run, &format!("without {id}"));
            run.reopen(id + 1);
        }
        run.pool().scrub().unwrap();
        run.pool().wait_for_scan().unwrap();
        let (bench, model) = run.finish();
        without(bench, &model, &[0, 1], "the last one").zdb();
    });
}

/// A removal that is called off leaves the shared blocks where they were.
#[test]
fn cloned_blocks_stay_when_a_removal_is_called_off() {
    scenarios([(2605, ())], |steps, ()| {
        let mut run = begun(steps, Bench::new(Shape::Disks3, DEVICE_BYTES, 12));
        set(run.pool(), Tunable::RemovalPiece, 64 << 10);
        set(run.pool(), Tunable::RemovalSuspend, 1);
        run.pool().remove_top(top(run.pool(), 1)).unwrap();
        for _ in 0..6 {
            some(&mut run, 3);
            one_txg(run.pool());
        }
        if run.pool().removing().is_some() {
            run.pool().cancel_removal().unwrap();
        }
        some(&mut run, 20);
        no_problems(run.pool());
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

/// What a side missed is brought to it, also what is only in clones by then.
#[test]
fn cloned_blocks_are_brought_to_a_side_that_missed_them() {
    scenarios((2610..).zip([Shape::Mirror, Shape::Raidz1, Shape::Draid1]), |steps, shape| {
        let mut run = begun(steps, Bench::new(shape, DEVICE_BYTES, 12));
        run.pool().sync().unwrap();
        run.bench.faults[0].add(Fault::fail_writes(0..u64::MAX, EIO));
        some(&mut run, 60);
        run.pool().sync().unwrap();
        run.bench.faults[0].clear();
        super::online_leaf(run.pool(), &run.bench, 0);
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()));
        some(&mut run, 20);
        no_problems(run.pool());
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// Blocks that were cloned after a checkpoint, and given up by those that had them, are there when
/// the pool goes back, and are free when it does not.
#[test]
fn a_checkpoint_knows_no_clones_of_later() {
    scenarios([(2620, true), (2621, false)], |steps, goes_back| {
        let mut run = begun(steps, Bench::new(Shape::Mirror, DEVICE_BYTES, 12));
        run.pool().sync().unwrap();
        run.pool().checkpoint().unwrap();
        let then = run.model.clone();
        some(&mut run, 60);
        if goes_back {
            let (bench, _) = run.finish();
            bench.rewind().unwrap().export().unwrap();
            holds_model(&bench, &then, "back");
            return bench.zdb();
        }
        run.pool().discard_checkpoint().unwrap();
        super::wait_for_discard(run.pool()).unwrap();
        some(&mut run, 20);
        no_problems(run.pool());
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}

fn new_file(fs: &Filesystem, name: &str) -> u64 {
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    fs.create(fs.root_object(), name.as_bytes(), &new).unwrap().number()
}

/// One file after the other gives up blocks that all have, on vdevs that were removed since, and in
/// a snapshot: only the last takes the table with it.
#[test]
fn the_last_one_frees_what_was_shared() {
    let mut bench = Bench::new(Shape::Disks3, DEVICE_BYTES, 12);
    let pool = bench.create();
    pool.enable_feature("block_cloning").unwrap();
    let fs = pool.filesystem("tank").unwrap();
    let mut data = vec![0; 2 << 20];
    Rng::new(1).fill(&mut data);
    let source = new_file(&fs, "source");
    fs.write_at(source, 0, &data, NOW).unwrap();
    pool.sync().unwrap();
    let clone = |pool: &LivePool, from: u64, name: &str| {
        let fs = pool.filesystem("tank").unwrap();
        let to = new_file(&fs, name);
        pool.sync().unwrap();
        assert!(clone_file(fs.objset(), (from, data.len() as u64), &fs, to));
        pool.sync().unwrap();
        to
    };
    let first = clone(&pool, source, "first");
    assert_eq!(shared_bytes(&pool), data.len() as u64);
    pool.snapshot(&["tank@all".to_owned()], vec![]).unwrap();
    for id in [0, 1] {
        pool.remove_top(top(&pool, id)).unwrap();
        assert!(pool.wait_for_removal(LONG).unwrap());
    }
    // They are known by where they were.
    let second = clone(&pool, first, "second");
    let gives_up = |name: &str, left: u64| {
        let fs = pool.filesystem("tank").unwrap();
        fs.unlink(fs.root_object(), name.as_bytes(), NOW).unwrap();
        pool.sync().unwrap();
        assert_eq!(shared_bytes(&pool), left, "{name}");
        no_problems(&pool);
    };
    let all = data.len() as u64;
    gives_up("source", all);
    gives_up("first", all);
    pool.destroy_snapshots(&["tank@all".to_owned()], false).unwrap();
    (0..4).for_each(|_| pool.sync().unwrap());
    assert_eq!(shared_bytes(&pool), 0, "one file has them");
    let mut read = vec![0; data.len()];
    fs.node(second).unwrap().read_at(0, &mut read).unwrap();
    assert!(read == data);
    gives_up("second", 0);
    assert_eq!(pool.look().unwrap().features().count(BLOCK_CLONING), Some(0));
    drop(fs);
    pool.export().unwrap();
    bench.away = vec![0, 1];
    bench.check(&bench.open()).unwrap();
    bench.zdb();
}
