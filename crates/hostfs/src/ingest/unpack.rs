//! An archive into a pool, as `tar -x` would unpack it.

use super::DEPTH_MAX;
use archive::{Archive, EntryType, Member};
use engine::files::{NewKind, SetAttrs, Time};
use engine::ingest::{Attributes, CHUNK, Destination, Ingest, Write};
use engine::{Cancelled, Error, Result};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use term::{escape, without_number};

/// Why an archive was not unpacked to its end.
#[derive(Debug)]
pub enum UnpackError {
    /// The archive cannot be read, or is not an archive.
    Archive(Error),
    /// Nothing can be unpacked after this member.
    Member {
        /// Its path.
        name: Vec<u8>,
        /// The cause.
        why: Error,
    },
}

/// Called for members that were left out: path, and why.
pub type Failed<'a> = &'a dyn Fn(&[u8], &Error);

/// Unpacks an archive into the directory `dir`. Members that cannot be unpacked are left out, and
/// reported.
///
/// # Errors
/// The error that ends the whole; files unpacked before stay.
pub fn unpack(
    ingest: &Ingest<'_>,
    failed: Failed<'_>,
    dir: u64,
    source: impl Read,
) -> std::result::Result<(), UnpackError> {
    let mut archive = Archive::new(source);
    let mut unpack = Unpack::new(ingest, failed, dir);
    let ended = loop {
        if ingest.progress.check().is_err() {
            break Err(UnpackError::Archive(Error::from(Cancelled)));
        }
        match archive.next_member() {
            Ok(None) => break Ok(()),
            Ok(Some(mut member)) => {
                if let Err(why) = unpack.member(&mut archive, &mut member) {
                    unpack.refused(&member);
                    if why.kind().ends_all() {
                        return Err(UnpackError::Member { name: member.path, why });
                    }
                    failed(&member.path, &why);
                }
            }
            Err(e) => break Err(UnpackError::Archive(of_archive(e))),
        }
    };
    unpack.set_times()?;
    ended
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
    failed: Failed<'u>,
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
    fn new(ingest: &'u Ingest<'a>, failed: Failed<'u>, top: u64) -> Self {
        let (trail, timed, refused) = Default::default();
        Self { ingest, failed, top, trail, timed, refused }
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
            let dest =
                Destination { dir: above, name: name.as_bytes(), shown: &|| path.to_owned() };
            let object = self.ingest.dir(dest, &usual)?;
            self.trail.push((name.as_bytes().to_vec(), object));
        }
        Ok(self.trail.last().map_or(self.top, |(_, object)| *object))
    }

    /// Notes that the name of a member refers to something else.
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
            return Err(Error::external("it has the name of the archive's root"));
        }
        let above_and_name = path.parent().zip(path.file_name());
        let (Some((above, name)), false) = (above_and_name, member.kind.is_dir()) else {
            return self.directory(&path, a);
        };
        let dest = Destination { dir: self.dir(above)?, name: name.as_bytes(), shown };
        let special = match member.kind {
            EntryType::Symlink if member.link.contains(&0) => {
                return Err(Error::external("it is a link to a name with a NUL"));
            }
            EntryType::Symlink => NewKind::Symlink(member.link.clone()),
            EntryType::Fifo => NewKind::Fifo,
            EntryType::Char => NewKind::Char(member.device.0, member.device.1),
            EntryType::Block => NewKind::Block(member.device.0, member.device.1),
            EntryType::Link => return self.link(&member.link, dest),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let size = member.size().map_err(of_archive)?;
                let fill = &mut |write: &mut Write<'_>| {
                    let write = &mut |at: u64, piece: &[u8]| write(at, piece).map_err(Fault);
                    member.content(archive, CHUNK, write).map_err(|Fault(e)| e)
                };
                self.ingest.file(dest, size, a, fill)?;
                self.refused.remove(&(dest.dir, dest.name.to_vec()));
                return Ok(());
            }
            _ => return Err(Error::external("the kind of the entry is not known")),
        };
        self.ingest.special(dest, special, a)?;
        self.refused.remove(&(dest.dir, dest.name.to_vec()));
        Ok(())
    }

    /// A directory, or the archive's own root.
    fn directory(&mut self, path: &Path, a: &Attributes) -> Result<()> {
        let object = self.dir(path)?;
        let name = path.file_name().unwrap_or(OsStr::new(".")).as_bytes();
        let dest = Destination { dir: self.top, name, shown: &|| path.to_owned() };
        // The root is the directory the user named, which keeps its mode.
        match path.as_os_str().is_empty() {
            true => {
                let (uid, gid) = (Some(a.uid), Some(a.gid));
                let set = SetAttrs { uid, gid, ..SetAttrs::default() };
                if self.ingest.owner {
                    self.ingest.fs.set_attrs(object, &set, (self.ingest.clock)())?;
                }
            }
            false => self.ingest.set_attributes(object, a, dest)?,
        }
        let name = name.to_vec();
        self.timed.push(Timed { object, name, atime: a.atime, mtime: a.mtime });
        Ok(())
    }

    /// A second name of a member before.
    fn link(&mut self, target: &[u8], dest: Destination<'_>) -> Result<()> {
        let old = inner(target)?;
        let (Some(above), Some(name)) = (old.parent(), old.file_name()) else {
            return Err(Error::external("a hard link without a target"));
        };
        let from = self.dir(above)?;
        if self.refused.contains(&(from, name.as_bytes().to_vec())) {
            let name = escape::name(target);
            return Err(Error::external(format!(
                "a hard link to '{name}', which was not unpacked"
            )));
        }
        let found = self.ingest.fs.node(from)?.lookup(name.as_bytes())?;
        let missing = Error::external("a hard link to a file that does not exist");
        self.ingest.link(found.ok_or(missing)?.object, dest)
    }

    /// Gives the directories their times, which what was made in them changed.
    fn set_times(&self) -> std::result::Result<(), UnpackError> {
        for dir in self.timed.iter().rev() {
            if let Err(why) = self.ingest.times(dir.object, dir.atime, dir.mtime) {
                if why.kind().ends_all() {
                    return Err(UnpackError::Member { name: dir.name.clone(), why });
                }
                (self.failed)(&dir.name, &why);
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

/// Converts an error of an archive into a failure of the copy.
fn of_archive(e: archive::Error) -> Error {
    match e {
        archive::Error::Read(e) => e.into(),
        archive::Error::Member { name, cause } => {
            let cause = without_number(of_archive(*cause).to_string());
            Error::external(format!("'{}': {cause}", escape::name(&name)))
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
