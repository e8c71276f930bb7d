//! Finding pools: those that are known by their names, any others in the places given with `-d`.
//!
//! A known pool's devices are looked for where they were, and when some are not there, in the
//! folders they were in and the usual places for devices, by guid. A name that is not known is
//! looked for nowhere, as with OpenZFS, but by verbs that only read and are meant for pools that
//! are not imported ([`Reach::Anywhere`]).

use crate::failure::Failure;
use crate::known::{self, Known, real};
use crate::others;
use crate::session::Session;
use engine::errors::PoolError as Error;
use engine::pools::{Absence, CandidateState, default_search_paths, scan};
use engine::{Candidate, LivePool, OpenOptions, Pool, SearchOptions};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Where a pool is looked for that is not known, when no places are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nowhere.
    #[default]
    Known,
    /// Where devices usually are; destroyed pools count too.
    Anywhere,
}

/// A pool that was found.
pub struct Found {
    /// Its devices.
    pub candidate: Candidate,
    /// How it stands in the list of known pools.
    pub listed: Listed,
}

/// How a pool that was found stands in the list of known pools.
#[derive(Clone, Default)]
pub struct Listed {
    /// The entry with its guid.
    known: Option<Known>,
    /// Its devices are not those of that entry but others with the guid, such as a copy.
    is_elsewhere: bool,
    /// It has devices that the entry does not name, or in places that it does not name.
    is_outdated: bool,
}

impl Listed {
    /// The known pool, when these are its devices.
    pub fn known(&self) -> Option<&Known> {
        self.known.as_ref().filter(|_| !self.is_elsewhere)
    }

    /// Writes anew what is known of the pool. Work on other devices with its guid changes nothing
    /// there.
    pub fn refresh(&self, session: &Session, pool: &LivePool) {
        if let Some(known) = self.known() {
            known::refresh(session, known.guid(), pool);
        }
    }

    /// Forgets the pool, which was exported or destroyed and had this guid last. A known pool stays
    /// known when it was a copy of it that was left, and its own devices are still there.
    pub fn forget(&self, session: &Session, guid: u64) {
        let stays = |known: &Known| self.is_elsewhere && look_for(known.clone()).is_ok();
        if self.known.as_ref().is_some_and(stays) {
            return;
        }
        known::forget(session, guid);
        if let Some(known) = self.known.as_ref().filter(|known| known.guid() != guid) {
            known::forget(session, known.guid());
        }
    }
}

impl Found {
    /// It was found in a place that was named, whether it is known or not.
    pub fn at_place(session: &Session, candidate: Candidate) -> Self {
        let known = known::by_guid(session, candidate.config.pool_guid);
        let is_elsewhere = known.as_ref().is_some_and(|known| is_elsewhere(&candidate, known));
        Self { candidate, listed: Listed { known, is_elsewhere, is_outdated: false } }
    }

    /// It is a known pool, on the devices that it is known to be on.
    pub fn is_the_known_one(&self) -> bool {
        self.listed.known().is_some()
    }

    /// Another command has changed what is known of it since it was found.
    pub fn is_overtaken(&self, session: &Session) -> bool {
        let was = self.listed.known.as_ref();
        let is = known::by_guid(session, was.map_or(self.guid(), Known::guid));
        match (was, is) {
            (Some(was), Some(is)) => !is.says_the_same_as(was),
            (was, is) => was.is_some() != is.is_some(),
        }
    }

    /// Writes anew what is known of it.
    pub fn refresh(&self, session: &Session, pool: &LivePool) {
        self.listed.refresh(session, pool);
    }

    /// The same for a pool that was only read, when devices of it were found that the list does
    /// not name.
    pub fn note(&self, session: &Session, pool: &Pool) {
        if let Some(known) = self.listed.known().filter(|_| self.listed.is_outdated) {
            known::note(session, known, pool);
        }
    }

    /// Writes down where devices are that are about to be added to it.
    pub fn announce(&self, session: &Session, paths: &[PathBuf]) {
        if let Some(known) = self.listed.known() {
            known::announce(session, known.guid(), paths);
        }
    }

    /// Forgets the pool, which was exported or destroyed.
    pub fn forget(&self, session: &Session) {
        self.listed.forget(session, self.guid());
    }

