//! The directories of the pool's own, known again without their names.
//!
//! ```text
//! $MOS  $FREE  $LEAK   the only ones below the root without a head. A pool is made with the first
//!                      and has got the others, if it has them, later: in this order
//! $ORIGIN              its head was never given an object set, and is not a clone. Every
//!                      other head is one since version 11, plain file systems of the snapshot
//!                      in here
//! ```
//!
//! OpenZFS opens no pool in which one of them is missing, and they are not datasets that a user
//! could be offered to destroy.

use check::own_dirs;
use ondisk::DslDir;
use ondisk::dsl::{LEAK_DIR_NAME, ORIGIN_DIR_NAME};
use pool::Pool;
use pool::UnguardedDatasets as _;
use std::collections::BTreeMap;

/// Whether a directory is `$ORIGIN`.
pub(crate) fn is_origin(pool: &Pool, dir: &DslDir) -> bool {
    let has_it = own_dirs(pool.uberblock().version).any(|name| name == ORIGIN_DIR_NAME);
    let head = pool.dsl().nameless(dir.head_dataset).ok().filter(|_| has_it && dir.origin == 0);
    head.is_some_and(|head| head.phys.bp.is_hole() && head.phys.prev_snap != 0)
}

/// The names of those of the directories `below` the root that are the pool's own, as far as none
/// of the names that could be `read` is theirs.
pub(crate) fn names(
    pool: &Pool,
    below: &[(u64, DslDir)],
    read: &BTreeMap<u64, String>,
) -> BTreeMap<u64, &'static str> {
    let is_missing = |name: &&str| read.values().all(|read| read != name);
    let is_unnamed = |n: u64| read.get(&n).is_none_or(|name| !name.starts_with('$'));
    let nameless = below.iter().filter(|(n, _)| is_unnamed(*n));
    let mut headless: Vec<_> = nameless.clone().filter(|(_, d)| d.head_dataset == 0).collect();
    headless.sort_by_key(|(n, d)| (d.creation_time, *n));
    let names = own_dirs(pool.uberblock().version).filter(|name| *name != ORIGIN_DIR_NAME);
    let names: Vec<_> = names.filter(is_missing).collect();
    if headless.len() < names.len() {
        // One of them is lost itself, and which is not known.
        headless.clear();
    }
    let names = names.into_iter().chain([LEAK_DIR_NAME].into_iter().filter(is_missing));
    let mut out: BTreeMap<_, _> = headless.into_iter().map(|(n, _)| *n).zip(names).collect();
    let origin = nameless.clone().find(|(_, d)| is_origin(pool, d));
    out.extend(origin.map(|(n, _)| (*n, ORIGIN_DIR_NAME)).filter(|(_, name)| is_missing(name)));
    out
}
