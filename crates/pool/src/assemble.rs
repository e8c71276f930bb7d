//! From labels to pools: which devices belong together, and what is missing.
//!
//! A label describes its own top-level vdev and has the number of all. Of each top-level vdev the
//! label with the highest txg wins: a device that was absent has an outdated view of the pool.

use crate::dtl::DirtyTimeLogs;
use crate::error::{Absence, MissingDevice};
use crate::scan::{FoundLeaf, SEARCHERS};
use crate::stale::{self, MissedWrites};
use crate::uberblocks::{self, FoundUberblock};
use device::DeviceRef;
use ondisk::config::{LabelConfig, PoolConfig, PoolState, VdevConfig, VdevKind};
use ondisk::nvlist::{NvList, NvValue};
use rt::Rt;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vdev::{LeafOpen, Txgs};

/// A device of a pool as it was seen.
#[derive(Clone)]
pub struct CandidateLeaf {
    /// Where.
    pub path: PathBuf,
    /// The device; `None` of a pool that is open for writing, which has those in use itself.
    pub device: Option<DeviceRef>,
    /// Txg of its newest label that counts.
    pub txg: u64,
    /// Txg of its newest label of all: a crash leaves labels of a txg that never was.
    pub newest_label: u64,
}

/// A pool put together from labels.
#[derive(Clone)]
pub struct Candidate {
    /// The newest configuration any label holds.
    pub config: PoolConfig,
    /// All top-level vdevs the labels describe, under a root; unknown ones are `Missing`.
    pub tree: VdevConfig,
    /// Devices found, by guid.
    pub leaves: BTreeMap<u64, CandidateLeaf>,
    /// Spares and cache devices found, by guid: they name no pool, but for spares that were given
    /// back while they were away ([`Self::note_given_back`]).
    pub aux: BTreeMap<u64, CandidateLeaf>,
    /// Names of other pools, active or exported, by the guids of spares that are in use there: a
    /// spare can be one of several pools.
    pub lent: BTreeMap<u64, String>,
    /// Guids of its leaves that are devices of other pools by now: they were split off.
    pub split_off: BTreeSet<u64>,
    /// Uberblocks of all devices.
    pub uberblocks: Vec<FoundUberblock>,
}

/// In which state a candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateState {
    /// Was exported.
    Exported,
    /// In use, or not exported before its host went down.
    Active,
    /// Was destroyed.
    Destroyed,
    /// Anything else.
    Other,
}

impl Candidate {
    /// Groups devices by pool, in order of pool names.
    #[must_use]
    pub fn group(found: &[FoundLeaf]) -> Vec<Self> {
        let mut pools: BTreeMap<u64, Vec<(&FoundLeaf, Vec<FoundUberblock>)>> = BTreeMap::new();
        let mut aux = BTreeMap::new();
        let rings = read_rings(found);
        let settled = settle(found, &rings);
        for (leaf, ring) in settled.iter().map(AsRef::as_ref).zip(rings) {
            match &leaf.config {
                LabelConfig::Member(c) => pools.entry(c.pool_guid).or_default().push((leaf, ring)),
                LabelConfig::Aux(c) => {
                    aux.insert(c.guid, sight(leaf, 0));
                }
            }
        }
        let mut out: Vec<_> =
            pools.into_values().filter_map(|l| Self::assemble(l, aux.clone())).collect();
        out.sort_by(|a, b| a.config.name.cmp(&b.config.name));
        note_lent(&mut out);
        note_split_off(&mut out);
        out
    }

    /// Why its devices may be in use on another machine, whatever their labels say of hosts: a disk
    /// in a store knows its writer. A file here that has the label of an export is what a server
    /// writes to, or a copy of it; of a pool that was exported it is as good as the export.
    #[must_use]
    pub fn used_elsewhere(&self) -> Option<String> {
        let is_active = matches!(self.state(), CandidateState::Active | CandidateState::Other);
        self.leaves.iter().find_map(|(guid, seen)| {
            if let Some(by) = seen.device.as_ref().and_then(|device| device.held_elsewhere()) {
                return Some(format!("{by} has {} open", seen.path.display()));
            }
            let known = self.tree.find(*guid)?.path.as_deref()?;
            let is_behind = far::is_far(Path::new(known)) && !far::is_far(&seen.path);
            (is_active && is_behind).then(|| {
                format!("{} is what the pool has as {known}, or a copy of it", seen.path.display())
            })
        })
    }

