//! The file that a verb was told to write to (`-o FILE`).
//!
//! | what has the name | what happens |
//! | --- | --- |
//! | nothing, or a regular file | it is replaced when the new one is whole: never half a file |
//! | a pipe, a terminal, a character device | it is written into |
//! | a symbolic link, a file with several names | it stays, and what it leads to is written into |
//! | a block device, a directory | refused |
//!
//! Following a link is left to the system, as with `>`, and so are its rules about links in folders
//! that all may write to. `/dev/stdout` and its like are the streams of whoever runs the verb,
//! also when a server runs it.

use super::dir::{Identity, Look, link_open};
use super::new_file::{named, nameless, random_name};
use crate::failure::Failure;
use crate::{asked, ui};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A file of output that is being written. It has its name only after [`Output::finish`].
pub struct Output {
    path: PathBuf,
    file: File,
    how: How,
}

enum How {
    /// Written into; `true`: what was in it goes with the first write.
    InPlace { is_old: bool },
    /// A new file that takes the name at the end.
    Replace { folder: OwnedFd, name: Vec<u8>, temporary: Option<String> },
}

const MODE: Mode = Mode::RUSR
    .union(Mode::WUSR)
    .union(Mode::RGRP)
    .union(Mode::WGRP)
    .union(Mode::ROTH)
    .union(Mode::WOTH);
const WRITE: OFlags = OFlags::WRONLY.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The stream a path stands for, by its number.
fn stream(path: &Path) -> Option<usize> {
    match path.as_os_str().as_bytes() {
        b"/dev/stdout" | b"/dev/fd/1" | b"/proc/self/fd/1" => Some(0),
        b"/dev/stderr" | b"/dev/fd/2" | b"/proc/self/fd/2" => Some(1),
        _ => None,
    }
}

fn failed(path: &Path, e: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}", path.display())).because(e.to_string())
}

impl Output {
    /// Begins. That the file cannot be written is said now, not after the work.
    pub fn create(typed: &Path) -> Result<Self, Failure> {
        let path = asked::path(typed);
        let opened = match stream(&path) {
            Some(number) => ui::streams().map(|streams| {
                let [out, errors] = streams;
                let fd = if number == 0 { out } else { errors };
                (File::from(fd), How::InPlace { is_old: false })
            }),
            None => open(&path),
        };
        match opened {
            Ok((file, how)) => Ok(Self { path, file, how }),
            Err(e) => Err(failed(&path, &e)),
        }
    }

    /// The file, empty, to be written at any offset; `None` when it takes bytes only in order.
    pub fn at_any_offset(&mut self) -> io::Result<Option<&File>> {
        self.empty()?;
        let is_stream = stream(&self.path).is_some();
        let is_file = !is_stream && Look::of(&self.file)?.is_file();
        Ok(is_file.then_some(&self.file))
    }

    fn empty(&mut self) -> io::Result<()> {
        if let How::InPlace { is_old } = &mut self.how
            && std::mem::take(is_old)
        {
            self.file.set_len(0)?;
        }
        Ok(())
    }

    /// The work ended: when all was written, the file gets its name, and else it goes.
    pub fn finish(mut self, written: io::Result<()>) -> Result<(), Failure> {
        let done = written.and_then(|()| self.try_finish());
        done.map_err(|e| failed(&self.path, &e))
    }

    /// Removes the file, if it still is the one that was written: what ends with its program.
    pub fn remover(&self) -> io::Result<Remover> {
        let look = Look::of(&self.file)?;
        let identity = look.is_file().then_some(look.identity);
        Ok(Remover { path: self.path.clone(), identity, _file: self.file.try_clone()? })
    }

    fn try_finish(&mut self) -> io::Result<()> {
        self.empty()?;
        let How::Replace { folder, name, temporary } = &mut self.how else { return Ok(()) };
        self.file.sync_all()?;
        if temporary.is_none() {
            let own = random_name();
            link_open(self.file.as_fd(), &*folder, own.as_bytes())?;
            *temporary = Some(own);
        }
        let there = statat(&*folder, &**name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|s| !Look::from(&s).is_file()) {
            return Err(io::Error::other("something else has the name by now"));
        }
        if let Some(own) = temporary.as_deref() {
            renameat(&*folder, own, &*folder, &**name)?;
        }
        *temporary = None;
        Ok(())
    }
}

/// Takes a file away when it is dropped, if its name still stands for it. What is no regular file
/// stays.
pub struct Remover {
    path: PathBuf,
    identity: Option<Identity>,
    /// Held, so that no other file can be the same.
    _file: File,
}

