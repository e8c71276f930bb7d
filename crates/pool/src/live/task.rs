//! Sync tasks: how they are run, and what one can do, with the MOS in syncing context. The object
//! sets of datasets that it makes are in `new_sets.rs`.
//!
//! # Theory
//!
//! A sync task is all or nothing. It runs in the sync of one txg, alone, after the data of all
//! heads was written and accounted, and it has two halves:
//!
//! ```text
//! check    reads only, and may fail for any reason: a name that is taken, a quota, a feature that
//!          is missing, a block that cannot be read. The caller gets the error, nothing else
//!          happens, the txg goes on with the next task.
//! change   begins with the first change and may fail no more. If it does (a block that cannot be
//!          read, a structure that contradicts itself, no space), half of the task stands in
//!          memory, mixed with what other tasks did. Then the txg is broken: its uberblock is not
//!          written, the pool stops, and the disks keep the state of the last durable txg.
//! ```
//!
//! Where one half ends is not declared but observed ([`TaskCx::whole`]): the MOS counts its
//! changes, and what else a task changes (the table of open heads, space, object sets of its own)
//! is told by [`TaskCx::touch`] *before* it is changed. So a check that comes too late does no harm
//! to the disks, but it stops a pool where a refusal would have done: whatever can be refused for a
//! logical reason has to be asked before the first change. `dsl::write` has a `check_…` for each
//! task; a task of several steps asks for all of them first.
//!
//! Several tasks in one ([`TaskCx::whole`] nested) are for lists whose items stand alone, such as
//! properties: the refusal of one leaves those before it done.
//!
//! Why not roll back: see `docs/decisions/0013-sync-tasks.md`. Tests make every access of every
//! task fail once ([`TaskFaults`](super::TaskFaults), `crates/engine/tests/atomic.rs`).

use super::history::{self, Invocation};
use super::record::PushReason;
use super::shared::{Shared, Task, TaskCx};
use crate::error::Result;
use dmu::{Objset, Tx};
use dsl::names::is_within;
use dsl::write::{Blocks, DslCx, FeatureCounts, PropertyChange, Timestamp};
use dsl::{Dataset, Dsl, StoredValue};
use ondisk::mos;
use ondisk::nvlist::NvList;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks that one txg frees in the background, at most: some thousand are a few hundred
/// milliseconds of work, so that a large destroy does not hold up the txg of all others.
const FREES_PER_TXG: u64 = 20_000;

/// What is said of a change that cannot be taken back.
const BEGUN: &str = "the change had begun, and completes if the pool resumes before it is closed";

/// What is known of a task before it runs, as [`Task`] has it.
#[derive(Clone, Copy, Default)]
struct TaskOrder {
    is_first: bool,
    keeps_datasets: bool,
}

impl Shared {
    /// Runs `task` in the sync of the open txg, or of a later one, and waits until that is durable.
    /// When the pool is suspended meanwhile, a task that has not begun never does.
    pub(super) fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce(&TaskCx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_task(task, TaskOrder::default())
    }

    /// The same for a task that changes no dataset and comes before all that its txg frees.
    pub(super) fn run_first<T: Send + 'static>(
        &self,
        task: impl FnOnce(&TaskCx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_task(task, TaskOrder { is_first: true, keeps_datasets: true })
    }

    /// The same for a task that changes no dataset, so that the place of a scrub stays true.
    pub(super) fn run_keeping_datasets<T: Send + 'static>(
        &self,
        task: impl FnOnce(&TaskCx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_task(task, TaskOrder { is_first: false, keeps_datasets: true })
    }

