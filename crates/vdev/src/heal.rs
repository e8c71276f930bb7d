//! Blocks made whole again: what is wrong on a device, or was never written there, is written from
//! what is right.
//!
//! # Theory
//!
//! A block is read thoroughly (`rebuild.rs`), which finds out what each device should hold. What a
//! device that is written to holds otherwise is written over. So scrub and resilver are the same
//! work, on other blocks:
//!
//! - a scrub reads everything of a block, and writes where something is wrong;
//! - a resilver asks for blocks of which a device missed the txg. That device is not read: what it
//!   missed is written, whatever is there. When the others do not suffice it is asked after all.
//!
//! The caller makes sure that the space of the block is not given to another meanwhile: nothing
//! here could tell. What is written is durable after the next flush.

use crate::error::{Error, ErrorKind, Fault};
use crate::gather::Gather;
use crate::health::Health;
use crate::locate::{Piece, Source};
use crate::queue::IoClass;
use crate::read::BlockRead;
use crate::rebuild::{Ask, Correction};
use crate::tree::VdevTree;
use device::{AlignedBuf, Shared, Write};
use parking_lot::Mutex;
use rt::Condvar;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heal {
    /// Whatever is wrong.
    All,
    /// Blocks that a device which is written to missed; the others are not read.
    Missed,
}

/// What healing one copy of a block gave.
#[derive(Debug)]
pub struct Healed {
    /// The verified block, or why there is none; `None` when it was not read.
    pub data: Option<Result<AlignedBuf, Error>>,
    /// What was found wrong on the way.
    pub faults: Vec<Fault>,
    /// Bytes that were written to devices.
    pub repaired: u64,
    /// Devices that did not take what was written to them.
    pub refused: Vec<u64>,
}

/// Writes under way, by the number of the block that they are of.
struct Writing {
    state: Mutex<Answers>,
    arrived: Condvar,
}

#[derive(Default)]
struct Answers {
    left: usize,
    refused: Vec<(usize, u64)>,
}

/// One of them. One that is dropped unanswered was refused.
struct Part {
    writing: Arc<Writing>,
    block: usize,
    guid: u64,
    birth: u64,
    health: Arc<Health>,
    is_done: bool,
}

impl Part {
    fn answer(mut self, result: Result<(), device::Error>) {
        match result {
            Ok(()) => self.is_done = true,
            Err(e) => self.health.write_failed(&e),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut state = self.writing.state.lock();
        if !self.is_done {
            self.health.miss(self.birth);
            state.refused.push((self.block, self.guid));
        }
        state.left -= 1;
        if state.left == 0 {
            self.writing.arrived.notify_all();
        }
    }
}

impl VdevTree {
    /// Reads copies of blocks and writes what devices should hold of them and do not. All of a
    /// batch is in memory at the same time: the caller bounds it. Must not be called from a
    /// device's completion.
    #[must_use]
    pub fn heal_batch(&self, reqs: &[BlockRead<'_>], heal: Heal) -> Vec<Healed> {
        let mut gather = Gather::bulk(self.rt(), IoClass::Scrub);
        let plans: Vec<_> = reqs.iter().map(|r| self.plan_healing(r, heal, &mut gather)).collect();
        let pending = gather.start();
        let mut corrections = Vec::new();
        let mut out = Vec::with_capacity(reqs.len());
        for ((block, req), plan) in reqs.iter().enumerate().zip(plans) {
            let (mut result, mut found) = match plan {
                Err(kind) => (self.failed(req, kind, Vec::new()), Vec::new()),
                Ok(None) => {
                    let (data, faults, refused) = (None, Vec::new(), Vec::new());
                    out.push(Healed { data, faults, repaired: 0, refused });
                    continue;
                }
                Ok(Some(requested)) => self.judge_requested(req, requested, &|i| pending.take(i)),
            };
            if heal == Heal::Missed && result.data.is_err() {
                // Perhaps what missed the txg has the block all the same.
                if let Ok(pieces) = self.locate_all(req) {
                    (result, found) = self.read_and_correct(req, pieces);
                }
            }
            let is_of_use = |c: &Correction| match heal {
                Heal::All => true,
                Heal::Missed => c.source.stale,
            };
            let found = found.into_iter().filter(is_of_use).map(|c| (block, c));
            corrections.extend(found);
            let faults = result.faults;
            out.push(Healed { data: Some(result.data), faults, repaired: 0, refused: Vec::new() });
        }
        self.write_corrections(corrections, &mut out);
        out
    }

    fn locate_all(&self, req: &BlockRead<'_>) -> Result<Vec<Piece<'_>>, ErrorKind> {
        self.locate(req.dva.vdev(), req.dva.offset(), req.size, req.birth)
    }

    /// Adds what is to be read of a block; `None` when nothing of it is to be healed.
    fn plan_healing<'t>(
        &'t self,
        req: &BlockRead<'_>,
        heal: Heal,
        gather: &mut Gather,
    ) -> Result<Option<crate::rebuild::RequestedBlock<'t>>, ErrorKind> {
        let pieces = self.locate_all(req)?;
        let ask = match heal {
            Heal::All => Ask::Everything,
            Heal::Missed if self.is_missed_somewhere(req, &pieces) => Ask::Current,
            Heal::Missed => return Ok(None),
        };
        Ok(Some(self.ask(req, pieces, ask, gather)))
    }

