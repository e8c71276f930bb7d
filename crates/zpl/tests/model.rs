//! Random operations against a plain model in memory, compared after every few txgs with what a
//! fresh reader sees on disk.
//!
//! Each step is made from a number of its own, so that a run that fails is shrunk
//! ([`testkit::shrinking`]).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by it")]

mod common;

use common::{Set, at, filesystem};
use std::collections::{BTreeMap, HashMap};
use testkit::Rng;
use zpl::write::XattrMode;
use zpl::{Error, FileKind, Filesystem, FormatOptions, FsSettings, NewFile, NewKind};
use zpl::{RenameMode, SetAttrs, SpaceKind, XattrStore};

/// A file of the model.
#[derive(Clone, Debug, Default)]
struct File {
    kind: Option<FileKind>,
    mode: u32,
    uid: u64,
    gid: u64,
    content: Vec<u8>,
    entries: BTreeMap<Vec<u8>, u64>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    parent: u64,
    mtime: i64,
    ctime: i64,
}

impl File {
    fn is_dir(&self) -> bool {
        self.kind == Some(FileKind::Dir)
    }
}

/// The whole file system, by object number.
struct Model {
    root: u64,
    files: BTreeMap<u64, File>,
    now: i64,
}

/// What an operation came to, in terms both sides have.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Exists,
    NotFound,
    NotEmpty,
    IsDirectory,
    NotDirectory,
    Loop,
    NoXattr,
}

fn outcome<T>(got: &Result<T, Error>) -> Outcome {
    match got {
        Ok(_) => Outcome::Done,
        Err(Error::Exists(_)) => Outcome::Exists,
        Err(Error::NotFound(_)) => Outcome::NotFound,
        Err(Error::NotEmpty(_)) => Outcome::NotEmpty,
        Err(Error::IsDirectory(_)) => Outcome::IsDirectory,
        Err(Error::NotDirectory(_)) => Outcome::NotDirectory,
        Err(Error::Loop) => Outcome::Loop,
        Err(Error::NoXattr(_)) => Outcome::NoXattr,
        Err(e) => panic!("{e}"),
    }
}

impl Model {
    fn new(root: u64) -> Self {
        let file = File {
            kind: Some(FileKind::Dir),
            mode: 0o755,
            parent: root,
            mtime: 1,
            ctime: 1,
            ..File::default()
        };
        Self { root, files: BTreeMap::from([(root, file)]), now: 1 }
    }

    fn file(&mut self, n: u64) -> &mut File {
        self.files.get_mut(&n).expect("the model has it")
    }

    fn pick(&self, rng: &mut Rng, wanted: impl Fn(&File) -> bool) -> Option<u64> {
        let all: Vec<u64> = self.files.iter().filter(|(_, f)| wanted(f)).map(|(n, _)| *n).collect();
        (!all.is_empty()).then(|| *rng.pick(&all))
    }

    fn dir(&self, rng: &mut Rng) -> u64 {
        self.pick(rng, File::is_dir).unwrap_or(self.root)
    }

    fn changed(&mut self, n: u64, content: bool) {
        let now = self.now;
        let file = self.file(n);
        file.ctime = now;
        if content {
            file.mtime = now;
        }
    }

    fn names(&self, n: u64) -> u64 {
        let in_dir = |f: &File| f.entries.values().filter(|c| **c == n).count() as u64;
        self.files.values().map(in_dir).sum()
    }

    fn is_below(&self, dir: u64, above: u64) -> bool {
        let mut at = dir;
        loop {
            if at == above {
                return true;
            }
            if at == self.root {
                return false;
            }
            at = self.files[&at].parent;
        }
    }

    fn drop_name(&mut self, n: u64) {
        if self.files[&n].is_dir() || self.names(n) == 0 {
            self.files.remove(&n);
        } else {
            self.changed(n, false);
        }
    }

    fn remove(&mut self, dir: u64, name: &[u8], is_dir: bool) -> Outcome {
        let Some(n) = self.files[&dir].entries.get(name).copied() else { return Outcome::NotFound };
        match (is_dir, self.files[&n].is_dir()) {
            (true, false) => return Outcome::NotDirectory,
            (false, true) => return Outcome::IsDirectory,
            (true, true) if !self.files[&n].entries.is_empty() => return Outcome::NotEmpty,
            _ => {}
        }
        self.file(dir).entries.remove(name);
        self.changed(dir, true);
        self.drop_name(n);
        Outcome::Done
    }

    fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), how: RenameMode) -> Outcome {
        let Some(n) = self.files[&from.0].entries.get(from.1).copied() else {
            return Outcome::NotFound;
        };
        let over = self.files[&to.0].entries.get(to.1).copied();
        let is_dir = self.files[&n].is_dir();
        match (how, over) {
            (RenameMode::NoReplace, Some(_)) => return Outcome::Exists,
            (RenameMode::Exchange, None) => return Outcome::NotFound,
            (_, Some(over)) if over == n => return Outcome::Done,
            _ => {}
        }
        if is_dir && from.0 != to.0 && self.is_below(to.0, n) {
            return Outcome::Loop;
        }
        if let (RenameMode::Exchange, Some(other)) = (how, over) {
            if self.files[&other].is_dir() && from.0 != to.0 && self.is_below(from.0, other) {
                return Outcome::Loop;
            }
            self.file(from.0).entries.insert(from.1.to_vec(), other);
            self.file(to.0).entries.insert(to.1.to_vec(), n);
            self.file(n).parent = to.0;
            self.file(other).parent = from.0;
            self.changed(n, false);
            self.changed(other, false);
        } else {
            if let Some(over) = over {
                match (is_dir, self.files[&over].is_dir()) {
                    (true, false) => return Outcome::NotDirectory,
                    (false, true) => return Outcome::IsDirectory,
                    (true, true) if !self.files[&over].entries.is_empty() => {
                        return Outcome::NotEmpty;
                    }
                    _ => {}
                }
                self.file(to.0).entries.remove(to.1);
                self.drop_name(over);
            }
            self.file(from.0).entries.remove(from.1);
            self.file(to.0).entries.insert(to.1.to_vec(), n);
            self.file(n).parent = to.0;
            self.changed(n, false);
        }
        self.changed(from.0, true);
        self.changed(to.0, true);
        Outcome::Done
    }
}

/// One random run.
struct Run {
    rng: Rng,
    model: Model,
    fs: Filesystem,
    record: u64,
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

    fn create(&mut self) {
        let dir = self.model.dir(&mut self.rng);
        let name = self.name();
        let kinds = [
            (NewKind::File, FileKind::File),
            (NewKind::File, FileKind::File),
            (NewKind::Dir, FileKind::Dir),
            (NewKind::Symlink(self.bytes(600)), FileKind::Symlink),
            (NewKind::Fifo, FileKind::Fifo),
            (NewKind::Block(8, 17), FileKind::Block),
        ];
        let (mut new, kind) = self.rng.pick(&kinds).clone();
        let mut content = Vec::new();
        if let NewKind::Symlink(target) = &mut new {
            target.push(b'x');
            content.clone_from(target);
        }
        let (uid, gid) = (self.rng.below(3), self.rng.below(3));
        let mode = self.rng.below(0o1000) as u32;
        let new = NewFile { uid, gid, ..NewFile::new(new, mode, at(self.model.now)) };
        let got = self.fs.create(dir, &name, &new);
        let there = self.model.files[&dir].entries.contains_key(&name);
        let wanted = if there { Outcome::Exists } else { Outcome::Done };
        assert_eq!(outcome(&got), wanted);
        let Ok(node) = got else { return };
        let now = self.model.now;
        let file = File {
            kind: Some(kind),
            mode,
            uid,
            gid,
            content,
            parent: dir,
            mtime: now,
            ctime: now,
            ..File::default()
        };
        assert!(self.model.files.insert(node.number(), file).is_none(), "a number in use");
        self.model.file(dir).entries.insert(name, node.number());
        self.model.changed(dir, true);
    }

