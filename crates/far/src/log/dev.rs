//! A disk in a store as a device.

use super::DiskError;
use super::cache::Cache;
use super::core::{Core, Phase, error_kind, write_reply};
use super::format::Superblock;
use super::gc::Collected;
use super::listed::{checkpoint_list, numbers};
use super::options::Options;
use super::probe::{Fence, TRIALS, probe_with};
use super::replay::{Volume, replay_from};
use super::run::ReadDone;
use super::seen::{Mark, Seen};
use super::takeover::{make_disk, take_over};
use super::tool::{described, writer_of};
use super::write::{pieces_of, trims_of};
use super::writer::{WriteReply, Writer};
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, Store};
use core::time::Duration;
use device::StoreUsage;
use device::backend::{collect, deliver, delivering, range_within, split_refused};
use device::{
    AlignedBuf, Device, DeviceRef, Error, ErrorKind, Read, Shared, Stats, Write, WriteDevice,
};
use rt::Rt;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Smallest sector that is stated: smaller writes make longer maps.
const SECTOR_SAID: u32 = 4096;
/// How long the keeper rests when what is dead has to wait, or the store had trouble.
const REST: Duration = Duration::from_secs(60);

/// A disk in a store.
pub struct LogDevice {
    core: Arc<Core>,
    /// The number of the writer that had not ended when it was opened for reading.
    writer_seen: Option<u64>,
}

impl LogDevice {
    /// Makes a new disk in a store that has none. If it is to be fenced the store is tried first,
    /// and refused when its creates do not exclude one another.
    ///
    /// # Errors
    /// Why there is no new disk.
    pub fn create(
        store: Arc<dyn Store>,
        rt: &Rt,
        is: &Superblock,
        patience: Duration,
    ) -> Result<(), DiskError> {
        let client = Client::new(store, rt, patience);
        match Volume::find(&client) {
            Err(DiskError::NoDisk) => {}
            Ok(_) => return Err(DiskError::DiskExists),
            Err(trouble) => return Err(trouble),
        }
        // What is left of another log would be taken for that of the new disk.
        if let Some(object) = first_object(&client)? {
            return Err(DiskError::NotEmpty(object));
        }
        if is.is_fenced {
            match probe_with(&client)? {
                Fence::Holds => {}
                Fence::Broken(what) => return Err(DiskError::NoFence(what)),
            }
        }
        make_disk(&client, is).map(|_| ())
    }

