//! Space maps: their entries one by one, and replayed to what is free.

use super::dump::Dump;
use super::stored::blocks;
use engine::inside::dmu::Object;
use engine::inside::ondisk::spacemap;
use engine::inside::ondisk::spacemap::{Action, Entry, Range, SpaceMapHeader};
use serde_json::json;
use std::collections::BTreeMap;

/// The header of a space map.
pub(crate) fn header(object: &Object) -> Result<SpaceMapHeader, String> {
    let dnode = object.dnode();
    SpaceMapHeader::decode(&dnode.bonus, dnode.endian).map_err(|e| e.to_string())
}

/// Calls `each` with every entry and the number of its first word.
pub(crate) fn walk(
    d: &mut Dump,
    object: &Object,
    start: u64,
    shift: u8,
    each: &mut dyn FnMut(&mut Dump, u64, Entry),
) {
    let header = header(object);
    let Some(h) = d.keep("space map header", header) else { return };
    let size = object.dnode().block_size();
    blocks(d, object, h.length, &mut |d, b, block, n| {
        let first = b * size / 8;
        let bytes = block.get(..n).unwrap_or_default();
        let mut walk = spacemap::entries(bytes, block.endian(), start, shift);
        loop {
            let at = first + (walk.at() / 8) as u64;
            match walk.next() {
                Some(Ok(e)) => each(d, at, e),
                Some(Err(e)) => d.fail(e),
                None => break,
            }
        }
    });
}

/// Prints every entry.
pub(crate) fn entries(d: &mut Dump, object: &Object, start: u64, shift: u8) {
    let mut number = 0u64;
    walk(d, object, start, shift, &mut |d, word, e| {
        one(d, number, word, e);
        number += 1;
    });
}

fn one(d: &mut Dump, number: u64, word: u64, entry: Entry) {
    match entry {
        Entry::Debug { action: 0, syncpass: 0, txg: 0 } => {
            d.push("entries", json!({"padding": word}));
            d.note(format_args!("\t    [{number:6}] PADDING"));
        }
        Entry::Debug { action, syncpass, txg } => {
            let what = if action == 0 { "ALLOC" } else { "FREE" };
            d.push("entries", json!({"note": what, "txg": txg, "pass": syncpass}));
            d.note(format_args!("\t    [{number:6}] {what}: txg {txg} pass {syncpass}"));
        }
        Entry::Range(r) => {
            let (what, words) = (letter(r.action), if r.vdev.is_some() { 2 } else { 1 });
            let (from, to, size) = (r.offset, r.offset.saturating_add(r.size), r.size);
            let value = json!({"action": what, "offset": from, "size": size, "vdev": r.vdev,
                               "words": words});
            d.push("entries", value);
            // A short entry names no vdev: it is that of the map.
            let vdev = r.vdev.map_or_else(|| "none".to_owned(), |v| v.to_string());
            d.note(format_args!(
                "\t    [{number:6}]    {what}  range: {from:010x}-{to:010x}  \
                 size: {size:06x} vdev: {vdev} words: {words}"
            ));
        }
    }
}

/// The letter of an action.
pub(crate) fn letter(action: Action) -> char {
    if action == Action::Alloc { 'A' } else { 'F' }
}

/// A set of ranges without overlap: begin to end.
#[derive(Default)]
pub(crate) struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds a range; what is there already stays.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        if let Some((&s, &e)) = self.0.range(..=start).next_back()
            && e >= start
        {
            start = s;
            end = end.max(e);
        }
        let swallowed: Vec<u64> = self.0.range(start..=end).map(|(s, _)| *s).collect();
        for s in swallowed {
            if let Some(e) = self.0.remove(&s) {
                end = end.max(e);
            }
        }
        self.0.insert(start, end);
    }

    /// Removes a range; what is not there is no error.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        let before = self.0.range(..start).next_back().map(|(s, e)| (*s, *e));
        if let Some((s, e)) = before.filter(|(_, e)| *e > start) {
            self.0.insert(s, start);
            if e > end {
                self.0.insert(end, e);
            }
        }
        let inside: Vec<(u64, u64)> = self.0.range(start..end).map(|(s, e)| (*s, *e)).collect();
        for (s, e) in inside {
            self.0.remove(&s);
            if e > end {
                self.0.insert(end, e);
            }
        }
    }

    /// Applies a change of a map of allocations to the set of free space.
    pub(crate) fn apply(&mut self, r: &Range) {
        let end = r.offset.saturating_add(r.size);
        match r.action {
            Action::Alloc => self.remove(r.offset, end),
            Action::Free => self.add(r.offset, end),
        }
    }

    /// The ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(s, e)| (*s, *e))
    }

    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sum of the sizes.
    pub(crate) fn total(&self) -> u64 {
        self.iter().fold(0, |sum, (s, e)| sum.saturating_add(e - s))
    }

    /// Size of the largest range.
    pub(crate) fn largest(&self) -> u64 {
        self.iter().map(|(s, e)| e - s).max().unwrap_or(0)
    }

    /// Ranges by size: bucket `i` has those of at least `2^i` bytes.
    pub(crate) fn histogram(&self) -> [u64; 64] {
        let mut out = [0; 64];
        for (s, e) in self.iter() {
            let bucket = (e - s).checked_ilog2().unwrap_or(0) as usize;
            if let Some(n) = out.get_mut(bucket) {
                *n += 1;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::RangeSet;

    fn ranges(set: &RangeSet) -> Vec<(u64, u64)> {
        set.iter().collect()
    }

    #[test]
    fn ranges_join_and_split() {
        let mut set = RangeSet::default();
        set.add(0, 10);
        set.add(20, 30);
        set.add(10, 20);
        assert_eq!(ranges(&set), [(0, 30)]);
        set.remove(5, 7);
        set.remove(25, 40);
        assert_eq!(ranges(&set), [(0, 5), (7, 25)]);
        set.remove(3, 9);
        assert_eq!(ranges(&set), [(0, 3), (9, 25)]);
        set.add(2, 10);
        assert_eq!(ranges(&set), [(0, 25)]);
        set.add(7, 7);
        assert_eq!((set.len(), set.total(), set.largest()), (1, 25, 25));
        assert_eq!(set.histogram()[4], 1);
        set.remove(0, 25);
        assert_eq!(set.len(), 0);
    }
}