    fn run_task<T: Send + 'static>(
        &self,
        task: impl FnOnce(&TaskCx<'_>) -> Result<T> + Send + 'static,
        TaskOrder { is_first, keeps_datasets }: TaskOrder,
    ) -> Result<T> {
        if let Some(why) = self.txgs.why_suspended() {
            return Err(self.suspended(why.to_string()));
        }
        let slot = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&slot);
        // Set by the one that comes first: the task that begins, or the caller that gives it up.
        let settled = Arc::new(AtomicBool::new(false));
        let is_given_up = Arc::clone(&settled);
        let txg = {
            let mut tasks = self.tasks.lock();
            let txg = self.txgs.open();
            let run = move |cx: &mut TaskCx<'_>| {
                if is_given_up.swap(true, Ordering::AcqRel) {
                    return;
                }
                cx.shared.faults.begin();
                let done = cx.whole(|cx| task(cx));
                cx.shared.faults.end();
                *answer.lock() = Some(done);
            };
            tasks.push(Task { txg, run: Box::new(run), is_first, keeps_datasets });
            txg
        };
        // The sync of a txg takes the tasks after the next was opened, so this one is among them.
        let synced = self.txgs.wait_synced_unless_suspended(txg, PushReason::Task);
        synced.map_err(|why| match settled.swap(true, Ordering::AcqRel) {
            // It is in the txg that waits for devices, among others.
            true => self.stopped(&format!("{why}; {BEGUN}")),
            // The pool may go on much later, when it is not expected any more.
            false => self.stopped(&why),
        })?;
        let answer = slot.lock().take();
        answer.unwrap_or_else(|| Err(self.stopped("the task was not run")))
    }
}

impl<'a> TaskCx<'a> {
    pub(super) fn new(shared: &'a Shared, tx: &'a Tx, guid: &'a dyn Fn() -> u64) -> Self {
        let pool_size = shared.size_for_datasets();
        let (caller, broken) = (RefCell::default(), RefCell::default());
        Self { shared, tx, guid, pool_size, caller, touched: Cell::new(0), broken }
    }

    /// Runs a task, or a part of one that stands alone. When it fails after a change the txg is
    /// broken.
    pub(super) fn whole<T>(&self, task: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let changes = || self.objects().changes() + self.touched.get();
        let before = changes();
        let done = task(self);
        if let Err(e) = &done
            && changes() != before
        {
            self.broken.borrow_mut().get_or_insert_with(|| e.to_string());
        }
        done
    }

    /// Something beside the MOS is about to be changed: from here on the task must not fail.
    pub(super) fn touch(&self) {
        self.touched.set(self.touched.get() + 1);
    }

