//! The pool's checkpoint: a state that is kept as a whole, and what it costs to keep.
//!
//! # Theory
//!
//! ```text
//!              checkpoint                    discard                     nothing is kept
//!   none  -------------------->  exists  -------------->  discarding  ------------------>  none
//!                                   |                      (each txg frees a piece)
//!                                   '-- import with rewind (`rewind.rs`) --> none
//! ```
//!
//! A checkpoint is the last uberblock that is durable, copied into the MOS. The task that copies it
//! runs before anything else in its txg, because what this txg frees is the first that must be
//! kept: blocks born up to the checkpoint go into a space map of their vdev when they are freed
//! (`alloc/checkpoint.rs`). So the whole tree below the copied uberblock stays as it was, and going
//! back is to open the pool with it.
//!
//! The feature `zpool_checkpoint` counts 1 from the first to the last moment, also while the
//! discarded checkpoint is freed. As long as it does, the vdevs must stay what they are, or the
//! checkpoint's configuration would be wrong: devices neither come beside others nor go, and the
//! pool keeps its guid ([`TaskCx::check_no_checkpoint`]). Vdevs may be added; after going back they
//! are not part of the pool.

use super::LivePool;
use super::shared::{Shared, TaskCx};
use crate::error::{Error, Result};
use crate::live::config_edit::bad;
use crate::refusal::{Ongoing, PoolRefusal};
use crate::removal::CheckpointState;
use dmu::{Zap, ZapValue, zap};
use ondisk::uberblock::Uberblock;
use ondisk::{Endian, checkpoint, mos};
use std::sync::atomic::Ordering;

impl TaskCx<'_> {
    fn checkpoint_state(&self) -> Result<CheckpointState> {
        let directory = Zap::open(&self.objects().object(mos::DIRECTORY_OBJECT)?)?;
        let is_kept = directory.get(mos::ZPOOL_CHECKPOINT.as_bytes())?.is_some();
        Ok(CheckpointState::of(self.shared.features.count(checkpoint::FEATURE), is_kept))
    }

    /// Refuses what a pool with a checkpoint does not do.
    pub(super) fn check_no_checkpoint(&self) -> Result<()> {
        self.shared.check_no_checkpoint()
    }

    /// Keeps the state of the last durable txg. Runs before anything is freed in this one.
    fn make_checkpoint(&self) -> Result<()> {
        let shared = self.shared;
        let pool = || shared.pool().to_owned();
        match (shared.features.count(checkpoint::FEATURE), self.checkpoint_state()?) {
            (None, _) => {
                return Err(self
                    .shared
                    .refused(PoolRefusal::FeatureNotEnabled("zpool_checkpoint")));
            }
            (_, CheckpointState::Exists) => return Err(Error::CheckpointExists { pool: pool() }),
            (_, CheckpointState::Discarding) => {
                return Err(Error::CheckpointDiscarding { pool: pool() });
            }
            (_, CheckpointState::None) => {}
        }
        let tops = shared.config.lock().root.children.clone();
        let is_bare = |top: &ondisk::config::VdevConfig| {
            top.metaslab_array.is_some_and(|n| n != 0) && top.vdev_zap_top.unwrap_or(0) == 0
        };
        if tops.iter().any(is_bare) {
            return Err(self.shared.refused(PoolRefusal::NoVdevTables("a checkpoint")));
        }
        if tops.iter().any(|top| top.removing) {
            return Err(self.shared.refused(Ongoing::Removal));
        }
        if shared.reflows.running().is_some() {
            return Err(self.shared.refused(Ongoing::Expansion));
        }
        self.check_room(&pool())?;
        let mut kept = *shared.uberblock.lock();
        kept.checkpoint_txg = kept.txg;
        let words = checkpoint::uberblock_words(&kept.encode(Endian::Little), Endian::Little);
        let words = words.map_err(|e| bad(&e))?;
        self.touch();
        shared.alloc.set_checkpoint(Some(kept.txg));
        let directory = self.objects().object(mos::DIRECTORY_OBJECT)?;
        let value = ZapValue::from_words(&words);
        zap::set(&directory, self.tx, mos::ZPOOL_CHECKPOINT.as_bytes(), &value)?;
        shared.features.add(self.tx, checkpoint::FEATURE, 1)?;
        let text = format!("checkpointed uberblock txg={}", kept.txg);
        self.log_event_of_pool("spa checkpoint", &text)
    }

    /// Gives the checkpoint up. What it kept is freed from this txg on.
    fn begin_discard(&self) -> Result<()> {
        let shared = self.shared;
        match self.checkpoint_state()? {
            CheckpointState::None => {
                return Err(Error::NoCheckpoint { pool: shared.pool().to_owned() });
            }
            CheckpointState::Discarding => {
                return Err(Error::CheckpointDiscarding { pool: shared.pool().to_owned() });
            }
            CheckpointState::Exists => {}
        }
        self.touch();
        let directory = self.objects().object(mos::DIRECTORY_OBJECT)?;
        zap::remove(&directory, self.tx, mos::ZPOOL_CHECKPOINT)?;
        shared.alloc.set_checkpoint(None);
        shared.discarding.store(true, Ordering::Relaxed);
        let text = "started discarding checkpointed state from the pool";
        self.log_event_of_pool("spa discard checkpoint", text)
    }

    /// In each txg: frees a piece of a checkpoint that was discarded.
    pub(super) fn discard_piece(&self) -> Result<()> {
        let shared = self.shared;
        if !shared.discarding.load(Ordering::Relaxed) {
            return Ok(());
        }
        let failed = |e: dmu::Error| shared.failed("discarding the checkpoint", e);
        let piece = shared.alloc.discard_kept(self.objects(), self.tx).map_err(failed)?;
        if piece.histograms != 0 {
            let guid = "com.delphix:spacemap_histogram";
            shared.features.add(self.tx, guid, piece.histograms)?;
        }
        if piece.done {
            shared.features.add(self.tx, checkpoint::FEATURE, -1)?;
            shared.discarding.store(false, Ordering::Relaxed);
            let text = "finished discarding checkpointed state from the pool";
            self.log_event_of_pool("spa discard checkpoint", text)?;
        }
        Ok(())
    }
}

