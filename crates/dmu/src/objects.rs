//! The objects of a set: found by number, and one after the other.

use crate::error::{Error, ErrorKind, Result};
use crate::object::Object;
use crate::objset::Objset;
use crate::traverse::content::Slots;
use crate::versions::set::{FIRST_SPECIAL, LiveSet, special};
use crate::versions::state::LiveObject;
use ondisk::Dnode;
use ondisk::dnode::DNODE_SLOT_SIZE;
use std::sync::Arc;
use zio::Place;

impl Objset {
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
        let p = self.phys();
        let mut n = 0u64;
        [&p.user_used, &p.group_used, &p.project_used].map(|d| {
            n += 1;
            d.clone().map(|d| Object::new(self.clone(), n.wrapping_neg(), Arc::new(d)))
        })
    }

    /// Opens one object.
    pub fn object(&self, number: u64) -> Result<Object> {
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

    /// The dnode in the array of dnodes; `None` when there is no such object.
    fn dnode_on_disk(&self, number: u64) -> Result<Option<Arc<Dnode>>> {
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

    fn bad_dnode(&self, number: u64, error: ondisk::Error) -> Error {
        let place = Place { objset: self.inner.id, object: number, level: 0, blkid: 0 };
        self.error(number, ErrorKind::Format { place, error })
    }

    /// All allocated objects in order of their numbers. A block of dnodes that cannot be read, or a
    /// dnode that cannot be right, is one error item, and the walk continues behind it.
    #[must_use]
    pub fn objects(&self) -> ObjectIter {
        ObjectIter::new(self.clone(), 0)
    }

    /// The same from an object on, or from the first one behind that number.
    #[must_use]
    pub fn objects_from(&self, number: u64) -> ObjectIter {
        ObjectIter::new(self.clone(), number)
    }
}

/// See [`Objset::objects`].
pub struct ObjectIter {
    objset: Objset,
    meta: Option<Object>,
    first: u64,
    next_block: u64,
    ready: std::collections::VecDeque<Result<Object>>,
    /// Objects that memory knows more of, in descending order.
    added: Vec<u64>,
}

impl ObjectIter {
    fn new(objset: Objset, first: u64) -> Self {
        let mut added = objset.changed_objects();
        added.retain(|number| *number >= first);
        added.sort_unstable_by(|a, b| b.cmp(a));
        let meta = objset.meta_object();
        let per_block = meta.as_ref().map_or(0, |m| m.dnode().block_size());
        let per_block = (per_block / DNODE_SLOT_SIZE as u64).max(1);
        let next_block = first / per_block;
        Self { objset, meta, first, next_block, ready: Default::default(), added }
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
        self.ready.push_back(object);
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
                        _ if number == 0 || number < self.first => continue,
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
