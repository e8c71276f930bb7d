//! Random operations beside the model of POSIX ([`testkit::posix`]), compared after every few txgs
//! with what a fresh reader sees on disk.
//!
//! Each step is made from a number of its own, so that a run that fails is shrunk
//! ([`testkit::shrinking`]).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by it")]

mod common;

use common::{Set, at, filesystem};
use ondisk::znode::Time;
use std::collections::{BTreeMap, HashSet};
use testkit::Rng;
use testkit::posix::{self, Done, Kind, Rename, SetXattr, class};
use zpl::write::XattrMode;
use zpl::{Error, FileKind, Filesystem, FormatOptions, FsSettings, NewFile, NewKind};
use zpl::{RenameMode, SetAttrs, SpaceKind, XattrStore};

type Tree = posix::Tree<NewKind, Time>;
type Inode = posix::Inode<NewKind, Time>;

/// What an operation came to, in the model's terms.
fn outcome<T>(got: &Result<T, Error>) -> Done {
    match got {
        Ok(_) => Ok(()),
        Err(Error::Exists(_)) => Err(class::EXISTS),
        Err(Error::NotFound(_)) => Err(class::NOT_FOUND),
        Err(Error::NotEmpty(_)) => Err(class::NOT_EMPTY),
        Err(Error::IsDirectory(_)) => Err(class::IS_DIR),
        Err(Error::NotDirectory(_)) => Err(class::NOT_DIR),
        Err(Error::Loop) => Err(class::LOOP),
        Err(Error::NoXattr(_)) => Err(class::NO_XATTR),
        Err(e) => panic!("{e}"),
    }
}

fn is_file(inode: &Inode) -> bool {
    matches!(inode.kind, Kind::File(_))
}

/// One random run.
struct Run {
    rng: Rng,
    model: Tree,
    fs: Filesystem,
    record: u64,
    now: Time,
}

impl Run {
    fn name(&mut self) -> Vec<u8> {
        let n = self.rng.below(12);
        match n {
            11 => vec![b'l'; 200],
            n => format!("name-{n}").into_bytes(),
        }
    }

    fn bytes(&mut self, max: u64) -> Vec<u8> {
        let mut out = vec![0; self.rng.below(max + 1) as usize];
        self.rng.fill(&mut out);
        out
    }

    /// A place near a border between blocks.
    fn offset(&mut self) -> u64 {
        let block = self.rng.below(4) * self.record;
        (block + self.rng.below(7)).saturating_sub(3)
    }

    fn pick(&mut self, wanted: impl Fn(&Inode) -> bool) -> Option<u64> {
        let all = self.model.numbers(wanted);
        (!all.is_empty()).then(|| *self.rng.pick(&all))
    }

    fn dir(&mut self) -> u64 {
        self.pick(Inode::is_dir).unwrap_or(self.model.root)
    }

    fn create(&mut self) {
        let (dir, name, now) = (self.dir(), self.name(), self.now);
        let link = [self.bytes(600), vec![b'x']].concat();
        let kinds = [
            (NewKind::File, Kind::file()),
            (NewKind::File, Kind::file()),
            (NewKind::Dir, Kind::dir()),
            (NewKind::Symlink(link.clone()), Kind::Other(NewKind::Symlink(link))),
            (NewKind::Fifo, Kind::Other(NewKind::Fifo)),
            (NewKind::Block(8, 17), Kind::Other(NewKind::Block(8, 17))),
        ];
        let (new, kind) = self.rng.pick(&kinds).clone();
        let (uid, gid) = (self.rng.below(3), self.rng.below(3));
        let mode = self.rng.below(0o1000) as u32;
        let new = NewFile { uid, gid, ..NewFile::new(new, mode, now) };
        let got = self.fs.create(dir, &name, &new);
        assert_eq!(outcome(&got), self.model.create_expects(dir, &name));
        let Ok(node) = got else { return };
        let inode = Inode { uid, gid, ..Inode::new(kind, mode, now, dir) };
        assert!(!self.model.inodes.contains_key(&node.number()), "a number in use");
        self.model.create(dir, &name, node.number(), inode);
    }

    fn write(&mut self) {
        let Some(n) = self.pick(is_file) else { return };
        let (now, size) = (self.now, self.model.get(n).size());
        match self.rng.below(5) {
            0 => {
                let to = self.offset();
                self.fs.truncate(n, to, now).unwrap();
                self.model.content(n).resize(to);
            }
            1 => {
                let (from, len) = (self.offset(), self.offset());
                self.fs.punch(n, from, len, now).unwrap();
                let end = (from + len).min(size);
                if from >= end {
                    return;
                }
                self.model.content(n).clear(from, end);
            }
            2 => {
                let data = self.bytes(self.record.min(9000));
                let place = self.fs.append(n, &data, now).unwrap();
                assert_eq!(place, size);
                if data.is_empty() {
                    return;
                }
                self.model.content(n).write(size, &data);
            }
            _ => {
                let from = self.offset();
                let data = [self.bytes(2 * self.record.min(9000)), vec![1]].concat();
                self.fs.write_at(n, from, &data, now).unwrap();
                self.model.content(n).write(from, &data);
            }
        }
        self.model.touch(n, now);
    }

