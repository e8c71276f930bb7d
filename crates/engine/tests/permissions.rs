//! Delegated permissions: who has which, what each operation needs, and that nothing else is done
//! for a user who is not the administrator.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

use engine::datasets::{self, Create, Destroy, Holder, MakeClone, NewerSnapshots, Permissions};
use engine::datasets::{Rename, permissions, snapshot};
use engine::diff::Comparison;
use engine::files::{QuotaKind, SpaceKind};
use engine::inside::pool::UnguardedDatasets as _;
use engine::permissions::{Action, Caller, Delegation};
use engine::properties::{self, DatasetSetting, OwnerQuota};
use engine::send::{Forms, Package, Scope};
use engine::{ErrorKind, LivePool, NewPool, Progress, Refusal, Result};
use std::path::Path;

const ANN: u64 = 1000;
const BEN: u64 = 1001;
const STAFF: u64 = 500;

/// The pool as one of them has it: Ben is in two groups.
fn as_user(pool: &LivePool, user: u64) -> LivePool {
    let groups = if user == BEN { vec![100, STAFF] } else { vec![100] };
    pool.on_behalf_of(Caller { user, groups }).unwrap()
}

fn allow(pool: &LivePool, dataset: &str, holder: Holder, names: &[&str]) {
    Permissions::of(vec![holder]).only(names).allow(pool, dataset).unwrap();
}

/// A pool in memory: `tank/a/b`, `tank/c` with a snapshot, and a volume.
fn pool() -> LivePool {
    filled(NewPool::new("tank").memory(192 << 20).create().unwrap())
}

fn filled(pool: LivePool) -> LivePool {
    Create::filesystem("tank/a/b").unwrap().with_parents().run(&pool).unwrap();
    Create::filesystem("tank/c").unwrap().run(&pool).unwrap();
    Create::volume("tank/v", 1 << 20).unwrap().sparse().run(&pool).unwrap();
    snapshot(&pool, &["tank/c@s", "tank/a@s", "tank/a/b@s"], false, Vec::new()).unwrap();
    pool
}

fn is_denied<T>(done: Result<T>) -> bool {
    let denied = ErrorKind::Refused(Refusal::Denied);
    done.is_err_and(|e| *e.kind() == denied)
}

#[track_caller]
fn denied<T>(done: Result<T>) {
    match done {
        Ok(_) => panic!("it was done"),
        Err(e) => assert_eq!(*e.kind(), ErrorKind::Refused(Refusal::Denied), "{e:?}"),
    }
}

