//! Files of somewhere else into a file system: what trees, archives and whatever else are made of.
//!
//! # Theory
//!
//! A file gets its name in the transaction that completes it, its times included. So whatever ends
//! a copy, a name refers to a whole file, and one that has the size and the time of its source was
//! copied whole: it is left as it is, so the same request continues a copy that was interrupted,
//! unless existing files are to be replaced. (Earlier versions of zinc could leave files whose end
//! is missing: see [`Ingest::file`].)
//!
//! The caller supplies the files: it walks its source, names the destination of each file
//! ([`Destination`]) and its attributes ([`Attributes`], a [`NewKind`]), and hands the content on
//! in pieces, without the holes. Directories are made as they are found, and get their times when
//! they are complete; second names ([`Ingest::link`]) come when the first exists.

use crate::error::{Conflict, Error, Hint, Result};
use dmu::{Hold, Tx};
use rt::Progress;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use zpl::write::{OpenFile, WholeFile, XattrMode};
use zpl::{FileKind, Filesystem, NewFile, NewKind, Node, SetAttrs, Time};

/// Bytes written at once. A transaction takes 4 MiB.
pub const CHUNK: usize = 4 << 20;
/// Bytes that a new file makes dirty beside its data, at most but for odd cases.
const HOLD_FILE: u64 = 512 << 10;
/// Extended attributes that are set in the transaction that makes the file, at most: how many, and
/// their bytes.
const XATTRS_AT_ONCE: (usize, usize) = (16, 64 << 10);

/// Callbacks of a copy. They may be called from any thread.
pub trait IngestObserver: Sync {
    /// An attribute could not be kept.
    fn not_kept(&self, file: PathBuf, attribute: &[u8], why: &Error);
    /// A file was made; `file` returns its path.
    fn done(&self, file: &dyn Fn() -> PathBuf);
}

/// Where files go, and how.
///
/// ```
/// # use engine::files::Time;
/// # use engine::ingest::{Attributes, Ingest, IngestObserver, Destination};
/// # use std::path::PathBuf;
/// struct Quiet;
/// impl IngestObserver for Quiet {
///     fn not_kept(&self, _: PathBuf, _: &[u8], _: &engine::Error) {}
///     fn done(&self, _: &dyn Fn() -> PathBuf) {}
/// }
///
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// # let (fs, progress) = (pool.filesystem("tank")?, engine::Progress::new());
/// # let clock = || Time { seconds: 1, nanos: 0 };
/// # let (owner, xattrs, posix_acls) = (true, true, false);
/// # let (fs, progress, clock) = (&fs, &progress, &clock);
/// let (observer, replace, made) = (&Quiet, false, None);
/// let ingest =
///     Ingest { fs, progress, observer, clock, replace, owner, xattrs, posix_acls, made };
/// let shown = || PathBuf::from("letter");
/// let dest = Destination { dir: fs.root_object(), name: b"letter", shown: &shown };
/// // Of ten bytes the first six are a hole.
/// ingest.file(dest, 10, &Attributes::default(), &mut |write| write(6, b"text"))?;
/// assert_eq!(fs.by_path(b"/letter", true)?.size, 10);
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Ingest<'a> {
    /// The file system, which is open for writing.
    pub fs: &'a Filesystem,
    /// Receives the progress; cancelling it stops the copy.
    pub progress: &'a Progress,
    /// Notified of what happens to each file.
    pub observer: &'a dyn IngestObserver,
    /// Returns the current time.
    pub clock: &'a (dyn Fn() -> Time + Sync),
    /// Replace files that are there and are different.
    pub replace: bool,
    /// Keep owners, and with them set-id bits.
    pub owner: bool,
    /// Keep extended attributes.
    pub xattrs: bool,
    /// The dataset has POSIX access lists.
    pub posix_acls: bool,
    /// Objects this copy made, of which a later one of the same name takes the place, as in
    /// archives that were appended to; `None` where names are not repeated.
    pub made: Option<Mutex<HashSet<u64>>>,
}

/// What a name of the target refers to.
enum NameState {
    /// Nothing, or what will be replaced.
    Free(Option<u64>),
    /// A whole copy.
    Whole(u64),
}

/// Attributes of a file to be made.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    /// Permissions with set-id and sticky bits.
    pub mode: u32,
    /// The number of its owner.
    pub uid: u64,
    /// The number of its group.
    pub gid: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Extended attributes by the names Linux shows.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Writes a piece of content at its offset.
pub type Write<'a> = dyn FnMut(u64, &[u8]) -> Result<()> + 'a;