impl Drop for Remover {
    fn drop(&mut self) {
        let there = statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        let is_it = there.is_ok_and(|s| Some(Look::from(&s).identity) == self.identity);
        if is_it {
            let _ = unlinkat(CWD, &self.path, AtFlags::empty());
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let How::Replace { folder, temporary: Some(name), .. } = &self.how {
            let _ = unlinkat(folder, name.as_str(), AtFlags::empty());
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.empty()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<(File, How)> {
    let look = match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(s) => Some(Look::from(&s)),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e.into()),
    };
    let Some(look) = look else { return replace(path, None) };
    if !(look.is_file() && look.links == 1) {
        return in_place(path, look.kind == FileType::Symlink);
    }
    // Who may not write to it may not replace it either.
    let (old, how) = in_place(path, false)?;
    match replace(path, Some(&Look::of(&old)?)) {
        Ok(new) => Ok(new),
        // A file that may be written in a folder that may not.
        Err(e) if matches!(e.kind(), io::ErrorKind::PermissionDenied) => Ok((old, how)),
        Err(e) => Err(e),
    }
}

fn in_place(path: &Path, is_link: bool) -> io::Result<(File, How)> {
    // As with `>`, a link that leads nowhere has its end made.
    let flags = if is_link { WRITE | OFlags::CREATE } else { WRITE };
    let file = match openat(CWD, path, flags, MODE) {
        Err(Errno::EXIST) => openat(CWD, path, WRITE, MODE)?,
        other => other?,
    };
    let look = Look::of(&file)?;
    match look.kind {
        FileType::BlockDevice => Err(io::Error::other("it is a block device")),
        _ => Ok((File::from(file), How::InPlace { is_old: look.is_file() })),
    }
}

/// A new file beside `path`, with owner and mode of the one it will replace.
fn replace(path: &Path, old: Option<&Look>) -> io::Result<(File, How)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.as_bytes().to_vec();
    let above = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, above, flags, Mode::empty())?;
    let (file, temporary) = match nameless(&folder, MODE)? {
        Some(file) => (file, None),
        None => named(&folder, MODE).map(|(file, name)| (file, Some(name)))?,
    };
    if let Err(e) = old.map_or(Ok(()), |old| take_over(&file, old)) {
        if let Some(own) = &temporary {
            let _ = unlinkat(&folder, own.as_str(), AtFlags::empty());
        }
        return Err(e);
    }
    Ok((file, How::Replace { folder, name, temporary }))
}

/// Gives a new file the owner and mode of the one it will replace.
fn take_over(file: &File, old: &Look) -> io::Result<()> {
    let now = Look::of(file)?;
    if (now.owner, now.group) != (old.owner, old.group) {
        fchown(file, Some(Uid::from_raw(old.owner)), Some(Gid::from_raw(old.group)))?;
    }
    Ok(fchmod(file, Mode::from_raw_mode(old.mode & 0o777))?)
}

/// Opens a file to add to it, as `>>` does. A block device is refused.
pub fn append(typed: &Path) -> Result<File, Failure> {
    plain(typed, OFlags::APPEND).map_err(|(path, e)| failed(&path, &e))
}

/// Opens a file that is written for as long as the program runs, and read meanwhile: emptied, as
/// `>` does. A block device is refused.
pub fn stream_to(typed: &Path) -> Result<File, Failure> {
    let opened = plain(typed, OFlags::empty()).and_then(|file| {
        let is_file = Look::of(&file).is_ok_and(|look| look.is_file());
        let emptied = if is_file { file.set_len(0) } else { Ok(()) };
        emptied.map(|()| file).map_err(|e| (typed.to_owned(), e))
    });
    opened.map_err(|(path, e)| failed(&path, &e))
}

fn plain(typed: &Path, how: OFlags) -> Result<File, (PathBuf, io::Error)> {
    let path = asked::path(typed);
    let opened = openat(CWD, &*path, WRITE | OFlags::CREATE | how, MODE);
    let checked = opened.map_err(io::Error::from).and_then(|file| match Look::of(&file)?.kind {
        FileType::BlockDevice => Err(io::Error::other("it is a block device")),
        _ => Ok(file.into()),
    });
    checked.map_err(|e| (path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(path: &Path, text: &[u8]) -> Result<(), Failure> {
        let mut output = Output::create(path)?;
        let written = output.write_all(text);
        output.finish(written)
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("report");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let mut half = Output::create(&path).unwrap();
        half.write_all(b"half").unwrap();
        drop(half);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn links_stay_and_what_they_lead_to_is_written() {
        let place = tempfile::tempdir().unwrap();
        let (file, link, second) = ("file", "link", "second");
        let [file, link, second] = [file, link, second].map(|n| place.path().join(n));
        fs::write(&file, "a long text").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        fs::hard_link(&file, &second).unwrap();
        for path in [&link, &second] {
            write(path, b"new").unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read(&file).unwrap(), b"new");
            assert_eq!(fs::read(&second).unwrap(), b"new");
        }
    }

    #[test]
    fn a_remover_takes_only_what_was_written() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pid");
        let make = || {
            let output = Output::create(&path).unwrap();
            let remover = output.remover().unwrap();
            output.finish(Ok(())).unwrap();
            remover
        };
        drop(make());
        assert!(!path.exists());
        let remover = make();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "of another").unwrap();
        drop(remover);
        assert!(path.exists());
        drop(Output::create(Path::new("/dev/null")).unwrap().remover().unwrap());
        assert!(Path::new("/dev/null").exists());
    }

    #[test]
    fn devices_and_pipes_are_written_into() {
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(Output::create(Path::new("/")).is_err());
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
    }
}
