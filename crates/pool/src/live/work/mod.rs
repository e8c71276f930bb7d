//! Work on the free space of devices: `initialize` overwrites it, `trim` gives it back.
//!
//! # Theory
//!
//! ```text
//!              start                     all is done
//!   none  ------------->  active  ----------------------->  complete
//!    ^                    |  ^  |                               |
//!    |  forget    suspend |  |  '---- cancel ---> canceled -----+--> active, from the beginning
//!    +--- (not active)    v  | start, from where it was
//!                       suspended
//! ```
//!
//! The state, and how far it is, stand in the device's table in the MOS, as OpenZFS keeps them.
//! What is active goes on when the pool is opened, here or there, after an export or a crash; and
//! what a failing device broke off, when its device is back or its errors are forgotten.
//!
//! One thread works on one device. It goes through the metaslabs in order, a window at a time
//! (`run.rs`): what is free there is held, so that it is not handed out (`alloc/hold.rs`), worked
//! on, and released; on one vdev one after the other, as each would pass over what another holds.
//! So nothing is touched that a tree has, or that was freed in the last two txgs; and a window is a
//! small part of a metaslab, so that writers do not run out of space meanwhile.
//!
//! `autotrim` (`auto.rs`) does the same with what became free, some txgs later.
//!
//! Locks: `RunningWork` (`running_work.rs`) has one lock, under which nothing else is taken.

mod auto;
mod run;

use super::LivePool;
use super::config_edit::top_of;
use super::running_work::{Running, State};
use super::shared::{Shared, TaskCx};
use crate::error::{Error, Result};
use crate::leaf_work::{self, LeafProgress, LeafWork, WorkState};
use crate::refusal::{DeviceFault, NotRunning, Ongoing};
use ondisk::config::VdevConfig;

/// What is known of a device before work on it begins.
struct Place {
    /// Number of its top-level vdev.
    top: u32,
    table: u64,
    path: String,
}

fn place(pool: &str, root: &VdevConfig, leaf: u64) -> Result<Place> {
    let top = top_of(pool, root, leaf)?;
    let config = top.walk().find(|v| v.guid == leaf && v.kind.is_leaf());
    let config = config.ok_or_else(|| Error::refused(pool, DeviceFault::NotInPool))?;
    let table = config.vdev_zap_leaf.filter(|n| *n != 0);
    let table = table.ok_or_else(|| Error::refused(pool, DeviceFault::NoTable))?;
    let top = u32::try_from(top.id).map_err(|_| Error::refused(pool, DeviceFault::NotInPool))?;
    Ok(Place { top, table, path: config.path.clone().unwrap_or_default() })
}

fn name(work: LeafWork) -> &'static str {
    match work {
        LeafWork::Initialize => "initialize",
        LeafWork::Trim => "trim",
    }
}

/// The event that says of a work that it has another state; OpenZFS has some for trims alone.
fn event(work: LeafWork, now: &LeafProgress) -> Option<&'static str> {
    match (work, now.state) {
        (LeafWork::Initialize, _) | (_, WorkState::None) => None,
        (_, WorkState::Active) if now.offset > 0 => Some("trim_resume"),
        (_, WorkState::Active) => Some("trim_start"),
        (_, WorkState::Suspended) => Some("trim_suspend"),
        (_, WorkState::Canceled) => Some("trim_cancel"),
        (_, WorkState::Complete) => Some("trim_finish"),
    }
}

impl TaskCx<'_> {
    /// Writes how far a work is; with a word for the history when its state changed.
    fn put_work(
        &self,
        leaf: u64,
        work: LeafWork,
        now: &LeafProgress,
        word: Option<&str>,
    ) -> Result<()> {
        let place = place(self.shared.pool(), &self.shared.config.lock().root, leaf)?;
        leaf_work::write(self.objects(), self.tx, place.table, work, now)?;
        let Some(word) = word else { return Ok(()) };
        if let Some(event) = event(work, now) {
            self.shared.post_device(event, leaf);
        }
        self.log_event_of_pool(name(work), &format!("vdev={} {word}", place.path))
    }
}

