//! Reads of a sync, which wait for devices.
//!
//! A sync that cannot read what it needs is half done: it can neither go back nor go on. Where a
//! block is only out of reach, because its devices are not there, the pool is suspended
//! (`suspend.rs`), and the block is read again when they are back. What is lost for good, or read
//! in a pool that is not to be suspended, fails as in any other read. So does the block that ends
//! an intent log: it was never written, and in a degraded raidz that looks as if a device lacked
//! it.
//!
//! Only the sync, the threads that work for it, and the allocator read like this: other threads get
//! the error, and nothing that looks at the pool waits here. The wait is above the store, so that
//! no thread waits for a block that another thread is waiting to read.

use dmu::{
    AheadRoom, BlockStore, CachedStore, Key, LiveSpec, Objset, ReadAhead, SetPolicy, SetUse,
    is_out_of_reach,
};
use ondisk::{BlkPtr, ObjsetKind};
use parking_lot::Mutex;
use rt::Rt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use vdev::FaultKind;
use zio::{Block, Place};

/// What a read does that failed as this says.
pub(super) type RetryRead = dyn Fn(&zio::Error) -> bool + Send + Sync;

/// See the head of the file.
pub(super) struct PatientStore {
    store: Arc<CachedStore>,
    /// Waits for devices, and says whether they are back. Set when the pool runs; before that
    /// nothing waits.
    outlast: OnceLock<Box<RetryRead>>,
    clock: ReadClock,
}

/// The time in which at least one thread waits for a read.
struct ReadClock {
    rt: Rt,
    reading: Mutex<Reading>,
}

#[derive(Default)]
struct Reading {
    threads: usize,
    since: Duration,
    sum: Duration,
}

/// A read that has begun; it ends when this goes.
struct Begun<'a>(&'a ReadClock);

impl ReadClock {
    fn new(rt: Rt) -> Self {
        Self { rt, reading: Mutex::default() }
    }

    fn begin(&self) -> Begun<'_> {
        let now = self.rt.now();
        let mut reading = self.reading.lock();
        if reading.threads == 0 {
            reading.since = now;
        }
        reading.threads += 1;
        Begun(self)
    }

    /// The time since this was asked the last time.
    fn take(&self) -> Duration {
        std::mem::take(&mut self.reading.lock().sum)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let now = self.0.rt.now();
        let mut reading = self.0.reading.lock();
        reading.threads -= 1;
        if reading.threads == 0 {
            let waited = now.saturating_sub(reading.since);
            reading.sum += waited;
        }
    }
}

/// The MOS of a pool that is opened for writing.
pub(super) struct Mos {
    pub(super) objects: Objset,
    /// The same for syncs.
    pub(super) in_sync: Objset,
    /// The store for the reads of syncs.
    pub(super) patient: Arc<PatientStore>,
}

/// The live MOS in `store`, from its root on disk, or a new one.
pub(super) fn mos_over(store: &Arc<CachedStore>, root: Option<BlkPtr>) -> dmu::Result<Mos> {
    let objects = Objset::live(LiveSpec {
        store: Arc::clone(store) as _,
        id: 0,
        root,
        kind: ObjsetKind::Meta,
        header_size: ondisk::objset::OBJSET_SIZE_V3,
        transactions: None,
        policy: SetPolicy::mos(),
        accounting: None,
        key: dmu::SetKey::None,
    })?;
    let patient = Arc::new(PatientStore::new(store));
    let in_sync = objects.through(Arc::clone(&patient) as _);
    Ok(Mos { objects, in_sync, patient })
}

impl PatientStore {
    fn new(store: &Arc<CachedStore>) -> Self {
        let clock = ReadClock::new(store.rt());
        Self { store: Arc::clone(store), outlast: OnceLock::new(), clock }
    }

    /// The time in which reads were waited for, since this was asked the last time.
    pub(super) fn take_read_time(&self) -> Duration {
        self.clock.take()
    }

    /// Its reads wait by `outlast` from now on.
    pub(super) fn wait_by(&self, outlast: Box<RetryRead>) {
        let _ = self.outlast.set(outlast);
    }

    /// Waits until the pool is resumed; false: the failure stands.
    fn outlasts(&self, failure: &zio::Error) -> bool {
        let is_away = is_out_of_reach(&failure.faults)
            || (failure.kind.is_loss() && self.store.reader().vdevs().first_silent_top().is_some());
        let is_waited_for = is_away && !self.is_end_of_log(failure);
        is_waited_for && self.outlast.get().is_some_and(|outlast| outlast(failure))
    }

    /// A log ends with a block that was never written. Where the devices that are there suffice for
    /// every block, and each of them has answered, one that is missing does not hold another end.
    fn is_end_of_log(&self, failure: &zio::Error) -> bool {
        failure.place.level == Place::LEVEL_ZIL
            && !failure.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Io(_)))
            && self.store.reader().vdevs().is_sufficient()
    }
}

impl BlockStore for PatientStore {
    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>> {
        let _begun = self.clock.begin();
        loop {
            match self.store.read(bp, place, key) {
                Err(failure) if self.outlasts(&failure) => {}
                done => return done,
            }
        }
    }

    fn read_many(
        &self,
        blocks: &[(BlkPtr, Place)],
        key: Option<&Key>,
    ) -> Vec<zio::Result<Arc<Block>>> {
        let _begun = self.clock.begin();
        let mut out = self.store.read_many(blocks, key);
        for (done, (bp, place)) in out.iter_mut().zip(blocks) {
            if matches!(done, Err(failure) if self.outlasts(failure)) {
                *done = self.read(bp, *place, key);
            }
        }
        out
    }

    fn read_clear(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        let _begun = self.clock.begin();
        loop {
            match self.store.read_clear(bp, place) {
                Err(failure) if self.outlasts(&failure) => {}
                done => return done,
            }
        }
    }

    fn read_sealed(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        let _begun = self.clock.begin();
        loop {
            match self.store.read_sealed(bp, place) {
                Err(failure) if self.outlasts(&failure) => {}
                done => return done,
            }
        }
    }

    fn rt(&self) -> Rt {
        self.store.rt()
    }

    fn ahead(&self) -> Option<&ReadAhead> {
        self.store.ahead()
    }

    fn fetch(&self, blocks: &[(BlkPtr, Place)], key: Option<&Key>, room: &mut AheadRoom) {
        self.store.fetch(blocks, key, room);
    }

    fn note_replaced(&self, old: &BlkPtr) -> bool {
        self.store.note_replaced(old)
    }

    fn expect(&self, new: &BlkPtr) {
        self.store.expect(new);
    }

    fn usage(&self, set: u64) -> Arc<SetUse> {
        self.store.usage(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two reads at the same time are waited for once.
    #[test]
    fn reads_are_waited_for_together() {
        let took = Rt::simulate(1, |rt| {
            let clock = Arc::new(ReadClock::new(rt.clone()));
            let read = |at_ms: u64, for_ms: u64| {
                let (clock, rt) = (Arc::clone(&clock), rt.clone());
                let body = {
                    let rt = rt.clone();
                    move || {
                        rt.sleep(Duration::from_millis(at_ms));
                        let _begun = clock.begin();
                        rt.sleep(Duration::from_millis(for_ms));
                    }
                };
                rt.spawn("reader", body).expect("a thread")
            };
            // From 0 to 30, from 10 to 20, and from 50 to 60.
            let readers = [read(0, 30), read(10, 10), read(50, 10)];
            readers.into_iter().for_each(|reader| reader.join().expect("it ends"));
            [clock.take(), clock.take()].map(|time| time.as_millis())
        });
        assert_eq!(took, [40, 0]);
    }
}
