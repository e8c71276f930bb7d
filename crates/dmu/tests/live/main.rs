//! Live object sets against a plain model: what was written is what a fresh reader finds.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says why by failing")]

#[path = "../../../zio/tests/common/mod.rs"]
mod bench;
mod disk;
mod ground;
mod model;
mod owners;
mod recount;
mod scratch;
mod slow;
mod stored;
mod threads;
mod traverse;
mod walk;

use device::AlignedBuf;
use disk::Disk;
use dmu::{LiveSpec, NewObject, Objset, SetPolicy, SyncContext, Transactions, Tx};
use ground::{Devices, Ground};
use ondisk::objset::{OBJSET_SIZE_V3, ObjsetKind};
use ondisk::{BlkPtr, DmuType};
use std::sync::Arc;

/// Tiny indirect blocks, so that trees are high.
fn spec(ground: &dyn Ground, root: Option<BlkPtr>, kind: ObjsetKind) -> LiveSpec {
    LiveSpec {
        store: ground.store(),
        id: 54,
        root,
        kind,
        header_size: OBJSET_SIZE_V3,
        transactions: None,
        policy: SetPolicy { indirect_shift: 10, ..SetPolicy::default() },
        accounting: (kind == ObjsetKind::Zfs)
            .then(|| Arc::new(owners::FirstByte { projects: true }) as _),
        key: dmu::SetKey::None,
    }
}

fn open(ground: &dyn Ground, root: Option<BlkPtr>, kind: ObjsetKind) -> Objset {
    Objset::live(spec(ground, root, kind)).unwrap()
}

fn sync(ground: &dyn Ground, set: &Objset, txg: u64, workers: usize, hold: bool) -> Option<BlkPtr> {
    ground.start(txg);
    set.freeze(txg);
    let (writer, owner) = (ground.writer(), ground.owner());
    set.sync(&SyncContext { workers, writer, owner, txg, hold }).unwrap()
}

