//! The kernel's requests: each is answered here, and done by the method of the same subject in
//! `names.rs`, `content.rs`, `listing.rs` and `xattrs.rs`.
//!
//! They are carried out where they hold up nothing else (`workers.rs`), and a process that is to
//! end does not wait for those that may take long, changes and the content of files
//! (`requests.rs`).

use crate::errno::{FuseResult, OrErrno as _};
use crate::requests::{Answer, ErrorReply, Requests};
use crate::served::{Caller, EntryReply, Front};
use crate::snapshots::InodeTarget;
use crate::workers::{Class, Workers};
use engine::Node;
use engine::files::ProjectRoom;
use fuser::{
    Errno, FileHandle, FopenFlags, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes of one request to read or write, at most.
const TRANSFER_MAX: u32 = 1 << 20;
/// Bytes that are not written as fast as a name.
const WRITE_MIN: usize = 32 << 10;
/// Requests that the kernel makes ahead of programs, at most.
const BACKGROUND_MAX: u16 = 64;
/// The capabilities that are requested of the kernel.
const WANTED: InitFlags = InitFlags::FUSE_PARALLEL_DIROPS
    .union(InitFlags::FUSE_AUTO_INVAL_DATA)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_ASYNC_DIO)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2);

/// Answers the kernel: a file system, and the threads and lists for its requests.
pub(crate) struct Server {
    front: Arc<Front>,
    workers: Workers,
    requests: Requests,
}

impl Front {
    fn answer_entry(&self, reply: ReplyEntry, known: FuseResult<EntryReply>) {
        match known {
            Ok(known) => reply.entry(&known.ttl, &known.attr, known.generation),
            Err(e) => reply.error(e),
        }
    }

    /// The same for a file of the file system itself.
    fn answer_made(&self, reply: ReplyEntry, node: FuseResult<Node>) {
        let known = node.and_then(|node| self.known(InodeTarget::Live(node.number()), &node));
        self.answer_entry(reply, known);
    }

    fn answer_attr(&self, reply: ReplyAttr, known: FuseResult<EntryReply>) {
        match known {
            Ok(known) => reply.attr(&known.ttl, &known.attr),
            Err(e) => reply.error(e),
        }
    }

    /// The limits of the project of a directory.
    fn project_room(&self, ino: INodeNo) -> ProjectRoom {
        let room = match self.of(ino) {
            InodeTarget::Live(_) => self.node(ino).ok().map(|node| self.fs.project_room(&node)),
            _ => None,
        };
        room.and_then(Result::ok).unwrap_or_default()
    }

    fn answer_statfs(&self, ino: INodeNo, reply: ReplyStatfs) {
        /// The block size reported by `statfs`.
        const UNIT: u64 = 4096;
        /// There are no more files than this, however much space there is.
        const FILES_MAX: u64 = 1 << 48;
        let Some(space) = (self.space)() else { return reply.error(Errno::EIO) };
        // What a project may have is all there is in its directories.
        let room = self.project_room(ino);
        let of_all = (space.used.saturating_add(space.available), space.available);
        let (total, free) = room.bytes.unwrap_or(of_all);
        let (total, free) = (total / UNIT, free / UNIT);
        // A file takes 512 bytes at least.
        let more = (space.available / 512).min(FILES_MAX);
        let settings = self.fs.settings();
        let (files, more) = room.objects.unwrap_or((space.files.saturating_add(more), more));
        let (record, name_max) = (settings.record_size, self.name_max() as u32);
        reply.statfs(total, free, free, files, more, record, name_max, UNIT as u32);
    }
}

impl Server {
    /// Answers for a file system, with this many threads that read requests.
    pub(crate) fn new(front: Front, threads: usize) -> Self {
        let (workers, requests) = (Workers::new(threads), Requests::default());
        Self { front: Arc::new(front), workers, requests }
    }

    /// Carries out a request that looks at names and attributes.
    fn look(&self, job: impl FnOnce(&Front) + Send + 'static) {
        match self.workers.try_inline() {
            Some(_permit) => job(&self.front),
            None => {
                let front = Arc::clone(&self.front);
                self.workers.hand_over(Class::Name, move || job(&front));
            }
        }
    }

