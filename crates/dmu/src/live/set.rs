//! The set itself: what it knows of its objects, and what was changed in which txg.

use super::slots::Slots;
use super::state::LiveObject;
use super::{Accounting, LiveSpec, NewObject, SetPolicy};
use crate::error::{Error, ErrorKind, Result};
use crate::faults::Faults;
use crate::object::Object;
use crate::objset::Objset;
use crate::tx::{Hold, Transactions, Tx};
use ondisk::dnode::{DNODE_SLOT_SIZE, MAX_LEVELS};
use ondisk::objset::{
    FLAG_PROJECTQUOTA_COMPLETE, FLAG_USERACCOUNTING_COMPLETE, FLAG_USEROBJACCOUNTING_COMPLETE,
    OBJSET_SIZE_V1, OBJSET_SIZE_V3, ObjsetKind, ZilHeader,
};
use ondisk::{BlkPtr, DmuType, Dnode, Endian, ObjsetPhys};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Size of a block of dnodes. No implementation has ever made another.
pub(super) const DNODE_BLOCK_SIZE: u64 = 16 << 10;
/// Slots of a block of dnodes.
pub(super) const SLOTS_PER_BLOCK: u64 = DNODE_BLOCK_SIZE / DNODE_SLOT_SIZE as u64;
/// Objects that stand in the header, not in the array of dnodes: -1, -2 and -3.
pub(super) const FIRST_SPECIAL: u64 = u64::MAX - 2;
/// No object of a data set has this number or a higher one.
const OBJECTS_MAX: u64 = 1 << 48;

const SHARDS: usize = 16;
type Shard = Mutex<HashMap<u64, Weak<LiveObject>>>;

/// A tree as it stands on disk.
pub(crate) struct Base {
    pub(crate) root: BlkPtr,
    pub(crate) phys: Arc<ObjsetPhys>,
}

/// What waits for the sync of one txg.
#[derive(Default)]
pub(super) struct Dirty {
    pub(super) objects: HashMap<u64, Arc<LiveObject>>,
    /// New header of the intent log.
    pub(super) zil: Option<ZilHeader>,
}

/// What the passes of the txg being synced have made so far.
#[derive(Default)]
pub(super) struct Pass {
    pub(super) base: Option<Arc<Base>>,
    pub(super) objects: HashMap<u64, Arc<LiveObject>>,
}

/// The changing half of an [`Objset`].
pub(crate) struct LiveSet {
    pub(super) id: u64,
    policy: RwLock<Arc<SetPolicy>>,
    pub(super) transactions: Option<Arc<dyn Transactions>>,
    pub(super) accounting: Option<Arc<dyn Accounting>>,
    /// It is thrown away and never synced (`scratch.rs`).
    pub(super) scratch: bool,
    base: RwLock<Arc<Base>>,
    meta: Arc<LiveObject>,
    shards: Vec<Shard>,
    pub(super) dirty: Mutex<BTreeMap<u64, Dirty>>,
    pub(super) pass: Mutex<Pass>,
    slots: Mutex<Slots>,
    frozen: AtomicU64,
    pub(super) leaked: Mutex<Vec<Error>>,
    /// Changes that were made in syncing context, where they are few.
    changes: AtomicU64,
    faults: OnceLock<Arc<Faults>>,
}

pub(super) fn open(spec: LiveSpec) -> Result<Objset> {
    let refuse = |kind| Err(Error { objset: spec.id, object: 0, kind });
    let (root, mut phys) = match spec.root {
        Some(root) if !root.is_hole() => {
            if root.uses_crypt() {
                return refuse(ErrorKind::Unsupported("an encrypted dataset"));
            }
            let set = Objset::open(Arc::clone(&spec.store), spec.id, &root, spec.key.clone())?;
            (root, ObjsetPhys::clone(&set.phys()))
        }
        _ => (BlkPtr::HOLE, new_header(&spec)),
    };
    if spec.key.is_some() {
        return refuse(ErrorKind::Unsupported("an encrypted dataset"));
    }
    let meta = phys
        .meta_dnode
        .get_or_insert_with(|| new_meta(spec.kind, spec.policy.indirect_shift))
        .clone();
    if meta.endian != Endian::Little {
        return refuse(ErrorKind::Unsupported("an object set of the other byte order"));
    }
    if meta.block_size() != DNODE_BLOCK_SIZE {
        return refuse(ErrorKind::Unsupported("dnode blocks that are not of 16 KiB"));
    }
    let base = Base { root, phys: Arc::new(phys) };
    let live = LiveSet {
        transactions: spec.transactions,
        accounting: spec.accounting,
        ..LiveSet::over(spec.id, base, meta, spec.policy)
    };
    Ok(Objset::of_live(spec.store, spec.id, None, Arc::new(live)))
}

