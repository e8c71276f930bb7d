//! Reading a block thoroughly: everything there is of it, every combination, and which device was
//! wrong.
//!
//! A column is on one device, or on several when its child is a mirror, a replacement or a spare.
//! All are read. A *version* of a piece of the block is one choice among what was delivered:
//!
//! - for every child with several devices, which of them to believe, and
//! - which children to distrust altogether, so that their columns are computed from parity: none,
//!   then every single one, every two, every three, as far as there is parity.
//!
//! Versions are tried until the block verifies. When it is in several pieces (a removed vdev) the
//! versions of all pieces are combined. When the block is known, each device's bytes are compared
//! with what they should be; that, not the search, tells which devices are wrong.
//!
//! A reader does not wait for a device that takes unusually long (`queue/pace.rs`) when the block
//! is to be had without it: what the others delivered is tried first.
//!
//! On a RAID-Z that was expanded a child's column is spread over the new width, and what a disk
//! silently got wrong before the expansion was carefully copied to other disks. Former children
//! are therefore suspects too: sector `n` of the vdev was on child `n % width` of every width.

use crate::block::{BlockRead, BlockResult, fill};
use crate::error::{ErrorKind, Fault, FaultKind};
use crate::flow::EpochGuard;
use crate::gather::Gather;
use crate::locate::{Piece, Source};
use crate::map::{BlockMap, Column};
use crate::queue::IoClass;
use crate::tree::{Node, VdevTree};
use device::AlignedBuf;

/// Bytes assembled and verified at most for one block before giving up...
const WORK_MAX: u64 = 4 << 30;
/// ...but never fewer combinations than these (all single and double failures of a wide vdev of
/// full-size blocks), and never more than those (small blocks).
const TRIES: (u64, u64) = (512, 16384);
/// Sets of suspects listed for one piece.
const SUSPECT_SETS_MAX: usize = 4096;
/// Choices among devices with different contents listed for one piece.
const CHOICES_MAX: u64 = 64;

/// The data of one column from one device.
struct ColumnCopy {
    source: Source,
    len: u64,
    /// `None` when the device is not open, or takes too long.
    bytes: Option<Result<AlignedBuf, device::Error>>,
}

/// The knowledge about one column.
struct Cell {
    copies: Vec<ColumnCopy>,
    /// Indices of copies that differ from all before them, best first.
    distinct: Vec<usize>,
}

/// Everything that was read of one piece.
struct PieceData<'t> {
    piece: Piece<'t>,
    /// By stripe, by column.
    cells: Vec<Vec<Cell>>,
    suspects: Vec<Vec<Suspect>>,
    choices: u64,
}

/// A child not to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspect {
    /// A child of today.
    Child(usize),
    /// A child of the time when the vdev had this width.
    Former { width: u64, child: u64 },
}

impl Suspect {
    fn is_guilty(self, column: &Column) -> bool {
        match self {
            Self::Child(c) => column.child == c,
            Self::Former { width, child } => column.sector % width == child,
        }
    }
}

impl ColumnCopy {
    fn data(&self) -> Option<&[u8]> {
        self.bytes.as_ref()?.as_ref().ok().map(|b| &b[..])
    }

    /// The device is not there, does not answer, or is shorter than it was.
    fn is_away(&self) -> bool {
        match &self.bytes {
            None => true,
            Some(Ok(_)) => false,
            Some(Err(e)) => !matches!(e.kind, device::ErrorKind::Io { .. }),
        }
    }
}

impl Cell {
    /// The bytes to believe by `choice`: a number whose digits are the children's choices.
    fn believed(&self, column: &Column, choice: usize) -> Option<&[u8]> {
        let last = self.distinct.len().checked_sub(1)?;
        let copy = self.copies.get(*self.distinct.get(choice.min(last))?)?;
        copy.data()?.get(..usize::try_from(column.size).ok()?)
    }
}

