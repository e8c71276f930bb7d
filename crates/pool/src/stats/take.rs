//! Takes a snapshot of the counters of every layer.

use super::{
    BlockStats, CacheStats, ClassStats, DatasetStats, Direction, SNAPSHOT_VERSION, Snapshot,
    StageStats, VdevStats,
};
use crate::live::LivePool;
use crate::open::{Pool, SUSPENDED};
use crate::space::PoolSpace;
use crate::status::{Members, Section, VdevView};
use dmu::SetCounts;
use rt::Rt;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use vdev::NodeRef;
use vdev::queue::{IoClass, LeafStats};
use zio::SpaceClass;
use zio::stages::StageCount;
use zio::stats::{ByType, TypeCount};

/// Bytes that can be allocated and that are, of a top-level vdev.
type Space = (u64, u64);

pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Name of a section as reports have it.
fn section_name(section: Section) -> &'static str {
    match section {
        Section::Tops(SpaceClass::Normal) => "",
        Section::Tops(SpaceClass::Dedup) => "dedup",
        Section::Tops(SpaceClass::Special) => "special",
        Section::Tops(SpaceClass::Log) => "logs",
        Section::Cache => "cache",
        Section::Spares => "spares",
    }
}

/// The classes that had anything to do.
fn classes(io: &LeafStats) -> Vec<ClassStats> {
    let all = IoClass::ALL.into_iter().map(|class| (class, io.class(class)));
    let used = all.filter(|(_, c)| c.ops + c.pending + c.active > 0);
    used.map(|(class, c)| ClassStats { class: class.name().to_owned(), counts: c.clone() })
        .collect()
}

/// Goes over the vdevs of one pool.
struct Walk<'p> {
    nodes: HashMap<u64, NodeRef<'p>>,
    /// By guid of the top-level vdev.
    space: HashMap<u64, Space>,
    whole_disks: HashSet<u64>,
    out: Vec<VdevStats>,
}

impl Walk<'_> {
    /// Adds a vdev and what is below it. Depth is bounded: the configuration's decoder limits it.
    fn add(&mut self, view: &VdevView, depth: u32, section: &str) {
        let at = self.out.len();
        let node = self.nodes.get(&view.guid).copied();
        let space = self.space.get(&view.guid).copied();
        self.out.push(VdevStats {
            depth,
            name: view.name.clone(),
            guid: view.guid,
            kind: view.kind.name().to_owned(),
            whole_disk: self.whole_disks.contains(&view.guid),
            section: section.to_owned(),
            state: view.state.name().to_owned(),
            has_space: view.is_top && space.is_some(),
            size_bytes: space.map_or(0, |s| s.0),
            allocated_bytes: space.map_or(0, |s| s.1),
            read_errors: node.map_or(0, NodeRef::read_errors),
            write_errors: node.map_or(0, NodeRef::write_errors),
            checksum_errors: node.map_or(0, NodeRef::checksum_errors),
            io: node.and_then(NodeRef::io).map(|io| classes(&io)).unwrap_or_default(),
            store: node.and_then(NodeRef::device).and_then(|device| device.stats().store),
            ..VdevStats::default()
        });
        for child in &view.children {
            self.add(child, depth + 1, section);
        }
        self.sum_up(at);
    }

    /// Gives the vdev at `at` the I/O of those right below it.
    fn sum_up(&mut self, at: usize) {
        let Some(depth) = self.out.get(at).map(|v| v.depth) else { return };
        let below = self.out.get(at + 1..).unwrap_or_default();
        let children = || below.iter().filter(|v| v.depth == depth + 1);
        let store = children().filter_map(|v| v.store).reduce(|sum, one| sum.plus(&one));
        let mut sum: Vec<ClassStats> = Vec::new();
        for class in children().flat_map(|v| &v.io) {
            match sum.iter_mut().find(|c| c.class == class.class) {
                Some(mine) => mine.counts.merge(&class.counts),
                None => sum.push(class.clone()),
            }
        }
        let Some(vdev) = self.out.get_mut(at) else { return };
        vdev.store = vdev.store.or(store);
        if !sum.is_empty() {
            vdev.io = sum;
        }
    }
}

impl Pool {
    /// The statistics since the pool was opened. `space`, which costs reading, is needed for the
    /// bytes allocated only.
    #[must_use]
    pub fn stats(&self, space: Option<&PoolSpace>) -> Snapshot {
        let known = space.into_iter().flat_map(|s| &s.tops);
        let known = known.map(|t| (t.id, (t.size(), t.allocated()))).collect();
        let mut out = self.snapshot(self.members(), self.vdevs().rt(), &known);
        out.datasets = datasets(self.store().used().snapshot(), |set| self.dsl().name_of(set).ok());
        out
    }

