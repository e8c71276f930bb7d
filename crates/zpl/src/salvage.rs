//! File systems of which small common objects are lost: opened with what the rest still says.
//!
//! The master node, the registry of attributes and their layouts are a few KiB, and every file is
//! found and understood by them. What they say is also written elsewhere: the objects have types,
//! new file systems get the same numbers for the same attributes, a bonus shows its layout by its
//! size and its values (`ondisk::sa::places`), and the root directory is its own parent. Specified
//! in `docs/format/zpl.md` and `docs/format/sa.md`.
//!
//! Each of these is a guess, so all are reported ([`Fallback`]), and only a caller that asks for it
//! gets them.

use crate::dir::DirCursor;
use crate::error::{Error, Result};
use crate::fallback::Fallback;
use crate::fs::{CaseSensitivity, Filesystem, Reading, Tables, fuid_table};
use crate::node::{FileKind, Node};
use crate::volume::Volume;
use dmu::{Objset, Zap, ZapEntry};
use ondisk::fuid::{self, FuidTable};
use ondisk::sa::{LAYOUTS, MASTER_NODE_ENTRY, REGISTRY, SaTables};
use ondisk::znode::{MASTER_NODE, ZPL_VERSION_MAX, ZPL_VERSION_SA, flags, master};
use ondisk::{DmuType, ObjsetKind};
use std::collections::HashMap;
use std::sync::Arc;

/// Object of the root directory in file systems that OpenZFS made.
const USUAL_ROOT: u64 = 34;

/// Whether the few objects can be read by which everything else in an object set is found: of a
/// file system the master node, the tables of attributes and the root directory, of a volume its
/// size. Of what is encrypted, and whose key is not loaded, nothing is known.
///
/// # Errors
/// One of them cannot be read.
pub fn must_open(objset: &Objset) -> Result<()> {
    let opened = match objset.phys().kind {
        ObjsetKind::Zfs => Filesystem::open(objset.clone())
            .and_then(|fs| fs.root()?.read_dir(DirCursor::default(), 1).map(drop)),
        ObjsetKind::Zvol => Volume::open(objset).map(drop),
        _ => Ok(()),
    };
    match opened {
        Err(Error::Dmu(e)) if e.is_no_key() => Ok(()),
        Err(Error::Version(_)) => Ok(()),
        other => other,
    }
}

impl Filesystem {
    /// Opens the file system in `objset` even where objects are lost that it cannot be used
    /// without. Its files, too, are read without what is lost of them ([`Node::lost`]).
    ///
    /// # Errors
    /// It is no file system, its version is not known, or it is encrypted and locked.
    pub fn salvage(objset: Objset) -> Result<(Self, Vec<Fallback>)> {
        match Self::open(objset.clone()) {
            Ok(mut fs) => {
                fs.read_as(Reading::Salvage);
                Ok((fs, Vec::new()))
            }
            Err(e @ (Error::WrongKind { .. } | Error::Version(_))) => Err(e),
            Err(Error::Dmu(e)) if e.is_no_key() => Err(e.into()),
            Err(e) => Salvage { objset, fallbacks: Vec::new() }.run(&e),
        }
    }
}

/// The entries of a table that can be read, and why not all can.
struct Partial {
    entries: Vec<ZapEntry>,
    failure: Option<String>,
}

impl Partial {
    fn read(objset: &Objset, number: Option<u64>) -> Self {
        let Some(number) = number else {
            let failure = Some("no object of this type is found".to_owned());
            return Self { entries: Vec::new(), failure };
        };
        let table = match objset.object(number).and_then(|object| Zap::open(&object)) {
            Ok(table) => table,
            Err(e) => return Self { entries: Vec::new(), failure: Some(e.to_string()) },
        };
        let (mut entries, mut failure) = (Vec::new(), None);
        for entry in table.entries() {
            match entry {
                Ok(entry) => entries.push(entry),
                Err(e) => failure = failure.or_else(|| Some(e.to_string())),
            }
        }
        Self { entries, failure }
    }

    fn word(&self, name: &str) -> Option<u64> {
        let entry = self.entries.iter().find(|e| e.name.bytes() == Some(name.as_bytes()));
        entry.and_then(ZapEntry::u64)
    }
}

/// Objects of a file system that there is one of, found by their types.
#[derive(Default)]
struct ByKind {
    attributes: Option<u64>,
    registry: Option<u64>,
    layouts: Option<u64>,
    domains: Option<u64>,
    has_attributes: bool,
}

impl ByKind {
    fn find(objset: &Objset) -> Self {
        let mut found = Self::default();
        for object in objset.objects().flatten() {
            let place = match object.dnode().kind {
                DmuType::SA_MASTER_NODE => &mut found.attributes,
                DmuType::SA_ATTR_REGISTRATION => &mut found.registry,
                DmuType::SA_ATTR_LAYOUTS => &mut found.layouts,
                DmuType::FUID => &mut found.domains,
                _ => {
                    found.has_attributes |= object.dnode().bonus_kind == DmuType::SA;
                    continue;
                }
            };
            place.get_or_insert(object.number());
        }
        found
    }
}

