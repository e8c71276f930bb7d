//! Whether the log ends where an object of it is absent, or the object was lost.
//!
//! What stands behind the absent place is a *witness*: its creator had found the log whole up to
//! some place, and did not begin before.
//!
//! - A segment at s: its writer knew that all places up to s − W counted.
//! - A close, and a clean seal, at s: all before s was there.
//! - Another seal says where the log goes on, which is 2W behind the end that its writer had found.
//! - A segment of a writer that the log does not name yet: that one began behind the end.
//!
//! So the segments of one window that arrive in any order, and the seals of a takeover that is
//! under way, or died, prove nothing; and nothing legal stands W places behind the end or further.
//! What was deleted lies before a checkpoint, and its place is not asked for here. Only objects
//! that are there are believed: one whose header is damaged is a witness by its place alone.

use super::DiskError;
use super::format::{CLEAN, HEADER_BYTES, Header, Kind, number_of, segment_name, segment_shard};
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, StoreError};

/// Where a log seems to end.
pub(super) struct End {
    /// The place that is absent.
    pub(super) place: u64,
    /// The number of the writer there.
    pub(super) epoch: u64,
    /// Segments that a writer has under way at most: W.
    pub(super) window: u64,
    /// What is before it was read from a checkpoint on.
    pub(super) has_checkpoint: bool,
}

/// The first place that may have been absent when the object at `seq` was created, as far as the
/// object tells; `epoch` is the writer at the end of the log.
pub(super) fn whole_before(window: u64, epoch: u64, (seq, header): (u64, Option<&Header>)) -> u64 {
    let by_place = seq.saturating_add(1).saturating_sub(window);
    let Some(header) = header else { return by_place };
    match header.kind {
        Kind::Close => seq,
        Kind::Seal if header.flags & CLEAN != 0 => seq,
        Kind::Seal => header.resume.saturating_sub(2 * window).max(by_place),
        _ if header.epoch > epoch => seq,
        _ => by_place,
    }
}

/// The object that proves that there was one where the log seems to end.
///
/// All places where something legal can be are looked at, and as many behind them, where a takeover
/// that lost its seals goes on. Of those further on, one in 256 is: they share a list. All are when
/// there is no checkpoint, and so few objects.
pub(super) fn witness(client: &Client, end: &End) -> Result<Option<String>, DiskError> {
    let End { place: end, window, epoch, has_checkpoint } = *end;
    let (prefix, after) = match has_checkpoint {
        false => ("log/".to_owned(), String::new()),
        true => (segment_shard(end), segment_name(end)),
    };
    let listed = client.names(&prefix, after)?.into_iter().filter_map(|(name, _)| number_of(&name));
    if let Some(far) = listed.filter(|seq| *seq >= end.saturating_add(window)).min() {
        return Ok(Some(segment_name(far)));
    }
    let places: Vec<u64> = (1..=2 * window).filter_map(|n| end.checked_add(n)).collect();
    let get =
        |seq: &u64| Request::Get { name: segment_name(*seq), from: 0, len: HEADER_BYTES as u64 };
    let answers = client.call_all(Urgency::Read, places.iter().map(get).collect());
    for (seq, answer) in places.into_iter().zip(answers) {
        let header = match answer {
            Ok(Response::Bytes(bytes)) => Header::decode(&bytes).ok(),
            Err(StoreError::Absent) => continue,
            Ok(_) => None,
            Err(error) => return Err(error.into()),
        };
        if whole_before(window, epoch, (seq, header.as_ref())) > end {
            return Ok(Some(segment_name(seq)));
        }
    }
    Ok(None)
}

/// Whether there is nothing at a place of the log now.
pub(super) fn is_absent(client: &Client, seq: u64) -> Result<bool, DiskError> {
    match client.call(Urgency::Read, Request::Head { name: segment_name(seq) }) {
        Err(StoreError::Absent) => Ok(true),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(false),
    }
}
