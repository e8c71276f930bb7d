//! How verbs open the content of a dataset: as it is on disk, or with its intent log replayed.
//!
//! What a program was promised (fsync, `sync=always`) may stand in the intent log alone, after a
//! crash. An import for writing replays it. So a pool that is imported here, and that no process
//! holds, is shown as it will be then; one that is only looked at is shown as it is, with a
//! warning.

use crate::args::OpenArgs;
use crate::failure::Failure;
use crate::session::Session;
use crate::{known, ui};
use engine::Objset;
use engine::errors::DslResult;
use engine::{Dataset, Filesystem, Pool};

/// Opens the object set of `dataset`. A log that could not be replayed to its end, and one that is
/// not replayed, is a warning.
pub fn open(
    session: &Session,
    pool: &Pool,
    dataset: &Dataset,
    args: &OpenArgs,
) -> DslResult<Objset> {
    if !args.replay && !is_behind(session, pool, dataset, args)? {
        return pool.dsl().objset(dataset);
    }
    let warn = |text: &str| ui::error(session, &format!("zinc: {}: {text}\n", dataset.name));
    if !replays(session, pool, args) {
        warn("what was written last is in its intent log and not seen here: --replay shows it");
        return pool.dsl().objset(dataset);
    }
    let (objset, report) = engine::replay::objset(pool, dataset)?;
    if let Some(problem) = report.and_then(|r| r.problem()) {
        warn(&problem);
    }
    Ok(objset)
}

/// Whether datasets are opened with what their intent logs say.
pub fn replays(session: &Session, pool: &Pool, args: &OpenArgs) -> bool {
    let is_imported =
        || known::pools(session).by_guid(pool.guid()).is_some_and(|k| !k.is_readonly());
    args.replay || (args.is_of_now() && is_imported())
}

/// Whether something that the newest state would have is in the intent log alone. What a process
/// holds has no such log: its sets are ahead of their logs.
fn is_behind(
    session: &Session,
    pool: &Pool,
    dataset: &Dataset,
    args: &OpenArgs,
) -> DslResult<bool> {
    let is_held = session.held(&pool.guid().to_string()).is_some();
    if dataset.is_snapshot() || is_held || !args.is_of_now() {
        return Ok(false);
    }
    Ok(engine::replay::is_pending(pool, &pool.dsl().objset(dataset)?))
}

/// Opens the file system of a dataset; with `--replay` as it is after its intent log.
pub fn filesystem(
    session: &Session,
    pool: &Pool,
    dataset: &Dataset,
    args: &OpenArgs,
) -> Result<Filesystem, Failure> {
    Ok(Filesystem::open(open(session, pool, dataset, args)?)?)
}
