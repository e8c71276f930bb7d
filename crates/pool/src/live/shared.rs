//! What the users of a live pool and its sync thread share.
//!
//! Lock order, outermost first: [`Gate`] (may be held over I/O) → `heads` → `tasks`, `config`.
//! The txg machine's own lock is taken alone.

use super::config::PoolFacts;
use super::create::FIRST_TXG;
use super::features::FeatureTable;
use super::gate::Gate;
use super::heads::Heads;
use super::sync::TxgBlocks;
use super::txg::{TxgLimits, Txgs};
use crate::alloc::Allocator;
use crate::error::{Error, Result};
use dmu::{CachedStore, Hold, Objset, SpaceUse, Transactions, Tx};
use dsl::Dsl;
use dsl::write::MosAccount;
use ondisk::config::{PoolState, VdevConfig};
use ondisk::uberblock::Uberblock;
use parking_lot::{Mutex, RwLock};
use rt::Rt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use zio::{Reader, Writer};

/// A change of the MOS that waits for its txg.
pub(super) struct Task {
    /// It is done when this txg, or a later one, is synced.
    pub(super) txg: u64,
    pub(super) run: Box<dyn FnOnce(&mut TaskCx<'_>) + Send>,
}

/// The configuration as it is, and whether disk knows.
pub(super) struct ConfigState {
    pub(super) facts: PoolFacts,
    pub(super) root: VdevConfig,
    /// Its object in the MOS.
    pub(super) object: u64,
    /// State that the labels are to say.
    pub(super) state: PoolState,
    /// It changed since it was last written.
    pub(super) dirty: bool,
}

/// What a pool is made of, before anything runs.
pub(super) struct Parts {
    pub(super) reader: Arc<Reader>,
    pub(super) store: Arc<CachedStore>,
    pub(super) writer: Arc<Writer>,
    pub(super) alloc: Arc<Allocator>,
    pub(super) mos: Objset,
    pub(super) features: FeatureTable,
    pub(super) config: ConfigState,
    pub(super) uberblock: Uberblock,
}

/// See the head of the file.
pub(crate) struct Shared {
    pub(super) rt: Rt,
    pub(super) txgs: Txgs,
    pub(super) reader: Arc<Reader>,
    pub(super) store: Arc<CachedStore>,
    pub(super) writer: Arc<Writer>,
    pub(super) alloc: Arc<Allocator>,
    pub(super) mos: Objset,
    pub(super) mos_account: MosAccount,
    /// Frees of the txg being synced.
    pub(super) blocks: Arc<TxgBlocks>,
    pub(super) dsl: Dsl,
    pub(super) features: FeatureTable,
    pub(super) gate: Gate,
    pub(super) heads: RwLock<Heads>,
    pub(super) tasks: Mutex<Vec<Task>>,
    pub(super) config: Mutex<ConfigState>,
    /// The last one written.
    pub(super) uberblock: Mutex<Uberblock>,
    /// Something that was destroyed is not freed yet.
    pub(super) reaping: AtomicBool,
    /// Threads of a sync; 0: as many as can run.
    pub(super) workers: usize,
    pub(super) me: Weak<Shared>,
}

/// What a sync task works with. See `docs/decisions/0007-write-path.md`.
pub struct TaskCx<'a> {
    pub(super) shared: &'a Shared,
    /// The transaction of the txg being synced.
    pub tx: &'a Tx,
    pub(super) guid: &'a dyn Fn() -> u64,
}

