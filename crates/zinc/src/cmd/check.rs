//! `zinc check`: verify every block and cross-check all accounting.

use crate::args::PoolArgs;
use crate::cmd::verb::Verb;
use crate::failure::{Failure, ISSUES};
use crate::session::Session;
use crate::ui;
use engine::check::{CheckOptions, Issue, Report, Verify};
use engine::pools::{DamagedObject, Verdict};
use engine::{Pool, Progress, check};
use serde_json::json;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use views::check::View;

/// States of a pool that is being written to that are tried.
const ATTEMPTS: u32 = 6;
/// Far longer than a txg takes between its first labels and its last.
const LABELS_PAUSE: Duration = Duration::from_secs(1);
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
        let (report, pool) = self.settled(session, pool, &options)?;
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
    /// The report of a state that stayed, and the pool in that state. While another program writes
    /// to the pool, what is read may be overwritten before it is verified, which looks like damage:
    /// then again, from the newest state.
    fn settled(
        &self,
        session: &Session,
        mut pool: Pool,
        options: &CheckOptions,
    ) -> Result<(Report, Pool), Failure> {
        for _ in 0..ATTEMPTS {
            let report = with_progress(session, &pool, options, !self.json && !self.quiet);
            if report.is_clean() || !(pool.has_moved() || labels_changed(&pool, &report)) {
                return Ok((report, pool));
            }
            pool = self.pool.open_devices(session, &self.name)?;
        }
        let what =
            format!("cannot check '{}': it is being written to by another program", pool.name());
        Err(Failure::new(what)
            .because(format!("its state changed {ATTEMPTS} times while it was read"))
            .hint("stop what writes to it, or export it, and check it again"))
    }

    /// Opens every txg in turn and judges it.
    fn txgs(&self, session: &Session, newest: &Pool) -> ExitCode {
        let mut rows = Vec::new();
        for found in check::judge_txgs(newest, &self.pool.options(session)) {
            let (state, detail) = match found.verdict {
                Ok(Verdict::Intact) => ("intact", String::new()),
                Ok(Verdict::Partial { lost, first }) => {
                    ("partial", format!("{lost} lost, first {first}"))
                }
                Ok(Verdict::Lost(why)) => ("lost", why),
                Err(e) => ("lost", e.to_string()),
            };
            rows.push((found.txg, found.timestamp, found.copies, state, detail));
        }
        if self.json {
            let row = |(txg, time, copies, state, detail): &(u64, u64, usize, &str, String)| {
                json!({"txg": txg, "timestamp": time, "copies": copies, "state": state,
                       "detail": detail})
            };
            ui::json(session, &json!({"txgs": rows.iter().map(row).collect::<Vec<_>>()}));
        } else {
            let right = [true, true, true, false, false];
            let mut t = ui::Table::new(&["TXG", "TIMESTAMP", "COPIES", "STATE", ""], &right, false);
            for (txg, time, copies, state, detail) in rows {
                let cells = [txg.to_string(), time.to_string(), copies.to_string()];
                t.row(cells.into_iter().chain([state.to_owned(), detail]).collect());
            }
            ui::table(session, &t);
        }
        ExitCode::SUCCESS
    }
}

/// Whether labels that were wrong are not so any more, or in another way: a txg that changes them
/// writes half of them before its uberblock, and half after it.
fn labels_changed(pool: &Pool, report: &Report) -> bool {
    let is_label = |i: &&Issue| matches!(i, Issue::Label { .. } | Issue::LabelRound { .. });
    let before: Vec<&Issue> = report.issues.iter().filter(is_label).collect();
    if before.is_empty() {
        return false;
    }
    std::thread::sleep(LABELS_PAUSE);
    pool.has_moved() || !check::labels(pool).iter().eq(before)
}

/// Runs the check; on a terminal shows how far it is.
fn with_progress(session: &Session, pool: &Pool, options: &CheckOptions, wanted: bool) -> Report {
    let progress = Progress::new();
    if !wanted || !ui::is_terminal(session) {
        return check::run(pool, options, &progress);
    }
    let done = AtomicBool::new(false);
    let total = check::bytes_max(pool);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(PROGRESS_DELAY / 5);
                if start.elapsed() > PROGRESS_DELAY {
                    let s = progress.snapshot();
                    let secs = start.elapsed().as_secs_f64();
                    let rate = s.bytes as f64 / secs / 1e6;
                    let bytes = s.bytes >> 20;
                    ui::progress(
                        session,
                        &format!(
                            "{}: {} items, {bytes} MiB of at most {}, {rate:.0} MB/s",
                            s.phase,
                            s.done,
                            total >> 20
                        ),
                    );
                }
            }
            ui::progress(session, "");
        });
        let report = check::run(pool, options, &progress);
        done.store(true, Ordering::Relaxed);
        report
    })
}
