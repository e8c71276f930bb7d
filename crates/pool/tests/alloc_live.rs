//! The circle closed: an allocator whose space maps are objects of the very set whose blocks it
//! places. After each txg the maps, read by a fresh reader, say exactly what the set holds.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dmu::zap::ZapSpec;
use dmu::{
    BlockOwner, BlockStore, BlockWriter, Key, LiveSpec, NewObject, Objset, SetPolicy, SyncContext,
    Tx, Zap, zap,
};
use ondisk::mos::{self, vdev_zap};
use ondisk::objset::{OBJSET_SIZE_V3, ObjsetKind};
use ondisk::spacemap::{self, Action, Encoder, Entry, LOG_SHIFT, Range, SpaceMapHeader};
use ondisk::{BlkPtr, DmuType, Endian};
use parking_lot::Mutex;
use pool::{AllocOptions, Allocator, TopSpec, init_top};
use std::collections::HashMap;
use std::sync::Arc;
use testkit::Rng;
use zio::{AllocRequest, Allocate, Block, ErrorKind, Place, SpaceClass, WriteSpec};

const ASIZE: u64 = 512 << 20;
const SECTOR: u64 = 4096;

#[derive(Default)]
struct Disk {
    alloc: Mutex<Option<Arc<Allocator>>>,
    blocks: Mutex<HashMap<u64, (u64, Arc<Block>)>>,
    owned: Mutex<HashMap<[u64; 2], BlkPtr>>,
    txg: Mutex<u64>,
}

impl Disk {
    fn alloc(&self) -> Arc<Allocator> {
        Arc::clone(self.alloc.lock().as_ref().expect("an allocator"))
    }
}

impl BlockStore for Disk {
    fn rt(&self) -> rt::Rt {
        rt::Rt::current()
    }

    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        match self.blocks.lock().get(&bp.dva(0).offset()) {
            Some((birth, b)) if *birth == bp.logical_birth() => Ok(Arc::clone(b)),
            _ => {
                let copies = String::new();
                Err(zio::Error { place, copies, kind: ErrorKind::Unreadable, faults: Vec::new() })
            }
        }
    }
}

impl BlockWriter for Disk {
    fn write(&self, data: &Arc<Block>, spec: &WriteSpec<'_>, place: Place) -> zio::Result<BlkPtr> {
        let used = data.iter().rposition(|b| *b != 0).map_or(0, |n| n as u64 + 1);
        if spec.level == 0 && used == 0 {
            return Ok(BlkPtr::HOLE);
        }
        // What stands for compression: zeros at the end are not stored.
        let psize = used.max(1).next_multiple_of(512);
        let reuse = spec.reuse.filter(|bp| bp.psize() == psize);
        let dvas = match reuse {
            Some(bp) => [bp.dva(0), bp.dva(1), bp.dva(2)],
            None => {
                let (copies, txg) = (spec.copies, spec.birth);
                let hint = place.object;
                let want = AllocRequest {
                    psize,
                    copies,
                    class: SpaceClass::Normal,
                    txg,
                    gang: false,
                    hint,
                };
                self.alloc().allocate(&want).expect("there is space")
            }
        };
        let mut words = [0; 16];
        for (i, d) in dvas.iter().enumerate() {
            words[2 * i..2 * i + 2].copy_from_slice(&d.words());
        }
        words[6] = (data.len() as u64 / 512 - 1) | (psize / 512 - 1) << 16 | 2 << 32 | 2 << 40;
        words[6] |= u64::from(spec.kind.0) << 48 | u64::from(spec.level) << 56 | 1 << 63;
        words[10] = spec.birth;
        words[11] = spec.fill;
        self.blocks.lock().insert(dvas[0].offset(), (spec.birth, Arc::clone(data)));
        Ok(BlkPtr::from_words(words))
    }

    fn read_pending(&self, _: &BlkPtr) -> Option<Arc<Block>> {
        None
    }
}

impl BlockOwner for Disk {
    fn born(&self, bp: &BlkPtr) {
        assert!(self.owned.lock().insert(bp.dva(0).words(), *bp).is_none(), "{bp:?}");
    }

    fn kill(&self, bp: &BlkPtr) {
        assert!(self.owned.lock().remove(&bp.dva(0).words()).is_some(), "{bp:?}");
        let txg = *self.txg.lock();
        match bp.logical_birth() == txg {
            true => self.alloc().discard(bp, txg),
            false => self.alloc().free(bp, txg),
        }
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        self.alloc().dsize(bp)
    }
}

fn live(disk: &Arc<Disk>, root: Option<BlkPtr>) -> Objset {
    Objset::live(LiveSpec {
        store: Arc::clone(disk) as _,
        id: 0,
        root,
        kind: ObjsetKind::Meta,
        header_size: OBJSET_SIZE_V3,
        transactions: None,
        policy: SetPolicy::mos(),
        accounting: None,
        key: dmu::SetKey::None,
    })
    .unwrap()
}

