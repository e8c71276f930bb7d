//! Dirty time logs: the txgs a device missed.
//!
//! A device that was away while others were written holds older bytes where those txgs wrote.
//! OpenZFS keeps the txgs per device in a space map whose units are txgs. A reader that knows
//! them asks such a device last, and does not call its old bytes a fault. Nothing depends on
//! them: a block proves itself by its checksum, so a log that cannot be read costs only time.

use dmu::{ErrorKind, Objset};
use ondisk::spacemap::{self, Action, DTL_SHIFT, Entry, SpaceMapHeader};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Longest log that is read, in bytes. A log is written anew when it has become long; one of a
/// million entries says only that the device is useless.
const LOG_MAX: u64 = 8 << 20;

/// The txgs in the log that is MOS object `number`, ascending and apart.
pub(crate) fn read(mos: &Objset, number: u64) -> dmu::Result<Vec<RangeInclusive<u64>>> {
    let object = mos.object(number)?;
    let dnode = object.dnode();
    let bad = |e| object.format_error(0, e);
    let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
    if header.length > LOG_MAX.min(object.size_of_blocks()) {
        return Err(object.error(ErrorKind::Tree("a log of missed txgs is too long")));
    }
    let mut bytes = vec![0; header.length as usize];
    object.read_at(0, &mut bytes)?;
    let mut txgs = Txgs::default();
    for entry in spacemap::entries(&bytes, dnode.endian, 0, DTL_SHIFT) {
        if let Entry::Range(r) = entry.map_err(bad)? {
            let end = r.offset.saturating_add(r.size);
            match r.action {
                Action::Alloc => txgs.add(r.offset, end),
                Action::Free => txgs.remove(r.offset, end),
            }
        }
    }
    Ok(txgs.0.into_iter().map(|(start, end)| start..=end - 1).collect())
}

/// Half-open ranges by their beginnings, apart from each other and not empty.
#[derive(Default)]
struct Txgs(BTreeMap<u64, u64>);

impl Txgs {
    fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((s, e)) = self.0.range(..=end).next_back().map(|(s, e)| (*s, *e)) {
            if e < start {
                break;
            }
            self.0.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        if start < end {
            self.0.insert(start, end);
        }
    }

    fn remove(&mut self, start: u64, end: u64) {
        while let Some((s, e)) = self.0.range(..end).next_back().map(|(s, e)| (*s, *e)) {
            if e <= start || start >= end {
                break;
            }
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start);
            }
            if end < e {
                self.0.insert(end, e);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it likes")]
mod tests {
    use super::*;

    fn of(steps: &[(bool, u64, u64)]) -> Vec<(u64, u64)> {
        let mut t = Txgs::default();
        for (add, start, end) in steps {
            if *add { t.add(*start, *end) } else { t.remove(*start, *end) }
        }
        t.0.into_iter().collect()
    }

    /// `degraded-raidz`: a disk was taken offline and never came back.
    #[test]
    fn a_disk_that_was_away_missed_what_was_written_since() {
        let corpus = testkit::corpus("degraded-raidz");
        let mut options = crate::OpenOptions::default();
        options.search.paths = vec![corpus.dir.clone()];
        let pool = crate::Pool::open(corpus.name(), &options).unwrap();
        let disks = pool.config().vdev_tree.walk().filter(|v| v.kind.is_leaf());
        let (away, present): (Vec<_>, Vec<_>) = disks.partition(|v| v.offline);
        let log = |v: &ondisk::config::VdevConfig| match v.dtl {
            Some(number) if number != 0 => read(pool.mos(), number).unwrap(),
            _ => Vec::new(),
        };
        assert!(present.into_iter().all(|v| log(v).is_empty()));
        let label = pool.candidate().leaves[&away[0].guid].txg;
        let missed = log(away[0]);
        let (first, last) = (missed.first().unwrap(), missed.last().unwrap());
        assert!(*first.start() > label, "{missed:?}, its label is of {label}");
        assert_eq!(*last.end(), pool.uberblock().txg, "{missed:?}");
    }

    #[test]
    fn ranges_merge_and_split() {
        assert_eq!(of(&[(true, 5, 9), (true, 1, 3)]), [(1, 3), (5, 9)]);
        assert_eq!(of(&[(true, 5, 9), (true, 1, 3), (true, 3, 5)]), [(1, 9)]);
        assert_eq!(of(&[(true, 1, 9), (true, 2, 3)]), [(1, 9)]);
        assert_eq!(of(&[(true, 1, 9), (false, 2, 3)]), [(1, 2), (3, 9)]);
        assert_eq!(of(&[(true, 1, 3), (true, 5, 9), (false, 2, 6)]), [(1, 2), (6, 9)]);
        assert_eq!(of(&[(true, 1, 3), (false, 0, 9), (true, 4, 4), (false, 7, 7)]), []);
    }
}
