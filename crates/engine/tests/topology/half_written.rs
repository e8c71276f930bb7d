//! Blocks of intent logs that were under way when the power failed: some devices have them, others
//! do not.

use super::promises::{count, promise};
use super::*;
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::Device;
use engine::inside::ondisk::BlkPtr;
use engine::inside::ondisk::zil::Body;
use engine::inside::pool::live::NewFilesystem;
use engine::inside::zil::Log;

const NOW: Time = Time { seconds: 1, nanos: 0 };
const FILES: u64 = 20;
/// Where blocks begin on a device.
const BLOCKS_AT: u64 = 4 << 20;

/// What was promised and is in no txg: many small files, and a large one, whose data have blocks of
/// their own.
fn promised(steps: &RandomSteps, is_encrypted: bool) -> Bench {
    let mut bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12).encrypted(is_encrypted);
    let pool = bench.create();
    let fs = pool.filesystem("tank").unwrap();
    pool.sync().unwrap();
    (0..FILES).for_each(|n| promise(&fs, n).unwrap());
    large_file(&fs, steps);
    // As kill -9 leaves it.
    bench.fork();
    bench
}

/// A file whose data are not in the log, but in blocks of their own.
fn large_file(fs: &engine::Filesystem, steps: &RandomSteps) {
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), b"large", &new).unwrap().number();
    overwrite(fs, file, steps);
}

fn overwrite(fs: &engine::Filesystem, file: u64, steps: &RandomSteps) {
    let mut bytes = vec![0; 512 << 10];
    Rng::new(steps.seed()).fill(&mut bytes);
    fs.write_at(file, 0, &bytes, NOW).unwrap();
    fs.sync(file).unwrap();
}

/// The blocks of a log, and those of data that its records name.
fn blocks(pool: &Pool) -> Vec<BlkPtr> {
    let fs = pool.filesystem("tank").unwrap();
    let log = Log::read_after(fs.objset(), pool.uberblock().txg);
    let records = log.blocks.iter().flat_map(|block| &block.records);
    let data = records.filter_map(|record| match &record.body {
        Body::Write { block, .. } => Some(**block).filter(|bp| !bp.is_hole()),
        _ => None,
    });
    log.blocks.iter().map(|block| block.bp).chain(data).collect()
}

fn no_errors(pool: &Pool, case: &str) {
    let tree = pool.vdevs();
    let errors: Vec<u64> = tree.walk().map(|node| node.checksum_errors()).collect();
    assert!(errors.iter().all(|n| *n == 0), "{case}: {errors:?}");
    let faults = pool.faults().repaired();
    assert!(faults.is_empty() && pool.faults().count() == 0, "{case}: {faults:?}");
}

/// A side does not have them; which they are.
fn lose(bench: &Bench, side: usize) -> Vec<BlkPtr> {
    let all = blocks(&bench.open());
    assert!(all.len() as u64 > FILES && all.iter().any(|bp| bp.psize() >= 128 << 10), "{all:?}");
    for bp in &all {
        let (at, size) = (BLOCKS_AT + bp.dva(0).offset(), bp.psize() as usize);
        bench.devices[side].write(at, &vec![0; size]).unwrap();
    }
    all
}

/// No device did anything wrong: not for one that looks at the log, and not for an import.
#[test]
fn what_one_side_lacks_of_a_log_is_no_error_of_it() {
    scenarios([(2440, 0), (2441, 1)], |steps, side| {
        let bench = promised(steps, false);
        let all = lose(&bench, side);
        let view = bench.open();
        assert_eq!(blocks(&view).len(), all.len(), "the other side has them");
        no_errors(&view, "one looks");
        drop(view);
        let pool = bench.import();
        no_errors(pool.view(), "it is imported");
        assert_eq!(count(&pool.filesystem("tank").unwrap()), FILES);
        pool.export().unwrap();
        bench.check(&bench.open()).unwrap();
    });
}

/// A log that waits for its key is on both sides before either may be lost.
#[test]
fn a_locked_log_that_one_side_lacks_is_made_whole() {
    scenarios([(2442, 0), (2443, 1)], |steps, side| {
        let mut bench = promised(steps, true);
        let all = lose(&bench, side);
        let pool = bench.import_locked();
        pool.sync().unwrap();
        no_errors(pool.view(), "it is imported");
        for bp in &all {
            let [one, two] = [0, 1].map(|n| {
                let mut bytes = vec![0; bp.psize() as usize];
                bench.devices[n].read(BLOCKS_AT + bp.dva(0).offset(), &mut bytes).unwrap();
                bytes
            });
            assert!(one == two, "{bp:?}");
        }
        pool.export().unwrap();
        // The other side goes.
        bench.away = vec![1 - side];
        let pool = bench.import();
        assert_eq!(count(&pool.filesystem("tank").unwrap()), FILES);
        pool.export().unwrap();
    });
}

/// A log whose first record names data that were not written is empty, though the rest of it was
/// written: no import has allocated that.
#[test]
fn what_is_behind_the_end_of_a_log_is_not_freed_with_it() {
    scenarios([(2444, 0)], |steps, _| {
        let mut bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12);
        let pool = bench.create();
        let fs = pool.filesystem("tank").unwrap();
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let file = fs.create(fs.root_object(), b"large", &new).unwrap().number();
        // Its log has a first block in a durable txg, and nothing is in it.
        promise(&fs, 0).unwrap();
        pool.sync().unwrap();
        overwrite(&fs, file, steps);
        (1..FILES).for_each(|n| promise(&fs, n).unwrap());
        bench.fork();
        let view = bench.open();
        let synced = view.uberblock().txg;
        let all = Log::read(view.filesystem("tank").unwrap().objset()).blocks;
        let first = &all[0];
        assert!(all.len() > 2 && first.bp.logical_birth() <= synced, "{:?}", first.bp);
        let Body::Write { block: bp, .. } = &first.records[0].body else {
            panic!("the log begins with {:?}", first.records[0]);
        };
        assert!(bp.logical_birth() > synced, "{bp:?}");
        drop(view);
        let (at, size) = (BLOCKS_AT + bp.dva(0).offset(), bp.psize() as usize);
        bench.devices.iter().for_each(|d| d.write(at, &vec![0; size]).unwrap());
        let pool = bench.import();
        // The log is emptied when its head is opened, in a txg behind those that its rest is of.
        ["tank/a", "tank/b", "tank/c"].iter().for_each(|name| {
            pool.create_filesystem(name, NewFilesystem::default(), Vec::new()).unwrap();
        });
        assert_eq!(count(&pool.filesystem("tank").unwrap()), 1);
        pool.export().unwrap();
        bench.check(&bench.open()).unwrap();
    });
}
