//! Searching files and disks for labels.
//!
//! Each place is a directory (searched one level deep), a file or a block device. A device is
//! also searched for partitions (GPT) that have labels. A place that cannot be read
//! is reported and costs nothing else.

use crate::error::{Error, Result};
use device::gpt::Gpt;
use device::{DeviceRef, DeviceSource, ErrorKind};
use far::AnyDevices;
use ondisk::config::LabelConfig;
use ondisk::label::{self, DATA_START, END_SIZE, Part};
use ondisk::nvlist::NvList;
use rt::Rt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Smallest file of a directory that is looked at, in bytes. OpenZFS makes no vdev below 64 MiB,
/// but an image may have been cut short.
pub(crate) const FILE_SIZE_MIN: u64 = DATA_START + END_SIZE + 1;

/// Devices looked at at the same time, at most. They wait for disks, not for processors.
pub(crate) const SEARCHERS: usize = 16;

/// Where and how to search.
#[derive(Clone)]
pub struct SearchOptions {
    /// Directories, files and devices; empty: the usual places for devices.
    pub paths: Vec<PathBuf>,
    /// Opens them.
    pub source: Arc<dyn DeviceSource>,
    /// A place that cannot be opened is left out, as a device that is away, and is not an error.
    pub leaves_out: bool,
}

impl Default for SearchOptions {
    /// The usual places of this machine.
    fn default() -> Self {
        Self { paths: Vec::new(), source: Arc::new(AnyDevices::default()), leaves_out: false }
    }
}

/// One of the four labels of a device.
#[derive(Clone, Debug)]
pub struct LabelView {
    /// 0 to 3.
    pub index: usize,
    /// Byte offset on the device.
    pub offset: u64,
    /// Its configuration, or why there is none.
    pub config: std::result::Result<LabelConfig, String>,
    /// The configuration as stored.
    pub nvlist: Option<NvList>,
    /// A configuration is there, but its checksum is not that of it.
    pub is_altered: bool,
    /// Why nothing is known of what is there.
    pub unread: Option<device::Error>,
}

/// A device with at least one readable label.
#[derive(Clone)]
pub struct FoundLeaf {
    /// The device, open for reading.
    pub device: DeviceRef,
    /// Where it was found; for a partition the disk's path with the partition's number.
    pub path: PathBuf,
    /// Its labels.
    pub labels: Vec<LabelView>,
    /// The configuration of the label with the highest txg.
    pub config: LabelConfig,
}

/// Where devices usually are.
#[must_use]
pub fn default_search_paths() -> Vec<PathBuf> {
    let usual = ["/dev/disk/by-vdev", "/dev/disk/by-id", "/dev/disk/by-path", "/dev"];
    usual.iter().map(PathBuf::from).filter(|p| p.is_dir()).collect()
}

