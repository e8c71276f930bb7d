//! Directories read page by page while they are changed.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use common::{at, filesystem};
use std::collections::HashMap;
use zpl::{DirCursor, Filesystem, FormatOptions, NewFile, NewKind};

const PAGE: usize = 100;

fn make(fs: &Filesystem, dir: u64, name: &str) -> u64 {
    let file = NewFile::new(NewKind::File, 0o644, at(2));
    fs.create(dir, name.as_bytes(), &file).unwrap().number()
}

#[test]
fn what_stays_is_met_once_while_others_come_and_go() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let dir = fs.create(root, b"dir", &NewFile::new(NewKind::Dir, 0o755, at(2))).unwrap().number();
    for n in 0..1500 {
        make(&fs, dir, &format!("stays {n}"));
    }
    let node = fs.node(dir).unwrap();
    let (mut met, mut next, mut pages) = (HashMap::new(), Some(DirCursor::default()), 0);
    while let Some(from) = next {
        let page = node.read_dir(from, PAGE).unwrap();
        assert!(page.entries.len() <= PAGE);
        for entry in page.entries {
            *met.entry(entry.unwrap().name).or_insert(0) += 1;
        }
        next = page.next;
        // The table becomes a fat one under way, and is written in between.
        if pages < 20 {
            for n in 0..60 {
                make(&fs, dir, &format!("new {pages} {n}"));
            }
            for n in 0..30 {
                fs.unlink(dir, format!("new {pages} {n}").as_bytes(), at(3)).unwrap();
            }
        }
        if pages % 5 == 0 {
            set.commit();
        }
        pages += 1;
    }
    assert!(pages >= 15 && met.values().all(|times| *times == 1));
    assert!((0..1500).all(|n| met.contains_key(format!("stays {n}").as_bytes())));
}

#[test]
fn a_directory_can_be_emptied_while_it_is_read() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    for n in 0..5000 {
        make(&fs, root, &format!("file {n}"));
    }
    set.commit();
    let mut removed = 0;
    for entry in fs.root().unwrap().entries().unwrap() {
        fs.unlink(root, &entry.unwrap().name, at(3)).unwrap();
        removed += 1;
    }
    assert_eq!(removed, 5000);
    assert_eq!(fs.root().unwrap().entries().unwrap().count(), 0);
    let nothing = fs.root().unwrap().read_dir(DirCursor::default(), PAGE).unwrap();
    assert!(nothing.entries.is_empty() && nothing.next.is_none());
}
