//! DSL directories and datasets: the tree of file systems, volumes, snapshots and clones.
//!
//! Specified in `docs/format/dsl.md`. All of it lives in the MOS. A *directory* is a name in the
//! tree with its quota, properties and space accounting; it points at its head *dataset*. A
//! dataset is the head (live) or a snapshot; the datasets of one directory form a list by
//! `prev_snap` and `next_snap`, from the head back to the origin.
//!
//! ```text
//! dir -- head_dataset --> dataset (head)  --prev_snap--> dataset (snapshot) --> ... --> origin
//!  |                                                                     (of a clone: elsewhere)
//!  +-- child_zap: name -> dir      snapnames_zap (of the head): name -> dataset
//! ```
//!
//! Both are the bonus of an object of their own. When the object has a ZAP as its data as well
//! (feature `extensible_dataset`, "zapified"), that ZAP holds the fields invented later; their
//! keys are in [`dir_field`] and [`dataset_field`].

pub mod crypt;
pub mod deleg;
pub mod holds;

use crate::blkptr::BlkPtr;
use crate::wordstruct::word_struct;

/// Directory of the MOS itself, for its space accounting: child of the root directory.
pub const MOS_DIR_NAME: &str = "$MOS";
/// Directory of the origin snapshot of every file system that is not a clone.
pub const ORIGIN_DIR_NAME: &str = "$ORIGIN";
/// Name of the snapshot in [`ORIGIN_DIR_NAME`].
pub const ORIGIN_SNAPSHOT_NAME: &str = "$ORIGIN";
/// Directory that accounts for what is being freed in the background.
pub const FREE_DIR_NAME: &str = "$FREE";
/// Directory below a dataset into which a stream is received that is to be in its place.
pub const RECV_DIR_NAME: &str = "%recv";
/// Directory that accounts for what was leaked because its tree could not be read.
pub const LEAK_DIR_NAME: &str = "$LEAK";

word_struct! {
    /// A DSL directory (bonus type "DSL directory", 256 bytes). Sizes in bytes, objects in the MOS.
    pub struct DslDir("dsl dir") {
        /// Not used by OpenZFS; seconds since 1970.
        pub creation_time: u64,
        /// Head dataset; 0 for `$MOS`, `$FREE` and `$LEAK`.
        pub head_dataset: u64,
        /// Directory above; 0 for the root.
        pub parent: u64,
        /// Snapshot this clone was made of; since pool version 11 the origin snapshot `$ORIGIN`
        /// for all others.
        pub origin: u64,
        /// ZAP: child name to directory.
        pub child_zap: u64,
        /// Space used by this and everything below, with reservations.
        pub used: u64,
        /// The same as stored, without RAID-Z overhead and copies.
        pub compressed: u64,
        /// The same before compression.
        pub uncompressed: u64,
        /// `quota`; 0: none.
        pub quota: u64,
        /// `reservation`.
        pub reserved: u64,
        /// ZAP of properties.
        pub props_zap: u64,
        /// ZAP of delegated permissions; 0: none. See [`deleg`].
        pub deleg_zap: u64,
        /// `DslDir::FLAG_*`.
        pub flags: u64,
        /// Parts of `used`, by `DslDir::USED_*`; valid with [`DslDir::FLAG_USED_BREAKDOWN`].
        pub used_breakdown: [u64; 5],
        /// ZAP whose keys are the heads of clones of this one's snapshots; 0: none.
        pub clones: u64,
        pad: [u64; 13],
    }
}

impl DslDir {
    /// `used_breakdown` is kept up (pool version 13).
    pub const FLAG_USED_BREAKDOWN: u64 = 1 << 0;
    /// Index in `used_breakdown`: the head dataset itself (`usedbydataset`).
    pub const USED_HEAD: usize = 0;
    /// Index: snapshots (`usedbysnapshots`).
    pub const USED_SNAP: usize = 1;
    /// Index: children.
    pub const USED_CHILD: usize = 2;
    /// Index: reserved by children and not yet used; `usedbychildren` is this plus the former.
    pub const USED_CHILD_RESERVED: usize = 3;
    /// Index: `usedbyrefreservation`.
    pub const USED_REF_RESERVED: usize = 4;
}

/// Keys of the ZAP of a zapified directory.
pub mod dir_field {
    /// File systems below, with this one; kept once a limit was set.
    pub const FILESYSTEM_COUNT: &str = "com.joyent:filesystem_count";
    /// Snapshots of this and below.
    pub const SNAPSHOT_COUNT: &str = "com.joyent:snapshot_count";
    /// The DSL crypto key object; see [`super::crypt`].
    pub const CRYPTO_KEY_OBJ: &str = "com.datto:crypto_key_obj";
    /// The livelist (of a clone), a dead list object.
    pub const LIVELIST: &str = "com.delphix:livelist";
    /// Time of the last change to the list of snapshots: two words, seconds and nanoseconds.
    pub const SNAPSHOTS_CHANGED: &str = "com.ixsystems:snapshots_changed";
}

