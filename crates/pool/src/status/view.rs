//! The vdevs of a pool as reports show them.

use crate::leaf_work::{LeafProgress, LeafWork};
use crate::not_used::Refused;
use crate::open::Pool;
use crate::space::{PoolSpace, class_of};
use device::{Displacement, StoreUsage};
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::scan::{Function, RebuildState, ScanState, State};
use ondisk::spelling::in_line;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vdev::{NodeRef, Reason, VdevState, VdevTree};
use zio::SpaceClass;

/// Bytes of a device that are no use for data: two labels and the boot area in front, two labels
/// behind.
const OVERHEAD: u64 = (4 << 20) + (512 << 10);
/// Device sizes are rounded down to whole labels.
const LABEL: u64 = 256 << 10;

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The top-level vdevs of a class. Those of the normal one have no heading.
    Tops(SpaceClass),
    /// Cache devices.
    Cache,
    /// Spares.
    Spares,
}

impl Section {
    /// All, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Tops(SpaceClass::Normal),
        Self::Tops(SpaceClass::Dedup),
        Self::Tops(SpaceClass::Special),
        Self::Tops(SpaceClass::Log),
        Self::Cache,
        Self::Spares,
    ];

    /// Its place in [`Self::ALL`].
    fn place(self) -> usize {
        match self {
            Self::Tops(SpaceClass::Normal) => 0,
            Self::Tops(SpaceClass::Dedup) => 1,
            Self::Tops(SpaceClass::Special) => 2,
            Self::Tops(SpaceClass::Log) => 3,
            Self::Cache => 4,
            Self::Spares => 5,
        }
    }
}

/// The state of a vdev, or the use of a spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewState {
    /// Of a vdev in use, and of what cannot be opened.
    Vdev(VdevState),
    /// A spare that waits.
    Available,
    /// A spare that replaces a device.
    InUse,
}

impl ViewState {
    /// Nothing is the matter with it.
    #[must_use]
    pub fn is_fine(self) -> bool {
        matches!(self, Self::Vdev(VdevState::Online) | Self::Available | Self::InUse)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vdev(state) => state.name(),
            Self::Available => "AVAIL",
            Self::InUse => "INUSE",
        }
    }
}

/// A remark on a vdev, in addition to its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Why it is in its state.
    Reason(Reason),
    /// Its device is not where it was opened.
    Displaced(Displacement),
    /// There is no device; it was at this path, which is spelled in one line.
    Was(String),
    /// It is being removed from the pool.
    Removing,
    /// Nothing is allocated on it any more.
    NonAllocating,
    /// A resilver brings it what it lacks.
    Resilvering,
    /// It lacks something, and no resilver runs, or only one that others are brought first.
    AwaitingResilver,
    /// A spare that is in use in this pool.
    InUse,
    /// A spare that is in use in the pool of this name.
    InUseBy(String),
}

impl Remark {
    fn of(reason: Reason) -> Option<Self> {
        (reason != Reason::None).then_some(Self::Reason(reason))
    }
}

/// How far the work on the free space of a device is.
#[derive(Clone, Copy, Debug)]
pub struct WorkProgress {
    /// Which.
    pub work: LeafWork,
    /// How far.
    pub progress: LeafProgress,
    /// Bytes of the device that are for data.
    pub size: u64,
}

