//! Devices that come back as other files or disks than those that left.
//!
//! # Theory
//!
//! A file that was moved away and is back is the one that the pool has had open all the time
//! (`is_there_again`). Everything else that may be a leaf's device is found by its label: a disk
//! that was plugged in again, also under another name; a file that was copied back into its place;
//! a device that was not there when the pool was opened.
//!
//! ```text
//! what leaves are missing  ->  [`DeviceSearch::search`]  ->  [`LivePool::use_returned`]
//!     (`missing`)                what is new there,       by label, uberblocks and log
//!                                without the pool
//! ```
//!
//! The search needs no pool, for a disk that hangs holds it up. It lists the places in which the
//! devices of the pool are, and opens a file or disk once for each [`Version`] of it. A file is
//! looked at when it has not changed for [`QUIET`]: what is being copied has labels before it has
//! data.
//!
//! Where a leaf was, any earlier state of it is used, and brought what it lacks by its log. That
//! place may have several names: a link, a disk with the number of a partition.
//! *Elsewhere* only the state in which it left is: a copy that was put aside on purpose would be
//! written over. A far leaf is not looked for elsewhere at all: a file here that has its label may
//! be what its server writes to. What is of this pool and not used is refused with a reason, and
//! changes nothing.
//! The reason stands at the leaf in reports of the pool until the leaf is used again.

use super::LivePool;
use super::config_edit::leaf_of;
use super::new_vdevs::DEVICE_MIN;
use super::online::OwnChanges;
use super::paths::{is_place, places};
use crate::assemble::newest_label;
use crate::error::{Error, Result};
use crate::not_used::{NotUsed, Refused};
use crate::refusal::{DeviceFault, PoolRefusal};
use crate::scan::{FILE_SIZE_MIN, FoundLeaf, SearchOptions, scan};
use device::{DeviceSource, Version};
use ondisk::config::{LabelConfig, VdevConfig};
use rt::Rt;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vdev::{Reason, VdevState, device_size_min};

/// How long a file has to be as it is before it is looked at.
const QUIET: Duration = Duration::from_secs(3);
/// The time between two searches, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Listing places takes at most one part in this number of the time.
const SHARE: u32 = 50;
/// When what should have been used, and could not be, is tried again.
const AGAIN: Duration = Duration::from_mins(1);
/// How long a device that went away is expected back at least.
const MOMENT: Duration = Duration::from_secs(5);
/// How long what came meanwhile is waited for, to be looked at.
const PATIENCE: Duration = Duration::from_secs(15);

/// Leaves whose devices are not there.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    pool: u64,
    /// Their guids, and where they were.
    leaves: BTreeMap<u64, Option<PathBuf>>,
    /// The places in which the devices of the pool are.
    places: BTreeSet<PathBuf>,
    /// Where its other leaves are.
    used: BTreeSet<PathBuf>,
}

impl Missing {
    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Whether a leaf that is missing may be found at a path. A far one is nowhere but where its
    /// name says: what is here with its label may be the file that its server writes to.
    fn may_be_at(&self, guid: u64, path: &Path) -> bool {
        self.leaves.get(&guid).is_some_and(|place| match place {
            Some(own) if far::is_far(own) => own == path,
            _ => true,
        })
    }

    /// Whose place that is, by any of its names, and the name by which the pool has it. Asks the
    /// system.
    fn place_of(&self, path: &Path) -> Option<(u64, &Path)> {
        let named = || self.leaves.iter().filter_map(|(guid, own)| Some((*guid, own.as_deref()?)));
        let exactly = named().find(|(_, own)| *own == path);
        exactly.or_else(|| named().find(|(_, own)| is_place(own, path)))
    }
}

/// What may be the device of a leaf that is missing.
pub struct FoundDevice {
    leaf: u64,
    path: PathBuf,
    /// The place of a leaf's device that this is, by the name that the pool has for it.
    place: Option<PathBuf>,
    /// Its label; `None`: it has none, and is where the leaf's device was.
    found: Option<FoundLeaf>,
}

