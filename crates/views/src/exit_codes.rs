//! Exit codes of OpenZFS's commands, where scripts look for them.

use std::ffi::OsString;
use std::path::Path;

/// The exit code of a verb that OpenZFS's kernel refuses.
const REFUSED: u8 = 255;
/// A dataset of the command line is not there, for a verb that takes that for a wrong command line.
const USAGE: u8 = 2;
/// `zpool set` of a pool that is not there.
const NO_POOL: u8 = 22;

/// The exit code of a command line, with the name by which the program was called, that failed
/// saying this, where OpenZFS 2.3's `zpool` or `zfs` ends with another one than 1. Under another
/// name it is 1 in any case.
#[must_use]
pub fn of_failure(arguments: &[OsString], what: &str) -> Option<u8> {
    let [program, command, verb, ..] = arguments else { return None };
    if Path::new(program).file_name() != Some(command) {
        return None;
    }
    let is_unopened = what.starts_with("cannot open '");
    let (refused, usage) = (Some(REFUSED), Some(USAGE));
    match (command.to_str()?, verb.to_str()?) {
        ("zfs", "change-key" | "snapshot" | "snap" | "bookmark") if is_unopened => usage,
        ("zfs", "set" | "load-key" | "unload-key") if is_unopened => None,
        ("zfs", "set" | "load-key" | "unload-key" | "change-key" | "project") => refused,
        ("zfs", "allow" | "unallow") if is_unopened => refused,
        ("zfs", "send") if what.starts_with("cannot resume send") => refused,
        ("zpool", "initialize" | "trim" | "ddtprune") => refused,
        ("zpool", "set") if is_unopened => Some(NO_POOL),
        ("zpool", "detach") if !is_unopened => refused,
        // If a device cannot be used, the kernel is not called.
        ("zpool", "attach" | "replace") => {
            let (doing, why) = what.split_once(": ")?;
            (doing.starts_with("cannot ") && !is_unopened && !why.starts_with("cannot open"))
                .then_some(REFUSED)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str, what: &str) -> Option<u8> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        of_failure(&words, what)
    }

    #[test]
    fn exit_codes_are_those_of_openzfs_under_its_names() {
        let gone = "cannot open 'a/b': dataset does not exist";
        let wrong = "cannot set property for 'a': 'used' is readonly";
        assert_eq!(code("/sbin/zfs zfs set used=1 a", wrong), Some(255));
        assert_eq!(code("zfs zfs set quota=1 a/b", gone), None);
        assert_eq!(code("zinc zfs set used=1 a", wrong), None);
        assert_eq!(code("zfs zfs change-key a/b", gone), Some(2));
        assert_eq!(code("zfs zfs load-key a/b", gone), None);
        assert_eq!(code("zfs zfs load-key a", "Key load error: 'a' is not encrypted."), Some(255));
        assert_eq!(code("zfs zfs snapshot a/b@s", gone), Some(2));
        assert_eq!(code("zfs zfs destroy a/b", gone), None);
        assert_eq!(code("zfs zfs", ""), None);
    }

    #[test]
    fn what_a_vdev_refuses_is_told_from_a_device_that_cannot_be_used() {
        let attach = |what| code("zpool zpool attach p a b", what);
        assert_eq!(attach("cannot attach b to a: no such device in pool"), Some(255));
        assert_eq!(attach("cannot attach b to a"), None);
        assert_eq!(attach("cannot attach b to a: cannot open 'b': Device or resource busy"), None);
        assert_eq!(attach("cannot open 'p': no such pool"), None);
        let no_pool = "cannot open 'p': no such pool";
        assert_eq!(code("zpool zpool trim p", no_pool), Some(255));
        assert_eq!(code("zpool zpool set comment=x p", no_pool), Some(22));
        assert_eq!(code("zpool zpool detach p a", no_pool), None);
    }
}
