//! The tree of vdevs over opened devices.
//!
//! Built once from the configuration; its shape does not change. Another shape is another tree,
//! which is swapped in. What changes while it is shared is behind `&self`: error counters, which
//! are atomic, the health and the missed txgs of leaves, and how far an expansion has come.
//!
//! Nodes are in one vector, children named by index. Depth is bounded when the tree is built, so
//! that walks down it need no further bound.

mod displaced;
mod redundancy;
mod siblings;
mod successor;

use crate::draid::Draid;
use crate::error::BuildError;
use crate::flow::{EarlierTreeUse, Reflow, TreeUse};
use crate::guard::Guard;
use crate::health::{Health, Mark};
use crate::indirect::{IndirectSegment, Mapping};
use crate::map::BLOCK_SIZE_MAX;
use crate::queue::{LeafQueue, LeafStats, QueueLimits};
use crate::raidz::Raidz;
use crate::size::device_size_min;
use crate::state::{Reason, VdevState, of_children};
use crate::thresholds::ErrorLimits;
use crate::txgs::Txgs;
use core::ops::Range;
use device::{DeviceRef, WriteDeviceRef};
use ondisk::config::{VdevConfig, VdevKind};
use rt::Rt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Deepest nesting of a tree. OpenZFS has at most five: root, raidz, spare, replacing, disk.
const DEPTH_MAX: u32 = 16;

/// The result of opening the device of a leaf.
#[derive(Clone)]
pub enum LeafOpen {
    /// The device is there and up to date.
    Online(DeviceRef),
    /// The device is there; it is used in spite of errors.
    Degraded(DeviceRef),
    /// The device is there, but it was absent while others were written: last choice for reads.
    Stale(DeviceRef),
    /// The same, and how many txgs it missed. It counts as lost for its vdev, so that nothing
    /// depends on it, unless it is `needed`.
    Behind {
        /// The device.
        device: DeviceRef,
        /// Txgs since the last one it was there for.
        txgs: u64,
        /// Without it there are too few.
        needed: bool,
    },
    /// The device is there, up to date, and may be changed.
    Writable(WriteDeviceRef),
    /// The same, used in spite of errors.
    WritableDegraded(WriteDeviceRef),
    /// The same, absent while others were written.
    WritableStale(WriteDeviceRef),
    /// No device was found.
    Missing,
    /// A device was found that cannot be written to.
    Refused(device::ErrorKind),
    /// A device was found whose label is not this vdev's.
    BadLabel,
    /// Out of use by the administrator's will.
    Offline,
    /// Out of use after errors.
    Faulted,
    /// Out of use because the administrator said that it failed.
    FaultedByHand,
    /// Pulled out.
    Removed,
}

impl LeafOpen {
    /// Applies the configuration's own flags to an opened device: flagged offline, faulted or
    /// removed it is not used even if it is there.
    #[must_use]
    pub fn by_config(config: &VdevConfig, device: Option<DeviceRef>) -> Self {
        match device {
            _ if config.offline => Self::Offline,
            _ if config.is_faulted_by_hand() => Self::FaultedByHand,
            _ if config.faulted => Self::Faulted,
            _ if config.removed => Self::Removed,
            None => Self::Missing,
            Some(d) if config.degraded => Self::Degraded(d),
            Some(d) => Self::Online(d),
        }
    }

    /// The same for a device that may be changed.
    #[must_use]
    pub fn writable_by_config(config: &VdevConfig, device: Option<WriteDeviceRef>) -> Self {
        let reader = device.clone().map(|d| d.as_device());
        match (Self::by_config(config, reader), device) {
            (Self::Online(_), Some(d)) => Self::Writable(d),
            (Self::Degraded(_), Some(d)) => Self::WritableDegraded(d),
            (other, _) => other,
        }
    }

