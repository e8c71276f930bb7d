//! An object set without a pool: blocks in memory, txgs pushed by hand.
//!
//! Every block has its own address, which is never used again. What was freed is taken away when
//! the txg that freed it is done, so that a pointer to a freed block is found out, and what is left
//! at the end must be reachable.
#![allow(dead_code, reason = "each test binary uses its part")]

use dmu::{
    Block, BlockOwner, BlockStore, BlockWriter, Hold, Key, LiveSpec, Objset, Place, SetPolicy,
    SyncContext, Transactions, Tx,
};
use ondisk::objset::{OBJSET_SIZE_V3, ObjsetKind};
use ondisk::znode::Time;
use ondisk::{BlkPtr, Checksum, Compression};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, Weak};
use zio::WriteSpec;
use zpl::write::FileOwners;
use zpl::{Filesystem, FormatOptions};

/// Number of the set.
pub(crate) const SET: u64 = 54;

/// A time of tests.
pub(crate) fn at(seconds: i64) -> Time {
    Time { seconds, nanos: 123_456_789 }
}

#[derive(Default)]
struct Blocks {
    next: u64,
    stored: HashMap<u64, Arc<Block>>,
    /// Freed in the txg that is synced.
    freed: Vec<u64>,
}

/// Blocks in memory.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Blocks>);

impl Memory {
    /// Blocks that are stored.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().stored.len()
    }

    fn done(&self) {
        let mut blocks = self.0.lock().unwrap();
        for gone in std::mem::take(&mut blocks.freed) {
            assert!(blocks.stored.remove(&gone).is_some(), "block {gone:x} was freed twice");
        }
    }
}

impl BlockStore for Memory {
    fn rt(&self) -> rt::Rt {
        rt::Rt::current()
    }

    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        if bp.is_hole() {
            let buf = device::AlignedBuf::zeroed(bp.lsize() as usize);
            return Ok(Arc::new(Block::new(buf, ondisk::Endian::Little)));
        }
        let blocks = self.0.lock().unwrap();
        let block = blocks.stored.get(&bp.dva(0).offset());
        // A reader that is slower than a txg comes to what was freed, and looks for it again; one
        // that does not is told.
        block.cloned().ok_or_else(|| zio::Error {
            place,
            copies: format!("{bp:?} was freed"),
            kind: zio::ErrorKind::Unreadable,
            faults: Vec::new(),
        })
    }
}

impl BlockWriter for Memory {
    fn write(&self, data: &Arc<Block>, spec: &WriteSpec<'_>, _: Place) -> zio::Result<BlkPtr> {
        let sectors = data.len() as u64 / 512 - 1;
        let place = u64::from(spec.kind.0) << 48 | u64::from(spec.level) << 56;
        let mut words = [0; 16];
        words[10] = spec.birth;
        if spec.level == 0 && data.iter().all(|b| *b == 0) {
            words[6] = sectors | place;
            return Ok(BlkPtr::from_words(words));
        }
        let mut blocks = self.0.lock().unwrap();
        blocks.next += 1;
        let offset = blocks.next;
        words[0] = sectors + 1;
        words[1] = offset;
        words[6] = sectors
            | sectors << 16
            | u64::from(Compression::OFF.0) << 32
            | u64::from(Checksum::FLETCHER_4.0) << 40
            | place
            | 1 << 63;
        words[11] = spec.fill;
        let bp = BlkPtr::from_words(words);
        blocks.stored.insert(bp.dva(0).offset(), Arc::clone(data));
        Ok(bp)
    }

    fn read_pending(&self, _: &BlkPtr) -> Option<Arc<Block>> {
        None
    }
}

impl BlockOwner for Memory {
    fn born(&self, _: &BlkPtr) {}

    fn kill(&self, bp: &BlkPtr) {
        if !bp.is_hole() {
            self.0.lock().unwrap().freed.push(bp.dva(0).offset());
        }
    }

    fn dsize(&self, bp: &BlkPtr) -> u64 {
        bp.asize()
    }
}

/// Which txg is open, and which transactions are in it.
struct Txgs {
    this: Weak<Txgs>,
    state: Mutex<(u64, u64, bool)>,
    changed: Condvar,
    /// Transactions begun.
    begun: AtomicU64,
    /// No more of them than this.
    most: AtomicU64,
    stopped: Mutex<Option<String>>,
}

impl Txgs {
    fn new() -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            state: Mutex::new((4, 0, false)),
            changed: Condvar::new(),
            begun: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
            stopped: Mutex::default(),
        })
    }

    /// Lets no more transactions in, and waits until the last has left.
    fn quiesce(&self) -> u64 {
        let mut state = self.state.lock().unwrap();
        state.2 = true;
        while state.1 > 0 {
            state = self.changed.wait(state).unwrap();
        }
        state.0
    }

    fn open_next(&self) {
        let mut state = self.state.lock().unwrap();
        *state = (state.0 + 1, 0, false);
        self.changed.notify_all();
    }
}

