//! The tree of datasets changed at random; after every step everything is counted again from the
//! blocks themselves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod audit;
mod disk;
mod pool;
mod random;

use dsl::write::{self, Destroyed, PropertyChange};
use dsl::{DatasetKind, Error, Refusal, StoredValue};
use pool::{POOL_SIZE, TestPool};
use std::cell::RefCell;
use std::collections::BTreeMap;

fn refusal<T: std::fmt::Debug>(result: dsl::Result<T>) -> Refusal {
    match result {
        Err(Error::Refused { why, .. }) => why,
        other => panic!("not refused: {other:?}"),
    }
}

/// Makes a file system with one object of `blocks` blocks.
fn make(pool: &mut TestPool, name: &str, blocks: u64) -> u64 {
    let new = pool
        .task(|cx, dsl| write::create_dataset(cx, dsl, name, &[], &write::Encryption::Inherit))
        .unwrap();
    pool.write(new.head, |set, tx| random::fill(set, tx, 1, 0..blocks));
    pool.sync();
    new.head
}

#[test]
fn a_new_pool_adds_up() {
    let mut pool = TestPool::create();
    audit::check(&pool);
    pool.reopen();
    audit::check(&pool);
    let dsl = pool.dsl();
    let names: Vec<_> = dsl.internal_dirs().unwrap().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["$FREE", "$MOS", "$ORIGIN"]);
    let root = dsl.by_name("p").unwrap();
    assert_eq!(root.phys.creation_txg, 1);
    assert_eq!(root.phys.prev_snap_txg, 1);
    assert!(dsl.origin(&root.dir).unwrap().is_none());
}

#[test]
fn a_snapshot_pins_what_the_head_gives_up() {
    let mut pool = TestPool::create();
    let head = make(&mut pool, "p/a", 20);
    pool.task(|cx, dsl| write::snapshot(cx, dsl, &["p/a@1".into()], &[])).unwrap();
    pool.sync();
    pool.write(head, |set, tx| random::fill(set, tx, 1, 0..5));
    pool.sync();
    audit::check(&pool);
    let dsl = pool.dsl();
    let snap = dsl.by_name("p/a@1").unwrap();
    assert!(snap.phys.unique > 0);
    assert!(dsl.written(&dsl.by_name("p/a").unwrap()).unwrap().unwrap() > 0);
    drop(dsl);
    let again = pool.task(|cx, dsl| write::snapshot(cx, dsl, &["p/a@1".into()], &[]));
    assert_eq!(refusal(again), Refusal::Exists);
    pool.task(|cx, dsl| write::destroy_snapshot(cx, dsl, "p/a@1", false)).unwrap();
    pool.sync();
    audit::check(&pool);
    let drained = pool.task(|cx, _| write::drain(cx, u64::MAX)).unwrap();
    assert!(drained.done && drained.blocks > 0 && drained.lost == 0);
    pool.sync();
    audit::check(&pool);
}

#[test]
fn what_is_in_use_is_not_destroyed() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/a", 3);
    make(&mut pool, "p/a/b", 3);
    let snap = ["p/a@1".to_owned()];
    pool.task(|cx, dsl| write::snapshot(cx, dsl, &snap, &[])).unwrap();
    pool.task(|cx, dsl| write::hold(cx, dsl, &snap, "mine")).unwrap();
    let held = pool.task(|cx, dsl| write::hold(cx, dsl, &snap, "mine"));
    assert_eq!(refusal(held), Refusal::Held("mine".into()));
    let gone = pool.task(|cx, dsl| write::destroy_snapshot(cx, dsl, "p/a@1", false));
    assert_eq!(refusal(gone), Refusal::Held("mine".into()));
    let gone = pool.task(|cx, dsl| write::destroy_head(cx, dsl, "p/a"));
    assert_eq!(refusal(gone), Refusal::HasChildren("b".into()));
    let gone = pool.task(|cx, dsl| write::destroy_head(cx, dsl, "p"));
    assert_eq!(refusal(gone), Refusal::PoolRoot);
    pool.task(|cx, dsl| write::destroy_head(cx, dsl, "p/a/b")).unwrap();
    let gone = pool.task(|cx, dsl| write::destroy_head(cx, dsl, "p/a"));
    assert_eq!(refusal(gone), Refusal::HasSnapshots(DatasetKind::Filesystem, "1".into()));
    pool.task(|cx, dsl| write::clone_dataset(cx, dsl, "p/c", "p/a@1", &[])).unwrap();
    let gone = pool.task(|cx, dsl| write::destroy_snapshot(cx, dsl, "p/a@1", false));
    assert_eq!(refusal(gone), Refusal::HasClones(vec!["p/c".into()]));
    let gone = pool.task(|cx, dsl| write::destroy_snapshot(cx, dsl, "p/a@1", true));
    assert_eq!(gone.unwrap(), Destroyed::Deferred);
    pool.sync();
    audit::check(&pool);
    pool.task(|cx, dsl| write::release(cx, dsl, &snap, "mine")).unwrap();
    assert!(pool.dsl().by_name("p/a@1").is_ok(), "the clone still needs it");
    pool.task(|cx, dsl| write::destroy_head(cx, dsl, "p/c")).unwrap();
    assert!(pool.dsl().by_name("p/a@1").is_err(), "it is not needed any more");
    pool.sync();
    audit::check(&pool);
}