    /// Adds to the options what is known of its import.
    pub fn complete(&self, options: &mut OpenOptions) {
        let Some(known) = self.listed.known() else { return };
        options.altroot = known.altroot();
        options.name = (known.name() != self.candidate.name()).then(|| known.name().to_owned());
    }

    /// Why it could not be opened. With too few devices it can be shown all the same.
    pub fn failure(&self, error: Error) -> Failure {
        let is_shown = matches!(error, Error::MissingDevices { .. });
        let failure = Failure::from(error);
        match (self.listed.known(), is_shown) {
            (_, false) => failure,
            (Some(known), true) => failure.of_closed(known.candidate(Some(&self.candidate))),
            (None, true) => failure.of_closed(self.candidate.clone()),
        }
    }

    /// Whether it has this name or guid.
    pub fn is_called(&self, wanted: &str) -> bool {
        match self.listed.known() {
            Some(known) => known.is_called(wanted),
            None => self.candidate.name() == wanted || wanted.parse() == Ok(self.guid()),
        }
    }

    /// Its guid.
    pub fn guid(&self) -> u64 {
        self.candidate.config.pool_guid
    }

    /// It was exported and is not known to be imported again.
    pub fn is_exported(&self) -> bool {
        self.listed.known.is_none() && self.candidate.state() == CandidateState::Exported
    }
}

/// Whether a pool lies on other devices than the known pool with its guid.
fn is_elsewhere(candidate: &Candidate, known: &Known) -> bool {
    let here: BTreeSet<PathBuf> = candidate.leaves.values().map(|l| real(&l.path)).collect();
    let named: BTreeSet<PathBuf> = known.paths().iter().map(|path| real(path)).collect();
    if here.is_subset(&named) {
        return false;
    }
    // They may have moved, and be found where they are now without any place being named.
    look_for(known.clone()).map_or(true, |home| {
        let home: BTreeSet<PathBuf> =
            home.candidate.leaves.values().map(|l| real(&l.path)).collect();
        home != here
    })
}

/// Opens a file or disk for reading; an error when the path leads to anything else by now. A pipe
/// is not waited for.
pub fn open_device(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    match kind.is_file() || kind.is_block_device() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "neither a file nor a disk")),
    }
}

/// The pools in these places; without any, in those of `ZPOOL_IMPORT_PATH` or the usual ones.
pub fn candidates(session: &Session, search: &[PathBuf]) -> Result<Vec<Candidate>, Failure> {
    let paths = search.iter().map(|p| session.path(p)).collect();
    let found = scan(&SearchOptions { paths, ..SearchOptions::default() })?;
    Ok(Candidate::group(&found))
}

/// The places to search for pools to import.
pub fn import_places(search: &[PathBuf]) -> Vec<PathBuf> {
    let variable = std::env::var_os("ZPOOL_IMPORT_PATH").filter(|v| !v.is_empty());
    match variable {
        Some(paths) if search.is_empty() => std::env::split_paths(&paths).collect(),
        _ => search.to_vec(),
    }
}

/// The pool that `name` (a pool, its guid, or anything in a pool) belongs to.
pub fn find(
    session: &Session,
    search: &[PathBuf],
    name: &str,
    reach: Reach,
) -> Result<Found, Failure> {
    if search.is_empty() {
        if let Some(known) = known::find(session, name) {
            return look_for(known);
        }
        if reach == Reach::Known {
            return Err(not_known(session, name));
        }
    }
    let all = candidates(session, search)?;
    let lives = |c: &Candidate| c.state() != CandidateState::Destroyed;
    let is_guid = |c: &Candidate| crate::common::pool_of(name).parse() == Ok(c.config.pool_guid);
    let wanted = match reach {
        // A destroyed pool has no name any more; its guid still means it.
        Reach::Known => all.into_iter().filter(|c| lives(c) || is_guid(c)).collect(),
        Reach::Anywhere => all,
    };
    let found =
        pick(wanted, search, name, lives).map(|candidate| Found::at_place(session, candidate));
    found.map_err(|failure| others::explain(session, failure, name))
}

