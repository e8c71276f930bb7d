//! Types of objects and blocks, as stored in dnodes and block pointers.
//!
//! Numbers up to 53 are the historic list; since feature flags, new types encode their byte-order
//! class, whether they are metadata and whether they are encrypted in the number itself (bit 7
//! set). Specified in `docs/format/dmu.md`.

use core::fmt;

/// How the data of an object is laid out, and so how its byte order is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Bytes without order.
    U8,
    /// Array of 16-bit words.
    U16,
    /// Array of 32-bit words.
    U32,
    /// Array of 64-bit words.
    U64,
    /// ZAP blocks.
    Zap,
    /// Array of dnodes.
    Dnode,
    /// Object set header.
    Objset,
    /// Old znode bonus.
    Znode,
    /// ACL of version 0.
    OldAcl,
    /// ACL of the later version.
    Acl,
}

/// Type of an object or block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DmuType(pub u8);

const NEW_TYPE: u8 = 0x80;
const NEW_METADATA: u8 = 0x40;
const NEW_ENCRYPTED: u8 = 0x20;
const NEW_LAYOUT_MASK: u8 = 0x1f;

struct Row {
    name: &'static str,
    layout: Layout,
    metadata: bool,
    encrypted: bool,
}

const fn row(name: &'static str, layout: Layout, metadata: bool, encrypted: bool) -> Row {
    Row { name, layout, metadata, encrypted }
}

#[rustfmt::skip]
static ROWS: [Row; 54] = [
    row("unallocated", Layout::U8, true, false),
    row("object directory", Layout::Zap, true, false),
    row("object array", Layout::U64, true, false),
    row("packed nvlist", Layout::U8, true, false),
    row("packed nvlist size", Layout::U64, true, false),
    row("bpobj", Layout::U64, true, false),
    row("bpobj header", Layout::U64, true, false),
    row("SPA space map header", Layout::U64, true, false),
    row("SPA space map", Layout::U64, true, false),
    row("ZIL intent log", Layout::U64, true, true),
    row("DMU dnode", Layout::Dnode, true, true),
    row("DMU objset", Layout::Objset, true, false),
    row("DSL directory", Layout::U64, true, false),
    row("DSL directory child map", Layout::Zap, true, false),
    row("DSL dataset snap map", Layout::Zap, true, false),
    row("DSL props", Layout::Zap, true, false),
    row("DSL dataset", Layout::U64, true, false),
    row("ZFS znode", Layout::Znode, true, false),
    row("ZFS V0 ACL", Layout::OldAcl, true, true),
    row("ZFS plain file", Layout::U8, false, true),
    row("ZFS directory", Layout::Zap, true, true),
    row("ZFS master node", Layout::Zap, true, false),
    row("ZFS delete queue", Layout::Zap, true, true),
    row("zvol object", Layout::U8, false, true),
    row("zvol prop", Layout::Zap, true, false),
    row("other uint8[]", Layout::U8, false, true),
    row("other uint64[]", Layout::U64, false, true),
    row("other ZAP", Layout::Zap, true, false),
    row("persistent error log", Layout::Zap, true, false),
    row("SPA history", Layout::U8, true, false),
    row("SPA history offsets", Layout::U64, true, false),
    row("Pool properties", Layout::Zap, true, false),
    row("DSL permissions", Layout::Zap, true, false),
    row("ZFS ACL", Layout::Acl, true, true),
    row("ZFS SYSACL", Layout::U8, true, true),
    row("FUID table", Layout::U8, true, true),
    row("FUID table size", Layout::U64, true, false),
    row("DSL dataset next clones", Layout::Zap, true, false),
    row("scan work queue", Layout::Zap, true, false),
    row("ZFS user/group/project used", Layout::Zap, true, true),
    row("ZFS user/group/project quota", Layout::Zap, true, true),
    row("snapshot refcount tags", Layout::Zap, true, false),
    row("DDT ZAP algorithm", Layout::Zap, true, false),
    row("DDT statistics", Layout::Zap, true, false),
    row("System attributes", Layout::U8, true, true),
    row("SA master node", Layout::Zap, true, true),
    row("SA attr registration", Layout::Zap, true, true),
    row("SA attr layouts", Layout::Zap, true, true),
    row("scan translations", Layout::Zap, true, false),
    row("deduplicated block", Layout::U8, false, true),
    row("DSL deadlist map", Layout::Zap, true, false),
    row("DSL deadlist map hdr", Layout::U64, true, false),
    row("DSL dir clones", Layout::Zap, true, false),
    row("bpobj subobj", Layout::U64, true, false),
];

