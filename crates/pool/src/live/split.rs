//! Sides of mirrors that become a pool of their own.
//!
//! # Theory
//!
//! All sides of a mirror hold the same, so one side of each mirror holds the whole pool. It becomes
//! another pool in three steps, each of which is one txg:
//!
//! ```text
//! txg N    of the pool       the sides are offline, and the MOS lists them; they keep the state of
//!                            txg N-1, as after a crash, with the labels of then
//! txg N    of the new pool   on the sides: new guid, new name, vdevs without the other sides, and
//!                            the MOS without what it had of these
//! txg M    of the pool       the sides are not part of it any more; the list is gone
//! ```
//!
//! The first uberblock of the new pool decides. What a crash leaves in between is ended by the next
//! to open the pool for writing (`interrupted_split.rs`).
//!
//! The new pool is opened with the guid that it is going to have, and its first txg writes labels
//! and uberblock as any other that changes the configuration (`vdev::label`), so no state of it
//! that could be taken for the old pool is ever on disk. What its intent logs promise is replayed
//! afterwards, as at an import: the first txg claims them. Log devices stay with the pool; the new
//! one has their vdevs as missing ones, and takes them off. Spares and cache devices stay as well.

use super::LivePool;
use super::config::{PoolFacts, Split, set_u64};
use super::config_edit::{bad, without_child};
use super::import::{ImportOptions, open_part};
use super::log::LogDevices;
use super::new_vdevs::guid_from;
use super::online::OwnChanges;
use crate::assemble::Candidate;
use crate::error::{Error, Result};
use crate::open::OpenOptions;
use crate::refusal::{DeviceFault, Ongoing, VdevFault};
use crate::scan::look_at_device;
use device::WriteDeviceRef;
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::mos;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What the pool that is made keeps in memory at most, for as long as it is open.
const CACHE_BYTES: usize = 32 << 20;

/// A vdev that has data, and so a side that goes.
fn has_data(top: &VdevConfig) -> bool {
    !top.is_hole && !top.is_log && !matches!(top.kind, VdevKind::Indirect | VdevKind::Hole)
}

/// One side of each mirror: the one that is named, else the last one.
fn choose(pool: &str, root: &VdevConfig, named: &[u64]) -> Result<Vec<u64>> {
    let mut chosen = Vec::new();
    for top in root.children.iter().filter(|top| has_data(top)) {
        if top.kind != VdevKind::Mirror {
            return Err(Error::refused(pool, VdevFault::NotMirrors));
        }
        let mut here = top.children.iter().filter(|side| named.contains(&side.guid));
        let Some(side) = here.next().or_else(|| top.children.last()) else { continue };
        if here.next().is_some() {
            return Err(Error::refused(pool, VdevFault::TwoOfMirror));
        }
        if !side.kind.has_device() {
            return Err(Error::refused(pool, VdevFault::SideReplaced));
        }
        chosen.push(side.guid);
    }
    match named.iter().all(|guid| chosen.contains(guid)) {
        true => Ok(chosen),
        false => Err(Error::refused(pool, VdevFault::NotSide)),
    }
}

/// The leaves below vdevs with data that are not among these.
fn others(root: &VdevConfig, sides: &[u64]) -> Vec<VdevConfig> {
    let leaves = root.children.iter().filter(|top| has_data(top)).flat_map(VdevConfig::walk);
    let others = leaves.filter(|v| v.kind.is_leaf() && !sides.contains(&v.guid));
    others.cloned().collect()
}

/// A pool of these sides alone, with this guid.
fn of_sides(pool: &str, root: &VdevConfig, sides: &[u64], guid: u64) -> Result<VdevConfig> {
    let without = |root: VdevConfig, leaf: &VdevConfig| without_child(pool, &root, leaf.guid);
    let mut new = others(root, sides).iter().try_fold(root.clone(), without)?;
    set_u64(&mut new, "guid", guid).map_err(|e| bad(&e))?;
    Ok(new)
}

impl LivePool {
    /// The devices that [`Self::split`] makes a pool of, one of each mirror: those that are named,
    /// by guid, and of other mirrors the last one.
    ///
    /// # Errors
    /// When the pool is not made of mirrors, or several sides of one are named.
    pub fn sides_to_split(&self, named: &[u64]) -> Result<Vec<u64>> {
        choose(self.shared.pool(), &self.shared.config.lock().root, named)
    }

    /// All that could keep the pool from being split, and the devices of the sides by guid.
    fn check_split(&self, sides: &[u64]) -> Result<BTreeMap<u64, (PathBuf, WriteDeviceRef)>> {
        let shared = &self.shared;
        shared.check_no_checkpoint()?;
        if shared.removals.running().is_some() {
            return Err(self.shared.refused(Ongoing::Removal));
        }
        if self.is_scanning() {
            return Err(self.shared.refused(Ongoing::Scan));
        }
        let root = shared.config.lock().root.clone();
        let tree = shared.reader.vdevs();
        let device = |side: u64| {
            let path = root.find(side).and_then(|v| v.path.clone()).unwrap_or_default();
            let mut leaves = tree.leaves().filter(|l| l.guid() == side);
            let leaf = leaves.find(|l| l.state().is_readable() && l.missed().is_empty());
            let Some(writer) = leaf.and_then(|l| l.writer().cloned()) else {
                return Err(self.shared.refused(DeviceFault::NotWhole(path)));
            };
            match tree.top_is_complete_without(side) {
                true => Ok((side, (PathBuf::from(path), writer))),
                false => Err(self.shared.refused(DeviceFault::OtherSidesLack)),
            }
        };
        sides.iter().map(|side| device(*side)).collect()
    }