    /// Opens the disk of a store for reading, as it is now.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn open(
        store: Arc<dyn Store>,
        name: &str,
        rt: &Rt,
        options: Options,
    ) -> Result<Arc<Self>, DiskError> {
        let client = Client::new(store, rt, options.patience);
        let (volume, [listed]) = Volume::find_and_list(&client, [checkpoint_list(0)])?;
        let seen = Seen::of(options.seen.as_ref(), volume.uuid);
        let state = replay_from(&client, &volume, options.map_memory, numbers(listed)?)?;
        seen.refuse_older(Mark::of(&state))?;
        seen.remember(Mark::of(&state));
        let writer_seen = (!state.is_closed).then_some(state.epoch);
        let core = Core::new(client, volume, name, options, state, None)?;
        Ok(Arc::new(Self { core, writer_seen }))
    }

    /// Becomes the writer of the disk of a store, whichever writer there was. `lock` is kept as
    /// long as it is.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn claim(
        store: Arc<dyn Store>,
        name: &str,
        rt: &Rt,
        options: Options,
        lock: Option<File>,
    ) -> Result<Arc<Self>, DiskError> {
        let client = Client::new(store, rt, options.patience);
        let (volume, owner) = take_over(&client, &options)?;
        let writer = Writer::new(&owner);
        let core = Core::new(client, volume, name, options, owner.state, Some(writer))?;
        core.state.lock().lock = lock;
        if core.options.is_tended {
            let own = Arc::clone(&core);
            let kept = rt.spawn("far keeper", move || keep(&own));
            drop(kept.map_err(|e| DiskError::Machine(e.to_string()))?);
        }
        Ok(Arc::new(Self { core, writer_seen: None }))
    }

    #[cfg(test)]
    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// What was asked of the store since it was opened.
    #[must_use]
    pub fn usage(&self) -> StoreUsage {
        let cache = self.core.cache.as_ref();
        let has_failed = self.core.lacks_cache || cache.is_some_and(Cache::has_failed);
        let is_fenced =
            matches!(self.core.state.lock().phase, Phase::Failed(ErrorKind::Fenced { .. }));
        StoreUsage {
            cache_failures: u64::from(has_failed),
            takeovers: u64::from(is_fenced),
            unpaid_bytes: self.core.unpaid.load(Relaxed),
            ..self.core.client.usage()
        }
    }

    /// The place of the log that it reads or writes next.
    #[must_use]
    pub fn place(&self) -> u64 {
        let state = self.core.state.lock();
        state.writer.as_ref().map_or(state.next, |writer| writer.next)
    }

    /// Makes a checkpoint of what is written until now, and deletes what may be deleted.
    ///
    /// # Errors
    /// What the store did.
    pub fn collect(&self) -> Result<Collected, DiskError> {
        let core = &self.core;
        let collected = core.with_memory(|memory| {
            memory.last = core.checkpoint(memory.last)?;
            core.collect(memory, core.options.grace)
        });
        collected.unwrap_or_else(|| Ok(Collected::default()))
    }

    /// Moves what is alive in segments of which less than a percentage is alive, up to a number of
    /// bytes; returns the bytes that were moved.
    ///
    /// # Errors
    /// What the store did.
    pub fn clean(&self, percent: u32, most: u64) -> Result<u64, DiskError> {
        let core = &self.core;
        core.with_memory(|memory| core.clean_most(memory, percent, most)).unwrap_or(Ok(0))
    }

    /// Deletes what lies in the log and belongs to nothing; lists the whole log. Returns how many
    /// objects.
    ///
    /// # Errors
    /// What the store did.
    pub fn sweep(&self) -> Result<u64, DiskError> {
        self.core.sweep()
    }

    /// Writes segments without changes and checkpoints, so that what is dead now is so in all
    /// checkpoints that are kept.
    ///
    /// # Errors
    /// What the store did.
    pub fn age(&self) -> Result<(), DiskError> {
        let core = &self.core;
        core.with_memory(|memory| core.age(memory)).unwrap_or(Ok(()))
    }

    /// It stops here, as if the power had failed: nothing more is asked or answered.
    #[cfg(test)]
    pub(super) fn stop(&self) {
        self.core.client.close();
        self.core.fail(ErrorKind::PowerLoss);
    }

    fn error(&self, kind: ErrorKind, offset: u64, len: usize) -> Error {
        Error::write(kind, &self.core.name, offset, len)
    }

    /// The writer that has the disk open on another machine. On this one locks keep writers apart,
    /// and one that was killed is known to be gone.
    fn other_machine(&self) -> Option<String> {
        let number = self.writer_seen?;
        match writer_of(&self.core.client, number) {
            Ok(Some(found)) if found.who.host == self.core.options.who.host => None,
            Ok(Some(found)) => Some(described(number, &found.who)),
            // That there was one is known.
            Ok(None) | Err(_) => Some(format!("writer {number}, of a machine that is not known,")),
        }
    }

    /// Asks for a range that is within the device to be written, or says why not.
    fn submit_write(&self, offset: u64, parts: &[Shared], reply: WriteReply) {
        let sector = self.core.sector();
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if !offset.is_multiple_of(sector) || !(len as u64).is_multiple_of(sector) {
            return reply(Err(ErrorKind::Refused("the disk accepts whole sectors only")));
        }
        self.core.change(pieces_of(&self.core, offset, parts), reply);
    }

    /// Changes, and waits until it is done.
    fn change_now(&self, change: impl FnOnce(WriteReply)) -> Result<(), ErrorKind> {
        let (collector, tickets) = collect(self.core.client.rt(), 1);
        let mut change = Some(change);
        for ticket in tickets {
            let reply: WriteReply = Box::new(move |result| ticket.give(result));
            if let Some(change) = change.take() {
                change(reply);
            }
        }
        collector.wait().pop().flatten().unwrap_or(Err(ErrorKind::Gone))
    }

    /// Gives a read to the thread that wants it.
    fn counted(
        &self,
        (offset, len): (u64, usize),
        give: impl FnOnce(Result<AlignedBuf, Error>) + Send + 'static,
    ) -> ReadDone {
        let (core, began) = (Arc::clone(&self.core), self.core.client.rt().now());
        core.counters.begin();
        Box::new(move |result| {
            let took = core.client.rt().now().saturating_sub(began);
            core.counters.end(result.as_ref().map(|_| len).map_err(|_| ()), took);
            give(result.map_err(|kind| Error::read(kind, &core.name, offset, len)));
        })
    }
}

