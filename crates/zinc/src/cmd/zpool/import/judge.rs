//! What a candidate is worth: opened, looked at, and put into the words of `zpool import`.

use super::shape::Shape;
use engine::config::{VdevConfig, VdevKind};
use engine::errors::PoolError as Error;
use engine::features;
use engine::inside::vdev::{NodeRef, Reason, VdevState, VdevTree};
use engine::pools::{CandidateState, LeafSight, MissingDevice, UnknownFeature};
use engine::{Candidate, OpenOptions, Pool};

/// What could be found out about a candidate.
pub struct Judgement<'c> {
    pub candidate: &'c Candidate,
    /// The word of the state line.
    pub state: String,
    /// What is wrong, in lines as `zpool import` breaks them.
    pub status: Option<String>,
    /// What can be done.
    pub action: String,
    /// Number of the message in OpenZFS's documentation.
    pub message_id: Option<&'static str>,
    pub shape: Shape,
    /// Top-level vdevs of which nothing is known.
    pub unknown_tops: usize,
    /// Devices that are missing or behind.
    pub notes: Vec<String>,
    /// What could not be read of a pool that opens all the same.
    pub salvage: Vec<String>,
    /// Why the pool cannot be opened, in zinc's words.
    pub cause: Option<String>,
}

/// What is wrong, in the order in which it is looked for.
enum Trouble {
    None,
    OtherHost,
    NewerVersion,
    UnknownFeatures(Vec<UnknownFeature>),
    MissingTop,
    Faulted,
    Missing,
    CorruptLabel,
    Behind,
    CorruptPool,
    Offline,
    Removed,
    OlderVersion,
    FeaturesDisabled,
}

const BY_NAME: &str = "The pool can be imported using its name or numeric identifier";

impl<'c> Judgement<'c> {
    /// Opens the candidate and says what came of it.
    pub fn of(candidate: &'c Candidate, options: &OpenOptions) -> Self {
        match Pool::open_candidate(candidate, options) {
            Ok(pool) => Self::opened(candidate, &pool),
            Err(e) => Self::refused(candidate, e),
        }
    }

    fn opened(candidate: &'c Candidate, pool: &Pool) -> Self {
        let tree = pool.vdevs();
        let state = tree.root().state();
        let trouble = trouble_of_open(candidate, pool);
        let mut shape = Shape::new(candidate, &pool.config().vdev_tree, &tree);
        shape.add_classes(pool);
        let name = |v: &VdevConfig| aux_name(candidate, &pool.config().vdev_tree, v);
        shape.spares = pool.spares().iter().map(name).collect();
        shape.cache = pool.l2cache().iter().map(name).collect();
        let config = &pool.config().vdev_tree;
        let notes =
            notes(candidate, config, &tree, &candidate.missing(config, pool.uberblock().txg));
        let salvage = pool.salvage().iter().map(|s| format!("{}: {}", s.what, s.cause));
        let salvage = salvage.collect();
        Self { salvage, ..Self::with(candidate, state.to_string(), &trouble, shape, notes) }
    }

    fn refused(candidate: &'c Candidate, error: Error) -> Self {
        let behind = candidate.behind(&candidate.tree, u64::MAX);
        let mut leaf = |c: &VdevConfig| candidate.leaf_for(c, &behind);
        let tree = VdevTree::build(&engine::Rt::real(), &candidate.tree, &mut leaf).ok();
        let mut shape = match &tree {
            Some(tree) => Shape::new(candidate, &candidate.tree, tree),
            None => Shape::bare(candidate),
        };
        let mut cause = Some(error.to_string());
        let mut missing = Vec::new();
        let (state, reason, trouble) = match error {
            Error::NewerVersion { .. } => ("UNAVAIL", "newer version", Trouble::NewerVersion),
            Error::UnknownFeatures { features, .. } => {
                ("UNAVAIL", "unsupported feature(s)", Trouble::UnknownFeatures(features))
            }
            Error::MissingDevices { missing: devices, .. } => {
                // They are listed one by one.
                (missing, cause) = (devices, None);
                match shape.unknown_tops {
                    0 => ("UNAVAIL", "insufficient replicas", Trouble::Missing),
                    _ => ("UNAVAIL", "missing device", Trouble::MissingTop),
                }
            }
            _ => ("FAULTED", "corrupted data", Trouble::CorruptPool),
        };
        shape.refuse(state, reason);
        let notes = tree.map(|t| notes(candidate, &candidate.tree, &t, &missing));
        let notes = notes.unwrap_or_default();
        Self { cause, ..Self::with(candidate, state.to_owned(), &trouble, shape, notes) }
    }

