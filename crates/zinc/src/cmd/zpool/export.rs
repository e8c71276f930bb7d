//! `zinc zpool export` and `zinc zpool destroy`: the two ways to end with a pool.

use super::each;
use crate::cmd::verb::Verb;
use crate::failure::{FAILED, Failure};
use crate::found;
use crate::known;
use crate::live::{self, LiveArgs, LiveOptions};
use crate::places::candidates;
use crate::queue::Others;
use crate::served::Server;
use crate::session::Session;
use crate::ui;
use engine::live::ImportOptions;
use engine::pools::ListedAs;
use engine::pools::{CandidateState, Choice, Closed, Destroyed, EndObserver, EndPool, Ended};
use engine::{Candidate, LivePool, Rt};
use imported::{Found, Known, Opening, SearchScope};
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `zinc zpool export`.
#[derive(clap::Args)]
pub struct Export {
    #[command(flatten)]
    live: LiveArgs,
    /// Export all pools found
    #[arg(short = 'a')]
    all: bool,
    /// Also when another system used it last, or commands use it (they are cancelled)
    #[arg(short = 'f')]
    force: bool,
    /// Pools
    #[arg(required_unless_present = "all")]
    pub(super) pools: Vec<String>,
}

/// Arguments of `zinc zpool destroy`.
#[derive(clap::Args)]
pub struct Destroy {
    #[command(flatten)]
    live: LiveArgs,
    /// Also when another system used it last
    #[arg(short = 'f')]
    force: bool,
    /// The pool
    pub(super) pool: String,
}

/// What this command does while a pool ends that it opened itself.
struct Watch<'a> {
    session: &'a Session,
    options: &'a LiveOptions,
    was_open: bool,
    /// Whether its txgs could be shown, if that was requested.
    shown: Result<(), Failure>,
}

impl EndObserver<Found> for Watch<'_> {
    fn opened(&mut self, found: &Found, pool: &LivePool) {
        self.was_open = true;
        live::warn_of(self.session, found, pool);
    }

    fn logged(&mut self, pool: &LivePool) {
        self.shown = live::print_txgs(self.session, pool, self.options);
    }

    fn forget(&mut self, found: &Found, guid: u64) {
        found.listed.forget(&known::pools(self.session), guid);
    }
}

/// Opens the pool that `find` finds, and ends it. From then on it is not known.
fn end(
    session: &Session,
    args: &LiveArgs,
    (end, force): (EndPool, bool),
    find: impl FnMut() -> Result<Found, Failure>,
) -> Result<Closed<Found, Failure>, Failure> {
    let options = &args.options;
    let tunables = options.tuning.all(session)?;
    let adjust = |open: &mut ImportOptions| open.force = force;
    let how = live::opened_as(session, options, &tunables, adjust)?;
    let (list, others) = (known::pools(session), Others::new(session, options.wait)?);
    let mut search = Opening::new(&list, find, how);
    let mut watch = Watch { session, options, was_open: false, shown: Ok(()) };
    let end = end.by(live::invocation(session)).by_force(force);
    let (rt, disks) = (Rt::real(), session.devices());
    let closed = end.run_when_free(&rt, &mut search, &*disks, &others, &mut watch);
    let closed = closed.map_err(|failure| match watch.was_open {
        true if !force && !failure.is_of_pool() => {
            failure.hint("-f exports it anyway, in the state that is on its devices")
        }
        _ => failure,
    })?;
    watch.shown.map(|()| closed)
}

/// Says what was lost of a pool that this command opened, when its devices failed meanwhile.
fn warn_of_end(session: &Session, name: &str, closed: &Closed<Found, Failure>) {
    let (what, why) = match closed {
        Closed::Ended(Ended::Suspended(why)) => {
            ("changes that were not yet on its devices are lost", why.to_string())
        }
        Closed::Ended(Ended::Lost(why)) => {
            ("data that only lost devices had is lost", why.to_string())
        }
        _ => return,
    };
    let what =
        format!("'{name}' is not known any more, but its labels could not be written: {what}");
    warn_of_loss(session, &what, &why);
}

