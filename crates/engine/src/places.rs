//! Places in a pool as people give them: `POOL/DATASET[@SNAPSHOT]:PATH`.
//!
//! Names of datasets may hold colons and paths may be any bytes, so the text is kept as given
//! until the pool is open; then the first colon behind which a dataset's name ends divides it.

use crate::error::{Error, ErrorKind, Result};
use dsl::Dataset;
use pool::Pool;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use zpl::{Filesystem, Node};

/// A place as it was given.
///
/// ```
/// use engine::places::GivenPlace;
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::Create::filesystem("tank/home")?.run(&pool)?;
/// let place = GivenPlace::from(std::ffi::OsStr::new("tank/home:/letters/to a friend"));
/// assert_eq!(place.pool(), "tank");
/// let found = place.find(pool.view()).unwrap();
/// assert_eq!(found.dataset.name, "tank/home");
/// assert_eq!(found.path(), b"/letters/to a friend");
/// assert_eq!(found.last_name(), Some(&b"to a friend"[..]));
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenPlace(OsString);

impl From<OsString> for GivenPlace {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl From<&OsStr> for GivenPlace {
    fn from(text: &OsStr) -> Self {
        Self(text.to_owned())
    }
}

/// Why no place was found.
#[derive(Debug)]
pub enum PlaceNotFound {
    /// It could not be looked for.
    Failed(Error),
    /// There is no such dataset, or the text names none.
    NoDataset {
        /// The place as given.
        shown: String,
        /// The pool's error for the first name that it might be.
        error: Option<Error>,
    },
}

/// A place that was found.
#[derive(Debug)]
pub struct FoundPlace {
    /// The dataset.
    pub dataset: Dataset,
    /// The path in it; `None` when only the dataset was named.
    pub path: Option<Vec<u8>>,
}

impl GivenPlace {
    /// As given, for messages.
    #[must_use]
    pub fn shown(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// The name of the pool.
    #[must_use]
    pub fn pool(&self) -> String {
        let name = self.0.as_bytes().split(|b| b"/@:".contains(b)).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    /// It means the pool as a whole.
    #[must_use]
    pub fn is_pool(&self, pool: &Pool) -> bool {
        self.resolved_in(pool) == pool.name().as_bytes()
    }

    /// It is in this pool.
    #[must_use]
    pub fn is_in(&self, pool: &Pool) -> bool {
        let named = self.pool();
        named == pool.name() || named.parse() == Ok(pool.guid())
    }

    /// As given, with the name of the pool in place of its guid.
    fn resolved_in(&self, pool: &Pool) -> Vec<u8> {
        let text = self.0.as_bytes();
        let named = self.pool();
        match text.get(named.len()..).filter(|_| named == pool.guid().to_string()) {
            Some(rest) if named != pool.name() => [pool.name().as_bytes(), rest].concat(),
            _ => text.to_vec(),
        }
    }

    /// Finds the dataset.
    ///
    /// # Errors
    /// See [`PlaceNotFound`].
    pub fn find(&self, pool: &Pool) -> std::result::Result<FoundPlace, PlaceNotFound> {
        let dsl = pool.datasets();
        let text = &self.resolved_in(pool);
        let mut error = None;
        let colons = text.iter().enumerate().filter(|(_, b)| **b == b':').map(|(i, _)| i);
        for end in colons.chain([text.len()]) {
            let Ok(name) = std::str::from_utf8(text.get(..end).unwrap_or_default()) else { break };
            match dsl.by_name(name) {
                Ok(dataset) => {
                    let path = text.get(end + 1..).map(<[u8]>::to_vec);
                    return Ok(FoundPlace { dataset, path });
                }
                Err(e) => match Error::from(e) {
                    e if is_no_name(&e) => error = error.or(Some(e)),
                    e => return Err(PlaceNotFound::Failed(e)),
                },
            }
        }
        Err(PlaceNotFound::NoDataset { shown: self.shown(), error })
    }
}

/// No dataset has that name, or can have it.
fn is_no_name(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidName)
}

impl FoundPlace {
    /// The path; the root's when only the dataset was named.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        self.path.as_deref().unwrap_or_default()
    }

    /// The last name of the path; `None` for the root.
    #[must_use]
    pub fn last_name(&self) -> Option<&[u8]> {
        divided(self.path()).1
    }

    /// The file; `follow`: also through a symbolic link at the end.
    ///
    /// # Errors
    /// There is none, or a directory on the way cannot be read.
    pub fn node(&self, fs: &Filesystem, follow: bool) -> Result<Node> {
        Ok(fs.by_path(self.path(), follow)?)
    }
}

/// A path's directory and last name; `.` and `..` name nothing.
#[must_use]
pub fn divided(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let path = &path[..end];
    let start = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let name = path.get(start..).filter(|n| !n.is_empty() && *n != b"." && *n != b"..");
    (path.get(..start).unwrap_or_default(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_divided() {
        assert_eq!(divided(b"/a/b/"), (&b"/a/"[..], Some(&b"b"[..])));
        assert_eq!(divided(b"b"), (&b""[..], Some(&b"b"[..])));
        assert_eq!(divided(b"/"), (&b""[..], None));
        assert_eq!(divided(b"a/.."), (&b"a/"[..], None));
    }

    #[test]
    fn the_pool_is_the_first_name() {
        for text in ["tank", "tank/a@b:c/d", "tank@s:x", "tank:/x"] {
            assert_eq!(GivenPlace::from(OsStr::new(text)).pool(), "tank");
        }
    }
}
