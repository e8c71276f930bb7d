//! Bad copies that readers meet are written anew, without the reader's waiting for it, and nothing
//! else is: not what was freed meanwhile, and not by pools that are open for reading.

use super::at_rest::{BLOCKS_AT, SECTOR, data_blocks, rot, sectors};
use super::*;
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::{
    Device, ErrorKind, Fault, MemoryDevice, Write, WriteDevice, WriteDeviceRef,
};
use engine::inside::dmu::{self, Place, Step, Visitor};
use engine::inside::ondisk::BlkPtr;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::vdev::FaultKind;
use poolkit::HookedDevice;
use std::collections::{BTreeMap, BTreeSet};

const NOW: Time = Time { seconds: 1, nanos: 0 };
const RECORD: usize = 128 << 10;
const RECORDS: u64 = 48;

/// Makes a file of noise; its number.
fn write_file(pool: &LivePool, name: &str, seed: u64) -> engine::inside::zpl::Result<u64> {
    let fs = pool.filesystem(pool.name()).unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), name.as_bytes(), &new)?.number();
    let mut rng = Rng::new(seed);
    for n in 0..RECORDS {
        let mut data = vec![0; RECORD];
        rng.fill(&mut data);
        fs.write_at(file, n * RECORD as u64, &data, NOW)?;
    }
    Ok(file)
}

/// Reads it all, and finds what was written.
fn read_file(pool: &LivePool, file: u64, seed: u64) {
    let fs = pool.filesystem(pool.name()).unwrap();
    let mut rng = Rng::new(seed);
    for n in 0..RECORDS {
        let (mut want, mut got) = (vec![0; RECORD], vec![0; RECORD]);
        rng.fill(&mut want);
        assert_eq!(fs.node(file).unwrap().read_at(n * RECORD as u64, &mut got).unwrap(), RECORD);
        assert!(got == want, "record {n}");
    }
}

/// A pool with a file that is not in memory.
fn with_a_file(bench: &mut Bench, seed: u64) -> (LivePool, u64) {
    bench.cache_bytes = 1 << 20;
    let pool = bench.create();
    let file = write_file(&pool, "file", seed).unwrap();
    pool.export().unwrap();
    (bench.import(), file)
}

fn copies(bench: &Bench) -> Vec<MemoryDevice> {
    bench.devices.iter().map(|device| device.fork()).collect()
}

fn bytes_at(device: &MemoryDevice, offset: u64, len: u64) -> Vec<u8> {
    let mut out = vec![0; len as usize];
    device.read(offset, &mut out).unwrap();
    out
}

/// Where two states of a device differ, in sectors.
fn differ(before: &MemoryDevice, now: &MemoryDevice) -> Vec<u64> {
    let all = 0..before.size() / SECTOR;
    let at = |device, n| bytes_at(device, n * SECTOR, SECTOR);
    all.filter(|n| at(before, *n) != at(now, *n)).collect()
}

/// Every place that readers blamed holds what it held before it was damaged; how many there are.
fn are_mended(pool: &LivePool, bench: &Bench, before: &[MemoryDevice], case: &str) -> usize {
    let guids: Vec<u64> = pool.view().vdevs().leaves().map(|leaf| leaf.guid()).collect();
    let mut found = 0;
    for block in pool.view().faults().repaired() {
        for fault in block.faults {
            let Some(leaf) = guids.iter().position(|guid| *guid == fault.guid) else { continue };
            let [then, now] = [&before[leaf], &*bench.devices[leaf]]
                .map(|device| bytes_at(device, fault.offset, fault.len));
            assert!(then == now, "{case}: {} {fault}", block.place);
            found += 1;
        }
    }
    found
}

/// The sectors that are not zeros in the part of a leaf that holds blocks.
fn used_sectors(bench: &Bench, leaf: usize) -> Vec<u64> {
    let device = &bench.devices[leaf];
    let all = 0..(device.size() - BLOCKS_AT - (1 << 20)) / SECTOR;
    let is_used =
        |n: &u64| bytes_at(device, BLOCKS_AT + n * SECTOR, SECTOR) != [0; SECTOR as usize];
    all.filter(is_used).collect()
}

