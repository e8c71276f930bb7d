//! `zinc pios`: the parallel I/O simulator.

use crate::cmd::verb::{Served, Verb};
use crate::cmd::zpool::claim;
use crate::failure::Failure;
use crate::live::{LiveOptions, change};
use crate::report_file::ReportFile;
use crate::session::Session;
use crate::ui;
use clap::ValueEnum;
use control::hook::run_shell;
use engine::LivePool;
use engine::Rt;
use lab::pios::{
    self, Layout, Moment, PiosError, PlainFiles, PlainMethod, Plan, PoolFiles, PoolMethod,
    RunResult, Sizes, Steps, SweepTexts, Target, WhileWanted,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Dataset that is used when only a pool is named.
const DATASET: &str = "pios";

/// How to load, one word of `-L`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Load {
    /// Objects of a pool, a transaction for each chunk
    Dmuio,
    /// Files of a pool, through its POSIX layer
    Zplio,
    /// Plain files or a device, buffered
    Posixio,
    /// Plain files or a device, O_DIRECT
    Directio,
    /// Plain files; what is overwritten is copied to a shadow file first
    Cowio,
    /// One shared file
    Ssf,
    /// One file per region
    Fpp,
}

/// Arguments of `zinc pios`.
#[derive(clap::Args)]
// `-V` is verify here, as it always was in pios.
#[command(disable_version_flag = true)]
#[command(after_help = "\
Sizes take k, m, g, t. An option with a list (1,8,40) makes one run for each combination; the forms
NAME_low, NAME_high and NAME_incr go from low to high in steps of this many percent (100 doubles).

  zinc pios -L dmuio -p tank -c 2M -o 128M -n 64 -t 4 -s 128M -S 1M
  zinc pios -L posixio -p /mnt/here -t 1,2,4 -n 16 -s 64M -c 1M -x