#[test]
fn a_tree_is_freed_in_pieces() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/a", 300);
    pool.task(|cx, dsl| write::destroy_head(cx, dsl, "p/a")).unwrap();
    pool.sync();
    audit::check(&pool);
    let mut rounds = 0;
    loop {
        let drained = pool.task(|cx, _| write::drain(cx, 17)).unwrap();
        pool.sync();
        pool.reopen();
        audit::check(&pool);
        rounds += 1;
        if drained.done {
            break;
        }
        assert!(drained.blocks >= 17, "{drained:?}");
    }
    assert!(rounds > 10, "{rounds}");
}

#[test]
fn limits_count_what_is_below() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/a", 1);
    make(&mut pool, "p/a/b", 1);
    let limit = |name: &str, n| PropertyChange {
        name: name.to_owned(),
        value: Some(StoredValue::Number(n)),
    };
    pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &limit("filesystem_limit", 2)))
        .unwrap();
    pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &limit("snapshot_limit", 1))).unwrap();
    make(&mut pool, "p/a/b/c", 1);
    let more = pool
        .task(|cx, dsl| write::create_dataset(cx, dsl, "p/a/d", &[], &write::Encryption::Inherit));
    assert_eq!(refusal(more), Refusal::Limit("filesystem_limit"));
    pool.task(|cx, dsl| write::snapshot(cx, dsl, &["p/a/b/c@1".into()], &[])).unwrap();
    let more = pool.task(|cx, dsl| write::snapshot(cx, dsl, &["p/a/b@1".into()], &[]));
    assert_eq!(refusal(more), Refusal::Limit("snapshot_limit"));
    pool.task(|cx, dsl| write::destroy_snapshot(cx, dsl, "p/a/b/c@1", false)).unwrap();
    pool.task(|cx, dsl| write::rename_dir(cx, dsl, "p/a/b/c", "p/c")).unwrap();
    pool.task(|cx, dsl| write::create_dataset(cx, dsl, "p/a/d", &[], &write::Encryption::Inherit))
        .unwrap();
    let back = pool.task(|cx, dsl| write::rename_dir(cx, dsl, "p/c", "p/a/c"));
    assert_eq!(refusal(back), Refusal::Limit("filesystem_limit"));
    pool.sync();
    audit::check(&pool);
}

#[test]
fn properties_are_stored_and_inherited() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/a", 1);
    make(&mut pool, "p/a/b", 1);
    let set =
        |name: &str, value: Option<StoredValue>| PropertyChange { name: name.to_owned(), value };
    let number = |n| Some(StoredValue::Number(n));
    let text = |t: &str| Some(StoredValue::Text(t.to_owned()));
    for change in [
        set("compression", number(16 | 19 << 7)),
        set("mountpoint", text("/x")),
        set("org.example:tag", text("hello")),
        set("redundant_metadata", number(3)),
        set("canmount", number(0)),
    ] {
        pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &change)).unwrap();
    }
    let bad = pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &set("used", number(1))));
    assert_eq!(refusal(bad), Refusal::ReadOnly("used".into()));
    let low = pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &set("quota", number(512))));
    assert_eq!(refusal(low), Refusal::BelowUsed("quota"));
    pool.sync();
    pool.reopen();
    let dsl = pool.dsl();
    let below = dsl.stored(&dsl.by_name("p/a/b").unwrap()).unwrap();
    assert_eq!(below.number("compression"), Some(16 | 19 << 7));
    assert_eq!(below.number("redundant_metadata"), Some(3));
    assert_eq!(below.get("org.example:tag").unwrap().0.text(None), "hello");
    assert!(below.get("canmount").is_none(), "not inherited");
    drop(dsl);
    pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &set("compression", None))).unwrap();
    let dsl = pool.dsl();
    assert!(dsl.stored(&dsl.by_name("p/a/b").unwrap()).unwrap().get("compression").is_none());
}