/// Everything there is damaged.
fn rot_all(bench: &Bench, leaf: usize) {
    used_sectors(bench, leaf).into_iter().for_each(|n| rot(bench, leaf, n));
}

/// The first leaf that has the beginning of the file, or else the first: in a small dRAID others
/// have nothing but parity, which no reader looks at, or nothing.
fn first_with_data(bench: &Bench, seed: u64) -> usize {
    let mut record = vec![0; RECORD];
    Rng::new(seed).fill(&mut record);
    let begins = |leaf: usize, n: &u64| {
        bytes_at(&bench.devices[leaf], BLOCKS_AT + n * SECTOR, 64) == record[..64]
    };
    let mut leaves = 0..bench.devices.len();
    let has_it = |leaf: &usize| used_sectors(bench, *leaf).iter().any(|n| begins(*leaf, n));
    leaves.find(has_it).unwrap_or(0)
}

/// A pool is read of which a leaf is rotten all over, metadata included: what readers met is
/// right on the device, is counted once, and is met by no reader again; a scrub does the rest.
#[test]
fn what_readers_meet_is_written_anew() {
    let shapes = [
        (Shape::Mirror, false),
        (Shape::Mirror, true),
        (Shape::Mirror3, false),
        (Shape::Raidz1, false),
        (Shape::Raidz2, true),
        (Shape::Draid1, false),
        (Shape::Draid2, false),
    ];
    for (seed, (shape, is_encrypted)) in (400..).zip(shapes) {
        let bench = Rt::simulate(seed, |rt| {
            let case = format!("{shape:?}");
            let (bench, _) = bench(rt, seed, shape);
            let mut bench = bench.encrypted(is_encrypted);
            let (pool, file) = with_a_file(&mut bench, seed);
            pool.sync().unwrap();
            let (before, leaf) = (copies(&bench), first_with_data(&bench, seed));
            rot_all(&bench, leaf);
            read_file(&pool, file, seed);
            pool.wait_for_read_repairs();
            let found = are_mended(&pool, &bench, &before, &case);
            assert!(found > 3, "{case}: {found}");
            let done = pool.view().faults().read_repairs();
            assert!(done.blocks > 3 && done.bytes > done.blocks * 4096, "{case}: {done:?}");
            assert_eq!(done.refused, 0, "{case}: {done:?}");
            blame(&pool, &[leaf], &case);
            // Blocks that were in memory before come later, and so do the last ones.
            let is_clean = (0..6).any(|_| {
                pool.forget_errors(None).unwrap();
                read_file(&pool, file, seed);
                pool.wait_for_read_repairs();
                errors(&pool).iter().all(|count| *count == 0)
            });
            assert!(is_clean, "{case}: {:?}", errors(&pool));
            scrub(&pool, &case);
            pool.forget_errors(None).unwrap();
            assert_eq!(scrub(&pool, &case), 0, "{case}");
            pool.export().unwrap();
            bench
        });
        bench.check(&bench.open()).unwrap();
        bench.zdb();
    }
}

/// Every pointer of the pool's datasets and of its own metadata.
#[derive(Default)]
struct Pointers(Vec<(BlkPtr, Place)>);

impl Visitor for Pointers {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        if !bp.is_hole() && !bp.is_embedded() {
            self.0.push((*bp, place));
        }
        Step::Descend
    }

    fn lost(&mut self, place: Place, error: dmu::Error) {
        panic!("{place:?}: {error}");
    }
}

fn pointers(view: &Pool) -> Vec<(BlkPtr, Place)> {
    let mut all = Pointers::default();
    assert!(view.mos().traverse(0, &mut all).is_continue());
    for (name, _) in view.dsl().walk() {
        let Ok(dataset) = view.dsl().by_name(&name) else { continue };
        let Ok(objset) = view.dsl().objset(&dataset) else { continue };
        assert!(objset.traverse(0, &mut all).is_continue(), "{name}");
    }
    all.0
}

