//! Reads the members in order, with the extended headers that precede each.

use crate::error::{Error, Result};
use crate::format::{BLOCK, HEADERS_MAX, decimal};
use crate::sparse::{Sparse, Write};
use std::collections::BTreeMap;
use std::io::{self, Read};
use tar::{EntryType, GnuExtSparseHeader, Header};

/// The key prefix of the extended attributes of a file in an archive.
const XATTR_KEY: &[u8] = b"SCHILY.xattr.";

/// A time, counted from 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Whole seconds, downwards.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanos: u64,
}

/// The attributes of a member beside its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions with set-id and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Last access; where the archive does not say, the last change.
    pub atime: Time,
    /// Last change.
    pub mtime: Time,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A member of an archive.
#[derive(Debug)]
pub struct Member {
    /// Its name, as stored in the archive.
    pub path: Vec<u8>,
    /// Its type.
    pub kind: EntryType,
    /// Target of a link.
    pub link: Vec<u8>,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Everything else about it.
    pub attributes: Attributes,
    /// Bytes in the archive.
    pub stored: u64,
    /// Of a sparse file, where its pieces go.
    pub sparse: Sparse,
    /// Why it cannot be unpacked.
    pub fault: Option<Error>,
}

impl Member {
    /// Bytes of the file.
    ///
    /// # Errors
    /// There is no file of that size.
    pub fn size(&self) -> Result<u64> {
        self.sparse.check()?;
        Ok(self.sparse.size.unwrap_or(self.stored))
    }

    /// Hands on the content, of the archive that gave the member just now: offsets and pieces of up
    /// to `chunk` bytes, in ascending order. Gaps are zeros.
    ///
    /// # Errors
    /// The content cannot be read, or contradicts the map; what `write` says.
    pub fn content<R: Read, E: From<Error>>(
        &self,
        archive: &mut Archive<R>,
        chunk: usize,
        write: &mut Write<'_, E>,
    ) -> Result<(), E> {
        let size = self.size()?;
        let mut buffer = vec![0; usize::try_from(size).unwrap_or(chunk).min(chunk).max(1)];
        if self.sparse.size.is_some() {
            let mut read = |piece: &mut [u8]| archive.read_exact(piece);
            return self.sparse.pieces(&mut read, &mut buffer, write);
        }
        let mut at = 0u64;
        loop {
            let got = archive.read(&mut buffer)?;
            let piece = buffer.get(..got).unwrap_or_default();
            if piece.is_empty() {
                return Ok(());
            }
            if piece.iter().any(|b| *b != 0) {
                write(at, piece)?;
            }
            at += got as u64;
        }
    }
}

/// The extended headers that precede a member.
#[derive(Default)]
struct MemberHeaders {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<Time>,
    atime: Option<Time>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    sparse: Sparse,
    /// Bytes they have.
    bytes: u64,
    fault: Option<Error>,
}

/// An archive that is read.
pub struct Archive<R> {
    source: R,
    /// Bytes read so far.
    at: u64,
    /// Content of the member that was not read yet.
    left: u64,
    /// Zeros behind it, up to a whole block.
    padding: u64,
    /// It ended, well or not.
    ended: bool,
    /// Of the member that is read.
    name: Vec<u8>,
}

impl<R: Read> Archive<R> {
    /// The archive that these bytes are.
    pub fn new(source: R) -> Self {
        Self { source, at: 0, left: 0, padding: 0, ended: false, name: Vec::new() }
    }

