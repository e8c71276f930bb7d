//! Sums and differences of snapshots.

use super::{BlockStats, ClassStats, DatasetStats, ReadRepairs, Snapshot, StageStats, VdevStats};

impl VdevStats {
    fn since(&self, earlier: &Self) -> Self {
        let since = |c: &ClassStats| {
            let before = earlier.class(&c.class).cloned().unwrap_or_default();
            ClassStats { class: c.class.clone(), counts: c.counts.since(&before) }
        };
        Self {
            read_errors: self.read_errors.saturating_sub(earlier.read_errors),
            write_errors: self.write_errors.saturating_sub(earlier.write_errors),
            checksum_errors: self.checksum_errors.saturating_sub(earlier.checksum_errors),
            io: self.io.iter().map(since).collect(),
            store: self.store.map(|store| store.since(&earlier.store.unwrap_or_default())),
            ..self.clone()
        }
    }
}

impl StageStats {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            stage: self.stage.clone(),
            count: self.count.saturating_sub(earlier.count),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            time_ns: self.time_ns.since(&earlier.time_ns),
        }
    }
}

impl BlockStats {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            kind: self.kind.clone(),
            level: self.level,
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            read_ns: self.read_ns.since(&earlier.read_ns),
            write_ns: self.write_ns.since(&earlier.write_ns),
        }
    }
}

impl DatasetStats {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            name: self.name.clone(),
            objset: self.objset,
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            read_ns: self.read_ns.since(&earlier.read_ns),
            write_ns: self.write_ns.since(&earlier.write_ns),
        }
    }
}

/// The one of `earlier` with the same name, or zeros.
fn matching<T: Clone + Default>(earlier: &[T], same: impl Fn(&T) -> bool) -> T {
    earlier.iter().find(|t| same(t)).cloned().unwrap_or_default()
}

impl Snapshot {
    /// The difference of `earlier` and this one: counters are subtracted, gauges stay as they are
    /// here, and of the txgs those are left that were not there yet. Members that were added
    /// meanwhile count from zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let newest = earlier.txgs.last().map_or(0, |t| t.txg);
        let mut out = self.clone();
        out.span_ns = self.at_ns.saturating_sub(earlier.at_ns);
        for vdev in &mut out.vdevs {
            let (guid, name) = (vdev.guid, vdev.name.clone());
            *vdev = vdev.since(&matching(&earlier.vdevs, |v| v.guid == guid && v.name == name));
        }
        for stage in &mut out.stages {
            let name = stage.stage.clone();
            *stage = stage.since(&matching(&earlier.stages, |s| s.stage == name));
        }
        out.profile = self.profile.since(&earlier.profile);
        for block in &mut out.blocks {
            let (kind, level) = (block.kind.clone(), block.level);
            let same = |b: &BlockStats| b.kind == kind && b.level == level;
            *block = block.since(&matching(&earlier.blocks, same));
        }
        for dataset in &mut out.datasets {
            let objset = dataset.objset;
            *dataset = dataset.since(&matching(&earlier.datasets, |d| d.objset == objset));
        }
        out.txgs.retain(|t| t.txg > newest);
        out.cache.hits = self.cache.hits.saturating_sub(earlier.cache.hits);
        out.cache.misses = self.cache.misses.saturating_sub(earlier.cache.misses);
        let (now, then) = (&self.cache, &earlier.cache);
        out.cache.ahead_bytes = now.ahead_bytes.saturating_sub(then.ahead_bytes);
        out.cache.ahead_used_bytes = now.ahead_used_bytes.saturating_sub(then.ahead_used_bytes);
        out.cache.ahead_wasted_bytes =
            now.ahead_wasted_bytes.saturating_sub(then.ahead_wasted_bytes);
        let (now, then) = (self.read_repairs, earlier.read_repairs);
        out.read_repairs = ReadRepairs {
            blocks: now.blocks.saturating_sub(then.blocks),
            bytes: now.bytes.saturating_sub(then.bytes),
            refused: now.refused.saturating_sub(then.refused),
            passed_over: now.passed_over.saturating_sub(then.passed_over),
        };
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Direction, Histogram};
    use super::*;
    use crate::live::TxgRecord;
    use vdev::queue::ClassCounts;

    fn class(name: &str, n: u64) -> ClassStats {
        let mut disk_ns = Histogram::default();
        (0..n).for_each(|_| disk_ns.add(3));
        let (ops, bytes, pending) = (n, n * 100, n);
        let counts = ClassCounts { ops, bytes, pending, disk_ns, ..ClassCounts::default() };
        ClassStats { class: name.to_owned(), counts }
    }

    fn snapshot(n: u64) -> Snapshot {
        let vdev = |guid, io| VdevStats { guid, io, ..VdevStats::default() };
        Snapshot {
            at_ns: n * 1000,
            span_ns: n * 1000,
            vdevs: vec![vdev(1, vec![class("sync_read", n), class("scrub", n), class("trim", n)])],
            txgs: (1..=n).map(|txg| TxgRecord { txg, ..TxgRecord::default() }).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn an_interval_is_a_difference() {
        let (one, three) = (snapshot(1), snapshot(3));
        let between = three.since(&one);
        assert_eq!(between.span_ns, 2000);
        let read = between.vdevs[0].class("sync_read").expect("was there");
        assert_eq!((read.ops, read.bytes, read.pending), (2, 200, 3));
        assert_eq!((read.disk_ns.count(), read.disk_ns.mean()), (2, 3));
        assert_eq!(between.txgs.iter().map(|t| t.txg).collect::<Vec<_>>(), [2, 3]);
        let nothing = three.since(&three);
        assert_eq!(nothing.vdevs[0].class("scrub").map(|c| c.disk_ns.count()), Some(0));
        assert_eq!(three.since(&Snapshot::default()).vdevs, three.vdevs);
    }

    #[test]
    fn classes_have_directions() {
        let vdev = &snapshot(2).vdevs[0];
        assert_eq!(vdev.total(Direction::Read).ops, 4);
        assert_eq!(vdev.total(Direction::Write).ops, 0);
    }

    #[test]
    fn it_survives_being_written_down() {
        let s = snapshot(3);
        let text = serde_json::to_string(&s).expect("plain data");
        assert_eq!(serde_json::from_str::<Snapshot>(&text).expect("its own text"), s);
        // A reader that knows more fields than the writer did.
        let old: Snapshot = serde_json::from_str("{\"pool\":\"tank\"}").expect("fewer fields");
        assert_eq!((old.pool.as_str(), old.vdevs.len()), ("tank", 0));
        assert!(text.contains(r#"{"class":"scrub","ops":3,"#), "{text}");
        assert!(text.contains(r#""disk_ns":{"sum":9,"counts":[0,3]}"#), "{text}");
    }
}
