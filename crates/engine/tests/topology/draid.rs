//! dRAID: its parity, groups and distributed spares.

use super::replace::{holds_without, survives_without};
use super::*;
use engine::live::ResilverKind;

const DRAIDS: [Shape; 3] = [Shape::Draid1, Shape::Draid2, Shape::Draid3];

/// Whichever leaves are away, as many as there is parity, the others have everything.
#[test]
fn any_leaves_may_be_missing() {
    scenarios((2200..).zip(DRAIDS), |steps, shape| {
        let mut run = run(steps, shape, 80);
        run.reopen(0);
        (0..40).for_each(|_| run.step());
        let (mut bench, model) = run.finish();
        bench.check(&bench.open()).unwrap();
        holds(&bench, &model);
        let (all, lost) = (bench.devices.len(), bench.redundancy());
        let choices = (0..all).flat_map(|first| (1..=all / 2).map(move |step| (first, step)));
        for (first, step) in testkit::today(3, choices) {
            bench.away = (0..lost).map(|n| (first + n * step) % all).collect();
            holds_model(&bench, &model, "without some");
        }
    });
}

/// The guid of the leaf on a device.
fn named(pool: &LivePool, n: usize) -> u64 {
    let seen = pool.look().unwrap();
    let path = format!("mem{n}");
    let mut all = seen.config().vdev_tree.walk();
    all.find(|v| v.path.as_deref() == Some(&path)).unwrap().guid
}

fn spares(pool: &LivePool) -> Vec<u64> {
    pool.spares_left().unwrap().iter().map(|s| s.guid).collect()
}

/// Neither leaves nor distributed spares lack anything.
fn is_settled(pool: &LivePool) -> bool {
    pool.view().vdevs().sides().all(|s| !s.is_written() || s.missed().is_empty())
}

/// A pool without a leaf, for which a distributed spare stands in, and the spare.
fn spared(steps: &RandomSteps, shape: Shape, away: &[usize]) -> (Run, Vec<u64>) {
    let mut run = run(steps, shape, 80);
    run.without(away.to_vec());
    (0..30).for_each(|_| run.step());
    let mut taken = Vec::new();
    for n in away {
        let (leaf, spare) = (named(run.pool(), *n), spares(run.pool())[0]);
        run.pool().take_spare(leaf, spare, None).unwrap();
        (0..10).for_each(|_| run.step());
        taken.push(spare);
    }
    run.pool().wait_for_scan().unwrap();
    assert!(is_settled(run.pool()) && has(run.pool(), "dspare"));
    (run, taken)
}

/// With the spare the pool survives as many more losses as without it before.
#[test]
fn a_distributed_spare_has_what_the_leaf_had() {
    let all = [(Shape::Draid1, vec![1]), (Shape::Draid2, vec![4]), (Shape::Draid2, vec![0, 7])];
    scenarios((2220..).zip(all), |steps, (shape, away)| {
        let (mut run, _) = spared(steps, shape, &away);
        (0..40).for_each(|_| run.step());
        let (bench, model) = run.finish();
        survives_without(bench, &model, &away);
    });
}

