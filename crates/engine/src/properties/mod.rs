//! Properties of datasets: from texts as users write them to changes of the pool.

pub mod compatibility;
pub mod pool;
mod set;
pub mod vdev;

pub(crate) use set::check_keylocation;
pub use set::{DatasetSetting, Inherit, check_once, set, set_with_quotas};

pub use crate::owners::{OwnerFigure, OwnerQuota, is_default_quota, owner_property, parse_owner};
pub use crate::values::{number, parse, parse_all};

use ::pool::Pool;
use dsl::{Dataset, PropertyContext};

/// Whether files of a dataset have access lists of POSIX, by its property `acltype`.
#[must_use]
pub fn has_posix_acls(pool: &Pool, dataset: &Dataset) -> bool {
    let found = pool.datasets().property(dataset, &PropertyContext::default(), "acltype");
    matches!(found, Ok(Some(p)) if p.value == "posix")
}
