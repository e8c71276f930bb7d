//! How a disk gets its writer.
//!
//! A writer has a number, its *epoch*, higher than all before. It seals the places in the log where
//! the writer before it could still create segments, so that from there on nothing of that one
//! counts; the log goes on behind everything that it can have under way. `log/mod.rs` says why that
//! is enough.

use super::format::{
    CLEAN, Header, Kind, SUPER_NAME, Superblock, Uuid, WriterId, epoch_name, number_of, object,
    segment_name,
};
use super::options::Options;
use super::put::{CreateOutcome, put_and_wait};
use super::replay::{State, Volume, go_on, replay};
use super::seen::{Mark, Seen};
use super::{DiskError, seconds};
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, StoreError};
use device::Shared;
use device::backend::{Collector, collect};

/// How often a number that another one took in the meantime is tried again with the next.
const TRIES: u32 = 1000;
/// Writers that are remembered, for people.
pub(super) const WRITERS_KEPT: u64 = 16;
/// Writers that are forgotten at a time.
const FORGOTTEN_MAX: usize = 64;

/// A random number that tells volumes, writers and pins from one another.
pub(super) fn uuid(client: &Client) -> Uuid {
    let mut uuid = [0; 16];
    client.rt().fill_random(&mut uuid);
    uuid
}

/// Makes a new disk in an empty store.
pub(super) fn make_disk(client: &Client, is: &Superblock) -> Result<Volume, DiskError> {
    // What was decoded is what will be found.
    let is = Superblock::decode(&is.encode())
        .map_err(|damage| DiskError::Damaged(SUPER_NAME.to_owned(), damage))?;
    let volume = Volume { uuid: uuid(client), is };
    let body = volume.is.encode();
    let mut header = Header::over(Kind::Super, volume.uuid, uuid(client), &body);
    header.time = seconds(client.rt());
    let made = put_and_wait(client, Urgency::Commit, SUPER_NAME, &object(&header, &body))?;
    if made == CreateOutcome::Ours { Ok(volume) } else { Err(DiskError::DiskExists) }
}

/// A writer that has the disk.
pub(super) struct Owner {
    pub(super) epoch: u64,
    pub(super) writer: Uuid,
    pub(super) state: State,
}

/// Becomes the writer, whichever was it before.
pub(super) fn take_over(
    client: &Client,
    volume: &Volume,
    options: &Options,
) -> Result<Owner, DiskError> {
    let memory = options.map_memory;
    let seen = Seen::of(options.seen.as_ref(), volume.uuid);
    // Nothing is written to a disk that is damaged, or older than it was.
    let found = replay(client, volume, memory)?;
    seen.refuse_older(Mark::of(&found))?;
    let writer = uuid(client);
    let (epoch, number) = begin(client, volume, writer, &options.who)?;
    let again = volume.is.is_fenced.then(|| create_again(client, epoch, &number));
    let mut state = go_on(client, volume, memory, found)?;
    if let Some(again) = again {
        must_exist(client, epoch, again)?;
    }
    loop {
        if (state.epoch, state.writer) == (epoch, writer) {
            state.index.own();
            seen.remember(Mark::of(&state));
            return Ok(Owner { epoch, writer, state });
        }
        if state.epoch >= epoch {
            return Err(DiskError::Fenced(state.epoch));
        }
        seal(client, volume, (epoch, writer), &state)?;
        state = go_on(client, volume, memory, state)?;
    }
}

/// The answer to a create, when it is there.
type Answer = Collector<Result<Response, StoreError>>;

/// Tries to create its number a second time, the same bytes: a store that kept writers apart when
/// the disk was made may be another one by now, or be behind something that drops conditions.
fn create_again(client: &Client, epoch: u64, number: &[u8]) -> Answer {
    let (collector, tickets) = collect(client.rt(), 1);
    for ticket in tickets {
        let body = vec![Shared::copy_of(number)];
        let create = Request::Create { name: epoch_name(epoch), body };
        client.submit(Urgency::Commit, create, Box::new(move |answer| ticket.give(answer)));
    }
    collector
}

/// That must fail, unless the number was forgotten because of all the writers that came since.
fn must_exist(client: &Client, epoch: u64, again: Answer) -> Result<(), DiskError> {
    match again.wait().pop().flatten().unwrap_or(Err(StoreError::Lost)) {
        Err(StoreError::Exists) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let known = client.names("epoch/", String::new())?;
            let last = known.iter().filter_map(|(name, _)| number_of(name)).max().unwrap_or(0);
            if last > epoch {
                return Err(DiskError::Fenced(last));
            }
            let what = "an object was overwritten although it exists";
            Err(DiskError::NoFence(what.to_owned()))
        }
    }
}

/// Takes the next number; returns it, and the object that has it.
fn begin(
    client: &Client,
    volume: &Volume,
    writer: Uuid,
    who: &WriterId,
) -> Result<(u64, Vec<u8>), DiskError> {
    let body = who.encode();
    let known = client.names("epoch/", String::new())?;
    let highest = known.iter().filter_map(|(name, _)| number_of(name)).max().unwrap_or(0);
    for epoch in (highest.saturating_add(1)..).take(TRIES as usize) {
        let mut header = Header::over(Kind::Epoch, volume.uuid, writer, &body);
        (header.epoch, header.seq) = (epoch, epoch);
        header.time = seconds(client.rt());
        let bytes = object(&header, &body);
        if put_and_wait(client, Urgency::Commit, &epoch_name(epoch), &bytes)? == CreateOutcome::Ours
        {
            forget_old(client, epoch, &known);
            return Ok((epoch, bytes));
        }
    }
    Err(DiskError::Fenced(highest))
}

/// Deletes what old writers said of themselves: a disk that single commands use has many, and no
/// checkpoint with which it would be cleaned up. Not waited for: the next writer does the rest. A
/// number that is free again is too low to be of use.
fn forget_old(client: &Client, epoch: u64, known: &[(String, u64)]) {
    let is_old =
        |name: &str| number_of(name).is_some_and(|n| n.saturating_add(WRITERS_KEPT) < epoch);
    for (name, _) in known.iter().filter(|(name, _)| is_old(name)).take(FORGOTTEN_MAX) {
        let delete = Request::Delete { name: name.clone() };
        client.submit(Urgency::Later, delete, Box::new(drop));
    }
}

/// Seals the places from the end of the log on where segments of others could still come to be.
fn seal(
    client: &Client,
    volume: &Volume,
    (epoch, writer): (u64, Uuid),
    state: &State,
) -> Result<(), DiskError> {
    let window = u64::from(volume.is.window);
    let (seals, resume, flags) = match state.is_closed {
        // Nothing is under way.
        true => (1, state.next + 1, CLEAN),
        false => (window, state.next + 2 * window, 0),
    };
    let seal = |seq| {
        let mut header = Header::over(Kind::Seal, volume.uuid, writer, &[]);
        (header.epoch, header.seq, header.resume) = (epoch, seq, resume);
        (header.flags, header.time) = (flags, seconds(client.rt()));
        let body = vec![Shared::copy_of(&header.encode())];
        Request::Create { name: segment_name(seq), body }
    };
    let all = (state.next..state.next + seals).map(seal).collect();
    for answer in client.call_all(Urgency::Commit, all) {
        match answer {
            // Whose it is will be read.
            Ok(_) | Err(StoreError::Exists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
