//! Numbers of errors, as scripts know them: those of Linux.

use engine::pool_refusals::PoolRefusal;
use engine::{Error, ErrorKind, Refusal};

pub(crate) const ENOENT: i64 = 2;
pub(crate) const EIO: i64 = 5;
pub(crate) const E2BIG: i64 = 7;
pub(crate) const EXDEV: i64 = 18;
pub(crate) const EEXIST: i64 = 17;
pub(crate) const EINVAL: i64 = 22;
pub(crate) const ENAMETOOLONG: i64 = 36;
const EPERM: i64 = 1;
const EAGAIN: i64 = 11;
const EACCES: i64 = 13;
const EBUSY: i64 = 16;
const ENOSPC: i64 = 28;
const EROFS: i64 = 30;
const ENOTSUP: i64 = 95;
const EDQUOT: i64 = 122;

/// The names by which scripts call them.
pub(crate) const NAMES: [(&str, i64); 40] = [
    ("EPERM", EPERM),
    ("ENOENT", ENOENT),
    ("ESRCH", 3),
    ("EINTR", 4),
    ("EIO", EIO),
    ("ENXIO", 6),
    ("E2BIG", E2BIG),
    ("ENOEXEC", 8),
    ("EBADF", 9),
    ("ECHILD", 10),
    ("EAGAIN", EAGAIN),
    ("ENOMEM", 12),
    ("EACCES", EACCES),
    ("EFAULT", 14),
    ("ENOTBLK", 15),
    ("EBUSY", EBUSY),
    ("EEXIST", EEXIST),
    ("EXDEV", EXDEV),
    ("ENODEV", 19),
    ("ENOTDIR", 20),
    ("EISDIR", 21),
    ("EINVAL", EINVAL),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("ENOTTY", 25),
    ("ETXTBSY", 26),
    ("EFBIG", 27),
    ("ENOSPC", ENOSPC),
    ("ESPIPE", 29),
    ("EROFS", EROFS),
    ("EMLINK", 31),
    ("EPIPE", 32),
    ("EDOM", 33),
    ("ERANGE", 34),
    ("EDEADLK", 35),
    ("ENAMETOOLONG", ENAMETOOLONG),
    ("ENOLCK", 37),
    ("ENOTSUP", ENOTSUP),
    ("EDQUOT", EDQUOT),
    ("ECANCELED", 125),
];

/// The number of a failure.
pub(crate) fn of(e: &Error) -> i64 {
    match e.kind() {
        ErrorKind::NotFound => ENOENT,
        ErrorKind::Exists => EEXIST,
        ErrorKind::Refused(why) => of_refusal(why),
        ErrorKind::PoolRefused(PoolRefusal::ChangedInTxg(_)) => EAGAIN,
        ErrorKind::PoolRefused(_) => EBUSY,
        ErrorKind::NameTooLong => ENAMETOOLONG,
        ErrorKind::ReadOnly => EROFS,
        ErrorKind::NoSpace => ENOSPC,
        ErrorKind::Quota => EDQUOT,
        ErrorKind::NoKey => EACCES,
        ErrorKind::Damaged => EIO,
        ErrorKind::Unsupported => ENOTSUP,
        _ => EINVAL,
    }
}

fn of_refusal(why: &Refusal) -> i64 {
    match why {
        Refusal::Exists
        | Refusal::HasChildren(_)
        | Refusal::HasClones(_)
        | Refusal::HasYounger(_) => EEXIST,
        Refusal::JustTaken => EAGAIN,
        Refusal::PoolRoot
        | Refusal::HasSnapshots(..)
        | Refusal::Held(_)
        | Refusal::Busy
        | Refusal::Inconsistent
        | Refusal::Receiving => EBUSY,
        Refusal::Limit(_) | Refusal::Quota(_) => EDQUOT,
        Refusal::NoSpace | Refusal::NoRoomFor(_) => ENOSPC,
        Refusal::NoFeature(_) | Refusal::Unsupported(_) => ENOTSUP,
        Refusal::Denied => EPERM,
        _ => EINVAL,
    }
}
