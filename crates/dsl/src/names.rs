//! Names that no dataset, property or feature can have, whatever a table says.
//!
//! A program other than OpenZFS can put any bytes into its tables. Such a name
//! is shown as [`ondisk::spelling`] spells it, and a check names it.

mod allowed;

pub(crate) use allowed::NAME_MAX;
pub use allowed::{NameFault, NameKind, check_component, check_name, name_fault};

use ondisk::dsl::prop_suffix::{HAS_RECEIVED, INHERIT, IUV, RECEIVED};

/// Longest name in bytes.
const LONGEST: usize = 255;

/// The kind of object that a name is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOf {
    /// A dataset, snapshot or bookmark: one part of a full name, the pool's own (`$MOS`) as well.
    Dataset,
    /// A property of datasets, or of pools.
    Property,
    /// A feature.
    Feature,
}

/// Whether a dataset is another or below it.
#[must_use]
pub fn is_within(dataset: &str, above: &str) -> bool {
    dataset.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Why nothing of that kind can have a name; `None` when something can.
#[must_use]
pub fn fault(name: &[u8], of: NameOf) -> Option<&'static str> {
    match name {
        b"" => return Some("an empty name"),
        _ if name.contains(&0) => return Some("a name with a zero byte"),
        _ if name.len() > LONGEST => return Some("a name longer than 255 bytes"),
        _ => {}
    }
    let has_only = |allowed: fn(&u8) -> bool| name.iter().all(allowed);
    match of {
        NameOf::Dataset => {
            let name = name.strip_prefix(b"$").or(name.strip_prefix(b"%")).unwrap_or(name);
            let part = std::str::from_utf8(name).unwrap_or_default();
            let good = check_component(part);
            (!good).then_some("not a valid dataset name")
        }
        NameOf::Property => {
            let good =
                has_only(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':'));
            (!good).then_some("not a valid property name")
        }
        NameOf::Feature => {
            let good = has_only(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(b));
            (!good).then_some("not a valid feature name")
        }
    }
}

/// The property name in a key of a dataset's table; `None` if the key does not belong to a
/// property.
#[must_use]
pub fn of_property(key: &[u8]) -> Option<&[u8]> {
    if key == HAS_RECEIVED.as_bytes() {
        return None;
    }
    let bare = [RECEIVED, INHERIT, IUV].iter().find_map(|s| key.strip_suffix(s.as_bytes()));
    Some(bare.unwrap_or(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_such_as_their_kind_has() {
        for (of, good, bad) in [
            (
                NameOf::Dataset,
                &["a b:c-d", "$MOS", "%recv"][..],
                &["a/b", "a@b", "..", "$", "ä"][..],
            ),
            (
                NameOf::Property,
                &["compression", "a.b:c_1-2"],
                &["a=b", "a:B", "a:\x1b", "a$x", "ä:a"],
            ),
            (NameOf::Feature, &["com.example:large_Blocks-2"], &["com.example:a b", "a\n", "ä"]),
        ] {
            for name in good {
                assert_eq!(fault(name.as_bytes(), of), None, "{name}");
            }
            for name in bad.iter().chain(&["", "a\0b"]) {
                assert!(fault(name.as_bytes(), of).is_some(), "{name:?}");
            }
            assert_eq!(fault(&[b'a'; LONGEST], of), None);
            assert!(fault(&[b'a'; LONGEST + 1], of).is_some());
            assert!(fault(b"a\xff", of).is_some());
        }
    }

    #[test]
    fn what_stands_behind_a_name_is_no_part_of_it() {
        for (key, name) in [
            (&b"a:b"[..], Some(&b"a:b"[..])),
            (b"mountpoint$recvd", Some(b"mountpoint")),
            (b"a:b$inherit", Some(b"a:b")),
            (b"redundant_metadata$iuv", Some(b"redundant_metadata")),
            (b"$hasrecvd", None),
            (b"a$other", Some(b"a$other")),
        ] {
            assert_eq!(of_property(key), name);
        }
    }
}
