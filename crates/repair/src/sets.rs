//! Datasets whose object set cannot be read: snapshots go, heads become what they were made of.

use crate::error::Result;
use crate::plan::Step;
use dsl::Dataset;
use pool::Pool;
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
    pub(crate) fn decide(pool: &Pool) -> Self {
        let mut out = Self::default();
        let dsl = pool.dsl();
        let readable = dsl.datasets().into_iter().filter_map(|(_, d)| d.ok());
        // Where it is not known whether there is a key, nothing is said about the object set.
        let is_judged = |d: &Dataset| !d.phys.bp.is_hole() && dsl.key_object(&d.dir).is_ok();
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

    /// Does it; what cannot be done to one is left to be found again.
    pub(crate) fn mend(&self, live: &LivePool) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for snapshot in &self.snapshots {
            if live.destroy_snapshots(std::slice::from_ref(snapshot), false).is_ok() {
                steps.push(Step::SnapshotLost { snapshot: snapshot.clone() });
            }
        }
        for head in &self.heads {
            if let Ok(became) = live.abandon_head(head) {
                steps.push(Step::DatasetLost { dataset: head.clone(), became });
            }
        }
        Ok(steps)
    }
}
