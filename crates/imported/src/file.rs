//! A cache file: a packed name-value list with one member for each pool, under its name, which is
//! the pool's configuration.
//!
//! It is written to a file beside it, made durable, and renamed; a program that ends in between
//! leaves the old one. A program that changes it locks `NAME.lock` first, because the file itself
//! is replaced.
//! Without any pool in it there is no file, as OpenZFS has it.
//!
//! Only a regular file is ever replaced or removed. A link, a device or a pipe under one of these
//! names is not ours, and nothing can be remembered there.

use crate::{Error, Known, Notice, Result};
use engine::config::{NvList, NvPair, NvValue, Packing};
use engine::devices::open_to_read;
use rustix::fs::OFlags;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A list of thousands of pools stays far below this.
const SIZE_MAX: u64 = 64 << 20;

/// Bytes that one more entry takes at most, for all but the largest pools.
const ENTRY_BYTES: u64 = 64 << 10;

/// A cache file, which need not exist.
pub(crate) struct CacheFile {
    path: PathBuf,
    /// The folder is zinc's own, and is made when it is not there.
    has_own_folder: bool,
}

/// Why there are no entries.
enum Unreadable {
    NoFile,
    Io(io::Error),
    Damaged(String),
}

impl From<io::Error> for Unreadable {
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::NotFound { Self::NoFile } else { Self::Io(e) }
    }
}

/// Bytes of a list without any entry, at most.
const EMPTY_MAX: usize = 64;

/// The pools in a file that the user named, and what is wrong with entries that are not pools.
///
/// # Errors
/// There is no such file, or it is not a list of pools.
pub fn read(path: &Path) -> io::Result<(Vec<Known>, Vec<String>)> {
    match entries(path) {
        Ok(entries) => Ok((entries.pools, entries.damaged)),
        Err(Unreadable::NoFile) => Err(io::ErrorKind::NotFound.into()),
        Err(Unreadable::Io(e)) => Err(e),
        Err(Unreadable::Damaged(why)) => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
    }
}

/// The same, without a word about a file that cannot be read.
pub(crate) fn entries_of(path: &Path) -> Option<Vec<Known>> {
    entries(path).ok().map(|entries| entries.pools)
}

/// The obstacle in the place of a file of ours.
fn obstacle(kind: FileType) -> Option<&'static str> {
    Some(match kind {
        kind if kind.is_file() => return None,
        kind if kind.is_symlink() => "it is a symbolic link",
        kind if kind.is_dir() => "it is a directory",
        kind if kind.is_fifo() => "it is a pipe",
        kind if kind.is_socket() => "it is a socket",
        _ => "it is a device",
    })
}

