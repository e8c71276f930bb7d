//! Disks in stores, by their names.

use crate::is_bucket;
use crate::lock;
use crate::log::{self, Budget, CachePlace, open_error};
use crate::money::{Cost, Prices};
use crate::name::{Name, Place};
use crate::store::{DirStore, Store};
use core::time::Duration;
use device::{
    Device as _, DeviceRef, DeviceSource as _, Error, ErrorKind, LocalDevices, WriteDevice as _,
    WriteDeviceRef,
};
use ondisk::hex;
use rt::Rt;
use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::log::format::{Superblock, WriterId};
pub use crate::log::{
    Collected, DiskError, Finding, LogDevice, LogState, Mark, Options, Overview, PinInfo, Report,
    WriterInfo,
};
pub use crate::store::StoreError;

/// The segments of new disks, in bytes: few requests for much, and little to send again.
pub const SEGMENT_BYTES: u32 = 16 << 20;
/// The sectors of new disks, in bytes: a pool of any disk can be copied into one. They say to have
/// larger ones, as most disks do.
pub const SECTOR_BYTES: u32 = 512;
/// Segments that a writer of a new disk has under way at most.
pub const WINDOW: u32 = 64;

/// The folder for what was read from disks in stores, and the bytes that it may have of each.
const CACHE: &str = "ZINC_CACHE";
const CACHE_SIZE: &str = "ZINC_CACHE_SIZE";
/// What collecting the garbage of each disk in a bucket may cost in a month, in dollars, and the
/// file of prices.
const GC_BUDGET: &str = "ZINC_GC_BUDGET";
const PRICES: &str = "ZINC_PRICES";
/// Bytes of a file of prices at most.
const PRICES_MAX: u64 = 1 << 20;

/// Bytes of the cache of a disk, unless the environment says otherwise.
const CACHE_BYTES: u64 = 4 << 30;

/// The folder in which root's pools are remembered.
pub const ROOT_STATE: &str = "/var/lib/zinc";

/// Bytes that are copied at once: half a segment.
const PIECE: usize = 8 << 20;
/// Pieces of this many bytes that are all zeros are not copied.
const HOLE: usize = 1 << 16;

/// The store of a name.
///
/// # Errors
/// It is not one, or cannot be had.
pub fn store(name: &Name) -> Result<Arc<dyn Store>, DiskError> {
    match &name.place {
        Place::Folder(folder) => Ok(Arc::new(DirStore::new(folder).map_err(|e| no_store(&e))?)),
        #[cfg(feature = "buckets")]
        Place::Bucket(bucket) => {
            let store = crate::store::BucketStore::new(bucket);
            Ok(Arc::new(store.map_err(|e| no_store(&e))?))
        }
        #[cfg(not(feature = "buckets"))]
        Place::Bucket(_) => Err(DiskError::Settings(
            "this program was built without support for buckets".to_owned(),
        )),
        Place::Tcp(..) | Place::Unix(_) => {
            Err(DiskError::Settings("it is not an object store".to_owned()))
        }
    }
}

/// Why a store cannot be had. A directory that is not there, or does not answer, is not mounted:
/// that is a matter of the device, and others of its pool may do without it. That this machine has
/// no threads or descriptors left is not.
fn no_store(error: &io::Error) -> DiskError {
    let Some(errno) = error.raw_os_error() else { return DiskError::Settings(error.to_string()) };
    let denied = |why| DiskError::Store(StoreError::Denied(why));
    match errno {
        libc::ENOENT => denied("there is no such directory"),
        libc::ENOTDIR => denied("it is not a directory"),
        libc::EACCES | libc::EPERM => denied("this user may not use the directory"),
        _ if ErrorKind::from_io(error).is_of_process() => DiskError::Machine(error.to_string()),
        _ => DiskError::Store(StoreError::Other(error.to_string())),
    }
}

/// This program on this machine, for people that look at the disk.
#[must_use]
pub fn this_process() -> WriterId {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    WriterId { host: host.trim().to_owned(), pid: std::process::id() }
}

fn options(name: &Name) -> Options {
    Options { patience: name.silence, who: this_process(), ..Options::default() }
}

