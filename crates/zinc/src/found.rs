//! Finding pools: as [`imported`] does ([`imported::KnownPools::by_name`]), with the servers that
//! have pools which are not known, and the words for what is not found.

use crate::failure::Failure;
use crate::places::{candidates, elsewhere, searched, warn_of_slow};
use crate::served::Server;
use crate::session::Session;
use crate::{foreign_servers, known};
use engine::datasets::pool_of;
use engine::{Candidate, Error, ErrorKind};
use imported::{Found, Known, LookError, SearchScope};
use std::path::PathBuf;

/// The pool that `name` (a pool, its guid, or anything in a pool) belongs to.
pub fn find(
    session: &Session,
    search: &[PathBuf],
    name: &str,
    reach: SearchScope,
) -> Result<Found, Failure> {
    let look = |reach| {
        searched(session, search, |search| known::pools(session).by_name(name, search, reach))
    };
    // Servers are tried before what is not imported.
    let first = if search.is_empty() { SearchScope::Known } else { reach };
    let found = match look(first) {
        Err(LookError::NotKnown { .. }) => {
            // It is served without having been imported.
            if let Some(mut server) = Server::find(session, &[], name)? {
                return find(session, &server.devices()?, name, reach);
            }
            match reach {
                SearchScope::Known => return Err(not_known(session, name)),
                SearchScope::Anywhere => look(reach),
            }
        }
        found => found,
    };
    found.map_err(|e| match e {
        LookError::Search(e) => foreign_servers::explain(session, e.into(), name),
        e => e.into(),
    })
}

/// All known pools, or all in the places that are named, but destroyed ones and those of these
/// guids. Known pools that cannot be found are failures among them.
pub fn all(
    session: &Session,
    search: &[PathBuf],
    but: &[u64],
) -> Result<Vec<Result<Found, Failure>>, Failure> {
    if search.is_empty() {
        let all = known::pools(session).all().into_iter();
        let known = all.filter(|known| !but.contains(&known.guid()));
        return Ok(known.map(|known| look_for(session, known)).collect());
    }
    let lives = |c: &Candidate| !c.is_destroyed() && !but.contains(&c.config.pool_guid);
    Ok(candidates(session, search)?
        .into_iter()
        .filter(lives)
        .map(|c| Ok(Found::at_place(&known::pools(session), c)))
        .collect())
}

/// A known pool's devices, wherever they are now.
pub fn look_for(session: &Session, known: Known) -> Result<Found, Failure> {
    let search = elsewhere(session);
    let found = imported::look_for(known, &search);
    warn_of_slow(session, &search);
    Ok(found?)
}

/// Why a pool that was found could not be opened. With too few devices it can be shown all the
/// same.
pub fn cannot_open(found: &Found, error: Error) -> Failure {
    let is_shown = *error.kind() == ErrorKind::MissingDevices;
    let failure = Failure::from(error);
    if is_shown { failure.of_closed(found.closed()) } else { failure }
}

/// Why a pool of that name is out of this user's reach, when it is root's.
pub fn is_of_root(session: &Session, name: &str) -> Option<Failure> {
    let known = known::of_root(session, name)?;
    let failure = Failure::opening(known.name(), "permission denied")
        .because("root has imported it, and may serve it");
    Some(failure.hint("run the command as root"))
}

fn not_known(session: &Session, name: &str) -> Failure {
    let wanted = pool_of(name);
    if let Some(failure) = is_of_root(session, name) {
        return failure;
    }
    let (what, why, stage) = views::refusals::no_pool(session.arguments(), name);
    let failure = why.into_iter().fold(Failure::new(what).at(stage), Failure::because).hint(
        "`zinc zpool import` lists what can be imported; \
         -d PATH finds a pool there for this command only",
    );
    foreign_servers::explain(session, failure, wanted)
}

/// The warning for a pool whose newer state is on devices that are missing.
pub fn warning(found: &Found) -> Option<String> {
    let (seen, there) = found.newer_elsewhere()?;
    Some(format!(
        "it was at txg {seen} on this machine, but the devices found end at txg {there}: the newer \
         state is on devices that are missing"
    ))
}
