//! The properties of pools and vdevs, in the order in which `zpool get all` prints them.
//!
//! Pure tables; the types and the lookups are in [`crate::props`]. Facts as of OpenZFS 2.3. Values
//! that a user sets are in the ZAP [`crate::mos::POOL_PROPS`], or in the vdev's ZAP, under their
//! name. `feature@NAME` and `unsupported@GUID` come after these and are not listed here.

use crate::props::Access::{OnceInherit, ReadOnly, Settable};
use crate::props::ListAlignment::{Hidden, Left, Right};
use crate::props::{Access, ListAlignment, ValueKind, applies};
use crate::props::{BOOLEAN, Names, PropertyDesc, index, number, text};

/// A native property of pools by its name or its column's heading in small letters, as `zpool`
/// takes them (`listsnaps` for `listsnapshots`).
#[must_use]
pub fn find_pool(name: &str) -> Option<&'static PropertyDesc> {
    crate::props::find_by_heading(&POOL, name)
}

static FAILMODE: Names = &[("wait", 0), ("continue", 1), ("panic", 2)];
static ALLOCATING: Names = &[("off", 0), ("on", 1), ("-", 2)];

const fn pool(
    name: &'static str,
    kind: ValueKind,
    access: Access,
    shown: ListAlignment,
    column: &'static str,
    values: &'static str,
) -> PropertyDesc {
    PropertyDesc { name, kind, access, applies: applies::POOL, shown, column, values }
}

/// Every property of pools.
#[rustfmt::skip]
pub static POOL: [PropertyDesc; 40] = [
    pool("name", text(None), ReadOnly, Hidden, "NAME", ""),
    pool("size", number(0), ReadOnly, Right, "SIZE", "<size>"),
    pool("capacity", number(0), ReadOnly, Right, "CAP", "<percent>"),
    pool("altroot", text(None), Settable, Left, "ALTROOT", "<path>"),
    pool("health", number(0), ReadOnly, Right, "HEALTH", "<state>"),
    pool("guid", number(0), ReadOnly, Right, "GUID", "<guid>"),
    pool("version", number(5000), Settable, Right, "VERSION", "<version>"),
    pool("bootfs", text(None), Settable, Left, "BOOTFS", "<filesystem>"),
    pool("delegation", index(1, BOOLEAN), Settable, Left, "DELEGATION", "on | off"),
    pool("autoreplace", index(0, BOOLEAN), Settable, Left, "REPLACE", "on | off"),
    pool("cachefile", text(None), Settable, Left, "CACHEFILE", "<file> | none"),
    pool("failmode", index(0, FAILMODE), Settable, Left, "FAILMODE", "wait | continue | panic"),
    pool("listsnapshots", index(0, BOOLEAN), Settable, Left, "LISTSNAPS", "on | off"),
    pool("autoexpand", index(0, BOOLEAN), Settable, Left, "EXPAND", "on | off"),
    pool("dedupditto", number(0), Settable, Hidden, "DEDUPDITTO", ""),
    pool("dedupratio", number(0), ReadOnly, Right, "DEDUP", "<1.00x or higher if deduped>"),
    pool("free", number(0), ReadOnly, Right, "FREE", "<size>"),
    pool("allocated", number(0), ReadOnly, Right, "ALLOC", "<size>"),
    pool("readonly", index(0, BOOLEAN), Settable, Left, "RDONLY", "on | off"),
    pool("ashift", number(0), Settable, Right, "ASHIFT", "<ashift, 9-16, or 0=default>"),
    pool("comment", text(None), Settable, Left, "COMMENT", "<comment-string>"),
    pool("expandsize", number(0), ReadOnly, Right, "EXPANDSZ", "<size>"),
    pool("freeing", number(0), ReadOnly, Right, "FREEING", "<size>"),
    pool("fragmentation", number(0), ReadOnly, Right, "FRAG", "<percent>"),
    pool("leaked", number(0), ReadOnly, Right, "LEAKED", "<size>"),
    pool("maxblocksize", number(0), ReadOnly, Hidden, "MAXBLOCKSIZE", ""),
    pool("tname", text(None), OnceInherit, Hidden, "TNAME", ""),
    pool("maxdnodesize", number(0), ReadOnly, Hidden, "MAXDNODESIZE", ""),
    pool("multihost", index(0, BOOLEAN), Settable, Left, "MULTIHOST", "on | off"),
    pool("checkpoint", number(0), ReadOnly, Right, "CKPOINT", "<size>"),
    pool("load_guid", number(0), ReadOnly, Right, "LOAD_GUID", "<load_guid>"),
    pool("autotrim", index(0, BOOLEAN), Settable, Left, "AUTOTRIM", "on | off"),
    pool("compatibility", text(Some("off")), Settable, Left, "COMPATIBILITY",
        "<file[,file...]> | off | legacy"),
    pool("bcloneused", number(0), ReadOnly, Right, "BCLONE_USED", "<size>"),
    pool("bclonesaved", number(0), ReadOnly, Right, "BCLONE_SAVED", "<size>"),
    pool("bcloneratio", number(0), ReadOnly, Right, "BCLONE_RATIO", "<1.00x or higher if cloned>"),
    pool("dedup_table_size", number(0), ReadOnly, Right, "DDTSIZE", "<size>"),
    pool("dedup_table_quota", number(u64::MAX), Settable, Right, "DDTQUOTA", "<size>"),
    pool("dedupcached", number(0), ReadOnly, Hidden, "DEDUPCACHED", ""),
    pool("last_scrubbed_txg", number(0), ReadOnly, Right, "LAST_SCRUBBED_TXG", "<txg>"),
];