impl VdevTree {
    /// Reads blocks with all their copies and parity.
    pub(crate) fn read_everything(&self, reqs: &[BlockRead<'_>]) -> Vec<BlockResult> {
        let mut gather = Gather::bulk(self.rt(), IoClass::Scrub);
        let plans: Vec<_> = reqs
            .iter()
            .map(|r| {
                let pieces = self.locate(r.dva.vdev(), r.dva.offset(), r.size, r.birth)?;
                Ok(self.ask(r, pieces, ReadScope::Everything, &mut gather))
            })
            .collect();
        let pending = gather.start();
        let mut out = Vec::with_capacity(reqs.len());
        for (req, plan) in reqs.iter().zip(plans) {
            out.push(match plan {
                Err(kind) => self.failed(req, kind, Vec::new()),
                Ok(block) => {
                    let data = all_of(block, &|i| pending.take(i));
                    self.judge(req, &data, Judging { all: true, counts: true }).cut(req)
                }
            });
        }
        out
    }

    /// The requested block, and the corrections of its devices, which count errors with `counts`.
    pub(crate) fn judge_requested(
        &self,
        req: &BlockRead<'_>,
        block: RequestedBlock<'_>,
        counts: bool,
        take: &dyn Fn(usize) -> Result<AlignedBuf, device::Error>,
    ) -> (BlockResult, Vec<Correction>) {
        let data = all_of(block, take);
        let result = self.judge(req, &data, Judging { all: false, counts });
        let mut out = Vec::new();
        if let Ok(block) = &result.data {
            data.iter().for_each(|h| self.correct(req, h, block, &mut out));
        }
        (result.cut(req), out)
    }

    /// Reads everything of one block, and the same.
    pub(crate) fn read_and_correct(
        &self,
        req: &BlockRead<'_>,
        pieces: Vec<Piece<'_>>,
    ) -> (BlockResult, Vec<Correction>) {
        let mut gather = Gather::new(self.rt(), IoClass::Scrub);
        let block = self.ask(req, pieces, ReadScope::Everything, &mut gather);
        let pending = gather.start();
        self.judge_requested(req, block, true, &|i| pending.take(i))
    }

    /// Reads one block with all its copies and parity, after the cheap way failed.
    pub(crate) fn read_thoroughly(
        &self,
        req: &BlockRead<'_>,
        pieces: Vec<Piece<'_>>,
    ) -> BlockResult {
        let judging = Judging { all: false, counts: true };
        let begin = |pieces| {
            let mut gather = Gather::new(self.rt(), IoClass::SyncRead);
            let block = self.ask(req, pieces, ReadScope::Everything, &mut gather);
            (block, gather.start())
        };
        let (mut block, mut pending) = begin(pieces);
        let extents: Vec<usize> = block.iter().flat_map(RequestedPiece::extents).collect();
        let late = pending.not_in_time(&extents);
        if !late.is_empty() {
            let take = |i: usize| (!late.contains(&i)).then(|| pending.take(i));
            let data: Vec<_> = block.into_iter().map(|a| a.data(&take)).collect();
            if let Some(block) = Search::new(req, &data).run() {
                return self.found(req, &data, block, judging).cut(req);
            }
            // It takes the late ones as well.
            (block, pending) = begin(data.into_iter().map(|h| h.piece).collect());
        }
        self.judge(req, &all_of(block, &|i| pending.take(i)), judging).cut(req)
    }

    pub(crate) fn ask<'t>(
        &self,
        req: &BlockRead<'_>,
        pieces: Vec<Piece<'t>>,
        ask: ReadScope,
        gather: &mut Gather,
    ) -> RequestedBlock<'t> {
        let mut out = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let mut stripes = Vec::with_capacity(piece.map.stripes.len());
            for stripe in &piece.map.stripes {
                let column = |c: &Column| {
                    let len = c.size + c.pad;
                    let sources: Vec<Source> = match len {
                        0 => Vec::new(),
                        len => c
                            .whole_places()
                            .flat_map(|(child, offset)| {
                                self.sources(&piece, child, offset, len, req.birth)
                            })
                            .collect(),
                    };
                    let mut extent = |s: Source| match ask {
                        ReadScope::Current if s.stale => None,
                        _ => self.request(gather, s, len),
                    };
                    let with = |s| (s, len, extent(s));
                    sources.into_iter().map(with).collect::<Vec<_>>()
                };
                stripes.push(stripe.columns.iter().map(column).collect());
            }
            out.push(RequestedPiece { piece, stripes });
        }
        out
    }

    /// Finds the block in what was read, with the rest of its last sector, and the devices that
    /// delivered something else.
    fn judge(
        &self,
        req: &BlockRead<'_>,
        pieces: &[PieceData<'_>],
        judging: Judging,
    ) -> BlockResult {
        let mut search = Search::new(req, pieces);
        if let Some(block) = search.run() {
            return self.found(req, pieces, block, judging);
        }
        let (tried, complete) = (search.tried, search.complete);
        let mut faults = Vec::new();
        let accusing = Judging { all: true, ..judging };
        pieces.iter().for_each(|h| self.accuse(req, h, None, accusing, &mut faults));
        // A block of which too few devices could be read is not wrong.
        let counts = judging.counts && !req.speculative && complete == Some(true);
        for h in pieces.iter().filter(|_| counts) {
            h.piece.node.health.read_wrong();
            self.suspect_children(h);
        }
        let kind = match complete {
            Some(true) => ErrorKind::Checksum { tried },
            Some(false) => ErrorKind::TooFewDevices,
            None => ErrorKind::OutOfMemory,
        };
        self.failed(req, kind, faults)
    }

    /// Some children of a vdev with parity delivered wrong bytes of a block, and nothing says
    /// which. As in OpenZFS, each one counts an error for each column that it delivered; not one
    /// that could not be read, or lacks the block.
    fn suspect_children(&self, h: &PieceData<'_>) {
        for (stripe, cells) in h.piece.map.stripes.iter().zip(&h.cells) {
            let columns = stripe.columns.iter().zip(cells).filter(|_| stripe.nparity > 0);
            let delivered = |cell: &Cell| {
                cell.copies.iter().any(|copy| !copy.source.stale && copy.data().is_some())
            };
            for (column, _) in columns.filter(|(_, cell)| delivered(cell)) {
                let child = h.piece.node.children.get(column.child);
                if let Some(node) = child.and_then(|index| self.nodes.get(*index)) {
                    node.health.read_wrong();
                }
            }
        }
    }

    /// The block that was found in what was read, and the devices that delivered something else.
    fn found(
        &self,
        req: &BlockRead<'_>,
        pieces: &[PieceData<'_>],
        mut block: AlignedBuf,
        judging: Judging,
    ) -> BlockResult {
        settle_rest(req, pieces, &mut block);
        let mut faults = Vec::new();
        pieces.iter().for_each(|h| self.accuse(req, h, Some(&block), judging, &mut faults));
        BlockResult { data: Ok(block), faults }
    }

    /// The corrections of the devices for one piece of a block, as far as they are known.
    fn correct(
        &self,
        req: &BlockRead<'_>,
        h: &PieceData<'_>,
        block: &[u8],
        out: &mut Vec<Correction>,
    ) {
        let shift = self.tops.get(&h.piece.vdev).map_or(0, |top| top.ashift);
        let sector = 1usize.checked_shl(shift).unwrap_or(1);
        for (stripe, cells) in h.piece.map.stripes.iter().zip(&h.cells) {
            let Some(truth) = truth(req, h, stripe, block) else { continue };
            let columns = stripe.columns.iter().zip(cells).zip(&truth).enumerate();
            for (i, ((column, cell), bytes)) in columns {
                let is_parity = i < stripe.nparity;
                let expected = Expected::Bytes(bytes);
                let is_wrong = |c: &&ColumnCopy| verdict(c, column, is_parity, expected).is_some();
                let wrong = cell.copies.iter().filter(is_wrong).map(|c| (c.source, c.is_away()));
                let mut wrong: Vec<(Source, bool)> = wrong.collect();
                if !wrong.is_empty() {
                    wrong.extend(self.copied_to(req, h, column).map(|source| (source, false)));
                }
                // The bytes behind the block's last, and those that fill up the stripe, are zeros.
                let len = ((column.size + column.pad) as usize).next_multiple_of(sector);
                for (source, is_away) in wrong {
                    let mut whole = AlignedBuf::zeroed(len);
                    if let Some(front) = whole.get_mut(..bytes.len()) {
                        front.copy_from_slice(bytes);
                        let epoch_guard = h.piece.epoch_guard.clone();
                        out.push(Correction { source, bytes: whole, is_away, epoch_guard });
                    }
                }
            }
        }
    }

    /// Where a step that is not durable copies a column to.
    fn copied_to<'a>(
        &'a self,
        req: &'a BlockRead<'_>,
        h: &'a PieceData<'_>,
        column: &'a Column,
    ) -> impl Iterator<Item = Source> + 'a {
        let places = column.also.iter().filter(|other| !other.is_whole);
        let len = column.size + column.pad;
        places.flat_map(move |o| self.sources(&h.piece, o.child, o.offset, len, req.birth))
    }

    /// Lists what is wrong with the copies of one piece, given the right block or, without it,
    /// what is wrong beyond doubt.
    fn accuse(
        &self,
        req: &BlockRead<'_>,
        h: &PieceData<'_>,
        block: Option<&[u8]>,
        judging: Judging,
        faults: &mut Vec<Fault>,
    ) {
        for (stripe, cells) in h.piece.map.stripes.iter().zip(&h.cells) {
            let truth = block.and_then(|b| truth(req, h, stripe, b));
            // A copy of an undivided block was verified by itself and found wrong.
            let alone = block.is_none() && stripe.nparity == 0 && h.piece.map.size == req.size;
            for (i, (column, cell)) in stripe.columns.iter().zip(cells).enumerate() {
                let expected = match truth.as_ref().and_then(|t| t.get(i)) {
                    Some(t) => Expected::Bytes(t),
                    None if alone => Expected::Other,
                    None => Expected::Unknown,
                };
                for copy in &cell.copies {
                    let Some(kind) = verdict(copy, column, i < stripe.nparity, expected) else {
                        continue;
                    };
                    let harmless = matches!(kind, FaultKind::Missing | FaultKind::Stale);
                    if judging.all || !harmless {
                        let node = self.nodes.get(copy.source.node).unwrap_or(h.piece.node);
                        // Bytes where the block may never have been written are no error.
                        let is_error = matches!(kind, FaultKind::Io(_)) || !req.speculative;
                        if judging.counts && is_error {
                            count(node, &kind);
                        }
                        faults.push(copy_fault((h.piece.vdev, node), copy, kind, block.is_some()));
                    }
                }
            }
        }
    }

    /// Counts a fault of a device as an error of it, as reads do.
    pub fn count_fault(&self, fault: &Fault) {
        if let Some(node) = self.nodes.iter().find(|node| node.guid == fault.guid) {
            count(node, &fault.kind);
        }
    }
}

