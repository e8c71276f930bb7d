//! `zdb -r` and `-O`: a file by its path, copied out or shown as an object.

use super::dump::Dump;
use super::{datasets, object};
use crate::failure::Failure;
use crate::target::Output;
use engine::zpl::FileKind;
use engine::{Filesystem, Pool};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
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
    let mut out = Output::create(target)?;
    d.note(format_args!("Copying object {} to {}", node.number(), target.display()));
    let mut lost_bytes = 0u64;
    let copied = bytes(d, &node, &mut out, &mut lost_bytes);
    match copied {
        Ok(()) => out.finish(Ok(()))?,
        Err(Stop::Write(e)) => out.finish(Err(e))?,
        Err(Stop::Read(e)) => return Err(e.into()),
    }
    d.hold("object", node.number());
    d.hold("size", node.size);
    d.hold("lost", lost_bytes);
    Ok(())
}

/// Why a copy ended early.
enum Stop {
    Read(engine::dmu::Error),
    Write(io::Error),
}

impl From<engine::dmu::Error> for Stop {
    fn from(e: engine::dmu::Error) -> Self {
        Self::Read(e)
    }
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Self::Write(e)
    }
}

/// Copies the content: into a file only what is no hole, into a pipe or device all of it.
fn bytes(
    d: &mut Dump,
    node: &engine::Node,
    out: &mut Output,
    lost_bytes: &mut u64,
) -> Result<(), Stop> {
    let (object, size) = (node.object(), node.size);
    let file = out.at_any_offset()?.map(std::fs::File::try_clone).transpose()?;
    let pieces = match &file {
        Some(_) => object.segments(size)?.iter().map(|s| (s.offset, s.length)).collect(),
        None => vec![(0, size)],
    };
    for (offset, length) in pieces {
        let (mut at, end) = (offset, offset.saturating_add(length).min(size));
        while at < end {
            let n = CHUNK.min(end - at);
            let mut bytes = vec![0; n as usize];
            object.read_at_with(at, &mut bytes, &mut |start, length, e| {
                *lost_bytes = lost_bytes.saturating_add(length);
                d.fail(format_args!("bytes {start}+{length}: {e}"));
                Ok(())
            })?;
            match &file {
                Some(file) => file.write_all_at(&bytes, at)?,
                None => out.write_all(&bytes)?,
            }
            at += n;
        }
    }
    if let Some(file) = file {
        file.set_len(size)?;
    }
    Ok(())
}