impl Shared {
    fn place(&self, leaf: u64) -> Result<Place> {
        place(self.pool(), &self.config.lock().root, leaf)
    }

    fn work_progress(&self, leaf: u64, work: LeafWork) -> Result<LeafProgress> {
        let table = self.place(leaf)?.table;
        let _gate = self.gate.read();
        Ok(leaf_work::read(&self.mos, table, work)?)
    }

    /// Why there is no work on a device: its vdev is being removed or expanded.
    fn why_no_work(&self, leaf: u64) -> Option<Ongoing> {
        let config = self.config.lock();
        let top = top_of(self.pool(), &config.root, leaf).ok()?;
        match (top.removing, top.raidz_expanding) {
            (true, _) => Some(Ongoing::OwnRemoval),
            (_, true) => Some(Ongoing::Expansion),
            _ => None,
        }
    }

    /// Starts the thread of a work whose state on disk is active.
    fn begin_work(&self, leaf: u64, work: LeafWork, from: LeafProgress) -> Result<()> {
        let mut state = self.works.state.lock();
        if state.is_closing || state.running.contains_key(&(leaf, work)) {
            return Ok(());
        }
        let Some(me) = self.me.upgrade() else { return Ok(()) };
        state.failures.remove(&(leaf, work));
        let task = self.rt.spawn(name(work), move || me.work_on(leaf, work, from));
        let task = task.map_err(|e| self.failed("starting work on a device", e))?;
        state.running.insert((leaf, work), Running { task: Some(task), is_to_end: false });
        Ok(())
    }

    /// What was under way on devices that are written to goes on.
    pub(super) fn resume_works(&self) -> Result<()> {
        let tree = self.reader.vdevs();
        let leaves = tree.leaves().filter(|l| l.writer().is_some()).map(|l| l.guid());
        for leaf in leaves.filter(|leaf| self.why_no_work(*leaf).is_none()).collect::<Vec<_>>() {
            for work in [LeafWork::Initialize, LeafWork::Trim] {
                // A device without a table has none.
                let Ok(now) = self.work_progress(leaf, work) else { continue };
                if now.state == WorkState::Active {
                    self.begin_work(leaf, work, now)?;
                }
            }
        }
        Ok(())
    }

    /// Ends what runs on a device that goes, and waits for that.
    pub(super) fn end_works_on(&self, leaf: u64) {
        for work in [LeafWork::Initialize, LeafWork::Trim] {
            self.end_work((leaf, work));
        }
    }

    /// Ends what runs, and waits for that.
    fn end_work(&self, key: (u64, LeafWork)) {
        let task = {
            let mut state = self.works.state.lock();
            let Some(running) = state.running.get_mut(&key) else { return };
            running.is_to_end = true;
            let task = running.task.take();
            self.works.changed.notify_all();
            task
        };
        if let Some(task) = task {
            // Its panic was reported where it happened.
            let _ = task.join();
        }
    }

    /// The pool is being closed: what runs writes how far it is, and ends.
    pub(super) fn end_works(&self) {
        let (running, auto) = {
            let mut state = self.works.state.lock();
            state.is_closing = true;
            self.works.changed.notify_all();
            let running = state.running.values_mut().filter_map(|r| r.task.take());
            (running.collect::<Vec<_>>(), state.auto.take())
        };
        for task in running.into_iter().chain(auto) {
            let _ = task.join();
        }
    }
}

