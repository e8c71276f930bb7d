//! Transactions of heads: the way into the open txg, past the room that is left (`budget.rs`) and
//! the throttle.

use super::budget::{HeadSpace, RoomCheck};
use super::mode::Patience;
use super::record::PushReason;
use super::shared::Shared;
use super::tunables::Tunable;
use dmu::{Hold, SpaceUse, Transactions, Tx};
use ondisk::BlkPtr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use zio::{Block, Place, UnsentBlock, WriteSpec};

/// Txgs that a transaction waits for before there is no space: two until what was freed is free,
/// and one to write what is dirty now.
const TXGS_WAITED: u32 = 3;

/// Txgs that it waits for while something is being destroyed, or others take all that there is.
const TXGS_OF_OTHERS: u32 = 1000;

/// Bytes of memory that a block takes which is put into one more tree: its pointer, and its address
/// until the txg is synced.
const SHARED_BYTES: u64 = 512;

/// The transactions of one head: what its live object set is given.
#[derive(Clone)]
pub(super) struct HeadTransactions {
    shared: Weak<Shared>,
    space: Arc<HeadSpace>,
    patience: Patience,
}

impl HeadTransactions {
    pub(super) fn new(shared: &Weak<Shared>, space: &Arc<HeadSpace>) -> Self {
        let patience = Patience::OfPool;
        Self { shared: Weak::clone(shared), space: Arc::clone(space), patience }
    }
}

/// The source of one transaction: it takes its promise back when that ends.
struct Reservation {
    head: HeadTransactions,
    shared: Arc<Shared>,
    bytes: u64,
    worst: u64,
    /// What it reserved of the txg, when the throttle was asked.
    throttled: Option<u64>,
}

/// Why no transaction gets into a head.
const CLOSED: &str = "the dataset was destroyed or rolled back, or its key unloaded";

fn stopped(objset: u64, why: &str) -> dmu::Error {
    dmu::Error { objset, object: 0, kind: dmu::ErrorKind::Stopped(why.to_owned()) }
}

impl Transactions for HeadTransactions {
    fn begin(&self, objset: u64, hold: Hold) -> dmu::Result<Tx> {
        let space = &self.space;
        let shared = self.shared.upgrade();
        let shared = shared.ok_or_else(|| stopped(objset, "the pool is closed"))?;
        let bytes = hold.bytes;
        let worst = space.worst_of_hold(bytes);
        for attempt in 0.. {
            if space.is_gone() {
                return Err(stopped(objset, CLOSED));
            }
            let fit = space.promise(&shared.space, bytes, worst, hold.space);
            if fit == RoomCheck::Now {
                break;
            }
            if hold.space == SpaceUse::Optional {
                return Err(stopped(objset, "it would have to wait for space"));
            }
            if hold.space == SpaceUse::Free && attempt >= TXGS_WAITED {
                space.promise_anyway(&shared.space, bytes, worst);
                break;
            }
            let others = shared.reaping.load(Relaxed) || fit == RoomCheck::Later;
            if attempt >= if others { TXGS_OF_OTHERS } else { TXGS_WAITED } {
                let kind = space.lack(&shared.space, worst);
                return Err(dmu::Error { objset, object: 0, kind });
            }
            let open = shared.txgs.open();
            shared
                .txgs
                .wait_synced_with(open, PushReason::Space, self.patience)
                .map_err(|why| stopped(objset, &why))?;
        }
        let throttled = (hold.space == SpaceUse::Write).then_some(bytes);
        let entered = match hold.space {
            SpaceUse::Optional => shared.txgs.enter_unless_suspended(),
            _ => shared.txgs.enter_with(throttled, self.patience),
        };
        match entered {
            Ok(txg) => {
                let head = self.clone();
                let tx =
                    Tx::new(txg, Arc::new(Reservation { head, shared, bytes, worst, throttled }));
                // Asked again: what closes a head waits for the txgs that are open by then.
                match space.is_gone() {
                    true => Err(stopped(objset, CLOSED)),
                    false => Ok(tx),
                }
            }
            Err(why) => {
                space.take_back(&shared.space, bytes, worst);
                Err(stopped(objset, &why))
            }
        }
    }

    fn wait_synced(&self, txg: u64) -> dmu::Result<()> {
        let shared = self.shared.upgrade();
        let shared = shared.ok_or_else(|| stopped(0, "the pool is closed"))?;
        let synced = shared.txgs.wait_synced_with(txg, PushReason::Waited, self.patience);
        synced.map_err(|why| stopped(0, &why))
    }

    fn unless_suspended(&self) -> Option<Arc<dyn Transactions>> {
        Some(Arc::new(Self { patience: Patience::None, ..self.clone() }))
    }

    fn dirtied(&self, txg: u64, bytes: u64) {
        let Some(shared) = self.shared.upgrade() else { return };
        self.space.dirtied(&shared.space, txg, bytes);
        shared.txgs.dirtied(txg, bytes);
    }

    fn joined(&self, txg: u64) {
        if let Some(shared) = self.shared.upgrade() {
            shared.txgs.joined(txg);
        }
    }

    fn write_early(
        &self,
        txg: u64,
        block: &Arc<Block>,
        spec: &WriteSpec<'_>,
        place: Place,
    ) -> Option<(BlkPtr, UnsentBlock)> {
        let shared = self.shared.upgrade()?;
        let each = shared.alloc.worst_dsize(block.len() as u64);
        let worst = each.saturating_mul(u64::from(spec.copies.max(1)));
        if !shared.space.promise_log(worst) {
            return None;
        }
        match shared.writer.write_unsent(block, spec, place) {
            Ok((bp, unsent)) if !bp.is_hole() && !bp.is_embedded() => {
                shared.early.add(txg, &bp);
                shared.space.log_took(worst, txg);
                Some((bp, unsent))
            }
            _ => {
                shared.space.log_did_not(worst);
                None
            }
        }
    }

    fn name_early(&self, bp: &BlkPtr) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.early.name(bp))
    }

    fn expect_shared(&self, txg: u64, blocks: &[BlkPtr]) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let is_on = shared.tunables.get(Tunable::BcloneEnabled) != 0;
        if !is_on || !shared.features.is_enabled("block_cloning") {
            return false;
        }
        if !shared.clones.expect(txg, blocks) {
            return false;
        }
        // The dataset is charged as for a write, though the pool gives no space.
        let bytes = blocks.iter().map(|bp| shared.alloc.dsize(bp)).fold(0, u64::saturating_add);
        self.space.shares(txg, bytes);
        shared.txgs.dirtied(txg, SHARED_BYTES * blocks.len() as u64);
        true
    }

    fn ended(&self, _txg: u64) {}

    fn stop(&self, why: &str) {
        if let Some(shared) = self.shared.upgrade() {
            shared.txgs.stop(why);
        }
    }
}

impl Transactions for Reservation {
    fn begin(&self, objset: u64, hold: Hold) -> dmu::Result<Tx> {
        self.head.begin(objset, hold)
    }

    fn wait_synced(&self, txg: u64) -> dmu::Result<()> {
        self.head.wait_synced(txg)
    }

    fn dirtied(&self, txg: u64, bytes: u64) {
        self.head.dirtied(txg, bytes);
    }

    fn ended(&self, txg: u64) {
        self.head.space.take_back(&self.shared.space, self.bytes, self.worst);
        self.shared.txgs.leave(txg, self.throttled);
    }

    fn stop(&self, why: &str) {
        self.shared.txgs.stop(why);
    }
}
