//! Changes that users ask for, and their lines in the history of the pool.

use crate::error::Result;
use pool::live::{Invocation, LivePool};

/// Makes a change that a user asked for, and then writes its line into the history of the pool:
/// when the line is durable, so is the change. One that fails leaves no line. What it changed
/// before is made durable all the same, or a process that only looks at the pool would not see it.
///
/// Returns what `change` returned, and whether it is durable: in a pool that is suspended it is
/// made in memory, and becomes durable when the pool resumes.
///
/// ```
/// use engine::live::Invocation;
/// use engine::pools::record_change;
/// use engine::{Create, Error};
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let line = Invocation { command: "zfs create tank/home".into(), ..Invocation::default() };
/// let create = || Create::filesystem("tank/home")?.run(&pool);
/// let ((), durable) = record_change(&pool, &line, create)?;
/// durable?;
/// let last = pool.look()?.history()?.pop().unwrap().map_err(Error::external)?;
/// assert_eq!(last.command().unwrap(), line.command);
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// Those of `change`.
pub fn record_change<T, E>(
    pool: &LivePool,
    line: &Invocation,
    change: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<(T, Result<()>), E> {
    match change() {
        Ok(made) => Ok((made, pool.log(line).map_err(Into::into))),
        Err(e) => {
            // It is what failed first that is of interest.
            let _ = pool.sync_changes();
            Err(e)
        }
    }
}
