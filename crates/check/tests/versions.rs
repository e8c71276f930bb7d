//! What old implementations left in pools. Where no kernel module that writes it was at hand it is
//! made by surgery, and that these states are legal rests on the published format.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::surgeon::Surgeon;
use ondisk::mos;
use pool::UnguardedDatasets as _;

/// Where the fill count stands in a dataset: word 11 of its root pointer.
const ROOT_FILL: usize = 16 * 8 + 11 * 8;

fn surgeon() -> Surgeon {
    Surgeon::new(&testkit::corpus("version28"))
}

/// The object of a file system in the MOS.
fn head(s: &Surgeon) -> u64 {
    let pool = s.open();
    let root = pool.dsl().root().unwrap();
    pool.dsl().head(&root).unwrap().expect("every pool has a root file system").object
}

/// Makes the configuration in the MOS say another pool version.
fn set_version(s: &Surgeon, version: u64) {
    let object = s.open().directory().unwrap().get_u64(mos::CONFIG).unwrap().expect("an object");
    s.edit_block((0, object), (0, 0), |block| {
        // XDR: length and name, type, number of elements, value.
        let name = b"\0\0\0\x07version\0";
        let at = block.windows(name.len()).position(|w| w == name).expect("a version") + name.len();
        block[at + 8..at + 16].copy_from_slice(&version.to_be_bytes());
    });
    assert_eq!(s.open().config().version, version);
}

#[test]
fn a_fill_count_with_the_meta_dnode_is_right_before_version_15() {
    let s = surgeon();
    let head = head(&s);
    s.edit_bonus((0, head), ROOT_FILL, |fill| fill + 1);
    assert_eq!(s.check(), ["fill-count"], "no implementation of version 28 counts like this");
    set_version(&s, 14);
    assert!(s.check().is_empty());
    s.edit_bonus((0, head), ROOT_FILL, |fill| fill + 1);
    assert_eq!(s.check(), ["fill-count"], "and none counts it twice");
}

/// The kernel's raidz of version 1: what its datasets count is raw bytes, parity included.
#[test]
fn raw_sizes_of_a_raidz_without_the_flag_are_right() {
    let sample = testkit::sample("rawsize");
    let pool = common::open(&sample.dir, sample.name());
    assert!(!pool.deflates());
    let report = check::run(&pool, &check::CheckOptions::default(), &rt::Progress::new());
    let names: Vec<_> = report.issues.iter().map(check::Issue::name).collect();
    assert!(names.is_empty() && report.blocks_lost == 0, "{names:?}");
}

#[test]
fn whether_space_is_deflated_is_said_by_the_flag() {
    let s = surgeon();
    assert!(s.open().deflates());
    // A large table: its second block is the first leaf, where a name stands in pieces.
    s.edit_block((0, mos::DIRECTORY_OBJECT), (0, 1), |block| {
        let at = block.windows(7).position(|w| w == b"deflate").expect("the flag");
        block[at] = b'x';
    });
    assert!(!s.open().deflates());
    // On one disk raw and deflated bytes are the same. The entry is not where its new name belongs.
    assert_eq!(s.check(), ["bad-structure"]);
}
