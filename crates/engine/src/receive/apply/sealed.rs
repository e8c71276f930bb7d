//! The records of a raw stream, applied to the object set that they are received into.
//!
//! Blocks are not decrypted, for there is no key: their sizes are checked and they are stored as
//! received, with their salts, IVs and MACs. What the MACs cover must be what the sender has, to
//! the bit, so nothing is adapted to this pool: a block that this pool cannot have makes the stream
//! a refused one.
//!
//! Whether the blocks are those that the sender encrypted shows when the key is loaded.

use super::{Apply, SPILL_MAX, bad, rejected};
use crate::error::{Error, ErrorKind, Result, Unreceivable};
use device::AlignedBuf;
use dmu::{Hold, Place, Seal};
use ondisk::blkptr::CryptParams;
use ondisk::dnode::{DNODE_SLOT_SIZE, INDIRECT_SHIFT_RANGE, MAX_LEVELS};
use ondisk::stream::{Free, OBJECT_HAS_SPILL, Object, ObjectRange, RAW_BYTESWAP, Spill, Write};
use ondisk::{Compression, DmuType, Dnode, Endian};

/// Slots of a block of dnodes.
const SLOTS: u64 = (16 << 10) / DNODE_SLOT_SIZE as u64;

/// A block as a record has it.
struct Sealed<'p> {
    size: u64,
    compression: u8,
    kind: DmuType,
    params: CryptParams,
    mac: [u8; 16],
    is_swapped: bool,
    payload: &'p [u8],
}

