//! Native properties: their names, types, defaults, and the numbers behind their words.
//!
//! Specified in `docs/format/dsl.md`. A property is stored as a number (one 64-bit word), as an
//! *index* (the number of a word, as `compression` 15 for `lz4`), or as text. Most are in a
//! property ZAP (see [`crate::dsl::prop_suffix`]); some are computed, and some live elsewhere:
//!
//! | property | where |
//! | --- | --- |
//! | quota, reservation | [`crate::dsl::DslDir`] |
//! | version, utf8only, normalization, casesensitivity | [`crate::mos::master_node`] |
//! | volsize | `size` in the volume's property object |
//! | volblocksize | block size of the volume's data object |
//! | encryption, keyformat, pbkdf2iters, pbkdf2salt | [`crate::dsl::crypt`] |
//!
//! Several words may have one number: reading prints the first of the table, writing takes any.
//! These tables are facts, not policy: they hold no validation beyond the words.

mod dataset;

pub use dataset::DATASET;

use crate::kinds::{Checksum, Compression};

/// Words of an index property with their numbers.
pub type Names = &'static [(&'static str, u64)];

/// Words of switches.
pub static BOOLEAN: Names = &[("off", 0), ("on", 1)];

/// The kind of a property's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A number, with its default.
    Number(u64),
    /// The number of a word, with its default.
    Index(u64, Names),
    /// A text, with its default if it has one.
    Text(Option<&'static str>),
}

/// Who may set a property, and whether children have it from their parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Can be set, is not inherited.
    Settable,
    /// Computed, cannot be set.
    ReadOnly,
    /// Can be set, is inherited.
    Inherit,
    /// Can be set when the dataset is made, is inherited then.
    OnceInherit,
    /// Can be set when the dataset is made, is not inherited.
    Once,
}

/// Whether lists show a property, and how they align it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAlignment {
    /// To the left.
    Left,
    /// To the right.
    Right,
    /// Not shown.
    Hidden,
}

/// The kinds of datasets that have a property; bits of [`Property::applies`].
pub mod applies {
    /// File systems.
    pub const FILESYSTEM: u8 = 1 << 0;
    /// Snapshots.
    pub const SNAPSHOT: u8 = 1 << 1;
    /// Volumes.
    pub const VOLUME: u8 = 1 << 2;
    /// Pools.
    pub const POOL: u8 = 1 << 3;
    /// Bookmarks.
    pub const BOOKMARK: u8 = 1 << 4;
    /// Vdevs.
    pub const VDEV: u8 = 1 << 5;
}

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyDesc {
    /// Name, and key in the ZAP.
    pub name: &'static str,
    /// The kind of the value.
    pub kind: ValueKind,
    /// Who may set it.
    pub access: Access,
    /// The kinds of datasets that have it: bits of [`applies`].
    pub applies: u8,
    /// Whether lists show it.
    pub shown: ListAlignment,
    /// Heading of its column.
    pub column: &'static str,
    /// The values as help shows them; empty when hidden.
    pub values: &'static str,
}

/// A row of the table of datasets.
const fn row(
    name: &'static str,
    kind: ValueKind,
    access: Access,
    applies: u8,
    shown: ListAlignment,
    column: &'static str,
    values: &'static str,
) -> PropertyDesc {
    PropertyDesc { name, kind, access, applies, shown, column, values }
}

pub(crate) const fn number(default: u64) -> ValueKind {
    ValueKind::Number(default)
}

pub(crate) const fn index(default: u64, names: Names) -> ValueKind {
    ValueKind::Index(default, names)
}

pub(crate) const fn text(default: Option<&'static str>) -> ValueKind {
    ValueKind::Text(default)
}

