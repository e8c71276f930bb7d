//! Pools made and changed here, judged by OpenZFS's zdb and by our own check.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod writing;

use engine::inside::dsl::write::PropertyChange;
use engine::inside::dsl::{PropertyContext, StoredValue};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::NewFilesystem;
use engine::inside::zpl::write::{NewFile, NewKind};
use poolkit::{SHAPES, Shape};
use writing::Pools;

#[test]
fn an_empty_pool_is_one_to_openzfs() {
    for shape in SHAPES {
        let pools = Pools::new("empty");
        let pool = pools.create("tank", shape);
        pool.export().unwrap();
        pools.judge("tank");
    }
}

#[test]
fn datasets_files_and_snapshots() {
    for shape in SHAPES {
        let pools = Pools::new("files");
        let pool = pools.create("tank", shape);
        pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
        pool.create_volume("tank/vol", 8 << 20, 8192, Vec::new()).unwrap();
        let fs = pool.filesystem("tank/fs").unwrap();
        writing::fill(&fs, 1, 40);
        pool.snapshot(&["tank/fs@one".to_owned()], Vec::new()).unwrap();
        writing::fill(&fs, 2, 40);
        let volume = pool.volume("tank/vol").unwrap();
        volume.write_at(4096, &writing::bytes(3, 100_000)).unwrap();
        pool.sync().unwrap();
        pool.clone_snapshot("tank/fs@one", "tank/clone", Vec::new()).unwrap();
        writing::fill(&pool.filesystem("tank/clone").unwrap(), 3, 10);
        // What is open keeps the devices.
        drop((fs, volume));
        pool.export().unwrap();
        pools.judge("tank");

        let pool = pools.import("tank");
        assert_eq!(writing::contents(&pool.filesystem("tank/fs").unwrap()), {
            let pool = pools.open("tank");
            let head = pool.dsl().by_name("tank/fs").unwrap();
            let fs = engine::Filesystem::open(pool.dsl().objset(&head).unwrap()).unwrap();
            writing::contents(&fs)
        });
        pool.destroy_dataset("tank/clone").unwrap();
        pool.destroy_snapshots(&["tank/fs@one".to_owned()], false).unwrap();
        pool.destroy_dataset("tank/vol").unwrap();
        pool.export().unwrap();
        pools.judge("tank");
    }
}

#[test]
fn attributes_that_grow_and_shrink_within_a_txg() {
    let pools = Pools::new("shrink");
    let pool = pools.create("tank", Shape::Disk);
    let fs = pool.filesystem("tank").unwrap();
    let now = writing::fs_time(1);
    for len in [1800, 20, 150, 3000, 0] {
        let value = writing::bytes(len, len as usize);
        let any = engine::inside::zpl::write::XattrMode::Any;
        fs.set_xattr(fs.root_object(), b"user.a", &value, any, now).unwrap();
        assert_eq!(fs.root().unwrap().xattrs().unwrap()[&b"user.a"[..]], value);
    }
    drop(fs);
    pool.export().unwrap();
    pools.judge("tank");
}

#[test]
fn volumes_below_datasets_with_large_dnodes() {
    use engine::inside::dsl::DatasetKind;
    use engine::inside::dsl::write::{PropertyChange, parse_value};
    let pools = Pools::new("dnodes");
    let pool = pools.create("tank", Shape::Disk);
    let value = parse_value("dnodesize", "16k", DatasetKind::Filesystem, false).unwrap();
    let change = PropertyChange { name: "dnodesize".to_owned(), value: Some(value) };
    pool.set_property("tank", change).unwrap();
    pool.create_volume("tank/vol", 1 << 20, 4096, Vec::new()).unwrap();
    pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
    writing::fill(&pool.filesystem("tank/fs").unwrap(), 1, 10);
    pool.volume("tank/vol").unwrap().write_at(0, &[7; 5000]).unwrap();
    pool.export().unwrap();
    pools.judge("tank");
}

