//! The access list in a file's attributes.

use ondisk::Endian;
use ondisk::acl::AclPhys;
use ondisk::sa::{SaSet, zpl};

/// An access list in a file's attributes.
#[derive(Clone)]
pub(crate) enum StoredAcl {
    /// There is none: a file made without one, or a damaged one.
    None,
    /// Version 1 entries among the attributes.
    Entries { count: u64, bytes: Vec<u8>, endian: Endian },
    /// The structure of the old znode.
    Phys(AclPhys, Endian),
    /// It does not decode; the file is whole without it.
    Damaged(ondisk::Error),
}

impl StoredAcl {
    pub(crate) fn from_attributes(set: &SaSet<'_>) -> Self {
        if let Some(entries) = set.get(zpl::DACL_ACES) {
            let (bytes, endian) = (entries.bytes.clone(), entries.endian);
            let count = set.u64(zpl::DACL_COUNT).unwrap_or(0);
            return Self::Entries { count, bytes, endian };
        }
        match set.get(zpl::ZNODE_ACL) {
            Some(v) => match AclPhys::decode(&v.bytes, v.endian) {
                Ok(acl) => Self::Phys(acl, v.endian),
                Err(e) => Self::Damaged(e),
            },
            None => Self::None,
        }
    }
}
