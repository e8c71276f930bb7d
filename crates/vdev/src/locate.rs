//! From a block's address to places on devices.
//!
//! First removed vdevs are followed until every part of the block has an address on a vdev that
//! still exists; then that vdev's geometry cuts the part into columns; then each column's child,
//! which may be a mirror, a replacement or a spare itself, names the devices that hold a copy.

use crate::error::ErrorKind;
use crate::flow::{EpochGuard, Purpose};
use crate::indirect::Part;
use crate::map::{BLOCK_SIZE_MAX, BlockMap, MapError};
use crate::tree::{Node, Role, Top, VdevTree};

/// Distance on a mirror after which reading continues at the next side: long enough that neighbours
/// stay on one device, short enough that a large read uses all.
const MIRROR_TURN: u32 = 20;
/// Spares of spares followed before giving up; each needs a vdev of its own in the tree.
const SPARE_DEPTH: u32 = 16;

/// A part of a block on an existing vdev.
pub(crate) struct Piece<'t> {
    /// Number of its vdev.
    pub(crate) vdev: u32,
    pub(crate) node: &'t Node,
    /// Where in the block the part begins.
    pub(crate) at: u64,
    pub(crate) map: BlockMap,
    /// The txg that copied it there; 0 when it is where it was written.
    pub(crate) txg: u64,
    /// Where the rows are stays true as long as this is kept.
    pub(crate) epoch_guard: Option<EpochGuard>,
}

/// A device with a copy of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Index of the device's node.
    pub(crate) node: usize,
    /// Where on the device; labels included.
    pub(crate) offset: u64,
    /// It may have missed the txg.
    pub(crate) stale: bool,
    /// The node of a distributed spare that it is to hold this for, and that missed the txg.
    pub(crate) lacking_spare: Option<usize>,
    /// The device is open.
    pub(crate) open: bool,
    /// The txg that wrote it there.
    pub(crate) txg: u64,
}

/// The state of the walk down to a device.
#[derive(Clone, Copy)]
struct PathState {
    birth: u64,
    stale: bool,
    /// Distributed spares passed, and the last of them that missed the txg.
    spares: u32,
    lacking_spare: Option<usize>,
}