impl PropertyDesc {
    /// The word of `number`, or `None` when it is not an index or has no such number.
    #[must_use]
    pub fn word(&self, number: u64) -> Option<&'static str> {
        match self.kind {
            ValueKind::Index(_, names) => names.iter().find(|(_, n)| *n == number).map(|(w, _)| *w),
            ValueKind::Number(_) | ValueKind::Text(_) => None,
        }
    }

    /// The number of `word`, or `None` when it is not an index or has no such word.
    #[must_use]
    pub fn number(&self, word: &str) -> Option<u64> {
        match self.kind {
            ValueKind::Index(_, names) => names.iter().find(|(w, _)| *w == word).map(|(_, n)| *n),
            ValueKind::Number(_) | ValueKind::Text(_) => None,
        }
    }

    /// The default of a number or index.
    #[must_use]
    pub fn default_number(&self) -> Option<u64> {
        match self.kind {
            ValueKind::Number(n) | ValueKind::Index(n, _) => Some(n),
            ValueKind::Text(_) => None,
        }
    }

    /// The default of a text, when there is one.
    #[must_use]
    pub fn default_text(&self) -> Option<&'static str> {
        match self.kind {
            ValueKind::Text(t) => t,
            ValueKind::Number(_) | ValueKind::Index(..) => None,
        }
    }

    /// Children have it from their parents.
    #[must_use]
    pub fn is_inheritable(&self) -> bool {
        matches!(self.access, Access::Inherit | Access::OnceInherit)
    }

    /// Cannot be changed once the dataset is there.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        matches!(self.access, Access::ReadOnly | Access::OnceInherit | Access::Once)
    }

    /// Lists show it.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        self.shown != ListAlignment::Hidden
    }
}

/// A property of a table by its name.
#[must_use]
pub fn find(table: &'static [PropertyDesc], name: &str) -> Option<&'static PropertyDesc> {
    table.iter().find(|p| p.name == name)
}

/// A native property of datasets by its name or its column's heading in small letters, as `zfs`
/// takes them (`refer` for `referenced`).
#[must_use]
pub fn find_dataset(name: &str) -> Option<&'static PropertyDesc> {
    find_by_heading(&DATASET, name)
}

pub(crate) fn find_by_heading(
    table: &'static [PropertyDesc],
    name: &str,
) -> Option<&'static PropertyDesc> {
    find(table, name).or_else(|| {
        let heading = |p: &&PropertyDesc| p.is_visible() && p.column.to_ascii_lowercase() == name;
        table.iter().find(heading)
    })
}

/// Takes a value of `compression` apart: the algorithm, and the level when there is one.
///
/// The low seven bits are the algorithm, the rest the level. Levels of zstd are 1 to 19; 103 to 112
/// are `fast-1` to `fast-10`, 113 to 121 `fast-20` to `fast-100` in tens, 122 and 123 `fast-500`
/// and `fast-1000`. Level 0 is the default, 3.
#[must_use]
pub fn compression_parts(value: u64) -> (Compression, Option<u8>) {
    let level = u8::try_from(value >> 7).ok().filter(|l| *l != 0);
    (Compression((value & 0x7f) as u8), level)
}

/// Takes a value of `dedup` apart: the checksum, and whether matches are compared byte by byte.
#[must_use]
pub fn dedup_parts(value: u64) -> (Checksum, bool) {
    (Checksum(value as u8), value & DEDUP_VERIFY != 0)
}

/// Bit of `dedup` that asks for a comparison.
pub const DEDUP_VERIFY: u64 = 1 << 8;

/// The prefixes of the names of properties per user, group or project.
pub const ACCOUNTING_PREFIXES: [&str; 12] = [
    "userused@",
    "userquota@",
    "groupused@",
    "groupquota@",
    "userobjused@",
    "userobjquota@",
    "groupobjused@",
    "groupobjquota@",
    "projectused@",
    "projectquota@",
    "projectobjused@",
    "projectobjquota@",
];

/// The prefixes of the names of the properties "written since a snapshot" and "since a bookmark".
pub const WRITTEN_PREFIXES: [&str; 2] = ["written@", "written#"];

