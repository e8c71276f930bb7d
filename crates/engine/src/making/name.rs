//! Names of new pools.

use dsl::write::{NameKind, check_name};
use std::fmt;

/// Longest name of a pool: the names of its own hidden datasets have to fit behind it.
const LONGEST: usize = 239;

/// Why a new pool cannot have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolNameFault {
    /// It does not begin with a letter.
    FirstCharacter,
    /// It is a word for vdevs, or begins with one.
    Reserved,
    /// It is too long.
    TooLong,
    /// It has a character that names of pools do not have.
    Character,
}

impl fmt::Display for PoolNameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstCharacter => "the name of a pool begins with a letter",
            Self::Reserved => "the name is a word for vdevs",
            Self::TooLong => "the name is too long",
            Self::Character => "the name has a character that names of pools do not have",
        })
    }
}

impl std::error::Error for PoolNameFault {}

/// Whether a new pool may have this name. Pools that have another already are opened all the same.
///
/// ```
/// use engine::pools::{PoolNameFault, check_new_name};
///
/// assert!(check_new_name("tank").is_ok());
/// assert_eq!(check_new_name("mirror-1"), Err(PoolNameFault::Reserved));
/// ```
///
/// # Errors
/// The rule that it breaks.
pub fn check_new_name(name: &str) -> Result<(), PoolNameFault> {
    // They begin the words for vdevs on a command line.
    const RESERVED: [&str; 4] = ["mirror", "raidz", "draid", "spare"];
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(PoolNameFault::FirstCharacter);
    }
    if name == "log" || RESERVED.iter().any(|word| name.starts_with(word)) {
        return Err(PoolNameFault::Reserved);
    }
    if name.len() > LONGEST {
        return Err(PoolNameFault::TooLong);
    }
    match check_name(name) {
        Ok(NameKind::Dataset) if !name.contains('/') => Ok(()),
        _ => Err(PoolNameFault::Character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_a_pool() {
        let long = "a".repeat(240);
        let faults = [
            (PoolNameFault::FirstCharacter, &["", "1a"][..]),
            (PoolNameFault::Reserved, &["log", "spare1"]),
            (PoolNameFault::Character, &["a/b", "a@b", "a%"]),
            (PoolNameFault::TooLong, &[long.as_str()]),
        ];
        for (fault, names) in faults {
            names.iter().for_each(|name| assert_eq!(check_new_name(name), Err(fault), "{name}"));
        }
        assert!(check_new_name(&long[..239]).is_ok());
    }
}
