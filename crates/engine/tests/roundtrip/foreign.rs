//! The other byte order: whole pools, as a machine of the other order would have written them,
//! read the same.
//!
//! The pools at hand are little-endian. A block store in between turns every block on its way up
//! into what a big-endian machine would have written: dnodes with their bonus buffers, indirect
//! blocks, tables, attributes, lists, maps, the intent log. Everything above it, from object sets
//! to files, then reads the twin, and must find in it what it finds in the original.

use crate::twin::Twin;
use crate::{files, objects, open, tally};
use engine::inside::dmu::{Object, Objset, Zap};
use engine::inside::ondisk::bpobj;
use engine::inside::ondisk::bpobj::BpobjHeader;
use engine::inside::ondisk::deadlist::DeadlistHeader;
use engine::inside::ondisk::history::HistoryPhys;
use engine::inside::ondisk::spacemap;
use engine::inside::ondisk::spacemap::SpaceMapHeader;
use engine::inside::ondisk::{DmuType, DslDataset, DslDir, Endian, Layout, ObjsetKind};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::zil::Log;
use engine::inside::zpl::{FileKind, Filesystem, Node, Volume};
use engine::{Dataset, Dsl, Pool};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use testkit::CorpusPool;

/// How often each thing was compared.
#[derive(Default)]
struct Compared {
    counts: BTreeMap<&'static str, u64>,
    place: String,
}

impl Compared {
    fn same<T: PartialEq + Debug>(&mut self, what: &'static str, original: &T, twin: &T) {
        *self.counts.entry(what).or_default() += 1;
        assert!(original == twin, "{}: {what}: {original:?} became {twin:?}", self.place);
    }
}

fn pool(case: &CorpusPool, compared: &mut Compared) {
    let pool = poolkit::open_unlocked(case);
    case.case.clone_into(&mut compared.place);
    let store = Arc::new(Twin::new(Arc::clone(pool.mos().store())));
    let root = &pool.uberblock().rootbp;
    let mos = Objset::open(Arc::clone(&store) as _, 0, root, None).expect("the twin's MOS");
    objsets(pool.mos(), &mos, compared);
    let dsl = Dsl::open(mos, pool.name()).expect("the twin's datasets");
    names(&pool, &dsl, compared);
    for dataset in open::datasets(&pool) {
        compared.place = format!("{} {}", case.case, dataset.name);
        one_dataset(&pool, &dsl, &store, &dataset, compared);
    }
}

/// The tree of names is the same.
fn names(pool: &Pool, twin: &Dsl, compared: &mut Compared) {
    let list = |dsl: &Dsl| -> Vec<_> {
        let all = dsl.walk().into_iter().map(|(name, dir)| (name, dir.expect("sound")));
        all.map(|(name, dir)| (name, dir.phys, dsl.origin(&dir).expect("sound"))).collect()
    };
    compared.same("names of directories", &list(pool.dsl()), &list(twin));
}

fn one_dataset(
    pool: &Pool,
    dsl: &Dsl,
    store: &Arc<Twin>,
    dataset: &Dataset,
    compared: &mut Compared,
) {
    let found = dsl.by_name(&dataset.name).expect("the name of the original");
    compared.same("datasets", &dataset.phys, &found.phys);
    if dataset.phys.bp.is_hole() {
        return;
    }
    let original = pool.dsl().objset(dataset).expect("sound");
    if original.phys().kind == ObjsetKind::Zfs {
        let tables = files::sa_tables(&original, &mut tally::Tally::default());
        store.learn(dataset.object, tables);
    }
    let key = original.key().cloned();
    let twin = Objset::open(Arc::clone(store) as _, dataset.object, &dataset.phys.bp, key);
    let twin = twin.expect("the twin of an object set");
    objsets(&original, &twin, compared);
    let log = |objset| {
        let all = Log::read(objset).blocks;
        all.into_iter().map(|b| (b.bp, b.seq, b.used, b.records)).collect::<Vec<_>>()
    };
    compared.same("intent logs", &log(&original), &log(&twin));
    match original.phys().kind {
        ObjsetKind::Zfs => {
            let [a, b] = [original, twin].map(|o| Filesystem::open(o).expect("sound"));
            filesystems(&a, &b, compared);
        }
        ObjsetKind::Zvol => {
            let size = |o| Volume::open(o).expect("sound").size();
            compared.same("sizes of volumes", &size(&original), &size(&twin));
        }
        _ => {}
    }
}

/// Headers, dnodes, and what can be read of every object without knowing whose it is.
fn objsets(original: &Objset, twin: &Objset, compared: &mut Compared) {
    let head = |o: &Objset| {
        let p = o.phys();
        (p.kind, p.flags, p.portable_mac, p.local_mac, p.zil, p.size)
    };
    compared.same("headers", &head(original), &head(twin));
    let all = |o: &Objset| -> Vec<Object> {
        let accounting = o.accounting_objects().into_iter().flatten();
        accounting.chain(o.objects().map(|o| o.expect("sound"))).collect()
    };
    let (one, other) = (all(original), all(twin));
    compared.same("numbers of objects", &one.len(), &other.len());
    for (a, b) in one.iter().zip(&other) {
        compared.same("dnodes", &dnode(a), &dnode(b));
        assert_ne!(a.dnode().endian, b.dnode().endian, "the twin has the other order");
        compared.same("bonus buffers", &bonus(a), &bonus(b));
        compared.same("trees of blocks", &tree(a), &tree(b));
        if a.dnode().kind.layout() == Layout::Zap {
            let entries = |o| Zap::open(o).and_then(|z| z.to_vec()).expect("sound");
            compared.same("tables", &entries(a), &entries(b));
        }
        match a.dnode().kind {
            DmuType::SPACE_MAP => compared.same("space maps", &space_map(a), &space_map(b)),
            DmuType::BPOBJ => compared.same("lists of blocks", &blocks(a), &blocks(b)),
            _ => {}
        }
    }
}