#[allow(missing_docs, reason = "the names are the documentation; see the table above")]
impl DmuType {
    pub const NONE: Self = Self(0);
    pub const OBJECT_DIRECTORY: Self = Self(1);
    pub const OBJECT_ARRAY: Self = Self(2);
    pub const PACKED_NVLIST: Self = Self(3);
    pub const PACKED_NVLIST_SIZE: Self = Self(4);
    pub const BPOBJ: Self = Self(5);
    pub const BPOBJ_HDR: Self = Self(6);
    pub const SPACE_MAP_HEADER: Self = Self(7);
    pub const SPACE_MAP: Self = Self(8);
    pub const INTENT_LOG: Self = Self(9);
    pub const DNODE: Self = Self(10);
    pub const OBJSET: Self = Self(11);
    pub const DSL_DIR: Self = Self(12);
    pub const DSL_DIR_CHILD_MAP: Self = Self(13);
    pub const DSL_DS_SNAP_MAP: Self = Self(14);
    pub const DSL_PROPS: Self = Self(15);
    pub const DSL_DATASET: Self = Self(16);
    pub const ZNODE: Self = Self(17);
    pub const OLDACL: Self = Self(18);
    pub const PLAIN_FILE_CONTENTS: Self = Self(19);
    pub const DIRECTORY_CONTENTS: Self = Self(20);
    pub const MASTER_NODE: Self = Self(21);
    pub const UNLINKED_SET: Self = Self(22);
    pub const ZVOL: Self = Self(23);
    pub const ZVOL_PROP: Self = Self(24);
    pub const PLAIN_OTHER: Self = Self(25);
    pub const UINT64_OTHER: Self = Self(26);
    pub const ZAP_OTHER: Self = Self(27);
    pub const ERROR_LOG: Self = Self(28);
    pub const SPA_HISTORY: Self = Self(29);
    pub const SPA_HISTORY_OFFSETS: Self = Self(30);
    pub const POOL_PROPS: Self = Self(31);
    pub const DSL_PERMS: Self = Self(32);
    pub const ACL: Self = Self(33);
    pub const SYSACL: Self = Self(34);
    pub const FUID: Self = Self(35);
    pub const FUID_SIZE: Self = Self(36);
    pub const NEXT_CLONES: Self = Self(37);
    pub const SCAN_QUEUE: Self = Self(38);
    pub const USERGROUP_USED: Self = Self(39);
    pub const USERGROUP_QUOTA: Self = Self(40);
    pub const USERREFS: Self = Self(41);
    pub const DDT_ZAP: Self = Self(42);
    pub const DDT_STATS: Self = Self(43);
    pub const SA: Self = Self(44);
    pub const SA_MASTER_NODE: Self = Self(45);
    pub const SA_ATTR_REGISTRATION: Self = Self(46);
    pub const SA_ATTR_LAYOUTS: Self = Self(47);
    pub const SCAN_XLATE: Self = Self(48);
    pub const DEDUP: Self = Self(49);
    pub const DEADLIST: Self = Self(50);
    pub const DEADLIST_HDR: Self = Self(51);
    pub const DSL_CLONES: Self = Self(52);
    pub const BPOBJ_SUBOBJ: Self = Self(53);
}

impl DmuType {
    fn row(self) -> Option<&'static Row> {
        ROWS.get(usize::from(self.0))
    }

    fn is_new(self) -> bool {
        self.0 & NEW_TYPE != 0
    }

    /// A number this table knows, or a self-describing new type with a known layout.
    #[must_use]
    pub fn is_valid(self) -> bool {
        if self.is_new() { self.0 & NEW_LAYOUT_MASK < 10 } else { self.row().is_some() }
    }

    /// Name as zdb prints it; new types are named after their layout.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.row() {
            Some(r) => r.name,
            None if self.is_new() => match self.layout() {
                Layout::U8 => "uint8",
                Layout::U16 => "uint16",
                Layout::U32 => "uint32",
                Layout::U64 => "uint64",
                Layout::Zap => "zap",
                Layout::Dnode => "dnode",
                Layout::Objset => "objset",
                Layout::Znode => "znode",
                Layout::OldAcl => "oldacl",
                Layout::Acl => "acl",
            },
            None => "unknown",
        }
    }

    /// Layout of the data; bytes for unknown types.
    #[must_use]
    pub fn layout(self) -> Layout {
        if !self.is_new() {
            return self.row().map_or(Layout::U8, |r| r.layout);
        }
        match self.0 & NEW_LAYOUT_MASK {
            1 => Layout::U16,
            2 => Layout::U32,
            3 => Layout::U64,
            4 => Layout::Zap,
            5 => Layout::Dnode,
            6 => Layout::Objset,
            7 => Layout::Znode,
            8 => Layout::OldAcl,
            9 => Layout::Acl,
            _ => Layout::U8,
        }
    }

    /// Metadata: stored with more copies, cached differently.
    #[must_use]
    pub fn is_metadata(self) -> bool {
        match self.row() {
            Some(r) => r.metadata,
            None => self.is_new() && self.0 & NEW_METADATA != 0,
        }
    }

    /// Encrypted in encrypted datasets (the others are authenticated only).
    #[must_use]
    pub fn is_encrypted(self) -> bool {
        match self.row() {
            Some(r) => r.encrypted,
            None => self.is_new() && self.0 & NEW_ENCRYPTED != 0,
        }
    }
}

impl fmt::Debug for DmuType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_valid() { f.write_str(self.name()) } else { write!(f, "type {}", self.0) }
    }
}

impl fmt::Display for DmuType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
