//! Files before system attributes, directory entries, and the numbers of the POSIX layer.
//!
//! Specified in `docs/format/zpl.md`. File systems of version 4 and older keep a file's fields in
//! a fixed structure of 264 bytes in the dnode's bonus; what follows it there is the target of a
//! symbolic link or a virus scanner's stamp. Version 5 uses system attributes ([`crate::sa`]),
//! but files written before an upgrade keep the old form: the type of the bonus tells.
//!
//! ```text
//!   0 atime  16 mtime  32 ctime  48 crtime (seconds and nanoseconds each)
//!  64 gen  72 mode  80 size  88 parent  96 links 104 xattr 112 rdev 120 flags 128 uid 136 gid
//! 144 zap 152 pad[3] 176 ACL (88 bytes) 264 symlink target or scan stamp
//! ```

use crate::acl::{ACL_PHYS_SIZE, AclPhys};
use crate::cursor::{Endian, Reader, Writer};
use crate::error::Result;

/// Size of the old structure in bytes.
pub const ZNODE_SIZE: usize = 264;
/// Bytes of a virus scanner's stamp.
pub const SCANSTAMP_SIZE: usize = 32;
/// Object number of the master node of every file system.
pub const MASTER_NODE: u64 = 1;
/// Newest version of the file system format.
pub const ZPL_VERSION_MAX: u64 = 5;
/// Version since which directory entries carry the type.
pub const ZPL_VERSION_DIRENT_TYPE: u64 = 2;
/// Version since which ids are FUIDs.
pub const ZPL_VERSION_FUID: u64 = 3;
/// Version since which space is accounted to users and groups.
pub const ZPL_VERSION_USERSPACE: u64 = 4;
/// Version since which files have system attributes.
pub const ZPL_VERSION_SA: u64 = 5;

/// Names in the master node.
pub mod master {
    /// Version of the file system.
    pub const VERSION: &str = "VERSION";
    /// Object of the root directory.
    pub const ROOT: &str = "ROOT";
    /// Object of the set of unlinked files still open.
    pub const DELETE_QUEUE: &str = "DELETE_QUEUE";
    /// Object of the directory of SMB shares.
    pub const SHARES: &str = "SHARES";
    /// Property `utf8only`.
    pub const UTF8ONLY: &str = "utf8only";
    /// Property `normalization`, see [`crate::zap::NORM_NFC`] and its like.
    pub const NORMALIZATION: &str = "normalization";
    /// Property `casesensitivity`: 0 sensitive, 1 insensitive, 2 mixed.
    pub const CASESENSITIVITY: &str = "casesensitivity";
}

/// Bits of the flags word of a file (`ZPL_FLAGS`, `zp_flags`).
pub mod flags {
    /// The object is an extended attribute or their directory.
    pub const XATTR: u64 = 0x1;
    /// The ACL has entries that new files inherit.
    pub const INHERIT_ACE: u64 = 0x2;
    /// The ACL corresponds to the mode.
    pub const ACL_TRIVIAL: u64 = 0x4;
    /// The ACL has object entries.
    pub const ACL_OBJ_ACE: u64 = 0x8;
    /// The ACL is protected from inheritance.
    pub const ACL_PROTECTED: u64 = 0x10;
    /// The ACL was made by default.
    pub const ACL_DEFAULTED: u64 = 0x20;
    /// The ACL was inherited automatically.
    pub const ACL_AUTO_INHERIT: u64 = 0x40;
    /// A scan stamp follows the old structure in the bonus.
    pub const BONUS_SCANSTAMP: u64 = 0x80;
    /// No entry of the ACL denies execution.
    pub const NO_EXECS_DENIED: u64 = 0x100;

    /// DOS attribute read-only.
    pub const READONLY: u64 = 1 << 32;
    /// DOS attribute hidden.
    pub const HIDDEN: u64 = 1 << 33;
    /// DOS attribute system.
    pub const SYSTEM: u64 = 1 << 34;
    /// DOS attribute archive.
    pub const ARCHIVE: u64 = 1 << 35;
    /// Neither content nor attributes can change.
    pub const IMMUTABLE: u64 = 1 << 36;
    /// The file cannot be removed or renamed.
    pub const NOUNLINK: u64 = 1 << 37;
    /// The file can only be appended to.
    pub const APPENDONLY: u64 = 1 << 38;
    /// Dump leaves the file out.
    pub const NODUMP: u64 = 1 << 39;
    /// Opaque directory of a union mount.
    pub const OPAQUE: u64 = 1 << 40;
    /// Quarantined by a virus scanner.
    pub const AV_QUARANTINED: u64 = 1 << 41;
    /// Modified since it was scanned.
    pub const AV_MODIFIED: u64 = 1 << 42;
    /// Reparse point.
    pub const REPARSE: u64 = 1 << 43;
    /// DOS attribute offline.
    pub const OFFLINE: u64 = 1 << 44;
    /// DOS attribute sparse.
    pub const SPARSE: u64 = 1 << 45;
    /// New files in the directory inherit its project.
    pub const PROJINHERIT: u64 = 1 << 46;
    /// The file has a project.
    pub const PROJID: u64 = 1 << 47;
}

/// Bits of the mode.
pub mod mode {
    /// Mask of the type.
    pub const TYPE: u64 = 0o170_000;
    /// Named pipe.
    pub const FIFO: u64 = 0o010_000;
    /// Character device.
    pub const CHAR: u64 = 0o020_000;
    /// Directory.
    pub const DIR: u64 = 0o040_000;
    /// Block device.
    pub const BLOCK: u64 = 0o060_000;
    /// Regular file.
    pub const FILE: u64 = 0o100_000;
    /// Symbolic link.
    pub const SYMLINK: u64 = 0o120_000;
    /// Socket.
    pub const SOCKET: u64 = 0o140_000;
    /// Permissions with set-id and sticky bits.
    pub const PERMISSIONS: u64 = 0o7777;
}

