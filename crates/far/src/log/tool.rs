//! What people want to know of a disk in a store, and do with it.

use super::DiskError;
use super::format::{
    Damage, Header, Kind, Superblock, Uuid, WriterId, epoch_name, number_of, object, pin_name,
};
use super::listed::checkpoints;
use super::put::{CreateOutcome, put_and_wait};
use super::replay::{State, Volume, replay};
use super::seconds;
use super::takeover::uuid;
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, Store, StoreError};
use core::time::Duration;
use ondisk::hex;
use rt::Rt;
use std::sync::Arc;

/// Bytes of a header with a body for people.
const SMALL: u64 = 4096;

/// A writer that was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterInfo {
    /// Its number.
    pub epoch: u64,
    /// Its machine and process.
    pub who: WriterId,
    /// When it began, in seconds since 1970 by its clock.
    pub time: u64,
}

/// A pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinInfo {
    /// Its name, without what all pins begin with.
    pub name: String,
    /// The place in the log that it keeps the state before.
    pub at: u64,
    /// The writer that made it.
    pub who: WriterId,
    /// When, in seconds since 1970 by its clock.
    pub time: u64,
}

/// A disk in a store, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// What tells it from others.
    pub volume: Uuid,
    /// What it is.
    pub is: Superblock,
    /// What its log says; or why it cannot be opened.
    pub log: Result<LogState, DiskError>,
    /// The places of its checkpoints.
    pub checkpoints: Vec<u64>,
    /// Its last writers, the newest last, as far as they can be read.
    pub writers: Vec<WriterInfo>,
    /// Its pins, as far as they can be read.
    pub pins: Vec<PinInfo>,
}

/// The state of a disk, as its log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The place behind the log.
    pub next: u64,
    /// The number of its writer.
    pub epoch: u64,
    /// Its writer has ended in order.
    pub is_closed: bool,
    /// Bytes that have something in them.
    pub live: u64,
    /// Bytes of the segments that they are in.
    pub kept: u64,
    /// Those segments.
    pub segments: u64,
    /// Bytes of all objects of segments, with those that are dead and not deleted.
    pub stored: u64,
    /// Extents of the map.
    pub extents: u64,
    /// Memory that the map takes, in bytes.
    pub map_memory: u64,
}

