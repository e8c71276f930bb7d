//! Properties of users, groups and projects: `userused@NAME`, `groupquota@ID` and their like.

use crate::error::Result;
use dsl::{Dataset, DatasetKind, Dsl, Property, Refusal, Source};
use pool::live::LivePool;
use zpl::write::QuotaKind;
use zpl::{Filesystem, SpaceKind, SpaceRow};

/// What a property of a user, group or project says: the part of its name between the kind of the
/// owner and `@`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnerFigure {
    /// Bytes that are used.
    Used,
    /// Bytes that may be.
    Quota,
    /// Objects that there are.
    Objects,
    /// Objects that there may be.
    ObjectQuota,
}

const KINDS: [(&str, SpaceKind); 3] =
    [("user", SpaceKind::User), ("group", SpaceKind::Group), ("project", SpaceKind::Project)];
const FIGURES: [(&str, OwnerFigure); 4] = [
    ("used", OwnerFigure::Used),
    ("quota", OwnerFigure::Quota),
    ("objused", OwnerFigure::Objects),
    ("objquota", OwnerFigure::ObjectQuota),
];

/// A property's name in its parts; `None` when it is another property.
///
/// ```
/// use engine::properties::{OwnerFigure, parse_owner};
///
/// let (_, figure, owner) = parse_owner("userquota@ann").unwrap();
/// assert_eq!((figure, owner), (OwnerFigure::Quota, "ann"));
/// ```
#[must_use]
pub fn parse_owner(name: &str) -> Option<(SpaceKind, OwnerFigure, &str)> {
    let (property, owner) = name.split_once('@')?;
    KINDS.iter().find_map(|(word, kind)| {
        let rest = property.strip_prefix(word)?;
        FIGURES.iter().find(|(w, _)| *w == rest).map(|(_, what)| (*kind, *what, owner))
    })
}

/// Whether `name` is the quota of all owners that have none of their own.
#[must_use]
pub fn is_default_quota(name: &str) -> bool {
    let of_all = name.strip_prefix("default");
    let is_kind = |rest: &str| {
        KINDS.iter().any(|(kind, _)| {
            rest.strip_prefix(kind).is_some_and(|what| matches!(what, "quota" | "objquota"))
        })
    };
    of_all.is_some_and(is_kind)
}

/// The property of a file system or a snapshot of one; `None` for what has no owners, and for an
/// owner that is not known. `id_of` is the number of an owner by kind and name. As in OpenZFS, the
/// empty name is number 0.
pub fn owner_property(
    dsl: &Dsl,
    dataset: &Dataset,
    name: &str,
    id_of: &dyn Fn(SpaceKind, &str) -> Option<u64>,
) -> Option<Property> {
    let (kind, what, owner) = parse_owner(name)?;
    let fs = Filesystem::open(dsl.objset(dataset).ok()?).ok()?;
    let rows = fs.space(kind).ok()?;
    let number = match owner {
        "" => Some(0),
        name => id_of(kind, name).or_else(|| name.parse().ok()),
    };
    let is_owner = |row: &&SpaceRow| match &row.domain {
        None => number == Some(row.id),
        Some(_) => row.id_text() == owner,
    };
    let found = rows.iter().find(is_owner);
    // One of another domain needs no name here.
    if found.is_none() && number.is_none() && !owner.starts_with("S-1-") {
        return None;
    }
    let value = found.and_then(|row| match what {
        OwnerFigure::Used => row.used,
        OwnerFigure::Quota => row.quota,
        OwnerFigure::Objects => row.objects,
        OwnerFigure::ObjectQuota => row.object_quota,
    });
    Some(Property {
        name: name.to_owned(),
        value: value.unwrap_or(0).to_string(),
        source: Source::Local,
        received: None,
        native: None,
    })
}

/// A quota of an owner of files.
#[derive(Clone, Debug)]
pub struct OwnerQuota {
    /// The kind of owner.
    pub kind: SpaceKind,
    /// Bytes or objects.
    pub what: QuotaKind,
    /// The number of the owner.
    pub owner: u64,
    /// Bytes, or a number of objects; 0: there is no limit any more.
    pub value: u64,
}

impl OwnerQuota {
    /// The name of the property, with the number of the owner.
    #[must_use]
    pub fn property(&self) -> String {
        let figure = match self.what {
            QuotaKind::Space => OwnerFigure::Quota,
            QuotaKind::Objects => OwnerFigure::ObjectQuota,
        };
        let word = |found: Option<&'static str>| found.unwrap_or_default();
        let kind = word(KINDS.iter().find(|(_, k)| *k == self.kind).map(|(word, _)| *word));
        let figure = word(FIGURES.iter().find(|(_, f)| *f == figure).map(|(word, _)| *word));
        format!("{kind}{figure}@{}", self.owner)
    }

    /// Sets it for a file system. Durable when this returns.
    ///
    /// # Errors
    /// It is not a file system.
    pub fn set(&self, pool: &LivePool, dataset: &str) -> Result<()> {
        Self::set_all(pool, dataset, std::slice::from_ref(self))
    }

    /// Sets several for a file system, in their order. Durable when this returns.
    ///
    /// # Errors
    /// It is not a file system, or cannot have one of them: those before it are set.
    pub fn set_all(pool: &LivePool, dataset: &str, all: &[Self]) -> Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        all.iter().try_for_each(|quota| quota.set_unsynced(pool, dataset))?;
        Ok(pool.sync()?)
    }

    /// Sets it; durable with its txg.
    pub(crate) fn set_unsynced(&self, pool: &LivePool, dataset: &str) -> Result<()> {
        let Self { kind, what, owner, value } = *self;
        let fs = pool.filesystem_to_set(dataset, &self.property())?;
        Ok(fs.set_quota(kind, what, owner, value)?)
    }

    /// Refuses what a new dataset cannot have, and a user who may not give it that.
    pub(crate) fn check_new(
        pool: &LivePool,
        (dataset, kind): (&str, DatasetKind),
        all: &[Self],
    ) -> Result<()> {
        for quota in all {
            if kind == DatasetKind::Volume {
                let why = Refusal::NotHere(quota.property());
                return Err(dsl::Error::refused(dataset, why).into());
            }
            pool.permit_new_property(dataset, &quota.property())?;
        }
        Ok(())
    }

    /// Sets several for a file system that was made for them. One that cannot have them is
    /// destroyed again, as far as the user may do that.
    pub(crate) fn set_new(pool: &LivePool, dataset: &str, all: &[Self]) -> Result<()> {
        Self::set_all(pool, dataset, all).inspect_err(|_| {
            // It is what failed first that is of interest.
            let _ = pool.destroy_dataset(dataset);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_three_parts() {
        assert_eq!(
            parse_owner("userused@root"),
            Some((SpaceKind::User, OwnerFigure::Used, "root"))
        );
        assert_eq!(
            parse_owner("projectobjquota@7"),
            Some((SpaceKind::Project, OwnerFigure::ObjectQuota, "7"))
        );
        for other in ["userused", "written@x", "defaultuserquota", "userobj@0"] {
            assert_eq!(parse_owner(other), None, "{other}");
        }
    }
}
