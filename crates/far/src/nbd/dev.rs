//! The client as a device.

use super::LINKS;
use super::core::Core;
use super::link::read_now;
use super::negotiate::Failed;
use super::reconnect::{connect_all, connecting, keep, may_write};
use super::request::{Call, Completion, DueCompletion, cut};
use super::unflushed::{Data, Sample};
use crate::lock;
use crate::name::Name;
use device::backend::{collect, deliver, deliver_write, range_within, split_refused};
use device::{
    AlignedBuf, Device, DeviceRef, Error, ErrorKind, Read, Shared, Stats, Write, WriteDevice,
    WriteDeviceRef,
};
use nbdwire::{Command, transmission};
use rt::Rt;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Writes of zeros that are shorter go as bytes.
const ZEROS_MIN: usize = 4096;
/// Smallest sector that is stated: ZFS has none below.
const SECTOR_MIN: u32 = 512;
/// Where a leaf says what it is: the list of its first label. What is there at the opening is the
/// first sample.
const LABEL: u64 = 16 << 10;
const LABEL_BYTES: usize = 4096;

/// An export of an NBD server.
struct NbdDevice {
    core: Arc<Core>,
}

/// Opens an export for reading.
///
/// # Errors
/// Why there is none.
pub(crate) fn open(name: &Name) -> Result<DeviceRef, Error> {
    Ok(NbdDevice::start(name, false)?)
}

/// Opens an export for writing, for this program alone.
///
/// # Errors
/// Why there is none.
pub(crate) fn claim(name: &Name) -> Result<WriteDeviceRef, Error> {
    Ok(NbdDevice::start(name, true)?)
}

impl NbdDevice {
    fn start(name: &Name, is_writer: bool) -> Result<Arc<Self>, Error> {
        let shown: Arc<str> = Arc::from(name.as_str());
        Self::start_kind(name, is_writer).map_err(|kind| Error::open(kind, &shown))
    }

    fn start_kind(name: &Name, is_writer: bool) -> Result<Arc<Self>, ErrorKind> {
        let lock = match is_writer {
            true => {
                let lock = lock::take(name).map_err(|e| ErrorKind::from_io(&e))?;
                Some(lock.ok_or(ErrorKind::InUse)?)
            }
            false => None,
        };
        let failed = |e| match e {
            Failed::Connection(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                ErrorKind::NoAnswer
            }
            Failed::Connection(e) if e.kind() == std::io::ErrorKind::TimedOut => {
                ErrorKind::NoAnswer
            }
            Failed::Connection(e) => ErrorKind::from_io(&e),
            Failed::Refused(why) => ErrorKind::Refused(why),
        };
        let mut links = connect_all(name, is_writer).map_err(failed)?;
        let Some(first) = links.first_mut() else { return Err(ErrorKind::Gone) };
        let agreed = first.agreed;
        let mut sample = None;
        if is_writer {
            may_write(&agreed)?;
            if agreed.size >= LABEL + LABEL_BYTES as u64 && u64::from(agreed.block) <= LABEL {
                let len = LABEL_BYTES.next_multiple_of(agreed.block as usize);
                let found = read_now(first, (LABEL, len), connecting(name));
                // What cannot be read is not a sample; whether it is of use is seen above.
                sample = found.ok().map(|found| found.to_vec());
            }
        }
        let (answers, due) = mpsc::channel::<DueCompletion>();
        let core = Arc::new(Core::new(name.clone(), agreed, is_writer, lock, answers));
        if let Some(bytes) = sample {
            core.add_sample(Sample { offset: LABEL, bytes });
        }
        let failed = |e: std::io::Error| ErrorKind::from_io(&e);
        let give = move || due.into_iter().for_each(DueCompletion::deliver);
        drop(Rt::real().spawn("nbd answers", give).map_err(failed)?);
        let own = Arc::clone(&core);
        drop(Rt::real().spawn("nbd keeper", move || keep(&own, links)).map_err(failed)?);
        Ok(Arc::new(Self { core }))
    }

    /// A range of whole blocks that has the bytes of one, and where they begin in it.
    fn widened(&self, offset: u64, len: usize) -> (u64, usize, usize) {
        let block = u64::from(self.core.agreed.block);
        let skip = (offset % block) as usize;
        (offset - skip as u64, (skip + len).next_multiple_of(block as usize), skip)
    }

    /// Asks for a range that is within the device.
    fn submit_read(
        &self,
        (offset, len): (u64, usize),
        call: Call,
        give: impl FnOnce(Result<AlignedBuf, Error>) + Send + 'static,
    ) {
        self.core.counters.begin();
        let (at, widened, skip) = self.widened(offset, len);
        let (core, arrived) = (Arc::clone(&self.core), Instant::now());
        let answer: Completion = Box::new(move |result| {
            let result = result.map(|mut bytes| {
                let mut bytes = if skip > 0 { bytes.split_off(skip) } else { bytes };
                bytes.truncate(len);
                bytes
            });
            core.counters.end(result.as_ref().map(|_| len).map_err(|_| ()), arrived.elapsed());
            give(result.map_err(|kind| Error::read(kind, &core.shown, offset, len)));
        });
        let payload = self.core.agreed.payload;
        let range = (at, widened);
        self.core.push(cut(Command::Read, range, &Data::Zeros, payload, call, answer));
    }