/// However a snapshot goes, its blocks are free some txgs later, not only after the next import.
#[test]
fn blocks_of_destroyed_snapshots_are_freed_at_once() {
    let pools = Pools::new("freeing");
    let pool = pools.create("tank", Shape::Disk);
    let freeing = || {
        (0..5).try_for_each(|_| pool.sync()).unwrap();
        let look = pool.look().unwrap();
        let properties = look.properties(&look.space());
        properties.into_iter().find(|p| p.name == "freeing").unwrap().value
    };
    let rewritten = |seed: u64| {
        let name = format!("tank/fs{seed}");
        pool.create_filesystem(&name, NewFilesystem::default(), Vec::new()).unwrap();
        let fs = pool.filesystem(&name).unwrap();
        let now = writing::fs_time(seed);
        let file = new_file(&fs, "file");
        fs.write_at(file, 0, &writing::bytes(seed, 3_000_000), now).unwrap();
        let snapshot = vec![format!("{name}@s")];
        pool.snapshot(&snapshot, Vec::new()).unwrap();
        fs.write_at(file, 0, &writing::bytes(seed + 1, 3_000_000), now).unwrap();
        pool.sync().unwrap();
        snapshot
    };
    pool.destroy_snapshots(&rewritten(1), false).unwrap();
    assert_eq!(freeing(), "0", "destroyed");

    let held = rewritten(3);
    pool.hold(&held, "tag").unwrap();
    pool.destroy_snapshots(&held, true).unwrap();
    pool.release(&held, "tag").unwrap();
    assert_eq!(freeing(), "0", "its last hold released");

    let cloned = rewritten(5);
    pool.clone_snapshot(&cloned[0], "tank/clone", Vec::new()).unwrap();
    pool.destroy_snapshots(&cloned, true).unwrap();
    pool.destroy_dataset("tank/clone").unwrap();
    assert_eq!(freeing(), "0", "its last clone destroyed");

    pool.export().unwrap();
    pools.judge("tank");
}

fn number(name: &str, n: u64) -> PropertyChange {
    PropertyChange { name: name.to_owned(), value: Some(StoredValue::Number(n)) }
}

fn new_file(fs: &engine::Filesystem, name: &str) -> u64 {
    let new = NewFile::new(NewKind::File, 0o644, writing::fs_time(1));
    fs.create(fs.root_object(), name.as_bytes(), &new).unwrap().number()
}

/// Records that are changed in small parts are read from the devices once, and not after each txg.
#[test]
fn records_that_are_changed_in_part_stay_in_memory() {
    const RECORD: u64 = 128 << 10;
    const RECORDS: u64 = 16;
    let pools = Pools::new("parts");
    let pool = pools.create("tank", Shape::Disk);
    let fs = pool.filesystem("tank").unwrap();
    let file = new_file(&fs, "f");
    let whole = writing::bytes(1, (RECORDS * RECORD) as usize);
    fs.write_at(file, 0, &whole, writing::fs_time(2)).unwrap();
    pool.sync().unwrap();
    let misses = |round: u64| {
        let before = pool.stats().cache.misses;
        for record in 0..RECORDS {
            let at = record * RECORD + round * 4096;
            fs.write_at(file, at, &[round as u8; 4096], writing::fs_time(3)).unwrap();
        }
        pool.sync().unwrap();
        pool.stats().cache.misses - before
    };
    assert!(misses(0) >= RECORDS, "what was written and not read is not in memory");
    for round in 1..4 {
        let again = misses(round);
        assert!(again < RECORDS, "{again} in round {round}");
    }
    drop(fs);
    pool.export().unwrap();
    pools.judge("tank");
}

#[test]
fn nothing_is_below_a_volume() {
    let pools = Pools::new("below");
    let pool = pools.create("tank", Shape::Disk);
    pool.create_volume("tank/vol", 1 << 20, 8192, Vec::new()).unwrap();
    pool.create_filesystem("tank/fs", NewFilesystem::default(), Vec::new()).unwrap();
    pool.snapshot(&["tank/fs@s".to_owned()], Vec::new()).unwrap();
    let refused = |done: Result<(), engine::inside::pool::Error>| {
        let why = done.unwrap_err();
        assert!(why.to_string().contains("below a volume"), "{why}");
    };
    refused(pool.create_filesystem("tank/vol/a", NewFilesystem::default(), Vec::new()));
    refused(pool.create_volume("tank/vol/a", 1 << 20, 8192, Vec::new()));
    refused(pool.clone_snapshot("tank/fs@s", "tank/vol/a", Vec::new()));
    refused(pool.rename("tank/fs", "tank/vol/a"));
    pool.rename("tank/vol", "tank/fs/vol").unwrap();
    pool.export().unwrap();
    pools.judge("tank");
}

