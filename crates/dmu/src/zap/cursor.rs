//! Going through a table piece by piece.
//!
//! # Theory
//!
//! Entries are in the order of their hashes, and those of one hash in that of their
//! differentiators. A [`Cursor`] is a place in that order, and nothing is kept between two pages:
//! neither the table nor a list of its leaves. So a page costs the memory of its entries and one
//! leaf, however large the table is, and a table may be changed between two pages. An entry that
//! exists all the time is then met exactly once: an entry keeps its hash and its differentiator
//! when its leaf is split, when the pointer table grows, and when a micro table becomes a fat one.
//!
//! In a damaged table an entry may be in a leaf that is not that of its hash. Those of a leaf come
//! together, behind all others of it, so that none is left out and the way has an end: each leaf
//! that is done moves the cursor behind the pointers to it.

use super::{FetchError, Form, TableBlock, Zap};
use crate::error::Result;
use ondisk::zap::{Entry, Leaf, ZapHeader};

/// A place between two entries of a table; the default is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    hash: u64,
    cd: u32,
}

/// Entries of a table from a [`Cursor`] on.
pub struct EntryPage {
    /// The entries. A leaf that cannot be read is one error among them.
    pub entries: Vec<Result<Entry>>,
    /// Where the next page begins; `None` when there is none.
    pub next: Option<Cursor>,
}

/// The entries of a leaf, by position.
type Placed = Vec<(Cursor, Result<Entry>)>;

impl EntryPage {
    /// Appends the entries at `from` and behind it, in order, until there are `limit`; entries at
    /// one position are not separated. Returns where the rest begins, if there is any.
    fn take(&mut self, mut placed: Placed, from: Cursor, limit: usize) -> Option<Cursor> {
        placed.retain(|(at, _)| *at >= from);
        placed.sort_by_key(|(at, _)| *at);
        let mut last = None;
        for (at, entry) in placed {
            if self.entries.len() >= limit && last.is_some_and(|last| last != at) {
                return Some(at);
            }
            self.entries.push(entry);
            last = Some(at);
        }
        None
    }
}

impl Zap {
    /// The entries from `from` on: `limit` of them, or a few more if several are at one place.
    #[must_use]
    pub fn page(&self, from: Cursor, limit: usize) -> EntryPage {
        let mut page = EntryPage { entries: Vec::new(), next: None };
        match &self.form {
            Form::Micro(m) => match m.all() {
                Ok(all) => {
                    let place = |e: Entry| (Cursor { hash: e.hash, cd: e.cd }, Ok(e));
                    let placed = all.entries().into_iter().map(place).collect();
                    page.next = page.take(placed, from, limit);
                }
                Err(e) => page.entries.push(Err(self.object.format_error(0, e))),
            },
            Form::Fat(header) => {
                let mut pointers = Pointers { zap: self, header, held: None };
                let mut at = Some(from);
                while let Some(from) = at.filter(|_| page.entries.len() < limit.max(1)) {
                    at = match pointers.leaf_at(from.hash) {
                        Ok((leaf, last)) => {
                            let rest = page.take(self.placed(leaf, from, last), from, limit);
                            rest.or(last.checked_add(1).map(|hash| Cursor { hash, cd: 0 }))
                        }
                        // Without its pointer it is unknown where the next leaf is.
                        Err(e) => {
                            page.entries.push(Err(e));
                            None
                        }
                    };
                }
                page.next = at;
            }
        }
        page
    }

    /// The entries of leaf `blkid`, to which the pointers up to hash `last` lead.
    fn placed(&self, blkid: u64, from: Cursor, last: u64) -> Placed {
        let end = Cursor { hash: last, cd: u32::MAX };
        let block = match self.fetch(blkid) {
            Ok(block) => block,
            Err(e) => return vec![(end, Err(e))],
        };
        let leaf = match self.decode_leaf(blkid, &block) {
            Ok(leaf) => leaf,
            Err(e) => return vec![(end, Err(e))],
        };
        let is_here = |leaf: &Leaf<'_>, hash| leaf.covers(hash) && leaf.covers(from.hash);
        let place = |e: Entry| match is_here(&leaf, e.hash) {
            true => (Cursor { hash: e.hash, cd: e.cd }, Ok(e)),
            false => (end, Ok(e)),
        };
        let integer_keys = self.key_hash().integer_keys();
        match leaf.entries(integer_keys) {
            Ok(entries) => entries.into_iter().map(place).collect(),
            Err(e) => {
                let mut placed: Placed = leaf.salvage(integer_keys).map(place).collect();
                placed.push((end, Err(self.object.format_error(blkid, e))));
                placed
            }
        }
    }
}

/// The pointer table, one block of it at a time.
struct Pointers<'z> {
    zap: &'z Zap,
    header: &'z ZapHeader,
    held: Option<(u64, TableBlock)>,
}

impl Pointers<'_> {
    /// The leaf for `hash`, and the last hash for which neighbouring pointers lead there.
    fn leaf_at(&mut self, hash: u64) -> Result<(u64, u64)> {
        let width = 64 - self.header.table.shift;
        let leaf = self.pointer(hash)?;
        let mut last = (hash >> width << width) | ((1 << width) - 1);
        // A pointer that cannot be read ends the run; it is met again at the next leaf.
        while let Some(next) = last.checked_add(1)
            && self.pointer(next).is_ok_and(|other| other == leaf)
        {
            last |= next | ((1 << width) - 1);
        }
        Ok((leaf, last))
    }

    fn pointer(&mut self, hash: u64) -> Result<u64> {
        let (zap, held) = (self.zap, &mut self.held);
        let leaf = self.header.leaf_of(hash, zap.endian, |number| {
            let known = held.take().filter(|(other, _)| *other == number);
            let block = match known {
                Some(known) => known,
                None => (number, zap.fetch_table(number)?),
            };
            Ok::<_, FetchError>(&held.insert(block).1)
        });
        leaf.map_err(|e| zap.fetch_error(e))
    }
}
