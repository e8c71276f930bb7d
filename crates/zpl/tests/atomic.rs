//! A change of names that fails leaves nothing half made in its txg.
//!
//! As with sync tasks (`crates/engine/tests/atomic.rs`): every access of the change fails once, and
//! what is there afterwards is what was there before, or what the change makes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{Set, at, filesystem};
use dmu::Faults;
use std::fmt::Write as _;
use std::sync::Arc;
use zpl::write::{NewFile, NewKind, RenameMode};
use zpl::{FileKind, Filesystem, FormatOptions};

type Act = fn(&Filesystem) -> zpl::Result<()>;

/// The numbers of all objects, and what every name leads to.
fn state(set: &Set, fs: &Filesystem) -> String {
    let mut out = String::new();
    let objects: Vec<u64> = set.objset.objects().map(|o| o.unwrap().number()).collect();
    writeln!(out, "{objects:?}").unwrap();
    let mut todo = vec![(String::new(), fs.root().unwrap())];
    while let Some((path, node)) = todo.pop() {
        writeln!(out, "{path} {} {} {}", node.number(), node.size, node.links).unwrap();
        if node.kind() == FileKind::Dir {
            for entry in node.sorted_entries().unwrap() {
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                todo.push((format!("{path}/{name}"), fs.node(entry.object).unwrap()));
            }
        }
    }
    out
}

fn furnished() -> (Set, Filesystem) {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let new = |kind| NewFile::new(kind, 0o755, at(2));
    fs.create(root, b"dir", &new(NewKind::Dir)).unwrap();
    fs.create(root, b"file", &new(NewKind::File)).unwrap();
    set.commit();
    (set, fs)
}

fn number(fs: &Filesystem, name: &[u8]) -> zpl::Result<u64> {
    Ok(fs.root()?.lookup(name)?.map_or(0, |e| e.object))
}

fn make(fs: &Filesystem, kind: NewKind) -> zpl::Result<()> {
    let new = NewFile::new(kind, 0o755, at(3));
    let tx = fs.begin(dmu::Hold::write(1 << 20))?;
    fs.create_tx(&tx, fs.root_object(), b"new", &new).map(drop)
}

#[test]
fn a_change_of_names_that_fails_leaves_nothing() {
    let acts: [(&str, Act); 6] = [
        ("make a file", |fs| make(fs, NewKind::File)),
        ("make a directory", |fs| make(fs, NewKind::Dir)),
        ("make a link", |fs| make(fs, NewKind::Symlink(b"to".to_vec()))),
        ("give another name", |fs| {
            let (file, dir) = (number(fs, b"file")?, number(fs, b"dir")?);
            let tx = fs.begin(dmu::Hold::write(1 << 20))?;
            fs.link_tx(&tx, file, dir, b"new", at(3))
        }),
        ("rename", |fs| {
            let (root, dir) = (fs.root_object(), number(fs, b"dir")?);
            let tx = fs.begin(dmu::Hold::write(1 << 20))?;
            fs.rename_tx(&tx, (root, b"file"), (dir, b"new"), RenameMode::NoReplace, at(3))
        }),
        ("rename in its directory", |fs| {
            let root = fs.root_object();
            let tx = fs.begin(dmu::Hold::write(1 << 20))?;
            fs.rename_tx(&tx, (root, b"file"), (root, b"new"), RenameMode::Replace, at(3))
        }),
    ];
    for (name, act) in acts {
        let (mut refused, mut nth) = (0, 0);
        loop {
            nth += 1;
            let (set, fs) = furnished();
            let before = state(&set, &fs);
            let faults = Arc::new(Faults::default());
            set.objset.inject(&faults);
            faults.arm(nth);
            let done = act(&fs);
            faults.disarm();
            let said = format!("{name}, access {nth}");
            if done.is_err() {
                refused += 1;
                assert_eq!(state(&set, &fs), before, "{said}: refused");
                act(&fs).unwrap_or_else(|e| panic!("{said}: again: {e}"));
            }
            assert_ne!(state(&set, &fs), before, "{said}");
            // What was taken back in the same txg is not written either.
            let after = state(&set, &fs);
            set.commit();
            assert_eq!(state(&set, &fs), after, "{said}: synced");
            if !faults.came() {
                break;
            }
        }
        assert!(refused > 5, "{name}: {refused} accesses that failed");
    }
}
