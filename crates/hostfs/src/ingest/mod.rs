//! A tree of this machine into a file system of a pool. Directories are made as they are found,
//! files by several threads, and second names when all files are there.

mod source;
pub mod unpack;

use engine::files::{NewKind, Time};
use engine::ingest::{CHUNK, Destination, Ingest, Write};
use engine::{Error, Result};
use rustix::fs::{Dir, SeekFrom, major, minor, seek};
use source::{Id, Name, attributes, changed, id, look, open_directory, open_file, reopen};
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Directories within directories, at most.
pub const DEPTH_MAX: usize = 4096;
/// Files copied at the same time.
const WORKERS: usize = 8;
/// Directories that are held open on the way down; those above are found again on the way up.
const OPEN_MAX: usize = 64;

/// The target of files, and the callback for those that fail.
pub struct TreeIn<'a> {
    /// Where and how.
    pub ingest: Ingest<'a>,
    /// Called for a file that is not copied, or not whole, from any thread.
    pub failed: &'a (dyn Fn(&Path, &Error) + Sync),
}

/// The copy ended before its time, at this file.
#[derive(Debug)]
pub struct IngestError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub why: Error,
}

/// A time of the standard library as one of a pool.
#[must_use]
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

/// A file to be copied.
struct Task {
    /// The directory it is in, on this machine and in the pool.
    from: Arc<OwnedFd>,
    at: Arc<Name>,
    dir: u64,
    name: Vec<u8>,
    /// The name of the file in the pool, if that is different.
    as_name: Option<Vec<u8>>,
    found: Metadata,
}

/// Another name of a file that has several.
struct LaterName {
    file: Id,
    at: Arc<Name>,
    dir: u64,
    name: Vec<u8>,
}

/// Files that have several names: the object of the first, and the names to come.
#[derive(Default)]
struct Links {
    made: HashMap<Id, u64>,
    begun: HashSet<Id>,
    later: Vec<LaterName>,
}

/// Copies `path` to `name` in the directory `dir`; without a name what is in it goes there.
///
/// # Errors
/// It cannot be read at all, or nothing can be written any more.
pub fn copy(
    into: &TreeIn<'_>,
    path: &Path,
    dir: u64,
    name: Option<&[u8]>,
) -> std::result::Result<(), IngestError> {
    let mut walk = Walk { into, levels: Vec::new(), first: None, times: Vec::new() };
    walk.begin(path, dir, name).map_err(|e| ingest_error(path, e))?;
    let links = Mutex::new(Links::default());
    let rt = into.ingest.fs.rt();
    rt.for_each_parallel(WORKERS, &mut walk, |task| one(into, task, &links))?;
    into.ingest.progress.check().map_err(|e| ingest_error(path, e.into()))?;
    let links = links.into_inner().unwrap_or_else(PoisonError::into_inner);
    for later in &links.later {
        let shown = || later.at.below(&later.name).path();
        let dest = Destination { dir: later.dir, name: &later.name, shown: &shown };
        let made = match links.made.get(&later.file) {
            Some(object) => into.ingest.link(*object, dest),
            None => Err(Error::external("a hard link to a file that was not copied")),
        };
        made.or_else(|e| give_up(into, &shown(), e))?;
    }
    // Files made in a directory changed its times; children come after their parents.
    for (at, object, atime, mtime) in walk.times.iter().rev() {
        let done = into.ingest.times(*object, *atime, *mtime);
        done.or_else(|e| give_up(into, &at.path(), e))?;
    }
    Ok(())
}

fn ingest_error(path: &Path, why: Error) -> IngestError {
    IngestError { path: path.to_owned(), why }
}

/// One file that fails costs nothing else, unless none can be written any more.
fn give_up(into: &TreeIn<'_>, path: &Path, why: Error) -> std::result::Result<(), IngestError> {
    if why.kind().ends_all() {
        return Err(ingest_error(path, why));
    }
    (into.failed)(path, &why);
    Ok(())
}

