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
use super::listed::{checkpoint_list, numbers};
use crate::store::client::{Client, Urgency};
use crate::store::lists::{NameList, Names};
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

impl End {
    /// The whole log is listed.
    fn is_listed_whole(&self) -> bool {
        !self.has_checkpoint || self.segments <= LISTED_SEGMENTS
    }

    /// The list of what may stand behind it: the whole log, if it is not large, or the places that
    /// share a list with this one.
    fn list(&self) -> NameList {
        match self {
            Self { has_checkpoint: false, .. } => NameList::of("log/"),
            _ if self.is_listed_whole() => NameList::of("log/").within(LISTS),
            _ => self.list_of_shard(),
        }
    }

    fn list_of_shard(&self) -> NameList {
        NameList::behind(&segment_shard(self.place), segment_name(self.place))
    }
}

/// What stands behind the place where a log seems to end.
pub(super) struct Behind {
    /// The object that proves that there was one at that place.
    pub(super) proof: Option<String>,
    /// The checkpoints, listed at the same time.
    pub(super) checkpoints: Vec<u64>,
}

/// Looks at what stands behind an end.
///
/// Behind a writer that has ended is nothing but what later ones made, and each of those took a
/// number first. Else, of a disk that is not large, the whole log is listed. Of a large one all
/// places where something legal can be are looked at, and as many behind them, where a takeover
/// that lost its seals goes on; of those further on, one in 256 is: they share a list.
pub(super) fn look_behind(client: &Client, end: &End) -> Result<Behind, DiskError> {
    let has_ended = end.is_closed && end.epoch > 0;
    let first = if has_ended { NameList::of("epoch/") } else { end.list() };
    let lists = [first, checkpoint_list(end.place)];
    let (_, [first, checkpoints]) = client.call_and_list(Vec::new(), lists);
    let checkpoints = numbers(checkpoints)?;
    let listed = if has_ended {
        if numbers(first)?.into_iter().max().unwrap_or(0) <= end.epoch {
            return Ok(Behind { proof: None, checkpoints });
        }
        client.list(end.list())?
    } else {
        first?
    };
    Ok(Behind { proof: witness(client, end, listed)?, checkpoints })
}

/// The object that proves that there was one where the log seems to end; what it is looked for in
/// was listed, unless it has too many parts.
fn witness(client: &Client, end: &End, listed: Option<Names>) -> Result<Option<String>, DiskError> {
    let far = end.place.saturating_add(end.window);
    let numbers_of = |names: Names| names.into_iter().filter_map(|(name, _)| number_of(&name));
    let of_shard = match listed {
        Some(all) if end.is_listed_whole() => {
            let mut behind: Vec<u64> = numbers_of(all).filter(|seq| *seq > end.place).collect();
            behind.sort_unstable();
            return match behind.iter().find(|seq| **seq >= far) {
                Some(proof) => Ok(Some(segment_name(*proof))),
                None => witness_in_headers(client, end, &behind),
            };
        }
        Some(of_shard) => of_shard,
        None => client.list(end.list_of_shard())?.unwrap_or_default(),
    };
    if let Some(proof) = numbers_of(of_shard).filter(|seq| *seq >= far).min() {
        return Ok(Some(segment_name(proof)));
    }
    let places: Vec<u64> = (1..=2 * end.window).filter_map(|n| end.place.checked_add(n)).collect();
    witness_in_headers(client, end, &places)
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
