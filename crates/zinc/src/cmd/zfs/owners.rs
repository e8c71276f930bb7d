//! Quotas of users, groups and projects: `userquota@NAME=SIZE` and their like.

use crate::failure::Failure;
use crate::refusals::cannot;
use crate::session::Session;
use engine::files::{QuotaKind, SpaceKind};
use engine::properties::{OwnerFigure, parse_owner};
use engine::{DatasetKind, LivePool, StoredValue, parse_value};

/// A limit that is to be set for an owner.
#[derive(Clone, Debug)]
pub struct Limit {
    kind: SpaceKind,
    what: QuotaKind,
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
        let Some((kind, what, owner)) = parse_owner(property) else { return Ok(None) };
        let what = match what {
            OwnerFigure::Quota => QuotaKind::Space,
            OwnerFigure::ObjectQuota => QuotaKind::Objects,
            OwnerFigure::Used | OwnerFigure::Objects => {
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
