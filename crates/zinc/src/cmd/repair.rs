//! `zinc repair`: a plan, and with `--yes` what it says.

use crate::args::{Reach, Wait};
use crate::cmd::verb::Verb;
use crate::failure::{Failure, ISSUES};
use crate::progress::while_showing;
use crate::session::Session;
use crate::{found, host, queue, ui};
use engine::devices::{AnyDevices, DeviceSource};
use engine::live::ImportOptions;
use engine::repair::{Error, Plan, RepairOptions, repair, undo};
use engine::{OpenOptions, Progress};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use views::repair as view;

/// Arguments of `zinc repair`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --yes nothing is written: the repair is done in memory and checked there, and what it would do
and leave is shown. The pool must not be in use.

Exit code 3: something is wrong, and stays so unless --yes is given or in spite of it.")]
pub struct Args {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// Do what the plan says
    #[arg(short, long)]
    yes: bool,
    /// Keep what is there now in this new file; POOL-TXG.undo when nothing is said
    #[arg(long, value_name = "FILE", requires = "yes")]
    keep: Option<PathBuf>,
    /// Put back what a repair kept in this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["yes", "json", "name"])]
    undo: Option<PathBuf>,
    /// Also a pool that another host used last, and did not export
    #[arg(short, long)]
    force: bool,
    /// What is written at most, in MiB; until it is, it takes twice that in memory
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

/// What went wrong, in the words of the command.
fn failed(what: &str, e: Error) -> Failure {
    match e {
        Error::Pool(e) => Failure::from(e).about(what),
        Error::NotNow { why, first } => Failure::new(what).because(why).hint(first),
        e => Failure::new(what).because(e.to_string()),
    }
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let source: Arc<dyn DeviceSource> = Arc::new(AnyDevices::default());
        if let Some(path) = &self.undo {
            return self.put_back(session, &session.path(path), &source);
        }
        let name = self.name.as_deref().unwrap_or_default();
        let find = || found::find(session, &self.search, name, Reach::Anywhere);
        let mut found = find()?;
        if queue::wait_for_writers(session, self.wait, &found.candidate, !self.yes)? {
            found = find()?;
        }
        let mut open = OpenOptions::default();
        found.complete(&mut open);
        let import = ImportOptions {
            hostid: host::id(),
            hostname: host::name(),
            force: self.force,
            ..ImportOptions::new(open)
        };
        let bytes_max = self.write_mib.saturating_mul(1 << 20);
        let options = RepairOptions { import, bytes_max, claims: self.yes };
        let what = format!("cannot repair '{name}'");
        let progress = Progress::new();
        let work = || repair(&found.candidate, source, &options, &progress);
        let repaired = while_showing(session, &progress, work).map_err(|e| failed(&what, e))?;
        let plan = repaired.plan();
        let undo = match self.yes && plan.is_of_use() {
            true => {
                let path = self.keep.clone();
                let usual = || PathBuf::from(format!("{}-{}.undo", plan.pool, plan.before));
                let path = session.path(&path.unwrap_or_else(usual));
                let cannot = |e: std::io::Error| {
                    Failure::new(format!("cannot write {}", path.display())).because(e.to_string())
                };
                let file = File::create_new(&path).map_err(cannot)?;
                // Its name is durable before what it is for.
                let folder =
                    path.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
                File::open(folder).and_then(|f| f.sync_all()).map_err(cannot)?;
                repaired.apply(&file).map_err(|e| failed(&what, e))?;
                Some(path)
            }
            false => None,
        };
        self.tell(session, plan, undo.as_deref());
        let is_well = plan.found.is_empty() || (undo.is_some() && plan.makes_clean());
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(ISSUES) })
    }
}

impl Args {
    fn tell(&self, session: &Session, plan: &Plan, undo: Option<&Path>) {
        if self.json {
            return ui::json(session, &view::value(plan, undo));
        }
        ui::out(session, &view::text(plan));
        ui::out(session, &view::end(plan, undo));
    }

    fn put_back(
        &self,
        session: &Session,
        path: &Path,
        source: &Arc<dyn DeviceSource>,
    ) -> Result<ExitCode, Failure> {
        let what = format!("cannot undo what {} is of", path.display());
        let mut file =
            File::open(path).map_err(|e| Failure::new(what.clone()).because(e.to_string()))?;
        let places: Vec<PathBuf> = self.search.iter().map(|p| session.path(p)).collect();
        let done = undo::put_back(&mut file, source, &places);
        let (head, bytes) = done.map_err(|e| failed(&what, e))?;
        ui::out(session, &view::put_back(&head, bytes));
        Ok(ExitCode::SUCCESS)
    }
}
