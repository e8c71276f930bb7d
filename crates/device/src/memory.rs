//! A device in memory: for tests, for images that are built rather than read, for simulated disks,
//! and for measuring the engine without a disk.
//!
//! Pages that were never written, or hold only zeros, take no memory, so a device may have many
//! terabytes. Pages are shared between a device and its [`fork`](MemoryDevice::fork)s until one of
//! them writes, so that a thousand images which differ in a few blocks cost those few blocks.
//!
//! Groups of pages lie in several maps with a lock each, so that writers and readers of different
//! places do not wait for each other. A request that spans groups is not atomic as a whole, as on a
//! disk.

use crate::buf::Filling;
use crate::stats::Counters;
use crate::write::split_refused;
use crate::{
    AlignedBuf, Device, DeviceRef, Error, ErrorKind, Read, Shared, Stats, Write, WriteDevice,
    complete, range_within, range_within_all,
};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Unit in which memory is taken. Small: a large device is zeros but for its metadata, a few KiB
/// here and there.
const PAGE_BYTES: usize = 16 << 10;
/// A page that was never written.
static ZERO_PAGE: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Pages that are found together: those of a record of 128 KiB. To find each of them for itself
/// takes as long as a fifth of the copy into it.
const GROUP_PAGES: usize = 8;
const GROUP_BYTES: usize = GROUP_PAGES * PAGE_BYTES;

/// Number of maps. Neighbouring groups lie in different ones.
const SHARDS: usize = 64;

/// A page; `None`: all of it is zero.
type Page = Option<Arc<[u8]>>;

/// The groups of one shard that are not all zero, by number.
type Groups = HashMap<u64, [Page; GROUP_PAGES]>;

/// Bytes in memory that behave as a device. A flush does nothing.
pub struct MemoryDevice {
    name: Arc<str>,
    size: AtomicU64,
    /// Its size by now.
    size_now: AtomicU64,
    sector_size: u32,
    shards: Vec<RwLock<Groups>>,
    counters: Counters,
}

impl MemoryDevice {
    /// A device of `size` zero bytes, with sectors of 512.
    #[must_use]
    pub fn zeros(name: &str, size: u64) -> Self {
        Self {
            name: Arc::from(name),
            size: AtomicU64::new(size),
            size_now: AtomicU64::new(size),
            sector_size: 512,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
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

    /// A device with the same contents, name and sectors, independent from now on. Costs a few
    /// dozen bytes for each page in use; contents are copied when one of the two writes.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            size: AtomicU64::new(self.size()),
            size_now: AtomicU64::new(self.size_now()),
            sector_size: self.sector_size,
            shards: self.shards.iter().map(|shard| RwLock::new(shard.read().clone())).collect(),
            counters: Counters::default(),
        }
    }

    /// Makes it as long as this, if it is shorter: a caller that has it open notices when it lets
    /// it [grow](WriteDevice::grow).
    pub fn lengthen(&self, size: u64) {
        self.size_now.fetch_max(size, Ordering::Relaxed);
    }

