//! `zinc zpool iostat`: what pools read and write, since they were opened and by intervals.
//!
//! The statistics of a pool that another zinc process serves come from there; any other is opened
//! for reading, and then the figures are those of the opening itself, as `zpool iostat` shows those
//! of the import.

use super::each::require_pool_name;
use super::list::{repetition, stamp};
use super::naming::Naming;
use super::scripts::{Found as FoundScripts, ScriptColumns};
use crate::args::{JsonArgs, PoolArgs, TableArgs};
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::served::{self, Server};
use crate::session::Session;
use crate::{json, ui};
use engine::Pool;
use engine::stats::Snapshot;
use imported::Found;
use std::ops::ControlFlow::{Break, Continue};
use std::process::ExitCode;
use views::iostat::{self, Histograms, InternalTables, Layout, Series, Style, VdevNames};

/// Lines between two headings on a terminal whose height is not known.
const HEADING_EVERY: u64 = 24;

/// Arguments of `zinc zpool iostat`.
#[derive(clap::Args)]
pub struct Args {
    /// Also the vdevs of each pool
    #[arg(short = 'v')]
    verbose: bool,
    /// Also mean waiting times, and requests to object stores
    #[arg(short = 'l')]
    latency: bool,
    /// Also the lengths of the queues now
    #[arg(short = 'q')]
    queues: bool,
    /// Histograms of waiting times, instead of the other columns
    #[arg(short = 'w', conflicts_with_all = ["latency", "queues", "sizes"])]
    waits: bool,
    /// Histograms of request sizes, instead of the other columns
    #[arg(short = 'r', conflicts_with_all = ["latency", "queues"])]
    sizes: bool,
    /// Stages of the pipeline and where its threads spend their time, instead of the other columns
    #[arg(long, conflicts_with_all = ["latency", "queues", "waits", "sizes", "verbose"])]
    stages: bool,
    /// Traffic of the devices by type of object and level, instead of the other columns
    #[arg(long, conflicts_with_all = ["latency", "queues", "waits", "sizes", "verbose", "stages"])]
    blocks: bool,
    /// Reads and writes by dataset, instead of the other columns
    #[arg(long, conflicts_with_all = ["latency", "queues", "waits", "sizes", "verbose", "stages",
                                      "blocks"])]
    datasets: bool,
    /// Headings only once
    #[arg(short = 'n')]
    once: bool,
    /// Leave out the first report, which covers everything since the pool was opened
    #[arg(short = 'y')]
    skip_first: bool,
    #[command(flatten)]
    columns: ScriptColumns,
    #[command(flatten)]
    naming: Naming,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    pool: PoolArgs,
    /// Print a timestamp before each report: d as `date` prints it, u as seconds since 1970
    #[arg(short = 'T', value_name = "d|u", value_parser = ["d", "u"])]
    stamp: Option<String>,
    /// Pools or vdevs [default: all pools found]; then INTERVAL in seconds to repeat, and COUNT of
    /// reports
    #[arg(value_name = "POOL|VDEV|INTERVAL [COUNT]")]
    names: Vec<String>,
}

/// Where the snapshots of a pool come from.
pub trait Source {
    /// The statistics up to now.
    fn take(&mut self) -> Result<Snapshot, Failure>;
}

/// A pool that this process has opened.
struct Opened {
    pool: Pool,
    space: engine::pools::PoolSpace,
}

impl Source for Opened {
    fn take(&mut self) -> Result<Snapshot, Failure> {
        Ok(self.pool.stats(Some(&self.space)))
    }
}

impl Source for Server {
    fn take(&mut self) -> Result<Snapshot, Failure> {
        self.stats()
    }
}

/// A pool being watched.
struct Watched {
    source: Box<dyn Source>,
    series: Series,
}

impl Watched {
    fn new(source: Box<dyn Source>) -> Self {
        Self { source, series: Series::default() }
    }

    /// Takes the next snapshot.
    fn step(&mut self, session: &Session, naming: &Naming) -> Result<(), Failure> {
        let now = self.source.take()?;
        let warning = self.series.add(now, |now| naming.names().rename(now));
        warning.iter().for_each(|text| ui::note(session, text));
        Ok(())
    }
}

