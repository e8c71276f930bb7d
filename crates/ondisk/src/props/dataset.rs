//! The native properties of file systems, volumes, snapshots and bookmarks.
//!
//! In the order in which `zfs get all` prints them. Facts as of OpenZFS 2.3.

use super::Access::{Inherit, Once, OnceInherit, ReadOnly, Settable};
use super::ListAlignment::{Hidden, Left, Right};
use super::{BOOLEAN, Names, PropertyDesc, applies, index, number, row, text};

const FS: u8 = applies::FILESYSTEM;
const SNAP: u8 = applies::SNAPSHOT;
const VOL: u8 = applies::VOLUME;
const HEADS: u8 = FS | VOL;
const FS_SNAP: u8 = FS | SNAP;
const VOL_SNAP: u8 = VOL | SNAP;
const DATASETS: u8 = FS | SNAP | VOL;
const ALL: u8 = DATASETS | applies::BOOKMARK;

#[rustfmt::skip]
static CHECKSUM: Names = &[
    ("on", 1), ("off", 2), ("fletcher2", 6), ("fletcher4", 7), ("sha256", 8), ("noparity", 10),
    ("sha512", 11), ("skein", 12), ("edonr", 13), ("blake3", 14)
];
#[rustfmt::skip]
static COMPRESSION: Names = &[
    ("on", 1), ("off", 2), ("lzjb", 3), ("gzip", 10), ("gzip-1", 5), ("gzip-2", 6), ("gzip-3", 7),
    ("gzip-4", 8), ("gzip-5", 9), ("gzip-6", 10), ("gzip-7", 11), ("gzip-8", 12), ("gzip-9", 13),
    ("zle", 14), ("lz4", 15), ("zstd", 16), ("zstd-fast", 13200), ("zstd-1", 144),
    ("zstd-2", 272), ("zstd-3", 400), ("zstd-4", 528), ("zstd-5", 656), ("zstd-6", 784),
    ("zstd-7", 912), ("zstd-8", 1040), ("zstd-9", 1168), ("zstd-10", 1296), ("zstd-11", 1424),
    ("zstd-12", 1552), ("zstd-13", 1680), ("zstd-14", 1808), ("zstd-15", 1936), ("zstd-16", 2064),
    ("zstd-17", 2192), ("zstd-18", 2320), ("zstd-19", 2448), ("zstd-fast-1", 13200),
    ("zstd-fast-2", 13328), ("zstd-fast-3", 13456), ("zstd-fast-4", 13584),
    ("zstd-fast-5", 13712), ("zstd-fast-6", 13840), ("zstd-fast-7", 13968),
    ("zstd-fast-8", 14096), ("zstd-fast-9", 14224), ("zstd-fast-10", 14352),
    ("zstd-fast-20", 14480), ("zstd-fast-30", 14608), ("zstd-fast-40", 14736),
    ("zstd-fast-50", 14864), ("zstd-fast-60", 14992), ("zstd-fast-70", 15120),
    ("zstd-fast-80", 15248), ("zstd-fast-90", 15376), ("zstd-fast-100", 15504),
    ("zstd-fast-500", 15632), ("zstd-fast-1000", 15760)
];
static SNAPDIR: Names = &[("hidden", 0), ("visible", 1), ("disabled", 2)];
static ACLMODE: Names = &[("discard", 0), ("groupmask", 2), ("passthrough", 3), ("restricted", 4)];
#[rustfmt::skip]
static ACLINHERIT: Names = &[
    ("discard", 0), ("noallow", 1), ("restricted", 4), ("passthrough", 3), ("secure", 4),
    ("passthrough-x", 5)
];
static CANMOUNT: Names = &[("off", 0), ("on", 1), ("noauto", 2)];
static XATTR: Names = &[("off", 0), ("on", 2), ("sa", 2), ("dir", 1)];
static COPIES: Names = &[("1", 1), ("2", 2), ("3", 3)];
static VERSION: Names = &[("1", 1), ("2", 2), ("3", 3), ("4", 4), ("5", 5), ("current", 5)];
#[rustfmt::skip]
static NORMALIZATION: Names = &[
    ("none", 0), ("formD", 16), ("formKC", 96), ("formC", 80), ("formKD", 32)
];
static CASESENSITIVITY: Names = &[("sensitive", 0), ("insensitive", 1), ("mixed", 2)];
static CACHE: Names = &[("none", 0), ("metadata", 1), ("all", 2)];
static LOGBIAS: Names = &[("latency", 0), ("throughput", 1)];
#[rustfmt::skip]
static DEDUP: Names = &[
    ("on", 1), ("off", 2), ("verify", 257), ("sha256", 8), ("sha256,verify", 264), ("sha512", 11),
    ("sha512,verify", 267), ("skein", 12), ("skein,verify", 268), ("edonr,verify", 269),
    ("blake3", 14), ("blake3,verify", 270)
];
static SYNC: Names = &[("standard", 0), ("always", 1), ("disabled", 2)];
#[rustfmt::skip]
static DNODESIZE: Names = &[
    ("legacy", 0), ("auto", 1), ("1k", 1024), ("2k", 2048), ("4k", 4096), ("8k", 8192),
    ("16k", 16384)
];
static VOLMODE: Names = &[("default", 0), ("full", 1), ("geom", 1), ("dev", 2), ("none", 3)];
static SNAPDEV: Names = &[("hidden", 0), ("visible", 1)];
#[rustfmt::skip]
static ACLTYPE: Names = &[
    ("off", 0), ("posix", 1), ("nfsv4", 2), ("disabled", 0), ("noacl", 0), ("posixacl", 1)
];
static REDUNDANT_METADATA: Names = &[("all", 0), ("most", 1), ("some", 2), ("none", 3)];
#[rustfmt::skip]
static ENCRYPTION: Names = &[
    ("on", 1), ("off", 2), ("aes-128-ccm", 3), ("aes-192-ccm", 4), ("aes-256-ccm", 5),
    ("aes-128-gcm", 6), ("aes-192-gcm", 7), ("aes-256-gcm", 8)
];
static KEYFORMAT: Names = &[("none", 0), ("raw", 1), ("hex", 2), ("passphrase", 3)];
static KEYSTATUS: Names = &[("none", 0), ("unavailable", 1), ("available", 2)];
static DIRECT: Names = &[("disabled", 0), ("standard", 1), ("always", 2)];

