//! Why a file is not changed: values, which callers can tell apart and front ends word.

use thiserror::Error;

/// Why a change is refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FileRefusal {
    /// The request contradicts a rule.
    #[error("not possible: {0}")]
    Invalid(#[from] InvalidRequest),
    /// Something would be larger than it can be.
    #[error("too large: {0}")]
    TooLarge(#[from] Excess),
    /// The flags of a file forbid it.
    #[error("not permitted: {0}")]
    NotPermitted(#[from] Protection),
    /// It is read, and not changed by this program, or not in this dataset.
    #[error("cannot be changed: {0}")]
    Unsupported(#[from] Unsupported),
}

/// Why a request cannot be carried out, whatever the state of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The target of a symbolic link is empty or too long.
    #[error("the target of a symbolic link has 1 to 4095 bytes")]
    SymlinkTarget,
    /// Only regular files have content.
    #[error("content is for regular files")]
    ContentOfSpecial,
    /// A file has at most one directory of extended attributes.
    #[error("a file has one directory of extended attributes")]
    SecondXattrDirectory,
    /// An extended attribute is not an entry of a directory of files.
    #[error("an extended attribute has no name among files")]
    XattrAsFile,
    /// Names that are compared in a normal form are UTF-8.
    #[error("names that are normalised must be UTF-8")]
    NormalizedBytes,
    /// No volume has blocks of that size.
    #[error("a volume's block size is 512 bytes to 16 MiB")]
    VolumeBlockSize,
    /// No file has records of that size.
    #[error("a record size is a power of two from 512 to 16 MiB")]
    RecordSize,
    /// No dnode has that size.
    #[error("a dnode has 1 to 32 slots")]
    DnodeSlots,
    /// Only regular files and directories belong to projects.
    #[error("the file cannot have a project")]
    NoProject,
    /// The number stands for no user or group.
    #[error("4294967295 is not the number of a user or group")]
    OwnerNumber,
    /// An owner of the file is not in the range of Linux's numbers.
    #[error("its owner or group is a number above 32 bits")]
    LargeOwner,
    /// The block does not belong to this write.
    #[error("the block is not one of the write")]
    ForeignBlock,
    /// Cloned blocks do not fit the records of the file.
    #[error("the blocks cloned do not fit the file")]
    CloneMisaligned,
    /// Only blocks of files are cloned into files.
    #[error("a block cloned is not one of a file")]
    CloneOfNoFile,
    /// A directory always has a name.
    #[error("a directory cannot be created without a name")]
    UnnamedDirectory,
    /// Only a file without a name is given its first one.
    #[error("the file has a name already")]
    HasName,
    /// A file system is upgraded only.
    #[error("the version of a file system never becomes less")]
    OlderVersion,
    /// A volume consists of whole blocks.
    #[error("a volume's size is a multiple of its block size")]
    VolumeSize,
    /// The volume ends before the range does.
    #[error("the range ends behind the volume")]
    BehindVolume,
    /// A directory has entries only.
    #[error("a directory has no content of its own")]
    ContentOfDirectory,
    /// The file ends before the piece of content does.
    #[error("a piece of content is beyond the end of its file")]
    PieceBehindEnd,
}

/// What is larger than it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Excess {
    /// The end of a file.
    #[error("the end of the file")]
    FileEnd,
    /// All attributes of a file together.
    #[error("attributes of more than a spill block holds")]
    SpilledAttributes,
    /// The end of a write.
    #[error("the write ends behind the largest file")]
    WriteEnd,
    /// A write that replaces a block.
    #[error("the write is longer than any block")]
    WriteLength,
    /// The end of a clone.
    #[error("the clone ends behind the largest file")]
    CloneEnd,
    /// All extended attributes in the file's own list.
    #[error("the attribute does not fit the list")]
    XattrList,
    /// The value of an extended attribute.
    #[error("the value of an extended attribute has at most 64 KiB")]
    XattrValue,
}

/// The flags of a file that forbid a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Protection {
    /// Nothing of it is changed.
    #[error("the file is immutable")]
    Immutable,
    /// What it has stays as it is.
    #[error("the file can only be appended to")]
    AppendOnly,
    /// It is not removed or renamed.
    #[error("the file's flags forbid it")]
    Flags,
}

/// What is read but not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The dataset has `xattr=off`.
    #[error("the dataset has no extended attributes (xattr=off)")]
    XattrOff,
    /// The dataset has `acltype=off`.
    #[error("the dataset has acltype=off")]
    AclOff,
    /// A file from before system attributes has a fixed set of them.
    #[error("a new attribute of an old file")]
    NewAttributeOfOldFile,
    /// A file from before system attributes has room for a short ACL.
    #[error("an ACL longer than an old file holds")]
    LongAclOfOldFile,
    /// Attributes of one file were written by machines of both byte orders.
    #[error("a file with attributes in both byte orders")]
    MixedByteOrder,
    /// The pool has no quotas of projects.
    #[error("limits of projects")]
    ProjectLimits,
    /// File systems of versions 1 to 3 have no quotas of users.
    #[error("limits in a file system from before version 4")]
    LimitsOfOldFilesystem,
    /// A clone would share blocks within a txg.
    #[error("blocks that belong to another file too")]
    SharedBlocks,
    /// The file system has no table of system attributes.
    #[error("a file system from before system attributes")]
    NoSystemAttributes,
    /// The file system defines an attribute otherwise than OpenZFS does.
    #[error("an attribute of another kind than files have")]
    ForeignAttribute,
}
