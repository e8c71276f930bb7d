//! Files and trees of a pool into a directory of this machine.
//!
//! Directories are made by one thread, in the order in which they are found; files are copied by
//! all cores. A directory gets its attributes at the end, those deep down first: until then it is
//! closed to others, for what is in it may be as private as it is itself, and a time would be
//! changed by what is made in it later. Second names of files are made when all first names are
//! there (`links.rs`).
//!
//! What the pool says is not believed: a directory that is reached a second time is reported and
//! not entered, so a damaged tree cannot make a copy endless; of a name that a directory has twice
//! the second is refused; what a file is, is said by the file, not by the directory it is in.

mod data;
mod links;
mod walk;

pub use data::{CopyError, Lost};

use crate::{Dir, Identity, Keep, Look, Tree, Xattrs, names};
use engine::files::FileKind;
use engine::{Cancelled, Progress};
use engine::{Error, Hint, InTheWay, Node};
use engine::{Filesystem, Volume};
use links::{First, Links};
use rustix::fs::FileType;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use walk::Walk;

/// Is told what happens. All calls may come from any thread.
pub trait Sink: Sync {
    /// Whether the file was copied whole in an earlier run.
    fn is_done(&self, path: &[u8], node: &Node) -> bool;
    /// A range of a file cannot be read. True: go on without it.
    fn lost(&self, path: &[u8], object: u64, lost: &Lost) -> bool;
    /// Something was not copied at all, or a directory not whole.
    fn failed(&self, path: &[u8], object: u64, why: &str);
    /// The same, of what another way of copying would do.
    fn refused(&self, path: &[u8], object: u64, why: &str, hint: &Hint);
    /// Something was copied under a name of its own, because no file here can have its name.
    fn renamed(&self, path: &[u8], object: u64, name: &[u8]);
    /// An attribute could not be kept.
    fn not_kept(&self, path: &[u8], what: &str, why: &str);
    /// A file is copied, with this many bytes lost.
    fn done(&self, path: &[u8], node: &Node, lost_bytes: u64);
}

/// What to do with a name that is there already. A directory is never replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave a whole copy as it is; anything else is a failure.
    Refuse,
    /// Replace any file; leave a link, pipe, socket or device that is the same, and replace others.
    Replace,
    /// Replace any regular file, unless the sink says it is done; links, pipes, sockets and
    /// devices only with `force`.
    Renew {
        /// Links, pipes, sockets and devices, too.
        force: bool,
    },
}

/// Copies from one file system.
pub struct Copier<'a> {
    /// The file system.
    pub fs: &'a Filesystem,
    /// Which attributes are kept.
    pub keep: Keep,
    /// The dataset has POSIX access lists.
    pub posix_acls: bool,
    /// What to do with names that are there.
    pub existing: Existing,
    /// Files whose names cannot be made here are copied under other names.
    pub escapes: bool,
    /// Is told how far it is, and says when to stop.
    pub progress: &'a Progress,
    /// Is told what happens.
    pub sink: &'a dyn Sink,
    /// Objects that were come across.
    seen: Mutex<HashSet<u64>>,
}

/// A directory that files are copied into.
struct Folder {
    /// It, held open.
    dir: Arc<Dir>,
    /// Its number in the tree.
    spot: usize,
    /// Its path, for people.
    shown: Vec<u8>,
    /// What was made, or left there as whole.
    made: Made,
}

/// What a copy of a tree made or left as whole, with the numbers of the directories it is in. All
/// folders of the tree share it, so that no later one takes for old what was copied just now.
type Made = Arc<Mutex<HashSet<(usize, Identity)>>>;

/// A file to copy.
struct Task {
    /// Where to.
    folder: Arc<Folder>,
    /// Its name there.
    name: Vec<u8>,
    /// What.
    object: u64,
}

/// What there is for a file under its name.
enum Room {
    /// Nothing, or what will be replaced.
    Free(Option<Identity>),
    /// A whole copy.
    Whole(Identity),
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    match (path, name) {
        ([], _) => name.to_vec(),
        (_, []) => path.to_vec(),
        _ => [path, b"/", name].concat(),
    }
}