    fn assemble(
        found: Vec<(&FoundLeaf, Vec<FoundUberblock>)>,
        aux: BTreeMap<u64, CandidateLeaf>,
    ) -> Option<Self> {
        let rings = found.iter().flat_map(|(_, ring)| ring);
        let reached = rings.map(|u| u.uberblock.txg).max().unwrap_or(u64::MAX);
        let mut best: Option<(Weight, &PoolConfig)> = None;
        let mut tops: BTreeMap<u64, (Weight, &VdevConfig)> = BTreeMap::new();
        let mut best_of: BTreeMap<u64, LeafClaim> = BTreeMap::new();
        for (leaf, uberblocks) in found {
            let LabelConfig::Member(c) = &leaf.config else { continue };
            let weight = Weight::of(c, &uberblocks, reached);
            // Two images with one guid are copies of one device from different times, and those
            // do not mix: the newer one counts, with its uberblocks and nothing of the other's.
            if let Some(guid) = c.guid {
                let new = LeafClaim { sight: sight(leaf, c.txg), uberblocks };
                // Of an export and the file behind it, which are as new, the export counts.
                let is_nearer =
                    |old: &LeafClaim| !far::is_far(&new.sight.path) || far::is_far(&old.sight.path);
                match best_of.get(&guid) {
                    Some(old) if old.age() > new.age() => continue,
                    Some(old) if old.age() == new.age() && is_nearer(old) => continue,
                    _ => best_of.insert(guid, new),
                };
            }
            if best.is_none_or(|(there, _)| weight > there) {
                best = Some((weight, c));
            }
            // A label with txg 0 was never made part of the pool.
            if c.txg != 0 {
                let top = tops.entry(c.vdev_tree.id).or_insert((weight, &c.vdev_tree));
                if weight > top.0 {
                    *top = (weight, &c.vdev_tree);
                }
            }
        }
        let (weight, best) = best?;
        let config = best.clone();
        // A vdev whose addition was cut off is beyond the last vdev of the pool.
        let count = config.vdev_children.unwrap_or(u64::MAX);
        tops.retain(|id, (of, _)| *id < count || *of >= weight);
        let tops = tops.into_iter().map(|(id, (weight, top))| (id, (weight.txg, top))).collect();
        let mut leaves = BTreeMap::new();
        let mut uberblocks = Vec::new();
        for (guid, seen) in best_of {
            leaves.insert(guid, seen.sight);
            uberblocks.extend(seen.uberblocks);
        }
        // A map has no order of its own, and what we print should.
        uberblocks.sort_by_key(|u| (u.leaf, u.label, u.slot));
        let tree = root_of(&config, &tops)?;
        let (lent, split_off) = Default::default();
        Some(Self { config, tree, leaves, aux, lent, split_off, uberblocks })
    }

    /// Lets go of all devices: having been found is not to keep one open that leaves the pool.
    pub(crate) fn close(&mut self) {
        let all = self.leaves.values_mut().chain(self.aux.values_mut());
        all.for_each(|seen| seen.device = None);
    }

    /// Counts those as spares that were given back while they were away: by their labels they are
    /// leaves, and `tree` has none of these.
    pub(crate) fn note_given_back(&mut self, tree: &VdevConfig, spares: &[VdevConfig]) {
        let waiting =
            spares.iter().map(|spare| spare.guid).filter(|guid| tree.find(*guid).is_none());
        for guid in waiting {
            if let Some(seen) = self.leaves.get(&guid) {
                self.aux.entry(guid).or_insert_with(|| seen.clone());
            }
        }
    }