impl Transactions for Txgs {
    fn begin(&self, objset: u64, _: Hold) -> dmu::Result<Tx> {
        if self.begun.fetch_add(1, Relaxed) >= self.most.load(Relaxed) {
            let kind = dmu::ErrorKind::Stopped("so the test wants it".to_owned());
            return Err(dmu::Error { objset, object: 0, kind });
        }
        let mut state = self.state.lock().unwrap();
        while state.2 {
            state = self.changed.wait(state).unwrap();
        }
        state.1 += 1;
        Ok(Tx::new(state.0, self.this.upgrade().unwrap()))
    }

    fn wait_synced(&self, _: u64) -> dmu::Result<()> {
        Ok(())
    }

    fn dirtied(&self, _: u64, _: u64) {}

    fn ended(&self, _: u64) {
        let mut state = self.state.lock().unwrap();
        state.1 -= 1;
        self.changed.notify_all();
    }

    fn stop(&self, why: &str) {
        self.stopped.lock().unwrap().get_or_insert_with(|| why.to_owned());
    }
}

/// An object set and what it stands on.
pub(crate) struct Set {
    pub(crate) memory: Arc<Memory>,
    pub(crate) objset: Objset,
    pub(crate) owners: Arc<FileOwners>,
    txgs: Arc<Txgs>,
    root: Mutex<BlkPtr>,
}

impl Set {
    /// An empty set of that kind.
    pub(crate) fn new(kind: ObjsetKind) -> Self {
        let memory = Arc::new(Memory::default());
        Self::over(memory, None, kind, Txgs::new())
    }

    fn over(memory: Arc<Memory>, root: Option<BlkPtr>, kind: ObjsetKind, txgs: Arc<Txgs>) -> Self {
        let owners = Arc::new(FileOwners::new(true, true));
        let accounting = (kind == ObjsetKind::Zfs).then(|| Arc::clone(&owners) as _);
        let spec = LiveSpec {
            store: Arc::clone(&memory) as _,
            id: SET,
            root,
            kind,
            header_size: OBJSET_SIZE_V3,
            transactions: Some(Arc::clone(&txgs) as _),
            policy: SetPolicy::default(),
            accounting,
            key: dmu::SetKey::None,
        };
        let objset = Objset::live(spec).unwrap();
        Self { memory, objset, owners, txgs, root: Mutex::new(root.unwrap_or_default()) }
    }

    /// Makes what was changed durable.
    pub(crate) fn commit(&self) -> u64 {
        let txg = self.txgs.quiesce();
        self.objset.freeze(txg);
        self.txgs.open_next();
        let memory: &Memory = &self.memory;
        let cx = SyncContext { workers: 2, writer: memory, owner: memory, txg, hold: false };
        if let Some(root) = self.objset.sync(&cx).unwrap() {
            *self.root.lock().unwrap() = root;
        }
        self.objset.synced(txg);
        self.memory.done();
        txg
    }

    /// Transactions begun so far.
    pub(crate) fn begun(&self) -> u64 {
        self.txgs.begun.load(Relaxed)
    }

    /// Why the pool was stopped.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.txgs.stopped.lock().unwrap().clone()
    }

    /// Lets this many more transactions begin.
    pub(crate) fn let_begin(&self, more: u64) {
        self.txgs.most.store(self.begun().saturating_add(more), Relaxed);
    }

    /// The set as it is on disk, opened anew for reading.
    pub(crate) fn view(&self) -> Objset {
        let root = *self.root.lock().unwrap();
        Objset::open(Arc::clone(&self.memory) as _, SET, &root, None).unwrap()
    }

    /// The same set opened anew to be changed, as after a crash: what was not committed is lost.
    pub(crate) fn reopen(self) -> Self {
        let root = *self.root.lock().unwrap();
        let kind = self.objset.phys().kind;
        Self::over(self.memory, Some(root), kind, self.txgs)
    }
}

/// A new file system.
pub(crate) fn filesystem(options: &FormatOptions) -> (Set, Filesystem) {
    let set = Set::new(ObjsetKind::Zfs);
    let tx = set.objset.begin(Hold::write(0)).unwrap();
    Filesystem::format(&set.objset, &tx, options).unwrap();
    drop(tx);
    let fs = Filesystem::open(set.objset.clone()).unwrap();
    set.owners.attach(&fs);
    (set, fs)
}
