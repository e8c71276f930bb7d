//! `zinc repair`: a plan, and with `--yes` what it says.

use crate::args::Wait;
use crate::cmd::verb::Verb;
use crate::failure::{Failure, ISSUES};
use crate::progress::while_showing;
use crate::session::Session;
use crate::{found, queue, ui};
use engine::live::{ImportOptions, multihost_wait};
use engine::repair::{RepairOptions, repair, undo};
use engine::{Error, OpenOptions, Progress};
use hostfs::host;
use imported::SearchScope;
use std::path::PathBuf;
use std::process::ExitCode;
use views::repair as view;

/// Arguments of `zinc repair`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --yes nothing is written: the repair is done in memory and checked there, and what it
would do and leave is shown. The pool must not be in use.
Exit code 3: something is wrong, and stays so unless --yes is given or in spite of it.")]
pub struct Args {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// Go back to this txg first; later changes are lost
    #[arg(long, value_name = "N")]
    txg: Option<u64>,
    /// Also read the contents of all files, and name damaged ones
    #[arg(long)]
    read_files: bool,
    /// Carry out the plan
    #[arg(short, long)]
    yes: bool,
    /// Save the data that is overwritten to this new file [default: POOL-TXG.undo]
    #[arg(long, value_name = "FILE", requires = "yes")]
    keep: Option<PathBuf>,
    /// Undo the repair that wrote this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["yes", "json", "name"])]
    undo: Option<PathBuf>,
    /// Also repair a pool of another host, or when absent devices may have the data that is given
    /// up
    #[arg(short, long)]
    force: bool,
    /// Limit of what is written, in MiB (takes twice that in memory)
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    write_mib: u64,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    #[command(flatten)]
    wait: Wait,
    /// Name or guid of the pool
    #[arg(required_unless_present = "undo")]
    name: Option<String>,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let done = self.repair(session);
        if let (true, Err(failure)) = (self.json, &done) {
            ui::json(session, &view::failed(failure.parts()));
        }
        done
    }
}

impl Args {
    fn repair(&self, session: &Session) -> Result<ExitCode, Failure> {
        let source = session.devices();
        if let Some(path) = &self.undo {
            let places: Vec<PathBuf> = self.search.iter().map(|p| session.path(p)).collect();
            let done = undo::put_back(&session.path(path), &source, &places);
            let (head, bytes) = done.map_err(|e| Failure::from(Error::from(e)))?;
            ui::out(session, &view::put_back(&head, bytes));
            return Ok(ExitCode::SUCCESS);
        }
        let name = self.name.as_deref().unwrap_or_default();
        let find = || found::find(session, &self.search, name, SearchScope::Anywhere);
        let mut found = find()?;
        if queue::wait_for_writers(session, self.wait, &found.candidate, !self.yes)? {
            found = find()?;
        }
        if let Some(time) = multihost_wait(&found.candidate) {
            queue::say_watched(session, &found.candidate, time);
        }
        let mut open = OpenOptions::default();
        found.complete(&mut open);
        let (hostid, hostname) = (host::id(), host::name());
        let (bytes_max, force) = (self.write_mib.saturating_mul(1 << 20), self.force);
        let import = ImportOptions { hostid, hostname, force, ..ImportOptions::new(open) };
        let (txg, claims, reads_files) = (self.txg, self.yes, self.read_files);
        let options =
            RepairOptions { import, bytes_max, txg, reads_files, gives_up_absent: force, claims };
        let progress = Progress::new();
        let work = || repair(&found.candidate, source, &options, &progress);
        let failed = |e| Failure::from(Error::from(e)).about(&format!("cannot repair '{name}'"));
        let repaired = while_showing(session, &progress, work).map_err(failed)?;
        let plan = repaired.plan();
        let mut undo = None;
        if self.yes && plan.is_of_use() {
            let path = self.keep.clone().unwrap_or_else(|| plan.undo_name().into());
            repaired.apply(&session.path(&path)).map_err(failed)?;
            undo = Some(path);
        }
        match self.json {
            true => ui::json(session, &view::value(plan, undo.as_deref())),
            false => ui::out(session, &view::text(plan, undo.as_deref())),
        }
        let is_well = plan.is_clean_after(undo.is_some());
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(ISSUES) })
    }
}
