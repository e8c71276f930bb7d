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
use super::listed::{checkpoint_list, numbers};
use super::options::Options;
use super::put::{CreateOutcome, put_and_wait};
use super::replay::{State, Volume, go_on, replay_from};
use super::seen::{Mark, Seen};
use super::{DiskError, seconds};
use crate::store::client::{Client, Urgency};
use crate::store::lists::NameList;
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

/// Becomes the writer of the disk of a store, whichever was it before.
pub(super) fn take_over(client: &Client, options: &Options) -> Result<(Volume, Owner), DiskError> {
    let lists = [checkpoint_list(0), NameList::of("epoch/")];
    let (volume, [listed, known]) = Volume::find_and_list(client, lists)?;
    let seen = Seen::of(options.seen.as_ref(), volume.uuid);
    // Nothing is written to a disk that is damaged, or older than it was.
    let found = replay_from(client, &volume, options.map_memory, numbers(listed)?)?;
    seen.refuse_older(Mark::of(&found))?;
    let owner = become_owner(client, &volume, options, found, &known?.unwrap_or_default())?;
    seen.remember(Mark::of(&owner.state));
    Ok((volume, owner))
}

/// The same from a state on that was found; `known` are the numbers of writers, as they were then.
fn become_owner(
    client: &Client,
    volume: &Volume,
    options: &Options,
    found: State,
    known: &[(String, u64)],
) -> Result<Owner, DiskError> {
    let memory = options.map_memory;
    let writer = uuid(client);
    let numbers = known.iter().filter_map(|(name, _)| number_of(name));
    let highest = numbers.max().unwrap_or(0).max(found.epoch);
    let (epoch, number) = begin(client, volume, writer, &options.who, highest)?;
    forget_old(client, epoch, known);
    let again = volume.is.is_fenced.then(|| create_again(client, epoch, &number));
    let mut state = go_on(client, volume, memory, found)?;
    if let Some(again) = again {
        must_exist(client, epoch, again)?;
    }
    loop {
        if (state.epoch, state.writer) == (epoch, writer) {
            state.index.own();
            return Ok(Owner { epoch, writer, state });
        }
        if state.epoch >= epoch {
            return Err(DiskError::Fenced(state.epoch));
        }
        let place = state.next;
        if let Some(seal) = seal(client, volume, (epoch, writer), &state)? {
            // It was absent there, and need not be read.
            let damaged = |damage| DiskError::Damaged(segment_name(place), damage);
            state.step(volume, &seal, &[]).map_err(damaged)?;
        }
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

/// Takes a number above this one; returns it, and the object that has it.
fn begin(
    client: &Client,
    volume: &Volume,
    writer: Uuid,
    who: &WriterId,
    highest: u64,
) -> Result<(u64, Vec<u8>), DiskError> {
    let body = who.encode();
    for epoch in (highest.saturating_add(1)..).take(TRIES as usize) {
        let mut header = Header::over(Kind::Epoch, volume.uuid, writer, &body);
        (header.epoch, header.seq) = (epoch, epoch);
        header.time = seconds(client.rt());
        let bytes = object(&header, &body);
        if put_and_wait(client, Urgency::Commit, &epoch_name(epoch), &bytes)? == CreateOutcome::Ours
        {
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
/// Returns the first seal, if it was created.
fn seal(
    client: &Client,
    volume: &Volume,
    (epoch, writer): (u64, Uuid),
    state: &State,
) -> Result<Option<Header>, DiskError> {
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
        header
    };
    let all: Vec<Header> = (state.next..state.next + seals).map(seal).collect();
    let create = |header: &Header| {
        let body = vec![Shared::copy_of(&header.encode())];
        Request::Create { name: segment_name(header.seq), body }
    };
    let answers = client.call_all(Urgency::Commit, all.iter().map(create).collect());
    let is_first_ours = matches!(answers.first(), Some(Ok(_)));
    for answer in answers {
        match answer {
            // Whose it is will be read.
            Ok(_) | Err(StoreError::Exists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all.into_iter().next().filter(|_| is_first_ours))
}
