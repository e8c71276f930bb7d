//! Answers to the kernel.

use super::wire::Message;
use super::{EntryReply, Errno, FileAttr, FileHandle, INodeNo};
use engine::files::Time;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of the head of an answer.
const HEAD: usize = 16;
/// Bytes of a file as the kernel is to know it.
const ENTRY: usize = 128;
/// Bytes of the largest answer that is not content: a file that was created and opened.
const SMALL: usize = ENTRY + 16;

/// The right and duty to answer a request. What is dropped without an answer fails with `EIO`: a
/// program would wait for ever otherwise.
pub(crate) struct Reply {
    device: Arc<OwnedFd>,
    request: u64,
    is_given: bool,
}

/// The space of a file system.
pub(crate) struct FileSpace {
    /// In units of `unit` bytes.
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) files: u64,
    pub(crate) free_files: u64,
    /// The best size of requests.
    pub(crate) block: u32,
    pub(crate) name_max: u32,
    pub(crate) unit: u32,
}

/// Entries of a directory, as many as the kernel has room for.
pub(crate) struct Entries {
    bytes: Message,
    room: usize,
    /// With the attributes of each.
    pub(crate) is_plus: bool,
}

impl Reply {
    pub(crate) fn new(device: &Arc<OwnedFd>, request: u64) -> Self {
        Self { device: Arc::clone(device), request, is_given: false }
    }

    fn give(&mut self, error: i32, parts: [&[u8]; 2]) {
        self.is_given = true;
        let length = HEAD + parts[0].len() + parts[1].len();
        let mut head = Message::for_bytes(HEAD);
        head.u32(u32::try_from(length).unwrap_or(u32::MAX)).u32(error.cast_unsigned());
        head.u64(self.request);
        let [first, second] = parts.map(IoSlice::new);
        // It fails where nothing waits for the answer any more.
        let _ = rustix::io::writev(&*self.device, &[IoSlice::new(&head.0), first, second]);
    }

    fn message(mut self, message: &Message) {
        self.give(0, [&message.0, &[]]);
    }

    pub(crate) fn error(mut self, e: Errno) {
        self.give(-(e as i32), [&[], &[]]);
    }

    /// It is done, and there is nothing else to say.
    pub(crate) fn ok(mut self) {
        self.give(0, [&[], &[]]);
    }

    pub(crate) fn data(mut self, bytes: &[u8]) {
        self.give(0, [bytes, &[]]);
    }

    /// A file and its attributes.
    pub(crate) fn entry(self, known: &EntryReply) {
        self.message(&entry(known));
    }

    pub(crate) fn attr(self, known: &EntryReply) {
        let mut out = Message::for_bytes(SMALL);
        out.u64(known.ttl.as_secs()).u32(known.ttl.subsec_nanos()).u32(0);
        put_attr(&mut out, &known.attr);
        self.message(&out);
    }

    /// The attributes with the time at which the file was made.
    pub(crate) fn more_attr(self, known: &EntryReply) {
        /// All that `stat` has, and that time.
        const MASK: u32 = 0xfff;
        let EntryReply { attr, ttl, .. } = known;
        let mut out = Message::for_bytes(288);
        out.u64(ttl.as_secs()).u32(ttl.subsec_nanos()).u32(0).zeros(16);
        out.u32(MASK).u32(attr.blksize).u64(0);
        out.u32(attr.nlink).u32(attr.uid).u32(attr.gid);
        out.u16(mode(attr) as u16).u16(0);
        out.u64(attr.ino.0).u64(attr.size).u64(attr.blocks).u64(0);
        for time in [attr.atime, attr.crtime, attr.ctime, attr.mtime] {
            out.i64(time.seconds).u32(nanos(time)).u32(0);
        }
        out.u32(attr.device.0).u32(attr.device.1).zeros(8 + 14 * 8);
        self.message(&out);
    }

