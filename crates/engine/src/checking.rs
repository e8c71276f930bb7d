//! Checks, as operations on a pool.

use crate::error::{Error, ErrorKind, Hint, Place};
use ::check::{CheckOptions, Issue, Report};
use pool::{OpenOptions, Pool, Verdict, by_txg};
use rt::Progress;
use std::time::Duration;

/// States of a pool that is being written to that are tried.
const ATTEMPTS: u32 = 6;
/// Far longer than a txg takes between its first labels and its last.
const LABELS_PAUSE: Duration = Duration::from_secs(1);

/// A state that a pool could be opened in, and what of it is intact.
#[derive(Debug)]
pub struct TxgVerdict {
    /// Its txg.
    pub txg: u64,
    /// When it was written, in seconds since 1970.
    pub timestamp: u64,
    /// Copies of its uberblock.
    pub copies: usize,
    /// What of it is intact, or why it cannot be opened.
    pub verdict: pool::Result<Verdict>,
}

/// Opens the pool at each txg that its labels name, the newest first, and judges each state.
///
/// ```
/// use engine::check::txg_verdicts;
/// use engine::pools::Verdict;
/// # use engine::{NewPool, OpenOptions, Pool};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// # NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let options = OpenOptions::in_places([&image]);
/// let pool = Pool::open("tank", &options)?;
/// let newest = txg_verdicts(&pool, &options).next().unwrap();
/// assert_eq!(newest.verdict?, Verdict::Intact);
/// # Ok::<(), engine::Error>(())
/// ```
pub fn txg_verdicts<'a>(
    pool: &'a Pool,
    options: &'a OpenOptions,
) -> impl Iterator<Item = TxgVerdict> + 'a {
    by_txg(&pool.candidate().uberblocks).into_iter().map(move |found| {
        let txg = found.uberblock.txg;
        let options = OpenOptions { txg: Some(txg), ..options.clone() };
        let opened = Pool::open_candidate(pool.candidate(), &options);
        TxgVerdict {
            txg,
            timestamp: found.uberblock.timestamp,
            copies: found.copies,
            verdict: opened.map(|pool| ::check::verdict(&pool)),
        }
    })
}

/// The most bytes that a check reads: all that the devices have room for.
#[must_use]
pub fn bytes_max(pool: &Pool) -> u64 {
    pool.vdevs().tops().map(|top| top.asize()).sum()
}

/// Checks a pool that other programs may be writing to, and returns the report on a state that
/// stayed, with the pool in that state. What is read of one that is written to may be overwritten
/// before it is verified, which looks like damage: then `reopen` opens its newest state, and that
/// is checked.
///
/// ```
/// use engine::check::{CheckOptions, settled};
/// # use engine::{NewPool, OpenOptions, Pool, Progress};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// # NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let open = || Ok::<_, engine::Error>(Pool::open("tank", &OpenOptions::in_places([&image]))?);
/// let options = CheckOptions::default();
/// let (report, pool) = settled(open()?, &options, &Progress::new(), open)?;
/// assert!(report.is_clean() && report.txg == pool.uberblock().txg);
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::WrittenMeanwhile`]: no state stayed for as long as its check took. Or what `reopen`
/// says.
pub fn settled<E: From<Error>>(
    mut pool: Pool,
    options: &CheckOptions,
    progress: &Progress,
    mut reopen: impl FnMut() -> Result<Pool, E>,
) -> Result<(Report, Pool), E> {
    for _ in 0..ATTEMPTS {
        let report = ::check::run(&pool, options, progress);
        if report.is_clean() || !(pool.has_moved() || labels_changed(&pool, &report)) {
            return Ok((report, pool));
        }
        pool = reopen()?;
    }
    let error = Error::new(ErrorKind::WrittenMeanwhile { times: ATTEMPTS });
    Err(error.at(Place::Pool(pool.name().to_owned())).with_hint(Hint::StopWriters).into())
}

/// Whether labels that were wrong are not so any more, or in another way: a txg that changes them
/// writes half of them before its uberblock, and half after it.
fn labels_changed(pool: &Pool, report: &Report) -> bool {
    let is_label = |i: &&Issue| matches!(i, Issue::Label { .. } | Issue::LabelRound { .. });
    let before: Vec<&Issue> = report.issues.iter().filter(is_label).collect();
    if before.is_empty() {
        return false;
    }
    pool.rt().sleep(LABELS_PAUSE);
    pool.has_moved() || !::check::labels(pool).iter().eq(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::ImportOptions;
    use crate::{LivePool, NewPool};
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn a_pool_that_was_written_meanwhile_is_checked_again() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("pool.img");
        NewPool::new("tank").file(&image, 64 << 20).unwrap().create().unwrap().export().unwrap();
        let options = OpenOptions::in_places([&image]);
        let open = || Pool::open("tank", &options).map_err(Error::from);
        let writes = || {
            let pool = LivePool::open("tank", &ImportOptions::new(options.clone())).unwrap();
            pool.export().unwrap();
        };
        let spoil = || {
            let file = std::fs::File::options().write(true).open(&image).unwrap();
            file.write_all_at(&[0; 64 << 10], (256 << 10) + (16 << 10)).unwrap();
        };
        let (check, progress) = (CheckOptions::default(), Progress::new());

        // A label is wrong in every state, so that no check is clean.
        let old = open().unwrap();
        writes();
        spoil();
        let mut opened = 0;
        let reopen = || {
            opened += 1;
            open()
        };
        let (report, pool) = settled(old, &check, &progress, reopen).unwrap();
        assert!(!report.is_clean());
        assert_eq!((opened, pool.has_moved()), (1, false));

        let reopen = || {
            let pool = open();
            writes();
            spoil();
            pool
        };
        let error = settled(reopen().unwrap(), &check, &progress, reopen).map(drop).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::WrittenMeanwhile { times: ATTEMPTS });
        assert_eq!(error.place(), Some(&Place::Pool("tank".to_owned())));
    }
}
