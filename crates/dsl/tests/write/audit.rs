//! Everything the DSL keeps count of, counted again from the blocks that are there.

use crate::disk::Reached;
use crate::pool::TestPool;
use dsl::write::is_drained;
use dsl::{Dataset, Dsl};
use ondisk::bpobj::Space;
use ondisk::bpobj::bptree::BptreeHeader;
use ondisk::zap::parse_int_key;
use ondisk::{DslDir, mos};
use std::collections::{BTreeMap, BTreeSet};

type Blocks = BTreeMap<u64, Reached>;

fn sum<'a>(blocks: impl IntoIterator<Item = &'a Reached>) -> Space {
    let mut s = Space::default();
    for b in blocks {
        s.used += b.used;
        s.compressed += b.compressed;
        s.uncompressed += b.uncompressed;
    }
    s
}

fn plus(a: Space, b: Space) -> Space {
    Space {
        used: a.used + b.used,
        compressed: a.compressed + b.compressed,
        uncompressed: a.uncompressed + b.uncompressed,
    }
}

struct Audit<'a> {
    pool: &'a TestPool,
    dsl: Dsl,
    /// Heads and snapshots by object.
    datasets: BTreeMap<u64, (Dataset, Blocks)>,
}

fn numbers(dsl: &Dsl, table: u64) -> BTreeSet<u64> {
    if table == 0 {
        return BTreeSet::new();
    }
    let table = dmu::Zap::open(&dsl.mos().object(table).unwrap()).unwrap();
    let entries = table.to_vec().unwrap();
    let key = |e: &dmu::ZapEntry| {
        let key = std::str::from_utf8(e.name.bytes().unwrap()).unwrap().to_owned();
        assert_eq!(parse_int_key(&key), e.u64(), "a key is not its value");
        e.u64().unwrap()
    };
    entries.iter().map(key).collect()
}

/// Checks all of a pool between two txgs.
pub(crate) fn check(pool: &TestPool) {
    let dsl = pool.dsl();
    let mut datasets = BTreeMap::new();
    let mut dirs = dsl.walk().into_iter().map(|(_, d)| d.unwrap()).collect::<Vec<_>>();
    for (name, object) in dsl.internal_dirs().unwrap() {
        dirs.push(dsl.dir(object, format!("p/{name}")).unwrap());
    }
    for dir in &dirs {
        let Some(head) = dsl.head(dir).unwrap() else { continue };
        for ds in dsl.snapshots(&head).unwrap().into_iter().chain([head]) {
            let blocks = pool.disk.reach(&ds.phys.bp);
            assert_eq!(ds.phys.dir, dir.object);
            datasets.insert(ds.object, (ds, blocks));
        }
    }
    let audit = Audit { pool, dsl, datasets };
    for (ds, blocks) in audit.datasets.values() {
        audit.dataset(ds, blocks);
    }
    for dir in &dirs {
        audit.dir(dir);
    }
    audit.allocation();
}

