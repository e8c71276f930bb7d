//! The examples, which were written from the documentation alone, do what they say.
#![allow(dead_code, unreachable_pub, reason = "an example is a program of its own")]

#[path = "../examples/backup_store.rs"]
mod backup_store;
#[path = "../examples/first_pool.rs"]
mod first_pool;
#[path = "../examples/pool_in_a_file.rs"]
mod pool_in_a_file;
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
