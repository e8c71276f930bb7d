//! What a pool that was found is worth: opened as far as its datasets, and judged; and its import.

mod denied;
mod operation;
mod rewind;
mod rules;
#[cfg(test)]
mod tests;
mod tree;

pub use denied::denied_devices;
pub use operation::{Import, ImportPlan, ImportedPool};
pub use rewind::{Rewind, RewindReach};
pub use tree::{ImportReason, ImportTop, ImportTree, ImportVdev};

use ondisk::config::{VdevConfig, VdevKind};
use ondisk::features;
use pool::Obstacle;
use pool::live::{LogDevices, obstacles};
use pool::{Absence, Candidate, CandidateLeaf, CandidateState, Error, MissingDevice};
use pool::{OpenOptions, Pool, Salvage, UnknownFeature};
use rt::Rt;
use std::path::PathBuf;
use vdev::{NodeRef, Reason, VdevState, VdevTree};

/// What could be found out about a candidate.
///
/// ```
/// use engine::pools::{self, ImportIssue, ImportVerdict};
/// use engine::{Candidate, NewPool, OpenOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let [a, b] = ["a.img", "b.img"].map(|name| folder.path().join(name));
/// NewPool::new("tank").mirror(&[&a, &b], 64 << 20)?.create()?.export()?;
/// std::fs::remove_file(&b).unwrap();
/// let options = OpenOptions::in_places([folder.path()]);
/// for candidate in Candidate::group(&pools::scan(&options.search)?) {
///     let verdict = ImportVerdict::of(&candidate, &options, 0);
///     assert!(matches!(verdict.trouble, ImportIssue::Missing));
///     assert_eq!((verdict.state.to_string().as_str(), verdict.devices.len()), ("DEGRADED", 1));
/// }
/// # Ok::<(), engine::Error>(())
/// ```
pub struct ImportVerdict<'c> {
    /// The pool that was found.
    pub candidate: &'c Candidate,
    /// The state that it would be opened in.
    pub state: VdevState,
    /// What is wrong.
    pub trouble: ImportIssue,
    /// Its vdevs.
    pub tree: ImportTree,
    /// Devices that are missing or behind.
    pub devices: Vec<DeviceNote>,
    /// What stands in the way of writing to it, when it can be opened.
    pub obstacles: Vec<Obstacle>,
    /// What could not be read of a pool that opens all the same.
    pub salvage: Vec<Salvage>,
    /// Why the pool cannot be opened, where `devices` does not say so.
    pub cause: Option<crate::Error>,
}

/// What is wrong with a pool, in the order in which it is looked for.
#[derive(Clone, Debug)]
pub enum ImportIssue {
    /// Nothing.
    None,
    /// Another host has it, or had it when it went down.
    OtherHost,
    /// Its version is newer than what is known here.
    NewerVersion,
    /// It uses features that are not known here.
    UnknownFeatures(Vec<UnknownFeature>),
    /// Of a top-level vdev nothing is known.
    MissingTop,
    /// Devices are marked as faulted.
    Faulted,
    /// Devices cannot be opened.
    Missing,
    /// Log devices are missing.
    MissingLog,
    /// Sides of a mirror were each written without the other.
    Diverged,
    /// Devices have labels that are not the pool's.
    CorruptLabel,
    /// Devices lack what was written while they were away.
    Behind,
    /// What describes the pool cannot be read.
    CorruptPool,
    /// Devices were taken out of use.
    Offline,
    /// Devices were pulled out.
    Removed,
    /// Its version is from before features.
    OlderVersion,
    /// Features are not enabled.
    FeaturesDisabled,
}

/// A device that is missing or behind.
#[derive(Clone, Debug)]
pub enum DeviceNote {
    /// It is not there, or cannot be used; without path and guid: all of the top-level vdev.
    Absent {
        /// Its guid; 0 when it is not known.
        guid: u64,
        /// The top-level vdev it is part of: its name, or else its number.
        top: Result<String, u64>,
        /// Where it was.
        path: Option<String>,
        /// In which way.
        absence: Absence,
    },
    /// Its labels are older than those of the others.
    Behind {
        /// Where it is.
        path: PathBuf,
        /// The txg of its labels.
        txg: u64,
        /// The txg of the newest.
        newest: u64,
    },
}

