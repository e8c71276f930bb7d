//! What works with a file or disk right now, as the system tells it: mounts, swap, mappings above a
//! disk, loop devices above a file.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// What has it, as a sentence; `None` when nothing is known to.
pub fn of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let found = fs::metadata(&path).ok()?;
    if listed("/proc/swaps", 0, &path).is_some() {
        return Some("it is in use as swap".to_owned());
    }
    if !found.file_type().is_block_device() {
        return None;
    }
    if let Some(line) = listed("/proc/self/mounts", 0, &path) {
        let target = line.split_whitespace().nth(1).unwrap_or_default();
        return Some(format!("it is mounted on {target}"));
    }
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let holders = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/holders"));
    let holder = fs::read_dir(holders).ok()?.flatten().next()?;
    Some(format!("{} is made of it", holder.file_name().to_string_lossy()))
}

/// The line of a table of the system whose word number `column` is this path.
fn listed(table: &str, column: usize, path: &Path) -> Option<String> {
    let text = fs::read_to_string(table).ok()?;
    let is_it = |line: &&str| {
        let word = line.split_whitespace().nth(column).map(Path::new);
        word.is_some_and(|w| w == path || w.canonicalize().is_ok_and(|c| c == path))
    };
    text.lines().filter(|l| l.starts_with('/')).find(is_it).map(str::to_owned)
}

/// The loop device that shows this file as a disk.
pub fn loop_above(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    fs::read_dir("/sys/block").ok()?.flatten().find_map(|device| {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        let is_it = Path::new(backing.trim_end()) == path;
        is_it.then(|| device.file_name().to_string_lossy().into_owned())
    })
}