/// Those of a disk that is to be read, with the cache that the environment of this machine names: a
/// name would carry the path to other machines, and a label that another wrote to this one. A size
/// that is none costs the cache alone.
fn options_with_cache(name: &Name) -> Options {
    let folder = env::var_os(CACHE).filter(|folder| !folder.is_empty());
    let cache = folder.zip(cache_bytes());
    let cache = cache.map(|(folder, bytes)| CachePlace { folder: folder.into(), bytes });
    Options {
        cache,
        lacks_cache: lacks_cache().is_some(),
        seen: seen(name),
        clean_budget: is_bucket(name.as_str()).then(clean_budget).flatten(),
        ..options(name)
    }
}

/// The budget that the environment names; nothing when it makes no sense: that costs least. Without
/// the prices of its file they are Amazon's.
fn clean_budget() -> Option<Budget> {
    let text = env::var_os(GC_BUDGET).filter(|text| !text.is_empty())?;
    let month = text.to_str().and_then(Cost::read).unwrap_or_default();
    let prices = env::var_os(PRICES).filter(|file| !file.is_empty()).and_then(|file| {
        let mut text = String::new();
        File::open(file).ok()?.take(PRICES_MAX).read_to_string(&mut text).ok()?;
        Prices::parse(&text).ok()
    });
    Some(Budget { month, prices: prices.unwrap_or_default() })
}

/// The folder in which this machine remembers pools for a user, and how far disks were: that of
/// `ZINC_STATE`, else root's, else one below the home of this process's user. `None`: there is no
/// home.
#[must_use]
pub fn state_folder(is_root: bool) -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || Some(variable("HOME")?.join(".local/state"));
    let of_user = || Some(variable("XDG_STATE_HOME").or_else(home)?.join("zinc"));
    let of_root = || is_root.then(|| PathBuf::from(ROOT_STATE));
    variable("ZINC_STATE").or_else(of_root).or_else(of_user)
}

/// The file of this machine that remembers how far a disk was; `None` without a folder for it.
fn seen(name: &Name) -> Option<PathBuf> {
    let state = state_folder(rustix::process::geteuid().is_root())?;
    let folder = state.join("seen");
    (state.is_dir() && (folder.is_dir() || std::fs::create_dir(&folder).is_ok()))
        .then(|| folder.join(hex::encode(&name.identity()[..16])))
}

/// The size of a cache; `None` when the environment says something that is none.
fn cache_bytes() -> Option<u64> {
    match env::var_os(CACHE_SIZE) {
        Some(text) => size_of(text.to_str()?),
        None => Some(CACHE_BYTES),
    }
}

/// Why disks have no cache although the environment names a folder for one, as far as it shows
/// there.
#[must_use]
pub fn lacks_cache() -> Option<&'static str> {
    let is_wanted = env::var_os(CACHE).is_some_and(|folder| !folder.is_empty());
    (is_wanted && cache_bytes().is_none())
        .then_some("ZINC_CACHE_SIZE is not a size: a number, or one with K, M, G or T")
}

/// A number, of KiB, MiB, GiB or TiB if the letter for it follows.
fn size_of(text: &str) -> Option<u64> {
    let unit = "KMGT".find(text.chars().last()?.to_ascii_uppercase());
    let digits = if unit.is_some() { text.get(..text.len() - 1)? } else { text };
    let factor = 1_u64 << unit.map_or(0, |at| 10 * (at + 1));
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn patience(name: &Name) -> Duration {
    name.silence
}

/// A new disk of a size, in a store that keeps writers apart; its segments may take `limit` bytes.
///
/// # Errors
/// Why there can be none.
pub fn new_disk(size: u64, limit: Option<u64>) -> Result<Superblock, String> {
    if size == 0 || !size.is_multiple_of(u64::from(SECTOR_BYTES)) {
        return Err(format!("the size of a disk is a multiple of {SECTOR_BYTES} bytes"));
    }
    let least = Superblock::limit_least(size, SEGMENT_BYTES);
    if limit.is_some_and(|limit| limit < least) {
        return Err(format!(
            "a limit for a disk of {size} bytes is at least {least}: its size, a quarter more for \
             garbage, and 256 MiB"
        ));
    }
    Ok(Superblock {
        size,
        sector: SECTOR_BYTES,
        target: SEGMENT_BYTES,
        window: WINDOW,
        is_fenced: true,
        made_by: format!("zinc {}", env!("CARGO_PKG_VERSION")),
        limit,
    })
}

/// Makes a new disk. The store is tried first when it is to keep writers apart.
///
/// # Errors
/// Why there is none.
pub fn create(name: &Name, is: &Superblock) -> Result<(), DiskError> {
    if let Some(above) = disk_above(name)? {
        return Err(DiskError::Within(above));
    }
    #[cfg(feature = "buckets")]
    if let Place::Bucket(bucket) = &name.place
        && let Some(rule) = crate::store::harmful_rule(bucket)
    {
        return Err(DiskError::Rule(rule));
    }
    if let Place::Folder(folder) = &name.place
        && let Err(e) = std::fs::create_dir(folder)
        && e.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(DiskError::Machine(format!("{}: {e}", folder.display())));
    }
    LogDevice::create(store(name)?, &Rt::real(), is, patience(name))
}

