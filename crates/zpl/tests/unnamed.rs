//! Files that get their name when they are complete, in steps or at once.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use common::{Set, at, filesystem};
use zpl::write::{SetAttrs, WholeFile};
use zpl::{Error, FileRefusal, Filesystem, FormatOptions, NewFile, NewKind};

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
    assert!(matches!(again, Err(Error::Refused(FileRefusal::Invalid(_)))), "{again:?}");
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

/// Pieces of content with their offsets.
type Pieces = Vec<(u64, Vec<u8>)>;

/// All that shows of a file but its object.
fn shown(fs: &Filesystem, name: &[u8]) -> String {
    let node = fs.by_path(name, false).unwrap();
    let mut content = vec![0; node.size as usize];
    assert_eq!(node.read_at(0, &mut content).unwrap(), content.len());
    let dnode = node.object().dnode();
    let tree = (dnode.block_size(), dnode.max_block, dnode.levels, node.segments().unwrap());
    let times = (node.atime, node.mtime, node.ctime, node.crtime, node.parent);
    let sum = content.iter().fold(0u64, |h, b| h.wrapping_mul(31) + u64::from(*b));
    let owner = (node.mode, node.uid, node.gid, node.links, node.flags);
    format!("{} {sum} {owner:?} {times:?} {tree:?}", node.size)
}

#[test]
fn a_file_made_whole_is_as_one_made_in_steps() {
    let contents: [(u64, Pieces); 6] = [
        (0, vec![]),
        (100, vec![(0, vec![1; 100])]),
        (5000, vec![(0, vec![1; 700]), (1000, vec![2; 3000])]),
        (100_000, vec![]),
        (300_000, vec![(150_000, vec![3; 1000])]),
        (400_000, vec![(0, (0..400_000u32).map(|n| (n / 7) as u8).collect())]),
    ];
    for (size, pieces) in &contents {
        let (set, fs) = filesystem(&FormatOptions::new(at(0)));
        let root = fs.root_object();
        fs.set_attrs(
            root,
            &SetAttrs { mode: Some(0o2755), gid: Some(9), ..Default::default() },
            at(1),
        )
        .unwrap();
        let new = NewFile { uid: 3, gid: 4, ..NewFile::new(NewKind::File, 0o640, at(2)) };
        let given = SetAttrs {
            uid: Some(3),
            gid: Some(4),
            atime: Some(at(5)),
            mtime: Some(at(6)),
            ..SetAttrs::default()
        };
        let file = fs.create_unnamed(root, &new).unwrap();
        for (offset, bytes) in pieces {
            fs.write_at(file.object(), *offset, bytes, at(2)).unwrap();
        }
        fs.truncate(file.object(), *size, at(2)).unwrap();
        fs.give_name(file.object(), (root, b"steps"), None, &given, at(7)).unwrap();
        file.close().unwrap();
        {
            let tx = fs.begin(dmu::Hold::write(1 << 20)).unwrap();
            let whole = WholeFile { new: &new, set: &given, size: *size, pieces };
            fs.create_whole_tx(&tx, (root, b"whole"), &whole, at(7)).unwrap();
        }
        assert_eq!(shown(&fs, b"whole"), shown(&fs, b"steps"), "{size} before the sync");
        set.commit();
        assert_eq!(shown(&fs, b"whole"), shown(&fs, b"steps"), "{size}");
        assert_eq!(fs.root().unwrap().size, 4);
    }
}

#[test]
fn what_cannot_be_made_whole_is_refused() {
    let (set, fs) = filesystem(&FormatOptions::new(at(0)));
    let root = fs.root_object();
    let set_nothing = SetAttrs::default();
    let refused = |name: &[u8], kind, size, pieces: &[(u64, Vec<u8>)]| {
        let new = NewFile::new(kind, 0o644, at(1));
        let tx = fs.begin(dmu::Hold::write(1 << 20)).unwrap();
        let whole = WholeFile { new: &new, set: &set_nothing, size, pieces };
        fs.create_whole_tx(&tx, (root, name), &whole, at(1)).err()
    };
    assert!(refused(b"a", NewKind::File, 3, &[(0, vec![1; 3])]).is_none());
    let again = refused(b"a", NewKind::File, 3, &[(0, vec![1; 3])]);
    assert!(matches!(again, Some(Error::Exists(_))), "{again:?}");
    let behind = refused(b"b", NewKind::File, 3, &[(1, vec![1; 3])]);
    assert!(matches!(behind, Some(Error::Refused(FileRefusal::Invalid(_)))), "{behind:?}");
    for kind in [NewKind::Dir, NewKind::Fifo] {
        let other = refused(b"b", kind, 3, &[(0, vec![1; 3])]);
        assert!(matches!(other, Some(Error::Refused(FileRefusal::Invalid(_)))), "{other:?}");
    }
    let long = refused(b"b", NewKind::File, u64::MAX, &[]);
    assert!(matches!(long, Some(Error::Refused(FileRefusal::TooLarge(_)))), "{long:?}");
    set.commit();
    assert_eq!(names(&fs), [b"a".to_vec()]);
}
