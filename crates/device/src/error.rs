//! Errors between a request and its bytes.

use core::fmt;
use std::io;
use std::sync::Arc;

/// The operation on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Opening it and asking for its size and sectors.
    Open,
    /// Reading a range.
    Read,
    /// Writing a range.
    Write,
    /// Making what was written durable.
    Flush,
    /// Giving a range back.
    Trim,
}

/// Why it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused; the number is its `errno`.
    Io {
        /// The operating system's error number.
        errno: i32,
    },
    /// The range does not lie within the device: the image is truncated, or the offset is wrong.
    BeyondEnd {
        /// Size of the device in bytes.
        size: u64,
    },
    /// The device ended inside the range although its size said otherwise: it shrank.
    ShortRead {
        /// Bytes of the range that were there.
        got: usize,
    },
    /// The range is longer than a device reads or writes at once ([`crate::MAX_READ_BYTES`]).
    TooLong,
    /// There was no memory for the bytes.
    OutOfMemory,
    /// The device went away: unplugged, or its I/O thread is dead.
    Gone,
    /// It is neither a regular file nor a block device.
    NotADevice,
    /// Another program has it open for writing, or the system itself uses it.
    InUse,
    /// The device does not do that.
    Unsupported,
    /// It was given up: it took too long to be opened (`Patience::limit`).
    NoAnswer,
    /// The other end refuses, or is not the same any more; the text has the reason.
    Refused(&'static str),
    /// Another writer has taken the device over, for good.
    Fenced {
        /// Its number; 0 when that is not known.
        by: u64,
    },
    /// The simulated power supply has failed.
    PowerLoss,
}

/// One failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Why it failed.
    pub kind: ErrorKind,
    /// The operation.
    pub operation: Operation,
    /// Name of the device, as [`crate::Device::name`] gives it.
    pub device: Arc<str>,
    /// Byte offset of the range on that device.
    pub offset: u64,
    /// Length of the range in bytes.
    pub len: u64,
}

impl Error {
    /// A failed read of `len` bytes at `offset`.
    #[must_use]
    pub fn read(kind: ErrorKind, device: &Arc<str>, offset: u64, len: usize) -> Self {
        let operation = Operation::Read;
        Self { kind, operation, device: Arc::clone(device), offset, len: len as u64 }
    }

    /// A failed write of `len` bytes at `offset`.
    #[must_use]
    pub fn write(kind: ErrorKind, device: &Arc<str>, offset: u64, len: usize) -> Self {
        Self { operation: Operation::Write, ..Self::read(kind, device, offset, len) }
    }

    /// A trim of `len` bytes at `offset` that failed.
    #[must_use]
    pub fn trim(kind: ErrorKind, device: &Arc<str>, offset: u64, len: u64) -> Self {
        Self { kind, operation: Operation::Trim, device: Arc::clone(device), offset, len }
    }

    /// A flush that failed.
    #[must_use]
    pub fn flush(kind: ErrorKind, device: &Arc<str>) -> Self {
        Self { operation: Operation::Flush, ..Self::read(kind, device, 0, 0) }
    }

    /// A device that could not be opened.
    #[must_use]
    pub fn open(kind: ErrorKind, device: &Arc<str>) -> Self {
        Self { kind, operation: Operation::Open, device: Arc::clone(device), offset: 0, len: 0 }
    }
}

