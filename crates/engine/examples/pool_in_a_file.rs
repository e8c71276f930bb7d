//! A pool in a file: objects and files changed in one transaction, a snapshot, and reading back.
//!
//! ```console
//! $ cargo run -p engine --example pool_in_a_file -- /tmp/pool.img
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::files::{NewFile, NewKind, Time};
use engine::objects::{DmuType, Hold, NewObject};
use engine::{Create, Error, Filesystem, NewPool, Result, datasets};
use std::path::Path;

fn main() -> Result<()> {
    let Some(path) = std::env::args().nth(1) else {
        return Err(Error::external("usage: pool_in_a_file IMAGE"));
    };
    let (now, before) = run(Path::new(&path))?;
    println!("now:    {now}\nbefore: {before}");
    Ok(())
}

/// Makes the pool; returns a file as it is, and as it was in the snapshot.
pub fn run(path: &Path) -> Result<(String, String)> {
    let pool = NewPool::new("tank").file(path, 256 << 20)?.create()?;
    Create::filesystem("tank/data")?.run(&pool)?;

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
    datasets::snapshot(&pool, &["tank/data@before"], false, Vec::new())?;
    println!("txg {txg} is durable; the last is {}", pool.last_synced());
    let one = fs.by_path(b"/one", true)?.number();
    fs.write_at(one, 0, b"THE FIRST", now)?;
    pool.sync()?;

    // Reading: the file as it is, and as it was.
    let show = |fs: &Filesystem| -> Result<String> {
        let node = fs.by_path(b"/one", true)?;
        let mut bytes = vec![0; node.size as usize];
        node.read_at(0, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let shown = (show(&fs)?, show(&pool.view().filesystem("tank/data@before")?)?);

    for t in pool.txgs() {
        println!("txg {}: {} blocks, {} bytes, {:?}", t.txg, t.blocks, t.written, t.sync);
    }
    drop((fs, object));
    pool.export()?;
    Ok(shown)
}
