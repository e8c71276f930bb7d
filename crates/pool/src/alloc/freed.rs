//! Observers of freed blocks: a scan that has collected blocks and reads them later must not read
//! space that belongs to another block by then.

use super::Allocator;
use ondisk::BlkPtr;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Notified of frees, in the order in which they happen. It must be short.
pub(crate) trait FreeObserver: Send + Sync {
    /// A block is freed in `txg`. Its space is another's when two later txgs are durable, at the
    /// earliest.
    fn freed(&self, bp: &BlkPtr, txg: u64);

    /// `txg` is durable: no tree on disk leads to what it freed.
    fn durable(&self, txg: u64);
}

#[derive(Default)]
pub(super) struct FreeObservers {
    list: RwLock<Vec<Weak<dyn FreeObserver>>>,
    are_any: AtomicBool,
}

impl FreeObservers {
    pub(super) fn each(&self, notify: impl Fn(&dyn FreeObserver)) {
        if self.are_any.load(Ordering::Acquire) {
            self.list.read().iter().filter_map(Weak::upgrade).for_each(|one| notify(&*one));
        }
    }

    /// Those that are not there any more are forgotten.
    fn prune(&self) {
        if self.are_any.load(Ordering::Acquire) {
            let mut list = self.list.write();
            list.retain(|one| one.strong_count() > 0);
            self.are_any.store(!list.is_empty(), Ordering::Release);
        }
    }

    fn add(&self, one: Weak<dyn FreeObserver>) {
        let mut list = self.list.write();
        list.push(one);
        self.are_any.store(true, Ordering::Release);
    }

    pub(super) fn durable(&self, txg: u64) {
        self.each(|one| one.durable(txg));
        self.prune();
    }
}

impl Allocator {
    /// Notifies an observer of all frees from now on, as long as it exists. Frees that the syncing
    /// txg has made already are not reported.
    pub(crate) fn observe_frees<T: FreeObserver + 'static>(&self, observer: &Arc<T>) {
        let observer: Arc<dyn FreeObserver> = Arc::clone(observer) as _;
        self.freed.add(Arc::downgrade(&observer));
    }
}
