//! Taking a pool over: it is opened for writing, its labels say from now on that it is active,
//! whose it is and where its devices are, and it is known by its name until it is exported.

use super::Args;
use crate::cmd::serve::background;
use crate::cmd::zpool::create::check_pool_name;
use crate::cmd::zpool::rewind::{RewindArgs, with_recovery};
use crate::cmd::zpool::settings::{self, CacheEntryOptions, PoolSetting};
use crate::failure::Failure;
use crate::found;
use crate::live::{self, LiveOptions, Tuning, invocation, print_txgs};
use crate::places::{candidates, import_places};
use crate::served::Server;
use crate::session::Session;
use crate::{host, known, local_time, queue, stored_only, ui};
use engine::live::{ImportOptions, LogDevices, cache_config};
use engine::pools::{Choice, Destroyed, check_kept_name, is_only_read};
use engine::{Candidate, Error, LivePool, OpenOptions, Place, Pool};
use imported::{EarlierState, Found, Known};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use term::escape::word;
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

/// Whether the pool is imported already: known here, or served. An entry that is left over, because
/// the devices of its pool are elsewhere by now, does not matter: the import rewrites it.
fn is_imported(session: &Session, pool: &Candidate) -> bool {
    let guid = pool.config.pool_guid;
    let is_it = |known: &Known| known.guid() == guid || known.is_on_devices_of(pool);
    let is_there = |known: &Known| !imported::is_gone(known, &import_places(session, &[]));
    Server::holds(session, guid)
        || known::pools(session).all().iter().any(|known| is_it(known) && is_there(known))
}

/// Whether a pool is of a version that is only read; reports it, unless that `is_wanted`.
fn must_only_read(session: &Session, pool: &Candidate, is_wanted: bool) -> bool {
    let is_old = is_only_read(pool);
    if is_old && !is_wanted {
        let version = pool.config.version;
        let note = "which zinc only reads: it is imported as with -o readonly=on";
        let name = pool.name();
        ui::note(session, &format!("warning: '{name}' is of version {version}, {note}"));
    }
    is_old
}