/// Counts a fault of a device.
fn count(node: &Node, kind: &FaultKind) {
    match kind {
        FaultKind::Io(e) => node.health.read_failed(e),
        FaultKind::Checksum | FaultKind::ParityMismatch => node.health.read_wrong(),
        FaultKind::Missing | FaultKind::Stale | FaultKind::Block(_) => {}
    }
}

fn copy_fault(
    (vdev, node): (u32, &Node),
    copy: &ColumnCopy,
    kind: FaultKind,
    repaired: bool,
) -> Fault {
    let (guid, path, offset) = (node.guid, node.name.clone(), copy.source.offset);
    Fault { vdev, guid, path, offset, len: copy.len, kind, repaired }
}

/// What comes of copies that are not as they should be.
#[derive(Clone, Copy)]
struct Judging {
    /// Devices that are known to be missing or stale are faults as well.
    all: bool,
    /// Devices count errors.
    counts: bool,
}

/// The part of a block that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadScope {
    /// All there is.
    Everything,
    /// Nothing of devices that missed it.
    Current,
}

/// The right contents of a place on a device.
pub(crate) struct Correction {
    pub(crate) source: Source,
    pub(crate) bytes: AlignedBuf,
    /// The device did not answer, or not as one that is all there.
    pub(crate) is_away: bool,
    /// The place is that of the block as long as this is kept.
    pub(crate) epoch_guard: Option<EpochGuard>,
}

