//! An archive into a pool, as `tar -x` would unpack it.

use super::sink::{Attributes, CHUNK, Fault, Into, Write};
use crate::failure::Failure;
use engine::zpl::{NewKind, Time};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use tar::{Archive, EntryType};

/// Where the extended attributes of a file stand in an archive.
const XATTR_KEY: &[u8] = b"SCHILY.xattr.";

/// Unpacks an archive into the directory `dir`. `-` is standard input.
pub fn extract(into: &Into<'_>, dir: u64, path: &Path) -> Result<(), Failure> {
    let fail = |e: io::Error| {
        Failure::new(format!("cannot read archive '{}'", path.display())).because(e.to_string())
    };
    let source: Box<dyn Read> = match path == Path::new("-") {
        true => crate::asked::input()?,
        false => Box::new(File::open(path).map_err(fail)?),
    };
    let mut archive = Archive::new(source);
    let mut unpack = Unpack { into, dirs: HashMap::new(), dressed: Vec::new() };
    unpack.dirs.insert(PathBuf::new(), dir);
    for entry in archive.entries().map_err(fail)? {
        let mut entry = entry.map_err(fail)?;
        let name = entry.path().map_err(fail)?.into_owned();
        if let Err(e) = unpack.entry(&mut entry, &name) {
            if e.is_fatal() {
                let what = format!("cannot unpack '{}'", name.display());
                return Err(Failure::new(what).because(e.to_string()));
            }
            into.talk.failed(&name, &e);
        }
    }
    for (path, object, attributes) in unpack.dressed.iter().rev() {
        if let Err(e) = into.dress(*object, attributes, path) {
            into.talk.failed(path, &e);
        }
    }
    Ok(())
}

struct Unpack<'u, 'a> {
    into: &'u Into<'a>,
    dirs: HashMap<PathBuf, u64>,
    /// Directories whose attributes are still to be set.
    dressed: Vec<(PathBuf, u64, Attributes)>,
}

impl Unpack<'_, '_> {
    /// The directory of that path, made as far as it is missing.
    fn dir(&mut self, path: &Path) -> Result<u64, Fault> {
        if let Some(object) = self.dirs.get(path) {
            return Ok(*object);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Fault::InTheWay("a path without a name"));
        };
        let parent = self.dir(parent)?;
        let usual = Attributes { mode: 0o755, ..Attributes::default() };
        let object = self.into.dir(parent, name.as_bytes(), &usual)?;
        self.dirs.insert(path.to_owned(), object);
        Ok(object)
    }

    fn entry(
        &mut self,
        entry: &mut tar::Entry<'_, Box<dyn Read>>,
        name: &Path,
    ) -> Result<(), Fault> {
        let path = inner(name)?;
        let attributes = attributes(entry)?;
        let (Some(above), Some(last)) = (path.parent(), path.file_name()) else {
            // The archive's own root.
            let object = self.dir(&path)?;
            self.dressed.push((path, object, attributes));
            return Ok(());
        };
        if entry.header().entry_type().is_dir() {
            let object = self.dir(&path)?;
            let set = engine::zpl::SetAttrs { mode: Some(attributes.mode), ..Default::default() };
            self.into.fs.set_attrs(object, &set, super::sink::now())?;
            self.dressed.push((path, object, attributes));
            return Ok(());
        }
        let dir = self.dir(above)?;
        let last = last.as_bytes();
        let target = entry.link_name_bytes().map(|n| n.into_owned()).unwrap_or_default();
        let device = |h: &tar::Header| -> io::Result<(u32, u32)> {
            Ok((h.device_major()?.unwrap_or(0), h.device_minor()?.unwrap_or(0)))
        };
        let special = match entry.header().entry_type() {
            EntryType::Symlink => NewKind::Symlink(target),
            EntryType::Fifo => NewKind::Fifo,
            EntryType::Char => {
                let (major, minor) = device(entry.header())?;
                NewKind::Char(major, minor)
            }
            EntryType::Block => {
                let (major, minor) = device(entry.header())?;
                NewKind::Block(major, minor)
            }
            EntryType::Link => {
                let old = inner(Path::new(std::ffi::OsStr::from_bytes(&target)))?;
                let (Some(above), Some(name)) = (old.parent(), old.file_name()) else {
                    return Err(Fault::InTheWay("a second name of nothing"));
                };
                let from = self.dir(above)?;
                let found = self.into.fs.node(from)?.lookup(name.as_bytes())?;
                let missing = Fault::InTheWay("a second name of a file that is not there");
                return self.into.link(found.ok_or(missing)?.object, dir, last, name.as_ref());
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let size = entry.header().entry_size()?.max(entry.size());
                let size = if entry.header().entry_type().is_gnu_sparse() {
                    entry.header().as_gnu().map_or(Ok(size), tar::GnuHeader::real_size)?
                } else {
                    size
                };
                self.into
                    .file(dir, last, size, &attributes, name, &mut |write| pieces(entry, write))?;
                return Ok(());
            }
            _ => return Err(Fault::InTheWay("an entry of a kind that is not known")),
        };
        self.into.special(dir, last, special, &attributes, name)?;
        Ok(())
    }
}

