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
    /// On the runtime's clock, in nanoseconds; of one that need not wait it is not known.
    pub(super) arrived: u64,
    /// It was part of an aggregated request that failed.
    pub(super) alone: bool,
    pub(super) work: Work,
}

impl Io {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// It is a write that may become part of a larger one.
    fn may_join(&self) -> bool {
        matches!(self.work, Work::Write(..)) && !self.alone && self.len > 0
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
pub(super) struct PickedRequest {
    pub(super) io: Io,
    /// From the nearest to the farthest.
    before: Vec<Io>,
    after: Vec<Io>,
}

impl PickedRequest {
    pub(super) fn alone(io: Io) -> Self {
        Self { io, before: Vec::new(), after: Vec::new() }
    }

    /// Bytes of all together.
    pub(super) fn len(&self) -> u64 {
        let others = self.before.iter().chain(&self.after);
        self.io.len + others.map(|io| io.len).sum::<u64>()
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

    /// Nothing waits but requests of this class, if anything does.
    pub(super) fn has_only(&self, class: IoClass) -> bool {
        self.count == self.waiting(class)
    }

    pub(super) fn push(&mut self, class: IoClass, io: Io) {
        let number = self.next;
        self.next += 1;
        let first = if class.is_in_turn() { number } else { io.arrived >> AGE_SHIFT };
        self.lines[class as usize].insert((first, io.offset, number), io);
        self.count += 1;
    }

    /// The next request of a class; with it, if it is a write that goes by offset, the writes
    /// around it in its line, up to `limit` bytes in all. Neighbours in another line, or of another
    /// age, stay: a second index of everything would cost more than they are worth.
    pub(super) fn take(&mut self, class: IoClass, limit: u64) -> Option<PickedRequest> {
        let line = &mut self.lines[class as usize];
        let first = *line.first_key_value()?.0;
        let key = match class.is_in_turn() {
            true => first,
            false => {
                let from = (first.0, self.last[class as usize], 0);
                let next = line.range(from..).next().map(|(k, _)| *k);
                next.filter(|k| k.0 == first.0).unwrap_or(first)
            }
        };
        let mut out = PickedRequest::alone(line.remove(&key)?);
        let mut end = out.io.end();
        if !class.is_in_turn() && !line.is_empty() && out.io.may_join() {
            end = join(line, key, &mut out, limit);
        }
        self.count -= 1 + out.before.len() + out.after.len();
        self.last[class as usize] = end;
        Some(out)
    }
}

/// Takes the writes in front of and behind the picked one, which had this key; returns where they
/// end.
fn join(line: &mut BTreeMap<Key, Io>, key: Key, out: &mut PickedRequest, limit: u64) -> u64 {
    let (mut start, mut end) = (out.io.offset, out.io.end());
    let mut parts = out.io.parts().len();
    let mut keys = Vec::new();
    for (at, io) in line.range((key.0, 0, 0)..key).rev() {
        let more = io.parts().len();
        let fits = end - io.offset <= limit && parts + more <= PARTS_MAX;
        if io.end() != start || !fits || !io.may_join() {
            break;
        }
        keys.push(*at);
        (start, parts) = (io.offset, parts + more);
    }
    let before = keys.len();
    // Behind those of this age stand younger ones, from anywhere on the device.
    for (at, io) in line.range(key..(key.0 + 1, 0, 0)) {
        let more = io.parts().len();
        let fits = io.end() - start <= limit && parts + more <= PARTS_MAX;
        if io.offset != end || !fits || !io.may_join() {
            break;
        }
        keys.push(*at);
        (end, parts) = (io.end(), parts + more);
    }
    let mut taken = keys.iter().filter_map(|key| line.remove(key));
    out.before.extend(taken.by_ref().take(before));
    out.after.extend(taken);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, arrived: u64) -> Io {
        let work = Work::Write(vec![Shared::copy_of(&[7; 4096])], Box::new(|_| {}));
        Io { offset, len: 4096, arrived, alone: false, work }
    }

    #[test]
    fn a_younger_write_far_in_front_is_left_alone() {
        let mut lines = Lines::default();
        for io in [write(1 << 30, 0), write((1 << 30) + 4096, 0), write(0, 1 << AGE_SHIFT)] {
            lines.push(IoClass::AsyncWrite, io);
        }
        let mut take = || {
            let picked = lines.take(IoClass::AsyncWrite, 1 << 20)?;
            Some(picked.ascending().iter().map(|io| io.offset).collect::<Vec<_>>())
        };
        assert_eq!(take(), Some(vec![1 << 30, (1 << 30) + 4096]));
        assert_eq!((take(), take()), (Some(vec![0]), None));
    }
}
