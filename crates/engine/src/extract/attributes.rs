//! Attributes of a file of a pool, as they are put on its copy: which, and in which order.

use super::Extract;
use super::sink::{Attribute, SetAttribute};
use std::collections::BTreeMap;
use zpl::{FileKind, Filesystem, Node};

impl Extract<'_> {
    /// Puts the attributes of `node` on what was made for it, and reports those that are not kept.
    pub(super) fn set_attributes(&self, made: &impl SetAttribute, node: &Node, shown: &[u8]) {
        if let Some(lost) = node.lost() {
            self.observer.fallback(shown, node.number(), lost);
        }
        let xattrs = self.xattrs(node, shown);
        let refused = |what: &str, why: &str| self.observer.not_kept(shown, what, why);
        let set = |what: &str, attribute: Attribute<'_>| match made.set(&attribute) {
            Ok(()) => true,
            Err(e) => {
                refused(what, &e.to_string());
                false
            }
        };
        let (uid, gid) = (Filesystem::linux_id(node.uid), Filesystem::linux_id(node.gid));
        let owned = self.keep.owner && set("owner", Attribute::Owner { uid, gid });
        for (name, value) in &xattrs {
            let what = String::from_utf8_lossy(name);
            if self.keep.owner || !gives_rights(name) {
                set(&what, Attribute::Xattr { name, value });
            } else if !self.keep.declined {
                refused(&what, "it is only kept together with the owner");
            }
        }
        if node.kind() != FileKind::Symlink {
            set("mode", Attribute::Mode(permissions(node, owned)));
        }
        set("times", Attribute::Times { atime: node.atime, mtime: node.mtime });
    }

    fn xattrs(&self, node: &Node, shown: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        if !self.keep.xattrs {
            return BTreeMap::new();
        }
        node.linux_xattrs(self.posix_acls).unwrap_or_else(|e| {
            self.observer.not_kept(shown, "extended attributes", &e.to_string());
            BTreeMap::new()
        })
    }
}

/// Whether an extended attribute gives its file rights that only an administrator gives.
fn gives_rights(name: &[u8]) -> bool {
    [&b"security."[..], b"trusted."].iter().any(|space| name.starts_with(space))
}

/// Set-id bits are for the owner they were given to, and so is a device.
fn permissions(node: &Node, owned: bool) -> u32 {
    let mask = match node.kind() {
        _ if owned => 0o7777,
        FileKind::Block | FileKind::Char => 0o600,
        _ => 0o1777,
    };
    node.permissions() & mask
}