/// On a single disk it is the other copies that blocks of metadata have.
#[test]
fn other_copies_on_the_same_disk_are_used() {
    let bench = Rt::simulate(420, |rt| {
        let (mut bench, _) = bench(rt, 420, Shape::Disk);
        let (pool, file) = with_a_file(&mut bench, 420);
        pool.export().unwrap();
        let view = bench.open();
        let twice: Vec<_> =
            pointers(&view).into_iter().filter(|(bp, _)| bp.dvas().count() > 1).collect();
        drop(view);
        let before = copies(&bench);
        for (bp, _) in &twice {
            rot(&bench, 0, bp.dva(0).offset() / SECTOR);
        }
        let levels: BTreeSet<_> = twice.iter().map(|(_, place)| place.level).collect();
        assert!(levels.len() > 1 && twice.iter().any(|(_, place)| place.objset == 0));
        let pool = bench.import();
        read_file(&pool, file, 420);
        pool.sync().unwrap();
        pool.wait_for_read_repairs();
        let done = pool.view().faults().read_repairs();
        assert!(done.blocks > 4 && done.refused == 0, "{done:?}");
        // What is in the tree still is as it was, if a reader came there.
        let met: BTreeSet<_> =
            pool.view().faults().repaired().into_iter().map(|block| block.place).collect();
        let now: BTreeMap<_, _> =
            pointers(&bench.open()).into_iter().map(|(bp, place)| (place, bp)).collect();
        let there = twice.iter().filter(|(bp, place)| now.get(place) == Some(bp));
        let mut mended = 0;
        for (bp, place) in there.filter(|(_, place)| met.contains(place)) {
            let at = BLOCKS_AT + bp.dva(0).offset();
            let [then, now] =
                [&before[0], &*bench.devices[0]].map(|device| bytes_at(device, at, bp.psize()));
            assert!(then == now, "{place}");
            mended += 1;
        }
        assert!(mended > 4, "{mended}");
        pool.export().unwrap();
        bench
    });
    bench.zdb();
}

/// A pool with datasets, snapshots, clones and volumes of all kinds, of whose data up to the
/// redundancy is rotten; and the devices before.
fn rotten(steps: &RandomSteps, shape: Shape) -> (Run, Vec<MemoryDevice>) {
    let bench = Bench::new(shape, DEVICE_BYTES, 12);
    let mut run = Run::new(steps.seed(), bench).following(steps);
    (run.weight_max, run.offset_max, run.has_checksums) = (2 << 20, 8 << 20, true);
    (0..400).for_each(|_| run.step());
    run.without(Vec::new());
    run.pool().sync().unwrap();
    let mut rng = Rng::new(steps.seed());
    let before = copies(&run.bench);
    for block in data_blocks(run.pool().view()) {
        let guilty = victims(&run.bench, &mut rng);
        let places = sectors(&run.bench, &block);
        let places = places.into_iter().filter(|(leaf, _)| guilty.contains(leaf));
        places.for_each(|(leaf, sector)| rot(&run.bench, leaf, sector));
    }
    (run, before)
}

#[test]
fn whatever_is_read_is_repaired() {
    let shapes = [Shape::Mirror, Shape::Raidz1, Shape::Raidz2];
    scenarios((430..).zip(shapes), |steps, shape| {
        let case = format!("{shape:?}");
        let (mut run, before) = rotten(steps, shape);
        run.without(Vec::new());
        // Nothing is written before a txg is.
        run.pool().sync().unwrap();
        (0..40).for_each(|_| run.look());
        run.pool().wait_for_read_repairs();
        are_mended(run.pool(), &run.bench, &before, &case);
        scrub(run.pool(), &case);
        run.pool().forget_errors(None).unwrap();
        assert_eq!(scrub(run.pool(), &case), 0, "{case}");
        let (bench, model) = run.finish();
        bench.check(&bench.open()).unwrap();
        Run::compare(&bench, &model).unwrap();
    });
}

/// A pool that is open for reading is read, and nothing is written.
#[test]
fn a_pool_that_is_open_for_reading_is_left_as_it_is() {
    let mut bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12);
    let (pool, file) = with_a_file(&mut bench, 440);
    pool.export().unwrap();
    rot_all(&bench, 0);
    let before = copies(&bench);
    let view = bench.open();
    let fs = engine::Filesystem::open(
        view.dsl().objset(&view.dsl().by_name(&bench.pool).unwrap()).unwrap(),
    )
    .unwrap();
    let mut bytes = vec![0; RECORD];
    for n in 0..RECORDS {
        fs.node(file).unwrap().read_at(n * RECORD as u64, &mut bytes).unwrap();
    }
    assert!(view.faults().count() > 8);
    assert_eq!(view.faults().read_repairs(), engine::pools::ReadRepairs::default());
    for (then, now) in before.iter().zip(&bench.devices) {
        assert!(differ(then, now).is_empty());
    }
}