/// What was open before a rename writes with what it inherits after it.
#[test]
fn a_renamed_dataset_inherits_at_once() {
    const ZSTD: u64 = 16;
    let pools = Pools::new("inherit");
    let pool = pools.create("tank", Shape::Disk);
    for (name, properties) in [
        ("tank/plain", vec![number("compression", 2)]),
        ("tank/tight", vec![number("compression", ZSTD)]),
        ("tank/plain/fs", Vec::new()),
    ] {
        pool.create_filesystem(name, NewFilesystem::default(), properties).unwrap();
    }
    let fs = pool.filesystem("tank/plain/fs").unwrap();
    let write = |name: &str| {
        fs.write_at(new_file(&fs, name), 0, &vec![b'x'; 3 << 20], writing::fs_time(1)).unwrap();
        pool.sync().unwrap();
    };
    let referenced = |name: &str| pool.view().dsl().by_name(name).unwrap().phys.referenced;
    write("before");
    let before = referenced("tank/plain/fs");
    assert!(before > 3 << 20);
    pool.rename("tank/plain/fs", "tank/tight/fs").unwrap();
    write("after");
    let after = referenced("tank/tight/fs");
    assert!(after < before + (1 << 20), "{before} {after}");
    drop(fs);
    pool.export().unwrap();
    pools.judge("tank");
}

/// What is reserved for a dataset can be written when the others have used up all the rest.
#[test]
fn a_reservation_is_there_for_who_has_it() {
    for property in ["reservation", "refreservation"] {
        let pools = Pools::new("reserved");
        let pool = pools.create("tank", Shape::Disk);
        for name in ["tank/mine", "tank/others"] {
            let plain = vec![number("compression", 2)];
            pool.create_filesystem(name, NewFilesystem::default(), plain).unwrap();
        }
        let reserved = 40 << 20;
        pool.set_property("tank/mine", number(property, reserved)).unwrap();
        let fill = |name: &str, file: &str| {
            let fs = pool.filesystem(name).unwrap();
            let file = new_file(&fs, file);
            let data = writing::bytes(7, 128 << 10);
            let chunks = (0u64..).take_while(|n| {
                fs.write_at(file, n * data.len() as u64, &data, writing::fs_time(1)).is_ok()
            });
            chunks.count() as u64 * data.len() as u64
        };
        assert!(fill("tank/others", "first") > 8 << 20);
        let mine = fill("tank/mine", "file");
        assert!(mine > reserved - (4 << 20), "{property}: {mine} of {reserved}");
        assert!(fill("tank/others", "second") < 1 << 20);
        pool.export().unwrap();
        pools.judge("tank");
    }
}

/// A reader that holds the pool still sees datasets that fit together, however fast they come and
/// go.
#[test]
fn datasets_come_and_go_beside_a_reader() {
    let pools = Pools::new("looking");
    let pool = pools.create("tank", Shape::Disk);
    let look = || {
        let datasets = pool.view().datasets();
        assert!(datasets.can_change(), "open for writing");
        let dsl = pool.view().dsl();
        for (name, dir) in dsl.walk() {
            let head = dsl.head(&dir.unwrap()).unwrap().unwrap();
            for dataset in dsl.snapshots(&head).unwrap().iter().chain([&head]) {
                let properties = dsl.properties(dataset, &PropertyContext::default());
                assert!(properties.is_ok(), "{name}: {properties:?}");
            }
        }
    };
    let churn = || {
        for n in 0..40 {
            let (name, clone) = (format!("tank/fs{n}"), format!("tank/clone{n}"));
            let snapshots = [format!("{name}@a"), format!("{name}@b")];
            pool.create_filesystem(&name, NewFilesystem::default(), Vec::new()).unwrap();
            for snapshot in &snapshots {
                pool.snapshot(std::slice::from_ref(snapshot), Vec::new()).unwrap();
            }
            pool.clone_snapshot(&snapshots[0], &clone, Vec::new()).unwrap();
            pool.promote(&clone).unwrap();
            pool.destroy_snapshots(&[snapshots[1].clone()], false).unwrap();
            pool.destroy_dataset(&name).unwrap();
        }
    };
    std::thread::scope(|threads| {
        let churning = threads.spawn(churn);
        while !churning.is_finished() {
            look();
        }
    });
    pool.export().unwrap();
    pools.judge("tank");
}