/// Says that a pool was closed as it is.
fn warn_of_loss(session: &Session, what: &str, why: &str) {
    ui::failure(session, &Failure::new(format!("warning: {what}")).because(why));
}

/// How a server let its pool go.
enum ServedEnd {
    Complete,
    /// Its devices did not take it any more: the pool is as after a crash.
    Abandoned,
}

/// Has the server of a pool export or destroy it, which ends the server.
fn end_served(
    session: &Session,
    mut server: Server,
    force: bool,
    destroy: bool,
) -> Result<ServedEnd, Failure> {
    let invocation = live::invocation(session);
    let params = json!({ "command": invocation.command, "force": force, "destroy": destroy });
    let answer = server.call("export", params)?;
    if answer["listed"] == true {
        // The server could not have it forgotten. Neither can this process, but it can say so.
        known::pools(session).forget(server.guid);
    }
    if let Some(why) = answer["lost"].as_str() {
        let what = format!(
            "'{}' was closed, and its server has ended: data that only lost devices had is lost",
            server.name,
        );
        warn_of_loss(session, &what, why);
    }
    if let Some(why) = answer["suspended"].as_str() {
        let what = format!(
            "'{}' was stopped and closed as it is: changes that were not yet on its devices are \
             lost, and its labels, which could not be written, say that it is in use: import it \
             with -f",
            server.name,
        );
        warn_of_loss(session, &what, why);
        return Ok(ServedEnd::Abandoned);
    }
    Ok(ServedEnd::Complete)
}

/// Ends the process that only reads a pool, when there is one: what it has mounted goes.
fn end_reader(session: &Session, args: &LiveArgs, name: &str, force: bool) -> Result<(), Failure> {
    match Server::reader(session, &args.search, name)? {
        Some(mut reader) => reader.call("export", json!({ "force": force })).map(drop),
        None => Ok(()),
    }
}

impl Verb for Export {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.pools.iter().try_for_each(|name| each::require_pool_name(name))?;
        let search = &self.live.search;
        let mut code = ExitCode::SUCCESS;
        let mut report = |done: Result<(), Failure>| {
            if let Err(failure) = done {
                code = failure.report(session);
            }
        };
        if self.all {
            let servers = Server::own_in(session, search)?;
            let served: Vec<u64> = servers.iter().map(|server| server.guid).collect();
            servers.into_iter().for_each(|server| {
                report(end_served(session, server, self.force, false).map(drop));
            });
            self.all_but(session, &served)?
                .iter()
                .for_each(|name| report(self.export(session, name)));
            return Ok(code);
        }
        self.pools.iter().for_each(|name| report(self.export_held(session, name)));
        Ok(code)
    }
}

impl Export {
    /// Exports a pool where it is held, which may change meanwhile.
    fn export_held(&self, session: &Session, name: &str) -> Result<(), Failure> {
        let find = || Server::find(session, &self.live.search, name);
        match find()? {
            Some(server) => match end_served(session, server, self.force, false).map(drop) {
                // It ended before the request, and the pool is still imported.
                Err(failure) if find()?.is_none() && known::pools(session).find(name).is_some() => {
                    self.export(session, name).map_err(|_| failure)
                }
                done => done,
            },
            None => match self.export(session, name) {
                Err(failure) => match find()? {
                    // It took the pool while this process waited.
                    Some(server) => end_served(session, server, self.force, false).map(drop),
                    None => Err(failure),
                },
                done => done,
            },
        }
    }

    /// Everything that is imported, but pools of these guids: what is known, or what is active in
    /// the places named.
    fn all_but(&self, session: &Session, served: &[u64]) -> Result<Vec<String>, Failure> {
        let mut guids: Vec<u64> = match self.live.search.is_empty() {
            true => known::pools(session).all().iter().map(Known::guid).collect(),
            false => {
                let active = |c: &Candidate| c.state() == CandidateState::Active;
                let found = candidates(session, &self.live.search)?.into_iter().filter(active);
                found.map(|c| c.config.pool_guid).collect()
            }
        };
        guids.retain(|guid| !served.contains(guid));
        Ok(guids.iter().map(u64::to_string).collect())
    }

