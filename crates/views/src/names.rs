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

/// The message for a dataset that does not exist.
#[must_use]
pub fn no_dataset(name: &str) -> String {
    format!("cannot open '{name}': dataset does not exist")
}