fn spec(ms_array: u64, ms_shift: u32, zap: u64) -> TopSpec {
    TopSpec {
        id: 0,
        ashift: 12,
        ms_shift,
        ms_count: ASIZE >> ms_shift,
        row: SECTOR,
        class: SpaceClass::Normal,
        allocating: true,
        ms_array,
        zap,
        asize: Arc::new(|psize, _| psize.next_multiple_of(SECTOR)),
    }
}

struct World {
    disk: Arc<Disk>,
    mos: Objset,
    spec: TopSpec,
    txg: u64,
    root: Option<BlkPtr>,
    passes: u32,
    maps: i64,
}

impl World {
    fn new() -> Self {
        let disk = Arc::new(Disk::default());
        let mos = live(&disk, None);
        let tx = Tx::syncing(4);
        let directory = zap::create(&mos, &tx, &ZapSpec::new(DmuType::OBJECT_DIRECTORY)).unwrap();
        assert_eq!(directory.number(), mos::DIRECTORY_OBJECT);
        let top = init_top(&mos, &tx, ASIZE).unwrap();
        assert_eq!(top.ms_shift, 26);
        let zap = zap::create(&mos, &tx, &ZapSpec::new(DmuType::OBJECT_DIRECTORY)).unwrap();
        let spec = spec(top.ms_array, top.ms_shift, zap.number());
        let mut out = Self { disk, mos, spec, txg: 4, root: None, passes: 0, maps: 0 };
        out.open_allocator();
        out
    }

    fn open_allocator(&mut self) {
        let options =
            AllocOptions { threads: 2, two_words: true, histograms: true, obsolete: true };
        let specs = std::slice::from_ref(&self.spec);
        let alloc =
            Allocator::open(&self.mos, specs, options, &pool::SpaceMapRebuild::default()).unwrap();
        *self.disk.alloc.lock() = Some(Arc::new(alloc));
    }

    fn reopen(&mut self) {
        self.mos = live(&self.disk, self.root);
        self.open_allocator();
    }

    fn sync(&mut self) {
        let (txg, alloc) = (self.txg, self.disk.alloc());
        *self.disk.txg.lock() = txg;
        let tx = Tx::syncing(txg);
        let mut pass = 1;
        loop {
            let space = alloc.sync_metaslabs(&self.mos, &tx, pass).unwrap();
            self.maps += space.histograms;
            if !space.wrote && !self.mos.is_dirty(txg) {
                break;
            }
            let disk = &*self.disk;
            let cx = SyncContext { workers: 1, writer: disk, owner: disk, txg, hold: true };
            self.root = self.mos.sync(&cx).unwrap().or(self.root);
            pass += 1;
            assert!(pass < 20, "does not converge");
        }
        self.passes = self.passes.max(pass);
        self.mos.synced(txg);
        alloc.sync_done(txg);
        assert_eq!(alloc.problems(), Vec::<String>::new());
        self.txg += 1;
    }

    /// Makes, writes and frees some of these objects.
    fn change(&self, objects: &mut Vec<u64>, rng: &mut Rng) {
        let tx = Tx::syncing(self.txg);
        for _ in 0..rng.below(6) {
            let spec = NewObject::new(DmuType::PACKED_NVLIST).block_size(8192);
            objects.push(self.mos.create(&tx, &spec).unwrap().number());
        }
        for _ in 0..rng.below(60) {
            let Some(n) = objects.get(rng.below(objects.len() as u64) as usize) else { break };
            let object = self.mos.object(*n).unwrap();
            let offset = rng.below(3 << 20);
            let mut data = vec![0; 1 + rng.below(20_000) as usize];
            rng.fill(&mut data);
            match rng.below(4) {
                0 => object.free_range(&tx, offset, rng.below(1 << 20)).unwrap(),
                _ => object.write_at(&tx, offset, &data).unwrap(),
            }
        }
        if objects.len() > 8 {
            let gone = objects.swap_remove(rng.below(8) as usize);
            self.mos.free(&tx, gone).unwrap();
        }
    }

    /// A fresh reader's view of the maps, against what the set holds.
    fn check(&self) {
        let mut held = vec![false; (ASIZE / SECTOR) as usize];
        for bp in self.disk.owned.lock().values() {
            for (_, d) in bp.dvas() {
                let at = (d.offset() / SECTOR) as usize;
                for s in &mut held[at..at + (d.asize() / SECTOR) as usize] {
                    assert!(!std::mem::replace(s, true), "{bp:?}");
                }
            }
        }
        let fresh =
            Objset::open(Arc::clone(&self.disk) as _, 0, &self.root.unwrap(), None).unwrap();
        let mut in_map = vec![false; held.len()];
        let mut maps = 0;
        for (i, number) in (0..).zip(words(&fresh, self.spec.ms_array)) {
            if number == 0 {
                continue;
            }
            maps += 1;
            let object = fresh.object(number).unwrap();
            let header = SpaceMapHeader::decode(&object.dnode().bonus, Endian::Little).unwrap();
            let mut bytes = vec![0; header.length as usize];
            object.read_at(0, &mut bytes).unwrap();
            let start = self.spec.bounds(i).0;
            let mut sum = 0i64;
            for e in spacemap::entries(&bytes, Endian::Little, start, self.spec.ashift) {
                let Entry::Range(r) = e.unwrap() else { continue };
                let at = (r.offset / SECTOR) as usize;
                let is_alloc = r.action == Action::Alloc;
                sum += if is_alloc { r.size.cast_signed() } else { -r.size.cast_signed() };
                for s in &mut in_map[at..at + (r.size / SECTOR) as usize] {
                    assert_ne!(std::mem::replace(s, is_alloc), is_alloc, "{r:?}");
                }
            }
            assert_eq!(sum, header.allocated);
        }
        assert_eq!(maps, self.maps, "the feature counts the maps");
        let wrong = held.iter().zip(&in_map).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "after txg {}", self.txg - 1);
    }
}

