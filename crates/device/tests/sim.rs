//! Simulated disks: time, order, power failures, and an engine in small that survives them.

#![allow(clippy::expect_used, reason = "fails as tests do")]

use device::{
    CrashMode, Device, ErrorKind, MemoryDevice, RwPartition, Shared, SimCost, SimDevice, SimDisks,
    SimModel, SimOptions, Write, WriteDevice, WriteDeviceRef, read_batch, read_one, write_batch,
};
use parking_lot::Mutex;
use rt::{Rng, Rt, Xoshiro256};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A disk of 1 MB/s that starts each request after 10 ms, two at a time.
fn slow() -> SimOptions {
    let cost = SimCost { overhead: MS * 10, bytes_per_second: 1_000_000 };
    let model = SimModel { read: cost, write: cost, flush: cost, depth: 2, spread: Duration::ZERO };
    SimOptions { size: 1 << 20, model, ..SimOptions::default() }
}

#[test]
fn requests_take_the_time_the_model_says() {
    Rt::simulate(1, |rt| {
        let disk = SimDevice::new(rt, &slow());
        disk.write(0, &[7; 5000]).expect("write");
        assert_eq!(rt.now(), MS * 15);
        assert_eq!(read_one(&*disk, 0, 5000).map(|b| b.to_vec()), Ok(vec![7; 5000]));
        assert_eq!(rt.now(), MS * 30);
        // Two at a time: both overheads pass at once, the bytes one after the other; the third
        // waits for a place.
        let results = read_batch(&*disk, &[(0, 1000), (0, 1000), (0, 1000)]);
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(rt.now(), MS * (30 + 11 + 11));
        disk.flush().expect("flush");
        assert_eq!(rt.now(), MS * (52 + 10 + 5));
        disk.flush().expect("flush");
        assert_eq!(rt.now(), MS * (67 + 10));
        let stats = disk.stats();
        assert_eq!((stats.reads, stats.writes, stats.flushes, stats.in_flight), (4, 1, 2, 0));
        assert_eq!(stats.write_latency_percentile(50), Some(Duration::from_micros(1 << 14)));
        assert!(disk.read(1 << 20, &mut [0]).is_err() && disk.write(1 << 20, &[0]).is_err());
    });
}

/// A window over a simulated disk waits in its time too.
#[test]
fn wrappers_wait_in_virtual_time() {
    Rt::simulate(1, |rt| {
        let disk: WriteDeviceRef = SimDevice::new(rt, &slow());
        let part = RwPartition::new(disk, "#1", 4096, 8192);
        part.write(0, b"abc").expect("write");
        assert!(read_batch(&part, &[(0, 3), (1, 2)]).iter().all(Result::is_ok));
        part.flush().expect("flush");
        assert!(rt.now() > MS * 20);
    });
}

/// The order in which a batch of equal writes ends.
fn order(seed: u64) -> Vec<u64> {
    Rt::simulate(seed, |rt| {
        let disk = SimDevice::new(rt, &SimOptions { seed, ..SimOptions::default() });
        let ended = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::new(rt.condvar());
        let write = |i: u64| {
            let (ended, all) = (Arc::clone(&ended), Arc::clone(&all));
            let done = Box::new(move |_| {
                ended.lock().push(i);
                all.notify_all();
            });
            Write { offset: i * 512, parts: vec![Shared::copy_of(&[1; 512])], done }
        };
        disk.submit_writes((0..20).map(write).collect());
        let mut list = ended.lock();
        all.wait_while(&mut list, |list| list.len() < 20);
        list.clone()
    })
}

#[test]
fn writes_overtake_each_other_as_the_seed_says() {
    let orders: BTreeSet<_> = (0..20).map(order).collect();
    assert_eq!(orders.len(), 20);
    assert_eq!(order(3), order(3));
}

