//! The list of imported pools, as operations of the engine ask it: pools that are known here, and
//! pools that are served.

use super::settings::CacheEntryOptions;
use crate::known;
use crate::served::Server;
use crate::session::Session;
use engine::pools::ImportConflict;
use imported::Importing;

/// The list, for a pool that is remembered in this way.
pub fn list(session: &Session, remembered: CacheEntryOptions) -> Importing<'_> {
    let others = |guid, name: &str| served(session, guid, name);
    Importing::new(known::pools(session), remembered, others)
}

/// What keeps a pool from being imported, apart from the list: it, or another of the name, is
/// served.
fn served(session: &Session, guid: u64, name: &str) -> Option<ImportConflict> {
    if Server::holds(session, guid) {
        return Some(ImportConflict::Imported);
    }
    let mut own = Server::own(session).into_iter();
    let is_taken = own.any(|server| server.name == name && server.guid != guid);
    is_taken.then_some(ImportConflict::NameTaken)
}
