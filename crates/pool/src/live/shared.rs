//! What the users of a live pool and its sync thread share.
//!
//! Lock order, outermost first: [`Gate`] (may be held over I/O) → `heads` → `tasks`, `config`.
//! The txg machine's own lock is taken alone.

use super::blocks::TxgBlocks;
use super::budget::Budget;
use super::clones::SharedBlocks;
use super::config::{FIRST_TXG, PoolFacts};
use super::early::EarlyBlocks;
use super::error_scrubs::ErrorScrub;
use super::events::{Events, KnownState};
use super::features::FeatureTable;
use super::head::{Head, Heads};
use super::mode::OfflineMode;
use super::reflows::Reflows;
use super::removals::Removals;
use super::repairs::Repairs;
use super::resumed::Resumed;
use super::running_work::RunningWork;
use super::scans::Scans;
use super::sync_reads::{Mos, PatientStore};
use super::task_faults::TaskFaults;
use super::tunables::{Tunable, Tunables};
use super::txg::{TxgLimits, Txgs};
use super::uses::Uses;
use crate::alloc::{Allocator, TopSpec};
use crate::dtl::DirtyTimeLogs;
use crate::error::{Error, Result};
use crate::faults::FaultLog;
use crate::gate::Gate;
use crate::not_used::Refused;
use crate::open::AuxSizes;
use crate::refusal::PoolRefusal;
use crate::taken_over::is_taken_over;
use device::WriteDeviceRef;
use dmu::{CachedStore, Objset, Tx};
use dsl::write::MosAccount;
use dsl::{Caller, Dsl};
use ondisk::config::{PoolState, VdevConfig};
use ondisk::uberblock::Uberblock;
use parking_lot::{Mutex, RwLock};
use rt::Rt;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use vdev::label::Round;
use vdev::queue::QueueLimits;
use zio::{Reader, Writer};

