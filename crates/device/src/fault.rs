//! A device that fails at given places. For tests.
//!
//! Faults are put in by hand and work on byte ranges: a read, or a write, that touches the range
//! meets the fault; those of flushes have no range. Each may be *transient* (gone after some
//! requests) or *persistent*, and may begin only after some requests have passed, so that a test
//! can count the point of failure through a whole body of work.

use crate::{
    Device, DeviceRef, Displacement, Error, ErrorKind, Operation, Read, Shared, Stats, Write,
    WriteDevice, WriteDeviceRef, WriteDone, complete,
};
use core::ops::Range;
use core::time::Duration;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

/// The effect on a request that touches the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Fail(ErrorKind),
    Flip(u8),
    Zero,
    /// Of writes and flushes: success is claimed and nothing done.
    Lose,
}

/// One fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The operation that it affects.
    operation: Operation,
    range: Range<u64>,
    effect: Effect,
    /// Requests of the range that still pass before it begins.
    after: u64,
    /// Requests it still hits.
    times: u64,
}

impl Fault {
    fn new(operation: Operation, range: Range<u64>, effect: Effect) -> Self {
        Self { operation, range, effect, after: 0, times: u64::MAX }
    }

    /// Reads that touch the range fail.
    #[must_use]
    pub fn fail(range: Range<u64>, kind: ErrorKind) -> Self {
        Self::new(Operation::Read, range, Effect::Fail(kind))
    }

    /// The range's bytes come back with these bits flipped.
    #[must_use]
    pub fn flip(range: Range<u64>, bits: u8) -> Self {
        Self::new(Operation::Read, range, Effect::Flip(bits))
    }

    /// The range's bytes come back as zeros, as those of a write that was lost.
    #[must_use]
    pub fn zero(range: Range<u64>) -> Self {
        Self::new(Operation::Read, range, Effect::Zero)
    }

    /// Writes that touch the range fail, and nothing of them is written.
    #[must_use]
    pub fn fail_writes(range: Range<u64>, kind: ErrorKind) -> Self {
        Self::new(Operation::Write, range, Effect::Fail(kind))
    }

    /// Writes that touch the range succeed, but their bytes in the range are not written.
    #[must_use]
    pub fn lose_writes(range: Range<u64>) -> Self {
        Self::new(Operation::Write, range, Effect::Lose)
    }

    /// The range's bytes are written with these bits flipped.
    #[must_use]
    pub fn flip_writes(range: Range<u64>, bits: u8) -> Self {
        Self::new(Operation::Write, range, Effect::Flip(bits))
    }

    /// Flushes fail.
    #[must_use]
    pub fn fail_flushes(kind: ErrorKind) -> Self {
        Self::new(Operation::Flush, 0..u64::MAX, Effect::Fail(kind))
    }

    /// Flushes succeed without having been made.
    #[must_use]
    pub fn lose_flushes() -> Self {
        Self::new(Operation::Flush, 0..u64::MAX, Effect::Lose)
    }

    /// It lets this many requests of the range pass first.
    #[must_use]
    pub fn after(mut self, requests: u64) -> Self {
        self.after = requests;
        self
    }

    /// It is gone after this many requests.
    #[must_use]
    pub fn times(mut self, requests: u64) -> Self {
        self.times = requests;
        self
    }

    /// Counts a request for `len` bytes at `offset`; the effect, if it is hit.
    fn hit(
        &mut self,
        operation: Operation,
        offset: u64,
        len: usize,
    ) -> Option<(Range<u64>, Effect)> {
        let end = offset.saturating_add(len as u64);
        let common = self.range.start.max(offset)..self.range.end.min(end);
        if operation != self.operation || common.is_empty() || self.times == 0 {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        self.times = self.times.saturating_sub(u64::from(self.times != u64::MAX));
        Some((common, self.effect))
    }
}

/// A device with faults.
pub struct FaultDevice {
    inner: DeviceRef,
    name: Arc<str>,
    faults: Mutex<Vec<Fault>>,
}

/// The effects on one request, in the order the faults were added.
type Effects = Vec<(Range<u64>, Effect)>;

impl FaultDevice {
    /// The device, without faults yet.
    #[must_use]
    pub fn new(inner: DeviceRef) -> Self {
        let name = Arc::from(inner.name());
        Self { inner, name, faults: Mutex::default() }
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.faults.lock().push(fault);
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.faults.lock().clear();
    }

