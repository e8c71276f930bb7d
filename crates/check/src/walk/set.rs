//! The walk's knowledge of object sets and objects while their blocks are in flight.

use crate::issue::{Issue, Location};
use crate::sink::Sink;
use crate::totals::BlockKind;
use dmu::Key;
use ondisk::{BlkPtr, DmuType, Dnode};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zio::Place;

/// Space of blocks: allocated (deflated), as stored, uncompressed.
pub(crate) type Space = ondisk::bpobj::Space;

/// An object set to be walked.
pub(crate) struct Set {
    /// Object of the dataset in the MOS; 0: the MOS.
    pub(crate) id: u64,
    /// Name for people.
    pub(crate) name: Arc<str>,
    /// Pointer to the header.
    pub(crate) root: BlkPtr,
    /// Blocks born in this txg or before belong to an older snapshot.
    pub(crate) min_txg: u64,
    /// A snapshot: its intent log is not its own.
    pub(crate) is_snapshot: bool,
    /// Row of the table that all its blocks belong to; `None`: each to its own.
    pub(crate) kind: Option<BlockKind>,
    pub(crate) key: Option<Key>,
    /// Space of the blocks visited.
    pub(crate) own: Mutex<Space>,
    /// Something below was lost, so that sums cannot be right.
    pub(crate) incomplete: AtomicBool,
}

/// The object that a block belongs to.
pub(crate) struct Owner {
    pub(crate) set: Arc<Set>,
    object: u64,
    /// The shape in its dnode; `None` for the header of the set and the log.
    pub(crate) shape: Option<Shape>,
    /// Space its visited blocks take.
    taken: AtomicU64,
    /// Blocks that are visited and not yet read.
    open: AtomicU64,
    /// Part of the object was not visited: it belongs to an older snapshot, or is lost.
    partial: AtomicBool,
}

/// The shape of an object in its dnode.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) kind: DmuType,
    pub(crate) indirect_size: u64,
    pub(crate) fanout_shift: u32,
    pub(crate) block_size: u64,
    pub(crate) max_block: u64,
    used: u64,
}

impl Shape {
    fn of(d: &Dnode) -> Self {
        Self {
            kind: d.kind,
            indirect_size: 1 << d.indirect_shift,
            fanout_shift: u32::from(d.indirect_shift) - 7,
            block_size: d.block_size(),
            max_block: d.max_block,
            used: d.used_bytes(),
        }
    }
}

impl Set {
    pub(crate) fn at(&self, place: Place) -> Location {
        Location { dataset: Arc::clone(&self.name), place }
    }
}

impl Owner {
    /// The header of a set.
    pub(crate) fn root(set: &Arc<Set>) -> Self {
        Self::with(set, 0, None)
    }

    /// An object.
    pub(crate) fn object(set: &Arc<Set>, object: u64, dnode: &Dnode) -> Self {
        Self::with(set, object, Some(Shape::of(dnode)))
    }

    fn with(set: &Arc<Set>, object: u64, shape: Option<Shape>) -> Self {
        Self {
            set: Arc::clone(set),
            object,
            shape,
            taken: AtomicU64::new(0),
            // One for the visitor of the dnode's own pointers.
            open: AtomicU64::new(1),
            partial: AtomicBool::new(false),
        }
    }

    pub(crate) fn at(&self, place: Place) -> Location {
        self.set.at(place)
    }

    pub(crate) fn number(&self) -> u64 {
        self.object
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn take(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn mark_partial(&self) {
        self.partial.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mark_incomplete(&self) {
        self.mark_partial();
        self.set.incomplete.store(true, Ordering::Relaxed);
    }

    /// One open block is done; after the last one the dnode's sum is judged.
    pub(crate) fn closed(&self, sink: &Sink) {
        if self.open.fetch_sub(1, Ordering::AcqRel) != 1 || self.partial.load(Ordering::Relaxed) {
            return;
        }
        let Some(shape) = &self.shape else { return };
        let counted = self.taken.load(Ordering::Relaxed);
        if counted != shape.used {
            let place = Place { objset: self.set.id, object: self.object, level: 0, blkid: 0 };
            sink.put(Issue::ObjectSpace { at: self.at(place), stored: shape.used, counted });
        }
    }
}