    /// A file or directory that was opened.
    pub(crate) fn opened(self, handle: FileHandle, flags: u32) {
        let mut out = Message::for_bytes(16);
        put_opened(&mut out, handle, flags);
        self.message(&out);
    }

    /// A file that was made and opened.
    pub(crate) fn created(self, known: &EntryReply, handle: FileHandle, flags: u32) {
        let mut out = entry(known);
        put_opened(&mut out, handle, flags);
        self.message(&out);
    }

    /// This number of bytes was written.
    pub(crate) fn written(self, length: u32) {
        self.size(length);
    }

    /// The size of what was asked for.
    pub(crate) fn size(self, size: u32) {
        let mut out = Message::for_bytes(8);
        out.u32(size).u32(0);
        self.message(&out);
    }

    pub(crate) fn offset(self, offset: u64) {
        let mut out = Message::for_bytes(8);
        out.u64(offset);
        self.message(&out);
    }

    pub(crate) fn space(self, space: &FileSpace) {
        let mut out = Message::for_bytes(80);
        out.u64(space.total).u64(space.free).u64(space.free);
        out.u64(space.files).u64(space.free_files);
        out.u32(space.block).u32(space.name_max).u32(space.unit).zeros(28);
        self.message(&out);
    }

    /// What an `ioctl` gives back.
    pub(crate) fn control(mut self, back: &[u8]) {
        self.give(0, [&[0; 16], back]);
    }

    pub(crate) fn entries(self, entries: &Entries) {
        self.message(&entries.bytes);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_given {
            self.give(-(Errno::EIO as i32), [&[], &[]]);
        }
    }
}

impl Entries {
    pub(crate) fn new(room: u32, is_plus: bool) -> Self {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        Self { bytes: Message::default(), room, is_plus }
    }

    /// Adds an entry, and the number of the place behind it; whether there is no room for it. Of
    /// its file nothing is said but the number and the type, which may be 0.
    pub(crate) fn add(&mut self, ino: INodeNo, behind: u64, kind: u8, name: &[u8]) -> bool {
        self.put(None, ino, behind, kind, name)
    }

    /// The same with the attributes of the file.
    pub(crate) fn add_known(&mut self, known: &EntryReply, behind: u64, name: &[u8]) -> bool {
        self.put(Some(known), known.attr.ino, behind, known.attr.kind, name)
    }

    fn put(
        &mut self,
        known: Option<&EntryReply>,
        ino: INodeNo,
        behind: u64,
        kind: u8,
        name: &[u8],
    ) -> bool {
        let begin = self.bytes.0.len();
        match known {
            Some(known) if self.is_plus => put_entry(&mut self.bytes, known),
            // Without a number the kernel asks when the file is looked at.
            None if self.is_plus => drop(self.bytes.zeros(ENTRY)),
            _ => {}
        }
        self.bytes.u64(ino.0).u64(behind).u32(name.len() as u32).u32(kind.into());
        self.bytes.0.extend_from_slice(name);
        let end = self.bytes.0.len().next_multiple_of(8);
        self.bytes.0.resize(end, 0);
        let is_full = end > self.room;
        if is_full {
            self.bytes.0.truncate(begin);
        }
        is_full
    }
}

fn entry(known: &EntryReply) -> Message {
    let mut out = Message::for_bytes(SMALL);
    put_entry(&mut out, known);
    out
}

fn put_entry(out: &mut Message, known: &EntryReply) {
    let (seconds, nanos) = (known.ttl.as_secs(), known.ttl.subsec_nanos());
    out.u64(known.attr.ino.0).u64(known.generation);
    out.u64(seconds).u64(seconds).u32(nanos).u32(nanos);
    put_attr(out, &known.attr);
}

