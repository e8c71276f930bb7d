//! The system calls the standard library does not wrap.

use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// The kernel's support for direct I/O on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectSupport {
    /// Offsets, lengths and memory must be multiples of this power of two.
    Alignment(u32),
    /// It is not possible on this file.
    No,
    /// The kernel (before 6.1) or the file system does not say.
    Unknown,
}

/// Asks what alignment direct I/O needs on this file.
pub(super) fn direct_support(file: &File) -> DirectSupport {
    // SAFETY: `statx` is made of integers, for which all zeros is a value.
    let mut out: libc::statx = unsafe { core::mem::zeroed() };
    let (flags, mask) = (libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN);
    // SAFETY: the path is a NUL-terminated string, and `out` is a `statx` that outlives the call.
    let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, mask, &raw mut out) };
    if result != 0 || out.stx_mask & libc::STATX_DIOALIGN == 0 {
        return DirectSupport::Unknown;
    }
    match out.stx_dio_offset_align.max(out.stx_dio_mem_align) {
        _ if out.stx_dio_offset_align == 0 => DirectSupport::No,
        alignment => DirectSupport::Alignment(alignment),
    }
}

/// Bytes of a range of a file that are in the page cache; `None` when the kernel (before 6.5) does
/// not say.
pub(super) fn cached_bytes(file: &File, offset: u64, len: u64) -> Option<u64> {
    /// `struct cachestat_range`.
    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }
    /// `struct cachestat`: the first word is the number of cached pages.
    #[repr(C)]
    struct Pages {
        cached: u64,
        others: [u64; 4],
    }
    let range = Range { offset, len };
    let mut pages = Pages { cached: 0, others: [0; 4] };
    // SAFETY: reads one structure and writes the other; both are valid during the call.
    let result = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut pages, 0u32)
    };
    let page = page_bytes();
    (result == 0).then(|| pages.cached.saturating_mul(page))
}

/// Where there is data at or behind `offset`, and not a hole to the end; `None` when there is none.
pub(super) fn data_from(file: &File, offset: u64) -> io::Result<Option<u64>> {
    let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    // SAFETY: `lseek` takes numbers; all reads and writes name their place themselves.
    let found = unsafe { libc::lseek(file.as_raw_fd(), offset, libc::SEEK_DATA) };
    match u64::try_from(found) {
        Ok(at) => Ok(Some(at)),
        Err(_) => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            e => Err(e),
        },
    }
}

fn page_bytes() -> u64 {
    // SAFETY: `sysconf` takes a number and returns one.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Logical sector size of a block device, in bytes.
pub(super) fn logical_sector_size(file: &File) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one int, to an address that is valid during the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET, &raw mut bytes) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Whether this process may write to the file of a path, as far as the system reports without
/// opening it: closing a block device that was open for writing is an event for the system.
pub(super) fn may_write(path: &Path) -> io::Result<()> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a NUL-terminated string that outlives the call.
    let answer =
        unsafe { libc::faccessat(libc::AT_FDCWD, text.as_ptr(), libc::W_OK, libc::AT_EACCESS) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    let meta = std::fs::metadata(path)?;
    if meta.file_type().is_block_device() {
        let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
        let flag = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
        if flag.is_ok_and(|flag| flag.trim() == "1") {
            return Err(io::Error::from_raw_os_error(libc::EROFS));
        }
    }
    Ok(())
}

/// Whether a block device reports that it has moving parts.
pub(super) fn is_rotating(file: &File) -> bool {
    let mut answer: libc::c_ushort = 0;
    // SAFETY: this request writes one short, to an address that is valid during the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKROTATIONAL, &raw mut answer) };
    result == 0 && answer != 0
}

