//! The second half of writing: addresses for stored bytes, in one piece or as a gang.
//!
//! Everything is allocated before anything is written, so that a block for which there is no
//! space leaves nothing behind. A gang's parts are a third of it each, in whole allocations; a
//! part for which there is no segment is a gang itself, down to the smallest allocation.
//!
//! A block that is written again in the same txg goes where it was, a gang over its own parts: the
//! passes over the MOS would not come to an end otherwise.

use crate::GANG_DEPTH;
use crate::allocate::{AllocError, AllocRequest, Allocate};
use crate::block::Place;
use crate::error::ErrorKind;
use crate::seal::copies_max;
use crate::spec::WriteSpec;
use crate::transform::{Stored, sum};
use codec::checksum::{Salted, seal_gang_header};
use device::{AlignedBuf, Shared};
use ondisk::blkptr::BlkPtrParts;
use ondisk::gang::GANG_HEADER_SIZE;
use ondisk::{BlkPtr, Compression, DmuType, Dva, GangHeader};

/// Parts of a gang at most.
const PARTS_MAX: usize = 3;

/// A block with an address.
pub(crate) struct Placed {
    pub(crate) bp: BlkPtr,
    /// The writes, with their places.
    pub(crate) writes: Vec<(Dva, Shared)>,
    /// All that was allocated: the pointer itself, or a pointer for each header and part of a gang,
    /// the header's with the space of the header alone.
    pub(crate) taken: Vec<BlkPtr>,
}

/// The common parameters of all parts of a block.
pub(crate) struct Placer<'a> {
    pub(crate) allocate: &'a dyn Allocate,
    pub(crate) salted: &'a Salted,
    pub(crate) spec: &'a WriteSpec<'a>,
    /// Bytes of the smallest allocation.
    pub(crate) unit: usize,
    pub(crate) hint: u64,
}

/// Blocks of one object are best near each other.
pub(crate) fn hint(place: Place) -> u64 {
    place.objset.rotate_left(32) ^ place.object
}

/// Copies of a block.
pub(crate) fn copies(spec: &WriteSpec<'_>) -> u8 {
    spec.copies.clamp(1, copies_max(spec))
}

impl Placer<'_> {
    /// Puts the block at addresses it has already.
    pub(crate) fn at(&self, stored: &Stored, dvas: [Dva; 3]) -> Placed {
        let bp = BlkPtr::build(&BlkPtrParts { dvas, ..stored.parts });
        let writes = present(dvas).map(|d| (d, stored.bytes.clone())).collect();
        Placed { bp, writes, taken: vec![bp] }
    }

    /// Finds space for the block.
    pub(crate) fn find(&self, stored: &Stored) -> Result<Placed, ErrorKind> {
        let psize = stored.bytes.len();
        match self.allocate(psize, copies(self.spec), false) {
            Ok(dvas) => return Ok(self.at(stored, dvas)),
            Err(AllocError::NoSpace) if psize <= self.unit => return Err(ErrorKind::NoSpace),
            Err(AllocError::NoSpace) => {}
        }
        let mut gang = Gang::new(self, stored, GangSpace::New);
        gang.place().inspect_err(|_| {
            for bp in &gang.taken {
                self.allocate.discard(bp, self.spec.birth);
            }
        })
    }

    /// Puts the block where a gang of the same size is, of which this was allocated; `None` if it
    /// does not fit.
    pub(crate) fn over(&self, stored: &Stored, taken: Vec<BlkPtr>) -> Option<Placed> {
        Gang::new(self, stored, GangSpace::Old(taken.into_iter())).place().ok()
    }

    fn allocate(&self, psize: usize, copies: u8, gang: bool) -> Result<[Dva; 3], AllocError> {
        let (class, txg) = (self.spec.class, self.spec.birth);
        let want = AllocRequest { psize: psize as u64, copies, class, txg, gang, hint: self.hint };
        self.allocate.allocate(&want)
    }
}

/// Where a gang gets its space.
enum GangSpace {
    /// It is allocated.
    New,
    /// It is that of an older gang, in the order in which that took it. Sizes alone decide how a
    /// block is split, and what was taken which parts are gangs themselves.
    Old(std::vec::IntoIter<BlkPtr>),
}

/// A block being split.
struct Gang<'a> {
    placer: &'a Placer<'a>,
    stored: &'a Stored,
    room: GangSpace,
    writes: Vec<(Dva, Shared)>,
    taken: Vec<BlkPtr>,
}

impl<'a> Gang<'a> {
    fn new(placer: &'a Placer<'a>, stored: &'a Stored, room: GangSpace) -> Self {
        Self { placer, stored, room, writes: Vec::new(), taken: Vec::new() }
    }

    fn place(&mut self) -> Result<Placed, ErrorKind> {
        let dvas = self.header(&self.stored.bytes, 0)?;
        let bp = BlkPtr::build(&BlkPtrParts { dvas, ..self.stored.parts });
        let (writes, taken) = (std::mem::take(&mut self.writes), std::mem::take(&mut self.taken));
        Ok(Placed { bp, writes, taken })
    }

