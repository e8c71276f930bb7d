//! Replaying one log that an import has claimed.
//!
//! Until a log is claimed, its last blocks may be on some devices only, and no device is to blame
//! for that. An import that claims a log makes it whole (`replay.rs`), OpenZFS's too. So what an
//! earlier import has claimed was whole then: what is wrong of it now is damage like any other.

use super::super::LivePool;
use super::super::head::{self, Head};
use super::claimed_blocks;
use crate::error::{Error, Result};
use crate::obstacle::Obstacle;
use dmu::Objset;
use std::sync::Arc;
use vdev::Heal;
use zil::{Log, LogEnd};
use zpl::replay::{self, IntoPool, Refusal, ReplayReport};

/// Blocks of a log that are verified at the same time.
const HEALED_AT_ONCE: usize = 64;

/// Why a log cannot be replayed.
pub(in super::super) enum NotReplayed {
    /// That is not done here: its records are whole.
    Unwritten(String),
    /// It is damaged, and cannot be replayed to its end.
    Damaged(String),
}

impl NotReplayed {
    /// The obstacle that the log of this dataset is.
    pub(in super::super) fn of(self, name: String) -> Obstacle {
        let is_damaged = matches!(self, Self::Damaged(_));
        let (Self::Unwritten(why) | Self::Damaged(why)) = self;
        Obstacle::IntentLog { name, why, is_damaged }
    }

    /// What a replay has met, when that is something.
    pub(super) fn met(report: &ReplayReport) -> Option<Self> {
        let why = report.problem()?;
        let is_whole = matches!(report.log_end, LogEnd::Locked)
            || report
                .stopped
                .as_ref()
                .is_some_and(|stop| matches!(stop.why, Refusal::Unsupported(_) | Refusal::Memory));
        Some(if is_whole { Self::Unwritten(why) } else { Self::Damaged(why) })
    }
}

impl LivePool {
    /// Replays the log of a head that is being opened, when an import has claimed it and its
    /// dataset was locked since.
    ///
    /// # Errors
    /// It cannot be replayed to its end: the dataset must not be changed.
    pub(in super::super) fn replay_claimed(&self, name: &str, head: &Head) -> Result<()> {
        let is_claimed = head.objset.phys().zil.claim_txg != 0;
        let synced = self.shared.txgs.last_synced();
        if !is_claimed || Log::read(&head.objset).pending(synced).next().is_none() {
            return Ok(());
        }
        let Some(report) = self.replay_log(name, true)? else { return Ok(()) };
        match NotReplayed::met(&report) {
            Some(why) => {
                let (pool, obstacles) = (self.name().to_owned(), vec![why.of(name.to_owned())]);
                Err(Error::NotWritable { pool, obstacles })
            }
            None => {
                self.replayed.lock().push((name.to_owned(), report));
                Ok(())
            }
        }
    }

    /// Reads all copies of a log that was claimed before. What is wrong counts as an error of its
    /// device and is written anew; what cannot be had is in the error log.
    fn heal_claimed(&self, objset: &Objset) {
        for blocks in claimed_blocks(objset).chunks(HEALED_AT_ONCE) {
            let mended = self.shared.reader.heal_many(blocks, Heal::All);
            for ((bp, place), _) in blocks.iter().zip(mended).filter(|(_, m)| m.lost.is_some()) {
                self.shared.block_faults.note_lost(*place, bp);
            }
        }
    }

    /// Replays a log; `None`: its dataset is locked. With `was_claimed` it is read as a scrub reads
    /// before.
    pub(super) fn replay_log(&self, name: &str, was_claimed: bool) -> Result<Option<ReplayReport>> {
        let (dataset, stored) = {
            let _guard = self.shared.gate.read();
            let dataset = self.shared.dsl.by_name(name)?;
            if !self.shared.dsl.is_unlocked(&dataset)? {
                return Ok(None);
            }
            let stored = self.shared.dsl.stored(&dataset)?;
            (dataset, stored)
        };
        let head: Arc<Head> = self.shared.head(&dataset)?;
        if was_claimed {
            self.heal_claimed(&head.objset);
        }
        let log = Log::read(&head.objset);
        head.log.begin_replay(log.header);
        let report = replay::into_pool(
            &head.objset,
            &log,
            &IntoPool {
                settings: head::settings(&stored),
                opened: &|fs| head.attach(fs),
                done: &|txg, seq| head.log.replayed(txg, seq),
            },
        )?;
        self.sync()?;
        if report.problem().is_none() {
            self.run(move |cx| cx.take_over(&dataset))?;
        }
        Ok(Some(report))
    }
}
