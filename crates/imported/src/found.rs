//! Devices of known pools, wherever they are by now.

use crate::entry::real;
use crate::{Known, KnownPools, LookError};
use engine::devices::{DeviceSource, is_far, open_to_read};
use engine::pools::{Absence, CandidateState, EarlierState, default_search_paths, scan};
use engine::{Candidate, LivePool, OpenOptions, Pool, SearchOptions};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pool that was found.
pub struct Found {
    /// Its devices.
    pub candidate: Candidate,
    /// Its entry in the list of known pools.
    pub listed: Listed,
}

/// The entry of a pool that was found, in the list of known pools.
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
    #[must_use]
    pub fn known(&self) -> Option<&Known> {
        self.known.as_ref().filter(|_| !self.is_elsewhere)
    }

    /// Rewrites the entry of the pool. Work on other devices with its guid changes nothing there.
    pub fn refresh(&self, list: &KnownPools<'_>, pool: &LivePool) {
        if let Some(known) = self.known() {
            list.refresh(known.guid(), pool);
        }
    }

    /// Forgets the pool, which was exported or destroyed and had this guid last. A known pool stays
    /// known when it was a copy of it that was left, and its own devices are still there.
    pub fn forget(&self, list: &KnownPools<'_>, guid: u64) {
        let stays =
            |known: &Known| self.is_elsewhere && look_for(known.clone(), list.elsewhere()).is_ok();
        if self.known.as_ref().is_some_and(stays) {
            return;
        }
        list.forget(guid);
        if let Some(known) = self.known.as_ref().filter(|known| known.guid() != guid) {
            list.forget(known.guid());
        }
    }
}

impl Found {
    /// It was found in a place that was named, whether it is known or not.
    #[must_use]
    pub fn at_place(list: &KnownPools<'_>, candidate: Candidate) -> Self {
        let known = list.by_guid(candidate.config.pool_guid);
        let is_elsewhere =
            known.as_ref().is_some_and(|known| is_elsewhere(&candidate, known, list.elsewhere()));
        Self { candidate, listed: Listed { known, is_elsewhere, is_outdated: false } }
    }

    /// It is a known pool, on the devices that it is known to be on.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.listed.known().is_some()
    }

    /// It is a known pool that is not only read.
    #[must_use]
    pub fn is_for_writers(&self) -> bool {
        self.listed.known().is_some_and(|known| !known.is_readonly())
    }

    /// When the newer state of a known pool is on devices that are missing, and what is there was
    /// left behind by them: the txg that was known here, and the one that is there.
    #[must_use]
    pub fn newer_elsewhere(&self) -> Option<(u64, u64)> {
        let seen = self.listed.known()?.txg();
        let newest = self.candidate.newest_txg()?;
        let missing = self.candidate.missing(&self.candidate.tree, u64::MAX);
        let is_gone = missing.iter().any(|device| device.absence == Absence::NotFound);
        (is_gone && seen > newest).then_some((seen, newest))
    }

    /// Another command has changed what is known of it since it was found.
    #[must_use]
    pub fn is_overtaken(&self, list: &KnownPools<'_>) -> bool {
        let was = self.listed.known.as_ref();
        let is = list.by_guid(was.map_or(self.guid(), Known::guid));
        match (was, is) {
            (Some(was), Some(is)) => !is.differs_only_in_txg(was),
            (was, is) => was.is_some() != is.is_some(),
        }
    }

    /// Rewrites its entry.
    pub fn refresh(&self, list: &KnownPools<'_>, pool: &LivePool) {
        self.listed.refresh(list, pool);
    }

    /// The same for a pool that was only read, when devices of it were found that the list does
    /// not name.
    pub fn note(&self, list: &KnownPools<'_>, pool: &Pool) {
        if let Some(known) = self.listed.known().filter(|_| self.listed.is_outdated) {
            list.note(known, pool);
        }
    }

    /// Writes down where devices are that are about to be added to it.
    pub fn announce(&self, list: &KnownPools<'_>, paths: &[PathBuf]) {
        if let Some(known) = self.listed.known() {
            list.announce(known.guid(), paths);
        }
    }

    /// Forgets the pool, which was exported or destroyed.
    pub fn forget(&self, list: &KnownPools<'_>) {
        self.listed.forget(list, self.guid());
    }

    /// Adds to the options what is known of its import.
    pub fn complete(&self, options: &mut OpenOptions) {
        let Some(known) = self.listed.known() else { return };
        options.altroot = known.altroot();
        options.errors = known.errors();
        options.name = (known.name() != self.candidate.name()).then(|| known.name().to_owned());
        let is_newest = options.txg.is_none() && !options.checkpoint;
        match known.state().filter(|_| is_newest && known.is_readonly()) {
            Some(EarlierState::Checkpoint) => options.checkpoint = true,
            Some(EarlierState::Txg(txg)) => options.txg = Some(txg),
            None => {}
        }
    }

    /// Its entry and the devices that were found, for showing it when it cannot be opened.
    #[must_use]
    pub fn closed(&self) -> Candidate {
        match self.listed.known() {
            Some(known) => known.candidate(Some(&self.candidate)),
            None => self.candidate.clone(),
        }
    }

    /// Whether it has this name or guid.
    #[must_use]
    pub fn is_called(&self, wanted: &str) -> bool {
        match self.listed.known() {
            Some(known) => known.is_called(wanted),
            None => self.candidate.name() == wanted || wanted.parse() == Ok(self.guid()),
        }
    }

    /// Its guid.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.candidate.config.pool_guid
    }

    /// It was exported and is not known to be imported again.
    #[must_use]
    pub fn is_exported(&self) -> bool {
        self.listed.known.is_none() && self.candidate.state() == CandidateState::Exported
    }
}

