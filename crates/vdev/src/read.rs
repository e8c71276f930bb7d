//! Reading blocks: the cheap way for all of a batch at once, the thorough way for what fails.
//!
//! The cheap way reads one copy of every data column, and parity only in place of columns whose
//! devices are not there. If the block then verifies, nothing else is read. Otherwise, and always
//! for a scrub, the thorough way (module `rebuild`) reads everything there is and finds out
//! which device is wrong.

use crate::block::{BlockRead, BlockResult, Scope, fill};
use crate::error::ErrorKind;
use crate::gather::{Gather, Pending, ReadFailure};
use crate::locate::{Piece, Source};
use crate::map::{BLOCK_SIZE_MAX, Column as MapColumn, LABEL_START_SIZE, Stripe};
use crate::queue::{IoClass, LATE_STEPS, LeafQueue};
use crate::tree::{Role, VdevTree};
use device::AlignedBuf;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The cheap way to read one stripe.
struct StripePlan {
    /// Number of the extent of each column, where it is read.
    extents: Vec<Option<usize>>,
}

/// The cheap way to read one block.
struct Plan<'t> {
    pieces: Vec<Piece<'t>>,
    /// For each piece, for each stripe; `None` when too few devices are there.
    stripes: Option<Vec<Vec<StripePlan>>>,
}

impl VdevTree {
    /// Reads one block.
    #[must_use]
    pub fn read(&self, request: BlockRead<'_>) -> BlockResult {
        self.read_alone(&request).unwrap_or_else(|| {
            let mut out = self.read_cheaply(&[request]);
            out.pop().unwrap_or_else(|| self.failed(&request, ErrorKind::OutOfMemory, Vec::new()))
        })
    }

    /// Reads a block that lies in one piece on a device which has it, and which no other request
    /// keeps waiting: on the calling thread, without the plan of a batch, whose lists take as much
    /// processor time as the system takes for the read. `None`: it is not like that.
    fn read_alone(&self, req: &BlockRead<'_>) -> Option<BlockResult> {
        let (vdev, offset) = (req.dva.vdev(), req.dva.offset());
        let top = self.tops.get(&vdev)?;
        let node = self.nodes.get(top.node)?;
        let has_it = matches!(node.role, Role::Leaf)
            && node.device.is_some()
            && !node.is_stale(req.birth)
            && (1..=BLOCK_SIZE_MAX).contains(&req.size);
        let queue = node.queue.as_ref().filter(|queue| has_it && !queue.pace.is_avoided())?;
        self.within(top, vdev, offset, req.size, req.birth).ok()?;
        let (at, len) = (offset.checked_add(LABEL_START_SIZE)?, usize::try_from(req.size).ok()?);
        let read = queue.read_here(IoClass::SyncRead, at, len)?;
        match read.ok().filter(|data| data.len() == len && (req.verify)(data)) {
            Some(data) => Some(BlockResult { data: Ok(data), faults: Vec::new() }),
            None => {
                let pieces = self.locate(vdev, offset, req.size, req.birth).ok()?;
                Some(self.read_thoroughly(req, pieces))
            }
        }
    }

    /// Reads blocks; the results are in the order of the requests.
    ///
    /// All extents of the batch are submitted before the first result is waited for, and memory
    /// is held for all of them: the caller bounds the batch. Blocks are verified on the calling
    /// thread. Must not be called from a device's completion.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "the batch is used up")]
    pub fn read_batch(&self, reqs: Vec<BlockRead<'_>>, scope: Scope) -> Vec<BlockResult> {
        match scope {
            Scope::All => self.read_everything(&reqs),
            Scope::Data => self.read_cheaply(&reqs),
        }
    }