/// What became of something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The leaf.
    pub leaf: u64,
    /// Where it was found.
    pub path: PathBuf,
    /// Why it is not used; `None`: it is.
    pub refusal: Option<NotUsed>,
}

/// What was seen of a file or disk.
struct LastScan {
    version: Version,
    /// When it is to be opened; `None`: it was.
    due: Option<Duration>,
}

/// Looks for the devices of missing leaves, as often as it is asked to.
pub struct DeviceSearch {
    rt: Rt,
    source: Arc<dyn DeviceSource>,
    leaves: Vec<u64>,
    seen: HashMap<PathBuf, LastScan>,
    not_before: Duration,
    /// When what is missing was not what is missing now.
    since: Duration,
}

impl DeviceSearch {
    /// Nothing was seen yet. `source` is what lists and opens devices.
    #[must_use]
    pub fn new(rt: &Rt, source: Arc<dyn DeviceSource>) -> Self {
        let (leaves, seen, not_before, since) = Default::default();
        Self { rt: rt.clone(), source, leaves, seen, not_before, since }
    }

    /// What has come since the last time that may be one of those that are missing. Waits for
    /// devices that are opened.
    pub fn search(&mut self, missing: &Missing) -> Vec<FoundDevice> {
        let leaves: Vec<u64> = missing.leaves.keys().copied().collect();
        if leaves != self.leaves {
            // What was looked at for others may be what is missing now.
            self.seen.clear();
            self.leaves = leaves;
            self.not_before = Duration::ZERO;
            self.since = self.rt.now();
        }
        let began = self.rt.now();
        if missing.is_empty() || began < self.not_before {
            return Vec::new();
        }
        // A device is known by the name that the pool has for it, if it has several.
        let mut files: Vec<PathBuf> = missing.leaves.values().flatten().cloned().collect();
        let list = |place: &PathBuf| self.source.list(place, FILE_SIZE_MIN).unwrap_or_default();
        files.extend(missing.places.iter().flat_map(list));
        let mut once = HashSet::new();
        files.retain(|file| !missing.used.contains(file) && once.insert(file.clone()));
        self.seen.retain(|file, _| once.contains(file));
        let new: Vec<PathBuf> =
            files.into_iter().filter(|file| self.is_to_be_opened(file, began)).collect();
        let took = self.rt.now().saturating_sub(began);
        self.not_before = began + PAUSE.max(took * SHARE);
        self.look_at(new, missing)
    }

    fn is_to_be_opened(&mut self, file: &Path, now: Duration) -> bool {
        let Some(version) = self.source.version(file) else {
            self.seen.remove(file);
            return false;
        };
        if self.seen.get(file).is_none_or(|seen| seen.version != version) {
            let quiet = if version.is_file() { QUIET } else { Duration::ZERO };
            self.seen.insert(file.to_owned(), LastScan { version, due: Some(now + quiet) });
        }
        let seen = self.seen.get_mut(file);
        seen.is_some_and(|seen| seen.due.take_if(|due| *due <= now).is_some())
    }

    fn look_at(&self, files: Vec<PathBuf>, missing: &Missing) -> Vec<FoundDevice> {
        if files.is_empty() {
            return Vec::new();
        }
        let (paths, source) = (files.clone(), Arc::clone(&self.source));
        let found = scan(&SearchOptions { paths, source, leaves_out: true }).unwrap_or_default();
        let mut out: Vec<FoundDevice> = Vec::new();
        for found in found {
            let of_it = match &found.config {
                LabelConfig::Member(c) if c.pool_guid == missing.pool => c.guid,
                _ => None,
            };
            let of_it = of_it.filter(|guid| missing.may_be_at(*guid, &found.path));
            let place = missing.place_of(&found.path);
            // What is in a leaf's place is told of, whatever it is.
            let leaf = of_it.or(place.map(|(leaf, _)| leaf));
            let own = place.filter(|(of, _)| leaf == Some(*of)).map(|(_, own)| own.to_owned());
            out.extend(leaf.map(|leaf| {
                let path = found.path.clone();
                FoundDevice { leaf, path, place: own, found: Some(found) }
            }));
        }
        // In its place it is the device before any copy of it.
        out.sort_by_key(|s| s.place.is_none());
        for path in files {
            let is_known = out.iter().any(|s| s.path == path);
            let place = missing.place_of(&path).filter(|_| !is_known);
            out.extend(place.map(|(leaf, own)| {
                let place = Some(own.to_owned());
                FoundDevice { leaf, path, place, found: None }
            }));
        }
        out
    }