/// Every native property of datasets, in the order in which `zfs get all` prints them.
#[rustfmt::skip]
pub static DATASET: [PropertyDesc; 100] = [
    row("type", text(None), ReadOnly, ALL, Left, "TYPE",
        "filesystem | volume | snapshot | bookmark"),
    row("creation", number(0), ReadOnly, ALL, Left, "CREATION", "<date>"),
    row("used", number(0), ReadOnly, DATASETS, Right, "USED", "<size>"),
    row("available", number(0), ReadOnly, HEADS, Right, "AVAIL", "<size>"),
    row("referenced", number(0), ReadOnly, ALL, Right, "REFER", "<size>"),
    row("compressratio", number(0), ReadOnly, ALL, Right, "RATIO",
        "<1.00x or higher if compressed>"),
    row("mounted", index(0, BOOLEAN), ReadOnly, FS, Left, "MOUNTED", "yes | no"),
    row("origin", text(None), ReadOnly, HEADS, Left, "ORIGIN", "<snapshot>"),
    row("quota", number(0), Settable, FS, Right, "QUOTA", "<size> | none"),
    row("reservation", number(0), Settable, HEADS, Right, "RESERV", "<size> | none"),
    row("volsize", number(0), Settable, VOL_SNAP, Right, "VOLSIZE", "<size>"),
    row("volblocksize", number(16384), OnceInherit, VOL, Right, "VOLBLOCK",
        "512 to 128k, power of 2"),
    row("recordsize", number(131072), Inherit, FS, Right, "RECSIZE", "512 to 16M, power of 2"),
    row("mountpoint", text(Some("/")), Inherit, FS, Left, "MOUNTPOINT", "<path> | legacy | none"),
    row("sharenfs", text(Some("off")), Inherit, FS, Left, "SHARENFS",
        "on | off | NFS share options"),
    row("checksum", index(1, CHECKSUM), Inherit, HEADS, Left, "CHECKSUM",
        "on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3"),
    row("compression", index(1, COMPRESSION), Inherit, HEADS, Left, "COMPRESS",
        "on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | zstd-[1-19] | zstd-fast | \
         zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]"),
    row("atime", index(1, BOOLEAN), Inherit, FS, Left, "ATIME", "on | off"),
    row("devices", index(1, BOOLEAN), Inherit, FS_SNAP, Left, "DEVICES", "on | off"),
    row("exec", index(1, BOOLEAN), Inherit, FS_SNAP, Left, "EXEC", "on | off"),
    row("setuid", index(1, BOOLEAN), Inherit, FS_SNAP, Left, "SETUID", "on | off"),
    row("readonly", index(0, BOOLEAN), Inherit, HEADS, Left, "RDONLY", "on | off"),
    row("zoned", index(0, BOOLEAN), Inherit, FS, Left, "ZONED", "on | off"),
    row("snapdir", index(0, SNAPDIR), Inherit, FS, Left, "SNAPDIR", "disabled | hidden | visible"),
    row("aclmode", index(0, ACLMODE), Inherit, FS, Left, "ACLMODE",
        "discard | groupmask | passthrough | restricted"),
    row("aclinherit", index(4, ACLINHERIT), Inherit, FS, Left, "ACLINHERIT",
        "discard | noallow | restricted | passthrough | passthrough-x"),
    row("createtxg", number(0), ReadOnly, ALL, Right, "CREATETXG", "<uint64>"),
    row("name", text(None), ReadOnly, ALL, Hidden, "NAME", ""),
    row("canmount", index(1, CANMOUNT), Settable, FS, Left, "CANMOUNT", "on | off | noauto"),
    row("iscsioptions", text(None), Inherit, VOL, Hidden, "ISCSIOPTIONS", ""),
    row("xattr", index(2, XATTR), Inherit, FS_SNAP, Left, "XATTR", "on | off | dir | sa"),
    row("numclones", number(0), ReadOnly, SNAP, Hidden, "NUMCLONES", ""),
    row("copies", index(1, COPIES), Inherit, HEADS, Left, "COPIES", "1 | 2 | 3"),
    row("version", index(0, VERSION), Settable, FS_SNAP, Left, "VERSION",
        "1 | 2 | 3 | 4 | 5 | current"),
    row("utf8only", index(0, BOOLEAN), OnceInherit, FS_SNAP, Left, "UTF8ONLY", "on | off"),
    row("normalization", index(0, NORMALIZATION), OnceInherit, FS_SNAP, Left, "NORMALIZATION",
        "none | formC | formD | formKC | formKD"),
    row("casesensitivity", index(0, CASESENSITIVITY), OnceInherit, FS_SNAP, Left, "CASE",
        "sensitive | insensitive | mixed"),
    row("vscan", index(0, BOOLEAN), Inherit, FS, Left, "VSCAN", "on | off"),
    row("nbmand", index(0, BOOLEAN), Inherit, FS_SNAP, Left, "NBMAND", "on | off"),
    row("sharesmb", text(Some("off")), Inherit, FS, Left, "SHARESMB",
        "on | off | SMB share options"),
    row("refquota", number(0), Settable, FS, Right, "REFQUOTA", "<size> | none"),
    row("refreservation", number(0), Settable, HEADS, Right, "REFRESERV", "<size> | none"),
    row("guid", number(0), ReadOnly, ALL, Right, "GUID", "<uint64>"),
    row("primarycache", index(2, CACHE), Inherit, DATASETS, Left, "PRIMARYCACHE",
        "all | none | metadata"),
    row("secondarycache", index(2, CACHE), Inherit, DATASETS, Left, "SECONDARYCACHE",
        "all | none | metadata"),
    row("usedbysnapshots", number(0), ReadOnly, HEADS, Right, "USEDSNAP", "<size>"),
    row("usedbydataset", number(0), ReadOnly, HEADS, Right, "USEDDS", "<size>"),
    row("usedbychildren", number(0), ReadOnly, HEADS, Right, "USEDCHILD", "<size>"),
    row("usedbyrefreservation", number(0), ReadOnly, HEADS, Right, "USEDREFRESERV", "<size>"),
    row("useraccounting", number(0), ReadOnly, DATASETS, Hidden, "USERACCOUNTING", ""),
    row("stmf_sbd_lu", text(None), Inherit, VOL, Hidden, "STMF_SBD_LU", ""),
    row("defer_destroy", index(0, BOOLEAN), ReadOnly, SNAP, Left, "DEFER_DESTROY", "yes | no"),
    row("userrefs", number(0), ReadOnly, SNAP, Right, "USERREFS", "<count>"),
    row("logbias", index(0, LOGBIAS), Inherit, HEADS, Left, "LOGBIAS", "latency | throughput"),
    row("unique", number(0), ReadOnly, DATASETS, Hidden, "UNIQUE", ""),
    row("objsetid", number(0), ReadOnly, DATASETS, Right, "OBJSETID", "<uint64>"),
    row("dedup", index(2, DEDUP), Inherit, HEADS, Left, "DEDUP",
        "on | off | verify | sha256[,verify] | sha512[,verify] | skein[,verify] | edonr,verify | \
         blake3[,verify]"),
    row("mlslabel", text(Some("none")), Inherit, DATASETS, Left, "MLSLABEL", "<sensitivity label>"),
    row("sync", index(0, SYNC), Inherit, HEADS, Left, "SYNC", "standard | always | disabled"),
    row("dnodesize", index(0, DNODESIZE), Inherit, FS, Left, "DNSIZE",
        "legacy | auto | 1k | 2k | 4k | 8k | 16k"),
    row("refcompressratio", number(0), ReadOnly, DATASETS, Right, "REFRATIO",
        "<1.00x or higher if compressed>"),
    row("written", number(0), ReadOnly, DATASETS, Right, "WRITTEN", "<size>"),
    row("clones", text(None), ReadOnly, SNAP, Left, "CLONES", "<dataset>[,...]"),
    row("logicalused", number(0), ReadOnly, HEADS, Right, "LUSED", "<size>"),
    row("logicalreferenced", number(0), ReadOnly, ALL, Right, "LREFER", "<size>"),
    row("inconsistent", number(0), ReadOnly, DATASETS, Hidden, "INCONSISTENT", ""),
    row("volmode", index(0, VOLMODE), Inherit, HEADS, Left, "VOLMODE",
        "default | full | geom | dev | none"),
    row("filesystem_limit", number(u64::MAX), Settable, FS, Right, "FSLIMIT", "<count> | none"),
    row("snapshot_limit", number(u64::MAX), Settable, HEADS, Right, "SSLIMIT", "<count> | none"),
    row("filesystem_count", number(u64::MAX), ReadOnly, FS, Right, "FSCOUNT", "<count>"),
    row("snapshot_count", number(u64::MAX), ReadOnly, HEADS, Right, "SSCOUNT", "<count>"),
    row("snapdev", index(0, SNAPDEV), Inherit, HEADS, Left, "SNAPDEV", "hidden | visible"),
    row("acltype", index(0, ACLTYPE), Inherit, FS_SNAP, Left, "ACLTYPE", "off | nfsv4 | posix"),
    row("context", text(Some("none")), Settable, DATASETS, Left, "CONTEXT", "<selinux context>"),
    row("fscontext", text(Some("none")), Settable, DATASETS, Left, "FSCONTEXT",
        "<selinux fscontext>"),
    row("defcontext", text(Some("none")), Settable, DATASETS, Left, "DEFCONTEXT",
        "<selinux defcontext>"),
    row("rootcontext", text(Some("none")), Settable, DATASETS, Left, "ROOTCONTEXT",
        "<selinux rootcontext>"),
    row("relatime", index(1, BOOLEAN), Inherit, FS, Left, "RELATIME", "on | off"),
    row("redundant_metadata", index(0, REDUNDANT_METADATA), Inherit, HEADS, Left, "REDUND_MD",
        "all | most | some | none"),
    row("overlay", index(1, BOOLEAN), Inherit, FS, Left, "OVERLAY", "on | off"),
    row("prevsnap", text(None), ReadOnly, HEADS, Hidden, "PREVSNAP", ""),
    row("receive_resume_token", text(None), ReadOnly, HEADS, Left, "RESUMETOK", "<string token>"),
    row("encryption", index(2, ENCRYPTION), OnceInherit, DATASETS, Left, "ENCRYPTION",
        "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | aes-128-gcm | aes-192-gcm | \
         aes-256-gcm"),
    row("keylocation", text(Some("none")), Settable, HEADS, Left, "KEYLOCATION",
        "prompt | <file URI> | <https URL> | <http URL>"),
    row("keyformat", index(0, KEYFORMAT), Once, HEADS, Left, "KEYFORMAT",
        "none | raw | hex | passphrase"),
    row("pbkdf2salt", number(0), Once, HEADS, Hidden, "PBKDF2SALT", ""),
    row("pbkdf2iters", number(0), Once, HEADS, Right, "PBKDF2ITERS", "<iters>"),
    row("encryptionroot", text(None), ReadOnly, DATASETS, Left, "ENCROOT", "<filesystem | volume>"),
    row("keyguid", number(0), ReadOnly, DATASETS, Hidden, "KEYGUID", ""),
    row("keystatus", index(0, KEYSTATUS), ReadOnly, DATASETS, Left, "KEYSTATUS",
        "none | unavailable | available"),
    row("remaptxg", number(0), ReadOnly, DATASETS, Hidden, "REMAPTXG", ""),
    row("special_small_blocks", number(0), Inherit, FS, Right, "SPECIAL_SMALL_BLOCKS",
        "zero or 512 to 1M, power of 2"),
    row("ivsetguid", number(0), ReadOnly, ALL, Hidden, "IVSETGUID", ""),
    row("redacted", number(0), ReadOnly, DATASETS, Hidden, "REDACTED", ""),
    row("redact_snaps", text(None), ReadOnly, ALL, Left, "RSNAPS", "<snapshot>[,...]"),
    row("snapshots_changed", number(0), ReadOnly, HEADS, Left, "SNAPSHOTS_CHANGED", "<date>"),
    row("prefetch", index(2, CACHE), Inherit, DATASETS, Left, "PREFETCH", "none | metadata | all"),
    row("volthreading", index(1, BOOLEAN), Settable, VOL, Left, "zvol threading", "on | off"),
    row("direct", index(1, DIRECT), Inherit, FS, Left, "DIRECT", "disabled | standard | always"),
    row("longname", index(0, BOOLEAN), Inherit, FS, Left, "LONGNAME", "on | off"),
];
