//! The start of the stream of a snapshot: BEGIN and its list; and the errors of one that cannot be
//! read.

use super::list;
use crate::error::{Error, ErrorKind, Result, StreamFault};
use dsl::SealedStream;
use ondisk::stream::{Begin, Record, feature};
use std::io::Read;
use std::sync::Arc;
use stream::Reader;

/// The fault of a stream that cannot be read further.
pub(super) fn fault(e: stream::Error, is_first: bool) -> Error {
    use ondisk::ErrorKind as Format;
    use stream::ErrorKind as K;
    let kind = match &e.kind {
        K::Truncated if is_first => StreamFault::Unread,
        K::Truncated => StreamFault::Incomplete,
        K::Checksum { .. } => StreamFault::Checksum,
        K::Format(e) if matches!(e.kind, Format::BadMagic { .. }) => StreamFault::Magic,
        K::Format(_) => StreamFault::Record("there is no valid record"),
        K::Io(e) if e.get_ref().is_some_and(|inner| inner.is::<rt::Cancelled>()) => {
            return Error::new(ErrorKind::Cancelled);
        }
        K::Io(_) => StreamFault::Unread,
    };
    Error::new(ErrorKind::BadStream(kind)).because(e)
}

pub(super) fn bad(fault: StreamFault) -> Error {
    Error::new(ErrorKind::BadStream(fault))
}

/// How the stream of a snapshot begins.
pub(super) struct Start {
    pub(super) begin: Begin,
    /// Bytes up to the end of BEGIN, without its list.
    pub(super) at: u64,
    /// The record behind the list, where that was read.
    pub(super) first: Option<Record>,
    /// The object and the offset with which the rest of a stream begins.
    pub(super) rest: Option<(u64, u64)>,
    /// The encryption parameters of a raw stream.
    pub(super) sealed: Option<Arc<SealedStream>>,
}

impl std::ops::Deref for Start {
    type Target = Begin;

    fn deref(&self) -> &Begin {
        &self.begin
    }
}

impl Start {
    /// Reads the payload of BEGIN, if it has one.
    pub(super) fn read<R: Read>(reader: &mut Reader<R>, begin: &Begin) -> Result<Self> {
        let (begin, at) = (begin.clone(), reader.length());
        if begin.features() & (feature::RAW | feature::RESUMING) == 0 {
            return Ok(Self { begin, at, first: None, rest: None, sealed: None });
        }
        let list = reader.payload().map_err(|e| fault(e, false))?.to_vec();
        // Its checksum is that of the list too.
        let first = reader.record().map_err(|e| fault(e, false))?;
        let first = Some(first.ok_or_else(|| bad(StreamFault::Incomplete))?);
        let rest = list::start(&list);
        let sealed = match begin.features() & feature::RAW {
            0 => None,
            _ => Some(Arc::new(list::sealed(&list)?)),
        };
        Ok(Self { begin, at, first, rest, sealed })
    }
}