    fn with(
        candidate: &'c Candidate,
        state: String,
        trouble: &Trouble,
        shape: Shape,
        notes: Vec<String>,
    ) -> Self {
        let unusable = !matches!(state.as_str(), "ONLINE" | "DEGRADED");
        let (status, message_id) = trouble.status(unusable);
        let action = trouble.action(&state);
        let unknown_tops = shape.unknown_tops;
        let (salvage, cause) = (Vec::new(), None);
        Self {
            candidate,
            state,
            status,
            action,
            message_id,
            shape,
            unknown_tops,
            notes,
            salvage,
            cause,
        }
    }
}

/// What is wrong with a pool that could be opened.
fn trouble_of_open(candidate: &Candidate, pool: &Pool) -> Trouble {
    let config = &candidate.config;
    let host = config.hostid.filter(|h| *h != 0 && *h != crate::host::id());
    if candidate.state() == CandidateState::Active && host.is_some() {
        return Trouble::OtherHost;
    }
    let tree = pool.vdevs();
    let leaves: Vec<NodeRef<'_>> = tree.leaves().collect();
    let any = |state| leaves.iter().any(|l| l.state() == state);
    let unavailable = |reason: fn(Reason) -> bool| {
        leaves.iter().any(|l| l.state() == VdevState::Unavail && reason(l.reason()))
    };
    match () {
        () if any(VdevState::Faulted) => Trouble::Faulted,
        () if unavailable(|r| r == Reason::CannotOpen) => Trouble::Missing,
        () if unavailable(|r| !matches!(r, Reason::Behind(_))) => Trouble::CorruptLabel,
        () if unavailable(|_| true) => Trouble::Behind,
        () if any(VdevState::Offline) => Trouble::Offline,
        () if any(VdevState::Removed) => Trouble::Removed,
        () if pool.config().version < features::VERSION_FEATURES => Trouble::OlderVersion,
        () if pool.lacks_features() => Trouble::FeaturesDisabled,
        () => Trouble::None,
    }
}

impl Trouble {
    fn status(&self, unusable: bool) -> (Option<String>, Option<&'static str>) {
        let either = |usable, not| Some(if unusable { not } else { usable });
        let (text, id) = match self {
            Self::None => return (None, None),
            Self::OtherHost => {
                ("The pool was last accessed by another system.", Some("ZFS-8000-EY"))
            }
            Self::NewerVersion => {
                ("The pool is formatted using an incompatible version.", Some("ZFS-8000-A5"))
            }
            Self::UnknownFeatures(features) => {
                let mut text = "The pool uses the following feature(s) not supported on this \
                                system:"
                    .to_owned();
                for f in features {
                    text.push_str("\n\t");
                    text.push_str(&f.guid);
                    if let Some(d) = f.description.as_deref().filter(|d| !d.is_empty()) {
                        text.push_str(&format!(" ({d})"));
                    }
                }
                return (Some(text), Some("ZFS-8000-A5"));
            }
            Self::MissingTop => {
                ("One or more devices are missing from the system.", Some("ZFS-8000-6X"))
            }
            Self::Missing => (
                "One or more devices are missing from the system.",
                either("ZFS-8000-2Q", "ZFS-8000-3C"),
            ),
            Self::Faulted => ("One or more devices are faulted.", None),
            Self::CorruptLabel => (
                "One or more devices contains corrupted data.",
                either("ZFS-8000-4J", "ZFS-8000-5E"),
            ),
            Self::Behind => (
                "One or more devices were away while the pool was written.\n\tAn import brings \
                 those up to date that only stood still meanwhile.",
                None,
            ),
            Self::CorruptPool => ("The pool metadata is corrupted.", Some("ZFS-8000-72")),
            Self::Offline => ("One or more devices are offlined.", None),
            Self::Removed => ("One or more devices were removed.", None),
            Self::OlderVersion => ("The pool is formatted using a legacy on-disk version.", None),
            Self::FeaturesDisabled => (
                "Some supported features are not enabled on the pool.\n\t(Note that they may be \
                 intentionally disabled if the\n\t'compatibility' property is set.)",
                None,
            ),
        };
        (Some(text.to_owned()), id)
    }

