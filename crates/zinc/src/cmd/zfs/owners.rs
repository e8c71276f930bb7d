//! Properties of users, groups and projects: `userused@NAME`, `groupquota@ID` and their like.

use crate::session::Session;
use engine::files::{SpaceKind, SpaceRow};
use engine::nicenum::{nicebytes, nicenum};
use engine::{Dataset, Dsl, Filesystem};
use engine::{Property, Source};

/// What such a property says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Used,
    Quota,
    Objects,
    ObjectQuota,
}

const KINDS: [(&str, SpaceKind); 3] =
    [("user", SpaceKind::User), ("group", SpaceKind::Group), ("project", SpaceKind::Project)];
const WHATS: [(&str, What); 4] = [
    ("used", What::Used),
    ("quota", What::Quota),
    ("objused", What::Objects),
    ("objquota", What::ObjectQuota),
];

/// A property's name in its parts; `None` when it is another property.
fn parse(name: &str) -> Option<(SpaceKind, What, &str)> {
    let (property, owner) = name.split_once('@').filter(|(_, o)| !o.is_empty())?;
    KINDS.iter().find_map(|(word, kind)| {
        let rest = property.strip_prefix(word)?;
        WHATS.iter().find(|(w, _)| *w == rest).map(|(_, what)| (*kind, *what, owner))
    })
}

/// Whether `name` is such a property.
pub fn is_one(name: &str) -> bool {
    parse(name).is_some()
}

/// Whether `name` is a quota of an owner, or the one of all owners that have none.
pub fn is_quota(name: &str) -> bool {
    let of_all = name.strip_prefix("default");
    let is_kind = |rest: &str| {
        KINDS.iter().any(|(kind, _)| {
            rest.strip_prefix(kind).is_some_and(|what| matches!(what, "quota" | "objquota"))
        })
    };
    of_all.is_some_and(is_kind)
        || parse(name).is_some_and(|(_, what, _)| matches!(what, What::Quota | What::ObjectQuota))
}

/// The value for people; `None` when `name` is another property.
pub fn pretty(name: &str, value: u64) -> Option<String> {
    let (_, what, _) = parse(name)?;
    Some(match (what, value) {
        (What::Quota | What::ObjectQuota, 0) => "none".to_owned(),
        (What::Used | What::Quota, n) => nicebytes(n),
        (What::Objects | What::ObjectQuota, n) => nicenum(n),
    })
}

/// The property of a file system or a snapshot of one; `None` for what has no owners.
pub fn property(session: &Session, dsl: &Dsl, dataset: &Dataset, name: &str) -> Option<Property> {
    let (kind, what, owner) = parse(name)?;
    let fs = Filesystem::open(dsl.objset(dataset).ok()?).ok()?;
    let rows = fs.space(kind).ok()?;
    let is_owner = |row: &&SpaceRow| match owner.parse::<u64>() {
        Ok(id) => row.domain.is_none() && row.id == id,
        Err(_) if row.domain.is_some() => row.id_text() == owner,
        Err(_) => match kind {
            SpaceKind::User => session.user_name(row.id) == Some(owner),
            SpaceKind::Group => session.group_name(row.id) == Some(owner),
            SpaceKind::Project => false,
        },
    };
    let value = rows.iter().find(is_owner).and_then(|row| match what {
        What::Used => row.used,
        What::Quota => row.quota,
        What::Objects => row.objects,
        What::ObjectQuota => row.object_quota,
    });
    Some(Property {
        name: name.to_owned(),
        value: value.unwrap_or(0).to_string(),
        source: Source::Local,
        received: None,
        native: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_three_parts() {
        assert_eq!(parse("userused@root"), Some((SpaceKind::User, What::Used, "root")));
        assert_eq!(parse("projectobjquota@7"), Some((SpaceKind::Project, What::ObjectQuota, "7")));
        for other in ["userused", "userused@", "written@x", "defaultuserquota", "userobj@0"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_quota_of_nothing_is_none() {
        assert_eq!(pretty("groupquota@1", 0).as_deref(), Some("none"));
        assert_eq!(pretty("groupused@1", 0).as_deref(), Some("0B"));
        assert_eq!(pretty("userobjused@1", 5).as_deref(), Some("5"));
        assert_eq!(pretty("quota", 5), None);
    }
}
