//! The conditions of a pool, in the words of OpenZFS.
//!
//! The texts are part of the interface: monitoring scripts match them.

use engine::pools::Condition;

const DOCS: &str = "https://openzfs.github.io/openzfs-docs/msg/";

/// The condition; lines after the first begin with a tab.
#[must_use]
pub fn text(condition: Condition) -> &'static str {
    texts(condition).0
}

/// The advice; lines after the first begin with a tab.
#[must_use]
pub fn action(condition: Condition) -> &'static str {
    texts(condition).1
}

/// Where to read about it.
#[must_use]
pub fn see_also(condition: Condition) -> Option<String> {
    texts(condition).2.map(|page| format!("{DOCS}{page}"))
}

/// Text, advice, and number of the page of documentation.
fn texts(condition: Condition) -> (&'static str, &'static str, Option<&'static str>) {
    match condition {
        Condition::Resilvering => (
            "One or more devices is currently being resilvered.  The pool will\n\t\
             continue to function, possibly in a degraded state.",
            "Wait for the resilver to complete.",
            None,
        ),
        Condition::TakenOver => (
            "Another writer has taken over a device of the pool.  What was not durable\n\t\
             here by then is lost.",
            "Close the pool here using 'zinc zpool export -f'.  It goes on where the other\n\t\
             writer is, which `zinc far ls` of the device names.",
            None,
        ),
        Condition::Suspended => (
            "One or more devices are faulted in response to IO failures.",
            "Make sure the affected devices are connected, then run 'zpool clear'.",
            Some("ZFS-8000-HC"),
        ),
        Condition::Stopped => (
            "One or more devices are faulted in response to IO failures.",
            "Make sure the affected devices are connected and have room, then end the\n\t\
             server of the pool (`zinc zpool export -f`) and import it again.",
            Some("ZFS-8000-HC"),
        ),
        Condition::BadLabelFatal => (
            "One or more devices could not be used because the label is missing\n\t\
             or invalid.  There are insufficient replicas for the pool to continue\n\t\
             functioning.",
            "Copy out what can still be read using `zinc rescue`.  Only then\n\t\
             destroy the pool, and re-create it from that or a backup source.",
            Some("ZFS-8000-5E"),
        ),
        Condition::MissingFatal => (
            "One or more devices could not be opened.  There are insufficient\n\t\
             replicas for the pool to continue functioning.",
            "Attach the missing device and online it using 'zpool online'.  When it is\n\t\
             gone for good, `zinc rescue` copies out what the others hold.",
            Some("ZFS-8000-3C"),
        ),
        Condition::DataErrors => (
            "One or more devices has experienced an error resulting in data\n\t\
             corruption.  Applications may be affected.",
            "Restore the file in question if possible; `zinc rescue` copies out what can\n\t\
             be read of all.  Otherwise restore the entire pool from backup.",
            Some("ZFS-8000-8A"),
        ),
        Condition::Faulted => (
            "One or more devices are faulted in response to persistent errors.\n\t\
             Sufficient replicas exist for the pool to continue functioning in a\n\t\
             degraded state.",
            "Replace the faulted device, or use 'zpool clear' to mark the device\n\t\
             repaired.",
            None,
        ),
        Condition::Missing => (
            "One or more devices could not be opened.  Sufficient replicas exist for\n\t\
             the pool to continue functioning in a degraded state.",
            "Attach the missing device and online it using 'zpool online'.",
            Some("ZFS-8000-2Q"),
        ),
        Condition::BadLabel => (
            "One or more devices could not be used because the label is missing or\n\t\
             invalid.  Sufficient replicas exist for the pool to continue\n\t\
             functioning in a degraded state.",
            "Replace the device using 'zpool replace'.",
            Some("ZFS-8000-4J"),
        ),
        Condition::Behind => (
            "One or more devices missed writes and are out of date.",
            "The next command that changes the pool resilvers them;\n\t\
             `zinc zpool resilver` does it at once.",
            None,
        ),
        Condition::Diverged => (
            "One or more devices were written without the others, and have changes that\n\t\
             the others lack.  The pool can be read, and not be changed.",
            "Discard the changes of such a device using 'zinc zpool online'; to keep them,\n\t\
             disconnect the other devices.",
            None,
        ),
        Condition::SpareMissing => (
            "One or more hot spares could not be opened.  None of them is in use, so\n\t\
             the data and its redundancy are not affected.",
            "Attach the missing spare, or remove it using 'zpool remove'.",
            None,
        ),
        Condition::Lacking => (
            "One or more devices lack a part of what was written while they were absent.\n\t\
             It is read from the others.",
            "The next command that changes the pool resilvers them;\n\t\
             `zinc zpool resilver` does it at once.",
            None,
        ),
        Condition::Displaced => (
            "One or more devices were deleted, moved or replaced while\n\t\
             they were in use.  What is written to them is lost when the pool is closed.",
            "Copy the data out before the pool is exported or its server ends, or put\n\t\
             the device back where it was.  With enough redundancy the pool does\n\t\
             without it from the next txg on.",
            None,
        ),
        Condition::Short => (
            "One or more devices are smaller than the pool expects, or were for a while.\n\t\
             What they had behind that end may be missing.",
            "Give the device its size again, and run 'zpool clear': it is used again,\n\t\
             and a scrub finds what is missing.  A server does so by itself.  With enough\n\t\
             redundancy the pool does without the device from the next txg on.",
            None,
        ),
        Condition::DeviceErrors => (
            "One or more devices has experienced an unrecoverable error.  An\n\t\
             attempt was made to correct the error.  Applications are unaffected.",
            "Determine if the device needs to be replaced, and clear the errors\n\t\
             using 'zpool clear' or replace the device with 'zpool replace'.",
            Some("ZFS-8000-9P"),
        ),
        Condition::Offline => (
            "One or more devices has been taken offline by the administrator.\n\t\
             Sufficient replicas exist for the pool to continue functioning in a\n\t\
             degraded state.",
            "Online the device using 'zpool online' or replace the device with\n\t\
             'zpool replace'.",
            None,
        ),
        Condition::Removed => (
            "One or more devices has been removed by the administrator.\n\t\
             Sufficient replicas exist for the pool to continue functioning in a\n\t\
             degraded state.",
            "Online the device using zpool online' or replace the device with\n\t\
             'zpool replace'.",
            None,
        ),
        Condition::OldVersion => (
            "The pool is formatted using a legacy on-disk format.  The pool can\n\t\
             still be used, but some features are unavailable.",
            "Upgrade the pool using 'zpool upgrade'.  Once this is done, the\n\t\
             pool will no longer be accessible on software that does not support\n\t\
             feature flags.",
            None,
        ),
        Condition::UnreadSet => (
            "This pool has a compatibility list specified, but it could not be\n\t\
             read/parsed at this time. The pool can still be used, but this\n\t\
             should be investigated.",
            "Check the value of the 'compatibility' property against the\n\t\
             appropriate file in /etc/zfs/compatibility.d or\n\t\
             /usr/share/zfs/compatibility.d.",
            None,
        ),
        Condition::OutsideSet => (
            "One or more features are enabled on the pool despite not being\n\t\
             requested by the 'compatibility' property.",
            "Consider setting 'compatibility' to an appropriate value, or\n\t\
             adding needed features to the relevant file in\n\t\
             /etc/zfs/compatibility.d or /usr/share/zfs/compatibility.d.",
            None,
        ),
        Condition::FeaturesDisabled => (
            "Some supported and requested features are not enabled on the pool.\n\t\
             The pool can still be used, but some features are unavailable.",
            "Enable all features using 'zpool upgrade'. Once this is done,\n\t\
             the pool may no longer be accessible by software that does not support\n\t\
             the features. See zpool-features(7) for details.",
            None,
        ),
    }
}
