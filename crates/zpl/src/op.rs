//! Operations on a file system, and on a volume, as values.
//!
//! # Theory
//!
//! A change of a file is one [`Op`]. A front end builds it from its user's request, or it is
//! decoded from a record of an intent log; [`Filesystem::apply`](crate::Filesystem::apply) is the
//! one place that carries it out. Three changes are not operations, because no record of a log
//! describes them: files that are made whole (`write/whole.rs`), files without a name
//! (`write/unnamed.rs`) and repairs (`write/mend.rs`).
//!
//! ```text
//! create(), write_at(), ...  --\                        /-> versions of a live set -> sync
//!                               >-- Op -- apply(tx) ---<
//! a record of a log -- decode -/                        \-> versions of a scratch set, thrown away
//! ```
//!
//! An operation borrows names and data from its builder. Facts that only a log has (the number of a
//! new file, its generation) are optional: without them the write path chooses.

use crate::error::{Error, Result};
use crate::refusal::InvalidRequest;
use ondisk::BlkPtr;
use ondisk::acl::Ace;
use ondisk::znode::{SCANSTAMP_SIZE, Time, flags, mode};

/// Longest target of a symbolic link.
const TARGET_MAX: usize = 4095;

/// Flags that the ioctls of Linux can set.
const SETTABLE: u64 = flags::IMMUTABLE
    | flags::APPENDONLY
    | flags::NODUMP
    | flags::PROJINHERIT
    | flags::READONLY
    | flags::HIDDEN
    | flags::SYSTEM
    | flags::ARCHIVE
    | flags::NOUNLINK
    | flags::OPAQUE
    | flags::REPARSE
    | flags::OFFLINE
    | flags::SPARSE;

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameInDir<'a> {
    /// Object of the directory.
    pub dir: u64,
    /// The name.
    pub name: &'a [u8],
    /// Case does not count, where the file system leaves that to the caller.
    pub any_case: bool,
}

impl<'a> NameInDir<'a> {
    /// The name as the file system looks it up by itself.
    #[must_use]
    pub fn new(dir: u64, name: &'a [u8]) -> Self {
        Self { dir, name, any_case: false }
    }

    /// The name in words.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }
}

/// The kind of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewKind {
    /// A regular file, empty.
    File,
    /// A directory, empty.
    Dir,
    /// A symbolic link to this target, of 1 to 4095 bytes.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block device of this major and minor number.
    Block(u32, u32),
    /// A character device.
    Char(u32, u32),
}

impl NewKind {
    /// The type bits of the mode.
    pub(crate) fn mode_type(&self) -> u64 {
        match self {
            Self::File => mode::FILE,
            Self::Dir => mode::DIR,
            Self::Symlink(_) => mode::SYMLINK,
            Self::Fifo => mode::FIFO,
            Self::Socket => mode::SOCKET,
            Self::Block(..) => mode::BLOCK,
            Self::Char(..) => mode::CHAR,
        }
    }

    /// Whether there can be such a file.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Symlink(target) if !(1..=TARGET_MAX).contains(&target.len()) => {
                Err(Error::refused(InvalidRequest::SymlinkTarget))
            }
            _ => Ok(()),
        }
    }
}

/// A file to be made.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Its kind.
    pub kind: NewKind,
    /// Permissions with set-id and sticky bits; the caller has applied the umask.
    pub mode: u32,
    /// Owner.
    pub uid: u64,
    /// Group. In a directory with the set-group-id bit the new file gets the directory's.
    pub gid: u64,
    /// All four times of the new file.
    pub now: Time,
}

impl NewFile {
    /// A file of `kind` that belongs to root.
    #[must_use]
    pub fn new(kind: NewKind, mode: u32, now: Time) -> Self {
        Self { kind, mode, uid: 0, gid: 0, now }
    }
}

/// Flags of a file to be changed: `flags::*` of [`ondisk::znode`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagChange {
    /// Which.
    pub which: u64,
    /// Their new value.
    pub value: u64,
}

impl FlagChange {
    /// All flags that applications may set become those of `value`.
    #[must_use]
    pub fn settable(value: u64) -> Self {
        Self { which: SETTABLE, value }
    }
}

/// Attributes to be set; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttrs {
    /// Permissions with set-id and sticky bits. The access list becomes the one that says the
    /// same.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u64>,
    /// Group.
    pub gid: Option<u64>,
    /// Last access.
    pub atime: Option<Time>,
    /// Last change of the content.
    pub mtime: Option<Time>,
    /// Last change of the attributes; the time of this change without it.
    pub ctime: Option<Time>,
    /// Creation.
    pub crtime: Option<Time>,
    /// Size of a regular file: what is behind is gone, what comes is a hole.
    pub size: Option<u64>,
    /// Flags.
    pub flags: FlagChange,
    /// The stamp of a virus scanner.
    pub scan_stamp: Option<[u8; SCANSTAMP_SIZE]>,
    /// Project; only of files and directories, where projects are counted.
    pub project: Option<u64>,
}

/// Whether the attribute may or must exist before it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Anything.
    Any,
    /// Nothing.
    Create,
    /// Another value.
    Replace,
}

