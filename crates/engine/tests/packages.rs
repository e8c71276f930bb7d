//! Packages: which snapshots they have, in which order, and that the other pool then has the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test")]

use engine::check::{self, CheckOptions};
use engine::config::{NvList, NvValue};
use engine::datasets::{self, Destroy, Rename, snapshot};
use engine::files::{NewFile, NewKind, Time};
use engine::inside::pool::UnguardedDatasets as _;
use engine::properties::{DatasetSetting, set};
use engine::receive::{Followed, Naming, Phase, Receive, ReceiveObserver};
use engine::send::{Forms, Gap, Package, Scope};
use engine::streams::{Body, ErrorKind as Fault, Reader};
use engine::{
    Create, ErrorKind, LivePool, NewPool, OpenOptions, Pool, Progress, PropertyContext, Rule,
};
use std::cell::RefCell;
use std::sync::OnceLock;
use std::time::Duration;

const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };

/// Is told, and finishes at once.
struct Quiet;

impl ReceiveObserver for Quiet {
    fn not_set(&self, dataset: &str, property: &str, why: &str) {
        panic!("{dataset} {property}: {why}");
    }
}

fn write(pool: &LivePool, dataset: &str, name: &str, len: usize) {
    let fs = pool.filesystem(dataset).unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), name.as_bytes(), &new).unwrap().number();
    let bytes: Vec<u8> = (0..len).map(|n| (n * n / 300) as u8).collect();
    fs.write_at(file, 0, &bytes, NOW).unwrap();
}

/// `tank/top` with snapshots 1 to 3, file systems below, a volume, a clone whose origin sorts
/// behind it, and a clone of the clone.
fn tree(pool: &LivePool) {
    Create::filesystem("tank/top").unwrap().set("compression", "lz4").unwrap().run(pool).unwrap();
    Create::filesystem("tank/top/z").unwrap().set("quota", "20M").unwrap().run(pool).unwrap();
    Create::volume("tank/top/vol", 1 << 20).unwrap().sparse().run(pool).unwrap();
    write(pool, "tank/top", "one", 300_000);
    write(pool, "tank/top/z", "one", 5000);
    pool.volume("tank/top/vol").unwrap().write_at(4096, &[7; 100_000]).unwrap();
    snapshot(pool, &["tank/top@1"], true, Vec::new()).unwrap();
    pool.clone_snapshot("tank/top/z@1", "tank/top/a", Vec::new()).unwrap();
    write(pool, "tank/top/a", "two", 5000);
    write(pool, "tank/top", "two", 3);
    snapshot(pool, &["tank/top@2"], true, Vec::new()).unwrap();
    pool.clone_snapshot("tank/top/a@2", "tank/top/0", Vec::new()).unwrap();
    write(pool, "tank/top/z", "three", 20_000);
    let colour = DatasetSetting { dataset: "tank/top/z", property: "my:colour", value: "blue" };
    set(pool, &[colour]).unwrap();
    snapshot(pool, &["tank/top@3"], true, Vec::new()).unwrap();
}

fn pool(name: &str) -> LivePool {
    NewPool::new(name).memory(256 << 20).create().unwrap()
}

/// A pool with the tree, which is sent by several tests and stays as it is.
fn sender() -> &'static LivePool {
    static SENDER: OnceLock<LivePool> = OnceLock::new();
    SENDER.get_or_init(|| {
        let pool = pool("tank");
        tree(&pool);
        pool
    })
}

fn recursive() -> Scope {
    Scope { replicate: true, ..Scope::default() }
}

/// The parts of a package, as `FROM TO` without the names that all have.
fn planned(pool: &LivePool, to: &str, from: Option<&str>, scope: &Scope) -> Vec<String> {
    let view = pool.look().unwrap();
    let package = Package::plan(&view, to, from, Forms::default(), scope).unwrap();
    let short = |name: &str| name.trim_start_matches("tank/top").to_owned();
    let from = |from: Option<&str>| from.map_or_else(|| "-".to_owned(), short);
    let parts = package.parts().iter();
    parts.map(|p| format!("{} {}", from(p.from.as_deref()), short(&p.snapshot))).collect()
}

