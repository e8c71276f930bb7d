//! The space of all datasets, and what it is used for.

use dsl::{DatasetKind, Dir};
use pool::Pool;
use std::sync::Arc;

/// The space of a dataset, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetSpace {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: DatasetKind,
    /// What it and all below it use, reservations included.
    pub used: u64,
    /// What of that would come free with itself alone.
    pub by_itself: u64,
    /// What of it would come free with its snapshots.
    pub by_snapshots: u64,
    /// What it leads to, whatever else leads there.
    pub referenced: u64,
    /// What could still be written to it.
    pub available: u64,
}

/// The space of all file systems and volumes of a pool that has `usable` bytes
/// ([`PoolSpace::usable`]). Those that cannot be read are left out.
///
/// ```
/// use engine::datasets::spaces;
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::Create::filesystem("tank/home")?.run(&pool)?;
/// let all = spaces(pool.view(), pool.view().space().usable());
/// assert_eq!(all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["tank", "tank/home"]);
/// assert!(all[0].used >= all[1].used && all[1].available > 0);
/// # Ok::<(), engine::Error>(())
/// ```
///
/// [`PoolSpace::usable`]: crate::pools::PoolSpace::usable
#[must_use]
pub fn spaces(pool: &Pool, usable: u64) -> Vec<DatasetSpace> {
    let dsl = pool.datasets();
    let of = |(name, dir): (String, dsl::Result<Arc<Dir>>)| {
        let dir = dir.ok()?;
        let head = dsl.head(&dir).ok()??;
        let part = |index: usize| dir.phys.used_breakdown.get(index).copied().unwrap_or(0);
        Some(DatasetSpace {
            name,
            kind: dsl.kind(&head),
            used: dir.phys.used,
            by_itself: part(0),
            by_snapshots: part(1),
            referenced: head.referenced(),
            available: dsl.available(&head, usable).unwrap_or(0),
        })
    };
    dsl.walk().into_iter().filter_map(of).collect()
}
