//! Deduplicated streams, which older programs sent, as streams that every program receives.
//!
//! In such a stream a repeated block is a WRITE_BYREF: the snapshot, object and offset that had it.
//! The stream is read twice: first to learn which blocks are referred to, then to write it, each
//! reference as the block itself, which is read from its first place. So memory grows with the
//! number of blocks that are referred to, and with nothing else.

use crate::read::Reader;
use crate::rewrite::{RewriteError, RewriteResult, rewrite};
use ondisk::Endian;
use ondisk::stream::{Begin, Body, RECORD_SIZE, Record, Write as Block, WriteByRef, feature};
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom, Write};

/// GUID of a snapshot, object, offset.
type Place = (u64, u64, u64);

/// The counts of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Records.
    pub records: u64,
    /// Those of them that were references.
    pub references: u64,
}

fn referred(by: &WriteByRef) -> Place {
    (by.ref_guid, by.ref_object, by.ref_offset)
}

/// The blocks that are referred to, each with its place if that is known; and the byte order of the
/// stream.
fn wanted(input: impl Read) -> RewriteResult<(HashMap<Place, Option<u64>>, Endian)> {
    let mut reader = Reader::new(input);
    let mut out = HashMap::new();
    while let Some(record) = reader.record()? {
        if let Body::WriteByRef(by) = &record.body {
            out.insert(referred(by), None);
        }
    }
    Ok((out, reader.endian()))
}

/// Reads the block that begins at a byte of the stream.
fn block_at(
    file: &mut (impl Read + Seek),
    at: u64,
    endian: Endian,
) -> std::io::Result<Option<(Block, Vec<u8>)>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = [0; RECORD_SIZE];
    file.read_exact(&mut bytes)?;
    let Ok(record) = Record::decode(&bytes, endian) else { return Ok(None) };
    // It was read before, and is no larger than the largest block.
    let mut payload = vec![0; usize::try_from(record.payload_size()).unwrap_or(0)];
    file.read_exact(&mut payload)?;
    Ok(match record.body {
        Body::Write(block) => Some((block, payload)),
        _ => None,
    })
}

/// Writes a stream without references: `input` and `again` are the same file, at its beginning,
/// each with a position of its own.
///
/// # Errors
/// The stream cannot be read or written, or refers to what it does not have before.
pub fn redup<F: Read + Seek>(input: F, again: &mut F, out: impl Write) -> RewriteResult<Converted> {
    let (mut places, endian) = wanted(&mut *again)?;
    let mut count = Converted::default();
    let mut reader = Reader::new(input);
    rewrite(&mut reader, out, |body, payload, offset| {
        count.records += 1;
        match body {
            Body::Begin(begin) => *begin = without_references(begin),
            Body::Write(block) => {
                let place = (block.to_guid, block.object, block.offset);
                if let Some(at) = places.get_mut(&place) {
                    *at = Some(offset);
                }
            }
            Body::WriteByRef(by) => {
                count.references += 1;
                let bad = |what: String| RewriteError::Record { offset, what };
                let at = places.get(&referred(by)).copied().flatten();
                let at =
                    at.ok_or_else(|| bad("it refers to a block that is not there".to_owned()))?;
                let found = block_at(again, at, endian);
                let found = found.map_err(|e| bad(format!("what it refers to: {e}")))?;
                let (block, bytes) =
                    found.ok_or_else(|| bad("it refers to what is not a block".to_owned()))?;
                let (object, to_guid) = (by.object, by.to_guid);
                *payload = bytes;
                *body = Block { object, offset: by.offset, to_guid, ..block }.into();
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(count)
}

/// The BEGIN of a stream that has no references any more.
fn without_references(begin: &Begin) -> Begin {
    let features = begin.features() & !(feature::DEDUP | feature::DEDUP_PROPS);
    Begin { version: Begin::version_of(begin.kind(), features), ..begin.clone() }
}
