//! Blocks that are being read: a thread that wants one of them waits for the one that reads it.
//!
//! Many threads that come to a cold tree all want its upper blocks first. One reads, the others
//! wait, and the devices see each block once. A reader that fails, or is gone, wakes the others,
//! and they read for themselves.

use crate::cache::CacheKey;
use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::HashMap;
use std::sync::Arc;
use zio::Block;

const SHARDS: usize = 16;

type Shard = Mutex<HashMap<CacheKey, Arc<Flight>>>;

/// One block being read.
pub(crate) struct Flight {
    state: Mutex<State>,
    ended: Condvar,
}

enum State {
    UnderWay,
    Ended(Option<Arc<Block>>),
}

impl Flight {
    /// Waits for the end; `None`: the thread must read for itself.
    pub(crate) fn wait(&self) -> Option<Arc<Block>> {
        let mut state = self.state.lock();
        loop {
            if let State::Ended(block) = &*state {
                return block.clone();
            }
            self.ended.wait(&mut state);
        }
    }
}

/// All blocks that are being read.
pub(crate) struct Flights {
    rt: Rt,
    shards: Vec<Shard>,
}

/// Decides which thread reads a block.
pub(crate) enum Claim<'a> {
    /// The caller.
    Mine(Reading<'a>),
    /// Another thread.
    Theirs(Arc<Flight>),
}

/// The duty to read a block. Dropped without an answer, it lets those that wait read themselves.
pub(crate) struct Reading<'a> {
    shard: &'a Shard,
    key: CacheKey,
    flight: Arc<Flight>,
    block: Option<Arc<Block>>,
}

impl Flights {
    pub(crate) fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    pub(crate) fn claim(&self, key: CacheKey) -> Claim<'_> {
        let mixed = (key.0[0] ^ key.0[1].rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = &self.shards[(mixed >> 60) as usize % SHARDS];
        let mut flights = shard.lock();
        if let Some(flight) = flights.get(&key) {
            return Claim::Theirs(Arc::clone(flight));
        }
        let ended = self.rt.condvar();
        let flight = Arc::new(Flight { state: Mutex::new(State::UnderWay), ended });
        flights.insert(key, Arc::clone(&flight));
        Claim::Mine(Reading { shard, key, flight, block: None })
    }
}

impl Reading<'_> {
    /// The block was read, and is in the cache if it will ever be.
    pub(crate) fn give(mut self, block: &Arc<Block>) {
        self.block = Some(Arc::clone(block));
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.shard.lock().remove(&self.key);
        // No other reader joins this flight now.
        *self.flight.state.lock() = State::Ended(self.block.take());
        self.flight.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::AlignedBuf;
    use ondisk::Endian;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    const KEY: CacheKey = ([1, 512], 1, false);

    #[test]
    fn one_reads_and_all_get_it() {
        Rt::simulate(3, |rt| {
            let flights = Arc::new(Flights::new(&Rt::current()));
            let reads = Arc::new(AtomicU64::new(0));
            let threads: Vec<_> = (0..16)
                .map(|_| {
                    let (rt2, flights) = (rt.clone(), Arc::clone(&flights));
                    let reads = Arc::clone(&reads);
                    let body = move || match flights.claim(KEY) {
                        Claim::Mine(mine) => {
                            rt2.sleep(Duration::from_millis(5));
                            reads.fetch_add(1, Ordering::Relaxed);
                            let block = Block::new(AlignedBuf::zeroed(512), Endian::Little);
                            mine.give(&Arc::new(block));
                            512
                        }
                        Claim::Theirs(flight) => flight.wait().map_or(0, |b| b.len()),
                    };
                    rt.spawn("reader", body).unwrap()
                })
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), 512);
            }
            assert_eq!(reads.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn who_waits_for_a_reader_that_fails_reads_himself() {
        let flights = Flights::new(&Rt::current());
        let Claim::Mine(mine) = flights.claim(KEY) else { panic!("no thread reads it") };
        let Claim::Theirs(flight) = flights.claim(KEY) else { panic!("it is being read") };
        drop(mine);
        assert!(flight.wait().is_none());
        assert!(matches!(flights.claim(KEY), Claim::Mine(_)));
    }
}
