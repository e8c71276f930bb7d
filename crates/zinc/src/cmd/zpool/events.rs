//! `zinc zpool events`: what happened to pools that are held.
//!
//! Events are kept by the process that holds a pool, in memory. So a pool that is served has those
//! since it is served, and one that each command opens for itself has none.

use super::each::require_pool_name;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::served::{self, Server};
use crate::session::Session;
use crate::{known, local_time, ui};
use engine::LivePool;
use engine::live::Event;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use views::events;

/// How long is waited before it is looked whether the user still waits.
const PATIENCE: Duration = Duration::from_millis(100);

/// Arguments of `zinc zpool events`.
#[derive(clap::Args)]
pub struct Args {
    /// All members of each event
    #[arg(short = 'v')]
    verbose: bool,
    /// For scripts: no heading, and one tab between time and class
    #[arg(short = 'H')]
    script: bool,
    /// Keep printing new events
    #[arg(short = 'f')]
    follow: bool,
    /// Clear all events
    #[arg(short = 'c', conflicts_with_all = ["verbose", "script", "follow"])]
    clear: bool,
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// The pool; all that are served when none is named
    pool: Option<String>,
}

/// One event, from a server.
#[derive(Serialize, Deserialize)]
struct EventLine {
    seconds: u64,
    nanos: u32,
    text: String,
}

/// All events, from a server.
#[derive(Default, Serialize, Deserialize)]
struct Part {
    lines: Vec<EventLine>,
    cleared: usize,
}

impl Args {
    fn text(&self, session: &Session, event: &Event) -> String {
        let offset = local_time::utc_offset(session, event.time.as_secs());
        let line = events::line(event, offset, self.script);
        if self.verbose { line + &events::members(event) } else { line }
    }

    fn part(&self, session: &Session, pool: &LivePool) -> Part {
        let kept = pool.events();
        if self.clear {
            return Part { lines: Vec::new(), cleared: kept.clear() };
        }
        let line_of = |event: &Event| EventLine {
            seconds: event.time.as_secs(),
            nanos: event.time.subsec_nanos(),
            text: self.text(session, event),
        };
        Part { lines: kept.after(0).0.iter().map(line_of).collect(), cleared: 0 }
    }

    fn show(&self, session: &Session, parts: Vec<Part>) {
        if self.clear {
            let cleared: usize = parts.iter().map(|part| part.cleared).sum();
            return ui::out(session, &format!("cleared {cleared} events\n"));
        }
        if !self.script {
            ui::out(session, &events::heading());
        }
        let mut lines: Vec<EventLine> = parts.into_iter().flat_map(|part| part.lines).collect();
        lines.sort_by_key(|line| (line.seconds, line.nanos));
        lines.iter().for_each(|line| ui::out(session, &line.text));
    }

    /// Until the pool is let go.
    fn follow(&self, session: &Session, pool: &LivePool) -> Result<(), Failure> {
        pool.events().follow(PATIENCE, |new, _| {
            session.sleep(Duration::ZERO)?;
            new.iter().for_each(|event| ui::out(session, &self.text(session, event)));
            // Looks for what nothing reports.
            drop(pool.events());
            Ok(())
        })
    }

    /// In the process that holds the pool.
    fn run_here(&self, session: &Session, pool: &LivePool) -> Result<ExitCode, Failure> {
        if session.is_for_a_part() {
            let line = serde_json::to_string(&self.part(session, pool));
            ui::json_line(session, &line.map_err(|e| Failure::new(e.to_string()))?);
        } else if self.follow {
            if !self.script {
                ui::out(session, &events::heading());
            }
            self.follow(session, pool)?;
        } else {
            self.show(session, vec![self.part(session, pool)]);
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if let Some(client) = session.client() {
            return self.run_here(session, &client.pool);
        }
        if let Some(name) = &self.pool {
            require_pool_name(name)?;
            served::forward(session, &self.search, name)?;
            if self.search.is_empty() && known::pools(session).find(name).is_none() {
                return Err(Failure::opening(name, "no such pool"));
            }
            let what = format!("{name} is not served: only served pools keep events");
            if self.clear {
                return Err(Failure::new(what));
            }
            ui::note(session, &what);
            self.show(session, Vec::new());
            return Ok(ExitCode::SUCCESS);
        }
        let mut servers = Server::all_in(session, &self.search)?;
        if self.follow {
            let [server] = servers.as_slice() else {
                let failure = Failure::usage("-f follows a single served pool: name it");
                return Err(failure.hint("`zinc zpool events -f POOL`"));
            };
            let guid = server.guid.to_string();
            served::forward(session, &self.search, &guid)?;
            return Err(Failure::new(format!("pool {guid} is no longer served")));
        }
        let mut code = ExitCode::SUCCESS;
        let mut parts = Vec::new();
        for server in &mut servers {
            match server.part(session) {
                Ok(part) => parts.push(part),
                Err(failure) => code = failure.report(session),
            }
        }
        self.show(session, parts);
        Ok(code)
    }
}
