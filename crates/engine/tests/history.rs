//! What the engine notes of its own work in the history of a pool, in the words of OpenZFS: what
//! its kernel module wrote for the same operations stands in `corpus/history`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod writing;

use engine::inside::dsl::write::PropertyChange;
use engine::inside::pool::live::NewFilesystem;
use engine::permissions::{Delegation, RevokedPermissions, WhoKey};
use engine::{LivePool, StoredValue};
use poolkit::Shape;
use writing::Pools;

/// The internal events after that of `zpool create`, `NAME DATASET TEXT`, without numbers of
/// objects and txgs.
fn events(pool: &LivePool) -> Vec<String> {
    let records = pool.look().unwrap().history().unwrap();
    let mut out = Vec::new();
    for record in records.into_iter().map(Result::unwrap) {
        let (Some(name), Some(dataset)) = (record.internal_name(), record.dsname()) else {
            continue;
        };
        assert_ne!(record.dsid(), Some(0), "{name} {dataset}");
        let text = record.internal_str().unwrap();
        let is_number = |word: &str| word.ends_with(')') || word.contains("_txg=");
        let words: Vec<&str> = text.split(' ').filter(|w| !is_number(w)).collect();
        out.push(format!("{name} {dataset} {}", words.join(" ")));
    }
    out
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_engine_notes_what_it_does_in_the_words_of_openzfs() {
    let pools = Pools::new("history");
    let p = pools.create("tank", Shape::Disk);
    let change = |name: &str, value| PropertyChange { name: name.to_owned(), value };
    p.create_filesystem("tank/a", NewFilesystem::default(), Vec::new()).unwrap();
    p.set_property("tank/a", change("recordsize", Some(StoredValue::Number(16384)))).unwrap();
    p.set_property("tank/a", change("my:word", Some(StoredValue::Text("blue".into())))).unwrap();
    p.set_property("tank/a", change("my:word", None)).unwrap();
    p.snapshot(&names(&["tank/a@x"]), Vec::new()).unwrap();
    p.snapshot(&names(&["tank/a@y"]), Vec::new()).unwrap();
    p.hold(&names(&["tank/a@x"]), "keep").unwrap();
    p.destroy_snapshots(&names(&["tank/a@x"]), true).unwrap();
    p.release(&names(&["tank/a@x"]), "keep").unwrap();
    p.bookmark("tank/a#m", "tank/a@y").unwrap();
    p.destroy_bookmark("tank/a#m").unwrap();
    p.clone_snapshot("tank/a@y", "tank/c", Vec::new()).unwrap();
    p.promote("tank/c").unwrap();
    p.rename("tank/c", "tank/d").unwrap();
    p.rename_snapshot("tank/d@y", "z", true).unwrap();
    let who = |key| WhoKey::parse(key).unwrap();
    let given = [("ul$1001", "snapshot mount"), ("Ud$1001", "@ops")];
    let given = given.map(|(key, all)| Delegation {
        who: who(key),
        permissions: all.split(' ').map(str::to_owned).collect(),
    });
    p.allow("tank/a", given.to_vec()).unwrap();
    let some = Some(names(&["mount", "hold"]));
    let taken = [("ul$1001", some.clone()), ("ud$1001", some), ("Ud$1001", None)];
    let taken = taken.map(|(key, permissions)| RevokedPermissions { who: who(key), permissions });
    p.unallow(&names(&["tank/a"]), taken.to_vec()).unwrap();
    p.destroy_dataset("tank/a").unwrap();
    let mut found = events(&p);
    // Numbers of objects differ.
    for line in &mut found {
        if let Some((front, _)) = line.split_once(" target_snap=") {
            *line = front.to_owned();
        }
    }
    let wanted = [
        "create tank/a  ",
        "set tank/a recordsize=16384",
        "set tank/a my:word=blue",
        "inherit tank/a my:word=",
        "snapshot tank/a@x  ",
        "snapshot tank/a@y  ",
        "hold tank/a@x tag=keep temp=0 refs=1",
        "defer_destroy tank/a@x  ",
        "release tank/a@x tag=keep refs=0",
        "bookmark tank/a name=m",
        "remove bookmark tank/a name=m",
        "clone tank/c origin=tank/a@y",
        "promote tank/c  ",
        "rename tank/c -> tank/d",
        "rename tank/d@y -> @z",
        "permission update tank/a ul$1001 snapshot",
        "permission update tank/a ul$1001 mount",
        "permission update tank/a Ud$1001 @ops",
        "permission remove tank/a ul$1001 mount",
        "permission remove tank/a ul$1001 hold",
        "permission who remove tank/a Ud$1001",
        "destroy tank/a  ",
    ];
    assert_eq!(found, wanted);
}
