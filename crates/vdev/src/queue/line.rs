//! Requests that wait, and the order in which they go.

use super::class::{CLASSES, IoClass};
use device::{Done, Shared, WriteDone};
use std::collections::BTreeMap;

/// Age classes of those that go by offset: 2^29 ns, about half a second.
const AGE_SHIFT: u32 = 29;

/// Most parts of an aggregated write: what the system takes at once.
const PARTS_MAX: usize = 1024;

/// What a request does.
pub(super) enum Work {
    Read(Done),
    Write(Vec<Shared>, WriteDone),
}

/// A request that waits.
pub(super) struct Io {
    pub(super) offset: u64,
    pub(super) len: u64,
    /// On the runtime's clock, in nanoseconds.
    pub(super) arrived: u64,
    /// It was part of an aggregated request that failed.
    pub(super) alone: bool,
    pub(super) work: Work,
}

impl Io {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// The bytes of a write.
    pub(super) fn parts(&self) -> &[Shared] {
        match &self.work {
            Work::Write(parts, _) => parts,
            Work::Read(_) => &[],
        }
    }
}

/// A request that begins, with the writes around it that go along.
pub(super) struct Picked {
    pub(super) io: Io,
    /// From the nearest to the farthest.
    before: Vec<Io>,
    after: Vec<Io>,
}

impl Picked {
    pub(super) fn alone(io: Io) -> Self {
        Self { io, before: Vec::new(), after: Vec::new() }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }

    /// All, in the order of their offsets.
    pub(super) fn ascending(self) -> Vec<Io> {
        let Self { io, before, after } = self;
        before.into_iter().rev().chain([io]).chain(after).collect()
    }
}

/// Where a request stands in its class: turn or age, then offset, then number.
type Key = (u64, u64, u64);

/// All that waits at one leaf.
#[derive(Default)]
pub(super) struct Lines {
    lines: [BTreeMap<Key, Io>; CLASSES],
    /// Writes that may be aggregated, by offset and number: their class and the rest of their key.
    writes: BTreeMap<(u64, u64), (IoClass, u64)>,
    /// Number of the next request.
    next: u64,
    /// Where the last one of each class ended.
    last: [u64; CLASSES],
    count: usize,
}

impl Lines {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn waiting(&self, class: IoClass) -> usize {
        self.lines[class as usize].len()
    }

    pub(super) fn push(&mut self, class: IoClass, io: Io) {
        let number = self.next;
        self.next += 1;
        let first = if class.is_in_turn() { number } else { io.arrived >> AGE_SHIFT };
        if matches!(io.work, Work::Write(..)) && !io.alone {
            self.writes.insert((io.offset, number), (class, first));
        }
        self.lines[class as usize].insert((first, io.offset, number), io);
        self.count += 1;
    }

    fn remove(&mut self, class: IoClass, key: Key) -> Option<Io> {
        let io = self.lines[class as usize].remove(&key)?;
        self.writes.remove(&(key.1, key.2));
        self.count -= 1;
        Some(io)
    }

    /// The next request of a class; with it, if it is a write, the writes around it, ascending by
    /// offset, up to `limit` bytes in all.
    pub(super) fn take(&mut self, class: IoClass, limit: u64) -> Option<Picked> {
        let line = &self.lines[class as usize];
        let first = *line.first_key_value()?.0;
        let key = match class.is_in_turn() {
            true => first,
            false => {
                let from = (first.0, self.last[class as usize], 0);
                let next = line.range(from..).next().map(|(k, _)| *k);
                next.filter(|k| k.0 == first.0).unwrap_or(first)
            }
        };
        let io = self.remove(class, key)?;
        let mut out = Picked::alone(io);
        let mut end = out.io.end();
        if matches!(out.io.work, Work::Write(..)) && !out.io.alone && !self.writes.is_empty() {
            end = self.join(&mut out, limit);
        }
        self.last[class as usize] = end;
        Some(out)
    }

    /// Takes the writes in front of and behind the picked one; returns where they end.
    fn join(&mut self, out: &mut Picked, limit: u64) -> u64 {
        let (mut start, mut end) = (out.io.offset, out.io.end());
        let mut parts = out.io.parts().len();
        while let Some((at, of)) = self.writes.range(..(start, 0)).next_back() {
            let key = (of.0, (of.1, at.0, at.1));
            let Some(io) = self.at(key) else { break };
            let (from, more) = (io.offset, io.parts().len());
            if io.end() != start || end - from > limit || parts + more > PARTS_MAX {
                break;
            }
            out.before.extend(self.remove(key.0, key.1));
            (start, parts) = (from, parts + more);
        }
        while let Some((at, of)) = self.writes.range((end, 0)..).next() {
            let key = (of.0, (of.1, at.0, at.1));
            let Some(io) = self.at(key).filter(|io| io.offset == end && io.len > 0) else { break };
            let (to, more) = (io.end(), io.parts().len());
            if to - start > limit || parts + more > PARTS_MAX {
                break;
            }
            out.after.extend(self.remove(key.0, key.1));
            (end, parts) = (to, parts + more);
        }
        end
    }

    fn at(&self, (class, key): (IoClass, Key)) -> Option<&Io> {
        self.lines[class as usize].get(&key)
    }
}
