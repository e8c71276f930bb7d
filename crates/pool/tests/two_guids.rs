//! A crash while a pool gets another guid leaves labels of both: it is one pool all the same, with
//! the guid that its uberblocks are of.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use device::{Options, RwFileDevice};
use ondisk::nvlist::NvValue;
use pool::live::Devices;
use pool::{Candidate, OpenOptions, Pool, SearchOptions, scan};
use poolkit::{leaf, top};
use rt::Rt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vdev::label::{Round, write_config};

const SIZE: u64 = 64 << 20;

/// A pool on two devices.
fn made(folder: &Path) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = ["a", "b"].map(|name| folder.join(name)).to_vec();
    let mut devices = Devices::new();
    for path in &paths {
        let device = RwFileDevice::create(path, SIZE, &Options::default()).unwrap();
        devices.insert(path.to_str().unwrap().to_owned(), Arc::new(device) as _);
    }
    let tops = devices.keys().map(|path| top(leaf(path, true))).collect();
    poolkit::create(&Rt::real(), "tank", tops, &devices, |_| {}).close().unwrap();
    paths
}

fn candidates(folder: &Path) -> Vec<Candidate> {
    let options = SearchOptions { paths: vec![folder.to_owned()], ..SearchOptions::default() };
    Candidate::group(&scan(&options).unwrap())
}

/// Writes labels 0 and 2 of a device anew, with another guid of the pool and this txg; labels 1 and
/// 3 are of the txg before.
fn relabel(path: &Path, guid: u64, txg: u64) {
    let device = RwFileDevice::open(path, &Options::default()).unwrap();
    let shared: device::DeviceRef =
        Arc::new(device::FileDevice::open(path, &Options::default()).unwrap());
    let label = pool::read_labels(&shared).into_iter().find_map(|l| l.nvlist).unwrap();
    let mut list = label;
    list.set("txg", NvValue::U64(txg - 1));
    write_config(&device, &list, Round::Second).unwrap();
    list.set("pool_guid", NvValue::U64(guid));
    list.set("txg", NvValue::U64(txg));
    write_config(&device, &list, Round::First).unwrap();
}

#[test]
fn labels_of_a_txg_that_never_was_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let paths = made(folder.path());
    let [one] = &candidates(folder.path())[..] else { panic!("one pool") };
    let (old, txg) = (one.config.pool_guid, one.uberblocks.iter().map(|u| u.uberblock.txg).max());
    let next = txg.unwrap() + 1;
    // The crash came before the second device's labels, or before the uberblock.
    for relabelled in [&paths[..1], &paths[1..]] {
        relabelled.iter().for_each(|path| relabel(path, 4711, next));
        let found = candidates(folder.path());
        let [one] = &found[..] else { panic!("{} pools", found.len()) };
        assert_eq!((one.config.pool_guid, one.leaves.len()), (old, 2));
        let pool = Pool::open_candidate(one, &OpenOptions::default()).unwrap();
        assert!(!pool.has_moved(), "labels that were there stay");
    }
    let found = candidates(folder.path());
    let pool = Pool::open_candidate(&found[0], &OpenOptions::default()).unwrap();
    relabel(&paths[0], 4711, next + 1);
    assert!(pool.has_moved(), "another program writes labels");
}

#[test]
fn labels_of_a_txg_that_was_count() {
    let folder = tempfile::tempdir().unwrap();
    let paths = made(folder.path());
    let found = candidates(folder.path());
    let txg = found[0].uberblocks.iter().map(|u| u.uberblock.txg).max().unwrap();
    // All have labels of the txg whose uberblock is there.
    paths.iter().for_each(|path| relabel(path, 4711, txg));
    let found = candidates(folder.path());
    let [one] = &found[..] else { panic!("{} pools", found.len()) };
    assert_eq!((one.config.pool_guid, one.leaves.len()), (4711, 2));
}
