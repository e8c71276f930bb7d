//! The seam to the I/O layer.

use crate::ahead::{ReadAhead, Room};
use crate::cache::{BlockCache, CacheKey};
use crate::flights::{Claim, Flight, Flights};
use crate::usage::{SetUse, Usage};
use codec::crypto::MasterKey;
use ondisk::{BlkPtr, DmuType};
use parking_lot::Mutex;
use rt::Rt;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use vdev::{Fault, FaultKind, Scope};
use zio::{Block, Outcome, Place, Reader, Request};

/// Key of a dataset; shared by everything below one encryption root's dataset.
pub type Key = Arc<MasterKey>;

/// Receives faults that redundancy made good, and those it did not.
pub trait FaultSink: Send + Sync {
    /// One block was read in spite of `faults`.
    fn repaired(&self, place: Place, bp: &BlkPtr, faults: &[Fault]);

    /// No copy of a block could be had, though the devices that hold it are there.
    fn lost(&self, place: Place, bp: &BlkPtr);
}

/// Where blocks come from.
pub trait BlockStore: Send + Sync {
    /// Reads one block, decrypted and decompressed. A hole is zeros.
    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>>;

    /// Reads what is readable without a key: of an encrypted block of dnodes all but their bonuses,
    /// of one of an intent log all but the bodies of its records, which come encrypted.
    fn read_clear(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        self.read(bp, place, None)
    }

    /// Reads a block of dnodes as it is stored, whatever of it is in memory decrypted.
    fn read_sealed(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        self.read_clear(bp, place)
    }

    /// Reads a batch, in one submission where that can be; results in the order of the requests.
    fn read_many(
        &self,
        blocks: &[(BlkPtr, Place)],
        key: Option<&Key>,
    ) -> Vec<zio::Result<Arc<Block>>> {
        blocks.iter().map(|(bp, place)| self.read(bp, *place, key)).collect()
    }

    /// The runtime to wait with for its blocks, and for the objects in them.
    fn rt(&self) -> Rt;

    /// Receives every read of user data, and reads ahead; `None`: no read-ahead.
    fn ahead(&self) -> Option<&ReadAhead> {
        None
    }

    /// Reads blocks that no reader has requested yet, into a cache. Blocks that cannot be read are
    /// left out.
    fn fetch(&self, blocks: &[(BlkPtr, Place)], key: Option<&Key>, room: &mut Room) {
        let _ = (blocks, key, room);
    }

    /// In the sync of a txg: the block is about to be rewritten. Whether readers are likely to want
    /// the new one, which [`Self::expect`] is told of then. Until the txg is durable the old one is
    /// what they read, also while the sync hangs.
    fn note_replaced(&self, old: &BlkPtr) -> bool {
        let _ = old;
        false
    }

    /// Readers are likely to want this block when its txg is durable.
    fn expect(&self, new: &BlkPtr) {
        let _ = new;
    }

    /// Where what users do with an object set is counted.
    fn usage(&self, set: u64) -> Arc<SetUse> {
        let _ = set;
        Arc::new(SetUse::uncounted(&self.rt()))
    }
}

/// A store for walks that no key is needed for: it reads by [`BlockStore::read_clear`].
#[derive(Clone, Copy)]
pub struct ClearStore<'a>(pub &'a dyn BlockStore);

impl BlockStore for ClearStore<'_> {
    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        self.0.read_clear(bp, place)
    }

    fn read_many(
        &self,
        blocks: &[(BlkPtr, Place)],
        _: Option<&Key>,
    ) -> Vec<zio::Result<Arc<Block>>> {
        if blocks.iter().any(|(bp, _)| bp.is_encrypted()) {
            return blocks.iter().map(|(bp, place)| self.0.read_clear(bp, *place)).collect();
        }
        self.0.read_many(blocks, None)
    }

    fn rt(&self) -> Rt {
        self.0.rt()
    }
}