fn sent(pool: &LivePool, to: &str, from: Option<&str>, scope: &Scope) -> Vec<u8> {
    let view = pool.look().unwrap();
    let package = Package::plan(&view, to, from, Forms::default(), scope).unwrap();
    let mut out = Vec::new();
    package.run(&mut out, &Progress::new()).unwrap();
    out
}

fn receive(pool: &LivePool, stream: &[u8]) {
    let naming = Naming::WithoutPool;
    let how = Receive { target: pool.name().to_owned(), naming, ..Receive::default() };
    how.run(pool, stream, &Quiet, &Progress::new()).map_err(|e| format!("{e:?}")).unwrap();
}

#[test]
fn a_range_has_all_that_lies_between() {
    let pool = sender();
    let range = Scope { intermediates: true, ..Scope::default() };
    let all = |to: &str, from: &str| planned(pool, to, Some(from), &range);
    assert_eq!(all("tank/top@3", "@1"), ["@1 @2", "@2 @3"]);
    assert_eq!(all("tank/top@3", "2"), ["@2 @3"]);
    assert_eq!(planned(pool, "tank/top@3", Some("1"), &Scope::default()), ["@1 @3"]);
    assert_eq!(all("tank/top@3", "tank/top@2"), ["@2 @3"]);
    assert_eq!(all("tank/top/a@3", "tank/top/z@1"), ["/z@1 /a@2", "/a@2 /a@3"]);
    let (to, from) = ("tank/top/a@3", Some("tank/top/z@1"));
    assert_eq!(planned(pool, to, from, &recursive()), ["/z@1 /a@2", "/a@2 /a@3"]);
    let refused = |to: &str, from: &str| {
        let view = pool.look().unwrap();
        let package = Package::plan(&view, to, Some(from), Forms::default(), &range).err();
        package.unwrap().kind().clone()
    };
    assert_eq!(refused("tank/top/0@3", "tank/top/z@1"), ErrorKind::Against(Rule::NotEarlier));
    assert_eq!(refused("tank/top@3", "@9"), ErrorKind::NotFound);
    assert_eq!(refused("tank/top@3", "#mark"), ErrorKind::Against(Rule::SnapshotName));
    let gaps = |to: &str, from: &str, scope: &Scope| {
        let view = pool.look().unwrap();
        let package = Package::plan(&view, to, Some(from), Forms::default(), scope).unwrap();
        assert!(package.parts().is_empty());
        package.gaps().to_vec()
    };
    let (snapshot, from) = ("tank/top@1".to_owned(), "tank/top@2".to_owned());
    assert_eq!(gaps("tank/top@1", "@2", &range), [Gap::NoSource { snapshot, from }]);
    let (snapshot, from) = ("tank/top@1".to_owned(), "tank/top@1".to_owned());
    assert_eq!(gaps("tank/top@1", "@1", &range), [Gap::NotEarlier { snapshot, from }]);
    let [first, ..] = &gaps("tank/top@1", "@2", &recursive())[..] else { panic!("there are some") };
    let (snapshot, from) = ("tank/top@1".to_owned(), "tank/top@2".to_owned());
    assert_eq!(first, &Gap::NotEarlier { snapshot, from });
}

#[test]
fn a_clone_comes_after_its_origin() {
    let pool = sender();
    let all = planned(pool, "tank/top@3", None, &recursive());
    let at = |what: &str| all.iter().position(|one| one == what).expect(what);
    assert_eq!(all.len(), 3 + 3 + 3 + 2 + 1, "{all:?}");
    assert_eq!(all[..3], ["- @1", "@1 @2", "@2 @3"]);
    assert!(at("/z@2 /z@3") < at("/z@1 /a@2"), "{all:?}");
    assert!(at("/a@2 /a@3") < at("/a@2 /0@3"), "{all:?}");
    // An increment without what lies between has what clones are made of.
    let some = planned(pool, "tank/top@3", Some("@1"), &recursive());
    assert!(some.contains(&"/z@1 /z@3".to_owned()), "{some:?}");
    assert!(some.contains(&"/z@1 /a@2".to_owned()), "{some:?}");
    assert!(some.contains(&"/a@2 /a@3".to_owned()), "{some:?}");
    assert!(some.contains(&"/a@2 /0@3".to_owned()), "{some:?}");
    assert!(!some.iter().any(|one| one.ends_with("/z@2")), "{some:?}");
    let without = Scope { without: vec!["tank/top/a".to_owned()], ..recursive() };
    let some = planned(pool, "tank/top@3", None, &without);
    assert!(!some.iter().any(|one| one.ends_with("/a@2") || one.ends_with("/a@3")), "{some:?}");
    assert!(some.contains(&"/a@2 /0@3".to_owned()), "{some:?}");
}

