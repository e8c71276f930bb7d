//! Log devices that are missing, and the logs that lead to them.
//!
//! # Theory
//!
//! A log is read up to its first block on a device that is not there. What stands before is
//! replayed like that of any log: it is what was promised first. What stood behind is lost, and
//! how much that was cannot be told: only the blocks themselves say.
//!
//! When the import is told to go on ([`LogDevices::GiveUp`]) one task empties the headers of these
//! logs, and frees all that is allocated on the missing device at once. That is right because a log
//! device holds blocks of logs and nothing else, and no log leads there any more: each one that did
//! was among those emptied. Freeing block by block would leave what stands behind the cut allocated
//! for ever.

use super::super::LivePool;
use super::heads::readable_heads;
use crate::error::{Error, Result};
use crate::obstacle::Obstacle;
use crate::open::Pool;
use dmu::Objset;
use ondisk::BlkPtr;
use std::collections::BTreeSet;
use zil::Log;

/// What becomes of log devices that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogDevices {
    /// The pool is not opened without them.
    Needed,
    /// It is, unless a log leads to one.
    #[default]
    IfUsed,
    /// It is, and what was on them is given up.
    GiveUp,
}

/// A log that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUpLog {
    /// Its dataset.
    pub dataset: String,
    /// Records of it that stood on other devices, and were replayed.
    pub replayed: u64,
    /// What is in this txg and in older ones is there; of what was promised later the rest of the
    /// log is lost.
    pub txg: u64,
    /// When that txg was written, in seconds since 1970.
    pub time: u64,
}

/// A log that leads to a missing device, or is damaged.
pub(in super::super) struct CutLog {
    pub(in super::super) dataset: String,
    /// Top-level vdevs that are missing and have the block after the last that can be read.
    pub(in super::super) at: Vec<u64>,
}

/// Numbers of log devices of which nothing can be read, each with a name for people.
pub(in super::super) fn missing_logs(pool: &Pool) -> Vec<(u64, String)> {
    let tree = pool.vdevs();
    let lost = tree.tops().filter(|t| t.is_log() && !t.node().state().is_readable());
    lost.map(|t| (u64::from(t.id()), t.node().name().to_owned())).collect()
}

/// Logs that lead to log devices which are missing.
pub(in super::super) fn cut_logs(pool: &Pool) -> Vec<CutLog> {
    let missing: BTreeSet<u64> = missing_logs(pool).into_iter().map(|(id, _)| id).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let is_missing = |id: &u64| missing.contains(id);
    let on_missing = |bp: &BlkPtr| -> Vec<u64> {
        bp.dvas().map(|(_, dva)| u64::from(dva.vdev())).filter(is_missing).collect()
    };
    let cut = |(name, objset): (String, Objset)| {
        let log = Log::read_clear(&objset, None);
        let at = log.next.as_ref().map(on_missing).filter(|at| !at.is_empty())?;
        Some(CutLog { dataset: name, at })
    };
    readable_heads(pool).filter_map(cut).collect()
}

/// Logs that are damaged, as obstacles name them: what comes before the damage is replayed.
pub(in super::super) fn damaged_logs(obstacles: &[Obstacle]) -> Vec<CutLog> {
    let cut = |o: &Obstacle| match o {
        Obstacle::IntentLog { name, is_damaged: true, .. } => {
            Some(CutLog { dataset: name.clone(), at: Vec::new() })
        }
        _ => None,
    };
    obstacles.iter().filter_map(cut).collect()
}

impl LivePool {
    /// Empties the logs that are damaged or led to log devices that are missing (as
    /// [`missing_logs`] names them), and frees what was there.
    pub(in super::super) fn give_up_logs(
        &mut self,
        cut: &[CutLog],
        missing: &[(u64, String)],
    ) -> Result<()> {
        if missing.is_empty() && cut.is_empty() {
            return Ok(());
        }
        let synced = self.view.uberblock();
        let replayed = self.replayed.lock().clone();
        let applied = |name: &str| {
            let report = replayed.iter().find(|(dataset, _)| dataset == name);
            report.map_or(0, |(_, report)| report.applied)
        };
        let given_up = cut.iter().map(|c| GivenUpLog {
            dataset: c.dataset.clone(),
            replayed: applied(&c.dataset),
            txg: synced.txg,
            time: synced.timestamp,
        });
        self.given_up = given_up.collect();
        let names: Vec<String> = cut.iter().map(|c| c.dataset.clone()).collect();
        let tops: Vec<u64> = missing.iter().map(|(id, _)| *id).collect();
        self.run(move |cx| {
            let shared = cx.shared;
            let datasets: dsl::Result<Vec<_>> =
                names.iter().map(|name| cx.datasets().by_name(name)).collect();
            let datasets = datasets?;
            datasets.iter().try_for_each(|dataset| cx.check_log(dataset))?;
            cx.touch();
            for top in tops {
                let id = u32::try_from(top).unwrap_or(u32::MAX);
                let given_up = shared.alloc.give_up_log(id, cx.tx.txg());
                given_up.map_err(|what| Error::Inconsistent { what })?;
            }
            datasets.iter().try_for_each(|dataset| cx.take_over(dataset))
        })
    }
}