    /// Makes a new pool of one side of each mirror, as [`Self::sides_to_split`] chose them; the
    /// pool goes on with the others. The new one has the state of this moment.
    ///
    /// # Errors
    /// When a device has not everything, or fails. The sides are used again then, at the latest
    /// when the pool is opened the next time, or are the new pool's, if that is made already.
    pub fn split(&self, name: &str, sides: &[u64]) -> Result<Self> {
        let shared = &self.shared;
        choose(shared.pool(), &shared.config.lock().root, sides)?;
        self.check_split(sides)?;
        self.check_logs_replayed()?;
        sides.iter().for_each(|side| shared.end_works_on(*side));
        // What was promised is in the tree, as far as it is not promised meanwhile.
        self.sync()?;
        let devices = self.check_split(sides)?;
        let old = shared.config.lock().facts.clone();
        let text = format!("new pool {name} from pool {}", old.name);
        let goes = sides.to_vec();
        self.run(move |cx| {
            cx.check_no_checkpoint()?;
            cx.set_apart(&goes)
        })?;
        // Writes that began with the old tree have come back.
        self.sync()?;
        shared.wait_for_begun_repairs();
        let mut is_made = false;
        let new =
            self.open_sides(name, (sides, devices.clone()), &old, (text.clone(), &mut is_made));
        if new.is_ok() || is_made {
            let goes = sides.to_vec();
            self.run(move |cx| {
                cx.remove_split_sides(&goes)?;
                cx.log_event_of_pool("split", &text)
            })?;
        } else {
            // What is in the way of this, too, ends when the pool is opened the next time.
            let _ = self.take_sides_back(devices);
        }
        new?.without_logs()
    }

    /// The sides are used again: no pool was made of them.
    fn take_sides_back(&self, devices: BTreeMap<u64, (PathBuf, WriteDeviceRef)>) -> Result<()> {
        for (side, (_, device)) in devices {
            self.bring_online(side, OwnChanges::Keep, device, None)?;
        }
        self.run(|cx| {
            cx.touch();
            let mut config = cx.shared.config.lock();
            (config.facts.split, config.dirty) = (Split::None, true);
            Ok(())
        })
    }

    /// The sides as the pool that they become; whether they are, also if that fails afterwards.
    fn open_sides(
        &self,
        name: &str,
        (sides, devices): (&[u64], BTreeMap<u64, (PathBuf, WriteDeviceRef)>),
        old: &PoolFacts,
        (text, is_made): (String, &mut bool),
    ) -> Result<Self> {
        let shared = &self.shared;
        let look = |(path, device): &(PathBuf, WriteDeviceRef)| {
            look_at_device(&Arc::clone(device).as_device(), path.clone())
        };
        let found: Vec<_> = devices.values().filter_map(look).collect();
        let mut candidates = Candidate::group(&found).into_iter();
        let candidate = candidates.find(|c| c.config.pool_guid == old.guid);
        let lost = || shared.failed("reading the labels of the new pool", "they are not there");
        let open = OpenOptions {
            rt: shared.rt.clone(),
            cache_bytes: CACHE_BYTES,
            ..OpenOptions::default()
        };
        let options = ImportOptions {
            rename: Some(name.to_owned()),
            hostid: old.hostid,
            hostname: old.hostname.clone(),
            logs: LogDevices::GiveUp,
            ..ImportOptions::new(open)
        };
        let devices = devices.into_iter().map(|(guid, (_, device))| (guid, device)).collect();
        let guid = guid_from(&shared.rt)();
        let shape = |root: &VdevConfig| of_sides(shared.pool(), root, sides, guid);
        let candidate = candidate.ok_or_else(lost)?;
        let from = old.guid;
        open_part(&shared.rt, &candidate, &options, devices, shape, |new, root| {
            new.become_a_pool(others(root, sides), from, text)?;
            *is_made = true;
            Ok(())
        })
    }

    /// The first txg of a pool that was a side of others: these are forgotten.
    fn become_a_pool(&self, gone: Vec<VdevConfig>, from: u64, text: String) -> Result<()> {
        self.shared.config.lock().facts.split = Split::From(from);
        let logs = self.new_log_headers();
        self.run(move |cx| {
            cx.write_claims(&logs)?;
            gone.iter().try_for_each(|leaf| cx.free_objects(leaf))?;
            let lists = cx.shared.aux.lock().clone();
            for (name, devices) in [mos::SPARES, mos::L2CACHE].into_iter().zip(&lists) {
                devices.iter().try_for_each(|device| cx.take_off_list(name, device.guid))?;
            }
            cx.touch();
            cx.shared.config.lock().dirty = true;
            cx.log_event_of_pool("split", &text)
        })
    }

    /// Takes off the log devices, which stayed with the other pool.
    fn without_logs(self) -> Result<Self> {
        let root = self.shared.config.lock().root.clone();
        let logs = root.children.iter().filter(|top| top.is_log && !top.is_hole);
        logs.map(|top| top.guid).try_for_each(|guid| self.remove_log(guid))?;
        Ok(self)
    }
}