#[test]
fn from_the_power_failure_on_everything_fails() {
    Rt::simulate(1, |rt| {
        let disks = SimDisks::new(rt);
        let (one, two) = (disks.add(&slow()), disks.add(&slow()));
        // A write is two events.
        disks.fail_power_at(5);
        one.write(0, b"a").expect("before");
        two.write(0, b"b").expect("before");
        assert_eq!((disks.events(), disks.power_failed()), (4, false));
        // This one arrives, and is not done.
        let error = two.write(1, b"c").expect_err("the power fails");
        assert_eq!((error.kind, disks.power_failed()), (ErrorKind::PowerLoss, true));
        let loss = |error: device::Error| assert_eq!(error.kind, ErrorKind::PowerLoss);
        loss(one.write(0, b"d").expect_err("write"));
        loss(one.flush().expect_err("flush"));
        loss(one.read(0, &mut [0]).expect_err("read"));
        loss(read_batch(&*one, &[(0, 1), (1, 1)]).remove(1).map(|_| ()).expect_err("read"));
        assert_eq!(disks.events(), 5);
        assert_eq!(read_one(&two.contents(), 0, 2).map(|b| b.to_vec()), Ok(b"b\0".to_vec()));
    });
}

#[test]
fn a_recording_can_begin_in_the_middle() {
    Rt::simulate(1, |rt| {
        let disks = SimDisks::new(rt);
        let disk = disks.add(&slow());
        disk.write(0, b"old").expect("write");
        let (inside, rt2) = (Arc::clone(&disk), rt.clone());
        let task = rt.spawn("writer", move || inside.write(512, b"late").expect("write"));
        rt2.sleep(MS);
        assert!(disks.log().is_empty());
        disks.record();
        task.expect("thread").join().expect("ends");
        let late = |mode| {
            let images = disks.crash_images(mode, 0);
            let got = |at, len| read_one(&images[0], at, len).map(|b| b.to_vec()).expect("read");
            (got(0, 3), got(512, 4))
        };
        assert_eq!(late(CrashMode::LoseUnflushed), (b"old".to_vec(), vec![0; 4]));
        assert_eq!(late(CrashMode::KeepAll), (b"old".to_vec(), b"late".to_vec()));
        disk.flush().expect("flush");
        assert_eq!(late(CrashMode::LoseUnflushed), (b"old".to_vec(), b"late".to_vec()));
    });
}

/// An engine in small, on two mirrored disks: a generation is eight blocks of its number, written
/// in any order into one of two places, then flushed, then named in one of two checksummed sectors,
/// flushed again. Which faults its maker has built into it:
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The disks ignore flushes.
    LyingDisks,
    /// The engine does not flush before it names the generation.
    NoFirstFlush,
    /// It uses the place of the generation that the newest valid name speaks of.
    ReusedTooSoon,
}

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 8;

fn place(generation: u64, fault: Fault) -> u64 {
    let slot = if fault == Fault::ReusedTooSoon { 0 } else { generation % 2 };
    65_536 + slot * BLOCK * BLOCKS
}

fn sum(generation: u64) -> u64 {
    Xoshiro256::seeded(generation).next_u64()
}

/// Writes some generations; returns the disks, and after how many events each was promised.
fn run(seed: u64, fault: Fault) -> (SimDisks, Vec<usize>) {
    Rt::simulate(seed, |rt| {
        let disks = SimDisks::new(rt);
        disks.record();
        let ignore_flush = fault == Fault::LyingDisks;
        let make = |seed| disks.add(&SimOptions { seed, ignore_flush, ..SimOptions::default() });
        let mirror = [make(seed), make(seed + 1)];
        let mut promised = vec![0];
        for generation in 1..=6u64 {
            let mut rng = Xoshiro256::seeded(generation);
            let flush = || {
                rt.for_each_parallel(2, mirror.iter(), |disk| disk.flush()).expect("flush");
            };
            rt.for_each_parallel(2, mirror.iter(), |disk| {
                let block = Shared::copy_of(&generation.to_le_bytes().repeat(512));
                let write = |i| (place(generation, fault) + i * BLOCK, vec![block.clone()]);
                let results = write_batch(&**disk, (0..BLOCKS).map(write).collect());
                results.into_iter().collect::<Result<Vec<_>, _>>().map(|_| ())
            })
            .expect("write");
            if fault != Fault::NoFirstFlush {
                flush();
            }
            let mut name = [0; 512];
            name[..8].copy_from_slice(&generation.to_le_bytes());
            name[8..16].copy_from_slice(&sum(generation).to_le_bytes());
            for disk in &mirror {
                disk.write(generation % 2 * 512, &name).expect("write");
            }
            flush();
            promised.push(disks.events());
            rt.sleep(MS * rng.below(3) as u32);
        }
        (disks, promised)
    })
}