impl<'c> ImportVerdict<'c> {
    /// Opens the candidate and says what came of it. `hostid` is this host's; 0 when it has none.
    #[must_use]
    pub fn of(candidate: &'c Candidate, options: &OpenOptions, hostid: u64) -> Self {
        match Pool::open_candidate(candidate, options) {
            Ok(pool) => Self::opened(candidate, &pool, hostid),
            Err(e) => Self::refused(candidate, &options.rt, e),
        }
    }

    fn opened(candidate: &'c Candidate, pool: &Pool, hostid: u64) -> Self {
        let vdevs = pool.vdevs();
        let config = &pool.config().vdev_tree;
        let mut tree = ImportTree::new(candidate, config, &vdevs);
        tree.add_classes(pool);
        let name = |v: &VdevConfig| aux_name(candidate, config, v);
        tree.spares = pool.spares().iter().map(name).collect();
        tree.cache = pool.l2cache().iter().map(name).collect();
        let missing = candidate.missing(config, pool.uberblock().txg);
        // What cannot be read for damage is found by the import.
        let obstacles = obstacles(pool, LogDevices::Needed).unwrap_or_default();
        Self {
            candidate,
            state: vdevs.root().state(),
            trouble: issue_of_open(candidate, pool, &obstacles, hostid),
            obstacles,
            tree,
            devices: notes(candidate, config, &vdevs, &missing),
            salvage: pool.salvage().to_vec(),
            cause: None,
        }
    }

    fn refused(candidate: &'c Candidate, rt: &Rt, error: Error) -> Self {
        let behind = candidate.behind(&candidate.tree, u64::MAX);
        let mut leaf = |c: &VdevConfig| candidate.leaf_for(c, &behind);
        let vdevs = VdevTree::build(rt, &candidate.tree, &mut leaf).ok();
        let mut tree = match &vdevs {
            Some(vdevs) => ImportTree::new(candidate, &candidate.tree, vdevs),
            None => ImportTree::bare(candidate),
        };
        let mut missing = Vec::new();
        let (state, reason, trouble) = match &error {
            Error::NewerVersion { .. } => {
                (VdevState::Unavail, ImportReason::NewerVersion, ImportIssue::NewerVersion)
            }
            Error::UnknownFeatures { features, .. } => {
                let trouble = ImportIssue::UnknownFeatures(features.clone());
                (VdevState::Unavail, ImportReason::UnknownFeatures, trouble)
            }
            Error::MissingDevices { missing: devices, .. } => {
                missing.clone_from(devices);
                let (reason, trouble) = match tree.unknown_tops {
                    0 => (ImportReason::Vdev(Reason::NoReplicas), ImportIssue::Missing),
                    _ => (ImportReason::MissingTop, ImportIssue::MissingTop),
                };
                (VdevState::Unavail, reason, trouble)
            }
            _ => (VdevState::Faulted, ImportReason::CorruptPool, ImportIssue::CorruptPool),
        };
        tree.refuse(state, reason);
        let devices = vdevs.map(|vdevs| notes(candidate, &candidate.tree, &vdevs, &missing));
        // Missing devices are listed one by one.
        let is_listed = matches!(error, Error::MissingDevices { .. });
        Self {
            candidate,
            state,
            trouble,
            tree,
            devices: devices.unwrap_or_default(),
            obstacles: Vec::new(),
            salvage: Vec::new(),
            cause: (!is_listed).then(|| error.into()),
        }
    }

    /// It cannot be opened as it is.
    #[must_use]
    pub fn is_unusable(&self) -> bool {
        !self.state.is_readable()
    }
}

