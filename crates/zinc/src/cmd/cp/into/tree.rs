//! A local tree into a pool. Directories are made as they are found, files by several threads, and
//! second names when all files are there.

use super::sink::{Attributes, CHUNK, Fault, Into, Write, time};
use crate::asked;
use crate::failure::Failure;
use engine::rt;
use engine::zpl::NewKind;
use rustix::fs::{SeekFrom, lgetxattr, llistxattr, major, minor, seek};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files copied at the same time.
const WORKERS: usize = 8;
/// Largest value of an extended attribute on Linux.
const XATTR_MAX: usize = 64 << 10;

/// A file to be copied.
struct Task {
    path: PathBuf,
    dir: u64,
    name: Vec<u8>,
    found: Metadata,
}

/// Files that have several names: the object of the first, and the names to come.
#[derive(Default)]
struct Links {
    made: HashMap<(u64, u64), u64>,
    begun: HashMap<(u64, u64), ()>,
    later: Vec<Task>,
}

/// Copies `path` to `name` in the directory `dir`; without a name what is in it goes there.
pub fn copy(into: &Into<'_>, path: &Path, dir: u64, name: Option<&[u8]>) -> Result<(), Failure> {
    let mut walk = Walk { into, todo: Vec::new(), ready: Vec::new(), dressed: Vec::new() };
    let found = fs::symlink_metadata(path)?;
    match name {
        Some(name) if !found.is_dir() => {
            walk.ready.push(Task { path: path.to_owned(), dir, name: name.to_vec(), found });
        }
        Some(name) => {
            let attributes = attributes(into, path, &found);
            let made = into.dir(dir, name, &attributes);
            let object = made.map_err(|e| cannot(path, &e))?;
            walk.todo.push((path.to_owned(), object));
            walk.dressed.push((path.to_owned(), object, attributes));
        }
        None => walk.todo.push((path.to_owned(), dir)),
    }
    let links = Mutex::new(Links::default());
    let client = asked::client();
    rt::for_each_parallel(WORKERS, &mut walk, |task| {
        asked::inherit(client.as_ref(), || one(into, task, &links))
    })?;
    let links = links.into_inner().unwrap_or_else(PoisonError::into_inner);
    for task in links.later {
        let Some(object) = links.made.get(&(task.found.dev(), task.found.ino())) else {
            // The first name failed, and was told of.
            continue;
        };
        if let Err(e) = into.link(*object, task.dir, &task.name, &task.path) {
            give_up(into, &task.path, &e)?;
        }
    }
    // What was made in a directory changed its times; children come after their parents.
    for (path, object, attributes) in walk.dressed.iter().rev() {
        if let Err(e) = into.dress(*object, attributes, path) {
            give_up(into, path, &e)?;
        }
    }
    Ok(())
}

fn cannot(path: &Path, why: &Fault) -> Failure {
    Failure::new(format!("cannot copy '{}'", path.display())).because(why.to_string())
}

/// One file that fails costs nothing else, unless none can be written any more.
fn give_up(into: &Into<'_>, path: &Path, why: &Fault) -> Result<(), Failure> {
    if why.is_fatal() {
        return Err(cannot(path, why));
    }
    into.talk.failed(path, why);
    Ok(())
}

