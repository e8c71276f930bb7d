//! Blocks made whole again: what is wrong on a device, or was never written there, is written from
//! what is right.
//!
//! # Theory
//!
//! A block is read thoroughly (`rebuild.rs`), which computes what each device should hold. A device
//! that is written to and holds something else is corrected. So scrub and resilver are the same
//! work, on other blocks:
//!
//! - a scrub reads everything of a block, and writes where something is wrong;
//! - a block of which a reader met a bad copy is treated in the same way, and what the reader has
//!   counted is not counted again. A device that does not answer, or became shorter, is left alone:
//!   what has become of it is found out elsewhere;
//! - a resilver is given the blocks whose txg a device missed. That device is not read: what it
//!   missed is written, whatever it has. If the others do not suffice it is read after all. A
//!   device that waits for a later resilver is passed over;
//! - a sequential rebuild asks for ranges of which no block is known. They are not verified, so a
//!   device that missed anything is not read, and written over, whatever it missed.
//!
//! On a RAID-Z that gets wider a sector may be at two places (`flow.rs`). Each is looked at, and
//! counts as a copy. A place that a step is being copied to is not: it gets what was found wrong
//! where the step copies from. Healing is a write, so the step copies what is healed once more.
//!
//! The caller makes sure that the space of the block is not given to another meanwhile: it cannot
//! be detected here. The corrections are durable after the next flush.

use crate::awaited::Awaited;
use crate::block::BlockRead;
use crate::error::{Error, ErrorKind, Fault};
use crate::flow::EpochGuard;
use crate::gather::Gather;
use crate::health::{Health, UNKNOWN_TXG};
use crate::locate::{Piece, Source};
use crate::queue::IoClass;
use crate::rebuild::{Correction, ReadScope};
use crate::tree::VdevTree;
use crate::write::Batches;
use device::{AlignedBuf, Shared, Write};
use std::sync::Arc;

/// The scope of healing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heal {
    /// Whatever is wrong.
    All,
    /// Whatever is wrong of blocks of which a reader met bad copies. Those were counted then, so no
    /// error is counted here: the caller counts what is new ([`VdevTree::count_fault`]).
    Met,
    /// Blocks that a device which is written to missed; the others are not read.
    Missed,
    /// Ranges that are as good as blocks of an unknown txg, 0.
    Rebuild,
}

impl Heal {
    fn class(self) -> IoClass {
        if self == Self::Rebuild { IoClass::Rebuild } else { IoClass::Scrub }
    }
}

/// The result of healing one copy of a block.
#[derive(Debug)]
pub struct Healed {
    /// The verified block, or why there is none; `None` when it was not read.
    pub data: Option<Result<AlignedBuf, Error>>,
    /// The faults found on the way.
    pub faults: Vec<Fault>,
    /// Bytes that were written to devices.
    pub repaired: u64,
    /// Devices that did not take what was written to them.
    pub refused: Vec<u64>,
}

/// A write under way. One that is dropped unanswered was refused: of which block, and by which
/// device.
struct Part {
    writing: Arc<Awaited<(usize, u64)>>,
    block: usize,
    guid: u64,
    birth: u64,
    health: Arc<Health>,
    is_done: bool,
    _epoch_guard: Option<EpochGuard>,
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
        // Of an unknown txg, it is among those that the device missed anyway.
        if !self.is_done && self.birth != UNKNOWN_TXG {
            self.health.miss(self.birth);
        }
        self.writing.end((!self.is_done).then_some((self.block, self.guid)));
    }
}

