//! Directories, listed.
//!
//! A place in a directory is the number of the entry behind it, counted from when the directory
//! was opened or the listing began anew. The listing keeps one page of entries, and where each page
//! begins in the table of names: that stays right whatever is made and removed, so a listing that
//! goes on meets every entry once that is there all the time. A program that goes back
//! (`seekdir`) has the page read again.

use crate::attrs::{attributes, file_type, generation};
use crate::errno::{Done, OrErrno as _};
use crate::front::Front;
use engine::Node;
use engine::files::{DirCursor, DirEntry, FileKind};
use fuser::{Errno, FileHandle, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Numbers of places before those of the table: behind `.`, and behind `..`.
const DOTS: u64 = 2;
/// What an entry says of a directory.
const DIRECTORY: u8 = 4;
/// Entries that are read at once.
const PAGE: usize = 512;

/// An answer that takes entries.
pub(crate) trait Listing {
    /// Adds an entry, and the number of the place behind it; whether the answer was full.
    fn take(&mut self, front: &Front, entry: &DirEntry, behind: u64) -> Done<bool>;
}

impl Listing for ReplyDirectory {
    fn take(&mut self, front: &Front, entry: &DirEntry, behind: u64) -> Done<bool> {
        let kind = match file_type(FileKind::from_mode(u64::from(entry.kind) << 12)) {
            Some(kind) => kind,
            // Old directories do not say.
            None => {
                let node = front.fs.node(entry.object).or_errno()?;
                file_type(node.kind()).ok_or(Errno::EIO)?
            }
        };
        Ok(self.add(INodeNo(entry.object), behind, kind, OsStr::from_bytes(&entry.name)))
    }
}

impl Listing for ReplyDirectoryPlus {
    fn take(&mut self, front: &Front, entry: &DirEntry, behind: u64) -> Done<bool> {
        let node = match front.fs.node(entry.object).or_errno() {
            // It went since the page was read.
            Err(e) if e.code() == Errno::ENOENT.code() => return Ok(false),
            node => node?,
        };
        let attr = attributes(&node).ok_or(Errno::EIO)?;
        let name = OsStr::from_bytes(&entry.name);
        Ok(self.add(attr.ino, behind, name, &front.ttl(), &attr, generation(&node)))
    }
}

/// How far a program has listed a directory.
#[derive(Default)]
pub(crate) struct Progress {
    /// Where pages begin: the number of the first entry, and its place in the table.
    starts: Vec<(u64, DirCursor)>,
    /// The page that was read last: which of them, and its entries.
    page: Option<(usize, Vec<DirEntry>)>,
    /// Entries of all pages, when the end was met.
    end: Option<u64>,
}

impl Progress {
    /// The entry of this number; `None` behind the last.
    fn entry(&mut self, dir: &Node, number: u64) -> Done<Option<&DirEntry>> {
        loop {
            if self.end.is_some_and(|end| number >= end) {
                return Ok(None);
            }
            let known = self.starts.partition_point(|(first, _)| *first <= number);
            let index = known.saturating_sub(1);
            if self.page.as_ref().is_none_or(|(read, _)| *read != index) {
                self.read(dir, index)?;
            }
            let first = self.starts.get(index).map_or(0, |(first, _)| *first);
            let Some((_, entries)) = &self.page else { return Err(Errno::EIO) };
            let at = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
            if at < entries.len() {
                break;
            }
            // A page that is shorter than when it was read first ends where the next one begins.
            match self.starts.get(index + 1) {
                Some((next, _)) if *next > number => return Ok(None),
                Some(_) => {}
                None => self.end = Some(first.saturating_add(entries.len() as u64)),
            }
        }
        let first = self.page.as_ref().and_then(|(i, _)| self.starts.get(*i)).map_or(0, |s| s.0);
        let at = usize::try_from(number - first).unwrap_or(usize::MAX);
        Ok(self.page.as_ref().and_then(|(_, entries)| entries.get(at)))
    }

    /// Reads the page that begins at a known place, and notes where the one behind it does.
    fn read(&mut self, dir: &Node, index: usize) -> Done<()> {
        if self.starts.is_empty() {
            self.starts.push((0, DirCursor::default()));
        }
        let Some(&(first, from)) = self.starts.get(index) else { return Err(Errno::EIO) };
        let page = dir.read_dir(from, PAGE).or_errno()?;
        let mut entries = Vec::with_capacity(page.entries.len());
        for entry in page.entries {
            entries.push(entry.or_errno()?);
        }
        if let (Some(next), true) = (page.next, self.starts.len() == index + 1) {
            self.starts.push((first.saturating_add(entries.len() as u64), next));
        }
        self.page = Some((index, entries));
        Ok(())
    }
}

impl Front {
    /// Fills an answer with the entries from a place on.
    pub(crate) fn list(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        place: u64,
        answer: &mut impl Listing,
    ) -> Done<()> {
        let dir = self.node(ino)?;
        let is_root = dir.number() == self.fs.root_object();
        let above = if is_root { dir.number() } else { dir.parent };
        for (behind, name, object) in [(1, ".", dir.number()), (2, "..", above)] {
            let entry = DirEntry { name: name.into(), object, kind: DIRECTORY };
            if place < behind && answer.take(self, &entry, behind)? {
                return Ok(());
            }
        }
        let progress = self.handles.listing(handle).ok_or(Errno::EBADF)?;
        let mut progress = progress.lock();
        if place == 0 {
            // It begins anew.
            *progress = Progress::default();
            self.note_read(&dir);
        }
        let mut number = place.saturating_sub(DOTS);
        loop {
            let entry = match progress.entry(&dir, number) {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                // What was read before it is shown; who goes on meets the error.
                Err(_) if number > place.saturating_sub(DOTS) => return Ok(()),
                Err(e) => return Err(e),
            };
            number += 1;
            if answer.take(self, entry, number.saturating_add(DOTS))? {
                return Ok(());
            }
        }
    }
}
