//! `zdb -r` and `-O`: a file by its path, copied out or shown as an object.

use super::dump::Dump;
use super::{datasets, object};
use crate::{Error, Result};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::zpl::FileKind;
use engine::{Dataset, Filesystem, Node, Pool};
use std::io;
use std::os::unix::fs::FileExt as _;

/// Bytes copied at a time.
const CHUNK: u64 = 4 << 20;

/// What a file is copied into.
pub trait Target: io::Write {
    /// The file, empty, to be written at any offset; `None` when it takes bytes only in order.
    ///
    /// # Errors
    /// It cannot be emptied.
    fn at_any_offset(&mut self) -> io::Result<Option<&std::fs::File>>;
}

/// A file of a dataset.
pub struct File {
    dataset: Dataset,
    node: Node,
}

impl File {
    /// The file that has this path in a dataset.
    ///
    /// # Errors
    /// There is none, or what leads to it cannot be read.
    pub fn find(pool: &Pool, dataset: &str, path: &str) -> Result<Self> {
        let dataset = datasets::by_name(pool, dataset, false)?;
        let fs = Filesystem::open(pool.dsl().objset(&dataset)?)?;
        let node = fs.by_path(path.as_bytes(), false)?;
        Ok(Self { dataset, node })
    }

    /// Prints its object; `level` as with `-d`.
    pub fn show(&self, d: &mut Dump<'_>, pool: &Pool, level: u8) {
        let objects = vec![object::Range::one(self.node.number())];
        datasets::one(
            d,
            pool,
            &self.dataset,
            &datasets::DumpOptions { level, objects, ..Default::default() },
        );
    }

    /// Copies it. Holes stay holes; blocks that cannot be read are reported and left as holes.
    ///
    /// # Errors
    /// [`Error::NotAFile`]; [`Error::Write`] from `target`; the file as a whole cannot be read.
    pub fn copy(&self, d: &mut Dump<'_>, target: &mut dyn Target) -> Result<()> {
        let lost_bytes = self.copy_bytes(d, target)?;
        d.hold("object", self.number());
        d.hold("size", self.node.size);
        d.hold("lost", lost_bytes);
        Ok(())
    }

    /// Its object's number.
    pub fn number(&self) -> u64 {
        self.node.number()
    }

    /// Whether it has content that can be copied.
    pub fn is_regular(&self) -> bool {
        self.node.kind() == FileKind::File
    }

    /// Copies the content: into a file without the holes, into a pipe or device all of it. Gives
    /// the bytes that were lost.
    fn copy_bytes(&self, d: &mut Dump<'_>, target: &mut dyn Target) -> Result<u64> {
        let (object, size) = (self.node.object(), self.node.size);
        let mut lost_bytes = 0u64;
        let file = target.at_any_offset().and_then(|f| f.map(std::fs::File::try_clone).transpose());
        let file = file.map_err(Error::Write)?;
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
                    lost_bytes = lost_bytes.saturating_add(length);
                    d.fail(format_args!("bytes {start}+{length}: {e}"));
                    Ok(())
                })?;
                let written = match &file {
                    Some(file) => file.write_all_at(&bytes, at),
                    None => target.write_all(&bytes),
                };
                written.map_err(Error::Write)?;
                at += n;
            }
        }
        if let Some(file) = file {
            file.set_len(size).map_err(Error::Write)?;
        }
        Ok(lost_bytes)
    }
}