    /// Guids of spares that replace devices of the pool.
    fn borrowed(&self) -> impl Iterator<Item = u64> {
        let is_leaf = |v: &&VdevConfig| v.is_spare && v.children.is_empty();
        self.tree.walk().filter(is_leaf).map(|v| v.guid)
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether it was a pool at any time. Labels without a txg are of devices that were to be added
    /// to a pool, or to become one, when the command was cut off.
    #[must_use]
    pub fn was_written(&self) -> bool {
        self.config.txg != 0
    }

    /// Its state as the newest label says.
    #[must_use]
    pub fn state(&self) -> CandidateState {
        match self.config.state {
            PoolState::Exported => CandidateState::Exported,
            PoolState::Active => CandidateState::Active,
            PoolState::Destroyed => CandidateState::Destroyed,
            _ => CandidateState::Other,
        }
    }

    /// The newest txg of which an uberblock was found.
    #[must_use]
    pub fn newest_txg(&self) -> Option<u64> {
        self.uberblocks.iter().map(|found| found.uberblock.txg).max()
    }

    /// The leaf of a vdev tree to build, for a leaf of `config`; `behind` is the result of
    /// [`Self::behind`] for the tree.
    #[must_use]
    pub fn leaf_for(&self, config: &VdevConfig, behind: &BTreeMap<u64, u64>) -> LeafOpen {
        self.leaf(config, behind, false)
    }

    /// The same, but a device that is present and out of use or outdated is read as the last
    /// choice: its copy of a block counts only if the checksum verifies, and then it may be the
    /// only copy.
    #[must_use]
    pub fn leaf_or_offline(&self, config: &VdevConfig, behind: &BTreeMap<u64, u64>) -> LeafOpen {
        self.leaf(config, behind, true)
    }

    fn leaf(&self, config: &VdevConfig, behind: &BTreeMap<u64, u64>, needed: bool) -> LeafOpen {
        let needed = needed || self.counts_for_its_log(config);
        match (self.device_of(config), behind.get(&config.guid)) {
            (Some(d), _) if needed && is_out_of_use(config) => LeafOpen::Stale(d),
            (Some(device), Some(txgs)) if !is_out_of_use(config) => {
                LeafOpen::Behind { device, txgs: *txgs, needed }
            }
            (device, _) => LeafOpen::by_config(config, device),
        }
    }

    /// A device of a log that was absent, and is back. Its part of an intent log is verified by
    /// checksums, and was acknowledged; what it lacks was acknowledged elsewhere.
    fn counts_for_its_log(&self, leaf: &VdevConfig) -> bool {
        !leaf.offline && !leaf.faulted && is_of_log(&self.tree, leaf.guid)
    }

    fn device_of(&self, config: &VdevConfig) -> Option<DeviceRef> {
        let seen = self.leaves.get(&config.guid).or_else(|| self.aux.get(&config.guid));
        seen.and_then(|s| s.device.clone())
    }

    /// Devices of `tree` that may be read and not be written, by guid.
    #[must_use]
    pub fn refused(&self, tree: &VdevConfig) -> BTreeMap<u64, device::ErrorKind> {
        let used = tree.walk().filter(|v| v.kind.is_leaf() && !is_out_of_use(v));
        let refusal = |v: &VdevConfig| {
            let why = device::may_write(&self.leaves.get(&v.guid)?.path).err()?;
            why.is_refusal().then_some((v.guid, why))
        };
        used.filter_map(refusal).collect()
    }

    /// Devices of `tree` that missed a part of what the state of txg `txg` is made of, by guid, and
    /// how many txgs they are behind.
    #[must_use]
    pub fn behind(&self, tree: &VdevConfig, txg: u64) -> BTreeMap<u64, u64> {
        self.away(tree, txg).into_iter().map(|(guid, away)| (guid, away.txgs)).collect()
    }

    /// The txgs that such devices may have missed, by guid; `logs` are what the pool has written
    /// down of that.
    pub(crate) fn absences(
        &self,
        tree: &VdevConfig,
        txg: u64,
        logs: &DirtyTimeLogs,
    ) -> BTreeMap<u64, Txgs> {
        let away = self.away(tree, txg).into_iter();
        away.map(|(guid, away)| (guid, away.missed(logs.get(&guid)))).collect()
    }

    /// Devices of `tree` that were written without those that hold the state of txg `txg`, and
    /// hold changes which that state lacks, by guid.
    pub(crate) fn diverged(&self, tree: &VdevConfig, txg: u64) -> Vec<u64> {
        let away = self.away(tree, txg).into_iter();
        away.filter_map(|(guid, away)| away.has_changes.then_some(guid)).collect()
    }

    fn away(&self, tree: &VdevConfig, txg: u64) -> BTreeMap<u64, MissedWrites> {
        let label_of = |guid| self.leaves.get(&guid).map(|leaf| leaf.txg);
        stale::away(tree, txg, &self.uberblocks, &label_of)
    }

    /// Leaves of `tree` that were not found, are out of use, or are behind the state of txg `txg`.
    #[must_use]
    pub fn missing(&self, tree: &VdevConfig, txg: u64) -> Vec<MissingDevice> {
        let mut out = Vec::new();
        let behind = self.behind(tree, txg);
        for top in &tree.children {
            if top.kind == VdevKind::Missing {
                let absence = Absence::NotFound;
                out.push(MissingDevice { guid: top.guid, path: None, top: top.id, absence });
                continue;
            }
            let needed = |v: &&VdevConfig| v.kind.has_device();
            for leaf in top.walk().filter(needed) {
                let absence = match self.device_of(leaf) {
                    None => Absence::NotFound,
                    Some(_) if self.counts_for_its_log(leaf) => continue,
                    Some(_) if is_out_of_use(leaf) => Absence::OutOfUse,
                    Some(_) => match behind.get(&leaf.guid) {
                        Some(txgs) => Absence::Behind(*txgs),
                        None => continue,
                    },
                };
                let path = leaf.path.clone();
                out.push(MissingDevice { guid: leaf.guid, path, top: top.id, absence });
            }
        }
        out
    }
}

/// How much a label counts against others of its pool. The label of a device that was about to be
/// added when that was cut off is of a txg that never was, or was another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    /// Some device has an uberblock of its txg or of a later one.
    has_begun: bool,
    txg: u64,
    /// The newest uberblock that is on the device itself.
    newest: u64,
}