/// Whether a node is what would be made: a link to the same target, or a pipe, socket or device
/// with the time of its source.
fn is_same_special(node: &Node, kind: &NewKind, mtime: Time) -> bool {
    let same_kind = match kind {
        NewKind::Symlink(target) => {
            let is_link = node.kind() == FileKind::Symlink;
            return is_link && node.read_link().is_ok_and(|link| link == *target);
        }
        NewKind::Fifo => node.kind() == FileKind::Fifo,
        NewKind::Socket => node.kind() == FileKind::Socket,
        NewKind::Block(major, minor) => {
            node.kind() == FileKind::Block && node.device() == (*major, *minor)
        }
        NewKind::Char(major, minor) => {
            node.kind() == FileKind::Char && node.device() == (*major, *minor)
        }
        NewKind::File | NewKind::Dir => false,
    };
    same_kind && node.mtime == mtime
}

/// Gives the pieces of a file's content to what it is called with.
pub type Fill<'a> = dyn FnMut(&mut Write<'_>) -> Result<()> + 'a;

/// A file to be made: which name of which directory, and how messages call it.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// The directory's object.
    pub dir: u64,
    /// The name in it.
    pub name: &'a [u8],
    /// How messages call it.
    pub shown: &'a dyn Fn() -> PathBuf,
}

/// A piece of content, with its offset.
type Piece = (u64, Vec<u8>);