/// All requested pieces of a block.
pub(crate) type RequestedBlock<'t> = Vec<RequestedPiece<'t>>;

/// One source of a column: its length, and the number of the extent where the device is open.
type RequestedCopy = (Source, u64, Option<usize>);

/// A piece whose extents are in the batch.
pub(crate) struct RequestedPiece<'t> {
    piece: Piece<'t>,
    /// By stripe, column and source.
    stripes: Vec<Vec<Vec<RequestedCopy>>>,
}

impl<'t> RequestedPiece<'t> {
    /// The numbers of its extents.
    fn extents(&self) -> impl Iterator<Item = usize> + '_ {
        self.stripes.iter().flatten().flatten().filter_map(|(_, _, extent)| *extent)
    }

    /// What was read, as far as `take` gives it.
    fn data(
        self,
        take: &dyn Fn(usize) -> Option<Result<AlignedBuf, device::Error>>,
    ) -> PieceData<'t> {
        let cell = |requested: Vec<RequestedCopy>| {
            let copies: Vec<ColumnCopy> = requested
                .into_iter()
                .map(|(source, len, extent)| ColumnCopy {
                    source,
                    len,
                    bytes: extent.and_then(take),
                })
                .collect();
            let mut distinct: Vec<usize> = Vec::new();
            for (i, copy) in copies.iter().enumerate() {
                let Some(data) = copy.data() else { continue };
                let seen = |j: &usize| copies.get(*j).and_then(ColumnCopy::data) == Some(data);
                if !distinct.iter().any(seen) {
                    distinct.push(i);
                }
            }
            Cell { copies, distinct }
        };
        let row = |columns: Vec<_>| columns.into_iter().map(cell).collect::<Vec<Cell>>();
        let cells: Vec<Vec<Cell>> = self.stripes.into_iter().map(row).collect();
        let suspects = suspect_sets(&self.piece.map);
        let contents = cells.iter().flatten().map(|c| c.distinct.len().max(1) as u64);
        // The digits of a choice all count up to the most contents that any column has.
        let most = contents.max().unwrap_or(1);
        let children = divided_children(&self.piece.map, &cells).len() as u32;
        let choices = most.saturating_pow(children).clamp(1, CHOICES_MAX);
        PieceData { piece: self.piece, cells, suspects, choices }
    }
}

