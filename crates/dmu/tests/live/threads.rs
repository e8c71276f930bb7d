//! Writers go on in the next txg while this one is synced.

use crate::disk::Disk;
use crate::ground::Ground;
use crate::{fresh, spec, sync, walk};
use dmu::{ErrorKind, Hold, NewObject, Objset, Result, Transactions, Tx};
use ondisk::DmuType;
use ondisk::objset::ObjsetKind;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Transactions that nobody waits for.
pub(crate) struct Nobody;

impl Transactions for Nobody {
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
        Nobody.begin(objset, hold)
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

/// Every writer has its own bytes of every block of one shared file, and a file of its own that it
/// makes and removes again and again.
#[test]
fn writers_and_readers_go_on_during_a_sync() {
    let disk = Arc::new(Disk::default());
    let dirty = Arc::new(Dirty::default());
    let mut spec = spec(&disk, None, ObjsetKind::Zfs);
    spec.transactions = Some(Arc::clone(&dirty) as _);
    let set = Objset::live(spec).unwrap();
    // Held for reading by a transaction, for writing by the thread that opens the next txg.
    let open = RwLock::new(5u64);
    let begin = |txg: &u64| Tx::new(*txg, Arc::new(Nobody) as _);
    let new = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(BLOCK as u32);
    let shared = set.create(&begin(&open.read()), &new).unwrap().number();
    let stop = AtomicBool::new(false);
    let rounds = Mutex::new(vec![0u64; WRITERS as usize]);
    let mut root = None;
    std::thread::scope(|scope| {
        for w in 0..WRITERS {
            let (set, open, stop, rounds, new) = (&set, &open, &stop, &rounds, &new);
            scope.spawn(move || {
                let mut own = None;
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    let door = open.read();
                    let tx = begin(&door);
                    let object = set.object(shared).unwrap();
                    for b in 0..BLOCKS {
                        object.write_at(&tx, b * BLOCK + w * 8, &u64::to_be_bytes(round)).unwrap();
                    }
                    if let Some(n) = own.take() {
                        set.free(&tx, n).unwrap();
                    }
                    let mine = set.create(&tx, new).unwrap();
                    mine.write_at(&tx, round % 9 * BLOCK, &[w as u8 + 1; 3000]).unwrap();
                    own = Some(mine.number());
                    rounds.lock()[w as usize] = round;
                }
            });
        }
        // A reader sees every counter only grow.
        let (set_, stop_) = (&set, &stop);
        scope.spawn(move || {
            let object = set_.object(shared).unwrap();
            let mut seen = vec![0u64; (BLOCKS * WRITERS) as usize];
            while !stop_.load(Ordering::Relaxed) {
                for b in 0..BLOCKS {
                    for w in 0..WRITERS {
                        let mut now = [0; 8];
                        object.read_at(b * BLOCK + w * 8, &mut now).unwrap();
                        let now = u64::from_be_bytes(now);
                        let seen = &mut seen[(b * WRITERS + w) as usize];
                        assert!(*seen <= now, "{seen} then {now}");
                        *seen = now;
                    }
                }
                for o in set_.objects() {
                    let _ = o.unwrap().number();
                }
            }
        });
        let mut before = 0;
        for _ in 0..60 {
            loop {
                let now: u64 = rounds.lock().iter().sum();
                if now > before + 1 {
                    before = now;
                    break;
                }
                std::thread::yield_now();
            }
            let txg = {
                let mut open = open.write();
                *open += 1;
                *open - 1
            };
            root = sync(&disk, &set, txg, 2, false).or(root);
            set.synced(txg);
            if let Some(root) = &root {
                walk::check(&disk, &fresh(&disk, root));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let txg = *open.read();
    let root = sync(&disk, &set, txg, 2, false).or(root).unwrap();
    set.synced(txg);
    let fresh = fresh(&disk, &root);
    walk::check(&disk, &fresh);
    let own = rounds.lock().iter().filter(|r| **r > 0).count();
    assert_eq!(fresh.objects().count(), 1 + own);
    let object = fresh.object(shared).unwrap();
    for b in 0..BLOCKS {
        for (w, round) in (0..).zip(rounds.lock().iter()) {
            let mut now = [0; 8];
            object.read_at(b * BLOCK + w * 8, &mut now).unwrap();
            assert_eq!(u64::from_be_bytes(now), *round);
        }
    }
    assert!(dirty.0.load(Ordering::Relaxed) >= BLOCKS * BLOCK);
    assert!(disk.owned().len() < 400);
}
