//! Writers go on in the next txg while this one is synced.

use crate::disk::Disk;
use crate::ground::Ground;
use crate::{fresh, spec, sync, walk};
use dmu::{ErrorKind, Hold, NewObject, Object, Objset, Result, Transactions, Tx};
use ondisk::objset::ObjsetKind;
use ondisk::{BlkPtr, DmuType};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Transactions without a waiting thread.
pub(crate) struct NoWaiter;

impl Transactions for NoWaiter {
    fn begin(&self, _: u64, _: Hold) -> Result<Tx> {
        Err(dmu::Error { objset: 0, object: 0, kind: ErrorKind::ReadOnly })
    }

    fn wait_synced(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn dirtied(&self, _: u64, _: u64) {}

    fn ended(&self, _: u64) {}

    fn stop(&self, _: &str) {}
}

#[derive(Default)]
struct Dirty(AtomicU64);

impl Transactions for Dirty {
    fn begin(&self, objset: u64, hold: Hold) -> Result<Tx> {
        NoWaiter.begin(objset, hold)
    }

    fn wait_synced(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn dirtied(&self, _: u64, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn ended(&self, _: u64) {}

    fn stop(&self, _: &str) {}
}

const WRITERS: u64 = 3;
const BLOCKS: u64 = 40;
const BLOCK: u64 = 1024;

/// A set that threads work in, and what they have done.
struct Work {
    set: Objset,
    /// Held for reading by a transaction, for writing by the thread that opens the next txg.
    open: RwLock<u64>,
    new: NewObject,
    /// The shared file.
    shared: u64,
    stop: AtomicBool,
    /// Rounds of each writer.
    rounds: Mutex<Vec<u64>>,
}

fn begin(txg: u64) -> Tx {
    Tx::new(txg, Arc::new(NoWaiter) as _)
}

impl Work {
    fn new(set: Objset) -> Self {
        let new = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(BLOCK as u32);
        let shared = set.create(&begin(5), &new).unwrap().number();
        let rounds = Mutex::new(vec![0; WRITERS as usize]);
        Self { set, open: RwLock::new(5), new, shared, stop: AtomicBool::new(false), rounds }
    }

    fn write(&self, w: u64) {
        let mut own = None;
        let mut round = 0;
        while !self.stop.load(Ordering::Relaxed) {
            round += 1;
            let open = self.open.read();
            let tx = begin(*open);
            let object = self.set.object(self.shared).unwrap();
            for b in 0..BLOCKS {
                object.write_at(&tx, b * BLOCK + w * 8, &u64::to_be_bytes(round)).unwrap();
            }
            if let Some(n) = own.take() {
                self.set.free(&tx, n).unwrap();
            }
            let mine = self.set.create(&tx, &self.new).unwrap();
            mine.write_at(&tx, round % 9 * BLOCK, &[w as u8 + 1; 3000]).unwrap();
            own = Some(mine.number());
            self.rounds.lock()[w as usize] = round;
        }
    }

    /// Sees every counter only grow.
    fn read(&self) {
        let object = self.set.object(self.shared).unwrap();
        let mut seen = vec![0u64; (BLOCKS * WRITERS) as usize];
        while !self.stop.load(Ordering::Relaxed) {
            for b in 0..BLOCKS {
                for w in 0..WRITERS {
                    let now = counter(&object, b, w);
                    let seen = &mut seen[(b * WRITERS + w) as usize];
                    assert!(*seen <= now, "{seen} then {now}");
                    *seen = now;
                }
            }
            for o in self.set.objects() {
                let _ = o.unwrap().number();
            }
        }
    }

    /// Syncs txgs in which something was done; the root of the last one.
    fn sync_some(&self, disk: &Arc<Disk>) -> Option<BlkPtr> {
        let mut root = None;
        let mut before = 0;
        for _ in 0..60 {
            loop {
                let now: u64 = self.rounds.lock().iter().sum();
                if now > before + 1 {
                    before = now;
                    break;
                }
                std::thread::yield_now();
            }
            let txg = {
                let mut open = self.open.write();
                *open += 1;
                *open - 1
            };
            root = sync(disk, &self.set, txg, 2, false).or(root);
            self.set.synced(txg);
            if let Some(root) = &root {
                walk::check(disk, &fresh(disk, root));
            }
        }
        root
    }
}

/// What a writer has last written into its bytes of a block.
fn counter(object: &Object, block: u64, writer: u64) -> u64 {
    let mut now = [0; 8];
    object.read_at(block * BLOCK + writer * 8, &mut now).unwrap();
    u64::from_be_bytes(now)
}

/// Every writer has its own bytes of every block of one shared file, and a file of its own that it
/// makes and removes again and again.
#[test]
fn writers_and_readers_go_on_during_a_sync() {
    let disk = Arc::new(Disk::default());
    let dirty = Arc::new(Dirty::default());
    let mut spec = spec(&disk, None, ObjsetKind::Zfs);
    spec.transactions = Some(Arc::clone(&dirty) as _);
    let work = Work::new(Objset::live(spec).unwrap());
    let root = std::thread::scope(|scope| {
        for w in 0..WRITERS {
            let work = &work;
            scope.spawn(move || work.write(w));
        }
        scope.spawn(|| work.read());
        let root = work.sync_some(&disk);
        work.stop.store(true, Ordering::Relaxed);
        root
    });
    let txg = *work.open.read();
    let root = sync(&disk, &work.set, txg, 2, false).or(root).unwrap();
    work.set.synced(txg);
    let fresh = fresh(&disk, &root);
    walk::check(&disk, &fresh);
    let rounds = work.rounds.lock();
    let own = rounds.iter().filter(|r| **r > 0).count();
    assert_eq!(fresh.objects().count(), 1 + own);
    let object = fresh.object(work.shared).unwrap();
    for b in 0..BLOCKS {
        for (w, round) in (0..).zip(rounds.iter()) {
            assert_eq!(counter(&object, b, w), *round);
        }
    }
    assert!(dirty.0.load(Ordering::Relaxed) >= BLOCKS * BLOCK);
    assert!(disk.owned().len() < 400);
}
