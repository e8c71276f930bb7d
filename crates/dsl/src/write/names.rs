//! Rules for names.

use crate::error::{Error, Result};

/// Longest full name in bytes.
pub(super) const NAME_MAX: usize = 255;
/// Deepest nesting of datasets below the pool.
const NESTING_MAX: usize = 50;

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// `pool/a`.
    Dataset,
    /// `pool/a@b`.
    Snapshot,
    /// `pool/a#b`.
    Bookmark,
}

/// Letters, digits, `-_.:` and blank.
fn is_allowed(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.: ".contains(&b)
}

/// Whether one part of a name is allowed: not empty, not `.` or `..`, only allowed characters.
#[must_use]
pub fn check_component(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_allowed)
}

/// Judges a full name.
///
/// # Errors
/// [`Error::BadName`]: too long, too deep, a part empty or with a character that is not allowed.
pub fn check_name(name: &str) -> Result<NameKind> {
    let bad = || Error::BadName(name.to_owned());
    if name.len() > NAME_MAX {
        return Err(bad());
    }
    let (path, rest, kind) = match name.find(['@', '#']) {
        None => (name, None, NameKind::Dataset),
        Some(at) => {
            let kind = match name.as_bytes().get(at) {
                Some(b'@') => NameKind::Snapshot,
                _ => NameKind::Bookmark,
            };
            (name.get(..at).unwrap_or(""), name.get(at + 1..), kind)
        }
    };
    let parts = path.split('/');
    if parts.clone().count() > NESTING_MAX || !parts.chain(rest).all(check_component) {
        return Err(bad());
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Option<NameKind> {
        check_name(name).ok()
    }

    #[test]
    fn good_and_bad_names() {
        assert_eq!(kind("p/a b/c:d-e_f.g"), Some(NameKind::Dataset));
        assert_eq!(kind("p@s"), Some(NameKind::Snapshot));
        assert_eq!(kind("p/a#b"), Some(NameKind::Bookmark));
        for bad in
            ["", "/p", "p/", "p//a", "p/..", "p/a@", "p@a@b", "p#a@b", "p/%a", "p/$MOS", "p/ä"]
        {
            assert_eq!(kind(bad), None, "{bad}");
        }
        assert_eq!(kind(&"a".repeat(NAME_MAX)), Some(NameKind::Dataset));
        assert_eq!(kind(&"a".repeat(NAME_MAX + 1)), None);
        assert_eq!(kind(&vec!["a"; NESTING_MAX].join("/")), Some(NameKind::Dataset));
        assert_eq!(kind(&vec!["a"; NESTING_MAX + 1].join("/")), None);
    }
}
