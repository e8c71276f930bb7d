//! Threads that issue device writes, and what the profile says of them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Bench, Books, DEVICE_SIZE, SHAPES};
use device::{ErrorKind, Fault, RwFaultDevice, SimCost, SimDevice, SimModel, SimOptions};
use ondisk::{Checksum, DmuType};
use rt::{CpuCost, Rt};
use std::sync::Arc;
use std::time::Duration;
use vdev::{LeafOpen, VdevTree};
use zio::cpu::{Processors, Work};
use zio::profile::{Profile, ThreadKind};
use zio::{Allocate, Reader, WriteSpec, Writer};

const MS: Duration = Duration::from_millis(1);
const BLOCK: usize = 64 << 10;

/// A disk that takes 10 ms for a write, however many there are.
fn writer(rt: &Rt) -> Writer {
    let bench = Bench::new(&SHAPES[..1], 9);
    let cost = SimCost { overhead: MS * 10, bytes_per_second: 0 };
    let model =
        SimModel { write: cost, depth: 1000, spread: Duration::ZERO, ..SimModel::default() };
    let options = SimOptions { size: DEVICE_SIZE, model, ..SimOptions::default() };
    let disk = SimDevice::new(rt, &options);
    let leaf = &mut |_: &_| LeafOpen::Writable(Arc::clone(&disk) as _);
    let reader = Arc::new(Reader::new(
        VdevTree::build(&rt::Rt::current(), &bench.config, leaf).unwrap(),
        &[7; 32],
    ));
    let books = Arc::new(Books::new(Arc::clone(&reader), u64::MAX));
    Writer::new(rt, reader, books as Arc<dyn Allocate>)
}

fn write(writer: &Writer, blocks: u64) {
    let data = common::random(1, BLOCK);
    for _ in 0..blocks {
        let spec = WriteSpec::new(DmuType::PLAIN_FILE_CONTENTS, 0, common::TXG);
        writer.write(&data, &spec, common::PLACE).unwrap();
    }
    writer.wait().unwrap();
}

fn io(profile: &Profile) -> (u64, u64, Duration) {
    let k = profile.of(ThreadKind::ZioIssue).unwrap();
    (k.threads, k.io.count, k.io.time)
}

#[test]
fn as_many_writes_are_under_way_as_there_are_threads() {
    Rt::simulate(1, |rt| {
        let writer = writer(rt);
        for (threads, took) in [(0, 10), (1, 120), (3, 40), (12, 10), (2, 60), (0, 10)] {
            writer.set_issue_threads(threads);
            let began = rt.now();
            write(&writer, 12);
            assert_eq!(rt.now() - began, MS * took, "{threads} threads");
        }
        let profile = writer.profiler().snapshot();
        assert_eq!(io(&profile), (12, 72, MS * 720));
        // By type it is the time since they were sent off: those that wait for a thread, longer.
        let times = writer.reader().stats().times(DmuType::PLAIN_FILE_CONTENTS, 0).written_ns;
        let waits = 780 + 3 * (10 + 20 + 30 + 40) + 2 * (10 + 20 + 30 + 40 + 50 + 60);
        let sum = Duration::from_nanos(times.sum);
        assert_eq!((times.count(), sum), (72, MS * (3 * 120 + waits)));
    });
}

#[test]
fn a_serial_checksum_feeds_them_at_its_own_pace() {
    Rt::simulate(2, |rt| {
        let sha256 = CpuCost::rate(BLOCK as u64 * 1000 / 4);
        let processors = Processors {
            count: 1,
            contention_percent: 0,
            crowding_percent: 0,
            costs: vec![(Work::Checksum(Checksum::FLETCHER_4), sha256)],
        };
        rt.set_cpu(Some(processors.model()));
        let writer = writer(rt);
        writer.set_issue_threads(8);
        let began = rt.now();
        write(&writer, 10);
        assert_eq!(rt.now() - began, MS * 50);
        let profile = writer.profiler().snapshot();
        let me = profile.of(ThreadKind::Application).unwrap();
        assert_eq!((me.checksum.count, me.checksum.time), (10, MS * 40));
        assert_eq!(rt.cpu_busy(), MS * 40);
        // 100 ms of I/O within 46.
        let at_once = profile.of(ThreadKind::ZioIssue).unwrap().io.at_once();
        assert!((at_once - 100.0 / 46.0).abs() < 0.01, "{at_once}");
    });
}