/// All that was read of a block.
fn all_of<'t>(
    block: RequestedBlock<'t>,
    take: &dyn Fn(usize) -> Result<AlignedBuf, device::Error>,
) -> Vec<PieceData<'t>> {
    let take = |extent| Some(take(extent));
    block.into_iter().map(|piece| piece.data(&take)).collect()
}

/// Children with devices that delivered different bytes.
fn divided_children(map: &BlockMap, cells: &[Vec<Cell>]) -> Vec<usize> {
    let pairs = map.stripes.iter().zip(cells).flat_map(|(s, c)| s.columns.iter().zip(c));
    let mut out: Vec<usize> =
        pairs.filter(|(_, cell)| cell.distinct.len() > 1).map(|(c, _)| c.child).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Sets of suspects, smaller ones first, beginning with the empty one.
fn suspect_sets(map: &BlockMap) -> Vec<Vec<Suspect>> {
    let nparity = map.stripes.first().map_or(0, |s| s.nparity);
    let mut sets = vec![Vec::new()];
    if nparity == 0 {
        return sets;
    }
    let mut children: Vec<usize> = map
        .stripes
        .iter()
        .flat_map(|s| &s.columns)
        .filter(|c| c.size > 0)
        .map(|c| c.child)
        .collect();
    children.sort_unstable();
    children.dedup();
    let mut suspects: Vec<Suspect> = children.into_iter().map(Suspect::Child).collect();
    for width in &map.former_widths {
        suspects.extend((0..*width).map(|child| Suspect::Former { width: *width, child }));
    }
    // Each stripe can lose as many columns as there is parity, and they need not be the same ones.
    let most = nparity.saturating_mul(map.stripes.len()).min(suspects.len());
    let mut grow: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..most {
        let mut larger = Vec::new();
        for set in &grow {
            let first = set.last().map_or(0, |l| l + 1);
            for next in first..suspects.len() {
                if sets.len() >= SUSPECT_SETS_MAX {
                    return sets;
                }
                let mut set = set.clone();
                set.push(next);
                sets.push(set.iter().filter_map(|i| suspects.get(*i).copied()).collect());
                larger.push(set);
            }
        }
        grow = larger;
    }
    sets
}

/// The bytes behind the block's last, to the end of its sector, were written as zeros, but have no
/// checksum. If they were read as something else, or computed from parity that was wrong, zeros are
/// assumed, unless that contradicts more of what was read.
fn settle_rest(req: &BlockRead<'_>, pieces: &[PieceData<'_>], block: &mut [u8]) {
    let size = usize::try_from(req.size).unwrap_or(usize::MAX);
    let rest = block.get(size..).unwrap_or_default();
    if rest.iter().all(|b| *b == 0) {
        return;
    }
    let rest = rest.to_vec();
    let wrong_as_read = wrong_copies(req, pieces, block);
    if wrong_as_read == 0 {
        return;
    }
    block.get_mut(size..).unwrap_or_default().fill(0);
    if wrong_copies(req, pieces, block) > wrong_as_read
        && let Some(place) = block.get_mut(size..)
    {
        place.copy_from_slice(&rest);
    }
}