/// A vdev in a report.
#[derive(Clone, Debug)]
pub struct VdevView {
    /// Path of a device, or a name such as `raidz1-0`.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// Its kind.
    pub kind: VdevKind,
    /// Where the device is, or was.
    pub path: Option<String>,
    /// The same by its place in the machine, as other systems have written it down.
    pub phys_path: Option<String>,
    /// What the device is, likewise.
    pub devid: Option<String>,
    /// A disk that was given whole: its name is shown without the partition that was made.
    pub whole_disk: bool,
    /// Its state.
    pub state: ViewState,
    /// A remark in addition to its state.
    pub remark: Option<Remark>,
    /// The device found in its place that is not used.
    pub refused: Option<Refused>,
    /// Work on its free space, if requested ([`Pool::add_work_progress`]).
    pub works: Vec<WorkProgress>,
    /// Failed reads.
    pub read_errors: u64,
    /// Failed writes.
    pub write_errors: u64,
    /// Blocks that failed verification.
    pub checksum_errors: u64,
    /// Requests to the device that took longer than `zio_slow_io_ms`.
    pub slow_requests: u64,
    /// It is slow, and reads go to others.
    pub sits_out: bool,
    /// Requests to the object store that the device is kept in.
    pub store: Option<StoreUsage>,
    /// A vdev right below the pool: space and more are known of those only.
    pub is_top: bool,
    /// Size of the device in bytes, of other vdevs the raw space; 0: not known.
    pub size: u64,
    /// Raw space, allocated, and kept for the checkpoint; zeros where `is_top` is false.
    pub space: [u64; 3],
    /// Raw space without the share of parity.
    pub deflated: u64,
    /// Bytes it could grow by.
    pub expand_size: u64,
    /// Fragmentation in percent.
    pub fragmentation: Option<u64>,
    /// The vdevs below, none of spares.
    pub children: Vec<VdevView>,
}

impl VdevView {
    /// Leaves of a vdev what is not healthy; whether it is that itself, or has something left.
    // Depth is bounded: the configuration's decoder limits it.
    pub fn keep_sick(&mut self) -> bool {
        self.children.retain_mut(Self::keep_sick);
        // A spare is followed by the pool that uses it.
        let has_remark = self.remark.is_some() && self.state != ViewState::InUse;
        !self.state.is_fine()
            || has_remark
            || self.read_errors + self.write_errors + self.checksum_errors > 0
            || !self.children.is_empty()
    }

    /// It and all below, parents first.
    pub fn walk(&self) -> Vec<&Self> {
        let mut out = Vec::new();
        let mut stack = vec![self];
        while let Some(v) = stack.pop() {
            out.push(v);
            stack.extend(v.children.iter().rev());
        }
        out
    }
}

/// All vdevs of a pool, by section.
#[derive(Clone, Debug, Default)]
pub struct VdevTreeView {
    /// Vdevs of [`Section::ALL`], in that order.
    pub sections: [Vec<VdevView>; 6],
}

impl VdevTreeView {
    /// The vdevs of a section.
    #[must_use]
    pub fn section(&self, section: Section) -> &[VdevView] {
        &self.sections[section.place()]
    }

    /// The vdevs of a section, to be changed.
    pub fn section_mut(&mut self, section: Section) -> &mut Vec<VdevView> {
        &mut self.sections[section.place()]
    }

    /// All vdevs.
    pub fn walk(&self) -> impl Iterator<Item = &VdevView> {
        self.sections.iter().flatten().flat_map(VdevView::walk)
    }

    /// Widest name with its indentation: two columns per level below the pool.
    #[must_use]
    pub fn name_width(&self, pool: &str) -> usize {
        fn widest(vdevs: &[VdevView], indent: usize) -> usize {
            let own = |v: &VdevView| {
                let name = v.name.chars().count() + indent;
                name.max(widest(&v.children, indent + 2))
            };
            vdevs.iter().map(own).max().unwrap_or(0)
        }
        let below = self.sections.iter().map(|s| widest(s, 2)).max().unwrap_or(0);
        below.max(pool.chars().count()).max(10)
    }
}

impl VdevTreeView {
    /// The vdevs of a pool that is not open: `config` is what is known of them, `tree` what came
    /// of their devices.
    pub(super) fn of_closed(config: &VdevConfig, tree: Option<&VdevTree>) -> Self {
        let nodes = tree.into_iter().flat_map(VdevTree::walk);
        let nodes: HashMap<u64, NodeRef<'_>> = nodes.map(|n| (n.guid(), n)).collect();
        let mut out = Self::default();
        for top in config.children.iter().filter(|top| top.kind != VdevKind::Hole) {
            out.section_mut(Section::Tops(class_of(top))).push(view_of(top, &nodes));
        }
        out
    }
}

/// The members of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Members<'m> {
    pub(crate) root: &'m VdevConfig,
    pub(crate) spares: &'m [VdevConfig],
    pub(crate) l2cache: &'m [VdevConfig],
}

