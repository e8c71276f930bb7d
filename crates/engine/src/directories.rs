//! Directories, with those above them.

use crate::error::{Error, ErrorKind, Place, Result};
use ondisk::spelling;
use zpl::{FileKind, Filesystem, NewFile};

/// Makes a directory, and those above it that are missing, each as `new` says; one that is there
/// stays as it is. Returns its number.
///
/// ```
/// # use engine::files::{NewFile, NewKind, Time, make_directories};
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let fs = pool.filesystem("tank")?;
/// let new = NewFile::new(NewKind::Dir, 0o755, Time { seconds: 1, nanos: 0 });
/// let made = make_directories(&fs, b"/a/b/c", &new)?;
/// assert_eq!(made, make_directories(&fs, b"a/b//c", &new)?);
/// assert_eq!(made, fs.by_path(b"/a/b/c", true)?.number());
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::NotDirectory`], and its name: something else is in the way. Or it cannot be made.
pub fn make_directories(fs: &Filesystem, path: &[u8], new: &NewFile) -> Result<u64> {
    let mut at = fs.root()?;
    for name in path.split(|b| *b == b'/').filter(|n| !n.is_empty()) {
        at = match at.lookup(name)? {
            Some(entry) => fs.node(entry.object)?,
            None => fs.create(at.number(), name, new)?,
        };
        if at.kind() != FileKind::Dir {
            let place = Place::File(spelling::name(name));
            return Err(Error::new(ErrorKind::NotDirectory).at(place));
        }
    }
    Ok(at.number())
}
