//! Versions of file systems, as `zfs upgrade` shows them.

use super::Selected;
use std::fmt::Write as _;

/// The version of new file systems, and the newest there is.
pub const NEWEST: u64 = 5;

/// What each version brought, from 1 on.
const VERSIONS: [&str; NEWEST as usize] = [
    "Initial ZFS filesystem version",
    "Enhanced directory entries",
    "Case insensitive and filesystem user identifier (FUID)",
    "userquota, groupquota properties",
    "System attributes",
];

/// The version of a file system, when it is known.
#[must_use]
pub fn version(of: &Selected) -> Option<u64> {
    of.property("version")?.number()
}

/// The versions there are.
#[must_use]
pub fn list() -> String {
    let mut text = "The following filesystem versions are supported:\n\n\
                    VER  DESCRIPTION\n---  -----------\n"
        .to_owned();
    for (version, what) in (1..).zip(VERSIONS) {
        let _ = writeln!(text, "{version:>2}   {what}");
    }
    text
}

/// Which file systems have an older version.
#[must_use]
pub fn report(all: &[Selected]) -> String {
    let mut text = format!("This system is currently running ZFS filesystem version {NEWEST}.\n\n");
    let older: Vec<_> = all.iter().filter(|s| version(s) < Some(NEWEST)).collect();
    if older.is_empty() {
        text.push_str("All filesystems are formatted with the current version.\n");
        return text;
    }
    text.push_str("These have an older version:\n\nVER  FILESYSTEM\n---  ----------\n");
    for s in older {
        let shown = version(s).map_or_else(|| "?".to_owned(), |version| version.to_string());
        let _ = writeln!(text, "{shown:>2}   {}", s.name);
    }
    text
}
