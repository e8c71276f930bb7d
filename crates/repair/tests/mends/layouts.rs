//! The same damage in pools with redundancy: what all copies and all parity agree on is wrong.

use super::files::rename_entry;
use super::kit::*;
use pool::live::NewFilesystem;
use zpl::{Mend, NewFile, NewKind, Time};

/// A pool with a dataset that shares nothing with snapshots, and what is in it.
struct TestPool {
    s: Surgeon,
    set: u64,
    /// Of many files, in the order in which they were made.
    files: Vec<u64>,
    dir: u64,
    root: u64,
}

fn made(s: Surgeon) -> TestPool {
    let name = format!("{}/new", s.open().name());
    let live = live(&s);
    live.create_filesystem(&name, NewFilesystem::default(), Vec::new()).unwrap();
    let fs = live.filesystem(&name).unwrap();
    let new = |kind| NewFile::new(kind, 0o644, Time::default());
    let dir = fs.create(fs.root_object(), b"dir", &new(NewKind::Dir)).unwrap().number();
    let file = |n: usize| {
        let name = format!("a file with a long name, so that the table is long, too: {n}");
        fs.create(dir, name.as_bytes(), &new(NewKind::File)).unwrap().number()
    };
    let files: Vec<u64> = (0..200).map(file).collect();
    let root = fs.root_object();
    for n in 0..40 {
        fs.create(root, format!("{n}").as_bytes(), &new(NewKind::File)).unwrap();
    }
    drop(fs);
    live.export().unwrap();
    let set = heads(&s.open()).into_iter().find(|d| d.name == name).unwrap().object;
    TestPool { s, set, files, dir, root }
}

fn in_each(act: impl Fn(&TestPool), expected: &[&str], zdb: Zdb) {
    for made in [mirror(), surgeon("raidz1")].map(made) {
        act(&made);
        mends(&made.s, expected, zdb);
    }
}

#[test]
fn a_space_map_whose_blocks_are_lost() {
    let act = |m: &TestPool| {
        let (map, _) = a_map(&m.s);
        let bp = m.s.open().mos().object(map).unwrap().block_pointer(0, 0).unwrap().unwrap();
        m.s.destroy_all(&bp);
    };
    in_each(act, &["block-lost", "space-map"], Zdb::Errs);
}

#[test]
fn a_space_map_that_decodes_to_nonsense_and_lost_labels() {
    let act = |m: &TestPool| {
        let (map, _) = a_map(&m.s);
        m.s.edit_block((0, map), (0, 0), |b| b[..64].fill(0xff));
        m.s.scribble(0, &vec![0; 512 << 10]);
    };
    in_each(act, &["space-map", "label"], Zdb::Errs);
}

#[test]
fn wrong_numbers_a_name_of_nothing_and_a_file_without_a_name() {
    let act = |m: &TestPool| {
        let live = live(&m.s);
        let fs = live.filesystem(&format!("{}/new", live.name())).unwrap();
        fs.mend(m.files[7], Mend { links: Some(7), ..Mend::default() }).unwrap();
        fs.mend(m.dir, Mend { size: Some(7), ..Mend::default() }).unwrap();
        drop(fs);
        live.export().unwrap();
        rename_entry(&m.s, (m.set, m.root), 0xff_ffff);
    };
    let expected = ["link-count", "directory-size", "dangling-entry", "orphan"];
    in_each(act, &expected, Zdb::Overlooks);
}

#[test]
fn dnodes_that_are_lost() {
    let act = |m: &TestPool| {
        m.s.edit_dnode((m.set, m.files[0]), |d| d[..64].fill(0xee));
        let meta = objset(&m.s.open(), m.set).meta_object().unwrap();
        let last = m.files.last().unwrap() / 32;
        m.s.destroy_all(&meta.block_pointer(0, last).unwrap().unwrap());
    };
    in_each(act, &["bad-structure", "block-lost", "dangling-entry"], Zdb::Errs);
}

#[test]
fn a_directory_that_cannot_be_read() {
    let act = |m: &TestPool| {
        let object = objset(&m.s.open(), m.set).object(m.dir).unwrap();
        m.s.destroy_all(&object.block_pointer(0, 0).unwrap().unwrap());
    };
    in_each(act, &["block-lost"], Zdb::Errs);
}

#[test]
fn a_dataset_that_is_lost() {
    let act = |m: &TestPool| {
        let head = heads(&m.s.open()).into_iter().find(|d| d.object == m.set).unwrap();
        m.s.destroy_all(&head.phys.bp);
    };
    in_each(act, &["block-lost"], Zdb::Errs);
}