fn put_attr(out: &mut Message, attr: &FileAttr) {
    out.u64(attr.ino.0).u64(attr.size).u64(attr.blocks);
    let times = [attr.atime, attr.mtime, attr.ctime];
    for time in times {
        out.i64(time.seconds);
    }
    for time in times {
        out.u32(nanos(time));
    }
    out.u32(mode(attr)).u32(attr.nlink).u32(attr.uid).u32(attr.gid);
    out.u32(device_word(attr.device)).u32(attr.blksize).u32(0);
}

fn put_opened(out: &mut Message, handle: FileHandle, flags: u32) {
    out.u64(handle.0).u32(flags).u32(0);
}

fn mode(attr: &FileAttr) -> u32 {
    u32::from(attr.kind) << 12 | attr.perm
}

fn nanos(time: Time) -> u32 {
    time.nanos.min(999_999_999) as u32
}

/// A device's numbers in one word, as Linux has it between kernel and programs.
pub(crate) fn device_word((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn known() -> EntryReply {
        let time = Time { seconds: 1, nanos: 2 };
        let attr = FileAttr {
            ino: INodeNo(5),
            size: 6,
            blocks: 7,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: super::super::file_type::REGULAR,
            perm: 0o640,
            nlink: 1,
            uid: 8,
            gid: 9,
            device: (0, 0),
            blksize: 4096,
        };
        EntryReply { attr, generation: 3, ttl: Duration::from_millis(1500) }
    }

    /// What a request is answered with; a pipe is written to as the device is.
    fn sent(answer: impl FnOnce(Reply)) -> Vec<u8> {
        let (mut reader, writer) = std::io::pipe().unwrap();
        answer(Reply::new(&Arc::new(writer.into()), 0x77));
        let mut out = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut out).unwrap();
        out
    }

    /// The kernel refuses answers that are a byte longer or shorter.
    #[test]
    fn answers_have_the_length_that_the_kernel_expects() {
        assert_eq!(sent(|reply| reply.entry(&known())).len(), HEAD + 128);
        assert_eq!(sent(|reply| reply.attr(&known())).len(), HEAD + 104);
        assert_eq!(sent(|reply| reply.more_attr(&known())).len(), HEAD + 288);
        assert_eq!(sent(|reply| reply.created(&known(), FileHandle(1), 2)).len(), HEAD + SMALL);
        assert_eq!(sent(|reply| reply.control(b"back")).len(), HEAD + 20);
        let space = FileSpace {
            total: 1,
            free: 1,
            files: 1,
            free_files: 1,
            block: 1,
            name_max: 255,
            unit: 4096,
        };
        let bytes = sent(|reply| reply.space(&space));
        assert_eq!(bytes.len(), HEAD + 80);
        let mut head = Message::default();
        head.u32(96).u32(0).u64(0x77);
        assert_eq!(bytes[..HEAD], head.0);
    }

    #[test]
    fn what_is_not_answered_has_failed() {
        let mut head = Message::default();
        head.u32(16).u32((-(Errno::EIO as i32)).cast_unsigned()).u64(0x77);
        assert_eq!(sent(drop), head.0);
    }

    #[test]
    fn entries_end_where_there_is_no_room() {
        let mut entries = Entries::new(64, false);
        assert!(!entries.add(INodeNo(1), 1, 4, b"a"));
        assert!(!entries.add(INodeNo(2), 2, 4, b"12345678"));
        assert!(entries.add(INodeNo(3), 3, 4, b"c"));
        assert_eq!(entries.bytes.0.len(), 64);
        let mut entries = Entries::new(160, true);
        assert!(!entries.add_known(&known(), 1, b"a"));
        assert!(entries.add_known(&known(), 2, b"b"));
        assert_eq!(entries.bytes.0.len(), 160);
        let mut entries = Entries::new(320, true);
        assert!(!entries.add(INodeNo(9), 1, 0, b"a"));
        assert!(!entries.add_known(&known(), 2, b"b"));
        assert_eq!((&entries.bytes.0[..ENTRY], entries.bytes.0[ENTRY]), (&[0; ENTRY][..], 9));
    }
}