impl Folder {
    fn new(dir: Arc<Dir>, spot: usize, shown: Vec<u8>, made: &Made) -> Self {
        Self { dir, spot, shown, made: Arc::clone(made) }
    }

    /// Whether this file was made here, or left as whole.
    fn has_made(&self, file: Identity) -> bool {
        lock(&self.made).contains(&(self.spot, file))
    }

    /// Notes that this file was made here, or left as whole.
    fn note_made(&self, file: Identity) {
        lock(&self.made).insert((self.spot, file));
    }
}

impl<'a> Copier<'a> {
    /// One that has seen nothing yet.
    pub fn new(fs: &'a Filesystem, keep: Keep, progress: &'a Progress, sink: &'a dyn Sink) -> Self {
        let (existing, seen) = (Existing::Refuse, Mutex::default());
        Self { fs, keep, posix_acls: false, existing, escapes: false, progress, sink, seen }
    }

    /// Whether an object was come across.
    pub fn has_seen(&self, object: u64) -> bool {
        lock(&self.seen).contains(&object)
    }

    /// Notes that an object was come across; whether that is new.
    fn see(&self, object: u64) -> bool {
        lock(&self.seen).insert(object)
    }

    /// Copies what is in the directory `top`, and its attributes, into `into`. Paths in reports
    /// begin with `prefix`.
    pub fn tree(&self, top: &Node, into: Dir, prefix: &[u8]) -> Result<(), Cancelled> {
        let links = Links::default();
        let mut walk = match Walk::new(self, top, into, prefix) {
            Ok(walk) => walk,
            Err(e) => {
                self.sink.failed(prefix, top.number(), &e.to_string());
                return Ok(());
            }
        };
        loop {
            engine::for_each_parallel(0, &mut walk, |task: Task| {
                self.progress.check()?;
                self.file(&task, &links);
                Ok::<(), Cancelled>(())
            })?;
            self.progress.check()?;
            if !walk.go_on(links.take_directories()) {
                break;
            }
        }
        let (mut tree, objects, made) = walk.into_parts();
        self.second_names(links, &mut tree, &made, prefix)?;
        self.apply_attributes(&mut tree, &objects, prefix)
    }

    /// Puts attributes on all directories, the last ones made first.
    fn apply_attributes(
        &self,
        tree: &mut Tree,
        objects: &[u64],
        prefix: &[u8],
    ) -> Result<(), Cancelled> {
        for (at, object) in objects.iter().enumerate().rev() {
            self.progress.check()?;
            let shown = || join(prefix, &tree.path(at));
            let node = match self.fs.node(*object) {
                Ok(node) => node,
                Err(e) => {
                    self.sink.not_kept(&shown(), "attributes", &e.to_string());
                    continue;
                }
            };
            let shown = shown();
            match tree.dir(at) {
                Ok(dir) => {
                    for r in dir.set_attributes(&node, self.keep, &self.xattrs(&node, &shown)) {
                        self.sink.not_kept(&shown, &r.what, &r.error.to_string());
                    }
                }
                Err(e) => self.sink.not_kept(&shown, "attributes", &e.to_string()),
            }
        }
        Ok(())
    }

    fn file(&self, task: &Task, links: &Links) {
        let shown = join(&task.folder.shown, &task.name);
        let node = match self.fs.node(task.object) {
            Ok(node) => node,
            Err(e) => return self.sink.failed(&shown, task.object, &e.to_string()),
        };
        let (spot, name) = (task.folder.spot, task.name.clone());
        if node.kind() == FileKind::Dir {
            return links.note_directory(spot, name, task.object);
        }
        if !self.see(task.object) {
            return links.note_second(spot, name, task.object);
        }
        let made = self.make(&node, &task.folder, &task.name, &shown);
        if let Some((identity, name)) = made.filter(|_| node.links > 1) {
            links.note_first(task.object, First { spot, name, identity });
        }
    }

    /// Copies one file that is no directory.
    pub fn one(&self, node: &Node, dir: Dir, name: &[u8], shown: &[u8]) {
        self.see(node.number());
        let folder = Folder::new(Arc::new(dir), 0, Vec::new(), &Made::default());
        self.make(node, &folder, name, shown);
    }

