//! The undo file: the old contents of the places that a repair writes.
//!
//! ```text
//! magic  version  pool guid  txg before  txg after  name
//! devices    count, then of each: guid, size, path
//! records    device, offset, length, the old bytes; device u32::MAX ends them
//! SHA-256    of everything before
//! ```
//!
//! Numbers are little-endian. It is whole and durable before the first byte is written to a device;
//! one that is not whole belongs to a repair that wrote nothing.
//!
//! Restoring it gives the state of one txg, so nothing else may have been written since: an
//! uberblock that is newer than the repair's would lead to blocks that are older.

use crate::error::{Error, Result};
use crate::overlay::PAGE;
use device::{DeviceRef, DeviceSource, WriteDeviceRef};
use pool::{Candidate, SearchOptions, look_at_device, scan};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"zincundo";
const VERSION: u32 = 1;
const END: u32 = u32::MAX;
const DIGEST_BYTES: u64 = 32;
/// Longest record in bytes; longer ones are several.
const RECORD_MAX: u64 = 1 << 20;
/// Names, paths and devices that an undo file may have.
const TEXT_MAX: u32 = 64 << 10;
const DEVICES_MAX: u32 = 1 << 16;

/// A device of the pool, as the undo file knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoDevice {
    /// Guid of the leaf; 0 of a device that is not a leaf.
    pub guid: u64,
    /// Its bytes.
    pub size: u64,
    /// Where it was.
    pub path: PathBuf,
}

/// The header of an undo file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoHead {
    /// Guid of the pool.
    pub guid: u64,
    /// Its name.
    pub name: String,
    /// Its txg before the repair.
    pub before: u64,
    /// Its txg after it.
    pub after: u64,
    /// Its devices that are written to.
    pub devices: Vec<UndoDevice>,
}

/// The parts of a device that are written: whole pages that lie together are one.
pub(crate) fn ranges(pages: &[u64], size: u64) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        let (from, to) = (page * PAGE, (page.saturating_add(1) * PAGE).min(size));
        match out.last_mut() {
            Some(last) if last.1 == from && to - last.0 <= RECORD_MAX => last.1 = to,
            _ => out.push((from, to)),
        }
    }
    out
}

/// Bytes of the file for these devices and pages.
pub(crate) fn length(head: &UndoHead, pages: &[Vec<u64>]) -> u64 {
    let mut count = Counter(0);
    // Counting does not fail.
    let _ = put_head(&mut count, head);
    let records = head.devices.iter().zip(pages).flat_map(|(d, pages)| ranges(pages, d.size));
    records.fold(count.0 + 4 + DIGEST_BYTES, |sum, (from, to)| sum + 16 + (to - from))
}

struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0 += buf.len() as u64;
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes what passes on, and sums it up.
struct Summed<W> {
    out: W,
    sum: Sha256,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let n = self.out.write(buf)?;
        self.sum.update(buf.get(..n).unwrap_or_default());
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn put_text(out: &mut dyn Write, text: &[u8]) -> std::io::Result<()> {
    out.write_all(&(text.len() as u32).to_le_bytes())?;
    out.write_all(text)
}

fn put_head(out: &mut dyn Write, head: &UndoHead) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    for word in [head.guid, head.before, head.after] {
        out.write_all(&word.to_le_bytes())?;
    }
    put_text(out, head.name.as_bytes())?;
    out.write_all(&(head.devices.len() as u32).to_le_bytes())?;
    for d in &head.devices {
        out.write_all(&d.guid.to_le_bytes())?;
        out.write_all(&d.size.to_le_bytes())?;
        put_text(out, d.path.as_os_str().as_bytes())?;
    }
    Ok(())
}

/// Writes the undo file, and waits until it is durable. `old` are the devices of `head`, as they
/// are, and `pages` what is written of each.
pub(crate) fn write(
    file: &File,
    head: &UndoHead,
    old: &[DeviceRef],
    pages: &[Vec<u64>],
) -> Result<()> {
    let mut out = Summed { out: BufWriter::new(file), sum: Sha256::new() };
    put_head(&mut out, head)?;
    for (index, (device, pages)) in (0u32..).zip(old.iter().zip(pages)) {
        for (from, to) in ranges(pages, device.size()) {
            let bytes = device.read_new(from, (to - from) as usize)?;
            out.write_all(&index.to_le_bytes())?;
            out.write_all(&from.to_le_bytes())?;
            out.write_all(&((to - from) as u32).to_le_bytes())?;
            out.write_all(&bytes)?;
        }
    }
    out.write_all(&END.to_le_bytes())?;
    let sum = out.sum.finalize();
    out.out.write_all(&sum)?;
    out.out.flush()?;
    drop(out.out);
    Ok(file.sync_all()?)
}

