//! What is wrong with a pool, in the words of OpenZFS.
//!
//! The texts are part of the interface: monitoring scripts match them. Only conditions that can be
//! seen in a pool opened for reading are here.

use super::view::{VdevTreeView, VdevView, lacks_something};
use crate::live::{ENABLED_BY_DEFAULT, is_writable};
use crate::open::Pool;
use ondisk::features::{FEATURES, Feature, VERSION_FEATURES};
use ondisk::scan::{Function, ScanState, State};
use vdev::{NodeRef, Reason};

/// Something is to be said about the pool; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Condition {
    /// A resilver is not complete.
    Resilvering,
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
    /// Devices were away while others were written, and hold an older state.
    Behind,
    /// Devices in use have not all that was written, and no resilver brings it to them.
    Lacking,
    /// Devices are not where they were opened any more.
    Astray,
    /// Devices returned errors, and redundancy made up for them.
    DeviceErrors,
    /// Devices are out of use by will.
    Offline,
    /// Devices were pulled out.
    Removed,
    /// The pool's version is old.
    OldVersion,
    /// Not all features are enabled.
    FeaturesDisabled,
}

const DOCS: &str = "https://openzfs.github.io/openzfs-docs/msg/";

impl Condition {
    /// Text, advice, and number of the page of documentation.
    fn texts(self) -> (&'static str, &'static str, Option<&'static str>) {
        match self {
            Self::Resilvering => (
                "One or more devices is currently being resilvered.  The pool will\n\t\
                 continue to function, possibly in a degraded state.",
                "Wait for the resilver to complete.",
                None,
            ),
            Self::Suspended => (
                "One or more devices are faulted in response to IO failures.",
                "Make sure the affected devices are connected, then run 'zpool clear'.",
                Some("ZFS-8000-HC"),
            ),
            Self::Stopped => (
                "One or more devices are faulted in response to IO failures.",
                "Make sure the affected devices are connected and have room, then end the\n\t\
                 server of the pool (`zinc zpool export -f`) and import it again.",
                Some("ZFS-8000-HC"),
            ),
            Self::BadLabelFatal => (
                "One or more devices could not be used because the label is missing\n\t\
                 or invalid.  There are insufficient replicas for the pool to continue\n\t\
                 functioning.",
                "Copy out what can still be read using `zinc rescue`.  Only then\n\t\
                 destroy the pool, and re-create it from that or a backup source.",
                Some("ZFS-8000-5E"),
            ),
            Self::MissingFatal => (
                "One or more devices could not be opened.  There are insufficient\n\t\
                 replicas for the pool to continue functioning.",
                "Attach the missing device and online it using 'zpool online'.  When it is\n\t\
                 gone for good, `zinc rescue` copies out what the others hold.",
                Some("ZFS-8000-3C"),
            ),
            Self::DataErrors => (
                "One or more devices has experienced an error resulting in data\n\t\
                 corruption.  Applications may be affected.",
                "Restore the file in question if possible; `zinc rescue` copies out what can\n\t\
                 be read of all.  Otherwise restore the entire pool from backup.",
                Some("ZFS-8000-8A"),
            ),
            Self::Faulted => (
                "One or more devices are faulted in response to persistent errors.\n\t\
                 Sufficient replicas exist for the pool to continue functioning in a\n\t\
                 degraded state.",
                "Replace the faulted device, or use 'zpool clear' to mark the device\n\t\
                 repaired.",
                None,
            ),
            Self::Missing => (
                "One or more devices could not be opened.  Sufficient replicas exist for\n\t\
                 the pool to continue functioning in a degraded state.",
                "Attach the missing device and online it using 'zpool online'.",
                Some("ZFS-8000-2Q"),
            ),
            Self::BadLabel => (
                "One or more devices could not be used because the label is missing or\n\t\
                 invalid.  Sufficient replicas exist for the pool to continue\n\t\
                 functioning in a degraded state.",
                "Replace the device using 'zpool replace'.",
                Some("ZFS-8000-4J"),
            ),
            Self::Behind => (
                "One or more devices were away while the pool was written, and hold an\n\t\
                 older state of it.  What they missed is read from the others.",
                "The next command that changes the pool brings those up to date that only\n\t\
                 stood still; `zinc zpool resilver` does it at once.\n\t\
                 Where one was also written without the others, the pool is not written to:\n\t\
                 `zinc zpool online` gives up the changes of that one; take the others away\n\t\
                 to keep them.",
                None,
            ),
            Self::Lacking => (
                "One or more devices lack a part of what was written while they were away.\n\t\
                 It is read from the others.",
                "The next command that changes the pool brings it to them;\n\t\
                 `zinc zpool resilver` does it at once.",
                None,
            ),
            Self::Astray => (
                "One or more devices were deleted, moved, replaced or cut short while\n\t\
                 they were in use.  What is written to them is lost when the pool is closed.",
                "Copy the data out before the pool is exported or its server ends, or put\n\t\
                 the device back where it was.  A device that the others make up for is\n\t\
                 gone without from the next txg on.",
                None,
            ),
            Self::DeviceErrors => (
                "One or more devices has experienced an unrecoverable error.  An\n\t\
                 attempt was made to correct the error.  Applications are unaffected.",
                "Determine if the device needs to be replaced, and clear the errors\n\t\
                 using 'zpool clear' or replace the device with 'zpool replace'.",
                Some("ZFS-8000-9P"),
            ),
            Self::Offline => (
                "One or more devices has been taken offline by the administrator.\n\t\
                 Sufficient replicas exist for the pool to continue functioning in a\n\t\
                 degraded state.",
                "Online the device using 'zpool online' or replace the device with\n\t\
                 'zpool replace'.",
                None,
            ),
            Self::Removed => (
                "One or more devices has been removed by the administrator.\n\t\
                 Sufficient replicas exist for the pool to continue functioning in a\n\t\
                 degraded state.",
                "Online the device using zpool online' or replace the device with\n\t\
                 'zpool replace'.",
                None,
            ),
            Self::OldVersion => (
                "The pool is formatted using a legacy on-disk format.  The pool can\n\t\
                 still be used, but some features are unavailable.",
                "Upgrade the pool using 'zpool upgrade'.  Once this is done, the\n\t\
                 pool will no longer be accessible on software that does not support\n\t\
                 feature flags.",
                None,
            ),
            Self::FeaturesDisabled => (
                "Some supported and requested features are not enabled on the pool.\n\t\
                 The pool can still be used, but some features are unavailable.",
                "Enable all features using 'zpool upgrade'. Once this is done,\n\t\
                 the pool may no longer be accessible by software that does not support\n\t\
                 the features. See zpool-features(7) for details.",
                None,
            ),
        }
    }