#[test]
fn what_lacks_the_snapshot_is_passed_over_only_when_that_is_wanted() {
    let pool = pool("tank");
    tree(&pool);
    let gone = Destroy::new("tank/top/vol@3").plan(pool.view()).unwrap();
    gone.run(&pool, &Progress::new()).unwrap();
    let view = pool.look().unwrap();
    let error = Package::plan(&view, "tank/top@3", None, Forms::default(), &recursive()).err();
    assert_eq!(error.unwrap().kind(), &ErrorKind::NotFound);
    let scope = Scope { skip_missing: true, ..recursive() };
    let package = Package::plan(&view, "tank/top@3", None, Forms::default(), &scope).unwrap();
    let (dataset, snapshot) = ("tank/top/vol".to_owned(), "3".to_owned());
    assert_eq!(package.gaps(), [Gap::Skipped { dataset, snapshot }]);
    assert!(!package.gaps()[0].is_error());
    assert!(package.parts().iter().all(|part| !part.snapshot.contains("vol")));
}

#[test]
fn a_replica_has_what_was_sent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("other.img");
    let into = NewPool::new("other").file(&file, 256 << 20).unwrap().create().unwrap();
    let from = sender();
    let scope = Scope { replicate: true, ..Scope::default() };
    receive(&into, &sent(from, "tank/top@2", None, &scope));
    let scope = Scope { intermediates: true, ..scope };
    receive(&into, &sent(from, "tank/top@3", Some("@2"), &scope));
    let (a, b) = (from.look().unwrap(), into.look().unwrap());
    let mut count = 0;
    for (name, dir) in a.dsl().walk() {
        let head = a.dsl().head(&dir.unwrap()).unwrap().unwrap();
        for one in a.dsl().snapshots(&head).unwrap() {
            let there = b.dsl().by_name(&one.name.replace("tank", "other")).unwrap();
            assert_eq!(one.phys.guid, there.phys.guid, "{}", one.name);
            count += 1;
        }
        let other = name.replace("tank", "other");
        if name != "tank" {
            let there = b.dsl().by_name(&other).unwrap();
            let origin = |pool: &engine::Pool, dir| pool.dsl().origin(dir).unwrap();
            let expected = origin(&a, &head.dir).map(|name| name.replace("tank", "other"));
            assert_eq!(origin(&b, &there.dir), expected, "{name}");
        }
    }
    assert_eq!(count, 12);
    let shown = |name: &str, property: &str| {
        let dataset = b.dsl().by_name(name).unwrap();
        let found = b.dsl().property(&dataset, &PropertyContext::default(), property);
        let found = found.unwrap().unwrap();
        (found.value, found.received)
    };
    assert_eq!(shown("other/top", "compression"), ("lz4".to_owned(), Some("lz4".to_owned())));
    assert_eq!(shown("other/top/z", "quota").0, (20 << 20).to_string());
    assert_eq!(shown("other/top/z", "my:colour").0, "blue");
    drop(b);
    into.export().unwrap();
    let pool = Pool::open("other", &OpenOptions::in_places([file])).unwrap();
    let report = check::run(&pool, &CheckOptions::default(), &Progress::new());
    assert!(report.issues.is_empty(), "{:?}", report.issues);
}

/// Datasets and snapshots with their GUIDs and origins, without the pool's name and the root.
fn lineage(pool: &LivePool) -> Vec<(String, u64, Option<String>)> {
    let view = pool.look().unwrap();
    let dsl = view.dsl();
    let short = |name: &str| name.split_once('/').map_or("", |(_, rest)| rest).to_owned();
    let mut out = Vec::new();
    for (name, dir) in dsl.walk().into_iter().filter(|(name, _)| name.contains('/')) {
        let dir = dir.unwrap();
        let origin = dsl.origin(&dir).unwrap().map(|origin| short(&origin));
        out.push((short(&name), 0, origin));
        let head = dsl.head(&dir).unwrap().unwrap();
        let snapshots = dsl.snapshots(&head).unwrap();
        out.extend(snapshots.iter().map(|s| (short(&s.name), s.phys.guid, None)));
    }
    out.sort();
    out
}

