//! Lists of block pointers in objects of the MOS: dead lists, blocks to be freed later.
//!
//! # Theory
//!
//! A list grows at its end and is emptied from its end. One list can be put below another by
//! writing its number, so that moving a long list costs nothing; a short one is copied instead, so
//! that lists do not nest for nothing. The header keeps count of the space of all blocks, those of
//! the lists below included.
//!
//! New dead lists are mostly empty for ever, so all empty ones are one object, `empty_bpobj`, which
//! the feature of that name counts; the list gets an object of its own with its first block
//! ([`Lists::create_empty`], [`Lists::drop_empty`]).
//!
//! Lists are changed in syncing context only, by its one thread. A drain goes piece by piece: what
//! is handed out in one txg is off the list in the same txg, so that a crash neither frees twice
//! nor forgets.
//!
//! ```no_run
//! # fn f(mos: &dmu::Objset, tx: &dmu::Tx, blocks: &[ondisk::BlkPtr]) -> dmu::Result<()> {
//! let dsize = |bp: &ondisk::BlkPtr| bp.asize();
//! let lists = dmu::bpobj::Lists::new(mos, tx, &dsize)?;
//! let list = lists.create()?;
//! lists.append(list, blocks.iter().map(|bp| (*bp, false)))?;
//! let done = lists.drain(list, 1000, &mut |bp| println!("{bp:?}"))?;
//! # Ok(()) }
//! ```

use crate::error::{ErrorKind, Result};
use crate::object::Object;
use crate::objset::Objset;
use crate::refusal::Unsupported;
use crate::tx::Tx;
use crate::versions::spec::NewObject;
use crate::zap::{self, Zap};
use device::AlignedBuf;
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::bpobj::{BpobjHeader, Entry, Space, Subobjs};
use ondisk::mos::{DIRECTORY_OBJECT, EMPTY_BPOBJ, FEATURES_FOR_WRITE};
use ondisk::{BlkPtr, DmuType, Endian};
use std::collections::HashSet;

/// Bytes of a block of a list and of the array of lists below: what OpenZFS takes.
const BLOCK_SIZE: u32 = 128 << 10;
/// Blocks of a list read at once.
const READ_BLOCKS: u64 = 16;
/// Nesting of lists that is followed while they are emptied. Short lists are copied instead of
/// nested, so real ones are far from it.
const DEPTH_MAX: usize = 256;
/// Feature that counts the lists which share the empty object.
const FEATURE_EMPTY: &str = "com.delphix:empty_bpobj";
/// Feature with which lists count the frees among their entries.
const FEATURE_LIVELIST: &str = "com.delphix:livelist";

/// Lists of the MOS, to be changed in one txg.
pub struct Lists<'a> {
    mos: &'a Objset,
    tx: &'a Tx,
    dsize: &'a dyn Fn(&BlkPtr) -> u64,
    features: u64,
}

impl<'a> Lists<'a> {
    /// The lists in `mos`. `dsize` returns the space of a block as accounting counts it
    /// ([`crate::BlockOwner::dsize`]).
    ///
    /// # Errors
    /// The directory of the MOS cannot be read. A pool without feature flags is not supported.
    pub fn new(mos: &'a Objset, tx: &'a Tx, dsize: &'a dyn Fn(&BlkPtr) -> u64) -> Result<Self> {
        let directory = Zap::open(&mos.object(DIRECTORY_OBJECT)?)?;
        let absent = || mos.error(0, ErrorKind::Unsupported(Unsupported::NoFeatureFlags));
        let features = directory.get_u64(FEATURES_FOR_WRITE)?.ok_or_else(absent)?;
        Ok(Self { mos, tx, dsize, features })
    }