/// A time: seconds since 1970 (negative before) and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds, less than 10^9 on a sound pool.
    pub nanos: u64,
}

impl Time {
    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self> {
        let [seconds, nanos] = r.words(field)?;
        Ok(Self { seconds: seconds as i64, nanos })
    }

    /// The two words as on disk.
    #[must_use]
    pub fn words(self) -> [u64; 2] {
        [self.seconds as u64, self.nanos]
    }
}

/// The old structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Znode {
    /// Access time.
    pub atime: Time,
    /// Modification time.
    pub mtime: Time,
    /// Change time.
    pub ctime: Time,
    /// Creation time.
    pub crtime: Time,
    /// Txg of creation.
    pub generation: u64,
    /// Type and permissions.
    pub mode: u64,
    /// Size in bytes; of directories the number of entries, with `.` and `..`.
    pub size: u64,
    /// Object of a directory that has the file.
    pub parent: u64,
    /// Hard links.
    pub links: u64,
    /// Object of the directory of extended attributes, or 0.
    pub xattr: u64,
    /// Device number.
    pub rdev: u64,
    /// Bits of [`flags`].
    pub flags: u64,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Extra attributes; never used.
    pub zap: u64,
    /// The ACL.
    pub acl: AclPhys,
    /// The bytes behind the structure in the bonus.
    pub rest: Vec<u8>,
    pad: [u64; 3],
}

impl Znode {
    /// Decodes a bonus of type "ZFS znode", in the byte order of the dnode's block.
    pub fn decode(bonus: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("znode", bonus, endian);
        let atime = Time::read(&mut r, "atime")?;
        let mtime = Time::read(&mut r, "mtime")?;
        let ctime = Time::read(&mut r, "ctime")?;
        let crtime = Time::read(&mut r, "crtime")?;
        let [generation, mode, size, parent, links, xattr, rdev, flags, uid, gid, zap] =
            r.words("fields")?;
        let pad = r.words("pad")?;
        let acl = AclPhys::decode(r.bytes("acl", ACL_PHYS_SIZE)?, endian)?;
        let rest = r.bytes("rest", r.remaining())?.to_vec();
        Ok(Self {
            atime,
            mtime,
            ctime,
            crtime,
            generation,
            mode,
            size,
            parent,
            links,
            xattr,
            rdev,
            flags,
            uid,
            gid,
            zap,
            acl,
            rest,
            pad,
        })
    }

    /// Encodes the bonus, [`Self::rest`] included.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut w = Writer::new(endian);
        for t in [self.atime, self.mtime, self.ctime, self.crtime] {
            w.words(&t.words());
        }
        w.words(&[self.generation, self.mode, self.size, self.parent, self.links]);
        w.words(&[self.xattr, self.rdev, self.flags, self.uid, self.gid, self.zap]);
        w.words(&self.pad).bytes(&self.acl.encode(endian)).bytes(&self.rest);
        w.into_bytes()
    }

    /// Target of the symbolic link when it is in the bonus; `None` when the file is none or its
    /// target is in the object's data.
    #[must_use]
    pub fn inline_symlink(&self) -> Option<&[u8]> {
        if self.mode & mode::TYPE != mode::SYMLINK {
            return None;
        }
        usize::try_from(self.size).ok().and_then(|n| self.rest.get(..n))
    }

    /// The virus scanner's stamp, when there is one.
    #[must_use]
    pub fn scanstamp(&self) -> Option<&[u8]> {
        match self.flags & flags::BONUS_SCANSTAMP {
            0 => None,
            _ => self.rest.get(..SCANSTAMP_SIZE),
        }
    }
}

/// The value of a directory entry: the file's object and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent {
    /// Object number, 48 bits.
    pub object: u64,
    /// The type bits of the mode, shifted right by 12; 0 in file systems of version 1.
    pub kind: u8,
}

impl Dirent {
    /// Decodes the value: type in the top 4 bits, object in the low 48; the 12 between are unused.
    #[must_use]
    pub fn decode(value: u64) -> Self {
        Self { object: value & ((1 << 48) - 1), kind: (value >> 60) as u8 }
    }

    /// The value for the directory's ZAP.
    #[must_use]
    pub fn encode(self) -> u64 {
        (u64::from(self.kind) << 60) | (self.object & ((1 << 48) - 1))
    }

    /// The type bits of the mode, or `None` in a directory that does not store them.
    #[must_use]
    pub fn mode_type(self) -> Option<u64> {
        (self.kind != 0).then_some(u64::from(self.kind) << 12)
    }
}

/// Major and minor number of a device.
///
/// Linux stores the number the kernel has in memory, the major number from bit 20 up; illumos
/// stores 32 bits of each. A word with anything in its upper half is of the second kind: majors
/// of Linux have 12 bits.
#[must_use]
pub fn device_numbers(rdev: u64) -> (u32, u32) {
    match rdev >> 32 {
        0 => ((rdev >> 20) as u32, (rdev & 0xf_ffff) as u32),
        major => (major as u32, rdev as u32),
    }
}

/// The word for a device as Linux stores it. `major` has 12 significant bits, `minor` 20.
#[must_use]
pub fn device_word(major: u32, minor: u32) -> u64 {
    (u64::from(major & 0xfff) << 20) | u64::from(minor & 0xf_ffff)
}
