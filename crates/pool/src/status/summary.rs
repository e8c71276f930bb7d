//! A summary of a pool's state.

use super::condition::Condition;
use super::view::{Remark, VdevTreeView, VdevView};
use crate::assemble::Candidate;
use crate::errlog::ErrorLog;
use crate::open::Pool;
use crate::removal::{CheckpointState, Removal};
use crate::scans_here::ScanPass;
use crate::space::PoolSpace;
use ondisk::config::VdevConfig;
use ondisk::expand::Expansion;
use ondisk::scan::{ErrorScrubState, Function, RebuildState, ScanState, State};
use rt::Rt;
use vdev::{Reason, VdevState, VdevTree};

/// A note about a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointNote {
    /// When it was made, in seconds since 1970; `None`: it is being discarded.
    pub made: Option<u64>,
    /// Bytes kept for it.
    pub bytes: u64,
}

/// A note about a scrub of what is in the error log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorScrubNote {
    /// How far it is.
    pub state: ErrorScrubState,
    /// When this process paused it, in seconds since 1970; 0: it did not.
    pub paused_at: u64,
    /// It was running when the pool was closed, and no process continues it.
    pub is_left: bool,
}

/// The state of a pool.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its name.
    pub pool: String,
    /// Guid of its root vdev.
    pub guid: u64,
    /// The state of its vdevs.
    pub state: VdevState,
    /// Why its vdevs are in that state.
    pub reason: Reason,
    /// The word for the state of the pool.
    pub health: String,
    /// Why it takes no more changes.
    pub suspended: Option<String>,
    /// The worst condition; `None` if all is well.
    pub condition: Option<Condition>,
    /// The last scrub or resilver.
    pub scan: Option<ScanState>,
    /// What the process that runs it, or paused it, knows of its pace.
    pub scan_pass: Option<ScanPass>,
    /// One was running when the pool was closed, and no process continues it.
    pub is_scan_left: bool,
    /// The same of a rebuild.
    pub is_rebuild_left: bool,
    /// The last sequential rebuild of each top-level vdev that had one, and the vdev's name.
    pub rebuilds: Vec<(RebuildState, String)>,
    /// Devices in use that have not all that was written, while no resilver runs.
    pub lacking: usize,
    /// The last scrub of the error log.
    pub error_scrub: Option<ErrorScrubNote>,
    /// The last removal of a vdev.
    pub removal: Option<Removal>,
    /// The vdev that it is about, as it is called.
    pub removing: String,
    /// The last RAID-Z expansion.
    pub expansion: Option<ExpansionNote>,
    /// The checkpoint.
    pub checkpoint: Option<CheckpointNote>,
    /// The vdevs.
    pub vdevs: VdevTreeView,
    /// Blocks nothing could restore, by the error logs.
    pub errors: ErrorLog,
    /// Structures that could not be read when the pool was opened, and names of the objects with
    /// such blocks.
    pub damaged: Vec<String>,
}

/// Why an expansion does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpansionWait {
    /// A device of the vdev is away or lacks something.
    Devices,
    /// In the vdev of this name a spare stands in for a device.
    Spare(String),
}

/// A RAID-Z expansion that runs, or ended last.
#[derive(Clone, Debug)]
pub struct ExpansionNote {
    /// The number of the vdev.
    pub vdev: u64,
    /// How the vdev is called.
    pub name: String,
    /// How far it is.
    pub state: Expansion,
    /// Bytes that are allocated on the vdev, or as many as were copied, if some were freed since.
    pub allocated: u64,
    /// Seconds since it began.
    pub elapsed: u64,
    /// What is waited for.
    pub waits: Option<ExpansionWait>,
}

