//! The log over a pool that is a list of blocks.

use super::*;
use codec::checksum::verify_zilog2;
use device::Shared;
use dmu::EarlyWrite;
use ondisk::Dva;
use ondisk::Endian;
use ondisk::zil::{Body, Chain, ChainPlace, Record, TxType, records};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use zio::UnsentBlock;

/// A pool: blocks by their place, and a txg that is durable when a thread waits for it.
#[derive(Default)]
struct Pool {
    open: AtomicU64,
    next: AtomicU64,
    full: AtomicBool,
    /// How many more blocks there are, when there are few.
    left: Mutex<Option<u64>>,
    allocated: Mutex<Vec<u64>>,
    failing: AtomicBool,
    has_log_device: AtomicBool,
    /// Writes do not end.
    holding: AtomicBool,
    /// Batches that began to be written.
    begun: AtomicU64,
    waits: AtomicU64,
    blocks: Mutex<BTreeMap<u64, Vec<u8>>>,
    log: Mutex<Option<Arc<IntentLog>>>,
    header: Mutex<ZilHeader>,
    freed: Mutex<Vec<BlkPtr>>,
}

struct Handle(Arc<Pool>);

impl Backend for Handle {
    fn allocate(&self, size: u64, keep: &mut dyn FnMut(Place)) -> bool {
        if self.0.full.load(Ordering::SeqCst) {
            return false;
        }
        if let Some(left) = &mut *self.0.left.lock() {
            let Some(fewer) = left.checked_sub(1) else { return false };
            *left = fewer;
        }
        let offset = self.0.next.fetch_add(size, Ordering::SeqCst);
        self.0.allocated.lock().push(offset);
        let dvas = [Dva::new(0, offset, size, false), Dva::default(), Dva::default()];
        keep(Place { dvas, size, birth: self.0.open.load(Ordering::SeqCst), crypt: None });
        true
    }

    fn touch(&self) -> Result<u64, String> {
        Ok(self.0.open.load(Ordering::SeqCst))
    }

    fn touch_unless_suspended(&self) -> Result<u64, String> {
        self.touch()
    }

    fn has_log_device(&self) -> bool {
        self.0.has_log_device.load(Ordering::SeqCst)
    }

    fn write(&self, blocks: Vec<(Place, Shared)>, _: Vec<BlkPtr>) -> Finish<'_> {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        Box::new(|_: &dyn Fn()| {
            while self.0.holding.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            if self.0.failing.load(Ordering::SeqCst) {
                return Err("the device is gone".to_owned());
            }
            for (place, bytes) in blocks {
                self.0.blocks.lock().insert(place.dvas[0].offset(), bytes.to_vec());
            }
            Ok(())
        })
    }

    fn wait_synced(&self, txg: u64) -> Result<(), String> {
        self.0.waits.fetch_add(1, Ordering::SeqCst);
        self.0.sync_to(txg);
        Ok(())
    }

    fn wait_synced_unless_suspended(&self, txg: u64) -> Result<(), String> {
        self.wait_synced(txg)
    }
}

impl Pool {
    fn sync_to(&self, txg: u64) {
        let log = self.log.lock().clone().expect("a log");
        while self.open.load(Ordering::SeqCst) <= txg {
            let txg = self.open.fetch_add(1, Ordering::SeqCst);
            if let Some(Synced { header, free }) = log.sync(txg) {
                *self.header.lock() = header;
                self.freed.lock().extend(free);
            }
            log.synced(txg);
        }
    }

    /// What a reader finds from the header on.
    fn records(&self) -> Vec<Record> {
        let mut bp = self.header.lock().log;
        let mut out = Vec::new();
        while let Some(block) =
            self.blocks.lock().get(&bp.dva(0).offset()).filter(|_| !bp.is_hole())
        {
            let Some((next, records)) = parse(&bp, block) else { break };
            out.extend(records);
            bp = next;
        }
        out
    }
}

/// The next block, and the records of this one; `None`: it is not of the chain.
fn parse(bp: &BlkPtr, stored: &[u8]) -> Option<(BlkPtr, Vec<Record>)> {
    let mut block = stored.to_vec();
    block.resize(bp.psize() as usize, 0);
    verify_zilog2(&block, bp.checksum(), false).ok()?;
    let chain = Chain::decode(&block, ChainPlace::Front, Endian::Little).unwrap();
    let all = records(chain.records_in(&block, ChainPlace::Front), Endian::Little);
    Some((chain.next, all.map(Result::unwrap).collect()))
}

