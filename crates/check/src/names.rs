//! Names in the pool's own tables: such as datasets, properties and features can have.

use crate::issue::{Issue, Location};
use crate::sets::Sets;
use crate::sink::Sink;
use dmu::{Object, Zap};
use dsl::names::{NameOf, fault, of_property};
use ondisk::dsl::dataset_field;
use ondisk::{DmuType, mos, spelling};
use pool::Pool;
use pool::UnguardedDatasets as _;
use std::sync::Arc;
use zio::Place;

/// Checks the names in all tables whose names have a rule. Tables that cannot be read are reported
/// elsewhere.
pub(crate) fn audit(pool: &Pool, sets: &Sets, sink: &Sink) {
    for object in pool.mos().objects().filter_map(Result::ok) {
        match object.dnode().kind {
            DmuType::DSL_PROPS | DmuType::POOL_PROPS => judge(&object, NameOf::Property, sink),
            DmuType::DSL_DIR_CHILD_MAP | DmuType::DSL_DS_SNAP_MAP => {
                judge(&object, NameOf::Dataset, sink);
            }
            _ => {}
        }
    }
    for object in feature_tables(pool) {
        judge(&object, NameOf::Feature, sink);
    }
    for dataset in sets.datasets.values().filter(|d| !d.phys.is_snapshot()) {
        let fields = pool.dsl().fields(dataset.object, dataset.has_fields).ok().flatten();
        let number = fields.and_then(|f| f.get_u64(dataset_field::BOOKMARKS).ok().flatten());
        if let Some(object) = number.and_then(|n| pool.mos().object(n).ok()) {
            judge(&object, NameOf::Dataset, sink);
        }
    }
}

/// The tables of the MOS whose names are features.
fn feature_tables(pool: &Pool) -> Vec<Object> {
    let directory = pool.mos().object(mos::DIRECTORY_OBJECT).and_then(|o| Zap::open(&o));
    let Ok(directory) = directory else { return Vec::new() };
    let names = [
        mos::FEATURES_FOR_READ,
        mos::FEATURES_FOR_WRITE,
        mos::FEATURE_DESCRIPTIONS,
        mos::FEATURE_ENABLED_TXG,
    ];
    let table = |name| pool.mos().object(directory.get_u64(name).ok()??).ok();
    names.into_iter().filter_map(table).collect()
}

fn judge(object: &Object, of: NameOf, sink: &Sink) {
    let Ok(table) = Zap::open(object) else { return };
    for entry in table.entries().filter_map(Result::ok) {
        let Some(key) = entry.name.bytes() else { continue };
        let name = match of {
            NameOf::Property => of_property(key),
            NameOf::Dataset | NameOf::Feature => Some(key),
        };
        let Some((name, cause)) = name.and_then(|name| Some((name, fault(name, of)?))) else {
            continue;
        };
        let place = Place { objset: 0, object: object.number(), level: 0, blkid: 0 };
        let at = Location { dataset: Arc::from("MOS"), place };
        sink.put(Issue::BadEntry { at, name: spelling::name(name), cause });
    }
}