/// Hands on the content of an entry; chunks of zeros stay holes.
fn pieces(entry: &mut tar::Entry<'_, Box<dyn Read>>, write: &mut Write<'_>) -> Result<(), Fault> {
    let size = usize::try_from(entry.size()).unwrap_or(CHUNK);
    let mut buffer = vec![0; CHUNK.min(size).max(1)];
    let mut at = 0u64;
    loop {
        let mut got = 0;
        while got < buffer.len() {
            match entry.read(&mut buffer[got..])? {
                0 => break,
                n => got += n,
            }
        }
        if got == 0 {
            return Ok(());
        }
        if buffer[..got].iter().any(|b| *b != 0) {
            write(at, &buffer[..got])?;
        }
        at += got as u64;
    }
}

/// A path of an archive without what would lead out of where it is unpacked.
fn inner(path: &Path) -> Result<PathBuf, Fault> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => return Err(Fault::InTheWay("its path has '..'")),
        }
    }
    Ok(out)
}

fn attributes(entry: &mut tar::Entry<'_, Box<dyn Read>>) -> Result<Attributes, Fault> {
    let header = entry.header();
    let seconds = header.mtime()?.cast_signed();
    let mut out = Attributes {
        mode: header.mode()? & 0o7777,
        uid: header.uid()?,
        gid: header.gid()?,
        mtime: Time { seconds, nanos: 0 },
        ..Attributes::default()
    };
    let mut atime = None;
    if let Some(extensions) = entry.pax_extensions()? {
        for extension in extensions {
            let extension = extension?;
            let (key, value) = (extension.key_bytes(), extension.value_bytes());
            match key {
                b"mtime" => out.mtime = fraction(value).unwrap_or(out.mtime),
                b"atime" => atime = fraction(value),
                _ => {
                    if let Some(name) = key.strip_prefix(XATTR_KEY) {
                        out.xattrs.insert(name.to_vec(), value.to_vec());
                    }
                }
            }
        }
    }
    out.atime = atime.unwrap_or(out.mtime);
    Ok(out)
}

/// A time as seconds with a fraction.
fn fraction(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, part) = text.split_once('.').unwrap_or((text, ""));
    let is_negative = seconds.starts_with('-');
    let seconds: i64 = seconds.parse().ok()?;
    let mut digits: String = part.chars().take(9).collect();
    while digits.len() < 9 {
        digits.push('0');
    }
    let nanos: u64 = digits.parse().ok()?;
    Some(match (is_negative, nanos) {
        // -1.25 is three quarters after -2.
        (true, n) if n > 0 => Time { seconds: seconds.checked_sub(1)?, nanos: 1_000_000_000 - n },
        (_, nanos) => Time { seconds, nanos },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_a_fraction() {
        let time = |s, n| Some(Time { seconds: s, nanos: n });
        assert_eq!(fraction(b"12"), time(12, 0));
        assert_eq!(fraction(b"12.5"), time(12, 500_000_000));
        assert_eq!(fraction(b"-1.25"), time(-2, 750_000_000));
        assert_eq!(fraction(b"x"), None);
    }

    #[test]
    fn paths_stay_inside() {
        assert_eq!(inner(Path::new("/a/./b")).unwrap(), PathBuf::from("a/b"));
        assert!(inner(Path::new("a/../../b")).is_err());
    }
}
