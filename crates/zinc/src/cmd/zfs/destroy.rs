//! `zinc zfs destroy`: file systems, volumes, snapshots (also lists and ranges of them), bookmarks.

use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::{self, LiveArgs, LiveOptions};
use crate::mounting::while_unmounted;
use crate::progress::while_wanted;
use crate::refusals::cannot;
use crate::session::Session;
use crate::ui;
use ::mount::datasets::{MountScope, Unmounting};
use engine::datasets::{Destroy, DestroyPlan};
use engine::{Error, ErrorKind, Pool, Refusal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use term::human::nicebytes;
use views::cannot::NO_SNAPSHOTS;

/// Arguments of `zinc zfs destroy`.
#[derive(clap::Args)]
#[command(after_help = "\
-d PATH names where to search for devices, as everywhere; -d without a path that exists is OpenZFS's
-d, and destroys snapshots that are held or cloned as soon as they are not any more (--defer).
Snapshots: DATASET@A,B,C names several, DATASET@A%B all from A to B, DATASET@%B and @A% all before
and after.")]
pub struct Args {
    /// A place to search for devices (repeatable); without a value: defer, as --defer
    #[arg(short = 'd', value_name = "PATH", num_args = 0..=1, default_missing_value = "")]
    defer_or_path: Vec<String>,
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    how: LiveOptions,
    /// Also destroy all datasets below, or the snapshots of this name of all datasets below
    #[arg(short = 'r')]
    recursive: bool,
    /// Also destroy dependent clones
    #[arg(short = 'R')]
    clones: bool,
    /// Also when programs use it: they lose access to the files they have open
    #[arg(short = 'f')]
    force: bool,
    /// Print what would be destroyed, and destroy nothing
    #[arg(short = 'n')]
    dry: bool,
    /// Print what is destroyed
    #[arg(short = 'v')]
    verbose: bool,
    /// Print for programs (tabs between columns)
    #[arg(short = 'p')]
    parsable: bool,
    /// Defer the destruction of held or cloned snapshots until they are released
    #[arg(long)]
    defer: bool,
    /// What to destroy
    #[arg(value_name = "DATASET|SNAPSHOT|BOOKMARK")]
    names: Vec<String>,
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        let live = LiveArgs { search: self.search.clone(), options: self.how.clone() };
        let names_no_path = self.defer_or_path.iter().all(String::is_empty);
        Served::everyone_if(names_no_path && live.is_for_everyone(session, &self.names))
    }

    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        for value in std::mem::take(&mut self.defer_or_path) {
            if !value.is_empty() && session.path(Path::new(&value)).exists() {
                self.search.push(PathBuf::from(value));
                continue;
            }
            self.defer = true;
            self.names.extend((!value.is_empty()).then_some(value));
        }
        let [name] = self.names.as_slice() else {
            return Err(Failure::usage("destroy takes one dataset, or snapshots of one"));
        };
        if name.ends_with('@') {
            let why = format!("'{name}' names no snapshot");
            return Err(Failure::new(NO_SNAPSHOTS).because(why));
        }
        let destroy = self.destroy(name);
        let plan = |pool: &Pool| destroy.plan(pool).map_err(|e| failed(name, e));
        if self.dry {
            let pool = live::look(session, &self.search, &self.how, name)?;
            self.print_plan(session, &pool, &plan(&pool)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        live::change(session, &self.search, &self.how, name, |pool| {
            let plan = plan(pool.view())?;
            self.print_plan(session, pool.view(), &plan)?;
            let names: Vec<String> = plan.names().map(|name| name.to_string()).collect();
            let goes = |mounted: &str| names.iter().any(|name| name == mounted);
            let (which, force) = (MountScope::All, self.force);
            let down = Unmounting { affects: &goes, again: &|_| None, which, force };
            pool.check_takes_changes().map_err(|e| failed(name, e.into()))?;
            while_unmounted(session, &down, || {
                while_wanted(session, |progress| plan.run(pool, progress))
                    .map_err(|e| failed(name, e))
            })
        })
    }
}

impl Args {
    fn destroy(&self, name: &str) -> Destroy {
        let mut destroy = Destroy::new(name);
        if self.recursive {
            destroy = destroy.recursive();
        }
        if self.clones {
            destroy = destroy.with_clones();
        }
        if self.defer { destroy.deferred() } else { destroy }
    }

    fn print_plan(
        &self,
        session: &Session,
        pool: &Pool,
        plan: &DestroyPlan,
    ) -> Result<(), Failure> {
        if !(self.verbose || self.parsable) {
            return Ok(());
        }
        let will = if self.dry { "would" } else { "will" };
        let mut text = String::new();
        for name in plan.names() {
            text.push_str(&match self.parsable {
                true => format!("destroy\t{name}\n"),
                false => format!("{will} destroy {name}\n"),
            });
        }
        if let Some(bytes) = plan.reclaims(pool)? {
            text.push_str(&match self.parsable {
                true => format!("reclaim\t{bytes}\n"),
                false => format!("{will} reclaim {}\n", nicebytes(bytes)),
            });
        }
        ui::out(session, &text);
        Ok(())
    }
}

/// Why something of it was not destroyed.
fn failed(name: &str, e: Error) -> Failure {
    let about = e.operand().or(e.dataset()).unwrap_or_default();
    match (e.kind(), e.operand()) {
        (ErrorKind::Cancelled, _) => e.into(),
        (ErrorKind::NotFound, Some(snapshot)) if snapshot.contains('@') => {
            Failure::new(NO_SNAPSHOTS).because(format!("there is no snapshot '{snapshot}'"))
        }
        (ErrorKind::NotFound, _) if about.contains('#') => {
            Failure::new(format!("bookmark '{about}' does not exist."))
        }
        (ErrorKind::Refused(Refusal::Held(_) | Refusal::Busy), _) if about.contains('@') => {
            let failure = Failure::new(format!("cannot destroy snapshot {about}: dataset is busy"));
            let hint = e.hint().map(views::hints::text);
            hint.into_iter().fold(failure, Failure::hint)
        }
        _ => cannot("destroy", name, e),
    }
}
