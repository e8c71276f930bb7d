//! Names that nothing can have, in tables whose checksums are right: the check names them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::surgeon::{Surgeon, edit_word};
use ondisk::DmuType;
use pool::UnguardedDatasets as _;
use zpl::{FileKind, Filesystem, Node};

/// Type of a plain file in the value of an entry.
const FILE: u8 = 8;
/// Where a name begins in an entry.
const NAME: usize = 14;

/// A directory in a block of its own with two plain files; the object sets and its number.
fn directory(s: &Surgeon) -> (u64, u64) {
    let pool = s.open();
    let dirs = pool.dsl().walk().into_iter().filter_map(|(_, dir)| dir.ok());
    for head in dirs.filter_map(|dir| pool.dsl().head(&dir).ok().flatten()) {
        let Ok(objset) = pool.dsl().objset(&head) else { continue };
        let Ok(fs) = Filesystem::open(objset) else { continue };
        let nodes = fs.objset().objects().filter_map(Result::ok);
        let mut nodes = nodes.filter_map(|object| Node::from_object(&fs, object).ok());
        if let Some(found) = nodes.find(is_wanted) {
            return (head.object, found.number());
        }
    }
    panic!("no such directory");
}

fn is_wanted(node: &Node) -> bool {
    let dnode = node.object().dnode();
    let in_a_block = || dnode.blkptrs.first().is_some_and(|bp| !bp.is_hole() && !bp.is_embedded());
    node.kind() == FileKind::Dir
        && dnode.bonus_kind == DmuType::SA
        && in_a_block()
        && dmu::Zap::open(node.object()).is_ok_and(|table| table.micro().unwrap().is_some())
        && node.entries().unwrap().flatten().filter(|e| e.kind == FILE).count() > 1
}

/// Changes the entries of a directory's plain files.
fn edit(s: &Surgeon, dir: (u64, u64), change: impl FnOnce(&mut [&mut [u8]])) {
    s.edit_block(dir, (0, 0), |block| {
        let chunks = block.chunks_exact_mut(64).skip(1);
        let mut files: Vec<_> = chunks.filter(|c| c[NAME] != 0 && c[7] >> 4 == FILE).collect();
        change(&mut files);
    });
}

fn surgeon() -> Surgeon {
    Surgeon::new(&testkit::corpus("basic"))
}

#[test]
fn a_name_that_is_there_twice() {
    let s = surgeon();
    edit(&s, directory(&s), |files| {
        let name = files[0][NAME..].to_vec();
        files[1][NAME..].copy_from_slice(&name);
    });
    assert_eq!(s.check(), ["bad-entry"]);
    let text = s.report().issues[0].to_string();
    assert!(text.contains("is there twice"), "{text}");
}

#[test]
fn names_that_no_file_can_have() {
    for name in [&b"..\0"[..], b"a/b\0", b".\0"] {
        let s = surgeon();
        edit(&s, directory(&s), |files| files[0][NAME..NAME + name.len()].copy_from_slice(name));
        assert_eq!(s.check(), ["bad-entry"], "{name:?}");
    }
}

#[test]
fn a_file_that_its_directory_takes_for_a_pipe() {
    let s = surgeon();
    edit(&s, directory(&s), |files| {
        edit_word(files[0], 0, |word| (word << 4 >> 4) | (1 << 60));
    });
    assert_eq!(s.check(), ["bad-entry"]);
}

/// A table of names in a block of its own, in the MOS.
fn table(s: &Surgeon, kind: DmuType) -> u64 {
    let objects = s.open().mos().objects().filter_map(Result::ok).collect::<Vec<_>>();
    let is_wanted = |o: &&dmu::Object| {
        let bp = o.dnode().blkptrs.first();
        let in_a_block = bp.is_some_and(|bp| !bp.is_hole() && !bp.is_embedded());
        let table = dmu::Zap::open(o).ok().filter(|t| t.micro().unwrap().is_some());
        o.dnode().kind == kind
            && in_a_block
            && table.is_some_and(|t| !t.to_vec().unwrap().is_empty())
    };
    objects.iter().find(is_wanted).expect("such a table").number()
}

/// The first name of a table in the MOS becomes this.
fn rename_first(s: &Surgeon, kind: DmuType, name: &[u8]) {
    s.edit_block((0, table(s, kind)), (0, 0), |block| {
        let entry = block.chunks_exact_mut(64).skip(1).find(|c| c[NAME] != 0).unwrap();
        entry[NAME..].fill(0);
        entry[NAME..NAME + name.len()].copy_from_slice(name);
    });
}

#[test]
fn names_that_no_property_can_have() {
    for (name, shown) in [
        (&b"a:b\x1b[2J\n"[..], "'a:b\\x1b\\x5b2J\\x0a' is not a valid property name"),
        (b"a:b=c", "'a:b\\x3dc'"),
        (b"a:\xff$recvd", "'a:\\xff'"),
    ] {
        let s = Surgeon::new(&testkit::corpus("history"));
        rename_first(&s, DmuType::DSL_PROPS, name);
        let report = s.report();
        let found = report.issues.iter().find(|i| i.name() == "bad-entry");
        let text = found.expect("bad-entry").to_string();
        assert!(text.contains(shown), "{text}");
    }
}

#[test]
fn names_that_no_dataset_can_have() {
    for kind in [DmuType::DSL_DIR_CHILD_MAP, DmuType::DSL_DS_SNAP_MAP] {
        let s = Surgeon::new(&testkit::corpus("history"));
        rename_first(&s, kind, b"a/b\x07");
        let report = s.report();
        let found = report.issues.iter().find(|i| i.name() == "bad-entry");
        let text = found.expect("bad-entry").to_string();
        assert!(text.contains("'a\\x2fb\\x07' is not a valid dataset name"), "{text}");
    }
}
