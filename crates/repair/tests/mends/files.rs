//! Files and directories.

use super::kit::*;

#[test]
fn a_wrong_number_of_links() {
    let s = surgeon("basic");
    s.edit_bonus(plain_file(&s), SA_LINKS, |_| 7);
    mends(&s, &["link-count"], Zdb::Overlooks);
}

#[test]
fn a_wrong_size_of_a_directory() {
    let s = surgeon("basic");
    s.edit_bonus(a_directory(&s), SA_SIZE, |n| n + 3);
    mends(&s, &["directory-size"], Zdb::Overlooks);
}

#[test]
fn wrong_parents() {
    let s = surgeon("basic");
    s.edit_bonus(a_directory(&s), SA_PARENT, |n| n + 1);
    let file = plain_file(&s);
    s.edit_bonus(file, SA_PARENT, |_| file.1);
    let attribute = find(&s, |n| {
        n.kind() == FileKind::File
            && n.flags & ondisk::znode::flags::XATTR != 0
            && n.object().dnode().bonus_kind == DmuType::SA
    });
    s.edit_bonus(attribute, SA_PARENT, |n| n + 1);
    mends(&s, &["wrong-parent"], Zdb::Overlooks);
}

#[test]
fn a_file_that_counts_for_another_owner() {
    let s = surgeon("basic");
    s.edit_bonus(plain_file(&s), SA_UID, |n| n + 7);
    mends(&s, &["owner-space"], Zdb::Overlooks);
}

/// A directory that is one block and has plain files.
fn a_small_directory(s: &Surgeon) -> (u64, u64) {
    find(s, |n| {
        let bp = &n.object().dnode().blkptrs[0];
        n.kind() == FileKind::Dir
            && !bp.is_hole()
            && !bp.is_embedded()
            && dmu::Zap::open(n.object()).is_ok_and(|z| z.micro().unwrap().is_some())
            && n.entries().unwrap().flatten().any(|e| e.kind == 8)
    })
}

/// Points the first name of a plain file in a directory that is one block to another object.
pub(crate) fn rename_entry(s: &Surgeon, dir: (u64, u64), object: u64) {
    s.edit_block(dir, (0, 0), |b| {
        let mut chunks = b.chunks_exact_mut(64).skip(1);
        let chunk = chunks.find(|c| c[14] != 0 && c[7] >> 4 == 8).expect("a plain file");
        edit_word(chunk, 0, |w| (w >> 48 << 48) | object);
    });
}

#[test]
fn a_name_of_nothing_and_a_file_without_a_name() {
    let s = surgeon("basic");
    rename_entry(&s, a_small_directory(&s), 0xff_ffff);
    mends(&s, &["dangling-entry", "orphan"], Zdb::Overlooks);
}

/// All names of a file system with what they lead to, as far as that can be read.
pub(crate) fn names(s: &Surgeon, set: u64) -> std::collections::BTreeMap<Vec<u8>, u64> {
    let pool = s.open();
    let fs = Filesystem::open(objset(&pool, set)).unwrap();
    let mut out = std::collections::BTreeMap::new();
    let mut todo = vec![(Vec::new(), fs.root_object())];
    while let Some((path, dir)) = todo.pop() {
        for entry in fs.node(dir).unwrap().entries().unwrap().flatten() {
            let path = [path.as_slice(), b"/", entry.name.as_slice()].concat();
            if entry.kind == 4 {
                todo.push((path.clone(), entry.object));
            }
            out.insert(path, entry.object);
        }
    }
    out
}

#[test]
fn a_dnode_that_cannot_be_decoded() {
    let s = surgeon("basic");
    let (set, file) = plain_file(&s);
    let before = names(&s, set);
    s.edit_dnode((set, file), |d| d[..64].fill(0xee));
    mends(&s, &["bad-structure", "dangling-entry"], Zdb::Errs);
    let mut expected = before;
    expected.retain(|_, object| *object != file);
    assert_eq!(names(&s, set), expected);
}

