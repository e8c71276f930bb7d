//! What an intent log needs of its pool: space, writes, flushes, and the ends of txgs.
//!
//! A block of a log is counted against the room that transactions were promised, until its txg is
//! durable: a sync must not find the space gone that it was told there is. When there is no such
//! room, there is no block.

use super::super::budget::HeadSpace;
use super::super::record::PushReason;
use super::super::shared::Shared;
use dmu::{Objset, Tx};
use ondisk::{BlkPtr, Dva, ZilHeader};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use vdev::queue::IoClass;
use vdev::{BlockWrite, ManyDevices, WriteError};
use zil::{Backend, BlockPlace, Finish};
use zio::{AllocRequest, Allocate, SpaceClass};

/// The pool of one head's log.
pub(in super::super) struct LogBackend {
    pub(in super::super) shared: Weak<Shared>,
    pub(in super::super) space: Arc<HeadSpace>,
    pub(in super::super) objset: Objset,
}

impl LogBackend {
    fn shared(&self) -> Result<Arc<Shared>, String> {
        let shared = self.shared.upgrade().ok_or_else(|| "the pool is closed".to_owned())?;
        match self.space.is_gone() {
            true => Err("the dataset was destroyed or rolled back".to_owned()),
            false => Ok(shared),
        }
    }

    /// Does `work` in the open txg, which was entered and will write the object set.
    fn within<T>(
        &self,
        shared: &Shared,
        txg: u64,
        work: impl FnOnce(u64) -> Result<T, String>,
    ) -> Result<T, String> {
        // The sync itself says what the header is.
        let marked = self.objset.set_zil(&Tx::syncing(txg), &ZilHeader::default());
        let done = marked.map_err(|e| e.to_string()).and_then(|()| work(txg));
        shared.txgs.leave(txg, None);
        done
    }
}

impl Backend for LogBackend {
    fn allocate(&self, size: u64, keep: &mut dyn FnMut(BlockPlace)) -> bool {
        let Ok(shared) = self.shared() else { return false };
        let worst = shared.alloc.worst_dsize(size);
        if !shared.space.promise_log(worst) {
            return false;
        }
        let mut allocated = None;
        let entered = shared.txgs.enter(None).map_err(|why| why.to_string());
        let done = entered.and_then(|txg| {
            self.within(&shared, txg, |txg| {
                let hint = self.objset.id();
                let want = AllocRequest {
                    psize: size,
                    copies: 1,
                    class: SpaceClass::Log,
                    txg,
                    gang: false,
                    hint,
                };
                let dvas = shared.alloc.allocate(&want).map_err(|e| e.to_string())?;
                let crypt = self.objset.key().map(|key| shared.writer.crypt_params(key));
                keep(BlockPlace { dvas, size, birth: txg, crypt });
                allocated = Some(txg);
                shared.space.log_took(worst, txg);
                Ok(())
            })
        });
        if allocated.is_none() {
            shared.space.log_did_not(worst);
        }
        done.is_ok()
    }

    fn has_log_device(&self) -> bool {
        self.shared().is_ok_and(|shared| shared.alloc.has_log_class())
    }

    fn touch(&self) -> Result<u64, String> {
        let shared = self.shared()?;
        let txg = shared.txgs.enter(None).map_err(|why| why.to_string())?;
        self.within(&shared, txg, Ok)
    }

    fn touch_unless_suspended(&self) -> Result<u64, String> {
        let shared = self.shared()?;
        let txg = shared.txgs.enter_unless_suspended().map_err(|why| why.to_string())?;
        self.within(&shared, txg, Ok)
    }