/// The disk among whose objects those of a store would be.
fn disk_above(name: &Name) -> Result<Option<String>, DiskError> {
    for above in name.above() {
        let found = store(&above).and_then(|s| log::has_disk(s, &Rt::real(), patience(name)));
        match found {
            Ok(true) => return Ok(Some(above.as_str().to_owned())),
            Err(e @ DiskError::Store(StoreError::Busy | StoreError::Lost)) => return Err(e),
            // What is there and no disk, or may not be looked at, is no concern of the new one.
            Ok(false) | Err(_) => {}
        }
    }
    Ok(None)
}

/// An object of a store that may have no disk; `None` when it is empty.
///
/// # Errors
/// What the store did.
pub fn any_object(name: &Name) -> Result<Option<String>, DiskError> {
    log::any_object(store(name)?, &Rt::real(), patience(name))
}

/// The writer that has a disk open, as far as can be known: it has not ended in order, and is not a
/// process of this machine that is gone.
///
/// # Errors
/// Why that cannot be known.
pub fn holder(name: &Name) -> Result<Option<WriterInfo>, DiskError> {
    let found = overview(name)?;
    let log = found.log?;
    let last = found.writers.into_iter().find(|writer| writer.epoch == log.epoch);
    Ok(last.filter(|writer| !log.is_closed && !is_gone(&writer.who)))
}

fn is_gone(who: &WriterId) -> bool {
    who.host == this_process().host && !Path::new(&format!("/proc/{}", who.pid)).exists()
}

/// Opens a disk for reading, as it is now.
///
/// # Errors
/// Why it cannot be had.
pub fn open(name: &Name) -> Result<Arc<LogDevice>, DiskError> {
    LogDevice::open(store(name)?, name.as_str(), &Rt::real(), options_with_cache(name))
}

/// Becomes the writer of a disk, for this program alone.
///
/// # Errors
/// Another program of this machine has it (`None`), or why it cannot be had.
pub fn claim(name: &Name) -> Result<Arc<LogDevice>, Option<DiskError>> {
    claim_with(name, options_with_cache(name))
}

/// The same to clean up: what is dead is not kept for readers without a pin.
///
/// # Errors
/// As for [`claim`].
pub fn claim_to_clean(name: &Name) -> Result<Arc<LogDevice>, Option<DiskError>> {
    let own = Options { grace: Duration::ZERO, is_tended: false, ..options(name) };
    claim_with(name, Options { seen: seen(name), ..own })
}

fn claim_with(name: &Name, options: Options) -> Result<Arc<LogDevice>, Option<DiskError>> {
    let taken = lock::take(name).map_err(|e| Some(DiskError::Machine(e.to_string())))?;
    let lock: File = taken.ok_or(None)?;
    let store = store(name).map_err(Some)?;
    LogDevice::claim(store, name.as_str(), &Rt::real(), options, Some(lock)).map_err(Some)
}

pub(crate) fn open_leaf(name: &Name) -> Result<DeviceRef, Error> {
    match open(name) {
        Ok(device) => Ok(device),
        Err(trouble) => Err(open_error(&trouble, name.as_str())),
    }
}

pub(crate) fn claim_leaf(name: &Name) -> Result<WriteDeviceRef, Error> {
    match claim(name) {
        Ok(device) => Ok(device),
        Err(Some(trouble)) => Err(open_error(&trouble, name.as_str())),
        Err(None) => Err(Error::open(ErrorKind::InUse, &Arc::from(name.as_str()))),
    }
}

/// What a disk is, and how much of it is used.
///
/// # Errors
/// Why it cannot be had.
pub fn overview(name: &Name) -> Result<Overview, DiskError> {
    Overview::of(store(name)?, &Rt::real(), patience(name), options(name).map_memory)
}

