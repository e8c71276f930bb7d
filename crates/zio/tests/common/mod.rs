//! Vdev trees over memory, an allocator that keeps books, and a writer over both.
#![allow(dead_code, unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it likes")]

use device::{AlignedBuf, MemoryDevice, WriteDeviceRef};
use ondisk::config::VdevConfig;
use ondisk::nvlist::{NvList, NvValue};
use ondisk::{BlkPtr, DmuType, Dva, Endian};
use rt::Rt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use testkit::Rng;
use vdev::{LeafOpen, Scope, VdevTree};
use zio::{
    AllocError, AllocRequest, Allocate, Block, Outcome, Place, Reader, Request, WriteSpec, Writer,
    WriterSettings,
};

pub const SALT: [u8; 32] = [7; 32];
pub const TXG: u64 = 10;
pub const PLACE: Place = Place { objset: 5, object: 6, level: 0, blkid: 7 };
/// Bytes of every device: sparse, so nothing.
pub const DEVICE_SIZE: u64 = 1 << 30;

/// A top-level vdev: its kind, number of disks, parity.
#[derive(Clone, Copy, Debug)]
pub struct Shape(pub &'static str, pub u64, pub u64);

impl Shape {
    /// Disks that can be lost.
    pub fn spare(self) -> usize {
        match self.0 {
            "mirror" => self.1 as usize - 1,
            "raidz" => self.2 as usize,
            _ => 0,
        }
    }
}

/// One of everything that can be written.
pub const SHAPES: [Shape; 13] = [
    Shape("file", 1, 0),
    Shape("mirror", 2, 0),
    Shape("mirror", 3, 0),
    Shape("raidz", 2, 1),
    Shape("raidz", 3, 1),
    Shape("raidz", 4, 1),
    Shape("raidz", 5, 1),
    Shape("raidz", 3, 2),
    Shape("raidz", 4, 2),
    Shape("raidz", 6, 2),
    Shape("raidz", 4, 3),
    Shape("raidz", 5, 3),
    Shape("raidz", 7, 3),
];

fn list(kind: &str, id: u64, guid: u64) -> NvList {
    let mut l = NvList::new();
    l.set("type", NvValue::String(kind.into()));
    l.set("id", NvValue::U64(id)).set("guid", NvValue::U64(guid));
    l
}

/// The devices by guid (from 1 on, in order), and the tree's configuration.
pub struct Bench {
    pub config: VdevConfig,
    pub devices: BTreeMap<u64, WriteDeviceRef>,
}

impl Bench {
    pub fn new(tops: &[Shape], ashift: u64) -> Self {
        let mut guid = 0;
        let mut leaf = |id| {
            guid += 1;
            let mut l = list("file", id, guid);
            l.set("path", NvValue::String(format!("/disk{guid}").into_bytes()));
            l
        };
        let tops = tops.iter().enumerate().map(|(i, Shape(kind, n, parity))| {
            let mut l = match *kind {
                "file" => leaf(i as u64),
                _ => {
                    let mut l = list(kind, i as u64, 1000 + i as u64);
                    let children = (0..*n).map(&mut leaf).collect();
                    l.set("children", NvValue::NvListArray(children));
                    l
                }
            };
            l.set("ashift", NvValue::U64(ashift)).set("nparity", NvValue::U64(*parity));
            l
        });
        let tops = tops.collect();
        let mut root = list("root", 0, 99);
        root.set("children", NvValue::NvListArray(tops));
        let config = VdevConfig::decode(&root).unwrap();
        let mut devices: BTreeMap<u64, WriteDeviceRef> = BTreeMap::new();
        for v in config.walk().filter(|v| v.kind.name() == "file") {
            let name = v.path.clone().unwrap();
            devices.insert(v.guid, Arc::new(MemoryDevice::zeros(&name, DEVICE_SIZE)));
        }
        Self { config, devices }
    }

    /// A tree whose devices may be changed, but for those that are missing.
    pub fn tree(&self, missing: &[u64]) -> VdevTree {
        VdevTree::build(
            &rt::Rt::current(),
            &self.config,
            &mut |c| match self.devices.get(&c.guid) {
                Some(d) if !missing.contains(&c.guid) => LeafOpen::Writable(Arc::clone(d)),
                _ => LeafOpen::Missing,
            },
        )
        .unwrap()
    }

    pub fn reader(&self, missing: &[u64]) -> Arc<Reader> {
        Arc::new(Reader::new(self.tree(missing), &SALT))
    }

    /// A writer with an allocator whose segments are at most that long.
    pub fn writer(&self, segment: u64) -> (Writer, Arc<Books>) {
        self.writer_with(segment, |_| {})
    }

    pub fn writer_with(
        &self,
        segment: u64,
        change: impl FnOnce(&mut WriterSettings),
    ) -> (Writer, Arc<Books>) {
        let reader = self.reader(&[]);
        let books = Arc::new(Books::new(Arc::clone(&reader), segment));
        let mut settings = WriterSettings {
            in_flight_max: zio::IN_FLIGHT_MAX,
            alloc_unit: usize::try_from(reader.vdevs().alloc_unit()).unwrap(),
            hole_birth: true,
        };
        change(&mut settings);
        let allocate = Arc::clone(&books) as Arc<dyn Allocate>;
        (Writer::with_settings(&Rt::real(), reader, allocate, settings), books)
    }
}

/// An allocator that never hands the same space out twice, unless it was given back.
pub struct Books {
    reader: Arc<Reader>,
    segment: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: BTreeMap<u32, u64>,
    turn: usize,
    /// Allocated size by vdev and offset.
    live: BTreeMap<(u32, u64), u64>,
    freed: Vec<BlkPtr>,
    limit: Option<usize>,
}

impl Books {
    pub fn new(reader: Arc<Reader>, segment: u64) -> Self {
        Self { reader, segment, state: Mutex::default() }
    }

    /// From now on there is space for this many segments more.
    pub fn limit(&self, segments: usize) {
        self.state.lock().unwrap().limit = Some(segments);
    }

    pub fn live(&self) -> usize {
        self.state.lock().unwrap().live.len()
    }

    /// What was freed, not given back.
    pub fn freed(&self) -> Vec<BlkPtr> {
        self.state.lock().unwrap().freed.clone()
    }

    fn remove(&self, bp: &BlkPtr) {
        let mut s = self.state.lock().unwrap();
        for (_, d) in bp.dvas() {
            assert_eq!(s.live.remove(&(d.vdev(), d.offset())), Some(d.asize()), "{d:?}");
        }
    }
}

impl Allocate for Books {
    fn allocate(&self, want: &AllocRequest) -> Result<[Dva; 3], AllocError> {
        assert!(!want.gang || want.psize == 512);
        let tree = self.reader.vdevs();
        let tops: Vec<u32> = tree.tops().map(|t| t.id()).collect();
        let mut s = self.state.lock().unwrap();
        let copies = usize::from(want.copies);
        if want.psize > self.segment || s.limit.is_some_and(|l| l < copies) {
            return Err(AllocError::NoSpace);
        }
        s.limit = s.limit.map(|l| l - copies);
        s.turn += 1;
        let mut out = [Dva::default(); 3];
        for slot in 0..copies {
            let vdev = tops[(s.turn + slot) % tops.len()];
            let asize = tree.psize_to_asize(vdev, want.psize, want.txg).unwrap();
            // Somewhere odd, and across the place where single parity changes its columns.
            let first = (1 << 20) - (8 << tree.top(vdev).unwrap().ashift());
            let next = s.next.entry(vdev).or_insert(first);
            out[slot] = Dva::new(vdev, *next, asize, want.gang);
            *next += asize;
            let key = (vdev, out[slot].offset());
            assert!(s.live.insert(key, asize).is_none());
        }
        Ok(out)
    }

    fn discard(&self, bp: &BlkPtr, txg: u64) {
        assert_eq!(bp.physical_birth(), txg);
        self.remove(bp);
    }

    fn free(&self, bp: &BlkPtr, txg: u64) {
        assert!(bp.physical_birth() < txg);
        self.remove(bp);
        self.state.lock().unwrap().freed.push(*bp);
    }
}

/// Bytes that no algorithm makes smaller.
pub fn random(seed: u64, len: usize) -> Arc<Block> {
    let mut out = AlignedBuf::zeroed(len);
    Rng::new(seed).fill(&mut out);
    Arc::new(Block::new(out, Endian::Little))
}

/// Bytes that every algorithm but zle makes smaller, and zle too where they are zeros.
pub fn prose(seed: u64, len: usize) -> Arc<Block> {
    let mut rng = Rng::new(seed);
    let mut out = AlignedBuf::zeroed(len);
    for chunk in out.chunks_mut(64) {
        let n = (rng.below(24) + 8) as usize;
        let byte = b'a' + rng.below(26) as u8;
        for (i, b) in chunk.iter_mut().take(n).enumerate() {
            *b = byte.wrapping_add((i % 3) as u8);
        }
    }
    Arc::new(Block::new(out, Endian::Little))
}

pub fn spec() -> WriteSpec<'static> {
    WriteSpec::new(DmuType(19), 0, TXG)
}

pub fn read(reader: &Reader, bp: &BlkPtr, scope: Scope) -> Outcome {
    reader.read(Request { bp, place: PLACE, key: None, scope, raw: false })
}

/// Every copy, side and column is there and right.
pub fn assert_whole(reader: &Reader, bp: &BlkPtr, expected: &[u8]) {
    let out = read(reader, bp, Scope::All);
    assert!(out.faults.is_empty(), "{bp:?}: {:?}", out.faults);
    assert!(out.block.unwrap().bytes() == expected, "{bp:?}");
}

/// All sets of up to `k` of `1..=n`, the empty one first.
pub fn subsets(n: u64, k: usize) -> Vec<Vec<u64>> {
    let all = (0..1u32 << n).map(|m| (1..=n).filter(|g| m >> (g - 1) & 1 != 0).collect());
    all.filter(|s: &Vec<u64>| s.len() <= k).collect()
}