    fn read_cheaply(&self, reqs: &[BlockRead<'_>]) -> Vec<BlockResult> {
        let mut gather = Gather::new(self.rt(), IoClass::SyncRead);
        let plans: Vec<_> = reqs.iter().map(|r| self.plan(r, &mut gather)).collect();
        let pending = gather.start();
        let mut out = Vec::with_capacity(reqs.len());
        for (req, plan) in reqs.iter().zip(plans) {
            out.push(match plan {
                Err(kind) => self.failed(req, kind, Vec::new()),
                Ok(plan) => {
                    let mut late = BTreeSet::new();
                    let data = self.assemble(req, &plan, &pending, &mut late);
                    let elsewhere = || self.read_elsewhere(req, &plan, &late);
                    match data.filter(|data| (req.verify)(data)).or_else(elsewhere) {
                        Some(data) => BlockResult { data: Ok(data), faults: Vec::new() },
                        None => self.read_thoroughly(req, plan.pieces),
                    }
                }
            });
        }
        out
    }

    /// A block some of whose devices are late, from the others alone; `None` when that does not
    /// give the block.
    fn read_elsewhere(
        &self,
        req: &BlockRead<'_>,
        plan: &Plan<'_>,
        late: &BTreeSet<usize>,
    ) -> Option<AlignedBuf> {
        if late.is_empty() {
            return None;
        }
        let mut gather = Gather::new(self.rt(), IoClass::AsyncRead);
        let is_late = |node: usize| late.contains(&node);
        let rests =
            |node: usize| is_late(node) || self.queue_of(node).is_some_and(|q| q.pace.rests());
        let pieces = &plan.pieces;
        let stripes = self.plan_stripes(pieces, req.birth, &mut gather, &rests);
        let stripes =
            stripes.or_else(|| self.plan_stripes(pieces, req.birth, &mut gather, &is_late))?;
        let pending = gather.start();
        let data = self.assemble_from(req, &plan.pieces, &stripes, &|extent, owned| {
            let taken = if owned { pending.take_owned(extent) } else { pending.take(extent) };
            taken.ok()
        })?;
        (req.verify)(&data).then_some(data)
    }

    /// Decides what to read for a block and adds it to the batch.
    fn plan(&self, req: &BlockRead<'_>, gather: &mut Gather) -> Result<Plan<'_>, ErrorKind> {
        let pieces = self.locate(req.dva.vdev(), req.dva.offset(), req.size, req.birth)?;
        let is_avoided = |node| self.queue_of(node).is_some_and(|q| q.pace.is_avoided());
        let mut stripes = self.plan_stripes(&pieces, req.birth, gather, &is_avoided);
        for most in LATE_STEPS {
            stripes = stripes.or_else(|| {
                let is_slower =
                    |node| self.queue_of(node).is_some_and(|q| q.pace.late_reads() > most);
                self.plan_stripes(&pieces, req.birth, gather, &is_slower)
            });
        }
        Ok(Plan { pieces, stripes })
    }

    fn queue_of(&self, node: usize) -> Option<&LeafQueue> {
        self.nodes.get(node)?.queue.as_deref()
    }

    /// The same without the devices to `avoid`; `None` when the others are too few, and then
    /// nothing was added.
    fn plan_stripes(
        &self,
        pieces: &[Piece<'_>],
        birth: u64,
        gather: &mut Gather,
        avoid: &dyn Fn(usize) -> bool,
    ) -> Option<Vec<Vec<StripePlan>>> {
        // First decide for all, then add: a block that goes the thorough way reads nothing here.
        let mut chosen = Vec::new();
        for piece in pieces {
            for stripe in &piece.map.stripes {
                chosen.push(self.choose(piece, stripe, birth, avoid)?);
            }
        }
        let mut chosen = chosen.into_iter();
        let mut stripes = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let plans = piece.map.stripes.iter().zip(&mut chosen).map(|(stripe, sources)| {
                let columns = stripe.columns.iter().zip(sources);
                let extents = columns.map(|(c, s)| self.request(gather, s?, c.size)).collect();
                StripePlan { extents }
            });
            stripes.push(plans.collect());
        }
        Some(stripes)
    }

    /// The source to read of each column: of all data columns, and of parity as far as data
    /// columns have none. `None` when that is not enough.
    fn choose(
        &self,
        piece: &Piece<'_>,
        stripe: &Stripe,
        birth: u64,
        avoid: &dyn Fn(usize) -> bool,
    ) -> Option<Vec<Option<Source>>> {
        let n = stripe.nparity;
        let pick = |c: &MapColumn| {
            let sources = self.sources(piece, c.child, c.offset, c.size, birth);
            sources.into_iter().find(|s| s.open && !s.stale && !avoid(s.node))
        };
        let mut out = vec![None; stripe.columns.len()];
        let mut lost = 0usize;
        for (c, slot) in stripe.columns.iter().zip(&mut out).skip(n).filter(|(c, _)| c.size > 0) {
            *slot = pick(c);
            lost += usize::from(slot.is_none());
        }
        for (c, slot) in stripe.columns.iter().zip(&mut out).take(n) {
            if lost == 0 {
                break;
            }
            *slot = pick(c);
            lost -= usize::from(slot.is_some());
        }
        (lost == 0).then_some(out)
    }

    /// Waits for the block's extents and puts the block together. Devices that are not waited for
    /// come to the `late` ones.
    fn assemble(
        &self,
        req: &BlockRead<'_>,
        plan: &Plan<'_>,
        pending: &Pending,
        late: &mut BTreeSet<usize>,
    ) -> Option<AlignedBuf> {
        let late = RefCell::new(late);
        let take = |extent, owned| match pending.take_in_time(extent, owned) {
            Ok(bytes) => Some(bytes),
            Err(ReadFailure::Failed) => None,
            Err(ReadFailure::Late) => {
                late.borrow_mut().extend(pending.node_of(extent));
                None
            }
        };
        self.assemble_from(req, &plan.pieces, plan.stripes.as_ref()?, &take)
    }

    /// The same of extents that `take` gives, by number; in memory of their own or not.
    fn assemble_from(
        &self,
        req: &BlockRead<'_>,
        pieces: &[Piece<'_>],
        stripes: &[Vec<StripePlan>],
        take: &dyn Fn(usize, bool) -> Option<AlignedBuf>,
    ) -> Option<AlignedBuf> {
        if let ([piece], [stripe]) = (pieces, stripes.first()?.as_slice())
            && let [Some(extent)] = stripe.extents[..]
            && piece.map.size == req.size
        {
            // One extent is the whole block.
            return take(extent, true);
        }
        let total = pieces.iter().map(|p| p.at + p.map.size).max()?;
        let mut out = AlignedBuf::try_zeroed(usize::try_from(total).ok()?)?;
        let mut good = true;
        for (piece, plans) in pieces.iter().zip(stripes) {
            for (stripe, plan) in piece.map.stripes.iter().zip(plans) {
                let taken: Vec<_> =
                    plan.extents.iter().map(|e| e.map(|e| take(e, false))).collect();
                // Go on after a failure: what was read must be taken, or it stays in memory.
                good &= !taken.iter().any(|t| matches!(t, Some(None)));
                let columns: Vec<_> = taken.iter().map(|t| t.as_ref()?.as_deref()).collect();
                let at = usize::try_from(piece.at).ok()?;
                good = good && fill(stripe, &columns, out.get_mut(at..)?).is_some();
            }
        }
        out.truncate(usize::try_from(req.size).ok()?);
        good.then_some(out)
    }
}