struct Zeros;

impl FetchData for Zeros {
    fn fetch(&self, _: u64, _: u64, into: &mut [u8]) -> usize {
        into.fill(7);
        into.len()
    }

    fn block_size(&self, _: u64) -> u64 {
        0
    }

    fn write_early(&self, _: u64, _: u64, _: EarlyWrite) -> EarlyBlock {
        None
    }
}

/// Objects of 64 KiB blocks, which the open txg has all and writes early.
struct Blocks(Arc<Pool>, Arc<Mutex<Vec<(u64, EarlyWrite)>>>);

impl Blocks {
    fn of(pool: &Arc<Pool>) -> Self {
        Self(Arc::clone(pool), Arc::default())
    }
}

impl FetchData for Blocks {
    fn fetch(&self, _: u64, _: u64, into: &mut [u8]) -> usize {
        into.fill(7);
        into.len()
    }

    fn block_size(&self, _: u64) -> u64 {
        64 << 10
    }

    fn write_early(&self, _: u64, blkid: u64, what_for: EarlyWrite) -> EarlyBlock {
        self.1.lock().push((blkid, what_for));
        let birth = self.0.open.load(Ordering::SeqCst);
        let place = Place {
            dvas: [Dva::new(1, blkid << 16, 64 << 10, false); 3],
            size: 64 << 10,
            birth,
            crypt: None,
        };
        Some((pointer(&place, 54, [1, 1], blkid), UnsentBlock::default()))
    }
}

fn log() -> (Arc<Pool>, Arc<IntentLog>) {
    let pool = Arc::new(Pool { open: AtomicU64::new(10), ..Pool::default() });
    let backend = Box::new(Handle(Arc::clone(&pool)));
    let log = Arc::new(IntentLog::new(&Rt::real(), (54, None), false, backend));
    log.set_data(Arc::new(Zeros));
    *pool.log.lock() = Some(Arc::clone(&log));
    (pool, log)
}

fn names(log: &IntentLog, txg: u64, name: &str) {
    let body = Body::Remove { directory: 4, name: name.as_bytes().to_vec() };
    let record = Box::new(Record::new(TxType::REMOVE, txg, 0, body));
    let logged = LoggedChange::Record(record);
    log.add(Change { txg, about: SyncScope::Names, logged, after: &[], gone: &[] });
}

fn data(log: &IntentLog, txg: u64, object: u64, length: u64) {
    let logged = LoggedChange::Data { object, offset: 0, length };
    log.add(Change { txg, about: SyncScope::Object(object), logged, after: &[], gone: &[] });
}

fn kinds(records: &[Record]) -> Vec<TxType> {
    records.iter().map(|r| r.kind).collect()
}

#[test]
fn the_first_promise_waits_and_the_others_are_in_the_log() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(Some(9)).unwrap();
    assert_eq!((pool.waits.load(Ordering::SeqCst), pool.records().len()), (1, 0));
    names(&log, 11, "b");
    data(&log, 11, 9, 4096);
    data(&log, 11, 8, 4096);
    log.commit(Some(9)).unwrap();
    assert_eq!(kinds(&pool.records()), [TxType::REMOVE, TxType::WRITE]);
    log.commit(None).unwrap();
    assert_eq!(kinds(&pool.records()), [TxType::REMOVE, TxType::WRITE, TxType::WRITE]);
    let seqs: Vec<_> = pool.records().iter().map(|r| r.seq).collect();
    assert_eq!(seqs, [1, 2, 3]);
    assert_eq!(pool.waits.load(Ordering::SeqCst), 1);
    // Nothing is new: nothing is written.
    let blocks = pool.blocks.lock().len();
    log.commit(None).unwrap();
    assert_eq!(pool.blocks.lock().len(), blocks);
}

#[test]
fn a_long_write_is_in_several_blocks() {
    let (pool, log) = log();
    log.commit(None).unwrap();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    data(&log, 11, 9, 1 << 20);
    log.commit(Some(9)).unwrap();
    let written = pool.records();
    let bytes = |r: &Record| match &r.body {
        Body::Write { data, .. } => data.len(),
        _ => 0,
    };
    assert_eq!(written.iter().map(bytes).sum::<usize>(), 1 << 20);
    assert!(pool.blocks.lock().values().all(|b| b.len() <= 128 << 10));
}