/// An object of a store; of those that trials of it left none.
fn first_object(client: &Client) -> Result<Option<String>, DiskError> {
    let list = Request::List { prefix: String::new(), after: String::new() };
    let names = match client.call(Urgency::Read, list)? {
        Response::Names { names, .. } => names,
        _ => Vec::new(),
    };
    Ok(names.into_iter().map(|(name, _)| name).find(|name| !name.starts_with(TRIALS)))
}

/// An object of a store, whatever it is; `None` of one that is empty.
///
/// # Errors
/// What the store did.
pub fn any_object(
    store: Arc<dyn Store>,
    rt: &Rt,
    patience: Duration,
) -> Result<Option<String>, DiskError> {
    first_object(&Client::new(store, rt, patience))
}

/// Whether a store has a disk.
///
/// # Errors
/// That cannot be known.
pub fn has_disk(store: Arc<dyn Store>, rt: &Rt, patience: Duration) -> Result<bool, DiskError> {
    match Volume::find(&Client::new(store, rt, patience)) {
        Ok(_) => Ok(true),
        Err(DiskError::NoDisk) => Ok(false),
        Err(trouble) => Err(trouble),
    }
}

/// What the disk of a store is.
///
/// # Errors
/// There is none, or that cannot be known.
pub fn superblock(
    store: Arc<dyn Store>,
    rt: &Rt,
    patience: Duration,
) -> Result<Superblock, DiskError> {
    Volume::find(&Client::new(store, rt, patience)).map(|volume| volume.is)
}

/// The error of an opening that failed; it names the object that is to blame, or the file.
pub(crate) fn open_error(trouble: &DiskError, name: &str) -> Error {
    let name = match trouble {
        DiskError::Damaged(object, _) | DiskError::Missing(object, _) => {
            Arc::from(format!("{name} ({object})"))
        }
        DiskError::Older { file, .. } => Arc::from(format!("{name} ({})", file.display())),
        _ => Arc::from(name),
    };
    Error::open(error_kind(trouble), &name)
}

impl Device for LogDevice {
    fn name(&self) -> &str {
        &self.core.name
    }

    fn size(&self) -> u64 {
        self.core.volume.is.size
    }

    fn sector_size(&self) -> u32 {
        self.core.volume.is.sector.max(SECTOR_SAID)
    }

    fn ends_within(&self) -> Option<Duration> {
        // When one is given up all are.
        Some(self.core.client.answers_within(u64::from(self.core.volume.is.target)))
    }

    fn held_elsewhere(&self) -> Option<String> {
        self.core.taken_by.get().cloned().or_else(|| self.other_machine())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        buf.copy_from_slice(&self.read_new(offset, buf.len())?);
        Ok(())
    }

    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        let fail = |kind| Error::read(kind, &self.core.name, offset, len);
        range_within(self.size(), offset, len).map_err(fail)?;
        if len == 0 {
            return Ok(AlignedBuf::default());
        }
        let (collector, tickets) = collect(self.core.client.rt(), 1);
        for ticket in tickets {
            let give = self.counted((offset, len), move |result| ticket.give(result));
            self.core.submit_reads(vec![(offset, len, give)]);
        }
        collector.wait().pop().flatten().unwrap_or_else(|| Err(fail(ErrorKind::Gone)))
    }

    fn submit(&self, batch: Vec<Read>) {
        let (mut at_once, mut reads) = (Vec::new(), Vec::new());
        for Read { offset, len, done } in batch {
            match range_within(self.size(), offset, len) {
                Err(kind) => {
                    at_once.push((done, Err(Error::read(kind, &self.core.name, offset, len))));
                }
                Ok(()) if len == 0 => at_once.push((done, Ok(AlignedBuf::default()))),
                Ok(()) => {
                    let core = Arc::clone(&self.core);
                    let give = self.counted((offset, len), move |result| {
                        core.answers.push(move || deliver(done, result));
                    });
                    reads.push((offset, len, give));
                }
            }
        }
        self.core.submit_reads(reads);
        at_once.into_iter().for_each(|(done, result)| deliver(done, result));
    }

    fn stats(&self) -> Stats {
        Stats { store: Some(self.usage()), ..self.core.counters.snapshot() }
    }
}