/// What an increment of the tree makes of another pool; what was done, in order.
fn followed(pool: &LivePool, stream: &[u8], force: bool) -> (Vec<Followed>, Option<Phase>) {
    struct Noted(RefCell<Vec<Followed>>);
    impl ReceiveObserver for Noted {
        fn not_set(&self, _: &str, _: &str, _: &str) {}

        fn follows(&self, change: &Followed) {
            self.0.borrow_mut().push(change.clone());
        }
    }
    let noted = Noted(RefCell::default());
    let naming = Naming::WithoutPool;
    let how = Receive { target: pool.name().to_owned(), naming, force, ..Receive::default() };
    let done = how.run(pool, stream, &noted, &Progress::new());
    (noted.0.into_inner(), done.err().map(|e| e.phase))
}

/// A plan is made where nothing has come yet, and nothing was renamed: what comes later finds what
/// came before all the same.
#[test]
fn a_plan_follows_a_stream_of_several_snapshots() {
    let (from, into) = (pool("tank"), pool("other"));
    tree(&from);
    let plan = |stream: &[u8]| {
        let naming = Naming::WithoutPool;
        let how = Receive { target: "other".to_owned(), naming, force: true, ..Receive::default() };
        how.plan(&into.look().unwrap(), stream, &Quiet, &Progress::new()).unwrap();
    };
    let all = sent(&from, "tank/top@3", None, &recursive());
    plan(&all);
    receive(&into, &all);
    Rename::new("tank/top/vol", "tank/top/vol2").unwrap().run(&from).unwrap();
    for name in ["tank/top@4", "tank/top@5"] {
        snapshot(&from, &[name], true, Vec::new()).unwrap();
    }
    let since = Scope { intermediates: true, ..recursive() };
    plan(&sent(&from, "tank/top@5", Some("@3"), &since));
}

/// The sender has promoted, moved, renamed and destroyed; datasets have exchanged their names, and
/// so have snapshots; the receiver has some of its own.
#[test]
fn an_increment_of_a_tree_follows_the_sender() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("other.img");
    let into = NewPool::new("other").file(&file, 256 << 20).unwrap().create().unwrap();
    let from = pool("tank");
    tree(&from);
    for name in ["p", "q", "q/in"] {
        let name = format!("tank/top/{name}");
        Create::filesystem(&name).unwrap().run(&from).unwrap();
        snapshot(&from, &[format!("{name}@3")], false, Vec::new()).unwrap();
    }
    receive(&into, &sent(&from, "tank/top@3", None, &recursive()));
    let rename = |a: &str, b: &str| Rename::new(a, b).unwrap().run(&from).unwrap();
    datasets::promote(&from, "tank/top/a").unwrap();
    rename("tank/top/z@2", "uno");
    rename("tank/top/z", "tank/top/p/y");
    rename("tank/top/p", "tank/top/swap");
    rename("tank/top/q", "tank/top/p");
    rename("tank/top/swap", "tank/top/q");
    rename("tank/top/p/in", "tank/top/out");
    for (one, two) in [("2", "aside"), ("1", "2"), ("aside", "1")] {
        rename(&format!("tank/top@{one}"), two);
    }
    for gone in ["tank/top/0", "tank/top/vol"] {
        let plan = Destroy::new(gone).recursive().plan(from.view()).unwrap();
        plan.run(&from, &Progress::new()).unwrap();
    }
    Create::filesystem("tank/top/new").unwrap().run(&from).unwrap();
    rename("tank/top/out", "tank/top/new/out");
    snapshot(&from, &["tank/top@4"], true, Vec::new()).unwrap();
    Create::filesystem("other/top/mine").unwrap().run(&into).unwrap();
    snapshot(&into, &["other/top@mine"], false, Vec::new()).unwrap();
    let since = Scope { intermediates: true, ..recursive() };
    let stream = sent(&from, "tank/top@4", Some("@3"), &since);
    // What the receiver has of its own goes with -F only, and is in the way without.
    let (done, failed) = followed(&into, &stream, false);
    assert_eq!(failed, Some(Phase::Increment));
    assert!(done.contains(&Followed::Promoted("other/top/a".to_owned())), "{done:?}");
    assert!(!done.iter().any(|one| matches!(one, Followed::Destroyed(_))), "{done:?}");
    let (done, failed) = followed(&into, &stream, true);
    assert_eq!(failed, None, "{done:?}");
    for gone in ["mine", "0", "vol"] {
        let gone = Followed::Destroyed(format!("other/top/{gone}"));
        assert!(done.contains(&gone), "{gone:?}: {done:?}");
    }
    assert_eq!(lineage(&into), lineage(&from));
    // There is nothing left to do.
    snapshot(&from, &["tank/top@5"], true, Vec::new()).unwrap();
    let next = sent(&from, "tank/top@5", Some("@4"), &since);
    assert_eq!(followed(&into, &next, true), (Vec::new(), None));
    assert_eq!(lineage(&into), lineage(&from));
    into.export().unwrap();
    let pool = Pool::open("other", &OpenOptions::in_places([file])).unwrap();
    let report = check::run(&pool, &CheckOptions::default(), &Progress::new());
    assert!(report.issues.is_empty(), "{:?}", report.issues);
}