/// What is wrong with a pool that could be opened.
fn issue_of_open(
    candidate: &Candidate,
    pool: &Pool,
    obstacles: &[Obstacle],
    hostid: u64,
) -> ImportIssue {
    // An import that is forced does not get past these.
    for obstacle in obstacles {
        match obstacle {
            Obstacle::Diverged { .. } => return ImportIssue::Diverged,
            Obstacle::LogDevice { .. } => return ImportIssue::MissingLog,
            _ => {}
        }
    }
    let config = &candidate.config;
    let host = config.hostid.filter(|h| *h != 0 && *h != hostid);
    let is_foreign = candidate.state() == CandidateState::Active && host.is_some();
    if is_foreign || candidate.used_elsewhere().is_some() {
        return ImportIssue::OtherHost;
    }
    let tree = pool.vdevs();
    let leaves: Vec<NodeRef<'_>> = tree.leaves().collect();
    let any = |state| leaves.iter().any(|l| l.state() == state);
    let unavailable = |reason: fn(Reason) -> bool| {
        leaves.iter().any(|l| l.state() == VdevState::Unavail && reason(l.reason()))
    };
    match () {
        () if any(VdevState::Faulted) => ImportIssue::Faulted,
        () if unavailable(|r| r == Reason::CannotOpen) => ImportIssue::Missing,
        () if unavailable(|r| !matches!(r, Reason::Behind(_))) => ImportIssue::CorruptLabel,
        () if unavailable(|_| true) => ImportIssue::Behind,
        () if any(VdevState::Offline) => ImportIssue::Offline,
        () if any(VdevState::Removed) => ImportIssue::Removed,
        // Which features there are is among what could not be read, perhaps.
        () if !pool.salvage().is_empty() => ImportIssue::CorruptPool,
        () if pool.config().version < features::VERSION_FEATURES => ImportIssue::OlderVersion,
        () if pool.lacks_features() => ImportIssue::FeaturesDisabled,
        () => ImportIssue::None,
    }
}

/// Name of a spare or a cache device: where it was found, else where it was.
fn aux_name(candidate: &Candidate, tree: &VdevConfig, device: &VdevConfig) -> String {
    if let VdevKind::DraidSpare { top_guid, spare_id } = device.kind {
        let top = tree.children.iter().find(|t| t.guid == top_guid);
        if let Some((VdevKind::Draid { nparity, .. }, id)) = top.map(|t| (&t.kind, t.id)) {
            return format!("draid{nparity}-{id}-{spare_id}");
        }
    }
    let found = candidate.aux.get(&device.guid).map(|s| s.path.display().to_string());
    found.or_else(|| device.path.clone()).unwrap_or_else(|| device.guid.to_string())
}

/// Devices that are missing or behind.
fn notes(
    candidate: &Candidate,
    config: &VdevConfig,
    tree: &VdevTree,
    missing: &[MissingDevice],
) -> Vec<DeviceNote> {
    let top_name = |id: u64| {
        let top = u32::try_from(id).ok().and_then(|id| tree.top(id)).map(|t| t.node());
        let known = top.filter(|n| n.kind() != "missing");
        known.map(|n| n.name().to_owned()).ok_or(id)
    };
    let absent = missing.iter().map(|m| DeviceNote::Absent {
        guid: m.guid,
        top: top_name(m.top),
        path: m.path.clone(),
        absence: m.absence,
    });
    let mut out: Vec<DeviceNote> = absent.collect();
    for top in &config.children {
        // The labels of one top-level vdev are always written together.
        let seen: Vec<_> = top.walk().filter_map(|v| candidate.leaves.get(&v.guid)).collect();
        let newest = seen.iter().map(|s| s.txg).max().unwrap_or(0);
        let is_missing = |s: &&&CandidateLeaf| {
            let is_it =
                |m: &MissingDevice| candidate.leaves.get(&m.guid).is_some_and(|l| l.path == s.path);
            missing.iter().any(is_it)
        };
        let behind = seen.iter().filter(|s| s.txg < newest && !is_missing(s));
        out.extend(behind.map(|s| DeviceNote::Behind { path: s.path.clone(), txg: s.txg, newest }));
    }
    out
}
