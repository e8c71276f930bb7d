//! New file systems and volumes, as they come out on disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by it")]

mod common;

use common::{Set, at, filesystem};
use dmu::{Hold, Zap};
use ondisk::objset::ObjsetKind;
use ondisk::sa::zpl as attribute;
use ondisk::znode::flags;
use zpl::{CaseSensitivity, FileKind, Filesystem, FormatOptions, NewFile, NewKind, SpaceKind};
use zpl::{RenameMode, Volume, write::XattrMode};

#[test]
fn a_new_file_system_is_as_openzfs_leaves_one() {
    let (set, _) = filesystem(&FormatOptions::new(at(1_700_000_000)));
    set.commit();
    let fs = Filesystem::open(set.view()).unwrap();
    let master = fs.master().unwrap().to_vec().unwrap();
    let mut names: Vec<&[u8]> = master.iter().filter_map(|e| e.name.bytes()).collect();
    names.sort_unstable();
    let wanted = ["DELETE_QUEUE", "ROOT", "SA_ATTRS", "VERSION", "casesensitivity"];
    let wanted: Vec<&[u8]> =
        wanted.into_iter().chain(["normalization", "utf8only"]).map(str::as_bytes).collect();
    assert_eq!(names, wanted);
    assert_eq!((fs.version(), fs.unlinked().unwrap().len()), (5, 0));
    let root = fs.root().unwrap();
    assert_eq!(
        (root.kind(), root.permissions(), root.links, root.size),
        (FileKind::Dir, 0o755, 2, 2)
    );
    assert_eq!((root.parent, root.generation), (root.number(), 4));
    assert_eq!(root.crtime, at(1_700_000_000));
    // What zdb shows of the root directory of a dataset that OpenZFS made.
    assert_eq!(root.flags, 0x8408_0000_0144);
    assert_eq!(root.object().dnode().bonus.len(), 176);
    assert_eq!(root.sorted_entries().unwrap(), []);
    let acl = root.acl().unwrap();
    assert_eq!((acl.trivial, acl.entries.len()), (true, 3));
}

#[test]
fn new_files_have_the_attributes_openzfs_gives_them() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let new = |kind, mode| NewFile { uid: 10, gid: 20, ..NewFile::new(kind, mode, at(5)) };
    let file = fs.create(root, b"file", &new(NewKind::File, 0o644)).unwrap();
    assert_eq!(file.flags, 0x8408_0000_0004);
    assert_eq!((file.links, file.size, file.parent), (1, 0, root));
    assert_eq!(file.object().dnode().bonus.len(), 176);
    let target = b"../somewhere/else".to_vec();
    let link = fs.create(root, b"link", &new(NewKind::Symlink(target.clone()), 0o777)).unwrap();
    assert_eq!(link.flags & flags::PROJID, 0);
    fs.create(root, b"null", &new(NewKind::Char(1, 3), 0o666)).unwrap();
    fs.create(root, b"pipe", &new(NewKind::Fifo, 0o600)).unwrap();
    let long = vec![b'x'; 4000];
    fs.create(root, b"far", &new(NewKind::Symlink(long.clone()), 0o777)).unwrap();
    set.commit();
    let fs = Filesystem::open(set.view()).unwrap();
    let get = |name: &[u8]| fs.by_path(name, false).unwrap();
    assert_eq!(get(b"link").read_link().unwrap(), target);
    assert_eq!(get(b"far").read_link().unwrap(), long);
    assert!(get(b"far").object().dnode().spill.is_some());
    assert!(matches!(get(b"file").read_link(), Err(zpl::Error::NotSymlink(_))));
    assert_eq!((get(b"null").kind(), get(b"null").device()), (FileKind::Char, (1, 3)));
    assert_eq!(get(b"pipe").kind(), FileKind::Fifo);
    let root = fs.root().unwrap();
    assert_eq!((root.size, root.links, root.mtime), (7, 2, at(5)));
    // The four names of root's own set, and those of user 10.
    let rows = fs.space(SpaceKind::User).unwrap();
    let objects: Vec<_> = rows.iter().map(|r| (r.id, r.objects)).collect();
    assert_eq!(objects, [(0, Some(1)), (10, Some(5))]);
}