/// A name a user may give a property: small letters, digits, `-_.:`, with at least one colon.
#[must_use]
pub fn is_user_property(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.:".contains(&b);
    name.contains(':') && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool_props::{POOL, VDEV};

    #[test]
    fn words_and_numbers() {
        let p = |name| find_dataset(name).unwrap();
        assert_eq!(p("compression").word(15), Some("lz4"));
        assert_eq!(p("compression").word(10), Some("gzip"), "the first of two words");
        assert_eq!(p("compression").number("gzip-6"), Some(10));
        assert_eq!(p("compression").number("zstd-19"), Some(16 | 19 << 7));
        assert_eq!(p("compression").number("none"), None);
        assert_eq!(p("checksum").word(14), Some("blake3"));
        assert_eq!(p("dedup").number("sha256,verify"), Some(8 | DEDUP_VERIFY));
        assert_eq!(p("xattr").word(2), Some("on"));
        assert_eq!(p("canmount").word(2), Some("noauto"));
        assert_eq!(p("refer").name, "referenced");
        assert_eq!(find(&POOL, "failmode").and_then(|p| p.number("panic")), Some(2));
        assert_eq!(find(&VDEV, "allocating").and_then(|p| p.word(2)), Some("-"));
        assert!(p("mountpoint").is_inheritable() && !p("quota").is_inheritable());
        assert!(p("volblocksize").is_fixed() && !p("volsize").is_fixed());
        assert_eq!(p("mountpoint").default_text(), Some("/"));
        assert_eq!(p("recordsize").default_number(), Some(128 << 10));
    }

    #[test]
    fn values_that_are_two_in_one() {
        assert_eq!(compression_parts(15), (Compression::LZ4, None));
        let fast = find_dataset("compression").and_then(|p| p.number("zstd-fast-1000")).unwrap();
        assert_eq!(compression_parts(fast), (Compression::ZSTD, Some(123)));
        assert_eq!(compression_parts(u64::MAX).1, None);
        assert_eq!(dedup_parts(8 | DEDUP_VERIFY), (Checksum::SHA256, true));
        assert_eq!(dedup_parts(14), (Checksum::BLAKE3, false));
    }

    #[test]
    fn tables_are_consistent() {
        for table in [&DATASET[..], &POOL, &VDEV] {
            for (i, p) in table.iter().enumerate() {
                assert!(table[..i].iter().all(|q| q.name != p.name), "{} twice", p.name);
                assert!(p.applies != 0);
                assert_eq!(p.is_visible(), !p.values.is_empty(), "{}", p.name);
                if let ValueKind::Index(default, names) = p.kind {
                    // `version` has no default: the pool's version decides.
                    let known = p.word(default).is_some() || p.name == "version";
                    assert!(known, "{} has a default without a word", p.name);
                    for (word, number) in names {
                        assert_eq!(p.number(word), Some(*number));
                        assert!(p.word(*number).is_some());
                    }
                }
            }
        }
    }

    #[test]
    fn the_algorithms_have_the_same_names_as_in_block_pointers() {
        let p = find_dataset("checksum").unwrap();
        for n in 0..=255 {
            if let (Some(word), Some(name)) = (p.word(n), Checksum(n as u8).name()) {
                assert_eq!(word, name);
            }
        }
        let p = find_dataset("compression").unwrap();
        for n in 0..=127 {
            if let (Some(word), Some(name)) = (p.word(n), Compression(n as u8).name()) {
                assert_eq!(p.number(name), Some(n), "{word}");
            }
        }
    }

    #[test]
    fn user_properties() {
        for good in ["a:b", "org.example:x-1_2", ":"] {
            assert!(is_user_property(good), "{good}");
        }
        for bad in ["", "plain", "A:b", "a b:c", "a:ä"] {
            assert!(!is_user_property(bad), "{bad}");
        }
    }
}
