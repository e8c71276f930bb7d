//! Files that get their name when they are complete.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use common::{Set, at, filesystem};
use zpl::write::SetAttrs;
use zpl::{Error, Filesystem, FormatOptions, NewFile, NewKind};

fn started(set: &Set, fs: &Filesystem) -> zpl::write::OpenFile {
    let new = NewFile::new(NewKind::File, 0o644, at(1));
    let file = fs.create_unnamed(fs.root_object(), &new).unwrap();
    fs.write_at(file.object(), 0, &[7; 200_000], at(2)).unwrap();
    set.commit();
    file
}

fn names(fs: &Filesystem) -> Vec<Vec<u8>> {
    fs.root().unwrap().sorted_entries().unwrap().into_iter().map(|e| e.name).collect()
}

#[test]
fn a_name_comes_with_the_last_change() {
    let (set, fs) = filesystem(&FormatOptions::new(at(0)));
    let file = started(&set, &fs);
    assert!(names(&fs).is_empty());
    assert_eq!(fs.unlinked().unwrap(), [file.object()]);
    let place = (fs.root_object(), &b"a"[..]);
    let times = SetAttrs { mtime: Some(at(9)), ..SetAttrs::default() };
    fs.give_name(file.object(), place, None, &times, at(3)).unwrap();
    assert!(fs.unlinked().unwrap().is_empty());
    let object = file.object();
    file.close().unwrap();
    set.commit();
    let node = fs.by_path(b"a", false).unwrap();
    assert_eq!((node.number(), node.links, node.size, node.mtime), (object, 1, 200_000, at(9)));
    let again = fs.give_name(object, (fs.root_object(), b"b"), None, &times, at(4));
    assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    assert_eq!(fs.root().unwrap().size, 3);
}

#[test]
fn without_a_name_it_goes() {
    let (set, fs) = filesystem(&FormatOptions::new(at(0)));
    set.commit();
    let empty = set.memory.count();
    drop(started(&set, &fs));
    assert!(fs.unlinked().unwrap().is_empty());
    set.commit();
    assert_eq!(set.memory.count(), empty);
}

#[test]
fn a_stop_in_the_middle_leaves_no_name_and_no_file() {
    let (set, fs) = filesystem(&FormatOptions::new(at(0)));
    set.commit();
    let empty = set.memory.count();
    // As a process that is killed: nothing is dropped in order.
    std::mem::forget(started(&set, &fs));
    drop(fs);
    let set = set.reopen();
    let fs = Filesystem::open(set.objset.clone()).unwrap();
    set.owners.attach(&fs);
    assert!(names(&fs).is_empty());
    assert_eq!(fs.drain_unlinked().unwrap(), 1);
    set.commit();
    assert_eq!(set.memory.count(), empty);
}

#[test]
fn what_has_the_name_stays_or_is_replaced_at_once() {
    let (set, fs) = filesystem(&FormatOptions::new(at(0)));
    let new = NewFile::new(NewKind::File, 0o644, at(1));
    let root = fs.root_object();
    let old = fs.create(root, b"a", &new).unwrap().number();
    let dir = fs.create(root, b"d", &NewFile::new(NewKind::Dir, 0o755, at(1))).unwrap().number();
    let file = started(&set, &fs);
    let none = SetAttrs::default();
    let refused = fs.give_name(file.object(), (root, b"a"), None, &none, at(2));
    assert!(matches!(refused, Err(Error::Exists(_))), "{refused:?}");
    let refused = fs.give_name(file.object(), (root, b"d"), Some(dir), &none, at(2));
    assert!(matches!(refused, Err(Error::IsDirectory(_))), "{refused:?}");
    fs.give_name(file.object(), (root, b"a"), Some(old), &none, at(2)).unwrap();
    assert_eq!(names(&fs), [b"a".to_vec(), b"d".to_vec()]);
    assert_eq!(fs.by_path(b"a", false).unwrap().number(), file.object());
    assert!(fs.node(old).is_err());
    assert_eq!(fs.root().unwrap().size, 4);
}