fn words(mos: &Objset, number: u64) -> Vec<u64> {
    let object = mos.object(number).unwrap();
    let mut bytes = vec![0; object.size_of_blocks() as usize];
    object.read_at(0, &mut bytes).unwrap();
    bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect()
}

#[test]
fn maps_say_what_the_set_holds() {
    testkit::shrinking_seed(3, 60, |txgs| {
        let mut world = World::new();
        let mut objects = Vec::new();
        for number in txgs {
            let mut rng = Rng::new(*number);
            world.change(&mut objects, &mut rng);
            world.sync();
            world.check();
            if rng.below(7) == 0 {
                world.reopen();
            }
        }
        assert!(world.passes <= 8, "{} passes", world.passes);
    });
}

#[test]
fn logs_are_taken_in_and_removed() {
    let mut world = World::new();
    let tx = Tx::syncing(world.txg);
    world.mos.create(&tx, &NewObject::new(DmuType::PACKED_NVLIST)).unwrap();
    drop(tx);
    world.sync();
    world.check();
    // A log, as a pool has that was not exported: it allocates in two metaslabs.
    let tx = Tx::syncing(world.txg);
    let mut log = Encoder::new(0, LOG_SHIFT, true, 4096, 0);
    let size = 1 << 20;
    let leak = |offset| Range { action: Action::Alloc, vdev: Some(0), offset, size };
    log.range(leak(5 << 26)).unwrap();
    log.range(leak(6 << 26)).unwrap();
    let bytes = log.finish(Endian::Little);
    let mut header = SpaceMapHeader::new(true);
    header.length = bytes.len() as u64;
    let made = NewObject::new(DmuType::SPACE_MAP).block_size(4096);
    let made = made.bonus(DmuType::SPACE_MAP_HEADER, &header.encode(Endian::Little));
    let object = world.mos.create(&tx, &made).unwrap();
    object.write_at(&tx, 0, &bytes).unwrap();
    world.maps += 1;
    let number = object.number();
    let table = zap::create(&world.mos, &tx, &ZapSpec::new(DmuType::OBJECT_DIRECTORY)).unwrap();
    let txg = world.txg;
    zap::set_u64(&table, &tx, format!("{txg:x}").as_str(), number).unwrap();
    let table = table.number();
    let directory = world.mos.object(mos::DIRECTORY_OBJECT).unwrap();
    zap::set_u64(&directory, &tx, mos::LOG_SPACEMAP_ZAP, table).unwrap();
    let unflushed = world.mos.create(&tx, &NewObject::new(DmuType::OBJECT_ARRAY)).unwrap();
    let since: Vec<u8> = (0..8).flat_map(|_| txg.to_le_bytes()).collect();
    unflushed.write_at(&tx, 0, &since).unwrap();
    let unflushed = unflushed.number();
    let top = world.mos.object(world.spec.zap).unwrap();
    zap::set_u64(&top, &tx, vdev_zap::METASLAB_UNFLUSHED_TXGS, unflushed).unwrap();
    drop(tx);
    world.sync();
    world.reopen();
    // What the log allocates has no other owner: it is in the maps afterwards, and nothing else is.
    let before = world.disk.alloc().figures().normal.allocated;
    world.sync();
    let log = |mos: &Objset| Zap::open(&mos.object(table).unwrap()).unwrap().to_vec().unwrap();
    for mos in [&world.mos, &live(&world.disk, world.root)] {
        assert!(log(mos).is_empty() && mos.object(number).is_err());
        assert!(words(mos, unflushed).iter().all(|w| *w == 0));
    }
    let held: u64 = world.disk.owned.lock().values().map(|bp| bp.asize()).sum();
    let now = world.disk.alloc().figures().normal.allocated;
    assert_eq!(now, held + 2 * size);
    assert!(now > before.saturating_sub(1 << 20));
    world.reopen();
    assert_eq!(world.disk.alloc().figures().normal.allocated, now);
    // The maps that were made for it are counted, the log is not any more.
    let maps = words(&world.mos, world.spec.ms_array).iter().filter(|n| **n != 0).count();
    assert_eq!(world.maps, maps as i64);
}
