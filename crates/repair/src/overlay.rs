//! Devices that keep in memory what is written to them.
//!
//! An [`Overlay`] reads as the device below it with all writes done, and writes nothing to it. Its
//! writes are recorded in a [`Journal`] that all overlays of a pool share, in order, with the
//! flushes between: so they can be repeated on the devices later as they were made on the overlays,
//! and a crash in the middle leaves what a crash of the pool's own engine would have left.
//!
//! Memory: the bytes that were written, twice. The journal has a limit, behind which writes fail.

use device::backend::{deliver_write, split_refused};
use device::{
    Device, DeviceRef, DeviceSource, Error, ErrorKind, Read, Shared, Write, WriteDevice,
    WriteDeviceRef,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Unit in which changes are kept, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// An operation on a device.
#[derive(Clone)]
pub(crate) enum Event {
    Write { device: usize, offset: u64, parts: Vec<Shared> },
    Flush { device: usize },
}

/// The operations on all devices, in order.
pub(crate) struct Journal {
    inner: Mutex<Inner>,
    bytes_max: u64,
}

#[derive(Default)]
struct Inner {
    events: Vec<Event>,
    bytes: u64,
}

impl Journal {
    fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), bytes_max })
    }

    /// False: that is too much.
    fn put(&self, event: Event) -> bool {
        let mut inner = self.inner.lock();
        if let Event::Write { parts, .. } = &event {
            let len: usize = parts.iter().map(|part| part.len()).sum();
            inner.bytes = inner.bytes.saturating_add(len as u64);
            if inner.bytes > self.bytes_max {
                return false;
            }
        }
        inner.events.push(event);
        true
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.inner.lock().events.clone()
    }

    /// More was to be written than there may be.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.inner.lock().bytes > self.bytes_max
    }
}

/// A device, and what was written over it.
pub(crate) struct Overlay {
    under: DeviceRef,
    name: Arc<str>,
    index: usize,
    journal: Arc<Journal>,
    pages: Arc<RwLock<Pages>>,
}

#[derive(Default)]
pub(crate) struct Pages(BTreeMap<u64, Box<[u8]>>);

impl Pages {
    /// Puts what was written into what was read at `offset`.
    fn patch(&self, offset: u64, buf: &mut [u8]) {
        let end = offset.saturating_add(buf.len() as u64);
        for (number, page) in self.0.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let from = start.max(offset);
            let to = (start + page.len() as u64).min(end);
            let (Some(into), Some(bytes)) = (
                buf.get_mut((from - offset) as usize..(to.max(from) - offset) as usize),
                page.get((from - start) as usize..(to.max(from) - start) as usize),
            ) else {
                continue;
            };
            into.copy_from_slice(bytes);
        }
    }
}

impl Overlay {
    /// The device below.
    pub(crate) fn under(&self) -> &DeviceRef {
        &self.under
    }

    /// The pages that were written, in order.
    pub(crate) fn changed(&self) -> Vec<u64> {
        self.pages.read().0.keys().copied().collect()
    }

    fn take(&self, offset: u64, parts: Vec<Shared>) -> Result<(), Error> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let fail = |kind| Error::write(kind, &self.name, offset, len);
        let mut pages = self.pages.write();
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let mut at = offset;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (number, within) = (at / PAGE, (at % PAGE) as usize);
            let size = PAGE.min(self.under.size().saturating_sub(number * PAGE)) as usize;
            let n = rest.len().min(size.saturating_sub(within));
            if n == 0 {
                return Err(fail(ErrorKind::BeyondEnd { size: self.under.size() }));
            }
            let page = match pages.0.entry(number) {
                std::collections::btree_map::Entry::Occupied(e) => e.into_mut(),
                std::collections::btree_map::Entry::Vacant(e) => {
                    let mut page = vec![0; size].into_boxed_slice();
                    // One that is written whole needs nothing of the device.
                    if n < size {
                        self.under.read(number * PAGE, &mut page)?;
                    }
                    e.insert(page)
                }
            };
            let (new, more) = rest.split_at(n);
            if let Some(into) = page.get_mut(within..within + n) {
                into.copy_from_slice(new);
            }
            (rest, at) = (more, at + n as u64);
        }
        match self.journal.put(Event::Write { device: self.index, offset, parts }) {
            true => Ok(()),
            false => Err(fail(ErrorKind::Refused("the repair would write more than its limit"))),
        }
    }
}

impl Device for Overlay {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.under.size()
    }

    fn sector_size(&self) -> u32 {
        self.under.sector_size()
    }

    fn is_rotating(&self) -> bool {
        self.under.is_rotating()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.under.read(offset, buf)?;
        self.pages.read().patch(offset, buf);
        Ok(())
    }

    fn submit(&self, batch: Vec<Read>) {
        let patched = |Read { offset, len, done }| {
            let pages = Arc::clone(&self.pages);
            let done: device::Done = Box::new(move |mut result| {
                if let Ok(buf) = &mut result {
                    pages.read().patch(offset, buf);
                }
                done(result);
            });
            Read { offset, len, done }
        };
        self.under.submit(batch.into_iter().map(patched).collect());
    }
}

