//! A report on a pool, beside its counters: advice, the scan, space by dataset.

use engine::DatasetKind;
use engine::datasets::{DatasetSpace, spaces};
use engine::live::LivePool;
use engine::pools::{Function, ScanProgress as State, ScanState, VdevView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use views::status::{condition, refused, remark};

/// Datasets that are named at most.
pub(crate) const DATASETS_MAX: usize = 500;

/// The report. It travels between processes too, so each field may be missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The word for the pool's health.
    pub health: String,
    /// The condition, and the advice, as in `zpool status`.
    pub advice: Option<[String; 2]>,
    /// Files and objects with blocks that nothing could restore.
    pub damaged: usize,
    /// The running or last scan.
    pub scan: Option<Scan>,
    /// Remarks by guid of a vdev: why it is not online.
    pub remarks: BTreeMap<String, String>,
    /// Bytes that datasets can use in all.
    pub usable_bytes: u64,
    /// File systems and volumes, by their names; of many those that use the most.
    pub datasets: Vec<Space>,
    /// Datasets that are left out.
    pub left_out: usize,
}

/// A scrub or resilver. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scan {
    /// `scrub` or `resilver`.
    pub what: String,
    /// `active`, `paused`, `finished` or `canceled`.
    pub state: String,
    /// When it began.
    pub began: u64,
    /// When it ended; 0 while it runs.
    pub ended: u64,
    /// Bytes to be looked at.
    pub to_examine_bytes: u64,
    /// Bytes looked at.
    pub examined_bytes: u64,
    /// Bytes repaired or brought.
    pub processed_bytes: u64,
    /// Errors that could not be repaired.
    pub errors: u64,
}

/// The space of a dataset, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Space {
    /// Its name.
    pub name: String,
    /// It is a volume.
    pub is_volume: bool,
    /// Used by it and all below it.
    pub used_bytes: u64,
    /// Of this, by itself.
    pub by_itself_bytes: u64,
    /// Of this, by its snapshots.
    pub by_snapshots_bytes: u64,
    /// The space that it references.
    pub referenced_bytes: u64,
    /// The space that it could still use.
    pub available_bytes: u64,
}

impl Report {
    /// Of a pool that is held. This reads from its devices, and takes a moment for each dataset.
    ///
    /// # Errors
    /// When the pool cannot be looked at.
    pub fn of(pool: &LivePool) -> engine::Result<Self> {
        let pool = pool.look()?;
        let space = pool.space();
        let status = pool.status(&space);
        let usable_bytes = space.usable();
        let (datasets, left_out) = most_used(spaces(&pool, usable_bytes));
        let remark_of = |v: &VdevView| {
            let all = v.remark.iter().map(remark).chain(v.refused.iter().map(refused));
            (v.guid.to_string(), all.collect::<Vec<_>>().join("  "))
        };
        let remarks = status.vdevs.walk().map(remark_of);
        Ok(Self {
            health: status.health.clone(),
            advice: status
                .condition
                .map(|c| [one_line(condition::text(c)), one_line(condition::action(c))]),
            damaged: status.damaged.len(),
            scan: status.scan.as_ref().and_then(Scan::of),
            remarks: remarks.filter(|(_, remark_of)| !remark_of.is_empty()).collect(),
            usable_bytes,
            datasets,
            left_out,
        })
    }
}

/// Text that was laid out for a terminal.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Scan {
    fn of(s: &ScanState) -> Option<Self> {
        let what = match s.function() {
            Function::Scrub => "scrub",
            Function::Resilver => "resilver",
            _ => return None,
        };
        let state = match s.state() {
            State::Active if s.flags & ScanState::FLAG_PAUSED != 0 => "paused",
            state => state.name(),
        };
        Some(Self {
            what: what.to_owned(),
            state: state.to_owned(),
            began: s.start_time,
            ended: s.end_time,
            to_examine_bytes: s.to_examine,
            examined_bytes: s.examined,
            processed_bytes: s.processed,
            errors: s.errors,
        })
    }
}

impl From<DatasetSpace> for Space {
    fn from(of: DatasetSpace) -> Self {
        Self {
            name: of.name,
            is_volume: of.kind == DatasetKind::Volume,
            used_bytes: of.used,
            by_itself_bytes: of.by_itself,
            by_snapshots_bytes: of.by_snapshots,
            referenced_bytes: of.referenced,
            available_bytes: of.available,
        }
    }
}

/// The datasets that use the most, in the order of their names, and how many are left out.
fn most_used(all: Vec<DatasetSpace>) -> (Vec<Space>, usize) {
    let mut all: Vec<Space> = all.into_iter().map(Space::from).collect();
    let left_out = all.len().saturating_sub(DATASETS_MAX);
    if left_out > 0 {
        all.sort_by_key(|s| std::cmp::Reverse(s.used_bytes));
        all.truncate(DATASETS_MAX);
        all.sort_by(|a, b| a.name.split('/').cmp(b.name.split('/')));
    }
    (all, left_out)
}
