//! Object sets.

use crate::error::{Error, ErrorKind, Result};
use crate::live::set::LiveSet;
use crate::locks::ObjectLocks;
use crate::object::Object;
use crate::overlay::Overlay;
use crate::store::{BlockStore, Key};
use crate::traverse::{Traversal, Visitor};
use crate::usage::SetUse;
use ondisk::dnode::{DNODE_SLOT_SIZE, EXTRA_SLOTS_AT};
use ondisk::{BlkPtr, Dnode, ObjsetPhys};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use zio::{Block, Place};

/// A set of objects, open for reading.
#[derive(Clone)]
pub struct Objset {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) id: u64,
    pub(crate) key: Option<Key>,
    pub(crate) overlay: Option<Arc<Overlay>>,
    pub(crate) locks: Arc<ObjectLocks>,
    /// Set: what follows is that of the time of opening, and the truth is there.
    pub(crate) live: Option<Arc<LiveSet>>,
    root: BlkPtr,
    phys: Arc<ObjsetPhys>,
    meta: Option<Arc<Dnode>>,
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
        let inner = Inner {
            store,
            id,
            key,
            overlay: None,
            locks: Arc::default(),
            live: None,
            root: *bp,
            phys: Arc::new(phys),
            meta,
            usage: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn of_live(
        store: Arc<dyn BlockStore>,
        id: u64,
        key: Option<Key>,
        live: Arc<LiveSet>,
    ) -> Self {
        let base = live.base();
        let inner = Inner {
            store,
            id,
            key,
            overlay: None,
            locks: Arc::default(),
            root: base.root,
            phys: Arc::clone(&base.phys),
            meta: None,
            live: Some(live),
            usage: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same set seen through `overlay`.
    #[must_use]
    pub fn with_overlay(&self, overlay: Arc<Overlay>) -> Self {
        let i = &self.inner;
        let inner = Inner {
            store: Arc::clone(&i.store),
            id: i.id,
            key: i.key.clone(),
            overlay: Some(overlay),
            locks: Arc::clone(&i.locks),
            live: i.live.clone(),
            root: i.root,
            phys: Arc::clone(&i.phys),
            meta: i.meta.clone(),
            usage: i.usage.clone(),
        };
        Self { inner: Arc::new(inner) }
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

    /// The overlay, if any.
    #[must_use]
    pub fn overlay(&self) -> Option<&Arc<Overlay>> {
        self.inner.overlay.as_ref()
    }

    pub(crate) fn error(&self, object: u64, kind: ErrorKind) -> Error {
        Error { objset: self.inner.id, object, kind }
    }

    /// The object whose data is the array of dnodes; `None` in an empty set.
    #[must_use]
    pub fn meta_object(&self) -> Option<Object> {
        if let Some(live) = &self.inner.live {
            let dnode = live.meta().synced()?;
            return Some(Object::new_live(self.clone(), 0, dnode, Arc::clone(live.meta())));
        }
        self.inner.meta.as_ref().map(|d| Object::new(self.clone(), 0, Arc::clone(d)))
    }

    /// The accounting objects of the header: user (-1), group (-2), project (-3) space used.
    #[must_use]
    pub fn accounting_objects(&self) -> [Option<Object>; 3] {
        if self.inner.live.is_some() {
            return [1u64, 2, 3].map(|n| self.object(n.wrapping_neg()).ok());
        }
        let p = &self.inner.phys;
        let mut n = 0u64;
        [&p.user_used, &p.group_used, &p.project_used].map(|d| {
            n += 1;
            d.clone().map(|d| Object::new(self.clone(), n.wrapping_neg(), Arc::new(d)))
        })
    }

    /// Opens one object.
    pub fn object(&self, number: u64) -> Result<Object> {
        let overlaid = self.inner.overlay.as_ref().and_then(|o| o.objects.get(&number));
        if let Some(o) = overlaid {
            if o.freed {
                return Err(self.error(number, ErrorKind::NoObject));
            }
            if let Some(d) = &o.dnode {
                return Ok(Object::new(self.clone(), number, Arc::clone(d)));
            }
        }
        let absent = || self.error(number, ErrorKind::NoObject);
        if let Some(live) = &self.inner.live {
            live.access(number)?;
            let object = self.live_object(live, number)?.ok_or_else(absent)?;
            let dnode = object.current().ok_or_else(absent)?;
            return Ok(Object::new_live(self.clone(), number, dnode, object));
        }
        let dnode = self.dnode_on_disk(number)?.ok_or_else(absent)?;
        Ok(Object::new(self.clone(), number, dnode))
    }

    /// The dnode in the array of dnodes; `None` when there is no such object.
    pub(crate) fn dnode_on_disk(&self, number: u64) -> Result<Option<Arc<Dnode>>> {
        let Some(meta) = self.meta_object() else { return Ok(None) };
        let per_block = meta.dnode().block_size() / DNODE_SLOT_SIZE as u64;
        if number == 0 || per_block == 0 {
            return Ok(None);
        }
        let Some(block) = meta.read_block(number / per_block)? else { return Ok(None) };
        let mut slots = Slots::new(&block);
        slots.skip_to((number % per_block) as usize);
        match slots.next() {
            Some((at, dnode)) if at as u64 == number % per_block => {
                let dnode = dnode.map_err(|error| self.bad_dnode(number, error))?;
                Ok(Some(Arc::new(dnode)))
            }
            _ => Ok(None),
        }
    }

    /// The free slots of a block of 32 dnodes in the tree on disk, the first in the lowest bit. A
    /// block of the other byte order has none, unless it is never written: new dnodes would not fit
    /// in.
    pub(crate) fn free_in_block(&self, blkid: u64) -> Result<u32> {
        let Some(meta) = self.meta_object() else { return Ok(u32::MAX) };
        let Some(block) = meta.read_block(blkid)? else { return Ok(u32::MAX) };
        if block.endian() != ondisk::Endian::Little && !self.is_scratch() {
            return Ok(0);
        }
        let mut free = u32::MAX;
        for (slot, dnode) in Slots::new(&block) {
            let extra = dnode.map_or(0, |d| usize::from(d.extra_slots));
            for taken in slot..=slot + extra {
                free &= !(1u32.checked_shl(taken as u32).unwrap_or(0));
            }
        }
        Ok(free)
    }

    /// Whether the `slots` slots (at most 32) from `number` on belong to no object, the overlay
    /// asked first.
    pub fn is_free(&self, number: u64, slots: u16) -> Result<bool> {
        const SLOTS_MAX: u64 = 32;
        if let Some(live) = &self.inner.live {
            let last = number.saturating_add(u64::from(slots)).saturating_sub(1);
            return self.are_free(live, number, last);
        }
        let wanted = number..number.saturating_add(u64::from(slots).min(SLOTS_MAX));
        let overlap = |n: u64, d: &Dnode| {
            n < wanted.end && n.saturating_add(u64::from(d.extra_slots)) >= wanted.start
        };
        let overlaid = |n: u64| self.inner.overlay.as_ref().and_then(|o| o.objects.get(&n));
        for n in wanted.start.saturating_sub(SLOTS_MAX)..wanted.end {
            let dnode = overlaid(n).filter(|o| !o.freed).and_then(|o| o.dnode.as_ref());
            if dnode.is_some_and(|d| overlap(n, d)) {
                return Ok(false);
            }
        }
        let Some(meta) = self.meta_object() else { return Ok(true) };
        let per_block = meta.dnode().block_size() / DNODE_SLOT_SIZE as u64;
        if per_block == 0 {
            return Ok(false);
        }
        for blkid in wanted.start / per_block..=wanted.end.saturating_sub(1) / per_block {
            let Some(block) = meta.read_block(blkid)? else { continue };
            for (slot, dnode) in Slots::new(&block) {
                let n = blkid.saturating_mul(per_block).saturating_add(slot as u64);
                let dnode = dnode.map_err(|error| self.bad_dnode(n, error))?;
                // What the overlay says of an object was judged above.
                let replaced = overlaid(n).is_some_and(|o| o.freed || o.dnode.is_some());
                if overlap(n, &dnode) && !replaced {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn bad_dnode(&self, number: u64, error: ondisk::Error) -> Error {
        let place = Place { objset: self.inner.id, object: number, level: 0, blkid: 0 };
        self.error(number, ErrorKind::Format { place, error })
    }

    /// All allocated objects in order of their numbers. A block of dnodes that cannot be read,
    /// or a dnode that cannot be right, is one error item, and the walk goes on behind it.
    #[must_use]
    pub fn objects(&self) -> ObjectIter {
        ObjectIter::new(self.clone())
    }
}

/// The dnodes of one block with their slot numbers.
struct Slots<'a> {
    block: &'a Block,
    slot: usize,
}

impl<'a> Slots<'a> {
    fn new(block: &'a Block) -> Self {
        Self { block, slot: 0 }
    }

    /// Passes over the dnodes before slot `to` without decoding them; stops behind it when the
    /// slot is the inside of a larger dnode.
    fn skip_to(&mut self, to: usize) {
        while self.slot < to {
            let bytes = self.block.get(self.slot * DNODE_SLOT_SIZE..).unwrap_or_default();
            self.slot += match bytes.get(EXTRA_SLOTS_AT) {
                // A damaged dnode must not hide those behind it.
                Some(extra @ 0..=31) if !Dnode::is_free_slot(bytes) => usize::from(*extra) + 1,
                Some(_) => 1,
                None => return,
            };
        }
    }
}

impl Iterator for Slots<'_> {
    type Item = (usize, ondisk::Result<Dnode>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.slot;
            let bytes = self.block.get(at * DNODE_SLOT_SIZE..)?;
            if bytes.len() < DNODE_SLOT_SIZE {
                return None;
            }
            if Dnode::is_free_slot(bytes) {
                self.slot += 1;
                continue;
            }
            let dnode = Dnode::decode(bytes, self.block.endian());
            self.slot += match &dnode {
                Ok(d) => usize::from(d.extra_slots) + 1,
                Err(_) => 1,
            };
            return Some((at, dnode));
        }
    }
}

/// See [`Objset::objects`].
pub struct ObjectIter {
    objset: Objset,
    meta: Option<Object>,
    next_block: u64,
    ready: std::collections::VecDeque<Result<Object>>,
    /// Objects that exist in the overlay only, in descending order.
    added: Vec<u64>,
}

impl ObjectIter {
    fn new(objset: Objset) -> Self {
        let mut added: Vec<u64> = match &objset.inner.overlay {
            Some(o) => {
                o.objects.iter().filter(|(_, v)| v.dnode.is_some()).map(|(k, _)| *k).collect()
            }
            None => objset.inner.live.as_ref().map(|l| l.changed()).unwrap_or_default(),
        };
        added.sort_unstable_by(|a, b| b.cmp(a));
        let meta = objset.meta_object();
        Self { objset, meta, next_block: 0, ready: Default::default(), added }
    }

    fn push(&mut self, number: u64, object: Result<Object>) {
        while let Some(&n) = self.added.last().filter(|n| **n <= number) {
            self.added.pop();
            if n < number {
                self.push_added(n);
            }
        }
        if self.objset.is_live() {
            self.push_added(number);
            return;
        }
        let overlaid = self.objset.inner.overlay.as_ref().and_then(|o| o.objects.get(&number));
        match overlaid {
            Some(o) if o.freed => {}
            Some(o) if o.dnode.is_some() => self.ready.push_back(self.objset.object(number)),
            _ => self.ready.push_back(object),
        }
    }

    /// An object of which memory knows more than the block of dnodes; it may be gone.
    fn push_added(&mut self, number: u64) {
        match self.objset.object(number) {
            Err(e) if self.objset.is_live() && e.is_absent() => {}
            o => self.ready.push_back(o),
        }
    }

    /// Reads the next block of dnodes; false at the end.
    fn fill(&mut self) -> bool {
        let Some(meta) = self.meta.clone() else { return false };
        let blkid = match meta.next_block(self.next_block) {
            Ok(Some(b)) => b,
            Ok(None) => {
                self.meta = None;
                return false;
            }
            Err((error, resume)) => {
                self.ready.push_back(Err(error));
                match resume {
                    Some(b) => self.next_block = b,
                    None => self.meta = None,
                }
                return true;
            }
        };
        self.next_block = blkid + 1;
        let per_block = meta.dnode().block_size() / DNODE_SLOT_SIZE as u64;
        match meta.read_block(blkid) {
            Ok(Some(block)) => {
                for (slot, dnode) in Slots::new(&block) {
                    let number = blkid.saturating_mul(per_block) + slot as u64;
                    let object = match dnode {
                        _ if number == 0 => continue,
                        Ok(d) => Ok(Object::new(self.objset.clone(), number, Arc::new(d))),
                        Err(error) => Err(self.objset.bad_dnode(number, error)),
                    };
                    self.push(number, object);
                }
            }
            Ok(None) => {}
            Err(e) => self.ready.push_back(Err(e)),
        }
        true
    }
}

impl Iterator for ObjectIter {
    type Item = Result<Object>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(o) = self.ready.pop_front() {
                return Some(o);
            }
            if !self.fill() {
                let n = self.added.pop()?;
                self.push_added(n);
            }
        }
    }
}