Each run's files carry its time stamp, which is also the seed of what is in them: -V=STAMP reads an
earlier run's files and verifies them, with the same sizes given again; -V=STAMP,.. has one for each
run. Buffered files come back from memory then, unless --prerun drops it.")]
pub struct Args {
    /// Threads [default: 1]
    #[arg(short = 't', long = "threadcount", value_name = "N,..")]
    threads: Option<String>,
    #[arg(long = "threadcount_low", alias = "threadcount-low", value_name = "N", hide = true)]
    threads_low: Option<String>,
    #[arg(long = "threadcount_high", alias = "threadcount-high", value_name = "N", hide = true)]
    threads_high: Option<String>,
    #[arg(long = "threadcount_incr", alias = "threadcount-incr", value_name = "%", hide = true)]
    threads_incr: Option<String>,
    /// Regions: streams that are written [default: 16]
    #[arg(short = 'n', long = "regioncount", value_name = "N,..")]
    regions: Option<String>,
    #[arg(long = "regioncount_low", alias = "regioncount-low", value_name = "N", hide = true)]
    regions_low: Option<String>,
    #[arg(long = "regioncount_high", alias = "regioncount-high", value_name = "N", hide = true)]
    regions_high: Option<String>,
    #[arg(long = "regioncount_incr", alias = "regioncount-incr", value_name = "%", hide = true)]
    regions_incr: Option<String>,
    /// Bytes of a region [default: 4M]
    #[arg(short = 's', long = "regionsize", value_name = "SIZE,..")]
    size: Option<String>,
    #[arg(long = "regionsize_low", alias = "regionsize-low", value_name = "SIZE", hide = true)]
    size_low: Option<String>,
    #[arg(long = "regionsize_high", alias = "regionsize-high", value_name = "SIZE", hide = true)]
    size_high: Option<String>,
    #[arg(long = "regionsize_incr", alias = "regionsize-incr", value_name = "%", hide = true)]
    size_incr: Option<String>,
    /// Bytes of an I/O [default: 1M]
    #[arg(short = 'c', long = "chunksize", value_name = "SIZE,..")]
    chunk: Option<String>,
    #[arg(long = "chunksize_low", alias = "chunksize-low", value_name = "SIZE", hide = true)]
    chunk_low: Option<String>,
    #[arg(long = "chunksize_high", alias = "chunksize-high", value_name = "SIZE", hide = true)]
    chunk_high: Option<String>,
    #[arg(long = "chunksize_incr", alias = "chunksize-incr", value_name = "%", hide = true)]
    chunk_incr: Option<String>,
    /// Bytes between starts of regions in a shared file [default: the region size]
    #[arg(short = 'o', long = "offset", value_name = "SIZE,..")]
    offset: Option<String>,
    #[arg(long = "offset_low", alias = "offset-low", value_name = "SIZE", hide = true)]
    offset_low: Option<String>,
    #[arg(long = "offset_high", alias = "offset-high", value_name = "SIZE", hide = true)]
    offset_high: Option<String>,
    #[arg(long = "offset_incr", alias = "offset-incr", value_name = "%", hide = true)]
    offset_incr: Option<String>,
    /// Bytes of a block of a pool's files: sets recordsize [default: the dataset's, or 128K]
    #[arg(short = 'S', long = "blocksize", value_name = "SIZE,..")]
    block: Option<String>,
    /// How to load: dmuio, zplio, posixio, directio or cowio, and ssf or fpp [default: posixio,ssf]
    #[arg(short = 'L', long = "load", value_name = "WORD,..", value_delimiter = ',')]
    load: Vec<Load>,
    #[arg(long, hide = true)]
    posixio: bool,
    #[arg(long, hide = true)]
    directio: bool,
    #[arg(long, hide = true)]
    cowio: bool,
    /// One file for each region
    #[arg(long)]
    fpp: bool,
    /// Directory, file or device; or pool or dataset
    #[arg(short = 'p', long = "path", visible_alias = "pool", value_name = "PATH")]
    path: PathBuf,
    /// Search this directory, file or disk for the pool's devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    how: LiveOptions,
    /// Chunks are up to this many bytes longer or shorter
    #[arg(short = 'N', long = "chunknoise", value_name = "SIZE", default_value = "0")]
    chunk_noise: String,
    /// The next chunk is of a region up to this many farther on
    #[arg(short = 'I', long = "regionnoise", value_name = "N", default_value = "0")]
    region_noise: String,
    /// Threads pause up to this many milliseconds between I/Os
    #[arg(short = 'T', long = "threaddelay", value_name = "MS", default_value_t = 0)]
    thread_delay: u64,
    /// Remove the files afterwards, even after a failure
    #[arg(short = 'x', long)]
    cleanup: bool,
    /// Run this shell command before each run
    #[arg(short = 'P', long, value_name = "COMMAND")]
    prerun: Option<String>,
    /// Run this shell command after each run
    #[arg(short = 'R', long, value_name = "COMMAND")]
    postrun: Option<String>,
    /// Compare what is read with what was written; with =STAMP, of an earlier run
    #[arg(short = 'V', long, value_name = "STAMP,..", num_args = 0..=1, require_equals = true)]
    verify: Option<Option<String>>,
    /// Write only
    #[arg(long, conflicts_with = "verify")]
    no_read: bool,
    /// Overwrite the file or device that was named
    #[arg(long)]
    force: bool,
    /// Print sizes with suffixes
    #[arg(short = 'H', long = "human-readable")]
    human: bool,
    /// Say what is being done
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Print what the threads of the engine spent their time on (dmuio, zplio)
    #[arg(long)]
    profile: bool,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Write a report with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl From<PiosError> for Failure {
    fn from(e: PiosError) -> Self {
        let out = e.cause.into_iter().fold(Self::new(e.what), Self::because);
        e.hint.into_iter().fold(out, Self::hint)
    }
}

/// An option with a list, and its range.
fn texts<'t>(of: [&'t Option<String>; 4]) -> SweepTexts<'t> {
    of.map(Option::as_deref)
}

/// Options that cannot be.
fn usage(e: PiosError) -> Failure {
    e.hint.into_iter().fold(Failure::usage(e.what), Failure::hint)
}

