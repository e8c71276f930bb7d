//! The kernel's requests: each is answered here, and done by the method of the same subject in
//! `names.rs`, `content.rs`, `listing.rs` and `xattrs.rs`.

use crate::attrs::{attributes, generation};
use crate::errno::{Done, OrErrno as _};
use crate::handles::Handles;
use crate::snapshots::{Of, Snapshots};
use crate::{Options, SpaceFn};
use engine::{Filesystem, Node};
use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Bytes of one request to read or write, at most.
const TRANSFER_MAX: u32 = 1 << 20;
/// Requests that the kernel makes ahead of programs, at most.
const BACKGROUND_MAX: u16 = 64;
/// The number by which the kernel knows the root directory.
const ROOT: u64 = 1;
/// What the kernel may do, as far as it can.
const WANTED: InitFlags = InitFlags::FUSE_PARALLEL_DIROPS
    .union(InitFlags::FUSE_AUTO_INVAL_DATA)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_ASYNC_DIO)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2);

/// A file system as the kernel sees it.
pub(crate) struct Front {
    pub(crate) fs: Filesystem,
    pub(crate) handles: Handles,
    pub(crate) options: Options,
    /// What `.zfs/snapshot` shows; nothing where what is mounted is a snapshot itself.
    pub(crate) snapshots: Option<Snapshots>,
    space: SpaceFn,
    /// How long the kernel may remember names and attributes.
    ttl: Duration,
}

/// A file as the kernel is to know it.
pub(crate) struct Known {
    pub(crate) attr: FileAttr,
    pub(crate) generation: Generation,
    /// How long it may remember that.
    pub(crate) ttl: Duration,
}

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Caller {
    fn of(request: &Request) -> Self {
        Self { uid: request.uid(), gid: request.gid() }
    }
}

impl Front {
    pub(crate) fn new(
        fs: Filesystem,
        space: SpaceFn,
        snapshots: Option<Snapshots>,
        options: Options,
    ) -> Self {
        /// Names and attributes of what can change, and of what cannot.
        const TTLS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86_400)];
        let ttl = TTLS[usize::from(!fs.objset().is_live())];
        Self { fs, handles: Handles::default(), options, snapshots, space, ttl }
    }

    /// Where what the kernel calls by this number is.
    pub(crate) fn of(&self, ino: INodeNo) -> Of {
        match ino.0 {
            ROOT => Of::Live(self.fs.root_object()),
            number => Of::read(number),
        }
    }

    /// The object that is to be changed; what is below `.zfs` cannot be.
    pub(crate) fn object(&self, ino: INodeNo) -> Done<u64> {
        match self.of(ino) {
            Of::Live(object) => Ok(object),
            _ => Err(Errno::EROFS),
        }
    }

    /// A file, also one of a snapshot that is looked into.
    pub(crate) fn node(&self, ino: INodeNo) -> Done<Node> {
        match self.of(ino) {
            Of::Live(object) => self.fs.node(object).or_errno(),
            Of::Control | Of::Listing => Err(Errno::EISDIR),
            Of::Root(dataset) => self.snapshots()?.root(dataset)?.1.root().or_errno(),
            Of::Within(slot, object) => self.snapshots()?.within(slot)?.node(object).or_errno(),
        }
    }

    /// What can be below `.zfs`.
    pub(crate) fn snapshots(&self) -> Done<&Snapshots> {
        self.snapshots.as_ref().ok_or(Errno::ESTALE)
    }

    /// The attributes, with the number by which the kernel is to know the file.
    pub(crate) fn known(&self, of: Of, node: &Node) -> Done<Known> {
        let mut attr = attributes(node).ok_or(Errno::EIO)?;
        attr.ino = INodeNo(of.number());
        Ok(Known { attr, generation: generation(node), ttl: self.ttl_of(of) })
    }

    /// Bytes that can still be written.
    pub(crate) fn available(&self) -> u64 {
        (self.space)().map_or(0, |space| space.available)
    }

    /// How long the kernel may remember a file: a snapshot can go at any time.
    pub(crate) fn ttl_of(&self, of: Of) -> Duration {
        match of {
            Of::Live(_) | Of::Control | Of::Listing => self.ttl,
            Of::Root(_) | Of::Within(..) => Duration::ZERO,
        }
    }

    fn answer_entry(&self, reply: ReplyEntry, known: Done<Known>) {
        match known {
            Ok(known) => reply.entry(&known.ttl, &known.attr, known.generation),
            Err(e) => reply.error(e),
        }
    }

    /// The same for a file of the file system itself.
    fn answer_made(&self, reply: ReplyEntry, node: Done<Node>) {
        let known = node.and_then(|node| self.known(Of::Live(node.number()), &node));
        self.answer_entry(reply, known);
    }

    fn answer_attr(&self, reply: ReplyAttr, known: Done<Known>) {
        match known {
            Ok(known) => reply.attr(&known.ttl, &known.attr),
            Err(e) => reply.error(e),
        }
    }

    fn answer_statfs(&self, reply: ReplyStatfs) {
        /// Bytes of the unit in which space is told.
        const UNIT: u64 = 4096;
        /// There are no more files than this, however much space there is.
        const FILES_MAX: u64 = 1 << 48;
        let Some(space) = (self.space)() else { return reply.error(Errno::EIO) };
        let total = space.used.saturating_add(space.available) / UNIT;
        let free = space.available / UNIT;
        // A file takes 512 bytes at least.
        let more = (space.available / 512).min(FILES_MAX);
        let settings = self.fs.settings();
        let files = space.files.saturating_add(more);
        let (record, name_max) = (settings.record_size, self.name_max() as u32);
        reply.statfs(total, free, free, files, more, record, name_max, UNIT as u32);
    }
}