    fn split(self) -> Opened {
        use VdevState::{Degraded, Faulted, Offline, Online, Removed, Unavail};
        let reader = |d| (Some(d), None);
        let writer = |d: WriteDeviceRef| (Some(Arc::clone(&d).as_device()), Some(d));
        let ((device, writer), state, reason, stale) = match self {
            Self::Online(d) => (reader(d), Online, Reason::None, false),
            Self::Degraded(d) => (reader(d), Degraded, Reason::TooManyErrors, false),
            Self::Stale(d) => (reader(d), Online, Reason::None, true),
            Self::Behind { device, txgs, needed } => {
                let state = if needed { Degraded } else { Unavail };
                (reader(device), state, Reason::Behind(txgs), true)
            }
            Self::Writable(d) => (writer(d), Online, Reason::None, false),
            Self::WritableDegraded(d) => (writer(d), Degraded, Reason::TooManyErrors, false),
            Self::WritableStale(d) => (writer(d), Online, Reason::None, true),
            Self::Missing => ((None, None), Unavail, Reason::CannotOpen, false),
            Self::Refused(why) => ((None, None), Unavail, Reason::Refused(why), false),
            Self::BadLabel => ((None, None), Faulted, Reason::BadLabel, false),
            Self::Offline => ((None, None), Offline, Reason::None, false),
            Self::Faulted => ((None, None), Faulted, Reason::TooManyErrors, false),
            Self::FaultedByHand => ((None, None), Faulted, Reason::External, false),
            Self::Removed => ((None, None), Removed, Reason::None, false),
        };
        Opened { device, writer, state, reason, stale, short: None }
    }
}

impl Opened {
    /// A device that is smaller than its vdev has lost its end, with the data there. The rest of it
    /// is the last choice for reads, and nothing is written to it.
    fn of_size(self, min: u64) -> Self {
        let size = self.device.as_ref().map_or(u64::MAX, |d| d.size());
        if size >= min {
            return self;
        }
        let (state, reason) = (VdevState::Unavail, Reason::BadLabel);
        Self { writer: None, state, reason, stale: true, short: Some(min), ..self }
    }
}

/// [`LeafOpen`], taken apart.
struct Opened {
    device: Option<DeviceRef>,
    writer: Option<WriteDeviceRef>,
    state: VdevState,
    reason: Reason,
    stale: bool,
    /// Bytes that the device should have and does not.
    short: Option<u64>,
}

/// The role of a node, with its children or its device.
pub(crate) enum Role {
    Root,
    Mirror,
    Replacing,
    Spare,
    Raidz(Raidz),
    Draid(Box<Draid>),
    Leaf,
    /// Distributed spare `id` of the dRAID with guid `top`.
    DraidSpare {
        top: u64,
        id: u64,
    },
    Indirect(Option<Mapping>),
    Hole,
    Missing,
}

impl Role {
    fn name(&self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Mirror => "mirror",
            Self::Replacing => "replacing",
            Self::Spare => "spare",
            Self::Raidz(_) => "raidz",
            Self::Draid(_) => "draid",
            Self::Leaf => "leaf",
            Self::DraidSpare { .. } => "dspare",
            Self::Indirect(_) => "indirect",
            Self::Hole => "hole",
            Self::Missing => "missing",
        }
    }
}

/// One vdev.
pub(crate) struct Node {
    pub(crate) role: Role,
    pub(crate) guid: u64,
    /// Path of a device, name of any other vdev.
    pub(crate) name: Arc<str>,
    pub(crate) children: Vec<usize>,
    pub(crate) device: Option<DeviceRef>,
    /// The same device, when it was opened to be changed.
    pub(crate) writer: Option<WriteDeviceRef>,
    /// In front of the device, or of the one before, while requests to that have not come back.
    pub(crate) guard: Option<Arc<Guard>>,
    /// The queue that blocks are read and written through.
    pub(crate) queue: Option<Arc<LeafQueue>>,
    pub(crate) health: Arc<Health>,
    /// The result of opening a leaf's device; other vdevs look at their children.
    state: VdevState,
    reason: Reason,
    pub(crate) is_log: bool,
    /// The device as a whole is behind.
    stale: bool,
    /// Bytes that the device should have at least, when it has fewer.
    short: Option<u64>,
}

