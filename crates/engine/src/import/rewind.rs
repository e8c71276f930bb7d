//! Which earlier txg a pool can go back to, when what was written last cannot be read.
//!
//! What a txg frees is not used again in the next two, so the states of the last three are whole
//! unless the devices damaged them. Of older ones much may have been overwritten; each is judged by
//! reading all its metadata.

use crate::{Error, ErrorKind, Place, Result};
use ondisk::uberblock::Uberblock;
use pool::{Candidate, OpenOptions, Pool, by_txg, can_go_back_to};

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
///
/// ```
/// use engine::pools::{self, Rewind, RewindReach};
/// use engine::{Candidate, NewPool, OpenOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("a.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let options = OpenOptions::in_places([&image]);
/// let found = Candidate::group(&pools::scan(&options.search)?).pop().unwrap();
/// assert_eq!(Rewind::find(&found, &options, RewindReach::Recent)?, Rewind::NotNeeded);
/// assert!(Rewind::find(&found, &options, RewindReach::UpTo(0)).is_err());
/// # Ok::<(), engine::Error>(())
/// ```
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
        /// The newest state has a checkpoint of this time, and that of the txg has none.
        checkpoint_lost: Option<u64>,
    },
}

/// The newest of these states of which all metadata can be read, from devices that have it.
///
/// # Errors
/// There is none, and what keeps the pool from being opened is not damage: an earlier state does
/// not bring back a device that is missing.
fn newest_whole<'u>(
    candidate: &Candidate,
    options: &OpenOptions,
    among: &'u [Uberblock],
) -> Result<Option<&'u Uberblock>> {
    let is_whole = |u: &&Uberblock| can_go_back_to(candidate, options, u.txg);
    if let Some(whole) = among.iter().find(is_whole) {
        return Ok(Some(whole));
    }
    match Pool::open_candidate(candidate, options) {
        Err(e) if !matches!(e, pool::Error::Damaged { .. }) => Err(e.into()),
        _ => Ok(None),
    }
}

/// When the checkpoint was made that the state of a txg has, as far as that can be read.
fn checkpoint_of(candidate: &Candidate, options: &OpenOptions, txg: u64) -> Option<u64> {
    let options = OpenOptions { txg: Some(txg), checkpoint: false, ..options.clone() };
    let pool = Pool::open_candidate(candidate, &options).ok()?;
    Some(pool.checkpoint().ok()??.timestamp)
}

/// The oldest txg that is recent, where this is the newest of all.
fn first_recent(newest: u64) -> u64 {
    newest.saturating_sub(TXGS_DEFERRED)
}

impl Rewind {
    /// Looks for the newest state within reach of which all metadata can be read.
    ///
    /// # Errors
    /// The pool has no state up to the txg that was asked for, no state within reach can be read
    /// completely, or what keeps it from being opened is not damage: an earlier state does not
    /// bring back a device that is missing.
    pub fn find(candidate: &Candidate, options: &OpenOptions, reach: RewindReach) -> Result<Self> {
        let mut all = states(candidate);
        let available: Vec<u64> = all.iter().map(|u| u.txg).collect();
        let newest = all.first().copied();
        let newest_txg = newest.map_or(0, |u| u.txg);
        all.retain(|u| match reach {
            RewindReach::Recent => u.txg >= first_recent(newest_txg),
            RewindReach::Any => true,
            RewindReach::UpTo(txg) => u.txg <= txg,
        });
        if let (RewindReach::UpTo(txg), true) = (reach, all.is_empty()) {
            let (pool, txg) = (candidate.name().to_owned(), Some(txg));
            return Err(Error::from(pool::Error::NoUberblock { pool, txg, available }));
        }
        Ok(match newest_whole(candidate, options, &all)? {
            None => {
                let of_all = reach != RewindReach::Recent;
                let place = Place::Pool(candidate.name().to_owned());
                return Err(Error::new(ErrorKind::NoEarlierState { of_all }).at(place));
            }
            Some(u) if u.txg == newest_txg => Self::NotNeeded,
            Some(u) => {
                let last = newest.map_or(u.timestamp, |u| u.timestamp);
                let seconds_lost = last.saturating_sub(u.timestamp);
                let checkpoint_lost = checkpoint_of(candidate, options, newest_txg)
                    .filter(|_| checkpoint_of(candidate, options, u.txg).is_none());
                Self::To { txg: u.txg, timestamp: u.timestamp, seconds_lost, checkpoint_lost }
            }
        })
    }

    /// How a pool whose newest state cannot be read gets an earlier one: how far to look for it,
    /// when it was written (in seconds since 1970), and how many seconds of changes are lost.
    /// `None` when the newest one can be read, or none can. Each state is looked at once.
    #[must_use]
    pub fn recovery(
        candidate: &Candidate,
        options: &OpenOptions,
    ) -> Option<(RewindReach, u64, u64)> {
        let all = states(candidate);
        let newest = *all.first()?;
        let (recent, older): (Vec<Uberblock>, Vec<Uberblock>) =
            all.into_iter().partition(|u| u.txg >= first_recent(newest.txg));
        for (reach, among) in [(RewindReach::Recent, recent), (RewindReach::Any, older)] {
            if let Some(u) = newest_whole(candidate, options, &among).ok()? {
                let lost = newest.timestamp.saturating_sub(u.timestamp);
                return (u.txg != newest.txg).then_some((reach, u.timestamp, lost));
            }
        }
        None
    }
}

/// The states that uberblocks remember, newest first.
fn states(candidate: &Candidate) -> Vec<Uberblock> {
    by_txg(&candidate.uberblocks).into_iter().map(|c| c.uberblock).collect()
}
