//! Pool versions and feature flags: what a pool may demand of a program that opens it.
//!
//! Specified in `docs/format/features.md`. Up to version 28 a number was all. Version 5000 means
//! feature flags: each feature has a guid (`organisation:name`), and the MOS has three ZAPs keyed
//! by it: `features_for_read` and `features_for_write` with the number of things that use the
//! feature (0: enabled, not active), and `feature_descriptions`. A feature that a reader can do
//! without is in the second, any other in the first. Those without which the MOS itself cannot be
//! read are in every label too.
//!
//! An entry of `features_for_read` with a number other than 0 that is not [`Support::Read`] here
//! forbids opening the pool; one of `features_for_write` forbids writing.

/// Oldest pool version with feature flags.
pub const VERSION_FEATURES: u64 = 5000;
/// Newest pool version without.
pub const VERSION_BEFORE_FEATURES: u64 = 28;

/// Readers that do not know the feature can open the pool.
const READ_ONLY_COMPATIBLE: u8 = 1;
/// Needed to read the MOS.
const MOS: u8 = 2;
/// Becomes active by being enabled.
const ACTIVE_WHEN_ENABLED: u8 = 4;
/// Datasets that use it name it.
const PER_DATASET: u8 = 8;
/// The value in a dataset is an array of numbers.
const DATASET_NUMBERS: u8 = 16;

/// The support of this implementation for pools on which a feature is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// Nothing: the name is all that is known.
    None,
    /// Read everything.
    Read,
}

/// A feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Key in the ZAPs, labels and streams: `com.delphix:hole_birth`.
    pub guid: &'static str,
    /// Its effect, in one sentence.
    pub description: &'static str,
    /// Names of the features it needs.
    pub depends: &'static [&'static str],
    /// The support of this implementation.
    pub support: Support,
    flags: u8,
}

impl Feature {
    /// Name in commands and properties: the guid behind the colon.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.guid.split_once(':').map_or(self.guid, |(_, name)| name)
    }

    /// Readers that do not know it can still open the pool read-only.
    #[must_use]
    pub fn is_read_only_compatible(&self) -> bool {
        self.flags & READ_ONLY_COMPATIBLE != 0
    }

    /// Needed to read the MOS; named in labels while active.
    #[must_use]
    pub fn is_needed_for_mos(&self) -> bool {
        self.flags & MOS != 0
    }

    /// Becomes active as soon as it is enabled.
    #[must_use]
    pub fn is_active_when_enabled(&self) -> bool {
        self.flags & ACTIVE_WHEN_ENABLED != 0
    }

    /// Each dataset that uses it has an entry under its guid.
    #[must_use]
    pub fn is_per_dataset(&self) -> bool {
        self.flags & PER_DATASET != 0
    }

    /// That entry is an array of numbers, not just there.
    #[must_use]
    pub fn has_dataset_numbers(&self) -> bool {
        self.flags & DATASET_NUMBERS != 0
    }
}

const fn feature(
    guid: &'static str,
    flags: u8,
    depends: &'static [&'static str],
    description: &'static str,
) -> Feature {
    Feature { guid, description, depends, support: Support::Read, flags }
}