/// Whether a pool lies on other devices than the known pool with its guid.
fn is_elsewhere(candidate: &Candidate, known: &Known, elsewhere: &SearchOptions) -> bool {
    let here: BTreeSet<PathBuf> = candidate.leaves.values().map(|l| real(&l.path)).collect();
    let named: BTreeSet<PathBuf> = known.paths().iter().map(|path| real(path)).collect();
    if here.is_subset(&named) {
        return false;
    }
    // They may have moved, and be found where they are now without any place being named.
    look_for(known.clone(), elsewhere).map_or(true, |home| {
        let home: BTreeSet<PathBuf> =
            home.candidate.leaves.values().map(|l| real(&l.path)).collect();
        home != here
    })
}

/// Where a known pool's devices were looked for, and what was found.
struct SearchResult {
    candidate: Option<Candidate>,
    /// It was found in other places than those that are written down.
    is_wider: bool,
    /// A path that may not be read.
    denied: Option<PathBuf>,
}

fn seek(known: &Known, elsewhere: &SearchOptions) -> engine::Result<SearchResult> {
    let (mut there, mut denied) = (Vec::new(), None);
    for path in known.paths() {
        if is_far(&path) {
            // Whether it answers is found out once, when it is searched.
            there.push(path);
            continue;
        }
        match open_to_read(&path) {
            Ok(_) => there.push(path),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => denied = denied.or(Some(path)),
            Err(_) => {}
        }
    }
    let source = &elsewhere.source;
    let first = if there.is_empty() { None } else { in_places(&there, source, known)? };
    let (candidate, is_wider) = match first {
        Some(candidate) if is_whole(&candidate, known) => (Some(candidate), false),
        first => match in_places(&wider(&known.paths(), &elsewhere.paths), source, known)? {
            Some(found) => (Some(found), true),
            None => (first, false),
        },
    };
    Ok(SearchResult { candidate, is_wider, denied })
}

/// No device of the pool is missing: none that is written down, and none of which its own labels
/// tell. They have one more when a command that added it ended before that was written down.
fn is_whole(candidate: &Candidate, known: &Known) -> bool {
    let is_there = |guid: &u64| candidate.leaves.contains_key(guid);
    let mut missing = candidate.missing(&candidate.tree, u64::MAX).into_iter();
    known.device_guids().iter().all(is_there)
        // A spare that is in use, or was when it went away, has the label of a leaf.
        && known.aux_guids().all(|guid| candidate.aux.contains_key(&guid) || is_there(&guid))
        && !missing.any(|device| device.absence == Absence::NotFound)
}

/// A known pool's devices, wherever they are now: where they were, in the folders they were in,
/// with disks the usual places, and the places of this search, whose source opens them.
pub fn look_for(known: Known, elsewhere: &SearchOptions) -> Result<Found, LookError> {
    let found = look_for_any(known, elsewhere)?;
    match (found.candidate.state(), found.listed.known()) {
        (CandidateState::Destroyed, Some(known)) => {
            Err(LookError::Destroyed { name: known.name().to_owned() })
        }
        _ => Ok(found),
    }
}