    fn effects(&self, operation: Operation, offset: u64, len: usize) -> Effects {
        let mut faults = self.faults.lock();
        faults.iter_mut().filter_map(|fault| fault.hit(operation, offset, len)).collect()
    }
}

/// The error a request meets before it starts.
fn failure(effects: &Effects) -> Option<ErrorKind> {
    effects.iter().find_map(|(_, effect)| match effect {
        Effect::Fail(kind) => Some(*kind),
        _ => None,
    })
}

/// Damages what was read from `offset` on, or is to be written there.
fn damage(effects: &Effects, offset: u64, buf: &mut [u8]) {
    for (range, effect) in effects {
        let at = |position: u64| usize::try_from(position - offset).unwrap_or(usize::MAX);
        let Some(part) = buf.get_mut(at(range.start)..at(range.end)) else { continue };
        match effect {
            Effect::Flip(bits) => part.iter_mut().for_each(|byte| *byte ^= bits),
            Effect::Zero => part.fill(0),
            Effect::Fail(_) | Effect::Lose => {}
        }
    }
}

impl Device for FaultDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn is_rotating(&self) -> bool {
        self.inner.is_rotating()
    }

    fn displaced(&self) -> Option<Displacement> {
        self.inner.displaced()
    }

    fn ends_within(&self) -> Option<Duration> {
        self.inner.ends_within()
    }

    fn follow(&self, place: &Path) -> bool {
        self.inner.follow(place)
    }

    fn accept_size(&self) -> bool {
        self.inner.accept_size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let effects = self.effects(Operation::Read, offset, buf.len());
        if let Some(kind) = failure(&effects) {
            return Err(Error::read(kind, &self.name, offset, buf.len()));
        }
        self.inner.read(offset, buf)?;
        damage(&effects, offset, buf);
        Ok(())
    }

