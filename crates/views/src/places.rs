//! Names and paths of files in messages.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use term::escape;

/// A name for people: what a terminal must not see becomes `\xNN`.
#[must_use]
pub fn printable(name: &[u8]) -> String {
    escape::name(name)
}

/// The message for a file or disk that this user may not open.
#[must_use]
pub fn denied(path: &Path) -> String {
    format!("cannot open '{}': Permission denied", printable(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jé".as_bytes()), "a\\x1b[2Jé");
        assert_eq!(printable(b"\xff-"), "\\xff-");
    }
}
