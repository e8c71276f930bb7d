//! Reading ahead, on a disk in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says why by failing")]

#[path = "../../zio/tests/common/mod.rs"]
mod bench;

use bench::{Bench, Books, Shape};
use device::{AlignedBuf, SimDisks, SimOptions, WriteDeviceRef};
use dmu::{
    AheadStats, BlockOwner, BlockStore, CachedStore, LiveSpec, NewObject, Object, Objset,
    SetPolicy, SyncContext, Tx,
};
use ondisk::objset::{OBJSET_SIZE_V3, ObjsetKind};
use ondisk::{BlkPtr, DmuType};
use rt::Rt;
use std::sync::Arc;
use std::time::Duration;
use zio::{Allocate, Reader, Writer, WriterSettings};

/// Bytes of a block, and blocks of the file.
const BLOCK: u64 = 16 << 10;
const BLOCKS: u64 = 512;
/// Enough that nothing is evicted.
const CACHE: usize = 64 << 20;
/// As far as one reader's blocks may be ahead.
const MAX: u64 = 1 << 20;

/// What is written is never given up here.
struct Keeper;

impl BlockOwner for Keeper {
    fn born(&self, _: &BlkPtr) {}
    fn kill(&self, bp: &BlkPtr) {
        unreachable!("{bp:?}")
    }
    fn dsize(&self, bp: &BlkPtr) -> u64 {
        bp.asize()
    }
}

/// A file on a disk.
struct Site {
    bench: Bench,
    root: BlkPtr,
}

fn site(rt: &Rt, seed: u64) -> Site {
    let mut bench = Bench::new(&[Shape("file", 1, 0)], 9);
    let options = SimOptions { name: "disk".into(), size: 64 << 20, seed, ..Default::default() };
    let disks = SimDisks::new(rt);
    bench.devices.values_mut().for_each(|d| *d = disks.add(&options) as WriteDeviceRef);
    let reader = bench.reader(&[]);
    let books = Arc::new(Books::new(Arc::clone(&reader), 1 << 20));
    let settings = WriterSettings { in_flight_max: 1 << 20, alloc_unit: 512, hole_birth: true };
    let writer =
        Writer::with_settings(rt, Arc::clone(&reader), books as Arc<dyn Allocate>, settings);
    let set = Objset::live(LiveSpec {
        store: Arc::new(CachedStore::new(reader, 1 << 20, None)),
        id: 54,
        root: None,
        kind: ObjsetKind::Zfs,
        header_size: OBJSET_SIZE_V3,
        transactions: None,
        policy: SetPolicy::default(),
        accounting: None,
        key: dmu::SetKey::None,
    })
    .unwrap();
    let tx = Tx::syncing(5);
    for kind in [DmuType::PLAIN_FILE_CONTENTS, DmuType::DIRECTORY_CONTENTS] {
        let object = set.create(&tx, &NewObject::new(kind).block_size(BLOCK as u32)).unwrap();
        for blkid in 0..BLOCKS {
            let bytes = AlignedBuf::copy_of(&bench::random(blkid, BLOCK as usize));
            object.write_block(&tx, blkid, bytes).unwrap();
        }
    }
    drop(tx);
    set.freeze(5);
    let context = SyncContext { workers: 1, writer: &writer, owner: &Keeper, txg: 5, hold: false };
    let root = set.sync(&context).unwrap().unwrap();
    writer.release();
    writer.wait().unwrap();
    Site { bench, root }
}

/// The file, with nothing of it in memory.
struct Cold {
    rt: Rt,
    reader: Arc<Reader>,
    store: Arc<CachedStore>,
    file: Object,
    directory: Object,
}

/// What a run of reads did.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    took: Duration,
    /// Data blocks that came from the disk.
    from_disk: u64,
    ahead: AheadStats,
}

