//! A reader that is slower than txgs: when it comes to a block, that was freed, and perhaps written
//! anew.

use crate::disk::Disk;
use crate::{spec, sync};
use dmu::{Block, BlockStore, Key, NewObject, Objset, Tx};
use ondisk::objset::ObjsetKind;
use ondisk::{BlkPtr, Checksum, DmuType, Endian};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use zio::Place;

const SIZE: usize = 4096;

/// What happens before a read of a block of level 0 goes to the disk; one is taken for each.
type Before = Box<dyn FnOnce() + Send>;

struct Slow {
    disk: Arc<Disk>,
    before: Mutex<Vec<Before>>,
    /// What happens before a read goes on: its own reads are quick.
    is_busy: AtomicBool,
    /// A block without a checksum that is not there any more is read as this byte.
    stale: Option<u8>,
}

impl BlockStore for Slow {
    fn rt(&self) -> rt::Rt {
        rt::Rt::current()
    }

    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>> {
        let of_files =
            bp.dmu_type() == DmuType::PLAIN_FILE_CONTENTS || bp.dmu_type() == DmuType::SA;
        let is_slow = of_files && !self.is_busy.load(Ordering::Relaxed);
        let next = if is_slow { self.before.lock().pop() } else { None };
        if let Some(before) = next {
            self.is_busy.store(true, Ordering::Relaxed);
            before();
            self.is_busy.store(false, Ordering::Relaxed);
        }
        self.disk.read(bp, place, key).or_else(|e| {
            let byte = self.stale.filter(|_| bp.checksum_kind() == Checksum::OFF).ok_or(e)?;
            let mut data = device::AlignedBuf::zeroed(bp.lsize() as usize);
            data.fill(byte);
            Ok(Arc::new(Block::new(data, Endian::Little)))
        })
    }
}

struct Bench {
    disk: Arc<Disk>,
    store: Arc<Slow>,
    set: Objset,
}

impl Bench {
    fn new(checksum: Checksum, stale: Option<u8>) -> Arc<Self> {
        let disk = Arc::new(Disk::default());
        let (before, is_busy) = (Mutex::default(), AtomicBool::new(false));
        let store = Arc::new(Slow { disk: Arc::clone(&disk), before, is_busy, stale });
        let mut spec = spec(&disk, None, ObjsetKind::Zfs);
        spec.store = Arc::clone(&store) as _;
        spec.policy.checksum = checksum;
        let set = Objset::live(spec).unwrap();
        let bench = Arc::new(Self { disk, store, set });
        bench.txg(5, |tx| {
            let new = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(SIZE as u32);
            bench.set.create(tx, &new.bonus(DmuType::SA, &[1; 100])).unwrap();
        });
        bench
    }

    fn txg(&self, txg: u64, change: impl FnOnce(&Tx)) {
        self.disk.start(txg);
        change(&Tx::syncing(txg));
        sync(&self.disk, &self.set, txg, 1, false).unwrap();
        self.set.synced(txg);
    }

    /// Every block and the spill block are written anew; three txgs, so that what was is gone.
    fn replace(&self, first: u64) {
        for txg in first..first + 3 {
            self.txg(txg, |tx| {
                let object = self.set.object(1).unwrap();
                object.write_at(tx, 0, &[txg as u8; 2 * SIZE]).unwrap();
                object.set_spill(tx, Some(&[txg as u8; 700])).unwrap();
            });
        }
    }

    /// The next reads are that slow, the last of them first.
    fn be_slow(self: &Arc<Self>, firsts: &[u64]) {
        let slow = |first: &u64| {
            let (bench, first): (Weak<Self>, u64) = (Arc::downgrade(self), *first);
            Box::new(move || bench.upgrade().unwrap().replace(first)) as Before
        };
        *self.store.before.lock() = firsts.iter().map(slow).collect();
    }
}

#[test]
fn a_block_that_was_freed_meanwhile_is_looked_for_again() {
    let bench = Bench::new(Checksum::FLETCHER_4, None);
    bench.replace(6);
    let object = bench.set.object(1).unwrap();
    // Twice in a row: the second reading is as slow as the first.
    bench.be_slow(&[12, 9]);
    assert_eq!(object.read_block(0).unwrap().unwrap()[0], 14);
    bench.be_slow(&[18, 15]);
    let mut out = [0; 2 * SIZE];
    object.read_at(0, &mut out).unwrap();
    assert_eq!((out[0], out[SIZE]), (20, 20));
}

#[test]
fn a_spill_block_that_was_freed_meanwhile_is_looked_for_again() {
    let bench = Bench::new(Checksum::FLETCHER_4, None);
    bench.replace(6);
    let object = bench.set.object(1).unwrap();
    bench.be_slow(&[12, 9]);
    assert_eq!(object.read_spill().unwrap().unwrap()[0], 14);
}

#[test]
fn a_block_without_a_checksum_is_not_believed_when_the_tree_was_replaced() {
    let bench = Bench::new(Checksum::OFF, Some(0xee));
    bench.replace(6);
    let object = bench.set.object(1).unwrap();
    bench.be_slow(&[9]);
    assert_eq!(object.read_block(0).unwrap().unwrap()[0], 11);
    bench.be_slow(&[12]);
    let mut out = [0; 2 * SIZE];
    object.read_at(0, &mut out).unwrap();
    assert_eq!((out[0], out[SIZE]), (14, 14));
}