impl WriteDevice for LogDevice {
    fn submit_writes(&self, batch: Vec<Write>) {
        let (accepted, refused) = split_refused(self.size(), &self.core.name, batch);
        for Write { offset, parts, done } in accepted {
            let len = parts.iter().map(|part| part.len()).sum();
            self.submit_write(offset, &parts, write_reply(&self.core, (offset, len), done));
        }
        for (done, error) in refused {
            device::backend::deliver_write(done, Err(error));
        }
    }

    fn keeps_order(&self) -> bool {
        // Any prefix of the log is a disk as it was.
        true
    }

    fn flush(&self) -> Result<(), Error> {
        let began = self.core.client.rt().now();
        let result = self.core.commit();
        let took = self.core.client.rt().now().saturating_sub(began);
        self.core.counters.flushed(result.is_ok(), took);
        result.map_err(|kind| Error::flush(kind, &self.core.name))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let fail = |kind| self.error(kind, offset, data.len());
        range_within(self.size(), offset, data.len()).map_err(fail)?;
        let parts = [Shared::copy_of(data)];
        self.change_now(|reply| self.submit_write(offset, &parts, reply)).map_err(fail)
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        let fail = |kind| Error::trim(kind, &self.core.name, offset, len);
        let end = offset.checked_add(len).filter(|end| *end <= self.size());
        let end = end.ok_or_else(|| fail(ErrorKind::BeyondEnd { size: self.size() }))?;
        let sector = self.core.sector();
        let (first, last) = (offset.div_ceil(sector), end / sector);
        let pieces = trims_of(first, last.saturating_sub(first));
        self.change_now(|reply| self.core.change(pieces, reply)).map_err(fail)
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

impl Drop for LogDevice {
    fn drop(&mut self) {
        let mut state = self.core.state.lock();
        let may_close = state.phase == Phase::Open && state.writer.is_some() && !delivering();
        if may_close {
            state.phase = Phase::Closing;
        }
        let since = state.writer.as_ref().map_or(0, |writer| writer.since);
        drop(state);
        self.core.keeper.notify_all();
        if may_close {
            let core = &self.core;
            // Whatever does not succeed now is left to the next writer, as after a crash.
            let _ = core.with_memory(|memory| {
                if since >= core.options.checkpoint_every / 2 {
                    let _ = core.checkpoint(memory.last);
                }
                core.notify_closed()
            });
            core.remember();
        }
        self.core.client.close();
        self.core.fail(ErrorKind::Gone);
        drop(self.core.recent.end());
        self.core.state.lock().lock = None;
    }
}

impl Core {
    /// Remembers on this machine how far the disk of this writer is.
    fn remember(&self) {
        let mark = {
            let state = self.state.lock();
            let Some(writer) = &state.writer else { return };
            if let Phase::Failed(_) = state.phase {
                // What did not count is forgotten, and so is where that began.
                return;
            }
            Mark { epoch: writer.epoch, place: writer.lowest() }
        };
        Seen::of(self.options.seen.as_ref(), self.volume.uuid).remember(mark);
    }
}

/// The keeper's thread.
fn keep(core: &Arc<Core>) {
    let mut rest_until = None;
    loop {
        let mut state = core.state.lock();
        loop {
            let since = state.writer.as_ref().map_or(0, |writer| writer.since);
            let is_full = state.writer.as_ref().is_some_and(|writer| writer.is_full);
            let now = core.client.rt().now();
            if state.phase != Phase::Open {
                return;
            }
            if is_full {
                break;
            }
            let is_resting = rest_until.is_some_and(|until| now < until);
            if !is_resting && (since >= core.options.checkpoint_every || rest_until.is_some()) {
                break;
            }
            match rest_until {
                Some(until) => drop(core.keeper.wait_until(&mut state, until)),
                None => core.keeper.wait(&mut state),
            }
        }
        drop(state);
        let done = core.with_memory(|memory| core.maintain(memory)).unwrap_or(Err(DiskError::Gone));
        core.remember();
        let is_unpaid = core.unpaid.load(Relaxed) > 0;
        let may_rest = done.is_ok_and(|done| done.waiting == 0 && done.moved == 0) && !is_unpaid;
        rest_until = (!may_rest).then(|| core.client.rt().now() + REST);
    }
}
