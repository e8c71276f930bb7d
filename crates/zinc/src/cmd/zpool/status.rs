//! `zinc zpool status`: the health of pools, and what zinc met while it looked.
//!
//! The report is that of `zpool status`. Two sections follow if they are not empty: `salvage:`
//! lists structures that could not be read and were not needed, `faults:` the blocks that were read
//! in spite of damage.

use super::each::each_or_closed;
use super::list::{repeated, repetition};
use super::naming::Naming;
use super::scripts::ScriptColumns;
use crate::args::{JsonArgs, OpenArgs, PoolArgs};
use crate::cmd::unsupported;
use crate::cmd::verb::{Served, Verb};
use crate::cmd::zfs::name_seen;
use crate::failure::Failure;
use crate::session::Session;
use crate::{json, local_time, ui};
use engine::config::VdevConfig;
use engine::devices::why_missing;
use engine::pools::{PoolFacts, Status, VdevView, read_only_devices};
use engine::{Candidate, Pool, Rt};
use hostfs::compatibility;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use term::escape::line;
use views::status::{self, StatusContext, View, WorkColumns};

/// Arguments of `zinc zpool status`.
#[derive(clap::Args)]
pub struct Args {
    /// Names of damaged files, and every fault
    #[arg(short = 'v')]
    verbose: bool,
    /// Only pools that are not healthy
    #[arg(short = 'x')]
    sick: bool,
    /// Exact numbers in JSON; the report is the same
    #[arg(short = 'p')]
    parsable: bool,
    /// Only vdevs that are not healthy
    #[arg(short = 'e')]
    errors: bool,
    /// Also count the slow requests of each device since the pool was opened
    #[arg(short = 's')]
    slow: bool,
    /// Also the deduplication tables
    #[arg(short = 'D')]
    dedup: bool,
    /// Also how far devices are initialized
    #[arg(short = 'i')]
    initialize: bool,
    /// Also how far devices are trimmed
    #[arg(short = 't')]
    trim: bool,
    #[command(flatten)]
    columns: ScriptColumns,
    #[command(flatten)]
    naming: Naming,
    #[command(flatten)]
    output: JsonArgs,
    /// Flat JSON: all vdevs of a pool in one list, each with the name of its parent
    #[arg(long = "json-flat-vdevs")]
    flat: bool,
    #[command(flatten)]
    keys: json::ByGuid,
    #[command(flatten)]
    place: Place,
    /// Where pools are found and how they are opened, once that is known.
    #[arg(skip)]
    pool: PoolArgs,
    /// Print a timestamp before each report: d as `date` prints it, u as seconds since 1970
    #[arg(short = 'T', value_name = "d|u", value_parser = ["d", "u"])]
    stamp: Option<String>,
    /// Pools [default: all found]; then INTERVAL in seconds to repeat the report, and COUNT of
    /// repetitions
    #[arg(value_name = "POOL|INTERVAL [COUNT]")]
    pools: Vec<String>,
}

/// Where pools are found, and how they are opened. `-d` is both, as OpenZFS's and zinc's are asked
/// for.
#[derive(clap::Args)]
struct Place {
    /// Search this directory, file or disk for devices (repeatable); without one that exists it
    /// does nothing: OpenZFS counts errors of Direct I/O then, which zinc does not have
    #[arg(short = 'd', value_name = "PATH", num_args = 0..=1, default_missing_value = "")]
    flag_or_path: Vec<String>,
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    open: OpenArgs,
}

impl Place {
    /// How pools are found, and the pools that were named behind a `-d` that is OpenZFS's.
    fn split(&self, session: &Session) -> (PoolArgs, Vec<String>) {
        let values = self.flag_or_path.iter().filter(|value| !value.is_empty());
        let is_there = |value: &&String| session.path(Path::new(value)).exists();
        let (paths, pools): (Vec<_>, Vec<_>) = values.partition(is_there);
        let paths = paths.into_iter().map(PathBuf::from);
        let search = self.search.iter().cloned().chain(paths).collect();
        let pool = PoolArgs { search, open: self.open.clone(), ..PoolArgs::default() };
        (pool, pools.into_iter().cloned().collect())
    }
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        let (pool, named) = self.place.split(session);
        let names = [&named[..], &self.pools[..]].concat();
        Served::everyone_if(pool.is_for_everyone(session, &names))
    }

    /// Runs it, as often as requested.
    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.columns.are_listed(session) {
            return Ok(ExitCode::SUCCESS);
        }
        let (pool, named) = self.place.split(session);
        self.pool = pool;
        self.pools = [named, std::mem::take(&mut self.pools)].concat();
        self.pool.in_parts = self.columns.scripts.is_some();
        let repeat = repetition(&mut self.pools)?;
        repeated(session, &self.pools, repeat, self.stamp.as_deref(), |_| self.once(session))
    }
}