#[test]
fn layouts_are_those_of_openzfs() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    set.commit();
    let tables = fs.master().unwrap().need_u64("SA_ATTRS").unwrap();
    let tables = Zap::open(&set.view().object(tables).unwrap()).unwrap();
    let layouts = set.view().object(tables.need_u64("LAYOUTS").unwrap()).unwrap();
    assert_eq!(layouts.dnode().block_size(), 16 << 10);
    let layouts = Zap::open(&layouts).unwrap();
    let first: Vec<u64> = layouts.get(b"2").unwrap().unwrap().ints().collect();
    assert_eq!(first, [5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19]);
    let registry = set.view().object(tables.need_u64("REGISTRY").unwrap()).unwrap();
    let registry = Zap::open(&registry).unwrap();
    assert_eq!(registry.to_vec().unwrap().len(), 22);
    assert_eq!(registry.need_u64(attribute::DACL_ACES).unwrap(), 0x4_0013);
    assert_eq!(registry.need_u64(attribute::PROJID).unwrap(), 0x800_0015);
}

#[test]
fn names_differ_by_the_rules_of_the_file_system() {
    let options = FormatOptions { case: CaseSensitivity::Insensitive, ..FormatOptions::new(at(1)) };
    let (set, fs) = filesystem(&options);
    let root = fs.root_object();
    let new = NewFile::new(NewKind::File, 0o644, at(2));
    let file = fs.create(root, b"ReadMe", &new).unwrap();
    assert!(matches!(fs.create(root, b"README", &new), Err(zpl::Error::Exists(_))));
    fs.rename((root, b"readme"), (root, b"README"), zpl::RenameMode::NoReplace, at(3)).unwrap();
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    let entries = view.root().unwrap().sorted_entries().unwrap();
    assert_eq!((entries.len(), entries[0].name.as_slice()), (1, &b"README"[..]));
    assert_eq!(view.by_path(b"rEADmE", true).unwrap().number(), file.number());
    fs.unlink(root, b"readMe", at(4)).unwrap();
    assert_eq!(fs.root().unwrap().size, 2);
}

#[test]
fn names_that_cannot_be_are_refused() {
    let options = FormatOptions { utf8_only: true, ..FormatOptions::new(at(1)) };
    let (_set, fs) = filesystem(&options);
    let new = NewFile::new(NewKind::File, 0o644, at(2));
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", b"\xff"] {
        let got = fs.create(fs.root_object(), name, &new);
        assert!(matches!(got, Err(zpl::Error::BadName(_))), "{name:?}");
    }
    let long = [b'n'; 256];
    assert!(matches!(fs.create(fs.root_object(), &long, &new), Err(zpl::Error::NameTooLong(_))));
    fs.create(fs.root_object(), &long[..255], &new).unwrap();
}

#[test]
fn extended_attributes_go_where_they_fit() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let file = fs.create(root, b"f", &NewFile::new(NewKind::File, 0o644, at(2))).unwrap();
    let n = file.number();
    let small = b"value".to_vec();
    let medium = vec![7; 3000];
    let large = vec![8; 40_000];
    let put = |name: &[u8], value: &[u8]| {
        fs.set_xattr(n, name, value, XattrMode::Any, at(3)).unwrap();
    };
    put(b"user.small", &small);
    put(b"user.medium", &medium);
    put(b"user.large", &large);
    let again = fs.set_xattr(n, b"user.small", b"", XattrMode::Create, at(3));
    assert!(matches!(again, Err(zpl::Error::Exists(_))));
    let other = fs.set_xattr(n, b"user.no", b"", XattrMode::Replace, at(3));
    assert!(matches!(other, Err(zpl::Error::NoXattr(_))));
    set.commit();
    let blocks = set.memory.count();
    let seen = |fs: &Filesystem| fs.node(n).unwrap().xattrs().unwrap();
    let view = Filesystem::open(set.view()).unwrap();
    let got = seen(&view);
    assert_eq!(got.len(), 3);
    assert_eq!(got[&b"user.small"[..]], small);
    assert_eq!(got[&b"user.medium"[..]], medium);
    assert_eq!(got[&b"user.large"[..]], large);
    assert_ne!(view.node(n).unwrap().xattr_dir, 0);
    // The large one becomes small and the medium one large: both change their place.
    put(b"user.large", &small);
    put(b"user.medium", &large);
    fs.remove_xattr(n, b"user.small", at(4)).unwrap();
    set.commit();
    let got = seen(&Filesystem::open(set.view()).unwrap());
    assert_eq!(got.len(), 2);
    assert_eq!((&got[&b"user.large"[..]], &got[&b"user.medium"[..]]), (&small, &large));
    // Everything goes with the file.
    let objects = set.view().objects().count();
    fs.unlink(root, b"f", at(5)).unwrap();
    set.commit();
    assert_eq!(set.view().objects().count(), objects - 3);
    assert!(set.memory.count() < blocks);
}