    fn write(&mut self) {
        let Some(n) = self.model.pick(&mut self.rng, |f| f.kind == Some(FileKind::File)) else {
            return;
        };
        let now = at(self.model.now);
        let size = self.model.files[&n].content.len() as u64;
        match self.rng.below(5) {
            0 => {
                let to = self.offset();
                self.fs.truncate(n, to, now).unwrap();
                self.model.file(n).content.resize(to as usize, 0);
            }
            1 => {
                let (from, len) = (self.offset(), self.offset());
                self.fs.punch(n, from, len, now).unwrap();
                let end = (from + len).min(size);
                if from >= end {
                    return;
                }
                self.model.file(n).content[from as usize..end as usize].fill(0);
            }
            2 => {
                let data = self.bytes(self.record.min(9000));
                let place = self.fs.append(n, &data, now).unwrap();
                assert_eq!(place, size);
                self.model.file(n).content.extend_from_slice(&data);
                if data.is_empty() {
                    return;
                }
            }
            _ => {
                let from = self.offset();
                let mut data = self.bytes(2 * self.record.min(9000));
                data.push(1);
                self.fs.write_at(n, from, &data, now).unwrap();
                let end = from as usize + data.len();
                let content = &mut self.model.file(n).content;
                content.resize(content.len().max(end), 0);
                content[from as usize..end].copy_from_slice(&data);
            }
        }
        self.model.changed(n, true);
    }

    fn names(&mut self) {
        let (dir, name) = (self.model.dir(&mut self.rng), self.name());
        let now = at(self.model.now);
        match self.rng.below(5) {
            0 => {
                let got = self.fs.rmdir(dir, &name, now);
                let wanted = self.model.remove(dir, &name, true);
                assert_eq!(outcome(&got), wanted);
            }
            1 => {
                let got = self.fs.unlink(dir, &name, now);
                let wanted = self.model.remove(dir, &name, false);
                assert_eq!(outcome(&got), wanted);
            }
            2 => {
                let Some(n) = self.model.pick(&mut self.rng, |f| !f.is_dir()) else { return };
                let got = self.fs.link(n, dir, &name, now);
                if self.model.files[&dir].entries.contains_key(&name) {
                    assert_eq!(outcome(&got), Outcome::Exists);
                    return;
                }
                got.unwrap();
                self.model.file(dir).entries.insert(name, n);
                self.model.file(n).parent = dir;
                self.model.changed(n, false);
                self.model.changed(dir, true);
            }
            _ => {
                let to = (self.model.dir(&mut self.rng), self.name());
                let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
                let how = *self.rng.pick(&modes);
                let (from, to) = ((dir, name.as_slice()), (to.0, to.1.as_slice()));
                let got = self.fs.rename(from, to, how, now);
                let wanted = self.model.rename(from, to, how);
                assert_eq!(outcome(&got), wanted, "{from:?} {to:?} {how:?}");
            }
        }
    }

    fn attributes(&mut self) {
        let Some(n) = self.model.pick(&mut self.rng, |_| true) else { return };
        let now = at(self.model.now);
        match self.rng.below(4) {
            0 => {
                let set =
                    SetAttrs { mode: Some(self.rng.below(0o10000) as u32), ..SetAttrs::default() };
                self.fs.set_attrs(n, &set, now).unwrap();
                self.model.file(n).mode = set.mode.unwrap_or(0);
            }
            1 => {
                let (uid, gid) = (self.rng.below(3), self.rng.below(3));
                let set = SetAttrs { uid: Some(uid), gid: Some(gid), ..SetAttrs::default() };
                self.fs.set_attrs(n, &set, now).unwrap();
                (self.model.file(n).uid, self.model.file(n).gid) = (uid, gid);
            }
            2 => {
                let name = format!("user.{}", self.rng.below(4)).into_bytes();
                let got = self.fs.remove_xattr(n, &name, now);
                let there = self.model.file(n).xattrs.remove(&name).is_some();
                let wanted = if there { Outcome::Done } else { Outcome::NoXattr };
                assert_eq!(outcome(&got), wanted);
                if !there {
                    return;
                }
            }
            _ => {
                let max = *self.rng.pick(&[10, 100, 3000, 40_000]);
                let name = format!("user.{}", self.rng.below(4)).into_bytes();
                let value = self.bytes(max);
                self.fs.set_xattr(n, &name, &value, XattrMode::Any, now).unwrap();
                self.model.file(n).xattrs.insert(name, value);
            }
        }
        // New files in a directory with the set-group-id bit get its group: not modelled.
        let plain = self.model.files[&n].mode & !0o2000;
        if plain != self.model.files[&n].mode {
            let set = SetAttrs { mode: Some(plain), ..SetAttrs::default() };
            self.fs.set_attrs(n, &set, now).unwrap();
            self.model.file(n).mode = plain;
        }
        self.model.changed(n, false);
    }

