//! Object sets. Their objects are found in `objects.rs`.

use crate::error::{Error, ErrorKind, Result};
use crate::locks::{ObjectLock, ObjectLocks};
use crate::places::Places;
use crate::store::{BlockStore, Key};
use crate::traverse::{Traversal, Visitor};
use crate::tx::Transactions;
use crate::usage::SetUse;
use crate::versions::set::LiveSet;
use ondisk::{BlkPtr, Dnode, ObjsetPhys};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use zio::Place;

/// A set of objects: as it is on disk, or a live one, whose changes are read through it.
#[derive(Clone)]
pub struct Objset {
    pub(crate) inner: Arc<Inner>,
    /// Transactions of this handle, where they are others than those of the set.
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
}

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) id: u64,
    pub(crate) key: Option<Key>,
    pub(crate) locks: Arc<ObjectLocks>,
    /// Set: what follows is that of the time of opening, and the truth is there.
    pub(crate) live: Option<Arc<LiveSet>>,
    root: BlkPtr,
    phys: Arc<ObjsetPhys>,
    pub(crate) meta: Option<Arc<Dnode>>,
    /// The places of its indirect blocks.
    places: Arc<Places>,
    /// Found when it is first asked for.
    usage: OnceLock<Arc<SetUse>>,
}

impl Objset {
    /// Opens the object set whose header block `bp` points to. `id` is the dataset's object in
    /// the MOS, 0 for the MOS itself; it names the set in errors.
    pub fn open(
        store: Arc<dyn BlockStore>,
        id: u64,
        bp: &BlkPtr,
        key: Option<Key>,
    ) -> Result<Self> {
        let place = Place::objset(id);
        let block = store.read(bp, place, key.as_ref())?;
        let phys = ObjsetPhys::decode(&block, block.endian()).map_err(|error| Error {
            objset: id,
            object: 0,
            kind: ErrorKind::Format { place, error },
        })?;
        let meta = phys.meta_dnode.clone().map(Arc::new);
        let locks = Arc::new(ObjectLocks::new(&store.rt()));
        let inner = Inner {
            store,
            id,
            key,
            locks,
            live: None,
            root: *bp,
            phys: Arc::new(phys),
            meta,
            places: Arc::default(),
            usage: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner), transactions: None })
    }

    pub(crate) fn of_live(
        store: Arc<dyn BlockStore>,
        id: u64,
        key: Option<Key>,
        live: Arc<LiveSet>,
    ) -> Self {
        let base = live.base();
        let locks = Arc::new(ObjectLocks::new(&store.rt()));
        let inner = Inner {
            store,
            id,
            key,
            locks,
            root: base.root,
            phys: Arc::clone(&base.phys),
            meta: None,
            places: Arc::default(),
            live: Some(live),
            usage: OnceLock::new(),
        };
        Self { inner: Arc::new(inner), transactions: None }
    }

    /// The same set for one that gives up: where its changes would have to wait for devices that
    /// fail, they are refused.
    #[must_use]
    pub fn unless_suspended(&self) -> Self {
        let set = self.inner.live.as_ref().and_then(|live| live.transactions());
        let transactions = set.and_then(|transactions| transactions.unless_suspended());
        Self { inner: Arc::clone(&self.inner), transactions }
    }

    /// The same live set with another way to its blocks: what is changed in one is changed in the
    /// other.
    #[must_use]
    pub fn through(&self, store: Arc<dyn BlockStore>) -> Self {
        let inner = Inner { store, ..Inner::clone(&self.inner) };
        Self { inner: Arc::new(inner), transactions: self.transactions.clone() }
    }

    /// Whether it can be changed.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.inner.live.is_some()
    }

    /// Whether it is a scratch set.
    #[must_use]
    pub fn is_scratch(&self) -> bool {
        self.inner.live.as_ref().is_some_and(|live| live.scratch)
    }

    /// Number of the dataset's object in the MOS; 0 for the MOS.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// The header; of a live set the last synced one.
    #[must_use]
    pub fn phys(&self) -> Arc<ObjsetPhys> {
        match &self.inner.live {
            Some(live) => Arc::clone(&live.base().phys),
            None => Arc::clone(&self.inner.phys),
        }
    }

    /// The pointer to the header; of a live set the last synced one.
    #[must_use]
    pub fn root(&self) -> BlkPtr {
        self.inner.live.as_ref().map_or(self.inner.root, |live| live.base().root)
    }

    /// Key of the dataset, when it is encrypted and unlocked.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.inner.key.as_ref()
    }

    /// Where the blocks come from.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn BlockStore> {
        &self.inner.store
    }

    /// The places of its indirect blocks, as far as they were read.
    pub(crate) fn places(&self) -> &Places {
        &self.inner.places
    }

    /// Walks over all its blocks born after txg `since`, in logical order; of a live set as it was
    /// synced last.
    pub fn traverse(&self, since: u64, visitor: &mut dyn Visitor) -> ControlFlow<()> {
        self.traversal(since).objset(&self.root(), visitor)
    }

    pub(crate) fn traversal(&self, since: u64) -> Traversal<'_> {
        Traversal {
            store: &**self.store(),
            key: self.key(),
            objset: self.id(),
            since,
            resume: None,
        }
    }

    /// Counts what users do with its contents.
    #[must_use]
    pub fn usage(&self) -> &SetUse {
        self.inner.usage.get_or_init(|| self.inner.store.usage(self.inner.id))
    }

    /// Numbers of the objects that memory knows more of than the tree on disk does.
    #[must_use]
    pub fn changed_objects(&self) -> Vec<u64> {
        self.inner.live.as_ref().map(|live| live.changed()).unwrap_or_default()
    }

    pub(crate) fn error(&self, object: u64, kind: ErrorKind) -> Error {
        Error { objset: self.inner.id, object, kind }
    }

    /// Waits until no other thread changes object `number` as a whole, and keeps others from it
    /// until the lock is dropped. The tables take it themselves, so it must not be held when one of
    /// their functions is called for the same object.
    #[must_use]
    pub fn lock(&self, number: u64) -> ObjectLock {
        self.inner.locks.lock(number)
    }
}
