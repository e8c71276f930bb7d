//! Names that no file can have, whatever a directory says.

/// Longest name in bytes.
pub const LONGEST: usize = 255;
/// Longest name in bytes with the feature `longname`.
pub const LONGEST_WITH_FEATURE: usize = 1023;

/// Why no file can have a name, where names have up to `longest` bytes; `None` when one can.
#[must_use]
pub fn fault(name: &[u8], longest: usize) -> Option<&'static str> {
    match name {
        b"" => Some("an empty name"),
        b"." | b".." => Some("a name that stands for a directory"),
        _ if name.contains(&b'/') => Some("a name with a slash"),
        _ if name.contains(&0) => Some("a name with a zero byte"),
        _ if name.len() <= longest => None,
        _ if longest == LONGEST => Some("a name longer than 255 bytes"),
        _ => Some("a name longer than 1023 bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_names_only_with_the_feature() {
        let long = [b'n'; LONGEST + 1];
        assert_eq!(fault(&long[1..], LONGEST), None);
        assert_eq!(fault(&long, LONGEST), Some("a name longer than 255 bytes"));
        assert_eq!(fault(&long, LONGEST_WITH_FEATURE), None);
        let longer = [b'n'; LONGEST_WITH_FEATURE + 1];
        assert_eq!(fault(&longer, LONGEST_WITH_FEATURE), Some("a name longer than 1023 bytes"));
    }
}
