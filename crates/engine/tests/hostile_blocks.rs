//! Lying blocks: whatever decoded metadata says, reading on ends, with data or with errors.
//!
//! Damage to an image is mostly found by the decompressor, for nearly all metadata is compressed.
//! Here the lie begins behind it: a block store between the pool and everything above changes
//! blocks after they were verified and decompressed, so every change reaches a decoder.
//!
//! Bounded to `ZINC_CAMPAIGN_SECONDS` (default 10) for the random lies; `ZINC_SEED` is the first
//! seed. A failure names the seed, and as few of its lies as it takes.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

#[path = "roundtrip/open.rs"]
mod open;
#[path = "hostile/walk.rs"]
mod walk;

use engine::inside::device::AlignedBuf;
use engine::inside::dmu::{Block, BlockStore, Key, Objset, Place};
use engine::inside::ondisk::dnode::DNODE_SLOT_SIZE;
use engine::inside::ondisk::{BlkPtr, Compression, Dnode, Layout};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::zil::Log;
use engine::inside::zpl::replay::Settings;
use engine::inside::zpl::{Filesystem, Volume};
use engine::inside::{zio, zpl};
use engine::{Dsl, OpenOptions, Pool};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use testkit::{CorpusPool, Rng};
use walk::{LOOKS_MAX, forget_memory_peak, memory_peak_kib, read_files, read_objset};

/// Longest a round may take.
const ROUND_LIMIT: Duration = Duration::from_secs(60);
/// How far the resident size may grow while every pointer claims blocks of 16 MiB.
const GROWTH_LIMIT_MIB: u64 = 256;
/// The largest block there is, in sectors.
const LARGEST: u64 = (16 << 20) / 512;

type Lie = dyn Fn(&BlkPtr, &Block, &mut [u8]) + Send + Sync;

/// A store that changes blocks on their way up.
struct Liar {
    truth: Arc<dyn BlockStore>,
    lie: Box<Lie>,
}

impl Liar {
    fn falsified(&self, bp: &BlkPtr, block: &Block) -> Arc<Block> {
        let mut bytes = AlignedBuf::zeroed(block.len());
        bytes.copy_from_slice(block);
        (self.lie)(bp, block, &mut bytes);
        Arc::new(Block::new(bytes, block.endian()))
    }
}

impl BlockStore for Liar {
    fn rt(&self) -> engine::Rt {
        self.truth.rt()
    }

    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>> {
        self.truth.read(bp, place, key).map(|block| self.falsified(bp, &block))
    }

    fn read_many(
        &self,
        blocks: &[(BlkPtr, Place)],
        key: Option<&Key>,
    ) -> Vec<zio::Result<Arc<Block>>> {
        let read = self.truth.read_many(blocks, key).into_iter().zip(blocks);
        read.map(|(block, (bp, _))| block.map(|b| self.falsified(bp, &b))).collect()
    }
}

/// Reads everything above the store.
fn read_through(pool: &Pool, lie: Box<Lie>) -> usize {
    let store = Arc::new(Liar { truth: Arc::clone(pool.mos().store()), lie });
    let mut looks = 0;
    let root = &pool.uberblock().rootbp;
    let Ok(mos) = Objset::open(Arc::clone(&store) as _, 0, root, None) else { return 0 };
    read_objset(&mos, &mut looks);
    if let Ok(dsl) = Dsl::open(mos, pool.name()) {
        for (_, dir) in dsl.walk() {
            let Ok(dir) = dir else { continue };
            let _ = (dsl.origin(&dir), dsl.key_info(&dir), dsl.delegations(&dir));
            let Ok(Some(head)) = dsl.head(&dir) else { continue };
            let _ = (dsl.bookmarks(&head), dsl.properties(&head, &Default::default()));
            let _ = dsl.snapshots(&head).map(|all| all.len());
        }
    }
    // The sets themselves are opened as they truly are, so that a lie in the DSL does not keep
    // the files from being reached.
    for dataset in open::datasets(pool) {
        let key = pool.dsl().objset(&dataset).ok().and_then(|o| o.key().cloned());
        let store = Arc::clone(&store) as _;
        let set = Objset::open(store, dataset.object, &dataset.phys.bp, key);
        let Ok(set) = set else { continue };
        read_objset(&set, &mut looks);
        let log = Log::read(&set);
        looks += log.pending(0).count();
        if !log.blocks.is_empty() {
            replay(&set, &log, &mut looks);
        }
        if let Ok(volume) = Volume::open(&set) {
            let _ = (volume.segments().is_ok(), volume.read_at(0, &mut [0; 4096]));
        }
        if let Ok(fs) = Filesystem::open(set) {
            read_files(&fs, &mut looks);
        }
        if looks > LOOKS_MAX {
            break;
        }
    }
    looks
}