#[test]
fn a_file_in_use_outlives_its_name() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let new = NewFile::new(NewKind::File, 0o644, at(2));
    let n = fs.create(root, b"f", &new).unwrap().number();
    fs.write_at(n, 0, b"content", at(2)).unwrap();
    let open = fs.hold(n).unwrap();
    fs.unlink(root, b"f", at(3)).unwrap();
    set.commit();
    assert_eq!(fs.unlinked().unwrap(), [n]);
    let mut bytes = [0; 7];
    fs.node(n).unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"content");
    assert_eq!(fs.node(n).unwrap().links, 0);
    open.close().unwrap();
    set.commit();
    assert_eq!(fs.unlinked().unwrap(), []);
    assert!(fs.node(n).is_err());
    // After a crash the queue is emptied.
    let m = fs.create(root, b"g", &new).unwrap().number();
    let open = fs.hold(m).unwrap();
    fs.unlink(root, b"g", at(3)).unwrap();
    set.commit();
    std::mem::forget(open);
    drop(fs);
    let set = set.reopen();
    let fs = Filesystem::open(set.objset.clone()).unwrap();
    assert_eq!(fs.drain_unlinked().unwrap(), 1);
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    assert_eq!(view.unlinked().unwrap(), []);
    assert!(view.node(m).is_err());
}

#[test]
fn attributes_are_set() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let n = fs.create(root, b"f", &NewFile::new(NewKind::File, 0o644, at(2))).unwrap().number();
    let change = zpl::SetAttrs {
        mode: Some(0o4755),
        uid: Some(5),
        gid: Some(6),
        mtime: Some(at(100)),
        project: Some(9),
        ..zpl::SetAttrs::default()
    };
    fs.set_attrs(n, &change, at(50)).unwrap();
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    let node = view.node(n).unwrap();
    assert_eq!((node.permissions(), node.uid, node.gid, node.project), (0o4755, 5, 6, 9));
    assert_eq!((node.mtime, node.ctime, node.atime), (at(100), at(50), at(2)));
    assert_ne!(node.flags & flags::NO_EXECS_DENIED, 0);
    let rows = view.space(SpaceKind::Project).unwrap();
    assert_eq!(
        rows.iter().map(|r| (r.id, r.objects)).collect::<Vec<_>>(),
        [(0, Some(1)), (9, Some(1))]
    );
    let immutable = zpl::SetAttrs {
        flags: zpl::FlagChange::settable(flags::IMMUTABLE),
        ..zpl::SetAttrs::default()
    };
    fs.set_attrs(n, &immutable, at(60)).unwrap();
    assert!(matches!(
        fs.write_at(n, 0, b"x", at(61)),
        Err(zpl::Error::Refused(zpl::FileRefusal::NotPermitted(_)))
    ));
    assert!(matches!(
        fs.unlink(root, b"f", at(61)),
        Err(zpl::Error::Refused(zpl::FileRefusal::NotPermitted(_)))
    ));
}

#[test]
fn volumes_are_made_and_changed() {
    let set = Set::new(ObjsetKind::Zvol);
    let tx = set.objset.begin(Hold::write(0)).unwrap();
    Volume::format(&set.objset, &tx, 1 << 20, 8192).unwrap();
    assert!(Volume::format(&set.objset, &tx, 1 << 20, 8192).is_err());
    drop(tx);
    let mut volume = Volume::open(&set.objset).unwrap();
    assert_eq!((volume.size(), volume.block_size()), (1 << 20, 8192));
    let pattern: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8).collect();
    volume.write_at(1000, &pattern).unwrap();
    volume.trim(10_000, 20_000).unwrap();
    assert!(volume.write_at((1 << 20) - 1, b"ab").is_err());
    set.commit();
    let mut wanted = vec![0; 1 << 20];
    wanted[1000..51_000].copy_from_slice(&pattern);
    wanted[10_000..30_000].fill(0);
    let read = |set: &Set| {
        let volume = Volume::open(&set.view()).unwrap();
        let mut out = vec![0xee; volume.size() as usize];
        assert_eq!(volume.read_at(0, &mut out).unwrap(), out.len());
        out
    };
    assert!(read(&set) == wanted);
    volume.resize(40_960).unwrap();
    volume.resize(1 << 20).unwrap();
    wanted[40_960..].fill(0);
    set.commit();
    assert!(read(&set) == wanted);
}