impl Apply<'_> {
    /// The dnodes of a block, of which objects and free slots follow.
    pub(super) fn object_range(&mut self, r: &ObjectRange) -> Result<()> {
        if r.slots != SLOTS || !r.first.is_multiple_of(SLOTS) {
            return Err(bad("a range of dnodes does not begin at a block"));
        }
        if r.flags & RAW_BYTESWAP != 0 {
            return Err(Error::new(ErrorKind::NotReceived(Unreceivable::RawByteOrder)));
        }
        let params = CryptParams { salt: r.salt, iv: r.iv };
        self.objset.seal_dnodes(r.first, params, r.mac).map_err(rejected)?;
        self.range = r.first..r.first.saturating_add(SLOTS);
        Ok(())
    }

    pub(super) fn sealed_object(&mut self, o: &Object, payload: &[u8]) -> Result<()> {
        let new = self.sealed_dnode(o, payload)?;
        let slots = new.extra_slots + 1;
        self.comes(o.object, slots)?;
        let mut there = self.found(o.object)?;
        if there.as_ref().is_some_and(|object| !can_become(object.dnode(), &new)) {
            self.free(&[o.object])?;
            there = None;
        }
        let Some(object) = there else {
            self.make_room(o.object, slots)?;
            let number = o.object;
            return self.create_by(|objset, tx| objset.create_sealed(tx, number, new.clone()));
        };
        let has_spill = o.flags & OBJECT_HAS_SPILL != 0;
        let may_have_spill = object.dnode().spill.is_some() || object.has_changes();
        let tx = self.write(new.bonus_area().len() as u64)?;
        if !has_spill && may_have_spill {
            object.set_spill(&tx, None)?;
        }
        object.set_sealed(&tx, &new).map_err(rejected)
    }

    /// The dnode that a record describes.
    fn sealed_dnode(&self, o: &Object, payload: &[u8]) -> Result<Dnode> {
        let new = self.form(o, payload)?;
        if !self.range.contains(&o.object) || o.flags & RAW_BYTESWAP != 0 {
            return Err(bad("an object is outside the announced range of dnodes"));
        }
        if (new.checksum.0, new.compression.0) != (o.checksum, o.compression) {
            return Err(bad("the pool does not support a checksum or compression of the stream"));
        }
        let is_tree = INDIRECT_SHIFT_RANGE.contains(&o.indirect_shift)
            && (1..=MAX_LEVELS).contains(&o.levels)
            && (1..=3).contains(&o.pointers);
        if !is_tree {
            return Err(bad("an object has an invalid number of levels or blocks"));
        }
        let slots = new.slots.unwrap_or(1);
        let mut dnode = Dnode::new(new.kind, slots, o.pointers.into(), o.indirect_shift);
        dnode.levels = o.levels;
        dnode.bonus_kind = new.bonus_kind;
        (dnode.checksum, dnode.compression) = (new.checksum, new.compression);
        dnode.data_sectors = u16::try_from(o.block_size / 512).unwrap_or(0);
        dnode.max_block = o.max_block;
        let has_spill = o.flags & OBJECT_HAS_SPILL != 0;
        let is_whole = o.bonus_len == 0 || payload.len() == dnode.bonus_room(has_spill);
        match is_whole && dnode.set_bonus_area(o.bonus_len as usize, payload, has_spill) {
            true => Ok(dnode),
            false => Err(bad("an encrypted bonus does not fill its room in the dnode")),
        }
    }

    pub(super) fn sealed_block(&mut self, w: &Write, payload: &[u8]) -> Result<()> {
        let object = self.written(w.object)?;
        let dnode = object.dnode();
        let size = dnode.block_size();
        let is_block = w.logical_size == size && size != 0 && w.offset.is_multiple_of(size);
        if !is_block || w.kind != u32::from(dnode.kind.0) {
            return Err(bad("an encrypted block does not match the blocks of its object"));
        }
        let (seal, endian) = self.seal(&Sealed {
            size: w.logical_size,
            compression: w.compression,
            kind: dnode.kind,
            params: CryptParams { salt: w.salt, iv: w.iv },
            mac: w.mac,
            is_swapped: w.flags & RAW_BYTESWAP != 0,
            payload,
        })?;
        let bytes = AlignedBuf::copy_of(payload);
        let tx = self.write(size)?;
        object.write_sealed(&tx, w.offset / size, bytes, endian, seal).map_err(rejected)
    }

    pub(super) fn sealed_spill(&mut self, s: &Spill, payload: &[u8]) -> Result<()> {
        let object = self.need(s.object)?;
        if s.length > SPILL_MAX || payload.len() as u64 != s.compressed_size {
            return Err(bad("the size of a spill block is invalid"));
        }
        if self.is_unmodified(s) && object.dnode().spill.is_some() {
            return Ok(());
        }
        let (seal, endian) = self.seal(&Sealed {
            size: s.length,
            compression: s.compression,
            kind: object.dnode().bonus_kind,
            params: CryptParams { salt: s.salt, iv: s.iv },
            mac: s.mac,
            is_swapped: s.flags & RAW_BYTESWAP != 0,
            payload,
        })?;
        let bytes = AlignedBuf::copy_of(payload);
        let tx = self.write(s.length)?;
        let blkid = Place::BLKID_SPILL;
        object.write_sealed(&tx, blkid, bytes, endian, seal).map_err(rejected)
    }

    /// Checks the parameters of an encrypted block in a record.
    fn seal(&self, block: &Sealed<'_>) -> Result<(Seal, Endian)> {
        self.check_size(block.size)?;
        let compression = Compression(block.compression);
        let length = block.payload.len() as u64;
        let fits = match compression {
            Compression::OFF => length == block.size,
            compression if self.can_have(compression) => length <= block.size,
            _ => return Err(bad("the pool does not support a compression of the stream")),
        };
        if !fits || length == 0 || !length.is_multiple_of(512) {
            return Err(bad("the size of an encrypted block is invalid"));
        }
        let params = block.kind.is_encrypted().then_some(block.params);
        let endian = if block.is_swapped { Endian::Big } else { Endian::Little };
        Ok((Seal { size: block.size, compression, params, mac: block.mac }, endian))
    }

    /// A hole, which is one of whole blocks: parts of them cannot be changed without the key.
    pub(super) fn sealed_hole(&mut self, f: &Free) -> Result<()> {
        let object = self.need(f.object)?;
        let size = object.dnode().block_size();
        let is_endless = f.length == u64::MAX;
        let end = f.offset.checked_add(f.length).filter(|_| !is_endless);
        let is_whole = |at: u64| size != 0 && at.is_multiple_of(size);
        if !is_whole(f.offset) || !(is_endless || end.is_some_and(is_whole)) {
            return Err(bad("a hole of an encrypted object ends within a block"));
        }
        let tx = self.begin(Hold::free())?;
        object.free_range(&tx, f.offset, f.length).map_err(rejected)
    }
}

/// Whether an object can become `new` with the blocks that it has.
fn can_become(dnode: &Dnode, new: &Dnode) -> bool {
    dnode.kind == new.kind
        && dnode.block_size() == new.block_size()
        && dnode.size() == new.size()
        && dnode.blkptrs.len() == new.blkptrs.len()
        && dnode.levels <= new.levels
        && (dnode.indirect_shift == new.indirect_shift || dnode.levels == 1)
}