/// The disks of a bucket, in the order of their names.
///
/// # Errors
/// What the store says.
#[cfg(feature = "buckets")]
pub fn all_in(bucket: &Name) -> Result<Vec<Name>, DiskError> {
    let Place::Bucket(own) = &bucket.place else { return Ok(Vec::new()) };
    let found = crate::store::prefixes_with(own, log::format::SUPER_NAME)?;
    Ok(found.iter().filter_map(|prefix| bucket.in_bucket(prefix)).collect())
}

/// The disks of a bucket, in the order of their names.
///
/// # Errors
/// This program knows no buckets.
#[cfg(not(feature = "buckets"))]
pub fn all_in(bucket: &Name) -> Result<Vec<Name>, DiskError> {
    store(bucket).map(|_| Vec::new())
}

/// What a disk is, without a look at what it holds.
///
/// # Errors
/// Why it cannot be had.
pub fn superblock(name: &Name) -> Result<Superblock, DiskError> {
    log::superblock(store(name)?, &Rt::real(), patience(name))
}

/// Verifies everything that the disk has in its store; `seen` is told of the bytes of each segment.
///
/// # Errors
/// Why it cannot be had.
pub fn check(name: &Name, seen: impl FnMut(u64)) -> Result<Report, DiskError> {
    log::check(store(name)?, &Rt::real(), patience(name), options(name).map_memory, seen)
}

/// Keeps the present state from being deleted.
///
/// # Errors
/// Why it cannot be had.
pub fn pin(name: &Name) -> Result<PinInfo, DiskError> {
    let Options { map_memory, who, .. } = options(name);
    log::pin(store(name)?, &Rt::real(), patience(name), map_memory, &who)
}

/// Takes a pin back; false when there is none of that name.
///
/// # Errors
/// What the store did.
pub fn unpin(name: &Name, pin: &str) -> Result<bool, DiskError> {
    log::unpin(store(name)?, &Rt::real(), patience(name), pin)
}

/// Copies a disk as it is now into a new file, with holes where it has nothing; `seen` is told of
/// the bytes of each piece.
///
/// # Errors
/// Why it cannot be had, or what became of the file.
pub fn copy_out(name: &Name, to: &Path, mut seen: impl FnMut(u64)) -> Result<(), DiskError> {
    let device = open(name)?;
    let fail = |e: std::io::Error| DiskError::Machine(format!("{}: {e}", to.display()));
    let file = File::options().write(true).create_new(true).open(to).map_err(fail)?;
    file.set_len(device.size()).map_err(fail)?;
    let mut at = 0;
    while at < device.size() {
        let len = PIECE.min(usize::try_from(device.size() - at).unwrap_or(PIECE));
        let bytes = device.read_new(at, len).map_err(|e| DiskError::Machine(e.to_string()))?;
        for (from, part) in filled(&bytes) {
            file.write_all_at(part, at + from).map_err(fail)?;
        }
        at += len as u64;
        seen(len as u64);
    }
    file.sync_all().map_err(fail)
}

/// Copies a file or disk of this machine onto a disk; what was there is there no more, also behind
/// the end of the file. `seen` is told of the bytes of each piece.
///
/// # Errors
/// It does not fit, cannot be read, or what the store did.
pub fn copy_in(
    from: &Path,
    device: &LogDevice,
    mut seen: impl FnMut(u64),
) -> Result<(), DiskError> {
    let lost = |e: Error| DiskError::Machine(e.to_string());
    let source = LocalDevices::default().open(from).map_err(lost)?;
    let size = source.size();
    if size > device.size() || !size.is_multiple_of(u64::from(SECTOR_BYTES)) {
        return Err(DiskError::Machine(format!(
            "{} does not fit: it has {size} bytes, and the disk {}, in sectors of {SECTOR_BYTES}",
            from.display(),
            device.size()
        )));
    }
    device.trim(0, device.size()).map_err(lost)?;
    let mut at = 0;
    while at < size {
        let len = PIECE.min(usize::try_from(size - at).unwrap_or(PIECE));
        let piece = source.read_new(at, len).map_err(lost)?;
        for (skipped, part) in filled(&piece) {
            device.write(at + skipped, part).map_err(lost)?;
        }
        at += len as u64;
        seen(len as u64);
    }
    device.flush().map_err(lost)
}

/// The parts of some bytes that are not all zero, and where they begin.
fn filled(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let parts = bytes.chunks(HOLE).enumerate().map(|(n, part)| ((n * HOLE) as u64, part));
    parts.filter(|(_, part)| !device::is_zero(part))
}
