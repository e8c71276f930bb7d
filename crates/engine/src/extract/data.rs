//! The bytes of an object into a file with holes.

use super::failure::{Failure, Lost};
use super::{ExtractObserver, Sink, TargetFile};
use crate::{Error, Progress, Result};
use dmu::Object;
use std::fmt;
use zpl::{Node, Volume};

/// Bytes read in one batch, at most (but always one block).
const BATCH_BYTES: u64 = 8 << 20;
/// Blocks read in one batch, at most.
const BATCH_BLOCKS: u64 = 1024;

/// The source of a copy, for the reports of its losses.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) object: &'a Object,
    pub(super) size: u64,
    pub(super) shown: &'a [u8],
    pub(super) observer: &'a dyn ExtractObserver,
}

/// Copies the data of `source` into `out`, an empty file of its size: holes stay holes. Ranges that
/// cannot be read are reported, and become holes as well, or else end the copy; returns the bytes
/// lost.
pub(super) fn copy(
    source: Source<'_>,
    out: &impl TargetFile,
    progress: &Progress,
) -> std::result::Result<u64, Failure> {
    let Source { object, size, .. } = source;
    let bs = object.dnode().block_size();
    let blocks = if bs == 0 { 0 } else { size.div_ceil(bs) };
    let batch = BATCH_BYTES.checked_div(bs).unwrap_or(1).clamp(1, BATCH_BLOCKS);
    let mut lost_bytes = 0u64;
    let mut lost = |from: u64, to: u64, e: &dyn fmt::Display| {
        let offset = from.saturating_mul(bs);
        let length = to.saturating_mul(bs).min(size).saturating_sub(offset);
        let lost = Lost { offset, length, cause: e.to_string() };
        lost_bytes = lost_bytes.saturating_add(length);
        match source.observer.lost(source.shown, object.number(), &lost) {
            true => Ok(()),
            false => Err(Failure::Lost(lost)),
        }
    };
    let mut at = 0;
    while at < blocks {
        progress.check()?;
        at = match object.next_block(at) {
            Ok(None) => break,
            Ok(Some(b)) if b >= blocks => break,
            Ok(Some(b)) => b,
            Err((e, resume)) => {
                let to = resume.unwrap_or(blocks).min(blocks);
                lost(at, to, &e)?;
                at = to.max(at + 1);
                continue;
            }
        };
        let n = batch.min(blocks - at);
        let got = object.read_blocks(at, n);
        at += n;
        for (blkid, block) in got {
            match block {
                Ok(Some(b)) => {
                    let offset = blkid.saturating_mul(bs);
                    let want = bs.min(size.saturating_sub(offset)) as usize;
                    let bytes = b.bytes().get(..want).unwrap_or(b.bytes());
                    out.write(offset, bytes)?;
                    progress.add(0, bytes.len() as u64);
                }
                Ok(None) => {}
                Err(e) => lost(blkid, blkid + 1, &e)?,
            }
        }
    }
    Ok(lost_bytes)
}

/// The bytes of a file or volume, to be read as far as they are not lost.
///
/// ```
/// use engine::extract::FileContent;
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::Create::volume("tank/disk", 8 << 20)?.run(&pool)?;
/// let volume = pool.volume("tank/disk")?;
/// volume.write_at(4096, b"sector")?;
/// let (content, mut bytes) = (FileContent::of_volume(&volume), [0; 6]);
/// let (read, lost) = content.read_until_lost(4096, &mut bytes)?;
/// assert_eq!((content.size(), read, &bytes), (8 << 20, 6, b"sector"));
/// assert!(lost.is_none());
/// # Ok::<(), engine::Error>(())
/// ```
pub struct FileContent<'a> {
    object: &'a Object,
    size: u64,
}

impl<'a> FileContent<'a> {
    /// Those of a regular file.
    #[must_use]
    pub fn of_file(node: &'a Node) -> Self {
        Self { object: node.object(), size: node.size }
    }

    /// Those of a volume.
    #[must_use]
    pub fn of_volume(volume: &'a Volume) -> Self {
        Self { object: volume.object(), size: volume.size() }
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads a part, up to the first block that cannot be read. Returns how many bytes were read,
    /// and what is lost behind them, as far as the part goes.
    ///
    /// # Errors
    /// There are no blocks at all.
    pub fn read_until_lost(&self, at: u64, out: &mut [u8]) -> Result<(usize, Option<Lost>)> {
        read_until_lost(self.object, at, out)
    }
}

fn read_until_lost(object: &Object, at: u64, out: &mut [u8]) -> Result<(usize, Option<Lost>)> {
    let end = at.saturating_add(out.len() as u64);
    let mut lost: Option<Lost> = None;
    object.read_at_with(at, out, &mut |block, size, e| {
        let offset = block.max(at);
        let length = block.saturating_add(size).min(end).saturating_sub(offset);
        match &mut lost {
            None => lost = Some(Lost { offset, length, cause: e.to_string() }),
            Some(lost) if lost.offset.saturating_add(lost.length) == offset => {
                lost.length = lost.length.saturating_add(length);
            }
            Some(_) => {}
        }
        Ok(())
    })?;
    let read = lost.as_ref().map_or(out.len(), |lost| lost.offset.saturating_sub(at) as usize);
    Ok((read, lost))
}

/// Copies a volume as a sparse image, in place of what was found there before; the bytes lost.
///
/// # Errors
/// A range cannot be read and the observer does not continue, the target fails, or it was
/// cancelled.
pub fn volume<S: Sink>(
    volume: &Volume,
    dir: &S,
    name: &[u8],
    replaced: Option<S::Id>,
    progress: &Progress,
    observer: &dyn ExtractObserver,
) -> Result<u64> {
    let copied = || {
        let out = dir.file(volume.size())?;
        let source = Source { object: volume.object(), size: volume.size(), shown: name, observer };
        let lost = copy(source, &out, progress)?;
        out.finish(name, replaced)?;
        Ok(lost)
    };
    let lost = copied().map_err(|e: Failure| Error::from(e))?;
    progress.add(1, 0);
    Ok(lost)
}