impl WriteDevice for Overlay {
    fn submit_writes(&self, batch: Vec<Write>) {
        let (accepted, refused) = split_refused(self.size(), &self.name, batch);
        let taken = accepted.into_iter().map(|w| (w.done, self.take(w.offset, w.parts)));
        let refused = refused.into_iter().map(|(done, e)| (done, Err(e)));
        for (done, result) in taken.chain(refused) {
            deliver_write(done, result);
        }
    }

    fn flush(&self) -> Result<(), Error> {
        self.journal.put(Event::Flush { device: self.index });
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        device::backend::range_within(self.size(), offset, data.len())
            .map_err(|kind| Error::write(kind, &self.name, offset, data.len()))?;
        self.take(offset, vec![Shared::copy_of(data)])
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

/// Overlays over the devices of another source, each made on demand.
pub(crate) struct Overlays {
    under: Arc<dyn DeviceSource>,
    /// The devices below are opened for writing, and so for this process alone.
    claims: bool,
    pub(crate) journal: Arc<Journal>,
    made: Mutex<Vec<(PathBuf, Arc<Overlay>)>>,
    /// Why the first device that could not be opened could not be.
    refused: Mutex<Option<Error>>,
}

impl Overlays {
    pub(crate) fn new(under: Arc<dyn DeviceSource>, claims: bool, bytes_max: u64) -> Self {
        let (made, refused) = (Mutex::default(), Mutex::default());
        Self { under, claims, journal: Journal::new(bytes_max), made, refused }
    }

    /// The source below.
    pub(crate) fn under(&self) -> &Arc<dyn DeviceSource> {
        &self.under
    }

    /// Why no device of a pool was found that was there before.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.refused.lock().take()
    }

    /// Those that were made, by their numbers in the journal.
    pub(crate) fn all(&self) -> Vec<(PathBuf, Arc<Overlay>)> {
        self.made.lock().clone()
    }

    fn get(&self, name: &Path) -> Result<Arc<Overlay>, Error> {
        let mut made = self.made.lock();
        if let Some((_, overlay)) = made.iter().find(|(path, _)| path == name) {
            return Ok(Arc::clone(overlay));
        }
        let under = match self.claims {
            true => self.under.claim(name).map(|claimed| claimed.as_device()),
            false => self.under.open(name),
        };
        let under = under.inspect_err(|e| {
            self.refused.lock().get_or_insert_with(|| e.clone());
        })?;
        let overlay = Arc::new(Overlay {
            name: Arc::from(under.name()),
            under,
            index: made.len(),
            journal: Arc::clone(&self.journal),
            pages: Arc::default(),
        });
        made.push((name.to_owned(), Arc::clone(&overlay)));
        Ok(overlay)
    }
}

impl DeviceSource for Overlays {
    fn list(&self, place: &Path, _: u64) -> io::Result<Vec<PathBuf>> {
        Ok(vec![place.to_owned()])
    }

    fn open(&self, name: &Path) -> Result<DeviceRef, Error> {
        Ok(self.get(name)?)
    }

    fn claim(&self, name: &Path) -> Result<WriteDeviceRef, Error> {
        Ok(self.get(name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{MemoryDevice, read_one, write_batch};

    fn over(size: usize, limit: u64) -> (Arc<MemoryDevice>, Overlays) {
        let bytes: Vec<u8> = (0..size).map(|i| i as u8).collect();
        let disk = Arc::new(MemoryDevice::from_bytes("disk", &bytes));
        let table: BTreeMap<String, WriteDeviceRef> =
            BTreeMap::from([("disk".to_owned(), Arc::clone(&disk) as WriteDeviceRef)]);
        (disk, Overlays::new(Arc::new(table), true, limit))
    }

    #[test]
    fn what_is_written_is_read_and_not_on_the_device() {
        let (disk, source) = over(10_000, 1 << 20);
        let device = source.claim(Path::new("disk")).unwrap();
        device.write(4000, &[0xff; 200]).unwrap();
        let results = write_batch(
            &*device,
            vec![
                (9_990, vec![Shared::copy_of(&[0xee; 10])]),
                (9_999, vec![Shared::copy_of(b"ab")]),
            ],
        );
        assert!(results[0].is_ok() && results[1].is_err());
        let reader = source.open(Path::new("disk")).unwrap();
        let read = read_one(&*reader, 3_999, 203).unwrap();
        assert_eq!((read[0], read[1], read[200], read[201]), (159, 0xff, 0xff, 4_200u32 as u8));
        assert_eq!(read_one(&*reader, 9_989, 11).unwrap()[..2], [5, 0xee]);
        assert_eq!(read_one(&*disk, 4_000, 1).unwrap()[..], [160]);
        assert_eq!(source.all()[0].1.changed(), [0, 1, 2]);
        assert_eq!(source.journal.events().len(), 2);
    }

    #[test]
    fn the_limit_is_kept() {
        let (_, source) = over(10_000, 100);
        let device = source.claim(Path::new("disk")).unwrap();
        device.write(0, &[1; 100]).unwrap();
        assert!(!source.journal.is_exceeded());
        assert!(device.write(0, &[1; 1]).is_err());
        assert!(source.journal.is_exceeded());
    }
}
