//! Names of new pools.

use crate::faults::PoolNameFault;
use dsl::write::{NameKind, check_name};

/// Longest name of a pool: the names of its own hidden datasets have to fit behind it.
const LONGEST: usize = 239;

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
