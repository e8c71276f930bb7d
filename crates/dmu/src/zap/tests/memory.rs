//! An object's blocks in memory, the reader over them, and the checker.

use crate::error::{Error, ErrorKind, Result};
use crate::store::{BlockStore, Key};
use crate::zap::Zap;
use crate::zap::blocks::{Blocks, Change};
use crate::{Hold, NewObject, Objset, ScratchSpec};
use device::AlignedBuf;
use ondisk::objset::OBJSET_SIZE_V1;
use ondisk::zap::{
    BlockKind, CHAIN_END, Chunk, FirstBlock, Leaf, TablePlace, ZapHeader, block_kind,
};
use ondisk::{BlkPtr, DmuType, Endian};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use testkit::Rng;
use zio::{Block, Place};

#[derive(Clone)]
pub(super) struct Memory {
    blocks: RefCell<BTreeMap<u64, (Vec<u8>, Endian)>>,
    size: RefCell<usize>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { blocks: RefCell::default(), size: RefCell::new(512) }
    }
}

fn error(kind: ErrorKind) -> Error {
    Error { objset: 1, object: 2, kind }
}

impl Blocks for &Memory {
    fn read(&self, blkid: u64) -> Result<Arc<Block>> {
        let blocks = self.blocks.borrow();
        let (bytes, endian) = blocks.get(&blkid).ok_or_else(|| error(ErrorKind::Tree("hole")))?;
        Ok(Arc::new(Block::new(AlignedBuf::copy_of(bytes), *endian)))
    }

    fn error(&self, kind: ErrorKind) -> Error {
        error(kind)
    }

    fn format_error(&self, blkid: u64, e: ondisk::Error) -> Error {
        let place = Place { objset: 1, object: 2, level: 0, blkid };
        error(ErrorKind::Format { place, error: e })
    }
}

impl Memory {
    /// Of these little-endian blocks.
    pub(super) fn of(blocks: &[&[u8]]) -> Self {
        let memory = Self::default();
        *memory.size.borrow_mut() = blocks[0].len();
        for (n, b) in blocks.iter().enumerate() {
            memory.put(n as u64, b.to_vec());
        }
        memory
    }

    pub(super) fn put(&self, blkid: u64, bytes: Vec<u8>) {
        self.blocks.borrow_mut().insert(blkid, (bytes, Endian::Little));
    }

    pub(super) fn block_size(&self) -> usize {
        *self.size.borrow()
    }

    pub(super) fn same_as(&self, other: &Self) -> bool {
        *self.blocks.borrow() == *other.blocks.borrow()
    }

    pub(super) fn apply(&self, changes: Vec<Change>) {
        for change in changes {
            let mut blocks = self.blocks.borrow_mut();
            match change {
                Change::BlockSize(n) => {
                    assert!(blocks.len() <= 1, "only block 0 may exist");
                    *self.size.borrow_mut() = n;
                }
                Change::Block(blkid, bytes) => {
                    assert_eq!(bytes.len(), self.block_size());
                    blocks.insert(blkid, (bytes, Endian::Little));
                }
                Change::Patch(blkid, at, patch) => {
                    let (bytes, endian) = blocks.get_mut(&blkid).unwrap();
                    assert_eq!(*endian, Endian::Little, "a patch in the wrong order");
                    bytes[at..at + patch.len()].copy_from_slice(&patch);
                }
                Change::Free(first, n) => {
                    for b in first..first + n {
                        // Of a table that grew twice in one go, the first copy was never there.
                        blocks.remove(&b);
                    }
                }
            }
        }
    }

    /// Puts all blocks into the other byte order.
    pub(super) fn turn(&self) {
        for (bytes, endian) in self.blocks.borrow_mut().values_mut() {
            let turned = match block_kind(bytes, *endian) {
                Some(BlockKind::Leaf) => Leaf::decode(bytes, *endian).unwrap().encode(Endian::Big),
                Some(_) => match FirstBlock::decode(bytes, *endian).unwrap() {
                    FirstBlock::Micro(m) => m.encode(Endian::Big),
                    FirstBlock::Fat(h) => h.encode(Endian::Big),
                },
                None => bytes.chunks(8).flat_map(|w| w.iter().rev().copied()).collect(),
            };
            (*bytes, *endian) = (turned, Endian::Big);
        }
    }

    pub(super) fn damage(&self, rng: &mut Rng) {
        let mut blocks = self.blocks.borrow_mut();
        let keys: Vec<u64> = blocks.keys().copied().collect();
        let (bytes, _) = blocks.get_mut(rng.pick(&keys)).unwrap();
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] = rng.next_u64() as u8;
    }
}

struct Header;

impl BlockStore for Header {
    fn rt(&self) -> rt::Rt {
        rt::Rt::real()
    }

    fn read(&self, _: &BlkPtr, _: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        Ok(Arc::new(Block::new(AlignedBuf::zeroed(OBJSET_SIZE_V1), Endian::Little)))
    }
}

/// The table as the reader sees it.
pub(super) fn read_back(memory: &Memory) -> Zap {
    let set = Objset::open(Arc::new(Header), 1, &BlkPtr::HOLE, None).unwrap();
    let set = set.scratch(ScratchSpec { txg: 1, memory_max: u64::MAX }).unwrap();
    let tx = set.begin(Hold::free()).unwrap();
    let new = NewObject::new(DmuType::ZAP_OTHER).number(2);
    let object = set.create(&tx, &new.block_size(memory.block_size() as u32)).unwrap();
    for (n, (bytes, endian)) in memory.blocks.borrow().iter() {
        let block = Arc::new(Block::new(AlignedBuf::copy_of(bytes), *endian));
        object.write_shared(&tx, *n, &block).unwrap();
    }
    Zap::open(&object.reopen().unwrap()).unwrap()
}

