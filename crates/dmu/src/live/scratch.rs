//! Live sets that are thrown away.
//!
//! To see the result of a change of a set, the change is made in a *scratch* set: a live one over a
//! set that is only read. It is never synced, so its versions stay what readers see, and are gone
//! with the last one that holds the set. Nothing is written, and no space of the pool is reserved:
//! only memory is counted.
//!
//! A sync would do more than write. Blocks of zeros become holes, and the space used follows.
//! [`Objset::settle`] does that in memory as well as it can be known, and ends the changes.

use super::open::new_meta;
use crate::error::{Error, ErrorKind, Result};
use crate::objset::Objset;
use crate::refusal::Unsupported;
use crate::tx::{Hold, Transactions, Tx};
use crate::versions::policy::SetPolicy;
use crate::versions::set::{Base, DNODE_BLOCK_SIZE, LiveSet};
use crate::versions::state::{Content, LiveObject};
use ondisk::dnode::FLAG_USED_BYTES;
use ondisk::{BlkPtr, ObjsetPhys};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The parameters of [`Objset::scratch`].
#[derive(Clone, Copy, Debug)]
pub struct ScratchSpec {
    /// The txg that its transactions are of: one that is not on disk.
    pub txg: u64,
    /// No transaction begins that may take more bytes of memory than these.
    pub memory_max: u64,
}

/// The transactions of a scratch set: all of one txg that never ends.
#[derive(Clone)]
struct Budget {
    spec: ScratchSpec,
    held: Arc<AtomicU64>,
    /// Why no more changes are made: the set contains half of one.
    stopped: Arc<OnceLock<String>>,
}

impl Transactions for Budget {
    fn begin(&self, objset: u64, hold: Hold) -> Result<Tx> {
        if let Some(why) = self.stopped.get() {
            return Err(Error { objset, object: 0, kind: ErrorKind::Stopped(why.clone()) });
        }
        let wanted = self.held.load(Ordering::Relaxed).saturating_add(hold.bytes);
        if wanted > self.spec.memory_max {
            return Err(Error { objset, object: 0, kind: ErrorKind::Memory });
        }
        Ok(Tx::new(self.spec.txg, Arc::new(self.clone())))
    }

