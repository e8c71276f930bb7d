//! How verbs open the content of a dataset: as it is on disk, or with its intent log replayed.

use crate::args::OpenArgs;
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use engine::Objset;
use engine::errors::DslResult;
use engine::{Dataset, Filesystem, Pool};

/// Opens the object set of `dataset`. A log that could not be replayed to its end is a warning.
pub fn open(
    session: &Session,
    pool: &Pool,
    dataset: &Dataset,
    args: &OpenArgs,
) -> DslResult<Objset> {
    if !args.replay {
        return pool.dsl().objset(dataset);
    }
    let (objset, report) = engine::replay::objset(pool, dataset)?;
    if let Some(problem) = report.and_then(|r| r.problem()) {
        ui::error(session, &format!("zinc: {}: {problem}\n", dataset.name));
    }
    Ok(objset)
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
