//! Datasets: their sums, and those that are lost.

use super::files::names;
use super::kit::*;
use pool::UnguardedDatasets as _;
use pool::live::AbandonedHead;

#[test]
fn sums_of_datasets_directories_and_dead_lists() {
    let s = surgeon("history");
    let pool = s.open();
    let set = heads(&pool).into_iter().find(|d| d.phys.prev_snap_txg > 1).expect("a snapshot");
    // Words: of a dataset 9 is what it refers to and 12 what is its own, of a directory 5 is what
    // it uses.
    for snapshot in pool.dsl().snapshots(&set).unwrap() {
        s.edit_bonus((0, snapshot.object), 9 * 8, |n| n + 1024);
    }
    s.edit_bonus((0, set.object), 9 * 8, |n| n + 512);
    s.edit_bonus((0, set.object), 12 * 8, |n| n + 512);
    s.edit_bonus((0, set.dir.object), 5 * 8, |n| n + 512);
    let mut lists = pool.mos().objects().filter_map(Result::ok);
    let dead = lists.find(|o| o.dnode().bonus_kind == DmuType::DEADLIST_HDR).unwrap().number();
    s.edit_bonus((0, dead), 0, |n| n + 512);
    assert!(objset(&pool, 0).object(dead).is_ok());
    mends(&s, &["dataset-space", "block-list"], Zdb::Overlooks);
}

/// The first head that `choose` takes.
fn a_head(s: &Surgeon, choose: impl Fn(&pool::Pool, &dsl::Dataset) -> bool) -> dsl::Dataset {
    let pool = s.open();
    heads(&pool).into_iter().find(|d| choose(&pool, d)).expect("such a dataset")
}

fn snapshots(pool: &pool::Pool, head: &dsl::Dataset) -> Vec<dsl::Dataset> {
    pool.dsl().snapshots(head).unwrap()
}

fn has_below(pool: &pool::Pool, head: &dsl::Dataset) -> bool {
    !pool.dsl().child_names(&head.dir).unwrap().is_empty()
}

fn is_clone(pool: &pool::Pool, head: &dsl::Dataset) -> bool {
    pool.dsl().origin(&head.dir).unwrap().is_some()
}

/// The root of the object set is the dataset's own.
fn is_own(d: &dsl::Dataset) -> bool {
    d.phys.bp.logical_birth() > d.phys.prev_snap_txg
}

/// What became of a dataset.
fn became(steps: &[Step], name: &str) -> Option<AbandonedHead> {
    steps.iter().find_map(|step| match step {
        Step::DatasetLost { dataset, became } if dataset == name => Some(became.clone()),
        _ => None,
    })
}

#[test]
fn a_dataset_that_is_lost_and_was_made_of_nothing_is_gone() {
    let s = surgeon("basic");
    let head = a_head(&s, |pool, d| {
        !has_below(pool, d) && !is_clone(pool, d) && snapshots(pool, d).is_empty()
    });
    s.destroy_all(&head.phys.bp);
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    assert_eq!(became(&steps, &head.name), Some(AbandonedHead::Destroyed));
    assert!(s.open().dsl().by_name(&head.name).is_err());
}

#[test]
fn a_dataset_that_is_lost_and_has_others_below_is_empty() {
    let s = surgeon("basic");
    let head = a_head(&s, |pool, d| has_below(pool, d) && snapshots(pool, d).is_empty());
    s.destroy_all(&head.phys.bp);
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    assert_eq!(became(&steps, &head.name), Some(AbandonedHead::Emptied));
    assert!(names(&s, head.object).is_empty());
}

#[test]
fn a_dataset_that_is_lost_is_as_its_last_snapshot_that_is_whole() {
    let s = surgeon("history");
    let head = a_head(&s, |pool, d| {
        is_own(d) && snapshots(pool, d).last().is_some_and(|s| s.phys.num_children == 1)
    });
    s.destroy_all(&head.phys.bp);
    let last = snapshots(&s.open(), &head).pop().unwrap();
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    assert_eq!(became(&steps, &head.name), Some(AbandonedHead::RolledBack(last.name.clone())));
    assert_eq!(names(&s, head.object), names(&s, last.object));
}

#[test]
fn a_clone_that_is_lost_is_as_its_origin() {
    let s = surgeon("history");
    let head = a_head(&s, |pool, d| !snapshots(pool, d).is_empty());
    let origin = snapshots(&s.open(), &head).pop().unwrap().name;
    let clone = format!("{}/cloned anew", s.open().name());
    let live = live(&s);
    live.clone_snapshot(&origin, &clone, Vec::new()).unwrap();
    let fs = live.filesystem(&clone).unwrap();
    let new = zpl::NewFile::new(zpl::NewKind::Dir, 0o700, zpl::Time::default());
    fs.create(fs.root_object(), b"made in the clone", &new).unwrap();
    drop(fs);
    live.export().unwrap();
    let head = a_head(&s, |_, d| d.name == clone);
    s.destroy_all(&head.phys.bp);
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    assert_eq!(became(&steps, &head.name), Some(AbandonedHead::AsCloned(origin)));
}

#[test]
fn a_snapshot_that_is_lost_is_destroyed() {
    let s = surgeon("history");
    let pool = s.open();
    let is_free = |d: &dsl::Dataset| {
        d.phys.num_children == 1 && is_own(d) && pool.dsl().holds(d).unwrap().is_empty()
    };
    // The dataset after it has a root of its own.
    let all = heads(&pool).into_iter().flat_map(|head| {
        let mut chain = snapshots(&pool, &head);
        chain.push(head);
        chain.windows(2).map(|w| (w[0].clone(), w[1].clone())).collect::<Vec<_>>()
    });
    let (snapshot, _) = all.into_iter().find(|(a, b)| is_free(a) && is_own(b)).unwrap();
    s.destroy_all(&snapshot.phys.bp);
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    assert_eq!(steps.first(), Some(&Step::SnapshotLost { snapshot: snapshot.name.clone() }));
    assert!(s.open().dsl().by_name(&snapshot.name).is_err());
}

#[test]
fn what_cannot_be_mended_of_one_dataset_keeps_no_other_from_being_mended() {
    let s = surgeon("history");
    let pool = s.open();
    // Clones keep the snapshot.
    let of_clones = |d: &dsl::Dataset| d.phys.num_children > 1 && is_own(d);
    let mut all = heads(&pool).into_iter().flat_map(|head| snapshots(&pool, &head));
    let snapshot = all.find(of_clones).unwrap();
    let (set, file) = plain_file(&s);
    s.edit_bonus((set, file), SA_LINKS, |_| 7);
    s.destroy_all(&snapshot.phys.bp);
    let repaired = in_memory(&s, true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    repaired.apply(&folder.path().join("undo")).unwrap();
    let left: Vec<_> = repaired.plan().left.iter().map(check::Issue::name).collect();
    drop(repaired);
    assert!(left.contains(&"block-lost") && !left.contains(&"link-count"), "{left:?}");
    let left = s.check();
    assert!(left.contains(&"block-lost") && !left.contains(&"link-count"), "{left:?}");
}