fn new_header(spec: &LiveSpec) -> ObjsetPhys {
    let mut phys = ObjsetPhys::new(spec.kind, spec.header_size);
    if let Some(a) = spec.accounting.as_ref().filter(|_| spec.header_size > OBJSET_SIZE_V1) {
        phys.flags |= FLAG_USERACCOUNTING_COMPLETE;
        if a.objects() {
            phys.flags |= FLAG_USEROBJACCOUNTING_COMPLETE;
        }
        if a.projects() && spec.header_size >= OBJSET_SIZE_V3 {
            phys.flags |= FLAG_PROJECTQUOTA_COMPLETE;
        }
    }
    phys
}

/// The meta dnode of an empty set.
pub(super) fn new_meta(kind: ObjsetKind, indirect_shift: u8) -> Dnode {
    let mut meta = Dnode::new(DmuType::DNODE, 1, 3, indirect_shift);
    meta.data_sectors = (DNODE_BLOCK_SIZE / 512) as u16;
    // OpenZFS counts on the array of dnodes never growing a level, but in the MOS.
    if kind != ObjsetKind::Meta {
        let fanout = u32::from(meta.indirect_shift) - 7;
        let reach =
            |levels: u8| (3 * u128::from(SLOTS_PER_BLOCK)) << (fanout * u32::from(levels - 1));
        while reach(meta.levels) < u128::from(OBJECTS_MAX) && meta.levels < MAX_LEVELS {
            meta.levels += 1;
        }
    }
    meta
}

impl LiveSet {
    /// A set without changes whose newest tree is `base`, which has this meta dnode.
    pub(super) fn over(id: u64, base: Base, meta: Dnode, policy: SetPolicy) -> Self {
        Self {
            id,
            policy: RwLock::new(Arc::new(policy)),
            transactions: None,
            accounting: None,
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
        }
    }

    pub(crate) fn base(&self) -> Arc<Base> {
        Arc::clone(&self.base.read())
    }

    pub(crate) fn meta(&self) -> &Arc<LiveObject> {
        &self.meta
    }

