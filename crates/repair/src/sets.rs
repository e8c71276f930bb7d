//! Datasets whose object set cannot be read: snapshots go, heads become what they were made of.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use dsl::Dataset;
use pool::Pool;
use pool::UnguardedDatasets as _;
use pool::live::LivePool;

/// Datasets that are given up in one round.
#[derive(Default)]
pub(crate) struct Sets {
    snapshots: Vec<String>,
    heads: Vec<String>,
}

impl Sets {
    pub(crate) fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.heads.is_empty()
    }

    /// Snapshots first, unless clones or holds need them: what a head becomes is one of those that
    /// are left.
    pub(crate) fn decide(pool: &Pool, attempts: &Attempts) -> Self {
        let mut out = Self::default();
        let dsl = pool.dsl();
        let readable = dsl.datasets().into_iter().filter_map(|(_, d)| d.ok());
        // If it is not known whether there is a key, the object set is not judged.
        let is_judged = |d: &Dataset| !d.phys.bp.is_hole() && dsl.key_object(&d.dir).is_ok();
        let readable = readable.filter(|d| !attempts.has_failed(&d.name));
        for dataset in readable.filter(is_judged) {
            let is_lost = dsl.objset(&dataset).is_err();
            match dataset.phys.is_snapshot() {
                true if is_lost && dataset.phys.num_children <= 1 => {
                    let is_free = dsl.holds(&dataset).is_ok_and(|holds| holds.is_empty());
                    out.snapshots.extend(is_free.then_some(dataset.name));
                }
                false if is_lost => out.heads.push(dataset.name),
                _ => {}
            }
        }
        if !out.snapshots.is_empty() {
            out.heads.clear();
        }
        out
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        for snapshot in self.snapshots {
            attempts.make(live, &snapshot, || {
                live.destroy_snapshots(std::slice::from_ref(&snapshot), false)?;
                Ok::<_, pool::Error>(vec![Step::SnapshotLost { snapshot: snapshot.clone() }])
            })?;
        }
        for head in self.heads {
            attempts.make(live, &head, || {
                let became = live.abandon_head(&head)?;
                Ok::<_, pool::Error>(vec![Step::DatasetLost { dataset: head.clone(), became }])
            })?;
        }
        Ok(())
    }
}