    /// Nothing is the matter with the pool: it is only not the newest. `zpool status -x` leaves
    /// such pools out.
    #[must_use]
    pub fn is_advice(self) -> bool {
        matches!(self, Self::OldVersion | Self::FeaturesDisabled)
    }

    /// What is the matter; lines after the first begin with a tab.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.texts().0
    }

    /// What to do about it; lines after the first begin with a tab.
    #[must_use]
    pub fn action(self) -> &'static str {
        self.texts().1
    }

    /// Where to read about it.
    #[must_use]
    pub fn see(self) -> Option<String> {
        self.texts().2.map(|page| format!("{DOCS}{page}"))
    }

    /// The worst condition that holds.
    pub(super) fn of(pool: &Pool, view: &VdevTreeView, data_errors: u64) -> Option<Self> {
        let devices = || view.walk().filter(|v| v.children.is_empty());
        let has = |state: &str| devices().any(|v| v.state == state);
        let is_other = |v: &&VdevView| v.remark == Reason::BadLabel.to_string();
        let is_late = |l: &NodeRef<'_>| matches!(l.reason(), Reason::Behind(_));
        let late: Vec<u64> =
            pool.vdevs().leaves().filter(is_late).map(|leaf| leaf.guid()).collect();
        let missing = || {
            let is_gone = |v: &VdevView| v.state == "UNAVAIL" && !late.contains(&v.guid);
            devices().any(|v| is_gone(v) && !is_other(&v))
        };
        let other = || devices().any(|v| is_other(&v));
        let root = pool.vdevs().root().state();
        let holds = |c: &Self| match c {
            Self::Resilvering => pool.is_resilvering(),
            Self::Suspended => pool.is_waiting(),
            Self::Stopped => pool.suspended().is_some(),
            Self::MissingFatal => missing() && !root.is_readable(),
            Self::BadLabelFatal => other() && !root.is_readable(),
            Self::DataErrors => data_errors > 0,
            Self::Faulted => has("FAULTED") && !other(),
            Self::Missing => missing(),
            Self::BadLabel => other(),
            Self::Behind => !late.is_empty(),
            Self::Lacking => pool.vdevs().leaves().any(lacks_something),
            Self::Astray => !pool.astray().is_empty(),
            Self::DeviceErrors => {
                let errors = |v: &VdevView| v.read_errors + v.write_errors + v.checksum_errors;
                devices().any(|v| v.state == "DEGRADED") || view.walk().any(|v| errors(v) > 0)
            }
            Self::Offline => has("OFFLINE"),
            Self::Removed => has("REMOVED"),
            Self::OldVersion => pool.config().version < VERSION_FEATURES,
            Self::FeaturesDisabled => pool.lacks_features(),
        };
        let all = [
            Self::Suspended,
            Self::Stopped,
            Self::Resilvering,
            Self::MissingFatal,
            Self::BadLabelFatal,
            Self::DataErrors,
            // What is written to them is lost, whatever others there are.
            Self::Astray,
            Self::Faulted,
            Self::Missing,
            Self::BadLabel,
            Self::Behind,
            Self::Lacking,
            Self::DeviceErrors,
            Self::Offline,
            Self::Removed,
            Self::OldVersion,
            Self::FeaturesDisabled,
        ];
        all.into_iter().find(holds)
    }
}

impl Pool {
    /// A resilver runs; not one that was broken off when the pool was closed.
    pub(super) fn is_resilvering(&self) -> bool {
        let scan = self.scan_state().ok().flatten();
        let is_one =
            |s: ScanState| s.function() == Function::Resilver && s.state() == State::Active;
        scan.is_some_and(is_one) && !self.is_scan_left()
    }

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