/// What is cancelled when all of a package was received does not make it fail.
#[test]
fn a_package_that_came_whole_is_received_though_it_is_cancelled() {
    struct Late<'a>(&'a Progress);
    impl ReceiveObserver for Late<'_> {
        fn not_set(&self, _: &str, _: &str, _: &str) {}

        fn ends(&self, _: u64, _: Duration) {
            self.0.cancel();
        }
    }
    let (from, into) = (pool("tank"), pool("other"));
    Create::filesystem("tank/top").unwrap().run(&from).unwrap();
    snapshot(&from, &["tank/top@1"], true, Vec::new()).unwrap();
    receive(&into, &sent(&from, "tank/top@1", None, &recursive()));
    snapshot(&from, &["tank/top@2"], true, Vec::new()).unwrap();
    let stream = sent(&from, "tank/top@2", Some("@1"), &recursive());
    let (target, naming) = ("other".to_owned(), Naming::WithoutPool);
    let how = Receive { target, naming, ..Receive::default() };
    let progress = Progress::new();
    how.run(&into, &*stream, &Late(&progress), &progress).map_err(|e| format!("{e:?}")).unwrap();
    assert!(progress.check().is_err(), "it was cancelled");
}

/// A property that volumes do not have is set on the file systems of a tree.
#[test]
fn what_is_set_reaches_what_can_have_it() {
    let into = pool("other");
    let stream = sent(sender(), "tank/top@1", None, &recursive());
    let (target, naming) = ("other".to_owned(), Naming::WithoutPool);
    let set = vec![("atime".to_owned(), "off".to_owned())];
    let how = Receive { target, naming, set, ..Receive::default() };
    let done = how.run(&into, &*stream, &Quiet, &Progress::new());
    done.map_err(|e| format!("{e:?}")).unwrap();
    let view = into.look().unwrap();
    let atime = |name: &str| {
        let dataset = view.dsl().by_name(name).unwrap();
        let found = view.dsl().property(&dataset, &PropertyContext::default(), "atime").unwrap();
        found.map(|p| p.value)
    };
    assert_eq!(atime("other/top/z").as_deref(), Some("off"));
    assert_eq!(atime("other/top/vol"), None);
}

