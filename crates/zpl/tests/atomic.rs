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
use zpl::write::{
    FsSettings, NewFile, NewKind, RenameMode, SetAttrs, WholeFile, XattrMode, XattrStore,
};
use zpl::{FileKind, Filesystem, FormatOptions};

type Act = fn(&Filesystem) -> zpl::Result<()>;

/// The numbers of all objects, and what every name leads to, with its attributes.
fn state(set: &Set, fs: &Filesystem) -> String {
    let mut out = String::new();
    let objects: Vec<u64> = set.objset.objects().map(|o| o.unwrap().number()).collect();
    writeln!(out, "{objects:?}").unwrap();
    let mut todo = vec![(String::new(), fs.root().unwrap())];
    while let Some((path, node)) = todo.pop() {
        writeln!(out, "{path} {} {} {}", node.number(), node.size, node.links).unwrap();
        let node = fs.node(node.number()).unwrap();
        let times = (node.mtime, node.ctime, node.parent);
        writeln!(out, "  {:o} {} {} {times:?}", node.mode, node.uid, node.flags).unwrap();
        writeln!(out, "  {:?}", node.xattrs().unwrap()).unwrap();
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
    let other = fs.create(root, b"other", &new(NewKind::File)).unwrap().number();
    fs.link(other, root, b"another", at(2)).unwrap();
    let full = fs.create(root, b"full", &new(NewKind::Dir)).unwrap().number();
    let rich = fs.create(full, b"rich", &new(NewKind::File)).unwrap().number();
    fs.set_xattr(rich, b"user.list", &[1; 100], XattrMode::Any, at(2)).unwrap();
    store_xattrs(&fs, XattrStore::Dir);
    for name in [b"user.a", b"user.b"] {
        fs.set_xattr(rich, name, &[2; 3000], XattrMode::Any, at(2)).unwrap();
    }
    store_xattrs(&fs, XattrStore::Sa);
    set.commit();
    (set, fs)
}

/// Where extended attributes go from now on.
fn store_xattrs(fs: &Filesystem, xattr: XattrStore) {
    fs.configure(FsSettings { xattr, ..FsSettings::default() }).unwrap();
}

fn begin(fs: &Filesystem) -> zpl::Result<dmu::Tx> {
    fs.begin(dmu::Hold::write(1 << 20))
}

/// The file with extended attributes: one in its list, two in its directory.
fn rich(fs: &Filesystem) -> zpl::Result<u64> {
    let full = fs.node(number(fs, b"full")?)?;
    Ok(full.lookup(b"rich")?.map_or(0, |e| e.object))
}

fn set_xattr(fs: &Filesystem, file: u64, name: &[u8], to: XattrStore) -> zpl::Result<()> {
    store_xattrs(fs, to);
    let done = fs.set_xattr_tx(&begin(fs)?, file, name, &[5; 2000], XattrMode::Any, at(3));
    store_xattrs(fs, XattrStore::Sa);
    done
}

fn remove_xattr(fs: &Filesystem, name: &[u8]) -> zpl::Result<()> {
    fs.remove_xattr_tx(&begin(fs)?, rich(fs)?, name, at(3))
}

fn rename(fs: &Filesystem, from: &[u8], to: &[u8], how: RenameMode) -> zpl::Result<()> {
    let root = fs.root_object();
    fs.rename_tx(&begin(fs)?, (root, from), (root, to), how, at(3))
}

fn number(fs: &Filesystem, name: &[u8]) -> zpl::Result<u64> {
    Ok(fs.root()?.lookup(name)?.map_or(0, |e| e.object))
}

fn make(fs: &Filesystem, kind: NewKind) -> zpl::Result<()> {
    let new = NewFile::new(kind, 0o755, at(3));
    let tx = fs.begin(dmu::Hold::write(1 << 20))?;
    fs.create_tx(&tx, fs.root_object(), b"new", &new).map(drop)
}

fn make_whole(fs: &Filesystem) -> zpl::Result<()> {
    let new = NewFile::new(NewKind::File, 0o755, at(3));
    let set = SetAttrs { uid: Some(5), mtime: Some(at(2)), ..SetAttrs::default() };
    let pieces = [(0, vec![1; 5000]), (200_000, vec![2; 5000])];
    let whole = WholeFile { new: &new, set: &set, size: 300_000, pieces: &pieces };
    fs.create_whole_tx(&begin(fs)?, (fs.root_object(), b"new"), &whole, at(3)).map(drop)
}

/// Changes of names, one of each kind.
const ACTS: [(&str, Act); 22] = [
    ("make a file", |fs| make(fs, NewKind::File)),
    ("make a whole file", make_whole),
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
    ("rename over a file", |fs| rename(fs, b"file", b"other", RenameMode::Replace)),
    ("rename over the last name", |fs| {
        let (root, full) = (fs.root_object(), number(fs, b"full")?);
        let tx = begin(fs)?;
        fs.rename_tx(&tx, (root, b"file"), (full, b"rich"), RenameMode::Replace, at(3))
    }),
    ("exchange", |fs| rename(fs, b"file", b"dir", RenameMode::Exchange)),
    ("exchange between directories", |fs| {
        let (root, full) = (fs.root_object(), number(fs, b"full")?);
        let tx = begin(fs)?;
        fs.rename_tx(&tx, (root, b"dir"), (full, b"rich"), RenameMode::Exchange, at(3))
    }),
    ("take the last name", |fs| fs.unlink_tx(&begin(fs)?, fs.root_object(), b"file", at(3))),
    ("take one name", |fs| fs.unlink_tx(&begin(fs)?, fs.root_object(), b"other", at(3))),
    ("take the name of what has attributes", |fs| {
        let full = number(fs, b"full")?;
        fs.unlink_tx(&begin(fs)?, full, b"rich", at(3))
    }),
    ("remove a directory", |fs| fs.rmdir_tx(&begin(fs)?, fs.root_object(), b"dir", at(3))),
    ("give away", |fs| {
        let set = SetAttrs { uid: Some(7), mode: Some(0o600), ..SetAttrs::default() };
        fs.set_attrs_tx(&begin(fs)?, rich(fs)?, &set, at(3))
    }),
    ("set the first attribute in a directory", |fs| {
        set_xattr(fs, number(fs, b"file")?, b"user.new", XattrStore::Dir)
    }),
    ("set the first attribute in a list", |fs| {
        set_xattr(fs, number(fs, b"file")?, b"user.new", XattrStore::Sa)
    }),
    ("set another value in a directory", |fs| set_xattr(fs, rich(fs)?, b"user.a", XattrStore::Dir)),
    ("move an attribute to the directory", |fs| {
        set_xattr(fs, rich(fs)?, b"user.list", XattrStore::Dir)
    }),
    ("move an attribute to the list", |fs| set_xattr(fs, rich(fs)?, b"user.a", XattrStore::Sa)),
    ("remove an attribute", |fs| remove_xattr(fs, b"user.a")),
];

#[test]
fn a_change_of_names_that_fails_leaves_nothing() {
    for (name, act) in ACTS {
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
            let context = format!("{name}, access {nth}");
            if done.is_err() {
                refused += 1;
                assert_eq!(state(&set, &fs), before, "{context}: refused");
                act(&fs).unwrap_or_else(|e| panic!("{context}: again: {e}"));
            }
            assert_ne!(state(&set, &fs), before, "{context}");
            // What was taken back in the same txg is not written either.
            let after = state(&set, &fs);
            set.commit();
            assert_eq!(state(&set, &fs), after, "{context}: synced");
            if !faults.has_fired() {
                break;
            }
        }
        assert!(refused > 5, "{name}: {refused} accesses that failed");
    }
}

