//! Blocks that were written before the sync: their pointers go into the tree as they are.

use super::{fresh, open, sync};
use crate::disk::Disk;
use crate::walk;
use device::AlignedBuf;
use dmu::{Block, BlockWriter, NewObject, Object, SetPolicy, Tx};
use ondisk::objset::ObjsetKind;
use ondisk::{BlkPtr, DmuType, Endian};
use std::sync::Arc;
use zio::Place;

const SIZE: usize = 4096;

/// Writes a block of `byte` that no tree has yet, as a log does.
fn write(disk: &Disk, txg: u64, byte: u8) -> BlkPtr {
    let mut data = AlignedBuf::zeroed(SIZE);
    data.fill(byte);
    let block = Arc::new(Block::new(data, Endian::Little));
    let kind = DmuType::PLAIN_FILE_CONTENTS;
    let spec = SetPolicy::default().spec(kind, 0, None, SIZE as u64, txg);
    BlockWriter::write(disk, &block, &spec, Place::objset(54)).unwrap()
}

fn byte(object: &Object, offset: u64) -> u8 {
    let mut out = [0];
    object.read_at(offset, &mut out).unwrap();
    out[0]
}

#[test]
fn a_block_that_is_on_disk_is_put_into_the_tree() {
    let disk = Arc::new(Disk::default());
    let set = open(&disk, None, ObjsetKind::Zfs);
    disk.start(5);
    let (a, b) = (write(&disk, 5, b'a'), write(&disk, 5, b'b'));
    let tx = Tx::syncing(5);
    let spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(SIZE as u32);
    let object = set.create(&tx, &spec).unwrap();
    object.write_stored(&tx, 0, &a).unwrap();
    object.write_stored(&tx, 40, &b).unwrap();
    // Readers see them before the sync.
    assert_eq!((byte(&object, 7), byte(&object, 40 * SIZE as u64)), (b'a', b'b'));
    assert_eq!(object.next_block(1).unwrap(), Some(40));
    // What is written in part is read first.
    object.write_at(&tx, 40 * SIZE as u64, b"c").unwrap();
    drop(tx);
    let root = sync(&disk, &set, 5, 1, false).unwrap();
    set.synced(5);
    let read = fresh(&disk, &root).object(1).unwrap();
    assert_eq!(read.block_pointer(0, 0).unwrap(), Some(a));
    assert_ne!(read.block_pointer(0, 40).unwrap(), Some(b));
    let at = 40 * SIZE as u64;
    assert_eq!((byte(&read, 0), byte(&read, at), byte(&read, at + 1)), (b'a', b'c', b'b'));
    walk::check(&disk, &fresh(&disk, &root));
}

#[test]
fn a_stored_block_is_given_up_like_any_other() {
    let disk = Arc::new(Disk::default());
    let set = open(&disk, None, ObjsetKind::Zfs);
    disk.start(5);
    let tx = Tx::syncing(5);
    let spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(SIZE as u32);
    let object = set.create(&tx, &spec).unwrap();
    let stored = write(&disk, 5, b'a');
    object.write_stored(&tx, 3, &stored).unwrap();
    drop(tx);
    sync(&disk, &set, 5, 1, false).unwrap();
    set.synced(5);
    assert!(disk.owned().contains_key(&stored.dva(0).words()));
    let used = set.object(1).unwrap().dnode().used_bytes();
    assert!(used >= stored.asize());
    disk.start(6);
    let tx = Tx::syncing(6);
    object.free_range(&tx, 0, u64::MAX).unwrap();
    assert_eq!(byte(&object, 3 * SIZE as u64), 0);
    drop(tx);
    let root = sync(&disk, &set, 6, 1, false).unwrap();
    set.synced(6);
    assert!(!disk.owned().contains_key(&stored.dva(0).words()));
    walk::check(&disk, &fresh(&disk, &root));
}

#[test]
fn only_a_data_block_of_the_right_size_can_be_stored() {
    let disk = Arc::new(Disk::default());
    let set = open(&disk, None, ObjsetKind::Zfs);
    disk.start(5);
    let tx = Tx::syncing(5);
    let spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(512);
    let object = set.create(&tx, &spec).unwrap();
    assert!(object.write_stored(&tx, 0, &write(&disk, 5, b'a')).is_err());
    assert!(object.write_stored(&tx, 0, &BlkPtr::HOLE).is_err());
}