/// Writes of a leaf that are held back until they are let go.
#[derive(Default)]
struct HeldWrites {
    /// Those that begin here are held back.
    at: Mutex<BTreeSet<u64>>,
    waiting: Mutex<Vec<Write>>,
}

impl HeldWrites {
    /// Holds back what is to be; the others.
    fn sort(&self, batch: Vec<Write>) -> Vec<Write> {
        let held = self.at.lock().clone();
        let (wait, go) = batch.into_iter().partition(|write| held.contains(&write.offset));
        self.waiting.lock().extend::<Vec<Write>>(wait);
        go
    }

    /// Has the device carry out what was held back; how many writes.
    fn let_go(&self, device: &MemoryDevice) -> usize {
        self.at.lock().clear();
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let all = waiting.len();
        device.submit_writes(waiting);
        all
    }
}

/// Sectors of the vdev that data is in now.
fn used(pool: &LivePool) -> BTreeSet<u64> {
    pool.sync().unwrap();
    let view = pool.look().unwrap();
    data_blocks(&view).iter().flat_map(|block| block.at..block.at + block.sectors).collect()
}

/// Files come and go, one after the other, as often as there is room for; the sectors that they
/// had.
fn fill_again(pool: &LivePool, name: &str, times: u64) -> BTreeSet<u64> {
    let mut out = BTreeSet::new();
    for n in 0..times {
        let name = format!("{name}{n}");
        let written = write_file(pool, &name, n);
        out.extend(used(pool));
        let fs = pool.filesystem(pool.name()).unwrap();
        // It may not even have been made.
        let _ = fs.unlink(fs.root_object(), name.as_bytes(), NOW);
        drop(fs);
        (0..4).for_each(|_| pool.sync().unwrap());
        if written.is_err() {
            break;
        }
    }
    out
}

/// A leaf takes long for the repair, the file is removed meanwhile, and txgs go by: its space is
/// no other's until the leaf has answered. Readers and txgs do not wait.
#[test]
fn space_is_not_reused_while_a_repair_is_under_way() {
    let bench = Rt::simulate(450, |rt| {
        let held = Arc::<HeldWrites>::default();
        let first = Arc::clone(&held);
        let wrap = move |n: usize, device: &Arc<MemoryDevice>| {
            let held = Arc::clone(&first);
            let on_write = move |batch| if n == 0 { held.sort(batch) } else { batch };
            let device = Arc::clone(device) as WriteDeviceRef;
            Arc::new(HookedDevice::new(device, Box::new(on_write))) as _
        };
        let mut bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12).behind(Box::new(wrap));
        let (pool, file) = with_a_file(&mut bench, 450);
        let old = used(&pool);
        let blocks = data_blocks(pool.view());
        blocks.iter().for_each(|block| rot(&bench, 0, block.at));
        *held.at.lock() = blocks.iter().map(|block| BLOCKS_AT + block.at * SECTOR).collect();
        let began = rt.now();
        read_file(&pool, file, 450);
        rt.sleep(Duration::from_secs(1));
        assert!(!held.waiting.lock().is_empty(), "nothing was met");
        let fs = pool.filesystem(pool.name()).unwrap();
        fs.unlink(fs.root_object(), b"file", NOW).unwrap();
        drop(fs);
        let reused = fill_again(&pool, "before", 16);
        assert!(!reused.is_empty() && reused.is_disjoint(&old), "the space is another's");
        assert!(rt.now() - began < Duration::from_secs(20), "{:?}", rt.now() - began);
        assert!(held.let_go(&bench.devices[0]) > 0);
        pool.wait_for_read_repairs();
        fill_again(&pool, "after", 4);
        pool.export().unwrap();
        bench
    });
    bench.check(&bench.open()).unwrap();
    bench.zdb();
}

