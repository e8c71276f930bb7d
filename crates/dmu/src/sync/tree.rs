//! One object's tree while it is being changed, and the steps over many of them.

use super::{Job, SetSync, Write};
use crate::error::{ErrorKind, Result};
use crate::shape::levels_for;
use device::AlignedBuf;
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::{BlkPtr, Dnode, Endian};
use std::collections::BTreeMap;
use std::sync::Arc;
use zio::Block;

/// An indirect block that is being changed.
pub(super) struct Node {
    buf: AlignedBuf,
    endian: Endian,
    /// Its pointer before.
    old: BlkPtr,
}

/// A pointer that changes: of block `id` of some level.
pub(super) struct Change {
    pub(super) job: usize,
    pub(super) id: u64,
    pub(super) bp: BlkPtr,
}

pub(super) struct Tree {
    pub(super) number: u64,
    pub(super) dnode: Dnode,
    /// Indirect blocks that change, by level (that of index 0 is 1) and number. `None`: not
    /// loaded yet.
    nodes: Vec<BTreeMap<u64, Option<Node>>>,
    /// Freed pointers with their level and number.
    pub(super) to_free: Vec<(BlkPtr, u8, u64)>,
}

impl Tree {
    pub(super) fn new(number: u64, dnode: Dnode) -> Self {
        let nodes = (1..dnode.levels).map(|_| BTreeMap::new()).collect();
        Self { number, dnode, nodes, to_free: Vec::new() }
    }

    fn fanout_shift(&self) -> u32 {
        u32::from(self.dnode.indirect_shift) - 7
    }

    /// Level of the blocks that the dnode points to.
    fn top(&self) -> u8 {
        self.dnode.levels - 1
    }

    /// The level-0 blocks below block `id` of `level`, as a half-open range.
    fn cover(&self, level: u8, id: u64) -> (u128, u128) {
        let shift = self.fanout_shift() * u32::from(level);
        (u128::from(id) << shift, (u128::from(id) + 1) << shift)
    }

    /// Adds levels until the tree has this many and reaches its last block. The dnode's pointers
    /// move into a new indirect block.
    pub(super) fn grow(&mut self, levels: u8) {
        let needed = levels_for(&self.dnode, self.dnode.max_block).unwrap_or(u8::MAX);
        let wanted = needed.max(levels);
        while self.dnode.levels < wanted {
            let level = self.dnode.levels;
            self.nodes.push(BTreeMap::new());
            // A node that was just added has no pointer yet.
            let added = self.node(level - 1, 0).is_some();
            if added || self.dnode.blkptrs.iter().any(|bp| *bp != BlkPtr::HOLE) {
                let mut node = self.empty_node();
                for (slot, bp) in self.dnode.blkptrs.iter().enumerate() {
                    node.put(slot, bp);
                }
                self.dnode.blkptrs.fill(BlkPtr::HOLE);
                self.nodes[usize::from(level) - 1].insert(0, Some(node));
            }
            self.dnode.levels += 1;
        }
    }

    fn empty_node(&self) -> Node {
        let buf = AlignedBuf::zeroed(1 << self.dnode.indirect_shift);
        Node { buf, endian: Endian::Little, old: BlkPtr::HOLE }
    }

    fn node(&self, level: u8, id: u64) -> Option<&Node> {
        self.nodes.get(usize::from(level).checked_sub(1)?)?.get(&id)?.as_ref()
    }

    fn slot(&self, id: u64) -> usize {
        (id & ((1 << self.fanout_shift()) - 1)) as usize
    }

    /// The pointer to block `id` of `level`, as far as what is above is loaded; a hole otherwise.
    pub(super) fn pointer(&self, level: u8, id: u64) -> BlkPtr {
        if level == self.top() {
            let at = usize::try_from(id).ok().and_then(|i| self.dnode.blkptrs.get(i));
            return at.copied().unwrap_or(BlkPtr::HOLE);
        }
        let parent = id >> self.fanout_shift();
        self.node(level + 1, parent).map_or(BlkPtr::HOLE, |n| n.get(self.slot(id)))
    }

    /// Loads block `id` of `level`, whose pointer is at hand.
    fn load(&mut self, sync: &SetSync<'_>, level: u8, id: u64) -> Result<()> {
        if self.node(level, id).is_none() {
            let bp = self.pointer(level, id);
            let node = self.read_node(sync, level, id, &bp)?;
            self.nodes[usize::from(level) - 1].insert(id, Some(node));
        }
        Ok(())
    }

    fn read_node(&self, sync: &SetSync<'_>, level: u8, id: u64, bp: &BlkPtr) -> Result<Node> {
        if bp.is_hole() {
            let mut node = self.empty_node();
            node.old = *bp;
            return Ok(node);
        }
        let size = 1u64 << self.dnode.indirect_shift;
        if bp.level() != level || bp.lsize() != size {
            let rule = "an indirect block has another level or size than its place";
            return Err(sync.set.error(self.number, ErrorKind::Tree(rule)));
        }
        let block = sync.read(bp, sync.place(self.number, level, id))?;
        if block.len() as u64 != size {
            let rule = "an indirect block was read short";
            return Err(sync.set.error(self.number, ErrorKind::Tree(rule)));
        }
        Ok(Node { buf: AlignedBuf::copy_of(&block), endian: block.endian(), old: *bp })
    }

