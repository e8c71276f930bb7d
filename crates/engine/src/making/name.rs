//! Names of new pools.

use dsl::write::{NameKind, check_name};

/// Longest name of a pool: the names of its own hidden datasets have to fit behind it.
const LONGEST: usize = 239;

/// Whether a new pool may have this name. Pools that have another already are opened all the same.
///
/// ```
/// use engine::pools::check_new_name;
///
/// assert!(check_new_name("tank").is_ok());
/// assert_eq!(check_new_name("mirror-1"), Err("name is reserved"));
/// ```
///
/// # Errors
/// The rule that it breaks.
pub fn check_new_name(name: &str) -> Result<(), &'static str> {
    // They begin the words for vdevs on a command line.
    const RESERVED: [&str; 4] = ["mirror", "raidz", "draid", "spare"];
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err("name must begin with a letter");
    }
    if name == "log" || RESERVED.iter().any(|word| name.starts_with(word)) {
        return Err("name is reserved");
    }
    if name.len() > LONGEST {
        return Err("name is too long");
    }
    match check_name(name) {
        Ok(NameKind::Dataset) if !name.contains('/') => Ok(()),
        _ => Err("invalid character in pool name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_a_pool() {
        let long = "a".repeat(240);
        for bad in ["", "1a", "log", "spare1", "a/b", "a@b", "a%", long.as_str()] {
            assert!(check_new_name(bad).is_err(), "{bad}");
        }
        assert!(check_new_name(&long[..239]).is_ok());
    }
}