/// A file system that does not open.
struct Salvage {
    objset: Objset,
    fallbacks: Vec<Fallback>,
}

impl Salvage {
    fn note(&mut self, lost: &'static str, instead: &str, cause: Option<String>) {
        let instead = instead.to_owned();
        self.fallbacks.extend(cause.map(|cause| Fallback { lost, instead, cause }));
    }

    /// Opens it; `failure` is why it did not open.
    fn run(mut self, failure: &Error) -> Result<(Filesystem, Vec<Fallback>)> {
        let by_kind = ByKind::find(&self.objset);
        let master = Partial::read(&self.objset, Some(MASTER_NODE));
        self.note("the master node", "tables are found by their types", master.failure.clone());
        let version = match master.word(master::VERSION) {
            Some(known) if known == 0 || known > ZPL_VERSION_MAX => {
                return Err(Error::Version(known));
            }
            Some(known) => known,
            None if by_kind.has_attributes => ZPL_VERSION_MAX,
            None => ZPL_VERSION_SA - 1,
        };
        let sa = (version >= ZPL_VERSION_SA).then(|| Arc::new(self.attributes(&master, &by_kind)));
        let root = master.word(master::ROOT);
        let tables = Tables {
            version,
            sa,
            root: root.unwrap_or(0),
            case: CaseSensitivity::from_word(master.word(master::CASESENSITIVITY)),
            normalization: master.word(master::NORMALIZATION).unwrap_or(0),
            utf8_only: false,
            fuids: self.domains(&master, &by_kind),
        };
        let mut fs = Filesystem::with_tables(self.objset.clone(), tables, false, Reading::Guess);
        if root.is_none() {
            let found = find_root(&fs);
            fs.set_root(found);
            let instead = format!("object {found} is taken for it");
            self.note("which directory is the root", &instead, Some(failure.to_string()));
        }
        if self.fallbacks.is_empty() {
            let instead = "what can be read of them is used";
            self.note("the tables of the file system", instead, Some(failure.to_string()));
        }
        Ok((fs, self.fallbacks))
    }

    /// The tables of attributes, as far as they can be read.
    fn attributes(&mut self, master: &Partial, by_kind: &ByKind) -> SaTables {
        let number = master.word(MASTER_NODE_ENTRY).or(by_kind.attributes);
        let table = Partial::read(&self.objset, number);
        let instead = "registry and layouts are found by their types";
        self.note("the table of attribute tables", instead, table.failure.clone());
        let registry = table.word(REGISTRY).or(by_kind.registry);
        let registry = Partial::read(&self.objset, registry);
        let instead = "attributes get the numbers that OpenZFS gives them in a new file system";
        self.note("the registry of attributes", instead, registry.failure);
        let layouts = table.word(LAYOUTS).or(by_kind.layouts);
        let layouts = Partial::read(&self.objset, layouts);
        let instead = "attributes are found by their sizes and values";
        self.note("the layouts of attributes", instead, layouts.failure);
        let registry = registry.entries.iter().filter_map(|e| Some((e.name.bytes()?, e.u64()?)));
        let layouts = layouts.entries.iter().filter_map(|e| Some((e.name.bytes()?, e.ints())));
        SaTables::completed(registry, layouts)
    }

    /// The domains of owners from elsewhere.
    fn domains(&mut self, master: &Partial, by_kind: &ByKind) -> FuidTable {
        let known = master.word(fuid::MASTER_NODE_ENTRY);
        let number = known.or(by_kind.domains.filter(|_| master.failure.is_some()));
        fuid_table(&self.objset, number).unwrap_or_else(|e| {
            let instead = "their owners have numbers without domains";
            self.note("the domains of users from elsewhere", instead, Some(e.to_string()));
            FuidTable::default()
        })
    }
}

/// The directory that is its own parent, and has most in it: the directory of shares is its own
/// parent, too. Where there is none, the object that most files name as theirs.
fn find_root(fs: &Filesystem) -> u64 {
    let mut named: HashMap<u64, u64> = HashMap::new();
    let mut own_parents = Vec::new();
    let files = fs.objset().objects().flatten().filter_map(|o| Node::from_object(fs, o).ok());
    for node in files.filter(|node| node.flags & flags::XATTR == 0 && node.parent != 0) {
        if node.parent != node.number() {
            *named.entry(node.parent).or_default() += 1;
        } else if node.kind() == FileKind::Dir {
            own_parents.push(node.number());
        }
    }
    let count = |number: &u64| (named.get(number).copied(), std::cmp::Reverse(*number));
    let is_lost = |number: &&u64| fs.objset().object(**number).is_err();
    let lost = || named.keys().filter(is_lost).copied().max_by_key(count);
    own_parents.into_iter().max_by_key(count).or_else(lost).unwrap_or(USUAL_ROOT)
}