    /// The meta object set, for a sync: its reads wait for devices.
    pub(super) fn objects(&self) -> &'a Objset {
        &self.shared.mos_in_sync
    }

    /// It is done for a user, and not for the administrator.
    pub(super) fn is_for_caller(&self) -> bool {
        self.caller.borrow().is_some()
    }

    /// The datasets, for a sync: its reads wait for devices.
    pub(super) fn datasets(&self) -> &'a Dsl {
        match self.is_for_caller() {
            true => &self.shared.dsl_for_users,
            false => &self.shared.dsl_in_sync,
        }
    }

    /// The context of the functions of [`dsl::write`].
    #[must_use]
    pub fn dsl(&self) -> DslCx<'_> {
        let wall = self.shared.rt.wall();
        let caller = self.caller.borrow().as_ref().map(|caller| caller.user);
        DslCx {
            creator: caller.unwrap_or_else(|| self.shared.owner.load(Ordering::Relaxed)),
            mos: self.objects(),
            tx: self.tx,
            blocks: &*self.shared.blocks as &dyn Blocks,
            features: &self.shared.features as &dyn FeatureCounts,
            now: Timestamp { secs: wall.as_secs(), nanos: u64::from(wall.subsec_nanos()) },
            guid: self.guid,
            pool_size: self.pool_size,
        }
    }

    /// Takes a dataset's head out of use: it is about to be destroyed or to be another one.
    pub(super) fn drop_head(&self, dataset: u64) {
        self.touch();
        self.shared.store.used().forget(dataset);
        if let Some(head) = self.shared.heads.write().remove(&dataset) {
            head.space.close();
        }
    }

    /// Whether there is room for something new in the MOS. What is asked first of all, so that
    /// nothing is half done.
    pub(super) fn check_room(&self, what: &str) -> Result<()> {
        let unreserved = self.pool_size.saturating_sub(self.datasets().root()?.phys.used);
        match unreserved.min(self.shared.space.for_writing()) {
            0 => Err(dsl::Error::refused(what, dsl::Refusal::NoSpace).into()),
            _ => Ok(()),
        }
    }

    /// Frees a piece of what was destroyed before. `tasks_ran` when this txg may have added to it:
    /// many ways lead there (a snapshot, its last hold or clone, a rollback), so the lists are
    /// asked, not what may have filled them.
    pub(super) fn free_piece(&self, tasks_ran: bool) -> Result<()> {
        let reaping = &self.shared.reaping;
        if tasks_ran {
            reaping.store(!dsl::write::is_drained(&self.dsl())?, Ordering::Relaxed);
        }
        if reaping.load(Ordering::Relaxed) {
            let drained = dsl::write::drain(&self.dsl(), FREES_PER_TXG)?;
            reaping.store(!drained.done, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Adds a line to the pool's history.
    pub(super) fn log_command(&self, what: &Invocation) -> Result<()> {
        self.append_history(&[history::command(what, self.dsl().now.secs)], false)
    }

    /// Notes something that was done to a dataset.
    pub(super) fn log_event(&self, name: &str, text: &str, dataset: &str) -> Result<()> {
        let object = self.datasets().by_name(dataset).map_or(0, |d| d.object);
        self.log_event_of(name, text, (dataset, object))
    }

    /// The same for one that has another name by now, or none.
    pub(super) fn log_event_of(&self, name: &str, text: &str, dataset: (&str, u64)) -> Result<()> {
        let host = self.shared.config.lock().facts.hostname.clone();
        let (txg, now) = (self.tx.txg(), self.dsl().now.secs);
        let record = history::event(name, text, Some(dataset), txg, now, &host);
        self.append_history(&[record], false)
    }

    /// Notes something that was done to the pool as a whole.
    pub(super) fn log_event_of_pool(&self, name: &str, text: &str) -> Result<()> {
        let host = self.shared.config.lock().facts.hostname.clone();
        let record = history::event(name, text, None, self.tx.txg(), self.dsl().now.secs, &host);
        self.append_history(&[record], false)
    }

    /// Notes that a property was changed, as OpenZFS words it.
    pub(super) fn log_change(&self, dataset: &str, change: &PropertyChange) -> Result<()> {
        let (event, value) = match &change.value {
            Some(StoredValue::Number(n)) => ("set", n.to_string()),
            Some(StoredValue::Text(text)) => ("set", text.clone()),
            None => ("inherit", String::new()),
        };
        self.log_event(event, &format!("{}={value}", change.name), dataset)
    }

    /// Refuses to touch a dataset that is in use ([`super::LivePool::hold_open`]).
    pub(super) fn check_unused(&self, dataset: &Dataset) -> Result<()> {
        self.shared.uses.check(dataset)
    }

    /// Refuses to give another name to what is being received, or to something above it.
    pub(super) fn check_not_receiving(&self, name: &str) -> Result<()> {
        let dsl = self.datasets();
        for object in self.shared.uses.all() {
            // Those that are not heads are snapshots.
            let Ok(head) = dsl.nameless_head(object) else { continue };
            if head.phys.is_inconsistent() && is_within(&dsl.name_of(object)?, name) {
                return Err(dsl::Error::refused(name, dsl::Refusal::Busy).into());
            }
        }
        Ok(())
    }

    /// The object of a snapshot, and how many holds it has.
    pub(super) fn holds(&self, snapshot: &str) -> Result<(u64, usize)> {
        let dsl = self.datasets();
        let dataset = dsl.by_name(snapshot)?;
        Ok((dataset.object, dsl.holds(&dataset)?.len()))
    }

    pub(super) fn append_history(&self, records: &[NvList], creation: bool) -> Result<()> {
        let mos = self.objects();
        let directory = dmu::Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
        let Some(number) = directory.get_u64(mos::HISTORY)? else { return Ok(()) };
        history::append(mos, self.tx, number, records, creation)?;
        records.iter().for_each(|record| self.shared.post_history(record));
        Ok(())
    }
}
