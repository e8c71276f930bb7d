//! Replaying one log that an import has claimed.

use super::super::LivePool;
use super::super::head::{self, Head};
use crate::error::{Error, Result};
use crate::obstacle::Obstacle;
use std::sync::Arc;
use zil::{Log, LogEnd};
use zpl::replay::{self, IntoPool, Refusal, ReplayReport};

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
        let Some(report) = self.replay_log(name)? else { return Ok(()) };
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

    /// Replays a log; `None`: its dataset is locked.
    pub(super) fn replay_log(&self, name: &str) -> Result<Option<ReplayReport>> {
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
