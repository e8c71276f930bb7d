//! Pools that are open for writing.
//!
//! # Theory
//!
//! A [`LivePool`] is a [`Pool`] whose MOS is a live object set, with a txg machine behind it. One
//! thread per pool syncs (`sync.rs`); all other threads enter transactions (`txg.rs`, through
//! [`dmu::Transactions`]) or queues sync tasks (`task.rs`). The design is
//! `docs/decisions/0007-write-path.md`.
//!
//! ```text
//! create  import                 make or open a pool
//! txg  sync  task  record        when changes become durable, and how
//! blocks                         what the blocks of a txg take, and which are freed
//! throttle                       how writers are slowed down before
//! pipeline                       how many threads do it
//! head  heads  uses  shared      what is open, and what is in use
//! budget  transactions           how much may be written, and the way into a txg
//! tunables  tune                 what can be turned, with names, units and ranges, and its way
//! features  config  history      what the MOS says of the pool itself
//! events  notice                 what happened to it, while it is open
//! mode  suspend                  devices that fail, and what becomes of threads that wait
//! hasty                          looks at the pool that wait for no device
//! paths  leaves  online          where its devices are, what they missed, how they come back
//! strayed                        files that were given another name while they are open
//! attach  split                  sides of mirrors
//! remove                         log, cache and spare devices that go
//! idle_devices                   spares that wait and cache devices: are they there
//! cache_devices                  cache devices that are taken out, and used again
//! inflation                      what the vdevs make of a byte, for a throttle that counts it
//! evacuate  removals             vdevs with data on them that go
//! obsolete                       what is not needed of those that went, recorded anew
//! reflow  reflows                raidz vdevs that get wider
//! scans  scan  errlog            scrub and resilver, and what was found to be lost
//! error_scrub  error_scrubs      that looked at again
//! read_repair  repairs           bad copies that readers met, written anew
//! work  running_work             initialize, trim, autotrim
//! datasets                       file systems, volumes, snapshots, clones
//! receive                        datasets that are being received
//! recount                        what belongs to whom, where that was not counted
//! behalf  delegations            what other users may change, and who says so
//! vdevs  expand  vdev_properties adding devices, new guids; devices that have grown; properties
//! checkpoint  rewind             a state of the pool that is kept, and going back to it
//! writable                       what is opened read-only, and why
//! log                            intent logs: written, replayed, taken over
//! ```
//!
//! The state that is shared (`shared.rs`) knows what it is made of (`head.rs`, `scans.rs`,
//! `budget.rs`, `tunables`), and none of that knows it: what is done with it stands in files above.

mod abandon;
mod add;
mod attach;
mod behalf;
mod blocks;
mod budget;
mod cache_devices;
mod checkpoint;
mod clone_sync;
mod clones;
mod collected;
mod config;
mod config_edit;
mod connect;
mod create;
mod dataset_tasks;
mod datasets;
mod delegations;
mod detach;
mod early;
mod errlog;
mod error_scrub;
mod error_scrubs;
mod evacuate;
mod events;
mod expand;
mod features;
mod hasty;
mod head;
mod heads;
mod history;
mod idle_devices;
mod import;
mod inflation;
mod interrupted_split;
mod keys;
mod labels;
mod leaves;
mod log;
mod mark;
mod membership;
mod mode;
mod mos;
mod new_sets;
mod new_side;
mod new_vdevs;
mod notice;
mod obsolete;
mod online;
mod paths;
mod pipeline;
mod program;
mod reached;
mod read_repair;
mod receive;
mod record;
mod recount;
mod reflow;
mod reflows;
mod removals;
mod remove;
mod repairs;
mod restore;
mod resumed;
mod returned;
mod rewind;
mod rooms;
mod running_work;
mod scan;
mod scans;
mod set_sync;
mod shared;
mod spares;
mod split;
mod stored_property;
mod strayed;
mod suspend;
mod sync;
mod sync_reads;
mod task;
mod task_faults;
pub mod throttle;
mod transactions;
mod trees;
pub mod tunables;
mod tune;
mod turn;
mod txg;
mod uses;
mod vdev_properties;
mod vdevs;
mod work;
mod writable;

