//! The conditions of a pool, by OpenZFS's list. Only conditions that can be seen in a pool opened
//! for reading are here.

use super::view::{Remark, Section, VdevTreeView, VdevView, ViewState, has_missed_txgs};
use crate::live::{ENABLED_BY_DEFAULT, is_writable};
use crate::open::Pool;
use crate::taken_over::is_taken_over;
use ondisk::features::{FEATURES, Feature, VERSION_FEATURES};
use vdev::{NodeRef, Reason, VdevState};

/// A condition of the pool; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// A resilver is not complete.
    Resilvering,
    /// Another writer has taken a device over, and the pool can write nothing any more.
    TakenOver,
    /// Devices failed while they were written to, and the pool waits for them.
    Suspended,
    /// The same, and the pool takes no more changes.
    Stopped,
    /// Devices are missing, and something is lost with them.
    MissingFatal,
    /// Devices have other labels or are too short, and something is lost with them.
    BadLabelFatal,
    /// There are blocks nothing can restore.
    DataErrors,
    /// Devices were taken out of use after errors.
    Faulted,
    /// Devices are missing, but redundancy makes up for it.
    Missing,
    /// Devices have other labels.
    BadLabel,
    /// Devices were written without the others, and hold changes that those lack.
    Diverged,
    /// Devices were away while others were written, and hold an older state.
    Behind,
    /// Devices in use have not all that was written, and no resilver brings it to them.
    Lacking,
    /// Devices are not where they were opened any more.
    Displaced,
    /// Devices are smaller than they were when they were opened, or were for a while.
    Short,
    /// Devices returned errors, and redundancy made up for them.
    DeviceErrors,
    /// Devices are out of use by will.
    Offline,
    /// Devices were pulled out.
    Removed,
    /// Spares that wait are missing: nothing is lost, and nothing is worse for it.
    SpareMissing,
    /// The pool's version is old.
    OldVersion,
    /// Not all features are enabled.
    FeaturesDisabled,
    /// The files that the property `compatibility` names cannot be read.
    UnreadSet,
    /// Features are enabled that are not in the set of the property `compatibility`.
    OutsideSet,
}

/// Those that can be seen in a pool, in the order in which they are looked for.
const ALL: [Condition; 21] = [
    Condition::TakenOver,
    Condition::Suspended,
    Condition::Stopped,
    Condition::Resilvering,
    Condition::MissingFatal,
    Condition::BadLabelFatal,
    Condition::DataErrors,
    // Writes to them are lost, whatever other conditions there are.
    Condition::Displaced,
    Condition::Short,
    Condition::Faulted,
    Condition::Missing,
    Condition::BadLabel,
    Condition::Diverged,
    Condition::Behind,
    Condition::Lacking,
    Condition::DeviceErrors,
    Condition::Offline,
    Condition::Removed,
    Condition::SpareMissing,
    Condition::OldVersion,
    Condition::FeaturesDisabled,
];

impl Condition {
    /// Nothing is the matter with the pool: it is only not the newest. `zpool status -x` leaves
    /// such pools out.
    #[must_use]
    pub fn is_advice(self) -> bool {
        use Condition::{FeaturesDisabled, OldVersion, OutsideSet, UnreadSet};
        matches!(self, OldVersion | FeaturesDisabled | UnreadSet | OutsideSet)
    }

    /// The worst condition that holds.
    pub(super) fn of(pool: &Pool, view: &VdevTreeView, data_errors: u64) -> Option<Self> {
        let spares = view.section(Section::Spares);
        // Those that are in use are among the others.
        let sections = || Section::ALL.into_iter().filter(|section| *section != Section::Spares);
        let vdevs = || sections().flat_map(|section| view.section(section));
        let devices = || vdevs().flat_map(VdevView::walk).filter(|v| v.children.is_empty());
        let is = |v: &VdevView, state| v.state == ViewState::Vdev(state);
        let has = |state| devices().any(|v| is(v, state));
        let is_other = |v: &&VdevView| v.remark == Some(Remark::Reason(Reason::BadLabel));
        let is_late = |l: &NodeRef<'_>| matches!(l.reason(), Reason::Behind(_));
        let late: Vec<u64> =
            pool.vdevs().leaves().filter(is_late).map(|leaf| leaf.guid()).collect();
        let missing = || {
            let is_gone = |v: &VdevView| is(v, VdevState::Unavail) && !late.contains(&v.guid);
            devices().any(|v| is_gone(v) && !is_other(&v))
        };
        let other = || devices().any(|v| is_other(&v));
        let root = pool.vdevs().root().state();
        let holds = |c: &Self| match c {
            Self::Resilvering => pool.is_resilvering(),
            Self::TakenOver => pool.suspended().is_some() && is_taken_over(&pool.vdevs()),
            Self::Suspended => pool.is_waiting(),
            Self::Stopped => pool.suspended().is_some(),
            Self::MissingFatal => missing() && !root.is_readable(),
            Self::BadLabelFatal => other() && !root.is_readable(),
            Self::DataErrors => data_errors > 0,
            Self::Faulted => has(VdevState::Faulted) && !other(),
            Self::Missing => missing(),
            Self::BadLabel => other(),
            Self::Diverged => {
                let tree = &pool.config().vdev_tree;
                let diverged = pool.candidate().diverged(tree, pool.uberblock().txg);
                diverged.iter().any(|guid| late.contains(guid))
            }
            Self::Behind => !late.is_empty(),
            Self::Lacking => pool.vdevs().leaves().any(has_missed_txgs),
            Self::Displaced => pool.displaced().iter().any(|(_, what)| !what.is_of_size()),
            Self::Short => !pool.displaced().is_empty(),
            Self::DeviceErrors => {
                let errors = |v: &VdevView| v.read_errors + v.write_errors + v.checksum_errors;
                has(VdevState::Degraded) || view.walk().any(|v| errors(v) > 0)
            }
            Self::Offline => has(VdevState::Offline),
            Self::Removed => has(VdevState::Removed),
            Self::SpareMissing => spares.iter().any(|v| is(v, VdevState::Unavail)),
            Self::OldVersion => pool.config().version < VERSION_FEATURES,
            Self::FeaturesDisabled => pool.lacks_features(),
            // Which features a named set has is written in files of the system.
            Self::UnreadSet | Self::OutsideSet => false,
        };
        ALL.into_iter().find(holds)
    }
}

impl Pool {
    /// Whether features are missing that an upgrade would enable, and the pool's property
    /// `compatibility` does not rule them out. Which features a named set has is written in files
    /// of the system, so a pool with one counts as complete.
    ///
    /// A pool that has all features zinc enables by default, and none that zinc does not write,
    /// lacks others only because no upgrade of zinc's enables them: it counts as complete too. A
    /// pool that has more was made by OpenZFS, which can.
    #[must_use]
    pub fn lacks_features(&self) -> bool {
        let off = matches!(self.config().compatibility.as_deref(), None | Some("" | "off"));
        let is_enabled = |f: &Feature| self.features().count(f.guid).is_some();
        let is_default = |f: &Feature| ENABLED_BY_DEFAULT.contains(&f.name());
        let fits = |f: &Feature| if is_enabled(f) { is_writable(f) } else { !is_default(f) };
        let made_by_zinc = FEATURES.iter().all(fits);
        off && !made_by_zinc && !FEATURES.iter().all(is_enabled)
    }
}