/// What cannot even be taken back stops the pool, so that it is never durable.
#[test]
fn a_change_that_cannot_be_taken_back_stops_the_pool() {
    for (name, act) in ACTS {
        let mut stops = 0;
        // The last accesses of a change are those behind which there is the most to take back.
        let all = accesses(act);
        for nth in (all.saturating_sub(6)..=all).chain([all / 2]) {
            for then in 1.. {
                let (set, fs) = furnished();
                let before = state(&set, &fs);
                let faults = Arc::new(Faults::default());
                set.objset.inject(&faults);
                faults.arm_twice(nth, then);
                let done = act(&fs);
                faults.disarm();
                let context = format!("{name}, accesses {nth} and {then} more");
                match (done, set.stopped()) {
                    (Err(e), Some(why)) => {
                        stops += 1;
                        assert!(why.contains("cannot be taken back"), "{context}: {why}");
                        assert!(e.to_string().contains(&why), "{context}: {e}");
                    }
                    (Err(_), None) => assert!(state(&set, &fs) == before, "{context}"),
                    (Ok(()), stopped) => assert_eq!(stopped, None, "{context}"),
                }
                if !faults.has_fired() {
                    break;
                }
            }
        }
        assert!(stops > 0, "{name}");
    }
}

/// How often a change asks for an object.
fn accesses(act: Act) -> u64 {
    let (set, fs) = furnished();
    let faults = Arc::new(Faults::default());
    set.objset.inject(&faults);
    faults.arm(0);
    act(&fs).unwrap();
    faults.disarm();
    faults.seen()
}

/// A file that lost its last name is freed with its extended attributes, however often that fails
/// in between: what is left goes with the next opening.
#[test]
fn what_waits_to_be_freed_goes_in_the_end() {
    let unlinked = |set: &Set, fs: &Filesystem| {
        let full = number(fs, b"full").unwrap();
        fs.unlink_tx(&begin(fs).unwrap(), full, b"rich", at(3)).unwrap();
        set.commit();
    };
    let whole = {
        let (set, fs) = furnished();
        unlinked(&set, &fs);
        fs.free_left();
        set.commit();
        state(&set, &fs)
    };
    for nth in 1.. {
        let (set, fs) = furnished();
        unlinked(&set, &fs);
        let faults = Arc::new(Faults::default());
        set.objset.inject(&faults);
        faults.arm(nth);
        fs.free_left();
        faults.disarm();
        set.commit();
        fs.drain_unlinked().unwrap();
        set.commit();
        assert_eq!(state(&set, &fs), whole, "access {nth}");
        if !faults.has_fired() {
            break;
        }
    }
}
