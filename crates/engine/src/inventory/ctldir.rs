//! The directory `.zfs`, which the root of a file system shows with `snapdir=visible`.
//!
//! The kernel makes it up: nothing of it is on disk. Its inodes count down from the largest object
//! number, and its times are those of the mount, which are written as 0 here.

use super::json::{Json, Members};
use super::member;

/// Inode of `.zfs`; `shares` and `snapshot` follow below.
const INODE_ROOT: u64 = 0xffff_ffff_ffff;
const INODE_SHARES: u64 = INODE_ROOT - 1;
const INODE_SNAPSHOT: u64 = INODE_ROOT - 2;
/// Inode of a snapshot's directory: this less its object.
pub(super) const INODE_SNAPSHOTS: u64 = INODE_ROOT - 3;

/// The entries of `.zfs` and what is in it; `snapshots` are names without dataset, and objects.
pub(super) fn entries(snapshots: &[(String, u64)]) -> Vec<Json> {
    let count = snapshots.len() as u64;
    let mut out = vec![
        entry(".zfs", INODE_ROOT, 0, 1),
        entry(".zfs/shares", INODE_SHARES, 2, 2),
        entry(".zfs/snapshot", INODE_SNAPSHOT, 2, 2 + count),
    ];
    let mut sorted: Vec<_> = snapshots.iter().collect();
    sorted.sort();
    for (name, object) in sorted {
        let inode = INODE_SNAPSHOTS.saturating_sub(*object);
        out.push(entry(&format!(".zfs/snapshot/{name}"), inode, 0, 1));
    }
    out
}

fn entry(path: &str, inode: u64, size: u64, links: u64) -> Json {
    let mut m: Members = vec![member("path", path), member("type", "dir")];
    m.push(member("mode", "0777"));
    m.extend([member("uid", 0u64), member("gid", 0u64), member("size", size)]);
    m.extend([member("nlink", links), member("ino", inode)]);
    m.extend(["mtime_ns", "ctime_ns", "atime_ns", "blocks"].map(|n| member(n, 0u64)));
    Json::Map(m)
}
