//! Detects changes of a file or disk since it was looked at, without opening it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Identifies the file or disk of a name. Another file or disk of the same name differs in it, and
/// so does a file that was written to since, or a disk that was exchanged for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    is_file: bool,
    /// Device and inode; for a disk its number.
    identity: (u64, u64),
    /// Bytes, or sectors of a disk.
    size: u64,
    /// When it was written last; for a disk the number of the medium, where the system counts them.
    state: (i64, i64),
}

impl Version {
    /// Of what a path leads to.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let meta = std::fs::metadata(path)?;
        if meta.file_type().is_block_device() {
            return Ok(Self::of_disk(&meta));
        }
        Ok(Self {
            is_file: true,
            identity: (meta.dev(), meta.ino()),
            size: meta.len(),
            state: (meta.mtime(), meta.mtime_nsec()),
        })
    }

    /// The node of a disk stays where it is when its medium comes and goes.
    fn of_disk(meta: &Metadata) -> Self {
        let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
        let attribute = |what: &str| {
            let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{what}"));
            text.ok().and_then(|text| text.trim().parse::<i64>().ok())
        };
        let sectors = attribute("size").and_then(|n| u64::try_from(n).ok());
        Self {
            is_file: false,
            identity: (u64::MAX, meta.rdev()),
            size: sectors.unwrap_or(0),
            state: (attribute("diskseq").unwrap_or(0), 0),
        }
    }

    /// It is a file, which others may be writing.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.is_file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_and_one_that_was_written_to_differ() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "one").unwrap();
        let first = Version::of(&at("a")).unwrap();
        assert_eq!((Version::of(&at("a")).unwrap(), first.is_file()), (first.clone(), true));
        std::fs::rename(at("a"), at("b")).unwrap();
        assert_eq!(Version::of(&at("b")).unwrap(), first, "a name is not part of it");
        std::fs::write(at("a"), "one").unwrap();
        assert_ne!(Version::of(&at("a")).unwrap(), first);
        std::fs::write(at("b"), "more").unwrap();
        assert_ne!(Version::of(&at("b")).unwrap(), first);
        assert!(Version::of(&at("none")).is_err());
    }
}