type Step = (&'static str, fn(&LivePool) -> Result<()>);

fn set(pool: &LivePool, dataset: &str, property: &str, value: &str) -> Result<()> {
    properties::set(pool, &[DatasetSetting { dataset, property, value }])
}

const QUOTA: OwnerQuota =
    OwnerQuota { kind: SpaceKind::User, what: QuotaKind::Space, owner: 7, value: 1 << 20 };

/// Each operation with all that it needs, as `DATASET PERMISSION`.
const NEEDS: &[(Step, &[&str])] = &[
    (("snapshot", |p| snapshot(p, &["tank/c@n"], false, Vec::new())), &["tank/c snapshot"]),
    (
        ("snapshot of two", |p| snapshot(p, &["tank/c@n", "tank/a@n"], false, Vec::new())),
        &["tank/c snapshot", "tank/a snapshot"],
    ),
    (("create", |p| Create::filesystem("tank/c/n")?.run(p)), &["tank/c create", "tank/c mount"]),
    (
        ("create with a property", |p| Create::filesystem("tank/c/n")?.set("quota", "1M")?.run(p)),
        &["tank/c create", "tank/c mount", "tank/c quota"],
    ),
    (
        ("create with a quota", |p| Create::filesystem("tank/c/n")?.limit(QUOTA).run(p)),
        &["tank/c create", "tank/c mount", "tank/c userquota"],
    ),
    (
        ("create a volume", |p| Create::volume("tank/c/n", 1 << 20)?.run(p)),
        &["tank/c create", "tank/c mount", "tank/c refreservation"],
    ),
    (
        ("clone", |p| MakeClone::new("tank/c@s", "tank/a/n")?.run(p)),
        &["tank/c clone", "tank/a create", "tank/a mount"],
    ),
    (
        ("destroy", |p| Destroy::new("tank/v").plan(p.view())?.run(p, &Progress::new())),
        &["tank/v destroy", "tank/v mount"],
    ),
    (
        ("destroy a snapshot", |p| {
            Destroy::new("tank/c@s").plan(p.view())?.run(p, &Progress::new())
        }),
        &["tank/c destroy", "tank/c mount"],
    ),
    (
        ("rename", |p| Rename::new("tank/c", "tank/a/n")?.run(p)),
        &["tank/c rename", "tank/c mount", "tank/a create", "tank/a mount"],
    ),
    (
        ("rename a snapshot", |p| Rename::new("tank/c@s", "n")?.run(p)),
        &["tank/c rename", "tank/c mount", "tank/c create"],
    ),
    (
        ("rename snapshots", |p| Rename::new("tank/a@s", "n")?.recursive()?.run(p)),
        &["tank/a rename", "tank/a mount", "tank/a create"],
    ),
    (
        ("rollback", |p| datasets::rollback(p, "tank/c@s", NewerSnapshots::Keep)),
        &["tank/c rollback"],
    ),
    (("hold", |p| datasets::hold(p, &["tank/c@s"], "tag", false)), &["tank/c hold"]),
    (("bookmark", |p| datasets::bookmark(p, "tank/c#m", "tank/c@s")), &["tank/c bookmark"]),
    (("set", |p| set(p, "tank/c", "compression", "lz4")), &["tank/c compression"]),
    (("set a user's property", |p| set(p, "tank/c", "my:word", "x")), &["tank/c userprop"]),
    (("set it on a snapshot", |p| set(p, "tank/c@s", "my:word", "x")), &["tank/c userprop"]),
    (("set the size of a volume", |p| set(p, "tank/v", "volsize", "2M")), &["tank/v volsize"]),
    (("inherit", |p| properties::Inherit::new("atime")?.run(p, &["tank/c"])), &["tank/c atime"]),
    (
        ("set a quota of an owner", |p| {
            let (kind, what) = (engine::files::SpaceKind::User, engine::files::QuotaKind::Objects);
            properties::OwnerQuota { kind, what, owner: 7, value: 100 }.set(p, "tank/c")
        }),
        &["tank/c userobjquota"],
    ),
    (
        ("allow", |p| {
            let permissions = Permissions::of(vec![Holder::User(BEN)]).only(&["hold"]);
            permissions.allow(p, "tank/c")
        }),
        &["tank/c allow", "tank/c hold"],
    ),
];

#[test]
fn an_operation_needs_all_its_permissions_and_no_other() {
    for ((name, act), needs) in NEEDS {
        let pool = pool();
        let ann = as_user(&pool, ANN);
        for missing in needs.iter() {
            for (dataset, permission) in needs.iter().filter_map(|need| need.split_once(' ')) {
                let all = Permissions::of(vec![Holder::User(ANN)]).only(&[permission]);
                match *missing == format!("{dataset} {permission}") {
                    true => all.unallow(&pool, dataset, false).unwrap(),
                    false => all.allow(&pool, dataset).unwrap(),
                }
            }
            let txg = pool.last_synced();
            let refused = act(&ann);
            assert!(is_denied(refused), "{name} without {missing}");
            // No txg was spent on it.
            assert_eq!(pool.last_synced(), txg, "{name} without {missing}");
        }
        let last = needs.last().and_then(|need| need.split_once(' ')).unwrap();
        for (dataset, permission) in needs.iter().filter_map(|need| need.split_once(' ')) {
            allow(&pool, dataset, Holder::User(ANN), &[permission]);
        }
        assert!(is_denied(act(&as_user(&pool, BEN))), "{name} by another user");
        act(&ann).unwrap_or_else(|e| panic!("{name} with all, {last:?} among them: {e:?}"));
        // All of it is gone with the permission.
        drop(ann);
        pool.export().unwrap();
    }
}

#[test]
fn what_has_no_rule_is_for_the_administrator() {
    let pool = pool();
    let all: Vec<&str> = engine::permissions::PERMISSIONS.to_vec();
    allow(&pool, "tank", Holder::Everyone, &all);
    let ann = as_user(&pool, ANN);
    let refused = |e: &engine::Error| *e.kind() == ErrorKind::Refused(Refusal::Denied);
    let word = engine::inside::pool::live::StoredPropertyValue::Number(1);
    for (name, done) in [
        ("a file system", ann.filesystem("tank/c").map(drop)),
        ("a volume", ann.volume("tank/v").map(drop)),
        ("a head", ann.head("tank/c").map(drop)),
        ("a property of the pool", ann.set_pool_property("autoexpand", word)),
        ("a feature", ann.enable_feature("block_cloning")),
        ("a new guid", ann.reguid(None).map(drop)),
    ] {
        assert!(done.map_err(Into::into).is_err_and(|e| refused(&e)), "{name}");
    }
    // What may be done is, and the handle's end is not the pool's.
    snapshot(&ann, &["tank/c@n"], false, Vec::new()).unwrap();
    drop(ann);
    snapshot(&pool, &["tank/c@m"], false, Vec::new()).unwrap();
}

#[test]
fn a_permission_holds_where_it_was_given() {
    let pool = pool();
    let take = |user: u64, name: &str| {
        let taken = snapshot(&as_user(&pool, user), &[name], false, Vec::new());
        taken.is_ok()
    };
    let local = Permissions::of(vec![Holder::User(ANN)]).only(&["snapshot"]).on_itself();
    local.allow(&pool, "tank/a").unwrap();
    assert!(take(ANN, "tank/a@1") && !take(ANN, "tank/a/b@1") && !take(ANN, "tank@1"));
    assert!(!take(BEN, "tank/a@2"));
    let below = Permissions::of(vec![Holder::Group(STAFF)]).only(&["snapshot"]).on_descendents();
    below.allow(&pool, "tank/a").unwrap();
    assert!(!take(BEN, "tank/a@2") && take(BEN, "tank/a/b@2") && !take(BEN, "tank/c@2"));
    // Neither a number of another kind nor the beginning of one counts.
    assert!(!take(STAFF, "tank/a/b@3") && !take(ANN / 10, "tank/a@3") && !take(10, "tank/a@3"));
    local.unallow(&pool, "tank/a", false).unwrap();
    assert!(!take(ANN, "tank/a@4") && take(BEN, "tank/a/b@4"));
    below.unallow(&pool, "tank", true).unwrap();
    assert!(!take(BEN, "tank/a/b@5"));
    allow(&pool, "tank", Holder::Everyone, &["snapshot"]);
    assert!(take(ANN, "tank@6") && take(BEN, "tank/a/b@6"));
    // A snapshot lies below its file system.
    let hold = |on: fn(Permissions) -> Permissions| {
        on(Permissions::of(vec![Holder::User(ANN)]).only(&["destroy", "mount"]))
    };
    let destroy =
        || Destroy::new("tank/c@s").plan(pool.view())?.run(&as_user(&pool, ANN), &Progress::new());
    hold(Permissions::on_itself).allow(&pool, "tank/c").unwrap();
    denied(destroy());
    hold(Permissions::on_descendents).allow(&pool, "tank/c").unwrap();
    destroy().unwrap();
}

#[test]
fn sets_are_looked_up_from_where_they_were_given() {
    let pool = pool();
    let take = |name: &str| snapshot(&as_user(&pool, ANN), &[name], false, Vec::new()).is_ok();
    let define = |dataset: &str, names: &[&str]| {
        allow(&pool, dataset, Holder::Set("@ops".to_owned()), names);
    };
    allow(&pool, "tank/a/b", Holder::User(ANN), &["@all"]);
    assert!(!take("tank/a/b@1"), "no such set is defined");
    allow(&pool, "tank", Holder::Set("@all".to_owned()), &["@ops", "@all", "hold"]);
    assert!(!take("tank/a/b@1"), "nor the one that it names");
    // Below what the set was given on, a definition is not found.
    Create::filesystem("tank/a/b/c").unwrap().run(&pool).unwrap();
    define("tank/a/b/c", &["snapshot"]);
    assert!(!take("tank/a/b@1"));
    define("tank", &["snapshot"]);
    assert!(take("tank/a/b@1") && take("tank/a/b/c@1") && !take("tank/a@1"));
    // The nearest definition counts.
    allow(&pool, "tank/a", Holder::Set("@all".to_owned()), &["hold"]);
    assert!(!take("tank/a/b@2"));
    let set = Permissions::of(vec![Holder::Set("@all".to_owned())]);
    set.unallow(&pool, "tank/a", false).unwrap();
    assert!(take("tank/a/b@2"));
    Permissions::of(vec![Holder::Set("@ops".to_owned())]).unallow(&pool, "tank", false).unwrap();
    assert!(!take("tank/a/b@3"));
}

#[test]
fn a_creator_gets_what_creators_get() {
    let pool = pool();
    allow(&pool, "tank", Holder::Set("@ops".to_owned()), &["snapshot"]);
    allow(&pool, "tank/a", Holder::Creator, &["destroy", "compression", "@ops"]);
    allow(&pool, "tank/a", Holder::User(ANN), &["create", "mount"]);
    let ann = as_user(&pool, ANN);
    let new = || Create::filesystem("tank/a/b/n").unwrap();
    denied(new().set("quota", "1M").unwrap().run(&ann));
    new().set("compression", "lz4").unwrap().owned_by(ANN, 100).run(&ann).unwrap();
    let found = permissions(pool.view(), "tank/a/b/n").unwrap();
    let (name, given) = &found[0];
    let keys: Vec<String> = given.iter().map(|d: &Delegation| d.who.format()).collect();
    assert_eq!((name.as_str(), keys), ("tank/a/b/n", vec!["Ul$1000".into(), "ul$1000".into()]));
    snapshot(&ann, &["tank/a/b/n@1"], false, Vec::new()).unwrap();
    denied(snapshot(&ann, &["tank/a/b@1"], false, Vec::new()));
    let plan = Destroy::new("tank/a/b/n").recursive().plan(pool.view()).unwrap();
    plan.run(&ann, &Progress::new()).unwrap_err();
    // Its snapshots are below it, and creators get nothing there.
    let one = Destroy::new("tank/a/b/n@1").plan(pool.view()).unwrap();
    one.run(&pool, &Progress::new()).unwrap();
    let plan = Destroy::new("tank/a/b/n").plan(pool.view()).unwrap();
    plan.run(&ann, &Progress::new()).unwrap();
}

#[test]
fn permissions_are_passed_on_only_by_those_who_have_them() {
    let pool = pool();
    allow(&pool, "tank/a", Holder::User(ANN), &["allow", "snapshot", "hold"]);
    allow(&pool, "tank", Holder::Set("@ops".to_owned()), &["snapshot"]);
    let (ann, ben) = (as_user(&pool, ANN), as_user(&pool, BEN));
    let give = |pool: &LivePool, dataset: &str, names: &[&str]| {
        Permissions::of(vec![Holder::User(BEN)]).only(names).allow(pool, dataset)
    };
    for (dataset, names) in [
        ("tank/a", &["snapshot", "release"][..]),
        ("tank/a", &["allow"]),
        ("tank/a", &["@ops"]),
        ("tank", &["snapshot"]),
        ("tank/c", &["snapshot"]),
    ] {
        denied(give(&ann, dataset, names));
    }
    denied(give(&ben, "tank/a", &["snapshot"]));
    give(&ann, "tank/a", &["snapshot", "hold"]).unwrap();
    snapshot(&ben, &["tank/a/b@1"], false, Vec::new()).unwrap();
    let of = |holder| Permissions::of(vec![holder]);
    denied(of(Holder::User(BEN)).unallow(&ann, "tank/a", false));
    denied(of(Holder::Everyone).unallow(&ann, "tank/a", false));
    denied(of(Holder::User(BEN)).unallow(&ben, "tank/a", false));
    of(Holder::User(ANN)).only(&["hold"]).unallow(&ann, "tank/a", false).unwrap();
    denied(give(&ann, "tank/a", &["hold"]));
}

#[test]
fn there_are_none_where_they_are_off_or_the_dataset_is_zoned() {
    let pool = pool();
    allow(&pool, "tank", Holder::Everyone, &["snapshot", "allow"]);
    let ann = as_user(&pool, ANN);
    snapshot(&ann, &["tank/a@1"], false, Vec::new()).unwrap();
    let delegation = |n| {
        let word = engine::inside::pool::live::StoredPropertyValue::Number(n);
        pool.set_pool_property("delegation", word).unwrap();
    };
    delegation(0);
    let off = snapshot(&ann, &["tank/a@2"], false, Vec::new()).unwrap_err();
    assert_eq!(*off.kind(), ErrorKind::Refused(Refusal::DelegationOff));
    // The administrator gives and takes them all the same.
    allow(&pool, "tank/a", Holder::User(ANN), &["hold"]);
    delegation(1);
    snapshot(&ann, &["tank/a@2"], false, Vec::new()).unwrap();
    set(&pool, "tank/a", "zoned", "on").unwrap();
    denied(snapshot(&ann, &["tank/a/b@3"], false, Vec::new()));
    snapshot(&ann, &["tank/c@3"], false, Vec::new()).unwrap();
}

#[test]
fn what_reads_asks_as_well_and_promoting_asks_for_both() {
    let pool = pool();
    let ann = as_user(&pool, ANN);
    for (action, name, permission) in
        [(Action::Send, "tank/c@s", "send"), (Action::Diff, "tank/c@s", "diff")]
    {
        denied(ann.permit(action, name).map_err(Into::into));
        pool.permit(action, name).unwrap();
        allow(&pool, "tank/c", Holder::User(ANN), &[permission]);
        ann.permit(action, name).unwrap();
    }
    MakeClone::new("tank/c@s", "tank/a/n").unwrap().run(&pool).unwrap();
    allow(&pool, "tank/a/n", Holder::User(ANN), &["promote", "mount"]);
    denied(datasets::promote(&ann, "tank/a/n"));
    allow(&pool, "tank/c", Holder::User(ANN), &["promote"]);
    datasets::promote(&ann, "tank/a/n").unwrap();
    // A rollback destroys what is younger: that is asked for too.
    snapshot(&pool, &["tank/c@young"], false, Vec::new()).unwrap();
    snapshot(&pool, &["tank/c@younger"], false, Vec::new()).unwrap();
    allow(&pool, "tank/c", Holder::User(ANN), &["rollback"]);
    denied(datasets::rollback(&ann, "tank/c@young", NewerSnapshots::Destroy));
    allow(&pool, "tank/c", Holder::User(ANN), &["destroy", "mount"]);
    datasets::rollback(&ann, "tank/c@young", NewerSnapshots::Destroy).unwrap();
}

#[test]
fn what_is_sent_or_compared_needs_a_permission_and_stays_meanwhile() {
    let pool = pool();
    let (ann, view) = (as_user(&pool, ANN), pool.look().unwrap());
    let (forms, scope) = (Forms::default(), Scope::default());
    let package = || Package::plan(&view, "tank/c@s", None, forms, &scope).unwrap();
    let states = || Comparison::new("tank/c@s", None).unwrap();
    denied(package().held_in(&ann));
    denied(states().held_in(&ann));
    allow(&pool, "tank/c", Holder::User(ANN), &["send", "diff"]);
    let destroy = || pool.destroy_snapshots(&["tank/c@s".to_owned()], false);
    let sent = package().held_in(&ann).unwrap();
    assert!(destroy().is_err());
    drop(sent);
    let compared = states().held_in(&ann).unwrap();
    assert!(destroy().is_err());
    drop(compared);
    destroy().unwrap();
}

#[test]
fn limits_count_for_users() {
    let pool = pool();
    pool.view().dsl().ignore_limits();
    set(&pool, "tank/a", "snapshot_limit", "2").unwrap();
    allow(&pool, "tank", Holder::Everyone, &["snapshot"]);
    let ann = as_user(&pool, ANN);
    let over = snapshot(&ann, &["tank/a@1"], false, Vec::new()).unwrap_err();
    assert_eq!(*over.kind(), ErrorKind::Refused(Refusal::Limit("snapshot_limit")));
}

#[test]
fn holders_and_permissions_that_there_are_not_are_refused() {
    let pool = pool();
    let give =
        |holder, names: &[&str]| Permissions::of(vec![holder]).only(names).allow(&pool, "tank/a");
    for name in ["nosuch", "used", "mlslabel", "", "compress", "@a@b", "@", "my:word"] {
        let e = give(Holder::Everyone, &["hold", name]).unwrap_err();
        let why = ErrorKind::Refused(Refusal::NotAPermission(name.to_owned()));
        assert_eq!(*e.kind(), why, "{name}");
    }
    give(Holder::Set("ops".to_owned()), &["hold"]).unwrap_err();
    give(Holder::Everyone, &[]).unwrap_err();
    Permissions::of(vec![Holder::Everyone]).only(&["hold"]).allow(&pool, "tank/a@s").unwrap_err();
    assert!(permissions(pool.view(), "tank/a").unwrap().is_empty());
}

/// The same by the bytes: what was given, taken and destroyed leaves nothing behind.
#[testkit::needs("zdb")]
#[test]
fn zdb_finds_nothing_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk");
    let pool = NewPool::new("tank").file(&image, 192 << 20).unwrap().create().unwrap();
    let pool = filled(pool);
    allow(&pool, "tank", Holder::Creator, &["destroy", "@ops"]);
    for (dataset, user) in [("tank/a", ANN), ("tank/a/b", BEN), ("tank/v", ANN)] {
        allow(&pool, dataset, Holder::User(user), &["snapshot", "hold", "@ops"]);
        allow(&pool, dataset, Holder::Group(STAFF), &["create"]);
    }
    Create::filesystem("tank/a/b/c").unwrap().run(&pool).unwrap();
    assert_eq!(permissions(pool.view(), "tank/a/b/c").unwrap()[0].1.len(), 2);
    Permissions::of(vec![Holder::User(ANN)]).unallow(&pool, "tank", true).unwrap();
    let plan = Destroy::new("tank/a/b").recursive().plan(pool.view()).unwrap();
    plan.run(&pool, &Progress::new()).unwrap();
    pool.export().unwrap();
    testkit::oracle::judge(Path::new(dir.path()), "tank");
}