impl Verb for Args {
    /// Runs it, as often as requested.
    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.columns.are_listed(session) {
            return Ok(ExitCode::SUCCESS);
        }
        let scripts = self.columns.find(session)?;
        let repeat = repetition(&mut self.names)?;
        let (mut pools, only, mut code) = self.begin(session)?;
        let mut layout = self.layout(session, only)?;
        let devices = pools.iter().flat_map(|pool| pool.series.devices().clone());
        layout.scripts = self.columns.scripts.is_some().then(|| devices.collect());
        let first = u64::from(self.skip_first);
        if self.skip_first && repeat.is_none() {
            return Err(Failure::usage("-y prints nothing without an interval"));
        }
        let mut printed = 0;
        for report in 0.. {
            if report > 0 {
                self.look(session, &mut pools, &mut code)?;
            }
            if report >= first {
                stamp(session, self.stamp.as_deref());
                self.print(session, (&layout, &scripts), &pools, printed);
                printed += 1;
            }
            match repeat {
                Some((interval, count)) if count.is_none_or(|c| printed < c) => {
                    session.sleep(interval)?;
                }
                _ => break,
            }
        }
        Ok(code)
    }
}

impl Args {
    /// The pools to watch, each with its first snapshot, and the names of vdevs. A server that ends
    /// before it gave one leaves its pool to this process, or to another server.
    fn begin(&self, session: &Session) -> Result<(Vec<Watched>, Vec<String>, ExitCode), Failure> {
        served::insist(session, || {
            let (mut pools, only, code) = self.sources(session)?;
            match pools.iter_mut().try_for_each(|pool| pool.step(session, &self.naming)) {
                Ok(()) => Ok(Break(Ok((pools, only, code)))),
                Err(failure) => Ok(Continue(Err(failure))),
            }
        })?
    }