impl Pool {
    /// Its members when this was made.
    pub(crate) fn members(&self) -> Members<'_> {
        let root = &self.config().vdev_tree;
        Members { root, spares: self.spares(), l2cache: self.l2cache() }
    }

    /// The vdevs as reports show them.
    #[must_use]
    pub fn vdev_view(&self, space: &PoolSpace) -> VdevTreeView {
        self.vdev_view_of(self.members(), space)
    }

    /// The same of what the pool consists of by now.
    pub(crate) fn vdev_view_of(&self, members: Members<'_>, space: &PoolSpace) -> VdevTreeView {
        let tree = self.vdevs();
        let nodes: HashMap<u64, NodeRef<'_>> = tree.walk().map(|n| (n.guid(), n)).collect();
        let mut out = VdevTreeView::default();
        for top in &members.root.children {
            if top.kind == VdevKind::Hole {
                continue;
            }
            let section = Section::Tops(class_of(top));
            // Guids of missing vdevs are 0, so the tree's own order has to do for them.
            let mut view = view_of(top, &nodes);
            view.is_top = true;
            if view.remark.is_none() && top.kind != VdevKind::Indirect {
                view.remark = match (top.removing, top.non_allocating) {
                    (true, _) => Some(Remark::Removing),
                    (_, true) => Some(Remark::NonAllocating),
                    _ => None,
                };
            }
            if let Some(t) = space.tops.iter().find(|t| t.id == top.id) {
                view.space = [t.size(), t.allocated(), t.checkpoint];
                view.deflated = self.deflated(top.id, t.size());
                if view.size == 0 {
                    view.size = t.size();
                }
                view.fragmentation = t.fragmentation();
                let room = max_asize(top, &nodes).saturating_sub(top.asize.unwrap_or(u64::MAX));
                view.expand_size = room >> t.metaslab_shift << t.metaslab_shift;
            }
            if view.kind == VdevKind::Indirect {
                view.fragmentation = None;
                view.is_top = false;
            }
            out.section_mut(section).push(view);
        }
        self.mark_lacking(&mut out, &nodes);
        for section in &mut out.sections {
            section.iter_mut().for_each(|vdev| mark_refused(vdev, &self.refused));
        }
        let aux = |config: &VdevConfig| self.aux_view(config, &nodes);
        *out.section_mut(Section::Cache) = members.l2cache.iter().map(aux).collect();
        *out.section_mut(Section::Spares) = members.spares.iter().map(aux).collect();
        for cache in out.section_mut(Section::Cache) {
            // Its contents are known only to the system that uses it.
            cache.is_top = true;
            cache.space = [cache.size.saturating_sub(OVERHEAD), 0, 0];
            cache.deflated = cache.space[0];
            cache.fragmentation = Some(0);
        }
        for spare in out.section_mut(Section::Spares) {
            let in_use = nodes.contains_key(&spare.guid);
            if spare.state != ViewState::Vdev(VdevState::Online) {
                continue;
            }
            (spare.state, spare.remark) = match in_use {
                true => (ViewState::InUse, Some(Remark::InUse)),
                false => (ViewState::Available, spare.remark.take()),
            };
        }
        out
    }

    /// Says of devices in use that they have not all that they should, and whether it is being
    /// brought to them.
    fn mark_lacking(&self, view: &mut VdevTreeView, nodes: &HashMap<u64, NodeRef<'_>>) {
        // The data that the txg which stopped a pool did not write is lost, and no device waits for
        // it.
        if self.suspended().is_some() {
            return;
        }
        let is_resilvered = self.is_resilvered();
        let waiting = self.config().vdev_tree.walk().filter(|v| v.resilver_deferred);
        let waiting: BTreeSet<u64> = waiting.map(|v| v.guid).collect();
        let rebuilt: BTreeSet<u64> = self.rebuilt_now().collect();
        let is_brought =
            |guid: u64| rebuilt.contains(&guid) || is_resilvered && !waiting.contains(&guid);
        let remark = |guid: u64| match is_brought(guid) {
            true => Remark::Resilvering,
            false => Remark::AwaitingResilver,
        };
        for section in &mut view.sections {
            section.iter_mut().for_each(|vdev| mark_lacking(vdev, nodes, &remark));
        }
    }

    /// A resilver or rebuild runs; not one that was broken off when the pool was closed.
    pub(super) fn is_resilvering(&self) -> bool {
        self.is_resilvered() || self.rebuilt_now().next().is_some()
    }

    /// A resilver runs that follows pointers.
    fn is_resilvered(&self) -> bool {
        let scan = self.scan_state().ok().flatten();
        let is_one =
            |s: ScanState| s.function() == Function::Resilver && s.state() == State::Active;
        scan.is_some_and(is_one) && !self.is_scan_left()
    }

    /// The guids of top-level vdevs that are rebuilt now, and of all below.
    fn rebuilt_now(&self) -> impl Iterator<Item = u64> {
        let states = match self.scans.is_rebuilding {
            true => self.rebuild_states().unwrap_or_default(),
            false => Vec::new(),
        };
        let is_active = |(_, s): &(u64, RebuildState)| s.state() == State::Active;
        let active: BTreeSet<u64> =
            states.into_iter().filter(is_active).map(|(id, _)| id).collect();
        let tops = self.config().vdev_tree.children.iter();
        let rebuilt = tops.filter(move |top| active.contains(&top.id));
        rebuilt.flat_map(|top| top.walk()).map(|v| v.guid)
    }

    /// Raw space of a top-level vdev without the share of parity.
    fn deflated(&self, id: u64, raw: u64) -> u64 {
        u32::try_from(id).map_or(raw, |id| self.deflate_ratio(id).deflate(raw))
    }

    /// Bytes all top-level vdevs together could grow by.
    pub(crate) fn expand_size(&self, space: &PoolSpace) -> u64 {
        let view = self.vdev_view(space);
        let tops = view.section(Section::Tops(SpaceClass::Normal)).iter();
        tops.map(|v| v.expand_size).fold(0, u64::saturating_add)
    }

    /// A spare or cache device: it is in no tree, only found by its label.
    fn aux_view(&self, config: &VdevConfig, nodes: &HashMap<u64, NodeRef<'_>>) -> VdevView {
        let mut view = view_of(config, nodes);
        let found = self.candidate().aux.get(&config.guid).and_then(|seen| seen.device.as_ref());
        let known = self.aux_sizes.lock().get(&config.guid).copied();
        let seen = found.map(|device| device.size()).or(known);
        if let Some(size) = seen {
            view.size = size / LABEL * LABEL;
        }
        if let VdevKind::DraidSpare { top_guid, .. } = config.kind {
            let draid = nodes.get(&top_guid);
            let sizes = draid.iter().flat_map(|d| d.children()).filter_map(device_size);
            view.size = sizes.min().unwrap_or(0);
        }
        // Its label is the other pool's by now.
        if let Some(pool) = self.candidate().lent.get(&config.guid).filter(|_| seen.is_none()) {
            view.name = printed_name(config, false);
            (view.state, view.remark) = (ViewState::InUse, Some(Remark::InUseBy(pool.clone())));
            return view;
        }
        let there = seen.is_some() || view.size != 0;
        let (state, reason) = match there {
            // A cache device may have been taken out.
            _ if config.faulted => (VdevState::Faulted, Reason::External),
            _ if config.offline => (VdevState::Offline, Reason::None),
            true => (VdevState::Online, Reason::None),
            false => (VdevState::Unavail, Reason::CannotOpen),
        };
        view.name = printed_name(config, is_absent(config, state, reason));
        view.remark = Remark::of(reason);
        view.state = ViewState::Vdev(state);
        view
    }
}

