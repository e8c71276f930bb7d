//! Lanes: pieces of metaslabs from which blocks are cut without asking the metaslab.
//!
//! A lane has up to [`PIECES`] pieces for each copy of a block. Cutting a block off a piece moves
//! its cursor: one lock that no other thread wants, no tree, no allocation of memory. The
//! metaslab hears of it when the piece is used up, or before its map is written.

use super::separation::Separation;
use super::top::{AllocFailure, COPIES, Top};
use ondisk::Dva;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zio::AllocRequest;

/// Bytes of a piece, when there is room.
pub(super) const PIECE: u64 = 1 << 20;
/// Pieces kept for one copy: the one that is cut, and ends of others that smaller blocks may fit.
const PIECES: usize = 3;
/// Pieces of all lanes together are at most one part in this number of what is free.
const SHARE: u64 = 4;
/// Copies on the same vdev are this part of it apart, as a shift.
const DISTANCE_SHIFT: u32 = 3;

/// A range that was taken from a metaslab and is cut into blocks.
struct Piece {
    top: Arc<Top>,
    metaslab: usize,
    /// Blocks from here to `cursor` have not been settled.
    settled: u64,
    cursor: u64,
    end: u64,
    /// Txg of these blocks.
    txg: u64,
    /// There was none farther away from the other copies.
    near: bool,
}

impl Piece {
    fn room(&self) -> u64 {
        self.end - self.cursor
    }

    fn settle(&mut self) {
        if self.settled < self.cursor
            && let Some(m) = self.top.metaslabs.get(self.metaslab)
        {
            m.settle(&self.top.room, self.settled, self.cursor, self.txg);
            self.settled = self.cursor;
        }
    }

    fn give_back(mut self) {
        self.settle();
        if self.cursor < self.end
            && let Some(m) = self.top.metaslabs.get(self.metaslab)
        {
            m.give_back(&self.top.room, self.cursor, self.end);
        }
    }

    fn cut(&mut self, asize: u64, txg: u64) -> u64 {
        if self.txg != txg {
            self.settle();
            self.txg = txg;
        }
        let at = self.cursor;
        self.cursor += asize;
        at
    }
}

/// One try to allocate.
pub(super) struct AllocAttempt<'a> {
    pub(super) want: &'a AllocRequest,
    /// Lanes of the class.
    pub(super) lanes: u64,
    /// Metaslabs, by vdev, that could not be read when needed.
    pub(super) skip: &'a [(u32, usize)],
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Lane {
    /// The vdevs of its class.
    pub(super) tops: Vec<Arc<Top>>,
    pieces: [Vec<Piece>; COPIES],
}

/// An address that was found for one copy.
struct FoundSpace {
    top: Arc<Top>,
    offset: u64,
    asize: u64,
}

impl Lane {
    /// Addresses for all copies, or none.
    pub(super) fn allocate(&mut self, t: &AllocAttempt<'_>) -> Result<[Dva; COPIES], AllocFailure> {
        let copies = usize::from(t.want.copies).clamp(1, COPIES);
        let mut found: [Option<FoundSpace>; COPIES] = [const { None }; COPIES];
        for copy in 0..copies {
            let (others, rest) = found.split_at_mut(copy);
            // On another vdev while there is one; a second copy on the same is better than none.
            let mut one = Err(AllocFailure::Full);
            if self.tops.len() > copy {
                one = self.one(t, copy, others, true);
            }
            if copy > 0 && matches!(one, Err(AllocFailure::Full)) {
                one = self.one(t, copy, others, false);
            }
            match one {
                Ok(f) => rest[0] = Some(f),
                Err(miss) => {
                    for f in found.into_iter().flatten() {
                        f.discard(t.want.txg);
                    }
                    return Err(miss);
                }
            }
        }
        Ok(found.map(|f| match f {
            Some(f) => Dva::new(f.top.id, f.offset, f.asize, t.want.gang),
            None => Dva::default(),
        }))
    }