impl Node {
    /// Children that it can do without; `None` for what has its state from a device.
    fn spare(&self) -> Option<usize> {
        Some(match &self.role {
            Role::Root => 0,
            Role::Mirror | Role::Replacing | Role::Spare => self.children.len().saturating_sub(1),
            Role::Raidz(r) => r.nparity(),
            Role::Draid(d) => d.nparity(),
            _ => return None,
        })
    }

    /// A distributed spare is there.
    pub(crate) fn is_online(&self) -> bool {
        self.state == VdevState::Online
    }

    /// The device may hold something else than what was written in txg `birth`.
    pub(crate) fn is_stale(&self, birth: u64) -> bool {
        self.stale || self.health.is_out() || self.health.has_missed(birth)
    }

    /// The device as a whole is behind.
    pub(crate) fn is_behind(&self) -> bool {
        self.stale
    }

    /// From now on its device has deadlines, and its queue these limits.
    fn guard(&mut self, rt: &Rt, limits: &Arc<QueueLimits>) {
        let Some(device) = self.device.take() else { return };
        let guard = Guard::new(rt, device, self.writer.take(), Arc::clone(limits));
        self.stand_behind(rt, guard, limits);
    }

    fn stand_behind(&mut self, rt: &Rt, guard: Arc<Guard>, limits: &Arc<QueueLimits>) {
        self.device = Some(Arc::clone(&guard) as _);
        self.writer = guard.can_write().then(|| Arc::clone(&guard) as _);
        let (device, writer) = (Arc::clone(&guard) as _, self.writer.clone());
        self.queue = Some(LeafQueue::new(rt, device, writer, Arc::clone(limits)));
        self.guard = Some(guard);
    }

    /// Requests to its device were given up and have not come back.
    pub(crate) fn is_silent(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.is_silent())
    }
}

/// A top-level vdev.
pub(crate) struct Top {
    pub(crate) node: usize,
    pub(crate) ashift: u32,
    /// Bytes; 0 when the configuration does not say.
    pub(crate) asize: u64,
    /// Its space is for blocks of all kinds.
    is_for_all: bool,
}

/// All vdevs of a pool, over the devices that could be opened.
pub struct VdevTree {
    tree_use: TreeUse,
    /// Those of the trees before.
    past: Vec<EarlierTreeUse>,
    rt: Rt,
    pub(crate) nodes: Vec<Node>,
    pub(crate) tops: BTreeMap<u32, Top>,
    limits: Arc<QueueLimits>,
    pub(crate) error_limits: Arc<ErrorLimits>,
    born: Duration,
}

/// The tree under construction.
struct Builder<'a> {
    nodes: Vec<Node>,
    rt: Rt,
    limits: Arc<QueueLimits>,
    /// Bytes that the devices of the top-level vdev have at least which is being added.
    size_min: u64,
    open: &'a mut dyn FnMut(&VdevConfig) -> LeafOpen,
}

impl VdevTree {
    /// Builds the tree of the configuration's root vdev. `open` is called once for every leaf that
    /// has a device of its own.
    ///
    /// # Errors
    /// When the configuration contradicts itself. Missing devices are not error.
    pub fn build(
        rt: &Rt,
        root: &VdevConfig,
        open: &mut dyn FnMut(&VdevConfig) -> LeafOpen,
    ) -> Result<Self, BuildError> {
        if root.kind != VdevKind::Root {
            let found = root.kind.name().to_owned();
            return Err(BuildError::NoRoot { found, guid: root.guid });
        }
        let limits = Arc::new(QueueLimits::unbounded());
        let mut b = Builder { nodes: Vec::new(), rt: rt.clone(), limits, size_min: 0, open };
        let index = b.push(root, Role::Root, "root".into());
        let mut tops = BTreeMap::new();
        for child in &root.children {
            b.size_min = device_size_min(child);
            let node = b.add(child, "root", child.ashift.unwrap_or(9) as u32, DEPTH_MAX)?;
            let bad = BuildError::BadId { id: child.id, guid: child.guid };
            let id = u32::try_from(child.id).map_err(|_| bad.clone())?;
            let top = Top {
                node,
                ashift: child.ashift.unwrap_or(0) as u32,
                asize: child.asize.unwrap_or(0),
                is_for_all: !child.is_log && child.alloc_bias.is_none(),
            };
            if tops.insert(id, top).is_some() {
                return Err(bad);
            }
            b.adopt(index, node);
        }
        let born = b.rt.now();
        let (tree_use, past) = (TreeUse::default(), Vec::new());
        let Builder { nodes, rt, limits, .. } = b;
        let error_limits = Arc::default();
        let mut tree = Self { tree_use, past, rt, nodes, tops, limits, error_limits, born };
        tree.settle_draid_spares();
        Ok(tree)
    }

