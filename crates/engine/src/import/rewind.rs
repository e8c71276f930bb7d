//! Which earlier txg a pool can go back to, when what was written last cannot be read.
//!
//! What a txg frees is not used again in the next two, so the states of the last three are whole
//! unless the devices damaged them. Of older ones much may have been overwritten; each is judged by
//! reading all its metadata.

use crate::{Error, Result};
use pool::{Candidate, OpenOptions, Pool, Verdict, by_txg, verdict_of_txg};

/// Txgs for which freed space is not used again.
const TXGS_DEFERRED: u64 = 2;

/// Which states are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindReach {
    /// Those whose space cannot have been used again.
    Recent,
    /// All that uberblocks remember.
    Any,
    /// All up to this txg, which newer ones are given up for.
    UpTo(u64),
}

/// What a pool that is to be opened has to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewind {
    /// Nothing: the newest state that is wanted can be read.
    NotNeeded,
    /// What was written after a txg.
    To {
        /// The newest txg of which all metadata can be read.
        txg: u64,
        /// When it was written, in seconds since 1970.
        timestamp: u64,
        /// Seconds from then to the newest txg.
        seconds_lost: u64,
    },
    /// No state within reach can be read.
    Impossible,
}

impl Rewind {
    /// Looks for the newest state within reach of which all metadata can be read.
    ///
    /// # Errors
    /// The pool has no state up to the txg that was asked for, or what keeps it from being opened
    /// is no damage: an earlier state does not bring back a device that is missing.
    pub fn find(candidate: &Candidate, options: &OpenOptions, reach: RewindReach) -> Result<Self> {
        let mut all = by_txg(&candidate.uberblocks);
        let available: Vec<u64> = all.iter().map(|c| c.uberblock.txg).collect();
        let newest = all.first().map(|c| c.uberblock);
        let newest_txg = newest.map_or(0, |u| u.txg);
        all.retain(|c| match reach {
            RewindReach::Recent => c.uberblock.txg >= newest_txg.saturating_sub(TXGS_DEFERRED),
            RewindReach::Any => true,
            RewindReach::UpTo(txg) => c.uberblock.txg <= txg,
        });
        if let (RewindReach::UpTo(txg), true) = (reach, all.is_empty()) {
            let (pool, txg) = (candidate.name().to_owned(), Some(txg));
            return Err(Error::from(pool::Error::NoUberblock { pool, txg, available }));
        }
        let is_whole = |txg| verdict_of_txg(candidate, options, txg) == Verdict::Intact;
        let whole = all.iter().map(|c| c.uberblock).find(|u| is_whole(u.txg));
        Ok(match whole {
            None => match Pool::open_candidate(candidate, options) {
                Err(e) if !matches!(e, pool::Error::Damaged { .. }) => return Err(e.into()),
                _ => Self::Impossible,
            },
            Some(u) if u.txg == newest_txg => Self::NotNeeded,
            Some(u) => {
                let last = newest.map_or(u.timestamp, |u| u.timestamp);
                let seconds_lost = last.saturating_sub(u.timestamp);
                Self::To { txg: u.txg, timestamp: u.timestamp, seconds_lost }
            }
        })
    }

    /// How a pool whose newest state cannot be read gets an earlier one: how far is to be looked,
    /// when that state was written, and the seconds from then to the newest.
    #[must_use]
    pub fn recovery(
        candidate: &Candidate,
        options: &OpenOptions,
    ) -> Option<(RewindReach, u64, u64)> {
        for reach in [RewindReach::Recent, RewindReach::Any] {
            match Self::find(candidate, options, reach) {
                Ok(Self::Impossible) => {}
                Ok(Self::To { timestamp, seconds_lost, .. }) => {
                    return Some((reach, timestamp, seconds_lost));
                }
                Ok(Self::NotNeeded) | Err(_) => return None,
            }
        }
        None
    }
}
