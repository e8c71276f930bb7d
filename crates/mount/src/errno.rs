//! The error numbers that programs get when an operation fails.

use engine::{Error, ErrorKind};
use fuser::Errno;

/// Result of an operation.
pub(crate) type FuseResult<T> = Result<T, Errno>;

/// The number for an error of a file operation.
fn number(e: &Error) -> Errno {
    match e.kind() {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::NoSpace => Errno::ENOSPC,
        ErrorKind::Quota => Errno::EDQUOT,
        ErrorKind::ReadOnly => Errno::EROFS,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        ErrorKind::NotDirectory => Errno::ENOTDIR,
        ErrorKind::IsDirectory => Errno::EISDIR,
        ErrorKind::TooManyLinks => Errno::ELOOP,
        // The kernel lets no other invalid name through.
        ErrorKind::InvalidName => Errno::EILSEQ,
        ErrorKind::NameTooLong => Errno::ENAMETOOLONG,
        ErrorKind::Exists => Errno::EEXIST,
        ErrorKind::NotEmpty => Errno::ENOTEMPTY,
        ErrorKind::Invalid => Errno::EINVAL,
        ErrorKind::TooManyNames => Errno::EMLINK,
        ErrorKind::OtherProject => Errno::EXDEV,
        ErrorKind::NoXattr => Errno::ENODATA,
        ErrorKind::TooLarge => Errno::EFBIG,
        ErrorKind::NotPermitted => Errno::EPERM,
        _ => Errno::EIO,
    }
}

/// For what has an error or a value.
pub(crate) trait OrErrno<T> {
    /// The value, or the number.
    fn or_errno(self) -> FuseResult<T>;
}

impl<T, E: Into<Error>> OrErrno<T> for Result<T, E> {
    fn or_errno(self) -> FuseResult<T> {
        self.map_err(|e| number(&e.into()))
    }
}