    /// Fills as much of `out` as there is.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut got = 0;
        while got < out.len() {
            match self.source.read(&mut out[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.ended = true;
                    return Err(Error::Read(e));
                }
            }
        }
        self.at += got as u64;
        Ok(got)
    }

    /// Content of the member: as much of `out` as is left of it; 0 at its end.
    ///
    /// # Errors
    /// It cannot be read, or the archive ends too early.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        let got = self.fill(&mut out[..wanted])?;
        self.left -= got as u64;
        if got < wanted {
            self.ended = true;
            return Err(Error::CutOff);
        }
        Ok(got)
    }

    /// The same, for what must be there.
    pub(crate) fn read_exact(&mut self, out: &mut [u8]) -> Result<()> {
        match self.read(out)? == out.len() {
            true => Ok(()),
            false => Err(Error::Short),
        }
    }

    /// Passes over what was not read of a member.
    fn skip(&mut self) -> Result<()> {
        let skipped = self.skip_rest();
        let named = |cause| Error::Member { name: self.name.clone(), cause: Box::new(cause) };
        skipped.map_err(named)
    }

    fn skip_rest(&mut self) -> Result<()> {
        // Most members were read to their end, and have nothing but padding.
        let most = usize::try_from(self.left.max(self.padding)).unwrap_or(usize::MAX);
        let mut buffer = vec![0; most.min(64 << 10)];
        while self.left > 0 {
            self.read(&mut buffer)?;
        }
        self.left = std::mem::take(&mut self.padding);
        while self.left > 0 {
            self.read(&mut buffer)?;
        }
        Ok(())
    }

    fn begin(&mut self, size: u64) {
        let block = BLOCK as u64;
        self.left = size;
        self.padding = (block - size % block) % block;
    }

    /// The next block; `None` at the archive's end.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        let start = self.at;
        let got = self.fill(header.as_mut_bytes())?;
        if got == 0 {
            self.ended = true;
            return Err(Error::NoEnd);
        }
        if got < BLOCK {
            self.ended = true;
            return Err(Error::CutOffHeader(start));
        }
        if header.as_bytes().iter().all(|b| *b == 0) {
            self.ended = true;
            return Ok(None);
        }
        // The field of the sum counts as blanks.
        let of = |bytes: &[u8]| bytes.iter().map(|b| u32::from(*b)).sum::<u32>();
        let (all, field) = (of(header.as_bytes()), of(&header.as_old().cksum));
        let sum = all - field + 8 * u32::from(b' ');
        if header.cksum().ok() != Some(sum) {
            self.ended = true;
            return Err(Error::NoHeader(start));
        }
        Ok(Some(header))
    }

    /// The next member, whose content can be read then. An error about the archive itself is
    /// returned once, and is its end.
    ///
    /// # Errors
    /// It cannot be read, is cut off, or is not an archive; contradictions of a member are in the
    /// member.
    pub fn next_member(&mut self) -> Result<Option<Member>> {
        let mut before = MemberHeaders::default();
        loop {
            if self.ended {
                return Ok(None);
            }
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let kind = header.entry_type();
            let size = fits(&header.as_old().size).and_then(|()| header.entry_size());
            let size = size.map_err(Error::Header);
            let size = size.inspect_err(|_| self.ended = true)?;
            let is_about_next = matches!(
                kind,
                EntryType::XHeader | EntryType::GNULongName | EntryType::GNULongLink
            );
            if !is_about_next && kind != EntryType::XGlobalHeader {
                return self.member(&header, before, size).map(Some);
            }
            self.begin(size);
            // A header for all members. `git archive` stores a commit so, which is of no use here.
            if kind != EntryType::XGlobalHeader {
                self.about_next(kind, size, &mut before)?;
            }
        }
    }

    /// Reads a header that says something of the member behind it.
    fn about_next(&mut self, kind: EntryType, size: u64, before: &mut MemberHeaders) -> Result<()> {
        before.bytes = before.bytes.saturating_add(size);
        if before.bytes > HEADERS_MAX {
            before.fault = Some(Error::TooMuch(before.bytes));
            return Ok(());
        }
        let mut text = Vec::new();
        let mut piece = [0; 16 << 10];
        loop {
            match self.read(&mut piece)? {
                0 => break,
                n => text.extend_from_slice(&piece[..n]),
            }
        }
        match kind {
            EntryType::XHeader => {
                if let Err(e) = before.records(&text) {
                    before.fault.get_or_insert(e);
                }
            }
            EntryType::GNULongName => before.path = Some(until_nul(text)),
            _ => before.link = Some(until_nul(text)),
        }
        Ok(())
    }

    fn member(&mut self, header: &Header, before: MemberHeaders, size: u64) -> Result<Member> {
        let mut kind = header.entry_type();
        let path = before.path.or(before.sparse.name.clone());
        let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
        let link = header.link_name_bytes().map(|n| n.into_owned()).unwrap_or_default();
        // A link has no content, whatever its header says; what a record says counts for any other.
        let stored = match kind {
            EntryType::Link | EntryType::Symlink => before.size.unwrap_or(0),
            _ => before.size.unwrap_or(size),
        };
        if kind == EntryType::Regular && path.ends_with(b"/") {
            kind = EntryType::Directory;
        }
        let mut fault = before.fault;
        let mut sparse = before.sparse;
        if kind == EntryType::GNUSparse
            && let Err(e) = self.old_sparse(header, &mut sparse)
        {
            if self.ended {
                return Err(e);
            }
            fault.get_or_insert(e);
        }
        let mut field = |value: io::Result<u64>| match value {
            Ok(value) => value,
            Err(e) => {
                fault.get_or_insert(Error::Header(e));
                0
            }
        };
        let seconds = field(header.mtime()).cast_signed();
        let mtime = before.mtime.unwrap_or(Time { seconds, nanos: 0 });
        let attributes = Attributes {
            mode: field(header.mode().map(u64::from)) as u32 & 0o7777,
            uid: before.uid.unwrap_or_else(|| field(header.uid())),
            gid: before.gid.unwrap_or_else(|| field(header.gid())),
            atime: before.atime.unwrap_or(mtime),
            mtime,
            xattrs: before.xattrs,
        };
        let mut device = (0, 0);
        if matches!(kind, EntryType::Char | EntryType::Block) {
            let mut part =
                |n: io::Result<Option<u32>>| field(n.map(|n| u64::from(n.unwrap_or(0)))) as u32;
            device = (part(header.device_major()), part(header.device_minor()));
        }
        self.begin(stored);
        self.name.clone_from(&path);
        let link = before.link.unwrap_or(link);
        Ok(Member { path, kind, link, device, attributes, stored, sparse, fault })
    }

    /// The map of a sparse file in the old form, of which a part may be in blocks behind the
    /// header.
    fn old_sparse(&mut self, header: &Header, sparse: &mut Sparse) -> Result<()> {
        let gnu = header.as_gnu().ok_or(Error::NoMap)?;
        let size = fits(&gnu.realsize).and_then(|()| gnu.real_size());
        sparse.size = Some(size.map_err(Error::Header)?);
        let mut note = |pieces: &[tar::GnuSparseHeader]| -> Result<()> {
            for piece in pieces.iter().filter(|p| !p.is_empty()) {
                let offset = fits(&piece.offset).and_then(|()| piece.offset());
                let length = fits(&piece.numbytes).and_then(|()| piece.length());
                sparse.push(offset.map_err(Error::Header)?, length.map_err(Error::Header)?)?;
            }
            Ok(())
        };
        // The blocks are passed over also when what is in them is refused.
        let mut noted = note(&gnu.sparse);
        let mut goes_on = gnu.is_extended();
        while goes_on {
            let mut block = GnuExtSparseHeader::new();
            if self.fill(block.as_mut_bytes())? < BLOCK {
                self.ended = true;
                return Err(Error::CutOff);
            }
            noted = noted.and_then(|()| note(block.sparse()));
            goes_on = block.is_extended();
        }
        noted
    }
}