// Depth is bounded: the configuration's decoder limits it.
fn mark_lacking(
    vdev: &mut VdevView,
    nodes: &HashMap<u64, NodeRef<'_>>,
    remark: &dyn Fn(u64) -> Remark,
) {
    let lacks = nodes.get(&vdev.guid).is_some_and(|n| has_missed_txgs(*n));
    if lacks && vdev.children.is_empty() && vdev.remark.is_none() {
        vdev.remark = Some(remark(vdev.guid));
    }
    vdev.children.iter_mut().for_each(|child| mark_lacking(child, nodes, remark));
}

// Depth is bounded: the configuration's decoder limits it.
fn mark_refused(vdev: &mut VdevView, refused: &BTreeMap<u64, Refused>) {
    if vdev.children.is_empty() {
        vdev.refused = refused.get(&vdev.guid).cloned();
    }
    vdev.children.iter_mut().for_each(|child| mark_refused(child, refused));
}

/// It is in use, and has not all that was written while it was not.
pub(super) fn has_missed_txgs(node: NodeRef<'_>) -> bool {
    node.state().is_readable() && !node.missed().is_empty()
}

// Depth is bounded: the configuration's decoder limits it.
fn view_of(config: &VdevConfig, nodes: &HashMap<u64, NodeRef<'_>>) -> VdevView {
    let node = nodes.get(&config.guid);
    let state = node.map_or(VdevState::Unavail, |n| n.state());
    let reason = node.map_or(Reason::CannotOpen, |n| n.reason());
    let removed = matches!(config.kind, VdevKind::Indirect | VdevKind::Hole);
    let mut remark = if removed { None } else { Remark::of(reason) };
    if let Some(what) = node.and_then(|n| n.displaced()) {
        remark = Some(Remark::Displaced(what));
    }
    if let (true, Some(path)) = (is_absent(config, state, reason), &config.path) {
        remark = Some(Remark::Was(in_line(path)));
    }
    VdevView {
        name: printed_name(config, is_absent(config, state, reason)),
        guid: config.guid,
        kind: config.kind.clone(),
        path: config.path.clone(),
        phys_path: config.phys_path.clone(),
        devid: config.devid.clone(),
        whole_disk: config.whole_disk == Some(true),
        state: ViewState::Vdev(if removed { VdevState::Online } else { state }),
        remark,
        refused: None,
        works: Vec::new(),
        read_errors: node.map_or(0, |n| n.read_errors()),
        write_errors: node.map_or(0, |n| n.write_errors()),
        checksum_errors: node.map_or(0, |n| n.checksum_errors()),
        slow_requests: node.map_or(0, |n| n.slow_requests()),
        sits_out: node.is_some_and(|n| n.sits_out()),
        store: node.and_then(|n| n.device()?.stats().store),
        is_top: false,
        size: node.and_then(|n| device_size(*n)).unwrap_or(0),
        space: [0; 3],
        deflated: 0,
        expand_size: 0,
        fragmentation: None,
        // A removed vdev names none, a spare of dRAID has none.
        children: config.children.iter().map(|c| view_of(c, nodes)).collect(),
    }
}