/// Searches all places. Errors are only about places that were named and cannot be read at all.
pub fn scan(options: &SearchOptions) -> Result<Vec<FoundLeaf>> {
    let named = !options.paths.is_empty();
    let paths = if named { options.paths.clone() } else { default_search_paths() };
    let mut files = Vec::new();
    for path in &paths {
        match options.source.list(path, FILE_SIZE_MIN) {
            Ok(found) => files.extend(found),
            Err(cause) if named => return Err(unsearchable(path, cause)),
            Err(_) => {}
        }
    }
    // The same device under several names counts once.
    let mut seen = std::collections::HashSet::new();
    files.retain(|f| seen.insert(f.canonicalize().unwrap_or_else(|_| f.clone())));
    let found = Mutex::new(Vec::new());
    let workers = files.len().clamp(1, SEARCHERS);
    Rt::current().for_each_parallel(workers, files.iter().enumerate(), |(i, file)| {
        let leaves = match options.source.open(file) {
            Ok(device) => look_at(&device, file).map_err(|e| unsearchable(file, e))?,
            // Nothing is known of it, and of those that come next.
            Err(cause) if cause.kind.is_of_process() => return Err(unsearchable(file, cause)),
            // In a directory only those that can be opened count.
            Err(cause) if paths.contains(file) && !options.leaves_out => {
                return Err(unsearchable(file, cause));
            }
            Err(_) => Vec::new(),
        };
        let mut all = found.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(leaves.into_iter().map(|l| (i, l)));
        Ok(())
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(i, _)| *i);
    Ok(found.into_iter().map(|(_, l)| l).collect())
}

/// Devices and files in these places that may not be read, so that what is on them is not known.
#[must_use]
pub fn denied(options: &SearchOptions) -> Vec<PathBuf> {
    let named = !options.paths.is_empty();
    let paths = if named { options.paths.clone() } else { default_search_paths() };
    let files = paths.iter().filter_map(|path| options.source.list(path, FILE_SIZE_MIN).ok());
    // A device is opened as a search opens it: what took its place by now, such as a pipe, is not
    // waited for.
    let may_not = |e: device::Error| match e.kind {
        ErrorKind::Io { errno } => {
            std::io::Error::from_raw_os_error(errno).kind() == std::io::ErrorKind::PermissionDenied
        }
        _ => false,
    };
    files.flatten().filter(|f| options.source.open(f).is_err_and(may_not)).collect()
}

fn unsearchable(path: &Path, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Search { path: path.to_owned(), cause: cause.into() }
}

/// The device itself and its partitions: a disk that was once used whole and has a partition table
/// now may still have labels at its end, and they must not hide what is in the partitions.
fn look_at(device: &DeviceRef, path: &Path) -> std::result::Result<Vec<FoundLeaf>, device::Error> {
    let look = |device: &DeviceRef, path: PathBuf| {
        let labels = read_labels(device);
        let mut unread = labels.iter().filter_map(|label| label.unread.as_ref());
        match unread.find(|e| e.kind.is_of_process()) {
            Some(e) => Err(e.clone()),
            None => Ok(leaf_of(device, path, labels)),
        }
    };
    let mut out: Vec<_> = look(device, path.to_owned())?.into_iter().collect();
    let Ok(Some(table)) = Gpt::read(device.as_ref()) else { return Ok(out) };
    for part in table.zfs() {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("#{}", part.number));
        let window: DeviceRef = Arc::new(part.open(device));
        out.extend(look(&window, PathBuf::from(name))?);
    }
    Ok(out)
}

/// Reads the labels of one device; `None` when none of them holds a configuration.
#[must_use]
pub fn look_at_device(device: &DeviceRef, path: PathBuf) -> Option<FoundLeaf> {
    leaf_of(device, path, read_labels(device))
}

fn leaf_of(device: &DeviceRef, path: PathBuf, labels: Vec<LabelView>) -> Option<FoundLeaf> {
    let best = labels
        .iter()
        .filter_map(|l| l.config.as_ref().ok())
        .max_by_key(|c| match c {
            LabelConfig::Member(m) => m.txg,
            LabelConfig::Aux(_) => 0,
        })?
        .clone();
    Some(FoundLeaf { device: Arc::clone(device), path, labels, config: best })
}

/// Reads all labels of a device, whatever they hold.
#[must_use]
pub fn read_labels(device: &DeviceRef) -> Vec<LabelView> {
    let Some(offsets) = label::label_offsets(device.size()) else { return Vec::new() };
    let at = |o: u64| (o + Part::Config.start(), Part::Config.size() as usize);
    let ranges: Vec<_> = offsets.iter().map(|o| at(*o)).collect();
    let blocks = device::read_batch(device.as_ref(), &ranges);
    let mut out = Vec::with_capacity(label::LABELS);
    for ((index, offset), block) in offsets.into_iter().enumerate().zip(blocks) {
        let mut is_altered = false;
        let unread = block.as_ref().err().cloned();
        let list = block.map_err(|e| e.to_string()).and_then(|b| {
            let sum = codec::checksum::verify_label(&b, offset + Part::Config.start());
            let list = label::decode_nvlist(&b);
            is_altered = sum.is_err() && list.is_ok();
            sum.map_err(|e| e.to_string())?;
            list.map_err(|e| e.to_string())
        });
        let config = list
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|l| LabelConfig::decode(l).map_err(|e| e.to_string()));
        out.push(LabelView { index, offset, config, nvlist: list.ok(), is_altered, unread });
    }
    out
}
