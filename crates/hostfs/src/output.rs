//! Files of output. There are three kinds: what a user wants written to a place
//! ([`Output::create`]), a file that a program makes for itself ([`Output::own`]), and one that it
//! writes for as long as it runs ([`append`], [`stream_to`]).
//!
//! | what has the name | [`Output::create`] | [`Output::own`] | [`append`], [`stream_to`] |
//! | --- | --- | --- | --- |
//! | nothing, or a regular file | replaced when the new one is whole | the same | written into |
//! | a pipe, a terminal, a character device | written into | refused | written into |
//! | a symbolic link | what it leads to is written into | refused | refused |
//! | a file with several names | written into | refused | written into |
//! | a block device, a directory, a socket | refused | refused | refused |
//!
//! Where links are followed, that is left to the system, as with `>`, and so are its rules about
//! links in folders that all may write to.
//!
//! Nothing here waits for a device to open. A pipe must have a reader: one that has none soon is
//! refused ([`PATIENCE`]).

use crate::{FileInfo, Identity, link_open, named, nameless, random_name};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fcntl_getfl, fcntl_setfl,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a pipe may be without a reader: the two ends are often opened at the same time.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the check is called.
const TICK: Duration = Duration::from_millis(10);

/// Whether the output is still wanted; asked while a pipe without a reader is waited for.
pub type CancelCheck<'a> = &'a dyn Fn() -> bool;

/// A file of output that is being written. It has its name only after [`Output::finish`].
pub struct Output {
    path: PathBuf,
    file: File,
    how: WriteMode,
}

enum WriteMode {
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

impl Output {
    /// Begins. An error of opening the file is returned now, not after the work.
    pub fn create(path: &Path, is_wanted: CancelCheck<'_>) -> io::Result<Self> {
        open(path, is_wanted).map(|opened| Self::begin(path, opened))
    }

    /// Begins a file that is the program's own: it is a regular file in the end, or nothing is
    /// changed.
    pub fn own(path: &Path) -> io::Result<Self> {
        let opened = match look(path)? {
            Some(look) if !(look.is_file() && look.links == 1) => {
                return Err(io::Error::other(format!("there is {} already", kind_of(&look))));
            }
            look => replace(path, look.as_ref())?,
        };
        Ok(Self::begin(path, opened))
    }

    /// Writes into what is open already, such as standard output.
    #[must_use]
    pub fn to_open(path: &Path, file: File) -> Self {
        Self::begin(path, (file, WriteMode::InPlace { is_old: false }))
    }

    fn begin(path: &Path, (file, how): (File, WriteMode)) -> Self {
        Self { path: path.to_owned(), file, how }
    }

    /// The file, to be written in order; what was in it is gone.
    pub fn file(&mut self) -> io::Result<&File> {
        self.empty()?;
        Ok(&self.file)
    }