    pub(crate) fn tree_use(&self) -> &TreeUse {
        &self.tree_use
    }

    /// The runtime to wait for its devices with.
    #[must_use]
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// Puts limits on the queues of all leaves, and deadlines on their devices, which have none
    /// from the start. For a pool that others than a single reader of everything work with.
    pub fn set_queue_limits(&mut self, rt: &Rt, limits: &Arc<QueueLimits>) {
        self.limits = Arc::clone(limits);
        self.born = rt.now();
        self.nodes.iter_mut().for_each(|node| node.guard(rt, limits));
        self.acquaint();
    }

    /// When it began to count, on the clock of the runtime.
    #[must_use]
    pub fn born(&self) -> Duration {
        self.born
    }

    /// The limits of the queues; they can be changed at any time.
    #[must_use]
    pub fn queue_limits(&self) -> &Arc<QueueLimits> {
        &self.limits
    }

    /// Distributed spares have no device: they are as good as their name.
    fn settle_draid_spares(&mut self) {
        for i in 0..self.nodes.len() {
            if let Role::DraidSpare { top, id } = self.nodes[i].role {
                let found = self.draid(top).is_some_and(|(_, d)| d.has_spare(id));
                let node = &mut self.nodes[i];
                (node.state, node.reason) = match found {
                    true => (VdevState::Online, Reason::None),
                    false => (VdevState::Unavail, Reason::CannotOpen),
                };
            }
        }
    }

    /// State of a vdev now: devices that failed while they were written to count as lost. Its depth
    /// was bounded when the tree was built.
    fn standing(&self, node: &Node) -> (VdevState, Reason) {
        let Some(spare) = node.spare() else {
            let is_in_place = || node.device.as_ref().is_some_and(|d| d.displaced().is_none());
            // The mark goes with the next txg.
            let is_back = node.health.mark() == Mark::Astray && is_in_place();
            let standing = node.health.standing().filter(|_| !is_back);
            return standing.unwrap_or((node.state, node.reason));
        };
        let root = matches!(node.role, Role::Root);
        let children = node.children.iter().filter_map(|c| self.nodes.get(*c));
        of_children(children.map(|c| (self.standing(c).0, root && c.is_log)), spare)
    }

    /// The dRAID vdev with this guid, and its node.
    pub(crate) fn draid(&self, guid: u64) -> Option<(&Node, &Draid)> {
        self.nodes.iter().find_map(|n| match &n.role {
            Role::Draid(d) if n.guid == guid => Some((n, &**d)),
            _ => None,
        })
    }

    fn top_mut(&mut self, vdev: u32) -> Option<&mut Node> {
        let node = self.tops.get(&vdev)?.node;
        self.nodes.get_mut(node)
    }

    /// Gives a removed vdev its mapping, as read from the MOS.
    ///
    /// # Errors
    /// When `vdev` is not a removed one, or segments overlap.
    pub fn set_indirect(
        &mut self,
        vdev: u32,
        segments: Vec<IndirectSegment>,
    ) -> Result<(), BuildError> {
        match self.top_mut(vdev).map(|n| &mut n.role) {
            Some(Role::Indirect(mapping)) => {
                *mapping = Some(Mapping::new(vdev, segments)?);
                Ok(())
            }
            _ => Err(BuildError::WrongKind { vdev, wanted: "a removed vdev" }),
        }
    }

