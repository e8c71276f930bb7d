//! The kernel's requests: each is answered here, and done by the method of the same subject in
//! `names.rs`, `content.rs`, `listing.rs` and `xattrs.rs`.
//!
//! They are carried out where they hold up nothing else (`workers.rs`), and a process that is to
//! end does not wait for those that may take long, changes and the content of files
//! (`requests.rs`).

use crate::errno::{FuseResult, OrErrno as _};
use crate::kernel::{
    self, Entries, EntryReply, Errno, FileHandle, FileSpace, INodeNo, Operation, Reply, Request,
    Serve, capability,
};
use crate::requests::{Answer, Requests};
use crate::served::{Caller, Front};
use crate::snapshots::InodeTarget;
use crate::workers::{Class, InlinePermit, Workers};
use engine::Node;
use engine::files::{NewKind, OpenFile, ProjectRoom};
use std::sync::Arc;

/// Bytes that are not written as fast as a name.
const WRITE_MIN: usize = 32 << 10;
/// The capabilities that are used where the kernel has them.
const WANTED: u64 = capability::PARALLEL_DIROPS
    | capability::AUTO_INVAL_DATA
    | capability::DO_READDIRPLUS
    | capability::READDIRPLUS_AUTO
    | capability::ASYNC_DIO
    | capability::CACHE_SYMLINKS
    | capability::MAX_PAGES
    | capability::HANDLE_KILLPRIV_V2
    | capability::ALLOW_IDMAP;

/// Answers the kernel: a file system, and the threads and lists for its requests.
pub(crate) struct Server {
    front: Arc<Front>,
    workers: Workers,
    requests: Requests,
}

impl Front {
    fn answer_entry(&self, reply: Reply, known: FuseResult<EntryReply>) {
        match known {
            Ok(known) => reply.entry(&known),
            Err(e) => reply.error(e),
        }
    }

    /// The same for a file of the file system itself.
    fn answer_made(&self, reply: Reply, node: FuseResult<Node>) {
        let known = node.and_then(|node| self.known(InodeTarget::Live(node.number()), &node));
        self.answer_entry(reply, known);
    }

    fn answer_attr(&self, reply: Reply, known: FuseResult<EntryReply>) {
        match known {
            Ok(known) => reply.attr(&known),
            Err(e) => reply.error(e),
        }
    }

