//! The records of a stream, applied to the object set that they are received into.
//!
//! Each record is checked before it is used: sizes, kinds and numbers that no object has, and
//! objects that do not exist, make the stream a bad one. So do forms of blocks that the stream's
//! features do not include.

mod sealed;

use crate::error::{Error, ErrorKind, Result, StreamFault};
use codec::compress;
use device::AlignedBuf;
use dmu::{Block, Hold, NewObject, Object, Objset, Tx};
use dsl::write::Position;
use ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SLOT_SIZE};
use ondisk::sa::{SaHeader, first};
use ondisk::stream::{
    self, BLOCK_MAX, Begin, Body, FreeObjects, OBJECT_HAS_SPILL, SPILL_UNMODIFIED, Spill, Write,
    WriteEmbedded, begin_flag, feature,
};
use ondisk::znode::Znode;
use ondisk::{Checksum, Compression, DmuType, Endian};
use pool::live::Receiving;
use std::ops::Range;
use std::sync::Arc;

/// Largest block of a stream without [`feature::LARGE_BLOCKS`].
const OLD_BLOCK_MAX: u64 = 128 << 10;
/// Largest spill block.
pub(super) const SPILL_MAX: u64 = 128 << 10;
/// Behind the last number that an object can have.
const OBJECTS_END: u64 = 1 << 48;
/// Up to this number of objects are looked up one by one; more are searched for.
const PROBED_MAX: u64 = 256;
/// Objects that are freed in one transaction.
const FREED_AT_ONCE: usize = 64;
/// Bytes that a record makes dirty beside its payload.
const RECORD_BYTES: u64 = 16 << 10;
/// Largest payload of a pointer.
const EMBEDDED_MAX: u32 = 112;

/// Types whose blocks lead to others by what is in them, which no stream has.
const OF_THE_SYSTEM: [DmuType; 3] = [DmuType::DNODE, DmuType::OBJSET, DmuType::INTENT_LOG];

/// The state that records are applied to.
pub(super) struct Apply<'a> {
    pub(super) receiving: &'a Receiving,
    pub(super) objset: &'a Objset,
    pub(super) features: u64,
    says_spills: bool,
    /// The txg of the last change.
    txg: u64,
    /// The last object that the stream has.
    pub(super) highest: u64,
    /// The object with which a stream that is the rest of another begins.
    first_of_rest: Option<u64>,
    pub(super) has_large_dnodes: bool,
    /// The object that was written to last.
    last: Option<Object>,
    /// The last record that the rest of the stream can begin with, when it may have to.
    reached: Option<Position>,
    /// It is the one that is being applied.
    is_reaching: bool,
    /// Of a raw stream: the objects whose block of dnodes the stream told of last.
    pub(super) range: Range<u64>,
}

/// The error for an impossible record.
pub(super) fn bad(what: &'static str) -> Error {
    Error::new(ErrorKind::BadStream(StreamFault::Record(what)))
}

impl<'a> Apply<'a> {
    pub(super) fn new(receiving: &'a Receiving, begin: &Begin) -> Self {
        Self {
            receiving,
            objset: receiving.objset(),
            features: begin.features(),
            says_spills: begin.flags & begin_flag::SPILL_BLOCKS != 0,
            txg: 0,
            highest: 0,
            first_of_rest: None,
            has_large_dnodes: false,
            last: None,
            reached: None,
            is_reaching: false,
            range: 0..0,
        }
    }

    /// From now on it is noted how far the stream came, which has nothing of objects before
    /// `first`. Of a block that came in pieces all pieces come again.
    pub(super) fn resumable(mut self, first: u64) -> Self {
        self.highest = first;
        self.first_of_rest = Some(first);
        self.reached = Some(Position { object: first, ..Position::default() });
        self
    }

    fn is_raw(&self) -> bool {
        self.has(feature::RAW)
    }

    pub(super) fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// Enters the open txg.
    pub(super) fn begin(&mut self, hold: Hold) -> Result<Tx> {
        let tx = self.objset.begin(hold)?;
        self.txg = tx.txg();
        if let Some(at) = self.reached.filter(|_| self.is_reaching) {
            self.receiving.reach(&tx, at);
        }
        Ok(tx)
    }

    pub(super) fn write(&mut self, bytes: u64) -> Result<Tx> {
        self.begin(Hold::write(bytes.saturating_add(RECORD_BYTES)))
    }