/// A store for object sets that are sent or received as they are encrypted: what is readable
/// without a key comes as it is on its devices, blocks of dnodes with their bonuses encrypted.
pub struct SealedStore {
    below: Arc<dyn BlockStore>,
    /// The last block of dnodes, by address and birth: its objects are requested one after the
    /// other.
    last: Option<Mutex<LastRead>>,
}

type LastRead = Option<(BlkPtr, Arc<Block>)>;

impl SealedStore {
    /// Reads through another store; only blocks of txgs that are durable.
    #[must_use]
    pub fn new(below: Arc<dyn BlockStore>) -> Self {
        Self { below, last: Some(Mutex::default()) }
    }

    /// The same for a sync, which may write what it reads to the same place again.
    #[must_use]
    pub fn in_sync(below: Arc<dyn BlockStore>) -> Self {
        Self { below, last: None }
    }
}

impl BlockStore for SealedStore {
    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        if !bp.is_encrypted() || bp.dmu_type() != DmuType::DNODE {
            return self.below.read(bp, place, None);
        }
        let last = self.last.as_ref();
        let known = last.and_then(|last| last.lock().clone()).filter(|(last, _)| last == bp);
        if let Some((_, block)) = known {
            return Ok(block);
        }
        let block = self.below.read_sealed(bp, place)?;
        if let Some(last) = last {
            *last.lock() = Some((*bp, Arc::clone(&block)));
        }
        Ok(block)
    }

    fn rt(&self) -> Rt {
        self.below.rt()
    }
}

/// Blocks that were written and are not on their devices yet.
pub trait PendingSource: Send + Sync {
    /// The block, when it is one of them.
    fn read_pending(&self, bp: &BlkPtr) -> Option<Arc<Block>>;
}

impl PendingSource for zio::Writer {
    fn read_pending(&self, bp: &BlkPtr) -> Option<Arc<Block>> {
        Self::read_pending(self, bp)
    }
}

/// The block store of an open pool: the read pipeline behind a cache. A block that several threads
/// want at the same time is read once.
pub struct CachedStore {
    reader: Arc<Reader>,
    cache: BlockCache,
    flights: Flights,
    sink: Option<Arc<dyn FaultSink>>,
    /// Weak, because what it allocates from is read through this store.
    pending: OnceLock<Weak<dyn PendingSource>>,
    /// Blocks of younger txgs are not cached.
    settled: AtomicU64,
    /// Blocks of the txg that is being synced that readers are likely to want.
    wanted: Mutex<HashSet<CacheKey>>,
    /// Blocks that it replaces, and that are in the cache.
    replaced: Mutex<Vec<CacheKey>>,
    usage: Usage,
    ahead: Arc<ReadAhead>,
}

impl CachedStore {
    /// Reads with `reader`, holding at most `cache_bytes` of content.
    #[must_use]
    pub fn new(reader: Arc<Reader>, cache_bytes: usize, sink: Option<Arc<dyn FaultSink>>) -> Self {
        let (cache, pending) = (BlockCache::new(cache_bytes), OnceLock::new());
        let rt = reader.vdevs().rt().clone();
        let (flights, settled) = (Flights::new(&rt), AtomicU64::new(u64::MAX));
        let usage = Usage::new(&rt);
        let ahead = Arc::new(ReadAhead::new(&rt, cache_bytes, cache.block_max()));
        let (wanted, replaced) = (Mutex::default(), Mutex::default());
        Self { reader, cache, flights, sink, pending, settled, wanted, replaced, usage, ahead }
    }

    /// The read-ahead; it is off until a limit is set.
    #[must_use]
    pub fn reading_ahead(&self) -> &Arc<ReadAhead> {
        &self.ahead
    }

    /// `txg` is durable: its blocks may be cached, those of younger ones may not. As long as a txg
    /// is being synced, a place that it wrote can be given up and written again with the same
    /// birth, and address and birth are all that the cache knows a block by.
    pub fn set_settled(&self, txg: u64) {
        self.settled.store(txg, Ordering::Release);
    }