fn one(
    into: &TreeIn<'_>,
    task: Task,
    links: &Mutex<Links>,
) -> std::result::Result<(), IngestError> {
    let lock = || links.lock().unwrap_or_else(PoisonError::into_inner);
    let has_more = task.found.nlink() > 1;
    if has_more {
        let file = id(&task.found);
        let mut links = lock();
        if !links.begun.insert(file) {
            let Task { at, dir, name, .. } = task;
            links.later.push(LaterName { file, at, dir, name });
            return Ok(());
        }
    }
    match make(into, &task) {
        Ok(object) if has_more => {
            lock().made.insert(id(&task.found), object);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(e) => give_up(into, &task.shown(), e),
    }
}

impl Task {
    fn shown(&self) -> PathBuf {
        self.at.below(&self.name).path()
    }
}

fn make(into: &TreeIn<'_>, task: &Task) -> Result<u64> {
    into.ingest.progress.check()?;
    let shown = || task.shown();
    let name = task.as_name.as_ref().unwrap_or(&task.name);
    let dest = Destination { dir: task.dir, name, shown: &shown };
    let kind = task.found.file_type();
    if kind.is_file() {
        return regular(into, task, dest);
    }
    let file = reopen(&task.from, &task.name, &task.found)?;
    let dev = task.found.rdev();
    let special = match () {
        () if kind.is_symlink() => NewKind::Symlink(source::read_link(&file)?),
        () if kind.is_fifo() => NewKind::Fifo,
        () if kind.is_socket() => NewKind::Socket,
        () if kind.is_block_device() => NewKind::Block(major(dev), minor(dev)),
        () if kind.is_char_device() => NewKind::Char(major(dev), minor(dev)),
        () => return Err(Error::external("the kind of the file is not known")),
    };
    into.ingest.special(dest, special, &attributes(into, &file, &task.found, &shown))
}

/// Why a file is not copied.
const SHORTER: &str = "became shorter while it was copied";

fn regular(into: &TreeIn<'_>, task: &Task, dest: Destination<'_>) -> Result<u64> {
    let (file, found) = open_file(&task.from, &task.name, &task.found)?;
    let size = found.len();
    let attributes = attributes(into, &file, &found, dest.shown);
    let state = |m: &Metadata| (m.len(), m.mtime(), m.mtime_nsec());
    let has_changed = || -> Result<bool> { Ok(state(&file.metadata()?) != state(&found)) };
    let is_there = into.ingest.fs.node(dest.dir)?.lookup(dest.name)?.is_some();
    let object = into.ingest.file(dest, size, &attributes, &mut |write| {
        pieces(&file, size, write)?;
        // A copy that may be torn does not replace a whole one.
        match is_there && has_changed()? {
            true => Err(changed()),
            false => Ok(()),
        }
    })?;
    // The copy has the time of before: the next one will see that it is not the same.
    if !is_there && has_changed()? {
        (into.failed)(&task.shown(), &changed());
    }
    Ok(object)
}

/// Hands on the content of a file, without its holes. Files that the system makes up as they are
/// read have another length than they say (those of `/proc` say 0): they are refused, because a
/// copy that is not whole looks like one that is.
fn pieces(file: &File, size: u64, write: &mut Write<'_>) -> Result<()> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(size).unwrap_or(CHUNK)).max(1)];
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            // Nothing but a hole is left, or the file became shorter.
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
                let is_shorter = file.metadata()?.len() < size;
                return Err(Error::external(if is_shorter {
                    SHORTER
                } else {
                    "is shorter than announced"
                }));
            }
            write(at, &buffer[..got])?;
            at += got as u64;
        }
    }
    let is_longer = file.read_at(&mut [0], size)? > 0;
    match file.metadata()?.len() {
        now if now < size => Err(Error::external(SHORTER)),
        now if now == size && is_longer => Err(Error::external("is longer than announced")),
        _ => Ok(()),
    }
}

/// A directory on the way to what is copied.
struct Level {
    at: Arc<Name>,
    id: Id,
    object: u64,
    /// Closed while the walk is far below.
    fd: Option<Arc<OwnedFd>>,
    /// Names still to come.
    list: Option<Dir>,
    /// Directories found in it.
    todo: Vec<(Vec<u8>, Id)>,
}

/// Finds directories and makes them; hands out files.
struct Walk<'w, 'a> {
    into: &'w TreeIn<'a>,
    levels: Vec<Level>,
    /// The named file, if it is not a directory.
    first: Option<Task>,
    /// Directories whose times are still to be set.
    times: Vec<(Arc<Name>, u64, Time, Time)>,
}

impl Walk<'_, '_> {
    fn begin(&mut self, path: &Path, dir: u64, name: Option<&[u8]>) -> Result<()> {
        let found = std::fs::symlink_metadata(path)?;
        if found.is_dir() {
            let here = OwnedFd::from(File::open(".")?);
            let path_bytes = path.as_os_str().as_bytes();
            let (fd, found) = open_directory(&here, path_bytes, id(&found))?;
            return self.enter(Name::top(path), (fd, found), dir, name);
        }
        let (above, last) = (path.parent(), path.file_name());
        let (Some(above), Some(last), Some(name)) = (above, last, name) else {
            return Err(Error::external("it has no name"));
        };
        let named = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let from = Arc::new(OwnedFd::from(File::open(named)?));
        let (at, last) = (Name::top(above), last.as_bytes().to_vec());
        let as_name = Some(name.to_vec());
        self.first = Some(Task { from, at, dir, name: last, as_name, found });
        Ok(())
    }

