//! A live set's knowledge of its objects, and of what was changed in which txg.

use super::counts::Recounting;
use super::policy::SetPolicy;
use super::slots::Slots;
use super::spec::{Accounting, SetKey};
use super::state::LiveObject;
use crate::error::{Error, ErrorKind, Result};
use crate::faults::Faults;
use crate::tx::{Transactions, Tx};
use ondisk::blkptr::CryptParams;
use ondisk::dnode::DNODE_SLOT_SIZE;
use ondisk::objset::ZilHeader;
use ondisk::{BlkPtr, Dnode, ObjsetPhys};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Size of a block of dnodes. No implementation has ever made another.
pub(crate) const DNODE_BLOCK_SIZE: u64 = 16 << 10;
/// Slots of a block of dnodes.
pub(crate) const SLOTS_PER_BLOCK: u64 = DNODE_BLOCK_SIZE / DNODE_SLOT_SIZE as u64;
/// Objects that are in the header, not in the array of dnodes: -1, -2 and -3.
pub(crate) const FIRST_SPECIAL: u64 = u64::MAX - 2;
/// No object of a data set has this number or a higher one.
pub(crate) const OBJECTS_MAX: u64 = 1 << 48;

const SHARDS: usize = 16;
type Shard = Mutex<HashMap<u64, Weak<LiveObject>>>;

/// A tree as it is on disk.
pub(crate) struct Base {
    pub(crate) root: BlkPtr,
    pub(crate) phys: Arc<ObjsetPhys>,
}

/// The changes that wait for the sync of one txg.
#[derive(Default)]
pub(crate) struct Dirty {
    pub(crate) objects: HashMap<u64, Arc<LiveObject>>,
    /// New header of the intent log.
    pub(crate) zil: Option<ZilHeader>,
    /// Blocks of dnodes that a recount is to count.
    pub(crate) recount: usize,
}

/// The results of the passes of the syncing txg so far.
#[derive(Default)]
pub(crate) struct Pass {
    pub(crate) base: Option<Arc<Base>>,
    pub(crate) objects: HashMap<u64, Arc<LiveObject>>,
}

/// The changing half of an [`Objset`].
pub(crate) struct LiveSet {
    pub(crate) id: u64,
    pub(crate) policy: RwLock<Arc<SetPolicy>>,
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
    pub(crate) accounting: Option<Arc<dyn Accounting>>,
    pub(crate) key: SetKey,
    /// It is thrown away and never synced (`scratch.rs`).
    pub(crate) scratch: bool,
    base: RwLock<Arc<Base>>,
    meta: Arc<LiveObject>,
    shards: Vec<Shard>,
    pub(crate) dirty: Mutex<BTreeMap<u64, Dirty>>,
    pub(crate) pass: Mutex<Pass>,
    pub(crate) slots: Mutex<Slots>,
    pub(crate) frozen: AtomicU64,
    pub(crate) leaked: Mutex<Vec<Error>>,
    /// Changes that were made in syncing context, where they are few.
    pub(crate) changes: AtomicU64,
    pub(crate) faults: OnceLock<Arc<Faults>>,
    /// Blocks of dnodes that are written without their previous contents.
    pub(crate) renewed: Mutex<BTreeSet<u64>>,
    /// To be added to the space that the dnode of the dnodes says.
    pub(crate) meta_used: AtomicI64,
    /// How blocks of dnodes are encrypted, of a set that is received sealed.
    pub(crate) dnode_seals: Mutex<BTreeMap<u64, (CryptParams, [u8; 16])>>,
    pub(crate) recounting: Recounting,
}

impl LiveSet {
    /// Where transactions come from; none for the MOS.
    pub(crate) fn transactions(&self) -> Option<&Arc<dyn Transactions>> {
        self.transactions.as_ref()
    }

    /// A set without changes whose newest tree is `base`, which has this meta dnode.
    pub(crate) fn over(id: u64, base: Base, meta: Dnode, policy: SetPolicy) -> Self {
        Self {
            id,
            policy: RwLock::new(Arc::new(policy)),
            transactions: None,
            accounting: None,
            key: SetKey::None,
            scratch: false,
            base: RwLock::new(Arc::new(base)),
            meta: Arc::new(LiveObject::new(0, Some(Arc::new(meta)))),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            dirty: Mutex::default(),
            pass: Mutex::default(),
            slots: Mutex::default(),
            frozen: AtomicU64::new(0),
            leaked: Mutex::default(),
            changes: AtomicU64::new(0),
            faults: OnceLock::new(),
            renewed: Mutex::default(),
            meta_used: AtomicI64::new(0),
            dnode_seals: Mutex::default(),
            recounting: Recounting::default(),
        }
    }

    pub(crate) fn base(&self) -> Arc<Base> {
        Arc::clone(&self.base.read())
    }

    /// The tree of an earlier pass of the txg that is being synced, or the last durable one.
    pub(crate) fn newest(&self) -> Arc<Base> {
        let of_pass = self.pass.lock().base.clone();
        of_pass.unwrap_or_else(|| self.base())
    }