/// A change of the MOS that waits for its txg.
pub(super) struct Task {
    /// It is done when this txg, or a later one, is synced.
    pub(super) txg: u64,
    pub(super) run: Box<dyn FnOnce(&mut TaskCx<'_>) + Send>,
    /// It comes before everything else of its txg.
    pub(super) is_first: bool,
    /// It changes no dataset: the place of a scrub stays true (`scan/kept.rs`).
    pub(super) keeps_datasets: bool,
}

/// The configuration as it is, and whether disk knows.
pub(super) struct ConfigState {
    pub(super) facts: PoolFacts,
    pub(super) root: VdevConfig,
    /// Its object in the MOS.
    pub(super) object: u64,
    /// What the dirty time logs in the MOS hold.
    pub(super) logs: DirtyTimeLogs,
    /// State that the labels are to say.
    pub(super) state: PoolState,
    /// It changed since it was last written.
    pub(super) dirty: bool,
    /// The labels that are written before the next uberblock, and those after it.
    pub(super) rounds: [Round; 2],
}

impl ConfigState {
    /// Of a pool that was just opened or made. The labels must say which host has it now.
    pub(super) fn new(
        facts: PoolFacts,
        root: VdevConfig,
        object: u64,
        logs: DirtyTimeLogs,
        rounds: [Round; 2],
    ) -> Self {
        Self { facts, root, object, logs, state: PoolState::Active, dirty: true, rounds }
    }
}

/// The order of the labels, but after a crash (see `vdev::label`).
pub(super) const USUAL_ROUNDS: [Round; 2] = [Round::First, Round::Second];

/// Txgs that can be in progress at once: the one that is synced, and two that come after it.
pub(super) const TXGS_ALIVE: u64 = 3;

/// What a pool is made of, before anything runs.
pub(super) struct Parts {
    pub(super) reader: Arc<Reader>,
    pub(super) store: Arc<CachedStore>,
    pub(super) writer: Arc<Writer>,
    pub(super) alloc: Arc<Allocator>,
    pub(super) mos: Mos,
    pub(super) features: FeatureTable,
    pub(super) config: ConfigState,
    pub(super) uberblock: Uberblock,
    pub(super) block_faults: Arc<FaultLog>,
}

/// See the head of the file.
pub(crate) struct Shared {
    /// The name of the pool, which it keeps as long as it is open.
    name: String,
    pub(super) rt: Rt,
    pub(super) txgs: Arc<Txgs>,
    pub(super) tunables: Tunables,
    pub(super) reader: Arc<Reader>,
    pub(super) store: Arc<CachedStore>,
    pub(super) writer: Arc<Writer>,
    pub(super) alloc: Arc<Allocator>,
    /// The store for the reads of syncs.
    pub(super) patient: Arc<PatientStore>,
    /// The MOS for the sync, and for what works for it; all others read [`Self::mos`].
    pub(super) mos_in_sync: Objset,
    pub(super) mos: Objset,
    pub(super) mos_account: MosAccount,
    /// Blocks that are written, and in no tree yet.
    pub(super) early: EarlyBlocks,
    /// Frees of the txg being synced.
    pub(super) blocks: Arc<TxgBlocks>,
    /// Blocks that several files share.
    pub(super) clones: Arc<SharedBlocks>,
    /// The datasets for the sync; all others read [`Self::dsl`].
    pub(super) dsl_in_sync: Dsl,
    pub(super) dsl: Dsl,
    /// Those of [`Self::dsl_in_sync`], for tasks of users for whom limits count.
    pub(super) dsl_for_users: Dsl,
    /// The user who opened the pool.
    pub(super) owner: AtomicU64,
    pub(super) features: FeatureTable,
    pub(super) gate: Arc<Gate>,
    pub(super) heads: RwLock<Heads>,
    /// What programs have open.
    pub(super) uses: Arc<Uses>,
    /// Names of datasets that were used, as they were when statistics were last asked for.
    pub(super) names: Mutex<BTreeMap<u64, String>>,
    /// What may be written, of all heads together.
    pub(super) space: Budget,
    pub(super) tasks: Mutex<Vec<Task>>,
    pub(super) config: Mutex<ConfigState>,
    /// Spares and cache devices, as the MOS lists them.
    pub(super) aux: Mutex<[Vec<VdevConfig>; 2]>,
    /// Cache devices that were taken out of use as long as the pool is open, and how.
    pub(super) cache_marks: Mutex<BTreeMap<u64, OfflineMode>>,
    /// Those that can be opened, as far as is known, and their sizes in bytes, by guid.
    pub(super) aux_sizes: AuxSizes,
    /// Top-level vdevs that the txg which is being synced adds.
    pub(super) added: Mutex<Vec<TopSpec>>,
    /// The last one written.
    pub(super) uberblock: Mutex<Uberblock>,
    /// Something that was destroyed is not freed yet.
    pub(super) reaping: AtomicBool,
    /// What a checkpoint kept that was discarded is not freed yet.
    pub(super) discarding: AtomicBool,
    pub(super) me: Weak<Shared>,
    /// Limits of the queues of the leaves.
    pub(super) queues: Arc<QueueLimits>,
    /// What readers met.
    pub(super) block_faults: Arc<FaultLog>,
    /// Failures that a test asks for in sync tasks.
    pub(super) faults: Arc<TaskFaults>,
    /// Scrub and resilver.
    pub(super) scans: Scans,
    /// What looks again at the blocks of the error log.
    pub(super) error_scrub: ErrorScrub,
    /// What writes bad copies anew that readers met.
    pub(super) repairs: Repairs,
    /// What was found in the place of leaves and is not used, by their guids (`returned.rs`).
    pub(super) refused: Mutex<BTreeMap<u64, Refused>>,
    /// Initialize and trim.
    pub(super) works: RunningWork,
    /// A vdev that leaves.
    pub(super) removals: Removals,
    /// A raidz vdev that gets wider.
    pub(super) reflows: Reflows,
    /// What happened.
    pub(super) events: Arc<Events>,
    /// What events were last told of.
    pub(super) seen: Mutex<KnownState>,
    /// How often labels with a new configuration were written.
    pub(super) labels_written: AtomicU64,
    /// The pool's property `autoexpand`, as it was when it was last asked for.
    pub(super) expands: AtomicBool,
    /// What suspensions left.
    pub(super) resumed: Resumed,
}

/// What a sync task works with. See `docs/decisions/0007-write-path.md`.
pub struct TaskCx<'a> {
    pub(super) shared: &'a Shared,
    /// The transaction of the txg being synced.
    pub tx: &'a Tx,
    pub(super) guid: &'a dyn Fn() -> u64,
    /// Bytes that all datasets together may take.
    pub(super) pool_size: u64,
    /// The user whom the task is for, when that is not the administrator.
    pub(super) caller: RefCell<Option<Arc<Caller>>>,
    /// What was changed beside the MOS.
    pub(super) touched: Cell<u64>,
    /// Why a task stopped half way: the txg must not become durable.
    pub(super) broken: RefCell<Option<String>>,
}

/// The same datasets and keys for users for whom limits count.
fn for_users(dsl: &Dsl) -> Dsl {
    let mut out = dsl.apart();
    out.share_keys(dsl);
    out
}

impl Shared {
    /// A removal copies a piece in each txg.
    pub(super) fn is_removal_running(&self) -> bool {
        self.removals.is_running() && self.tunables.get(Tunable::RemovalSuspend) == 0
    }

