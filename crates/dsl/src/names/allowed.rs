//! Which names datasets, snapshots and bookmarks can be given.

use crate::error::{Error, Result};

/// Longest full name in bytes.
pub(crate) const NAME_MAX: usize = 255;
/// Deepest nesting of datasets below the pool.
const NESTING_MAX: usize = 50;

/// The kind of object that a name is for.
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

/// Why nothing can have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// More than 255 bytes.
    TooLong,
    /// More than 50 levels.
    TooDeep,
    /// It begins with `/`.
    LeadingSlash,
    /// It ends with `/`.
    TrailingSlash,
    /// Nothing before, between or behind separators.
    EmptyComponent,
    /// More than one `@` or `#`.
    TwoDelimiters,
    /// A part is `.`.
    SelfReference,
    /// A part is `..`.
    ParentReference,
    /// A `/` behind `@` or `#`.
    SlashInSnapshot,
    /// A character that no name has.
    Character(char),
}

/// Returns the fault of a full name; `None` if the name is valid.
#[must_use]
pub fn name_fault(name: &str) -> Option<NameFault> {
    if name.len() > NAME_MAX {
        return Some(NameFault::TooLong);
    }
    if name.starts_with('/') {
        return Some(NameFault::LeadingSlash);
    }
    let (path, rest) = match name.find(['@', '#']) {
        None => (name, None),
        Some(at) => (name.get(..at).unwrap_or(""), name.get(at + 1..)),
    };
    if rest.is_some_and(|rest| rest.contains(['@', '#'])) {
        return Some(NameFault::TwoDelimiters);
    }
    if path.len() > 1 && path.ends_with('/') {
        return Some(NameFault::TrailingSlash);
    }
    if path.split('/').count() > NESTING_MAX {
        return Some(NameFault::TooDeep);
    }
    path.split('/').chain(rest).find_map(component_fault)
}

fn component_fault(part: &str) -> Option<NameFault> {
    match part {
        "" => Some(NameFault::EmptyComponent),
        "." => Some(NameFault::SelfReference),
        ".." => Some(NameFault::ParentReference),
        _ if part.contains('/') => Some(NameFault::SlashInSnapshot),
        _ => {
            part.chars().find(|c| !u8::try_from(*c).is_ok_and(is_allowed)).map(NameFault::Character)
        }
    }
}

/// Whether one part of a name is allowed.
#[must_use]
pub fn check_component(part: &str) -> bool {
    component_fault(part).is_none()
}

/// Judges a full name.
///
/// # Errors
/// [`Error::BadName`] when it has a [`NameFault`].
pub fn check_name(name: &str) -> Result<NameKind> {
    if name_fault(name).is_some() {
        return Err(Error::BadName(name.to_owned()));
    }
    Ok(match name.bytes().find(|b| b"@#".contains(b)) {
        None => NameKind::Dataset,
        Some(b'@') => NameKind::Snapshot,
        Some(_) => NameKind::Bookmark,
    })
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
        for (bad, fault) in [
            ("/p", NameFault::LeadingSlash),
            ("p/", NameFault::TrailingSlash),
            ("p/@s", NameFault::TrailingSlash),
            ("p//a", NameFault::EmptyComponent),
            ("p@", NameFault::EmptyComponent),
            ("", NameFault::EmptyComponent),
            ("@s", NameFault::EmptyComponent),
            ("p@s#b", NameFault::TwoDelimiters),
            ("p/./a", NameFault::SelfReference),
            ("p/..", NameFault::ParentReference),
            ("p@a/b", NameFault::SlashInSnapshot),
            ("p/a%b", NameFault::Character('%')),
            ("p/ä", NameFault::Character('ä')),
        ] {
            assert_eq!(name_fault(bad), Some(fault), "{bad}");
        }
        assert_eq!(kind(&"a".repeat(NAME_MAX)), Some(NameKind::Dataset));
        assert_eq!(kind(&"a".repeat(NAME_MAX + 1)), None);
        assert_eq!(kind(&vec!["a"; NESTING_MAX].join("/")), Some(NameKind::Dataset));
        assert_eq!(kind(&vec!["a"; NESTING_MAX + 1].join("/")), None);
    }
}
