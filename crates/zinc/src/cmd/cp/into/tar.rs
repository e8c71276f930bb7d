//! An archive into a pool, as `tar -x` would unpack it.

use super::now;
use crate::cmd::cp::report::CopyReport;
use crate::failure::{Failure, one_line};
use crate::place::printable;
use crate::session::Session;
use archive::{Archive, EntryType, Member};
use engine::files::{NewKind, SetAttrs, Time};
use engine::ingest::{Attributes, CHUNK, Ingest, Spot, Write};
use engine::{Cancelled, Error, Progress, Result};
use hostfs::ingest::DEPTH_MAX;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Unpacks an archive into the directory `dir`. `-` is standard input.
pub fn extract(
    ingest: &Ingest<'_>,
    report: &CopyReport,
    dir: u64,
    path: &Path,
) -> std::result::Result<(), Failure> {
    let fail = |why: &Error| {
        Failure::new(format!("cannot read archive '{}'", printable(path.as_os_str().as_bytes())))
            .because(one_line(why))
    };
    let source: Box<dyn Read> = match path == Path::new("-") {
        true => input(&report.session, ingest.progress).map_err(|e| fail(&e.into()))?,
        false => Box::new(File::open(path).map_err(|e| fail(&e.into()))?),
    };
    let mut archive = Archive::new(source);
    let mut unpack = Unpack::new(ingest, report, dir);
    let ended = loop {
        if ingest.progress.check().is_err() {
            break Err(fail(&Error::from(Cancelled)));
        }
        match archive.next_member() {
            Ok(None) => break Ok(()),
            Ok(Some(mut member)) => {
                if let Err(e) = unpack.member(&mut archive, &mut member) {
                    unpack.refused(&member);
                    if e.kind().ends_all() {
                        let what = format!("cannot unpack '{}'", printable(&member.path));
                        return Err(Failure::new(what).because(one_line(&e)));
                    }
                    report.failed(&member.path, &one_line(&e));
                }
            }
            Err(e) => break Err(fail(&of_archive(e))),
        }
    };
    unpack.set_times()?;
    ended
}

/// Standard input. That of a client is read by a thread of its own: a pipe that nobody writes to
/// must not hold what serves a client that is gone.
fn input<'p>(session: &Session, progress: &'p Progress) -> io::Result<Box<dyn Read + 'p>> {
    let Some(client) = session.client() else { return session.input() };
    let mut input = client.input.try_clone()?;
    let (send, pieces) = mpsc::sync_channel(1);
    let read = move || {
        loop {
            let mut piece = vec![0; 256 << 10];
            let got = input.read(&mut piece).map(|n| {
                piece.truncate(n);
                piece
            });
            let is_end = !got.as_ref().is_ok_and(|p| !p.is_empty());
            if send.send(got).is_err() || is_end {
                return;
            }
        }
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(read)?;
    Ok(Box::new(Piped { progress, pieces, piece: Vec::new(), at: 0 }))
}

/// Input that another thread reads.
struct Piped<'p> {
    progress: &'p Progress,
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Piped<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            self.progress.check().map_err(io::Error::other)?;
            self.piece = match self.pieces.recv_timeout(Duration::from_millis(100)) {
                Ok(piece) => piece?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            };
            self.at = 0;
            if self.piece.is_empty() {
                return Ok(0);
            }
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// A directory whose times are set when all is in it.
struct Timed {
    object: u64,
    name: Vec<u8>,
    atime: Time,
    mtime: Time,
}

struct Unpack<'u, 'a> {
    ingest: &'u Ingest<'a>,
    report: &'u CopyReport,
    top: u64,
    /// Names and objects of the directories on the way to the last member: the next one is mostly
    /// in the same directory.
    trail: Vec<(Vec<u8>, u64)>,
    timed: Vec<Timed>,
    /// Directory and name of members that were not unpacked: what has the name is something else,
    /// and gets no second names.
    refused: HashSet<(u64, Vec<u8>)>,
}

impl<'u, 'a> Unpack<'u, 'a> {
    fn new(ingest: &'u Ingest<'a>, report: &'u CopyReport, top: u64) -> Self {
        let (trail, timed, refused) = Default::default();
        Self { ingest, report, top, trail, timed, refused }
    }

    /// The directory of that path, made as far as it is missing.
    fn dir(&mut self, path: &Path) -> Result<u64> {
        let same = path.iter().zip(&self.trail).take_while(|(a, (b, _))| a.as_bytes() == b);
        let same = same.count();
        self.trail.truncate(same);
        for name in path.iter().skip(same) {
            let above = self.trail.last().map_or(self.top, |(_, object)| *object);
            if self.trail.len() >= DEPTH_MAX {
                return Err(Error::external("directories nest too deep"));
            }
            let usual = Attributes { mode: 0o755, ..Attributes::default() };
            let spot = Spot { dir: above, name: name.as_bytes(), shown: &|| path.to_owned() };
            let object = self.ingest.dir(spot, &usual)?;
            self.trail.push((name.as_bytes().to_vec(), object));
        }
        Ok(self.trail.last().map_or(self.top, |(_, object)| *object))
    }

