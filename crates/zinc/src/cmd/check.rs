//! `zinc check`: verify every block and cross-check all accounting.

use crate::cmd::verb::Verb;
use crate::common::PoolArgs;
use crate::failure::{Failure, ISSUES};
use crate::session::Session;
use crate::ui;
use engine::check::{CheckOptions, Issue, Kind, Report, Severity, Totals, Verify};
use engine::pools::Verdict;
use engine::{OpenOptions, Pool};
use engine::{Progress, check};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Issues of one kind that are printed in full without -v.
const SHOWN_OF_A_KIND: usize = 20;
/// Ranges of a damaged device that are printed without -v.
const SHOWN_RANGES: usize = 8;
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
        let report = self.settled(session, pool, &options)?;
        if self.json {
            ui::json(session, &report_json(&report));
        } else {
            self.print(session, &report);
        }
        Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(ISSUES) })
    }
}

impl Args {
    /// The report of a state that stayed. While another program writes to the pool, what is read
    /// may be overwritten before it is verified, which looks like damage: then again, from the
    /// newest state.
    fn settled(
        &self,
        session: &Session,
        mut pool: Pool,
        options: &CheckOptions,
    ) -> Result<Report, Failure> {
        for _ in 0..ATTEMPTS {
            let report = with_progress(session, &pool, options, !self.json && !self.quiet);
            if report.is_clean() || !(pool.has_moved() || labels_changed(&pool, &report)) {
                return Ok(report);
            }
            pool = self.pool.open_devices(session, &self.name)?;
        }
        let what =
            format!("cannot check '{}': it is being written to by another program", pool.name());
        Err(Failure::new(what)
            .because(format!("its state changed {ATTEMPTS} times while it was read"))
            .hint("stop what writes to it, or export it, and check it again"))
    }

    fn print(&self, session: &Session, r: &Report) {
        let mut text = String::new();
        let mut shown = std::collections::BTreeMap::<&str, usize>::new();
        for issue in r.issues.iter().filter(|i| !self.quiet || i.severity() != Severity::Note) {
            let n = shown.entry(issue.name()).or_default();
            *n += 1;
            if !self.verbose && *n > SHOWN_OF_A_KIND {
                continue;
            }
            let _ = writeln!(text, "{}: {}: {issue}", issue.severity().name(), issue.name());
            let _ = writeln!(text, "    {}", issue.consequence());
            self.print_ranges(issue, &mut text);
        }
        for (name, n) in shown.iter().filter(|(_, n)| !self.verbose && **n > SHOWN_OF_A_KIND) {
            let _ = writeln!(text, "{} more issues {name} (-v shows them)", n - SHOWN_OF_A_KIND);
        }
        for (name, n) in &r.dropped {
            let _ = writeln!(text, "{n} more issues {name} were not kept");
        }
        if !self.quiet {
            summary(r, self.no_verify, &mut text);
        }
        if self.verbose {
            table(&r.totals, &mut text);
        }
        ui::out(session, &text);
    }

    fn print_ranges(&self, issue: &Issue, text: &mut String) {
        let Issue::DeviceDamaged(d) = issue else { return };
        let max = if self.verbose { usize::MAX } else { SHOWN_RANGES };
        for (a, b) in d.ranges.iter().take(max) {
            let _ = writeln!(text, "    {} bytes at {a:#x}", b - a);
        }
        let more = d.ranges.len().saturating_sub(max);
        if more > 0 {
            let _ = writeln!(text, "    and {more} more ranges (-v shows them)");
        }
    }