    /// Applies one record, which ends at this byte of the stream.
    pub(super) fn record(&mut self, body: &Body, payload: &[u8], bytes: u64) -> Result<()> {
        self.reach(body, bytes)?;
        if matches!(body, Body::Object(_) | Body::FreeObjects(_)) {
            self.last = None;
        }
        match body {
            Body::Object(o) if self.is_raw() => self.sealed_object(o, payload),
            Body::Write(w) if self.is_raw() => self.sealed_block(w, payload),
            Body::Free(f) if self.is_raw() => self.sealed_hole(f),
            Body::Spill(s) if self.is_raw() => self.sealed_spill(s, payload),
            Body::ObjectRange(r) if self.is_raw() => self.object_range(r),
            Body::WriteEmbedded(_) if self.is_raw() => {
                Err(bad("a raw stream has an embedded block"))
            }
            Body::Object(o) => self.object(o, payload),
            Body::FreeObjects(f) => self.free_objects(f),
            Body::Write(w) => self.block(w, payload),
            Body::Free(f) => self.hole(f),
            Body::Spill(s) => self.spill(s, payload),
            Body::WriteEmbedded(w) => self.embedded(w, payload),
            Body::Begin(_) | Body::End(_) => Err(bad("a stream begins or ends within another")),
            Body::WriteByRef(_) | Body::ObjectRange(_) | Body::Redact(_) => {
                Err(bad("a record is of a kind that the stream does not announce"))
            }
        }
    }

    /// Notes where the rest of the stream would begin if it were cut now. The rest can begin with
    /// an object or with a block; other records are sent again with those before them.
    fn reach(&mut self, body: &Body, bytes: u64) -> Result<()> {
        let Some(last) = self.reached else { return Ok(()) };
        let (object, offset) = match body {
            Body::Object(o) => (o.object, 0),
            Body::Write(w) => (w.object, w.offset),
            // Not a spill block, whose offset is before block 0.
            Body::WriteEmbedded(w) if w.offset <= i64::MAX as u64 => (w.object, w.offset),
            _ => {
                self.is_reaching = false;
                return Ok(());
            }
        };
        if (object, offset) < (last.object, last.offset) {
            return Err(bad("objects or blocks are out of order"));
        }
        self.is_reaching = true;
        self.reached = Some(Position { object, offset, bytes });
        Ok(())
    }

