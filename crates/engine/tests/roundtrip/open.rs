//! What is in pools of the corpus.

use engine::inside::pool::UnguardedDatasets as _;
use engine::{Dataset, Pool};

/// All heads and snapshots.
pub(crate) fn datasets(pool: &Pool) -> Vec<Dataset> {
    let mut out = Vec::new();
    for (_, dir) in pool.dsl().walk() {
        let dir = dir.expect("a sound pool");
        if let Some(head) = pool.dsl().head(&dir).expect("a sound pool") {
            out.extend(pool.dsl().snapshots(&head).expect("a sound pool"));
            out.push(head);
        }
    }
    out
}