impl VdevTree {
    /// The parts of the block of `size` bytes at `offset` of `vdev`, in order.
    pub(crate) fn locate(
        &self,
        vdev: u32,
        offset: u64,
        size: u64,
        birth: u64,
    ) -> Result<Vec<Piece<'_>>, ErrorKind> {
        self.locate_for(Purpose::Read, vdev, (offset, size), birth)
    }

    /// The same of a block that is written: with all places of its columns.
    pub(crate) fn locate_to_write(
        &self,
        vdev: u32,
        offset: u64,
        size: u64,
        birth: u64,
    ) -> Result<Vec<Piece<'_>>, ErrorKind> {
        self.locate_for(Purpose::Write, vdev, (offset, size), birth)
    }

    fn locate_for(
        &self,
        purpose: Purpose,
        vdev: u32,
        (offset, size): (u64, u64),
        birth: u64,
    ) -> Result<Vec<Piece<'_>>, ErrorKind> {
        if size == 0 || size > BLOCK_SIZE_MAX {
            return Err(MapError::Size(size).into());
        }
        let mut pieces = Vec::new();
        let mut at = 0;
        for part in self.follow(Part { vdev, offset, size, txg: 0 })? {
            pieces.push(self.place_for(purpose, part, at, birth)?);
            at += part.size;
        }
        Ok(pieces)
    }

    /// Follows removed vdevs to the places that exist.
    pub(crate) fn follow(&self, part: Part) -> Result<Vec<Part>, ErrorKind> {
        let mut parts = vec![part];
        // Each round leaves at least one removed vdev behind, or the mappings lead in a circle.
        for _ in 0..=self.tops.len() {
            let mut next = Vec::with_capacity(parts.len());
            let mut moved = false;
            for p in &parts {
                let top = self.tops.get(&p.vdev).ok_or(ErrorKind::NoSuchVdev)?;
                match self.nodes.get(top.node).map(|n| &n.role) {
                    Some(Role::Indirect(Some(mapping))) => {
                        let found = mapping.parts(p.offset, p.size);
                        let vdev = p.vdev;
                        next.extend(found.map_err(|offset| ErrorKind::Unmapped { vdev, offset })?);
                        moved = true;
                    }
                    Some(Role::Indirect(None)) => return Err(ErrorKind::NoMapping),
                    Some(Role::Hole) => return Err(ErrorKind::Hole),
                    Some(Role::Missing) => return Err(ErrorKind::MissingVdev),
                    Some(_) => next.push(*p),
                    None => return Err(ErrorKind::NoSuchVdev),
                }
            }
            parts = next;
            if !moved {
                return Ok(parts);
            }
        }
        Err(ErrorKind::MappingLoop)
    }

    pub(crate) fn place(&self, part: Part, at: u64, birth: u64) -> Result<Piece<'_>, ErrorKind> {
        self.place_for(Purpose::Read, part, at, birth)
    }

    fn place_for(
        &self,
        purpose: Purpose,
        part: Part,
        at: u64,
        birth: u64,
    ) -> Result<Piece<'_>, ErrorKind> {
        let Part { vdev, offset, size, txg } = part;
        let top = self.tops.get(&vdev).ok_or(ErrorKind::NoSuchVdev)?;
        let node = self.nodes.get(top.node).ok_or(ErrorKind::NoSuchVdev)?;
        self.within(top, vdev, offset, size, birth)?;
        let mut epoch_guard = None;
        let map = match &node.role {
            Role::Raidz(r) => {
                let (map, held) = r.place(offset, size, birth, purpose)?;
                epoch_guard = held;
                map
            }
            Role::Draid(d) => d.map(offset, size)?,
            _ => BlockMap::single(0, offset, size).ok_or(MapError::Overflow(offset))?,
        };
        Ok(Piece { vdev, node, at, map, txg, epoch_guard })
    }

    /// The block with its parity lies within the vdev.
    pub(crate) fn within(
        &self,
        top: &Top,
        vdev: u32,
        offset: u64,
        size: u64,
        birth: u64,
    ) -> Result<(), ErrorKind> {
        let allocated = match self.nodes.get(top.node).map(|n| &n.role) {
            Some(Role::Raidz(_) | Role::Draid(_)) => {
                self.psize_to_asize(vdev, size, birth).unwrap_or(u64::MAX)
            }
            _ => size,
        };
        match offset.checked_add(allocated) {
            Some(end) if end <= top.asize || top.asize == 0 => Ok(()),
            _ => Err(ErrorKind::BeyondEnd { asize: top.asize }),
        }
    }

    /// The devices that hold a column of `len` bytes at `offset` of child `child` of a piece's
    /// vdev: those to be read first at the front, those that are not open at the end.
    pub(crate) fn sources(
        &self,
        piece: &Piece<'_>,
        child: usize,
        offset: u64,
        len: u64,
        birth: u64,
    ) -> Vec<Source> {
        let birth = birth.max(piece.txg);
        let index = match &piece.node.role {
            Role::Raidz(_) | Role::Draid(_) => piece.node.children.get(child).copied(),
            _ => self.tops.get(&piece.vdev).map(|t| t.node),
        };
        let mut out = Vec::with_capacity(1);
        if let Some(node) = index {
            let seen = PathState { birth, stale: false, spares: 0, lacking_spare: None };
            self.descend(node, offset, len, seen, &mut out);
        }
        // Stable: equals keep the order of the tree.
        out.sort_by_key(|s| (!s.open, s.stale));
        out
    }

    fn descend(&self, index: usize, offset: u64, len: u64, seen: PathState, out: &mut Vec<Source>) {
        let Some(node) = self.nodes.get(index) else { return };
        let birth = seen.birth;
        let stale = seen.stale || node.is_stale(birth);
        let seen = PathState { stale, ..seen };
        match &node.role {
            Role::Leaf => {
                let open = node.device.is_some();
                let lacking_spare = seen.lacking_spare;
                out.push(Source { node: index, offset, stale, lacking_spare, open, txg: birth });
            }
            Role::Mirror => {
                let n = node.children.len().max(1);
                let first = ((offset >> MIRROR_TURN) % n as u64) as usize;
                for child in node.children.iter().cycle().skip(first).take(n) {
                    self.descend(*child, offset, len, seen, out);
                }
            }
            Role::Replacing | Role::Spare => {
                for child in &node.children {
                    self.descend(*child, offset, len, seen, out);
                }
            }
            Role::DraidSpare { top, id } => {
                let spares = seen.spares + 1;
                let lacks = node.health.has_missed(birth);
                let lacking_spare = if lacks { Some(index) } else { seen.lacking_spare };
                let behind = self.behind_spare((*top, *id), offset, len);
                if let Some(child) = behind.filter(|_| spares <= SPARE_DEPTH) {
                    self.descend(
                        child,
                        offset,
                        len,
                        PathState { spares, lacking_spare, ..seen },
                        out,
                    );
                }
            }
            _ => {}
        }
    }

    /// The node of the child that has what distributed spare `id` of the dRAID `top` has at a
    /// place. Columns never cross the end of a row, so they do not cross that of a slice.
    fn behind_spare(&self, (top, id): (u64, u64), offset: u64, len: u64) -> Option<usize> {
        let (parent, draid) = self.draid(top)?;
        let (child, left) = draid.spare_child(id, offset)?;
        parent.children.get(child).copied().filter(|_| len <= left)
    }

    /// Calls `each` for every leaf that holds `len` bytes at `offset` of the node `index`.
    pub(crate) fn leaves_at(&self, index: usize, place: (u64, u64), each: &mut dyn FnMut(usize)) {
        self.leaves_at_below(index, place, SPARE_DEPTH, each);
    }

    fn leaves_at_below(
        &self,
        index: usize,
        (offset, len): (u64, u64),
        spares: u32,
        each: &mut dyn FnMut(usize),
    ) {
        let Some(node) = self.nodes.get(index) else { return };
        match &node.role {
            Role::Leaf => each(index),
            Role::DraidSpare { top, id } => {
                let Some(spares) = spares.checked_sub(1) else { return };
                if let Some(child) = self.behind_spare((*top, *id), offset, len) {
                    self.leaves_at_below(child, (offset, len), spares, each);
                }
            }
            _ => {
                for child in &node.children {
                    self.leaves_at_below(*child, (offset, len), spares, each);
                }
            }
        }
    }
}