    /// Opens every txg in turn and judges it.
    fn txgs(&self, session: &Session, newest: &Pool) -> ExitCode {
        let mut rows = Vec::new();
        for c in engine::pools::by_txg(&newest.candidate().uberblocks) {
            let ub = c.uberblock;
            let options = OpenOptions { txg: Some(ub.txg), ..self.pool.options(session) };
            let (state, detail) = match Pool::open_candidate(newest.candidate(), &options) {
                Ok(pool) => match check::verdict(&pool) {
                    Verdict::Intact => ("intact", String::new()),
                    Verdict::Partial { lost, first } => {
                        ("partial", format!("{lost} lost, first {first}"))
                    }
                    Verdict::Lost(why) => ("lost", why),
                },
                Err(e) => ("lost", e.to_string()),
            };
            rows.push((ub.txg, ub.timestamp, c.copies, state, detail));
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
    let total: u64 = pool.vdevs().tops().map(|t| t.asize()).sum();
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

fn summary(r: &Report, no_verify: bool, text: &mut String) {
    let t = r.totals.total();
    let secs = r.elapsed.as_secs_f64();
    let rate = r.bytes_read as f64 / secs.max(1e-9) / 1e6;
    let _ = writeln!(text, "pool {} at txg {}", r.pool, r.txg);
    let rows = [
        ("bp count", t.count),
        ("ganged count", t.gangs),
        ("bp logical", t.logical),
        ("bp physical", t.physical),
        ("bp allocated", t.allocated),
        ("bp deduped", r.totals.dedup_bytes),
        ("  references beyond the first", r.totals.dedup_blocks),
        ("bp cloned", r.totals.clone_bytes),
        ("  clones", r.totals.clone_blocks),
        ("embedded, non-pointer bps", r.totals.embedded.iter().sum()),
        ("dittoed blocks on same vdev", t.ditto_same_vdev),
        ("allocated by space maps", r.allocated),
        ("  only by the checkpoint", r.checkpointed),
        ("blocks lost", r.blocks_lost),
    ];
    for (name, n) in rows {
        let _ = writeln!(text, "  {name:30} {n:>16}");
    }
    let _ = writeln!(
        text,
        "  read {} bytes of {} blocks in {secs:.2} s ({rate:.0} MB/s)",
        r.bytes_read, r.blocks_read
    );
    let counts: Vec<String> =
        [Severity::Lost, Severity::Inconsistent, Severity::Repairable, Severity::Note]
            .into_iter()
            .map(|s| format!("{} {}", r.count(s), s.name()))
            .collect();
    let word = match () {
        () if r.cancelled => "cancelled",
        () if r.is_clean() => "clean",
        () => "has issues",
    };
    let _ = write!(text, "{word}: {}", counts.join(", "));
    // "clean" is said of what was read, so what was not is said too.
    let locked = r.issues.iter().filter(|i| matches!(i, Issue::Locked { .. })).count();
    if locked > 0 {
        let _ = write!(text, "; without a key, so not decrypted: {locked} datasets");
    }
    text.push_str(if no_verify { "; files' and volumes' data not read\n" } else { "\n" });
}

fn table(t: &Totals, text: &mut String) {
    let kinds: std::collections::BTreeSet<Kind> = t.table.keys().map(|(k, _)| *k).collect();
    let _ = writeln!(
        text,
        "{:>10} {:>14} {:>14} {:>14}  type",
        "blocks", "logical", "physical", "allocated"
    );
    for kind in kinds {
        for level in 0..32 {
            let Some(s) = t.table.get(&(kind, level)) else { continue };
            let _ = writeln!(
                text,
                "{:>10} {:>14} {:>14} {:>14}  L{level} {}",
                s.count,
                s.logical,
                s.physical,
                s.allocated,
                kind.name()
            );
        }
    }
}

fn report_json(r: &Report) -> Value {
    let t = r.totals.total();
    let issue = |i: &Issue| {
        let mut v = json!({
            "issue": i.name(),
            "severity": i.severity().name(),
            "text": i.to_string(),
            "consequence": i.consequence(),
        });
        if let Issue::DeviceDamaged(d) = i {
            v["device"] = json!({
                "path": &*d.path, "guid": d.guid, "vdev": d.vdev, "checksum": d.checksum,
                "parity": d.parity, "io": d.io, "missing": d.missing, "stale": d.stale,
                "bytes": d.bytes, "repairable": d.repairable, "lost": d.lost,
                "ranges": d.ranges,
            });
        }
        v
    };
    let row = |((kind, level), s): (&(Kind, u8), &check::Sum)| {
        json!({"type": kind.name(), "level": level, "count": s.count, "logical": s.logical,
               "physical": s.physical, "allocated": s.allocated})
    };
    json!({
        "pool": r.pool,
        "txg": r.txg,
        "clean": r.is_clean(),
        "issues": r.issues.iter().map(issue).collect::<Vec<_>>(),
        "issues_not_kept": r.dropped,
        "totals": {
            "count": t.count, "ganged": t.gangs, "logical": t.logical, "physical": t.physical,
            "allocated": t.allocated, "dedup_bytes": r.totals.dedup_bytes,
            "dedup_blocks": r.totals.dedup_blocks, "clone_bytes": r.totals.clone_bytes,
            "clone_blocks": r.totals.clone_blocks, "embedded": r.totals.embedded,
            "ditto_same_vdev": t.ditto_same_vdev,
            "types": r.totals.table.iter().map(row).collect::<Vec<_>>(),
        },
        "allocated": r.allocated,
        "checkpointed": r.checkpointed,
        "blocks_read": r.blocks_read,
        "bytes_read": r.bytes_read,
        "blocks_lost": r.blocks_lost,
        "seconds": r.elapsed.as_secs_f64(),
        "cancelled": r.cancelled,
    })
}
