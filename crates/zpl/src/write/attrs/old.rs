//! Attributes by name in the fixed structure from before version 5.

use ondisk::sa::zpl;
use ondisk::znode::{Time, Znode, flags, mode};

/// Bytes of a dnode's bonus that a file of before version 5 has.
const BONUS_MAX: usize = 320;

/// A one-word attribute; 0 for what the structure has not.
pub(super) fn word(z: &Znode, name: &str) -> u64 {
    match name {
        zpl::GEN => z.generation,
        zpl::MODE => z.mode,
        zpl::SIZE => z.size,
        zpl::PARENT => z.parent,
        zpl::LINKS => z.links,
        zpl::XATTR => z.xattr,
        zpl::RDEV => z.rdev,
        zpl::FLAGS => z.flags,
        zpl::UID => z.uid,
        zpl::GID => z.gid,
        _ => 0,
    }
}

/// The field of a one-word attribute.
pub(super) fn word_mut<'z>(z: &'z mut Znode, name: &str) -> Option<&'z mut u64> {
    Some(match name {
        zpl::GEN => &mut z.generation,
        zpl::MODE => &mut z.mode,
        zpl::SIZE => &mut z.size,
        zpl::PARENT => &mut z.parent,
        zpl::LINKS => &mut z.links,
        zpl::XATTR => &mut z.xattr,
        zpl::RDEV => &mut z.rdev,
        zpl::FLAGS => &mut z.flags,
        zpl::UID => &mut z.uid,
        zpl::GID => &mut z.gid,
        _ => return None,
    })
}

pub(super) fn time(z: &Znode, name: &str) -> Time {
    match name {
        zpl::ATIME => z.atime,
        zpl::MTIME => z.mtime,
        zpl::CTIME => z.ctime,
        zpl::CRTIME => z.crtime,
        _ => Time::default(),
    }
}

pub(super) fn time_mut<'z>(z: &'z mut Znode, name: &str) -> Option<&'z mut Time> {
    Some(match name {
        zpl::ATIME => &mut z.atime,
        zpl::MTIME => &mut z.mtime,
        zpl::CTIME => &mut z.ctime,
        zpl::CRTIME => &mut z.crtime,
        _ => return None,
    })
}

/// Puts the target of a symbolic link behind the structure; false when it is too long for that.
pub(super) fn set_target(z: &mut Znode, target: &[u8]) -> bool {
    let fits = ondisk::znode::ZNODE_SIZE + target.len() <= BONUS_MAX;
    if fits {
        z.rest = target.to_vec();
    }
    fits
}

/// Puts the stamp of a virus scanner behind the structure of a regular file.
pub(super) fn set_stamp(z: &mut Znode, stamp: Vec<u8>) {
    if z.mode & mode::TYPE == mode::FILE {
        z.rest = stamp;
        z.flags |= flags::BONUS_SCANSTAMP;
    }
}
