//! Attributes as the kernel has them.

use engine::files::{FileKind, Time};
use engine::{Filesystem, Node};
use fuser::{FileAttr, FileType, Generation, INodeNo};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bits of a mode that give their owner's rights to a user who runs the file.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const GROUP_RUNS: u32 = 0o010;

/// The clock, as files have it.
pub(crate) fn now() -> Time {
    time(SystemTime::now())
}

/// A moment as files have it.
pub(crate) fn time(at: SystemTime) -> Time {
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => Time {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: u64::from(since.subsec_nanos()),
        },
        Err(before) => {
            let before = before.duration();
            let nanos = before.subsec_nanos();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match nanos {
                0 => Time { seconds: -seconds, nanos: 0 },
                n => Time {
                    seconds: (-seconds).saturating_sub(1),
                    nanos: (1_000_000_000 - n).into(),
                },
            }
        }
    }
}

/// A moment as the system has it; what it cannot have is the first one it can.
fn system_time(t: Time) -> SystemTime {
    let nanos = Duration::from_nanos(t.nanos.min(999_999_999));
    let whole = Duration::from_secs(t.seconds.unsigned_abs());
    let at = match t.seconds < 0 {
        true => UNIX_EPOCH.checked_sub(whole),
        false => UNIX_EPOCH.checked_add(whole),
    };
    at.and_then(|at| at.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// The type of a file; `None` for one that no system has.
pub(crate) fn file_type(kind: FileKind) -> Option<FileType> {
    Some(match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Dir => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::Block => FileType::BlockDevice,
        FileKind::Char => FileType::CharDevice,
        FileKind::Unknown => return None,
    })
}

/// A device's numbers in one word, as Linux has it between kernel and programs.
fn device_word((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12)
}

/// The numbers of such a word: major and minor.
pub(crate) fn device_numbers(word: u32) -> (u32, u32) {
    ((word >> 8) & 0xfff, (word & 0xff) | ((word >> 12) & 0xf_ff00))
}

/// The attributes of a file; `None` for one of a kind that no system has.
pub(crate) fn attributes(node: &Node) -> Option<FileAttr> {
    /// Programs take this as the best size of their reads and writes.
    const BLOCKS: std::ops::RangeInclusive<u64> = 4096..=1 << 20;
    let block = node.stored().block_size.next_power_of_two();
    Some(FileAttr {
        ino: INodeNo(node.number()),
        size: node.size,
        blocks: node.blocks(),
        atime: system_time(node.atime),
        mtime: system_time(node.mtime),
        ctime: system_time(node.ctime),
        crtime: system_time(node.crtime),
        kind: file_type(node.kind())?,
        perm: node.permissions() as u16,
        nlink: u32::try_from(node.links).unwrap_or(u32::MAX),
        uid: Filesystem::linux_id(node.uid),
        gid: Filesystem::linux_id(node.gid),
        rdev: device_word(node.device()),
        blksize: block.clamp(*BLOCKS.start(), *BLOCKS.end()) as u32,
        flags: 0,
    })
}

/// Which of all files that have or had this number it is.
pub(crate) fn generation(node: &Node) -> Generation {
    Generation(node.generation)
}

/// The mode of a file whose content or owner is changed by a caller that may not keep what its
/// set-id bits give away; `None` when that is the mode it has.
pub(crate) fn without_set_ids(node: &Node) -> Option<u32> {
    if node.kind() == FileKind::Dir {
        return None;
    }
    let has = node.permissions();
    let mut mode = has & !SET_USER;
    if mode & GROUP_RUNS != 0 {
        mode &= !SET_GROUP;
    }
    (mode != has).then_some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_survive_the_way() {
        for (seconds, nanos) in [(0, 0), (1, 5), (-1, 0), (-1, 999_999_999), (-5, 1), (1 << 33, 7)]
        {
            let t = Time { seconds, nanos };
            assert_eq!(time(system_time(t)), t);
        }
    }

    #[test]
    fn devices_survive_the_way() {
        for numbers in [(0, 0), (8, 1), (0xfff, 0xf_ffff), (259, 300)] {
            assert_eq!(device_numbers(device_word(numbers)), numbers);
        }
    }
}
