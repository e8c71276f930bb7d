//! Taking a pool over: it is opened for writing, its labels say from now on that it is active,
//! whose it is and where its devices are, and it is known by its name until it is exported.

use super::Args;
use crate::cmd::serve::background;
use crate::cmd::zpool::rewind::{RewindArgs, with_recovery};
use crate::cmd::zpool::{listed, settings};
use crate::failure::Failure;
use crate::found;
use crate::live::{self, LiveOptions, Tuning, invocation, print_txgs};
use crate::places::{candidates, elsewhere, import_places};
use crate::served::Server;
use crate::session::Session;
use crate::{known, local_time, queue, stored_only, ui};
use engine::live::{ImportOptions, LogDevices};
use engine::pools::denied_devices;
use engine::pools::{Choice, Destroyed, Import, ImportPlan, ImportedPool};
use engine::{Candidate, Error, ErrorKind, ImportRefusal, Place};
use hostfs::host;
use imported::{Found, Importing};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use views::import::RewindKind;
use views::places::printable;

/// What only matters when a pool is taken over.
#[derive(clap::Args)]
pub struct TakeArgs {
    /// Import all pools found
    #[arg(short = 'a')]
    pub all: bool,
    /// Also when another system used it last and did not export it
    #[arg(short = 'f')]
    force: bool,
    /// Also when log devices are missing; synchronous writes that only they have are lost
    #[arg(short = 'm')]
    missing_log: bool,
    /// Go back to the checkpoint permanently: later changes are lost (with -o readonly=on nothing
    /// is written)
    #[arg(long = "rewind-to-checkpoint", conflicts_with = "rewinding")]
    rewind: bool,
    #[command(flatten)]
    back: RewindArgs,
    /// Go back permanently to this txg, or to the newest readable one before it
    #[arg(short = 'T', value_name = "TXG", group = "rewinding")]
    back_to: Option<u64>,
    /// Mount nothing (zinc only mounts with -l)
    #[arg(short = 'N')]
    no_mount: bool,
    /// Load the keys of encrypted datasets: the pool is served from then on, and mounted
    #[arg(short = 'l')]
    load_keys: bool,
    /// Accepted: zinc always searches devices without -c
    #[arg(short = 's')]
    scan: bool,
    /// Find pools by this cache file instead of searching for devices
    #[arg(short = 'c', value_name = "CACHEFILE", conflicts_with = "search")]
    cache: Option<PathBuf>,
    /// readonly=on: write nothing until the pool is exported; cachefile: the file that remembers
    /// the pool, or none; others are set as properties (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Put mount points below this directory (altroot), and forget the pool when the machine
    /// restarts (cachefile=none)
    #[arg(short = 'R', value_name = "ROOT")]
    root: Option<String>,
    /// NEWNAME is temporary: it is not written, and lasts until the pool is exported or the machine
    /// restarts
    #[arg(short = 't', requires = "new_name")]
    temporary: bool,
    /// Print what each transaction group did
    #[arg(long = "show-txgs")]
    show_txgs: bool,
    #[command(flatten)]
    tuning: Tuning,
}

/// Whether the pool is imported already: known here, or served.
fn is_imported(session: &Session, pool: &Candidate) -> bool {
    Server::holds(session, pool.config.pool_guid) || known::pools(session).is_imported(pool)
}

impl Args {
    /// The pools in the places that were named, or in a cache file.
    fn in_places(&self, session: &Session) -> Result<Vec<Candidate>, Failure> {
        let Some(file) = &self.take.cache else {
            return candidates(session, &import_places(session, &self.pool.search));
        };
        let mut out = Vec::new();
        for known in known::read(session, &session.path(file))? {
            let found = match self.destroyed {
                true => imported::look_for_any(known, &elsewhere(session)).map_err(Failure::from),
                false => found::look_for(session, known),
            };
            match found {
                Ok(found) => out.push(found.candidate),
                Err(failure) => {
                    failure.report(session);
                }
            }
        }
        Ok(out)
    }

    /// Those of them that can be shown: without a name only what is not imported already.
    pub fn shown(&self, session: &Session) -> Result<Vec<Candidate>, Failure> {
        let mut all = self.in_places(session)?;
        if self.name.is_none() && !self.txgs {
            all.retain(|c| !is_imported(session, c));
        }
        Ok(all)
    }

