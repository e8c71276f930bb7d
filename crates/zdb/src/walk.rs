//! Every block pointer of a pool, each block once.
//!
//! A dataset shares with the snapshot before it all blocks born until then, so of each dataset only
//! what was born later is visited: the pool as a whole, without repetition. What is only in dead
//! lists and livelists is not visited, since it belongs to a snapshot that is.

use super::datasets;
use super::dump::Dump;
use engine::Pool;
use engine::inside::dmu::{Error, Objset, Place, Step, Visitor};
use engine::inside::ondisk::BlkPtr;
use engine::inside::pool::UnguardedDatasets as _;

/// Receives a pointer and the name of what it points to.
pub(crate) type OnBlock<'a> = dyn FnMut(&BlkPtr, Place) + 'a;

/// Visits the pool.
pub(crate) fn pool(d: &mut Dump, pool: &Pool, visit: &mut OnBlock<'_>) {
    objset(d, pool.mos(), 0, visit);
    for (name, dir) in pool.dsl().walk() {
        let head = dir.and_then(|dir| pool.dsl().head(&dir));
        let Some(Some(head)) = d.keep(&name, head) else { continue };
        let snapshots = pool.dsl().snapshots(&head);
        let snapshots = d.keep(&name, snapshots).unwrap_or_default();
        for ds in snapshots.iter().chain([&head]) {
            let os = datasets::objset(pool, ds);
            if let Some(os) = d.keep(&ds.name, os) {
                objset(d, &os, ds.phys.prev_snap_txg, visit);
            }
        }
    }
}

/// Visits what an object set has that was born after `since`.
fn objset(d: &mut Dump, os: &Objset, since: u64, visit: &mut OnBlock<'_>) {
    // It ends early only when its output is not wanted.
    let _ = os.traverse(since, &mut Reporter { d, visit });
}

/// Tells the visitor of each pointer, and the dump of what is lost.
struct Reporter<'a, 'o, 'v> {
    d: &'a mut Dump<'o>,
    visit: &'a mut OnBlock<'v>,
}

impl Visitor for Reporter<'_, '_, '_> {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        (self.visit)(bp, place);
        if self.d.is_wanted() { Step::Descend } else { Step::Stop }
    }

    fn lost(&mut self, _: Place, error: Error) {
        self.d.fail(error);
    }
}
