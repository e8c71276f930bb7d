//! The bytes of an object into a sparse file.

use engine::Progress;
use engine::objects::Object;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Bytes read in one batch, at most (but always one block).
const BATCH_BYTES: u64 = 8 << 20;
/// Blocks read in one batch, at most.
const BATCH_BLOCKS: u64 = 1024;

/// A range of a file that could not be read.
#[derive(Clone, Debug)]
pub struct Lost {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Why.
    pub cause: String,
}

/// Why a copy of data ended early.
#[derive(Debug)]
pub enum CopyError {
    /// The target did not take it.
    Io(io::Error),
    /// A block could not be read, and losses are not accepted.
    Lost(Lost),
    /// It was told to stop.
    Cancelled,
}

impl From<io::Error> for CopyError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "{e}"),
            Self::Lost(l) => write!(f, "bytes {}+{}: {}", l.offset, l.length, l.cause),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// Copies the first `size` bytes of `object` into the empty file `out`: holes stay holes. What
/// cannot be read goes to `lost`, which says whether to go on; then it is a hole as well.
pub(super) fn copy(
    object: &Object,
    size: u64,
    out: &File,
    progress: &Progress,
    lost: &mut dyn FnMut(Lost) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    out.set_len(size)?;
    let bs = object.dnode().block_size();
    let blocks = if bs == 0 { 0 } else { size.div_ceil(bs) };
    let batch = BATCH_BYTES.checked_div(bs).unwrap_or(1).clamp(1, BATCH_BLOCKS);
    let mut range = |from: u64, to: u64, e: &dyn std::fmt::Display| {
        let offset = from.saturating_mul(bs);
        let length = to.saturating_mul(bs).min(size).saturating_sub(offset);
        lost(Lost { offset, length, cause: e.to_string() })
    };
    let mut at = 0;
    while at < blocks {
        progress.check().map_err(|_| CopyError::Cancelled)?;
        at = match object.next_block(at) {
            Ok(None) => break,
            Ok(Some(b)) if b >= blocks => break,
            Ok(Some(b)) => b,
            Err((e, resume)) => {
                let to = resume.unwrap_or(blocks).min(blocks);
                range(at, to, &e)?;
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
                    out.write_all_at(bytes, offset)?;
                    progress.add(0, bytes.len() as u64);
                }
                Ok(None) => {}
                Err(e) => range(blkid, blkid + 1, &e)?,
            }
        }
    }
    Ok(())
}
