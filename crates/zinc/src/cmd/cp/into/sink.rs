//! Making one file in a pool: what both a tree and an archive are made of.

use crate::place::printable;
use crate::ui;
use engine::Filesystem;
use engine::dmu::Hold;
use engine::rt::Progress;
use engine::zpl::write::XattrMode;
use engine::zpl::{Error, FileKind, NewFile, NewKind, SetAttrs, Time};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes written at once. A transaction takes 4 MiB.
pub const CHUNK: usize = 4 << 20;
/// What a new file makes dirty beside its data, at most but for odd cases.
const HOLD_FILE: u64 = 512 << 10;

/// What is done about a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays; the same file again is no failure.
    Refuse,
    /// It goes.
    Replace,
}

/// Where files go, and how.
pub struct Into<'a> {
    pub fs: &'a Filesystem,
    pub progress: &'a Progress,
    pub talk: &'a Talk,
    pub existing: Existing,
    pub owner: bool,
    pub xattrs: bool,
    pub posix_acls: bool,
}

/// Tells the user.
pub struct Talk {
    verbose: bool,
    pub failures: AtomicU64,
    pub not_kept: AtomicU64,
    told: AtomicBool,
}

impl Talk {
    pub fn new(verbose: bool) -> Self {
        let (failures, not_kept) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { verbose, failures, not_kept, told: AtomicBool::new(false) }
    }

    pub fn failed(&self, path: &Path, why: &dyn std::fmt::Display) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        ui::error(&format!("zinc: {}: {why}\n", printable(path.as_os_str().as_bytes())));
    }

    fn refused(&self, path: &Path, what: &[u8], why: &dyn std::fmt::Display) {
        self.not_kept.fetch_add(1, Ordering::Relaxed);
        // One is worth a line; thousands are worth a number at the end.
        if self.verbose || !self.told.swap(true, Ordering::Relaxed) {
            let (path, what) = (printable(path.as_os_str().as_bytes()), printable(what));
            ui::error(&format!("zinc: {path}: {what} not kept: {why}\n"));
        }
    }

    fn done(&self, path: &Path) {
        if self.verbose {
            ui::error(&format!("{}\n", printable(path.as_os_str().as_bytes())));
        }
    }
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
    /// It is in the way.
    InTheWay(&'static str),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Source(e) => write!(f, "{e}"),
            Self::Pool(e) => write!(f, "{e}"),
            Self::InTheWay(what) => f.write_str(what),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Self {
        Self::Source(e)
    }
}

impl From<Error> for Fault {
    fn from(e: Error) -> Self {
        Self::Pool(e)
    }
}

impl Fault {
    /// Nothing more can be written: going on with the next file makes no sense.
    pub fn is_fatal(&self) -> bool {
        use engine::dmu::ErrorKind;
        let Self::Pool(Error::Dmu(e)) = self else { return false };
        matches!(e.kind, ErrorKind::NoSpace | ErrorKind::Stopped(_))
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
    if bytes == b"." || bytes.ends_with(b"/.") || bytes.ends_with(b"..") {
        return None;
    }
    Path::new(source).file_name().map(|n| n.as_bytes().to_vec())
}

impl Into<'_> {
    fn new_file(&self, kind: NewKind, a: &Attributes) -> NewFile {
        let (uid, gid) = if self.owner { (a.uid, a.gid) } else { (0, 0) };
        // Set-id bits are for the owner they were given to, and nobody else.
        let mask = if self.owner { 0o7777 } else { 0o1777 };
        NewFile { kind, mode: a.mode & mask, uid, gid, now: now() }
    }

    /// The directory of that name, made when it is not there.
    pub fn dir(&self, parent: u64, name: &[u8], a: &Attributes) -> Result<u64, Fault> {
        if let Some(entry) = self.fs.node(parent)?.lookup(name)? {
            let node = self.fs.node(entry.object)?;
            return match node.kind() {
                FileKind::Dir => Ok(node.number()),
                _ => Err(Fault::InTheWay("a file is in the way of a directory")),
            };
        }
        Ok(self.fs.create(parent, name, &self.new_file(NewKind::Dir, a))?.number())
    }