impl Site {
    fn cold(&self, rt: &Rt, max: u64) -> Cold {
        let reader = self.bench.reader(&[]);
        let store = Arc::new(CachedStore::new(Arc::clone(&reader), CACHE, None));
        store.reading_ahead().set_max(max);
        let set = Objset::open(Arc::clone(&store) as Arc<dyn BlockStore>, 54, &self.root, None);
        let set = set.unwrap();
        let (file, directory) = (set.object(1).unwrap(), set.object(2).unwrap());
        Cold { rt: rt.clone(), reader, store, file, directory }
    }
}

impl Cold {
    fn disk_reads(&self) -> u64 {
        let stats = self.reader.stats().snapshot();
        stats.rows().iter().filter(|r| r.level == 0).map(|r| r.read.ios).sum()
    }

    /// Reads one block after the other, and a moment later says what that did.
    fn read(&self, blocks: impl IntoIterator<Item = u64>) -> Outcome {
        let (began, before) = (self.rt.now(), self.disk_reads());
        blocks.into_iter().for_each(|blkid| read(&self.file, blkid, 1));
        let took = self.rt.now() - began;
        self.rt.sleep(Duration::from_millis(100));
        let from_disk = self.disk_reads() - before;
        Outcome { took, from_disk, ahead: self.store.reading_ahead().stats() }
    }
}

fn read(file: &Object, first: u64, blocks: u64) {
    let mut out = vec![0; (blocks * BLOCK) as usize];
    file.read_at(first * BLOCK, &mut out).unwrap();
    for (blkid, bytes) in (first..).zip(out.chunks(BLOCK as usize)) {
        assert!(bytes == bench::random(blkid, BLOCK as usize).bytes(), "block {blkid}");
    }
}

/// Reads the file in this order without and with reading ahead.
fn both(order: impl Fn() -> Vec<u64> + Copy) -> (Outcome, Outcome) {
    let run = |max| {
        Rt::simulate(3, |rt| {
            let site = site(rt, 3);
            site.cold(rt, max).read(order())
        })
    };
    (run(0), run(MAX))
}

/// All blocks come from the disk once, and nearly all of them ahead of the reader.
fn assert_ahead((without, with): (Outcome, Outcome), blocks: u64) {
    assert_eq!((without.from_disk, without.ahead), (blocks, AheadStats::default()));
    assert_eq!(with.from_disk, blocks, "each once");
    assert!(with.took * 2 < without.took, "{with:?} {without:?}");
    let read = with.ahead.read_bytes / BLOCK;
    assert!(read > blocks * 9 / 10, "{with:?}");
    assert_eq!(with.ahead.used_bytes, with.ahead.read_bytes, "{with:?}");
    assert_eq!((with.ahead.wasted_bytes, with.ahead.held_bytes), (0, 0));
}

#[test]
fn one_reader_forwards_backwards_and_at_equal_steps() {
    assert_ahead(both(|| (0..BLOCKS).collect()), BLOCKS);
    assert_ahead(both(|| (0..BLOCKS).rev().collect()), BLOCKS);
    assert_ahead(both(|| (0..BLOCKS).step_by(5).collect()), BLOCKS.div_ceil(5));
    assert_ahead(both(|| (0..BLOCKS).rev().step_by(5).collect()), BLOCKS.div_ceil(5));
}

#[test]
fn several_streams_of_one_file() {
    let quarter = BLOCKS / 4;
    assert_ahead(
        both(|| (0..quarter).flat_map(|n| (0..4).map(move |q| q * quarter + n)).collect()),
        BLOCKS,
    );
}

/// The same seed is the same run, whatever threads it has.
#[test]
fn a_run_is_repeated_exactly() {
    let order = || (0..BLOCKS).collect();
    assert_eq!(both(order), both(order));
}

