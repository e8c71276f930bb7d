//! Exit codes of OpenZFS's commands, where scripts look for them.

use crate::called;
use engine::{Error, ErrorKind, Place};
use std::ffi::OsString;

/// The exit code of a verb that OpenZFS's kernel refuses.
const REFUSED: u8 = 255;
/// A dataset of the command line is not there, for a verb that takes that for a wrong command line.
const USAGE: u8 = 2;
/// `zpool set` of a pool that is not there.
const NO_POOL: u8 = 22;

/// What a command was at when it failed, as far as exit codes depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It opened the pool or dataset that was named.
    Opening,
    /// It opened something else for its work, such as a device that is to be part of the pool.
    OpeningOther,
    /// It resumed a send.
    Resuming,
    /// Its work was refused.
    Refused,
    /// Anything else.
    #[default]
    Other,
}

impl Stage {
    /// That of the whole work, of which a part failed at this one.
    #[must_use]
    pub fn of_whole(self) -> Self {
        match self {
            Self::Opening | Self::OpeningOther => Self::OpeningOther,
            Self::Resuming => Self::Resuming,
            Self::Refused | Self::Other => Self::Refused,
        }
    }

    /// That at which an error of the engine ends a command, unless the command says more of it.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        let is_opening = match (error.kind(), error.place()) {
            (ErrorKind::NotFound, Some(Place::Dataset(_) | Place::Path(_)))
            | (ErrorKind::InvalidName, Some(Place::Dataset(_)))
            | (ErrorKind::RowsMoved, _) => true,
            (kind, _) => kind.is_of_pool(),
        };
        if is_opening { Self::Opening } else { Self::Other }
    }
}

/// The exit code of a command line, with the name by which the program was called, that failed at
/// this stage, where OpenZFS 2.3's `zpool` or `zfs` ends with another one than 1. Under another
/// name it is 1 in any case.
#[must_use]
pub fn of_failure(arguments: &[OsString], stage: Stage) -> Option<u8> {
    let command = called::name(arguments)?;
    let is_unopened = stage == Stage::Opening;
    let (refused, usage) = (Some(REFUSED), Some(USAGE));
    match (command, arguments.get(2)?.to_str()?) {
        ("zfs", "change-key" | "snapshot" | "snap" | "bookmark") if is_unopened => usage,
        ("zfs", "set" | "load-key" | "unload-key") if is_unopened => None,
        ("zfs", "set" | "load-key" | "unload-key" | "change-key" | "project") => refused,
        ("zfs", "allow" | "unallow") if is_unopened => refused,
        ("zfs", "send") if stage == Stage::Resuming => refused,
        ("zpool", "initialize" | "trim" | "ddtprune") => refused,
        ("zpool", "set") if is_unopened => Some(NO_POOL),
        ("zpool", "detach") if !is_unopened => refused,
        // If a device cannot be used, the kernel is not called.
        ("zpool", "attach" | "replace") if stage == Stage::Refused => refused,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str, stage: Stage) -> Option<u8> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        of_failure(&words, stage)
    }

    #[test]
    fn exit_codes_are_those_of_openzfs_under_its_names() {
        use Stage::{Opening, Other, Refused, Resuming};
        assert_eq!(code("/sbin/zfs zfs set used=1 a", Refused), Some(255));
        assert_eq!(code("zfs zfs set quota=1 a/b", Opening), None);
        assert_eq!(code("zinc zfs set used=1 a", Refused), None);
        assert_eq!(code("zfs zfs change-key a/b", Opening), Some(2));
        assert_eq!(code("zfs zfs load-key a/b", Opening), None);
        assert_eq!(code("zfs zfs load-key a", Other), Some(255));
        assert_eq!(code("zfs zfs snapshot a/b@s", Opening), Some(2));
        assert_eq!(code("zfs zfs destroy a/b", Opening), None);
        assert_eq!(code("zfs zfs send -t x", Resuming), Some(255));
        assert_eq!(code("zfs zfs send -t x", Refused), None);
        assert_eq!(code("zfs zfs", Other), None);
    }

    #[test]
    fn what_a_vdev_refuses_is_told_from_a_device_that_cannot_be_used() {
        let attach = |stage| code("zpool zpool attach p a b", stage);
        assert_eq!(attach(Stage::Refused), Some(255));
        assert_eq!(attach(Stage::Other), None);
        assert_eq!(attach(Stage::Opening.of_whole()), None);
        assert_eq!(attach(Stage::Opening), None);
        assert_eq!(code("zpool zpool trim p", Stage::Opening), Some(255));
        assert_eq!(code("zpool zpool set comment=x p", Stage::Opening), Some(22));
        assert_eq!(code("zpool zpool detach p a", Stage::Opening), None);
    }

    #[test]
    fn an_error_says_whether_something_could_not_be_opened() {
        let none = Error::new(ErrorKind::NotFound);
        assert_eq!(Stage::of(&none), Stage::Other);
        assert_eq!(Stage::of(&none.at(Place::Dataset("a/b".to_owned()))), Stage::Opening);
        assert_eq!(Stage::of(&Error::new(ErrorKind::NotWritable)), Stage::Opening);
        assert_eq!(Stage::of(&Error::new(ErrorKind::InUse)), Stage::Other);
    }
}
