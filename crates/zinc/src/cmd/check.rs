//! `zinc check`: verify every block and cross-check all accounting.

use crate::args::PoolArgs;
use crate::cmd::verb::Verb;
use crate::failure::{Failure, ISSUES};
use crate::session::Session;
use crate::ui;
use engine::check::{CheckOptions, Verify};
use engine::pools::DamagedObject;
use engine::{Pool, Progress, check};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use views::check::View;

/// Progress appears after this time, and this often.
const PROGRESS_DELAY: Duration = Duration::from_millis(500);

/// Arguments of `zinc check`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Print issues only, no summary
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Print every issue and the table of block types by level
    #[arg(short, long)]
    verbose: bool,
    /// Do not read files' and volumes' data, only metadata
    #[arg(long)]
    no_verify: bool,
    /// Check names and links of files in snapshots too
    #[arg(long)]
    snapshots: bool,
    /// Threads (0: as many as the machine can use)
    #[arg(long, value_name = "N", default_value_t = 0)]
    workers: usize,
    /// List the txgs that can be opened and whether the state of each is intact
    #[arg(long)]
    list_txgs: bool,
    /// Name or guid of the pool
    name: String,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let pool = self.pool.open_devices(session, &self.name)?;
        if self.list_txgs {
            return Ok(self.txgs(session, &pool));
        }
        let options = CheckOptions {
            verify: if self.no_verify { Verify::Metadata } else { Verify::All },
            workers: self.workers,
            snapshots: self.snapshots,
            ..CheckOptions::default()
        };
        let total = check::bytes_max(&pool);
        let (report, pool) =
            with_progress(session, total, !self.json && !self.quiet, |progress| {
                let reopen = || self.pool.open_devices(session, &self.name);
                check::settled(pool, &options, progress, reopen)
            })?;
        if self.json {
            ui::json(session, &views::check::value(&report));
        } else {
            let view = View {
                is_quiet: self.quiet,
                is_verbose: self.verbose,
                is_metadata_only: self.no_verify,
            };
            let name = |dataset, object| pool.path_of(&DamagedObject { dataset, object });
            ui::out(session, &view.text(&report, &name));
        }
        Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(ISSUES) })
    }
}

impl Args {
    /// Opens every txg in turn and judges it.
    fn txgs(&self, session: &Session, newest: &Pool) -> ExitCode {
        let states: Vec<_> = check::txg_verdicts(newest, &self.pool.options(session)).collect();
        match self.json {
            true => ui::json(session, &views::check::txgs_value(&states)),
            false => ui::out(session, &views::check::txgs(&states)),
        }
        ExitCode::SUCCESS
    }
}

/// Runs a check of at most `total` bytes; on a terminal shows how far it is.
fn with_progress<T>(
    session: &Session,
    total: u64,
    wanted: bool,
    check: impl FnOnce(&Progress) -> T,
) -> T {
    let progress = Progress::new();
    if !wanted || !ui::is_terminal(session) {
        return check(&progress);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(PROGRESS_DELAY / 5);
                if start.elapsed() > PROGRESS_DELAY {
                    let (now, elapsed) = (progress.snapshot(), start.elapsed());
                    ui::progress(session, &views::progress::line_of_bytes(&now, elapsed, total));
                }
            }
            ui::progress(session, "");
        });
        let report = check(&progress);
        done.store(true, Ordering::Relaxed);
        report
    })
}