/// What OpenZFS and zdb assert of a fat table: every word of the pointer table leads to the leaf of
/// its prefix, all leaves are found, counts are exact, and each chunk of a leaf belongs to just one
/// entry, array or the free list.
pub(super) fn check(memory: &Memory, entries: u64) {
    let block = memory.read_now(0);
    let header = match FirstBlock::decode(&block.0, block.1).unwrap() {
        FirstBlock::Fat(h) => h,
        FirstBlock::Micro(m) => {
            assert_eq!(m.iter().count() as u64, entries);
            assert_eq!(m.block_size(), memory.block_size());
            return;
        }
    };
    assert_eq!(header.entry_count, entries);
    assert_eq!(header.table.next_block, 0);
    let shift = header.table.shift;
    let mut leaves: BTreeMap<u64, Leaf<'static>> = BTreeMap::new();
    for index in 0..1u64 << shift {
        let hash = index << (64 - shift);
        let blkid = pointer(memory, &header, hash);
        assert!(blkid > 0 && blkid < header.free_block);
        let leaf = leaves.entry(blkid).or_insert_with(|| {
            let (bytes, endian) = memory.read_now(blkid);
            Leaf::decode(&bytes, endian).unwrap().into_owned()
        });
        assert!(leaf.covers(hash), "word {index} leads to a leaf of another prefix");
        assert!(u64::from(leaf.prefix_len) <= shift);
    }
    assert_eq!(leaves.len() as u64, header.leaf_count);
    assert_eq!(leaves.values().map(|l| u64::from(l.entry_count)).sum::<u64>(), entries);
    let table = header.table.block..header.table.block + header.table.block_count;
    for blkid in memory.blocks.borrow().keys() {
        let used = *blkid == 0 || leaves.contains_key(blkid) || table.contains(blkid);
        assert!(used, "block {blkid} is not used and not freed");
    }
    for (blkid, leaf) in &leaves {
        check_leaf(leaf, &header).unwrap_or_else(|e| panic!("leaf {blkid}: {e}"));
    }
}

fn pointer(memory: &Memory, header: &ZapHeader, hash: u64) -> u64 {
    match header.place(hash) {
        TablePlace::Embedded { leaf } => leaf,
        TablePlace::External { block, index } => {
            let (bytes, endian) = memory.read_now(block);
            ZapHeader::pointer(&bytes, index, endian).unwrap()
        }
    }
}

fn check_leaf(leaf: &Leaf<'_>, header: &ZapHeader) -> std::result::Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut see = |at: u16| if seen.insert(at) { Ok(()) } else { Err(format!("{at} twice")) };
    let mut free = 0;
    let mut at = leaf.free_list;
    while at != CHAIN_END {
        see(at)?;
        let Some(Chunk::Free { next, .. }) = leaf.chunk(at) else {
            return Err(format!("{at} is on the free list"));
        };
        free += 1;
        at = next;
    }
    if free != leaf.free_count {
        return Err(format!("{free} free chunks, not {}", leaf.free_count));
    }
    let mut entries = 0;
    let of = header.key_hash();
    for (bucket, head) in leaf.buckets().enumerate() {
        let (mut at, mut last) = (head, 0);
        while at != CHAIN_END {
            see(at)?;
            let Some(Chunk::Entry(e)) = leaf.chunk(at) else {
                return Err(format!("{at} is not an entry"));
            };
            if leaf.bucket_of(e.hash) != bucket || !leaf.covers(e.hash) || e.cd < last {
                return Err(format!("entry {at} is in the wrong place"));
            }
            let full = leaf.entry(&e, of.integer_keys()).map_err(|e| e.to_string())?;
            let hash = match &full.name {
                ondisk::zap::ZapName::Bytes(b) => of.name(b),
                ondisk::zap::ZapName::U64s(w) => of.words(w),
            };
            if hash != e.hash {
                return Err(format!("entry {at} has another hash"));
            }
            let name_bytes = usize::from(e.name_len) * if of.integer_keys() { 8 } else { 1 };
            let value_bytes = usize::from(e.value_len) * usize::from(e.int_len);
            for (mut at, len) in [(e.name_chunk, name_bytes), (e.value_chunk, value_bytes)] {
                for _ in 0..len.div_ceil(21) {
                    see(at)?;
                    let Some(Chunk::Array { next, .. }) = leaf.chunk(at) else {
                        return Err(format!("{at} is not an array"));
                    };
                    at = next;
                }
                if at != CHAIN_END {
                    return Err("an array goes on behind its end".to_owned());
                }
            }
            entries += 1;
            (last, at) = (e.cd, e.next);
        }
    }
    if entries != leaf.entry_count || seen.len() != leaf.chunk_count() {
        return Err(format!("{entries} entries, {} chunks in use or free", seen.len()));
    }
    Ok(())
}

impl Memory {
    fn read_now(&self, blkid: u64) -> (Vec<u8>, Endian) {
        self.blocks.borrow().get(&blkid).cloned().unwrap()
    }
}