/// A reader comes late: what it reads was freed, and a part of it written over. It gets the block
/// as far as it is there, and nothing is repaired.
#[test]
fn what_was_freed_is_not_repaired() {
    Rt::simulate(460, |rt| {
        let (mut bench, _) = bench(rt, 460, Shape::Mirror);
        let (pool, _) = with_a_file(&mut bench, 460);
        let all = pointers(pool.view());
        let is_data = |(bp, place): &&(BlkPtr, Place)| {
            place.objset != 0 && place.level == 0 && bp.psize() == RECORD as u64
        };
        let data: Vec<_> = all.iter().filter(is_data).collect();
        assert!(data.len() as u64 >= RECORDS);
        let fs = pool.filesystem(pool.name()).unwrap();
        let store = Arc::clone(pool.view().mos().store());
        fs.unlink(fs.root_object(), b"file", NOW).unwrap();
        drop(fs);
        pool.sync().unwrap();
        // Others begin to be written over them, on one side.
        data.iter().for_each(|(bp, _)| rot(&bench, 0, bp.dva(0).offset() / SECTOR));
        let before = copies(&bench);
        let read = data.iter().filter(|(bp, place)| store.read(bp, *place, None).is_ok()).count();
        assert_eq!(read, data.len(), "one side has them still");
        pool.wait_for_read_repairs();
        let done = pool.view().faults().read_repairs();
        assert!(done.passed_over > 4 && done.bytes == 0, "{done:?}");
        for (then, now) in before.iter().zip(&bench.devices) {
            assert!(differ(then, now).is_empty());
        }
        pool.export().unwrap();
    });
}

/// What a reader has counted is not counted again by its repair.
#[test]
fn what_is_repaired_counts_once() {
    Rt::simulate(465, |rt| {
        let (mut bench, _) = bench(rt, 465, Shape::Mirror);
        let (pool, file) = with_a_file(&mut bench, 465);
        pool.sync().unwrap();
        data_blocks(pool.view()).iter().for_each(|block| rot(&bench, 0, block.at));
        read_file(&pool, file, 465);
        pool.wait_for_read_repairs();
        let met = pool.view().faults().repaired();
        let met: usize = met.iter().map(|block| block.faults.len()).sum();
        assert!(met > 4, "{met}");
        assert_eq!(errors(&pool), [met as u64, 0]);
        assert_eq!(pool.view().faults().read_repairs().blocks, met as u64);
        pool.export().unwrap();
    });
}

/// What a device did wrong is no concern of a pool that it has left.
#[test]
fn what_was_met_on_a_device_is_forgotten_when_it_leaves() {
    let mut bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12);
    let (pool, file) = with_a_file(&mut bench, 467);
    pool.sync().unwrap();
    data_blocks(pool.view()).iter().for_each(|block| rot(&bench, 0, block.at));
    read_file(&pool, file, 467);
    pool.wait_for_read_repairs();
    let met = || (pool.view().faults().count(), pool.view().faults().repaired().len());
    assert!(met() > (4, 4), "{:?}", met());
    let old = pool.view().vdevs().leaves().next().unwrap().guid();
    let new = bench.extra();
    pool.replace(old, &bench.leaf(new), bench.write_ref(new)).unwrap();
    assert!(met() > (4, 4), "it is still there: {:?}", met());
    pool.wait_for_scan().unwrap();
    assert!(pool.view().vdevs().leaves().all(|leaf| leaf.guid() != old));
    assert_eq!(met(), (0, 0));
    pool.export().unwrap();
}

