//! Names of datasets that nothing has or can have, in the words of OpenZFS, which scripts look for.

use engine::pools::PoolNameFault;
use engine::{NameFault, name_fault};

/// Whether a name is possible, but of another kind of dataset than is meant: rules for names are no
/// help then.
#[must_use]
pub fn is_of_other_kind(name: &str) -> bool {
    name_fault(name).is_none()
}

/// The fault of a name.
#[must_use]
pub fn bad_name(name: &str) -> String {
    let fixed = match name_fault(name) {
        Some(NameFault::TooLong) => "name is too long",
        Some(NameFault::TooDeep) => "too many levels in name",
        Some(NameFault::LeadingSlash) => "leading slash in name",
        Some(NameFault::TrailingSlash) => "trailing slash in name",
        Some(NameFault::EmptyComponent) => {
            "empty component or misplaced '@' or '#' delimiter in name"
        }
        Some(NameFault::TwoDelimiters) => "multiple '@' and/or '#' delimiters in name",
        Some(NameFault::SelfReference) => "self reference, '.' is found in name",
        Some(NameFault::ParentReference) => "parent reference, '..' is found in name",
        Some(NameFault::SlashInSnapshot) => "invalid character '/' in name",
        Some(NameFault::Character(c)) => return format!("invalid character '{c}' in name"),
        // A snapshot where a file system is meant, say.
        None => "a dataset of another kind is meant",
    };
    fixed.to_owned()
}

/// The fault of the name of a new pool.
#[must_use]
pub fn bad_pool_name(fault: PoolNameFault) -> &'static str {
    match fault {
        PoolNameFault::FirstCharacter => "name must begin with a letter",
        PoolNameFault::Reserved => "name is reserved",
        PoolNameFault::TooLong => "name is too long",
        PoolNameFault::Character => "invalid character in pool name",
    }
}

/// The message for a dataset that does not exist, or cannot, because of its name.
#[must_use]
pub fn no_dataset(name: &str) -> String {
    match name_fault(name) {
        // Names of OpenZFS's own have a `%`.
        None | Some(NameFault::Character('%')) => {
            format!("cannot open '{name}': dataset does not exist")
        }
        Some(_) => format!("cannot open '{name}': {}", bad_name(name)),
    }
}

/// Why this dataset is not what is looked for, which has another type.
#[must_use]
pub fn other_type(name: &str) -> &'static str {
    match name.find(['@', '#']).map(|at| &name[at..=at]) {
        Some("@") => "snapshot delimiter '@' is not expected here",
        Some(_) => "bookmark delimiter '#' is not expected here",
        None => "operation not applicable to datasets of this type",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_is_told_from_one_that_nothing_has() {
        assert_eq!(no_dataset("p/a@s"), "cannot open 'p/a@s': dataset does not exist");
        let two = "cannot open 'p@a@b': multiple '@' and/or '#' delimiters in name";
        assert_eq!(no_dataset("p@a@b"), two);
        assert_eq!(no_dataset("p/%x"), "cannot open 'p/%x': dataset does not exist");
        assert!(other_type("p@s").contains("'@'") && other_type("p#b").contains("'#'"));
        assert!(other_type("p/a").contains("datasets of this type"));
    }
}
