//! Well-known names: keys of the MOS's object directory and of the vdevs' ZAPs.
//!
//! Specified in `docs/format/dsl.md`. Object 1 of the MOS is a ZAP through which everything else
//! in the pool is found. Unless stated otherwise the value is one word, an object number.

/// Object number of the object directory.
pub const DIRECTORY_OBJECT: u64 = 1;

/// Root of the DSL: the [directory](crate::dsl::DslDir) with the pool's name.
pub const ROOT_DATASET: &str = "root_dataset";
/// Packed nvlist of the pool's configuration.
pub const CONFIG: &str = "config";
/// Block pointer object of frees that wait for the next txg. Named after its old form.
pub const SYNC_BPOBJ: &str = "sync_bplist";
/// Block pointer object of frees in the background (dead lists of destroyed snapshots).
pub const FREE_BPOBJ: &str = "free_bpobj";
/// The empty block pointer object that all empty dead lists share; its refcount is with the
/// feature `empty_bpobj`.
pub const EMPTY_BPOBJ: &str = "empty_bpobj";
/// [Queue](crate::bpobj::bptree) of destroyed datasets.
pub const BPTREE_OBJ: &str = "bptree_obj";
/// Livelists of destroyed clones whose blocks are being freed: ZAP whose keys are numbers.
pub const DELETED_CLONES: &str = "com.delphix:deleted_clones";
/// Value 1: RAID-Z space is reported without its overhead (all pools since version 3).
pub const DEFLATE: &str = "deflate";
/// Log of commands.
pub const HISTORY: &str = "history";
/// Version the pool was made with (a number).
pub const CREATION_VERSION: &str = "creation_version";
/// ZAP of pool properties.
pub const POOL_PROPS: &str = "pool_props";
/// Packed nvlist of spares.
pub const SPARES: &str = "spares";
/// Packed nvlist of cache devices.
pub const L2CACHE: &str = "l2cache";
/// ZAP of [temporary holds](crate::dsl::holds).
pub const TMP_USERREFS: &str = "tmp_userrefs";
/// 32 bytes that salt the checksums skein, edonr and blake3 (an array of bytes).
pub const CHECKSUM_SALT: &str = "org.illumos:checksum_salt";
/// ZAP: object number of a vdev's ZAP (as a number key), for orphans to be found.
pub const VDEV_ZAP_MAP: &str = "com.delphix:vdev_zap_map";

/// ZAP: GUID of a feature one must know to read, to its reference count.
pub const FEATURES_FOR_READ: &str = "features_for_read";
/// ZAP: GUID of a feature one must know to write, to its reference count.
pub const FEATURES_FOR_WRITE: &str = "features_for_write";
/// ZAP: GUID of a feature to a text.
pub const FEATURE_DESCRIPTIONS: &str = "feature_descriptions";
/// ZAP: GUID of a feature to the txg it was enabled in.
pub const FEATURE_ENABLED_TXG: &str = "feature_enabled_txg";

/// State of the last [scrub or resilver](crate::scan::ScanState) (array of words).
pub const SCAN: &str = "scan";
/// State of the last [error scrub](crate::scan::ErrorScrubState) (array of words).
pub const ERROR_SCRUB: &str = "error_scrub";
/// Txg up to which the last complete scrub went (a number).
pub const LAST_SCRUBBED_TXG: &str = "last_scrubbed_txg";
/// Error log of the last scrub; 0: none.
pub const ERRLOG_LAST: &str = "errlog_last";
/// Error log of the scrub that runs; 0: none.
pub const ERRLOG_SCRUB: &str = "errlog_scrub";

/// ZAP: txg to [log space map](crate::spacemap).
pub const LOG_SPACEMAP_ZAP: &str = "com.delphix:log_spacemap_zap";
/// State of the last [device removal](crate::indirect::RemovalState) (array of words).
pub const REMOVING: &str = "com.delphix:removing";
/// Block pointer object of blocks on removed vdevs that were freed.
pub const OBSOLETE_BPOBJ: &str = "com.delphix:obsolete_bpobj";
/// State of [condensing](crate::indirect::CondensingState) an indirect vdev (array of words).
pub const CONDENSING_INDIRECT: &str = "com.delphix:condensing_indirect";
/// The uberblock of the [checkpoint](crate::checkpoint) (array of words).
pub const ZPOOL_CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
/// The prefix of `com.fudosecurity:brt:vdev:N`; see [`crate::brt`].
pub const BRT_VDEV_PREFIX: &str = crate::brt::OBJECT_PREFIX;