/// What stores and servers say whose devices are missing.
fn unavailable(candidate: &Candidate) -> String {
    let lacks = |v: &&VdevConfig| v.kind.is_leaf() && !candidate.leaves.contains_key(&v.guid);
    let missing = candidate.tree.walk().filter(lacks).filter_map(|v| v.path.as_deref());
    let why = missing.filter_map(|path| why_missing(Path::new(path)));
    why.map(|e| format!("\nunavailable: {}\n", line(&e.to_string()))).collect()
}

impl Args {
    fn once(&self, session: &Session) -> Result<ExitCode, Failure> {
        let scripts = self.columns.find(session)?;
        let look = |pool: &Pool| {
            let mut status = pool.status(&pool.space());
            status.condition = status.condition.or_else(|| compatibility::condition_of(pool));
            name_seen(session, pool.guid(), &mut status.damaged);
            let paths = status.vdevs.walk().map(|v| (v.guid, v.name.clone())).collect();
            self.naming.names().apply(&mut status.vdevs);
            if self.errors {
                status.vdevs.sections.iter_mut().for_each(|s| s.retain_mut(VdevView::keep_sick));
            }
            pool.add_work_progress(&mut status.vdevs);
            let trouble = status.condition.filter(|c| !c.is_advice());
            let healthy = trouble.is_none() && status.damaged.is_empty();
            let view = self.view(session, &status);
            let report = match (self.sick && healthy, self.output.json) {
                (true, _) => None,
                (false, true) => Some(view.value(&PoolFacts::of(pool), &status)),
                (false, false) => {
                    let seen = StatusContext {
                        is_exported: super::is_exported(session, pool),
                        refused: self.refused(session, pool),
                        prices: crate::prices::prices_if(session, self.slow)?,
                    };
                    let mut text = view.text(&PoolFacts::of(pool), &status, &seen);
                    if self.dedup {
                        text.push_str(&zdb::dedup_summary(pool, self.parsable)?);
                    }
                    Some(Value::String(views::scripts::with_paths(&text, &paths)))
                }
            };
            Ok((pool.name().to_owned(), report))
        };
        let closed = |candidate: &Candidate| {
            let mut status = Status::of_closed(&Rt::real(), candidate);
            self.naming.names().apply(&mut status.vdevs);
            let report = match self.output.json {
                true => self.view(session, &status).closed_value(&status),
                false => {
                    let text = self.view(session, &status).closed_text(&status);
                    Value::String(text + &unavailable(candidate))
                }
            };
            Some((status.pool, Some(report)))
        };
        let show = |all: Vec<(String, Option<Value>)>, is_whole: bool| {
            let has_none = all.is_empty();
            let reports = all.into_iter().filter_map(|(name, report)| Some((name, report?)));
            let reports: Vec<(String, Value)> = reports.collect();
            if self.output.json {
                let content = reports.into_iter().collect();
                let content = self.keys.keys(content);
                ui::json(session, &json::document("zpool status", "pools", content));
            } else if self.sick && reports.is_empty() && is_whole && !has_none {
                ui::out(
                    session,
                    &match self.pools.as_slice() {
                        [one] => format!("pool '{one}' is healthy\n"),
                        _ => "all pools are healthy\n".to_owned(),
                    },
                );
            } else {
                let texts: Vec<&str> =
                    reports.iter().filter_map(|(_, text)| text.as_str()).collect();
                ui::out(session, &scripts.fill(&texts.join("\n"), false));
            }
        };
        each_or_closed(session, &self.pool, &self.pools, look, closed, show)
    }

    fn view(&self, session: &Session, status: &Status) -> View {
        View {
            // Names of files are not for all.
            is_verbose: self.verbose && !session.is_for_another_user(),
            numbers: json::Numbers::of(self.output.json_int, self.parsable),
            is_flat: self.flat,
            utc_offset: local_time::utc_offset(session, status::latest(status)),
            shows_slow: self.slow,
            works: WorkColumns { initialize: self.initialize, trim: self.trim },
            scripts: self.columns.scripts.is_some(),
            lacking: &unsupported::ZPOOL,
        }
    }

    /// Devices that cannot be written to and are used all the same, because nothing makes up for
    /// them: the pool can be read, and every change of it fails.
    fn refused(&self, session: &Session, pool: &Pool) -> Vec<(String, String)> {
        let known = crate::known::pools(session).by_guid(pool.guid());
        if known.is_none_or(|known| known.is_readonly()) || session.held(pool.name()).is_some() {
            return Vec::new();
        }
        read_only_devices(pool)
    }
}