pub use crate::not_used::{LabelMismatch, NotUsed, Refused};
pub use abandon::AbandonedHead;
pub use clones::CloneEntry;
pub use config::{FIRST_TXG, VdevSpec};
pub use create::{CreateOptions, WrapAllocator, clear_labels, create};
pub use datasets::NewFilesystem;
pub use events::{Event, EventValue, Events};
pub use features::{ENABLED_BY_DEFAULT, is_writable, keeps_writable, to_enable};
pub use head::Head;
pub use history::Invocation;
pub use idle_devices::IdleDevices;
pub use import::{ImportOptions, check_elsewhere, check_import, import, multihost_wait};
pub use log::{GivenUpLog, LogDevices};
pub use mark::mark_destroyed;
pub use mode::{FailMode, OfflineMode};
pub use new_side::ResilverKind;
pub use new_vdevs::{DEVICE_MIN, Devices, NewTop};
pub use online::OwnChanges;
pub use paths::{identity, is_same};
pub use program::{ProgramChange, ProgramCx};
pub use receive::{Received, Receiving};
pub use record::{PushReason, TxgRecord, TxgState};
pub use restore::{KeptBlock, Restored, SnapshotId, WhichBlock};
pub use returned::{DeviceSearch, FoundDevice, Missing, Returned};
pub use shared::TaskCx;
pub use spares::SpareTaken;
pub use stored_property::StoredPropertyValue;
pub use strayed::MovedDevices;
pub use task_faults::TaskFaults;
pub use tunables::{Setting, Tunable, TunableError, Tunables};
pub use txg::{StopWaiter, TxgLimits};
pub use uses::InUse;
pub use vdev_properties::property_table;
pub(crate) use writable::can_write_features;
pub use writable::obstacles;
pub use zio::SpaceClass;

use crate::error::{Error, Result};
use crate::open::{LiveState, Pool};
use crate::taken_over::who_took_over;
use behalf::DelegatedUser;
use config::PoolFacts;
use hasty::HastyStore;
use log::Claim;
use ondisk::config::{PoolState, VdevConfig};
use ondisk::nvlist::{NvList, NvValue};
use parking_lot::Mutex;
use rt::{Rt, Task};
use shared::{Parts, Shared};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zio::profile::ThreadKind;
use zpl::replay::ReplayReport;

/// The metadata of a txg that is not durable yet, which the cache may not have before that, take at
/// most this part of what the cache may take: one in this many bytes.
const RECENT_SHARE: u64 = 4;

/// A pool that is open for writing. Dropping it stops it after what is dirty is durable, and leaves
/// it active, as a crash right after that would; [`LivePool::export`] says goodbye properly.
///
/// Its methods that change datasets, vdevs, features or properties are each one step of the pool.
/// They refuse what the pool could not be after it, and have no rules beyond that: which values a
/// property can have, what a new dataset inherits, or what is likely to be a mistake is judged by
/// the operations above, which call them.
pub struct LivePool {
    shared: Arc<Shared>,
    view: Pool,
    syncer: Mutex<Option<Task<()>>>,
    /// Devices that were there when the pool was opened, and could not be opened for writing.
    left_out: Vec<device::Error>,
    /// Logs that were not empty when the pool was opened.
    claims: Vec<Claim>,
    /// What became of them.
    replayed: Mutex<Vec<(String, ReplayReport)>>,
    /// Logs that were given up because a log device is missing.
    given_up: Vec<GivenUpLog>,
    /// Whom the handle is for, when that is not the administrator.
    behalf: Option<DelegatedUser>,
}

impl LivePool {
    /// Starts the sync thread over what was made or opened.
    fn start(rt: &Rt, parts: Parts, mut view: Pool, tunables: &[Setting]) -> Result<Self> {
        parts.writer.set_recent_max(parts.store.cache().capacity() as u64 / RECENT_SHARE);
        let shared = Shared::new(rt, parts, view.name())?;
        Shared::connect(&shared);
        view.share_keys(&shared.dsl);
        shared.find_checkpoint()?;
        shared.find_removal()?;
        shared.find_rebuilds()?;
        shared.find_reflow()?;
        *shared.aux.lock() = [view.spares().to_vec(), view.l2cache().to_vec()];
        view.set_gate(&shared.gate);
        view.close_found(&shared.aux_sizes);
        shared.space.synced(shared.txgs.last_synced(), shared.room_of_pool());
        for setting in tunables {
            shared.tunables.store(setting.tunable, setting.value);
        }
        shared.push_tunables();
        shared.know_state();
        let syncer = start_syncer(&shared)?;
        let syncer = Mutex::new(Some(syncer));
        Ok(Self {
            shared,
            view,
            syncer,
            left_out: Vec::new(),
            claims: Vec::new(),
            replayed: Mutex::default(),
            given_up: Vec::new(),
            behalf: None,
        })
    }

    /// The pool to look at. What it reads of the MOS and of live datasets is the state in memory.
    #[must_use]
    pub fn view(&self) -> &Pool {
        &self.view
    }