    /// Puts blocks into the cache that were just written, when their txg is settled: of an
    /// encrypted dataset for those that read with the key. What they replace leaves.
    pub fn keep_written(&self, blocks: Vec<(BlkPtr, Arc<Block>)>) {
        let settled = self.settled.load(Ordering::Acquire);
        let wanted = std::mem::take(&mut *self.wanted.lock());
        let replaced = std::mem::take(&mut *self.replaced.lock());
        replaced.iter().for_each(|key| self.cache.remove(key));
        for (bp, block) in blocks {
            let key = key_of_written(&bp).filter(|(_, birth, _)| *birth <= settled);
            match key {
                Some(key) if wanted.contains(&key) => self.cache.put(key, &block),
                Some(key) => self.cache.put_written(key, &block),
                None => {}
            }
        }
    }

    /// The name of a block in the cache, if it may be there. Taken before the block is read: if its
    /// txg settled only while it was read, the space may have held another block when the reading
    /// began.
    fn cache_key(&self, bp: &BlkPtr, key: Option<&Key>) -> Option<CacheKey> {
        let settled = self.settled.load(Ordering::Acquire);
        cache_key(bp, key.is_some()).filter(|(_, birth, _)| *birth <= settled)
    }

    /// Asks `source` first from now on; the first source that is set stays. Its blocks are not
    /// cached: as long as they are pending, their space may be written again in the same txg.
    /// The source is not kept alive.
    pub fn set_pending(&self, source: &Arc<dyn PendingSource>) {
        let _ = self.pending.set(Arc::downgrade(source));
    }

    fn pending(&self, bp: &BlkPtr) -> Option<Arc<Block>> {
        // Of one that came encrypted these are not the bytes that its readers see.
        self.pending_as_stored(bp).filter(|block| block.seal().is_none())
    }

    /// The same, whatever its bytes are.
    fn pending_as_stored(&self, bp: &BlkPtr) -> Option<Arc<Block>> {
        self.pending.get()?.upgrade()?.read_pending(bp)
    }

    /// The read pipeline.
    #[must_use]
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Gives the pipeline back, to complete it; `None` while something else still reads with it.
    #[must_use]
    pub fn into_reader(self) -> Option<Reader> {
        Arc::into_inner(self.reader)
    }

    /// The use of the object sets read through it.
    #[must_use]
    pub fn used(&self) -> &Usage {
        &self.usage
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// A read of this block needs no device.
    #[must_use]
    pub fn is_at_hand(&self, bp: &BlkPtr, key: Option<&Key>) -> bool {
        let is_cached = || {
            let id = self.cache_key(bp, key);
            id.is_some_and(|id| self.cache.peek(&id).is_some())
        };
        bp.is_hole() || bp.is_embedded() || self.pending(bp).is_some() || is_cached()
    }

    /// Waits for a block that another thread reads, and takes it: when that thread read it ahead,
    /// this is the reader that it was read for.
    fn await_flight(&self, flight: &Flight, id: &CacheKey) -> Option<Arc<Block>> {
        let block = flight.wait()?;
        let _ = self.cache.look(id);
        Some(block)
    }

    /// Reads past the cache, and puts what was read there.
    fn read_now(
        &self,
        bp: &BlkPtr,
        place: Place,
        key: Option<&Key>,
        id: Option<CacheKey>,
    ) -> zio::Result<Arc<Block>> {
        let key = key.map(AsRef::as_ref);
        let outcome = self.reader.read(Request { bp, place, key, scope: Scope::Data, raw: false });
        self.note(place, bp, &outcome);
        let block = Arc::new(outcome.block?);
        if let Some(id) = id {
            self.cache.put(id, &block);
        }
        Ok(block)
    }

    fn note(&self, place: Place, bp: &BlkPtr, outcome: &Outcome) {
        let Some(sink) = &self.sink else { return };
        match &outcome.block {
            Ok(_) if outcome.faults.is_empty() => {}
            Ok(_) => sink.repaired(place, bp, &outcome.faults),
            Err(e) if e.kind.is_loss() && !is_out_of_reach(&outcome.faults) => sink.lost(place, bp),
            Err(_) => {}
        }
    }
}

/// All that kept a block from being read is that devices were not there, or lack it, or that there
/// was no memory to read it: it may be on them, and nothing is known of it until they are back.
#[must_use]
pub fn is_out_of_reach(faults: &[Fault]) -> bool {
    let is_away = |kind: &FaultKind| match kind {
        FaultKind::Missing => true,
        FaultKind::Io(e) => {
            let is_gone = matches!(e.kind, device::ErrorKind::Gone | device::ErrorKind::NoAnswer);
            is_gone || e.kind.is_of_process()
        }
        _ => false,
    };
    let blames_none = |kind: &FaultKind| matches!(kind, FaultKind::Stale | FaultKind::Block(_));
    faults.iter().any(|f| is_away(&f.kind))
        && faults.iter().all(|f| is_away(&f.kind) || blames_none(&f.kind))
}

/// Embedded blocks and holes cost less to make again than to look up.
fn cache_key(bp: &BlkPtr, has_key: bool) -> Option<CacheKey> {
    let (_, dva) = bp.dvas().next()?;
    (!bp.is_hole()).then(|| (dva.words(), bp.physical_birth(), has_key))
}

/// The name in the cache of a block that is written.
fn key_of_written(bp: &BlkPtr) -> Option<CacheKey> {
    cache_key(bp, bp.uses_crypt())
}

impl BlockStore for CachedStore {
    fn rt(&self) -> Rt {
        self.reader.vdevs().rt().clone()
    }

