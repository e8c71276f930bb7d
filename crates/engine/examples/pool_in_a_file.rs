//! A pool in a file: objects and files changed in one transaction, a snapshot, and reading back.
//!
//! ```console
//! $ cargo run -p engine --example pool_in_a_file -- /tmp/pool.img
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::Filesystem;
use engine::inside::device::{Options, RwFileDevice};
use engine::inside::dmu::{Hold, NewObject};
use engine::inside::ondisk::DmuType;
use engine::inside::ondisk::znode::Time;
use engine::inside::rt;
use engine::inside::zpl::write::{NewFile, NewKind};
use engine::live;
use engine::live::{CreateOptions, Devices, NewFilesystem, NewTop, TopUse, VdevSpec};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: pool_in_a_file IMAGE")?;

    // A pool of one vdev. `disk` would be written for a block device.
    let device = RwFileDevice::create(Path::new(&path), 256 << 20, &Options::default())?;
    let mut devices = Devices::new();
    devices.insert(path.clone(), Arc::new(device) as _);
    let is_file = std::env::args().nth(2).is_none();
    let spec = VdevSpec::Leaf { path, is_file };
    let tops = vec![NewTop { spec, class: TopUse::Normal }];
    let pool = live::create(&rt::Rt::real(), &CreateOptions::new("tank", tops), &devices)?;
    drop(devices);
    pool.create_filesystem("tank/data", NewFilesystem::default(), Vec::new())?;

    // Two files and an object of no file, all in one transaction: after a crash all are there, or
    // none.
    let fs = pool.filesystem("tank/data")?;
    let now = Time { seconds: 1_700_000_000, nanos: 0 };
    let tx = fs.begin(Hold::write(1 << 20))?;
    for (name, text) in [("one", "the first file"), ("two", "the second file")] {
        let new = NewFile::new(NewKind::File, 0o644, now);
        let file = fs.create_tx(&tx, fs.root_object(), name.as_bytes(), &new)?;
        fs.write_at_tx(&tx, file, 0, text.as_bytes(), now)?;
    }
    let spec = NewObject::new(DmuType::UINT64_OTHER).block_size(4096);
    let object = fs.objset().create(&tx, &spec)?;
    object.write_at(&tx, 0, &42u64.to_le_bytes())?;
    let txg = tx.txg();
    drop(tx);

    // The snapshot is durable when the call returns, and everything before it.
    pool.snapshot(&["tank/data@before".to_owned()], Vec::new())?;
    println!("txg {txg} is durable; the last is {}", pool.last_synced());
    let one = fs.root()?.lookup(b"one")?.ok_or("it is gone")?;
    fs.write_at(one.object, 0, b"THE FIRST", now)?;
    pool.sync()?;

    // Reading: the file as it is, and as it was.
    let show = |fs: &Filesystem| -> Result<String, Box<dyn Error>> {
        let node = fs.by_path(b"/one", true)?;
        let mut bytes = vec![0; usize::try_from(node.size)?];
        node.read_at(0, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    println!("now:    {}", show(&fs)?);
    let snapshot = pool.view().dsl().by_name("tank/data@before")?;
    println!("before: {}", show(&Filesystem::open(pool.view().dsl().objset(&snapshot)?)?)?);

    for t in pool.txgs() {
        println!("txg {}: {} blocks, {} bytes, {:?}", t.txg, t.blocks, t.written, t.sync);
    }
    drop((fs, object));
    Ok(pool.export()?)
}