/// Keys of the ZAPs of vdevs. A top-level vdev's ZAP is in its configuration as
/// `com.delphix:vdev_zap_top`, a leaf's as `com.delphix:vdev_zap_leaf`, the root's (feature
/// `vdev_zaps_v2`) as `com.klarasystems:vdev_zap_root`.
///
/// The same ZAPs hold the vdev properties that a user set, under their names.
pub mod vdev_zap {
    /// Top: space map of what was freed since the checkpoint.
    pub const CHECKPOINT_SPACE_MAP: &str = "com.delphix:pool_checkpoint_sm";
    /// Top: space map of what is obsolete in an indirect vdev.
    pub const INDIRECT_OBSOLETE_SPACE_MAP: &str = "com.delphix:indirect_obsolete_sm";
    /// Top: the obsolete counts of the mapping are exact (a number).
    pub const OBSOLETE_COUNTS_PRECISE: &str = "com.delphix:obsolete_counts_are_precise";
    /// Top: object with one word per metaslab, the first txg whose changes are not in its own
    /// space map yet but in log space maps.
    pub const METASLAB_UNFLUSHED_TXGS: &str = "com.delphix:ms_unflushed_phys_txgs";
    /// Top: what the vdev is reserved for, a text: `log`, `special` or `dedup`.
    pub const ALLOCATION_BIAS: &str = "org.zfsonlinux:allocation_bias";
    /// Top: state of a sequential [rebuild](crate::scan::RebuildState) (array of words).
    pub const REBUILD: &str = "org.openzfs:vdev_rebuild";
    /// Top: state of a RAID-Z expansion; these four are in [`crate::expand`].
    pub const RAIDZ_EXPAND_STATE: &str = crate::expand::KEY_STATE;

    /// Leaf: offset up to which `zpool initialize` came (a number).
    pub const INITIALIZE_OFFSET: &str = "com.delphix:next_offset_to_initialize";
    /// Leaf: its state: 0 none, 1 active, 2 canceled, 3 suspended, 4 complete.
    pub const INITIALIZE_STATE: &str = "com.delphix:vdev_initialize_state";
    /// Leaf: time of its last change of state, seconds since 1970.
    pub const INITIALIZE_TIME: &str = "com.delphix:vdev_initialize_action_time";
    /// Leaf: offset up to which `zpool trim` came (a number).
    pub const TRIM_OFFSET: &str = "org.zfsonlinux:next_offset_to_trim";
    /// Leaf: its state, as of initialize.
    pub const TRIM_STATE: &str = "org.zfsonlinux:vdev_trim_state";
    /// Leaf: time of its last change of state.
    pub const TRIM_TIME: &str = "org.zfsonlinux:vdev_trim_action_time";
    /// Leaf: bytes per second asked for.
    pub const TRIM_RATE: &str = "org.zfsonlinux:vdev_trim_rate";
    /// Leaf: only metaslabs in use.
    pub const TRIM_PARTIAL: &str = "org.zfsonlinux:vdev_trim_partial";
    /// Leaf: secure trim.
    pub const TRIM_SECURE: &str = "org.zfsonlinux:vdev_trim_secure";
}

/// Keys of the master node of a file system (object 1) and of a volume's property object (2 there
/// being the data's property ZAP; the data is object 1).
pub mod master_node {
    /// Object number of the master node of a file system.
    pub const OBJECT: u64 = 1;
    /// Version of the file system (a number, 1 to 5).
    pub const VERSION: &str = "VERSION";
    /// Root directory.
    pub const ROOT: &str = "ROOT";
    /// ZAP of files that were unlinked while open: keys are object numbers.
    pub const DELETE_QUEUE: &str = "DELETE_QUEUE";
    /// Table of domains for Windows identities.
    pub const FUID: &str = "FUID";
    /// Directory of Windows share ACLs.
    pub const SHARES: &str = "SHARES";
    /// Master node of system attributes.
    pub const SA_ATTRS: &str = "SA_ATTRS";
    /// `utf8only`, as a property value.
    pub const UTF8ONLY: &str = "utf8only";
    /// `normalization`, as a property value.
    pub const NORMALIZATION: &str = "normalization";
    /// `casesensitivity`, as a property value.
    pub const CASE_SENSITIVITY: &str = "casesensitivity";
    /// ZAPs of quotas: identity to limit.
    pub const QUOTAS: [&str; 6] = [
        "userquota@",
        "groupquota@",
        "userobjquota@",
        "groupobjquota@",
        "projectquota@",
        "projectobjquota@",
    ];

    /// Object of a volume's data.
    pub const ZVOL_DATA_OBJECT: u64 = 1;
    /// Object of a volume's properties.
    pub const ZVOL_PROPS_OBJECT: u64 = 2;
    /// Size of the volume in bytes, in the latter.
    pub const ZVOL_SIZE: &str = "size";
}