const fn vdev(
    name: &'static str,
    kind: ValueKind,
    access: Access,
    shown: ListAlignment,
    column: &'static str,
    values: &'static str,
) -> PropertyDesc {
    PropertyDesc { name, kind, access, applies: applies::VDEV, shown, column, values }
}

/// Every property of vdevs.
#[rustfmt::skip]
pub static VDEV: [PropertyDesc; 52] = [
    vdev("name", text(None), ReadOnly, Hidden, "NAME", ""),
    vdev("capacity", number(0), ReadOnly, Right, "CAP", "<size>"),
    vdev("state", number(0), ReadOnly, Right, "STATE", "<state>"),
    vdev("guid", number(0), ReadOnly, Right, "GUID", "<guid>"),
    vdev("asize", number(0), ReadOnly, Right, "ASIZE", "<asize>"),
    vdev("psize", number(0), ReadOnly, Right, "PSIZE", "<psize>"),
    vdev("ashift", number(0), ReadOnly, Right, "ASHIFT", "<ashift>"),
    vdev("size", number(0), ReadOnly, Right, "SIZE", "<size>"),
    vdev("free", number(0), ReadOnly, Right, "FREE", "<size>"),
    vdev("allocated", number(0), ReadOnly, Right, "ALLOC", "<size>"),
    vdev("comment", text(None), Settable, Left, "COMMENT", "<comment-string>"),
    vdev("expandsize", number(0), ReadOnly, Right, "EXPANDSZ", "<size>"),
    vdev("fragmentation", number(0), ReadOnly, Right, "FRAG", "<percent>"),
    vdev("bootsize", number(0), ReadOnly, Right, "BOOTSIZE", "<size>"),
    vdev("parity", number(0), ReadOnly, Right, "PARITY", "<parity>"),
    vdev("path", text(None), Settable, Left, "PATH", "<device-path>"),
    vdev("devid", text(None), ReadOnly, Left, "DEVID", "<devid>"),
    vdev("physpath", text(None), ReadOnly, Left, "PHYSPATH", "<physpath>"),
    vdev("encpath", text(None), ReadOnly, Left, "ENCPATH", "<encpath>"),
    vdev("fru", text(None), ReadOnly, Left, "FRU", "<fru>"),
    vdev("parent", text(None), ReadOnly, Left, "PARENT", "<parent>"),
    vdev("children", text(None), ReadOnly, Left, "CHILDREN", "<child[,...]>"),
    vdev("numchildren", number(0), ReadOnly, Right, "NUMCHILD", "<number-of-children>"),
    vdev("read_errors", number(0), ReadOnly, Right, "RDERR", "<errors>"),
    vdev("write_errors", number(0), ReadOnly, Right, "WRERR", "<errors>"),
    vdev("checksum_errors", number(0), ReadOnly, Right, "CKERR", "<errors>"),
    vdev("initialize_errors", number(0), ReadOnly, Right, "INITERR", "<errors>"),
    vdev("null_ops", number(0), ReadOnly, Right, "NULLOP", "<operations>"),
    vdev("read_ops", number(0), ReadOnly, Right, "READOP", "<operations>"),
    vdev("write_ops", number(0), ReadOnly, Right, "WRITEOP", "<operations>"),
    vdev("free_ops", number(0), ReadOnly, Right, "FREEOP", "<operations>"),
    vdev("claim_ops", number(0), ReadOnly, Right, "CLAIMOP", "<operations>"),
    vdev("trim_ops", number(0), ReadOnly, Right, "TRIMOP", "<operations>"),
    vdev("null_bytes", number(0), ReadOnly, Right, "NULLBYTE", "<bytes>"),
    vdev("read_bytes", number(0), ReadOnly, Right, "READBYTE", "<bytes>"),
    vdev("write_bytes", number(0), ReadOnly, Right, "WRITEBYTE", "<bytes>"),
    vdev("free_bytes", number(0), ReadOnly, Right, "FREEBYTE", "<bytes>"),
    vdev("claim_bytes", number(0), ReadOnly, Right, "CLAIMBYTE", "<bytes>"),
    vdev("trim_bytes", number(0), ReadOnly, Right, "TRIMBYTE", "<bytes>"),
    vdev("removing", index(0, BOOLEAN), ReadOnly, Left, "REMOVING", "on | off"),
    vdev("allocating", index(1, ALLOCATING), Settable, Left, "ALLOCATING", "on | off"),
    vdev("failfast", index(1, BOOLEAN), Settable, Left, "FAILFAST", "on | off"),
    vdev("checksum_n", number(u64::MAX), Settable, Right, "CKSUM_N", "<events>"),
    vdev("checksum_t", number(u64::MAX), Settable, Right, "CKSUM_T", "<seconds>"),
    vdev("io_n", number(u64::MAX), Settable, Right, "IO_N", "<events>"),
    vdev("io_t", number(u64::MAX), Settable, Right, "IO_T", "<seconds>"),
    vdev("raidz_expanding", index(0, BOOLEAN), ReadOnly, Left, "RAIDZ_EXPANDING", "on | off"),
    vdev("slow_io_n", number(u64::MAX), Settable, Right, "SLOW_IO_N", "<events>"),
    vdev("slow_io_t", number(u64::MAX), Settable, Right, "SLOW_IO_T", "<seconds>"),
    vdev("trim_support", index(0, BOOLEAN), ReadOnly, Left, "TRIMSUP", "on | off"),
    vdev("trim_errors", number(0), ReadOnly, Right, "TRIMERR", "<errors>"),
    vdev("slow_ios", number(0), ReadOnly, Right, "SLOW", "<slowios>"),
];
