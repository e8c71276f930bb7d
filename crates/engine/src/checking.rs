//! Checks, as operations on a pool.

use pool::{OpenOptions, Pool, Verdict, by_txg};

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
/// use engine::check::judge_txgs;
/// use engine::pools::Verdict;
/// # use engine::{NewPool, OpenOptions, Pool};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pool.img");
/// # NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let options = OpenOptions::in_places([&image]);
/// let pool = Pool::open("tank", &options)?;
/// let newest = judge_txgs(&pool, &options).next().unwrap();
/// assert_eq!(newest.verdict?, Verdict::Intact);
/// # Ok::<(), engine::Error>(())
/// ```
pub fn judge_txgs<'a>(
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
