//! The content of a dataset with its intent log replayed, as an import that may write shows it.

use dmu::Objset;
use dsl::{Dataset, Result};
use ondisk::{Compression, ObjsetKind};
use pool::Pool;
use zil::{Log, LogEnd};
use zpl::replay::{self, ReplayReport, Settings};

/// Opens the object set of `dataset` and replays its log into memory; a snapshot has none.
///
/// # Errors
/// When the object set or a property the replay needs cannot be read. A record that cannot be
/// applied is not an error: the report has it.
pub fn objset(pool: &Pool, dataset: &Dataset) -> Result<(Objset, Option<ReplayReport>)> {
    let objset = pool.datasets().objset(dataset)?;
    if dataset.is_snapshot() {
        return Ok((objset, None));
    }
    let settings = settings(pool, dataset)?;
    let replayed = match objset.phys().kind {
        ObjsetKind::Zfs => replay::filesystem(&objset, &settings),
        ObjsetKind::Zvol => replay::volume(&objset, &settings),
        _ => return Ok((objset, None)),
    };
    match replayed {
        Ok((replayed, report)) => Ok((replayed, Some(report))),
        Err(zpl::Error::Dmu(e)) => Err(e.into()),
        // A file system that is unsound without its log is unsound with it: the caller gets the
        // error when opening it.
        Err(_) => Ok((objset, None)),
    }
}

/// Whether an import that may write would repeat anything of the set's intent log: what was
/// promised to programs and is not in the tree. Also true of a log that no loaded key can read.
#[must_use]
pub fn is_pending(pool: &Pool, objset: &Objset) -> bool {
    if objset.phys().zil.log.is_hole() {
        return false;
    }
    let synced = pool.uberblock().txg;
    let log = Log::read_after(objset, synced);
    matches!(log.end, LogEnd::Locked) || log.pending(synced).next().is_some()
}

/// The properties of the dataset that apply to new blocks.
fn settings(pool: &Pool, dataset: &Dataset) -> Result<Settings> {
    let stored = pool.datasets().stored(dataset)?;
    let mut settings = Settings::new(pool.uberblock().txg);
    if let Some(size) = stored.number("recordsize").filter(|n| n.is_power_of_two()) {
        settings.record_size = size;
    }
    let off = u64::from(Compression::OFF.0);
    settings.zeros_are_holes = stored.number("compression") != Some(off);
    Ok(settings)
}
