//! The current users of a file or disk, as reported by the system: mounts, swap, mappings above a
//! disk, loop devices above a file, and processes that have it locked.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// How the system uses a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemUse {
    /// It swaps to it.
    Swap,
    /// It is mounted, on this directory.
    Mount(String),
    /// Another device, of this name, is made of it.
    PartOf(String),
}

/// How the system uses the device; `None` if no use is known.
#[must_use]
pub fn use_by_system(path: &Path) -> Option<SystemUse> {
    let path = path.canonicalize().ok()?;
    let found = fs::metadata(&path).ok()?;
    if listed("/proc/swaps", 0, &path).is_some() {
        return Some(SystemUse::Swap);
    }
    if !found.file_type().is_block_device() {
        return None;
    }
    if let Some(line) = listed("/proc/self/mounts", 0, &path) {
        let target = line.split_whitespace().nth(1).unwrap_or_default();
        return Some(SystemUse::Mount(target.to_owned()));
    }
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let holders = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/holders"));
    let holder = fs::read_dir(holders).ok()?.flatten().next()?;
    Some(SystemUse::PartOf(holder.file_name().to_string_lossy().into_owned()))
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
#[must_use]
pub fn loop_above(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    fs::read_dir("/sys/block").ok()?.flatten().find_map(|device| {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        let is_it = Path::new(backing.trim_end()) == path;
        is_it.then(|| device.file_name().to_string_lossy().into_owned())
    })
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The words of its command line; none when it may not be seen.
    pub command: Vec<Vec<u8>>,
}

impl Process {
    /// It was ended, and the system is not done with that: what it has is free in a moment. With
    /// much memory, or files that were deleted, that takes a while.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        /// Of the flags in the ninth field of `/proc/PID/stat`.
        const PF_EXITING: u64 = 4;
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return true };
        // The name of the command stands in parentheses, and may hold any.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let is_dead = matches!(fields.next(), Some("Z" | "X"));
        let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
        is_dead || flags.is_some_and(|flags| flags & PF_EXITING != 0)
    }
}

/// A file as the kernel's list of locks names it.
fn place_of(device: u64, inode: u64) -> String {
    format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// The process that has one of these devices locked. The kernel lists locks by file system and
/// inode.
#[must_use]
pub fn locked_by(paths: &[PathBuf]) -> Option<Process> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let files = paths.iter().filter_map(|p| fs::metadata(super::whole(p)).ok());
    let places: Vec<String> = files.map(|file| place_of(file.dev(), file.ino())).collect();
    let pid = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK");
        let (pid, place) = (words.nth(3)?, words.next()?);
        places.iter().any(|p| p == place).then(|| pid.parse::<u32>().ok()).flatten()
    })?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = command.split(|b| *b == 0).filter(|word| !word.is_empty());
    Some(Process { pid, command: words.map(<[u8]>::to_vec).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_listed_by_file_system_and_inode() {
        assert_eq!(place_of(rustix::fs::makedev(8, 17), 42), "08:11:42");
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().lock().unwrap();
        let process = locked_by(&[file.path().to_owned()]).unwrap();
        assert_eq!(process.pid, std::process::id());
        assert!(!process.command.is_empty());
    }

    #[test]
    fn a_process_that_was_ended_is_ending_until_it_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process { pid: child.id(), command: Vec::new() };
        assert!(!process.is_ending());
        child.kill().unwrap();
        // It stays in the list of processes until its parent asks for its end.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !process.is_ending() {
            assert!(std::time::Instant::now() < until, "it was killed");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert!(process.is_ending(), "it is gone");
    }
}