    /// Makes an open directory, unless there is no name for it, and continues in it.
    fn enter(
        &mut self,
        at: Arc<Name>,
        (fd, found): (OwnedFd, Metadata),
        dir: u64,
        name: Option<&[u8]>,
    ) -> Result<()> {
        if self.levels.len() >= DEPTH_MAX {
            return Err(Error::external("directories nest too deep"));
        }
        let file = File::from(fd);
        let mut object = dir;
        if let Some(name) = name {
            let shown = || at.path();
            let a = attributes(self.into, &file, &found, &shown);
            let dest = Destination { dir, name, shown: &shown };
            object = self.into.ingest.dir(dest, &a)?;
            self.into.ingest.set_attributes(object, &a, dest)?;
            self.times.push((Arc::clone(&at), object, a.atime, a.mtime));
        }
        let fd = OwnedFd::from(file);
        let list = source::list(&fd)?;
        if let Some(far) = self.levels.len().checked_sub(OPEN_MAX) {
            // Its names were all read before the walk went below.
            self.levels[far].fd = None;
        }
        let (fd, list) = (Some(Arc::new(fd)), Some(list));
        self.levels.push(Level { at, id: id(&found), object, fd, list, todo: Vec::new() });
        Ok(())
    }

    fn failed(&self, at: &Name, why: &Error) {
        (self.into.failed)(&at.path(), why);
    }

    /// The file of a name of the last directory, if it is one.
    fn found(&mut self, name: &[u8]) -> Option<Task> {
        let into = self.into;
        let level = self.levels.last_mut()?;
        let from = Arc::clone(level.fd.as_ref()?);
        match look(&from, name) {
            Ok((_, found)) if found.is_dir() => level.todo.push((name.to_vec(), id(&found))),
            Ok((_, found)) => {
                let (at, dir, name) = (Arc::clone(&level.at), level.object, name.to_vec());
                return Some(Task { from, at, dir, name, as_name: None, found });
            }
            Err(e) => {
                (into.failed)(&level.at.below(name).path(), &e.into());
            }
        }
        None
    }

    /// Goes into the next directory of the last one; false when there is none.
    fn down(&mut self) -> bool {
        let Some(level) = self.levels.last_mut() else { return false };
        let Some((name, before)) = level.todo.pop() else { return false };
        let (at, dir) = (level.at.below(&name), level.object);
        let opened = match &level.fd {
            Some(fd) => open_directory(fd, &name, before),
            None => Err(changed()),
        };
        let entered =
            opened.and_then(|opened| self.enter(Arc::clone(&at), opened, dir, Some(&name)));
        if let Err(e) = entered {
            self.failed(&at, &e);
            if e.kind().ends_all() {
                // The files that are to come say the same.
                self.levels.clear();
            }
        }
        true
    }

    /// Leaves the last directory for the one it is in.
    fn up(&mut self) {
        let Some(left) = self.levels.pop() else { return };
        let Some(above) = self.levels.last_mut() else { return };
        if above.fd.is_some() {
            return;
        }
        let opened = match &left.fd {
            Some(fd) => open_directory(fd, b"..", above.id),
            None => Err(changed()),
        };
        match opened {
            Ok((fd, _)) => above.fd = Some(Arc::new(fd)),
            Err(_) if above.todo.is_empty() => {}
            Err(e) => {
                above.todo.clear();
                let at = Arc::clone(&above.at);
                self.failed(&at, &e);
            }
        }
    }
}

impl Iterator for Walk<'_, '_> {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            if self.into.ingest.progress.is_cancelled() {
                return None;
            }
            let level = self.levels.last_mut()?;
            let listed = match &mut level.list {
                Some(list) => list.read(),
                None => None,
            };
            match listed {
                Some(Ok(entry)) => {
                    let name = entry.file_name().to_bytes();
                    if name == b"." || name == b".." {
                        continue;
                    }
                    if let Some(task) = self.found(name) {
                        return Some(task);
                    }
                }
                Some(Err(e)) => {
                    level.list = None;
                    let at = Arc::clone(&level.at);
                    self.failed(&at, &io::Error::from(e).into());
                }
                None => {
                    level.list = None;
                    if !self.down() {
                        self.up();
                    }
                }
            }
        }
    }
}