/// Copies of columns that were read and do not fit the block.
fn wrong_copies(req: &BlockRead<'_>, pieces: &[PieceData<'_>], block: &[u8]) -> usize {
    let stripes = pieces.iter().flat_map(|h| {
        h.piece.map.stripes.iter().zip(&h.cells).map(move |(stripe, cells)| (h, stripe, cells))
    });
    let wrong = stripes.map(|(h, stripe, cells)| {
        let Some(truth) = truth(req, h, stripe, block) else { return 0 };
        let columns = cells.iter().zip(&truth);
        let copies = columns.flat_map(|(cell, bytes)| cell.copies.iter().map(move |c| (c, bytes)));
        let is_wrong = |(copy, bytes): &(&ColumnCopy, &Vec<u8>)| {
            let data = copy.data().filter(|_| !copy.source.stale);
            data.is_some_and(|data| data.get(..bytes.len()) != Some(&bytes[..]))
        };
        copies.filter(is_wrong).count()
    });
    wrong.sum()
}

/// The right contents of every column of a stripe, given the whole block.
fn truth(
    req: &BlockRead<'_>,
    h: &PieceData<'_>,
    stripe: &crate::map::Stripe,
    block: &[u8],
) -> Option<Vec<Vec<u8>>> {
    let mut data = Vec::with_capacity(stripe.columns.len());
    for c in stripe.columns.get(stripe.nparity..)? {
        let start = usize::try_from(h.piece.at.checked_add(c.at)?).ok()?;
        let bytes = block.get(start..start.checked_add(usize::try_from(c.size).ok()?)?)?;
        data.push(bytes);
    }
    let height = usize::try_from(stripe.height()).ok()?;
    let mut out: Vec<Vec<u8>> = vec![vec![0; height]; stripe.nparity];
    if stripe.nparity > 0 {
        let mut parity: Vec<&mut [u8]> = out.iter_mut().map(Vec::as_mut_slice).collect();
        codec::raidz::generate(&mut parity, &data).ok()?;
    }
    // Behind the block's last byte its last sector may hold anything, but where parity depends on
    // it (`settle_rest`) and it is what was written.
    let rest = block.get(usize::try_from(req.size).ok()?..).unwrap_or_default();
    let counts = stripe.nparity > 0 && rest.iter().all(|b| *b == 0);
    for (c, bytes) in stripe.columns.iter().skip(stripe.nparity).zip(data) {
        let left = req.size.saturating_sub(h.piece.at + c.at);
        let known = bytes.len().min(usize::try_from(left).ok()?);
        let known = if counts { bytes.len() } else { known };
        out.push(bytes.get(..known)?.to_vec());
    }
    Some(out)
}

/// The expected bytes of a copy, as far as they are known.
#[derive(Clone, Copy)]
enum Expected<'a> {
    Bytes(&'a [u8]),
    /// Anything but what was delivered.
    Other,
    Unknown,
}

/// The fault of a copy, if it has one.
fn verdict(
    copy: &ColumnCopy,
    column: &Column,
    is_parity: bool,
    expected: Expected<'_>,
) -> Option<FaultKind> {
    let bytes = match &copy.bytes {
        None => return Some(FaultKind::Missing),
        Some(Err(e)) => return Some(FaultKind::Io(e.clone())),
        Some(Ok(bytes)) => &bytes[..],
    };
    let (same, padded) = match expected {
        Expected::Bytes(t) => {
            let size = usize::try_from(column.size).ok()?;
            let pad = bytes.get(size..).unwrap_or_default();
            (bytes.get(..t.len()) == Some(t), pad.iter().all(|b| *b == 0))
        }
        Expected::Other => (false, true),
        Expected::Unknown => (true, true),
    };
    match (same, padded) {
        (true, true) => None,
        _ if copy.source.stale => Some(FaultKind::Stale),
        (false, _) if !is_parity => Some(FaultKind::Checksum),
        _ => Some(FaultKind::ParityMismatch),
    }
}