/// All known pools, or all in the places that are named, but destroyed ones and those of these
/// guids. What cannot be found of known ones is a failure among them.
pub fn all(
    session: &Session,
    search: &[PathBuf],
    but: &[u64],
) -> Result<Vec<Result<Found, Failure>>, Failure> {
    if search.is_empty() {
        let known = known::all(session).into_iter().filter(|known| !but.contains(&known.guid()));
        return Ok(known.map(look_for).collect());
    }
    let lives = |c: &Candidate| {
        c.state() != CandidateState::Destroyed && !but.contains(&c.config.pool_guid)
    };
    Ok(candidates(session, search)?
        .into_iter()
        .filter(lives)
        .map(|c| Ok(Found::at_place(session, c)))
        .collect())
}

/// The one candidate of that name or guid; where several have the name, the one `preferred` tells
/// from the others.
pub fn pick(
    candidates: Vec<Candidate>,
    search: &[PathBuf],
    name: &str,
    preferred: impl Fn(&Candidate) -> bool,
) -> Result<Candidate, Failure> {
    let wanted = crate::common::pool_of(name);
    let guid: Option<u64> = wanted.parse().ok();
    let is_it = |c: &Candidate| c.name() == wanted || Some(c.config.pool_guid) == guid;
    let others = candidates.iter().map(|c| (c.name().to_owned(), c.config.pool_guid)).collect();
    let mut found: Vec<_> = candidates.into_iter().filter(is_it).collect();
    if found.len() > 1 && found.iter().any(&preferred) {
        found.retain(&preferred);
    }
    match (found.len(), found.pop()) {
        (1, Some(one)) => Ok(one),
        (0, _) | (_, None) => {
            let searched = match search.is_empty() {
                true => default_search_paths(),
                false => search.to_vec(),
            };
            Err(Error::NoSuchPool { wanted: wanted.to_owned(), found: others, searched }.into())
        }
        (_, Some(last)) => {
            let guids = found.iter().chain([&last]).map(|c| c.config.pool_guid).collect();
            Err(Error::Ambiguous { name: wanted.to_owned(), guids }.into())
        }
    }
}

/// Why a pool of that name is out of this user's reach, when it is root's.
pub fn is_of_root(session: &Session, name: &str) -> Option<Failure> {
    let what =
        format!("cannot open '{}': permission denied", known::of_root(session, name)?.name());
    let failure = Failure::new(what).because("root has imported it, and may serve it");
    Some(failure.hint("run the command as root"))
}

fn not_known(session: &Session, name: &str) -> Failure {
    let wanted = crate::common::pool_of(name);
    if let Some(failure) = is_of_root(session, name) {
        return failure;
    }
    let failure = Failure::new(format!("cannot open '{wanted}': no such pool")).hint(
        "`zinc zpool import` lists what can be imported; \
         -d PATH finds a pool there for this command only",
    );
    others::explain(session, failure, wanted)
}

/// Where a known pool's devices were looked for, and what was found.
struct Sought {
    candidate: Option<Candidate>,
    /// It was found in other places than those that are written down.
    is_wider: bool,
    /// A path that may not be read.
    denied: Option<PathBuf>,
}

fn seek(known: &Known) -> Result<Sought, Failure> {
    let (mut there, mut denied) = (Vec::new(), None);
    for path in known.paths() {
        match open_device(&path) {
            Ok(_) => there.push(path),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => denied = denied.or(Some(path)),
            Err(_) => {}
        }
    }
    let first = if there.is_empty() { None } else { in_places(&there, known)? };
    let (candidate, is_wider) = match first {
        Some(candidate) if is_whole(&candidate, known) => (Some(candidate), false),
        first => match in_places(&wider(&known.paths()), known)? {
            Some(found) => (Some(found), true),
            None => (first, false),
        },
    };
    Ok(Sought { candidate, is_wider, denied })
}

/// No device of the pool is missing: none that is written down, and none of which its own labels
/// tell. They have one more when a command that added it ended before that was written down.
fn is_whole(candidate: &Candidate, known: &Known) -> bool {
    let is_there = |guid: &u64| candidate.leaves.contains_key(guid);
    let mut missing = candidate.missing(&candidate.tree, u64::MAX).into_iter();
    known.device_guids().iter().all(is_there)
        && known.aux_guids().all(|guid| candidate.aux.contains_key(&guid))
        && !missing.any(|device| device.absence == Absence::NotFound)
}

