//! Large files go in several transactions, and a stop in between loses nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use common::{Set, at, filesystem};
use zpl::write::{XattrMode, XattrStore};
use zpl::{Filesystem, FormatOptions, FsSettings, NewFile, NewKind};

const BLOCK: usize = 512;
/// Somewhat more than three pieces.
const BLOCKS: usize = 65_000;
/// Pieces are whole indirect blocks: 19 of 1024 pointers.
const PIECE: u64 = 19 * 1024 * BLOCK as u64;

fn large_file() -> (Set, Filesystem, usize, u64) {
    let (set, fs) = filesystem(&FormatOptions::new(at(0)));
    fs.configure(FsSettings { record_size: BLOCK as u32, ..fs.settings() }).unwrap();
    set.commit();
    let empty = set.memory.count();
    let new = NewFile::new(NewKind::File, 0o644, at(1));
    let file = fs.create(fs.root_object(), b"large", &new).unwrap().number();
    let bytes: Vec<u8> = (0..BLOCKS * BLOCK).map(|n| (n / 7 % 255 + 1) as u8).collect();
    fs.write_at(file, 0, &bytes, at(1)).unwrap();
    set.commit();
    (set, fs, empty, file)
}

/// Transactions that `work` begins.
fn transactions(set: &Set, work: impl FnOnce()) -> u64 {
    let before = set.begun();
    work();
    set.begun() - before
}

fn byte(fs: &Filesystem, file: u64, at: u64) -> u8 {
    let mut byte = [0];
    fs.node(file).unwrap().read_at(at, &mut byte).unwrap();
    byte[0]
}

#[test]
fn a_large_file_is_unlinked_in_pieces() {
    let (set, fs, empty, _) = large_file();
    // The name, three pieces, the rest.
    let begun = transactions(&set, || fs.unlink(fs.root_object(), b"large", at(2)).unwrap());
    assert_eq!(begun, 1 + 3 + 1);
    set.commit();
    assert_eq!(set.memory.count(), empty);
    assert_eq!(fs.unlinked().unwrap(), []);
}

#[test]
fn a_transaction_of_the_callers_leaves_it_to_the_next_change() {
    let (set, fs, empty, file) = large_file();
    let tx = fs.begin(dmu::Hold::free()).unwrap();
    fs.unlink_tx(&tx, fs.root_object(), b"large", at(2)).unwrap();
    drop(tx);
    assert_eq!(fs.unlinked().unwrap(), [file]);
    let new = NewFile::new(NewKind::File, 0o644, at(3));
    let other = fs.create(fs.root_object(), b"other", &new).unwrap().number();
    assert_eq!(fs.unlinked().unwrap(), []);
    assert_ne!(other, file);
    fs.unlink(fs.root_object(), b"other", at(3)).unwrap();
    set.commit();
    assert_eq!(set.memory.count(), empty);
}

#[test]
fn what_a_stop_left_over_goes_when_it_is_opened_again() {
    for pieces in 0..4 {
        let (set, fs, empty, file) = large_file();
        set.let_begin(1 + pieces);
        fs.unlink(fs.root_object(), b"large", at(2)).unwrap();
        set.commit();
        assert_eq!(fs.unlinked().unwrap(), [file]);
        drop(fs);
        let set = set.reopen();
        set.let_begin(u64::MAX);
        let fs = Filesystem::open(set.objset.clone()).unwrap();
        set.owners.attach(&fs);
        assert_eq!(fs.drain_unlinked().unwrap(), 1);
        set.commit();
        assert_eq!(set.memory.count(), empty, "stopped after {pieces} pieces");
        assert_eq!(fs.unlinked().unwrap(), []);
    }
}

