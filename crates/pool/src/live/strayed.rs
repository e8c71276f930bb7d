//! Files that were given another name while the pool has them open.
//!
//! ```text
//! which are not in their places  ->  [`MovedDevices::follow`]  ->  [`LivePool::note_moved`]
//!          (`strayed`)                 without the pool         labels say where they are
//! ```
//!
//! What has another one's name now is looked for under the names of the others: they may have
//! changed theirs with each other.
//!
//! The pool has the very file open, so neither its label nor what it missed is in question: it is
//! followed, before it is gone without for its place. What is another file, and a disk, which is
//! plugged in again as a new one, is recognised by its label (`returned.rs`).
//!
//! The search needs no pool, for a file system that hangs holds it up.

use super::LivePool;
use super::config::{set_text, unset};
use super::config_edit::change_leaf;
use super::paths::OLD_PLACES;
use crate::error::Result;
use crate::live::config_edit::bad;
use crate::scan::FILE_SIZE_MIN;
use device::{DeviceRef, DeviceSource, Displacement};
use std::collections::BTreeSet;
use std::path::PathBuf;
use vdev::{NodeRef, VdevState};

/// Leaves whose files are not in their places.
#[derive(Default)]
pub struct MovedDevices {
    leaves: Vec<(u64, DeviceRef)>,
    /// Those in whose places other files are.
    replaced: Vec<(u64, DeviceRef)>,
    /// The places in which the devices of the pool are.
    places: BTreeSet<PathBuf>,
    /// The names of its devices.
    names: Vec<PathBuf>,
}

impl MovedDevices {
    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty() && self.replaced.is_empty()
    }

    /// Looks for them where the devices of the pool are; where those are that were found, by guid.
    #[must_use]
    pub fn follow(&self, source: &dyn DeviceSource) -> Vec<(u64, PathBuf)> {
        let list = |place: &PathBuf| source.list(place, FILE_SIZE_MIN).unwrap_or_default();
        let files: Vec<PathBuf> = match self.leaves.is_empty() {
            true => Vec::new(),
            false => self.places.iter().flat_map(list).collect(),
        };
        let among = |files: &[PathBuf], (guid, device): &(u64, DeviceRef)| {
            Some((*guid, files.iter().find(|file| device.follow(file)).cloned()?))
        };
        let moved = self.leaves.iter().filter_map(|leaf| among(&files, leaf));
        moved.chain(self.replaced.iter().filter_map(|leaf| among(&self.names, leaf))).collect()
    }
}

impl LivePool {
    /// Leaves whose files are not in their places. Asks the system. None of a pool that is
    /// suspended, for where they are could not be written down.
    #[must_use]
    pub fn moved_devices(&self) -> MovedDevices {
        if self.is_waiting() {
            return MovedDevices::default();
        }
        let tree = self.shared.reader.vdevs();
        let is_open = |l: &NodeRef<'_>| l.state() != VdevState::Faulted;
        let became = |what| {
            let is_so = move |l: NodeRef<'_>| {
                let device = l.device().filter(|_| l.displaced() == Some(what))?;
                Some((l.guid(), device.clone()))
            };
            tree.leaves().filter(is_open).filter_map(is_so).collect::<Vec<_>>()
        };
        let (leaves, replaced) = (became(Displacement::Moved), became(Displacement::Replaced));
        if leaves.is_empty() && replaced.is_empty() {
            return MovedDevices::default();
        }
        let root = self.shared.config.lock().root.clone();
        let places = super::paths::places(&root);
        let names = root.walk().filter(|v| v.kind.is_leaf()).filter_map(|v| v.path.as_ref());
        let names = names.map(PathBuf::from).collect();
        MovedDevices { leaves, replaced, places, names }
    }

    /// Begins a txg when a device in use is not there any more, or not all of it, and the pool can
    /// go without it. Only a txg does that: an idle pool would go on, and no spare would be taken.
    /// What was moved, or has another's name, counts if it was looked for in vain. Asks the system.
    pub fn go_without_displaced(&self, was_not_found: bool) {
        let tree = self.shared.reader.vdevs();
        let is_gone = |l: &NodeRef<'_>| match l.displaced() {
            None => false,
            Some(Displacement::Moved | Displacement::Replaced) => was_not_found,
            Some(_) => true,
        };
        let mut in_use = tree.leaves().filter(|l| l.is_written() && l.state().is_readable());
        if !self.is_waiting() && in_use.any(|l| is_gone(&l) && tree.can_lose_all(&[l.guid()])) {
            self.shared.txgs.want_next();
        }
    }

    /// Begins a txg when blocks were lost that are in no error log yet: only a txg writes it, and
    /// judges the devices that have lost them. In an idle pool there would be none.
    pub fn log_new_errors(&self) {
        if self.shared.block_faults.has_lost() && !self.is_waiting() {
            self.shared.txgs.want_next();
        }
    }

    /// The labels say from now on that leaves are where they were followed to.
    ///
    /// # Errors
    /// When the pool stops.
    pub fn note_moved(&self, moved: Vec<(u64, PathBuf)>) -> Result<()> {
        self.shared.run(move |cx| {
            let shared = cx.shared;
            let mut root = shared.config.lock().root.clone();
            for (guid, place) in &moved {
                let Some(place) = place.to_str() else { continue };
                let change = |leaf: &mut ondisk::config::VdevConfig| {
                    set_text(leaf, "path", place)?;
                    unset(leaf, &OLD_PLACES)
                };
                change_leaf(&mut root, *guid, &change).map_err(|e| bad(&e))?;
            }
            let before = shared.reader.vdevs();
            let next = before.successor(&shared.rt, &root, &mut |_| None);
            let next = next.map_err(|e| bad(&e))?;
            cx.touch();
            shared.reader.set_vdevs(next);
            let mut config = shared.config.lock();
            (config.root, config.dirty) = (root, true);
            Ok(())
        })
    }
}
