//! The examples, which were written from the documentation alone, do what they say.
#![allow(dead_code, unreachable_pub, reason = "an example is a program of its own")]
#![allow(clippy::unwrap_used)]

#[path = "../examples/backup_store.rs"]
mod backup_store;
#[path = "../examples/first_pool.rs"]
mod first_pool;
#[path = "../examples/pool_in_a_file.rs"]
mod pool_in_a_file;
#[path = "../examples/rotate.rs"]
mod rotate;
#[path = "../examples/what_changed.rs"]
mod what_changed;

#[test]
fn a_pool_is_made_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("pool.img");
    let (file, volume) = first_pool::run(&image).unwrap();
    assert_eq!((file.as_str(), volume.as_str()), ("as it was", "on the volume"));
}

#[test]
fn objects_and_files_are_changed_in_one_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let (now, before) = pool_in_a_file::run(&folder.path().join("pool.img")).unwrap();
    assert_eq!((now.as_str(), before.as_str()), ("THE FIRST file", "the first file"));
}

#[test]
fn what_changed_since_a_snapshot_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("pool.img");
    first_pool::run(&image).unwrap();
    let lines = what_changed::run(&image, "tank/home@monday").unwrap();
    assert_eq!(lines[0], "changed: /tank/home/letter");
    assert!(lines[1].starts_with("the snapshot alone has "), "{lines:?}");
    assert_eq!(what_changed::run(&image, "tank/home@never").unwrap(), ["no such snapshot"]);
}

#[test]
fn a_store_of_backups_keeps_content_once_and_whole_backups_alone() {
    use backup_store::{Store, Stored, journal, restore, was_cancelled};
    use engine::{OpenOptions, Pool, Progress};

    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("store.img");
    let file = |name: &str, text: &str| (name.to_owned(), text.repeat(9000).into_bytes());
    let store = Store::create(&image).unwrap();
    let monday = [file("a", "one"), file("b", "one"), file("c", "two")];
    let stored = store.back_up("monday", &monday, &Progress::new()).unwrap();
    assert_eq!(stored, Stored { new: 2, known: 1 });
    let stopped = Progress::new();
    stopped.cancel();
    let error = store.back_up("tuesday", &monday, &stopped).unwrap_err();
    assert!(was_cancelled(&error), "{error}");
    store.close().unwrap();

    let store = Store::open(&image).unwrap();
    let friday = [file("a", "three"), file("c", "two")];
    let stored = store.back_up("friday", &friday, &Progress::new()).unwrap();
    assert_eq!(stored, Stored { new: 1, known: 1 });
    assert_eq!(store.journal().unwrap(), ["monday", "friday"]);
    store.close().unwrap();

    assert_eq!(restore(&image, "monday", "a").unwrap(), monday[0].1);
    assert_eq!(restore(&image, "friday", "a").unwrap(), friday[0].1);
    assert!(restore(&image, "friday", "b").unwrap_err().to_string().contains("friday has no b"));
    let pool = Pool::open("store", &OpenOptions::in_places([&image])).unwrap();
    assert_eq!(journal(&pool).unwrap(), ["monday", "friday"]);
}

/// Changes a file and a volume of the pool that the rotation is tried with.
fn change(pool: &engine::LivePool, hour: u64) {
    use engine::files::{NewFile, NewKind, Time};

    let now = Time { seconds: 1_700_000_000 + hour as i64, nanos: 0 };
    let fs = pool.filesystem("tank/home").unwrap();
    let new = NewFile::new(NewKind::Dir, 0o755, now);
    let dir = engine::files::make_directories(&fs, b"/letters/of the year", &new).unwrap();
    let new = NewFile::new(NewKind::File, 0o644, now);
    let letter = fs.create(dir, format!("letter {hour}").as_bytes(), &new).unwrap();
    let text = format!("what was written in hour {hour}\n").repeat(50_000);
    fs.write_at(letter.number(), 0, text.as_bytes(), now).unwrap();
    let new = NewFile::new(NewKind::Symlink(format!("letter {hour}").into_bytes()), 0o777, now);
    fs.create(dir, format!("link {hour}").as_bytes(), &new).unwrap();
    pool.volume("tank/disk").unwrap().write_at(hour << 16, &[7; 8192]).unwrap();
}