    fn note_replaced(&self, old: &BlkPtr) -> bool {
        let Some(key) = key_of_written(old) else { return false };
        // It may have been written earlier in the same sync.
        if self.wanted.lock().remove(&key) {
            return true;
        }
        let was_read = self.cache.was_read(&key);
        if was_read.is_some() {
            self.replaced.lock().push(key);
        }
        was_read == Some(true)
    }

    fn expect(&self, new: &BlkPtr) {
        self.wanted.lock().extend(key_of_written(new));
    }

    fn usage(&self, set: u64) -> Arc<SetUse> {
        self.usage.of(set)
    }

    fn ahead(&self) -> Option<&ReadAhead> {
        Some(&self.ahead)
    }

    fn fetch(&self, blocks: &[(BlkPtr, Place)], key: Option<&Key>, room: &mut Room) {
        let mut mine = Vec::new();
        let mut wanted = Vec::new();
        for (bp, place) in blocks.iter().filter(|(bp, _)| self.pending(bp).is_none()) {
            let Some(id) = self.cache_key(bp, key).filter(|id| self.cache.peek(id).is_none())
            else {
                continue;
            };
            let Claim::Mine(reading) = self.flights.claim(id) else { continue };
            // It may have come since it was looked for.
            if let Some(block) = self.cache.peek(&id) {
                reading.give(&block);
                continue;
            }
            mine.push((id, reading));
            let (place, key) = (*place, key.map(AsRef::as_ref));
            wanted.push(Request { bp, place, key, scope: Scope::Data, raw: false });
        }
        let begun = self.ahead.begin();
        let got = self.reader.read_many(&wanted);
        let (mut count, mut bytes) = (0, 0);
        for ((outcome, request), (id, reading)) in got.into_iter().zip(&wanted).zip(mine) {
            // The read that wants a block that is lost reports it.
            if outcome.block.is_ok() {
                self.note(request.place, request.bp, &outcome);
            }
            let Ok(block) = outcome.block.map(Arc::new) else { continue };
            count += 1;
            bytes += block.bytes().len() as u64;
            self.cache.put_ahead(id, &block, room);
            reading.give(&block);
        }
        if !self.ahead.has_gained(&begun, count, bytes) {
            room.has_gained_nothing();
        }
    }

    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>> {
        if let Some(block) = self.pending(bp) {
            return Ok(block);
        }
        let id = self.cache_key(bp, key);
        if let Some(block) = id.as_ref().and_then(|id| self.cache.get(id)) {
            return Ok(block);
        }
        let Some(id) = id else { return self.read_now(bp, place, key, None) };
        match self.flights.claim(id) {
            Claim::Theirs(flight) => match self.await_flight(&flight, &id) {
                Some(block) => Ok(block),
                None => self.read_now(bp, place, key, Some(id)),
            },
            Claim::Mine(reading) => {
                // It may have come since it was looked for.
                let block = match self.cache.look(&id) {
                    Some(block) => block,
                    None => self.read_now(bp, place, key, Some(id))?,
                };
                reading.give(&block);
                Ok(block)
            }
        }
    }