/// Replays the whole log into memory, and reads what that makes.
fn replay(set: &Objset, log: &Log, looks: &mut usize) {
    let settings = Settings { memory_max: 64 << 20, ..Settings::new(0) };
    if let Ok((replayed, report)) = zpl::replay::filesystem_log(set, &settings, log) {
        let _ = report.problem();
        read_objset(&replayed, looks);
        if let Ok(fs) = Filesystem::open(replayed) {
            read_files(&fs, looks);
        }
    }
    if let Ok((replayed, _)) = zpl::replay::volume_log(set, &settings, log) {
        read_objset(&replayed, looks);
    }
}

/// Kinds of blocks, of which each lie is about one: with [`LIES`] of them one block in eight is
/// lied about.
const KINDS: u64 = 8 * LIES as u64;
/// Lies of a round.
const LIES: usize = 64;

/// Each lie makes one to four changes of the blocks of its kind, the same of the same block.
fn random_lies(lies: &[u64]) -> Box<Lie> {
    let lies = lies.to_vec();
    Box::new(move |bp, _, bytes| {
        let block = bp.words().iter().fold(0u64, |h, w| h.rotate_left(7) ^ w);
        let is_about = |lie: &&u64| (**lie ^ block).is_multiple_of(KINDS);
        let Some(lie) = lies.iter().find(is_about).filter(|_| !bytes.is_empty()) else { return };
        let mut rng = Rng::new(lie ^ block.rotate_left(32));
        for _ in 0..=rng.below(3) {
            // Most of what decides stands at the front, and on whole words.
            let range = if rng.below(2) == 0 { bytes.len() } else { bytes.len().min(512) };
            let at = rng.below(range as u64) as usize;
            let word = at & !7;
            match rng.below(4) {
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                _ => {
                    let edges = [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 1 << 32, 1 << 48];
                    let edge = rng.pick(&edges).to_le_bytes();
                    let end = bytes.len().min(word + 8);
                    bytes[word..end].copy_from_slice(&edge[..end - word]);
                }
            }
        }
    })
}

fn all_pools() -> Vec<CorpusPool> {
    let mut out: Vec<_> = testkit::fixture_cases().iter().map(|n| testkit::fixture(n)).collect();
    let cases =
        ["basic", "crypt", "version28", "history", "ziluncle", "zil-slog", "zvols", "casefold"];
    out.extend(testkit::corpus_among(&cases));
    out
}

#[test]
fn blocks_that_lie_end_in_data_or_errors() {
    let pools: Vec<_> =
        all_pools().iter().map(|case| Arc::new(poolkit::open_unlocked(case))).collect();
    let number = |name| std::env::var(name).ok().and_then(|s| s.parse().ok());
    let budget = Duration::from_secs(number("ZINC_CAMPAIGN_SECONDS").unwrap_or(10));
    let start = Instant::now();
    let (mut rounds, looks) = (0u64, AtomicUsize::new(0));
    for seed in number("ZINC_SEED").unwrap_or(1).. {
        if start.elapsed() > budget {
            break;
        }
        let pool = &pools[(seed % pools.len() as u64) as usize];
        let what = format!("ZINC_SEED={seed}: pool {}", pool.name());
        testkit::shrinking_seed(seed, LIES, |lies| {
            let (send, receive) = mpsc::channel();
            let (pool, lies) = (Arc::clone(pool), lies.to_vec());
            std::thread::spawn(move || {
                let read = || read_through(&pool, random_lies(&lies));
                let _ = send.send(std::panic::catch_unwind(AssertUnwindSafe(read)));
            });
            match receive.recv_timeout(ROUND_LIMIT) {
                Ok(Ok(looked)) => drop(looks.fetch_add(looked, Ordering::Relaxed)),
                Ok(Err(_)) => panic!("panic with {what}"),
                Err(_) => panic!("hang with {what}"),
            }
        });
        rounds += 1;
    }
    let looks = looks.into_inner();
    println!("{rounds} rounds, {looks} looks, peak {} MiB", memory_peak_kib() >> 10);
    assert!(looks > 0, "something was read");
}

