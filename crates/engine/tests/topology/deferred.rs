//! Leaves that come while a resilver runs for others: they wait for its end, as OpenZFS has it;
//! where the feature is not enabled, it begins anew.

use super::scrubs::{set, setups, wait_until_it_is_on_disk};
use super::*;
use engine::pools::Remark;

const FEATURE: &str = "com.datto:resilver_defer";

/// The leaves that lack something first and second, by number.
const FIRST: usize = 1;
const SECOND: usize = 2;

/// Times that the feature is in use.
fn uses(pool: &Pool) -> Option<u64> {
    pool.features().count(FEATURE)
}

/// Whether the configuration says of each leaf that it waits.
fn waiting(pool: &Pool) -> Vec<bool> {
    let leaves = pool.config().vdev_tree.walk().filter(|v| v.kind.is_leaf());
    leaves.map(|v| v.resilver_deferred).collect()
}

/// What `zpool status` says of two leaves.
fn remarks(pool: &LivePool) -> [Option<Remark>; 2] {
    let seen = pool.look().unwrap();
    let view = seen.vdev_view(&seen.space());
    [FIRST, SECOND].map(|n| {
        let guid = guid(pool, n);
        view.walk().find(|v| v.guid == guid).unwrap().remark.clone()
    })
}

fn events(pool: &Pool, name: &str) -> usize {
    let names = pool.history().unwrap().into_iter().map(|r| r.unwrap().internal_name());
    names.filter(|found| found.as_deref() == Some(name)).count()
}

