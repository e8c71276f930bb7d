//! Lies in images: metadata is read, changed where it decides, and stored again in its place.
//!
//! Nearly all metadata is compressed, so damage to stored bytes mostly ends in the decompressor.
//! Here a block is decompressed, a pointer in it is made to lead elsewhere (to itself, to what is
//! above it, to anything) or a size to lie, and the block is compressed again into the space it
//! has. Its checksum is then wrong, of course; a reader that ignores checksums believes the lie.

use super::walk::{read_files, read_objset};
use super::work::{ReadLog, candidates};
use engine::inside::dmu::{Block, BlockStore, Key, Objset, Place};
use engine::inside::ondisk::dnode::DNODE_SLOT_SIZE;
use engine::inside::ondisk::{BlkPtr, Compression, DmuType, Endian};
use engine::inside::vdev::Scope;
use engine::inside::zio;
use engine::inside::zio::Request;
use engine::inside::{codec, zpl};
use engine::{Dsl, OpenOptions, Pool};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use testkit::{Rng, SparseImage};

/// Blocks of one pool that are kept to be lied about, at most.
const STORED_MAX: usize = 4000;
const POINTER: usize = 128;

/// What the lie is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Pointers lead back, up, or anywhere.
    Cycle,
    /// Sizes, counts and shifts are not what they were.
    Size,
}

/// A block of metadata and where its bytes are.
struct Stored {
    bp: BlkPtr,
    content: Vec<u8>,
    endian: Endian,
    /// Image, offset there, offset in the stored block, length.
    pieces: Vec<(usize, u64, usize, usize)>,
}

/// All that can be lied about in one pool.
pub(crate) struct Lies {
    blocks: Vec<Stored>,
    pointers: Vec<BlkPtr>,
}

/// Notes every pointer that is followed.
struct Recorder {
    truth: Arc<dyn BlockStore>,
    seen: Mutex<BTreeMap<[u64; 16], BlkPtr>>,
}

impl Recorder {
    fn note(&self, bp: &BlkPtr) {
        let wanted = bp.level() > 0 || bp.dmu_type().is_metadata();
        if wanted && !bp.is_hole() && !bp.is_embedded() && !bp.is_gang() && !bp.uses_crypt() {
            self.seen.lock().expect("no panic while it is held").insert(*bp.words(), *bp);
        }
    }
}

impl BlockStore for Recorder {
    fn rt(&self) -> engine::Rt {
        self.truth.rt()
    }

    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>> {
        self.note(bp);
        self.truth.read(bp, place, key)
    }

    fn read_many(
        &self,
        blocks: &[(BlkPtr, Place)],
        key: Option<&Key>,
    ) -> Vec<zio::Result<Arc<Block>>> {
        blocks.iter().for_each(|(bp, _)| self.note(bp));
        self.truth.read_many(blocks, key)
    }
}

impl Lies {
    /// Reads a sound pool.
    pub(crate) fn of(images: &[SparseImage]) -> Self {
        let log = ReadLog::default();
        let found = candidates(images.to_vec(), Some(&log));
        let mut out = Self { blocks: Vec::new(), pointers: Vec::new() };
        for candidate in &found {
            if let Ok(pool) = Pool::open_candidate(candidate, &OpenOptions::default()) {
                out.add(&pool, images, &log);
            }
        }
        out
    }

    fn add(&mut self, pool: &Pool, images: &[SparseImage], log: &ReadLog) {
        let truth = Arc::clone(pool.mos().store());
        let store = Arc::new(Recorder { truth, seen: Mutex::default() });
        record(pool, &store);
        let seen = std::mem::take(&mut *store.seen.lock().expect("the reading is over"));
        let step = seen.len().div_ceil(STORED_MAX).max(1);
        for bp in seen.into_values().step_by(step) {
            self.pointers.push(bp);
            let place = Place::objset(0);
            let request = |raw| Request { bp: &bp, place, key: None, scope: Scope::All, raw };
            log.lock().expect("no panic").clear();
            let Ok(raw) = pool.reader().read(request(true)).block else { continue };
            let reads = std::mem::take(&mut *log.lock().expect("no panic"));
            let Ok(block) = pool.reader().read(request(false)).block else { continue };
            let pieces: Vec<_> =
                reads.into_iter().filter_map(|r| locate(images, r, &raw)).collect();
            if !pieces.is_empty() {
                let (content, endian) = (block.to_vec(), block.endian());
                self.blocks.push(Stored { bp, content, endian, pieces });
            }
        }
    }

