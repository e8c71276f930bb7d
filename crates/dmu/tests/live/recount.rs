//! Sets whose accounting is not complete, and are counted anew while they are changed.

use crate::disk::Disk;
use crate::ground::Ground;
use crate::model::{Model, change, compare};
use crate::owners::{self, FirstByte};
use crate::{fresh, open, spec, sync, walk};
use dmu::{NewObject, Objset, Tx};
use ondisk::objset::{
    FLAG_PROJECTQUOTA_COMPLETE, FLAG_USERACCOUNTING_COMPLETE, OBJSET_SIZE_V2, OBJSET_SIZE_V3,
    ObjsetKind,
};
use ondisk::{BlkPtr, DmuType};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Rng;

const FILES: ObjsetKind = ObjsetKind::Zfs;

fn is_complete(set: &Objset) -> bool {
    set.phys().flags & FLAG_USERACCOUNTING_COMPLETE != 0
}

/// The set, whose changes are not counted.
fn open_uncounted(ground: &dyn Ground, root: Option<BlkPtr>) -> Objset {
    Objset::live(dmu::LiveSpec { accounting: None, ..spec(ground, root, FILES) }).unwrap()
}

/// Syncs a txg that counts this number of blocks of dnodes.
fn count(ground: &dyn Ground, set: &Objset, txg: u64, blocks: usize) -> Option<BlkPtr> {
    set.freeze(txg);
    set.recount_in(txg, blocks);
    let root = sync(ground, set, txg, 1, false);
    ground.finish();
    set.synced(txg);
    root
}

/// Makes two txgs of changes for each step, of which the second is open while the first is synced.
fn run(ground: &dyn Ground, steps: &[u64]) {
    let mut set = open_uncounted(ground, None);
    let mut models: BTreeMap<u64, Model> = BTreeMap::new();
    let (mut txg, mut ended) = (5, 0);
    for step in steps {
        let mut rng = Rng::new(*step);
        for _ in 0..rng.below(10) {
            change(&mut rng, &set, &Tx::syncing(txg), &mut models);
        }
        set.freeze(txg);
        for _ in 0..rng.below(10) {
            change(&mut rng, &set, &Tx::syncing(txg + 1), &mut models);
        }
        let was_begun = set.is_recounting();
        for txg in [txg, txg + 1] {
            let blocks = rng.below(8) as usize;
            if let Some(root) = count(ground, &set, txg, blocks) {
                let fresh = fresh(ground, &root);
                walk::check(ground, &fresh);
                owners::check(&fresh);
            }
            compare(&set, &models);
        }
        let is_ended = was_begun && !set.is_recounting();
        assert!(!is_ended || is_complete(&set));
        ended += u32::from(is_ended);
        txg += 2;
        // Another way to change it, or the same one from the start.
        let root = Some(set.root()).filter(|root| !root.is_hole());
        match rng.below(16) {
            0 => set = open_uncounted(ground, root),
            1 => set = open(ground, root, FILES),
            2 | 3 => {
                set = open(ground, root, FILES);
                set.begin_recount();
            }
            _ => {}
        }
    }
    assert!(ended > 0 || steps.len() < 60, "none was ended");
    let root = Some(set.root()).filter(|root| !root.is_hole());
    let set = open(ground, root, FILES);
    set.begin_recount();
    while set.is_recounting() {
        count(ground, &set, txg, 3);
        txg += 1;
    }
    assert!(is_complete(&set));
    owners::check(&set);
    let fresh = fresh(ground, &set.root());
    compare(&fresh, &models);
    owners::check(&fresh);
}

#[test]
fn a_set_that_is_counted_anew_while_it_changes_is_right_in_the_end() {
    testkit::shrinking(12, 80, |steps| run(&Arc::new(Disk::default()), steps));
}