    /// The part that is known without the txg machine; `space` by number of the top-level vdev.
    fn snapshot(&self, members: Members<'_>, rt: &Rt, space: &HashMap<u64, Space>) -> Snapshot {
        let tree = self.vdevs();
        let tops = &members.root.children;
        let by_guid = tops.iter().filter_map(|t| Some((t.guid, *space.get(&t.id)?)));
        let all = members.root.walk();
        let whole = all.filter(|c| c.whole_disk == Some(true));
        let mut walk = Walk {
            nodes: tree.walk().map(|n| (n.guid(), n)).collect(),
            space: by_guid.collect(),
            whole_disks: whole.map(|c| c.guid).collect(),
            out: Vec::new(),
        };
        let root = tree.root();
        walk.out.push(VdevStats {
            name: self.name().to_owned(),
            guid: root.guid(),
            kind: root.kind().to_owned(),
            state: root.state().to_string(),
            has_space: !space.is_empty(),
            ..VdevStats::default()
        });
        let view = self.vdev_view_of(members, &PoolSpace::default());
        for section in Section::ALL {
            for vdev in view.section(section) {
                walk.add(vdev, 1, section_name(section));
            }
        }
        walk.sum_up(0);
        let mut vdevs = walk.out;
        // Logs do not count as the pool's space: nothing but the log can be there.
        let counts = |v: &&VdevStats| v.depth == 1 && v.has_space && v.section != "logs";
        let add = |s: Space, v: &VdevStats| (s.0 + v.size_bytes, s.1 + v.allocated_bytes);
        let (size, allocated) = vdevs.iter().filter(counts).fold((0, 0), add);
        if let Some(pool) = vdevs.first_mut() {
            (pool.size_bytes, pool.allocated_bytes) = (size, allocated);
        }
        let store = self.store();
        let (cache, cache_max) = (store.cache().stats(), store.cache().capacity());
        let ahead = store.reading_ahead().stats();
        let at = rt.now();
        let born = tree.born();
        Snapshot {
            version: SNAPSHOT_VERSION,
            pool: self.name().to_owned(),
            guid: self.guid(),
            at_ns: ns(at),
            span_ns: ns(at.saturating_sub(born)),
            wall_ns: ns(rt.wall()),
            txg: self.uberblock().txg,
            vdevs,
            stages: stages(self.reader().stages().snapshot()),
            blocks: blocks(self.reader().stats()),
            cache: CacheStats {
                hits: cache.hits,
                misses: cache.misses,
                bytes: cache.bytes,
                max_bytes: cache_max as u64,
                ahead_bytes: ahead.read_bytes,
                ahead_used_bytes: ahead.used_bytes,
                ahead_wasted_bytes: ahead.wasted_bytes,
            },
            ..Snapshot::default()
        }
    }
}

impl LivePool {
    /// The statistics since the pool was opened. Reads nothing, waits for nothing.
    #[must_use]
    pub fn stats(&self) -> Snapshot {
        let (root, [spares, l2cache]) = self.members_now();
        let members = Members { root: &root, spares: &spares, l2cache: &l2cache };
        let mut out = self.view().snapshot(members, self.rt(), &self.space_of_tops());
        out.guid = root.guid;
        out.txg = self.last_synced();
        out.suspended = self.suspended().map(|why| why.to_string());
        if let Some(root) = out.vdevs.first_mut().filter(|_| out.suspended.is_some()) {
            root.state = SUSPENDED.to_owned();
        }
        let expanding = self.reflowed().and_then(|(id, bytes)| {
            let guid = root.children.iter().find(|top| top.id == u64::from(id))?.guid;
            Some((out.vdevs.iter_mut().find(|v| v.guid == guid)?, bytes))
        });
        if let Some((vdev, bytes)) = expanding {
            (vdev.reflowed_bytes, vdev.to_reflow_bytes) = (bytes, vdev.allocated_bytes.max(bytes));
        }
        out.dirty_bytes = self.dirty();
        out.dirty_max_bytes = self.limits().dirty_max;
        out.txgs = self.txgs();
        out.profile = self.profiler().snapshot();
        let read = std::mem::take(&mut out.stages);
        out.stages = stages(self.profiler().stages());
        out.stages.extend(read);
        let names = self.names_of_sets();
        let used = self.view().store().used().snapshot();
        out.datasets = datasets(used, |set| names.get(&set).cloned());
        out
    }
}

/// The stages that anything went through.
fn stages(counts: Vec<(&'static str, StageCount)>) -> Vec<StageStats> {
    let used = counts.into_iter().filter(|(_, c)| c.count > 0);
    let stats = |(stage, c): (&str, StageCount)| StageStats {
        stage: stage.to_owned(),
        count: c.count,
        bytes: c.bytes,
        time_ns: c.time_ns,
    };
    used.map(stats).collect()
}

fn blocks(counted: &ByType) -> Vec<BlockStats> {
    let stats = |row: &TypeCount| {
        let times = counted.times(row.kind, row.level);
        BlockStats {
            kind: row.kind.to_string(),
            level: row.level,
            reads: row.read.ios,
            read_bytes: row.read.bytes,
            writes: row.written.ios,
            written_bytes: row.written.bytes,
            read_ns: times.read_ns,
            write_ns: times.written_ns,
        }
    };
    counted.snapshot().rows().iter().map(stats).collect()
}

/// The object sets that users did anything with; one whose name is not known by its number.
fn datasets(used: Vec<SetCounts>, name: impl Fn(u64) -> Option<String>) -> Vec<DatasetStats> {
    let any = |c: &SetCounts| c.read.ops + c.written.ops > 0;
    let stats = |c: SetCounts| DatasetStats {
        name: name(c.set).unwrap_or_else(|| format!("objset-{:#x}", c.set)),
        objset: c.set,
        reads: c.read.ops,
        read_bytes: c.read.bytes,
        writes: c.written.ops,
        written_bytes: c.written.bytes,
        read_ns: c.read.time_ns,
        write_ns: c.written.time_ns,
    };
    used.into_iter().filter(any).map(stats).collect()
}

impl Snapshot {
    /// Operations and bytes of the pool in one direction.
    #[must_use]
    pub fn traffic(&self, direction: Direction) -> (u64, u64) {
        let total = self.root().map(|pool| pool.total(direction)).unwrap_or_default();
        (total.ops, total.bytes)
    }
}