#[test]
fn snapshots_are_rotated_sent_and_proven() {
    use engine::datasets::{self, MakeClone};
    use engine::live::ImportOptions;
    use engine::{Create, ErrorKind, LivePool, NewPool, OpenOptions};
    use std::time::{Duration, UNIX_EPOCH};

    let folder = tempfile::tempdir().unwrap();
    let images = [folder.path().join("a.img"), folder.path().join("b.img")];
    let pool = NewPool::new("tank").mirror(&images, 128 << 20).unwrap().create().unwrap();
    Create::filesystem("tank/home")
        .unwrap()
        .set("compression", "zstd")
        .unwrap()
        .run(&pool)
        .unwrap();
    Create::volume("tank/disk", 8 << 20).unwrap().run(&pool).unwrap();
    pool.export().unwrap();
    let options = ImportOptions::new(OpenOptions::in_places(&images));
    let open = || LivePool::open("tank", &options).unwrap();
    let streams = folder.path().join("streams");
    let at = |hour: u64| UNIX_EPOCH + Duration::from_secs(1_709_251_200 - 3600 + hour * 3600);
    let rotate = |hour: u64| rotate::rotate("tank", 2, &streams, &images, at(hour)).unwrap();
    let name = |dataset: &str, hour: u64| {
        let hour =
            ["2024-02-29T23", "2024-03-01T00", "2024-03-01T01", "2024-03-01T02"][hour as usize];
        format!("{dataset}@hourly-{hour}:00:00Z")
    };

    let pool = open();
    change(&pool, 0);
    pool.export().unwrap();
    let done = rotate(0);
    assert_eq!(done.proven, ["tank", "tank/disk", "tank/home"].map(|one| name(one, 0)));
    assert!(done.destroyed.is_empty() && done.kept.is_empty() && done.failed.is_empty());

    let pool = open();
    datasets::hold(&pool, &[name("tank", 0)], "tape", false).unwrap();
    MakeClone::new(&name("tank/home", 0), "tank/trial").unwrap().run(&pool).unwrap();
    change(&pool, 1);
    pool.export().unwrap();
    let done = rotate(1);
    assert_eq!((done.proven.len(), done.kept.len(), done.destroyed.len()), (4, 0, 0), "{done:?}");
    let again = rotate::rotate("tank", 2, &streams, &images, at(1)).unwrap_err();
    let exists = ErrorKind::Refused(engine::Refusal::Exists);
    assert_eq!((again.kind(), again.operand()), (&exists, Some(name("tank", 1).as_str())));

    let pool = open();
    change(&pool, 2);
    pool.export().unwrap();
    let done = rotate(2);
    assert_eq!((done.proven.len(), &done.failed), (4, &Vec::new()), "{done:?}");
    assert_eq!(done.destroyed, [name("tank/disk", 0)]);
    let [held, cloned] = &done.kept[..] else { panic!("{done:?}") };
    assert_eq!((&held.0, &cloned.0), (&name("tank", 0), &name("tank/home", 0)));
    assert!(held.1.ends_with("; release the hold tape"), "{}", held.1);
    assert!(cloned.1.ends_with("; destroy or promote tank/trial"), "{}", cloned.1);

    // Two states that are not the same are told apart.
    let pool = open();
    let view = pool.view();
    let [one, other] = [1, 2].map(|hour| view.filesystem(&name("tank/home", hour)).unwrap());
    let error = rotate::compare_trees(&one, &other).unwrap_err().to_string();
    assert!(error.starts_with("the copy differs: /letters/of the year"), "{error}");
    rotate::compare_trees(&one, &one).unwrap();
    drop((one, other));
    pool.export().unwrap();
}
