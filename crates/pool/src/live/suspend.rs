//! A pool that waits for its devices.
//!
//! # Theory
//!
//! Too few devices take a block, a flush, a label or an uberblock. Then nothing can become durable,
//! and nothing is lost yet: what changed is in memory. The sync stands still where it is, and lets
//! readers of the MOS in ([`Gate::pause`](crate::gate::Gate::pause)), so that all threads can look
//! at the pool. A read of the sync that finds too few devices waits in the same way, where it is
//! (`sync_reads.rs`); what is lost though its devices are there stops the pool.
//!
//! ```text
//!            a device is needed and fails
//!   syncing -----------------------------> suspended ----> stopped: closed, killed, failmode=panic
//!      ^                                       |
//!      |    all of the txg is written again    | the devices answer (`zpool clear`)
//!      '---------------------------------------'
//! ```
//!
//! **Nothing is taken for granted afterwards.** A device that was away may have lost what it had
//! answered for since the last flush, so all blocks of the txg are written again, not only those
//! that were refused (`zio`, `unsynced.rs`), and flushed. A device that is used again after that
//! has everything of the txgs that are not durable, whatever its log says of them. A device that is
//! opened anew must be the one that left: its newest uberblock is the pool's last one, or the one
//! that was being written. A far leaf is looked at before it is claimed, since that would take it
//! from another machine that has it by now.
//!
//! **A flush that failed is not made good by the next one**: the system says once that bytes were
//! lost, so a device that failed to flush fails each later flush too (`device`), until it is opened
//! anew or the pool is resumed. All that may be lost is written again then. Of the txgs that are
//! not synced yet, early blocks of a log may have been written: they are written again when it is
//! their turn (`resumed.rs`). A log that was being written meanwhile does not call itself durable.
//! What a resilver brought to a leaf is brought to it again.
//!
//! A leaf that was out of use for longer than that does not count when it answers: blocks of the
//! txgs that it lacks may be nowhere else, and the pool would stop at the first of them.
//!
//! A failure of the uberblock itself leaves it open whether the txg is committed. Its blocks stay
//! where they are then, and the same uberblock is written again; a device that misses something by
//! now, which the txg does not say, is taken out before.
//!
//! Only a process that asked for it waits ([`LivePool::outlast_failures`]): a program that has no
//! way to be told that devices are back is better off with an error.

use super::LivePool;
use super::mode::FailMode;
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::live::config_edit::bad;
use crate::scan::look_at_device;
use crate::taken_over::{is_taken_over, who_took_over};
use crate::uberblocks::read_ring;
use device::{DeviceRef, DeviceSource, WriteDeviceRef};
use ondisk::config::{LabelConfig, VdevConfig};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vdev::LeafOpen;

impl Shared {
    /// The sync of `txg` met `failure`: waits for devices where the pool may do that, and has
    /// everything of the txg written again.
    pub(super) fn suspend(&self, txg: u64, failure: Error) -> Result<()> {
        if !self.wait_for_devices(&format!("txg {txg}: {failure}")) {
            return Err(failure);
        }
        self.writer.write_again(txg);
        Ok(())
    }

    /// A read of the sync met too few devices: waits for them; whether the pool was resumed.
    pub(super) fn outlasts_read(&self, failure: &zio::Error) -> bool {
        // What was written of the txg so far may be lost in a device that was away.
        self.resumed.writes_again.store(true, Ordering::Release);
        self.wait_for_devices(&format!("reading data that a sync needs: {failure}"))
    }

    /// Suspended for this reason; whether the pool was resumed.
    fn wait_for_devices(&self, why: &str) -> bool {
        if is_taken_over(&self.reader.vdevs()) && self.txgs.fail_mode() == FailMode::Wait {
            // No device comes back, so there is nothing that programs could wait for.
            self.txgs.set_fail_mode(FailMode::Continue);
        }
        let _readers = self.gate.pause();
        self.txgs.suspend(why).is_ok()
    }

