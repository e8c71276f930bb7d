//! A pool is opened for writing with the devices of the source that its search was given.
#![allow(clippy::unwrap_used, missing_docs)]

use engine::devices::{DeviceSource, FarName, MemoryDevice, WriteDeviceRef, disk};
use engine::live::{Devices, ImportOptions};
use engine::{Create, LivePool, NewPool, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk in a new store of objects, which is a folder; its name.
fn far_disk(folder: &Path) -> PathBuf {
    let path = PathBuf::from(format!("dir://{}/store", folder.display()));
    let name = FarName::parse(&path).unwrap().unwrap();
    let is = disk::Superblock {
        size: 128 << 20,
        sector: 4096,
        target: 1 << 20,
        window: 8,
        is_fenced: true,
        limit: None,
        made_by: "a test".to_owned(),
    };
    disk::create(&name, &is).unwrap();
    path
}

/// Makes a file system in a pool that is opened by its name.
fn add(options: &ImportOptions, name: &str) {
    let pool = LivePool::open("tank", options).unwrap();
    Create::filesystem(name).unwrap().run(&pool).unwrap();
    pool.export().unwrap();
}

#[test]
fn a_pool_in_a_store_of_objects_is_opened_for_writing_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let place = far_disk(folder.path());
    NewPool::new("tank").device(&place).unwrap().create().unwrap().export().unwrap();
    let options = ImportOptions::new(OpenOptions::in_places([&place]));
    add(&options, "tank/a");
    // The options, which live on, hold no device: another source has it when it asks.
    add(&ImportOptions::new(OpenOptions::in_places([&place])), "tank/b");
    add(&options, "tank/c");
    let pool = LivePool::open("tank", &options).unwrap();
    assert!(["tank/a", "tank/b", "tank/c"].iter().all(|name| pool.filesystem(name).is_ok()));
    pool.export().unwrap();
}

#[test]
fn a_pool_on_devices_of_the_caller_is_opened_for_writing_by_its_name() {
    let memory = |name: &str| -> WriteDeviceRef { Arc::new(MemoryDevice::zeros(name, 64 << 20)) };
    let names = ["/own/0", "/own/1"];
    let table = Devices::from(names.map(|name| (name.to_owned(), memory(name))));
    let source: Arc<dyn DeviceSource> = Arc::new(table);
    let new = NewPool::new("tank").with_source(Arc::clone(&source));
    let new = names.iter().fold(new, |new, name| new.device(name).unwrap());
    new.create().unwrap().export().unwrap();
    let mut open = OpenOptions::in_places(names);
    open.search.source = source;
    let options = ImportOptions::new(open);
    add(&options, "tank/a");
    let pool = LivePool::open("tank", &options).unwrap();
    assert!(pool.filesystem("tank/a").is_ok());
    pool.export().unwrap();
}
