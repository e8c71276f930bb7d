//! One file: its attributes and its data.

mod salvaged;

use crate::error::{Error, Result};
use crate::fs::{Filesystem, Reading};
use crate::stored_acl::StoredAcl;
use dmu::{Object, Segment};
use ondisk::DmuType;
use ondisk::sa::{SaSet, zpl};
use ondisk::znode::{Time, Znode, device_numbers, flags, mode};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Block device.
    Block,
    /// Character device.
    Char,
    /// An unknown mode.
    Unknown,
}

impl FileKind {
    /// From the type bits of a mode.
    #[must_use]
    pub fn from_mode(m: u64) -> Self {
        match m & mode::TYPE {
            mode::FILE => Self::File,
            mode::DIR => Self::Dir,
            mode::SYMLINK => Self::Symlink,
            mode::FIFO => Self::Fifo,
            mode::SOCKET => Self::Socket,
            mode::BLOCK => Self::Block,
            mode::CHAR => Self::Char,
            _ => Self::Unknown,
        }
    }
}

/// How a file is kept: the sizes of its object and of what that consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Bytes of a block.
    pub block_size: u64,
    /// Bytes of a block of pointers.
    pub indirect_block_size: u64,
    /// Levels of its tree; a file of one block has one.
    pub levels: u8,
    /// The largest number of a block.
    pub max_block: u64,
    /// Slots of 512 bytes that its dnode takes.
    pub slots: u64,
    /// Bytes of attributes in the dnode.
    pub bonus_bytes: usize,
}

/// A file with its attributes.
#[derive(Clone)]
pub struct Node {
    fs: Filesystem,
    object: Object,
    /// Mode: type and permissions.
    pub mode: u64,
    /// Owner: user id, in the upper half the index of its domain.
    pub uid: u64,
    /// Group, likewise.
    pub gid: u64,
    /// Size in bytes; of a directory its entries with `.` and `..`.
    pub size: u64,
    /// Hard links.
    pub links: u64,
    /// Txg the file was made in.
    pub generation: u64,
    /// Object of the directory the file was last linked in.
    pub parent: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
    /// Creation.
    pub crtime: Time,
    /// Device numbers as stored; see [`Node::device`].
    pub rdev: u64,
    /// `flags::*` of [`ondisk::znode`].
    pub flags: u64,
    /// Project; 0 without one.
    pub project: u64,
    /// Directory of extended attributes; 0 without one.
    pub xattr_dir: u64,
    /// Packed list of extended attributes kept with the other attributes.
    pub(crate) sa_xattrs: Option<Vec<u8>>,
    inline_symlink: Option<Vec<u8>>,
    /// NFSv4 ACL as stored; decoded by [`Node::acl`].
    pub(crate) acl: StoredAcl,
    old_form: bool,
    /// What of it is lost, and what was taken instead.
    lost: Option<String>,
}

impl Filesystem {
    /// The root directory.
    pub fn root(&self) -> Result<Node> {
        self.node(self.root_object())
    }

    /// A file by its object.
    pub fn node(&self, object: u64) -> Result<Node> {
        let _lock = self.look(object);
        Node::open(self, object)
    }
}

impl Node {
    /// The file of that number, whose lock the caller holds when others may change it.
    pub(crate) fn open(fs: &Filesystem, number: u64) -> Result<Self> {
        let object = fs.objset().object(number)?;
        Self::from_object(fs, object)
    }

    /// The file whose object was already read.
    pub fn from_object(fs: &Filesystem, object: Object) -> Result<Self> {
        match fs.reading() {
            Reading::Whole => Self::whole(fs, object),
            Reading::Salvage | Reading::Guess => Self::salvaged(fs, object),
        }
    }

    /// The file whose attributes can all be read.
    pub(crate) fn whole(fs: &Filesystem, object: Object) -> Result<Self> {
        match object.dnode().bonus_kind {
            DmuType::SA => Self::from_sa(fs, object),
            DmuType::ZNODE => Self::from_znode(fs, object),
            other => {
                let kind = dmu::ErrorKind::WrongType { wanted: "a file", found: other.name() };
                Err(object.error(kind).into())
            }
        }
    }