impl VdevTree {
    /// Reads copies of blocks and writes what devices should hold of them and do not. All of a
    /// batch is in memory at the same time: the caller bounds it. Must not be called from a
    /// device's completion.
    #[must_use]
    pub fn heal_batch(&self, reqs: &[BlockRead<'_>], heal: Heal) -> Vec<Healed> {
        let mut gather = Gather::bulk(self.rt(), heal.class());
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
                Ok(Some(block)) => {
                    let counts = heal != Heal::Met;
                    self.judge_requested(req, block, counts, &|i| pending.take(i))
                }
            };
            if heal == Heal::Missed && result.data.is_err() {
                // Perhaps what missed the txg has the block all the same.
                if let Ok(pieces) = self.locate_all(req) {
                    (result, found) = self.read_and_correct(req, pieces);
                }
            }
            let is_of_use = |c: &Correction| match heal {
                Heal::All => true,
                Heal::Met => !c.is_away,
                Heal::Missed => c.source.stale && !self.is_waiting(&c.source),
                Heal::Rebuild => c.source.stale,
            };
            let found = found.into_iter().filter(is_of_use).map(|c| (block, c));
            corrections.extend(found);
            let faults = result.faults;
            out.push(Healed { data: Some(result.data), faults, repaired: 0, refused: Vec::new() });
        }
        self.write_corrections(corrections, heal.class(), &mut out);
        out
    }

    fn locate_all(&self, req: &BlockRead<'_>) -> Result<Vec<Piece<'_>>, ErrorKind> {
        self.locate_to_write(req.dva.vdev(), req.dva.offset(), req.size, req.birth)
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
            Heal::All | Heal::Met => ReadScope::Everything,
            _ if self.is_missed_somewhere(req, &pieces, heal) => ReadScope::Current,
            _ => return Ok(None),
        };
        Ok(Some(self.ask(req, pieces, ask, gather)))
    }

    /// A device that can be written to missed a part of the block. If a distributed spare lacks
    /// something on a device that cannot be written to, that device lacks it from now on: the spare
    /// may have all then.
    fn is_missed_somewhere(&self, req: &BlockRead<'_>, pieces: &[Piece<'_>], heal: Heal) -> bool {
        let mut is_missed = false;
        for piece in pieces {
            let columns = piece.map.stripes.iter().flat_map(|s| &s.columns);
            for c in columns.filter(|c| c.size + c.pad > 0) {
                let len = c.size + c.pad;
                let sources = c
                    .whole_places()
                    .flat_map(|(child, offset)| self.sources(piece, child, offset, len, req.birth));
                for source in sources.filter(|s| s.stale) {
                    match self.healer(&source) {
                        Some(_) if heal == Heal::Missed && self.is_waiting(&source) => {}
                        Some(_) => is_missed = true,
                        None => self.lacks_for_spare(&source),
                    }
                }
            }
        }
        is_missed
    }

    /// Records that the device of a source lacks what the distributed spare that it carries lacks.
    fn lacks_for_spare(&self, source: &Source) {
        let spare = source.lacking_spare.and_then(|spare| self.nodes.get(spare));
        let (Some(spare), Some(node)) = (spare, self.nodes.get(source.node)) else { return };
        match source.txg {
            UNKNOWN_TXG => node.health.change_missed(|missed| missed.merge(&spare.health.missed())),
            txg => node.health.miss(txg),
        }
    }

    /// What its device lacks is brought by a later resilver.
    fn is_waiting(&self, source: &Source) -> bool {
        self.nodes.get(source.node).is_some_and(|node| node.health.is_waiting())
    }

    /// The number of the node, when its device is written to.
    fn healer(&self, source: &Source) -> Option<usize> {
        let node = self.nodes.get(source.node)?;
        (node.writer.is_some() && !node.health.is_out()).then_some(source.node)
    }

    fn write_corrections(
        &self,
        corrections: Vec<(usize, Correction)>,
        class: IoClass,
        out: &mut [Healed],
    ) {
        let writing = Awaited::new(self.rt());
        let mut batches = Batches::new();
        for (block, Correction { source, bytes, epoch_guard, .. }) in corrections {
            let Some(index) = self.healer(&source) else { continue };
            let Some(node) = self.nodes.get(index) else { continue };
            if let Some(healed) = out.get_mut(block) {
                healed.repaired += bytes.len() as u64;
            }
            writing.begin();
            let part = Part {
                writing: Arc::clone(&writing),
                block,
                guid: node.guid,
                birth: source.txg,
                health: Arc::clone(&node.health),
                is_done: false,
                _epoch_guard: epoch_guard,
            };
            let done = Box::new(move |result| part.answer(result));
            let parts = vec![Shared::from(bytes)];
            let write = Write { offset: source.offset, parts, done };
            batches.entry((index, class)).or_default().push(write);
        }
        self.submit(batches);
        for (block, guid) in writing.wait() {
            if let Some(healed) = out.get_mut(block) {
                healed.refused.push(guid);
            }
        }
    }
}
