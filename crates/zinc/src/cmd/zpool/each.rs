//! Verbs that look at several pools, each where it is held.
//!
//! A pool that is served is looked at by its server, any other by this process, and the results
//! come together here, so that one table has all of them. A server gets the command line as for any
//! verb, with the mark that only its part is requested ([`Session::is_for_a_part`]): it looks at
//! the pool it holds, prints the result as one line of JSON, and shows nothing.

pub use crate::args::require_pool_name;

use crate::args::PoolArgs;
use crate::failure::Failure;
use crate::found;
use crate::known;
use crate::served::{self, Server};
use crate::session::Session;
use crate::ui;
use engine::pools::CandidateState;
use engine::{Candidate, Pool};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;

/// The result for one pool.
#[derive(Serialize, Deserialize)]
struct Part<T> {
    pool: String,
    seen: T,
}

/// Looks at a pool where it is held, which may change meanwhile.
fn see<T: DeserializeOwned>(
    session: &Session,
    args: &PoolArgs,
    name: &str,
    server: Option<&mut Server>,
    part_of: &mut impl FnMut(Result<Pool, Failure>) -> Result<Part<T>, Failure>,
) -> Result<Part<T>, Failure> {
    let find = || match args.open.is_of_now() {
        true => Server::find(session, &args.search, name),
        false => Ok(None),
    };
    match server {
        Some(server) => match server.part(session) {
            // It has let the pool go.
            Err(_) if find()?.is_none() => part_of(args.open_here(session, name)),
            seen => seen,
        },
        None => match part_of(args.open_here(session, name)) {
            Err(failure) => match find()? {
                // It took the pool while this process waited.
                Some(mut server) => server.part(session),
                None => Err(failure),
            },
            seen => seen,
        },
    }
}

/// The exit code of a look at all pools, of which none were found or some.
fn code_of_all(session: &Session, none: bool, code: ExitCode) -> ExitCode {
    // There may be others, which are not healthy.
    if session.process().warned.is_list_unread() {
        return ExitCode::FAILURE;
    }
    if none && code == ExitCode::SUCCESS {
        ui::error(session, "no pools available\n");
    }
    code
}

/// These pools; without any, those that are active and not served, by guid: servers have carried
/// the command out by now, and the second is the worst of their exit codes.
pub(super) fn or_all_active(
    session: &Session,
    search: &[PathBuf],
    names: &[String],
) -> Result<(Vec<String>, u8), Failure> {
    if !names.is_empty() {
        return Ok((names.to_vec(), 0));
    }
    let (served, worst) = served::forward_each(session, search)?;
    let mut active = Vec::new();
    for found in found::all(session, search, &served)? {
        let found = found?;
        if found.candidate.state() == CandidateState::Active {
            active.push(found.guid().to_string());
        }
    }
    Ok((active, worst))
}

/// Does something to each of these pools, one after the other: its server does it to one that is
/// served, this process to any other. What fails is said, and the next one has its turn all the
/// same, as with OpenZFS.
pub(super) fn in_turn(
    session: &Session,
    search: &[PathBuf],
    names: &[String],
    mut here: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    names.iter().try_for_each(|name| require_pool_name(name))?;
    if let [name] = names {
        return here(name).map(|()| ExitCode::SUCCESS);
    }
    let mut code = ExitCode::SUCCESS;
    for name in names {
        let done = served::run_for_one(session, search, name, names).and_then(|ran| match ran {
            Some(code) => Ok(ExitCode::from(code)),
            None => here(name).map(|()| ExitCode::SUCCESS),
        });
        let one = done.unwrap_or_else(|failure| failure.report(session));
        code = if one == ExitCode::SUCCESS { code } else { one };
    }
    Ok(code)
}

/// Looks at each named pool, in the order of the names; without names at all that are served or
/// found, each once, in the order of their own. Then shows the results of all, with whether nothing
/// failed. A failure is reported, affects nothing else, and makes the command fail in the end.
pub(super) fn each<T: Serialize + DeserializeOwned>(
    session: &Session,
    args: &PoolArgs,
    names: &[String],
    look: impl FnMut(&Pool) -> Result<T, Failure>,
    show: impl FnOnce(Vec<T>, bool),
) -> Result<ExitCode, Failure> {
    each_or_closed(session, args, names, look, |_| None, show)
}

/// The same; of a pool that has too few devices to be opened, `closed` may say something instead
/// of the failure.
pub(super) fn each_or_closed<T: Serialize + DeserializeOwned>(
    session: &Session,
    args: &PoolArgs,
    names: &[String],
    mut look: impl FnMut(&Pool) -> Result<T, Failure>,
    mut closed: impl FnMut(&Candidate) -> Option<T>,
    show: impl FnOnce(Vec<T>, bool),
) -> Result<ExitCode, Failure> {
    names.iter().try_for_each(|name| require_pool_name(name))?;
    let args = &PoolArgs { for_writers: true, ..args.clone() };
    let mut part_of = |pool: Result<Pool, Failure>| {
        let pool = pool?;
        Ok(Part { pool: pool.name().to_owned(), seen: look(&pool)? })
    };
    if let Some(client) = session.client().filter(|client| client.is_part) {
        let part = part_of(args.look_at(session, &client.pool))?;
        let line = serde_json::to_string(&part).map_err(|e| Failure::new(e.to_string()))?;
        ui::json_line(session, &line);
        return Ok(ExitCode::SUCCESS);
    }
    let mut servers = Vec::new();
    if args.open.is_of_now() {
        if let ([name], false) = (names, args.in_parts) {
            served::forward(session, &args.search, name)?;
        }
        servers = Server::all_in(session, &args.search)?;
    }
    let mut parts = Vec::new();
    let mut code = ExitCode::SUCCESS;
    let mut add = |part: Result<Part<T>, Failure>| match part {
        Ok(part) => parts.push(part),
        Err(failure) => {
            let seen = failure.closed().and_then(|c| Some((c.name().to_owned(), closed(c)?)));
            match seen {
                Some((pool, seen)) => parts.push(Part { pool, seen }),
                None => code = failure.report(session),
            }
        }
    };
    if names.is_empty() {
        let guids: Vec<u64> = servers.iter().map(|s| s.guid).collect();
        for server in &mut servers {
            let name = server.guid.to_string();
            add(see(session, args, &name, Some(server), &mut part_of));
        }
        let opened = args.open_found(session, &guids)?;
        opened.pools.into_iter().for_each(|pool| add(part_of(pool)));
        opened.served.into_iter().for_each(|mut server| add(server.part(session)));
        let is_shown =
            |guid: &u64| known::pools(session).by_guid(*guid).is_some() || !args.search.is_empty();
        for guid in served::all_not_answering(session).into_iter().filter(|guid| !is_shown(guid)) {
            let failure = Failure::new(format!("cannot see pool {guid}, which is served"));
            add(Err(failure.because(served::not_answering(session, guid).unwrap_or_default())));
        }
    }
    for name in names {
        let called = Server::single(&mut servers, name);
        add(called.and_then(|server| see(session, args, name, server, &mut part_of)));
    }
    if names.is_empty() {
        code = code_of_all(session, parts.is_empty(), code);
        parts.sort_by(|a, b| a.pool.cmp(&b.pool));
    }
    show(parts.into_iter().map(|part| part.seen).collect(), code == ExitCode::SUCCESS);
    Ok(code)
}