/// All features of OpenZFS 2.3, in its order.
pub const FEATURES: [Feature; 44] = [
    feature(
        "com.delphix:async_destroy",
        READ_ONLY_COMPATIBLE,
        &[],
        "Destroyed file systems are freed in the background.",
    ),
    feature(
        "com.delphix:empty_bpobj",
        READ_ONLY_COMPATIBLE,
        &[],
        "Empty lists of block pointers share one object.",
    ),
    feature("org.illumos:lz4_compress", ACTIVE_WHEN_ENABLED, &[], "LZ4 compression."),
    feature(
        "com.joyent:multi_vdev_crash_dump",
        0,
        &[],
        "Crash dumps to volumes on pools of several vdevs.",
    ),
    feature(
        "com.delphix:spacemap_histogram",
        READ_ONLY_COMPATIBLE,
        &[],
        "Space maps carry histograms of their free segments.",
    ),
    feature(
        "com.delphix:enabled_txg",
        READ_ONLY_COMPATIBLE,
        &[],
        "The txg in which a feature was enabled is recorded.",
    ),
    feature(
        "com.delphix:hole_birth",
        MOS | ACTIVE_WHEN_ENABLED,
        &["enabled_txg"],
        "Holes have birth txgs, so that incremental sends leave out old ones.",
    ),
    feature("com.delphix:extensible_dataset", 0, &[], "Datasets can have additional fields."),
    feature(
        "com.delphix:embedded_data",
        MOS | ACTIVE_WHEN_ENABLED,
        &[],
        "Data that compresses to 112 bytes is stored in the block pointer.",
    ),
    feature(
        "com.delphix:bookmarks",
        READ_ONLY_COMPATIBLE,
        &["extensible_dataset"],
        "Bookmarks: where an incremental send can start without its snapshot.",
    ),
    feature(
        "com.joyent:filesystem_limits",
        READ_ONLY_COMPATIBLE,
        &["extensible_dataset"],
        "Limits on the number of file systems and snapshots.",
    ),
    feature(
        "org.open-zfs:large_blocks",
        PER_DATASET,
        &["extensible_dataset"],
        "Blocks larger than 128 KiB, up to 16 MiB.",
    ),
    feature(
        "org.zfsonlinux:large_dnode",
        PER_DATASET,
        &["extensible_dataset"],
        "Dnodes larger than 512 bytes.",
    ),
    feature("org.illumos:sha512", PER_DATASET, &["extensible_dataset"], "SHA-512/256 checksums."),
    feature("org.illumos:skein", PER_DATASET, &["extensible_dataset"], "Skein checksums."),
    feature("org.illumos:edonr", PER_DATASET, &["extensible_dataset"], "Edon-R checksums."),
    feature(
        "org.zfsonlinux:userobj_accounting",
        READ_ONLY_COMPATIBLE | PER_DATASET,
        &["extensible_dataset"],
        "Objects are counted per user and group.",
    ),
    feature(
        "com.datto:encryption",
        PER_DATASET,
        &["extensible_dataset", "bookmark_v2"],
        "Encrypted datasets.",
    ),
    feature(
        "org.zfsonlinux:project_quota",
        READ_ONLY_COMPATIBLE | PER_DATASET,
        &["extensible_dataset"],
        "Space and objects are counted per project.",
    ),
    feature("com.delphix:device_removal", MOS, &[], "Top-level vdevs can be removed."),
    feature(
        "com.delphix:obsolete_counts",
        READ_ONLY_COMPATIBLE,
        &["extensible_dataset", "device_removal"],
        "Mappings of removed vdevs shrink as their blocks are freed.",
    ),
    feature(
        "com.delphix:zpool_checkpoint",
        READ_ONLY_COMPATIBLE,
        &[],
        "The pool can be checkpointed and rewound to the checkpoint.",
    ),
    feature(
        "com.delphix:spacemap_v2",
        READ_ONLY_COMPATIBLE | ACTIVE_WHEN_ENABLED,
        &[],
        "Space map entries for large segments.",
    ),
    feature(
        "org.zfsonlinux:allocation_classes",
        READ_ONLY_COMPATIBLE,
        &[],
        "Vdevs for metadata, small blocks or deduplication tables.",
    ),
    feature(
        "com.datto:resilver_defer",
        READ_ONLY_COMPATIBLE,
        &[],
        "A new resilver waits for the running one.",
    ),
    feature(
        "com.datto:bookmark_v2",
        0,
        &["extensible_dataset", "bookmarks"],
        "Bookmarks with further members.",
    ),
    feature(
        "com.delphix:redaction_bookmarks",
        0,
        &["bookmark_v2", "extensible_dataset", "bookmarks"],
        "Bookmarks with lists of redacted blocks.",
    ),
    feature(
        "com.delphix:redacted_datasets",
        PER_DATASET | DATASET_NUMBERS,
        &["extensible_dataset"],
        "Datasets received from redacted streams.",
    ),
    feature(
        "com.delphix:bookmark_written",
        0,
        &["bookmark_v2", "extensible_dataset", "bookmarks"],
        "Space written since a bookmark is known.",
    ),
    feature(
        "com.delphix:log_spacemap",
        READ_ONLY_COMPATIBLE,
        &["spacemap_v2"],
        "Allocations are logged for all metaslabs together.",
    ),
    feature(
        "com.delphix:livelist",
        READ_ONLY_COMPATIBLE,
        &["extensible_dataset"],
        "Blocks of clones are tracked for quick destruction.",
    ),
    feature(
        "org.openzfs:device_rebuild",
        READ_ONLY_COMPATIBLE,
        &[],
        "Mirrors and dRAID can be rebuilt in order of offsets.",
    ),
    feature(
        "org.freebsd:zstd_compress",
        PER_DATASET,
        &["extensible_dataset"],
        "Zstandard compression.",
    ),
    feature(
        "org.openzfs:draid",
        MOS,
        &[],
        "dRAID: parity groups and spares spread over all disks.",
    ),
    feature(
        "org.openzfs:zilsaxattr",
        READ_ONLY_COMPATIBLE | PER_DATASET,
        &["extensible_dataset"],
        "Extended attributes in system attributes go to the intent log.",
    ),
    feature(
        "com.delphix:head_errlog",
        ACTIVE_WHEN_ENABLED,
        &[],
        "The error log is kept by dataset.",
    ),
    feature("org.openzfs:blake3", PER_DATASET, &["extensible_dataset"], "BLAKE3 checksums."),
    feature("com.fudosecurity:block_cloning", READ_ONLY_COMPATIBLE, &[], "Files can share blocks."),
    feature("com.klarasystems:vdev_zaps_v2", MOS, &[], "The root vdev has a ZAP of its own."),
    feature(
        "com.delphix:redaction_list_spill",
        0,
        &["redaction_bookmarks"],
        "Redaction lists of more snapshots.",
    ),
    feature("org.openzfs:raidz_expansion", MOS, &[], "RAID-Z vdevs can grow by a disk."),
    feature(
        "com.klarasystems:fast_dedup",
        READ_ONLY_COMPATIBLE,
        &[],
        "Deduplication tables with a log, quotas and pruning.",
    ),
    feature(
        "org.zfsonlinux:longname",
        PER_DATASET,
        &["extensible_dataset"],
        "File names of up to 1023 bytes.",
    ),
    feature(
        "com.klarasystems:large_microzap",
        READ_ONLY_COMPATIBLE | PER_DATASET,
        &["extensible_dataset", "large_blocks"],
        "Micro ZAPs larger than 128 KiB.",
    ),
];