fn until_nul(mut text: Vec<u8>) -> Vec<u8> {
    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
    text.truncate(end);
    text
}

impl MemberHeaders {
    /// Takes note of the records of a pax header: `LENGTH KEY=VALUE` and a new line.
    fn records(&mut self, text: &[u8]) -> Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.iter().take(20).position(|b| *b == b' ').ok_or(Error::Record)?;
            let length = decimal(&rest[..digits]).and_then(|n| usize::try_from(n).ok());
            let length = length.filter(|n| *n > digits + 1).ok_or(Error::Record)?;
            let record = rest.get(digits + 1..length).ok_or(Error::Record)?;
            let record = record.strip_suffix(b"\n").ok_or(Error::Record)?;
            let equals = record.iter().position(|b| *b == b'=').ok_or(Error::Record)?;
            self.record(&record[..equals], &record[equals + 1..])?;
            rest = &rest[length..];
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // A record without a value takes an earlier one back: the header's field counts (POSIX).
        let given = Some(value).filter(|value| !value.is_empty());
        let text = || given.map(<[u8]>::to_vec);
        let number = || given.map(|text| decimal(text).ok_or(Error::Number)).transpose();
        let time = || given.map(|text| fraction(text).ok_or(Error::Number)).transpose();
        match key {
            b"path" => self.path = text(),
            b"linkpath" => self.link = text(),
            b"size" => self.size = number()?,
            b"uid" => self.uid = number()?,
            b"gid" => self.gid = number()?,
            b"mtime" => self.mtime = time()?,
            b"atime" => self.atime = time()?,
            _ if self.sparse.note(key, value)? => {}
            _ => {
                if let Some(name) = key.strip_prefix(XATTR_KEY) {
                    self.xattrs.insert(name.to_vec(), value.to_vec());
                }
            }
        }
        Ok(())
    }
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

