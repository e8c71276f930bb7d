//! Every sync task once, on the pool of `bench.rs`; and what must be refused.

use crate::bench::{Bench, given, number, text};
use engine::inside::dsl::write::PropertyChange;
use engine::inside::pool::Result;
use engine::inside::pool::live::{
    Devices, Invocation, LivePool, NewFilesystem, NewTop, StoredPropertyValue,
};
use engine::inside::pool::live::{SpaceClass, VdevSpec};
use engine::permissions::RevokedPermissions;
use std::sync::Arc;

pub struct Case {
    pub name: &'static str,
    pub act: fn(&LivePool, &Bench) -> Result<()>,
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|n| (*n).to_owned()).collect()
}

fn spare(bench: &Bench) -> (VdevSpec, Devices) {
    let devices = Devices::from([("spare".to_owned(), Arc::clone(&bench.spare) as _)]);
    (VdevSpec::Leaf { path: "spare".into(), is_file: false }, devices)
}

fn with_properties() -> Vec<PropertyChange> {
    vec![
        text("my:word", "two"),
        number("quota", 8 << 20),
        number("refquota", 8 << 20),
        number("reservation", 1 << 20),
        number("refreservation", 1 << 20),
        number("compression", 15),
    ]
}

macro_rules! cases {
    ($($name:literal => $act:expr,)*) => { &[$(Case { name: $name, act: $act }),*] };
}

#[rustfmt::skip]
pub const CASES: &[Case] = cases! {
    "create a file system" => |p, _| {
        p.create_filesystem("tank/a/new", NewFilesystem::default(), with_properties())
    },
    "create a volume" => |p, _| p.create_volume("tank/new", 1 << 20, 8192, with_properties()),
    "clone" => |p, _| p.clone_snapshot("tank/a@3", "tank/a/new", with_properties()),
    "clone a clone" => |p, _| p.clone_snapshot("tank/c@mine", "tank/new", Vec::new()),
    "snapshot" => |p, _| p.snapshot(&names(&["tank/a@new"]), vec![text("my:word", "two")]),
    "snapshot several" => |p, _| {
        p.snapshot(&names(&["tank@n", "tank/a@n", "tank/a/b@n", "tank/v@n"]), Vec::new())
    },
    "destroy a snapshot in the middle" => |p, _| p.destroy_snapshots(&names(&["tank/a@3"]), false),
    "destroy the first snapshot" => |p, _| p.destroy_snapshots(&names(&["tank/a@1"]), false),
    "destroy the last snapshot" => |p, _| p.destroy_snapshots(&names(&["tank/a@4"]), false),
    "destroy several snapshots" => |p, _| {
        p.destroy_snapshots(&names(&["tank/a@1", "tank/a/b@1", "tank/a@3", "tank/a@4"]), false)
    },
    "destroy later" => |p, _| p.destroy_snapshots(&names(&["tank/a@2", "tank/a@3"]), true),
    "destroy a clone" => |p, _| p.destroy_dataset("tank/d"),
    "destroy the clone that a snapshot waits for" => |p, _| {
        p.release(&names(&["tank/v@1"]), "busy")?;
        p.destroy_dataset("tank/w")
    },
    "release what a clone still needs" => |p, _| p.release(&names(&["tank/v@1"]), "busy"),
    "release what waits for it" => |p, _| {
        p.destroy_dataset("tank/w")?;
        p.release(&names(&["tank/v@1"]), "busy")
    },
    "hold" => |p, _| p.hold(&names(&["tank/a@1", "tank/a@2", "tank/v@1"]), "more"),
    "roll back to the last" => |p, _| p.rollback("tank/a/b@1", false),
    "roll back over snapshots" => |p, _| p.rollback("tank/a@2", true),
    "promote" => |p, _| p.promote("tank/c"),
    "promote a clone of a clone" => |p, _| p.promote("tank/d"),
    "rename in place" => |p, _| p.rename("tank/c", "tank/e"),
    "rename to another place" => |p, _| p.rename("tank/a/b", "tank/c/b"),
    "rename snapshots" => |p, _| p.rename_snapshot("tank/a@1", "new", true),
    "set a quota" => |p, _| p.set_property("tank/a", number("quota", 50 << 20)),
    "set a reservation" => |p, _| p.set_property("tank/a/b", number("reservation", 3 << 20)),
    "set a refreservation" => |p, _| p.set_property("tank/a/b", number("refreservation", 5 << 20)),
    "set a limit" => |p, _| p.set_property("tank", number("snapshot_limit", 1000)),
    "set a user's property" => |p, _| p.set_property("tank/a", text("my:other", "word")),
    "set a snapshot's property" => |p, _| p.set_property("tank/a@1", text("my:other", "word")),
    "clear a property" => |p, _| {
        p.set_property("tank/a", PropertyChange { name: "my:word".into(), value: None })
    },
    "revert a property" => |p, _| p.revert_property(&names(&["tank/a"]), "my:word"),
    "give permissions" => |p, _| p.allow("tank/a", vec![given("ud$1000", "hold")]),
    "take permissions" => |p, _| {
        let who = given("el$", "diff").who;
        let taken = vec![RevokedPermissions { who, permissions: None }];
        p.unallow(&names(&["tank/d", "tank/a"]), taken)
    },
    "bookmark" => |p, _| p.bookmark("tank/a#new", "tank/a@3"),
    "the first bookmark" => |p, _| p.bookmark("tank/c#new", "tank/c@mine"),
    "destroy a bookmark" => |p, _| p.destroy_bookmark("tank/a#mark"),
    "a line of history" => |p, _| p.log(&Invocation::default()),
    "set a pool property" => |p, _| {
        p.set_pool_property("autoexpand", StoredPropertyValue::Number(1))
    },
    "enable a feature" => |p, _| p.enable_feature("block_cloning"),
    "add a vdev" => |p, b| {
        let (spec, devices) = spare(b);
        p.add_tops(&[NewTop { spec, class: SpaceClass::Normal }], Some(12), &devices)
    },
    "add a spare" => |p, b| {
        let (spec, devices) = spare(b);
        p.add_aux(&[spec], &[], &devices)
    },
};

