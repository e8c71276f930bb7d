//! Attributes without their tables: found in the bytes of a bonus or spill block alone.
//!
//! Specified in `docs/format/sa.md`, "Without the tables". The attributes that every file has come
//! first, in one order. Of what follows, all orders are tried: one is right if it takes all bytes
//! and all lengths, and each value can be one of its attribute.

use super::{SaHeader, zpl};
use crate::cursor::Endian;
use crate::znode::{flags, mode};
use std::ops::Range;

/// What every file has, with its length in bytes, in the order of all programs that make files.
const FIRST: [(&str, usize); 12] = [
    (zpl::MODE, 8),
    (zpl::SIZE, 8),
    (zpl::GEN, 8),
    (zpl::UID, 8),
    (zpl::GID, 8),
    (zpl::PARENT, 8),
    (zpl::FLAGS, 8),
    (zpl::ATIME, 16),
    (zpl::MTIME, 16),
    (zpl::CTIME, 16),
    (zpl::CRTIME, 16),
    (zpl::LINKS, 8),
];
/// What may follow, the most likely first.
const LATER: [&str; 6] =
    [zpl::DACL_COUNT, zpl::DACL_ACES, zpl::SYMLINK, zpl::XATTR, zpl::SCANSTAMP, zpl::DXATTR];
/// Most entries of an access list.
const ACES_MAX: u64 = 1024;
/// Bytes of an entry: the shortest and the longest form.
const ACE_BYTES: (u64, u64) = (8, 56);
/// No object has a number that large.
const OBJECTS_END: u64 = 1 << 48;
const NANOS_END: u64 = 1_000_000_000;

/// Attributes found by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Names, and the place of each.
    pub places: Vec<(&'static str, Range<usize>)>,
    /// The byte order of the values.
    pub endian: Endian,
    /// Nothing is left over: also what is not the same for all files was found.
    pub is_whole: bool,
}

impl Found {
    fn empty(endian: Endian) -> Self {
        Self { places: Vec::new(), endian, is_whole: false }
    }

    fn has(&self, name: &str) -> bool {
        self.places.iter().any(|(n, _)| *n == name)
    }

    fn word(&self, data: &[u8], name: &str) -> Option<u64> {
        let (_, place) = self.places.iter().find(|(n, _)| *n == name)?;
        Some(self.endian.u64(*data.get(place.start..)?.first_chunk()?))
    }

    /// Adds an attribute behind `at`; where it ends.
    fn add(&mut self, data: &[u8], name: &'static str, at: usize, length: usize) -> Option<usize> {
        let start = at.checked_next_multiple_of(8)?;
        let end = start.checked_add(length).filter(|end| *end <= data.len())?;
        self.places.push((name, start..end));
        Some(end)
    }
}

/// What the bonus of a file says of its spill block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Mode.
    pub mode: u64,
    /// Size.
    pub size: u64,
    /// Flags.
    pub flags: u64,
    /// Entries of the access list, if the bonus has their number.
    pub aces: Option<u64>,
}

/// The attributes in the bonus of a file; `None` if it is not that of one. `has_spill`: there is a
/// spill block with others.
#[must_use]
pub fn in_bonus(data: &[u8], has_spill: bool) -> Option<Found> {
    let header = SaHeader::decode(data).ok()?;
    let mut found = Found::empty(header.endian);
    let mut at = header.size;
    for (name, length) in FIRST {
        at = found.add(data, name, at, length)?;
    }
    let word = |name| found.word(data, name).unwrap_or(0);
    let facts =
        Facts { mode: word(zpl::MODE), size: word(zpl::SIZE), flags: word(zpl::FLAGS), aces: None };
    if !can_be_mode(facts.mode) || !can_be_times(data, &found) {
        return None;
    }
    let is_device = [mode::CHAR, mode::BLOCK].contains(&(facts.mode & mode::TYPE));
    let fixed = [(zpl::PROJID, facts.flags & flags::PROJID != 0), (zpl::RDEV, is_device)];
    for name in fixed.into_iter().filter_map(|(name, there)| there.then_some(name)) {
        at = found.add(data, name, at, 8)?;
    }
    Some(search(
        data,
        &header,
        facts,
        found,
        at,
        Rest { spilled: has_spill, padded: false, stale: false },
    ))
}

/// The attributes in a spill block.
#[must_use]
pub fn in_spill(data: &[u8], facts: Facts) -> Option<Found> {
    let header = SaHeader::decode(data).ok()?;
    let found = Found::empty(header.endian);
    let rest = Rest { spilled: false, padded: true, stale: false };
    Some(search(data, &header, facts, found, header.size, rest))
}

/// Type bits that a file can have, and no bits above them.
fn can_be_mode(word: u64) -> bool {
    use mode::{BLOCK, CHAR, DIR, FIFO, FILE, SOCKET, SYMLINK};
    let kinds = [FIFO, CHAR, DIR, BLOCK, FILE, SYMLINK, SOCKET];
    word <= mode::TYPE | mode::PERMISSIONS && kinds.contains(&(word & mode::TYPE))
}

