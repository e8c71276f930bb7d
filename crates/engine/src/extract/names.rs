//! Names to give instead of those that no file can have.

use sha2::{Digest as _, Sha256};
use zpl::names::LONGEST;

/// A name that any file can have, made from one that none can: bytes that are in the way become
/// `%XX`, and of a long name a part is left, with a checksum of the whole behind it.
#[must_use]
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
    use zpl::names::fault;

    #[test]
    fn every_name_has_one_that_can_be_made() {
        let long = [b'a'; 300];
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b", &long] {
            assert!(fault(bad, LONGEST).is_some());
            assert!(fault(&escaped(bad), LONGEST).is_none(), "{bad:?}");
        }
        assert_eq!(escaped(b"../etc/passwd"), b"..%2Fetc%2Fpasswd");
        assert_eq!(escaped(b".."), b"%2E%2E");
        let other = [&long[..], b"b"].concat();
        assert_ne!(escaped(&long), escaped(&other));
    }
}
