//! Directories: listing, lookup, paths.

use crate::error::{Error, Result};
use crate::fs::{CaseSensitivity, Filesystem};
use crate::node::{FileKind, Node};
use dmu::Zap;
use dmu::zap::{Cursor, Match, ZapKey};
use ondisk::znode::Dirent;

/// Entries read at once.
const PAGE: usize = 1024;
/// Symbolic links followed in one path (Linux: 40).
const LINKS_MAX: usize = 40;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name; any bytes but `/` and NUL.
    pub name: Vec<u8>,
    /// Object of the file.
    pub object: u64,
    /// Type of the file as the directory remembers it (0 in version 1).
    pub kind: u8,
}

/// A place among the entries of a directory; the default is before the first. It stays right when
/// the directory is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirCursor(Cursor);

/// Entries of a directory from a [`DirCursor`] on.
pub struct DirPage {
    /// The entries, in no order.
    pub entries: Vec<Result<DirEntry>>,
    /// Where the next page begins; `None` when this is the last one.
    pub next: Option<DirCursor>,
}

/// How a page is read.
type ReadPage = fn(&Node, DirCursor, usize) -> Result<DirPage>;

/// See [`Node::entries`].
pub struct Entries<'n> {
    dir: &'n Node,
    read: ReadPage,
    ready: std::vec::IntoIter<Result<DirEntry>>,
    next: Option<DirCursor>,
}

impl<'n> Entries<'n> {
    fn new(dir: &'n Node, read: ReadPage) -> Result<Self> {
        let DirPage { entries, next } = read(dir, DirCursor::default(), PAGE)?;
        Ok(Self { dir, read, ready: entries.into_iter(), next })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.next() {
                return Some(entry);
            }
            match (self.read)(self.dir, self.next.take()?, PAGE) {
                Ok(page) => {
                    self.next = page.next;
                    self.ready = page.entries.into_iter();
                }
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

impl Node {
    fn table(&self) -> Result<Zap> {
        if self.kind() != FileKind::Dir {
            return Err(Error::NotDirectory(format!("object {}", self.number())));
        }
        // The table of a live file system may have grown since the node was opened.
        match self.filesystem().objset().is_live() {
            true => Ok(Zap::open(&self.object().reopen()?)?),
            false => Ok(Zap::open(self.object())?),
        }
    }

    /// Entries from a place on, `.` and `..` left out: `limit` of them, or a few more. Parts of the
    /// directory that cannot be read are error items among them.
    ///
    /// An entry that is there all the time is met once, whatever else is made and removed between
    /// two pages; one that is made or removed meanwhile is met or not.
    ///
    /// # Errors
    /// It is not a directory, or nothing of it can be read.
    pub fn read_dir(&self, from: DirCursor, limit: usize) -> Result<DirPage> {
        let _lock = self.filesystem().look(self.number());
        self.stored_page(from, limit)
    }

    /// The same of a directory that is not changed meanwhile.
    pub(crate) fn stored_page(&self, from: DirCursor, limit: usize) -> Result<DirPage> {
        let page = self.table()?.page(from.0, limit);
        let entry = |e: dmu::Result<dmu::ZapEntry>| {
            dir_entry(&e?).ok_or_else(|| {
                // Nothing is left out without a word.
                let rule = "an entry of a directory is not a name of a file";
                self.object().error(dmu::ErrorKind::Tree(rule)).into()
            })
        };
        let entries = page.entries.into_iter().map(entry).collect();
        Ok(DirPage { entries, next: page.next.map(DirCursor) })
    }

    /// All entries in no order, read on demand; see [`Self::read_dir`].
    pub fn entries(&self) -> Result<Entries<'_>> {
        Entries::new(self, Self::read_dir)
    }

    /// The entries of a directory that is not changed meanwhile.
    pub(crate) fn stored_entries(&self) -> Result<Entries<'_>> {
        Entries::new(self, Self::stored_page)
    }

    /// The entries sorted by the bytes of their names, or the first error.
    pub fn sorted_entries(&self) -> Result<Vec<DirEntry>> {
        let mut out: Vec<DirEntry> = self.entries()?.collect::<Result<_>>()?;
        out.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(out)
    }

    /// Looks one name up, by the rules of the file system for case and normal forms.
    pub fn lookup(&self, name: &[u8]) -> Result<Option<DirEntry>> {
        let _lock = self.filesystem().look(self.number());
        self.filesystem().find_in(&self.table()?, name, false)
    }
}

fn dir_entry(e: &dmu::ZapEntry) -> Option<DirEntry> {
    let Dirent { object, kind } = Dirent::decode(e.ints().next()?);
    Some(DirEntry { name: e.name.bytes()?.to_vec(), object, kind })
}

impl Filesystem {
    /// Looks a name up in a directory's table, by the rules for case and normal forms. `any_case`:
    /// case does not count, where that is up to the caller.
    pub(crate) fn find_in(
        &self,
        table: &Zap,
        name: &[u8],
        any_case: bool,
    ) -> Result<Option<DirEntry>> {
        let how = match self.case_sensitivity() {
            CaseSensitivity::Mixed if !any_case => Match::NormalizeKeepCase,
            _ => Match::Normalize,
        };
        let key = ZapKey::name(&table.key_hash(), name, how);
        Ok(table.find(&key)?.as_ref().and_then(dir_entry))
    }

    /// The file at a path from the root. `follow`: a symbolic link at the end is followed too;
    /// absolute targets start at this file system's root.
    pub fn by_path(&self, path: &[u8], follow: bool) -> Result<Node> {
        let shown = || String::from_utf8_lossy(path).into_owned();
        let mut todo: Vec<Vec<u8>> = components(path).rev().collect();
        let mut trail = vec![self.root()?];
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == b".." {
                if trail.len() > 1 {
                    trail.pop();
                }
                continue;
            }
            let Some(dir) = trail.last() else { break };
            if dir.kind() != FileKind::Dir {
                return Err(Error::NotDirectory(shown()));
            }
            let entry = dir.lookup(&name)?.ok_or_else(|| Error::NotFound(shown()))?;
            let node = self.node(entry.object)?;
            if node.kind() == FileKind::Symlink && (follow || !todo.is_empty()) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Error::TooManyLinks(shown()));
                }
                let target = node.read_link()?;
                if target.first() == Some(&b'/') {
                    trail.truncate(1);
                }
                todo.extend(components(&target).rev());
                continue;
            }
            trail.push(node);
        }
        trail.pop().ok_or_else(|| Error::NotFound(shown()))
    }
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> + '_ {
    let parts = path.split(|b| *b == b'/');
    parts.filter(|p| !p.is_empty() && *p != b".").map(<[u8]>::to_vec)
}
