//! Delegated permissions: keys of the ZAP that `zfs allow` fills.
//!
//! Specified in `docs/format/dsl.md`. The directory's `deleg_zap` maps *who* to a second ZAP,
//! whose keys are permission names (value 0). The key is `<who><inherit>$<name>`:
//!
//! ```text
//! ul$1000   user 1000, this dataset only        gd$100   group 100, descendants
//! el$       everyone                            c-$      the creator of a dataset
//! s-$@set   permissions of the named set @set
//! ```
//!
//! In upper case (`Ul$1000`) the second ZAP has names of sets, not of permissions.

use crate::props::{self, Access};

/// Character between the two letters and the name.
pub const SEPARATOR: char = '$';

/// Longest name of a set in bytes, with its `@`.
const SET_NAME_MAX: usize = 63;

/// The permissions that are not named after a property.
pub const PERMISSIONS: [&str; 31] = [
    "allow",
    "bookmark",
    "change-key",
    "clone",
    "create",
    "destroy",
    "diff",
    "groupobjquota",
    "groupobjused",
    "groupquota",
    "groupused",
    "hold",
    "load-key",
    "mount",
    "projectobjquota",
    "projectobjused",
    "projectquota",
    "projectused",
    "promote",
    "receive",
    "release",
    "rename",
    "rollback",
    "send",
    "share",
    "snapshot",
    "userobjquota",
    "userobjused",
    "userprop",
    "userquota",
    "userused",
];

/// Whether there is a permission of that name: one of [`PERMISSIONS`], or a property that can be
/// set.
#[must_use]
pub fn is_permission(name: &str) -> bool {
    // The security label of a dataset is not delegated.
    let is_settable =
        |p: &props::PropertyDesc| p.access != Access::ReadOnly && p.name != "mlslabel";
    PERMISSIONS.contains(&name) || props::find(&props::DATASET, name).is_some_and(is_settable)
}

/// Whether a set can have that name: `@` and the characters of a dataset's name.
#[must_use]
pub fn is_set_name(name: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    let rest = name.strip_prefix('@').unwrap_or_default();
    !rest.is_empty() && name.len() <= SET_NAME_MAX && rest.chars().all(is_good)
}

/// The kind of holder of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A user, by number.
    User,
    /// A group, by number.
    Group,
    /// Everyone.
    Everyone,
    /// The creator of a new dataset below.
    Create,
    /// Members of a named set.
    NamedSet,
}

/// Where a permission holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On this dataset.
    Local,
    /// On everything below.
    Descendent,
    /// Not applicable: create-time permissions and sets.
    None,
}

/// A key of the first ZAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhoKey {
    /// The kind of holder.
    pub who: Who,
    /// The second ZAP lists sets instead of permissions.
    pub sets: bool,
    /// Where.
    pub scope: Scope,
    /// User or group number in decimal, name of the set with its `@`, or empty.
    pub name: String,
}

impl WhoKey {
    /// Takes a key apart; `None` when it is not of the form above.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        let mut c = key.chars();
        let (who, scope, separator) = (c.next()?, c.next()?, c.next()?);
        let sets = who.is_ascii_uppercase();
        let who = match who.to_ascii_lowercase() {
            'u' => Who::User,
            'g' => Who::Group,
            'e' => Who::Everyone,
            'c' => Who::Create,
            's' => Who::NamedSet,
            _ => return None,
        };
        let scope = match scope {
            'l' => Scope::Local,
            'd' => Scope::Descendent,
            '-' => Scope::None,
            _ => return None,
        };
        (separator == SEPARATOR).then(|| Self { who, sets, scope, name: c.as_str().to_owned() })
    }

    /// Puts the key together.
    #[must_use]
    pub fn format(&self) -> String {
        let who = match self.who {
            Who::User => 'u',
            Who::Group => 'g',
            Who::Everyone => 'e',
            Who::Create => 'c',
            Who::NamedSet => 's',
        };
        let who = if self.sets { who.to_ascii_uppercase() } else { who };
        let scope = match self.scope {
            Scope::Local => 'l',
            Scope::Descendent => 'd',
            Scope::None => '-',
        };
        format!("{who}{scope}{SEPARATOR}{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_operations_and_properties() {
        for good in ["snapshot", "load-key", "userprop", "compression", "volsize", "encryption"] {
            assert!(is_permission(good), "{good}");
        }
        for bad in ["", "used", "mlslabel", "compress", "com.x:y", "@set", "Snapshot"] {
            assert!(!is_permission(bad), "{bad}");
        }
        assert!(PERMISSIONS.is_sorted());
        for bad in ["", "@", "ops", "@a@b", "@a/b", "@\u{e9}", &format!("@{}", "x".repeat(63))] {
            assert!(!is_set_name(bad), "{bad}");
        }
        assert!(is_set_name("@ops") && is_set_name(&format!("@{}", "x".repeat(62))));
    }

    #[test]
    fn keys_go_both_ways() {
        for key in ["ul$1000", "gd$100", "el$", "ed$", "c-$", "s-$@ops", "Ul$0", "C-$", "S-$@x"] {
            assert_eq!(WhoKey::parse(key).map(|k| k.format()).as_deref(), Some(key));
        }
        for bad in ["", "u", "ul", "ulx1", "xl$1", "ux$1"] {
            assert_eq!(WhoKey::parse(bad), None, "{bad}");
        }
    }
}
