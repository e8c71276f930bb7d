//! Making one file in a pool: what both a tree and an archive are made of.
//!
//! A file gets its name in the transaction that completes it, its times included. So whatever ends
//! a copy, a name stands for a whole file, and one that has the size and the time of its source was
//! copied whole. (Earlier versions of zinc could leave files whose end is missing: see
//! [`Into::file`].)

use crate::cmd::cp::talk::Talk;
use crate::cmd::cp::tree::Room;
use crate::failure::system_text;
use crate::place::printable;
use engine::Filesystem;
use engine::errors::ZplError as Error;
use engine::files::{FileKind, NewFile, NewKind, SetAttrs, Time};
use engine::files::{OpenFile, XattrMode};
use engine::inside::dmu::{Hold, Tx};
use engine::{Cancelled, Progress};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes written at once. A transaction takes 4 MiB.
pub const CHUNK: usize = 4 << 20;
/// What a new file makes dirty beside its data, at most but for odd cases.
const HOLD_FILE: u64 = 512 << 10;
/// Extended attributes that are set in the transaction that makes the file, at most: how many, and
/// their bytes.
const XATTRS_AT_ONCE: (usize, usize) = (16, 64 << 10);

/// Where files go, and how.
pub struct Into<'a> {
    pub fs: &'a Filesystem,
    pub progress: &'a Progress,
    pub talk: &'a Talk,
    /// Replace files that are there and are different.
    pub force: bool,
    pub owner: bool,
    pub xattrs: bool,
    pub posix_acls: bool,
    /// Objects this copy made, of which a later one of the same name takes the place, as in
    /// archives that were appended to; `None` where names are not repeated.
    pub made: Option<Mutex<HashSet<u64>>>,
}

/// Attributes of a file to be made.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    /// Permissions with set-id and sticky bits.
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub atime: Time,
    pub mtime: Time,
    /// Extended attributes by the names Linux shows.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Why a file was not made.
#[derive(Debug)]
pub enum Fault {
    /// What is to be copied cannot be read.
    Source(io::Error),
    /// The pool does not take it.
    Pool(Error),
    /// It is in the way, or what is to be copied contradicts itself.
    InTheWay(&'static str),
    /// The same, with numbers.
    Bad(String),
    /// The copy was told to stop.
    Cancelled,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Source(e) => f.write_str(&system_text(e)),
            Self::Pool(e) => write!(f, "{e}"),
            Self::InTheWay(what) => f.write_str(what),
            Self::Bad(what) => f.write_str(what),
            Self::Cancelled => write!(f, "{Cancelled}"),
        }
    }
}

impl From<Cancelled> for Fault {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Self {
        Self::Source(e)
    }
}

impl From<archive::Error> for Fault {
    fn from(e: archive::Error) -> Self {
        match e {
            archive::Error::Read(e) => Self::Source(e),
            archive::Error::Member { name, cause } => {
                Self::Bad(format!("'{}': {}", printable(&name), Self::from(*cause)))
            }
            e => Self::Bad(e.to_string()),
        }
    }
}

impl From<Error> for Fault {
    fn from(e: Error) -> Self {
        Self::Pool(e)
    }
}

impl Fault {
    /// Nothing more can be written, or shall be: there is no going on with the next file.
    pub fn is_fatal(&self) -> bool {
        use engine::inside::dmu::ErrorKind;
        match self {
            Self::Pool(Error::Dmu(e)) => {
                matches!(e.kind, ErrorKind::NoSpace | ErrorKind::Quota | ErrorKind::Stopped(_))
            }
            Self::Cancelled => true,
            _ => false,
        }
    }
}

/// Writes a piece of content at its offset.
pub type Write<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Fault> + 'a;

/// The time.
pub fn now() -> Time {
    time(SystemTime::now())
}

/// A time of the standard library as one of a pool.
pub fn time(t: SystemTime) -> Time {
    match t.duration_since(UNIX_EPOCH) {
        Ok(d) => Time { seconds: d.as_secs().cast_signed(), nanos: u64::from(d.subsec_nanos()) },
        Err(e) => {
            let (before, nanos) = (e.duration().as_secs(), e.duration().subsec_nanos());
            let seconds = 0i64.saturating_sub_unsigned(before);
            match nanos {
                0 => Time { seconds, nanos: 0 },
                n => {
                    Time { seconds: seconds.saturating_sub(1), nanos: u64::from(1_000_000_000 - n) }
                }
            }
        }
    }
}