    /// What was written again of a txg whose uberblock may be somewhere already is durable, and
    /// where it is not, the device does not get the uberblock.
    pub(super) fn rewrite_durably(&self, txg: u64) -> Result<()> {
        let written = self.writer.wait_txg(txg);
        written.map_err(|e| self.failed("writing blocks", e))?;
        let vdevs = self.reader.vdevs();
        vdevs.flush().map_err(|e| self.failed("flushing", e))?;
        let logs = self.config.lock().logs.clone();
        for (guid, missed) in vdevs.missed() {
            let is_recorded = logs.get(&guid).is_some_and(|log| log.contains(txg));
            if missed.contains(txg) && !is_recorded && !vdevs.leave_out(guid) {
                let cause = "no device has everything that was written";
                return Err(self.failed("writing blocks", cause));
            }
        }
        Ok(())
    }
}

impl LivePool {
    /// From now on devices that fail suspend the pool, as its property `failmode` says, until
    /// [`Self::resume`]. What txgs wrote stays in memory until they are durable.
    ///
    /// # Errors
    /// The property cannot be read.
    pub fn outlast_failures(&self) -> Result<()> {
        let mode = self.view().stored_number("failmode")?;
        self.set_fail_mode(FailMode::of(mode.unwrap_or(0)));
        self.shared.writer.outlast_failures();
        self.shared.txgs.outlast(true);
        self.shared.queues.hold();
        Ok(())
    }

    /// What becomes of threads that wait while the pool is suspended, from now on. On disk it is
    /// the property `failmode`.
    pub fn set_fail_mode(&self, mode: FailMode) {
        self.shared.txgs.set_fail_mode(mode);
    }

    /// What becomes of threads that wait while the pool is suspended.
    #[must_use]
    pub fn fail_mode(&self) -> FailMode {
        self.shared.txgs.fail_mode()
    }

    /// Nothing waits for devices any more: a pool that is suspended stops, and what is not durable
    /// is lost.
    pub fn stop_waiting(&self) {
        let txgs = &self.shared.txgs;
        txgs.outlast(false);
        if let Some(why) = txgs.why_suspended() {
            txgs.stop(&why);
        }
    }

    /// Lets a suspended pool go on, with its devices as they are now: those that do not answer are
    /// opened again, by `source`, where the pool knows them. Waits until what was not durable is;
    /// whether the pool was suspended.
    ///
    /// # Errors
    /// [`Error::Suspended`] when too few devices answer; the pool is suspended still, and nothing
    /// is lost.
    pub fn resume(&self, source: &dyn DeviceSource) -> Result<bool> {
        let shared = &self.shared;
        if shared.txgs.why_suspended().is_none() {
            return Ok(false);
        }
        let failed = |why: String| shared.suspended(why);
        let vdevs = shared.reader.vdevs();
        if is_taken_over(&vdevs) {
            // Opened again it would be taken back from the other writer.
            let unknown = || "another writer has its device".to_owned();
            return Err(failed(who_took_over(&vdevs).unwrap_or_else(unknown)));
        }
        shared.resumed.times.fetch_add(1, Ordering::AcqRel);
        let (reopened, why_not) = self.open_what_is_silent(source);
        shared.use_again_at_once(&reopened).map_err(|e| failed(e.to_string()))?;
        if let Some(silent) = shared.reader.vdevs().first_silent_top() {
            return Err(failed(why_not.unwrap_or_else(|| silent.to_string())));
        }
        let open = shared.txgs.open();
        shared.resumed.open_txg.store(open, Ordering::Release);
        shared.reader.vdevs().forget_failed_flushes();
        shared.txgs.resume();
        let again = |why| failed(format!("its devices answered, but it failed again: {why}"));
        shared.txgs.outcome_of(open - 1).map_err(again)?;
        self.go_on_with_the_rest()?;
        Ok(true)
    }

