//! Reads of a look at a pool, which do not wait long for a device that hangs.
//!
//! `zpool status` is asked when something is wrong, and must not wait for what is wrong. What it
//! reads is nearly always in the cache. Else a thread reads it, and is left alone when that takes
//! long: the block counts as out of reach then, and so does each later one of the same look that is
//! not in the cache, without a wait. Nothing else in the pool waits for such a look either, which
//! holds its gate meanwhile.
//!
//! For what a pool *is*, not for what is in its files: there a slow disk is waited for.

use dmu::{BlockStore, CachedStore, Key, SetUse};
use ondisk::BlkPtr;
use parking_lot::Mutex;
use rt::Rt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vdev::{Fault, FaultKind};
use zio::{Block, Place};

/// How long one look waits for devices that hang, or take long to fail. A disk that was spun down
/// may take longer: then its report has less in it, once.
const PATIENCE: Duration = Duration::from_secs(4);

/// See the head of the file.
pub(super) struct HastyStore {
    store: Arc<CachedStore>,
    has_given_up: Arc<AtomicBool>,
    /// How long reads of this look were waited for in vain.
    in_vain: Mutex<Duration>,
}

impl HastyStore {
    /// `has_given_up` is set when the look waits no more.
    pub(super) fn new(store: &Arc<CachedStore>, has_given_up: &Arc<AtomicBool>) -> Self {
        let in_vain = Mutex::default();
        Self { store: Arc::clone(store), has_given_up: Arc::clone(has_given_up), in_vain }
    }

    fn hastily(
        &self,
        (bp, place): (&BlkPtr, Place),
        read: impl FnOnce(&CachedStore, &BlkPtr) -> zio::Result<Arc<Block>> + Send + 'static,
    ) -> zio::Result<Arc<Block>> {
        if self.has_given_up.load(Ordering::Acquire) {
            return Err(out_of_reach(bp, place));
        }
        let rt = self.store.rt();
        let answer = Arc::new((Mutex::new(None), rt.condvar()));
        let (own, store, wanted) = (Arc::clone(&answer), Arc::clone(&self.store), *bp);
        let body = Arc::new(Mutex::new(Some(read)));
        let of_thread = Arc::clone(&body);
        let reader = rt.spawn("look", move || {
            let Some(read) = of_thread.lock().take() else { return };
            let result = read(&store, &wanted);
            *own.0.lock() = Some(result);
            own.1.notify_one();
        });
        if reader.is_err() {
            // The system gives us no thread: then it may hang the caller.
            let read = body.lock().take();
            return read.map_or_else(|| Err(out_of_reach(bp, place)), |read| read(&self.store, bp));
        }
        let began = rt.now();
        let until = began + PATIENCE.saturating_sub(*self.in_vain.lock());
        let mut result = answer.0.lock();
        while result.is_none() && rt.now() < until {
            answer.1.wait_until(&mut result, until);
        }
        let result = result.take();
        if !matches!(result, Some(Ok(_))) {
            let mut in_vain = self.in_vain.lock();
            *in_vain += rt.now().saturating_sub(began);
            self.has_given_up.fetch_or(*in_vain >= PATIENCE, Ordering::AcqRel);
        }
        result.unwrap_or_else(|| Err(out_of_reach(bp, place)))
    }
}

/// The error of a block whose devices do not answer in time.
fn out_of_reach(bp: &BlkPtr, place: Place) -> zio::Error {
    let dva = bp.dvas().next().map(|(_, dva)| dva);
    let fault = Fault {
        vdev: dva.map_or(0, |dva| dva.vdev()),
        guid: 0,
        path: Arc::from("its device"),
        offset: dva.map_or(0, |dva| dva.offset()),
        len: 0,
        kind: FaultKind::Missing,
        repaired: false,
    };
    let kind = zio::ErrorKind::Unreadable;
    zio::Error { place, copies: String::new(), kind, faults: vec![fault] }
}

impl BlockStore for HastyStore {
    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>> {
        if self.store.is_at_hand(bp, key) {
            return self.store.read(bp, place, key);
        }
        let key = key.cloned();
        self.hastily((bp, place), move |store, bp| store.read(bp, place, key.as_ref()))
    }

    fn read_clear(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        if self.store.is_at_hand(bp, None) {
            return self.store.read_clear(bp, place);
        }
        self.hastily((bp, place), move |store, bp| store.read_clear(bp, place))
    }

    fn read_sealed(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        self.hastily((bp, place), move |store, bp| store.read_sealed(bp, place))
    }

    fn rt(&self) -> Rt {
        self.store.rt()
    }

    fn usage(&self, set: u64) -> Arc<SetUse> {
        self.store.usage(set)
    }
}
