//! Links on the way to a mount point.
//!
//! A mount covers the directory that its path leads to. Where another user owns a directory on the
//! way, it can put a link there that leads anywhere, and a mount with more rights would cover a
//! directory of the system. So only links of root and of the user who mounts are followed, as the
//! system itself does in directories that all users may write to (`fs.protected_symlinks`).
//! Directories need no such rule: a directory that a user replaces is its own, and so is what is
//! covered. A link that is made between this look and the mount is not seen.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Links that are followed for one path, as in the system.
const LINKS_MAX: usize = 40;

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().map(|part| part.as_os_str().to_owned())
}

/// Refuses an absolute path that leads over a link of a user who is not `trusted`.
///
/// # Errors
/// The link, or that there are too many.
pub(super) fn refuse_foreign(path: &Path, trusted: &[u32]) -> Result<(), String> {
    let mut todo: VecDeque<OsString> = parts(path).collect();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = todo.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        // The root of an absolute path starts again.
        at.push(&part);
        let Ok(seen) = at.symlink_metadata() else { continue };
        if !seen.is_symlink() {
            continue;
        }
        if !trusted.contains(&seen.uid()) {
            return Err(format!("{} is a symbolic link of another user", at.display()));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(format!("{}: too many links", path.display()));
        }
        let target = at.read_link().map_err(|e| format!("{}: {e}", at.display()))?;
        at.pop();
        parts(&target).rev().for_each(|part| todo.push_front(part));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_others_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let me = dir.symlink_metadata().unwrap().uid();
        std::fs::create_dir(dir.join("real")).unwrap();
        symlink(dir.join("real"), dir.join("link")).unwrap();
        symlink("../link", dir.join("real/up")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        for path in ["real/x/y", "link/x", "real/up/x", "link/up/up/x", "link/../link"] {
            assert_eq!(refuse_foreign(&dir.join(path), &[me, me + 1]), Ok(()), "{path}");
        }
        let endless = refuse_foreign(&dir.join("loop/x"), &[me]);
        assert!(endless.unwrap_err().contains("too many links"));
        // Seen by a user to whom these links are another's.
        assert_eq!(refuse_foreign(&dir.join("real/x"), &[me + 1]), Ok(()));
        for path in ["link/x", "real/up", "real/up/x"] {
            let why = refuse_foreign(&dir.join(path), &[me + 1]).unwrap_err();
            assert!(why.ends_with("is a symbolic link of another user"), "{why}");
        }
    }
}