    /// Asks for a range that is within the device to be written.
    fn submit_write(
        &self,
        offset: u64,
        parts: Vec<Shared>,
        call: Call,
        give: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let core = Arc::clone(&self.core);
        let block = u64::from(core.agreed.block);
        if !offset.is_multiple_of(block) || !(len as u64).is_multiple_of(block) {
            let kind = ErrorKind::Refused("the server accepts whole blocks only");
            return give(Err(Error::write(kind, &core.shown, offset, len)));
        }
        core.counters.begin();
        let can_zero = core.agreed.has(transmission::WRITE_ZEROES);
        let is_zero =
            can_zero && len >= ZEROS_MIN && parts.iter().all(|part| device::is_zero(part));
        let (command, data) = match is_zero {
            true => (Command::WriteZeroes, Data::Zeros),
            false => (Command::Write, Data::Parts(parts)),
        };
        let arrived = Instant::now();
        let payload = core.agreed.payload;
        let answer: Completion = Box::new(move |result| {
            let result = result.map(|_| ());
            core.counters.end_write(result.map(|()| len).map_err(|_| ()), arrived.elapsed());
            give(result.map_err(|kind| Error::write(kind, &core.shown, offset, len)));
        });
        self.core.push(cut(command, (offset, len), &data, payload, call, answer));
    }
}

impl Device for NbdDevice {
    fn name(&self) -> &str {
        self.core.name.as_str()
    }

    fn size(&self) -> u64 {
        self.core.agreed.size
    }

    fn sector_size(&self) -> u32 {
        self.core.agreed.block.max(SECTOR_MIN)
    }

    fn ends_within(&self) -> Option<Duration> {
        // A server that is silent until its time is nearly over and breaks off then gets as much
        // once more, and a try that is under way at the end.
        let (silence, connecting) = (self.core.name.silence, connecting(&self.core.name));
        Some(silence.saturating_mul(2).saturating_add(connecting.saturating_mul(LINKS as u32)))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        buf.copy_from_slice(&self.read_new(offset, buf.len())?);
        Ok(())
    }

    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        let fail = |kind| Error::read(kind, &self.core.shown, offset, len);
        range_within(self.size(), offset, len).map_err(fail)?;
        if len == 0 {
            return Ok(AlignedBuf::default());
        }
        let (collector, tickets) = collect(&Rt::real(), 1);
        for ticket in tickets {
            self.submit_read((offset, len), Call::AtOnce, move |result| ticket.give(result));
        }
        collector.wait().pop().flatten().unwrap_or_else(|| Err(fail(ErrorKind::Gone)))
    }

    fn submit(&self, batch: Vec<Read>) {
        let mut at_once = Vec::new();
        for Read { offset, len, done } in batch {
            match range_within(self.size(), offset, len) {
                Err(kind) => {
                    at_once.push((done, Err(Error::read(kind, &self.core.shown, offset, len))));
                }
                Ok(()) if len == 0 => at_once.push((done, Ok(AlignedBuf::default()))),
                Ok(()) => {
                    let give = move |result| deliver(done, result);
                    self.submit_read((offset, len), Call::Later, give);
                }
            }
        }
        // After the others are under way, because the callbacks run on this thread.
        at_once.into_iter().for_each(|(done, result)| deliver(done, result));
    }

    fn stats(&self) -> Stats {
        self.core.counters.snapshot()
    }
}

impl WriteDevice for NbdDevice {
    fn submit_writes(&self, batch: Vec<Write>) {
        let (accepted, refused) = split_refused(self.size(), &self.core.shown, batch);
        let mut at_once = Vec::new();
        for write in accepted {
            match write.is_empty() {
                true => at_once.push(write.done),
                false => {
                    let done = write.done;
                    let give = move |result| deliver_write(done, result);
                    self.submit_write(write.offset, write.parts, Call::Later, give);
                }
            }
        }
        at_once.into_iter().for_each(|done| deliver_write(done, Ok(())));
        refused.into_iter().for_each(|(done, error)| deliver_write(done, Err(error)));
    }

    fn flush(&self) -> Result<(), Error> {
        let began = Instant::now();
        let (collector, tickets) = collect(&Rt::real(), 1);
        let mut result = Ok(());
        for ticket in tickets {
            let answer: Completion = Box::new(move |done| ticket.give(done));
            result = self.core.push_flush(answer);
        }
        let result = match result {
            Ok(()) => match collector.wait().pop().flatten() {
                Some(done) => done.map(|_| ()),
                None => Err(ErrorKind::Gone),
            },
            failed => failed,
        };
        self.core.counters.flushed(result.is_ok(), began.elapsed());
        result.map_err(|kind| Error::flush(kind, &self.core.shown))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let fail = |kind| Error::write(kind, &self.core.shown, offset, data.len());
        range_within(self.size(), offset, data.len()).map_err(fail)?;
        if data.is_empty() {
            return Ok(());
        }
        let (collector, tickets) = collect(&Rt::real(), 1);
        for ticket in tickets {
            let give = move |result| ticket.give(result);
            self.submit_write(offset, vec![Shared::copy_of(data)], Call::AtOnce, give);
        }
        collector.wait().pop().flatten().unwrap_or_else(|| Err(fail(ErrorKind::Gone)))
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

impl Drop for NbdDevice {
    fn drop(&mut self) {
        self.core.close();
    }
}
