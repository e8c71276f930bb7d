//! The tree of vdevs of a pool that could be imported, with names, states and reasons.

use ondisk::config::{VdevConfig, VdevKind};
use pool::live::SpaceClass;
use pool::{Candidate, Pool, class_of};
use vdev::{NodeRef, Reason, VdevState, VdevTree};

/// A vdev as it was found.
#[derive(Clone, Debug)]
pub struct ImportVdev {
    /// Its guid.
    pub guid: u64,
    /// Its name; a device's is where it was found.
    pub name: String,
    /// The word of its kind.
    pub kind: String,
    /// Its state.
    pub state: VdevState,
    /// What is wrong with it.
    pub reason: ImportReason,
    /// The vdevs that it is made of.
    pub children: Vec<ImportVdev>,
}

/// What is wrong with a vdev, or with the whole pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportReason {
    /// What its devices say.
    Vdev(Reason),
    /// The pool's version is newer than what is known here.
    NewerVersion,
    /// The pool uses features that are not known here.
    UnknownFeatures,
    /// Of a top-level vdev nothing is known.
    MissingTop,
    /// What describes the pool cannot be read.
    CorruptPool,
}

/// A top-level vdev, and what it is for.
#[derive(Clone, Debug)]
pub struct ImportTop {
    /// The vdev.
    pub vdev: ImportVdev,
    /// What its space is for.
    pub class: SpaceClass,
    /// The word for it that the pool stores, where it is none of those that are known: its space is
    /// used as that of all others.
    pub unknown_class: Option<String>,
    id: u64,
}

/// The whole tree.
#[derive(Clone, Debug)]
pub struct ImportTree {
    /// The pool; its children are in `tops`.
    pub root: ImportVdev,
    /// Top-level vdevs of which something is known.
    pub tops: Vec<ImportTop>,
    /// Number of top-level vdevs of which nothing is known.
    pub unknown_tops: usize,
    /// Names of hot spares.
    pub spares: Vec<String>,
    /// Names of cache devices.
    pub cache: Vec<String>,
}

impl ImportTree {
    /// The tree of `config`, with the states of `tree`.
    pub(super) fn new(candidate: &Candidate, config: &VdevConfig, tree: &VdevTree) -> Self {
        let mut out = Self::bare(candidate);
        out.root.state = tree.root().state();
        out.root.reason = ImportReason::Vdev(tree.root().reason());
        for top in &config.children {
            let node = u32::try_from(top.id).ok().and_then(|id| tree.top(id)).map(|t| t.node());
            let (Some(node), false) = (node, top.kind == VdevKind::Hole) else { continue };
            if top.kind == VdevKind::Missing {
                out.unknown_tops += 1;
                continue;
            }
            if top.kind == VdevKind::Indirect {
                continue;
            }
            let (vdev, class) = (shown(candidate, node), class_of(top));
            let unknown_class = unknown_class(top);
            out.tops.push(ImportTop { vdev, class, unknown_class, id: top.id });
        }
        out
    }

    /// Only the pool's name.
    pub(super) fn bare(candidate: &Candidate) -> Self {
        let root = ImportVdev {
            guid: candidate.config.pool_guid,
            name: candidate.name().to_owned(),
            kind: "root".to_owned(),
            state: VdevState::Faulted,
            reason: ImportReason::CorruptPool,
            children: Vec::new(),
        };
        Self { root, tops: Vec::new(), unknown_tops: 0, spares: Vec::new(), cache: Vec::new() }
    }

    /// The pool cannot be opened, whatever its devices say.
    pub(super) fn refuse(&mut self, state: VdevState, reason: ImportReason) {
        self.root.state = state;
        self.root.reason = reason;
    }

    /// Fills in the allocation classes, which are in the pool and not in the labels.
    pub(super) fn add_classes(&mut self, pool: &Pool) {
        let configs = &pool.config().vdev_tree.children;
        for top in &mut self.tops {
            if let Some(config) = configs.iter().find(|config| config.id == top.id) {
                top.class = class_of(config);
                top.unknown_class = unknown_class(config);
            }
        }
    }

    /// Top-level vdevs of this class.
    pub fn in_class(&self, class: SpaceClass) -> impl Iterator<Item = &ImportVdev> {
        let tops = self.tops.iter().filter(move |top| top.class == class);
        tops.map(|top| &top.vdev)
    }
}

fn unknown_class(top: &VdevConfig) -> Option<String> {
    top.alloc_bias.clone().filter(|word| !top.is_log && SpaceClass::from_name(word).is_none())
}

// Depth is bounded: configurations nest at most `MAX_VDEV_DEPTH` deep.
fn shown(candidate: &Candidate, node: NodeRef<'_>) -> ImportVdev {
    let found = candidate.leaves.get(&node.guid()).map(|l| l.path.display().to_string());
    let is_leaf = node.kind() == "leaf";
    ImportVdev {
        guid: node.guid(),
        name: found.filter(|_| is_leaf).unwrap_or_else(|| node.name().to_owned()),
        kind: node.kind().to_owned(),
        state: node.state(),
        reason: ImportReason::Vdev(node.reason()),
        children: node.children().map(|c| shown(candidate, c)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::nvlist::{NvList, NvValue};

    #[test]
    fn a_class_is_unknown_if_its_word_is_and_it_is_no_log() {
        let unknown = |word: &str, is_log: u64| {
            let mut list = NvList::new();
            list.set("type", NvValue::String(b"disk".to_vec()));
            list.set("guid", NvValue::U64(1));
            list.set("is_log", NvValue::U64(is_log));
            list.set("alloc_bias", NvValue::String(word.as_bytes().to_vec()));
            unknown_class(&VdevConfig::decode(&list).expect("a vdev"))
        };
        assert_eq!(unknown("archive", 0).as_deref(), Some("archive"));
        assert_eq!(unknown("special", 0), None);
        assert_eq!(unknown("log", 1), None);
    }
}
