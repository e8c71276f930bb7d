//! Keys of entries.

use super::Match;

/// The key of an entry as its user knows it. Names convert into it: exact, as in most tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKey<'a> {
    /// A name without its NUL, and how it is compared with those in the table.
    Name(&'a [u8], Match),
    /// Integers, in a table with [`ondisk::zap::FLAG_UINT64_KEY`].
    Words(&'a [u64]),
}

impl<'a> From<&'a [u8]> for EntryKey<'a> {
    fn from(name: &'a [u8]) -> Self {
        Self::Name(name, Match::Exact)
    }
}

impl<'a> From<&'a str> for EntryKey<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name.as_bytes(), Match::Exact)
    }
}

impl<'a> From<&'a String> for EntryKey<'a> {
    fn from(name: &'a String) -> Self {
        Self::from(name.as_str())
    }
}

impl<'a> From<&'a [u64]> for EntryKey<'a> {
    fn from(words: &'a [u64]) -> Self {
        Self::Words(words)
    }
}

impl std::fmt::Display for EntryKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(n, _) => write!(f, "{}", n.escape_ascii()),
            Self::Words(w) => write!(f, "{w:x?}"),
        }
    }
}
