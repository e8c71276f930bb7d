//! A pool that is no more than its MOS and its heads, synced txg by txg.

use crate::disk::Disk;
use dmu::{LiveSpec, Objset, SetPolicy, SyncContext, Tx};
use dsl::write::{
    self, Blocks, DslCx, HeadAccount, MosAccount, MosFeatures, Timestamp, finish_head,
};
use dsl::{Dsl, Error, Result};
use ondisk::objset::{OBJSET_SIZE_V3, ObjsetKind};
use ondisk::{BlkPtr, DmuType, features, mos};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes that its datasets may take.
pub(crate) const POOL_SIZE: u64 = 1 << 30;

pub(crate) struct TestPool {
    pub disk: Arc<Disk>,
    pub mos: Objset,
    account: MosAccount,
    pub txg: u64,
    guid: Cell<u64>,
    /// Object sets of heads that were opened.
    heads: BTreeMap<u64, Objset>,
    pub free_list: u64,
    /// Creation txgs of all bookmarks there ever were.
    pub marks: RefCell<BTreeSet<u64>>,
}

fn live(disk: &Arc<Disk>, id: u64, root: Option<BlkPtr>) -> Objset {
    let kind = if id == 0 { ObjsetKind::Meta } else { ObjsetKind::Zfs };
    let policy = SetPolicy { indirect_shift: 10, ..SetPolicy::default() };
    Objset::live(LiveSpec {
        store: Arc::clone(disk) as _,
        id,
        root,
        kind,
        header_size: OBJSET_SIZE_V3,
        transactions: None,
        policy,
        accounting: None,
        key: dmu::SetKey::None,
    })
    .unwrap()
}

impl TestPool {
    pub(crate) fn create() -> Self {
        let disk = Arc::new(Disk::default());
        let mos = live(&disk, 0, None);
        let account = MosAccount::new(Arc::clone(&disk) as Arc<dyn Blocks>);
        let mut pool = Self {
            disk,
            mos,
            account,
            txg: 4,
            guid: Cell::new(1000),
            heads: BTreeMap::new(),
            free_list: 0,
            marks: RefCell::default(),
        };
        let tx = Tx::syncing(pool.txg);
        let spec = dmu::zap::ZapSpec::new(DmuType::OBJECT_DIRECTORY).number(1);
        let directory = dmu::zap::create(&pool.mos, &tx, &spec).unwrap();
        for (key, read) in [(mos::FEATURES_FOR_READ, false), (mos::FEATURES_FOR_WRITE, true)] {
            let spec = dmu::zap::ZapSpec::new(DmuType::ZAP_OTHER);
            let table = dmu::zap::create(&pool.mos, &tx, &spec).unwrap();
            dmu::zap::set_u64(&directory.reopen().unwrap(), &tx, key, table.number()).unwrap();
            for f in features::FEATURES.iter().filter(|f| f.is_read_only_compatible() == read) {
                dmu::zap::set_u64(&table.reopen().unwrap(), &tx, f.guid, 0).unwrap();
            }
        }
        let tree = pool.with_cx(write::create_pool_tree).unwrap();
        pool.free_list = tree.free_bpobj;
        pool.write(tree.root_head, |set, tx| {
            set.create(tx, &dmu::NewObject::new(DmuType::PLAIN_FILE_CONTENTS)).map(drop)
        });
        pool.sync();
        pool
    }

    /// What is on disk is all there is.
    pub(crate) fn reopen(&mut self) {
        let root = self.mos.root();
        self.heads.clear();
        self.mos = live(&self.disk, 0, Some(root));
    }

    pub(crate) fn dsl(&self) -> Dsl {
        Dsl::open(self.mos.clone(), "p").unwrap()
    }

    fn with_cx<T>(&self, f: impl FnOnce(&DslCx<'_>) -> T) -> T {
        let tx = Tx::syncing(self.txg);
        let guid = || {
            self.guid.set(self.guid.get() + 1);
            self.guid.get()
        };
        let cx = DslCx {
            mos: &self.mos,
            tx: &tx,
            blocks: &*self.disk,
            features: &MosFeatures,
            now: Timestamp { secs: 1_700_000_000 + self.txg, nanos: 5 },
            guid: &guid,
            creator: 0,
            pool_size: POOL_SIZE,
        };
        f(&cx)
    }

    /// Runs a task of the txg that is open.
    pub(crate) fn task<T>(&self, f: impl FnOnce(&DslCx<'_>, &Dsl) -> Result<T>) -> Result<T> {
        self.with_cx(|cx| f(cx, &self.dsl()))
    }

    /// The object set of a head.
    pub(crate) fn head(&mut self, head: u64) -> Objset {
        let disk = Arc::clone(&self.disk);
        let dsl = self.dsl();
        let open = || {
            let dir = dsl.root().unwrap();
            let ds = dsl.dataset(head, String::new(), &dir).unwrap();
            live(&disk, head, Some(ds.phys.bp))
        };
        self.heads.entry(head).or_insert_with(open).clone()
    }

    /// The head has another tree now, or is gone.
    pub(crate) fn close(&mut self, head: u64) {
        self.heads.remove(&head);
    }

    /// Changes a head, and syncs that.
    pub(crate) fn write(&mut self, head: u64, f: impl FnOnce(&Objset, &Tx) -> dmu::Result<()>) {
        let set = self.head(head);
        let tx = Tx::syncing(self.txg);
        f(&set, &tx).unwrap();
        drop(tx);
        set.freeze(self.txg);
        let blocks = Arc::clone(&self.disk) as Arc<dyn Blocks>;
        self.task(|cx, _| {
            let account = HeadAccount::new(cx, blocks, head)?;
            let sync = SyncContext {
                workers: 2,
                writer: &*self.disk,
                owner: &account,
                txg: self.txg,
                hold: false,
            };
            let root = set.sync(&sync).map_err(Error::from)?;
            finish_head(cx, &account, root.as_ref(), &[])
        })
        .unwrap();
    }

    /// Ends the txg.
    pub(crate) fn sync(&mut self) {
        for pass in 0.. {
            assert!(pass < 10, "the MOS does not converge");
            if pass < 2 {
                self.task(|cx, _| self.account.apply(cx)).unwrap();
            }
            if !self.mos.is_dirty(self.txg) {
                break;
            }
            self.mos.freeze(self.txg);
            let sync = SyncContext {
                workers: 1,
                writer: &*self.disk,
                owner: &self.account,
                txg: self.txg,
                hold: true,
            };
            self.mos.sync(&sync).unwrap();
        }
        self.mos.synced(self.txg);
        for set in self.heads.values() {
            set.synced(self.txg);
        }
        self.txg += 1;
    }
}