    /// Bytes of memory in use for contents, those shared with forks included.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        let pages = |shard: &RwLock<Groups>| shard.read().values().flatten().flatten().count();
        (self.shards.iter().map(pages).sum::<usize>() * PAGE_BYTES) as u64
    }

    /// Writes what it holds to the new, sparse file `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        for (at, bytes) in self.contents() {
            file.write_all_at(&bytes, at)?;
        }
        // The last page may go on after the end of the device.
        file.set_len(self.size())
    }

    /// The pages in use, as `(offset, bytes)`, in no order.
    fn contents(&self) -> impl Iterator<Item = (u64, Arc<[u8]>)> {
        let of_group = |(group, pages): (&u64, &[Page; GROUP_PAGES])| {
            let begin = group * GROUP_BYTES as u64;
            let at = |n: usize| begin + (n * PAGE_BYTES) as u64;
            let used = pages.iter().enumerate();
            used.filter_map(|(n, page)| Some((at(n), page.clone()?))).collect::<Vec<_>>()
        };
        let of_shard = move |shard: &RwLock<Groups>| {
            shard.read().iter().flat_map(of_group).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard)
    }

    /// Replaces the contents at `offset`: the test's hand, which is not counted.
    ///
    /// # Panics
    /// When the range is not within the device.
    pub fn put(&self, offset: u64, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len() as u64);
        assert!(
            end.is_some_and(|end| end <= self.size_now()),
            "{offset}+{} is outside",
            bytes.len()
        );
        self.copy_in(offset, bytes);
    }

    fn shard(&self, group: u64) -> &RwLock<Groups> {
        &self.shards[(group % SHARDS as u64) as usize]
    }

    /// [`Self::copy_in`] of memory that may be known to be zeros: gigabytes of them are written by
    /// experiments, and to look for what is not zero would be most of the work.
    pub(crate) fn take_in(&self, offset: u64, bytes: &Shared) {
        match bytes.is_blank() {
            true => self.clear(offset, bytes.len()),
            false => self.copy_in(offset, bytes),
        }
    }

    /// Writes zeros to a range that lies within the device.
    fn clear(&self, offset: u64, len: usize) {
        for (number, at, part) in parts(offset, len, GROUP_BYTES) {
            let mut groups = self.shard(number).write();
            let Some(group) = groups.get_mut(&number) else { continue };
            for (page, at, part) in parts(at as u64, part.len(), PAGE_BYTES) {
                let page = &mut group[page as usize];
                match page {
                    Some(_) if part.len() == PAGE_BYTES => *page = None,
                    Some(page) => Arc::make_mut(page)[at..at + part.len()].fill(0),
                    None => {}
                }
            }
            if group.iter().all(Option::is_none) {
                groups.remove(&number);
            }
        }
    }

    /// Writes a range that lies within the device.
    fn copy_in(&self, offset: u64, bytes: &[u8]) {
        for (number, at, part) in parts(offset, bytes.len(), GROUP_BYTES) {
            let bytes = &bytes[part];
            let mut groups = self.shard(number).write();
            let group = match groups.entry(number) {
                Entry::Occupied(group) => group.into_mut(),
                Entry::Vacant(_) if is_zero(bytes) => continue,
                Entry::Vacant(group) => group.insert(Default::default()),
            };
            write_pages(group, at, bytes);
            if group.iter().all(Option::is_none) {
                groups.remove(&number);
            }
        }
    }

    /// Gives `each` the parts of a range in order: how long one is, and its bytes unless they are
    /// zeros.
    fn each_part(&self, offset: u64, len: usize, mut each: impl FnMut(usize, Option<&[u8]>)) {
        for (number, at, part) in parts(offset, len, GROUP_BYTES) {
            let groups = self.shard(number).read();
            let Some(group) = groups.get(&number) else {
                each(part.len(), None);
                continue;
            };
            for (page, at, part) in parts(at as u64, part.len(), PAGE_BYTES) {
                let page = group[page as usize].as_ref();
                each(part.len(), page.map(|page| &page[at..at + part.len()]));
            }
        }
    }

    fn copy_out(&self, offset: u64, buf: &mut [u8]) {
        let mut done = 0;
        self.each_part(offset, buf.len(), |len, bytes| {
            let out = &mut buf[done..done + len];
            match bytes {
                Some(bytes) => out.copy_from_slice(bytes),
                None => out.fill(0),
            }
            done += len;
        });
    }

    /// The same into new memory; `None` when there is none.
    fn copy_new(&self, offset: u64, len: usize) -> Option<AlignedBuf> {
        let mut out = Filling::new(len)?;
        self.each_part(offset, len, |len, bytes| match bytes {
            Some(bytes) => out.push(bytes),
            None => out.push_zeros(len),
        });
        Some(out.finish())
    }

    /// Counts one read around `work`.
    fn counted<T>(&self, len: usize, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.counters.begin();
        let result = work();
        self.counters.end(result.as_ref().map(|_| len).map_err(|_| ()), Duration::ZERO);
        result
    }
}