fn dnode(o: &Object) -> impl PartialEq + Debug {
    let d = o.dnode();
    let numbers = [d.used, d.max_block, d.block_size(), d.flags.into(), d.levels.into()];
    (o.number(), d.kind, d.bonus_kind, numbers, d.blkptrs.clone(), d.spill, d.bonus.len())
}

/// The decoded bonus, as text: the types differ.
fn bonus(o: &Object) -> String {
    let (bytes, order) = (&o.dnode().bonus, o.dnode().endian);
    match o.dnode().bonus_kind {
        DmuType::DSL_DIR => format!("{:?}", DslDir::decode(bytes, order)),
        DmuType::DSL_DATASET => format!("{:?}", DslDataset::decode(bytes, order)),
        DmuType::BPOBJ_HDR => format!("{:?}", BpobjHeader::decode(bytes, order)),
        DmuType::DEADLIST_HDR => format!("{:?}", DeadlistHeader::decode(bytes, order)),
        DmuType::SPACE_MAP_HEADER => format!("{:?}", SpaceMapHeader::decode(bytes, order)),
        DmuType::SPA_HISTORY_OFFSETS => format!("{:?}", HistoryPhys::decode(bytes, order)),
        kind if kind.layout() == Layout::U64 => words(bytes, order),
        // Attributes and znodes are compared file by file.
        _ => String::new(),
    }
}

fn words(bytes: &[u8], order: Endian) -> String {
    let all: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|w| order.u64(*w)).collect();
    format!("{all:x?}")
}

/// The first stored blocks of level 0 with their pointers: enough to go down every level.
fn tree(o: &Object) -> Vec<(u64, String)> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(blkid) = o.next_block(at).map_err(|(e, _)| e).expect("sound") {
        let bp = o.block_pointer(0, blkid).expect("sound");
        out.push((blkid, format!("{bp:?}")));
        if out.len() > 100 {
            break;
        }
        at = blkid + 1;
    }
    out
}

fn space_map(o: &Object) -> Vec<spacemap::Entry> {
    let (bytes, order) = (&o.dnode().bonus, o.dnode().endian);
    let length = SpaceMapHeader::decode(bytes, order).expect("sound").length;
    let data = objects::content(o, length);
    spacemap::entries(&data, order, 0, 9).map(|e| e.expect("sound")).collect()
}

fn blocks(o: &Object) -> Vec<bpobj::Entry> {
    let (bytes, order) = (&o.dnode().bonus, o.dnode().endian);
    let header = BpobjHeader::decode(bytes, order).expect("sound");
    let data = objects::content(o, header.data_len().expect("sound"));
    bpobj::entries(&data, order).map(|e| e.expect("sound")).collect()
}

/// Every file: attributes, names, extended attributes, link targets, the first bytes.
fn filesystems(original: &Filesystem, twin: &Filesystem, compared: &mut Compared) {
    for object in original.objset().objects().map(|o| o.expect("sound")) {
        if !matches!(object.dnode().bonus_kind, DmuType::SA | DmuType::ZNODE) {
            continue;
        }
        let open = |fs: &Filesystem| fs.node(object.number());
        let (a, b) = match (open(original), open(twin)) {
            (Ok(a), Ok(b)) => (a, b),
            // Shares and the like have no attributes of a file, in the twin neither.
            (a, b) => {
                compared.same("objects that are not files", &a.is_ok(), &b.is_ok());
                continue;
            }
        };
        compared.same("files", &attributes(&a), &attributes(&b));
        compared.same("extended attributes", &xattrs(&a), &xattrs(&b));
        let names = |n: &Node| {
            let entries = n.sorted_entries().unwrap_or_default();
            entries.into_iter().map(|e| (e.name, e.object)).collect::<Vec<_>>()
        };
        compared.same("names in directories", &names(&a), &names(&b));
        let start = |n: &Node| {
            let mut bytes = vec![0; 4096];
            n.read_at(0, &mut bytes).map(|read| bytes[..read].to_vec()).expect("sound")
        };
        if a.kind() == FileKind::File {
            compared.same("first bytes of files", &start(&a), &start(&b));
        }
    }
}

fn attributes(n: &Node) -> impl PartialEq + Debug {
    let times = [n.atime, n.mtime, n.ctime, n.crtime];
    let words = [n.mode, n.uid, n.gid, n.size, n.links, n.generation, n.parent, n.flags];
    let link = (n.kind() == FileKind::Symlink).then(|| n.read_link().expect("sound"));
    (times, words, n.rdev, n.project, n.xattr_dir, link)
}

fn xattrs(n: &Node) -> impl PartialEq + Debug {
    n.xattrs().expect("sound")
}

#[test]
fn pools_of_the_other_byte_order_read_the_same() {
    let mut compared = Compared::default();
    for name in testkit::fixture_cases() {
        pool(&testkit::fixture(&name), &mut compared);
    }
    for name in testkit::corpus_cases() {
        pool(&testkit::corpus(&name), &mut compared);
    }
    for (what, count) in &compared.counts {
        println!("{count:>9}  {what}");
    }
    for what in ["files", "dnodes", "tables", "space maps", "datasets", "lists of blocks"] {
        assert!(compared.counts.get(what).is_some_and(|n| *n > 0), "{what} were never compared");
    }
}