    fn export(&self, session: &Session, name: &str) -> Result<(), Failure> {
        end_reader(session, &self.live, name, self.force)?;
        let known = listed(session, &self.live, name);
        let active = |c: &Candidate| c.state() == CandidateState::Active;
        let find = || {
            if self.live.search.is_empty() {
                return found::find(session, &[], name, SearchScope::Known);
            }
            let choice = Choice::of(name).destroyed(Destroyed::IfNoOther).preferring(active);
            let search = &self.live.search;
            let candidate = choice.among(candidates(session, search)?, search)?;
            if !active(&candidate) {
                let why = "no such pool imported: its labels say exported or destroyed";
                let what = format!("cannot export '{}': {why}", candidate.name());
                return Err(Failure::new(what));
            }
            Ok(Found::at_place(&known::pools(session), candidate))
        };
        let plan = EndPool::export().listed(listed_as(known.as_ref()));
        match (end(session, &self.live, (plan, self.force), find)?, known) {
            (Closed::Untouched, Some(known)) => Ok(known::pools(session).try_forget(known.guid())?),
            (Closed::GivenUp(_, failure), Some(known)) => give_up(session, &known, &failure),
            (closed, _) => {
                warn_of_end(session, name, &closed);
                Ok(())
            }
        }
    }
}

/// A pool as the list of imported ones has it, where it is not looked for elsewhere.
fn listed(session: &Session, args: &LiveArgs, name: &str) -> Option<Known> {
    args.search.is_empty().then(|| known::pools(session).find(name)).flatten()
}

fn listed_as(known: Option<&Known>) -> ListedAs {
    known.map_or(ListedAs::NotListed, Known::listed_as)
}

/// Nothing has it open, so it is enough that it is not known any more.
fn give_up(session: &Session, known: &Known, failure: &Failure) -> Result<(), Failure> {
    known::pools(session).try_forget(known.guid())?;
    let (why, _, _) = failure.parts();
    let what = format!(
        "'{}' is not known any more, but its labels could not be written: they say that it is in \
         use, so that other hosts import it with -f",
        known.name(),
    );
    warn_of_loss(session, &what, why);
    Ok(())
}

impl Verb for Destroy {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        if let Some(server) = Server::find(session, &self.live.search, &self.pool)? {
            // Without its devices it could only be closed: what the warning says.
            return Ok(match end_served(session, server, self.force, true)? {
                ServedEnd::Complete => ExitCode::SUCCESS,
                ServedEnd::Abandoned => ExitCode::from(FAILED),
            });
        }
        if self.force {
            end_reader(session, &self.live, &self.pool, true)?;
        }
        let known = listed(session, &self.live, &self.pool);
        let plan = EndPool::destroy().listed(listed_as(known.as_ref()));
        let find = || found::find(session, &self.live.search, &self.pool, SearchScope::Known);
        match end(session, &self.live, (plan, self.force), find) {
            Err(failure) if failure.is_of_pool() => {
                return Err(failure.hint("-f destroys it on the devices that are present"));
            }
            Ok(Closed::Untouched) => {
                if let Some(known) = known {
                    forget_read_only(session, &known)?;
                }
            }
            Ok(Closed::GivenUp(found, failure)) => {
                let (why, _, _) = failure.parts();
                let what = format!(
                    "'{}' is not known any more, but its labels could not be written: they do not \
                     say that it is destroyed",
                    self.pool,
                );
                warn_of_loss(session, &what, why);
                found.forget(&known::pools(session));
            }
            closed => warn_of_end(session, &self.pool, &closed?),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A pool that was imported read-only is not written to: it is only not known any more.
fn forget_read_only(session: &Session, known: &Known) -> Result<(), Failure> {
    known::pools(session).try_forget(known.guid())?;
    let what = "was imported with -o readonly=on: it is not known any more, and its labels do not \
                say that it is destroyed";
    ui::note(session, &format!("warning: '{}' {what}", known.name()));
    Ok(())
}