    /// Takes the next snapshot of each pool. A pool that is gone, because it was exported, is
    /// reported and watched no more; when the last one is gone the command ends.
    fn look(
        &self,
        session: &Session,
        pools: &mut Vec<Watched>,
        code: &mut ExitCode,
    ) -> Result<(), Failure> {
        let mut at = 0;
        while at < pools.len() {
            match pools[at].step(session, &self.naming) {
                Ok(()) => at += 1,
                Err(failure) if pools.len() > 1 => {
                    *code = failure.report(session);
                    pools.remove(at);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// The tables in place of the columns, if requested.
    fn inside(&self) -> Option<InternalTables> {
        match (self.stages, self.blocks, self.datasets) {
            (true, ..) => Some(InternalTables::Stages),
            (_, true, _) => Some(InternalTables::Blocks),
            (.., true) => Some(InternalTables::Datasets),
            _ => None,
        }
    }

    fn layout(&self, session: &Session, only: Vec<String>) -> Result<Layout, Failure> {
        let histograms = match (self.waits, self.sizes) {
            (true, _) => Some(Histograms::Latency),
            (_, true) => Some(Histograms::Sizes),
            _ => None,
        };
        let prices = crate::prices::prices_if(session, self.latency)?;
        Ok(Layout {
            verbose: self.verbose || self.columns.scripts.is_some() || !only.is_empty(),
            parsable: self.table.parsable,
            scripted: self.table.script,
            latency: self.latency,
            queues: self.queues,
            histograms,
            only,
            prices,
            scripts: None,
        })
    }

    /// The pools to watch, and the names of vdevs among the arguments.
    fn sources(&self, session: &Session) -> Result<(Vec<Watched>, Vec<String>, ExitCode), Failure> {
        let mut code = ExitCode::SUCCESS;
        let mut pools = Vec::new();
        let mut served = Server::all_in(session, &self.pool.search)?;
        // The name of a dataset is no name of a pool; paths are those of vdevs.
        let mut names = self.names.iter().filter(|name| served.iter().any(|s| s.is_called(name)));
        names.try_for_each(|name| require_pool_name(name))?;
        let is_named = |s: &Server| self.names.iter().any(|n| s.is_called(n));
        let is_served = |name: &&String| served.iter().any(|s| s.is_called(name));
        let (held, others): (Vec<&String>, Vec<&String>) = self.names.iter().partition(is_served);
        let guids: Vec<u64> = served.iter().map(|s| s.guid).collect();
        let candidates: Vec<Found> = match others.is_empty() {
            true => Vec::new(),
            false => crate::found::all(session, &self.pool.search, &guids)?
                .into_iter()
                .flatten()
                .collect(),
        };
        // A name that is not a pool's is that of a vdev.
        let is_pool = |name: &&String| {
            let same = |f: &Found| f.is_called(name);
            candidates.iter().any(same)
        };
        let mut strange = others.iter().filter(|name| !is_pool(name));
        if let Some(failure) = strange.find_map(|name| crate::found::is_of_root(session, name)) {
            return Err(failure);
        }
        let (wanted, vdevs): (Vec<&String>, Vec<&String>) = others.into_iter().partition(is_pool);
        let vdevs: Vec<String> = vdevs.into_iter().cloned().collect();
        let is_any = wanted.is_empty() && held.is_empty();
        served.retain(|s| is_any || is_named(s));
        pools.extend(served.into_iter().map(|s| Watched::new(Box::new(s))));
        let mut open = |pool: Result<Pool, Failure>| match pool {
            Ok(pool) => {
                let space = pool.space();
                let source = Box::new(Opened { pool, space });
                pools.push(Watched::new(source));
            }
            Err(failure) => code = failure.report(session),
        };
        match is_any {
            true => {
                let opened = self.pool.open_found(session, &guids)?;
                opened.pools.into_iter().for_each(&mut open);
                let more = opened.served.into_iter();
                pools.extend(more.map(|server| Watched::new(Box::new(server))));
            }
            false => wanted.iter().for_each(|name| open(self.pool.open_here(session, name))),
        }
        if pools.is_empty() && code == ExitCode::SUCCESS {
            return Err(Failure::new("no pools available"));
        }
        let vdevs = match vdevs.is_empty() {
            true => vdevs,
            false => self.shown_names(&mut pools, &vdevs)?,
        };
        Ok((pools, vdevs, code))
    }

    /// The names that are shown of these vdevs, of which each is in one of the pools, by the name
    /// that is shown, its path, the last part of that or its guid; pools without any are left out.
    fn shown_names(
        &self,
        pools: &mut Vec<Watched>,
        vdevs: &[String],
    ) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        for pool in pools.iter_mut() {
            all.push(VdevNames::of(pool.source.take()?, self.naming.names()));
        }
        let shown = iostat::named(&all, vdevs).map_err(|name| {
            Failure::new(format!("no pool or vdev has the name '{name}'"))
                .hint("`zinc zpool iostat -v` shows the names of the vdevs")
        })?;
        let mut has = shown.iter().map(|own| !own.is_empty());
        pools.retain(|_| has.next().unwrap_or(false));
        Ok(shown.concat())
    }

    /// Prints a report, with headings where they belong; `before` reports were printed already.
    fn print(
        &self,
        session: &Session,
        (layout, scripts): (&Layout, &FoundScripts),
        pools: &[Watched],
        before: u64,
    ) {
        let shown: Vec<_> = pools.iter().filter_map(|pool| pool.series.shown()).collect();
        if self.output.json {
            let all = iostat::json(&shown);
            return ui::json(session, &json::document("zpool iostat", "pools", all));
        }
        if let Some(inside) = self.inside() {
            let pools: Vec<&Snapshot> = shown.iter().map(|(s, _)| s).collect();
            let (parsable, scripted) = (self.table.parsable, self.table.script);
            let text = inside.text(&pools, Style { parsable, scripted });
            return match scripted {
                true => ui::exact(session, &text),
                false if before > 0 => ui::out(session, &format!("\n{text}")),
                false => ui::out(session, &text),
            };
        }
        let again =
            !self.once && ui::is_output_terminal(session) && before.is_multiple_of(HEADING_EVERY);
        let text = layout.text(&shown, before == 0 || layout.verbose || again);
        let text = scripts.fill(&text, layout.scripted);
        match layout.scripted {
            true => ui::exact(session, &text),
            false => ui::out(session, &text),
        }
    }
}
