//! Leaves that spares stand in for: which these are, and that they come back, whatever has become
//! of the others meanwhile.

use super::thresholds::scrub_until;
use super::*;
use engine::pools::DeviceNames;
use std::path::Path;

/// The same as [`super::run`], over devices that are copied by a crash.
fn crashable(steps: &RandomSteps) -> Run {
    let bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12);
    let mut run = Run::new(steps.seed(), bench).following(steps);
    (run.weight_max, run.offset_max) = (1 << 20, 8 << 20);
    (0..40).for_each(|_| run.step());
    run
}

fn add_spare(run: &mut Run) {
    let spare = run.bench.extra();
    let (spec, devices) = (run.bench.leaf(spare), run.bench.source());
    run.pool().add_aux(&[spec], &[], &devices).unwrap();
}

/// A mirror of which nothing is used but the spare that came for the first of its sides: they are
/// marked as failed, one after the other. Both sides.
fn left_to_the_spare(steps: &RandomSteps, how: OfflineMode) -> (Run, [u64; 2]) {
    let mut run = crashable(steps);
    add_spare(&mut run);
    let sides = [0, 1].map(|n| guid(run.pool(), n));
    run.pool().offline_leaf(sides[0], how).unwrap();
    (0..20).for_each(|_| run.step());
    assert_eq!(run.pool().take_spares(&run.bench.source()).unwrap().len(), 1);
    run.pool().wait_for_scan().unwrap();
    run.pool().offline_leaf(sides[1], how).unwrap();
    (0..20).for_each(|_| run.step());
    (run, sides)
}

/// All leaves are used, and have all; the spare is free.
fn are_back(mut run: Run) {
    run.pool().wait_for_scan().unwrap();
    let left = run.pool().leaves_away();
    assert!(left.is_empty() && is_whole(run.pool()), "{left:?} are away");
    assert!(!has(run.pool(), "spare"));
    assert_eq!(run.pool().spares_left().unwrap().len(), 1);
    assert_eq!(run.pool().view().vdevs().root().state(), VdevState::Online);
    (0..20).for_each(|_| run.step());
    let (bench, model) = run.finish();
    holds_on_each(bench, &model);
}

/// None of the devices that are left has seen the leaf: nothing but its log tells when it left.
#[test]
fn a_leaf_comes_back_beside_a_spare_that_came_when_it_had_left() {
    scenario(2400, |steps| {
        let (mut run, _) = left_to_the_spare(steps, OfflineMode::FaultedForNow);
        run.without(Vec::new());
        are_back(run);
    });
}

/// What the administrator said of a leaf holds for the next import, of an exported pool too, until
/// it is cleared.
#[test]
fn leaves_that_were_marked_as_failed_are_so_until_they_are_cleared() {
    scenarios([(2410, false), (2411, true)], |steps, is_killed| {
        let (mut run, sides) = left_to_the_spare(steps, OfflineMode::Faulted);
        match is_killed {
            true => run.crash(|_, _| Ok(())),
            false => run.without(Vec::new()),
        }
        let tree = run.pool().view().vdevs();
        for side in tree.leaves().filter(|leaf| sides.contains(&leaf.guid())) {
            assert_eq!((side.state(), side.reason()), (VdevState::Faulted, Reason::External));
        }
        drop(tree);
        (0..20).for_each(|_| run.step());
        let source = run.bench.source();
        let names = DeviceNames { path_of: &|name| Path::new(name).to_owned(), source: &source };
        names.clear(run.pool(), None).unwrap();
        are_back(run);
    });
}

/// As with OpenZFS the pool is not opened for writing then, and it is said what stands in the way.
#[test]
fn a_pool_that_needs_a_leaf_that_was_marked_as_failed_says_so() {
    scenario(2420, |steps| {
        let run = run(steps, Shape::Raidz1, 20);
        run.pool().offline_leaf(guid(run.pool(), 0), OfflineMode::Faulted).unwrap();
        let (mut bench, model) = run.finish();
        bench.away = vec![1];
        let refused = bench.try_import().err().unwrap().to_string();
        // Whether what the others have is enough to read what they say of it is up to the layout.
        assert!(refused.contains("out of use: ") && refused.contains("mem0"), "{refused}");
        bench.away.clear();
        holds(&bench, &model);
    });
}