/// How files are reached.
#[derive(Clone, Copy)]
enum Method {
    Pool(PoolMethod),
    Plain(PlainMethod),
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let (method, layout) = self.load()?;
        let plans = self.plans(layout)?;
        let page = self.html.as_deref().map(|path| ReportFile::begin(session, path)).transpose()?;
        let mut results = Vec::new();
        match method {
            Method::Plain(method) => {
                if self.profile {
                    let what = "--profile shows threads of the engine, which writes no plain files";
                    return Err(Failure::usage(what).hint("-L dmuio or zplio"));
                }
                if self.force && !self.path.is_dir() {
                    let what = format!("cannot overwrite {}", self.path.display());
                    // Not even by force what a pool uses here.
                    claim::content_at(session, &what, &self.path, &|_| true)?;
                }
                let mut next = 0;
                for mut plan in plans {
                    self.stamp(&mut plan, &mut next, |p| PlainFiles::is_taken(&self.path, p));
                    let target: Box<dyn Target> = Box::new(match self.reads_earlier() {
                        true => PlainFiles::reopen(&self.path, &plan, method)?,
                        false => PlainFiles::create(&self.path, &plan, method, self.force)?,
                    });
                    results.push(self.one(session, &Rt::real(), plan, &*target)?);
                }
            }
            Method::Pool(method) => {
                let name = self.path.to_str().ok_or_else(|| Failure::usage("no name of a pool"))?;
                let dataset = match name.contains('/') {
                    true => name.to_owned(),
                    false => format!("{name}/{DATASET}"),
                };
                change(session, &self.search, &self.how, name, |pool| {
                    let mut next = 0;
                    for mut plan in plans {
                        let record = PoolFiles::record_size(pool, &dataset);
                        if let (None, Some(record)) = (&self.block, record) {
                            plan.block_size = record;
                        }
                        let taken = |p: &Plan| PoolFiles::is_taken(pool, &dataset, p);
                        self.stamp(&mut plan, &mut next, taken);
                        results.push(self.one_in(session, pool, &dataset, plan, method)?);
                    }
                    Ok(())
                })?;
            }
        }
        self.show(session, &results, page)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// Gives a run the first time stamp, from now and from `next` on, that no files have.
    fn stamp(&self, plan: &mut Plan, next: &mut u64, is_taken: impl Fn(&Plan) -> bool) {
        if self.reads_earlier() {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs());
        plan.stamp(now, next, is_taken);
    }

    fn one_in(
        &self,
        session: &Session,
        pool: &LivePool,
        dataset: &str,
        plan: Plan,
        method: PoolMethod,
    ) -> Result<RunResult, Failure> {
        let target = match self.reads_earlier() {
            true => PoolFiles::reopen(pool, dataset, &plan, method)?,
            false => PoolFiles::create(pool, dataset, &plan, method)?,
        };
        let before = pool.profiler().begin();
        let client = session.client();
        let mut result = match client {
            // A request of a client that is gone is not completed.
            Some(client) => {
                let is_wanted = || client.presence.is_here();
                let target = WhileWanted { target: &target, is_wanted: &is_wanted };
                self.one(session, pool.rt(), plan, &target)?
            }
            None => self.one(session, pool.rt(), plan, &target)?,
        };
        result.profile = self.profile.then(|| pool.profiler().snapshot().since(&before));
        Ok(result)
    }

    fn reads_earlier(&self) -> bool {
        matches!(self.verify, Some(Some(_)))
    }

    /// The time stamps of earlier runs that are to be verified.
    fn earlier(&self) -> Result<Vec<u64>, Failure> {
        let Some(Some(text)) = &self.verify else { return Ok(Vec::new()) };
        let stamp = |text: &str| {
            let wrong = || Failure::usage(format!("-V: `{text}` is not a time stamp"));
            text.trim().parse().map_err(|_| wrong())
        };
        text.split(',').map(stamp).collect()
    }

