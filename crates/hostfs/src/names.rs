//! Names of a pool that this machine cannot give, and names to give instead.

use engine::files::names::{LONGEST, fault as fault_within};
use sha2::{Digest as _, Sha256};
use std::io;

/// Why no file here can have a name; `None` when one can.
pub fn fault(name: &[u8]) -> Option<&'static str> {
    fault_within(name, LONGEST)
}

/// The same as an error.
pub fn check(name: &[u8]) -> io::Result<()> {
    match fault(name) {
        None => Ok(()),
        Some(why) => {
            let text = format!("not a name a file can have here: {why}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// Whether an error says that the target does not take such a name, though others do.
pub fn is_refused(e: &io::Error) -> bool {
    use rustix::io::Errno;
    let refused = [Errno::NAMETOOLONG, Errno::INVAL, Errno::ILSEQ, Errno::OPNOTSUPP];
    e.kind() == io::ErrorKind::InvalidInput
        || Errno::from_io_error(e).is_some_and(|e| refused.contains(&e))
}

/// A name that any file can have, made from one that none can: bytes that are in the way become
/// `%XX`, and of a long name a part is left, with a checksum of the whole behind it.
pub fn escaped(name: &[u8]) -> Vec<u8> {
    /// Bytes that stay of a long name.
    const LEFT: usize = 200;
    let is_dots = matches!(name, b"." | b"..");
    let mut out = Vec::new();
    for b in name {
        let plain = b.is_ascii_graphic() && !b"/\\:*?\"<>|%".contains(b);
        let plain = (plain || *b == b' ') && !is_dots;
        match plain {
            true => out.push(*b),
            false => out.extend_from_slice(format!("%{b:02X}").as_bytes()),
        }
    }
    if out.is_empty() {
        return b"%".to_vec();
    }
    if out.len() > LONGEST {
        out.truncate(LEFT);
        let sum = Sha256::digest(name);
        let digits: String = sum.iter().take(8).map(|b| format!("{b:02x}")).collect();
        out.extend_from_slice(format!("%~{digits}").as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_that_can_be_made() {
        let long = [b'a'; 300];
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b", &long] {
            assert!(fault(bad).is_some());
            assert!(fault(&escaped(bad)).is_none(), "{bad:?}");
        }
        assert_eq!(escaped(b"../etc/passwd"), b"..%2Fetc%2Fpasswd");
        assert_eq!(escaped(b".."), b"%2E%2E");
        let other = [&long[..], b"b"].concat();
        assert_ne!(escaped(&long), escaped(&other));
        for good in [&b"..."[..], b"a b", b".zinc-3.part", &[0xff; 255]] {
            assert!(fault(good).is_none());
        }
    }
}
