//! A regular file that has no name until it is whole.
//!
//! Where the file system can, it is made without any name (`O_TMPFILE`), so that nothing is left
//! of it when the program is killed. Elsewhere it is made in a private folder in the directory
//! that the user named. That folder's name is random: no pool can hold it. It goes when the copy
//! ends; one that was left by a killed copy has nothing but files that are not needed.

use super::dir::{Dir, FileInfo, Identity, link_open};
use super::staging::{Folder, OWN, named, nameless, random_name};
use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file that is being written.
pub struct NewFile<'d> {
    /// The file itself.
    pub file: File,
    dir: &'d Dir,
    /// Its temporary name, where it has one.
    temporary: Option<(Arc<Folder>, String)>,
}

impl Dir {
    /// A new, empty file that will be in this directory.
    pub fn begin(&self) -> io::Result<NewFile<'_>> {
        let staging = self.staging();
        if !staging.is_plain.load(Ordering::Relaxed) {
            if let Some(file) = nameless(self, OWN)? {
                return Ok(NewFile { file, dir: self, temporary: None });
            }
            staging.is_plain.store(true, Ordering::Relaxed);
        }
        let folder = staging.folder()?;
        let (file, name) = named(&folder.handle, OWN)?;
        Ok(NewFile { file, dir: self, temporary: Some((folder, name)) })
    }
}

impl NewFile<'_> {
    /// Gives it its name. A file that has the name already stays, and is an error, unless it is
    /// `replaced`.
    pub fn finish(mut self, name: &[u8], replaced: Option<Identity>) -> io::Result<Identity> {
        super::names::check(name)?;
        let identity = FileInfo::of(&self.file)?.identity;
        if let Some(seen) = replaced {
            return self.finish_over(name, seen).map(|()| identity);
        }
        match &self.temporary {
            None => link_open(self.file.as_fd(), self.dir, name)?,
            Some((folder, old)) => {
                // Such file systems are mostly on a network, and say only now that they are full.
                self.file.sync_all()?;
                let to = self.dir.as_fd();
                match renameat_with(&folder.handle, old, to, name, RenameFlags::NOREPLACE) {
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        linkat(&folder.handle, old, to, name, AtFlags::empty())?;
                    }
                    other => {
                        other?;
                        self.temporary = None;
                    }
                }
            }
        }
        Ok(identity)
    }

    /// Gives it the name of what was looked at before, which has the name until then.
    fn finish_over(&mut self, name: &[u8], seen: Identity) -> io::Result<()> {
        let dir = self.dir;
        let check = || match dir.look(name)?.is_some_and(|now| now.identity != seen) {
            true => Err(io::Error::other("it is being changed by another program")),
            false => Ok(()),
        };
        if let Some((folder, old)) = &self.temporary {
            self.file.sync_all()?;
            check()?;
            renameat(&folder.handle, old, dir, name)?;
            self.temporary = None;
            return Ok(());
        }
        let own = random_name();
        link_open(self.file.as_fd(), dir, own.as_bytes())?;
        let renamed = check().and_then(|()| Ok(renameat(dir, own.as_str(), dir, name)?));
        if renamed.is_err() {
            let _ = unlinkat(dir, own.as_str(), AtFlags::empty());
        }
        renamed
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some((folder, name)) = &self.temporary {
            let _ = unlinkat(&folder.handle, name.as_str(), AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn names(path: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_leaves_nothing_else() {
        for is_plain in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let dir = Dir::open_target(place.path(), false).unwrap();
            dir.staging().is_plain.store(is_plain, Ordering::Relaxed);
            let mut new = dir.begin().unwrap();
            new.file.write_all(b"one").unwrap();
            assert!(names(place.path()).iter().all(|n| n.starts_with(".zinc-")));
            new.finish(b"a", None).unwrap();
            // The existing file stays.
            let error = dir.begin().unwrap().finish(b"a", None).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(place.path().join("a")).unwrap(), b"one");
            let seen = dir.look(b"a").unwrap().map(|l| l.identity);
            dir.begin().unwrap().finish(b"a", seen).unwrap();
            assert_eq!(std::fs::read(place.path().join("a")).unwrap(), b"");
            drop(dir.begin().unwrap());
            drop(dir);
            assert_eq!(names(place.path()), ["a"], "plain: {is_plain}");
        }
    }
}
