//! A disk that is a map: it hands out addresses in order, and knows which owner holds which.

use dmu::{BlockOwner, BlockStore, BlockWriter, Key};
use ondisk::{BlkPtr, Dva};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use zio::{Block, ErrorKind, Place, WriteSpec};

#[derive(Default)]
struct State {
    next: u64,
    blocks: HashMap<u64, (u64, Arc<Block>)>,
    /// Every pointer that the owner holds.
    owned: HashMap<[u64; 2], BlkPtr>,
    /// Offsets freed by older txgs than the one being synced, by the txg that freed them.
    freed: Vec<(u64, u64)>,
    reused: u64,
    /// Offsets that cannot be read.
    lost: HashSet<u64>,
}

#[derive(Default)]
pub(crate) struct Disk {
    state: Mutex<State>,
    txg: Mutex<u64>,
}

fn key(bp: &BlkPtr) -> [u64; 2] {
    bp.dva(0).words()
}

impl Disk {
    pub(crate) fn owned(&self) -> HashMap<[u64; 2], BlkPtr> {
        self.state.lock().owned.clone()
    }

    pub(crate) fn reused(&self) -> u64 {
        self.state.lock().reused
    }

    /// A block cannot be read any more.
    pub(crate) fn lose(&self, bp: &BlkPtr) {
        self.state.lock().lost.insert(bp.dva(0).offset());
    }

    /// It can be read again.
    pub(crate) fn find(&self, bp: &BlkPtr) {
        self.state.lock().lost.remove(&bp.dva(0).offset());
    }

    /// `txg` begins to be synced: what was freed two txgs ago is gone.
    pub(crate) fn start(&self, txg: u64) {
        *self.txg.lock() = txg;
        let mut state = self.state.lock();
        let (gone, kept) = state.freed.iter().partition(|(t, _)| t + 2 <= txg);
        state.freed = kept;
        let gone: Vec<(u64, u64)> = gone;
        for (_, offset) in gone {
            state.blocks.remove(&offset);
        }
    }

    fn get(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        let state = self.state.lock();
        let offset = bp.dva(0).offset();
        match state.blocks.get(&offset).filter(|_| !state.lost.contains(&offset)) {
            Some((birth, b)) if *birth == bp.logical_birth() => Ok(Arc::clone(b)),
            _ => {
                let copies = String::new();
                Err(zio::Error { place, copies, kind: ErrorKind::Unreadable, faults: Vec::new() })
            }
        }
    }
}

impl BlockStore for Disk {
    fn rt(&self) -> rt::Rt {
        rt::Rt::current()
    }

    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        assert!(!bp.is_hole(), "a hole is not read");
        self.get(bp, place)
    }
}

impl BlockWriter for Disk {
    fn write(&self, data: &Arc<Block>, spec: &WriteSpec<'_>, place: Place) -> zio::Result<BlkPtr> {
        assert_eq!(spec.birth, *self.txg.lock());
        if spec.level == 0 && data.iter().all(|b| *b == 0) {
            return Ok(BlkPtr::HOLE);
        }
        let mut state = self.state.lock();
        let size = data.len() as u64;
        let reuse = spec.reuse.filter(|bp| bp.psize() == size);
        let offset = match reuse {
            Some(bp) => {
                assert!(state.owned.contains_key(&key(&bp)), "{place}: reuse of what is not held");
                state.reused += 1;
                bp.dva(0).offset()
            }
            None => {
                state.next += size;
                state.next - size
            }
        };
        let [w0, w1] = Dva::new(0, offset, size, false).words();
        let mut words = [0; 16];
        words[0] = w0;
        words[1] = w1;
        words[6] = (size / 512 - 1) | (size / 512 - 1) << 16 | 2 << 32;
        words[6] |= u64::from(spec.checksum.0) << 40;
        words[6] |= u64::from(spec.kind.0) << 48 | u64::from(spec.level) << 56 | 1 << 63;
        words[10] = spec.birth;
        words[11] = spec.fill;
        state.blocks.insert(offset, (spec.birth, Arc::clone(data)));
        Ok(BlkPtr::from_words(words))
    }

    fn read_pending(&self, _: &BlkPtr) -> Option<Arc<Block>> {
        None
    }
}

impl BlockOwner for Disk {
    fn born(&self, bp: &BlkPtr) {
        assert_eq!(bp.logical_birth(), *self.txg.lock());
        let mut state = self.state.lock();
        assert!(state.owned.insert(key(bp), *bp).is_none(), "born twice: {bp:?}");
    }

    fn kill(&self, bp: &BlkPtr) {
        let mut state = self.state.lock();
        assert!(state.owned.remove(&key(bp)).is_some(), "killed, but not held: {bp:?}");
        let (txg, offset) = (*self.txg.lock(), bp.dva(0).offset());
        match bp.logical_birth() == txg {
            true => drop(state.blocks.remove(&offset)),
            false => state.freed.push((txg, offset)),
        }
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        bp.asize()
    }
}