#[test]
fn the_list_tells_what_is_asked_for() {
    let pool = pool("tank");
    tree(&pool);
    datasets::hold(&pool, &["tank/top/z@2"], "keep", false).unwrap();
    let list = |from: Option<&str>, scope: &Scope| {
        let stream = sent(&pool, "tank/top/z@3", from, scope);
        let mut reader = Reader::new(&stream[..]);
        let record = reader.record().unwrap().unwrap();
        assert!(matches!(record.body, Body::Begin(_)));
        let payload = reader.payload().unwrap();
        (!payload.is_empty()).then(|| NvList::decode(payload).unwrap())
    };
    let range = Scope { intermediates: true, ..Scope::default() };
    assert_eq!(list(Some("@1"), &range), None);
    let held = list(Some("@1"), &Scope { holds: true, ..range }).unwrap();
    let Some(NvValue::NvList(all)) = held.get("fss") else { panic!("{held:?}") };
    let NvValue::NvList(one) = &all.pairs[0].value else { panic!("{held:?}") };
    let Some(NvValue::NvList(holds)) = one.get("snapholds") else { panic!("{held:?}") };
    let tags = |name: &str| match holds.get(name) {
        Some(NvValue::NvList(tags)) => tags.pairs.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((holds.get("1"), tags("2"), tags("3")), (None, 1, 0));
}

#[test]
fn a_snapshot_that_is_another_by_now_is_not_sent() {
    let pool = pool("tank");
    tree(&pool);
    let view = pool.look().unwrap();
    let range = Scope { intermediates: true, ..Scope::default() };
    let package = Package::plan(&view, "tank/top@3", Some("@1"), Forms::default(), &range).unwrap();
    let gone = Destroy::new("tank/top@3").plan(pool.view()).unwrap();
    gone.run(&pool, &Progress::new()).unwrap();
    let mut out = Vec::new();
    let error = package.run(&mut out, &Progress::new()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound);
    snapshot(&pool, &["tank/top@3"], false, Vec::new()).unwrap();
    let error = package.run(Vec::new(), &Progress::new()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound);
    // What was written has no end.
    let mut reader = Reader::new(&out[..]);
    let mut ends = 0;
    let error = loop {
        match reader.record() {
            Ok(record) => ends += u64::from(record.unwrap().body.number() == 5),
            Err(e) => break e,
        }
    };
    assert!(matches!(error.kind, Fault::Truncated), "{error}");
    assert_eq!(ends, 2, "the list's and the first part's");
}

/// What the machine does: it receives the streams, and describes both pools.
const RECEIVES: &str = "set -e\n\
    mkdir /vd && dd if=/dev/img0 of=/vd/img0 bs=1M conv=sparse status=none\n\
    zpool create -o cachefile=none target /dev/img1\n\
    zfs receive -u target/all < /job/all\n\
    zfs receive -u -F target/all < /job/since\n\
    zfs receive -u target/some < /job/all\n\
    zfs receive -u target/some < /job/next\n\
    zfs receive -u target/one < /job/one\n\
    zfs receive -u target/one < /job/range\n\
    for stream in all since next one range; do zstream dump /job/$stream > /dev/null; done\n\
    test $(zfs get -H -o value,source quota target/all/z | tr '\\t' ,) = 20M,received\n\
    test $(zfs get -H -o value origin target/all/a) = target/all/z@1\n\
    zpool import -d /vd -N -f -o cachefile=none tank\n\
    python3 /judge/zmanifest.py tank -o /out/tank.json\n\
    python3 /judge/zmanifest.py target -o /out/target.json\n\
    zpool scrub -w target\n\
    zpool status target\n";

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_receives_packages() {
    let judge = testkit::KernelJudge::find();
    let dir = tempfile::tempdir().unwrap();
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    std::fs::create_dir_all(&job).unwrap();
    let images = [dir.path().join("tank.img"), dir.path().join("target.img")];
    std::fs::File::create(&images[1]).unwrap().set_len(256 << 20).unwrap();
    let pool = NewPool::new("tank").file(&images[0], 128 << 20).unwrap().create().unwrap();
    tree(&pool);
    datasets::hold(&pool, &["tank/top/z@2"], "keep", false).unwrap();
    let all = Scope { holds: true, ..recursive() };
    let since = Scope { intermediates: true, ..all.clone() };
    let range = Scope { intermediates: true, ..Scope::default() };
    for (name, to, from, scope) in [
        ("all", "tank/top@2", None, &all),
        ("since", "tank/top@3", Some("@2"), &since),
        ("next", "tank/top@3", Some("@2"), &all),
        ("one", "tank/top@1", None, &Scope { properties: true, ..Scope::default() }),
        ("range", "tank/top@3", Some("@1"), &range),
    ] {
        std::fs::write(job.join(name), sent(&pool, to, from, scope)).unwrap();
    }
    pool.export().unwrap();
    assert!(judge.run(RECEIVES, &job, &out, &images), "the kernel does not receive it");
    for to in ["target/all", "target/some"] {
        let described = [out.join("tank.json"), out.join("target.json")];
        let mut diff = judge.diff(["tank/top", to], described);
        assert!(diff.status().unwrap().success(), "{to}: the kernel has something else");
    }
}