    fn names(&mut self) {
        let (dir, name, now) = (self.dir(), self.name(), self.now);
        match self.rng.below(5) {
            0 => {
                let got = self.fs.rmdir(dir, &name, now);
                assert_eq!(outcome(&got), self.model.remove(dir, &name, true, now));
            }
            1 => {
                let got = self.fs.unlink(dir, &name, now);
                assert_eq!(outcome(&got), self.model.remove(dir, &name, false, now));
            }
            2 => {
                let Some(n) = self.pick(|_| true) else { return };
                let got = self.fs.link(n, dir, &name, now);
                assert_eq!(outcome(&got), self.model.link(n, dir, &name, now));
            }
            _ => {
                let to = (self.dir(), self.name());
                let modes = [
                    (RenameMode::Replace, Rename::Replace),
                    (RenameMode::NoReplace, Rename::NoReplace),
                    (RenameMode::Exchange, Rename::Exchange),
                    (RenameMode::Whiteout { uid: 1, gid: 2 }, Rename::Replace),
                ];
                let (how, same) = *self.rng.pick(&modes);
                let (from, to) = ((dir, name.as_slice()), (to.0, to.1.as_slice()));
                let got = self.fs.rename(from, to, how, now);
                let want = self.model.rename(from, to, same, now);
                assert_eq!(outcome(&got), want, "{from:?} {to:?} {how:?}");
                if let RenameMode::Whiteout { uid, gid } = how
                    && want.is_ok()
                    && self.model.find(dir, &name).is_none()
                {
                    let entry = self.fs.node(dir).unwrap().lookup(&name).unwrap().unwrap();
                    let kind = Kind::Other(NewKind::Char(0, 0));
                    let inode = Inode { uid, gid, ..Inode::new(kind, 0, now, dir) };
                    self.model.create(dir, &name, entry.object, inode);
                }
            }
        }
    }

    fn attributes(&mut self) {
        let Some(n) = self.pick(|_| true) else { return };
        let now = self.now;
        match self.rng.below(4) {
            0 => {
                // New files in a directory with the set-group-id bit get its group.
                let mode = self.rng.below(0o10000) as u32 & !0o2000;
                let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
                self.fs.set_attrs(n, &set, now).unwrap();
                self.model.change(n).mode = mode;
                self.model.touch_attributes(n, now);
            }
            1 => {
                let (uid, gid) = (self.rng.below(3), self.rng.below(3));
                let set = SetAttrs { uid: Some(uid), gid: Some(gid), ..SetAttrs::default() };
                self.fs.set_attrs(n, &set, now).unwrap();
                let inode = self.model.change(n);
                (inode.uid, inode.gid) = (uid, gid);
                self.model.touch_attributes(n, now);
            }
            2 => {
                let name = format!("user.{}", self.rng.below(4)).into_bytes();
                let got = self.fs.remove_xattr(n, &name, now);
                assert_eq!(outcome(&got), self.model.remove_xattr(n, &name, now));
            }
            _ => {
                let max = *self.rng.pick(&[10, 100, 3000, 40_000]);
                let name = format!("user.{}", self.rng.below(4)).into_bytes();
                let value = self.bytes(max);
                let got = self.fs.set_xattr(n, &name, &value, XattrMode::Any, now);
                let want = self.model.set_xattr(n, (&name, &value), SetXattr::Any, now);
                assert_eq!(outcome(&got), want);
            }
        }
    }

    fn step(&mut self) {
        self.now = at(self.now.seconds + 1);
        match self.rng.below(10) {
            0..=2 => self.create(),
            3..=5 => self.write(),
            6..=7 => self.names(),
            _ => self.attributes(),
        }
    }
}

