//! Sets that are changed to be looked at, and thrown away.

use super::{fresh, open, sync};
use crate::disk::Disk;
use dmu::{BlockWriter, ErrorKind, Hold, NewObject, Objset, ScratchSpec, SyncContext, Tx};
use ondisk::objset::ObjsetKind;
use ondisk::{BlkPtr, DmuType};
use std::sync::Arc;

const SIZE: usize = 4096;
const SPEC: ScratchSpec = ScratchSpec { txg: 6, memory_max: 1 << 20 };

/// A set of one file of ten blocks.
fn ten_blocks(disk: &Arc<Disk>) -> BlkPtr {
    let set = open(disk, None, ObjsetKind::Zfs);
    let tx = Tx::syncing(5);
    let spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(SIZE as u32);
    let object = set.create(&tx, &spec).unwrap();
    object.write_at(&tx, 0, &[1; 10 * SIZE]).unwrap();
    drop(tx);
    sync(disk, &set, 5, 1, false).unwrap()
}

fn stored(set: &Objset, number: u64) -> Vec<u64> {
    let object = set.object(number).unwrap();
    let mut out = Vec::new();
    while let Some(b) = object.next_block(out.last().map_or(0, |b| b + 1)).unwrap() {
        out.push(b);
    }
    out
}

#[test]
fn a_scratch_set_shows_its_changes_and_writes_nothing() {
    let disk = Arc::new(Disk::default());
    let root = ten_blocks(&disk);
    let (below, owned) = (fresh(&disk, &root), disk.owned());
    let set = below.scratch(SPEC).unwrap();
    assert!(set.is_scratch() && set.is_live());
    let tx = set.begin(Hold::write(0)).unwrap();
    let file = set.object(1).unwrap();
    file.write_at(&tx, SIZE as u64, &[2; SIZE]).unwrap();
    file.write_at(&tx, 2 * SIZE as u64, &[0; SIZE]).unwrap();
    file.free_range(&tx, 8 * SIZE as u64, u64::MAX).unwrap();
    let new = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(SIZE as u32).number(900);
    set.create(&tx, &new).unwrap().write_at(&tx, 0, &[3; SIZE]).unwrap();
    drop(tx);
    set.settle(true).unwrap();
    assert_eq!(stored(&set, 1), [0, 1, 3, 4, 5, 6, 7]);
    assert_eq!(stored(&below, 1), (0..10).collect::<Vec<_>>());
    let used = |set: &Objset, n| set.object(n).unwrap().dnode().used_bytes();
    assert_eq!(used(&below, 1) - used(&set, 1), 3 * SIZE as u64);
    assert_eq!(used(&set, 900), SIZE as u64);
    assert_eq!(set.objects().map(|o| o.unwrap().number()).collect::<Vec<_>>(), [1, 900]);
    assert!(below.object(900).is_err());
    assert_eq!(disk.owned(), owned);
    // It can be changed no more, and never synced.
    let tx = set.begin(Hold::write(0)).unwrap();
    assert!(file.write_at(&tx, 0, b"late").is_err());
    drop(tx);
    let writer: &dyn BlockWriter = &*disk;
    let cx = SyncContext { workers: 1, writer, owner: &*disk, txg: SPEC.txg, hold: false };
    assert!(matches!(set.sync(&cx).unwrap_err().kind, ErrorKind::ReadOnly));
}

#[test]
fn what_a_scratch_set_holds_is_capped() {
    let disk = Arc::new(Disk::default());
    let set = fresh(&disk, &ten_blocks(&disk)).scratch(SPEC).unwrap();
    let file = set.object(1).unwrap();
    let hold = Hold::write(SIZE as u64);
    let write = |block: u64| {
        let tx = set.begin(hold)?;
        file.write_at(&tx, block * SIZE as u64, &[9; SIZE])
    };
    let most = (1 << 20) / SIZE as u64;
    (0..most).for_each(|n| write(n).unwrap());
    assert!(matches!(write(most).unwrap_err().kind, ErrorKind::Memory));
    // What is written again takes no more, and what is freed is given back.
    let tx = set.begin(Hold::free()).unwrap();
    file.write_at(&tx, 0, &[8; 100 * SIZE]).unwrap();
    file.free_range(&tx, 0, 100 * SIZE as u64).unwrap();
    drop(tx);
    (0..100).for_each(|n| write(n).unwrap());
    assert!(write(most).is_err());
}
