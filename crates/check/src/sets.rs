//! The object sets of a pool: the MOS, then every dataset, found by looking at all objects of the
//! MOS, so that a dataset no directory names is walked as well.

use crate::issue::{Issue, Location};
use crate::sink::Sink;
use crate::totals::BlockKind;
use crate::walk::{Set, Space};
use dsl::Dataset;
use ondisk::DmuType;
use parking_lot::Mutex;
use pool::Pool;
use pool::UnguardedDatasets as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zio::Place;

/// All object sets.
pub(crate) struct Sets {
    /// To be walked, the MOS first.
    pub(crate) all: Vec<Arc<Set>>,
    /// Datasets by object.
    pub(crate) datasets: BTreeMap<u64, Dataset>,
}

impl Sets {
    /// The walked set of a dataset.
    pub(crate) fn of(&self, object: u64) -> Option<&Arc<Set>> {
        self.all.iter().find(|s| s.id == object)
    }
}

fn set(id: u64, name: &str, root: ondisk::BlkPtr) -> Set {
    Set {
        id,
        name: Arc::from(name),
        root,
        min_txg: 0,
        is_snapshot: false,
        kind: None,
        key: None,
        own: Mutex::new(Space::default()),
        incomplete: AtomicBool::new(false),
    }
}

/// A destroyed dataset, of which only the root is left. It has no number any more; that it gets
/// the largest keeps its places apart from those of others.
pub(crate) fn destroyed(root: ondisk::BlkPtr, min_txg: u64) -> Set {
    let is_snapshot = true;
    Set {
        min_txg,
        is_snapshot,
        kind: Some(BlockKind::DeferredFree),
        ..set(u64::MAX, "destroyed", root)
    }
}

/// Names of all datasets that the directories lead to, by object.
pub(crate) fn names(pool: &Pool) -> BTreeMap<u64, String> {
    let dsl = pool.dsl();
    let mut out = BTreeMap::new();
    for (_, dir) in dsl.walk() {
        let Ok(dir) = dir else { continue };
        let Ok(Some(head)) = dsl.head(&dir) else { continue };
        for snapshot in dsl.snapshots(&head).unwrap_or_default() {
            out.insert(snapshot.object, snapshot.name);
        }
        out.insert(head.object, head.name);
    }
    out
}

/// Lists the object sets.
pub(crate) fn list(pool: &Pool, sink: &Sink) -> Sets {
    let mut all = vec![Arc::new(set(0, "MOS", pool.uberblock().rootbp))];
    let mut datasets = BTreeMap::new();
    let names = names(pool);
    for object in pool.mos().objects() {
        // Objects of the MOS that cannot be read are found again, and reported, by the walk.
        let Ok(object) = object else { continue };
        if object.dnode().bonus_kind != DmuType::DSL_DATASET {
            continue;
        }
        let number = object.number();
        let name = names.get(&number).cloned().unwrap_or_else(|| format!("dataset {number}"));
        let dataset = match open(pool, number, &name) {
            Ok(d) => d,
            Err(e) => {
                let place = Place { objset: 0, object: number, level: 0, blkid: 0 };
                let (at, cause) = (Location { dataset: Arc::from("MOS"), place }, e.to_string());
                sink.put(Issue::BadStructure { at, what: "dataset", cause });
                continue;
            }
        };
        match pool.dsl().is_unlocked(&dataset) {
            Ok(true) => {}
            Ok(false) if dataset.phys.is_snapshot() => {}
            Ok(false) => sink.put(Issue::Locked { dataset: Arc::from(name.as_str()) }),
            Err(e) => {
                let place = Place { objset: 0, object: number, level: 0, blkid: 0 };
                let (at, cause) = (Location { dataset: Arc::from("MOS"), place }, e.to_string());
                sink.put(Issue::BadStructure { at, what: "key of a dataset", cause });
            }
        }
        let objset = pool.dsl().objset(&dataset).ok();
        all.push(Arc::new(Set {
            min_txg: dataset.phys.prev_snap_txg,
            is_snapshot: dataset.phys.is_snapshot(),
            key: objset.and_then(|o| o.key().cloned()),
            ..set(number, &name, dataset.phys.bp)
        }));
        datasets.insert(number, dataset);
    }
    Sets { all, datasets }
}

fn open(pool: &Pool, number: u64, name: &str) -> dsl::Result<Dataset> {
    let nameless = Arc::new(dsl::Dir {
        object: 0,
        name: String::new(),
        phys: ondisk::DslDir::default(),
        has_fields: false,
    });
    let dataset = pool.dsl().dataset(number, name.to_owned(), &nameless)?;
    let path = name.split('@').next().unwrap_or(name).to_owned();
    let dir = pool.dsl().dir(dataset.phys.dir, path)?;
    Ok(Dataset { dir, ..dataset })
}
