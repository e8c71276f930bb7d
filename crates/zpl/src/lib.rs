//! POSIX semantics: files, directories, links, attributes, extended attributes, ACLs; volumes.
//!
//! # Theory
//!
//! A file system is an object set with a *master node* (object 1, a ZAP) that names the root
//! directory, the attribute tables and the rules for names. Every file is an object: its data are
//! the file's bytes, its bonus (and spill block) its attributes. Directories are ZAPs from name
//! to object. Before version 5 the attributes were one fixed structure (the old znode), since
//! then a self-describing list (SA); [`Node`] hides the difference.
//!
//! A volume is an object set with one object of data and one of properties.
//!
//! No type of any front end (FUSE, command line) is in here.
#![forbid(unsafe_code)]

mod acl;
mod dir;
mod error;
mod fallback;
mod fs;
mod holes;
pub mod names;
mod node;
mod op;
pub mod records;
mod refusal;
pub mod replay;
mod salvage;
mod space;
mod state;
mod stored_acl;
mod volume;
pub mod write;
mod xattr;

pub use acl::{AceText, Acl};
pub use dir::{DirCursor, DirEntry, DirPage, Entries};
pub use error::{Error, Result};
pub use fallback::Fallback;
pub use fs::{CaseSensitivity, Filesystem};
pub use node::{FileKind, Node, Stored};
pub use ondisk::znode::Time;
pub use op::{
    AccessList, Cloned, Create, Data, Identity, NameInDir, Op, Outcome, Renaming, StoredData,
    VolumeOp,
};
pub use refusal::{Excess, FileRefusal, InvalidRequest, Protection, Unsupported};
pub use salvage::must_open;
pub use space::{SpaceKind, SpaceRow};
pub use volume::Volume;
pub use write::{
    FlagChange, FormatOptions, FsSettings, LOST_AND_FOUND, Mend, NewFile, NewKind, RenameMode,
    SetAttrs, XattrStore,
};
pub use xattr::{XattrName, linux_name};
