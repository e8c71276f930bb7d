//! What is recorded as obsolete of removed vdevs.
//!
//! OpenZFS drops the parts of a mapping that are recorded as obsolete, so more than is true loses
//! blocks that are in use, and less wastes memory. All is recorded anew, in a new space map, and
//! the counts become zero: they say nothing that the map does not say as well. What is freed
//! between the check and that is recorded by the next round.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use check::UsedSpace;
use pool::live::LivePool;
use std::collections::BTreeMap;

/// The ranges that are to be recorded in one round, by removed vdev.
#[derive(Default)]
pub(crate) struct Obsolete(BTreeMap<u32, Vec<(u64, u64)>>);

/// The description of the repair.
fn words(vdev: u32) -> String {
    format!("what is obsolete of the removed vdev {vdev}")
}

impl Obsolete {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn decide(taken: &UsedSpace, attempts: &Attempts) -> Self {
        let vdevs = taken.obsolete().iter();
        let vdevs = vdevs.filter(|(vdev, _)| !attempts.has_failed(&words(**vdev)));
        Self(vdevs.map(|(vdev, all)| (*vdev, all.clone())).collect())
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        for (vdev, unused) in self.0 {
            let step = Step::Obsolete { vdev, bytes: unused.iter().map(|(a, b)| b - a).sum() };
            let renew = || live.renew_obsolete(vdev, unused).map(|()| vec![step]);
            attempts.make(live, &words(vdev), renew)?;
        }
        Ok(())
    }
}