/// Refuses a number in base 256 (marked by the first bit) that is negative or has more than 64
/// bits: `tar` leaves out what is above.
fn fits(field: &[u8; 12]) -> io::Result<()> {
    let [first, second, third, fourth, ..] = *field;
    match first & 0x80 != 0 && [first & 0x7f, second, third, fourth] != [0; 4] {
        true => Err(io::Error::other("a number has more than 64 bits")),
        false => Ok(()),
    }
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
    fn records_that_lie_are_refused() {
        let read = |text: &[u8]| MemberHeaders::default().records(text);
        assert!(read(b"12 size=512\n").is_ok());
        for lie in [&b"99 size=512\n"[..], b"3 x", b"0 a=b\n", b"18446744073709551615 a=b\n", b"x"]
        {
            assert!(read(lie).is_err(), "{}", String::from_utf8_lossy(lie));
        }
    }

    fn header(kind: EntryType, name: &str, size: u64) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.set_path(name).unwrap();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    #[test]
    fn headers_that_claim_gigabytes_cost_the_member_and_little_memory() {
        const CLAIM: u64 = 3 << 30;
        let (long, next) = (header(EntryType::GNULongName, "L", CLAIM), [0; BLOCK]);
        let member = header(EntryType::Regular, "short", 0);
        let source = (&long[..]).chain(io::repeat(b'n').take(CLAIM));
        let mut archive = Archive::new(source.chain(&member[..]).chain(&next[..]));
        let member = archive.next_member().unwrap().unwrap();
        assert_eq!(member.path, b"short");
        assert!(member.fault.unwrap().to_string().contains("3221225472 bytes"));
        assert!(archive.next_member().unwrap().is_none());
    }

    #[test]
    fn sizes_of_more_than_64_bits_are_refused() {
        for power in [64, 72, 87] {
            let mut whole = Header::new_ustar();
            whole.as_mut_bytes().copy_from_slice(&header(EntryType::Regular, "big", 3));
            let number = (1u128 << power) + 3;
            whole.as_old_mut().size.copy_from_slice(&number.to_be_bytes()[4..]);
            whole.as_old_mut().size[0] |= 0x80;
            whole.set_cksum();
            let bytes = [whole.as_bytes(), &[b'a'; BLOCK][..], &[0; BLOCK]].concat();
            let refused = Archive::new(&bytes[..]).next_member();
            assert!(refused.is_err_and(|e| e.to_string().contains("64 bits")), "{power}");
        }
    }

    #[test]
    fn an_archive_that_ends_too_early_says_so_once() {
        let mut whole = header(EntryType::Regular, "a", 700);
        whole.extend([1; 1024]);
        whole.extend([0; 1024]);
        for cut in [0, 100, 512, 900, 1400, 1536] {
            let mut archive = Archive::new(&whole[..cut]);
            let mut faults = 0;
            let mut content = [0; 4096];
            loop {
                match archive.next_member() {
                    Ok(None) => break,
                    Ok(Some(_)) => faults += u32::from(archive.read(&mut content).is_err()),
                    Err(_) => faults += 1,
                }
            }
            assert_eq!(faults, 1, "cut at {cut}");
        }
    }
}