    /// The file is open from now on: where no answer is wanted any more, nothing will close it.
    fn answer_created(&self, reply: Reply, made: FuseResult<(EntryReply, OpenFile)>) {
        match made {
            Ok((known, held)) => {
                reply.created(&known, self.handles.add(Some(held)), kernel::KEEP_CACHE);
            }
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

    fn answer_statfs(&self, ino: INodeNo, reply: Reply) {
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
        reply.space(&FileSpace {
            total,
            free,
            files,
            free_files: more,
            block: settings.record_size,
            name_max: self.name_max() as u32,
            unit: UNIT as u32,
        });
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
    fn work<T>(
        &self,
        class: Class,
        request: &Request<'_>,
        reply: Reply,
        job: impl FnOnce(&Front) -> FuseResult<T> + Send + 'static,
        tell: impl FnOnce(&Front, Reply, FuseResult<T>) + Send + 'static,
    ) {
        let answer = self.requests.begin(request.pid, reply);
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
        request: &Request<'_>,
        reply: Reply,
        job: impl FnOnce(&Front) -> FuseResult<()> + Send + 'static,
    ) {
        self.work(Class::Change, request, reply, job, |_, reply, done| answer(reply, done));
    }

    /// The same for one that makes a name.
    fn make(
        &self,
        request: &Request<'_>,
        reply: Reply,
        job: impl FnOnce(&Front) -> FuseResult<Node> + Send + 'static,
    ) {
        self.work(Class::Change, request, reply, job, Front::answer_made);
    }
}

fn answer(reply: Reply, done: FuseResult<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

/// What is read.
fn answer_data(reply: Reply, done: FuseResult<Vec<u8>>) {
    match done {
        Ok(bytes) => reply.data(&bytes),
        Err(e) => reply.error(e),
    }
}

impl Serve for Server {
    fn choose(&self, offered: u64) -> std::io::Result<u64> {
        // Also where there are none: the property that decides about them can change at any time.
        let lists = capability::POSIX_ACL | capability::DONT_MASK;
        if offered & lists == lists {
            return Ok(lists | WANTED & offered);
        }
        match self.front.is_on(|o| o.posix_acls) {
            true => Err(std::io::ErrorKind::Unsupported.into()),
            false => Ok(WANTED & offered),
        }
    }

    fn serve(&self, request: &Request<'_>, reply: Reply) {
        match request.operation() {
            Ok(operation) => self.carry_out(request, operation, reply),
            Err(e) => reply.error(e),
        }
    }

    fn forget(&self, ino: INodeNo) {
        if let Some(file) = self.front.forgotten(ino) {
            self.end_use(file);
        }
    }

    fn end(&self) {
        self.requests.end();
    }
}

impl Server {
    fn carry_out(&self, request: &Request<'_>, operation: Operation<'_>, reply: Reply) {
        use Operation as Op;
        let ino = request.ino;
        match operation {
            Op::LookUp(name) => {
                let name = name.to_vec();
                self.look(move |front| front.answer_entry(reply, front.look_up(ino, &name)));
            }
            Op::Attributes => self.look(move |front| front.answer_attr(reply, front.look(ino))),
            Op::MoreAttributes => self.look(move |front| match front.look(ino) {
                Ok(known) => reply.more_attr(&known),
                Err(e) => reply.error(e),
            }),
            Op::ReadLink => self.look(move |front| {
                let target = front.node(ino).and_then(|node| node.read_link().or_errno());
                answer_data(reply, target);
            }),
            Op::Space => self.look(move |front| front.answer_statfs(ino, reply)),
            Op::Xattr { name, room } => {
                let name = name.to_vec();
                self.look(move |front| answer_xattr(reply, room, front.xattr(ino, &name)));
            }
            Op::ListXattrs { room } => {
                self.look(move |front| answer_xattr(reply, room, front.xattr_names(ino)));
            }
            Op::Open { .. } | Op::OpenDir | Op::List { .. } | Op::Seek { .. } => {
                self.look_open(ino, operation, reply);
            }
            Op::Read { .. }
            | Op::Write { .. }
            | Op::Control { .. }
            | Op::Allocate { .. }
            | Op::Copy { .. } => self.use_content(request, operation, reply),
            Op::Sync => self.promise(request, reply),
            // Written data was accepted when it was written. The kernel sends no other: each would
            // make a program wait that closes a file.
            Op::Flush => reply.error(Errno::ENOSYS),
            Op::Destroy => reply.ok(),
            Op::Release(handle) => self.release(handle, reply),
            Op::ReleaseDir(handle) => {
                reply.ok();
                drop(self.front.handles.remove(handle));
            }
            Op::SetAttributes(_) | Op::SetXattr { .. } | Op::RemoveXattr(_) => {
                self.change_attributes(request, operation, reply);
            }
            _ => self.change_names(request, operation, reply),
        }
    }

    /// Requests about files and directories that are opened or open, but for their content.
    fn look_open(&self, ino: INodeNo, operation: Operation<'_>, reply: Reply) {
        use Operation as Op;
        match operation {
            Op::Open { flags } => self.look(move |front| match front.open_file(ino, flags) {
                // The kernel's cached pages of a file are valid as long as its time and size are
                // the same.
                Ok(handle) => reply.opened(handle, kernel::KEEP_CACHE),
                Err(e) => reply.error(e),
            }),
            Op::OpenDir => self.look(move |front| match front.open_dir(ino) {
                Ok(handle) => reply.opened(handle, 0),
                Err(e) => reply.error(e),
            }),
            Op::List { handle, place, size, is_plus } => self.look(move |front| {
                let mut entries = Entries::new(size, is_plus);
                match front.list(ino, handle, place, &mut entries) {
                    Ok(()) => reply.entries(&entries),
                    Err(e) => reply.error(e),
                }
            }),
            Op::Seek { offset, whence } => {
                self.look(move |front| match front.seek(ino, offset, whence) {
                    Ok(offset) => reply.offset(offset),
                    Err(e) => reply.error(e),
                });
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    /// Requests about the content of files, and those that only the file system knows.
    fn use_content(&self, request: &Request<'_>, operation: Operation<'_>, reply: Reply) {
        use Operation as Op;
        let ino = request.ino;
        match operation {
            Op::Read { offset, size } => {
                let read = move |front: &Front| front.read_file(ino, offset, size);
                let tell = |_: &Front, reply, done| answer_data(reply, done);
                self.work(Class::Content, request, reply, read, tell);
            }
            Op::Write { offset, data, how, flags } => {
                self.write(request, (offset, data), (how, flags), reply);
            }
            Op::Control { number, given } => {
                let given = given.to_vec();
                let control = move |front: &Front| front.control(ino, number, &given);
                let tell = |_: &Front, reply: Reply, done: FuseResult<Vec<u8>>| match done {
                    Ok(back) => reply.control(&back),
                    Err(e) => reply.error(e),
                };
                self.work(Class::Change, request, reply, control, tell);
            }
            Op::Allocate { offset, length, mode } => {
                self.change(request, reply, move |front| front.allocate(ino, offset, length, mode));
            }
            Op::Copy { offset, to, length } => {
                let caller = Caller::of(request);
                let copy = move |front: &Front| front.copy(caller, (ino, offset), to, length);
                let tell = |_: &Front, reply: Reply, done: FuseResult<u32>| match done {
                    Ok(length) => reply.written(length),
                    Err(e) => reply.error(e),
                };
                self.work(Class::Change, request, reply, copy, tell);
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn change_attributes(&self, request: &Request<'_>, operation: Operation<'_>, reply: Reply) {
        use Operation as Op;
        let ino = request.ino;
        match operation {
            Op::SetAttributes(wanted) => {
                let set = move |front: &Front| {
                    let node = front.set_attributes(ino, &wanted)?;
                    front.known(InodeTarget::Live(node.number()), &node)
                };
                self.work(Class::Change, request, reply, set, Front::answer_attr);
            }
            Op::SetXattr { name, value, flags } => {
                let (name, value, flags) = (name.to_vec(), value.to_vec(), flags.cast_signed());
                let set = move |front: &Front| front.set_xattr(ino, &name, &value, flags);
                self.change(request, reply, set);
            }
            Op::RemoveXattr(name) => {
                let name = name.to_vec();
                self.change(request, reply, move |front| front.remove_xattr(ino, &name));
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    /// Makes, moves and takes away names in the directory of the request.
    fn change_names(&self, request: &Request<'_>, operation: Operation<'_>, reply: Reply) {
        use Operation as Op;
        let (dir, caller) = (request.ino, Caller::of(request));
        match operation {
            Op::MakeNode { name, mode, umask, device } => {
                let name = name.to_vec();
                self.make(request, reply, move |front| {
                    let kind = crate::names::kind_of(mode, device)?;
                    front.make(caller, dir, &name, kind, (mode, umask))
                });
            }
            Op::MakeDir { name, .. } if self.front.is_of_snapshots(dir) => {
                let name = name.to_vec();
                let take = move |front: &Front| front.look(front.take_snapshot(caller, &name)?);
                self.work(Class::Change, request, reply, take, Front::answer_entry);
            }
            Op::MakeDir { name, mode, umask } => {
                let name = name.to_vec();
                self.make(request, reply, move |front| {
                    front.make(caller, dir, &name, NewKind::Dir, (mode, umask))
                });
            }
            Op::MakeSymlink { name, target } => {
                let (name, kind) = (name.to_vec(), NewKind::Symlink(target.to_vec()));
                self.make(request, reply, move |front| {
                    front.make(caller, dir, &name, kind, (0o777, 0))
                });
            }
            Op::Create { name, mode, umask, is_unnamed } => {
                let name = (!is_unnamed).then(|| name.to_vec());
                let create =
                    move |front: &Front| front.create(caller, dir, name.as_deref(), (mode, umask));
                self.work(Class::Change, request, reply, create, Front::answer_created);
            }
            Op::Link { file, name } => {
                let name = name.to_vec();
                self.make(request, reply, move |front| front.add_link(file, dir, &name));
            }
            Op::Rename { name, to, flags } => {
                let (name, to_name) = (name.to_vec(), to.1.to_vec());
                self.change(request, reply, move |front| {
                    front.move_name(caller, (dir, &name), (to.0, &to_name), flags)
                });
            }
            Op::Unlink(name) => {
                let name = name.to_vec();
                self.change(request, reply, move |front| front.unlink_name(dir, &name));
            }
            Op::RemoveDir(name) => {
                let name = name.to_vec();
                self.change(request, reply, move |front| front.remove_dir(caller, dir, &name));
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn write(
        &self,
        request: &Request<'_>,
        (offset, data): (u64, &[u8]),
        (how, flags): (u32, u32),
        reply: Reply,
    ) {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let tell = move |reply: Reply, done: FuseResult<()>| match done {
            Ok(()) => reply.written(length),
            Err(e) => reply.error(e),
        };
        let ino = request.ino;
        let answer = self.requests.begin(request.pid, reply);
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

    fn release(&self, handle: FileHandle, reply: Reply) {
        // Before the file is freed, which may take long: no program waits for that.
        reply.ok();
        if let Some(handle) = self.front.handles.remove(handle) {
            self.end_use(handle);
        }
    }

    /// Drops what uses a file, and with it perhaps the file.
    fn end_use(&self, used: impl Send + 'static) {
        match self.workers.try_inline() {
            Some(_permit) => drop(used),
            None => self.workers.hand_over(Class::Change, move || drop(used)),
        }
    }

    /// Answers when what was changed of the file survives whatever happens. Changes of names are
    /// promised with any file. The thread that reads the request waits for that if no other thread
    /// is within a request: to start one takes as long as a fast disk. Otherwise none waits.
    fn promise(&self, request: &Request<'_>, reply: Reply) {
        let front = &self.front;
        // A file system that cannot be changed is durable.
        let Ok(file) = front.object(request.ino) else { return reply.ok() };
        if !front.fs.is_live() {
            return reply.ok();
        }
        let waiting = self.requests.begin(request.pid, reply);
        let permit = self.workers.try_inline();
        if permit.as_ref().is_some_and(InlinePermit::is_only) {
            let done = front.fs.sync(file);
            return waiting.give(|reply| answer(reply, done.or_errno()));
        }
        let done = reply_when_done(waiting);
        // Some promises are kept by the thread that asks.
        match permit {
            Some(_permit) => front.fs.sync_then(Some(file), done),
            None => {
                let fs = front.fs.clone();
                self.workers.hand_over(Class::Change, move || fs.sync_then(Some(file), done));
            }
        }
    }
}

/// The bytes, if there is room for them, or their number if that is requested.
fn answer_xattr(reply: Reply, room: u32, bytes: FuseResult<Vec<u8>>) {
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

/// Answers when it is called with what became of a promise.
fn reply_when_done<E: Into<engine::Error>>(
    waiting: Answer,
) -> impl FnOnce(Result<(), E>) + Send + 'static {
    move |done| waiting.give(|reply| answer(reply, done.or_errno()))
}
