//! An archive into a pool, as `tar -x` would unpack it.

use super::sink::{Attributes, CHUNK, Fault, Into, Write};
use crate::failure::Failure;
use engine::zpl::{NewKind, Time};
use std::collections::HashMap;
use std::ffi::OsStr;
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
        // What holds for all entries. `git archive` notes a commit so, which is of no use here.
        if entry.header().entry_type() == EntryType::XGlobalHeader {
            continue;
        }
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
        let (attributes, sparse) = attributes(entry)?;
        let named = sparse.name.as_deref().map(|n| Path::new(OsStr::from_bytes(n)));
        let name = named.unwrap_or(name);
        let path = inner(name)?;
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
                let old = inner(Path::new(OsStr::from_bytes(&target)))?;
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
                    sparse.size.unwrap_or(size)
                };
                let stored = entry.size();
                let mut content = |write: &mut Write<'_>| match sparse.size {
                    Some(_) => sparse.pieces(entry, stored, write),
                    None => pieces(entry, write),
                };
                self.into.file(dir, last, size, &attributes, name, &mut content)?;
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

/// A sparse file as `tar --format=pax` and libarchive write it: its name and size stand in records,
/// and its content is the pieces of it that are no holes, one behind the other.
#[derive(Default)]
struct Sparse {
    name: Option<Vec<u8>>,
    /// Bytes of the file; `None`: it is not a sparse one.
    size: Option<u64>,
    /// Form 1: the map of the pieces stands before them.
    has_map_inside: bool,
    /// Offset and length of each piece.
    map: Vec<(u64, u64)>,
}

impl Sparse {
    /// Takes note of a record; false when it says nothing of this.
    fn note(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Fault> {
        let number = || decimal(value).ok_or(BAD_MAP);
        match key.strip_prefix(b"GNU.sparse.") {
            Some(b"name") => self.name = Some(value.to_vec()),
            Some(b"size" | b"realsize") => self.size = Some(number()?),
            Some(b"major") => self.has_map_inside = number()? == 1,
            Some(b"offset") => self.map.push((number()?, 0)),
            Some(b"numbytes") => self.map.last_mut().ok_or(BAD_MAP)?.1 = number()?,
            Some(b"map") => {
                let words: Option<Vec<u64>> = value.split(|b| *b == b',').map(decimal).collect();
                self.map = pairs(&words.ok_or(BAD_MAP)?)?;
            }
            Some(_) => {}
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Hands on the content, which takes `stored` bytes in the archive.
    fn pieces(
        &self,
        content: &mut dyn Read,
        stored: u64,
        write: &mut Write<'_>,
    ) -> Result<(), Fault> {
        let inside;
        let map = match self.has_map_inside {
            true => {
                inside = read_map(content, stored)?;
                &inside
            }
            false => &self.map,
        };
        let size = self.size.unwrap_or(0);
        let mut buffer = vec![0; CHUNK];
        for (start, len) in map {
            let end = start.checked_add(*len).filter(|end| *end <= size).ok_or(BAD_MAP)?;
            let mut at = *start;
            while at < end {
                let n = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
                content.read_exact(&mut buffer[..n])?;
                if buffer[..n].iter().any(|b| *b != 0) {
                    write(at, &buffer[..n])?;
                }
                at += n as u64;
            }
        }
        Ok(())
    }
}

const BAD_MAP: Fault = Fault::InTheWay("a sparse file whose map contradicts itself");

/// Bytes of a block of an archive.
const BLOCK: usize = 512;

fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn pairs(words: &[u64]) -> Result<Vec<(u64, u64)>, Fault> {
    let (pairs, rest) = words.as_chunks::<2>();
    if rest.is_empty() { Ok(pairs.iter().map(|[a, b]| (*a, *b)).collect()) } else { Err(BAD_MAP) }
}

/// The map before the pieces of a sparse file: a line with their number, then two lines for each,
/// up to the end of a block.
fn read_map(content: &mut dyn Read, stored: u64) -> Result<Vec<(u64, u64)>, Fault> {
    let mut words = Vec::new();
    let mut line = Vec::new();
    let mut left = stored;
    loop {
        let mut block = [0; BLOCK];
        left = left.checked_sub(BLOCK as u64).ok_or(BAD_MAP)?;
        content.read_exact(&mut block)?;
        for byte in block {
            match byte {
                b'\n' => words.push(decimal(&std::mem::take(&mut line)).ok_or(BAD_MAP)?),
                digit => line.push(digit),
            }
            let wanted = words.first().map(|n: &u64| n.saturating_mul(2).saturating_add(1));
            if wanted == Some(words.len() as u64) {
                return pairs(&words[1..]);
            }
        }
    }
}

fn attributes(entry: &mut tar::Entry<'_, Box<dyn Read>>) -> Result<(Attributes, Sparse), Fault> {
    let mut sparse = Sparse::default();
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
                _ if sparse.note(key, value)? => {}
                _ => {
                    if let Some(name) = key.strip_prefix(XATTR_KEY) {
                        out.xattrs.insert(name.to_vec(), value.to_vec());
                    }
                }
            }
        }
    }
    out.atime = atime.unwrap_or(out.mtime);
    Ok((out, sparse))
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