    /// Devices that were there when the pool was opened, and that it goes on without, because they
    /// could not be opened for writing.
    #[must_use]
    pub fn left_out(&self) -> &[device::Error] {
        &self.left_out
    }

    /// The datasets whose intent logs were replayed when the pool was opened, and what that did.
    #[must_use]
    pub fn replayed_logs(&self) -> Vec<(String, ReplayReport)> {
        self.replayed.lock().clone()
    }

    /// The datasets whose intent logs led to a log device that is missing, when the import was told
    /// to give those up.
    #[must_use]
    pub fn given_up_logs(&self) -> &[GivenUpLog] {
        &self.given_up
    }

    /// The pool as it is now, to look at for a while. [`Self::view`] keeps guid, comment, features
    /// and uberblock of the time when the pool was opened. Keys loaded into this one are its own.
    pub fn look(&self) -> Result<Pool> {
        Ok(self.look_with(None))
    }

    /// The same, to see how the pool is: what devices that hang do not tell within a few seconds is
    /// not known then.
    #[must_use]
    pub fn glance(&self) -> Pool {
        self.look_with(Some(&Arc::default()))
    }

    fn look_with(&self, haste: Option<&Arc<AtomicBool>>) -> Pool {
        let (root, aux) = self.members_now();
        let facts = self.shared.config.lock().facts.clone();
        let uberblock = *self.shared.uberblock.lock();
        let hasty = haste.map(|haste| {
            let store = Arc::new(HastyStore::new(self.view.store(), haste));
            self.view.in_haste(store, haste)
        });
        let view = hasty.as_ref().unwrap_or(&self.view);
        let _datasets = view.datasets();
        view.refreshed(LiveState {
            root,
            aux,
            comment: facts.comment,
            compatibility: facts.compatibility,
            features: self.shared.features.snapshot(),
            uberblock,
            suspended: self.suspended(),
            is_waiting: self.is_waiting(),
            scans: self.scans_here(),
            refused: self.shared.refused.lock().clone(),
        })
    }

    /// What it consists of now: its tree, and its spares and cache devices. Reads nothing.
    pub(crate) fn members_now(&self) -> (VdevConfig, [Vec<VdevConfig>; 2]) {
        let root = self.shared.config.lock().root.clone();
        let mut aux = self.shared.aux.lock().clone();
        let marks = self.shared.cache_marks.lock().clone();
        for cache in &mut aux[1] {
            if let Some(how) = marks.get(&cache.guid) {
                // A list of a few numbers, which takes one more.
                let _ = cache_devices::mark(cache, *how);
            }
        }
        (root, aux)
    }