fn one(into: &Into<'_>, task: Task, links: &Mutex<Links>) -> Result<(), Failure> {
    let lock = || links.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (task.found.dev(), task.found.ino());
    let has_more = task.found.nlink() > 1;
    if has_more {
        let mut links = lock();
        if links.begun.insert(key, ()).is_some() {
            links.later.push(task);
            return Ok(());
        }
    }
    match make(into, &task) {
        Ok(Some(object)) if has_more => {
            lock().made.insert(key, object);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(e) => give_up(into, &task.path, &e),
    }
}

fn make(into: &Into<'_>, task: &Task) -> Result<Option<u64>, Fault> {
    let Task { path, dir, name, found } = task;
    let attributes = attributes(into, path, found);
    let kind = found.file_type();
    let device = || {
        let dev = found.rdev();
        (major(dev), minor(dev))
    };
    let special = match () {
        () if kind.is_symlink() => {
            NewKind::Symlink(fs::read_link(path)?.into_os_string().as_bytes().to_vec())
        }
        () if kind.is_fifo() => NewKind::Fifo,
        () if kind.is_socket() => NewKind::Socket,
        () if kind.is_block_device() => NewKind::Block(device().0, device().1),
        () if kind.is_char_device() => NewKind::Char(device().0, device().1),
        () => {
            let file = open(path)?;
            let size = file.metadata()?.len();
            return into.file(*dir, name, size, &attributes, path, &mut |write| {
                pieces(&file, size, write)
            });
        }
    };
    let made = into.special(*dir, name, special, &attributes, path)?;
    Ok(made.or_else(|| existing(into, *dir, name)))
}

fn existing(into: &Into<'_>, dir: u64, name: &[u8]) -> Option<u64> {
    Some(into.fs.node(dir).ok()?.lookup(name).ok()??.object)
}

fn open(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(path)
}

/// Hands on the content of a file, without its holes.
fn pieces(file: &File, size: u64, write: &mut Write<'_>) -> Result<(), Fault> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(size).unwrap_or(CHUNK)).max(1)];
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            // Nothing but a hole is left.
            Err(rustix::io::Errno::NXIO) => break,
            // A file system that does not know its holes has none.
            Err(_) => at,
        };
        let end = seek(file, SeekFrom::Hole(start)).map_or(size, |end| end.min(size));
        at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(CHUNK).min(buffer.len());
            // Pieces end at multiples of the chunk, so that no record is written twice.
            let wanted = wanted.min(CHUNK - (at % CHUNK as u64) as usize);
            let got = file.read_at(&mut buffer[..wanted], at)?;
            if got == 0 {
                // It became shorter meanwhile.
                return Ok(());
            }
            write(at, &buffer[..got])?;
            at += got as u64;
        }
    }
    Ok(())
}

fn attributes(into: &Into<'_>, path: &Path, found: &Metadata) -> Attributes {
    let xattrs = if into.xattrs { xattrs(path).unwrap_or_default() } else { BTreeMap::new() };
    Attributes {
        mode: found.mode() & 0o7777,
        uid: u64::from(found.uid()),
        gid: u64::from(found.gid()),
        atime: found.accessed().map(time).unwrap_or_default(),
        mtime: found.modified().map(time).unwrap_or_default(),
        xattrs,
    }
}

fn xattrs(path: &Path) -> rustix::io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut names = vec![0u8; XATTR_MAX];
    let length = llistxattr(path, &mut names)?;
    let mut out = BTreeMap::new();
    for name in names[..length].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let mut value = vec![0u8; XATTR_MAX];
        // One that went meanwhile, or that this user may not see.
        let Ok(length) = lgetxattr(path, name, &mut value) else { continue };
        value.truncate(length);
        out.insert(name.to_vec(), value);
    }
    Ok(out)
}

/// Finds directories and makes them; hands out files.
struct Walk<'w, 'a> {
    into: &'w Into<'a>,
    todo: Vec<(PathBuf, u64)>,
    ready: Vec<Task>,
    /// Directories whose attributes are still to be set.
    dressed: Vec<(PathBuf, u64, Attributes)>,
}

impl Walk<'_, '_> {
    fn read(&mut self, path: &Path, object: u64) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let (below, name) = (entry.path(), entry.file_name().as_bytes().to_vec());
            let found = match entry.metadata() {
                Ok(found) => found,
                Err(e) => {
                    self.into.talk.failed(&below, &e);
                    continue;
                }
            };
            if !found.is_dir() {
                self.ready.push(Task { path: below, dir: object, name, found });
                continue;
            }
            let attributes = attributes(self.into, &below, &found);
            match self.into.dir(object, &name, &attributes) {
                Ok(made) => {
                    self.dressed.push((below.clone(), made, attributes));
                    self.todo.push((below, made));
                }
                Err(e) => self.into.talk.failed(&below, &e),
            }
        }
        Ok(())
    }
}

impl Iterator for Walk<'_, '_> {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        loop {
            if let Some(task) = self.ready.pop() {
                return Some(task);
            }
            let (path, object) = self.todo.pop()?;
            if let Err(e) = self.read(&path, object) {
                self.into.talk.failed(&path, &e);
            }
        }
    }
}