    /// What scans and works on free space were broken off by does not hold them up any more.
    fn go_on_with_the_rest(&self) -> Result<()> {
        self.resilver()?;
        self.resume_scan()?;
        self.shared.resume_error_scrub()?;
        self.shared.resume_works()
    }

    /// Devices that do not answer, opened where they were, when they are the ones that left; why a
    /// far one was not opened that answers.
    fn open_what_is_silent(
        &self,
        source: &dyn DeviceSource,
    ) -> (BTreeMap<u64, WriteDeviceRef>, Option<String>) {
        let shared = &self.shared;
        let vdevs = shared.reader.vdevs();
        let root = shared.config.lock().root.clone();
        let (mut out, mut why_not) = (BTreeMap::new(), None);
        for guid in vdevs.silent_leaves() {
            let config = root.walk().find(|v| v.guid == guid && v.kind.is_leaf() && !v.offline);
            let Some(path) = config.and_then(|c| c.path.clone()) else { continue };
            let path = Path::new(&path);
            if let Some(why) = shared.why_not_to_claim(source, path, guid) {
                why_not.get_or_insert(why);
                continue;
            }
            let Ok(device) = source.claim(path) else { continue };
            if shared.has_just_left(&Arc::clone(&device).as_device(), guid) {
                out.insert(guid, device);
            }
        }
        (out, why_not)
    }
}

impl Shared {
    /// Why a leaf that is far is not to be claimed, though it answers.
    fn why_not_to_claim(
        &self,
        source: &dyn DeviceSource,
        path: &Path,
        guid: u64,
    ) -> Option<String> {
        let device = far::is_far(path).then(|| source.open(path).ok()).flatten()?;
        if let Some(who) = device.held_elsewhere() {
            return Some(format!("{who} has taken over {}", device.name()));
        }
        let changed = || format!("{} was changed while it was away", device.name());
        (!self.has_just_left(&device, guid)).then(changed)
    }

    /// The device is that leaf as it was at the last commit, or at the one that failed.
    fn has_just_left(&self, device: &DeviceRef, guid: u64) -> bool {
        let Some(found) = look_at_device(device, PathBuf::from(device.name())) else {
            return false;
        };
        let is_it = match &found.config {
            LabelConfig::Member(c) => {
                c.guid == Some(guid) && c.pool_guid == self.config.lock().facts.guid
            }
            LabelConfig::Aux(_) => false,
        };
        let last = self.uberblock.lock().rootbp;
        let begun = *self.resumed.begun.lock();
        let newest = read_ring(&found).into_iter().map(|found| found.uberblock);
        let newest = newest.max_by_key(|u| (u.txg, u.timestamp));
        // Not by its number: another machine may have written one of the same.
        is_it && newest.is_some_and(|u| u.rootbp == last || Some(u.rootbp) == begun)
    }

    /// Puts devices in place while no txg is synced, and forgets what all that answer did wrong,
    /// and missed of the txgs that are written again.
    fn use_again_at_once(&self, devices: &BTreeMap<u64, WriteDeviceRef>) -> Result<()> {
        let before = self.reader.vdevs();
        let last = self.txgs.last_synced();
        let root = self.config.lock().root.clone();
        let is_back =
            |guid: u64| devices.contains_key(&guid) || before.lacks_only_after(guid, last);
        let mut open = |c: &VdevConfig| match devices.get(&c.guid) {
            Some(device) => Some(LeafOpen::Writable(Arc::clone(device))),
            None => {
                let leaf = before.leaves().find(|l| l.guid() == c.guid)?;
                let writer = leaf.writer().filter(|_| is_back(c.guid))?;
                Some(LeafOpen::Writable(Arc::clone(writer)))
            }
        };
        let next = before.successor(&self.rt, &root, &mut open);
        let next = next.map_err(|e| bad(&e))?;
        next.forget_missed_after(last);
        // What a scan has brought to these since the last txg may be lost.
        next.missed().iter().for_each(|(guid, _)| self.scans.has_moved(*guid));
        self.reader.set_vdevs(next);
        Ok(())
    }
}