    /// How many blocks there are to lie about.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Tells `count` lies, several to one block or one to each.
    pub(crate) fn tell(&self, images: &mut [SparseImage], kind: Lie, count: usize, seed: u64) {
        let mut rng = Rng::new(seed);
        let mut changed = 0;
        // A block that no longer fits into its space is left as it was: not every try is a lie.
        for _ in 0..count * 4 {
            if changed >= count || self.blocks.is_empty() {
                return;
            }
            let stored = rng.pick(&self.blocks);
            let mut content = stored.content.clone();
            let changes = 1 + rng.below(4).min((count - changed) as u64 - 1);
            for _ in 0..changes {
                match kind {
                    Lie::Cycle => self.cycle(stored, &mut content, &mut rng),
                    Lie::Size => size(stored, &mut content, &mut rng),
                }
            }
            if let Some(bytes) = packed(stored, &content) {
                changed += changes as usize;
                for (image, offset, at, len) in &stored.pieces {
                    let end = (at + len).min(bytes.len());
                    let _ = images[*image].write_at(*offset, &bytes[*at..end]);
                }
            }
        }
    }

    /// Makes one pointer of the block lead to the block itself or to another one; half of the
    /// time with the level and type that its place demands, so that it is followed.
    fn cycle(&self, stored: &Stored, content: &mut [u8], rng: &mut Rng) {
        let Some(at) = pointer_place(stored, content, rng) else { return };
        let old = decode(stored, content, at);
        let target = if rng.below(2) == 0 { stored.bp } else { *rng.pick(&self.pointers) };
        let mut words = *target.words();
        if rng.below(2) == 0 {
            // Level and type stand in the upper half of the properties.
            let mask = 0x00ff_u64 << 48 | 0x1f_u64 << 56;
            words[6] = (words[6] & !mask) | (old.words()[6] & mask);
        }
        let lie = BlkPtr::from_words(words).encode(stored.endian);
        content[at..at + POINTER].copy_from_slice(&lie);
    }
}

/// Makes one size lie: of a pointer, of a dnode, or any word.
fn size(stored: &Stored, content: &mut [u8], rng: &mut Rng) {
    let kind = stored.bp.dmu_type();
    let is_dnode = stored.bp.level() == 0 && kind == DmuType::DNODE;
    match rng.below(3) {
        0 if is_dnode => {
            // Shift, levels, pointers, block size, bonus length, slots, last block, bytes used.
            let slots = (content.len() / DNODE_SLOT_SIZE).max(1) as u64;
            let at = rng.below(slots) as usize * DNODE_SLOT_SIZE;
            let field = *rng.pick(&[1usize, 2, 3, 8, 9, 10, 11, 12, 16, 22, 23, 24, 31]);
            if let Some(b) = content.get_mut(at + field) {
                *b = *rng.pick(&[0, 1, 7, 12, 17, 0x7f, 0x80, 0xff]);
            }
        }
        1 => {
            let Some(at) = pointer_place(stored, content, rng) else { return };
            let mut words = *decode(stored, content, at).words();
            let (which, value) = (rng.below(3), rng.next_u64());
            words[6] = match which {
                0 => (words[6] & !0xffff) | (value & 0xffff),
                1 => (words[6] & !0xffff_0000) | (value & 0xffff_0000),
                _ => words[6] | 0xffff_ffff,
            };
            if which == 0 {
                // The allocated size of the first copy, too.
                words[0] = (words[0] & !0xff_ffff) | (value >> 40);
            }
            let lie = BlkPtr::from_words(words).encode(stored.endian);
            content[at..at + POINTER].copy_from_slice(&lie);
        }
        _ => {
            let range = if rng.below(2) == 0 { content.len() } else { content.len().min(512) };
            let at = rng.below(range as u64) as usize & !7;
            let edges = [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 1 << 32, 1 << 48, 1 << 20];
            let edge = rng.pick(&edges).to_le_bytes();
            let end = content.len().min(at + 8);
            content[at..end].copy_from_slice(&edge[..end - at]);
        }
    }
}

