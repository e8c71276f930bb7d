//! A disk that is a map: it hands out addresses in order, and knows who holds which.

use dmu::{BlockOwner, BlockStore, BlockWriter, Key};
use ondisk::{BlkPtr, Dva};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use zio::{Block, ErrorKind, Place, WriteSpec};

#[derive(Default)]
struct State {
    next: u64,
    blocks: HashMap<u64, (u64, Arc<Block>)>,
    /// Every pointer that the owner holds.
    owned: HashMap<[u64; 2], BlkPtr>,
}

#[derive(Default)]
pub(crate) struct Disk {
    state: Mutex<State>,
    pub(crate) txg: Mutex<u64>,
    /// Writes that took over the space of an earlier one.
    pub(crate) reused: Mutex<u64>,
}

fn key(bp: &BlkPtr) -> [u64; 2] {
    bp.dva(0).words()
}

impl Disk {
    pub(crate) fn owned(&self) -> HashMap<[u64; 2], BlkPtr> {
        self.state.lock().owned.clone()
    }

    fn get(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        let state = self.state.lock();
        match state.blocks.get(&bp.dva(0).offset()) {
            Some((birth, b)) if *birth == bp.logical_birth() => Ok(Arc::clone(b)),
            _ => {
                let copies = String::new();
                Err(zio::Error { place, copies, kind: ErrorKind::Unreadable, faults: Vec::new() })
            }
        }
    }
}

impl BlockStore for Disk {
    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        assert!(!bp.is_hole(), "a hole is not read");
        self.get(bp, place)
    }

    fn read_many(
        &self,
        blocks: &[(BlkPtr, Place)],
        key: Option<&Key>,
    ) -> Vec<zio::Result<Arc<Block>>> {
        blocks.iter().map(|(bp, place)| self.read(bp, *place, key)).collect()
    }
}

impl BlockWriter for Disk {
    fn write(&self, data: &Arc<Block>, spec: &WriteSpec, place: Place) -> zio::Result<BlkPtr> {
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
                *self.reused.lock() += 1;
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
        words[6] = (size / 512 - 1) | (size / 512 - 1) << 16 | 2 << 32 | 2 << 40;
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
        // What is killed is gone at once: a reader that still wants it is wrong, or retries.
        if bp.logical_birth() == *self.txg.lock() {
            state.blocks.remove(&bp.dva(0).offset());
        }
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        bp.asize()
    }
}
