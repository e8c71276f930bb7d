//! Properties of users, groups and projects: `userused@NAME`, `groupquota@ID` and their like.

use crate::cannot::cannot;
use crate::failure::Failure;
use crate::session::Session;
use engine::files::{Limited, SpaceKind, SpaceRow};
use engine::nicenum::{nicebytes, nicenum};
use engine::{Dataset, DatasetKind, Dsl, Filesystem, LivePool, StoredValue, parse_value};
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

/// Whether `name` is the quota of all owners that have none of their own.
pub fn is_default_quota(name: &str) -> bool {
    let of_all = name.strip_prefix("default");
    let is_kind = |rest: &str| {
        KINDS.iter().any(|(kind, _)| {
            rest.strip_prefix(kind).is_some_and(|what| matches!(what, "quota" | "objquota"))
        })
    };
    of_all.is_some_and(is_kind)
}

/// A limit that is to be set for an owner.
#[derive(Clone, Debug)]
pub struct Limit {
    kind: SpaceKind,
    what: Limited,
    id: u64,
    /// 0: none.
    value: u64,
}

impl Limit {
    /// Reads one; `None` when the property is another.
    ///
    /// # Errors
    /// No such user, group or size.
    pub fn read(session: &Session, property: &str, value: &str) -> Result<Option<Self>, Failure> {
        let Some((kind, what, owner)) = parse(property) else { return Ok(None) };
        let what = match what {
            What::Quota => Limited::Space,
            What::ObjectQuota => Limited::Objects,
            What::Used | What::Objects => {
                return Err(Failure::new(format!("'{property}' is readonly")));
            }
        };
        let id = match owner.parse::<u32>() {
            Ok(id) => Some(u64::from(id)),
            Err(_) => match kind {
                SpaceKind::User => session.user_id(owner),
                SpaceKind::Group => session.group_id(owner),
                SpaceKind::Project => None,
            },
        };
        let id = id.ok_or_else(|| Failure::new(format!("invalid property '{property}'")))?;
        // A reservation is a size, or none, too.
        match parse_value("reservation", value, DatasetKind::Filesystem, false) {
            Ok(StoredValue::Number(value)) => Ok(Some(Self { kind, what, id, value })),
            _ => Err(Failure::new(format!("bad value '{value}' for '{property}'"))
                .hint("a number, with a unit, or none")),
        }
    }

    /// Sets it for a file system.
    pub fn set(&self, pool: &LivePool, dataset: &str) -> Result<(), Failure> {
        let fail = |e: engine::Error| cannot("set property for", dataset, e);
        let fs = pool.filesystem(dataset).map_err(|e| fail(e.into()))?;
        fs.set_quota(self.kind, self.what, self.id, self.value).map_err(|e| fail(e.into()))?;
        pool.sync().map_err(|e| fail(e.into()))
    }
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