/// Where one of the block's pointers is.
fn pointer_place(stored: &Stored, content: &[u8], rng: &mut Rng) -> Option<usize> {
    let kind = stored.bp.dmu_type();
    let at = match () {
        () if stored.bp.level() > 0 => {
            // Most slots of an indirect block are empty.
            let used = |at: &usize| content[*at..*at + POINTER].iter().any(|b| *b != 0);
            let all = (0..content.len() / POINTER).map(|i| i * POINTER);
            let used: Vec<usize> = all.filter(used).collect();
            if used.is_empty() { 0 } else { *rng.pick(&used) }
        }
        () if kind == DmuType::DNODE => {
            let slots = (content.len() / DNODE_SLOT_SIZE) as u64;
            let used = |i: &u64| content[*i as usize * DNODE_SLOT_SIZE] != 0;
            let used: Vec<u64> = (0..slots).filter(used).collect();
            if used.is_empty() {
                return None;
            }
            *rng.pick(&used) as usize * DNODE_SLOT_SIZE + 64
        }
        // The first pointer of the meta dnode.
        () if kind == DmuType::OBJSET => 64,
        // A dataset's pointer to its object set is in a bonus; lists are nothing but pointers.
        () => rng.below((content.len() / POINTER) as u64 + 1) as usize * POINTER,
    };
    (at + POINTER <= content.len()).then_some(at)
}

fn decode(stored: &Stored, content: &[u8], at: usize) -> BlkPtr {
    BlkPtr::decode(&content[at..at + POINTER], stored.endian).unwrap_or(stored.bp)
}

/// The block as it would be stored, when it fits into its space.
fn packed(stored: &Stored, content: &[u8]) -> Option<Vec<u8>> {
    let size = stored.bp.psize() as usize;
    let mut bytes = match stored.bp.compression() {
        Compression::OFF => content.to_vec(),
        c => codec::compress::compress(codec::compress::from_number(c.0)?, content)?,
    };
    if bytes.len() > size {
        return None;
    }
    bytes.resize(size, 0);
    Some(bytes)
}

/// What part of the block a read fetched, found by its bytes; `None` for parity and padding.
fn locate(
    images: &[SparseImage],
    (image, offset, len): (usize, u64, usize),
    raw: &[u8],
) -> Option<(usize, u64, usize, usize)> {
    let mut bytes = vec![0; len];
    images[image].read_at(offset, &mut bytes).ok()?;
    for at in (0..raw.len()).step_by(512) {
        let n = len.min(raw.len() - at);
        if n >= 512 && raw[at..at + n] == bytes[..n] {
            return Some((image, offset, at, n));
        }
    }
    None
}

/// Reads everything through the recorder.
fn record(pool: &Pool, store: &Arc<Recorder>) {
    let mut looks = 0;
    let root = &pool.uberblock().rootbp;
    let Ok(mos) = Objset::open(Arc::clone(store) as _, 0, root, None) else { return };
    read_objset(&mos, &mut looks);
    let Ok(dsl) = Dsl::open(mos, pool.name()) else { return };
    for (_, dir) in dsl.walk() {
        let Ok(dir) = dir else { continue };
        let Ok(Some(head)) = dsl.head(&dir) else { continue };
        let mut sets = dsl.snapshots(&head).unwrap_or_default();
        sets.push(head);
        for dataset in sets {
            let mut looks = 0;
            let set = Objset::open(Arc::clone(store) as _, dataset.object, &dataset.phys.bp, None);
            let Ok(set) = set else { continue };
            read_objset(&set, &mut looks);
            if let Ok(fs) = zpl::Filesystem::open(set) {
                read_files(&fs, &mut looks);
            }
        }
    }
}