    /// Space for a header.
    fn header_room(&mut self) -> Result<[Dva; 3], ErrorKind> {
        let placer = self.placer;
        let copies = copies(placer.spec);
        match &mut self.room {
            // One header more than copies: without it all parts are lost, and their space cannot
            // even be freed. With two copies or three there are enough of them.
            GangSpace::New => placer
                .allocate(GANG_HEADER_SIZE, copies.max(2), true)
                .or_else(|_| placer.allocate(GANG_HEADER_SIZE, copies, true))
                .map_err(|_: AllocError| ErrorKind::NoSpace),
            GangSpace::Old(old) => {
                let fits = |bp: &BlkPtr| bp.is_gang() && bp.dvas().count() >= usize::from(copies);
                old.next().filter(fits).map(|bp| addresses(&bp)).ok_or(ErrorKind::Gang)
            }
        }
    }

    /// Space for a part of `len` bytes in one piece.
    fn part_room(&mut self, len: usize) -> Result<[Dva; 3], AllocError> {
        let copies = copies(self.placer.spec);
        match &mut self.room {
            GangSpace::New => self.placer.allocate(len, copies, false),
            GangSpace::Old(old) => {
                let fits = |bp: &&BlkPtr| {
                    !bp.is_gang()
                        && bp.psize() == len as u64
                        && bp.dvas().count() == usize::from(copies)
                };
                let found = old.as_slice().first().filter(fits).map(addresses);
                let found = found.ok_or(AllocError::NoSpace)?;
                let _ = old.next();
                Ok(found)
            }
        }
    }

    /// Writes `bytes` as a gang; gives the addresses of its header, with the space of all of it.
    fn header(&mut self, bytes: &Shared, depth: u32) -> Result<[Dva; 3], ErrorKind> {
        if depth >= GANG_DEPTH {
            return Err(ErrorKind::NoSpace);
        }
        let placer = self.placer;
        let mut dvas = self.header_room()?;
        self.taken.push(self.pointer(GANG_HEADER_SIZE, dvas, [0; 4]));
        let mut parts = Vec::with_capacity(PARTS_MAX);
        let mut at = 0;
        for left in (1..=PARTS_MAX).rev() {
            let rest = bytes.len() - at;
            let len = (rest / left).max(1).next_multiple_of(placer.unit).min(rest);
            if rest == 0 {
                break;
            }
            let part = self.part(&bytes.slice(at..at + len), depth)?;
            for (whole, part) in dvas.iter_mut().zip([part.dva(0), part.dva(1), part.dva(2)]) {
                let asize = whole.asize() + part.asize();
                *whole = if whole.is_empty() {
                    *whole
                } else {
                    Dva::new(whole.vdev(), whole.offset(), asize, true)
                };
            }
            parts.push(part);
            at += len;
        }
        let header = GangHeader::new(parts).ok_or(ErrorKind::Gang)?;
        let endian = self.stored.parts.endian;
        let mut sealed = AlignedBuf::copy_of(&header.encode(endian));
        let (vdev, offset) = (u64::from(dvas[0].vdev()), dvas[0].offset());
        let order = crate::checksum::byte_order(endian);
        // The parts say nothing of the encryption, which is that of the whole.
        let has_mac = self.stored.parts.crypt.is_some_and(|crypt| crypt.mac.is_some());
        seal_gang_header(&mut sealed, order, vdev, offset, placer.spec.birth, has_mac)
            .map_err(|_| ErrorKind::Gang)?;
        let sealed = Shared::from(sealed);
        self.writes.extend(present(dvas).map(|d| (d, sealed.clone())));
        Ok(dvas)
    }

    /// Writes a part, as a gang where there is no space for it in one piece.
    fn part(&mut self, bytes: &Shared, depth: u32) -> Result<BlkPtr, ErrorKind> {
        let placer = self.placer;
        let kind = self.stored.parts.checksum_kind;
        let sum = sum(kind, self.stored.parts.endian, placer.salted, bytes)?;
        match self.part_room(bytes.len()) {
            Ok(dvas) => {
                let bp = self.pointer(bytes.len(), dvas, sum);
                self.taken.push(bp);
                self.writes.extend(present(dvas).map(|d| (d, bytes.clone())));
                Ok(bp)
            }
            Err(AllocError::NoSpace) if bytes.len() <= placer.unit => Err(ErrorKind::NoSpace),
            Err(AllocError::NoSpace) => {
                let dvas = self.header(bytes, depth + 1)?;
                Ok(self.pointer(bytes.len(), dvas, sum))
            }
        }
    }

    /// A pointer to a part: it is of no type, not compressed, and nothing is below it.
    fn pointer(&self, psize: usize, dvas: [Dva; 3], checksum: [u64; 4]) -> BlkPtr {
        let size = psize as u64;
        BlkPtr::build(&BlkPtrParts {
            dvas,
            lsize: size,
            psize: size,
            compression: Compression::OFF,
            checksum,
            kind: DmuType(0),
            level: 0,
            fill: 0,
            crypt: None,
            ..self.stored.parts
        })
    }
}

/// The addresses of a pointer, empty behind the last.
pub(crate) fn addresses(bp: &BlkPtr) -> [Dva; 3] {
    let mut out = [Dva::default(); 3];
    bp.dvas().for_each(|(i, dva)| out[i] = dva);
    out
}

fn present(dvas: [Dva; 3]) -> impl Iterator<Item = Dva> {
    dvas.into_iter().filter(|d| !d.is_empty())
}
