//! How long a stream will be.
//!
//! Of all but increments of bookmarks that know no sizes it is computed from what datasets and
//! dead lists count, as OpenZFS does: nearly all of a stream is data, so its sizes are taken for
//! those of data. Less is what indirect blocks take of them, which is a pointer for each record;
//! more are the headers.

use super::{Earlier, SendStream};
use crate::error::Result;
use dsl::{DatasetKind, PropertyContext};
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::bpobj::Space;
use ondisk::stream::{RECORD_SIZE, feature};
use rt::Progress;
use std::io;

/// Default size of the blocks of volumes.
const VOLUME_BLOCK: u64 = 16 << 10;

/// Counts what is written to it.
#[derive(Default)]
struct Count(u64);

impl io::Write for &mut Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn size(send: &SendStream<'_>, progress: &Progress) -> Result<u64> {
    let Some(space) = space(send)? else {
        let mut count = Count::default();
        send.run(&mut count, progress)?;
        return Ok(count.0);
    };
    let is_compressed = send.features() & feature::COMPRESSED != 0;
    let compressed = space.compressed.min(space.uncompressed);
    let bytes = if is_compressed { compressed } else { space.uncompressed };
    let records = space.uncompressed.checked_div(record_size(send)?).unwrap_or(0);
    let pointers = records.saturating_mul(BLKPTR_SIZE as u64);
    let headers = records.saturating_mul(RECORD_SIZE as u64);
    let ends = 2 * RECORD_SIZE as u64;
    let all = bytes.saturating_sub(pointers).saturating_add(headers).saturating_add(ends);
    Ok(all.saturating_sub(send.start.bytes))
}

/// The space written since the receiver's snapshot; `None` if that is not known.
fn space(send: &SendStream<'_>) -> Result<Option<Space>> {
    let phys = &send.dataset.phys;
    match &send.from {
        None => Ok(Some(Space {
            used: phys.referenced,
            compressed: phys.compressed,
            uncompressed: phys.uncompressed,
        })),
        Some(from) => match &from.what {
            Earlier::Snapshot(since) => {
                Ok(send.pool.datasets().space_since(&send.dataset, since)?)
            }
            Earlier::Bookmark(since) => {
                Ok(send.pool.datasets().space_since_bookmark(&send.dataset, since)?)
            }
        },
    }
}

/// The size of the records that its files have. Of volumes OpenZFS takes the default of
/// `volblocksize`, whatever theirs is.
fn record_size(send: &SendStream<'_>) -> Result<u64> {
    let dsl = send.pool.datasets();
    let head = dsl.by_name(send.dataset.name.split('@').next().unwrap_or_default())?;
    if dsl.kind(&head) == DatasetKind::Volume {
        return Ok(VOLUME_BLOCK);
    }
    let property = dsl.property(&head, &PropertyContext::default(), "recordsize")?;
    Ok(property.and_then(|property| property.number()).unwrap_or(0))
}
