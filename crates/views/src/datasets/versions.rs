//! Versions of file systems, as `zfs upgrade` shows them.

use engine::datasets::Upgraded;
use engine::select::Selected;
use std::fmt::Write as _;

/// The version of new file systems, and the newest there is.
pub const NEWEST: u64 = 5;

/// The new feature of each version, from 1 on.
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

/// The result of an upgrade to a version, and the file systems that have a newer one.
#[must_use]
pub fn done(of: &Upgraded) -> (String, String) {
    let mut newer = String::new();
    for (name, version) in &of.newer {
        let _ =
            writeln!(newer, "{name}: can not be downgraded; it is already at version {version}");
    }
    let mut text = format!("{} filesystems upgraded\n", of.upgraded.len());
    if of.had_it > 0 {
        let _ = writeln!(text, "{} filesystems already at this version", of.had_it);
    }
    (text, newer)
}

/// The version that a text means; `None` when there is no such version.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    engine::props::find_dataset("version")?.number(text)
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
    text.push_str(
        "The following filesystems are out of date, and can be upgraded:\n\n\
         VER  FILESYSTEM\n---  ----------\n",
    );
    for s in older {
        let shown = version(s).map_or_else(|| "?".to_owned(), |version| version.to_string());
        let _ = writeln!(text, "{shown:>2}   {}", s.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_newer_version_is_told_apart() {
        let of = Upgraded {
            upgraded: vec!["a".to_owned()],
            had_it: 2,
            newer: vec![("a/b".to_owned(), 5)],
        };
        let (text, newer) = done(&of);
        assert_eq!(text, "1 filesystems upgraded\n2 filesystems already at this version\n");
        assert_eq!(newer, "a/b: can not be downgraded; it is already at version 5\n");
        assert_eq!(done(&Upgraded::default()).0, "0 filesystems upgraded\n");
    }

    #[test]
    fn a_version_is_a_number_or_the_current_one() {
        assert_eq!(["1", "5", "current"].map(parse), [Some(1), Some(5), Some(5)]);
        assert_eq!(["0", "6", "", "-1", "1.5", "2x"].map(parse), [None; 6]);
    }
}
