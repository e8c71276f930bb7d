//! Transactions: the right to change a live object set, as part of one txg.
//!
//! A [`Tx`] belongs to the txg that was open when it began. As long as one of its transactions
//! lives, a txg cannot quiesce: keep them short, and never wait for a txg while holding one.

use crate::error::{ErrorKind, Result};
use ondisk::BlkPtr;
use std::fmt::Display;
use std::sync::Arc;
use zio::{Block, Place, UnsentBlock, WriteSpec};

/// How the space of a transaction is judged before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceUse {
    /// It uses space: refused when the pool, a quota or the reserve has none left.
    Write,
    /// It ends with no more space used than before (removing, truncating): may use a part of the
    /// pool's reserve.
    Free,
    /// It must go through whatever the state of the pool (destroying, housekeeping).
    Always,
    /// It is refused where it would have to wait, for space, for other writers or for devices
    /// (access times: a reader must not wait for them).
    Optional,
}

/// The declared effects of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// Bytes it may make dirty, a generous estimate.
    pub bytes: u64,
    /// How its space is judged.
    pub space: SpaceUse,
}

impl Hold {
    /// Writes `bytes` of data and what belongs to them.
    #[must_use]
    pub fn write(bytes: u64) -> Self {
        Self { bytes, space: SpaceUse::Write }
    }

    /// Notes something small that may be left out.
    #[must_use]
    pub fn optional(bytes: u64) -> Self {
        Self { bytes, space: SpaceUse::Optional }
    }

    /// Frees.
    #[must_use]
    pub fn free() -> Self {
        Self { bytes: 0, space: SpaceUse::Free }
    }
}

/// Where transactions come from: the txg machine of the pool.
pub trait Transactions: Send + Sync {
    /// Enters the open txg. Waits while the pool holds too much dirty data. `objset` is the set
    /// that will be changed, for quotas.
    fn begin(&self, objset: u64, hold: Hold) -> Result<Tx>;

    /// Pushes the txg along and waits until it is durable.
    fn wait_synced(&self, txg: u64) -> Result<()>;

    /// The same transactions for one that gives up: where it would have to wait for devices that
    /// fail, it is refused. `None`: these never wait for them.
    fn unless_suspended(&self) -> Option<Arc<dyn Transactions>> {
        None
    }

    /// `bytes` more became dirty in `txg`.
    fn dirtied(&self, txg: u64, bytes: u64);

    /// `bytes` that became dirty in `txg` were given up before they were written.
    fn dropped(&self, txg: u64, bytes: u64) {
        let _ = (txg, bytes);
    }

    /// One more object has changes in `txg`: it takes memory beside the bytes that are dirty in it.
    fn joined(&self, txg: u64) {
        let _ = txg;
    }

    /// Writes a block of the open `txg` before the sync: its pointer, and what hands it to its
    /// devices. The block is in a tree when the sync notifies the owner that it was born; when
    /// `txg` is synced without that, it is freed. `None`: there is no space that could be spared,
    /// no block is needed, or blocks are not written early here.
    fn write_early(
        &self,
        txg: u64,
        block: &Arc<Block>,
        spec: &WriteSpec<'_>,
        place: Place,
    ) -> Option<(BlkPtr, UnsentBlock)> {
        let _ = (txg, block, spec, place);
        None
    }

    /// Marks a block as named by a record of a log. False if it was not written by
    /// [`Self::write_early`], is in a tree already, or is named by another record.
    fn name_early(&self, bp: &BlkPtr) -> bool {
        let _ = bp;
        false
    }

    /// Expects blocks, which are durable and in use, in one more tree from the open `txg` on: they
    /// are not free when those that use them now give them up in that txg, before it is known
    /// whether the other tree has them. False: blocks are not shared here, or not all of these.
    fn expect_shared(&self, txg: u64, blocks: &[BlkPtr]) -> bool {
        let _ = (txg, blocks);
        false
    }

    /// A transaction of `txg` ended.
    fn ended(&self, txg: u64);

    /// The changes of an open txg must never be durable: no txg is written any more, and no
    /// transaction begins. Every caller gets `why`.
    fn stop(&self, why: &str);
}

/// The right to change objects in one txg; ends when it is dropped.
pub struct Tx {
    txg: u64,
    source: Option<Arc<dyn Transactions>>,
}

impl Tx {
    /// One transaction of `txg`; `source` is notified when it ends.
    #[must_use]
    pub fn new(txg: u64, source: Arc<dyn Transactions>) -> Self {
        Self { txg, source: Some(source) }
    }

    /// Changes made while `txg` is being synced: to the meta object set, by its one sync thread.
    #[must_use]
    pub fn syncing(txg: u64) -> Self {
        Self { txg, source: None }
    }

    /// Made by [`Self::syncing`].
    pub(crate) fn is_syncing(&self) -> bool {
        self.source.is_none()
    }

    /// Stops the pool before this transaction's txg is written, because the txg has half of a
    /// change: the change failed with `error`, and undoing it with `second`. A syncing caller
    /// (`Self::syncing`) stops the pool by the error that this returns.
    #[must_use]
    pub fn stop(&self, error: &dyn Display, second: &dyn Display) -> ErrorKind {
        let why = format!("a change failed half way ({error}), and cannot be taken back: {second}");
        if let Some(source) = &self.source {
            source.stop(&why);
        }
        ErrorKind::Stopped(why)
    }

    /// The txg it belongs to.
    #[must_use]
    pub fn txg(&self) -> u64 {
        self.txg
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(source) = self.source.take() {
            source.ended(self.txg);
        }
    }
}

impl std::fmt::Debug for Tx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tx({})", self.txg)
    }
}
