//! A device that fails where it is told to. For tests.
//!
//! Faults are put in by hand and work on byte ranges: a read that touches the range meets the
//! fault. Each may be *transient* (gone after some reads) or *persistent*, and may begin only after
//! some reads have passed, so that a test can count the point of failure through a whole body of
//! work.

use crate::{Device, DeviceRef, Error, ErrorKind, Read, Stats, complete};
use core::ops::Range;
use parking_lot::Mutex;
use std::sync::Arc;

/// What happens to a read that touches the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Fail(ErrorKind),
    Flip(u8),
    Zero,
}

/// One fault.
#[derive(Clone, Debug)]
pub struct Fault {
    range: Range<u64>,
    effect: Effect,
    /// Reads of the range that still pass before it begins.
    after: u64,
    /// Reads it still hits.
    times: u64,
}

impl Fault {
    fn new(range: Range<u64>, effect: Effect) -> Self {
        Self { range, effect, after: 0, times: u64::MAX }
    }

    /// Reads that touch the range fail.
    #[must_use]
    pub fn fail(range: Range<u64>, kind: ErrorKind) -> Self {
        Self::new(range, Effect::Fail(kind))
    }

    /// The range's bytes come back with these bits flipped.
    #[must_use]
    pub fn flip(range: Range<u64>, bits: u8) -> Self {
        Self::new(range, Effect::Flip(bits))
    }

    /// The range's bytes come back as zeros, as those of a write that was lost.
    #[must_use]
    pub fn zero(range: Range<u64>) -> Self {
        Self::new(range, Effect::Zero)
    }

    /// It lets this many reads of the range pass first.
    #[must_use]
    pub fn after(mut self, reads: u64) -> Self {
        self.after = reads;
        self
    }

    /// It is gone after this many reads.
    #[must_use]
    pub fn times(mut self, reads: u64) -> Self {
        self.times = reads;
        self
    }

    /// Counts a read of `len` bytes at `offset`; the effect, if it is hit.
    fn hit(&mut self, offset: u64, len: usize) -> Option<(Range<u64>, Effect)> {
        let end = offset.saturating_add(len as u64);
        let common = self.range.start.max(offset)..self.range.end.min(end);
        if common.is_empty() || self.times == 0 {
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

/// The effects on one read, in the order the faults were added.
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

    fn effects(&self, offset: u64, len: usize) -> Effects {
        self.faults.lock().iter_mut().filter_map(|fault| fault.hit(offset, len)).collect()
    }
}

/// The error a read meets before it starts.
fn failure(effects: &Effects) -> Option<ErrorKind> {
    effects.iter().find_map(|(_, effect)| match effect {
        Effect::Fail(kind) => Some(*kind),
        _ => None,
    })
}

/// Damages what was read from `offset` on.
fn damage(effects: &Effects, offset: u64, buf: &mut [u8]) {
    for (range, effect) in effects {
        let at = |position: u64| usize::try_from(position - offset).unwrap_or(usize::MAX);
        let Some(part) = buf.get_mut(at(range.start)..at(range.end)) else { continue };
        match effect {
            Effect::Flip(bits) => part.iter_mut().for_each(|byte| *byte ^= bits),
            Effect::Zero => part.fill(0),
            Effect::Fail(_) => {}
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

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let effects = self.effects(offset, buf.len());
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
            let effects = self.effects(offset, len);
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
}
