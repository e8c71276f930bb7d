//! The examples, which were written from the documentation alone, do what they say.
#![allow(dead_code, unreachable_pub, reason = "an example is a program of its own")]

#[path = "../examples/first_pool.rs"]
mod first_pool;
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
fn what_changed_since_a_snapshot_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("pool.img");
    first_pool::run(&image).unwrap();
    let lines = what_changed::run(&image, "tank/home@monday").unwrap();
    assert_eq!(lines[0], "changed: /tank/home/letter");
    assert!(lines[1].starts_with("the snapshot alone has "), "{lines:?}");
    assert_eq!(what_changed::run(&image, "tank/home@never").unwrap(), ["no such snapshot"]);
}