    /// The MOS.
    #[must_use]
    pub fn mos(&self) -> &'a Objset {
        self.mos
    }

    /// The transaction.
    #[must_use]
    pub fn tx(&self) -> &'a Tx {
        self.tx
    }

    /// How many things use a feature; `None`: it is not enabled.
    fn feature(&self, guid: &str) -> Result<Option<u64>> {
        Zap::open(&self.mos.object(self.features)?)?.get_u64(guid)
    }

    /// Makes an empty list.
    ///
    /// # Errors
    /// No object can be made.
    pub fn create(&self) -> Result<u64> {
        let frees = self.feature(FEATURE_LIVELIST)?.is_some_and(|n| n > 0);
        let header = BpobjHeader {
            accounting: Some([0; 2]),
            subobjs: Some(Subobjs::default()),
            num_freed: frees.then_some(0),
            ..BpobjHeader::default()
        };
        let new = NewObject::new(DmuType::BPOBJ)
            .block_size(BLOCK_SIZE)
            .bonus(DmuType::BPOBJ_HDR, &header.encode(Endian::Little));
        Ok(self.mos.create(self.tx, &new)?.number())
    }

    /// Number of the list that all empty ones share; `None`: there is none now.
    ///
    /// # Errors
    /// The directory of the MOS cannot be read.
    pub fn empty(&self) -> Result<Option<u64>> {
        Zap::open(&self.mos.object(DIRECTORY_OBJECT)?)?.get_u64(EMPTY_BPOBJ)
    }

    /// An empty list that may never be filled: the shared one where the pool has the
    /// feature. Nothing must be appended to that; [`Self::own`] makes it one's own before.
    ///
    /// # Errors
    /// No object can be made.
    pub fn create_empty(&self) -> Result<u64> {
        let Some(count) = self.feature(FEATURE_EMPTY)? else { return self.create() };
        let number = match self.empty()? {
            Some(n) => n,
            None => {
                let n = self.create()?;
                let directory = self.mos.object(DIRECTORY_OBJECT)?;
                zap::insert_u64(&directory, self.tx, EMPTY_BPOBJ, n)?;
                n
            }
        };
        self.set_feature(FEATURE_EMPTY, count.saturating_add(1))?;
        Ok(number)
    }

    /// One user of the shared empty list less; the last one takes it away.
    ///
    /// # Errors
    /// There is no shared list.
    pub fn drop_empty(&self) -> Result<()> {
        let count = self.feature(FEATURE_EMPTY)?.unwrap_or(0).saturating_sub(1);
        self.set_feature(FEATURE_EMPTY, count)?;
        if count == 0 {
            let number = self.empty()?.ok_or_else(|| {
                self.mos.error(DIRECTORY_OBJECT, ErrorKind::NoEntry(EMPTY_BPOBJ.to_owned()))
            })?;
            zap::remove(&self.mos.object(DIRECTORY_OBJECT)?, self.tx, EMPTY_BPOBJ)?;
            self.mos.free(self.tx, number)?;
        }
        Ok(())
    }

    /// A list that may be appended to in place of `number`: itself, or when it is the shared empty
    /// one, a new one, whose number the caller has to remember.
    ///
    /// # Errors
    /// No object can be made.
    pub fn own(&self, number: u64) -> Result<u64> {
        if self.empty()? != Some(number) {
            return Ok(number);
        }
        let own = self.create()?;
        self.drop_empty()?;
        Ok(own)
    }

    fn set_feature(&self, guid: &str, count: u64) -> Result<()> {
        zap::set_u64(&self.mos.object(self.features)?, self.tx, guid, count)
    }

    /// Appends blocks, each with whether it is a free (livelists; false elsewhere).
    ///
    /// # Errors
    /// There is no such list.
    pub fn append(
        &self,
        number: u64,
        blocks: impl IntoIterator<Item = (BlkPtr, bool)>,
    ) -> Result<Space> {
        let (object, mut header) = self.open(number)?;
        let mut data = Vec::new();
        let mut added = Space::default();
        let mut frees = 0;
        for (bp, freed) in blocks {
            let [compressed, uncompressed] = bp.accounted_sizes();
            let one = Space { used: (self.dsize)(&bp), compressed, uncompressed };
            added = if freed { added.minus(one) } else { added.plus(one) };
            frees += u64::from(freed);
            data.extend_from_slice(&Entry::new(&bp, freed).0.encode(Endian::Little));
        }
        if data.is_empty() {
            return Ok(added);
        }
        let at = header.data_len().map_err(|e| object.format_error(0, e))?;
        append_words(&object, self.tx, at, &data)?;
        header.num_blkptrs += (data.len() / BLKPTR_SIZE) as u64;
        header.num_freed = header.num_freed.map(|n| n + frees);
        let total = header.space().plus(added);
        set_space(&mut header, total);
        self.save(&object, &header)?;
        Ok(added)
    }

    /// Puts the list `sub` with all below it below the list `number`. `sub` belongs to it from now
    /// on; a short one is copied and gone, and for the shared empty list there is one user less.
    ///
    /// # Errors
    /// There is no such list.
    pub fn append_list(&self, number: u64, sub: u64) -> Result<()> {
        if self.empty()? == Some(sub) {
            return self.drop_empty();
        }
        let (below, below_header) = self.open(sub)?;
        if below_header.is_empty() {
            return self.free(sub);
        }
        let (object, mut header) = self.open(number)?;
        let mut subobjs = header.subobjs.unwrap_or_default();
        let lists = below_header.subobjs.unwrap_or_default();
        // One block of each at most: copying costs no more than remembering.
        let array_fits = lists.count <= u64::from(BLOCK_SIZE) / 8;
        let fits = below_header.num_blkptrs <= u64::from(BLOCK_SIZE) / BLKPTR_SIZE as u64;
        let numbers = if fits && array_fits { self.below(&below, lists)? } else { vec![sub] };
        if !numbers.is_empty() {
            if subobjs.object == 0 {
                let new = NewObject::new(DmuType::BPOBJ_SUBOBJ).block_size(BLOCK_SIZE);
                subobjs.object = self.mos.create(self.tx, &new)?.number();
            }
            let data: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            let array = self.mos.object(subobjs.object)?;
            append_words(&array, self.tx, subobjs.count.saturating_mul(8), &data)?;
            subobjs.count += numbers.len() as u64;
            header.subobjs = Some(subobjs);
        }
        if fits && array_fits {
            let mut data = Vec::new();
            each_entry(&below, &below_header, &mut |e| {
                data.extend_from_slice(&e.0.encode(Endian::Little));
            })?;
            let at = header.data_len().map_err(|e| object.format_error(0, e))?;
            append_words(&object, self.tx, at, &data)?;
            header.num_blkptrs += below_header.num_blkptrs;
            if lists.object != 0 {
                self.mos.free(self.tx, lists.object)?;
            }
            self.mos.free(self.tx, sub)?;
        }
        let frees = below_header.num_freed.unwrap_or(0);
        header.num_freed = header.num_freed.map(|n| n + frees);
        let total = header.space().plus(below_header.space());
        set_space(&mut header, total);
        self.save(&object, &header)
    }

    /// Takes up to `max_blocks` blocks off the list and those below it and hands them to `each`;
    /// true when nothing is left. The list itself stays. A block that is handed out is off the list
    /// when the txg is durable, so it must be freed in the same txg.
    ///
    /// # Errors
    /// A list cannot be read. Blocks handed out before are off the list.
    pub fn drain(
        &self,
        number: u64,
        max_blocks: u64,
        each: &mut dyn FnMut(BlkPtr),
    ) -> Result<bool> {
        let mut left = max_blocks;
        let mut seen = HashSet::new();
        let (_, done) = self.drain_one(number, &mut left, &mut seen, DEPTH_MAX, each)?;
        Ok(done)
    }

    /// See [`Self::drain`]; also returns the space of what was taken off.
    fn drain_one(
        &self,
        number: u64,
        left: &mut u64,
        seen: &mut HashSet<u64>,
        depth: usize,
        each: &mut dyn FnMut(BlkPtr),
    ) -> Result<(Space, bool)> {
        let (object, mut header) = self.open(number)?;
        self.check_seen(&object, seen)?;
        let Some(depth) = depth.checked_sub(1) else {
            return Err(object.error(ErrorKind::Tree("lists of lists nest too deep")));
        };
        let mut gone = Space::default();
        let take = header.num_blkptrs.min(*left);
        if take > 0 {
            let keep = header.num_blkptrs - take;
            let mut entries = Vec::new();
            each_entry_from(&object, &header, keep, &mut |e| entries.push(*e))?;
            // From the end, as they are taken off.
            for e in entries.iter().rev() {
                let [compressed, uncompressed] = e.0.accounted_sizes();
                let one = Space { used: (self.dsize)(&e.0), compressed, uncompressed };
                let freed = e.is_freed();
                gone = if freed { gone.minus(one) } else { gone.plus(one) };
                header.num_freed = header.num_freed.map(|n| n.saturating_sub(u64::from(freed)));
                each(e.0);
            }
            *left -= take;
            header.num_blkptrs = keep;
            object.free_range(self.tx, keep * BLKPTR_SIZE as u64, u64::MAX)?;
        }
        let mut done = header.num_blkptrs == 0;
        let lists = header.subobjs.unwrap_or_default();
        if done && lists.count > 0 {
            let mut numbers = self.below(&object, lists)?;
            while let (Some(&sub), true) = (numbers.last(), done && *left > 0) {
                let (space, empty) = self.drain_one(sub, left, seen, depth, each)?;
                gone = gone.plus(space);
                done = empty;
                if empty {
                    self.mos.free(self.tx, sub)?;
                    numbers.pop();
                }
            }
            done &= numbers.is_empty();
            let count = numbers.len() as u64;
            let object = if count == 0 { 0 } else { lists.object };
            if count == 0 {
                self.mos.free(self.tx, lists.object)?;
            } else {
                let array = self.mos.object(lists.object)?;
                array.free_range(self.tx, count * 8, u64::MAX)?;
            }
            header.subobjs = Some(Subobjs { object, count });
        }
        let total = if done { Space::default() } else { header.space().minus(gone) };
        if done {
            gone = header.space();
        }
        set_space(&mut header, total);
        self.save(&object, &header)?;
        Ok((gone, done))
    }

    /// Removes a list with all below it. The blocks it names are not freed.
    ///
    /// # Errors
    /// A list cannot be read.
    pub fn free(&self, number: u64) -> Result<()> {
        let mut seen = HashSet::new();
        let mut todo = vec![number];
        while let Some(number) = todo.pop() {
            let (object, header) = self.open(number)?;
            self.check_seen(&object, &mut seen)?;
            let lists = header.subobjs.unwrap_or_default();
            todo.extend(self.below(&object, lists)?);
            if lists.object != 0 {
                self.mos.free(self.tx, lists.object)?;
            }
            self.mos.free(self.tx, number)?;
        }
        Ok(())
    }

    /// Removes a list, which may be the shared empty one, and of those below it what can be found.
    ///
    /// # Errors
    /// The shared list cannot be distinguished from others.
    pub fn remove_damaged(&self, number: u64) -> Result<()> {
        if self.empty()? == Some(number) {
            return self.drop_empty();
        }
        let mut seen = HashSet::new();
        let mut todo = vec![number];
        while let Some(number) = todo.pop() {
            let Ok((object, header)) = self.open(number) else { continue };
            if self.check_seen(&object, &mut seen).is_err() {
                continue;
            }
            let lists = header.subobjs.unwrap_or_default();
            todo.extend(self.below(&object, lists).unwrap_or_default());
            if lists.object != 0 && self.mos.object(lists.object).is_ok() {
                self.mos.free(self.tx, lists.object)?;
            }
            self.mos.free(self.tx, number)?;
        }
        Ok(())
    }

    /// Removes a list that may be the shared empty one.
    ///
    /// # Errors
    /// A list cannot be read.
    pub fn free_or_drop(&self, number: u64) -> Result<()> {
        if self.empty()? == Some(number) { self.drop_empty() } else { self.free(number) }
    }

    fn open(&self, number: u64) -> Result<(Object, BpobjHeader)> {
        open(self.mos, number)
    }

    fn below(&self, object: &Object, lists: Subobjs) -> Result<Vec<u64>> {
        numbers_below(self.mos, object, lists)
    }

    fn check_seen(&self, object: &Object, seen: &mut HashSet<u64>) -> Result<()> {
        check_seen(object, seen)
    }

    fn save(&self, object: &Object, header: &BpobjHeader) -> Result<()> {
        let bonus = header.encode(object.dnode().endian);
        object.set_bonus(self.tx, DmuType::BPOBJ_HDR, &bonus)
    }
}

