//! Quotas of users, groups and projects: `userquota@NAME=SIZE` and their like.

use crate::failure::Failure;
use crate::session::Session;
use engine::properties::OwnerQuota;
use views::datasets::owners::{self, NoLimit};

/// Reads a limit that is to be set; `None` when the property is another.
///
/// # Errors
/// No such user, group or size.
pub fn limit(
    session: &Session,
    property: &str,
    value: &str,
) -> Result<Option<OwnerQuota>, Failure> {
    owners::quota(session, property, value).map_err(|e| match e {
        NoLimit::Readonly => Failure::new(format!("'{property}' is readonly")),
        NoLimit::Owner => Failure::new(format!("invalid property '{property}'")),
        NoLimit::Value => Failure::new(format!("bad value '{value}' for '{property}'"))
            .hint("a number, with a unit, or none"),
    })
}
