//! A disk that is a map: it hands out addresses in order, never twice, and knows what is allocated.

use dmu::{BlockStore, BlockWriter, Key};
use dsl::write::Blocks;
use ondisk::{BlkPtr, DmuType, Dnode, Dva, ObjsetPhys};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use zio::{Block, ErrorKind, Place, WriteSpec};

/// A block that something reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub birth: u64,
    pub used: u64,
    pub compressed: u64,
    pub uncompressed: u64,
}

#[derive(Default)]
struct State {
    next: u64,
    blocks: HashMap<u64, Arc<Block>>,
    allocated: BTreeMap<u64, BlkPtr>,
}

#[derive(Default)]
pub(crate) struct Disk(Mutex<State>);

impl Disk {
    pub(crate) fn allocated(&self) -> BTreeMap<u64, BlkPtr> {
        self.0.lock().unwrap().allocated.clone()
    }

    fn get(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        let state = self.0.lock().unwrap();
        let block = state.blocks.get(&bp.dva(0).offset()).map(Arc::clone);
        let lost = || zio::Error {
            place,
            copies: String::new(),
            kind: ErrorKind::Unreadable,
            faults: Vec::new(),
        };
        block.ok_or_else(lost)
    }

    /// Every block that the object set at `root` reaches, by its address.
    pub(crate) fn reach(&self, root: &BlkPtr) -> BTreeMap<u64, Reached> {
        let mut out = BTreeMap::new();
        if root.is_hole() {
            return out;
        }
        self.note(root, &mut out);
        let block = self.get(root, Place::objset(0)).unwrap();
        let phys = ObjsetPhys::decode(&block, block.endian()).unwrap();
        let dnodes = [&phys.meta_dnode, &phys.user_used, &phys.group_used, &phys.project_used];
        for dnode in dnodes.into_iter().flatten() {
            self.dnode(dnode, &mut out);
        }
        out
    }

    fn note(&self, bp: &BlkPtr, out: &mut BTreeMap<u64, Reached>) {
        let [compressed, uncompressed] = bp.accounted_sizes();
        let used = self.dsize(bp);
        let reached = Reached { birth: bp.logical_birth(), used, compressed, uncompressed };
        assert!(out.insert(bp.dva(0).offset(), reached).is_none(), "reached twice: {bp:?}");
    }

    fn dnode(&self, dnode: &Dnode, out: &mut BTreeMap<u64, Reached>) {
        for bp in dnode.blkptrs.iter().chain(&dnode.spill) {
            self.tree(bp, out);
        }
    }

    fn tree(&self, bp: &BlkPtr, out: &mut BTreeMap<u64, Reached>) {
        if bp.is_hole() {
            return;
        }
        self.note(bp, out);
        let is_dnodes = bp.dmu_type() == DmuType::DNODE;
        if bp.level() == 0 && !is_dnodes {
            return;
        }
        let block = self.get(bp, Place::objset(0)).unwrap();
        if bp.level() > 0 {
            for bytes in block.chunks_exact(128) {
                self.tree(&BlkPtr::decode(bytes, block.endian()).unwrap(), out);
            }
            return;
        }
        let mut at = 0;
        while at < block.len() {
            let bytes = &block[at..];
            at += 512;
            if !Dnode::is_free_slot(bytes) {
                let dnode = Dnode::decode(bytes, block.endian()).unwrap();
                at += usize::from(dnode.extra_slots) * 512;
                self.dnode(&dnode, out);
            }
        }
    }
}

impl BlockStore for Disk {
    fn rt(&self) -> rt::Rt {
        rt::Rt::real()
    }

    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        self.get(bp, place)
    }
}

impl BlockWriter for Disk {
    fn write(&self, data: &Arc<Block>, spec: &WriteSpec<'_>, _: Place) -> zio::Result<BlkPtr> {
        if spec.level == 0 && data.iter().all(|b| *b == 0) {
            return Ok(BlkPtr::HOLE);
        }
        let mut state = self.0.lock().unwrap();
        let size = data.len() as u64;
        // Not all blocks compress the same, so that the three sizes are different things.
        let sum = data.iter().fold(0u64, |s, b| s.wrapping_mul(31).wrapping_add(u64::from(*b)));
        let stored = 512 * (1 + sum % (size / 512));
        let offset = match spec.reuse.filter(|bp| bp.psize() == stored) {
            Some(bp) => bp.dva(0).offset(),
            None => {
                state.next += 1 << 20;
                state.next
            }
        };
        let [w0, w1] = Dva::new(0, offset, stored * 2, false).words();
        let mut words = [0; 16];
        words[0] = w0;
        words[1] = w1;
        words[6] = (size / 512 - 1) | (stored / 512 - 1) << 16 | 15 << 32 | 7 << 40;
        words[6] |= u64::from(spec.kind.0) << 48 | u64::from(spec.level) << 56 | 1 << 63;
        words[10] = spec.birth;
        words[11] = spec.fill;
        let bp = BlkPtr::from_words(words);
        state.blocks.insert(offset, Arc::clone(data));
        state.allocated.insert(offset, bp);
        Ok(bp)
    }

    fn read_pending(&self, _: &BlkPtr) -> Option<Arc<Block>> {
        None
    }
}

impl Blocks for Disk {
    fn dsize(&self, bp: &BlkPtr) -> u64 {
        bp.asize()
    }

    fn free(&self, bp: &BlkPtr) {
        let mut state = self.0.lock().unwrap();
        let gone = state.allocated.remove(&bp.dva(0).offset());
        let was = gone.unwrap_or_else(|| panic!("freed, but not allocated: {bp:?}"));
        assert_eq!(was.logical_birth(), bp.logical_birth(), "freed as another block");
    }

    fn mark_obsolete(&self, bp: &BlkPtr) {
        panic!("no vdev was removed: {bp:?}");
    }
}