fn answer(reply: ReplyEmpty, done: Done<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

impl fuser::Filesystem for Front {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let can = config.capabilities();
        if self.options.posix_acls {
            let lists = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
            let done = config.add_capabilities(lists);
            done.map_err(|_| std::io::Error::from(std::io::ErrorKind::Unsupported))?;
        }
        // What the kernel cannot do it does without.
        let _ = config.add_capabilities(WANTED & can);
        let _ = config.set_max_write(TRANSFER_MAX);
        let _ = config.set_max_readahead(TRANSFER_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.answer_entry(reply, self.look_up(parent, name.as_bytes()));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answer_attr(reply, self.look(ino));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let wanted = crate::names::Wanted { mode, uid, gid, size, atime, mtime, ctime };
        let node = self.set_attributes(Caller::of(request), ino, &wanted);
        let known = node.and_then(|node| self.known(Of::Live(node.number()), &node));
        self.answer_attr(reply, known);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.node(ino).and_then(|node| node.read_link().or_errno()) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(e),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let made = crate::names::kind_of(mode, rdev)
            .and_then(|kind| self.make(Caller::of(request), parent, name, kind, (mode, umask)));
        self.answer_made(reply, made);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let kind = engine::files::NewKind::Dir;
        let made = self.make(Caller::of(request), parent, name, kind, (mode, umask));
        self.answer_made(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.unlink_name(parent, name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove_dir(parent, name.as_bytes()));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let kind = engine::files::NewKind::Symlink(target.as_os_str().as_bytes().to_vec());
        let made = self.make(Caller::of(request), parent, name, kind, (0o777, 0));
        self.answer_made(reply, made);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent, name.as_bytes()), (to_parent, to_name.as_bytes()));
        answer(reply, self.move_name(from, to, flags));
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.add_link(ino, parent, name.as_bytes());
        self.answer_made(reply, linked);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(ino, flags) {
            // What the kernel has of a file is good for as long as its time and size are the same.
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
            Err(e) => reply.error(e),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let kind = engine::files::NewKind::File;
        let made = self.make(Caller::of(request), parent, name, kind, (mode, umask));
        let opened = made.and_then(|node| {
            let held = self.fs.hold(node.number()).or_errno()?;
            let known = self.known(Of::Live(node.number()), &node)?;
            Ok((known, self.handles.add(Some(held))))
        });
        match opened {
            Ok((Known { attr, generation, ttl }, handle)) => {
                reply.created(&ttl, &attr, generation, handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_file(ino, offset, size.min(TRANSFER_MAX)) {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_file(ino, offset, data, how, flags) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(e) => reply.error(e),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // What was written was taken when it was written.
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        // Before the file is freed, which may take long: no program waits for that.
        reply.ok();
        drop(self.handles.remove(handle));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.promise(ino, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_dir(ino) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(e) => reply.error(e),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        place: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(ino, handle, place, &mut reply) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        place: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.list(ino, handle, place, &mut reply) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        reply.ok();
        drop(self.handles.remove(handle));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // Changes of names are promised with any file.
        self.promise(ino, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.answer_statfs(reply);
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.set_xattr(ino, name.as_bytes(), value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_xattr(reply, size, self.xattr(ino, name.as_bytes()));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        answer_xattr(reply, size, self.xattr_names(ino));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove_xattr(ino, name.as_bytes()));
    }

    fn ioctl(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        request: u32,
        given: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        match self.control(ino, request, given) {
            Ok(back) => reply.ioctl(0, &back),
            Err(e) => reply.error(e),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.allocate(ino, offset, length, mode));
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.seek(ino, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(e) => reply.error(e),
        }
    }
}

/// The bytes, when there is room for them, or how many they are when that is asked.
fn answer_xattr(reply: ReplyXattr, room: u32, bytes: Done<Vec<u8>>) {
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(e) => return reply.error(e),
    };
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    match room {
        0 => reply.size(length),
        room if room < length => reply.error(Errno::ERANGE),
        _ => reply.data(&bytes),
    }
}

impl Front {
    /// Answers when what was changed of the file survives whatever happens; no thread waits for it.
    fn promise(&self, ino: INodeNo, reply: ReplyEmpty) {
        // What cannot be changed is durable.
        let Ok(file) = self.object(ino) else { return reply.ok() };
        if !self.fs.objset().is_live() {
            return reply.ok();
        }
        self.fs.sync_then(Some(file), move |done| answer(reply, done.or_errno()));
    }
}
