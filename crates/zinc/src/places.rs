//! Where pools are looked for, and what is found there.

use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use engine::pools::{FoundLeaf, scan};
use engine::{Candidate, SearchOptions};
use std::path::PathBuf;

/// The pools that are or were in these places; without any, in those of `ZPOOL_IMPORT_PATH` or the
/// usual ones.
pub fn candidates(session: &Session, search: &[PathBuf]) -> Result<Vec<Candidate>, Failure> {
    Ok(searched(session, search, imported::written)?)
}

/// Devices in these places that have labels of pools.
pub fn labelled(session: &Session, search: &[PathBuf]) -> Result<Vec<FoundLeaf>, Failure> {
    Ok(searched(session, search, scan)?)
}

/// Does what `look` does in these places, and says which of them were slow to answer.
pub fn searched<T, E>(
    session: &Session,
    search: &[PathBuf],
    look: impl FnOnce(&SearchOptions) -> Result<T, E>,
) -> Result<T, E> {
    let paths = search.iter().map(|p| session.path(p)).collect();
    let options = SearchOptions { paths, source: session.devices(), leaves_out: false };
    let found = look(&options)?;
    warn_of_slow(session, &options);
    Ok(found)
}

/// Says which devices were slow to answer.
pub fn warn_of_slow(session: &Session, search: &SearchOptions) {
    for (path, took) in search.source.take_slow() {
        let (path, seconds) = (path.display(), took.as_secs());
        ui::note(session, &format!("warning: {path} took {seconds} seconds to answer"));
    }
}

/// The search for devices of known pools that are not where they were.
pub fn elsewhere(session: &Session) -> SearchOptions {
    let paths = import_places(session, &[]);
    SearchOptions { paths, source: session.devices(), leaves_out: true }
}

/// The places to search for pools to import, from the folder of whom it is done for.
pub fn import_places(session: &Session, search: &[PathBuf]) -> Vec<PathBuf> {
    let variable = session.variable("ZPOOL_IMPORT_PATH").filter(|v| !v.is_empty());
    let places = match variable {
        Some(paths) if search.is_empty() => std::env::split_paths(&paths).collect(),
        _ => search.to_vec(),
    };
    places.iter().map(|place| session.path(place)).collect()
}