#[test]
fn what_is_moved_into_a_project_hands_it_down() {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let root = fs.root_object();
    let make = |name: &[u8]| {
        fs.create(root, name, &NewFile::new(NewKind::Dir, 0o755, at(2))).unwrap().number()
    };
    let (project, moved) = (make(b"project"), make(b"moved"));
    let inherits = zpl::FlagChange::settable(flags::PROJINHERIT);
    let set_project = |n, flags| {
        let change = zpl::SetAttrs { project: Some(9), flags, ..zpl::SetAttrs::default() };
        fs.set_attrs(n, &change, at(3)).unwrap();
    };
    set_project(project, inherits);
    set_project(moved, zpl::FlagChange::default());
    fs.rename((root, b"moved"), (project, b"in"), RenameMode::Replace, at(4)).unwrap();
    let below =
        fs.create(moved, b"below", &NewFile::new(NewKind::File, 0o644, at(5))).unwrap().number();
    set.commit();
    let view = Filesystem::open(set.view()).unwrap();
    assert_ne!(view.node(moved).unwrap().flags & flags::PROJINHERIT, 0);
    assert_eq!(view.node(below).unwrap().project, 9);
}

#[test]
fn files_of_old_versions_have_the_old_structure() {
    for version in 1..=4 {
        let options = FormatOptions { version, ..FormatOptions::new(at(1)) };
        let (set, fs) = filesystem(&options);
        let root = fs.root_object();
        let new = |kind| NewFile { uid: 10, gid: 20, ..NewFile::new(kind, 0o640, at(5)) };
        let file = fs.create(root, b"file", &new(NewKind::File)).unwrap();
        let long = vec![b'x'; 300];
        fs.create(root, b"link", &new(NewKind::Symlink(b"there".to_vec()))).unwrap();
        fs.create(root, b"far", &new(NewKind::Symlink(long.clone()))).unwrap();
        fs.set_xattr(file.number(), b"user.a", b"b", XattrMode::Any, at(6)).unwrap();
        set.commit();
        let fs = Filesystem::open(set.view()).unwrap();
        let get = |name: &[u8]| fs.by_path(name, false).unwrap();
        assert_eq!(fs.version(), version);
        assert!(fs.master().unwrap().get_u64("SA_ATTRS").unwrap().is_none());
        let file = get(b"file");
        assert!(file.is_old_form() && file.xattr_dir != 0, "version {version}");
        assert_eq!(file.object().dnode().bonus.len(), 264);
        // Since version 3 files have the flags of other systems.
        let marks = flags::ARCHIVE | flags::AV_MODIFIED;
        assert_eq!(file.flags & marks, if version >= 3 { marks } else { 0 });
        assert_eq!((file.uid, file.gid, file.permissions()), (10, 20, 0o640));
        let acl = file.acl().unwrap();
        assert_eq!((acl.trivial, acl.entries.len()), (true, 3));
        assert_eq!(get(b"link").read_link().unwrap(), b"there");
        assert_eq!(get(b"link").object().dnode().bonus.len(), 269);
        assert_eq!(get(b"far").read_link().unwrap(), long);
        let kinds: Vec<_> =
            fs.root().unwrap().sorted_entries().unwrap().iter().map(|e| e.kind).collect();
        assert!(kinds.iter().all(|kind| (*kind == 0) == (version == 1)), "{kinds:?}");
        let quota = fs.set_quota(SpaceKind::User, zpl::write::QuotaKind::Space, 10, 1 << 20);
        assert!(quota.is_err());
    }
}

#[test]
fn what_is_no_version_is_refused() {
    for version in [0, 6] {
        assert!(FormatOptions { version, ..FormatOptions::new(at(1)) }.check().is_err());
    }
    let (_, fs) = filesystem(&FormatOptions { version: 3, ..FormatOptions::new(at(1)) });
    assert!(fs.upgrade(2).is_err() && fs.upgrade(6).is_err());
    fs.upgrade(3).unwrap();
    assert_eq!(fs.version(), 3);
}