/// Reads numbers and texts.
struct Fields<'a>(&'a mut dyn Read);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map_err(|_| not_whole())?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self, max: u32) -> Result<Vec<u8>> {
        let len = self.u32()?;
        if len > max {
            return Err(not_whole());
        }
        let mut bytes = vec![0; len as usize];
        self.0.read_exact(&mut bytes).map_err(|_| not_whole())?;
        Ok(bytes)
    }

    fn head(&mut self) -> Result<UndoHead> {
        use std::os::unix::ffi::OsStringExt as _;
        let magic: [u8; 8] = self.array()?;
        if &magic != MAGIC {
            return Err(Error::Undo("the file is not an undo file".to_owned()));
        }
        match self.u32()? {
            VERSION => {}
            n => return Err(Error::Undo(format!("version {n} of undo files is not known"))),
        }
        let (guid, before, after) = (self.u64()?, self.u64()?, self.u64()?);
        let name = String::from_utf8_lossy(&self.bytes(TEXT_MAX)?).into_owned();
        let count = self.u32()?;
        if count > DEVICES_MAX {
            return Err(not_whole());
        }
        let mut devices = Vec::new();
        for _ in 0..count {
            let (guid, size) = (self.u64()?, self.u64()?);
            let path = PathBuf::from(std::ffi::OsString::from_vec(self.bytes(TEXT_MAX)?));
            devices.push(UndoDevice { guid, size, path });
        }
        Ok(UndoHead { guid, name, before, after, devices })
    }
}

fn not_whole() -> Error {
    let why = "the undo file is not whole: its repair was cut off before it wrote anything, or the \
               file was damaged later";
    Error::Undo(why.to_owned())
}

/// Whether the sum at the end is that of all before it.
fn verify(file: &mut File) -> Result<()> {
    let len = file.metadata()?.len().checked_sub(DIGEST_BYTES).ok_or_else(not_whole)?;
    file.rewind()?;
    let mut sum = Sha256::new();
    let mut left = len;
    let mut buf = vec![0; RECORD_MAX as usize];
    while left > 0 {
        let n = left.min(RECORD_MAX) as usize;
        let Some(part) = buf.get_mut(..n) else { return Err(not_whole()) };
        file.read_exact(part)?;
        sum.update(&*part);
        left -= n as u64;
    }
    let mut stored = [0; DIGEST_BYTES as usize];
    file.read_exact(&mut stored)?;
    match sum.finalize()[..] == stored {
        true => Ok(file.rewind()?),
        false => Err(not_whole()),
    }
}

/// Restores the contents of the devices from before a repair; returns the bytes written. If it was
/// cancelled in the middle it must be repeated. Devices are searched for in `places`, and where
/// they were.
///
/// # Errors
/// Nothing is written when the file is not whole, or the devices are not as the repair left them.
pub fn put_back(
    path: &Path,
    source: &Arc<dyn DeviceSource>,
    places: &[PathBuf],
) -> Result<(UndoHead, u64)> {
    put_back_from(&mut File::open(path)?, source, places)
}

fn put_back_from(
    file: &mut File,
    source: &Arc<dyn DeviceSource>,
    places: &[PathBuf],
) -> Result<(UndoHead, u64)> {
    verify(file)?;
    let mut input = BufReader::new(&*file);
    let mut fields = Fields(&mut input);
    let head = fields.head()?;
    let devices = find(&head, source, places)?;
    let mut written = 0u64;
    loop {
        let index = fields.u32()?;
        if index == END {
            break;
        }
        let offset = fields.u64()?;
        let bytes = fields.bytes(RECORD_MAX as u32)?;
        let device = usize::try_from(index).ok().and_then(|i| devices.get(i));
        device.ok_or_else(not_whole)?.write(offset, &bytes)?;
        written += bytes.len() as u64;
    }
    for device in &devices {
        device.flush()?;
    }
    Ok((head, written))
}