/// Calls `each` with every entry of the list and of those below it, in the order they were put in
/// but for the lists below, which come after.
///
/// # Errors
/// A list cannot be read, or belongs to two.
pub fn entries(mos: &Objset, number: u64, each: &mut dyn FnMut(&Entry)) -> Result<()> {
    let mut seen = HashSet::new();
    let mut todo = vec![number];
    while let Some(number) = todo.pop() {
        let (object, header) = open(mos, number)?;
        check_seen(&object, &mut seen)?;
        each_entry(&object, &header, each)?;
        let below = numbers_below(mos, &object, header.subobjs.unwrap_or_default())?;
        todo.extend(below.into_iter().rev());
    }
    Ok(())
}

/// Space of all blocks of a list and those below it.
///
/// # Errors
/// There is no such list.
pub fn space(mos: &Objset, number: u64) -> Result<Space> {
    Ok(open(mos, number)?.1.space())
}

/// The header of a list.
///
/// # Errors
/// There is no such list.
pub fn header(mos: &Objset, number: u64) -> Result<BpobjHeader> {
    Ok(open(mos, number)?.1)
}

/// The lists right below a list.
///
/// # Errors
/// The list, or the array of those below it, cannot be read.
pub fn below(mos: &Objset, number: u64) -> Result<Vec<u64>> {
    let (object, header) = open(mos, number)?;
    numbers_below(mos, &object, header.subobjs.unwrap_or_default())
}