impl ErrorKind {
    /// The kind of an operating system error number. The numbers that mean "no such device any
    /// more" become [`ErrorKind::Gone`], because a caller treats the whole leaf differently then.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM => Self::Gone,
            libc::ENOMEM => Self::OutOfMemory,
            errno => Self::Io { errno },
        }
    }

    /// The device itself does not work, and another one may: not a matter of another program that
    /// has it, or of the request.
    #[must_use]
    pub fn is_of_device(self) -> bool {
        let is_gone =
            matches!(self, Self::Gone | Self::NoAnswer | Self::Refused(_) | Self::Fenced { .. });
        is_gone || self.is_refusal() || self.is_of_connection()
    }

    /// This process, or its system, has no memory, threads or descriptors left: it is no error of
    /// the device.
    #[must_use]
    pub fn is_of_process(self) -> bool {
        use libc::{EAGAIN, EMFILE, ENFILE};
        matches!(self, Self::OutOfMemory | Self::Io { errno: EAGAIN | EMFILE | ENFILE })
    }

    /// Another machine is not reached, or broke off.
    fn is_of_connection(self) -> bool {
        use libc::{ECONNABORTED, ECONNREFUSED, ECONNRESET, EIO, EPIPE, ETIMEDOUT};
        use libc::{EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH};
        let Self::Io { errno } = self else { return false };
        matches!(errno, EIO | ECONNABORTED | ECONNREFUSED | ECONNRESET | EPIPE | ETIMEDOUT)
            || matches!(errno, EHOSTDOWN | EHOSTUNREACH | ENETDOWN | ENETUNREACH)
    }

    /// It may be read and not be written: it lies on a read-only file system, is marked so, or this
    /// user lacks the right.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Io { errno: libc::EROFS | libc::EACCES | libc::EPERM })
    }

    /// The kind of a standard library I/O error.
    #[must_use]
    pub fn from_io(error: &io::Error) -> Self {
        error.raw_os_error().map_or(Self::Io { errno: libc::EIO }, Self::from_errno)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { errno } => {
                // The standard library's text without the number behind it.
                let text = io::Error::from_raw_os_error(*errno).to_string();
                f.write_str(text.split(" (os error ").next().unwrap_or(&text))
            }
            Self::BeyondEnd { size } => write!(f, "beyond the end of the device ({size} bytes)"),
            Self::ShortRead { got } => write!(f, "the device ended after {got} of these bytes"),
            Self::TooLong => write!(f, "more than {} bytes at once", crate::MAX_READ_BYTES),
            Self::OutOfMemory => f.write_str("out of memory"),
            Self::Gone => f.write_str("the device is gone"),
            Self::NotADevice => f.write_str("neither a regular file nor a block device"),
            Self::InUse => f.write_str("in use by another program or by the system"),
            Self::Unsupported => f.write_str("the device does not support it"),
            Self::NoAnswer => f.write_str("the device does not answer"),
            Self::Refused(why) => f.write_str(why),
            Self::Fenced { by: 0 } => f.write_str("another writer has taken it over"),
            Self::Fenced { by } => write!(f, "another writer (number {by}) has taken it over"),
            Self::PowerLoss => f.write_str("the (simulated) power has failed"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, device, offset, len, .. } = self;
        match self.operation {
            Operation::Open => write!(f, "{device}: cannot open: {kind}"),
            Operation::Flush => write!(f, "{device}: cannot flush: {kind}"),
            Operation::Read => {
                write!(f, "{device}: cannot read {len} bytes at offset {offset}: {kind}")
            }
            Operation::Trim => {
                write!(
                    f,
                    "{device}: cannot trim {} bytes at offset {}: {kind}",
                    self.len, self.offset
                )
            }
            Operation::Write => {
                write!(f, "{device}: cannot write {len} bytes at offset {offset}: {kind}")
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_device_offset_length_and_why() {
        let name: Arc<str> = Arc::from("disk0");
        let kind = ErrorKind::BeyondEnd { size: 4096 };
        let e = Error::read(kind, &name, 8192, 512);
        let text = "disk0: cannot read 512 bytes at offset 8192: \
                    beyond the end of the device (4096 bytes)";
        assert_eq!(e.to_string(), text);
        let e = Error::write(ErrorKind::Gone, &name, 512, 1024);
        let text = "disk0: cannot write 1024 bytes at offset 512: the device is gone";
        assert_eq!(e.to_string(), text);
        let e = Error::flush(ErrorKind::PowerLoss, &name);
        assert_eq!(e.to_string(), "disk0: cannot flush: the (simulated) power has failed");
        let e = Error::open(ErrorKind::from_errno(libc::EACCES), &name);
        assert_eq!(e.to_string(), "disk0: cannot open: Permission denied");
    }

    #[test]
    fn vanished_devices_have_their_own_kind() {
        assert_eq!(ErrorKind::from_errno(libc::ENXIO), ErrorKind::Gone);
        assert_eq!(ErrorKind::from_errno(libc::EIO), ErrorKind::Io { errno: libc::EIO });
        let of_device = |errno| ErrorKind::from_errno(errno).is_of_device();
        assert!(of_device(libc::ENXIO) && of_device(libc::EIO) && !of_device(libc::ENOSPC));
        let is_refusal = |errno| ErrorKind::from_errno(errno).is_refusal();
        assert!(is_refusal(libc::EROFS) && is_refusal(libc::EACCES) && !is_refusal(libc::EIO));
        let text = io::Error::other("no number");
        assert_eq!(ErrorKind::from_io(&text), ErrorKind::Io { errno: libc::EIO });
    }
}