#[test]
fn a_large_file_that_was_in_use_goes_in_pieces() {
    let (set, fs, empty, file) = large_file();
    let used = fs.hold(file).unwrap();
    fs.unlink(fs.root_object(), b"large", at(2)).unwrap();
    assert_ne!(byte(&fs, file, PIECE), 0);
    assert_eq!(transactions(&set, || used.close().unwrap()), 3 + 1);
    set.commit();
    assert_eq!(set.memory.count(), empty);
}

#[test]
fn a_large_file_is_cut_off_in_pieces() {
    let (set, fs, _, file) = large_file();
    let size = 3 * BLOCK as u64 + 100;
    let begun = transactions(&set, || fs.truncate(file, size, at(2)).unwrap());
    assert_eq!(begun, 3 + 1);
    assert_eq!(fs.node(file).unwrap().size, size);
    assert!(byte(&fs, file, size - 1) != 0);
    // Cut off before the last piece, its size is what it was.
    let (set, fs, _, file) = large_file();
    set.let_begin(2);
    assert!(fs.truncate(file, size, at(2)).is_err());
    assert_eq!(fs.node(file).unwrap().size, (BLOCKS * BLOCK) as u64);
    assert_eq!(byte(&fs, file, PIECE), 0);
    assert_ne!(byte(&fs, file, size), 0);
    assert_ne!(byte(&fs, file, 2 * PIECE + 4 * BLOCK as u64), 0);
}

#[test]
fn a_large_hole_is_made_in_pieces() {
    let (set, fs, _, file) = large_file();
    let (from, to) = (5_000, (BLOCKS * BLOCK) as u64 - 5_000);
    let begun = transactions(&set, || fs.punch(file, from, to - from, at(2)).unwrap());
    assert_eq!(begun, 3 + 1);
    let shown = [from - 1, from, PIECE, to - 1, to].map(|place| byte(&fs, file, place) != 0);
    assert_eq!(shown, [true, false, false, false, true]);
    assert_eq!(fs.node(file).unwrap().size, (BLOCKS * BLOCK) as u64);
}

/// A file with this number of extended attributes in a directory, and what is there without it.
fn rich_file(attributes: usize) -> (Set, Filesystem, usize, u64) {
    let (set, fs) = filesystem(&FormatOptions::new(at(0)));
    fs.configure(FsSettings { xattr: XattrStore::Dir, ..fs.settings() }).unwrap();
    set.commit();
    let empty = set.memory.count();
    let new = NewFile::new(NewKind::File, 0o644, at(1));
    let file = fs.create(fs.root_object(), b"rich", &new).unwrap().number();
    for n in 0..attributes {
        let name = format!("user.{n}");
        fs.set_xattr(file, name.as_bytes(), &[7; 600], XattrMode::Any, at(1)).unwrap();
    }
    set.commit();
    (set, fs, empty, file)
}

#[test]
fn many_extended_attributes_go_in_pieces() {
    // The name, two pieces, the rest.
    for (attributes, begins) in [(10, 1 + 1), (2500, 1 + 2 + 1)] {
        let (set, fs, empty, _) = rich_file(attributes);
        let begun = transactions(&set, || fs.unlink(fs.root_object(), b"rich", at(2)).unwrap());
        assert_eq!(begun, begins);
        set.commit();
        assert_eq!(set.memory.count(), empty);
        assert_eq!(fs.unlinked().unwrap(), []);
    }
}

#[test]
fn extended_attributes_that_a_stop_left_over_go_when_it_is_opened_again() {
    let (set, fs, empty, file) = rich_file(2500);
    set.let_begin(1 + 1);
    fs.unlink(fs.root_object(), b"rich", at(2)).unwrap();
    set.commit();
    assert_eq!(fs.unlinked().unwrap(), [file]);
    drop(fs);
    let set = set.reopen();
    set.let_begin(u64::MAX);
    let fs = Filesystem::open(set.objset.clone()).unwrap();
    set.owners.attach(&fs);
    assert_eq!(fs.drain_unlinked().unwrap(), 1);
    set.commit();
    assert_eq!(set.memory.count(), empty);
}