    fn wait_synced(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn dirtied(&self, _: u64, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn dropped(&self, _: u64, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn ended(&self, _: u64) {}

    fn stop(&self, why: &str) {
        // The first reason counts.
        let _ = self.stopped.set(why.to_owned());
    }
}

impl Objset {
    /// A live set over this one, which is only read: what is changed in it is in memory alone.
    /// Encrypted sets are not an obstacle, nor is their byte order.
    ///
    /// # Errors
    /// Its blocks of dnodes are not of the one size that was ever written.
    pub fn scratch(&self, spec: ScratchSpec) -> Result<Self> {
        let mut phys = ObjsetPhys::clone(&self.phys());
        let kind = phys.kind;
        let policy = SetPolicy::default();
        let new = || new_meta(kind, policy.indirect_shift);
        let meta = phys.meta_dnode.get_or_insert_with(new).clone();
        if meta.block_size() != DNODE_BLOCK_SIZE {
            let what = Unsupported::DnodeBlockSize;
            return Err(self.error(0, ErrorKind::Unsupported(what)));
        }
        let base = Base { root: self.root(), phys: Arc::new(phys) };
        let budget = Budget { spec, held: Arc::default(), stopped: Arc::default() };
        let mut live = LiveSet::over(self.id(), base, meta, policy);
        live.transactions = Some(Arc::new(budget));
        live.scratch = true;
        let store = Arc::clone(self.store());
        Ok(Self::of_live(store, self.id(), self.key().cloned(), Arc::new(live)))
    }

    /// Ends the changes of a scratch set and lets it look as if they had been synced: blocks of
    /// zeros become holes when `zeros_are_holes`, and of every object that changed the space used
    /// is what it was, less what was replaced, and what came counted as if it did not compress.
    ///
    /// # Errors
    /// The set is not a scratch set.
    pub fn settle(&self, zeros_are_holes: bool) -> Result<()> {
        let live = self.inner.live.as_ref().filter(|live| live.scratch);
        let Some(live) = live else { return Err(self.error(0, ErrorKind::ReadOnly)) };
        self.freeze(u64::MAX);
        let changed: Vec<Arc<LiveObject>> = {
            let dirty = live.dirty.lock();
            dirty.values().flat_map(|d| d.objects.values().cloned()).collect()
        };
        for object in &changed {
            if zeros_are_holes {
                object.punch_zeros();
            }
            self.settle_space(object);
        }
        Ok(())
    }

    fn settle_space(&self, object: &LiveObject) {
        let Some(change) = object.change() else { return };
        let before = match change.is_new {
            true => 0,
            false => {
                let used = object.synced().map_or(0, |d| d.used_bytes());
                used.saturating_sub(self.replaced(object, &change))
            }
        };
        object.set_used(before.saturating_add(change.came));
    }

    /// The space that replaced and freed blocks take on disk; what cannot be read takes none.
    fn replaced(&self, object: &LiveObject, change: &Change) -> u64 {
        let Some(dnode) = object.synced() else { return 0 };
        let Ok(tree) = self.object(object.number()).map(|o| o.tree_of(dnode)) else { return 0 };
        let asize = |b: u64| tree.block_pointer(0, b).ok().flatten().map_or(0, |bp| bp.asize());
        let mut went = change.replaced.iter().map(|b| asize(*b)).fold(0u64, u64::saturating_add);
        for (start, end) in &change.holes {
            let mut at = *start;
            while let Ok(Some(b)) = tree.next_block(at) {
                if b >= *end {
                    break;
                }
                went = went.saturating_add(asize(b));
                at = b + 1;
            }
        }
        went
    }
}

/// The changed blocks of one object.
struct Change {
    /// None of the blocks on disk is left.
    is_new: bool,
    /// Bytes that came.
    came: u64,
    /// Blocks that were replaced, in no hole.
    replaced: Vec<u64>,
    holes: Vec<(u64, u64)>,
}

impl LiveObject {
    fn punch_zeros(&self) {
        let mut state = self.lock();
        let Some(version) = state.versions.last_mut() else { return };
        let zeros = |c: &Content| matches!(c, Content::Block(b) if b.iter().all(|b| *b == 0));
        let ids = version.blocks.iter().filter(|(_, c)| zeros(c)).map(|(id, _)| *id);
        for id in ids.collect::<Vec<_>>() {
            version.free_blocks(id, id.saturating_add(1));
        }
    }

    /// `None`: it is gone, or its blocks are what they were.
    fn change(&self) -> Option<Change> {
        let state = self.lock();
        let version = state.versions.last().filter(|v| v.attrs.is_some())?;
        let holes: Vec<_> = version.holes.iter().collect();
        if version.blocks.is_empty() && holes.is_empty() {
            return None;
        }
        let size = |c: &Content| match c {
            Content::Block(b) => b.len() as u64,
            Content::Stored(bp) => BlkPtr::asize(bp),
        };
        let ids = version.blocks.keys().copied();
        Some(Change {
            is_new: version.cleared || version.holes.covering(0) == Some(u64::MAX),
            came: version.blocks.values().map(size).fold(0, u64::saturating_add),
            replaced: ids.filter(|b| version.holes.covering(*b).is_none()).collect(),
            holes,
        })
    }

    fn set_used(&self, used: u64) {
        let mut state = self.lock();
        let attrs = state.versions.last_mut().and_then(|v| v.attrs.as_mut());
        if let Some(attrs) = attrs.map(Arc::make_mut) {
            attrs.used = used;
            attrs.flags |= FLAG_USED_BYTES;
        }
    }
}