/// Gives the space of a range of a file back: it reads as zeros from then on, and the file is as
/// long as it was.
pub(super) fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let number =
        |n: u64| libc::off_t::try_from(n).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    let (offset, len) = (number(offset)?, number(len)?);
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes a descriptor, which is open during the call, and numbers.
    match unsafe { libc::fallocate(file.as_raw_fd(), how, offset, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Tells a block device that the bytes of a range are not needed any more.
pub(super) fn discard(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: this request reads two numbers of 64 bits, at an address that is valid meanwhile.
    match unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The file behind a loop device that shows all of it; `None` for other devices, and where the file
/// has gone. Loop devices of parts of a file can be in use side by side.
pub(super) fn file_behind(device: &Metadata) -> Option<File> {
    let (major, minor) = (libc::major(device.rdev()), libc::minor(device.rdev()));
    let about = Path::new("/sys/dev/block").join(format!("{major}:{minor}")).join("loop");
    let fact = |name| std::fs::read_to_string(about.join(name)).ok();
    let is_whole = |name| fact(name).is_none_or(|text| text.trim() == "0");
    let path = fact("backing_file").filter(|_| is_whole("offset") && is_whole("sizelimit"))?;
    File::open(path.trim_end_matches('\n')).ok()
}

/// Bytes of memory this machine has; 0 when it does not say.
pub(super) fn physical_memory() -> u64 {
    // SAFETY: `sysconf` takes a number and returns one.
    let (pages, bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let bytes = u64::try_from(bytes).unwrap_or(0);
    u64::try_from(pages).unwrap_or(0).saturating_mul(bytes)
}

/// The bytes to write to an [`event`]. Its eight bytes are a number in the host's byte order; this
/// one is the same in both.
pub(super) const EVENT_SIGNAL: [u8; 8] = [1; 8];

/// A counter that one thread adds to and another waits for. Never blocks by itself: adding to a
/// full one and reading an empty one are errors.
pub(super) fn event() -> io::Result<File> {
    // SAFETY: takes two numbers and returns a descriptor or an error.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Reads up to `len` bytes at `offset` into memory that need not be initialised; the error is the
/// `errno`.
///
/// # Safety
/// `to` is valid for writing `len` bytes, and nothing else uses them.
pub(super) unsafe fn pread(
    file: &File,
    to: *mut u8,
    len: usize,
    offset: u64,
) -> Result<usize, i32> {
    let offset = i64::try_from(offset).map_err(|_| libc::EOVERFLOW)?;
    // SAFETY: the caller vouches for `to` and `len`.
    let got = unsafe { libc::pread64(file.as_raw_fd(), to.cast(), len, offset) };
    usize::try_from(got).map_err(|_| last_errno())
}

/// Writes what the vectors hold at `offset`, as much of it as the system takes at once; the error
/// is the `errno`.
///
/// # Safety
/// `vectors` points to `count` vectors, which all point to initialised memory.
pub(super) unsafe fn pwritev(
    file: &File,
    vectors: *const libc::iovec,
    count: usize,
    offset: u64,
) -> Result<usize, i32> {
    let offset = i64::try_from(offset).map_err(|_| libc::EOVERFLOW)?;
    let count = libc::c_int::try_from(count).map_err(|_| libc::EINVAL)?;
    // SAFETY: the caller vouches for the vectors.
    let written = unsafe { libc::pwritev64(file.as_raw_fd(), vectors, count, offset) };
    usize::try_from(written).map_err(|_| last_errno())
}

/// The number of the call `cachestat`, the same on all architectures, which the `libc` crate does
/// not have.
const CACHESTAT: libc::c_long = 451;

/// The request number of "does it rotate", `_IO(0x12, 126)`, which the `libc` crate does not have.
const BLKROTATIONAL: libc::Ioctl = 0x127e;
/// `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = 0x1277;

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn events_count_and_do_not_block() {
        let mut event = event().expect("eventfd");
        let mut count = [0; 8];
        assert!(event.read(&mut count).is_err());
        event.write_all(&EVENT_SIGNAL).expect("write");
        event.write_all(&EVENT_SIGNAL).expect("write");
        event.read_exact(&mut count).expect("read");
        assert_eq!(count, [2; 8]);
        assert!((0..1000).any(|_| event.write_all(&EVENT_SIGNAL).is_err()));
        event.read_exact(&mut count).expect("a full event is still one");
    }

    #[test]
    fn questions_to_the_wrong_kind_of_file_are_errors_or_unknown() {
        let file = tempfile::tempfile().expect("file");
        assert!(logical_sector_size(&file).is_err());
        assert!(!is_rotating(&file));
        if let DirectSupport::Alignment(n) = direct_support(&file) {
            assert!(n.is_power_of_two(), "{n}");
        }
        assert!(physical_memory() > 1 << 20);
    }

    #[test]
    fn reading_behind_the_end_gives_nothing() {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(b"abc").expect("write");
        let mut buf = [0; 8];
        // SAFETY: `buf` is valid for its length.
        let mut read = |offset| unsafe { pread(&file, buf.as_mut_ptr(), 8, offset) };
        assert_eq!(read(1), Ok(2));
        assert_eq!(read(3), Ok(0));
        assert_eq!(read(u64::MAX), Err(libc::EOVERFLOW));
    }
}
