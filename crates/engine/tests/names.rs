//! Lookup of names by the rules of their file systems, old forms of files, and access lists, on
//! pools of OpenZFS.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::zpl::{CaseSensitivity, FileKind, SpaceKind};
use engine::{Filesystem, Pool};
use poolkit::open;
use testkit::CorpusPool;

fn filesystem(pool: &Pool, name: &str) -> Filesystem {
    let dataset = pool.dsl().by_name(name).unwrap();
    Filesystem::open(pool.dsl().objset(&dataset).unwrap()).unwrap()
}

/// Calls `each` with every path of every file system, and its inode.
fn every_path(case: &CorpusPool, mut each: impl FnMut(&Filesystem, &str, u64)) {
    let pool = open(case);
    for d in case.manifest["datasets"].as_array().unwrap() {
        let Some(entries) = d["entries"].as_array() else { continue };
        let fs = filesystem(&pool, d["name"].as_str().unwrap());
        for e in entries {
            if let Some(path) = e["path"].as_str() {
                each(&fs, path, e["ino"].as_u64().unwrap());
            }
        }
    }
}

#[test]
fn names_are_found_by_case_and_normal_form() {
    let case = testkit::corpus("casefold");
    let (mut folded, mut composed, mut exact) = (0, 0, 0);
    every_path(&case, |fs, path, inode| {
        let find = |p: &str| fs.by_path(p.as_bytes(), false).ok().map(|n| n.number());
        assert_eq!(find(path), Some(inode), "{path}");
        let upper = path.to_ascii_uppercase();
        let insensitive = fs.case_sensitivity() == CaseSensitivity::Insensitive;
        if upper != path && insensitive {
            assert_eq!(find(&upper), Some(inode), "{upper}");
            folded += 1;
        } else if upper != path {
            assert_ne!(find(&upper), Some(inode), "{upper} in a file system that minds case");
            exact += 1;
        }
        let decomposed = path.replace('\u{e9}', "e\u{301}");
        if decomposed != path {
            let found = find(&decomposed);
            if fs.normalization() == 0 {
                assert_ne!(found, Some(inode), "{path} without normal forms");
            } else {
                assert_eq!(found, Some(inode), "{path} decomposed");
                composed += 1;
            }
        }
    });
    assert!(folded > 200 && composed > 100 && exact > 500, "{folded} {composed} {exact}");
}

#[test]
fn files_of_all_versions_have_their_access_lists() {
    let case = testkit::corpus("version28");
    let (mut old, mut new) = (0, 0);
    every_path(&case, |fs, path, inode| {
        let node = fs.by_path(path.as_bytes(), false).unwrap();
        assert_eq!(node.number(), inode, "{path}");
        assert_eq!(node.is_old_form(), fs.version() < 5, "{path}");
        *(if node.is_old_form() { &mut old } else { &mut new }) += 1;
        let acl = node.acl().unwrap();
        assert!(!acl.entries.is_empty(), "{path}");
        // A trivial list says what the mode says: what the owner may read, the list allows.
        if acl.trivial && node.kind() == FileKind::File && node.permissions() & 0o400 != 0 {
            let texts: Vec<_> = acl.entries.iter().map(|a| fs.ace_text(a)).collect();
            let reads = texts
                .iter()
                .any(|t| t.who == "owner@" && t.kind == "allow" && t.permissions.starts_with('r'));
            assert!(reads, "{path}: {texts:?}");
        }
    });
    assert!(old > 100 && new > 100, "{old} {new}");
}

/// What is counted from the objects is what the accounting tables say.
#[test]
fn space_by_user_adds_up() {
    let pool = open(&testkit::fixture("removed"));
    let fs = filesystem(&pool, "shrunk/one");
    let rows = fs.space(SpaceKind::User).unwrap();
    let counted: u64 = fs
        .objset()
        .objects()
        .map(Result::unwrap)
        .filter(|o| engine::Node::from_object(&fs, o.clone()).is_ok())
        .map(|o| o.dnode().used_bytes() + 512)
        .sum();
    assert_eq!(rows.iter().filter_map(|r| r.used).sum::<u64>(), counted);
    assert!(fs.unlinked().unwrap().is_empty());
}