#[test]
fn threads_of_the_system_write_too_and_go() {
    let bench = Bench::new(&SHAPES[3..4], 12);
    let (writer, _) = bench.writer(u64::MAX);
    writer.set_issue_threads(3);
    write(&writer, 20);
    // On a busy machine the last of them begins when all is written.
    let threads = || io(&writer.profiler().snapshot()).0;
    let mut patience = 60_000;
    while threads() < 3 && patience > 0 {
        std::thread::sleep(MS);
        patience -= 1;
    }
    writer.set_issue_threads(1);
    write(&writer, 20);
    assert_eq!(threads(), 3);
    drop(writer);
}

#[test]
fn an_unsent_block_is_handed_over_when_it_is_dropped_or_written_by_its_thread() {
    Rt::simulate(3, |rt| {
        let writer = writer(rt);
        let data = common::random(2, BLOCK);
        let mut all = Vec::new();
        let mut unsent = || {
            let spec = WriteSpec::new(DmuType::PLAIN_FILE_CONTENTS, 0, common::TXG);
            let (bp, block) = writer.write_unsent(&data, &spec, common::PLACE).unwrap();
            rt.sleep(MS * 50);
            assert!(!writer.has_ended(&bp) && writer.read_pending(&bp).is_some(), "not sent");
            all.push(bp);
            (bp, block, rt.now())
        };
        let (bp, block, began) = unsent();
        drop(block);
        assert_eq!((rt.now() - began, writer.has_ended(&bp)), (Duration::ZERO, false));
        writer.wait_block(&bp).unwrap();
        assert_eq!(rt.now() - began, MS * 10);

        let (bp, block, began) = unsent();
        block.write_here();
        assert_eq!((rt.now() - began, writer.has_ended(&bp)), (MS * 10, true));

        // Where threads write, they alone do.
        writer.set_issue_threads(1);
        let (bp, block, began) = unsent();
        block.write_here();
        assert_eq!((rt.now() - began, writer.has_ended(&bp)), (Duration::ZERO, false));
        writer.wait_block(&bp).unwrap();
        for bp in &all {
            common::assert_whole(writer.reader(), bp, data.bytes());
        }
        assert_eq!(writer.stats().in_flight, 0);
    });
}

#[test]
fn an_unsent_block_of_several_devices_is_handed_over_whole() {
    let bench = Bench::new(&SHAPES[1..2], 12);
    let (writer, _) = bench.writer(u64::MAX);
    let data = common::random(3, BLOCK);
    let (bp, block) = writer.write_unsent(&data, &common::spec(), common::PLACE).unwrap();
    block.write_here();
    writer.wait_block(&bp).unwrap();
    common::assert_whole(writer.reader(), &bp, data.bytes());
    assert_eq!(writer.stats().in_flight, 0);
}

#[test]
fn an_unsent_block_that_its_device_refuses_fails_its_txg() {
    let mut bench = Bench::new(&SHAPES[..1], 12);
    let disk = RwFaultDevice::new(Arc::clone(&bench.devices[&1]));
    disk.add(Fault::fail_writes(0..DEVICE_SIZE, ErrorKind::Gone));
    bench.devices.insert(1, Arc::new(disk));
    let (writer, _) = bench.writer(u64::MAX);
    let data = common::random(4, BLOCK);
    let (bp, block) = writer.write_unsent(&data, &common::spec(), common::PLACE).unwrap();
    block.write_here();
    assert!(writer.has_ended(&bp));
    assert!(writer.wait_block(&bp).is_err() && writer.wait_txg(common::TXG).is_err());
    assert!(writer.wait_txg(common::TXG - 1).is_ok());
}
