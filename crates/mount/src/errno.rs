//! What programs are told when an operation fails.

use engine::ErrorKind;
use engine::errors::ZplError;
use fuser::Errno;

/// Result of an operation.
pub(crate) type Done<T> = Result<T, Errno>;

/// The number for an error of a file operation.
pub(crate) fn of(e: &ZplError) -> Errno {
    match e {
        ZplError::Dmu(below) => match engine::Error::from(below.clone()).kind() {
            ErrorKind::NotFound => Errno::ENOENT,
            ErrorKind::NoSpace => Errno::ENOSPC,
            ErrorKind::Quota => Errno::EDQUOT,
            ErrorKind::ReadOnly => Errno::EROFS,
            ErrorKind::Unsupported => Errno::EOPNOTSUPP,
            _ => Errno::EIO,
        },
        ZplError::NotFound(_) => Errno::ENOENT,
        ZplError::NotDirectory(_) => Errno::ENOTDIR,
        ZplError::TooManyLinks(_) => Errno::ELOOP,
        // The kernel lets no other invalid name through.
        ZplError::BadName(_) => Errno::EILSEQ,
        ZplError::NameTooLong(_) => Errno::ENAMETOOLONG,
        ZplError::IsDirectory(_) => Errno::EISDIR,
        ZplError::Exists(_) => Errno::EEXIST,
        ZplError::NotEmpty(_) => Errno::ENOTEMPTY,
        ZplError::NotSymlink(_) | ZplError::Loop | ZplError::Invalid(_) => Errno::EINVAL,
        ZplError::TooManyNames => Errno::EMLINK,
        ZplError::OtherProject => Errno::EXDEV,
        ZplError::NoXattr(_) => Errno::ENODATA,
        ZplError::TooLarge(_) => Errno::EFBIG,
        ZplError::NotPermitted(_) => Errno::EPERM,
        ZplError::ReadOnly => Errno::EROFS,
        ZplError::Unsupported(_) => Errno::EOPNOTSUPP,
        _ => Errno::EIO,
    }
}

/// The same for what has an error or a value.
pub(crate) trait OrErrno<T> {
    /// The value, or the number.
    fn or_errno(self) -> Done<T>;
}

impl<T> OrErrno<T> for Result<T, ZplError> {
    fn or_errno(self) -> Done<T> {
        self.map_err(|e| of(&e))
    }
}