#[test]
fn blocks_of_a_batch_are_full_and_their_records_in_order() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    let (objects, length) = (16, (128 << 10) + 5);
    (0..objects).for_each(|object| data(&log, 11, 100 + object, length));
    names(&log, 11, "b");
    log.commit(None).unwrap();
    let records = pool.records();
    assert!(records.windows(2).all(|w| w[1].seq == w[0].seq + 1));
    let mut ends = BTreeMap::new();
    for record in &records {
        let Body::Write { object, offset, length, data, .. } = &record.body else { continue };
        let end = ends.insert(*object, offset + length);
        assert_eq!((*offset, data.len() as u64), (end.unwrap_or(0), *length), "in one piece");
        assert!(data.iter().all(|byte| *byte == 7));
    }
    assert_eq!(ends.len() as u64, objects);
    assert!(ends.into_values().all(|end| end == length));
    // But for the first, which was allocated for a name, and the last.
    let blocks: Vec<usize> = pool.blocks.lock().values().map(Vec::len).collect();
    assert_eq!(blocks.len(), 18);
    assert!(blocks[1..17].iter().all(|len| *len > 120 << 10), "{blocks:?}");
}

#[test]
fn a_record_that_no_block_holds_waits_for_its_txg() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    names(&log, 11, &"b".repeat(200 << 10));
    log.commit(None).unwrap();
    assert_eq!((pool.waits.load(Ordering::SeqCst), pool.records().len()), (2, 0));
    names(&log, 12, "c");
    log.commit(None).unwrap();
    assert_eq!(kinds(&pool.records()), [TxType::REMOVE]);
}

/// Data that end early, and bytes behind them that are not to be used.
struct Short;

impl FetchData for Short {
    fn fetch(&self, _: u64, offset: u64, into: &mut [u8]) -> usize {
        into.fill(9);
        into.len().min(5000u64.saturating_sub(offset) as usize)
    }

    fn block_size(&self, _: u64) -> u64 {
        0
    }

    fn write_early(&self, _: u64, _: u64, _: EarlyWrite) -> EarlyBlock {
        None
    }
}

#[test]
fn of_data_that_are_not_all_there_the_rest_is_logged_and_the_promise_waits() {
    let (pool, log) = log();
    log.set_data(Arc::new(Short));
    names(&log, 10, "a");
    log.commit(None).unwrap();
    data(&log, 11, 9, 9000);
    names(&log, 12, "b");
    log.commit(Some(9)).unwrap();
    assert_eq!(pool.waits.load(Ordering::SeqCst), 2);
    let records = pool.records();
    let [name, Record { body: Body::Write { data, .. }, .. }] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!((name.kind, &data[..]), (TxType::REMOVE, &[9; 5000][..]));
    // What is behind is nothing of the file's.
    let blocks = pool.blocks.lock();
    let stored = blocks.values().find(|block| block.len() >= 8192).unwrap();
    let used = ondisk::zil::CHAIN_SIZE + 192 + 5000;
    assert!(stored[used - 1] == 9 && stored[used..].iter().all(|byte| *byte == 0));
}

#[test]
fn blocks_are_freed_when_their_records_are_durable() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    for n in 0..5 {
        names(&log, 11, &n.to_string());
        log.commit(None).unwrap();
    }
    assert_eq!(pool.records().len(), 5);
    pool.sync_to(11);
    assert_eq!((pool.records().len(), pool.freed.lock().len()), (0, 5));
    assert!(!pool.header.lock().log.is_hole());
    log.suspend().unwrap();
    assert_eq!((*pool.header.lock(), pool.freed.lock().len()), (ZilHeader::default(), 6));
    // Each was freed once.
    let mut offsets: Vec<_> = pool.freed.lock().iter().map(|bp| bp.dva(0).offset()).collect();
    offsets.dedup();
    assert_eq!(offsets.len(), 6);
    // While it is suspended, promises wait.
    let waits = pool.waits.load(Ordering::SeqCst);
    names(&log, pool.open.load(Ordering::SeqCst), "b");
    log.commit(None).unwrap();
    assert_eq!(pool.waits.load(Ordering::SeqCst), waits + 1);
    log.resume();
    names(&log, pool.open.load(Ordering::SeqCst), "c");
    log.commit(None).unwrap();
    assert!(!pool.header.lock().log.is_hole());
}