    /// Another descriptor of the file.
    pub fn again(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// It is a regular file: it can be written at any offset.
    pub fn is_file(&self) -> io::Result<bool> {
        Ok(FileInfo::of(&self.file)?.is_file())
    }

    fn empty(&mut self) -> io::Result<()> {
        if let WriteMode::InPlace { is_old } = &mut self.how
            && std::mem::take(is_old)
        {
            self.file.set_len(0)?;
        }
        Ok(())
    }

    /// The work ended: when all was written, the file gets its name, and else it goes.
    pub fn finish(mut self, written: io::Result<()>) -> io::Result<()> {
        written.and_then(|()| self.try_finish())
    }

    /// Removes the file, if it still is the one that was written: what ends with its program.
    pub fn remover(&self) -> io::Result<Remover> {
        let look = FileInfo::of(&self.file)?;
        let identity = look.is_file().then_some(look.identity);
        Ok(Remover { path: self.path.clone(), identity, _file: self.file.try_clone()? })
    }

    fn try_finish(&mut self) -> io::Result<()> {
        self.empty()?;
        let WriteMode::Replace { folder, name, temporary } = &mut self.how else { return Ok(()) };
        self.file.sync_all()?;
        if temporary.is_none() {
            let own = random_name();
            link_open(self.file.as_fd(), &*folder, own.as_bytes())?;
            *temporary = Some(own);
        }
        let there = statat(&*folder, &**name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|s| !FileInfo::from(&s).is_file()) {
            return Err(io::Error::other("something else has this name by now"));
        }
        if let Some(own) = temporary.as_deref() {
            renameat(&*folder, own, &*folder, &**name)?;
        }
        *temporary = None;
        Ok(())
    }
}

/// Removes a file when it is dropped, if its name still refers to it. Only a regular file is
/// removed.
pub struct Remover {
    path: PathBuf,
    identity: Option<Identity>,
    /// Held, so that no other file can be the same.
    _file: File,
}

impl Drop for Remover {
    fn drop(&mut self) {
        let there = statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        let is_it = there.is_ok_and(|s| Some(FileInfo::from(&s).identity) == self.identity);
        if is_it {
            let _ = unlinkat(CWD, &self.path, AtFlags::empty());
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let WriteMode::Replace { folder, temporary: Some(name), .. } = &self.how {
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

/// The file of the name; a link is not followed.
fn look(path: &Path) -> io::Result<Option<FileInfo>> {
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(s) => Ok(Some(FileInfo::from(&s))),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn kind_of(look: &FileInfo) -> &'static str {
    if look.is_file() { "a file with several names" } else { look.kind_name() }
}

fn open(path: &Path, is_wanted: CancelCheck<'_>) -> io::Result<(File, WriteMode)> {
    let Some(look) = look(path)? else { return replace(path, None) };
    if !(look.is_file() && look.links == 1) {
        return in_place(path, look.kind == FileType::Symlink, is_wanted);
    }
    // A user without the right to write to it may not replace it either.
    let (old, how) = in_place(path, false, is_wanted)?;
    match replace(path, Some(&FileInfo::of(&old)?)) {
        Ok(new) => Ok(new),
        // A file that may be written in a folder that may not.
        Err(e) if matches!(e.kind(), io::ErrorKind::PermissionDenied) => Ok((old, how)),
        Err(e) => Err(e),
    }
}

fn in_place(
    path: &Path,
    is_link: bool,
    is_wanted: CancelCheck<'_>,
) -> io::Result<(File, WriteMode)> {
    // As with `>`, a link that leads nowhere has its end made.
    let flags = if is_link { WRITE | OFlags::CREATE } else { WRITE };
    let (file, look) = match open_to_write(path, flags, is_wanted) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            open_to_write(path, WRITE, is_wanted)?
        }
        other => other?,
    };
    Ok((file, WriteMode::InPlace { is_old: look.is_file() }))
}

/// Opens a file that can be written into, without waiting for it, and describes it.
fn open_to_write(
    path: &Path,
    flags: OFlags,
    is_wanted: CancelCheck<'_>,
) -> io::Result<(File, FileInfo)> {
    let until = Instant::now() + PATIENCE;
    let file = loop {
        match openat(CWD, path, flags | OFlags::NONBLOCK, MODE) {
            Ok(file) => break file,
            Err(Errno::NXIO) if !look(path)?.is_some_and(|l| l.kind == FileType::Fifo) => {
                return Err(Errno::NXIO.into());
            }
            Err(Errno::NXIO) if Instant::now() < until && is_wanted() => {
                std::thread::sleep(TICK);
            }
            Err(Errno::NXIO) => return Err(io::Error::other("no program reads from this pipe")),
            Err(Errno::LOOP) if flags.contains(OFlags::NOFOLLOW) => {
                return Err(io::Error::other("it is a symbolic link"));
            }
            Err(e) => return Err(e.into()),
        }
    };
    let look = FileInfo::of(&file)?;
    match look.kind {
        FileType::BlockDevice => Err(io::Error::other("it is a block device")),
        _ => {
            // From here on what is written waits for its reader, as usual.
            fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
            Ok((File::from(file), look))
        }
    }
}

/// A new file beside `path`, with owner and mode of the one it will replace.
fn replace(path: &Path, old: Option<&FileInfo>) -> io::Result<(File, WriteMode)> {
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
    Ok((file, WriteMode::Replace { folder, name, temporary }))
}

/// Gives a new file the owner and mode of the one it will replace.
fn take_over(file: &File, old: &FileInfo) -> io::Result<()> {
    let now = FileInfo::of(file)?;
    if (now.owner, now.group) != (old.owner, old.group) {
        fchown(file, Some(Uid::from_raw(old.owner)), Some(Gid::from_raw(old.group)))?;
    }
    Ok(fchmod(file, Mode::from_raw_mode(old.mode & 0o777))?)
}

/// Opens a file to add to it, as `>>` does, but not through a link.
pub fn append(path: &Path, is_wanted: CancelCheck<'_>) -> io::Result<File> {
    long_lived(path, OFlags::APPEND, is_wanted).map(|(file, _)| file)
}

/// Opens a file that is written for as long as the program runs, and read meanwhile: emptied, as
/// `>` does, but not through a link.
pub fn stream_to(path: &Path, is_wanted: CancelCheck<'_>) -> io::Result<File> {
    let (file, look) = long_lived(path, OFlags::empty(), is_wanted)?;
    if look.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

fn long_lived(
    path: &Path,
    how: OFlags,
    is_wanted: CancelCheck<'_>,
) -> io::Result<(File, FileInfo)> {
    open_to_write(path, WRITE | OFlags::CREATE | OFlags::NOFOLLOW | how, is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// It is never cancelled.
    fn ever() -> bool {
        true
    }

    fn write(path: &Path, text: &[u8]) -> io::Result<()> {
        let mut output = Output::create(path, &ever)?;
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
        let mut half = Output::create(&path, &ever).unwrap();
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
            let output = Output::own(&path).unwrap();
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
    }

    #[test]
    fn a_file_of_its_own_takes_the_place_of_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("precious"), "kept").unwrap();
        std::os::unix::fs::symlink("precious", path("link")).unwrap();
        std::os::unix::fs::symlink("nothing", path("dangling")).unwrap();
        fs::write(path("one"), "kept").unwrap();
        fs::hard_link(path("one"), path("two")).unwrap();
        fs::create_dir(path("dir")).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, path("pipe"), FileType::Fifo, mode, 0).unwrap();
        for name in ["link", "dangling", "one", "dir", "pipe"] {
            assert!(Output::own(&path(name)).is_err(), "{name}");
        }
        for name in ["link", "dangling", "dir"] {
            assert!(
                append(&path(name), &ever).is_err() && stream_to(&path(name), &ever).is_err(),
                "{name}"
            );
        }
        assert_eq!(fs::read(path("precious")).unwrap(), b"kept");
        assert!(!path("nothing").exists());
        append(&path("one"), &ever).unwrap().write_all(b" more").unwrap();
        assert_eq!(fs::read(path("two")).unwrap(), b"kept more");
        assert!(
            stream_to(&path("one"), &ever).is_ok() && fs::read(path("two")).unwrap().is_empty()
        );
    }

    #[test]
    fn a_pipe_that_nothing_reads_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        let errors = [
            Output::create(&pipe, &ever).err().unwrap(),
            append(&pipe, &ever).unwrap_err(),
            stream_to(&pipe, &ever).unwrap_err(),
        ];
        for why in errors {
            assert!(why.to_string().contains("no program reads"), "{why}");
        }
    }

    #[test]
    fn devices_and_pipes_are_written_into() {
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(Output::create(Path::new("/"), &ever).is_err());
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
