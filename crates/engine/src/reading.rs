//! Datasets that are read of a pool which a process has open for writing, for users too.

use crate::error::{Error, Result};
use dsl::Action;
use pool::live::{InUse, LivePool};

/// Refuses a user who may not do that to all of these, and keeps those of `kept` from being
/// destroyed as long as the result lives.
///
/// # Errors
/// The one that is refused, or is not there, is the error's operand.
pub(crate) fn lease<'n>(
    pool: &LivePool,
    action: Action,
    names: &[&'n str],
    kept: impl IntoIterator<Item = &'n str>,
) -> Result<Vec<InUse>> {
    for name in names {
        pool.permit(action, name).map_err(|e| Error::from(e).of(name))?;
    }
    let hold = |name: &str| pool.hold_open(name).map_err(|e| Error::from(e).of(name));
    kept.into_iter().map(hold).collect()
}