    /// Says how far an unfinished RAID-Z expansion has come: the reflow word of the uberblock.
    ///
    /// # Errors
    /// When `vdev` is not a RAID-Z that is being expanded.
    pub fn set_reflow(&mut self, vdev: u32, reflow: Reflow) -> Result<(), BuildError> {
        match self.top_mut(vdev).map(|n| &mut n.role) {
            Some(Role::Raidz(r)) if r.is_expanding() => {
                r.set_reflow(reflow);
                Ok(())
            }
            _ => Err(BuildError::WrongKind { vdev, wanted: "a raidz vdev under expansion" }),
        }
    }

    /// Says which txgs the device with this guid missed (its DTL): its copies of blocks born then
    /// are the last choice, and no fault when they differ. Returns whether there is such a device.
    pub fn set_missed(&self, guid: u64, txgs: &Txgs) -> bool {
        self.change_missed(guid, |missed| *missed = txgs.clone())
    }

    /// Adds to what the device with this guid missed. Returns whether there is such a device.
    pub fn has_missed(&self, guid: u64, txgs: &Txgs) -> bool {
        self.change_missed(guid, |missed| missed.merge(txgs))
    }

    /// Takes txgs out of what the device with this guid missed: its blocks were brought.
    pub fn has_caught_up(&self, guid: u64, txgs: &Txgs) {
        self.change_missed(guid, |missed| missed.subtract(txgs));
    }

    /// The devices to which a resilver brings nothing yet, by guid: these, and no others.
    pub fn set_waiting(&self, guids: &BTreeSet<u64>) {
        self.nodes.iter().for_each(|node| node.health.set_waiting(guids.contains(&node.guid)));
    }

    fn change_missed(&self, guid: u64, change: impl FnOnce(&mut Txgs)) -> bool {
        let leaf =
            |n: &&Node| n.guid == guid && matches!(n.role, Role::Leaf | Role::DraidSpare { .. });
        let found = self.nodes.iter().find(leaf);
        found.map(|node| node.health.change_missed(change)).is_some()
    }