type Refused = (&'static str, fn(&LivePool) -> Result<()>);

#[rustfmt::skip]
pub const REFUSED: &[Refused] = &[
    ("a name that is taken", |p| {
        p.create_filesystem("tank/a", NewFilesystem::default(), Vec::new())
    }),
    ("a property that does not exist", |p| {
        p.create_filesystem("tank/n", NewFilesystem::default(), vec![number("nothing", 1)])
    }),
    ("a property that is read-only", |p| {
        p.create_filesystem("tank/n", NewFilesystem::default(), vec![number("used", 1)])
    }),
    ("a property twice", |p| {
        let twice = vec![number("quota", 1 << 20), number("quota", 2 << 20)];
        p.create_filesystem("tank/n", NewFilesystem::default(), twice)
    }),
    ("a value that is too long", |p| {
        let long = vec![text("my:word", &"x".repeat(9000))];
        p.create_filesystem("tank/n", NewFilesystem::default(), long)
    }),
    ("a path that is too long", |p| {
        p.set_property("tank/a", text("mountpoint", &"/x".repeat(9000)))
    }),
    ("an invalid record size", |p| p.set_property("tank/a", number("recordsize", 1000))),
    ("a normal form without UTF-8", |p| {
        let new = NewFilesystem { normalization: 1, ..NewFilesystem::default() };
        p.create_filesystem("tank/n", new, Vec::new())
    }),
    ("a volume of half a block", |p| p.create_volume("tank/n", 4097, 8192, Vec::new())),
    ("a volume of odd blocks", |p| p.create_volume("tank/n", 9000, 3000, Vec::new())),
    ("a clone below its quota", |p| {
        p.clone_snapshot("tank/a@4", "tank/n", vec![number("refquota", 4096)])
    }),
    ("a snapshot with a property that it cannot have", |p| {
        p.snapshot(&names(&["tank/a@n"]), vec![text("my:good", "x"), number("quota", 1 << 30)])
    }),
    ("a snapshot that is there, among others", |p| {
        p.snapshot(&names(&["tank@n", "tank/a/b@n", "tank/a@1"]), Vec::new())
    }),
    ("a snapshot of what is not there, among others", |p| {
        p.snapshot(&names(&["tank@n", "tank/none@n"]), Vec::new())
    }),
    ("a snapshot that is held, among others", |p| {
        p.destroy_snapshots(&names(&["tank/a@1", "tank/v@1"]), false)
    }),
    ("a snapshot with a clone, among others", |p| {
        p.destroy_snapshots(&names(&["tank/a@1", "tank/a@2"]), false)
    }),
    ("a dataset with snapshots", |p| p.destroy_dataset("tank/c")),
    ("a dataset with others below", |p| p.destroy_dataset("tank/a")),
    ("a rollback over a clone", |p| p.rollback("tank/a@1", true)),
    ("a rollback over snapshots", |p| p.rollback("tank/a@3", false)),
    ("promoting what is not a clone", |p| p.promote("tank/a")),
    ("a rename below itself", |p| p.rename("tank/a", "tank/a/b/c")),
    ("a rename to a name that is taken", |p| p.rename("tank/a", "tank/c")),
    ("a snapshot's name that is taken", |p| p.rename_snapshot("tank/a@1", "2", false)),
    ("a quota below what is used", |p| p.set_property("tank/a", number("quota", 4096))),
    ("a reservation above the quota", |p| p.set_property("tank/a", number("reservation", 1 << 40))),
    ("a hold that is there, among others", |p| p.hold(&names(&["tank/a@1", "tank/v@1"]), "busy")),
    ("a hold that is not there, among others", |p| {
        p.release(&names(&["tank/v@1", "tank/a@1"]), "busy")
    }),
    ("a bookmark that is there", |p| p.bookmark("tank/a#mark", "tank/a@1")),
    ("a bookmark of another's snapshot", |p| p.bookmark("tank#n", "tank/a@1")),
    ("a bookmark that is not there", |p| p.destroy_bookmark("tank/a#none")),
    ("a pool property that is too long", |p| {
        p.set_pool_property("bootfs", StoredPropertyValue::Text("x".repeat(9000)))
    }),
    ("a special device that was not opened", |p| {
        let leaf = |path: &str| VdevSpec::Leaf { path: path.into(), is_file: false };
        p.add_aux(&[leaf("nowhere")], &[leaf("nowhere")], &Devices::new())
    }),
];