/// A known pool's devices, wherever they are now.
pub fn look_for(known: Known) -> Result<Found, Failure> {
    let Sought { candidate, is_wider, denied } = seek(&known)?;
    let name = known.name().to_owned();
    let Some(candidate) = candidate else {
        return Err(match denied {
            Some(path) => Failure::new(format!("cannot open '{name}': permission denied"))
                .because(format!("its device {} cannot be read", path.display())),
            None => absent(&name, &known.paths()).of_closed(known.candidate(None)),
        });
    };
    if candidate.state() == CandidateState::Destroyed {
        return Err(Failure::new(format!("cannot open '{name}': no such pool"))
            .because("its labels say that it was destroyed")
            .hint(format!("`zinc zpool export -f {name}` forgets it")));
    }
    let is_outdated = is_wider || known.is_changing();
    let listed = Listed { known: Some(known), is_elsewhere: false, is_outdated };
    Ok(Found { candidate, listed })
}

/// None of a known pool's devices is where it was, nor anywhere near: the entry is left over.
pub fn is_gone(known: &Known) -> bool {
    seek(known).is_ok_and(|sought| {
        let is_left = |c: &Candidate| c.state() != CandidateState::Destroyed;
        sought.denied.is_none() && !sought.candidate.as_ref().is_some_and(is_left)
    })
}

fn absent(name: &str, paths: &[PathBuf]) -> Failure {
    let mut failure = Failure::new(format!("cannot open '{name}': its devices are missing"));
    for path in paths {
        failure = failure.because(format!("{} does not lead to one of them", path.display()));
    }
    failure.hint(format!(
        "-d PATH names where they are now; `zinc zpool export -f {name}` forgets the pool"
    ))
}

/// The pool in these places. Those that cannot be read are left out.
fn in_places(places: &[PathBuf], known: &Known) -> Result<Option<Candidate>, Failure> {
    let readable = |p: &&PathBuf| match p.is_dir() {
        true => std::fs::read_dir(p).is_ok(),
        false => open_device(p).is_ok(),
    };
    let paths: Vec<PathBuf> = places.iter().filter(readable).cloned().collect();
    if paths.is_empty() {
        return Ok(None);
    }
    let found = scan(&SearchOptions { paths, ..SearchOptions::default() })?;
    let all = Candidate::group(&known.owned(found));
    // The guid of a pool is another after `zpool reguid`; those of its devices stay. That may have
    // ended before the new one was written down.
    let devices = known.device_guids();
    let has_devices = |c: &Candidate| {
        !devices.is_empty() && devices.iter().all(|guid| c.leaves.contains_key(guid))
    };
    let at = all.iter().position(|c| c.config.pool_guid == known.guid());
    let at = at.or_else(|| all.iter().position(has_devices));
    Ok(at.and_then(|at| all.into_iter().nth(at)))
}

/// Devices of a pool that were not among the places searched, but are where its labels say.
pub fn left_aside(candidate: &Candidate) -> Vec<PathBuf> {
    let missing = candidate.missing(&candidate.tree, u64::MAX);
    let absent = missing.into_iter().filter(|m| m.absence == Absence::NotFound);
    let named = absent.filter_map(|m| Some((m.guid, PathBuf::from(m.path?))));
    let is_there = |(guid, path): &(u64, PathBuf)| {
        let search = SearchOptions { paths: vec![path.clone()], ..SearchOptions::default() };
        let found = if path.is_absolute() { scan(&search).unwrap_or_default() } else { Vec::new() };
        let of_pool = |c: &Candidate| c.config.pool_guid == candidate.config.pool_guid;
        Candidate::group(&found).iter().any(|c| of_pool(c) && c.leaves.contains_key(guid))
    };
    named.filter(is_there).map(|(_, path)| path).collect()
}

/// Where devices may have gone from these paths: other names in the same folders, the folders of
/// `ZPOOL_IMPORT_PATH`, and for disks the usual places.
fn wider(paths: &[PathBuf]) -> Vec<PathBuf> {
    let folders: BTreeSet<PathBuf> =
        paths.iter().filter_map(|p| p.parent()).map(Path::to_owned).collect();
    let has_disks = folders.iter().any(|folder| folder.starts_with("/dev"));
    let usual = if has_disks { default_search_paths() } else { Vec::new() };
    usual.into_iter().chain(folders).chain(import_places(&[])).collect()
}