    /// The pool is suspended and can be resumed.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.shared.txgs.why_suspended().is_some()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.view.name()
    }

    /// Its guid as it is now.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.shared.config.lock().root.guid
    }

    /// Its configuration as a cache file has it, by [`Self::name`].
    #[must_use]
    pub fn cache_config(&self) -> NvList {
        let txg = self.last_synced();
        let config = self.shared.config.lock();
        let facts = PoolFacts { name: self.name().to_owned(), ..config.facts.clone() };
        let list = facts.for_mos(PoolState::Active, txg, &config.root);
        drop(config);
        match self.look() {
            Ok(seen) => with_aux(list, &seen),
            Err(_) => with_aux(list, &self.view),
        }
    }

    /// The runtime it lives in.
    #[must_use]
    pub fn rt(&self) -> &Rt {
        &self.shared.rt
    }

    /// Makes everything durable that was changed before the call.
    pub fn sync(&self) -> Result<()> {
        let open = self.shared.txgs.open();
        let synced = self.shared.txgs.wait_synced_unless_suspended(open, PushReason::Waited);
        synced.map_err(|why| self.shared.stopped(&why))
    }

    /// The same, without a txg when nothing was changed.
    ///
    /// # Errors
    /// When the pool takes no changes, and what was changed last may not be durable.
    pub fn sync_changes(&self) -> Result<()> {
        if self.shared.txgs.has_changes() { self.sync() } else { Ok(()) }
    }

    /// Why the pool takes no changes: its devices failed, or a change failed half way. When it is
    /// not [waiting](Self::is_waiting) for devices, what was not durable by then is lost; it can
    /// still be read.
    #[must_use]
    pub fn suspended(&self) -> Option<Arc<str>> {
        let why = self.shared.txgs.why_stopped()?;
        Some(match who_took_over(&self.shared.reader.vdevs()) {
            Some(who) => Arc::from(format!("{who}: {why}")),
            None => why,
        })
    }

    /// Whether the pool takes changes now, for what had rather fail than wait for devices.
    ///
    /// # Errors
    /// [`Error::Suspended`] or [`Error::Stopped`] when it takes none.
    pub fn check_takes_changes(&self) -> Result<()> {
        match self.suspended() {
            Some(why) => Err(self.shared.stopped(&why)),
            None => Ok(()),
        }
    }

    /// What waits for the end of the pool without keeping it open.
    #[must_use]
    pub fn stop_waiter(&self) -> StopWaiter {
        StopWaiter::new(&self.shared.txgs)
    }

    /// The last txg that is durable.
    #[must_use]
    pub fn last_synced(&self) -> u64 {
        self.shared.txgs.last_synced()
    }

    /// What the intent logs of the datasets that are open have done.
    #[must_use]
    pub fn log_stats(&self) -> zil::LogStats {
        let mut sum = zil::LogStats::default();
        self.shared.all_heads().iter().for_each(|head| sum += head.log.stats());
        sum
    }

    /// What was wrong with space maps and with what was freed, as [`crate::Allocator::problems`].
    #[must_use]
    pub fn allocator_problems(&self) -> Vec<String> {
        self.shared.alloc.problems()
    }

    /// Bytes that are dirty, of all txgs that are not durable.
    #[must_use]
    pub fn dirty(&self) -> u64 {
        self.shared.txgs.dirty()
    }

    /// Bytes that can be allocated and that are, by number of the top-level vdev.
    pub(crate) fn space_of_tops(&self) -> HashMap<u64, (u64, u64)> {
        self.shared.alloc.space_of_tops()
    }

    /// The names of the datasets that were used, by object.
    pub(crate) fn names_of_sets(&self) -> BTreeMap<u64, String> {
        self.shared.names_of_sets()
    }

    /// What the last txgs did, oldest first.
    #[must_use]
    pub fn txgs(&self) -> Vec<TxgRecord> {
        self.shared.txgs.records()
    }

    /// When txgs are pushed and writers wait.
    #[must_use]
    pub fn limits(&self) -> TxgLimits {
        self.shared.txgs.limits()
    }

    /// Changes them, from now on: three tunables at once, and finer than their units.
    pub fn set_limits(&self, limits: TxgLimits) {
        let values = &self.shared.tunables;
        values.store(Tunable::TxgTimeout, limits.timeout.as_secs());
        values.store(Tunable::DirtyDataMax, limits.dirty_max);
        values.store(Tunable::DirtyDataSyncPercent, limits.sync_percent);
        self.shared.txgs.change_limits(|l| *l = limits);
        self.shared.choose_throttle();
    }

    /// The values of its tunables.
    #[must_use]
    pub fn tunables(&self) -> &Tunables {
        &self.shared.tunables
    }

    /// Sets a tunable, from now on.
    pub fn set_tunable(&self, setting: Setting) {
        self.shared.set_tunable(setting.tunable, setting.value);
    }

    /// What is known of the txgs that are not durable yet, oldest first; the last one is open.
    #[must_use]
    pub fn txgs_alive(&self) -> Vec<TxgRecord> {
        self.shared.txgs.alive()
    }

    /// The policy that slows writers down, as its tunables say.
    #[must_use]
    pub fn throttle(&self) -> Arc<dyn throttle::Throttle> {
        self.shared.txgs.policy()
    }

    /// Runs `task` in syncing context, and waits until what it did is durable. A task that fails
    /// after it changed something stops the pool; `task.rs` says more.
    #[doc(hidden)]
    pub fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce(&TaskCx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check_administrator()?;
        self.shared.run(task)
    }

    /// Where tests make sync tasks fail.
    #[doc(hidden)]
    #[must_use]
    pub fn task_faults(&self) -> &TaskFaults {
        &self.shared.faults
    }

    /// Adds a line to the pool's history; for a user only after a change.
    pub fn log(&self, what: &Invocation) -> Result<()> {
        if !self.may_have_changed() {
            return Ok(());
        }
        let what = what.clone();
        self.shared.run(move |cx| cx.log_command(&what))
    }

    /// Makes everything durable, marks the pool exported, and lets go of its devices.
    pub fn export(self) -> Result<()> {
        self.leave(PoolState::Exported)
    }

    /// The same, marking it destroyed: it can still be imported with `-D` until its devices are
    /// used for something else.
    pub fn destroy(self) -> Result<()> {
        self.leave(PoolState::Destroyed)
    }

    /// Whether the pool will be found again where its devices were opened.
    ///
    /// # Errors
    /// When a device was deleted, moved away, replaced or cut short while it was open. It works as
    /// long as it is open, so the data can still be copied out.
    pub fn can_be_found(&self) -> Result<()> {
        let displaced = self.view.displaced();
        if displaced.is_empty() {
            return Ok(());
        }
        let devices = displaced.iter().map(|(name, what)| format!("{name} {what}")).collect();
        Err(Error::Displaced { pool: self.view.name().to_owned(), devices })
    }

    fn leave(self, state: PoolState) -> Result<()> {
        self.stop_waiting();
        self.shared.removals.pause();
        self.shared.reflows.pause();
        self.shared.end_works();
        self.shared.end_error_scrub();
        self.end_scans();
        self.shared.end_repairs();
        self.end_logs();
        self.sync()?;
        self.shared.run_keeping_datasets(move |cx| {
            let mut config = cx.shared.config.lock();
            config.state = state;
            config.dirty = true;
            Ok(())
        })?;
        let is_destroyed = state == PoolState::Destroyed;
        self.shared.post_system(if is_destroyed { "pool_destroy" } else { "pool_export" });
        self.close()
    }

    /// Stops after what is dirty is durable.
    pub fn close(self) -> Result<()> {
        self.stop_waiting();
        self.shared.removals.pause();
        self.shared.reflows.pause();
        self.shared.end_works();
        self.shared.end_repairs();
        self.end_logs();
        let synced = self.sync().and_then(|()| self.can_be_found());
        self.stop();
        synced
    }

    /// The next sync leaves no log behind.
    fn end_logs(&self) {
        self.shared.all_heads().iter().for_each(|head| head.log.begin_suspend());
    }

    fn stop(&self) {
        self.shared.removals.pause();
        self.shared.reflows.pause();
        self.shared.end_works();
        self.shared.end_error_scrub();
        self.end_scans();
        self.shared.end_repairs();
        self.shared.store.reading_ahead().stop();
        self.shared.txgs.stop("the pool is closed");
        if let Some(syncer) = self.syncer.lock().take() {
            // Its panic was reported where it happened; there is nothing to add here.
            let _ = syncer.join();
        }
        self.shared.events.close();
        // Heads hold the pool as the source of their transactions: this lets it go.
        self.shared.heads.write().clear();
    }
}

