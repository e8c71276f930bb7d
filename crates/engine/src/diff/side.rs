//! One of the two states: files by object number, with their paths.

use crate::error::Result;
use dmu::Objset;
use ondisk::DmuType;
use ondisk::znode::flags;
use rt::Progress;
use std::collections::{HashMap, HashSet};
use zpl::{FileKind, Filesystem, Node, Time};

/// Deepest path that is followed upwards: four times what `PATH_MAX` allows.
const DEPTH_MAX: usize = 8192;
/// Names kept in memory; more are read again.
const NAMES_MAX: usize = 1 << 20;

/// A file as one state has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileState {
    /// Its kind.
    pub kind: FileKind,
    /// Tells it from other files that had its object at another time.
    pub generation: u64,
    /// How many names it has.
    pub links: u64,
    /// When it changed.
    pub ctime: Time,
    /// Its path, from where the file system would be mounted, or a placeholder if the path cannot
    /// be found.
    pub path: Vec<u8>,
}

/// One state of the file system.
pub(super) struct Side<'a> {
    fs: Filesystem,
    prefix: Vec<u8>,
    progress: &'a Progress,
    /// Names by object of the directories read so far.
    names: HashMap<u64, HashMap<u64, Vec<u8>>>,
    kept: usize,
    /// A directory that names the object, of files with several names; made when it is needed.
    links: Option<HashMap<u64, u64>>,
    /// Directories from which no way leads up to the root: each is gone up from once.
    lost: HashSet<u64>,
}

impl<'a> Side<'a> {
    /// A state whose paths begin with `prefix`.
    pub(super) fn new(fs: Filesystem, prefix: Vec<u8>, progress: &'a Progress) -> Self {
        let (names, links, lost) = (HashMap::new(), None, HashSet::new());
        Self { fs, prefix, progress, names, kept: 0, links, lost }
    }

    pub(super) fn objset(&self) -> &Objset {
        self.fs.objset()
    }

    /// The file with this object; `None` when there is none, when the object is not a file, or when
    /// the file has no name any more and only waits to be freed.
    pub(super) fn see(&mut self, number: u64) -> Result<Option<FileState>> {
        let object = match self.fs.objset().object(number) {
            Ok(o) => o,
            Err(e) if e.is_absent() => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let is_file = matches!(object.dnode().bonus_kind, DmuType::SA | DmuType::ZNODE);
        if !is_file {
            return Ok(None);
        }
        let node = Node::from_object(&self.fs, object)?;
        if node.links == 0 {
            return Ok(None);
        }
        let path = self.path(&node)?;
        Ok(Some(FileState {
            kind: node.kind(),
            generation: node.generation,
            links: node.links,
            ctime: node.ctime,
            path,
        }))
    }

    /// The path of a file: the names on the way up to the root.
    fn path(&mut self, node: &Node) -> Result<Vec<u8>> {
        let mut above = Vec::new();
        let Some(parts) = self.way_up(node, &mut above)? else {
            if self.lost.len() < NAMES_MAX {
                self.lost.extend(above);
            }
            return Ok(unknown(node.number()));
        };
        let mut path = self.prefix.clone();
        for part in parts.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        if parts.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }

    /// The names, last first; `None` when the way does not lead to the root. `above` takes the
    /// directories on it: one that comes again is a circle.
    fn way_up(&mut self, node: &Node, above: &mut Vec<u64>) -> Result<Option<Vec<Vec<u8>>>> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut seen = HashSet::new();
        let mut number = node.number();
        let mut at = node.clone();
        while number != self.fs.root_object() {
            self.progress.check()?;
            if parts.len() > DEPTH_MAX {
                return Ok(None);
            }
            // The directory of a file's extended attributes has no name.
            if at.flags & flags::XATTR != 0 && at.kind() == FileKind::Dir {
                parts.push(b"<xattrdir>".to_vec());
            } else {
                let mut name = self.name_in(at.parent, number)?;
                if name.is_none() && at.kind() != FileKind::Dir {
                    // The directory it remembers has forgotten it, but another has not.
                    if let Some(other) = self.link_of(number)? {
                        at.parent = other;
                        name = self.name_in(other, number)?;
                    }
                }
                match name {
                    Some(name) => parts.push(name),
                    None => return Ok(None),
                }
            }
            number = at.parent;
            if self.lost.contains(&number) || !seen.insert(number) {
                return Ok(None);
            }
            above.push(number);
            at = match self.fs.node(number) {
                Ok(n) => n,
                Err(_) => return Ok(None),
            };
        }
        Ok(Some(parts))
    }

    /// The directory with the lowest number that names a file; all directories are read once.
    fn link_of(&mut self, object: u64) -> Result<Option<u64>> {
        if self.links.is_none() {
            let mut links = HashMap::new();
            for dir in self.fs.objset().objects() {
                self.progress.check()?;
                let Ok(dir) = dir else { continue };
                let Ok(dir) = Node::from_object(&self.fs, dir) else { continue };
                if dir.kind() != FileKind::Dir || dir.links == 0 || links.len() > NAMES_MAX {
                    continue;
                }
                for e in dir.entries().into_iter().flatten().filter_map(std::result::Result::ok) {
                    links.entry(e.object).or_insert(dir.number());
                }
            }
            self.links = Some(links);
        }
        Ok(self.links.as_ref().and_then(|links| links.get(&object)).copied())
    }

    /// The name of an object in a directory. A file with several names remembers one directory
    /// only; where its name there is gone, `None`.
    fn name_in(&mut self, dir: u64, object: u64) -> zpl::Result<Option<Vec<u8>>> {
        if !self.names.contains_key(&dir) {
            let node = match self.fs.node(dir) {
                Ok(n) if n.kind() == FileKind::Dir => n,
                _ => return Ok(None),
            };
            let entries = node.entries()?.filter_map(std::result::Result::ok);
            let names: HashMap<u64, Vec<u8>> = entries.map(|e| (e.object, e.name)).collect();
            if self.kept + names.len() > NAMES_MAX {
                self.names.clear();
                self.kept = 0;
            }
            self.kept += names.len();
            self.names.insert(dir, names);
        }
        Ok(self.names.get(&dir).and_then(|names| names.get(&object)).cloned())
    }
}

/// The placeholder for a path that cannot be found.
fn unknown(object: u64) -> Vec<u8> {
    format!("???<object#{object}>").into_bytes()
}