/// A leaf that is used in spite of too many wrong blocks gets a spare beside it, which is given
/// back when its errors are forgotten. As in OpenZFS no import forgets them.
#[test]
fn a_spare_stands_in_for_a_leaf_with_too_many_wrong_blocks() {
    scenarios([(2430, false), (2431, true)], |steps, is_exported| {
        let mut run = run(steps, Shape::Mirror, 60);
        add_spare(&mut run);
        let leaf = guid(run.pool(), 1);
        assert!(run.pool().leaves_without_spare().is_empty());
        scrub_until(run.pool(), &run.bench, 1, Fault::flip(5 << 20..u64::MAX, 1), 12);
        assert_eq!(state(run.pool(), 1), VdevState::Degraded);
        assert_eq!(run.pool().leaves_without_spare(), [leaf]);
        assert_eq!(run.pool().take_spares(&run.bench.source()).unwrap().len(), 1);
        run.pool().wait_for_scan().unwrap();
        (0..20).for_each(|_| run.step());
        if is_exported {
            run.without(Vec::new());
            run.pool().wait_for_scan().unwrap();
            let tree = run.pool().view().vdevs();
            let node = tree.leaves().nth(1).unwrap();
            assert_eq!(
                (node.guid(), node.state(), node.reason()),
                (leaf, VdevState::Degraded, Reason::TooManyErrors)
            );
            assert!(node.writer().is_some(), "it is used");
        }
        assert!(run.pool().leaves_without_spare().is_empty());
        assert!(has(run.pool(), "spare") && is_whole(run.pool()), "it stays until it is cleared");
        run.pool().forget_errors(None).unwrap();
        assert_eq!(state(run.pool(), 1), VdevState::Online);
        are_back(run);
    });
}

/// What an export keeps of a leaf in doubt is what OpenZFS keeps, in the labels as well, and it is
/// gone when the errors are forgotten. That a leaf failed is forgotten by the import.
#[test]
fn a_leaf_that_failed_after_it_was_in_doubt_is_tried_again_by_an_import() {
    scenario(2440, |steps| {
        let mut run = run(steps, Shape::Mirror, 60);
        scrub_until(run.pool(), &run.bench, 1, Fault::flip(5 << 20..u64::MAX, 1), 12);
        assert_eq!(state(run.pool(), 1), VdevState::Degraded);
        let marks = |run: &Run| {
            let seen = run.pool().look().unwrap();
            let leaf = leaf(&seen, 1);
            (leaf.degraded, leaf.faulted, leaf.aux_state.clone())
        };
        assert_eq!(marks(&run), (true, false, Some("err_exceeded".to_owned())));
        run.bench.faults[1].add(Fault::fail_flushes(EIO));
        (0..20).for_each(|_| run.step());
        run.pool().sync().unwrap();
        assert_eq!(state(run.pool(), 1), VdevState::Faulted);
        assert_eq!(marks(&run), (false, true, Some("err_exceeded".to_owned())));
        run.bench.faults[1].clear();
        run.without(Vec::new());
        run.pool().wait_for_scan().unwrap();
        assert_eq!((state(run.pool(), 1), marks(&run)), (VdevState::Online, (false, false, None)));
        let (bench, model) = run.finish();
        holds_on_each(bench, &model);
    });
}

/// The label of a spare that was not used when it was given back says that it is a leaf. It stands
/// in again all the same, and an import gives it the label of a spare.
#[test]
fn a_spare_that_was_given_back_while_it_was_away_stands_in_again() {
    scenarios([(2450, false), (2451, true)], |steps, is_imported| {
        let mut run = crashable(steps);
        add_spare(&mut run);
        let leaf = guid(run.pool(), 0);
        let take = |run: &mut Run| {
            run.pool().offline_leaf(leaf, OfflineMode::FaultedForNow).unwrap();
            (0..10).for_each(|_| run.step());
            let taken = run.pool().take_spares(&run.bench.source()).unwrap();
            run.pool().wait_for_scan().unwrap();
            taken.first().expect("a spare").spare
        };
        let spare = take(&mut run);
        run.pool().offline_leaf(spare, OfflineMode::OfflineForNow).unwrap();
        run.pool().detach(spare).unwrap();
        (0..10).for_each(|_| run.step());
        if is_imported {
            run.without(Vec::new());
            run.pool().wait_for_scan().unwrap();
        }
        assert_eq!(take(&mut run), spare);
        assert!(has(run.pool(), "spare"));
        let source = run.bench.source();
        let names = DeviceNames { path_of: &|name| Path::new(name).to_owned(), source: &source };
        names.clear(run.pool(), None).unwrap();
        are_back(run);
    });
}