/// A pool of which two leaves lack something, and a resilver runs for the first: it has begun, and
/// does not go on.
fn with_a_resilver(steps: &RandomSteps, shape: Shape, lacks: &'static [&'static str]) -> Run {
    let mut bench = Bench::new(shape, DEVICE_BYTES, 12).breakable();
    bench.lacks = lacks;
    let mut run = Run::new(steps.seed(), bench).following(steps);
    (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
    (0..60).for_each(|_| run.step());
    for n in [FIRST, SECOND] {
        let leaf = guid(run.pool(), n);
        run.pool().offline_leaf(leaf, OfflineMode::Offline).unwrap();
    }
    (0..40).for_each(|_| run.step());
    run.pool().sync().unwrap();
    set(run.pool(), "zfs_scan_suspend_progress=1");
    online_leaf(run.pool(), &run.bench, FIRST);
    wait_until_it_is_on_disk(run.pool());
    run
}

/// Copies of the devices as they are.
fn copy_of(run: &Run) -> Bench {
    run.pool().sync().unwrap();
    let mut copy = Bench::new(run.bench.shape, DEVICE_BYTES, 12);
    copy.devices = run.bench.devices.iter().map(|d| Arc::new(d.fork())).collect();
    copy
}

/// Everything is on each leaf, and nothing says that one waits.
fn is_over(pool: &LivePool, case: &str) {
    assert!(is_whole(pool), "{case}");
    let seen = pool.look().unwrap();
    assert_eq!(uses(&seen), Some(0), "{case}");
    assert!(!waiting(&seen).contains(&true), "{case}");
    assert_eq!(remarks(pool), [None, None], "{case}");
}

/// Every block is as it should be on every leaf.
pub(super) fn has_all_on_each(pool: &LivePool, case: &str) {
    pool.scrub().unwrap();
    pool.wait_for_scan().unwrap();
    let scrub = pool.view().scan_state().unwrap().unwrap();
    assert_eq!((scrub.function(), scrub.state()), (Function::Scrub, State::Finished), "{case}");
    assert_eq!((scrub.processed, scrub.errors), (0, 0), "{case}");
    let tree = pool.view().vdevs();
    assert!(tree.leaves().all(|leaf| leaf.checksum_errors() == 0), "{case}");
}

#[test]
fn a_leaf_that_comes_while_a_resilver_runs_waits_for_its_end() {
    scenarios((2100..).zip([Shape::Mirror3, Shape::Raidz2, Shape::Draid2]), |steps, shape| {
        let mut run = with_a_resilver(steps, shape, &[]);
        let begun = setups(run.pool().view());
        let first = run.pool().view().scan_state().unwrap().unwrap();
        online_leaf(run.pool(), &run.bench, SECOND);
        let seen = run.pool().look().unwrap();
        let count = waiting(&seen).into_iter().filter(|waits| *waits).count();
        assert_eq!((uses(&seen), count, waiting(&seen)[SECOND]), (Some(1), 1, true), "{shape:?}");
        let (own, other) = (Remark::Resilvering, Remark::AwaitingResilver);
        assert_eq!(remarks(run.pool()), [Some(own), Some(other)], "{shape:?}");
        // The power fails now, or in a moment.
        let mut copies = vec![copy_of(&run)];
        (0..20).for_each(|_| run.step());
        copies.push(copy_of(&run));
        assert_eq!(setups(run.pool().view()), begun, "{shape:?}: it goes on");
        let now = run.pool().view().scan_state().unwrap().unwrap();
        assert_eq!((now.start_time, now.max_txg), (first.start_time, first.max_txg), "{shape:?}");
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        is_over(run.pool(), &format!("{shape:?}"));
        let seen = run.pool().look().unwrap();
        assert_eq!(setups(&seen), begun + 1, "{shape:?}: the second came behind it");
        assert_eq!(events(&seen, "starting deferred resilver"), 1, "{shape:?}");
        has_all_on_each(run.pool(), &format!("{shape:?}"));
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
        for (n, copy) in copies.iter().enumerate() {
            copy.zdb();
            let pool = copy.import();
            pool.wait_for_scan().unwrap();
            let case = format!("{shape:?}, copy {n}");
            is_over(&pool, &case);
            has_all_on_each(&pool, &case);
            pool.export().unwrap();
            copy.zdb();
        }
    });
}

/// OpenZFS finds the mark where it looks for it.
#[testkit::needs("zdb")]
#[test]
fn zdb_shows_which_leaf_waits() {
    scenario(2110, |steps| {
        let run = with_a_resilver(steps, Shape::Raidz2, &[]);
        online_leaf(run.pool(), &run.bench, SECOND);
        let copy = copy_of(&run);
        let dir = tempfile::tempdir().unwrap();
        copy.save(dir.path());
        let report = testkit::oracle::zdb_on(dir.path(), &["-dddd", &copy.pool, "1"]);
        assert!(report.success, "{}", report.text);
        let counts: Vec<&str> = report.text.lines().filter(|line| line.contains(FEATURE)).collect();
        let report = testkit::oracle::zdb_on(dir.path(), &["-CC", &copy.pool]);
        let mut leaf = None;
        let mut marked = Vec::new();
        for line in report.text.split("MOS Configuration").nth(1).unwrap_or_default().lines() {
            leaf = line.trim().strip_prefix("path: ").map(str::to_owned).or(leaf);
            if line.contains(FEATURE) {
                marked.extend(leaf.clone());
            }
        }
        assert_eq!(marked, [format!("'mem{SECOND}'")], "{counts:?} {}", report.text);
        drop(run.abandon());
    });
}

/// `zpool resilver`: what waits is begun at once, with the others.
#[test]
fn a_resilver_that_is_asked_for_takes_those_that_wait() {
    scenario(2120, |steps| {
        let run = with_a_resilver(steps, Shape::Raidz2, &[]);
        let begun = setups(run.pool().view());
        online_leaf(run.pool(), &run.bench, SECOND);
        assert!(run.pool().is_resilver_deferred());
        run.pool().restart_resilver().unwrap();
        while setups(&run.pool().look().unwrap()) == begun {
            run.pool().sync().unwrap();
        }
        assert!(!run.pool().is_resilver_deferred());
        let both = [Some(Remark::Resilvering), Some(Remark::Resilvering)];
        assert_eq!(remarks(run.pool()), both);
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        is_over(run.pool(), "both at once");
        assert_eq!(setups(&run.pool().look().unwrap()), begun + 1);
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// Without the feature nothing waits.
#[test]
fn without_the_feature_a_resilver_begins_anew() {
    scenario(2130, |steps| {
        let run = with_a_resilver(steps, Shape::Raidz2, &["resilver_defer"]);
        let begun = setups(run.pool().view());
        let refused = run.pool().restart_resilver().unwrap_err().to_string();
        assert!(refused.contains("this action requires the resilver_defer feature"), "{refused}");
        online_leaf(run.pool(), &run.bench, SECOND);
        while setups(&run.pool().look().unwrap()) == begun {
            run.pool().sync().unwrap();
        }
        let seen = run.pool().look().unwrap();
        assert!(uses(&seen).is_none() && !waiting(&seen).contains(&true));
        assert_eq!(remarks(run.pool()), [Some(Remark::Resilvering), Some(Remark::Resilvering)]);
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        assert!(is_whole(run.pool()));
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// A leaf that waits is taken out again, or replaces another; what one is replaced by waits too.
#[test]
fn what_waits_may_go_or_be_replaced() {
    scenarios((2140..).zip([Shape::Mirror3, Shape::Raidz2]), |steps, shape| {
        let mut run = with_a_resilver(steps, shape, &[]);
        online_leaf(run.pool(), &run.bench, SECOND);
        let second = guid(run.pool(), SECOND);
        super::replace::replace(&mut run, second, engine::live::ResilverKind::Healing);
        let count = waiting(&run.pool().look().unwrap()).into_iter().filter(|w| *w).count();
        assert_eq!(count, 2, "{shape:?}");
        run.pool().offline_leaf(second, OfflineMode::Offline).unwrap();
        (0..20).for_each(|_| run.step());
        set(run.pool(), "zfs_scan_suspend_progress=0");
        run.pool().wait_for_scan().unwrap();
        assert!(super::replace::is_settled(run.pool(), &[second]), "{shape:?}");
        assert!(is_whole(run.pool()), "{shape:?}");
        let seen = run.pool().look().unwrap();
        assert!(uses(&seen) == Some(0) && !waiting(&seen).contains(&true), "{shape:?}");
        let (bench, model) = run.finish();
        super::replace::holds_without(bench, &model, &[SECOND]);
    });
}

/// Leaves that were away when the pool was opened come back in one resilver.
#[test]
fn leaves_that_come_back_together_wait_for_none() {
    scenario(2150, |steps| {
        let mut run = run(steps, Shape::Raidz2, 60);
        run.without(vec![FIRST, SECOND]);
        (0..30).for_each(|_| run.step());
        let begun = setups(&run.pool().look().unwrap());
        run.without(Vec::new());
        run.pool().wait_for_scan().unwrap();
        is_over(run.pool(), "both");
        assert_eq!(setups(&run.pool().look().unwrap()), begun + 1);
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}