#[test]
fn what_was_received_can_be_had_again() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/a", 1);
    let table = pool.dsl().by_name("p/a").unwrap().dir.phys.props_zap;
    let receive = |cx: &write::DslCx<'_>, name: &str, n| {
        dmu::zap::set_u64(&cx.mos.object(table).unwrap(), cx.tx, name, n).unwrap();
    };
    pool.task(|cx, _| {
        receive(cx, "$hasrecvd", 0);
        receive(cx, "compression$recvd", 15);
        Ok(())
    })
    .unwrap();
    let now = |pool: &TestPool| {
        let dsl = pool.dsl();
        dsl.stored(&dsl.by_name("p/a").unwrap()).unwrap().number("compression")
    };
    let clear = PropertyChange { name: "compression".to_owned(), value: None };
    for change in [number("compression", 2), clear] {
        pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &change)).unwrap();
        assert_ne!(now(&pool), Some(15), "{change:?}");
        pool.task(|cx, dsl| write::revert_property(cx, dsl, "p/a", "compression")).unwrap();
        assert_eq!(now(&pool), Some(15), "after {change:?}");
    }
    for name in ["volsize", "used"] {
        let done = pool.task(|cx, dsl| write::revert_property(cx, dsl, "p/a", name));
        assert!(done.is_err(), "{name}");
    }

    // A limit counts elsewhere too.
    let quota = |pool: &TestPool| {
        let dsl = pool.dsl();
        let dir = &dsl.by_name("p/a").unwrap().dir;
        (dir.phys.quota, dsl.own_number(dir.phys.props_zap, "quota").unwrap())
    };
    let revert = |pool: &mut TestPool| {
        pool.task(|cx, dsl| write::revert_property(cx, dsl, "p/a", "quota")).unwrap();
    };
    let local = number("quota", 60 << 20);
    pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &local)).unwrap();
    revert(&mut pool);
    assert_eq!(quota(&pool), (0, None), "nothing was received");
    pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &local)).unwrap();
    pool.task(|cx, _| {
        receive(cx, "quota$recvd", 50 << 20);
        Ok(())
    })
    .unwrap();
    assert_eq!(quota(&pool), (60 << 20, Some(60 << 20)));
    revert(&mut pool);
    assert_eq!(quota(&pool), (50 << 20, Some(50 << 20)));
}

#[test]
fn a_quota_leaves_no_room() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/a", 10);
    let used = pool.dsl().by_name("p/a").unwrap().dir.phys.used;
    let quota =
        PropertyChange { name: "quota".to_owned(), value: Some(StoredValue::Number(used + 4096)) };
    pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &quota)).unwrap();
    let dsl = pool.dsl();
    let head = dsl.by_name("p/a").unwrap();
    let room = write::room(&dsl, &head, 1 << 40, 0).unwrap();
    assert_eq!(room.bytes, 4096);
    assert_eq!(room.bytes, dsl.available(&head, 1 << 40).unwrap());
    assert!(room.check("p/a", 4096).is_ok());
    assert_eq!(refusal(room.check("p/a", 4097)), Refusal::Quota("quota"));
    assert_eq!(write::room(&dsl, &head, 1 << 40, 5000).unwrap().bytes, 0);
    let root = dsl.by_name("p").unwrap();
    let full = write::room(&dsl, &root, root.dir.phys.used, 0).unwrap();
    assert_eq!(refusal(full.check("p", 1)), Refusal::NoSpace);
}

fn number(name: &str, n: u64) -> PropertyChange {
    PropertyChange { name: name.to_owned(), value: Some(StoredValue::Number(n)) }
}

#[test]
fn reservations_need_room() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/a", 10);
    let head = pool.dsl().by_name("p/a").unwrap();
    let (used, unique) = (head.dir.phys.used, head.phys.unique);
    let set = |pool: &TestPool, property: &str, n| {
        pool.task(|cx, dsl| write::set_property(cx, dsl, "p/a", &number(property, n)))
    };
    let refused = refusal(set(&pool, "reservation", POOL_SIZE));
    assert_eq!(refused, Refusal::NoRoomFor("reservation"));
    set(&pool, "quota", used + 4096).unwrap();
    let refused = refusal(set(&pool, "refreservation", unique + 4097));
    assert_eq!(refused, Refusal::NoRoomFor("refreservation"));
    set(&pool, "refreservation", unique + 4096).unwrap();
    // A snapshot would have the reservation cover all that is there a second time.
    let snapshot =
        |pool: &TestPool| pool.task(|cx, dsl| write::snapshot(cx, dsl, &["p/a@1".into()], &[]));
    assert_eq!(refusal(snapshot(&pool)), Refusal::Quota("quota"));
    set(&pool, "quota", 2 * used + 8192).unwrap();
    snapshot(&pool).unwrap();
    pool.sync();
    audit::check(&pool);
}

