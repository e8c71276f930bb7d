//! The examples, which were written from the documentation alone, do what they say.
#![allow(dead_code, unreachable_pub, reason = "an example is a program of its own")]

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