/// Whether another pool has this name already.
fn is_taken(session: &Session, name: &str, guid: u64) -> bool {
    let is_other = |other: u64, called: &str| called == name && other != guid;
    known::pools(session).all().iter().any(|known| is_other(known.guid(), known.name()))
        || Server::own(session).iter().any(|server| is_other(server.guid, &server.name))
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
                true => imported::look_for_any(known, &import_places(session, &[]))
                    .map_err(Failure::from),
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
                return Err(match self.new_name {
                    Some(_) => is_imported_already(name),
                    None => name_is_taken(name),
                });
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
        let labelled = candidate.name().to_owned();
        let guid = candidate.config.pool_guid;
        let name = self.name_for(&labelled, guid)?;
        let doing = format!("cannot import '{labelled}'");
        let settings = self.settings(&doing)?;
        let mut remembered = self.remembered(&doing, &settings)?;
        remembered.readonly |= must_only_read(session, candidate, remembered.readonly);
        known::check_writable(session, &doing, &remembered.cachefile)?;
        let refuse = || self.refuse_twice(session, &labelled, &name, candidate);
        refuse()?;
        self.refuse_denied(session, candidate, &doing, remembered.readonly)?;
        let mut options = self.pool.options(session);
        let (back, readonly) = (&self.take.back, remembered.readonly);
        let kind = if readonly { RewindKind::Read } else { RewindKind::Done };
        let back_to = back.txg(session, candidate, &options, self.take.back_to, kind, &doing)?;
        let usual = options.clone();
        let hinted = |failure| with_recovery(session, candidate, &usual, failure);
        options.checkpoint |= self.take.rewind;
        options.txg = back_to.as_ref().map(|(txg, _)| *txg);
        let say = || back_to.iter().for_each(|(_, text)| ui::out(session, text));
        if back.is_plan {
            self.check(session, candidate, options, readonly).map_err(hinted)?;
            say();
            return Ok(ExitCode::SUCCESS);
        }
        if readonly {
            remembered.state = match options.txg {
                None => options.checkpoint.then_some(EarlierState::Checkpoint),
                Some(txg) => Some(EarlierState::Txg(txg)),
            };
            let opened = Pool::open_candidate(candidate, &options);
            let pool = opened.map_err(|e| hinted(e.into()))?;
            say();
            let _names = known::pools(session).hold_names();
            refuse()?;
            settings::remember(session, &doing, &remembered, (cache_config(&pool), &name))?;
            return Ok(ExitCode::SUCCESS);
        }
        let how = self.how(options.txg);
        let mut first = Some(candidate.clone());
        let find = || {
            refuse()?;
            let again = || -> Result<Candidate, Failure> {
                let all = self.in_places(session)?;
                Ok(Choice::of(&guid.to_string()).among(all, &self.pool.search)?)
            };
            let candidate = first.take().map_or_else(again, Ok)?;
            Ok(Found::at_place(&known::pools(session), candidate))
        };
        let adjust = |options: &mut ImportOptions| self.adjust(options);
        let tunables = how.tuning.all(session)?;
        let (_, pool) = live::take(session, find, &how, &tunables, adjust).map_err(hinted)?;
        say();
        let given_up = pool.given_up_logs();
        let warning = |log: &_| views::import::given_up(log, local_time::local(session, log.time));
        given_up.iter().for_each(|log| ui::error(session, &warning(log)));
        let names = known::pools(session).hold_names();
        let noted =
            || settings::remember(session, &doing, &remembered, (pool.cache_config(), &name));
        if let Err(failure) = refuse().and_then(|()| noted()) {
            pool.export()?;
            return Err(failure);
        }
        drop(names);
        self.finish(session, pool, settings, &how)?;
        note_left_aside(session, candidate, &name);
        self.load_keys(session, &name)
    }

    /// Starts a server for the pool with its keys, if that was requested.
    fn load_keys(&self, session: &Session, name: &str) -> Result<ExitCode, Failure> {
        match self.take.load_keys {
            true => background::with_keys(session, &[], name, !self.take.no_mount),
            false => Ok(ExitCode::SUCCESS),
        }
    }

    /// The name that the pool gets.
    fn name_for(&self, labelled: &str, guid: u64) -> Result<String, Failure> {
        let name = self.new_name.clone().unwrap_or_else(|| labelled.to_owned());
        if self.new_name.is_some() {
            check_pool_name(&name, "import")?;
        } else if check_kept_name(&name).is_err() {
            let what = format!("cannot import '{name}': invalid character in pool name");
            return Err(Failure::new(what)
                .hint(format!("`zinc zpool import {guid} NEWNAME` gives it another")));
        }
        Ok(name)
    }

    /// How the pool is opened and shown; with a txg it goes back to that.
    fn how(&self, txg: Option<u64>) -> LiveOptions {
        LiveOptions {
            txgs: self.take.show_txgs,
            cache_mib: self.pool.open.cache_mib,
            wait: self.pool.open.wait,
            tuning: self.take.tuning.clone(),
            give_up: Vec::new(),
            txg,
        }
    }

    /// Whether the pool would be imported so.
    fn check(
        &self,
        session: &Session,
        pool: &Candidate,
        open: OpenOptions,
        readonly: bool,
    ) -> Result<(), Failure> {
        if readonly {
            return Ok(Pool::open_candidate(pool, &open).map(drop)?);
        }
        let mut options = ImportOptions { hostid: host::id(), ..ImportOptions::new(open) };
        options.user = session.user();
        self.adjust(&mut options);
        queue::check(session, self.pool.open.wait, pool, &options)
    }

    /// Adds the requested options of opening the pool.
    fn adjust(&self, options: &mut ImportOptions) {
        options.force = self.take.force;
        options.destroyed = self.destroyed;
        options.open.checkpoint |= self.take.rewind;
        options.adopt_paths = true;
        options.logs = match self.take.missing_log {
            true => LogDevices::GiveUp,
            false => LogDevices::Needed,
        };
        match (&self.new_name, self.take.temporary) {
            (Some(new), false) => options.rename = Some(new.clone()),
            (Some(new), true) => options.open.name = Some(new.clone()),
            (None, _) => {}
        }
    }

    fn remembered(
        &self,
        doing: &str,
        settings: &[PoolSetting],
    ) -> Result<CacheEntryOptions, Failure> {
        settings::remembered(doing, settings, self.take.root.as_deref(), self.take.temporary)
    }

    /// Neither is a pool imported that is imported already, nor is a name given twice.
    fn refuse_twice(
        &self,
        session: &Session,
        labelled: &str,
        name: &str,
        candidate: &Candidate,
    ) -> Result<(), Failure> {
        let guid = candidate.config.pool_guid;
        match (is_imported(session, candidate), &self.new_name) {
            (true, Some(_)) => Err(is_imported_already(labelled)),
            (is_imported, _) if is_imported || is_taken(session, name, guid) => {
                Err(name_is_taken(name))
            }
            _ => Ok(()),
        }
    }

    /// A device that this user may not open would be left behind by whatever is written.
    fn refuse_denied(
        &self,
        session: &Session,
        candidate: &Candidate,
        doing: &str,
        is_only_read: bool,
    ) -> Result<(), Failure> {
        let denied = self.denied(session, candidate);
        if denied.is_empty() {
            return Ok(());
        }
        if is_only_read {
            let all = denied.join("; ");
            ui::note(session, &format!("warning: '{}': {all}", candidate.name()));
            return Ok(());
        }
        let failure = Failure::new(format!("{doing}: one of its devices is not accessible"));
        let failure = denied.into_iter().fold(failure, Failure::because);
        Err(failure
            .hint("with -o readonly=on it is imported without that device; root may open it"))
    }

    /// Which devices of a pool are there and may not be opened, as sentences.
    pub fn denied(&self, session: &Session, candidate: &Candidate) -> Vec<String> {
        let search = &self.pool.search;
        let places: Vec<PathBuf> = import_places(session, search);
        let denied = imported::denied(candidate, &places).into_iter();
        let text = |path: PathBuf| {
            let path = printable(path.as_os_str().as_bytes());
            format!("cannot open '{path}': Permission denied")
        };
        denied.map(text).collect()
    }

    /// The properties that are set with the import.
    fn settings(&self, doing: &str) -> Result<Vec<PoolSetting>, Failure> {
        let settings = settings::parse_all(doing, &self.take.properties)?;
        let refused = settings.iter().find_map(|setting| setting.check_at_import().err());
        match refused.as_ref().and_then(Error::place) {
            Some(Place::Property(name)) => {
                let name = name.trim_start_matches("feature@");
                let what = format!("{doing}: feature '{name}' cannot be set at import time");
                Err(Failure::new(what).hint("`zinc zpool set` enables it afterwards"))
            }
            _ => Ok(settings),
        }
    }

    /// Sets the requested properties, and closes the pool.
    fn finish(
        &self,
        session: &Session,
        pool: LivePool,
        settings: Vec<PoolSetting>,
        how: &LiveOptions,
    ) -> Result<(), Failure> {
        for setting in settings {
            setting.store(&pool)?;
        }
        pool.log(&invocation(session))?;
        live::wait_for_resilver(session, &pool);
        let shown = print_txgs(session, &pool, how);
        known::pools(session).refresh(pool.guid(), &pool);
        pool.close()?;
        stored_only::note(session, &self.take.properties);
        shown
    }
}

/// Says which devices of a pool were not among the places that were searched.
fn note_left_aside(session: &Session, candidate: &Candidate, name: &str) {
    for path in imported::left_aside(candidate) {
        let note = format!(
            "note: '{name}' was imported without {}, which is a device of it: -d named other \
             places\n",
            printable(path.as_os_str().as_bytes())
        );
        ui::error(session, &note);
    }
}

fn is_imported_already(name: &str) -> Failure {
    Failure::new(format!("cannot import '{name}': it is imported already")).hint(format!(
        "run `zinc zpool export {}` first, then import it under the new name",
        word(name)
    ))
}

fn name_is_taken(name: &str) -> Failure {
    let what = format!("cannot import '{name}': a pool with that name already exists");
    Failure::new(what)
        .hint("use the form 'zpool import <pool | id> <newpool>' to give it a new name")
}