/// The feature with that guid.
#[must_use]
pub fn by_guid(guid: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|f| f.guid == guid)
}

/// The feature with that name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|f| f.name() == name)
}

/// The guids among those of active features that forbid reading.
pub fn unreadable<'a>(guids: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    guids.into_iter().filter(|g| by_guid(g).is_none_or(|f| f.support < Support::Read))
}

/// Pool versions before feature flags, with what each brought.
pub const VERSIONS: [(u64, &str); 28] = [
    (1, "First version"),
    (2, "Several copies of metadata (ditto blocks)"),
    (3, "Hot spares and RAID-Z with two parity columns"),
    (4, "Command history"),
    (5, "gzip compression"),
    (6, "Property bootfs"),
    (7, "Separate intent log devices"),
    (8, "Delegated administration"),
    (9, "Properties refquota and refreservation"),
    (10, "Cache devices"),
    (11, "Faster scrub"),
    (12, "Snapshot properties"),
    (13, "Property snapused"),
    (14, "aclinherit=passthrough-x"),
    (15, "Space accounting by user and group"),
    (16, "Property stmf"),
    (17, "RAID-Z with three parity columns"),
    (18, "User holds on snapshots"),
    (19, "Removal of log devices"),
    (20, "zle compression"),
    (21, "Deduplication"),
    (22, "Received properties"),
    (23, "Slim intent log"),
    (24, "System attributes"),
    (25, "Scrub statistics on disk"),
    (26, "Faster destruction of snapshots"),
    (27, "Faster creation of snapshots"),
    (28, "Replacement of several devices at a time"),
];

/// A pool of that version can be opened, its features permitting.
#[must_use]
pub fn is_known_version(version: u64) -> bool {
    (1..=VERSION_BEFORE_FEATURES).contains(&version) || version == VERSION_FEATURES
}