    /// The root vdev.
    #[must_use]
    pub fn root(&self) -> NodeRef<'_> {
        NodeRef { tree: self, node: &self.nodes[0] }
    }

    /// All vdevs, parents before children.
    pub fn walk(&self) -> impl Iterator<Item = NodeRef<'_>> {
        self.nodes.iter().map(|node| NodeRef { tree: self, node })
    }

    /// The vdevs that have or had a device.
    pub fn leaves(&self) -> impl Iterator<Item = NodeRef<'_>> {
        self.walk().filter(|n| matches!(n.node.role, Role::Leaf))
    }

    /// All that may have missed something: leaves, and distributed spares.
    pub fn sides(&self) -> impl Iterator<Item = NodeRef<'_>> {
        self.walk().filter(|n| matches!(n.node.role, Role::Leaf | Role::DraidSpare { .. }))
    }

    /// Whether writes reach the side with this guid.
    #[must_use]
    pub fn is_written(&self, guid: u64) -> bool {
        self.sides().any(|side| side.guid() == guid && side.is_written())
    }

    pub(crate) fn node(&self, index: usize) -> Option<NodeRef<'_>> {
        self.nodes.get(index).map(|node| NodeRef { tree: self, node })
    }

    /// The unit to which stored blocks are rounded up: the bytes of which every vdev for normal
    /// blocks allocates a multiple, a sector, or a row of data of a dRAID's group. 512 without such
    /// vdevs.
    #[must_use]
    pub fn alloc_unit(&self) -> u64 {
        let unit = |t: &Top| match self.nodes.get(t.node).map(|n| &n.role) {
            _ if !t.is_for_all || !(9..=24).contains(&t.ashift) => None,
            Some(Role::Draid(d)) => Some(d.row_data()),
            _ => Some(1 << t.ashift),
        };
        self.tops.values().filter_map(unit).reduce(gcd).unwrap_or(512)
    }

    /// The top-level vdevs in order of their numbers.
    pub fn tops(&self) -> impl Iterator<Item = TopRef<'_>> {
        self.tops.iter().map(|(id, top)| TopRef { tree: self, id: *id, top })
    }

    /// One top-level vdev.
    #[must_use]
    pub fn top(&self, vdev: u32) -> Option<TopRef<'_>> {
        self.tops.get(&vdev).map(|top| TopRef { tree: self, id: vdev, top })
    }

    /// Every block's address can be read from what is there: no top-level vdev but logs is lost. A
    /// device that is too short counts as there: much of it may be left to be read.
    #[must_use]
    pub fn is_sufficient(&self) -> bool {
        let mut there = vec![false; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate().rev() {
            let lost = |c: &&usize| {
                let dispensable = matches!(node.role, Role::Root) && self.nodes[**c].is_log;
                !there[**c] && !dispensable
            };
            there[i] = match node.spare() {
                Some(spare) => node.children.iter().filter(lost).count() <= spare,
                None => node.state.is_readable() || node.short.is_some(),
            };
        }
        there.first().copied().unwrap_or(false)
    }

    /// Cuts the first range off a part of a top-level vdev's space that can be rebuilt as a block:
    /// its end, and the bytes of the block. On dRAID it has whole rows of one group, and `max`
    /// bytes for each data column. `None`: no such part begins there.
    #[must_use]
    pub fn rebuild_range(&self, vdev: u32, space: &Range<u64>, max: u64) -> Option<(u64, u64)> {
        let top = self.tops.get(&vdev)?;
        let max = max.max(1).checked_next_multiple_of(1u64.checked_shl(top.ashift)?)?;
        match &self.nodes.get(top.node)?.role {
            Role::Draid(draid) => draid.rebuild_range(space, max),
            _ => {
                let size = space.end.checked_sub(space.start)?.min(max).min(BLOCK_SIZE_MAX);
                (size > 0).then_some((space.start + size, size))
            }
        }
    }

    /// Bytes allocated on `vdev` for a block of `psize` bytes born in txg `birth`, with parity
    /// and padding; `None` for a vdev that does not exist or holds nothing.
    #[must_use]
    pub fn psize_to_asize(&self, vdev: u32, psize: u64, birth: u64) -> Option<u64> {
        let top = self.tops.get(&vdev)?;
        match &self.nodes.get(top.node)?.role {
            Role::Raidz(r) => Some(r.asize(psize, birth)),
            Role::Draid(d) => Some(d.asize(psize)),
            Role::Hole | Role::Missing => None,
            _ => psize.checked_next_multiple_of(1u64.checked_shl(top.ashift)?),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Builder<'_> {
    fn push(&mut self, config: &VdevConfig, role: Role, name: Arc<str>) -> usize {
        self.nodes.push(Node {
            role,
            guid: config.guid,
            name,
            children: Vec::new(),
            device: None,
            writer: None,
            guard: None,
            queue: None,
            health: Arc::new(Health::new(&self.rt)),
            state: VdevState::Online,
            reason: Reason::None,
            is_log: config.is_log,
            stale: false,
            short: None,
        });
        self.nodes.len() - 1
    }

    fn adopt(&mut self, parent: usize, child: usize) {
        if let Some(p) = self.nodes.get_mut(parent) {
            p.children.push(child);
        }
    }

    /// Adds a vdev and all below it.
    fn add(
        &mut self,
        config: &VdevConfig,
        parent: &'static str,
        ashift: u32,
        depth: u32,
    ) -> Result<usize, BuildError> {
        let below = depth.checked_sub(1).ok_or(BuildError::TooDeep { limit: DEPTH_MAX })?;
        let role = role(config, parent, ashift)?;
        let name = name(config, &role);
        let kind = role.name();
        let is_leaf = matches!(role, Role::Leaf);
        let is_missing = matches!(role, Role::Missing);
        let index = self.push(config, role, name);
        if is_leaf || is_missing {
            let open = if is_leaf { (self.open)(config) } else { LeafOpen::Missing };
            let opened = open.split().of_size(self.size_min);
            let Opened { device, writer, state, reason, stale, short } = opened;
            let node = &mut self.nodes[index];
            node.queue = device.as_ref().map(|d| {
                let limits = Arc::clone(&self.limits);
                LeafQueue::new(&self.rt, Arc::clone(d), writer.clone(), limits)
            });
            (node.device, node.writer) = (device, writer);
            (node.state, node.reason, node.stale) = (state, reason, stale);
            node.short = short;
        }
        for child in &config.children {
            let child = self.add(child, kind, ashift, below)?;
            self.adopt(index, child);
        }
        Ok(index)
    }
}

/// The role of a vdev by its configuration, if it can have that below `parent`.
fn role(config: &VdevConfig, parent: &'static str, ashift: u32) -> Result<Role, BuildError> {
    let geometry = |kind| BuildError::Geometry { kind, id: config.id, guid: config.guid };
    let at_top = parent == "root";
    let role = match &config.kind {
        VdevKind::Mirror => Role::Mirror,
        // Also at the top: a single disk that is being replaced.
        VdevKind::Replacing => Role::Replacing,
        VdevKind::Spare => Role::Spare,
        VdevKind::Raidz { nparity } if at_top => Role::Raidz(
            Raidz::new(
                u64::from(*nparity),
                ashift,
                config.children.len(),
                &config.raidz_expand_txgs,
                config.raidz_expanding,
            )
            .ok_or(geometry("raidz"))?,
        ),
        VdevKind::Draid { nparity, ndata, nspares, ngroups } if at_top => {
            let (d, s, g) = (u64::from(*ndata), u64::from(*nspares), u64::from(*ngroups));
            let n = config.children.len();
            let draid = Draid::new(u64::from(*nparity), d, s, g, n, ashift);
            Role::Draid(Box::new(draid.ok_or(geometry("draid"))?))
        }
        VdevKind::Disk | VdevKind::File => Role::Leaf,
        VdevKind::DraidSpare { top_guid, spare_id } if !at_top => {
            Role::DraidSpare { top: *top_guid, id: *spare_id }
        }
        VdevKind::Indirect if at_top => Role::Indirect(None),
        VdevKind::Hole if at_top => Role::Hole,
        VdevKind::Missing => Role::Missing,
        other => {
            let kind = other.name().to_owned();
            return Err(BuildError::Misplaced { kind, guid: config.guid, parent });
        }
    };
    Ok(role)
}

/// Path of a device; for other vdevs the name that `zpool status` shows.
fn name(config: &VdevConfig, role: &Role) -> Arc<str> {
    match role {
        Role::Leaf | Role::DraidSpare { .. } => match &config.path {
            Some(path) => path.as_str().into(),
            None => config.guid.to_string().into(),
        },
        _ => format!("{}-{}", config.kind_name(), config.id).into(),
    }
}

/// A vdev of the tree, to look at.
#[derive(Clone, Copy)]
pub struct NodeRef<'t> {
    tree: &'t VdevTree,
    node: &'t Node,
}

impl<'t> NodeRef<'t> {
    /// Its guid.
    #[must_use]
    pub fn guid(self) -> u64 {
        self.node.guid
    }

    /// Path of a device, or a name such as `raidz1-0`.
    #[must_use]
    pub fn name(self) -> &'t str {
        &self.node.name
    }

    /// `root`, `mirror`, `replacing`, `spare`, `raidz`, `draid`, `leaf`, `dspare`, `indirect`,
    /// `hole` or `missing`.
    #[must_use]
    pub fn kind(self) -> &'static str {
        self.node.role.name()
    }

    /// Its health.
    #[must_use]
    pub fn state(self) -> VdevState {
        self.tree.standing(self.node).0
    }

    /// Why it is not healthy.
    #[must_use]
    pub fn reason(self) -> Reason {
        self.tree.standing(self.node).1
    }

    /// The device is behind the others as a whole.
    #[must_use]
    pub fn is_stale(self) -> bool {
        self.node.stale
    }

    /// The same, and for that reason nothing is written to it.
    #[must_use]
    pub fn is_behind(self) -> bool {
        self.node.stale && matches!(self.node.reason, Reason::Behind(_))
    }

    /// The txgs of which it may not hold all blocks.
    #[must_use]
    pub fn missed(self) -> Txgs {
        self.node.health.missed()
    }

    /// The same, but for what was cut off of its file while it was in use.
    #[must_use]
    pub fn missed_while_away(self) -> Txgs {
        self.node.health.missed_while_away()
    }

    /// Bytes that the device should have at least, when it has fewer.
    #[must_use]
    pub fn size_missed(self) -> Option<u64> {
        self.node.short
    }

    /// The device, when it is open.
    #[must_use]
    pub fn device(self) -> Option<&'t DeviceRef> {
        self.node.device.as_ref()
    }

    /// The device, when it may be changed and has not failed at that.
    #[must_use]
    pub fn writer(self) -> Option<&'t WriteDeviceRef> {
        self.node.writer.as_ref().filter(|_| !self.node.health.is_out())
    }

    /// Whether writes reach it: its device, or, as a distributed spare, those of others.
    #[must_use]
    pub fn is_written(self) -> bool {
        match self.node.role {
            Role::DraidSpare { .. } => self.node.is_online(),
            _ => self.writer().is_some(),
        }
    }

    /// The counts of the queue of its device; `None` for a vdev without one.
    #[must_use]
    pub fn io(self) -> Option<LeafStats> {
        self.node.queue.as_ref().map(|q| q.stats())
    }

    /// Requests that took longer than `zio_slow_io_ms`, or have for that reason been given up.
    #[must_use]
    pub fn slow_requests(self) -> u64 {
        self.node.guard.as_ref().map_or(0, |guard| guard.slow_requests())
    }

    /// It takes unusually long for reads, so they go to others where they can.
    #[must_use]
    pub fn sits_out(self) -> bool {
        self.node.queue.as_ref().is_some_and(|queue| queue.pace.sits_out())
    }

    /// Requests to its device were given up and have not come back: nothing may be written to it.
    #[must_use]
    pub fn is_silent(self) -> bool {
        self.node.is_silent()
    }

    /// Failed writes since the tree was built.
    #[must_use]
    pub fn write_errors(self) -> u64 {
        self.node.health.write_errors()
    }

    /// Failed reads of blocks since the tree was built.
    #[must_use]
    pub fn read_errors(self) -> u64 {
        self.node.health.read_errors()
    }

    /// Blocks found damaged here since the tree was built; on an inner vdev, those that could not
    /// be put together from its children.
    #[must_use]
    pub fn checksum_errors(self) -> u64 {
        self.node.health.checksum_errors()
    }

    /// The vdevs below.
    pub fn children(self) -> impl Iterator<Item = NodeRef<'t>> {
        let Self { tree, node } = self;
        node.children.iter().filter_map(|c| tree.nodes.get(*c)).map(|node| NodeRef { tree, node })
    }
}

/// A top-level vdev, to look at.
#[derive(Clone, Copy)]
pub struct TopRef<'t> {
    tree: &'t VdevTree,
    id: u32,
    top: &'t Top,
}

impl<'t> TopRef<'t> {
    /// Its number, as block addresses have it.
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// The vdev.
    #[must_use]
    pub fn node(self) -> NodeRef<'t> {
        // `build` made the node before the top that names it.
        NodeRef { tree: self.tree, node: &self.tree.nodes[self.top.node] }
    }

    pub(crate) fn index(self) -> usize {
        self.top.node
    }

    /// It holds blocks of intent logs, and nothing else.
    #[must_use]
    pub fn is_log(self) -> bool {
        self.node().node.is_log
    }

    /// Blocks can be written here, and read again.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self.tree.can_write(self.top.node)
    }

    /// log2 of the sector size; 0 for holes.
    #[must_use]
    pub fn ashift(self) -> u32 {
        self.top.ashift
    }

    /// Bytes that can be allocated, parity included; 0 when the configuration does not say.
    #[must_use]
    pub fn asize(self) -> u64 {
        self.top.asize
    }
}