/// A leaf does not take what is written: that is an error of it, and a resilver brings it.
#[test]
fn a_repair_that_is_refused_is_a_write_error() {
    let mut bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12).breakable();
    let (pool, file) = with_a_file(&mut bench, 470);
    pool.sync().unwrap();
    // Few enough for the leaf to be used further, and on both sides' turns.
    let blocks: Vec<_> = data_blocks(pool.view()).into_iter().step_by(6).take(8).collect();
    blocks.iter().for_each(|block| rot(&bench, 0, block.at));
    let eio = ErrorKind::Io { errno: 5 };
    for block in &blocks {
        let at = BLOCKS_AT + block.at * SECTOR;
        bench.faults[0].add(Fault::fail_writes(at..at + 1, eio).times(1));
    }
    read_file(&pool, file, 470);
    pool.wait_for_read_repairs();
    let done = pool.view().faults().read_repairs();
    assert!(done.refused > 0, "{done:?}");
    let leaf = |pool: &LivePool| {
        let tree = pool.view().vdevs();
        let leaf = tree.leaves().next().unwrap();
        (leaf.write_errors(), leaf.missed())
    };
    let (failed, missed) = leaf(&pool);
    assert!(failed >= done.refused, "{failed}");
    assert!(!missed.is_empty(), "it has missed them");
    bench.mend();
    pool.sync().unwrap();
    pool.resilver().unwrap();
    pool.wait_for_scan().unwrap();
    assert!(leaf(&pool).1.is_empty());
    scrub(&pool, "after it");
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap();
}

/// An error of reading, and not wrong bytes: the place is written, which is what has a disk remap a
/// sector.
#[test]
fn what_cannot_be_read_is_written_as_well() {
    let mut bench = Bench::new(Shape::Raidz1, DEVICE_BYTES, 12).breakable();
    let (pool, file) = with_a_file(&mut bench, 480);
    pool.sync().unwrap();
    let eio = ErrorKind::Io { errno: 5 };
    let blocks: Vec<_> = data_blocks(pool.view()).into_iter().step_by(8).take(4).collect();
    for (leaf, sector) in blocks.iter().flat_map(|block| sectors(&bench, block)) {
        if leaf == 1 {
            let at = BLOCKS_AT + sector * SECTOR;
            bench.devices[1].put(at, &[0; 64]);
            bench.faults[1].add(Fault::fail(at..at + SECTOR, eio).times(8));
        }
    }
    let written = |pool: &LivePool| pool.view().faults().read_repairs().bytes;
    read_file(&pool, file, 480);
    pool.wait_for_read_repairs();
    assert!(written(&pool) > 0);
    let kinds = pool.view().faults().repaired();
    let kinds: Vec<_> = kinds.into_iter().flat_map(|block| block.faults).map(|f| f.kind).collect();
    assert!(kinds.iter().any(|kind| matches!(kind, FaultKind::Io(_))), "{kinds:?}");
    bench.mend();
    scrub(&pool, "after it");
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap();
}

/// The power fails while repairs are under way: copies are good or bad, and nothing is lost.
#[test]
fn a_crash_in_the_middle_loses_nothing() {
    let shapes = [Shape::Mirror, Shape::Raidz1, Shape::Raidz2];
    for (seed, shape) in (490..).zip(shapes) {
        let states = Rt::simulate(seed, |rt| {
            let (mut bench, leaves) = bench(rt, seed, shape);
            let (pool, file) = with_a_file(&mut bench, seed);
            pool.sync().unwrap();
            rot_all(&bench, 0);
            // Every second write is torn that the power failure cuts off.
            leaves.lock()[0].get_into(LeafFault::Tears, 2);
            let states = Mutex::new(Vec::new());
            let devices = bench.devices.clone();
            let state = || devices.iter().map(|device| device.fork()).collect::<Vec<_>>();
            let both = rt.for_each_parallel(2, [true, false], |reads| {
                if reads {
                    read_file(&pool, file, seed);
                    return Ok::<(), ()>(());
                }
                for _ in 0..6 {
                    rt.sleep(Duration::from_millis(2));
                    states.lock().push(state());
                }
                Ok(())
            });
            both.unwrap();
            pool.wait_for_read_repairs();
            states.lock().push(state());
            leaves.lock()[0].mend();
            drop(pool);
            states.into_inner()
        });
        for (n, state) in states.into_iter().enumerate() {
            let case = format!("{shape:?} {n}");
            let mut bench = Bench::new(shape, DEVICE_BYTES, 12);
            bench.devices = state.into_iter().map(Arc::new).collect();
            let pool = bench.import();
            scrub(&pool, &case);
            assert_eq!(scrub(&pool, &case), 0, "{case}");
            pool.export().unwrap();
            bench.check(&bench.open()).unwrap_or_else(|e| panic!("{case}: {e}"));
        }
    }
}