#[test]
fn what_cannot_be_written_waits_for_its_txg() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    let waits = || pool.waits.load(Ordering::SeqCst);
    let unloggable = Change {
        txg: 11,
        about: SyncScope::Names,
        logged: LoggedChange::Unloggable,
        after: &[],
        gone: &[],
    };
    log.add(unloggable);
    log.commit(None).unwrap();
    assert_eq!(waits(), 2);
    pool.full.store(true, Ordering::SeqCst);
    names(&log, 12, "b");
    log.commit(None).unwrap();
    assert_eq!((waits(), pool.open.load(Ordering::SeqCst)), (3, 13));
    pool.full.store(false, Ordering::SeqCst);
    // A chain with a gap is given up, and a new one begins.
    let first = pool.header.lock().log;
    pool.failing.store(true, Ordering::SeqCst);
    names(&log, 13, "c");
    log.commit(None).unwrap();
    assert_eq!((waits(), pool.open.load(Ordering::SeqCst)), (4, 14));
    pool.failing.store(false, Ordering::SeqCst);
    assert!(pool.header.lock().log.is_hole());
    names(&log, 14, "d");
    log.commit(None).unwrap();
    let second = pool.header.lock().log;
    assert!(!second.is_hole() && second.checksum() != first.checksum());
    names(&log, 15, "e");
    log.commit(None).unwrap();
    assert_eq!(pool.records().len(), 1);
}

#[test]
fn what_was_allocated_for_a_batch_without_space_is_freed() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    *pool.left.lock() = Some(3);
    data(&log, 11, 5, 1 << 20);
    log.commit(Some(5)).unwrap();
    assert_eq!(pool.left.lock().take(), Some(0), "the batch needs more blocks");
    pool.sync_to(12);
    names(&log, 13, "b");
    log.commit(None).unwrap();
    log.suspend().unwrap();
    let mut freed: Vec<u64> = pool.freed.lock().iter().map(|bp| bp.dva(0).offset()).collect();
    freed.sort_unstable();
    assert_eq!(freed, *pool.allocated.lock(), "each once");
}

#[test]
fn what_a_rename_moves_comes_before_it_and_what_is_gone_does_not_come() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    data(&log, 11, 9, 100);
    data(&log, 11, 8, 100);
    let body = Body::Rename {
        source_directory: 4,
        target_directory: 4,
        whiteout: None,
        source: b"x".to_vec(),
        target: b"y".to_vec(),
    };
    let logged = LoggedChange::Record(Box::new(Record::new(TxType::RENAME, 11, 0, body)));
    log.add(Change { txg: 11, about: SyncScope::Names, logged, after: &[9], gone: &[8] });
    log.commit(Some(8)).unwrap();
    assert_eq!(kinds(&pool.records()), [TxType::WRITE, TxType::RENAME]);
}

/// Length, and whether the data are in the record, of each write.
fn writes(records: &[Record]) -> Vec<(u64, bool)> {
    let of = |r: &Record| match &r.body {
        Body::Write { length, block, data, .. } => {
            Some((*length, block.is_hole() && !data.is_empty()))
        }
        _ => None,
    };
    records.iter().filter_map(of).collect()
}

#[test]
fn whole_large_blocks_are_written_to_where_they_belong() {
    let (pool, log) = log();
    log.set_data(Arc::new(Blocks::of(&pool)));
    names(&log, 10, "a");
    log.commit(None).unwrap();
    let at = |offset, length| {
        let logged = LoggedChange::Data { object: 9, offset, length };
        log.add(Change { txg: 11, about: SyncScope::Object(9), logged, after: &[], gone: &[] });
        log.commit(Some(9)).unwrap();
    };
    let block = 64 << 10;
    at(block / 2, 2 * block);
    // The first block of the log is small.
    let (first, rest) = ((3720, true), (block / 2 - 3720, true));
    assert_eq!(writes(&pool.records()), [first, rest, (block, false), (block / 2, true)]);
    assert!(pool.records().iter().all(|r| r.txg == 11), "the txg that has the block");
    assert_eq!((log.stats().early, log.stats().early_bytes), (1, block));
    pool.has_log_device.store(true, Ordering::SeqCst);
    at(0, block);
    assert_eq!(writes(&pool.records())[4..], [(block, true)], "into the log, where it is a device");
    log.set_bias(LogBias::Throughput);
    at(0, block);
    assert_eq!(writes(&pool.records())[5..], [(block, false)]);
}