    /// Makes the blocks from `start` up to `end` holes. Existing blocks there are freed.
    pub(super) fn punch(&mut self, sync: &SetSync<'_>, start: u64, end: u64) -> Result<()> {
        let end = if end == u64::MAX { u128::MAX } else { u128::from(end) };
        let top = self.top();
        for id in 0..self.dnode.blkptrs.len() as u64 {
            self.punch_at(sync, top, id, (u128::from(start), end))?;
        }
        Ok(())
    }

    fn punch_at(
        &mut self,
        sync: &SetSync<'_>,
        level: u8,
        id: u64,
        range: (u128, u128),
    ) -> Result<()> {
        let (first, behind) = self.cover(level, id);
        let bp = self.pointer(level, id);
        // A level that was added is loaded though nothing points to it yet.
        let loaded = level > 0 && self.node(level, id).is_some();
        if behind <= range.0 || first >= range.1 || (bp.is_hole() && !loaded) {
            return Ok(());
        }
        if range.0 <= first && behind <= range.1 && !loaded {
            self.to_free.push((bp, level, id));
            let size = match level {
                0 => self.dnode.block_size(),
                _ => 1 << self.dnode.indirect_shift,
            };
            let hole = sync.hole(&bp, self.dnode.kind, level, size);
            self.put(level, id, &hole);
            return Ok(());
        }
        self.load(sync, level, id)?;
        let below = self.fanout_shift() * u32::from(level - 1);
        let from = (range.0.max(first) >> below) as u64;
        let to = ((range.1.min(behind) - 1) >> below) as u64;
        for child in from..=to {
            self.punch_at(sync, level - 1, child, range)?;
        }
        Ok(())
    }

    fn put(&mut self, level: u8, id: u64, bp: &BlkPtr) {
        if level == self.top() {
            if let Some(at) = self.dnode.blkptrs.get_mut(id as usize) {
                *at = *bp;
            }
            return;
        }
        let (parent, slot) = (id >> self.fanout_shift(), self.slot(id));
        let nodes = self.nodes.get_mut(usize::from(level));
        if let Some(node) = nodes.and_then(|n| n.get_mut(&parent)).and_then(Option::as_mut) {
            node.put(slot, bp);
        }
    }

    /// Says which level-0 blocks will change: what is above them will be loaded.
    pub(super) fn need(&mut self, blocks: impl Iterator<Item = u64>) {
        let shift = self.fanout_shift();
        let mut last = None;
        for id in blocks {
            let parent = id >> shift;
            if last == Some(parent) {
                continue;
            }
            last = Some(parent);
            if let Some(nodes) = self.nodes.first_mut() {
                nodes.entry(parent).or_default();
            }
        }
        for level in 1..self.nodes.len() {
            let (lower, upper) = self.nodes.split_at_mut(level);
            for id in lower[level - 1].keys() {
                upper[0].entry(id >> shift).or_default();
            }
        }
    }
}

impl Node {
    fn get(&self, slot: usize) -> BlkPtr {
        let bytes = self.buf.get(slot * BLKPTR_SIZE..).unwrap_or_default();
        BlkPtr::decode(bytes, self.endian).unwrap_or(BlkPtr::HOLE)
    }

    fn put(&mut self, slot: usize, bp: &BlkPtr) {
        let at = slot * BLKPTR_SIZE;
        if let Some(bytes) = self.buf.get_mut(at..at + BLKPTR_SIZE) {
            bytes.copy_from_slice(&bp.encode(self.endian));
        }
    }

    /// Non-hole level-0 blocks below; `None`: nothing but holes.
    fn fill(&self) -> Option<u64> {
        let (pointers, _) = self.buf.as_chunks::<BLKPTR_SIZE>();
        let fills = pointers.iter().filter_map(|bytes| BlkPtr::fill_of(bytes, self.endian));
        fills.reduce(u64::saturating_add)
    }
}

/// One indirect block of one job, with the changes below it.
struct Item<'a> {
    job: usize,
    id: u64,
    node: Node,
    changes: &'a [Change],
    out: BlkPtr,
}

