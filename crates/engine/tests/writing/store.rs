//! Disks in stores, for tests that are started again with what a bucket needs in its environment.

use engine::devices::{FarName, disk};
use std::path::Path;
use std::process::Command;

/// A place for disks, for a process that is started again.
const PLACE: &str = "ZINC_TEST_PLACE";

/// The place that this process was given.
pub fn given() -> Option<String> {
    std::env::var(PLACE).ok()
}

/// The name of something below a place.
pub fn below(place: &str, name: &str) -> String {
    match place.split_once('?') {
        Some((place, options)) => format!("{place}/{name}?{options}"),
        None => format!("{place}/{name}"),
    }
}

/// Makes a disk.
pub fn make_disk(name: &str, size: u64) -> FarName {
    let name = FarName::parse(Path::new(name)).unwrap().unwrap();
    let is = disk::Superblock {
        size,
        sector: disk::SECTOR_BYTES,
        target: 1 << 20,
        window: 8,
        is_fenced: true,
        limit: None,
        made_by: String::from("a test"),
    };
    disk::create(&name, &is).unwrap();
    name
}

/// Runs a test of this program in a process that is given a bucket.
pub fn run_again(test: &str, bucket: &str, endpoint: &str, environment: &[(&str, &str)]) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(PLACE, format!("{bucket}?endpoint={endpoint}"))
        .envs(environment.iter().copied())
        .status();
    assert!(status.unwrap().success(), "{bucket}");
}