/// The devices of an undo file, opened for writing, when they are as the repair left them.
fn find(
    head: &UndoHead,
    source: &Arc<dyn DeviceSource>,
    places: &[PathBuf],
) -> Result<Vec<WriteDeviceRef>> {
    let mut found = Vec::new();
    if !places.is_empty() {
        let paths = places.to_vec();
        let search = SearchOptions { paths, source: Arc::clone(source), leaves_out: true };
        let all = Candidate::group(&scan(&search)?);
        found.extend(all.into_iter().filter(|c| c.config.pool_guid == head.guid));
    }
    let moved = |guid: u64| {
        let sight = found.iter().find_map(|c| c.leaves.get(&guid));
        sight.map(|sight| sight.path.clone())
    };
    let mut devices = Vec::new();
    for d in &head.devices {
        let path = moved(d.guid).unwrap_or_else(|| d.path.clone());
        let device = source.claim(&path)?;
        let other = |what: &str| Err(Error::Undo(format!("{} {what}", path.display())));
        if device.size() != d.size {
            return other("is not as large as it was");
        }
        let reader = Arc::clone(&device).as_device();
        if let Some(leaf) = look_at_device(&reader, path.clone()) {
            let is_it = match &leaf.config {
                ondisk::config::LabelConfig::Member(c) => {
                    c.pool_guid == head.guid && c.guid == Some(d.guid)
                }
                ondisk::config::LabelConfig::Aux(_) => d.guid == 0,
            };
            if !is_it {
                return other("belongs to something else by now");
            }
            if pool::read_ring(&leaf).iter().any(|u| u.uberblock.txg > head.after) {
                return other("was written since: what the repair changed is in use");
            }
        }
        devices.push(device);
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::MemoryDevice;

    fn head(size: u64) -> UndoHead {
        let device = UndoDevice { guid: 7, size, path: PathBuf::from("disk") };
        UndoHead { guid: 9, name: "tank".to_owned(), before: 4, after: 6, devices: vec![device] }
    }

    fn source(disk: &Arc<MemoryDevice>) -> Arc<dyn DeviceSource> {
        let disk = Arc::clone(disk) as WriteDeviceRef;
        Arc::new(std::collections::BTreeMap::from([("disk".to_owned(), disk)]))
    }

    fn made(disk: &Arc<MemoryDevice>, pages: &[u64]) -> File {
        let file = tempfile::tempfile().unwrap();
        let head = head(disk.size());
        let pages = [pages.to_vec()];
        write(&file, &head, &[Arc::clone(disk).as_device()], &pages).unwrap();
        assert_eq!(file.metadata().unwrap().len(), length(&head, &pages));
        file
    }

    use device::{Device as _, WriteDevice as _};

    #[test]
    fn what_is_written_is_put_back() {
        let bytes: Vec<u8> = (0..10_000).map(|i| (i / 3) as u8).collect();
        let disk = Arc::new(MemoryDevice::from_bytes("disk", &bytes));
        let mut file = made(&disk, &[0, 1, 2]);
        disk.write(100, &[0xff; 9_900]).unwrap();
        let (read, n) = put_back_from(&mut file, &source(&disk), &[]).unwrap();
        assert_eq!((read, n), (head(10_000), 10_000));
        assert_eq!(device::read_one(&*disk, 0, 10_000).unwrap()[..], bytes[..]);
    }

    #[test]
    fn a_file_that_is_not_whole_is_refused_at_every_length_and_bit() {
        use std::os::unix::fs::FileExt as _;
        let disk = Arc::new(MemoryDevice::zeros("disk", 4096));
        let mut file = made(&disk, &[0]);
        let len = file.metadata().unwrap().len();
        for at in (0..len).step_by(61) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            assert!(put_back_from(&mut file, &source(&disk), &[]).is_err(), "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
        for len in (0..len).rev().step_by(61) {
            file.set_len(len).unwrap();
            assert!(matches!(put_back_from(&mut file, &source(&disk), &[]), Err(Error::Undo(_))));
        }
    }

    #[test]
    fn pages_that_lie_together_are_one_record() {
        assert_eq!(ranges(&[0, 1, 5], 5 * 4096 + 10), [(0, 8192), (20_480, 20_490)]);
        let many: Vec<u64> = (0..300).collect();
        assert_eq!(ranges(&many, 1 << 30), [(0, 1 << 20), (1 << 20, 300 * 4096)]);
    }
}
