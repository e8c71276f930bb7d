//! From a block's address to places on devices.
//!
//! First removed vdevs are followed until every part of the block has an address on a vdev that
//! still exists; then that vdev's geometry cuts the part into columns; then each column's child,
//! which may be a mirror, a replacement or a spare itself, names the devices that hold a copy.

use crate::error::ErrorKind;
use crate::indirect::Part;
use crate::map::{BLOCK_SIZE_MAX, BlockMap, MapError};
use crate::tree::{Node, Role, Top, VdevTree};

/// Distance on a mirror after which reading goes on at the next side: long enough that neighbours
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
    /// The device is open.
    pub(crate) open: bool,
    /// The txg that wrote it there.
    pub(crate) txg: u64,
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
        if size == 0 || size > BLOCK_SIZE_MAX {
            return Err(MapError::Size(size).into());
        }
        let mut pieces = Vec::new();
        let mut at = 0;
        for part in self.follow(Part { vdev, offset, size, txg: 0 })? {
            pieces.push(self.place(part, at, birth)?);
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
        let Part { vdev, offset, size, txg } = part;
        let top = self.tops.get(&vdev).ok_or(ErrorKind::NoSuchVdev)?;
        let node = self.nodes.get(top.node).ok_or(ErrorKind::NoSuchVdev)?;
        self.within(top, vdev, offset, size, birth)?;
        let map = match &node.role {
            Role::Raidz(r) => r.map(offset, size, birth)?,
            Role::Draid(d) => d.map(offset, size)?,
            _ => BlockMap::single(0, offset, size).ok_or(MapError::Overflow(offset))?,
        };
        Ok(Piece { vdev, node, at, map, txg })
    }

    /// The block with its parity lies within the vdev.
    fn within(
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
            self.descend(node, offset, len, (birth, false), SPARE_DEPTH, &mut out);
        }
        // Stable: equals keep the order of the tree.
        out.sort_by_key(|s| (!s.open, s.stale));
        out
    }

    fn descend(
        &self,
        index: usize,
        offset: u64,
        len: u64,
        (birth, stale): (u64, bool),
        spares: u32,
        out: &mut Vec<Source>,
    ) {
        let Some(node) = self.nodes.get(index) else { return };
        let stale = stale || node.is_stale(birth);
        match &node.role {
            Role::Leaf => {
                let open = node.device.is_some();
                out.push(Source { node: index, offset, stale, open, txg: birth });
            }
            Role::Mirror => {
                let n = node.children.len().max(1);
                let first = ((offset >> MIRROR_TURN) % n as u64) as usize;
                for child in node.children.iter().cycle().skip(first).take(n) {
                    self.descend(*child, offset, len, (birth, stale), spares, out);
                }
            }
            Role::Replacing | Role::Spare => {
                for child in &node.children {
                    self.descend(*child, offset, len, (birth, stale), spares, out);
                }
            }
            Role::DraidSpare { top, id } => {
                let Some(spares) = spares.checked_sub(1) else { return };
                let Some((parent, draid)) = self.draid(*top) else { return };
                let Some((child, left)) = draid.spare_child(*id, offset) else { return };
                // Columns never cross the end of a row, so they do not cross that of a slice.
                if let Some(child) = parent.children.get(child).filter(|_| len <= left) {
                    self.descend(*child, offset, len, (birth, stale), spares, out);
                }
            }
            _ => {}
        }
    }
}