fn fresh(ground: &dyn Ground, root: &BlkPtr) -> Objset {
    Objset::open(ground.store(), 54, root, None).unwrap()
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

/// Txgs of a random run, at most.
const TXGS_MAX: usize = 80;

#[test]
fn a_set_is_what_the_model_says() {
    for workers in [1, 2, 3] {
        testkit::shrinking(3, TXGS_MAX, |steps| {
            model::run(&Arc::new(Disk::default()), steps, ObjsetKind::Zfs, workers, 1);
        });
    }
}

#[test]
fn passes_of_the_same_txg_build_on_each_other() {
    testkit::shrinking(3, TXGS_MAX, |steps| {
        model::run(&Arc::new(Disk::default()), steps, ObjsetKind::Meta, 1, 3);
    });
}

#[test]
fn a_set_on_devices_is_what_the_model_says() {
    testkit::shrinking(2, TXGS_MAX, |steps| {
        model::run(&Devices::new(), steps, ObjsetKind::Zfs, 2, 1);
    });
    testkit::shrinking(2, TXGS_MAX, |steps| {
        model::run(&Devices::new(), steps, ObjsetKind::Meta, 1, 3);
    });
}

#[test]
fn blocks_of_every_size() {
    let ground = Devices::new();
    let mut spec = spec(&ground, None, ObjsetKind::Zfs);
    spec.policy = SetPolicy::default();
    let set = Objset::live(spec).unwrap();
    let tx = Tx::syncing(9);
    let content = |size: u32, blkid: u64| bench::random(u64::from(size) + blkid, size as usize);
    let sizes = || (9..=24).map(|s| 1u32 << s);
    for size in sizes() {
        let new = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(size);
        let object = set.create(&tx, &new).unwrap();
        for blkid in [0, 5] {
            let bytes = AlignedBuf::copy_of(&content(size, blkid));
            object.write_block(&tx, blkid, bytes).unwrap();
        }
        let half = size as usize / 2;
        object.write_at(&tx, u64::from(size) / 2, &vec![0; half]).unwrap();
    }
    drop(tx);
    let root = sync(&ground, &set, 9, 2, false).unwrap();
    ground.finish();
    let fresh = fresh(&ground, &root);
    walk::check(&ground, &fresh);
    for (size, object) in sizes().zip(fresh.objects()) {
        let object = object.unwrap();
        let half = size as usize / 2;
        let first = object.read_block(0).unwrap().unwrap();
        assert!(first[..half] == content(size, 0)[..half]);
        assert!(first[half..].iter().all(|b| *b == 0));
        assert!(object.read_block(5).unwrap().unwrap()[..] == content(size, 5)[..]);
        assert!(object.read_block(4).unwrap().is_none());
    }
}

#[test]
fn what_users_write_into_objects_is_counted_once() {
    let ground = Devices::new();
    let store = ground.cached();
    let spec = spec(&ground, None, ObjsetKind::Zfs);
    let set = Objset::live(LiveSpec { store: Arc::clone(&store) as _, ..spec }).unwrap();
    let tx = Tx::syncing(5);
    let new = |kind| set.create(&tx, &NewObject::new(kind).block_size(4096)).unwrap();
    let file = new(DmuType::PLAIN_FILE_CONTENTS);
    // Whole blocks and parts of blocks of one call are one operation.
    file.write_at(&tx, 1000, &[1; 10_000]).unwrap();
    file.write_block(&tx, 7, AlignedBuf::zeroed(4096)).unwrap();
    file.write_shared(&tx, 8, &bench::random(1, 4096)).unwrap();
    assert!(file.write_at(&tx, u64::MAX - 3, b"far").is_err());
    // What calls within an operation is part of it.
    let within = || set.usage().writing(50, || file.write_at(&tx, 0, &[2; 50]));
    within().unwrap();
    new(DmuType::DIRECTORY_CONTENTS).write_at(&tx, 0, b"a table").unwrap();
    let [counts] = &store.used().snapshot()[..] else { panic!("one set") };
    let written = 10_000 + 2 * 4096 + 50;
    assert_eq!((counts.written.bytes, counts.written.ops), (written, 5));
    assert_eq!((counts.read.bytes, counts.read.ops), (0, 0));
}

#[test]
fn what_cannot_be_changed_is_refused() {
    let disk = Arc::new(Disk::default());
    let set = open(&disk, None, ObjsetKind::Zfs);
    let tx = Tx::syncing(5);
    let new = NewObject::new(DmuType::PLAIN_FILE_CONTENTS);
    let object = set.create(&tx, &new.clone().number(40)).unwrap();
    let refused = |what: dmu::Result<()>| {
        let e = what.expect_err("refused");
        assert!(matches!(e.kind, dmu::ErrorKind::Invalid(_)), "{e}");
    };
    assert!(set.create(&tx, &new.clone().number(40)).is_err());
    refused(set.create(&tx, &new.clone().block_size(700)).map(drop));
    refused(set.create(&tx, &new.clone().bonus(DmuType::SA, &[1; 400])).map(drop));
    refused(set.create(&tx, &new.clone().number(0)).map(drop));
    refused(object.write_at(&tx, u64::MAX - 3, b"far"));
    refused(object.write_block(&tx, 0, AlignedBuf::zeroed(513)));
    refused(object.set_bonus(&tx, DmuType::SA, &[1; 200]));
    refused(object.set_spill(&tx, Some(&[])));
    // Three pointers and a spill pointer have no room in one slot.
    refused(object.set_spill(&tx, Some(&[1])));
    refused(object.set_bonus(&tx, DmuType::SA, &[1; 64]).and(object.set_spill(&tx, Some(&[1]))));
    object.write_at(&tx, 512, b"second").unwrap();
    refused(object.set_block_size(&tx, 1024));
    set.freeze(7);
    let late = Tx::new(7, Arc::new(threads::NoWaiter) as Arc<dyn Transactions>);
    refused(object.write_at(&late, 0, b"late"));
    let root = sync(&disk, &set, 5, 1, false).unwrap();
    let read_only = fresh(&disk, &root).object(40).unwrap();
    let e = read_only.write_at(&tx, 0, b"no").expect_err("refused");
    assert!(matches!(e.kind, dmu::ErrorKind::ReadOnly), "{e}");
}