impl Audit<'_> {
    fn dataset(&self, ds: &Dataset, blocks: &Blocks) {
        let (d, name) = (&ds.phys, &ds.name);
        let space =
            Space { used: d.referenced, compressed: d.compressed, uncompressed: d.uncompressed };
        assert_eq!(space, sum(blocks.values()), "referenced by {name}");

        let empty = Blocks::new();
        let prev = self.datasets.get(&d.prev_snap);
        let before = prev.map_or(&empty, |(_, b)| b);
        let young = blocks.iter().filter(|(_, b)| b.birth > d.prev_snap_txg);
        let unique = match self.datasets.get(&d.next_snap) {
            None => sum(young.map(|(_, b)| b)),
            Some((_, next)) => sum(young.filter(|(o, _)| !next.contains_key(o)).map(|(_, b)| b)),
        };
        assert_eq!(d.unique, unique.used, "unique of {name}");

        // The dead list: what the one before has, and this one has not.
        let expected: BTreeSet<u64> =
            before.keys().filter(|o| !blocks.contains_key(o)).copied().collect();
        let mut found = BTreeSet::new();
        let mos = self.dsl.mos();
        let keys = dmu::deadlist::keys(mos, d.deadlist).unwrap();
        for (i, (key, list)) in keys.iter().enumerate() {
            let above = keys.keys().nth(i + 1).copied().unwrap_or(u64::MAX);
            dmu::bpobj::entries(mos, *list, &mut |e| {
                let birth = e.0.logical_birth();
                assert!(*key < birth && birth <= above, "{name}: {birth} under {key:x}");
                assert!(found.insert(e.0.dva(0).offset()), "{name}: dead twice");
            })
            .unwrap();
        }
        assert_eq!(found, expected, "dead list of {name}");
        let space = dmu::deadlist::space(mos, d.deadlist).unwrap();
        let gone = before.iter().filter(|(o, _)| !blocks.contains_key(o)).map(|(_, b)| b);
        assert_eq!(space, sum(gone), "space of the dead list of {name}");
        self.keys(ds, &keys.into_keys().collect());
        self.links(ds);
    }

    /// A head has a key for each snapshot before the last, of bookmarks too, and 0.
    fn keys(&self, ds: &Dataset, keys: &BTreeSet<u64>) {
        let mut expected = BTreeSet::new();
        let mut at = ds.phys.prev_snap;
        while let Some((snap, _)) = self.datasets.get(&at) {
            expected.insert(snap.phys.prev_snap_txg);
            at = snap.phys.prev_snap;
        }
        if ds.is_snapshot() {
            assert!(keys.is_superset(&expected), "keys of {}", ds.name);
            return;
        }
        for b in self.dsl.bookmarks(ds).unwrap() {
            self.pool.marks.borrow_mut().insert(b.phys.creation_txg);
            if b.phys.creation_txg < ds.phys.prev_snap_txg {
                expected.insert(b.phys.creation_txg);
            }
        }
        // A bookmark that goes leaves its key with the clones.
        let more: BTreeSet<u64> = keys.difference(&expected).copied().collect();
        assert!(keys.is_superset(&expected), "keys of {}", ds.name);
        assert!(more.is_subset(&self.pool.marks.borrow()), "keys of {}: {more:?}", ds.name);
    }

    fn links(&self, ds: &Dataset) {
        let (d, name) = (&ds.phys, &ds.name);
        let all = self.datasets.values().map(|(d, _)| d);
        let after: BTreeSet<u64> =
            all.filter(|x| x.phys.prev_snap == ds.object).map(|x| x.object).collect();
        if !d.is_snapshot() {
            assert!(after.is_empty());
            assert_eq!(ds.dir.phys.head_dataset, ds.object);
            return;
        }
        assert!(after.contains(&d.next_snap), "{name}: what comes next comes from elsewhere");
        let (next, _) = &self.datasets[&d.next_snap];
        assert_eq!(next.phys.dir, d.dir, "{name}: the next is in another directory");
        let clones: BTreeSet<u64> = after.into_iter().filter(|o| *o != d.next_snap).collect();
        assert_eq!(d.num_children, clones.len() as u64 + 1, "children of {name}");
        assert_eq!(numbers(&self.dsl, d.next_clones), clones, "clones of {name}");
        if let Some((prev, _)) = self.datasets.get(&d.prev_snap) {
            assert_eq!(prev.phys.creation_txg, d.prev_snap_txg);
        }
    }

    fn dir(&self, dir: &dsl::Dir) {
        let (d, name) = (&dir.phys, &dir.name);
        let part = |i: usize| d.used_breakdown[i];
        let total: u64 = d.used_breakdown.iter().sum();
        assert_eq!(d.used, total, "parts of {name}");

        let mut below = Space::default();
        let mut reserved = 0;
        let mut names = self.dsl.child_names(dir).unwrap();
        if dir.object == self.dsl.root().unwrap().object {
            names.extend(self.dsl.internal_dirs().unwrap());
        }
        for (_, child) in names {
            let c = self.dsl.dir(child, String::new()).unwrap().phys;
            assert_eq!(c.parent, dir.object);
            let space =
                Space { used: c.used, compressed: c.compressed, uncompressed: c.uncompressed };
            below = plus(below, space);
            reserved += c.reserved.saturating_sub(c.used);
        }
        assert_eq!(part(DslDir::USED_CHILD), below.used, "children of {name}");
        assert_eq!(part(DslDir::USED_CHILD_RESERVED), reserved, "reserved below {name}");
        let Some((head, blocks)) = self.datasets.get(&d.head_dataset) else { return };

        let origin = self.datasets.get(&d.origin).map_or(0, |(o, _)| o.phys.creation_txg);
        let own = |blocks: &Blocks| -> Blocks {
            blocks.iter().filter(|(_, b)| b.birth > origin).map(|(o, b)| (*o, *b)).collect()
        };
        let of_head = own(blocks);
        let mut of_snapshots = Blocks::new();
        for s in self.dsl.snapshots(head).unwrap() {
            of_snapshots.extend(own(&self.datasets[&s.object].1));
        }
        of_snapshots.retain(|o, _| !of_head.contains_key(o));
        let (h, s) = (sum(of_head.values()), sum(of_snapshots.values()));
        assert_eq!(part(DslDir::USED_HEAD), h.used, "head of {name}");
        assert_eq!(part(DslDir::USED_SNAP), s.used, "snapshots of {name}");
        let expected = plus(plus(h, s), below);
        assert_eq!(d.compressed, expected.compressed, "compressed of {name}");
        assert_eq!(d.uncompressed, expected.uncompressed, "uncompressed of {name}");
        let stored = self.dsl.stored(head).unwrap();
        let refreservation = stored.number("refreservation").unwrap_or(0);
        let unused = refreservation.saturating_sub(head.phys.unique);
        assert_eq!(part(DslDir::USED_REF_RESERVED), unused, "refreservation of {name}");
        let all = self.datasets.values().map(|(ds, _)| ds);
        let clones = all.filter(|ds| !ds.phys.is_snapshot());
        let clones = clones.filter(|ds| {
            let origin = self.datasets.get(&ds.dir.phys.origin);
            origin.is_some_and(|(o, _)| o.phys.dir == dir.object)
        });
        let clones: BTreeSet<u64> = clones.map(|ds| ds.object).collect();
        assert_eq!(numbers(&self.dsl, d.clones), clones, "clones of {name}'s snapshots");
    }

    /// Every block allocated is reached, waits to be freed, or is the MOS's.
    fn allocation(&self) {
        let disk = &self.pool.disk;
        let allocated: BTreeSet<u64> = disk.allocated().into_keys().collect();
        let mut reached: BTreeSet<u64> = disk.reach(&self.dsl.mos().root()).into_keys().collect();
        for (_, blocks) in self.datasets.values() {
            reached.extend(blocks.keys());
        }
        let lost: Vec<_> = reached.difference(&allocated).collect();
        assert!(lost.is_empty(), "reached, but freed: {lost:?}");
        let drained = self.pool.task(|cx, _| is_drained(cx)).unwrap();
        let waits = dmu::bpobj::header(self.dsl.mos(), self.pool.free_list).unwrap().space();
        let mut pending = waits;
        let directory = dmu::Zap::open(&self.dsl.mos().object(1).unwrap()).unwrap();
        if let Some(queue) = directory.get_u64(mos::BPTREE_OBJ).unwrap() {
            let object = self.dsl.mos().object(queue).unwrap();
            let header = BptreeHeader::decode(&object.dnode().bonus, object.dnode().endian);
            pending = plus(pending, header.unwrap().space());
        }
        let free = self.dsl.internal_dirs().unwrap();
        let (_, free) = free.iter().find(|(n, _)| n == "$FREE").unwrap();
        let free = self.dsl.dir(*free, String::new()).unwrap().phys;
        let space =
            Space { used: free.used, compressed: free.compressed, uncompressed: free.uncompressed };
        assert_eq!(space, pending, "$FREE");
        let left = disk.allocated();
        let waiting = left.iter().filter(|(o, _)| !reached.contains(o)).map(|(_, bp)| bp.asize());
        assert_eq!(waiting.sum::<u64>(), pending.used, "allocated, and not reached");
        assert_eq!(drained, pending == Space::default());
    }
}
