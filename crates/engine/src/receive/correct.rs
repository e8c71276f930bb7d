//! A stream that makes a damaged snapshot good: nothing is received.
//!
//! The stream is of the snapshot itself, by its GUID: full, or an increment, which has a part of
//! its blocks. The data of a record is not compared with the block: a block that is intact on its
//! devices stays as it is, and a damaged one is written again if the data of the record has its
//! checksum (`pool::live::restore`). So a stream whose content was changed does no harm, and the
//! stream's own checksum need not be waited for.

use super::start::{bad, fault};
use super::{NotReceived, Phase, Run, Stream};
use crate::error::{Error, ErrorKind, Place, Result, StreamFault};
use dmu::Key;
use ondisk::Compression;
use ondisk::stream::{Begin, Body, feature};
use pool::live::{KeptBlock, LivePool, Restored, SnapshotId, WhichBlock};
use std::io::Read;
use zio::Kept;

/// Blocks and bytes that are compared at once.
const BLOCKS: usize = 1024;
const BYTES: usize = 16 << 20;

/// A block of the stream.
struct Sent {
    object: u64,
    which: WhichBlock,
    how: BlockForm,
    bytes: Vec<u8>,
}

enum BlockForm {
    Plain,
    Packed(Compression),
    Sealed,
}

impl Sent {
    /// The block that a record has; `None`: it has none, or one of another snapshot.
    fn of(body: &Body, begin: &Begin, payload: &[u8]) -> Option<Self> {
        let is_raw = begin.features() & feature::RAW != 0;
        let (object, guid, which, how) = match body {
            Body::Write(w) => {
                let which = WhichBlock::At { offset: w.offset, size: w.logical_size };
                let how = match w.compression {
                    _ if is_raw => BlockForm::Sealed,
                    0 => BlockForm::Plain,
                    how => BlockForm::Packed(Compression(how)),
                };
                (w.object, w.to_guid, which, how)
            }
            Body::Spill(s) => {
                let how = if is_raw { BlockForm::Sealed } else { BlockForm::Plain };
                (s.object, s.to_guid, WhichBlock::Spill, how)
            }
            _ => return None,
        };
        (guid == begin.to_guid).then(|| Self { object, which, how, bytes: payload.to_vec() })
    }

    fn kept(&self) -> KeptBlock<'_> {
        let kept = match self.how {
            BlockForm::Plain => Kept::Plain(&self.bytes),
            BlockForm::Packed(how) => Kept::Packed(how, &self.bytes),
            BlockForm::Sealed => Kept::Sealed(&self.bytes),
        };
        KeptBlock { object: self.object, which: self.which, kept }
    }
}

impl<R: Read> Run<'_, R> {
    /// Makes the snapshot good that is named, or that has the name of the one sent.
    pub(super) fn correct(
        &mut self,
        begin: &Begin,
        sent: &str,
    ) -> std::result::Result<(), NotReceived> {
        let target = &self.how.target;
        let destination = match (target.contains('@'), sent.split_once('@')) {
            (false, Some((_, snapshot))) => format!("{target}@{snapshot}"),
            _ => target.clone(),
        };
        let done = self.correct_snapshot(begin, sent, &destination);
        done.map_err(|error| NotReceived {
            phase: Phase::Correcting,
            destination,
            error,
            token: None,
        })
    }

    fn correct_snapshot(&mut self, begin: &Begin, sent: &str, name: &str) -> Result<()> {
        let (snapshot, key) = self.to_correct(begin, name)?;
        self.observer.begins(&Stream {
            sent: sent.to_owned(),
            destination: name.to_owned(),
            is_increment: begin.from_guid != 0,
            origin: None,
            heals: true,
        });
        let Some(pool) = self.pool else { return self.pass_over() };
        let mut sum = Restored::default();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            let record = self.reader.record().map_err(|e| fault(e, false))?;
            let body = record.ok_or_else(|| bad(StreamFault::Incomplete))?.body;
            let is_end = matches!(body, Body::End(_));
            let payload = self.reader.payload().map_err(|e| fault(e, false))?;
            bytes += payload.len();
            batch.extend(Sent::of(&body, begin, payload));
            if is_end || bytes >= BYTES || batch.len() >= BLOCKS {
                sum.add(restore(pool, snapshot, &batch, key.as_ref())?);
                batch.clear();
                bytes = 0;
            }
            if is_end {
                break;
            }
        }
        self.observer.corrected(name, &sum);
        match sum {
            Restored { left: 0, unseen: 0, .. } => Ok(()),
            Restored { left, unseen, .. } => Err(bad(StreamFault::NotCorrected { left, unseen })),
        }
    }

    /// The snapshot, and its key where that is needed.
    fn to_correct(&self, begin: &Begin, name: &str) -> Result<(SnapshotId, Option<Key>)> {
        let dsl = self.view.datasets();
        let dataset = dsl.by_name(name)?;
        let guid = dataset.phys.guid;
        if !dataset.phys.is_snapshot() || guid != begin.to_guid {
            return Err(bad(StreamFault::OtherSnapshot));
        }
        let is_raw = begin.features() & feature::RAW != 0;
        let key = match dataset.phys.bp.uses_crypt() && !is_raw {
            false => None,
            true => {
                let key = dsl.objset(&dataset)?.key().cloned();
                let place = || Place::Dataset(name.to_owned());
                Some(key.ok_or_else(|| Error::new(ErrorKind::NoKey).at(place()))?)
            }
        };
        Ok((SnapshotId { object: dataset.object, guid }, key))
    }

    /// Reads the rest of the stream.
    fn pass_over(&mut self) -> Result<()> {
        loop {
            match self.reader.record().map_err(|e| fault(e, false))? {
                Some(record) if matches!(record.body, Body::End(_)) => return Ok(()),
                Some(_) => {}
                None => return Err(bad(StreamFault::Incomplete)),
            }
        }
    }
}

fn restore(
    pool: &LivePool,
    snapshot: SnapshotId,
    batch: &[Sent],
    key: Option<&Key>,
) -> Result<Restored> {
    let blocks: Vec<_> = batch.iter().map(Sent::kept).collect();
    Ok(pool.restore_blocks(snapshot, &blocks, key)?)
}