word_struct! {
    /// A DSL dataset (bonus type "DSL dataset", 320 bytes). Sizes in bytes, objects in the MOS.
    pub struct DslDataset("dsl dataset") {
        /// Directory it belongs to.
        pub dir: u64,
        /// Snapshot before this; of the first: the origin.
        pub prev_snap: u64,
        /// Txg of that snapshot: blocks born later are this dataset's own.
        pub prev_snap_txg: u64,
        /// Snapshot after this, or the head; 0 for a head.
        pub next_snap: u64,
        /// ZAP: snapshot name to dataset; only for a head, 0 for snapshots.
        pub snapnames_zap: u64,
        /// Of a snapshot: clones made of it plus one for what comes next. Of a head: 0.
        pub num_children: u64,
        /// Seconds since 1970.
        pub creation_time: u64,
        /// Txg it was made in.
        pub creation_txg: u64,
        /// Dead list: blocks of the previous snapshot this one does not have any more.
        pub deadlist: u64,
        /// Space reachable from here, shared or not.
        pub referenced: u64,
        /// The same without RAID-Z overhead and copies.
        pub compressed: u64,
        /// The same before compression.
        pub uncompressed: u64,
        /// Space that only this snapshot holds; of a head: not shared with the last snapshot.
        pub unique: u64,
        /// 56-bit identifier for `statfs`; changes to avoid collisions.
        pub fsid_guid: u64,
        /// Identifier for life: incremental sends match by it.
        pub guid: u64,
        /// `DslDataset::FLAG_*`.
        pub flags: u64,
        /// Root of the object set.
        pub bp: BlkPtr,
        /// ZAP of a snapshot: keys are the datasets that come next (clones' heads). Pool
        /// version 11.
        pub next_clones: u64,
        /// ZAP of properties of a snapshot itself; 0: none. Pool version 12.
        pub props: u64,
        /// ZAP of user holds of a snapshot: tag to time; 0: none. Pool version 18.
        pub userrefs: u64,
        pad: [u64; 5],
    }
}

impl DslDataset {
    /// In the middle of a receive or destroy: not usable.
    pub const FLAG_INCONSISTENT: u64 = 1 << 0;
    /// Must not be promoted.
    pub const FLAG_NO_PROMOTE: u64 = 1 << 1;
    /// `unique` of a head is right (pool version 9).
    pub const FLAG_UNIQUE_ACCURATE: u64 = 1 << 2;
    /// Destroyed with `-d`: goes away with its last hold or clone.
    pub const FLAG_DEFER_DESTROY: u64 = 1 << 3;
    /// Names are looked up without regard to case.
    pub const FLAG_CASE_INSENSITIVE: u64 = 1 << 16;

    /// A snapshot, not a head: only snapshots have children.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.num_children != 0
    }

    /// Half received or half destroyed.
    #[must_use]
    pub fn is_inconsistent(&self) -> bool {
        self.flags & Self::FLAG_INCONSISTENT != 0
    }
}

/// Keys of the ZAP of a zapified dataset. The GUID of a feature as key means that the dataset uses
/// it; the value is 0, or for `com.delphix:redacted_datasets` an array.
pub mod dataset_field {
    /// ZAP of bookmarks: name to [`crate::bookmark::Bookmark`].
    pub const BOOKMARKS: &str = "com.delphix:bookmarks";
    /// Dead list of blocks whose addresses were remapped after a device removal.
    pub const REMAP_DEADLIST: &str = "com.delphix:remap_deadlist";
    /// Identifies the set of IVs of a raw-sent encrypted snapshot.
    pub const IVSET_GUID: &str = "com.datto:ivset_guid";
    /// GUIDs of the snapshots this dataset is redacted against (array of words).
    pub const REDACTED_DATASETS: &str = "com.delphix:redacted_datasets";

    /// Resumable receive: GUID of the incremental source.
    pub const RESUME_FROMGUID: &str = "com.delphix:resume_fromguid";
    /// Resumable receive: GUID of the stream's snapshot.
    pub const RESUME_TOGUID: &str = "com.delphix:resume_toguid";
    /// Resumable receive: name of the stream's snapshot.
    pub const RESUME_TONAME: &str = "com.delphix:resume_toname";
    /// Resumable receive: object to go on with.
    pub const RESUME_OBJECT: &str = "com.delphix:resume_object";
    /// Resumable receive: offset in that object.
    pub const RESUME_OFFSET: &str = "com.delphix:resume_offset";
    /// Resumable receive: bytes received so far.
    pub const RESUME_BYTES: &str = "com.delphix:resume_bytes";
    /// Resumable receive: the stream has large blocks.
    pub const RESUME_LARGEBLOCK: &str = "com.delphix:resume_largeblockok";
    /// Resumable receive: the stream has embedded blocks.
    pub const RESUME_EMBEDOK: &str = "com.delphix:resume_embedok";
    /// Resumable receive: the stream has compressed blocks.
    pub const RESUME_COMPRESSOK: &str = "com.delphix:resume_compressok";
    /// Resumable receive: a raw stream.
    pub const RESUME_RAWOK: &str = "com.datto:resume_rawok";
    /// Resumable receive: redaction snapshots of the stream.
    pub const RESUME_REDACT_BOOKMARK_SNAPS: &str = "com.delphix:resume_redact_book_snaps";
}

/// Properties of a dataset in its directory's (snapshot: its own) property ZAP.
///
/// A property's value is under its name; numbers and enumerations are one word, texts are bytes
/// with a final NUL. The suffixes tell where else a value came from.
pub mod prop_suffix {
    /// Received with a stream; in effect unless a local value covers it.
    pub const RECEIVED: &str = "$recvd";
    /// Explicitly inherited, although a received value is there.
    pub const INHERIT: &str = "$inherit";
    /// The value in effect, where older software would not know it: that reads the plain name,
    /// which then has the default (`redundant_metadata` of `some` and `none`).
    pub const IUV: &str = "$iuv";
    /// Not a suffix: the key that says the dataset has received properties.
    pub const HAS_RECEIVED: &str = "$hasrecvd";
}
