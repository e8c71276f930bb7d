//! What the threads of a device share.

use super::DiskError;
use super::answers::Answers;
use super::cache::Cache;
use super::map::Index;
use super::options::Options;
use super::recent::Recent;
use super::replay::{State as Replayed, Volume};
use super::run::Run;
use super::writer::{WriteReply, Writer};
use crate::store::StoreError;
use crate::store::client::Client;
use device::backend::Counters;
use device::{ErrorKind, WriteDone};
use parking_lot::Mutex;
use rt::Condvar;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

/// A disk that is open.
pub(super) struct Core {
    pub(super) client: Client,
    pub(super) volume: Volume,
    pub(super) name: Arc<str>,
    pub(super) options: Options,
    pub(super) counters: Counters,
    pub(super) answers: Answers,
    pub(super) cache: Option<Cache>,
    pub(super) recent: Recent<Run>,
    /// A timer will forget what was read lately.
    pub(super) is_forgetting: AtomicBool,
    /// It should have a cache, which cannot be used.
    pub(super) lacks_cache: bool,
    /// Bytes of garbage that wait for money, as it is now.
    pub(super) unpaid: AtomicU64,
    /// The writer that has taken the disk over, once the store has said who that is.
    pub(super) taken_by: OnceLock<String>,
    pub(super) state: Mutex<State>,
    /// Told of everything that a thread may wait for.
    pub(super) changed: Condvar,
    /// Told when the keeper has something to do.
    pub(super) keeper: Condvar,
}

/// How a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It works.
    Open,
    /// It is being closed: nothing is accepted any more.
    Closing,
    /// It never works again.
    Failed(ErrorKind),
}

pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) index: Index,
    /// Where the log ends for a reader.
    pub(super) next: u64,
    /// `None`: it is only read.
    pub(super) writer: Option<Writer>,
    /// What keeps other programs of this machine away.
    pub(super) lock: Option<File>,
}

impl Core {
    /// A disk at a state, for a reader.
    pub(super) fn new(
        client: Client,
        volume: Volume,
        name: &str,
        options: Options,
        state: Replayed,
        writer: Option<Writer>,
    ) -> Result<Arc<Self>, DiskError> {
        let answers = Answers::start(client.rt()).map_err(|e| DiskError::Machine(e.to_string()))?;
        let note = (state.next.saturating_sub(1), state.previous);
        let place = options.cache.as_ref();
        let cache = place.map(|place| Cache::start(place, &client, volume.uuid, note));
        // Without one it is only slower. One that another program has is as it should be.
        let is_failure = |e: &std::io::Error| e.kind() != std::io::ErrorKind::WouldBlock;
        let lacks_cache = options.lacks_cache || matches!(&cache, Some(Err(e)) if is_failure(e));
        let (changed, keeper) = (client.rt().condvar(), client.rt().condvar());
        let recent = Recent::new(client.rt());
        let state =
            State { phase: Phase::Open, index: state.index, next: state.next, writer, lock: None };
        Ok(Arc::new(Self {
            client,
            volume,
            name: Arc::from(name),
            options,
            counters: Counters::default(),
            answers,
            cache: cache.and_then(Result::ok),
            recent,
            is_forgetting: AtomicBool::new(false),
            lacks_cache,
            unpaid: AtomicU64::new(0),
            taken_by: OnceLock::new(),
            state: Mutex::new(state),
            changed,
            keeper,
        }))
    }

    /// The disk has failed for good: every waiting thread is told.
    pub(super) fn fail(&self, kind: ErrorKind) {
        let mut state = self.state.lock();
        if let Phase::Failed(_) = state.phase {
            return;
        }
        state.phase = Phase::Failed(kind);
        // It is opened anew to be used again, which needs the lock.
        state.lock = None;
        let waiting = match &mut state.writer {
            Some(writer) => writer.give_up(),
            None => Vec::new(),
        };
        drop(state);
        self.changed.notify_all();
        self.keeper.notify_all();
        self.answers.push(move || waiting.into_iter().for_each(|reply| reply(Err(kind))));
    }

    /// Bytes of a sector.
    pub(super) fn sector(&self) -> u64 {
        u64::from(self.volume.is.sector)
    }

    /// Sectors that all segments may take when something is written. Beyond them is room for what
    /// is moved while garbage is collected, and for the map.
    pub(super) fn stored_max(&self) -> u64 {
        let limit = self.limit();
        limit - (limit - self.volume.sectors()) / 4
    }

    /// The limit in sectors.
    pub(super) fn limit(&self) -> u64 {
        self.volume.is.limit.map_or(u64::MAX, |limit| limit / self.sector())
    }
}

/// The kind that a device's user gets for trouble of the store.
pub(super) fn kind_of(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::Busy | StoreError::Lost => ErrorKind::NoAnswer,
        StoreError::Denied(why) => ErrorKind::Refused(why),
        StoreError::Absent => ErrorKind::Refused("one of its objects is missing from the store"),
        StoreError::Other(_) => {
            ErrorKind::Refused("the store answers with an error; `zinc far ls` shows it")
        }
        StoreError::Exists => ErrorKind::Io { errno: libc::EIO },
    }
}

/// The same for trouble of the disk.
pub(super) fn error_kind(trouble: &DiskError) -> ErrorKind {
    match trouble {
        DiskError::Store(error) => kind_of(error),
        DiskError::Fenced(epoch) => ErrorKind::Fenced { by: *epoch },
        DiskError::NoDisk => ErrorKind::Refused("there is no disk in this store"),
        DiskError::NotEmpty(_) => ErrorKind::Refused("the store is not empty"),
        DiskError::Within(_) => ErrorKind::Refused("the store is a part of another disk"),
        DiskError::DiskExists => ErrorKind::Refused("there is a disk in this store already"),
        DiskError::Damaged(..) => {
            ErrorKind::Refused("one of its objects is damaged; `zinc far check` says more")
        }
        DiskError::Missing(..) => ErrorKind::Refused(
            "one of its objects is missing from the store; `zinc far check` says more",
        ),
        DiskError::Gone => ErrorKind::Refused("the state that was read was deleted; open it again"),
        DiskError::Older { .. } => ErrorKind::Refused(
            "its store was set back to an older state than this machine has seen; if that was \
             meant, delete the file that is named",
        ),
        DiskError::MapTooLarge { .. } => ErrorKind::OutOfMemory,
        DiskError::NoFence(_) => ErrorKind::Refused("the store does not keep two writers apart"),
        DiskError::Rule(_) => ErrorKind::Refused("a rule of the bucket removes its objects"),
        DiskError::Settings(_) => ErrorKind::Refused(
            "its name and the environment do not lead to a store; `zinc far ls` says more",
        ),
        DiskError::Machine(_) => ErrorKind::Io { errno: libc::EAGAIN },
    }
}

/// A callback of a device's user, as what a write is told.
pub(super) fn write_reply(
    core: &Arc<Core>,
    (offset, len): (u64, usize),
    done: WriteDone,
) -> WriteReply {
    let (core, began) = (Arc::clone(core), core.client.rt().now());
    core.counters.begin();
    Box::new(move |result| {
        let took = core.client.rt().now().saturating_sub(began);
        core.counters.end_write(result.map(|()| len).map_err(|_| ()), took);
        let result = result.map_err(|kind| device::Error::write(kind, &core.name, offset, len));
        device::backend::deliver_write(done, result);
    })
}