    /// A pool of this name or guid: a destroyed one if one was requested.
    pub fn choice<'a>(&self, name: &'a str) -> Choice<'a> {
        let destroyed = if self.destroyed { Destroyed::Only } else { Destroyed::Never };
        Choice::of(name).destroyed(destroyed)
    }

    /// Imports the pool that was named, or all.
    pub fn import(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = self.in_places(session)?;
        let Some(name) = &self.name else {
            let is_new = |c: &Candidate| self.is_wanted(c) && !is_imported(session, c);
            let chosen: Vec<_> = found.into_iter().filter(is_new).collect();
            if chosen.is_empty() {
                return self.none(session);
            }
            let mut code = ExitCode::SUCCESS;
            for candidate in chosen {
                let taken = self.take(session, &candidate);
                let one = taken.unwrap_or_else(|failure| failure.report(session));
                code = if one == ExitCode::SUCCESS { code } else { one };
            }
            return Ok(code);
        };
        // Among several of that name the one that is not imported yet is meant.
        let choice = self.choice(name).preferring(|c| !is_imported(session, c));
        if !found.iter().any(|c| choice.fits(c)) {
            if known::pools(session).find(name).is_some() {
                let why = match self.new_name {
                    Some(_) => ImportRefusal::Imported,
                    None => ImportRefusal::NameTaken,
                };
                return Err(why.of(name).into());
            }
            let hint = match !self.destroyed && found.iter().any(|c| c.is_called(name)) {
                true => "it was destroyed: import it with -D",
                false => "name directories, files or disks to search with -d PATH",
            };
            let what = format!("cannot import '{name}': no such pool available");
            let places = &self.pool.options(session).search.paths;
            let failure = imported::unread(places).into_iter();
            return Err(failure.fold(Failure::new(what), Failure::because).hint(hint));
        }
        self.take(session, &choice.among(found, &self.pool.search)?)
    }

    fn take(&self, session: &Session, candidate: &Candidate) -> Result<ExitCode, Failure> {
        let doing = format!("cannot import '{}'", candidate.name());
        let import = self.plain(session, candidate)?;
        let settings = settings::parse_all(&doing, &self.take.properties)?;
        let (root, is_passing) = (self.take.root.as_deref(), self.take.temporary);
        let remembered = settings::remembered(&doing, &settings, root, is_passing)?;
        let import = settings.into_iter().try_fold(import, Import::set);
        let import = import.map_err(|e| not_set(&doing, e))?;
        if let Some(version) = import.version_only_read() {
            let note = "which zinc only reads: it is imported as with -o readonly=on";
            let name = candidate.name();
            ui::note(session, &format!("warning: '{name}' is of version {version}, {note}"));
        }
        let list = listed::list(session, remembered);
        let plan = import.plan(&list).map_err(|e| match e.kind() {
            ErrorKind::NotImported(_) => e.into(),
            _ => Failure::from(e).about(&doing),
        })?;
        if !plan.denied().is_empty() {
            let all: Vec<String> = plan.denied().iter().map(|p| views::places::denied(p)).collect();
            ui::note(session, &format!("warning: '{}': {}", candidate.name(), all.join("; ")));
        }
        let kind = if plan.is_read_only() { RewindKind::Read } else { RewindKind::Done };
        let text = self.take.back.report(session, candidate.name(), plan.rewind(), kind);
        let say = || text.iter().for_each(|text| ui::out(session, text));
        let usual = self.pool.options(session);
        let hinted = |failure| with_recovery(session, candidate, &usual, failure);
        if self.take.back.is_plan {
            self.check(session, &plan).map_err(hinted)?;
            say();
            return Ok(ExitCode::SUCCESS);
        }
        let how = self.how();
        let name = plan.name().to_owned();
        let pool = plan.run_with(&list, |plan| {
            let opened = self.open(session, plan, &list, &how).map_err(hinted)?;
            say();
            Ok::<_, Failure>(opened)
        })?;
        if let ImportedPool::ReadOnly(_) = pool {
            return Ok(ExitCode::SUCCESS);
        }
        let mut shown = Ok(());
        pool.close(&list, |pool| {
            live::wait_for_resilver(session, pool);
            shown = print_txgs(session, pool, &how);
        })?;
        stored_only::note(session, &self.take.properties);
        shown?;
        note_left_aside(session, candidate, &name);
        self.load_keys(session, &name)
    }

    /// The import of this pool, as requested but for properties.
    fn plain(&self, session: &Session, candidate: &Candidate) -> Result<Import, Failure> {
        let mut open = self.pool.options(session);
        open.checkpoint |= self.take.rewind;
        open.txg = None;
        let logs = if self.take.missing_log { LogDevices::GiveUp } else { LogDevices::Needed };
        let options = ImportOptions {
            hostid: host::id(),
            user: session.user(),
            force: self.take.force,
            destroyed: self.destroyed,
            logs,
            ..ImportOptions::new(open)
        };
        let import = Import::new(candidate.clone(), options)
            .searched_in(import_places(session, &self.pool.search))
            .by(invocation(session));
        let import = match self.take.back.reach(self.take.back_to) {
            Some(reach) => import.going_back(reach),
            None => import,
        };
        Ok(match &self.new_name {
            Some(name) if self.take.temporary => import.renamed_for_now(name)?,
            Some(name) => import.renamed(name)?,
            None => import,
        })
    }

    /// Opens the pool: for writing when other processes that have it are done.
    fn open(
        &self,
        session: &Session,
        plan: &ImportPlan,
        list: &Importing<'_>,
        how: &LiveOptions,
    ) -> Result<ImportedPool, Failure> {
        if plan.is_read_only() {
            return Ok(plan.open()?);
        }
        let guid = plan.candidate().config.pool_guid;
        let mut first = Some(plan.candidate().clone());
        let find = || {
            plan.check_conflict(list)?;
            let again = || -> Result<Candidate, Failure> {
                let all = self.in_places(session)?;
                Ok(Choice::of(&guid.to_string()).among(all, &self.pool.search)?)
            };
            let candidate = first.take().map_or_else(again, Ok)?;
            Ok(Found::at_place(&known::pools(session), candidate))
        };
        let tunables = how.tuning.all(session)?;
        let adjust = |options: &mut ImportOptions| plan.adjust(options);
        let (_, pool) = live::take(session, find, how, &tunables, adjust)?;
        let warning = |log: &_| views::import::given_up(log, local_time::local(session, log.time));
        pool.given_up_logs().iter().for_each(|log| ui::note(session, &warning(log)));
        Ok(ImportedPool::Writable(Box::new(pool)))
    }

    /// Starts a server for the pool with its keys, if that was requested.
    fn load_keys(&self, session: &Session, name: &str) -> Result<ExitCode, Failure> {
        match self.take.load_keys {
            true => background::with_keys(session, &[], name, !self.take.no_mount),
            false => Ok(ExitCode::SUCCESS),
        }
    }

    /// How the pool is opened and shown.
    fn how(&self) -> LiveOptions {
        LiveOptions {
            txgs: self.take.show_txgs,
            cache_mib: self.pool.open.cache_mib,
            wait: self.pool.open.wait,
            tuning: self.take.tuning.clone(),
            ..LiveOptions::default()
        }
    }

    /// Whether the pool would be imported so.
    fn check(&self, session: &Session, plan: &ImportPlan) -> Result<(), Failure> {
        match plan.is_read_only() {
            true => Ok(plan.check_open()?),
            false => queue::check(session, self.pool.open.wait, plan.candidate(), plan.options()),
        }
    }

    /// Which devices of a pool are there and may not be opened, as sentences.
    pub fn denied(&self, session: &Session, candidate: &Candidate) -> Vec<String> {
        let places = import_places(session, &self.pool.search);
        let denied = denied_devices(candidate, &places).into_iter();
        denied.map(|path| views::places::denied(&path)).collect()
    }
}

/// Why a property is not set with an import.
fn not_set(doing: &str, e: Error) -> Failure {
    match e.place() {
        Some(Place::Property(name)) => {
            let name = name.trim_start_matches("feature@");
            let what = format!("{doing}: feature '{name}' cannot be set at import time");
            Failure::new(what).hint("`zinc zpool set` enables it afterwards")
        }
        _ => e.into(),
    }
}

/// Says which devices of a pool were not among the places that were searched.
fn note_left_aside(session: &Session, candidate: &Candidate, name: &str) {
    for path in imported::left_aside(candidate, &session.devices()) {
        let note = format!(
            "note: '{name}' was imported without {}, which is a device of it: -d named other \
             places\n",
            printable(path.as_os_str().as_bytes())
        );
        ui::error(session, &note);
    }
}