fn can_be_times(data: &[u8], found: &Found) -> bool {
    let times = [zpl::ATIME, zpl::MTIME, zpl::CTIME, zpl::CRTIME];
    found.places.iter().filter(|(name, _)| times.contains(name)).all(|(_, place)| {
        let nanos = data.get(place.start + 8..).and_then(|d| d.first_chunk());
        nanos.is_some_and(|n| found.endian.u64(*n) < NANOS_END)
    })
}

/// What may be behind the last attribute, or elsewhere.
#[derive(Clone, Copy)]
struct Rest {
    /// Other attributes are in a spill block.
    spilled: bool,
    /// Zeros up to the end of the block.
    padded: bool,
    /// Lengths that are not used may be left from before.
    stale: bool,
}

fn search(
    data: &[u8],
    header: &SaHeader,
    facts: Facts,
    found: Found,
    at: usize,
    rest: Rest,
) -> Found {
    let mut search = Search { data, lengths: &header.lengths, facts, rest, found };
    // A bonus may have been longer once, and its header keeps lengths from before.
    let ways = [(rest.padded, false), (true, false), (rest.padded, true), (true, true)];
    let is_whole = ways.into_iter().any(|(padded, stale)| {
        search.rest = Rest { padded, stale, ..rest };
        search.go(at, 0)
    });
    Found { is_whole, ..search.found }
}

/// One block, and the attributes that are tried.
struct Search<'a> {
    data: &'a [u8],
    lengths: &'a [u16],
    facts: Facts,
    rest: Rest,
    found: Found,
}

impl Search<'_> {
    /// Finds what is behind `at`, where `used` lengths are taken; on failure nothing is added.
    fn go(&mut self, at: usize, used: usize) -> bool {
        if self.is_end(at, used) {
            return true;
        }
        for name in LATER {
            let before = self.found.places.len();
            if !self.found.has(name)
                && let Some((length, is_variable)) = self.length(name, used)
                && let Some(end) = self.found.add(self.data, name, at, length)
            {
                let used = used + usize::from(is_variable);
                if self.can_be(name) && self.go(end, used) {
                    return true;
                }
            }
            self.found.places.truncate(before);
        }
        false
    }

    fn is_end(&self, at: usize, used: usize) -> bool {
        let rest = self.data.get(at..).unwrap_or_default();
        let is_filler = rest.len() < 8 || self.rest.padded;
        // A number of entries without entries is something else.
        let has_list = !self.found.has(zpl::DACL_COUNT) || self.found.has(zpl::DACL_ACES);
        let unused = self.lengths.get(used..).unwrap_or_default();
        is_filler
            && rest.iter().all(|b| *b == 0)
            && (self.rest.stale || unused.iter().all(|n| *n == 0))
            && (has_list || self.rest.spilled)
    }

    /// The length of an attribute, and whether it takes one of the header's lengths.
    fn length(&self, name: &str, used: usize) -> Option<(usize, bool)> {
        match name {
            zpl::DACL_COUNT | zpl::XATTR => Some((8, false)),
            zpl::SCANSTAMP => Some((32, false)),
            _ => Some((usize::from(*self.lengths.get(used)?), true)),
        }
    }

    /// Whether the attribute that was added last can be one of that name.
    fn can_be(&self, name: &str) -> bool {
        let Some((_, place)) = self.found.places.last() else { return false };
        let bytes = self.data.get(place.clone()).unwrap_or_default();
        let length = bytes.len() as u64;
        let word = bytes.first_chunk().map(|b| self.found.endian.u64(*b));
        match name {
            zpl::DACL_COUNT => self.facts.aces.is_none() && word.is_some_and(|n| n <= ACES_MAX),
            zpl::DACL_ACES => {
                let count = self.found.word(self.data, zpl::DACL_COUNT).or(self.facts.aces);
                count.filter(|n| *n <= ACES_MAX).is_some_and(|n| {
                    (n * ACE_BYTES.0..=n * ACE_BYTES.1).contains(&length)
                        && length.is_multiple_of(4)
                })
            }
            zpl::XATTR => word.is_some_and(|n| (1..OBJECTS_END).contains(&n)),
            zpl::SYMLINK => {
                self.facts.mode & mode::TYPE == mode::SYMLINK
                    && length > 0
                    && length == self.facts.size
                    && !bytes.contains(&0)
            }
            zpl::SCANSTAMP => self.facts.flags & flags::BONUS_SCANSTAMP != 0,
            // The first bytes of a packed list: XDR, its byte order, and two of zero.
            zpl::DXATTR => length.is_multiple_of(4) && matches!(bytes, [1, 0 | 1, 0, 0, ..]),
            _ => false,
        }
    }
}