    fn submit(&self, batch: Vec<Read>) {
        let mut passed = Vec::with_capacity(batch.len());
        let mut failed = Vec::new();
        for Read { offset, len, done } in batch {
            let effects = self.effects(Operation::Read, offset, len);
            if let Some(kind) = failure(&effects) {
                failed.push((done, Error::read(kind, &self.name, offset, len)));
                continue;
            }
            let done = Box::new(move |mut result: Result<crate::AlignedBuf, Error>| {
                if let Ok(buf) = &mut result {
                    damage(&effects, offset, buf);
                }
                done(result);
            });
            passed.push(Read { offset, len, done });
        }
        if !passed.is_empty() {
            self.inner.submit(passed);
        }
        for (done, error) in failed {
            complete::deliver(done, Err(error));
        }
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

/// A [`FaultDevice`] that can be written to, where it does not fail.
pub struct RwFaultDevice {
    faults: FaultDevice,
    inner: WriteDeviceRef,
    /// As of a file.
    flush_failed: Mutex<Option<ErrorKind>>,
}

impl RwFaultDevice {
    /// The device, without faults yet.
    #[must_use]
    pub fn new(inner: WriteDeviceRef) -> Self {
        let faults = FaultDevice::new(Arc::clone(&inner).as_device());
        Self { faults, inner, flush_failed: Mutex::default() }
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.faults.clear();
    }

    /// The writes that are really made instead of one that meets faults; `None` for nothing at all.
    fn meet(&self, offset: u64, parts: &[Shared]) -> Result<WriteOutcome, ErrorKind> {
        let len = parts.iter().map(|part| part.len()).sum();
        let effects = self.faults.effects(Operation::Write, offset, len);
        if let Some(kind) = failure(&effects) {
            return Err(kind);
        }
        if effects.is_empty() {
            return Ok(WriteOutcome::Unharmed);
        }
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        damage(&effects, offset, &mut bytes);
        // Lost ranges are cut out; the pieces between are written.
        let mut pieces = Vec::new();
        let mut lost: Vec<Range<u64>> = effects
            .into_iter()
            .filter_map(|(range, effect)| (effect == Effect::Lose).then_some(range))
            .collect();
        lost.sort_by_key(|range| range.start);
        let end = offset + len as u64;
        let mut from = offset;
        for range in lost.into_iter().chain(core::iter::once(end..end)) {
            if range.start > from {
                let part = (from - offset) as usize..(range.start - offset) as usize;
                pieces.push((from, Shared::copy_of(&bytes[part])));
            }
            from = from.max(range.end);
        }
        Ok(WriteOutcome::Pieces(pieces))
    }
}

/// The outcome of a write.
enum WriteOutcome {
    /// It is made as it is.
    Unharmed,
    /// Only these pieces are written.
    Pieces(Vec<(u64, Shared)>),
}

/// A write that was cut into pieces.
struct Pieces {
    /// Those that are not done.
    left: usize,
    done: WriteDone,
    result: Result<(), Error>,
}

/// One piece is done; the last one ends the write.
fn piece_done(pieces: &Mutex<Option<Pieces>>, result: Result<(), Error>) {
    let mut slot = pieces.lock();
    let Some(mut all) = slot.take() else { return };
    all.left -= 1;
    all.result = all.result.and(result);
    if all.left > 0 {
        *slot = Some(all);
        return;
    }
    // The callback may come back to this device.
    drop(slot);
    (all.done)(all.result);
}

impl Device for RwFaultDevice {
    fn name(&self) -> &str {
        self.faults.name()
    }

    fn size(&self) -> u64 {
        self.faults.size()
    }

    fn size_now(&self) -> u64 {
        self.inner.size_now()
    }

    fn sector_size(&self) -> u32 {
        self.faults.sector_size()
    }

    fn is_rotating(&self) -> bool {
        self.faults.is_rotating()
    }

    fn ends_within(&self) -> Option<Duration> {
        self.faults.ends_within()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.faults.read(offset, buf)
    }

    fn submit(&self, batch: Vec<Read>) {
        self.faults.submit(batch);
    }

    fn stats(&self) -> Stats {
        self.faults.stats()
    }
}

impl WriteDevice for RwFaultDevice {
    fn submit_writes(&self, batch: Vec<Write>) {
        let mut passed = Vec::with_capacity(batch.len());
        let mut ended = Vec::new();
        for write in batch {
            let (offset, len) = (write.offset, write.len());
            if offset.checked_add(len as u64).is_none_or(|end| end > self.size()) {
                // The device below reports the error.
                passed.push(write);
                continue;
            }
            match self.meet(offset, &write.parts) {
                Err(kind) => {
                    ended.push((
                        write.done,
                        Err(Error::write(kind, &self.faults.name, offset, len)),
                    ));
                }
                Ok(WriteOutcome::Unharmed) => passed.push(write),
                Ok(WriteOutcome::Pieces(pieces)) if pieces.is_empty() => {
                    ended.push((write.done, Ok(())));
                }
                Ok(WriteOutcome::Pieces(pieces)) => {
                    let all = Pieces { left: pieces.len(), done: write.done, result: Ok(()) };
                    let all = Arc::new(Mutex::new(Some(all)));
                    passed.extend(pieces.into_iter().map(|(offset, part)| {
                        let all = Arc::clone(&all);
                        let done = Box::new(move |result| piece_done(&all, result));
                        Write { offset, parts: vec![part], done }
                    }));
                }
            }
        }
        if !passed.is_empty() {
            self.inner.submit_writes(passed);
        }
        for (done, result) in ended {
            complete::deliver_write(done, result);
        }
    }

    fn flush(&self) -> Result<(), Error> {
        let effects = self.faults.effects(Operation::Flush, 0, 1);
        let mut failed = self.flush_failed.lock();
        *failed = failed.or(failure(&effects));
        if let Some(kind) = *failed {
            return Err(Error::flush(kind, &self.faults.name));
        }
        if effects.iter().any(|(_, effect)| *effect == Effect::Lose) {
            return Ok(());
        }
        drop(failed);
        self.inner.flush()
    }

    fn forget_failed_flush(&self) {
        *self.flush_failed.lock() = None;
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut results = crate::write_batch(self, vec![(offset, vec![Shared::copy_of(data)])]);
        let gone = || Err(Error::write(ErrorKind::Gone, &self.faults.name, offset, data.len()));
        results.pop().unwrap_or_else(gone)
    }

    fn grow(&self) {
        self.inner.grow();
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        let whole = usize::try_from(len).unwrap_or(usize::MAX);
        // A fault that keeps a write from happening keeps a trim from it.
        match failure(&self.faults.effects(Operation::Write, offset, whole)) {
            Some(kind) => Err(Error::trim(kind, &self.faults.name, offset, len)),
            None => self.inner.trim(offset, len),
        }
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, read_batch, read_one};

    const EIO: ErrorKind = ErrorKind::Io { errno: libc::EIO };

    fn device(faults: impl IntoIterator<Item = Fault>) -> FaultDevice {
        let device = FaultDevice::new(Arc::new(MemoryDevice::from_bytes("m", &[1; 100])));
        faults.into_iter().for_each(|fault| device.add(fault));
        device
    }

    #[test]
    fn only_reads_that_touch_the_range_are_hit() {
        let device = device([Fault::fail(10..20, EIO)]);
        let ranges = [(0, 10), (0, 11), (19, 1), (20, 5), (15, 0)];
        let results = read_batch(&device, &ranges);
        let failed: Vec<bool> = results.iter().map(Result::is_err).collect();
        assert_eq!(failed, [false, true, true, false, false]);
        for ((offset, len), failed) in ranges.into_iter().zip(failed) {
            assert_eq!(read_one(&device, offset, len).is_err(), failed);
        }
        device.clear();
        assert!(read_one(&device, 0, 100).is_ok());
    }

    #[test]
    fn damage_stays_inside_the_range() {
        let device = device([Fault::flip(2..4, 0x81), Fault::zero(5..1000)]);
        let want = [1, 1, 0x80, 0x80, 1, 0, 0];
        assert_eq!(read_one(&device, 0, 7).map(|b| b.to_vec()), Ok(want.to_vec()));
        let results = read_batch(&device, &[(3, 3), (90, 10)]);
        assert_eq!(results[0].as_ref().map(|b| b.to_vec()), Ok(want[3..6].to_vec()));
        assert_eq!(results[1].as_ref().map(|b| b.to_vec()), Ok(vec![0; 10]));
    }

    #[test]
    fn transient_faults_begin_and_end() {
        let device = device([Fault::fail(0..100, EIO).after(2).times(3)]);
        let failed: Vec<bool> = (0..7).map(|_| read_one(&device, 0, 1).is_err()).collect();
        assert_eq!(failed, [false, false, true, true, true, false, false]);
    }

    fn writable(faults: impl IntoIterator<Item = Fault>) -> (Arc<MemoryDevice>, RwFaultDevice) {
        let memory = Arc::new(MemoryDevice::zeros("m", 100));
        let device = RwFaultDevice::new(Arc::clone(&memory) as WriteDeviceRef);
        faults.into_iter().for_each(|fault| device.add(fault));
        (memory, device)
    }

    #[test]
    fn writes_fail_get_lost_or_rot() {
        let (memory, device) = writable([
            Fault::fail_writes(50..51, EIO),
            Fault::lose_writes(2..4),
            Fault::flip_writes(5..6, 0x80),
            Fault::lose_writes(20..30),
        ]);
        let data = Shared::copy_of(&[1; 8]);
        let results = crate::write_batch(
            &device,
            vec![(0, vec![data.clone()]), (22, vec![data.clone()]), (45, vec![data.clone()])],
        );
        assert_eq!(results[..2], [Ok(()), Ok(())]);
        assert_eq!(results[2].clone().map_err(|e| (e.kind, e.offset)), Err((EIO, 45)));
        let error = device.write(97, &[1; 8]).expect_err("beyond");
        assert_eq!(error.kind, ErrorKind::BeyondEnd { size: 100 });
        let got = read_one(&*memory, 0, 60).expect("read");
        let mut want = [0; 60];
        want[..8].copy_from_slice(&[1, 1, 0, 0, 1, 0x81, 1, 1]);
        assert_eq!(got[..], want);
        device.clear();
        device.write(0, &[9; 8]).expect("write");
        assert_eq!(read_one(&device, 0, 8).map(|b| b.to_vec()), Ok(vec![9; 8]));
    }

    #[test]
    fn flushes_fail_or_are_skipped() {
        let (memory, device) = writable([Fault::fail_flushes(EIO).after(1).times(1)]);
        let results: Vec<bool> = (0..3).map(|_| device.flush().is_ok()).collect();
        assert_eq!(results, [true, false, false], "it has failed for good");
        device.forget_failed_flush();
        device.flush().expect("all is written again");
        assert_eq!(memory.stats().flushes, 2);
        device.add(Fault::lose_flushes());
        device.flush().expect("claimed");
        assert_eq!(memory.stats().flushes, 2);
        // Faults of reads are none of writes.
        device.add(Fault::fail(0..100, EIO));
        assert!(device.write(0, &[1]).is_ok() && read_one(&device, 0, 1).is_err());
    }
}
