//! Walks over a set: all blocks once, in order, from where they stopped, past what is lost.

use crate::disk::Disk;
use crate::ground::Ground as _;
use crate::{fresh, open, sync};
use dmu::{Error, NewObject, Objset, Place, Step, Traversal, Tx, Visitor};
use ondisk::objset::ObjsetKind;
use ondisk::{BlkPtr, DmuType};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a walk told.
#[derive(Default)]
struct Visited {
    entered: Vec<(Place, BlkPtr)>,
    left: Vec<(Place, BlkPtr)>,
    lost: Vec<Place>,
    /// Blocks of level 0 that may still be left before the walk stops.
    budget: Option<usize>,
    stopped_at: Option<(u64, u64)>,
}

impl Visitor for Visited {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        self.entered.push((place, *bp));
        Step::Descend
    }

    fn leave(&mut self, bp: &BlkPtr, place: Place) -> ControlFlow<()> {
        if place.level == 0 && self.budget == Some(0) {
            self.stopped_at = Some((place.object, place.blkid));
            return ControlFlow::Break(());
        }
        self.budget = self.budget.map(|n| n.saturating_sub(1));
        self.left.push((place, *bp));
        ControlFlow::Continue(())
    }

    fn lost(&mut self, place: Place, _: Error) {
        self.lost.push(place);
    }
}

fn addresses(seen: &[(Place, BlkPtr)]) -> BTreeSet<[u64; 2]> {
    seen.iter().filter(|(_, bp)| !bp.is_hole()).map(|(_, bp)| bp.dva(0).words()).collect()
}

/// Files of many sizes with holes and spill blocks, written in txgs 5 and 6; the root after each.
fn filled(disk: &Arc<Disk>) -> [BlkPtr; 2] {
    let set = open(disk, None, ObjsetKind::Zfs);
    let mut roots = Vec::new();
    for txg in [5, 6] {
        let tx = Tx::syncing(txg);
        for n in 0..40u64 {
            let spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(512);
            let object = set.create(&tx, &spec.bonus(DmuType::SA, b"attributes")).unwrap();
            for block in (0..n).filter(|b| b % 3 != 1) {
                object.write_at(&tx, block * n * 512, b"data").unwrap();
            }
            if n % 5 == 0 {
                object.set_spill(&tx, Some(&[7; 600])).unwrap();
            }
        }
        drop(tx);
        roots.push(sync(disk, &set, txg, 1, false).unwrap());
        set.synced(txg);
    }
    roots.try_into().unwrap()
}

fn walk(set: &Objset, since: u64) -> Visited {
    let mut seen = Visited::default();
    assert!(set.traverse(since, &mut seen).is_continue());
    seen
}

/// Where a block of level 0 stands: blocks of dnodes where their first object does.
fn rank(set: &Objset, place: Place) -> (u64, u64) {
    let slots = set.meta_object().unwrap().dnode().block_size() / 512;
    match place.object {
        0 => (place.blkid * slots, 0),
        n => (n, place.blkid),
    }
}

#[test]
fn every_block_is_visited_once_and_in_order() {
    let disk = Arc::new(Disk::default());
    let [_, root] = filled(&disk);
    let set = fresh(&disk, &root);
    let seen = walk(&set, 0);
    let owned: BTreeSet<[u64; 2]> = disk.owned().into_keys().collect();
    assert_eq!(addresses(&seen.entered), owned);
    assert_eq!(addresses(&seen.left), owned);
    assert_eq!(seen.left.len(), owned.len(), "nothing twice");
    assert!(seen.lost.is_empty());
    let order: Vec<_> = seen.entered.iter().filter(|(p, _)| p.level == 0).collect();
    assert!(order.len() > 500, "{}", order.len());
    assert!(order.is_sorted_by_key(|(place, _)| rank(&set, *place)));
    // A block is left after everything below it, so the header is the last.
    assert_eq!(seen.left.last().unwrap().0.level, Place::LEVEL_OBJSET);
    assert!(order.iter().any(|(place, _)| place.blkid == Place::BLKID_SPILL));
}

#[test]
fn what_is_older_is_left_out() {
    let disk = Arc::new(Disk::default());
    let [_, root] = filled(&disk);
    let set = fresh(&disk, &root);
    let all = walk(&set, 0);
    let young = walk(&set, 5);
    let expected: Vec<_> =
        all.entered.iter().filter(|(_, bp)| bp.logical_birth() > 5).copied().collect();
    assert_eq!(young.entered, expected);
    assert!(young.entered.len() < all.entered.len());
    assert!(walk(&set, 6).entered.is_empty());
}

#[test]
fn a_walk_goes_on_where_it_stopped() {
    let disk = Arc::new(Disk::default());
    let [_, root] = filled(&disk);
    let set = fresh(&disk, &root);
    let whole = walk(&set, 0);
    for budget in [0, 1, 2, 7, 100, 1000, 100_000] {
        let mut left = Vec::new();
        let mut resume = None;
        for round in 0.. {
            // What one round could not do is done by the next, however small the budget.
            let budget = Some(budget.max(usize::from(round > 0)));
            let mut seen = Visited { budget, ..Visited::default() };
            let store = &**set.store();
            let from = Traversal { store, key: None, objset: 54, since: 0, resume };
            let end = from.objset(&root, &mut seen);
            left.append(&mut seen.left);
            resume = seen.stopped_at;
            assert_eq!(end.is_break(), resume.is_some());
            if resume.is_none() {
                break;
            }
        }
        assert_eq!(left, whole.left, "budget {budget}");
    }
}

#[test]
fn what_is_lost_is_told_and_the_rest_visited() {
    let disk = Arc::new(Disk::default());
    let [_, root] = filled(&disk);
    let set = fresh(&disk, &root);
    let whole = walk(&set, 0);
    let inner = whole.entered.iter().filter(|(p, bp)| p.level > 0 && !bp.is_hole());
    for (place, bp) in inner.step_by(7) {
        disk.lose(bp);
        let seen = walk(&set, 0);
        assert_eq!(seen.lost, [*place]);
        let (all, rest) = (addresses(&whole.left), addresses(&seen.left));
        assert!(rest.is_subset(&all) && !rest.contains(&bp.dva(0).words()));
        // Nothing but what is below it is missing.
        let missing = whole.left.iter().filter(|(_, b)| !rest.contains(&b.dva(0).words()));
        let is_below = |p: &Place| place.object == 0 || p.object == place.object;
        assert!(missing.clone().all(|(p, _)| is_below(p)), "{place}");
        disk.find(bp);
    }
}

#[test]
fn what_stands_in_two_places_is_visited_in_one() {
    let disk = Arc::new(Disk::default());
    let [_, root] = filled(&disk);
    let set = fresh(&disk, &root);
    let high = set.objects().map(|o| o.unwrap()).find(|o| o.dnode().levels > 1).unwrap();
    let mut dnode = high.dnode().clone();
    dnode.blkptrs = vec![dnode.blkptrs[0]; 3];
    let (store, number) = (&**set.store(), high.number());
    let whole = Traversal { store, key: None, objset: 54, since: 0, resume: None };
    let mut seen = Visited::default();
    assert!(whole.object(number, &dnode, &mut seen).is_continue());
    let level = (dnode.levels - 1).cast_signed();
    let lost: Vec<_> = seen.lost.iter().map(|p| (p.level, p.blkid)).collect();
    assert_eq!(lost, [(level, 1), (level, 2)]);
    assert_eq!(addresses(&seen.left).len(), seen.left.len(), "nothing twice");
}