    fn read_clear(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        let is_in_parts = matches!(bp.dmu_type(), DmuType::DNODE | DmuType::INTENT_LOG);
        if !bp.is_encrypted() || !is_in_parts {
            return self.read(bp, place, None);
        }
        if let Some(block) = self.pending_as_stored(bp) {
            return Ok(block);
        }
        self.read_sealed(bp, place)
    }

    fn read_sealed(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        // One with the key in memory is not as it is stored.
        if let Some(block) = self.pending_as_stored(bp).filter(|block| block.seal().is_some()) {
            return Ok(block);
        }
        let (key, scope, raw) = (None, Scope::Data, true);
        let outcome = self.reader.read(Request { bp, place, key, scope, raw });
        self.note(place, bp, &outcome);
        outcome.block.map(Arc::new)
    }

    fn read_many(
        &self,
        blocks: &[(BlkPtr, Place)],
        key: Option<&Key>,
    ) -> Vec<zio::Result<Arc<Block>>> {
        if let [(bp, place)] = blocks {
            return vec![self.read(bp, *place, key)];
        }
        let mut out: Vec<Option<zio::Result<Arc<Block>>>> = Vec::with_capacity(blocks.len());
        let mut wanted = Vec::new();
        let mut mine = Vec::new();
        let mut theirs = Vec::new();
        for (at, (bp, place)) in blocks.iter().enumerate() {
            let id = self.cache_key(bp, key);
            let cached = || id.as_ref().and_then(|id| self.cache.get(id));
            let mut hit = self.pending(bp).or_else(cached);
            if hit.is_none() {
                let reading = match id.map(|id| (id, self.flights.claim(id))) {
                    Some((id, Claim::Theirs(flight))) => {
                        theirs.push((at, id, flight));
                        out.push(None);
                        continue;
                    }
                    Some((_, Claim::Mine(reading))) => Some(reading),
                    None => None,
                };
                hit = id.as_ref().and_then(|id| self.cache.look(id));
                match (&hit, reading) {
                    (Some(block), Some(reading)) => reading.give(block),
                    (_, reading) => {
                        mine.push((at, id, reading));
                        let (place, key) = (*place, key.map(AsRef::as_ref));
                        wanted.push(Request { bp, place, key, scope: Scope::Data, raw: false });
                    }
                }
            }
            out.push(hit.map(Ok));
        }
        let got = self.reader.read_many(&wanted);
        for ((outcome, request), (at, id, reading)) in got.into_iter().zip(&wanted).zip(mine) {
            self.note(request.place, request.bp, &outcome);
            let block = outcome.block.map(Arc::new);
            if let Ok(block) = &block {
                if let Some(id) = id {
                    self.cache.put(id, block);
                }
                if let Some(reading) = reading {
                    reading.give(block);
                }
            }
            out[at] = Some(block);
        }
        // Only now: among the others may be one that waits for a block of this batch.
        for (at, id, flight) in theirs {
            let (bp, place) = &blocks[at];
            let again = || self.read_now(bp, *place, key, self.cache_key(bp, key));
            out[at] = Some(self.await_flight(&flight, &id).map_or_else(again, Ok));
        }
        out.into_iter().flatten().collect()
    }
}
