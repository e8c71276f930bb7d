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

/// Divides the properties that a new file system is to have into limits and others.
///
/// # Errors
/// As [`limit`].
pub fn divided(
    session: &Session,
    given: &[String],
) -> Result<(Vec<OwnerQuota>, Vec<String>), Failure> {
    let (mut limits, mut others) = (Vec::new(), Vec::new());
    for text in given {
        let divided = text.split_once('=');
        let found = divided.map(|(property, value)| limit(session, property, value));
        match found.transpose()?.flatten() {
            Some(limit) => limits.push(limit),
            None => others.push(text.clone()),
        }
    }
    Ok((limits, others))
}