impl LivePool {
    /// Begins a work on the free space of a device, or goes on with one that was suspended; `rate`:
    /// bytes a second at most, 0 for as many as may be.
    ///
    /// # Errors
    /// When it runs already, or the device is not written to.
    pub fn start_work(&self, leaf: u64, work: LeafWork, rate: u64) -> Result<()> {
        let shared = &self.shared;
        shared.place(leaf)?;
        let tree = shared.reader.vdevs();
        if !tree.leaves().any(|l| l.guid() == leaf && l.writer().is_some()) {
            return Err(self.shared.refused(DeviceFault::NotInUse));
        }
        if let Some(why) = shared.why_no_work(leaf) {
            return Err(self.shared.refused(why));
        }
        drop(tree);
        let before = shared.work_progress(leaf, work)?;
        if shared.works.state.lock().running.contains_key(&(leaf, work)) {
            return Err(self.shared.refused(match work {
                LeafWork::Initialize => Ongoing::Initialize,
                LeafWork::Trim => Ongoing::Trim,
            }));
        }
        let goes_on = matches!(before.state, WorkState::Suspended | WorkState::Active);
        let mut now = LeafProgress {
            state: WorkState::Active,
            time: self.shared.rt.wall().as_secs(),
            ..LeafProgress::default()
        };
        if goes_on {
            (now.offset, now.time, now.rate) = (before.offset, before.time, before.rate);
        }
        if rate != 0 {
            now.rate = rate;
        }
        shared.run_keeping_datasets(move |cx| cx.put_work(leaf, work, &now, Some("activated")))?;
        shared.begin_work(leaf, work, now)
    }

    /// Ends a work that runs, so that it goes on where it was when it is started again.
    ///
    /// # Errors
    /// When it does not run.
    pub fn suspend_work(&self, leaf: u64, work: LeafWork) -> Result<()> {
        self.leave_work(leaf, work, WorkState::Suspended)
    }

    /// Calls a work off that runs or is suspended.
    ///
    /// # Errors
    /// When there is none.
    pub fn cancel_work(&self, leaf: u64, work: LeafWork) -> Result<()> {
        self.leave_work(leaf, work, WorkState::Canceled)
    }

    fn leave_work(&self, leaf: u64, work: LeafWork, left: WorkState) -> Result<()> {
        let shared = &self.shared;
        shared.place(leaf)?;
        shared.end_work((leaf, work));
        let now = shared.work_progress(leaf, work)?;
        let is_called_off = left == WorkState::Canceled;
        let word = if is_called_off { "canceled" } else { "suspended" };
        match now.state {
            WorkState::Active => {}
            WorkState::Suspended if is_called_off => {}
            _ => {
                return Err(self.shared.refused(match work {
                    LeafWork::Initialize => NotRunning::Initialize,
                    LeafWork::Trim => NotRunning::Trim,
                }));
            }
        }
        let now = LeafProgress { state: left, ..now };
        shared.run_keeping_datasets(move |cx| cx.put_work(leaf, work, &now, Some(word)))
    }

    /// Forgets that a device was initialized.
    ///
    /// # Errors
    /// When that is under way.
    pub fn forget_work(&self, leaf: u64, work: LeafWork) -> Result<()> {
        let shared = &self.shared;
        let now = shared.work_progress(leaf, work)?;
        if now.state == WorkState::Active {
            return Err(self.shared.refused(Ongoing::Initialize));
        }
        let none = LeafProgress::default();
        shared.run_keeping_datasets(move |cx| cx.put_work(leaf, work, &none, None))
    }

    /// Waits until a work runs on none of these devices.
    ///
    /// # Errors
    /// Why one of them failed, with the device's guid.
    pub fn wait_for_work(
        &self,
        work: LeafWork,
        leaves: &[u64],
        patience: std::time::Duration,
    ) -> std::result::Result<bool, (u64, String)> {
        let works = &self.shared.works;
        let mut state = works.state.lock();
        let runs = |state: &State| leaves.iter().any(|l| state.running.contains_key(&(*l, work)));
        let deadline = self.shared.rt.now() + patience;
        while runs(&state) && self.shared.rt.now() < deadline {
            works.changed.wait_until(&mut state, deadline);
        }
        let failed = |l: &u64| Some((*l, state.failures.get(&(*l, work))?.clone()));
        match leaves.iter().find_map(failed) {
            Some(failure) => Err(failure),
            None => Ok(!runs(&state)),
        }
    }
}