    fn from_znode(fs: &Filesystem, object: Object) -> Result<Self> {
        let number = object.number();
        let dnode = object.dnode();
        let z = Znode::decode(&dnode.bonus, dnode.endian)
            .map_err(|error| Error::Format { object: number, error })?;
        Ok(Self {
            mode: z.mode,
            uid: z.uid,
            gid: z.gid,
            size: z.size,
            links: z.links,
            generation: z.generation,
            parent: z.parent,
            atime: z.atime,
            mtime: z.mtime,
            ctime: z.ctime,
            crtime: z.crtime,
            rdev: z.rdev,
            flags: z.flags,
            project: 0,
            xattr_dir: z.xattr,
            sa_xattrs: None,
            inline_symlink: z.inline_symlink().map(<[u8]>::to_vec),
            acl: StoredAcl::Phys(z.acl, dnode.endian),
            old_form: true,
            lost: None,
            fs: fs.clone(),
            object,
        })
    }

    fn from_sa(fs: &Filesystem, object: Object) -> Result<Self> {
        let number = object.number();
        let format = |error| Error::Format { object: number, error };
        let missing = |name| Error::NoAttribute { object: number, name };
        let tables = fs.sa_tables().ok_or_else(|| missing("SA_ATTRS"))?;
        let spill = object.read_spill()?;
        let spill = spill.as_ref().map(|b| b.bytes());
        let set = tables.read(&object.dnode().bonus, spill).map_err(format)?;
        Self::from_set(fs, object, &set)
    }

    /// The file with these attributes.
    pub(crate) fn from_set(fs: &Filesystem, object: Object, set: &SaSet<'_>) -> Result<Self> {
        let number = object.number();
        let missing = |name| Error::NoAttribute { object: number, name };
        let need = |name: &'static str| set.u64(name).ok_or_else(|| missing(name));
        let bytes = |name| set.get(name).map(|v| v.bytes.clone());
        let flags = set.u64(zpl::FLAGS).unwrap_or(0);
        let project = set.u64(zpl::PROJID).filter(|_| flags & flags::PROJID != 0);
        let acl = StoredAcl::from_attributes(set);
        Ok(Self {
            mode: need(zpl::MODE)?,
            uid: need(zpl::UID)?,
            gid: need(zpl::GID)?,
            size: need(zpl::SIZE)?,
            links: need(zpl::LINKS)?,
            generation: need(zpl::GEN)?,
            parent: need(zpl::PARENT)?,
            atime: time(set, zpl::ATIME),
            mtime: time(set, zpl::MTIME),
            ctime: time(set, zpl::CTIME),
            crtime: time(set, zpl::CRTIME),
            rdev: set.u64(zpl::RDEV).unwrap_or(0),
            flags,
            project: project.unwrap_or(0),
            xattr_dir: set.u64(zpl::XATTR).unwrap_or(0),
            sa_xattrs: bytes(zpl::DXATTR),
            inline_symlink: bytes(zpl::SYMLINK),
            acl,
            old_form: false,
            lost: None,
            fs: fs.clone(),
            object,
        })
    }

    /// A file of which nothing is known but its data: for its owner alone, as large as its blocks.
    pub(crate) fn of_data(fs: &Filesystem, object: Object, kind: u64) -> Self {
        let permissions = if kind == mode::DIR { 0o700 } else { 0o600 };
        let never = Time::default();
        Self {
            mode: kind | permissions,
            uid: 0,
            gid: 0,
            size: object.size_of_blocks(),
            links: 1,
            generation: 0,
            parent: 0,
            atime: never,
            mtime: never,
            ctime: never,
            crtime: never,
            rdev: 0,
            flags: 0,
            project: 0,
            xattr_dir: 0,
            sa_xattrs: None,
            inline_symlink: None,
            acl: StoredAcl::None,
            old_form: false,
            lost: None,
            fs: fs.clone(),
            object,
        }
    }