/// The spare is given back by itself, when the leaf is back, or was replaced.
#[test]
fn a_distributed_spare_is_given_back() {
    scenario(2230, |steps| {
        let (mut run, _) = spared(steps, Shape::Draid1, &[2]);
        let count = spares(run.pool()).len();
        run.without(Vec::new());
        run.pool().wait_for_scan().unwrap();
        assert!(!has(run.pool(), "dspare") && !has(run.pool(), "spare"));
        assert_eq!(spares(run.pool()).len(), count + 1);
        (0..20).for_each(|_| run.step());
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
    scenario(2231, |steps| {
        let (mut run, _) = spared(steps, Shape::Draid2, &[3]);
        let old = named(run.pool(), 3);
        let new = run.bench.extra();
        let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
        run.pool().replace(old, &spec, device).unwrap();
        (0..20).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        assert!(!has(run.pool(), "dspare") && !has(run.pool(), "replacing"));
        assert!(is_whole(run.pool()));
        let (bench, model) = run.finish();
        holds_without(bench, &model, &[3]);
    });
}

/// Two leaves are back at once. The resilver of the first may end while the second comes, so two
/// threads give spares back.
#[test]
fn two_distributed_spares_are_given_back() {
    for seed in testkit::range_of_today(2, 2250..2258) {
        scenario(seed, |steps| {
            let (mut run, _) = spared(steps, Shape::Draid2, &[0, 7]);
            let count = spares(run.pool()).len();
            run.without(Vec::new());
            run.pool().wait_for_scan().unwrap();
            assert!(!has(run.pool(), "dspare") && !has(run.pool(), "spare"));
            assert_eq!(spares(run.pool()).len(), count + 2);
            let (bench, model) = run.finish();
            holds_on_each(bench, &model);
        });
    }
}

/// The leaf is detached: the spare is a child of the vdev from now on, and no spare any more.
#[test]
fn a_distributed_spare_stays() {
    scenario(2240, |steps| {
        let (mut run, taken) = spared(steps, Shape::Draid2, &[5]);
        let old = named(run.pool(), 5);
        run.pool().detach(old).unwrap();
        assert!(has(run.pool(), "dspare") && !has(run.pool(), "spare"));
        assert!(!spares(run.pool()).contains(&taken[0]));
        (0..30).for_each(|_| run.step());
        let (bench, model) = run.finish();
        holds_without(bench, &model, &[5]);
    });
}

/// It is replaced like any other child, in both ways, also while another leaf is away.
#[test]
fn a_distributed_spare_that_stays_is_replaced() {
    let ways = [
        (ResilverKind::Healing, vec![5]),
        (ResilverKind::Sequential, vec![5]),
        (ResilverKind::Healing, vec![1, 5]),
    ];
    scenarios((2270..).zip(ways), |steps, (kind, away)| {
        let (mut run, taken) = spared(steps, Shape::Draid2, &[5]);
        run.pool().detach(named(run.pool(), 5)).unwrap();
        run.without(away);
        let new = run.bench.extra();
        let (spec, device) = (run.bench.leaf(new), run.bench.write_ref(new));
        run.pool().replace_by(taken[0], &spec, device, kind).unwrap();
        (0..20).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        assert!(!has(run.pool(), "dspare") && !has(run.pool(), "replacing"), "{kind:?}");
        assert!(is_settled(run.pool()), "{kind:?}");
        run.without(vec![5]);
        (0..20).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        let (bench, model) = run.finish();
        holds_without(bench, &model, &[5]);
    });
}

/// A leaf that is away while a spare is filled has, when it is back, what the spare was to get.
#[test]
fn a_leaf_is_away_while_a_spare_is_filled() {
    scenario(2250, |steps| {
        let mut run = run(steps, Shape::Draid2, 80);
        run.without(vec![0, 1]);
        (0..20).for_each(|_| run.step());
        let first = named(run.pool(), 0);
        let spare = spares(run.pool())[0];
        run.pool().take_spare(first, spare, None).unwrap();
        run.pool().wait_for_scan().unwrap();
        run.without(vec![0]);
        (0..20).for_each(|_| run.step());
        run.pool().wait_for_scan().unwrap();
        assert!(is_settled(run.pool()));
        let (bench, model) = run.finish();
        survives_without(bench, &model, &[0]);
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    scenario(2260, |steps| {
        let run = run(steps, Shape::Draid1, 5);
        let (leaf, spare) = (guid(run.pool(), 1), spares(run.pool())[0]);
        let refused = |done: engine::inside::pool::Result<()>| done.unwrap_err().to_string();
        assert!(
            refused(run.pool().take_spare(leaf, leaf, None)).contains("not a spare of this pool")
        );
        let removed = run.pool().remove_aux(spare, None);
        assert!(refused(removed).contains("part of its dRAID"));
        run.pool().take_spare(leaf, spare, None).unwrap();
        run.pool().wait_for_scan().unwrap();
        assert!(
            refused(run.pool().take_spare(leaf, spare, None)).contains("not a spare of this pool")
        );
        run.pool().detach(spare).unwrap();
    });
}