/// Which object a new file is, when that was decided before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number, which must be free.
    pub object: u64,
    /// Slots of its dnode.
    pub slots: u8,
    /// Its generation.
    pub generation: u64,
}

/// A file that comes into being.
#[derive(Clone, Debug)]
pub struct Create<'a> {
    /// The name it gets.
    pub at: NameInDir<'a>,
    /// The new file.
    pub new: NewFile,
    /// The object it is; with it, the group is the file's own whatever the directory says.
    pub identity: Option<Identity>,
    /// Attributes other than those every file is made with.
    pub set: SetAttrs,
    /// Its access list; by default the one that corresponds to the mode.
    pub acl: Option<AccessList>,
}

/// An NFSv4 access list to be given to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessList {
    /// Its entries, in the order in which they decide.
    pub entries: Vec<Ace>,
    /// Flags of the list: `ACL_AUTO_INHERIT`, `ACL_PROTECTED`, `ACL_DEFAULTED` of
    /// [`ondisk::znode::flags`].
    pub hints: u64,
}

/// How a rename treats a file that has the new name.
#[derive(Clone, Debug)]
pub enum Renaming {
    /// A file that has the new name loses it.
    Replace,
    /// Nothing may have the new name.
    NoReplace,
    /// The file that has the new name gets the old one; there must be one.
    Exchange,
    /// As [`Self::Replace`], and this character device gets the old name.
    Whiteout(NewFile, Option<Identity>),
}

/// Data to be written.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// The bytes of a block that is on disk already; of a log.
    Stored(StoredData<'a>),
}

/// A write whose data were written before it, as the one block that it fell into.
#[derive(Clone, Copy, Debug)]
pub struct StoredData<'a> {
    /// The block; a hole means zeros.
    pub block: &'a BlkPtr,
    /// Bytes that were written. When that is less than the block has, all of the block counts, from
    /// where it begins.
    pub length: u64,
}

/// Blocks of one file that become blocks of another too.
#[derive(Clone, Copy, Debug)]
pub struct Cloned<'a> {
    /// Where they go, in bytes.
    pub offset: u64,
    /// How many bytes they are.
    pub length: u64,
    /// Size of each.
    pub block_size: u64,
    /// The blocks in order, with holes.
    pub blocks: &'a [BlkPtr],
}

/// A change of a file system.
#[derive(Clone, Debug)]
pub enum Op<'a> {
    /// Makes a file with a name.
    Create(Box<Create<'a>>),
    /// Makes the directory of a file's extended attributes.
    CreateXattrDir {
        /// The file.
        file: u64,
        /// Its attributes.
        new: NewFile,
        /// The object it is.
        identity: Option<Identity>,
    },
    /// Takes the name of a file away that is not a directory.
    Unlink(NameInDir<'a>),
    /// Removes an empty directory.
    Rmdir(NameInDir<'a>),
    /// Gives a file another name.
    Link {
        /// The file.
        file: u64,
        /// The name.
        at: NameInDir<'a>,
    },
    /// Moves a name.
    Rename {
        /// The old name.
        from: NameInDir<'a>,
        /// The new one.
        to: NameInDir<'a>,
        /// How the new name is treated.
        how: Box<Renaming>,
    },
    /// Writes.
    Write {
        /// The file.
        file: u64,
        /// Where, in bytes.
        offset: u64,
        /// The data.
        data: Data<'a>,
    },
    /// Writes behind the end, wherever that is.
    Append {
        /// The file.
        file: u64,
        /// The value.
        data: &'a [u8],
    },
    /// Lets a file reach to the end of a write whose data are there already.
    Extend {
        /// The file.
        file: u64,
        /// Where it wrote, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Lets a file end at `size`.
    Truncate {
        /// The file.
        file: u64,
        /// Its new size.
        size: u64,
    },
    /// Makes a range a hole.
    Punch {
        /// The file.
        file: u64,
        /// Where, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// The file reaches to the end of the range at least; otherwise its size stays.
        extends: bool,
    },
    /// Takes over blocks of another file.
    Clone {
        /// The file.
        file: u64,
        /// The blocks.
        cloned: Cloned<'a>,
    },
    /// Sets attributes.
    SetAttrs {
        /// The file.
        file: u64,
        /// Which.
        set: SetAttrs,
    },
    /// Sets an access list, and the mode it gives.
    SetAcl {
        /// The file.
        file: u64,
        /// The list.
        acl: AccessList,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// The file.
        file: u64,
        /// The name, with its namespace.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Whether it may or must exist before.
        how: XattrMode,
    },
    /// Removes an extended attribute.
    RemoveXattr {
        /// The file.
        file: u64,
        /// The name.
        name: &'a [u8],
    },
}

/// The result of applying an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It made this object.
    Made(u64),
    /// It wrote from this byte on.
    Wrote(u64),
}

/// A change of a volume.
#[derive(Clone, Copy, Debug)]
pub enum VolumeOp<'a> {
    /// Writes.
    Write {
        /// Where, in bytes.
        offset: u64,
        /// The data.
        data: Data<'a>,
    },
    /// Frees a range, which reads as zeros then.
    Free {
        /// Where, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Takes over blocks.
    Clone(Cloned<'a>),
}