/// A set with this many objects.
fn filled(ground: &dyn Ground, set: &Objset, txg: u64, objects: u8) {
    let tx = Tx::syncing(txg);
    for n in 0..objects {
        let new = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).bonus(DmuType::SA, &[n, 1, 2]);
        let object = set.create(&tx, &new).unwrap();
        object.write_at(&tx, 0, &[n + 1; 700]).unwrap();
    }
    drop(tx);
    sync(ground, set, txg, 1, false).unwrap();
    ground.finish();
    set.synced(txg);
}

#[test]
fn nothing_is_written_where_dnodes_have_their_flags() {
    let disk = Arc::new(Disk::default());
    let set = open(&disk, None, FILES);
    filled(&disk, &set, 5, 100);
    // What is changed without being counted makes all of it doubtful.
    let set = open_uncounted(&disk, Some(set.root()));
    set.object(50).unwrap().write_at(&Tx::syncing(6), 0, &[0; 700]).unwrap();
    count(&disk, &set, 6, 0).unwrap();
    assert!(!is_complete(&set));
    let set = open(&disk, Some(set.root()), FILES);
    set.begin_recount();
    for txg in 7..10 {
        assert_eq!(count(&disk, &set, txg, 1), None, "the dnodes of txg {txg}");
        assert!(set.is_recounting());
    }
    let meta = set.phys().meta_dnode.clone();
    let root = count(&disk, &set, 10, 1).expect("the tables are written");
    assert!(!set.is_recounting() && is_complete(&set));
    assert_eq!(set.phys().meta_dnode, meta);
    owners::check(&fresh(&disk, &root));
    set.begin_recount();
    assert!(!set.is_recounting(), "all is counted");
}

#[test]
fn what_cannot_be_read_ends_it() {
    let disk = Arc::new(Disk::default());
    let set = open_uncounted(&disk, None);
    filled(&disk, &set, 5, 100);
    let lost = set.meta_object().unwrap().block_pointer(0, 2).unwrap().unwrap();
    let set = open(&disk, Some(set.root()), FILES);
    disk.lose(&lost);
    set.begin_recount();
    count(&disk, &set, 6, 2).unwrap();
    assert!(set.is_recounting());
    count(&disk, &set, 7, 2);
    assert!(!set.is_recounting() && !is_complete(&set));
    set.begin_recount();
    assert!(!set.is_recounting(), "it is not tried again and again");
    // What is not lost can be changed as ever.
    set.object(1).unwrap().write_at(&Tx::syncing(8), 0, &[9; 700]).unwrap();
    count(&disk, &set, 8, 2).unwrap();
    disk.find(&lost);
    let set = open(&disk, Some(set.root()), FILES);
    set.begin_recount();
    let root = count(&disk, &set, 9, 100).unwrap();
    owners::check(&fresh(&disk, &root));
    assert!(is_complete(&set));
}

#[test]
fn a_table_of_projects_comes_later() {
    let disk = Arc::new(Disk::default());
    let without = |root| {
        let accounting = Some(Arc::new(FirstByte { projects: false }) as _);
        let spec = spec(&disk, root, FILES);
        Objset::live(dmu::LiveSpec { accounting, header_size: OBJSET_SIZE_V2, ..spec }).unwrap()
    };
    let set = without(None);
    filled(&disk, &set, 5, 100);
    assert_eq!((set.phys().size, is_complete(&set)), (OBJSET_SIZE_V2, true));
    assert_eq!(set.phys().flags & FLAG_PROJECTQUOTA_COMPLETE, 0);
    let set = open(&disk, Some(set.root()), FILES);
    set.begin_recount();
    assert!(set.is_recounting());
    set.object(90).unwrap().write_at(&Tx::syncing(6), 700, &[9; 700]).unwrap();
    let root = count(&disk, &set, 6, 2).unwrap();
    // Those of users and groups are right all the time.
    assert!(is_complete(&fresh(&disk, &root)));
    set.free(&Tx::syncing(7), 3).unwrap();
    let root = count(&disk, &set, 7, 2).unwrap();
    assert_eq!(set.phys().size, OBJSET_SIZE_V3);
    owners::check(&fresh(&disk, &root));
    walk::check(&disk, &fresh(&disk, &root));
}
