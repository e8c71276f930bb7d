//! `zdb -r` and `-O`: a file by its path, copied out or shown as an object.

use super::dump::Dump;
use super::{datasets, object};
use crate::failure::Failure;
use engine::zpl::FileKind;
use engine::{Filesystem, Pool};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Bytes copied at a time.
const CHUNK: u64 = 4 << 20;

/// The object number of a path in a dataset.
fn lookup(pool: &Pool, dataset: &str, path: &str) -> Result<engine::Node, Failure> {
    let dataset = datasets::by_name(pool, dataset)?;
    let fs = Filesystem::open(pool.dsl().objset(&dataset)?)?;
    Ok(fs.by_path(path.as_bytes(), false)?)
}

/// Prints the object of a path.
pub fn show(
    d: &mut Dump,
    pool: &Pool,
    dataset: &str,
    path: &str,
    level: u8,
) -> Result<(), Failure> {
    let number = lookup(pool, dataset, path)?.number();
    let range = object::Range::parse(&number.to_string()).into_iter().collect();
    let dataset = datasets::by_name(pool, dataset)?;
    let wanted = datasets::Wanted { level, logs: 0, objects: range };
    datasets::one(d, pool, &dataset, &wanted);
    Ok(())
}

/// Copies a file; holes stay holes, blocks that cannot be read are said and left as holes.
pub fn copy(
    d: &mut Dump,
    pool: &Pool,
    dataset: &str,
    path: &str,
    target: &Path,
) -> Result<(), Failure> {
    let node = lookup(pool, dataset, path)?;
    if node.kind() != FileKind::File {
        return Err(Failure::new(format!("{path}: not a regular file")));
    }
    let fail = |e: std::io::Error| {
        Failure::new(format!("cannot write {}", target.display())).because(e.to_string())
    };
    let size = node.size;
    d.note(format_args!("Copying object {} to {}", node.number(), target.display()));
    let mut out = File::create(target).map_err(fail)?;
    let object = node.object();
    let mut lost_bytes = 0u64;
    for s in object.segments(size)? {
        let (mut at, end) = (s.offset, s.offset.saturating_add(s.length).min(size));
        while at < end {
            let n = CHUNK.min(end - at);
            let mut bytes = vec![0; n as usize];
            object.read_at_with(at, &mut bytes, &mut |start, length, e| {
                lost_bytes = lost_bytes.saturating_add(length);
                d.fail(format_args!("bytes {start}+{length}: {e}"));
                Ok(())
            })?;
            out.seek(SeekFrom::Start(at)).and_then(|_| out.write_all(&bytes)).map_err(fail)?;
            at += n;
        }
    }
    out.set_len(size).map_err(fail)?;
    d.hold("object", node.number());
    d.hold("size", size);
    d.hold("lost", lost_bytes);
    Ok(())
}
