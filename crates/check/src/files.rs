//! Names against files: links, parents, sizes of directories, orphans, and the sums by owner.
//!
//! One pass over all objects of a file system: directories list their files, files count their
//! names and have their directory, every accounted object adds to its owners' sums. Then both sides
//! are compared. A file without a name must be in the delete queue or be the attribute directory of
//! another file.
//!
//! Memory: about 150 bytes per file of the file system that is looked at.

use crate::issue::{Issue, Location};
use crate::sink::Sink;
use dmu::{Object, Zap};
use ondisk::dnode::{FLAG_USEROBJUSED_ACCOUNTED, FLAG_USERUSED_ACCOUNTED};
use ondisk::objset::{
    FLAG_PROJECTQUOTA_COMPLETE, FLAG_USERACCOUNTING_COMPLETE, FLAG_USEROBJACCOUNTING_COMPLETE,
    OBJSET_SIZE_V1,
};
use ondisk::znode::{flags, master};
use ondisk::{DmuType, ObjsetKind, spelling};
use rt::Progress;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use zio::Place;
use zpl::{FileKind, Filesystem, Node};

/// The space of an accounted object beside its blocks: its slot.
const DNODE_BYTES: u64 = 512;
/// Prefix of keys that count objects instead of bytes.
const OBJECT_PREFIX: &str = "obj-";

/// The facts kept about a file.
struct Facts {
    kind: FileKind,
    links: u64,
    parent: u64,
    /// Directories below, of a directory.
    subdirs: u64,
    is_xattr: bool,
    is_xattr_dir: bool,
}

/// The names of an object.
#[derive(Default)]
struct Names {
    count: u64,
    by: Vec<u64>,
    /// Its types in directory entries, one bit each.
    kinds: u16,
}

/// Bytes and objects by owner.
#[derive(Default)]
struct Owners {
    bytes: BTreeMap<u64, u64>,
    objects: BTreeMap<u64, u64>,
}

impl Owners {
    fn add(&mut self, id: u64, bytes: Option<u64>, object: bool) {
        if let Some(b) = bytes {
            let sum = self.bytes.entry(id).or_default();
            *sum = sum.saturating_add(b);
        }
        *self.objects.entry(id).or_default() += u64::from(object);
    }
}

struct Survey<'a> {
    fs: Filesystem,
    name: Arc<str>,
    sink: &'a Sink,
    longest: usize,
    files: HashMap<u64, Facts>,
    names: HashMap<u64, Names>,
    xattr_dirs: HashMap<u64, u64>,
    owners: [Owners; 3],
    complete: bool,
}

/// Surveys one file system, whose names have up to `longest` bytes. `progress` counts its objects.
pub(crate) fn survey(
    fs: Filesystem,
    name: &Arc<str>,
    longest: usize,
    sink: &Sink,
    progress: &Progress,
) {
    if fs.objset().phys().kind != ObjsetKind::Zfs {
        return;
    }
    let mut s = Survey {
        fs,
        name: Arc::clone(name),
        sink,
        longest,
        files: HashMap::new(),
        names: HashMap::new(),
        xattr_dirs: HashMap::new(),
        owners: Default::default(),
        complete: true,
    };
    for object in s.fs.objset().objects() {
        if progress.is_cancelled() {
            return;
        }
        progress.add(1, 0);
        match object {
            Ok(o) => s.object(o),
            // Reported where it was read; sums and links cannot be right now.
            Err(_) => s.complete = false,
        }
    }
    if s.complete {
        s.compare_links();
        s.compare_owners();
    }
}