impl Weight {
    fn of(config: &PoolConfig, ring: &[FoundUberblock], reached: u64) -> Self {
        let newest = ring.iter().map(|u| u.uberblock.txg).max().unwrap_or(0);
        Self { has_begun: config.txg <= reached, txg: config.txg, newest }
    }
}

/// A device that claims a guid, with what tells its age.
struct LeafClaim {
    sight: CandidateLeaf,
    uberblocks: Vec<FoundUberblock>,
}

impl LeafClaim {
    /// Grows with every txg the device was part of: first its newest uberblock, then its label.
    fn age(&self) -> (u64, u64, u64) {
        let newest = self.uberblocks.iter().map(|u| (u.uberblock.txg, u.uberblock.timestamp)).max();
        let (txg, time) = newest.unwrap_or_default();
        (txg, time, self.sight.txg)
    }
}

/// The uberblocks of every device.
fn read_rings(found: &[FoundLeaf]) -> Vec<Vec<FoundUberblock>> {
    let mut rings: Vec<_> = found.iter().map(|_| Vec::new()).collect();
    let workers = found.len().clamp(1, SEARCHERS);
    let read =
        Rt::current().for_each_parallel(workers, found.iter().zip(&mut rings), |(leaf, ring)| {
            *ring = uberblocks::read_ring(leaf);
            Ok::<(), std::convert::Infallible>(())
        });
    let Ok(()) = read;
    rings
}

/// The devices with the labels that count.
///
/// Labels are written in two rounds around the uberblock of their txg (`vdev::label`), so after a
/// crash in between some are of a txg that never was: one in which the pool got another guid, or
/// was exported or destroyed. The txg counts from its uberblock on, as always, and no uberblock is
/// written before all devices have labels of it. So a label counts if there is one uberblock of its
/// txg or a later one on any device that names its pool; else it is as if it had not been written.
/// The next txg writes over it.
fn settle<'f>(found: &'f [FoundLeaf], rings: &[Vec<FoundUberblock>]) -> Vec<Cow<'f, FoundLeaf>> {
    let mut reached: BTreeMap<u64, u64> = BTreeMap::new();
    for (leaf, ring) in found.iter().zip(rings) {
        let newest = ring.iter().map(|found| found.uberblock.txg).max().unwrap_or(0);
        for config in members(leaf) {
            let of_pool = reached.entry(config.pool_guid).or_default();
            *of_pool = newest.max(*of_pool);
        }
    }
    let has_begun =
        |c: &PoolConfig| reached.get(&c.pool_guid).is_some_and(|newest| c.txg <= *newest);
    let begun = found.iter().flat_map(members).filter(|c| has_begun(c));
    let guids: BTreeSet<u64> = begun.map(|c| c.pool_guid).collect();
    let settled = |leaf: &'f FoundLeaf| {
        let LabelConfig::Member(newest) = &leaf.config else { return Cow::Borrowed(leaf) };
        if has_begun(newest) {
            return Cow::Borrowed(leaf);
        }
        // The labels of a device that was part of another pool before name another device. Those of
        // a guid that the pool had before count only when no device has it from the new one on.
        let is_its_own = |c: &&PoolConfig| {
            let is_of_now = c.pool_guid == newest.pool_guid || !guids.contains(&newest.pool_guid);
            c.guid == newest.guid && is_of_now && has_begun(c)
        };
        let before = members(leaf).filter(is_its_own).max_by_key(|c| c.txg);
        match before {
            Some(before) => {
                let config = LabelConfig::Member(Box::new(before.clone()));
                Cow::Owned(FoundLeaf { config, ..leaf.clone() })
            }
            None => Cow::Borrowed(leaf),
        }
    };
    found.iter().map(settled).collect()
}

