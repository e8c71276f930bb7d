//! The rest of a stream that was cut: what a token means here, and which part of the walk is left.
//!
//! The token names the snapshot, by name and GUID, what it is an increment of, by GUID, and the
//! object and the offset of a record. The rest begins with that object: all objects before it, and
//! all blocks of it that end before the offset, were received.

use super::{Forms, SendStream};
use crate::datasets::snapshot_by_guid;
use crate::error::{Error, ErrorKind, Result, ResumeFault, Unsendable};
use dsl::{Dsl, ResumeToken};
use ondisk::nvlist::{NvList, NvValue};
use ondisk::spelling::full_name;
use ondisk::stream::{Begin, feature};
use pool::Pool;

/// Where the rest of a stream begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start {
    pub(super) object: u64,
    /// The block that the offset is in.
    pub(super) blkid: u64,
    offset: u64,
    /// Bytes that were received.
    pub(super) bytes: u64,
}

impl Start {
    /// Whether the first `end` blocks of an object are all received.
    pub(super) fn is_behind(&self, object: u64, end: u64) -> bool {
        object < self.object || (object == self.object && end <= self.blkid)
    }

    /// Says in the list behind BEGIN where the rest begins.
    pub(super) fn put_into(&self, list: &mut NvList) {
        list.set("resume_object", NvValue::U64(self.object));
        list.set("resume_offset", NvValue::U64(self.offset));
    }
}

impl<'a> SendStream<'a> {
    /// Prepares to send the rest of a stream that was cut, as the receiver's token says
    /// (`receive_resume_token`).
    ///
    /// # Errors
    /// The snapshot, or what it is an increment of, is not there any more, or is another one; or as
    /// for [`Self::new`].
    pub fn resume(pool: &'a Pool, token: &ResumeToken) -> Result<Self> {
        let refused = |fault| Error::new(ErrorKind::NotResumed(fault));
        let name = snapshot_of(token);
        let dsl = pool.datasets();
        let gone = || refused(ResumeFault::Gone(name.clone()));
        let dataset = dsl.by_name(&name).ok().filter(|found| found.phys.is_snapshot());
        let dataset = dataset.ok_or_else(gone)?;
        if dataset.phys.guid != token.to_guid {
            return Err(refused(ResumeFault::Another(name)));
        }
        let [large_blocks, embedded, compressed, raw] = token.forms;
        if token.redaction.is_some() {
            return Err(Error::new(ErrorKind::NotSent(Unsendable::RedactedRest)));
        }
        let from = match token.from_guid {
            0 => None,
            guid => {
                let lost = || refused(ResumeFault::SourceGone(guid));
                Some(earlier(&dsl, &name, guid)?.ok_or_else(lost)?)
            }
        };
        let forms = Forms { large_blocks, compressed, embedded, raw };
        let mut send = Self::among(&dsl, &name, from.as_deref(), forms)?;
        drop(dsl);
        let object = send.objset.object(token.object);
        let object = object.map_err(|e| match e.is_absent() {
            true => refused(ResumeFault::NoObject(token.object)),
            false => e.into(),
        })?;
        let blkid = token.offset.checked_div(object.dnode().block_size()).unwrap_or(0);
        let (object, offset, bytes) = (token.object, token.offset, token.bytes);
        send.start = Start { object, blkid, offset, bytes };
        let features = send.features() | feature::RESUMING;
        send.begin.version = Begin::version_of(send.begin.kind(), features);
        Ok(send)
    }
}

/// The name of the snapshot that a token is about, as names are spelled here.
#[must_use]
pub fn snapshot_of(token: &ResumeToken) -> String {
    full_name(&token.to_name)
}

/// The name of the snapshot or bookmark that a snapshot is sent as an increment of.
fn earlier(dsl: &Dsl, snapshot: &str, guid: u64) -> Result<Option<String>> {
    let path = snapshot.split('@').next().unwrap_or_default();
    if let Some(found) = snapshot_by_guid(dsl, path, guid) {
        return Ok(Some(found));
    }
    let marks = dsl.bookmarks(&dsl.by_name(path)?)?;
    Ok(marks.into_iter().find(|mark| mark.phys.guid == guid).map(|mark| mark.name))
}
