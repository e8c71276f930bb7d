//! Streams that are changed on their way from a reader to a writer.
//!
//! Records pass one by one, in the byte order that they have. A change affects all sums behind it,
//! so all are recomputed. The END of a list, and that of a package, have no sum of the bytes before
//! them, and get none.

use crate::read::{Error, Reader};
use crate::write::Writer;
use ondisk::stream::{Body, RECORD_SIZE, Record};
use std::io::{self, Read, Write};

/// Why a stream was not rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] Error),
    /// The result cannot be written.
    #[error("{0}")]
    Write(#[source] io::Error),
    /// A record cannot be changed as requested.
    #[error("send stream: byte {offset}: {what}")]
    Record {
        /// Where the record begins.
        offset: u64,
        /// Why.
        what: String,
    },
}

/// Result of rewriting a stream.
pub type RewriteResult<T> = std::result::Result<T, RewriteError>;

/// Reads a stream to its end, and writes it with what `change` makes of each record and its
/// payload; it is given where the record begins.
///
/// # Errors
/// The stream cannot be read or written, or what `change` says.
pub(crate) fn rewrite<R: Read>(
    reader: &mut Reader<R>,
    out: impl Write,
    mut change: impl FnMut(&mut Body, &mut Vec<u8>, u64) -> RewriteResult<()>,
) -> RewriteResult<()> {
    let mut writer = Writer::new(out);
    let mut payload = Vec::new();
    while let Some(record) = reader.record()? {
        let offset = reader.length().saturating_sub(RECORD_SIZE as u64);
        payload.clear();
        payload.extend_from_slice(reader.payload()?);
        let mut body = record.body;
        change(&mut body, &mut payload, offset)?;
        let list_len = match body {
            Body::Begin(_) => u32::try_from(payload.len()).unwrap_or(u32::MAX),
            _ => record.payload_len,
        };
        let record = Record::new(body, list_len);
        if record.payload_size() != payload.len() as u64 {
            let what = "its payload would not have the size that it says".to_owned();
            return Err(RewriteError::Record { offset, what });
        }
        writer.copy(record, &payload, reader.endian()).map_err(RewriteError::Write)?;
    }
    writer.flush().map_err(RewriteError::Write)
}