    fn one(
        &mut self,
        t: &AllocAttempt<'_>,
        copy: usize,
        others: &[Option<FoundSpace>],
        elsewhere: bool,
    ) -> Result<FoundSpace, AllocFailure> {
        let (psize, txg) = (t.want.psize, t.want.txg);
        let used = |top: &Top| others.iter().flatten().any(|f| f.top.id == top.id);
        let mut best: Option<(usize, u64)> = None;
        let mut best_key = (true, u64::MAX);
        for (i, p) in self.pieces[copy].iter().enumerate() {
            let asize = p.top.asize(psize, txg);
            if p.room() < asize || (elsewhere && used(&p.top)) {
                continue;
            }
            let near = |f: &FoundSpace| {
                f.top.id == p.top.id && f.offset.abs_diff(p.cursor) < distance(&p.top)
            };
            if !p.near && others.iter().flatten().any(near) {
                continue;
            }
            // Ends of pieces are used up first: what fits nothing is given back in the end.
            let key = (p.txg != txg, p.room());
            if key < best_key {
                (best, best_key) = (Some((i, asize)), key);
            }
        }
        let (index, asize) = match best {
            Some(b) => b,
            None => self.refill(t, copy, others, elsewhere)?,
        };
        let list = &mut self.pieces[copy];
        let piece = &mut list[index];
        let offset = piece.cut(asize, txg);
        let top = Arc::clone(&piece.top);
        if piece.room() == 0 {
            list.swap_remove(index).give_back();
        }
        Ok(FoundSpace { top, offset, asize })
    }

    /// Takes a new piece; its index, and the bytes the block takes there.
    fn refill(
        &mut self,
        t: &AllocAttempt<'_>,
        copy: usize,
        others: &[Option<FoundSpace>],
        elsewhere: bool,
    ) -> Result<(usize, u64), AllocFailure> {
        let list = &mut self.pieces[copy];
        if list.len() >= PIECES
            && let Some(i) = (0..list.len()).min_by_key(|i| list[*i].room())
        {
            list.swap_remove(i).give_back();
        }
        let used = |top: &Top| others.iter().flatten().any(|f| f.top.id == top.id);
        let usable = |t: &&Arc<Top>| t.allocating.load(Relaxed) && !(elsewhere && used(t));
        let mut tops: Vec<&Arc<Top>> = self.tops.iter().filter(usable).collect();
        tops.sort_by_key(|t| t.pace.load(Relaxed));
        for top in tops {
            let min = top.asize(t.want.psize, t.want.txg);
            let share = top.room() / (SHARE * t.lanes).max(1);
            // Whole blocks of this size, so that blocks of one size leave no gaps between pieces.
            let piece = PIECE.min(share);
            let piece = (piece - piece % min).max(min);
            let here = others.iter().flatten().filter(|f| f.top.id == top.id);
            let at: Vec<u64> = here.map(|f| f.offset).collect();
            let full = if at.is_empty() { 0 } else { distance(top) };
            let mut apart = full;
            loop {
                let avoid = Separation { at: &at, distance: apart };
                match top.take((min, piece), copy, avoid, t.skip) {
                    Ok(taken) => {
                        top.advance(taken.end - taken.start);
                        list.push(Piece {
                            top: Arc::clone(top),
                            metaslab: taken.metaslab,
                            settled: taken.start,
                            cursor: taken.start,
                            end: taken.end,
                            txg: t.want.txg,
                            near: apart < full,
                        });
                        return Ok((list.len() - 1, min));
                    }
                    Err(AllocFailure::Full) if apart > 0 => {
                        // Half the distance, down to a metaslab's size, then anywhere.
                        apart = if apart >> top.ms_shift > 1 { apart / 2 } else { 0 };
                    }
                    Err(AllocFailure::Full) => break,
                    Err(miss) => return Err(miss),
                }
            }
            // It is full for this size: the others come first for a while.
            top.advance(piece);
        }
        Err(AllocFailure::Full)
    }

    /// Tells the metaslabs of all blocks that were cut.
    pub(super) fn settle(&mut self) {
        self.pieces.iter_mut().flatten().for_each(Piece::settle);
    }

    /// Gives back what was not cut.
    pub(super) fn clear(&mut self) {
        self.pieces.iter_mut().flat_map(|list| list.drain(..)).for_each(Piece::give_back);
    }
}

impl FoundSpace {
    fn discard(&self, txg: u64) {
        let end = self.offset + self.asize;
        if let Some(m) = self.top.metaslab(self.offset, end) {
            m.discard(&self.top.room, self.offset, end, txg);
        }
    }
}

/// Bytes that copies on the same vdev are apart, when there is room.
fn distance(top: &Top) -> u64 {
    top.metaslabs.last().map_or(0, |m| m.end) >> DISTANCE_SHIFT
}
