//! A live set as its users have it: transactions, objects made and freed, and the end of a txg.

use crate::error::{Error, ErrorKind, Result};
use crate::faults::Faults;
use crate::object::Object;
use crate::objset::Objset;
use crate::refusal::InvalidChange;
use crate::tx::{Hold, Transactions, Tx};
use crate::versions::policy::SetPolicy;
use crate::versions::set::{FIRST_SPECIAL, LiveSet, OBJECTS_MAX, SLOTS_PER_BLOCK};
use crate::versions::slots::Slots;
use crate::versions::spec::NewObject;
use ondisk::dnode::DNODE_SLOT_SIZE;
use ondisk::objset::ZilHeader;
use ondisk::{BlkPtr, DmuType, Dnode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A dnode that is about to be that of an object.
pub(super) struct NewDnode {
    pub(super) dnode: Dnode,
    /// Levels that its tree is to have at least.
    pub(super) levels: Option<u8>,
}

impl Objset {
    pub(super) fn live_set(&self) -> Result<&Arc<LiveSet>> {
        self.inner.live.as_ref().ok_or_else(|| self.error(0, ErrorKind::ReadOnly))
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

    /// Enters the open txg to change this set.
    ///
    /// # Errors
    /// No space by `hold`; a set that is not live, or the MOS.
    pub fn begin(&self, hold: Hold) -> Result<Tx> {
        self.transactions()?.begin(self.id(), hold)
    }

    /// Pushes `txg` along and waits until it is durable.
    ///
    /// # Errors
    /// When the pool stops before.
    pub fn wait_synced(&self, txg: u64) -> Result<()> {
        self.transactions()?.wait_synced(txg)
    }

    fn transactions(&self) -> Result<&Arc<dyn Transactions>> {
        let of_set = self.live_set()?.transactions();
        let transactions = self.transactions.as_ref().or(of_set);
        transactions.ok_or_else(|| self.error(0, ErrorKind::ReadOnly))
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
            return Err(invalid(InvalidChange::ClosedTxg));
        }
        let dnode = self.new_dnode(live, spec).map_err(invalid)?;
        self.make(tx, spec.number, NewDnode { dnode, levels: None })
    }

    pub(super) fn make(&self, tx: &Tx, number: Option<u64>, made: NewDnode) -> Result<Object> {
        let live = self.live_set()?;
        let NewDnode { dnode, levels } = made;
        let invalid = |rule| self.error(number.unwrap_or(0), ErrorKind::Invalid(rule));
        if !live.is_open(tx) {
            return Err(invalid(InvalidChange::ClosedTxg));
        }
        let slots = dnode.extra_slots + 1;
        let number = match number {
            Some(n) if n >= FIRST_SPECIAL => n,
            Some(n) if n == 0 || n >= OBJECTS_MAX => {
                return Err(invalid(InvalidChange::ObjectNumber));
            }
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
            version.levels = levels;
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
    ) -> std::result::Result<Dnode, InvalidChange> {
        let policy = live.policy();
        let special = spec.number.is_some_and(|n| n >= FIRST_SPECIAL);
        // A caller that requests a number may request the next one too, so a large dnode must be
        // requested explicitly.
        let usual = if spec.number.is_some() { 1 } else { policy.dnode_slots };
        let slots = if special { 1 } else { spec.slots.unwrap_or(usual) };
        if !(1..=32).contains(&slots) {
            return Err(InvalidChange::DnodeSlots);
        }
        let shift = spec.indirect_shift.unwrap_or(policy.indirect_shift);
        if !ondisk::dnode::INDIRECT_SHIFT_RANGE.contains(&shift) {
            return Err(InvalidChange::IndirectSize);
        }
        let size = usize::from(slots) * DNODE_SLOT_SIZE;
        // Attributes may grow into what a second pointer would take.
        let most = if spec.bonus_kind == DmuType::SA { 1 } else { 3 };
        let room = (size - ondisk::dnode::DNODE_CORE_SIZE).saturating_sub(spec.bonus.len());
        let pointers = (room / ondisk::blkptr::BLKPTR_SIZE).min(most);
        if pointers == 0 {
            return Err(InvalidChange::BonusSize);
        }
        let mut dnode = Dnode::new(spec.kind, slots, pointers, shift);
        dnode.data_sectors = crate::versions::spec::sectors(spec.block_size)?;
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
            let rule = InvalidChange::CrossesDnodeBlock;
            return Err(self.error(number, ErrorKind::Invalid(rule)));
        }
        // An object that was freed in a txg that is not durable may be replaced by a new one.
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

    /// The number of a new object. The free slots on disk are read without a lock, and count only
    /// if no other tree became the newest meanwhile.
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

    /// Removes an object and all its blocks.
    ///
    /// # Errors
    /// There is no such object.
    pub fn free(&self, tx: &Tx, number: u64) -> Result<()> {
        let live = self.live_set()?;
        live.access(number)?;
        let absent = || self.error(number, ErrorKind::NoObject);
        if !live.is_open(tx) {
            return Err(self.error(number, ErrorKind::Invalid(InvalidChange::ClosedTxg)));
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

    /// Blocks that could not be freed since the last call, because the indirect block that leads to
    /// them is lost: the space stays in use.
    #[must_use]
    pub fn take_leaked(&self) -> Vec<Error> {
        self.inner.live.as_ref().map(|l| std::mem::take(&mut *l.leaked.lock())).unwrap_or_default()
    }
}