    /// Makes room for a file; false when there is nothing to do, for it is there already.
    fn make_room(
        &self,
        parent: u64,
        name: &[u8],
        same: impl Fn(&engine::Node) -> bool,
    ) -> Result<bool, Fault> {
        let Some(entry) = self.fs.node(parent)?.lookup(name)? else { return Ok(true) };
        let node = self.fs.node(entry.object)?;
        if node.kind() == FileKind::Dir {
            return Err(Fault::InTheWay("a directory is in the way"));
        }
        if same(&node) {
            return Ok(false);
        }
        if self.existing == Existing::Refuse {
            return Err(Fault::InTheWay("exists and is different; --force replaces it"));
        }
        self.fs.unlink(parent, name, now())?;
        Ok(true)
    }

    /// Makes a file that has no content; its object. `None`: it is there already.
    pub fn special(
        &self,
        parent: u64,
        name: &[u8],
        kind: NewKind,
        a: &Attributes,
        shown: &Path,
    ) -> Result<Option<u64>, Fault> {
        let target = match &kind {
            NewKind::Symlink(target) => Some(target.clone()),
            _ => None,
        };
        let same = |node: &engine::Node| {
            node.kind() == FileKind::Symlink && target.is_some() && node.read_link().ok() == target
        };
        if !self.make_room(parent, name, same)? {
            return Ok(None);
        }
        let object = self.fs.create(parent, name, &self.new_file(kind, a))?.number();
        self.dress(object, a, shown)?;
        self.progress.add(1, 0);
        self.talk.done(shown);
        Ok(Some(object))
    }

    /// Makes a regular file of `size` bytes. `fill` calls for each piece of content, with its
    /// offset; what it leaves out stays a hole.
    pub fn file(
        &self,
        parent: u64,
        name: &[u8],
        size: u64,
        a: &Attributes,
        shown: &Path,
        fill: &mut dyn FnMut(&mut Write<'_>) -> Result<(), Fault>,
    ) -> Result<Option<u64>, Fault> {
        let same = |node: &engine::Node| {
            node.kind() == FileKind::File && node.size == size && node.mtime == a.mtime
        };
        if !self.make_room(parent, name, same)? {
            return Ok(None);
        }
        let new = self.new_file(NewKind::File, a);
        let object = self.fs.create(parent, name, &new)?.number();
        let mut end = 0;
        let filled = fill(&mut |offset, bytes| {
            self.fs.write_at(object, offset, bytes, new.now)?;
            end = end.max(offset + bytes.len() as u64);
            self.progress.add(0, bytes.len() as u64);
            Ok(())
        });
        if let Err(fault) = filled {
            // A name stands for a whole file or for none.
            self.fs.unlink(parent, name, now())?;
            return Err(fault);
        }
        if end < size {
            self.fs.truncate(object, size, new.now)?;
        }
        self.dress(object, a, shown)?;
        self.progress.add(1, 0);
        self.talk.done(shown);
        Ok(Some(object))
    }

    /// Gives a file a second name.
    pub fn link(&self, object: u64, parent: u64, name: &[u8], shown: &Path) -> Result<(), Fault> {
        if self.make_room(parent, name, |node| node.number() == object)? {
            self.fs.link(object, parent, name, now())?;
        }
        self.progress.add(1, 0);
        self.talk.done(shown);
        Ok(())
    }

    /// Puts extended attributes and times on a file; last, for all else changes times.
    pub fn dress(&self, object: u64, a: &Attributes, shown: &Path) -> Result<(), Fault> {
        let now = now();
        for (name, value) in a.xattrs.iter().filter(|_| self.xattrs) {
            let is_acl = name.starts_with(b"system.posix_acl_");
            let set = match is_acl && !self.posix_acls {
                true => Err(Error::Unsupported("the dataset has acltype=off")),
                false => self.fs.set_xattr(object, name, value, XattrMode::Any, now),
            };
            if let Err(e) = set {
                self.talk.refused(shown, name, &e);
            }
        }
        // Where the directory's group was taken over, or a mask applied.
        let (uid, gid) = if self.owner { (Some(a.uid), Some(a.gid)) } else { (None, None) };
        let (atime, mtime) = (Some(a.atime), Some(a.mtime));
        let set = SetAttrs { uid, gid, atime, mtime, ..SetAttrs::default() };
        let tx = self.fs.begin(Hold::write(HOLD_FILE))?;
        Ok(self.fs.set_attrs_tx(&tx, object, &set, now)?)
    }
}