    /// Notes that the name of a member stands for something else.
    fn refused(&mut self, member: &Member) {
        let Ok(path) = inner(&member.path) else { return };
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return };
        if let Ok(dir) = self.dir(above) {
            self.refused.insert((dir, name.as_bytes().to_vec()));
        }
    }

    fn member<R: Read>(&mut self, archive: &mut Archive<R>, member: &mut Member) -> Result<()> {
        if let Some(fault) = member.fault.take() {
            return Err(of_archive(fault));
        }
        let path = inner(&member.path)?;
        let a = &attributes(member);
        let shown: &dyn Fn() -> PathBuf = &|| path.clone();
        if path.as_os_str().is_empty() && !member.kind.is_dir() {
            return Err(Error::external("it has the name of the archive's own root"));
        }
        let above_and_name = path.parent().zip(path.file_name());
        let (Some((above, name)), false) = (above_and_name, member.kind.is_dir()) else {
            return self.directory(&path, a);
        };
        let spot = Spot { dir: self.dir(above)?, name: name.as_bytes(), shown };
        let special = match member.kind {
            EntryType::Symlink if member.link.contains(&0) => {
                return Err(Error::external("it is a link to a name with a NUL"));
            }
            EntryType::Symlink => NewKind::Symlink(member.link.clone()),
            EntryType::Fifo => NewKind::Fifo,
            EntryType::Char => NewKind::Char(member.device.0, member.device.1),
            EntryType::Block => NewKind::Block(member.device.0, member.device.1),
            EntryType::Link => return self.link(&member.link, spot),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let size = member.size().map_err(of_archive)?;
                let fill = &mut |write: &mut Write<'_>| {
                    let write = &mut |at: u64, piece: &[u8]| write(at, piece).map_err(Fault);
                    member.content(archive, CHUNK, write).map_err(|Fault(e)| e)
                };
                self.ingest.file(spot, size, a, fill)?;
                self.refused.remove(&(spot.dir, spot.name.to_vec()));
                return Ok(());
            }
            _ => return Err(Error::external("an entry of a kind that is not known")),
        };
        self.ingest.special(spot, special, a)?;
        self.refused.remove(&(spot.dir, spot.name.to_vec()));
        Ok(())
    }

    /// A directory, or the archive's own root.
    fn directory(&mut self, path: &Path, a: &Attributes) -> Result<()> {
        let object = self.dir(path)?;
        let name = path.file_name().unwrap_or(OsStr::new(".")).as_bytes();
        let spot = Spot { dir: self.top, name, shown: &|| path.to_owned() };
        // The root is the directory the user named, which keeps its mode.
        match path.as_os_str().is_empty() {
            true => {
                let (uid, gid) = (Some(a.uid), Some(a.gid));
                let set = SetAttrs { uid, gid, ..SetAttrs::default() };
                if self.ingest.owner {
                    self.ingest.fs.set_attrs(object, &set, now())?;
                }
            }
            false => self.ingest.set_attributes(object, a, spot)?,
        }
        let name = name.to_vec();
        self.timed.push(Timed { object, name, atime: a.atime, mtime: a.mtime });
        Ok(())
    }

    /// A second name of a member before.
    fn link(&mut self, target: &[u8], spot: Spot<'_>) -> Result<()> {
        let old = inner(target)?;
        let (Some(above), Some(name)) = (old.parent(), old.file_name()) else {
            return Err(Error::external("a second name of nothing"));
        };
        let from = self.dir(above)?;
        if self.refused.contains(&(from, name.as_bytes().to_vec())) {
            let name = printable(target);
            return Err(Error::external(format!(
                "a second name of '{name}', which was not unpacked"
            )));
        }
        let found = self.ingest.fs.node(from)?.lookup(name.as_bytes())?;
        let missing = Error::external("a second name of a file that is not there");
        self.ingest.link(found.ok_or(missing)?.object, spot)
    }

    /// Gives the directories their times, which what was made in them changed.
    fn set_times(&self) -> std::result::Result<(), Failure> {
        for dir in self.timed.iter().rev() {
            if let Err(e) = self.ingest.times(dir.object, dir.atime, dir.mtime) {
                if e.kind().ends_all() {
                    let what = format!("cannot unpack '{}'", printable(&dir.name));
                    return Err(Failure::new(what).because(one_line(&e)));
                }
                self.report.failed(&dir.name, &one_line(&e));
            }
        }
        Ok(())
    }
}

/// Why the content of a member does not reach the pool.
struct Fault(Error);

impl From<archive::Error> for Fault {
    fn from(e: archive::Error) -> Self {
        Self(of_archive(e))
    }
}

/// What is wrong with an archive, as a failure of the copy.
fn of_archive(e: archive::Error) -> Error {
    match e {
        archive::Error::Read(e) => e.into(),
        archive::Error::Member { name, cause } => {
            let cause = one_line(&of_archive(*cause));
            Error::external(format!("'{}': {cause}", printable(&name)))
        }
        e => Error::external(e.to_string()),
    }
}

/// The attributes of a member, which has no others left.
fn attributes(member: &mut Member) -> Attributes {
    let a = std::mem::take(&mut member.attributes);
    let time = |t: archive::Time| Time { seconds: t.seconds, nanos: t.nanos };
    Attributes {
        mode: a.mode,
        uid: a.uid,
        gid: a.gid,
        atime: time(a.atime),
        mtime: time(a.mtime),
        xattrs: a.xattrs,
    }
}

/// A path of an archive without what would lead out of where it is unpacked.
fn inner(path: &[u8]) -> Result<PathBuf> {
    let mut out = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(path)).components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => return Err(Error::external("its path has '..'")),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        assert_eq!(inner(b"/a/./b").unwrap(), PathBuf::from("a/b"));
        assert!(inner(b"a/../../b").is_err());
    }
}