    /// Carries out a request that may wait for long, and answers it.
    fn work<R: ErrorReply, T>(
        &self,
        class: Class,
        request: &Request,
        reply: R,
        job: impl FnOnce(&Front) -> FuseResult<T> + Send + 'static,
        tell: impl FnOnce(&Front, R, FuseResult<T>) + Send + 'static,
    ) {
        let answer = self.requests.begin(request.pid(), reply);
        let run = move |front: &Front| {
            if answer.is_wanted() {
                let done = job(front);
                answer.give(|reply| tell(front, reply, done));
            }
        };
        match self.workers.try_inline() {
            Some(_permit) => run(&self.front),
            None => {
                let front = Arc::clone(&self.front);
                self.workers.hand_over(class, move || run(&front));
            }
        }
    }

    /// The same for a change that has nothing to tell but whether it was done.
    fn change(
        &self,
        request: &Request,
        reply: ReplyEmpty,
        job: impl FnOnce(&Front) -> FuseResult<()> + Send + 'static,
    ) {
        self.work(Class::Change, request, reply, job, |_, reply, done| answer(reply, done));
    }

    /// The same for one that makes a name.
    fn make(
        &self,
        request: &Request,
        reply: ReplyEntry,
        job: impl FnOnce(&Front) -> FuseResult<Node> + Send + 'static,
    ) {
        self.work(Class::Change, request, reply, job, Front::answer_made);
    }
}

fn answer(reply: ReplyEmpty, done: FuseResult<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

impl fuser::Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let can = config.capabilities();
        // Also where there are none: the property that decides about them can change at any time.
        let lists = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
        if config.add_capabilities(lists).is_err() && self.front.is_on(|o| o.posix_acls) {
            return Err(std::io::Error::from(std::io::ErrorKind::Unsupported));
        }
        // Capabilities that the kernel lacks are not used.
        let _ = config.add_capabilities(WANTED & can);
        let _ = config.set_max_write(TRANSFER_MAX);
        let _ = config.set_max_readahead(TRANSFER_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn destroy(&mut self) {
        self.requests.end();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.look(move |front| front.answer_entry(reply, front.look_up(parent, name.as_bytes())));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.look(move |front| front.answer_attr(reply, front.look(ino)));
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
        let wanted = crate::names::AttrChanges { mode, uid, gid, size, atime, mtime, ctime };
        let caller = Caller::of(request);
        let set = move |front: &Front| {
            let node = front.set_attributes(caller, ino, &wanted)?;
            front.known(InodeTarget::Live(node.number()), &node)
        };
        self.work(Class::Change, request, reply, set, Front::answer_attr);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        self.look(move |front| match front.node(ino).and_then(|n| n.read_link().or_errno()) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(e),
        });
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
        let (caller, name) = (Caller::of(request), name.to_owned());
        self.make(request, reply, move |front| {
            let kind = crate::names::kind_of(mode, rdev)?;
            front.make(caller, parent, &name, kind, (mode, umask))
        });
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
        let (caller, name) = (Caller::of(request), name.to_owned());
        let kind = engine::files::NewKind::Dir;
        self.make(request, reply, move |front| {
            front.make(caller, parent, &name, kind, (mode, umask))
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.change(request, reply, move |front| front.unlink_name(parent, name.as_bytes()));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.change(request, reply, move |front| front.remove_dir(parent, name.as_bytes()));
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
        let (caller, name) = (Caller::of(request), name.to_owned());
        self.make(request, reply, move |front| front.make(caller, parent, &name, kind, (0o777, 0)));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, to_name) = (name.to_owned(), to_name.to_owned());
        let caller = Caller::of(request);
        self.change(request, reply, move |front| {
            let (from, to) = ((parent, name.as_bytes()), (to_parent, to_name.as_bytes()));
            front.move_name(caller, from, to, flags)
        });
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let name = name.to_owned();
        self.make(request, reply, move |front| front.add_link(ino, parent, name.as_bytes()));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.look(move |front| match front.open_file(ino, flags) {
            // The kernel's cached pages of a file are valid as long as its time and size are the
            // same.
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
            Err(e) => reply.error(e),
        });
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
        let (caller, name) = (Caller::of(request), name.to_owned());
        let create = move |front: &Front| {
            let kind = engine::files::NewKind::File;
            let node = front.make(caller, parent, &name, kind, (mode, umask))?;
            let held = front.fs.hold(node.number()).or_errno()?;
            let known = front.known(InodeTarget::Live(node.number()), &node)?;
            Ok((known, front.handles.add(Some(held))))
        };
        let tell = |_: &Front, reply: ReplyCreate, opened: FuseResult<(EntryReply, FileHandle)>| {
            match opened {
                Ok((EntryReply { attr, generation, ttl }, handle)) => {
                    reply.created(&ttl, &attr, generation, handle, FopenFlags::FOPEN_KEEP_CACHE);
                }
                Err(e) => reply.error(e),
            }
        };
        self.work(Class::Change, request, reply, create, tell);
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = move |front: &Front| front.read_file(ino, offset, size.min(TRANSFER_MAX));
        let tell = |_: &Front, reply: ReplyData, done: FuseResult<Vec<u8>>| match done {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e),
        };
        self.work(Class::Content, request, reply, read, tell);
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let tell = move |reply: ReplyWrite, done: FuseResult<()>| match done {
            Ok(()) => reply.written(length),
            Err(e) => reply.error(e),
        };
        let answer = self.requests.begin(request.pid(), reply);
        if let Some(_permit) = self.workers.try_inline() {
            let done = self.front.write_file(ino, offset, data, how, flags);
            return answer.give(|reply| tell(reply, done));
        }
        // Another thread needs bytes of its own: these are the next request's.
        let (data, front) = (data.to_vec(), Arc::clone(&self.front));
        let class = if data.len() < WRITE_MIN { Class::Change } else { Class::Write };
        self.workers.hand_over(class, move || {
            if answer.is_wanted() {
                let done = front.write_file(ino, offset, &data, how, flags);
                answer.give(|reply| tell(reply, done));
            }
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Written data was accepted when it was written.
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
        let Some(handle) = self.front.handles.remove(handle) else { return };
        match self.workers.try_inline() {
            Some(_permit) => drop(handle),
            None => self.workers.hand_over(Class::Change, move || drop(handle)),
        }
    }

    fn fsync(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.promise(request, ino, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.look(move |front| match front.open_dir(ino) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(e) => reply.error(e),
        });
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        place: u64,
        mut reply: ReplyDirectory,
    ) {
        self.look(move |front| match front.list(ino, handle, place, &mut reply) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        });
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        place: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.look(move |front| match front.list(ino, handle, place, &mut reply) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        });
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
        drop(self.front.handles.remove(handle));
    }

    fn fsyncdir(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // Changes of names are promised with any file.
        self.promise(request, ino, reply);
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.look(move |front| front.answer_statfs(ino, reply));
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (name.to_owned(), value.to_vec());
        self.change(request, reply, move |front| {
            front.set_xattr(ino, name.as_bytes(), &value, flags)
        });
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        self.look(move |front| answer_xattr(reply, size, front.xattr(ino, name.as_bytes())));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.look(move |front| answer_xattr(reply, size, front.xattr_names(ino)));
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.change(request, reply, move |front| front.remove_xattr(ino, name.as_bytes()));
    }

    fn ioctl(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        number: u32,
        given: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let given = given.to_vec();
        let control = move |front: &Front| front.control(ino, number, &given);
        let tell = |_: &Front, reply: ReplyIoctl, done: FuseResult<Vec<u8>>| match done {
            Ok(back) => reply.ioctl(0, &back),
            Err(e) => reply.error(e),
        };
        self.work(Class::Change, request, reply, control, tell);
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.change(request, reply, move |front| front.allocate(ino, offset, length, mode));
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
        self.look(move |front| match front.seek(ino, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(e) => reply.error(e),
        });
    }
}