    fn write(&self, blocks: Vec<(BlockPlace, device::Shared)>, early: Vec<BlkPtr>) -> Finish<'_> {
        let shared = match self.shared() {
            Ok(shared) => shared,
            Err(why) => return Box::new(|_: &dyn Fn()| Err(why)),
        };
        let logs: BTreeSet<u32> = blocks.iter().map(|(place, _)| place.dvas[0].vdev()).collect();
        let one = |(place, data): (BlockPlace, device::Shared)| (place.dvas[0], data, place.birth);
        let blocks: Vec<_> = blocks.into_iter().map(one).collect();
        let resumed = shared.resumed.times.load(Ordering::Acquire);
        Box::new(move |written: &dyn Fn()| {
            let done = write_and_flush(&shared, blocks, (&logs, &early), written)?;
            done.map_err(|e| {
                logs.iter().for_each(|top| shared.alloc.avoid_log(*top));
                e.to_string()
            })?;
            // A flush before that, which failed, may have been that of these blocks.
            match shared.resumed.times.load(Ordering::Acquire) == resumed {
                true => Ok(()),
                false => Err("the pool was suspended while the log was written".to_owned()),
            }
        })
    }

    fn wait_synced(&self, txg: u64) -> Result<(), String> {
        let shared = self.shared()?;
        shared.txgs.wait_synced(txg, PushReason::Waited).map_err(|why| why.to_string())
    }

    fn wait_synced_unless_suspended(&self, txg: u64) -> Result<(), String> {
        let synced = self.shared()?.txgs.wait_synced_unless_suspended(txg, PushReason::Waited);
        synced.map_err(|why| why.to_string())
    }
}

/// Whether all blocks of data are written, and a flush of the vdevs `logs` makes them durable.
fn is_written(shared: &Shared, logs: &BTreeSet<u32>, early: &[BlkPtr]) -> Result<bool, String> {
    let writer = &shared.writer;
    let is_there = |bp: &BlkPtr| {
        let mut dvas = bp.dvas();
        !bp.is_gang() && dvas.all(|(_, dva)| logs.contains(&dva.vdev())) && writer.has_ended(bp)
    };
    if !early.iter().all(is_there) {
        return Ok(false);
    }
    early.iter().try_for_each(|bp| writer.wait_block(bp)).map_err(|e| e.to_string())?;
    Ok(true)
}

/// Makes blocks of logs durable, and blocks of data, which are under way; says when those of the
/// logs are written. `logs`: their vdevs. The inner error is the log's; what fails of the data
/// fails its txg too.
fn write_and_flush(
    shared: &Shared,
    blocks: Vec<(Dva, device::Shared, u64)>,
    (logs, early): (&BTreeSet<u32>, &[BlkPtr]),
    written: &dyn Fn(),
) -> Result<Result<(), WriteError>, String> {
    let vdevs = shared.reader.vdevs();
    if is_written(shared, logs, early)?
        && let Ok(done) = vdevs.write_durably(&blocks)
    {
        return Ok(done);
    }
    let done = match vdevs.write_here(&blocks) {
        Ok(done) => done,
        Err(ManyDevices) => write_together(shared, blocks),
    };
    if done.is_ok() {
        // The sync may have to write the data again, and must not wait for that which waits for it.
        written();
    }
    early.iter().try_for_each(|bp| shared.writer.wait_block(bp)).map_err(|e| e.to_string())?;
    Ok(done.and_then(|()| flush(shared, logs, early)))
}

/// Writes blocks of logs, by threads of their devices, and waits for them.
fn write_together(
    shared: &Shared,
    blocks: Vec<(Dva, device::Shared, u64)>,
) -> Result<(), WriteError> {
    let answers = Arc::new((Mutex::new((blocks.len(), None)), shared.rt.condvar()));
    let writes = blocks.into_iter().map(|(dva, data, birth)| {
        let answers = Arc::clone(&answers);
        let done = Box::new(move |result: Result<(), WriteError>| {
            let mut state = answers.0.lock();
            state.0 -= 1;
            state.1 = state.1.take().or(result.err());
            if state.0 == 0 {
                answers.1.notify_all();
            }
        });
        BlockWrite { dva, data, birth, class: IoClass::SyncWrite, done }
    });
    shared.reader.vdevs().write_batch(writes.collect());
    let mut state = answers.0.lock();
    while state.0 > 0 {
        answers.1.wait(&mut state);
    }
    state.1.take().map_or(Ok(()), Err)
}

/// Flushes what blocks of logs, on these vdevs, and blocks of data are on.
fn flush(shared: &Shared, logs: &BTreeSet<u32>, early: &[BlkPtr]) -> Result<(), WriteError> {
    let vdevs = shared.reader.vdevs();
    if early.iter().any(BlkPtr::is_gang) {
        // Its parts are anywhere.
        return vdevs.flush();
    }
    let data = early.iter().flat_map(|bp| bp.dvas().map(|(_, dva)| dva.vdev()));
    vdevs.flush_tops(&logs.iter().copied().chain(data).collect())
}