#[test]
fn a_thread_writes_its_large_blocks_while_another_batch_is_written() {
    let (pool, log) = log();
    let blocks = Blocks::of(&pool);
    let calls = Arc::clone(&blocks.1);
    log.set_data(Arc::new(blocks));
    let block = 64 << 10;
    data(&log, 10, 9, block);
    log.commit(Some(9)).unwrap();
    assert!(calls.lock().is_empty(), "the txg writes it, for there is no chain");
    // A thread alone leads, and names its block while that is on its way.
    data(&log, 11, 9, block);
    log.commit(Some(9)).unwrap();
    assert_eq!(std::mem::take(&mut *calls.lock()), [(0, EarlyWrite::Record)]);

    pool.holding.store(true, Ordering::SeqCst);
    let first = promise(&log, "first");
    wait_until(|| pool.begun.load(Ordering::SeqCst) == 2);
    // The part of a third is copied, and the other object is another thread's.
    data(&log, 11, 9, 2 * block + 512);
    data(&log, 11, 8, block);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| log.commit(Some(9)));
        wait_until(|| pool.begun.load(Ordering::SeqCst) == 3);
        pool.holding.store(false, Ordering::SeqCst);
        second.join().unwrap().unwrap();
    });
    first.join().unwrap();
    let ahead = [(0, EarlyWrite::Ahead), (1, EarlyWrite::Ahead)];
    let named = [(0, EarlyWrite::Record), (1, EarlyWrite::Record)];
    assert_eq!(std::mem::take(&mut *calls.lock()), [ahead, named].concat());
}

#[test]
fn a_large_batch_of_whole_blocks_does_not_wait_and_one_to_be_copied_does() {
    let (pool, log) = log();
    log.set_data(Arc::new(Blocks::of(&pool)));
    pool.has_log_device.store(true, Ordering::SeqCst);
    names(&log, 10, "a");
    log.commit(None).unwrap();
    let waits = pool.waits.load(Ordering::SeqCst);
    data(&log, 11, 9, LARGE + (1 << 20));
    log.commit(Some(9)).unwrap();
    assert_eq!(pool.waits.load(Ordering::SeqCst), waits);
    let written = writes(&pool.records());
    assert_eq!(written.len() as u64, (LARGE + (1 << 20)) >> 16);
    assert!(written.iter().all(|(_, is_copied)| !is_copied));
    log.set_data(Arc::new(Zeros));
    data(&log, 11, 8, LARGE + 1);
    log.commit(Some(8)).unwrap();
    assert_eq!(pool.waits.load(Ordering::SeqCst), waits + 1);
}

/// The txg has to write whole blocks, also where little of each was written.
#[test]
fn many_small_parts_of_blocks_are_copied_and_many_large_ones_wait() {
    for (part, waited) in [(8 << 10, 0), (48 << 10, 1)] {
        let (pool, log) = log();
        log.set_data(Arc::new(Blocks::of(&pool)));
        names(&log, 10, "a");
        log.commit(None).unwrap();
        let waits = pool.waits.load(Ordering::SeqCst);
        let parts = LARGE / part + 1;
        for blkid in 0..parts {
            let logged =
                LoggedChange::Data { object: 9, offset: (blkid << 16) + 512, length: part };
            let about = SyncScope::Object(9);
            log.add(Change { txg: 11, about, logged, after: &[], gone: &[] });
        }
        log.commit(Some(9)).unwrap();
        assert_eq!(pool.waits.load(Ordering::SeqCst), waits + waited);
        let copied: u64 = writes(&pool.records()).iter().map(|(length, _)| length).sum();
        assert_eq!(copied, if waited == 0 { parts * part } else { 0 });
    }
}

/// Lets `log` promise a name by a thread of its own.
fn promise(log: &Arc<IntentLog>, name: &'static str) -> std::thread::JoinHandle<()> {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        names(&log, 11, name);
        log.commit(None).unwrap();
    })
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !done() {
        assert!(began.elapsed().as_secs() < 60, "it never happened");
        std::thread::yield_now();
    }
}