#[test]
fn a_block_of_dnodes_that_is_lost() {
    let s = surgeon("basic");
    // Not the first block, in which the file system itself has its tables.
    let (set, file) = find(&s, |n| is_plain(n) && n.kind() == FileKind::File && n.number() > 200);
    let before = names(&s, set);
    let block = file / 32;
    let meta = objset(&s.open(), set).meta_object().unwrap();
    let bp = meta.block_pointer(0, block).unwrap().unwrap();
    s.destroy_all(&bp);
    mends(&s, &["block-lost", "dangling-entry"], Zdb::Errs);
    // What was in directories of that block is in lost+found.
    let after = names(&s, set);
    let whole = before.values().filter(|object| **object / 32 != block);
    let found: std::collections::BTreeSet<u64> = after.values().copied().collect();
    assert!(whole.clone().count() > 0 && whole.clone().all(|object| found.contains(object)));
}

/// A directory below the root that `choose` takes, the table of which has blocks of its own.
fn a_table(s: &Surgeon, choose: impl Fn(&[zpl::DirEntry]) -> bool) -> (u64, u64) {
    find(s, |n| {
        let bp = &n.object().dnode().blkptrs[0];
        is_plain(n)
            && n.kind() == FileKind::Dir
            && n.parent != n.number()
            && !bp.is_hole()
            && !bp.is_embedded()
            && choose(&n.entries().unwrap().flatten().collect::<Vec<_>>())
    })
}

#[test]
fn a_directory_that_cannot_be_read() {
    let s = surgeon("basic");
    let has = |all: &[zpl::DirEntry], kind| all.iter().any(|e| e.kind == kind);
    let (set, dir) = a_table(&s, |all| has(all, 4) || has(all, 8));
    let object = objset(&s.open(), set).object(dir).unwrap();
    s.destroy_all(&object.block_pointer(0, 0).unwrap().unwrap());
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    let is_table = |step: &Step| matches!(step, Step::Table { kept: 0, .. });
    assert!(steps.iter().any(is_table), "{steps:?}");
}

#[test]
fn a_directory_of_which_a_part_cannot_be_read() {
    let s = surgeon("basic");
    let (set, dir) = a_table(&s, |all| all.len() > 1000);
    let before = names(&s, set);
    let object = objset(&s.open(), set).object(dir).unwrap();
    let (leaf, _) = dmu::Zap::open(&object).unwrap().leaves().nth(1).unwrap();
    s.destroy_all(&object.block_pointer(0, leaf).unwrap().unwrap());
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    let is_table = |step: &Step| matches!(step, Step::Table { kept: 100.., .. });
    assert!(steps.iter().any(is_table), "{steps:?}");
    // Most names are as they were, and what lost its name has another.
    let after = names(&s, set);
    let same = before.iter().filter(|(name, object)| after.get(*name) == Some(object)).count();
    assert!(same > 1000 && same < before.len(), "{same} of {}", before.len());
    let objects = |names: &std::collections::BTreeMap<_, u64>| {
        names.values().copied().collect::<std::collections::BTreeSet<u64>>()
    };
    assert!(objects(&after).is_superset(&objects(&before)));
}

#[test]
fn a_directory_that_is_no_table() {
    let s = surgeon("basic");
    let (set, dir) = a_table(&s, |all| all.len() > 2);
    s.edit_block((set, dir), (0, 0), |b| b[..8].fill(0xee));
    mends(&s, &["bad-structure"], Zdb::Overlooks);
}

#[test]
fn a_delete_queue_that_cannot_be_read() {
    let s = surgeon("basic");
    let name = s.open().name().to_owned();
    let live = live(&s);
    let fs = live.filesystem(&name).unwrap();
    let new = zpl::NewFile::new(zpl::NewKind::File, 0o600, zpl::Time::default());
    let unnamed: Vec<_> =
        (0..40).map(|_| fs.create_unnamed(fs.root_object(), &new).unwrap()).collect();
    live.sync().unwrap();
    // The power fails.
    let left = images(&s);
    drop((unnamed, fs));
    live.close().unwrap();
    put_images(&s, &left);
    let pool = s.open();
    let head = heads(&pool).into_iter().find(|d| d.name == name).unwrap();
    let set = objset(&pool, head.object);
    assert_eq!(Filesystem::open(set.clone()).unwrap().unlinked().unwrap().len(), 40);
    let is_queue = |o: &dmu::Object| o.dnode().kind == DmuType::UNLINKED_SET;
    let queue = set.objects().filter_map(Result::ok).find(is_queue).unwrap();
    s.destroy_all(&queue.block_pointer(0, 0).unwrap().unwrap());
    mends(&s, &["block-lost"], Zdb::Errs);
    let found = names(&s, head.object).into_keys().filter(|n| n.starts_with(b"/lost+found/"));
    assert_eq!(found.count(), 40);
}