/// The newest generation that one of the disks names, or that its blocks are not all there.
fn newest(disks: &[MemoryDevice], fault: Fault) -> Result<u64, String> {
    let word = |disk: &MemoryDevice, at: u64| {
        let mut bytes = [0; 8];
        disk.read(at, &mut bytes).expect("read");
        u64::from_le_bytes(bytes)
    };
    let names =
        disks.iter().flat_map(|disk| [0, 512].map(|at| (word(disk, at), word(disk, at + 8))));
    let valid = names.filter(|(generation, check)| *generation > 0 && sum(*generation) == *check);
    let newest = valid.map(|(generation, _)| generation).max().unwrap_or(0);
    for i in (0..BLOCKS * BLOCK / 8).filter(|_| newest > 0) {
        let at = place(newest, fault) + i * 8;
        // From whichever side of the mirror has it right.
        if disks.iter().all(|disk| word(disk, at) != newest) {
            return Err(format!("generation {newest}: word {i} is lost"));
        }
    }
    Ok(newest)
}

/// Crashes at every event, in every mode; what goes wrong.
fn sweep(seed: u64, fault: Fault) -> Vec<String> {
    let (disks, promised) = run(seed, fault);
    let log = disks.log();
    let mut wrong = Vec::new();
    for cut in 0..=log.len() {
        let modes =
            [(CrashMode::KeepAll, 1), (CrashMode::LoseUnflushed, 1), (CrashMode::Random, 10)];
        for (mode, count) in modes {
            for seed in 0..count {
                let least = promised.iter().rposition(|events| *events <= cut).unwrap_or(0) as u64;
                match newest(&log.images(cut, mode, seed), fault) {
                    Ok(newest) if newest == least || newest == least + 1 => {}
                    Ok(newest) => wrong.push(format!("cut {cut}: {newest}, promised {least}")),
                    Err(text) => wrong.push(format!("cut {cut}: {text} ({})", log.describe(cut))),
                }
            }
        }
    }
    wrong
}

#[test]
fn what_was_promised_survives_every_crash() {
    for seed in 0..3 {
        let wrong = sweep(seed, Fault::None);
        assert!(wrong.is_empty(), "seed {seed}: {} of them, {:?}", wrong.len(), wrong.first());
    }
}

#[test]
fn broken_engines_and_lying_disks_are_caught() {
    for fault in [Fault::LyingDisks, Fault::NoFirstFlush, Fault::ReusedTooSoon] {
        assert!(!sweep(1, fault).is_empty());
    }
}

#[test]
fn a_run_replays_event_by_event() {
    let trace = |seed| {
        let log = run(seed, Fault::None).0.log();
        (0..log.len()).map(|event| log.describe(event)).collect::<Vec<_>>()
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

/// Real files can be used in a simulation: they cost no virtual time.
#[test]
fn files_work_in_a_simulation() {
    let dir = tempfile::tempdir().expect("dir");
    Rt::simulate(1, |rt| {
        let path = dir.path().join("image");
        let file = device::RwFileDevice::create(&path, 1 << 20, &device::Options::default());
        let file = file.expect("create");
        let data = Shared::copy_of(b"abc");
        let results = write_batch(&file, vec![(0, vec![data.clone()]), (9000, vec![data])]);
        assert!(results.iter().all(Result::is_ok));
        let results = read_batch(&file, &[(0, 3), (9000, 3)]);
        assert!(results.iter().all(|r| r.as_ref().is_ok_and(|b| b[..] == *b"abc")));
        file.flush().expect("flush");
        assert_eq!(rt.now(), Duration::ZERO);
    });
}

#[test]
#[should_panic(expected = "said in a callback")]
fn a_panic_in_a_callback_ends_the_simulation() {
    Rt::simulate(1, |rt| {
        let disk = SimDevice::new(rt, &slow());
        let done = Box::new(|_| panic!("said in a callback"));
        disk.submit_writes(vec![Write { offset: 0, parts: vec![], done }]);
        rt.sleep(MS * 1000);
    });
}
