//! What is known of an open pool beside its status: for those that show it.

use pool::{CandidateState, Pool, ReadRepairs, Repaired, Salvage};
use std::collections::BTreeMap;
use vdev::ErrorCounts;

/// A device that has lost its end.
#[derive(Debug)]
pub struct ShortDevice {
    /// Its name.
    pub name: String,
    /// Bytes that it has.
    pub size: u64,
    /// Bytes that it must have.
    pub size_min: u64,
}

/// What is known of an open pool.
///
/// ```
/// use engine::pools::{CandidateState, PoolFacts};
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let facts = PoolFacts::of(pool.view());
/// assert_eq!((facts.name.as_str(), facts.health.as_str()), ("tank", "ONLINE"));
/// assert_eq!(facts.label_state, CandidateState::Active);
/// assert!(facts.salvage.is_empty() && facts.short.is_empty() && facts.faults == 0);
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Debug)]
pub struct PoolFacts {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// Its state, in OpenZFS's word.
    pub health: String,
    /// The txg that is shown.
    pub txg: u64,
    /// The version of its format.
    pub version: u64,
    /// The state in its labels.
    pub label_state: CandidateState,
    /// Structures that could not be read while it was opened and were not needed.
    pub salvage: Vec<Salvage>,
    /// Blocks that were read in spite of faults.
    pub faults: u64,
    /// Those of them that are remembered.
    pub repaired: Vec<Repaired>,
    /// What became of blocks of which readers met bad copies, in a pool that is open for writing.
    pub read_repairs: ReadRepairs,
    /// Devices that have lost their end.
    pub short: Vec<ShortDevice>,
}

impl PoolFacts {
    /// The facts of a pool, read now.
    #[must_use]
    pub fn of(pool: &Pool) -> Self {
        let tree = pool.vdevs();
        let short = tree.leaves().filter_map(|leaf| {
            let (size, size_min) = (leaf.device()?.size(), leaf.size_missed()?);
            Some(ShortDevice { name: leaf.name().to_owned(), size, size_min })
        });
        Self {
            name: pool.name().to_owned(),
            guid: pool.guid(),
            health: pool.health(),
            txg: pool.uberblock().txg,
            version: pool.config().version,
            label_state: pool.label_state(),
            salvage: pool.salvage().to_vec(),
            faults: pool.faults().count(),
            repaired: pool.faults().repaired(),
            read_repairs: pool.faults().read_repairs(),
            short: short.collect(),
        }
    }
}

/// The devices that a pool uses and that this user can read only, each with the reason.
#[must_use]
pub fn read_only_devices(pool: &Pool) -> Vec<(String, String)> {
    let tree = pool.vdevs();
    let refused = pool.candidate().refused(&pool.config().vdev_tree);
    let used = tree.leaves().filter(|leaf| leaf.device().is_some());
    let pair = |leaf: vdev::NodeRef<'_>| {
        Some((leaf.name().to_owned(), refused.get(&leaf.guid())?.to_string()))
    };
    used.filter_map(pair).collect()
}

/// The newest txg that the labels name, if an older one was opened because it cannot be.
#[must_use]
pub fn newer_txg(pool: &Pool) -> Option<u64> {
    let newest = pool.candidate().newest_txg()?;
    (newest > pool.uberblock().txg).then_some(newest)
}

/// Whether one of its devices is a rotating disk.
#[must_use]
pub fn has_rotating_disks(pool: &Pool) -> bool {
    pool.vdevs().leaves().filter_map(|leaf| leaf.device()).any(|device| device.is_rotating())
}

/// The errors of its vdevs by their guids, without those that have none.
#[must_use]
pub fn error_counts(pool: &Pool) -> BTreeMap<u64, ErrorCounts> {
    pool.vdevs().error_counts()
}
