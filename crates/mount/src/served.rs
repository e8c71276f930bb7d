//! A file system that is mounted: what the answers to its requests are made of.

use crate::attrs::{attributes, now};
use crate::errno::{FuseResult, OrErrno as _};
use crate::handles::{Handles, Nameless};
use crate::kernel::{EntryReply, Errno, INodeNo, Request};
use crate::snapshots::{InodeTarget, SnapdirMode, Snapshots};
use crate::{Options, SpaceFn};
use engine::files::{NewFile, NewKind};
use engine::{Filesystem, Node};
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;

/// The number by which the kernel knows the root directory.
const ROOT: u64 = 1;

/// The options of a mount, which can change while programs use it.
pub(crate) type SharedOptions = Arc<RwLock<Options>>;

/// A file system as the kernel sees it.
pub(crate) struct Front {
    pub(crate) fs: Filesystem,
    pub(crate) handles: Handles,
    pub(crate) nameless: Nameless,
    options: SharedOptions,
    /// The entries of `.zfs/snapshot`; none if the mount is of a snapshot itself.
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) space: SpaceFn,
    /// How long the kernel may remember names and attributes.
    ttl: Duration,
}

/// The user of the program that asks.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    /// The owner of what it makes; not known of a request that makes nothing.
    pub(crate) uid: u32,
    /// Its group.
    pub(crate) gid: u32,
    /// The thread that asks; 0 if it cannot be seen from here.
    thread: u32,
}

impl Caller {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        Self { uid: request.uid, gid: request.gid, thread: request.pid }
    }

    /// The user, and all groups that it is in; `None` of a thread that cannot be seen.
    pub(crate) fn user_and_groups(self) -> Option<(u64, Vec<u64>)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.thread)).ok()?;
        let ids = |name: &str| -> Vec<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok()).collect()
        };
        // The last of the four is the one for file systems.
        let (user, group) = (*ids("Uid:").last()?, *ids("Gid:").last()?);
        let mut groups = ids("Groups:");
        groups.push(group);
        Some((user, groups))
    }

    /// A file that the caller makes.
    pub(crate) fn file(self, kind: NewKind, mode: u32) -> NewFile {
        let new = NewFile::new(kind, mode & 0o7777, now());
        NewFile { uid: self.uid.into(), gid: self.gid.into(), ..new }
    }
}

impl Front {
    pub(crate) fn new(
        fs: Filesystem,
        space: SpaceFn,
        snapshots: Option<Snapshots>,
        options: SharedOptions,
    ) -> Self {
        /// Names and attributes of what can change, and of what cannot.
        const TTLS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86_400)];
        let ttl = TTLS[usize::from(!fs.is_live())];
        let (handles, nameless) = (Handles::default(), Nameless::default());
        Self { fs, handles, nameless, options, snapshots, space, ttl }
    }

    /// Whether the options say so now.
    pub(crate) fn is_on(&self, which: impl FnOnce(&Options) -> bool) -> bool {
        which(&self.options.read())
    }

    /// Where what the kernel calls by this number is.
    pub(crate) fn of(&self, ino: INodeNo) -> InodeTarget {
        match ino.0 {
            ROOT => InodeTarget::Live(self.fs.root_object()),
            number => InodeTarget::read(number),
        }
    }

    /// The object that is to be changed; what is below `.zfs` cannot be.
    pub(crate) fn object(&self, ino: INodeNo) -> FuseResult<u64> {
        match self.of(ino) {
            InodeTarget::Live(object) => Ok(object),
            _ => Err(Errno::EROFS),
        }
    }

    /// A file, also one of a snapshot that is looked into.
    pub(crate) fn node(&self, ino: INodeNo) -> FuseResult<Node> {
        match self.of(ino) {
            InodeTarget::Live(object) => self.fs.node(object).or_errno(),
            InodeTarget::Control | InodeTarget::Listing | InodeTarget::Shares => Err(Errno::EISDIR),
            InodeTarget::Root(dataset) => self.snapshots()?.root(dataset)?.1.root().or_errno(),
            InodeTarget::Within(slot, object) => {
                self.snapshots()?.within(slot)?.node(object).or_errno()
            }
        }
    }

    /// The directories below `.zfs`.
    pub(crate) fn snapshots(&self) -> FuseResult<&Snapshots> {
        self.snapshots.as_ref().ok_or(Errno::ESTALE)
    }

    /// Whether `.zfs` is listed. In a snapshot it is not: there is none of snapshots.
    pub(crate) fn is_control_shown(&self) -> bool {
        self.snapshots.as_ref().is_some_and(|all| all.mode() == SnapdirMode::Visible)
    }

    /// The attributes, with the number by which the kernel is to know the file.
    pub(crate) fn known(&self, of: InodeTarget, node: &Node) -> FuseResult<EntryReply> {
        let mut attr = attributes(node).ok_or(Errno::EIO)?;
        attr.ino = INodeNo(of.number());
        if of == InodeTarget::Live(self.fs.root_object()) && self.is_control_shown() {
            // Programs take this for the number of directories in it and two.
            attr.nlink = attr.nlink.saturating_add(1);
        }
        Ok(EntryReply { attr, generation: node.generation, ttl: self.ttl_of(of) })
    }

    /// Bytes that can still be written.
    pub(crate) fn available(&self) -> u64 {
        (self.space)().map_or(0, |space| space.available)
    }

    /// How long the kernel may remember a file: a snapshot can go at any time.
    pub(crate) fn ttl_of(&self, of: InodeTarget) -> Duration {
        match of {
            InodeTarget::Live(_) | InodeTarget::Control | InodeTarget::Shares => self.ttl,
            InodeTarget::Listing | InodeTarget::Root(_) | InodeTarget::Within(..) => Duration::ZERO,
        }
    }
}
