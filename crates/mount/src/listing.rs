//! Directories, listed.
//!
//! A place in a directory is the number of the entry behind it, counted from when the directory
//! was opened or the listing began anew. The listing keeps one page of entries, and where each page
//! begins in the table of names: that stays right whatever is made and removed, so a listing that
//! goes on meets every entry once that is there all the time. A program that goes back
//! (`seekdir`) has the page read again.

use crate::attrs::file_type;
use crate::errno::{Done, OrErrno as _};
use crate::front::{Front, Known};
use crate::snapshots::{self, Listed, Manner, Of};
use engine::files::{DirCursor, DirEntry, FileKind};
use engine::{Filesystem, Node};
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
    fn take(&mut self, front: &Front, at: &At, entry: &DirEntry, behind: u64) -> Done<bool>;

    /// Adds a directory that is on no disk.
    fn take_virtual(&mut self, name: &[u8], known: &Known, behind: u64) -> bool;
}

impl Listing for ReplyDirectory {
    fn take(&mut self, _: &Front, at: &At, entry: &DirEntry, behind: u64) -> Done<bool> {
        let kind = match file_type(FileKind::from_mode(u64::from(entry.kind) << 12)) {
            Some(kind) => kind,
            // Old directories do not say.
            None => {
                let node = at.fs.node(entry.object).or_errno()?;
                file_type(node.kind()).ok_or(Errno::EIO)?
            }
        };
        let ino = INodeNo(at.of(entry.object).number());
        Ok(self.add(ino, behind, kind, OsStr::from_bytes(&entry.name)))
    }

    fn take_virtual(&mut self, name: &[u8], known: &Known, behind: u64) -> bool {
        self.add(known.attr.ino, behind, known.attr.kind, OsStr::from_bytes(name))
    }
}

impl Listing for ReplyDirectoryPlus {
    fn take(&mut self, front: &Front, at: &At, entry: &DirEntry, behind: u64) -> Done<bool> {
        let node = match at.fs.node(entry.object).or_errno() {
            // It went since the page was read.
            Err(e) if e.code() == Errno::ENOENT.code() => return Ok(false),
            node => node?,
        };
        let known = front.known(at.of(entry.object), &node)?;
        Ok(self.take_virtual(&entry.name, &known, behind))
    }

    fn take_virtual(&mut self, name: &[u8], known: &Known, behind: u64) -> bool {
        let Known { attr, generation, ttl } = known;
        self.add(attr.ino, behind, OsStr::from_bytes(name), ttl, attr, *generation)
    }
}

/// Where what is listed is: in the file system, or in a snapshot that is looked into.
pub(crate) struct At {
    fs: Filesystem,
    slot: Option<usize>,
}

impl At {
    fn of(&self, object: u64) -> Of {
        self.slot.map_or(Of::Live(object), |slot| Of::Within(slot, object))
    }
}

/// How far a program has listed a directory.
#[derive(Default)]
pub(crate) struct Progress {
    /// The snapshots, where these are listed.
    snapshots: Vec<Listed>,
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
        let at = match self.of(ino) {
            of @ (Of::Control | Of::Listing) => {
                return self.list_virtual(of, handle, place, answer);
            }
            Of::Live(_) => At { fs: self.fs.clone(), slot: None },
            Of::Root(dataset) => {
                let (slot, fs) = self.snapshots()?.root(dataset)?;
                At { fs, slot: Some(slot) }
            }
            Of::Within(slot, _) => At { fs: self.snapshots()?.within(slot)?, slot: Some(slot) },
        };
        let dir = self.node(ino)?;
        let is_root = dir.number() == at.fs.root_object();
        let above = if is_root { dir.number() } else { dir.parent };
        for (behind, name, object) in [(1, ".", dir.number()), (2, "..", above)] {
            let entry = DirEntry { name: name.into(), object, kind: DIRECTORY };
            if place < behind && answer.take(self, &at, &entry, behind)? {
                return Ok(());
            }
        }
        // Its place is there whether it is shown or not, so that no other entry's changes.
        let behind = DOTS + 1;
        if place < behind && is_root && self.is_control_shown() {
            let known = self.virtual_dir(Of::Control, None);
            if answer.take_virtual(snapshots::NAME, &known, behind) {
                return Ok(());
            }
        }
        let first = behind;
        let progress = self.handles.listing(handle).ok_or(Errno::EBADF)?;
        let mut progress = progress.lock();
        if place == 0 {
            // It begins anew.
            *progress = Progress::default();
            self.note_read(ino, &dir);
        }
        let mut number = place.saturating_sub(first);
        loop {
            let entry = match progress.entry(&dir, number) {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                // What was read before it is shown; who goes on meets the error.
                Err(_) if number > place.saturating_sub(first) => return Ok(()),
                Err(e) => return Err(e),
            };
            number += 1;
            if answer.take(self, &at, entry, number.saturating_add(first))? {
                return Ok(());
            }
        }
    }

    /// Whether `.zfs` is listed. In a snapshot it is not: there is none of snapshots.
    fn is_control_shown(&self) -> bool {
        self.snapshots.as_ref().is_some_and(|all| all.manner() == Manner::Visible)
    }

    /// The same for `.zfs` and `.zfs/snapshot`.
    fn list_virtual(
        &self,
        of: Of,
        handle: FileHandle,
        place: u64,
        answer: &mut impl Listing,
    ) -> Done<()> {
        let progress = self.handles.listing(handle).ok_or(Errno::EBADF)?;
        let mut progress = progress.lock();
        if place == 0 && of == Of::Listing {
            progress.snapshots = self.snapshots()?.all()?;
        }
        let above = if of == Of::Listing { Of::Control } else { Of::Live(self.fs.root_object()) };
        let mut entries = vec![
            (&b"."[..], self.virtual_dir(of, None)),
            (&b".."[..], self.virtual_dir(above, None)),
        ];
        if of == Of::Control {
            entries.push((snapshots::BELOW, self.virtual_dir(Of::Listing, None)));
        }
        let listed = progress
            .snapshots
            .iter()
            .map(|one| (one.name.as_bytes(), self.virtual_dir(Of::Root(one.dataset), Some(one))));
        let skipped = usize::try_from(place).unwrap_or(usize::MAX);
        for (behind, (name, known)) in (1..).zip(entries.into_iter().chain(listed)).skip(skipped) {
            if answer.take_virtual(name, &known, behind) {
                break;
            }
        }
        Ok(())
    }
}
