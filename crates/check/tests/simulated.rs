//! The check in virtual time: its workers are threads of the simulation and wait as those do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it likes")]

use check::{CheckOptions, Report};
use device::{SimDisks, SimOptions, WriteDeviceRef};
use pool::live::Devices;
use pool::{Candidate, OpenOptions, Pool, look_at_device};
use poolkit::{leaf, top};
use rt::{Progress, Rt};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use zpl::write::{NewFile, NewKind};

const DISKS: usize = 2;
const FILES: u8 = 24;

fn name(disk: usize) -> String {
    format!("disk{disk}")
}

/// Makes a pool with some files on these disks.
fn make(rt: &Rt, disks: &[WriteDeviceRef]) {
    let devices: Devices =
        disks.iter().enumerate().map(|(n, d)| (name(n), Arc::clone(d))).collect();
    let tops = devices.keys().map(|name| top(leaf(name, false))).collect();
    let pool = poolkit::create(rt, "tank", tops, &devices, |_| {});
    let fs = pool.filesystem("tank").unwrap();
    let now = ondisk::znode::Time { seconds: 1, nanos: 0 };
    for n in 0..FILES {
        let new = NewFile::new(NewKind::File, 0o644, now);
        let file = fs.create(fs.root_object(), &[b'a' + n], &new).unwrap().number();
        let data: Vec<u8> = (0..500_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8 ^ n).collect();
        fs.write_at(file, 0, &data, now).unwrap();
    }
    drop(fs);
    pool.export().unwrap();
}

/// Checks that pool with this many workers, in a simulation. A worker that waits where the runtime
/// cannot see it stops the simulation for ever, so that is given up after a while.
fn checked(seed: u64, workers: usize) -> Report {
    let (done, report) = mpsc::channel();
    let body = move |rt: &Rt| {
        let site = SimDisks::new(rt);
        let disk = |n| site.add(&SimOptions { name: name(n), seed, ..SimOptions::default() });
        let disks: Vec<WriteDeviceRef> = (0..DISKS).map(|n| disk(n) as _).collect();
        make(rt, &disks);
        let look = |(n, disk): (usize, &WriteDeviceRef)| {
            look_at_device(&Arc::clone(disk).as_device(), PathBuf::from(name(n)))
        };
        let found: Vec<_> = disks.iter().enumerate().filter_map(look).collect();
        let candidate = Candidate::group(&found).remove(0);
        let open = OpenOptions { rt: rt.clone(), ..OpenOptions::default() };
        let pool = Pool::open_candidate(&candidate, &open).unwrap();
        let options = CheckOptions { workers, batch_bytes: 256 << 10, ..CheckOptions::default() };
        check::run(&pool, &options, &Progress::new())
    };
    std::thread::spawn(move || done.send(Rt::simulate(seed, body)));
    report.recv_timeout(Duration::from_secs(60)).expect("the check ends")
}

#[test]
fn workers_share_the_work_of_a_check_in_virtual_time() {
    let (one, four) = (checked(1, 1), checked(1, 4));
    for report in [&one, &four] {
        assert_eq!(report.issues, []);
        assert!(report.is_clean() && report.bytes_read > 2_000_000, "{report:?}");
    }
    assert_eq!((one.blocks_read, one.allocated), (four.blocks_read, four.allocated));
    // Reads of one worker are under way while another one's are.
    assert!(four.elapsed < one.elapsed, "{:?} {:?}", four.elapsed, one.elapsed);
    assert!(one.elapsed < Duration::from_secs(1), "{:?} is not a virtual time", one.elapsed);
}

#[test]
fn the_seed_decides_how_long_a_check_takes() {
    for workers in [0, 3] {
        assert_eq!(checked(7, workers).elapsed, checked(7, workers).elapsed);
    }
}