    /// The same file, of which this is lost.
    pub(crate) fn without(self, lost: Option<String>) -> Self {
        Self { lost, ..self }
    }

    /// What of its attributes is lost, and what was taken instead: of a file system that was opened
    /// by [`Filesystem::salvage`].
    #[must_use]
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// The file system it is in.
    #[must_use]
    pub fn filesystem(&self) -> &Filesystem {
        &self.fs
    }

    /// Its attributes are the fixed structure from before system attributes.
    #[must_use]
    pub fn is_old_form(&self) -> bool {
        self.old_form
    }

    /// Its object.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// How it is kept.
    #[must_use]
    pub fn stored(&self) -> Stored {
        let dnode = self.object.dnode();
        Stored {
            block_size: dnode.block_size(),
            indirect_block_size: 1u64.checked_shl(dnode.indirect_shift.into()).unwrap_or(0),
            levels: dnode.levels,
            max_block: dnode.max_block,
            slots: u64::from(dnode.extra_slots) + 1,
            bonus_bytes: dnode.bonus.len(),
        }
    }

    /// Its object number: what `stat` calls the inode.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.object.number()
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        FileKind::from_mode(self.mode)
    }

    /// Permission bits with set-id and sticky bits.
    #[must_use]
    pub fn permissions(&self) -> u32 {
        (self.mode & mode::PERMISSIONS) as u32
    }

    /// Major and minor number of a device.
    #[must_use]
    pub fn device(&self) -> (u32, u32) {
        device_numbers(self.rdev)
    }

    /// Space used in units of 512 bytes, as `stat` shows it: the blocks, rounded, and the slots
    /// of the dnode itself.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        let dnode = self.object.dnode();
        (dnode.used_bytes().saturating_add(256) >> 9) + u64::from(dnode.extra_slots) + 1
    }

    /// Flags as the ioctl `FS_IOC_GETFLAGS` shows them.
    #[must_use]
    pub fn linux_flags(&self) -> u32 {
        let pairs = [
            (flags::IMMUTABLE, 0x10),
            (flags::APPENDONLY, 0x20),
            (flags::NODUMP, 0x40),
            (flags::PROJINHERIT, 0x2000_0000),
        ];
        pairs.iter().filter(|(f, _)| self.flags & f != 0).map(|(_, l)| l).sum()
    }

    /// Target of a symbolic link; an error for any other file.
    pub fn read_link(&self) -> Result<Vec<u8>> {
        if self.kind() != FileKind::Symlink {
            return Err(Error::NotSymlink(format!("object {}", self.number())));
        }
        /// Longer targets cannot be made (`PATH_MAX` is 4096).
        const TARGET_MAX: u64 = 64 << 10;
        if let Some(target) = &self.inline_symlink {
            let mut target = target.clone();
            target.truncate(usize::try_from(self.size).unwrap_or(usize::MAX));
            return Ok(target);
        }
        let mut target = vec![0; self.size.min(TARGET_MAX) as usize];
        self.object.read_at(0, &mut target)?;
        Ok(target)
    }

    /// Reads up to `out.len()` bytes of the file from `offset`; fewer only at the end.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let left = self.size.saturating_sub(offset);
        let n = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let out = out.get_mut(..n).unwrap_or_default();
        if !out.is_empty() {
            self.object.read_at(offset, out)?;
        }
        Ok(n)
    }

    /// Stored ranges of a regular file, as `SEEK_DATA` and `SEEK_HOLE` show them.
    pub fn segments(&self) -> Result<Vec<Segment>> {
        Ok(self.object.segments(self.size)?)
    }
}

fn time(set: &SaSet<'_>, name: &str) -> Time {
    let (seconds, nanos) = set.get(name).and_then(|v| v.time()).unwrap_or((0, 0));
    Time { seconds, nanos }
}