impl Pool {
    /// The top-level vdev with this number, and what is shown of it.
    fn top_with<'a>(
        &'a self,
        id: u64,
        vdevs: &'a VdevTreeView,
    ) -> Option<(&'a VdevConfig, &'a VdevView)> {
        let top = self.config().vdev_tree.children.iter().find(|top| top.id == id)?;
        Some((top, vdevs.walk().find(|v| v.guid == top.guid)?))
    }

    fn error_scrub_note(&self) -> Option<ErrorScrubNote> {
        let here = self.scans.error_scrub;
        let state = self.error_scrub_state().ok().flatten()?;
        let is_under_way = state.state() == State::ErrorScrubbing && state.paused == 0;
        let note = ErrorScrubNote {
            state,
            paused_at: here.paused_at,
            is_left: is_under_way && !here.is_running,
        };
        Some(note).filter(|note| note.state.function() == Function::ErrorScrub)
    }

    fn expansion_note(&self, vdevs: &VdevTreeView) -> Option<ExpansionNote> {
        let found = self.expansion().ok().flatten()?;
        let (top, view) = self.top_with(found.vdev, vdevs).unzip();
        let tree = self.vdevs();
        let below: Vec<u64> = top.into_iter().flat_map(|top| top.walk()).map(|v| v.guid).collect();
        let mut leaves = tree.leaves().filter(|l| below.contains(&l.guid()));
        let now = tree.rt().wall().as_secs();
        let lacks = leaves.any(|l| !l.state().is_readable() || !l.missed().is_empty());
        let spared = u32::try_from(found.vdev).ok().and_then(|id| tree.top(id)).and_then(|top| {
            let spared = top.node().children().find(|child| child.kind() == "spare");
            spared.map(|child| child.name().to_owned())
        });
        let devices = lacks.then_some(ExpansionWait::Devices);
        Some(ExpansionNote {
            vdev: found.vdev,
            name: view.map(|v| v.name.clone()).unwrap_or_default(),
            state: found.state,
            allocated: view.map_or(0, |v| v.space[1]).max(found.state.bytes_copied),
            elapsed: now.saturating_sub(found.state.start_time),
            waits: devices.or(spared.map(ExpansionWait::Spare)),
        })
    }

    /// The state of the pool. Parts that cannot be read because of damage are left out.
    #[must_use]
    pub fn status(&self, space: &PoolSpace) -> Status {
        let vdevs = self.vdev_view(space);
        let errors = self.error_log().unwrap_or_default();
        let objects = errors.objects();
        let unread = self.salvage().iter().map(|s| format!("<metadata>: {}", s.what));
        let names = objects.iter().map(|o| self.damaged_name(o));
        let damaged: Vec<String> = unread.chain(names).collect();
        let condition = Condition::of(self, &vdevs, damaged.len() as u64);
        let expansion = self.expansion_note(&vdevs);
        let name_of = |id: u64| Some(self.top_with(id, &vdevs)?.1.name.clone());
        let rebuilds = self.rebuild_states().unwrap_or_default().into_iter();
        let rebuilds = rebuilds.filter_map(|(id, state)| Some((state, name_of(id)?))).collect();
        let removal = self.removal().ok().flatten();
        let removing = removal.as_ref().and_then(|r| name_of(r.state.vdev));
        let made = self.checkpoint().ok().flatten().map(|u| u.timestamp);
        let checkpoint = (self.checkpoint_state() != CheckpointState::None)
            .then(|| CheckpointNote { made, bytes: space.checkpoint() });
        let lacking = vdevs.walk().filter(|v| v.remark == Some(Remark::AwaitingResilver)).count();
        Status {
            lacking,
            pool: self.name().to_owned(),
            guid: self.config().vdev_tree.guid,
            state: self.vdevs().root().state(),
            reason: self.vdevs().root().reason(),
            health: self.health(),
            suspended: self.suspended().map(str::to_owned),
            condition,
            scan: self.scan_state().ok().flatten(),
            scan_pass: self.scan_pass(),
            is_scan_left: self.is_scan_left(),
            is_rebuild_left: !self.scans.is_rebuilding,
            rebuilds,
            error_scrub: self.error_scrub_note(),
            removing: removing.unwrap_or_default(),
            removal,
            expansion,
            checkpoint,
            damaged,
            vdevs,
            errors,
        }
    }
}

impl Status {
    /// The state of a pool that has too few devices to be opened: what is known of its vdevs, and
    /// which of them are there.
    #[must_use]
    pub fn of_closed(rt: &Rt, candidate: &Candidate) -> Self {
        let behind = candidate.behind(&candidate.tree, u64::MAX);
        let mut leaf = |c: &VdevConfig| candidate.leaf_for(c, &behind);
        let tree = VdevTree::build(rt, &candidate.tree, &mut leaf).ok();
        Self {
            pool: candidate.name().to_owned(),
            guid: candidate.tree.guid,
            state: VdevState::Unavail,
            reason: Reason::NoReplicas,
            health: VdevState::Unavail.to_string(),
            suspended: None,
            condition: Some(Condition::MissingFatal),
            scan: None,
            scan_pass: None,
            is_scan_left: false,
            is_rebuild_left: false,
            rebuilds: Vec::new(),
            lacking: 0,
            error_scrub: None,
            removal: None,
            removing: String::new(),
            expansion: None,
            checkpoint: None,
            vdevs: VdevTreeView::of_closed(&candidate.tree, tree.as_ref()),
            errors: ErrorLog::default(),
            damaged: Vec::new(),
        }
    }
}