impl Ingest<'_> {
    fn new_file(&self, kind: NewKind, a: &Attributes) -> NewFile {
        let (uid, gid) = if self.owner { (a.uid, a.gid) } else { (0, 0) };
        // Set-id bits are for the owner they were given to, and no other.
        let mask = if self.owner { 0o7777 } else { 0o1777 };
        NewFile { kind, mode: a.mode & mask, uid, gid, now: (self.clock)() }
    }

    /// The directory of that name, made when it is not there.
    pub fn dir(&self, dest: Destination<'_>, a: &Attributes) -> Result<u64> {
        if let Some(entry) = self.fs.node(dest.dir)?.lookup(dest.name)? {
            let node = self.fs.node(entry.object)?;
            return match node.kind() {
                FileKind::Dir => Ok(node.number()),
                _ => Err(Conflict::File.into()),
            };
        }
        let new = self.new_file(NewKind::Dir, a);
        Ok(self.fs.create(dest.dir, dest.name, &new)?.number())
    }

    /// Gives a directory, which is there, its attributes but for the times; those come when all is
    /// in it ([`Self::times`]).
    pub fn set_attributes(&self, object: u64, a: &Attributes, dest: Destination<'_>) -> Result<()> {
        let now = (self.clock)();
        let mask = if self.owner { 0o7777 } else { 0o1777 };
        let set = SetAttrs { mode: Some(a.mode & mask), ..self.owners(a) };
        self.fs.set_attrs(object, &set, now)?;
        for (name, value) in self.kept_xattrs(a) {
            self.note(
                dest,
                name,
                self.check_xattr(name)
                    .and_then(|()| self.fs.set_xattr(object, name, value, XattrMode::Any, now)),
            );
        }
        Ok(())
    }

    /// Gives a directory its times.
    pub fn times(&self, object: u64, atime: Time, mtime: Time) -> Result<()> {
        let set = SetAttrs { atime: Some(atime), mtime: Some(mtime), ..SetAttrs::default() };
        Ok(self.fs.set_attrs(object, &set, (self.clock)())?)
    }

    /// Owner and group: where the directory's group was taken over, or a mask applied.
    fn owners(&self, a: &Attributes) -> SetAttrs {
        let (uid, gid) = if self.owner { (Some(a.uid), Some(a.gid)) } else { (None, None) };
        SetAttrs { uid, gid, ..SetAttrs::default() }
    }

    fn kept_xattrs<'x>(
        &self,
        a: &'x Attributes,
    ) -> impl Iterator<Item = (&'x Vec<u8>, &'x Vec<u8>)> + use<'x> {
        let wanted = self.xattrs;
        a.xattrs.iter().filter(move |_| wanted)
    }

    fn check_xattr(&self, name: &[u8]) -> zpl::Result<()> {
        match name.starts_with(b"system.posix_acl_") && !self.posix_acls {
            true => Err(zpl::Error::refused(zpl::Unsupported::AclOff)),
            false => Ok(()),
        }
    }

    fn note(&self, dest: Destination<'_>, name: &[u8], set: zpl::Result<()>) {
        if let Err(e) = set {
            self.observer.not_kept((dest.shown)(), name, &e.into());
        }
    }

    /// Decides what to do about a name that a file is to get.
    fn room(&self, dest: Destination<'_>, same: impl Fn(&Node) -> bool) -> Result<NameState> {
        let there = self.fs.node(dest.dir)?.lookup(dest.name)?;
        let Some(entry) = there else { return Ok(NameState::Free(None)) };
        let node = self.fs.node(entry.object)?;
        if node.kind() == FileKind::Dir {
            return Err(Conflict::Directory.into());
        }
        if same(&node) {
            return Ok(NameState::Whole(entry.object));
        }
        if !self.replace && !self.made_here(entry.object) {
            return Err(Error::from(Conflict::Different).with_hint(Hint::Replace));
        }
        Ok(NameState::Free(Some(entry.object)))
    }

    fn made_here(&self, object: u64) -> bool {
        let made = self.made.as_ref().map(|m| m.lock().unwrap_or_else(PoisonError::into_inner));
        made.is_some_and(|m| m.contains(&object))
    }

    /// One more was made.
    fn done(&self, object: u64, over: Option<u64>, dest: Destination<'_>) {
        if over.is_some() {
            self.fs.free_left();
        }
        if let Some(made) = &self.made {
            let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
            over.inspect(|o| {
                made.remove(o);
            });
            made.insert(object);
        }
        self.progress.add(1, 0);
        self.observer.done(dest.shown);
    }

    /// Makes a file that has no content; its object.
    pub fn special(&self, dest: Destination<'_>, kind: NewKind, a: &Attributes) -> Result<u64> {
        let over = match self.room(dest, |node| is_same_special(node, &kind, a.mtime))? {
            NameState::Free(over) => over,
            NameState::Whole(object) => return Ok(object),
        };
        let new = self.new_file(kind, a);
        match self.fits_at_once(a) {
            true => self.at_once(dest, &new, a, (0, &[]), over),
            false => self.in_steps(dest, &new, a, 0, over, &mut |_| Ok(())),
        }
    }

    /// Makes a regular file of `size` bytes; its object. `fill` calls for each piece of content,
    /// with its offset; what it leaves out stays a hole.
    pub fn file(
        &self,
        dest: Destination<'_>,
        size: u64,
        a: &Attributes,
        fill: &mut Fill<'_>,
    ) -> Result<u64> {
        let same = |node: &Node| {
            node.kind() == FileKind::File && node.size == size && node.mtime == a.mtime
        };
        let over = match self.room(dest, same)? {
            NameState::Free(over) => over,
            NameState::Whole(object) => match self.missing_end(object)? {
                // Of two members of one archive the later counts, whatever they contain. A file to
                // replace may be damaged, or have other content, mode or owner.
                _ if self.made_here(object) || self.replace => Some(object),
                Some(end) if !is_empty_from(end, fill)? => {
                    return Err(Error::from(Conflict::EndMissing).with_hint(Hint::Replace));
                }
                _ => return Ok(object),
            },
        };
        let new = self.new_file(NewKind::File, a);
        if size > CHUNK as u64 || !self.fits_at_once(a) {
            return self.in_steps(dest, &new, a, size, over, fill);
        }
        let mut pieces: Vec<Piece> = Vec::new();
        fill(&mut |offset, bytes| {
            pieces.push((offset, bytes.to_vec()));
            Ok(self.progress.check()?)
        })?;
        self.at_once(dest, &new, a, (size, &pieces), over)
    }

    fn fits_at_once(&self, a: &Attributes) -> bool {
        let bytes: usize = self.kept_xattrs(a).map(|(n, v)| n.len() + v.len()).sum();
        self.kept_xattrs(a).count() <= XATTRS_AT_ONCE.0 && bytes <= XATTRS_AT_ONCE.1
    }

    /// Where the content of a file ends whose last block is a hole; `None` for any other. Earlier
    /// versions made such files of sources that ended too early.
    fn missing_end(&self, object: u64) -> Result<Option<u64>> {
        let node = self.fs.node(object)?;
        let block = node.object().dnode().block_size();
        let Some(last) = node.size.checked_sub(1).and_then(|n| n.checked_div(block)) else {
            return Ok(None);
        };
        if node.object().next_block(last).map_err(|(e, _)| e)?.is_some() {
            return Ok(None);
        }
        Ok(Some(node.segments()?.last().map_or(0, |s| s.offset.saturating_add(s.length))))
    }

    /// Makes a file in one transaction.
    fn at_once(
        &self,
        dest: Destination<'_>,
        new: &NewFile,
        a: &Attributes,
        (size, pieces): (u64, &[Piece]),
        over: Option<u64>,
    ) -> Result<u64> {
        let bytes: usize = pieces.iter().map(|(_, b)| b.len()).sum();
        if over.is_none() && self.kept_xattrs(a).next().is_none() {
            let set = SetAttrs { atime: Some(a.atime), mtime: Some(a.mtime), ..self.owners(a) };
            // A source may have grown since its size was read.
            let ends = pieces.iter().map(|(at, b)| at.saturating_add(b.len() as u64));
            let size = ends.max().map_or(size, |end| end.max(size));
            let object = {
                let tx = self.fs.begin(Hold::write(HOLD_FILE + bytes as u64))?;
                let whole = WholeFile { new, set: &set, size, pieces };
                self.fs.create_whole_tx(&tx, (dest.dir, dest.name), &whole, (self.clock)())?
            };
            self.progress.add(0, bytes as u64);
            self.done(object, None, dest);
            return Ok(object);
        }
        let xattrs: u64 = self.kept_xattrs(a).map(|(_, v)| (64 << 10) + v.len() as u64).sum();
        let file: OpenFile;
        {
            let tx = self.fs.begin(Hold::write(HOLD_FILE + xattrs + bytes as u64))?;
            file = self.fs.create_unnamed_tx(&tx, dest.dir, new)?;
            let object = file.object();
            let mut end = 0;
            for (offset, bytes) in pieces {
                self.fs.write_at_tx(&tx, object, *offset, bytes, new.now)?;
                end = end.max(offset.saturating_add(bytes.len() as u64));
            }
            if end < size {
                self.fs.truncate_tx(&tx, object, size, new.now)?;
            }
            self.finish(&tx, object, a, dest, over)?;
        }
        self.progress.add(0, bytes as u64);
        self.done(file.object(), over, dest);
        Ok(file.object())
    }

    /// The last of a file: attributes and its name.
    fn finish(
        &self,
        tx: &Tx,
        object: u64,
        a: &Attributes,
        dest: Destination<'_>,
        over: Option<u64>,
    ) -> Result<()> {
        let now = (self.clock)();
        if self.fits_at_once(a) {
            for (name, value) in self.kept_xattrs(a) {
                self.note(
                    dest,
                    name,
                    self.check_xattr(name).and_then(|()| {
                        self.fs.set_xattr_tx(tx, object, name, value, XattrMode::Any, now)
                    }),
                );
            }
        }
        let set = SetAttrs { atime: Some(a.atime), mtime: Some(a.mtime), ..self.owners(a) };
        self.fs.set_attrs_tx(tx, object, &set, now)?;
        Ok(self.fs.give_name_tx(tx, object, (dest.dir, dest.name), over, now)?)
    }

    /// Makes a file in many transactions, of which the last gives it its name.
    fn in_steps(
        &self,
        dest: Destination<'_>,
        new: &NewFile,
        a: &Attributes,
        size: u64,
        over: Option<u64>,
        fill: &mut Fill<'_>,
    ) -> Result<u64> {
        let file = self.fs.create_unnamed(dest.dir, new)?;
        let object = file.object();
        let mut end = 0;
        fill(&mut |offset, bytes| {
            self.progress.check()?;
            self.fs.write_at(object, offset, bytes, new.now)?;
            end = end.max(offset.saturating_add(bytes.len() as u64));
            self.progress.add(0, bytes.len() as u64);
            Ok(())
        })?;
        if end < size {
            self.fs.truncate(object, size, new.now)?;
        }
        if !self.fits_at_once(a) {
            for (name, value) in self.kept_xattrs(a) {
                self.progress.check()?;
                self.note(
                    dest,
                    name,
                    self.check_xattr(name).and_then(|()| {
                        self.fs.set_xattr(object, name, value, XattrMode::Any, new.now)
                    }),
                );
            }
        }
        {
            let tx = self.fs.begin(Hold::write(HOLD_FILE * 2))?;
            self.finish(&tx, object, a, dest, over)?;
        }
        self.done(object, over, dest);
        Ok(object)
    }

    /// Gives a file a second name.
    pub fn link(&self, object: u64, dest: Destination<'_>) -> Result<()> {
        let room = self.room(dest, |node| node.number() == object)?;
        if let NameState::Free(over) = room {
            let now = (self.clock)();
            let tx = self.fs.begin(Hold::write(HOLD_FILE))?;
            if over.is_some() {
                self.fs.unlink_tx(&tx, dest.dir, dest.name, now)?;
            }
            self.fs.link_tx(&tx, object, dest.dir, dest.name, now)?;
        }
        // The file may have been there before: it does not count as made.
        self.progress.add(1, 0);
        self.observer.done(dest.shown);
        Ok(())
    }
}

/// Whether content has nothing but zeros from `end` on.
fn is_empty_from(end: u64, fill: &mut Fill<'_>) -> Result<bool> {
    let mut empty = true;
    fill(&mut |offset, bytes| {
        let skip = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        empty &= bytes.get(skip..).unwrap_or_default().iter().all(|b| *b == 0);
        Ok(())
    })?;
    Ok(empty)
}