/// Every pointer claims the largest block there is; where the data is not compressed also the
/// largest stored size. With `consistent`, every dnode says that its blocks are that large.
fn large_lies(consistent: bool) -> Box<Lie> {
    Box::new(move |bp, block, bytes| {
        let order = block.endian();
        if bp.level() > 0 {
            for pointer in bytes.chunks_exact_mut(128) {
                let lie = enlarged(&BlkPtr::decode(pointer, order).expect("128 bytes"));
                pointer.copy_from_slice(&lie.encode(order));
            }
        } else if bp.dmu_type().layout() == Layout::Dnode {
            let mut at = 0;
            while at + DNODE_SLOT_SIZE <= bytes.len() {
                let slot = bytes[at..].to_vec();
                let size = match Dnode::decode(&slot, order) {
                    Ok(mut dnode) => {
                        dnode.blkptrs = dnode.blkptrs.iter().map(enlarged).collect();
                        if consistent {
                            dnode.data_sectors = LARGEST as u16;
                        }
                        bytes[at..at + dnode.size()].copy_from_slice(&dnode.encode(order));
                        dnode.size()
                    }
                    Err(_) => DNODE_SLOT_SIZE,
                };
                at += size;
            }
        }
    })
}

/// Pointers to dnodes are spared: without dnodes nothing else would be reached.
fn enlarged(bp: &BlkPtr) -> BlkPtr {
    let mut words = *bp.words();
    let spared = bp.level() > 0 || bp.dmu_type().layout() == Layout::Dnode;
    if bp.is_hole() || bp.is_embedded() || spared {
        return *bp;
    }
    words[6] = (words[6] & !0xffff) | (LARGEST - 1);
    if bp.compression() == Compression::OFF {
        words[6] = (words[6] & !0xffff_0000) | ((LARGEST - 1) << 16);
    }
    BlkPtr::from_words(words)
}

/// Reads many blocks of an object in one go, of some objects of every set; returns how many.
fn read_in_bulk(pool: &Pool, lie: Box<Lie>) -> usize {
    let store: Arc<dyn BlockStore> = Arc::new(Liar { truth: Arc::clone(pool.mos().store()), lie });
    let mut read = 0;
    for dataset in open::datasets(pool) {
        let set = Objset::open(Arc::clone(&store), dataset.object, &dataset.phys.bp, None);
        let Ok(set) = set else { continue };
        let objects = set.objects().flatten().filter(|o| o.dnode().max_block > 2);
        for object in objects.take(8) {
            let _ = object.read_at(0, &mut vec![0; 2 << 20]);
            read += 1;
        }
    }
    read
}

/// Blocks of 16 MiB everywhere cost a few of them at a time, not all.
#[test]
fn pointers_that_claim_the_largest_blocks_do_not_balloon() {
    let mut checked = 0;
    let mut cases = vec![testkit::fixture("sample")];
    cases.extend(["zvols", "codecs"].map(testkit::corpus));
    for case in cases {
        let mut options = OpenOptions { ignore_checksums: true, ..OpenOptions::default() };
        options.cache_bytes = 32 << 20;
        options.search.paths.clone_from(&case.images);
        let pool = Pool::open(case.name(), &options).expect("a sound pool");
        for consistent in [true, false] {
            forget_memory_peak();
            let before = memory_peak_kib();
            checked += read_in_bulk(&pool, large_lies(consistent));
            let grown = memory_peak_kib().saturating_sub(before) >> 10;
            println!("{}, consistent {consistent}: grown by {grown} MiB", case.case);
            assert!(grown < GROWTH_LIMIT_MIB, "{}: grown by {grown} MiB", case.case);
        }
    }
    assert!(checked > 0, "something was read");
}
