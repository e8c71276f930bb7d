//! A directory is removed with all in it.

use crate::Progress;
use crate::error::{ErrorKind, Place};
use ondisk::spelling;
use std::fmt;
use zpl::{Error, FileKind, Filesystem, Time};

/// A directory that is on the list.
struct Listed {
    /// The directory it is in, and its name there.
    dir: u64,
    name: Vec<u8>,
    object: u64,
    /// All in it is gone.
    is_empty: bool,
}

/// Why something below a directory was not removed. Files that were removed before it are gone.
#[derive(Debug)]
pub struct NotRemoved {
    /// Its names below the directory that was to be removed; the directory's own where it is that.
    pub names: Vec<Vec<u8>>,
    /// The cause.
    pub cause: NotRemovedCause,
}

/// The cause of a failed removal.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotRemovedCause {
    /// The file system refuses, or cannot read it.
    Failed(Error),
    /// A name leads to a directory that names another one as its parent.
    Displaced,
    /// It was called off.
    Cancelled(crate::Cancelled),
}

impl fmt::Display for NotRemovedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(e) => e.fmt(f),
            Self::Displaced => {
                f.write_str("the directory belongs to another one; the tree is damaged")
            }
            Self::Cancelled(e) => e.fmt(f),
        }
    }
}

impl From<Error> for NotRemovedCause {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

impl From<crate::Cancelled> for NotRemovedCause {
    fn from(e: crate::Cancelled) -> Self {
        Self::Cancelled(e)
    }
}

impl From<NotRemoved> for crate::Error {
    fn from(e: NotRemoved) -> Self {
        let names: Vec<String> = e.names.iter().map(|name| spelling::name(name)).collect();
        let error = match e.cause {
            NotRemovedCause::Failed(e) => e.into(),
            NotRemovedCause::Cancelled(e) => e.into(),
            cause @ NotRemovedCause::Displaced => {
                Self::new(ErrorKind::Damaged).because(cause.to_string())
            }
        };
        error.at(Place::File(names.join("/")))
    }
}

/// Removes the directory `name` of the directory `dir`, with all in it; each file is a change of
/// its own, made at `now`. `progress` counts what is gone.
///
/// The stack is a list: names may nest deeper than calls. A directory is entered from the one it
/// names as its parent alone: in a damaged or hostile tree a name may lead to a directory of
/// somewhere else, or of further up.
///
/// # Errors
/// The first file that could not be removed; none is tried after it.
///
/// ```
/// # use engine::files::{NewFile, NewKind, Time, remove_tree};
/// # use engine::Progress;
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// # let (fs, now) = (pool.filesystem("tank")?, Time { seconds: 1, nanos: 0 });
/// let (root, progress) = (fs.root_object(), Progress::new());
/// let letters = fs.create(root, b"letters", &NewFile::new(NewKind::Dir, 0o755, now))?;
/// fs.create(letters.number(), b"first", &NewFile::new(NewKind::File, 0o644, now))?;
///
/// remove_tree(&fs, (root, b"letters"), &|| now, &progress).unwrap();
/// assert!(fs.root()?.lookup(b"letters")?.is_none());
/// assert_eq!(progress.snapshot().done, 2);
/// # Ok::<(), engine::Error>(())
/// ```
pub fn remove_tree(
    fs: &Filesystem,
    (dir, name): (u64, &[u8]),
    now: &dyn Fn() -> Time,
    progress: &Progress,
) -> Result<(), NotRemoved> {
    let top = |object| Listed { dir, name: name.to_vec(), object, is_empty: false };
    let found = fs.node(dir).and_then(|parent| parent.lookup(name));
    let mut todo = match found {
        Ok(Some(entry)) => vec![top(entry.object)],
        Ok(None) => return Ok(()),
        Err(e) => return Err(NotRemoved { names: vec![name.to_vec()], cause: e.into() }),
    };
    while let Some(listed) = todo.pop() {
        match one(fs, &listed, now, progress) {
            Ok(dirs) => {
                if !listed.is_empty {
                    todo.push(Listed { is_empty: true, ..listed });
                    todo.extend(dirs);
                }
            }
            Err(cause) => {
                // The directories still to be emptied are on the way to it, but for the directory
                // itself.
                let above = todo.into_iter().filter(|d| d.is_empty).skip(1).map(|d| d.name);
                return Err(NotRemoved { names: above.chain([listed.name]).collect(), cause });
            }
        }
    }
    Ok(())
}

/// Removes the files of a directory and gives the directories in it, or the directory when it is
/// empty.
fn one(
    fs: &Filesystem,
    listed: &Listed,
    now: &dyn Fn() -> Time,
    progress: &Progress,
) -> Result<Vec<Listed>, NotRemovedCause> {
    progress.check()?;
    let Listed { dir, name, object, is_empty } = listed;
    if *is_empty {
        fs.rmdir(*dir, name, now())?;
        progress.add(1, 0);
        return Ok(Vec::new());
    }
    let node = fs.node(*object)?;
    if node.parent != *dir {
        return Err(NotRemovedCause::Displaced);
    }
    let mut dirs = Vec::new();
    for entry in node.entries()? {
        progress.check()?;
        let entry = entry?;
        match fs.node(entry.object)?.kind() {
            FileKind::Dir => dirs.push(Listed {
                dir: *object,
                name: entry.name,
                object: entry.object,
                is_empty: false,
            }),
            _ => {
                fs.unlink(*object, &entry.name, now())?;
                progress.add(1, 0);
            }
        }
    }
    Ok(dirs)
}