    /// Devices that are missing may be back in a moment: they have only just gone, or something has
    /// come that is looked at when it has been quiet. What stands in for them can wait as long.
    #[must_use]
    pub fn is_expecting(&self) -> bool {
        let gone = self.rt.now().saturating_sub(self.since);
        let soon = self.rt.now() + QUIET;
        let is_pending = |seen: &LastScan| seen.due.is_some_and(|due| due <= soon);
        let is_one_pending = || gone < PATIENCE && self.seen.values().any(is_pending);
        !self.leaves.is_empty() && (gone < MOMENT || is_one_pending())
    }

    /// What was found and could not be used will be found again, after a while.
    pub fn try_again(&mut self, path: &Path) {
        if let Some(seen) = self.seen.get_mut(path) {
            seen.due = Some(self.rt.now() + AGAIN);
        }
    }
}

impl LivePool {
    /// Leaves whose devices are not there: they went away, or were not found. Not those that failed
    /// or were taken out, which come back when the administrator says so; and none of a pool that
    /// is suspended, for the same reason.
    #[must_use]
    pub fn missing(&self) -> Missing {
        let mut out = Missing::default();
        if self.is_waiting() {
            return out;
        }
        let tree = self.shared.reader.vdevs();
        let missing: Vec<u64> =
            tree.leaves().filter(|leaf| is_missing(*leaf)).map(vdev::NodeRef::guid).collect();
        if missing.is_empty() {
            return out;
        }
        let (root, pool) = {
            let config = self.shared.config.lock();
            (config.root.clone(), config.facts.guid)
        };
        out.pool = pool;
        for guid in missing {
            let config = leaf_of(&root, guid).filter(|c| c.kind.has_device());
            let Some(config) = config.filter(|c| !c.offline && !c.faulted) else { continue };
            out.leaves.insert(guid, config.path.clone().map(PathBuf::from));
        }
        if !out.is_empty() {
            out.places = places(&root);
            let is_used =
                |v: &&VdevConfig| v.kind.has_device() && !out.leaves.contains_key(&v.guid);
            let used = root.walk().filter(is_used).filter_map(|v| v.path.as_ref());
            out.used = used.map(PathBuf::from).collect();
        }
        out
    }

    /// Uses what was found in the place of leaves that are missing, as far as it may be: it is
    /// brought what it lacks. `source` opens it for writing. What became of each; of what was found
    /// after one that is used, nothing.
    pub fn use_returned(
        &self,
        found: Vec<FoundDevice>,
        source: &dyn DeviceSource,
    ) -> Vec<Returned> {
        self.with_one_resilver(|| self.use_each(found, source))
    }

    fn use_each(&self, found: Vec<FoundDevice>, source: &dyn DeviceSource) -> Vec<Returned> {
        let mut out = Vec::new();
        for sighting in found {
            let missing = self.missing();
            let Some(own) = missing.leaves.get(&sighting.leaf) else { continue };
            let is_in_place = own.is_some() && *own == sighting.place;
            let FoundDevice { leaf, path, found, .. } = sighting;
            // It is on its way: where it goes to it is seen anew.
            if found.as_ref().is_some_and(|found| found.device.displaced().is_some()) {
                continue;
            }
            let refusal = self.why_not(found.as_ref(), leaf, is_in_place).or_else(|| {
                // Closed before it is opened for writing.
                drop(found);
                let used = self.online_leaf(leaf, OwnChanges::Keep, Some(&path), source);
                used.err().map(|e| NotUsed::Failed(e.to_string()))
            });
            // One that could not be used because the pool was suspended meanwhile is tried again.
            if let Some(why) = refusal.clone() {
                self.note_not_used(leaf, &path, why);
            }
            out.push(Returned { leaf, path, refusal });
        }
        out
    }