/// The walk through the versions of a block.
struct Search<'a, 't> {
    req: &'a BlockRead<'a>,
    pieces: &'a [PieceData<'t>],
    /// Versions verified.
    tried: u64,
    /// Some version was complete; `None` when memory ran out.
    complete: Option<bool>,
}

impl<'a, 't> Search<'a, 't> {
    fn new(req: &'a BlockRead<'a>, pieces: &'a [PieceData<'t>]) -> Self {
        Self { req, pieces, tried: 0, complete: Some(false) }
    }

    /// The block, when a version verifies. The buffer is as long as the whole sectors of it.
    fn run(&mut self) -> Option<AlignedBuf> {
        let total = self.pieces.iter().map(|h| h.piece.at + h.piece.map.size).max()?;
        let size = usize::try_from(self.req.size).ok()?;
        let Some(mut out) = usize::try_from(total).ok().and_then(AlignedBuf::try_zeroed) else {
            self.complete = None;
            return None;
        };
        let limit = (WORK_MAX / total.max(1)).clamp(TRIES.0, TRIES.1);
        // One counter with a digit per piece; the last piece's turns fastest.
        let mut counter = vec![0u64; self.pieces.len()];
        let mut built = vec![None; self.pieces.len()];
        for _ in 0..limit {
            let mut complete = true;
            for ((h, version), built) in self.pieces.iter().zip(&counter).zip(&mut built) {
                if *built != Some(*version) {
                    complete &= h.build(*version, &mut out).is_some();
                    *built = complete.then_some(*version);
                }
            }
            if complete {
                self.complete = Some(true);
                self.tried += 1;
                if out.get(..size).is_some_and(|b| (self.req.verify)(b)) {
                    return Some(out);
                }
            }
            if !self.advance(&mut counter) {
                return None;
            }
        }
        None
    }

    fn advance(&self, counter: &mut [u64]) -> bool {
        for (digit, h) in counter.iter_mut().zip(self.pieces).rev() {
            *digit += 1;
            if *digit < h.versions() {
                return true;
            }
            *digit = 0;
        }
        false
    }
}

impl PieceData<'_> {
    fn versions(&self) -> u64 {
        self.suspects.len() as u64 * self.choices
    }

    /// Writes version `version` of this piece to its place in the block. `None` when columns are
    /// missing that parity does not replace, or when it is the same as an earlier version.
    fn build(&self, version: u64, block: &mut [u8]) -> Option<()> {
        let set = self.suspects.get(usize::try_from(version / self.choices).ok()?)?;
        let choice = Choice::new(self, version % self.choices);
        let out = block.get_mut(usize::try_from(self.piece.at).ok()?..)?;
        let mut rebuilt = set.is_empty();
        for (stripe, cells) in self.piece.map.stripes.iter().zip(&self.cells) {
            let mut columns = Vec::with_capacity(cells.len());
            for (i, (column, cell)) in stripe.columns.iter().zip(cells).enumerate() {
                let guilty = set.iter().any(|s| s.is_guilty(column));
                let bytes = cell.believed(column, choice.of(column.child));
                let bytes = bytes.filter(|_| !guilty);
                rebuilt |= i >= stripe.nparity && column.size > 0 && bytes.is_none();
                columns.push(bytes);
            }
            fill(stripe, &columns, out)?;
        }
        // Distrusting parity alone changes nothing.
        rebuilt.then_some(())
    }
}

/// Which of several devices to believe, for each child that has several.
struct Choice {
    /// Child and number of the content.
    digits: Vec<(usize, usize)>,
}

impl Choice {
    fn new(h: &PieceData<'_>, mut number: u64) -> Self {
        let cells = h.cells.iter().flatten();
        let most = cells.map(|c| c.distinct.len() as u64).max().unwrap_or(1).max(1);
        let mut digits = Vec::new();
        for child in divided_children(&h.piece.map, &h.cells) {
            digits.push((child, (number % most) as usize));
            number /= most;
        }
        Self { digits }
    }

    fn of(&self, child: usize) -> usize {
        self.digits.iter().find(|(c, _)| *c == child).map_or(0, |(_, d)| *d)
    }
}
