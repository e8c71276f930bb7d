//! Tables of clones that count wrongly.
//!
//! A block that has too few references in its table is freed while others still need it, so this
//! comes before anything that frees data. A table is rebuilt as a whole, because its sums and its
//! counts by range are those of its entries.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use check::UsedSpace;
use pool::live::{CloneEntry, LivePool};
use std::collections::BTreeMap;

/// The tables that are rebuilt in one round, by vdev.
#[derive(Default)]
pub(crate) struct Clones(BTreeMap<u32, Vec<CloneEntry>>);

/// The description of the repair.
fn words(vdev: u32) -> String {
    format!("the table of clones of vdev {vdev}")
}

impl Clones {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn decide(taken: &UsedSpace, attempts: &Attempts) -> Self {
        let tables = taken.shared().clones.iter();
        let tables = tables.filter(|(vdev, _)| !attempts.has_failed(&words(**vdev)));
        Self(tables.map(|(vdev, all)| (*vdev, all.clone())).collect())
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        for (vdev, entries) in self.0 {
            let step = Step::CloneTable { vdev, entries: entries.len() as u64 };
            let renew = || live.renew_clones(vdev, entries).map(|()| vec![step]);
            attempts.make(live, &words(vdev), renew)?;
        }
        Ok(())
    }
}
