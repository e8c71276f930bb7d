//! Files that no directory names, found by their objects: what a rescue brings back of directories
//! that cannot be read.

use crate::{Cancelled, Progress};
use ondisk::znode::{flags, master};
use std::collections::HashSet;
use zpl::{FileKind, Filesystem, Node};

/// Files and directories whose objects exist and are not `known`: no directory that was read names
/// them. Those come first that bring others along: directories before files, and before all those
/// whose own directory is not lost as well, for their contents then have names. Where objects
/// cannot be read, `failed` is called with the first of them and the cause, and the search
/// continues.
///
/// Files that were unlinked while open have no name on purpose, and are left out.
///
/// # Errors
/// The search was cancelled.
pub fn orphans(
    fs: &Filesystem,
    known: &dyn Fn(u64) -> bool,
    progress: &Progress,
    failed: &mut dyn FnMut(u64, &dyn std::fmt::Display),
) -> Result<Vec<Node>, Cancelled> {
    let (mut found, mut numbers) = (Vec::new(), HashSet::new());
    let nameless = nameless(fs);
    for object in fs.objset().objects() {
        progress.check()?;
        let object = match object {
            Ok(object) => object,
            Err(e) => {
                failed(e.object, &e);
                continue;
            }
        };
        let number = object.number();
        if nameless.contains(&number) || numbers.contains(&number) || known(number) {
            continue;
        }
        // Tables and the like have no attributes of files.
        let Ok(node) = Node::from_object(fs, object) else { continue };
        // The directory of shares, where the master node that names it is lost.
        let is_empty = node.kind() == FileKind::Dir && node.parent == number && node.size <= 2;
        let is_hidden = node.flags & flags::XATTR != 0 || is_empty;
        if !is_hidden && node.links > 0 && node.kind() != FileKind::Unknown {
            numbers.insert(number);
            found.push(node);
        }
    }
    let rank = |n: &Node| (n.kind() != FileKind::Dir, numbers.contains(&n.parent));
    found.sort_by_key(|n| (rank(n), n.number()));
    Ok(found)
}

/// Objects that look like files and have no name on purpose: files unlinked while open, and the
/// directory of shares.
fn nameless(fs: &Filesystem) -> HashSet<u64> {
    let mut out: HashSet<u64> = fs.unlinked().unwrap_or_default().into_iter().collect();
    let shares = fs.master().and_then(|m| Ok(m.get_u64(master::SHARES)?));
    out.extend(shares.ok().flatten());
    out
}