    /// Makes a file; which one it is and its name, if it is whole.
    fn make(
        &self,
        node: &Node,
        folder: &Folder,
        name: &[u8],
        shown: &[u8],
    ) -> Option<(Identity, Vec<u8>)> {
        let mut name = name.to_vec();
        let mut result = self.try_make(node, folder, &name, shown);
        if let Err(CopyError::Io(e)) = &result
            && self.escapes
            && names::is_refused(e)
            && names::escaped(&name) != name
        {
            name = names::escaped(&name);
            result = self.try_make(node, folder, &name, shown);
            if result.is_ok() {
                self.sink.renamed(shown, node.number(), &name);
            }
        }
        self.progress.add(1, 0);
        match result {
            Ok((identity, lost)) => {
                lost.into_iter().for_each(|lost| self.sink.done(shown, node, lost));
                folder.note_made(identity?);
                Some((identity?, name))
            }
            Err(CopyError::Cancelled) => None,
            Err(CopyError::Io(e)) => {
                self.tell(shown, node.number(), &e);
                None
            }
            Err(e) => {
                self.sink.failed(shown, node.number(), &e.to_string());
                None
            }
        }
    }

    /// Says why something was not copied.
    fn tell(&self, shown: &[u8], object: u64, e: &io::Error) {
        let ours = e.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match ours.and_then(Error::hint) {
            Some(hint) => self.sink.refused(shown, object, &e.to_string(), hint),
            None => self.sink.failed(shown, object, &e.to_string()),
        }
    }

    /// Which file it is, if there is one now, and the bytes lost, if something was copied.
    fn try_make(
        &self,
        node: &Node,
        folder: &Folder,
        name: &[u8],
        shown: &[u8],
    ) -> Result<(Option<Identity>, Option<u64>), CopyError> {
        match node.kind() {
            FileKind::File => self.regular(node, folder, name, shown),
            _ => Ok(self.other(node, folder, name, shown)?),
        }
    }

    /// What there is for a name, and whether it may be made; `whole` says of what is there that it
    /// is a whole copy.
    fn room(
        &self,
        folder: &Folder,
        name: &[u8],
        whole: impl Fn(&Look) -> bool,
    ) -> io::Result<Room> {
        let Some(there) = folder.dir.look(name)? else { return Ok(Room::Free(None)) };
        let exists = |why: Error| Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        if folder.has_made(there.identity) {
            return exists(Error::external(
                "another file of the pool was made here: the target does not tell their names \
                 apart",
            ));
        }
        let is_renewed = self.existing != Existing::Refuse && there.is_file();
        if !is_renewed && whole(&there) {
            return Ok(Room::Whole(there.identity));
        }
        if there.is_dir() {
            return exists(InTheWay::Directory.into());
        }
        let why = match self.existing {
            Existing::Refuse => Error::from(InTheWay::Different),
            Existing::Renew { force: false } if !there.is_file() => {
                Error::external(format!("{} is in the way", there.kind_name()))
            }
            _ => return Ok(Room::Free(Some(there.identity))),
        };
        exists(why.with_hint(Hint::Replace))
    }

    fn regular(
        &self,
        node: &Node,
        folder: &Folder,
        name: &[u8],
        shown: &[u8],
    ) -> Result<(Option<Identity>, Option<u64>), CopyError> {
        if let Some(there) = folder.dir.look(name)?
            && (there.is_file() && there.size == node.size)
            && !folder.has_made(there.identity)
            && self.sink.is_done(shown, node)
        {
            return Ok((Some(there.identity), None));
        }
        let replaced = match self.room(folder, name, |there| is_copy(there, node))? {
            Room::Free(replaced) => replaced,
            Room::Whole(identity) => return Ok((Some(identity), None)),
        };
        let out = folder.dir.begin()?;
        let mut lost_bytes = 0u64;
        let mut lost = |l: Lost| {
            lost_bytes = lost_bytes.saturating_add(l.length);
            match self.sink.lost(shown, node.number(), &l) {
                true => Ok(()),
                false => Err(CopyError::Lost(l)),
            }
        };
        data::copy(node.object(), node.size, &out.file, self.progress, &mut lost)?;
        for r in out.set_attributes(node, self.keep, &self.xattrs(node, shown)) {
            self.sink.not_kept(shown, &r.what, &r.error.to_string());
        }
        let identity = out.finish(name, replaced)?;
        Ok((Some(identity), Some(lost_bytes)))
    }