/// The configurations in the labels of a device, of pools that it is part of.
fn members(leaf: &FoundLeaf) -> impl Iterator<Item = &PoolConfig> {
    leaf.labels.iter().filter_map(|label| match label.config.as_ref() {
        Ok(LabelConfig::Member(config)) => Some(&**config),
        _ => None,
    })
}

/// Txg of the newest label of a device.
pub(crate) fn newest_label(leaf: &FoundLeaf) -> u64 {
    members(leaf).map(|config| config.txg).max().unwrap_or(0)
}

/// Says of each which of its spares others have in use.
fn note_lent(pools: &mut [Candidate]) {
    let uses = |pool: &&Candidate| {
        matches!(pool.state(), CandidateState::Active | CandidateState::Exported)
    };
    let using = pools.iter().filter(uses);
    let lent: Vec<(u64, u64, String)> = using
        .flat_map(|p| p.borrowed().map(|guid| (guid, p.config.pool_guid, p.config.name.clone())))
        .collect();
    for pool in pools {
        let others = lent.iter().filter(|(_, by, _)| *by != pool.config.pool_guid);
        pool.lent = others.map(|(guid, _, name)| (*guid, name.clone())).collect();
    }
}

/// Says of each which of its leaves are devices of others. A leaf keeps its guid when it becomes
/// part of another pool.
fn note_split_off(pools: &mut [Candidate]) {
    let mut pools_of: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for pool in pools.iter() {
        for guid in pool.leaves.keys() {
            pools_of.entry(*guid).or_default().insert(pool.config.pool_guid);
        }
    }
    for pool in pools {
        let own = pool.config.pool_guid;
        let leaves = pool.tree.walk().filter(|v| v.kind.has_device()).map(|v| v.guid);
        let is_elsewhere =
            |guid: &u64| pools_of.get(guid).is_some_and(|of| of.iter().any(|pool| *pool != own));
        pool.split_off = leaves.filter(is_elsewhere).collect();
    }
}

/// The vdev with this guid is a log, or below one.
pub(crate) fn is_of_log(root: &VdevConfig, guid: u64) -> bool {
    root.children.iter().any(|top| top.is_log && top.find(guid).is_some())
}

/// Offline, faulted or removed by its configuration.
pub(crate) fn is_out_of_use(leaf: &VdevConfig) -> bool {
    leaf.offline || leaf.faulted || leaf.removed
}

fn sight(leaf: &FoundLeaf, txg: u64) -> CandidateLeaf {
    CandidateLeaf {
        path: leaf.path.clone(),
        device: Some(Arc::clone(&leaf.device)),
        txg,
        newest_label: newest_label(leaf),
    }
}

/// Puts the top-level vdevs under a root; places no label describes become holes where the
/// configuration says so, else missing vdevs.
fn root_of(config: &PoolConfig, tops: &BTreeMap<u64, (u64, &VdevConfig)>) -> Option<VdevConfig> {
    /// More top-level vdevs than any pool has; a lying label must not make us build millions.
    const TOPS_MAX: u64 = 65_536;
    // A device of the last vdev, which was removed since, may still have its label.
    let is_gone = |id: u64, txg: u64| {
        txg < config.txg && config.vdev_children.is_some_and(|children| id >= children)
    };
    let highest = tops.iter().rev().find(|(id, (txg, _))| !is_gone(**id, *txg));
    let highest = highest.map_or(0, |(id, _)| id + 1);
    let count = config.vdev_children.unwrap_or(highest).max(highest).min(TOPS_MAX);
    let mut children = Vec::new();
    for id in 0..count {
        let is_hole = config.hole_array.contains(&id);
        children.extend(match tops.get(&id) {
            // A device that was in a vdev removed since may still have its label.
            Some((txg, top)) if !is_hole || *txg >= config.txg => Some((*top).clone()),
            _ if is_hole => placeholder(VdevKind::Hole, id),
            _ => placeholder(VdevKind::Missing, id),
        });
    }
    let root = placeholder(VdevKind::Root, 0)?;
    Some(VdevConfig { guid: config.pool_guid, children, ..root })
}

/// A vdev of which nothing is known but its place.
fn placeholder(kind: VdevKind, id: u64) -> Option<VdevConfig> {
    let mut list = NvList::new();
    list.set("type", NvValue::String(b"missing".to_vec()));
    list.set("id", NvValue::U64(id)).set("guid", NvValue::U64(0));
    VdevConfig::decode(&list).ok().map(|v| VdevConfig { kind, ..v })
}
