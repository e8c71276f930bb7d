//! A pool in a file, from nothing: a file system with a file, a volume, a snapshot; and read back.
//!
//! ```console
//! $ cargo run -p engine --example first_pool -- /tmp/pool.img
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::files::{NewFile, NewKind, Time};
use engine::{Create, NewPool, OpenOptions, Pool, Result, datasets};
use std::path::Path;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "pool.img".to_owned());
    run(Path::new(&path)).map(|(file, volume)| println!("{file}; {volume}"))
}

/// Makes the pool, and returns what was read back.
pub fn run(path: &Path) -> Result<(String, String)> {
    let pool = NewPool::new("tank").file(path, 256 << 20)?.create()?;
    Create::filesystem("tank/home")?.set("compression", "zstd")?.run(&pool)?;
    Create::volume("tank/disk", 16 << 20)?.sparse().run(&pool)?;

    let now = Time { seconds: 1_700_000_000, nanos: 0 };
    let home = pool.filesystem("tank/home")?;
    let new = NewFile::new(NewKind::File, 0o644, now);
    let letter = home.create(home.root_object(), b"letter", &new)?;
    home.write_at(letter.number(), 0, b"as it was", now)?;
    pool.volume("tank/disk")?.write_at(4096, b"on the volume")?;
    datasets::snapshot(&pool, &["tank/home@monday"], false, Vec::new())?;
    let later = Time { seconds: now.seconds + 60, ..now };
    home.write_at(letter.number(), 0, b"as it is!", later)?;
    drop((letter, home));
    pool.export()?;

    let pool = Pool::open("tank", &OpenOptions::in_places([path]))?;
    let (mut file, mut volume) = ([0; 9], [0; 13]);
    pool.filesystem("tank/home@monday")?.by_path(b"/letter", true)?.read_at(0, &mut file)?;
    pool.volume("tank/disk")?.read_at(4096, &mut volume)?;
    Ok((String::from_utf8_lossy(&file).into(), String::from_utf8_lossy(&volume).into()))
}