#[test]
fn a_batch_is_written_while_the_last_is_flushed_and_falls_with_it() {
    for fails in [false, true] {
        let (pool, log) = log();
        names(&log, 10, "a");
        log.commit(None).unwrap();
        let begun = || pool.begun.load(Ordering::SeqCst);
        pool.holding.store(true, Ordering::SeqCst);
        let first = promise(&log, "b");
        wait_until(|| begun() == 1);
        let second = promise(&log, "c");
        wait_until(|| begun() == 2);
        let third = promise(&log, "d");
        Rt::real().sleep(std::time::Duration::from_millis(20));
        assert_eq!(begun(), 2, "no more than two at a time");
        pool.failing.store(fails, Ordering::SeqCst);
        pool.holding.store(false, Ordering::SeqCst);
        for thread in [first, second, third] {
            thread.join().unwrap();
        }
        let waits = pool.waits.load(Ordering::SeqCst);
        match fails {
            false => assert_eq!((waits, pool.records().len()), (1, 3)),
            true => assert!(waits > 1 && pool.open.load(Ordering::SeqCst) > 11),
        }
    }
}

#[test]
fn what_a_write_that_fails_after_its_txg_leaves_is_freed() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    pool.holding.store(true, Ordering::SeqCst);
    let promise = promise(&log, "b");
    wait_until(|| pool.begun.load(Ordering::SeqCst) == 1);
    pool.sync_to(11);
    pool.failing.store(true, Ordering::SeqCst);
    pool.holding.store(false, Ordering::SeqCst);
    promise.join().unwrap();
    assert!(pool.header.lock().log.is_hole());
    let freed: Vec<u64> = pool.freed.lock().iter().map(|bp| bp.dva(0).offset()).collect();
    assert_eq!(freed, *pool.allocated.lock());
}

#[test]
fn a_sync_waits_for_the_blocks_that_lead_to_what_it_has() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    pool.holding.store(true, Ordering::SeqCst);
    let promise = promise(&log, "b");
    wait_until(|| pool.begun.load(Ordering::SeqCst) == 1);
    // A block was allocated in txg 11, and the one that leads to it is being written.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pool.sync_to(11);
            is_over.store(true, Ordering::SeqCst);
        });
        Rt::real().sleep(unreached::WAITED_FOR / 20);
        assert!(!is_over.load(Ordering::SeqCst));
        pool.holding.store(false, Ordering::SeqCst);
    });
    promise.join().unwrap();
    assert_eq!(pool.blocks.lock().len(), 1);
    // One that hangs is waited for once.
    pool.holding.store(true, Ordering::SeqCst);
    names(&log, 12, "c");
    log.commit_then(None, |_| {});
    wait_until(|| pool.begun.load(Ordering::SeqCst) == 2);
    let began = std::time::Instant::now();
    (12..20).for_each(|txg| pool.sync_to(txg));
    assert!((unreached::WAITED_FOR..2 * unreached::WAITED_FOR).contains(&began.elapsed()));
    pool.holding.store(false, Ordering::SeqCst);
    log.suspend().unwrap();
}

#[test]
fn many_threads_share_writes() {
    let (pool, log) = log();
    names(&log, 10, "a");
    log.commit(None).unwrap();
    let called = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (log, called) = (&log, &called);
            scope.spawn(move || {
                for n in 0..100 {
                    names(log, 11, &format!("{thread}.{n}"));
                    if n % 2 == 0 {
                        log.commit(Some(1)).unwrap();
                    } else {
                        let called = Arc::clone(called);
                        log.commit_then(Some(1), move |done| {
                            done.unwrap();
                            called.fetch_add(1, Ordering::SeqCst);
                        });
                    }
                }
            });
        }
    });
    log.commit(None).unwrap();
    while called.load(Ordering::SeqCst) < 400 {
        std::thread::yield_now();
    }
    let records = pool.records();
    assert_eq!(records.len(), 800);
    assert!(records.windows(2).all(|w| w[1].seq == w[0].seq + 1));
}

#[test]
fn a_replay_says_how_far_it_came() {
    let pool = Arc::new(Pool { open: AtomicU64::new(10), ..Pool::default() });
    let log = IntentLog::new(&Rt::real(), (54, None), true, Box::new(Handle(pool)));
    assert!(log.sync(10).is_none());
    let mut header = ZilHeader::default();
    (header.claim_txg, header.replay_seq) = (9, 2);
    log.begin_replay(header);
    log.replayed(11, 3);
    log.replayed(11, 4);
    log.replayed(12, 5);
    let replay_seq_at = |txg| log.sync(txg).unwrap().header.replay_seq;
    assert_eq!(
        [replay_seq_at(10), replay_seq_at(11), replay_seq_at(12), replay_seq_at(13)],
        [2, 4, 5, 5]
    );
    log.taken_over();
    assert_eq!(log.sync(14).unwrap().header, ZilHeader::default());
}