/// The name under which a source is copied; `None` when it ends in `/.`, for what is in it.
pub fn last_name(source: &OsStr) -> Option<Vec<u8>> {
    let bytes = source.as_bytes();
    if matches!(bytes, b"." | b"..") || bytes.ends_with(b"/.") || bytes.ends_with(b"/..") {
        return None;
    }
    Path::new(source).file_name().map(|n| n.as_bytes().to_vec())
}

/// Whether a node is what would be made: a link to the same target, or a pipe, socket or device
/// with the time of its source.
fn is_same_special(node: &engine::Node, kind: &NewKind, mtime: Time) -> bool {
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
pub type Fill<'a> = dyn FnMut(&mut Write<'_>) -> Result<(), Fault> + 'a;

/// A file to be made: which name of which directory, and how messages call it.
#[derive(Clone, Copy)]
pub struct Spot<'a> {
    pub dir: u64,
    pub name: &'a [u8],
    pub shown: &'a dyn Fn() -> PathBuf,
}

/// A piece of content, with its offset.
type Piece = (u64, Vec<u8>);

impl Into<'_> {
    fn new_file(&self, kind: NewKind, a: &Attributes) -> NewFile {
        let (uid, gid) = if self.owner { (a.uid, a.gid) } else { (0, 0) };
        // Set-id bits are for the owner they were given to, and nobody else.
        let mask = if self.owner { 0o7777 } else { 0o1777 };
        NewFile { kind, mode: a.mode & mask, uid, gid, now: now() }
    }

    /// The directory of that name, made when it is not there.
    pub fn dir(&self, spot: Spot<'_>, a: &Attributes) -> Result<u64, Fault> {
        if let Some(entry) = self.fs.node(spot.dir)?.lookup(spot.name)? {
            let node = self.fs.node(entry.object)?;
            return match node.kind() {
                FileKind::Dir => Ok(node.number()),
                _ => Err(Fault::InTheWay("a file is in the way of a directory")),
            };
        }
        let new = self.new_file(NewKind::Dir, a);
        Ok(self.fs.create(spot.dir, spot.name, &new)?.number())
    }

    /// Gives a directory, which is there, its attributes but for the times; those come when all is
    /// in it ([`Self::times`]).
    pub fn dress(&self, object: u64, a: &Attributes, spot: Spot<'_>) -> Result<(), Fault> {
        let now = now();
        let mask = if self.owner { 0o7777 } else { 0o1777 };
        let set = SetAttrs { mode: Some(a.mode & mask), ..self.owners(a) };
        self.fs.set_attrs(object, &set, now)?;
        for (name, value) in self.kept_xattrs(a) {
            self.note(
                spot,
                name,
                self.check_xattr(name)
                    .and_then(|()| self.fs.set_xattr(object, name, value, XattrMode::Any, now)),
            );
        }
        Ok(())
    }

    /// Gives a directory its times.
    pub fn times(&self, object: u64, atime: Time, mtime: Time) -> Result<(), Fault> {
        let set = SetAttrs { atime: Some(atime), mtime: Some(mtime), ..SetAttrs::default() };
        Ok(self.fs.set_attrs(object, &set, now())?)
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

    fn check_xattr(&self, name: &[u8]) -> Result<(), Error> {
        match name.starts_with(b"system.posix_acl_") && !self.posix_acls {
            true => Err(Error::Unsupported("the dataset has acltype=off")),
            false => Ok(()),
        }
    }

    fn note(&self, spot: Spot<'_>, name: &[u8], set: Result<(), Error>) {
        if let Err(e) = set {
            self.talk.not_kept((spot.shown)().as_os_str().as_bytes(), name, &e);
        }
    }

    /// What is to be done about a name that a file shall get.
    fn room(
        &self,
        spot: Spot<'_>,
        same: impl Fn(&engine::Node) -> bool,
    ) -> Result<Room<u64>, Fault> {
        let there = self.fs.node(spot.dir)?.lookup(spot.name)?;
        let Some(entry) = there else { return Ok(Room::Free(None)) };
        let node = self.fs.node(entry.object)?;
        if node.kind() == FileKind::Dir {
            return Err(Fault::InTheWay("a directory is in the way"));
        }
        if same(&node) {
            return Ok(Room::Whole(entry.object));
        }
        if !self.force && !self.made_here(entry.object) {
            return Err(Fault::InTheWay("exists and is different; --force replaces it"));
        }
        Ok(Room::Free(Some(entry.object)))
    }

    fn made_here(&self, object: u64) -> bool {
        let made = self.made.as_ref().map(|m| m.lock().unwrap_or_else(PoisonError::into_inner));
        made.is_some_and(|m| m.contains(&object))
    }

    /// One more was made.
    fn done(&self, object: u64, over: Option<u64>, spot: Spot<'_>) {
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
        self.talk.done(|| (spot.shown)().into_os_string().into_vec());
    }

    /// Makes a file that has no content; its object.
    pub fn special(&self, spot: Spot<'_>, kind: NewKind, a: &Attributes) -> Result<u64, Fault> {
        let over = match self.room(spot, |node| is_same_special(node, &kind, a.mtime))? {
            Room::Free(over) => over,
            Room::Whole(object) => return Ok(object),
        };
        let new = self.new_file(kind, a);
        match self.fits_at_once(a) {
            true => self.at_once(spot, &new, a, (0, &[]), over),
            false => self.in_steps(spot, &new, a, 0, over, &mut |_| Ok(())),
        }
    }

    /// Makes a regular file of `size` bytes; its object. `fill` calls for each piece of content,
    /// with its offset; what it leaves out stays a hole.
    pub fn file(
        &self,
        spot: Spot<'_>,
        size: u64,
        a: &Attributes,
        fill: &mut Fill<'_>,
    ) -> Result<u64, Fault> {
        let same = |node: &engine::Node| {
            node.kind() == FileKind::File && node.size == size && node.mtime == a.mtime
        };
        let over = match self.room(spot, same)? {
            Room::Free(over) => over,
            Room::Whole(object) => match self.missing_end(object)? {
                // Of two members of one archive the later counts, whatever they look like.
                _ if self.made_here(object) => Some(object),
                Some(_) if self.force => Some(object),
                Some(end) if !is_empty_from(end, fill)? => {
                    return Err(Fault::InTheWay(
                        "exists with its size and time, but its end is missing, as an interrupted \
                         copy of an earlier zinc left it; --force replaces it",
                    ));
                }
                _ => return Ok(object),
            },
        };
        let new = self.new_file(NewKind::File, a);
        if size > CHUNK as u64 || !self.fits_at_once(a) {
            return self.in_steps(spot, &new, a, size, over, fill);
        }
        let mut pieces: Vec<Piece> = Vec::new();
        fill(&mut |offset, bytes| {
            pieces.push((offset, bytes.to_vec()));
            Ok(self.progress.check()?)
        })?;
        self.at_once(spot, &new, a, (size, &pieces), over)
    }

    fn fits_at_once(&self, a: &Attributes) -> bool {
        let bytes: usize = self.kept_xattrs(a).map(|(n, v)| n.len() + v.len()).sum();
        self.kept_xattrs(a).count() <= XATTRS_AT_ONCE.0 && bytes <= XATTRS_AT_ONCE.1
    }

    /// Where the content of a file ends whose last block is a hole; `None` for any other. What
    /// earlier versions made of a source that ended too early is such a file.
    fn missing_end(&self, object: u64) -> Result<Option<u64>, Fault> {
        let node = self.fs.node(object)?;
        let block = node.object().dnode().block_size();
        let Some(last) = node.size.checked_sub(1).and_then(|n| n.checked_div(block)) else {
            return Ok(None);
        };
        if node.object().next_block(last).map_err(|(e, _)| Error::from(e))?.is_some() {
            return Ok(None);
        }
        Ok(Some(node.segments()?.last().map_or(0, |s| s.offset.saturating_add(s.length))))
    }

    /// Makes a file in one transaction.
    fn at_once(
        &self,
        spot: Spot<'_>,
        new: &NewFile,
        a: &Attributes,
        (size, pieces): (u64, &[Piece]),
        over: Option<u64>,
    ) -> Result<u64, Fault> {
        let bytes: usize = pieces.iter().map(|(_, b)| b.len()).sum();
        let xattrs: u64 = self.kept_xattrs(a).map(|(_, v)| (64 << 10) + v.len() as u64).sum();
        let file: OpenFile;
        {
            let tx = self.fs.begin(Hold::write(HOLD_FILE + xattrs + bytes as u64))?;
            file = self.fs.create_unnamed_tx(&tx, spot.dir, new)?;
            let object = file.object();
            let mut end = 0;
            for (offset, bytes) in pieces {
                self.fs.write_at_tx(&tx, object, *offset, bytes, new.now)?;
                end = end.max(offset.saturating_add(bytes.len() as u64));
            }
            if end < size {
                self.fs.truncate_tx(&tx, object, size, new.now)?;
            }
            self.finish(&tx, object, a, spot, over)?;
        }
        self.progress.add(0, bytes as u64);
        self.done(file.object(), over, spot);
        Ok(file.object())
    }

    /// The last of a file: attributes and its name.
    fn finish(
        &self,
        tx: &Tx,
        object: u64,
        a: &Attributes,
        spot: Spot<'_>,
        over: Option<u64>,
    ) -> Result<(), Fault> {
        let now = now();
        if self.fits_at_once(a) {
            for (name, value) in self.kept_xattrs(a) {
                self.note(
                    spot,
                    name,
                    self.check_xattr(name).and_then(|()| {
                        self.fs.set_xattr_tx(tx, object, name, value, XattrMode::Any, now)
                    }),
                );
            }
        }
        let set = SetAttrs { atime: Some(a.atime), mtime: Some(a.mtime), ..self.owners(a) };
        self.fs.set_attrs_tx(tx, object, &set, now)?;
        Ok(self.fs.give_name_tx(tx, object, (spot.dir, spot.name), over, now)?)
    }

    /// Makes a file in many transactions, of which the last gives it its name.
    fn in_steps(
        &self,
        spot: Spot<'_>,
        new: &NewFile,
        a: &Attributes,
        size: u64,
        over: Option<u64>,
        fill: &mut Fill<'_>,
    ) -> Result<u64, Fault> {
        let file = self.fs.create_unnamed(spot.dir, new)?;
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
                    spot,
                    name,
                    self.check_xattr(name).and_then(|()| {
                        self.fs.set_xattr(object, name, value, XattrMode::Any, new.now)
                    }),
                );
            }
        }
        {
            let tx = self.fs.begin(Hold::write(HOLD_FILE * 2))?;
            self.finish(&tx, object, a, spot, over)?;
        }
        self.done(object, over, spot);
        Ok(object)
    }

    /// Gives a file a second name.
    pub fn link(&self, object: u64, spot: Spot<'_>) -> Result<(), Fault> {
        let room = self.room(spot, |node| node.number() == object)?;
        if let Room::Free(over) = room {
            let now = now();
            let tx = self.fs.begin(Hold::write(HOLD_FILE))?;
            if over.is_some() {
                self.fs.unlink_tx(&tx, spot.dir, spot.name, now)?;
            }
            self.fs.link_tx(&tx, object, spot.dir, spot.name, now)?;
        }
        // The file may have been there before: it does not count as made.
        self.progress.add(1, 0);
        self.talk.done(|| (spot.shown)().into_os_string().into_vec());
        Ok(())
    }
}

/// Whether content has nothing but zeros from `end` on.
fn is_empty_from(end: u64, fill: &mut Fill<'_>) -> Result<bool, Fault> {
    let mut empty = true;
    fill(&mut |offset, bytes| {
        let skip = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        empty &= bytes.get(skip..).unwrap_or_default().iter().all(|b| *b == 0);
        Ok(())
    })?;
    Ok(empty)
}
