//! Directories, listed.
//!
//! A place in a directory is the number of the entry behind it, counted from when the directory was
//! opened or the listing restarted. The listing keeps one page of entries, and where each page
//! begins in the table of names: that stays right whatever is made and removed, so a listing meets
//! every entry once that exists all the time. A program that goes back (`seekdir`) has the page
//! read again.

use crate::attrs::type_of;
use crate::errno::{FuseResult, OrErrno as _};
use crate::kernel::{Entries, Errno, FileHandle, INodeNo, file_type};
use crate::progress::Progress;
use crate::served::Front;
use crate::snapshots::{self, InodeTarget};
use engine::Filesystem;
use engine::files::{DirEntry, FileKind};

/// Numbers of places before those of the table: behind `.`, and behind `..`.
const DOTS: u64 = 2;

/// Where what is listed is: in the file system, or in a snapshot that is looked into.
pub(crate) struct ListedIn {
    fs: Filesystem,
    slot: Option<usize>,
}

impl ListedIn {
    fn of(&self, object: u64) -> InodeTarget {
        self.slot.map_or(InodeTarget::Live(object), |slot| InodeTarget::Within(slot, object))
    }
}

/// An answer in the making, and what it is about.
struct Listing<'a> {
    front: &'a Front,
    at: &'a ListedIn,
    entries: &'a mut Entries,
}

impl Listing<'_> {
    /// Adds an entry, and the number of the place behind it; whether the answer was full.
    ///
    /// A file that cannot be read is listed: a program that looks at it gets the error, and one
    /// that does not has lost nothing.
    fn take(&mut self, entry: &DirEntry, behind: u64) -> bool {
        let of = self.at.of(entry.object);
        let stored = type_of(FileKind::from_mode(u64::from(entry.kind) << 12));
        // Old directories do not say of what type an entry is.
        if self.entries.is_plus || stored.is_none() {
            let node = self.at.fs.node(entry.object).or_errno();
            match node.and_then(|node| self.front.known(of, &node)) {
                Ok(known) => return self.entries.add_known(&known, behind, &entry.name),
                // It went since the page was read.
                Err(Errno::ENOENT) => return false,
                Err(_) => {}
            }
        }
        let kind = stored.unwrap_or(file_type::UNKNOWN);
        self.entries.add(INodeNo(of.number()), behind, kind, &entry.name)
    }
}

impl Front {
    /// Fills an answer with the entries from a place on.
    pub(crate) fn list(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        place: u64,
        answer: &mut Entries,
    ) -> FuseResult<()> {
        let at = match self.of(ino) {
            of @ (InodeTarget::Control | InodeTarget::Listing | InodeTarget::Shares) => {
                return self.list_virtual(of, handle, place, answer);
            }
            InodeTarget::Live(_) => ListedIn { fs: self.fs.clone(), slot: None },
            InodeTarget::Root(dataset) => {
                let (slot, fs) = self.snapshots()?.root(dataset)?;
                ListedIn { fs, slot: Some(slot) }
            }
            InodeTarget::Within(slot, _) => {
                ListedIn { fs: self.snapshots()?.within(slot)?, slot: Some(slot) }
            }
        };
        let dir = self.node(ino)?;
        let is_root = dir.number() == at.fs.root_object();
        let above = if is_root { dir.number() } else { dir.parent };
        let mut listing = Listing { front: self, at: &at, entries: answer };
        for (behind, name, object) in [(1, ".", dir.number()), (2, "..", above)] {
            let entry = DirEntry { name: name.into(), object, kind: file_type::DIRECTORY };
            if place < behind && listing.take(&entry, behind) {
                return Ok(());
            }
        }
        // Its place is there whether it is shown or not, so that no other entry's changes.
        let behind = DOTS + 1;
        if place < behind && is_root && self.is_control_shown() {
            let known = self.virtual_dir(InodeTarget::Control, None);
            if listing.entries.add_known(&known, behind, snapshots::NAME) {
                return Ok(());
            }
        }
        let first = behind;
        let progress = self.handles.listing(handle).ok_or(Errno::EBADF)?;
        let mut progress = progress.lock();
        if place == 0 {
            // It restarts.
            *progress = Progress::default();
            self.note_read(ino, &dir);
        }
        let mut number = place.saturating_sub(first);
        loop {
            let entry = match progress.entry(&dir, number) {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                // Entries read before it are shown; a program that continues gets the error.
                Err(_) if number > place.saturating_sub(first) => return Ok(()),
                Err(e) => return Err(e),
            };
            number += 1;
            if listing.take(entry, number.saturating_add(first)) {
                return Ok(());
            }
        }
    }

    /// The same for `.zfs` and the directories in it.
    fn list_virtual(
        &self,
        of: InodeTarget,
        handle: FileHandle,
        place: u64,
        answer: &mut Entries,
    ) -> FuseResult<()> {
        let progress = self.handles.listing(handle).ok_or(Errno::EBADF)?;
        let mut progress = progress.lock();
        if place == 0 && of == InodeTarget::Listing {
            progress.snapshots = self.snapshots()?.all()?;
        }
        let above = match of {
            InodeTarget::Control => InodeTarget::Live(self.fs.root_object()),
            _ => InodeTarget::Control,
        };
        let mut entries = vec![
            (&b"."[..], self.virtual_dir(of, None)),
            (&b".."[..], self.virtual_dir(above, None)),
        ];
        if of == InodeTarget::Control {
            entries.push((snapshots::BELOW, self.virtual_dir(InodeTarget::Listing, None)));
            entries.push((snapshots::SHARES, self.virtual_dir(InodeTarget::Shares, None)));
        }
        let listed = progress.snapshots.iter().map(|one| {
            (one.name.as_bytes(), self.virtual_dir(InodeTarget::Root(one.dataset), Some(one)))
        });
        let skipped = usize::try_from(place).unwrap_or(usize::MAX);
        for (behind, (name, known)) in (1..).zip(entries.into_iter().chain(listed)).skip(skipped) {
            if answer.add_known(&known, behind, name) {
                break;
            }
        }
        Ok(())
    }
}
