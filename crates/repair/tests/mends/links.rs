//! Datasets that do not refer to each other both ways.

use super::kit::*;
use pool::UnguardedDatasets as _;

/// Words of a dataset.
const PREV_SNAP: usize = 8;
const PREV_SNAP_TXG: usize = 2 * 8;
const NEXT_SNAP: usize = 3 * 8;
const CHILDREN: usize = 5 * 8;

/// A snapshot that clones were made of, and its head.
fn an_origin(s: &Surgeon) -> (dsl::Dataset, dsl::Dataset) {
    let pool = s.open();
    let of = |head: dsl::Dataset| {
        let snapshots = pool.dsl().snapshots(&head).unwrap();
        let origin = snapshots.into_iter().find(|d| d.phys.num_children > 1);
        origin.map(|origin| (origin, head))
    };
    heads(&pool).into_iter().find_map(of).expect("a clone")
}

fn record(s: &Surgeon, object: u64) -> ondisk::DslDataset {
    let dnode = objset(&s.open(), 0).object(object).unwrap();
    ondisk::DslDataset::decode(&dnode.dnode().bonus, dnode.dnode().endian).unwrap()
}

#[test]
fn fields_of_snapshots_and_heads() {
    let s = surgeon("history");
    let (origin, head) = an_origin(&s);
    let pool = s.open();
    let snapshots = pool.dsl().snapshots(&head).unwrap();
    let last = snapshots.last().unwrap().object;
    let clone = pool.dsl().clones(&origin).unwrap()[0].clone();
    let clone = pool.dsl().by_name(&clone).unwrap().object;
    let all = [origin.object, head.object, last, clone];
    let before = all.map(|object| record(&s, object));
    s.edit_bonus((0, origin.object), CHILDREN, |n| n - 1);
    s.edit_bonus((0, last), NEXT_SNAP, |_| origin.object);
    s.edit_bonus((0, clone), PREV_SNAP_TXG, |n| n + 1);
    mends(&s, &["dataset-links"], Zdb::Overlooks);
    let after = all.map(|object| record(&s, object));
    for (a, b) in before.iter().zip(&after) {
        let links =
            |d: &ondisk::DslDataset| (d.num_children, d.next_snap, d.prev_snap, d.prev_snap_txg);
        assert_eq!(links(a), links(b));
    }
}

#[test]
fn a_head_that_does_not_know_its_last_snapshot() {
    let s = surgeon("history");
    let (_, head) = an_origin(&s);
    let before = head.phys.prev_snap;
    s.edit_bonus((0, head.object), PREV_SNAP, |_| 1 << 40);
    mends(&s, &["dataset-links"], Zdb::Overlooks);
    assert_eq!(record(&s, head.object).prev_snap, before);
}

/// Names and numbers of a table.
fn entries(s: &Surgeon, table: u64) -> Vec<(Vec<u8>, Option<u64>)> {
    let table = dmu::Zap::open(&objset(&s.open(), 0).object(table).unwrap()).unwrap();
    let all = table.to_vec().unwrap();
    all.iter().map(|e| (e.name.bytes().unwrap().to_vec(), e.u64())).collect()
}

#[test]
fn tables_of_clones_and_snapshots() {
    let s = surgeon("history");
    let (origin, head) = an_origin(&s);
    let (clones, names) = (origin.phys.next_clones, head.phys.snapnames_zap);
    let before = [clones, names].map(|table| entries(&s, table));
    let live = live(&s);
    let lost = before[0][0].0.clone();
    let (stranger, root) = (head.object, ondisk::mos::DIRECTORY_OBJECT);
    let done = live.run(move |cx| {
        let (mos, tx) = (cx.dsl().mos, cx.tx);
        let clones = mos.object(clones)?;
        dmu::zap::remove(&clones, tx, lost.as_slice())?;
        dmu::zap::set_u64(&clones, tx, format!("{stranger:x}").as_str(), stranger)?;
        Ok(dmu::zap::set_u64(&mos.object(names)?, tx, "forged", root)?)
    });
    done.unwrap();
    live.export().unwrap();
    mends(&s, &["dataset-links"], Zdb::Overlooks);
    let sorted = |mut all: Vec<_>| {
        all.sort();
        all
    };
    let after = [clones, names].map(|table| entries(&s, table));
    assert_eq!(after.map(sorted), before.map(sorted));
}