    /// Bytes that a device that takes the place of a leaf has at least.
    #[must_use]
    pub fn size_needed(&self, leaf: u64) -> Option<u64> {
        let root = self.shared.config.lock().root.clone();
        let top = root.children.iter().find(|top| top.find(leaf).is_some())?;
        Some(device_size_min(top).max(DEVICE_MIN))
    }

    /// Reports say from now on why what was found in the place of a leaf is not used.
    pub fn note_not_used(&self, leaf: u64, path: &Path, why: NotUsed) {
        if !self.is_waiting() {
            let refused = Refused { path: path.to_owned(), why };
            self.shared.refused.lock().insert(leaf, refused);
        }
    }

    /// A leaf that was taken out of use, or failed, and could not be used for this reason is one
    /// that is missing from now on if it is not there, or another device is in its place: it is
    /// used again when it is there. What is wrong then; `None`: something else.
    ///
    /// # Errors
    /// The pool takes no changes.
    pub fn count_as_missing(&self, guid: u64, error: &Error) -> Result<Option<String>> {
        let why = match error {
            Error::Device { cause, .. } => cause.to_string(),
            Error::Refused {
                why: PoolRefusal::Devices(DeviceFault::Unfit { name, why }), ..
            } => {
                self.note_not_used(guid, Path::new(name), NotUsed::Unfit(*why));
                format!("{name} {why}")
            }
            _ => return Ok(None),
        };
        self.put_missing(guid)?;
        Ok(Some(why))
    }

    fn why_not(&self, found: Option<&FoundLeaf>, leaf: u64, is_in_place: bool) -> Option<NotUsed> {
        let shared = &self.shared;
        if let Some(unfit) = shared.unfit(found, leaf) {
            return Some(NotUsed::Unfit(unfit));
        }
        let found = found?;
        let tree = shared.reader.vdevs();
        let log = tree.leaves().find(|l| l.guid() == leaf).map(vdev::NodeRef::missed_while_away);
        let absence = shared.absence(found, leaf, &log.unwrap_or_default());
        let txg = newest_label(found).max(absence.newest);
        let pool = shared.txgs.last_synced();
        match () {
            () if txg > pool => Some(NotUsed::Newer { txg, pool }),
            () if !absence.has_stood_still => Some(NotUsed::WroteAlone),
            () if !is_in_place && !absence.is_as_it_left => Some(NotUsed::Copy),
            () => None,
        }
    }
}

/// It is not in use for want of its device, and no request is on its way to one.
fn is_missing(leaf: vdev::NodeRef<'_>) -> bool {
    let is_away = match leaf.state() {
        VdevState::Removed => true,
        VdevState::Unavail => matches!(leaf.reason(), Reason::CannotOpen | Reason::BadLabel),
        _ => false,
    };
    is_away && !leaf.is_silent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_by_all_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let [file, other, link, hard] = ["b", "c", "link", "hard"].map(|n| dir.path().join(n));
        std::fs::write(&file, b"").unwrap();
        std::fs::write(&other, b"").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::fs::hard_link(&file, &hard).unwrap();
        let leaves = BTreeMap::from([(7, Some(link.clone())), (8, None), (9, Some(hard.clone()))]);
        let missing = Missing { leaves, ..Missing::default() };
        assert_eq!(missing.place_of(&link), Some((7, link.as_path())));
        assert_eq!(missing.place_of(&hard), Some((9, hard.as_path())), "exactly that one");
        assert_eq!(missing.place_of(&file), Some((7, link.as_path())));
        assert_eq!(missing.place_of(&other), None);
    }
}