/// Whether all bytes are zero.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    // Slices are compared many bytes at once in every build, and the comparison stops early.
    static ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

/// A page to write to.
enum Target<'a> {
    /// No fork shares it.
    Own(&'a mut [u8]),
    Other(&'a mut Page),
}

impl<'a> Target<'a> {
    fn new(page: &'a mut Page) -> Self {
        if page.as_mut().is_none_or(|page| Arc::get_mut(page).is_none()) {
            return Self::Other(page);
        }
        match page {
            Some(own) => Self::Own(Arc::make_mut(own)),
            None => Self::Other(page),
        }
    }
}

/// Writes into a group from `at` on.
///
/// To find out whether a page is shared, the processor waits until everything that it wrote before
/// is in memory, and the answer is in no cache. So this comes before the first copy, for all pages.
fn write_pages(group: &mut [Page; GROUP_PAGES], at: usize, bytes: &[u8]) {
    let pages = &mut group[at / PAGE_BYTES..(at + bytes.len()).div_ceil(PAGE_BYTES)];
    if let [page] = pages {
        return write_page(page, at % PAGE_BYTES, bytes);
    }
    black_box(pages.iter().flatten().map(Arc::strong_count).fold(0, usize::wrapping_add));
    let parts = || parts(at as u64, bytes.len(), PAGE_BYTES);
    let mut targets = [const { None }; GROUP_PAGES];
    for ((target, page), (_, _, part)) in targets.iter_mut().zip(pages).zip(parts()) {
        if part.len() == PAGE_BYTES && is_zero(&bytes[part]) {
            *page = None;
        }
        *target = Some(Target::new(page));
    }
    for ((_, at, part), target) in parts().zip(targets.into_iter().flatten()) {
        match target {
            Target::Own(page) => page[at..at + part.len()].copy_from_slice(&bytes[part]),
            Target::Other(page) => write_page(page, at, &bytes[part]),
        }
    }
}

/// Writes into a page from `at` on.
fn write_page(page: &mut Page, at: usize, bytes: &[u8]) {
    if bytes.len() == PAGE_BYTES {
        if is_zero(bytes) {
            *page = None;
        } else if let Some(page) = page.as_mut().and_then(Arc::get_mut) {
            page.copy_from_slice(bytes);
        } else {
            *page = Some(Arc::from(bytes));
        }
        return;
    }
    match page {
        Some(page) => Arc::make_mut(page)[at..at + bytes.len()].copy_from_slice(bytes),
        None if is_zero(bytes) => {}
        None => {
            let new = page.insert(Arc::from(ZERO_PAGE.as_slice()));
            Arc::make_mut(new)[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// Splits a range into (number of a unit, offset in the unit, part of the range).
fn parts(
    offset: u64,
    len: usize,
    unit: usize,
) -> impl Iterator<Item = (u64, usize, core::ops::Range<usize>)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let position = offset + done as u64;
        let at = (position % unit as u64) as usize;
        let n = (unit - at).min(len - done);
        let part = done..done + n;
        done += n;
        Some((position / unit as u64, at, part))
    })
}

impl Device for MemoryDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn size_now(&self) -> u64 {
        self.size_now.load(Ordering::Relaxed)
    }

    fn sector_size(&self) -> u32 {
        self.sector_size
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.counted(buf.len(), || {
            range_within(self.size(), offset, buf.len())
                .map_err(|kind| Error::read(kind, &self.name, offset, buf.len()))?;
            self.copy_out(offset, buf);
            Ok(())
        })
    }

    fn read_new(&self, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
        self.counted(len, || {
            let fail = |kind| Error::read(kind, &self.name, offset, len);
            range_within(self.size(), offset, len).map_err(fail)?;
            self.copy_new(offset, len).ok_or_else(|| fail(ErrorKind::OutOfMemory))
        })
    }

    fn submit(&self, batch: Vec<Read>) {
        for Read { offset, len, done } in batch {
            let result = self.read_new(offset, len);
            complete::deliver(done, result);
        }
    }

    fn stats(&self) -> Stats {
        self.counters.snapshot()
    }
}

impl WriteDevice for MemoryDevice {
    fn submit_writes(&self, batch: Vec<Write>) {
        let (accepted, refused) = split_refused(self.size(), &self.name, batch);
        for Write { mut offset, parts, done } in accepted {
            self.counters.begin();
            let mut bytes = 0;
            for part in &parts {
                self.take_in(offset, part);
                offset += part.len() as u64;
                bytes += part.len();
            }
            self.counters.end_write(Ok(bytes), Duration::ZERO);
            complete::deliver_write(done, Ok(()));
        }
        for (done, error) in refused {
            self.counters.begin();
            self.counters.end_write(Err(()), Duration::ZERO);
            complete::deliver_write(done, Err(error));
        }
    }

    fn flush(&self) -> Result<(), Error> {
        self.counters.flushed(true, Duration::ZERO);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.counters.begin();
        let checked = range_within(self.size(), offset, data.len());
        let result = checked.map(|()| self.copy_in(offset, data));
        let counted = result.as_ref().map(|()| data.len()).map_err(|_| ());
        self.counters.end_write(counted, Duration::ZERO);
        result.map_err(|kind| Error::write(kind, &self.name, offset, data.len()))
    }

    fn grow(&self) {
        self.size.fetch_max(self.size_now(), Ordering::Relaxed);
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        let whole = usize::try_from(len).unwrap_or(usize::MAX);
        range_within_all(self.size(), offset, len)
            .map_err(|kind| Error::trim(kind, &self.name, offset, len))?;
        self.clear(offset, whole);
        Ok(())
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_one;

    #[test]
    fn bytes_come_back_across_pages() {
        let bytes: Vec<u8> = (0..2 * GROUP_BYTES + 17).map(|i| (i / 7) as u8).collect();
        let device = MemoryDevice::from_bytes("m", &bytes);
        for (offset, len) in
            [(PAGE_BYTES - 5, PAGE_BYTES + 100), (GROUP_BYTES - PAGE_BYTES - 5, GROUP_BYTES + 20)]
        {
            let got = read_one(&device, offset as u64, len).expect("read");
            assert_eq!(&got[..], &bytes[offset..offset + len]);
            let mut out = vec![1; len];
            device.read(offset as u64, &mut out).expect("read");
            assert_eq!(out, &bytes[offset..offset + len]);
        }
    }

    #[test]
    fn zeros_take_no_memory_and_writes_land() {
        let device = MemoryDevice::zeros("m", 1 << 50);
        device.put((1 << 49) + 1, &[0, 7]);
        device.put(0, &[0; 100]);
        assert_eq!(device.allocated(), PAGE_BYTES as u64);
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

    #[test]
    fn forks_share_until_they_write() {
        let device = MemoryDevice::from_bytes("m", &vec![1; 2 * PAGE_BYTES]);
        let fork = device.fork();
        fork.write(5, b"x").expect("write");
        fork.write(PAGE_BYTES as u64, &vec![2; PAGE_BYTES]).expect("write");
        let at = |device: &MemoryDevice, offset| read_one(device, offset, 1).map(|b| b[0]);
        assert_eq!((at(&device, 5), at(&fork, 5), at(&fork, 6)), (Ok(1), Ok(b'x'), Ok(1)));
        let second = PAGE_BYTES as u64 + 7;
        assert_eq!((at(&device, second), at(&fork, second)), (Ok(1), Ok(2)));
    }

    #[test]
    fn writes_of_many_pages_are_as_in_plain_memory() {
        let size = GROUP_BYTES + 2 * PAGE_BYTES;
        let old: Vec<u8> = (0..size).map(|i| (i / 11) as u8 | 1).collect();
        // The third page that it reaches is zeros.
        let new: Vec<u8> =
            (0..size).map(|i| if i / PAGE_BYTES == 2 { 0 } else { (i / 13) as u8 | 1 }).collect();
        let begins = [0, 5, PAGE_BYTES - 5, PAGE_BYTES, 3 * PAGE_BYTES + 1, GROUP_BYTES - 7];
        let lens = [1, PAGE_BYTES, PAGE_BYTES + 10, 3 * PAGE_BYTES, 5 * PAGE_BYTES + 7];
        for (begin, len) in begins.into_iter().flat_map(|begin| lens.map(|len| (begin, len))) {
            let end = (begin + len).min(size);
            for (is_shared, is_empty) in [(false, false), (true, false), (false, true)] {
                let mut model = if is_empty { vec![0; size] } else { old.clone() };
                let device = MemoryDevice::from_bytes("m", &model);
                let fork = is_shared.then(|| (device.fork(), model.clone()));
                device.put(begin as u64, &new[begin..end]);
                model[begin..end].copy_from_slice(&new[begin..end]);
                let used = model.chunks(PAGE_BYTES).filter(|page| !is_zero(page)).count();
                assert_eq!(device.allocated(), (used * PAGE_BYTES) as u64, "{begin}+{len}");
                for (device, model) in fork.iter().map(|(d, m)| (d, m)).chain([(&device, &model)]) {
                    let got = read_one(device, 0, size).expect("read");
                    assert!(&got[..] == model, "{begin}+{len} {is_shared} {is_empty}");
                }
            }
        }
    }

    #[test]
    fn a_page_of_zeros_gives_memory_back() {
        let page = PAGE_BYTES as u64;
        let device = MemoryDevice::from_bytes("m", &vec![7; 4 * PAGE_BYTES]);
        device.write(page, &vec![0; PAGE_BYTES]).expect("write");
        assert_eq!(device.allocated(), 3 * page);
        device.write(0, &vec![0; 4 * PAGE_BYTES]).expect("write");
        let groups: usize = device.shards.iter().map(|shard| shard.read().len()).sum();
        assert_eq!((device.allocated(), groups), (0, 0));
    }

    #[test]
    fn zeros_that_are_known_to_be_zeros_are_written_too() {
        let page = PAGE_BYTES as u64;
        let device = MemoryDevice::from_bytes("m", &vec![7; 4 * PAGE_BYTES]);
        let fork = device.fork();
        let zeros = Shared::from(AlignedBuf::zeroed(2 * PAGE_BYTES));
        assert!(zeros.is_blank());
        let write = (page - 10, vec![zeros.slice(0..PAGE_BYTES + 20)]);
        assert!(crate::write_batch(&fork, vec![write]).iter().all(Result::is_ok));
        let mut expected = vec![7; 4 * PAGE_BYTES];
        expected[PAGE_BYTES - 10..2 * PAGE_BYTES + 10].fill(0);
        let all = |device: &MemoryDevice| read_one(device, 0, 4 * PAGE_BYTES).expect("read");
        assert_eq!((&all(&fork)[..], fork.allocated()), (&expected[..], 3 * page));
        assert_eq!(&all(&device)[..], &vec![7; 4 * PAGE_BYTES][..]);
    }

    #[test]
    fn contents_are_what_is_not_zero() {
        let page = PAGE_BYTES as u64;
        let device = MemoryDevice::zeros("m", 4 * page);
        device.write(2 * page + 5, b"x").expect("write");
        let contents: Vec<_> = device.contents().collect();
        let [(at, bytes)] = contents.as_slice() else { panic!("{} pages", contents.len()) };
        assert_eq!((*at, bytes[5], bytes.len()), (2 * page, b'x', PAGE_BYTES));
    }

    #[test]
    fn writes_are_counted() {
        let device = MemoryDevice::zeros("m", 1000);
        device.write(0, &[1; 100]).expect("write");
        assert!(device.write(950, &[1; 100]).is_err());
        device.flush().expect("flush");
        let stats = device.stats();
        assert_eq!((stats.writes, stats.written, stats.write_errors), (2, 100, 1));
        assert_eq!((stats.flushes, stats.in_flight, stats.reads), (1, 0, 0));
    }
}
