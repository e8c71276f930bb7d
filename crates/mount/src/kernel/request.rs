//! What the kernel asks for.

use super::wire::Arguments;
use super::{Errno, FileHandle, INodeNo};
use engine::files::Time;

/// Kinds of requests.
pub(super) mod kind {
    pub(in super::super) const LOOKUP: u32 = 1;
    pub(in super::super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const READLINK: u32 = 5;
    pub(super) const SYMLINK: u32 = 6;
    pub(super) const MKNOD: u32 = 8;
    pub(super) const MKDIR: u32 = 9;
    pub(super) const UNLINK: u32 = 10;
    pub(super) const RMDIR: u32 = 11;
    pub(super) const RENAME: u32 = 12;
    pub(super) const LINK: u32 = 13;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(in super::super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const SETXATTR: u32 = 21;
    pub(super) const GETXATTR: u32 = 22;
    pub(super) const LISTXATTR: u32 = 23;
    pub(super) const REMOVEXATTR: u32 = 24;
    pub(in super::super) const FLUSH: u32 = 25;
    pub(in super::super) const INIT: u32 = 26;
    pub(super) const OPENDIR: u32 = 27;
    pub(super) const READDIR: u32 = 28;
    pub(super) const RELEASEDIR: u32 = 29;
    pub(super) const FSYNCDIR: u32 = 30;
    pub(super) const CREATE: u32 = 35;
    pub(super) const DESTROY: u32 = 38;
    pub(super) const IOCTL: u32 = 39;
    pub(super) const BATCH_FORGET: u32 = 42;
    pub(super) const FALLOCATE: u32 = 43;
    pub(super) const READDIRPLUS: u32 = 44;
    pub(super) const RENAME2: u32 = 45;
    pub(super) const LSEEK: u32 = 46;
    pub(super) const COPY_FILE_RANGE: u32 = 47;
    pub(super) const TMPFILE: u32 = 51;
    pub(super) const STATX: u32 = 52;
}

/// A request.
pub(crate) struct Request<'a> {
    pub(super) kind: u32,
    pub(super) number: u64,
    /// The file it is about; where a name is given, the directory.
    pub(crate) ino: INodeNo,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The thread that asks; 0 if it cannot be seen from here, or is the kernel's.
    pub(crate) pid: u32,
    /// What is behind the head; none if the head claims another length than the message has.
    arguments: Option<Arguments<'a>>,
}

/// A time that a file is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewTime {
    Now,
    At(Time),
}

