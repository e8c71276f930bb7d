//! The content of files.

use crate::attrs::{now, without_set_ids};
use crate::errno::{FuseResult, OrErrno as _};
use crate::kernel::{Errno, FileHandle, INodeNo};
use crate::served::{Caller, Front};
use crate::snapshots::InodeTarget;
use engine::files::{CloneRange, CopiedSnapshot, FileKind, SetAttrs};
use nix::fcntl::{FallocateFlags, OFlag};

/// Of a write: it comes out of the kernel's cache, where the end of the file was known.
const FROM_CACHE: u32 = 1 << 0;
/// Of a write: its program may not leave set-id bits.
const WITHOUT_SET_IDS: u32 = 1 << 2;

/// The flags of `open`.
fn of_open(flags: u32) -> OFlag {
    OFlag::from_bits_retain(flags.cast_signed())
}

impl Front {
    /// The file, in use.
    pub(crate) fn open_file(&self, ino: INodeNo, flags: u32) -> FuseResult<FileHandle> {
        if !self.fs.is_live() || !matches!(self.of(ino), InodeTarget::Live(_)) {
            return match of_open(flags) & OFlag::O_ACCMODE == OFlag::O_RDONLY {
                true => Ok(self.handles.add(None)),
                false => Err(Errno::EROFS),
            };
        }
        let held = self.fs.hold(self.object(ino)?).or_errno()?;
        Ok(self.handles.add(Some(held)))
    }

    pub(crate) fn read_file(&self, ino: INodeNo, offset: u64, size: u32) -> FuseResult<Vec<u8>> {
        let node = self.node(ino)?;
        let left = node.size.saturating_sub(offset).min(size.into());
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
        let read = node.read_at(offset, &mut bytes).or_errno()?;
        bytes.truncate(read);
        self.note_read(ino, &node);
        Ok(bytes)
    }

    pub(crate) fn write_file(
        &self,
        ino: INodeNo,
        offset: u64,
        data: &[u8],
        how: u32,
        flags: u32,
    ) -> FuseResult<()> {
        let (file, now) = (self.object(ino)?, now());
        let is_from_cache = how & FROM_CACHE != 0;
        // Where the end is, the kernel may not have heard yet.
        if of_open(flags).contains(OFlag::O_APPEND) && !is_from_cache {
            self.fs.append(file, data, now).or_errno()?;
        } else {
            self.fs.write_at(file, offset, data, now).or_errno()?;
        }
        if how & WITHOUT_SET_IDS != 0
            && let Some(mode) = without_set_ids(&self.node(ino)?)
        {
            let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
            self.fs.set_attrs(file, &set, now).or_errno()?;
        }
        Ok(())
    }

    /// Holes are made, and zeros are; space cannot be set aside, because what is written goes to
    /// other places than what it replaces.
    pub(crate) fn allocate(
        &self,
        ino: INodeNo,
        offset: u64,
        length: u64,
        mode: u32,
    ) -> FuseResult<()> {
        const ZEROES: FallocateFlags = FallocateFlags::FALLOC_FL_ZERO_RANGE;
        const HOLE: FallocateFlags = FallocateFlags::FALLOC_FL_PUNCH_HOLE;
        const KEEP: FallocateFlags = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let mode = FallocateFlags::from_bits(mode.cast_signed()).ok_or(Errno::EOPNOTSUPP)?;
        if !(ZEROES | HOLE | KEEP).contains(mode) {
            return Err(Errno::EOPNOTSUPP);
        }
        let (file, now) = (self.object(ino)?, now());
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        if mode.intersects(ZEROES | HOLE) {
            self.fs.punch(file, offset, length, now).or_errno()?;
        } else if length > self.available() {
            return Err(Errno::ENOSPC);
        }
        if !mode.contains(KEEP) && end > self.node(ino)?.size {
            self.fs.truncate(file, end, now).or_errno()?;
        }
        Ok(())
    }

    /// Copies as far as files can have the same blocks. Where they cannot, the kernel is told so,
    /// and copies what it reads.
    pub(crate) fn copy(
        &self,
        caller: Caller,
        from: (INodeNo, u64),
        to: (INodeNo, u64),
        length: u64,
    ) -> FuseResult<u32> {
        /// Bytes that one answer is given for.
        const LENGTH_MAX: u64 = 1 << 30;
        let (source, snapshot) = match self.of(from.0) {
            InodeTarget::Live(source) => (source, None),
            InodeTarget::Within(slot, source) => (source, Some((self.snapshots()?, slot))),
            _ => return Err(Errno::EXDEV),
        };
        let (file, now) = (self.object(to.0)?, now());
        let length = length.min(LENGTH_MAX);
        let range = CloneRange { from: (source, from.1), to: (file, to.1), length };
        let done = match snapshot {
            None => self.fs.clone_range(&range, now),
            Some((snapshots, slot)) => {
                let files = snapshots.within(slot)?;
                let durable = || snapshots.is_there(slot);
                let snapshot = CopiedSnapshot { files: &files, durable: &durable };
                self.fs.clone_snapshot_range(snapshot, &range, now)
            }
        };
        let done = done.or_errno()?;
        if done > 0
            && caller.uid != 0
            && let Some(mode) = without_set_ids(&self.node(to.0)?)
        {
            let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
            self.fs.set_attrs(file, &set, now).or_errno()?;
        }
        Ok(done as u32)
    }

    /// Where the next data or the next hole begins.
    pub(crate) fn seek(&self, ino: INodeNo, offset: u64, whence: u32) -> FuseResult<u64> {
        /// As `lseek` has them.
        const DATA: u32 = 3;
        const HOLE: u32 = 4;
        let node = self.node(ino)?;
        if node.kind() != FileKind::File || ![DATA, HOLE].contains(&whence) {
            return Err(Errno::EINVAL);
        }
        if offset >= node.size {
            return Err(Errno::ENXIO);
        }
        let found = match whence {
            DATA => node.next_data(offset).or_errno()?,
            _ => Some(node.next_hole(offset).or_errno()?),
        };
        found.ok_or(Errno::ENXIO)
    }
}
