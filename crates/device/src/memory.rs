//! A device in memory, for tests and for images that are built rather than read.
//!
//! Pages that were never written, or hold only zeros when they are loaded, take no memory, so a
//! test may have a device of many terabytes.

use crate::stats::Counters;
use crate::{AlignedBuf, Device, Error, ErrorKind, Read, Stats, complete, range_within};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Unit in which memory is taken.
const PAGE_BYTES: usize = 64 << 10;

/// Bytes in memory that behave as a device.
pub struct MemoryDevice {
    name: Arc<str>,
    size: u64,
    sector_size: u32,
    /// The pages that are not all zero, by number.
    pages: RwLock<HashMap<u64, Box<[u8]>>>,
    counters: Counters,
}

impl MemoryDevice {
    /// A device of `size` zero bytes, with sectors of 512.
    #[must_use]
    pub fn zeros(name: &str, size: u64) -> Self {
        Self {
            name: Arc::from(name),
            size,
            sector_size: 512,
            pages: RwLock::default(),
            counters: Counters::default(),
        }
    }

    /// A device that holds these bytes, with sectors of 512.
    #[must_use]
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Self {
        let device = Self::zeros(name, bytes.len() as u64);
        device.put(0, bytes);
        device
    }

    /// The same device with another sector size.
    #[must_use]
    pub fn with_sector_size(mut self, bytes: u32) -> Self {
        self.sector_size = bytes;
        self
    }

    /// Replaces the contents at `offset`: the test's hand, not a write path of the engine.
    ///
    /// # Panics
    /// When the range is not within the device.
    pub fn put(&self, offset: u64, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len() as u64);
        assert!(end.is_some_and(|end| end <= self.size), "{offset}+{} is outside", bytes.len());
        let mut pages = self.pages.write();
        for (number, at, part) in page_parts(offset, bytes.len()) {
            let bytes = &bytes[part];
            match pages.get_mut(&number) {
                Some(page) => page[at..at + bytes.len()].copy_from_slice(bytes),
                None if bytes.iter().all(|b| *b == 0) => {}
                None => {
                    let mut page = vec![0; PAGE_BYTES].into_boxed_slice();
                    page[at..at + bytes.len()].copy_from_slice(bytes);
                    pages.insert(number, page);
                }
            }
        }
    }

    fn copy_out(&self, offset: u64, buf: &mut [u8]) {
        let pages = self.pages.read();
        for (number, at, part) in page_parts(offset, buf.len()) {
            let out = &mut buf[part];
            match pages.get(&number) {
                Some(page) => out.copy_from_slice(&page[at..at + out.len()]),
                None => out.fill(0),
            }
        }
    }

    /// Counts one read around `work`.
    fn counted<T>(&self, len: usize, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.counters.begin();
        let result = work();
        self.counters.end(result.as_ref().map(|_| len).map_err(|_| ()), Duration::ZERO);
        result
    }
}

/// Splits a range into (page number, offset in the page, part of the range).
fn page_parts(
    offset: u64,
    len: usize,
) -> impl Iterator<Item = (u64, usize, core::ops::Range<usize>)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let position = offset + done as u64;
        let at = (position % PAGE_BYTES as u64) as usize;
        let n = (PAGE_BYTES - at).min(len - done);
        let part = done..done + n;
        done += n;
        Some((position / PAGE_BYTES as u64, at, part))
    })
}

impl Device for MemoryDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn sector_size(&self) -> u32 {
        self.sector_size
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.counted(buf.len(), || {
            range_within(self.size, offset, buf.len())
                .map_err(|kind| Error::read(kind, &self.name, offset, buf.len()))?;
            self.copy_out(offset, buf);
            Ok(())
        })
    }

    fn submit(&self, batch: Vec<Read>) {
        for Read { offset, len, done } in batch {
            let result = self.counted(len, || {
                let fail = |kind| Error::read(kind, &self.name, offset, len);
                range_within(self.size, offset, len).map_err(fail)?;
                let mut buf =
                    AlignedBuf::try_zeroed(len).ok_or_else(|| fail(ErrorKind::OutOfMemory))?;
                self.copy_out(offset, &mut buf);
                Ok(buf)
            });
            complete::deliver(done, result);
        }
    }

    fn stats(&self) -> Stats {
        self.counters.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_one;

    #[test]
    fn bytes_come_back_across_pages() {
        let bytes: Vec<u8> = (0..3 * PAGE_BYTES + 17).map(|i| (i / 7) as u8).collect();
        let device = MemoryDevice::from_bytes("m", &bytes);
        let (offset, len) = (PAGE_BYTES - 5, PAGE_BYTES + 100);
        let got = read_one(&device, offset as u64, len).expect("read");
        assert_eq!(&got[..], &bytes[offset..offset + len]);
    }

    #[test]
    fn zeros_take_no_memory_and_writes_land() {
        let device = MemoryDevice::zeros("m", 1 << 50);
        device.put((1 << 49) + 1, &[0, 7]);
        device.put(0, &[0; 100]);
        assert_eq!(device.pages.read().len(), 1);
        let got = read_one(&device, 1 << 49, 4).expect("read");
        assert_eq!(&got[..], &[0, 0, 7, 0]);
        device.put((1 << 49) + 2, &[0]);
        let got = read_one(&device, 1 << 49, 4).expect("read");
        assert_eq!(&got[..], &[0; 4]);
    }

    #[test]
    fn reads_are_counted() {
        let device = MemoryDevice::zeros("m", 1000);
        let mut buf = [0; 100];
        device.read(0, &mut buf).expect("read");
        assert!(device.read(950, &mut buf).is_err());
        let stats = device.stats();
        assert_eq!((stats.reads, stats.bytes, stats.errors, stats.in_flight), (2, 100, 1, 0));
    }
}