fn open(mos: &Objset, number: u64) -> Result<(Object, BpobjHeader)> {
    let object = mos.object(number)?;
    let dnode = object.dnode();
    if dnode.bonus_kind != DmuType::BPOBJ_HDR {
        let found = dnode.kind.name();
        return Err(object.error(ErrorKind::WrongType { wanted: "a bpobj", found }));
    }
    let header = BpobjHeader::decode(&dnode.bonus, dnode.endian);
    let header = header.map_err(|e| object.format_error(0, e))?;
    Ok((object, header))
}

fn check_seen(object: &Object, seen: &mut HashSet<u64>) -> Result<()> {
    if seen.insert(object.number()) {
        return Ok(());
    }
    Err(object.error(ErrorKind::Tree("a list belongs to two lists")))
}

fn numbers_below(mos: &Objset, object: &Object, lists: Subobjs) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    if lists.object == 0 || lists.count == 0 {
        return Ok(numbers);
    }
    let array = mos.object(lists.object)?;
    let end = lists.count.checked_mul(8);
    let end = end.ok_or_else(|| object.error(ErrorKind::Tree("more lists than can be")))?;
    each_run(&array, 0, end, &mut |bytes, endian| {
        numbers.extend(bytes.as_chunks::<8>().0.iter().map(|w| endian.u64(*w)));
        Ok(())
    })?;
    Ok(numbers)
}

