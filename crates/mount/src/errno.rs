//! The error numbers that programs get when an operation fails.

use crate::kernel::Errno;
use engine::file_refusals::FileRefusal;
use engine::{Error, ErrorKind};

/// Result of an operation.
pub(crate) type FuseResult<T> = Result<T, Errno>;

/// The number for a change that is refused.
fn refusal(why: FileRefusal) -> Errno {
    match why {
        FileRefusal::Invalid(_) => Errno::EINVAL,
        FileRefusal::TooLarge(_) => Errno::EFBIG,
        FileRefusal::NotPermitted(_) => Errno::EPERM,
        FileRefusal::Unsupported(_) => Errno::EOPNOTSUPP,
        // The engine may learn of others.
        _ => Errno::EIO,
    }
}

/// The number for an error of a file operation.
pub(crate) fn number(e: &Error) -> Errno {
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
        ErrorKind::FileRefused(why) => refusal(*why),
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