/// The attributes that are to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttrChanges {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<NewTime>,
    pub(crate) mtime: Option<NewTime>,
    pub(crate) ctime: Option<Time>,
    /// Set-id bits go: the size changes, and the program may not keep them.
    pub(crate) without_set_ids: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    LookUp(&'a [u8]),
    Attributes,
    /// The same with more: the time at which the file was made.
    MoreAttributes,
    SetAttributes(AttrChanges),
    ReadLink,
    MakeNode {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        device: u32,
    },
    MakeDir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    MakeSymlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Unlink(&'a [u8]),
    RemoveDir(&'a [u8]),
    Rename {
        name: &'a [u8],
        to: (INodeNo, &'a [u8]),
        flags: u32,
    },
    /// Another name, in the directory of the request, for this file.
    Link {
        file: INodeNo,
        name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    /// `is_unnamed`: the name is none that the file shall have.
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        is_unnamed: bool,
    },
    Read {
        offset: u64,
        size: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
        how: u32,
        flags: u32,
    },
    Flush,
    Release(FileHandle),
    /// Of a file or directory.
    Sync,
    OpenDir,
    List {
        handle: FileHandle,
        place: u64,
        size: u32,
        is_plus: bool,
    },
    ReleaseDir(FileHandle),
    Space,
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    /// `room`: bytes that the answer may have; 0: the answer is how many it would have.
    Xattr {
        name: &'a [u8],
        room: u32,
    },
    ListXattrs {
        room: u32,
    },
    RemoveXattr(&'a [u8]),
    Control {
        number: u32,
        given: &'a [u8],
    },
    Allocate {
        offset: u64,
        length: u64,
        mode: u32,
    },
    Seek {
        offset: u64,
        whence: u32,
    },
    /// What is in a range of the file shall be in another one, too.
    Copy {
        offset: u64,
        to: (INodeNo, u64),
        length: u64,
    },
    /// The last request.
    Destroy,
}

impl<'a> Request<'a> {
    /// A message of the device. One that has a head can be answered, whatever follows.
    pub(super) fn read(message: &'a [u8]) -> Result<Self, Errno> {
        let mut head = Arguments(message);
        let is_whole = usize::try_from(head.u32()?) == Ok(message.len());
        let (kind, number, ino) = (head.u32()?, head.u64()?, INodeNo(head.u64()?));
        let (uid, gid, pid) = (head.u32()?, head.u32()?, head.u32()?);
        head.u32()?;
        // What follows is all of it: extensions at the end are not asked for.
        let arguments = is_whole.then_some(head);
        Ok(Self { kind, number, ino, uid, gid, pid, arguments })
    }

    pub(super) fn arguments(&self) -> Result<Arguments<'a>, Errno> {
        self.arguments.ok_or(Errno::EIO)
    }

    /// Whether the kernel waits for an answer: it does not where it tells what it has forgotten.
    pub(super) fn is_answered(&self) -> bool {
        ![kind::FORGET, kind::BATCH_FORGET].contains(&self.kind)
    }

    /// The files that the kernel has forgotten: before it asks about one again, it looks it up.
    pub(super) fn forgotten(&self) -> impl Iterator<Item = INodeNo> {
        let one = (self.kind == kind::FORGET).then_some(self.ino);
        let mut several = self.arguments.filter(|_| self.kind == kind::BATCH_FORGET);
        // How many there are is seen from the length, too.
        let _ = several.as_mut().map(Arguments::u64);
        let next = move || {
            let (ino, _lookups) = several.as_mut().map(|a| (a.u64(), a.u64()))?;
            ino.ok().map(INodeNo)
        };
        one.into_iter().chain(std::iter::from_fn(next))
    }

    /// What is asked for: `ENOSYS` if that is not known here.
    pub(crate) fn operation(&self) -> Result<Operation<'a>, Errno> {
        use Operation as Op;
        let mut a = self.arguments()?;
        Ok(match self.kind {
            kind::LOOKUP => Op::LookUp(a.name()?),
            kind::GETATTR => Op::Attributes,
            kind::STATX => Op::MoreAttributes,
            kind::SETATTR => Op::SetAttributes(AttrChanges::read(&mut a)?),
            kind::READLINK => Op::ReadLink,
            kind::MKNOD => {
                let (mode, device, umask, _) = (a.u32()?, a.u32()?, a.u32()?, a.u32()?);
                Op::MakeNode { name: a.name()?, mode, umask, device }
            }
            kind::MKDIR => {
                let (mode, umask) = (a.u32()?, a.u32()?);
                Op::MakeDir { name: a.name()?, mode, umask }
            }
            kind::SYMLINK => Op::MakeSymlink { name: a.name()?, target: a.name()? },
            kind::UNLINK => Op::Unlink(a.name()?),
            kind::RMDIR => Op::RemoveDir(a.name()?),
            kind::RENAME => {
                let to = INodeNo(a.u64()?);
                Op::Rename { name: a.name()?, to: (to, a.name()?), flags: 0 }
            }
            kind::RENAME2 => {
                let (to, flags, _) = (INodeNo(a.u64()?), a.u32()?, a.u32()?);
                Op::Rename { name: a.name()?, to: (to, a.name()?), flags }
            }
            kind::LINK => Op::Link { file: INodeNo(a.u64()?), name: a.name()? },
            kind::CREATE | kind::TMPFILE => {
                let (_, mode, umask, _) = (a.u32()?, a.u32()?, a.u32()?, a.u32()?);
                let is_unnamed = self.kind == kind::TMPFILE;
                Op::Create { name: a.name()?, mode, umask, is_unnamed }
            }
            kind::STATFS => Op::Space,
            kind::SETXATTR => {
                let (size, flags) = (a.u32()?, a.u32()?);
                Op::SetXattr { name: a.name()?, value: a.take(size)?, flags }
            }
            kind::GETXATTR => {
                let (room, _) = (a.u32()?, a.u32()?);
                Op::Xattr { name: a.name()?, room }
            }
            kind::LISTXATTR => Op::ListXattrs { room: a.u32()? },
            kind::REMOVEXATTR => Op::RemoveXattr(a.name()?),
            kind::DESTROY => Op::Destroy,
            _ => return self.on_open(a),
        })
    }

    /// The same for what is done with files and directories that are open.
    fn on_open(&self, mut a: Arguments<'a>) -> Result<Operation<'a>, Errno> {
        use Operation as Op;
        /// The arguments of an `ioctl` lie anywhere in the memory of the process.
        const UNRESTRICTED: u32 = 1 << 0;
        Ok(match self.kind {
            kind::OPEN => Op::Open { flags: a.u32()? },
            kind::OPENDIR => Op::OpenDir,
            kind::READ => {
                let (_, offset, size) = (a.u64()?, a.u64()?, a.u32()?);
                Op::Read { offset, size }
            }
            kind::READDIR | kind::READDIRPLUS => {
                let (handle, place, size) = (FileHandle(a.u64()?), a.u64()?, a.u32()?);
                Op::List { handle, place, size, is_plus: self.kind == kind::READDIRPLUS }
            }
            kind::WRITE => {
                let (_, offset, size, how) = (a.u64()?, a.u64()?, a.u32()?, a.u32()?);
                let (_, flags, _) = (a.u64()?, a.u32()?, a.u32()?);
                Op::Write { offset, data: a.take(size)?, how, flags }
            }
            kind::FLUSH => Op::Flush,
            kind::RELEASE => Op::Release(FileHandle(a.u64()?)),
            kind::RELEASEDIR => Op::ReleaseDir(FileHandle(a.u64()?)),
            kind::FSYNC | kind::FSYNCDIR => Op::Sync,
            kind::IOCTL => {
                let (_, flags, number) = (a.u64()?, a.u32()?, a.u32()?);
                let (_, size, _) = (a.u64()?, a.u32()?, a.u32()?);
                if flags & UNRESTRICTED != 0 {
                    return Err(Errno::ENOSYS);
                }
                Op::Control { number, given: a.take(size)? }
            }
            kind::FALLOCATE => {
                let (_, offset, length) = (a.u64()?, a.u64()?, a.u64()?);
                Op::Allocate { offset, length, mode: a.u32()? }
            }
            kind::LSEEK => {
                let (_, offset) = (a.u64()?, a.u64()?);
                Op::Seek { offset, whence: a.u32()? }
            }
            kind::COPY_FILE_RANGE => {
                let (_, offset, to) = (a.u64()?, a.u64()?, INodeNo(a.u64()?));
                let (_, at, length) = (a.u64()?, a.u64()?, a.u64()?);
                Op::Copy { offset, to: (to, at), length }
            }
            _ => return Err(Errno::ENOSYS),
        })
    }
}

impl AttrChanges {
    fn read(a: &mut Arguments<'_>) -> Result<Self, Errno> {
        const MODE: u32 = 1 << 0;
        const UID: u32 = 1 << 1;
        const GID: u32 = 1 << 2;
        const SIZE: u32 = 1 << 3;
        const ATIME: u32 = 1 << 4;
        const MTIME: u32 = 1 << 5;
        const ATIME_NOW: u32 = 1 << 7;
        const MTIME_NOW: u32 = 1 << 8;
        const CTIME: u32 = 1 << 10;
        const WITHOUT_SET_IDS: u32 = 1 << 11;
        let (which, _, _) = (a.u32()?, a.u32()?, a.u64()?);
        let (size, _) = (a.u64()?, a.u64()?);
        let seconds = [a.u64()?, a.u64()?, a.u64()?].map(u64::cast_signed);
        let nanos = [a.u32()?, a.u32()?, a.u32()?];
        let (mode, _, uid, gid) = (a.u32()?, a.u32()?, a.u32()?, a.u32()?);
        let has = |bit: u32| which & bit != 0;
        let at = |n: usize| Time { seconds: seconds[n], nanos: nanos[n].into() };
        let when = |bit, now, n| match (has(bit), has(now)) {
            (false, _) => None,
            (true, true) => Some(NewTime::Now),
            (true, false) => Some(NewTime::At(at(n))),
        };
        Ok(Self {
            mode: has(MODE).then_some(mode),
            uid: has(UID).then_some(uid),
            gid: has(GID).then_some(gid),
            size: has(SIZE).then_some(size),
            atime: when(ATIME, ATIME_NOW, 0),
            mtime: when(MTIME, MTIME_NOW, 1),
            ctime: has(CTIME).then(|| at(2)),
            without_set_ids: has(WITHOUT_SET_IDS),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::wire::Message;
    use super::*;

    /// Bytes of the head of a request.
    pub(in super::super) const HEAD: usize = 40;

    /// A request of this kind with the number 7.
    pub(in super::super) fn message(kind: u32, arguments: &[u8]) -> Vec<u8> {
        let mut out = Message::default();
        out.u32((HEAD + arguments.len()) as u32).u32(kind).u64(7).u64(1);
        out.u32(1000).u32(100).u32(4321).u32(0);
        [out.0, arguments.to_vec()].concat()
    }

    #[test]
    fn arguments_are_found_behind_the_head() {
        let bytes = message(kind::LOOKUP, b"name\0");
        let request = Request::read(&bytes).unwrap();
        assert_eq!((request.number, request.ino, request.pid), (7, INodeNo(1), 4321));
        assert_eq!(request.operation(), Ok(Operation::LookUp(b"name")));
        let mut arguments = Message::default();
        arguments.u64(5).u64(1 << 33).u32(3).u32(1).u64(0).u32(2).u32(0).put(*b"abc");
        let bytes = message(kind::WRITE, &arguments.0);
        let write = Operation::Write { offset: 1 << 33, data: b"abc", how: 1, flags: 2 };
        assert_eq!(Request::read(&bytes).unwrap().operation(), Ok(write));
        let mut arguments = Message::default();
        arguments.u64(5).u64(1 << 33).u64(9).u64(6).u64(1 << 34).u64(4096).u64(0);
        let bytes = message(kind::COPY_FILE_RANGE, &arguments.0);
        let copy = Operation::Copy { offset: 1 << 33, to: (INodeNo(9), 1 << 34), length: 4096 };
        assert_eq!(Request::read(&bytes).unwrap().operation(), Ok(copy));
    }

    #[test]
    fn only_the_attributes_that_are_meant_change() {
        let mut a = Message::default();
        a.u32(1 << 3 | 1 << 4 | 1 << 5 | 1 << 8).u32(0).u64(0).u64(99).u64(0);
        a.i64(-5).i64(6).i64(7).u32(1).u32(2).u32(3).u32(0o644).u32(0).u32(8).u32(9).u32(0);
        let bytes = message(kind::SETATTR, &a.0);
        let atime = Some(NewTime::At(Time { seconds: -5, nanos: 1 }));
        let mtime = Some(NewTime::Now);
        let changes = AttrChanges { size: Some(99), atime, mtime, ..AttrChanges::default() };
        let operation = Request::read(&bytes).unwrap().operation();
        assert_eq!(operation, Ok(Operation::SetAttributes(changes)));
    }

    #[test]
    fn what_is_forgotten_is_told_alone_or_together() {
        let bytes = message(kind::FORGET, &[0; 8]);
        let forgotten =
            |bytes: &[u8]| Request::read(bytes).unwrap().forgotten().collect::<Vec<_>>();
        assert_eq!(forgotten(&bytes), [INodeNo(1)]);
        let mut several = Message::default();
        several.u32(u32::MAX).u32(0).u64(5).u64(1).u64(6).u64(2);
        let bytes = message(kind::BATCH_FORGET, &several.0);
        assert_eq!(forgotten(&bytes), [INodeNo(5), INodeNo(6)]);
        assert_eq!(forgotten(&message(kind::BATCH_FORGET, b"")), []);
        assert_eq!(forgotten(&message(kind::LOOKUP, &[0; 32])), []);
    }

    /// Whatever is cut off or is not known is an error, but has a number to answer by as long as it
    /// has a head.
    #[test]
    fn requests_that_lack_something_are_refused() {
        let arguments = [1; 96];
        for kind in 0..60 {
            let whole = message(kind, &arguments);
            for length in 0..HEAD {
                assert!(Request::read(&whole[..length]).is_err());
            }
            for length in HEAD..whole.len() {
                let request = Request::read(&whole[..length]).unwrap();
                assert_eq!((request.number, request.operation()), (7, Err(Errno::EIO)));
            }
            for length in 0..arguments.len() {
                let bytes = message(kind, &arguments[..length]);
                let _ = Request::read(&bytes).unwrap().operation();
            }
        }
        let bytes = message(4096, b"");
        assert_eq!(Request::read(&bytes).unwrap().operation(), Err(Errno::ENOSYS));
        let bytes = [message(kind::LOOKUP, b"name\0"), b"more".to_vec()].concat();
        assert_eq!(Request::read(&bytes).unwrap().operation(), Err(Errno::EIO));
    }
}