    fn step(&mut self) {
        self.model.now += 1;
        match self.rng.below(10) {
            0..=2 => self.create(),
            3..=5 => self.write(),
            6..=7 => self.names(),
            _ => self.attributes(),
        }
    }
}

/// Compares everything; returns how many objects there must be.
fn compare(model: &Model, fs: &Filesystem) -> usize {
    let mut hidden = 0;
    let mut todo = vec![model.root];
    let mut seen = HashMap::new();
    while let Some(n) = todo.pop() {
        if seen.insert(n, ()).is_some() {
            continue;
        }
        let wanted = &model.files[&n];
        let node = fs.node(n).unwrap_or_else(|e| panic!("object {n}: {e}"));
        let what = format!("object {n}: {wanted:?}");
        assert_eq!(Some(node.kind()), wanted.kind, "{what}");
        assert_eq!((node.permissions(), node.uid), (wanted.mode, wanted.uid), "{what}");
        assert_eq!((node.gid, node.parent), (wanted.gid, wanted.parent), "{what}");
        assert_eq!(
            (node.mtime.seconds, node.ctime.seconds),
            (wanted.mtime, wanted.ctime),
            "{what}"
        );
        assert_eq!(node.xattrs().unwrap(), wanted.xattrs, "object {n}");
        if node.xattr_dir != 0 {
            hidden += 1 + fs.node(node.xattr_dir).unwrap().entries().unwrap().count();
        }
        match wanted.kind {
            Some(FileKind::Dir) => {
                let found = node.sorted_entries().unwrap();
                let found =
                    found.into_iter().map(|e| (e.name, e.object)).collect::<BTreeMap<_, _>>();
                assert_eq!(found, wanted.entries, "object {n}");
                let dirs = wanted.entries.values().filter(|c| model.files[c].is_dir()).count();
                let counts = (2 + wanted.entries.len() as u64, 2 + dirs as u64);
                assert_eq!((node.size, node.links), counts, "object {n}");
                todo.extend(wanted.entries.values());
            }
            Some(FileKind::Symlink) => {
                assert!(node.read_link().unwrap() == wanted.content, "{what}");
            }
            _ => {
                assert_eq!(node.size, wanted.content.len() as u64, "object {n}");
                let mut content = vec![0xaa; wanted.content.len()];
                assert_eq!(node.read_at(0, &mut content).unwrap(), content.len());
                let same = content.iter().zip(&wanted.content).position(|(a, b)| a != b);
                assert_eq!(same, None, "object {n}: first difference");
                assert_eq!(node.links, model.names(n), "{what}");
            }
        }
    }
    assert_eq!(seen.len(), model.files.len(), "files of the model that no path leads to");
    /// Master node, delete queue, and three tables of attributes.
    const TABLES: usize = 5;
    TABLES + seen.len() + hidden
}

/// Steps of a run, at most.
const STEPS_MAX: usize = 3000;
/// Makes several runs.
fn random(runs: u32, record: u32, xattr: XattrStore) {
    testkit::shrinking(runs, STEPS_MAX, |steps| run(steps, record, xattr));
}

fn run(steps: &[u64], record: u32, xattr: XattrStore) {
    let (set, fs) = filesystem(&FormatOptions::new(at(1)));
    let settings = FsSettings { record_size: record, xattr, ..FsSettings::default() };
    fs.configure(settings).unwrap();
    let model = Model::new(fs.root_object());
    let mut run = Run { rng: Rng::new(0), model, fs, record: record.into() };
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
        if run.rng.below(1000) == 0 {
            set.commit();
            set = set.reopen();
            run.fs = Filesystem::open(set.objset.clone()).unwrap();
            run.fs.configure(settings).unwrap();
            set.owners.attach(&run.fs);
        }
    }
}

fn check_disk(set: &Set, model: &Model) {
    let view = Filesystem::open(set.view()).unwrap();
    let objects = compare(model, &view);
    let found: Vec<u64> = set.view().objects().map(|o| o.unwrap().number()).collect();
    assert_eq!(found.len(), objects, "objects that nobody knows: {found:?}");
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