/// The configuration of a pool that is open for reading, as a cache file has it.
#[must_use]
pub fn cache_config(pool: &Pool) -> NvList {
    let facts = PoolFacts::of(pool.config());
    let mut root = pool.config().vdev_tree.clone();
    paths::adopt(&mut root, &pool.candidate().leaves);
    with_aux(facts.for_mos(PoolState::Active, pool.uberblock().txg, &root), pool)
}

/// Adds where spares and cache devices were found, which the MOS keeps in lists of their own.
fn with_aux(mut config: NvList, pool: &Pool) -> NvList {
    for (name, devices) in [("spares", pool.spares()), ("l2cache", pool.l2cache())] {
        if !devices.is_empty() {
            let mut devices = devices.to_vec();
            devices.iter_mut().for_each(|device| paths::adopt(device, &pool.candidate().aux));
            let lists = devices.iter().map(VdevConfig::to_nvlist).collect();
            config.set(name, NvValue::NvListArray(lists));
        }
    }
    config
}

impl Drop for LivePool {
    fn drop(&mut self) {
        if self.syncer.lock().is_some() {
            self.stop_waiting();
            // A caller that wants to know whether this worked calls `close`.
            let _ = self.sync();
            self.stop();
        }
    }
}

/// The end of the sync thread, whatever ends it: no thread waits for it any more.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        // A reason that was given before stays.
        self.0.txgs.stop("the sync thread broke off: this is a bug");
    }
}

fn start_syncer(shared: &Arc<Shared>) -> Result<Task<()>> {
    let body = {
        let shared = Arc::clone(shared);
        move || {
            let _end = End(&shared);
            let profiler = Arc::clone(shared.writer.profiler());
            let _role = profiler.role(ThreadKind::SpaSync);
            while let Some(mut record) = shared.txgs.next() {
                match shared.sync(&mut record) {
                    Ok(()) => {
                        shared.txgs.done(record);
                        shared.resume_after_reflow();
                        // What is being destroyed goes on being freed without a request.
                        if shared.has_background_work() {
                            shared.txgs.want_next();
                        }
                    }
                    Err(e) => {
                        // A reader sees from now on what the disks hold.
                        let _guard = shared.gate.write();
                        shared.mos.forget(record.txg);
                        shared.txgs.stop(&format!("txg {} failed: {e}", record.txg));
                        return;
                    }
                }
            }
        }
    };
    shared.rt.spawn("txg_sync", body).map_err(|e| shared.failed("starting the sync thread", e))
}