    pub(super) fn policy(&self) -> Arc<SetPolicy> {
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

    /// The one value that stands for the object. `synced` is its dnode in the tree of `base`;
    /// `None` when that tree is no longer the newest.
    fn adopt(
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
        // Entries of objects that nobody holds are swept when they fill the map.
        if shard.len() == shard.capacity() {
            shard.retain(|_, w| w.strong_count() > 0);
        }
        let object = Arc::new(LiveObject::new(number, synced));
        shard.insert(number, Arc::downgrade(&object));
        Some(object)
    }

    /// Puts the object on the list of what must be synced in `txg`.
    pub(super) fn touch(&self, object: &Arc<LiveObject>, txg: u64) {
        let mut dirty = self.dirty.lock();
        dirty.entry(txg).or_default().objects.insert(object.number(), Arc::clone(object));
    }

    pub(super) fn dirtied(&self, txg: u64, bytes: u64) {
        if let Some(t) = self.transactions.as_ref().filter(|_| bytes > 0) {
            t.dirtied(txg, bytes);
        }
    }

    /// Dirty bytes were given up.
    pub(super) fn dropped(&self, txg: u64, bytes: u64) {
        if let Some(t) = self.transactions.as_ref().filter(|_| bytes > 0) {
            t.dropped(txg, bytes);
        }
    }

    /// Something is changed by `tx`.
    pub(super) fn count_change(&self, tx: &Tx) {
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
    pub(super) fn is_open(&self, tx: &Tx) -> bool {
        tx.is_syncing() || tx.txg() > self.frozen.load(Ordering::Acquire)
    }

    fn publish(&self, txg: u64) {
        let pass = std::mem::take(&mut *self.pass.lock());
        let Some(base) = pass.base else { return };
        // Who opens an object compares the base before and after: the meta dnode changes first.
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
    }
}

impl Objset {
    fn live_set(&self) -> Result<&Arc<LiveSet>> {
        self.inner.live.as_ref().ok_or_else(|| self.error(0, ErrorKind::ReadOnly))
    }

    /// The object of a live set, when it exists in the tree or in a version.
    pub(crate) fn live_object(
        &self,
        live: &LiveSet,
        number: u64,
    ) -> Result<Option<Arc<LiveObject>>> {
        loop {
            if let Some(known) = live.known(number) {
                return Ok(Some(known));
            }
            let base = live.base();
            let found = match number {
                0 => return Ok(None),
                n if n >= FIRST_SPECIAL => Ok(special(&base.phys, n).clone().map(Arc::new)),
                n => self.dnode_on_disk(n),
            };
            let current = Arc::ptr_eq(&base, &live.base());
            match found {
                Ok(Some(dnode)) => {
                    if let Some(o) = live.adopt(number, &base, Some(dnode)) {
                        return Ok(Some(o));
                    }
                }
                Ok(None) if current => return Ok(None),
                Err(e) if current => return Err(e),
                // The tree was replaced while it was read.
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// How often it was changed in syncing context: what changes a set between two looks makes two
    /// numbers of it.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.inner.live.as_ref().map_or(0, |l| l.changes.load(Ordering::Relaxed))
    }

    /// Lets accesses fail as `faults` say; for tests. The first call of a set holds.
    pub fn inject(&self, faults: &Arc<Faults>) {
        if let Some(live) = &self.inner.live {
            live.faults.get_or_init(|| Arc::clone(faults));
        }
    }

    /// Whether it can be changed.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.inner.live.is_some()
    }

    /// Enters the open txg to change this set.
    ///
    /// # Errors
    /// No space by `hold`; a set that is not live, or the MOS.
    pub fn begin(&self, hold: Hold) -> Result<Tx> {
        match &self.live_set()?.transactions {
            Some(t) => t.begin(self.id(), hold),
            None => Err(self.error(0, ErrorKind::ReadOnly)),
        }
    }

    /// Pushes `txg` along and waits until it is durable.
    ///
    /// # Errors
    /// When the pool stops before.
    pub fn wait_synced(&self, txg: u64) -> Result<()> {
        match &self.live_set()?.transactions {
            Some(t) => t.wait_synced(txg),
            None => Err(self.error(0, ErrorKind::ReadOnly)),
        }
    }

    /// How blocks are written now; `None` for a set that is not live.
    #[must_use]
    pub fn policy(&self) -> Option<Arc<SetPolicy>> {
        self.inner.live.as_ref().map(|l| l.policy())
    }

    /// Sets how blocks and objects are written from now on.
    pub fn set_policy(&self, policy: SetPolicy) {
        if let Some(live) = &self.inner.live {
            *live.policy.write() = Arc::new(policy);
        }
    }

    /// Makes an object.
    ///
    /// # Errors
    /// The number is taken, a size cannot be, or the bonus does not fit.
    pub fn create(&self, tx: &Tx, spec: &NewObject) -> Result<Object> {
        let live = self.live_set()?;
        live.access(spec.number.unwrap_or(0))?;
        let invalid = |rule| self.error(spec.number.unwrap_or(0), ErrorKind::Invalid(rule));
        if !live.is_open(tx) {
            return Err(invalid("its txg is frozen"));
        }
        let dnode = self.new_dnode(live, spec).map_err(invalid)?;
        let slots = dnode.extra_slots + 1;
        let number = match spec.number {
            Some(n) if n >= FIRST_SPECIAL => n,
            Some(n) if n == 0 || n >= OBJECTS_MAX => return Err(invalid("no object can have it")),
            Some(n) => {
                self.claim(live, tx.txg(), n, slots)?;
                n
            }
            None => self.next_number(live, tx.txg(), slots),
        };
        let object = match number >= FIRST_SPECIAL {
            true => self.live_object(live, number)?,
            false => None,
        };
        // Its slots are this caller's, so nothing of that number is on disk, or it was freed.
        let object = object.unwrap_or_else(|| {
            loop {
                let base = live.base();
                if let Some(o) = live.adopt(number, &base, None) {
                    break o;
                }
            }
        });
        let dnode = Arc::new(dnode);
        {
            let mut state = object.lock();
            if state.attrs().is_some() {
                return Err(self.error(number, ErrorKind::Exists));
            }
            state.slots = slots;
            live.count_change(tx);
            let version = state.version(tx.txg());
            version.attrs = Some(Arc::clone(&dnode));
            version.cleared = true;
            if !std::mem::replace(&mut version.dirty, true) {
                live.touch(&object, tx.txg());
            }
        }
        live.dirtied(tx.txg(), dnode.size() as u64);
        Ok(Object::new_live(self.clone(), number, dnode, object))
    }

    fn new_dnode(
        &self,
        live: &LiveSet,
        spec: &NewObject,
    ) -> std::result::Result<Dnode, &'static str> {
        let policy = live.policy();
        let special = spec.number.is_some_and(|n| n >= FIRST_SPECIAL);
        // Who asks for a number may ask for the next one too, so a large dnode must be asked for.
        let usual = if spec.number.is_some() { 1 } else { policy.dnode_slots };
        let slots = if special { 1 } else { spec.slots.unwrap_or(usual) };
        if !(1..=32).contains(&slots) {
            return Err("a dnode has 1 to 32 slots");
        }
        let shift = spec.indirect_shift.unwrap_or(policy.indirect_shift);
        if !ondisk::dnode::INDIRECT_SHIFT_RANGE.contains(&shift) {
            return Err("the size of indirect blocks is out of range");
        }
        let size = usize::from(slots) * DNODE_SLOT_SIZE;
        // Attributes may grow into what a second pointer would take.
        let most = if spec.bonus_kind == DmuType::SA { 1 } else { 3 };
        let room = (size - ondisk::dnode::DNODE_CORE_SIZE).saturating_sub(spec.bonus.len());
        let pointers = (room / ondisk::blkptr::BLKPTR_SIZE).min(most);
        if pointers == 0 {
            return Err("the bonus does not fit the dnode");
        }
        let mut dnode = Dnode::new(spec.kind, slots, pointers, shift);
        dnode.data_sectors = super::sectors(spec.block_size)?;
        dnode.bonus_kind = spec.bonus_kind;
        dnode.bonus.clone_from(&spec.bonus);
        dnode.checksum = spec.checksum;
        dnode.compression = spec.compression;
        Ok(dnode)
    }

    /// Takes the slots of an object whose number the caller chose.
    fn claim(&self, live: &LiveSet, txg: u64, number: u64, slots: u8) -> Result<()> {
        let exists = || self.error(number, ErrorKind::Exists);
        let (block, slot) = (number / SLOTS_PER_BLOCK, number % SLOTS_PER_BLOCK);
        if slot + u64::from(slots) > SLOTS_PER_BLOCK {
            let rule = "an object crosses a block of dnodes";
            return Err(self.error(number, ErrorKind::Invalid(rule)));
        }
        // An object that was freed in a txg that is not durable may be made anew in its place.
        let freed = live.known(number).and_then(|o| {
            let state = o.lock();
            state.attrs().is_none().then_some(state.slots)
        });
        let own = freed.unwrap_or(0);
        loop {
            let base = live.base();
            let free = self.free_in_block(block)? | Slots::mask(slot as u32, own);
            let mut finder = live.slots.lock();
            if Arc::ptr_eq(&base, &live.base()) {
                let taken = finder.claim(txg, block, slot as u32, slots, free, own);
                return if taken { Ok(()) } else { Err(exists()) };
            }
        }
    }

    /// The number of a new object. What is free on disk is read without a lock, and counts only
    /// when no other tree became the newest meanwhile.
    fn next_number(&self, live: &LiveSet, txg: u64, slots: u8) -> u64 {
        loop {
            let from = match live.slots.lock().allocate(txg, slots) {
                Ok(number) => return number,
                Err(from) => from,
            };
            let base = live.base();
            let (block, free) = self.free_slots(live, from);
            let mut finder = live.slots.lock();
            if Arc::ptr_eq(&base, &live.base()) {
                finder.offer(from, block, free);
            }
        }
    }

    /// The first block of dnodes at or behind `from` with free slots, by the newest tree.
    fn free_slots(&self, live: &LiveSet, from: u64) -> (u64, u32) {
        let mut block = from;
        loop {
            let base = live.base();
            let Some(meta) = self.meta_object() else { return (block, u32::MAX) };
            if block > meta.dnode().max_block {
                return (block, u32::MAX);
            }
            let full = |bp: &BlkPtr| !bp.is_hole() && bp.fill() >= SLOTS_PER_BLOCK;
            let free = match meta.block_pointer(0, block) {
                Ok(Some(bp)) if full(&bp) => 0,
                // A block that is damaged gets no new objects.
                _ => self.free_in_block(block).unwrap_or(0),
            };
            if !Arc::ptr_eq(&base, &live.base()) {
                continue;
            }
            if free != 0 {
                return (block, free);
            }
            block += 1;
        }
    }

    /// Whether no object, on disk or in memory, has a slot from `first` to `last`.
    pub(crate) fn are_free(&self, live: &LiveSet, first: u64, last: u64) -> Result<bool> {
        for block in first / SLOTS_PER_BLOCK..=last / SLOTS_PER_BLOCK {
            let start = first.max(block * SLOTS_PER_BLOCK);
            let end = last.min(block * SLOTS_PER_BLOCK + SLOTS_PER_BLOCK - 1);
            let mask = Slots::mask((start % SLOTS_PER_BLOCK) as u32, (end - start + 1) as u8);
            // Taken slots first: they are given up only after the tree shows them.
            let taken = live.slots.lock().taken(block);
            if mask & (taken | !self.free_in_block(block)?) != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes an object and all its blocks.
    ///
    /// # Errors
    /// There is no such object.
    pub fn free(&self, tx: &Tx, number: u64) -> Result<()> {
        let live = self.live_set()?;
        live.access(number)?;
        let absent = || self.error(number, ErrorKind::NoObject);
        if !live.is_open(tx) {
            return Err(self.error(number, ErrorKind::Invalid("its txg is frozen")));
        }
        let object = self.live_object(live, number)?.ok_or_else(absent)?;
        let mut state = object.lock();
        if state.attrs().is_none() {
            return Err(absent());
        }
        live.count_change(tx);
        let version = state.version(tx.txg());
        let dropped = version.clear();
        if !std::mem::replace(&mut version.dirty, true) {
            live.touch(&object, tx.txg());
        }
        drop(state);
        live.dropped(tx.txg(), dropped);
        live.dirtied(tx.txg(), DNODE_SLOT_SIZE as u64);
        Ok(())
    }

    /// Replaces the header of the intent log.
    ///
    /// # Errors
    /// The set is not live.
    pub fn set_zil(&self, tx: &Tx, zil: &ZilHeader) -> Result<()> {
        let live = self.live_set()?;
        live.access(0)?;
        live.count_change(tx);
        live.dirty.lock().entry(tx.txg()).or_default().zil = Some(*zil);
        Ok(())
    }

    /// From now on no open transaction may change `txg`: its last one has ended.
    pub fn freeze(&self, txg: u64) {
        if let Some(live) = &self.inner.live {
            live.frozen.fetch_max(txg, Ordering::AcqRel);
        }
    }

    /// Whether `txg` has changes that are not synced.
    #[must_use]
    pub fn is_dirty(&self, txg: u64) -> bool {
        self.inner.live.as_ref().is_some_and(|l| l.dirty.lock().contains_key(&txg))
    }

    /// The txg is durable: readers see its tree, and its versions are dropped.
    pub fn synced(&self, txg: u64) {
        if let Some(live) = &self.inner.live {
            live.publish(txg);
        }
    }

    /// The txg, which is the only one with changes, will never be durable: readers see what was
    /// durable before. Nothing may be changed or synced after that.
    pub fn forget(&self, txg: u64) {
        let Some(live) = &self.inner.live else { return };
        let dirty = live.dirty.lock().remove(&txg).unwrap_or_default();
        let synced = std::mem::take(&mut *live.pass.lock());
        for object in dirty.objects.into_values().chain(synced.objects.into_values()) {
            object.lock().forget(txg);
        }
    }

    /// What could not be freed since the last call, because the indirect block that leads to it is
    /// lost: the space stays in use.
    #[must_use]
    pub fn take_leaked(&self) -> Vec<Error> {
        self.inner.live.as_ref().map(|l| std::mem::take(&mut *l.leaked.lock())).unwrap_or_default()
    }
}

/// The dnode in the header of an object numbered -1, -2 or -3.
pub(super) fn special(phys: &ObjsetPhys, number: u64) -> &Option<Dnode> {
    match number.wrapping_neg() {
        1 => &phys.user_used,
        2 => &phys.group_used,
        _ => &phys.project_used,
    }
}