    fn action(&self, state: &str) -> String {
        match (state, self) {
            ("ONLINE", Self::OlderVersion | Self::FeaturesDisabled) => format!(
                "{BY_NAME}, though\n\tsome features will not be available without an explicit \
                 'zpool upgrade'."
            ),
            ("ONLINE", Self::OtherHost) => format!("{BY_NAME} and\n\tthe '-f' flag."),
            ("ONLINE", _) => format!("{BY_NAME}."),
            ("DEGRADED", _) => "The pool can be imported despite missing or damaged devices.  \
                                The\n\tfault tolerance of the pool may be compromised if imported."
                .to_owned(),
            (_, Self::NewerVersion) => "The pool cannot be imported.  Access the pool on a system \
                                        running newer\n\tsoftware, or recreate the pool from \
                                        backup."
                .to_owned(),
            (_, Self::UnknownFeatures(_)) => {
                "The pool cannot be imported. Access the pool on a system that supports\n\tthe \
                 required feature(s), or recreate the pool from backup."
                    .to_owned()
            }
            (_, Self::Missing | Self::MissingTop) => {
                "The pool cannot be imported. Attach the missing\n\tdevices and try again."
                    .to_owned()
            }
            _ => "The pool cannot be imported due to damaged devices or data.".to_owned(),
        }
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

/// Devices that are missing or behind, each in a line.
fn notes(
    candidate: &Candidate,
    config: &VdevConfig,
    tree: &VdevTree,
    missing: &[MissingDevice],
) -> Vec<String> {
    let mut out = Vec::new();
    let top_name = |id: u64| {
        let top = u32::try_from(id).ok().and_then(|id| tree.top(id)).map(|t| t.node());
        let known = top.filter(|n| n.kind() != "missing");
        known.map_or_else(|| format!("top-level vdev {id}"), |n| n.name().to_owned())
    };
    for m in missing {
        let of = top_name(m.top);
        let how = m.absence;
        out.push(match (&m.path, m.guid) {
            (Some(path), guid) => format!("{guid} of {of} is {how}, was {path}"),
            (None, 0) => format!("all devices of {of} are {how}"),
            (None, guid) => format!("{guid} of {of} is {how}"),
        });
    }
    for top in &config.children {
        // The labels of one top-level vdev are always written together.
        let seen: Vec<_> = top.walk().filter_map(|v| candidate.leaves.get(&v.guid)).collect();
        let newest = seen.iter().map(|s| s.txg).max().unwrap_or(0);
        let is_told = |s: &&&LeafSight| {
            let is_it =
                |m: &MissingDevice| candidate.leaves.get(&m.guid).is_some_and(|l| l.path == s.path);
            missing.iter().any(is_it)
        };
        for s in seen.iter().filter(|s| s.txg < newest && !is_told(s)) {
            let (path, txg) = (s.path.display(), s.txg);
            out.push(format!("{path} is behind: its labels are of txg {txg}, not {newest}"));
        }
    }
    out
}
