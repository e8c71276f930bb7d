//! Live object sets against a plain model: what was written is what a fresh reader finds.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says why by failing")]

mod disk;
mod model;
mod walk;

use disk::Disk;
use dmu::{LiveSpec, NewObject, Objset, SetPolicy, SyncContext, Tx};
use ondisk::objset::{OBJSET_SIZE_V3, ObjsetKind};
use ondisk::{BlkPtr, DmuType};
use std::sync::Arc;

pub(crate) fn open(disk: &Arc<Disk>, root: Option<BlkPtr>, kind: ObjsetKind) -> Objset {
    let policy = SetPolicy { indirect_shift: 10, ..SetPolicy::default() };
    Objset::live(LiveSpec {
        store: Arc::clone(disk) as _,
        id: 54,
        root,
        kind,
        header_size: OBJSET_SIZE_V3,
        transactions: None,
        policy,
        accounting: None,
        key: None,
    })
    .unwrap()
}

pub(crate) fn sync(
    disk: &Disk,
    set: &Objset,
    txg: u64,
    workers: usize,
    hold: bool,
) -> Option<BlkPtr> {
    *disk.txg.lock() = txg;
    set.freeze(txg);
    let cx = SyncContext { workers, writer: disk, owner: disk, txg, hold };
    set.sync(&cx).unwrap()
}

fn fresh(disk: &Arc<Disk>, root: &BlkPtr) -> Objset {
    Objset::open(Arc::clone(disk) as _, 54, root, None).unwrap()
}

#[test]
fn an_object_comes_back() {
    let disk = Arc::new(Disk::default());
    let set = open(&disk, None, ObjsetKind::Zfs);
    let tx = Tx::syncing(5);
    let spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(4096);
    let object = set.create(&tx, &spec.bonus(DmuType::SA, b"attributes")).unwrap();
    assert_eq!(object.number(), 1);
    object.write_at(&tx, 5000, b"hello").unwrap();
    let mut read = [0; 5];
    object.read_at(5000, &mut read).unwrap();
    assert_eq!(&read, b"hello");
    drop(tx);
    assert!(set.is_dirty(5));
    let root = sync(&disk, &set, 5, 1, false).unwrap();
    assert!(!set.is_dirty(5));
    assert!(set.root().is_hole(), "not durable yet");
    set.synced(5);
    assert_eq!(set.root(), root);
    assert_eq!(root.fill(), 1);
    for set in [&set, &fresh(&disk, &root)] {
        let object = set.object(1).unwrap();
        assert_eq!(object.dnode().bonus, b"attributes");
        let mut read = [1; 8];
        object.read_at(4998, &mut read).unwrap();
        assert_eq!(&read, b"\0\0hello\0");
        assert_eq!(object.next_block(0).unwrap(), Some(1));
        assert_eq!(set.objects().count(), 1);
    }
    walk::check(&disk, &fresh(&disk, &root));
    assert!(sync(&disk, &set, 6, 1, false).is_none());
}

#[test]
fn a_set_is_what_the_model_says() {
    for seed in 0..6 {
        model::run(seed, ObjsetKind::Zfs, 1 + seed as usize % 3, 1);
    }
}

#[test]
fn passes_of_the_same_txg_build_on_each_other() {
    for seed in 10..14 {
        model::run(seed, ObjsetKind::Meta, 1, 3);
    }
}