impl Shared {
    /// Runs `task` in the sync of the open txg, or of a later one, and waits until that is durable.
    pub(super) fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut TaskCx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&slot);
        let txg = {
            let mut tasks = self.tasks.lock();
            let txg = self.txgs.open();
            let run = move |cx: &mut TaskCx<'_>| *answer.lock() = Some(task(cx));
            tasks.push(Task { txg, run: Box::new(run) });
            txg
        };
        // The sync of a txg takes the tasks after the next was opened, so this one is among them.
        self.txgs.wait_synced(txg).map_err(|why| self.stopped(&why))?;
        let answer = slot.lock().take();
        answer.unwrap_or_else(|| Err(self.stopped("the task was not run")))
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
        let Parts { reader, store, writer, alloc, mos, features, config, uberblock } = parts;
        let dsl = Dsl::open(mos.clone(), pool)?;
        let last = uberblock.txg.max(FIRST_TXG - 1);
        let blocks = Arc::new(TxgBlocks::new(&alloc, &writer));
        Ok(Arc::new_cyclic(|me| Self {
            rt: rt.clone(),
            txgs: Txgs::new(rt, last, TxgLimits::default()),
            reader,
            store,
            writer,
            alloc,
            mos,
            mos_account: MosAccount::new(Arc::clone(&blocks) as _),
            blocks,
            dsl,
            features,
            gate: Gate::new(rt),
            heads: RwLock::default(),
            tasks: Mutex::default(),
            config: Mutex::new(config),
            uberblock: Mutex::new(uberblock),
            reaping: AtomicBool::new(true),
            workers: 0,
            me: Weak::clone(me),
        }))
    }

    pub(super) fn pool(&self) -> String {
        self.config.lock().facts.name.clone()
    }

    pub(super) fn failed(&self, doing: &'static str, cause: &dyn std::fmt::Display) -> Error {
        Error::failed(&self.pool(), doing, cause)
    }

    pub(super) fn stopped(&self, why: &str) -> Error {
        Error::Stopped { pool: self.pool(), cause: why.to_owned() }
    }

    /// Bytes of disk that `bytes` of data may take: every block doubled for its metadata would be
    /// far too much for large ones and is about right for the smallest; what is promised is only
    /// compared with what is available, and corrected when the txg is synced.
    fn inflated(bytes: u64) -> u64 {
        bytes.saturating_add(bytes / 4).saturating_add(64 << 10)
    }

    fn check_space(&self, objset: u64, hold: Hold) -> Result<bool> {
        let Some(head) = self.heads.read().get(&objset).cloned() else {
            return Err(self.stopped("the dataset was destroyed or rolled back"));
        };
        match hold.space {
            SpaceUse::Write => Ok(head.promise(Self::inflated(hold.bytes))),
            SpaceUse::Free | SpaceUse::Always => Ok(true),
        }
    }
}

impl Transactions for Shared {
    fn begin(&self, objset: u64, hold: Hold) -> dmu::Result<Tx> {
        let fail = |kind| dmu::Error { objset, object: 0, kind };
        let stopped = |why: &str| fail(dmu::ErrorKind::Stopped(why.to_owned()));
        // What was freed can be used again two txgs later, and what is promised is mostly less once
        // it is written: so no space is only said after that.
        for attempt in 0.. {
            match self.check_space(objset, hold) {
                Ok(true) => break,
                Ok(false) if attempt < 3 => {
                    let open = self.txgs.open();
                    self.txgs.wait_synced(open).map_err(|why| stopped(&why))?;
                }
                Ok(false) => return Err(fail(dmu::ErrorKind::NoSpace)),
                Err(e) => return Err(stopped(&e.to_string())),
            }
        }
        let txg = self.txgs.enter(hold.space == SpaceUse::Write).map_err(|why| stopped(&why))?;
        match self.me.upgrade() {
            Some(me) => Ok(Tx::new(txg, me)),
            None => Err(stopped("the pool is being closed")),
        }
    }

    fn wait_synced(&self, txg: u64) -> dmu::Result<()> {
        self.txgs.wait_synced(txg).map_err(|why| dmu::Error {
            objset: 0,
            object: 0,
            kind: dmu::ErrorKind::Stopped(why.to_string()),
        })
    }

    fn dirtied(&self, txg: u64, bytes: u64) {
        self.txgs.dirtied(txg, bytes);
    }

    fn ended(&self, _txg: u64) {
        self.txgs.leave();
    }
}