/// The same, also when the pool was destroyed.
pub fn look_for_any(known: Known, elsewhere: &SearchOptions) -> Result<Found, LookError> {
    let SearchResult { candidate, is_wider, denied } = seek(&known, elsewhere)?;
    let name = || known.name().to_owned();
    let candidate = match (candidate, denied) {
        (Some(candidate), _) => candidate,
        (None, Some(path)) => return Err(LookError::Denied { name: name(), path }),
        (None, None) => return Err(LookError::Absent(Box::new(known))),
    };
    let has_new_guid = known.guid() != candidate.config.pool_guid;
    let is_outdated = is_wider || known.is_changing() || has_new_guid;
    let listed = Listed { known: Some(known), is_elsewhere: false, is_outdated };
    Ok(Found { candidate, listed })
}

/// None of a known pool's devices is where it was, nor anywhere near: the entry is left over.
#[must_use]
pub fn is_gone(known: &Known, elsewhere: &SearchOptions) -> bool {
    seek(known, elsewhere).is_ok_and(|sought| {
        let is_left = |c: &Candidate| c.state() != CandidateState::Destroyed;
        sought.denied.is_none() && !sought.candidate.as_ref().is_some_and(is_left)
    })
}

/// The pool in these places. Those that cannot be read are left out.
fn in_places(
    places: &[PathBuf],
    source: &Arc<dyn DeviceSource>,
    known: &Known,
) -> engine::Result<Option<Candidate>> {
    let readable = |p: &&PathBuf| match p.is_dir() {
        true => std::fs::read_dir(p).is_ok(),
        false => is_far(p) || open_to_read(p).is_ok(),
    };
    let paths: Vec<PathBuf> = places.iter().filter(readable).cloned().collect();
    if paths.is_empty() {
        return Ok(None);
    }
    let found = scan(&SearchOptions { paths, source: Arc::clone(source), leaves_out: true })?;
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
#[must_use]
pub fn left_aside(candidate: &Candidate, source: &Arc<dyn DeviceSource>) -> Vec<PathBuf> {
    let missing = candidate.missing(&candidate.tree, u64::MAX);
    let absent = missing.into_iter().filter(|m| m.absence == Absence::NotFound);
    let named = absent.filter_map(|m| Some((m.guid, PathBuf::from(m.path?))));
    let is_there = |(guid, path): &(u64, PathBuf)| {
        let (paths, source) = (vec![path.clone()], Arc::clone(source));
        let search = SearchOptions { paths, source, leaves_out: false };
        let found = if path.is_absolute() { scan(&search).unwrap_or_default() } else { Vec::new() };
        let of_pool = |c: &Candidate| c.config.pool_guid == candidate.config.pool_guid;
        Candidate::group(&found).iter().any(|c| of_pool(c) && c.leaves.contains_key(guid))
    };
    named.filter(is_there).map(|(_, path)| path).collect()
}

/// Devices in these places that may not be read: what is looked for may be there.
#[must_use]
pub fn unread(places: &[PathBuf]) -> Vec<String> {
    const SHOWN: usize = 8;
    let paths = places.to_vec();
    let options = SearchOptions { paths, ..Default::default() };
    let denied = engine::pools::denied(&options);
    let mut out: Vec<String> = denied
        .iter()
        .take(SHOWN)
        .map(|p| format!("cannot open '{}': Permission denied", p.display()))
        .collect();
    if denied.len() > SHOWN {
        out.push(format!("and {} more devices", denied.len() - SHOWN));
    }
    out
}

/// Where devices may have gone from these paths: other names in the same folders, for disks the
/// usual places, and these folders.
fn wider(paths: &[PathBuf], elsewhere: &[PathBuf]) -> Vec<PathBuf> {
    let (far, near): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().partition(|p| is_far(p));
    let folders: BTreeSet<PathBuf> =
        near.into_iter().filter_map(|p| p.parent()).map(Path::to_owned).collect();
    let has_disks = folders.iter().any(|folder| folder.starts_with("/dev"));
    let usual = if has_disks { default_search_paths() } else { Vec::new() };
    // A remote device is nowhere else.
    let far = far.into_iter().cloned();
    usual.into_iter().chain(folders).chain(elsewhere.iter().cloned()).chain(far).collect()
}