impl Shared {
    /// Refuses what a pool with a checkpoint does not do.
    pub(super) fn check_no_checkpoint(&self) -> Result<()> {
        match self.features.count(checkpoint::FEATURE).unwrap_or(0) {
            0 => Ok(()),
            _ if self.discarding.load(Ordering::Relaxed) => {
                Err(Error::CheckpointDiscarding { pool: self.pool().to_owned() })
            }
            _ => Err(Error::CheckpointExists { pool: self.pool().to_owned() }),
        }
    }

    /// What an import finds: a checkpoint is kept, or goes on being discarded.
    pub(super) fn find_checkpoint(&self) -> Result<()> {
        let directory = Zap::open(&self.mos.object(mos::DIRECTORY_OBJECT)?)?;
        let entry = directory.get(mos::ZPOOL_CHECKPOINT.as_bytes())?;
        match CheckpointState::of(self.features.count(checkpoint::FEATURE), entry.is_some()) {
            CheckpointState::None => {}
            CheckpointState::Discarding => self.discarding.store(true, Ordering::Relaxed),
            CheckpointState::Exists => {
                let words: Vec<u64> = entry.iter().flat_map(|e| e.ints()).collect();
                let bytes = checkpoint::uberblock_bytes(&words, Endian::Little);
                let kept = bytes.and_then(|bytes| Uberblock::decode(&bytes));
                let (kept, _) = kept.map_err(|e| self.failed("reading the checkpoint", e))?;
                self.alloc.set_checkpoint(Some(kept.txg));
            }
        }
        Ok(())
    }
}

impl LivePool {
    /// Keeps the state of the pool as it is: everything that was done before the call.
    ///
    /// # Errors
    /// When there is one already, or one is being discarded, or the pool cannot have one.
    pub fn checkpoint(&self) -> Result<()> {
        // What is kept is the last durable txg.
        self.sync()?;
        self.shared.run_first(|cx| cx.make_checkpoint())
    }

    /// Gives the checkpoint up. What was kept for it is free some txgs later:
    /// [`Self::is_discarding`].
    ///
    /// # Errors
    /// When there is none.
    pub fn discard_checkpoint(&self) -> Result<()> {
        self.shared.run_keeping_datasets(|cx| cx.begin_discard())
    }

    /// Bytes that are kept, as datasets count them.
    #[must_use]
    pub fn bytes_to_discard(&self) -> u64 {
        self.shared.alloc.kept()
    }

    /// A checkpoint was discarded and is not freed yet.
    #[must_use]
    pub fn is_discarding(&self) -> bool {
        self.shared.discarding.load(Ordering::Relaxed)
    }
}