/// The bytes, if there is room for them, or their number if that is requested.
fn answer_xattr(reply: ReplyXattr, room: u32, bytes: FuseResult<Vec<u8>>) {
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

impl Server {
    /// Answers when what was changed of the file survives whatever happens; no thread waits for it.
    fn promise(&self, request: &Request, ino: INodeNo, reply: ReplyEmpty) {
        let front = &self.front;
        // A file system that cannot be changed is durable.
        let Ok(file) = front.object(ino) else { return reply.ok() };
        if !front.fs.is_live() {
            return reply.ok();
        }
        let waiting = self.requests.begin(request.pid(), reply);
        let done = reply_when_done(waiting);
        // Some promises are kept by the thread that asks.
        match self.workers.try_inline() {
            Some(_permit) => front.fs.sync_then(Some(file), done),
            None => {
                let fs = front.fs.clone();
                self.workers.hand_over(Class::Change, move || fs.sync_then(Some(file), done));
            }
        }
    }
}

/// Answers when it is called with what became of a promise.
fn reply_when_done<E: Into<engine::Error>>(
    waiting: Answer<ReplyEmpty>,
) -> impl FnOnce(Result<(), E>) + Send + 'static {
    move |done| waiting.give(|reply| answer(reply, done.or_errno()))
}
