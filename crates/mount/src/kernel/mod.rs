//! The kernel's side of a mount: the requests that come out of `/dev/fuse`, and the answers.
//!
//! # Theory
//!
//! The device is a queue of messages. Each `read` takes a request: a head with its kind, its
//! number, the file it is about and the user, and then arguments. Each `write` puts an answer: a
//! head with the number of the request and an error or none, and what the request is for. Any
//! thread may read and any thread may answer, in any order. Numbers are in the byte order of the
//! machine, names end with a zero.
//!
//! ```text
//! wire.rs       numbers, names and messages
//! request.rs    what the kernel asks for
//! reply.rs      the answers
//! eager.rs      waiting for the next one without sleeping
//! session.rs    the first request, by which both sides say what they can; then the readers
//! ```
//!
//! Request kinds that are not known here are refused with `ENOSYS`; the kernel does not send them
//! again, and does what it can without them. Kinds and layouts are those of `linux/fuse.h`.

mod eager;
mod reply;
mod request;
mod session;
mod wire;

#[cfg(test)]
pub(crate) use reply::device_word;
pub(crate) use reply::{Entries, FileSpace, Reply};
pub(crate) use request::{AttrChanges, NewTime, Operation, Request};
pub(crate) use session::{READER, Serve, Session};

use engine::files::Time;

/// The error of an answer.
pub(crate) use nix::errno::Errno;

/// A number by which the kernel knows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct INodeNo(pub(crate) u64);

/// A number by which the kernel knows the use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHandle(pub(crate) u64);

/// Types of files, as entries of directories have them; modes have them 12 bits higher.
pub(crate) mod file_type {
    pub(crate) const UNKNOWN: u8 = 0;
    pub(crate) const FIFO: u8 = 1;
    pub(crate) const CHAR: u8 = 2;
    pub(crate) const DIRECTORY: u8 = 4;
    pub(crate) const BLOCK: u8 = 6;
    pub(crate) const REGULAR: u8 = 8;
    pub(crate) const SYMLINK: u8 = 10;
    pub(crate) const SOCKET: u8 = 12;
}

/// What the kernel can do for a file system and does only when it is asked to.
pub(crate) mod capability {
    /// Several reads of a file at once.
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    /// Writes of more than a page.
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    /// The umask is the file system's to apply.
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    /// Cached pages are dropped when size or time have changed.
    pub(crate) const AUTO_INVAL_DATA: u64 = 1 << 12;
    /// Listings with the attributes of all entries.
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    /// The same, only where they are looked at.
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Several direct requests of a process at once.
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    /// Several lookups and listings of a directory at once.
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    /// It checks access lists.
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    /// The answer says how many pages a request has.
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    /// Targets of symbolic links are cached.
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    /// Set-id bits are the file system's to remove.
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// There are more than 32 of these.
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    /// Its mounts can show other owners than it has (`X-mount.idmap`). Requests that make no file
    /// do not say then whose they are.
    pub(crate) const ALLOW_IDMAP: u64 = 1 << 40;
}

/// What a message asks for, or how it is refused, as text; `None` if it has no number to answer by.
pub(crate) fn describe(message: &[u8]) -> Option<String> {
    Request::read(message).ok().map(|request| format!("{:?}", request.operation()))
}

/// A message with its length, which all behind it counts for.
pub(crate) fn with_length(rest: &[u8]) -> Vec<u8> {
    let mut out = wire::Message::for_bytes(rest.len() + 4);
    out.u32(u32::try_from(rest.len() + 4).unwrap_or(u32::MAX));
    [&out.0, rest].concat()
}

/// The kernel's cached pages of a file stay when it is opened.
pub(crate) const KEEP_CACHE: u32 = 1 << 1;

/// The attributes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileAttr {
    pub(crate) ino: INodeNo,
    pub(crate) size: u64,
    /// In units of 512 bytes.
    pub(crate) blocks: u64,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    /// When it was made.
    pub(crate) crtime: Time,
    /// One of [`file_type`].
    pub(crate) kind: u8,
    /// The mode without the type.
    pub(crate) perm: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Major and minor number of a device.
    pub(crate) device: (u32, u32),
    pub(crate) blksize: u32,
}

/// A file as the kernel is to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryReply {
    pub(crate) attr: FileAttr,
    /// Which of all files that have or had this number it is.
    pub(crate) generation: u64,
    /// How long it may remember that.
    pub(crate) ttl: std::time::Duration,
}