#[test]
fn what_is_refused_is_not_half_made() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/a", 10);
    pool.task(|cx, dsl| write::snapshot(cx, dsl, &["p/a@1".into()], &[])).unwrap();
    let cases = [
        (("quota", 1024), ("reservation", 2048), Refusal::AboveQuota("reservation")),
        (("reservation", 2048), ("quota", 1024), Refusal::AboveQuota("reservation")),
        (("refquota", 1024), ("refreservation", 2048), Refusal::AboveQuota("refreservation")),
        (("quota", 0), ("reservation", POOL_SIZE), Refusal::NoSpace),
        (("quota", 0), ("refreservation", POOL_SIZE), Refusal::NoSpace),
    ];
    for (first, second, wanted) in cases {
        let properties = &[number(first.0, first.1), number(second.0, second.1)];
        let made = pool.task(|cx, dsl| {
            write::create_dataset(cx, dsl, "p/b", properties, &write::Encryption::Inherit)
        });
        assert_eq!(refusal(made), wanted);
        let made = pool.task(|cx, dsl| write::clone_dataset(cx, dsl, "p/b", "p/a@1", properties));
        assert_eq!(refusal(made), wanted);
        assert!(pool.dsl().dir_by_name("p/b").is_err(), "{properties:?}");
    }
    let small = [number("refquota", 1024)];
    let made = pool.task(|cx, dsl| write::clone_dataset(cx, dsl, "p/b", "p/a@1", &small));
    assert_eq!(refusal(made), Refusal::BelowUsed("refquota"));
    pool.sync();
    audit::check(&pool);
}

#[test]
fn quotas_hold_for_what_is_moved_below_them() {
    let mut pool = TestPool::create();
    make(&mut pool, "p/all", 1);
    make(&mut pool, "p/all/a", 10);
    make(&mut pool, "p/all/small", 1);
    let set = |pool: &TestPool, dataset: &str, property: &str, n| {
        pool.task(|cx, dsl| write::set_property(cx, dsl, dataset, &number(property, n)))
    };
    let used = |pool: &TestPool, name| pool.dsl().by_name(name).unwrap().dir.phys.used;
    let (a, small) = (used(&pool, "p/all/a"), used(&pool, "p/all/small"));
    set(&pool, "p/all/small", "quota", small + a - 1).unwrap();
    let rename = |pool: &TestPool, from: &str, to: &str| {
        pool.task(|cx, dsl| write::rename_dir(cx, dsl, from, to))
    };
    let moved = rename(&pool, "p/all/a", "p/all/small/a");
    assert_eq!(refusal(moved), Refusal::Quota("quota"));
    set(&pool, "p/all/small", "quota", small + a).unwrap();
    // What both are below of has no more room, and needs none.
    set(&pool, "p/all", "quota", used(&pool, "p/all")).unwrap();
    rename(&pool, "p/all/a", "p/all/small/a").unwrap();
    rename(&pool, "p/all/small/a", "p/a").unwrap();
    rename(&pool, "p/a", "p/all/a").unwrap();

    pool.task(|cx, dsl| write::snapshot(cx, dsl, &["p/all/a@1".into()], &[])).unwrap();
    pool.task(|cx, dsl| write::clone_dataset(cx, dsl, "p/all/c", "p/all/a@1", &[])).unwrap();
    pool.sync();
    set(&pool, "p/all/c", "quota", a - 1).unwrap();
    let promoted = pool.task(|cx, dsl| write::promote(cx, dsl, "p/all/c"));
    assert_eq!(refusal(promoted), Refusal::Quota("quota"));
    set(&pool, "p/all/c", "quota", a).unwrap();
    pool.task(|cx, dsl| write::promote(cx, dsl, "p/all/c")).unwrap();
    pool.sync();
    audit::check(&pool);
}

#[test]
fn random_histories_add_up() {
    let done = RefCell::new(BTreeMap::new());
    testkit::shrinking(6, 400, |steps| {
        for (word, n) in random::run(steps) {
            *done.borrow_mut().entry(word).or_insert(0) += n;
        }
    });
    let done = done.into_inner();
    for word in ["promote", "rollback", "rename", "set", "destroy"] {
        let n = done.get(word).copied().unwrap_or(0);
        assert!(n >= 10, "too few of {word}: {done:?}");
    }
}