    pub(crate) fn meta(&self) -> &Arc<LiveObject> {
        &self.meta
    }

    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self.key, SetKey::Sealed(_))
    }

    pub(crate) fn policy(&self) -> Arc<SetPolicy> {
        Arc::clone(&self.policy.read())
    }

    fn shard(&self, number: u64) -> &Shard {
        &self.shards[(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % SHARDS]
    }

    /// The object, when it is open or changed.
    pub(crate) fn known(&self, number: u64) -> Option<Arc<LiveObject>> {
        self.shard(number).lock().get(&number).and_then(Weak::upgrade)
    }

    /// Numbers of the objects with changes that are not durable.
    pub(crate) fn changed(&self) -> Vec<u64> {
        let mut out = Vec::new();
        for shard in &self.shards {
            // Dropped outside the lock: the last holder of an object may be this list.
            let all: Vec<_> = shard.lock().values().filter_map(Weak::upgrade).collect();
            let special = |o: &&Arc<LiveObject>| o.number() < FIRST_SPECIAL;
            out.extend(
                all.iter().filter(special).filter(|o| o.lock().is_changed()).map(|o| o.number()),
            );
        }
        out
    }

    /// The one value that represents the object. `synced` is its dnode in the tree of `base`;
    /// `None` when that tree is no longer the newest.
    pub(crate) fn adopt(
        &self,
        number: u64,
        base: &Arc<Base>,
        synced: Option<Arc<Dnode>>,
    ) -> Option<Arc<LiveObject>> {
        let mut shard = self.shard(number).lock();
        if let Some(known) = shard.get(&number).and_then(Weak::upgrade) {
            return Some(known);
        }
        if !Arc::ptr_eq(base, &self.base.read()) {
            return None;
        }
        // Entries of objects that are not held are swept when they fill the map.
        if shard.len() == shard.capacity() {
            shard.retain(|_, w| w.strong_count() > 0);
        }
        let object = Arc::new(LiveObject::new(number, synced));
        shard.insert(number, Arc::downgrade(&object));
        Some(object)
    }

    /// Puts the object on the list of what must be synced in `txg`.
    pub(crate) fn touch(&self, object: &Arc<LiveObject>, txg: u64) {
        let mut dirty = self.dirty.lock();
        dirty.entry(txg).or_default().objects.insert(object.number(), Arc::clone(object));
        drop(dirty);
        if let Some(t) = &self.transactions {
            t.joined(txg);
        }
    }

    pub(crate) fn dirtied(&self, txg: u64, bytes: u64) {
        if let Some(t) = self.transactions.as_ref().filter(|_| bytes > 0) {
            t.dirtied(txg, bytes);
        }
    }

    /// Dirty bytes were given up.
    pub(crate) fn dropped(&self, txg: u64, bytes: u64) {
        if let Some(t) = self.transactions.as_ref().filter(|_| bytes > 0) {
            t.dropped(txg, bytes);
        }
    }

    /// Something is changed by `tx`.
    pub(crate) fn count_change(&self, tx: &Tx) {
        if tx.is_syncing() {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets an access to `object` fail when a test asked for that.
    pub(crate) fn access(&self, object: u64) -> Result<()> {
        match self.faults.get().is_some_and(|f| f.fails()) {
            false => Ok(()),
            true => Err(Error { objset: self.id, object, kind: ErrorKind::Injected }),
        }
    }

    /// Whether a transaction may still change its txg.
    pub(crate) fn is_open(&self, tx: &Tx) -> bool {
        tx.is_syncing() || tx.txg() > self.frozen.load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, txg: u64) {
        let mut pass = std::mem::take(&mut *self.pass.lock());
        let Some(base) = pass.base.take() else { return };
        // A thread that opens an object compares the base before and after: the meta dnode changes
        // first.
        {
            let mut meta = self.meta.lock();
            meta.synced = base.phys.meta_dnode.clone().map(Arc::new);
        }
        *self.base.write() = base;
        let mut freed = None;
        for object in pass.objects.values() {
            let mut state = object.lock();
            state.publish(txg);
            if state.synced.is_none() && object.number() < FIRST_SPECIAL {
                freed = [freed, Some(object.number())].into_iter().flatten().min();
            }
        }
        self.slots.lock().publish(txg, freed);
        drop(pass);
        self.sweep();
    }

    /// Forgets objects that are not held. Each still has a little memory, and after a load the
    /// little things lie on all the pages that the load has used: none could be given back.
    fn sweep(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.retain(|_, object| object.strong_count() > 0);
            if shard.len() < shard.capacity() / 4 {
                let room = 2 * shard.len();
                shard.shrink_to(room);
            }
        }
    }
}

/// The dnode in the header of an object numbered -1, -2 or -3.
pub(crate) fn special(phys: &ObjsetPhys, number: u64) -> &Option<Dnode> {
    match number.wrapping_neg() {
        1 => &phys.user_used,
        2 => &phys.group_used,
        _ => &phys.project_used,
    }
}
