//! Where a pool says that its devices are.
//!
//! A configuration names each leaf by the path that it had when the pool was last imported. On
//! another machine, or after a file was moved, that path is wrong: an import replaces it by the
//! path at which the device was found. A path that still leads to the same device is kept, because
//! it may be a better name (one of `/dev/disk/by-id` for one in `/dev`).

use super::config::{set_text, unset};
use crate::assemble::CandidateLeaf;
use ondisk::config::VdevConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Members that say where the device was on the machine that had it before.
pub(super) const OLD_PLACES: [&str; 3] = ["devid", "phys_path", "vdev_enc_sysfs_path"];

/// Gives every leaf below `vdev` the path at which it was found.
pub(super) fn adopt(vdev: &mut VdevConfig, found: &BTreeMap<u64, CandidateLeaf>) {
    // Depth is bounded: the configuration's decoder limits it.
    vdev.children.iter_mut().for_each(|child| adopt(child, found));
    let is_device = vdev.kind.has_device();
    let Some(sight) = found.get(&vdev.guid).filter(|_| is_device) else { return };
    let Some(path) = system_path(&sight.path) else { return };
    let old = vdev.path.as_deref();
    if old.is_some_and(|old| Path::new(old) == path || is_same(Path::new(old), &path)) {
        return;
    }
    let Some(text) = path.to_str() else { return };
    let mut moved = vdev.clone();
    let done = set_text(&mut moved, "path", text).and_then(|()| unset(&mut moved, &OLD_PLACES));
    if done.is_ok() {
        *vdev = moved;
    }
}

/// The path of a device that is not where it was known to be; `None` when it is.
pub(super) fn other_place(known: Option<&Path>, found: &Path) -> Option<String> {
    let path = system_path(found)?;
    let is_known = known.is_some_and(|known| is_place(known, &path));
    path.to_str().filter(|_| !is_known).map(str::to_owned)
}

/// A device was found where it was known to be, perhaps by another name of that place: a link, a
/// disk with the number of a partition.
pub(super) fn is_place(known: &Path, found: &Path) -> bool {
    let is_it = |path: PathBuf| known == path || is_same(known, &path);
    known == found || system_path(found).is_some_and(is_it)
}

/// The path by which the system knows a device: absolute, and for a partition (`DISK#N`, as it is
/// found by a search) that of its own device. `None` when there is no such path: a partition
/// within a file.
fn system_path(found: &Path) -> Option<PathBuf> {
    if far::is_far(found) {
        return Some(found.to_owned());
    }
    let absolute = std::path::absolute(found).ok()?;
    if absolute.exists() {
        return Some(absolute);
    }
    let (disk, number) = absolute.to_str()?.rsplit_once('#')?;
    let between = match disk {
        d if d.starts_with("/dev/disk/") => "-part",
        d if d.ends_with(|c: char| c.is_ascii_digit()) => "p",
        _ => "",
    };
    Some(PathBuf::from(format!("{disk}{between}{number}"))).filter(|p| p.exists())
}

/// What tells whether two names are of one file or device, also one of another machine.
///
/// # Errors
/// It cannot be looked at.
pub fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    if let Some(Ok(name)) = far::Name::parse(path) {
        let [a, b, c, d, e, f, g, h, ..] = name.identity();
        return Ok((u64::MAX - 1, u64::from_le_bytes([a, b, c, d, e, f, g, h])));
    }
    let found = std::fs::metadata(path)?;
    let is_block = found.file_type().is_block_device();
    Ok(if is_block { (u64::MAX, found.rdev()) } else { (found.dev(), found.ino()) })
}

/// Both names are of one file or device.
#[must_use]
pub fn is_same(a: &Path, b: &Path) -> bool {
    identity(a).is_ok_and(|one| identity(b).is_ok_and(|other| one == other))
}

/// The places of this machine in which the devices of a pool are.
pub(super) fn places(root: &VdevConfig) -> BTreeSet<PathBuf> {
    let paths = root.walk().filter(|v| v.kind.has_device()).filter_map(|v| v.path.as_deref());
    let near = paths.map(Path::new).filter(|p| p.is_absolute() && !far::is_far(p));
    near.filter_map(|p| p.parent().map(Path::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{DeviceRef, MemoryDevice};
    use ondisk::nvlist::{NvList, NvValue};
    use std::sync::Arc;

    fn leaf(path: &str) -> VdevConfig {
        let mut list = NvList::new();
        list.set("type", NvValue::String(b"disk".to_vec()));
        list.set("id", NvValue::U64(0)).set("guid", NvValue::U64(7));
        list.set("path", NvValue::String(path.as_bytes().to_vec()));
        list.set("devid", NvValue::String(b"ata-x".to_vec()));
        VdevConfig::decode(&list).unwrap()
    }

    fn found(path: &Path) -> BTreeMap<u64, CandidateLeaf> {
        let device: DeviceRef = Arc::new(MemoryDevice::zeros("disk", 1 << 20));
        BTreeMap::from([(
            7,
            CandidateLeaf { path: path.to_owned(), device: Some(device), txg: 1, newest_label: 1 },
        )])
    }

    #[test]
    fn a_path_that_leads_nowhere_is_replaced_with_what_belonged_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().join("disk");
        std::fs::write(&here, b"").unwrap();
        let mut vdev = leaf("/nowhere/disk");
        adopt(&mut vdev, &found(&here));
        assert_eq!(vdev.path.as_deref(), here.to_str());
        assert!(vdev.to_nvlist().get("devid").is_none());
    }

    #[test]
    fn another_name_of_the_same_device_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (here, link) = (dir.path().join("disk"), dir.path().join("by-id"));
        std::fs::write(&here, b"").unwrap();
        std::os::unix::fs::symlink(&here, &link).unwrap();
        let mut vdev = leaf(link.to_str().unwrap());
        adopt(&mut vdev, &found(&here));
        assert_eq!(vdev.path.as_deref(), link.to_str());
        assert!(vdev.to_nvlist().get("devid").is_some());
    }
}
