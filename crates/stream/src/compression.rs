//! Blocks of a stream in another compression.
//!
//! A WRITE has the compression of its payload; 0 means none. Blocks that are compressed have whole
//! sectors, with zeros behind the algorithm's output.
//!
//! Blocks of a raw stream stay as they are: an encrypted block cannot be compressed otherwise, and
//! any other is covered by a MAC that needs the key.

use crate::read::Reader;
use crate::rewrite::{RewriteError, RewriteResult, rewrite};
use codec::compress::{self, Algorithm};
use ondisk::stream::{self, Body, feature};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Size of a sector.
const SECTOR: usize = 512;

/// The outcome for a block that was to be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decompressed {
    /// It was.
    Done,
    /// It says now that it is not compressed; its bytes are what they were.
    Reset,
    /// It is not a block of that compression, and was left as it is.
    Failed,
}

/// Notes whether what follows is raw, where a stream begins.
fn note_raw(is_raw: &mut bool, body: &Body) {
    if let Body::Begin(begin) = body {
        *is_raw = begin.features() & feature::RAW != 0;
    }
}

/// The bytes of a block. `None`: it is damaged, or claims to be larger than any.
fn unpacked(algorithm: Algorithm, packed: &[u8], size: u64) -> Option<Vec<u8>> {
    if size > stream::BLOCK_MAX {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    compress::decompress(algorithm, packed, &mut bytes).ok()?;
    Some(bytes)
}

fn set(write: &mut stream::Write, algorithm: Algorithm, payload: &[u8]) {
    (write.compression, write.compressed_size) = match algorithm {
        Algorithm::Off => (0, 0),
        algorithm => (algorithm.number(), payload.len() as u64),
    };
}

/// Compresses all blocks of a stream with `to`, unless that makes them no shorter. Those of a raw
/// stream stay as they are.
///
/// # Errors
/// The stream cannot be read or written, or a block in it is damaged.
pub fn recompress<R: Read>(
    reader: &mut Reader<R>,
    out: impl Write,
    to: Algorithm,
) -> RewriteResult<()> {
    let mut is_raw = false;
    rewrite(reader, out, |body, payload, offset| {
        note_raw(&mut is_raw, body);
        let Body::Write(write) = body else { return Ok(()) };
        if is_raw {
            return Ok(());
        }
        if write.compression != 0 {
            let was = compress::from_number(write.compression);
            let plain = was.and_then(|was| unpacked(was, payload, write.logical_size));
            *payload = plain.ok_or_else(|| {
                let (object, at) = (write.object, write.offset);
                let what =
                    format!("object {object}, offset {at}: the block cannot be decompressed");
                RewriteError::Record { offset, what }
            })?;
        }
        let packed = match to {
            Algorithm::Off => None,
            to => compress::compress(to, payload),
        };
        let packed = packed.map(|mut packed| {
            packed.resize(packed.len().next_multiple_of(SECTOR), 0);
            packed
        });
        match packed.filter(|packed| packed.len() < payload.len()) {
            Some(packed) => {
                *payload = packed;
                set(write, to, payload);
            }
            None => set(write, Algorithm::Off, payload),
        }
        Ok(())
    })
}

/// Decompresses blocks whatever their headers have: those at these objects and offsets, which are
/// compressed so; [`Algorithm::Off`] only marks them as not compressed. `report` gets the outcome
/// of each, by object and offset. Those of a raw stream stay as they are.
///
/// # Errors
/// The stream cannot be read or written.
pub fn decompress<R: Read>(
    reader: &mut Reader<R>,
    out: impl Write,
    blocks: &BTreeMap<(u64, u64), Algorithm>,
    mut report: impl FnMut((u64, u64), Decompressed),
) -> RewriteResult<()> {
    let mut is_raw = false;
    rewrite(reader, out, |body, payload, _| {
        note_raw(&mut is_raw, body);
        let Body::Write(write) = body else { return Ok(()) };
        let at = (write.object, write.offset);
        let Some(algorithm) = blocks.get(&at) else { return Ok(()) };
        let is_whole = payload.len() as u64 == write.logical_size;
        let done = match algorithm {
            _ if is_raw => Decompressed::Failed,
            Algorithm::Off if is_whole => Decompressed::Reset,
            Algorithm::Off => Decompressed::Failed,
            algorithm => match unpacked(*algorithm, payload, write.logical_size) {
                Some(plain) => {
                    *payload = plain;
                    Decompressed::Done
                }
                None => Decompressed::Failed,
            },
        };
        if done != Decompressed::Failed {
            set(write, Algorithm::Off, payload);
        }
        report(at, done);
        Ok(())
    })
}