impl Survey<'_> {
    fn at(&self, object: u64) -> Location {
        let objset = self.fs.objset().id();
        Location {
            dataset: Arc::clone(&self.name),
            place: Place { objset, object, level: 0, blkid: 0 },
        }
    }

    fn object(&mut self, object: Object) {
        let number = object.number();
        if !matches!(object.dnode().bonus_kind, DmuType::SA | DmuType::ZNODE) {
            return;
        }
        let dnode = object.dnode();
        let (used, dnode_flags) = (dnode.used_bytes(), dnode.flags);
        let node = match Node::from_object(&self.fs, object) {
            Ok(n) => n,
            Err(e) => {
                self.complete = false;
                let (at, cause) = (self.at(number), e.to_string());
                self.sink.put(Issue::BadStructure { at, what: "attributes of a file", cause });
                return;
            }
        };
        let counted = dnode_flags & FLAG_USERUSED_ACCOUNTED != 0;
        let bytes = counted.then(|| used.saturating_add(DNODE_BYTES));
        let as_object = dnode_flags & FLAG_USEROBJUSED_ACCOUNTED != 0;
        for (owners, id) in self.owners.iter_mut().zip([node.uid, node.gid, node.project]) {
            owners.add(id, bytes, as_object);
        }
        let is_xattr = node.flags & flags::XATTR != 0;
        let is_dir = node.kind() == FileKind::Dir;
        let subdirs = if is_dir { self.directory(&node) } else { 0 };
        if node.xattr_dir != 0 {
            self.xattr_dirs.insert(node.xattr_dir, number);
        }
        let facts = Facts {
            kind: node.kind(),
            links: node.links,
            parent: node.parent,
            subdirs,
            is_xattr,
            is_xattr_dir: is_xattr && is_dir,
        };
        self.files.insert(number, facts);
    }

    /// Notes what a directory names; returns how many directories are among them.
    fn directory(&mut self, node: &Node) -> u64 {
        let number = node.number();
        let entries = match node.entries() {
            Ok(e) => e,
            Err(e) => {
                self.bad_directory(number, &e);
                return 0;
            }
        };
        let (mut subdirs, mut count) = (0, 0);
        let mut names = HashSet::new();
        for e in entries {
            let e = match e {
                Ok(e) => e,
                Err(e) => {
                    self.bad_directory(number, &e);
                    continue;
                }
            };
            count += 1;
            let twice = !names.insert(e.name.clone());
            let cause = zpl::names::fault(&e.name, self.longest);
            if let Some(cause) = cause.or(twice.then_some("there twice")) {
                let (at, name) = (self.at(number), spelling::file(&e.name));
                self.sink.put(Issue::BadEntry { at, name, cause });
            }
            let is_dir = match e.kind {
                // Version 1 does not store it; the file itself must be read.
                0 => self.fs.node(e.object).is_ok_and(|n| n.kind() == FileKind::Dir),
                k => FileKind::from_mode(u64::from(k) << 12) == FileKind::Dir,
            };
            subdirs += u64::from(is_dir);
            if self.fs.objset().object(e.object).is_err() {
                let name = spelling::file(&e.name);
                let (at, object) = (self.at(number), e.object);
                self.sink.put(Issue::DanglingEntry { at, name, object });
            }
            let names = self.names.entry(e.object).or_default();
            names.count += 1;
            names.kinds |= 1 << (e.kind & 0xf);
            // A directory's entries come one after the other.
            if names.by.last() != Some(&number) {
                names.by.push(number);
            }
        }
        let (stored, counted) = (node.size, count + 2);
        if stored != counted && self.complete {
            self.sink.put(Issue::DirectorySize { at: self.at(number), stored, counted });
        }
        subdirs
    }

    fn bad_directory(&mut self, number: u64, e: &zpl::Error) {
        self.complete = false;
        let unreadable = matches!(e, zpl::Error::Dmu(d) if d.io().is_some());
        // A block that cannot be read was reported by the walk.
        if !unreadable {
            let (at, cause) = (self.at(number), e.to_string());
            self.sink.put(Issue::BadStructure { at, what: "directory", cause });
        }
    }

    /// Objects in the delete queue, and the directory of shares, need no name.
    fn nameless(&self) -> HashSet<u64> {
        let mut out = HashSet::from([self.fs.root_object()]);
        let Ok(table) = self.fs.master() else { return out };
        out.extend(table.get_u64(master::SHARES).ok().flatten());
        let queue = table.get_u64(master::DELETE_QUEUE).ok().flatten();
        let queue = queue.and_then(|n| self.fs.objset().object(n).ok());
        let queue = queue.and_then(|o| Zap::open(&o).ok());
        for e in queue.iter().flat_map(Zap::entries).filter_map(Result::ok) {
            out.extend(e.u64());
        }
        out
    }

    fn compare_links(&self) {
        let nameless = self.nameless();
        for (number, f) in &self.files {
            let names = self.names.get(number);
            let count = names.map_or(0, |n| n.count);
            let at = || self.at(*number);
            let owner = self.xattr_dirs.get(number);
            if count == 0 && owner.is_none() && !nameless.contains(number) {
                self.sink.put(Issue::Orphan { at: at(), links: f.links });
                continue;
            }
            if count == 0 && owner.is_none() && f.links == 0 {
                continue;
            }
            let others = names.map_or(0, |n| n.kinds) & !kinds_of(f.kind);
            if others != 0 {
                let (name, cause) = (String::new(), "its directory entry has another file type");
                self.sink.put(Issue::BadEntry { at: at(), name, cause });
            }
            let counted = match f.kind {
                FileKind::Dir => f.subdirs + 2,
                _ => count,
            };
            if f.links != counted && !(f.is_xattr && count == 0) {
                self.sink.put(Issue::LinkCount { at: at(), stored: f.links, counted });
            }
            let fits = match names {
                _ if nameless.contains(number) => true,
                _ if f.is_xattr_dir => owner.is_none_or(|o| *o == f.parent),
                // Attributes have one name. Of a file that lost one of several names the parent is
                // not brought up to date, and may by now be the number of something else; but never
                // of the file itself.
                Some(_) if f.kind != FileKind::Dir && !f.is_xattr => {
                    f.parent != *number && f.parent != 0
                }
                Some(n) => n.by.contains(&f.parent),
                None => false,
            };
            if !fits {
                let named = names.and_then(|n| n.by.first().copied());
                let by = if f.is_xattr_dir { owner.copied() } else { named }.unwrap_or(0);
                self.sink.put(Issue::WrongParent { at: at(), parent: f.parent, by });
            }
        }
    }

    fn compare_owners(&self) {
        let phys = self.fs.objset().phys();
        let has = |flag| phys.flags & flag != 0;
        if !has(FLAG_USERACCOUNTING_COMPLETE) {
            // Snapshots stay as they are, and so do pools from before there was accounting.
            if phys.size > OBJSET_SIZE_V1 && !self.name.contains('@') {
                self.sink.put(Issue::NotCounted { dataset: Arc::clone(&self.name) });
            }
            return;
        }
        let tables = self.fs.objset().accounting_objects();
        let kinds = ["user", "group", "project"];
        for (i, (table, kind)) in tables.iter().zip(kinds).enumerate() {
            if i == 2 && !has(FLAG_PROJECTQUOTA_COMPLETE) {
                continue;
            }
            let Some(table) = table else { continue };
            let Some(owners) = self.owners.get(i) else { continue };
            let entries = Zap::open(table).and_then(|z| z.to_vec());
            let Ok(entries) = entries else { continue };
            let (mut bytes, mut objects) = (BTreeMap::new(), BTreeMap::new());
            for e in entries {
                let name = e.name.bytes().and_then(|b| std::str::from_utf8(b).ok());
                let (Some(name), Some(value)) = (name, e.u64()) else { continue };
                let (id, into) = match name.strip_prefix(OBJECT_PREFIX) {
                    Some(id) => (id, &mut objects),
                    None => (name, &mut bytes),
                };
                if let Ok(id) = u64::from_str_radix(id, 16) {
                    into.insert(id, value);
                }
            }
            self.compare(&format!("{kind}used"), &bytes, &owners.bytes);
            if has(FLAG_USEROBJACCOUNTING_COMPLETE) {
                self.compare(&format!("{kind}objused"), &objects, &owners.objects);
            }
        }
    }

    fn compare(&self, table: &str, stored: &BTreeMap<u64, u64>, counted: &BTreeMap<u64, u64>) {
        let ids: std::collections::BTreeSet<u64> =
            stored.keys().chain(counted.keys()).copied().collect();
        for id in ids {
            let of = |m: &BTreeMap<u64, u64>| m.get(&id).copied().unwrap_or(0);
            let (stored, counted) = (of(stored), of(counted));
            if stored != counted {
                let (dataset, owner) = (Arc::clone(&self.name), format!("{table}@{id}"));
                self.sink.put(Issue::OwnerSpace { dataset, owner, stored, counted });
            }
        }
    }
}

/// The kinds by which a directory may name a file, one bit each: its own, and none, as in
/// version 1.
fn kinds_of(kind: FileKind) -> u16 {
    let is_it = |k: &u16| FileKind::from_mode(u64::from(*k) << 12) == kind;
    (0..16).filter(is_it).fold(1, |all, k| all | (1 << k))
}