    fn load(&self) -> Result<(Method, Layout), Failure> {
        let (mut method, mut layout) = (None, None);
        let words = [
            (self.posixio, Load::Posixio),
            (self.directio, Load::Directio),
            (self.cowio, Load::Cowio),
        ];
        let flags = words.iter().filter(|(given, _)| *given).map(|(_, word)| word);
        for word in self.load.iter().chain(flags) {
            let (m, l) = match word {
                Load::Dmuio => (Some(Method::Pool(PoolMethod::Dmu)), None),
                Load::Zplio => (Some(Method::Pool(PoolMethod::Zpl)), None),
                Load::Posixio => (Some(Method::Plain(PlainMethod::Posix)), None),
                Load::Directio => (Some(Method::Plain(PlainMethod::Direct)), None),
                Load::Cowio => (Some(Method::Plain(PlainMethod::Cow)), None),
                Load::Ssf => (None, Some(Layout::Shared)),
                Load::Fpp => (None, Some(Layout::PerRegion)),
            };
            if (m.is_some() && method.is_some()) || (l.is_some() && layout.is_some()) {
                let what =
                    "-L takes one of dmuio, zplio, posixio, directio and cowio, and ssf or fpp";
                return Err(Failure::usage(what));
            }
            (method, layout) = (m.or(method), l.or(layout));
        }
        if self.fpp && layout == Some(Layout::Shared) {
            return Err(Failure::usage("--fpp and -L ssf contradict each other"));
        }
        let usual = if self.fpp { Layout::PerRegion } else { Layout::Shared };
        Ok((method.unwrap_or(Method::Plain(PlainMethod::Posix)), layout.unwrap_or(usual)))
    }

    fn plans(&self, layout: Layout) -> Result<Vec<Plan>, Failure> {
        let sizes = Sizes::of_texts([
            texts([&self.threads, &self.threads_low, &self.threads_high, &self.threads_incr]),
            texts([&self.regions, &self.regions_low, &self.regions_high, &self.regions_incr]),
            texts([&self.size, &self.size_low, &self.size_high, &self.size_incr]),
            texts([&self.chunk, &self.chunk_low, &self.chunk_high, &self.chunk_incr]),
            texts([&self.offset, &self.offset_low, &self.offset_high, &self.offset_incr]),
            texts([&self.block, &None, &None, &None]),
        ]);
        let sizes = sizes.map_err(usage)?;
        let usual = Plan {
            chunk_noise: pios::parse_bytes(&self.chunk_noise)?,
            region_noise: pios::parse_bytes(&self.region_noise)?,
            thread_delay: Duration::from_millis(self.thread_delay),
            ..Plan::new(1, 1, 1, 1)
        };
        let mut out = sizes.plans(layout, &usual)?;
        pios::resume(&mut out, &self.earlier()?).map_err(usage)?;
        Ok(out)
    }

    /// One run: write, read, remove.
    fn one(
        &self,
        session: &Session,
        rt: &Rt,
        plan: Plan,
        target: &dyn Target,
    ) -> Result<RunResult, Failure> {
        if self.verbose {
            ui::error(session, &format!("run {}: {plan}\n", plan.seed));
        }
        let (write, read, verify) = (!self.reads_earlier(), !self.no_read, self.verify.is_some());
        let steps = Steps { write, read, verify, remove: self.cleanup };
        steps.run(rt, plan, target, |moment| match moment {
            Moment::Before => self.hook(session, "--prerun", self.prerun.as_deref()),
            Moment::After => self.hook(session, "--postrun", self.postrun.as_deref()),
        })
    }

    /// Runs a command of the user's. With --json what it prints goes where complaints go.
    fn hook(&self, session: &Session, name: &str, command: Option<&str>) -> Result<(), Failure> {
        let Some(command) = command else { return Ok(()) };
        let failed = |why: String| Failure::new(format!("{name} `{command}` failed")).because(why);
        let status = || {
            let [output, errors] = ui::streams(session)?;
            let output = if self.json { errors.try_clone()? } else { output };
            let is_here = session.client().map(|client| move || client.presence.is_here());
            let is_wanted = is_here.as_ref().map(|is_here| is_here as &dyn Fn() -> bool);
            run_shell(command, &session.path(Path::new(".")), [output, errors], is_wanted)
        };
        match status().map_err(|e| failed(e.to_string()))? {
            status if status.success() => Ok(()),
            status => Err(failed(status.to_string())),
        }
    }

    fn show(
        &self,
        session: &Session,
        results: &[RunResult],
        page: Option<ReportFile>,
    ) -> Result<(), Failure> {
        if self.json {
            ui::json(session, &pios::json(results));
        } else {
            ui::out(session, &pios::text(results, !self.human, self.verify.is_some()));
        }
        match page {
            Some(page) => {
                page.write(&lab::report::page(&[pios::outcome(&self.path, results)], "zinc pios"))
            }
            None => Ok(()),
        }
    }
}