fn read_small(client: &Client, name: &str) -> Result<Option<(Header, WriterId)>, DiskError> {
    let get = Request::Get { name: name.to_owned(), from: 0, len: SMALL };
    let bytes = match client.call(Urgency::Read, get) {
        Err(StoreError::Absent) => return Ok(None),
        Ok(Response::Bytes(bytes)) => bytes,
        Ok(_) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let found = decode_small(&bytes);
    found.map(Some).map_err(|damage| DiskError::Damaged(name.to_owned(), damage))
}

fn decode_small(bytes: &[u8]) -> Result<(Header, WriterId), Damage> {
    let header = Header::decode(bytes)?;
    let who = WriterId::decode(header.body_of(bytes)?)?;
    Ok((header, who))
}

/// What a writer said of itself; `None` when nothing is left of that.
pub(super) fn writer_of(client: &Client, epoch: u64) -> Result<Option<WriterInfo>, DiskError> {
    let found = read_small(client, &epoch_name(epoch))?;
    Ok(found.map(|(header, who)| WriterInfo { epoch: header.epoch, who, time: header.time }))
}

/// A writer in a message.
pub(super) fn described(epoch: u64, WriterId { host, pid }: &WriterId) -> String {
    format!("writer {epoch} on {host} (process {pid})")
}

/// What a writer said of itself, for a caller that does not wait: `tell` gets it, if the store has
/// it.
pub(super) fn ask_for_writer(
    client: &Client,
    epoch: u64,
    tell: impl FnOnce(WriterId) + Send + 'static,
) {
    let get = Request::Get { name: epoch_name(epoch), from: 0, len: SMALL };
    let answered = move |answer| {
        let Ok(Response::Bytes(bytes)) = answer else { return };
        if let Ok((_, who)) = decode_small(&bytes) {
            tell(who);
        }
    };
    client.submit(Urgency::Read, get, Box::new(answered));
}

/// `None` for what is damaged.
fn whole<T>(found: Result<Option<T>, DiskError>) -> Result<Option<T>, DiskError> {
    match found {
        Err(DiskError::Damaged(..)) => Ok(None),
        found => found,
    }
}

impl Overview {
    /// Looks at a disk, also at one that cannot be opened.
    ///
    /// # Errors
    /// Why there is nothing to see.
    pub fn of(
        store: Arc<dyn Store>,
        rt: &Rt,
        patience: Duration,
        memory: u64,
    ) -> Result<Self, DiskError> {
        let client = &Client::new(store, rt, patience);
        let volume = Volume::find(client)?;
        let log = match replay(client, &volume, memory) {
            Ok(state) => Ok(LogState::of(&state, &volume)),
            Err(trouble @ DiskError::Store(_)) => return Err(trouble),
            Err(trouble) => Err(trouble),
        };
        let mut writers = Vec::new();
        for (name, _) in client.names("epoch/", String::new())? {
            let Some(epoch) = number_of(&name) else { continue };
            writers.extend(whole(writer_of(client, epoch))?);
        }
        Ok(Self {
            volume: volume.uuid,
            is: volume.is,
            log,
            checkpoints: checkpoints(client, 0)?,
            writers,
            pins: pins(client)?,
        })
    }
}

impl LogState {
    fn of(state: &State, volume: &Volume) -> Self {
        let (extents, map_memory) = state.index.extents();
        let sector = u64::from(volume.is.sector);
        let (segments, kept) = state.index.kept();
        Self {
            next: state.next,
            epoch: state.epoch,
            is_closed: state.is_closed,
            live: state.index.live_sectors() * sector,
            kept: kept * sector,
            segments,
            stored: state.index.stored() * sector,
            extents,
            map_memory,
        }
    }
}

fn pins(client: &Client) -> Result<Vec<PinInfo>, DiskError> {
    let mut pins = Vec::new();
    for (name, _) in client.names("pin/", String::new())? {
        if let Some((header, who)) = whole(read_small(client, &name))? {
            let name = name.trim_start_matches("pin/").to_owned();
            pins.push(PinInfo { name, at: header.seq, who, time: header.time });
        }
    }
    Ok(pins)
}

/// Keeps the state that a disk has now from being deleted; its name.
///
/// # Errors
/// What the store did.
pub fn pin(
    store: Arc<dyn Store>,
    rt: &Rt,
    patience: Duration,
    memory: u64,
    who: &WriterId,
) -> Result<PinInfo, DiskError> {
    let client = &Client::new(store, rt, patience);
    let volume = Volume::find(client)?;
    loop {
        let state = replay(client, &volume, memory)?;
        let own = uuid(client);
        let body = who.encode();
        let mut header = Header::over(Kind::Pin, volume.uuid, own, &body);
        (header.seq, header.time) = (state.next, seconds(rt));
        let name = pin_name(&own);
        let made = put_and_wait(client, Urgency::Read, &name, &object(&header, &body))?;
        // The writer of a newer checkpoint may have looked for pins before this one was there.
        if made == CreateOutcome::Ours && checkpoints(client, state.next)?.is_empty() {
            let (name, who) = (hex::encode(&own), who.clone());
            return Ok(PinInfo { name, at: state.next, who, time: header.time });
        }
        client.call(Urgency::Read, Request::Delete { name })?;
    }
}

/// Takes a pin back; false when there is none of that name.
///
/// # Errors
/// What the store did.
pub fn unpin(
    store: Arc<dyn Store>,
    rt: &Rt,
    patience: Duration,
    name: &str,
) -> Result<bool, DiskError> {
    let client = &Client::new(store, rt, patience);
    let is_known = pins(client)?.iter().any(|pin| pin.name == name);
    if is_known {
        client.call(Urgency::Read, Request::Delete { name: format!("pin/{name}") })?;
    }
    Ok(is_known)
}