#[test]
fn threads_of_readers_find_what_is_under_way() {
    let (from_disk, ahead) = Rt::simulate(9, |rt| {
        let site = site(rt, 9);
        let cold = Arc::new(site.cold(rt, MAX));
        let before = cold.disk_reads();
        // Each in calls of several blocks, close behind each other.
        let readers: Vec<_> = (1..=6)
            .map(|blocks| {
                let cold = Arc::clone(&cold);
                let body = move || {
                    for first in (0..BLOCKS).step_by(blocks) {
                        read(&cold.file, first, (blocks as u64).min(BLOCKS - first));
                    }
                };
                rt.spawn("reader", body).unwrap()
            })
            .collect();
        readers.into_iter().for_each(|r| r.join().unwrap());
        rt.sleep(Duration::from_millis(100));
        (cold.disk_reads() - before, cold.store.reading_ahead().stats())
    });
    assert_eq!(from_disk, BLOCKS, "each block once: {ahead:?}");
    assert!(ahead.read_bytes > 0);
    assert_eq!(ahead.used_bytes, ahead.read_bytes);
}

#[test]
fn a_reader_that_goes_elsewhere_wastes_no_more_than_it_was_ahead() {
    Rt::simulate(5, |rt| {
        let site = site(rt, 5);
        let cold = site.cold(rt, MAX);
        let left = cold.read(0..200).ahead;
        assert!(left.held_bytes > 0 && left.held_bytes <= MAX, "{left:?}");
        assert_eq!(left.read_bytes, left.used_bytes + left.held_bytes);
        // At random places of a small file some accesses are neighbours by chance.
        let mut place = 7;
        let places = (0..100).map(|_| {
            place = (place * 37 + 11) % BLOCKS;
            place
        });
        let after = cold.read(places).ahead;
        assert!(after.read_bytes - left.read_bytes < 100 * BLOCK, "{after:?}");
    });
}

/// Room for one stream: that of a reader that is gone is taken from it, and it is counted as
/// wasted.
#[test]
fn a_stream_that_is_not_followed_gives_its_room_back() {
    Rt::simulate(6, |rt| {
        let site = site(rt, 6);
        let reader = site.bench.reader(&[]);
        // Half a MiB may be ahead, a quarter of it for one stream.
        let store = Arc::new(CachedStore::new(reader, 2 << 20, None));
        store.reading_ahead().set_max(MAX);
        let set = Objset::open(Arc::clone(&store) as Arc<dyn BlockStore>, 54, &site.root, None);
        let file = set.unwrap().object(1).unwrap();
        let held = || store.reading_ahead().stats().held_bytes;
        for start in (0..BLOCKS).step_by(64) {
            (start..start + 20).for_each(|blkid| read(&file, blkid, 1));
            rt.sleep(Duration::from_millis(100));
            assert!(held() <= 512 << 10, "{}", held());
        }
        assert!(store.reading_ahead().stats().wasted_bytes > 0);
        rt.sleep(Duration::from_secs(3));
        let before = store.reading_ahead().stats();
        (30..64).for_each(|blkid| read(&file, blkid, 1));
        assert!(store.reading_ahead().stats().used_bytes > before.used_bytes);
    });
}

#[test]
fn tables_are_not_read_ahead_and_nothing_is_after_the_end() {
    Rt::simulate(4, |rt| {
        let site = site(rt, 4);
        let cold = site.cold(rt, MAX);
        (0..BLOCKS).for_each(|blkid| read(&cold.directory, blkid, 1));
        assert_eq!(cold.store.reading_ahead().stats(), AheadStats::default());
        cold.store.reading_ahead().stop();
        (0..BLOCKS).for_each(|blkid| read(&cold.file, blkid, 1));
        let stats = cold.store.reading_ahead().stats();
        assert_eq!((stats.read_bytes, stats.held_bytes), (0, 0));
    });
}

/// With the system's threads: after the end nothing holds the devices.
#[test]
fn what_is_under_way_is_waited_for() {
    let rt = Rt::real();
    let mut site = site(&rt, 8);
    for _ in 0..50 {
        let cold = site.cold(&rt, MAX);
        (0..40).for_each(|blkid| read(&cold.file, blkid, 1));
        cold.store.reading_ahead().stop();
        drop(cold);
        for device in site.bench.devices.values_mut() {
            assert!(Arc::get_mut(device).is_some(), "a thread holds the device");
        }
    }
}