    /// A device that can be written to missed a part of the block.
    fn is_missed_somewhere(&self, req: &BlockRead<'_>, pieces: &[Piece<'_>]) -> bool {
        let is_missed = |s: &Source| s.stale && self.healer(s).is_some();
        pieces.iter().any(|piece| {
            let columns = piece.map.stripes.iter().flat_map(|s| &s.columns).filter(|c| c.size > 0);
            let mut sources =
                columns.flat_map(|c| self.sources(piece, c.child, c.offset, c.size, req.birth));
            sources.any(|s| is_missed(&s))
        })
    }

    /// The number of the node, when its device is written to.
    fn healer(&self, source: &Source) -> Option<usize> {
        let node = self.nodes.get(source.node)?;
        (node.writer.is_some() && !node.health.is_out()).then_some(source.node)
    }

    fn write_corrections(&self, corrections: Vec<(usize, Correction)>, out: &mut [Healed]) {
        let state = Mutex::new(Answers { left: 1, refused: Vec::new() });
        let writing = Arc::new(Writing { state, arrived: self.rt().condvar() });
        let mut batches: BTreeMap<usize, Vec<Write>> = BTreeMap::new();
        for (block, Correction { source, bytes }) in corrections {
            let Some(index) = self.healer(&source) else { continue };
            let Some(node) = self.nodes.get(index) else { continue };
            if let Some(healed) = out.get_mut(block) {
                healed.repaired += bytes.len() as u64;
            }
            writing.state.lock().left += 1;
            let part = Part {
                writing: Arc::clone(&writing),
                block,
                guid: node.guid,
                birth: source.txg,
                health: Arc::clone(&node.health),
                is_done: false,
            };
            let done = Box::new(move |result| part.answer(result));
            let parts = vec![Shared::from(bytes)];
            batches.entry(index).or_default().push(Write { offset: source.offset, parts, done });
        }
        for (index, mut batch) in batches {
            if let Some(queue) = self.nodes.get(index).and_then(|n| n.queue.as_ref()) {
                batch.sort_by_key(|w| w.offset);
                queue.write_batch(IoClass::Scrub, batch);
            }
        }
        let mut state = writing.state.lock();
        state.left -= 1;
        while state.left > 0 {
            writing.arrived.wait(&mut state);
        }
        for (block, guid) in std::mem::take(&mut state.refused) {
            if let Some(healed) = out.get_mut(block) {
                healed.refused.push(guid);
            }
        }
    }
}
