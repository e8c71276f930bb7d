//! Names of a pool that this machine cannot give.

use engine::files::names::{LONGEST, fault as fault_within};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Why no file here can have a name; `None` when one can.
pub fn fault(name: &[u8]) -> Option<&'static str> {
    fault_within(name, LONGEST)
}

/// The same as an error.
pub fn check(name: &[u8]) -> io::Result<()> {
    match fault(name) {
        None => Ok(()),
        Some(why) => {
            let text = format!("no file here can have this name: {why}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// Whether an error means that the target does not accept such a name, though others do.
pub fn is_refused(e: &io::Error) -> bool {
    use rustix::io::Errno;
    let refused = [Errno::NAMETOOLONG, Errno::INVAL, Errno::ILSEQ, Errno::OPNOTSUPP];
    e.kind() == io::ErrorKind::InvalidInput
        || Errno::from_io_error(e).is_some_and(|e| refused.contains(&e))
}

/// A path from the root on without `.` and `..` in it, by its words alone: no link is followed.
#[must_use]
pub fn absolute(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut out = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_file_can_have_are_refused() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'a'; 256]] {
            assert!(fault(bad).is_some() && check(bad).is_err());
        }
        for good in [&b"..."[..], b"a b", b".zinc-3.part", &[0xff; 255]] {
            assert!(fault(good).is_none() && check(good).is_ok());
        }
    }

    #[test]
    fn dots_are_resolved_by_words() {
        let plain = |text: &str| absolute(Path::new(text));
        assert_eq!(plain("/tmp/./..//tank/a/"), Path::new("/tank/a"));
        assert_eq!(plain("/../a"), Path::new("/a"));
        assert_eq!(plain("a/../b"), std::env::current_dir().unwrap().join("b"));
    }
}
