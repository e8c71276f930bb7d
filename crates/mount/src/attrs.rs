//! Attributes as the kernel has them.

use crate::kernel::{FileAttr, INodeNo, file_type};
use engine::files::{FileKind, Time};
use engine::{Filesystem, Node};
use std::time::{SystemTime, UNIX_EPOCH};

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

/// The type of a file; `None` for one that no system has.
pub(crate) fn type_of(kind: FileKind) -> Option<u8> {
    Some(match kind {
        FileKind::File => file_type::REGULAR,
        FileKind::Dir => file_type::DIRECTORY,
        FileKind::Symlink => file_type::SYMLINK,
        FileKind::Fifo => file_type::FIFO,
        FileKind::Socket => file_type::SOCKET,
        FileKind::Block => file_type::BLOCK,
        FileKind::Char => file_type::CHAR,
        FileKind::Unknown => return None,
    })
}

/// The numbers of a device, major and minor, of the word that kernel and programs exchange.
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
        atime: node.atime,
        mtime: node.mtime,
        ctime: node.ctime,
        crtime: node.crtime,
        kind: type_of(node.kind())?,
        perm: node.permissions(),
        nlink: u32::try_from(node.links).unwrap_or(u32::MAX),
        uid: Filesystem::linux_id(node.uid),
        gid: Filesystem::linux_id(node.gid),
        device: node.device(),
        blksize: block.clamp(*BLOCKS.start(), *BLOCKS.end()) as u32,
    })
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
    use crate::kernel::device_word;
    use std::time::Duration;

    #[test]
    fn moments_before_1970_count_backwards() {
        let at = |millis: u64| time(UNIX_EPOCH - Duration::from_millis(millis));
        assert_eq!(at(0), Time { seconds: 0, nanos: 0 });
        assert_eq!(at(1000), Time { seconds: -1, nanos: 0 });
        assert_eq!(at(1500), Time { seconds: -2, nanos: 500_000_000 });
        let later = time(UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!(later, Time { seconds: 1, nanos: 500_000_000 });
    }

    #[test]
    fn devices_survive_the_way() {
        for numbers in [(0, 0), (8, 1), (0xfff, 0xf_ffff), (259, 300)] {
            assert_eq!(device_numbers(device_word(numbers)), numbers);
        }
    }
}
