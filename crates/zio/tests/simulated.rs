//! The writer in virtual time, and what is left of its txgs after a crash at any event.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it likes")]

mod common;

use codec::checksum::verify_label;
use common::{Bench, PLACE, Shape, prose, read, spec};
use device::{CrashMode, SimDisks, SimOptions, WriteDeviceRef, read_one};
use ondisk::label::{LABEL_SIZE, Label, Part, label_offsets};
use ondisk::nvlist::{NvList, NvValue};
use ondisk::{BlkPtr, Endian, Uberblock};
use rt::Rt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vdev::Scope;
use vdev::label::{Round, initialise};
use zio::{Allocate, CompressionAlgorithm as Algorithm, WriteSpec, Writer, WriterSettings};

const SHAPES: [Shape; 2] = [Shape("mirror", 2, 0), Shape("raidz", 3, 1)];
const FIRST: u64 = 100;

/// A pool of simulated disks, each with labels of txg 0.
fn bench(rt: &Rt, seed: u64) -> (Bench, SimDisks) {
    let mut bench = Bench::new(&SHAPES, 9);
    let disks = SimDisks::new(rt);
    for (guid, device) in &mut bench.devices {
        let name = format!("disk{guid}");
        let options = SimOptions { name, size: 64 << 20, seed: seed ^ guid, ..Default::default() };
        *device = disks.add(&options) as WriteDeviceRef;
        initialise(&**device, &config(0)).unwrap();
    }
    (bench, disks)
}

fn config(txg: u64) -> NvList {
    let mut l = NvList::new();
    l.set("txg", NvValue::U64(txg));
    l
}

fn writer(rt: &Rt, bench: &Bench) -> Writer {
    let (_, books) = bench.writer(8 << 10);
    let settings = WriterSettings { in_flight_max: 64 << 10, alloc_unit: 512, hole_birth: true };
    let reader = bench.reader(&[]);
    Writer::with_settings(rt, reader, books as Arc<dyn Allocate>, settings)
}

fn uberblock(txg: u64, rootbp: BlkPtr) -> Uberblock {
    Uberblock {
        version: 5000,
        txg,
        guid_sum: 0,
        timestamp: txg,
        rootbp,
        software_version: 5000,
        mmp_magic: 0,
        mmp_delay: 0,
        mmp_config: 0,
        checkpoint_txg: 0,
        raidz_reflow_info: 0,
    }
}

/// Writes some blocks at once and one above them that names them all; commits.
fn txg(rt: &Rt, writer: &Writer, txg: u64) {
    let spec = WriteSpec { compression: Algorithm::Lz4, birth: txg, ..spec() };
    let children = Mutex::new(Vec::new());
    rt.for_each_parallel(3, 0..6u64, |i| {
        let data = prose(txg * 100 + i, 4096 << (i % 3));
        let bp = writer.write(&data, &spec, PLACE)?;
        children.lock().unwrap().push((i, bp));
        Ok::<(), zio::Error>(())
    })
    .unwrap();
    let mut children = children.into_inner().unwrap();
    children.sort_unstable_by_key(|(i, _)| *i);
    let mut above = device::AlignedBuf::zeroed(1024);
    for ((_, bp), place) in children.iter().zip(above.chunks_mut(128)) {
        place.copy_from_slice(&bp.encode(Endian::Little));
    }
    let above = Arc::new(zio::Block::new(above, Endian::Little));
    let held = WriteSpec { hold: true, level: 1, compression: Algorithm::Off, copies: 2, ..spec };
    let root = writer.write(&above, &held, PLACE).unwrap();
    writer.release();
    writer.wait().unwrap();
    let tree = writer.reader().vdevs();
    tree.flush().unwrap();
    let list = |_: vdev::NodeRef<'_>, _: vdev::TopRef<'_>| config(txg);
    tree.write_labels(Round::First, &list).unwrap();
    tree.write_uberblock(&uberblock(txg, root)).unwrap();
    tree.write_labels(Round::Second, &list).unwrap();
}

/// The newest uberblock of all devices, and the txgs of all configurations.
fn found(bench: &Bench) -> (Option<Uberblock>, Vec<u64>) {
    let (mut best, mut configs) = (None::<Uberblock>, Vec::new());
    for device in bench.devices.values() {
        for start in label_offsets(device.size()).unwrap() {
            let bytes = read_one(&**device, start, LABEL_SIZE as usize).unwrap();
            let label = Label::new(&bytes).unwrap();
            let at = start + Part::Config.start();
            if verify_label(label.part(Part::Config), at).is_ok() {
                configs.push(label.nvlist().unwrap().u64("txg").unwrap());
            }
            for (at, slot) in label.slots(9) {
                if verify_label(slot, start + at).is_ok() {
                    let (ub, _) = Uberblock::decode(slot).unwrap();
                    if best.is_none_or(|b| b.cmp_age(&ub).is_lt()) {
                        best = Some(ub);
                    }
                }
            }
        }
    }
    (best, configs)
}

#[test]
fn a_committed_txg_survives_a_crash_at_every_event() {
    let (log, promised) = Rt::simulate(7, |rt| {
        let (bench, disks) = bench(rt, 7);
        let writer = writer(rt, &bench);
        disks.record();
        let mut promised = Vec::new();
        for t in FIRST..FIRST + 3 {
            txg(rt, &writer, t);
            promised.push((disks.events(), t));
        }
        (disks.log(), promised)
    });
    let mut seen = std::collections::BTreeSet::new();
    for cut in 0..=log.len() {
        // Each event with one of the modes: all of them together take a minute.
        let modes = [CrashMode::LoseUnflushed, CrashMode::KeepAll, CrashMode::Random];
        let mode = modes[cut % 3];
        let mut bench = Bench::new(&SHAPES, 9);
        let images = log.images(cut, mode, cut as u64);
        for (device, image) in bench.devices.values_mut().zip(images) {
            *device = Arc::new(image) as WriteDeviceRef;
        }
        let (best, configs) = found(&bench);
        let txg = best.map_or(0, |u| u.txg);
        seen.insert(txg);
        let kept = promised.iter().filter(|(at, _)| *at <= cut).map(|(_, t)| *t).max();
        assert!(Some(txg) >= kept, "cut {cut} {mode:?}: {txg} instead of {kept:?}");
        // Its own configuration is there, whatever became of the one after.
        let fits = configs.iter().filter(|t| **t <= txg).max();
        assert_eq!(fits, Some(&txg), "cut {cut} {mode:?}: {configs:?}");
        let Some(best) = best else { continue };
        let reader = bench.reader(&[]);
        let above = read(&reader, &best.rootbp, Scope::All);
        assert!(above.faults.is_empty(), "cut {cut} {mode:?}: {:?}", above.faults);
        let above = above.block.unwrap();
        for bp in above.chunks(128).map(|b| BlkPtr::decode(b, Endian::Little).unwrap()) {
            let child = read(&reader, &bp, Scope::All);
            assert!(child.block.is_ok() && child.faults.is_empty(), "{:?}", child.faults);
        }
    }
    assert_eq!(seen, [0, FIRST, FIRST + 1, FIRST + 2].into());
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| -> (Duration, usize, zio::WriterStats) {
        Rt::simulate(seed, |rt| {
            let (bench, disks) = bench(rt, seed);
            let writer = writer(rt, &bench);
            txg(rt, &writer, FIRST);
            (rt.now(), disks.events(), writer.stats())
        })
    };
    assert_eq!(run(3), run(3));
    assert!(run(3).0 > Duration::ZERO);
}
