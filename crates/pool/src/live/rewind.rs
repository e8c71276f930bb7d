//! Going back to the checkpoint, or to an earlier txg, when a pool is opened for writing.
//!
//! # Theory
//!
//! ```text
//! opened      with the checkpoint's uberblock, its configuration and its devices
//! committed   labels and that uberblock are written, with a txg behind all others: the pool has
//!             gone back, in one step, and there is no way forward any more
//! logs        intent logs that were not claimed at the time of the checkpoint are emptied
//! ```
//!
//! The uberblock is written before anything is allocated: by the checkpoint's space maps all that
//! was written since is free, and until the pool has gone back the newest uberblock reaches it.
//!
//! On the labels the uberblock keeps its `checkpoint_txg`, and the next txg sets it to 0. So an
//! import after a crash in between knows that the logs are still to be emptied. Their blocks behind
//! the checkpoint may have been written over since, or belong to what was given up: none of them is
//! replayed, and those born up to the checkpoint are freed. A log that was claimed before the
//! checkpoint is a part of it, and is replayed as any other.
//!
//! A txg is gone back to in the same way, as if it had been kept: its number is the uberblock's
//! `checkpoint_txg`. What later txgs have overwritten of it is lost, and is looked for before.

use super::LivePool;
use super::config::PoolFacts;
use super::log::unclaimed_logs;
use super::shared::{Parts, USUAL_ROUNDS};
use crate::error::{Error, Result};
use crate::open::{OpenOptions, Pool};
use ondisk::config::PoolState;
use ondisk::nvlist::NvList;
use ondisk::uberblock::Uberblock;
use rt::Rt;
use vdev::{NodeRef, TopRef};

/// Whether a pool that is opened so gives up its newest state.
pub(super) fn is_wanted(open: &OpenOptions) -> bool {
    open.checkpoint || open.txg.is_some()
}

/// The newest uberblock of a pool that is opened, and, when it goes back to its checkpoint, what
/// its own is to be: a new one, with the checkpoint's tree.
pub(super) fn begin(rt: &Rt, reading: &mut Pool, goes_back: bool) -> Uberblock {
    let newest = match goes_back {
        false => None,
        true => {
            reading.candidate().uberblocks.iter().map(|u| u.uberblock).max_by(Uberblock::cmp_age)
        }
    };
    let newest = newest.unwrap_or(*reading.uberblock());
    if goes_back {
        reading.go_back(newest.txg + 1, rt.wall().as_secs());
    }
    newest
}

/// Writes the uberblock of a pool that goes back, and labels that agree with it.
pub(super) fn commit(parts: &Parts, goes_back: bool) -> Result<()> {
    if !goes_back {
        return Ok(());
    }
    let (facts, tree) = (&parts.config.facts, &parts.config.root);
    let txg = parts.uberblock.txg;
    let list = |leaf: NodeRef<'_>, top: TopRef<'_>| {
        let config = tree.children.iter().find(|c| c.id == u64::from(top.id()));
        let label =
            |top| PoolFacts::for_label(facts, PoolState::Active, txg, tree, top, leaf.guid());
        config.map_or(NvList::new(), label)
    };
    let failed = |e: vdev::label::LabelError| Error::failed(&facts.name, "going back", e);
    let vdevs = parts.reader.vdevs();
    vdevs.write_labels(USUAL_ROUNDS[0], &list).map_err(failed)?;
    vdevs.write_uberblock(&parts.uberblock).map_err(failed)?;
    vdevs.write_labels(USUAL_ROUNDS[1], &list).map_err(failed)
}

impl LivePool {
    /// Empties the logs that are not part of the checkpoint to which the pool went back.
    pub(super) fn drop_logs_of_rewound(&self) -> Result<()> {
        let uberblock = *self.view.uberblock();
        if uberblock.checkpoint_txg == 0 {
            return Ok(());
        }
        let names = unclaimed_logs(&self.view);
        self.run(move |cx| {
            let datasets: dsl::Result<Vec<_>> =
                names.iter().map(|name| cx.datasets().by_name(name)).collect();
            let datasets = datasets?;
            datasets.iter().try_for_each(|dataset| cx.check_log(dataset))?;
            let last = uberblock.checkpoint_txg;
            datasets.iter().try_for_each(|dataset| cx.drop_log(dataset, last))
        })
    }
}