impl SetSync<'_> {
    /// Loads the indirect blocks that are needed, all of one level in one parallel step.
    pub(super) fn load(&self, jobs: &mut [Job]) -> Result<()> {
        let levels = jobs.iter().filter_map(|j| j.tree.as_ref()).map(|t| t.nodes.len()).max();
        for level in (1..=levels.unwrap_or(0) as u8).rev() {
            let mut wanted = Vec::new();
            for (job, tree) in
                jobs.iter().enumerate().filter_map(|(i, j)| Some((i, j.tree.as_ref()?)))
            {
                let Some(nodes) = tree.nodes.get(usize::from(level) - 1) else { continue };
                for id in nodes.iter().filter(|(_, n)| n.is_none()).map(|(id, _)| *id) {
                    wanted.push((job, id, tree.pointer(level, id), None));
                }
            }
            let trees: &[Job] = jobs;
            self.for_each(&mut wanted, |(job, id, bp, out)| {
                if let Some(tree) = &trees[*job].tree {
                    *out = Some(tree.read_node(self, level, *id, bp)?);
                }
                Ok(())
            })?;
            for (job, id, _, node) in wanted {
                if let Some(tree) = &mut jobs[job].tree {
                    tree.nodes[usize::from(level) - 1].insert(id, node);
                }
            }
        }
        Ok(())
    }

    /// Puts the changed pointers into their parents and writes those, level by level.
    pub(super) fn write_levels(&self, jobs: &mut [Job], changes: Vec<Change>) -> Result<()> {
        let mut changes = changes;
        let mut level = 1u8;
        loop {
            self.put_into_dnodes(jobs, level, &changes);
            let mut nodes = Vec::new();
            for (i, job) in jobs.iter_mut().enumerate() {
                let level = job.tree.as_mut().and_then(|t| t.nodes.get_mut(usize::from(level) - 1));
                let taken = level.map(std::mem::take).unwrap_or_default();
                nodes.extend(taken.into_iter().filter_map(|(id, n)| Some((i, id, n?))));
            }
            let higher = |j: &Job| j.tree.as_ref().is_some_and(|t| t.top() > level);
            if nodes.is_empty() && !jobs.iter().any(higher) {
                return Ok(());
            }
            let mut rest = changes.as_slice();
            let mut items = Vec::with_capacity(nodes.len());
            for (job, id, node) in nodes {
                let shift = jobs[job].tree.as_ref().map_or(0, Tree::fanout_shift);
                let at =
                    rest.partition_point(|c| (c.job, c.id >> shift_of(jobs, c.job)) < (job, id));
                rest = &rest[at..];
                let n = rest.partition_point(|c| c.job == job && c.id >> shift == id);
                let (mine, behind) = rest.split_at(n);
                rest = behind;
                items.push(Item { job, id, node, changes: mine, out: BlkPtr::HOLE });
            }
            let done: &[Job] = jobs;
            self.for_each(&mut items, |item| self.write_node(&done[item.job], level, item))?;
            let up = items.into_iter().map(|i| Change { job: i.job, id: i.id, bp: i.out });
            changes = up.collect();
            level += 1;
        }
    }

    /// Changes of blocks of `level - 1` that dnodes point to directly.
    fn put_into_dnodes(&self, jobs: &mut [Job], level: u8, changes: &[Change]) {
        for c in changes {
            let Some(tree) = jobs[c.job].tree.as_ref().filter(|t| t.top() + 1 == level) else {
                continue;
            };
            let old = tree.pointer(level - 1, c.id);
            if old.is_hole() && c.bp.is_hole() {
                continue;
            }
            jobs[c.job].replaced(self, &old, &c.bp);
            if let Some(tree) = &mut jobs[c.job].tree {
                tree.put(level - 1, c.id, &c.bp);
            }
        }
    }

    fn write_node(&self, job: &Job, level: u8, item: &mut Item<'_>) -> Result<()> {
        let Some(tree) = &job.tree else { return Ok(()) };
        for c in item.changes {
            let slot = tree.slot(c.id);
            let old = item.node.get(slot);
            // A hole that stays one keeps its birth.
            if !(old.is_hole() && c.bp.is_hole()) {
                job.replaced(self, &old, &c.bp);
                item.node.put(slot, &c.bp);
            }
        }
        let dnode = &tree.dnode;
        let size = item.node.buf.len() as u64;
        let Some(fill) = item.node.fill() else {
            item.out = self.hole(&item.node.old, dnode.kind, level, size);
            return Ok(());
        };
        let mut spec = self.policy.spec(dnode.kind, level, Some(dnode), size, self.cx.txg);
        spec.fill = fill;
        let buf = std::mem::take(&mut item.node.buf);
        let block = Arc::new(Block::new(buf, item.node.endian));
        let place = self.place(tree.number, level, item.id);
        item.out = self.write(&block, spec, place, &item.node.old)?;
        Ok(())
    }

    /// Writes changed level-0 blocks of one object whose tree is loaded, and what is above.
    pub(super) fn write_object(&self, job: &mut Job, mut writes: Vec<Write>) -> Result<()> {
        let jobs = std::slice::from_mut(job);
        let written = self.write_level_0(jobs, &mut writes)?;
        let changes = writes.iter().zip(written);
        let changes = changes.map(|(w, bp)| Change { job: 0, id: w.blkid, bp });
        self.write_levels(jobs, changes.collect())
    }
}

fn shift_of(jobs: &[Job], job: usize) -> u32 {
    jobs[job].tree.as_ref().map_or(0, Tree::fanout_shift)
}