    /// The object, when it is there.
    pub(super) fn found(&self, number: u64) -> Result<Option<Object>> {
        if number == 0 || number >= OBJECTS_END {
            return Err(bad("an object number is out of range"));
        }
        match self.objset.object(number) {
            Ok(object) => Ok(Some(object)),
            Err(e) if e.is_absent() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) fn need(&self, number: u64) -> Result<Object> {
        self.found(number)?.ok_or_else(|| bad("a record refers to an object that does not exist"))
    }

    /// The same for one that is written to, often several times after another.
    pub(super) fn written(&mut self, number: u64) -> Result<Object> {
        if let Some(last) = self.last.as_ref().filter(|last| last.number() == number) {
            return Ok(last.clone());
        }
        let object = self.need(number)?;
        self.last = Some(object.clone());
        Ok(object)
    }

    /// Waits until what was freed is free on disk: only then its slots can be taken again by
    /// something else.
    pub(super) fn settle(&self) -> Result<()> {
        match self.txg {
            0 => Ok(()),
            txg => Ok(self.objset.wait_synced(txg)?),
        }
    }

    fn object(&mut self, o: &stream::Object, payload: &[u8]) -> Result<()> {
        let new = self.form(o, payload)?;
        let slots = new.slots.unwrap_or(1);
        self.comes(o.object, slots)?;
        let mut there = self.found(o.object)?;
        if there.as_ref().is_some_and(|object| !is_of_form(object, &new) && !is_kept(object, &new))
        {
            // An object of another form is another object.
            self.free(&[o.object])?;
            there = None;
        }
        let Some(object) = there else {
            self.make_room(o.object, slots)?;
            return self.create(&new);
        };
        let has_spill = o.flags & OBJECT_HAS_SPILL != 0;
        let may_have_spill = object.dnode().spill.is_some() || object.has_changes();
        let tx = self.write(new.bonus.len() as u64)?;
        if self.says_spills && !has_spill && may_have_spill {
            object.set_spill(&tx, None)?;
        }
        object.set_dnode(&tx, |dnode| {
            dnode.checksum = new.checksum;
            dnode.compression = new.compression;
        })?;
        object.set_bonus(&tx, new.bonus_kind, &new.bonus).map_err(rejected)
    }

    /// An object of this number is described next, whose dnode takes this number of slots.
    pub(super) fn comes(&mut self, number: u64, slots: u8) -> Result<()> {
        self.highest = self.highest.max(number);
        if slots > 1 && !self.has_large_dnodes {
            if self.reached.is_some() && !self.has(feature::LARGE_DNODE) {
                self.receiving.has_large_dnodes()?;
            }
            self.has_large_dnodes = true;
        }
        Ok(())
    }

    /// Frees the slots into which a dnode grows: they were freed already, or a later record frees
    /// them.
    pub(super) fn make_room(&mut self, number: u64, slots: u8) -> Result<()> {
        let mut taken = Vec::new();
        for covered in number + 1..number.saturating_add(u64::from(slots)) {
            taken.extend(self.found(covered)?.map(|object| object.number()));
        }
        if !taken.is_empty() {
            self.free(&taken)?;
            self.settle()?;
        }
        Ok(())
    }

    fn create(&mut self, new: &NewObject) -> Result<()> {
        self.create_by(|objset, tx| objset.create(tx, new))
    }

    pub(super) fn create_by(
        &mut self,
        make: impl Fn(&Objset, &Tx) -> dmu::Result<Object>,
    ) -> Result<()> {
        let tx = self.write(0)?;
        let made = make(self.objset, &tx);
        drop(tx);
        match made {
            Err(e) if matches!(e.kind, dmu::ErrorKind::Exists) => {
                self.settle()?;
                let tx = self.write(0)?;
                make(self.objset, &tx).map(drop).map_err(rejected)
            }
            made => made.map(drop).map_err(rejected),
        }
    }

    /// The object that a record describes.
    pub(super) fn form(&self, o: &stream::Object, payload: &[u8]) -> Result<NewObject> {
        let kind = |number: u32| {
            let kind = u8::try_from(number).ok().map(DmuType).filter(|kind| kind.is_valid());
            kind.ok_or_else(|| bad("an object is of an unknown type"))
        };
        let (data, bonus_kind) = (kind(o.kind)?, kind(o.bonus_kind)?);
        let slots = o.slots.max(1);
        let most = if self.has(feature::LARGE_BLOCKS) { BLOCK_MAX } else { OLD_BLOCK_MAX };
        let block_size = u64::from(o.block_size);
        let bonus = payload.get(..o.bonus_len as usize).unwrap_or_default();
        let room = usize::from(slots) * DNODE_SLOT_SIZE - DNODE_CORE_SIZE - 128;
        match () {
            () if data == DmuType::NONE => Err(bad("an object has no type")),
            () if OF_THE_SYSTEM.contains(&data) => {
                Err(bad("an object has a type that datasets do not use"))
            }
            () if o.object == 0 || o.object >= OBJECTS_END => {
                Err(bad("an object number is out of range"))
            }
            () if slots > 32 || (slots > 1 && !self.receiving.has_feature("large_dnode")) => {
                Err(bad("a dnode is larger than this pool allows"))
            }
            () if block_size == 0 || block_size > most || !block_size.is_multiple_of(512) => {
                Err(bad("a block size is invalid"))
            }
            () if bonus.len() != o.bonus_len as usize || bonus.len() > room => {
                Err(bad("a bonus is larger than its dnode"))
            }
            () if bonus_kind == DmuType::NONE && !bonus.is_empty() => {
                Err(bad("a bonus has no type"))
            }
            () => Ok(NewObject {
                number: Some(o.object),
                kind: data,
                block_size: o.block_size,
                indirect_shift: None,
                bonus_kind,
                bonus: bonus.to_vec(),
                slots: Some(slots),
                checksum: self.checksum(Checksum(o.checksum)),
                compression: self.compression(Compression(o.compression)),
            }),
        }
    }

    /// A checksum that blocks of this pool can have; otherwise that of the dataset.
    fn checksum(&self, wanted: Checksum) -> Checksum {
        let feature = match wanted {
            Checksum::ON
            | Checksum::OFF
            | Checksum::FLETCHER_2
            | Checksum::FLETCHER_4
            | Checksum::SHA256 => return wanted,
            Checksum::SHA512 => "sha512",
            Checksum::SKEIN => "skein",
            Checksum::BLAKE3 => "blake3",
            _ => return Checksum::INHERIT,
        };
        if self.receiving.has_feature(feature) { wanted } else { Checksum::INHERIT }
    }

    /// The same for a compression.
    fn compression(&self, wanted: Compression) -> Compression {
        let is_kept = matches!(wanted, Compression::ON | Compression::OFF) || self.can_have(wanted);
        if is_kept { wanted } else { Compression::INHERIT }
    }

    /// Whether blocks that are compressed so can be in this pool.
    pub(super) fn can_have(&self, compression: Compression) -> bool {
        match compression {
            Compression::LZ4 => self.receiving.has_feature("lz4_compress"),
            Compression::ZSTD => self.receiving.has_feature("zstd_compress"),
            Compression::INHERIT | Compression::ON | Compression::OFF | Compression::EMPTY => false,
            other => compress::Algorithm::from_number(other.0).is_some(),
        }
    }

    fn free_objects(&mut self, f: &FreeObjects) -> Result<()> {
        let end = f.first.saturating_add(f.count).min(OBJECTS_END);
        // Of a set that was empty all objects are those that the stream has had.
        let is_behind = !self.receiving.is_clone() && f.first > self.highest;
        if f.first >= end || is_behind {
            return Ok(());
        }
        self.free_between(f.first.max(1), end)
    }

    /// Frees the objects from `first` up to, not including, `end`.
    fn free_between(&mut self, first: u64, end: u64) -> Result<()> {
        let mut found = Vec::new();
        if end - first <= PROBED_MAX {
            for number in first..end {
                found.extend(self.found(number)?.map(|object| object.number()));
            }
            return self.free(&found);
        }
        for object in self.objset.objects_from(first) {
            let number = object?.number();
            if number >= end {
                break;
            }
            found.push(number);
            if found.len() >= FREED_AT_ONCE {
                self.free(&std::mem::take(&mut found))?;
            }
        }
        self.free(&found)
    }

    pub(super) fn free(&mut self, numbers: &[u64]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let tx = self.begin(Hold::free())?;
        for number in numbers {
            self.objset.free(&tx, *number)?;
        }
        Ok(())
    }

    /// Checks the size of a block before and after compression.
    pub(super) fn check_size(&self, logical: u64) -> Result<()> {
        let most = if self.has(feature::LARGE_BLOCKS) { BLOCK_MAX } else { OLD_BLOCK_MAX };
        match logical == 0 || logical > most || !logical.is_multiple_of(512) {
            true => Err(bad("a block size is invalid")),
            false => Ok(()),
        }
    }

    fn block(&mut self, w: &Write, payload: &[u8]) -> Result<()> {
        self.check_size(w.logical_size)?;
        let object = self.written(w.object)?;
        let compression = Compression(w.compression);
        if w.compression == 0 {
            return self.put(&object, w.offset, AlignedBuf::copy_of(payload), None);
        }
        if payload.is_empty() || payload.len() as u64 > w.logical_size {
            return Err(bad("the compressed size of a block exceeds its logical size"));
        }
        let bytes = unpacked(compression, payload, w.logical_size)?;
        self.put(&object, w.offset, bytes, Some((compression, payload)))
    }

    /// Writes bytes; those of a whole block stay compressed as they came, where the pool knows how.
    fn put(
        &mut self,
        object: &Object,
        offset: u64,
        bytes: AlignedBuf,
        packed: Option<(Compression, &[u8])>,
    ) -> Result<()> {
        let size = object.dnode().block_size();
        let is_whole = size == bytes.len() as u64 && size != 0 && offset.is_multiple_of(size);
        let packed = packed.filter(|(compression, _)| self.can_have(*compression));
        let held = bytes.len() + packed.map_or(0, |(_, packed)| packed.len());
        let tx = self.write(held as u64)?;
        if !is_whole {
            return object.write_at(&tx, offset, &bytes).map_err(rejected);
        }
        let mut block = Block::new(bytes, Endian::Little);
        if let Some((compression, packed)) = packed.filter(|_| !object.dnode().kind.is_metadata()) {
            block = block.packed_as(compression, packed);
        }
        object.write_shared(&tx, offset / size, &Arc::new(block)).map_err(rejected)
    }

    fn embedded(&mut self, w: &WriteEmbedded, payload: &[u8]) -> Result<()> {
        let is_data = w.embedded_kind == 0 && w.physical_size <= EMBEDDED_MAX;
        let size = u64::from(w.logical_size);
        if !self.has(feature::EMBED_DATA) || !is_data || size == 0 || size > w.length {
            return Err(bad("an embedded block is malformed"));
        }
        self.check_size(w.length)?;
        let object = self.written(w.object)?;
        let packed = payload.get(..w.physical_size as usize);
        let packed = packed.ok_or_else(|| bad("a block is shorter than its record states"))?;
        let compression = Compression(w.compression);
        let bytes = unpacked(compression, packed, size)?;
        if w.offset == object.dnode().block_size().wrapping_neg() {
            // OpenZFS sends embedded spill blocks so: as the block before 0.
            let tx = self.write(size)?;
            return object.set_spill(&tx, Some(&bytes)).map_err(rejected);
        }
        if size == w.length {
            return self.put(&object, w.offset, bytes, Some((compression, packed)));
        }
        let mut whole = AlignedBuf::zeroed(w.length as usize);
        if let Some(start) = whole.get_mut(..bytes.len()) {
            start.copy_from_slice(&bytes);
        }
        self.put(&object, w.offset, whole, None)
    }

    fn hole(&mut self, f: &stream::Free) -> Result<()> {
        let object = self.need(f.object)?;
        if f.length != u64::MAX && f.offset.checked_add(f.length).is_none() {
            return Err(bad("a hole ends beyond the largest offset"));
        }
        let tx = self.begin(Hold::free())?;
        object.free_range(&tx, f.offset, f.length).map_err(rejected)
    }

    fn spill(&mut self, s: &Spill, payload: &[u8]) -> Result<()> {
        if s.length < 512 || s.length > SPILL_MAX || payload.len() as u64 != s.length {
            return Err(bad("the size of a spill block is invalid"));
        }
        let object = self.need(s.object)?;
        if self.is_unmodified(s) && object.read_spill()?.is_some() {
            return Ok(());
        }
        let tx = self.write(s.length)?;
        object.set_spill(&tx, Some(payload)).map_err(rejected)
    }

    /// The spill block did not change, and the receiver has it, if it has one.
    pub(super) fn is_unmodified(&self, s: &Spill) -> bool {
        // That of the object with which a rest begins may be one that was damaged on its way.
        let is_sure = self.first_of_rest != Some(s.object);
        s.flags & SPILL_UNMODIFIED != 0 && self.says_spills && is_sure
    }

    /// Some dnodes are of more than one slot.
    pub(super) fn has_large_dnodes(&self) -> bool {
        self.has_large_dnodes
    }

    /// The stream came to its end. One that is full and was received as a clone has all objects:
    /// what else there is was the origin's.
    pub(super) fn end(&mut self, is_full: bool) -> Result<()> {
        match is_full && self.receiving.is_clone() {
            true => self.free_between(self.highest.saturating_add(1), OBJECTS_END),
            false => Ok(()),
        }
    }
}

/// The error for a record that the object set refuses: no stream may contain it.
pub(super) fn rejected(e: dmu::Error) -> Error {
    match e.kind {
        dmu::ErrorKind::Invalid(rule) => bad(rule.text()),
        dmu::ErrorKind::Exists => bad("an object takes the place of another"),
        _ => e.into(),
    }
}

/// Whether an object can become `new` with the blocks that it has.
fn is_of_form(object: &Object, new: &NewObject) -> bool {
    let dnode = object.dnode();
    let most = if new.bonus_kind == DmuType::SA { 1 } else { 3 };
    let room = (dnode.size() - DNODE_CORE_SIZE).saturating_sub(new.bonus.len());
    dnode.kind == new.kind
        && dnode.block_size() == u64::from(new.block_size)
        && Some(dnode.extra_slots + 1) == new.slots
        && dnode.blkptrs.len() == (room / 128).min(most)
}

/// Whether a file keeps its blocks although the stream has them in another size. The blocks of a
/// file that has several keep their size as long as it lives: then the streams before were cut to
/// 128 KiB and this one is not, or the reverse, and it has only the blocks that changed.
fn is_kept(object: &Object, new: &NewObject) -> bool {
    let dnode = object.dnode();
    let same_size = NewObject { block_size: dnode.block_size() as u32, ..new.clone() };
    let is_same = || {
        let was = generation(dnode.bonus_kind, &dnode.bonus, dnode.endian);
        was.is_some() && was == generation(new.bonus_kind, &new.bonus, Endian::Little)
    };
    new.kind == DmuType::PLAIN_FILE_CONTENTS
        && dnode.max_block > 0
        && is_of_form(object, &same_size)
        && is_same()
}

/// A value that distinguishes a file from another that had its number before.
fn generation(kind: DmuType, bonus: &[u8], endian: Endian) -> Option<u64> {
    match kind {
        DmuType::SA => SaHeader::decode(bonus).ok()?.word(bonus, first::GEN),
        DmuType::ZNODE => Some(Znode::decode(bonus, endian).ok()?.generation),
        _ => None,
    }
}

/// Decompresses a block.
fn unpacked(compression: Compression, packed: &[u8], size: u64) -> Result<AlignedBuf> {
    let algorithm = compress::from_number(compression.0);
    let algorithm = algorithm.ok_or_else(|| bad("a block has an unknown compression"))?;
    let mut bytes = AlignedBuf::zeroed(size as usize);
    compress::decompress(algorithm, packed, &mut bytes)
        .map_err(|_| bad("a block cannot be decompressed"))?;
    Ok(bytes)
}