/// Compares everything; returns how many objects there must be.
fn compare(model: &Tree, fs: &Filesystem) -> usize {
    let mut hidden = 0;
    let mut todo = vec![model.root];
    let mut seen = HashSet::new();
    while let Some(n) = todo.pop() {
        if !seen.insert(n) {
            continue;
        }
        let wanted = model.get(n);
        let node = fs.node(n).unwrap_or_else(|e| panic!("object {n}: {e}"));
        assert_eq!((node.permissions(), node.uid), (wanted.mode, wanted.uid), "object {n}");
        assert_eq!((node.gid, node.parent), (wanted.gid, wanted.parent), "object {n}");
        assert_eq!((node.mtime, node.ctime), (wanted.mtime, wanted.ctime), "object {n}");
        assert_eq!(node.xattrs().unwrap(), wanted.xattrs, "object {n}");
        if node.xattr_dir != 0 {
            hidden += 1 + fs.node(node.xattr_dir).unwrap().entries().unwrap().count();
        }
        match &wanted.kind {
            Kind::Dir(entries) => {
                let found = node.sorted_entries().unwrap();
                let found =
                    found.into_iter().map(|e| (e.name, e.object)).collect::<BTreeMap<_, _>>();
                assert_eq!(&found, entries, "object {n}");
                let dirs = entries.values().filter(|c| model.get(**c).is_dir()).count();
                let counts = (2 + entries.len() as u64, 2 + dirs as u64);
                assert_eq!((node.size, node.links), counts, "object {n}");
                assert_eq!(node.kind(), FileKind::Dir, "object {n}");
                todo.extend(entries.values());
                continue;
            }
            Kind::File(content) => {
                let read = |at, out: &mut [u8]| match node.read_at(at, out) {
                    Ok(read) if read == out.len() => Ok(()),
                    other => Err(format!("{other:?}")),
                };
                let same = content.compare(node.size, &read);
                same.unwrap_or_else(|e| panic!("object {n} {e}"));
                assert_eq!(node.kind(), FileKind::File, "object {n}");
            }
            Kind::Other(NewKind::Symlink(target)) => {
                assert!(node.read_link().unwrap() == *target, "object {n}");
                assert_eq!(node.kind(), FileKind::Symlink, "object {n}");
            }
            Kind::Other(other) => {
                let kind = match other {
                    NewKind::Fifo => FileKind::Fifo,
                    NewKind::Char(..) => FileKind::Char,
                    _ => FileKind::Block,
                };
                assert_eq!((node.kind(), node.size), (kind, 0), "object {n}");
            }
        }
        assert_eq!(node.links, wanted.links, "object {n}");
    }
    assert_eq!(seen.len(), model.inodes.len(), "files of the model that no path leads to");
    /// Master node and delete queue.
    const TABLES: usize = 2;
    /// Tables of attributes, since version 5.
    const ATTRIBUTES: usize = 3;
    let attributes = if fs.version() >= 5 { ATTRIBUTES } else { 0 };
    TABLES + attributes + seen.len() + hidden
}

/// Steps of a run, at most.
const STEPS_MAX: usize = 3000;
/// Makes several runs.
fn random(runs: u32, record: u32, xattr: XattrStore) {
    testkit::shrinking(runs, STEPS_MAX, |steps| run(steps, record, xattr, 5));
}

fn run(steps: &[u64], record: u32, xattr: XattrStore, version: u64) {
    let (set, fs) = filesystem(&FormatOptions { version, ..FormatOptions::new(at(1)) });
    let settings = FsSettings { record_size: record, xattr, ..FsSettings::default() };
    fs.configure(settings).unwrap();
    let model = Tree::new(fs.root_object(), at(1));
    let mut run = Run { rng: Rng::new(0), model, fs, record: record.into(), now: at(1) };
    let mut set = set;
    for (step, seed) in steps.iter().enumerate() {
        run.rng = Rng::new(*seed);
        run.step();
        if run.rng.below(40) == 0 {
            set.commit();
        }
        if run.rng.below(300) == 0 || step + 1 == steps.len() {
            // What is in memory is what comes out on disk.
            compare(&run.model, &run.fs);
            set.commit();
            check_disk(&set, &run.model);
        }
        if version < 5 && run.rng.below(1000) == 0 {
            let newer = (run.fs.version() + 1 + run.rng.below(2)).min(5);
            run.fs.upgrade(newer).unwrap();
            set.commit();
            run.fs.adopt_version().unwrap();
            assert_eq!(run.fs.version(), newer);
        }
        if run.rng.below(1000) == 0 {
            set.commit();
            set = set.reopen();
            run.fs = Filesystem::open(set.objset.clone()).unwrap();
            run.fs.configure(settings).unwrap();
            set.owners.attach(&run.fs);
        }
    }
}

fn check_disk(set: &Set, model: &Tree) {
    let view = Filesystem::open(set.view()).unwrap();
    let objects = compare(model, &view);
    let found: Vec<u64> = set.view().objects().map(|o| o.unwrap().number()).collect();
    assert_eq!(found.len(), objects, "objects that the model has not: {found:?}");
    let mut by_user: BTreeMap<u64, u64> = BTreeMap::new();
    for object in set.view().objects() {
        if let Ok(node) = zpl::Node::from_object(&view, object.unwrap()) {
            *by_user.entry(node.uid).or_default() += 1;
        }
    }
    let rows = view.space(SpaceKind::User).unwrap();
    let rows: BTreeMap<u64, u64> = rows.iter().filter_map(|r| Some((r.id, r.objects?))).collect();
    assert_eq!(rows, by_user);
}

#[test]
fn small_records() {
    random(2, 512, XattrStore::Sa);
    random(2, 4096, XattrStore::Sa);
}

#[test]
fn usual_records() {
    random(2, 128 << 10, XattrStore::Sa);
}

#[test]
fn attributes_as_files() {
    random(2, 8192, XattrStore::Dir);
}

/// Files of before system attributes, in file systems that are upgraded on the way.
#[test]
fn old_versions() {
    for version in [1, 2, 4] {
        let one = |steps: &[u64]| run(steps, 8192, XattrStore::Sa, version);
        testkit::shrinking(1, STEPS_MAX, one);
    }
}
