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
//! And a writer takes its number, which is an object too, before it creates anything else: behind
//! the close of the last one there is nothing.
//!
//! So the segments of one window that arrive in any order, and the seals of a takeover that is
//! under way, or died, prove nothing; and nothing legal stands W places behind the end or further.
//! What was deleted lies before a checkpoint, and its place is not asked for here. Only objects
//! that are there are believed: one whose header is damaged is a witness by its place alone.

use super::DiskError;
use super::format::{CLEAN, HEADER_BYTES, Header, Kind, number_of, segment_name, segment_shard};
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, StoreError};

/// Segments of a disk whose log is listed whole, and the lists that this may take: a list is dearer
/// than what it takes the place of, and waited for longer.
const LISTED_SEGMENTS: usize = 3000;
const LISTS: usize = 4;
/// Headers that are asked for at once: each has a connection of its own.
const AT_ONCE: usize = 32;

/// Where a log seems to end.
pub(super) struct End {
    /// The place that is absent.
    pub(super) place: u64,
    /// The number of the writer there; 0 before the first.
    pub(super) epoch: u64,
    /// That writer has ended.
    pub(super) is_closed: bool,
    /// Segments that a writer has under way at most: W.
    pub(super) window: u64,
    /// What is before it was read from a checkpoint on.
    pub(super) has_checkpoint: bool,
    /// Segments that are known to be before it.
    pub(super) segments: usize,
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
/// Behind a writer that has ended is nothing but what later ones made, and each of those took a
/// number first. Else, of a disk that is not large, the whole log is listed. Of a large one all
/// places where something legal can be are looked at, and as many behind them, where a takeover
/// that lost its seals goes on; of those further on, one in 256 is: they share a list.
pub(super) fn witness(client: &Client, end: &End) -> Result<Option<String>, DiskError> {
    if end.is_closed && end.epoch > 0 && last_epoch(client)? <= end.epoch {
        return Ok(None);
    }
    let limit = match end {
        End { has_checkpoint: false, .. } => usize::MAX,
        End { segments, .. } if *segments <= LISTED_SEGMENTS => LISTS,
        _ => 0,
    };
    let far = end.place.saturating_add(end.window);
    if let Some(all) = client.names_within("log/", limit)? {
        let behind = all.iter().filter_map(|(name, _)| number_of(name));
        let mut behind: Vec<u64> = behind.filter(|seq| *seq > end.place).collect();
        behind.sort_unstable();
        return match behind.iter().find(|seq| **seq >= far) {
            Some(proof) => Ok(Some(segment_name(*proof))),
            None => witness_in_headers(client, end, &behind),
        };
    }
    let (shard, after) = (segment_shard(end.place), segment_name(end.place));
    let listed = client.names(&shard, after)?.into_iter().filter_map(|(name, _)| number_of(&name));
    if let Some(proof) = listed.filter(|seq| *seq >= far).min() {
        return Ok(Some(segment_name(proof)));
    }
    let places: Vec<u64> = (1..=2 * end.window).filter_map(|n| end.place.checked_add(n)).collect();
    witness_in_headers(client, end, &places)
}

/// The number of the last writer.
fn last_epoch(client: &Client) -> Result<u64, DiskError> {
    let all = client.names("epoch/", String::new())?;
    Ok(all.iter().filter_map(|(name, _)| number_of(name)).max().unwrap_or(0))
}

/// The first of these places whose object is a witness.
fn witness_in_headers(
    client: &Client,
    end: &End,
    places: &[u64],
) -> Result<Option<String>, DiskError> {
    let get =
        |seq: &u64| Request::Get { name: segment_name(*seq), from: 0, len: HEADER_BYTES as u64 };
    for some in places.chunks(AT_ONCE) {
        let answers = client.call_all(Urgency::Read, some.iter().map(get).collect());
        for (seq, answer) in some.iter().zip(answers) {
            let header = match answer {
                Ok(Response::Bytes(bytes)) => Header::decode(&bytes).ok(),
                Err(StoreError::Absent) => continue,
                Ok(_) => None,
                Err(error) => return Err(error.into()),
            };
            if whole_before(end.window, end.epoch, (*seq, header.as_ref())) > end.place {
                return Ok(Some(segment_name(*seq)));
            }
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