    /// Links, pipes, sockets and devices.
    fn other(
        &self,
        node: &Node,
        folder: &Folder,
        name: &[u8],
        shown: &[u8],
    ) -> io::Result<(Option<Identity>, Option<u64>)> {
        let target = match node.kind() {
            FileKind::Symlink => Some(node.read_link().map_err(io::Error::other)?),
            FileKind::Unknown => return Err(io::Error::other("a file of no known type")),
            _ => None,
        };
        let is_device = matches!(node.kind(), FileKind::Block | FileKind::Char);
        if is_device && !self.keep.devices {
            return Ok((None, None));
        }
        let dir = &folder.dir;
        let whole = |there: &Look| match &target {
            Some(target) => {
                there.kind == FileType::Symlink
                    && dir.read_link(name).is_ok_and(|link| link == *target)
            }
            None => is_special_copy(there, node),
        };
        let replaced = match self.room(folder, name, whole)? {
            Room::Free(replaced) => replaced,
            Room::Whole(identity) => return Ok((Some(identity), None)),
        };
        if let Some(seen) = replaced {
            dir.remove(name, seen)?;
        }
        let made = match &target {
            Some(target) => dir.symlink(name, target)?,
            None => match dir.special(name, node.kind(), node.device()) {
                Ok(made) => made,
                // Only root makes devices; what they were is said, so nothing is lost.
                Err(e) if is_device && e.kind() == io::ErrorKind::PermissionDenied => {
                    let (major, minor) = node.device();
                    let kind = engine::inventory::kind_name(node.kind());
                    let what = format!("{kind} device {major}:{minor}");
                    self.sink.not_kept(shown, &what, &e.to_string());
                    return Ok((None, Some(0)));
                }
                Err(e) => return Err(e),
            },
        };
        for r in made.set_attributes(node, self.keep, &self.xattrs(node, shown)) {
            self.sink.not_kept(shown, &r.what, &r.error.to_string());
        }
        Ok((Some(made.look()?.identity), Some(0)))
    }

    fn xattrs(&self, node: &Node, shown: &[u8]) -> Xattrs {
        if !self.keep.xattrs {
            return Xattrs::new();
        }
        node.linux_xattrs(self.posix_acls).unwrap_or_else(|e| {
            self.sink.not_kept(shown, "extended attributes", &e.to_string());
            Xattrs::new()
        })
    }
}

/// Whether what is there is a whole copy of a regular file: same size and time of change.
fn is_copy(there: &Look, node: &Node) -> bool {
    there.is_file()
        && there.size == node.size
        && there.mtime == (node.mtime.seconds, node.mtime.nanos)
}

/// Whether what is there is the same pipe, socket or device. Its time is set last of all.
fn is_special_copy(there: &Look, node: &Node) -> bool {
    let same_kind = match node.kind() {
        FileKind::Fifo => there.kind == FileType::Fifo,
        FileKind::Socket => there.kind == FileType::Socket,
        FileKind::Block => there.kind == FileType::BlockDevice && there.device == node.device(),
        FileKind::Char => there.kind == FileType::CharacterDevice && there.device == node.device(),
        _ => false,
    };
    same_kind && there.mtime == (node.mtime.seconds, node.mtime.nanos)
}

/// Copies a volume as a sparse image, in place of what was looked at before; the bytes lost.
pub fn volume(
    volume: &Volume,
    dir: &Dir,
    name: &[u8],
    replaced: Option<Identity>,
    progress: &Progress,
    sink: &dyn Sink,
) -> Result<u64, CopyError> {
    let object = volume.object();
    let out = dir.begin()?;
    let mut lost_bytes = 0u64;
    let mut lost = |l: Lost| {
        lost_bytes = lost_bytes.saturating_add(l.length);
        match sink.lost(name, object.number(), &l) {
            true => Ok(()),
            false => Err(CopyError::Lost(l)),
        }
    };
    data::copy(object, volume.size(), &out.file, progress, &mut lost)?;
    out.finish(name, replaced)?;
    progress.add(1, 0);
    Ok(lost_bytes)
}
