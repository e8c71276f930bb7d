//! Extended attributes of both kinds: a list among the attributes (`xattr=sa`), and files in a
//! hidden directory (`xattr=dir`).
//!
//! Both can exist for one file; a name in the list covers the same name in the directory.
//!
//! Linux stores names with their namespace (`user.comment`). Other systems store them bare, and
//! Linux shows a name without a namespace it knows as one of `user`. Of the namespace `system` it
//! knows the two POSIX access lists alone, and hides them unless the dataset has POSIX lists.

use crate::error::{Error, Result};
use crate::node::Node;
use ondisk::acl::{POSIX_ACCESS_XATTR, POSIX_DEFAULT_XATTR};
use ondisk::nvlist::{NvList, NvValue};
use std::collections::BTreeMap;

/// Largest value that is read, as Linux limits it (`XATTR_SIZE_MAX`), with room to spare.
const VALUE_MAX: u64 = 16 << 20;

/// How Linux shows a stored name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XattrName {
    /// By this name.
    Shown(Vec<u8>),
    /// Not at all.
    Hidden,
}

/// How Linux shows the attribute stored as `name` in a dataset with or without POSIX lists.
#[must_use]
pub fn linux_name(name: &[u8], posix_acls: bool) -> XattrName {
    let known = [&b"user."[..], b"trusted.", b"security."];
    if name == POSIX_ACCESS_XATTR.as_bytes() || name == POSIX_DEFAULT_XATTR.as_bytes() {
        return if posix_acls { XattrName::Shown(name.to_vec()) } else { XattrName::Hidden };
    }
    if known.iter().any(|k| name.starts_with(k)) {
        return XattrName::Shown(name.to_vec());
    }
    XattrName::Shown([b"user.", name].concat())
}

impl Node {
    /// All extended attributes by name, with the names as stored.
    pub fn xattrs(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let fs = self.filesystem();
        match fs.look(self.number()) {
            // Both kinds must be of one moment, and what this node knows may be gone.
            Some(_lock) => Self::open(fs, self.number())?.stored_xattrs(),
            None => self.stored_xattrs(),
        }
    }

    fn stored_xattrs(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let mut out = BTreeMap::new();
        if self.xattr_dir != 0 {
            let dir = Self::open(self.filesystem(), self.xattr_dir)?;
            for entry in dir.stored_entries()? {
                let entry = entry?;
                let file = Self::open(self.filesystem(), entry.object)?;
                // Sparse values cannot be: what the size promises must be backed by blocks.
                if file.size > VALUE_MAX.min(file.object().size_of_blocks()) {
                    let rule = "an extended attribute is larger than its object";
                    return Err(file.object().error(dmu::ErrorKind::Tree(rule)).into());
                }
                let mut value = vec![0; file.size as usize];
                file.read_at(0, &mut value)?;
                out.insert(entry.name, value);
            }
        }
        if let Some(packed) = self.sa_xattrs.as_ref().filter(|p| !p.is_empty()) {
            let object = self.number();
            let list = NvList::decode(packed).map_err(|error| Error::Format { object, error })?;
            for pair in list.pairs {
                match pair.value {
                    NvValue::ByteArray(v) => drop(out.insert(pair.name, v)),
                    NvValue::U8Array(v) => drop(out.insert(pair.name, v)),
                    _ => {}
                }
            }
        }
        Ok(out)
    }

    /// All extended attributes as Linux lists them to root.
    pub fn linux_xattrs(&self, posix_acls: bool) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let stored = self.xattrs()?;
        let mut out = BTreeMap::new();
        for (name, value) in stored {
            if let XattrName::Shown(shown) = linux_name(&name, posix_acls) {
                // A name stored with its namespace covers the same name stored bare.
                if shown == name || !out.contains_key(&shown) {
                    out.insert(shown, value);
                }
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_namespace_are_of_user() {
        let shown = |n: &str| XattrName::Shown(n.as_bytes().to_vec());
        assert_eq!(linux_name(b"user.a", false), shown("user.a"));
        assert_eq!(linux_name(b"DOSATTRIB", false), shown("user.DOSATTRIB"));
        assert_eq!(linux_name(b"system.other", true), shown("user.system.other"));
        assert_eq!(linux_name(POSIX_ACCESS_XATTR.as_bytes(), false), XattrName::Hidden);
        assert_eq!(linux_name(POSIX_ACCESS_XATTR.as_bytes(), true), shown(POSIX_ACCESS_XATTR));
    }
}