fn each_entry(object: &Object, header: &BpobjHeader, each: &mut dyn FnMut(&Entry)) -> Result<()> {
    each_entry_from(object, header, 0, each)
}

/// The entries of the list itself from number `from` on.
fn each_entry_from(
    object: &Object,
    header: &BpobjHeader,
    from: u64,
    each: &mut dyn FnMut(&Entry),
) -> Result<()> {
    let end = header.data_len().map_err(|e| object.format_error(0, e))?;
    each_run(object, from * BLKPTR_SIZE as u64, end, &mut |bytes, endian| {
        for e in ondisk::bpobj::entries(bytes, endian) {
            each(&e.map_err(|e| object.format_error(0, e))?);
        }
        Ok(())
    })
}

/// Reads the bytes from `start` to `end`, block by block: each has the byte order of the machine
/// that wrote it last.
fn each_run(
    object: &Object,
    start: u64,
    end: u64,
    each: &mut dyn FnMut(&[u8], Endian) -> Result<()>,
) -> Result<()> {
    let bs = object.dnode().block_size().max(1);
    if end > object.size_of_blocks() {
        return Err(object.error(ErrorKind::Tree("a list is longer than its object")));
    }
    let last = end.div_ceil(bs);
    let mut first = start / bs;
    while first < last {
        let n = READ_BLOCKS.min(last - first);
        for (blkid, block) in object.read_blocks(first, n) {
            let block = block?;
            let hole = || object.error(ErrorKind::Tree("a list has a hole"));
            let block = block.ok_or_else(hole)?;
            let at = blkid * bs;
            let from = start.saturating_sub(at) as usize;
            let to = (end - at).min(bs) as usize;
            // A block shorter than the object's would be found by what is decoded from it.
            each(block.get(from..to).unwrap_or_default(), block.endian())?;
        }
        first += n;
    }
    Ok(())
}

/// Writes little-endian `data` at the end of an array of 64-bit words that is `at` bytes long. The
/// last block is turned when a machine of the other byte order wrote it.
fn append_words(object: &Object, tx: &Tx, at: u64, data: &[u8]) -> Result<()> {
    let bs = object.dnode().block_size().max(1);
    if !at.is_multiple_of(bs)
        && let Some(block) = object.reopen()?.read_block(at / bs)?
        && block.endian() == Endian::Big
    {
        let turned: Vec<u8> =
            block.as_chunks::<8>().0.iter().flat_map(|w| w.iter().rev().copied()).collect();
        object.write_block(tx, at / bs, AlignedBuf::copy_of(&turned))?;
    }
    object.write_at(tx, at, data)
}

fn set_space(header: &mut BpobjHeader, space: Space) {
    header.bytes = space.used;
    if let Some(a) = &mut header.accounting {
        *a = [space.compressed, space.uncompressed];
    }
}
