//! Lists what changed in a file system since a snapshot, and what destroying the snapshot would
//! give back. The pool is opened for reading: nothing is written.
//!
//! ```console
//! $ cargo run -p engine --example what_changed -- /tmp/pool.img tank/home@monday
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::datasets::{Destroy, pool_of};
use engine::diff::{ChangeKind, Diff};
use engine::{Dataset, Error, ErrorKind, OpenOptions, Pool, Progress, Result};
use std::path::Path;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(image), Some(snapshot)) = (words.next(), words.next()) else {
        return Err(Error::external("usage: what_changed IMAGE SNAPSHOT"));
    };
    for line in run(Path::new(&image), &snapshot)? {
        println!("{line}");
    }
    Ok(())
}

/// A line for each change, and one for the space.
pub fn run(image: &Path, snapshot: &str) -> Result<Vec<String>> {
    let pool = Pool::open(pool_of(snapshot), &OpenOptions::in_places([image]))?;
    let (progress, mut lines) = (Progress::new(), Vec::new());
    let on_disk = |dataset: &Dataset| Ok(pool.datasets().objset(dataset)?);
    let changes = match Diff::new(&pool, snapshot, None, &on_disk, &progress) {
        Err(e) if *e.kind() == ErrorKind::NotFound => return Ok(vec!["no such snapshot".into()]),
        changes => changes?,
    };
    for change in changes {
        let change = change?;
        let path = String::from_utf8_lossy(&change.file.path).into_owned();
        lines.push(match change.kind {
            ChangeKind::Added => format!("new: {path}"),
            ChangeKind::Removed => format!("gone: {path}"),
            ChangeKind::Renamed { from } => {
                format!("{} is now {path}", String::from_utf8_lossy(&from))
            }
            ChangeKind::Modified { .. } => format!("changed: {path}"),
        });
    }
    let bytes = Destroy::new(snapshot).plan(&pool)?.reclaims(&pool)?.unwrap_or(0);
    lines.push(format!("the snapshot alone has {bytes} bytes"));
    Ok(lines)
}