/// Only a regular file may be there; returns whether there is one.
fn check_place(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(found) => match obstacle(found.file_type()) {
            None => Ok(true),
            Some(what) => Err(io::Error::new(io::ErrorKind::InvalidInput, what)),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Receives notices for the user.
type NoticeFn<'a> = &'a dyn Fn(&Notice<'_>);

/// The contents of a file.
#[derive(Default)]
struct Entries {
    pools: Vec<Known>,
    /// The problems of entries that are not pools.
    damaged: Vec<String>,
}

fn entries(path: &Path) -> std::result::Result<Entries, Unreadable> {
    let mut bytes = Vec::new();
    open_to_read(path)?.take(SIZE_MAX).read_to_end(&mut bytes)?;
    let list = NvList::decode(&bytes).map_err(|e| Unreadable::Damaged(e.to_string()))?;
    if list.pairs.is_empty() && bytes.len() > EMPTY_MAX {
        // Zeros, as devices begin with, are the form of a list without an end.
        return Err(Unreadable::Damaged("it is not a list of pools".to_owned()));
    }
    let mut entries = Entries::default();
    for NvPair { name, value, .. } in list.pairs {
        let known = match value {
            NvValue::NvList(config) => Known::new(config),
            _ => None,
        };
        let name = String::from_utf8_lossy(&name);
        match known {
            Some(known) => entries.pools.push(known),
            None => entries.damaged.push(format!("'{name}' is not a configuration of a pool")),
        }
    }
    Ok(entries)
}

impl CacheFile {
    /// One in zinc's own folder.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, has_own_folder: true }
    }

    /// One that the user named, in a folder that must be there.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, has_own_folder: false }
    }

    fn make_folder(&self) -> io::Result<()> {
        match self.path.parent().filter(|_| self.has_own_folder) {
            Some(folder) => make_folder(folder),
            None => Ok(()),
        }
    }

    /// The pools in it. A damaged file is put aside, and another with what is whole in it takes
    /// its place.
    pub(crate) fn entries(&self, notify: NoticeFn<'_>) -> Vec<Known> {
        match entries(&self.path) {
            Ok(entries) if entries.damaged.is_empty() => entries.pools,
            Err(Unreadable::NoFile) => Vec::new(),
            _ => {
                // Another process may be replacing it. Without the lock it stays where it is.
                let lock = self.lock();
                self.mended(notify, lock.as_ref().map(drop).map_err(|e| io::Error::from(e.kind())))
            }
        }
    }

    /// The same with the lock, or why it cannot be had.
    fn mended(&self, notify: NoticeFn<'_>, locked: io::Result<()>) -> Vec<Known> {
        if let Err(e) = check_place(&self.path) {
            notify(&Notice::Unreadable { path: &self.path, cause: &e });
            return Vec::new();
        }
        let (pools, why) = match entries(&self.path) {
            Ok(entries) if entries.damaged.is_empty() => return entries.pools,
            Ok(Entries { pools, damaged }) => (pools, damaged),
            Err(Unreadable::Damaged(why)) => (Vec::new(), vec![why]),
            Err(Unreadable::NoFile) => return Vec::new(),
            Err(Unreadable::Io(e)) => {
                notify(&Notice::Unreadable { path: &self.path, cause: &e });
                return Vec::new();
            }
        };
        let aside = self.aside();
        let put_aside =
            || check_place(&self.path).and_then(|_| std::fs::rename(&self.path, &aside));
        let done = locked.and_then(|()| put_aside()).and_then(|()| self.replace(&pools));
        let aside = done.as_ref().map(|()| aside.as_path());
        notify(&Notice::Damaged { path: &self.path, why: &why, aside });
        pools
    }

    /// No other process changes the file while this is open, however this process ends.
    fn lock(&self) -> io::Result<File> {
        let lock = open_lock(&self.beside("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// A name for a damaged file that is still free.
    fn aside(&self) -> PathBuf {
        let numbered = (1u32..).map(|n| self.beside(&format!("damaged.{n}")));
        let mut names = std::iter::once(self.beside("damaged")).chain(numbered);
        let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
        names.find(is_free).unwrap_or_else(|| self.beside("damaged"))
    }

    /// Why one more entry could not be written now, if it could not. Nothing is left behind.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let probe = || {
            check_place(&self.path)?;
            self.make_folder()?;
            let _lock = self.lock()?;
            if !self.has_own_folder {
                self.check_content()?;
            }
            let size = std::fs::metadata(&self.path).map_or(0, |meta| meta.len()) + ENTRY_BYTES;
            let new = self.beside("new");
            let mut file = make(&new)?;
            // A size alone takes no space, and only what is durable has it for certain.
            let written = io::copy(&mut io::repeat(0).take(size), &mut file);
            let written = written.and_then(|_| file.sync_all());
            std::fs::remove_file(new).and(written)
        };
        probe().map_err(|e| self.cannot_write(e))
    }

    /// A file that the user named may be one of another kind, or a device of the pool itself.
    fn check_content(&self) -> io::Result<()> {
        let is_list = match entries(&self.path) {
            Err(Unreadable::Io(e)) => return Err(e),
            Err(Unreadable::Damaged(_)) => false,
            Err(Unreadable::NoFile) => true,
            Ok(Entries { pools, damaged }) => !(pools.is_empty() && damaged.is_empty()),
        };
        match is_list || self.path.metadata()?.len() == 0 {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a list of pools")),
        }
    }

    fn cannot_write(&self, cause: io::Error) -> Error {
        Error::CannotWrite { path: self.path.clone(), cause }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{ending}"));
        PathBuf::from(name)
    }

    /// Adds an entry, in place of one with the same name or guid.
    pub(crate) fn put(&self, notify: NoticeFn<'_>, known: &Known) -> Result<()> {
        self.change(notify, |entries| {
            entries.retain(|e| e.guid() != known.guid() && e.name() != known.name());
            entries.push(known.clone());
            true
        })
    }

    /// Puts an entry in the place of another, if that is still there unchanged.
    pub(crate) fn replace_entry(
        &self,
        notify: NoticeFn<'_>,
        old: &Known,
        new: &Known,
    ) -> Result<()> {
        // A file that is not ours has no entry.
        if !check_place(&self.path).unwrap_or(false) {
            return Ok(());
        }
        self.change(notify, |entries| {
            let mut same = entries.iter_mut().filter(|e| e.guid() == old.guid());
            match same.find(|e| e.differs_only_in_txg(old)) {
                Some(entry) => {
                    entry.clone_from(new);
                    true
                }
                None => false,
            }
        })
    }

    /// Takes an entry out, when it is there.
    pub(crate) fn remove(&self, notify: NoticeFn<'_>, guid: u64) -> Result<()> {
        // A file that is not ours has no entry.
        if !check_place(&self.path).unwrap_or(false) {
            return Ok(());
        }
        self.change(notify, |entries| {
            let before = entries.len();
            entries.retain(|e| e.guid() != guid);
            entries.len() != before
        })
    }

    /// Changes the entries, under the lock; `change` says whether it did.
    fn change(
        &self,
        notify: NoticeFn<'_>,
        change: impl FnOnce(&mut Vec<Known>) -> bool,
    ) -> Result<()> {
        let fail = |e: io::Error| self.cannot_write(e);
        check_place(&self.path).map_err(fail)?;
        self.make_folder().map_err(fail)?;
        let _lock = self.lock().map_err(fail)?;
        let mut entries = self.mended(notify, Ok(()));
        if !change(&mut entries) {
            return Ok(());
        }
        self.replace(&entries).map_err(fail)
    }

    fn replace(&self, entries: &[Known]) -> io::Result<()> {
        check_place(&self.path)?;
        if entries.is_empty() {
            return match std::fs::remove_file(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        let mut list = NvList::new();
        for known in entries {
            list.set(known.name(), NvValue::NvList(known.list().clone()));
        }
        let bytes = list.encode(Packing::XDR).map_err(io::Error::other)?;
        let new = self.beside("new");
        let mut file = make(&new)?;
        if let Err(e) = file.write_all(&bytes).and_then(|()| file.sync_all()) {
            // Half a file is of no use, and takes the space that is short.
            let _ = std::fs::remove_file(&new);
            return Err(e);
        }
        std::fs::rename(&new, &self.path)?;
        match self.path.parent().map(File::open) {
            Some(Ok(folder)) => folder.sync_all(),
            // One that cannot be opened cannot be made durable; the file itself is.
            _ => Ok(()),
        }
    }
}

/// A file that others may read, and that is not a link.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    // A pipe is not waited for.
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    options.create(true).mode(0o644).custom_flags(flags.bits().cast_signed());
    options
}

/// Makes a file, in place of one that a process left when it was cut off.
fn make(path: &Path) -> io::Result<File> {
    if check_place(path)? {
        std::fs::remove_file(path)?;
    }
    private().write(true).create_new(true).open(path)
}

/// Opens a file that is only there to be locked. Its contents, or the target of a link, are not
/// touched.
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    private().mode(0o600).write(true).truncate(false).open(path)
}

/// Makes the folder that keeps the file; others may look into it.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, guid: u64) -> Known {
        let mut root = NvList::new();
        root.set("type", NvValue::String(b"root".to_vec()));
        root.set("id", NvValue::U64(0)).set("guid", NvValue::U64(guid));
        let mut list = NvList::new();
        for (member, value) in [("version", 5000), ("state", 0), ("txg", 4), ("pool_guid", guid)] {
            list.set(member, NvValue::U64(value));
        }
        list.set("name", NvValue::String(name.as_bytes().to_vec()));
        list.set("vdev_tree", NvValue::NvList(root));
        Known::new(list).unwrap()
    }

    /// Ignores notices.
    fn deaf(_: &Notice<'_>) {}

    fn names(file: &CacheFile) -> Vec<String> {
        file.entries(&deaf).iter().map(|k| k.name().to_owned()).collect()
    }

    #[test]
    fn pools_come_and_go_and_the_last_takes_the_file_along() {
        let dir = tempfile::tempdir().unwrap();
        let file = CacheFile::new(dir.path().join("deep/zpool.cache"));
        assert!(names(&file).is_empty());
        file.put(&deaf, &pool("a", 1)).unwrap();
        file.put(&deaf, &pool("b", 2)).unwrap();
        file.put(&deaf, &pool("c", 2)).unwrap();
        assert_eq!(names(&file), ["a", "c"]);
        file.remove(&deaf, 1).unwrap();
        file.remove(&deaf, 7).unwrap();
        assert_eq!(names(&file), ["c"]);
        file.remove(&deaf, 2).unwrap();
        assert!(!file.path.exists());
    }

    #[test]
    fn a_damaged_file_is_put_aside_and_the_next_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = CacheFile::new(dir.path().join("zpool.cache"));
        std::fs::write(&file.path, b"\x01\x01\0\0nonsense").unwrap();
        file.put(&deaf, &pool("a", 1)).unwrap();
        assert_eq!(names(&file), ["a"]);
        assert_eq!(std::fs::read(file.beside("damaged")).unwrap(), b"\x01\x01\0\0nonsense");
    }

    #[test]
    fn one_bad_entry_leaves_the_others_known() {
        let dir = tempfile::tempdir().unwrap();
        let file = CacheFile::new(dir.path().join("zpool.cache"));
        let mut list = NvList::new();
        list.set("a", NvValue::NvList(pool("a", 1).list().clone()));
        list.set("bad", NvValue::NvList(NvList::new())).set("worse", NvValue::U64(3));
        let bytes = list.encode(Packing::XDR).unwrap();
        std::fs::write(&file.path, &bytes).unwrap();
        assert_eq!(names(&file), ["a"]);
        assert_eq!(std::fs::read(file.beside("damaged")).unwrap(), bytes);
        // The file that took its place is whole.
        std::fs::remove_file(file.beside("damaged")).unwrap();
        assert_eq!(names(&file), ["a"]);
        assert!(!file.beside("damaged").exists());
    }

    #[test]
    fn a_lock_follows_no_link_and_empties_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("other"), b"content").unwrap();
        std::os::unix::fs::symlink(path("other"), path("link")).unwrap();
        open_lock(&path("link")).unwrap_err();
        open_lock(&path("other")).unwrap();
        assert_eq!(std::fs::read(path("other")).unwrap(), b"content");
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("other"), b"content").unwrap();
        for name in ["link", "zpool.cache.new"] {
            std::os::unix::fs::symlink(path("other"), path(name)).unwrap();
        }
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        for name in ["link", "socket", "folder", "zpool.cache"] {
            let kind = || path(name).symlink_metadata().ok().map(|found| found.file_type());
            let (before, file) = (kind(), CacheFile::at(path(name)));
            file.check_writable().unwrap_err();
            file.put(&deaf, &pool("a", 1)).unwrap_err();
            file.remove(&deaf, 1).unwrap();
            assert!(names(&file).is_empty());
            assert_eq!(kind(), before, "{name}");
        }
        assert_eq!(std::fs::read(path("other")).unwrap(), b"content");
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zpool.cache");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let file = CacheFile::new(path.clone());
                scope.spawn(move || file.put(&deaf, &pool(&format!("p{n}"), n)).unwrap());
            }
        });
        assert_eq!(CacheFile::new(path).entries(&deaf).len(), 8);
    }
}