    /// The open heads, in an order that a hash table does not decide: what is done with each reads
    /// from the devices, and a simulation must repeat it.
    pub(super) fn all_heads(&self) -> Vec<Arc<Head>> {
        let mut all: Vec<_> = self.heads.read().values().cloned().collect();
        all.sort_by_key(|h| h.dataset);
        all
    }

    /// The tasks that belong to `txg` or an older one.
    pub(super) fn take_tasks(&self, txg: u64) -> Vec<Task> {
        let mut tasks = self.tasks.lock();
        let (now, later) = tasks.drain(..).partition(|t| t.txg <= txg);
        *tasks = later;
        now
    }

    /// A pool over these parts, as of the txg of their uberblock.
    pub(super) fn new(rt: &Rt, parts: Parts, pool: &str) -> Result<Arc<Self>> {
        let Parts { reader, store, writer, alloc, mos, features, config, uberblock, block_faults } =
            parts;
        let Mos { objects: mos, in_sync: mos_in_sync, patient } = mos;
        let dsl = Dsl::open(mos.clone(), pool)?;
        let dsl_in_sync = dsl.through(mos_in_sync.clone());
        let dsl_for_users = for_users(&dsl_in_sync);
        let last = uberblock.txg.max(FIRST_TXG - 1);
        store.set_settled(uberblock.txg);
        let clones = Arc::new(SharedBlocks::load(&mos_in_sync)?);
        let blocks = Arc::new(TxgBlocks::new(&alloc, &writer, &clones));
        let txgs = Arc::new(Txgs::new(rt, last, TxgLimits::default()));
        writer.set_observer(Arc::clone(&txgs) as _);
        let queues = Arc::clone(reader.vdevs().queue_limits());
        let faults = Arc::<TaskFaults>::default();
        mos.inject(&faults.accesses);
        Ok(Arc::new_cyclic(|me| Self {
            name: pool.to_owned(),
            rt: rt.clone(),
            txgs,
            tunables: Tunables::of(rt),
            reader,
            store,
            writer,
            alloc,
            patient,
            mos_in_sync,
            mos,
            mos_account: MosAccount::new(Arc::clone(&blocks) as _),
            early: EarlyBlocks::default(),
            blocks,
            clones,
            dsl_in_sync,
            dsl,
            dsl_for_users,
            owner: AtomicU64::new(0),
            features,
            gate: Arc::new(Gate::new(rt)),
            heads: RwLock::default(),
            uses: Arc::default(),
            names: Mutex::default(),
            space: Budget::default(),
            tasks: Mutex::default(),
            config: Mutex::new(config),
            aux: Mutex::default(),
            cache_marks: Mutex::default(),
            aux_sizes: AuxSizes::default(),
            added: Mutex::default(),
            uberblock: Mutex::new(uberblock),
            reaping: AtomicBool::new(true),
            discarding: AtomicBool::new(false),
            me: Weak::clone(me),
            queues,
            block_faults,
            faults,
            scans: Scans::new(rt),
            error_scrub: ErrorScrub::new(rt),
            repairs: Repairs::new(rt),
            refused: Mutex::default(),
            works: RunningWork::new(rt),
            removals: Removals::new(rt),
            reflows: Reflows::new(rt),
            events: Arc::new(Events::new(rt)),
            seen: Mutex::default(),
            labels_written: AtomicU64::new(0),
            expands: AtomicBool::new(false),
            resumed: Resumed::default(),
        }))
    }

    /// A device that is in no tree yet, with deadlines for its requests.
    pub(super) fn guarded(&self, device: &WriteDeviceRef) -> WriteDeviceRef {
        vdev::guarded(&self.rt, device, &self.queues)
    }

    /// The name of the pool.
    pub(super) fn pool(&self) -> &str {
        &self.name
    }

    /// The pool does not do it, for this reason.
    pub(super) fn refused(&self, why: impl Into<PoolRefusal>) -> Error {
        Error::refused(&self.name, why)
    }

    pub(super) fn failed(
        &self,
        doing: &'static str,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::failed(self.pool(), doing, cause)
    }

    /// Nothing that runs in the background is begun or ended while the pool is suspended.
    pub(super) fn check_not_suspended(&self) -> Result<()> {
        self.txgs.why_suspended().map_or(Ok(()), |why| Err(self.stopped(&why)))
    }

    /// Something was not done, because the pool is suspended.
    pub(super) fn suspended(&self, cause: String) -> Error {
        let is_taken_over = is_taken_over(&self.reader.vdevs());
        Error::Suspended { pool: self.pool().to_owned(), cause, is_taken_over }
    }

    /// Why something was not done: the pool has stopped, or is suspended.
    pub(super) fn stopped(&self, why: &str) -> Error {
        if self.txgs.why_suspended().is_some() {
            return self.suspended(why.to_owned());
        }
        Error::Stopped { pool: self.pool().to_owned(), cause: why.to_owned() }
    }
}