/// There is no device: its guid names it, and where it was comes behind, as after an import.
fn is_absent(config: &VdevConfig, state: VdevState, reason: Reason) -> bool {
    let is_device = config.kind.has_device();
    // A device that is there and of no use has another reason.
    is_device && state == VdevState::Unavail && reason == Reason::CannotOpen
}

/// The name `zpool status -P` prints.
fn printed_name(config: &VdevConfig, absent: bool) -> String {
    match &config.kind {
        VdevKind::Disk | VdevKind::File | VdevKind::DraidSpare { .. } => match &config.path {
            Some(path) if !absent => in_line(path),
            _ => config.guid.to_string(),
        },
        // A vdev that no label describes has no guid either.
        VdevKind::Missing if config.guid != 0 => config.guid.to_string(),
        _ => format!("{}-{}", config.kind_name(), config.id),
    }
}

fn device_size(node: NodeRef<'_>) -> Option<u64> {
    node.device().map(|d| d.size() / LABEL * LABEL)
}

/// Bytes the vdev could allocate on its devices as they are now; 0: not known.
fn max_asize(config: &VdevConfig, nodes: &HashMap<u64, NodeRef<'_>>) -> u64 {
    let size = |guid| Some(nodes.get(&guid)?.device()?.size_now());
    vdev::asize_max(config, &size).unwrap_or(0)
}
