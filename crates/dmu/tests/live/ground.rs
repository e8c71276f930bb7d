//! What a set stands on in these tests: a map that checks everything, or devices in memory.

use crate::bench::{Bench, Books, Shape};
use crate::disk::Disk;
use dmu::{BlockOwner, BlockStore, BlockWriter, CachedStore};
use ondisk::BlkPtr;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use zio::Writer;

/// Pointers by their first address.
pub(crate) type Owned = HashMap<[u64; 2], BlkPtr>;

pub(crate) trait Ground: Send + Sync {
    fn store(&self) -> Arc<dyn BlockStore>;
    fn writer(&self) -> &dyn BlockWriter;
    fn owner(&self) -> &dyn BlockOwner;
    /// `txg` begins to be synced.
    fn start(&self, txg: u64);
    /// Everything is on the devices.
    fn finish(&self);
    /// What the owner holds, embedded blocks aside.
    fn owned(&self) -> Owned;
    /// Writes that took over the space of an earlier one of the same txg.
    fn reused(&self) -> u64;
}

impl Ground for Arc<Disk> {
    fn store(&self) -> Arc<dyn BlockStore> {
        Arc::clone(self) as _
    }

    fn writer(&self) -> &dyn BlockWriter {
        &**self
    }

    fn owner(&self) -> &dyn BlockOwner {
        &**self
    }

    fn start(&self, txg: u64) {
        Disk::start(self, txg);
    }

    fn finish(&self) {}

    fn owned(&self) -> Owned {
        Disk::owned(self)
    }

    fn reused(&self) -> u64 {
        Disk::reused(self)
    }
}

#[derive(Default)]
struct Ledger {
    txg: u64,
    owned: Owned,
    embedded: i64,
}

/// The whole way down: writer, allocator, vdevs.
pub(crate) struct Devices {
    writer: Writer,
    books: Arc<Books>,
    ledger: Mutex<Ledger>,
}

impl Devices {
    pub(crate) fn new() -> Self {
        let bench = Bench::new(&[Shape("mirror", 2, 0), Shape("raidz", 3, 1)], 9);
        let (writer, books) = bench.writer(32 << 20);
        Self { writer, books, ledger: Mutex::default() }
    }

    /// A store with an empty cache, that has counted nothing.
    pub(crate) fn cached(&self) -> Arc<CachedStore> {
        let store = CachedStore::new(Arc::clone(self.writer.reader()), 8 << 20, None);
        // A place can be written again with the same birth, and what is durable is not said here.
        store.set_settled(0);
        Arc::new(store)
    }
}

impl Ground for Devices {
    /// A new one each time, so that nothing comes from a cache.
    fn store(&self) -> Arc<dyn BlockStore> {
        self.cached()
    }

    fn writer(&self) -> &dyn BlockWriter {
        &self.writer
    }

    fn owner(&self) -> &dyn BlockOwner {
        self
    }

    fn start(&self, txg: u64) {
        self.ledger.lock().txg = txg;
    }

    fn finish(&self) {
        self.writer.release();
        self.writer.wait().expect("memory does not fail");
        let ledger = self.ledger.lock();
        assert!(ledger.embedded >= 0);
        let copies: usize = ledger.owned.values().map(|bp| bp.dvas().count()).sum();
        assert_eq!(self.books.live(), copies, "the allocator and the owner agree");
    }

    fn owned(&self) -> Owned {
        self.ledger.lock().owned.clone()
    }

    fn reused(&self) -> u64 {
        self.writer.stats().reused
    }
}

impl BlockOwner for Devices {
    fn born(&self, bp: &BlkPtr) {
        let mut ledger = self.ledger.lock();
        assert_eq!(bp.logical_birth(), ledger.txg);
        if bp.is_embedded() {
            ledger.embedded += 1;
            return;
        }
        let before = ledger.owned.insert(bp.dva(0).words(), *bp);
        assert!(before.is_none(), "born twice: {bp:?}");
    }

    fn kill(&self, bp: &BlkPtr) {
        let txg = {
            let mut ledger = self.ledger.lock();
            if bp.is_embedded() {
                ledger.embedded -= 1;
                return;
            }
            let held = ledger.owned.remove(&bp.dva(0).words());
            assert!(held.is_some(), "killed, but not held: {bp:?}");
            ledger.txg
        };
        self.writer.free(bp, txg);
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        bp.asize()
    }
}
